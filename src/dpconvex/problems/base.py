"""What a plan may know about the function that is minimized: public facts, of linear models and all others."""

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

from dpconvex._types import Array, Floats
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.expected_risk import TypicalData
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets import ConvexSet, L2Ball, WholeSpace

Aggregation = Literal["average", "tilted", "whole"]


class Problem(ABC):
    """Public statement of a convex problem over `n` records. Holds no data."""

    n: int  #: number of records, or of users; public under replace-one neighbors
    radius: float  #: l2 norm R of the parameters that one competes with
    grouped: bool = False  #: whether `n` counts users, each with any number of records
    #: Whether Lipschitz constants hold in the ball of norm `radius` only, where the minimization then stays.
    local: bool = False
    only_sums: bool = False  #: whether the objective is made of sums over single records that need nothing else
    #: What the caller declared about the objective and nobody enforces; privacy rests on it if not empty.
    claims: tuple[str, ...] = ()
    trusted: bool = True  #: whether a plan may rely on the `claims` for privacy
    #: Lipschitz constant (l2, on average over directions) of what is not smooth; 0 where `smoothness` says all.
    kink: float = 0.0
    #: What to expect of ordinary data; None where there is no model of them. Ranks plans, protects nothing.
    typical: TypicalData | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """What is minimized, in a word or two."""

    @property
    @abstractmethod
    def aggregation(self) -> Aggregation:
        """How records enter: by the average of their losses, by a log-sum-exp, or as a whole, in any way."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length of a parameter vector."""

    @property
    @abstractmethod
    def bounds(self) -> Bounds:
        """What solvers are chosen by."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """Largest l2 norm of one record's (sub)gradient, or of the whole one; infinite if unbounded."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """Largest curvature of the objective without its ridge, everywhere; infinite if it is not smooth."""

    @property
    def curvature(self) -> float:
        """As `smoothness`, but for kinks that `kink` accounts for.

        ``E J(w + z) <= J(w) + kink E||z|| + curvature/2 E||z||^2`` for z of mean 0 and isotropic distribution, J the
        objective without its ridge.
        """
        return self.smoothness

    @property
    @abstractmethod
    def value_at_zero(self) -> float:
        """Largest excess of parameters 0 over the minimum, for every data set; may be infinite."""

    @property
    def trivial(self) -> float:
        """What parameters 0 lose at most, or on average where public facts say so (`LinearModelLoss.trivial`)."""
        return self.value_at_zero

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
        """Return the largest l2 norm of a minimizer with regularization `l2`, whatever the data are, rounded up."""

    @abstractmethod
    def certifiable_radius(self, l2: float) -> float:
        """Return the smallest distance to the minimizer that can be certified for *every* data set at bearable cost."""

    @abstractmethod
    def objective(self, X: Array, y: Array, l2: float, groups: UserGroups | None = None) -> Objective:
        """Return the objective with that regularization on data, which are clipped here; `y` may be ignored.

        `groups` says whose record it is; it must be given if and only if the problem is `grouped`.
        """

    def constraint(self, radius: float) -> ConvexSet:
        """Return where solvers look for the minimizer over parameters of norm at most `radius` (may be infinite)."""
        return WholeSpace() if math.isinf(radius) else L2Ball(radius)

    def parameters(self, point: Floats) -> Floats:
        """Return the parameters (dim,) of a solver's point; distances do not grow. By default they are the same."""
        return point

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON-ready public facts."""
