"""The events of single mechanisms: pure ones, Laplace and Gaussian noise, draws of vertices, a lemma that may fail, and
a mean that is released only if a noisy test found the points close together.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri_exp

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, forwarded
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.events.base import Event, Parts, PureEvent, pure_delta
from dpconvex.privacy.profiles import ORDERS, bounded_range_divergence, charge, gaussian_delta, mixed_delta, renyi_delta


@dataclass(frozen=True)
class PureMechanism(PureEvent):
    """A mechanism that is epsilon-DP by its own proof: exponential mechanism, noisy maximum, above-threshold."""

    epsilon: float
    kind: ClassVar[str] = "pure_mechanism"

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)

    @property
    def pure_epsilon(self) -> Fraction:
        return Fraction(self.epsilon)


@dataclass(frozen=True)
class BoundedRange(Event):
    """A mechanism whose privacy loss, for every pair of neighbors, lies in an interval of length `epsilon`.

    The exponential mechanism with ``exp(epsilon u / (2 s))`` for utilities of sensitivity s is one. It is also
    epsilon-DP, but costs less: it is covered by the Gaussian with ``Phi(mu / 2) = 1 / (1 + e^(-epsilon / 2))``, and
    many Gaussians compose to much less than their sum. So it has no ``pure_epsilon`` to be summed: use `PureMechanism`
    for a pure promise.
    Proof. Among losses in an interval ``[t - epsilon, t]`` those with two values, its ends, reveal most. Their
    trade-off curve has one kink (alpha, beta). The Gaussian through it has ``mu = a - b``, ``Phi(a) = 1 - alpha``,
    ``Phi(b) = beta``, and lies below (it is convex, the other has straight pieces between common points). Both
    likelihood ratios give ``epsilon = L(a) - L(b)``, ``L(x) = log Phi(x) - log Phi(-x)``. ``L'`` is the sum of the
    hazard rates of x and -x, even and convex (Sampford 1953). So at given mu epsilon is least for ``a = -b``: at
    given epsilon mu is largest there, where ``epsilon = 2 L(mu / 2)``. (Dong, Durfee and Rogers 2020, "Optimal
    differential privacy composition for exponential mechanisms".)
    """

    epsilon: float
    kind: ClassVar[str] = "bounded_range"

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)

    @property
    def mu(self) -> float:
        """Sensitivity over standard deviation of the covering Gaussian, rounded up."""
        return float(-2 * ndtri_exp(-np.logaddexp(0.0, self.epsilon / 2))) * (1 + 1e-9) + 1e-15

    @property
    def parts(self) -> Parts:
        return Parts(Fraction(0), self.mu)

    def delta(self, epsilon: float) -> float:
        """The smaller of two profiles: of the worst mechanism with this pure epsilon, and of the covering Gaussian."""
        return min(pure_delta(Fraction(self.epsilon), epsilon), gaussian_delta(epsilon, self.mu))


@dataclass(frozen=True)
class NormExponentialNoise(PureEvent):
    """Noise of density proportional to ``exp(-||z|| / scale)`` added to a value of the given sensitivity.

    Any density will do whose logarithm moves by at most the norm of a shift over the scale. In the l1 norm the noise is
    independent Laplace variables, in the l2 norm it is the "l2 Laplace" mechanism. The pure epsilon is the sensitivity,
    in that norm, over the scale.
    """

    sensitivity: float
    scale: float
    kind: ClassVar[str] = "norm_exponential_noise"

    def __post_init__(self) -> None:
        _validate.positive(self, "sensitivity", "scale")

    @property
    def pure_epsilon(self) -> Fraction:
        return Fraction(self.sensitivity) / Fraction(self.scale)  # triangle inequality


@dataclass(frozen=True)
class GaussianNoise(Event):
    """Independent normal noise added to a value of the given l2 sensitivity.

    The sensitivity is that under the stated relation (under replace-one, the largest change of the value when a record
    is replaced): no further factor 2 is due. Sigma is the standard deviation of every coordinate.
    """

    sensitivity: float
    sigma: float
    kind: ClassVar[str] = "gaussian_noise"
    finest: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _validate.positive(self, "sensitivity", "sigma")

    @property
    def mu(self) -> float:
        """Sensitivity over standard deviation, rounded up."""
        return _rounding.ratio_up(self.sensitivity, self.sigma)

    @property
    def parts(self) -> Parts:
        return Parts(Fraction(0), self.mu)

    def delta(self, epsilon: float) -> float:
        return gaussian_delta(epsilon, self.mu)


@dataclass(frozen=True)
class FailureProbability(Event):
    """Nothing is released, but a lemma on which another release rests may fail with this probability.

    Replace everything after the failure by silence: the modified algorithm has the guarantee of the other events, and
    the two differ with at most this probability, for both of two neighboring data sets together. So it is added to
    delta, once, whatever epsilon is.
    """

    probability: float
    kind: ClassVar[str] = "failure_probability"

    def __post_init__(self) -> None:
        _validate.real("probability", self.probability, above=0.0, below=1.0)

    @property
    def parts(self) -> Parts:
        return Parts(Fraction(0), 0.0, self.probability)

    def delta(self, epsilon: float) -> float:
        return self.probability  # at every epsilon


@dataclass(frozen=True)
class BoundedLaplaceNoise(Event):
    """Laplace noise conditioned on its absolute value being at most `bound`, added to one number.

    The only outputs that give away a data set lie in a strip as wide as the sensitivity at the end of the support, of
    probability ``e^(-bound/scale) (e^(sensitivity/scale) - 1) / (2 - 2 e^(-bound/scale))``; elsewhere densities differ
    by at most ``e^(sensitivity/scale)``.
    """

    sensitivity: float
    scale: float
    bound: float
    kind: ClassVar[str] = "bounded_laplace_noise"

    def __post_init__(self) -> None:
        _validate.positive(self, "sensitivity", "scale", "bound")
        if self.bound < self.sensitivity:
            raise InvalidParameterError("bound", self.bound, f"must be at least the sensitivity, {self.sensitivity!r}")

    @property
    def parts(self) -> Parts:
        """Sensitivity over scale as pure part, the strip's probability as failure; 1e-5 more for the sampler's grid."""
        ratio = Fraction(self.sensitivity) / Fraction(self.scale)
        tail = self.bound / self.scale
        strip = math.exp(float(ratio) - tail) * -math.expm1(-float(ratio)) / (-2 * math.expm1(-tail))
        return Parts(ratio, 0.0, min(1.0, strip * (1 + 1e-5)))

    def delta(self, epsilon: float) -> float:
        parts = self.parts
        return min(1.0, _rounding.sum_up((pure_delta(parts.pure, epsilon), parts.failure)))


@dataclass(frozen=True)
class VertexDraws(Event):
    r"""Adaptive draws from soft-max laws whose scores move, between neighbors, by vectors of small range.

    If the scores of a draw satisfy ``s_j - s'_j in [a, a + eta]`` for all j, the log-ratio of the two laws lies in an
    interval of length eta. So the draw is eta-DP and ``eta^2/8``-zCDP: with ``h(s) = log E_Q e^{s L}``,
    ``h(0) = h(1) = 0`` and ``h'' <= eta^2/4`` (variance on an interval), hence ``h(a) <= a (a-1) eta^2/8`` (Cesar and
    Rogers 2021). zCDP adds up over adaptive draws: the whole costs ``rho = square_sum/8``. Draws whose scores do not
    depend on the replaced record cost nothing and are not counted. For a pure promise use `PureMechanism`.
    """

    largest: float  #: largest range (eta) of one draw, positive
    draws: int  #: largest number of draws that depend on one record
    # Largest sum of the squared ranges of the draws that depend on one record; at most `draws largest^2`
    square_sum: float
    kind: ClassVar[str] = "vertex_draws"
    claimed_sensitivity = forwarded("largest")

    def __post_init__(self) -> None:
        _validate.positive(self, "largest", "square_sum")
        _validate.integer("draws", self.draws, at_least=1)

    @property
    def range_sum(self) -> Fraction:
        """Largest possible sum of the ranges (by Cauchy-Schwarz): the pure epsilon of all draws together."""
        root = _rounding.widen_up(math.sqrt(_rounding.product_up(self.square_sum, float(self.draws))))
        return min(Fraction(self.largest) * self.draws, Fraction(root))

    @property
    def rho(self) -> float:
        """The zCDP cost, rounded up."""
        return _rounding.ratio_up(self.square_sum, 8.0)

    @property
    def parts(self) -> Parts:
        return Parts(Fraction(0), rho=self.rho)

    @cached_property
    def _divergences(self) -> Floats:
        return np.minimum(ORDERS * self.rho, self.draws * bounded_range_divergence(self.largest))

    def delta(self, epsilon: float) -> float:
        """The smaller of two profiles: by Renyi divergences, and of the worst mechanism with this pure epsilon."""
        return min(renyi_delta(self._divergences, epsilon), pure_delta(self.range_sum, epsilon))


TAIL_SLACK = 1e-5
"""Largest loss of margin to the grid and to the noise inflation of exact samplers, relative to margin and noise."""


@dataclass(frozen=True)
class GuardedGaussianNoise(Event):
    r"""Test a score with noise, and only if it passes release a value with Gaussian noise.

    Two neighboring data sets are a *good* pair if the value has the stated sensitivity between them; for a *bad* pair
    neither passes the test unless the score's noise exceeds `margin`. On a good pair the mechanism is post-processing
    of score and value, released together: two Gaussian mechanisms, or a pure and a Gaussian one. On a bad pair both
    runs fail with probability ``1 - t``, t being the noise's tail beyond the margin, so any event S has ``P(S) <=
    P'(S) + t``. Which case holds is a property of the pair, not of what happened: nothing is conditioned on passing.
    Alone it has delta ``max(t, profile)``; in compositions it is dominated by "the profile, except with probability t
    everything" (`parts`).
    """

    score_noise: str  #: law of the score's noise: "gaussian" or "laplace"
    score_sensitivity: float  #: largest absolute change of the score between neighbors
    score_scale: float  #: standard deviation, or Laplace scale, of the score's noise
    margin: float  #: noise that a bad pair needs to pass the test; a larger margin makes that less likely
    # Probability, over coins apart from data and noise, that the value moves by more than `sensitivity` between a good
    # pair. It is added to delta (joint convexity).
    coupling: float
    sensitivity: float  #: l2 sensitivity of the value between a good pair
    sigma: float  #: standard deviation of the noise in each coordinate of the value
    kind: ClassVar[str] = "guarded_gaussian_noise"

    def __post_init__(self) -> None:
        _validate.choice("score_noise", self.score_noise, ("gaussian", "laplace"))
        _validate.positive(self, "score_sensitivity", "score_scale", "margin", "sensitivity", "sigma")
        _validate.real("coupling", self.coupling, at_least=0.0, below=1.0)

    @property
    def mu(self) -> float:
        """Sensitivity over standard deviation of all Gaussian noise together, rounded up."""
        value = _rounding.ratio_up(self.sensitivity, self.sigma)
        if self.score_noise == "laplace":
            return value
        return _rounding.widen_up(math.hypot(value, _rounding.ratio_up(self.score_sensitivity, self.score_scale)))

    @property
    def pure(self) -> Fraction:
        """Pure epsilon of the test; 0 if its noise is Gaussian."""
        pure = self.score_noise == "laplace"
        return Fraction(self.score_sensitivity) / Fraction(self.score_scale) if pure else Fraction(0)

    @property
    def failure(self) -> float:
        """Probability that the test lets a data set of a bad pair pass, rounded up."""
        reach = max(0.0, self.margin / self.score_scale * (1 - TAIL_SLACK) - TAIL_SLACK)
        tail = math.exp(-reach) / 2 if self.score_noise == "laplace" else float(ndtr(-reach))
        return min(1.0, tail * (1 + 1e-9) + math.ulp(0.0))

    @property
    def parts(self) -> Parts:
        """Pure and Gaussian part, and the larger of two failures: bad pairs have one of them, good pairs the other."""
        return Parts(self.pure, self.mu, max(self.failure, self.coupling))

    def delta(self, epsilon: float) -> float:
        """The larger of the profiles of bad pairs and of good pairs."""
        charge(50)
        pure = _rounding.float_up(self.pure)
        core = mixed_delta(epsilon, pure, self.mu) if pure else gaussian_delta(epsilon, self.mu)
        return min(1.0, max(self.failure, _rounding.sum_up((self.coupling, core))))
