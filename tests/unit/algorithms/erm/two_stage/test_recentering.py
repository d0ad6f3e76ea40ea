"""Private center and length of numeric columns before an ordinary method: parameters, releases, refusals, content."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpconvex import PrivateLinearRegression, PrivateLogisticRegression, verify
from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.two_stage import recentering
from dpconvex.algorithms.erm.two_stage.recentering import PARTS, UNITS, RecenteredPlan, centered, within
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import HuberLoss, LogisticLoss, SoftmaxLoss
from dpconvex.mechanisms import NormNoiseMechanism
from dpconvex.privacy import PrivacyCertificate, PrivacyParams, Unit
from dpconvex.privacy.certificate import COURSE
from dpconvex.privacy.ledger import fits
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource, SystemSource

MIXED = DataDomain((Block(2, "linf", 0.5), Block(3, "l1", 1.0), Block(1, "linf", 4.0)), 1.0)


def problem(loss=None, n: int = 4000, domain: DataDomain = MIXED, **more) -> LinearModelProblem:
    return LinearModelProblem(loss or LogisticLoss(), domain, n, 5.0, **more)


def planned(task: LinearModelProblem, epsilon: float = 1.0, delta: float = 0.0) -> RecenteredPlan:
    (plan,) = plans(task, PrivacyParams(epsilon, delta), "recentering")
    assert isinstance(plan, RecenteredPlan)
    return plan


def concentrated(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Records of `MIXED` near a point of it, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    numeric = np.column_stack([rng.normal(0.3, 0.05, n), rng.normal(-0.4, 0.02, n), rng.normal(3, 0.3, n)])
    levels = np.eye(3)[rng.integers(0, 3, n)]
    z = 20 * (numeric[:, 0] - 0.3) - 2 * (numeric[:, 2] - 3) + levels[:, 0] - 0.5
    y = np.where(z > rng.logistic(size=n), 1.0, -1.0)
    return np.column_stack([numeric[:, :2], levels, numeric[:, 2]]), y


def test_columns_of_two_values_are_expected_to_stay_long() -> None:
    """They lie at the ends of their ranges: moving them shortens no record, and recentering expects little of it."""
    numbers, binary = (DataDomain((Block(8, "linf", 0.5, "x", values),), 1.0) for values in ("any", "binary"))
    short, long = (planned(problem(domain=domain)) for domain in (numbers, binary))
    assert short.length < 0.6 * math.sqrt(2) < 0.9 * math.sqrt(2) < long.length
    expected = [plans(problem(domain=binary), PrivacyParams(1.0), "auto")[0].algorithm]
    assert expected == ["objective_perturbation"]


@pytest.mark.thin
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.5, 1.0), SoftmaxLoss(3)], ids=lambda loss: loss.name)
def test_without_noise_it_finds_the_parameters_of_the_columns_as_they_were(loss) -> None:
    """Epsilon 1e6, and a length that shortens no one: the minimizer of the recentered problem, put back."""
    n = 500
    X, y = concentrated(n)
    y = np.arange(n) % 3 if loss.n_outputs == 3 else y
    task = problem(loss, n)
    plan = planned(task, 1e6)
    result = plan.run(X, y, SeededSource(1))
    ran = result.plan
    assert isinstance(ran, RecenteredPlan)
    assert ran.center is not None
    assert np.abs(X[:, [0, 1, 5]].mean(axis=0) - ran.center).max() < 1e-4
    moved = np.column_stack([X[:, [0, 1, 5]] - ran.center, X[:, 2:5]])
    inner = ran.then.problem
    w = result.point.reshape(loss.n_outputs, MIXED.dim)
    weights = np.column_stack([w[:, [0, 1, 5]], w[:, 2:5], w[:, -1] + w[:, [0, 1, 5]] @ ran.center])
    weights[:, -1] /= inner.domain.intercept
    if inner.factor is not None:  # objectives are functions of the coordinates that the ridge is on
        weights /= inner.factor.matrix.diagonal()
    gradient = inner.objective(moved, y, ran.then.l2).gradient(weights.ravel())
    assert np.linalg.norm(gradient) < 1e-3
    assert inner.domain.clip(moved) == pytest.approx(moved, abs=0.7)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), where=st.integers(0, 59))
def test_the_released_mean_moves_by_two_over_n_at_most(seed: int, n: int, where: int) -> None:
    """Computed as the run computes it, extreme records included."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1e300, -0.5, -0.1, 0.0, 0.2, 0.5, 7.0, np.nan, np.inf], (n, 6))
    other = X.copy()
    other[where % n] = rng.choice([-np.inf, -0.5, 0.5, 1e9], 6)
    seen = []
    plan = planned(problem(n=5000))
    plan = replace(plan, problem=replace(plan.problem, n=n))

    class Stop(Exception):
        pass

    def release(self, value, *rest, **named):
        seen.append(np.array(value))
        raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NormNoiseMechanism, "release", release)
        for data in (X, other):
            with pytest.raises(Stop), np.errstate(all="ignore"):
                plan._run(data, np.ones(n), None, SeededSource(0))
    moved = float(np.abs(seen[0] - seen[1]).max())
    assert moved <= 2 / n + 2.0**-50
    assert np.abs(seen).max() <= 1


def users(n: int) -> RecenteredPlan:
    """A plan for so many users, whatever the promise would need."""
    (plan,) = plans(problem(n=5000, records_per_user=3), PrivacyParams(1.0, 1e-6, unit=Unit.USER), "recentering")
    assert isinstance(plan, RecenteredPlan)
    return replace(plan, problem=replace(plan.problem, n=n))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), sizes=st.lists(st.integers(1, 40), min_size=2, max_size=2))
def test_a_replaced_user_moves_mean_and_shares_as_one_record_would(seed: int, n: int, sizes: list[int]) -> None:
    """Users of any numbers of records, extreme ones included; the replaced one has another number, and extreme ones."""
    rng = np.random.default_rng(seed)
    rest = rng.integers(1, 30, n - 1)
    shared = rng.choice([-1e300, -0.5, -0.1, 0.0, 0.2, 0.5, 7.0, np.nan, np.inf], (int(rest.sum()), 6))
    plan = users(n)
    center = rng.uniform(-1, 1, 3) * plan.half_widths
    found = []
    for size, value in zip(sizes, rng.choice([-np.inf, -0.5, 0.5, 1e9], (2, 6)), strict=True):
        X = np.vstack([shared, np.tile(value, (size, 1))])
        labels = np.append(np.repeat(np.arange(n - 1), rest), [n - 1] * size)
        mixed = rng.permutation(len(X))  # records of users anywhere
        groups = UserGroups.of(labels[mixed])
        with np.errstate(all="ignore"):
            counts = within(np.linalg.norm(plan._moved(X[mixed], center)[:, :3], axis=1), plan.lengths, groups)
            found.append((plan._units(X[mixed], groups), counts))
    (first, counts), (second, others) = found
    assert np.abs(first - second).max() <= 2 * UNITS
    assert max(np.abs(first).max(), np.abs(second).max()) <= n * UNITS
    assert np.abs(counts - others).max() <= PARTS
    assert 0 <= counts.min() <= counts.max() <= n * PARTS


def test_users_attain_the_sensitivity_of_the_mean() -> None:
    plan, groups = users(2), UserGroups.of(np.array([0, 1, 1, 1]))
    ends = [plan._units(np.vstack([np.zeros((1, 6)), np.full((3, 6), sign * 9.0)]), groups) for sign in (1, -1)]
    assert (ends[0] - ends[1] == 2 * UNITS).all()


def test_users_of_one_record_are_records() -> None:
    X = concentrated(50)[0]
    plan, groups = users(50), UserGroups.of(np.arange(50))
    np.testing.assert_array_equal(plan._units(X, groups), plan._units(X, None))
    lengths = np.linalg.norm(plan._moved(X, np.zeros(3))[:, :3], axis=1)
    np.testing.assert_array_equal(within(lengths, plan.lengths, groups), within(lengths, plan.lengths, None))


def test_users_all_count_the_same() -> None:
    """One with a thousand records far away does not move the center more than another."""
    X = np.zeros((1049, 6))
    X[49:] = 9.0
    plan, groups = users(50), UserGroups.of(np.append(np.arange(49), np.full(1000, 49)))
    np.testing.assert_allclose(plan._units(X, groups) / UNITS / 50, 1 / 50)
    counts = within(np.linalg.norm(plan._moved(X, np.zeros(3))[:, :3], axis=1), plan.lengths, groups) / PARTS
    assert counts[0] == 50
    assert counts[-1] == 49


@pytest.mark.thin
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_users_are_recentered_and_verified(delta: float) -> None:
    n = 1500
    X, y = concentrated(3 * n)
    task = problem(n=n, records_per_user=3)
    (plan,) = plans(task, PrivacyParams(2.0, delta, unit=Unit.USER), "recentering")
    assert isinstance(plan, RecenteredPlan)
    assert {each.sensitivity.unit for each in plan.releases} == {Unit.USER}
    for length in plan.lengths[::9]:
        assert plan.informed(np.zeros(3), float(length)).then.problem.grouped
    result = plan.run(X, y, SystemSource(), UserGroups.of(np.arange(3 * n) % n))
    ran: Any = result.plan
    assert verify(result.certificate).passed
    assert ran.length < 0.5 * np.linalg.norm(ran.half_widths)
    assert np.abs(X[:, [0, 1, 5]].mean(axis=0) - ran.center).max() < 0.5


def test_the_sensitivity_is_attained() -> None:
    plan = planned(problem(n=4000))
    assert plan.first.sensitivity.value >= 2 / 4000
    assert plan.first.norm(np.ones(3)) == pytest.approx(1)  # the maximum norm
    assert plan.second.sensitivity.value == 1


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_it_spends_what_it_promises_and_can_be_verified(delta: float) -> None:
    task = problem()
    X, y = concentrated(task.n)
    result = planned(task, 1.0, delta).run(X, y, SystemSource())
    read = PrivacyCertificate.from_json(result.certificate.to_json())
    assert verify(read).passed
    assert 0.999 < read.spent_epsilon <= 1
    assert len(read.releases) >= 3
    assert read.public["recentered"]["length"] == result.plan.length  # pyright: ignore[reportAttributeAccessIssue]


def test_it_wins_where_columns_are_concentrated_in_wide_ranges() -> None:
    """A tenth of the noise: seeds fixed."""
    n, d = 20_000, 12
    rng = np.random.default_rng(0)
    X = rng.normal(0.4, 0.05, (n, d))
    y = ((X - 0.4) @ rng.normal(size=d) * 30 > rng.logistic(size=n)).astype(int)

    def log_loss(algorithm: str) -> float:
        model = PrivateLogisticRegression(
            1.0, feature_bounds=(-1, 1), algorithm=algorithm, random_state=1, classes=[0, 1]
        ).fit(X, y)
        return -float(model.predict_log_proba(X)[np.arange(n), y].mean())

    assert log_loss("recentering") < log_loss("objective_perturbation") - 0.03


def test_regression_is_recentered_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(8, 0.3, (5000, 4))
    y = 20 + (X - 8) @ [6.0, -3.0, 2.0, 1.0] + rng.normal(size=5000)
    model = PrivateLinearRegression(
        1.0, feature_bounds=(0, 10), target_bounds=(0, 40), algorithm="recentering", random_state=0
    ).fit(X, y)
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (problem(domain=DataDomain((Block(3, "l1", 1.0),), 1.0)), "there are too few such columns"),
        (problem(domain=DataDomain.box(3, 1.0)), "there is no constant feature"),
        (problem(n=100), "n * epsilon is 100"),
        (problem(n=100, records_per_user=3), "n * epsilon is 100"),
    ],
    ids=["no numeric column", "no constant", "few records", "few users"],
)
def test_it_is_not_offered_where_it_does_not_apply(task: LinearModelProblem, words: str) -> None:
    privacy = PrivacyParams(1.0, unit="user" if task.grouped else "record")
    assert all(plan.algorithm != "recentering" for plan in plans(task, privacy))
    with pytest.raises(InvalidParameterError, match=re.escape(f"of 1000 at least; here {words}. Use")):
        plans(task, privacy, "recentering")


@pytest.mark.parametrize("content", [np.nan, np.inf, -1e300, 0.0, 5e-324])
def test_content_never_speaks(content: float) -> None:
    task = problem(n=1200)
    result = planned(task).run(np.full((1200, 6), content), np.full(1200, content), SystemSource())
    assert np.isfinite(result.point).all()
    assert verify(result.certificate).passed


def test_the_public_list_covers_every_record_and_center() -> None:
    plan = planned(problem())
    corners = np.abs(plan.half_widths) * 2  # of the farthest record from the farthest center
    assert plan.lengths[0] >= np.linalg.norm(corners)
    assert all(a > b > 0 for a, b in pairwise(plan.lengths))
    assert json.dumps(dict(plan.describe()), allow_nan=False)


def test_the_recentered_domain_holds_the_numeric_columns_first() -> None:
    assert MIXED.columns_in("linf").tolist() == [0, 1, 5]
    few = centered(problem(), 0.3).domain
    assert [(b.size, b.norm, b.bound) for b in few.blocks] == [(3, "linf", 0.3), (3, "l1", 1.0)]
    many = centered(problem(domain=DataDomain.box(20, 1.0).with_intercept(1.0)), 0.3).domain
    assert [(b.size, b.norm, b.bound) for b in many.blocks] == [(20, "l2", 0.3)]
    assert many.intercept == 0.3


def test_the_plan_of_another_promise_has_seen_no_data() -> None:
    task = problem(n=4000)
    X, y = concentrated(task.n)
    ran = planned(task).run(X, y, SeededSource(0)).plan
    assert isinstance(ran, RecenteredPlan)
    again = ran.at(PrivacyParams(2.0))
    assert isinstance(again, RecenteredPlan)
    assert again.center is None
    assert recentering.plan(task, PrivacyParams(2.0), ran.planner)[0].length == again.length


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.dear("1e-06")
def test_the_certificate_states_the_promise_whatever_length_was_released(delta: float, full: bool) -> None:
    """One length is followed by pure noise, another by Gaussian noise: the former's cost is not that of the plan."""
    model = PrivateLogisticRegression(1.0, delta, feature_bounds=(0, 100), algorithm="recentering")
    radius = model.plan(30_000, 34)[0].problem.radius  # stated, it is not expected to be longer for many records
    plan = model.set_params(coefficient_norm=radius).plan(30_000, 34)[0]
    assert isinstance(plan, RecenteredPlan)
    kinds = set()
    for length in plan.lengths[:: 5 if full else 10]:
        course = plan.informed(np.zeros(34), float(length))
        stated = course.certificate(SystemSource())
        assert (stated.spent_epsilon, stated.spent_delta) == (1.0, delta)
        assert verify(stated).passed
        kinds.add(stated.public[COURSE]["delta"])
        forged = replace(stated, spent_epsilon=0.9)
        assert not verify(forged).passed
        assert not verify(replace(stated, public={**stated.public, COURSE: {"epsilon": 0.9, "delta": 0.0}})).passed
        left_out = {name: value for name, value in stated.public.items() if name != COURSE}
        assert not verify(replace(stated, public=left_out)).passed
    assert not any(COURSE in name for name in verify(stated).unconfirmed)
    assert kinds == {0.0, delta}


def test_a_profile_that_just_meets_delta_still_does_beside_what_was_released() -> None:
    """At these lengths rounding made it larger by a last place, and a run ended in an exception once it was paid."""
    model = PrivateLogisticRegression(1.0, 1e-6, feature_bounds=(0, 100), algorithm="recentering")
    plan = model.plan(12_000, 40)[0]
    assert isinstance(plan, RecenteredPlan)
    for k in (20, 32, 35, 36):
        course = plan.informed(np.zeros(40), float(plan.lengths[k]))
        assert fits(course.releases, plan.privacy)
    assert plan.then.privacy.epsilon == pytest.approx(0.88, rel=1e-11)


def test_what_a_planner_refuses_at_the_shortest_length_is_refused_before_any_data() -> None:
    """A run plans again for the released length: a refusal there would be an exception that depends on the data."""
    task, privacy = problem(n=20_000), PrivacyParams(1.0)
    asked = []

    def planner(task: LinearModelProblem, privacy: PrivacyParams):
        asked.append(task.domain.blocks[0].bound)
        if len(asked) > 1 and asked[-1] < min(asked[:-1]):
            raise InvalidParameterError("n", task.n, "is too few for so short records")
        return objective_perturbation.plan(task, privacy)

    with pytest.raises(InvalidParameterError, match="so short"):
        recentering.plan(task, privacy, planner)
    assert min(asked) == pytest.approx(recentering.plan(task, privacy, objective_perturbation.plan)[0].lengths[-1])
