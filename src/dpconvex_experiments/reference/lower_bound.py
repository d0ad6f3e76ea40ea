"""A problem on which no private method can do well: the packing of the heavy-tail paper's lower bound (Theorem 4.1)."""

import math
from typing import ClassVar, Literal

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.losses import SmoothLoss
from dpconvex.losses.base import Task
from dpconvex.problems import DataDomain, LinearModelProblem

RADIUS = 1.0
MOST = 10_000
"""The hardest p is sought for up to this many records that show the direction; it has about d log 2/epsilon."""


@final_dataclass
class LinearLoss(SmoothLoss):
    """``z``: the loss is ``<w, x>``, its gradient x; negative for some predictions, so in no list of losses."""

    name: ClassVar[str] = "linear"
    task: ClassVar[Task] = "regression"
    sides: ClassVar[Literal[1, 2]] = 2
    slope_bound = 1.0
    curvature_bound = 0.0
    value_at_zero = 0.0  # pyright: ignore[reportAssignmentType]

    def value(self, z: Floats, y: Floats) -> Floats:
        return z.copy()

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return np.ones_like(z)

    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        return np.zeros_like(z)

    def clip_targets(self, y: Array) -> Floats:
        return np.zeros(np.shape(y))


@final_dataclass
class PackingLaw:
    """Records that are 0 but with probability p, then ``p^(-1/k) nu``: ``G_k = 1``, mean ``p^(1-1/k) nu``.

    With the linear loss over the unit ball nothing but nu matters, and only about n p records show it.
    """

    k: float  #: order of the moment of gradients that is 1
    p: float  #: in (0, 1]
    direction: Floats  #: the unit vector nu

    @property
    def mean_norm(self) -> float:
        """``|E x|``, by which the minimal risk is below 0."""
        return self.moment(1.0)

    def moment(self, j: float) -> float:
        """Return ``G_j = (E |x|^j)^(1/j)``."""
        return self.p ** (1 / j - 1 / self.k)

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Return records, shape (n, dim)."""
        return np.outer(rng.random(n) < self.p, self.p ** (-1 / self.k) * self.direction)

    def excess(self, w: Floats) -> float:
        """Return the excess risk of a point (dim,) of the unit ball."""
        return self.mean_norm * (float(self.direction @ w) + RADIUS)


@final_dataclass(eq=False)
class HeavyTailedInstance:
    """A problem with data on which the lower bound holds; made by `heavy_tailed_lower_bound`."""

    problem: LinearModelProblem  #: the linear loss over the unit ball, on a domain that holds all records
    X: Floats  #: records, shape (n, dim)
    y: Floats  #: zeros (n,); they play no part
    law: PackingLaw  #: where the records are from; its `excess` scores a point
    least_excess: float  #: what no pure epsilon-DP method can go below on average over directions


def hardest(k: float, n: int, dim: int, epsilon: float) -> tuple[float, float]:
    r"""Return what every pure epsilon-DP method loses on average over some packing for ``G_k = 1``, and its p.

    A half-packing V of the sphere with ``2^d`` directions: an excess below ``D m/128`` identifies nu (Lemmas G.1, G.3),
    which fails with probability ``q/(2 (1 + q))`` at least, ``q = (|V| - 1) exp(-epsilon ceil(n p))``. Largest over p.
    """
    shown = np.arange(1, min(n, MOST) + 1)  # ceil(n p)
    log_q = dim * math.log(2.0) + math.log1p(-(2.0**-dim)) - epsilon * shown
    failure = 1 / (2 * (1 + np.exp(np.minimum(-log_q, 700.0))))
    losses = 2 * RADIUS * (shown / n) ** (1 - 1 / k) / 128 * failure
    return float(losses.max()), float(shown[losses.argmax()] / n)


def heavy_tailed_lower_bound(
    n: int, dim: int, *, epsilon: float, order: float = 2.0, seed: int = 0
) -> HeavyTailedInstance:
    """Return a hard instance for pure differential privacy with heavy tails, to test methods on.

    The loss is linear over the unit ball, the gradients have a moment of that order of exactly 1, and about
    ``d log(2)/epsilon`` of the records carry all information. No method that is epsilon-DP has a smaller mean excess
    risk, over random directions, than `least_excess` (Lowy 2026, Theorem 4.1, with its constants).

    Parameters
    ----------
    n : int
        Number of records.
    dim : int
        Number of parameters.
    epsilon : float
        Privacy budget of the methods to be tested.
    order : float, default=2
        k, above 1.
    seed : int, default=0
        Seed of the direction and the records, which are public.

    Examples
    --------
    >>> from dpconvex.algorithms.erm.heavy_tailed.registry import heavy_plans
    >>> from dpconvex.privacy import PrivacyParams
    >>> from dpconvex_experiments.reference.lower_bound import heavy_tailed_lower_bound
    >>> from dpconvex.randomness import SeededSource
    >>> hard = heavy_tailed_lower_bound(20_000, 10, epsilon=1.0)
    >>> plan = heavy_plans(hard.problem, PrivacyParams(1.0), None, None, "heavy_tailed")[0]
    >>> point = plan.run(hard.X, hard.y, SeededSource(0)).point
    >>> bool(hard.least_excess < hard.law.excess(point) < 2 * hard.law.mean_norm)
    True
    """
    _validate.integer("n", n, at_least=1)
    _validate.integer("dim", dim, at_least=1)
    _validate.real("epsilon", epsilon, above=0.0)
    _validate.real("order", order, above=1.0)
    rng = np.random.default_rng(seed)
    least, p = hardest(order, n, dim, epsilon)
    direction = rng.standard_normal(dim)
    law = PackingLaw(order, p, direction / np.linalg.norm(direction))
    problem = LinearModelProblem(LinearLoss(), DataDomain.l2_ball(dim, (1 + 1e-9) * p ** (-1 / order)), n, RADIUS)
    return HeavyTailedInstance(problem, law.draw(n, rng), np.zeros(n), law, least)
