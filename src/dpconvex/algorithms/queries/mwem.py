r"""MWEM (Hardt, Ligett and McSherry 2012) with replay of measurements and last iterate.

Listing
    For each of T rounds: select a block of queries (a marginal table, or one query) by the exponential mechanism on the
    largest error of the present histogram in it; measure its answers with Gaussian noise; fit the histogram to *all*
    measurements so far (`fit_histogram`, from the histogram of the round before). The last histogram is returned.
Guarantee
    (epsilon, delta) for neighbors that replace one record.
Lemma
    A mean answer moves by at most ``R/n``, ``R = high - low``, so the largest absolute error of a block moves by at
    most ``R/n`` either way, whatever the histogram: range ``2 c R/n`` of scores ``c * error``, ``eta^2/8``-zCDP each
    (Cesar and Rogers 2021). A measured block moves by at most ``block_l2/n`` in l2: ``mu^2/2``-zCDP. Both add up over
    adaptive rounds. Fits are post-processing.
Assumptions
    Rounds, shares and fit steps are public. Rounding of the computed means is in both sensitivities.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass, forwarded
from dpconvex.algorithms import PredictedError, recorded, require_delta
from dpconvex.algorithms.queries import base
from dpconvex.mechanisms import GaussianMechanism, Planned, VertexSampling
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems.queries import LinearQueries
from dpconvex.randomness import BitSource

SELECTED, MEASURED = "worst answered block", "answers of the selected block"
SELECTION_LEMMA = "absolute errors of a mean of n values move by at most (high - low)/n either way: range 2 c times it"
SELECTION_SHARE = 0.3  # share of the zCDP budget that all selections together get
FIT_STEPS = 20  # steps of the fit after every round except the last, whose number of steps follows from sigma


@final_dataclass
class MwemPlan(base.QueryReleasePlan):
    """Public constants of one run of MWEM."""

    rounds: int  #: number of rounds T
    rho: float  #: zCDP budget of all selections and measurements
    algorithm = "mwem"
    noise_name = "gaussian"
    theorem = "Exponential and Gaussian mechanisms in adaptive zCDP composition (MWEM, Hardt et al. 2012, with replay)."
    expectation = forwarded("predicted_error", "bound")

    @cached_property
    def scale(self) -> float:
        """The factor c that turns an absolute error into a score."""
        eta = math.sqrt(8 * self.rho * SELECTION_SHARE / self.rounds) * (1 - 1e-9) / ENLARGEMENT
        return eta / self._largest_move

    @property
    def _largest_move(self) -> float:
        """The largest change of the difference of two computed errors: twice ``R/n``, plus rounding."""
        width = self.queries.high - self.queries.low
        return 2 * (width / self.n + 4 * base.rounding(self.queries)) * (1 + 1e-12)

    @cached_property
    def selection(self) -> VertexSampling:
        eta = _rounding.product_up(self.scale, self._largest_move, 1 + 1e-12)
        squares = _rounding.product_up(eta, eta, float(self.rounds))
        return VertexSampling(Sensitivity(eta, "range", SELECTION_LEMMA), self.rounds, squares, self.rounds)

    @cached_property
    def measurements(self) -> Mapping[int, GaussianMechanism]:
        """The noise of a block's answers, by its number of queries; all sizes cost the same privacy event."""
        mu = math.sqrt(2 * self.rho * (1 - SELECTION_SHARE) / self.rounds) * (1 - 1e-9)
        sizes = {part.stop - part.start for part in self.queries.blocks}
        sensitivity = base.mean_sensitivity(self.queries, self.n, 1, max(sizes))
        return {size: GaussianMechanism.of_mu(sensitivity, mu, size) for size in sizes}

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise of a measured answer."""
        return next(iter(self.measurements.values())).sigma

    @property
    def predicted_error(self) -> PredictedError:
        queries, width = self.queries, self.queries.high - self.queries.low
        unseen = max(0.0, 1 - self.rounds / len(queries.blocks))
        fitted = width * math.sqrt(math.log(queries.cells) / (2 * self.rounds)) / 4
        noise = self.sigma * math.sqrt(2 * math.log(2 * queries.count))
        what = "measured rule for MWEM with replay; no bound is known"  # benchmarks, Synthetic data
        return PredictedError(noise + unseen * fitted, width, what, proved=False)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {SELECTED: self.selection, MEASURED: next(iter(self.measurements.values()))}

    @property
    def releases(self) -> tuple[Release, ...]:
        selected, measured = super().releases
        return (selected, replace(measured, times=self.rounds))

    def describe(self) -> Mapping[str, Any]:
        constants = {"rounds": self.rounds, "selection_share": SELECTION_SHARE, "sigma": self.sigma}
        return {**constants, "score_scale": self.scale, "fit_steps": FIT_STEPS}

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> base.Answered:
        queries = self.queries
        session = self.selection.start(SELECTED, source, ledger)
        truth = self.record_sums(records) / self.n
        starts = [part.start for part in queries.blocks]
        histogram = np.full(queries.cells, 1 / queries.cells)
        sums: dict[int, Floats] = {}
        times: dict[int, int] = {}
        for t in range(1, self.rounds + 1):
            # 1. Select a block by the largest error of the present histogram in it.
            errors = np.maximum.reduceat(np.abs(truth - queries.answers(histogram)), starts)
            block = int(session.draw(self.scale * errors)[0])
            # 2. Measure its answers.
            answers = truth[queries.blocks[block]]
            noisy = self.measurements[len(answers)].release(answers, MEASURED, source, ledger)
            sums[block] = sums.get(block, 0.0) + noisy
            times[block] = times.get(block, 0) + 1
            # 3. Fit the histogram to all measurements so far.
            steps = FIT_STEPS if t < self.rounds else base.planned_steps(queries, self.sigma, self.rounds)
            histogram = base.fit_histogram(queries, {b: sums[b] / times[b] for b in sums}, times, histogram, steps)
        return self.answered(histogram)


@recorded("mwem")
def plan(queries: LinearQueries, n: int, privacy: PrivacyParams, *, rounds: int | None = None) -> MwemPlan:
    """Plan MWEM.

    `rounds` is the number T of rounds, from public knowledge; the default balances the error of blocks that stay
    unmeasured with the noise of a measurement, and is at most the number of blocks.
    """
    base.check(queries, n, privacy)
    require_delta(privacy)
    rho = largest_rho(privacy.epsilon, privacy.delta) * (1 - 1e-9)
    if rounds is None:
        signal = n * math.sqrt(2 * rho * math.log(queries.cells + 1)) / math.log(2 * queries.count)
        rounds = max(1, min(len(queries.blocks), 60, round(signal / 4)))
    _validate.integer("rounds", rounds, at_least=1)
    return MwemPlan(queries, n, privacy, rounds, rho)
