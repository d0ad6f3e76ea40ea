"""Labels in lists and arrays of objects, matched to declared classes: no cell raises or changes how others are read."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpconvex import (
    PrivateGeometricMedian,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSparseLogisticRegression,
    PrivateWorstGroupClassifier,
)
from dpconvex.data import ClassTarget
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._features import numeric_matrix
from dpconvex.estimators._targets import as_series, declared_index, number_array


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


@pytest.mark.parametrize("odd", [None, "x", Odd()], ids=["missing", "text", "object"])
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
    plain = model.fit(X, y).certificate_.to_json()
    assert model.fit(odd, [None, "x", *y[2:]]).certificate_.to_json() == plain
    assert PrivateGeometricMedian(radius_bound=9, random_state=0).fit(odd).n_features_in_ == 2
    for form, words in (
        (X[0], "Expected 2D"),
        ([[1], [1, 2]], "Expected 2D"),
        ([[[1]]], "Expected 2D"),
        ([], "Expected"),
    ):
        with pytest.raises(InvalidDataError, match=words):
            model.fit(form, y)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateSparseLogisticRegression])
@pytest.mark.parametrize("labels", [[0, 1], [0, None], ["a", 1], [[1], 2], [False, True]])
def test_lists_of_labels_need_declared_classes(kind: Any, labels: list[Any]) -> None:
    """Else one cell would decide whether all are numbers, and with it the classes or an error."""
    model = kind(1.0, **({"feature_norm": 1.0} if kind is PrivateLogisticRegression else {"feature_bound": 1.0}))
    with pytest.raises(InvalidParameterError, match="classes=None: must be given for a list of labels"):
        model.fit(np.eye(2), labels)
    assert len(model.set_params(classes=[0, 1], random_state=0).fit(np.eye(2), labels).classes_) == 2


def test_a_schemas_classes_take_lists_of_anything() -> None:
    target = ClassTarget("y", ("no", "1"))
    found = target.encode(as_series(["1", 1.0, True, None, "x", Odd(), [1], (1, 2), " 1"])[0])
    assert found.tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 1]
    assert as_series([])[0].to_list() == []


def test_one_long_label_takes_no_room_for_the_others() -> None:
    """Texts of one width would need 200 GB."""
    labels = pd.Series(["a", "b"] * 25_000 + ["a" * 1_000_000], dtype="string")
    assert declared_index(labels, np.array(["a", "b"])).sum() == 25_000
