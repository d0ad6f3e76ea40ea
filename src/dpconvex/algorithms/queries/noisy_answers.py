r"""Independent Gaussian noise on all answers: what everybody tries first, and the best for few queries.

Guarantee
    (epsilon, delta) for neighbors that replace one record; one Gaussian release, priced by its exact profile.
Lemma
    Replacing one of n records moves the mean answers of one block of queries by at most ``block_l2 / n`` in l2, and
    those of all blocks by at most ``block_l2 sqrt(blocks) / n``. Rounding of the computed means is added.
Assumptions
    The queries and their range are public. Fitting a histogram to the released answers is post-processing.
Bound
    ``sigma sqrt(2 log(2 count))`` on the expected largest error of the *released answers* about the data. The
    histogram's answers are usually better where queries overlap; no bound on their largest error is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms import PredictedError, recorded, require_delta
from dpconvex.algorithms.queries.base import QueryReleasePlan, check, fit_histogram, mean_sensitivity
from dpconvex.mechanisms import GaussianMechanism, Planned
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems.queries import LinearQueries
from dpconvex.randomness import BitSource

LABEL = "answers to all queries"


@final
@dataclass(frozen=True)
class QueryNoisePlan(QueryReleasePlan):
    """Constants of one noisy release of all answers."""

    mu: float  #: Gaussian budget
    fit_steps: int  #: of the fit of the histogram
    algorithm = "query_noise"
    only_sums: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleMethodOverride]
    constants = "calibrated"
    noise_name = "gaussian"
    theorem = "Gaussian mechanism on the vector of all mean answers."

    @cached_property
    def mechanism(self) -> GaussianMechanism:
        queries = self.queries
        sensitivity = mean_sensitivity(queries, self.n, len(queries.blocks), queries.count)
        return GaussianMechanism.of_mu(sensitivity, self.mu, queries.count)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {LABEL: self.mechanism}

    @property
    def predicted_error(self) -> PredictedError:
        bound = self.mechanism.sigma * math.sqrt(2 * math.log(2 * self.queries.count))
        return PredictedError(bound, self.queries.high - self.queries.low, "largest of normal variables")

    @property
    def expectation(self) -> float:
        """What is left after the fit, which removes most of the noise."""
        return expected_error(self.queries, self.n, self.privacy)

    def describe(self) -> Mapping[str, Any]:
        return {"sigma": self.mechanism.sigma, "fit_steps": self.fit_steps}

    def _run(self, records: Any, source: BitSource, ledger: Ledger) -> tuple[FloatArray, FloatArray]:
        queries = self.queries
        truth = self.record_sums(records) / self.n
        noisy = self.mechanism.release(truth, LABEL, source, ledger)
        answers = np.clip(noisy, queries.low, queries.high)
        targets = {b: noisy[part] for b, part in enumerate(queries.blocks)}
        uniform = np.full(queries.cells, 1 / queries.cells)
        return fit_histogram(queries, targets, dict.fromkeys(targets, 1), uniform, self.fit_steps), answers


@recorded("query_noise")
def plan(queries: LinearQueries, n: int, privacy: PrivacyParams, *, fit_steps: int = 200) -> QueryNoisePlan:
    """Plan the noisy answers; each of the `fit_steps` of a histogram to them reads the domain twice."""
    check(queries, n, privacy)
    _validate.integer("fit_steps", fit_steps, at_least=1)
    require_delta(privacy)
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-9)  # accountants round up
    return QueryNoisePlan(queries, n, privacy, mu, fit_steps)


def expected_error(queries: LinearQueries, n: int, privacy: PrivacyParams) -> float:
    """Return the size of a fitted histogram's errors, from public facts.

    The fit is at most as far from the noisy answers as the data are, so its squared errors sum to at most twice
    ``max_z <noise, q(z)>``, in expectation at most ``sigma sqrt(2 block_square blocks log Z)`` (Nikolov, Talwar and
    Zhang 2013): a bound on the *root mean square* error. In experiments the largest was at most that.
    """
    sigma = plan(queries, n, privacy).mechanism.sigma
    blocks = len(queries.blocks)
    width = queries.block_l2 / math.sqrt(2) * math.sqrt(2 * blocks * math.log(queries.cells + 1))
    return min(math.sqrt(2 * sigma * width / queries.count), sigma * math.sqrt(2 * math.log(2 * queries.count)))
