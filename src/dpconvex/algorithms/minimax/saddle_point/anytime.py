r"""Anytime mirror descent with stale sparsified averages, for one simplex (Algorithm 5), repaired and calibrated.

Guarantee
    (epsilon, delta), or pure epsilon, for neighbours that replace one record, n public.
Lemma
    The query point at time t averages K draws from ``w^t``, the mean of the iterates ``x^1 .. x^t``: pick i uniformly
    in 1..t, then draw a vertex of ``x^i``. The picks are public coins, drawn *before* the run; so a vertex of ``x^i``
    can be drawn at time i and used at time t, with the same joint law. Each draw then is an exponential mechanism on
    the score of one iterate, which a record of batch r moves, for ``i > r`` only, by a vector of range ``tau
    spread/|B_r|``: bounded range, ``eta^2/8``-zCDP. (The paper prices draws of the mixture ``w^t`` as they stand,
    where the range can be twice that, and all draws after batch r; erratum E5.) Keeping a stale point draws nothing.
Assumptions
    As in `plan`: per-record clipping, planned disjoint batches, gradients at drawn points only, public coins.
Bound
    Section 3.5 of the specification (explicit form of Theorem 4.2); with q = 1 nothing is stale, so the drift and
    correlation terms and the condition ``tau <= 1/(8 q L0)`` are not needed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _validate
from dpconvex.algorithms.base import check_relation, within_floats
from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult, affordable, batch_sizes, batch_slices
from dpconvex.algorithms.minimax.saddle_point.anytime_schedule import Shape, calibrated, explicit_bound, printed
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms.vertex_sampling import ENLARGEMENT, VertexSampling
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import charge, largest_rho
from dpconvex.problems.minimax.base import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

LABEL = "vertices of iterates, whose averages are the query points and the output"
LEMMA = (
    "given the earlier draws and the public coins, a record of batch r moves the scores of iterates after r only, by "
    "one vector of range at most step * spread / batch size"
)


@final
@dataclass(frozen=True, eq=False)
class AnytimePlan(SaddlePlan):
    """Constants of one run.

    Parameters
    ----------
    problem : SimplexSaddle
        With ``dy = 1``.
    privacy : PrivacyParams
    constants : {"calibrated", "paper"}
    shape : Shape
        T, K, q and draws of the output.
    step : float
        tau.
    coins : int
        Seed of the public picks of iterates.
    """

    problem: SimplexSaddle
    privacy: PrivacyParams
    constants: str
    shape: Shape
    step: float
    coins: int
    algorithm: ClassVar[str] = "anytime_mirror_descent"
    noise_name: ClassVar[str] = "vertex sampling"  # pyright: ignore[reportIncompatibleVariableOverride]

    @cached_property
    def picks(self) -> Mapping[int, NDArray[np.int64]]:
        """For each time of a fresh query point, and T for the output, the iterates that its draws come from."""
        return _picks(self.shape, self.coins)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Batch sizes, shape (T - 1,)."""
        return _sizes(self.problem.n, self.shape, self.constants, self.picks)

    @cached_property
    def sampling(self) -> VertexSampling:
        """All draws of the run."""
        exposed = exposures(self.shape.T, self.picks)
        etas = self.step * self.problem.spread[0] / self.sizes * (1 + 1e-6)  # rounding of sums and scores
        worst = np.flatnonzero(exposed)
        largest = float(etas[worst].max(initial=0.0)) or float(etas.min())
        squares = float((exposed * etas**2).max()) * (1 + 1e-12) or largest**2
        ranges = (float((exposed * etas).max()) or largest) * (1 + 1e-12) if self.privacy.pure else None
        limit = sum(map(len, self.picks.values()))
        return VertexSampling(Sensitivity(largest, "range", LEMMA), max(1, int(exposed.max())), squares, limit, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        """Bound on the expected excess risk."""
        bound = explicit_bound(self.problem, self.shape, self.step)
        return PredictedError(bound, self.problem.trivial_excess, "explicit form of Theorem 4.2 (docs, Saddle points)")

    @property
    def releases(self) -> tuple[Release, ...]:
        """All draws, in one entry."""
        return (self.sampling.planned(LABEL),)

    @property
    def expected_error(self) -> float:
        """A share of the bound, as measured."""
        return 0.15 * self.predicted_error.bound

    @property
    def theorem(self) -> str:
        """Proposition 4.3 with another proof."""
        return (
            "Proposition 4.3 (anytime mirror descent), draws taken from single iterates picked by public coins; zCDP."
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What holds beyond the domain."""
        return (
            Assumption("each record's gradient has the stated spread", "clipped record by record before any sum"),
            Assumption("the order of the records does not depend on their content", "declared"),
            Assumption("gradients are taken at drawn points only", "by the run's listing"),
        )

    def describe(self) -> Mapping[str, Any]:
        """Shape, step and coins."""
        shape = self.shape
        facts = {"iterations": shape.T, "samples": shape.K, "period": shape.q, "output_samples": shape.output}
        return {**facts, "step": self.step, "coins": self.coins, "records_used": int(self.sizes.sum())}

    def exact_bits(self, source: BitSource) -> bool:
        """As the sampler."""
        return self.sampling.exact_bits(source)

    def _listing(self, records: Any, source: BitSource) -> SaddleResult:
        problem, sampling, one = self.problem, self.sampling, SimplexPoint.uniform(1)
        session = sampling.start(LABEL, source, Ledger(self.privacy, self.releases))
        due: dict[int, list[int]] = defaultdict(list)  # iterate -> the times for which a vertex of it is wanted
        for t, iterates in self.picks.items():
            for i in iterates.tolist():
                due[i].append(t)
        drawn: dict[int, list[int]] = defaultdict(list)  # time -> vertices drawn for it so far
        state, point = np.zeros(problem.dx), SimplexPoint.uniform(problem.dx)
        rows = batch_slices(self.sizes)
        for t in range(1, self.shape.T + 1):
            if due[t]:
                for time, vertex in zip(due[t], session.draw(state, len(due[t])).tolist(), strict=True):
                    drawn[time].append(vertex)
            if t in self.picks:  # a fresh query point; else the stale one
                point = SimplexPoint.average(np.array(drawn.pop(t)), problem.dx)
            if t < self.shape.T:
                batch = rows[t - 1]
                gradient, _ = problem.gradient_sums(records, batch, point, one)
                state += sampling.on_grid(-self.step / (batch.stop - batch.start) * gradient)
        return self.finish(point.dense(), np.ones(1), source)


def _picks(shape: Shape, coins: int) -> dict[int, NDArray[np.int64]]:
    generator = np.random.default_rng(coins)  # public: the picks are no secret
    wanted = {t: shape.K for t in range(1, shape.T) if t <= shape.q or t % shape.q == 0}
    wanted[shape.T] = shape.output
    charge(10 * len(wanted) + sum(wanted.values()) / 4)
    return {t: generator.integers(1, t + 1, size=count) for t, count in wanted.items()}


def exposures(T: int, picks: Mapping[int, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return, for each of the T - 1 batches, how many draws come from an iterate after it.

    Parameters
    ----------
    T : int
        Iterations.
    picks : mapping from int to array
        As `AnytimePlan.picks`.
    """
    counts = np.bincount(np.concatenate(list(picks.values())), minlength=T + 2)
    after = counts.sum() - np.cumsum(counts)  # draws from iterates above each index
    return after[1:T]


def _sizes(n: int, shape: Shape, constants: str, picks: Mapping[int, NDArray[np.int64]]) -> NDArray[np.int64]:
    if constants == "paper":
        return np.full(shape.T - 1, n // shape.T)
    return batch_sizes(n, np.sqrt(np.maximum(exposures(shape.T, picks), 1.0)))


@recorded("anytime_mirror_descent")
def plan(
    problem: SimplexSaddle,
    privacy: PrivacyParams,
    *,
    constants: str = "calibrated",
    iterations: int | None = None,
    samples: int | None = None,
    period: int | None = None,
    output_samples: int | None = None,
    step: float | None = None,
    coins: int = 0,
) -> AnytimePlan:
    """Return the plan of Algorithm 5. Sees no data.

    Parameters
    ----------
    problem : SimplexSaddle
        With ``dy = 1``.
    privacy : PrivacyParams
        Delta may be 0 with calibrated constants.
    constants : {"calibrated", "paper"}
        Smallest explicit bound under the zCDP accountant, or the printed choices with constant 1.
    iterations, samples, period : int, optional
        T, K and q; default: from the constants. ``1 <= q <= T <= n``.
    output_samples : int, optional
        Draws of the output; default: K with the paper's constants, else from the bound.
    step : float, optional
        tau before the cap that privacy sets; default: from the constants.
    coins : int
        Seed of the public coins.

    Raises
    ------
    InvalidParameterError
        If the problem has a second player, or sizes do not fit.
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.integer("coins", coins, at_least=0)
    if problem.dy != 1:
        raise InvalidParameterError("problem.dy", problem.dy, "must be 1 for Algorithm 5", "Use a saddle algorithm")
    if not problem.spread[0] > 0:
        raise InvalidParameterError("problem", problem.name, "must depend on its records", "Solve it without privacy")
    if not math.isfinite(problem.smoothness) or problem.n < 2:
        raise InvalidParameterError("problem", problem.name, "must be smooth, with n >= 2", "Use Algorithm 1")
    for name, value, least in (
        ("iterations", iterations, 2),
        ("samples", samples, 1),
        ("period", period, 1),
        ("output_samples", output_samples, 1),
    ):
        if value is not None:
            _validate.integer(name, value, at_least=least)
    if step is not None:
        _validate.real("step", step, above=0.0)
    if period is not None and iterations is not None and period > iterations:
        raise InvalidParameterError("period", period, f"must be at most iterations={iterations}")
    with within_floats(problem.name):
        fixed = (iterations, samples, period, output_samples)
        if constants == "paper":
            shape, best = printed(problem, privacy.epsilon, privacy.delta, fixed)
        else:
            root = privacy.epsilon if privacy.pure else math.sqrt(8 * largest_rho(privacy.epsilon, privacy.delta))
            shape, best = calibrated(problem, root, privacy.pure, fixed)
        if not 1 <= shape.q <= shape.T <= problem.n:
            raise InvalidParameterError(
                "iterations", shape.T, f"must lie between the period {shape.q} and n={problem.n}"
            )
        affordable(problem.n, shape.T)
        picks = _picks(shape, coins)
        exposed = exposures(shape.T, picks)
        sizes = _sizes(problem.n, shape, constants, picks)
        if privacy.pure:
            cap = privacy.epsilon / (problem.spread[0] * max(float((exposed / sizes).max()), 1e-300))
        else:
            rho = largest_rho(privacy.epsilon, privacy.delta)
            cap = math.sqrt(8 * rho / max(float((exposed / sizes**2).max()), 1e-300)) / problem.spread[0]
        tau = min(step or best, cap / ENLARGEMENT**2 * (1 - 1e-6))
        return AnytimePlan(problem, privacy, constants, shape, tau, coins)
