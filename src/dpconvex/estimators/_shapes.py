"""Additive features: one block of vertices a column or pair, the kernels of shapes, and what is expected of them.

A record's features in a block are at least 0 and sum to 1: one level of a category, hats of degree 1 at knots, a vertex
for missing cells, or products of two such blocks. Each record is read by itself, and blocks follow from public facts
alone: never from a cell, nor from a column's type, which a reader of files infers from the cells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast, final

import numpy as np
from scipy.special import ndtr

from dpconvex._types import AnyArray, FloatArray
from dpconvex.data import CategoricalColumn, NumericColumn, Schema
from dpconvex.data.columns import OTHER, AbstractColumn
from dpconvex.data.frames import codes, numbers, open_table, require_columns
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._features import FeatureMap
from dpconvex.problems import Block, DataDomain, Factor, LinearModelProblem
from dpconvex.problems.linear.shapes import ExpectedShapes

KNOTS = (2, 3, 4, 6, 8, 12, 16)
"""How many even knots are tried; two make a column linear."""

PAIR_KNOTS, PAIR_LEVELS, MOST_VERTICES = 4, 8, 64
"""Knots of a column in a pair, levels of a category there, and vertices of a block with a kernel."""

OWN = "(missing)"
"""Name of the vertex of missing cells."""


@dataclass(frozen=True)
class Guess:
    """What plans expect of shapes, in squared logits; chosen on tables without Adult (`benchmarks/additive.py`)."""

    line: float = 1.0  #: of a straight line at the ends of a range
    motion: float = 0.7  #: of a Brownian motion over a whole range
    level: float = 0.25  #: of one level of a category
    pair: float = 0.05  #: of one vertex of a pair
    missing: float = 0.05  #: share of records whose cell is missing
    spread: float = 1.0  #: how much of the supposed variety real columns have


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

    kernel = None  # pyright: ignore[reportAssignmentType]

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
        return np.kron(_centered(self.first), _centered(self.second))

    @property
    def mass(self) -> FloatArray:
        return np.kron(self.first.mass, self.second.mass)

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


@final
@dataclass(frozen=True)
class ShapeMap(FeatureMap):
    """Tables or matrices to weights on the vertices of all blocks, by way of raw cells.

    `encode` gives raw cells (n, p): places of numbers in [0, 1], positions of levels, NaN where a cell is missing or
    not listed. They do not depend on knots, so that the number of knots may be planned after they were read.
    """

    columns: tuple[AbstractColumn, ...]
    table: bool  #: Whether cells come from a table with names, else from a matrix
    own: bool  #: Whether missing numbers have a vertex, where their column leaves it open
    pairs: tuple[tuple[str, str], ...] = ()
    knots: tuple[tuple[float, ...], ...] = ()  #: Of each column, empty for categories

    def at(self, count: int) -> ShapeMap:
        """Return the map with so many knots a column, unless it declares its own."""
        return replace(self, knots=tuple(c.even_knots(count) if _is_number(c) else () for c in self.columns))

    def with_knots(self, knots: tuple[tuple[float, ...], ...]) -> ShapeMap:
        """Return the map with these knots, checked as a column's own are."""
        if len(knots) != len(self.columns):
            raise InvalidParameterError("knots_", len(knots), f"must be those of {len(self.columns)} columns")
        for column, own in zip(self.columns, knots, strict=True):
            if column.numeric:
                replace(cast(NumericColumn, column), knots=own or (math.nan,))
            elif own:
                raise InvalidParameterError("knots_", own, "must be empty for categories")
        return replace(self, knots=knots)

    @cached_property
    def blocks(self) -> tuple[ShapeColumn, ...]:
        """All blocks of two vertices or more."""
        singles = [self._single(k, self.knots[k]) for k in range(len(self.columns))]
        names = [column.name for column in self.columns]
        coarse = [self._pair_part(k) for k in range(len(self.columns))] if self.pairs else []
        pairs = [PairShape(coarse[names.index(a)], coarse[names.index(b)]) for a, b in self.pairs]
        return tuple(block for block in (*singles, *pairs) if block.size > 1)

    def _single(self, k: int, knots: tuple[float, ...]) -> ShapeColumn:
        column: Any = self.columns[k]
        if not _is_number(column):
            return LevelShape(column, k)
        return NumericShape(column, k, knots, self.own if column.missing is None else column.missing == "own")

    def _pair_part(self, k: int) -> ShapeColumn:
        column: Any = self.columns[k]
        plain = replace(column, knots=()) if _is_number(column) else column
        return self._single(k, plain.even_knots(PAIR_KNOTS) if _is_number(column) else ())

    @cached_property
    def starts(self) -> list[int]:
        """First vertex of each block, and the number of all."""
        return [0, *np.cumsum([block.size for block in self.blocks]).tolist()]

    @cached_property
    def domain(self) -> DataDomain:  # pyright: ignore[reportIncompatibleVariableOverride]
        return DataDomain(tuple(Block(block.size, "simplex", 1.0, block.name) for block in self.blocks))

    @property
    def n_columns(self) -> int:
        return len(self.columns)

    def encode(self, X: Any) -> FloatArray:
        if not self.table:
            return self._matrix_cells(X)
        frame = open_table(X)
        require_columns(frame.columns, [column.name for column in self.columns], "the table")
        out = np.empty((len(frame), len(self.columns)))
        for k, column in enumerate(self.columns):
            series: Any = frame.get_column(column.name)
            out[:, k] = self._places(k, numbers(series)) if _is_number(column) else self._positions(k, series)
        return out

    def _matrix_cells(self, X: AnyArray) -> FloatArray:
        self.straight.domain.check_columns(X)
        with np.errstate(all="ignore"):
            return np.column_stack([self._places(k, X[:, k].astype(np.float64)) for k in range(X.shape[1])])

    def _places(self, k: int, values: FloatArray) -> FloatArray:
        column: Any = self.columns[k]
        values = np.clip(values, column.lower, column.upper)
        first, last = column._ends
        return ((np.log1p(values) if column.transform == "log1p" else values) - first) / (last - first)

    def _positions(self, k: int, series: Any) -> FloatArray:
        column: Any = self.columns[k]
        found = codes(series, column.categories).astype(np.float64)
        found[found < 0] = len(column.categories) if column.other else np.nan
        return found

    def expand(self, cells: FloatArray) -> FloatArray:
        out = np.zeros((len(cells), self.starts[-1]))
        for block, start in zip(self.blocks, self.starts, strict=False):
            block.write(cells, out[:, start : start + block.size])
        return out

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        return coef, intercept

    def refined(self, problem: LinearModelProblem) -> LinearModelProblem:
        factor, shapes = self._prior(problem.domain)
        return replace(problem, factor=factor, shapes=shapes)

    @cached_property
    def _priors(self) -> dict[DataDomain, tuple[Factor, ExpectedShapes]]:
        return {}

    def _prior(self, domain: DataDomain) -> tuple[Factor, ExpectedShapes]:
        """Return the new coordinates and what is expected in them: the same objects for the same domain."""
        if domain not in self._priors:
            shares = np.array([block.share for block in self.blocks] + [1.0] * (domain.intercept > 0))
            kernels = {block.name: block.kernel for block in self.blocks}
            factor = Factor.of(domain, (shares / shares.sum()).tolist(), lambda block: kernels[block.name])
            constant = [np.array([[domain.intercept**2]])] if domain.intercept else []
            masses = [block.mass for block in self.blocks]
            moments = [GUESS.spread * (m - np.outer(m.sum(1), m.sum(1)) if constant else m) for m in masses]
            signals = [*(block.signal for block in self.blocks), *([np.array([[1.0]])] if constant else [])]
            expected = ExpectedShapes((*moments, *constant), tuple(signals), sum(b.misfit for b in self.blocks))
            self._priors[domain] = factor, expected
        return self._priors[domain]

    @cached_property
    def straight(self) -> StraightLines:
        """The same cells as an ordinary linear model has them."""
        return StraightLines(self)


@final
@dataclass(frozen=True)
class StraightLines(FeatureMap):
    """Raw cells as the features of a linear model, whose coefficients become shapes of two knots."""

    shapes: ShapeMap

    @cached_property
    def domain(self) -> DataDomain:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Schema(self.shapes.columns).domain()

    def encode(self, X: Any) -> FloatArray:
        return self.shapes.encode(X)

    def expand(self, cells: FloatArray) -> FloatArray:
        out = np.zeros((len(cells), self.domain.n_features))
        start = 0
        for k, (column, block) in enumerate(zip(self.shapes.columns, self.domain.blocks, strict=True)):
            part, start = out[:, start : start + block.size], start + block.size
            if block.size == 1:  # a number, or one of two categories: its middle is 0
                part[:, 0] = np.nan_to_num(cells[:, k] - 0.5) if block.norm == "linf" else 1.0
            else:
                LevelShape(cast(CategoricalColumn, column), k).write(cells, part)
        return out

    def decode(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        parts, shift = [], np.array(intercept, dtype=np.float64)
        bounds = np.cumsum([block.size for block in self.domain.blocks])[:-1]
        blocks = {block.name: block for block in self.shapes.at(2).blocks}
        for column, part in zip(self.shapes.columns, np.split(coef, bounds, axis=1), strict=True):
            if column.name not in blocks:  # one level: a constant
                shift = shift + part[:, 0]
            elif part.shape[1] == 1:
                own = np.zeros((len(part), blocks[column.name].size - 2))
                parts.append(np.hstack([-part / 2, part / 2, own]))
            else:
                parts.append(part - part.mean(1, keepdims=True))
                shift = shift + part.mean(1)
        parts += [np.zeros((len(coef), block.size)) for block in self.shapes.at(2).blocks if block.kind == "pair"]
        return np.hstack(parts), shift


def _is_number(column: AbstractColumn) -> bool:
    return column.numeric


def checked_pairs(pairs: Any, columns: Sequence[AbstractColumn]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns that interact, or raise `InvalidParameterError`."""
    names = [column.name for column in columns]
    what = "must list pairs of two different columns, each pair once, as in [('age', 'hours')]"
    if not isinstance(pairs, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs):
        raise InvalidParameterError("interactions", pairs, what)
    found = tuple((str(a), str(b)) for a, b in pairs)
    once = len({frozenset(pair) for pair in found}) == len(found)
    if not once or any(a == b or not {a, b} <= set(names) for a, b in found):
        raise InvalidParameterError("interactions", pairs, what, f"Columns are {', '.join(names[:20])}")
    for a, b in found:
        for column in (columns[names.index(a)], columns[names.index(b)]):
            if not column.numeric and not 2 <= LevelShape(cast(CategoricalColumn, column), 0).size <= PAIR_LEVELS:
                what = f"has a column, {column.name!r}, that has not 2 to {PAIR_LEVELS} levels"
                raise InvalidParameterError("interactions", (a, b), what, "Group its levels")
        if f"{a}:{b}" in names:
            raise InvalidParameterError("interactions", (a, b), f"has the name of a column, '{a}:{b}'", "Rename it")
    return found
