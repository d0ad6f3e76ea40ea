"""A part of a saddle problem: a range of its records, and perhaps with one player's point fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.minimax.base import SimplexPoint, SimplexSaddle


@final
@dataclass(frozen=True, eq=False)
class SaddleSection(SimplexSaddle):
    """Records ``start .. start + n - 1`` of a problem, of one player or of both.

    Its records are all records of the whole problem, of which it reads its own only.

    Parameters
    ----------
    whole : SimplexSaddle
        The problem.
    start, n : int
        Which records.
    player : {"both", "x", "y"}
        ``"x"``: minimise over x with y fixed. ``"y"``: minimise *minus* the value over y with x fixed; the remaining
        player is called x either way, and ``dy = 1``.
    fixed : SimplexPoint or None
        The other player's point: released or public.
    """

    whole: SimplexSaddle
    start: int
    n: int
    player: str = "both"
    fixed: SimplexPoint | None = None
    name: ClassVar[str] = "section of a saddle problem"

    def __post_init__(self) -> None:
        _validate.integer("start", self.start, at_least=0)
        _validate.integer("n", self.n, at_least=1)
        _validate.choice("player", self.player, ("both", "x", "y"))
        if self.start + self.n > self.whole.n:
            raise InvalidParameterError("n", self.n, f"must leave start + n within the {self.whole.n} records")
        if (self.player == "both") != (self.fixed is None):
            raise InvalidParameterError(
                "fixed", self.fixed, "must be given for a section with one player, and only there"
            )

    @property
    def dx(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.dy if self.player == "y" else self.whole.dx

    @property
    def dy(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.dy if self.player == "both" else 1

    def _of(self, pair: tuple[float, float]) -> tuple[float, float]:
        return pair if self.player == "both" else (pair[self.player == "y"], 0.0)

    @property
    def spread(self) -> tuple[float, float]:
        return self._of(self.whole.spread)

    @property
    def sum_rounding(self) -> float:
        """At most that of the whole: its records are fewer, and gradients are computed as the whole computes them."""
        return self.whole.sum_rounding

    @property
    def lipschitz(self) -> tuple[float, float]:
        return self._of(self.whole.lipschitz)

    @property
    def smoothness(self) -> float:
        return 0.0 if self.player != "both" and self.whole.bilinear else self.whole.smoothness

    @property
    def second_smoothness(self) -> float:
        return self.whole.second_smoothness

    @property
    def bilinear(self) -> bool:
        return self.whole.bilinear

    @property
    def value_range(self) -> tuple[float, float]:
        low, high = self.whole.value_range
        return (-high, -low) if self.player == "y" else (low, high)

    def record_size(self, records: Any) -> int:
        return self.whole.record_size(records)

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), "whole": self.whole.name, "start": self.start, "player": self.player}

    def check(self, records: Any) -> None:
        self.whole.check(records)

    def _pair(self, x: SimplexPoint, y: SimplexPoint) -> tuple[SimplexPoint, SimplexPoint]:
        if self.fixed is None:
            return x, y
        return (self.fixed, x) if self.player == "y" else (x, self.fixed)

    def _shifted(self, rows: slice) -> slice:
        return slice(rows.start + self.start, rows.stop + self.start)

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> tuple[FloatArray, FloatArray]:
        gx, gy = self.whole._gradients(records, self._shifted(rows), *self._pair(x, y))
        if self.player == "both":
            return gx, gy
        return (-gy if self.player == "y" else gx), np.zeros(1)

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> FloatArray:
        values = self.whole._values(records, self._shifted(rows), *self._pair(x, y))
        return -values if self.player == "y" else values
