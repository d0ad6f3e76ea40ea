"""Labels in lists and arrays of objects, matched to declared classes: no cell raises or changes how others are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpconvex import PrivateLogisticRegression, PrivateSparseLogisticRegression, PrivateWorstGroupClassifier
from dpconvex.errors import InvalidDataError
from dpconvex.estimators._targets import declared_index


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
