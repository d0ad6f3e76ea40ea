"""Fits with inference: what they offer, what is stored, what is refused, and that sources give the same bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    Schema,
    load_model,
)
from dpconvex.algorithms.curvature import inference_of
from dpconvex.cli.main import app
from dpconvex.data import ClassTarget, NumericTarget, UnrangedColumn, UnrangedTarget, open_files
from dpconvex.errors import HopelessPlanWarning, InvalidDataError, InvalidParameterError, NotPaidForError
from dpconvex.estimators.persistence import save_model
from dpconvex.privacy import PrivacyParams
from dpconvex.randomness import SystemSource
from dpconvex.verification import verify

N = 20_000
RNG = np.random.default_rng(0)
X, LEVEL = RNG.uniform(0, 10, (N, 2)), RNG.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
SCORE = 0.3 * (X[:, 0] - 5) + np.where(LEVEL == "b", 1.0, 0.0)
TABLE = pa.table(
    {
        "x": X[:, 0],
        "z": X[:, 1],
        "kind": np.where(RNG.random(N) < 0.1, "", LEVEL),  # a tenth is missing
        "y": np.where(RNG.random(N) < 1 / (1 + np.exp(-SCORE)), "yes", "no"),
        "amount": 50 + 10 * SCORE + RNG.normal(0, 5, N),
    }
)
COLUMNS = (NumericColumn("x", 0, 10), NumericColumn("z", 0, 10), CategoricalColumn("kind", ("a", "b", "c")))
CLASSES = Schema(COLUMNS, ClassTarget("y", ("no", "yes")))
AMOUNTS = Schema(COLUMNS, NumericTarget("amount", 0, 100))


def logistic(**more: Any) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(
        **{"epsilon": 3.0, "schema": CLASSES, "inference": True, "random_state": 0, **more}
    )


@pytest.fixture(scope="module")
def fitted() -> PrivateLogisticRegression:
    return logistic().fit(TABLE)


def test_a_summary_says_what_statistics_packages_say(fitted: PrivateLogisticRegression) -> None:
    assert fitted.summary().names == ("(intercept)", "x", "z", "kind=b (against a)", "kind=c (against a)")
    ends, text = fitted.conf_int(), str(fitted.summary())
    long = replace(
        fitted.summary(), names=("(intercept)", "x", "z", "a long name of a column=a level (against b)", "k")
    )
    lines = str(long).splitlines()[2:9]
    assert len(lines) == 7  # the long name has a line of its own
    assert max(map(len, lines)) <= 80
    assert (ends[1:4, 0] < [3.0, 0.0, 1.0]).all()  # per encoded column, ten units wide
    assert (ends[1:4, 1] > [3.0, 0.0, 1.0]).all()
    assert ((fitted.pvalues_ < 0.01) == [False, True, False, True, False]).all() or fitted.pvalues_[0] < 0.01
    np.testing.assert_allclose(np.sqrt(fitted.cov_params().diagonal()), fitted.bse_)
    assert "log-odds" in text
    assert all(word in text for word in ("std err", "P>|z|", "[0.025", "0.975]", "kind=b (against a)"))
    sure = replace(fitted.summary().found, p_value=np.array([1 / 10_001, 0.5, 1e-4, np.nan, 1.0]))
    rows = [line.split()[-3] for line in str(replace(fitted.summary(), found=sure)).splitlines()[3:8]]
    assert rows == ["<1e-4", "0.5", "0.0001", "-", "1"]  # 9.999e-05 is what no draw reached
    wide = fitted.conf_int(0.99)
    assert (wide[:, 1] - wide[:, 0] > ends[:, 1] - ends[:, 0]).all()
    assert (fitted.conf_int(joint=True)[:, 1] > ends[:, 1]).all()
    turned = fitted.summary(reference={"kind": "b"})
    assert turned.names[3] == "kind=a (against b)"
    assert turned.found.estimate[3] == pytest.approx(-fitted.summary().found.estimate[3])
    shown = fitted.summary().to_dict()
    assert tuple(shown["notes"]) == fitted.summary().notes
    rows = shown["rows"]
    assert rows["x"]["finite"]
    assert rows["x"]["why"] == ""
    for reference in ({"kind": "d"}, {"x": "1"}, "III"):
        with pytest.raises(InvalidParameterError, match="reference"):
            fitted.summary(reference=reference)
    with pytest.raises(InvalidParameterError, match="level"):
        fitted.conf_int(1.0)


def test_a_summary_says_what_a_coefficient_is_per(fitted: PrivateLogisticRegression) -> None:
    """Of a schema: over the whole range, with the intercept in the middle of it. Of a matrix: in its own units."""
    text, found = str(fitted.summary()), fitted.summary().found.estimate
    assert "Coefficients are over the whole range of a number, declared or found, and against the level" in text
    assert "The intercept is at the middle of ranges and of two levels, and at levels named." in text
    rows = pa.table({"x": [0.0, 10.0, 5.0], "z": [5.0] * 3, "kind": ["a"] * 3})
    low, high, middle = fitted.decision_function(rows)
    assert high - low == pytest.approx(found[1], rel=0.2)  # predictions are shrunk by the ridge
    assert middle == pytest.approx(found[0], abs=0.2)
    plain = logistic(schema=None, feature_bounds=(0, 10), classes=["no", "yes"])
    plain.fit(X, np.array(TABLE["y"].to_pylist()))
    assert "Coefficients are per unit of a column.\nThe intercept is where all columns are 0." in str(plain.summary())
    ten = plain.summary().found.estimate
    first, last = plain.decision_function(np.array([[0.0, 0.0], [10.0, 0.0]]))
    assert last - first == pytest.approx(10 * ten[1], rel=0.2)
    assert first == pytest.approx(ten[0], abs=0.4)


def test_references_of_two_levels_are_read_before_they_are_refused() -> None:
    table = TABLE.append_column("sex", pa.array(["female", "male"] * (len(TABLE) // 2)))
    own = Schema((*COLUMNS, CategoricalColumn("sex", ("female", "male"))), CLASSES.target)
    model = logistic(schema=own).fit(table)
    with pytest.raises(InvalidParameterError, match="'femal': must be one of 'female', 'male'"):
        model.summary(reference={"sex": "femal"})
    with pytest.raises(InvalidParameterError, match="'sex': must name columns of three or more levels"):
        model.summary(reference={"sex": "female"})


def test_bands_of_predictions_hold_the_probability(fitted: PrivateLogisticRegression) -> None:
    bands, few = fitted.predict_interval(TABLE.slice(0, 300)), fitted.predict_proba(TABLE.slice(0, 300))[:, 1]
    truth = 1 / (1 + np.exp(-SCORE[:300]))
    assert bands.shape == (300, 2)
    assert ((bands[:, 0] < few) & (few < bands[:, 1])).mean() > 0.9
    listed = np.array(TABLE["kind"].to_pylist())[:300] != ""
    assert ((bands[:, 0] < truth) & (truth < bands[:, 1]))[listed].mean() > 0.5


def test_a_saved_model_and_its_certificate_know_the_intervals(
    fitted: PrivateLogisticRegression, tmp_path: Path
) -> None:
    save_model(fitted, tmp_path / "m.skops")
    loaded: Any = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.conf_int(), fitted.conf_int())
    failed = [check.name for check in verify(fitted.certificate_).checks if not check.passed]
    assert failed == ["noise is not seeded"]
    assert fitted.certificate_.spent_epsilon <= 3
    assert "standard errors" in fitted.certificate_.theorem
    loaded.inference = 1
    save_model(loaded, tmp_path / "n.skops")
    with pytest.raises(InvalidDataError, match="inference"):
        load_model(tmp_path / "n.skops")


@pytest.mark.parametrize(
    ("model", "slopes", "word"),
    [(PrivateLinearRegression, (30, 0, 10), "least squares"), (PrivateHuberRegressor, (30, 0, 10), "pseudo-Huber")],
)
def test_regressions_have_intervals_in_the_target_s_unit(model: Any, slopes: Any, word: str) -> None:
    found = model(5.0, schema=AMOUNTS, inference=True, random_state=1).fit(TABLE)
    ends = found.conf_int(0.999)
    assert np.isfinite(ends).all()
    assert (ends[1:4, 0] < slopes).all()
    assert (ends[1:4, 1] > slopes).all()
    assert (ends[1:4, 1] - ends[1:4, 0] < 20).all()
    assert word in str(found.summary())
    assert getattr(inference_of(found.plan_), "robust", False)
    middle = found.predict_interval(TABLE.slice(0, 50)).mean(1)
    assert np.abs(middle - found.predict(TABLE.slice(0, 50))).max() < 5


@pytest.mark.parametrize("model", [PrivateLinearRegression, PrivateAdditiveRegressor])
def test_least_squares_caps_residuals_at_half_the_range_unless_told_otherwise(model: Any) -> None:
    plan: Any = model(1.0, schema=AMOUNTS, inference=True).plan(N)[0]
    assert plan.problem.loss.facts == {"residual_cap": 0.5}
    if model is PrivateLinearRegression:
        for cap, name in ((100.0, "squared"), (20.0, "huber")):
            told: Any = model(1.0, schema=AMOUNTS, inference=True, residual_cap=cap).plan(N)[0]
            assert told.problem.loss.name == name
            assert (told.expected_intervals[0] > plan.expected_intervals[0]) == (name == "squared")
        assert told.problem.loss.facts == {"residual_cap": 0.2}


@pytest.mark.parametrize("model", [logistic, PrivateAdditiveClassifier])
def test_plans_do_not_count_on_intervals_of_other_values(model: Any) -> None:
    """Nobody may have the level (other); then its interval is infinite, whatever the plan's table was."""
    schema = replace(CLASSES, columns=(*COLUMNS[:2], CategoricalColumn("kind", ("a", "b", "c"), other=True)))
    plan: Any = model(epsilon=30.0, schema=schema, inference=True).plan(10 * N)[0]
    _, finite, of = plan.expected_intervals
    assert finite == of - 1
    assert f"{finite} of {of} finite" in plan.note


def test_arrays_have_names_and_units_of_their_own() -> None:
    bounds = (np.array([0.0, 0.0]), np.array([10.0, 10.0]))
    found = logistic(schema=None, feature_bounds=bounds, classes=["no", "yes"]).fit(X, TABLE["y"].to_pylist())
    assert found.summary().names == ("(intercept)", "x0", "x1")
    assert 0.2 < found.conf_int()[1, 0] < found.conf_int()[1, 1] < 0.35  # of the best model without the category
    np.testing.assert_allclose(found.summary().found.estimate[1:], found.coef_[0], atol=0.1)


def test_a_table_that_is_read_portion_by_portion_gives_the_same_bits(
    fitted: PrivateLogisticRegression, tmp_path: Path
) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet", row_group_size=7000)
    streamed = logistic().fit(open_files(tmp_path, CLASSES))
    np.testing.assert_array_equal(streamed.conf_int(), fitted.conf_int())


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("tilt", {"tilt": 0.1}),
        ("adversarial_radius", {"adversarial_radius": 0.1}),
        ("algorithm", {"algorithm": "output_perturbation"}),
        ("algorithm", {"algorithm": "recentering"}),
        ("constants", {"constants": "paper"}),
        ("risk", {"risk": "population"}),
        ("class_weight", {"class_weight": {"no": 1.0, "yes": 2.0}}),
        ("weight_cap", {"weight_cap": 2.0}),
        ("weight_cap", {"schema": Schema(COLUMNS, CLASSES.target, weight="w", weight_cap=3.0)}),
        ("inference", {"schema": Schema(COLUMNS, CLASSES.target, user="who"), "inference": "model"}),
        ("problem", {"schema": Schema(COLUMNS, ClassTarget("y", ("no", "yes", "maybe")))}),
        ("problem", {"fit_intercept": False}),
        ("features", {"schema": None, "feature_norm": 1.0}),
        ("inference", {"inference": "exact"}),
        ("inference", {"inference": 1}),
    ],
)
def test_what_no_interval_is_proved_for_is_refused_before_data_are_read(name: str, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError) as refused:
        logistic(**more).plan(1000, 3)
    assert refused.value.name == name


def test_a_number_and_its_mark_of_missing_values_have_intervals_of_their_own() -> None:
    """Their bound on both together is one on each."""
    rng = np.random.default_rng(8)
    columns = (NumericColumn("a", 0, 10, indicator=True), NumericColumn("b", 0, 100))
    a, b = rng.uniform(0, 10, 20_000), rng.uniform(0, 100, 20_000)
    y = (rng.random(20_000) < 1 / (1 + np.exp(4 - 0.6 * a - 0.02 * b))).astype(int)
    frame = pa.table({"a": np.where(rng.random(20_000) < 0.3, np.nan, a), "b": b, "y": y})
    schema = Schema(columns, ClassTarget("y", ("0", "1")))
    for delta in (0.0, 1e-6):
        model = PrivateLogisticRegression(2.0, delta, schema=schema, inference=True).fit(frame)
        blocks = model.plan_.problem.domain.blocks
        assert [(block.size, block.norm, block.bound) for block in blocks] == [(1, "linf", 0.5)] * 3
        assert np.isfinite(model.conf_int()).all()
        assert model.summary().found.p_value[1] < 0.01
        assert verify(model.certificate_).passed


def test_domains_with_simplices_and_searches_are_refused(fitted: PrivateLogisticRegression) -> None:
    domain = CLASSES.domain()
    with pytest.raises(InvalidParameterError, match="domain"):
        logistic(schema=None, domain=domain).plan(1000)
    with pytest.raises(InvalidParameterError, match="inference"):
        PrivateSearchCV(logistic(), {"l2": [0.1, 1.0]}).plan(1000)
    with pytest.raises(InvalidParameterError, match=r"^sample_weight='ndarray': cannot"):
        logistic().fit(TABLE, sample_weight=np.ones(N))
    with pytest.raises(InvalidParameterError, match=r"^inference='model'"):
        logistic(inference="model").fit(TABLE, groups=np.arange(N))
    plain = logistic(inference=False).fit(TABLE)
    for ask in ("bse_", "pvalues_"):
        assert not hasattr(plain, ask)
    with pytest.raises(NotPaidForError, match="inference=True"):
        plain.conf_int()


@pytest.mark.thin
@pytest.mark.parametrize("model", [PrivateLinearRegression, PrivateHuberRegressor])
def test_with_delta_intervals_come_from_one_gaussian_event(model: Any) -> None:
    given = {"delta": 1e-6, "inference": True, "random_state": 1}
    for found in (logistic(delta=1e-6).fit(TABLE), model(3.0, schema=AMOUNTS, **given).fit(TABLE)):
        assert "delta 1e-06" in str(found.summary())
        *looks, release = found.certificate_.releases
        assert {each.event.kind for each in looks} <= {"pure_mechanism"}
        assert release.event.kind == "gaussian_objective_perturbation_with_curvature"
        assert "(3.4t)" in found.certificate_.explain()
        assert np.isfinite(found.conf_int()).all()
        assert found.plans_at(1.0)[0].privacy == PrivacyParams(1.0, 1e-6)


@pytest.mark.gate
def test_users_have_intervals_from_memory_and_from_files_with_the_same_bits(tmp_path: Path) -> None:
    """Every record twice, and once more under other users: what users say is what their records say."""
    labels = np.arange(N) // 3
    found = logistic(epsilon=5.0).fit(TABLE, groups=labels)
    assert np.isfinite(found.conf_int()).all()
    assert f"{labels[-1] + 1} users" in str(found.summary())
    twice = TABLE.take(pa.array(np.repeat(np.arange(N), 2)))
    again = logistic(epsilon=5.0).fit(twice, groups=np.repeat(labels, 2))
    np.testing.assert_allclose(again.conf_int(), found.conf_int(), atol=0.01)  # quantiles are simulated
    pq.write_table(TABLE.append_column("who", pa.array(labels)), tmp_path / "t.parquet", row_group_size=7000)
    schema = replace(CLASSES, user="who")
    streamed = logistic(epsilon=5.0, schema=schema).fit(open_files(tmp_path, schema))
    np.testing.assert_array_equal(streamed.conf_int(), found.conf_int())


@pytest.mark.thin
@pytest.mark.parametrize("missing", ["own", "none", "auto"])
def test_shapes_have_intervals_of_their_values(missing: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60_000, 2))
    y = rng.random(len(X)) < 1 / (1 + np.exp(1 - 3 * np.abs(X[:, 0])))
    given = {"feature_bounds": (-1, 1), "inference": True, "knots": 3, "missing": missing, "random_state": 2}
    model = PrivateAdditiveClassifier(3.0, **given).fit(X, y)
    save_model(model, tmp_path / "m.skops")
    loaded: Any = load_model(tmp_path / "m.skops")
    table = model.shape_table().to_pylist()
    assert table == loaded.shape_table().to_pylist()
    first = [row for row in table if row["column"] == "feature 0"]
    base = next(row["value"] for row in first if row["lower"] == row["upper"])
    apart = [(row["lower"] - base, row["upper"] - base) for row in first if row["lower"] != row["upper"]]
    known = [each for each in apart if np.isfinite(each).all()]
    assert len(known) == 2
    assert all(0.9 < abs(low + high) / 2 < 3.5 or abs(low + high) < 0.4 for low, high in known)
    assert len(apart) - len(known) == (missing == "own")  # no cell is missing
    assert "against the level named" in str(model.summary())
    printed = CliRunner().invoke(app, ["shapes", str(tmp_path / "m.skops")]).output
    assert printed.count("(reference)") == 2
    assert "of the reference, the vertex seen most." in printed
    assert any("feature 0=1 (against" in name or "feature 0=1" in name for name in model.summary().names)
    bands = model.predict_interval(X[:50])
    middle = model.predict_proba(X[:50])[:, 1]
    assert np.mean((bands[:, 0] < middle) & (middle < bands[:, 1])) > 0.6
    assert np.ptp(bands, axis=1).max() < 0.15
    assert model.plans_at(1.0)[0].privacy.epsilon == 1.0


@pytest.mark.slow
def test_knots_are_as_many_as_intervals_can_be_had_for() -> None:
    given = {"feature_bounds": (-1, 1), "inference": True}
    few, many = (PrivateAdditiveClassifier(1.0, **given).plan(n, 3)[0] for n in (2_000, 2_000_000))
    assert few.problem.domain.dim < many.problem.domain.dim <= 40
    regressor = PrivateAdditiveRegressor(1.0, target_bounds=(0, 1), **given)
    assert regressor.plan(50_000, 2)[0].robust
    for name, more in {"loss": {"loss": "quantile"}, "monotone": {"monotone": {"feature 0": "increasing"}}}.items():
        with pytest.raises(InvalidParameterError) as refused:
            clone(regressor).set_params(**more).plan(5000, 2)
        assert refused.value.name == name
    with pytest.raises(InvalidParameterError, match=r"^interactions="):
        clone(regressor).set_params(interactions=[("feature 0", "feature 1")]).plan(5000, 2)


def test_content_changes_neither_plan_nor_messages() -> None:
    """A degenerate table: nothing raises, nothing is known, and the plan is that of any table."""
    one = TABLE.slice(0, 1).take(pa.array(np.zeros(500, dtype=np.int64)))
    found = logistic(epsilon=0.5).fit(one)
    assert found.conf_int().shape == (5, 2)
    assert found.plan_.share == logistic(epsilon=0.5).plan(500)[0].share
    assert "the data do not say" in str(found.summary())


def test_a_fit_whose_intervals_will_hardly_be_finite_says_so_before_it_is_paid_for() -> None:
    with pytest.warns(HopelessPlanWarning, match="no interval is expected to be finite"):
        logistic(epsilon=0.01).fit(TABLE)


def test_a_real_source_verifies_without_exception() -> None:
    found = logistic(random_state=SystemSource()).fit(TABLE.slice(0, 2000))
    assert verify(found.certificate_).passed


def test_a_linear_probability_has_no_cap() -> None:
    """With a cap of half the range the interval of the intercept of a rare yes covered 8 % of the time."""
    given = {"feature_bounds": (0, 1), "inference": True}
    losses = [PrivateLinearRegression(2.0, target_bounds=(0, top), **given).plan(5000, 3)[0] for top in (1, 2)]
    assert [plan.problem.loss.name for plan in losses] == ["squared", "huber"]
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5000, 3))
    y = rng.uniform(size=5000) < 0.1 + 0.2 * X[:, 0]
    model = PrivateLinearRegression(2.0, target_bounds=(0, 1), random_state=0, **given).fit(X, y)
    low, high = np.asarray(model.conf_int()).T
    assert ((low < [0.1, 0.2, 0, 0]) & (high > [0.1, 0.2, 0, 0])).all()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_ranges_come_before_intervals_which_then_are_per_range(delta: float) -> None:
    """Coefficients over their found ranges are slopes in the columns' own units, wherever the ranges lie."""
    wide = tuple(replace(each, lower=-100.0, upper=300.0) if each.numeric else each for each in COLUMNS)
    open_ = tuple(UnrangedColumn(each.name) if each.numeric else each for each in COLUMNS)
    goals = NumericTarget("amount", 0, 100), UnrangedTarget("amount")
    for columns, goal in zip((wide, open_), goals, strict=True):
        found = PrivateLinearRegression(5.0, delta, schema=Schema(columns, goal), inference=True, random_state=1)
        found.fit(TABLE)
        ends, ranges = found.conf_int(0.999), found.found_schema_.columns  # pyright: ignore[reportOptionalMemberAccess]
        widths = np.array([each.upper - each.lower for each in ranges[:2]])  # pyright: ignore[reportAttributeAccessIssue]
        assert (widths < 30).all()
        assert np.isfinite(ends).all()
        assert (ends[1:3, 0] / widths < [3.0, 0.0]).all()
        assert (ends[1:3, 1] / widths > [3.0, 0.0]).all()
        assert "Ranges (ranges_) were found for epsilon" in str(found.summary())
        assert "(targets: " in str(found.summary())
        rows = TABLE.slice(0, 200)
        bands, middle = found.predict_interval(rows), found.predict(rows)
        assert np.abs(bands.mean(1) - middle).max() < 5
        assert np.mean((bands[:, 0] < middle) & (middle < bands[:, 1])) > 0.9
        assert "finite" in found.plan_.note
        assert found.plans_at(2.0)[0].privacy.epsilon == 2.0
        failed = [check.name for check in verify(found.certificate_).checks if not check.passed]
        assert failed == ["noise is not seeded"]
    declared = clone(found).set_params(schema=Schema(wide, goals[0]), algorithm="objective_perturbation").fit(TABLE)
    assert declared.ranges_ == ()
    assert "whole declared range" in str(declared.summary())


@pytest.mark.parametrize("rare", [0.01, 0.03])
def test_no_look_narrows_the_target_of_intervals(rare: float) -> None:
    """A part without the rare values would make another thing of what is estimated; private ranges are asked for."""
    rng = np.random.default_rng(5)
    given = rng.uniform(0, 1, (40_000, 2))
    yes = rng.random(len(given)) < rare * (0.5 + given[:, 0])
    for y, most in ((yes * 1.0, 1.0), (yes * rng.uniform(0, 1000, len(given)), 1000.0)):
        found = PrivateLinearRegression(
            2.0, feature_bounds=(-5, 5), target_bounds=(0, most), inference=True, random_state=0
        ).fit(given, y)
        slope = np.linalg.lstsq(np.column_stack([given, np.ones(len(y))]), y, rcond=None)[0][0]
        assert (found.ranges_[0].lower, found.ranges_[0].upper) == (0, most)
        assert found.conf_int(0.999)[1, 0] < slope < found.conf_int(0.999)[1, 1]


def test_additive_plans_at_another_epsilon_find_as_many_knots() -> None:
    frame = TABLE.select(["x", "z"]).to_pandas()
    model = PrivateAdditiveRegressor(
        3.0, feature_bounds="private", target_bounds="private", knots=4, inference=True, random_state=1
    ).fit(frame, TABLE["amount"].to_numpy())
    again = model.plans_at(3.0)[0]
    assert (again.knots, again.then.privacy) == (model.plan_.knots, model.plan_.then.privacy)


def test_looks_do_not_take_what_a_finite_interval_needs() -> None:
    """From more records on intervals may be finite with looks, too; below, they would be without looks alone."""
    for n in range(300, 4000, 100):
        plan: Any = logistic(epsilon=1.0).plan(n)[0]
        alone: Any = logistic(epsilon=1.0, algorithm="objective_perturbation").plan(n)[0]
        assert getattr(inference_of(plan), "hopeful", None) == alone.hopeful
    assert alone.hopeful
