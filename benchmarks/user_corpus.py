"""Fit the learning tables of the corpus with their records dealt to users, to choose what plans for users expect.

    python benchmarks/user_corpus.py --delta 1e-6 --records 1 3 10 --seeds 2 --algorithms auto objective_perturbation

`user_tables.py` has only twelve tables with real users; all of them have two classes, and constants were chosen on
nearly all of them. Here the records of every learning table of `corpus.py` are dealt to users: at random, or, with
``--alike``, so that a user's records resemble one another (in the order of a random direction of features, plus target,
plus noise). The number of records per user is geometric with mean ``--records``. With one record per user, protecting
users *is* protecting records, so a plan for users should lose no more than a plan for records (``--algorithms records``
fits the latter). The printed loss is the mean over users of their mean loss, less that of the best linear model, as a
share of a constant's.
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

from corpus import HALVES, MANY_CLASSES, MORE_NUMBERS, load
from dpconvex import PrivateLinearRegression, PrivateLogisticRegression
from dpconvex.data import NumericTarget
from dpconvex.errors import DpconvexWarning, InvalidParameterError
from tables import Table

LEARNING = [name for name in HALVES["learning"] if name not in MANY_CLASSES]
EPSILONS = (0.1, 0.3, 1.0, 3.0)


def users(table: Table, records: int, alike: bool, seed: int = 0) -> np.ndarray:
    """Return the user of each record, (n,): users have a geometric number of records, `records` on average."""
    rng, n = np.random.default_rng(seed), len(table.X)
    sizes = rng.geometric(1 / records, size=n) if records > 1 else np.ones(n, dtype=int)
    owners = np.repeat(np.arange(n), sizes)[:n]
    order = rng.permutation(n)
    if alike:
        X, y = table.X - table.X.mean(0), (table.y - table.y.mean()) / table.y.std()
        way = X @ rng.standard_normal(X.shape[1])
        order = np.argsort(way / max(way.std(), 1e-12) + y + rng.standard_normal(n))
    out = np.empty(n, dtype=int)
    out[order] = owners
    return out


class Case:
    """A table with users, of all columns or of a few; what the best linear model and a constant lose; and fits."""

    def __init__(self, name: str, records: int, alike: bool = False, rows: int = 20_000, columns: int = 0) -> None:
        table = load(name)
        if 0 < columns < len(table.schema.columns):
            some = np.sort(np.random.default_rng(records).permutation(len(table.schema.columns))[:columns])
            schema = replace(table.schema, columns=tuple(table.schema.columns[k] for k in some))
            table = replace(table, schema=schema, X=schema.encode(table.frame))
        table = replace(table, X=table.X[:rows], y=np.asarray(table.y[:rows]), frame=None)
        self.name, self.records, self.alike, self.X, self.y, self.schema = (
            name, records, alike, table.X, table.y, table.schema,
        )  # fmt: skip
        self.users = users(table, records, alike)
        _, codes, sizes = np.unique(self.users, return_inverse=True, return_counts=True)
        self.n = len(sizes)
        self.weights = 1 / sizes[codes] / self.n
        target = self.schema.target
        self.number = isinstance(target, NumericTarget)
        if isinstance(target, NumericTarget):
            self.own: dict[str, Any] = {"target_bounds": (target.lower, target.upper)}
            design, root = np.column_stack([self.X, np.ones(len(self.X))]), np.sqrt(self.weights)
            best = design @ np.linalg.lstsq(design * root[:, None], self.y * root, rcond=None)[0]
            constant = np.full(len(self.y), self.weights @ self.y)
        else:
            self.own = {"classes": [0, 1]}
            fit = LogisticRegression(C=1e6, max_iter=5000, tol=1e-8).fit(self.X, self.y, self.weights * len(self.y))
            best, rate = fit.decision_function(self.X), float(self.weights @ self.y)
            constant = np.full(len(self.y), np.log(rate / (1 - rate)))
        self.best, self.constant = self.loss(best), self.loss(constant)

    def loss(self, z: np.ndarray) -> float:
        """Return the mean over users of their mean loss at predictions (n,); numbers in units of the range."""
        if not self.number:
            return float(self.weights @ np.logaddexp(0.0, np.where(self.y > 0, -z, z)))
        lower, upper = self.own["target_bounds"]
        return float(self.weights @ np.square((np.clip(z, lower, upper) - self.y) / (upper - lower))) / 2

    def fit(self, algorithm: str, epsilon: float, delta: float, seed: int) -> tuple[float, str]:
        """Return the excess loss of a fit as a share of a constant's, and the method that was run."""
        kind = PrivateLinearRegression if self.number else PrivateLogisticRegression
        whose = {} if algorithm == "records" else {"groups": self.users}
        facts: dict[str, Any] = {"algorithm": "auto" if algorithm == "records" else algorithm}
        facts |= {} if algorithm == "records" else {"records_per_user": self.records}
        model = kind(epsilon, delta, domain=self.schema.domain(), random_state=seed, **self.own, **facts)
        try:
            model.fit(self.X, self.y, **whose)
        except InvalidParameterError:
            return np.nan, "refused"
        z = self.X @ np.ravel(model.coef_) + np.ravel(model.intercept_)[0]
        return (self.loss(z) - self.best) / (self.constant - self.best), model.plan_.algorithm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--records", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--kind", choices=("numbers", "classes", "all"), default="all")
    parser.add_argument("--more", action="store_true", help="add the further regressions of the corpus")
    parser.add_argument("--algorithms", nargs="+", default=["records", "auto"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000, help="the largest number of records of a table")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    lines = []
    cases: Any = product([*LEARNING, *(MORE_NUMBERS if arguments.more else ())], arguments.records)
    for name, records in cases:
        case = Case(name, records, arguments.alike, arguments.rows)
        if arguments.kind not in ("all", "numbers" if case.number else "classes"):
            continue
        for epsilon in arguments.epsilons:
            line: dict[str, Any] = {"table": name, "m": records, "n": case.n, "epsilon": epsilon}
            line |= {"number": case.number, "alike": arguments.alike, "delta": arguments.delta}
            for algorithm in arguments.algorithms:
                if algorithm == "records" and records > 1:
                    continue
                runs = [case.fit(algorithm, epsilon, arguments.delta, seed) for seed in range(arguments.seeds)]
                line[algorithm] = float(np.mean([run[0] for run in runs]))
                line[f"{algorithm} is"] = runs[0][1]
            lines.append(line)
            if arguments.json:
                arguments.json.write_text(json.dumps(lines, indent=1))
            shown = " ".join(f"{line[a]:.3g}" for a in arguments.algorithms if a in line)
            print(
                f"{name:22s} m={records:<3d} users={case.n:<6d} eps={epsilon:<4g} {shown}  {line.get('auto is')}",
                flush=True,
            )
    first, *others = arguments.algorithms
    for epsilon, other in product(arguments.epsilons, others):
        both = [line for line in lines if line["epsilon"] == epsilon and not np.isnan(line.get(other, np.nan))]
        both = [line for line in both if not np.isnan(line.get(first, np.nan))]
        ratios = [float(np.log(max(line[other], 0.002) / max(line[first], 0.002))) for line in both]
        if ratios:
            mean, error, worst = np.exp(np.mean(ratios)), np.std(ratios) / np.sqrt(len(ratios)), np.exp(max(ratios))
            print(f"{epsilon}: {other}/{first} {mean:.2f} ({error:.2f}), worst {worst:.2g}, {len(both)} cells")


if __name__ == "__main__":
    main()
