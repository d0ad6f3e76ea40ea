"""Estimators that protect whole users: groups, schemas that name a user column, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dpconvex import NumericColumn, PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, Schema
from dpconvex.data import ClassTarget, read_table
from dpconvex.errors import DpconvexError, InvalidDataError, InvalidParameterError, SchemaError
from dpconvex.estimators._matrices import user_labels
from dpconvex.problems import UserGroups


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    users = rng.permutation(np.repeat(np.arange(60), rng.integers(1, 9, 60)))
    X = rng.uniform(-1, 1, (len(users), 2))
    return X, (X[:, 0] > 0).astype(int), users


def fitted(X, y, groups, **changes):
    model = PrivateLogisticRegression(
        3.0, feature_bounds=(-1, 1), algorithm="objective_perturbation", random_state=0, classes=[0, 1]
    )
    return model.set_params(**changes).fit(X, y, groups=groups)


def test_groups_protect_users(table) -> None:
    X, y, users = table
    model = fitted(X, y, users)
    assert model.certificate_.target.unit == "user"
    assert model.plan_.problem.n == 60
    assert model.plan_.problem.records_per_user == 1
    assert "everything one user contributed" in model.certificate_.explain()
    by_record = PrivateLogisticRegression(3.0, feature_bounds=(-1, 1), random_state=0, classes=[0, 1]).fit(X, y)
    assert by_record.certificate_.target.unit == "record"
    assert by_record.plan_.problem.n == len(y)


@pytest.mark.parametrize("kind", ["text", "object", "shifted", "float", "list"])
def test_only_who_shares_a_label_matters(table, kind) -> None:
    X, y, users = table
    texts = np.array([f"user {u:03}" for u in users])
    labels = {
        "text": texts,
        "object": texts.astype(object),
        "shifted": users - 1000,
        "float": users / 7,
        "list": users.tolist(),
    }[kind]
    assert fitted(X, y, labels).coef_ == pytest.approx(fitted(X, y, users).coef_, rel=1e-9)


def test_the_order_of_rows_does_not_matter(table) -> None:
    X, y, users = table
    order = np.argsort(users, kind="stable")
    assert fitted(X[order], y[order], users[order]).coef_ == pytest.approx(fitted(X, y, users).coef_, rel=1e-6)


def test_a_user_with_most_of_the_data_counts_once(table) -> None:
    """5,000 rows that say the opposite: they turn the record-level fit, not the user-level one."""
    X, y, users = table
    rng = np.random.default_rng(1)
    more = rng.uniform(-1, 1, (5000, 2))
    X, y = np.concatenate([X, more]), np.concatenate([y, (more[:, 0] <= 0).astype(int)])
    users = np.concatenate([users, np.full(5000, 99)])
    for cap in (1, 5):
        assert fitted(X, y, users, records_per_user=cap).coef_[0, 0] > 0
    assert (
        PrivateLogisticRegression(3.0, feature_bounds=(-1, 1), random_state=0, classes=[0, 1]).fit(X, y).coef_[0, 0] < 0
    )


def test_repeating_a_users_rows_changes_nothing(table) -> None:
    """With equal users; and nothing that is released or planned says how many rows there were."""
    X, y, users = table
    again = np.concatenate([np.arange(len(y)), np.flatnonzero(users == 7), np.flatnonzero(users == 7)])
    one, other = fitted(X, y, users), fitted(X[again], y[again], users[again])
    assert one.coef_ == pytest.approx(other.coef_, rel=1e-6)
    assert dataclasses.replace(one.certificate_, model=other.certificate_.model) == other.certificate_


def test_plans_count_users() -> None:
    model = PrivateLogisticRegression(1.0, feature_norm=1.0, records_per_user=4, classes=[0, 1])
    by_user, by_record = model.plan(500, 3, unit="user")[0], model.plan(500, 3, unit="record")[0]
    assert (by_user.privacy.unit, by_user.problem.n, by_user.problem.records_per_user) == ("user", 500, 4)
    assert (by_record.privacy.unit, by_record.problem.records_per_user) == ("record", None)
    with pytest.raises(InvalidParameterError, match="unit"):
        model.plan(500, 3, unit="household")


def test_a_schema_that_names_users_protects_them(table) -> None:
    pa = pytest.importorskip("pyarrow")
    X, y, users = table
    columns = {"a": X[:, 0], "b": X[:, 1], "y": np.where(y, "yes", "no"), "who": users.astype(str)}
    schema = Schema(
        (NumericColumn("a", -1, 1), NumericColumn("b", -1, 1)), target=ClassTarget("y", ("no", "yes")), user="who"
    )
    model = PrivateLogisticRegression(3.0, schema=schema, random_state=0)
    assert model.plan(60)[0].privacy.unit == "user"
    assert model.plan(60, unit="record")[0].privacy.unit == "record"
    frame = pa.table(columns)
    assert model.fit(frame).certificate_.target.unit == "user"
    assert model.plan_.problem.n == 60
    assert len(model.predict(frame.drop_columns("who"))) == len(y)
    with pytest.raises(SchemaError, match="who"):
        model.fit(frame.drop_columns("who"))
    with pytest.raises(SchemaError, match="user"):
        Schema((NumericColumn("a", -1, 1),)).user_labels(frame)


def test_other_models_protect_users(table) -> None:
    X, y, users = table
    svc = PrivateLinearSVC(3.0, feature_bounds=(-1, 1), smoothing=0.0, random_state=0, classes=[0, 1]).fit(
        X, y, groups=users
    )
    linear = PrivateLinearRegression(3.0, feature_bounds=(-1, 1), target_bounds=(0, 1), random_state=0)
    for model in (svc, linear.fit(X, y, groups=users)):
        assert model.certificate_.target.unit == "user"


@pytest.mark.parametrize("change", [{"tilt": 1.0}, {"adversarial_radius": 0.1}])
def test_what_users_do_not_have_is_refused(table, change) -> None:
    X, y, users = table
    with pytest.raises(InvalidParameterError, match=next(iter(change))):
        fitted(X, y, users, **change)


def test_records_of_a_user_are_a_number_or_private(table) -> None:
    X, y, users = table
    for given in (0, 2.5, None, "Private"):
        with pytest.raises(InvalidParameterError, match=r"records_per_user=.*an integer >= 1. Or 'private'"):
            fitted(X, y, users, records_per_user=given)


def test_heavy_tails_are_not_for_users(table) -> None:
    X, y, users = table
    model = PrivateLinearRegression(1.0, feature_bounds=(-1, 1), target_bounds=(0, 1), heavy_tailed=2.0)
    with pytest.raises(DpconvexError):
        model.fit(X, y, groups=users)


def test_labels_must_fit_the_data(table) -> None:
    X, y, users = table
    with pytest.raises(InvalidDataError, match="must have one length"):
        fitted(X, y, users[:-1])
    with pytest.raises(InvalidDataError, match="groups has shape"):
        fitted(X, y, np.column_stack([users, users]))


def user_schema() -> Schema:
    return Schema((NumericColumn("a", -1, 1),), target=ClassTarget("y", ("no", "yes")), user="who")


def n_users(table) -> int:
    return PrivateLogisticRegression(3.0, schema=user_schema(), random_state=0).fit(table).plan_.problem.n


def test_a_missing_label_leaves_the_labels_of_others_alone() -> None:
    """As floats, which an integer column with a missing cell becomes, ids above 2^53 would be one user."""
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    ids = [2**60 + i % 10 for i in range(40)]
    columns = {"a": np.linspace(-1, 1, 40), "y": ["yes", "no"] * 20}
    assert n_users(pa.table({**columns, "who": ids})) == 10
    gap = [None, *ids[1:]]
    assert n_users(pa.table({**columns, "who": gap})) == 11
    assert n_users(pd.DataFrame(columns | {"who": pd.array(gap, dtype="Int64")})) == 11
    model = PrivateLogisticRegression(3.0, feature_bounds=(-1, 1), random_state=0, classes=[0, 1])
    for groups in (gap, pd.Series(gap, dtype="Int64"), pa.chunked_array([gap])):
        assert model.fit(columns["a"][:, None], np.arange(40) % 2, groups=groups).plan_.problem.n == 11


@pytest.mark.parametrize("label", [b"\xff\xfe", b"", b"x" * 10**6], ids=["no text", "empty", "long"])
def test_no_label_in_a_file_stops_a_fit(label: bytes, tmp_path) -> None:
    rows = [f"{i / 40:.3f},{'yes' if i % 3 else 'no'},u{i % 10}".encode() for i in range(40)]
    rows[3] = b"0.1,yes," + label
    (tmp_path / "table.csv").write_bytes(b"\n".join([b"a,y,who", *rows, b""]))
    assert n_users(read_table(tmp_path / "table.csv", user_schema())) == 11


def test_two_names_of_one_category_are_one_user() -> None:
    """A category column whose list of levels names a user twice; missing cells, empty texts and NaN are one user."""
    pa = pytest.importorskip("pyarrow")
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array(["u", "u", "v"]))
    for who, users in ((twice, 3), (pa.array(["u", "", None, "u"]), 2), (pa.array([1.5, np.nan, None, 1.5]), 2)):
        assert n_users(pa.table({"a": [0.0] * 4, "y": ["yes", "no"] * 2, "who": who})) == users
    with pytest.raises(SchemaError, match="List"):
        n_users(pa.table({"a": [0.0] * 2, "y": ["yes", "no"], "who": [[1], [2]]}))


def test_what_a_list_of_labels_holds_raises_nothing(table) -> None:
    """A number is one label whatever its type and whatever else is in the list."""
    X, y, users = table
    assert user_labels([1, 1.0, True, np.float32(1), "1", None, (1, 2), 2.5, 10**5000]).tolist()[:5] == [
        1,
        1,
        1,
        1,
        "1",
    ]
    assert UserGroups.of(user_labels([1, 1.0, "1", None, np.nan, (1, 2), 10**5000])).n_users == 3
    assert fitted(X, y, [(1, 2), *users[1:].tolist()]).certificate_.target.unit == "user"


def test_an_object_array_holds_the_users_of_a_list_and_of_a_column() -> None:
    """It told 5 from 5.0, so a person with both was protected as two users."""
    pd = pytest.importorskip("pandas")
    labels = [5, 5.0, "5", True, 1, "1", 1.0, -0.0, 0, np.float64(5), np.int64(5), None, np.nan, ""]
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    users = [UserGroups.of(user_labels(each)).codes for each in (labels, array, pd.Series(array))]
    assert users[0].max() == 3
    for codes in users[1:]:
        assert len({*zip(users[0].tolist(), codes.tolist(), strict=True)}) == codes.max() + 1 == 4


def test_records_per_user_without_users_is_refused() -> None:
    X, y = np.zeros((6, 1)), np.arange(6) % 2
    model = PrivateLogisticRegression(1.0, feature_norm=1.0, records_per_user=4, classes=[0, 1])
    with pytest.raises(InvalidParameterError, match="records_per_user=4: is for users"):
        model.fit(X, y)
    with pytest.raises(InvalidParameterError, match="records_per_user=4: is for users"):
        model.plan(6, 1)
    assert model.plan(6, 1, unit="record")[0].privacy.unit == "record"


def test_the_name_of_a_column_is_no_column(table) -> None:
    X, y, _ = table
    with pytest.raises(InvalidDataError, match=r"Pass the column, as in groups=table\['who'\]"):
        fitted(X, y, "who")
