"""Least squares with slopes cut at a public level: what is cut, the bias lemma, sensitivity, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpconvex.algorithms.erm.heavy_tailed import Moments
from dpconvex.algorithms.erm.heavy_tailed.clipped_residuals import PREDICTIONS, plan, slope_moments
from dpconvex.algorithms.erm.heavy_tailed.registry import HeavyMethod, leveled
from dpconvex.algorithms.erm.registry import plans
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HuberLoss, LogisticLoss, PseudoHuberLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams, verify
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.randomness import SeededSource, SystemSource

SQUARED = SquaredLoss(1e6, 1e6)
BOUNDED = (HuberLoss(0.2, 1e6), AbsoluteLoss(1e6), PseudoHuberLoss(0.2, 1e6), LogisticLoss())


def problem(loss: Any = SQUARED, n: int = 2000, dim: int = 2, intercept: float = 1.0) -> LinearModelProblem:
    return LinearModelProblem(loss, DataDomain.box(dim, 0.5).with_intercept(intercept), n, 1.0)


@given(z=st.floats(-1e3, 1e3), y=st.floats(-1e12, 1e12), level=st.floats(1e-6, 1e5))
def test_the_cut_loss_has_the_slopes_of_the_squared_loss_clipped(z: float, y: float, level: float) -> None:
    cut = SQUARED.cut(level)
    assert cut is not None
    Z, Y = np.array([z]), SQUARED.clip_targets(np.array([y]))
    assert cut.clip_targets(np.array([y])) == Y
    assert cut.derivative(Z, Y) == pytest.approx(np.clip(SQUARED.derivative(Z, Y), -level, level), rel=1e-12)
    assert cut.slope_bound == level


def test_what_is_not_cut() -> None:
    assert SquaredLoss(1.0, 2.0).cut(3.1) is None
    assert SquaredLoss(1.0, 2.0).cut(2.9) == HuberLoss(2.9, 1.0)
    assert SquaredLoss(1.0).cut(1e50) == HuberLoss(1e50, 1.0)
    for loss in BOUNDED:
        assert loss.cut(1e-3) is None
        found = plan(problem(loss), PrivacyParams(1.0), Moments(2.0, 1e-50))
        assert (found.bias, replace(found.then.problem, factor=None)) == (0.0, found.problem)
        assert found.predicted_error.bound == found.then.predicted_error.bound
        assert found.theorem == found.then.theorem


@pytest.mark.parametrize("k", [2.0, 3.0, 4.0])
def test_bias_lemma(k: float) -> None:
    """Against pairs of models whose predictions lie in the range, and attained by targets far above it."""
    rng = np.random.default_rng(0)
    y = rng.standard_t(k + 0.2, 20_000)
    moment = float(np.mean(np.abs(y) ** k) ** (1 / k))
    found = plan(problem(n=len(y)), PrivacyParams(0.05), Moments(k, moment))
    excess = np.maximum(np.abs(y) + PREDICTIONS - found.level, 0).mean()
    assert 0 < 2 * PREDICTIONS * excess <= found.bias
    loss, cut = found.problem.loss, found.then.problem.loss

    def moved(one: np.ndarray, other: np.ndarray, y: np.ndarray) -> float:
        change = [f.value(one, y) - f.value(other, y) for f in (loss, cut)]
        return abs(float(np.mean(change[0] - change[1])))

    for _ in range(50):
        one, other = rng.uniform(-PREDICTIONS, PREDICTIONS, (2, len(y))) * rng.choice([1.0, 0.1], (2, 1))
        assert moved(one, other, y) <= 2 * PREDICTIONS * excess * (1 + 1e-9)
    far, ends = np.full(2, 1e4), np.full(2, PREDICTIONS)
    attained = 2 * PREDICTIONS * (1e4 + PREDICTIONS - found.level)
    assert moved(ends, -ends, far) == pytest.approx(attained, rel=2 * PREDICTIONS / 1e3)


def test_the_level_follows_the_moments_and_size() -> None:
    one = plan(problem(), PrivacyParams(1.0), Moments(2.0, 1.0))
    assert one.level == pytest.approx(0.3 * math.sqrt(2000 / 3) + PREDICTIONS)
    assert one.bias == pytest.approx(1 / (one.level - PREDICTIONS))
    assert one.predicted_error.bound == one.then.predicted_error.bound + one.bias
    assert f"cut at {one.level:.4g}" in one.predicted_error.source
    twice = 2 * one.level - PREDICTIONS
    assert plan(problem(), PrivacyParams(4.0), Moments(2.0, 1.0)).level == pytest.approx(twice)
    assert one.at(PrivacyParams(4.0)).level == pytest.approx(twice)
    four = plan(problem(), PrivacyParams(1.0), Moments(4.0, 1.0))
    assert four.level == pytest.approx(0.6 * (2000 / 3) ** 0.25 + PREDICTIONS)
    assert four.public["slope_cut_at"] == four.level
    assert four.public["loss"] == "squared"
    assert four.public["minimized_loss"] == "huber"


def test_no_target_moves_the_gradient_by_more_than_the_sensitivity() -> None:
    """A search over replaced records, targets beyond all floats among them: in l2, twice the level times the norm."""
    found = plan(problem(n=4), PrivacyParams(1.0), Moments(2.0, 1.0))
    wanted, rng, worst = replace(found.then.problem, factor=None), np.random.default_rng(0), 0.0
    largest = 2 * found.level * wanted.domain.l2
    for _ in range(300):
        X, y = rng.choice([-1e300, -0.5, 0.0, 0.5, np.inf, np.nan], (4, 2)), rng.choice([-np.inf, -1e300, 0, 1e300], 4)
        X2, y2 = X.copy(), y.copy()
        X2[0], y2[0] = rng.choice([-0.5, 0.5], 2), rng.choice([-np.inf, np.inf, 3.0])
        w = rng.standard_normal(3) * rng.choice([1e-3, 1.0, 1e3])
        one, other = (
            wanted.on(Records.clipped(a, wanted.domain), wanted.loss.clip_targets(b), 1.0).gradient(w)
            for a, b in ((X, y), (X2, y2))
        )
        worst = max(worst, 4 * float(np.linalg.norm(one - other)))
    assert 0.99 * largest < worst <= largest * (1 + 1e-9)
    assert found.level == wanted.loss.slope_bound


def test_declared_moments_of_gradients_bound_those_of_slopes() -> None:
    assert slope_moments(problem(intercept=0.5), Moments(3.0, 6.0, 4.0, 2.0)) == Moments(3.0, 12.0, 8.0, 4.0)
    with pytest.raises(InvalidParameterError, match="algorithm='heavy_tailed'"):
        slope_moments(problem(intercept=0.0), Moments(2.0, 1.0))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_heavy_targets_are_learned(delta: float) -> None:
    rng = np.random.default_rng(1)
    n = 20_000
    X = rng.uniform(-0.5, 0.5, (n, 2))
    y = 0.8 * X[:, 0] + 0.1 * rng.standard_t(2.1, n)
    result = plan(problem(n=n), PrivacyParams(1.0, delta), Moments(2.0, 0.9)).run(X, y, SeededSource(0))
    np.testing.assert_allclose(result.point, [0.8, 0, 0], atol=0.25)
    assert result.certificate.target == PrivacyParams(1.0, delta)
    assert result.certificate.algorithm == "clipped_residuals"


@pytest.mark.parametrize("known", [True, False])
def test_the_certificate_lists_what_ran_where_the_method_plans_anew(known: bool) -> None:
    """With recentered columns the method's releases follow from the released length."""
    n, wide = 6000, DataDomain.box(3, 0.5).with_intercept(0.5)
    task = LinearModelProblem(SQUARED, wide, n, 1.0)
    rng = np.random.default_rng(0)
    X = rng.normal(0.3, 0.01, (n, 3))
    y = 3 * (X[:, 0] - 0.3) + 0.1 * rng.standard_t(2.5, n)

    def recentered(problem: LinearModelProblem, privacy: PrivacyParams, *_: Any) -> Any:
        return plans(replace(problem, loss=HuberLoss(1.0, 1e6)), privacy, "recentering")[0]

    if known:
        then = recentered(task, PrivacyParams(1.0))
        found: Any = replace(plan(task, PrivacyParams(1.0), Moments(2.0, 1.0)), then=then)
    else:
        found = leveled(task, PrivacyParams(1.2), HeavyMethod(plan, recentered, slopes=True))
    assert found.adaptive
    result = found.run(X, y, SystemSource())
    stated = result.certificate.public["recentered"]
    assert stated["center"] is not None
    assert stated["center"] == pytest.approx([0.3] * 3, abs=0.05)
    assert verify(result.certificate).passed
