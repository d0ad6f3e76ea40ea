"""The clipped features of all records as a linear operator.

Features are held as row blocks of about 1 MB, each a view of the caller's array wherever that is possible:

- a single ``l1`` or ``l2`` block (a norm ball): the caller's rows and one shrinking factor a row;
- any other domain: the caller's rows where they already lie in the domain, else a clipped copy of that row block.

Nothing here raises or warns because of what the data hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data import _threads
from dpconvex.problems.data.domain import DataDomain, shortened_length

_BLOCK = 2**17  # floats of a row block: two passes over it hit the cache
_PANEL = 2**20  # floats of a dense panel (8 MB): rank-k updates want many rows
_PANEL_ROWS = 8192
PIECE = 2048  # rows whose products are summed in one go


@final
@dataclass(frozen=True)
class RowBlock:
    """Some consecutive clipped records, in float64."""

    rows: slice
    features: FloatArray  #: (m, n_features)
    factor: FloatArray | None  #: (m,), what each row of the features is multiplied by; None for 1
    intercept: float  #: the constant last feature; 0: none
    extra: FloatArray | None = None  #: (m,), a further feature between the others and the intercept
    copies: int = 0  #: columns that hold it

    def predict(self, W: FloatArray) -> FloatArray:
        """Return ``X W^T``: shape (m,) for `W` of shape (dim,), (m, k) for (k, dim)."""
        z = self.features @ W[..., : self.features.shape[1]].T
        if self.factor is not None:
            z = _scaled(z, self.factor)
        if self.extra is not None:
            p = self.features.shape[1]
            z += np.multiply.outer(self.extra, W[..., p : p + self.copies].sum(-1))
        if self.intercept:
            z += self.intercept * W[..., -1]
        return z

    def adjoint(self, g: FloatArray) -> FloatArray:
        """Return ``g^T X``: shape (dim,) for `g` of shape (m,), (k, dim) for (m, k).

        Sums of `PIECE` rows are added up: equal summands round alike, and so do not err by more than their slack.
        """
        scaled = g if self.factor is None else _scaled(g, self.factor)
        out = scaled[:PIECE].T @ self.features[:PIECE]
        for first in range(PIECE, len(scaled), PIECE):
            out += scaled[first : first + PIECE].T @ self.features[first : first + PIECE]
        if self.extra is not None:
            out = np.concatenate([out, *self.copies * [(g.T @ self.extra)[..., None]]], axis=-1)
        if self.intercept:
            out = np.concatenate([out, self.intercept * g.sum(0)[..., None]], axis=-1)
        return out

    def dense(self) -> FloatArray:
        """Return the records as a new array of shape (m, dim)."""
        m, p = self.features.shape
        out = np.empty((m, p + self.copies + (self.intercept > 0)))
        out[:, :p] = self.features
        if self.factor is not None:
            out[:, :p] *= self.factor[:, None]
        if self.extra is not None:
            out[:, p : p + self.copies] = self.extra[:, None]
        out[:, p + self.copies :] = self.intercept
        return out

    def part(self, index: slice | AnyArray) -> RowBlock:
        """Return some of the records (`rows` stays as it is)."""
        factor, extra = (None if column is None else column[index] for column in (self.factor, self.extra))
        return replace(self, features=self.features[index], factor=factor, extra=extra)


@final
class Records:
    """Clipped features of `n` records; made by `clipped`.

    Row blocks are of equal length (the last may be shorter), in order. Their features may still have the caller's
    dtype; they are converted block by block at each pass.
    """

    def __init__(self, domain: DataDomain, n: int, blocks: list[RowBlock]) -> None:
        self.domain, self.n, self._blocks = domain, n, blocks

    @classmethod
    def clipped(cls, X: AnyArray, domain: DataDomain) -> Records:
        """Clip `X` into `domain`, by the rule of `DataDomain.clip`.

        `X`, of shape (n, n_features), may have any real or integer dtype and memory order. It is not changed, and must
        not change afterwards. Wrong shape or dtype, or no rows, raise `InvalidDataError`.
        """
        domain.check_columns(X)
        if len(X) == 0:
            raise InvalidDataError(f"X has shape {X.shape}; at least one record is needed")
        step = max(1, _BLOCK // X.shape[1])
        blocks = [_clipped_block(X, slice(i, min(i + step, len(X))), domain) for i in range(0, len(X), step)]
        return cls(domain, len(X), blocks)

    @property
    def dim(self) -> int:
        """Length of a parameter vector for one output, the intercept included."""
        return self.domain.dim

    @property
    def n_blocks(self) -> int:
        """Number of row blocks."""
        return len(self._blocks)

    def block(self, index: int) -> RowBlock:
        """Return one row block, in float64."""
        b = self._blocks[index]
        return replace(b, features=np.asarray(b.features, dtype=np.float64))

    def lifted(self, extra: FloatArray, domain: DataDomain) -> Records:
        """Return the same records with a further feature of shape (n,), without a copy of the others.

        It is the value of every column that `domain` adds after the features; the intercept is that of `domain`.
        """
        copies = domain.n_features - self.domain.n_features
        blocks = [replace(b, extra=extra[b.rows], copies=copies, intercept=domain.intercept) for b in self._blocks]
        return Records(domain, self.n, blocks)

    def blocks(self) -> Iterator[RowBlock]:
        """Yield the records block by block, for passes that do several things at once."""
        return map(self.block, range(self.n_blocks))

    def total(self, work: Callable[[RowBlock], FloatArray]) -> FloatArray:
        """Return the sum of `work` over the row blocks, computed by several threads."""
        return _threads.total(self.n_blocks, lambda index: work(self.block(index)))

    @property
    def n_panels(self) -> int:
        """Number of panels."""
        return math.ceil(self.n / self._panel_rows)

    def panel(self, index: int) -> tuple[slice, FloatArray]:
        """Return some consecutive records: which, and a new dense array (m, dim) of about 8 MB at most."""
        start = index * self._panel_rows
        rows = slice(start, min(start + self._panel_rows, self.n))
        return rows, self.rows(rows)

    def predict(self, W: FloatArray) -> FloatArray:
        """Return ``X W^T``: shape (n,) for `W` of shape (dim,), (n, k) for (k, dim)."""
        return np.concatenate([block.predict(W) for block in self.blocks()])

    def adjoint(self, g: FloatArray) -> FloatArray:
        """Return ``g^T X``: shape (dim,) for `g` of shape (n,), (k, dim) for (n, k)."""
        out = np.zeros((*g.shape[1:], self.dim))
        for block in self.blocks():
            out += block.adjoint(g[block.rows])
        return out

    def gram(self, weights: FloatArray) -> FloatArray:
        """Return ``X^T diag(weights) X``, shape (dim, dim), for nonnegative `weights` of shape (n,)."""

        def work(index: int) -> FloatArray:
            rows, panel = self.panel(index)
            panel *= np.sqrt(weights[rows])[:, None]
            return panel.T @ panel

        return _threads.total(self.n_panels, work)

    @property
    def _panel_rows(self) -> int:
        return min(max(1, _PANEL // self.dim), _PANEL_ROWS)

    def squared_norms(self) -> FloatArray:
        """Return the squared l2 norms of the records, shape (n,), the constant feature included."""
        parts = []
        for block in self.blocks():
            norms = np.einsum("ij,ij->i", block.features, block.features)
            norms = (norms if block.factor is None else norms * block.factor**2) + block.intercept**2
            parts.append(norms if block.extra is None else norms + block.copies * block.extra**2)
        return np.concatenate(parts)

    def rows(self, index: slice) -> FloatArray:
        """Return the records of a slice as a new dense array of shape (m, dim)."""
        start, stop, stride = index.indices(self.n)
        size = self._blocks[0].rows.stop
        parts = []
        for b in self._blocks[start // size : math.ceil(stop / size)] if stop > start else []:
            first = start + max(0, math.ceil((b.rows.start - start) / stride)) * stride - b.rows.start
            parts.append(b.part(slice(first, stop - b.rows.start, stride)).dense())
        return np.concatenate(parts) if parts else np.empty((0, self.dim))

    def take(self, index: AnyArray) -> FloatArray:
        """Return the records of the given numbers (m,), in that order, as a new dense array of shape (m, dim).

        The fewer calls for the same total the better.
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

    def subset(self, stride: int) -> Records:
        """Return every `stride`-th record, starting with the first, copied (float64)."""
        p = self._blocks[0].features.shape[1]
        dense = self.rows(slice(0, self.n, stride))
        features, lifted = dense[:, :p], dense[:, p : self.domain.n_features]  # the second: copies of one column
        extra, copies = (lifted[:, 0], lifted.shape[1]) if lifted.shape[1] else (None, 0)
        step = max(1, _BLOCK // p)
        bounds = [slice(i, min(i + step, len(dense))) for i in range(0, len(dense), step)]
        whole = RowBlock(slice(0, len(dense)), features, None, self.domain.intercept, extra, copies)
        return Records(self.domain, len(dense), [replace(whole.part(rows), rows=rows) for rows in bounds])


def _scaled(z: FloatArray, factor: FloatArray) -> FloatArray:
    return z * (factor if z.ndim == 1 else factor[:, None])


def _clipped_block(X: AnyArray, rows: slice, domain: DataDomain) -> RowBlock:
    part = X[rows]
    block = domain.blocks[0]
    if len(domain.blocks) == 1 and block.norm in ("l1", "l2") and 1e-100 < block.bound < 1e100:
        with np.errstate(all="ignore"):
            A = np.asarray(part, dtype=np.float64)
            lengths = np.abs(A).sum(1) if block.norm == "l1" else np.sqrt(np.einsum("ij,ij->i", A, A))
        wild = ~(lengths < 1e150)  # an entry is NaN, infinite, or its square overflows
        if wild.any():  # such records are clipped singly: they must not change how others are scaled
            part = A.copy()
            part[wild] = domain.clip(A[wild])
            lengths[wild] = 0.0
        too_long = lengths > block.bound
        limit = shortened_length(block.bound, block.size)
        factor = limit / np.where(too_long, lengths, limit) if too_long.any() else None
        return RowBlock(rows, part, factor, domain.intercept)
    clipped = domain.clip(part)
    return RowBlock(rows, part if np.array_equal(part, clipped) else clipped, None, domain.intercept)
