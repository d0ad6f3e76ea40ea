"""Release of the curvature: sensitivities attacked by a search, patterns, noise, course, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpconvex.algorithms import curvature, recipes
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import gaussian_block_weights
from dpconvex.losses import HingeLoss, HuberLoss, LogisticLoss, PseudoHuberLoss, SoftmaxLoss, SquaredLoss
from dpconvex.mechanisms import GaussianMechanism, NormNoiseMechanism
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data import summation
from dpconvex.problems.data.records import Records
from dpconvex.problems.linear import second_moments
from dpconvex.problems.linear.shapes import ExpectedShapes, Knots, Levels
from dpconvex.randomness import SeededSource
from dpconvex.verification import verify

NUMBERS = DataDomain((Block(3, "linf", 0.5),), 1.0)
MIXED = DataDomain((Block(3, "simplex", 1.0, "a"), Block(2, "linf", 0.5), Block(4, "simplex", 1.0, "b")), 2.0)
USERS = PrivacyParams(1.0, unit=Unit.USER)
LOSSES = (LogisticLoss(), LogisticLoss(0.7), SquaredLoss(0.5, prediction_bound=0.5), HuberLoss(0.2, 0.5))


def entries(domain: DataDomain, rows: np.ndarray, weights: np.ndarray, most: float, shapes: Any = None) -> np.ndarray:
    """What is released of records, without noise, by the code of a run."""
    layout, (block,) = second_moments.layout_of(domain, shapes), Records.clipped(rows, domain).blocks()
    parts = second_moments.moments(layout, block, weights, most)
    return summation.gram(parts, second_moments.largest(layout, most))[*layout.places]


def extreme(domain: DataDomain, rng: np.random.Generator, count: int) -> np.ndarray:
    """Records at the ends of numbers, and levels, centers and random points of simplices."""
    parts: list[np.ndarray] = []
    for block in domain.blocks:
        if block.norm == "simplex":
            kinds = [
                np.eye(block.size),
                np.full((1, block.size), 1 / block.size),
                rng.dirichlet(np.ones(block.size), 2),
            ]
            parts.append(np.concatenate(kinds)[rng.integers(0, block.size + 3, count)])
        else:
            parts.append(block.bound * rng.choice([-1.0, -0.3, 0.0, 1.0], (count, block.size)))
    return np.hstack(parts)


SHAPES = ExpectedShapes((Knots((0.0, 0.3, 0.7, 1.0), own=True), Knots((0.0, 0.5, 1.0)), Levels(3)), 1.5)
CURVES = DataDomain(tuple(Block(k.size, "simplex", 1.0, f"s{i}") for i, k in enumerate(SHAPES.vertices)), 1.5)


def hats(rng: np.random.Generator, count: int) -> np.ndarray:
    """Weights on the vertices of shapes, cells missing here and there."""
    found = []
    for vertices in SHAPES.vertices[:2]:
        cells = rng.choice([0.0, 0.3, 0.5, 1.0, 0.62, math.nan], count)
        found.append(np.zeros((count, vertices.size)))
        vertices.write(cells, found[-1])
    return np.hstack([*found, np.eye(3)[rng.integers(0, 3, count)]])


def test_products_of_vertices_fill_in_the_matrix_and_move_no_further_than_their_bound() -> None:
    """Shapes: bands where missing cells have a vertex, all products where they stand in the middle."""
    rng, layout, weights = np.random.default_rng(0), second_moments.layout_of(CURVES, SHAPES), np.array([0.25])
    rows = hats(rng, 1500)
    found = np.array([entries(CURVES, row[None], weights, 0.25, SHAPES) for row in rows])
    whole, features = np.tensordot(found, layout.patterns, 1), np.column_stack([rows, np.full(1500, 1.5)])
    np.testing.assert_allclose(whole, 0.25 * features[:, :, None] * features[:, None], atol=2e-5)
    sizes = [size for _, size in layout.blocks]
    assert 4 + 3 + 1 in sizes  # knots, overlaps, missing
    moved = np.abs(found - found[rng.permutation(1500)])
    for part, (half, _) in zip(np.split(moved, np.cumsum(sizes)[:-1], axis=1), layout.blocks, strict=True):
        assert 0.99 < part.sum(1).max() / (2 * 0.25 * half) <= 1
    np.testing.assert_allclose(layout.planned, layout.planned.T)


@pytest.mark.parametrize("domain", [NUMBERS, MIXED], ids=["numbers", "mixed"])
@pytest.mark.parametrize("most", [0.25, 1.0, 0.07])
@pytest.mark.dear("0.25", "0.07-")
def test_no_pair_of_records_moves_a_block_further_than_its_bound_and_some_pair_as_far(
    domain: DataDomain, most: float
) -> None:
    """Lemma 2 block by block, for any weights of two records within their bound."""
    rng, layout = np.random.default_rng(0), second_moments.layout_of(domain)
    one, other = (extreme(domain, rng, 1500) for _ in range(2))
    weights = rng.choice([0.0, 0.3, 1.0, 1.0, 1.5], (2, 1500)) * most
    cuts = np.cumsum([size for _, size in layout.blocks])[:-1]
    reached, far = np.zeros((2, len(layout.blocks)))
    for x, z, a, b in zip(one, other, *weights, strict=True):
        moved = entries(domain, x[None], a[None], most) - entries(domain, z[None], b[None], most)
        parts = np.split(moved, cuts)
        lengths = [np.abs(part).sum() for part in parts]
        reached = np.maximum(reached, np.array(lengths) / [2 * most * half for half, _ in layout.blocks])
        far = np.maximum(
            far, np.array([np.linalg.norm(part) for part in parts]) / (2 * most * np.array(layout.lengths))
        )
    for found in (reached, far):  # in l1, and in l2 for Gaussian noise
        assert (found <= 1).all()
        assert (found > 0.999).all()


@pytest.mark.parametrize("domain", [NUMBERS, MIXED], ids=["numbers", "mixed"])
def test_no_pair_of_users_moves_second_moments_further_than_the_bound_and_some_pair_as_far(domain: DataDomain) -> None:
    """Lemma 3 block by block: mean gradients of one to three records, with slopes of either sign."""
    rng, layout = np.random.default_rng(0), second_moments.layout_of(domain, None, True)
    plan = curvature.plan(LinearModelProblem(LogisticLoss(0.7), domain, 9, 1.0, records_per_user=2), USERS)
    slopes = 0.7 * rng.choice([-1.0, -0.5, 0.0, 1.0], (3, 3000))
    rows = [np.column_stack([extreme(domain, rng, 3000), np.full(3000, domain.intercept)]) for _ in slopes]
    each = [row * slope[:, None] for row, slope in zip(rows, slopes, strict=True)]
    users = np.concatenate([each[0], (each[0] + each[1]) / 2, sum(each) / 3])
    halves = [half for half, _ in layout.blocks]
    found = plan._products(users.copy()) * plan._score_bounds  # the exact products, as nothing is cut
    np.testing.assert_allclose(found, users[:, layout.places[0]] * users[:, layout.places[1]], rtol=1e-9, atol=1e-12)
    moved = np.abs(found - found[rng.permutation(len(found))])
    parts = np.split(moved, np.cumsum([size for _, size in layout.blocks])[:-1], axis=1)
    reached = [float(part.sum(1).max() / (2 * 0.49 * half)) for part, half in zip(parts, halves, strict=True)]
    assert max(reached) <= 1
    assert min(reached) > 0.999
    bends = [entries(domain, row[None, :-1], np.array([0.25]), 0.25) for row in rows[0][:400]]
    ends = np.hstack([bends, found[:400]])
    longest = max(float(plan.second.norm(one - other)) for one, other in zip(ends, ends[::-1], strict=True))
    assert 0.75 * plan.second.sensitivity.value < longest <= plan.second.sensitivity.value
    whole = np.tensordot(found, layout.patterns, 1)  # they fill in the whole matrix
    np.testing.assert_allclose(whole, users[:, :, None] * users[:, None], atol=1e-12)
    far = np.full((1, len(users[0])), 1e9)
    assert np.abs(plan._products(far)).max() <= 2  # whatever a slope comes out as


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.together
def test_sensitivities_of_users_contain_the_rounding_of_their_gradients(robust: bool) -> None:
    """Each of n users' entries errs by up to 4e-14 of the largest, in units of the smallest."""
    problem = LinearModelProblem(LogisticLoss(), MIXED, 10**6, 1.0, records_per_user=5)
    widths, blocks = second_moments.layout_of(MIXED).widths, curvature._entries(problem, robust)
    norm, moved = curvature._norm(problem, robust)
    units, far = curvature._units(problem, robust)
    _, length = gaussian_block_weights(*curvature._entries(problem, robust, in_l2=True))
    for sensitivity, bound, entries in ((moved, norm.record_bound(blocks[0]), norm.dim), (far, length, len(units))):
        least = 3.9e-14 * problem.n * entries * widths.max() / widths.min()
        assert sensitivity.value / (2 * bound) - 1 >= least


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_where_no_interval_can_be_finite_predictions_have_nearly_all_of_epsilon(delta: float) -> None:
    few, many = (
        curvature.plan(LinearModelProblem(LogisticLoss(), MIXED, n, 1.0), PrivacyParams(0.3, delta))
        for n in (300, 20_000)
    )
    assert few.share == min(curvature.TUNING.shares)
    assert not few.hopeful
    assert few.note.endswith("no finite interval")
    assert many.hopeful
    assert many.share > few.share


def test_records_of_a_user_share_its_weight_in_all_that_is_released(monkeypatch: Any) -> None:
    values, (X, y) = [], data(MIXED)
    labels = np.sort(np.random.default_rng(5).integers(0, 400, len(X)))
    groups = UserGroups.of(labels)
    sample = NormNoiseMechanism._sample
    monkeypatch.setattr(
        NormNoiseMechanism, "_sample", lambda self, value, source: values.append(value) or sample(self, value, source)
    )
    problem = LinearModelProblem(LogisticLoss(), MIXED, groups.n_users, 2.0, records_per_user=5)
    plan = curvature.plan(problem, replace(USERS, epsilon=2.0, delta=1e-6))  # its delta is not needed
    result = plan.run(X, y, SeededSource(1), groups)
    rows, loss = np.column_stack([X, np.full(len(X), 2.0)]), LogisticLoss()
    share = groups.spread(1 / groups.sizes)
    z = rows @ result.point
    bends = entries(MIXED, X, share * loss.hessian_weights(z, y), 0.25)
    own = np.add.reduceat(rows * (share * loss.derivative(z, y))[:, None], groups.starts[:-1])
    moments = (own.T @ own)[*plan.score_layout.places]
    np.testing.assert_allclose(values[1], np.concatenate([bends, moments]), rtol=2e-5, atol=2e-4)
    assert all(release.sensitivity.unit == Unit.USER for release in plan.releases)
    again = recipes.again(result.certificate.planner)
    assert again.noisy == result.plan.noisy
    given = result.plan.released(result.point)
    np.testing.assert_allclose(given.dispersion, given.scores[-1] / MIXED.intercept**2)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_noise_covers_neighbors_and_half_of_it_would_not(loss: Any) -> None:
    """Exact density ratios between data sets of one record that the lemma's extreme pairs give, at any parameters."""
    domain, rng = DataDomain((Block(1, "linf", 0.5),), 1.0), np.random.default_rng(1)
    problem, worst, far = LinearModelProblem(loss, domain, 1, 1.0), 0.0, 0.0
    for robust in (False, True):
        (norm, sensitivity), (units, moved) = curvature._norm(problem, robust), curvature._units(problem, robust)
        for w in (*rng.normal(0, 3, (30, 2)), np.zeros(2), np.array([0.0, -40.0]), np.array([0.0, 1 / 0.7])):
            X, y = np.array([[-0.5], [0.5], [0.0]] * 2), np.repeat(loss.clip_targets(np.array([-9.0, 9.0])), 3)
            z = X[:, 0] * w[0] + w[1]
            bends, slopes = loss.hessian_weights(z, y), np.square(loss.derivative(z, y))
            both = [
                np.concatenate(
                    [entries(domain, x[None], b[None], loss.curvature_bound)]
                    + [entries(domain, x[None], s[None], loss.slope_bound**2)] * robust
                    + [s[None]]
                )
                for x, b, s in zip(X, bends, slopes, strict=True)
            ]
            worst = max(worst, *(float(norm(a - b)) / sensitivity.value for a in both for b in both))
            far = max(far, *(float(np.linalg.norm((a - b) / units)) / moved.value for a in both for b in both))
    assert 0.5 < worst <= 1
    assert 0.5 < far <= 1


def test_entries_fill_in_the_whole_matrix_with_a_tenth_of_the_cells_missing() -> None:
    """The second moment of a category with missing cells is no diagonal matrix: a mistake of an earlier layout."""
    rng, n = np.random.default_rng(2), 900
    X = np.hstack([np.eye(3)[rng.integers(0, 3, n)], rng.uniform(-0.5, 0.5, (n, 2)), np.eye(4)[rng.integers(0, 4, n)]])
    X[: n // 10, :3], X[n // 20 : n // 5, 5:] = 1 / 3, 1 / 4
    weights = rng.uniform(0, 0.25, n)
    rows, layout = np.column_stack([X, np.full(n, 2.0)]), second_moments.layout_of(MIXED)
    found = np.tensordot(entries(MIXED, X, weights, 0.25), layout.patterns, 1)
    np.testing.assert_allclose(found, (rows * weights[:, None]).T @ rows, rtol=1e-5, atol=1e-3)  # of the grid
    np.testing.assert_allclose(found, found.T)


def planned(
    domain: DataDomain = MIXED, loss: Any = None, n: int = 2000, epsilon: float = 2.0, delta: float = 0.0, **more: Any
) -> Any:
    problem = LinearModelProblem(loss or LogisticLoss(), domain, n, 2.0)
    return curvature.plan(problem, PrivacyParams(epsilon, delta), **more)


def data(domain: DataDomain, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return extreme(domain, rng, n), np.where(rng.random(n) < 0.4, 1.0, -1.0)


def test_curvature_is_taken_at_the_released_point_and_noise_has_the_stated_size(monkeypatch: Any) -> None:
    values, (X, y) = [], data(MIXED)
    sample = NormNoiseMechanism._sample
    monkeypatch.setattr(
        NormNoiseMechanism, "_sample", lambda self, value, source: values.append(value) or sample(self, value, source)
    )
    plan = planned(robust=True)
    result = plan.run(X, y, SeededSource(1))
    rows = np.column_stack([X, np.full(len(X), 2.0)])
    z, loss = rows @ result.point, LogisticLoss()
    bends, slopes = loss.hessian_weights(z, y), np.square(loss.derivative(z, y))
    scores = entries(MIXED, X, slopes, 1.0)
    expected = np.concatenate([entries(MIXED, X, bends, 0.25), scores, [slopes.sum()]])
    np.testing.assert_allclose(values[1], expected, rtol=1e-5, atol=1e-5)
    noise = [plan.second.release(expected, curvature.CURVATURE, SeededSource(k), Anything()) for k in range(40)]
    sizes = (np.array(noise) - expected) / (plan.second.scale * np.sqrt(plan.second.norm.coordinate_variances))
    assert 0.93 < float(np.square(sizes).mean()) < 1.07  # the noise of groups is one radius: error 2 %
    assert plan.second.scale * plan.second.epsilon >= plan.second.sensitivity.value


@pytest.mark.parametrize("loss", [*LOSSES, PseudoHuberLoss(0.2, 0.5)], ids=lambda loss: type(loss).__name__)
@pytest.mark.dear("LogisticLoss1")
def test_gaussian_curvature_is_released_at_the_released_point_inside_the_minimizers_event(
    loss: Any, monkeypatch: Any
) -> None:
    values, (X, y) = [], data(MIXED)
    sample = GaussianMechanism._sample
    monkeypatch.setattr(
        GaussianMechanism, "_sample", lambda self, value, source: values.append(value) or sample(self, value, source)
    )
    plan = planned(loss=loss, delta=1e-6, robust=True)
    (release,), mechanism = plan.releases, plan.second
    event: Any = release.event
    assert event.delta(2.0) <= 1e-6
    assert mechanism.event.sensitivity <= event.curvature_mu * mechanism.sigma * (1 + 1e-15)
    assert curvature.LEMMA in release.sensitivity.lemma
    assert mechanism.sensitivity == curvature._units(plan.problem, True)[1]
    squares = event.curvature_mu**2, (2 * event.gradient_bound / event.sigma) ** 2
    assert plan.share == pytest.approx(squares[0] / sum(squares))
    result = plan.run(X, y, SeededSource(1))
    y, z = loss.clip_targets(y), np.column_stack([X, np.full(len(X), 2.0)]) @ result.point
    bends, slopes = loss.hessian_weights(z, y), np.square(loss.derivative(z, y))
    parts = [(bends, loss.curvature_bound), (slopes, loss.slope_bound**2)]
    expected = np.concatenate([*(entries(MIXED, X, *part) for part in parts), [slopes.sum()]])
    np.testing.assert_allclose(values[0] * plan.units, expected, rtol=1e-5, atol=1e-5)
    sizes = (np.array(result.plan.noisy) - expected) / (plan.units * mechanism.sigma)
    assert 0.6 < float(np.square(sizes).mean()) < 1.5  # of 85 entries: 4 standard errors
    again = recipes.again(result.certificate.planner)
    assert again.noisy == result.plan.noisy
    checks = verify(result.certificate).checks
    assert [check.name for check in checks if not check.passed] == ["noise is not seeded"]


@pytest.mark.gate
def test_plans_of_many_columns_have_smaller_noise_with_delta_and_a_pure_noise_may_be_asked_for() -> None:
    many = DataDomain((Block(20, "linf", 0.5),), 1.0)  # with few columns pure noise is as small
    pure, both = (planned(many, n=10**5, epsilon=1.0, delta=delta) for delta in (0.0, 1e-6))
    assert both.expected_deviation < pure.expected_deviation
    assert both.l2 == pytest.approx(2 * both.then.problem.tau(1.0))  # the floor itself
    asked = planned(NUMBERS, delta=1e-6, noise="grouped")
    assert sum(release.event.pure_epsilon for release in asked.releases) <= 2
    assert planned(NUMBERS, delta=1e-6, noise="gaussian").then.noise_name == "gaussian"
    assert both.at(PrivacyParams(0.5, 1e-7)).privacy.delta == 1e-7
    with pytest.raises(InvalidParameterError, match="too small for this epsilon"):
        planned(NUMBERS, delta=1e-6, l2=1e-9)


class Anything:
    """A ledger that lets everything pass."""

    def record(self, release: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(0.5, prediction_bound=0.5), PseudoHuberLoss(0.2, 0.5)])
def test_costs_add_up_and_the_plan_is_made_again_with_what_was_released(loss: Any) -> None:
    plan = planned(loss=loss, robust=loss.name != "logistic")
    result = plan.run(*data(MIXED), SeededSource(0))
    first, second = (sum(r.event.pure_epsilon for r in part) for part in (plan.then.releases, plan.releases[2:]))
    assert len(plan.releases) == 3
    assert first + second <= 2
    assert math.isclose(float(second), 2 * plan.share)
    assert result.certificate.spent_epsilon <= 2
    again = recipes.again(result.certificate.planner)
    assert again.noisy == result.plan.noisy
    assert again.certificate(SeededSource(0)).to_dict()["public"] == result.certificate.to_dict()["public"]
    for wrong in ((plan.noisy,), (result.plan.noisy[1:],), ((math.nan, *result.plan.noisy[1:]),)):
        with pytest.raises(InvalidParameterError, match="finite numbers"):
            plan.resumed(*wrong)


def test_the_ridge_is_half_the_floor_and_the_share_is_chosen_for_the_size() -> None:
    few, many = planned(NUMBERS, n=5000, epsilon=1.0), planned(NUMBERS, n=10**7, epsilon=3.0)
    assert few.share > many.share
    assert many.l2 == pytest.approx(many.then.problem.tau(1.0) / many.then.privacy.epsilon)
    assert planned(NUMBERS, l2=0.01).l2 == 0.01
    assert many.at(PrivacyParams(0.1)).privacy.epsilon == 0.1


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("noise", {"noise": "gaussian"}),
        ("unit", {"privacy": PrivacyParams(1.0, unit=Unit.USER)}),
        ("features", {"domain": DataDomain.l2_ball(3, 1.0).with_intercept()}),
        ("features", {"domain": DataDomain((Block(3, "l1", 0.5),), 1.0)}),
        ("problem", {"domain": DataDomain.box(3, 1.0)}),
        ("problem", {"domain": DataDomain.box(50, 1.0).with_intercept()}),
        ("problem", {"loss": SoftmaxLoss(3)}),
        ("problem", {"loss": HingeLoss()}),
    ],
)
def test_what_is_not_proved_is_refused(name: str, change: dict[str, Any]) -> None:
    problem = LinearModelProblem(LogisticLoss(), NUMBERS, 2000, 2.0)
    problem = replace(problem, **{key: change[key] for key in ("domain", "loss") if key in change})
    with pytest.raises(InvalidParameterError) as refused:
        curvature.plan(problem, change.get("privacy", PrivacyParams(1.0)), noise=change.get("noise", "auto"))
    assert refused.value.name == name


def test_rare_classes_are_expected_to_have_wider_intervals() -> None:
    """Curvature is p (1 - p) there; told rates made no difference, and rows that came out infinite were promised."""
    halves = [
        curvature.plan(LinearModelProblem(LogisticLoss(rate=rate), MIXED, 60_000, 1.0), PrivacyParams(1.0))
        for rate in (None, 0.5, 0.05)
    ]
    widths = [plan.expected_intervals[0] for plan in halves]
    assert widths[0] == pytest.approx(widths[1], rel=0.1)
    assert widths[2] > 1.5 * widths[1] or halves[2].expected_intervals[1] < halves[1].expected_intervals[1]
