"""Columns with finitely many public values: categories as they are, numbers in public bins."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array
from dpconvex.data.frames import codes, numbers
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.data.ranges import LOWEST, NumberRange

if TYPE_CHECKING:
    import pyarrow as pa

    from dpconvex.data.frames import Series


MISSING = "(missing)"  #: Label of missing numbers, where they are a value of their own.


class CellColumn(ABC):
    """One column of a table with finitely many public values, called `labels`, in order."""

    name: str
    labels: tuple[str, ...]

    @abstractmethod
    def encode(self, series: Series) -> Array:
        """Return the value's position of every cell, int64 (n,); every content has one."""

    @abstractmethod
    def decode(self, positions: Array, rng: np.random.Generator) -> pa.Array:
        """Return cells (n,) with these values; numbers are drawn inside their bins."""


@final
@dataclass(frozen=True)
class CategoryCells(CellColumn):
    """A categorical column: its categories, then the level `other`; where that is empty, other values are the first."""

    name: str
    categories: tuple[str, ...]
    other: str = ""

    @property
    def labels(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.categories + (self.other,) * bool(self.other)

    def encode(self, series: Series) -> Array:
        positions = codes(series, self.categories, closed=not self.other)
        return np.where(positions < 0, len(self.categories) if self.other else 0, positions)

    def decode(self, positions: Array, rng: np.random.Generator) -> pa.Array:
        import pyarrow as pa

        unlisted = positions >= len(self.categories)
        return pa.array(self.categories, pa.string()).take(pa.array(positions, mask=unlisted))


@final
@dataclass(frozen=True)
class NumberCells(CellColumn):
    """A numeric column in bins ``[e_0, e_1), [e_1, e_2) .. [e_k-1, e_k]``.

    The edges are public, strictly increasing, at least two. Values outside count as the nearest bin, missing ones as
    the middle one, or as a value of their own, the last.
    """

    name: str
    edges: tuple[float, ...]
    missing: bool = False  #: whether missing values are a value of their own
    #: Released: increasing places, the edges among them, each with the share of numbers below it; numbers are drawn as
    #: they say inside of bins, and evenly between two places. Default: evenly inside of bins.
    law: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        ends = tuple(_validate.real(f"bins[{self.name!r}]", edge) for edge in self.edges)
        if len(ends) < 2 or any(not a < b for a, b in itertools.pairwise(ends)):
            raise InvalidParameterError(f"bins[{self.name!r}]", self.edges, "must be two or more increasing edges")
        object.__setattr__(self, "edges", ends)

    @classmethod
    def of(cls, name: str, within: NumberRange, bins: int | Sequence[float], missing: bool = False) -> NumberCells:
        """Return bins of equal width after a range's map, or with the given edges."""
        if isinstance(bins, int):
            bins = within.even(_validate.integer(f"bins[{name!r}]", bins, at_least=1) + 1)
        return cls(name, tuple(bins), missing)

    @property
    def labels(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        inner = [f"[{a:g}, {b:g})" for a, b in zip(self.edges[:-2], self.edges[1:-1], strict=True)]
        return (*inner, f"[{self.edges[-2]:g}, {self.edges[-1]:g}]", *(MISSING,) * self.missing)

    def encode(self, series: Series) -> Array:
        values = numbers(series, texts=True)
        bins, found = len(self.edges) - 1, np.searchsorted(self.edges[1:-1], values, side="right")
        return np.where(np.isnan(values), bins if self.missing else bins // 2, found)

    def decode(self, positions: Array, rng: np.random.Generator) -> pa.Array:
        import pyarrow as pa

        edges = np.append(self.edges, self.edges[-1])
        places, below = np.array(self.law).T if self.law else (edges[:-1], np.arange(len(edges) - 1.0))
        starts = np.interp(edges, places, below)
        low, high = starts[positions], starts[positions + 1]
        drawn = np.interp(low + rng.random(len(positions)) * (high - low), below, places)
        if self.law:  # numbers of that size were counted as 0
            drawn[np.abs(drawn) < 2.0**LOWEST] = 0.0
        return pa.array(drawn, mask=positions >= len(self.edges) - 1)


@final
@dataclass(frozen=True)
class OpenCells(CellColumn):
    """A numeric column whose bins a release finds: their number is public, and a cell is the number itself."""

    name: str
    bins: int
    missing: bool = False  #: whether missing values are a value of their own, the last

    @property
    def labels(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (*(f"bin {k + 1}" for k in range(self.bins)), *(MISSING,) * self.missing)

    def encode(self, series: Series) -> Array:
        return numbers(series, texts=True)

    def decode(self, positions: Array, rng: np.random.Generator) -> pa.Array:
        raise AssertionError("nothing is drawn before the bins are found")

    def within(self, edges: Sequence[float], law: Sequence[tuple[float, float]]) -> NumberCells:
        """Return the column in the bins found."""
        return NumberCells(self.name, tuple(edges), self.missing, tuple(law))
