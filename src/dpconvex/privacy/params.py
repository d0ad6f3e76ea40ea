"""What is promised (epsilon, delta, unit, relation), and how far one neighbor can move a value."""

from dataclasses import dataclass, replace
from enum import StrEnum

from dpconvex import _rounding, _validate
from dpconvex._types import set_fields
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.profiles import spare


class Neighboring(StrEnum):
    """When two data sets count as neighbors."""

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"

    @property
    def fixes_size(self) -> bool:
        """Whether neighbors have the same number of units, so that this number is public."""
        return self is Neighboring.REPLACE_ONE


class Unit(StrEnum):
    """Whose data one change covers: one row, or all rows of one person."""

    RECORD = "record"
    USER = "user"


@dataclass(frozen=True)
class PrivacyParams:
    """A differential-privacy promise."""

    epsilon: float  #: positive
    delta: float = 0.0  #: in [0, 1/2); 0 is pure differential privacy
    #: Replace-one: both data sets have the same, public, number of units. For ``"add_or_remove_one"`` that number is
    #: private, and plans are made for a declared one.
    neighboring: Neighboring = Neighboring.REPLACE_ONE
    unit: Unit = Unit.RECORD

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0, remedy="Typical values lie between 0.1 and 10")
        if self.epsilon > 1e6:
            raise InvalidParameterError("epsilon", self.epsilon, "must be at most 1e6", "Use a non-private library")
        _validate.real("delta", self.delta, at_least=0.0, below=0.5, remedy="Use 0, or a value far below 1/n")
        if 0 < self.delta < 1e-300:
            raise InvalidParameterError("delta", self.delta, "must be 0 or at least 1e-300", "Use delta=0")
        set_fields(self, epsilon=float(self.epsilon), delta=float(self.delta))
        set_fields(self, neighboring=Neighboring(self.neighboring), unit=Unit(self.unit))

    @property
    def pure(self) -> bool:
        """Whether delta is 0."""
        return self.delta == 0

    def less(self, spent: float) -> "PrivacyParams":
        """Return the promise that is left for a method that is planned after a release of epsilon `spent`."""
        # A profile that just meets delta here is priced once more, at an epsilon that rounding may move: it must fit.
        # Profiles of the tiniest deltas are rounded more than others.
        left = _rounding.difference_down(self.epsilon, spent)
        kept = 1 - max(1e-12, spare(left)) if self.delta and left > 0 else 1.0
        delta = max(self.delta * (1 - 1e-6), 1e-300) if 0 < self.delta < 1e-100 else self.delta
        return replace(self, epsilon=_rounding.product_down(left, kept), delta=delta)


def check_part(whole: PrivacyParams, part: PrivacyParams, name: str) -> None:
    """Raise `InvalidParameterError` unless the promise of a plan inside another one is the same or a smaller one."""
    if (part.neighboring, part.unit) != (whole.neighboring, whole.unit):
        what = f"must protect what the whole does: neighboring {whole.neighboring}, unit {whole.unit}"
        raise InvalidParameterError(name, f"{part.neighboring}, {part.unit}", what)
    if part.epsilon > whole.epsilon or part.delta > whole.delta:
        what = f"must promise at most epsilon={whole.epsilon:g} and delta={whole.delta:g}"
        raise InvalidParameterError(name, f"epsilon={part.epsilon:g}, delta={part.delta:g}", what)


@dataclass(frozen=True)
class Sensitivity:
    """Bound on the distance between a function's values on two neighboring data sets.

    Built only by the code that proves it; it travels with the mechanism that uses it. The `value` is rounded up; the
    `norm` of the difference is ``"l1"``, ``"l2"``, ``"linf"``, ``"absolute"`` or the name of a noise norm; the `lemma`
    is the statement that proves it, with its source.
    """

    value: float
    norm: str
    lemma: str
    neighboring: Neighboring = Neighboring.REPLACE_ONE
    unit: Unit = Unit.RECORD

    def __post_init__(self) -> None:
        _validate.real("sensitivity", self.value, above=0.0)
