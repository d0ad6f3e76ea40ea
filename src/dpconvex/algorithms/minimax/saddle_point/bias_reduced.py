r"""Mirror descent with bias-reduced gradients and a randomised budget (Algorithms 2 and 3), repaired and calibrated.

Guarantee
    (epsilon, delta), or pure epsilon, for neighbours that replace one record, n public.
Lemma
    Levels ``N_1, N_2, ...`` are public coins; the whole schedule is drawn before the run, and every realised schedule
    satisfies the promise (so its mixture does, published or not). At step r three (antithetic: four) gradients of each
    record, each clipped, are combined with coefficients that sum to ``kappa(N)`` in magnitude. All later scores move by
    one vector, of range at most ``step_b kappa spread_b/|B_r|``; each later draw is ``eta^2/8``-zCDP, and
    ``sum_{t > r} (2^(N_t + 1) + 1)`` draws a block follow batch r (the last step draws for the output only).
Repairs
    E1: y ascends. E2: the weight of the difference is ``1/P[N] = (2 - 2^-M) 2^N``. E3: the printed sensitivity is
    too small by 1.6 to 2 (``kappa`` here is exact); the printed *condition* on the budget is private all the same, by
    zCDP. The output averages the iterates whose gradients were taken, and the last.
Prediction
    The order of Theorem 3.14 with constant 1: no usable bound is known (its proven constant is about 10^4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _rounding, _validate
from dpconvex.algorithms.base import check_relation, within_floats
from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult, affordable, batch_sizes
from dpconvex.algorithms.minimax.saddle_point.bias_reduced_schedule import (
    Budget,
    calibrated,
    draw_levels,
    kappa,
    order_of_gap,
    printed,
)
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms.vertex_sampling import ENLARGEMENT, VertexSampling
from dpconvex.privacy import Assumption, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems.minimax.base import SimplexSaddle
from dpconvex.randomness import BitSource

LABEL = "drawn vertices, whose averages are the query points and the output"
LEMMA = (
    "a record enters all later scores by one combination of clipped gradients, of total coefficient kappa(N); it moves "
    "them by one vector of range at most step * kappa * spread / batch size"
)


@final
@dataclass(frozen=True, eq=False)
class BiasReducedPlan(SaddlePlan):
    """Constants of one run, levels included.

    Parameters
    ----------
    problem : SimplexSaddle
    privacy : PrivacyParams
    constants : {"calibrated", "paper"}
    budget : Budget
        M, U and the wanted step.
    antithetic : bool
        Whether the coarse average is taken over both halves (same mean, much less variance).
    levels : array of shape (T,)
        ``N_1 .. N_T``; the gradient of the last step is not needed.
    sizes : array of shape (T - 1,)
        Batch sizes.
    steps : tuple of float
        Of x and y.
    coins : int
        Seed of the levels.
    """

    problem: SimplexSaddle
    privacy: PrivacyParams
    constants: str
    budget: Budget
    antithetic: bool
    levels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    steps: tuple[float, float]
    coins: int
    algorithm: ClassVar[str] = "bias_reduced_mirror_descent"
    noise_name: ClassVar[str] = "vertex sampling"  # pyright: ignore[reportIncompatibleVariableOverride]

    @cached_property
    def sampling(self) -> VertexSampling:
        """All draws of the run."""
        exposed, cost = draws_after(self.levels), kappas(self.levels, self.budget.M, self.antithetic) / self.sizes
        reaches = [t * s * (1 + 1e-6) for t, s in zip(self.steps, self.problem.spread, strict=True)]
        blocks = sum(reach > 0 for reach in reaches)
        largest = max(reaches) * float(cost.max()) * (1 + 1e-12)
        most = int(exposed[0]) * blocks
        squares = float((exposed * cost**2).max()) * sum(reach**2 for reach in reaches) * (1 + 1e-12)
        squares = min(squares, _rounding.product_up(largest, largest, float(most)))
        ranges = float((exposed * cost).max()) * sum(reaches) * (1 + 1e-12) if self.privacy.pure else None
        drawn = int((2 ** (self.levels[:-1] + 1)).sum() + len(self.levels)) * (1 + (self.problem.dy > 1))
        return VertexSampling(Sensitivity(largest, "range", LEMMA), most, squares, drawn, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        """Order of the expected gap; not a bound."""
        low, high = self.problem.value_range
        trivial = min(high - low, 2 * sum(self.problem.lipschitz))
        order = order_of_gap(self.problem, self.budget.M, self.antithetic, len(self.levels), self.steps)
        return PredictedError(order, trivial, "order of Theorem 3.14 with constant 1; not a bound", proved=False)

    @property
    def releases(self) -> tuple[Release, ...]:
        """All draws, in one entry."""
        return (self.sampling.planned(LABEL),)

    @property
    def expected_error(self) -> float:
        """A fifth of the order, as measured."""
        return 0.2 * self.predicted_error.bound

    @property
    def theorem(self) -> str:
        """Proposition 3.17 repaired."""
        return (
            "Proposition 3.17, with the sensitivity of erratum E3 and adaptive composition in zCDP on the realised "
            "schedule, which is drawn from public coins."
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What holds beyond the domain."""
        return (
            Assumption("each record's gradient has the stated spread", "every evaluation is clipped, record by record"),
            Assumption("the order of the records does not depend on their content", "declared"),
            Assumption("gradients are taken at drawn points only", "by the run's listing"),
        )

    def describe(self) -> Mapping[str, Any]:
        """Budget, levels, steps."""
        return {
            "truncation_level": self.budget.M,
            "sample_budget": self.budget.U,
            "antithetic": self.antithetic,
            "iterations": len(self.levels),
            "steps": list(self.steps),
            "records_used": int(self.sizes.sum()),
            "coins": self.coins,
        }

    def exact_bits(self, source: BitSource) -> bool:
        """As the sampler."""
        return self.sampling.exact_bits(source)

    def _listing(self, records: Any, source: BitSource) -> SaddleResult:
        from dpconvex.algorithms.minimax.saddle_point.bias_reduced_run import run

        return run(self, records, source)


def draws_after(levels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each of the T - 1 batches, the draws of one block that follow it.

    Parameters
    ----------
    levels : array of shape (T,)
        ``N_t``; step t draws ``2^(N_t + 1)`` vertices for its gradient, and one for the output; the last only that one.
    """
    draws = 2 ** (levels + 1) + 1
    draws[-1] = 1
    return (draws.sum() - np.cumsum(draws))[:-1]


def kappas(levels: NDArray[np.int64], M: int, antithetic: bool) -> NDArray[np.float64]:
    """Return `kappa` of all levels but the last, shape (T - 1,)."""
    return np.array([kappa(int(N), M, antithetic) for N in levels[:-1]])


@recorded("bias_reduced_mirror_descent")
def plan(
    problem: SimplexSaddle,
    privacy: PrivacyParams,
    *,
    constants: str = "calibrated",
    truncation: int | None = None,
    budget: float | None = None,
    step: float | None = None,
    antithetic: bool | None = None,
    coins: int = 0,
) -> BiasReducedPlan:
    """Return the plan of Algorithm 3. Sees no data.

    Parameters
    ----------
    problem : SimplexSaddle
        Second-order-smooth.
    privacy : PrivacyParams
        Delta may be 0 with calibrated constants.
    constants : {"calibrated", "paper"}
        Tuned by the order of the gap, batches balanced, antithetic; or Theorem 3.14's M, U, tau and alpha, as printed.
    truncation : int, optional
        M; default: from the constants.
    budget : float, optional
        U, at least ``2^M``; about ``U (2 - 2^-M)/(M + 1)`` steps are taken.
    step : float, optional
        tau before the cap that privacy sets.
    antithetic : bool, optional
        Default: with calibrated constants and M > 0.
    coins : int
        Seed of the public levels.

    Raises
    ------
    InvalidParameterError
        If the problem is not second-order-smooth, or the records do not suffice.
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.integer("coins", coins, at_least=0)
    if truncation is not None:
        _validate.integer("truncation", truncation, at_least=0)
    for name, value in (("budget", budget), ("step", step)):
        if value is not None:
            _validate.real(name, value, above=0.0)
    if not math.isfinite(problem.second_smoothness) or not any(problem.spread) or problem.n < 8:
        what = "must be second-order-smooth, depend on its records, and have n >= 8"
        raise InvalidParameterError("problem", problem.name, what, "Use Algorithm 1")
    with within_floats(problem.name):
        root = privacy.epsilon if privacy.pure else math.sqrt(8 * largest_rho(privacy.epsilon, privacy.delta))
        if constants == "paper":
            chosen = printed(problem, privacy.epsilon, privacy.delta, truncation, budget)
        else:
            chosen = calibrated(problem, root, privacy.pure, antithetic, truncation, budget)
        both = constants == "calibrated" and chosen.M > 0 if antithetic is None else antithetic
        affordable(problem.n, chosen.U)
        levels = draw_levels(chosen.U, chosen.M, coins)
        costs, exposed = kappas(levels, chosen.M, both), draws_after(levels).astype(np.float64)
        power = 1.0 if privacy.pure else 0.5
        if constants == "paper":
            sizes = np.maximum(np.ceil(2.0 ** levels[:-1] / chosen.alpha), 1).astype(np.int64)
            if int(sizes.sum()) > problem.n:
                raise InvalidParameterError(
                    "budget", chosen.U, f"needs {sizes.sum()} records of n={problem.n}", "Lower it"
                )
        else:
            sizes = batch_sizes(problem.n, costs * exposed**power)
        # Privacy allows (sum_b (step_b spread_b)^p)^(1/p) <= cap, p = 1 or 2, with equal products where it binds.
        cap = root / float((costs / sizes * exposed**power).max()) / ENLARGEMENT**2 * (1 - 1e-6)
        active = [s for s in problem.spread if s > 0]
        share = cap / len(active) ** (1.0 if privacy.pure else 0.5)
        wanted = chosen.tau if step is None else step
        steps = [min(wanted, share / s) if s > 0 else wanted for s in problem.spread]
        both_steps = (steps[0], steps[1] if problem.dy > 1 else 0.0)
        return BiasReducedPlan(problem, privacy, constants, chosen, both, levels, sizes, both_steps, coins)
