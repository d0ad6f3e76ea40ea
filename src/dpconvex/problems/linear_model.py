"""The public statement of a linear-model problem: loss, domain, size and the coefficients one wants to compete with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpconvex import _rounding, _validate
from dpconvex.losses.base import LinearModelLoss
from dpconvex.problems.domain import Block, DataDomain
from dpconvex.problems.erm import ROUNDING


@dataclass(frozen=True)
class LinearModelProblem:
    """Average loss of a linear model over `n` records of a domain. Holds no data.

    Parameters
    ----------
    loss : LinearModelLoss
        Convex loss of the predictions, with its proven constants.
    domain : DataDomain
        Where every record is clipped to, the constant feature included.
    n : int
        Number of records; public under replace-one neighbours.
    radius : float
        l2 norm R of the comparator: regularisation is chosen so that the model competes with every parameter vector
        up to this norm. It never affects privacy.
    """

    loss: LinearModelLoss
    domain: DataDomain
    n: int
    radius: float

    def __post_init__(self) -> None:
        _validate.integer("n", self.n, at_least=1)
        _validate.real("radius", self.radius, above=0.0)

    @property
    def dim(self) -> int:
        """Length of the flat parameter vector, all outputs together."""
        return self.loss.n_outputs * self.domain.dim

    @property
    def lipschitz(self) -> float:
        """Largest l2 norm of one record's gradient, rounded up; infinite if the slope is unbounded."""
        slope = self.loss.slope_bound
        return slope if math.isinf(slope) else _rounding.product_up(slope, self.domain.l2)

    @property
    def smoothness(self) -> float:
        """Largest curvature of one record's loss, rounded up; infinite if the loss is not smooth."""
        if math.isinf(self.loss.curvature_bound):
            return math.inf
        return _rounding.product_up(self.loss.curvature_bound, self.domain.l2, self.domain.l2)

    def tau(self, l2: float) -> float:
        """``X_2^2 / (n l2)``, rounded up: how far one record can bend the regularised objective."""
        return _rounding.ratio_up(_rounding.product_up(self.domain.l2, self.domain.l2), self.n * l2 * (1 - 1e-15))

    def certifiable_radius(self, l2: float, linear: float = 0.0) -> float:
        """Smallest distance to the minimiser that double precision certifies for *every* data set.

        Three times the rounding slack of the certificates at the longest minimiser there can be: ``J(w*) <= J(0)``
        and a vanishing gradient bound its length whatever the data are.

        Parameters
        ----------
        l2 : float
            Regularisation.
        linear : float
            Length of the linear term of the objective.
        """
        v = self.loss.value_at_zero
        size = min(math.sqrt(2 * v / l2), self.lipschitz / l2) + 2 * linear / l2
        if math.isinf(self.smoothness):  # a gap certifies: slack in values, then a square root
            v = self.lipschitz * size if math.isinf(v) else v  # unbounded targets: only differences of values count
            return 3 * math.sqrt(2 * ROUNDING * (v + (self.lipschitz + l2 * size) * size) / l2)
        return 3 * ROUNDING * (self.lipschitz + (self.smoothness + l2) * size + linear) / l2

    def describe(self) -> dict[str, Any]:
        """JSON-ready public facts."""
        return {
            "loss": self.loss.name,
            "n": self.n,
            "outputs": self.loss.n_outputs,
            "dim": self.domain.dim,
            "feature_l2": self.domain.l2,
            "intercept": self.domain.intercept,
            "radius": self.radius,
            "blocks": [{"name": b.name, "size": b.size, "norm": b.norm, "bound": b.bound} for b in self.domain.blocks],
        }


def default_radius(domain: DataDomain, n_outputs: int = 1) -> float:
    """Comparator norm for features scaled as a schema scales them: about 2 logits a block.

    Ours (objective perturbation, section 5): ``2 sqrt(m)`` for m blocks that are one-hot, numeric on [-1/2, 1/2] or
    the constant 1. Numeric columns of another half-width s count ``1/s``, an l2 ball of size k and bound s as k
    columns of half-width ``s/sqrt(k)``. Measured risk is insensitive to a factor of two either way.
    """
    typical = {"l1": _one_hot, "linf": _numeric, "l2": _ball}
    norm = math.sqrt(math.fsum(typical[block.norm](block) ** 2 for block in domain.all_blocks))
    # k outputs share one model's logits: two outputs +w/2 and -w/2 have norm ||w|| / sqrt(2).
    return norm if n_outputs == 1 else norm * math.sqrt(n_outputs) / 2


def _one_hot(block: Block) -> float:
    return 2 / block.bound


def _numeric(block: Block) -> float:
    return math.sqrt(block.size) / block.bound


def _ball(block: Block) -> float:
    return 2 * math.sqrt(block.size) / block.bound
