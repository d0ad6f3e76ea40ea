"""What an experiment is, a measurement with a table, a figure and checks fixed before it is run; and its record."""

import csv
import io
import json
import math
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np

from dpconvex._types import attributes
from dpconvex.data import write_atomically
from dpconvex.errors import InvalidParameterError
from dpconvex_experiments.checks import ALARM, Anchors, Check

if TYPE_CHECKING:
    import matplotlib.figure

Figure: TypeAlias = "matplotlib.figure.Figure"
"""Matplotlib's class, as a name for annotations only: matplotlib is imported when a figure is drawn."""
_T = TypeVar("_T")
Cell: TypeAlias = str | float | int | bool | None
"""One entry of a table; None for an empty entry."""


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

    quick: bool = False  #: whether to measure in less than 20 seconds, for tests; else as the documentation shows
    # At least 0. It seeds the synthetic data *and* the noise, so results are reproducible, and therefore never private.
    seed: int = 0
    track: Track = untracked  #: shows progress


@dataclass(frozen=True)
class Outcome:
    """What an experiment found."""

    columns: tuple[str, ...]  #: names of the table's columns, with units where they have any
    rows: tuple[tuple[Cell, ...], ...]  #: the table, a cell for each column
    criterion: str  #: the claim that was tested, as one sentence
    # The criterion is met if the number of every check lies between its limits. The probability that any check fails
    # although all claims are true is at most `ALARM`.
    checks: tuple[Check, ...]
    draw: Callable[[Figure], None]  #: draws the figure into the empty figure that it is given
    notes: str = ""  #: what a reader must know to judge the numbers, one note a line

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

    name: str  #: ``family/short-name``; the command line and the file names use it
    title: str  #: one line: what is asked
    source: str  #: theorem, table or figure that states it
    measure: Callable[[Setting], Outcome]  #: measures; the same setting gives the same outcome

    @property
    def family(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]


def experiment(
    name: str, source: str, title: str = ""
) -> Callable[[Callable[[Setting, Anchors], Outcome]], Experiment]:
    """Make an experiment of the function that measures it, given its anchors; its docstring begins with the title."""

    def made(measure: Callable[[Setting, Anchors], Outcome]) -> Experiment:
        asked = title or str(measure.__doc__).partition("\n")[0]
        return Experiment(name, asked, source, lambda at: measure(at, Anchors(name, at.quick)))

    return made


# Records: what was found, written down as numbers, figure and circumstances.

_PACKAGES = ("dpconvex", "numpy", "scipy", "numba", "scikit-learn", "opendp", "dp-accounting")

_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "svg.fonttype": "none",  # text stays text: smaller files, and readers' own fonts
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
}
_SIZE = (7.2, 3.8)  # inches


@dataclass(frozen=True)
class Record:
    """One run of an experiment."""

    experiment: Experiment  #: what was asked
    setting: Setting  #: how large, from which seed
    outcome: Outcome  #: what was found
    seconds: float  #: how long it took

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the figure as plain values; numbers that are not finite become None."""
        experiment, setting, outcome = self.experiment, self.setting, self.outcome
        return {
            **attributes(experiment, "name", "title", "source"),
            "criterion": outcome.criterion,
            "passed": bool(outcome.passed),
            "false_alarm": outcome.alarm,
            "checks": [{k: _plain(v) for k, v in check.to_dict().items()} for check in outcome.checks],
            "notes": outcome.notes.splitlines(),
            **attributes(setting, "quick", "seed"),
            "seconds": round(self.seconds, 3),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
            "columns": list(outcome.columns),
            "rows": [[_plain(cell) for cell in row] for row in outcome.rows],
        }

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Write ``NAME.csv``, ``NAME.svg`` and ``NAME.json``, each whole or not at all, and return their paths.

        They go into a folder of the family inside `folder`, and replace the files of an earlier run.
        """
        base = folder / self.experiment.name
        base.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        contents = {"csv": self._csv(), "svg": self.svg(), "json": text}
        paths = {base.with_name(f"{base.name}.{kind}"): content for kind, content in contents.items()}
        for path, content in paths.items():
            write_atomically(path, content)
        return tuple(paths)

    def svg(self) -> str:
        """Return the figure as SVG text; the same outcome gives the same text."""
        import matplotlib
        from matplotlib.figure import Figure

        buffer = io.StringIO()
        style: Any = {**_STYLE, "svg.hashsalt": self.experiment.name}
        with matplotlib.rc_context(style):
            figure = Figure(figsize=_SIZE, layout="constrained")
            self.outcome.draw(figure)
            figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()

    def _csv(self) -> str:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([self.outcome.columns, *self.outcome.rows])
        return buffer.getvalue()


def run_experiment(experiment: Experiment, setting: Setting) -> Record:
    """Measure an experiment and take the time."""
    start = time.perf_counter()
    outcome = experiment.measure(setting)
    return Record(experiment, setting, outcome, time.perf_counter() - start)


def _plain(cell: Cell | np.generic) -> Cell:
    """Return a Python value; experiments may leave NumPy's scalars in their tables."""
    plain: Cell = cell.item() if isinstance(cell, np.generic) else cell
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain
