"""How releases must change, or not, when data and bounds change together: scale, order, one record, copies, users.

Noise is seeded, so a run is a function of data and bounds. Powers of two scale without rounding; what is left is the
search for a regularization at the flat minimum of a bound, and solvers that stop at their certified accuracy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone as copy_of, is_classifier

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateGeometricMedian,
    PrivateLasso,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
    Schema,
)
from dpconvex.algorithms.location.registry import LOCATION_METHODS
from dpconvex.estimators import ESTIMATORS, SPARSE_ESTIMATORS
from dpconvex.privacy import PrivacyCertificate

pytestmark = pytest.mark.thin

N, D = 300, 3
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (N, D))
Y = (X[:, 0] > 0).astype(float)
GROUPS = RNG.integers(0, 2, N)
ORDER = RNG.permutation(N)
EXACT, SEARCHED = 1e-9, 1e-6


def clone(model: Any) -> Any:
    return copy_of(model)


def linear(model: Any, algorithm: str, delta: float, **more: Any) -> Any:
    given = {"classes": [0, 1]} if is_classifier(model()) else {"target_bounds": (-1.0, 1.0)}
    return model(epsilon=2.0, delta=delta, algorithm=algorithm, random_state=5, **given, **more)


METHODS = [("output_perturbation", 0.0), ("objective_perturbation", 0.0), ("noisy_gradient", 1e-6)]
LINEAR = pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: model.__name__)
METHOD = pytest.mark.parametrize(("algorithm", "delta"), METHODS, ids=[name for name, _ in METHODS])
SPARSE = {
    PrivateLasso: {"target_bounds": (-1.0, 1.0)},
    PrivateSparseLogisticRegression: {"classes": [0, 1]},
    PrivateWorstGroupClassifier: {"classes": [0, 1], "groups": [0, 1], "group_shares": (0.5, 0.5)},
}
EVERY_SPARSE = pytest.mark.parametrize("model", SPARSE, ids=lambda model: model.__name__)


def sparse(model: Any, **more: Any) -> Any:
    return model(epsilon=2.0, random_state=5, algorithm="vertex_mirror_descent", **SPARSE[model], **more)


def whose(model: Any, groups: Any = GROUPS) -> dict[str, Any]:
    return {"groups": groups} if model is PrivateWorstGroupClassifier else {}


def form(certificate: PrivacyCertificate) -> dict[str, Any]:
    """Return what is public of the certificate."""
    return certificate.public_fields()


def test_every_estimator_is_here() -> None:
    assert tuple(SPARSE) == SPARSE_ESTIMATORS


# Scale


@LINEAR
@METHOD
@pytest.mark.parametrize("scale", [2.0**40, 2.0**-40])
@pytest.mark.parametrize("intercept", [True, False])
def test_linear_models_do_not_know_the_unit(
    model: Any, algorithm: str, delta: float, scale: float, intercept: bool
) -> None:
    make = linear(model, algorithm, delta, fit_intercept=intercept)
    first = clone(make).set_params(feature_norm=1.0).fit(X, Y)
    second = clone(make).set_params(feature_norm=scale).fit(X * scale, Y)
    tolerance = SEARCHED if algorithm == "objective_perturbation" else EXACT
    np.testing.assert_allclose(second.coef_ * scale, first.coef_, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(second.intercept_, first.intercept_, rtol=tolerance, atol=tolerance)
    assert second.certificate_.spent_epsilon == pytest.approx(first.certificate_.spent_epsilon, rel=1e-12)


@LINEAR
@METHOD
def test_scaled_columns_do_not_know_their_units(model: Any, algorithm: str, delta: float) -> None:
    units = np.array([2.0**30, 1.0, 2.0**-30])
    make = linear(model, algorithm, delta)
    first = clone(make).set_params(feature_bounds=(np.full(D, -0.5), np.full(D, 0.5))).fit(X, Y)
    second = clone(make).set_params(feature_bounds=(-0.5 * units, 0.5 * units)).fit(X * units, Y)
    np.testing.assert_array_equal(second.encoded_coef_, first.encoded_coef_)
    np.testing.assert_allclose(second.coef_ * units, first.coef_, rtol=1e-12)
    assert form(second.certificate_) == form(first.certificate_)


@pytest.mark.parametrize("model", [m for m in ESTIMATORS if not is_classifier(m())], ids=lambda model: model.__name__)
@METHOD
def test_regressors_do_not_know_the_targets_unit(model: Any, algorithm: str, delta: float) -> None:
    make, more = linear(model, algorithm, delta, feature_norm=1.0), {}
    scale = 2.0**20
    if "threshold" in make.get_params():
        more = {"threshold": make.threshold * scale}
    first = clone(make).fit(X, Y)
    second = clone(make).set_params(target_bounds=(-scale, scale), **more).fit(X, Y * scale)
    np.testing.assert_allclose(second.coef_, first.coef_ * scale, rtol=SEARCHED)


@EVERY_SPARSE
def test_sparse_models_do_not_know_the_unit(model: Any) -> None:
    first = sparse(model, feature_bound=1.0).fit(X, Y, **whose(model))
    for scale in (2.0**20, 2.0**-20):
        second = sparse(model, feature_bound=scale).fit(X * scale, Y, **whose(model))
        np.testing.assert_allclose(second.coef_ * scale, first.coef_, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("algorithm", LOCATION_METHODS)
@pytest.mark.dear("halving")
def test_the_median_does_not_know_the_unit(algorithm: str) -> None:
    make = PrivateGeometricMedian(epsilon=2.0, algorithm=algorithm, random_state=5)
    first = clone(make).set_params(radius_bound=8.0).fit(X + 1)
    for scale in (2.0**20, 2.0**-20):
        second = clone(make).set_params(radius_bound=8.0 * scale).fit((X + 1) * scale)
        np.testing.assert_allclose(second.location_ / scale, first.location_, rtol=EXACT, atol=EXACT)
        assert (second.radius_ or 0.0) / scale == pytest.approx(first.radius_ or 0.0, rel=EXACT)
        assert second.status_ == first.status_


# Order


@LINEAR
@METHOD
def test_full_batch_methods_do_not_know_the_order(model: Any, algorithm: str, delta: float) -> None:
    make = linear(model, algorithm, delta, feature_norm=1.0)
    first, second = clone(make).fit(X, Y), clone(make).fit(X[ORDER], Y[ORDER])
    np.testing.assert_allclose(second.coef_, first.coef_, rtol=SEARCHED, atol=SEARCHED)
    assert form(second.certificate_) == form(first.certificate_)


def table(rows: Any, users: Any = None) -> pa.Table:
    columns = {"x": X[rows, 0], "c": np.where(Y > 0, "red", "green")[rows]}
    return pa.table(columns if users is None else columns | {"u": users})


SCHEMA = Schema((NumericColumn("x", -0.5, 0.5), CategoricalColumn("c", ("red", "green", "blue"))))


def test_methods_that_read_a_record_once_fix_the_certificate_whatever_the_order() -> None:
    """Their steps follow an order drawn by coins, so the release of one seed moves; what is public does not."""
    for model in SPARSE:
        make = sparse(model, feature_bound=1.0)
        first = clone(make).fit(X, Y, **whose(model))
        second = clone(make).fit(X[ORDER], Y[ORDER], **whose(model, GROUPS[ORDER]))
        assert form(second.certificate_) == form(first.certificate_)
    make = PrivateSyntheticData(epsilon=2.0, schema=SCHEMA, bins=4, random_state=5)
    first, second = clone(make).fit(table(np.arange(N))), clone(make).fit(table(ORDER))
    assert form(second.certificate_) == form(first.certificate_)
    assert second.histogram_.shape == first.histogram_.shape


def test_a_schema_does_not_know_the_order_of_columns_or_of_rows_in_full_batch() -> None:
    model = next(m for m in ESTIMATORS if is_classifier(m()))
    make = model(epsilon=2.0, schema=SCHEMA, classes=[0, 1], random_state=5)
    first = clone(make).fit(table(np.arange(N)), Y)
    turned = clone(make).fit(table(np.arange(N)).select(["c", "x"]), Y)
    shuffled = clone(make).fit(table(ORDER), Y[ORDER])
    np.testing.assert_array_equal(turned.coef_, first.coef_)
    np.testing.assert_allclose(shuffled.coef_, first.coef_, rtol=SEARCHED, atol=SEARCHED)


# One record replaced

WORST = [np.full(D, value) for value in (np.nan, np.inf, -np.inf, 1e308, 5e-324)]


def replaced(row: Any, target: float) -> tuple[Any, Any]:
    features, targets = X.copy(), Y.copy()
    features[17], targets[17] = row, target
    return features, targets


@LINEAR
@METHOD
def test_replacing_one_record_changes_nothing_public(model: Any, algorithm: str, delta: float) -> None:
    make = linear(model, algorithm, delta, feature_norm=1.0)
    first = clone(make).fit(X, Y)
    for row, target in zip(WORST, (np.nan, np.inf, -1e308, 7.0, 5e-324), strict=True):
        second = clone(make).fit(*replaced(row, target))
        assert form(second.certificate_) == form(first.certificate_)
        assert second.plan_.public == first.plan_.public
        assert np.isfinite(second.coef_).all()
        assert second.coef_.shape == first.coef_.shape


@EVERY_SPARSE
def test_replacing_one_record_changes_nothing_public_in_sparse_models(model: Any) -> None:
    make = sparse(model, feature_bound=1.0)
    first = clone(make).fit(X, Y, **whose(model))
    for row, target in zip(WORST, (np.nan, np.inf, -1e308, 7.0, 5e-324), strict=True):
        groups = GROUPS.astype(float)
        groups[17] = target
        second = clone(make).fit(*replaced(row, target), **whose(model, groups))
        assert form(second.certificate_) == form(first.certificate_)
        assert np.isfinite(second.coef_).all()


def test_replacing_one_record_changes_nothing_public_of_medians_and_tables() -> None:
    median = PrivateGeometricMedian(epsilon=2.0, radius_bound=8.0, random_state=5)
    first = clone(median).fit(X)
    for row in WORST:
        second = clone(median).fit(replaced(row, 0.0)[0])
        assert form(second.certificate_) == form(first.certificate_)
        assert np.isfinite(second.location_).all()
    synthetic = PrivateSyntheticData(epsilon=2.0, schema=SCHEMA, bins=4, random_state=5)
    public = form(clone(synthetic).fit(table(np.arange(N))).certificate_)
    for cell, text in ((np.nan, None), (np.inf, ""), (-1e308, "violet"), (5e-324, "\0")):
        changed = table(np.arange(N)).slice(1)
        row = pa.table({"x": [cell], "c": pa.array([text], pa.string())})
        assert form(clone(synthetic).fit(pa.concat_tables([row, changed])).certificate_) == public


def uncapped(model: Any) -> Any:
    """Slopes as they are: caps are chosen by size, and for records only."""
    whole = {"slope_cap": 1.0, "residual_cap": 1e9}
    return model.set_params(**{name: value for name, value in whole.items() if name in model.get_params()})


# Every record twice


@LINEAR
@METHOD
def test_copies_are_planned_as_more_records(model: Any, algorithm: str, delta: float) -> None:
    """Privacy knows n alone: copies get the plan of 2n records, and full-batch methods about half the noise."""
    make = uncapped(linear(model, algorithm, delta, feature_norm=1.0))
    twice = clone(make).fit(np.vstack([X, X]), np.tile(Y, 2))
    planned = make.plan(2 * N, D)[0]
    assert twice.plan_.public == planned.public
    assert twice.plan_.releases == planned.releases
    assert planned.predicted_error.bound < make.plan(N, D)[0].predicted_error.bound


def test_copies_are_planned_as_more_records_elsewhere() -> None:
    for model in SPARSE:
        make = sparse(model, feature_bound=1.0)
        twice = clone(make).fit(np.vstack([X, X]), np.tile(Y, 2), **whose(model, np.tile(GROUPS, 2)))
        assert twice.plan_.public == make.plan(2 * N, D)[0].public
    median = PrivateGeometricMedian(epsilon=2.0, radius_bound=8.0, random_state=5)
    assert clone(median).fit(np.vstack([X, X])).plan_.public == median.plan(2 * N, D).public
    synthetic = PrivateSyntheticData(epsilon=2.0, schema=SCHEMA, bins=4, random_state=5)
    twice = clone(synthetic).fit(table(np.tile(np.arange(N), 2)))
    assert twice.plan_.public == synthetic.plan(2 * N)[0].public


# Users with one record each


@LINEAR
@METHOD
def test_users_of_one_record_are_records(model: Any, algorithm: str, delta: float) -> None:
    """The same noise and release, where the proof for users is that for records; else the same noise a sensitivity.

    Objective perturbation has fewer rules for users, and noisy gradients cut users' vectors shorter.
    """
    make = uncapped(linear(model, algorithm, delta, feature_norm=1.0))
    if algorithm == "objective_perturbation":
        make = make.set_params(noise="l2")  # users' plans rank by bounds, and may prefer another noise
    records, users = clone(make).fit(X, Y), clone(make).fit(X, Y, groups=np.arange(N))
    ours, theirs = ([r.event.to_dict() for r in fitted.certificate_.releases] for fitted in (records, users))
    assert users.certificate_.target.unit == "user"
    assert users.certificate_.spent_epsilon == pytest.approx(records.certificate_.spent_epsilon, rel=1e-3)
    if algorithm == "noisy_gradient":
        times = [fitted.certificate_.releases[0].times for fitted in (records, users)]
        ratios = [e[0]["sigma"] / e[0]["sensitivity"] / t**0.5 for e, t in zip((ours, theirs), times, strict=True)]
        assert ratios[1] == pytest.approx(ratios[0], rel=1e-2)
    elif algorithm == "output_perturbation" or ours[0].get("rule") == "free":
        assert theirs == ours
        np.testing.assert_allclose(users.coef_, records.coef_, rtol=SEARCHED, atol=SEARCHED)
    else:
        # Users take the ridge of the least bound, records that of the least expected error: up to 19 % more of a bound.
        assert users.plan_.predicted_error.bound >= 0.7 * records.plan_.predicted_error.bound


def test_the_median_of_users_of_one_record_is_that_of_records() -> None:
    make = PrivateGeometricMedian(epsilon=2.0, radius_bound=8.0, random_state=5)
    records, users = clone(make).fit(X), clone(make).fit(X, groups=np.arange(N))
    np.testing.assert_allclose(users.location_, records.location_, rtol=EXACT, atol=EXACT)
    assert [r.event for r in users.certificate_.releases] == [r.event for r in records.certificate_.releases]


def test_names_of_users_do_not_matter() -> None:
    model = next(m for m in ESTIMATORS if is_classifier(m()))
    make, users = linear(model, "noisy_gradient", 1e-6, feature_norm=1.0), np.arange(N) // 3
    first = clone(make).fit(X, Y, groups=users)
    for names in (users * 1.5 - 7, [f"user {k}" for k in users], users.astype(object)):
        second = clone(make).fit(X, Y, groups=names)
        np.testing.assert_allclose(second.coef_, first.coef_, rtol=SEARCHED)
        assert form(second.certificate_) == form(first.certificate_)
