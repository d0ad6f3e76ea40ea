r"""Independent noise on all answers: the simplest method, and the best one for few queries.

Guarantee
    Pure epsilon by Laplace noise, or (epsilon, delta) by Gaussian noise, for neighbors that replace one record; one
    release, priced exactly.
Lemma
    Replacing one of n records moves the mean answers of one block of queries by at most ``block_l2 / n`` in l2 and
    ``block_l1 / n`` in l1, those of all blocks by at most ``block_l2 sqrt(blocks) / n`` and ``block_l1 blocks / n``.
    Rounding of the computed means is added: times ``sqrt(count)`` in l2, times count in l1.
Assumptions
    The queries and their range are public. Fitting a histogram to the released answers is post-processing.
Bound
    ``sigma sqrt(2 log(2 count))``, for Laplace noise ``b (1 + log(count))``, bounds the expected largest error of the
    *released answers* about the data; no bound is claimed for the answers of the histogram.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms import PredictedError, recorded, uses
from dpconvex.algorithms.queries import base
from dpconvex.mechanisms import GaussianMechanism, LaplaceMechanism
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.problems.queries import LinearQueries
from dpconvex.randomness import BitSource

LABEL = "answers to all queries"


@final_dataclass
class QueryNoisePlan(base.QueryReleasePlan):
    """Public constants of one noisy release of all answers."""

    mu: float  #: budget of Gaussian noise; 0 for Laplace noise
    algorithm = "query_noise"
    theorem = "Gaussian or Laplace mechanism on the vector of all mean answers."
    mechanisms = uses({LABEL: "mechanism"})

    @property
    def noise_name(self) -> str:
        return "gaussian" if self.mu else "laplace"

    @cached_property
    def _noise(self) -> tuple[LaplaceMechanism | GaussianMechanism, float, float]:
        """The mechanism, the deviation of its noise, and a bound on the expected largest noise of all answers."""
        queries, blocks = self.queries, len(self.queries.blocks)
        sensitivity = base.mean_sensitivity(queries, self.n, blocks, queries.count, "l2" if self.mu else "l1")
        if self.mu:
            gaussian = GaussianMechanism.of_mu(sensitivity, self.mu, queries.count)
            return gaussian, gaussian.sigma, gaussian.sigma * math.sqrt(2 * math.log(2 * queries.count))
        laplace = LaplaceMechanism.calibrate(sensitivity, self.privacy.epsilon, queries.count)
        return laplace, math.sqrt(2) * laplace.scale, laplace.scale * (1 + math.log(queries.count))

    @property
    def mechanism(self) -> LaplaceMechanism | GaussianMechanism:
        """The mechanism that releases the answers."""
        return self._noise[0]

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise of an answer."""
        return self._noise[1]

    @property
    def predicted_error(self) -> PredictedError:
        return PredictedError(self._noise[2], self.queries.high - self.queries.low, "largest of the noise variables")

    @property
    def expectation(self) -> float:
        """The error that is expected after the fit of the histogram, which removes most of the noise."""
        return min(base.noise_left(self.queries, self.sigma), self.predicted_error.bound)

    @cached_property
    def fit_steps(self) -> int:
        """Steps of the histogram's fit: enough that its own error is below that of the noise."""
        return base.planned_steps(self.queries, self.sigma, len(self.queries.blocks))

    def describe(self) -> Mapping[str, Any]:
        return {"sigma": self.sigma, "fit_steps": self.fit_steps}

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> base.Answered:
        queries = self.queries
        noisy = self.mechanism.release(self.record_sums(records) / self.n, LABEL, source, ledger)
        answers = np.clip(noisy, queries.low, queries.high)
        targets = {b: noisy[part] for b, part in enumerate(queries.blocks)}
        uniform = np.full(queries.cells, 1 / queries.cells)
        times = dict.fromkeys(targets, 1)
        return self.answered(base.fit_histogram(queries, targets, times, uniform, self.fit_steps), answers)


@recorded("query_noise")
def plan(queries: LinearQueries, n: int, privacy: PrivacyParams) -> QueryNoisePlan:
    """Plan the noisy answers."""
    base.check(queries, n, privacy)
    return QueryNoisePlan(queries, n, privacy, base.mu_of(privacy))
