"""A constant answer: parameters, what it reads, when it is taken, refusals, content."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpconvex import PrivateLinearRegression, PrivateLogisticRegression, PrivateQuantileRegressor, verify
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.two_stage import constant
from dpconvex.algorithms.erm.two_stage.constant import CLASSES, REMAINS, ClassSharesPlan, ConstantPlan
from dpconvex.algorithms.erm.two_stage.ranges import counted
from dpconvex.errors import HopelessPlanWarning, InvalidParameterError
from dpconvex.losses import HuberLoss, LogisticLoss, SoftmaxLoss
from dpconvex.mechanisms import JointHistogram
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource, SystemSource

MIXED = DataDomain((Block(2, "linf", 0.5), Block(3, "l1", 1.0)), 0.5)


def problem(loss: Any = None, n: int = 400, domain: DataDomain = MIXED, **more: Any) -> LinearModelProblem:
    return LinearModelProblem(loss or LogisticLoss(), domain, n, 5.0, **more)


def planned(task: LinearModelProblem, epsilon: float = 1.0, delta: float = 0.0) -> ConstantPlan:
    plan = plans(task, PrivacyParams(epsilon, delta), "constant")[0]
    assert isinstance(plan, ConstantPlan)
    return plan


def table(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 5)), np.where(rng.random(n) < 0.25, 1.0, -1.0)


def test_without_noise_it_is_the_best_constant() -> None:
    X, y = table()
    point = planned(problem(), 1e6).run(X, y, SeededSource(0)).point
    share = (y > 0).mean()
    assert point[:-1].tolist() == [0.0] * 5
    assert point[-1] * MIXED.intercept == pytest.approx(np.log(share / (1 - share)), abs=0.02)


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.5, 1.0), SoftmaxLoss(3)], ids=lambda loss: loss.name)
def test_it_reads_targets_and_nothing_else(loss: Any) -> None:
    X, y = table()
    y = np.arange(len(y)) % 3 if loss.n_outputs == 3 else y
    plan = planned(problem(loss))
    first, second = (plan.run(which, y, SeededSource(3)).point for which in (X, np.full_like(X, np.nan)))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, plan.run(X, np.roll(y, 1) * 0, SeededSource(3)).point)


def test_the_promise_is_that_of_the_method_and_is_verified() -> None:
    X, y = table()
    for delta in (0.0, 1e-6):
        result = planned(problem(), 0.5, delta).run(X, y, SystemSource())
        stated = result.certificate
        assert (stated.spent_epsilon, stated.spent_delta) <= (0.5, delta)
        assert verify(stated).passed
        assert not verify(replace(stated, spent_epsilon=0.49)).passed
        assert stated.releases == result.plan.releases
    assert json.dumps(dict(planned(problem()).describe()), allow_nan=False)


def test_its_error_is_that_of_constants_and_what_columns_would_give() -> None:
    plan = planned(problem())
    error, within, typical = plan.predicted_error, plan.then.predicted_error, plan.problem.typical
    assert typical is not None
    assert within.expected is not None
    share = REMAINS["classification"] * min(error.trivial, typical.at_zero)
    assert error.expected == pytest.approx(within.expected + share)
    assert error.bound == pytest.approx(within.bound + plan.problem.trivial)
    assert error.proved
    assert not planned(problem(HuberLoss(0.5, np.inf))).predicted_error.proved  # nothing is known of zero
    assert plan.coefficient_deviation is not None
    assert plan.coefficient_deviation[:-1].tolist() == [0.0] * 5
    assert plan.then.problem.radius < plan.problem.radius
    assert plan.at(PrivacyParams(2.0)).privacy.epsilon == 2.0


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=["two classes", "three classes"])
def test_of_classes_it_is_a_histogram_whose_density_no_neighbor_moves_beyond_epsilon(loss: Any) -> None:
    """All data sets of four records, and of three users with one or two: the norm of what moves is the scale's."""
    plan = planned(problem(loss, n=4), 0.7)
    assert isinstance(plan.then, ClassSharesPlan)
    assert [release.label for release in plan.releases] == [CLASSES]
    mechanism, k = plan.then.histogram, len(loss.classes)
    seen: list[np.ndarray] = []
    release = lambda counts, *_: seen.append(counts) or counts  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JointHistogram, "release", lambda self, *given: release(*given))
        for classes in product(loss.classes, repeat=4):
            plan.then.run(np.ones((4, 1)), np.array(classes), SeededSource(0))
        tables = dict(zip(product(range(k), repeat=4), seen, strict=True))
        moved = [
            float(mechanism.norm(tables[a] - tables[b]))
            for a in tables for b in tables if sum(x != y for x, y in zip(a, b, strict=True)) == 1
        ]  # fmt: skip
    assert max(moved) == pytest.approx(mechanism.sensitivity.value)
    assert mechanism.scale >= mechanism.sensitivity.value / 0.7
    users = replace(plan.then.problem, n=3, records_per_user=2)
    users_plan = constant.plan_shares(users, PrivacyParams(0.7, unit=Unit.USER))
    groups = UserGroups.of(np.array([0, 0, 1, 2, 2, 2]))
    counts = counted(np.ones((6, 1)), np.array([0, 1, 1, 0, 0, 1]), groups, lambda _, y: y[None].astype(int), k)
    assert counts.sum() == 3
    assert users_plan.histogram.unit == Unit.USER


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_the_bound_of_a_constant_of_classes_holds(classes: int) -> None:
    loss = LogisticLoss() if classes == 2 else SoftmaxLoss(classes)
    rng = np.random.default_rng(0)
    for n, epsilon in ((50, 0.3), (400, 1.0)):
        plan = planned(problem(loss, n=n), epsilon).then
        assert isinstance(plan, ClassSharesPlan)
        for shares in (np.full(classes, 1 / classes), np.eye(classes)[0], rng.dirichlet(np.ones(classes))):
            noise = plan.histogram.simulate(500, rng)
            released = plan._shares(n * shares + noise - noise.mean(1, keepdims=True))
            excess = np.sum(shares * np.log(np.maximum(shares, 1e-300) / released), 1).mean()
            assert 0 <= excess <= plan.predicted_error.bound


def test_auto_takes_it_where_columns_are_hopeless_and_says_so() -> None:
    X, y = np.random.default_rng(0).normal(size=(1000, 1000)), np.arange(1000) % 2
    few = PrivateLogisticRegression(0.1, feature_bounds=(-3, 3), classes=[0, 1])
    with pytest.warns(HopelessPlanWarning, match="no column is used"):
        few.fit(X, y)
    assert few.plan_.algorithm == "constant"
    assert not few.coef_.any()
    numbers = PrivateLinearRegression(0.05, feature_bounds=(-3, 3), target_bounds=(0, 1))
    assert numbers.plan(1000, 40)[0].algorithm == "constant"
    many = PrivateLogisticRegression(1.0, feature_bounds=(-3, 3), classes=[0, 1]).plan(100_000, 40)
    assert many[0].algorithm != "constant"
    assert "constant" in {plan.algorithm for plan in many}


def test_auto_takes_it_of_several_classes_where_few_records_hide_what_columns_tell() -> None:
    """Nearly all such fits of tables lose more than a constant (docs, What was tried); iris at 1 is told apart."""
    model = PrivateLogisticRegression(0.1, feature_bounds=(-3, 3), classes=[0, 1, 2])
    assert model.plan(1000, 12)[0].algorithm == "constant"
    assert model.plan(6000, 12)[0].algorithm != "constant"
    iris = PrivateLogisticRegression(1.0, feature_bounds=(0, 8), classes=[0, 1, 2])
    assert iris.plan(150, 4)[0].algorithm != "constant"


def test_users_have_it_too_where_no_bound_says_anything() -> None:
    """Without it 260 users and 108 parameters got a plan that expected fourteen times the trivial loss."""
    rng = np.random.default_rng(0)
    y, groups = rng.integers(0, 2, 900), rng.integers(0, 100, 900)
    groups[:100] = np.arange(100)
    given: dict[str, Any] = {"feature_bounds": (-3, 3), "classes": [0, 1], "random_state": 0}
    seen = []
    for X in (rng.normal(size=(900, 40)), np.full((900, 40), 2.0)):
        model = PrivateLogisticRegression(0.1, **given)
        with pytest.warns(HopelessPlanWarning):
            model.fit(X, y, groups=groups)
        seen.append((model.plan_.algorithm, model.intercept_.tolist(), model.coef_.any()))
    assert seen[0] == seen[1]
    assert (seen[0][0], seen[0][2]) == ("constant", False)
    assert PrivateLogisticRegression(1.0, **given).plan(100_000, 40, unit=Unit.USER)[0].algorithm != "constant"
    exact = PrivateLogisticRegression(1e6, algorithm="constant", **given)
    with pytest.warns(HopelessPlanWarning):
        exact.fit(X, y, groups=groups)
    share = np.mean([y[groups == user].mean() for user in range(100)])  # of users, whatever number of records each has
    assert exact.intercept_[0] == pytest.approx(np.log(share / (1 - share)), abs=0.02)


@pytest.mark.parametrize("content", [np.nan, np.inf, -1e300, 0.0])
def test_content_never_speaks(content: float) -> None:
    X, y = np.full((400, 5), content), np.full(400, content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = planned(problem(HuberLoss(0.5, 1.0))).run(X, y, SystemSource())
    assert np.isfinite(result.point).all()


def test_what_it_does_not_take_is_refused_by_name() -> None:
    for model in (
        PrivateLogisticRegression(1.0, feature_bounds=(0, 1), algorithm="constant", fit_intercept=False),
        PrivateLogisticRegression(1.0, feature_bounds=(0, 1), algorithm="constant", tilt=1.0),
    ):
        with pytest.raises(InvalidParameterError, match=r"intercept|tilt"):
            model.plan(100, 3)


def test_numbers_have_about_their_mean_and_quantiles() -> None:
    """Residuals are cut, as in any fit of numbers: of skewed ones the mean moves a little to the bulk."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(5000, 3)), rng.beta(5, 2, 5000)
    given: dict[str, Any] = {"feature_bounds": (-3, 3), "target_bounds": (0, 1), "algorithm": "constant"}
    mean = PrivateLinearRegression(20.0, random_state=0, **given)
    high = PrivateQuantileRegressor(20.0, quantile=0.9, random_state=0, **given)
    for model in (mean, high):
        with pytest.warns(HopelessPlanWarning):
            model.fit(X, y)
    assert mean.intercept_ == pytest.approx(y.mean(), abs=0.03)
    assert high.intercept_ == pytest.approx(np.quantile(y, 0.9), abs=0.05)
