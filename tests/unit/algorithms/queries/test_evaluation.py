"""Private evaluation: sensitivities, what one release says, intervals that cover, and what a hold-out may cost."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from dpconvex.algorithms.queries import metrics
from dpconvex.algorithms.queries.evaluation import LARGEST, ONE, plan
from dpconvex.algorithms.recipes import again
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import UserGroups
from dpconvex.randomness import SeededSource

PURE, USERS = PrivacyParams(1.0), PrivacyParams(1.0, unit=Unit.USER)


def released(scores, labels, epsilon, seed, groups=1, within=0):
    made = plan(len(scores), PrivacyParams(epsilon), groups=groups)
    bins = np.searchsorted(metrics.grid(made.bins).cuts, scores)
    return made.run((((within * made.bins) + bins) * 2 + labels)[:, None], None, None, SeededSource(seed))


def population(n, rng, spread=1.8, shift=-1.0):
    scores = spread * rng.standard_normal(n) + shift
    return scores, (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(int)


@pytest.mark.parametrize(("classes", "groups"), [(2, 1), (2, 3), (4, 1), (3, 2), (0, 1), (0, 3)])
@pytest.mark.parametrize("users", [False, True])
def test_no_unit_moves_the_sums_by_more_than_the_sensitivity(classes, groups, users, case) -> None:
    rng, n = np.random.default_rng(1), 4
    made = plan(n, USERS if users else PURE, classes=classes, groups=groups)
    norm = made.mechanism.norm if classes == 0 else (lambda v: np.abs(v).sum())
    most = 0.0
    for content in range(60):
        with case(content):
            sums = []
            sizes = np.array([1, 2, 1, 1])
            owner = np.repeat(np.arange(n), sizes) if users else np.arange(n)
            kept = rng.integers(-5, 500, size=(len(owner), len(made.shapes)))
            numbers = rng.uniform(-1, 2, (len(owner), 4))
            for last in range(2):  # the last unit has other records, for users another number of them
                extra = 5 * last if users else 0
                whose = np.concatenate([owner, np.full(extra, n - 1)])
                where = np.vstack([kept, rng.integers(0, 9, (extra, kept.shape[1]))])
                values = np.vstack([numbers, np.zeros((extra, 4))])
                end = whose == n - 1
                where[end] = last * 10**6
                values[end] = np.inf if last else np.nan
                weights = np.full(len(whose), ONE)
                if users:
                    of = UserGroups.of(whose)
                    weights = of.spread(ONE // of.sizes).astype(np.int64)
                sums.append(made._sums(where, values if classes == 0 else None, weights) / ONE)
            moved = float(norm(sums[1] - sums[0]))
            assert moved <= made.mechanism.sensitivity.value
            most = max(most, moved)
    assert most >= made.mechanism.sensitivity.value * (1 - 1e-8)  # and it is attained


@pytest.mark.parametrize(("classes", "groups", "moved"), [(2, 1, 2), (2, 3, 2), (4, 1, 4), (0, 1, 1), (0, 3, 2)])
@pytest.mark.together
def test_the_sensitivity_of_many_units_contains_the_rounding_of_all_sums(classes, groups, moved) -> None:
    """Each sum of at most n is rounded to one float, in both of two neighbors: half a last place of it."""
    made = plan(LARGEST, PURE, classes=classes, groups=groups)
    assert Fraction(made.mechanism.sensitivity.value) >= moved + Fraction(2 * made.size * LARGEST, 2**53)


def test_users_share_one_weight_and_sizes_must_fit() -> None:
    made = plan(2, PrivacyParams(500.0, unit=Unit.USER))
    users = UserGroups.of(np.array([0, 0, 0, 1]))
    cells = made.run(np.array([[0], [0], [1], [3]]), None, users, SeededSource(0)).cells
    assert cells[:4] == pytest.approx([2 / 3, 1 / 3, 0, 1], abs=0.05)
    with pytest.raises(InvalidDataError, match="2 units"):
        plan(3, USERS).run(np.zeros((4, 1)), None, users, SeededSource(0))
    with pytest.raises(InvalidDataError, match="units"):
        plan(4, USERS).run(np.zeros((4, 1)), None, None, SeededSource(0))
    with pytest.raises(InvalidDataError, match="groups and the test data"):
        plan(2, USERS).run(np.zeros((5, 1)), None, users, SeededSource(0))


def test_plans_are_made_again_and_refuse_what_is_out_of_range() -> None:
    for classes, groups in ((2, 1), (5, 2), (0, 4)):
        made = plan(1000, PURE, classes=classes, groups=groups)
        assert again(made.recipe.to_dict()) == made
        assert made.certificate(SeededSource(0)).spent_epsilon <= 1.0
    for wrong in ({"n": 0}, {"n": 2**31}, {"n": 5, "groups": 0}, {"n": 5, "classes": 101}, {"n": True}):
        with pytest.raises(InvalidParameterError):
            plan(privacy=PURE, **wrong)
    assert [plan(n, PURE).bins for n in (100, 50_000, 200_000)] == [8, 12, 24]


def test_without_noise_metrics_are_those_of_the_records() -> None:
    scores, labels = population(400_000, np.random.default_rng(0))
    found = metrics.of_scores(released(scores, labels, 1000.0, 0), lambda c: c).whole
    chances = 1 / (1 + np.exp(-np.clip(scores, -4, 4)))
    assert found["accuracy"].value == pytest.approx(np.mean((scores > 0) == labels), abs=1e-6)
    assert found["rate"].value == pytest.approx(labels.mean(), abs=1e-6)
    assert found["recall"].value == pytest.approx((scores > 0)[labels == 1].mean(), abs=1e-6)
    assert found["precision"].value == pytest.approx(labels[scores > 0].mean(), abs=1e-6)
    assert found["auc"].value == pytest.approx(roc_auc_score(labels, scores), abs=2e-4)
    assert found["log_loss"].value == pytest.approx(log_loss(labels, chances), abs=1.5e-3)
    assert found["brier"].value == pytest.approx(brier_score_loss(labels, chances), abs=5e-4)
    assert found["calibration_in_the_large"].value == pytest.approx(0, abs=4e-3)
    assert all(each.lower <= each.value <= each.upper for each in found.values())


@pytest.mark.parametrize(("n", "epsilon", "limit"), [(10_000, 0.1, 0.0085), (10_000, 0.3, 0.004)])
@pytest.mark.dear("10000-0.3-0.004")
def test_the_noise_in_the_auc_is_as_small_as_promised(n, epsilon, limit, full) -> None:
    """Against the records' own value; the limit is 4 standard errors of the root mean square away at 60 runs."""
    scores, labels = population(n, np.random.default_rng(0), spread=2.2)
    own, runs = roc_auc_score(labels, scores), 150 if full else 60
    errors = [
        metrics.of_scores(released(scores, labels, epsilon, seed), lambda c: c).whole["auc"].value - own
        for seed in range(runs)
    ]
    slack = 1 + 4 / math.sqrt(2 * runs)
    assert math.sqrt(np.mean(np.square(errors))) <= limit * slack
    assert abs(np.mean(errors)) <= limit / 4 + 4 * np.std(errors) / math.sqrt(runs)


@pytest.mark.slow
def test_intervals_cover_the_population() -> None:
    """At least 95 % less four standard errors; the truth is that of a million records."""
    rng, runs, n = np.random.default_rng(3), 600, 2000
    scores, labels = population(1_000_000, rng)
    truth = {"accuracy": np.mean((scores > 0) == labels), "auc": roc_auc_score(labels, scores), "rate": labels.mean()}
    truth["log_loss"] = log_loss(labels, 1 / (1 + np.exp(-np.clip(scores, -4, 4))))
    covered = dict.fromkeys(truth, 0)
    for seed in range(runs):
        picked = rng.integers(0, len(scores), n)
        found = metrics.of_scores(released(scores[picked], labels[picked], 0.5, seed), lambda c: c).whole
        for name, value in truth.items():
            covered[name] += found[name].lower <= value <= found[name].upper
    error = 4 * math.sqrt(0.05 * 0.95 / runs)
    for name, count in covered.items():
        assert 0.95 - error <= count / runs <= min(1.0, 0.955 + error), name


def test_small_groups_and_rare_classes_are_not_known_and_no_content_raises() -> None:
    rng = np.random.default_rng(0)
    scores, labels = population(6000, rng)
    within = np.where(np.arange(6000) < 40, 1, 0)
    found = metrics.of_scores(released(scores, labels, 1.0, 0, 3, within), lambda c: c)
    assert found.groups[0]["accuracy"].known
    assert not any(each.known for group in found.groups[1:] for each in group.values())
    assert not found.differences[1]["accuracy"].known
    rare = metrics.of_scores(released(scores, np.zeros(6000, int), 1.0, 0), lambda c: c)
    assert not rare.whole["auc"].known
    assert not rare.whole["recall"].known
    assert rare.whole["accuracy"].known
    assert len(rare.roc) == 0
    for n, epsilon in itertools.product((1, 3), (0.01, 5.0)):
        for classes in (0, 2, 4):
            made = plan(n, PrivacyParams(epsilon), classes=classes, groups=2)
            cells = made.run(np.zeros((n, len(made.shapes))), np.full((n, 4), np.nan), None, SeededSource(0))
            if classes == 2:
                metrics.of_scores(cells, None)
            elif classes:
                metrics.of_classes(cells)
            else:
                metrics.of_numbers(cells, -1.0, 1.0)


def test_precision_needs_records_that_are_called_positive() -> None:
    """A model that calls nobody positive: precision is noise over noise, and not known; recall is."""
    generator = np.random.default_rng(0)
    labels = (generator.random(4000) < 0.3).astype(int)
    for seed in range(5):
        found = metrics.of_scores(released(np.full(4000, -1.0), labels, 1.0, seed), lambda c: c).whole
        assert not found["precision"].known
        assert found["recall"].known


def test_root_mean_squares_are_at_least_mean_absolutes_and_their_intervals_cover() -> None:
    """Few records, where the noisy mean square is often negative; intervals are about the mean square."""
    generator, covered = np.random.default_rng(0), []
    for seed in range(60):
        error = np.clip(generator.normal(0, 0.06, 400), -0.5, 0.5)
        target = generator.uniform(0.5, 0.55, 400)
        made = plan(400, PrivacyParams(1.0), classes=0)
        values = np.column_stack([error**2, np.abs(error), target, target**2])
        found = metrics.of_numbers(made.run(np.zeros((400, 1)), values, None, SeededSource(seed)), 0.0, 1.0).whole
        assert found["rmse"].value >= found["mae"].value >= 0
        assert found["rmse"].lower <= found["rmse"].value <= found["rmse"].upper
        covered.append(found["rmse"].lower <= 0.06 <= found["rmse"].upper)
    assert np.mean(covered) > 0.9


def test_numbers_and_more_classes_without_noise() -> None:
    rng, n = np.random.default_rng(0), 50_000
    y, f = rng.uniform(0, 1, n), rng.uniform(0, 0.1, n)
    made = plan(n, PrivacyParams(1000.0), classes=0)
    error = np.abs(np.clip(y + f, 0, 1) - y)
    values = np.column_stack([error**2, error, y, y**2])
    found = metrics.of_numbers(made.run(np.zeros((n, 1)), values, None, SeededSource(0)), 10.0, 30.0).whole
    assert found["rmse"].value == pytest.approx(20 * math.sqrt(np.mean(error**2)), abs=1e-4)
    assert found["mae"].value == pytest.approx(20 * error.mean(), abs=1e-4)
    assert found["r2"].value == pytest.approx(1 - np.mean(error**2) / y.var(), abs=1e-5)
    assert found["mean_target"].value == pytest.approx(10 + 20 * y.mean(), abs=1e-3)
    made = plan(n, PrivacyParams(1000.0), classes=3)
    truth, top = rng.integers(0, 3, n), rng.integers(0, 3, n)
    table = 2 * rng.integers(0, made.bins, n) + (truth == top)
    whole = metrics.of_classes(made.run(np.column_stack([truth * 3 + top, table]), None, None, SeededSource(0))).whole
    assert whole["accuracy"].value == pytest.approx(np.mean(truth == top), abs=1e-5)
    assert whole["recall[1]"].value == pytest.approx(np.mean(top[truth == 1] == 1), abs=1e-5)
    assert whole["precision[2]"].value == pytest.approx(np.mean(truth[top == 2] == 2), abs=1e-5)


def log_ratio(parts) -> float:
    """Largest log ratio, over outcomes far out, of two mixtures of pairs of counts with Laplace noise 1 each."""
    ends = list(itertools.product((-60.0, 60.0), repeat=2))
    grid = ends + list(itertools.product(np.linspace(-3, 6, 19), repeat=2))
    found = 0.0
    for a, b in grid:
        density = [np.mean([math.exp(-abs(a - i) - abs(b - j)) for i, j in mixture]) for mixture in parts]
        found = max(found, abs(math.log(density[0] / density[1])))
    return found


def test_theorem_5_secret_orders_cost_the_larger_price_and_public_ones_on_sorted_tables_do_not() -> None:
    """Enumerated: each part's count of even records is released with noise of scale 1, so each price is 1."""

    def counts(table, order):
        return tuple(sum(table[i] % 2 == 0 for i in part) for part in (order[:2], order[2:]))

    orders = list(itertools.permutations(range(4)))
    tables = list(itertools.combinations_with_replacement((0, 1), 4))  # in the order of their content
    for a in tables:
        for b in tables:
            if sum((np.bincount(a, minlength=2) - np.bincount(b, minlength=2)) > 0) <= 1 and (
                abs(sum(a) - sum(b)) <= 1
            ):  # the tables differ in one record
                assert log_ratio([[counts(t, order) for order in orders] for t in (a, b)]) <= 1 + 1e-9
    public = [[counts(table, (0, 2, 1, 3))] for table in ((1, 2, 3, 4), (2, 3, 4, 5))]
    assert log_ratio(public) == pytest.approx(4.0)
    by_content = [[(sum(v == 0 for v in t), sum(v == 1 for v in t))] for t in ((0, 0), (0, 1))]
    assert log_ratio(by_content) == pytest.approx(2.0)
