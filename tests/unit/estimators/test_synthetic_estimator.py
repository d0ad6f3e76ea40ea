"""`PrivateSyntheticData`: marginals near the data's, certificates, tables of every kind, content that never speaks."""

from __future__ import annotations

import inspect
import json
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from sklearn.base import clone

from dpconvex import CategoricalColumn, NumericColumn, PrivateSyntheticData, Schema, budget_context, verify
from dpconvex.data import ClassTarget, open_files
from dpconvex.errors import (
    BudgetExceededError,
    DpconvexWarning,
    InvalidDataError,
    InvalidParameterError,
    SchemaError,
    UnavailableError,
)
from dpconvex.privacy.certificate import digest
from dpconvex.problems.data.sources.arrow import MEMORY

SCHEMA = Schema(
    (NumericColumn("age", 0, 100), CategoricalColumn("color", ("red", "green"), other=True)),
    ClassTarget("ill", ("no", "yes")),
)
N = 20_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, N)
    ill = np.where(rng.random(N) < age / 200, "yes", "no")
    return pa.table({"age": age, "color": rng.choice(["red", "green", "blue"], N), "ill": ill})


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


def test_a_histogram_that_is_too_large_is_a_missing_attribute() -> None:
    """Tools such as `inspect` read every property, and take no other exception than AttributeError."""
    wide = Schema(tuple(CategoricalColumn(f"c{k}", ("a", "b")) for k in range(28)), None)
    fitted = PrivateSyntheticData(epsilon=1, schema=wide, random_state=0, order=1)
    fitted.fit(pa.table({f"c{k}": ["a", "b"] * 20 for k in range(28)}))
    assert not hasattr(fitted, "histogram_")
    assert "histogram_" not in dict(inspect.getmembers(fitted))
    with pytest.raises(UnavailableError, match="must have at most 134217728 combinations") as refused:
        _ = fitted.histogram_
    assert isinstance(refused.value, InvalidParameterError)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def added(**parameters) -> PrivateSyntheticData:
    return model(**{"neighbors": "add_or_remove_one", "rows": 300, **parameters})


@pytest.mark.parametrize("epsilon", [1e-4, 1.0])
def test_nothing_public_tells_how_many_records_there_are(table: pa.Table, epsilon: float) -> None:
    """The same plan, certificate, warnings, attributes and sizes for 0, n and n + 1 records, and for many."""
    found = []
    for n in (0, 299, 300, 301, N):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            fitted = added(epsilon=epsilon).fit(table.slice(0, n))
        said = [str(each.message) for each in heard if issubclass(each.category, DpconvexWarning)]
        facts = [(plan.recipe, repr(plan)) for plan in (fitted.plan_, *fitted.plan(), *fitted.plan(300))]
        shapes = [part.shape for part in fitted.tables_.noisy], fitted.sample().num_rows, fitted.sample(5).num_rows
        found.append((said, facts, fitted.certificate_.to_dict(), sorted(vars(fitted)), shapes, repr(fitted)))
    assert all(each == found[0] for each in found)
    assert found[0][4][1] == 300
    assert bool(found[0][0]) == (epsilon < 1)  # hopeless, by what was declared


def test_the_released_total_is_near_the_number_of_records(table: pa.Table) -> None:
    fitted = added(epsilon=5.0).fit(table)
    total = fitted.tables_.total
    assert abs(total.value - N) < 6 * total.deviation < 100
    assert fitted.score(table) > -0.01
    shares = fitted.marginal("color", interval=0.99, together=True)
    assert (shares.high - shares.low).max() < 0.02
    with pytest.raises(InvalidParameterError, match=r"columns=\('ill', 'age', 'color'\): must be one or two columns"):
        fitted.marginal("ill", "age", "color", interval=0.99)


def test_an_added_record_is_certified_and_a_relabelled_certificate_fails(table: pa.Table) -> None:
    fitted = added(random_state=None).fit(table)
    text = fitted.certificate_.to_json()
    assert verify(text).passed
    assert "adding or removing one row" in fitted.certificate_.explain()
    assert "declared number" in fitted.certificate_.explain()
    fields = json.loads(text.replace("add_or_remove_one", "replace_one"))
    fields["planner"]["inputs"]["privacy"].pop("neighboring", None)
    fields["digest"] = digest(fields)
    failed = {check.name for check in verify(json.dumps(fields)).checks if not check.passed}
    assert {"planned again: releases", "planned again: assumptions"} <= failed


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"rows": None}, "rows"),
        ({"rows": 0}, "rows"),
        ({"rows": 2.5}, "rows"),
        ({"neighbors": "other", "rows": None}, "replace_one"),
        ({"neighbors": "replace_one"}, "Leave it out"),
        ({"algorithm": "noisy_tree"}, "noisy tables"),
        ({"algorithm": "query_noise"}, "noisy tables"),
        ({"algorithm": "mwem"}, "noisy tables"),
        ({"algorithm": "saddle_point"}, "noisy tables"),
        ({"order": 3}, "noisy tables"),
        ({"constants": "paper"}, "noisy tables"),
    ],
    ids=str,
)
def test_what_cannot_protect_an_added_record_is_refused(table: pa.Table, parameters: dict, words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        added(**parameters).fit(table)


def test_portion_by_portion_users_are_protected_and_added_records_are_not(table: pa.Table, tmp_path: Path) -> None:
    pacsv.write_csv(table, tmp_path / "table.csv")
    rows = open_files(tmp_path / "table.csv", SCHEMA)
    with pytest.raises(InvalidParameterError, match="in memory"):
        added().fit(rows)
    pacsv.write_csv(table.append_column("who", pa.array(OWNERS)), tmp_path / "owned.csv")
    read = model(schema=OWNED).fit(open_files(tmp_path / "owned.csv", OWNED))
    token = MEMORY.set(150_000)
    try:
        portions = model(schema=OWNED).fit(open_files(tmp_path / "owned.csv", OWNED))
    finally:
        MEMORY.reset(token)
    for one in (read, portions, model().fit(rows, groups=OWNERS)):
        np.testing.assert_array_equal(one.histogram_, model().fit(table, groups=OWNERS).histogram_)
        assert one.plan_.recipe == model().plan(len(set(OWNERS)), unit="user")[0].recipe


def test_derived_columns_are_read_portion_by_portion(tmp_path: Path) -> None:
    """Folders and files asked for a column of the name of the formula, once the budget was charged."""
    columns = (NumericColumn("age", 0, 110), NumericColumn("decades", 0, 11, formula="age / 10"))
    table = pa.table({"age": np.random.default_rng(0).uniform(0, 110, 500)})
    pacsv.write_csv(table, tmp_path / "t.csv")
    derived = Schema(columns)
    found = [
        PrivateSyntheticData(5.0, schema=derived, random_state=0).fit(each)
        for each in (table, open_files(tmp_path / "t.csv", derived))
    ]
    np.testing.assert_array_equal(found[0].histogram_, found[1].histogram_)


OWNED = replace(SCHEMA, user="who")
OWNERS = np.random.default_rng(0).integers(0, 5000, N)


@pytest.mark.parametrize("algorithm", ["auto", "noisy_tables", "noisy_tree"])
def test_users_are_protected_and_share_their_weight(table: pa.Table, algorithm: str) -> None:
    """One user has half of the rows, all of one kind: it moves nothing, and the number of users is public alone."""
    users = len(set(OWNERS))
    fitted = model(algorithm=algorithm, epsilon=5.0, random_state=None).fit(table, groups=OWNERS)
    target = fitted.certificate_.target
    assert (target.unit, fitted.certificate_.public["n"], fitted.plan_.n) == ("user", users, users)
    assert verify(fitted).passed
    assert len(fitted.sample()) == users
    half = pa.table({"age": [99.0] * N, "color": ["red"] * N, "ill": ["yes"] * N})
    more = model(algorithm=algorithm, epsilon=5.0).fit(
        pa.concat_tables([table, half]), groups=np.concatenate([OWNERS, np.zeros(N)])
    )
    assert np.abs(more.marginal("ill") - [0.75, 0.25]).max() < 0.03
    found = more.marginal("ill", interval=0.999)
    assert found.low[1] < 0.25 < found.high[1]


def test_users_of_one_row_each_are_as_records(table: pa.Table) -> None:
    """The same noise on the same tables, whatever the users are called; only the promise is another."""
    order = np.random.default_rng(1).permutation(N)
    found = [model().fit(table), model().fit(table, groups=order), model().fit(table, groups=order.astype(str))]
    for fitted in found[1:]:
        np.testing.assert_array_equal(fitted.histogram_, found[0].histogram_)
    assert [str(each.plan_.privacy.unit) for each in found] == ["record", "user", "user"]


def test_a_schema_that_names_users_protects_them(table: pa.Table) -> None:
    owned = model(schema=OWNED)
    by_column = owned.fit(table.append_column("who", pa.array(OWNERS)))
    np.testing.assert_array_equal(by_column.histogram_, model().fit(table, groups=OWNERS).histogram_)
    assert by_column.plan_.recipe == owned.plan(by_column.plan_.n)[0].recipe
    assert {str(plan.privacy.unit) for plan in model().plan(100, unit="user")} == {"user"}
    assert owned.plan(100, unit="record")[0].privacy.unit == "record"
    with pytest.raises(SchemaError, match="who"):
        owned.fit(table)
    with pytest.raises(InvalidParameterError, match="unit"):
        owned.plan(100, unit="row")
    with pytest.raises(InvalidDataError, match="groups"):
        model().fit(table, groups=OWNERS[1:])


@pytest.mark.parametrize(
    "parameters",
    [
        *({"algorithm": name, "delta": 1e-6} for name in ("query_noise", "mwem", "saddle_point")),
        {"order": 3},
        {"neighbors": "add_or_remove_one", "rows": 300},
    ],
    ids=str,
)
def test_what_cannot_protect_users_is_refused(table: pa.Table, parameters: dict) -> None:
    with pytest.raises(InvalidParameterError, match=r"unit='user'.*record|order=2|replace_one' for users") as refused:
        model(**parameters).fit(table, groups=OWNERS)
    assert str(N) not in str(refused.value)


def test_whose_rows_they_are_never_speaks(table: pa.Table) -> None:
    """Rows of one user or of all, missing labels, and users of one or thousands of rows: one certificate, no word."""
    few, n = table.slice(0, 3000), 3
    owners = {
        "even": np.arange(3000) % n,
        "one has nearly all": np.minimum(np.arange(3000), n - 1),
        "nobody": np.where(np.arange(3000) < 2998, np.nan, np.arange(3000.0)),
        "texts": np.array([None, "a", "b"], dtype=object)[np.arange(3000) % n],
    }
    found = []
    for groups in owners.values():
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            fitted = model().fit(few, groups=groups)
        shapes = [part.shape for part in fitted.tables_.noisy], len(fitted.sample())
        found.append((len(heard), fitted.certificate_.to_dict(), shapes, sorted(vars(fitted)), fitted.plan_.recipe))
    assert all(each[1:] == found[0][1:] for each in found)
    assert [each[0] for each in found[1:]] == [found[1][0]] * 3


def test_a_budget_is_for_one_relation(table: pa.Table) -> None:
    with budget_context(2.0, 1e-6), pytest.raises(BudgetExceededError, match="neighboring"):
        added(random_state=None).fit(table)
    with budget_context(2.0, 1e-6, neighboring="add_or_remove_one") as budget:
        added(random_state=None).fit(table)
        with pytest.raises(BudgetExceededError, match="neighboring"):
            model(random_state=None).fit(table)
        assert float(budget.account().left[0]) == 1.0


def test_the_saddle_point_needs_no_delta(table: pa.Table) -> None:
    fitted = model(algorithm="saddle_point", delta=0.0, epsilon=4.0).fit(table.slice(0, 2000))
    assert fitted.certificate_.spent_delta == 0
    assert fitted.certificate_.spent_epsilon <= 4.0
    assert fitted.score(table.slice(0, 2000)) > -0.3


def test_drawn_records_have_the_marginals_of_the_histogram(table: pa.Table) -> None:
    """1e5 draws: the share's deviation is below 0.0016; 0.008 is 5 of them for each of 24 cells."""
    fitted = model().fit(table)
    drawn = fitted.sample(100_000, random_state=1)
    assert drawn.column_names == ["age", "color", "ill"]
    shares = np.bincount(fitted.queries_.clip_records(fitted.cells_.encode(drawn)), minlength=24) / 1e5
    assert np.abs(shares - fitted.histogram_.ravel()).max() < 0.008
    assert len(fitted.sample()) == N
    assert fitted.sample(5, random_state=2).equals(fitted.sample(5, random_state=2))


def test_marginals_come_in_the_order_asked_for(table: pa.Table) -> None:
    fitted = model().fit(table)
    assert fitted.marginal("ill", "age").shape == (2, 4)
    np.testing.assert_array_equal(fitted.marginal("ill", "age"), fitted.marginal("age", "ill").T)
    np.testing.assert_allclose(fitted.marginal("age", "color", "ill"), fitted.histogram_)
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
        "constant": {"age": [5.0] * 300, "color": ["red"] * 300, "ill": ["no"] * 300},
        "missing": {"age": [np.nan] * 300, "color": [None] * 300, "ill": [None] * 300},
        "odd": {"age": [np.inf, -1e300] * 150, "color": ["?"] * 300, "ill": ["maybe", ""] * 150},
    }
    certificates = []
    for content in contents.values():
        frame = pd.DataFrame(content).astype({"color": object, "ill": object})
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
