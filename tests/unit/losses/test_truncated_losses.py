"""Truncated losses: closed forms, the clipped gradient, convexity, no record that beats its level."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.losses import (
    LOSSES,
    AbsoluteLoss,
    HingeLoss,
    LogisticLoss,
    PiecewiseLinearLoss,
    PinballLoss,
    SquaredLoss,
    truncate,
)
from dpconvex.losses.derived import TruncatedPiecewiseLinearLosses
from instances import instances

pytestmark = pytest.mark.together

EXAMPLES = [loss for kind in LOSSES for loss in instances(kind) if loss.n_outputs == 1]
EVERY = slice(None)
SHARP = 1e-9  # smoothing parameter of piecewise linear losses


def records(loss, seed=0, n=400):
    rng = np.random.default_rng(seed)
    targets = loss.clip_targets(np.where(rng.random(n) < 0.5, rng.choice([-1.0, 1.0], n), rng.standard_normal(n)))
    return targets, 10.0 ** rng.uniform(-2, 3, n), rng


def grid_values(loss, target, norm, level, radius, u):
    """Values and slopes at predictions `u` of one record, repeated."""
    n = len(u)
    found = truncate(loss, np.full(n, float(target)), np.full(n, float(norm)), level, radius, SHARP)
    return found.value(u, EVERY), found.slope(u, EVERY)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_the_gradient_is_the_clipped_gradient(loss) -> None:
    """Within the ball: clip(phi', -C/|x|, C/|x|), but for the smoothed kinks."""
    targets, norms, rng = records(loss)
    level, radius = 1.7, 2.0
    found = truncate(loss, targets, norms, level, radius, SHARP)
    z = rng.uniform(-1, 1, len(norms)) * radius * norms
    wanted = np.clip(loss.derivative(z, targets), -level / norms, level / norms)
    off_kink = np.abs(z - targets) > SHARP * norms**2 if isinstance(loss, PiecewiseLinearLoss) else slice(None)
    assert np.allclose(found.slope(z, EVERY)[off_kink], wanted[off_kink], rtol=1e-9, atol=1e-12)
    ends = [np.abs(loss.derivative(sign * radius * norms, targets)) for sign in (1, -1)]
    light = np.max(ends, axis=0) * norms <= level
    if not isinstance(loss, PiecewiseLinearLoss):
        assert light.any()
        assert np.allclose(found.value(z, EVERY)[light], loss.value(z, targets)[light], rtol=1e-12)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_convex_lipschitz_and_the_derivative_of_the_value(loss) -> None:
    targets, norms, rng = records(loss, 1)
    level, radius, smoothing = 0.9, 1.5, 0.01
    found = truncate(loss, targets, norms, level, radius, smoothing)
    a, b = rng.uniform(-3, 3, (2, len(norms))) * radius * norms  # also beyond the ball
    slopes = found.slope(a, EVERY), found.slope(b, EVERY)
    assert max(np.abs(slopes[0] * norms).max(), np.abs(slopes[1] * norms).max()) <= level * (1 + 1e-12)
    values = found.value(a, EVERY), found.value(b, EVERY)
    size = 1e-12 * (1 + np.abs(values[0]) + np.abs(values[1]) + np.abs(slopes[0] * (b - a)))
    assert np.all(values[1] >= values[0] + slopes[0] * (b - a) - size), "convex, with these slopes"
    assert np.all((slopes[0] - slopes[1]) * (a - b) >= -1e-12 * np.abs(a - b))
    curvature = 1 / smoothing if isinstance(loss, PiecewiseLinearLoss) else loss.curvature_bound * norms**2
    assert np.all(np.abs(slopes[0] - slopes[1]) * norms <= curvature * np.abs(a - b) / norms * (1 + 1e-9) + 1e-12)
    step = 1e-7 * norms
    middle, second = found.slope(a, EVERY), found.curvature(a, EVERY)
    near = (found.curvature(a + step, EVERY) == second) & (found.curvature(a - step, EVERY) == second)
    change = (found.slope(a + step, EVERY) - found.slope(a - step, EVERY)) / (2 * step)
    scale = 1e-6 * (np.abs(middle) / step * 1e-9 + second + 1 / norms)
    assert np.all(np.abs(change - second)[near] <= scale[near] + 1e-5 * second[near])


def test_closed_forms_of_the_specification() -> None:
    """Specification of the heavy-tail paper, section 2.12: phi_c with c = C / |x|."""
    u = np.linspace(-6, 6, 1001)
    norm, level, radius = 2.0, 1.0, 3.0
    c = level / norm
    value, slope = grid_values(SquaredLoss(10.0), 0.0, norm, level, radius, u)
    assert np.allclose(value, np.where(np.abs(u) <= c, u**2 / 2, c * np.abs(u) - c**2 / 2), atol=1e-14)
    value, _ = grid_values(AbsoluteLoss(), 0.0, norm, level, radius, u)
    assert np.allclose(value, min(1, c) * np.abs(u), atol=1e-8)
    value, _ = grid_values(HingeLoss(), 1.0, norm, level, radius, u)
    assert np.allclose(value, min(1, c) * np.maximum(1 - u, 0), atol=1e-8)
    _, slope = grid_values(PinballLoss(0.3), 0.0, norm, level, radius, u)
    off = np.abs(u) > 1e-6
    assert np.allclose(slope[off], np.where(u > 0, min(0.7, c), -min(0.3, c))[off])
    value, slope = grid_values(LogisticLoss(), 1.0, norm, level, radius, u)
    start = math.log((1 - c) / c)
    wanted = np.where(u <= start, -math.log(1 - c) - c * (u - start), np.log1p(np.exp(-u)))
    assert np.allclose(value, wanted, atol=1e-13)
    assert np.allclose(grid_values(LogisticLoss(), 1.0, 0.5, level, radius, u / 4)[0], np.log1p(np.exp(-u / 4)))


def test_smoothing_costs_at_most_its_share() -> None:
    u = np.linspace(-6, 6, 1001)
    for norm in (0.1, 1.0, 7.0):
        for loss, y in ((AbsoluteLoss(), 0.5), (HingeLoss(), -1.0), (PinballLoss(0.2), 0.1)):
            n, level, smoothing = len(u), 1.3, 0.2
            y_n, norms = np.full(n, y), np.full(n, norm)
            rough = truncate(loss, y_n, norms, level, 9.0, 1e-100).value(u, EVERY)
            smooth = truncate(loss, y_n, norms, level, 9.0, smoothing).value(u, EVERY)
            assert np.all(smooth <= rough + 1e-12)
            assert (rough - smooth).max() <= smoothing * level**2 / 2 * (1 + 1e-9)
            assert (rough - smooth).max() >= 0.05 * smoothing * min(level, 0.2 * norm) ** 2


@settings(max_examples=60, deadline=None)
@given(
    norm=st.floats(0, 1e150),
    target=st.floats(-1e100, 1e100),
    z=st.floats(-1e150, 1e150),
    level=st.floats(1e-6, 1e6),
    index=st.integers(0, len(EXAMPLES) - 1),
)
def test_no_content_warns_or_gives_nan(norm, target, z, level, index) -> None:
    """Warnings are errors in this suite."""
    loss = EXAMPLES[index]
    y = loss.clip_targets(np.array([target]))
    found = truncate(loss, y, np.array([norm]), level, 1.0, 1e-3)
    slope = found.slope(np.array([z]), EVERY)
    assert not np.isnan(slope).any()
    assert abs(float(slope[0])) * norm <= level * (1 + 1e-12)
    assert not np.isnan(found.value(np.array([z]), EVERY)).any()
    assert not np.isnan(found.curvature(np.array([z]), EVERY)).any()


@pytest.mark.parametrize("loss", [loss for loss in EXAMPLES if isinstance(loss, PiecewiseLinearLoss)], ids=repr)
def test_smoothing_bounds_the_curvature_however_long_the_features_are(loss) -> None:
    """Around the kink, where the parabola is: per unit of w at most 1 / smoothing, and nearly that."""
    targets, norms, _ = records(loss, 2)
    smoothing = 0.01
    found = truncate(loss, targets, norms, 0.9, 1.5, smoothing)
    assert isinstance(found, TruncatedPiecewiseLinearLosses)
    middle = targets + found.width * 0.5 * (found.lower + found.upper)
    half = 0.25 * found.width * (found.upper - found.lower)
    rise = found.slope(middle + half, EVERY) - found.slope(middle - half, EVERY)
    per_unit = rise * norms / (2 * half / norms)
    sharp = half > 1e-9 * np.abs(targets)  # elsewhere differences of predictions are rounding
    assert per_unit[sharp].max() <= (1 + 1e-5) / smoothing
    assert per_unit[sharp].min() >= (1 - 1e-5) / smoothing


def test_records_too_short_for_their_squares_are_still_cut() -> None:
    """The square of 1e-160 has lost its digits: its level must not be larger than C / |x| for that."""
    level, norms = 1e-70, np.array([1e-140, 3e-161, 1e-165])
    computed = np.sqrt(norms**2)
    found = truncate(AbsoluteLoss(), np.full(3, -1.0), computed, level, 1.0, SHARP)
    assert np.all(found.slope(np.zeros(3), EVERY) * norms <= level * (1 + 1e-12))
    steep = truncate(SquaredLoss(1e100), np.full(3, -1e100), computed, level, 1.0, SHARP)
    assert np.all(steep.slope(np.zeros(3), EVERY) * norms <= level * (1 + 1e-12))
