"""Tables to cells and back: what is decoded encodes to the same cell, whatever the columns hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpconvex import adult_schema, load_adult
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, NumericTarget, Schema, TableCells
from dpconvex.data.cells import NumberCells
from dpconvex.errors import InvalidParameterError, SchemaError
from dpconvex.problems import NumberRange

SCHEMA = Schema(
    (
        NumericColumn("age", 0, 100),
        NumericColumn("gain", 0, 1e5, "log1p"),
        CategoricalColumn("sex", ("F", "M")),
        CategoricalColumn("color", ("red", "green"), other=True),
    ),
    ClassTarget("income", ("low", "high")),
)


def test_shape_and_labels_follow_the_schema() -> None:
    cells = TableCells.of_schema(SCHEMA, bins=4)
    assert cells.names == ("age", "gain", "sex", "color", "income")
    assert cells.shape == (4, 4, 2, 3, 2)
    assert cells.columns[0].labels == ("[0, 25)", "[25, 50)", "[50, 75)", "[75, 100]")
    assert cells.columns[3].labels == ("red", "green", "(other)")
    assert TableCells.of_schema(SCHEMA, ("sex", "age"), bins={"age": (0, 18, 65, 100)}).shape == (2, 3)
    regression = Schema((NumericColumn("a", 0, 1),), NumericTarget("b", -1, 1))
    assert TableCells.of_schema(regression, bins=2).shape == (2, 2)
    assert TableCells.of_schema(regression, ("b",), bins={"b": (-1, 0, 0.5, 1)}).shape == (3,)


def test_what_is_decoded_encodes_to_the_same_cell() -> None:
    cells = TableCells.of_schema(SCHEMA, bins=4)
    every = np.stack(np.unravel_index(np.arange(np.prod(cells.shape)), cells.shape), axis=1)
    table = cells.decode(every, np.random.default_rng(0))
    assert isinstance(table, pa.Table)
    np.testing.assert_array_equal(cells.encode(table), every)
    np.testing.assert_array_equal(cells.encode(table.to_pandas()), every)


def test_odd_cells_have_a_place_each() -> None:
    table = pd.DataFrame(
        {
            "age": [np.nan, np.inf, -np.inf, -5.0, 1e300, 50.0],
            "gain": [np.nan, np.inf, -np.inf, -1e9, 0.0, 1e5],
            "sex": ["M", None, "X", " F ", "", "M"],
            "color": ["red", None, "blue", "green", "", "red"],
            "income": ["high", None, "?", "low", "", "high"],
        }
    )
    cells = TableCells.of_schema(SCHEMA, bins=5)
    age, gain, sex, color, income = cells.encode(table).T
    np.testing.assert_array_equal(age, [2, 4, 0, 0, 4, 2])
    np.testing.assert_array_equal(gain, [2, 4, 0, 0, 0, 4])
    np.testing.assert_array_equal(sex, [1, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(color, [0, 2, 2, 1, 2, 0])
    np.testing.assert_array_equal(income, [1, 0, 0, 0, 0, 1])


def test_missing_numbers_may_be_a_value_of_their_own() -> None:
    schema = Schema((NumericColumn("age", 0, 100, indicator=True),))
    cells = TableCells.of_schema(schema, bins=4)
    assert cells.shape == (5,)
    assert cells.columns[0].labels[-1] == "(missing)"
    table = pd.DataFrame({"age": [np.nan, 10.0, 99.0]})
    np.testing.assert_array_equal(cells.encode(table)[:, 0], [4, 0, 3])
    drawn = cells.decode(cells.encode(table), np.random.default_rng(0))
    assert drawn["age"].is_null().to_pylist() == [True, False, False]
    np.testing.assert_array_equal(cells.encode(drawn)[:, 0], [4, 0, 3])


def test_a_row_is_read_by_itself() -> None:
    table = load_adult()
    cells = TableCells.of_schema(adult_schema(), ("age", "sex", "income"))
    whole = cells.encode(table)
    np.testing.assert_array_equal(cells.encode(table.slice(100, 50)), whole[100:150])


@pytest.mark.parametrize(
    ("names", "bins"),
    [
        (("age", "age"), 4),
        (("weight",), 4),
        ((), 4),
        (("age",), 0),
        (("age",), {"sex": 3}),
        (("age",), {"age": (0,)}),
        (("age",), {"age": (0, 0)}),
        (("age",), {"age": (0, np.nan)}),
    ],
)
def test_public_mistakes_are_named(names, bins) -> None:
    with pytest.raises(InvalidParameterError):
        TableCells.of_schema(SCHEMA, names, bins)


def test_a_missing_column_and_a_wrong_type_are_errors() -> None:
    cells = TableCells.of_schema(SCHEMA, ("age", "sex"))
    with pytest.raises(SchemaError, match="sex"):
        cells.encode(pa.table({"age": [1.0]}))
    with pytest.raises(SchemaError, match="age"):
        cells.encode(pa.table({"age": [[1.0]], "sex": ["F"]}))


def test_bins_have_equal_width_after_the_transform() -> None:
    np.testing.assert_allclose(np.diff(NumberCells.of("a", NumberRange(-1, 1), 5).edges), 0.4)
    np.testing.assert_allclose(
        np.diff(np.log1p(NumberCells.of("a", NumberRange(0, 1e5, "log1p"), 5).edges)), np.log1p(1e5) / 5
    )
