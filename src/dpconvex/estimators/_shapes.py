"""Features of additive models: a block of vertices for each column or pair, expected shapes, and maps to all blocks.

A record's features in a block are weights on its vertices, at least 0 and of sum 1: one level of a category, hats of
degree 1 (linear splines) at knots, a vertex for missing cells, or products of two such blocks. Each record is read by
itself. Blocks follow from public facts alone, never from cells or from column types, which readers infer from cells.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass, forwards
from dpconvex.algorithms.erm.two_stage.ranges import Cut
from dpconvex.data import CategoricalColumn, NumericColumn, Schema
from dpconvex.data.columns import MISSING, OTHER, AbstractColumn
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._features import FeatureMap, divisible, step_of
from dpconvex.problems import Block, DataDomain, Factor, LinearModelProblem, NumberRange
from dpconvex.problems.data.ranges import PARTS, SOUGHT, Places, Ranges, Step
from dpconvex.problems.linear.shapes import ExpectedShapes, Knots, Levels, Pair

PAIR_KNOTS, PAIR_LEVELS = 4, 8  #: Number of knots of a numeric column in a pair, and largest number of levels there
SHARES = {"pair": 0.25, "categories": 0.5}
"""Prior variance of pairs and of three levels or more, over that of a number (`benchmarks/additive_guess.py`)."""


@final_dataclass(eq=False)
class Shape:
    """What one column, or a pair, adds to the score of a record: a value at each vertex."""

    name: str
    kind: str  #: "numeric": values at knots, straight lines between them; "categories" or "pair": at levels
    vertices: tuple[float | str, ...]  #: Increasing knots in the column's own unit, or levels; last "(missing)", if any
    values: Floats  #: (size,), or (n_outputs, size) for more than two classes; they sum to 0 before `monotone`
    deviation: Floats  #: Standard deviation that noise gives each value, planned from public facts; shape of `values`
    #: With ``inference``: (2, size), 95 % intervals of each value's difference to the vertex with the largest released
    #: curvature, shifted by the value of that vertex
    interval: Floats | None = None
    log_from: float | None = None  #: Lines between knots are straight in ``log(1 + x / log_from)``; None: in x itself

    @property
    def reach(self) -> float:
        """How far the shape stands out from noise: largest less smallest value, less two noise deviations of each."""
        return float(np.max(np.ptp(self.values, axis=-1)) - 4 * np.mean(self.deviation))

    @property
    def ends(self) -> list[Any]:
        """Lower and upper end for each vertex; None where no interval was paid for."""
        return [(None, None)] * len(self.vertices) if self.interval is None else self.interval.T.tolist()


@final_dataclass(eq=False)
class ShapeColumn:
    """One block: its vertices, and the weights of each record on them."""

    name: str
    kind: str
    vertices: tuple[float | str, ...]  #: Knots in the column's own unit, and names of levels
    write: Callable[[Floats, Floats], None]  #: Writes the weights of raw cells (n, p) into zeros of shape (n, size)
    expected: Knots | Levels | Pair
    rule: dict[str, Any]  #: JSON-ready facts by which a record's weights are found without this library

    @property
    def size(self) -> int:
        """Number of vertices."""
        return len(self.vertices)

    def weights(self, raw: Floats) -> Floats:
        """Return the weights of records with these raw cells, (n, size)."""
        out = np.zeros((len(raw), self.size))
        self.write(raw, out)
        return out


def numeric_shape(column: NumericColumn, at: int, knots: tuple[float, ...], own: bool) -> ShapeColumn:
    """Return hats of degree 1 at knots, and a vertex for missing cells where public facts say so."""
    places = column.positions(knots)
    vertices = Knots(tuple(places), own)
    write = lambda raw, out: vertices.write(raw[:, at], out)  # noqa: E731
    rule = {"lower": column.lower, "upper": column.upper, "transform": column.transform, "knots": places}
    rule = {"kind": "numeric", "column": column.name, **rule, "missing": own, **_extras(column)}
    return ShapeColumn(column.name, "numeric", (*knots, *((MISSING,) if own else ())), write, vertices, rule)


def _extras(column: AbstractColumn) -> dict[str, Any]:
    """Return a column's declared rules for reading cells: spellings, dates, formula, and codes for no value."""
    given = column.to_dict()
    found = {key: given[key] for key in ("aliases", "formula", "date", "at", "format", "scale") if key in given}
    return found | ({"absent": given["missing"]} if "missing" in given else {})


def level_shape(column: CategoricalColumn, at: int) -> ShapeColumn:
    """Return the levels of a category."""
    vertices = (*column.categories, *((OTHER,) if column.other else ()))
    size = len(vertices)

    def write(raw: Floats, out: Floats) -> None:
        listed = np.flatnonzero(~np.isnan(raw[:, at]))
        out[listed, raw[listed, at].astype(np.intp)] = 1.0
        out[np.isnan(raw[:, at])] = 1 / size

    rule = {"kind": "categories", "column": column.name, "levels": list(column.categories), "other": column.other}
    rule |= _extras(column)
    return ShapeColumn(column.name, "categories", vertices, write, Levels(size), rule)


def pair_shape(first: ShapeColumn, second: ShapeColumn) -> ShapeColumn:
    """Return the block of products of two blocks' weights, for effects of two columns that neither has alone."""

    def write(raw: Floats, out: Floats) -> None:
        both = first.weights(raw), second.weights(raw)
        np.einsum("ij,ik->ijk", *both, out=out.reshape(len(raw), first.size, second.size))

    vertices = tuple(f"{a}, {b}" for a in first.vertices for b in second.vertices)
    rule = {"kind": "pair", "first": first.rule, "second": second.rule}
    both = Pair(cast(Any, first.expected), cast(Any, second.expected))
    return ShapeColumn(f"{first.name}:{second.name}", "pair", vertices, write, both, rule)


@final_dataclass
class ShapeMap(FeatureMap):
    """The map from tables or matrices to weights on the vertices of all blocks, by way of raw cells.

    `encode` returns raw cells (n, p): places of numbers in [0, 1], positions of levels, NaN where a cell is missing or
    not listed. They do not depend on knots, so the number of knots may be planned after they were read.
    """

    columns: tuple[Any, ...]
    table: bool  #: Whether cells come from a table with names or from a matrix
    own: bool  #: Whether missing numbers have a vertex in columns that do not declare it
    pairs: tuple[tuple[str, str], ...] = ()
    knots: Places = ()  #: Knots of each column, empty for categories
    unranged: tuple[int, ...] = ()  #: Columns whose ranges a fit finds; their cells are unscaled numbers
    linear: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()  #: Columns in whose declared ranges a fit finds knots
    n_knots: int = 2
    lookable: tuple[int, ...] = ()  #: Columns whose declared ranges a fit may narrow
    looked: bool = False  #: Whether the fit narrows them
    most: tuple[float, ...] = ()  #: Largest number of knots of each column: its number of values by step or range

    @classmethod
    def of(
        cls, columns: Sequence[Any], table: bool, own: bool, pairs: tuple[tuple[str, str], ...], free: bool = False
    ) -> "ShapeMap":
        """Return the map with two knots a column; `free`: a plan will choose the number of knots.

        If free, a column with range [0, 1] (mostly yes and no) keeps two knots, unless all numbers have that range.
        """
        places = [k for k, column in enumerate(columns) if not column.ranged]
        ranged = [c if c.ranged else c.within(NumberRange(-0.5, 0.5)) for c in columns]
        linear = [k for k in places if columns[k].transform == "none"]
        looks = tuple(k for k, column in enumerate(columns) if divisible(column) and not column.knots)
        two = [c.numeric and c.ranged and c.values == "binary" for c in columns]
        free = free and any(c.numeric and not either for c, either in zip(columns, two, strict=True))
        facts = zip(columns, two, strict=True)
        most = tuple(2 if either and free else c.levels if c.numeric and c.ranged else math.inf for c, either in facts)
        return cls(tuple(ranged), table, own, pairs, (), tuple(places), tuple(linear), lookable=looks, most=most).at(2)

    def at(self, count: int) -> "ShapeMap":
        """Return the map with `count` knots in columns that declare none, and `SOUGHT` where a fit finds knots."""
        knots = [c.even_knots(self._few(k, count)) if c.numeric else () for k, c in enumerate(self.columns)]
        placed = self.placed if count > 2 else ()
        for k in placed:  # plans assume evenly spaced knots
            knots[k] = tuple(self.columns[k].range.even(SOUGHT))
        return replace(self, knots=tuple(knots), placed=placed, n_knots=count)

    @property
    def ends(self) -> "ShapeMap":
        """The map with the ends of each range as its knots, whatever knots are declared: of straight lines."""
        return replace(self, columns=tuple(replace(c, knots=()) if c.numeric else c for c in self.columns)).at(2)

    def _few(self, k: int, count: int) -> int:
        return int(min(count, self.most[k]))

    @property
    def skewed(self) -> tuple[int, ...]:
        """Columns whose numbers probably crowd in a part of the range: those on a logarithmic scale, without knots."""
        numbers = [k for k, c in enumerate(self.columns) if c.numeric and k not in self.unranged and not c.knots]
        logs = [k for k in numbers if self.columns[k].transform in ("log1p", "signed_log")]
        grids = {k: self.columns[k].positions(self.columns[k].range.even(PARTS + 1)) for k in logs}
        return tuple(k for k, grid in grids.items() if self.most[k] > SOUGHT and min(np.diff(grid)) > 0)

    @property
    def divisible(self) -> tuple[tuple[str, NumberRange, Step], ...]:
        return tuple((each.name, each.range, step_of(each)) for each in map(self.columns.__getitem__, self.lookable))

    def found(self, ranges: Ranges, parts: Ranges = (), knots: Places = ()) -> "ShapeMap":
        columns, own = list(self.columns), list(self.knots)
        for k, part in zip(self.lookable, parts, strict=False):
            columns[k] = columns[k].within(part)
            own[k] = columns[k].even_knots(len(own[k]))
        if parts:
            lasting = replace(self, columns=tuple(columns), knots=tuple(own), lookable=(), looked=False)
            return lasting.found(ranges, (), knots)
        if not ((ranges or knots) and (self.unranged or self.placed)):
            return self
        for position, k in enumerate(self.unranged):
            columns[k] = replace(columns[k], **asdict(ranges[position]))
            own[k] = knots[position] if knots else tuple(ranges[position].even(self.n_knots))
        for k, places in zip(self.placed, knots[len(knots) - len(self.placed) :], strict=True):
            cells, ends = columns[k].range.even(PARTS + 1), [round(place * PARTS) for place in places]
            own[k] = tuple(float(cells[end]) for end in ends)
        return replace(self, columns=tuple(columns), knots=tuple(own), unranged=(), linear=(), placed=())

    def place(self, X: Floats, ranges: Ranges, knots: Places, cut: Cut) -> Floats:
        return self.found(ranges, self.parts(cut), knots).expand(self.cells(X, ranges, cut))

    def cells(self, X: Floats, ranges: Ranges, cut: Cut) -> Floats:
        """Return raw cells as places in the released ranges, found or narrowed."""
        after, out = replace(self, placed=()).found(ranges), X.copy()  # cells of `placed` columns are places already
        for k in self.unranged:
            out[:, k] = _places(after.columns[k], X[:, k])
        for k, (first, stop) in zip(self.lookable, cut, strict=False):
            out[:, k] = np.clip((X[:, k] * PARTS - first) / (stop - first), 0.0, 1.0)
        return out

    def with_knots(self, knots: Places) -> "ShapeMap":
        """Return the map with these knots, checked like declared knots."""
        if len(knots) != len(self.columns):
            raise InvalidParameterError("knots_", len(knots), f"must be those of {len(self.columns)} columns")
        for column, own in zip(self.columns, knots, strict=True):
            if column.numeric:
                replace(column, knots=own or (math.nan,))
            elif own:
                raise InvalidParameterError("knots_", own, "must be empty for categories")
        return replace(self, knots=knots)

    @cached_property
    def blocks(self) -> tuple[ShapeColumn, ...]:
        """All blocks of two vertices or more; pairs come last."""
        singles = [self._single(k, self.knots[k]) for k in range(len(self.columns))]
        names = [column.name for column in self.columns]
        pairs = [pair_shape(*(self._coarse(names.index(name)) for name in pair)) for pair in self.pairs]
        return tuple(block for block in (*singles, *pairs) if block.size > 1)

    def _single(self, k: int, knots: tuple[float, ...]) -> ShapeColumn:
        column = self.columns[k]
        if not column.numeric:
            return level_shape(column, k)
        return numeric_shape(column, k, knots, self.own if column.indicator is None else column.indicator)

    def _coarse(self, k: int) -> ShapeColumn:
        column, count = self.columns[k], self._few(k, PAIR_KNOTS)
        return self._single(k, replace(column, knots=()).even_knots(count) if column.numeric else ())

    @cached_property
    def slices(self) -> tuple[tuple[ShapeColumn, slice], ...]:
        """Each block with the slice of its vertices in the feature vector."""
        ends = np.cumsum([block.size for block in self.blocks]).tolist()
        return tuple((block, slice(end - block.size, end)) for block, end in zip(self.blocks, ends, strict=True))

    @cached_property
    def domain(self) -> DataDomain:
        return DataDomain(tuple(Block(block.size, "simplex", 1.0, block.name) for block in self.blocks))

    @property
    def n_columns(self) -> int:
        return len(self.columns)

    def encode(self, X: Any, missing: float = 0.0) -> Floats:
        with np.errstate(all="ignore"):
            if self.table:
                cells = Schema(self.columns).compact(X)
            else:
                DataDomain.l2_ball(len(self.columns), 1.0).check_columns(X)
                cells = X.astype(np.float64).T
            return np.column_stack([self._cell(k, values) for k, values in enumerate(cells)])

    def _cell(self, k: int, values: Array) -> Floats:
        if not self.columns[k].numeric:
            return np.where(values < 0, np.nan, values)
        return values if k in self.unranged else _places(self.columns[k], values)

    def expand(self, encoded: Floats) -> Floats:
        if self.unranged or self.placed or self.looked:  # `place` does it, once ranges and knots are found
            return encoded
        out = np.zeros((len(encoded), self.domain.n_features))
        for block, where in self.slices:
            block.write(encoded, out[:, where])
        return out

    @cached_property
    def _priors(self) -> dict[DataDomain, tuple[Factor, ExpectedShapes]]:
        return {}

    def refined(self, problem: LinearModelProblem) -> LinearModelProblem:
        domain = problem.domain
        if domain not in self._priors:  # the same objects for the same domain
            ones = [1.0] * bool(domain.intercept)
            shares = np.array([SHARES.get(b.kind, 1.0) if b.size > 2 else 1.0 for b in self.blocks] + ones)
            shapes = ExpectedShapes(tuple(block.expected for block in self.blocks), domain.intercept)
            kernels = dict(zip((block.name for block in self.blocks), shapes.kernels, strict=True))
            factor = Factor.of(domain, (shares / shares.sum()).tolist(), lambda block: kernels[block.name])
            self._priors[domain] = factor, shapes
        factor, shapes = self._priors[domain]
        return replace(problem, factor=factor, shapes=shapes, surplus=LinearModelProblem.surplus)  # shapes have theirs

    @cached_property
    def straight(self) -> "StraightLines":
        """The map from the same cells to the features of an ordinary linear model."""
        return StraightLines(self)


def _places(column: NumericColumn, values: Floats) -> Floats:
    first, last = column.range.ends
    return (column.range.transformed(values) - first) / (last - first)


@final_dataclass
@forwards("shapes", "unranged linear lookable divisible")
class StraightLines(FeatureMap):
    """The map from raw cells to features of a linear model, whose coefficients become shapes of two knots."""

    shapes: ShapeMap

    @cached_property
    def domain(self) -> DataDomain:
        return Schema(self.shapes.columns).domain()

    def found(self, ranges: Ranges, parts: Ranges = ()) -> "StraightLines":
        return self.shapes.found(ranges, parts).straight

    def place(self, X: Floats, ranges: Ranges, knots: Places, cut: Cut) -> Floats:
        return self.found(ranges, self.parts(cut)).expand(self.shapes.cells(X, ranges, cut))

    def encode(self, X: Any, missing: float = 0.0) -> Floats:
        return self.shapes.encode(X)

    def expand(self, encoded: Floats) -> Floats:
        if self.unranged or self.shapes.looked:
            return encoded
        parts = list[Floats]()
        for k, (column, block) in enumerate(zip(self.shapes.columns, self.domain.blocks, strict=True)):
            if column.numeric and column.indicator:
                missing = np.isnan(encoded[:, k])
                parts.append(np.column_stack([np.where(missing, 0.0, encoded[:, k] - 0.5), 0.5 * missing]))
            elif block.size > 1:
                parts.append(level_shape(column, k).weights(encoded))
            else:  # a number or one of two categories, whose middle is 0; or the only level
                parts.append(np.where(block.norm != "linf", 1.0, np.nan_to_num(encoded[:, [k]] - 0.5)))
        return np.hstack(parts)

    def decode(self, coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        parts, shift = [], np.array(intercept, dtype=np.float64)
        bounds = np.cumsum([block.size for block in self.domain.blocks])[:-1]
        blocks = {block.name: block for block in self.shapes.ends.blocks}
        for column, part in zip(self.shapes.columns, np.split(coef, bounds, axis=1), strict=True):
            if column.name not in blocks:  # one level: a constant
                shift = shift + part[:, 0]
            elif part.shape[1] == 1:
                parts.append(np.hstack([-part / 2, part / 2, np.zeros((len(part), blocks[column.name].size - 2))]))
            else:
                values = np.column_stack([-part[:, 0], part]) / 2 if column.numeric else part
                parts.append(values - values.mean(1, keepdims=True))
                shift = shift + values.mean(1)
        parts += [np.zeros((len(coef), block.size)) for block in blocks.values() if block.kind == "pair"]
        return np.hstack(parts), shift


def checked_pairs(pairs: Any, columns: Sequence[AbstractColumn]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns that interact, or raise `InvalidParameterError`."""
    named: dict[str, Any] = {column.name: column for column in columns}
    what = "must list pairs of two different columns, each pair once, as in [('age', 'hours')]"
    if not isinstance(pairs, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs):
        raise InvalidParameterError("interactions", pairs, what)
    found = tuple((str(a), str(b)) for a, b in pairs)
    once = len({frozenset(pair) for pair in found}) == len(found)
    if not once or any(a == b or not {a, b} <= set(named) for a, b in found):
        raise InvalidParameterError("interactions", pairs, what, f"Columns are {', '.join([*named][:20])}")
    for a, b in found:
        for column in (named[a], named[b]):
            if not column.numeric and not 2 <= len(column.categories) + column.other <= PAIR_LEVELS:
                what = f"has a column, {column.name!r}, that has not 2 to {PAIR_LEVELS} levels"
                raise InvalidParameterError("interactions", (a, b), what, "Group its levels")
        if f"{a}:{b}" in named:
            raise InvalidParameterError("interactions", (a, b), f"has the name of a column, '{a}:{b}'", "Rename it")
    return found


def shape_facts(plan: Any) -> list[dict[str, Any]]:
    """Return for each column of a plan its vertices, degrees of freedom and the mean planned deviation of its noise."""
    blocks, problem = plan.problem.domain.blocks, plan.problem
    sizes = [block.size for block in blocks]
    straight = problem.shapes is None  # plans of straight lines expect nothing of single directions
    freedom = [max(1, size - 1) for size in sizes] if straight else problem.typical.degrees_of_freedom(plan.l2)
    means = [float(part.mean()) for part in np.split(planned_deviations(plan), np.cumsum(sizes))[: len(blocks)]]
    return [
        {"column": block.name, "vertices": max(2, block.size), "degrees_of_freedom": float(f), "deviation": mean}
        for block, f, mean in zip(blocks, freedom, means, strict=False)
    ]


def expected_share(plan: Any) -> float:
    """Return the expected error as a share of the loss of parameters 0; 0 if either is unknown."""
    typical, expected = plan.problem.typical, plan.predicted_error.expected
    return 0.0 if typical is None or expected is None else expected / typical.at_zero


def planned_deviations(plan: Any) -> Floats:
    """Return the planned deviation of the noise in every value or coefficient."""
    problem, guess = plan.problem, plan.coefficient_deviation
    if problem.shapes is not None:
        own = plan.innermost
        return problem.typical.value_deviations(own.l2, own.deviations / problem.n, own.output.deviation)
    return np.full(problem.domain.dim * problem.loss.n_outputs, np.nan) if guess is None else guess
