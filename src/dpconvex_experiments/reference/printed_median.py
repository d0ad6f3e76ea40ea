r"""The private-median paper's own constants: FastRadius, FastCenter and stable SGD (Algorithms 2 to 4), repaired.

Guarantee
    Each stage is (epsilon, delta)-DP with its share, for neighbors that replace one record.
Lemmas
    FastRadius (Lemma 5): unless an index is drawn more than ``2k`` times in a round (probability at most ``delta/4``
    over all rounds, `FailureAllowance`), scores change by at most 3. FastCenter (Lemmas 8 and 9): unless indices repeat
    too often or a score is far from its mean on either data set (``5 delta/18``), the sum of weights changes by at most
    12 and the mean by at most ``400 radius / n``.
Repairs
    Docs, Errata, on the private-median paper: P1, U1, U5 and U8. Failing draws are charged additively.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, IntArray, final_dataclass
from dpconvex.algorithms.location.base import CenterFinder, FoundRadius, RadiusFinder, WarmStart
from dpconvex.algorithms.location.geometric_median import ORDERS, GeometricMedianPlan, fallback
from dpconvex.algorithms.location.radius_and_center import CENTER, TEST
from dpconvex.algorithms.location.stable_sgd import Order, Phase, StableSgd
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import AboveThreshold, FailureAllowance, GaussianMechanism, Mechanism, Planned
from dpconvex.mechanisms.base import check_norm, check_shape, exact_as_source
from dpconvex.plugins import printed
from dpconvex.privacy import BoundedLaplaceNoise, Ledger, PrivacyParams, Sensitivity, Unit
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import WEIGHTED_MEAN_ROUNDING, Groups, near_counts, weighted_mean
from dpconvex.randomness import BitSource, exact

THEOREM = (
    "Private geometric median in nearly-linear time (Kumar, Liu, Tian and Yang 2025), Theorem 4: Algorithms 2 to 4, "
    "repaired."
)
PRINTED_LEMMA = "average of a contractive walk, in units of the printed bound (2 m + 1) eta, plus rounding"
RADIUS_FAILURE, CENTER_FAILURE = "repeated indices of the radius", "misleading indices of the center"


@final_dataclass
class BoundedLaplaceMechanism(Mechanism[Floats]):
    """Discrete Laplace noise on a grid, drawn anew until it is at most `bound`: (epsilon, delta).

    A test with such noise is certain to be right where it answers "yes". The number of draws depends on the noise
    alone. Epsilon is the enlarged sensitivity over the scale; delta is the probability of the strip at the end of the
    support, see `BoundedLaplaceNoise`.

    Source: Kumar, Liu, Tian and Yang 2025, "Private geometric median in nearly-linear time", Fact 3.
    """

    sensitivity: Sensitivity  #: `"absolute"`
    scale: float  #: of the noise before conditioning, positive
    bound: float  #: largest absolute value of the noise, at least twice the sensitivity and the scale
    name: ClassVar[str] = "bounded Laplace"
    dim: ClassVar[int] = 1
    exact_bits = exact_as_source

    def __post_init__(self) -> None:
        _validate.real("scale", self.scale, above=0.0)
        check_norm(self.sensitivity, "absolute")
        _validate.real("bound", self.bound, at_least=2 * max(self.sensitivity.value, self.scale))
        _ = self.step

    @classmethod
    def calibrate(cls, sensitivity: Sensitivity, epsilon: float, delta: float) -> "BoundedLaplaceMechanism":
        """Return the mechanism that costs `epsilon` and at most `delta`, with the bound of Fact 3, ``log(4/delta)``.

        Epsilon is at most 2: beyond ``log 9`` this bound is too short.
        """
        _validate.real("epsilon", epsilon, above=0.0, at_most=2.0)
        _validate.real("delta", delta, above=0.0, below=0.5)
        scale = _rounding.ratio_up(exact.enlarged(sensitivity.value), epsilon)
        return cls(sensitivity, scale, _rounding.widen_up(scale * math.log(4 / delta)))

    @cached_property
    def step(self) -> float:
        return exact.spacing(self.sensitivity.value, self.scale, 1.0)

    @property
    def event(self) -> BoundedLaplaceNoise:
        return BoundedLaplaceNoise(exact.enlarged(self.sensitivity.value), self.scale, self.bound)

    def _sample(self, value: Floats, source: BitSource) -> Floats:
        check_shape(value, 1)
        most = math.floor(self.bound / self.step)
        while True:
            noise = exact.discrete_laplace(np.zeros(1, dtype=np.int64), self.scale / self.step, source)
            if abs(int(noise[0])) <= most:
                return exact.from_units(exact.to_units(value, self.step) + noise, self.step)

    def log_density(self, value: Floats, outcome: Floats) -> float:
        away = float(np.abs(outcome - np.nan_to_num(np.asarray(value, dtype=np.float64), nan=0.0)).sum())
        return -away / self.scale if away <= self.bound + self.step else -np.inf


@final_dataclass
class PrintedRadius(RadiusFinder):
    """Algorithm 2: fresh indices for every record and round."""

    domain: PointDomain
    n: int
    mechanism: AboveThreshold  #: of sensitivity 3, half its budget for the threshold
    allowance: FailureAllowance

    @property
    def rounds(self) -> int:
        """Radii ``r, 2 r, ...`` below R."""
        return math.ceil(math.log2(self.domain.radius_bound / self.domain.min_radius))

    @property
    def draws(self) -> int:
        """Indices a record and round, k."""
        return math.ceil(3 * math.log(self.rounds / self.allowance.probability))

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {RADIUS_FAILURE: self.allowance, **super().mechanisms}

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), "radius_draws": self.draws, "radius_queries": self.rounds}

    def find(self, points: Floats, source: BitSource, ledger: Ledger) -> FoundRadius:
        coins, radii = source.generator(), self.domain.grid[: self.rounds].tolist()
        self.allowance.charge(RADIUS_FAILURE, ledger)
        scores = ((r, float(near_draws(points, r, self.draws, coins).sum()) / self.draws) for r in radii)
        return self.first(scores, self.domain.radius_bound, source, ledger)


@final_dataclass
class PrintedCenter(CenterFinder):
    """Algorithm 3: weights from some 10^4 random indices a record."""

    domain: PointDomain
    n: int
    draws: int  #: indices a record, k
    test: BoundedLaplaceMechanism  #: of the sum of weights, sensitivity 12
    mechanism: GaussianMechanism  #: of the mean, in units of its sensitivity, 400 radius / n
    allowance: FailureAllowance

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {CENTER_FAILURE: self.allowance, TEST: self.test, CENTER: self.mechanism}

    def describe(self) -> Mapping[str, Any]:
        return {"center_counts": "draws", "center_draws": self.draws, "center_least_weight": 0.55 * self.n}

    def find(self, points: Floats, radius: float, source: BitSource, ledger: Ledger) -> WarmStart | None:
        scores = self._scores(points, 2 * radius, source.generator())
        weights = np.clip((scores - 0.5 * self.draws) / (0.25 * self.draws), 0.0, 1.0)
        self.allowance.charge(CENTER_FAILURE, ledger)
        noisy = self.test.release(np.array([weights.sum()]), TEST, source, ledger)
        if float(noisy[0]) - self.test.bound <= 0.55 * self.n + self.test.step:
            return None
        unit = 400 * radius / self.n + 2 * (WEIGHTED_MEAN_ROUNDING + 2.0**-52) * self.domain.radius_bound
        center = unit * self.mechanism.release(weighted_mean(points, weights) / unit, CENTER, source, ledger)
        failure = self.allowance.probability * 18 / 5  # the stage's delta
        reach = 3 * unit * self.mechanism.sigma * math.sqrt(self.domain.dim * math.log(4 / failure))
        return WarmStart(center, 6 * radius + reach, radius)

    def _scores(self, points: Floats, radius: float, coins: np.random.Generator) -> Array:
        if self.n > 2 * self.draws:
            return near_draws(points, radius, self.draws, coins)
        near = near_counts(points, Groups.random(self.n, self.n, coins), radius)
        return coins.binomial(self.draws, near / self.n)  # the exact law: indices of different records are independent


def near_draws(points: Floats, radius: float, draws: int, coins: np.random.Generator) -> IntArray:
    """Return how many of `draws` records, drawn with replacement for each record, lie within `radius` of it, (n,)."""
    from dpconvex_experiments.reference import _loops

    counts = np.zeros(len(points), dtype=np.int64)
    for _ in range(draws):
        _loops.near_partners(points, coins.integers(len(points), size=len(points)), radius * radius, counts)
    return counts


def plan_printed_radius(domain: PointDomain, n: int, epsilon: float, delta: float, unit: Unit) -> PrintedRadius:
    """Fix Algorithm 2's constants for its share (epsilon, delta)."""
    lemma = "a score changes by at most 1 + 2 where no index is drawn more than 2k times (Lemma 5)"
    mechanism = AboveThreshold(Sensitivity(3.0, "absolute", lemma, unit=unit), epsilon, 0.775 * n, 0.5)
    coins = FailureAllowance(delta / 4, "an index is drawn more than 2k times in some round (Chernoff, Lemma 5)", unit)
    return PrintedRadius(domain, n, mechanism, coins)


def plan_printed_center(domain: PointDomain, n: int, epsilon: float, delta: float, unit: Unit) -> PrintedCenter:
    """Fix Algorithm 3's constants for its share (epsilon, delta), epsilon at most 2."""
    weights = Sensitivity(12.0, "absolute", "the sum of weights changes by at most 12 (Lemma 9)", unit=unit)
    lemma = "in units of 400 radius / n, the weighted mean moves by at most 1 where the test passes (Lemma 9)"
    sigma = 4 / epsilon * math.sqrt(math.log(12 / delta)) * (1 + 1e-12)
    coins = "an index repeats too often, or a score misleads on either data set (Lemma 9, 5 delta / 18)"
    return PrintedCenter(
        domain,
        n,
        math.ceil(600 * math.log(18 * n / delta)),
        BoundedLaplaceMechanism.calibrate(weights, epsilon / 2, delta / 6),
        GaussianMechanism(Sensitivity(1.0, "l2", lemma, unit=unit), sigma, domain.dim),
        FailureAllowance(5 * delta / 18, coins, unit),
    )


def plan_printed_descent(
    n: int, dim: int, epsilon: float, delta: float,
    *, order: Order = "random", steps: int | None = None, unit: Unit = Unit.RECORD,
) -> StableSgd:  # fmt: skip
    """Plan Algorithm 4 with the constants of the paper; T = `steps`, by default n, is rounded up to some ``2^K - 1``.

    Steps are those of its experiments (the stated optimum moves nothing). Repaired: the balls of later phases have the
    radius of the noise that separates their start from the point they must hold (Lemma 13). In random order, visits
    beyond m of a record fail with probability at most ``delta / 8``, which is charged; the fixed order is Remark 1.
    """
    _validate.choice("order", order, ("fixed", "random"))
    _validate.integer("n", n, at_least=1)
    count = _validate.integer("steps", n if steps is None else steps, at_least=1).bit_length()  # K
    total = 2**count - 1
    rho = epsilon**2 / (8 * math.log(2 / delta)) * (1 - 1e-12)
    m = math.floor(3 * (total / n + math.log(8 / delta))) if order == "random" else -(-total // n)
    eta = 1 / ((16 if order == "random" else 4) * math.sqrt(total))
    spread = math.sqrt(dim * math.log(4 * count / delta))

    def phase(k: int) -> Phase:
        noise = 3.0 ** -(k - 1) * (2 * m + 1) * eta / math.sqrt(rho)  # deviation of the phase before
        share = GaussianMechanism.of_mu(Sensitivity(1.0, "l2", PRINTED_LEMMA, unit=unit), 0.75**k * math.sqrt(rho), dim)
        return Phase(
            label=f"average of phase {k}",
            steps=2 ** (count - k),
            step=eta / 4.0**k,
            ball=1.0 if k == 1 else 2 * noise * spread,
            recentered=k > 1,
            first=-1,
            uses=m,
            extra=1,
            mechanism=share,
            block=None,
        )

    allowance = FailureAllowance(delta / 8, "Chernoff bound on visits, coins apart from the data (Lemma 10)", unit)
    return StableSgd(n, order, tuple(map(phase, range(1, count + 1))), allowance if order == "random" else None)


@printed("geometric_median")
def plan(domain: PointDomain, n: int, privacy: PrivacyParams, boost: str) -> GeometricMedianPlan:
    """Fix the constants of Theorem 4, for epsilon up to 1: shares (1/4, 1/4, 1/2) of epsilon and of delta."""
    epsilon, delta, unit = privacy.epsilon, privacy.delta, privacy.unit
    if epsilon > 1:
        remedy = "Use epsilon=1, as the paper does, or constants='calibrated'"
        raise InvalidParameterError("epsilon", epsilon, "must be at most 1 with constants='paper'", remedy)
    if boost == "descent":
        what = "must be 'stable_sgd', 'fixed_order' or 'none' with constants='paper'"
        raise InvalidParameterError("boost", boost, what, "Choose one of these")
    if domain.radius_bound / domain.min_radius * n * math.sqrt(domain.dim) > 2.0**45:
        what = "is too small with constants='paper'"
        raise InvalidParameterError("min_radius", domain.min_radius, what, "Use constants='calibrated'")
    radius = plan_printed_radius(domain, n, epsilon / 4, delta / 4, unit)
    center = plan_printed_center(domain, n, epsilon / 4, delta / 4, unit)
    booster = None
    if boost != "none":
        booster = plan_printed_descent(n, domain.dim, epsilon / 2, delta / 2, order=ORDERS[boost], unit=unit)
    return GeometricMedianPlan(domain, n, privacy, "paper", radius, center, booster, fallback(domain, False), THEOREM)
