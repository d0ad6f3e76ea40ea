"""What an experiment is: a measurement with a table, a figure and checks fixed before it is run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from dpconvex.errors import InvalidParameterError
from dpconvex_experiments.checks import ALARM, Check

if TYPE_CHECKING:
    import matplotlib.figure

Figure: TypeAlias = "matplotlib.figure.Figure"
"""Only the name: matplotlib loads when a figure is drawn."""

_T = TypeVar("_T")

Cell: TypeAlias = str | float | int | bool | None
"""One entry of a table; None where there is nothing to say."""


class Track(Protocol):
    """Passes the items on, and shows how far the loop is."""

    def __call__(self, items: Iterable[_T], text: str, /) -> Iterable[_T]:
        """Return `items` again; `text` says what is being done."""
        ...


def untracked(items: Iterable[_T], text: str, /) -> Iterable[_T]:
    """Pass the items on and show nothing."""
    return items


@dataclass(frozen=True)
class Setting:
    """How large a measurement is to be, and from which random bits."""

    quick: bool = False  # below 20 seconds, for tests; otherwise the size that the documentation shows
    # at least 0. Of synthetic data *and* of the noise: what is measured is reproducible, and so never private
    seed: int = 0
    track: Track = untracked  # shows progress


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    columns: tuple[str, ...]  # names of the table's columns, with units where they have any
    rows: tuple[tuple[Cell, ...], ...]  # the table, a cell for each column
    criterion: str  # what was asked for, as one sentence
    # the numbers that must lie between limits for it to be met; together they raise a false alarm with probability
    # `ALARM` at most
    checks: tuple[Check, ...]
    draw: Callable[[Figure], None]  # draws the figure into the empty figure that it is given
    notes: tuple[str, ...] = ()  # what a reader must know to judge the numbers

    def __post_init__(self) -> None:
        if not self.checks or not self.alarm <= ALARM * (1 + 1e-9):
            requirement = f"at least one check, and false alarms with probability {ALARM:g} at most together"
            raise InvalidParameterError("checks", f"{len(self.checks)} checks", requirement, "Leave some out")

    @property
    def passed(self) -> bool:
        """Whether every check's number lies between its limits."""
        return all(check.passed for check in self.checks)

    @property
    def alarm(self) -> float:
        """Bound on the probability that some check fails although every claim is true: the checks' sum."""
        return math.fsum(check.alarm for check in self.checks)


@dataclass(frozen=True)
class Experiment:
    """A statement of a paper or of this library, and how it is measured."""

    name: str  # ``family/short-name``; the command line and the file names use it
    title: str  # one line: what is asked
    source: str  # theorem, table or figure that states it
    measure: Callable[[Setting], Outcome]  # measures; the same setting gives the same outcome

    @property
    def family(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]


def experiment(name: str, title: str, source: str) -> Callable[[Callable[[Setting], Outcome]], Experiment]:
    """Make an experiment of the function that measures it."""
    return lambda measure: Experiment(name, title, source, measure)
