"""Robust means: golden constants, sensitivity by exhaustive search, hostile points, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations_with_replacement
from unittest import mock

import numpy as np
import pytest

from dpconvex.errors import BudgetExceededError, InvalidDataError, InvalidParameterError
from dpconvex.mechanisms import GuardedMean, RobustMean
from dpconvex.mechanisms.robust_mean import _search, budget, counts_within, h_index, kappa, robust_mean_of
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import clip_points
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex_experiments.reference.outlier_removal import OutlierRemoval, flips
from robust_means import least_count, plan_outlier_removal, plan_robust_mean

# User-level specification, section 8: C, epsilon, delta, sigma_H, s0, theta, A, B, kappa, sigma / rho.
GOLDEN = [
    (400, 1, 1e-6, 8.449358, 333, 373.163, 200, 332, 0.012557, 0.061255),
    (200, 2, 1e-6, 4.460953, 165, 186.205, 100, 164, 0.025855, 0.066589),
    (100, 4, 1e-6, 2.387037, 81, 92.3466, 50, 80, 0.054942, 0.075719),
    (1000, 1, 1e-8, 10.200618, 911, 968.246, 681, 910, 0.003692, 0.021742),
]
PROMISE = PrivacyParams(1.0, 1e-6, unit=Unit.USER)
MEANS: list[GuardedMean] = [plan_robust_mean(200, 3, 1.0, 1e-6), plan_outlier_removal(2400, 3, 1.0, 1e-6)]


def quarter_for_the_test(C: int, dim: int, epsilon: float, delta: float) -> RobustMean:
    """The plan with the share of the squared budget that the specification gives the test."""
    with mock.patch("dpconvex.mechanisms.robust_mean.SPLITS", (0.25,)):
        found = _search.__wrapped__(C, *budget(epsilon, delta), 1e-3, 0.0)
    assert found is not None
    return RobustMean(C, dim, *found)


def crowd(mean: GuardedMean, seed: int = 0) -> np.ndarray:
    return 1 + 0.01 * np.random.default_rng(seed).normal(size=(mean.count, mean.dim))


@pytest.mark.parametrize(("C", "epsilon", "delta", "score", "s0", "theta", "A", "B", "reach", "noise"), GOLDEN)
def test_golden_plans(C, epsilon, delta, score, s0, theta, A, B, reach, noise) -> None:
    mean = quarter_for_the_test(C, 5, epsilon, delta)
    assert (mean.passing, mean.low, mean.high) == (s0, A, B)
    assert mean.score_sigma == pytest.approx(score, rel=1e-5)
    assert mean.threshold == pytest.approx(theta, rel=1e-5)
    assert mean.reach == pytest.approx(reach, rel=1e-4)
    assert mean.deviation == pytest.approx(noise, rel=1e-4)
    assert mean.event.delta(epsilon) <= delta


@pytest.mark.parametrize(
    ("C", "kappa_c", "noise_c"), [(100, 16.5, 149), (200, 6.4, 39), (800, 3.6, 17.5), (3200, 2.7, 12.3)]
)
def test_table_of_noise(C: int, kappa_c: float, noise_c: float) -> None:
    """User-level specification, section 4.3, the row (1, 1e-6) of the planning table."""
    mean = plan_robust_mean(C, 1, 1.0, 1e-6)
    assert mean.reach * C == pytest.approx(kappa_c, rel=0.02)
    assert mean.deviation * C == pytest.approx(noise_c, rel=0.01)


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 140), (1, 76), (2, 44), (4, 26), (8, 18)])
def test_fewest_points(epsilon: float, least: int) -> None:
    """The column "min C" of the same table, which asks for ``s0 >= C/2 + 3``; one less is allowed here."""
    plan_robust_mean(least, 1, epsilon, 1e-6)
    with pytest.raises(InvalidParameterError, match="could not pass"):
        plan_robust_mean(least - 4, 1, epsilon, 1e-6)


def test_golden_printed_constants() -> None:
    """User-level specification, sections 4.2 and 8."""
    assert flips(2296, 1.25e-7) == 22
    assert flips(2296, 1.25e-9) in (25, 26)
    assert least_count(20.0, 1.25e-7) == 2296
    mean = OutlierRemoval(2296, 1, 20.0, 1.25e-7, 1.0)
    assert mean.reach * 2296 == pytest.approx(144)
    assert mean.event.failure <= 1.25e-7


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [(0.5, 1e-6, 0.12411), (1, 1e-6, 0.23670), (1, 1e-8, 0.19607), (2, 1e-6, 0.44833), (8, 1e-6, 1.53155)],
)
def test_golden_budgets(epsilon: float, delta: float, mu: float) -> None:
    """User-level specification, section 8, Gaussian budgets; several releases share half of delta with the tests."""
    assert budget(epsilon, delta)[0] == pytest.approx(mu, abs=6e-6)
    assert budget(epsilon, delta)[1] == delta
    assert budget(epsilon, delta, 4)[1] == delta / 8
    assert budget(epsilon, delta, 4)[0] == pytest.approx(budget(epsilon, delta / 2)[0] / 2)


def test_a_hostile_row_changes_the_score_by_one_at_most() -> None:
    """User-level specification, section 8: eight points, all within the radius before and after."""
    for ends in (-1.0, 1.0):
        assert h_index(counts_within(np.array([[ends], *[[0.0]] * 7]), 1.0)) == 8
    for row in (np.nan, 1e300):
        points = clip_points(np.array([[row], *[[0.0]] * 7]), PointDomain(1, 5.0, 2.5))
        assert h_index(counts_within(points, 1.0)) in (7, 8)


def test_golden_adversarial_reach() -> None:
    """User-level specification, section 8: ``C=100, s0=82, A=50, B=81``."""
    assert float(kappa(100, 82, np.array(50), np.array(81))) == pytest.approx(0.0528718, rel=1e-6)


@pytest.mark.parametrize(
    ("counts", "index"), [([4, 4, 4, 4, 1], 4), ([5] * 5, 5), ([1, 1, 1], 1), ([3, 3, 2, 2], 2), ([0, 0], 0)]
)
def test_h_index(counts: list[int], index: int) -> None:
    assert h_index(np.array(counts)) == index


def test_counts_are_those_of_all_pairs() -> None:
    points = np.random.default_rng(1).normal(size=(67, 4))
    exact = (np.linalg.norm(points[:, None] - points[None], axis=2) <= 2.0).sum(1)
    np.testing.assert_array_equal(counts_within(points, 2.0), exact)


@pytest.mark.parametrize(("C", "ratio"), [(5, 0.71), (6, 0.75), (7, 0.78)])
def test_sensitivity_on_every_line_configuration(C: int, ratio: float) -> None:
    """Lemmas 1 and 2 for all multisets of a grid of step rho/2, all replacements, all legal constants.

    The largest ratios of move and bound are those of the specification, section 4.8: never above 1, so a bound lower by
    a quarter would be beaten.
    """
    shapes = list(combinations_with_replacement(range(7), C))
    number = {shape: i for i, shape in enumerate(shapes)}
    X = np.array(shapes) / 2
    counts = (np.abs(X[:, :, None] - X[:, None, :]) <= 1.0).sum(2)
    H = np.array([h_index(row) for row in counts])
    pairs = {
        (number[shape], number[tuple(sorted((*shape[:j], new, *shape[j + 1 :])))])
        for shape in shapes
        for j in range(C)
        for new in range(7)
    }
    first, second = np.array(sorted(pairs)).T
    assert np.abs(H[first] - H[second]).max() <= 1
    worst, checked = 0.0, 0
    for s0 in range(C // 2 + 2, C + 1):
        good = np.minimum(H[first], H[second]) >= s0
        for A in range((C + 1) // 2, s0 - 1):
            for B in range(A + 1, s0):
                weights = np.clip((counts - A) / (B - A), 0, 1)
                means = (weights * X).sum(1) / np.maximum(weights.sum(1), 1e-300)
                moved = np.abs(means[first] - means[second])[good].max()
                worst = max(worst, moved / float(kappa(C, s0, np.array(A), np.array(B))))
                checked += int(good.sum())
    assert checked > 500
    assert worst == pytest.approx(ratio, abs=0.005)


def test_sensitivity_survives_random_search() -> None:
    """300 hostile pairs in two dimensions: a core, a wing, and a point that jumps from one end to the other."""
    rng = np.random.default_rng(2)
    mean = plan_robust_mean(60, 2, 2.0, 1e-6)
    good = 0
    for _ in range(300):
        wing = int(rng.integers(0, 16))
        core = rng.normal(size=(59 - wing, 2)) * rng.choice([0.0, 0.05, 0.2])
        side = rng.normal(size=2)
        side /= np.linalg.norm(side)
        others = np.concatenate([core, side * rng.uniform(0.5, 1.1) + rng.normal(size=(wing, 2)) * 0.02])
        moves = []
        for jump in (1.0, -1.0):
            points = np.concatenate([[side * jump * rng.uniform(0.8, 1.0)], others])
            counts = counts_within(points, 1.0)
            w = np.clip((counts - mean.low) / (mean.high - mean.low), 0, 1)
            moves.append((h_index(counts), w @ points / max(w.sum(), 1e-300)))
        if min(moves[0][0], moves[1][0]) >= mean.passing:
            good += 1
            assert np.linalg.norm(moves[0][1] - moves[1][1]) <= mean.reach
    assert good > 100


@pytest.mark.parametrize("mean", MEANS, ids=lambda mean: mean.name)
@pytest.mark.parametrize("source", [SeededSource(3), SystemSource()], ids=["seeded", "system"])
def test_a_crowd_passes_and_hostile_points_count_for_nothing(mean: GuardedMean, source) -> None:
    """The noise exceeds eight deviations in three coordinates with probability below 1e-14."""
    points = crowd(mean)
    points[0], points[1], points[2] = np.nan, 1e300, -np.inf
    ledger = Ledger(PROMISE, [mean.planned("mean", "block")])
    found = mean.release(points, 0.2, 5.0, "mean", source, ledger, "block")
    assert found is not None
    assert np.abs(found - 1).max() <= 8 * mean.unit_length(0.2, 5.0) * mean.sigma + 0.02
    assert ledger.recorded == [mean.planned("mean", "block")]
    with pytest.raises(BudgetExceededError):
        mean.release(points, 0.2, 5.0, "mean", source, ledger, "block")


@pytest.mark.parametrize("mean", MEANS, ids=lambda mean: mean.name)
def test_scattered_points_fail(mean: GuardedMean) -> None:
    """Scores lie more than 8 deviations of their noise below the threshold."""
    points = np.random.default_rng(4).normal(size=(mean.count, mean.dim))
    assert mean.draw(points, 1e-3, 5.0, SeededSource(0)) is None


@pytest.mark.parametrize("mean", MEANS, ids=lambda mean: mean.name)
def test_degenerate_points_do_not_raise(mean: GuardedMean) -> None:
    for fill in (0.0, np.nan, np.inf, 1e308, -1e-308):
        found = mean.draw(np.full((mean.count, mean.dim), fill), 1e-3, 1.0, SeededSource(5))
        assert found is not None
        assert np.isfinite(found).all()


@pytest.mark.gate
def test_perfect_data_pass_as_planned() -> None:
    """False alarms of 2000 runs: 200 are planned; more than 270 or fewer than 60 have probability below 1e-5.

    The planned integer ``s0`` is rounded down, which makes alarms rarer than planned.
    """
    mean = plan_robust_mean(120, 1, 1.0, 1e-6, failure=0.1)
    source, points = SeededSource(6), np.zeros((120, 1))
    alarms = sum(mean.draw(points, 1.0, 1.0, source) is None for _ in range(2000))
    assert 60 < alarms < 270


def test_tolerated_outliers_pass() -> None:
    mean = plan_robust_mean(300, 1, 1.0, 1e-6, outliers=0.1)
    points = np.zeros((300, 1))
    points[:30] = np.linspace(3, 300, 30)[:, None]
    assert all(mean.draw(points, 1.0, 500.0, SeededSource(s)) is not None for s in range(5))
    strict = plan_robust_mean(300, 1, 1.0, 1e-6)
    assert strict.deviation < mean.deviation


def test_several_releases_fit_one_promise() -> None:
    mean = plan_robust_mean(2000, 4, 1.0, 1e-6, releases=30)
    Ledger(PROMISE, [replace(mean.planned("gradient"), times=30)])
    with pytest.raises(BudgetExceededError):
        Ledger(PROMISE, [replace(mean.planned("gradient"), times=31)])


@pytest.mark.parametrize(
    "change", [{"sigma": 0.98}, {"score_sigma": 0.98}, {"threshold": 0.99}], ids=lambda change: next(iter(change))
)
def test_weaker_constants_do_not_fit(change: dict[str, float]) -> None:
    mean = plan_robust_mean(400, 2, 1.0, 1e-6)
    for name, factor in change.items():
        mean = replace(mean, **{name: getattr(mean, name) * factor})
    with pytest.raises(BudgetExceededError):
        Ledger(PROMISE, [mean.planned("mean")])


@pytest.mark.parametrize("change", [{"low": 199}, {"high": 333}, {"passing": 500}, {"low": 332}])
def test_constants_that_no_lemma_covers_are_refused(change: dict[str, int]) -> None:
    mean = quarter_for_the_test(400, 2, 1.0, 1e-6)
    with pytest.raises(InvalidParameterError, match="passing"):
        replace(mean, **change)


def test_odd_counts_are_refused_by_the_printed_mechanism() -> None:
    with pytest.raises(InvalidParameterError, match="even"):
        OutlierRemoval(2401, 1, 20.0, 1e-7, 100.0)
    with pytest.raises(InvalidParameterError, match="count"):
        plan_outlier_removal(1500, 1, 1.0, 1e-6)


def test_public_shapes_are_checked() -> None:
    with pytest.raises(InvalidDataError, match="shape"):
        MEANS[0].draw(np.zeros((3, 3)), 1.0, 1.0, SeededSource(0))
    assert robust_mean_of(10, 1, 0.1, 1e-6) is None


def test_rounding_is_charged_where_it_matters() -> None:
    """Small radii far from the center: the rounding of the mean dominates its sensitivity."""
    mean = plan_robust_mean(200, 3, 1.0, 1e-6)
    assert mean.unit_length(1e-14, 1.0) > 2**-50
    assert mean.unit_length(1.0, 1.0) == pytest.approx(mean.reach, rel=1e-9)
    assert math.isclose(mean.noise.sensitivity.value, 1.0)
    assert isinstance(mean, RobustMean)


@pytest.mark.thin
@pytest.mark.parametrize("mean", MEANS, ids=["h_index", "printed"])
def test_released_means_have_the_planned_noise(mean: GuardedMean) -> None:
    """300 normal draws around a crowd in one place: 5 deviations of their standard deviation, below 1e-6."""
    points, source = np.ones((mean.count, mean.dim)), SeededSource(0)
    released = [mean.draw(points, 0.5, 2.0, source) for _ in range(100)]
    errors = np.concatenate([value - 1 for value in released if value is not None])
    assert len(errors) >= 285
    wanted = mean.unit_length(0.5, 2.0) * mean.sigma
    assert errors.std() == pytest.approx(wanted, rel=5 / math.sqrt(2 * len(errors)))


@pytest.mark.parametrize("mean", MEANS, ids=["h_index", "printed"])
@pytest.mark.dear("printed")
def test_scores_at_the_threshold_pass_half_of_the_time(mean: GuardedMean) -> None:
    """Without noise all of 40 draws would agree; with it they do with probability below 1e-9."""
    k = np.arange(mean.count + 1)
    scores = k if isinstance(mean, RobustMean) else (k**2 + mean.count - k) / mean.count
    crowded = int(np.argmin(np.abs(scores - mean.threshold)))
    points = np.zeros((mean.count, mean.dim))
    points[crowded:, 0] = 10 * np.arange(1, mean.count - crowded + 1)
    source = SeededSource(1)
    passed = sum(mean.draw(points, 1.0, 1e6, source) is not None for _ in range(40))
    assert 5 <= passed <= 35


# Errata of the paper (docs, Errata)


def test_e4_equal_radii_leave_a_quarter_of_the_mass_at_weight_one() -> None:
    """E4: three places in a row at the radius: the score is above 0.7 K, but K/4 points, not 2K/3, have weight 1.

    With coin flips the number kept is random then; deterministic weights need no such count (the lemmas above).
    """
    points = np.repeat([[0.0], [1.0], [2.0]], [375, 250, 375], axis=0)
    K, counts = len(points), counts_within(points, 1.0)
    assert counts.mean() >= 0.7 * K
    weights = np.clip((counts - K / 2) / (K / 6), 0.0, 1.0)
    assert np.sum(weights == 1.0) == K / 4
    assert weights.sum() >= 0.4 * K


def test_e25_for_an_odd_number_of_points_kept_ones_may_be_five_radii_apart() -> None:
    """E25: Lemma B.2 says 4 radii, which needs a shared unchanged neighbor; with C odd there need not be one.

    The changed point stands beside either far one, which gives it (C + 1)/2 neighbors. Even counts only are run.
    """
    C, kept = 101, {}
    shared = np.repeat([[0.5], [-0.5], [2.5], [-2.5]], [49, 49, 1, 1], axis=0)
    for side, index in ((2.5, 98), (-2.5, 99)):
        points = np.concatenate([shared, [[side]]])
        assert counts_within(points, 1.0).mean() >= 2 / 3 * C
        weights = np.clip((counts_within(points, 2.0) - C / 2) / (C / 6), 0.0, 1.0)
        assert weights[index] > 0
        kept[side] = points[index, 0]
    assert kept[2.5] - kept[-2.5] == 5.0
    with pytest.raises(InvalidParameterError, match="even"):
        OutlierRemoval(C, 1, 1.0, 1e-7, 100.0)
