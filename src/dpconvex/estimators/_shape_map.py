"""Public maps from tables or matrices to the blocks of an additive model, and what they say of its problem."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.data import CategoricalColumn, NumericColumn, Schema
from dpconvex.data.columns import AbstractColumn
from dpconvex.data.frames import codes, numbers, open_table, require_columns
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import _shapes
from dpconvex.estimators._features import FeatureMap
from dpconvex.estimators._shapes import LevelShape, NumericShape, PairShape, ShapeColumn
from dpconvex.problems import Block, DataDomain, Factor, LinearModelProblem
from dpconvex.problems.linear.shapes import ExpectedShapes

KNOTS = (2, 3, 4, 6, 8, 12, 16)
"""How many even knots are tried; two make a column linear."""

PAIR_KNOTS, PAIR_LEVELS = 4, 8
"""Knots of a column in a pair, and levels of a category there."""


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
        return replace(self, knots=tuple(cast(Any, c).even_knots(count) if c.numeric else () for c in self.columns))

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
        if not column.numeric:
            return LevelShape(column, k)
        return NumericShape(column, k, knots, self.own if column.missing is None else column.missing == "own")

    def _pair_part(self, k: int) -> ShapeColumn:
        column: Any = self.columns[k]
        plain = replace(column, knots=()) if column.numeric else column
        return self._single(k, plain.even_knots(PAIR_KNOTS) if column.numeric else ())

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
            out[:, k] = self._places(k, numbers(series)) if column.numeric else self._positions(k, series)
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

    def expand(self, encoded: FloatArray) -> FloatArray:
        out = np.zeros((len(encoded), self.starts[-1]))
        for block, start in zip(self.blocks, self.starts, strict=False):
            block.write(encoded, out[:, start : start + block.size])
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
            moments = [_shapes.GUESS.spread * (m - np.outer(m.sum(1), m.sum(1)) if constant else m) for m in masses]
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

    def expand(self, encoded: FloatArray) -> FloatArray:
        out = np.zeros((len(encoded), self.domain.n_features))
        start = 0
        for k, (column, block) in enumerate(zip(self.shapes.columns, self.domain.blocks, strict=True)):
            part, start = out[:, start : start + block.size], start + block.size
            if block.size == 1:  # a number, or one of two categories: its middle is 0
                part[:, 0] = np.nan_to_num(encoded[:, k] - 0.5) if block.norm == "linf" else 1.0
            else:
                LevelShape(cast(CategoricalColumn, column), k).write(encoded, part)
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
