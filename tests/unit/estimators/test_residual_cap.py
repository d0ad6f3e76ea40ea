"""`residual_cap`: least squares whose residuals count at most so much."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex import NumericColumn, PrivateAdditiveRegressor, PrivateLinearRegression, Schema, verify
from dpconvex.data import NumericTarget
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators.regressors import CAPS
from dpconvex.losses import HuberLoss, SquaredLoss


def made(epsilon: float = 1.0, **more) -> PrivateLinearRegression:
    return PrivateLinearRegression(epsilon, feature_bounds=(-1, 1), target_bounds=(0, 40), **more)


def data(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 3))
    return X, 20 + X @ [5.0, -4.0, 2.0] + rng.normal(size=n)


@pytest.mark.parametrize("cap", [40.0, 1e9])
def test_a_cap_beyond_the_range_is_none(cap: float) -> None:
    (plan, *_) = made(residual_cap=cap, algorithm="objective_perturbation").plan(1000, 3)
    assert plan.problem.loss == SquaredLoss(0.5, prediction_bound=0.5)
    assert "residual_cap" not in plan.public


def test_noise_falls_with_the_cap_and_the_certificate_says_so() -> None:
    X, y = data()
    noises = []
    for cap in (10.0, 5.0):
        model = made(residual_cap=cap, algorithm="objective_perturbation", noise="l1").fit(X, y)
        assert model.certificate_.public["residual_cap"] == cap / 40
        assert verify(model.certificate_).passed
        noises.append(model.certificate_.releases[0].event.to_dict()["sensitivity"])
    assert noises[1] == pytest.approx(noises[0] / 2)


def test_without_noise_it_is_a_huber_fit_in_the_unit_of_the_target() -> None:
    X, y = data()
    y[:300] += 15  # outliers that a mean follows
    l2 = 1e-4
    model = made(1e6, residual_cap=2.0, l2=l2, algorithm="objective_perturbation", random_state=0).fit(X, y)
    plan = model.plan_
    assert plan.problem.loss == HuberLoss(2 / 40, 0.5, of_mean=True, saturating=True)
    bound = plan.problem.domain.blocks[0].bound
    objective = plan.problem.objective(X * bound, (y - 20) / 40, l2)
    flat = np.append(model.encoded_coef_, (model.encoded_intercept_ - 20) / plan.problem.domain.intercept) / 40
    assert np.linalg.norm(objective.gradient(flat)) < 1e-4
    assert model.intercept_ < y.mean() - 0.5


def test_the_default_is_the_cap_that_expects_the_least() -> None:
    usual = made()
    usual._looks = False
    for n in (300, 100_000):
        expected = {cap: made(residual_cap=40 * cap).plan(n, 3)[0].predicted_error.rank for cap in (1.0, *CAPS)}
        assert usual.plan(n, 3)[0].predicted_error.rank == min(expected.values())
    wide = made().plan(300, 3)[0].problem.loss
    assert isinstance(wide, HuberLoss)
    assert wide.width < 0.5


def test_predictions_stay_good() -> None:
    X, y = data()
    assert made(random_state=1).fit(X, y).score(X, y) > 0.6


def test_it_is_refused_where_it_means_nothing() -> None:
    with pytest.raises(InvalidParameterError, match="residual_cap"):
        made(residual_cap=-1.0).plan(100, 3)
    with pytest.raises(InvalidParameterError, match="residual_cap"):
        made(residual_cap=1.0, heavy_tailed=2).plan(100, 3)


@pytest.mark.parametrize("model", [PrivateLinearRegression, PrivateAdditiveRegressor])
@pytest.mark.parametrize(("n", "epsilon"), [(2000, 10.0), (10_000, 1.0), (10_000, 10.0)])
def test_a_rare_yes_keeps_its_rate(model: type, n: int, epsilon: float) -> None:
    """Residuals of a yes are far longer than plans expected, so a cap took them away: .12 was predicted for .20."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(n, 5))
    y = (rng.uniform(size=n) < 0.2 + 0.04 * X[:, 0]).astype(float)
    fitted = model(epsilon, feature_bounds=(0, 1), target_bounds=(0, 1), random_state=0).fit(X, y)
    assert abs(fitted.predict(X).mean() - y.mean()) < 0.03
    assert np.square(fitted.predict(X) - y).mean() < 1.01 * y.var()


def test_only_a_range_of_yes_and_no_is_not_looked_at() -> None:
    """A step says that there are values between the ends; with very many records a look is taken in any case."""

    def looked(n: int, lower: float, upper: float, step: float = 0.0) -> bool:
        target = NumericTarget("y", lower, upper, step=step)
        model = PrivateLinearRegression(1.0, schema=Schema((NumericColumn("x", 0, 3),), target))
        return getattr(model.plan(n)[0], "look", None) is not None

    assert [looked(5000, *ends) for ends in ((0, 1), (1, 2), (0, 1, 0.5), (0, 1, 1.0))] == [False] * 4
    assert [looked(5000, *ends) for ends in ((0, 1, 0.01), (0, 1.5), (0.5, 1.5), (0, 2))] == [True] * 4
    assert looked(40_000, 0, 1)
