"""A look at the target's declared range: lemma, budgets, neighbors, when none is taken, saved models, portions."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset
import pyarrow.parquet
import pytest

from dpconvex import (
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateQuantileRegressor,
    PrivateSearchCV,
    Schema,
    load_model,
    save_model,
    verify,
)
from dpconvex.algorithms.erm.two_stage.ranges import (
    FIRST,
    HALVED,
    LEAST,
    LEAST_ALONE,
    LOOK,
    NEEDED,
    SCALED,
    STOP,
    RangedPlan,
    counted,
    look_cost,
    offered,
    scored,
)
from dpconvex.data import NumericColumn, NumericTarget, UnrangedColumn
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._digest import model_digest
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.problems import UserGroups
from dpconvex.problems.data.ranges import PARTS, parts, whole_steps
from dpconvex.problems.data.sources.arrow import MEMORY

SCHEMA = Schema((NumericColumn("a", 0, 1), NumericColumn("b", 0, 1)), NumericTarget("y", 0, 20_000))
KINDS = [PrivateLinearRegression, PrivateHuberRegressor, PrivateQuantileRegressor, PrivateAdditiveRegressor]


def table(n: int = 6000) -> pd.DataFrame:
    """Targets of which nearly all lie in a thirtieth of the declared range."""
    rng = np.random.default_rng(0)
    a, b = rng.random((2, n))
    return pd.DataFrame({"a": a, "b": b, "y": 300 + 400 * a - 200 * b + 30 * rng.standard_normal(n)})


def fitted(frame: pd.DataFrame, kind: Any = PrivateLinearRegression, **more: Any) -> Any:
    return kind(1.0, **{"schema": SCHEMA, "random_state": 3, **more}).fit(frame)


@pytest.mark.thin
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.dear("PrivateAdditiveRegressor-0.0")
def test_one_certificate_for_look_and_model_that_verifies(kind, delta, tmp_path) -> None:
    frame = table()
    model = kind(1.0, delta, schema=SCHEMA).fit(frame)
    plan, certificate = model.plan_, model.certificate_
    assert isinstance(plan, RangedPlan)
    assert plan.look is not None
    assert 0.95 < certificate.spent_epsilon <= 1.0
    assert [each.mechanism for each in certificate.releases].count("report noisy max") == 1
    assert plan.look.epsilon + plan.then.privacy.epsilon <= 1.0
    assert plan.look.epsilon == pytest.approx(look_cost(1.0, 6000), rel=1e-9)
    assert verify(certificate).passed
    assert not verify(replace(certificate, spent_epsilon=0.98)).passed
    (found,) = model.ranges_
    assert (found.lower, found.upper) == tuple(20_000 / PARTS * k for k in plan.target_cells)
    assert model.predict(frame).max() <= found.upper
    assert model.found_schema_ == replace(SCHEMA, target=NumericTarget("y", found.lower, found.upper))
    assert model.plans_at(0.9)[0].look.epsilon == pytest.approx(look_cost(0.9, 6000), rel=1e-9)
    assert kind(1.0, delta, schema=SCHEMA).plan(6000)[0].public["target_range"]["epsilon"] == plan.look.epsilon
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.ranges_ == model.ranges_
    again.ranges_ = (replace(found, upper=2 * found.upper),)
    assert model_digest(again) != model_digest(model) == certificate.model


@pytest.mark.thin
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.dear("PrivateAdditiveRegressor")
def test_a_careless_range_costs_little(kind) -> None:
    frame, scores = table(), []
    for looks in (True, False):
        models = [kind(0.2, schema=SCHEMA, random_state=seed) for seed in range(4)]
        for each in models:
            each._looks = looks
        scores.append(np.median([each.fit(frame).score(frame, frame.y) for each in models]))
    assert scores[0] > scores[1]


HOSTILE = [np.nan, np.inf, -np.inf, 1.7e308, -1e300, 5e-324, -0.5, 0.5, 0.4999999]


def test_a_replaced_record_moves_every_score_by_one_at_most() -> None:
    """Lemma T: and by one it does, so half of it would be too little. All other numbers in the scores are public."""
    rng = np.random.default_rng(1)
    y = np.append(rng.uniform(-0.5, 0.5, 40), HOSTILE)
    most = 0.0
    for k in range(len(y)):
        for value in [*HOSTILE, 0.0]:
            other = y.copy()
            other[k] = value
            moved = np.abs(held(y) - held(other))
            assert moved.max() <= 1
            most = max(most, moved.max())
    assert most == 1


def held(y: np.ndarray, groups: UserGroups | None = None) -> np.ndarray:
    below = np.append(0.0, np.cumsum(counted(None, y, groups, lambda _, y: parts(SCALED, y)[None], PARTS + 1)[:PARTS]))
    return below[STOP] - below[FIRST]


@pytest.mark.parametrize("size", [1, 3, 500])
def test_a_replaced_user_moves_every_score_by_one_at_most(size) -> None:
    rng = np.random.default_rng(2)
    rest, labels = rng.uniform(-0.5, 0.5, 30), np.repeat(np.arange(10), 3)
    two = [np.append(rest, each) for each in (rng.uniform(-0.5, 0.5, 7), rng.choice(HOSTILE, size), np.full(4, 0.49))]
    scores = [held(y, UserGroups.of(np.append(labels, np.full(len(y) - 30, 10)))) for y in two]
    for first in scores:
        assert max(np.abs(first - second).max() for second in scores) <= 1


@pytest.mark.parametrize("value", [1e300, np.nan])
@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateQuantileRegressor])
def test_scores_are_counts_and_public_numbers_on_a_grid(monkeypatch, kind, value) -> None:
    """So their sums are exact, and a record moves them by no more than it moves the counts."""
    seen = []
    given = ReportNoisyMax._sample
    monkeypatch.setattr(ReportNoisyMax, "_sample", lambda self, v, s: (seen.append(v), given(self, v, s))[1])
    frame, other = table(), table()
    other.loc[5, "y"] = value
    plans = [fitted(each, kind).plan_ for each in (frame, other)]
    assert np.abs(seen[0] - seen[1]).max() == 1
    assert plans[0].look.sensitivity.value == 1
    assert plans[0].look.scale == plans[1].look.scale
    spared = plans[0].problem.loss.spare_tail
    assert (spared > 0) == (kind in (PrivateQuantileRegressor, PrivateHuberRegressor))
    worth = max(HALVED * plans[0].look.scale, spared * len(frame))
    public, few = scored(np.zeros(PARTS + 1), worth), offered(worth / len(frame))
    np.testing.assert_array_equal(public[few], seen[0] - held(np.clip(frame.y / 20_000, 0, 1) - 0.5)[few])
    assert (public * 2**10 % 1 == 0).all()
    assert public[(FIRST == 0) & (STOP == PARTS)] == 0
    assert len(FIRST) == PARTS * (PARTS + 1) // 2


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, 5e-324])
def test_neighbors_have_the_same_plan_arrays_and_warnings(value) -> None:
    frame, other = table(), table()
    other.loc[7, "y"] = value
    seen = []
    for each in (frame, other):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = fitted(each)
        seen.append((model.plan_.releases, model.plan_.problem, model.coef_.shape, len(model.ranges_)))
        seen[-1] += ({str(w.message) for w in caught if "fit number" not in str(w.message)},)
    assert seen[0] == seen[1]


def test_the_part_is_the_one_that_was_released(monkeypatch) -> None:
    """Whatever it is, every target is clipped into it and the plan is the same; nothing is refused after a release."""
    before = PrivateLinearRegression(1.0, schema=SCHEMA).plan(6000)[0]
    parts = offered(HALVED * before.look.scale / 6000)
    for chosen in (0, 31, 50, len(parts) - 1):
        with monkeypatch.context() as patched:
            patched.setattr(ReportNoisyMax, "_sample", lambda self, v, s, chosen=chosen: chosen)
            model = fitted(table())
        plan = model.plan_
        assert plan.target_cells == (FIRST[parts[chosen]], STOP[parts[chosen]])
        assert plan.releases == before.releases
        assert plan.resumed(*plan.course).target_cells == plan.target_cells
        low, high = model.ranges_[-1].lower, model.ranges_[-1].upper
        assert low <= model.predict(table()).min() <= model.predict(table()).max() <= high
    for forged in ((-1, 4), (4, 4), (0, 33), (1,)):
        with pytest.raises(InvalidParameterError, match="range"):
            plan.resumed((), (), forged, *plan.course[3:])


def test_a_second_fit_knows_nothing_of_the_first_ones_range() -> None:
    rng = np.random.default_rng(3)
    X = rng.random((6000, 2))
    model = PrivateLinearRegression(1.0, feature_bounds=(0, 1), target_bounds=(-20_000, 20_000), random_state=1)
    assert model.fit(X, 300 + X[:, 0]).ranges_[0].lower > -20_000
    model.fit(X, -15_000 + X[:, 0])
    assert model.ranges_[0].lower <= -15_000 <= model.ranges_[0].upper


FEW = round(LEAST) - 1
OFF = {
    "few records": {"n": FEW},
    "a named algorithm": {"algorithm": "objective_perturbation"},
    "constants of the paper": {"constants": "paper"},
    "a cap in the target's unit": {"residual_cap": 100.0},
    "a ridge in the unit of the loss": {"l2": 0.1},
    "a norm in the unit of the range": {"coefficient_norm": 1.0},
    "a tilt": {"tilt": 0.1},
    "intervals": {"inference": True},
    "heavy tails": {"heavy_tailed": 2},
    "a private range": {"target_bounds": "private"},
    "a range of too few floats": {"target_bounds": (1e15, 1e15 + 1)},
    "the smallest range": {"target_bounds": (0.0, 5e-324)},
}


@pytest.mark.thin
@pytest.mark.parametrize("given", OFF.values(), ids=OFF)
def test_no_look_is_taken(given) -> None:
    given = {"n": 6000, **given}
    n = given.pop("n")
    plan = PrivateLinearRegression(1.0, **{"feature_bounds": (0, 1), "target_bounds": (0, 1), **given}).plan(n, 2)[0]
    assert getattr(plan, "look", None) is None
    assert LOOK not in [each.label for each in plan.releases]


@pytest.mark.parametrize("users", [False, True])
def test_few_units_pay_more_for_a_look_and_a_constant_takes_one_sooner(users: bool) -> None:
    """A look is the dearer the fewer there are, up to half of epsilon; all is within one promise."""
    costs = [look_cost(0.1, 10 * units) / 0.1 for units in (LEAST - 1, LEAST, 400, NEEDED, 4000, 1e6)]
    assert costs == pytest.approx([0, 1 / 3, 0.125, 0.1, 0.075, 0.03])
    alone = [look_cost(0.1, 10 * units, alone=True) / 0.1 for units in (LEAST_ALONE - 1, LEAST_ALONE, 100, 400, 4000)]
    assert alone == pytest.approx([0, 0.5, 0.5, 0.125, 0.075])
    rng = np.random.default_rng(4)
    n = 10 * round(LEAST_ALONE)
    groups = {"groups": np.repeat(np.arange(n), 2)} if users else {}
    X, y = rng.random((2 * n if users else n, 40)), 30 + rng.random(2 * n if users else n)
    given: dict[str, Any] = {"feature_bounds": (0, 1), "target_bounds": (0, 2400)}
    model = PrivateLinearRegression(0.1, **given).fit(X, y, **groups)
    plan, certificate = model.plan_, model.certificate_
    assert isinstance(plan, RangedPlan)
    assert plan.algorithm == "constant"
    assert plan.look is not None
    assert 0.099 < certificate.spent_epsilon <= 0.1
    assert plan.look.epsilon + plan.then.privacy.epsilon <= 0.1
    assert plan.look.epsilon == pytest.approx(0.05)
    assert verify(certificate).passed
    assert not verify(replace(certificate, spent_epsilon=0.098)).passed
    (found,) = model.ranges_
    assert found.upper <= 600
    fewer = PrivateLinearRegression(0.1, **given).plan(n - 10, 40)
    assert {each.algorithm: getattr(each, "look", None) for each in fewer}["constant"] is None


@pytest.mark.parametrize(
    ("part", "step", "whole"),
    [
        ((22, 23), (0.0, 16 / 3), (64 / 3, 80 / 3)),  # [5.1, 5.3] of 1 to 7: from 5 to 6
        ((20, 28), (0.0, 16 / 3), (64 / 3, 80 / 3)),  # holds 5 and 6, and nothing between is anybody's
        ((21, 22), (0.0, 16 / 3), (16.0, 80 / 3)),  # 5 alone: from 4 to 6
        ((0, 1), (2.0, 4.0), (0.0, 2.0)),  # the first multiple lies inside the range
        ((31, 32), (2.0, 4.0), (30.0, 32.0)),
        ((0, 32), (0.0, 16 / 3), (0.0, 32.0)),
        ((3, 4), (0.3, 0.9), (3, 4)),  # a cell holds a multiple: parts stay
        ((3, 4), (0.0, 0.0), (3, 4)),
        ((3, 4), (0.0, 1e10), (3, 4)),
    ],
)
def test_parts_end_at_multiples_of_a_step(part, step, whole) -> None:
    assert whole_steps(part, step) == pytest.approx(whole)


def test_no_part_lies_between_two_multiples() -> None:
    rng = np.random.default_rng(5)
    for first, stop in zip(FIRST, STOP, strict=True):
        length = rng.uniform(1.0, 40.0)
        start = rng.uniform(0.0, min(length, PARTS))
        low, high = whole_steps((int(first), int(stop)), (start, length))
        assert 0 <= low < high <= PARTS
        inside = [start + k * length for k in range(-1, 34) if low - 1e-6 <= start + k * length <= high + 1e-6]
        assert inside or start > stop or high == PARTS
        assert high - low >= min(length, 1.0) - 1e-6 or low == 0 or high == PARTS


def test_ends_move_by_what_was_released_alone(monkeypatch) -> None:
    """Two tables of which the same parts are released have the same ranges."""
    monkeypatch.setattr(ReportNoisyMax, "_sample", lambda self, scores, source: len(scores) - 9)
    schema = Schema((NumericColumn("a", 1, 7, step=1),), NumericTarget("y", 0, 10, step=1))
    rng, found = np.random.default_rng(7), []
    for value in (2.0, 6.0):
        a, y = rng.choice([value, value + 1], (2, 4000))
        found.append(PrivateLinearRegression(1.0, schema=schema).fit(pd.DataFrame({"a": a, "y": y})).ranges_)
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateAdditiveRegressor])
def test_columns_and_targets_with_a_step_keep_whole_numbers(kind, tmp_path) -> None:
    rng = np.random.default_rng(6)
    a = rng.choice([5.0, 5.0, 5.0, 6.0], 4000)
    frame = pd.DataFrame({"a": a, "b": rng.integers(0, 20, 4000), "y": rng.choice([3.0, 4.0], 4000)})
    columns = (NumericColumn("a", 1, 7, step=1), NumericColumn("b", 0, 1000, step=1))
    schema = Schema(columns, NumericTarget("y", 0, 10, step=1))
    model = kind(1.0, schema=schema).fit(frame)
    target, first, second = model.ranges_
    for each in (target, first):
        assert each.lower == pytest.approx(round(each.lower))
        assert each.upper == pytest.approx(round(each.upper))
        assert each.upper - each.lower >= 1 - 1e-9
    assert second.upper < 1000
    assert verify(model.certificate_).passed
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(frame), model.predict(frame))
    own = kind(1.0, schema=schema, target_bounds=(0, 1000)).fit(frame).ranges_[0]  # the step is not of that range
    assert own.upper == 1000 / PARTS * round(own.upper * PARTS / 1000)


def test_searches_take_no_look() -> None:
    base = PrivateLinearRegression(1.0, feature_bounds=(0, 1), target_bounds=(0, 1))
    for method in ("composition", "none"):
        plan = PrivateSearchCV(base, {"risk": ["empirical"], "noise": ["auto", "l1"]}, method=method).plan(6000, 2)[0]
        assert LOOK not in str(plan.releases)


def test_beside_private_ranges_of_columns(tmp_path) -> None:
    """Each pays for itself; the target keeps a part of its declared range."""
    frame = table().assign(a=lambda t: 1000 * t.a)
    schema = replace(SCHEMA, columns=(UnrangedColumn("a", "none"), SCHEMA.columns[1]))
    model = PrivateLinearRegression(1.0, schema=schema).fit(frame)
    assert isinstance(model.plan_, RangedPlan)
    assert None not in (model.plan_.look, model.plan_.first, model.plan_.second or model.plan_.closer)
    assert verify(model.certificate_).passed
    assert len(model.ranges_) == 2
    found: Any = model.found_schema_
    assert not found.unranged
    assert found.target.upper == model.ranges_[1].upper
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(frame), model.predict(frame))


@pytest.mark.gate
def test_portions_and_users_take_the_same_look(tmp_path) -> None:
    frame = table()
    frame["person"] = np.arange(len(frame)) % 2000
    pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame), tmp_path / "t.parquet")
    for user in (None, "person"):
        schema = replace(SCHEMA, user=user)
        before = MEMORY.set(2**16)
        try:
            first, second = (
                PrivateHuberRegressor(1.0, schema=schema, random_state=1).fit(rows)
                for rows in (frame, pyarrow.dataset.dataset(tmp_path))
            )
        finally:
            MEMORY.reset(before)
        assert first.ranges_ == second.ranges_ != ()
        np.testing.assert_array_equal(first.coef_, second.coef_)
        assert verify(second.certificate_).checks
        assert {str(each.sensitivity.unit) for each in first.certificate_.releases} == {"user" if user else "record"}


def test_private_columns_beside_a_declared_target_without_a_look() -> None:
    """What was found then is no range of the target."""
    schema = replace(SCHEMA, columns=(UnrangedColumn("a", "none"), SCHEMA.columns[1]))
    model = fitted(table(), schema=schema, algorithm="objective_perturbation")
    assert len(model.ranges_) == 1
    assert model._range() == model._declared()
    assert model.found_schema_.target == SCHEMA.target


def test_beside_private_knots() -> None:
    schema = replace(SCHEMA, columns=(NumericColumn("a", 0, 1, "log1p"), SCHEMA.columns[1]))
    model = PrivateAdditiveRegressor(3.0, schema=schema).fit(table())
    assert (model.plan_.placed, len(model.plan_.target_cells), len(model.ranges_)) == ((0,), 2, 1)
    assert verify(model.certificate_).passed
    assert model.score(table(), table().y) > 0.8


@pytest.mark.gate
def test_a_constant_after_a_look_or_after_ranges_is_as_hopeless_as_before() -> None:
    wide = {"feature_bounds": (0, 1), "target_bounds": (0, 1)}
    for more in ({}, {"target_bounds": "private"}, {"feature_bounds": "private"}):
        plans = PrivateLinearRegression(0.6, **{**wide, **more}).plan(1000, 400)
        assert plans[0].algorithm == "constant"
        assert plans[0].hopeless
        assert "no column is used" in plans[0].outlook
