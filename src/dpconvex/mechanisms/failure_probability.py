"""A lemma that may fail: nothing is released, but its probability is charged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from dpconvex import _validate
from dpconvex.mechanisms.base import Planned
from dpconvex.privacy import FailureProbability, Ledger, Sensitivity, Unit
from dpconvex.randomness.source import BitSource


@final
@dataclass(frozen=True)
class FailureAllowance(Planned):
    """The part of delta that pays for a sensitivity which holds with high probability only.

    Parameters
    ----------
    probability : float
        Of the failure, for both of two neighbouring data sets together; in (0, 1).
    lemma : str
        What bounds it, and over which randomness.
    unit : Unit
        The unit of the promise.
    """

    probability: float
    lemma: str
    unit: Unit = Unit.RECORD
    name: ClassVar[str] = "allowance for failure"

    def __post_init__(self) -> None:
        _validate.real("probability", self.probability, above=0.0, below=1.0)

    @property
    def sensitivity(self) -> Sensitivity:  # pyright: ignore[reportIncompatibleVariableOverride]
        """No value is released; this carries the lemma and the unit."""
        return Sensitivity(1.0, "none", self.lemma, unit=self.unit)

    @property
    def event(self) -> FailureProbability:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The probability."""
        return FailureProbability(self.probability)

    def exact_bits(self, source: BitSource) -> bool:
        """Nothing is drawn."""
        return True

    def charge(self, label: str, ledger: Ledger) -> None:
        """Enter the allowance in the ledger, before what rests on it is released.

        Raises
        ------
        BudgetExceededError
            If the ledger does not list ``planned(label)``.
        """
        ledger.record(self.planned(label))
