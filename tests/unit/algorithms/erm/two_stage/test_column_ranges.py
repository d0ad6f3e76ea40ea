"""Looks at declared ranges of columns: lemma, budgets, neighbors, when none is taken, saved models, portions."""

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
    CategoricalColumn,
    DataDomain,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    Schema,
    load_model,
    save_model,
    verify,
)
from dpconvex.algorithms.base import ConvexPlan
from dpconvex.algorithms.erm.two_stage.ranges import (
    FIRST,
    HALVED_EACH,
    LEAST,
    LOOKS,
    SCALED,
    STOP,
    RangedPlan,
    counted,
    look_cost,
    looks_cost,
    offered,
)
from dpconvex.data import ClassTarget, NumericColumn, NumericTarget, UnrangedColumn
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import _streams
from dpconvex.estimators._digest import model_digest
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.problems import UserGroups
from dpconvex.problems.data.ranges import PARTS, parts
from dpconvex.problems.data.sources.arrow import MEMORY

COLUMNS = (
    CategoricalColumn("kind", ("p", "q", "r")),
    NumericColumn("size", 0, 1000),
    NumericColumn("member", 0, 1),
    NumericColumn("age", -400, 400),
    NumericColumn("amount", 0, 1e5, "log1p"),
    NumericColumn("weight", 0, 500, indicator=True),
)
CLASSES = Schema(COLUMNS, ClassTarget("c", ("0", "1")))
NUMBERS = Schema(COLUMNS, NumericTarget("y", 0, 2000))
KINDS: list[tuple[Any, Schema]] = [
    (PrivateLogisticRegression, CLASSES),
    (PrivateLinearSVC, CLASSES),
    (PrivateAdditiveClassifier, CLASSES),
    (PrivateLinearRegression, NUMBERS),
    (PrivateHuberRegressor, NUMBERS),
    (PrivateAdditiveRegressor, NUMBERS),
]
LOOKED = {1: (0, 1000), 3: (-400, 400), 5: (0, 500)}  #: No yes and no, no logarithm


def table(n: int = 9000) -> pd.DataFrame:
    """Sizes and ages lie in a small part of what is declared; one size in twenty is missing."""
    rng = np.random.default_rng(0)
    size, age = rng.uniform(0, 30, n), rng.normal(40, 10, n)
    score = (size - 15) / 10 + (age - 40) / 15
    frame = pd.DataFrame({"kind": rng.choice(["p", "q", "r"], n), "size": size, "member": rng.integers(0, 2, n)})
    frame = frame.assign(age=age, amount=np.exp(rng.uniform(0, 9, n)), weight=rng.uniform(50, 90, n))
    frame.loc[::20, "size"] = np.nan
    frame.loc[1::30, "weight"] = np.nan
    return frame.assign(c=(rng.random(n) < 1 / (1 + np.exp(-2 * score))).astype(int).astype(str), y=150 + 40 * score)


def columns_of(model: Any) -> dict[str, Any]:
    return {each.name: each for each in model.found_schema_.columns}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("kind", "schema"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.dear(
    "PrivateAdditiveRegressor",
    "PrivateAdditiveClassifier--1e-06",
    "PrivateLinearRegression--1e-06",
    "PrivateHuberRegressor-",
    "PrivateLinearSVC--1e-06",
)
def test_one_certificate_for_looks_and_model_that_verifies(kind, schema, delta, tmp_path) -> None:
    frame = table()
    model = kind(4.0, delta, schema=schema).fit(frame)
    plan, certificate = model.plan_, model.certificate_
    assert isinstance(plan, RangedPlan)
    assert plan.looks is not None
    count = len(plan.looked)
    assert 3.8 < certificate.spent_epsilon <= 4.0
    assert [each.times for each in plan.releases if each.label == LOOKS] == [count]
    assert count * plan.looks.epsilon == pytest.approx(looks_cost(4.0, len(frame), count), rel=0.05)
    assert verify(certificate).passed
    assert not verify(replace(certificate, spent_epsilon=3.9)).passed
    assert plan.resumed(*plan.course).cells == plan.cells
    for name, bounds in {COLUMNS[k].name: bounds for k, bounds in LOOKED.items()}.items():
        width = (bounds[1] - bounds[0]) / PARTS
        found = columns_of(model)[name]
        assert (found.lower - bounds[0]) % width == 0
        assert bounds[0] <= found.lower < found.upper <= bounds[1]
    assert columns_of(model)["member"] == COLUMNS[2]
    assert columns_of(model)["amount"] == COLUMNS[4]
    assert model.plans_at(3.6)[0].looks.epsilon == pytest.approx(looks_cost(3.6, len(frame), count) / count, rel=0.05)
    told = kind(4.0, delta, schema=schema).plan(len(frame))[0].public["column_ranges"]
    assert told["epsilon"] == pytest.approx(count * plan.looks.epsilon)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.ranges_ == model.ranges_
    again.ranges_ = (*model.ranges_[:-1], replace(model.ranges_[-1], upper=2 * model.ranges_[-1].upper))
    assert model_digest(again) != model_digest(model) == certificate.model


@pytest.mark.parametrize(("kind", "schema"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.dear(
    "PrivateLinearRegression", "PrivateAdditiveRegressor", "PrivateLogisticRegression", "PrivateAdditiveClassifier"
)
def test_careless_ranges_cost_little(kind, schema) -> None:
    frame, scores = table(4000), []
    for looks in (True, False):
        models = [kind(0.7, schema=schema, random_state=seed) for seed in range(2)]
        for each in models:
            each._looks = looks
        scores.append(np.median([each.fit(frame).score(frame, frame[schema.target.name]) for each in models]))
    assert scores[0] > scores[1]


HOSTILE = [np.nan, np.inf, -np.inf, 1.7e308, -1e300, 5e-324, -0.5, 0.5, 0.4999999]


def held(X: np.ndarray, groups: UserGroups | None = None) -> np.ndarray:
    def places(X: Any, _: Any) -> Any:
        return np.array([parts(SCALED, X[:, k]) for k in range(X.shape[1])], dtype=np.uint8)

    counts = counted(X, np.zeros(len(X)), groups, places, PARTS + 1).reshape(-1, PARTS + 1)
    below = np.column_stack([np.zeros(len(counts)), np.cumsum(counts[:, :PARTS], 1)])
    return below[:, STOP] - below[:, FIRST]


def test_a_replaced_record_moves_every_score_of_every_column_by_one_at_most() -> None:
    """Lemma T, for what is missing too, which lies in no part; by one it does, so half of it would be too little."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.uniform(-0.5, 0.5, (30, 3)), np.column_stack([np.roll(HOSTILE, k) for k in range(3)])])
    most = np.zeros(3)
    for k in range(len(X)):
        for row in [X[(k + 7) % len(X)], np.full(3, np.nan), np.array([0.5, -0.5, np.inf])]:
            other = X.copy()
            other[k] = row
            most = np.maximum(most, np.abs(held(X) - held(other)).max(1))
    np.testing.assert_array_equal(most, 1)


@pytest.mark.parametrize("size", [1, 3, 500])
def test_a_replaced_user_moves_every_score_by_one_at_most(size) -> None:
    rng = np.random.default_rng(2)
    rest, labels = rng.uniform(-0.5, 0.5, (30, 2)), np.repeat(np.arange(10), 3)
    users = (rng.uniform(-0.5, 0.5, (7, 2)), rng.choice(HOSTILE, (size, 2)), np.full((4, 2), 0.49))
    two = [np.concatenate([rest, each]) for each in users]
    scores = [held(X, UserGroups.of(np.append(labels, np.full(len(X) - 30, 10)))) for X in two]
    for first in scores:
        assert max(np.abs(first - second).max() for second in scores) <= 1


def test_scores_move_by_no_more_than_counts(monkeypatch) -> None:
    """What they hold beside the counts is public: the same for neighbors, in every column."""
    seen: list[Any] = []
    given = ReportNoisyMax._sample
    monkeypatch.setattr(ReportNoisyMax, "_sample", lambda self, v, s: (seen.append(v), given(self, v, s))[1])
    frame, other = table(), table()
    other.loc[5, ["size", "age", "weight"]] = 1e300
    plans = [PrivateAdditiveClassifier(1.0, schema=CLASSES, random_state=1).fit(each).plan_ for each in (frame, other)]
    count = len(plans[0].looked)
    assert count == 3
    assert [np.abs(seen[k] - seen[count + k]).max() for k in range(count)] == [1] * count
    assert plans[0].looks.sensitivity.value == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, 5e-324, -400.0])
@pytest.mark.parametrize(("kind", "schema"), [KINDS[0], KINDS[5]], ids=["linear", "additive"])
@pytest.mark.dear("additive-5e", "additive-inf", "additive--400.0", "additive-1e+300")
def test_neighbors_have_the_same_plan_arrays_and_warnings(kind, schema, value) -> None:
    frame, other = table(), table()
    other.loc[7, ["size", "age", "amount", "weight"]] = value
    seen = []
    for each in (frame, other):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = kind(1.0, schema=schema, random_state=3).fit(each)
        seen.append((model.plan_.releases, model.plan_.problem, model.coef_.shape, len(model.ranges_)))
        seen[-1] += ({str(w.message) for w in caught if "fit number" not in str(w.message)},)
    assert seen[0] == seen[1]


def test_few_records_are_offered_few_and_wide_parts() -> None:
    """Ten even columns in 2,000 records: with all parts on offer two thirds of the ranges shrank to one cell of 32."""
    widths = [32 / (STOP - FIRST)[offered(0.04 * 1000 / each)].min() for each in (150, 160, 220, 320, 500, 5000)]
    assert widths == [2, 4, 4, 16, 32, 32]
    rng, kept = np.random.default_rng(0), []
    X = rng.uniform(-1, 1, (2000, 10))
    y = (rng.random(2000) < 1 / (1 + np.exp(-3 * X[:, :5].sum(1)))).astype(int)
    for per in (155, 250):
        model = PrivateLogisticRegression(per * 10 / 2000, feature_bounds=(-1, 1), classes=[0, 1], random_state=1)
        assert model.fit(X, y).score(X, y) > 0.8
        kept += [stop - first for first, stop in model.plan_.cells]
    assert np.mean(kept) > 16


def test_the_parts_are_those_that_were_released(monkeypatch) -> None:
    """Whatever they are, every record is clipped into them and the plan is the same; nothing is refused afterwards."""
    before = PrivateLogisticRegression(1.0, schema=CLASSES).plan(9000)[0]
    parts = offered(HALVED_EACH * before.looks.scale / 9000)
    assert len(parts) == 89  # 1, 3, 7, 15, 31 and 32 that overlap by half
    for chosen in (0, 31, 50, 88):
        with monkeypatch.context() as patched:
            patched.setattr(ReportNoisyMax, "_sample", lambda self, v, s, chosen=chosen: chosen)
            model = PrivateLogisticRegression(1.0, schema=CLASSES, random_state=2).fit(table())
        plan = model.plan_
        first, stop = FIRST[parts[chosen]], STOP[parts[chosen]]
        assert set(plan.cells) == {(first, stop)}
        assert plan.releases == before.releases
        age = columns_of(model)["age"]
        assert (age.lower, age.upper) == (-400 + 25 * first, -400 + 25 * stop)
        beyond = table(50).assign(age=1e9), table(50).assign(age=age.upper)
        np.testing.assert_array_equal(*map(model.predict_proba, beyond))
    forged: Any
    for forged in (((-1, 4), (0, 9)), ((4, 4), (0, 9)), ((0, 33), (0, 9)), ((0, 9),), ((1,), (2,))):
        with pytest.raises(InvalidParameterError, match="range"):
            plan.resumed((), (), forged, *plan.course[3:])


@pytest.mark.parametrize("look", [True, False], ids=["look", "no look"])
@pytest.mark.parametrize(("kind", "schema"), [KINDS[0], KINDS[2], KINDS[3]], ids=["classes", "shapes", "numbers"])
@pytest.mark.dear("shapes-no look")
def test_fits_see_what_predictions_see(kind, schema, look, monkeypatch) -> None:
    """A missing number is the middle of the part that is kept, or has its own vertex, on both sides."""
    seen: dict[str, Any] = {}
    given = ConvexPlan.run

    def run(self: Any, X: Any, y: Any, *more: Any) -> Any:
        seen["X"] = X  # of the innermost method
        return given(self, X, y, *more)

    monkeypatch.setattr(ConvexPlan, "run", run)
    frame = table(3000)
    model = kind(1.0 if look else 0.1, schema=schema, random_state=3, algorithm="auto").fit(frame)
    assert bool(getattr(model.plan_, "looked", ())) == look
    features, encoded = model._encoded(frame, reset=False)
    features = model._fitting(features, model.plan_) if schema is CLASSES and "Additive" in kind.__name__ else features
    expected = features.found(*model._told).expand(encoded) if encoded.shape != seen["X"].shape else encoded
    np.testing.assert_allclose(np.nan_to_num(seen["X"]), expected, atol=1e-12)


def test_without_a_look_bits_are_those_of_a_fit_that_could_not_take_one(full) -> None:
    """Though missing numbers are encoded as NaN where one may be taken, and as 0 elsewhere."""
    frame = table(140)
    for kind, schema in KINDS if full else KINDS[::2]:
        found = []
        for looks in (True, False):
            model = kind(1.0, schema=schema, random_state=4)
            model._looks = looks
            found.append(model.fit(frame).encoded_coef_)
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("n", [1, 40, 149, 150, 199, 1000, 10**6])
def test_no_columns_are_looked_at_where_the_target_is_not(n: int) -> None:
    """A model takes the first part that was released for the target's (`FindsRanges._told`)."""
    for epsilon, columns in ((0.1, 1), (1.0, 1), (1.0, 3), (10.0, 40)):
        assert look_cost(epsilon, n) > 0 or looks_cost(epsilon, n, columns) == 0


FEW = round(2 * LEAST) - 1
OFF: dict[str, dict[str, Any]] = {
    "few records": {"n": FEW},
    "a named algorithm": {"algorithm": "objective_perturbation"},
    "constants of the paper": {"constants": "paper"},
    "a ridge": {"l2": 0.1},
    "a norm of coefficients": {"coefficient_norm": 1.0},
    "a tilt": {"tilt": 0.1},
    "an attack in units of columns": {"adversarial_radius": 0.1},
    "yes and no": {"feature_bounds": (0, 1)},
    "private ranges": {"feature_bounds": "private"},
    "a norm": {"feature_bounds": None, "feature_norm": 5.0},
    "a domain": {"feature_bounds": None, "domain": DataDomain.box(2, 5.0)},
    "ranges of too few floats": {"feature_bounds": (1e15, 1e15 + 1)},
}


@pytest.mark.parametrize("given", OFF.values(), ids=OFF)
def test_no_look_is_taken(given) -> None:
    given = {"n": 9000, **given}
    n = given.pop("n")
    plan = PrivateLogisticRegression(1.0, **{"feature_bounds": (0, 9), "classes": [0, 1], **given}).plan(n, 2)[0]
    assert LOOKS not in [each.label for each in plan.releases]


@pytest.mark.gate
def test_more_columns_need_more_records() -> None:
    for count in (1, 2, 5, 40):
        bounds = (np.zeros(count), np.full(count, 9.0))
        model = PrivateLogisticRegression(1.0, feature_bounds=bounds, classes=[0, 1])
        few, enough = (getattr(model.plan(round(LEAST) * count + k, count)[0], "looked", ()) for k in (-1, 0))
        assert (few, enough) == ((), tuple(range(count)))


def test_numbers_are_looked_at_only_with_their_target() -> None:
    """So what was kept of one column is never taken for a part of the target's range."""
    X = np.random.default_rng(0).uniform(0, 9, (6000, 1))
    model = PrivateLinearRegression(1.0, feature_bounds=(0, 90), target_bounds=(0, 90)).fit(X, X[:, 0])
    target, column = model.ranges_
    assert model._range() == model._declared().__class__(target.lower, target.upper)
    assert column.upper <= 90
    capped = PrivateLinearRegression(1.0, feature_bounds=(0, 90), target_bounds=(0, 90), residual_cap=10.0)
    assert capped.fit(X, X[:, 0]).ranges_ == ()


def test_searches_take_no_look() -> None:
    base = PrivateLogisticRegression(1.0, feature_bounds=(0, 9), classes=[0, 1])
    for method in ("composition", "none"):
        plan = PrivateSearchCV(base, {"risk": ["empirical"], "noise": ["auto", "l1"]}, method=method).plan(6000, 2)[0]
        assert LOOKS not in str(plan.releases)


@pytest.mark.parametrize(("kind", "schema"), KINDS, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.dear("PrivateLinearRegression-", "PrivateAdditiveRegressor-", "PrivateAdditiveClassifier-")
def test_beside_private_ranges_of_columns(kind, schema, tmp_path) -> None:
    """Each pays for itself, and every range finds its column."""
    opened = tuple(UnrangedColumn("size", "none") if each.name == "size" else each for each in COLUMNS)
    frame = table()
    model = kind(2.0, schema=replace(schema, columns=opened)).fit(frame)
    assert None not in (model.plan_.looks, model.plan_.first, model.plan_.second or model.plan_.closer)
    assert verify(model.certificate_).passed
    assert not model.found_schema_.unranged
    assert columns_of(model)["size"].upper <= 64
    age = columns_of(model)["age"]
    assert -400 <= age.lower < age.upper <= 400
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(frame), model.predict(frame))


@pytest.mark.parametrize(("kind", "schema"), [KINDS[0], KINDS[5]], ids=["linear", "additive"])
@pytest.mark.dear("additive")
def test_portions_cells_and_users_take_the_same_looks(kind, schema, tmp_path, monkeypatch) -> None:
    frame = table(3000)
    frame["person"] = np.arange(len(frame)) % 1500
    pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame), tmp_path / "t.parquet")
    for user in (None, "person"):
        own = replace(schema, user=user)
        models = [kind(3.0, schema=own, random_state=1).fit(frame)]
        before = MEMORY.set(2**18)
        try:
            models.append(kind(3.0, schema=own, random_state=1).fit(pyarrow.dataset.dataset(tmp_path)))
        finally:
            MEMORY.reset(before)
        with monkeypatch.context() as patched:
            patched.setattr(_streams, "LEAST", 0)  # cells in few bytes, where the matrix would be larger
            models.append(kind(3.0, schema=own, random_state=1).fit(frame))
        for other in models[1:]:
            assert other.ranges_ == models[0].ranges_ != ()
            np.testing.assert_array_equal(other.coef_, models[0].coef_)
        assert {str(each.sensitivity.unit) for each in models[1].certificate_.releases} == {
            "user" if user else "record"
        }


def test_a_second_fit_knows_nothing_of_the_first_ones_parts() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 60, (6000, 2))
    y = (X[:, 0] > 30).astype(int)
    model = PrivateLogisticRegression(1.0, feature_bounds=(-1000, 1000), classes=[0, 1], random_state=1)
    assert model.fit(X, y).ranges_[0].upper < 1000
    model.fit(X - 900, y)
    assert model.ranges_[0].upper < -700
    assert model.score(X - 900, y) > 0.8
