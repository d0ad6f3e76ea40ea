r"""Private Frank-Wolfe over a simplex or polytope: with full gradients, and in one pass with variance reduction.

Full gradients (Talwar, Thakurta and Zhang 2015; exponential mechanism, zCDP)
    From the center: for t = 0 .. T-1 draw a vertex with probability proportional to ``exp(-c (mean gradient at x)_j)``;
    ``x <- (1 - 2/(t+2)) x + 2/(t+2) e_j``. The last x is returned.
One pass over binary trees (Asi, Feldman, Koren and Talwar 2021)
    Phases t = 1 .. P. Phase t walks a binary tree of depth t in depth-first order. The root estimates the gradient at
    the present point from a fresh batch; a left child copies its parent's point and estimate; a right child takes the
    present point and adds the *difference* of gradients there and at its parent's point, from a fresh batch. At each
    of the ``2^t`` leaves a vertex is drawn by the exponential mechanism on the leaf's estimate, and a Frank-Wolfe
    step is taken.
Guarantee
    (epsilon, delta), or pure epsilon, for neighbors that replace one record.
Lemma, full gradients
    x is a function of the vertices drawn so far, so at the same x a mean of n clipped gradients moves by a vector of
    range at most ``spread/n``: every draw has range ``c spread/n``; T of them are charged together (`VertexDraws`).
Lemma, one pass
    A record sits in the batch of one node. At the same released points its gradient (root) moves the estimates of the
    leaves below by one vector of range ``spread/b``, a difference of two clipped gradients by at most ``2 spread/b``, b
    the node's batch. So ``2^(t-s)`` draws have range ``c kappa spread/b``, kappa 1 or 2: its zCDP cost is
    ``2^(t-s) (c kappa spread/b)^2/8``. Batches are sized to make all nodes cost the same.
Deviations, one pass
    Reconstructed from the method's outline, which the saddle-point paper only cites. The original lets privacy rest on
    smoothness (differences at near points are small); here it rests on the clipping alone, which costs the rate: the
    excess falls like ``sqrt(log(d)/(n epsilon))``. Exponential mechanism for the noisy maximum.
Bound, full gradients
    With f L1-smooth in the l1 norm (curvature at most ``4 L1`` on the simplex) and an expected linear error of
    ``log(d)/c`` a step, ``E excess <= 8 L1/(T + 2) + log(d)/c`` on the data, ``c = (n/spread) sqrt(8 rho/T)``: T
    balances the two, for the optimal rate ``(log d/(n epsilon))^(2/3)``.
Bound, one pass
    ``4 L1 2/(S + 2) + log(d)/c + 4 max deviation of an estimate`` for S leaves in all; the last term by Hoeffding's
    lemma, ``L sqrt(2 log(2 d) (1/b_0 + 4 sum_s 1/b_s))`` in the last phase. For the distribution of the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms import PredictedError, check_relation, recorded, within_floats
from dpconvex.algorithms.minimax.base import (
    CLIPPED,
    PUBLIC_ORDER,
    SaddleResult,
    VertexSamplingPlan,
    batch_sizes,
    batch_slices,
    range_budget,
    require_single,
)
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling
from dpconvex.mechanisms.vertex_sampling import ENLARGEMENT
from dpconvex.privacy import PrivacyParams, Sensitivity
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

MOST_STEPS, MOST_PHASES = 2000, 12
# Tuned on simulated regression (docs, Saddle points) and on text with 58,052 words. Data rarely attain the worst
# curvature (R^2 times a squared feature), and the best number of steps grows with the power 2/3 of it.
FEWEST_STEPS = 10
CURVATURE_DIVISOR = 8
"""By how much the curvature that is met falls short of the worst over the domain, for the default number of steps."""


@final
@dataclass(frozen=True, eq=False)
class FrankWolfePlan(VertexSamplingPlan):
    """Constants of one run with full gradients."""

    steps: int  #: T
    score_scale: float  #: c
    bound: float  #: on the expected excess
    algorithm = "frank_wolfe"
    error_share = 0.12  # of the error with typical curvature
    constants = "calibrated"
    label = "vertices towards which steps are taken"
    assumptions = (CLIPPED,)
    theorem = (
        "Private Frank-Wolfe (Talwar, Thakurta and Zhang 2015): exponential mechanisms of bounded range, composed."
    )

    @cached_property
    def sampling(self) -> VertexSampling:
        lemma = (
            "a mean of n gradients, clipped record by record, at a released point moves by a vector of range at most "
            "spread/n"
        )
        eta = _rounding.product_up(self.score_scale, rounded_spread(self.problem), 1 / self.problem.n)
        squares = _rounding.product_up(eta, eta, float(self.steps))
        ranges = _rounding.product_up(eta, float(self.steps)) if self.privacy.pure else None
        return VertexSampling(Sensitivity(eta, "range", lemma), self.steps, squares, self.steps, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        return PredictedError(self.bound, self.problem.trivial_gap, "Frank-Wolfe with private linear minimisation")

    @property
    def expectation(self) -> float:
        return self.error_share * _typical(self.problem, self.steps, self.score_scale)

    def describe(self) -> Mapping[str, Any]:
        return {"steps": self.steps, "score_scale": self.score_scale}

    def _run(self, records: Any, source: BitSource) -> SaddleResult:
        session, n, one = self.start(source), self.problem.n, SimplexPoint.uniform(1)
        x = SimplexPoint.uniform(self.problem.dx)
        for t in range(self.steps):
            gradient, _ = self.problem.gradient_sums(records, slice(0, n), x, one)
            vertex = int(session.draw(-self.score_scale / n * gradient)[0])
            x = x.plus_vertex(vertex, 2 / (t + 2))
        return self.finish(x.dense(), np.ones(1), source)


def _typical(problem: SimplexSaddle, steps: int, scale: float) -> float:
    """The bound with a share of the worst curvature."""
    return 8 * problem.smoothness / CURVATURE_DIVISOR / (steps + 2) + math.log(problem.dx) / scale


def rounded_spread(problem: SimplexSaddle) -> float:
    """Return the spread of gradients in x, with the rounding of their sums."""
    return _rounding.product_up(problem.spread[0], 1 + problem.sum_rounding)


def _require_smooth(problem: SimplexSaddle) -> None:
    require_single(problem)
    if not math.isfinite(problem.smoothness):
        raise InvalidParameterError("problem", problem.name, "must be smooth for Frank-Wolfe", "Use mirror descent")


@recorded("frank_wolfe")
def plan(problem: SimplexSaddle, privacy: PrivacyParams, *, steps: int | None = None) -> FrankWolfePlan:
    """Plan private Frank-Wolfe with full gradients for a smooth problem with ``dy = 1``.

    `steps` is T; default: what would minimize the bound if the curvature were an eighth of its bound, 10 to 2000.
    """
    check_relation(privacy)
    _require_smooth(problem)
    if steps is not None:
        _validate.integer("steps", steps, at_least=1)
    spread, ell, smoothness = rounded_spread(problem), math.log(problem.dx), problem.smoothness
    budget = range_budget(privacy)

    def scale(T: int) -> float:
        each = budget / (T if privacy.pure else math.sqrt(T))
        return problem.n / spread * each / ENLARGEMENT**2 * (1 - 1e-6)

    with within_floats(problem.name):
        counts = sorted(
            {round(2 ** (i / 8)) for i in range(8 * MOST_STEPS.bit_length())} & set(range(1, MOST_STEPS + 1))
        )
        T = steps or max(FEWEST_STEPS, min(counts, key=lambda T: _typical(problem, T, scale(T))))
        return FrankWolfePlan(problem, privacy, T, scale(T), 8 * smoothness / (T + 2) + ell / scale(T))


@final
@dataclass(frozen=True)
class Node:
    """One node that reads records, at depth s of the tree of phase t."""

    phase: int
    depth: int

    @property
    def kappa(self) -> int:
        """Sum of the magnitudes of its gradients' coefficients."""
        return 1 if self.depth == 0 else 2

    @property
    def leaves(self) -> int:
        """Draws that its records influence."""
        return 2 ** (self.phase - self.depth)


def walk(phases: int) -> Iterator[tuple[Node, int]]:
    """Yield, in the order of the walk, every node that reads records, and the number of copies that follow it.

    A node of depth s in phase t is followed by ``t - s`` left children, which copy it, down to a leaf.
    """
    for t in range(1, phases + 1):
        yield Node(t, 0), t
        for leaf in range(1, 2**t):
            zeros = (leaf & -leaf).bit_length() - 1  # the leaf's path ends with 1 followed by so many left turns
            yield Node(t, t - zeros), zeros


@final
@dataclass(frozen=True, eq=False)
class VarianceReducedPlan(VertexSamplingPlan):
    """Constants of one run in one pass."""

    phases: int  #: P
    score_scale: float  #: c
    bound: float  #: on the expected excess
    algorithm = "variance_reduced_frank_wolfe"
    constants = "calibrated"
    label = "vertices at the leaves"
    error_share = 0.5
    theorem = "Private variance-reduced Frank-Wolfe (Asi, Feldman, Koren and Talwar 2021), reconstructed; zCDP."
    assumptions = (CLIPPED, PUBLIC_ORDER)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Batch size of each node, in the order of the walk."""
        return batch_sizes(self.problem.n, _exposures(self.phases, self.privacy.pure))

    @cached_property
    def sampling(self) -> VertexSampling:
        lemma = (
            "a record of one node's batch moves the estimates of all leaves below by one vector, of range at most "
            "kappa spread/b: kappa is 1 at a root and 2 for a difference of two clipped gradients"
        )
        nodes = [node for node, _ in walk(self.phases)]
        unit = self.score_scale * rounded_spread(self.problem)
        etas = np.array([unit * node.kappa for node in nodes]) / self.sizes
        leaves = np.array([node.leaves for node in nodes])
        largest, most = float(etas.max()) * (1 + 1e-12), int(leaves.max())
        squares = float((leaves * etas**2).max()) * (1 + 1e-12)
        ranges = float((leaves * etas).max()) * (1 + 1e-12) if self.privacy.pure else None
        drawn = 2 ** (self.phases + 1) - 2
        return VertexSampling(Sensitivity(largest, "range", lemma), most, squares, drawn, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        what = "variance-reduced Frank-Wolfe, sensitivity from clipping alone"
        return PredictedError(self.bound, self.problem.trivial_gap, what)

    def describe(self) -> Mapping[str, Any]:
        return {"phases": self.phases, "score_scale": self.score_scale, "records_used": int(self.sizes.sum())}

    def _run(self, records: Any, source: BitSource) -> SaddleResult:
        problem, session, one = self.problem, self.start(source), SimplexPoint.uniform(1)
        x = SimplexPoint.uniform(problem.dx)
        points: list[SimplexPoint] = []  # of the nodes on the way down from the root, by depth
        estimates: list[FloatArray] = []
        nodes = zip(walk(self.phases), batch_slices(self.sizes), strict=True)
        for step, ((node, copies), rows) in enumerate(nodes):
            s, b = node.depth, rows.stop - rows.start
            estimate = problem.gradient_sums(records, rows, x, one)[0] / b
            if s > 0:  # a right child: its parent's estimate, and the difference from there to here
                before = problem.gradient_sums(records, rows, points[s - 1], one)[0] / b
                estimate = estimates[s - 1] + (estimate - before)
            points[s:], estimates[s:] = [x] * (copies + 1), [estimate] * (copies + 1)
            vertex = int(session.draw(-self.score_scale * estimate)[0])
            x = x.plus_vertex(vertex, 2 / (step + 2))
        return self.finish(x.dense(), np.ones(1), source)


def _exposures(phases: int, pure: bool) -> FloatArray:
    """Weight of every node, for batches in proportion: its records' range, times the (root of the) draws they meet."""
    return np.array([node.kappa * node.leaves ** (1.0 if pure else 0.5) for node, _ in walk(phases)])


@recorded("variance_reduced_frank_wolfe")
def plan_variance_reduced(
    problem: SimplexSaddle, privacy: PrivacyParams, *, phases: int | None = None
) -> VarianceReducedPlan:
    """Plan the one-pass method for a smooth problem with ``dy = 1``.

    `phases` is P, at most 12: ``2^(P+1) - 2`` steps and at least as many records. Default: what minimizes the bound.
    """
    check_relation(privacy)
    _require_smooth(problem)
    if phases is not None and _validate.integer("phases", phases, at_least=1) > MOST_PHASES:
        raise InvalidParameterError("phases", phases, f"must be at most {MOST_PHASES}")
    if problem.n < 2:
        raise InvalidParameterError("n", problem.n, "must be at least 2", "Use more records")
    budget = range_budget(privacy)

    def constants(P: int) -> tuple[float, float]:
        weights = _exposures(P, privacy.pure)
        sizes = batch_sizes(problem.n, weights)
        scale = budget / (rounded_spread(problem) * float((weights / sizes).max()) * ENLARGEMENT**2) * (1 - 1e-6)
        last = [size for size, (node, _) in zip(sizes, walk(P), strict=True) if node.phase == P]
        # A leaf's estimate adds the root's batch and at most one difference a depth, of twice the width.
        smallest = sorted(last)[:P]
        deviation = math.sqrt(2 * math.log(2 * problem.dx) * (1 / last[0] + 4 * sum(1 / b for b in smallest)))
        error = 8 * problem.smoothness / (2 ** (P + 1)) + math.log(problem.dx) / scale
        return error + 4 * problem.lipschitz[0] * deviation, scale

    most = max(1, min(MOST_PHASES, int(math.log2(problem.n + 2)) - 1))
    if phases is not None and phases > most:
        raise InvalidParameterError("phases", phases, f"must be at most {most} for n={problem.n}")
    with within_floats(problem.name):
        P = phases or min(range(1, most + 1), key=lambda count: constants(count)[0])
        bound, scale = constants(P)
        return VarianceReducedPlan(problem, privacy, P, scale, bound)
