"""Interfaces: the public facts of a problem, from which plans are made, and the objective that solvers minimize."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Protocol, final

import numpy as np

from dpconvex._types import REQUIRED, Array, Floats, forwarded
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.expected_risk import TypicalData
from dpconvex.sets import ConvexSet, L2Ball, WholeSpace

ROUNDING = 1e-13  # relative slack of a computed gradient: ten times the worst case of `data.summation`
MOST_TIMES = 1000.0  # most units, over a declared number of them: with more, sums are cut and solvers need not certify
UP = 1 + 1e-12  # covers the few roundings of a formula for a public constant


def inner_product_rounding(dim: int) -> float:
    """Return a relative error bound for an inner product of `dim` terms and a few more operations.

    ``|fl(<w, x>) - <w, x>| <= d u / (1 - d u) |w| |x|``, u = 2^-53 (Higham 2002, section 3.1).
    """
    return (dim + 16) * 2.0**-53


class Bounds(Protocol):
    """The facts of a loss by which solvers are chosen: its largest slope and curvature, infinite if unbounded."""

    @property
    def slope_bound(self) -> float: ...

    @property
    def curvature_bound(self) -> float: ...


@dataclass(frozen=True)
class StatedBounds:
    """Bounds of an objective that is not a linear model's, or whose losses are replaced by their extensions."""

    slope_bound: float = math.inf
    curvature_bound: float = math.inf


class Objective(ABC):
    """A strongly convex function of parameters (dim,) that depends on data, with constants that do not.

    Every constant holds for every data set that the public statement of the problem allows.
    """

    l2: float  #: ridge weight
    tilt: float = 0.0  #: weight of large losses over small losses (larger: more); 0 for averages
    weighted: bool = False  #: whether records have different weights, which do not depend on the parameters
    #: B: public bound of `value_rounding` over all data sets, if values come from an oracle with a tolerance. Planes
    #: are still lower bounds. 0 where values are exact up to rounding.
    oracle_error: float = 0.0
    everywhere: bool = True  #: False: the objective is defined on its constraint only, which no solver may leave
    bounds: Bounds = REQUIRED  #: The bounds that `Solver.refusal` gets.
    dim: int = REQUIRED  #: Length of a parameter vector.
    smoothness: float = REQUIRED  #: Smoothness constant (l2); may be infinite.
    minimizer_norm: float = REQUIRED  #: Bound on the norm (l2) of the minimizer over the whole space; may be infinite.
    initial_gap: float = REQUIRED  #: Bound on ``J(0) - min J``; may be infinite.
    strong_convexity: float = forwarded("l2")  #: Strong convexity constant (l2).

    @abstractmethod
    def lipschitz_within(self, radius: float) -> float:
        """Lipschitz constant (l2) of the objective over parameters of norm at most `radius`."""

    def plane_slope(self, radius: float) -> float:
        """Return L: slopes of planes less ``mu w`` lie within L of one vector, on the ball of that radius."""
        return self.lipschitz_within(radius) + self.strong_convexity * radius

    def value(self, w: Floats) -> float:
        """Return ``J(w)``."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: Floats) -> Floats:
        """Return a (sub)gradient at `w`, shape (dim,)."""
        return self.value_and_gradient(w)[1]

    @abstractmethod
    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        """Return ``J(w)`` and a (sub)gradient."""

    def hessian_product(self, w: Floats, v: Floats) -> Floats:
        """Return the Hessian at `w` times `v`, shape (dim,); here a difference of gradients: no proof rests on it."""
        length = float(np.linalg.norm(v))
        if length == 0:
            return np.zeros_like(v)
        step = 1e-6 * (1 + float(np.linalg.norm(w))) / length
        return (self.gradient(w + step * v) - self.gradient(w - step * v)) / (2 * step)

    @abstractmethod
    def gradient_rounding(self, w: Floats) -> float:
        """Return the slack charged for rounding in a computed gradient at `w` (l2 norm)."""

    @abstractmethod
    def value_rounding(self, value: float, w: Floats) -> float:
        """Return the slack charged for rounding in a computed value at `w`."""

    @final
    def gradient_norm_bound(self, g: Floats, w: Floats) -> float:
        """Return an upper bound on the norm of the gradient at `w` of which `g` is the computed value."""
        return float(np.linalg.norm(g)) * (1 + 1e-10) + self.gradient_rounding(w)


Aggregation = Literal["average", "tilted", "whole"]


class Problem(ABC):
    """Public statement of a convex problem over `n` records. Holds no data."""

    n: int  #: number of records, or of users; public under replace-one neighbors
    radius: float  #: l2 norm R of the comparator: plans compete with all parameters up to this norm
    grouped: bool = False  #: whether `n` counts users, each with any number of records
    private_n: bool = False  #: whether `n` is a public guess of a private number
    #: Whether Lipschitz constants hold in the ball of norm `radius` only, where the minimization then stays.
    local: bool = False
    only_sums: bool = False  #: whether the objective needs only sums over single records
    #: Claims of the caller about the objective that nothing enforces; if there are any, privacy rests on them.
    claims: tuple[str, ...] = ()
    trusted: bool = True  #: whether a plan may rely on the `claims` for privacy
    #: Lipschitz constant (l2, on average over directions) of what is not smooth; 0 where `smoothness` says all.
    kink: float = 0.0
    #: What to expect of ordinary data; None where there is no model of them. Ranks plans, protects nothing.
    typical: TypicalData | None = None
    name: str = REQUIRED  #: Name of the objective, in a word or two.
    #: The way in which losses are aggregated: by an average, by a log-sum-exp, or in any other way.
    aggregation: Aggregation = REQUIRED
    dim: int = REQUIRED  #: Length of a parameter vector.
    bounds: Bounds = REQUIRED  #: The bounds by which solvers are chosen.
    #: Largest l2 norm of one record's (sub)gradient, or of the whole one; infinite if unbounded.
    lipschitz: float = REQUIRED
    #: Largest curvature of the objective without its ridge, everywhere; infinite if it is not smooth.
    smoothness: float = REQUIRED
    #: Largest excess of parameters 0 over the minimum, for every data set; may be infinite.
    value_at_zero: float = REQUIRED
    #: The `smoothness` without the kinks that `kink` accounts for.
    #:
    #: ``E J(w + z) <= J(w) + kink E||z|| + curvature/2 E||z||^2`` for z of mean 0 and isotropic distribution, J the
    #: objective without its ridge.
    curvature: float = forwarded("smoothness")
    #: Largest excess of parameters 0, or their mean excess if public facts imply it (`LinearModelLoss.trivial`).
    trivial: float = forwarded("value_at_zero")

    @property
    def contrast(self) -> float:
        """Largest l2 distance between two records' (sub)gradients at the same parameters; by default ``2 L``.

        "The same parameters" may be those that minimize one of two neighboring objectives, and the subgradients a
        choice that optimality there allows: the lemmas need no more.
        """
        return 2 * self.lipschitz

    @abstractmethod
    def log_weight_ratio(self, radius: float) -> float:
        """Return the log of the largest ratio of two records' weights at parameters of norm at most `radius`.

        0 for an average, infinite where nothing is known. One record's weight is then at most ``C / (C + n - 1)`` with
        this log of C.
        """

    @abstractmethod
    def minimizer_norm(self, l2: float) -> float:
        """Return the largest l2 norm of a minimizer with regularization `l2` over all data sets, rounded up."""

    @abstractmethod
    def certifiable_radius(self, l2: float) -> float:
        """Return the smallest distance to the minimizer that can be certified for *every* data set at bearable cost."""

    @abstractmethod
    def objective(self, X: Array, y: Array, l2: float, groups: UserGroups | None = None) -> Objective:
        """Return the objective with that regularization on data, which are clipped here; `y` may be ignored.

        `groups` assigns records to users; it must be given if and only if the problem is `grouped`.
        """

    def constraint(self, radius: float) -> ConvexSet:
        """Return the set over which solvers minimize, for parameters of norm at most `radius` (may be infinite)."""
        return WholeSpace() if math.isinf(radius) else L2Ball(radius)

    def parameters(self, point: Floats) -> Floats:
        """Return the parameters (dim,) of a solver's point; distances do not grow. By default they are the same."""
        return point

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON-ready public facts."""
