"""Where an estimator's domain comes from: a schema, bounds or a norm. Always declared, never read off the data."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from numbers import Real
from os import PathLike
from typing import Any, final

import numpy as np
import scipy.sparse

from dpconvex import _validate
from dpconvex._types import Array, Floats, forwarded
from dpconvex.algorithms.erm.two_stage.ranges import Cut, Place
from dpconvex.data import Schema
from dpconvex.data.frames import open_table
from dpconvex.data.targets import PRIVATE
from dpconvex.errors import InvalidParameterError
from dpconvex.problems import Block, DataDomain, LinearModelProblem, NumberRange
from dpconvex.problems.data import _loops
from dpconvex.problems.data.domain import likely_values
from dpconvex.problems.data.ranges import PARTS, Ranges, Step, kept

PREDICTED = 2**16  #: Number of rows of a table that are encoded at a time for predictions.


class FeatureMap(ABC):
    """Public map from a user's features to a domain, one record at a time."""

    domain: DataDomain
    cells_of: Schema | None = None
    """The schema whose encoded features are used without further change, if any; they need not be made all at once."""
    unranged: tuple[int, ...] = ()
    """Positions of the columns whose ranges a fit finds; their numbers are encoded unscaled."""
    linear: tuple[int, ...] = ()  #: Positions of the `unranged` columns that are never put on a logarithmic scale.
    placed: tuple[int, ...] = ()
    """Positions of the columns in whose declared range a fit finds knots; they are encoded as places in the range."""
    n_knots: int = 2  #: How many knots a fit finds for each `unranged` or `placed` column; 2 are the ends of its range.
    place: Place | None = None
    """How encoded records change once ranges and knots are released; None if numbers are only scaled."""
    lookable: tuple[int, ...] = ()
    """Positions of the columns whose declared ranges a fit may narrow to a part, after a private look at them."""
    divisible: tuple[tuple[str, NumberRange, Step], ...] = ()
    """Names, declared ranges and steps of the `lookable` columns."""
    n_columns: Any = forwarded("domain", "n_features")  #: How many columns a user's features have.

    def found(self, ranges: Ranges, parts: Ranges = ()) -> "FeatureMap":
        """Return the map with released ranges, and with parts of the `lookable` ranges; without either, itself."""
        return self

    @final
    def parts(self, cut: Cut) -> Ranges:
        """Return the parts of the declared ranges that a released choice of cells keeps."""
        return tuple(kept(declared, *cells) for (_, declared, _), cells in zip(self.divisible, cut, strict=False))

    @abstractmethod
    def encode(self, X: Any, missing: float = 0.0) -> Array:
        """Return the matrix (n, n_features) whose rows are clipped into `domain` by the algorithm.

        `missing` replaces a missing number: 0, the middle of a range, or NaN where a look must tell the two apart.
        """

    def expand(self, encoded: Array) -> Array:
        """Return the matrix that a method runs on from the result of `encode`; by default the result itself."""
        return encoded

    def refined(self, problem: LinearModelProblem) -> LinearModelProblem:
        """Return the problem with further facts that follow from these features; by default unchanged."""
        return problem

    def decode(self, coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        """Return coefficients (k, n_features) and intercepts (k,) in the user's units; by default they are the same."""
        return coef, intercept


@dataclass(frozen=True)
class Declared(FeatureMap):
    """Features that are only clipped into a declared domain."""

    domain: DataDomain

    def encode(self, X: Any, missing: float = 0.0) -> Array:
        self.domain.check_columns(X)
        return X


@dataclass(frozen=True)
class Scaled(FeatureMap):
    """Numeric columns with public bounds, mapped to [-1/2, 1/2]; NaN becomes the middle of the bounds, 0."""

    lower: Floats
    upper: Floats
    open: bool = False  #: Whether a fit finds the bounds, on a linear scale; until then columns stay unscaled

    @property
    def domain(self) -> DataDomain:
        ends = zip(self.lower.tolist(), self.upper.tolist(), strict=True)
        likely: Any = ("any" if self.open else likely_values(*each) for each in ends)  # as schemas do for a column
        return DataDomain(tuple(Block(len([*run]), "linf", 0.5, "features", values) for values, run in groupby(likely)))

    def encode(self, X: Any, missing: float = 0.0) -> Floats:
        self.domain.check_columns(X)
        with np.errstate(all="ignore"):
            out = np.array(X, dtype=np.float64)
            return out if self.open else self._encoded(out, missing)

    @property
    def unranged(self) -> tuple[int, ...]:
        return tuple(range(len(self.lower))) if self.open else ()

    linear = unranged  # pyright: ignore[reportAssignmentType]

    @property
    def lookable(self) -> tuple[int, ...]:
        each = enumerate(zip(self.lower.tolist(), self.upper.tolist(), strict=True))
        return () if self.open else tuple(k for k, ends in each if worth_a_look(*ends))

    @property
    def divisible(self) -> tuple[tuple[str, NumberRange, Step], ...]:
        ends = (NumberRange(float(self.lower[k]), float(self.upper[k])) for k in self.lookable)
        return tuple(("", each, (0.0, 0.0)) for each in ends)

    def found(self, ranges: Ranges, parts: Ranges = ()) -> FeatureMap:
        given = ranges[: len(self.lower)] if self.open else parts
        if not given:
            return self
        lower, upper, where = self.lower.copy(), self.upper.copy(), [*(self.unranged or self.lookable)]
        lower[where], upper[where] = np.array([(each.lower, each.upper) for each in given]).T
        return Scaled(lower, upper)

    def _encoded(self, out: Floats, missing: float) -> Floats:
        np.nan_to_num(out, copy=False, nan=np.nan, posinf=np.finfo(np.float64).max, neginf=np.finfo(np.float64).min)
        np.clip(out, self.lower, self.upper, out=out)
        out -= self.lower / 2 + self.upper / 2
        out /= self.upper - self.lower
        np.nan_to_num(out, copy=False, nan=missing)
        return out

    def decode(self, coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        scaled = coef / (self.upper - self.lower)
        return scaled, intercept - scaled @ (self.lower / 2 + self.upper / 2)


@dataclass(frozen=True)
class FromSchema(FeatureMap):
    """Tables encoded by a schema, one block a column; coefficients remain in units of encoded columns."""

    schema: Schema
    cells_of = forwarded("schema")

    @property
    def domain(self) -> DataDomain:
        return DataDomain(tuple(column.block for column in self.schema.columns))

    @property
    def n_columns(self) -> int:
        return len(self.schema.columns)

    @property
    def unranged(self) -> tuple[int, ...]:
        return self._where(lambda column: not column.ranged)

    @property
    def linear(self) -> tuple[int, ...]:
        return self._where(lambda column: not column.ranged and column.transform == "none")

    @property
    def lookable(self) -> tuple[int, ...]:
        return self._where(divisible)

    @property
    def divisible(self) -> tuple[tuple[str, NumberRange, Step], ...]:
        every: Any = self.schema.columns
        return tuple((each.name, each.range, step_of(each)) for each in filter(divisible, every))

    def _where(self, chosen: Callable[[Any], bool]) -> tuple[int, ...]:
        starts = np.cumsum([0, *(column.block.size for column in self.schema.columns)]).tolist()
        return tuple(k for k, column in zip(starts, self.schema.columns, strict=False) if chosen(column))

    def found(self, ranges: Ranges, parts: Ranges = ()) -> FeatureMap:
        names = (name for name, *_ in self.divisible)
        return FromSchema(self.schema.with_ranges(ranges).with_ranges(dict(zip(names, parts, strict=False))))

    def encode(self, X: Any, missing: float = 0.0) -> Floats:
        return self.schema.encode_cells(self.schema.compact(X), missing)


def wide(lower: float, upper: float) -> bool:
    """Return whether a range can be divided into 32 parts in floating point."""
    return upper - lower > max(1e-9 * max(-lower, upper), 1 / _validate.LARGEST)


def worth_a_look(lower: float, upper: float) -> bool:
    """Return whether a column's declared range is worth a look; [0, 1] is not, since it mostly means yes and no."""
    return wide(lower, upper) and likely_values(lower, upper) != "binary"


def divisible(column: Any) -> bool:
    """Return whether a column of a schema has a declared range that is worth a look."""
    there = column.numeric and column.ranged and column.transform == "none"
    return there and column.levels > 2 and worth_a_look(column.lower, column.upper)


def step_of(part: Any) -> Step:
    """Return where in its range the first multiple of a column's or target's step lies, and the step, in cells."""
    step = getattr(part, "step", 0.0)
    if not step or not part.ranged or getattr(part, "date", ""):
        return 0.0, 0.0
    cell = (part.upper - part.lower) / PARTS
    return (math.ceil(part.lower / step - 1e-9) * step - part.lower) / cell, step / cell


def pieces(schema: Schema | None, X: Any) -> list[Any]:
    """Return a long table that a schema encodes in pieces of `PREDICTED` rows; anything else as a single piece."""
    frame = None if schema is None else open_table(X)
    if frame is None or len(frame) <= PREDICTED:
        return [X]
    return [frame[i : i + PREDICTED].to_native() for i in range(0, len(frame), PREDICTED)]


def require_one(given: Mapping[str, Any], usual: str, remedy: str) -> None:
    """Raise `InvalidParameterError` unless exactly one is given; the error names `usual` if none is."""
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        what = f"exactly one of {', '.join(given)} must be given, and {len(named)} are"
        first = named[0] if named else usual
        raise InvalidParameterError(first, given[first], what, remedy)


def read_schema(schema: Any) -> Any:
    """Return the schema that a file, or a dictionary with a file's contents, describes; anything else unchanged."""
    if isinstance(schema, str | PathLike):
        return Schema.from_toml(schema)
    return Schema.from_dict(schema) if isinstance(schema, Mapping) else schema


def checked_schema(schema: Any) -> Schema:
    """Return a schema, of whatever form, or raise `InvalidParameterError`."""
    found = read_schema(schema)
    if not isinstance(found, Schema):
        remedy = "Use Schema.from_toml(path); `dpconvex schema draft` makes a first draft"
        raise InvalidParameterError("schema", schema, "must be a dpconvex.Schema", remedy)
    return found


def feature_map(
    *, schema: Any, domain: Any, feature_bounds: Any, feature_norm: Any, n_features: int | None, finds: bool = False
) -> FeatureMap:
    """Return the map that exactly one of four arguments describes; `finds`: the caller finds open ranges."""
    given = {"schema": schema, "domain": domain, "feature_bounds": feature_bounds, "feature_norm": feature_norm}
    remedy = "Bounds must be public knowledge: data are clipped into them, and the noise is sized by them. "
    require_one(given, "feature_norm", remedy + "feature_norm=1.0 declares rows of Euclidean length at most 1")
    if schema is not None:
        declared = checked_schema(schema)
        if not finds:
            declared.domain()  # refuses ranges that are left open
        return FromSchema(declared)
    if domain is not None:
        if not isinstance(domain, DataDomain):
            raise InvalidParameterError("domain", domain, "must be a DataDomain", "Use DataDomain.l2_ball(d, 1)")
        return Declared(domain)
    if n_features is None and isinstance(feature_bounds, tuple) and len(feature_bounds) == 2:
        n_features = len(feature_bounds[0]) if isinstance(feature_bounds[0], np.ndarray | list) else None
    if n_features is None:
        remedy = "Say how many columns there are, as in plan(n=1000, n_features=20)"
        raise InvalidParameterError("n_features", None, "must be given to plan without data", remedy)
    _validate.integer("n_features", n_features, at_least=1)
    if feature_norm is not None:
        remedy = "Rows longer than this are shortened"
        bound = _validate.real("feature_norm", feature_norm, at_least=1e-90, at_most=1e90, remedy=remedy)
        return Declared(DataDomain.l2_ball(n_features, bound))
    if isinstance(feature_bounds, str) and finds:
        _validate.choice("feature_bounds", feature_bounds, (PRIVATE,), "Or give (lower, upper)")
        return Scaled(np.full(n_features, -0.5), np.full(n_features, 0.5), open=True)
    return Scaled(*bounds_of(feature_bounds, n_features))


def _below(lower: tuple[Any, ...], upper: tuple[Any, ...]) -> bool:
    numbers = all(isinstance(each, Real) for each in (*lower, *upper))
    return numbers and all(low < high for low, high in zip(lower, upper, strict=True))


def bounds_of(feature_bounds: Any, n_features: int) -> tuple[Floats, Floats]:
    """Return public bounds on every column, two arrays (n_features,), or raise `InvalidParameterError`."""
    requirement = "must be (lower, upper): numbers or arrays of length n_features, finite, lower < upper (by 1e-300)"
    if isinstance(feature_bounds, np.ndarray) and feature_bounds.shape == (n_features, 2):
        feature_bounds = [(low, high) for low, high in feature_bounds.tolist()]  # as the list of the same pairs
    if isinstance(feature_bounds, list) and all(isinstance(p, tuple) and len(p) == 2 for p in feature_bounds):
        fits, two = len(feature_bounds) == n_features, n_features == 2
        lower, upper = zip(*feature_bounds, strict=True) if feature_bounds else ((), ())
        columns = not (fits and two and _below(*feature_bounds))  # else they may be lower and upper bounds
        if not fits or (two and not columns and _below(lower, upper)):
            what = f"as a list of pairs must hold one (lower, upper) for each of {n_features} columns"
            what += " (two pairs may also be lower and upper bounds)" * two
            raise InvalidParameterError("feature_bounds", feature_bounds, what, "Give ([lower, ...], [upper, ...])")
        feature_bounds = (lower, upper) if columns else feature_bounds
    try:
        lower, upper = (np.broadcast_to(np.asarray(b, dtype=np.float64), (n_features,)) for b in feature_bounds)
    except (TypeError, ValueError):
        raise InvalidParameterError("feature_bounds", feature_bounds, requirement) from None
    with np.errstate(over="ignore", invalid="ignore"):
        fine = np.all(np.isfinite(lower) & np.isfinite(upper) & np.isfinite(upper - lower) & (upper - lower >= 1e-300))
    if not fine:
        raise InvalidParameterError("feature_bounds", feature_bounds, requirement)
    return lower, upper


def scores_of_rows(model: Any, X: Any) -> Floats:
    """Return the linear predictions (n, outputs) of a fitted model, each a function of its row alone, to the last bit.

    A matrix product is not: the last bits of a row depend on how many there are, so that one user's rows could move the
    scores of others across a threshold.
    """
    encoded = model._encoded(X, reset=False)[1]
    expanded, weights = model._fitted_map(), np.ascontiguousarray(model.encoded_coef_)
    out = np.empty((encoded.shape[0], len(weights)))
    for first in range(0, len(out), PREDICTED):
        rows: Any = encoded[first : first + PREDICTED]
        rows = expanded.expand(rows.toarray() if scipy.sparse.issparse(rows) else rows)
        inside = np.require(expanded.domain.clip(rows), np.float64, ["C"])
        _loops.predictions(inside, weights, out[first : first + PREDICTED])
    return out + model.encoded_intercept_
