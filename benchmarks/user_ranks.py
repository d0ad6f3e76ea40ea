"""Find by which factor a plan for users that spends delta, or looks first, must expect less than others to come first.

    python benchmarks/user_ranks.py --kind classes --rows 5000 [--alike] [--columns 2] [--json FILE]
    python benchmarks/user_ranks.py --lengths --rows 4000

Tables are learning tables whose records are dealt to users (`user_corpus.py`), at delta 1e-6. Every method is planned
and fitted once; from these fits follows what `auto` would have taken under any factors on expectations. Printed: the
excess relative to objective perturbation alone, as a geometric mean over tables with its standard error; what each
table has with the factors that are best for all other tables; and how far the factors in use are from the best method
of each cell. With ``--columns`` this many columns are drawn at random. With ``--lengths`` r_u is varied instead, the
least length that a user's gradient counts as after a look; the excess is relative to the r_u in use.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex import PrivateLinearRegression, PrivateLogisticRegression
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.gradient_descent import informed, look
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import Unit
from user_corpus import EPSILONS, LEARNING, Case

DELTA, FLOOR = 1e-6, 0.002
METHODS = ("objective_perturbation", "noisy_gradient", "informed_gradient", "recentering", "constant")
FACTORS = {
    "informed_gradient": (0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, np.inf),  # divided by the root of the records per user
    "noisy_gradient": (1.0, 1.25, 1.5, 2.0, np.inf),
    "recentering": (0.8, 0.95, 1.1, 1.65, np.inf),
}
LABELS, POWERS = (0.5, 0.7, 1.0), (1.0, 1.5, 2.0)


def in_use(kind: str) -> dict[str, float]:
    """Return the factors that plans are compared by; that of a look is divided by the root of records per user."""
    noisy = registry.OF_USERS_CLASSES if kind == "classes" else 1.0
    return {"informed_gradient": look.TUNING.caution * noisy, "noisy_gradient": noisy, "recentering": 1.1}


def measured(case: Case, epsilon: float, seeds: int) -> dict[str, Any]:
    """Return, by method, what its plan expects to lose and what it lost, in shares of a constant's excess."""
    line: dict[str, Any] = {"table": case.name, "m": case.records, "epsilon": epsilon}
    kind = PrivateLinearRegression if case.number else PrivateLogisticRegression
    for method in METHODS:
        facts = {"domain": case.schema.domain(), "records_per_user": case.records, "algorithm": method, **case.own}
        try:
            plan = kind(epsilon, DELTA, **facts).plan(case.n, unit=Unit.USER)[0]
        except InvalidParameterError:
            continue
        losses = [case.fit(method, epsilon, DELTA, seed)[0] for seed in range(seeds)]
        line[method] = {"expected": plan.predicted_error.expected, "loss": float(np.mean(losses))}
    return line


def chosen(line: dict[str, Any], factors: dict[str, float], best: bool = False) -> float:
    """Return the log-ratio of what the chosen plan lost to objective perturbation's loss, or to the best method's."""
    expected = {name: line[name]["expected"] * factors.get(name, 1.0) for name in METHODS if name in line}
    if "informed_gradient" in expected:
        expected["informed_gradient"] /= np.sqrt(line["m"])
    lost = {name: max(line[name]["loss"], FLOOR) for name in expected}
    least = min(lost.values()) if best else lost["objective_perturbation"]
    return float(np.log(lost[min(expected, key=lambda name: expected[name])] / least))


def report(lines: list[dict[str, Any]], kind: str, records: tuple[int, ...]) -> None:
    lines = [line for line in lines if line["m"] in records]
    tables = sorted({line["table"] for line in lines})
    tried = [dict(zip(FACTORS, each, strict=True)) for each in product(*FACTORS.values())]
    of = {name: [line for line in lines if line["table"] == name] for name in tables}
    base = in_use(kind)

    def logs_of(each: dict[str, float]) -> np.ndarray:
        return np.array([np.mean([chosen(line, each) for line in of[name]]) for name in tables])

    for name, factors in FACTORS.items():
        if any(name in line for line in lines):
            print(f"  {name}, others at {base}:")
            for factor in factors:
                print(f"    {factor:g}: {_shown(logs_of({**base, name: factor}))}")
    logs = np.array([logs_of(each) for each in tried])
    order = np.argsort(logs.mean(1))[:5]
    print("  best:", "; ".join(f"{tuple(tried[k].values())} {_shown(logs[k])}" for k in order))
    print("  left out:", _left_out(logs), "in use:", _shown(logs_of(base)))
    off = np.exp([chosen(line, base, best=True) for line in lines])
    above = f"above 1.3 in {(off > 1.3).sum()}, above 2 in {(off > 2).sum()} of {len(off)} cells"
    print(f"  in use over the best of each cell: median {np.median(off):.2f}, {above}, worst {off.max():.2g}")


def lengths(arguments: argparse.Namespace) -> None:
    """Print the excess of a descent after a look by r_u, relative to the r_u in use."""
    today, lines = look.TUNING, []
    tried = list(product(LABELS, POWERS))
    cases: Any = product(LEARNING, arguments.records)
    for name, records in cases:
        case = Case(name, records, arguments.alike, arguments.rows, arguments.columns)
        if case.number:
            continue
        for epsilon in EPSILONS:
            found = {}
            for label, power in tried if records > 1 else product(LABELS, (today.label_power,)):
                look.TUNING = informed.TUNING = replace(today, label=label, label_power=power)
                registry.plans.cache_clear()
                runs = [case.fit("informed_gradient", epsilon, DELTA, seed)[0] for seed in range(arguments.seeds)]
                found[label, power] = max(float(np.mean(runs)), FLOOR)
            own = found[today.label, today.label_power]
            logs = [
                np.log(found.get((label, power), found.get((label, today.label_power))) / own) for label, power in tried
            ]
            lines.append((name, records, logs))
    look.TUNING = informed.TUNING = today
    for kept in _groups(arguments.records):
        own = [(name, logs) for name, records, logs in lines if records in kept]
        tables = sorted({name for name, _ in own})
        logs = np.array([np.mean([each for name, each in own if name == table], axis=0) for table in tables]).T
        print(f"{kept} records a user:", "; ".join(f"{k} {_shown(x)}" for k, x in zip(tried, logs, strict=True)))
        print("  left out:", _left_out(logs))


def _groups(records: list[int]) -> list[tuple[int, ...]]:
    """Return the numbers of records per user that are reported together: all, those above 1, and each."""
    found = [tuple(records), tuple(m for m in records if m > 1), *((m,) for m in records)]
    return [each for each in dict.fromkeys(found) if each]


def _left_out(logs: np.ndarray) -> str:
    """Return what each table has with the setting (first axis) that is best on the others."""
    left = [int(np.argmin(np.delete(logs, k, 1).mean(1))) for k in range(logs.shape[1])]
    return _shown(np.array([logs[best, k] for k, best in enumerate(left)]))


def _shown(logs: np.ndarray) -> str:
    return f"{np.exp(logs.mean()):.3f} ({logs.std() / np.sqrt(len(logs)):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("numbers", "classes"), default="classes")
    parser.add_argument("--records", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--columns", type=int, default=0)
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--lengths", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.lengths:
        lengths(arguments)
        return
    lines: list[dict[str, Any]] = []
    cases: Any = product(LEARNING, arguments.records)
    for name, records in cases:
        case = Case(name, records, arguments.alike, arguments.rows, arguments.columns)
        if case.number == (arguments.kind == "numbers"):
            lines += [measured(case, epsilon, arguments.seeds) for epsilon in EPSILONS]
            if arguments.json:
                arguments.json.write_text(json.dumps(lines, indent=1))
    for kept in _groups(arguments.records):
        print(kept, "records a user")
        report(lines, arguments.kind, kept)


if __name__ == "__main__":
    main()
