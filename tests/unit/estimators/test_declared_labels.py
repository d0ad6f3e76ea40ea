"""Labels in lists and arrays of objects, matched to declared classes: no cell raises or changes how others are read."""

from __future__ import annotations

import dataclasses
import decimal
import itertools
from array import array
from collections import deque
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import cross_val_predict

from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateGeometricMedian,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
    budget_context,
    fit_and_evaluate,
)
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, Schema
from dpconvex.errors import InvalidDataError, InvalidParameterError, SchemaError
from dpconvex.estimators._matrices import _cells_of, numbers_of, numeric_matrix, user_labels
from dpconvex.estimators._targets import as_series, checked_classes, declared_index, number_array
from dpconvex.problems import UserGroups


class CrossValidated:
    """Probabilities of folds, with the methods of an estimator."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> CrossValidated:
        self.found = cross_val_predict(self.model, X, y, cv=2, method="predict_proba").argmax(1)
        return self

    def predict(self, X: Any) -> Any:
        return self.found


@pytest.mark.parametrize("wrap", [CrossValidated, lambda model: VotingClassifier([("a", model)], voting="soft")])
def test_labels_that_scikit_learn_encodes_are_explained(wrap: Any) -> None:
    """Its tools hand the positions of classes to `fit`; labels that are such positions already stay what they are."""
    X = np.random.default_rng(0).random((90, 2))
    y = np.where(X[:, 0] > 0.5, "yes", "no")
    model = PrivateLogisticRegression(feature_bounds=(0, 1), classes=["no", "yes"], random_state=0)
    with pytest.raises(InvalidDataError, match=r"encode y yourself, and give classes=\[0, 1, \.\.\.\]$"):
        wrap(model).fit(X, y)
    found = wrap(clone(model).set_params(classes=[0, 1])).fit(X, (y == "yes").astype(int)).predict(X)
    assert set(found.tolist()) <= {0, 1}
    with pytest.raises(InvalidDataError, match=r"y holds text labels, but classes=\[0, 1\]: give the same type$"):
        clone(model).set_params(classes=[0, 1]).fit(X, y)


class Odd:
    """An object that cannot be compared, hashed or written."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __eq__(self, other: object) -> bool:
        raise TypeError

    def __str__(self) -> str:
        raise TypeError


CELLS: list[Any] = [
    None,
    float("nan"),
    "x",
    "",
    True,
    1.0,
    "1",
    2**70,
    10**5000,
    [1],
    (1, 2),
    {},
    b"\xff",
    "\udc80",
    Odd(),
]
CLASSES = {"number": np.array([5, 0, 1]), "text": np.array(["a", "0", "1"]), "boolean": np.array([False, True])}


@given(st.lists(st.sampled_from(range(len(CELLS))), max_size=4), st.sampled_from(list(CLASSES)), st.booleans())
def test_no_cell_raises_or_moves_another(chosen: list[int], kind: str, as_list: bool) -> None:
    classes = CLASSES[kind]
    known = [0, 1, 0, 1]
    cells = np.fromiter([*known, *(CELLS[i] for i in chosen)], dtype=object)
    found = declared_index(list(cells) if as_list else cells, classes)
    assert len(found) == len(cells)
    assert found[:4].tolist() == ([0, 1, 0, 1] if kind == "boolean" else [1, 2, 1, 2])
    alone = [declared_index([CELLS[i]], classes)[0] for i in chosen]
    assert found[4:].tolist() == alone


def test_unlisted_cells_are_the_first_class() -> None:
    found = declared_index([0, 1, None, "x", Odd(), [1], 5, 1.0], CLASSES["number"])
    assert found.tolist() == [1, 2, 0, 0, 0, 0, 0, 2]
    assert declared_index(["b", " b ", None, 3], np.array(["a", "b"])).tolist() == [1, 1, 0, 0]


def test_a_declared_type_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="groups holds text labels"):
        declared_index(np.array(["0"]), CLASSES["number"], "groups")
    with pytest.raises(InvalidDataError, match="not its name"):
        declared_index("group", CLASSES["number"], "groups")
    with pytest.raises(InvalidDataError, match="groups has shape"):
        declared_index(np.zeros((2, 2), dtype=object), CLASSES["number"], "groups")


@pytest.mark.thin
@pytest.mark.parametrize("odd", [None, "x", Odd()], ids=["missing", "text", "object"])
@pytest.mark.gate
def test_fits_take_any_label(odd: Any) -> None:
    X, labels = np.linspace(-1, 1, 200)[:, None], [*([0, 1] * 99), 1, odd]
    options: dict[str, Any] = {"feature_bound": 1.0, "classes": [0, 1]}
    PrivateSparseLogisticRegression(1.0, **options).fit(X, labels)
    PrivateWorstGroupClassifier(2.0, groups=[0, 1], **options).fit(X, labels, groups=labels)
    PrivateLogisticRegression(1.0, feature_norm=1.0, classes=[0, 1]).fit(X, labels)


NUMBERS: list[Any] = [
    *CELLS,
    Odd,
    1 + 1j,
    np.bool_(True),
    decimal.Decimal("sNaN"),
    np.datetime64("NaT"),
    np.timedelta64("NaT"),
    np.timedelta64(3, "D"),
    "2.5",
    [3],
    [[4]],
]


@given(st.lists(st.sampled_from(range(len(NUMBERS))), max_size=4))
def test_numbers_in_lists_are_read_one_by_one(chosen: list[int]) -> None:
    found = number_array([1.5, 2, *(NUMBERS[i] for i in chosen)])
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.5, 2.0, *(number_array([NUMBERS[i]])[0] for i in chosen)])


@given(st.lists(st.sampled_from(range(len(NUMBERS))), min_size=2, max_size=2))
def test_tables_in_lists_are_read_cell_by_cell(chosen: list[int]) -> None:
    cells = [NUMBERS[i] for i in chosen]
    found = numeric_matrix([[1.5, 2], cells])
    np.testing.assert_array_equal(found[0], [1.5, 2.0])
    np.testing.assert_array_equal(np.isnan(found[1]), [np.isnan(numeric_matrix([[cell], [0]])[0, 0]) for cell in cells])


def test_what_lists_hold_changes_nothing_public() -> None:
    X, y = np.eye(30, 2).tolist(), [0.5, 1.0] * 15
    odd: list[Any] = [[None, "x"], [Odd(), 10**400], *X[2:]]
    model = PrivateLinearRegression(1.0, feature_norm=1.0, target_bounds=(0, 1), random_state=0)
    plain = dataclasses.replace(model.fit(X, y).certificate_, model=None)
    again = model.fit(odd, [None, "x", *y[2:]])
    assert dataclasses.replace(again.certificate_, model=None) == plain
    assert PrivateGeometricMedian(radius_bound=9, random_state=0).fit(odd).n_features_in_ == 2
    forms: tuple[Any, ...] = (X[0], [[1], [1, 2]], [np.float64(0.1), 0.2], list(np.zeros((3, 2, 2))), [])
    for form in forms:  # whatever a single cell is
        with pytest.raises(InvalidDataError, match="Expected 2D" if form else "Expected"):
            model.fit(form, y)


class Raising(float):
    """A number whose methods all raise, and quote it."""

    def __float__(self) -> float:
        raise RuntimeError("quoted cell")

    __mod__ = __int__ = __array__ = __float__  # type: ignore[assignment]  # pyright: ignore


class Unhashed(str):
    __hash__ = None  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize("cell", [Raising(1.0), [0.5], [[0.5], [1, 2]], np.ones(3), Unhashed("a"), Ellipsis])
def test_no_cell_of_a_list_makes_a_fit_raise(cell: Any) -> None:
    """Whatever methods it has, and if it is a sequence: it is missing, and others are read as before."""
    X, y, users = np.eye(40, 2).tolist(), [0.5, 1.0] * 20, [k // 2 for k in range(40)]
    model = PrivateLinearRegression(1.0, feature_norm=1.0, target_bounds=(0, 1), random_state=0, records_per_user=2)
    plain = dataclasses.replace(model.fit(X, y, groups=users).certificate_, model=None)
    odd = model.fit([[cell, 0.0], *X[1:]], [cell, *y[1:]], groups=[0, 0, *users[2:]]).certificate_
    assert dataclasses.replace(odd, model=None) == plain
    assert UserGroups.of(user_labels([cell, *users[2:]])).n_users == 20
    assert numbers_of(_cells_of([[cell]] * 3)).shape == (3, 1)
    for rows in ([range(2)] * 3, [np.arange(2)] * 3, [array("d", [0, 1])] * 3, [deque([0, 1])] * 3):
        np.testing.assert_array_equal(numbers_of(_cells_of(rows)), [[0, 1]] * 3)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateSparseLogisticRegression])
@pytest.mark.parametrize("labels", [[0, 1], [0, None], ["a", 1], [[1], 2], [False, True]])
def test_lists_of_labels_need_declared_classes(kind: Any, labels: list[Any]) -> None:
    """Else one cell would decide whether all are numbers, and with it the classes or an error."""
    model = kind(1.0, **({"feature_norm": 1.0} if kind is PrivateLogisticRegression else {"feature_bound": 1.0}))
    with pytest.raises(InvalidParameterError, match="classes=None: must be given for a list of labels"):
        model.fit(np.eye(2), labels)
    assert len(model.set_params(classes=[0, 1], random_state=0).fit(np.eye(2), labels).classes_) == 2


def classifiers(**more: Any) -> list[Any]:
    """Return one of every classifier, without classes unless given."""
    known = {"epsilon": 1e3, "algorithm": "output_perturbation", "feature_bounds": (-1, 1), **more}
    linear = [PrivateLogisticRegression(**known), PrivateLinearSVC(**known)]
    known |= {"algorithm": "vertex_mirror_descent"}
    sparse = PrivateSparseLogisticRegression(**known)
    worst = PrivateWorstGroupClassifier(**known, groups=[0, 1], group_shares=(0.5, 0.5))
    return [*linear, sparse, worst, PrivateSearchCV(linear[0], {"l2": [1e-3, 1e-2]}, method="composition")]


X200 = np.linspace(-1, 1, 200)[:, None]


def fit(model: Any, y: Any) -> Any:
    groups = {"groups": np.arange(200) % 2} if isinstance(model, PrivateWorstGroupClassifier) else {}
    return model.fit(X200, y, **groups)


@pytest.mark.gate
def test_only_booleans_have_default_classes() -> None:
    """Labels 1 and 2 were read as 0 and 1: every record of class 2 became a 0, and nothing said so."""
    high = X200[:, 0] > 0
    texts = np.where(high, "SECRET", "no")
    others = [high.astype(int) + 1, high.astype(np.uint64), high + 1.5, texts, texts.astype(object), texts.tolist()]
    others += [
        pd.Series(high + 1, dtype="Int64"),
        pd.Series(texts, dtype="category"),
        pl.Series(texts, dtype=pl.Enum(["no", "SECRET"])),
    ]
    others += [pl.Series(high + 1).cast(pl.Decimal(3, 1)), pl.Series([None] * 200)]
    for model, y in itertools.product(classifiers(), others):
        with pytest.raises(InvalidParameterError, match=r"classes=None: .*only Booleans.* classes=\[0, 1\]") as caught:
            fit(model, y)
        assert "SECRET" not in str(caught.value)
        assert "1.5" not in str(caught.value)
    for model in classifiers():
        for y in (high, pd.Series(high, dtype="boolean"), pl.Series([None, *high[1:]]), pa.array(high)):
            assert fit(model, y).classes_.tolist() == [False, True]
            assert model.score(X200, high) > 0.9
    for model in classifiers(classes=[1, 2]):
        assert fit(model, high + 1).score(X200, high + 1) > 0.9


def test_types_that_list_their_values_must_list_classes() -> None:
    flags, declared = np.array([True, False]), pl.Series(["no", "yes"], dtype=pl.Enum(["no", "yes", "maybe"]))
    for y, classes, words in (
        (flags, [1, 2], "type Boolean, whose value 'false' is not listed"),
        (pd.Series(flags, dtype="boolean"), [1, 2], "whose value 'false' is not listed"),
        (declared, ["no", "yes"], "type Enum, whose value 'maybe' is not listed"),
    ):
        with pytest.raises(InvalidDataError, match=words):
            declared_index(y, np.array(classes))
    for y, words in (
        (flags, "whose values? 'false', 'true'"),
        (np.array([0, 1]), "cannot hold 'no', 'yes'"),
        (declared, "'maybe' is not listed"),
    ):
        with pytest.raises(SchemaError, match=words):
            ClassTarget("y", ("no", "yes")).encode(as_series(y)[0])
    with pytest.raises(SchemaError, match="cannot hold 'l'"):  # a letter for a digit
        ClassTarget("y", ("0", "l")).encode(as_series(np.array([0, 1]))[0])
    read_off = pd.Series(["no", "yes", "maybe"], dtype="category")  # its categories are those that occur
    assert declared_index(read_off, np.array(["no", "yes"])).tolist() == [0, 1, 0]
    assert declared_index(declared, np.array(["maybe", "yes", "no"])).tolist() == [2, 1]


def test_columns_of_one_table_are_labels() -> None:
    """A table of one column became an array of objects where a cell was missing."""
    for y in (pd.DataFrame({"y": pd.Series([True, None], dtype="boolean")}), pl.DataFrame({"y": [True, None]})):
        with pytest.warns(DataConversionWarning):
            assert declared_index(y, CLASSES["boolean"]).tolist() == [1, 0]
        with pytest.raises(InvalidDataError, match="y has shape"):
            declared_index(pd.DataFrame({"a": [1, 2], "b": [1, 2]}), CLASSES["number"])


def test_large_numbers_of_arrow_are_not_quoted() -> None:
    """An exact cast refused what no float64 holds, and quoted it."""
    y = pa.chunked_array([pa.array([2**63 - 1, 1])])
    assert declared_index(y, CLASSES["number"]).tolist() == [0, 2]
    assert number_array(y).tolist() == [2.0**63, 1.0]


@pytest.mark.parametrize("classes", [[0], [1, 1.0], ["a", "a "], [[0, 1]], [2**60, 2**60 + 1]], ids=str)
def test_classes_must_be_told_apart(classes: Any) -> None:
    for model in classifiers(classes=classes):
        with pytest.raises(InvalidParameterError, match=r"two different labels|lists or tuples|as float64"):
            fit(model, np.zeros(200))


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (["a", None], "must hold no missing value"),
        (["a", np.nan], "must hold no missing value"),  # NumPy made "nan" of it
        (np.array([0, np.nan]), "must hold no missing value"),
        ([1.0, pd.NA], "must hold no missing value"),
        ([2**53, 2**53 + 1], "must be different as float64"),
        ([("b", 2), ("a", 1)], "not lists or tuples of them"),
        ([[0], [1, 2]], "not lists or tuples of them"),
        (np.zeros((2, 2)), "not lists or tuples of them"),
        ({0, 1}, "must be a list or an array, which has an order"),
        ([1], "at least two different labels, each once"),
        (["a", "b", "a "], "at least two different labels, each once"),
    ],
    ids=str,
)
def test_classes_are_refused_for_what_they_are(classes: Any, words: str) -> None:
    for model in classifiers(classes=classes):
        with pytest.raises(InvalidParameterError, match=words):
            fit(model, np.zeros(200))
    for listed in (range(2), (0, 1), pd.Series([0, 1]), np.array([0, 1])):
        assert np.array_equal(checked_classes(listed), [0, 1])


def test_sparse_labels_are_called_so() -> None:
    with pytest.raises(InvalidDataError, match=r"y is sparse; .* as with y\.toarray\(\)\.ravel\(\)"):
        PrivateLogisticRegression(1.0, feature_norm=1.0).fit(np.eye(3), csr_array(np.eye(3)[:, :1] > 0))


def test_a_schemas_classes_take_lists_of_anything() -> None:
    target = ClassTarget("y", ("no", "1"))
    found = target.encode(as_series(["1", 1.0, True, None, "x", Odd(), [1], (1, 2), " 1"])[0])
    assert found.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 1]
    assert as_series([])[0].to_list() == []


def test_one_long_label_takes_no_room_for_the_others() -> None:
    """Texts of one width would need 200 GB."""
    labels = pd.Series(["a", "b"] * 25_000 + ["a" * 1_000_000], dtype="string")
    assert declared_index(labels, np.array(["a", "b"])).sum() == 25_000


@pytest.mark.parametrize("form", ["pandas", "polars", "lazy", "arrow", "dask"])
def test_a_feature_of_a_type_that_no_category_has_is_refused_before_it_is_paid(form: str) -> None:
    """It was silently worth nothing."""
    sex = CategoricalColumn("sex", ("female", "male"), other=True)
    schema = Schema((sex, NumericColumn("age", 0, 100)), ClassTarget("ill", ("0", "1")))
    frame = pd.DataFrame({"sex": np.arange(200) % 2 == 0, "age": 50.0, "ill": np.arange(200) % 2})
    if form == "dask":
        make = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
    else:
        forms = {"polars": pl.from_pandas, "lazy": lambda X: pl.from_pandas(X).lazy(), "arrow": pa.Table.from_pandas}
        make = frame if form == "pandas" else forms[form](frame)
    models = [PrivateLogisticRegression, PrivateLinearSVC, PrivateAdditiveClassifier, PrivateSparseLogisticRegression]
    known: list[Any] = [kind(1.0, schema=schema) for kind in (*models, PrivateSyntheticData)]
    search = PrivateSearchCV(PrivateLogisticRegression(1.0, schema=schema), {"l2": [0.1, 1.0]})
    words = "column 'sex' has type .*, and can hold none of the listed values 'female', 'male'"
    with budget_context(epsilon=10.0) as budget:
        for model in (*known, *[search] * (form not in ("lazy", "dask"))):  # the parts of a search need an order
            with pytest.raises(SchemaError, match=words):
                model.fit(make)
        if form in ("pandas", "polars", "arrow"):
            with pytest.raises(SchemaError, match=words):
                fit_and_evaluate(known[0], make, epsilon=1.0)
        assert float(budget.account().left[0]) == 10.0
    known[0].set_params(random_state=0).fit(frame.assign(sex=frame["sex"].map({True: "female", False: "male"})))
    known[0].predict(frame)  # types of few rows may follow from a cell
