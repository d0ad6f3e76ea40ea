"""Laplace, Gaussian and norm-exponential mechanisms: scales, grids, limits and exact privacy in small cases."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm, L2Norm
from dpconvex.mechanisms import GaussianMechanism, LaplaceMechanism, NormNoiseMechanism
from dpconvex.mechanisms.gaussian import INFLATION, zwb_constant
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.privacy.profiles import gaussian_delta
from dpconvex.randomness import SeededSource, SystemSource, exact

L1, L2 = Sensitivity(0.3, "l1", "test"), Sensitivity(0.3, "l2", "test")


def release(mechanism, value, source=None):
    privacy = PrivacyParams(1e6, 0.49)
    return mechanism.release(value, "x", source or SeededSource(0), Ledger(privacy, [mechanism.planned("x")]))


@pytest.mark.parametrize(("delta", "constant"), [(1e-5, 3.1822), (1e-6, 3.5255), (1e-9, 4.3974)])
def test_zwb_constants(delta, constant) -> None:
    assert zwb_constant(delta) == pytest.approx(constant, abs=6e-5)
    assert math.isfinite(zwb_constant(1e-300))


@pytest.mark.parametrize(("delta", "ratio"), [(1e-5, 4.6089), (1e-6, 5.0842), (1e-9, 6.2982)])
def test_zwb_sigma(delta, ratio) -> None:
    mechanism = GaussianMechanism.calibrate(L2, 1.0, delta, 4, "zwb")
    assert mechanism.sigma / 0.3 == pytest.approx(ratio, abs=6e-5)


@pytest.mark.parametrize(("epsilon", "gain"), [(1.0, 1.20), (0.1, 1.38), (10.0, 1.08)])
def test_analytic_calibration_is_tight(epsilon, gain) -> None:
    zwb = GaussianMechanism.calibrate(L2, epsilon, 1e-6, 4, "zwb")
    analytic = GaussianMechanism.calibrate(L2, epsilon, 1e-6, 4)
    assert zwb.sigma / analytic.sigma == pytest.approx(gain, abs=0.006)  # Zhao et al. over exact calibration
    assert analytic.event.delta(epsilon) <= 1e-6
    assert GaussianMechanism(L2, analytic.sigma * (1 - 1e-9), 4).event.delta(epsilon) > 1e-6


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 100), st.floats(1e-12, 0.49), st.floats(1e-6, 1e6), st.sampled_from(["analytic", "zwb"]))
def test_calibrated_gaussians_keep_their_promise(epsilon, delta, size, method) -> None:
    mechanism = GaussianMechanism.calibrate(Sensitivity(size, "l2", "test"), epsilon, delta, 7, method)
    assert mechanism.event.delta(epsilon) <= delta


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-5, 1e4), st.floats(1e-9, 1e9), st.integers(1, 10**6))
def test_calibrated_pure_mechanisms_cost_epsilon_and_not_much_less(epsilon, size, dim) -> None:
    laplace = LaplaceMechanism.calibrate(Sensitivity(size, "l1", "test"), epsilon, dim)
    norm = NormNoiseMechanism(L2Norm(5), Sensitivity(size, "l2", "test"), epsilon)
    for mechanism in (laplace, norm):
        assert Fraction(epsilon) * (1 - Fraction(1, 10**12)) <= mechanism.event.pure_epsilon <= Fraction(epsilon)
        assert mechanism.scale == mechanism.event.scale
        assert mechanism.scale * epsilon == pytest.approx(size, rel=2e-6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6), st.integers(0, 2**32), st.floats(1e-3, 1e3))
def test_grid_rounding_never_exceeds_the_enlarged_sensitivity(value, seed, size) -> None:
    """Two values at exactly the sensitivity stay within the event's sensitivity on the grid, in exact arithmetic."""
    dim = len(value)
    change = np.random.default_rng(seed).standard_normal(dim)
    first = np.array(value)
    for norm, length in (("l1", np.abs(change).sum()), ("l2", np.linalg.norm(change))):
        second = first + change * (size * (1 - 1e-9) / length)
        stretch = dim if norm == "l1" else math.sqrt(dim)
        step = exact.spacing(size, size, stretch)
        moved = (exact.to_units(first, step) - exact.to_units(second, step)).astype(float)
        moved_length = np.abs(moved).sum() if norm == "l1" else np.linalg.norm(moved)
        assert moved_length * step <= exact.enlarged(size) + 1e-12 * np.abs(first).sum()


@pytest.mark.parametrize("dim", [1, 7, 1000])
@pytest.mark.together
def test_steps_of_all_coordinates_together_are_within_what_enlarges_the_sensitivity(dim) -> None:
    """Rounding moves each coordinate of a difference by at most a step: all by `dim` in l1, by its root in l2."""
    for size in (0.3, 1.0, 1.9):
        laplace = LaplaceMechanism(Sensitivity(size, "l1", "test"), 50.0, dim)
        gaussian = GaussianMechanism(Sensitivity(size, "l2", "test"), 50.0, dim)
        allowed = Fraction(exact.FINENESS) * Fraction(size)
        assert dim * Fraction(laplace.step) <= allowed
        assert dim * Fraction(gaussian.step) ** 2 <= allowed**2


def test_grid_extremes_neither_raise_nor_warn() -> None:
    wild = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0])
    norm = GroupedNorm(np.array([3, 4]), np.array([1.0, 2.0]), np.array([0, 1]), np.array([1.0, 1.0]))
    for mechanism in (
        LaplaceMechanism.calibrate(L1, 1.0, 7),
        GaussianMechanism.calibrate(L2, 1.0, 1e-6, 7),
        NormNoiseMechanism(norm, Sensitivity(0.3, "grouped", "test"), 1.0),
    ):
        for source in (SeededSource(0), SystemSource()):
            assert np.isfinite(release(mechanism, wild, source)).all()


def test_norm_noise_spans_values_far_beyond_its_scale() -> None:
    """The mask of a solver radius of 1e-14 must not saturate ordinary coefficients."""
    mechanism = NormNoiseMechanism(L2Norm(4), Sensitivity(1e-14, "l2", "test"), 0.01)
    value = np.array([1e4, -3.0, 0.0, 1e-20])
    np.testing.assert_allclose(release(mechanism, value), value, rtol=1e-9, atol=1e-9)


def test_releases_lie_on_their_public_grid() -> None:
    value = np.random.default_rng(0).standard_normal(7)
    laplace, gaussian = LaplaceMechanism.calibrate(L1, 1.0, 7), GaussianMechanism.calibrate(L2, 1.0, 1e-6, 7)
    norm = NormNoiseMechanism(L2Norm(7), L2, 1.0)
    for mechanism, step in ((laplace, laplace.step), (gaussian, gaussian.step), (norm, norm.step)):
        assert math.frexp(step)[0] == 0.5  # a power of two
        for source in (SeededSource(0), SystemSource()):
            units = release(mechanism, value, source) / step
            np.testing.assert_array_equal(units, np.rint(units))
    assert 2**-21 <= norm.step / norm.scale <= 2**-20


@pytest.mark.parametrize("source", [SeededSource(3), SystemSource()], ids=["seeded", "system"])
def test_noise_limits(source) -> None:
    """Scale to 0: the value, up to the grid. Scale huge: nothing is left of the value."""
    value = np.array([1.0, -2.0, 0.5])
    tiny, huge = 1e6, 1e-6
    for epsilon in (tiny, huge):
        mechanisms = (
            LaplaceMechanism.calibrate(L1, epsilon, 3),
            GaussianMechanism(L2, 0.3 / epsilon, 3),
            NormNoiseMechanism(L2Norm(3), L2, epsilon),
        )
        for mechanism in mechanisms:
            released = mechanism._sample(value, source)
            if epsilon == tiny:
                np.testing.assert_allclose(released, value, atol=40 * 0.3 / epsilon)
            else:
                assert np.abs(released).max() > 100  # scale 3e5; the chance of less is below 1e-9 for each


def test_discrete_laplace_ratio_is_the_event_and_opendp_agrees() -> None:
    """Pure epsilon, exactly: the largest move on the grid over the sampler's scale, and OpenDP's own map."""
    mechanism = LaplaceMechanism.calibrate(Sensitivity(0.3, "absolute", "test"), 0.8, 1)
    scale = mechanism.scale / mechanism.step
    assert Fraction(scale) * Fraction(mechanism.step) == Fraction(mechanism.scale)
    values = np.linspace(0, 0.001, 500)[:, None]
    moves = [
        abs(int(exact.to_units(v + 0.3, mechanism.step)[0]) - int(exact.to_units(v, mechanism.step)[0])) for v in values
    ]
    epsilon = mechanism.event.pure_epsilon
    assert max(moves) / Fraction(scale) <= epsilon
    assert exact.laplace_measurement(scale).map(max(moves)) <= float(epsilon) * (1 + 1e-12)
    assert max(moves) / Fraction(scale) > float(epsilon) * (1 - 1e-5)


def _discrete_gaussian_delta(s: float, shift: int, epsilon: float) -> float:
    z = np.arange(-int(40 * s), int(40 * s) + shift + 1, dtype=np.longdouble)
    first, second = np.exp(-((z - shift) ** 2) / (2 * s * s)), np.exp(-(z**2) / (2 * s * s))
    first, second = first / first.sum(), second / second.sum()
    return float(np.maximum(first - np.exp(np.longdouble(epsilon)) * second, 0).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("shift", [40, 205, 1024])
def test_discrete_gaussian_is_no_worse_than_the_continuous_one_it_is_charged_as(epsilon, shift) -> None:
    """Exact summation at 2^10 steps per sigma, a thousand times coarser than any mechanism's grid."""
    sigma = 1024.0
    charged = gaussian_delta(epsilon, shift / sigma)
    if charged < 1e-12:
        return
    assert _discrete_gaussian_delta(sigma * INFLATION, shift, epsilon) <= charged
    assert _discrete_gaussian_delta(sigma * 0.999, shift, epsilon) > charged  # the check can fail


def test_gaussian_grid_is_fine_enough_for_the_argument() -> None:
    for size, sigma, dim in ((1.0, 1e-3, 1), (1.0, 1e3, 10**6), (1e-5, 1.0, 100)):
        mechanism = GaussianMechanism(Sensitivity(size, "l2", "test"), sigma, dim)
        assert mechanism.sigma / mechanism.step >= 2**20


def test_public_parameters_are_checked() -> None:
    with pytest.raises(InvalidParameterError, match="delta=0"):
        GaussianMechanism.calibrate(L2, 1.0, 0.0, 3)
    with pytest.raises(InvalidParameterError, match=r"delta=0\.5"):
        GaussianMechanism.calibrate(L2, 1.0, 0.5, 3, "zwb")
    with pytest.raises(InvalidParameterError, match="delta"):
        zwb_constant(0.5)
    with pytest.raises(InvalidParameterError, match="method"):
        GaussianMechanism.calibrate(L2, 1.0, 1e-6, 3, "classic")
    with pytest.raises(InvalidParameterError, match="norm='l2'"):
        LaplaceMechanism.calibrate(L2, 1.0, 3)
    with pytest.raises(InvalidParameterError, match="norm='l1'"):
        GaussianMechanism(L1, 1.0, 3)
    with pytest.raises(InvalidParameterError, match="norm='l1'"):
        NormNoiseMechanism(L2Norm(3), L1, 1.0)
    with pytest.raises(InvalidParameterError, match="epsilon=0"):
        NormNoiseMechanism(L2Norm(3), L2, 0.0)
    with pytest.raises(InvalidParameterError, match="sensitivity=1e-310"):
        NormNoiseMechanism(L2Norm(3), Sensitivity(1e-310, "l2", "test"), 1.0)
    with pytest.raises(InvalidParameterError, match="shape"):
        release(LaplaceMechanism.calibrate(L1, 1.0, 3), np.zeros(4))
