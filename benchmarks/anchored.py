"""Measure by simulation on spambase what one bound for all columns that are mostly 0 would gain.

    python benchmarks/anchored.py [--epsilons 1 3] [--splits 5] [--knots 2 4 6]

"Anchored" blocks have no feature at 0, so a record's features sum to at most the number of its cells other than 0. One
bound for that sum, the 90 % quantile of the training records, replaces one bound a column: records beyond it are
shortened, the noise is that of one l1 ball, and the leverage is the bound, since no column has more than 1. The method
is objective perturbation; the kernel is a line, a Brownian motion and free values.

This is an upper bound of what a private method can reach, not a method: the quantile is read off the data, with a tenth
of epsilon left unspent for it, and cap and leverage are the best on the *held-out* records. Beside it stand
`PrivateLogisticRegression` and `PrivateAdditiveClassifier`. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from scipy.optimize import minimize
from sklearn.metrics import log_loss

from additive import rows, split_of
from dpconvex import PrivateAdditiveClassifier, PrivateLogisticRegression
from dpconvex.algorithms.erm.objective_perturbation.regularization import pure_share
from dpconvex.losses import LogisticLoss
from tables import spambase

CAPS, LEVERAGES = (0.5, 0.35, 0.25), (0.2, 0.4, 0.7, 1.0, 1.5, 2.5)


def hats(U: np.ndarray, knots: int) -> np.ndarray:
    """Return weights of evenly spaced knots but the first, (n, columns, knots - 1), of numbers in [0, 1]."""
    place = U[..., None] * (knots - 1)
    return np.clip(1 - np.abs(place - np.arange(1, knots)), 0.0, 1.0)


def root(knots: int) -> np.ndarray:
    """Return a square root of the kernel, whose largest variance is 1."""
    at = np.linspace(0, 1, knots)[1:]
    parts = [np.outer(at, at), np.minimum.outer(at, at), np.eye(knots - 1)][: 3 if knots > 2 else 1]
    kernel = np.sum(parts, axis=0)
    return np.linalg.cholesky(kernel / kernel.diagonal().max())


def fitted(F: np.ndarray, y: np.ndarray, loss: LogisticLoss, l2: float, b: np.ndarray) -> np.ndarray:
    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = F @ w
        slope = loss.derivative(z, y)
        return loss.value(z, y).mean() + l2 / 2 * w @ w + b @ w / len(y), F.T @ slope / len(y) + l2 * w + b / len(y)

    return minimize(objective, np.zeros(F.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500}).x


def anchored(U: np.ndarray, y: np.ndarray, epsilon: float, seed: int, knots: int) -> dict[tuple[float, float], float]:
    """Return the held-out loss for each cap and leverage whose curvature leaves something for noise."""
    held, train = split_of(len(y), seed, len(y))
    H, half = hats(U, knots), root(knots)
    mass, n, columns = H.sum((1, 2)), len(train), U.shape[1]
    bound = float(np.quantile(mass[train], 0.9))
    F = np.column_stack([(H @ half).reshape(len(U), -1), np.ones(len(U))])
    short = F.copy()
    short[:, :-1] *= np.minimum(1.0, bound / np.maximum(mass, 1e-9))[:, None]
    found = {}
    for cap, leverage in product(CAPS, LEVERAGES):
        loss = LogisticLoss(cap, saturating=True)
        left = pure_share(loss, False, leverage, 0.9 * epsilon).epsilon
        if left > 0:
            generator, d = np.random.default_rng(seed), columns * (knots - 1)
            each = generator.exponential(size=d + 1)
            ball = bound * each[:-1] / each.sum() * generator.choice([-1.0, 1.0], d)
            radius = generator.gamma(d + 2, 2 * cap / left)
            b = radius * np.append((ball.reshape(columns, -1) @ half).ravel(), generator.uniform(-1, 1))
            w = fitted(short[train], y[train], loss, (bound + 1) / (n * leverage), b)
            found[cap, leverage] = float(np.logaddexp(0, -y[held] * (F[held] @ w)).mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--knots", nargs="+", type=int, default=[2, 4, 6])
    given = parser.parse_args()
    table = spambase()
    U, y = table.X + 0.5, np.where(np.asarray(table.y) > 0, 1.0, -1.0)
    for epsilon in given.epsilons:
        for knots in given.knots:
            runs = [anchored(U, y, epsilon, seed, knots) for seed in range(given.splits)]
            losses = {key: [run[key] for run in runs] for key in runs[0]}
            best = min(losses, key=lambda key: float(np.mean(losses[key])))
            mean, error = np.mean(losses[best]), np.std(losses[best], ddof=1) / given.splits**0.5
            print(f"epsilon {epsilon:g}, {knots} knots: {mean:.3f} ({error:.3f}) at cap, leverage {best}", flush=True)
        for kind in (PrivateLogisticRegression, PrivateAdditiveClassifier):
            scores = []
            for seed in range(given.splits):
                held, train = split_of(len(y), seed, len(y))
                model = kind(epsilon, schema=table.schema, random_state=seed).fit(rows(table.frame, train))
                scores.append(log_loss(y[held], model.predict_proba(rows(table.frame, held))))
            mean, error = np.mean(scores), np.std(scores, ddof=1) / given.splits**0.5
            print(f"epsilon {epsilon:g}, {kind.__name__}: {mean:.3f} ({error:.3f})", flush=True)


if __name__ == "__main__":
    main()
