"""Selection of a best candidate from private scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import _grid
from dpconvex.mechanisms.base import Mechanism, check_norm
from dpconvex.privacy import PureMechanism, Sensitivity
from dpconvex.randomness import exact
from dpconvex.randomness.source import BitSource


@final
@dataclass(frozen=True)
class ReportNoisyMax(Mechanism[int]):
    """Index of the largest score after exponential noise: the exponential mechanism's better sister.

    With exponential noise of scale ``2 sensitivity / epsilon`` this is *permute-and-flip*, which has the guarantee of
    the exponential mechanism and never a larger expected error. OpenDP draws it exactly, on scores rounded to a grid.

    Guarantees
    ----------
    Pure ``epsilon`` for the index alone, whatever the number of candidates.

    Parameters
    ----------
    sensitivity : Sensitivity
        Largest change of any one score, ``"linf"``.
    epsilon : float
        Positive.

    References
    ----------
    McKenna and Sheldon 2020, "Permute-and-flip: a new mechanism for differentially private selection"; Ding et al.
    2021, "The permute-and-flip mechanism is identical to report-noisy-max with exponential noise".
    """

    sensitivity: Sensitivity
    epsilon: float
    name: ClassVar[str] = "report noisy max"

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)
        check_norm(self.sensitivity, "linf")
        _ = self.step

    @property
    def scale(self) -> float:
        """Scale of the exponential noise: twice the enlarged sensitivity over epsilon, rounded up."""
        return _rounding.ratio_up(2 * _grid.enlarged(self.sensitivity.value), self.epsilon)

    @cached_property
    def step(self) -> float:
        """Step of the grid to which scores are rounded."""
        return _grid.spacing(self.sensitivity.value, self.scale, 1.0)

    @property
    def event(self) -> PureMechanism:
        """The stated epsilon."""
        return PureMechanism(self.epsilon)

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system."""
        return source.exact

    def _sample(self, value: FloatArray, source: BitSource) -> int:
        if value.ndim != 1 or not len(value):
            raise InvalidParameterError("value.shape", value.shape, "must be (candidates,), at least one")
        return exact.noisy_argmax(_grid.to_units(value, self.step), self.scale / self.step, source)

    @classmethod
    def examples(cls) -> tuple[ReportNoisyMax, ...]:
        """One small instance."""
        return (cls(Sensitivity(1.0, "linf", "example"), 0.8),)
