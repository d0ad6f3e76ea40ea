"""What `auto` chooses for simulated users is never far behind the best of the library's own methods. Seeded."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dpconvex import PrivateLogisticRegression
from dpconvex.problems import UserGroups

METHODS = ("auto", "informed_gradient", "noisy_gradient", "objective_perturbation")


def users(n: int, strength: float, unlike: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users of 1 to 30 rows and six features; unlike ones have features and a taste of their own."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n), rng.integers(1, 31, n))
    X = np.clip(rng.uniform(-1, 1, (len(labels), 6)) + unlike * rng.normal(size=(n, 6))[labels], -1, 1)
    score = strength * (X @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.3] + 0.3) + 2 * unlike * rng.normal(size=n)[labels]
    return X, (rng.random(len(labels)) < 1 / (1 + np.exp(-score))).astype(int), labels


@pytest.mark.parametrize("n", [600, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("strength", [0.3, 3.0])
@pytest.mark.parametrize("unlike", [0.0, 0.5])
@pytest.mark.thin
@pytest.mark.dear("0.5-3.0-600")
def test_the_choice_is_at_most_twice_as_bad_as_the_best(n: int, strength: float, unlike: float) -> None:
    excess: dict[str, list[float]] = {}
    for seed in range(5):
        X, y, labels = users(n, strength, unlike, seed)
        weights = 1 / (n * UserGroups.of(labels).sizes[labels])
        Z, signs = np.column_stack([X, np.ones(len(y))]), 2 * y - 1

        def loss(w: np.ndarray, Z: np.ndarray = Z, signs: np.ndarray = signs, v: np.ndarray = weights) -> float:
            return float(v @ np.logaddexp(0, -signs * (Z @ w)))

        best = minimize(loss, np.zeros(7)).fun
        for name in METHODS:
            facts = {"feature_bounds": (-1, 1), "classes": [0, 1], "records_per_user": 15, "random_state": seed}
            model = PrivateLogisticRegression(1.0, 1e-6, algorithm=name, **facts).fit(X, y, groups=labels)
            excess.setdefault(name, []).append(loss(np.append(model.coef_[0], model.intercept_[0])) - best)
    means = {name: float(np.mean(values)) for name, values in excess.items()}
    assert means["auto"] <= 2 * min(means.values()) + 1e-4, means
