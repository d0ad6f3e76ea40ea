"""Run an experiment and write down what it found: numbers, figure and circumstances."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex.data import write_atomically
from dpconvex_experiments.base import Cell, Experiment, Outcome, Setting

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

    experiment: Experiment  # what was asked
    setting: Setting  # how large, from which seed
    outcome: Outcome  # what was found
    seconds: float  # how long it took

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the figure as plain values; numbers that are not finite become None."""
        experiment, setting, outcome = self.experiment, self.setting, self.outcome
        return {
            "name": experiment.name,
            "title": experiment.title,
            "source": experiment.source,
            "criterion": outcome.criterion,
            "passed": bool(outcome.passed),
            "false_alarm": outcome.alarm,
            "checks": [{k: _plain(v) for k, v in check.to_dict().items()} for check in outcome.checks],
            "notes": list(outcome.notes),
            "quick": setting.quick,
            "seed": setting.seed,
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
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([self.outcome.columns, *self.outcome.rows])
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
