"""How many points lie near each point: exact within groups of records, never with an n x n matrix.

Membership of a group depends on the position of a record and on public coins, never on its value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import FloatArray
from dpconvex.problems.data import _threads

IntArray = NDArray[np.int64]

_PARTS = 16  # into which work is split for threads


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of record positions.

    Parameters
    ----------
    order : array of shape (n,)
        A permutation of ``0, ..., n - 1``.
    bounds : array of shape (groups + 1,)
        Group g holds the positions ``order[bounds[g]:bounds[g + 1]]``; sizes differ by at most one.
    """

    order: IntArray
    bounds: IntArray

    @classmethod
    def random(cls, n: int, size: int, coins: np.random.Generator) -> Groups:
        """Return ``floor(n / size)`` groups (at least one) of at least `size` records, uniformly at random.

        A single group needs no coins.
        """
        sizes = group_sizes(n, size)
        order = np.arange(n) if len(sizes) == 1 else coins.permutation(n)
        return cls(order, np.concatenate([[0], np.cumsum(sizes)]))

    @property
    def sizes(self) -> IntArray:
        """Size of the group of every record, by position, shape (n,)."""
        out = np.empty(len(self.order), dtype=np.int64)
        sizes = np.diff(self.bounds)
        out[self.order] = np.repeat(sizes, sizes)
        return out


def group_sizes(n: int, size: int) -> IntArray:
    """Sizes of ``floor(n / size)`` groups, at least one, of n records: they differ by at most one."""
    groups = max(1, n // size)
    return np.full(groups, n // groups) + (np.arange(groups) < n % groups)


def covered_shares(points: FloatArray, groups: Groups, grid: FloatArray) -> FloatArray:
    """Return for each radius of a grid the sum over records of the share of the others in their group within it.

    Parameters
    ----------
    points : array of shape (n, d)
    groups : Groups
        Of at least 2 records each.
    grid : array of shape (T,)
        ``r 2^t`` for t = 0, 1, ...

    Returns
    -------
    array of shape (T,)
        Ascending; the last entry is n, whatever the last radius. Replacing one record changes each entry by at most 2:
        its own share by at most 1, and those of the ``s - 1`` others in its group by at most ``1 / (s - 1)`` each.
    """
    from dpconvex.problems.data import _point_loops

    small = int(np.diff(groups.bounds).min())
    mantissa, exponent = math.frexp(float(grid[0]))

    def work(part: int) -> FloatArray:
        levels = np.zeros((2, len(grid)))
        bounds = _share(groups.bounds, part)
        _point_loops.pair_levels(points, groups.order, bounds, mantissa * mantissa, exponent, small, levels)
        return levels

    below = np.cumsum(_threads.total(_PARTS, work), axis=1)  # whole numbers: exact
    return below[0] / (small - 1) + below[1] / small


def near_counts(points: FloatArray, groups: Groups, radius: float) -> IntArray:
    """Return how many members of its group lie within `radius` of each record, itself included, shape (n,)."""
    from dpconvex.problems.data import _point_loops

    single = len(groups.bounds) == 2

    def work(part: int) -> FloatArray:
        out = np.zeros(len(points))
        bounds = groups.bounds if single else _share(groups.bounds, part)
        first, step = (part, _PARTS) if single else (0, 1)
        _point_loops.near_counts(points, groups.order, bounds, first, step, radius * radius, out)
        return out

    counts = np.empty(len(points), dtype=np.int64)
    counts[groups.order] = _threads.total(_PARTS, work)
    return counts


def near_draws(points: FloatArray, radius: float, draws: int, coins: np.random.Generator) -> IntArray:
    """Return how many of `draws` records, drawn with replacement for each record, lie within `radius` of it, (n,)."""
    from dpconvex.problems.data import _point_loops

    counts = np.zeros(len(points), dtype=np.int64)
    for _ in range(draws):
        _point_loops.near_partners(points, coins.integers(len(points), size=len(points)), radius * radius, counts)
    return counts


def _share(bounds: IntArray, part: int) -> IntArray:
    cuts = np.linspace(0, len(bounds) - 1, _PARTS + 1).astype(int)
    return bounds[cuts[part] : cuts[part + 1] + 1]
