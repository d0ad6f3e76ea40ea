r"""Private geometric median: radius, center, refinement (Kumar, Liu, Tian and Yang 2025, Algorithms 2 to 4).

Guarantee
    (epsilon, delta)-DP for neighbors that replace one record (or, with one point a user, all points of one user); the
    radius alone is pure epsilon_1-DP. The bound R on the data serves accuracy only: no sensitivity depends on it, but
    for the rounding of floats.
Lemma
    Radius, test and center (`radius_and_center`) are pure epsilon_1, then mu_t- and mu_c-GDP given the radius, outside
    events of probability delta_1 + delta_2; refinement is mu_b-GDP given the center (`noisy_descent`, `stable_sgd`).
    Domination is preserved by adaptive composition, so the whole has the profile of randomized response with epsilon_1
    composed with one Gaussian of ``mu^2 = mu_t^2 + mu_c^2 + mu_b^2``, plus ``delta_1 + delta_2``: mu is the largest
    that fits. Printed constants: `dpconvex_experiments.reference.printed_median`.
Assumptions
    n is public. Groups and orders of visits are functions of positions and fresh coins (a generator of their own from
    the source of bits), never of values; records are sanitized one by one and never dropped. As the coins are uniform
    permutations, the law of the output does not depend on the order of records, but for the rounding of sums, which
    the sensitivities include: a replaced user may as well stand elsewhere (`user_points`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import final_dataclass
from dpconvex.algorithms import check_relation, recorded, stored
from dpconvex.algorithms.location import base
from dpconvex.algorithms.location.noisy_descent import plan_settling
from dpconvex.algorithms.location.radius_and_center import plan_center, plan_radius
from dpconvex.algorithms.location.stable_sgd import Order, plan_stable_sgd
from dpconvex.errors import InvalidParameterError
from dpconvex.plugins import of_paper
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.randomness import BitSource

BOOSTS = ("descent", "stable_sgd", "fixed_order", "none")  # Ways to refine the center
ORDERS: dict[str, Order] = {"stable_sgd": "random", "fixed_order": "fixed"}
EXACT_UP_TO = 5000  # Largest n for which the center stage counts near points among all points
SCORED_RECORDS = 20_000  # Least number of records that the radius stage reads
CENTER_RECORDS = 4000  # Least number of records that the center stage reads before a refinement
MARGIN, ROUGH, SEARCH = 166.0, 66.0, 400.0
"""Budget times n that suffices for the test (its margin is then a quarter of n), for a center whose noise is half a
radius (times the root of d), and for the search (its noise is then a tenth of n)."""
FEW_RECORDS = 1000
"""With fewer records search and center fail too often with `SHARES` (1 to 3 of 8 runs at 500): shares are computed."""
LEVEL = 0.65  # Default level. At 1,000 records it finds the smaller radius more often than the paper's 0.775.
FALLBACK_RADIUS = 0.2  # Effective radius, as a share of R, that refinement assumes if no center was found
FAILURE = 0.1  #: Share of delta for the failure probabilities of the center's lemmas.
MOST_RECORDS = 2**26  # Largest n that is planned for
THEOREM = (
    "Private geometric median in nearly-linear time (Kumar, Liu, Tian and Yang 2025): groups for random indices, tight "
    "sensitivities, one Gaussian and one pure profile."
)


@stored
@dataclass(frozen=True)
class Shares:
    """How the budget is split."""

    radius: float  #: Share of epsilon for the radius
    #: Proportions of the squared Gaussian budget; without refinement the first two share all of it.
    test: float
    center: float
    boost: float

    def __post_init__(self) -> None:
        _validate.real("radius", self.radius, above=0.0, below=1.0)
        for name in ("test", "center", "boost"):
            _validate.real(name, getattr(self, name), above=0.0, at_most=1e6)


SHARES = Shares(0.03, 0.03, 0.06, 0.91)
"""Default shares: search, test and center get enough to succeed as a rule, refinement, which recovers if they fail, has
the rest. Chosen on six sets of 1,000 points and more, on which the documentation's figures were measured too."""


def shares_for(n: int, dim: int, privacy: PrivacyParams) -> Shares:
    """Return the shares: search, test and center get what they need, within limits; refinement gets the rest."""
    if n >= FEW_RECORDS:
        return SHARES
    radius = min(0.2, max(0.03, SEARCH / (n * privacy.epsilon)))
    mu = largest_mu(privacy.epsilon, privacy.delta * (1 - FAILURE), radius * privacy.epsilon)
    test = min(0.15, max(0.03, (MARGIN / (n * mu)) ** 2))
    center = min(0.25, max(0.06, dim * (ROUGH / (n * mu)) ** 2))
    return Shares(radius, test, center, 1 - test - center)


@final_dataclass(eq=False)
class GeometricMedianPlan(base.LocationPlan):
    """Public constants of one run."""

    domain: PointDomain
    n: int
    privacy: PrivacyParams
    constants: str  #: ``"calibrated"`` or ``"paper"``
    radius_stage: base.RadiusFinder
    center_stage: base.CenterFinder
    booster: base.Booster | None  #: Refinement; None: the center is the answer
    #: Center that is used if the test fails, the origin: with a ball of radius 0 the answer, else the start of
    #: refinement.
    fallback: base.WarmStart
    theorem: str = THEOREM
    algorithm: str = "geometric_median"
    noise_name: str = "Laplace and Gaussian"

    @property
    def stages(self) -> tuple[base.Stage, ...]:
        """All stages, in the order of the run."""
        return tuple(stage for stage in (self.radius_stage, self.center_stage, self.booster) if stage is not None)

    @property
    def releases(self) -> tuple[Release, ...]:
        return tuple(release for stage in self.stages for release in stage.releases)

    @property
    def only_sums(self) -> bool:
        return self.booster is not None and all(stage.only_sums for stage in self.stages)

    def exact_bits(self, source: BitSource) -> bool:
        return all(stage.exact_bits(source) for stage in self.stages)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        coins = Assumption(
            "groups and orders of visits do not depend on the data",
            "fresh uniform coins by position, from a generator of their own",
        )
        return (coins, *(() if self.booster is None else self.booster.assumptions))

    def describe(self) -> Mapping[str, Any]:
        constants = (constant for stage in self.stages for constant in stage.describe().items())
        return {"boost": "none" if self.booster is None else self.booster.name, **dict(constants)}

    @property
    def expected_error(self) -> float | None:
        return None if self.booster is None else self.booster.deviation * math.sqrt(self.domain.dim)

    @property
    def hopeless(self) -> bool:
        """Whether the noise is as large as the radius that holds most points; unknown without refinement."""
        return self.expected_error is not None and not self.expected_error < 1

    @property
    def outlook(self) -> str:
        return f"its noise is expected to be {self.expected_error:.3g} times the radius that holds most points"

    def _run(self, points: base.Points, source: BitSource, ledger: Ledger) -> base.LocationResult:
        found = self.radius_stage.find(points, source, ledger)  # stage 1: Algorithm 2, FastRadius
        start = self.center_stage.find(points, found.radius, source, ledger)  # stage 2: Algorithm 3, FastCenter
        status = base.MedianStatus.RADIUS_AT_TOP if found.at_top else base.MedianStatus.OK
        if start is None:
            start, status = self.fallback, base.MedianStatus.CENTER_FAILED
        location = start.center
        if self.booster is not None and start.ball > 0:  # stage 3: Algorithm 4, or descent
            location, factor, slope = self.booster.refine(points, start, source, ledger)
            if status == base.MedianStatus.CENTER_FAILED:
                status = base.MedianStatus.NO_CENTER if slope <= base.FLAT else status
            elif status == base.MedianStatus.OK and factor <= base.SHORTENED:
                status = base.MedianStatus.RADIUS_TOO_LARGE
            elif status == base.MedianStatus.OK and slope >= base.STEEP:
                status = base.MedianStatus.UNSETTLED
        R = self.domain.radius_bound
        location = location * min(1.0, R / max(float(np.linalg.norm(location)), R))  # post-processing: R is public
        return base.LocationResult(location, self.certificate(source), self, found.radius, start.center, status)


@recorded("geometric_median")
def plan(
    domain: PointDomain, n: int, privacy: PrivacyParams, *, constants: str = "calibrated",
    boost: str = "descent", shares: Shares | None = None, steps: int = 60, passes: int = 1, level: float = LEVEL,
) -> GeometricMedianPlan:  # fmt: skip
    """Fix every constant from public facts, for n from 20 to 2^26 and a positive delta.

    ``constants="paper"`` is for epsilon up to 1 and fixes `shares`, `steps`, `passes` and `level`. `boost`, one of
    `BOOSTS`, says how the center is refined: by noisy gradient descent with `steps` steps, by `passes` passes of
    one-record steps in random or in fixed order, or not at all. `level`, in [0.6, 0.95], is the share of the others
    that must be near a point on average. It tolerates a share of outliers of ``1 - sqrt(level)``: 19 % by default, 12 %
    with the paper's 0.775 (which ``"paper"`` always uses).
    """
    _validate.integer("n", n, at_least=20, remedy="The method needs a crowd")
    if n > MOST_RECORDS:
        raise InvalidParameterError("n", n, f"must be at most {MOST_RECORDS}", "Use a random subset")
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("boost", boost, BOOSTS)
    level = _validate.real("level", level, at_least=0.6, at_most=0.95)
    check_relation(privacy, users=True)
    if privacy.pure:
        remedy = "Use a value far below 1/n; only the radius can be had with delta=0"
        raise InvalidParameterError("delta", privacy.delta, "must be positive for the geometric median", remedy)
    if constants == "paper":
        return of_paper("geometric_median")(domain, n, privacy, boost)
    shares, d, unit = shares or shares_for(n, domain.dim, privacy), domain.dim, privacy.unit
    pure, failure = shares.radius * privacy.epsilon, FAILURE * privacy.delta
    # Down by 1e-9: squares and roots of the parts are rounded up again when the ledger adds them.
    mu = largest_mu(privacy.epsilon, privacy.delta * (1 - FAILURE), pure) * (1 - 1e-9)
    whole = shares.test + shares.center + (0.0 if boost == "none" else shares.boost)
    mu_test, mu_center, mu_boost = (mu * math.sqrt(part / whole) for part in (shares.test, shares.center, shares.boost))
    # Samples are so large that the noise of a score is below a hundredth of the sample, the margin of the test about a
    # tenth of it, and the noise of the center about half a radius.
    scored = max(SCORED_RECORDS, math.ceil(1000 / pure))
    rough = max(CENTER_RECORDS, math.ceil(300 / mu_test), math.ceil(60 * math.sqrt(d) / mu_center))
    sample = n if boost == "none" else min(n, rough)
    exact_up_to = EXACT_UP_TO if n <= EXACT_UP_TO else 0
    radius = plan_radius(domain, n, pure, level=level, sample=scored, unit=unit)
    center = plan_center(domain, sample, mu_test, mu_center, failure, level=level, exact_up_to=exact_up_to, unit=unit)
    booster = None
    if boost == "descent":
        booster = plan_settling(n, d, mu_boost, steps=steps, unit=unit)
    elif boost != "none":
        booster = plan_stable_sgd(n, d, mu_boost, order=ORDERS[boost], passes=passes, unit=unit)
    end = fallback(domain, boost == "descent")
    return GeometricMedianPlan(domain, n, privacy, "calibrated", radius, center, booster, end)


def fallback(domain: PointDomain, refined: bool) -> base.WarmStart:
    """Return the start that replaces a center that was not found: the origin, with the whole ball if `refined`."""
    R = domain.radius_bound
    return base.WarmStart(np.zeros(domain.dim), R if refined else 0.0, FALLBACK_RADIUS * R)
