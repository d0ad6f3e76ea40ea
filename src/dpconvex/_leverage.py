r"""Largest length of a record after a change of coordinates, ``X_2 = sup |F^T x|``, from what certificates state of F.

For each block of the domain they state a number that multiplies the identity; the rows of a matrix; or the number of
levels and the largest variance of independent contrasts, whose matrix is rebuilt here by roots and quotients only, so
it has the same floats on every machine. Plans and `verify` both compute ``X_2`` here, in exact rationals. Theorem A and
Lemma C of the docs, Additive models, say why it prices the curvature, and why centered blocks need column sums of 0.

Entries of a matrix are multiples of ``2**-40`` of a power of two above all of them, held as integers, so that columns
can sum to exactly 0 and lengths are computed exactly.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from dpconvex._types import Array, Floats

GRID_BITS = 40  #: Number of bits of a grid: its step is the power of two above all entries, times 2^-40
HALF = 20  #: Number of bits in an integer's lower part: integers are split so that squares of parts sum in 64 bits.
Rows = tuple[tuple[float, ...], ...]  #: The rows of a matrix


class Contrasts(NamedTuple):
    """Orthonormal contrasts of the levels of a block, scaled to a largest variance of a prediction.

    They compare the two halves of the levels, the halves of each half, and so on, so that few entries are not 0.
    """

    levels: int  #: number of levels
    share: float  #: largest variance of a prediction


Part = float | Contrasts | Rows  #: What is stated of F for one block


class Grid(NamedTuple):
    """A sparse matrix of integers, times a power of two."""

    integers: Any  #: sparse matrix, (d, r), int64
    unit: float  #: the power of two

    @property
    def matrix(self) -> Any:
        """The matrix as sparse floats, (d, r)."""
        return sparse.csr_array(self.integers * self.unit)

    @property
    def balanced(self) -> bool:
        """Whether every column sums to exactly 0."""
        return not self.integers.sum(axis=0).any()

    @property
    def squared_length(self) -> Fraction:
        """Squared length of the longest row; no convex combination of rows is longer."""
        high, low = self.integers.copy(), self.integers.copy()
        high.data >>= HALF
        low.data &= 2**HALF - 1
        sums = [a.multiply(b).sum(axis=1).tolist() for a, b in ((high, high), (high, low), (low, low))]
        longest = max((a << 2 * HALF) + (b << HALF + 1) + c for a, b, c in zip(*sums, strict=True))
        return longest * Fraction(self.unit) ** 2


def grid(part: Part) -> Grid:
    """Return the matrix of a block of F (contrasts or rows); `ValueError` if the rows are not on a grid."""
    if isinstance(part, Contrasts):
        return _halves(part.levels, math.sqrt(part.share * part.levels / (part.levels - 1)))
    rows = np.array(part, dtype=np.float64)
    unit = _unit(rows)
    integers = np.rint(rows / unit)
    if rows.ndim != 2 or (integers * unit != rows).any():
        raise ValueError("rows are on no grid")
    return Grid(sparse.csr_array(integers.astype(np.int64)), unit)


def balanced(root: Floats) -> Rows:
    """Return a matrix's rows, moved to a grid, with column sums of exactly 0; columns that vanish are left out."""
    unit = _unit(root)
    integers = np.rint(root / unit).astype(np.int64)
    integers[-1] -= integers.sum(0)
    return tuple(map(tuple, (integers[:, integers.any(0)] * unit).tolist()))


def _unit(x: Array) -> float:
    return 2.0 ** (math.frexp(float(np.abs(x).max()))[1] - GRID_BITS)


def _halves(levels: int, scale: float) -> Grid:
    """Contrasts of the first a levels with the next b: ``sqrt(b/(a (a + b)))`` and ``-sqrt(a/(b (a + b)))``."""
    spans, rows, columns, values = [(0, levels)], list[Array](), list[Array](), list[Array]()
    unit = _unit(np.array(scale))
    while spans:
        start, count = spans.pop()
        first, last = (count + 1) // 2, count // 2
        if not last:
            continue
        high, low = math.sqrt(last / (first * count)), math.sqrt(first / (last * count))
        entries = np.repeat([round(scale * high / unit), -round(scale * low / unit)], [first, last])
        entries[-1] -= entries.sum()
        rows.append(np.arange(start, start + count))
        columns.append(np.full(count, len(columns)))
        values.append(entries)
        spans += [(start, first), (start + first, last)]
    at = (np.concatenate(rows), np.concatenate(columns))
    built = sparse.coo_array((np.concatenate(values).astype(np.int64), at), shape=(levels, levels - 1))
    return Grid(sparse.csr_array(built), unit)


def stated(part: Part) -> dict[str, Any]:
    """Return a block of F in the form in which certificates state it."""
    if isinstance(part, Contrasts):
        return {"contrasts": part.levels, "share": part.share}
    return {"scale": part} if isinstance(part, float | int) else {"rows": [list(row) for row in part]}


def faults(public: Mapping[str, Any], tau: float | None) -> str:
    """Return what is wrong with the public facts about F, ``X_2`` and, if there is one, `tau`, in words; else ""."""
    blocks = [*public["blocks"]]
    if public["intercept"]:
        blocks.append({"size": 1, "norm": "l1", "bound": public["intercept"]})
    if len(blocks) != len(public["factor"]):
        return "factor must state every block"
    total = Fraction(0)
    for block, entry in zip(blocks, public["factor"], strict=True):
        simplex, size = block["norm"] == "simplex", block["size"]
        if "scale" in entry:
            if simplex and public["intercept"]:
                return "columns of factor must sum to 0 over a centered block"
            longest = Fraction(block["bound"]) * Fraction(block.get("largest", block["bound"]))
            total += Fraction(entry["scale"]) ** 2 * longest * (size if block["norm"] == "linf" else 1)
            continue
        part = Contrasts(size, entry["share"]) if "share" in entry else tuple(map(tuple, entry["rows"]))
        found = grid(cast(Any, part))
        if not simplex or found.integers.shape[0] != size or entry.get("contrasts", size) != size:
            return "factor must have a row for each column of a simplex block"
        if public["intercept"] and not found.balanced:
            return "columns of factor must sum to 0 over a centered block"
        total += found.squared_length
    length = Fraction(public["feature_l2"])
    if not total <= length**2 <= total * Fraction(1 + 1e-9):
        return f"feature_l2 must be the largest length, {math.sqrt(total):.9g}"
    if tau is None:
        return ""
    bend = length**2 / (public["n"] * Fraction(public["l2"]))
    return "" if bend <= Fraction(tau) <= bend * Fraction(1 + 1e-9) else f"tau must be {float(bend):.9g}"
