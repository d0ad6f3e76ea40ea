"""The search: who sees which records, what is charged, what is released, and that it finds what it should."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn.base

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearchCV,
    Schema,
    budget_context,
    load_model,
    save_model,
    verify,
)
from dpconvex.algorithms.erm.two_stage.recentering import RecenteredPlan
from dpconvex.algorithms.search import plan as listing
from dpconvex.algorithms.search.plan import Candidate
from dpconvex.algorithms.search.scores import Score, score_for
from dpconvex.data import ClassTarget
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators import ESTIMATORS
from dpconvex.mechanisms import BestOfRepeats, GaussianMechanism
from dpconvex.privacy import PureMechanism, Unit, WholeRun
from dpconvex.privacy.certificate import digest
from dpconvex.problems import UserGroups
from dpconvex.randomness import SeededSource

pytestmark = pytest.mark.thin

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (3000, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=3000) > 0).astype(int)
NUMBERS = 10 + 5 * X[:, 0] + RNG.normal(size=3000)
NORMS = {"coefficient_norm": [2.0, 8.0, 32.0]}
BOUNDS = (-1, 1)


def clone(estimator) -> Any:
    return sklearn.base.clone(estimator)


def logistic(epsilon=1.0, delta=0.0, noise="l2", **options):
    """With one loss and one kind of noise: plans take a tenth of the time."""
    known = {"feature_bounds": BOUNDS, "random_state": 0, "slope_cap": 1.0, "noise": noise, "classes": [0, 1]}
    return PrivateLogisticRegression(epsilon, delta, **known | options)


def models() -> Any:
    for kind in ESTIMATORS:
        classifier = kind in (PrivateLogisticRegression, PrivateLinearSVC)
        ranges: Any = {"classes": [0, 1]} if classifier else {"target_bounds": (0.0, 20.0)}
        yield kind(feature_bounds=BOUNDS, random_state=0, **ranges)


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.kind)
@pytest.mark.parametrize("method", ["composition", "repeats", "none", "auto"])
@pytest.mark.dear("logistic", "svc", "none", "repeats-quantile")
def test_every_model_can_be_searched(model, method) -> None:
    y = Y if model.kind in ("logistic", "svc") else NUMBERS
    found = PrivateSearchCV(model, NORMS, method=method).fit(X, y)
    assert found.certificate_.spent_epsilon <= 1.0
    assert found.best_params_ in [{"coefficient_norm": norm} for norm in NORMS["coefficient_norm"]]
    assert found.best_estimator_.coefficient_norm == found.best_params_["coefficient_norm"]
    assert found.best_estimator_.certificate_ is found.certificate_
    failed = [check.name for check in verify(found.certificate_).checks if not check.passed]
    assert failed == ["noise is not seeded"]
    assert found.predict(X).shape == (3000,)
    assert found.score(X, y) > 0.5


@pytest.mark.parametrize(
    ("method", "algorithm"), [("repeats", "auto"), ("repeats", "noisy_gradient"), ("composition", "noisy_gradient")]
)
def test_gaussian_searches_fit_their_promise(method, algorithm) -> None:
    epsilon = 0.1 if algorithm == "auto" else 0.5  # so small that the choice takes Gaussian noise
    base = logistic(epsilon, 1e-5, "auto", algorithm=algorithm)
    plans = PrivateSearchCV(base, NORMS, method=method).plan(3000, 3)
    noisy = [p for p in plans if any(r.event.pure_epsilon is None for r in p.releases)]
    assert noisy
    for plan in plans:
        certificate = plan.certificate(SeededSource(0))
        assert certificate.spent_epsilon <= epsilon
        assert certificate.spent_delta in (0.0, 1e-5)
    if algorithm == "noisy_gradient":
        found = PrivateSearchCV(base, NORMS, method=method).fit(X, Y)
        assert found.certificate_.spent_delta == 1e-5
        assert all(check.passed for check in verify(found.certificate_).checks if check.name != "noise is not seeded")


def test_pure_budgets_are_those_of_the_theorems() -> None:
    composed = PrivateSearchCV(logistic(), NORMS, method="composition").plan(3000, 3)[0]
    assert [c.plan.privacy.epsilon for c in composed.candidates] == pytest.approx([1 / 3] * 3)
    repeated = PrivateSearchCV(logistic(), NORMS, method="repeats").plan(3000, 3)
    budgets = {plan.selection.event.shape: plan.candidates[0].plan.privacy.epsilon for plan in repeated}  # pyright: ignore
    assert budgets == pytest.approx({0.0: 1 / 2, 1.0: 1 / 3})


def test_gaussian_repeats_cost_less_than_pure_ones() -> None:
    """At these sizes Gaussian fits keep more than half of the whole budget's mu, pure ones half of its epsilon."""
    base = logistic(1.0, 1e-6, "auto", algorithm="noisy_gradient")
    plan = PrivateSearchCV(base, NORMS, method="repeats").plan(50_000, 3)[0]
    assert isinstance(plan.noise, GaussianMechanism)
    mu = plan.noise.event.mu
    whole = base.plan(50_000, 3)[0].releases
    spent = sum(Fraction(r.event.mu) ** 2 * r.times for r in whole)  # pyright: ignore[reportAttributeAccessIssue]
    assert 0.6 < mu / float(spent) ** 0.5 < 0.9


def test_auto_takes_the_smallest_stake_and_no_search_where_it_would_be_noise() -> None:
    large = PrivateSearchCV(logistic(), NORMS).plan(200_000, 3)
    searches = [plan for plan in large if plan.method != "none"]
    assert large[0] is searches[0]
    assert searches[0].stake == min(plan.stake for plan in searches)
    assert min(plan.price for plan in searches) > 1
    small = PrivateSearchCV(logistic(0.05), NORMS).plan(300, 3)
    assert small[0].method == "none"
    assert small[0].price == 1.0
    assert PrivateSearchCV(logistic(), {"coefficient_norm": [3.0]}).plan(200_000, 3)[0].method == "none"


def test_price_is_what_the_candidates_lose() -> None:
    plan = PrivateSearchCV(logistic(), NORMS, method="composition").plan(3000, 3)[0]
    here = [logistic(1 / 3, coefficient_norm=r).plan(2400, 3)[0].predicted_error for r in (2, 8, 32)]
    whole = [logistic(1.0, coefficient_norm=r).plan(3000, 3)[0].predicted_error for r in (2, 8, 32)]
    ratios = [a.rank / b.rank for a, b in zip(here, whole, strict=True)]
    added = [(a.rank - b.rank) / a.trivial for a, b in zip(here, whole, strict=True)]
    assert plan.price == pytest.approx(sum(ratios) / 3, rel=1e-6)
    assert plan.cost == pytest.approx(sum(added) / 3, rel=1e-6)
    repeated = PrivateSearchCV(logistic(), NORMS, method="repeats").plan(3000, 3)[0]
    weights = np.array([1 / k for k in range(1, 13)])  # shape 0, gamma 0, four runs a candidate
    missed = (weights * (2 / 3) ** np.arange(1, 13)).sum() / weights.sum()
    assert repeated.coverage == pytest.approx(1 - missed)


class Spy:
    """Notes which records are fitted and which are scored."""

    def __init__(self, monkeypatch) -> None:
        self.fitted: list[set[float]] = []
        self.scored: list[set[float]] = []
        fit, mean = listing.fit, Score.mean

        def spied_fit(candidate, data, source):
            self.fitted.append(set(np.asarray(data.X)[:, 0]))
            return fit(candidate, data, source)

        def spied_mean(score, model, X, targets, groups):
            self.scored.append(set(np.asarray(X)[:, 0]))
            return mean(score, model, X, targets, groups)

        monkeypatch.setattr(listing, "fit", spied_fit)
        monkeypatch.setattr(Score, "mean", spied_mean)


@pytest.mark.parametrize("method", ["composition", "repeats"])
def test_held_out_records_train_nothing(method, monkeypatch) -> None:
    spy = Spy(monkeypatch)
    found = PrivateSearchCV(logistic(), NORMS, method=method, holdout=0.25).fit(X, Y)
    runs = 3 if method == "composition" else 12
    assert len(spy.fitted) == len(spy.scored) == runs == found.plan_.public.get("runs", runs)
    assert all(part == spy.fitted[0] for part in spy.fitted)
    assert all(part == spy.scored[0] for part in spy.scored)
    assert not spy.fitted[0] & spy.scored[0]
    assert spy.fitted[0] | spy.scored[0] == set(X[:, 0])
    assert len(spy.scored[0]) == found.plan_.held_out == 750


@pytest.mark.parametrize("method", ["composition", "repeats"])
def test_a_user_is_in_one_part_only(method, monkeypatch) -> None:
    spy = Spy(monkeypatch)
    labels = RNG.integers(0, 400, 3000)
    found = PrivateSearchCV(logistic(4.0), NORMS, method=method).fit(X, Y, groups=labels)
    whose = dict(zip(X[:, 0], labels, strict=True))
    users = [{whose[x] for x in part} for part in (spy.fitted[0], spy.scored[0])]
    assert not users[0] & users[1]
    assert len(users[1]) == found.plan_.held_out == 80
    assert found.certificate_.target.unit == Unit.USER
    assert verify(found.certificate_).epsilon <= 4.0


@pytest.mark.gate
def test_the_split_does_not_depend_on_the_data(monkeypatch) -> None:
    spy = Spy(monkeypatch)
    PrivateSearchCV(logistic(), NORMS).fit(X, Y)
    PrivateSearchCV(logistic(), NORMS).fit(np.column_stack([X[:, 0], -X[:, 1:]]), 1 - Y)
    assert spy.fitted[0] == spy.fitted[-1]


@pytest.mark.gate
def test_the_number_of_fits_is_always_the_same(monkeypatch) -> None:
    spy = Spy(monkeypatch)
    counts = []
    for seed in range(5):
        PrivateSearchCV(logistic().set_params(random_state=seed), NORMS, method="repeats").fit(X[:200], Y[:200])
        counts.append(len(spy.fitted))
    assert counts == [12, 24, 36, 48, 60]


def test_candidates_do_not_share_noise() -> None:
    """One setting under two names: its two fits differ, though a seed is shared."""
    found = []
    plan = PrivateSearchCV(logistic(), {"coefficient_norm": [4.0, 4.0]}, method="composition").plan(3000, 3)[0]
    source = SeededSource(0)
    for candidate in plan.candidates:
        found.append(listing.fit(candidate, listing.Part(X[:2400], Y[:2400], None), source).coef_)
    assert np.abs(found[0] - found[1]).min() > 1e-6


def same(truth):
    return lambda part: truth


SCORED = [
    (logistic(), "error_rate"),
    (logistic(), "log_loss"),
    (PrivateLinearRegression(feature_bounds=BOUNDS, target_bounds=(0, 20)), "squared_error"),
    (PrivateHuberRegressor(feature_bounds=BOUNDS, target_bounds=(0, 20)), "absolute_error"),
    (PrivateQuantileRegressor(feature_bounds=BOUNDS, target_bounds=(0, 20), quantile=0.9), "pinball"),
]


@pytest.mark.parametrize(("model", "name"), SCORED, ids=[name for _, name in SCORED])
def test_one_record_moves_a_score_by_no_more_than_claimed(model, name) -> None:
    """And by nearly that much, for losses that reach their bound: half of the claim would be too little."""
    y = Y if model.kind == "logistic" else NUMBERS
    fitted = clone(model).set_params(random_state=0, epsilon=100.0).fit(X, y)
    score = score_for(model, name, 0.1 if name == "log_loss" else None)
    held, targets = X[:50].copy(), model._truth(X[:50], y[:50])
    claimed = score.sensitivity(50, Unit.RECORD).value
    rng, moved = np.random.default_rng(1), []
    reference = score.mean(fitted, held, same(targets), None)
    for _ in range(200):
        other, changed = held.copy(), targets.copy()
        other[7] = rng.choice([-1.0, 1.0, np.nan, np.inf, -1e300], size=3)
        changed[7] = rng.choice([0.0, 1.0]) if model.kind == "logistic" else rng.choice([-0.5, 0.5])
        moved.append(abs(score.mean(fitted, other, same(changed), None) - reference))
    assert max(moved) <= claimed
    if name in ("error_rate", "log_loss"):
        assert max(moved) >= 0.6 * claimed


def test_one_user_moves_a_score_by_no_more_than_claimed() -> None:
    fitted = logistic(100.0).fit(X, Y)
    score = score_for(logistic(), "error_rate", None)
    right = fitted.predict(X[:60]).astype(float)
    labels = np.repeat(np.arange(20), 3)
    reference = score.mean(fitted, X[:60], same(right), UserGroups.of(labels))
    assert reference == 0.0
    # User 0 gets 30 records instead of 3, all of them wrong.
    more, wrong = np.concatenate([X[:30], X[3:60]]), np.concatenate([1 - right[:30], right[3:]])
    whose = np.concatenate([np.zeros(30, dtype=int), labels[3:]])
    moved = abs(score.mean(fitted, more, same(wrong), UserGroups.of(whose)))
    assert 0.999 / 20 <= moved <= score.sensitivity(20, Unit.USER).value
    # Users in any order.
    shuffled = RNG.permutation(len(more))
    again = score.mean(fitted, more[shuffled], same(wrong[shuffled]), UserGroups.of(whose[shuffled]))
    assert again == pytest.approx(-moved)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateAdditiveClassifier])
def test_a_user_s_rows_move_no_bit_of_other_users_scores(kind: Any) -> None:
    """The last bits of a row of a matrix product depend on the number of rows, and may cross the threshold."""
    model: Any = kind(100.0, feature_bounds=(-1, 1), classes=[0, 1], random_state=0)
    fitted = model.fit(np.tanh(RNG.normal(size=(300, 13))), RNG.integers(0, 2, 300))
    rows = np.tanh(RNG.normal(size=(400, 13)))
    alone = [fitted._blind(by_row=True).decision_function(rows[k : k + 1])[0] for k in range(len(rows))]
    for more in (0, 1, 5, 11):
        together = fitted._blind(by_row=True).decision_function(np.vstack([rows[:more], rows]))
        np.testing.assert_array_equal(together[more:], alone)
    score = score_for(kind(1.0, feature_bounds=(-1, 1), classes=[0, 1]), "error_rate", None)
    with patch.object(kind, "_linear", side_effect=AssertionError("a matrix product")):
        assert -1 <= score.mean(fitted, rows, same(np.zeros(len(rows))), None) <= 0


def test_scores_are_means_of_clipped_losses() -> None:
    fitted = logistic(100.0).fit(X, Y)
    score = score_for(logistic(), "log_loss", 0.5)
    right = fitted.predict_log_proba(X)[np.arange(3000), Y]
    expected = np.minimum(-right, 0.5).mean()
    assert score.mean(fitted, X, same(logistic()._truth(X, Y)), None) == pytest.approx(-expected)
    quantile = PrivateQuantileRegressor(feature_bounds=BOUNDS, target_bounds=(0, 20), quantile=0.9, random_state=0)
    quantile._looks = False  # as in a search
    away = NUMBERS - quantile.fit(X, NUMBERS).predict(X)
    pinball = np.maximum(0.9 * away, -0.1 * away).mean() / 20
    found = score_for(quantile, "auto", None)
    assert found.mean(quantile, X, same(quantile._truth(X, NUMBERS)), None) == pytest.approx(-pinball)


def test_all_candidates_are_scored_on_the_scale_of_the_estimator() -> None:
    """Ranges of the target are searched: errors stay in units of the estimator's own."""
    base = PrivateHuberRegressor(feature_bounds=BOUNDS, target_bounds=(0.0, 2000.0), random_state=0)
    ranges = {"target_bounds": [(0.0, 2000.0), (0.0, 20.0), (0.0, 1.0)]}
    found = PrivateSearchCV(base, ranges, score_bound=0.01).fit(X, NUMBERS)
    assert found.best_params_ == {"target_bounds": (0.0, 20.0)}


@pytest.mark.gate
def test_a_much_better_candidate_is_found() -> None:
    """Candidates whose probabilities stay at one half lose, if the good one is tried; seeded.

    Of ten searches with repeats fewer than three try it with probability 0.003.
    """
    grid, good = {"coefficient_norm": [1e-6, 8.0, 1e-7]}, {"coefficient_norm": 8.0}
    found = PrivateSearchCV(logistic(20.0), grid, method="composition", scoring="log_loss").fit(X, Y)
    assert found.best_params_ == good
    hits = 0
    for seed in range(10):
        search = PrivateSearchCV(logistic(20.0), grid, method="repeats", scoring="log_loss")
        hits += search.set_params(estimator__random_state=seed).fit(X, Y).best_params_ == good
    assert hits >= 3


SCHEMA = Schema(
    columns=(NumericColumn("a", -1, 1), CategoricalColumn("b", ("x", "y"))), target=ClassTarget("t", ("no", "yes"))
)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "views"])
@pytest.mark.parametrize("method", ["composition", "repeats", "none"])
@pytest.mark.dear("composition-pandas", "repeats-pandas", "composition-pyarrow", "repeats-views")
def test_tables_of_any_kind(library, method) -> None:
    columns = {
        "a": X[:400, 0].tolist(),
        "b": ["x" if v > 0 else "y" for v in X[:400, 1]],
        "t": ["yes" if v else "no" for v in Y[:400]],
    }
    views = partial(pa.table, schema=pa.schema({"a": pa.float64(), "b": pa.string_view(), "t": pa.string_view()}))
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "views": views}[library](columns)
    base = PrivateLogisticRegression(schema=SCHEMA, random_state=0, slope_cap=1.0, noise="l2")
    found = PrivateSearchCV(base, NORMS, method=method).fit(table)
    assert set(found.predict(table)) <= {"no", "yes"}
    again = PrivateSearchCV(base, NORMS, method=method).fit(table, nw.from_native(table)["t"].to_native())
    np.testing.assert_array_equal(again.best_estimator_.coef_, found.best_estimator_.coef_)
    listed = PrivateSearchCV(base, NORMS, method=method).fit(table, columns["t"])
    np.testing.assert_array_equal(listed.best_estimator_.coef_, found.best_estimator_.coef_)


@pytest.mark.gate
def test_plans_see_no_data_and_are_what_fit_runs() -> None:
    found = PrivateSearchCV(logistic(), NORMS, method="repeats")
    planned = found.plan(3000, 3)[0]
    found.fit(X, Y)
    assert found.plan_.public == planned.public
    assert found.plan_.releases == planned.releases
    other = clone(found).fit(np.zeros_like(X), np.zeros(3000))
    same = dataclasses.replace(other.certificate_, model=found.certificate_.model)  # all but its digest
    assert same.to_dict() == found.certificate_.to_dict()


CONTENTS = [np.nan, np.inf, -np.inf, 1e300, 0.5]


@pytest.mark.parametrize("method", ["composition", "repeats"])
@pytest.mark.parametrize("n", [2, 100])
@pytest.mark.dear("100-repeats")
def test_content_never_speaks(method, n) -> None:
    base = PrivateHuberRegressor(feature_bounds=BOUNDS, target_bounds=(0, 20))
    for content in CONTENTS:
        bad, y = X[:n].copy(), NUMBERS[:n].copy()
        bad[:, 0], y[: n // 2 + 1] = content, content
        found = PrivateSearchCV(base, NORMS, method=method).fit(bad, y)
        assert np.isfinite(found.predict(bad)).all()
        assert found.certificate_.private


def test_only_what_was_released_is_kept(tmp_path) -> None:
    found = PrivateSearchCV(logistic(), NORMS, method="composition").fit(X, Y)
    kept = set(vars(found)) - set(found.get_params(deep=False))
    assert kept == {"plan_", "best_estimator_", "best_params_", "certificate_", "results_"}
    assert set(found.results_) == {"best_params", "public"}
    assert found.results_["public"] == found.plan_.public
    save_model(found.best_estimator_, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.predict(X), found.predict(X))
    assert loaded.certificate_ == found.certificate_


def test_clones_and_parameters() -> None:
    found = PrivateSearchCV(logistic(), NORMS, scoring="log_loss", score_bound=0.7, holdout=0.3, method="repeats")
    again = clone(found)
    assert again.get_params(deep=False).keys() == found.get_params(deep=False).keys()
    assert again.get_params()["estimator__epsilon"] == 1.0
    again.set_params(estimator__epsilon=2.0)
    assert found.estimator.epsilon == 1.0
    assert again.plan(3000, 3)[0].privacy.epsilon == 2.0


@pytest.mark.parametrize(
    ("grid", "named"),
    [
        ({"epsilon": [1.0, 2.0]}, "epsilon"),
        ({"random_state": [0]}, "random_state"),
        ({"classes": [[0, 1]]}, "classes"),
        ({"nothing": [1]}, "nothing"),
        ({"coefficient_norm": []}, "param_grid"),
        ({"coefficient_norm": 3.0}, "param_grid"),
        ("coefficient_norm", "param_grid"),
        ({"coefficient_norm": [-1.0]}, "coefficient_norm"),
    ],
)
def test_grids_that_are_refused(grid, named) -> None:
    with pytest.raises(InvalidParameterError, match=named):
        PrivateSearchCV(logistic(), grid).plan(3000, 3)


@pytest.mark.parametrize("method", ["composition", "repeats", "none", "auto"])
@pytest.mark.parametrize("name", ["feature_bounds", "target_bounds"])
def test_private_ranges_are_refused_in_the_model_and_in_the_grid(name, method) -> None:
    """Each setting would pay for them; those of the grid were let through."""
    declared: dict[str, Any] = {"feature_bounds": BOUNDS, "target_bounds": (0.0, 20.0)}
    model, hidden = PrivateLinearRegression(**declared, random_state=0), {name: ["private"]}
    for base, grid in (
        (clone(model).set_params(**{name: "private"}), {"coefficient_norm": [2.0, 8.0]}),
        (model, hidden),
        (model, [{"coefficient_norm": [2.0]}, hidden]),
    ):
        with pytest.raises(InvalidParameterError, match="every setting would pay"):
            PrivateSearchCV(base, grid, method=method).fit(X, NUMBERS)


@pytest.mark.parametrize(
    "options", [{"method": "grid"}, {"scoring": "accuracy"}, {"holdout": 1.0}, {"score_bound": 0.0}]
)
def test_parameters_that_are_refused(options) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(options))):
        PrivateSearchCV(logistic(), NORMS, **options).plan(3000, 3)


def test_estimators_and_data_that_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="estimator"):
        PrivateSearchCV(3, NORMS).fit(X, Y)
    with pytest.raises(InvalidParameterError, match="classes"):
        PrivateSearchCV(logistic(classes="infer"), NORMS).fit(X, Y)
    for bad_x, bad_y in ((X[:1], Y[:1]), (X, Y[:-1]), (X[:, 0], Y)):
        with pytest.raises(InvalidDataError):
            PrivateSearchCV(logistic(), NORMS).fit(bad_x, bad_y)
    with pytest.raises(InvalidDataError):
        PrivateSearchCV(logistic(), NORMS).fit(X, Y, groups=Y[:-1])


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, Y.astype(str)),
        ({}, np.full(3000, np.datetime64("2020-01-01"))),
        ({}, None),
        ({"classes": None}, Y),
        ({"class_weight": {0: 1.0}}, Y),
        ({}, Y[1:]),
    ],
)
def test_labels_of_another_form_cost_nothing(given: dict[str, Any], wrong: Any) -> None:
    """They were looked at by the first fit, when the search was paid for."""
    model = PrivateLogisticRegression(**{"feature_bounds": BOUNDS, "classes": [0, 1], **given})
    with budget_context(epsilon=1.0) as budget:
        with pytest.raises((InvalidDataError, InvalidParameterError)):
            PrivateSearchCV(model, NORMS).fit(X, wrong)
        assert float(budget.account().left[0]) == 1.0


def changed(fields, path, value) -> str:
    """A forged certificate: one entry changed, and the digest computed again."""
    copy = json.loads(json.dumps(fields))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value(place[path[-1]])
    return json.dumps(copy | {"digest": digest(copy)})


@pytest.mark.parametrize("method", ["composition", "repeats"])
@pytest.mark.parametrize(
    "path",
    [
        ("public", "held_out"),
        ("public", "score_bound"),
        ("public", "candidates", 1, "epsilon"),
        ("public", "candidates", 1, "constants", "l2"),
        ("public", "candidates", 1, "constants", "n"),
        ("spent", "epsilon"),
    ],
    ids=str,
)
def test_changed_numbers_are_found(method, path) -> None:
    base = logistic().set_params(random_state=None)
    certificate = PrivateSearchCV(base, NORMS, method=method).fit(X[:300], Y[:300]).certificate_.to_dict()
    assert verify(json.dumps(certificate)).passed
    assert not verify(changed(certificate, path, lambda value: value * 2)).passed
    assert not verify(changed(certificate, path, lambda value: value / 2)).passed


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_candidate_that_plans_anew_is_charged_its_whole_promise(delta) -> None:
    """Its releases follow from released numbers: priced by the planned ones, a search spent 2.4 times its delta."""
    model = PrivateLogisticRegression(
        2.0, delta, feature_bounds=(0, 100), algorithm="recentering", slope_cap=1.0, classes=[0, 1]
    )
    plan = model.plan(30_000, 20)[0]
    assert isinstance(plan, RecenteredPlan)
    assert plan.adaptive
    event = Candidate({}, plan, model).event
    assert event.pure_epsilon == (Fraction(2.0) if delta == 0 else None)
    assert event.delta(2.0) == delta
    assert event.delta(2.0 * (1 - 1e-3)) > delta
    for length in plan.lengths[::6]:  # the worst there can be, whatever is released
        ran = dataclasses.replace(plan, then=plan.informed(np.zeros(20), float(length)).then)
        uses = tuple((r.block, r.times, r.event) for r in ran.releases)
        assert WholeRun(uses).delta(2.0) <= event.delta(2.0)
        assert Candidate({}, ran, model).event == event


@pytest.mark.parametrize("method", ["composition", "repeats"])
def test_searches_over_candidates_that_plan_anew_verify(method) -> None:
    x = np.random.default_rng(0).normal(30, 3, (9000, 4))
    y = (x[:, 0] > 30).astype(int)
    model = PrivateLogisticRegression(
        2.0, feature_bounds=(0, 100), algorithm="recentering", slope_cap=1.0, noise="l2", classes=[0, 1]
    )
    found = PrivateSearchCV(model, {"coefficient_norm": [2.0, 8.0]}, method=method).fit(x, y)
    assert verify(found.certificate_).passed
    assert {c.plan.algorithm for c in found.plan_.candidates} == {"recentering"}
    for (_, _, event), *_ in (c.event.uses for c in found.plan_.candidates):
        assert isinstance(event, PureMechanism)


def test_repeats_are_one_release_and_nothing_else() -> None:
    plan = PrivateSearchCV(logistic(), NORMS, method="repeats").plan(3000, 3)[0]
    assert isinstance(plan.selection, BestOfRepeats)
    assert len(plan.releases) == 1
    assert plan.releases[0].block is None
    blocks = {use[0] for run in plan.selection.event.runs for use in run.uses}  # pyright: ignore
    assert blocks == {"training part", "held-out part"}
