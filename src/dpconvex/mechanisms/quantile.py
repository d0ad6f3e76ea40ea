"""The exponential mechanism for a median of real numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape
from dpconvex.privacy import BoundedRange, Event, PureMechanism, Sensitivity
from dpconvex.randomness.intervals import draw_point
from dpconvex.randomness.source import BitSource

RANK = Sensitivity(1.0, "linf", "replacing a value changes how many lie below any given number by at most 1")


@final
@dataclass(frozen=True)
class MedianMechanism(Mechanism[float]):
    r"""A number z of an interval with density proportional to ``exp(-epsilon |rank(z) - n/2| / 2)``.

    ``rank(z)`` counts the values below z. The density is constant between neighbouring values, so an interval between
    two of them is chosen first, then a point of it, both exactly: the release is the mechanism's real number, rounded
    once to a public grid.

    Guarantees
    ----------
    Pure ``epsilon`` (McSherry and Talwar 2007, with sensitivity 1 of the rank).

    Parameters
    ----------
    epsilon : float
        Positive.
    lower, upper : float
        Ends of the interval; values are clipped to it.
    dim : int
        n: values have shape (dim,).
    charged : {"pure", "gaussian"}
        Whether epsilons are summed, or each use is charged as the Gaussian that covers it (`BoundedRange`).
    sensitivity : Sensitivity
        Of the rank: 1.
    """

    epsilon: float
    lower: float
    upper: float
    dim: int
    charged: Literal["pure", "gaussian"] = "pure"
    sensitivity: Sensitivity = RANK
    name: ClassVar[str] = "exponential mechanism for a median"

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
        """The stated epsilon."""
        return (BoundedRange if self.charged == "gaussian" else PureMechanism)(self.epsilon)

    @property
    def output_step(self) -> float:
        """Step of the grid to which the release is rounded: ``2^-40`` of the interval."""
        return _rounding.power_of_two_at_most(self.upper - self.lower) * 2.0**-40

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system: the real point is rounded once, to the grid of `output_step`."""
        return source.exact

    def _sample(self, value: FloatArray, source: BitSource) -> float:
        check_shape(value, self.dim)
        inner = np.sort(np.clip(np.nan_to_num(value, nan=0.0), self.lower, self.upper))
        ends = np.concatenate([[self.lower], inner, [self.upper]])
        rate = _rounding.ratio_down(self.epsilon, 2 * self.sensitivity.value)
        return float(np.clip(draw_point(ends, rate, self.output_step, source), self.lower, self.upper))

    @classmethod
    def examples(cls) -> tuple[MedianMechanism, ...]:
        """One charged either way."""
        return (cls(0.7, -2.0, 3.0, 5), cls(0.2, -1.0, math.pi, 4, "gaussian"))
