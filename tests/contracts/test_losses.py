"""What every loss promises. A loss added to `LOSSES` is tested here without further work."""

from __future__ import annotations

import inspect
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from dpconvex import losses
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LOSSES, CurvatureLaw, LinearModelLoss, PiecewiseLinearLoss, SmoothLoss
from instances import instances

pytestmark = pytest.mark.together

EXAMPLES = [loss for cls in LOSSES for loss in instances(cls)]
SMOOTH = [loss for loss in EXAMPLES if isinstance(loss, SmoothLoss)]
PIECEWISE = [loss for loss in EXAMPLES if isinstance(loss, PiecewiseLinearLoss)]
CONCORDANT = [loss for loss in SMOOTH if loss.frobenius_self_concordance is not None]
LARGEST = np.finfo(float).max
EXTREMES = np.array([0.0, -0.0, 5e-324, 1e-300, 1e-9, 1.0, 745.0, 1e16, 1e154, 1e308, LARGEST])
RAW_TARGETS = np.array([-np.inf, -1e308, -7, -1.5, -1, -0.3, 0, 0.5, 1, 2, 2.4, 6, 1e9, 1e308, np.inf, np.nan])
EPS = 1e-14  # relative: a few roundings


def each(examples: list) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("loss", examples, ids=repr)


def records(loss: LinearModelLoss, seed: int = 0, reach: float = 12.0) -> tuple[np.ndarray, np.ndarray]:
    """A search grid: predictions of moderate size, dense around every kink, against all kinds of targets."""
    targets = np.unique(loss.clip_targets(RAW_TARGETS))
    targets = targets[np.abs(targets) < 1e3]
    if loss.n_outputs == 1:
        grid = np.concatenate([np.linspace(-reach, reach, 4801), [-40.0, 40.0]])
        z, y = np.meshgrid(grid, targets)
        return z.ravel(), y.ravel()
    rng = np.random.default_rng(seed)
    shape = (4000, loss.n_outputs)
    z = rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 1.3, size=(4000, 1))
    z[:200] = 0.0  # equal probabilities
    z[200:400] = np.where(np.arange(loss.n_outputs) < 2, 0.0, -40.0)  # two classes of probability 1/2
    return z, rng.choice(targets, size=4000)


def lengths(derivative: np.ndarray) -> np.ndarray:
    return np.abs(derivative) if derivative.ndim == 1 else np.linalg.norm(derivative, axis=1)


def inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * b if a.ndim == 1 else np.einsum("ij,ij->i", a, b)


def hessians(loss: SmoothLoss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Hessians of shape (n, n_outputs, n_outputs)."""
    return loss.hessian_weights(z, y).reshape(len(z), loss.n_outputs, loss.n_outputs)


def test_every_concrete_loss_is_exported_once() -> None:
    def subclasses(cls: type) -> set[type]:
        return {cls}.union(*map(subclasses, cls.__subclasses__()))

    own = {c for c in subclasses(LinearModelLoss) if c.__module__.startswith("dpconvex.losses.")}
    assert {c for c in own if not inspect.isabstract(c)} == set(LOSSES)
    assert len({c.name for c in LOSSES}) == len(LOSSES) == len(set(LOSSES))
    assert {c.__name__ for c in LOSSES} <= set(losses.__all__)


@pytest.mark.parametrize("cls", LOSSES)
def test_losses_are_final_values(cls: type[LinearModelLoss]) -> None:
    assert getattr(cls, "__final__", False)
    assert instances(cls)
    for loss in instances(cls):
        again = pickle.loads(pickle.dumps(loss))
        assert again == loss
        assert hash(again) == hash(loss)
        assert loss.task in ("classification", "regression")


@each(EXAMPLES)
def test_shapes(loss: LinearModelLoss) -> None:
    z, y = records(loss)
    z_before, y_before = z.copy(), y.copy()
    assert loss.value(z, y).shape == y.shape
    assert loss.derivative(z, y).shape == z.shape
    if isinstance(loss, SmoothLoss):
        k = loss.n_outputs
        assert loss.hessian_weights(z, y).shape == (y.shape if k == 1 else (len(y), k, k))
    assert np.array_equal(z, z_before)
    assert np.array_equal(y, y_before)


@each(EXAMPLES)
def test_derivative_is_that_of_the_value(loss: LinearModelLoss) -> None:
    z, y = records(loss)
    step = 1e-6
    curvature = loss.curvature_bound
    if isinstance(loss, PiecewiseLinearLoss):
        away = np.abs(z - y) > 2 * step
        z, y, curvature = z[away], y[away], 0.0
    direction = np.ones_like(z) if z.ndim == 1 else np.random.default_rng(1).standard_normal(z.shape)
    difference = (loss.value(z + step * direction, y) - loss.value(z - step * direction, y)) / (2 * step)
    slope = inner(loss.derivative(z, y), direction)
    scale = 1 + np.abs(loss.value(z, y))
    bound = curvature * step * lengths(direction) ** 2 + 1e-8 * scale
    assert np.all(np.abs(difference - slope) <= bound)


@each(SMOOTH)
def test_hessian_is_that_of_the_derivative(loss: SmoothLoss) -> None:
    z, y = records(loss)
    step = 1e-6
    direction = np.ones_like(z) if z.ndim == 1 else np.random.default_rng(1).standard_normal(z.shape)
    up, down = z + step * direction, z - step * direction
    difference = ((loss.derivative(up, y) - loss.derivative(down, y)) / (2 * step)).reshape(len(z), -1)
    claimed = np.einsum("nij,nj->ni", hessians(loss, z, y), direction.reshape(len(z), -1))
    smooth_here = np.ptp([hessians(loss, p, y) for p in (up, z, down)], axis=0).max(axis=(1, 2)) < 1e-3
    assert smooth_here.mean() > 0.99
    assert np.abs(difference - claimed)[smooth_here].max() <= 1e-4 * loss.curvature_bound


@each(EXAMPLES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
@pytest.mark.thin
def test_subgradient_inequality_and_convexity(loss: LinearModelLoss, data: st.DataObject) -> None:
    n = 5
    shape = (n,) if loss.n_outputs == 1 else (n, loss.n_outputs)
    numbers = st.one_of(st.floats(-4, 4), st.floats(-1e6, 1e6), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0]))
    z, other = (data.draw(hnp.arrays(float, shape, elements=numbers)) for _ in range(2))
    y = loss.clip_targets(data.draw(hnp.arrays(float, n, elements=numbers)))
    value, far, slope = loss.value(z, y), loss.value(other, y), loss.derivative(z, y)
    terms = np.abs(value) + np.abs(far) + lengths(slope) * lengths(other - z) + lengths(z) + lengths(other) + 1
    assert np.all(far >= value + inner(slope, other - z) - 1e-13 * terms)
    assert np.all(loss.value((z + other) / 2, y) <= (value + far) / 2 + 1e-13 * terms)
    assert np.all(value >= 0)


@each(EXAMPLES)
def test_slope_bounds_hold_and_are_tight(loss: LinearModelLoss) -> None:
    reach = 12.0 if loss.n_outputs == 1 else 40.0
    z, y = records(loss, reach=reach)
    z = np.concatenate([z, 1e9 * z])
    slope = loss.derivative(z, np.tile(y, 2))
    assert lengths(slope).max() <= loss.slope_bound * (1 + EPS)
    size_l1 = np.abs(slope).reshape(len(slope), -1).sum(axis=1)
    assert size_l1.max() <= loss.slope_bound_l1 * (1 + EPS)
    if math.isinf(loss.slope_bound):
        assert lengths(slope).max() > 1e8
    else:
        assert lengths(slope).max() >= 0.9 * loss.slope_bound
        assert size_l1.max() >= 0.9 * loss.slope_bound_l1


@each(SMOOTH)
def test_curvature_bounds_hold_and_are_tight(loss: SmoothLoss) -> None:
    z, y = records(loss)
    eigenvalues = np.linalg.eigvalsh(hessians(loss, z, y))
    assert eigenvalues.min() >= -EPS
    assert 0.9 * loss.curvature_bound <= eigenvalues.max() <= loss.curvature_bound * (1 + EPS)
    trace = eigenvalues.sum(axis=1).max()
    assert 0.9 * loss.curvature_trace <= trace <= loss.curvature_trace * (1 + EPS)
    rank = (eigenvalues > 1e-9).sum(axis=1).max()
    assert rank == loss.curvature_rank
    t, r = loss.curvature_trace, loss.curvature_rank
    for tau in (0.01, 1.0, 100.0):
        assert np.prod(1 + tau * eigenvalues, axis=1).max() <= (1 + t * tau / r) ** r * (1 + 1e-12)


@each(SMOOTH)
def test_derivative_is_lipschitz(loss: SmoothLoss) -> None:
    z, y = records(loss)
    rng = np.random.default_rng(2)
    for distance in (1e-3, 0.1, 3.0):
        other = z + distance * rng.standard_normal(z.shape)
        change = lengths(loss.derivative(z, y) - loss.derivative(other, y))
        limit = loss.curvature_bound * lengths(z - other) * (1 + 1e-9) + EPS * (1 + lengths(loss.derivative(z, y)))
        assert np.all(change <= limit)


@each(EXAMPLES)
def test_only_smooth_losses_bound_the_curvature(loss: LinearModelLoss) -> None:
    assert isinstance(loss, SmoothLoss) == math.isfinite(loss.curvature_bound)
    assert isinstance(loss, SmoothLoss) or loss.self_concordance is None


@each(CONCORDANT)
def test_self_concordance_holds_and_is_tight(loss: SmoothLoss) -> None:
    q, bound = loss.frobenius_self_concordance, loss.slope_bound
    assert q is not None
    z, y = records(loss)
    curvature = np.trace(hessians(loss, z, y), axis1=1, axis2=2)
    room = bound - lengths(loss.derivative(z, y))
    assert np.all(curvature <= q / bound * room + 1e-15 * max(1.0, q / bound))
    clear = room > 1e-6 * bound
    assert (curvature[clear] * bound / room[clear]).max() >= 0.9 * q
    if loss.n_outputs == 1:
        assert loss.self_concordance == q


def excess_of_the_law(loss: SmoothLoss, law: CurvatureLaw) -> float:
    """The largest violation of a curvature law over a search grid that is dense where the slope is large or bends."""
    z, y = records(loss)
    if loss.n_outputs == 1:  # the ends of the slopes, and both sides of every kink
        fine = np.concatenate([z, np.linspace(-40, 40, 20_001), np.linspace(-2, 2, 20_001)])
        z, y = np.tile(fine, 2), np.concatenate([np.resize(y, len(fine)), np.resize(y[::-1], len(fine))])
    slope, hessian = loss.derivative(z, y), hessians(loss, z, y)
    trace = np.trace(hessian, axis1=1, axis2=2)
    if law == CurvatureLaw.LOGISTIC:
        if loss.n_outputs > 1 or loss.slope_bound > 1:
            return math.inf
        a = np.abs(slope)
        return float(np.max(trace - a * (1 - a)))
    if law == CurvatureLaw.SOFTMAX:
        if loss.n_outputs == 1:
            return math.inf
        own = np.arange(loss.n_outputs) == y[:, None]
        probabilities = slope / (loss.slope_bound_l1 / 2) + own
        apart = np.abs(probabilities.sum(axis=1) - 1).max()
        return float(max(apart, -probabilities.min(), np.max(trace - loss.curvature_trace)))
    return float(np.max(trace - loss.curvature_trace))


def test_no_slope_and_curvature_beat_the_declared_law_and_a_false_claim_is_found() -> None:
    for loss in SMOOTH:
        size = max(1.0, loss.curvature_trace)
        assert excess_of_the_law(loss, loss.curvature_law) <= 1e-12 * size, loss
        for law in (CurvatureLaw.LOGISTIC, CurvatureLaw.SOFTMAX):
            if loss.curvature_law == CurvatureLaw.BOUNDED:
                assert excess_of_the_law(loss, law) > 1e-3, (loss, law)


@each([loss for loss in SMOOTH if loss.frobenius_self_concordance is None])
def test_losses_without_self_concordance_really_have_none(loss: SmoothLoss) -> None:
    if math.isinf(loss.slope_bound):
        return
    z, y = records(loss)
    room = 1 - lengths(loss.derivative(z, y)) / loss.slope_bound
    curvature = np.trace(hessians(loss, z, y), axis1=1, axis2=2)
    near = room < 0.11  # the slope is nearly saturated (the grid is no finer)
    assert curvature[near].max() > 0.8 * loss.curvature_trace  # a q would cap it at 0.11 q


@each(EXAMPLES)
def test_value_at_zero_is_attained_and_never_beaten(loss: LinearModelLoss) -> None:
    def at_zero(raw: np.ndarray) -> np.ndarray:
        y = loss.clip_targets(raw)
        return loss.value(np.zeros(len(y)) if loss.n_outputs == 1 else np.zeros((len(y), loss.n_outputs)), y)

    largest = at_zero(RAW_TARGETS).max()
    if math.isinf(loss.value_at_zero):
        assert largest > 1e90
    else:
        assert largest <= loss.value_at_zero <= largest * (1 + 1e-12) + 1e-300


@each(EXAMPLES)
def test_extreme_predictions_and_targets(loss: LinearModelLoss) -> None:
    """Neither warnings (they are errors here) nor NaN, and the bounds hold."""
    signed = np.concatenate([-EXTREMES, EXTREMES])
    targets = loss.clip_targets(np.concatenate([RAW_TARGETS, signed]))
    if loss.n_outputs == 1:
        z, y = (a.ravel() for a in np.meshgrid(signed, targets))
    else:
        z = np.random.default_rng(3).choice(signed, size=(3000, loss.n_outputs))
        y = np.random.default_rng(4).choice(targets, size=3000)
    value, slope = loss.value(z, y), loss.derivative(z, y)
    assert np.all(value >= 0)  # False for NaN
    assert np.all(lengths(slope) <= loss.slope_bound * (1 + EPS))
    if isinstance(loss, SmoothLoss):
        hessian = hessians(loss, z, y)
        assert np.all(np.trace(hessian, axis1=1, axis2=2) <= loss.curvature_trace * (1 + EPS))
        assert np.all(np.diagonal(hessian, axis1=1, axis2=2) >= 0)


@each(EXAMPLES)
def test_predictions_that_are_not_finite_do_not_warn(loss: LinearModelLoss) -> None:
    """A solver may overflow on its way; what comes out is then unspecified, but silent."""
    bad = np.array([-np.inf, np.inf, np.nan])
    z = bad if loss.n_outputs == 1 else np.stack([np.full(loss.n_outputs, b) for b in bad])
    for raw in (0.0, 1.0):
        y = loss.clip_targets(np.full(3, raw))
        assert loss.value(z, y).shape == (3,)
        assert loss.derivative(z, y).shape == z.shape
        if isinstance(loss, SmoothLoss):
            assert len(loss.hessian_weights(z, y)) == 3


@each(EXAMPLES)
def test_no_records(loss: LinearModelLoss) -> None:
    y = loss.clip_targets(np.empty(0))
    z = np.empty(0) if loss.n_outputs == 1 else np.empty((0, loss.n_outputs))
    assert loss.value(z, y).shape == (0,)
    assert loss.derivative(z, y).shape == z.shape


@each(EXAMPLES)
@settings(deadline=None, max_examples=40)
@given(raw=hnp.arrays(float, 6, elements=st.floats(allow_nan=True, allow_infinity=True)))
@pytest.mark.thin
def test_clipping_of_targets(loss: LinearModelLoss, raw: np.ndarray) -> None:
    before = raw.copy()
    y = loss.clip_targets(raw)
    assert y.dtype == np.float64
    assert not np.shares_memory(y, raw)
    assert np.array_equal(raw, before, equal_nan=True)
    assert np.all(np.isfinite(y))
    assert np.array_equal(loss.clip_targets(y), y)
    assert np.array_equal(y, np.concatenate([loss.clip_targets(raw[i : i + 1]) for i in range(6)]))
    if loss.task == "classification":
        allowed = range(loss.n_outputs) if loss.n_outputs > 1 else (-1, 1)
        classes = loss.unpacked(y)[0] if isinstance(loss, losses.WeightedLoss) else y
        assert set(classes) <= set(map(float, allowed))
    else:
        assert np.abs(y).max() <= getattr(loss, "target_bound", math.inf)


@each(EXAMPLES)
def test_targets_of_any_numeric_dtype(loss: LinearModelLoss) -> None:
    for dtype in (bool, np.int8, np.uint64, np.float16, np.float32, np.longdouble):
        found = loss.clip_targets(np.array([0, 1], dtype))
        assert np.array_equal(found, loss.clip_targets(np.array([0.0, 1.0]))), dtype


@each(EXAMPLES)
@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.array(["a"]), np.array([1j]), np.array([None, 1.0])])
def test_targets_of_a_wrong_form_are_refused(loss: LinearModelLoss, bad: np.ndarray) -> None:
    with pytest.raises(InvalidDataError, match=r"y has (shape|dtype)"):
        loss.clip_targets(bad)


@each(EXAMPLES)
def test_sides(loss: LinearModelLoss) -> None:
    z, y = records(loss)
    slope = loss.derivative(z, y)
    if loss.sides == 1:
        assert np.all(slope * y <= 0)
    else:
        assert slope.min() < 0 < slope.max()


@each(PIECEWISE)
def test_conjugate_form(loss: PiecewiseLinearLoss) -> None:
    z, y = records(loss)
    lo, hi = loss.slope_interval(y)
    assert np.all((lo <= 0) & (hi >= 0))
    assert np.maximum(-lo, hi).max() == loss.slope_bound
    u = lo + np.linspace(0, 1, 11)[:, None] * (hi - lo)
    np.testing.assert_allclose(loss.value(z, y), (u * (z - y)).max(axis=0), rtol=0, atol=1e-13)
    slope = loss.derivative(z, y)
    assert np.all((lo <= slope) & (slope <= hi))


@each(PIECEWISE)
@pytest.mark.parametrize("width", [0.01, 0.5, 4.0])
def test_smoothing(loss: PiecewiseLinearLoss, width: float) -> None:
    smooth = loss.smoothed(width)
    z, y = (a[::7] for a in records(loss))
    lo, hi = loss.slope_interval(y)
    u = lo + np.linspace(0, 1, 401)[:, None] * (hi - lo)
    by_search = (u * (z - y) - width * u**2 / 2).max(axis=0)
    resolution = width * ((hi - lo) / 400) ** 2  # of the search
    value = smooth.value(z, y)
    assert np.all((by_search <= value + 1e-13) & (value <= by_search + resolution + 1e-13))
    gap = loss.value(z, y) - value
    limit = width * loss.slope_bound**2 / 2
    assert gap.min() >= -1e-13
    assert 0.9 * limit <= gap.max() <= limit + 1e-13
    assert (smooth.task, smooth.sides, smooth.slope_bound) == (loss.task, loss.sides, loss.slope_bound)
    assert smooth.curvature_bound == pytest.approx(1 / width, rel=1e-15)
    assert np.array_equal(smooth.clip_targets(RAW_TARGETS), loss.clip_targets(RAW_TARGETS))


@each(PIECEWISE)
@pytest.mark.parametrize("width", [0.0, -1.0, math.nan, math.inf, "a"])
def test_smoothing_width_is_checked(loss: PiecewiseLinearLoss, width: float) -> None:
    with pytest.raises(InvalidParameterError, match="width="):
        loss.smoothed(width)
