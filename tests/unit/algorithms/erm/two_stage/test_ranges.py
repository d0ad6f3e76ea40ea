"""Private ranges before a method: budgets, neighbors, users' histograms, targets, saved models, refusals."""

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
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    Schema,
    load_model,
    save_model,
    verify,
)
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.algorithms.erm.two_stage.ranges import RangedPlan, lost
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, NumericTarget, UnrangedColumn, UnrangedTarget
from dpconvex.errors import HopelessPlanWarning, InvalidParameterError
from dpconvex.estimators._digest import model_digest
from dpconvex.losses import LogisticLoss
from dpconvex.mechanisms import JointHistogram, ReportNoisyMax
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.ranges import CELLS
from dpconvex.problems.data.sources.arrow import MEMORY
from dpconvex.problems.data.users import UNITS, histogram
from dpconvex.randomness import SeededSource

SCHEMA = Schema(
    (
        CategoricalColumn("kind", ("p", "q", "r")),
        UnrangedColumn("amount"),
        NumericColumn("share", 0, 1),
        UnrangedColumn("age", "none"),
    ),
    ClassTarget("y", ("no", "yes")),
)


def table(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.uniform(17, 90, n)
    return pd.DataFrame(
        {
            "kind": rng.choice(["p", "q", "r"], n),
            "amount": np.where(rng.random(n) < 0.5, 0.0, np.exp(3 * rng.standard_normal(n))),
            "share": rng.random(n),
            "age": age,
            "y": np.where(age > 50, "yes", "no"),
        }
    )


def fitted(frame: pd.DataFrame, **more) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(4.0, schema=SCHEMA, random_state=3, **more).fit(frame)


def test_one_certificate_for_ranges_and_model_that_verifies(tmp_path) -> None:
    frame = table()
    model = PrivateLogisticRegression(4.0, schema=SCHEMA).fit(frame)
    certificate = model.certificate_
    assert isinstance(model.plan_, RangedPlan)
    assert 3.99 < certificate.spent_epsilon <= 4.0
    assert [r.mechanism for r in certificate.releases[:2]] == [model.plan_.first.name, model.plan_.closer.name]
    found = verify(certificate)
    assert all(check.passed for check in found.checks)
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.ranges_ == model.ranges_
    again.ranges_ = tuple(replace(one, upper=2 * one.upper) for one in model.ranges_)
    assert model_digest(again) != model_digest(model) == certificate.model
    assert (model.predict(frame) == frame.y).mean() > 0.9


def test_the_found_schema_declares_what_was_found() -> None:
    frame = table()
    model = fitted(frame)
    schema = Schema.from_toml_text(model.found_schema_.to_toml())
    assert not schema.unranged
    assert schema.columns[2] == SCHEMA.columns[2]
    np.testing.assert_allclose(
        schema.encode(frame) @ model.encoded_coef_.T + model.encoded_intercept_, model.decision_function(frame)[:, None]
    )
    assert Schema.from_toml_text(SCHEMA.to_toml()) == SCHEMA


EXTREME = {"missing": np.nan, "infinite": np.inf, "largest": -1.7e308, "tiny": 5e-324, "beyond": 1e15}


@pytest.mark.parametrize("value", EXTREME.values(), ids=EXTREME)
def test_neighbors_with_an_extreme_cell_have_the_same_plan_arrays_and_warnings(value) -> None:
    """Dtypes too: an integer column with one missing cell is a column of floats."""
    frame = table()
    frame["age"] = frame["age"].astype(int)
    other = frame.copy()
    other[["amount", "age"]] = other[["amount", "age"]].astype(float)
    other.loc[7, ["amount", "age"]] = value
    other.loc[7, "kind"] = "never seen"
    seen = []
    for each in (frame, other):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = fitted(each)
        plan = model.plan_
        before = PrivateLogisticRegression(4.0, schema=SCHEMA).plan(len(each))[0]
        seen.append((plan.first.cells, plan.closer, plan.releases, before.releases, model.encoded_coef_.shape))
        seen[-1] += ({str(w.message) for w in caught if "fit number" not in str(w.message)},)
    assert seen[0] == seen[1]


def test_found_ranges_are_functions_of_released_counts() -> None:
    """Their ends are powers of two and 32nds between them; data with the same cells have the same law."""
    frame = table()
    frame.loc[0, "amount"] = 1e9
    model = fitted(frame)
    plan = model.plan_
    assert all(map(ranges.ranges.released, plan.outer))
    assert plan.resumed(*plan.course).found == plan.found == model.ranges_
    forged = ((0.0, 12345.678, "signed_log", 1.0), *plan.course[0][1:])
    with pytest.raises(InvalidParameterError, match="powers of two"):
        plan.resumed(forged, *plan.course[1:])


def test_edges_are_read_off_what_was_released(monkeypatch) -> None:
    """Noise that is asked for, in place of that which is drawn, moves ranges and knots."""
    given = JointHistogram._sample

    def sampled(self, value, source):
        return given(self, value, source) if self.cells[0] == CELLS else np.roll(value, 9)

    before = PrivateAdditiveClassifier(4.0, schema=SCHEMA, random_state=3, knots=4).fit(table())
    monkeypatch.setattr(JointHistogram, "_sample", sampled)
    after = PrivateAdditiveClassifier(4.0, schema=SCHEMA, random_state=3, knots=4).fit(table())
    assert before.plan_.outer == after.plan_.outer
    assert before.knots_[3] != after.knots_[3]
    assert [len(own) for own in after.knots_] == [len(own) for own in before.knots_] == [0, 4, 4, 4]


def test_additive_models_find_ranges_and_knots(tmp_path) -> None:
    """Blocks do not depend on what is found; cells beyond a range, missing and infinite, are at its ends or apart."""
    frame = table()
    frame.loc[[1, 2, 3], "age"] = [np.nan, np.inf, -np.inf]
    model = PrivateAdditiveClassifier(4.0, schema=SCHEMA, knots=5).fit(frame)
    assert verify(model.certificate_).passed
    before = PrivateAdditiveClassifier(4.0, schema=SCHEMA, knots=5).plan(len(frame))[0]
    assert before.problem.domain == model.plan_.problem.domain
    assert (model.predict(frame) == frame.y).mean() > 0.85
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert (again.knots_, again.ranges_) == (model.knots_, model.ranges_)
    assert model.plans_at(2.0)[0].privacy.epsilon == 2.0
    parts = model.contributions(frame).sum(1)
    np.testing.assert_allclose(parts + model.intercept_, model.decision_function(frame), atol=1e-9)


TARGET = Schema(SCHEMA.columns[:3], UnrangedTarget("age"))


@pytest.mark.parametrize("user", [pytest.param(None, marks=pytest.mark.gate), "person"])
@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (PrivateLogisticRegression, SCHEMA),
        pytest.param(PrivateAdditiveClassifier, SCHEMA, marks=pytest.mark.gate),
        (PrivateLinearRegression, TARGET),
    ],
)
def test_tables_read_by_portions_give_the_same_bits(kind, schema, user, tmp_path) -> None:
    """Targets and users too, whose records are in several portions."""
    frame = table()
    frame["person"] = np.arange(len(frame)) % 1500
    pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame), tmp_path / "t.parquet")
    given = {"schema": replace(schema, user=user), "random_state": 1, "algorithm": "objective_perturbation"}
    given |= {"knots": 5} if kind is PrivateAdditiveClassifier else {}  # planning them takes seconds
    before = MEMORY.set(2**16)
    try:
        first, second = (kind(4.0, **given).fit(rows) for rows in (frame, pyarrow.dataset.dataset(tmp_path)))
    finally:
        MEMORY.reset(before)
    assert first.ranges_ == second.ranges_
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_a_derived_column_keeps_its_formula_without_a_range() -> None:
    frame = table()
    column = NumericColumn("double", 0, 1, formula="200 * share", missing=("-1",), indicator=True)
    schema = Schema((column, SCHEMA.columns[0]), NumericTarget("age", 0, 1)).without_ranges()
    assert Schema.from_toml_text(schema.to_toml()) == schema
    model = PrivateLinearRegression(4.0, schema=schema, random_state=2).fit(frame)
    found = model.found_schema_.columns[0]
    assert (found.formula, found.missing, found.indicator) == (column.formula, column.missing, True)
    assert 190 <= found.upper <= 256
    facts = model.to_dict()["shapes"][0]
    assert (facts["lower"], facts["upper"], facts["formula"]) == (found.lower, found.upper, "200 * share")


def cells_cost(plan: RangedPlan) -> float:
    """What step 2 takes: of a histogram, or of looks at the ranges found."""
    return plan.second.epsilon if plan.second else (len(plan.columns) + plan.target) * plan.closer.epsilon


@pytest.mark.parametrize("user", [None, "person"])
def test_parts_of_the_ranges_found_are_chosen_privately(user, tmp_path, monkeypatch) -> None:
    """One choice a column and the target, each paid for and of Lemma T; what is kept is what was released."""
    frame = table().assign(y=1e6 + np.arange(len(table())), person=np.arange(len(table())) % 1500)
    columns = (*SCHEMA.columns[:3], UnrangedColumn("age", "none"))
    schema = Schema(columns, NumericTarget("y", 0, 1), user=user).without_ranges()
    model = PrivateLinearRegression(3.0, schema=schema, algorithm="objective_perturbation")
    plan = model.plan(1500 if user else 3000)[0]
    assert (plan.second, plan.closer.sensitivity.value, plan.closer.sensitivity.norm) == (None, 1.0, "linf")
    assert plan.closer.sensitivity.unit == plan.privacy.unit
    charged = [each for each in plan.releases if each.label == ranges.CLOSER]
    assert [each.times for each in charged] == [len(plan.columns) + 1]
    total = plan.first.epsilon + plan.of_target.epsilon + cells_cost(plan) + plan.then.privacy.epsilon
    assert 0.999 * 3 < total <= 3
    assert cells_cost(plan) == pytest.approx(ranges.looks_cost(3.0, plan.problem.n, len(plan.columns) + 1))
    released, usual = [], ReportNoisyMax.release

    def release(self, scores, label, source, ledger):
        found = usual(self, scores, label, source, ledger)
        if label == ranges.CLOSER:  # of the target, wide parts alone are on offer where the noise is large
            few = ranges.offered(ranges.HALVED_EACH * self.scale / plan.problem.n)
            part = few[found] if len(scores) == len(few) else found
            assert len(scores) == (len(ranges.FIRST) if len(released) < len(plan.columns) else len(few))
            released.append((int(ranges.FIRST[part]), int(ranges.STOP[part])))
        return found

    monkeypatch.setattr(ReportNoisyMax, "release", release)
    model.fit(frame)
    assert verify(model.certificate_).passed
    kept = [cut for cut, one in zip(model.plan_.edges, model.plan_.outer, strict=True) if one.transform == "none"]
    target = released[-1] if released[-1][1] - released[-1][0] <= ranges.ranges.PARTS / ranges.NARROW else (0, 32)
    assert kept == [*released[:-1], target]
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").ranges_ == model.ranges_


def test_the_budget_is_split_before_the_run() -> None:
    plan = PrivateLogisticRegression(1.0, schema=SCHEMA).plan(3000)[0]
    assert plan.first.epsilon + cells_cost(plan) + plan.then.privacy.epsilon <= 1.0
    assert plan.first.cells == (CELLS, CELLS)
    assert plan.first.sensitivity.value == pytest.approx(2 * plan.first.norm.weights.sum())
    assert plan.first.deviations[0] == pytest.approx(0.02 * 3000, rel=0.05)


def test_a_target_has_a_part_of_its_own() -> None:
    """A third of what octaves take, in the ledger beside those of the columns; the sum is what it was."""
    schema = Schema(SCHEMA.columns, NumericTarget("y", 0, 1)).without_ranges()
    plan = PrivateLinearRegression(1.0, schema=schema, algorithm="objective_perturbation").plan(3000)[0]
    count, octaves = len(plan.columns), plan.first.epsilon + plan.of_target.epsilon
    assert (plan.first.cells, plan.of_target.cells) == ((CELLS,) * count, (CELLS,))
    assert plan.of_target.epsilon == pytest.approx(octaves / 3)
    assert octaves == pytest.approx(np.sqrt(8) * (count + 1) / (0.02 * 3000), rel=1e-9)
    parts = octaves + cells_cost(plan) + plan.then.privacy.epsilon
    assert 0.999 < parts <= 1.0
    charged = [float(each.event.pure_epsilon) for each in plan.releases[:2]]
    assert charged == pytest.approx([plan.of_target.epsilon, plan.first.epsilon])


def test_the_targets_octaves_are_those_of_the_target() -> None:
    frame = table().assign(y=1e6 + np.arange(len(table())))
    schema = Schema(SCHEMA.columns, NumericTarget("y", 0, 1)).without_ranges()
    found = PrivateLinearRegression(50.0, schema=schema, random_state=1).fit(frame).plan_.found
    assert 0.9e6 < found[-1].lower < 1e6 < 1.003e6 < found[-1].upper <= 2**20  # a small part of an octave
    assert found[1].upper <= 2
    wide = frame.assign(y=600 + 0.1 * np.arange(3000))
    found = PrivateLinearRegression(50.0, schema=schema, random_state=1).fit(wide).plan_.found
    assert (found[-1].lower, found[-1].upper) == (128, 1024)  # of which 600 to 900 are a third


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 1.0])
def test_a_target_alone_may_take_half_of_epsilon(epsilon) -> None:
    """A constant finds its range alone, whatever columns are open, and has all the rest."""
    open_target = Schema(SCHEMA.columns, NumericTarget("y", 0, 1)).without_ranges()
    for schema in (open_target, replace(open_target, columns=SCHEMA.columns[:1])):
        plan = PrivateLinearRegression(epsilon, schema=schema, algorithm="constant").plan(1000)[0]
        share = min(max(np.sqrt(8) / (0.04 * 1000 * epsilon), 0.04), 0.5)
        assert plan.of_target is None
        assert plan.first.epsilon == pytest.approx(share * epsilon)
        parts = plan.first.epsilon + cells_cost(plan) + plan.then.privacy.epsilon
        assert 0.999 * epsilon < parts <= epsilon


def test_a_constant_takes_all_of_epsilon_where_other_plans_find_ranges_of_columns() -> None:
    """It uses no column: what ranges, or looks, would cost is its own."""
    for schema in (SCHEMA.without_ranges(), SCHEMA):
        for target in (NumericTarget("y", 0, 1), ClassTarget("y", ("a", "b"))):
            kind = PrivateLogisticRegression if isinstance(target, ClassTarget) else PrivateLinearRegression
            asked = replace(schema, target=target)
            plan = kind(1.0, schema=asked, algorithm="constant").plan(1000)[0]
            assert plan.certificate(SeededSource(0)).spent_epsilon > 0.999


def test_changing_a_record_changes_every_column_by_two_at_most() -> None:
    """What the released counts are before the noise, for all records in turn."""
    rng = np.random.default_rng(1)
    values = rng.choice([*EXTREME.values(), 0.0, 1.0, -5.0], 200)
    before = histogram(ranges.ranges.cells(values), CELLS, None)
    for k in range(len(values)):
        other = values.copy()
        other[k] = 77.0
        assert np.abs(histogram(ranges.ranges.cells(other), CELLS, None) - before).sum() <= 2


@pytest.mark.parametrize("seed", range(5))
def test_users_have_weights_that_add_up_to_exactly_one(seed) -> None:
    """Also one with a record in each of many cells; replacing all records of a user moves a weight of 1."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(5), [1, 144, 3, 17, 1000])
    cells = np.concatenate(
        [np.arange(144) if k == 1 else rng.integers(0, 144, m) for k, m in enumerate((1, 144, 3, 17, 1000))]
    )
    order = rng.permutation(len(labels))
    found = histogram(cells[order], CELLS, UserGroups.of(labels[order]))
    assert found.sum() == 5.0
    np.testing.assert_array_equal(found, histogram(cells, CELLS, UserGroups.of(labels)))
    for user in range(5):
        alone = histogram(cells[labels == user], CELLS, UserGroups.of(labels[labels == user]))
        rest = histogram(cells[labels != user], CELLS, UserGroups.of(labels[labels != user]))
        assert alone.sum() == 1.0
        assert (alone * UNITS % 1 == 0).all()
        np.testing.assert_array_equal(alone + rest, found)
        share = np.bincount(cells[labels == user], minlength=CELLS) / (labels == user).sum()
        assert np.abs(alone - share).max() < 1 / UNITS


def test_users_fit_and_verify() -> None:
    frame = table(4000)
    groups = np.arange(4000) // 2
    model = PrivateLogisticRegression(4.0, schema=SCHEMA).fit(frame, groups=groups)
    assert all(check.passed for check in verify(model.certificate_).checks)
    assert {str(r.sensitivity.unit) for r in model.certificate_.releases} == {"user"}


def test_targets_are_clipped_into_what_was_released() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(1000, 1400, (6000, 2))
    y = 3 * X[:, 0] + rng.standard_normal(6000)
    model = PrivateLinearRegression(4.0, feature_bounds="private", target_bounds="private").fit(X, y)
    assert model.score(X, y) > 0.9
    assert all(check.passed for check in verify(model.certificate_).checks)
    bounds = model.ranges_[-1]
    assert model.predict(1e6 * X).max() <= bounds.upper
    assert model.ranges_[0].transform == "none"
    # A second fit knows nothing of the first one's ranges; it has a seed, as noise moves one upper end in 100 above 0.
    again = model.set_params(random_state=0).fit(X, -y)
    assert again.ranges_[-1].upper <= 0


@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivateAdditiveRegressor])
@pytest.mark.dear("PrivateAdditiveRegressor")
def test_declared_columns_are_encoded_once_beside_a_private_target(estimator) -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (6000, 2))
    model = estimator(4.0, feature_bounds=(0, 1), target_bounds="private").fit(X, 1000 + 300 * X[:, 0] - 200 * X[:, 1])
    assert model.score(X, 1000 + 300 * X[:, 0] - 200 * X[:, 1]) > 0.9


@pytest.mark.parametrize("given", [{"residual_cap": 1.0}, {"heavy_tailed": "auto"}])
def test_what_needs_the_targets_range_is_refused_before_the_fit(given) -> None:
    model = PrivateLinearRegression(1.0, feature_bounds=(0, 1), target_bounds="private", **given)
    with pytest.raises(InvalidParameterError, match="target_bounds"):
        model.plan(1000, 2)


def test_who_cannot_find_ranges_refuses_them() -> None:
    with pytest.raises(InvalidParameterError, match="must be declared here"):
        SCHEMA.domain()
    with pytest.raises(InvalidParameterError, match="must be declared"):
        PrivateSearchCV(PrivateLogisticRegression(schema=SCHEMA), {"coefficient_norm": [1.0, 2.0]}).plan(1000)
    with pytest.raises(InvalidParameterError, match="feature_bounds"):
        PrivateLogisticRegression(feature_bounds="public").plan(1000, 2)


SKEWED = Schema(
    (
        CategoricalColumn("kind", ("p", "q", "r")),
        NumericColumn("amount", 0, 1e5, "log1p"),
        NumericColumn("share", 0, 1),
        NumericColumn("age", 10, 100),
    ),
    SCHEMA.target,
)


def shaped(frame: pd.DataFrame, **more) -> PrivateAdditiveClassifier:
    return PrivateAdditiveClassifier(6.0, **{"schema": SKEWED, "random_state": 3, **more}).fit(frame)


def test_knots_are_found_in_declared_logarithmic_ranges(tmp_path) -> None:
    """One more release and no range; what the certificate holds gives them again, and nothing else does."""
    frame = table(6000)
    model = PrivateAdditiveClassifier(6.0, schema=SKEWED).fit(frame)
    plan = model.plan_
    assert (plan.first, plan.placed, plan.second.cells, plan.looked) == (None, (1,), (33,), (3,))
    assert len(model.ranges_) == 1  # a part of the ages'
    assert plan.second.epsilon == pytest.approx(0.04 * 6)
    assert plan.looks.epsilon + plan.second.epsilon + plan.then.privacy.epsilon <= 6.0
    assert [r.mechanism for r in model.certificate_.releases].count(plan.second.name) == 1
    assert verify(model.certificate_).passed
    assert 0 in model.knots_[1]
    assert 0 < model.knots_[1][1] < 1  # half of the amounts are 0: a kind of their own
    assert len(model.knots_[1]) == 5 < len(model.knots_[3])
    assert plan.resumed(*plan.course).found_knots == plan.found_knots
    for forged in ((0, 1, 2, 32), (1, 2, 3, 4, 32), (0, 9, 9, 10, 32)):
        with pytest.raises(InvalidParameterError, match="knots"):
            plan.resumed((), (forged,), *plan.course[2:])
    save_model(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.knots_ == model.knots_
    assert model.plans_at(4.0)[0].second.epsilon == pytest.approx(0.04 * 4)
    parts = model.contributions(frame).sum(1)
    np.testing.assert_allclose(parts + model.intercept_, model.decision_function(frame), atol=1e-9)


def test_knots_are_read_off_what_was_released(monkeypatch) -> None:
    before = shaped(table(6000))
    monkeypatch.setattr(JointHistogram, "_sample", lambda self, value, source: np.roll(value, 9))
    after = shaped(table(6000))
    assert before.knots_[1] != after.knots_[1]
    assert before.plan_.problem == after.plan_.problem


@pytest.mark.thin
@pytest.mark.parametrize("value", EXTREME.values(), ids=EXTREME)
@pytest.mark.dear("missing")
def test_neighbors_find_knots_by_the_same_plan(value) -> None:
    frame = table(6000)
    other = frame.copy()
    other.loc[7, "amount"] = value
    one, two = shaped(frame), shaped(other)
    assert one.plan_.releases == two.plan_.releases
    assert one.plan_.problem == two.plan_.problem == PrivateAdditiveClassifier(6.0, schema=SKEWED).plan(6000)[0].problem
    assert [len(own) for own in one.knots_] == [len(own) for own in two.knots_]


def test_users_find_knots() -> None:
    model = PrivateAdditiveClassifier(6.0, schema=SKEWED).fit(table(12_000), groups=np.arange(12_000) // 2)
    assert model.plan_.placed == (1,)
    assert verify(model.certificate_).passed
    assert {str(r.sensitivity.unit) for r in model.certificate_.releases} == {"user"}


@pytest.mark.thin
@pytest.mark.parametrize(
    ("amount", "n", "more"),
    [
        (NumericColumn("amount", 0, 1e5, "sqrt"), 6000, {}),
        (NumericColumn("amount", 0, 1e5, "log1p", knots=(0, 10, 1e5)), 6000, {}),
        (NumericColumn("amount", 1, 1 + 2e-15, "log1p"), 6000, {}),  # of too few floats
        (SKEWED.columns[1], 300, {}),
        (SKEWED.columns[1], 6000, {"knots": 6}),
    ],
    ids=["no logarithm", "declared", "few floats", "few records", "their number is given"],
)
@pytest.mark.dear("few records")
def test_knots_are_not_looked_for(amount, n, more) -> None:
    schema = replace(SKEWED, columns=(SKEWED.columns[0], amount, *SKEWED.columns[2:]))
    assert not getattr(PrivateAdditiveClassifier(6.0, schema=schema, **more).plan(n)[0], "placed", ())


@pytest.mark.thin
@pytest.mark.parametrize("opened", ["share", "target"])
@pytest.mark.gate
def test_knots_are_found_beside_the_ranges_of_others(opened, tmp_path) -> None:
    """Ranges of other columns, or of the target, in the same certificate: both are found, and a saved model agrees."""
    frame = table(12_000)
    columns = [UnrangedColumn("share", "none") if c.name == opened else c for c in SKEWED.columns]
    target = NumericTarget("z", -2, 3) if opened == "share" else UnrangedTarget("z")
    frame["z"] = np.log1p(frame.amount).clip(0, 3) - frame.share
    model = PrivateAdditiveRegressor(6.0, schema=Schema(tuple(columns), target)).fit(frame)
    looks = 2 * (opened == "share")  # at the declared target, and at ages
    assert (model.plan_.placed, len(model.ranges_), len(model.knots_[1])) == ((1,), 1 + looks, 5)
    assert verify(model.certificate_).passed
    assert model.score(frame, frame.z) > 0.9
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict(frame), model.predict(frame))


def test_a_constant_finds_the_range_of_the_target_alone() -> None:
    """Among those of 60 columns it was lost, and of 20: predictions were 1 where targets are 3,000, at any epsilon."""
    rng = np.random.default_rng(0)
    y, seen = rng.normal(3000, 500, 900), []
    for X in (rng.normal(size=(900, 20)), np.full((900, 20), np.nan)):  # columns are not read
        given: dict[str, Any] = {"feature_bounds": "private", "target_bounds": "private", "random_state": 0}
        for kind in (PrivateLinearRegression, PrivateAdditiveRegressor):
            with pytest.warns(HopelessPlanWarning):
                model = kind(1.0, **given).fit(X, y)
            assert model.plan_.algorithm == "constant"
            assert np.square(model.predict(X) - y).mean() < 1.5 * y.var()
            assert model.plan_.columns == ()
            seen.append((kind.__name__, model.ranges_[-1], model.intercept_, model.certificate_.releases))
    assert seen[:2] == seen[2:]
    few = PrivateLinearRegression(1.0, feature_bounds="private", target_bounds="private").plan(100_000, 60)[0]
    assert few.algorithm != "constant"
    assert lost(1.0, 900, 61)
    assert lost(1.0, 499, 2)  # looks at ranges found cut too much, whatever octaves say
    assert not lost(1.0, 501, 2)
    assert not lost(1.0, 300, 1)
    assert not lost(1.0, 900, 1)
    assert not lost(1.0, 100_000, 61)


@pytest.mark.parametrize("given", [{"epsilon": 5.0}, {"delta": 1e-5}, {"neighboring": "add_or_remove_one"}])
def test_the_method_promises_no_more_than_the_whole(given: dict[str, Any]) -> None:
    """A method that goes on from its releases may cost all of its promise, whatever its first releases cost."""
    problem = LinearModelProblem(LogisticLoss(), DataDomain.box(2, 0.5).with_intercept(1.0), 30_000, 2.0)
    rest = PrivacyParams(ranges.remaining(4.0, 30_000, 1), 1e-6)
    then = plans(problem, rest, "recentering")[0]
    assert ranges.plan(then, PrivacyParams(4.0, 1e-6), (0,)).adaptive
    with pytest.raises(InvalidParameterError, match="then="):
        ranges.plan(replace(then, privacy=replace(then.privacy, **given)), PrivacyParams(4.0, 1e-6), (0,))
