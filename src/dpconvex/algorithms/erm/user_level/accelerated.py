r"""Accelerated user-level method with removal of outlying gradients (Lowy, Liu and Asi 2024, Algorithms 2 and 3).

Guarantee
    (epsilon, delta)-DP for neighbors that replace one user with all records; n, the number of users, is public.
Lemma
    A user's mean gradient is one vector, so one user moves one of C vectors: the sensitivity of their robust mean is
    kappa times a public radius for a good pair (`guards`; docs, User-level privacy). Convexity, the Lipschitz constant,
    the size of users and their being alike serve accuracy only.
Composition
    T steps on the same users compose by the guard's rule; phases, and batches in turn, read disjoint users (parallel
    composition). Points between the steps are post-processing, whatever first-order method computes them.
Assumptions
    Slots are a uniform permutation of the users, by coins apart from data and noise. All constants are public.
Deviations (errata of the paper in brackets)
    Threshold noise once a phase (E3), deterministic weights (E4), subsets without replacement (E5), tests amplified
    together with their release, or not at all (E6), K at most n_i (E8), the last point instead of 0 on failure (E16),
    projections (E17), AC-SA in full (E18). All users have equal weight, whatever their numbers of records.
Bounds, by which phases are chosen; privacy does not rest on them
    Phase i minimizes, over the ball of radius R and from ``x_{i-1}``, the mean of n_i fresh users' mean losses plus
    ``l2/2 |x|^2 + lambda_i/2 |x - x_{i-1}|^2``; its excess at the end is at most ``g_i`` (`accelerated_sgd`), with
    noise of mean square ``V^2 = d s^2`` (and ``L^2/(K m)`` where a step sees K users only). One phase of all users has
    ``lambda = 0``: ``g_1`` bounds the excess on the data (target "empirical"); what the population adds, one phase or
    several (``localized``), with restarts for strongly convex losses: docs, User gradients, Theorem 4 and after it.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, attributes, final_dataclass
from dpconvex.algorithms import PredictedError, PrivateResult, StatedPlan, check_average, recorded
from dpconvex.algorithms.erm.accelerated_sgd import Descent, plan_descent
from dpconvex.algorithms.erm.user_level import guards
from dpconvex.algorithms.erm.user_level.aggregates import Batching, Smoothing, UserGradients, smoothings
from dpconvex.errors import InvalidParameterError
from dpconvex.plugins import of_paper
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Unit
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

TESTS = ("auto", "tested", "threshold", "clipped")
COHORT = (500, 8000)  #: Limits of the default size of a cohort, the users whose gradients are compared pairwise.
SPREAD = 2.5  #: Default for the largest usual distance of two users' mean gradients, in units of ``L/sqrt(m)``.
OUTLIERS = 0.05  #: Default share of users that may lie further away than that.
LENGTHS = tuple(sorted({round(2 ** (k / 2)) for k in range(2, 25)}))
"""Numbers of steps that the search tries, 2 to 4096."""
SAMPLED_LENGTHS = (8, 16, 32, 64, 128, 256)  #: Numbers of steps to try with samples, each of which takes long to plan.


@final_dataclass
class Phase:
    """Constants of one phase."""

    batching: Batching
    l2: float  #: lambda_i
    descent: Descent
    guard: guards.Guard  #: the noisy means of one batch's share of the steps

    def describe(self) -> dict[str, Any]:
        """JSON-ready constants."""
        radius = None if math.isinf(self.guard.radius) else self.guard.radius
        steps = {"steps": [stage.steps for stage in self.descent.stages], "l2": self.l2}
        guard = {"guard": self.guard.name, "radius": radius, "noise_scale": self.guard.deviation}
        users = attributes(self.batching, "users", "batches", "sample")
        return {**users, **steps, **guard, "test": self.guard.describe()}


Draft = tuple[int, int, float, Descent]  #: A phase without its guard: first slot, users, lambda_i, steps.
GuardPlanner = Callable[[int, int], tuple[Batching, guards.Guard] | InvalidParameterError]
"""From numbers of users and steps to a batching and a guard, or to the error that says why there are none."""


@final_dataclass
class Facts:
    """The public numbers that the bounds are computed from."""

    problem: LinearModelProblem  #: of users, with R and L
    smoothness: float  #: beta of the loss, or of its smooth stand-in
    l2: float
    excess: float  #: what smoothing adds to the excess loss
    guard: GuardPlanner  #: a planner of guards, which the caller caches
    lengths: tuple[int, ...] = LENGTHS  #: numbers of steps to try

    @property
    def m(self) -> int:
        """Records of a user."""
        return self.problem.records_per_user or 1

    def variance(self, users: int, steps: int) -> float:
        """Return V^2 of a gradient; infinite where the test could not pass."""
        length = next((length for length in self.lengths if length >= steps), None)
        if length is None:
            return math.inf
        found = self.guard(users, length)
        if isinstance(found, InvalidParameterError):
            return math.inf
        batching, guard = found
        partial = batching.read < batching.users  # not all users of the phase
        sampling = self.problem.lipschitz**2 / (batching.read * self.m) if partial else 0.0
        return self.problem.dim * guard.deviation**2 + guard.scatter + sampling

    def descent(self, users: int, l2: float, distance: float) -> Descent:
        """Return the steps of a phase with regularization `l2`, from a start within `distance` of the minimizer."""
        convexity = l2 + self.l2
        smooth, slope = self.smoothness + convexity, self.problem.lipschitz + self.l2 * self.problem.radius
        gap = min(slope * distance, slope**2 / (2 * convexity) if convexity else math.inf) * (1 + 1e-9)
        return plan_descent(smooth, convexity, distance, gap, lambda T: self.variance(users, T), self.lengths)

    def phase(self, first: int, users: int, l2: float, descent: Descent) -> Phase:
        """Return the phase with its guard, for exactly the steps of `descent`."""
        found = self.guard(users, descent.steps)
        if isinstance(found, InvalidParameterError):
            raise found
        batching, guard = found
        return Phase(replace(batching, first=first), l2, descent, guard)


Schedule = tuple[tuple[Phase, ...], float]  #: Phases, and the bound of their excess.


def empirical(facts: Facts) -> Schedule:
    """Return one phase with all users, with the best bound of the excess on the data."""
    n = facts.problem.n
    descent = facts.descent(n, 0.0, facts.problem.radius)
    bound = descent.excess + facts.excess
    require_steps(bound)
    return (facts.phase(0, n, 0.0, descent),), bound


def require_steps(bound: float) -> None:
    """Raise `InvalidParameterError` where no number of steps lets the test pass."""
    if not math.isfinite(bound):
        what = "must be larger: with so few users the test could not pass"
        raise InvalidParameterError("n", "users", what, "Use user_test='auto', more users, or a larger epsilon")


def population(facts: Facts, localized: bool | None) -> Schedule:
    """Plan for the population: one phase, or `localized` phases, with restarts if l2 > 0; None: the smaller bound."""
    found = [] if localized else [uniform(facts)]
    if localized or (localized is None and facts.problem.loss.n_outputs > 1):
        found += [_restarted(facts, count) for count in ((1, 2, 3) if facts.l2 else (1,))]
    bound, drafts = min(found, key=lambda option: option[0])
    require_steps(bound)
    return tuple(facts.phase(*draft) for draft in drafts), bound


def uniform(facts: Facts) -> tuple[float, list[Draft]]:
    """Return one phase of all users, and its bound on the population by uniform convergence of linear models."""
    n, R, outputs = facts.problem.n, facts.problem.radius, facts.problem.loss.n_outputs
    descent = facts.descent(n, 0.0, R)
    contraction = 1.0 if outputs == 1 else math.sqrt(2 * outputs)  # c
    rate = contraction * facts.problem.lipschitz / math.sqrt(n * facts.m)
    bound = descent.excess + 2 * R * rate
    if facts.l2:
        k = 2 * rate**2 / facts.l2
        bound = min(bound, (math.sqrt(k) + math.sqrt(k + descent.excess)) ** 2)
    return bound + facts.excess, [(0, n, 0.0, descent)]


def _restarted(facts: Facts, restarts: int) -> tuple[float, list[Draft]]:
    """Return phases on `restarts` blocks of users; each starts within the distance that the block before leaves."""
    drafts: list[Draft] = []
    n, radius, first, bound = facts.problem.n, facts.problem.radius, 0, math.inf
    sizes = [n * 2**k // (2**restarts - 1) for k in range(restarts - 1)]  # sizes double; the last has the rest
    for block in (*sizes, n - sum(sizes)):
        bound, part = _localized(facts, first, block, radius)
        drafts += part
        first += block
        radius = min(radius, math.sqrt(2 * bound / facts.l2)) if facts.l2 else radius
    return bound, drafts


def halves(first: int, n: int, phases: int) -> list[tuple[int, int]]:
    """Return first slot and size of each phase: half of the users that are left, the last phase all of them."""
    out, left = [], n
    for i in range(phases):
        size = left if i == phases - 1 else left // 2
        out.append((first + n - left, size))
        left -= size
    return out


def _localized(facts: Facts, first: int, n: int, radius: float) -> tuple[float, list[Draft]]:
    """Return the best phases on one block of users, for a start within `radius` of the minimizer."""
    L, R, best, least = facts.problem.lipschitz, facts.problem.radius, [], math.inf
    exponents = (1.0, 2.0, 3.0)  # p of lambda_i = lambda 2^(p (i-1))
    descent = cache(facts.descent)
    for count, p in itertools.product([count for count in range(2, 7) if n >= 2**count], exponents):
        for weight in (L / radius * np.geomspace(1e-4, 10, 16)).tolist():
            bound, square, drafts = facts.excess, radius**2, []
            for i, (slot, users) in enumerate(halves(first, n, count)):
                l2 = weight * 2 ** (p * i)
                convexity = l2 + facts.l2
                found = descent(users, l2, min(2 * R, (L + facts.l2 * R) / convexity))
                bound += 2 * L**2 / (convexity * users * facts.m) + l2 * square / 2  # generalization, ridge
                square = 2 * found.excess / convexity  # D_(i+1)^2
                drafts.append((slot, users, l2, found))
                if not bound < least:
                    break
            else:
                bound += (L + facts.l2 * R) * math.sqrt(square)
                if bound < least:
                    best, least = drafts, bound
    return least, best


@final_dataclass
class AcceleratedPlan(StatedPlan):
    """Constants of one run of the accelerated method."""

    phases: tuple[Phase, ...]  #: The phases in the order in which they run
    smoothing: Smoothing  #: The smooth stand-in of a loss with kinks
    bound: float  #: Upper bound of the expected excess
    target: str = "empirical"  #: "empirical" or "population": the risk whose excess is bounded
    l2: float = 0.0  #: Ridge weight
    constants: str = "calibrated"
    noise_name: str = "gaussian"
    algorithm: ClassVar[str] = "accelerated_user"
    assumptions = (  # pyright: ignore[reportAssignmentType]
        Assumption("a user's vector depends on this user's records alone", "mean gradient, then cut to length L"),
        Assumption("phases, batches, cohorts do not depend on data", "secret coins of their own, anew for cohorts"),
        Assumption("steps, radii and thresholds are public", "the plan fixes them; a failed test ends the run"),
    )

    @property
    def predicted_error(self) -> PredictedError:
        where = "on the data" if self.target == "empirical" else "on the population"
        tested = any(math.isfinite(phase.guard.radius) for phase in self.phases)
        rests = "users alike: their mean gradients lie within the radius" if tested else "every data set"
        trivial = min(self.problem.trivial, self.problem.lipschitz * self.problem.radius)
        return PredictedError(self.bound, trivial, f"accelerated noisy gradients, {where}; for {rests}")

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        return tuple(
            release
            for i, phase in enumerate(self.phases)
            for j in range(phase.batching.batches)
            for release in phase.guard.releases(self.block(i, j))
        )

    def block(self, phase: int, batch: int) -> str | None:
        """Return the name of the users that only this batch reads; None if one batch holds all users."""
        alone = len(self.phases) == 1 and self.phases[0].batching.batches == 1
        return None if alone else f"users of phase {phase + 1}, batch {batch + 1}"

    @property
    def theorem(self) -> str:
        names = ", ".join(sorted({phase.guard.name for phase in self.phases}))
        return f"User-level means of gradients (Lowy, Liu and Asi 2024, Algorithms 2 and 3, repaired); guard: {names}."

    @property
    def coefficient_deviation(self) -> Floats:
        """A rough guess, from the noise of the last phase and the strong convexity that damps it."""
        last = self.phases[-1]
        walked = last.guard.deviation * last.descent.steps**1.5 / last.descent.stages[-1].gamma
        return np.full(self.problem.dim, min(walked, self.problem.radius))

    def describe(self) -> Mapping[str, Any]:
        failed = "the point reached before the step whose test failed"
        facts = {"noise": self.noise_name, "smoothing": [self.smoothing.name, self.smoothing.size]}
        facts |= {"on_failure": failed, "planned_gradients": self.planned_gradients}
        return {**facts, "phases": [phase.describe() for phase in self.phases]}

    @property
    def planned_gradients(self) -> int:
        """Number of record gradients that a run evaluates if users have `records_per_user` records each."""
        per_user = self.problem.records_per_user or 1
        return sum(phase.descent.steps * phase.batching.read * per_user for phase in self.phases)

    def exact_bits(self, source: BitSource) -> bool:
        return source.exact  # all noise is discrete Gaussian or Laplace

    def _run(self, X: Array, y: Array, groups: UserGroups, source: BitSource) -> PrivateResult:
        """Solve problems of growing regularization on disjoint users, by noisy means of the users' gradients."""
        ledger, coins = Ledger(self.privacy, self.releases), source.generator()
        gradients = UserGradients(self.problem, self.smoothing, X, y, groups, coins)
        order = coins.permutation(groups.n_users)
        center = np.zeros(self.problem.dim)
        for i, phase in enumerate(self.phases):
            batching = phase.batching
            batches = gradients.batches(batching, order[batching.first : batching.first + batching.users])
            means = [phase.guard.start(source, ledger, self.block(i, j)) for j in range(batching.batches)]
            turn = iter(range(phase.descent.steps))

            def gradient(w: Floats) -> Floats | None:
                j = next(turn) % batching.batches  # noqa: B023 - used within this turn of the loop only
                mean = means[j](batches[j](w))  # noqa: B023
                ridge = phase.l2 * (w - center) + self.l2 * w  # noqa: B023
                return None if mean is None else mean + ridge

            center, passed = phase.descent.minimize(center, gradient, L2Ball(self.problem.radius).project)
            if not passed:
                return self.finish(center, source, f"failed: a test of phase {i + 1}")
        return self.finish(center, source)


@recorded("accelerated_user")
def plan_accelerated(
    problem: LinearModelProblem, privacy: PrivacyParams,
    *, constants: str = "calibrated", target: str = "empirical", test: str = "auto", batches: int = 1,
    sample: int | None = None, cohort: int | None = None, localized: bool | None = None,
    spread: float = SPREAD, outliers: float = OUTLIERS, smoothing: str = "auto", l2: float = 0.0,
) -> AcceleratedPlan:  # fmt: skip
    """Return the plan of the least predicted error; it needs users and a positive delta.

    `problem.records_per_user`, the assumed number of records of a user, only affects accuracy. With a ridge weight
    `l2`, the excess is that of the regularized loss. ``constants="paper"`` is always refused, with the reason. `target`
    says where the excess is measured: on the users' data, or on the population that their records come from. `test`
    says how means are guarded (`guards`): ``"auto"`` is tested or clipped, whichever has less noise.

    Steps read `batches` disjoint batches of a phase's users in turn. `sample` users are drawn afresh at each step,
    which saves time and does not improve accuracy. `cohort` users are compared pairwise, by default as many as time
    allows, between 500 and 8000. `localized`, for the population: the paper's phases on disjoint users, or one phase
    with all; None: the smaller bound. `spread` is the largest usual distance of two users' mean gradients, in units of
    ``L/sqrt(records_per_user)``, `outliers` the share of users that may lie further away, in [0, 1/2), and `smoothing`
    (auto, none, envelope, randomized) the stand-in for a loss with kinks.
    """
    _check(problem, privacy)
    _validate.choice("target", target, ("empirical", "population"))
    _validate.choice("test", test, TESTS)
    _validate.integer("batches", batches, at_least=1)
    _validate.real("spread", spread, above=0.0)
    _validate.real("outliers", outliers, at_least=0.0, below=0.5)
    _validate.real("l2", l2, at_least=0.0)
    _validate.optional(_validate.integer, {"cohort": cohort, "sample": sample}, at_least=2)
    if sample is not None and (sample > problem.n or batches > 1 or test not in ("auto", "tested")):
        what = f"must be at most {problem.n}, with batches=1 and user_test='tested'"
        raise InvalidParameterError("sample", sample, what)
    L, per_user = problem.lipschitz, problem.records_per_user or 1
    if _validate.choice("constants", constants, ("calibrated", "paper")) == "paper":
        facts = problem.n, per_user, problem.dim, privacy.epsilon, privacy.delta, problem.smoothness
        raise of_paper("accelerated_user")(*facts)
    guard = _guards(problem.dim, privacy, test, batches, sample, cohort, spread * L / math.sqrt(per_user), L, outliers)

    def scheduled(error: float) -> tuple[Schedule, Smoothing]:
        chosen = smoothings(problem, smoothing, error)
        lengths = LENGTHS if sample is None else SAMPLED_LENGTHS
        facts = Facts(problem, chosen.smoothness(problem), l2, chosen.excess(problem), guard, lengths)
        return (empirical(facts) if target == "empirical" else population(facts, localized)), chosen

    kinks = smoothing not in ("auto", "none") or math.isinf(problem.smoothness)
    errors = (L * problem.radius * np.geomspace(1e-5, 0.3, 10)).tolist() if kinks else [1.0]
    (phases, bound), chosen = min(map(scheduled, errors), key=lambda option: option[0][1])
    return AcceleratedPlan(problem, privacy, phases, chosen, bound, target, l2)


def _check(problem: LinearModelProblem, privacy: PrivacyParams) -> None:
    check_average(problem, privacy)
    if privacy.unit != Unit.USER or problem.records_per_user is None:
        remedy = "Use algorithm='noisy_gradient'"
        raise InvalidParameterError("unit", str(privacy.unit), "must be 'user' for this algorithm", remedy)
    if privacy.pure:
        raise InvalidParameterError("delta", privacy.delta, "must be positive for this algorithm", "Use less than 1/n")
    if math.isinf(problem.lipschitz):
        raise InvalidParameterError("loss", problem.loss.name, "must have bounded slopes for this algorithm")


def _guards(
    dim: int, privacy: PrivacyParams, test: str, batches: int, sample: int | None,
    cohort: int | None, radius: float, clip: float, outliers: float,
) -> GuardPlanner:  # fmt: skip
    """Return the function that plans batching and guard from a phase's numbers of users and steps."""

    def parts(count: int, steps: int) -> int:
        """Return the number of cohorts."""
        least, most = COHORT  # within these limits, steps times users times size times dimension are at most 2e12
        size = cohort or min(most, max(least, int(2e12 / (steps * count * dim))))
        return max(1, count // size if cohort else -(-count // size))

    @lru_cache(maxsize=4096)
    def guard(users: int, steps: int) -> tuple[Batching, guards.Guard] | InvalidParameterError:
        try:
            return planned(users, steps)
        except InvalidParameterError as error:
            return error

    def planned(users: int, steps: int) -> tuple[Batching, guards.Guard]:
        if sample is not None:
            batching = Batching(0, users, 1, sample)
            if sample > users:
                raise InvalidParameterError("sample", sample, f"must be at most the users of a phase, {users}")
            cohorts = parts(sample, steps)
            return batching, guards.sampled(users, sample, cohorts, dim, privacy, steps, radius, clip, outliers)
        read, share = users // batches, -(-steps // batches)
        if read < 2:
            raise InvalidParameterError("batches", batches, f"must leave two users in each batch of {users}")
        batching = Batching(0, users, batches)
        options: list[guards.Guard] = []
        if test in ("auto", "clipped"):
            options.append(guards.clipped(read, dim, privacy, share, clip))
        if test != "clipped":
            plan = guards.threshold if test == "threshold" else guards.tested
            try:
                options.append(plan(read, parts(read, share), dim, privacy, share, radius, clip, outliers))
            except InvalidParameterError:
                if test != "auto":
                    raise
        return batching, min(options, key=lambda option: option.deviation)

    return guard
