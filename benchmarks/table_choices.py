"""Numbers that choose how whole tables are synthesized, fitted to one half of the corpus and judged on it.

    python benchmarks/table_choices.py relations learning [--seeds 1] [--delta 0 1e-6] [--json FILE]
    python benchmarks/table_choices.py mending learning [--delta 1e-6]
    python benchmarks/table_choices.py one-noise learning --seeds 1 [--delta 1e-6] [--values 3]

`relations` measures all pairs, no pair and a chosen forest. On the learning half it fits the numbers of
`noisy_tables.EXPECTED` and says what the choice by a fit to all *other* tables loses; on the other half it says what
the choice loses as it is.

`mending` measures what fitting again does to the mean and to the largest total variation, for thresholds of
`latent_classes.MISSED`, and with Laplace noise for numbers of further fits (`noisy_tables.AGAIN`): the ratio to the
same fit without. On the learning half it says what each table loses by the one that is best, in the mean of both
logarithms, for all others.

`one-noise` measures all pairs with noise of each table and of all tables at once, where that is taken; with `--values`,
of columns of at most so many values.
Neighbors replace one record; the number of rows is public. Noise is seeded, hence not private: the tables are public.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.optimize import minimize

import corpus
from dpconvex.algorithms.queries import latent_classes, noisy_tables, noisy_tree
from dpconvex.data import TableCells
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource
from whole_tables import shown, variations


def of_corpus(half: str, epsilons: list[float], deltas: list[float], seeds: int) -> list[dict]:
    """Mean total variation of the three designs, a row a table and budget."""
    rows = []
    for name in corpus.LEARNING if half == "learning" else corpus.HELD_OUT:
        table = corpus.load(name)
        cells = TableCells.of_schema(table.schema)
        codes, n, columns = cells.encode(table.frame), len(table.frame), len(cells.shape)
        queries = Marginals(cells.shape, Marginals.of_order(cells.shape, 2).subsets, center=columns - 1)
        truth = queries.record_sums(codes) / n
        if columns < 4:
            continue  # no forest to choose
        for delta, epsilon in product(deltas, epsilons):
            privacy = PrivacyParams(epsilon, delta)
            usual = {"all": "tables", "none": "auto"}
            plans = {k: noisy_tables.plan(queries, n, privacy, relations=k, noise=each) for k, each in usual.items()}
            plans["tree"] = noisy_tree.plan(queries, n, privacy)
            row = {"table": name, "n": n, "epsilon": epsilon, "delta": delta, "law": plans["all"].law}
            row |= {"noise": plans["all"].alone, "raw": plans["all"].raw, "center": plans["tree"].center is not None}
            row["chosen"] = min(plans, key=lambda kind: plans[kind].ranked)
            for kind, plan in plans.items() if 0.02 < row["raw"] < 4 else ():
                runs = [plan.run(codes, SeededSource(seed)).answers for seed in range(seeds)]
                row[kind] = float(np.mean([variations(queries, truth, answers)[0] for answers in runs]))
            if "tree" in row:
                rows.append(row)
                print(shown(row), flush=True)
    return rows


def with_pairs(half: str, values: float = np.inf) -> Iterator[tuple[str, np.ndarray, Marginals, np.ndarray]]:
    """Each table of a half of the corpus: its name, codes of its records, all pairs of columns, and their shares.

    Of columns of at most so many values.
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
    """Errors of all pairs with independent noise and with one of all tables, where that is smaller."""
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
    """Errors of fits to the same noisy tables of all pairs, a row a table, budget and seed."""
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
                answers = np.concatenate([model.marginal(subset).ravel() for subset in queries.subsets])
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


def fitted(kind: str, rows: list[dict]) -> np.ndarray:
    """Logarithms of relations and scale, and the powers of both noises (of `raw` for all pairs alone)."""
    start = np.array(
        {"all": (-9, 0.3, 0.65, 0.1), "none": (-2.8, -0.2, 0.75, 0.0), "tree": (-3.5, 0.3, 0.8, 0.0)}[kind]
    )
    free = np.array([kind != "all", True, True, kind == "all"])

    def loss(numbers: np.ndarray) -> float:
        full = np.where(free, numbers, start)
        off = np.array([np.log(forecast(full, row) / row[kind]) for row in rows])
        return float(np.mean(np.sqrt(1 + off**2 / 0.09) - 1) + 1e-3 * ((full - start) ** 2).sum())

    found = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 6000, "fatol": 1e-9, "xatol": 1e-5})
    return np.where(free, found.x, start)


def forecast(numbers: np.ndarray, row: dict) -> float:
    scale = np.exp(numbers[1]) * row["noise"] ** numbers[2] * row["raw"] ** max(numbers[3], 0.0)
    return float(np.hypot(np.exp(numbers[0]), scale))


def judge(rows: list[dict], learning: bool) -> None:
    """Print what the choice loses: on the learning half with each table left out of the fit."""
    kinds = ("all", "none", "tree")
    for law in ("laplace", "gaussian"):
        here, found = [row for row in rows if row["law"] == law], []
        if not here:
            continue
        for name in {row["table"] for row in here}:
            others = [row for row in here if row["table"] != name]
            numbers = {kind: fitted(kind, others) for kind in kinds} if learning else {}
            for row in (row for row in here if row["table"] == name):
                caution = {"tree": 1.0 if row["center"] else 1.1}
                guess = {kind: forecast(numbers[kind], row) * caution.get(kind, 1) for kind in numbers}
                chosen = min(guess, key=guess.__getitem__) if learning else row["chosen"]
                found.append((row[chosen] / row["none"], row[chosen] / min(row[kind] for kind in kinds), chosen))
        against, best, names = zip(*found, strict=True)
        mean, worse = np.exp(np.mean(np.log([against, best]), axis=1)), sum(ratio > 1.1 for ratio in against)
        print(f"{law}: over independent columns {mean[0]:.3f} (largest {max(against):.2f}, above 1.1 in {worse} of")
        print(
            f"  {len(against)}), over the best {mean[1]:.3f} (largest {max(best):.2f}); chosen {dict(Counter(names))}"
        )
        for kind in kinds if learning else ():
            relations, scale, *powers = fitted(kind, here)
            print(f"  {kind}: {np.exp(relations):.3f}, {np.exp(scale):.3f}, {powers[0]:.3f}, {powers[1]:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choice", choices=("relations", "mending", "one-noise"))
    parser.add_argument("half", choices=tuple(corpus.HALVES))
    parser.add_argument("--epsilon", nargs="+", type=float)
    parser.add_argument("--delta", nargs="+", type=float, default=[1e-6, 0.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--values", type=float, default=np.inf)
    parser.add_argument("--json")
    given = parser.parse_args()
    epsilons = given.epsilon or ([0.1, 0.3, 1, 3, 10] if given.choice == "one-noise" else [0.03, 0.1, 0.3, 1, 3])
    asked, learning = (given.half, epsilons, given.delta, given.seeds), given.half == "learning"
    if given.choice == "relations":
        rows = of_corpus(*asked)
        judge(rows, learning)
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
