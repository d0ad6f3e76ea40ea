"""The clipped features of all records as a linear operator.

Features are held as row blocks of about 1 MB, each a view of the caller's array wherever that is possible:

- a single ``l1`` or ``l2`` block (a norm ball): the caller's rows and one shrinking factor a row;
- any other domain: the caller's rows where they already lie in the domain, else a clipped copy of that row block;
- sparse rows (CSR), which stay so while few entries are not 0: a copy of that row block; sums have the same bits.

Nothing here raises or warns because of what the data hold.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, final

import numpy as np
import scipy.sparse

from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data import _loops, summation
from dpconvex.problems.data.domain import DataDomain, shortened_length

_BLOCK = 2**17  # floats of a row block: a second pass over it finds it in the cache
_LEAST_ROWS, _LONGEST = 1024, 2**22  # least rows of a block for second moments; most floats of a block
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # constants of the hash splitmix64


@final_dataclass
class RowBlock:
    """Some consecutive clipped records, in float64."""

    rows: slice
    features: Any  #: (m, n_features), an array or a sparse matrix (CSR)
    factor: Floats | None  #: (m,), the number by which each row of the features is multiplied; None for 1
    intercept: float  #: value of the constant last feature; 0: there is none
    extra: Floats | None = None  #: (m,), a further feature between `features` and the intercept
    copies: int = 0  #: number of columns that hold `extra`
    targets: Array | None = None  #: (m,), inside the loss's targets, where they come with the records
    weights: Array | None = None  #: (m,), where they come with the records

    @property
    def dim(self) -> int:
        """Length of a record, the constant feature included."""
        return self.features.shape[1] + self.copies + (self.intercept > 0)

    def predict(self, W: Floats) -> Floats:
        """Return ``X W^T``, (m,) or (m, k), for W (dim,) or (k, dim); to the last bit, a row depends on its record."""
        (m, p), X = self.features.shape, self.features
        z, own = np.empty((m, W.size // W.shape[-1])), np.ascontiguousarray(np.atleast_2d(W)[:, :p])
        if scipy.sparse.issparse(X):
            _loops.sparse_predictions(X.data, X.indices, X.indptr, own, z)
        else:
            _loops.predictions(X, own, z)
        z = z[:, 0] if W.ndim == 1 else z
        z = z if self.factor is None else _scaled(z, self.factor)
        if self.extra is not None:
            z += np.multiply.outer(self.extra, W[..., p : p + self.copies].sum(-1))
        if self.intercept:
            z += self.intercept * W[..., -1]
        return z

    def weighted_adjoint(self, g: Floats, weights: Floats, largest: float, size: float) -> Floats:
        """Return the parts of ``(weights g)^T X`` (`summation.by_weight`); `size` bounds every ``|weight g x|``."""
        g = weights.reshape(-1, *[1] * (g.ndim - 1)) * g
        return summation.by_weight(weights, largest, size, lambda at, size: self.part(at).ready().adjoint(g[at], size))

    def adjoint(self, g: Floats, size: float) -> Floats:
        """Return the parts of ``g^T X`` for `g` (m,) or (m, k), with `size` as `summation.vector_parts` has it."""
        scaled = g if self.factor is None else _scaled(g, self.factor)
        out = [summation.vector_parts(self.features, scaled, size)]
        if self.extra is not None:
            out += self.copies * [summation.vector_parts(self.extra[:, None], g, size)]
        if self.intercept:
            out.append(summation.vector_parts(np.full((len(g), 1), self.intercept), g, size))
        return out[0] if len(out) == 1 else np.concatenate(out, axis=-1)

    def gram(self, factors: Floats, size: float, rounded: summation.Rounded) -> Array:
        """Return the parts of ``A^T A``, A the records times `factors` (m,) (`summation.gram_parts`)."""
        total, dense, step = np.zeros((2, self.dim, self.dim)), self.dense(), summation.PANEL_ROWS
        for part in (slice(i, i + step) for i in range(0, len(dense), step)):
            total += summation.gram_parts(dense[part], factors[part], size, rounded)
        return total

    def picked(self, stride: int, targets: Array | None = None) -> Array:
        """Return positions of about every `stride`-th record, chosen by a public hash of record and target."""
        keys = self.predict(np.random.default_rng(0).standard_normal(self.dim)).view(np.uint64)
        if targets is not None or self.targets is not None:
            labels = np.ascontiguousarray(self.targets_in(targets), dtype=np.float64)
            keys = keys ^ (labels.view(np.uint64) >> np.uint64(1))
        for shift, factor in zip((30, 27), _MIX, strict=True):
            keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
        return np.flatnonzero((keys >> np.uint64(32)) < 2**32 // stride)

    def dense(self) -> Floats:
        """Return the records as a new array of shape (m, dim)."""
        m, p = self.features.shape
        out = np.empty((m, p + self.copies + (self.intercept > 0)))
        out[:, :p] = as_array(self.features)
        if self.factor is not None:
            out[:, :p] *= self.factor[:, None]
        if self.extra is not None:
            out[:, p : p + self.copies] = self.extra[:, None]
        out[:, p + self.copies :] = self.intercept
        return out

    def targets_in(self, targets: Array | None) -> Array:
        """Return the block's own targets (m,), or its part of the targets of all records (n,)."""
        if self.targets is not None:
            return self.targets
        assert targets is not None  # they are here or there
        return targets[self.rows]

    def weights_in(self, weights: Array | None) -> Floats:
        """Return the block's own weights (m,), or its part of the weights of all records (n,); 1 without weights."""
        if self.weights is not None:
            return self.weights
        return np.ones(self.features.shape[0]) if weights is None else weights[self.rows]

    def ready(self) -> RowBlock:
        """Return the same records with features in float64, rows in one piece, or sparse if few entries are not 0."""
        X = self.features
        if scipy.sparse.issparse(X) and summation.SPARSE * X.nnz < math.prod(X.shape):
            return self if X.dtype == np.float64 else replace(self, features=X.astype(np.float64))
        return replace(self, features=np.require(as_array(X), np.float64, ["C", "A"]))

    def squared_norms(self) -> Floats:
        """Return the squared l2 norms of the records, shape (m,), the constant feature included."""
        norms = lengths_of(as_array(self.features), absolute=False)
        norms = (norms if self.factor is None else norms * self.factor**2) + self.intercept**2
        return norms if self.extra is None else norms + self.copies * self.extra**2

    def part(self, index: slice | Array) -> RowBlock:
        """Return some of the records; `rows` does not change."""
        columns = {name: getattr(self, name) for name in ("factor", "extra", "targets", "weights")}
        parts = {name: None if column is None else column[index] for name, column in columns.items()}
        return replace(self, features=self.features[index], **parts)


Subset = tuple["Records", Array, Floats]  #: Some records in memory, their targets, and their weights.


class RecordSource(ABC):
    """Encoded and clipped records, of a public number, which can be read repeatedly, block by block.

    Solvers of smooth objectives need `total` alone. It sums parts that add up exactly, so the result does not depend on
    the blocks, on their order, or on who computes them; work that is done twice must not be counted twice, and must not
    draw random bits.
    """

    domain: DataDomain
    n: int
    dim = forwarded("domain", "dim")  #: Length of a parameter vector for one output, the intercept included

    @abstractmethod
    def total(self, work: Callable[[RowBlock], summation.Parts]) -> summation.Parts:
        """Return the sum of `work`, arrays that add up exactly, over the row blocks."""

    @abstractmethod
    def subset(self, stride: int, targets: Array | None = None, weights: Array | None = None) -> Subset:
        """Return about every `stride`-th record (`RowBlock.picked`) in memory, with target and weight (or 1)."""

    @abstractmethod
    def chosen(self, index: Array, targets: Array | None) -> RecordSource:
        """Return the records with these ascending indices (m,), m >= 1; they then hold their part of targets (n,)."""

    @abstractmethod
    def weighted(self, weights: Floats) -> RecordSource:
        """Return the same records, which then hold these weights (n,)."""

    @abstractmethod
    def lifted(self, column: Callable[[Floats], Floats], targets: Array | None, domain: DataDomain) -> RecordSource:
        """Return the records with a further feature, a function of targets; other features are not copied.

        The further feature fills every column that `domain` adds after the features; the intercept is `domain`'s.
        """

    def each(self, values: Callable[[RowBlock], Floats]) -> Callable[[RowBlock], Floats]:
        """Return a function with the results of `values` (m,) for a block; in memory they are computed only once."""
        return values

    @final
    def largest(self, values: Callable[[RowBlock], Floats]) -> float:
        """Return the largest of all values (m,) of all blocks."""
        return self.total(lambda block: (summation.Largest.of(values(block)),))[0].value


@final
class Records(RecordSource):
    """Clipped features of `n` records; made by `clipped`.

    Row blocks are of equal length (the last may be shorter), in order. Their features may still have the caller's
    dtype; they are converted block by block at each pass.
    """

    def __init__(self, domain: DataDomain, n: int, blocks: list[RowBlock]) -> None:
        self.domain, self.n, self._blocks = domain, n, blocks

    @classmethod
    def clipped(cls, X: Array, domain: DataDomain, *, empty: bool = False) -> Records:
        """Clip `X` into `domain`, by the rule of `DataDomain.clip`.

        `X`, of shape (n, n_features), may have any real or integer dtype and memory order, or be a sparse matrix with
        rows (CSR), which is never made dense but block by block. It is not changed, and must
        not change afterwards. Wrong shape or dtype, or no rows unless `empty`, raise `InvalidDataError`.
        """
        domain.check_columns(X)
        n = X.shape[0]
        if n == 0 and not empty:
            raise InvalidDataError(f"X has shape {X.shape}; at least one record is needed")
        return cls(domain, n, clipped_blocks(X, domain))

    @property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        return len(self._blocks)

    def block(self, index: int) -> RowBlock:
        """Return one row block, in float64."""
        return self._blocks[index].ready()

    def lifted(self, column: Callable[[Floats], Floats], targets: Array | None, domain: DataDomain) -> Records:
        assert targets is not None  # records in memory do not hold targets
        extra, copies = column(targets), domain.n_features - self.domain.n_features
        blocks = [replace(b, extra=extra[b.rows], copies=copies, intercept=domain.intercept) for b in self._blocks]
        return Records(domain, self.n, blocks)

    def weighted(self, weights: Floats) -> Records:
        return Records(self.domain, self.n, [replace(b, weights=weights[b.rows]) for b in self._blocks])

    def each(self, values: Callable[[RowBlock], Floats]) -> Callable[[RowBlock], Floats]:
        found = np.concatenate([values(block) for block in self.blocks()])
        return lambda block: found[block.rows]

    def chosen(self, index: Array, targets: Array | None) -> Records:
        step = _block_rows(self.domain.n_features)
        panels = [slice(i, min(i + step, len(index))) for i in range(0, len(index), step)]
        return Records(self.domain, len(index), [self._joined(index[rows], rows, targets) for rows in panels])

    def _joined(self, index: Array, rows: slice, targets: Array | None) -> RowBlock:
        """Return the records with the given ascending indices as one block."""
        size = self._blocks[0].rows.stop
        runs = np.split(index, np.flatnonzero(np.diff(index // size)) + 1)
        parts = [self._blocks[run[0] // size].part(run % size) for run in runs]
        factor = [np.ones(part.features.shape[0]) if part.factor is None else part.factor for part in parts]
        extra = [part.extra for part in parts if part.extra is not None]
        join: Any = scipy.sparse.vstack if scipy.sparse.issparse(parts[0].features) else np.concatenate
        features, factors = join([part.features for part in parts]), np.concatenate(factor)
        found, extras = None if targets is None else targets[index], np.concatenate(extra) if extra else None
        return replace(parts[0], rows=rows, features=features, factor=factors, extra=extras, targets=found)

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the records block by block, for passes that do several things at once."""
        return map(self.block, range(self.n_blocks))

    def total(self, work: Callable[[RowBlock], summation.Parts]) -> summation.Parts:
        return summation.total(self.n_blocks, lambda index: work(self.block(index)))

    def predict(self, W: Floats) -> Floats:
        """Return ``X W^T``: shape (n,) for `W` of shape (dim,), (n, k) for (k, dim)."""
        return np.concatenate([block.predict(W) for block in self.blocks()] or [np.empty((0, *W.shape[:-1]))])

    def adjoint(self, g: Floats, size: float | None = None) -> Floats:
        """Return ``g^T X``: shape (dim,) for `g` of shape (n,), (k, dim) for (n, k).

        `size` bounds every ``|g x|``; None takes the largest of `g`, which depends on all records.
        """
        size = float(np.abs(g).max(initial=0.0)) * self.domain.linf if size is None else size
        return summation.vector(self.total(lambda block: (block.adjoint(g[block.rows], size),))[0])

    def gram(self, weights: Floats, most: float | None = None, rounded: summation.Rounded = np.rint) -> Floats:
        """Return ``X^T diag(weights) X``, shape (dim, dim), for `weights` of shape (n,) in ``[0, most]``.

        Entries of ``diag(weights)^(1/2) X`` are `rounded` to the grid of `summation`. It depends on all records where
        `most` is None, the largest weight.
        """
        most = float(weights.max(initial=0.0)) if most is None else most
        size = math.sqrt(most) * self.domain.linf
        return summation.gram(self.total(lambda b: (b.gram(np.sqrt(weights[b.rows]), size, rounded),))[0], size)

    def squared_norms(self) -> Floats:
        """Return the squared l2 norms of the records, shape (n,), the constant feature included."""
        return np.concatenate([block.squared_norms() for block in self.blocks()])

    def rows(self, index: slice) -> Floats:
        """Return the records of a slice as a new dense array of shape (m, dim)."""
        return self.take(np.arange(*index.indices(self.n)))

    def take(self, index: Array) -> Floats:
        """Return the records with the given indices (m,), in that order, as a new dense array of shape (m, dim).

        Few calls for many records are faster than many calls.
        """
        out, size = np.empty((len(index), self.dim)), self._blocks[0].rows.stop
        by_block = np.argsort(index, kind="stable")
        sorted_index = np.asarray(index)[by_block]
        ends = np.searchsorted(sorted_index, [block.rows.stop for block in self._blocks])
        first = 0
        for block, last in zip(self._blocks, ends.tolist(), strict=True):
            if last > first:
                places, rows = by_block[first:last], sorted_index[first:last] % size
                out[places] = block.part(rows).dense()
            first = last
        return out

    def subset(self, stride: int, targets: Array | None = None, weights: Array | None = None) -> Subset:
        def some(index: int) -> Array:
            block = self.block(index)
            return block.rows.start + block.picked(stride, targets)

        index = np.concatenate(summation.each(self.n_blocks, some))
        counted = np.ones(len(index)) if weights is None else weights[index]
        return self.of_rows(self.domain, self.take(index)), index if targets is None else targets[index], counted

    @classmethod
    def of_rows(cls, domain: DataDomain, dense: Floats) -> Records:
        """Return dense records (m, dim), the constant feature included, which lie in the domain already."""
        step = _block_rows(domain.n_features)
        bounds = [slice(i, min(i + step, len(dense))) for i in range(0, len(dense), step)]
        features = dense[:, : domain.n_features]
        return cls(domain, len(dense), [RowBlock(rows, features[rows], None, domain.intercept) for rows in bounds])


def _block_rows(columns: int) -> int:
    return max(1, min(summation.MOST_ROWS, max(_BLOCK // columns, _LEAST_ROWS), _LONGEST // columns))


def lengths_of(rows: Floats, *, absolute: bool) -> Floats:
    """Return the l1 norms of rows, or their squared l2 norms, each a function of its row alone."""
    out = np.empty(len(rows))
    _loops.lengths(rows, absolute, out)
    return out


def _scaled(z: Floats, factor: Floats) -> Floats:
    return z * (factor if z.ndim == 1 else factor[:, None])


def as_array(features: Any) -> Array:
    """Return features as an array: those of sparse matrices stay sparse until a block of them is used."""
    return features.toarray() if scipy.sparse.issparse(features) else features


def clipped_blocks(X: Any, domain: DataDomain, first: int = 0) -> list[RowBlock]:
    """Return the rows of X clipped into a domain, as blocks; the first row has the index `first`."""
    step, n = _block_rows(domain.n_features), X.shape[0]
    step = max(step, min(summation.MOST_ROWS, _LONGEST // domain.n_features)) if scipy.sparse.issparse(X) else step

    def block(index: int) -> RowBlock:
        start, stop = index * step, min((index + 1) * step, n)
        return replace(_clipped_block(X[start:stop], domain), rows=slice(first + start, first + stop))

    return summation.each(max(1, -(-n // step)), block)


def _clipped_block(part: Any, domain: DataDomain) -> RowBlock:
    if scipy.sparse.issparse(part):  # cells that are not stored are 0, also for clipping
        if len(domain.columns_in("simplex")):
            return RowBlock(slice(0, part.shape[0]), domain.clip_sparse(part), None, domain.intercept)
        block = _clipped_block(part.toarray(), domain)
        return replace(block, features=scipy.sparse.csr_array(block.features))
    rows = slice(0, len(part))
    block = domain.blocks[0]
    long_alone = block.norm in ("l1", "l2") and block.largest is None
    if len(domain.blocks) == 1 and long_alone and 1e-100 < block.bound < 1e100:
        with np.errstate(all="ignore"):
            A = np.require(part, np.float64, ["C", "A"])
            absolute = block.norm == "l1"
            lengths = lengths_of(A, absolute=absolute) if absolute else np.sqrt(lengths_of(A, absolute=False))
        wild = ~(lengths < 1e150)  # an entry is NaN, infinite, or its square overflows
        if wild.any():  # such records are clipped singly: they must not change how others are scaled
            part = A.copy()
            part[wild] = domain.clip(A[wild])
            lengths[wild] = 0.0
        too_long = lengths > block.bound
        limit = shortened_length(block.bound, block.size)
        factor = limit / np.where(too_long, lengths, limit) if too_long.any() else None
        return RowBlock(rows, part, factor, domain.intercept)
    clipped = domain.clipped(part)
    same = clipped is part or np.array_equal(part, clipped)
    return RowBlock(rows, part if same else clipped, None, domain.intercept)
