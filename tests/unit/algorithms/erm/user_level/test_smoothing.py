"""Stand-ins for losses with kinks: sandwiches, unbiased slopes, smoothness; the misprinted direction."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex.algorithms.erm.user_level.aggregates import Envelope, Randomized, smoothings
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, LogisticLoss, SoftmaxLoss
from dpconvex.problems import DataDomain, LinearModelProblem

DIM = 8


def problem(loss):
    return LinearModelProblem(loss, DataDomain.l2_ball(DIM, 1.0), 100, 2.0, records_per_user=10)


def ball_points(rng, count, radius):
    """Uniform in the ball: the paper's own draw."""
    g = rng.standard_normal((count, DIM))
    return radius * rng.random((count, 1)) ** (1 / DIM) * g / np.linalg.norm(g, axis=1, keepdims=True)


def test_one_draw_a_record_has_the_law_of_the_ball() -> None:
    """<y, x> for y uniform in the ball, against r |x| U: first four moments, 200,000 draws, five standard errors."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(DIM)
    direct = ball_points(rng, 200_000, 0.7) @ x
    norms = np.full(200_000, np.linalg.norm(x))
    _, columns = Randomized(0.7).at_step(AbsoluteLoss(5.0), np.zeros(200_000), norms, DIM, rng)
    for power in (1, 2, 3, 4):
        a, b = direct**power, columns[:, 1] ** power
        assert abs(a.mean() - b.mean()) <= 5 * math.hypot(a.std(), b.std()) / math.sqrt(200_000)


def test_the_sandwich_holds_in_the_repaired_direction_only() -> None:
    """f <= f_r <= f + L r; the printed f_r <= f fails at the kink (E12)."""
    rng, r, x = np.random.default_rng(1), 0.5, np.eye(DIM)[0]
    shifts = ball_points(rng, 100_000, r) @ x
    for z in (-1.0, -0.1, 0.0, 0.2, 3.0):
        smoothed = np.abs(z + shifts).mean()
        assert abs(z) - 0.005 <= smoothed <= abs(z) + r
    assert np.abs(shifts).mean() > 0.05


def test_slopes_are_unbiased_and_as_smooth_as_claimed() -> None:
    rng, r, count = np.random.default_rng(2), 0.5, 400_000
    smoothing, p = Randomized(r), problem(AbsoluteLoss(5.0))

    def mean_slope(z):
        loss, columns = smoothing.at_step(p.loss, np.zeros(count), np.ones(count), DIM, rng)
        return loss.derivative(np.full(count, z), columns).mean()

    points = np.linspace(-0.6, 0.6, 7)
    slopes = [mean_slope(z) for z in points]
    assert np.all(np.diff(slopes) >= -0.01)
    assert max(np.diff(slopes) / np.diff(points)) <= smoothing.smoothness(p) + 0.05
    assert slopes[0] == pytest.approx(-1.0)
    assert slopes[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("loss", [HingeLoss(), AbsoluteLoss(3.0)], ids=lambda loss: loss.name)
def test_both_kinds_have_the_excess_that_was_asked_for(loss) -> None:
    p = problem(loss)
    envelope, randomized = smoothings(p, "auto", 0.1), smoothings(p, "randomized", 0.1)
    assert isinstance(envelope, Envelope)
    assert envelope.excess(p) == pytest.approx(0.1)
    assert randomized.excess(p) == pytest.approx(0.1)
    assert randomized.smoothness(p) / envelope.smoothness(p) == pytest.approx(2 * math.sqrt(DIM))


def test_kinds_that_do_not_go_with_the_loss_are_refused() -> None:
    assert smoothings(problem(LogisticLoss()), "auto", 0.1).name == "none"
    for loss, kind in ((HingeLoss(), "none"), (LogisticLoss(), "envelope"), (SoftmaxLoss(3), "randomized")):
        with pytest.raises(InvalidParameterError, match="smoothing"):
            smoothings(problem(loss), kind, 0.1)
