"""Events that cost a probability outright: a lemma that may fail, and noise of bounded support."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpconvex import _rounding, _validate
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.events.basic import Event, Parts, pure_delta


@dataclass(frozen=True)
class FailureProbability(Event):
    """Nothing is released, but a lemma on which another release rests may fail with this probability.

    Replace everything after the failure by silence: the modified algorithm has the guarantee of the other events, and
    the two differ with at most this probability. So it is added to delta, once, whatever epsilon is.

    Parameters
    ----------
    probability : float
        In (0, 1), for both of two neighbouring data sets together.
    """

    probability: float
    kind: ClassVar[str] = "failure_probability"

    def __post_init__(self) -> None:
        _validate.real("probability", self.probability, above=0.0, below=1.0)

    @property
    def pure_epsilon(self) -> None:
        """No pure guarantee."""
        return None

    @property
    def parts(self) -> Parts:
        """The failing part alone."""
        return Parts(Fraction(0), 0.0, self.probability)

    def delta(self, epsilon: float) -> float:
        """The probability, at every epsilon."""
        return self.probability


@dataclass(frozen=True)
class BoundedLaplaceNoise(Event):
    """Laplace noise conditioned on its absolute value being at most `bound`, added to one number.

    The only outputs that give away a data set lie in a strip as wide as the sensitivity at the end of the support, of
    probability ``e^(-bound/scale) (e^(sensitivity/scale) - 1) / (2 - 2 e^(-bound/scale))``; elsewhere densities differ
    by at most ``e^(sensitivity/scale)``.

    Parameters
    ----------
    sensitivity, scale : float
        Positive.
    bound : float
        At least the sensitivity.
    """

    sensitivity: float
    scale: float
    bound: float
    kind: ClassVar[str] = "bounded_laplace_noise"

    def __post_init__(self) -> None:
        _validate.real("sensitivity", self.sensitivity, above=0.0)
        _validate.real("scale", self.scale, above=0.0)
        _validate.real("bound", self.bound, above=0.0)
        if self.bound < self.sensitivity:
            raise InvalidParameterError("bound", self.bound, f"must be at least the sensitivity, {self.sensitivity!r}")

    @property
    def pure_epsilon(self) -> None:
        """No pure guarantee."""
        return None

    @property
    def parts(self) -> Parts:
        """Sensitivity over scale, and the strip; a part in 1e5 more for the grid of the sampler."""
        ratio = Fraction(self.sensitivity) / Fraction(self.scale)
        tail = self.bound / self.scale
        strip = math.exp(float(ratio) - tail) * -math.expm1(-float(ratio)) / (-2 * math.expm1(-tail))
        return Parts(ratio, 0.0, min(1.0, strip * (1 + 1e-5)))

    @property
    def claimed_sensitivity(self) -> float:
        """The sensitivity field."""
        return self.sensitivity

    def delta(self, epsilon: float) -> float:
        """Profile of the pure part, plus the strip."""
        parts = self.parts
        return min(1.0, _rounding.sum_up((pure_delta(parts.pure, epsilon), parts.failure)))
