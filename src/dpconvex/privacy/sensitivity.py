"""How far one neighbour can move a value, in which norm, and why."""

from __future__ import annotations

from dataclasses import dataclass

from dpconvex import _validate
from dpconvex.privacy.params import Neighboring, Unit


@dataclass(frozen=True)
class Sensitivity:
    """Bound on the distance between a function's values on two neighbouring data sets.

    Built only by the code that proves it; it travels with the mechanism that uses it.

    Parameters
    ----------
    value : float
        The bound, positive, rounded up.
    norm : str
        Norm of the difference: ``"l1"``, ``"l2"``, ``"linf"``, ``"absolute"`` or the name of a noise norm.
    lemma : str
        The statement that proves it, with its source.
    neighboring : Neighboring
        The relation it holds for.
    unit : Unit
        The unit it holds for.
    """

    value: float
    norm: str
    lemma: str
    neighboring: Neighboring = Neighboring.REPLACE_ONE
    unit: Unit = Unit.RECORD

    def __post_init__(self) -> None:
        _validate.real("sensitivity", self.value, above=0.0)
