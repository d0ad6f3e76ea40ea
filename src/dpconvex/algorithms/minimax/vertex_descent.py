r"""Mirror descent with vertex sampling (Gonzalez, Guzman and Paquette 2024, Algorithm 1), repaired and calibrated.

Guarantee
    (epsilon, delta)-DP, or epsilon-DP, for neighbors that replace one record, n public.
Lemma
    A record sits in one batch r and enters all later scores through one term, ``step g^r``, evaluated at points that
    are functions of earlier draws. So *given the earlier draws* the scores of every later draw move by one vector, of
    range at most ``step_b spread_b/|B_r|`` in block b. Each draw then costs that range squared over 8 in zCDP, and zCDP
    adds up over adaptive draws; draws before the batch cost nothing. The charge is the worst r (`calibrated`).
    Nothing is claimed for sampling: batches are disjoint and the state keeps every past gradient.
Assumptions, each enforced
    Gradients are clipped record by record (`SimplexSaddle`), sums are divided by the planned batch size, batches are
    disjoint slices of a fixed order, gradients are taken at drawn points only and never at the iterates, every draw is
    charged (query points, and fresh output draws), the schedule sees public facts only, scores are kept exactly on a
    grid and drawn from exactly (`VertexSampling`), non-finite numbers become 0.
Schedule
    Iterations, samples, batch sizes and steps follow from public facts alone. With ``m_r`` draws made after batch r and
    the step ``t_b`` of block b, the zCDP cost is ``max_r (m_r/|B_r|^2) sum_b (t_b spread_b)^2/8``. The explicit bound
    on the expected gap is that of the docs (Saddle points). Bilinear games re-use the query points and, with equal
    weights, do not pay the price of fresh output draws. Tapered outputs have no proved bound.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, IntArray, final_dataclass, forwarded
from dpconvex.algorithms import PredictedError, check_relation, recorded, within_floats
from dpconvex.algorithms.base import beyond_floats
from dpconvex.algorithms.minimax import base
from dpconvex.algorithms.minimax.base import affordable, batch_sizes
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling, VertexSession
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.plugins import of_paper
from dpconvex.privacy import PrivacyParams, Sensitivity
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

MOST_SAMPLES = 4096  # largest number K of samples that is considered


@final_dataclass
class Tuning:
    """Shares measured on simulated games (docs, Saddle points); they affect choices only, never the privacy."""

    slack_share: float = 1 / 16  #: measured cost of sampling (bias and output terms) as a share of its bound
    # Measured share of the terms (5/2) t_b L_b^2 of noisy gradients. For averages with equal weights of bilinear games
    # the whole term counts: larger steps make the path cycle, and such an average depends on where in a cycle it stops.
    noise_share: float = 1 / 8
    # Share of the iterations over which the weights of a tapered output rise, and again fall. A path that cycles around
    # the saddle point is averaged out by weights without jumps; the rise also leaves out the start.
    ramp: float = 1 / 3
    gap_share: float = 1 / 4  #: measured gap as a share of the score, for `Schedule.expected`


TUNING = Tuning()


@final_dataclass(eq=False)
class Layout:
    """Numbers of iterations and draws, and which draws follow which batch."""

    T: int  #: number of iterations, at least 2; all but the last take gradients
    K: int  #: number of draws for one query point
    reuse: bool  #: whether the output averages the query points themselves, or one fresh draw of each iterate
    balanced: bool  #: whether early batches, to whose records more draws are exposed, are larger
    pure: bool = False  #: whether ranges are summed instead of their squares
    tapered: bool = False  #: whether the output's weights rise from 0 and fall again (no privacy cost)

    @cached_property
    def output_weights(self) -> Floats:
        """Weights of the released points in the output, (T,), of sum 1."""
        place = (np.arange(self.T) + 0.5) / self.T
        weights = np.minimum(1.0, np.minimum(place, 1 - place) / TUNING.ramp) if self.tapered else np.ones(self.T)
        return weights / weights.sum()

    @cached_property
    def draws_after(self) -> IntArray:
        """Number of draws in each block after each of the T - 1 batches, shape (T - 1,)."""
        left = self.T - np.arange(1, self.T)
        return self.K * left if self.reuse else (self.K + 1) * (left - 1) + 1  # the last query point is not drawn

    @property
    def draws(self) -> int:
        """Total number of draws in each block."""
        return self.K * self.T if self.reuse else (self.K + 1) * self.T - self.K

    @cached_property
    def _exposed(self) -> Floats:
        """Roots of the numbers of draws after each batch; for pure privacy the numbers themselves."""
        exposed = self.draws_after.astype(np.float64)
        return exposed if self.pure else np.sqrt(exposed)

    @property
    def _weights(self) -> Floats:
        return self._exposed if self.balanced else np.ones(self.T - 1)

    def sizes(self, n: int) -> IntArray:
        """Return the batch sizes, shape (T - 1,)."""
        return batch_sizes(n, self._weights)

    def exposure(self, sizes: IntArray) -> float:
        """Return the largest of ``sqrt(m_r)/|B_r|``, or of ``m_r/|B_r|`` for pure privacy."""
        return float((self._exposed / sizes).max())

    def roughly(self, n: int) -> float:
        """Return `exposure` before batches are rounded to whole records."""
        level = max(n - (self.T - 1) / 2, 1.0) / float(self._weights.sum())
        return float((self._exposed / self._weights).max()) / level


@final_dataclass
class Bound:
    """The explicit bound for a problem, with or without re-used outputs."""

    problem: SimplexSaddle
    reuse: bool
    noise_share: float = TUNING.noise_share  #: weight of the noise terms in the score; 1 for the bound itself
    slack_share: float = TUNING.slack_share

    @property
    def ells(self) -> tuple[float, float]:
        """Logarithms of the numbers of vertices."""
        return math.log(self.problem.dx), math.log(self.problem.dy)

    @property
    def single(self) -> bool:
        """Whether there is no maximization."""
        return self.problem.dy == 1

    def best_steps(self, T: int) -> tuple[float, float]:
        """Return the steps that minimize the score without regard to privacy."""
        factor = (2.0 if self.single else 0.8) / self.noise_share
        return tuple(  # pyright: ignore[reportReturnType]
            math.sqrt(factor * ell / T) / L if ell and L else 0.0
            for ell, L in zip(self.ells, self.problem.lipschitz, strict=True)
        )

    def steps(self, T: int, cap: float, pure: bool) -> tuple[float, float]:
        """Return nearly the best steps within ``(sum_b (t_b spread_b)^p)^(1/p) <= cap``, p = 1 or 2."""
        best, spread = self.best_steps(T), self.problem.spread
        # Where the cap binds, ``(l_b/spread_b^p)^(1/(1+p))`` minimizes ``sum l_b/t_b``.
        norm = 1 if pure else 2
        if float(np.linalg.norm(np.multiply(best, spread), norm)) <= cap:
            return best
        pairs = zip(self.ells, spread, strict=True)
        shape = [(ell / s**norm) ** (1 / (1 + norm)) if ell and s else 0.0 for ell, s in pairs]
        scale = cap / float(np.linalg.norm(np.multiply(shape, spread), norm))
        found = [scale * value if s else b for value, s, b in zip(shape, spread, best, strict=True)]
        for b, other in ((0, 1), (1, 0)):
            if found[b] > best[b] and spread[other]:
                rest = cap**norm - (best[b] * spread[b]) ** norm
                found[b], found[other] = best[b], min(best[other], max(rest, 0.0) ** (1 / norm) / spread[other])
                break
        return found[0], found[1]

    def bias(self, K: int) -> float:
        """Return a bound on the bias of gradients at averages of K vertices, times the diameter."""
        problem, joint = self.problem, 1.0 if self.single else 2.0
        if problem.bilinear or problem.second_smoothness == 0:
            return 0.0
        second = 2 * joint * problem.second_smoothness / K
        first = 4 * math.sqrt(joint) * problem.smoothness / math.sqrt(K)
        return 2 * joint * min(second, first, 2 * max(problem.lipschitz))

    def _regret(self, T: int, steps: tuple[float, float], noise_share: float) -> float:
        """Return the first terms of the bound; infinite if a step is 0 that must be positive."""
        total = 0.0
        twice, square = (1.0, 0.5) if self.single else (2.0, 2.5)
        for ell, step, L in zip(self.ells, steps, self.problem.lipschitz, strict=True):
            if ell and L:
                total += twice * ell / (step * T) + square * noise_share * step * L**2 if step > 0 else math.inf
        return total

    def slack(self, T: int, K: int) -> float:
        """Return the other terms of the bound, the cost of sampling."""
        if self.reuse:
            return self.bias(K)
        ell, smooth = sum(self.ells), min(self.problem.smoothness, 1e300)
        # Lemma 3.11 with 4 L1 sqrt(l/T): erratum E4.
        output = 2 * smooth / T if self.single else 4 * smooth / T + 4 * smooth * math.sqrt(ell / T)
        return self.bias(K) + min(output, 2 * sum(self.problem.lipschitz))

    def value(self, T: int, K: int, steps: tuple[float, float]) -> float:
        """Return the bound; infinite for re-used outputs of games that are not bilinear, which have no proved bound."""
        proved = self.problem.bilinear or not self.reuse
        return self._regret(T, steps, 1.0) + self.slack(T, K) if proved else math.inf

    def score(self, T: int, K: int, steps: tuple[float, float]) -> float:
        """Return the objective of the choice of T and K: the bound with the measured shares of its terms."""
        return self._regret(T, steps, self.noise_share) + self.slack_share * self.slack(T, K)


@final_dataclass(eq=False)
class Schedule:
    """Public constants of one run."""

    layout: Layout
    sizes: IntArray  #: batch sizes, (T - 1,)
    steps: tuple[float, float]  #: step sizes of x and of y
    bound: float  #: bound on the expected gap; infinite without a proof: tapered, or re-used if not bilinear
    expected: float  #: typical gap, the measured share of the score; for comparisons only

    @classmethod
    def of(cls, layout: Layout, sizes: IntArray, steps: tuple[float, float], bound: Bound) -> "Schedule":
        """Return the schedule with its errors."""
        T, K = layout.T, layout.K
        expected = TUNING.gap_share * Bound(bound.problem, bound.reuse).score(T, K, steps)
        return cls(layout, sizes, steps, math.inf if layout.tapered else bound.value(T, K, steps), expected)


def calibrated(
    problem: SimplexSaddle, budget: float, *, pure: bool, reuse: bool, balanced: bool = True,
    T: int | None = None, K: int | None = None, measured: bool = True, tapered: bool = False,
) -> Schedule:  # fmt: skip
    """Return the schedule of the smallest `Bound.score`; `budget` is ``sqrt(8 rho)``, with `pure` epsilon."""
    if problem.n < 2:
        raise InvalidParameterError("n", problem.n, "must be at least 2", "One record cannot be learned from privately")
    n, noise_share = problem.n, TUNING.noise_share if measured and (tapered or not problem.bilinear) else 1.0
    bound = Bound(problem, reuse, noise_share, TUNING.slack_share if measured else 1.0)
    candidates = [T] if T is not None else np.unique(np.geomspace(2, min(n, 10**6), 60).astype(int)).tolist()
    wanted = 1 if K is None and bound.bias(1) == 0 else K
    samples = [wanted] if wanted is not None else np.unique(np.geomspace(1, MOST_SAMPLES, 37).astype(int)).tolist()
    best = (math.inf, candidates[0], samples[0])
    for t in candidates:
        base = Layout(t, 1, reuse, balanced, pure).roughly(n)
        for k in samples:
            more = k if reuse else (k + 1) / 2  # factor of the draws, hence of squared ranges
            cap = budget / (base * (more if pure else math.sqrt(more)))
            best = min(best, (bound.score(t, k, bound.steps(t, cap, pure)), t, k))
    iterations = best[1]
    if T is None and not balanced:  # batches of equal size that use all records
        iterations = max(2, min(n, n // max(1, round(n / (best[1] - 1))) + 1))
    affordable(n, iterations)
    layout = Layout(iterations, best[2], reuse, balanced, pure, tapered)
    sizes = layout.sizes(n)
    return Schedule.of(layout, sizes, bound.steps(layout.T, budget / layout.exposure(sizes), pure), bound)


OUTPUTS = ("auto", "tapered", "reuse", "fresh")
LEMMA = (
    "a record enters all later scores by one gradient, clipped record by record; their difference has at most the "
    "range step * spread / batch size (mirror descent with vertex sampling, Section 2.1 of the specification)"
)


@final_dataclass(eq=False)
class VertexDescentPlan(base.VertexSamplingPlan):
    """Public constants of one run of Algorithm 1, either ``"calibrated"`` or those of the ``"paper"``."""

    constants: str
    schedule: Schedule
    algorithm = "vertex_mirror_descent"
    label = "drawn vertices, whose averages are the query points and the output"
    theorem = "Proposition 3.3, by adaptive composition of exponential mechanisms in zCDP, each with the range of its "
    theorem += "score difference."
    expectation = forwarded("schedule", "expected")

    @cached_property
    def sampling(self) -> VertexSampling:
        layout, sizes = self.schedule.layout, self.schedule.sizes.astype(np.float64)
        up, exposed = 1 + 1e-12, layout.draws_after.astype(np.float64)
        reaches = np.multiply(self.schedule.steps, self.problem.spread) * up
        largest = float((reaches.max() / sizes).max()) * up
        squares = float((exposed / sizes**2).max() * (reaches**2).sum()) * up
        range_sum = float((exposed / sizes).max() * reaches.sum()) * up if self.privacy.pure else None
        most = int(layout.draws_after[0]) * int((reaches > 0).sum())
        drawn = layout.draws * (1 + (self.problem.dy > 1))
        return VertexSampling(Sensitivity(largest, "range", LEMMA), most, squares, drawn, range_sum)

    @property
    def predicted_error(self) -> PredictedError:
        """Bound on the expected strong duality gap on the distribution of the records."""
        trivial = self.problem.trivial_gap
        if not math.isfinite(self.schedule.bound):
            return PredictedError(trivial, trivial, "the range of values: output='fresh' has a bound of its own")
        return PredictedError(self.schedule.bound, trivial, "explicit form of Theorem 3.1 (docs, Saddle points)")

    def describe(self) -> Mapping[str, Any]:
        layout, sizes = self.schedule.layout, self.schedule.sizes
        output = "tapered" if layout.tapered else "reuse" if layout.reuse else "fresh"
        ways = {"output": output, "batches": "balanced" if layout.balanced else "equal"}
        batches = {"first": int(sizes[0]), "last": int(sizes[-1]), "total": int(sizes.sum())}
        counts = {"iterations": layout.T, "samples": layout.K}
        return {**counts, **ways, "batch_sizes": batches, "steps": list(self.schedule.steps)}

    def _run(self, records: Any, source: BitSource) -> base.SaddleResult:
        problem, schedule, layout = self.problem, self.schedule, self.schedule.layout
        session = self.start(source)
        state: list[Floats] = [np.zeros(problem.dx), np.zeros(problem.dy)]  # log x^t, log y^t: never leave the run
        output = [np.zeros_like(s) for s in state]
        batches = (*base.batch_slices(schedule.sizes), None)  # the last iterate is released, and never queried
        for rows, weight in zip(batches, layout.output_weights.tolist(), strict=True):
            # 1. Query points: averages of K vertices, drawn from the iterates.
            points = _averages(session, state, layout.K) if layout.reuse or rows is not None else []
            # 2. The output averages the same points, or one fresh draw.
            released = points if layout.reuse else _averages(session, state, 1)
            for total, point in zip(output, released, strict=True):
                total[point.indices] += weight * point.weights
            # 3. A step along the mean gradients of fresh records at the query points.
            if rows is not None:
                gradients = problem.gradient_sums(records, rows, points[0], points[1])
                for s, g, step, sign in zip(state, gradients, schedule.steps, base.SIGNS, strict=True):
                    s += self.sampling.on_grid(sign * step / (rows.stop - rows.start) * g)
        x, y = (total / total.sum() for total in output)  # rounding only
        return self.finish(x, y, source)


def _averages(session: VertexSession, state: list[Floats], count: int) -> list[SimplexPoint]:
    """Average `count` vertices of each block."""
    draws = base.drawn(session, state, count)
    return [SimplexPoint.average(vertices, len(s)) for vertices, s in zip(draws, state, strict=True)]


@recorded("vertex_mirror_descent")
def plan(
    problem: SimplexSaddle, privacy: PrivacyParams, *, constants: str = "calibrated", output: str = "auto",
    batches: str = "balanced", tuning: str = "measured", iterations: int | None = None, samples: int | None = None,
) -> VertexDescentPlan:  # fmt: skip
    """Return the plan of Algorithm 1. Sees no data.

    ``constants="calibrated"`` takes steps from the zCDP accountant; `output`, `batches` and `tuning` say the rest.
    ``"paper"`` takes the printed choices (delta positive), equal batches and fresh outputs. `iterations` and `samples`,
    if given, are T and K.

    The output averages the query points, which costs no further draws, with weights that rise and fall (``"tapered"``)
    or equal ones (``"reuse"``); or one fresh draw an iteration (``"fresh"``). All are private. Fresh draws have a
    proved bound, equal weights for bilinear games; tapered ones, the default, are the most accurate by measurement.
    Batches are ``"balanced"``, for up to 3/2 times the step of ``"equal"`` ones. Tuning minimizes the ``"bound"``, or
    the bound with its terms weighted by what they were ``"measured"`` to be, which makes a difference for problems that
    are not bilinear: larger steps, fewer samples.
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("output", output, OUTPUTS)
    _validate.choice("batches", batches, ("balanced", "equal"))
    _validate.choice("tuning", tuning, ("measured", "bound"))
    if iterations is not None and _validate.integer("iterations", iterations, at_least=2) > problem.n:
        raise InvalidParameterError("iterations", iterations, f"must be at most n={problem.n}")
    _validate.optional(_validate.integer, {"samples": samples}, at_least=1)
    if not math.isfinite(sum(problem.spread) + sum(problem.lipschitz)):
        raise InvalidParameterError("problem", problem.name, "must have bounded gradients", "Clip them")
    base.require_records(problem)
    with within_floats(problem.name):
        if constants == "paper":
            printed = of_paper("vertex_mirror_descent")
            schedule = printed(problem, privacy.epsilon, privacy.delta, T=iterations, K=samples)
        else:
            cap = base.range_budget(privacy) / ENLARGEMENT * (1 - 1e-6)
            ways = {"reuse": output != "fresh", "tapered": output in ("auto", "tapered")}
            ways |= {"balanced": batches == "balanced", "measured": tuning == "measured"}
            schedule = calibrated(problem, cap, pure=privacy.pure, T=iterations, K=samples, **ways)
    if not np.isfinite(schedule.steps).all():
        raise beyond_floats(problem.name)
    return VertexDescentPlan(problem, privacy, constants, schedule)
