"""Support vector machine: the optimum it converges to, and that it is for two classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dpconvex import PrivateLinearSVC
from dpconvex.errors import DpconvexError

L2 = 1e-2


def data(n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 3))
    return X, (X[:, 0] - X[:, 1] + rng.normal(0, 0.3, n) > 0.1).astype(int)


def smoothed_hinge(margin: np.ndarray, width: float) -> np.ndarray:
    """A parabola up to a slope of 2/3, from there on ``1 - exp(-3 past) / 3``; its line is ``1 - margin``."""
    t = np.maximum(1 + 5 * width / 9 - margin, 0) / width
    past = np.maximum(t - 2 / 3, 0)
    return width * (np.minimum(t, 2 / 3) ** 2 / 2 + past + np.expm1(-3 * past) / 9)


@pytest.mark.parametrize("algorithm", ["objective_perturbation", "output_perturbation"])
@pytest.mark.parametrize("smoothing", [0.5, 1.0])
def test_large_epsilon_recovers_the_regularized_optimum(algorithm: str, smoothing: float) -> None:
    X, y = data()
    model = PrivateLinearSVC(
        1e6,
        smoothing=smoothing,
        feature_bounds=(-1, 1),
        algorithm=algorithm,
        l2=L2,
        fit_intercept=False,
        classes=[0, 1],
    ).fit(X, y)

    def risk(w: np.ndarray) -> float:
        return float(np.mean(smoothed_hinge((2 * y - 1) * (X / 2 @ w), smoothing)) + L2 / 2 * w @ w)

    w = minimize(risk, np.zeros(3), method="BFGS", options={"gtol": 1e-7}).x
    np.testing.assert_allclose(model.coef_[0], w / 2, atol=0.01)


def test_the_hinge_loss_itself_goes_through_output_perturbation() -> None:
    X, y = data(500)
    model = PrivateLinearSVC(1e6, smoothing=0, feature_bounds=(-1, 1), l2=L2, classes=[0, 1]).fit(X, y)
    assert model.plan_.algorithm == "output_perturbation"
    smooth = PrivateLinearSVC(1e6, smoothing=1e-3, feature_bounds=(-1, 1), l2=L2, classes=[0, 1]).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), smooth.decision_function(X), atol=0.05)
    with pytest.raises(DpconvexError, match="smooth"):
        model.set_params(algorithm="objective_perturbation").fit(X, y)


def test_scores_decide_the_label() -> None:
    X, y = data()
    model = PrivateLinearSVC(3.0, feature_bounds=(-1, 1), classes=["no", "yes"])
    model.fit(X, np.where(y == 1, "yes", "no"))
    np.testing.assert_array_equal(model.predict(X) == "yes", model.decision_function(X) > 0)
    assert model.score(X, np.where(y == 1, "yes", "no")) > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": [0, 1, 2]}, "Only binary"),
        ({"smoothing": -0.1}, "smoothing=-0.1"),
        ({"smoothing": np.inf}, "smoothing=inf"),
    ],
    ids=str,
)
def test_bad_parameters(options: dict, message: str) -> None:
    X, y = data(30)
    model = PrivateLinearSVC(feature_norm=1.0, **{"classes": [0, 1], **options})
    with pytest.raises(DpconvexError, match=message):
        model.fit(X, y)
    with pytest.raises(DpconvexError, match=message):
        model.plan(30, 3)
