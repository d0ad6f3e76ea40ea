"""Compare what plans for users' classes lose with what they expect, with a delta and looks at declared ranges.

    python benchmarks/user_forecast.py [--rows 4000] [--seeds 1] [--tables NAME ...] [--json FILE]
    python benchmarks/user_forecast.py --few --seeds 2 [--json FILE]

Tables are learning tables of two classes, and learning tables with numbers, whose target says whether the number is
above a quantile, so that half, a fifth or 7 % of the records are positive. A user has three or ten records, which are
drawn at random or resemble one another. Forms: all columns as declared, all columns in ranges five times as wide, or
two columns drawn at random. Every method is planned as `auto` would if there were no other method, hence with looks at
ranges, and is fitted. Printed: the measured over the expected excess of each method, and the excess of the plan that
ranks first over that of the best method; both are geometric means over tables, with standard errors. An excess counts
as at least .0003 nats and .002 of a constant's (.0005 in the second figure). Fits are seeded, hence not private.

With ``--few`` there are at most 2,000 records of 400, 200 or 100 users, at epsilon .3, 1 and 3, and printed is what the
plan that ranks first loses if descents after a look rank by at least some factor times what they expect.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from corpus import HALVES, MANY_CLASSES, MORE_NUMBERS, load
from declared_ranges import declared
from dpconvex import PrivateLogisticRegression
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.gradient_descent.look import TUNING
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import Unit
from user_corpus import EPSILONS, users

DELTA, FEW, WIDER = 1e-6, 2, 4
METHODS = ("objective_perturbation", "noisy_gradient", "informed_gradient", "constant")
NAMES = [*(name for name in HALVES["learning"] if name not in MANY_CLASSES), *list(MORE_NUMBERS)[:3]]
FORMS = {  # records per user, and whether they resemble one another
    "declared": ((3, True), (10, False)), "wide": ((3, False), (10, True)), "two": ((3, False), (10, True)),
}  # fmt: skip


FEW_USERS, FEW_EPSILONS = ((5, False), (10, True), (20, True)), (0.3, 1.0, 3.0)


def table(name: str, rows: int) -> tuple[Any, Any]:
    """Return a frame and a schema of two classes."""
    found = load(name)
    assert found.frame is not None
    frame, schema = found.frame, found.schema
    frame = frame.iloc[np.random.default_rng(5).permutation(len(frame))[:rows]].reset_index(drop=True)
    if isinstance(schema.target, NumericTarget):
        y = np.asarray(schema.encode_target(frame), dtype=float)
        top = np.quantile(y, (0.5, 0.8, 0.93)[sum(map(ord, name)) % 3])
        frame = frame.assign(above_=np.where(y > top, "b", "a"))
        schema = replace(schema, target=ClassTarget("above_", ("a", "b")))
    return frame, schema


def cells(
    frame: Any, schema: Any, form: str, records: int, alike: bool, seeds: int, epsilons: Sequence[float]
) -> list[dict[str, Any]]:
    """Return, by epsilon and method, a plan's expected loss, its rank and its loss over the best linear model."""
    if form == "two":
        if len(schema.columns) <= FEW:
            return []
        some = np.sort(np.random.default_rng(7 + records).permutation(len(schema.columns))[:FEW])
        schema = replace(schema, columns=tuple(schema.columns[k] for k in some))
    X, y = schema.encode(frame), np.asarray(schema.encode_target(frame), dtype=float)
    of: Any = SimpleNamespace(X=X, y=y)
    owners = users(of, records, alike)
    _, codes, sizes = np.unique(owners, return_inverse=True, return_counts=True)
    n, weights = len(sizes), 1 / sizes[codes] / len(sizes)

    def loss(z: np.ndarray) -> float:
        return float(weights @ np.logaddexp(0, np.where(y > 0, -z, z)))

    rate = float(weights @ y)
    best = loss(LogisticRegression(C=1e6, max_iter=3000).fit(X, y, weights * len(y)).decision_function(X))
    unit = loss(np.full(len(y), np.log(rate / (1 - rate)))) - best
    given = declared(schema, "columns", 0, WIDER, 1) if form == "wide" else schema
    lines = []
    for epsilon in epsilons:
        line: dict[str, Any] = {"form": form, "epsilon": epsilon, "unit": unit, "records": records}
        for method in METHODS:
            vars(registry.ERM_METHODS)["names"] = lambda _, method=method: (method,)
            registry.plans.cache_clear()
            facts: dict[str, Any] = {"schema": given, "records_per_user": records}
            try:
                runs = []
                for seed in range(seeds):
                    model = PrivateLogisticRegression(epsilon, DELTA, random_state=seed, **facts)
                    model.fit(frame, groups=owners)
                    runs.append(loss(np.asarray(model.decision_function(frame), dtype=float)) - best)
                plan = PrivateLogisticRegression(epsilon, DELTA, **facts).plan(n, unit=Unit.USER)[0]
            except InvalidParameterError:
                continue
            own = {"expected": plan.predicted_error.expected, "rank": registry.cautious(plan)}
            line[method] = {**own, "loss": float(np.mean(runs))}
        lines.append(line)
    return lines


def shown(logs: Sequence[float], tables: Sequence[str]) -> str:
    of = {name: [log for log, each in zip(logs, tables, strict=True) if each == name] for name in tables}
    means = np.array([np.mean(each) for each in of.values()])
    return f"{np.exp(means.mean()):.2f} ({means.std() / len(means) ** 0.5:.2f})"


def report(lines: list[dict[str, Any]]) -> None:
    for form in FORMS:
        for epsilon in EPSILONS:
            own = [line for line in lines if (line["form"], line["epsilon"]) == (form, epsilon)]
            print(f"{form}, {epsilon:g}, lost over expected:", end="")
            for method in METHODS[:-1]:
                have = [line for line in own if method in line]
                logs = [
                    np.log(max(line[method]["loss"], 0.002 * line["unit"], 0.0003) / line[method]["expected"])
                    for line in have
                ]
                print(f" {method} {shown(logs, [line['table'] for line in have])}", end="")
            print()
        off, names = [], []
        for line in lines:
            if line["form"] == form:
                lost = {k: max(line[k]["loss"], 0.002 * line["unit"], 0.0005) for k in METHODS if k in line}
                first = min(lost, key=lambda k: line[k]["rank"])
                off.append(float(np.log(lost[first] / min(lost.values()))))
                names.append(line["table"])
        above = [int(np.sum(np.array(off) > np.log(limit))) for limit in (1.3, 2)]
        facts = f"median {np.exp(np.median(off)):.2f}, above 1.3 in {above[0]}, above 2 in {above[1]} of {len(off)}"
        print(f"{form}, first over best: {shown(off, names)}, {facts}, worst {np.exp(max(off)):.0f}", flush=True)


def ranked(line: dict[str, Any], least: float, few: float) -> tuple[float, float]:
    """Return the loss of the plan that ranks first over that of the best method, and over a constant's."""
    lost = {k: max(line[k]["loss"], 0.002 * line["unit"], 0.0005) for k in METHODS if k in line}
    rank = {k: line[k]["rank"] for k in lost}
    if "informed_gradient" in rank:  # twice what is expected, times its caution
        own = 2 * line["informed_gradient"]["expected"]
        caution = max(TUNING.caution / line["records"] ** 0.5, least * min(1.0, few / line["users"]))
        rank["informed_gradient"] = caution * own
    first = lost[min(rank, key=rank.__getitem__)]
    return first / min(lost.values()), first / lost["constant"]


def rules(lines: list[dict[str, Any]]) -> None:
    logs = {}
    for least, few in [(0.0, 1.0), *product((0.25, 0.3, 0.35, 0.4, 0.5), (150, 400, 1e9))]:
        found = np.array([ranked(line, least, few) for line in lines])
        logs[least, few] = pd.Series(np.log(found[:, 0])).groupby([line["table"] for line in lines]).mean()
        worse = int(np.sum(found[:, 1] > 1.1))
        print(
            f"least {2 * least:g} up to {few:g} users: {np.exp(logs[least, few].mean()):.3f}, {worse} of {len(lines)}"
        )
    table = pd.DataFrame(logs)
    if len(table) > 1:
        print("left out, the others choose:", Counter(table.drop(name).mean().idxmin() for name in table.index))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    few, epsilons = arguments.few, FEW_EPSILONS if arguments.few else EPSILONS
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    for name in arguments.tables:
        frame, schema = table(name, 2000 if few else arguments.rows)
        for form, dealt in {"declared": FEW_USERS}.items() if few else FORMS.items():
            for records, alike in dealt:
                own = cells(frame, schema, form, records, alike, arguments.seeds, epsilons)
                lines += [{"table": name, "users": len(frame) / records, **line} for line in own]
        if arguments.json:
            arguments.json.write_text(json.dumps(lines, indent=1))
    (rules if few else report)(lines)


if __name__ == "__main__":
    main()
