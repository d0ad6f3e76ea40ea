"""Fit the numbers that choose how whole tables are synthesized to learning tables, and judge the choices.

    python benchmarks/table_choices.py relations learning --json FILE [--tables corpus many] [--most 72]
    python benchmarks/table_choices.py relations held_out --json FILE --tables many [--most 40]
    python benchmarks/table_choices.py relations held_out --json FILE --tables keel --epsilon 0.1 0.3 1 3
    python benchmarks/table_choices.py forests learning
    python benchmarks/table_choices.py mending learning [--delta 1e-6]
    python benchmarks/table_choices.py trends learning --seeds 1 --epsilon 0.1 0.3 1 3 10 [--delta 1e-6]
    python benchmarks/table_choices.py one-noise learning --seeds 1 [--delta 1e-6] [--values 3]
    python benchmarks/table_choices.py zeros learning

`relations` measures four designs with one seed, in the bins that `PrivateSyntheticData` takes: all pairs, no pair, a
chosen forest, and pairs of groups. Tables are those of the corpus, those of `many_tables.py` with drafts as schemas and
a target drawn at random, and, if they are named, those of `keel_tables.py` (which have no halves). On the learning half
it fits what `noisy_tables.EXPECTED` says of no pair and of forests, and prints what the choice loses on each table by a
fit to all *other* tables; on the other half it prints what today's choice loses. The rows of FILE also hold what pairs
of columns tell of one another, so that looks at it can be simulated.

`forests` measures forests of several sizes and shares of the columns, by the noise of columns, to find the rule of
`noisy_tree.Tuning`.

`mending` measures how a second fit changes the mean and the largest total variation, for thresholds of
`latent_classes.MISSED`, and, with Laplace noise, for numbers of further fits (`noisy_tables.AGAIN`); it prints ratios
to fits without this. On the learning half it judges each table by the value that is best for all other tables, in the
mean of both logarithms.

`trends` measures what trends change (`latent_classes.SURE`): the mean and the largest total variation, and the error of
correlations of bins (the mean over pairs of columns of five bins and more; the mean over those beyond .3).

`steps` compares fits of a histogram, for few cells and little noise, after more and more steps.

`zeros` compares weights of impossible pairs of values in fits of latent classes (`latent_classes.ZERO_WEIGHT`), in
records drawn from these. The pairs are those that no record has though 20 and a share of .002 were expected of
independent columns: three of them drawn at random, or all.

`one-noise` compares independent noise of each table with one noise of all tables, for all pairs, where the latter is
taken; with `--values` only columns of at most this many values are taken.
Neighbors replace one record; the number of rows is public. Noise is seeded, hence not private: the tables are public.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import corpus
import keel_tables
import many_tables
from dpconvex import PrivateSyntheticData, Schema
from dpconvex.algorithms.queries import grouped_tables, latent_classes, noisy_tables, noisy_tree, released_tables
from dpconvex.algorithms.queries.found_bins import FoundBinsPlan
from dpconvex.data import TableCells
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource
from whole_tables import shown, variations

LEAST, ROWS = 1000, 15_000  #: Least number of records of a table; if it has more than ROWS, ROWS of them are drawn
FACTORS = (1, 2, 4, 16)  #: Times the fewest steps, in `steps`
WEIGHTS, ABSENT = (100.0, 10.0, 3.0, 1.0, 0.1), (20, 0.002)  #: In `zeros`: weights; least records and share expected
KNOWN: tuple[int, ...] = (15_992,)  #: Tables with this many records, versions of one in `exam_whole.py`, are left out


def drafted(half: str, most: int) -> Iterator[tuple[str, Schema, pd.DataFrame]]:
    """Yield at most `most` tables that a program chose, with drafts as schemas and targets drawn at random.

    They have 4 to 24 columns and 1,000 records or more; no two have the same number of records, for many tables are
    versions of one another.
    """
    sizes, taken = {*KNOWN, 0}, 0
    for package, item in sorted(many_tables.tables(half), key=lambda each: many_tables.checksum(" ".join(each))):
        if taken == most:
            return
        frame = many_tables.read(package, item)
        if len(frame) < LEAST or len(frame) in sizes:
            continue
        size = len(frame)
        frame = frame.sample(min(ROWS, len(frame)), random_state=0).reset_index(drop=True)
        draw = np.random.default_rng(many_tables.checksum(f"{package} {item}"))
        able = [name for name in frame.columns if many_tables.kind_of(frame[name])]
        target = able[draw.integers(len(able))] if able else None
        schema = many_tables.drafted(f"{package} {item}, {target}", frame, target)
        if schema is None:
            continue
        columns = tuple(many_tables.wider(column, draw) for column in schema.columns)
        schema = replace(schema, columns=columns)
        if 4 <= len(columns) + (target is not None) <= 24:
            sizes.add(size)
            taken += 1
            yield f"{package} {item}", schema, frame


def declared(half: str) -> Iterator[tuple[str, Schema, pd.DataFrame]]:
    """Yield the tables of the corpus, with the ranges that people wrote."""
    for name in corpus.HALVES[half]:
        table = corpus.load(name)
        if len(table.schema.columns) > 2:
            frame = table.frame.sample(min(ROWS, len(table.frame)), random_state=0).reset_index(drop=True)
            yield name, table.schema, frame


def binned(schema: Schema, frame: pd.DataFrame, privacy: PrivacyParams) -> tuple[Any, Any, PrivacyParams]:
    """Return records in the bins that `PrivateSyntheticData` has or finds, queries, and the rest of the promise."""
    private, n = PrivateSyntheticData(privacy.epsilon, privacy.delta, schema=schema), len(frame)
    plan, records = private.plan(n)[0], private.domain(n).encode(frame)
    if not isinstance(plan, FoundBinsPlan):
        return records, plan.queries, privacy
    found = plan._begun(records, None, SeededSource(0), Ledger(plan.privacy, plan.releases))
    return found.binned(records), plan.queries, plan.then.privacy


def cases(names: list[str], half: str, most: int) -> Iterator[tuple[str, Schema, pd.DataFrame]]:
    if "corpus" in names:
        yield from declared(half)
    if "many" in names:
        yield from drafted(half, most)
    if "keel" in names:
        made = map(keel_tables.table, keel_tables.KEEL)
        yield from ((each.name, each.schema, each.frame) for each in made if 3 < len(each.schema.columns) < 45)


def measured(
    tables: Iterator[tuple[str, Schema, pd.DataFrame]], epsilons: list[float], deltas: list[float], file: str
) -> list[dict]:
    """Return a row for each table and budget: mean total variation of the four designs, and relations of columns."""
    rows = []
    for name, schema, frame in tables:
        n = len(frame)
        for delta, epsilon in product(deltas, epsilons):
            codes, queries, privacy = binned(schema, frame, PrivacyParams(epsilon, delta))
            if sum(size > 1 for size in queries.shape) < 4:
                continue  # no forest to choose
            truth = queries.record_sums(codes) / n
            plans: Any = {k: noisy_tables.plan(queries, n, privacy, relations=k) for k in ("all", "none")}
            plans["tree"] = noisy_tree.plan(queries, n, privacy)
            if len(queries.shape) >= noisy_tables.MANY:
                with contextlib.suppress(InvalidParameterError):  # no column has more values
                    plans["groups"] = grouped_tables.plan(queries, n, privacy)
            every = plans["all"]
            row = {"table": name, "n": n, "epsilon": epsilon, "delta": delta, "joint": every.joint}
            row |= {"law": "gaussian" if every.law == "gaussian" else "laplace", "noise": every.alone, "raw": every.raw}
            row |= {"center": plans["tree"].center is not None, "chance": noisy_tables.by_chance(queries.shape, n)}
            row |= {"ranked": {kind: plan.ranked for kind, plan in plans.items()}, "shape": queries.shape}
            row["chosen"] = min(plans, key=lambda kind: plans[kind].ranked)
            row["relations"] = [round(each, 4) for each in told(queries, truth)]
            if 0.003 < row["raw"] < 4:
                for kind, plan in plans.items():
                    answers = plan.run(codes, SeededSource(0)).answers
                    row[kind], row[f"{kind} largest"] = variations(queries, truth, answers)
                rows.append(row)
                print(shown({k: v for k, v in row.items() if k not in ("relations", "ranked", "shape")}), flush=True)
        with open(file, "w", encoding="utf-8") as out:
            json.dump(rows, out)
    return rows


def told(queries: Marginals, truth: np.ndarray) -> list[float]:
    """Return the total variation between each pair's table and the product of its columns."""
    found = []
    for subset, block in zip(queries.subsets, queries.blocks, strict=True):
        if len(subset) == 2:
            table = truth[block].reshape([queries.shape[k] for k in subset])
            found.append(float(np.abs(table - np.outer(table.sum(1), table.sum(0))).sum() / 2))
    return found


def with_pairs(half: str, values: float = np.inf) -> Iterator[tuple[str, np.ndarray, Marginals, np.ndarray]]:
    """Yield each table of a half of the corpus: its name, codes of records, all pairs of columns, and their shares.

    Only columns of at most `values` values count.
    """
    for name in corpus.HALVES[half]:
        table = corpus.load(name)
        cells = TableCells.of_schema(table.schema)
        kept = [k for k, size in enumerate(cells.shape) if size <= values]
        if len(kept) < 2:
            continue
        codes = cells.encode(table.frame)[:, kept]
        queries = Marginals.of_order(tuple(cells.shape[k] for k in kept), 2)
        yield name, codes, queries, queries.record_sums(codes) / len(codes)


def one_noise(half: str, epsilons: list[float], deltas: list[float], seeds: int, values: float) -> list[dict]:
    """Return errors of all pairs with independent noise, and with one noise of all tables where this is smaller."""
    rows = []
    for name, codes, queries, truth in with_pairs(half, values):
        for delta, epsilon, seed in product(deltas, epsilons, range(seeds)):
            plans = {"auto": noisy_tables.plan(queries, len(codes), PrivacyParams(epsilon, delta), relations="all")}
            if len(queries.shape) < 4 or not plans["auto"].joint or not 0.003 < plans["auto"].raw < 4:
                continue
            plans["tables"] = noisy_tables.plan(
                queries, len(codes), plans["auto"].privacy, relations="all", noise="tables"
            )
            row = {"table": name, "epsilon": epsilon, "delta": delta, "seed": seed, "raw": plans["auto"].raw}
            for noise, plan in plans.items():
                row[noise], row[f"{noise} largest"] = variations(
                    queries, truth, plan.run(codes, SeededSource(seed)).answers
                )
            rows.append(row)
            print(shown(row), flush=True)
    for delta, what in product(deltas, ("", " largest")):
        ratios = np.log([row[f"auto{what}"] / row[f"tables{what}"] for row in rows if row["delta"] == delta])
        mean, error, most = ratios.mean(), ratios.std(ddof=1) / len(ratios) ** 0.5, np.exp(ratios.max())
        mean, error = np.exp(mean), np.exp(mean) * error
        print(f"delta {delta}, one noise over independent{what}: {mean:.3f} ({error:.3f}), at most {most:.2f}")
    return rows


VARIANTS = {"gaussian": ("MISSED", (np.inf, 1.5, 2.0, 2.5, 3.0)), "laplace": ("again", (0, 1, 2))}


def mending(half: str, epsilons: list[float], deltas: list[float], seeds: int) -> list[dict]:
    """Return a row for each table, budget and seed: errors of fits to the same noisy tables of all pairs."""
    rows, usual, fits = [], latent_classes.MISSED, latent_classes._fits
    for name, codes, queries, truth in with_pairs(half):
        for delta, epsilon, seed in product(deltas, epsilons, range(seeds)):
            privacy = PrivacyParams(epsilon, delta)
            plan = noisy_tables.plan(queries, len(codes), privacy, relations="all", noise="tables")
            if len(queries.shape) < 3 or plan.steps or not 0.02 < plan.raw < (1.5 if plan.law == "gaussian" else 4):
                continue
            released = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
            row = {"table": name, "epsilon": epsilon, "delta": delta, "law": plan.law, "raw": plan.raw, "seed": seed}
            found: list = []  # the fits of folds are the same for all thresholds
            if plan.law == "gaussian":
                latent_classes._fits = lambda *given, found=found: (found or found.append(fits(*given)) or found)[0]
            for value in VARIANTS[plan.law][1]:
                latent_classes.MISSED = value if plan.law == "gaussian" else usual
                fitting = plan.fitting if plan.law == "gaussian" else replace(plan.fitting, again=value)
                model = latent_classes.fit(released, fitting)
                answers = model.answers(queries.subsets)
                row[f"{value}"] = variations(queries, truth, answers)
            latent_classes.MISSED, latent_classes._fits = usual, fits
            rows.append(row)
            print(shown(row), flush=True)
    return rows


def judge_mending(rows: list[dict], learning: bool, law: str) -> None:
    rows, (name_, (without, *values)) = [row for row in rows if row["law"] == law], VARIANTS[law]
    if not rows:
        return
    ratios = {t: np.log([np.divide(row[f"{t}"], row[f"{without}"]) for row in rows]) for t in values}
    for t, found in ratios.items():
        mean, most, changed = np.exp(found.mean(axis=0)), np.exp(found.max(axis=0)), (found != 0).any(axis=1).sum()
        both = [f"{mean[k]:.3f} (at most {most[k]:.2f})" for k in range(2)]
        print(f"{law}, {name_} {t}: mean {both[0]}, largest {both[1]}; changed {changed} of {len(rows)}")
    own, out = np.array([row["table"] for row in rows]), []
    for name in np.unique(own) if learning else ():
        best = min(values, key=lambda t: ratios[t][own != name].mean())
        out.append(ratios[best][own == name])
    if out:
        print("each table by what is best for the others:", np.exp(np.concatenate(out).mean(axis=0)).round(3))


TRENDS = {"none": ((np.inf, np.inf), 3)}
TRENDS |= {
    f"{low:g} to degree {degree}": ((low, 4.0), degree) for degree, low in product((1, 2, 3), (2.0, 2.5, 3.0, 4.0))
}


def trends(half: str, epsilons: list[float], deltas: list[float], seeds: int) -> list[dict]:
    """Return a row for each table, budget and seed: errors of fits to the same noisy tables of all pairs."""
    rows, fits, usual = [], latent_classes._fits, (latent_classes.SURE, released_tables.SMOOTH)
    for name, codes, queries, truth in with_pairs(half):
        shape = queries.shape
        pairs = [subset for subset in queries.subsets if len(subset) == 2 and min(shape[k] for k in subset) >= 5]
        bins = {k: np.arange(size + 1) for k, size in enumerate(shape)}
        real = [correlation(np.histogram2d(codes[:, i], codes[:, j], [bins[i], bins[j]])[0]) for i, j in pairs]
        for delta, epsilon, seed in product(deltas, epsilons, range(seeds)):
            privacy = PrivacyParams(epsilon, delta)
            plan = noisy_tables.plan(queries, len(codes), privacy, relations="all", noise="tables")
            if (
                len(shape) < 3
                or not pairs
                or plan.steps
                or not 0.02 < plan.raw < (1.5 if plan.law == "gaussian" else 4)
            ):
                continue
            released = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
            row = {"table": name, "epsilon": epsilon, "delta": delta, "law": plan.law, "raw": plan.raw, "seed": seed}
            made: dict[int, Any] = {}  # the fits before trends are the same for all settings
            for label, (latent_classes.SURE, released_tables.SMOOTH) in TRENDS.items():
                calls = iter(range(9))
                latent_classes._fits = lambda *given, calls=calls, made=made: (
                    made[k] if (k := next(calls)) in made else made.setdefault(k, fits(*given))
                )
                model = latent_classes.fit(released, plan.fitting)
                answers = model.answers(queries.subsets)
                off = np.abs([correlation(model.marginal(pair)) for pair in pairs] - np.array(real))
                strong = off[np.abs(real) > 0.3]
                row[label] = [
                    *variations(queries, truth, answers),
                    off.mean(),
                    *([strong.mean()] if len(strong) else []),
                ]
            latent_classes._fits = fits
            latent_classes.SURE, released_tables.SMOOTH = usual
            rows.append(row)
            print(shown({key: value for key, value in row.items() if key not in TRENDS}), flush=True)
    return rows


def correlation(table: np.ndarray) -> float:
    table, bins = table / table.sum(), [np.arange(size) for size in table.shape]
    first, second = (values - table.sum(1 - k) @ values for k, values in enumerate(bins))
    spread = (table.sum(1) @ first**2) * (table.sum(0) @ second**2)
    return float(first @ table @ second / np.sqrt(max(spread, 1e-12)))


def judge_trends(rows: list[dict], learning: bool) -> None:
    """Print by law ratios to fits without trends, and each table's by the setting that is best for all others."""
    names = ("mean", "largest", "correlations", "strong ones")
    for law in sorted({row["law"] for row in rows}):
        own = [row for row in rows if row["law"] == law]
        tables = np.array([row["table"] for row in own])
        ratios = {}
        for label in list(TRENDS)[1:]:
            logs = [np.log(np.divide(row[label], row["none"])) for row in own]
            ratios[label] = np.array([[*each, *[np.nan] * (4 - len(each))] for each in logs])
            found = np.nanmean(ratios[label], axis=0), np.nanmax(ratios[label], axis=0)
            shown_ = ", ".join(
                f"{name} {np.exp(a):.3f} (at most {np.exp(b):.2f})" for name, a, b in zip(names, *found, strict=True)
            )
            print(f"{law}, {len(own)} cells, {label}: {shown_}")
        out = []
        for name in np.unique(tables) if learning else ():
            best = min(ratios, key=lambda each: np.nanmean(ratios[each][tables != name][:, [0, 3]]))
            out.append(ratios[best][tables == name])
        if out:
            print(
                law,
                "each table by what is best for the others:",
                np.exp(np.nanmean(np.concatenate(out), axis=0)).round(3),
            )


START = {"none": (-3.0, -0.1, 0.8, 0.4), "tree": (-4.0, -0.2, 0.65, 0.0)}
"""Start of the fits: logarithms of relations and scale, power of the noise of columns, and logarithm of chance."""


def fitted(rows: list[dict]) -> dict[str, np.ndarray]:
    """Return the numbers of both designs; tables count by the root of their cells.

    They have one power: with two, forests would be preferred where noise hides everything.
    """
    tables, found = Counter(row["table"] for row in rows), {}
    weights = np.array([tables[row["table"]] ** -0.5 for row in rows])
    for kind, start in START.items():
        power = found["none"][2] if found else None

        def full(numbers: np.ndarray, power: float | None = power) -> np.ndarray:
            return numbers if power is None else np.array([*numbers[:2], power, numbers[3]])

        def loss(numbers: np.ndarray, kind: str = kind, start: tuple = start, full: Callable = full) -> float:
            off = np.array([np.log(forecast(full(numbers), row) / row[kind]) for row in rows])
            near = 1e-4 * ((numbers - start) ** 2).sum()
            return float(np.average(np.sqrt(1 + off**2 / 0.09) - 1, weights=weights) + near)

        options = {"maxiter": 3000, "fatol": 1e-8, "xatol": 1e-4}
        found[kind] = full(minimize(loss, start, method="Nelder-Mead", options=options).x)
    return found


def forecast(numbers: np.ndarray, row: dict) -> float:
    relations, scale, power, chance = numbers
    noise = np.exp(scale) * row["noise"] ** power
    return noisy_tables.below_one(float(np.hypot(np.hypot(np.exp(relations), noise), np.exp(chance) * row["chance"])))


def choice(row: dict, numbers: dict[str, np.ndarray]) -> str:
    """Return the design that is chosen if no pair and forests expect what `numbers` say, and all else is as planned."""
    ranked = row["ranked"] | {kind: forecast(found, row) for kind, found in numbers.items()}
    return min(ranked, key=ranked.__getitem__)


def judge(rows: list[dict], learning: bool) -> None:
    """Print what the choice loses: on the learning half with each table left out of the fit."""
    for law in ("laplace", "gaussian"):
        here, found = [row for row in rows if row["law"] == law], []
        numbers: dict[str, np.ndarray] = {}
        for name in dict.fromkeys(row["table"] for row in here):
            if learning:
                numbers = fitted([row for row in here if row["table"] != name])
            for row in (row for row in here if row["table"] == name):
                kind = choice(row, numbers)
                best = min(row[each] for each in row["ranked"])
                found.append((name, kind, np.log(row[kind] / row["none"]), np.log(row[kind] / best)))
        result = pd.DataFrame(found, columns=["table", "chosen", "none", "best"])
        for what, name in (("none", "independent columns"), ("best", "the best design")):
            logs = result[what]
            spread = np.sqrt((logs - logs.mean()).groupby(result.table).sum().pow(2).sum()) / len(logs)
            print(f"{law}, {len(logs)} cells: over {name} {np.exp(logs.mean()):.3f} (standard error of the logarithm")
            print(f"  {spread:.3f}), largest {np.exp(logs.max()):.2f}, above 1.1 in {(np.exp(logs) > 1.1).sum()}")
        print(" ", dict(result.chosen.value_counts()))
        for kind, (relations, scale, power, chance) in fitted(here).items() if learning else ():
            print(f"  {kind}: {np.exp(relations):.4f}, {np.exp(scale):.3f}, {power:.3f}, 0, {np.exp(chance):.3f}")


COLUMNS, SIZES = (0.5, 0.65, 0.8, 0.9), (0.0, 0.25, 0.5, 0.75, 1.0)


def forests(tables: Iterator[tuple[str, Schema, pd.DataFrame]], epsilons: list[float], deltas: list[float]) -> None:
    """Print mean total variation of forests over that of no pair, by the noise of columns alone."""
    rows = []
    for (_, schema, frame), delta, epsilon in (
        (case, *budget) for case in tables for budget in product(deltas, epsilons)
    ):
        codes, queries, privacy = binned(schema, frame, PrivacyParams(epsilon, delta))
        n, truth = len(frame), queries.record_sums(codes) / len(frame)
        none = noisy_tables.plan(queries, n, privacy, relations="none")
        if sum(size > 1 for size in queries.shape) < 4 or not 0.002 < none.alone < 0.35:
            continue
        plans: Any = {"none": none, "rule": noisy_tree.plan(queries, n, privacy, center=False)}
        whole = noisy_tree.plan(queries, n, privacy, center=False, pairs=len(queries.shape))
        for size, part in product(SIZES, COLUMNS):
            shares = (part, 0.0, min(noisy_tree.TUNING.selection, (1 - part) / 3))
            plans[f"{size}, {part}"] = replace(whole, pairs=max(1, round(size * whole.pairs)), shares=shares)
        errors = {
            k: variations(queries, truth, plan.run(codes, SeededSource(0)).answers)[0] for k, plan in plans.items()
        }
        rows.append({"noise": none.alone, "delta": delta} | {k: np.log(e / errors["none"]) for k, e in errors.items()})
    found = pd.DataFrame(rows)
    place = pd.cut(found.noise, [0.002, 0.006, 0.015, 0.03, 0.06, 0.12, 0.35])
    for delta, part in found.groupby("delta"):
        means = part.drop(columns=["noise", "delta"]).groupby(place).mean().apply(np.exp)
        print(f"delta {delta}; size of the forest, share of the columns; columns: noise")
        print(means.round(3).T.to_string())


def steps(tables: Iterator[tuple[str, Schema, pd.DataFrame]], epsilons: list[float], deltas: list[float]) -> None:
    """Print total variation of pairs and of three columns by the steps of a histogram's fit, relative to the fewest."""
    found, names = [], set()
    for name, schema, frame in tables:
        for delta, epsilon in product(deltas, epsilons):
            codes, queries, privacy = binned(schema, frame, PrivacyParams(epsilon, delta))
            if sum(size > 1 for size in queries.shape) < 3:
                continue
            plan = noisy_tables.plan(queries, len(frame), privacy, relations="all")
            if not plan.steps:
                continue
            coins = SeededSource(many_tables.checksum(f"{name} {epsilon} {delta}"))
            noisy = plan.release(codes, coins, Ledger(plan.privacy, plan.releases))
            orders = [Marginals.of_order(queries.shape, order) for order in (2, 3)]
            truth, row = [each.record_sums(codes) / len(codes) for each in orders], []
            fewest = max(1, plan.steps // noisy_tables.SLOWER)
            for factor in FACTORS:
                vars(plan)["steps"] = factor * fewest
                model = plan.fitted(noisy)[0]
                for each, right in zip(orders, truth, strict=True):
                    answers = model.answers(each.subsets)
                    row.append(variations(each, right, answers)[0])
            found.append(np.log(row) - np.log(row[:2] * len(FACTORS)))
            names.add(name)
            print(f"{name}, epsilon {epsilon:g}, delta {delta:g}: {np.round(row, 4).tolist()}", flush=True)
    means = np.exp(np.mean(found, axis=0)).reshape(-1, 2)
    worst = np.exp(np.max(found, axis=0)).reshape(-1, 2)
    print(f"{len(found)} cells of {len(names)} tables; times the steps: pairs, three columns (worst)")
    for factor, mean, most in zip(FACTORS, means, worst, strict=True):
        print(f"{factor}: {mean[0]:.3f}, {mean[1]:.3f} ({most[0]:.2f}, {most[1]:.2f})")


def absent(queries: Marginals, truth: np.ndarray, n: int) -> list[Any]:
    """Return the pairs of values that none of n records has, though many were expected of independent columns."""
    found = []
    for (i, j), block in zip(queries.subsets, queries.blocks, strict=True):
        shares = truth[block].reshape(queries.shape[i], queries.shape[j])
        expected = np.outer(shares.sum(1), shares.sum(0))
        few = (shares == 0) & (expected > max(ABSENT[0] / n, ABSENT[1]))
        found += [((i, int(a)), (j, int(b))) for a, b in np.argwhere(few)]
    return found


def zeros(half: str, epsilons: list[float], deltas: list[float]) -> None:
    """Print total variation of pairs in drawn records by the weight of impossible pairs, relative to the first."""
    rows, usual = [], latent_classes.ZERO_WEIGHT
    for name, codes, queries, truth in with_pairs(half):
        found, draw = absent(queries, truth, len(codes)), np.random.default_rng(many_tables.checksum(name))
        if not found or len(queries.shape) < 3:
            continue
        few = [found[k] for k in draw.permutation(len(found))[:3]]
        for delta, epsilon, (which, pairs) in product(deltas, epsilons, {"three": few, "every": found}.items()):
            ruled, privacy = replace(queries, impossible=tuple(pairs)), PrivacyParams(epsilon, delta)
            plan = noisy_tables.plan(ruled, len(codes), privacy, relations="all", noise="tables")
            if not 0.003 < plan.raw < (1.5 if plan.law == "gaussian" else 4):
                continue
            coins = SeededSource(many_tables.checksum(f"{name} {epsilon} {delta}"))
            released = plan.release(codes, coins, Ledger(plan.privacy, plan.releases))
            row: dict[str, Any] = {"table": name, "law": plan.law, "pairs": which, "epsilon": epsilon, "raw": plan.raw}
            for weight in WEIGHTS:
                latent_classes.ZERO_WEIGHT = weight
                model = latent_classes.fit(released, plan.fitting, ruled.impossible)
                drawn = queries.record_sums(model.sample(len(codes), np.random.default_rng(0))) / len(codes)
                row[f"{weight:g}"] = variations(queries, truth, drawn)[0]
            latent_classes.ZERO_WEIGHT = usual
            rows.append(row)
            print(shown(row), flush=True)
    table = pd.DataFrame(rows)
    names = [f"{weight:g}" for weight in WEIGHTS]
    table[names] = np.log(table[names]).sub(np.log(table[names[0]]), axis=0)
    for keys in (["pairs", "law"], ["law"]):
        for key, part in table.groupby(keys):
            each = part.groupby("table")[names].mean()
            means, errors = np.exp(each.mean()), each.std() / len(each) ** 0.5
            each_weight = ", ".join(f"{name} {means[name]:.3f} ({errors[name]:.3f})" for name in names)
            print(key, f"{len(part)} cells, {len(each)} tables: {each_weight}")
            print("chosen by the others:", Counter(each.drop(left).mean().idxmin() for left in each.index))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choice", choices=("relations", "forests", "mending", "trends", "one-noise", "steps", "zeros"))
    parser.add_argument("half", choices=tuple(corpus.HALVES))
    parser.add_argument("--epsilon", nargs="+", type=float)
    parser.add_argument("--delta", nargs="+", type=float, default=[1e-6, 0.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--values", type=float, default=np.inf)
    parser.add_argument("--tables", nargs="+", choices=("corpus", "many", "keel"), default=["corpus", "many"])
    parser.add_argument("--most", type=int, default=72, help="how many tables of many_tables.py")
    parser.add_argument("--json")
    given = parser.parse_args()
    usual = {"one-noise": [0.1, 0.3, 1, 3, 10], "relations": [0.1, 0.3, 1, 3, 10], "forests": [0.1, 0.3, 1, 3]}
    epsilons = given.epsilon or usual.get(given.choice, [0.03, 0.1, 0.3, 1, 3])
    asked, learning = (given.half, epsilons, given.delta, given.seeds), given.half == "learning"
    if given.choice == "relations":
        judge(measured(cases(given.tables, given.half, given.most), epsilons, given.delta, given.json), learning)
        return
    if given.choice == "forests":
        forests(cases(given.tables, given.half, given.most), epsilons, given.delta)
        return
    if given.choice == "steps":
        steps(cases(given.tables, given.half, given.most), epsilons, given.delta)
        return
    if given.choice == "zeros":
        zeros(given.half, given.epsilon or [0.1, 0.3, 1, 3, 10], given.delta)
        return
    if given.choice == "trends":
        rows = trends(*asked)
        judge_trends(rows, learning)
    elif given.choice == "mending":
        rows = mending(*asked)
        for law in VARIANTS:
            judge_mending(rows, learning, law)
    else:
        rows = one_noise(*asked, given.values)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
