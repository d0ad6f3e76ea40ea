"""Fit tables whose rarer class has less than an eighth of the records, dealt to users, with delta.

    python benchmarks/user_rare.py [--tables learning programs] [--records 3] [--epsilons 0.3 1] [--seeds 2]

Tables are the learning tables of the corpus, or targets that a program chose (`many_tables.py`), with at least 15
records of the rarer class. Their records are dealt to users at random, a geometric number each. Printed: log-loss over
that of a constant, of ``auto``, a descent after a look and objective perturbation, at delta 1e-6, without and with
public rates. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from itertools import chain

import numpy as np

from dpconvex import PrivateLogisticRegression
from rates import learning
from shares import tasks

METHODS = ("auto", "informed_gradient", "objective_perturbation")
LEAST, MOST, ROWS = 15, 0.125, 6000


def losses(X: np.ndarray, y: np.ndarray, domain: object, told: bool, epsilon: float, records: int, seeds: int) -> list:
    """Return each method's mean log-loss over users, as a share of a constant's."""
    rng = np.random.default_rng(0)
    sizes = rng.geometric(1 / records, size=len(y)) if records > 1 else np.ones(len(y), int)
    whose = rng.permutation(np.repeat(np.arange(len(sizes)), sizes)[: len(y)])
    _, codes, counts = np.unique(whose, return_inverse=True, return_counts=True)
    weights = 1 / counts[codes] / len(counts)
    rate, sign = float(weights @ y), np.where(y > 0, -1.0, 1.0)
    constant = float(weights @ np.logaddexp(0.0, sign * np.log(rate / (1 - rate))))
    rates = (round(1 - rate, 3), 1 - round(1 - rate, 3)) if told else None
    found = []
    for method in METHODS:
        lost = []
        for seed in range(seeds):
            facts = {"classes": [0, 1], "records_per_user": records, "rates": rates, "random_state": seed}
            model = PrivateLogisticRegression(epsilon, 1e-6, domain=domain, algorithm=method, **facts)
            z = model.fit(X, y, groups=whose).decision_function(X)
            lost.append(float(weights @ np.logaddexp(0.0, sign * z)) / constant)
        found.append(float(np.mean(lost)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=("learning", "programs"), default=["learning", "programs"])
    parser.add_argument("--records", type=int, default=3)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0])
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    every = defaultdict(list)
    named = chain.from_iterable(learning(ROWS) if each == "learning" else tasks([each], ROWS) for each in given.tables)
    for task in named:
        y = np.asarray(task.y)
        if len(np.unique(y)) != 2 or not np.isin(y, (0, 1)).all():
            continue
        rarer = min(y.mean(), 1 - y.mean())
        if rarer > MOST or rarer * len(y) < LEAST:
            continue
        for told in (False, True):
            for epsilon in given.epsilons:
                row = losses(task.X, y, task.schema.domain(), told, epsilon, given.records, given.seeds)
                every[told, epsilon].append(row)
                print(
                    f"{task.name:30} {rarer:.3f} rates={told!s:5} eps={epsilon:<4g}",
                    *(f"{v:.3f}" for v in row),
                    flush=True,
                )
    for (told, epsilon), rows in every.items():
        logs = np.log(np.array(rows))
        mean, error = np.exp(logs.mean(0)), logs.std(0) / len(logs) ** 0.5
        shown = (
            f"{name} {m:.3f} ({e:.3f}), worst {w:.2f}"
            for name, m, e, w in zip(METHODS, mean, error, np.exp(logs.max(0)), strict=True)
        )
        print(f"rates={told}, epsilon {epsilon:g}, {len(rows)} tables: " + "; ".join(shown))


if __name__ == "__main__":
    main()
