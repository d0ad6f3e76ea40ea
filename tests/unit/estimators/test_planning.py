"""What estimators plan: refusals before a table is read, surrogates of a loss, and how long it may take."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
    adult_schema,
    verify,
)
from dpconvex.algorithms.erm.registry import CAUTION, FEW_USERS, OF_NUMBERS, SURE, WIDE, cautious, plans
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.errors import InvalidParameterError, SchemaError
from dpconvex.estimators._streams import PROBE, promise_of
from dpconvex.estimators.base import LEAST_BIAS
from dpconvex.estimators.classifiers import CAPS
from dpconvex.losses import HuberLoss
from dpconvex.privacy import Unit
from dpconvex.privacy.ledger import fits
from dpconvex.privacy.profiles import limited
from dpconvex.problems import Block, DataDomain
from dpconvex.problems.linear.expected_risk import ORDINARY

COLUMNS = (NumericColumn("age", 0, 100), CategoricalColumn("color", ("red", "green", "blue")))
CLASSES, NUMBERS = Schema(COLUMNS, ClassTarget("ill", ("no", "yes"))), Schema(COLUMNS, NumericTarget("pay", 0, 9))
UNUSABLE: tuple[dict[str, Any], ...] = (
    {"epsilon": -1.0},
    {"epsilon": 1e-200},
    {"delta": 0.7},
    {"algorithm": "nonsense"},
    {"algorithm": "sufficient_statistics"},
    {"algorithm": "noisy_gradient"},
    {"algorithm": "phased_sgd"},
    {"algorithm": "random_projection"},
    {"algorithm": "clipped_residuals"},
    {"noise": "gaussian"},
    {"noise": "block_max", "algorithm": "output_perturbation"},
    {"constants": "paper", "algorithm": "objective_perturbation"},
    {"risk": "population", "algorithm": "objective_perturbation"},
    {"tilt": 1.0, "algorithm": "objective_perturbation"},
    {"tilt": -1.0},
    {"adversarial_radius": 1.0, "adversarial_norm": "l3"},
    {"l2": 0.0},
    {"l2": 1e-12, "algorithm": "objective_perturbation"},
    {"coefficient_norm": 1e200},
    {"records_per_user": 3},
)


@pytest.mark.parametrize(("kind", "schema"), [(PrivateLogisticRegression, CLASSES), (PrivateLinearRegression, NUMBERS)])
def test_what_no_table_could_be_fitted_with_is_refused_as_a_plan_would(kind: Any, schema: Schema) -> None:
    for given in UNUSABLE:
        model = kind(schema=schema, **given)
        told = list[str]()
        for ask in (lambda model=model: model.plan(PROBE), lambda model=model: promise_of(model)):
            try:
                ask()
                told.append("accepted")
            except InvalidParameterError as error:
                told.append(str(error))
        assert told[0] == told[1], given


@pytest.mark.parametrize("given", [{}, {"delta": 1e-6}, {"algorithm": "recentering"}, {"noise": "grouped"}])
def test_a_promise_is_known_before_a_table_is_read(given: dict[str, Any]) -> None:
    model = PrivateLogisticRegression(2.0, schema=CLASSES, **given)
    users = PrivateLogisticRegression(2.0, schema=replace(CLASSES, user="person"))
    before = plans.cache_info().misses
    assert promise_of(model) == model.plan(PROBE)[0].privacy
    assert promise_of(users).unit == Unit.USER
    plans.cache_clear()
    promise_of(model)
    assert plans.cache_info().misses == 0 <= before  # nothing was planned in full


@pytest.mark.thin
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_plan_expects_less_than_the_loss_it_stands_in_with(delta: float) -> None:
    for n in (100, 10_000):
        for cap in CAPS:
            model = PrivateLogisticRegression(50.0, delta, feature_bounds=(-1, 1), slope_cap=cap)
            for plan in model.plan(n, 3):
                typical, expected = plan.problem.typical, plan.predicted_error.expected
                assert typical is not None
                assert expected is not None
                assert expected >= LEAST_BIAS * typical.bias > 0, (n, cap, plan.algorithm)


@pytest.mark.parametrize(("delta", "most"), [(0.0, 430_000), (1e-6, 770_000)])
@pytest.mark.dear("1e-06-770000")
def test_planning_takes_no_more_computing_than_it_did(delta: float, most: float) -> None:
    """Counted, not timed: the same on every machine."""
    plans.cache_clear()
    with limited(1e9) as work:
        PrivateLogisticRegression(1.0, delta, schema=adult_schema()).plan(32_561)
    assert 1e9 - work.left < most


@pytest.mark.gate
def test_a_small_fit_is_planned_in_no_time() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60, 3)), rng.integers(0, 2, 60)
    model = PrivateLogisticRegression(feature_bounds=(-1, 1), classes=[0, 1])
    model.fit(X[:50], y[:50])
    took, plain = list[float](), list[float]()
    for epsilon in (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7):
        start = time.process_time()
        model.set_params(epsilon=epsilon).fit(X, y)
        between = time.process_time()
        # On any machine, under any load: what a fit may take three times of, in work of the kind that planning does.
        sum((Fraction(k % 97 + 1, 64) for k in range(40_000)), Fraction(0))
        took.append(between - start)
        plain.append(time.process_time() - between)
    assert min(took) < 3 * min(plain)


@pytest.mark.gate
def test_residuals_are_wider_in_the_part_of_a_range_that_a_look_keeps() -> None:
    for kind in (PrivateLinearRegression, PrivateAdditiveRegressor):
        model = kind(schema=NUMBERS)
        looked, few = (model.plan(n)[0].problem for n in (2000, 140))
        assert looked.residual == ORDINARY.residual_in_part
        assert few.residual is None  # there is no look at so few
        capped = [replace(looked, loss=HuberLoss(0.125, 0.5, of_mean=True), residual=each) for each in (None, 0.15)]
        narrow, wide = (each.typical.bias for each in capped)
        assert 0 < narrow < wide / 2  # a cap cuts more of them
    of_users = PrivateLinearRegression(schema=NUMBERS).plan(2000, unit=Unit.USER)[0].problem
    assert of_users.residual == ORDINARY.residual_in_part


@pytest.mark.gate
def test_what_predictions_of_numbers_vary_follows_the_coefficients_that_are_asked_for() -> None:
    def explained(unit: Unit = Unit.RECORD, **given: Any) -> float | None:
        return PrivateLinearRegression(schema=NUMBERS, **given).plan(500, unit=unit)[0].problem.explained

    usual = explained()
    radius = PrivateLinearRegression(schema=NUMBERS).plan(500)[0].problem.radius
    assert usual == ORDINARY.explained_in_part  # of the part of the range that a look keeps
    assert explained(algorithm="objective_perturbation") == ORDINARY.explained_variance
    wider = explained(algorithm="objective_perturbation", coefficient_norm=2 * radius)
    assert wider == pytest.approx(4 * ORDINARY.explained_variance)
    assert explained(heavy_tailed=2) is None  # not measured: as before
    assert explained(Unit.USER) == usual
    assert PrivateLogisticRegression(schema=CLASSES).plan(500)[0].problem.explained is None


def test_arrays_of_bounds_say_how_many_columns_there_are() -> None:
    given = PrivateLogisticRegression(feature_bounds=(np.zeros(3), np.ones(3)), classes=[0, 1])
    assert given.plan(500)[0].problem.domain.n_features == 3
    with pytest.raises(InvalidParameterError, match="n_features=20"):
        PrivateLogisticRegression(feature_bounds=(0, 1), classes=[0, 1]).plan(500)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearRegression, PrivateLasso])
@pytest.mark.parametrize("schema", ["absent.toml", {"a": 1}, COLUMNS])
def test_a_schema_that_cannot_be_read_is_named(kind: Any, schema: Any) -> None:
    model = kind(schema=schema)
    for ask in (lambda: model.plan(100), lambda: model.fit(np.zeros((9, 2)), np.zeros(9))):
        with pytest.raises((SchemaError, InvalidParameterError), match="schema"):
            ask()


@pytest.mark.parametrize(
    ("n", "columns", "classes", "epsilon", "delta", "algorithms"),
    [
        (150, 4, 3, 1.0, 0.0, {"objective_perturbation"}),  # as many records, columns and classes as iris has
        (1797, 64, 10, 3.0, 0.0, {"objective_perturbation", "recentering"}),  # and as scikit-learn's digits
        (1797, 64, 10, 1.0, 1e-6, {"noisy_gradient"}),
    ],
)
def test_tables_that_people_try_first_do_not_get_a_constant(
    n: int, columns: int, classes: int, epsilon: float, delta: float, algorithms: set[str]
) -> None:
    model = PrivateLogisticRegression(epsilon, delta, feature_bounds=(0, 1), classes=range(classes))
    first: Any = model.plan(n, columns)[0]
    first = first.then if first.algorithm == "joint_bound" else first  # what runs if the bound is too large
    assert first.algorithm in algorithms


def test_plans_that_spend_delta_are_preferred_sooner_for_many_columns() -> None:
    factors = []
    for columns in (5, WIDE - 1, 2 * WIDE - 1, 20 * WIDE - 1):  # beside them stands the constant feature
        found = PrivateLogisticRegression(1.0, 1e-6, feature_bounds=(0, 1), classes=(0, 1)).plan(5000, columns)
        plan = next(plan for plan in found if plan.algorithm == "noisy_gradient")
        factors.append(cautious(plan) / plan.predicted_error.rank)
    assert factors == pytest.approx([CAUTION, CAUTION, 1 + (CAUTION - 1) / 4, 1 + (CAUTION - 1) / 400])


def test_columns_count_once_for_each_class_but_one_where_a_plan_that_spends_delta_is_expected_to_lose_little() -> None:
    model = PrivateLogisticRegression(1.0, 1e-6, feature_bounds=(0, 1), classes=range(5))
    factors = []
    for records in (1000, 100_000):
        found = model.plan(records, WIDE // 2 - 1)  # beside the columns stands the constant feature
        plan = next(plan for plan in found if plan.algorithm == "noisy_gradient")
        assert (plan.predicted_error.rank < SURE * np.log(5)) == (records == 100_000)
        factors.append(cautious(plan) / plan.predicted_error.rank)
    assert factors == pytest.approx([CAUTION, 1 + (CAUTION - 1) / 4])  # (5 - 1) / 2 times as many columns as WIDE


def test_a_category_is_one_column_where_a_plan_for_numbers_spends_delta() -> None:
    domain = DataDomain((Block(40 * WIDE, "simplex", 1.0, "town"), Block(WIDE - 2, "linf", 0.5, "numbers")))
    found = PrivateLinearRegression(1.0, 1e-6, domain=domain, target_bounds=(0, 1)).plan(30_000)
    plan = next(plan for plan in found if plan.algorithm == "noisy_gradient")
    assert cautious(plan) / plan.predicted_error.rank == pytest.approx(OF_NUMBERS)


def test_descents_of_few_users_with_several_classes_rank_by_a_larger_factor() -> None:
    """They came first and lost more than a constant; of 2,000 users they lose no more than they gain."""
    factors = []
    for n in (100, 200, 400, 2000):
        given: dict[str, Any] = {"feature_bounds": (-1, 1), "classes": [0, 1, 2], "records_per_user": 20}
        model = PrivateLogisticRegression(1.0, 1e-6, algorithm="noisy_gradient", **given)
        plan = model.plan(n, 5, unit="user")[0]
        factors.append(cautious(plan) / plan.predicted_error.rank)
    assert factors[0] == factors[1] == pytest.approx(CAUTION * (1 + FEW_USERS[0]))
    assert factors[1] > factors[2] > factors[3] == pytest.approx(CAUTION, rel=1e-3)


@pytest.mark.parametrize(("records", "longer"), [(299, 1), (301, 2), (999, 2), (1001, 4)])
def test_classes_of_many_records_are_expected_to_be_told_more_by_their_columns(records: int, longer: int) -> None:
    """Above `ORDINARY.many` records times epsilon a column; of numbers and of users nothing else is expected."""
    columns = 5  # one number, three levels, the constant
    model = PrivateLogisticRegression(2.0, schema=CLASSES)
    usual, told = (model.plan(each * columns // 2)[0].problem for each in (298, records))
    assert told.surplus == longer
    assert told.typical.at_zero == pytest.approx(longer * usual.typical.at_zero, rel=0.2)
    assert model.plan(10 * records, unit="user")[0].problem.surplus == 1
    assert PrivateLinearRegression(2.0, schema=NUMBERS).plan(10 * records)[0].problem.surplus == 1


@pytest.mark.parametrize(
    ("n", "columns", "epsilon", "unit"), [(1710, 16, 0.2426, "record"), (538_228, 57, 2.0, "user")]
)
def test_a_plan_beside_looks_fits_its_promise(n: int, columns: int, epsilon: float, unit: str) -> None:
    """Rounding moved a profile that just met delta; phases on disjoint users cost more beside looks at all of them."""
    model = PrivateLogisticRegression(epsilon, 1e-8, feature_bounds="private", noise="gaussian")
    found = model.plan(n, columns, unit=unit)
    assert all(fits(plan.releases, plan.privacy) for plan in found)
    assert "phased_sgd" not in {plan.algorithm for plan in found}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_rows_of_a_sparse_matrix_are_taken_for_words(delta: float) -> None:
    """Of words plans expected what pixels tell, and descents lost up to twice what they expected (`texts.py`)."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((2000, 200), density=0.03, rng=rng, format="csr")
    y = np.asarray(X[:, :100].sum(1)).ravel() > np.asarray(X[:, 100:].sum(1)).ravel()
    given: dict[str, Any] = {"feature_norm": 1.0, "random_state": 0}
    words, pixels = (PrivateLogisticRegression(1.0, delta, **given).fit(each, y) for each in (X, X.toarray()))
    assert [model.plan_.problem.domain.blocks[0].values for model in (words, pixels)] == ["sparse", "any"]
    assert words.plan_.algorithm != "noisy_gradient"
    assert (pixels.plan_.algorithm == "noisy_gradient") == (delta > 0)
    assert words.plan_.problem.radius < pixels.plan_.problem.radius
    np.testing.assert_allclose(words.predict_proba(X), words.predict_proba(X.toarray()), rtol=1e-12)
    domain = DataDomain((Block(200, "l2", 1.0, values="sparse"),))
    told = PrivateLogisticRegression(1.0, delta, domain=domain, random_state=0).plan(2000, 200)[0]
    assert told.algorithm == words.plan_.algorithm
    private = PrivateLogisticRegression(1.0, delta, feature_norm=1.0).fit(X, y)
    assert verify(private.certificate_).passed
