r"""One-pass private Frank-Wolfe with variance reduction over binary trees (Asi, Feldman, Koren and Talwar 2021).

Listing
    Phases t = 1 .. P. Phase t walks a binary tree of depth t in depth-first order. The root estimates the gradient at
    the present point from a fresh batch; a left child copies its parent's point and estimate; a right child takes the
    present point and adds the *difference* of gradients there and at its parent's point, from a fresh batch. At each
    of the ``2^t`` leaves a vertex is drawn by the exponential mechanism on the leaf's estimate, and a Frank-Wolfe
    step is taken.
Guarantee
    (epsilon, delta), or pure epsilon, for neighbours that replace one record.
Lemma
    A record sits in the batch of one node. At the same released points its gradient (root) moves the estimates of the
    leaves below by one vector of range ``spread/b``, a difference of two clipped gradients by at most ``2 spread/b``, b
    the node's batch. So ``2^(t-s)`` draws have range ``c kappa spread/b``, kappa 1 or 2: its zCDP cost is
    ``2^(t-s) (c kappa spread/b)^2/8``. Batches are sized to make all nodes cost the same.
Deviations
    Reconstructed from the method's outline, which the saddle-point paper only cites. The original lets privacy rest on
    smoothness (differences at near points are small); here it rests on the clipping alone, which costs the rate: the
    excess falls like ``sqrt(log(d)/(n epsilon))``. Exponential mechanism for the noisy maximum.
Bound
    ``4 L1 2/(S + 2) + log(d)/c + 4 max deviation of an estimate`` for S leaves in all; the last term by Hoeffding's
    lemma, ``L sqrt(2 log(2 d) (1/b_0 + 4 sum_s 1/b_s))`` in the last phase. For the distribution of the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms.base import check_relation, within_floats
from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult, batch_sizes, batch_slices
from dpconvex.algorithms.minimax.frank_wolfe.full_batch import require_single, rounded_spread
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms.vertex_sampling import ENLARGEMENT, VertexSampling
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems.minimax.base import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

LABEL = "vertices at the leaves"
LEMMA = (
    "a record of one node's batch moves the estimates of all leaves below by one vector, of range at most "
    "kappa spread/b: kappa is 1 at a root and 2 for a difference of two clipped gradients"
)
MOST_PHASES = 12


@final
@dataclass(frozen=True)
class Node:
    """One node that reads records.

    Parameters
    ----------
    phase, depth : int
        t and s.
    """

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
class VarianceReducedPlan(SaddlePlan):
    """Constants of one run.

    Parameters
    ----------
    problem : SimplexSaddle
        With ``dy = 1``.
    privacy : PrivacyParams
    phases : int
        P.
    score_scale : float
        c.
    bound : float
        On the expected excess.
    """

    problem: SimplexSaddle
    privacy: PrivacyParams
    phases: int
    score_scale: float
    bound: float
    constants: str = "calibrated"
    noise_name: str = "vertex sampling"
    algorithm: ClassVar[str] = "variance_reduced_frank_wolfe"

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Batch size of each node, in the order of the walk."""
        return _sizes(self.problem.n, self.phases, self.privacy.pure)

    @cached_property
    def sampling(self) -> VertexSampling:
        """All draws."""
        nodes = [node for node, _ in walk(self.phases)]
        unit = self.score_scale * rounded_spread(self.problem)
        etas = np.array([unit * node.kappa for node in nodes]) / self.sizes
        leaves = np.array([node.leaves for node in nodes])
        largest, most = float(etas.max()) * (1 + 1e-12), int(leaves.max())
        squares = float((leaves * etas**2).max()) * (1 + 1e-12)
        ranges = float((leaves * etas).max()) * (1 + 1e-12) if self.privacy.pure else None
        drawn = 2 ** (self.phases + 1) - 2
        return VertexSampling(Sensitivity(largest, "range", LEMMA), most, squares, drawn, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        """Bound on the expected excess."""
        return PredictedError(
            self.bound, self.problem.trivial_excess, "variance-reduced Frank-Wolfe, sensitivity from clipping alone"
        )

    @property
    def releases(self) -> tuple[Release, ...]:
        """All draws, in one entry."""
        return (self.sampling.planned(LABEL),)

    @property
    def expected_error(self) -> float:
        """Half the bound."""
        return 0.5 * self.bound

    @property
    def theorem(self) -> str:
        """The method."""
        return "Private variance-reduced Frank-Wolfe (Asi, Feldman, Koren and Talwar 2021), reconstructed; zCDP."

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the lemma needs."""
        return (
            Assumption("each record's gradient has the stated spread", "clipped record by record before any sum"),
            Assumption("the order of the records does not depend on their content", "declared"),
        )

    def describe(self) -> Mapping[str, Any]:
        """Phases and scale."""
        return {"phases": self.phases, "score_scale": self.score_scale, "records_used": int(self.sizes.sum())}

    def exact_bits(self, source: BitSource) -> bool:
        """As the sampler."""
        return self.sampling.exact_bits(source)

    def _listing(self, records: Any, source: BitSource) -> SaddleResult:
        problem, one = self.problem, SimplexPoint.uniform(1)
        session = self.sampling.start(LABEL, source, Ledger(self.privacy, self.releases))
        x = SimplexPoint.uniform(problem.dx)
        points: list[SimplexPoint] = []  # of the nodes on the way down from the root, by depth
        estimates: list[FloatArray] = []
        nodes = zip(walk(self.phases), batch_slices(self.sizes), strict=True)
        for step, ((node, copies), rows) in enumerate(nodes):
            s, b = node.depth, rows.stop - rows.start
            estimate = problem.gradient_sums(records, rows, x, one)[0] / b
            if s > 0:
                before = problem.gradient_sums(records, rows, points[s - 1], one)[0] / b
                estimate = estimates[s - 1] + (estimate - before)
            points[s:], estimates[s:] = [x] * (copies + 1), [estimate] * (copies + 1)
            vertex = int(session.draw(-self.score_scale * estimate)[0])
            x = x.plus_vertex(vertex, 2 / (step + 2))
        return self.finish(x.dense(), np.ones(1), source)


def _sizes(n: int, phases: int, pure: bool) -> NDArray[np.int64]:
    power = 1.0 if pure else 0.5
    return batch_sizes(n, np.array([node.kappa * node.leaves**power for node, _ in walk(phases)]))


@recorded("variance_reduced_frank_wolfe")
def plan_variance_reduced(
    problem: SimplexSaddle, privacy: PrivacyParams, *, phases: int | None = None
) -> VarianceReducedPlan:
    """Plan the one-pass method.

    Parameters
    ----------
    problem : SimplexSaddle
        Smooth, with ``dy = 1``.
    privacy : PrivacyParams
        Pure or approximate.
    phases : int, optional
        P, at most 12: ``2^(P+1) - 2`` steps and at least as many records. Default: what minimises the bound.

    Raises
    ------
    InvalidParameterError
        If the problem has a second player or is not smooth, or there are more nodes than records.
    """
    check_relation(privacy)
    require_single(problem)
    if phases is not None and _validate.integer("phases", phases, at_least=1) > MOST_PHASES:
        raise InvalidParameterError("phases", phases, f"must be at most {MOST_PHASES}")
    if problem.n < 2:
        raise InvalidParameterError("n", problem.n, "must be at least 2", "Use more records")
    budget = privacy.epsilon if privacy.pure else math.sqrt(8 * largest_rho(privacy.epsilon, privacy.delta))

    def constants(P: int) -> tuple[float, float]:
        sizes, nodes = _sizes(problem.n, P, privacy.pure), [node for node, _ in walk(P)]
        exposed = np.array([node.kappa * node.leaves ** (1.0 if privacy.pure else 0.5) for node in nodes]) / sizes
        scale = budget / (rounded_spread(problem) * float(exposed.max()) * ENLARGEMENT**2) * (1 - 1e-6)
        last = [size for size, node in zip(sizes, nodes, strict=True) if node.phase == P]
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
