"""Users with few records each: what cutting their gradients costs, beside a method that cuts nothing.

Simulated users have some rows of five columns in [-1, 1] and labels of a logistic model. Printed is the mean excess of
the training loss over the best fit's (standard error), of each method and of the one that is chosen.

    python benchmarks/few_records.py --cells 6000x3 20000x3 6000x2 6000x10 --epsilon 0.3 1
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpconvex import PrivateLogisticRegression

TRUTH = np.array([1.0, -0.7, 0.4, 0.0, 0.0])
METHODS = ("auto", "informed_gradient", "noisy_gradient", "objective_perturbation")


def users(count: int, records: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, labels, and whose row each is."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count * records, len(TRUTH)))
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-X @ TRUTH))).astype(int)
    return X, y, np.repeat(np.arange(count), records)


def loss(coef: np.ndarray, intercept: float, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean logistic loss."""
    scores = X @ coef + intercept
    return float(np.mean(np.logaddexp(0, scores) - y * scores))


def measure(count: int, records: int, epsilon: float, method: str, seeds: int) -> tuple[list[float], str]:
    """Return the excess of each seed, and the method of the last."""
    found, name = [], method
    for seed in range(seeds):
        X, y, who = users(count, records, seed)
        best = LogisticRegression(C=1e6).fit(X, y)
        options = {"feature_bounds": (-1, 1), "classes": [0, 1], "records_per_user": records, "random_state": seed}
        model = PrivateLogisticRegression(epsilon, 1e-6, algorithm=method, **options).fit(X, y, groups=who)
        least = loss(best.coef_[0], best.intercept_[0], X, y)
        found.append(loss(model.coef_[0], float(model.intercept_[0]), X, y) - least)
        name = model.plan_.algorithm
    return found, name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=["6000x3", "20000x3", "6000x2", "6000x10"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.3, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'users x records':<16}{'epsilon':>8}  " + "  ".join(f"{method:>24}" for method in METHODS))
    for cell in args.cells:
        count, records = map(int, cell.split("x"))
        for epsilon in args.epsilon:
            shown = []
            for method in METHODS:
                found, name = measure(count, records, epsilon, method, args.seeds)
                error = float(np.std(found, ddof=1)) / len(found) ** 0.5 if len(found) > 1 else 0.0
                chosen = f" {name[:8]}" if method == "auto" else ""
                shown.append(f"{np.mean(found):.5f} ({error:.5f}){chosen:>9}"[:24])
            print(f"{cell:<16}{epsilon:>8g}  " + "  ".join(f"{text:>24}" for text in shown), flush=True)


if __name__ == "__main__":
    main()
