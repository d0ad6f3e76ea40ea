"""Columns with finitely many public values: categories, and numbers in public bins."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self, cast

import numpy as np

from dpconvex import _validate
from dpconvex._arrow import pa
from dpconvex._types import Array, final_dataclass
from dpconvex.data.frames import Series, codes, numbers
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.data.ranges import DEPTH, NumberRange, grid, multiples

MISSING = "(missing)"  #: Name of missing numbers, where they are a value, a feature or a vertex of their own.
DEFAULT_BINS = 16
AUTO, PRIVATE = "auto", "private"  #: Options for bins: chosen from public facts, or found by a private release.
NumberBins = int | str | Sequence[float]  #: Bins of a column: the number of equally wide bins, "private", or the edges.


class CellColumn(ABC):
    """One column of a table with finitely many public values, called `labels`, in order."""

    name: str
    labels: tuple[str, ...]

    @abstractmethod
    def encode(self, series: Series) -> Array:
        """Return the value's position of every cell, int64 (n,); every content has one."""

    @abstractmethod
    def decode(self, positions: Array, rng: np.random.Generator) -> "pa.Array":
        """Return cells (n,) with these values; numbers are drawn inside their bins."""


@final_dataclass
class CategoryCells(CellColumn):
    """A categorical column: its categories, then the level `other`; where that is empty, other values are the first."""

    name: str
    categories: tuple[str, ...]
    other: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        return self.categories + (self.other,) * bool(self.other)

    def encode(self, series: Series) -> Array:
        positions = codes(series, self.categories, closed=not self.other)
        return np.where(positions < 0, len(self.categories) if self.other else 0, positions)

    def decode(self, positions: Array, rng: np.random.Generator) -> "pa.Array":
        unlisted = positions >= len(self.categories)
        return pa.array(self.categories, pa.string()).take(pa.array(positions, mask=unlisted))


@final_dataclass
class NumberCells(CellColumn):
    """A numeric column in bins ``[e_0, e_1), [e_1, e_2) .. [e_k-1, e_k]``.

    The edges are public, strictly increasing, at least two. Values outside count as the nearest bin, missing ones as
    the middle one, or as a value of their own, the last.
    """

    name: str
    edges: tuple[float, ...]
    missing: bool = False  #: whether missing cells are a separate value
    #: Released shares of numbers below increasing places, which include the edges. Numbers are drawn with these shares
    #: inside of bins, and evenly between two places; without them evenly inside of bins.
    law: tuple[tuple[float, float], ...] = ()
    step: float = 0.0  #: numbers are multiples of it; 0: any numbers

    def __post_init__(self) -> None:
        ends = tuple(_validate.real(f"bins[{self.name!r}]", edge) for edge in self.edges)
        if len(ends) < 2 or any(not a < b for a, b in itertools.pairwise(ends)):
            raise InvalidParameterError(f"bins[{self.name!r}]", self.edges, "must be two or more increasing edges")
        object.__setattr__(self, "edges", ends)

    @classmethod
    def of(cls, name: str, within: NumberRange, bins: int | Sequence[float], missing: bool, step: float) -> Self:
        """Return bins of equal width after a range's map, or a bin per multiple of the step, or the given edges."""
        if isinstance(bins, int):
            count = _validate.integer(f"bins[{name!r}]", bins, at_least=1)
            first, stop = multiples((within.lower, within.upper), step) if step else (0.0, math.inf)
            if 0 < stop - first <= count:
                bins = [within.lower, *(step * (first + k + 0.5) for k in range(int(stop - first) - 1)), within.upper]
            else:
                bins = within.even(count + 1)
        return cls(name, tuple(bins), missing, (), step)

    @property
    def labels(self) -> tuple[str, ...]:
        wide, ends = self._widths > 0, list(itertools.pairwise(self.edges))
        found = [f"[{a:g}, {b:g})" if on else f"{a:g}" for on, (a, b) in zip(wide, ends, strict=True)]
        found[-1] = f"{found[-1][:-1]}]" if wide[-1] else f"{self.edges[-1]:g}"
        for k, (a, b) in enumerate(itertools.pairwise(multiples(self.edges, self.step) if self.step else ())):
            if a < b:
                found[k] = f"{a * self.step:g}" + (f" to {(b - 1) * self.step:g}" if a < b - 1 else "")
        return (*found, *(MISSING,) * self.missing)

    @property
    def _widths(self) -> Array:
        """Widths of the bins, 0 for bins that stand for a single number, for which no digits are drawn."""
        found = np.diff(self.edges)
        return np.where(found > DEPTH / 32 * found.sum(), found, 0.0)

    def encode(self, series: Series) -> Array:
        values = numbers(series, texts=True)
        bins, found = len(self.edges) - 1, np.searchsorted(self.edges[1:-1], values, side="right")
        return np.where(np.isnan(values), bins if self.missing else bins // 2, found)

    def decode(self, positions: Array, rng: np.random.Generator) -> "pa.Array":
        edges = np.append(self.edges, self.edges[-1])
        places, below = np.array(self.law).T if self.law else (edges[:-1], np.arange(len(edges) - 1.0))
        starts = np.interp(edges, places, below)
        low, high = starts[positions], starts[positions + 1]
        narrowest = self._widths[self._widths > 0].min(initial=1e300)
        step = self.step or 10.0 ** max(-300, math.floor(math.log10(narrowest)) - 2)
        whole = multiples(places, step)
        drawn = np.floor(np.interp(low + rng.random(len(positions)) * (high - low), below, whole))
        drawn, whole = np.minimum(drawn, whole[-1] - 1), round(1 / step)  # 7 / 100 is 0.07, and 7 * 0.01 is not
        drawn = drawn / whole if whole and abs(whole * step - 1) < 1e-12 else drawn * step
        if self.step >= 1 and self.step == round(self.step) and np.abs(edges).max() < 2.0**53:
            drawn = drawn.astype(np.int64)
        return pa.array(drawn, mask=positions >= len(self.edges) - 1)


@final_dataclass
class OpenCells(CellColumn):
    """A numeric column whose bins a release finds: their number is public, and a cell is the number itself."""

    name: str
    bins: int
    missing: bool = False  #: whether missing cells are a separate value, the last
    step: float = 0.0  #: step of the numbers, as in `NumberCells`
    declared: NumberRange | None = None  #: the public range; None if a release finds it, too

    @classmethod
    def of(cls, name: str, within: NumberRange | None, bins: NumberBins, missing: bool, step: float) -> CellColumn:
        """Return bins of a range: public ones if they are given, or are all the cells it has; else they are found."""
        count: Any = DEFAULT_BINS if isinstance(bins, str) else int(bins) if isinstance(bins, np.integer) else bins
        if not isinstance(count, int) or (within is not None and bins != PRIVATE):
            return NumberCells.of(name, cast(NumberRange, within), count, missing, step)
        edges = () if within is None else tuple(grid(within, step))
        if 0 < len(edges) <= count + 1:
            return NumberCells(name, edges, missing, (), step)
        return cls(name, _validate.integer(f"bins[{name!r}]", count, at_least=1), missing, step, within)

    @property
    def labels(self) -> tuple[str, ...]:
        return (*(f"bin {k + 1}" for k in range(self.bins)), *(MISSING,) * self.missing)

    def encode(self, series: Series) -> Array:
        return numbers(series, texts=True)

    def decode(self, positions: Array, rng: np.random.Generator) -> "pa.Array":
        raise AssertionError("nothing is drawn before the bins are found")

    def within(self, edges: Sequence[float], law: Sequence[tuple[float, float]]) -> NumberCells:
        """Return the column in the bins found."""
        return NumberCells(self.name, tuple(edges), self.missing, tuple(law), self.step)
