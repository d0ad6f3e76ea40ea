r"""Synthetic data by a private saddle point: the variant of Algorithm 1 behind Theorem 1.1 (reconstructed).

Game
    ``f(x, y) = sum_j y_j (q_j(data) - <q_j, x>)`` over histograms x and weights y on the queries and their negations.
    The gradient in x is ``-sum_j y_j q_j``: *no data in it*, so given the drawn query the x-player is public, and only
    the y-player is sampled.
Guarantee
    (epsilon, delta), or pure epsilon, for neighbors that replace one record.
Lemma
    ``x^t`` is a function of the drawn queries, so it cancels between neighbors that share them. With all n records at
    every step, the score of ``+-q_j`` at draw t is ``+-tau ((t-1) q_j(data) - sum_k <q_j, x^k>)``: one record moves it
    by at most ``tau (t-1) R/n`` either way, ``R = high - low``: range ``2 tau R (t-1)/n``. With fresh batches of B
    records it moves by a fixed vector of range ``2 tau R/B`` after the record's batch. Every draw is
    ``eta^2/8``-zCDP (Cesar and Rogers 2021) and these add up (`VertexDraws`). Histogram, average and sampled records
    are post-processing. Draw T would enter ``x^{T+1}`` only, so it is not made.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms import PredictedError, recorded, require_delta, uses
from dpconvex.algorithms.queries.base import MOST_STEPS, MOST_WORK, Answered, QueryReleasePlan, check, rounding
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems.queries import LinearQueries
from dpconvex.randomness import BitSource

MODES = ("full", "fresh")
LABEL = "worst answered queries"
LEMMA = (
    "given the queries drawn before, a record moves the score of a query by at most tau (high - low) (t-1)/n either "
    "way at draw t (all records at every step), or tau (high - low)/B after its batch of B records"
)


@final_dataclass
class SyntheticPlan(QueryReleasePlan):
    """Public constants of one run, either ``"calibrated"`` or those of the ``"paper"``."""

    mode: str  #: "full": all records at every step; "fresh": disjoint batches
    steps: int  #: number T of histograms that are averaged; T - 1 queries are drawn
    tau_x: float  #: step size of the histogram
    tau_y: float  #: step size of the queries' weights
    constants: str = "calibrated"
    algorithm = "saddle_point_synthetic_data"
    noise_name = "vertex sampling"
    theorem = (
        "Mirror descent with vertex sampling for synthetic data (González, Guzmán and Paquette, Theorem 1.1, "
        "variant reconstructed): only the queries are drawn, by exponential mechanisms of bounded range."
    )
    mechanisms = uses({LABEL: "sampling"})

    @property
    def only_sums(self) -> bool:
        return self.mode == "full"

    @property
    def batch(self) -> int:
        """Number of records that enter one step."""
        return self.n if self.mode == "full" else self.n // max(1, self.steps - 2)

    @cached_property
    def sampling(self) -> VertexSampling:
        """All draws; with at most two steps the only draw depends on no record, and is charged all the same."""
        unit = _unit_range(self.queries, self.batch) * self.tau_y
        draws = max(1, self.steps - 2)
        largest = unit * (draws if self.mode == "full" else 1) * (1 + 1e-12)
        times, squares = _exposure(self.steps, self.mode)
        squares = _rounding.product_up(unit, unit, squares, 1 + 1e-12)
        sensitivity = Sensitivity(largest, "range", LEMMA)
        ranges = unit * times * (1 + 1e-12) if self.privacy.pure else None
        return VertexSampling(sensitivity, draws, squares, max(1, self.steps - 1), ranges)

    @property
    def predicted_error(self) -> PredictedError:
        width = self.queries.high - self.queries.low
        bound = _bound(self.queries, self.mode, self.steps, self.tau_x, self.tau_y)
        return PredictedError(bound, width, "regrets of both players (Theorem 1.1, reconstructed)")

    @property
    def expectation(self) -> float:
        return self.predicted_error.bound / 3

    def describe(self) -> Mapping[str, Any]:
        return {"mode": self.mode, "steps": self.steps, "batch": self.batch, "tau_x": self.tau_x, "tau_y": self.tau_y}

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> Answered:
        queries, n, B, session = self.queries, self.n, self.batch, self.sampling.start(LABEL, source, ledger)
        if self.mode == "fresh":  # batches need an order that says nothing about the records
            records = source.generator().permutation(records)
        data = self.record_sums(records) / n if self.mode == "full" else np.zeros(0)
        log_x, total = np.zeros(queries.cells), np.zeros(queries.cells)  # x^1 uniform
        answered = np.zeros(queries.count)  # sum of <q_j, x^k>, public
        score = np.zeros(queries.count)  # of +q_j; -q_j has its negative; y^1 uniform
        for t in range(1, self.steps + 1):
            x = np.exp(log_x - log_x.max())
            x /= x.sum()
            total += x
            if t == self.steps:
                break
            # The y-player draws j_t ~ y^t; given it, the x-player's step is public.
            drawn = int(session.draw(np.concatenate([score, -score]))[0])
            sign = 1.0 if drawn < queries.count else -1.0
            log_x += self.tau_x * sign * queries.query(drawn % queries.count)
            if t == self.steps - 1:
                continue  # a gradient after the last draw would not be used
            if self.mode == "full":
                answered += queries.answers(x)
                # Computed from t times the data: a running sum would add up roundings.
                score = self.tau_y * (t * data - answered)
            else:
                means = queries.record_sums(records[(t - 1) * B : t * B]) / B
                score += self.sampling.on_grid(self.tau_y * (means - queries.answers(x)))
        return self.answered(total / self.steps)


def _unit_range(queries: LinearQueries, batch: int) -> float:
    """Return the range of the scores' change in one step per unit of tau_y: twice a mean's change plus rounding."""
    return 2 * ((queries.high - queries.low) / batch + 4 * rounding(queries)) * (1 + 1e-6)


def _exposure(steps: int, mode: str) -> tuple[float, float]:
    """Return the sums over draws of ranges and of their squares, over the first draw's, for the most exposed record."""
    k = max(1, steps - 2)
    return (k * (k + 1) / 2, k * (k + 1) * (2 * k + 1) / 6) if mode == "full" else (float(k), float(k))


def _cap(queries: LinearQueries, n: int, privacy: PrivacyParams, steps: int, mode: str) -> float:
    """Return the largest tau_y that the promise allows."""
    unit = _unit_range(queries, n if mode == "full" else n // max(1, steps - 2))
    ranges, squares = _exposure(steps, mode)
    if privacy.pure:
        return privacy.epsilon / (unit * ranges * ENLARGEMENT**2) * (1 - 1e-9)
    rho = largest_rho(privacy.epsilon, privacy.delta)
    return math.sqrt(8 * rho / squares) / (unit * ENLARGEMENT) * (1 - 1e-9)


def _bound(queries: LinearQueries, mode: str, steps: int, tau_x: float, tau_y: float) -> float:
    """Return a regret bound on the largest error, for fresh batches about the population (docs, Saddle points)."""
    width = queries.high - queries.low
    of_x = math.log(queries.cells + 1) / (tau_x * steps) + tau_x * width**2 / 8
    of_y = math.log(2 * queries.count) / (tau_y * steps) + tau_y * width**2 / 2
    return of_x + of_y * (1 if mode == "full" else 2)


def _tuned(
    queries: LinearQueries, n: int, privacy: PrivacyParams, mode: str, steps: int, paper: bool
) -> tuple[float, float]:
    """Return step sizes: of least bound, or the printed ones for queries scaled to [-1, 1], up to the printed cap."""
    width, ell_x, ell_y = queries.high - queries.low, math.log(queries.cells + 1), math.log(2 * queries.count)
    cap = _cap(queries, n, privacy, steps, mode)
    if not paper:
        return math.sqrt(8 * ell_x / steps) / width, min(cap, math.sqrt(2 * ell_y / steps) / width)
    printed = n * privacy.epsilon / (8 * steps * math.sqrt(2 * steps * math.log(1 / privacy.delta)))
    scale = 2 / width
    return scale * math.sqrt(ell_x / steps), min(cap, scale * min(math.sqrt(ell_y / steps), printed))


@recorded("saddle_point_synthetic")
def plan(
    queries: LinearQueries, n: int, privacy: PrivacyParams,
    *, constants: str = "calibrated", mode: str | None = None, steps: int | None = None,
) -> SyntheticPlan:  # fmt: skip
    """Plan synthetic data by a private saddle point; the queries are closed under negation here.

    ``constants="calibrated"`` takes the steps of least bound with zCDP accounting of bounded ranges, and all records at
    every step (``mode="full"``), for the data's own answers. ``"paper"`` takes the printed orders with constant 1, the
    printed cap, which needs ``delta > 0``, and disjoint batches (``mode="fresh"``). `steps` is T, at least 2, with
    fresh batches at most ``n + 2``; its default follows from `constants`, and calibrated ones are limited by time.
    """
    check(queries, n, privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    paper = constants == "paper"
    if paper:
        require_delta(privacy, "constants='paper'")
    mode = mode or ("fresh" if paper else "full")
    _validate.choice("mode", mode, MODES)
    most = MOST_STEPS if mode == "full" else min(MOST_STEPS, n + 2)
    if steps is not None:
        _validate.integer("steps", steps, at_least=2)
        if mode == "fresh" and steps > n + 2:
            raise InvalidParameterError("steps", steps, f"must be at most n + 2 = {n + 2}", "Use mode='full'")
    elif paper:
        wanted = n * privacy.epsilon * math.sqrt(math.log(queries.cells + 1))
        steps = round(wanted / (math.log(2 * queries.count) * math.sqrt(math.log(1 / privacy.delta))))
        steps = min(max(steps, 2), most)
    else:
        most = min(most, max(300, int(MOST_WORK / queries.cells)))
        grid = {min(most, round(2 ** (i / 4))) for i in range(4, 4 * most.bit_length() + 1)}
        steps = min(sorted(grid), key=lambda T: _bound(queries, mode, T, *_tuned(queries, n, privacy, mode, T, False)))
    tau_x, tau_y = _tuned(queries, n, privacy, mode, steps, paper)
    return SyntheticPlan(queries, n, privacy, mode, steps, tau_x, tau_y, constants)
