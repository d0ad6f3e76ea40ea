r"""Least squares from noisy second moments, refined by noisy gradients of cut residuals.

Guarantee
    (epsilon, delta)-DP, neighbors replace one record, or one user with all records (the unit of the promise).
Lemma
    For vectors z, z' of length at most Z, ``|z z^T - z' z'^T|_F^2 = |z|^4 + |z'|^4 - 2 <z, z'>^2 <= 2 Z^4``: the mean
    of ``z z^T`` moves by at most ``sqrt(2) Z^2 / n`` in Frobenius length when one record is replaced. The mean of
    ``x cut(r)``, r the residual over a level and cut to [-1, 1], moves by at most ``2 X / n`` in l2, at every point
    and for every level, whatever they depend on. Shares of residuals by size move by at most ``sqrt(2) / n`` in l2.
    A user's part of each mean is a weighted mean of such terms: they have the same lengths, and inner products of two
    users' moments or shares are at least 0 like those of two records. Gaussian noise composes adaptively, mu by the
    root of the sum of squares; all else is post-processing. Proofs: docs, Sufficient statistics.
Sensitivity
    The lemma's, plus the rounding of sums. Features are divided by the units of `gaussian_block_weights`, in which X is
    the largest length of a record, and targets by a unit in which their square is at most ``t X^2``, where t is
    `Tuning.target_share`; ``Z^2 = (1 + t) X^2``.
Assumptions
    Records are clipped into the domain and targets into their bounds. The number of units, all noise and all numbers of
    steps are functions of public numbers. The level of residuals, the ridge and the steps' preconditioner are functions
    of released values.

`Statistics` reads the data, and its results are not private. `Curvature` and `cutting_level` see released numbers only:
they are post-processing. A look is a release of residuals' shares by size; residuals are cut at the level it suggests.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.algorithms import LinearModelPlan, PredictedError, PrivateResult, StatedPlan, check_average, recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import gaussian_block_weights
from dpconvex.losses import SquaredLoss
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.plugins import of_paper
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.base import ROUNDING
from dpconvex.problems.data import summation
from dpconvex.problems.data.records import RecordSource, RowBlock
from dpconvex.randomness import BitSource

_ENERGIES = np.exp(np.linspace(-9.0, 6.0, 61))
"""Candidates for the energy (squared length) of the parameters, over the energy expected from the public radius."""


@final_dataclass(eq=False)
class Statistics:
    """Weighted sums over records, made by `of`. A record has weight ``1/n``; a user's records share ``1/n``."""

    problem: LinearModelProblem
    records: RecordSource
    targets: Floats | None  #: None if the records hold the targets, as they always hold weights
    units: Floats  #: (dim,), the units by which features are divided, and parameters multiplied

    @classmethod
    def of(cls, problem: LinearModelProblem, X: Array, y: Array, groups: UserGroups | None, units: Floats) -> Self:
        """Return the statistics of clipped and weighted records and targets."""
        (records, targets), weights = problem.clipped(X, y), problem.weights(groups)
        return cls(problem, records if weights is None else records.weighted(weights), targets, units)

    def moments(self) -> Floats:
        """Return the mean of ``x x^T``, shape (dim, dim)."""
        size = self.records.domain.linf * math.sqrt(1 / self.problem.n)
        # Rounding towards 0 keeps each record in the domain. Sums are exact: grids and errors do not depend on data.
        found = self.records.total(lambda b: (b.gram(np.sqrt(self._weights(b)), size, np.trunc),))[0]
        return summation.gram(found, size) / np.outer(self.units, self.units)

    def products(self) -> Floats:
        """Return the mean of ``x y``, shape (dim,)."""
        size = _target_bound(self.problem) * self.records.domain.linf / self.problem.n
        found = self.records.total(lambda b: (self._adjoint(b, b.targets_in(self.targets), size),))[0]
        return summation.weighted_vector(found) / self.units

    def joint_moments(self, unit: float) -> Floats:
        """Return the mean of ``z z^T`` for ``z = (x, y / unit)``, shape (dim + 1, dim + 1)."""
        known, bound = self.records.domain, _target_bound(self.problem)
        p, d, most = known.n_features, self.records.dim, known.linf
        # Targets have the features' grid, whatever the units of both.
        domain = DataDomain((*known.blocks, Block(1, "linf", most, "target")), known.intercept)
        lifted = self.records.lifted(lambda y: y / bound * most, self.targets, domain)
        # The same rounded z makes all entries, or else they would be those of no z z^T, and move by more.
        found = replace(self, records=lifted, units=np.insert(self.units, p, most * unit / bound)).moments()
        order = [*range(p), *range(p + 1, d + 1), p]  # the target comes last
        return found[np.ix_(order, order)]

    def gradient(self, w: Floats, clip: float) -> Floats:
        """Return the mean of ``x cut(r)``, r the residual at `w` over `clip` and cut to [-1, 1]; shape (dim,)."""
        size = self.records.domain.linf / self.problem.n

        def work(block: RowBlock) -> summation.Parts:
            cut = np.nan_to_num(np.clip(self._residuals(block, w) / clip, -1.0, 1.0))  # overflow stays in its record
            return (self._adjoint(block, cut, size),)

        return summation.weighted_vector(self.records.total(work)[0]) / self.units

    def residual_shares(self, w: Floats, thresholds: Floats) -> Floats:
        """Return the share of records by size of residual, between ascending thresholds, (len(thresholds) + 1,)."""
        bins, size = len(thresholds) + 1, 1 / self.problem.n

        def work(block: RowBlock) -> summation.Parts:
            found = np.searchsorted(thresholds, np.abs(self._residuals(block, w)), side="right")
            indicators, weights = np.eye(bins)[found], self._weights(block)
            of = lambda rows, size: summation.vector_parts(indicators[rows], weights[rows], size)  # noqa: E731
            return (summation.by_weight(weights, size, size, of),)

        return summation.weighted_vector(self.records.total(work)[0])

    def _adjoint(self, block: RowBlock, values: Floats, size: float) -> Array:
        return block.weighted_adjoint(values, self._weights(block), 1 / self.problem.n, size)

    def _residuals(self, block: RowBlock, w: Floats) -> Floats:
        return -self.problem.loss.derivative(block.predict(w / self.units), block.targets_in(self.targets))

    def _weights(self, block: RowBlock) -> Floats:
        if block.weights is not None:
            return block.weights
        return np.full(block.features.shape[0], _rounding.ratio_down(1.0, self.problem.n))


def packed(matrix: Floats) -> Floats:
    """Return the upper triangle of a symmetric matrix as a vector of the matrix's Frobenius length."""
    rows, columns = np.triu_indices(len(matrix))
    return matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))


def unpacked(vector: Floats, dim: int) -> Floats:
    """Return the symmetric matrix, shape (dim, dim), of a `packed` vector."""
    rows, columns = np.triu_indices(dim)
    matrix = np.zeros((dim, dim))
    matrix[rows, columns] = vector / np.where(rows == columns, 1.0, np.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T


@final_dataclass(eq=False)
class Curvature:
    """Eigenvalues of noisy second moments, raised to 0; steps add the resolution, a curvature that noise may hide."""

    values: Floats  #: eigenvalues, at least 0
    basis: Floats  #: eigenvectors in columns
    deviation: float  #: noise deviation of an entry off the diagonal
    resolution: float  #: largest curvature that noise may hide

    @classmethod
    def of(cls, matrix: Floats, deviation: float, share: float) -> "Curvature":
        """Decompose a noisy matrix, shape (dim, dim); the resolution is `share` times ``sqrt(dim)`` deviations."""
        values, basis = np.linalg.eigh(matrix)
        return cls(np.maximum(values, 0.0), basis, deviation, share * deviation * np.sqrt(len(values)))

    def first_fit(self, products: Floats, deviation: float, expected: float) -> tuple[Floats, float]:
        """Return the posterior mean of the parameters, for a normal prior, and the most likely energy."""
        d, a, seen = len(self.values), self.values, self.basis.T @ products
        energies = expected * _ENERGIES
        noise = deviation**2 + self.deviation**2 * energies
        variances = energies[:, None] / d * a**2 + noise[:, None]
        prior = -0.5 * (np.log(_ENERGIES) / 1.5) ** 2  # 1.5: prior deviation of the logarithm
        evidence = -0.5 * (np.log(variances) + seen**2 / variances).sum(1) + prior
        best = int(np.argmax(evidence))
        return self.basis @ (energies[best] / d * a * seen / variances[best]), float(energies[best])

    def step(self, gradient: Floats, ridge: float) -> Floats:
        """Return the inverse of ``A + (resolution + ridge) I`` times a gradient, shape (dim,)."""
        return self.basis @ (self.basis.T @ gradient / (self.values + self.resolution + ridge))

    def settled(self, points: Floats, gradients: Floats, ridge: float) -> Floats:
        """Return a step from the mean of points and gradients (rounds, dim); the last half where curvature hides."""
        late = slice(len(points) // 2, None)
        last, whole = (points[part].mean(0) + self.step(gradients[part].mean(0), ridge) for part in (late, slice(None)))
        known = np.square(self.values / (self.values + self.resolution + ridge))
        return last + self.basis @ (known * (self.basis.T @ (whole - last)))


def cutting_level(shares: Floats, thresholds: Floats, noise: float, reach: float) -> float:
    """Return the threshold with the least sum of noise and bias, by noisy shares (k + 1,) between thresholds (k,)."""
    edges = np.concatenate([[0.0], thresholds, thresholds[-1:]])
    middle = (edges[1:] + edges[:-1]) / 2
    beyond = np.maximum(middle[None, :] - thresholds[:, None], 0.0) @ shares
    cost = (noise * thresholds) ** 2 + (reach * np.maximum(beyond, 0.0)) ** 2
    return float(thresholds[np.argmin(cost)])


MOMENTS = "second moments"
MOMENTS_LEMMA = "the mean of z z^T moves by at most sqrt(2) Z^2 / n in Frobenius length, plus rounding"
GRADIENT_LEMMA = "the mean of x cut(r) with |cut| <= 1 moves by at most 2 X / n, plus rounding"
SHARES_LEMMA = "one share falls by at most 1/n and another grows by at most 1/n, plus rounding"
MOST_COLUMNS = 2000


@final_dataclass
class Tuning:
    """Constants chosen on simulated tables (docs, Sufficient statistics)."""

    moments_share: float = 0.15  #: share of mu^2 for the second moments
    residuals_share: float = 0.05  #: share of mu^2 for all looks at residuals; gradients have the rest
    stages: tuple[tuple[int, float], ...] = ((6, 0.15), (20, 0.85))  #: by stage: gradients, and share of that rest
    target_share: float = 0.1  #: largest square of a target among the moments, over X^2
    resolution: float = 1.7  #: hidden curvature, over sqrt(d) deviations of a moment; the noise's norm is 2 of these
    pull: float = 0.3  #: ridge, over the length of the gradient's noise divided by the length of the parameters
    reach: float = 0.05  #: length of the mean of cut-off parts, over X times their mean size; at most 1, if parallel
    levels: int = 17  #: number of levels for residuals, of ratio sqrt(2), up to the largest residual
    expected_level: float = 0.5  #: expected level of residuals, over the target bound
    last_steps: float = 1.5  #: variance of a stage's result over that of the mean of all its gradients, as measured


TUNING = Tuning()


@final_dataclass
class Stage:
    """One look at residuals and some gradients, each at level 1; stages are numbered from 1."""

    number: int
    residuals: GaussianMechanism
    gradients: GaussianMechanism
    rounds: int

    @property
    def residuals_label(self) -> str:
        """The label of the look's release."""
        return f"shares of residuals, stage {self.number}"

    @property
    def gradients_label(self) -> str:
        """The label of the gradients' releases."""
        return f"mean gradient of cut residuals, stage {self.number}"

    @property
    def deviation(self) -> float:
        """Deviation of the mean of all gradients, per unit of the level."""
        return self.gradients.sigma / math.sqrt(self.rounds)

    @property
    def noise(self) -> float:
        """Length of the noise of that mean, per unit of the level."""
        return math.sqrt(self.gradients.dim) * self.deviation

    @property
    def releases(self) -> tuple[Release, ...]:
        """The look at residuals, then all gradients."""
        gradients = replace(self.gradients.planned(self.gradients_label), times=self.rounds)
        return self.residuals.planned(self.residuals_label), gradients


@final_dataclass
class SufficientStatisticsPlan(StatedPlan):
    """Constants of one run of least squares by sufficient statistics."""

    moments: GaussianMechanism  #: noise of the joint second moments of features and targets
    stages: tuple[Stage, ...]
    l2: float = 0.0  #: ridge weight asked for; its gradient needs no noise
    noise_name: str = "gaussian"
    constants: str = "calibrated"
    algorithm: ClassVar[str] = "sufficient_statistics"
    exact_bits = forwarded("moments", "exact_bits")
    theorem = (  # pyright: ignore[reportAssignmentType]
        "Sufficient statistics, refined: noisy second moments, then noisy mean gradients with residuals cut at "
        "levels from noisy shares of residuals, composed adaptively."
    )
    assumptions = (  # pyright: ignore[reportAssignmentType]
        Assumption("targets lie within their bound", "each is clipped before anything is computed"),
        Assumption("a record's residual counts as at most the level", "it is cut, at every point and for every level"),
        Assumption("noise and number of steps are public", "the plan fixes them; every step is taken"),
    )
    only_sums = forwarded("problem", "only_sums")

    @property
    def units(self) -> Floats:
        """The units by which features are divided, shape (dim,)."""
        return gaussian_block_weights(self.problem.domain)[0]

    @property
    def record_length(self) -> float:
        """X, the length of the longest record in these units."""
        return gaussian_block_weights(self.problem.domain)[1]

    @property
    def target_unit(self) -> float:
        """The unit by which targets are divided among the moments."""
        return _target_bound(self.problem) / (math.sqrt(TUNING.target_share) * self.record_length)

    @property
    def moment_deviation(self) -> float:
        """Deviation of an entry of the noisy moments off the diagonal."""
        return self.moments.sigma / math.sqrt(2)

    @property
    def own_ridge(self) -> Floats:
        """Curvature of the ridge that was asked for, in the units of the noise, shape (dim,)."""
        return self.l2 / self.units**2

    @property
    def expected_energy(self) -> float:
        """Squared length of typical parameters in the units of the noise, up to the comparator's norm."""
        return (self.problem.radius * float(self.units.mean())) ** 2

    @cached_property
    def thresholds(self) -> Floats:
        """Ascending levels for residuals; the last is the largest possible residual."""
        slope = self.problem.loss.slope_bound
        largest = slope if math.isfinite(slope) else 2 * _target_bound(self.problem)
        return largest * 2.0 ** (-np.arange(TUNING.levels)[::-1] / 2)

    def with_public(self, moments: Floats) -> Floats:
        """Return noisy moments, shape (dim, dim), with the exact square of the constant, plus the ridge."""
        known = moments.copy()
        constant = self.problem.domain.intercept
        if constant:
            known[-1, -1] = (constant / self.units[-1]) ** 2
        return known + np.diag(self.own_ridge)

    @property
    def predicted_error(self) -> PredictedError:
        last, R = self.stages[-1], self.problem.radius * float(self.units.max())
        excess = R * last.noise * _target_bound(self.problem) + R**2 * self.hidden / (2 * last.rounds)
        source = "refined second moments; an estimate for residuals within the target bound"
        return PredictedError(excess, self.problem.value_at_zero, source, expected=self.expected, proved=False)

    @property
    def hidden(self) -> float:
        """Curvature that noise in the moments may hide."""
        return TUNING.resolution * math.sqrt(self.problem.dim) * self.moment_deviation

    @cached_property
    def expected(self) -> float:
        """Expected excess on typical data: noise, and a bias of K steps about like that of the ridge ``s / K``."""
        typical, last = self.problem.typical, self.stages[-1]
        level = TUNING.expected_level * _target_bound(self.problem)
        ridge = self.hidden / last.rounds + TUNING.pull * last.noise * level / math.sqrt(self.expected_energy)
        weight = self.l2 + ridge * float(np.mean(self.units**2))
        noise = typical.gradient_noise(weight, last.deviation * level * self.units)
        return typical.shrinkage(weight) + TUNING.last_steps * noise

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        return self.moments.planned(MOMENTS), *(release for stage in self.stages for release in stage.releases)

    @property
    def coefficient_deviation(self) -> Floats:
        """A guess, for pictures: the last gradients' noise through the curvature of columns that are independent."""
        blocks = self.problem.domain.all_blocks
        shares = [b.bound**2 / (3 if b.norm == "linf" else b.size) for b in blocks]
        squares = np.repeat(shares, [b.size for b in blocks]) / self.units**2
        noise, hidden = self.stages[-1].deviation * _target_bound(self.problem), self.hidden / self.stages[-1].rounds
        return np.minimum(noise / (squares + hidden + self.own_ridge) / self.units, self.problem.radius)

    def describe(self) -> Mapping[str, Any]:
        rounds = [stage.rounds for stage in self.stages]
        return {"noise": self.noise_name, "rounds": rounds, "target_unit": self.target_unit}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        """Fit noisy moments, then take noisy gradient steps with residuals cut at a level that is found privately."""
        ledger, d = Ledger(self.privacy, self.releases), self.problem.dim
        data = Statistics.of(self.problem, X, y, groups, self.units)
        joint = packed(data.joint_moments(self.target_unit))
        noisy = unpacked(self.moments.release(joint, MOMENTS, source, ledger), d + 1)
        curvature = Curvature.of(self.with_public(noisy[:d, :d]), self.moment_deviation, TUNING.resolution)
        products, deviation = noisy[:d, d] * self.target_unit, self.moment_deviation * self.target_unit
        w, energy = curvature.first_fit(products, deviation, self.expected_energy)
        for stage in self.stages:
            counted = data.residual_shares(w, self.thresholds)
            shares = stage.residuals.release(counted, stage.residuals_label, source, ledger)
            level = cutting_level(shares, self.thresholds, stage.noise, TUNING.reach * self.record_length)
            ridge = TUNING.pull * stage.noise * level / math.sqrt(max(energy, float(w @ w)))
            points, gradients = np.zeros((stage.rounds, d)), np.zeros((stage.rounds, d))
            for k in range(stage.rounds):
                cut = stage.gradients.release(data.gradient(w, level), stage.gradients_label, source, ledger)
                points[k], gradients[k] = w, level * cut - (self.own_ridge + ridge) * w
                w = w + curvature.step(gradients[k], ridge)
            w = curvature.settled(points, gradients, ridge)
        return self.finish(w / self.units, source)


@recorded("sufficient_statistics")
def plan(problem: LinearModelProblem, privacy: PrivacyParams, *, l2: float = 0.0) -> SufficientStatisticsPlan:
    """Return the plan, for the squared loss, at most `MOST_COLUMNS` columns and a positive delta.

    With a ridge weight `l2` the excess is that of the regularized loss.
    """
    check_regression(problem, privacy)
    _validate.real("l2", l2, at_least=0.0)
    mu, d = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12), problem.dim  # accountants round up
    length = gaussian_block_weights(problem.domain)[1]
    longest = math.sqrt(2) * (1 + TUNING.target_share) * length**2
    part = mu * math.sqrt(TUNING.moments_share)
    moments = noisy_mean(problem, privacy, longest, MOMENTS_LEMMA, part, (d + 1) * (d + 2) // 2)
    looks = TUNING.residuals_share / len(TUNING.stages)
    residuals = noisy_mean(problem, privacy, math.sqrt(2), SHARES_LEMMA, mu * math.sqrt(looks), TUNING.levels + 1)
    left = 1 - TUNING.moments_share - TUNING.residuals_share
    stages = []
    for number, (rounds, part) in enumerate(TUNING.stages, 1):
        gradients = noisy_mean(problem, privacy, 2 * length, GRADIENT_LEMMA, mu * math.sqrt(left * part / rounds), d)
        stages.append(Stage(number, residuals, gradients, rounds))
    return SufficientStatisticsPlan(problem, privacy, moments, tuple(stages), l2)


def plan_adaptive_ridge(problem: LinearModelProblem, privacy: PrivacyParams) -> LinearModelPlan:
    """Return the plan of AdaSSP (Wang 2018), which is in the package of experiments, for such problems and promises."""
    return of_paper("sufficient_statistics")(problem, privacy)


def check_regression(problem: LinearModelProblem, privacy: PrivacyParams) -> None:
    """Raise `InvalidParameterError` unless second moments of this problem can be released under this promise."""
    check_average(problem, privacy)
    if not isinstance(problem.loss, SquaredLoss):
        remedy = "Use linear regression, or another algorithm"
        raise InvalidParameterError("loss", problem.loss.name, "must be the squared loss", remedy)
    if problem.dim > MOST_COLUMNS:
        remedy = "Use algorithm='objective_perturbation'"
        raise InvalidParameterError("features", problem.dim, f"must be at most {MOST_COLUMNS}", remedy)
    if privacy.pure:
        remedy = "Use a value far below 1/n, or algorithm='objective_perturbation'"
        raise InvalidParameterError("delta", privacy.delta, "must be positive for sufficient statistics", remedy)


def noisy_mean(
    problem: LinearModelProblem, privacy: PrivacyParams, size: float, lemma: str, mu: float, dim: int
) -> GaussianMechanism:
    """Return the mechanism for a mean over units whose sensitivity is ``size / n``, plus rounding."""
    value = size * (1 / problem.n + 2 * ROUNDING) * (1 + 1e-12)
    return GaussianMechanism.of_mu(Sensitivity(value, "l2", lemma, unit=privacy.unit), mu, dim)


def _target_bound(problem: LinearModelProblem) -> float:
    assert isinstance(problem.loss, SquaredLoss)  # plans check
    return problem.loss.target_bound
