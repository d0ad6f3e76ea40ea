r"""Anytime mirror descent with stale sparsified averages, for one simplex (Algorithm 5), repaired and calibrated.

Guarantee
    (epsilon, delta), or pure epsilon, for neighbors that replace one record, n public.
Lemma
    A query point at time t averages K vertices, each of an iterate ``x^i`` with i uniform in 1..t. These picks are
    public coins, drawn *before* the run, so the vertex is drawn at time i and used at time t, with the same joint law:
    an exponential mechanism on the score of one iterate, which a record of batch r moves, for ``i > r`` only, by a
    vector of range ``tau spread/|B_r|``: ``eta^2/8``-zCDP (docs, Anytime averages). The paper prices draws of the mean
    of the iterates, whose range can be twice that (erratum E5). Keeping a stale point draws nothing.
Assumptions
    As in `vertex_descent`: per-record clipping, planned disjoint batches, gradients at drawn points only, public coins.
Bound
    With ``l = log d``, for q > 1 and ``tau <= 1/(8 q L0)`` (an explicit form of Theorem 4.2, with erratum E6):

        l/(tau T) + tau L0^2/2 + 2 bias(K) + 8 tau q V(K) + 4 L1 q (1 + log(T/q))/T + 2 L1/K_out

    with `_moments` for bias and V. For q = 1 the terms with q are 0 and the step is free: no point is stale.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import IntArray, final_dataclass
from dpconvex.algorithms import PredictedError, check_relation, recorded, within_floats
from dpconvex.algorithms.minimax import base
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.plugins import of_paper
from dpconvex.privacy import PrivacyParams, Sensitivity
from dpconvex.privacy.profiles import charge, largest_rho
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

LEMMA = (
    "given the earlier draws and the public coins, a record of batch r moves the scores of iterates after r only, by "
    "one vector of range at most step * spread / batch size"
)
Fixed = tuple[int | None, int | None, int | None, int | None]
"""T, K, q and the number of draws of the output, each None unless the caller fixes it."""


@final_dataclass
class Shape:
    """Numbers of iterations and draws of a run."""

    T: int  #: number of iterations
    K: int  #: number of draws for a query point
    q: int  #: period, in iterations, with which query points are renewed
    output: int  #: number of draws for the output


@final_dataclass(eq=False)
class AnytimePlan(base.VertexSamplingPlan):
    """Public constants of one run, either ``"calibrated"`` or those of the ``"paper"``."""

    constants: str
    shape: Shape
    step: float  #: step size tau
    coins: int  #: seed of the public picks of iterates
    algorithm = "anytime_mirror_descent"
    error_share = 0.15
    label = "vertices of iterates, whose averages are the query points and the output"
    theorem = "Proposition 4.3 (anytime mirror descent), draws taken from single iterates picked by public coins; zCDP."

    @cached_property
    def picks(self) -> Mapping[int, IntArray]:
        """The iterates from which vertices are drawn, by the time of the fresh query point (T for the output)."""
        shape, generator = self.shape, np.random.default_rng(self.coins)  # public: the picks are no secret
        wanted = {t: shape.K for t in range(1, shape.T) if t <= shape.q or t % shape.q == 0}
        wanted[shape.T] = shape.output
        charge(10 * len(wanted) + sum(wanted.values()) / 4)
        return {t: generator.integers(1, t + 1, size=count) for t, count in wanted.items()}

    @cached_property
    def sizes(self) -> IntArray:
        """Batch sizes, shape (T - 1,)."""
        n, T = self.problem.n, self.shape.T
        if self.constants == "paper":
            return np.full(T - 1, n // T)
        return base.batch_sizes(n, np.sqrt(np.maximum(exposures(T, self.picks), 1.0)))

    @cached_property
    def sampling(self) -> VertexSampling:
        exposed = exposures(self.shape.T, self.picks)
        etas = self.step * self.problem.spread[0] / self.sizes * (1 + 1e-6)  # rounding of sums and scores
        largest = float(etas[np.flatnonzero(exposed)].max(initial=0.0)) or float(etas.min())
        squares = float((exposed * etas**2).max()) * (1 + 1e-12) or largest**2
        ranges = (float((exposed * etas).max()) or largest) * (1 + 1e-12) if self.privacy.pure else None
        limit = sum(map(len, self.picks.values()))
        return VertexSampling(Sensitivity(largest, "range", LEMMA), max(1, int(exposed.max())), squares, limit, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        bound = explicit_bound(self.problem, self.shape, self.step)
        return PredictedError(bound, self.problem.trivial_gap, "explicit form of Theorem 4.2 (docs, Saddle points)")

    def describe(self) -> Mapping[str, Any]:
        shape = self.shape
        facts = {"iterations": shape.T, "samples": shape.K, "period": shape.q, "output_samples": shape.output}
        return {**facts, "step": self.step, "coins": self.coins, "records_used": int(self.sizes.sum())}

    def _run(self, records: Any, source: BitSource) -> base.SaddleResult:
        problem, session, one = self.problem, self.start(source), SimplexPoint.uniform(1)
        due: dict[int, list[int]] = defaultdict(list)  # iterate -> times that need a vertex drawn from it
        for t, iterates in self.picks.items():
            for i in iterates.tolist():
                due[i].append(t)
        drawn: dict[int, list[int]] = defaultdict(list)  # time -> vertices drawn for it so far
        state, point = np.zeros(problem.dx), SimplexPoint.uniform(problem.dx)
        rows = base.batch_slices(self.sizes)
        for t in range(1, self.shape.T + 1):
            if due[t]:
                for time, vertex in zip(due[t], session.draw(state, len(due[t])).tolist(), strict=True):
                    drawn[time].append(vertex)
            if t in self.picks:  # a fresh query point; else the stale one
                point = SimplexPoint.average(np.array(drawn.pop(t)), problem.dx)
            if t < self.shape.T:
                batch = rows[t - 1]
                gradient, _ = problem.gradient_sums(records, batch, point, one)
                state += self.sampling.on_grid(-self.step / (batch.stop - batch.start) * gradient)
        return self.finish(point.dense(), np.ones(1), source)


def exposures(T: int, picks: Mapping[int, IntArray]) -> IntArray:
    """Return, for each of the T - 1 batches, the number of draws from later iterates; `picks` are those of a plan."""
    counts = np.bincount(np.concatenate(list(picks.values())), minlength=T + 2)
    after = counts.sum() - np.cumsum(counts)  # draws from iterates above each index
    return after[1:T]


@recorded("anytime_mirror_descent")
def plan(
    problem: SimplexSaddle, privacy: PrivacyParams,
    *, constants: str = "calibrated", iterations: int | None = None, samples: int | None = None,
    period: int | None = None, output_samples: int | None = None, step: float | None = None, coins: int = 0,
) -> AnytimePlan:  # fmt: skip
    """Return the plan of Algorithm 5 for a smooth problem with ``dy = 1``. Sees no data.

    ``constants="calibrated"`` minimizes the explicit bound under the zCDP accountant; ``"paper"`` takes the printed
    orders with constants 1 (delta positive). Values given replace these: `iterations`, `samples` and `period` are T, K
    and q, ``1 <= q <= T <= n``; `output_samples` the number of output draws; `step` is tau before the cap that
    privacy sets. `coins` is the seed of the public coins.
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.integer("coins", coins, at_least=0)
    base.require_single(problem, "Algorithm 5")
    if not math.isfinite(problem.smoothness) or problem.n < 2:
        raise InvalidParameterError("problem", problem.name, "must be smooth, with n >= 2", "Use Algorithm 1")
    _validate.optional(_validate.integer, {"iterations": iterations}, at_least=2)
    counts = {"samples": samples, "period": period, "output_samples": output_samples}
    _validate.optional(_validate.integer, counts, at_least=1)
    _validate.optional(_validate.real, {"step": step}, above=0.0)
    if period is not None and iterations is not None and period > iterations:
        raise InvalidParameterError("period", period, f"must be at most iterations={iterations}")
    with within_floats(problem.name):
        fixed = (iterations, samples, period, output_samples)
        if constants == "paper":
            shape, best = of_paper("anytime_mirror_descent")(problem, privacy.epsilon, privacy.delta, fixed)
        else:
            shape, best = calibrated(problem, base.range_budget(privacy), privacy.pure, fixed)
        if not 1 <= shape.q <= shape.T <= problem.n:
            what = f"must lie between the period {shape.q} and n={problem.n}"
            raise InvalidParameterError("iterations", shape.T, what)
        base.affordable(problem.n, shape.T)
        draft = AnytimePlan(problem, privacy, constants, shape, best, coins)
        exposed, sizes = exposures(shape.T, draft.picks), draft.sizes
        if privacy.pure:
            cap = privacy.epsilon / (problem.spread[0] * max(float((exposed / sizes).max()), 1e-300))
        else:
            rho = largest_rho(privacy.epsilon, privacy.delta)
            cap = math.sqrt(8 * rho / max(float((exposed / sizes**2).max()), 1e-300)) / problem.spread[0]
        return replace(draft, step=min(step or best, cap / ENLARGEMENT**2 * (1 - 1e-6)))


def _moments(problem: SimplexSaddle, K: int) -> tuple[float, float]:
    """Return bias and second moment of the gradient at an average of K vertices."""
    ell, L0, L1 = math.log(problem.dx), problem.lipschitz[0], problem.smoothness
    L2 = min(problem.second_smoothness, 1e150)
    # Corollary 2.14, for problems that are smooth of first order only; both moments are doubled, erratum E6.
    first = 8 * math.sqrt(2) * L1**2 / (K**1.5 * math.sqrt(4 + ell))
    first += 8 * math.sqrt(2) * (L0**2 + L1**2) * math.sqrt((4 + ell) / K)
    bias = min(2 * L2 / K, 4 * L1 / math.sqrt(K), 2 * L0)
    return bias, min(8 * L2**2 / K**2 + 8 * L1**2 * (4 + ell) / K, first, 4 * L0**2)


def _terms(problem: SimplexSaddle, shape: Shape) -> tuple[float, float, float]:
    """Return the coefficients of ``1/tau`` and ``tau`` in the bound, and its other terms."""
    ell, L1 = math.log(problem.dx), problem.smoothness
    bias, second = _moments(problem, shape.K)
    stale = shape.q > 1
    drift = 4 * L1 * shape.q * (1 + math.log(shape.T / shape.q)) / shape.T if stale else 0.0
    linear = problem.lipschitz[0] ** 2 / 2 + (8 * shape.q * second if stale else 0.0)
    return ell / shape.T, linear, 2 * bias + drift + 2 * L1 / shape.output


def explicit_bound(problem: SimplexSaddle, shape: Shape, step: float) -> float:
    """Return the bound on the expected excess risk; infinite where its condition on the step fails."""
    if shape.q > 1 and step > (1 + 1e-9) / (8 * shape.q * problem.lipschitz[0]):
        return math.inf
    inverse, linear, rest = _terms(problem, shape)
    return inverse / step + linear * step + rest


def _best_step(problem: SimplexSaddle, shape: Shape) -> float:
    inverse, linear, _ = _terms(problem, shape)
    best = math.sqrt(inverse / linear)
    return min(best, 1 / (8 * shape.q * problem.lipschitz[0])) if shape.q > 1 else best


def calibrated(problem: SimplexSaddle, budget: float, pure: bool, fixed: Fixed) -> tuple[Shape, float]:
    """Return the shape and step of the smallest bound; `budget` is ``sqrt(8 rho)``, with `pure` epsilon."""
    n, spread = problem.n, problem.spread[0]
    counts = [fixed[0]] if fixed[0] else sorted({max(2, round(n ** (i / 24))) for i in range(1, 25)})
    sparse = [fixed[1]] if fixed[1] else [2**i for i in range(11)]
    best: tuple[float, Shape, float] | None = None
    for T in counts:
        for q in [fixed[2]] if fixed[2] else [2**i for i in range(max(1, int(math.log2(T) / 2) + 1))]:
            for K in sparse:
                for output in [fixed[3]] if fixed[3] else (K, 4 * K, 16 * K, 64 * K):
                    shape = Shape(T, K, min(q, T), output)
                    draws = (K * (q + T // q - 1) + output) / 2  # about half are from iterates after a batch
                    root = draws if pure else math.sqrt(draws)
                    cap = 1.3 * budget * n / (T * spread * root)  # nearly; unequal batches gain about 1.3
                    step = min(cap, _best_step(problem, shape))
                    value = explicit_bound(problem, shape, step)
                    if best is None or value < best[0]:
                        best = (value, shape, step)
    if best is None or not math.isfinite(best[0]):
        raise InvalidParameterError("problem", problem.name, "must have moderate constants", "Rescale the data")
    return best[1], _best_step(problem, best[1])
