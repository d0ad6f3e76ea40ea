"""What most people would try first: the clipped mean, the median of every coordinate, and descent from the origin.

Guarantee
    (epsilon, delta) for neighbors that replace one record (or user, of one point); with ``delta = 0`` the coordinate
    medians are pure.
Lemma, clipped mean
    The mean of n points of norm at most R has l2 sensitivity ``2 R / n``. Rounding of the sums, at most ``n 2^-53``
    of R on either data set, is added. It is not robust: it is at most ``f(median)`` from the median, so it loses at
    most R on the objective, and noise adds its length.
Lemma, coordinate medians
    Each coordinate's median is ``epsilon_0``-DP (`MedianMechanism`). With ``delta = 0``, ``epsilon_0 = epsilon / d``.
    Otherwise each is charged as the Gaussian that covers it (`BoundedRange`), and ``d mu_0^2 <= mu^2``, which grants
    each coordinate about ``1.6 mu / sqrt(d)``. Strong on symmetric data, biased on skewed ones.
Lemma, descent from the origin (DP-GD; Haghifam, Steinke and Ullman 2024, the plain baseline of their implementation)
    T gradients of sensitivity ``2 / n`` (`noisy_descent`). Their length is at most 1 and a minimizer lies in the ball,
    so the expected excess of the average is at most ``R^2 / (2 T eta) + eta (1 + d sigma^2) / 2``, least for the step
    ``eta = R / sqrt(T (1 + d sigma^2))``. From a warm start (`Descent`) such steps are mu-GDP given that start.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import log_ndtr

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass, forwarded
from dpconvex.algorithms import PredictedError, check_relation, recorded, require_delta
from dpconvex.algorithms.location.base import Booster, LocationPlan, LocationResult, Points, Refined, WarmStart
from dpconvex.algorithms.location.noisy_descent import LABEL, NoisyGradients, OfGradients, into_ball
from dpconvex.algorithms.select import Method
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import GaussianMechanism, Mechanism, Planned
from dpconvex.mechanisms.base import check_norm, check_shape, exact_as_reals
from dpconvex.privacy import BoundedRange, Event, Ledger, PrivacyParams, PureMechanism, Release, Sensitivity, Unit
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.problems.data import summation
from dpconvex.problems.data.sources.rows import totals
from dpconvex.randomness import BitSource, real

MEAN, COORDINATE = "mean", "median of a coordinate"
LEMMA = "the mean of n points of a ball moves by at most 2 R / n, plus rounding"
MOST_STEPS = 1000
RANK = Sensitivity(1.0, "linf", "replacing a value changes how many lie below any given number by at most 1")
_BITS = 62  #: Number of bits of a uniform number that are drawn first.
_ERROR = 2.0**-36
"""Relative error of a mass, whose logarithm is a sum of three numbers below 2^12, each to four units or better."""
_WORD = 32  #: Number of bytes that are drawn each time more bits are needed.


def check(n: int, privacy: PrivacyParams, *, pure: bool = False) -> None:
    """Raise `InvalidParameterError` unless n is positive, delta > 0 (unless `pure`) and one unit is replaced."""
    check_relation(privacy, users=True)
    _validate.integer("n", n, at_least=1)
    if not pure:
        require_delta(privacy)


@dataclass(frozen=True)
class OneStagePlan(LocationPlan):
    """The fields and methods that plans without stages share."""

    domain: PointDomain
    n: int
    privacy: PrivacyParams
    theorem: ClassVar[str]
    constants = "calibrated"
    noise_name = "gaussian"


@final_dataclass
class ClippedMeanPlan(OneStagePlan):
    """Constants of one noisy mean."""

    mechanism: GaussianMechanism
    algorithm: ClassVar[str] = "clipped_mean"
    only_sums: ClassVar[bool] = True
    theorem = "Gaussian mechanism on the mean of clipped points, exact profile (Balle and Wang 2018)"

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {MEAN: self.mechanism}

    @property
    def predicted_error(self) -> PredictedError:
        R, noise = self.domain.radius_bound, self.mechanism.sigma * math.sqrt(self.domain.dim)
        return PredictedError(min(2 * R, R + noise), R, "the mean loses at most R, and noise its root mean square")

    def describe(self) -> Mapping[str, Any]:
        return {"sigma": self.mechanism.sigma}

    def _run(self, points: Points, source: BitSource, ledger: Ledger) -> LocationResult:
        size = self.domain.radius_bound * (1 + 1e-9)
        parts = totals(points, points, lambda X, _: (_sums(X, size),))[0]
        location = self.mechanism.release(summation.vector(parts) / self.n, MEAN, source, ledger)
        return LocationResult(location, self.certificate(source), self)


def _sums(X: Floats, size: float) -> Floats:
    """Return the parts (3, dim) of the sum of some points (`summation`)."""
    panels = (X[i : i + summation.MOST_ROWS] for i in range(0, len(X), summation.MOST_ROWS))
    found = [summation.vector_parts(rows, np.ones(len(rows)), size) for rows in panels]
    return np.sum([np.zeros((3, X.shape[1])), *found], axis=0)


@recorded("clipped_mean")
def plan_mean(domain: PointDomain, n: int, privacy: PrivacyParams) -> ClippedMeanPlan:
    """Plan a noisy mean; it needs ``delta > 0``."""
    check(n, privacy)
    R = domain.radius_bound
    reach = _rounding.sum_up((_rounding.ratio_up(2 * R, n), _rounding.product_up(2.0**-51, n, R)))
    moved = Sensitivity(reach, "l2", LEMMA, unit=privacy.unit)
    mechanism = GaussianMechanism.calibrate(moved, privacy.epsilon, privacy.delta, domain.dim)
    return ClippedMeanPlan(domain, n, privacy, mechanism)


@final_dataclass
class MedianMechanism(Mechanism[float]):
    r"""A number z of an interval with density proportional to ``exp(-epsilon |rank(z) - n/2| / 2)``.

    ``rank(z)`` counts the values below z. The density is constant between neighboring values, so an interval between
    two of them is chosen first, then a point of it, both exactly: the release is the mechanism's real number, rounded
    once to a public grid. Pure ``epsilon`` (McSherry and Talwar 2007, with sensitivity 1 of the rank).
    """

    epsilon: float  #: positive
    lower: float  #: ends of the interval, to which values are clipped
    upper: float
    dim: int  #: n: values have shape (dim,)
    # Whether epsilons are summed, or each use is charged as the Gaussian that covers it (`BoundedRange`).
    charged: Literal["pure", "gaussian"] = "pure"
    sensitivity: Sensitivity = RANK  #: of the rank: 1
    name: ClassVar[str] = "exponential mechanism for a median"
    exact_bits = exact_as_reals  # the real point is rounded once, to the grid of `output_step`

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)
        _validate.real("lower", self.lower)
        _validate.real("upper", self.upper, above=self.lower)
        _validate.real("upper - lower", self.upper - self.lower, at_least=1e-200, at_most=1e200)
        _validate.integer("dim", self.dim, at_least=1)
        _validate.choice("charged", self.charged, ("pure", "gaussian"))
        check_norm(self.sensitivity, "linf")
        if self.sensitivity.value < 1:
            raise InvalidParameterError("sensitivity", self.sensitivity.value, "must be at least 1, that of a rank")

    @property
    def event(self) -> Event:
        return (BoundedRange if self.charged == "gaussian" else PureMechanism)(self.epsilon)

    @property
    def output_step(self) -> float:
        """Step of the grid to which the release is rounded: ``2^-40`` of the interval."""
        return _rounding.power_of_two_at_most(self.upper - self.lower) * 2.0**-40

    def _sample(self, value: Floats, source: BitSource) -> float:
        check_shape(value, self.dim)
        inner = np.sort(np.clip(np.nan_to_num(value, nan=0.0), self.lower, self.upper))
        ends = np.concatenate([[self.lower], inner, [self.upper]])
        rate = _rounding.ratio_down(self.epsilon, 2 * self.sensitivity.value)
        return float(np.clip(draw_point(ends, rate, self.output_step, source), self.lower, self.upper))

    def log_density(self, value: Floats, outcome: float) -> float:
        inner = np.sort(np.clip(np.nan_to_num(value, nan=0.0), self.lower, self.upper))
        ends = np.concatenate([[self.lower], inner, [self.upper]])
        rate = self.epsilon / (2 * self.sensitivity.value)
        weights = -rate * np.abs(np.arange(self.dim + 1) - self.dim / 2)
        with np.errstate(divide="ignore"):
            total = float(np.logaddexp.reduce(weights + np.log(np.diff(ends))))
        return float(weights[np.searchsorted(inner, outcome)]) - total


def draw_point(ends: Floats, rate: float, step: float, source: BitSource) -> float:
    """Return a point of density ``exp(-rate |k - n/2|)`` between ``ends[k]`` and the next, rounded once to a grid."""
    from flint import arb

    k = draw_interval(ends, rate, source.generator())
    lower, upper = map(arb, ends[k : k + 2].tolist())
    uniform: Any = SimpleNamespace(uniforms=1, transform=lambda numbers: [lower + numbers[0] * (upper - lower)])
    return float(real.add_noise(np.zeros(1), uniform, 1.0, step, source)[0])


def draw_interval(ends: Floats, rate: float, generator: np.random.Generator) -> int:
    """Return an interval, its probability proportional to its length times ``exp(-rate |k - n/2|)``, exactly."""
    away = np.abs(np.arange(len(ends) - 1) - (len(ends) - 2) / 2)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        lengths = np.log(np.diff(ends))  # an interval of length 0 has mass 0
        best = np.argmax(lengths - rate * away)
        shares = np.cumsum(np.exp(lengths - lengths[best] - rate * (away - away[best])))
    margin = shares[-1] * (_ERROR + (len(shares) + 8) * 2.0**-52)
    prefix = int(generator.integers(0, 2**_BITS))
    at = prefix * (shares[-1] / 2.0**_BITS)
    k = int(np.searchsorted(shares, at, side="right"))
    if k < len(shares) and shares[k] - at > margin and (k == 0 or at - shares[k - 1] > margin):
        return k
    return _refined_interval(ends.tolist(), rate, away.tolist(), prefix, generator)


def _refined_interval(ends: list[float], rate: float, away: list[float], prefix: int, bits: np.random.Generator) -> int:
    """Return the interval of a uniform number that begins with the given bits."""
    from flint import arb, ctx

    known = _BITS
    while True:
        prefix = (prefix << 8 * _WORD) | int.from_bytes(bits.bytes(_WORD), "little")
        known += 8 * _WORD
        with ctx.workprec(known + 64):
            pairs = itertools.pairwise(map(arb, ends))
            masses = [(b - a) * (-arb(rate) * arb(j)).exp() for (a, b), j in zip(pairs, away, strict=True)]
            shares = list(itertools.accumulate(masses))
            at = shares[-1] * arb((2 * prefix + 1, -known - 1), (1, -known - 1))
            k = bisect_left(shares, True, key=lambda share: bool(share > at))  # true only where no doubt is left
            if k < len(shares) and (k == 0 or bool(shares[k - 1] < at)):
                return k


@final_dataclass
class CoordinateMedianPlan(OneStagePlan):
    """Constants of d medians."""

    mechanism: MedianMechanism  #: for one coordinate
    algorithm: ClassVar[str] = "coordinate_median"
    noise_name = "exponential mechanism"
    exact_bits = forwarded("mechanism", "exact_bits")
    theorem = "Exponential mechanism with rank utility for every coordinate (McSherry and Talwar 2007)"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (replace(self.mechanism.planned(COORDINATE), times=self.domain.dim),)

    def describe(self) -> Mapping[str, Any]:
        return {"epsilon_of_a_coordinate": self.mechanism.epsilon}

    def _run(self, points: Floats, source: BitSource, ledger: Ledger) -> LocationResult:
        columns = points.T  # one release a coordinate
        location = np.array([self.mechanism.release(column, COORDINATE, source, ledger) for column in columns])
        return LocationResult(location, self.certificate(source), self)


def covered_range(mu: float) -> float:
    """Largest range that a Gaussian of this `mu` covers, rounded down: inverse of `BoundedRange.mu`."""
    narrowed = (mu - 3e-15) * (1 - 3e-9)  # the difference of logarithms errs by an absolute 1e-15
    return 2 * float(log_ndtr(narrowed / 2) - log_ndtr(-narrowed / 2))


@recorded("coordinate_median")
def plan_medians(domain: PointDomain, n: int, privacy: PrivacyParams) -> CoordinateMedianPlan:
    """Plan a median for each coordinate."""
    check(n, privacy, pure=True)
    R, d, rank = domain.radius_bound, domain.dim, replace(RANK, unit=privacy.unit)
    if privacy.pure:
        each = MedianMechanism(_rounding.ratio_down(privacy.epsilon, d), -R, R, n, sensitivity=rank)
        return CoordinateMedianPlan(domain, n, privacy, each)
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12) / math.sqrt(d)  # accountants round up
    return CoordinateMedianPlan(domain, n, privacy, MedianMechanism(covered_range(mu), -R, R, n, "gaussian", rank))


@final_dataclass
class OriginDescentPlan(OfGradients, OneStagePlan):
    """Constants of one descent."""

    gradients: NoisyGradients
    step: float  #: step size
    algorithm: ClassVar[str] = "origin_descent"
    theorem = "Noisy gradient descent (Bassily, Smith and Thakurta 2014), full gradients"

    @property
    def predicted_error(self) -> PredictedError:
        R, squares = self.domain.radius_bound, 1 + self.domain.dim * self.gradients.mechanism.sigma**2
        bound = R**2 / (2 * self.gradients.times * self.step) + self.step * squares / 2
        return PredictedError(min(2 * R, bound), R, "projected subgradient descent, in expectation")

    def describe(self) -> Mapping[str, Any]:
        return {"steps": self.gradients.times, "step": self.step}

    def _run(self, points: Points, source: BitSource, ledger: Ledger) -> LocationResult:
        origin, ball = np.zeros(self.domain.dim), self.domain.radius_bound
        location = descend(self.gradients, points, origin, ball, self.step, source, ledger)
        return LocationResult(location, self.certificate(source), self)


@recorded("origin_descent")
def plan_descent(domain: PointDomain, n: int, privacy: PrivacyParams) -> OriginDescentPlan:
    """Plan a descent from the origin; it needs ``delta > 0``."""
    check(n, privacy)
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12)  # accountants round up; rho = mu^2 / 2
    steps = min(MOST_STEPS, max(1, round(n**2 * mu**2 / (256 * domain.dim))))
    gradients = NoisyGradients.of_mu("gradient from the origin", n, domain.dim, mu, steps, privacy.unit)
    step = domain.radius_bound / math.sqrt(steps * (1 + domain.dim * gradients.mechanism.sigma**2))
    return OriginDescentPlan(domain, n, privacy, gradients, step)


def descend(
    gradients: NoisyGradients, points: Points, center: Floats, ball: float, step: float, source: BitSource,
    ledger: Ledger,
    *, steps: int | None = None, tail: float = 1.0,
) -> Floats:  # fmt: skip
    """Take noisy steps from the center of a ball; return the average (dim,) of the last share `tail` of iterates.

    The ledger must list ``gradients.release``; `steps` are at most ``gradients.times``, which they are by default.
    """
    steps = gradients.times if steps is None else steps
    z, kept = np.zeros_like(center), np.zeros_like(center)  # both relative to the center
    averaged = math.ceil(tail * steps)
    for t in range(steps):
        z = into_ball(z - step * gradients.ask(points, center, z, source, ledger), ball)
        if t >= steps - averaged:
            kept += z
    return center + kept / averaged


@final_dataclass
class Descent(OfGradients, Booster):
    """Public constants of T noisy steps from a private warm start."""

    gradients: NoisyGradients  #: T of them
    step: float  #: as a multiple of the released effective radius
    tail: float  #: share of the iterates, from the last backwards, that are averaged
    name: ClassVar[str] = "constant_descent"

    @property
    def deviation(self) -> float:
        # The noise seen through the curvature, with what a finite number of steps adds.
        return 1.5 * self.gradients.mechanism.sigma / math.sqrt(self.gradients.times)

    def describe(self) -> Mapping[str, Any]:
        facts = {"boost": self.name, "steps": self.gradients.times, "step_in_radii": self.step}
        return facts | {"averaged_share": self.tail}

    def refine(self, points: Points, start: WarmStart, source: BitSource, ledger: Ledger) -> Refined:
        step = self.step * start.radius
        return Refined(descend(self.gradients, points, start.center, start.ball, step, source, ledger, tail=self.tail))


def plan_constant_steps(
    n: int, dim: int, mu: float, *, steps: int, step: float, tail: float = 1.0, unit: Unit = Unit.RECORD
) -> Descent:
    """Plan noisy descent whose steps together spend `mu`."""
    _validate.integer("n", n, at_least=1)
    _validate.integer("steps", steps, at_least=1)
    _validate.real("step", step, above=0.0)
    _validate.real("tail", tail, above=0.0, at_most=1.0)
    return Descent(NoisyGradients.of_mu(LABEL, n, dim, mu, steps, unit), step, tail)


CLIPPED_MEAN = Method("clipped_mean", plan_mean, kind="location")
COORDINATE_MEDIAN = Method("coordinate_median", plan_medians, kind="location")
ORIGIN_DESCENT = Method("origin_descent", plan_descent, kind="location")
