"""Points in a ball: the public domain of location problems, sanitizing into it, and how many points lie near each.

Sanitizing works on one record at a time and never drops one, so replacing one record changes one sanitized record.
Neighbors are counted exactly within groups of records, never with an n x n matrix. Membership of a group depends on the
position of a record and on coins, never on its value.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, IntArray, final_dataclass, set_fields
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems.data import _loops, summation
from dpconvex.problems.data.domain import DataDomain, shorten
from dpconvex.problems.data.summation import Parts
from dpconvex.problems.data.users import UserGroups

_CHUNK = 2**17  # number of floats worked on at a time: 1 MB
_PARTS = 16  # number of parts into which counting is split for threads


@final_dataclass
class PointDomain:
    """All points within a public distance of the origin, and the finest resolution of interest.

    Examples
    --------
    >>> PointDomain(dim=2, radius_bound=8.0, min_radius=1.0).grid.tolist()
    [1.0, 2.0, 4.0, 8.0, 16.0]
    """

    dim: int  #: number of coordinates of a point, at least 1
    #: Largest distance R of a point from the origin, at most 1e100. A crude bound will do: it costs accuracy only
    #: through the logarithm of its ratio to `min_radius`. Subtract a *public* origin from the data if there is one.
    radius_bound: float
    #: Smallest radius r of a crowd of points that is to be told apart, at least 1e-100 and at most ``R / 2``. Precision
    #: is lost where it is below ``1e-12 R``, for floats of size R are no finer.
    min_radius: float

    def __post_init__(self) -> None:
        dim = _validate.integer("dim", self.dim, at_least=1)
        bound = _validate.real("radius_bound", self.radius_bound, above=0.0, at_most=_validate.LARGEST)
        least = _validate.real("min_radius", self.min_radius, at_least=1 / _validate.LARGEST)
        if least > bound / 2:
            what = f"must be at most radius_bound / 2 = {bound / 2:g}"
            raise InvalidParameterError("min_radius", self.min_radius, what, "Use a smaller one")
        set_fields(self, dim=dim, radius_bound=bound, min_radius=least)

    @cached_property
    def grid(self) -> Floats:
        """Candidate radii ``r 2^t``, shape (T,), ascending; only the last one reaches the diameter ``2 R``."""
        ratio = math.log2(self.radius_bound) - math.log2(self.min_radius)
        grid = np.ldexp(self.min_radius, np.arange(math.ceil(ratio) + 3))
        return grid[: int(np.searchsorted(grid, 2 * self.radius_bound)) + 1]

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready facts."""
        return {"dim": self.dim, "radius_bound": self.radius_bound, "min_radius": self.min_radius}


def clip_points(X: Array, domain: PointDomain) -> Floats:
    """Sanitize points record by record: the result lies in the domain whatever `X` holds.

    NaN becomes 0, an infinity the largest float of its sign, and a point outside the ball is scaled down to its
    boundary. No record is dropped or merged.

    `X` of shape (n, dim) may have any real or integer dtype and is not changed; it is returned itself where it is
    float64, C-contiguous and in the ball, else a copy of that form. Wrong shape or dtype, or no rows,
    raise `InvalidDataError` (public facts).
    """
    DataDomain.l2_ball(domain.dim, domain.radius_bound).check_columns(X)
    if len(X) == 0:
        raise InvalidDataError(f"X has shape {X.shape}; at least one point is needed")
    with np.errstate(all="ignore"):
        out = np.require(X, np.float64, ["C", "A"])
        # True where an entry is NaN or infinite, or its square overflows. No bit of a record depends on another's.
        outside = [~(np.einsum("ij,ij->i", part, part) <= domain.radius_bound**2) for part in _chunks(out)]
        if any(mask.any() for mask in outside):
            out = out.copy() if np.may_share_memory(out, X) else out
            for part, mask in zip(_chunks(out), outside, strict=True):
                rows = np.nan_to_num(part[mask], nan=0.0)
                shorten(rows, "l2", domain.radius_bound)
                part[mask] = rows
    return out


WEIGHTED_MEAN_ROUNDING = 2.0**-51
"""Largest l2 error of `weighted_mean`, relative to the largest norm of a point, for up to 2^26 points."""


def weighted_mean(X: Floats, weights: Floats) -> Floats:
    """Return ``sum_i w_i x_i / sum_i w_i``, as accurate as if summed in twice the precision; 0 for weights all 0.

    The two sums err by ``2^-53`` of themselves and ``n^2 2^-106`` of the sum of magnitudes (Ogita, Rump and Oishi 2005,
    "Accurate sum and dot product", Proposition 5.5), whose norms are at most ``R sum w``; then comes one division.
    `WEIGHTED_MEAN_ROUNDING` is the total. `X` (n, d) is finite and C-contiguous; weights (n,) lie in [0, 1].
    """
    high, low = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    total, rest = _loops.weighted_sums(X, weights, high, low)
    return (high + low) / (total + rest) if total > 0 else high


def user_points(X: Array, users: Array, domain: PointDomain) -> Floats:
    """Replace the points of each user by their mean, so that one user is one record.

    A user with thousands of points then counts as much as a user with a single point. The number of users must be
    public; the numbers of their points need not be. `X` is sanitized here; `users` are labels as
    `UserGroups.of` reads them, and the means, one a row, stand in the order of the sorted labels. Wrong shapes or dtype
    raise `InvalidDataError`.
    """
    points, groups = clip_points(X, domain), UserGroups.of(users)
    if groups.n_records != len(points):
        raise InvalidDataError(f"users has {groups.n_records} entries; one a point is needed, {len(points)}")
    weighted = points * groups.spread(1 / groups.sizes)[:, None]
    weighted = weighted if groups.order is None else weighted[groups.order]
    # Means of points of the ball; scaling first keeps every sum inside floats, clipping undoes rounding outwards.
    return clip_points(np.add.reduceat(weighted, groups.starts[:-1], axis=0), domain)


def _chunks(X: Floats) -> list[Floats]:
    # Longer rows are summed one by one: NumPy sums rows beyond its buffer differently if there are several.
    step = max(1, _CHUNK // X.shape[1]) if X.shape[1] <= 8192 else 1
    return [X[start : start + step] for start in range(0, len(X), step)]


@final_dataclass(eq=False)
class Groups:
    """A partition of record positions."""

    order: IntArray  #: (n,): a permutation of ``0, ..., n - 1``
    #: Shape (groups + 1,). Group g holds the positions ``order[bounds[g]:bounds[g + 1]]``; sizes differ by at most one.
    bounds: IntArray

    @classmethod
    def random(cls, n: int, size: int, coins: np.random.Generator) -> "Groups":
        """Return ``floor(n / size)`` random groups, at least one, of `size` records or more; one needs no coins."""
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


def covered_shares(points: Floats, groups: Groups, grid: Floats) -> Floats:
    """Return, for each radius of a grid, the sum over records of the share of their group's others within it.

    The grid is ``r 2^t`` for t = 0, 1, ..., and groups have at least 2 records each. The sums, shape (T,), ascend; the
    last one is n, whatever the last radius. Replacing one record changes each by at most 2: its own share by at most 1,
    and those of the ``s - 1`` others in its group by at most ``1 / (s - 1)`` each.
    """
    small = int(np.diff(groups.bounds).min())
    mantissa, exponent = math.frexp(float(grid[0]))

    def work(part: int) -> Parts:
        levels = np.zeros((2, len(grid)))
        bounds = _share(groups.bounds, part)
        _loops.pair_levels(points, groups.order, bounds, mantissa * mantissa, exponent, small, levels)
        return (levels,)

    below = np.cumsum(summation.total(_PARTS, work)[0], axis=1)  # whole numbers: exact
    return below[0] / (small - 1) + below[1] / small


def near_counts(points: Floats, groups: Groups, radius: float) -> IntArray:
    """Return how many members of its group lie within `radius` of each record, itself included, shape (n,)."""
    single = len(groups.bounds) == 2

    def work(part: int) -> Parts:
        out = np.zeros(len(points))
        bounds = groups.bounds if single else _share(groups.bounds, part)
        first, step = (part, _PARTS) if single else (0, 1)
        _loops.near_counts(points, groups.order, bounds, first, step, radius * radius, out)
        return (out,)

    counts = np.empty(len(points), dtype=np.int64)
    counts[groups.order] = summation.total(_PARTS, work)[0]
    return counts


def _share(bounds: IntArray, part: int) -> IntArray:
    cuts = np.linspace(0, len(bounds) - 1, _PARTS + 1).astype(int)
    return bounds[cuts[part] : cuts[part + 1] + 1]
