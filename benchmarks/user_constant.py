"""Find when a constant should replace a fit for users: the share of the columns' worth that it is taken to lose.

    python benchmarks/user_constant.py --records 1 3 10 --rows 5000 20000 --seeds 2 [--real]

Tables are learning tables whose records are dealt to users (`user_corpus.py`), under pure epsilon. The plan that would
come first without a constant, and the constant, are each fitted once; the share decides which of the two `auto` takes,
so every share can be judged from the same fits. Printed for each share: the excess relative to never taking a constant
(geometric mean over tables, standard error), the number of cells above 1.1 times a constant's excess, and the number of
cells that take the constant; then what each table has by the share that is best for all other tables. With ``--real``
the tables have real users and two classes, and losses are training losses.
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
from sklearn.linear_model import LogisticRegression

from corpus import MORE_NUMBERS
from dpconvex import PrivateLinearRegression, PrivateLogisticRegression
from dpconvex.algorithms.erm.registry import cautious
from dpconvex.algorithms.erm.two_stage.constant import REMAINS
from dpconvex.privacy import Unit
from dpconvex.problems.linear.expected_risk import typical_curvature
from user_corpus import LEARNING, Case
from user_tables import FRESH, OTHERS, USER_TABLES

EPSILONS, LEFT_OUT = (0.03, 0.1, 0.3, 1.0), ("batting", "films", "planes")
SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.9, 1e9)


def facts(model: Any, n: int) -> dict[str, Any]:
    """Return what the first plan with columns and a constant expect to lose, and what columns are taken to tell."""
    first = next(plan for plan in model.plan(n, unit=Unit.USER) if plan.algorithm != "constant")
    inner = model.set_params(algorithm="constant").plan(n, unit=Unit.USER)[0]
    while inner.algorithm != "objective_perturbation":
        inner = inner.then
    usual = replace(first.problem, loss=first.problem.loss.usual)
    lost = usual.typical.at_zero if usual.explained is None else usual.explained * typical_curvature(usual.loss) / 2
    expected = {"fit expects": cautious(first), "constant expects": inner.predicted_error.expected}
    return {"first": first.algorithm, **expected, "columns": min(lost, usual.trivial)}


def report(lines: list[dict[str, Any]]) -> None:
    """Print the excess by share, relative to no constant, and which share is best where a table is left out."""
    tables = sorted({line["table"] for line in lines})
    logs = np.zeros((len(tables), len(SHARES)))
    for k, share in enumerate(SHARES):
        over, taken, each = 0, 0, {name: [] for name in tables}
        for line in lines:
            chosen = line["constant expects"] + share * line["columns"] < line["fit expects"]
            loss = line["constant"] if chosen else line["fit"]
            each[line["table"]].append(np.log(max(loss, 0.002) / max(line["fit"], 0.002)))
            over, taken = over + (loss > 1.1), taken + chosen
        logs[:, k] = [np.mean(each[name]) for name in tables]
        mean, error = np.exp(logs[:, k].mean()), logs[:, k].std() / np.sqrt(len(tables))
        print(f"  {share:g}: {mean:.3f} ({error:.3f}), above 1.1: {over}, taken: {taken} of {len(lines)}")
    left = [int(np.argmin(np.delete(logs, k, 0).mean(0))) for k in range(len(tables))]
    held = np.array([logs[k, best] for k, best in enumerate(left)])
    best = ", ".join(f"{SHARES[k]:g} ({left.count(k)})" for k in sorted(set(left)))
    print(f"  left out: {np.exp(held.mean()):.3f} ({held.std() / np.sqrt(len(held)):.3f}), by {best}")


def dealt(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    cases: Any = product([*LEARNING, *MORE_NUMBERS], arguments.records, arguments.rows)
    for name, records, rows in cases:
        case = Case(name, records, arguments.alike, rows)
        if arguments.kind != "all" and case.number != (arguments.kind == "numbers"):
            continue
        kind = PrivateLinearRegression if case.number else PrivateLogisticRegression
        for epsilon in EPSILONS:
            model = kind(epsilon, domain=case.schema.domain(), records_per_user=records, **case.own)
            line = {"table": name, "number": case.number, "records": records, "rows": rows, "epsilon": epsilon}
            line |= facts(model, case.n)
            for key, algorithm in (("fit", line["first"]), ("constant", "constant")):
                line[key] = float(np.mean([case.fit(algorithm, epsilon, 0.0, s)[0] for s in range(arguments.seeds)]))
            lines.append(line)
    return lines


def real(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for name, load in (USER_TABLES | OTHERS | FRESH).items():
        if name in LEFT_OUT:
            continue
        table = load()
        _, index, counts = np.unique(table.users, return_inverse=True, return_counts=True)
        w, rows = 1 / counts[index] / len(counts), np.arange(len(table.y))
        rate = float(w @ table.y)
        model = LogisticRegression(C=1e4, max_iter=1000).fit(table.X, table.y, w * len(counts))
        best = -float(w @ np.log(model.predict_proba(table.X)[rows, table.y]))
        constant = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate) - best
        for epsilon in EPSILONS:
            own = PrivateLogisticRegression(epsilon, schema=table.schema)
            line = {"table": name, "number": False, "epsilon": epsilon, **facts(own, len(counts))}
            for key, algorithm in (("fit", line["first"]), ("constant", "constant")):
                found = []
                for seed in range(arguments.seeds):
                    fit = PrivateLogisticRegression(
                        epsilon, schema=table.schema, random_state=seed, algorithm=algorithm
                    ).fit(table.frame, groups=table.users)
                    given = np.asarray(fit.predict_proba(table.frame))[rows, table.y]
                    found.append(-float(w @ np.log(np.clip(given, 1e-12, 1))) - best)
                line[key] = float(np.mean(found)) / constant
            print(
                f"{name}, {epsilon:g}: {line['first']} {line['fit']:.3g}, constant {line['constant']:.3g}", flush=True
            )
            lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 20_000])
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--kind", choices=("numbers", "classes", "all"), default="all")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    REMAINS.update(dict.fromkeys(REMAINS, 1e9))  # then no constant comes first, and caps are those of fits
    lines = real(arguments) if arguments.real else dealt(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1))
    for number, records in product((False, True), arguments.records if not arguments.real else (None,)):
        own = [x for x in lines if x["number"] == number and records in (None, x["records"])]
        if own:
            print(f"{'numbers' if number else 'classes'}, {records} records a user")
            report(own)
    for number in (False, True):
        own = [x for x in lines if x["number"] == number]
        if own:
            print(f"{'numbers' if number else 'classes'}, all")
            report(own)


if __name__ == "__main__":
    main()
