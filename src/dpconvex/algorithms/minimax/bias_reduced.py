r"""Mirror descent with bias-reduced gradients and a randomized budget (Algorithms 2 and 3), repaired and calibrated.

Guarantee
    (epsilon, delta), or pure epsilon, for neighbors that replace one record, n public.
Lemma
    The whole schedule of levels ``N_1, N_2, ...`` is drawn by public coins before the run, and every schedule satisfies
    the promise. At step r three (antithetic: four) gradients of each record, each clipped, are combined with
    coefficients that sum to ``kappa(N)`` in magnitude (`kappa`). All later scores move by one vector, of range at most
    ``step_b kappa spread_b/|B_r|``; each later draw is ``eta^2/8``-zCDP, and ``sum_{t > r} (2^(N_t + 1) + 1)`` draws a
    block follow batch r (the last step draws for the output only).
Repairs
    Errata E1 to E3 (``kappa`` here is exact). The output averages the iterates whose gradients were taken, and the
    last. The prediction is the order of Theorem 3.14 with constant 1 (docs, Saddle points: the other methods).
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, IntArray, final_dataclass
from dpconvex.algorithms import PredictedError, check_relation, recorded, within_floats
from dpconvex.algorithms.minimax import base
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.plugins import of_paper
from dpconvex.privacy import Assumption, PrivacyParams, Sensitivity
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

LEMMA = (
    "a record enters all later scores by one combination of clipped gradients, of total coefficient kappa(N); it moves "
    "them by one vector of range at most step * kappa * spread / batch size"
)
MOST_STEPS = 20_000


@final_dataclass
class Budget:
    """The inputs of Algorithm 3."""

    M: int  #: largest level N
    U: float  #: budget of samples: levels are drawn until the sum of 2^N exceeds U - 2^M
    tau: float  #: step size before the cap that privacy sets
    alpha: float  #: printed batches have max(1, 2^N/alpha) records


@final_dataclass(eq=False)
class BiasReducedPlan(base.VertexSamplingPlan):
    """Public constants of one run, either ``"calibrated"`` or those of the ``"paper"``."""

    constants: str
    budget: Budget
    antithetic: bool  #: whether the coarse average is taken over both halves (same mean, much less variance)
    levels: IntArray  #: levels N_1 .. N_T
    sizes: IntArray  #: batch sizes, (T - 1,): the gradient of the last step is not needed
    steps: tuple[float, float]  #: step sizes of x and y
    coins: int  #: public seed of the levels
    algorithm = "bias_reduced_mirror_descent"
    error_share = 0.2  # typical gap as a share of the predicted order
    label = "drawn vertices, whose averages are the query points and the output"
    theorem = "Proposition 3.17, with the sensitivity of erratum E3 and adaptive composition in zCDP on the realised "
    theorem += "schedule, which is drawn from public coins."
    assumptions = (
        Assumption("each record's gradient has the stated spread", "every evaluation is clipped, record by record"),
        base.PUBLIC_ORDER,
        base.DRAWN_POINTS,
    )

    @cached_property
    def sampling(self) -> VertexSampling:
        exposed, cost = draws_after(self.levels), kappas(self.levels, self.budget.M, self.antithetic) / self.sizes
        reaches = [t * s * (1 + 1e-6) for t, s in zip(self.steps, self.problem.spread, strict=True)]
        largest = max(reaches) * float(cost.max()) * (1 + 1e-12)
        most = int(exposed[0]) * sum(reach > 0 for reach in reaches)
        squares = float((exposed * cost**2).max()) * sum(reach**2 for reach in reaches) * (1 + 1e-12)
        squares = min(squares, _rounding.product_up(largest, largest, float(most)))
        ranges = float((exposed * cost).max()) * sum(reaches) * (1 + 1e-12) if self.privacy.pure else None
        drawn = int((2 ** (self.levels[:-1] + 1)).sum() + len(self.levels)) * (1 + (self.problem.dy > 1))
        return VertexSampling(Sensitivity(largest, "range", LEMMA), most, squares, drawn, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        order = order_of_gap(self.problem, self.budget.M, self.antithetic, len(self.levels), self.steps)
        what = "order of Theorem 3.14 with constant 1; not a bound"
        return PredictedError(order, self.problem.trivial_gap, what, proved=False)

    def describe(self) -> Mapping[str, Any]:
        sizes = {"truncation_level": self.budget.M, "sample_budget": self.budget.U, "antithetic": self.antithetic}
        steps = {"iterations": len(self.levels), "steps": list(self.steps)}
        return {**sizes, **steps, "records_used": int(self.sizes.sum()), "coins": self.coins}

    def _run(self, records: Any, source: BitSource) -> base.SaddleResult:
        problem, session = self.problem, self.start(source)
        state: list[Floats] = [np.zeros(problem.dx), np.zeros(problem.dy)]  # log x^t, log y^t: never leave the run
        output = [np.zeros_like(s) for s in state]

        for level, rows in zip(self.levels.tolist(), (*base.batch_slices(self.sizes), None), strict=True):
            gradients = ()
            if rows is not None:
                vertices = base.drawn(session, state, 2 ** (level + 1))
                gradients = bias_reduced_sums(problem, records, rows, vertices, self.budget.M, self.antithetic)
            for total, vertex in zip(output, base.drawn(session, state, 1), strict=True):
                total[vertex] += 1.0
            if rows is not None:
                scale = 1 / (rows.stop - rows.start)
                for s, g, step, sign in zip(state, gradients, self.steps, base.SIGNS, strict=True):
                    s += self.sampling.on_grid(sign * step * scale * g)
        T = len(self.levels)
        return self.finish(output[0] / T, output[1] / T, source)


def bias_reduced_sums(
    problem: SimplexSaddle, records: Any, rows: slice, vertices: Sequence[IntArray], M: int, antithetic: bool
) -> tuple[Floats, Floats]:
    """Return Algorithm 2's combination of sums of clipped gradients at averages of ``2^(N+1)`` vertices, (dx,), (dy,).

    The weight of the difference is ``(2 - 2^-M) 2^N = 1/P[N]`` (erratum E2).
    """
    half = len(vertices[0]) // 2  # 2^N

    def at(part: slice) -> tuple[Floats, Floats]:
        x, y = (SimplexPoint.average(v[part], d) for v, d in zip(vertices, (problem.dx, problem.dy), strict=True))
        return problem.gradient_sums(records, rows, x, y)

    fine, coarse, first = at(slice(None)), at(slice(0, half)), at(slice(0, 1))
    if antithetic:
        other = at(slice(half, None))
        coarse = ((coarse[0] + other[0]) / 2, (coarse[1] + other[1]) / 2)
    weight = normalizer(M) * half
    x, y = (weight * (a - b) + c for a, b, c in zip(fine, coarse, first, strict=True))
    return x, y


def normalizer(M: int) -> float:
    """Return ``C_M = sum_{k <= M} 2^-k = 2 - 2^-M``."""
    return 2.0 - 2.0**-M


def kappa(N: int, M: int, antithetic: bool) -> float:
    """Return the sum of the magnitudes of the coefficients of the gradients at different points (erratum E3)."""
    C = normalizer(M)
    if N == 0:
        return C + 1 if antithetic else 2 * C - 1
    return 2 * C * 2**N + 1


def kappas(levels: IntArray, M: int, antithetic: bool) -> Floats:
    """Return `kappa` of all levels but the last, shape (T - 1,)."""
    return np.array([kappa(int(N), M, antithetic) for N in levels[:-1]])


def draw_levels(U: float, M: int, coins: int) -> IntArray:
    """Return the levels of one run, (T,), T at least 2: one more than the budget allows."""
    generator = np.random.default_rng(coins)  # public: the levels are no secret
    weights = 0.5 ** np.arange(M + 1)
    drawn = generator.choice(M + 1, size=max(2, math.ceil(U)) + 1, p=weights / weights.sum())
    before = np.cumsum(2**drawn) - 2**drawn
    return drawn[: max(2, int(np.count_nonzero(before <= U - 2**M)))].astype(np.int64)


def draws_after(levels: IntArray) -> IntArray:
    """Return, for each of the T - 1 batches, the draws of one block that follow it, at levels (T,)."""
    draws = 2 ** (levels + 1) + 1  # draws for a gradient, and one for the output
    draws[-1] = 1
    return (draws.sum() - np.cumsum(draws))[:-1]


@recorded("bias_reduced_mirror_descent")
def plan(
    problem: SimplexSaddle, privacy: PrivacyParams, *, constants: str = "calibrated", truncation: int | None = None,
    budget: float | None = None, step: float | None = None, antithetic: bool | None = None, coins: int = 0,
) -> BiasReducedPlan:  # fmt: skip
    """Return the plan of Algorithm 3 for a second-order-smooth problem. Sees no data.

    ``constants="calibrated"`` is tuned by the order of the gap, with balanced batches, antithetic where M > 0;
    ``"paper"`` has Theorem 3.14's M, U, tau and alpha (delta positive). Values given replace these: `truncation` is M,
    `budget` U, at least ``2^M``, for about ``U (2 - 2^-M)/(M + 1)`` steps, `step` tau before the cap that privacy sets.
    `coins` is the seed of the public levels.
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.integer("coins", coins, at_least=0)
    _validate.optional(_validate.integer, {"truncation": truncation}, at_least=0)
    _validate.optional(_validate.real, {"budget": budget, "step": step}, above=0.0)
    if not math.isfinite(problem.second_smoothness) or not any(problem.spread) or problem.n < 8:
        what = "must be second-order-smooth, depend on its records, and have n >= 8"
        raise InvalidParameterError("problem", problem.name, what, "Use Algorithm 1")
    with within_floats(problem.name):
        root = base.range_budget(privacy)
        if constants == "paper":
            printed = of_paper("bias_reduced_mirror_descent")
            chosen = printed(problem, privacy.epsilon, privacy.delta, truncation, budget)
        else:
            chosen = calibrated(problem, root, privacy.pure, antithetic, truncation, budget)
        both = constants == "calibrated" and chosen.M > 0 if antithetic is None else antithetic
        base.affordable(problem.n, chosen.U)
        levels = draw_levels(chosen.U, chosen.M, coins)
        costs, exposed = kappas(levels, chosen.M, both), draws_after(levels).astype(np.float64)
        power = 1.0 if privacy.pure else 0.5
        if constants == "paper":
            sizes = np.maximum(np.ceil(2.0 ** levels[:-1] / chosen.alpha), 1).astype(np.int64)
            if int(sizes.sum()) > problem.n:
                what = f"needs {sizes.sum()} records of n={problem.n}"
                raise InvalidParameterError("budget", chosen.U, what, "Lower it")
        else:
            sizes = base.batch_sizes(problem.n, costs * exposed**power)
        # Privacy allows (sum_b (step_b spread_b)^p)^(1/p) <= cap, p = 1 or 2, with equal products where it binds.
        cap = root / float((costs / sizes * exposed**power).max()) / ENLARGEMENT**2 * (1 - 1e-6)
        active = [s for s in problem.spread if s > 0]
        share = cap / len(active) ** (1.0 if privacy.pure else 0.5)
        wanted = chosen.tau if step is None else step
        steps = [min(wanted, share / s) if s > 0 else wanted for s in problem.spread]
        both_steps = (steps[0], steps[1] if problem.dy > 1 else 0.0)
        return BiasReducedPlan(problem, privacy, constants, chosen, both, levels, sizes, both_steps, coins)


def order_of_gap(problem: SimplexSaddle, M: int, antithetic: bool, T: int, steps: tuple[float, float]) -> float:
    """Return the sum of the regret of T steps, for a typical second moment, and the bias."""
    total = 4 * min(2 * problem.second_smoothness / 2**M, 2 * max(problem.lipschitz))
    growth = 1.0 if antithetic else 1.0 + M / 2  # growth of the second moment (specification, 5.4)
    for d, step, L in zip((problem.dx, problem.dy), steps, problem.lipschitz, strict=True):
        if d > 1 and L > 0:
            total += 2 * math.log(d) / (step * T) + 2.5 * step * L**2 * growth if step > 0 else math.inf
    return total


def calibrated(
    problem: SimplexSaddle, budget: float, pure: bool, antithetic: bool | None, M: int | None, U: float | None
) -> Budget:
    """Return the inputs that minimize `order_of_gap`; `budget` is ``sqrt(8 rho)``, with `pure` epsilon."""
    ell, L = math.log(problem.dx) + math.log(problem.dy), max(problem.lipschitz)
    tried = np.unique(np.geomspace(2, min(problem.n / 2, MOST_STEPS), 40).astype(int)).tolist()
    best: tuple[float, Budget] | None = None
    for level in [M] if M is not None else range(9):
        mean = (level + 1) / normalizer(level)  # mean of 2^N
        both = level > 0 if antithetic is None else antithetic
        cost = sum(0.5**N * kappa(N, level, both) for N in range(level + 1)) / normalizer(level)
        for T in tried if U is None else [0]:
            total = T * mean + 2**level if U is None else U
            T_mean = max(2.0, total / mean)
            draws = (2 * mean + 1) * T_mean / 2
            exposure = draws if pure else math.sqrt(draws)
            # Approximate: unequal batches gain about 1.3. The step's factor 0.8 minimizes 2 l/(t T) + (5/2) t L^2.
            cap = budget * problem.n * 1.3 / (T_mean * cost * max(problem.spread) * exposure)
            step = min(cap, math.sqrt(0.8 * ell / T_mean) / L)
            value = order_of_gap(problem, level, both, int(T_mean), (step, step))
            found = Budget(level, total, math.sqrt(0.8 * ell / T_mean) / L, math.nan)
            best = (value, found) if best is None or value < best[0] else best
    assert best is not None
    return best[1]
