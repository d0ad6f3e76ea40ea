"""The public domain of one record's features, and the clipping that makes any input a member of it.

Privacy rests on this file: every Lipschitz constant, sensitivity and curvature bound of the library is computed
from a `DataDomain`, and `DataDomain.clip` puts every record into it, whatever the record holds. Clipping works on
one record at a time, so replacing one record changes one clipped record.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse, vstack

from dpconvex import _validate
from dpconvex._types import Array, BoolArray, Floats, IntArray, set_fields
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems.data import _loops

BlockNorm = Literal["l1", "l2", "linf", "simplex"]
BlockValues = Literal["any", "centered", "binary", "sparse"]
_CHUNK = 2**17  # number of floats that clipping works on at a time, so that they stay in cache


@dataclass(frozen=True)
class Block:
    """A group of consecutive feature columns, bounded together."""

    size: int  #: number of columns, at least 1
    #: The norm in which the block of every record is bounded; ``"simplex"``: its entries are at least 0 and sum to 1.
    #: One-hot columns of which exactly one is 1 are a simplex block of at least two columns; if all may be 0, an
    #: ``"l1"`` block of bound 1.
    norm: BlockNorm
    bound: float  #: the bound, positive, in the unit of the (encoded) features; 1 for a simplex
    name: str = ""  #: name of the block in reports
    #: Guess that plans make about columns bounded one by one: numbers, numbers of mean 0, two values at the bounds; of
    #: an ``"l2"`` block, "sparse": few entries of a row are not 0, as of words in a text.
    values: BlockValues = "any"
    #: Of an ``"l1"`` block: bound of each entry, at most `bound`, as well as of their sum. None: `bound`.
    largest: float | None = None

    def __post_init__(self) -> None:
        size, bound = _validate.integer("size", self.size, at_least=1), _validate.real("bound", self.bound, above=0.0)
        set_fields(self, size=size, bound=bound)  # a short float would round what noise is computed from
        _validate.choice("norm", self.norm, ("l1", "l2", "linf", "simplex"))
        _validate.choice("values", self.values, get_args(BlockValues))
        if self.norm == "simplex" and (self.bound != 1 or self.size < 2):
            raise InvalidParameterError("bound", self.bound, "must be 1 for a simplex, of at least two columns")
        if self.largest is not None:
            set_fields(self, largest=_validate.real("largest", self.largest, above=0.0, at_most=self.bound))
            if self.norm != "l1":
                raise InvalidParameterError("largest", self.largest, "is for l1 blocks", "Leave it out")

    def describe(self) -> dict[str, Any]:
        """Return JSON-ready facts; the guess `values` is left out if it is "any"."""
        guess = {} if self.values == "any" else {"values": self.values}
        guess |= {} if self.largest is None else {"largest": self.largest}
        return {"name": self.name, "size": int(self.size), "norm": self.norm, "bound": float(self.bound), **guess}

    @property
    def categorical(self) -> bool:
        """Whether its columns encode one category: they form a simplex, or at most one of them is 1."""
        alone = self.size == 1 or (self.bound == 1 and self.largest is None)
        return self.norm == "simplex" or (self.norm == "l1" and alone)

    @property
    def l1(self) -> float:
        """Largest l1 norm of the block over the domain."""
        return self.rounded * {"l2": math.sqrt(self.size), "linf": float(self.size)}.get(self.norm, 1.0)

    @property
    def l2(self) -> float:
        """Largest l2 norm of the block over the domain, with the excess that rounding may leave after clipping."""
        if self.largest is not None:  # no square is longer than the entry times the largest one
            return math.sqrt(self.bound) * math.sqrt(self.largest) * (1 + 1e-15 * (4 + self.size))
        return self.rounded * (math.sqrt(self.size) if self.norm == "linf" else 1.0)

    @property
    def rounded(self) -> float:
        """The bound, plus what rounding may add to a length, or to weights divided by their sum."""
        return self.bound * (1 + 1e-15 * (4 + self.size)) if self.size > 1 and self.norm != "linf" else self.bound

    @property
    def linf(self) -> float:
        """Largest absolute entry of the block over the domain."""
        return self.bound if self.largest is None else self.largest


@dataclass(frozen=True)
class DataDomain:
    """All feature vectors that a record may have: a product of bounded blocks.

    Examples
    --------
    >>> domain = DataDomain.l2_ball(3, 1.0).with_intercept()
    >>> domain.dim, round(domain.l2, 6)
    (4, 1.414214)
    """

    blocks: tuple[Block, ...]  #: in column order; together they cover all columns
    #: Value of the constant feature that is appended *inside* the bounds (0: no intercept). The constant column comes
    #: last in every parameter vector, is never stored in the data matrix, and is regularized like the rest.
    intercept: float = 0.0

    def __post_init__(self) -> None:
        if not self.blocks:
            raise InvalidParameterError("blocks", self.blocks, "must hold at least one block")
        set_fields(self, intercept=_validate.real("intercept", self.intercept, at_least=0.0))

    @classmethod
    def l2_ball(cls, dim: int, bound: float) -> "DataDomain":
        """Features of l2 norm at most `bound`, a public number, in `dim` columns; longer rows are shortened to it."""
        return cls((Block(dim, "l2", bound, "features"),))

    @classmethod
    def l1_ball(cls, dim: int, bound: float, largest: float | None = None) -> "DataDomain":
        """Features of l1 norm at most `bound`, each at most `largest` away from 0 (None: `bound`)."""
        return cls((Block(dim, "l1", bound, "features", largest=largest),))

    @classmethod
    def box(cls, dim: int, bound: float) -> "DataDomain":
        """Features of absolute value at most `bound`, a public number, in each of `dim` columns; others are clipped."""
        return cls((Block(dim, "linf", bound, "features"),))

    def with_intercept(self, value: float = 1.0) -> "DataDomain":
        """Return the same domain with a constant feature `value` appended."""
        return DataDomain(self.blocks, value)

    @cached_property
    def n_features(self) -> int:
        """Number of columns of the data matrix, without the constant feature."""
        _ = self._looks  # so plans keep it, and runs, whatever records hold and however they are read
        return sum(size * count for _, _, size, _, count in self._runs)

    @property
    def dim(self) -> int:
        """Length of a parameter vector for one output, the intercept included."""
        return self.n_features + (self.intercept > 0)

    @cached_property
    def all_blocks(self) -> tuple[Block, ...]:
        """The blocks, with the constant feature as a last one-column block where there is one."""
        if self.intercept == 0:
            return self.blocks
        return (*self.blocks, Block(1, "l1", self.intercept, "intercept"))

    def columns_in(self, norm: BlockNorm) -> IntArray:
        """Return the positions of the columns whose blocks are bounded in that norm."""
        norms = np.repeat([block.norm for block in self.blocks], [block.size for block in self.blocks])
        return np.flatnonzero(norms == norm)

    @property
    def l1(self) -> float:
        """Largest l1 norm of a feature vector, the constant included."""
        return math.fsum(block.l1 for block in self.all_blocks) * (1 + 1e-15)

    @cached_property
    def l2(self) -> float:
        """Largest l2 norm of a feature vector, the constant included."""
        return math.sqrt(math.fsum(block.l2**2 for block in self.all_blocks)) * (1 + 1e-15)

    @property  # kept, it would tell whether a solver asked, which depends on records
    def linf(self) -> float:
        """Largest absolute feature, the constant included."""
        return max(block.linf for block in self.all_blocks)

    def clip(self, X: Any) -> Floats:
        """Return a copy of `X`, row by row moved into the domain.

        `X` has shape (n, n_features) and any real or integer dtype; the copy is float64. NaN becomes 0; an infinity
        counts as the largest float. Entries of ``linf`` blocks are clipped to the bound; an ``l1`` or ``l2`` block that
        is too long is scaled down to its bound (its direction is kept), after its entries are clipped to `largest` if
        it has that; entries of a ``simplex`` block below 0 become 0, and it is divided by its sum, or made the
        barycenter where that is 0.
        """
        self.check_columns(X)
        with np.errstate(over="ignore"):  # long doubles beyond float64 become infinities
            out = np.array(X.toarray() if issparse(X) else X, dtype=np.float64, order="C")
        self.clip_in_place(out)
        return out

    def clipped(self, X: Array) -> Floats:
        """Return rows that `holds` finds in the domain as they are, others as `clip` makes them."""
        return X if self.holds(X) else self.clip(X)

    def clip_in_place(self, X: Floats) -> None:
        """Do `clip` on a writable float64 array; buffers stay near 1 MB."""
        step = max(1, _CHUNK // self.n_features)
        for first in range(0, len(X), step):
            chunk, start = X[first : first + step], 0
            for norm, bound, size, largest, count in self._runs:
                part, start = chunk[:, start : start + size * count], start + size * count
                if norm == "simplex" and _loops.inside(part, *_vertices(size, count)):
                    continue  # encoded categories, mostly
                np.nan_to_num(part, copy=False, nan=0.0)
                if largest is not None:  # lengths are sums of many entries, whose rounding counts, too
                    np.clip(part, -largest, largest, out=part)
                    bound = shortened_length(bound, size)
                if size == 1:
                    np.clip(part, -bound, bound, out=part)
                elif norm == "simplex":
                    _to_simplex(part.reshape(len(chunk), count, size))
                else:
                    _shorten(part.reshape(len(chunk), count, size), norm, bound)

    def check_columns(self, X: Array) -> None:
        """Raise `InvalidDataError` unless `X` is a numeric matrix with `n_features` columns (public facts)."""
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise InvalidDataError(f"X has shape {_validate.shape_of(X)}; the domain needs (n, {self.n_features})")
        if X.dtype.kind not in "fiub":
            raise InvalidDataError(f"X has dtype {_validate.dtype_of(X)}; must be numeric. Encode text with a Schema")

    def holds(self, X: Any) -> bool:
        """Return whether a quick test shows rows to be in the domain; it knows intervals and vertices of simplices."""
        if type(X) not in (np.ndarray, np.memmap) or X.dtype != np.float64 or self._looks is None:
            return False  # also of sparse and masked matrices
        return bool(_loops.inside(X, *self._looks))

    def clip_sparse(self, X: Any) -> Any:
        """Do `clip` on a sparse matrix (CSR), which stays sparse but for rows without a single level of a category."""
        with np.errstate(over="ignore"):  # a copy, whose format is looked at anew
            X = csr_array((X.data.astype(np.float64), X.indices.copy(), X.indptr.copy()), X.shape)
        X.sum_duplicates()
        (ends, others, rest), row = self._apart, np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        block = np.searchsorted(ends[:, 0], X.indices, side="right") - 1
        of_category = (block >= 0) & (X.indices < np.append(ends[:, 1], 0)[block])
        place = (row * len(ends) + block)[of_category]
        ones = np.bincount(place, minlength=X.shape[0] * len(ends)).reshape(X.shape[0], len(ends))
        fine = (np.bincount(row, of_category & (X.data != 1), X.shape[0]) == 0) & (ones == 1).all(1)
        dense = self.clip(X[np.flatnonzero(~fine)])
        if rest is not None:
            values = X[:, others].toarray()
            inside = rest.clipped(values)
            X = X if np.array_equal(values, inside) else replaced(X, others, inside)
        if len(dense) == 0:
            return X
        order = np.argsort(~fine, kind="stable")
        return vstack([X[np.flatnonzero(fine)], csr_array(dense)], format="csr")[np.argsort(order)]

    @property  # kept, it would tell how records were read, and its domain which had to be clipped
    def _apart(self) -> tuple[Array, Array, "DataDomain | None"]:
        """First and last columns of simplices (k, 2), positions of the other columns, and the domain of these."""
        rest = tuple(block for block in self.blocks if block.norm != "simplex")
        ends = pairwise(np.cumsum([0, *(block.size for block in self.blocks)]).tolist())
        simplices = [pair for pair, block in zip(ends, self.blocks, strict=True) if block.norm == "simplex"]
        others = np.setdiff1d(np.arange(self.n_features), self.columns_in("simplex"))
        return np.array(simplices), others, DataDomain(rest) if rest else None

    @cached_property
    def _looks(self) -> tuple[Floats, Array] | None:
        """Limits of all columns and ends of simplices, for `holds`; None if there are other kinds of blocks."""
        known = {block.norm for block in self.blocks if block.size > 1} <= {"linf", "simplex"}
        if not known or any(block.largest is not None for block in self.blocks):  # `clip` allows for rounding there
            return None
        ends = np.cumsum([0, *(block.size for block in self.blocks)])
        wide = [block.norm == "simplex" and block.size > 1 for block in self.blocks]
        limits = np.repeat([block.linf for block in self.blocks], np.diff(ends))
        return limits, np.stack([ends[:-1][wide], ends[1:][wide]], axis=1)

    @cached_property
    def _runs(self) -> tuple[tuple[BlockNorm, float, int, float | None, int], ...]:
        """Equal adjacent blocks merged: (norm, bound, block size, largest entry, number of blocks)."""
        runs: list[tuple[BlockNorm, float, int, float | None, int]] = []
        for block in self.blocks:
            # A block of one column is an interval in every norm.
            size, count = (1, block.size) if block.norm == "linf" else (block.size, 1)
            if runs and runs[-1][:4] == (block.norm, block.bound, size, block.largest):
                count += runs.pop()[4]
            runs.append((block.norm, block.bound, size, block.largest, count))
        return tuple(runs)


def replaced(X: Any, columns: Array, values: Floats) -> Any:
    """Return a copy of an array or sparse matrix (CSR) with other values (m, k) in k columns."""
    if not issparse(X):
        out = np.array(X, dtype=np.float64)
        out[:, columns] = values
        return out
    row, stays = np.arange(X.shape[0]), ~np.isin(X.indices, columns)
    at = np.append(np.repeat(row, np.diff(X.indptr))[stays], np.repeat(row, len(columns)))
    to, data = np.append(X.indices[stays], np.tile(columns, len(row))), np.append(X.data[stays], values)
    found = coo_array((data, (at, to)), X.shape).tocsr()
    found.eliminate_zeros()
    return found


@cache
def _vertices(size: int, count: int) -> tuple[Floats, Array]:
    """Return the limits of columns and ends of simplices (`_loops.inside`) of `count` simplices of `size` columns."""
    return np.ones(size * count), np.arange(count)[:, None] * size + np.array([0, size])


def likely_values(lower: float, upper: float) -> BlockValues:
    """Guess the values in a range: differences or scores if it is symmetric about 0, yes or no if it is [0, 1]."""
    return "centered" if lower == -upper else "binary" if (lower, upper) == (0, 1) else "any"


def is_centered(domain: DataDomain, block: Block) -> bool:
    """Return whether noise leaves out vectors constant over the block: it is a simplex beside a constant feature."""
    return block.norm == "simplex" and domain.intercept > 0


def center(columns: Sequence[tuple[Array, tuple[float, float], int]], out: Floats, missing: float = 0.0) -> None:
    """Write columns, clipped into intervals and mapped to [-1/2, 1/2], to their places in `out`; NaN as `missing`."""
    floats = [np.require(values, np.float64, ["C", "A"]) for values, *_ in columns]  # alive until the loop has ended
    assert all(values.shape == out.shape[:1] for values in floats)  # the loop reads memory
    addresses = np.array([values.ctypes.data for values in floats], dtype=np.int64)
    intervals = np.array([interval for _, interval, _ in columns], dtype=np.float64).reshape(-1, 2)
    _loops.center(addresses, intervals, np.array([place for *_, place in columns], dtype=np.int64), out, missing)


def _to_simplex(rows: Floats) -> None:
    """Turn each finite vector along the last axis into a point of the simplex, in place; vertices keep their bits."""
    np.maximum(rows, 0.0, out=rows)
    # Entries that sum to 1 are below 2; a division leaves sums by less than half of what `Block.rounded` allows off 1.
    wrong = np.abs(np.einsum("ijk->ij", np.minimum(rows, 2.0)) - 1) > 0.5e-15 * (4 + rows.shape[-1])
    few = rows[wrong]
    few /= np.maximum(few.max(-1, keepdims=True), 1e-300)  # sums of huge or tiny floats must not overflow or vanish
    few[~(few.max(-1) > 0)] = 1.0
    rows[wrong] = few / few.sum(-1, keepdims=True)


def _shorten(rows: Floats, norm: BlockNorm, bound: float) -> None:
    """Scale each finite vector along the last axis down to length `bound`, in place, as a function of it alone."""
    with np.errstate(over="ignore"):
        length = np.einsum("ijk->ij", np.abs(rows)) if norm == "l1" else np.sqrt(np.einsum("ijk,ijk->ij", rows, rows))
    long = ~(length <= bound) if bound > 1e-100 else np.ones(length.shape, dtype=bool)  # tiny squares vanish
    if 2 * np.count_nonzero(long) > long.size:
        shorten(rows, norm, bound, among=long[..., None])
    elif long.any():
        few = rows[long]
        shorten(few, norm, bound)
        rows[long] = few


def shorten(rows: Floats, norm: BlockNorm, bound: float, among: BoolArray | Literal[True] = True) -> None:
    """Scale the vectors along the last axis of `rows` that are too long down to `bound`, in place, whatever their size.

    Division by the largest entry comes first: squares and sums of huge or tiny floats must not overflow or vanish.
    `rows` (..., size) are finite, `norm` is l1 or l2, and `among` (..., 1) says which vectors may be touched.
    """
    scale = np.maximum(np.abs(rows).max(-1, keepdims=True), bound)
    unit = rows / scale
    length = np.abs(unit).sum(-1, keepdims=True) if norm == "l1" else np.sqrt(np.square(unit).sum(-1, keepdims=True))
    too_long = (length > bound / scale) & among
    np.copyto(rows, unit * (shortened_length(bound, rows.shape[-1]) / np.where(too_long, length, 1.0)), where=too_long)


def shortened_length(bound: float, size: int) -> float:
    """Return the length to which too long vectors of `size` entries are scaled: `bound` less possible rounding."""
    return bound * (1 - 1e-15 * (4 + size))
