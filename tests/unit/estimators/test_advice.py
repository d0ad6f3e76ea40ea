"""The adviser: ranges that invert what plans expect, from public facts; goals that are never reached; bad goals."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import pytest

from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    adult_schema,
    required_epsilon,
    required_rows,
)
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import advice

MODEL = PrivateLogisticRegression(feature_norm=1.0)
FINE, ALL_ROWS = advice.EPSILONS, advice.ROWS


@pytest.fixture(autouse=True, scope="module")
def planned_once() -> Iterator[None]:
    """Most tests ask for the same curve: equal questions are planned once, at every third point of a grid."""
    made: dict[Any, Any] = {}
    plan = PrivateLogisticRegression.plan

    def once(self: PrivateLogisticRegression, *sizes: Any, **more: Any) -> Any:
        question = repr((self.get_params(), sizes, more))
        if question not in made:
            made[question] = plan(self, *sizes, **more)
        return made[question]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateLogisticRegression, "plan", once)
        patch.setattr(advice, "EPSILONS", advice.EPSILONS[::3])
        patch.setattr(advice, "ROWS", advice.ROWS[::3])
        yield


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.dear("1e-06")
def test_the_range_is_where_the_forecast_meets_the_goal(delta) -> None:
    """What plans expect there, times the factors seen on public tables, is the goal (to the grid's straight lines)."""
    model = PrivateLogisticRegression(feature_norm=1.0, delta=delta)
    found = required_epsilon(model, 20_000, 10, goal=0.003)
    assert 0 < found.low < found.typical < found.high < math.inf
    for value, factor in zip((found.low, found.typical, found.high), advice.MEASURED, strict=True):
        plan = model.set_params(epsilon=value).plan(20_000, 10)[0]
        assert plan.predicted_error.expected * factor == pytest.approx(0.003, rel=0.1)


@pytest.mark.gate
def test_more_is_needed_for_less_loss_and_for_fewer_records() -> None:
    easy, hard = (required_epsilon(MODEL, 20_000, 10, goal=goal) for goal in (0.01, 0.001))
    assert easy.typical < hard.typical
    few = required_epsilon(MODEL, 2_000, 10, goal=0.01)
    assert easy.typical < few.typical
    assert "guess" in str(few)
    assert "epsilon" in few._repr_html_()


@pytest.mark.gate
def test_rows_and_epsilon_agree(monkeypatch) -> None:
    monkeypatch.setattr(advice, "EPSILONS", FINE)
    monkeypatch.setattr(advice, "ROWS", ALL_ROWS)
    rows = required_rows(PrivateLogisticRegression(epsilon=1.0, feature_norm=1.0), 10, goal=0.003)
    assert rows.low < rows.typical < rows.high
    back = required_epsilon(MODEL, round(rows.typical), 10, goal=0.003)
    assert back.typical == pytest.approx(1.0, rel=0.15)


def test_shares_are_of_what_a_constant_loses() -> None:
    share, loss = (required_epsilon(MODEL, 20_000, 10, goal=goal) for goal in ("5%", 0.05))
    there = next(each.constant for each in share.curve if each.at >= share.typical)
    assert share.goal == pytest.approx(0.05 * there)
    as_number = required_epsilon(MODEL, 20_000, 10, goal=share.goal)
    assert 0.5 < as_number.typical / share.typical < 2  # what a constant loses jumps where plans change
    assert loss.goal == 0.05


@pytest.mark.gate
def test_shares_are_of_what_a_constant_loses_by_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 300 and 1,000 records times epsilon a column on, columns are expected to tell more."""
    monkeypatch.setattr(advice, "EPSILONS", FINE)
    model = PrivateLogisticRegression(feature_norm=1.0, classes=[0, 1])
    for goal, share in (("10%", 0.1), ("50%", 0.5)):
        typical = required_epsilon(model, 1100, 10, goal=goal).typical
        plan = PrivateLogisticRegression(1.3 * typical, feature_norm=1.0, classes=[0, 1]).plan(1100, 10)[0]
        assert plan.predicted_error.rank * advice.MEASURED[1] <= 1.1 * share * plan.yardstick


def test_a_goal_that_a_constant_meets_is_called_so() -> None:
    """Ten percent of the trivial loss are more than all columns of a skewed target explain."""
    model = PrivateLinearRegression(feature_bounds=(-1, 1), target_bounds=(0, 1))
    assert "(there a constant meets it" in str(required_epsilon(model, 1000, 20, goal=0.0125))
    assert "constant" not in str(required_epsilon(model, 1000, 20, goal=1e-4))


@pytest.mark.gate
def test_goals_out_of_reach_are_called_so() -> None:
    never = required_epsilon(MODEL, 100, 10, goal=1e-9)
    assert never.low == never.high == math.inf
    assert "above 31.6" in str(never)
    always = required_epsilon(MODEL, 20_000, 10, goal="100%")
    assert always.low == advice.EPSILONS[0]
    assert "or less" in str(always)


@pytest.mark.gate
@pytest.mark.parametrize(
    "model", [PrivateLinearRegression, pytest.param(PrivateAdditiveClassifier, marks=pytest.mark.slow)]
)
def test_every_linear_model_can_be_asked(model) -> None:
    schema = adult_schema()
    if model is PrivateLinearRegression:
        estimator, features = model(feature_norm=1.0, target_bounds=(0, 1)), 5
    else:
        estimator, features = model(schema=schema), None
    assert required_epsilon(estimator, 45_222, features, goal="50%").typical < math.inf


@pytest.mark.parametrize("goal", [0, -1.0, math.nan, "ten", "-5%", "%"])
def test_bad_goals_are_refused(goal) -> None:
    with pytest.raises(InvalidParameterError, match="goal"):
        required_epsilon(MODEL, 1000, 5, goal=goal)
    with pytest.raises(InvalidParameterError, match="goal"):
        required_rows(MODEL, 5, goal=goal)


def test_no_data_can_be_handed_over() -> None:
    for function in (required_epsilon, required_rows):
        assert not {"X", "y", "data", "frame"} & set(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    "goal", ["auc=-0.005", "accuracy=.01", "excess=.01", "evaluate:auc=0.03", "evaluate:rate=0.03"]
)
@pytest.mark.dear("auc=-0.005", "accuracy")
def test_goals_may_be_of_other_things_than_the_loss(goal: str) -> None:
    found = required_epsilon(MODEL, 20_000, 10, goal=goal)
    assert found.measure == goal.partition("=")[0]
    assert found.low < found.typical < found.high < math.inf
    assert found.limits in str(found)
    rows = required_rows(PrivateLogisticRegression(epsilon=1.0, feature_norm=1.0), 10, goal=goal)
    assert rows.low < rows.typical <= rows.high


def test_a_loss_of_auc_follows_the_excess_and_evaluations_the_number_of_records() -> None:
    loss = required_epsilon(MODEL, 20_000, 10, goal=0.01)
    assert required_epsilon(MODEL, 20_000, 10, goal="auc=0.007").typical == pytest.approx(loss.typical)
    half = advice.forecast(MODEL.plan(50_000, 10), 1.0, "evaluate:auc")  # of 10,000 held out
    assert half.low == pytest.approx(1.96 * 1.5 * math.sqrt(48) / 1e4)
    assert half.high < half.low + 1.96 * 0.5 / 100


def test_rare_classes_rank_as_badly_by_a_constant_as_even_ones() -> None:
    """Their log-loss has less to lose, by the curvature at their rates; an area under the curve has not."""
    even, rare = (
        PrivateLogisticRegression(feature_norm=1.0, classes=[0, 1], rates=rates).plan(20_000, 10)
        for rates in ([0.5, 0.5], [0.98, 0.02])
    )
    lost = [advice.forecast(plans, 1.0, "auc").constant for plans in (even, rare)]
    assert 0.5 * lost[0] < lost[1] < 2 * lost[0]
    assert advice.forecast(rare, 1.0, "excess").constant < 0.3 * advice.forecast(even, 1.0, "excess").constant
    wide = [advice.forecast(plans, 1.0, "evaluate:auc").high for plans in (even, rare)]
    assert wide[1] > 4 * wide[0]


@pytest.mark.gate
def test_half_widths_are_planned_where_intervals_are_paid_for() -> None:
    model = PrivateLogisticRegression(feature_bounds=([0] * 3, [1] * 3), inference=True)
    found = required_epsilon(model, 50_000, 3, goal="halfwidth=0.3")
    assert 0 < found.low < found.typical < found.high  # no interval of the value before is finite
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advice, "EPSILONS", FINE[6:16])
        found = required_epsilon(model, 50_000, 3, goal="halfwidth=0.3")
    assert found.low < found.typical < found.high
    plan = model.set_params(epsilon=found.typical).plan(50_000, 3)[0]
    assert plan.expected_intervals[0] == pytest.approx(0.3, rel=0.1)
    assert "intervals +-0." in plan.note
    assert "no finite interval" in model.plan(100, 3)[0].note
    with pytest.raises(InvalidParameterError, match="inference=True"):
        required_epsilon(MODEL, 20_000, 10, goal="halfwidth=0.3")
    with pytest.raises(InvalidParameterError, match="two classes"):
        required_epsilon(PrivateLinearRegression(feature_norm=1.0, target_bounds=(0, 1)), 900, 10, goal="auc=0.1")
    with pytest.raises(InvalidParameterError, match="goal='width'"):
        required_epsilon(MODEL, 20_000, 10, goal="width=0.3")
