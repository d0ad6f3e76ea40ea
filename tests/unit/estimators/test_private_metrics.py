"""`private_metrics` and `fit_and_evaluate`: what they read, what they refuse, what they charge."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.metrics import log_loss, mean_pinball_loss, roc_auc_score

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearchCV,
    PrivateSparseLogisticRegression,
    Schema,
    budget_context,
    fit_and_evaluate,
    private_metrics,
    verify,
)
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.errors import (
    AccuracyError,
    BudgetExceededError,
    DpconvexError,
    InvalidDataError,
    InvalidParameterError,
    LargeDeltaWarning,
    SchemaError,
)
from dpconvex.estimators import evaluation
from dpconvex.estimators._features import scores_of_rows
from dpconvex.privacy.context import _counts
from dpconvex.randomness import SystemSource

N = 3000
SCHEMA = Schema(
    (NumericColumn("age", 0, 100), CategoricalColumn("town", ("a", "b", "c"))), ClassTarget("ill", ("no", "yes"))
)


@pytest.fixture(autouse=True)
def _anew():
    _counts.clear()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, 3))
    return X, rng.random(N) < 1 / (1 + np.exp(-4 * X[:, 0]))


@pytest.fixture(scope="module")
def model(data):
    return PrivateLogisticRegression(epsilon=5.0, feature_bounds=(-1, 1), random_state=0).fit(*data)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    age, town = rng.uniform(0, 100, n), rng.choice(["a", "b", "c"], n)
    return pa.table({"age": age, "town": town, "ill": np.where(rng.random(n) < age / 100, "yes", "no")})


@pytest.mark.gate
def test_metrics_of_all_kinds_of_models_are_near_the_measured_ones(data) -> None:
    X, y = data
    options = {"epsilon": 5.0, "random_state": 0}
    for kind in (PrivateLinearSVC, PrivateAdditiveClassifier, PrivateSparseLogisticRegression):
        sparse = kind is PrivateSparseLogisticRegression
        given = (
            {"feature_bound": 1.0, "delta": 1e-6, "classes": [False, True]} if sparse else {"feature_bounds": (-1, 1)}
        )
        fitted = kind(**options, **given).fit(X, y)
        _counts.clear()
        found = private_metrics(fitted, X, y, epsilon=50.0, random_state=1)
        assert found["accuracy"].value == pytest.approx(fitted.score(X, y), abs=2e-3)
        assert ("log_loss" in found) == (kind is not PrivateLinearSVC)
    ragged = scipy.sparse.csr_array(X)
    assert private_metrics(fitted, ragged, y, epsilon=50.0, random_state=1)["accuracy"] == found["accuracy"]
    line = PrivateLinearRegression(target_bounds=(-4, 4), feature_bounds=(-1, 1), **options).fit(X, 3 * X[:, 0])
    _counts.clear()
    numbers = private_metrics(line, X, 3 * X[:, 0], epsilon=50.0)
    assert numbers["r2"].value == pytest.approx(line.score(X, 3 * X[:, 0]), abs=0.02)
    kept = line.ranges_[0]  # the part of the range that a look kept: without it errors may look small
    assert numbers.to_dict()["classes"] == []
    assert numbers.to_dict()["scope"] == f"Targets count as clipped to {kept.lower:g} to {kept.upper:g}."
    lasso = PrivateLasso(1.0, 1e-6, feature_bound=1.0, target_bounds=(-4, 4), random_state=0).fit(X, 3 * X[:, 0])
    _counts.clear()
    assert private_metrics(lasso, X, 3 * X[:, 0], epsilon=50.0)["mae"].known


def test_metrics_of_three_classes_say_which_is_which(data) -> None:
    X, _ = data
    labels = np.array(["ill", "dead", "well"])[np.arange(len(X)) % 3]
    kinds = PrivateLogisticRegression(5.0, feature_bounds=(-1, 1), classes=["ill", "dead", "well"], random_state=0)
    found = private_metrics(kinds.fit(X, labels), X, labels, epsilon=5.0, random_state=0)
    assert found.scope_ == "Classes: [0] ill, [1] dead, [2] well."  # in the order of `classes_`, as `rate[0]` is
    assert found.to_dict()["classes"] == ["ill", "dead", "well"]


def test_scores_are_functions_of_their_rows_to_the_last_bit(model, data) -> None:
    X = np.random.default_rng(1).uniform(-1, 1, (997, 3))
    whole = scores_of_rows(model, X)
    for part in (slice(0, 1), slice(3, 10), slice(500, 997), slice(1, 996)):
        assert np.array_equal(scores_of_rows(model, X[part]), whole[part])
    wide = PrivateLogisticRegression(epsilon=5.0, feature_bounds=(-1, 1), random_state=0)
    X = np.random.default_rng(1).uniform(-1, 1, (64, 67))
    wide.fit(X, X[:, 0] > 0)
    whole = scores_of_rows(wide, X)
    assert all(np.array_equal(scores_of_rows(wide, X[i : i + 1]), whole[i : i + 1]) for i in range(64))


RARE = Schema(
    (NumericColumn("a", -1, 1), NumericColumn("b", -1, 1), CategoricalColumn("c", ("x", "y", "z"))),
    ClassTarget("ill", ("no", "yes")),
)


@pytest.mark.parametrize("base", [-7, -5, -3, 5])
@pytest.mark.parametrize("told", [False, True])
def test_metrics_of_rare_classes_are_about_the_scores_that_occur(base: float, told: bool) -> None:
    """Intervals hold the truth, which they missed by many deviations while bins ended at log-odds of 4."""
    rng, n = np.random.default_rng(0), 60_000
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n), "c": rng.choice(["x", "y", "z"], n)})
    odds = base + 2 * frame.a + frame.b + np.array([0.0, 1.0, -1.0])[frame.c.map({"x": 0, "y": 1, "z": 2})]
    ill = rng.random(n) < 1 / (1 + np.exp(-odds))
    frame["ill"] = np.where(ill, "yes", "no")
    rates = (1 - ill.mean(), ill.mean()) if told else None
    schema = dataclasses.replace(RARE, target=ClassTarget("ill", ("no", "yes"), rates))
    model = PrivateLogisticRegression(1000.0, schema=schema, slope_cap=1.0, random_state=0).fit(frame[: n // 2])
    test, truth = frame[n // 2 :], ill[n // 2 :]
    p = model.predict_proba(test)[:, 1]
    found = private_metrics(model, test, epsilon=1000.0, random_state=0)
    loss, share = log_loss(truth, p), truth.mean()
    constant = -share * np.log(share) - (1 - share) * np.log1p(-share)
    expected = {
        "auc": roc_auc_score(truth, p), "log_loss": loss, "gain_over_constant": constant - loss,
        "calibration_in_the_large": share - p.mean(), "accuracy": np.mean((p > 0.5) == truth),
    }  # fmt: skip
    for name, value in expected.items():  # the same records, so errors are of bins alone
        assert abs(found[name].value - value) < 0.35 * (found[name].upper - found[name].lower), name


@pytest.mark.parametrize("kind", ["cap .2", "cap .7", "sparse", "margins"])
def test_bins_of_other_models_are_about_the_scores_that_occur(kind: str) -> None:
    rng, n, facts = np.random.default_rng(0), 40_000, {"classes": [0, 1], "random_state": 0}
    X = np.clip(rng.normal(size=(n, 3)) * 0.3, -1, 1)
    y = (rng.random(n) < 1 / (1 + np.exp(5 - X @ np.array([4, 3, 2.0])))).astype(int)
    if kind == "sparse":
        model: Any = PrivateSparseLogisticRegression(1000.0, 1e-6, feature_bound=1.0, radius=20.0, **facts)
    elif kind == "margins":
        model = PrivateLinearSVC(1000.0, feature_bounds=(-1, 1), **facts)
    else:
        cap = float(kind.removeprefix("cap "))
        model = PrivateLogisticRegression(1000.0, feature_bounds=(-1, 1), slope_cap=cap, **facts)
    model.fit(X[: n // 2], y[: n // 2])
    found = private_metrics(model, X[n // 2 :], y[n // 2 :], epsilon=1000.0, random_state=0)["auc"].value
    error = found - roc_auc_score(y[n // 2 :], model.decision_function(X[n // 2 :]))
    assert abs(error) < (0.06 if kind == "margins" else 0.006)


def test_scores_that_all_agree_have_an_area_of_a_half() -> None:
    """A constant: its pairs are ties, which within a bin of ordinary scores are ordered right more often than not."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20_000, 2)), rng.random(20_000) < 0.02
    model = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), algorithm="constant", random_state=0).fit(X, y)
    assert not model.coef_.any()
    assert private_metrics(model, X, y, epsilon=1e4, random_state=0)["auc"].value == pytest.approx(0.5, abs=1e-3)


def test_bins_hold_a_public_center_and_both_sides_of_zero() -> None:
    for bins, center in itertools.product((8, 12, 24), (0.0, -2.5, -4.0, 3.0, -9.0, 20.0)):
        found = evaluation.metrics.grid(bins, center)
        assert len(found.cuts) == bins - 1 == len(found.middles) - 1
        assert found.cuts[found.zero - 1] == 0
        assert np.allclose(np.diff(found.middles), found.step)
        ends = found.middles[[0, -1]]
        assert ends[0] - found.step <= center - 3.5 or center > 0
        assert ends[1] + found.step >= center + 3.5 or center < 0
        assert ends[0] < 0 < ends[1]


def test_thresholds_go_back_through_the_link(data) -> None:
    for cap in (1.0, 0.9, 0.5, 0.3):
        how: Any = {"feature_bounds": (-1, 1), "probabilities": "calibrated", "random_state": 0}
        capped = PrivateLogisticRegression(epsilon=5.0, slope_cap=cap, **how).fit(*data)
        middle = evaluation.metrics.grid(12).cuts
        cuts, link = evaluation._cuts(capped, middle)
        if cap >= 0.5:
            capped_odds = capped._log_odds.__func__
            assert capped_odds is not None
            from dpconvex.losses import LogisticLoss

            assert LogisticLoss(cap).log_odds(cuts) == pytest.approx(middle, abs=1e-9)
            assert np.array_equal(link(middle), middle)
        assert (np.diff(cuts) > 0).all()
        assert cuts[5] == 0
        _counts.clear()
        found = private_metrics(capped, *data, epsilon=50.0)
        assert found["accuracy"].value == pytest.approx(capped.score(*data), abs=2e-3)


def test_groups_come_from_public_levels_and_unlisted_labels_have_a_cell() -> None:
    fitted = PrivateLogisticRegression(epsilon=3.0, schema=SCHEMA, random_state=0).fit(table(4000))
    test = table(4000, 1)
    found = private_metrics(fitted, test, epsilon=3.0, by="town")
    assert tuple(found.groups) == ("town=a", "town=b", "town=c", "(not listed)")
    assert found.groups["town=a"]["accuracy"].known
    assert not found.groups["(not listed)"]["accuracy"].known
    assert set(found.differences) == {"town=b", "town=c", "(not listed)"}
    assert abs(found.differences["town=b"]["accuracy"].value) < 0.1
    two = private_metrics(fitted, test, epsilon=3.0, by={"town": ("a", "b")}).groups
    assert two["(not listed)"]["accuracy"].known
    assert len(two) == 3
    with pytest.raises(InvalidParameterError, match="by='age'"):
        private_metrics(fitted, test, epsilon=1.0, by="age")
    with pytest.raises(InvalidParameterError, match="no data frame"):
        private_metrics(
            PrivateLogisticRegression(feature_bounds=(-1, 1)).fit(np.zeros((50, 2)), np.zeros(50, bool)),
            np.zeros((60, 2)),
            np.zeros(60, bool),
            epsilon=1.0,
            by={"town": ("a",)},
        )
    hostile = test.set_column(1, "town", pa.array(["?", None] * 2000)).set_column(2, "ill", pa.array(["?"] * 4000))
    assert private_metrics(fitted, hostile, epsilon=3.0, by="town")["rate"].value < 0.05


def test_the_certificate_names_model_and_unit_and_verifies(model, data) -> None:
    found = private_metrics(model, *data, epsilon=0.5, groups=np.arange(N) // 3)
    assert found.certificate_.target.unit == "user"
    assert found.certificate_.public["n"] == N // 3
    assert found.certificate_.model == model.certificate_.model
    assert verify(found).passed
    assert set(found.to_dict()) >= {"metrics", "groups", "cells"}
    assert "auc" in str(found)
    chosen = PrivateSearchCV(PrivateLogisticRegression(feature_bounds=(-1, 1)), {"slope_cap": [0.5, 1.0]}).fit(*data)
    assert private_metrics(chosen, *data, epsilon=0.5).certificate_.model == chosen.certificate_.model
    assert verify(chosen).passed  # a model, too, if it is the one that was released
    chosen.best_estimator_.coef_ = 2 * chosen.best_estimator_.coef_
    assert [check.name for check in verify(chosen).checks if not check.passed] == ["model"]


def test_what_is_refused_is_public(model, data) -> None:
    X, y = data
    for wrong in ({"epsilon": 0.0}, {"epsilon": 1.0, "random_state": "x"}):
        with pytest.raises(InvalidParameterError):
            private_metrics(model, X, y, **wrong)
    with pytest.raises(InvalidParameterError, match="linear, additive or sparse model of this library"):
        private_metrics(object(), X, y, epsilon=1.0)
    with pytest.raises(InvalidDataError, match="must agree"):
        private_metrics(model, X, y[:-1], epsilon=1.0)
    with pytest.raises(InvalidDataError, match="must have one length"):
        private_metrics(model, X, y, epsilon=1.0, groups=np.zeros(3))


def test_evaluations_are_paid_from_open_budgets(model, data) -> None:
    with budget_context(epsilon=1.0) as budget:
        private_metrics(model, *data, epsilon=0.6)
        assert float(budget.account().left[0]) == pytest.approx(0.4)
        with pytest.raises(BudgetExceededError):
            private_metrics(model, *data, epsilon=0.6)


def test_a_hold_out_charges_the_larger_price_once(data) -> None:
    for fit, test in ((1.0, 0.5), (0.5, 1.25)):
        with budget_context(epsilon=1.25) as budget:
            estimator = PrivateLogisticRegression(epsilon=fit, feature_bounds=(-1, 1))
            found = fit_and_evaluate(estimator, *data, epsilon=test)
            assert float(budget.account().left[0]) == 1.25 - max(fit, test)
        assert estimator.plan_.problem.n == 2400
        assert found.plan_.n == 600
        assert f"({max(fit, test):g}, 0)" in found.promise_
        assert "NOT PRIVATE" not in found.promise_
    seeded = fit_and_evaluate(PrivateLogisticRegression(feature_bounds=(-1, 1), random_state=0), *data, epsilon=0.1)
    assert "NOT PRIVATE" in seeded.promise_


def test_the_held_out_units_are_random_and_stored_nowhere(monkeypatch) -> None:
    """Whatever the order of the table: both parts hold all kinds of records, and users stay in one piece."""
    X = np.linspace(-1, 1, 1000)[:, None]
    seen = []
    fit = PrivateLogisticRegression._learn

    def watched(self, features, encoded, *others, groups=None, **more):
        seen.append((np.array(encoded)[:, 0], groups))
        return fit(self, features, encoded, *others, groups=groups, **more)

    monkeypatch.setattr(PrivateLogisticRegression, "_learn", watched)
    estimators = [PrivateLogisticRegression(feature_bounds=(-1, 1)) for _ in range(2)]
    for estimator in estimators:
        _counts.clear()
        fit_and_evaluate(estimator, X, X[:, 0] > 0, epsilon=1.0)
    first, second = (values for values, _ in seen)
    assert len(first) == len(np.unique(first)) == 800
    assert set(first) != set(second)
    assert abs(np.mean(first)) < 0.06
    assert not np.array_equal(first, np.sort(first))
    _counts.clear()
    fit_and_evaluate(
        PrivateLogisticRegression(feature_bounds=(-1, 1)), X, X[:, 0] > 0, epsilon=1.0, groups=np.arange(1000) // 4
    )
    values, groups = seen[-1]
    assert groups.n_users == 200
    assert set(np.bincount(np.rint((values + 0.5) * 999).astype(int) // 4)) <= {0, 4}
    assert not [name for name in vars(estimators[0]) if "order" in name or "held" in name]
    assert SystemSource.private


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"y": np.ones(2999, bool)}, "they must agree"),
        ({"y": np.ones(3001, bool)}, "they must agree"),
        ({"groups": np.arange(2999)}, "must have one length"),
        ({"by": {"a": ("x", "z")}}, "no data frame"),
        ({"y": None}, "requires y"),
        ({"y": np.ones(3000, int)}, "only Booleans say"),
        ({"y": ["yes"] * 3000}, "only Booleans say"),
    ],
)
def test_wrong_labels_are_refused_before_anything_is_paid(data, wrong: dict[str, Any], message: str) -> None:
    """It paid, then raised an `IndexError` that named a row, or asked for the classes."""
    with budget_context(epsilon=1.0) as budget:
        model = PrivateLogisticRegression(feature_bounds=(-1, 1))
        with pytest.raises((InvalidDataError, InvalidParameterError), match=message):
            fit_and_evaluate(model, data[0], **{"y": data[1], "epsilon": 1.0, **wrong})
        assert float(budget.account().left[0]) == 1.0


@pytest.mark.parametrize("by", [{"z": ("u",)}, {"t": ("u",)}, {"a": tuple(map(str, range(600)))}, "classes"])
def test_an_evaluation_that_cannot_run_costs_nothing(by: Any) -> None:
    """The fit was paid for, made and lost."""
    frame = pd.DataFrame({"a": ["u", "v"] * 100, "t": pd.Timestamp("2020-01-01"), "y": ["p", "q", "r", "s"] * 50})
    classes = ("p", "q", *map(str, range(120 * (by == "classes"))))
    model = PrivateLogisticRegression(
        100.0, schema=Schema((CategoricalColumn("a", ("u", "v")),), ClassTarget("y", classes))
    )
    with budget_context(epsilon=200.0) as budget:
        with pytest.raises((InvalidParameterError, SchemaError)):
            fit_and_evaluate(model, frame, epsilon=1.0, by=None if by == "classes" else by)
        assert float(budget.account().left[0]) == 200.0


def test_releases_beyond_the_promise_are_refused_before_anything_is_paid(data) -> None:
    """At deltas below 1e-250 the composition of Gaussian noise exceeds a promise that each plan was made for."""
    options: dict[str, Any] = {"feature_bounds": (-1, 1), "target_bounds": (0, 1)}
    with budget_context(epsilon=1.0, delta=0.1) as budget:
        model = PrivateLinearRegression(1e-3, 1e-300, algorithm="sufficient_statistics", **options)
        with pytest.raises(BudgetExceededError, match="planned releases"):
            model.fit(data[0], data[1])
        assert float(budget.account().left[0]) == 1.0


@pytest.mark.parametrize("wrong", ["no target", "dates", "no weights", "by"])
def test_tables_of_another_form_cost_nothing(wrong: str) -> None:
    """Of a table with its own target, and for `by` and weights, it paid first."""
    x = np.linspace(0, 1, 200)
    frame = pd.DataFrame({"x": x, "y": x, "w": x})
    frame = frame.drop(columns="y") if wrong == "no target" else frame
    frame = frame.assign(y=pd.Timestamp("2020-01-01")) if wrong == "dates" else frame
    frame = frame.drop(columns="w") if wrong == "no weights" else frame
    schema = Schema((NumericColumn("x", 0, 1),), NumericTarget("y", 0, 1), weight="w", weight_cap=1.0)
    with budget_context(epsilon=1.0) as budget:
        with pytest.raises(DpconvexError):
            fit_and_evaluate(
                PrivateLinearRegression(1.0, schema=schema), frame, epsilon=1.0, by="z" if wrong == "by" else None
            )
        assert budget.account().left[0] == 1


def test_models_of_curves_are_planned_with_the_names_of_a_frame() -> None:
    """It paid for a plan of columns without names, found none of their curves in it, and raised `StopIteration`."""
    X = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (60, 2)), columns=["a", "b"])
    model = PrivateAdditiveRegressor(epsilon=30.0, feature_bounds=(-1, 1), target_bounds=(-2, 2))
    assert fit_and_evaluate(model, X, X.a.to_numpy(), epsilon=0.5, holdout=0.3).promise_


def test_hold_outs_that_break_the_promise_are_refused(data) -> None:
    X, y = data
    for wrong, message in (
        ({"holdout": 1.0}, "holdout"),
        ({"holdout": 1e-5}, "leaves 0"),
        ({"holdout": 0.0}, "holdout"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            fit_and_evaluate(PrivateLogisticRegression(feature_bounds=(-1, 1)), X, y, epsilon=1.0, **wrong)
    with pytest.raises(InvalidParameterError, match="List the classes"):
        fit_and_evaluate(PrivateLogisticRegression(feature_bounds=(-1, 1), classes="infer"), X, y, epsilon=1.0)
    with pytest.raises(InvalidParameterError, match="linear or additive"):
        fit_and_evaluate(PrivateLasso(), X, y, epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="X has dtype object: numbers are needed"):
        fit_and_evaluate(PrivateLogisticRegression(feature_bounds=(-1, 1)), None, y, epsilon=1.0)


@pytest.mark.filterwarnings("ignore::dpconvex.errors.RepeatedFitWarning")
@pytest.mark.filterwarnings("ignore::dpconvex.errors.HopelessPlanWarning")
def test_no_content_raises_or_warns_or_changes_what_is_stated(model, case) -> None:
    rng = np.random.default_rng(0)
    wild = np.array([np.nan, np.inf, -np.inf, 1e308, -1e-320, 0.0])
    line = PrivateLinearRegression(target_bounds=(-4, 4), feature_bounds=(-1, 1), random_state=0)
    line.fit(rng.uniform(-1, 1, (500, 3)), rng.uniform(-4, 4, 500))
    found = []
    for content in range(4):
        with case(content):
            X = rng.choice(wild, (500, 3))
            y = np.full(500, content % 2 == 0)
            each = private_metrics(model, X, y, epsilon=0.5, groups=rng.choice(500, 500, replace=False))
            numbers = private_metrics(line, X, rng.choice(wild, 500), epsilon=0.5)
            found.append((set(each), each.certificate_.to_dict()["releases"], set(numbers), numbers.plan_))
    assert all(each == found[0] for each in found)
    labels = pa.table({"age": [None, 5.0, np.nan], "town": [None, "?", "a"], "ill": ["maybe", None, "no"]})
    fitted = PrivateLogisticRegression(epsilon=3.0, schema=SCHEMA, random_state=0).fit(table(100))
    assert set(private_metrics(fitted, labels, epsilon=0.5, by="town").groups) >= {"(not listed)"}


def test_a_fit_that_fails_is_paid_and_nothing_is_evaluated(data, monkeypatch) -> None:
    """The charge stays: what stopped it may depend on the records."""

    def fails(*arguments, **options):
        raise AccuracyError("no accuracy")

    monkeypatch.setattr(PrivateLogisticRegression, "_learn", fails)
    monkeypatch.setattr(evaluation, "_evaluate", lambda *arguments, **options: pytest.fail("it is evaluated"))
    with budget_context(epsilon=1.0) as budget:
        estimator = PrivateLogisticRegression(feature_bounds=(-1, 1))
        with pytest.raises(AccuracyError):
            fit_and_evaluate(estimator, *data, epsilon=0.5)
        assert float(budget.account().left[0]) == 0
    assert estimator._ready is None


def test_weights_of_the_fit_are_capped_in_a_hold_out_too() -> None:
    """The plan that is made first is of weighted records; the evaluation counts every record once."""
    weighted = Schema(SCHEMA.columns, SCHEMA.target, weight="w", weight_cap=2.0)
    rows = table(3000).append_column("w", pa.array(np.full(3000, 1e9)))
    estimator = PrivateLogisticRegression(epsilon=3.0, schema=weighted)
    found = fit_and_evaluate(estimator, rows, epsilon=3.0)
    alone = PrivateLogisticRegression(epsilon=3.0, schema=weighted).plan(2400)[0]
    assert estimator.plan_.problem.loss == alone.problem.loss
    assert estimator.plan_.releases == alone.releases
    assert verify(estimator.certificate_).passed
    assert found["accuracy"].known
    fair = PrivateLogisticRegression(epsilon=3.0, schema=SCHEMA, class_weight=[1.0, 5.0])
    fit_and_evaluate(fair, table(3000), epsilon=3.0)
    assert fair.plan_.problem.loss == estimator.plan_.problem.loss


@pytest.mark.parametrize("additive", [False, True])
def test_models_of_a_quantile_have_pinball_loss_and_coverage(data, additive: bool) -> None:
    X, _ = data
    y = X[:, 0] + np.random.default_rng(1).exponential(0.2, N)
    common: dict[str, Any] = {"quantile": 0.8, "feature_bounds": (-1, 1), "target_bounds": (-2, 2), "random_state": 0}
    if additive:
        model: Any = PrivateAdditiveRegressor(50.0, loss="quantile", **common)
    else:
        model = PrivateQuantileRegressor(50.0, **common)
    found = private_metrics(model.fit(X, y), X, y, epsilon=50.0)
    predicted = model.predict(X)
    assert "r2" not in found
    assert found["pinball"].value == pytest.approx(mean_pinball_loss(np.clip(y, -2, 2), predicted, alpha=0.8), abs=0.01)
    assert found["coverage"].value == pytest.approx(np.mean(y <= predicted), abs=0.01)
    assert 0.7 < found["coverage"].value < 0.9
    assert {"pinball", "coverage", "mae", "mean_target"} == set(found)
    model.set_params(quantile=0.5)
    assert private_metrics(model, X, y, epsilon=50.0)["pinball"].value != pytest.approx(found["pinball"].value, rel=0.1)


def test_a_search_chooses_additive_models_by_the_loss_that_they_fit() -> None:
    assert PrivateAdditiveRegressor(1.0, loss="quantile")._own_score == "pinball"
    assert PrivateAdditiveRegressor(1.0, loss="huber")._own_score == "absolute_error"
    assert PrivateAdditiveRegressor(1.0)._own_score == "squared_error"


def test_a_large_delta_of_a_fit_with_a_holdout_is_warned_of(data) -> None:
    model = PrivateLogisticRegression(epsilon=5.0, delta=0.001, feature_bounds=(-1, 1), classes=[False, True])
    with pytest.warns(LargeDeltaWarning, match="delta=0.001"):
        fit_and_evaluate(model, *data, epsilon=1.0)


def test_a_hold_out_is_of_a_table_in_memory() -> None:
    table = pl.LazyFrame({"a": [0.5] * 50, "y": ["no", "yes"] * 25})
    schema = Schema((NumericColumn("a", 0, 1),), ClassTarget("y", ("no", "yes")))
    with pytest.raises(InvalidDataError, match="Collect a lazy frame"):
        fit_and_evaluate(PrivateLogisticRegression(schema=schema), table, epsilon=1.0)
