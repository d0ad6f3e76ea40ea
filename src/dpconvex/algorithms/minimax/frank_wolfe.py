r"""Private Frank-Wolfe over a simplex or polytope: with full gradients, and in one pass with variance reduction.

One pass over binary trees (Asi, Feldman, Koren and Talwar 2021; reconstructed)
    Phase t walks a binary tree of depth t in depth-first order. The root estimates the gradient at the present point
    from a fresh batch; a left child copies its parent's point and estimate; a right child takes the present point and
    adds the *difference* of gradients there and at its parent's point, from a fresh batch. At each leaf a vertex is
    drawn, and a Frank-Wolfe step is taken.
Guarantee
    (epsilon, delta), or pure epsilon, for neighbors that replace one record.
Lemma, full gradients (Talwar, Thakurta and Zhang 2015)
    x is a function of the vertices drawn so far, so at the same x a mean of n clipped gradients moves by a vector of
    range at most ``spread/n``: every draw has range ``c spread/n``; T of them are charged together (`VertexDraws`).
Lemma, one pass
    A record sits in the batch of one node. At the same released points its gradient (root) moves the estimates of the
    leaves below by one vector of range ``spread/b``, b the node's batch; a difference of two gradients by one of range
    ``kappa spread/b``, where ``kappa spread`` is the smaller of ``2 spread`` (both are clipped) and of ``drift`` times
    the way between the two points. That way is public: the steps of the left subtree, each at most ``2 * 2/(k + 2)``
    in l1. So ``2^(t-s)`` draws have range ``c kappa spread/b``: zCDP ``2^(t-s) (c kappa spread/b)^2/8`` (erratum E10).
Bounds
    Full gradients: docs, Saddle points: the other methods. One pass, for the distribution of the records and S leaves:
    ``8 L1/(S + 2) + log(d)/c + 4 L sqrt(2 log(2 d) (1/b_0 + sum_s kappa_s^2/b_s))`` (Hoeffding).
"""

import math
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, IntArray, final_dataclass
from dpconvex.algorithms import PredictedError, check_relation, recorded, within_floats
from dpconvex.algorithms.minimax import base
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.plugins import of_paper
from dpconvex.privacy import PrivacyParams, Sensitivity
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

MOST_STEPS, MOST_PHASES = 2000, 12
# Tuned on simulated regression (docs, Saddle points) and on text with 58,052 words. Data rarely attain the worst
# curvature (R^2 times a squared feature), and the best number of steps grows with the power 2/3 of it.
FEWEST_STEPS = 10
CURVATURE_DIVISOR = 8
"""Assumed ratio of the worst curvature over the domain to that of data, for the default number of steps."""


@final_dataclass(eq=False)
class FrankWolfePlan(base.VertexSamplingPlan):
    """Public constants of one run with full gradients."""

    steps: int  #: number T of steps
    score_scale: float  #: factor c from gradients to scores
    bound: float  #: bound on the expected excess
    algorithm = "frank_wolfe"
    only_sums: ClassVar[bool] = True
    error_share = 0.12  # typical excess as a share of the bound with typical curvature
    constants = "calibrated"
    label = "vertices towards which steps are taken"
    assumptions = (base.CLIPPED,)
    theorem = "Private Frank-Wolfe (Talwar, Thakurta, Zhang 2015): exponential mechanisms of bounded range, composed."

    @cached_property
    def sampling(self) -> VertexSampling:
        moved = "a mean of n gradients, clipped record by record, at a released point"
        lemma = f"{moved} moves by a vector of range at most spread/n"
        eta = _rounding.product_up(self.score_scale, rounded_spread(self.problem), 1 / self.problem.n)
        squares = _rounding.product_up(eta, eta, float(self.steps))
        ranges = _rounding.product_up(eta, float(self.steps)) if self.privacy.pure else None
        return VertexSampling(Sensitivity(eta, "range", lemma), self.steps, squares, self.steps, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        return PredictedError(self.bound, self.problem.trivial_gap, "Frank-Wolfe with private linear minimization")

    @property
    def expectation(self) -> float:
        return self.error_share * _typical(self.problem, self.steps, self.score_scale)

    def describe(self) -> Mapping[str, Any]:
        return {"steps": self.steps, "score_scale": self.score_scale}

    def _run(self, records: Any, source: BitSource) -> base.SaddleResult:
        session, n, one = self.start(source), self.problem.n, SimplexPoint.uniform(1)
        x = SimplexPoint.uniform(self.problem.dx)
        for t in range(self.steps):
            gradient, _ = self.problem.gradient_sums(records, slice(0, n), x, one)
            x = x.plus_vertex(int(session.draw(-self.score_scale / n * gradient)[0]), 2 / (t + 2))
        return self.finish(x.dense(), np.ones(1), source)


def _typical(problem: SimplexSaddle, steps: int, scale: float) -> float:
    """Return the bound, ``8 L1/(T + 2) + log(d)/c``, with the typical share of the worst curvature."""
    return 8 * problem.smoothness / CURVATURE_DIVISOR / (steps + 2) + math.log(problem.dx) / scale


def rounded_spread(problem: SimplexSaddle) -> float:
    """Return the spread of gradients in x, enlarged by the rounding of their sums."""
    return _rounding.product_up(problem.spread[0], 1 + problem.sum_rounding)


def _require_smooth(problem: SimplexSaddle) -> None:
    base.require_single(problem)
    if not math.isfinite(problem.smoothness):
        raise InvalidParameterError("problem", problem.name, "must be smooth for Frank-Wolfe", "Use mirror descent")


@recorded("frank_wolfe")
def plan(problem: SimplexSaddle, privacy: PrivacyParams, *, steps: int | None = None) -> FrankWolfePlan:
    """Plan private Frank-Wolfe with full gradients for a smooth problem with ``dy = 1``.

    `steps` is T; the default, 10 to 2000, would minimize the bound if the curvature were an eighth of its bound.
    """
    check_relation(privacy)
    _require_smooth(problem)
    _validate.optional(_validate.integer, {"steps": steps}, at_least=1)
    spread, ell, smoothness = rounded_spread(problem), math.log(problem.dx), problem.smoothness
    budget = base.range_budget(privacy)

    def scale(T: int) -> float:
        each = budget / (T if privacy.pure else math.sqrt(T))
        return problem.n / spread * each / ENLARGEMENT**2 * (1 - 1e-6)

    with within_floats(problem.name):
        lengths = {round(2 ** (i / 8)) for i in range(8 * MOST_STEPS.bit_length())}
        counts = sorted(lengths - {0} & set(range(MOST_STEPS + 1)))
        T = steps or max(FEWEST_STEPS, min(counts, key=lambda T: _typical(problem, T, scale(T))))
        return FrankWolfePlan(problem, privacy, T, scale(T), 8 * smoothness / (T + 2) + ell / scale(T))


@final_dataclass
class Node:
    """One node that reads records, at depth s of the tree of phase t."""

    phase: int
    depth: int
    moved: float = 0.0  #: largest l1 distance that the point has moved since the parent's gradient was taken

    @property
    def leaves(self) -> int:
        """Number of draws that the node's records influence."""
        return 2 ** (self.phase - self.depth)

    def kappa(self, problem: SimplexSaddle) -> float:
        """Return the range by which a record moves the sum of the node's batch, in units of `rounded_spread`."""
        if self.depth == 0:
            return 1.0
        # Two sums are rounded, each by at most the share `sum_rounding` of the spread.
        drifted = problem.drift[0] * self.moved * (1 + 1e-9) + 2 * problem.sum_rounding * problem.spread[0]
        return min(2.0, drifted / problem.spread[0])


@cache
def walk(phases: int) -> tuple[tuple[Node, int], ...]:
    """Return, in the order of the walk, every node that reads records, and how many left children copy it."""
    found: list[tuple[Node, int]] = []
    for t in range(1, phases + 1):
        found.append((Node(t, 0), t))
        for leaf in range(1, 2**t):
            zeros = (leaf & -leaf).bit_length() - 1  # the leaf's path ends with 1 followed by so many left turns
            moved = sum(4 / (k + 2) for k in range(len(found) - 2**zeros, len(found)))  # its left sibling's leaves
            found.append((Node(t, t - zeros, min(2.0, moved)), zeros))
    return tuple(found)


@final_dataclass(eq=False)
class VarianceReducedPlan(base.VertexSamplingPlan):
    """Public constants of one run in one pass, either ``"calibrated"`` or those of the ``"paper"``."""

    constants: str
    phases: int  #: number P of phases
    sizes: IntArray  #: batch size of each node, in the order of the walk
    score_scales: tuple[float, ...]  #: factor c from gradients to scores, for each phase
    algorithm = "variance_reduced_frank_wolfe"
    label = "vertices at the leaves"
    error_share = 0.5
    theorem = "Private variance-reduced Frank-Wolfe (Asi, Feldman, Koren and Talwar 2021), reconstructed; zCDP."
    assumptions = (base.CLIPPED, base.PUBLIC_ORDER)

    @cached_property
    def sampling(self) -> VertexSampling:
        lemma = (
            "a record of one node's batch moves the estimates of all leaves below by one vector, of range at most "
            "kappa spread/b: kappa is 1 at a root; at most 2, and what the points' distance allows, for a difference "
            "of two clipped gradients"
        )
        nodes = [node for node, _ in walk(self.phases)]
        unit = rounded_spread(self.problem)
        kappas = [self.score_scales[node.phase - 1] * unit * node.kappa(self.problem) for node in nodes]
        etas, leaves = np.array(kappas) / self.sizes, np.array([node.leaves for node in nodes])
        largest, most = float(etas.max()) * (1 + 1e-12), int(leaves.max())
        squares = float((leaves * etas**2).max()) * (1 + 1e-12)
        ranges = float((leaves * etas).max()) * (1 + 1e-12) if self.privacy.pure else None
        drawn = 2 ** (self.phases + 1) - 2
        return VertexSampling(Sensitivity(largest, "range", lemma), most, squares, drawn, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        bound = _excess(self.problem, self.phases, self.sizes, self.score_scales[-1])
        what = "variance-reduced Frank-Wolfe, by Hoeffding's lemma for the estimates of the last phase"
        return PredictedError(bound, self.problem.trivial_gap, what)

    def describe(self) -> Mapping[str, Any]:
        return {"phases": self.phases, "score_scales": list(self.score_scales), "records_used": int(self.sizes.sum())}

    def _run(self, records: Any, source: BitSource) -> base.SaddleResult:
        problem, session, one = self.problem, self.start(source), SimplexPoint.uniform(1)
        x = SimplexPoint.uniform(problem.dx)
        points: list[SimplexPoint] = []  # points of the nodes on the path from the root, by depth
        estimates: list[Floats] = []
        nodes = zip(walk(self.phases), base.batch_slices(self.sizes), strict=True)
        for step, ((node, copies), rows) in enumerate(nodes):
            s, b = node.depth, rows.stop - rows.start
            estimate = problem.gradient_sums(records, rows, x, one)[0] / b
            if s > 0:  # a right child: its parent's estimate plus the difference of gradients between the two points
                before = problem.gradient_sums(records, rows, points[s - 1], one)[0] / b
                estimate = estimates[s - 1] + (estimate - before)
            points[s:], estimates[s:] = [x] * (copies + 1), [estimate] * (copies + 1)
            x = x.plus_vertex(int(session.draw(-self.score_scales[node.phase - 1] * estimate)[0]), 2 / (step + 2))
        return self.finish(x.dense(), np.ones(1), source)


def exposures(problem: SimplexSaddle, phases: int, pure: bool) -> Floats:
    """Return every node's weight, to which batches are proportional: its records' range times (the root of) draws."""
    return np.array([node.kappa(problem) * node.leaves ** (1.0 if pure else 0.5) for node, _ in walk(phases)])


def _excess(problem: SimplexSaddle, phases: int, sizes: IntArray, scale: float) -> float:
    """Return the bound on the expected excess."""
    # A leaf's estimate sums the root's gradient and at most one difference per depth.
    widest = [0.0] * (phases + 1)
    for (node, _), size in zip(walk(phases), sizes.tolist(), strict=True):
        if node.phase == phases:
            widest[node.depth] = max(widest[node.depth], node.kappa(problem) ** 2 / size)
    deviation = math.sqrt(2 * math.log(2 * problem.dx) * sum(widest))
    steps = 8 * problem.smoothness / 2 ** (phases + 1) + math.log(problem.dx) / scale
    return steps + 4 * problem.lipschitz[0] * deviation


@recorded("variance_reduced_frank_wolfe")
def plan_variance_reduced(
    problem: SimplexSaddle, privacy: PrivacyParams, *, constants: str = "calibrated", phases: int | None = None
) -> VarianceReducedPlan:
    """Plan the one-pass method for a smooth problem with ``dy = 1``.

    ``constants="calibrated"`` balances batches and minimizes the bound; ``"paper"`` has constants of Theorem 3.22 of
    the saddle-point paper (delta positive). `phases`, if given, is P, at most 12: the run takes ``2^(P+1) - 2`` steps
    and needs at least as many records.
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _require_smooth(problem)
    _validate.optional(_validate.integer, {"phases": phases}, at_least=1, at_most=MOST_PHASES)
    if problem.n < 2:
        raise InvalidParameterError("n", problem.n, "must be at least 2", "Use more records")
    most = max(1, min(MOST_PHASES, int(math.log2(problem.n + 2)) - 1))
    if phases is not None and phases > most:
        raise InvalidParameterError("phases", phases, f"must be at most {most} for n={problem.n}")
    budget = base.range_budget(privacy) / ENLARGEMENT**2 * (1 - 1e-6) / rounded_spread(problem)

    def constants_for(P: int) -> tuple[IntArray, tuple[float, ...]]:
        weights = exposures(problem, P, privacy.pure)
        sizes = base.batch_sizes(problem.n, weights)
        return sizes, (budget / float((weights / sizes).max()),) * P

    with within_floats(problem.name):
        if constants == "paper":
            P, sizes, scales = of_paper("variance_reduced_frank_wolfe")(problem, privacy, budget, most, phases)
        else:
            tried = {P: constants_for(P) for P in ([phases] if phases else range(1, most + 1))}
            P = min(tried, key=lambda count: _excess(problem, count, tried[count][0], tried[count][1][0]))
            sizes, scales = tried[P]
        return VarianceReducedPlan(problem, privacy, constants, P, sizes, scales)
