r"""AdaSSP: ridge regression from noisy second moments, its weight from a noisy smallest eigenvalue.

Guarantee
    (epsilon, delta)-DP, neighbors replace one record, or one user with all records (the unit of the promise).
Lemma
    Replacing one record moves the smallest eigenvalue of the mean of ``x x^T`` by at most ``X^2 / n``, the mean itself
    by ``sqrt(2) X^2 / n`` in Frobenius length and that of ``x y`` by ``2 X B / n`` in l2. Gaussian noise composes.
Sensitivity
    As the lemma has it, and the rounding of sums; a third of ``mu^2`` each.
Assumptions
    Records are clipped into the domain, targets into their bounds; the number of units is public.
Deviations from the paper
    Its neighbors add or remove a record, which moves the last two by ``X^2`` and ``X B``; its noise is that of the
    classical Gaussian mechanism with a third of epsilon and of delta each, here of a third of the exact budget; its
    noise has equal deviations on the upper triangle, here those of an isotropic matrix. The rules for the smallest
    eigenvalue and the ridge are the paper's, for these deviations. Eigenvalues that stay below the ridge are raised to
    it, where the paper's matrix would be indefinite.

References
----------
Wang 2018, "Revisiting differentially private linear regression: optimal and adaptive prediction and estimation in
unbounded domain", UAI, Algorithm 2 (AdaSSP).
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.algorithms import LinearModelPlan, PredictedError, PrivateResult, recorded
from dpconvex.algorithms.erm.sufficient_statistics import (
    MOMENTS,
    MOMENTS_LEMMA,
    Statistics,
    check_regression,
    noisy_mean,
    packed,
    unpacked,
)
from dpconvex.losses import SquaredLoss
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.plugins import printed
from dpconvex.privacy import Assumption, Ledger, PrivacyParams
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.randomness import BitSource

EIGENVALUE, PRODUCTS = "smallest eigenvalue of the second moments", "mean products of features and target"
EIGENVALUE_LEMMA = "the smallest eigenvalue moves by at most X^2 / n, plus rounding"
PRODUCTS_LEMMA = "the mean of x y moves by at most 2 X B / n, plus rounding"


@final_dataclass
class AdasspPlan(LinearModelPlan):
    """Constants of one run of AdaSSP: the noise of its three releases."""

    problem: LinearModelProblem
    privacy: PrivacyParams
    eigenvalue: GaussianMechanism
    moments: GaussianMechanism
    products: GaussianMechanism
    l2: float = 0.0
    noise_name: str = "gaussian"
    constants: str = "paper"
    algorithm: ClassVar[str] = "sufficient_statistics"
    theorem = "AdaSSP (Wang 2018, Algorithm 2) for replaced records: three Gaussian mechanisms, composed."  # pyright: ignore[reportAssignmentType]
    assumptions = (Assumption("targets lie within their bound", "each is clipped before anything is computed"),)  # pyright: ignore[reportAssignmentType]
    only_sums = forwarded("problem", "only_sums")

    @property
    def largest_ridge(self) -> float:
        """Ridge where the smallest eigenvalue counts as 0."""
        d, failure = self.problem.dim, 0.05  # the paper's rho: that noise exceeds what the ridge allows for
        return math.sqrt(d * math.log(2 * d**2 / failure)) * self.moments.sigma

    @property
    def predicted_error(self) -> PredictedError:
        """``R sqrt(d) sigma + R^2 lambda`` for the largest ridge: an estimate."""
        R, noise = self.problem.radius, math.sqrt(self.problem.dim) * self.products.sigma
        source = "AdaSSP; an estimate for the largest ridge"
        return PredictedError(R * noise + R**2 * self.largest_ridge, self.problem.value_at_zero, source, proved=False)

    @property
    def mechanisms(self) -> Mapping[str, GaussianMechanism]:
        return {EIGENVALUE: self.eigenvalue, MOMENTS: self.moments, PRODUCTS: self.products}

    @property
    def coefficient_deviation(self) -> Floats:
        """The noise of the products, through the largest ridge."""
        return np.full(self.problem.dim, min(self.products.sigma / self.largest_ridge, self.problem.radius))

    def describe(self) -> Mapping[str, Any]:
        return {"noise": self.noise_name, "largest_ridge": self.largest_ridge}

    def ridge(self, eigenvalue: float) -> float:
        """Return the ridge for the noisy smallest eigenvalue."""
        surely = max(0.0, eigenvalue - math.sqrt(math.log(6 / self.privacy.delta)) * self.eigenvalue.sigma)
        return max(0.0, self.largest_ridge - surely)

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        """Algorithm 2."""
        ledger, d = Ledger(self.privacy, self.releases), self.problem.dim
        data = Statistics.of(self.problem, X, y, groups, np.ones(d))
        exact = data.moments()
        smallest = self.eigenvalue.release(np.linalg.eigvalsh(exact)[:1], EIGENVALUE, source, ledger)
        noisy = unpacked(self.moments.release(packed(exact), MOMENTS, source, ledger), d)
        products = self.products.release(data.products(), PRODUCTS, source, ledger)
        ridge = self.ridge(float(smallest[0]))
        values, basis = np.linalg.eigh(noisy)
        floor = ridge or self.moments.sigma
        return self.finish(basis @ (basis.T @ products / np.maximum(values + ridge, floor)), source)


@printed("sufficient_statistics")
@recorded("adaptive_ridge")
def plan_adaptive_ridge(problem: LinearModelProblem, privacy: PrivacyParams) -> AdasspPlan:
    """Return the plan of AdaSSP; problems and promises are those of `sufficient_statistics.plan`."""
    check_regression(problem, privacy)
    assert isinstance(problem.loss, SquaredLoss)  # checked
    length, d = problem.domain.l2, problem.dim
    mu = largest_mu(privacy.epsilon, privacy.delta) / math.sqrt(3) * (1 - 1e-12)  # accountants round up
    return AdasspPlan(
        problem,
        privacy,
        noisy_mean(problem, privacy, length**2, EIGENVALUE_LEMMA, mu, 1),
        noisy_mean(problem, privacy, math.sqrt(2) * length**2, MOMENTS_LEMMA, mu, d * (d + 1) // 2),
        noisy_mean(problem, privacy, 2 * length * problem.loss.target_bound, PRODUCTS_LEMMA, mu, d),
    )
