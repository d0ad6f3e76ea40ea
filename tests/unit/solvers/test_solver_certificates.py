"""The certificates on problems whose minimizer is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.losses import HingeLoss, SquaredLoss
from dpconvex.problems import DataDomain, Records, RegularizedRisk
from dpconvex.sets import Box, L2Ball, WholeSpace
from dpconvex.solvers import Accuracy, base as certificates


def ridge(seed=0, n=30, d=4, l2=0.05):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    objective = RegularizedRisk(
        SquaredLoss(2.0), Records.clipped(X, DataDomain.l2_ball(d, 1.0)), rng.standard_normal(n), l2
    )
    A = objective.records.rows(slice(None))
    return objective, np.linalg.solve(A.T @ A / n + l2 * np.eye(d), A.T @ objective.targets / n)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([0.0, 1e-9, 1e-3, 1.0]))
def test_all_bounds_hold_without_a_constraint(seed, size):
    objective, best = ridge(seed)
    w = best + size * np.random.default_rng(seed).standard_normal(len(best))
    value, g = objective.value_and_gradient(w)
    error, gap = np.linalg.norm(w - best), value - objective.value(best)
    norm = certificates.gradient_norm(objective, w, g)
    assert error <= norm.bound <= error * objective.smoothness / objective.l2 * (1 + 1e-6) + 1e-10
    lower = certificates.constrained_gap(objective, WholeSpace(), w, g)
    assert gap <= lower.bound + 1e-15
    assert certificates.as_distance(lower, objective.l2).bound == pytest.approx(norm.bound, rel=1e-6, abs=1e-11)
    image = w - g / objective.smoothness
    step = certificates.projected_step(objective, w, image)
    assert np.linalg.norm(image - best) <= step.bound
    assert step.bound <= norm.bound * (1 + 1e-6) + 1e-10


def test_c2_is_positive_away_from_a_minimizer_on_the_border():
    """Outside of the set the gap can be 0 at a positive distance; the distance form holds even there."""
    records = Records.clipped(np.zeros((1, 1)), DataDomain.box(1, 1.0))
    objective = RegularizedRisk(SquaredLoss(1.0), records, np.zeros(1), 1.0)
    box = Box(1.0, 2.0, dim=1)
    for w in ([1.5], [1.0], [2.0]):
        point = np.array(w)
        bound = certificates.constrained_gap(objective, box, point, objective.gradient(point)).bound
        assert (w[0] ** 2 - 1) / 2 <= bound
    outside = np.array([0.9])
    image = box.project(outside - objective.gradient(outside) / objective.smoothness)
    assert certificates.projected_step(objective, outside, image).bound >= abs(image[0] - 1.0)


def test_lower_model_never_exceeds_the_minimum():
    rng = np.random.default_rng(5)
    records = Records.clipped(rng.standard_normal((40, 3)), DataDomain.l2_ball(3, 1.0))
    objective = RegularizedRisk(HingeLoss(), records, rng.standard_normal(40), 0.1)
    ball = L2Ball(0.4)
    points = [ball.project(rng.standard_normal(3)) for _ in range(300)]
    smallest = min(objective.value(w) for w in points)
    model = certificates.LowerModel(objective, ball)
    for t, w in enumerate(points[:20]):
        value, g = objective.value_and_gradient(w)
        model.add(t + 1.0, w, value, g)
        best = min(objective.value(w) for w in points[: t + 1])
        assert best - model.gap().bound <= smallest


def test_gap_to_distance():
    gap = Accuracy("gap", 0.02, "a posteriori", "x")
    assert certificates.as_distance(gap, 4.0).bound == pytest.approx(0.1)
    assert certificates.as_distance(gap, 4.0).bound >= 0.1
