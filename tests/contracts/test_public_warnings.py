"""What every fit says and pays before it reads data: hopeless plans, repeated fits, budgets of a process.

All of it follows from public facts. The suite's filter ignores both warnings; here they are recorded.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier

import dpconvex
from dpconvex import (
    Budget,
    CategoricalColumn,
    DataDomain,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateGeometricMedian,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearchCV,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
    Schema,
    budget_context,
    fit_and_evaluate,
    private_game,
    private_metrics,
    private_minimize,
)
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.errors import (
    BudgetExceededError,
    BudgetFileError,
    DpconvexWarning,
    HopelessPlanWarning,
    InvalidParameterError,
    LargeDeltaWarning,
    RepeatedFitWarning,
)
from dpconvex.privacy import PrivacyCertificate, PrivacyParams, charge, context
from dpconvex.privacy.context import MOST_FORMS, _counts
from dpconvex.problems import LocationLoss

CELLS = Schema((NumericColumn("a", -1, 1), CategoricalColumn("b", ("0", "1"))))
SMALL_DELTA = 1e-6
CHEAP: dict[str, Any] = {"feature_bounds": (-1, 1), "algorithm": "objective_perturbation", "l2": 0.1}
"""A linear model that is planned and fitted in a few milliseconds."""

Call = Callable[[np.ndarray, np.ndarray, float, Any], object]


def estimator(kind: Any, delta: float = 0.0, target: str = "class", **options: Any) -> Call:
    def fit(X: np.ndarray, y: np.ndarray, epsilon: float, seed: Any) -> object:
        made = kind(epsilon, delta, random_state=seed, **options)
        return made.fit(X, y if target == "class" else y + 0.0)

    return fit


def game(X: np.ndarray, y: np.ndarray, epsilon: float, seed: Any) -> object:
    return private_game(np.clip(X[:, :2, None] * X[:, None, 1:], -1, 1), epsilon=epsilon, random_state=seed)


def synthetic(X: np.ndarray, y: np.ndarray, epsilon: float, seed: Any) -> object:
    table = pd.DataFrame({"a": X[:, 0], "b": y.astype(int).astype(str)})
    return PrivateSyntheticData(epsilon, SMALL_DELTA, schema=CELLS, random_state=seed).fit(table)


def search(X: np.ndarray, y: np.ndarray, epsilon: float, seed: Any) -> object:
    base = PrivateLogisticRegression(epsilon, random_state=seed, **{**CHEAP, "l2": None}, classes=[False, True])
    return PrivateSearchCV(base, {"coefficient_norm": [1.0, 2.0]}, method="composition").fit(X, y)


def groups(X: np.ndarray, y: np.ndarray, epsilon: float, seed: Any) -> object:
    made = PrivateWorstGroupClassifier(epsilon, SMALL_DELTA, feature_bound=1.0, groups=[0, 1], random_state=seed)
    return made.fit(X, y, groups=np.arange(len(X)) % 2)


def minimize(X: np.ndarray, y: np.ndarray, epsilon: float, seed: Any) -> object:
    loss = LocationLoss(DataDomain.l2_ball(3, 1.0), width=0.2)
    return private_minimize(loss, X, epsilon=epsilon, radius=1.0, random_state=seed)


def additive(X: np.ndarray, y: np.ndarray, epsilon: float, seed: Any) -> object:
    schema = Schema((NumericColumn("a", -1, 1),), ClassTarget("b", ("False", "True")))
    return PrivateAdditiveClassifier(epsilon, schema=schema, random_state=seed).fit(
        pd.DataFrame({"a": X[:, 0]}), y.astype(str)
    )


def additive_numbers(X: np.ndarray, y: np.ndarray, epsilon: float, seed: Any) -> object:
    schema = Schema((NumericColumn("a", -1, 1),), NumericTarget("b", 0, 1))
    return PrivateAdditiveRegressor(epsilon, schema=schema, random_state=seed).fit(
        pd.DataFrame({"a": X[:, 0]}), y + 0.0
    )


REGRESSION: dict[str, Any] = {"target": "number", "target_bounds": (0, 1), "feature_bounds": (-1, 1)}
ENTRIES: dict[str, Call] = {
    "PrivateLogisticRegression": estimator(PrivateLogisticRegression, classes=[False, True], feature_bounds=(-1, 1)),
    "PrivateLinearSVC": estimator(PrivateLinearSVC, classes=[False, True], feature_bounds=(-1, 1)),
    "PrivateLinearRegression": estimator(PrivateLinearRegression, **REGRESSION),
    "PrivateHuberRegressor": estimator(PrivateHuberRegressor, heavy_tailed=(2, 1.0), **REGRESSION),
    "PrivateAdditiveClassifier": additive,
    "PrivateAdditiveRegressor": additive_numbers,
    "PrivateQuantileRegressor": estimator(PrivateQuantileRegressor, **REGRESSION),
    "PrivateLasso": estimator(PrivateLasso, SMALL_DELTA, "number", feature_bound=1.0, target_bounds=(0, 1)),
    "PrivateSparseLogisticRegression": estimator(PrivateSparseLogisticRegression, SMALL_DELTA, feature_bound=1.0),
    "PrivateGeometricMedian": estimator(PrivateGeometricMedian, SMALL_DELTA, radius_bound=2.0),
    "PrivateSyntheticData": synthetic,
    "PrivateSearchCV": search,
    "PrivateWorstGroupClassifier": groups,
    "private_game": game,
    "private_minimize": minimize,
}


def records(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, X[:, 0] > 0


def said(call: Callable[[], object]) -> list[tuple[type, str]]:
    """The library's warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [(w.category, str(w.message)) for w in found if issubclass(w.category, DpconvexWarning)]


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    _counts.clear()
    yield
    _counts.clear()


def test_every_entry_is_here() -> None:
    public = {name for name in dpconvex.__all__ if name.lower().startswith("private") and "_params" not in name}
    assert public - {"private_metrics", "PrivateMetrics"} == set(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.thin
def test_hopeless_plans_are_said_so_whatever_the_data_hold_and_counted(name: str) -> None:
    """20 records at epsilon 1e-6 learn nothing; and unlike data of one form get the same words."""
    call, epsilon = ENTRIES[name], 0.1 if name == "PrivateGeometricMedian" else 1e-6  # its many steps take a while
    X, y = records(20)
    first = said(lambda: call(X, y, epsilon, None))
    assert [category for category, _ in first] == [HopelessPlanWarning]
    assert f"epsilon={epsilon:g}: a fit by " in first[0][1]
    assert [found[:2] for found in _counts.values()] == [(1, Decimal(repr(epsilon)))]  # a search as one fit
    assert first == said(lambda: call(np.full_like(X, np.nan), np.roll(y, 3), epsilon, 0))  # a seed is not counted
    assert [found[0] for found in _counts.values()] == [1]


def test_a_delta_that_allows_to_publish_a_record_is_said_so_whatever_the_data_hold() -> None:
    """At 1/n units: records, users, and declared numbers of them; not below."""
    X, y = records(2000)

    def warned(delta: float, X: np.ndarray = X, y: np.ndarray = y, groups: Any = None, **more: Any) -> list[str]:
        model = PrivateLogisticRegression(9.0, delta, classes=[0, 1], random_state=0, **CHEAP, **more)
        return [text for kind, text in said(lambda: model.fit(X, y, groups=groups)) if kind is LargeDeltaWarning]

    first = warned(1 / 2000)
    assert first[0].startswith("delta=0.0005: is at least 1 / 2,000 records: publishing one of them whole")
    assert first == warned(1 / 2000, np.full_like(X, np.nan), np.roll(y, 3))
    assert warned(0.99 / 2000) == warned(0.0) == warned(1 / 2000, groups=np.arange(2000) // 2) == []
    assert "1 / 1,000 users" in warned(1 / 1000, groups=np.arange(2000) // 2)[0]
    declared = {"neighbors": "add_or_remove_one", "rows": 3000}
    assert "1 / 3,000 records" in warned(1 / 3000, X[:7], y[:7], **declared)[0]


@pytest.mark.gate
def test_ordinary_plans_are_not_called_hopeless() -> None:
    X, y = records(2000)
    for name, call in ENTRIES.items():
        assert said(lambda call=call: call(X, y, 3.0, 0)) == [], name


def test_a_warning_names_the_line_of_the_caller() -> None:
    X, y = records(20)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ENTRIES["PrivateLinearSVC"](X, y, 1e-6, 0)
    assert [w.filename for w in found] == [__file__]


def test_the_yardstick_knows_the_public_rates() -> None:
    """14 % positive: columns tell half as much as of even classes, and a plan is hopeless where it expects no less."""
    options: dict[str, Any] = {"feature_bounds": (-1, 1), "classes": [0, 1]}
    blind = PrivateLogisticRegression(0.1, **options).plan(2000, 10)[0]
    told = PrivateLogisticRegression(0.1, rates=[0.86, 0.14], **options).plan(2000, 10)[0]
    assert blind.predicted_error.trivial == pytest.approx(np.log(2))
    assert not blind.hopeless
    entropy = -0.86 * np.log(0.86) - 0.14 * np.log(0.14)
    assert told.problem.loss.usual.trivial == pytest.approx(entropy)
    assert told.predicted_error.trivial <= entropy
    assert told.yardstick == pytest.approx(blind.yardstick * (0.86 * 0.14) / (1 / 4), rel=0.15)
    assert PrivateLogisticRegression(0.05, rates=[0.86, 0.14], **options).plan(2000, 10)[0].hopeless
    assert not PrivateLogisticRegression(1.0, rates=[0.86, 0.14], **options).plan(2000, 10)[0].hopeless


def test_second_fits_of_one_public_form_are_told_with_their_sum() -> None:
    X, y = records(60)
    model = PrivateLogisticRegression(0.3, delta=1e-7, classes=[False, True], **CHEAP)
    kinds = [said(lambda: clone(model).fit(X, y)) for _ in range(4)]
    repeated = [[text for category, text in one if category is RepeatedFitWarning] for one in kinds]
    assert [len(one) for one in repeated] == [0, 1, 0, 1]  # the second, the fourth, the eighth
    assert "fit number 2 of 3 columns and 60 records" in repeated[1][0]
    assert "epsilon=0.6, delta=2e-7" in repeated[1][0]
    assert "epsilon=1.2, delta=4e-7" in repeated[3][0]
    for other in ("PrivateSearchCV", "budget_context", "budget file"):
        assert other in repeated[3][0]
    for _ in range(3):
        said(lambda: model.fit(X, y))
    unlike = said(lambda: model.fit(np.full_like(X, np.nan), ~y))
    assert any("number 8" in text for _, text in unlike)  # content has no part in it
    form = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    for X_other, y_other in ((X[:50], y[:50]), (X[:, :2], y), (pd.DataFrame(form), y)):
        others = said(lambda X=X_other, y=y_other: model.fit(X, y))
        assert RepeatedFitWarning not in [category for category, _ in others]
    users = said(lambda: model.set_params(delta=0).fit(X, y, groups=np.arange(60)))
    assert RepeatedFitWarning not in [category for category, _ in users]


def test_counts_are_bounded() -> None:
    for n in range(MOST_FORMS + 10):
        charge(PrivacyParams(1.0), "", 1, n, private=True)
    assert len(_counts) == MOST_FORMS


MODEL = PrivateLogisticRegression(0.25, classes=[False, True], **CHEAP)


def test_composed_estimators_of_scikit_learn_are_paid_fit_by_fit() -> None:
    X, y = records(60)
    two = np.column_stack([y, ~y])

    def threaded() -> object:
        with parallel_config("threading"):
            return cross_val_score(MODEL, X, y, cv=4, n_jobs=2, error_score="raise")

    grid = {"coefficient_norm": [1.0, 2.0]}
    runs: dict[str, tuple[Callable[[], Any], int]] = {
        "fit": (lambda: clone(MODEL).fit(X, y), 1),
        "fit twice": (lambda: [MODEL.fit(X, y), MODEL.fit(X, y)], 2),
        "cross_val_score": (lambda: cross_val_score(MODEL, X, y, cv=3), 3),
        "GridSearchCV": (lambda: GridSearchCV(MODEL, grid, cv=2).fit(X, y), 5),
        "RandomizedSearchCV": (lambda: RandomizedSearchCV(MODEL, grid, n_iter=2, cv=2).fit(X, y), 5),
        "MultiOutputClassifier": (lambda: MultiOutputClassifier(MODEL).fit(X, two), 2),
        "OneVsRestClassifier": (
            lambda: OneVsRestClassifier(clone(MODEL).set_params(classes=[0, 1])).fit(X, np.arange(60) % 3),
            3,
        ),
        "threads": (threaded, 4),
    }
    for name, (run, fits) in runs.items():
        with budget_context(epsilon=2) as budget:
            assert RepeatedFitWarning not in [category for category, _ in said(run)], name
            assert budget.account().left[0] == 2 - Decimal("0.25") * fits, name
            assert len(budget.account().spent) == fits, name
        with pytest.raises(BudgetExceededError), budget_context(epsilon=0.2):
            MODEL.fit(X, y)
    assert not _counts
    with budget_context(epsilon=2):
        inside = clone(MODEL).fit(X, y).certificate_.public_fields()
    outside = clone(MODEL).fit(X, y).certificate_.public_fields()
    assert inside == outside


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_this_one_started_pay(method: str) -> None:
    """Also where another process, a server of forks, is their parent."""
    X, y = records(60)
    with budget_context(epsilon=0.4) as budget, ProcessPoolExecutor(1, get_context(method)) as pool:
        assert pool.submit(clone(MODEL).fit, X, y).result().certificate_.budget == "line 1 of budget_context"
        with pytest.raises(BudgetExceededError):
            pool.submit(clone(MODEL).fit, X, y).result()
        with pytest.raises(InvalidParameterError, match="random_state"):
            pool.submit(clone(MODEL).set_params(random_state=0).fit, X, y).result()
        assert len(budget.account().spent) == 1


def test_models_that_were_stored_before_open_and_close_no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is sent a model, and loads another that the same parent had stored before the block began."""
    X, y = records(60)
    stored = pickle.dumps(MODEL)
    with budget_context(epsilon=2) as budget:
        sent = pickle.dumps(MODEL)
        for name, value in {"_open": [], "_sent": [], "_since": [0, 0]}.items():
            monkeypatch.setattr(context, name, value)
        monkeypatch.setattr(os, "getppid", os.getpid)  # as in a worker
        for loaded in ([sent], [sent, stored], [stored]):
            for each in loaded:
                pickle.loads(each)
            clone(MODEL).fit(X, y)
        assert len(budget.account().spent) == 3
        pickle.loads(pickle.dumps(MODEL))  # the parent sends one after the block
        assert clone(MODEL).fit(X, y).certificate_.budget == "line 4 of budget_context"
        context._sent.clear()
        pickle.loads(pickle.dumps(MODEL))
        assert clone(MODEL).fit(X, y).certificate_.budget is None


def test_bagging_seeds_its_estimators_and_is_refused() -> None:
    """BaggingClassifier gives every estimator a seed, and draws records several times: no promise holds for it."""
    X, y = records(60)
    with budget_context(epsilon=9) as budget:
        with pytest.raises(InvalidParameterError, match="random_state"):
            BaggingClassifier(clone(MODEL).set_params(weight_cap=100.0), n_estimators=2).fit(X, y)
        assert budget.account().spent == ()
    capped = clone(MODEL).set_params(weight_cap=100.0)  # it weighs records by how often they were drawn
    assert not BaggingClassifier(capped, n_estimators=2).fit(X, y).estimators_[0].certificate_.noise_source.private


def test_a_search_is_paid_as_a_whole() -> None:
    X, y = records(200)
    with budget_context(epsilon=1.5) as budget:
        assert RepeatedFitWarning not in [category for category, _ in said(lambda: search(X, y, 1.0, None))]
        assert [entry.epsilon for entry in budget.account().spent] == [1]
        with pytest.raises(BudgetExceededError):
            search(X, y, 1.0, None)


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.thin
def test_certificates_and_lines_of_budgets_name_each_other(name: str, tmp_path: Path) -> None:
    """Of every entry that fits; the digest in the budget is that of the certificate as it is returned."""
    X, y = records(60)
    file = Budget.create(tmp_path / "visits.json", epsilon=9, delta=0.1)
    with budget_context(budget=file):
        said(lambda: MODEL.fit(X, y))
        found = []
        said(lambda: found.append(ENTRIES[name](X, y, 1.0, None)))
        certificate = getattr(found[0], "certificate_", None) or found[0].certificate
    assert certificate.budget == "line 2 of visits.json"
    assert "Paid:    line 2 of visits.json." in certificate.explain()
    assert PrivacyCertificate.from_json(certificate.to_json()) == certificate
    line = file.account().spent[1]
    assert line.certificate == certificate.to_dict()["digest"]
    assert line.model == (certificate.model or "")
    best = getattr(found[0], "best_estimator_", None)
    assert best is None or best.certificate_ == certificate


def test_a_certificate_names_all_that_paid_and_a_fit_outside_nothing(tmp_path: Path) -> None:
    X, y = records(60)
    files = [Budget.create(tmp_path / f"{name}.json", epsilon=1) for name in "ab"]
    with budget_context(budget=files[0]), budget_context(budget=files[1]):
        model = clone(MODEL).fit(X, y)
        assert model.certificate_.budget == "line 1 of a.json; line 1 of b.json"
        measured = private_metrics(model, X, y, epsilon=0.25).certificate_
        both = clone(MODEL)
        evaluation = fit_and_evaluate(both, X, y, epsilon=0.25).certificate_
    assert measured.budget == "line 2 of a.json; line 2 of b.json"
    assert both.certificate_.budget == evaluation.budget == "line 3 of a.json; line 3 of b.json"
    for file in files:
        noted = [each.certificate for each in file.account().spent]
        assert noted == [each.to_dict()["digest"] for each in (model.certificate_, measured, both.certificate_)]
    assert clone(MODEL).fit(X, y).certificate_.budget is None


def test_a_budget_that_takes_no_note_costs_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = records(60)
    file = Budget.create(tmp_path / "visits.json", epsilon=1)

    def refused(*_: Any) -> None:
        raise BudgetFileError("the disk is full")

    monkeypatch.setattr(Budget, "released", refused)
    with budget_context(budget=file), pytest.warns(DpconvexWarning, match="took no note of the certificate of line 1"):
        model = clone(MODEL).fit(X, y)
    assert model.certificate_.budget == "line 1 of visits.json"


def test_nested_contexts_pay_both_and_files_stay(tmp_path: Path) -> None:
    X, y = records(60)
    file = Budget.create(tmp_path / "visits.json", epsilon=1.0)
    with budget_context(budget=file), budget_context(epsilon=0.5) as inner:
        with budget_context(budget=tmp_path / "visits.json"):  # the same file is paid once
            MODEL.fit(X, y)
        MODEL.fit(X, y)
        with pytest.raises(BudgetExceededError):
            MODEL.fit(X, y)
        assert inner.account().left[0] == 0
    assert file.account().left[0] == Decimal("0.5")  # what the inner one refused is not charged outside
    assert not inner.path.exists()
    with budget_context(epsilon=1, unit="user") as users:
        with pytest.raises(BudgetExceededError, match="unit"):
            MODEL.fit(X, y)
        clone(MODEL).fit(X, y, groups=np.arange(60) % 20)
        assert users.account().left[0] == Decimal("0.75")
    for arguments in ({}, {"epsilon": 1.0, "budget": file}):
        with pytest.raises(InvalidParameterError), budget_context(**arguments):
            pass


def test_other_threads_pay_from_the_open_context() -> None:
    X, y = records(60)
    with budget_context(epsilon=1) as budget:
        threads = [threading.Thread(target=lambda: clone(MODEL).fit(X, y)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert budget.account().left[0] == Decimal("0.25")


@pytest.mark.gate
def test_a_worker_pays_as_long_as_its_parent_says_so() -> None:
    """A process that was not forked: it learns of the budgets from an estimator, and forgets them with the next."""
    code = (
        "import pickle, sys, numpy as np\n"
        "from dpconvex.errors import DpconvexError\n"
        "X = np.linspace(-1, 1, 180).reshape(60, 3)\n"
        "while True:\n"
        "    model = pickle.load(sys.stdin.buffer)\n"
        "    try:\n"
        "        model.fit(X, X[:, 0] > 0)\n"
        "        print('fitted', flush=True)\n"
        "    except DpconvexError as error:\n"
        "        print(type(error).__name__, flush=True)\n"
    )
    # As pickle finds it: where docstrings are tested too, modules are imported twice.
    model = getattr(importlib.import_module(type(MODEL).__module__), type(MODEL).__name__)(**MODEL.get_params())
    command = [sys.executable, "-W", "ignore", "-c", code]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdin is not None
    assert worker.stdout is not None

    def send(sent: bytes) -> str:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(sent)
        worker.stdin.flush()
        return worker.stdout.readline().decode().strip()

    try:
        with budget_context(epsilon=0.6) as budget:
            inside = pickle.dumps(model)
            assert [send(inside) for _ in range(3)] == ["fitted", "fitted", "BudgetExceededError"]
            assert budget.account().left[0] == Decimal("0.1")
        assert send(inside) == BudgetFileError.__name__  # a worker that outlives the block
        assert send(pickle.dumps(model)) == "fitted"
    finally:
        worker.kill()
        worker.communicate()
    assert said(lambda: pickle.loads(inside).fit(*records(6000))) == []  # a model from within, read by who made it
