"""Find from which noise on a target's range, found among those of many columns, is more often lost than found: `LOST`.

    python benchmarks/lost_ranges.py [--seeds 3] [--json FILE]
    python benchmarks/lost_ranges.py --parts [--seeds 3]
    python benchmarks/lost_ranges.py --alone [--seeds 4] [--json FILE]
    python benchmarks/lost_ranges.py --many [--half held_out] [--seeds 2] [--json FILE]
    python benchmarks/lost_ranges.py --offered [--half held_out] [--json FILE]

Without options: the regressions of the learning half, with all ranges left to the fit, under pure epsilon, with at most
20,000 records. Excess is the training loss above that of the best linear fit, as a share of the target's variance. It
is measured for ``auto`` and for a constant, which finds the target's range alone. It is printed by the deviation of an
octave's count, as a share of the records; then, for each share from which on the constant is taken, as a geometric mean
over cells; the last line judges each table by the share that is best for all other tables.

With ``--parts``: `auto` by the target's part of the epsilon for octaves, relative to the first part (all columns get
equal parts), and each table by the part that is best for all others. At most 6,000 records.

With ``--alone``: a constant finds the target's range alone, on 200, 600 and 2,000 records drawn from each table, with
each pair of values for `ALONE`. The loss is the squared distance from the mean, as a share of the target's variance,
and counts as at least a thousandth. Printed: its geometric mean, the share of cells above 1 and the largest loss, and
each table by the pair that is best for all others.

With ``--many``: the number targets of a half of `many_tables.py`, with excess as a share of a constant's. Printed: the
model wherever it is planned, the constant, and rules that take the constant above a deviation or below a number of
records times epsilon; for these the geometric mean over tables, the mean of shares cut at 3, and each table by the rule
that is best for all others.

With ``--offered``: the same targets with all ranges left to the fit (but [0, 1]), by the parts of found ranges that are
on offer (`OFFERED`): all of them, or where the noise is large the wide ones alone, for the target, the columns or both.
Printed, by records times epsilon: excess relative to all parts, as a geometric mean over tables, the mean excess as a
share of the target's variance, cells above 1.2 times a constant's excess, and the largest.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import corpus
import many_tables
import private_ranges
from dpconvex import PrivateLinearRegression
from dpconvex.algorithms.erm.two_stage import ranges

EPSILONS, MOST = (0.03, 0.1, 0.3, 1.0), 20_000
SHARES = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.25, 0.3, 9.0)
NAMES = [n for n in corpus.LEARNING if len(corpus.RECIPES[n].target.split()) == 3] + list(corpus.MORE_NUMBERS)


PARTS = (0.0, 1 / 3, 1 / 2)
OFFERED = {"all": (False, False), "target": (False, True), "columns": (True, False), "both": (True, True)}
"""Whether narrow parts of columns, and of the target, are kept back where the noise is large."""


def measured(name: str, seeds: int, most: int = MOST, labels: tuple[str, ...] = ("auto", "constant")) -> list[dict]:
    """Return a line for each epsilon and seed."""
    table = corpus.load(name)
    schema, n = table.schema.without_ranges(), min(len(table.y), most)
    frame, X, y = table.frame.iloc[:n], np.column_stack([table.X[:n], np.ones(n)]), table.y[:n]
    best = float(np.square(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y).mean())
    lines = []
    for epsilon in EPSILONS:
        for seed in range(seeds):
            line: dict[str, Any] = {"table": name, "epsilon": epsilon, "seed": seed}
            for label in labels:
                model = PrivateLinearRegression(epsilon, schema=schema, random_state=seed, algorithm=label).fit(frame)
                line[label] = (float(np.square(model.predict(frame) - y).mean()) - best) / float(y.var())
                if label == "auto":
                    line["chosen"] = model.plan_.algorithm
                    line["share"] = ranges.octaves_off(epsilon, n, len(schema.unranged) + 1)
            lines.append(line)
    return lines


PAIRS = ((0.02, 0.2), (0.02, 0.5), (0.04, 0.35), (0.04, 0.5), (0.04, 0.65), (0.08, 0.5))
"""Values of `ALONE` that are compared; the first pair holds the values for the octaves of all columns."""


def alone(seeds: int) -> list[dict[str, Any]]:
    """Return a line for each fit; print what each pair loses, and each table by the best pair for the others."""
    lines = []
    for name in NAMES:
        table = corpus.load(name)
        schema = replace(table.schema.without_ranges(), columns=table.schema.columns[:1])
        for n, epsilon in product([n for n in (200, 600, 2000) if n <= len(table.y)], (0.05, 0.1, 0.3)):
            chosen = np.random.default_rng(1).permutation(len(table.y))[:n]
            frame, y = table.frame.iloc[chosen], table.y[chosen]
            for pair, seed in product(PAIRS, range(seeds)):
                ranges.ALONE = pair
                model = PrivateLinearRegression(epsilon, schema=schema, random_state=seed, algorithm="constant")
                loss = float((model.fit(frame).predict(frame[:1])[0] - y.mean()) ** 2 / y.var())
                lines.append({"table": name, "n": n, "epsilon": epsilon, "pair": pair, "seed": seed, "loss": loss})
    logs = {pair: defaultdict[str, list[float]](list) for pair in PAIRS}
    for line in lines:
        logs[line["pair"]][line["table"]].append(np.log(max(line["loss"], 1e-3)))
    for n, epsilon, pair in product((200, 600, 2000), (0.05, 0.1, 0.3), PAIRS):
        own = np.array([x["loss"] for x in lines if (x["n"], x["epsilon"], x["pair"]) == (n, epsilon, pair)])
        mean = np.exp(np.log(np.maximum(own, 1e-3)).mean())
        print(
            f"n {n}, epsilon {epsilon:g}, {pair}: {mean:.3g}, above 1 {np.mean(own > 1):.2f}, largest {own.max():.3g}"
        )
    means = {pair: {name: np.mean(found) for name, found in each.items()} for pair, each in logs.items()}
    left = []
    for name in means[PAIRS[0]]:
        best = min(PAIRS, key=lambda pair: np.mean([m for other, m in means[pair].items() if other != name]))
        left.append((best, means[best][name] - means[PAIRS[0]][name]))
    gains = np.array([gain for _, gain in left])
    mean, error = np.exp(gains.mean()), gains.std() / len(gains) ** 0.5
    print(f"left out, over {PAIRS[0]}: {mean:.3f} (s.e. of the logarithm {error:.2f})")
    print({pair: sum(best == pair for best, _ in left) for pair in PAIRS})
    return lines


def parts(seeds: int) -> None:
    """Print what each part loses, and each table by the part that is best for the others."""
    logs = {}
    for part, name in product(PARTS, NAMES):
        ranges.TARGET_PART = part
        found = [line["auto"] for line in measured(name, seeds, 6_000, ("auto",)) if line["chosen"] != "constant"]
        logs[part, name] = np.log(np.maximum(found, 1e-3)).mean() if found else np.nan
        print(part, name, np.round(found, 3).tolist(), flush=True)
    table = np.array([[logs[part, name] for name in NAMES] for part in PARTS])
    table = table[:, ~np.isnan(table[0])] - table[0][~np.isnan(table[0])]
    print("over equal parts:", dict(zip(PARTS, np.exp(table.mean(1)).round(3), strict=True)))
    best = [np.delete(table, k, 1).mean(1).argmin() for k in range(table.shape[1])]
    left = table[best, np.arange(table.shape[1])]
    error = left.std() / len(left) ** 0.5
    print(f"left out: {np.exp(left.mean()):.3f} (s.e. of the logarithm {error:.2f}), chosen {np.bincount(best)}")


NEVER, ALWAYS = (np.inf, 0.0), (0.0, np.inf)
RULES = [(0.16, 0.0), *product((0.16, 0.12, 0.08), (300.0, 400.0, 500.0, 700.0))]
"""Rules for `LOST`: a largest `octaves_off` and a least n epsilon. The first is the former rule."""


def many(half: str, seeds: int, path: Path | None) -> None:
    """Print what the rules lose on targets that a program chose, and each table by the rule that is best for others."""
    lines = []
    for task in (task for names in many_tables.tables(half) for task in many_tables.tasks(*names, MOST)):
        schema = private_ranges.without(task.schema, target=False)
        count = sum(one != own for one, own in zip(schema.columns, task.schema.columns, strict=True)) + 1
        if task.kind != many_tables.KINDS[2] or count < 2:
            continue
        for epsilon, seed in product((0.1, 0.3, 1.0), range(seeds)):
            n, coins = len(task.y), many_tables.checksum(f"{task.name} {seed}")
            line = {"table": task.name, "n": n, "epsilon": epsilon, "off": ranges.octaves_off(epsilon, n, count)}
            line |= {"constant": task.constant, "best": task.best}
            for name, rule in (("auto loss", NEVER), ("constant loss", ALWAYS)):
                ranges.LOST = rule
                model = PrivateLinearRegression(epsilon, schema=schema, random_state=coins).fit(task.frame)
                line[name] = many_tables.loss(task, model)
            lines.append(line)
    if path:
        path.write_text(json.dumps(lines))
    found = pd.DataFrame(lines)
    own = {name: many_tables.shares(found, found[f"{name} loss"]) for name in ("auto", "constant")}
    found, budget = found.assign(**own), found["n"] * found["epsilon"]
    for low, high in pairwise((0, 200, 300, 400, 500, 700, 1000, 1500, 3000, np.inf)):
        own = found[(budget >= low) & (budget < high) & (found["auto"] != found["constant"]) & (found["off"] <= 0.16)]
        if len(own):
            means = [(np.exp(logarithm(own[k]).mean()), own[k].clip(upper=3).mean()) for k in ("auto", "constant")]
            shown = [f"{geometric:.2f}, {mean:.2f}" for geometric, mean in means]
            print(f"n epsilon {low} to {high}, {own['table'].nunique()} tables: model {shown[0]}, constant {shown[1]}")
    shares = {
        (off, least): found["auto"].where((found["off"] <= off) & (budget >= least), found["constant"])
        for off, least in RULES
    }
    logs, cut = ({rule: map_(each) for rule, each in shares.items()} for map_ in (logarithm, lambda v: v.clip(upper=3)))
    table = pd.DataFrame({
        rule: (each - logs[RULES[0]]).groupby(found["table"]).mean() for rule, each in logs.items()
    })  # fmt: skip
    for rule, own in table.items():
        gain = (cut[rule] - cut[RULES[0]]).groupby(found["table"]).mean()
        print(rule, f"{np.exp(own.mean()):.3f} ({own.sem():.3f}), cut at 3 {gain.mean():+.3f} ({gain.sem():.3f})")
    best = [table.drop(index=name).mean().idxmin() for name in table.index]
    left = np.array([table.loc[name, rule] for name, rule in zip(table.index, best, strict=True)])
    print(f"each table by the others: {np.exp(left.mean()):.3f} ({left.std() / len(left) ** 0.5:.3f}), {Counter(best)}")


def offered(half: str, path: Path | None) -> None:
    """Print what fits lose that offer wide parts alone, relative to fits that offer all parts of found ranges."""
    lines, chosen, mode = [], ranges._chosen, "all"

    def offering(look: Any, counts: Any, halved: float, label: str, source: Any, ledger: Any, n: int = 0) -> Any:
        if label == ranges.CLOSER:  # the target's call has its n
            n = round(counts[: ranges.ranges.PARTS + 1].sum()) if len(counts) and OFFERED[mode][n > 0] else 0
        return chosen(look, counts, halved, label, source, ledger, n)

    ranges._chosen = offering
    for task in (task for names in many_tables.tables(half) for task in many_tables.tasks(*names, 6000)):
        if task.kind != many_tables.KINDS[2]:
            continue
        schema, coins = private_ranges.without(task.schema, target=False), many_tables.checksum(task.name)
        for epsilon in (0.3, 1.0, 3.0, 10.0):
            line: dict[str, Any] = {"table": task.name, "units": len(task.y) * epsilon}
            line |= {"unit": task.constant - task.best, "variance": task.constant}
            for mode in OFFERED:
                model = PrivateLinearRegression(epsilon, schema=schema, random_state=coins).fit(task.frame)
                if getattr(model.plan_, "closer", None) is None or model.plan_.algorithm == "constant":
                    break
                line[mode] = many_tables.loss(task, model) - task.best
            else:
                lines.append(line)
    if path:
        path.write_text(json.dumps(lines))
    found = pd.DataFrame(lines)
    shares = found[list(OFFERED)].div(found["unit"], axis=0).clip(lower=0.002)
    for low, high in ((0, np.inf), *pairwise((0, 600, 2000, 6000, np.inf))):
        here = (found["units"] >= low) & (found["units"] < high)
        logs = np.log(shares[here].div(shares["all"][here], axis=0)).groupby(found["table"][here]).mean()
        print(f"n epsilon {low} to {high}: {here.sum()} cells, {len(logs)} tables")
        for mode in OFFERED:
            lost = (found[mode] / found["variance"])[here].clip(upper=2).mean()
            ratio, worse = f"{np.exp(logs[mode].mean()):.3f} ({logs[mode].sem():.3f})", (shares[here][mode] > 1.2).sum()
            print(f"  {mode}: {ratio}, lost {lost:.4f}, above 1.2 {worse}, largest {shares[here][mode].max():.1f}")


def logarithm(shares: pd.Series) -> pd.Series:
    return np.log(shares.clip(lower=0.01))


def cost(lines: list[dict[str, Any]], share: float) -> float:
    """Return the mean logarithm of the excess where the constant is taken from that share on."""
    return float(np.mean([np.log(max(x["constant" if x["share"] >= share else "auto"], 1e-3)) for x in lines]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--offered", action="store_true")
    parser.add_argument("--half", choices=("learning", "held_out"), default="learning")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.offered:
        return offered(given.half, given.json)
    ranges.LOST = NEVER
    if given.many:
        return many(given.half, given.seeds, given.json)
    if given.parts:
        return parts(given.seeds)
    if given.alone:
        found = alone(given.seeds)
        if given.json:
            given.json.write_text(json.dumps(found))
        return
    every = [line for name in NAMES for line in measured(name, given.seeds)]
    if given.json:
        given.json.write_text(json.dumps(every, indent=1))
    lines = [line for line in every if line["chosen"] != "constant"]
    for low, high in (
        (0, 0.02),
        (0.02, 0.04),
        (0.04, 0.06),
        (0.06, 0.08),
        (0.08, 0.12),
        (0.12, 0.16),
        (0.16, 0.25),
        (0.25, 9),
    ):
        own = [line for line in lines if low <= line["share"] < high]
        for label in ("auto", "constant") if own else ():
            found = np.array([line[label] for line in own])
            print(f"{low:g} to {high:g}, {len(own)} cells: {label} {found.mean():.3g}, median {np.median(found):.3g}")
    for share in SHARES:
        print(f"from {share:g} on: geometric mean {np.exp(cost(lines, share)):.3f}")
    chosen = {name: min(SHARES, key=lambda s: cost([x for x in lines if x["table"] != name], s)) for name in NAMES}
    kept = [cost(own, chosen[name]) for name in NAMES if (own := [x for x in lines if x["table"] == name])]
    print(f"each table left out: shares {sorted(set(chosen.values()))}, geometric mean {np.exp(np.mean(kept)):.3f}")


if __name__ == "__main__":
    main()
