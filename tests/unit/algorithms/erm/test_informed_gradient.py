"""Descent after a look: what one user moves, what the look is read as, and that no release leads astray."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.special import logit

from dpconvex import PrivateLogisticRegression, verify
from dpconvex.algorithms import continued
from dpconvex.algorithms.erm.gradient_descent import informed, plan_informed
from dpconvex.algorithms.erm.gradient_descent.look import FARTHEST, TUNING, kept
from dpconvex.algorithms.erm.registry import cautious, plans
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import HingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss, WeightedLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.privacy.ledger import total_epsilon
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.users import mean_of_users, record_weights
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit.neighbors import user_pairs
from dpconvex_experiments.audit.replay import privacy_losses, replayed
from dpconvex_experiments.audit.target import run_of

USERS = PrivacyParams(1.0, 1e-6, unit=Unit.USER)
LOOSE = PrivacyParams(4.0, 0.05, unit=Unit.USER)
"""With so few users that one of them matters, and still so little noise that columns are looked at."""
DOMAIN = DataDomain((Block(3, "simplex", 1.0, "town"), Block(1, "linf", 0.5), Block(1, "linf", 0.5)), 1.0)


def problem(n: int = 3000, loss: Any = None, domain: DataDomain = DOMAIN, **more: Any) -> LinearModelProblem:
    return LinearModelProblem(loss or LogisticLoss(), domain, n, 4.0, **{"records_per_user": 5, **more})


def columns(plan: Any, size: float = 0.0) -> Any:
    """What the look may have released of the numeric columns."""
    count = 0 if plan.centers is None else len(plan.look.columns)
    return (size,) * count, (0.4 + size,) * count


def users(n: int, seed: int = 0, strength: float = 3.0) -> tuple[np.ndarray, np.ndarray, UserGroups]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n), rng.integers(1, 9, n))
    X = np.column_stack([np.eye(3)[rng.integers(0, 3, len(labels))], rng.uniform(-0.5, 0.5, (len(labels), 2))])
    score = strength * (X[:, 3] - X[:, 4] + X[:, 0])
    return X, np.where(rng.random(len(labels)) < 1 / (1 + np.exp(-score)), 1.0, -1.0), UserGroups.of(labels)


def test_shares_of_the_budget_add_up_to_it() -> None:
    plan = plan_informed(problem(), USERS)
    mus = [release.event.sensitivity / release.event.sigma for release in plan.releases]
    assert np.square(mus) / largest_mu(1.0, 1e-6) ** 2 == pytest.approx(
        [TUNING.column_share[0]] * 2 + [*TUNING.shares, 0.67, TUNING.slope_share, TUNING.constant_share], rel=1e-6
    )
    few = plan_informed(problem(200), USERS).releases
    shares = np.square([release.event.sensitivity / release.event.sigma / largest_mu(1.0, 1e-6) for release in few])
    assert shares[:2] == pytest.approx([TUNING.column_share[1]] * 2, rel=1e-6)
    assert 0.999999 < total_epsilon(plan.releases, 1e-6) <= 1 + 1e-9


@pytest.mark.parametrize(
    "given",
    [
        problem(domain=replace(DOMAIN, blocks=DOMAIN.blocks[:1])),
        problem(domain=replace(DOMAIN, blocks=(*DOMAIN.blocks[:1], Block(1, "linf", 0.5, values="binary")))),
        problem(domain=replace(DOMAIN, intercept=0.0)),
        problem(n=20),
    ],
)
def test_columns_are_not_looked_at_where_nothing_is_to_be_seen(given: LinearModelProblem) -> None:
    """Without numeric columns or a constant to move them by, and where noise would drown the widths."""
    plan = plan_informed(given, USERS)
    assert plan.centers is plan.widths is None
    assert 0.999999 < total_epsilon(plan.releases, 1e-6) <= 1 + 1e-9


def test_without_a_constant_or_with_public_rates_labels_are_not_looked_at() -> None:
    for given in (problem(domain=replace(DOMAIN, intercept=0.0)), problem(loss=LogisticLoss(rate=0.1))):
        plan = plan_informed(given, USERS)
        assert plan.labels is None
        assert len(plan.releases) == 4 + 2 * (plan.centers is not None)
        assert 0.999999 < total_epsilon(plan.releases, 1e-6) <= 1 + 1e-9
        blocks = len(given.domain.blocks)
        after = plan.resumed(*columns(plan), 0.1, (0.1,) * TUNING.bins, (0.1,) * blocks, (0.1,) * 3)
        assert after.constant_moved() == 0
        # The loss starts rare classes at a third; a run starts from the rates as told.
        start = float(after.ahead.start) * DOMAIN.intercept + float(given.loss.offset[0])
        assert start == pytest.approx(logit(0.1) if given.domain.intercept else 0.0)


def test_no_pair_of_neighbors_moves_the_run_further_than_the_budget(full: bool) -> None:
    """Gaussian releases: the sum of squared shifts over deviations is the exact squared mu of a transcript."""
    plan = plan_informed(problem(30), LOOSE)
    most = largest_mu(LOOSE.epsilon, LOOSE.delta) ** 2
    found = [privacy_losses(run_of(plan), *pair, 3 if full else 1).shifts.max() for pair in _pairs(plan.problem)]
    assert 0.3 * most < max(found) <= most  # three releases and the steps, not all at their worst at once


def test_each_release_moves_by_its_sensitivity_at_most_and_nearly_that() -> None:
    plan = plan_informed(problem(30), LOOSE)
    moved: dict[int, float] = {}
    for first, second in _pairs(plan.problem):
        releases = list(zip(*replayed(run_of(plan), first, second, (2, 2)), strict=True))
        for k, (mine, its) in enumerate(releases):
            step = float(np.linalg.norm(mine.value - its.value)) / mine.mechanism.sensitivity.value
            line = min(k, 5) if k < len(releases) - 2 else k - len(releases) + 8
            moved[line] = max(moved.get(line, 0.0), step)
    assert max(moved.values()) <= 1
    for k, least in enumerate((0.99, 0.75, 0.99, 0.99, 0.9, 0.6, 0.6, 0.03)):
        assert moved[k] > least


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_the_change_of_the_constants_slope_moves_by_its_sensitivity_at_most_and_nearly_that(label: float) -> None:
    """At steep coefficients, as a run may end with: a user whose predictions rise in the place of one's that fall."""
    plan, groups, found = plan_informed(problem(30), LOOSE), UserGroups.of(np.arange(30)), []
    assert plan.constant is not None
    X, point = np.tile([1.0, 0.0, 0.0, 0.5, 0.0], (30, 1)), np.array([0.0, 0.0, 0.0, 40.0, 0.0, 0.0])
    over = np.append(np.zeros(5), 1 / (TUNING.change * plan.look.problem.domain.intercept))
    for X[0, 3] in (0.5, -0.5):
        records, _ = plan.problem.clipped(X, np.full(30, label))
        facts = plan.problem.loss, records, np.ones(30), groups, record_weights(groups), point
        found.append(mean_of_users(*facts, partial(plan._slope, over=over, less=-0.5 / TUNING.change), 1.0))
    moved = float(np.abs(found[0] - found[1])[0]) / plan.constant.sensitivity.value
    assert 0.999 < moved <= 1


def test_labels_do_not_move_the_change_of_the_constants_slope() -> None:
    """Once the share of labels is released, only predictions count: a user with all labels turned round is the same."""
    plan = plan_informed(problem(30), LOOSE)
    first, second = next((a, b) for a, b in _pairs(plan.problem) if np.array_equal(a[0], b[0]))
    assert not np.array_equal(first[1], second[1])
    mine, its = (list(found)[-1].value for found in replayed(run_of(plan), first, second, (0, 0)))
    np.testing.assert_array_equal(mine, its)


def test_all_that_follows_the_look_follows_from_what_was_released() -> None:
    """On a neighbor, with the same releases, every number that leaves the run is the same, down to the last bit."""
    plan, found = plan_informed(problem(30), LOOSE), []
    for first, second in _pairs(plan.problem):
        replayed(lambda *data: found.append(run_of(plan)(*data)), first, second, (0, 0))
        mine, its = found[-2:]
        assert mine.plan.released == its.plan.released
        np.testing.assert_array_equal(mine.point, its.point)


def test_what_a_user_counts_as_at_least_follows_from_its_own_records() -> None:
    """To the last bit, whatever others have and wherever they stand. A record's length decides."""
    plan, found = plan_informed(problem(30), LOOSE), []
    look = plan.look.narrowed(np.full(2, 0.4), np.full(2, 0.2))
    seen, (X, _, groups) = continued(plan, look=look), users(30)
    labels = groups.spread(np.arange(30.0))
    for others in (X, -X, np.full_like(X, np.inf), np.zeros_like(X)):
        own = np.where(labels[:, None] < 10, X, others)
        found.append(seen._least_lengths(own, groups)[:10].tobytes())
        last = UserGroups.of(np.where(labels < 10, labels + 10**6, np.arange(len(X))))
        found.append(seen._least_lengths(own, last)[-10:].tobytes())
    assert len(set(found)) == 1
    single = UserGroups.of(np.arange(len(X)))
    whole = look.moved(np.column_stack([np.clip(X, -0.5, 0.5) + np.where(X > 0.5, 0.5, 0), np.ones(len(X))]))
    lengths = np.linalg.norm(whole / look.scales, axis=1)
    assert seen._least_lengths(X, single) == pytest.approx(TUNING.label * lengths, rel=1e-6)


@pytest.mark.gate
def test_users_of_a_rare_class_with_one_record_each_count_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut by their lengths alone they count a fraction of the others, and another model is the best one."""
    rng, n, lost = np.random.default_rng(0), 4000, []
    X = np.column_stack([np.eye(3)[rng.integers(0, 3, n)], rng.uniform(-0.5, 0.5, (n, 2))])
    score = 4 * X[:, 3] - 2 * X[:, 0] - 2.5
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    plan = plan_informed(problem(n, records_per_user=1), PrivacyParams(4.0, 1e-6, unit=Unit.USER))
    for least in (TUNING.label, 0.0):
        monkeypatch.setattr(informed, "TUNING", replace(TUNING, label=least))
        runs = [plan.run(X, y, SeededSource(seed), UserGroups.of(np.arange(n))).point for seed in range(3)]
        lost.append(np.mean([np.logaddexp(0, -y * (X @ w[:5] + w[5])) - np.logaddexp(0, -y * score) for w in runs]))
    assert lost[0] < 0.3 * lost[1]


def _pairs(given: LinearModelProblem) -> list[tuple[Any, Any]]:
    """Worst users, one with short gradients in the place of one with long ones, and one at the columns' other ends."""
    found = [(pair.first, pair.second) for pair in user_pairs(given, (1, 3)).values()]
    X, y, groups = found[0][0]
    last = np.arange(groups.n_records) >= groups.starts[-2]
    even = np.where(last & (np.arange(len(y)) % 2 == 0), -y, y)
    ends, middle = X.copy(), X.copy()
    ends[last, 3:], middle[:, 3:] = -X[last, 3:], 0.0
    far, near = middle.copy(), X.copy()
    far[last, 3:], near[last, 3:] = 0.5, 0.3  # about where noisy centers are put
    changed = ((X, y), (X, even)), ((X, y), (ends, y)), ((near, y), (ends, y)), ((middle, y), (far, y))
    return [*found, *(((*one, groups), (*other, groups)) for one, other in changed)]


@pytest.mark.gate
def test_the_number_of_steps_follows_the_look_and_the_price_does_not() -> None:
    """Strong and weak signals have other runs; what was released and what it costs is stated alike."""
    plan = plan_informed(problem(), USERS)
    weak, strong = (plan.run(*users(3000, 1, s)[:2], SeededSource(3), users(3000, 1, s)[2]) for s in (0.0, 8.0))
    assert strong.plan.ahead.signal > weak.plan.ahead.signal
    for found in (weak, strong):
        assert found.plan.releases == plan.releases
        assert found.certificate.spent_epsilon == plan.certificate(SeededSource(0)).spent_epsilon
        assert found.certificate.public["steps"] == found.plan.steps.count
    assert plan.certificate(SeededSource(0)).public["steps"] == "chosen after the look"


def test_a_fit_is_verified_with_the_course_that_it_took() -> None:
    X, y, groups = users(600)
    labels = np.repeat(np.arange(groups.n_users), groups.sizes)
    model = PrivateLogisticRegression(
        2.0,
        1e-6,
        domain=replace(DOMAIN, intercept=0.0),
        classes=[-1, 1],
        records_per_user=5,
        random_state=0,
        algorithm="informed_gradient",
    )
    model.fit(X, y, groups=labels)
    assert model.plan_.algorithm == "informed_gradient"
    checks = verify(model.certificate_.to_json()).checks
    assert {check.name for check in checks if not check.passed} <= {"noise is not seeded", "private flag"}
    fields = json.loads(model.certificate_.to_json())
    fields["public"]["steps"] += 1
    forged = {check.name for check in verify(json.dumps(fields)).checks if not check.passed}
    assert any("public" in name for name in forged)


@pytest.mark.parametrize("size", [1e12, -1e12, np.finfo(float).max])
def test_extreme_releases_lead_to_a_run(size: float) -> None:
    plan = plan_informed(problem(50), USERS)
    after = plan.resumed(*columns(plan, size), size, (size,) * TUNING.bins, (abs(size), 0.0, 1e-300), (size,) * 4)
    assert abs(after.constant_moved()) < 41
    assert 0 <= after.share_of_way <= TUNING.ways[0]
    assert 0 <= plan.look.share_of_way(-size, size, 0.0, plan.slope.sigma) <= TUNING.ways[0]
    assert 0.02 * (1 - 1e-9) <= after.ahead.length <= 0.6 * (1 + 1e-9)
    assert 1e-3 <= after.ahead.signal <= TUNING.seen[1] * (1 + 1e-9)
    assert 1 <= after.steps.count <= 256
    assert np.isfinite(after.spread).all()
    assert abs(after.ahead.start) <= np.log((1 - TUNING.least_share) / TUNING.least_share) * (1 + 1e-6)
    assert plan.look.block_squares(np.full(6, size)).max() <= 3 * FARTHEST**2
    assert min(block.bound for block in after.look.problem.domain.blocks[1:]) > 0.01


def test_no_content_of_the_data_raises_or_warns() -> None:
    X, y, groups = users(40)
    X[::3], y[::5] = np.nan, np.nan
    X[1], X[2] = np.inf, -1e300
    result = plan_informed(problem(40), USERS).run(X, y, SeededSource(0), groups)
    assert np.isfinite(result.point).all()


def test_a_start_predicts_the_share_of_labels() -> None:
    look = plan_informed(problem(10**6), PrivacyParams(8.0, 1e-6, unit=Unit.USER)).look
    start, unknown = look.start(0.8)
    assert 1 / (1 + np.exp(-start)) == pytest.approx(0.8, abs=1e-4)
    assert unknown == pytest.approx(look.deviations[0], rel=1e-3)
    noisy = plan_informed(problem(20), USERS).look
    assert abs(noisy.start(0.8)[0]) < 0.1  # a loud share says little


def test_what_cutting_keeps() -> None:
    lengths = np.exp(np.random.default_rng(0).standard_normal(10**6) / 2)
    for level, _ in TUNING.levels:
        assert kept(level) == pytest.approx(np.minimum(1, level / lengths).mean(), abs=2e-3)


def test_a_typical_length_is_found() -> None:
    look = plan_informed(problem(10**6), PrivacyParams(8.0, 1e-6, unit=Unit.USER)).look
    lengths = look.longest * 0.1 * np.exp(0.6 * np.random.default_rng(0).standard_normal(10**5))
    shares = np.bincount(np.searchsorted(look.edges, lengths), minlength=TUNING.bins) / 10**5
    assert look.typical_length(shares) == pytest.approx(0.1, rel=0.15)


def test_gradients_and_points_change_coordinates_together() -> None:
    """The slope along a way is the same in both; the start is the constant of records."""
    plan = plan_informed(problem(500), USERS)
    look = plan.look.narrowed(np.full(2, 0.4), np.full(2, 0.2))
    way, gradient = np.random.default_rng(0).standard_normal((2, plan.problem.dim))
    assert look.moved_back(way) @ gradient == pytest.approx(look.moved(gradient[None])[0] @ way)
    assert look.problem.domain.intercept == TUNING.constant * plan.problem.domain.intercept


def test_a_look_may_only_make_the_run_bolder() -> None:
    plan = plan_informed(problem(500), USERS)
    shares = (0.0,) * 6 + (0.5, 0.5) + (0.0,) * 4
    nothing, much = (plan.resumed(*columns(plan), 0.5, shares, (square,) * 3, ()).ahead.signal for square in (0.0, 0.5))
    assert nothing in TUNING.signals
    assert much > nothing


@pytest.mark.gate
def test_narrow_columns_far_from_the_middle_are_found_and_used() -> None:
    """Column 3 lies in a tenth of its range, near an end, and decides the labels: ten times the error without."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(2000), 3)
    X = np.column_stack(
        [np.eye(3)[rng.integers(0, 3, 6000)], rng.normal(0.35, 0.05, 6000), rng.uniform(-0.5, 0.5, 6000)]
    )
    score = 40 * (X[:, 3] - 0.35)
    y, groups = np.where(rng.random(6000) < 1 / (1 + np.exp(-score)), 1.0, -1.0), UserGroups.of(labels)
    plan = plan_informed(problem(2000), PrivacyParams(2.0, 1e-6, unit=Unit.USER))
    found = plan.run(X, y, SeededSource(0), groups)
    assert found.plan.look.center == pytest.approx((0.35, 0.0), abs=0.05)
    assert [block.bound for block in found.plan.look.problem.domain.blocks[1:]] == pytest.approx([0.11, 0.5], rel=0.4)
    blind = continued(plan, centers=None, widths=None).run(X, y, SeededSource(0), groups)
    best = np.logaddexp(0, -y * score).mean()
    lost = [np.logaddexp(0, -y * (X @ each.point[:5] + each.point[5])).mean() - best for each in (found, blind)]
    assert lost[0] < 0.01
    assert lost[1] > 10 * lost[0]


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_the_constant_is_moved_to_where_its_slope_is_zero(share: float) -> None:
    """A slope that hardly any noise hides is believed; a loud one leaves what is expected of any run."""
    sure = plan_informed(problem(10**7, records_per_user=3), USERS).look
    for off in (-0.04, 0.02):
        score = np.log((share + off) / (1 - share - off))  # a model that predicts `share + off` on average
        moved = sure.constant_moved(share, off, 1e-9)
        assert 1 / (1 + np.exp(-score - moved)) == pytest.approx(share, abs=0.01)
        usual = TUNING.drift * (2 * share - 1)
        assert sure.constant_moved(share, off, 1e3) == pytest.approx(sure.constant_moved(share, usual, 1e-9), abs=1e-3)
    many = plan_informed(problem(10**7, records_per_user=300), USERS).look
    assert many.constant_moved(0.2, 0.0, 1e3) == pytest.approx(sure.constant_moved(0.2, -0.012, 1e-9), rel=1e-3)
    assert sure.constant_moved(1.1, 0.2, 1e-9) == 0  # predictions of more than .97 are none that a run is moved from


def test_what_is_left_unknown_of_the_constant_is_expected_to_cost() -> None:
    """It outweighs all else with few users and columns, and vanishes where labels and drift are seen well."""
    left = []
    for n in (300, 3000, 10**6):
        plan = plan_informed(problem(n), USERS)
        assert plan.constant is not None
        own, run = plan.predicted_error.expected, plan.ahead.choice.expected
        assert own is not None
        assert own - run == pytest.approx(plan.look.constant_left(TUNING.change * plan.constant.sigma))
        left.append((own - run) / run)
    assert left[0] > 1 > 0.5 > left[1] > left[2]
    loud = plan_informed(problem(20), replace(USERS, epsilon=0.01)).look
    unknown = TUNING.prior_variance + TUNING.drift**2  # no more than what is known of a share before a look
    assert loud.constant_left(1e9) < unknown / (2 * 0.11)


@pytest.mark.gate
def test_a_run_predicts_about_the_share_of_positive_labels() -> None:
    """Users of one label each, a fifth of them positive: cut gradients alone pull the constant far off."""
    rng = np.random.default_rng(0)
    groups = UserGroups.of(np.repeat(np.arange(1000), 3))
    X = np.column_stack([np.eye(3)[rng.integers(0, 3, 3000)], rng.uniform(-0.5, 0.5, (3000, 2))])
    y = np.repeat(np.where(rng.random(1000) < 0.2, 1.0, -1.0), 3)
    found = plan_informed(problem(1000), PrivacyParams(2.0, 1e-6, unit=Unit.USER)).run(X, y, SeededSource(0), groups)
    off = []
    for constant in (0.0, found.plan.constant_moved()):
        scores = X @ found.point[:5] + found.point[5] - found.plan.constant_moved() + constant
        off.append(float(np.mean(1 / (1 + np.exp(-scores))) - np.mean(y > 0)))
    assert off[0] < -0.06
    assert abs(off[1]) < 0.7 * abs(off[0]), off  # one step along the curvature at the share goes part of the way


@pytest.mark.parametrize(("end", "share"), [(0.1, 0.5), (0.0, 1.0), (-0.05, 2.0)])
def test_what_is_kept_of_the_way_is_where_the_loss_is_least(end: float, share: float) -> None:
    """Slopes that hardly any noise hides, from -.1 at the start on; loud ones tell what is expected of any run."""
    look = plan_informed(problem(10**7), USERS).look
    assert look.share_of_way(-0.1, end, 0.1, 0.001) == pytest.approx(share, rel=0.02)
    loud = plan_informed(problem(20), USERS).look
    kept_then = [loud.share_of_way(start, end, 1e-3, 1e3) for start in (-0.1, 0.1)]
    assert kept_then == pytest.approx([1.1, 1.1], abs=0.3)


@pytest.mark.gate
def test_a_way_of_noise_is_cut_short_and_one_that_ended_early_is_not() -> None:
    plan = plan_informed(problem(1000), USERS)
    kept_of = {
        s: np.mean([plan.run(X, y, SeededSource(k), groups).plan.share_of_way for k in range(16)])
        for s in (0.0, 8.0)
        for X, y, groups in [users(1000, 1, s)]
    }
    assert kept_of[0.0] < 0.8
    assert kept_of[8.0] > kept_of[0.0] + 0.2


def test_an_intercept_that_is_off_is_no_signal() -> None:
    """The same gradient says less where the share of labels is known worse."""
    look = plan_informed(problem(2000), USERS).look
    sure, unsure = (look._seen(0.2, unknown, np.full(3, 0.05)) for unknown in (0.0, 0.2))
    assert unsure < 0.7 * sure


def test_it_comes_first_where_its_forecast_is_the_smallest() -> None:
    """Public facts decide: a look for many records a user, a pure method for few users, or for many at epsilon 10."""
    some = plans(problem(3000, records_per_user=20), USERS)
    assert some[0].algorithm == "informed_gradient"
    few = plans(problem(50, records_per_user=20), USERS)
    assert few[0].algorithm != "informed_gradient"
    many = plans(problem(10**6), PrivacyParams(10.0, 1e-6, unit=Unit.USER))
    assert many[0].algorithm == "objective_perturbation"
    assert cautious(many[0]) == pytest.approx(min(map(cautious, many)), rel=1e-8)


@pytest.mark.parametrize(
    ("given", "privacy", "match"),
    [
        (problem(records_per_user=None), PrivacyParams(1.0, 1e-6), "unit='record'"),
        (problem(), PrivacyParams(1.0, unit=Unit.USER), "delta=0"),
        (problem(loss=SoftmaxLoss(3)), USERS, "loss='softmax'"),
        (problem(loss=HingeLoss()), USERS, "loss='hinge'"),
        (problem(loss=WeightedLoss(LogisticLoss())), USERS, "loss='weighted'"),
        (problem(loss=SquaredLoss(1.0, 1.0)), USERS, "loss='squared'"),
        (problem(loss=LogisticLoss(cap=0.3)), USERS, "whole slopes"),
    ],
)
def test_what_it_is_not_for_is_refused(given: LinearModelProblem, privacy: PrivacyParams, match: str) -> None:
    with pytest.raises(InvalidParameterError, match=match):
        plan_informed(given, privacy)


@pytest.mark.parametrize(
    "course",
    [
        (0.5, (0.1,) * 11, (0.1,) * 3, ()),
        (0.5, (0.1,) * 12, (0.1,) * 4, ()),
        (np.nan, (0.1,) * 12, (0.1,) * 3, ()),
        (0.5, (0.1,) * 12, (0.1,) * 3, (0.1,) * 2),
        (0.5, (0.1,) * 12, (0.1,) * 3, (0.1,) * 5),
        (0.5, (0.1,) * 12, (0.1,) * 3, (0.1, np.inf, 0.1)),
    ],
)
def test_what_no_look_releases_is_refused(course: Any) -> None:
    with pytest.raises(InvalidParameterError, match="look"):
        plan_informed(problem(n=20), USERS).resumed((), (), *course)
    with pytest.raises(InvalidParameterError, match="look"):
        plan_informed(problem(), USERS).resumed((), (), 0.5, (0.1,) * 12, (0.1,) * 3, ())
    with pytest.raises(InvalidParameterError, match="look"):
        plan_informed(problem(), USERS).resumed((0.1,), (0.1,), 0.5, (0.1,) * 12, (0.1,) * 3, ())
