"""A curvature inside the event of a Gaussian objective: formula (3.4t), attacked by whoever may choose the slopes."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from dpconvex.algorithms.erm.objective_perturbation.regularization import calibrate_gaussian
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.events.objective import CurvedObjectivePerturbation, tangent_line
from dpconvex.privacy.profiles import gaussian_delta, smallest

pytestmark = pytest.mark.together

EPSILON, DELTA = 1.0, 1e-6


def costs(rule: str, curvature: float, tau: float) -> Any:
    """What curvature costs at a slope, in units of the largest."""
    if rule == "logistic":
        return lambda a: np.log1p(tau * curvature * a * (1 - curvature * a))
    return lambda a: np.log1p(curvature * tau * (1 - a))


def profile(epsilon: np.ndarray, shift: float) -> np.ndarray:
    second = np.exp(np.minimum(epsilon + log_ndtr(-shift / 2 - epsilon / shift), 0.0))
    return ndtr(shift / 2 - epsilon / shift) - second


def adversary(event: CurvedObjectivePerturbation, epsilon: float) -> float:
    """Delta of whoever sets both slopes as a function of ``b``, in one dimension with opposite gradients.

    All else is as proved: Gaussian b and Gaussian noise of the curvature with its whole shift, given b.
    """
    b = np.linspace(-9, 9, 1201)
    density = np.exp(-b * b / 2) / math.sqrt(2 * math.pi) * (b[1] - b[0])
    mu, cost = event.gradient_bound / event.sigma, costs(event.rule, event.curvature, event.tau)
    slopes, most = np.linspace(0, 1, 21), np.zeros_like(b)
    for a in slopes:
        for other in slopes:
            v = mu * (a + other)
            left = epsilon - float(cost(a)) - v * b - v * v / 2
            most = np.maximum(most, profile(left, math.hypot(event.rho, event.curvature_mu)))
    return float(density @ most)


def planned(share: float, rule: str = "logistic", curvature: float = 1.0, tau: float | None = None) -> Any:
    tau = EPSILON / (2 * max(curvature, 1.0)) if tau is None else tau
    return calibrate_gaussian(1.0, 0.01, tau, rule, curvature, EPSILON, DELTA, share)


def naive(event: CurvedObjectivePerturbation) -> CurvedObjectivePerturbation:
    """Both noises so small that squares of the two prices add up to the promise, the ridge being today's."""

    def smaller(sigma: float) -> CurvedObjectivePerturbation:
        mu = event.curvature_mu * event.sigma / sigma
        return replace(event, sigma=sigma, curvature_mu=mu, tangent=1.0)

    def fits(sigma: float) -> bool:
        one = smaller(sigma)
        return gaussian_delta(EPSILON, math.hypot(2 / sigma, one.rho, one.curvature_mu)) <= DELTA

    return smaller(smallest(fits, event.sigma))


@pytest.mark.parametrize(("share", "reached"), [(0.1, 0.75), (0.5, 0.45)])
def test_who_chooses_the_slopes_comes_near_delta_and_does_not_exceed_it(share: float, reached: float) -> None:
    event = planned(share)
    assert reached * DELTA <= adversary(event, EPSILON) <= event.delta(EPSILON) <= DELTA
    mu = 2 / event.sigma
    assert event.curvature_mu**2 / (event.curvature_mu**2 + mu**2) == pytest.approx(share)


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_squares_of_two_prices_may_not_be_added_at_todays_ridge(share: float) -> None:
    """The trap: a Gaussian curvature beside the Gaussian objective as if both were plain Gaussian releases."""
    trap = naive(planned(share))
    assert adversary(trap, EPSILON) > 1.1 * DELTA
    assert trap.delta(EPSILON) > adversary(trap, EPSILON)  # so `verify` refuses it
    assert trap.delta(EPSILON) > 20 * DELTA


@pytest.mark.parametrize("rule", ["one_sided_sc", "logistic"])
def test_the_vertex_without_slopes_reads_the_shift_of_the_curvature(rule: str) -> None:
    """Where slopes do not differ, the curvature alone is released: its own price, at what a determinant leaves."""
    event = replace(planned(0.5, rule), sigma=1e6)  # so much noise in b that nothing else is seen
    alone = gaussian_delta(EPSILON - tangent_line(rule, 1.0, event.tau, event.tangent)[1], event.curvature_mu)
    assert alone <= event.delta(EPSILON) <= 5 * alone + 1e-12
    assert event.delta(EPSILON) >= adversary(event, EPSILON)


def test_the_formula_written_down_again() -> None:
    """(3.4t): two vertices pay the tangent at the largest slope, two that at slope 0; all read all shifts."""
    event = planned(0.5)
    mu, t, tau = 1 / event.sigma, event.tangent, event.tau
    assert 0.5 < t < 1
    h, fall = math.log1p(tau * t * (1 - t)), tau * (1 - 2 * t) / (1 + tau * t * (1 - t))
    at_cap, at_zero = EPSILON - h - (1 - t) * fall, EPSILON - h + t * fall
    vertices = (at_cap, 2 * mu), (at_cap, mu), (at_zero, mu), (at_zero, 0.0)
    terms = [gaussian_delta(e, math.sqrt(m**2 + event.rho**2 + event.curvature_mu**2)) for e, m in vertices]
    assert min(terms) > 1e-3 * DELTA
    assert event.delta(EPSILON) == pytest.approx(sum(terms), rel=1e-9)


@pytest.mark.parametrize("cap", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("strength", [0.7, 60.0])
def test_exact_densities_with_the_whole_shift_of_the_curvature_stay_within_delta(cap: float, strength: float) -> None:
    """One parameter: the minimizer's density is a formula, and so is the profile of the noise beside it."""
    tau = 0.5 / strength
    event = calibrate_gaussian(cap, 0.0, tau, "logistic", cap, EPSILON, 1e-4, 0.3)
    w = np.linspace(-1, 1, 20_001) * (9 * event.sigma + 4) * tau
    worst = 0.0

    def density(records: tuple[float, ...]) -> np.ndarray:
        total, bend = w / tau, np.full_like(w, 1 / tau)
        for x in records:
            slope = 1 / (1 + np.exp(np.clip(w * x, -700, 700)))
            total = total - x * np.minimum(slope, cap)
            bend = bend + np.where(slope < cap, slope * (1 - slope), 0.0)
        return np.exp(-((total / event.sigma) ** 2) / 2) / math.sqrt(2 * math.pi) / event.sigma * bend

    for common in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)):
        p, q = density((*common, 1.0)), density((*common, -1.0))
        for one, other in ((p, q), (q, p)):
            left = EPSILON - np.log(np.maximum(one, 1e-300) / np.maximum(other, 1e-300))
            worst = max(worst, float(np.trapezoid(one * profile(left, event.curvature_mu), w)))
    assert worst <= event.delta(EPSILON) * (1 + 1e-3)
    if strength > 1 and cap < 0.5:  # both records pull with the largest slope at every likely w
        assert worst >= 0.9 * event.delta(EPSILON)


@pytest.mark.parametrize(("rule", "curvature"), [("logistic", 0.7), ("logistic", 1.0), ("two_sided_sc", 2.0)])
@pytest.mark.parametrize("tangent", [0.02, 0.5, 0.86, 1.0])
@pytest.mark.parametrize("tau", [1e-3, 0.5, 20.0])
def test_lines_lie_above_what_curvature_costs_and_touch_it(
    rule: str, curvature: float, tangent: float, tau: float
) -> None:
    at_cap, at_zero = tangent_line(rule, curvature, tau, tangent)
    a = np.linspace(0, 1, 10_001)
    gap = at_zero + (at_cap - at_zero) * a - costs(rule, curvature, tau)(a)
    assert gap.min() >= 0
    if not (rule == "two_sided_sc" and tangent == 1.0):  # (1.2) itself: touches it at 1, as everything does
        assert gap[round(1e4 * tangent)] <= 1e-10


@pytest.mark.parametrize("rule", [("one_sided", 0.25), ("two_sided", 1.0), ("two_sided_sc", 1.3)])
def test_losses_that_pay_for_curvature_are_calibrated_too(rule: tuple[str, float]) -> None:
    event = planned(0.3, *rule, tau=math.expm1(EPSILON / 10) / rule[1])
    assert 0.999 * DELTA <= event.delta(EPSILON) <= DELTA
    assert event.tangent == 1.0 or rule[0].endswith("_sc")
    plain = calibrate_gaussian(1.0, 0.01, event.tau, *rule, EPSILON, DELTA)
    assert plain.sigma < event.sigma


def test_a_tangent_is_inside_and_belongs_to_a_line() -> None:
    event = planned(0.3)
    for wrong in ({"tangent": 0.0}, {"tangent": 1.01}, {"rule": "one_sided"}, {"curvature_mu": 0.0}):
        with pytest.raises(InvalidParameterError, match=r"tangent=|curvature_mu="):
            replace(event, **wrong)
