"""What a constraint set is: membership, Euclidean projection, size and linear minimizer; the set of all vectors."""

import math
from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, final_dataclass, finite, quiet
from dpconvex.errors import InvalidParameterError


class ConvexSet(ABC):
    """A closed, convex, public set of parameter vectors of shape (dim,).

    Vectors may hold any float: NaN counts as 0 and infinities as the largest float in `project` and
    `linear_minimizer`, so that both return a member for every input. Only a wrong shape raises.
    """

    dim: int | None  #: length of the vectors; None if the set is given without one and takes vectors of any length
    radius: float  #: largest l2 norm of a member; infinite if unbounded
    diameter: float  #: largest l2 distance of two members, rounded up by enough to cover the rounding of `project`
    projection_error: float = 0.0  #: largest l2 error of `project`, besides a few roundings of the result
    #: Factor by which `outward` may enlarge the relative rounding of a normal; infinite where it returns `away`.
    normal_rounding: float = math.inf

    @final
    @quiet
    def contains(self, w: Floats, tolerance: float = 1e-9) -> bool:
        """Whether `w` satisfies the constraints up to ``tolerance`` times the size of the set; False for NaN."""
        self._check_shape("w", w)
        return bool(self._holds(w, tolerance))

    @abstractmethod
    def _holds(self, w: Floats, tolerance: float) -> Any:
        """Whether `w`, which has the right shape, satisfies the constraints."""

    @abstractmethod
    def project(self, w: Floats) -> Floats:
        """Return a new vector, the member nearest to `w` in the l2 norm, exact up to rounding."""

    @abstractmethod
    def linear_minimizer(self, g: Floats) -> Floats:
        """Return a member that minimizes ``<g, w>``, always the same member.

        `InvalidParameterError` if the set is unbounded, whatever `g` holds.
        """

    def project_rows(self, points: Floats) -> Floats:
        """Return the projections of finite points of shape (n, dim); here one by one."""
        return np.array([self.project(point) for point in points]).reshape(points.shape)

    def outward(self, members: Floats, away: Floats) -> Floats:
        """Return differences `away` = ``point - project(point)`` (n, dim), projected onto the set's normals at members.

        For points just outside, the difference is mostly rounding, while the normal of the set is well known.
        """
        return away

    def least_rows(self, g: Floats) -> Floats:
        """Return ``min <g_i, u>`` over the members for rows of shape (n, dim); here one by one."""
        return np.array([row @ self.linear_minimizer(row) if row.any() else 0.0 for row in g])

    def ridge_minimum(self, g: Floats, weight: float) -> tuple[float, Floats]:
        """Return a lower bound of ``min <g, u> + weight/2 |u|^2`` over the members, and a member near the minimizer.

        The bound holds despite rounding, and equals the minimum up to rounding, whatever the accuracy of projections.
        The weight is positive.
        """
        u = self.project(-g / weight)
        size = (float(np.linalg.norm(g)) + weight * float(np.linalg.norm(u))) * float(np.linalg.norm(u))
        return weight / 2 * float(u @ u) + float(g @ u) - 1e-14 * size, u

    @final
    def _finite(self, name: str, w: Floats) -> Floats:
        """Return a finite float64 copy of `w` after a check of its shape (a public fact)."""
        self._check_shape(name, w)
        return finite(w)

    @final
    def _check_shape(self, name: str, w: Floats) -> None:
        if w.ndim != 1 or len(w) == 0 or self.dim not in (None, len(w)):
            wanted = "(dim,)" if self.dim is None else f"({self.dim},)"
            raise InvalidParameterError(f"{name}.shape", w.shape, f"must be {wanted}")


def check_dim(dim: int | None) -> None:
    """Raise `InvalidParameterError` unless `dim` is None or at least 1."""
    _validate.optional(_validate.integer, {"dim": dim}, at_least=1)


@final_dataclass
class WholeSpace(ConvexSet):
    """All vectors."""

    dim: int | None = None  #: length of the vectors; any length if None
    radius = diameter = math.inf

    def __post_init__(self) -> None:
        check_dim(self.dim)

    def _holds(self, w: Floats, tolerance: float) -> Any:
        return np.all(np.isfinite(w))

    def project(self, w: Floats) -> Floats:
        return self._finite("w", w)

    def linear_minimizer(self, g: Floats) -> Floats:
        remedy = "Use a bounded set such as L2Ball(radius)"
        raise InvalidParameterError("constraint", self, "must be bounded to have a linear minimizer", remedy)
