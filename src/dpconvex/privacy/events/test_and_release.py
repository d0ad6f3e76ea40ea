"""The event of a mean that is released only if a noisy test found the points close together."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from scipy.special import ndtr

from dpconvex import _rounding, _validate
from dpconvex.privacy.events.base import Event, Parts
from dpconvex.privacy.profiles import charge, gaussian_delta, mixed_delta

TAIL_SLACK = 1e-5
"""What grid and inflation of the exact samplers may take from a margin, relative to it and to the noise."""


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

    score_noise: str  #: "gaussian", "laplace"
    score_sensitivity: float  #: of the score, absolute
    score_scale: float  #: standard deviation or Laplace scale
    margin: float
    # Probability, over coins apart from data and noise, that the value moves by more than `sensitivity` between a good
    # pair. It enters additively (joint convexity).
    coupling: float
    sensitivity: float  #: of the value in l2
    sigma: float  #: standard deviation of each coordinate
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
        score = _rounding.ratio_up(self.score_sensitivity, self.score_scale)
        return _rounding.widen_up(math.hypot(value, score))

    @property
    def pure(self) -> Fraction:
        """Epsilon of a pure test, 0 of a Gaussian one."""
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
        """Pure and Gaussian part; the failing one is the larger of the two failures, for they concern other pairs."""
        return Parts(self.pure, self.mu, max(self.failure, self.coupling))

    def delta(self, epsilon: float) -> float:
        """The larger of bad pairs' and good pairs' profiles."""
        charge(50)
        pure = _rounding.float_up(self.pure)
        core = mixed_delta(epsilon, pure, self.mu) if pure else gaussian_delta(epsilon, self.mu)
        return min(1.0, max(self.failure, _rounding.sum_up((self.coupling, core))))
