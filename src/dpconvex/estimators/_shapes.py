"""Additive features: one block of vertices a column or pair, the kernels of shapes, and what is expected of them.

A record's features in a block are at least 0 and sum to 1: one level of a category, hats of degree 1 at knots, a vertex
for missing cells, or products of two such blocks. Each record is read by itself, and blocks follow from public facts
alone: never from a cell, nor from a column's type, which a reader of files infers from the cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast, final

import numpy as np
from scipy.special import ndtr

from dpconvex._types import FloatArray
from dpconvex.data import CategoricalColumn, NumericColumn
from dpconvex.data.columns import OTHER

OWN = "(missing)"
"""Name of the vertex of missing cells."""


@dataclass(frozen=True)
class Guess:
    """What plans expect of shapes, in squared logits; chosen without Adult (`benchmarks/additive_guess.py`)."""

    line: float = 3.0  #: of a straight line at the ends of a range
    motion: float = 0.6  #: of a Brownian motion over a whole range
    level: float = 0.25  #: of one level of a category
    pair: float = 0.05  #: of one vertex of a pair
    missing: float = 0.05  #: share of records whose cell is missing
    spread: float = 0.4  #: how much of the supposed variety real columns have


GUESS = Guess()


class ShapeColumn(ABC):
    """One block: which vertices it has, and the weights of each record on them."""

    kind: ClassVar[str]
    name: str
    share: ClassVar[float] = 1.0
    """Of the prior variance, before the shares of all blocks are made to add up to 1."""

    @property
    @abstractmethod
    def vertices(self) -> tuple[float | str, ...]:
        """Knots in the column's own unit, and names of levels."""

    @property
    def size(self) -> int:
        """How many vertices there are."""
        return len(self.vertices)

    @abstractmethod
    def write(self, raw: FloatArray, out: FloatArray) -> None:
        """Write the weights of records, whose columns are `raw` (n, p), into `out`, zeros of shape (n, size)."""

    @property
    @abstractmethod
    def kernel(self) -> FloatArray | None:
        """Prior covariance of the values (size, size), of any scale; None: independent."""

    @property
    @abstractmethod
    def mass(self) -> FloatArray:
        """Expected weights' second moments (size, size); rows sum to the expected weights."""

    @property
    @abstractmethod
    def signal(self) -> FloatArray:
        """Expected covariance of the values (size, size)."""

    @property
    @abstractmethod
    def rule(self) -> dict[str, Any]:
        """JSON-ready facts by which a record's weights are found without this library."""

    misfit: float = 0.0
    """Mean square of what the shape does between its vertices."""


@final
@dataclass(frozen=True)
class NumericShape(ShapeColumn):
    """Hats of degree 1 at knots of a numeric column, and a vertex for missing cells where public facts say so."""

    column: NumericColumn
    at: int  #: Position of the column in the table of raw cells
    knots: tuple[float, ...]
    own: bool
    kind: ClassVar[str] = "numeric"

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.column.name

    @property
    def vertices(self) -> tuple[float | str, ...]:
        return (*self.knots, *((OWN,) if self.own else ()))

    @cached_property
    def places(self) -> FloatArray:
        """The knots in [0, 1], after the transform."""
        return np.array(self.column.positions(self.knots))

    def write(self, raw: FloatArray, out: FloatArray) -> None:
        cells, rows = raw[:, self.at], np.arange(len(raw))
        missing = np.isnan(cells)
        u = np.clip(np.where(missing, 0.0, cells), 0.0, 1.0)
        left = np.clip(np.searchsorted(self.places, u, side="right") - 1, 0, len(self.knots) - 2)
        t = np.clip((u - self.places[left]) / np.diff(self.places)[left], 0.0, 1.0)
        out[rows, left], out[rows, left + 1] = 1 - t, t
        out[missing] = [0.0] * len(self.knots) + [1.0] if self.own else 1 / self.size

    @property
    def kernel(self) -> FloatArray | None:
        if self.size == 2:
            return None
        parts = [self._line(), self._motion()] if len(self.knots) > 2 else [self._line()]
        free = [np.eye(len(self.knots)) - 1 / len(self.knots)] if len(self.knots) > 2 else []
        smooth = sum(part / part.diagonal().max() for part in [*parts, *free])
        return self._with_own(smooth / np.diagonal(smooth).max(), 1.0)

    def _line(self) -> FloatArray:
        return np.outer(self.places - 0.5, self.places - 0.5)

    def _motion(self) -> FloatArray:
        """Return the covariance of a Brownian motion less its mean over the knots."""
        motion = np.minimum.outer(self.places, self.places)
        return motion - motion.mean(0) - motion.mean(1)[:, None] + motion.mean()

    def _with_own(self, among: FloatArray, variance: float) -> FloatArray:
        out = np.zeros((self.size, self.size))
        out[: len(self.knots), : len(self.knots)] = among
        if self.own:
            out[-1, -1] = variance
        return out

    @property
    def mass(self) -> FloatArray:
        """Of numbers whose law is normal, three standard deviations to either side, around two places of the range."""
        grid = (np.arange(600) + 0.5) / 600
        law = np.diff(ndtr((np.arange(601)[:, None] / 600 - np.array([1 / 3, 2 / 3])) * 6), axis=0).sum(1)
        weights = np.zeros((len(grid), self.size))
        replace(self, at=0).write(grid[:, None], weights)
        found = (weights * (law / law.sum())[:, None]).T @ weights
        share = GUESS.missing if self.own else 0.0
        return (1 - share) * found + np.diag([0.0] * len(self.knots) + [share] * self.own)

    @property
    def signal(self) -> FloatArray:
        return self._with_own(4 * GUESS.line * self._line() + GUESS.motion * self._motion(), GUESS.level)

    @property
    def rule(self) -> dict[str, Any]:
        ends = {"lower": self.column.lower, "upper": self.column.upper, "transform": self.column.transform}
        places = self.places.tolist()
        return {"kind": self.kind, "column": self.name, **ends, "knots": places, "missing": self.own}

    @property
    def misfit(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A Brownian motion less its interpolant has mean variance ``h/6`` in a gap h."""
        return GUESS.motion * float(np.square(np.diff(self.places)).sum()) / 6


@final
@dataclass(frozen=True)
class LevelShape(ShapeColumn):
    """The levels of a category."""

    column: CategoricalColumn
    at: int
    kind: ClassVar[str] = "categories"

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.column.name

    @property
    def vertices(self) -> tuple[float | str, ...]:
        return (*self.column.categories, *((OTHER,) if self.column.other else ()))

    def write(self, raw: FloatArray, out: FloatArray) -> None:
        cells = raw[:, self.at]
        listed = np.flatnonzero(~np.isnan(cells))
        out[listed, cells[listed].astype(np.intp)] = 1.0
        out[np.isnan(cells)] = 1 / self.size

    @property
    def kernel(self) -> FloatArray | None:
        return None

    @property
    def mass(self) -> FloatArray:
        return np.eye(self.size) / self.size

    @property
    def signal(self) -> FloatArray:
        return np.eye(self.size) * (1.0 if self.size == 2 else GUESS.level)

    @property
    def rule(self) -> dict[str, Any]:
        facts = {"levels": list(self.column.categories), "other": self.column.other}
        return {"kind": self.kind, "column": self.name, **facts}


@final
@dataclass(frozen=True)
class PairShape(ShapeColumn):
    """Products of the weights of two blocks: what two columns do together that neither does alone."""

    first: ShapeColumn
    second: ShapeColumn
    kind: ClassVar[str] = "pair"
    share: ClassVar[float] = 0.25

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"{self.first.name}:{self.second.name}"

    @property
    def vertices(self) -> tuple[float | str, ...]:
        return tuple(f"{a}, {b}" for a in self.first.vertices for b in self.second.vertices)

    def write(self, raw: FloatArray, out: FloatArray) -> None:
        one, two = (np.zeros((len(raw), part.size)) for part in (self.first, self.second))
        self.first.write(raw, one)
        self.second.write(raw, two)
        np.einsum("ij,ik->ijk", one, two, out=out.reshape(len(raw), self.first.size, self.second.size))

    @property
    def kernel(self) -> FloatArray | None:
        return cast(FloatArray, np.kron(_centered(self.first), _centered(self.second)))

    @property
    def mass(self) -> FloatArray:
        return cast(FloatArray, np.kron(self.first.mass, self.second.mass))

    @property
    def signal(self) -> FloatArray:
        kernel = cast(FloatArray, self.kernel)
        return GUESS.pair * kernel / kernel.diagonal().max()

    @property
    def rule(self) -> dict[str, Any]:
        return {"kind": self.kind, "first": self.first.rule, "second": self.second.rule}


def _centered(part: ShapeColumn) -> FloatArray:
    kernel = np.eye(part.size) if part.kernel is None else part.kernel
    return kernel - kernel.mean(0) - kernel.mean(1)[:, None] + kernel.mean()
