"""The accelerated user-level method: guards attacked, disjoint phases, cost, failures, refusals, bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm

from dpconvex.algorithms.erm.user_level import guards, plan_accelerated
from dpconvex.algorithms.erm.user_level.accelerated import halves
from dpconvex.algorithms.erm.user_level.aggregates import UserGradients
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.losses import HingeLoss, LogisticLoss, SoftmaxLoss
from dpconvex.mechanisms.robust_mean import counts_within, h_index
from dpconvex.privacy import Ledger, PrivacyParams, Unit, verify
from dpconvex.problems import DataDomain, LinearModelProblem, Records, RegularizedRisk, UserGroups
from dpconvex.problems.data.points import weighted_mean
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import NewtonCholesky

pytestmark = pytest.mark.thin

USERS = PrivacyParams(8.0, 1e-5, unit=Unit.USER)
DIM, N, M = 3, 300, 16
DOMAIN = DataDomain.l2_ball(DIM, 1.0)


def problem(loss=None, n=N, m=M, radius=2.0):
    return LinearModelProblem(loss or LogisticLoss(), DOMAIN, n, radius, records_per_user=m)


@cache
def crowd(n=N, m=M, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n * m, DIM))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(n * m) < 1 / (1 + np.exp(-X @ [2.0, -1.0, 0.5])), 1.0, -1.0)
    return X, y, UserGroups(np.arange(n + 1) * m)


KINDS = {
    "auto": {},
    "tested": {"test": "tested"},
    "threshold": {"test": "threshold"},
    "clipped": {"test": "clipped"},
    "sampled": {"sample": 100},
    "batches": {"test": "tested", "batches": 2},
    "population": {"target": "population", "localized": True},
    "strongly convex": {"target": "population", "l2": 0.1, "localized": True},
    "cohorts": {"test": "tested", "cohort": 70},
    "threshold cohorts": {"test": "threshold", "cohort": 150},
}


@cache
def planned(kind, loss=None, n=N):
    return plan_accelerated(problem(loss, n), USERS, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.dear("clipped", "population")
def test_runs_cost_what_was_promised_verify_and_stay_in_the_ball(kind) -> None:
    plan = planned(kind)
    result = plan.run(*crowd()[:2], SeededSource(1), crowd()[2])
    assert result.status == "ok"
    assert np.linalg.norm(result.point) <= 2.0 * (1 + 1e-12)
    assert result.certificate.spent_epsilon <= 8.0
    assert result.certificate.spent_epsilon >= 7.0
    failed = [check for check in verify(result.certificate).checks if not check.passed]
    assert [check.name for check in failed] == ["noise is not seeded"]
    assert plan.public["on_failure"]


def test_the_operating_system_gives_a_private_certificate() -> None:
    result = planned("clipped").run(*crowd()[:2], SystemSource(), crowd()[2])
    assert verify(result.certificate).passed
    assert result.certificate.noise_source.exact_bits


@pytest.mark.parametrize("kind", ["tested", "threshold", "clipped", "sampled", "cohorts", "threshold cohorts"])
@pytest.mark.dear("sampled")
def test_less_noise_than_planned_is_over_budget(kind) -> None:
    """Mutants: half of the noise of the means, or a guard used once more than was paid for."""
    (phase,) = planned(kind).phases
    guard = phase.guard
    match guard:
        case guards.SampledGuard():
            mean = replace(guard.mean, sigma=guard.mean.sigma / 2)
            quiet = replace(guard, mean=mean, event=replace(guard.event, step=mean.event))
        case guards.TestedSteps():
            quiet = replace(guard, mean=replace(guard.mean, sigma=guard.mean.sigma / 2))
        case guards.ClippedSteps():
            quiet = replace(guard, noise=replace(guard.noise, sigma=guard.noise.sigma / 2))
    with pytest.raises(BudgetExceededError):
        Ledger(USERS, quiet.releases(None))
    ledger = Ledger(USERS, guard.releases(None))
    mean = guard.start(SeededSource(0), ledger, None)
    points = np.zeros((guard.count, DIM))
    for _ in range(guard.steps):
        assert mean(points) is not None
    with pytest.raises((BudgetExceededError, StopIteration)):
        mean(points)


def test_a_bad_step_passes_the_threshold_as_rarely_as_charged() -> None:
    """Both scores at s0: the probability that the first of T tests passes, by integration over the two noises."""
    guard = planned("threshold").phases[0].guard
    assert isinstance(guard, guards.ThresholdGuard)
    margin = -guard.test.threshold
    outer, inner = guard.test.threshold_scale, guard.test.query_scale

    def survives(xi: float) -> float:
        return 1 - (1 - laplace.sf(margin - xi, scale=inner)) ** guard.steps

    chance = quad(lambda xi: laplace.pdf(xi, scale=outer) * survives(xi), -40 * outer, 40 * outer, limit=500)[0]
    assert chance <= guard.allowance.probability
    assert chance >= guard.allowance.probability / 1e5  # two union bounds


def test_the_mean_of_a_threshold_step_moves_no_further_than_charged() -> None:
    """Lemma 2 on random neighbors around s0: cores, wings, duplicates, far points."""
    guard = planned("threshold").phases[0].guard
    assert isinstance(guard, guards.ThresholdGuard)
    rng, seen, most = np.random.default_rng(0), 0, 0.0

    ((count, passing, low, high),) = guard.cohorts.ramps
    assert high == passing - 1

    def examined(points):
        counts = counts_within(points, guard.radius)
        weights = np.clip((counts - low) / (high - low), 0, 1)
        return h_index(counts), weighted_mean(points, weights)

    for _ in range(300):
        points = guard.radius * rng.uniform(0, 0.7) * rng.standard_normal((guard.count, DIM)) / 2
        wing = rng.integers(0, count - passing + 2)
        points[:wing] += guard.radius * rng.uniform(0.5, 1.2) * np.eye(DIM)[0]
        other = points.copy()
        other[rng.integers(guard.count)] = guard.radius * rng.uniform(-2, 2, DIM)
        (h, mean), (h2, mean2) = examined(points), examined(other)
        assert abs(h - h2) <= 1
        if min(h, h2) >= passing:
            seen += 1
            most = max(most, float(np.linalg.norm(mean - mean2)))
    assert seen > 50
    assert most <= guard.noise.sensitivity.value


def test_plain_means_round_by_less_than_stated_however_many_users_there_are() -> None:
    """Rows of NumPy arrays are added one after another: with 2^20 users of this order 150 times what was charged."""
    n = 2**17
    guard, seen = guards.clipped(n, 2, USERS, 1, 1.0), []
    v = np.zeros((n, 2))
    v[: n // 2, 0], v[n // 2 :, 0] = 1.0, 1.5 * 2.0 ** (16 - 1 - 52)
    with mock.patch.object(type(guard.noise), "release", lambda _, value, *more: seen.append(value)):
        guard.start(SeededSource(0), Ledger(USERS, guard.releases(None)), None)(v)
    assert abs(seen[0][0] - math.fsum(v[:, 0]) / n) <= 1e-13
    assert abs(v.mean(axis=0)[0] - math.fsum(v[:, 0]) / n) > 1e-13


def test_a_release_of_one_dimension_has_the_profile_that_is_charged() -> None:
    """Worst neighbors of a clipped guard, exactly: two normal laws, T steps."""
    guard = guards.clipped(20, 1, USERS, 4, 1.0)
    shift = 2 * 1.0 / 20 / guard.deviation * math.sqrt(4)
    delta = norm.cdf(shift / 2 - 8.0 / shift) - math.exp(8.0) * norm.cdf(-shift / 2 - 8.0 / shift)
    assert 0.99e-5 * 0.9 <= delta <= 1e-5


@pytest.mark.parametrize("kind", ["batches", "population", "strongly convex"])
def test_phases_and_batches_read_disjoint_users(kind) -> None:
    plan = planned(kind)
    ends = [phase.batching.first + phase.batching.users for phase in plan.phases]
    assert [phase.batching.first for phase in plan.phases] == [0, *ends[:-1]]
    assert ends[-1] == N
    names = [release.block for release in plan.releases]
    assert None not in names
    assert len(set(names)) == sum(phase.batching.batches for phase in plan.phases)


def batches(plan, X, y, groups, slots):
    """Vectors of every batch of the first phase."""
    gradients = UserGradients(plan.problem, plan.smoothing, X, y, groups, np.random.default_rng(1))
    return gradients.batches(plan.phases[0].batching, slots)


@pytest.mark.parametrize("kind", ["tested", "batches", "sampled", "cohorts"])
def test_a_user_moves_one_vector_only(kind) -> None:
    """Whatever the records of the new user hold; all other vectors keep every bit."""
    plan, (X, y, groups) = planned(kind), crowd()
    X2, y2 = X.copy(), y.copy()
    X2[5 * M : 6 * M], y2[5 * M : 6 * M] = np.inf, np.nan
    w = np.array([0.3, -2.0, 1.0])
    slots = np.random.default_rng(0).permutation(N)
    with np.errstate(all="ignore"):
        first, second = ([vectors(w) for vectors in batches(plan, A, b, groups, slots)] for A, b in ((X, y), (X2, y2)))
    changed = sum(int((f != s).any(axis=1).sum()) for f, s in zip(first, second, strict=True))
    assert changed <= 1
    assert all(np.isfinite(s).all() and np.linalg.norm(s, axis=1).max() <= 1 + 1e-12 for s in second)


@pytest.mark.parametrize("kind", ["tested", "threshold", "sampled", "cohorts", "threshold cohorts"])
def test_two_camps_fail_and_the_status_says_where(kind) -> None:
    """Half of the users are far from the other half: no core, so the test fails (probability about 1 - delta)."""
    X, y = np.tile(np.eye(DIM)[0], (N * M, 1)), np.repeat(np.where(np.arange(N) % 2, 1.0, -1.0), M)
    result = planned(kind).run(X, y, SeededSource(0), crowd()[2])
    assert result.status == "failed: a test of phase 1"
    assert np.all(result.point == 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [np.nan, np.inf, 1e300, 0.0])
@pytest.mark.thin
@pytest.mark.dear("sampled", "strongly convex")
def test_no_content_raises(kind, content) -> None:
    X, y, groups = np.full((N * M, DIM), content), np.full(N * M, content), crowd()[2]
    assert np.all(np.isfinite(planned(kind).run(X, y, SeededSource(0), groups).point))


@pytest.mark.gate
@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("tested", LogisticLoss()),
        ("tested", HingeLoss()),
        ("clipped", LogisticLoss()),
        pytest.param("clipped", HingeLoss(), marks=pytest.mark.slow),  # half a minute
    ],
    ids=str,
)
def test_the_bound_holds_on_average(loss, kind) -> None:
    plan, (X, y, groups) = planned(kind, loss), crowd()
    smooth = loss if isinstance(loss, LogisticLoss) else loss.smoothed(1e-3)
    ridge = RegularizedRisk(smooth, Records.clipped(X, DOMAIN), y, 1e-4)
    best = NewtonCholesky().solve(ridge, 1e-2).point
    risk = RegularizedRisk(loss, Records.clipped(X, DOMAIN), y, 0.0)
    lowest = risk.value(best * min(1.0, 2.0 / np.linalg.norm(best)))
    values = [risk.value(plan.run(X, y, SeededSource(seed), groups).point) for seed in range(5)]
    assert np.mean(values) - lowest <= plan.predicted_error.bound


@pytest.mark.slow
def test_randomized_smoothing_and_several_outputs_run() -> None:
    X, y, groups = crowd()
    hinge = plan_accelerated(problem(HingeLoss()), USERS, smoothing="randomized", test="clipped")
    envelope = plan_accelerated(problem(HingeLoss()), USERS, test="clipped")
    assert hinge.smoothing.name == "randomized"
    assert envelope.bound <= hinge.bound
    assert np.all(np.isfinite(hinge.run(X, y, SeededSource(0), groups).point))
    softmax = plan_accelerated(problem(SoftmaxLoss(3)), USERS)
    assert softmax.run(X, (y > 0).astype(float), SeededSource(0), groups).point.shape == (3 * DIM,)


@pytest.mark.parametrize("test", ["tested", "threshold"])
def test_bounds_fall_like_one_over_n_past_any_number_of_users(test) -> None:
    """2000 to 128,000 users: -.43 with bundles; cohorts that are compared cost time linear in n."""
    sizes, bounds = (2000, 128_000), []
    for n in sizes:
        plan = plan_accelerated(problem(n=n), PrivacyParams(4.0, 1e-6, unit=Unit.USER), test=test, outliers=0.02)
        bounds.append(plan.bound)
        constants = plan.public["phases"][0]["test"]
        assert constants.get("cohorts", 1) == (1 if n == 2000 else n // constants["size_passing_ramp"][0][0])
    assert -1.1 <= math.log(bounds[1] / bounds[0], 64) <= -0.9


def test_one_cohort_apart_stops_the_threshold() -> None:
    """AboveThreshold is asked for the cohort that is furthest from passing."""
    guard = planned("threshold cohorts").phases[0].guard
    assert isinstance(guard, guards.ThresholdGuard)
    (size, passing, *_), *_ = guard.cohorts.ramps
    excesses = np.array([size - passing, -size / 2.0])
    asked: list[float] = []
    session = SimpleNamespace(query=lambda value: bool(asked.append(value)))
    with (
        mock.patch.object(guards.mechanisms.Cohorts, "examine", return_value=(excesses, np.zeros((2, DIM)))),
        mock.patch.object(guards.mechanisms.AboveThreshold, "start", return_value=session),
    ):
        guard.start(SeededSource(0), Ledger(USERS, guard.releases(None)), None)(np.zeros((guard.count, DIM)))
    assert asked == [size / 2]


def test_uniform_convergence_with_an_offset() -> None:
    """docs, User-level gradients, Theorem 4: ``E sup_v (P - P_N) psi_v - c v^2 <= L^2/(c N)``, by 4000 draws.

    Logistic loss in one dimension, features and labels signs; the supremum over a grid of slopes.
    """
    rng, N, c, center = np.random.default_rng(0), 40, 0.05, 0.3
    w = np.linspace(-4, 4, 801)
    rise = np.logaddexp(0, -w) - np.logaddexp(0, -center)  # loss of w minus loss of the center, where y x = 1
    fall = np.logaddexp(0, w) - np.logaddexp(0, center)
    ones = rng.binomial(N, 0.6, 4000)[:, None] / N
    moved = (0.6 - ones) * rise + (ones - 0.6) * fall - c * (w - center) ** 2
    found = moved.max(axis=1).mean()
    assert 0.05 / (c * N) < found <= 1 / (c * N)


@pytest.mark.gate
def test_the_population_needs_one_phase_of_all_users_and_pays_for_the_square_of_the_noise() -> None:
    private = {"target": "population", "l2": 0.1, "test": "clipped"}
    bounds = [plan_accelerated(problem(n=n, m=10**8), USERS, **private).bound for n in (2000, 32_000)]
    assert -2.05 <= math.log(bounds[1] / bounds[0], 16) <= -1.9
    one, several = (plan_accelerated(problem(n=4000), USERS, **private, localized=kind) for kind in (None, True))
    assert len(one.phases) == 1
    assert len(several.phases) > 1
    assert one.bound < several.bound / 10
    empirical = plan_accelerated(problem(n=4000), USERS, l2=0.1, test="clipped")
    k = 2 / (0.1 * 4000 * M)
    assert one.bound == pytest.approx((math.sqrt(k) + math.sqrt(k + empirical.bound)) ** 2)
    softmax = plan_accelerated(problem(SoftmaxLoss(3), n=4000), USERS, **private, localized=False)
    assert softmax.bound > one.bound


@pytest.mark.gate
def test_predictions_have_the_exponents_of_the_theory() -> None:
    """-1 in n, -1/2 in m (robust means), flat in m (clipping at L), restarts help strongly convex losses."""

    def bound(n, m, **options):
        return plan_accelerated(problem(n=n, m=m), USERS, **options).bound

    assert math.log(bound(2000, 400, test="tested") / bound(2000, 100, test="tested"), 4) == pytest.approx(
        -0.5, abs=0.05
    )
    assert bound(2000, 400, test="clipped") == bound(2000, 100, test="clipped")
    assert math.log(bound(40_000, 9, test="clipped") / bound(10_000, 9, test="clipped"), 4) == pytest.approx(
        -1, abs=0.05
    )
    localized = {"target": "population", "localized": True, "test": "clipped"}
    assert bound(10_000, 9, l2=0.5, **localized) < bound(10_000, 9, **localized)
    assert halves(10, 21, 3) == [(10, 10), (20, 5), (25, 6)]


@pytest.mark.parametrize(
    ("promise", "options", "name"),
    [
        (PrivacyParams(1.0, unit=Unit.USER), {}, "delta"),
        (USERS, {"constants": "paper"}, "constants"),
        (USERS, {"test": "other"}, "test"),
        (USERS, {"sample": 5000}, "sample"),
        (USERS, {"cohort": 1}, "cohort"),
        (USERS, {"sample": 50, "batches": 2}, "sample"),
        (USERS, {"batches": 200}, "batches|n="),
        (USERS, {"outliers": 0.5}, "outliers"),
        (USERS, {"smoothing": "envelope"}, "smoothing"),
        (PrivacyParams(0.1, 1e-5, unit=Unit.USER), {"test": "tested"}, "n="),
    ],
)
def test_refusals(promise, options, name) -> None:
    with pytest.raises(InvalidParameterError, match=name):
        plan_accelerated(problem(), promise, **options)


def test_records_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="unit"):
        plan_accelerated(LinearModelProblem(LogisticLoss(), DOMAIN, N, 2.0), PrivacyParams(1.0, 1e-5))


# Errata of the paper (docs, Errata)


def test_e3_a_threshold_drawn_in_every_step_costs_every_step() -> None:
    """E3: ``P(all of 100 tests pass)`` for scores one apart: with one draw of the threshold its log ratio is below
    epsilon = 1 (2/epsilon and 4/epsilon as in AboveThreshold), with a draw a step it is many times that.
    """
    steps, epsilon = 100, 1.0
    z = np.linspace(-200, 200, 200_001)
    weight = laplace.pdf(z, scale=2 / epsilon) * (z[1] - z[0])

    def pass_alone(score):
        """By threshold noise."""
        return laplace.sf(z - score, scale=4 / epsilon)

    once = [math.log(weight @ pass_alone(score) ** steps) for score in (0.0, 1.0)]
    afresh = [steps * math.log(weight @ pass_alone(score)) for score in (0.0, 1.0)]
    assert abs(once[1] - once[0]) <= epsilon
    assert abs(afresh[1] - afresh[0]) > 10 * epsilon
