"""`PrivateSyntheticData`: marginals near the data's, certificates, tables of every kind, content that never speaks."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from dpconvex import CategoricalColumn, NumericColumn, PrivateSyntheticData, Schema, verify
from dpconvex.data import ClassTarget
from dpconvex.errors import InvalidDataError, InvalidParameterError, SchemaError

SCHEMA = Schema(
    (NumericColumn("age", 0, 100), CategoricalColumn("colour", ("red", "green"), other=True)),
    ClassTarget("ill", ("no", "yes")),
)
N = 20_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, N)
    ill = np.where(rng.random(N) < age / 200, "yes", "no")
    return pa.table({"age": age, "colour": rng.choice(["red", "green", "blue"], N), "ill": ill})


def model(**parameters) -> PrivateSyntheticData:
    return PrivateSyntheticData(**{"epsilon": 1.0, "schema": SCHEMA, "bins": 4, "random_state": 0, **parameters})


@pytest.mark.parametrize("algorithm", ["auto", "query_noise", "mwem"])
def test_marginals_are_near_those_of_the_data(table: pa.Table, algorithm: str) -> None:
    """Noise of a share is about 5 sqrt(tables)/(n epsilon) = 0.0005; 0.01 is 20 times that."""
    fitted = model(algorithm=algorithm).fit(table)
    assert fitted.score(table) > -0.01
    assert fitted.histogram_.shape == (4, 3, 2) == fitted.cells_.shape
    assert fitted.histogram_.min() >= 0
    assert fitted.histogram_.sum() == pytest.approx(1, abs=1e-9)
    assert fitted.n_features_in_ == 3
    assert fitted.plan_ is not None
    assert not fitted.certificate_.private  # seeded


def test_the_saddle_point_needs_no_delta(table: pa.Table) -> None:
    fitted = model(algorithm="saddle_point", delta=0.0, epsilon=4.0).fit(table.slice(0, 2000))
    assert fitted.certificate_.spent_delta == 0
    assert fitted.certificate_.spent_epsilon <= 4.0
    assert fitted.score(table.slice(0, 2000)) > -0.3


def test_drawn_records_have_the_marginals_of_the_histogram(table: pa.Table) -> None:
    """1e5 draws: the share's deviation is below 0.0016; 0.008 is 5 of them for each of 24 cells."""
    fitted = model().fit(table)
    drawn = fitted.sample(100_000, random_state=1)
    assert drawn.column_names == ["age", "colour", "ill"]
    shares = np.bincount(fitted.queries_.clip_records(fitted.cells_.encode(drawn)), minlength=24) / 1e5
    assert np.abs(shares - fitted.histogram_.ravel()).max() < 0.008
    assert len(fitted.sample()) == N
    assert fitted.sample(5, random_state=2).equals(fitted.sample(5, random_state=2))


def test_marginals_come_in_the_order_asked_for(table: pa.Table) -> None:
    fitted = model().fit(table)
    assert fitted.marginal("ill", "age").shape == (2, 4)
    np.testing.assert_array_equal(fitted.marginal("ill", "age"), fitted.marginal("age", "ill").T)
    np.testing.assert_allclose(fitted.marginal("age", "colour", "ill"), fitted.histogram_)
    assert fitted.marginal() == pytest.approx(1)
    for wrong in (("weight",), ("age", "age")):
        with pytest.raises(InvalidParameterError):
            fitted.marginal(*wrong)


def test_the_certificate_verifies_and_says_what_was_done(table: pa.Table) -> None:
    fitted = model(random_state=None).fit(table)
    assert fitted.certificate_.private
    assert verify(json.dumps(fitted.certificate_.to_dict())).passed
    assert fitted.certificate_.spent_epsilon <= 1.0
    assert fitted.certificate_.public["cells"] == 24


def test_every_kind_of_table_gives_the_same(table: pa.Table) -> None:
    found = [model().fit(kind).histogram_ for kind in (table, table.to_pandas(), pl.from_arrow(table))]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("algorithm", ["noisy_tables", "query_noise", "mwem", "saddle_point"])
def test_content_never_speaks(algorithm: str) -> None:
    """No content raises, warns, or changes what the certificate says."""
    contents = {
        "constant": {"age": [5.0] * 300, "colour": ["red"] * 300, "ill": ["no"] * 300},
        "missing": {"age": [np.nan] * 300, "colour": [None] * 300, "ill": [None] * 300},
        "odd": {"age": [np.inf, -1e300] * 150, "colour": ["?"] * 300, "ill": ["maybe", ""] * 150},
    }
    certificates = []
    for content in contents.values():
        frame = pd.DataFrame(content).astype({"colour": object, "ill": object})
        fitted = model(algorithm=algorithm, delta=1e-6).fit(frame)
        assert np.isfinite(fitted.histogram_).all()
        certificates.append(fitted.certificate_.to_dict())
    assert certificates[0] == certificates[1] == certificates[2]


def test_plans_need_no_data_and_the_first_is_used(table: pa.Table) -> None:
    plans = model().plan(N)
    assert len(plans) >= 4
    assert model().fit(table).plan_.algorithm == plans[0].algorithm


def test_columns_and_order_choose_the_queries(table: pa.Table) -> None:
    fitted = model(columns=("ill", "age"), order=1, bins={"age": (0, 18, 100)}).fit(table)
    assert fitted.cells_.names == ("ill", "age")
    assert fitted.queries_.count == 4
    assert fitted.marginal("age")[0] == pytest.approx(0.18, abs=0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": None},
        {"order": 0},
        {"bins": 0},
        {"columns": ("weight",)},
        {"algorithm": "magic"},
        {"epsilon": 0.0},
        {"delta": 0.9},
        {"random_state": "x"},
    ],
)
def test_parameters_are_checked(wrong: dict, table: pa.Table) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        model(**wrong).fit(table)


def test_data_of_a_wrong_form_are_refused(table: pa.Table) -> None:
    with pytest.raises(InvalidDataError):
        model().fit(table.slice(0, 0))
    with pytest.raises(SchemaError, match="ill"):
        model().fit(table.drop_columns(["ill"]))
    with pytest.raises(InvalidDataError):
        model().fit(np.zeros((3, 3)))


def test_it_is_a_scikit_learn_estimator() -> None:
    one = model(order=1)
    assert clone(one).get_params() == one.get_params()
    assert set(vars(one)) == set(one.get_params())
