"""Compare fits to targets of several classes: categories of the learning tables, predicted from all other columns.

    python benchmarks/many_classes.py [--rows 3000] [--seeds 2] [--delta 0] [--caps 1 auto] [--algorithm auto]
        [--json FILE]
    python benchmarks/many_classes.py --constants --json FILE
    python benchmarks/many_classes.py --few [--delta 1e-6] --json FILE
    python benchmarks/many_classes.py --famous [--seeds 5]
    python benchmarks/many_classes.py --users --json FILE

Few tables have a target of more than two classes, so no number of plans for several classes had been chosen on such
tables. The targets here are the 23 categories of three to nine levels in the learning half of `corpus.py` that other
columns tell something about, and its three targets with as many classes; the table's own target becomes a column. The
excess of a fit is its training loss above that of the best model, as a share of a constant's, and counts as at least
.005. Printed: geometric means of the excess relative to the first fit, with standard errors over tables. With
``--constants``: excess and accuracy relative to never taking a constant, by the share of `REMAINS` (of the loss of zero
parameters) that decides when a constant is taken. With ``--few``: the same for less than 600 records times epsilon, on
targets that a program chose and tables of machine learning (`shares.py`), for the share "few". With ``--famous``:
log-loss and accuracy of `auto`, pure and with delta 1e-6, on iris, wine and digits of scikit-learn, tables that people
try first. With ``--users``: 30 targets that a program chose (learning half), dealt to users, and what plans lose over
the best method if descents of few users rank by a larger factor (`registry.FEW_USERS`). Fits are seeded, hence not
private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression

import corpus
import many_tables
import prior
import shares
from dpconvex import CategoricalColumn, NumericColumn, PrivateLogisticRegression
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.two_stage import constant
from dpconvex.data import ClassTarget
from dpconvex.errors import DpconvexWarning
from dpconvex.privacy import Unit
from user_corpus import users

EPSILONS = (0.1, 0.3, 1.0, 3.0)
USERS_METHODS = ("objective_perturbation", "noisy_gradient", "constant")
FEW, FEW_SHARES = (0, 50, 100, 200, 300, 600), (0.6, 0.35, 0.25, 0.2)
"""Bounds of records times epsilon, and shares of which the first is no other than with more records"""
TASKS = {
    "aggression": "btype",
    "attrition": "JobRole EducationField MaritalStatus",
    "britain_vote": "vote",
    "census_wages": "region",
    "chile_vote": "vote region education",
    "college": "ethnicity",
    "crashes": "dvcat abcat",
    "exam_scores": "vr",
    "health_insurance": "region education",
    "houses": "heating fuel",
    "lending": "verification_status",
    "migraine": "hatype medication",
    "poverty": "poverty country",
    "smoking": "education",
    "unemployment_benefits": "joblost",
    "wages": "maritl education",
}


class Case:
    """A table with one of its categories as target."""

    def __init__(self, name: str, target: str, rows: int) -> None:
        table = corpus.load(name)
        self.schema, self.frame = table.schema, table.frame.iloc[:rows].reset_index(drop=True)
        own: Any = table.schema.target
        if target != own.name:
            columns = {column.name: column for column in table.schema.columns}
            wanted: Any = columns.pop(target)
            if own.numeric:
                columns[own.name] = NumericColumn(own.name, own.lower, own.upper)
            else:
                columns[own.name] = CategoricalColumn(own.name, own.classes)
            self.schema = replace(
                table.schema, columns=tuple(columns.values()), target=ClassTarget(target, wanted.categories)
            )
        self.name, self.y = f"{name}, {target}", np.asarray(self.schema.encode_target(self.frame)).astype(int)
        X, self.classes = self.schema.encode(self.frame), int(self.y.max()) + 1
        best = LogisticRegression(C=1e4, max_iter=2000).fit(X, self.y)
        self.best = -float(
            np.log(best.predict_proba(X)[np.arange(len(X)), np.searchsorted(best.classes_, self.y)]).mean()
        )
        rates = np.bincount(self.y) / len(X)
        self.constant = -float(np.log(rates[self.y]).mean())

    def fit(self, epsilon: float, delta: float, seed: int, **options: Any) -> tuple[float, float, Any]:
        """Return the excess as a share of a constant's, the accuracy, and the model."""
        model = PrivateLogisticRegression(epsilon, delta, schema=self.schema, random_state=seed, **options)
        p = model.fit(self.frame).predict_proba(self.frame)
        loss = -float(np.log(np.maximum(p[np.arange(len(p)), self.y], 1e-12)).mean())
        return (loss - self.best) / (self.constant - self.best), float((p.argmax(1) == self.y).mean()), model


def famous(seeds: int) -> None:
    """Print what `auto` does with tables whose columns tell three or ten classes well; wine's ranges are read off."""
    loads = {"iris": load_iris, "wine": load_wine, "digits": load_digits, "digits / 16": load_digits}
    for name, load in loads.items():
        X, y = load(return_X_y=True)
        X = X / 16 if name == "digits / 16" else X  # plans take columns of [0, 1] for yes or no
        top = {"iris": 8.0, "digits": 16.0, "digits / 16": 1.0}.get(name, 1.2 * X.max(0))
        for delta, epsilon in product((0.0, 1e-6), (*EPSILONS, 10.0)):
            found, taken = [], set()
            for seed in range(seeds):
                model = PrivateLogisticRegression(
                    epsilon, delta, feature_bounds=(0, top), classes=range(int(y.max()) + 1), random_state=seed
                ).fit(X, y)
                p = model.predict_proba(X)
                loss = -float(np.log(np.maximum(p[np.arange(len(p)), y], 1e-12)).mean())
                found.append((loss, float((p.argmax(1) == y).mean())))
                taken.add(model.plan_.algorithm)
            (loss, right), error = np.mean(found, 0), np.std(found, 0)[1] / seeds**0.5
            shown = f"log-loss {loss:.3f}, accuracy {right:.3f} ({error:.3f}), {' or '.join(sorted(taken))}"
            print(f"{name:11s} eps={epsilon:<4g} delta={delta:<6g} {shown}", flush=True)


def ratios(lines: list[dict[str, Any]], first: str, other: str) -> str:
    """Return the geometric mean of the ratio of two excesses, its standard error over tables, and the worst cell."""
    tables: dict[str, list[float]] = {}
    for line in lines:
        ratio = float(np.log(max(line[other], 0.005) / max(line[first], 0.005)))
        tables.setdefault(line["table"].split(",")[0], []).append(ratio)
    means = [float(np.mean(found)) for found in tables.values()]
    worst = max(max(found) for found in tables.values())
    return f"{np.exp(np.mean(means)):.3f} ({np.std(means) / len(means) ** 0.5:.3f}), worst {np.exp(worst):.2f}"


def compare(lines: list[dict[str, Any]], names: list[str]) -> None:
    for epsilon, other in product((*EPSILONS, None), names[1:]):
        among = [line for line in lines if epsilon in (None, line["epsilon"])]
        over = sum(line[other] > 1.1 for line in among)
        shown = f"{other} to {names[0]}: {ratios(among, names[0], other)}"
        print(f"eps={epsilon or 'all'}: {shown}; above 1.1 times a constant: {over} of {len(among)}")


def constants(lines: list[dict[str, Any]]) -> None:
    for share in (0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 0.9):
        for line in lines:
            taken = line["own"] + share * min(line["trivial"], line["zero"]) < line["expected"]
            line["chosen"], line["taken"] = (line["constant"] if taken else line["auto"]), taken
        gained = [line["constant right"] - line["auto right"] for line in lines if line["taken"]]
        over = sum(line["chosen"] > 1.1 for line in lines)
        shown = f"{share}: {ratios(lines, 'auto', 'chosen')}; above 1.1: {over}, taken {len(gained)} of {len(lines)}"
        print(f"{shown}, accuracy there {np.mean(gained or [0.0]):+.3f}")


def few(given: argparse.Namespace) -> None:
    """Compare fits with constants where records are few, by the share at which a constant is taken."""
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    for task in (task for task in shares.tasks(["keel", "programs"], 6000) if task.kind == many_tables.KINDS[1]):
        labels, n = np.asarray(task.schema.target.classes)[task.y], len(task.y)  # pyright: ignore
        gain = max(task.constant - task.best, many_tables.LEAST_GAIN * task.constant)
        for epsilon in (epsilon for epsilon in (0.03, *EPSILONS) if n * epsilon < FEW[-1]):
            line: dict[str, Any] = {"table": task.name, "records": n * epsilon, "taken": []}
            for share in FEW_SHARES:
                with mock.patch.dict(constant.REMAINS, few=share), mock.patch.object(constant, "FEW", 1e9):
                    prior.forget()
                    own = PrivateLogisticRegression(epsilon, given.delta, schema=task.schema)
                    line["taken"].append(own.plan(n=n)[0].algorithm == "constant")
            for algorithm in ("auto", "constant"):
                lost, right = [], []
                with mock.patch.dict(constant.REMAINS, few=0.6):
                    prior.forget()
                    for seed in range(given.seeds):
                        options = {"algorithm": algorithm, "random_state": many_tables.checksum(f"{task.name} {seed}")}
                        own = PrivateLogisticRegression(epsilon, given.delta, schema=task.schema, **options)
                        lost.append(many_tables.loss(task, own.fit(task.frame)))
                        right.append(float((own.predict(task.frame) == labels).mean()))
                line[algorithm] = max(float(np.mean(lost) - task.best) / gain, 0.02)
                line |= {f"{algorithm} loss": float(np.mean(lost)), f"{algorithm} right": float(np.mean(right))}
            lines.append(line)
            given.json.write_text(json.dumps(lines))
    for (low, high), (k, share) in product(pairwise(FEW), enumerate(FEW_SHARES)):
        some = [line for line in lines if low <= line["records"] < high and line["taken"][k]]
        if some:
            logs = pd.Series([np.log(line["constant"] / line["auto"]) for line in some])
            means = logs.groupby([line["table"] for line in some]).mean()
            found = (
                f"{np.exp(means.mean()):.2f} ({means.std() / len(means) ** 0.5:.2f}), worst {np.exp(logs.max()):.1f}"
            )
            more = (np.mean([line[f"constant {k}"] - line[f"auto {k}"] for line in some]) for k in ("loss", "right"))
            over = " and ".join(str(sum(line[k] > 1.1 for line in some)) for k in ("auto", "constant"))
            shown = "loss {:+.3f}, right {:+.3f}".format(*more)
            print(f"{low} to {high}, share {share}: {len(some)} cells, {found}, {shown}, above 1.1: {over}")


def dealt(task: many_tables.Task, records: int, alike: bool) -> list[dict[str, Any]]:
    """Return what methods lose and expect, with a delta, if users have so many records of a table each."""
    X, y = task.X / np.maximum(np.abs(task.X).max(0), 1e-9), np.asarray(task.y)
    of: Any = SimpleNamespace(X=task.X, y=y.astype(float))
    owners = users(of, records, alike)
    _, codes, sizes = np.unique(owners, return_inverse=True, return_counts=True)
    n, weights, lines = len(sizes), 1 / sizes[codes] / len(sizes), []

    def loss(shares: np.ndarray) -> float:
        return -float(weights @ np.log(np.maximum(shares[np.arange(len(y)), y], 1e-12)))

    best = loss(LogisticRegression(C=1e3, max_iter=500).fit(X, y, weights * len(y)).predict_proba(X))
    unit = loss(np.tile(np.bincount(y, weights), (len(y), 1))) - best
    facts: dict[str, Any] = {"schema": task.schema, "records_per_user": records}
    for epsilon in EPSILONS[1:]:
        line: dict[str, Any] = {"table": task.name, "users": n, "unit": unit, "epsilon": epsilon}
        for method in USERS_METHODS:
            vars(registry.ERM_METHODS)["names"] = lambda _, method=method: (method,)
            registry.plans.cache_clear()
            coins = many_tables.checksum(task.name) % 10**6
            model = PrivateLogisticRegression(epsilon, 1e-6, random_state=coins, **facts)
            model.fit(task.frame, groups=owners)
            plan = PrivateLogisticRegression(epsilon, 1e-6, **facts).plan(n, unit=Unit.USER)[0]
            lost = max(loss(model.predict_proba(task.frame)) - best, 0.01 * unit, 0.001)
            line[method] = {"rank": registry.cautious(plan), "loss": lost}
        lines.append(line)
    return lines


def of_users(path: Path) -> None:
    """Print what the plan that ranks first loses over the best method, by the factor on descents of few users."""
    warnings.simplefilter("ignore")  # constant columns have no correlation
    lines, registry.FEW_USERS = [], (0.0, 1.0)
    for rows, least, deals in (2000, 800, ((5, False), (10, True), (20, True))), (6000, 2500, ((2, False), (6, True))):
        count = 0
        for package, item in sorted(many_tables.tables("learning"), key=lambda e: many_tables.checksum(" ".join(e))):
            for task in many_tables.tasks(package, item, rows) if count < 30 else ():
                if task.kind == many_tables.KINDS[1] and len(task.y) >= least:
                    count += 1
                    lines += [{"rows": rows, **line} for deal in deals for line in dealt(task, *deal)]
        path.write_text(json.dumps(lines))
    for factor, few in [(0.0, 1.0), *product((0.5, 1.0, 2.0, 4.0), (200.0, 400.0))]:
        for rows in (2000, 6000):
            logs: dict[str, list[float]] = {}
            worse = 0
            for line in (line for line in lines if line["rows"] == rows):
                rank = {name: line[name]["rank"] for name in USERS_METHODS}
                rank["noisy_gradient"] *= 1 + factor * min(1.0, few / line["users"]) ** 4
                lost = line[min(rank, key=rank.__getitem__)]["loss"]
                best = min(line[name]["loss"] for name in USERS_METHODS)
                logs.setdefault(line["table"], []).append(np.log(lost / best))
                worse += lost > 1.1 * line["constant"]["loss"]
            mean = np.exp(np.mean([np.mean(each) for each in logs.values()]))
            print(f"{factor:g}, {few:g} users, {rows} rows: {mean:.3f}, {worse} of {sum(map(len, logs.values()))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--caps", nargs="+", default=["1", "auto"])
    parser.add_argument("--algorithm", default="auto")
    parser.add_argument("--tables", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--famous", action="store_true")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--users", action="store_true")
    parser.add_argument("--json", type=Path)
    given, lines = parser.parse_args(), []
    warnings.simplefilter("ignore", DpconvexWarning)
    if given.famous:
        return famous(given.seeds)
    if given.few:
        return few(given)
    if given.users:
        return of_users(given.json)
    for case in (Case(name, target, given.rows) for name in given.tables for target in TASKS[name].split()):
        for epsilon in EPSILONS:
            line: dict[str, Any] = {"table": case.name, "classes": case.classes, "n": len(case.y), "epsilon": epsilon}
            fits: dict[str, dict[str, Any]] = {
                cap: {"slope_cap": None if cap == "auto" else float(cap), "algorithm": given.algorithm}
                for cap in given.caps
            }
            if given.constants:
                fits = {"auto": {}, "constant": {"algorithm": "constant"}}
            for label, options in fits.items():
                runs = [case.fit(epsilon, given.delta, seed, **options) for seed in range(given.seeds)]
                line[label], line[f"{label} right"] = (float(np.mean([run[k] for run in runs])) for k in (0, 1))
                plan, last = runs[0][2].plan_, runs[0][2].plan_.innermost
                line[f"{label} is"], line[f"{label} cap"] = plan.algorithm, runs[0][2].slope_cap_
                if given.constants and label == "auto":
                    whole = replace(last.problem, loss=last.problem.loss.usual)
                    line |= {"expected": plan.predicted_error.expected, "zero": whole.typical.at_zero}
                    line["trivial"] = last.problem.trivial
                elif given.constants:
                    line["own"] = last.predicted_error.expected
            lines.append(line)
            shown = " ".join(f"{line[fit]:.4g} [{line[f'{fit} is']}, {line[f'{fit} cap']:g}]" for fit in fits)
            print(f"{case.name:36s} k={case.classes} n={len(case.y):<6d} eps={epsilon:<4g} {shown}", flush=True)
            if given.json:
                given.json.write_text(json.dumps(lines, indent=1))
    constants(lines) if given.constants else compare(lines, given.caps)


if __name__ == "__main__":
    main()
