"""What a stage that refines the private centre must offer. Two files implement it: `descent`, `stable_sgd`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dpconvex._types import FloatArray
from dpconvex.privacy import Assumption, Ledger, Release
from dpconvex.randomness import BitSource


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Where a booster begins. All three are released or public.

    Parameters
    ----------
    centre : array of shape (d,)
        First iterate.
    ball : float
        Iterates are kept within this distance of the centre; positive, or 0 for a centre that is not to be refined.
    radius : float
        Effective radius of the data, by which steps are sized; positive.
    """

    centre: FloatArray
    ball: float
    radius: float


class Booster(ABC):
    """Public constants of a refining stage: a frozen dataclass that knows n, d and its share of the budget."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """Everything that `refine` records; a release that it makes T times is listed with ``times=T``."""

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its sensitivity rests on beyond the domain."""
        return ()

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Rough deviation of a coordinate of the result, in units of the effective radius (public facts only)."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready public constants."""

    @abstractmethod
    def exact_bits(self, source: BitSource) -> bool:
        """As `Planned.exact_bits`, for all its releases."""

    @abstractmethod
    def refine(self, points: FloatArray, start: WarmStart, source: BitSource, ledger: Ledger) -> FloatArray:
        """Return a released point near the geometric median.

        Parameters
        ----------
        points : array of shape (n, d)
            Sanitised, C-contiguous.
        start : WarmStart
        source : BitSource
            Of noise and coins; every ``source.generator()`` is a stream of its own.
        ledger : Ledger
            It lists `releases`.

        Returns
        -------
        array of shape (d,)
        """
