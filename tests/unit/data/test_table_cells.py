"""Tables to cells and back: what is decoded encodes to the same cell, whatever the columns hold."""

from __future__ import annotations

from datetime import date
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpconvex import adult_schema, load_adult
from dpconvex.algorithms.search.plan import taken
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, NumericTarget, Schema, TableCells, frames
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


def test_labels_are_named_as_cells_are_read() -> None:
    owner = CategoricalColumn("owner", ("False", "True"))
    cells = TableCells.of_schema(Schema((owner, CategoricalColumn("grade", ("1", "2")))))
    assert cells.position("owner", "true") == cells.position("owner", "True") == (0, 1)
    assert cells.position("grade", "2.0") == (1, 1)
    with pytest.raises(InvalidParameterError, match="label of 'owner'"):
        cells.position("owner", "yes")


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


STEPS = Schema(
    (
        NumericColumn("age", 17, 90, step=1),
        NumericColumn("children", 0, 5, step=1, indicator=False),
        NumericColumn("price", 0, 500, "log1p", step=0.01),
        NumericColumn("bmi", 10, 80),
        NumericColumn("born", 0, 20_000, date="age", at="2000-01-01", indicator=True),
        NumericColumn("came", 0, 900, date="age", at="2020-01-01", format="%d.%m.%Y"),
        CategoricalColumn("sex", ("F", "M")),
    )
)


def test_numbers_look_as_declared_and_stay_in_their_bins() -> None:
    """Multiples of the step, dates as dates; without a step three digits of the bin's width."""
    cells = TableCells.of_schema(STEPS)
    assert cells.shape == (16, 6, 16, 16, 17, 16, 2)
    assert cells.columns[0].labels[:2] == ("17 to 21", "22 to 26")
    assert cells.columns[1].labels == ("0", "1", "2", "3", "4", "5")
    codes = np.stack([np.arange(20_000) % size for size in cells.shape], axis=1)
    table = cells.decode(codes, np.random.default_rng(0))
    np.testing.assert_array_equal(cells.encode(table), codes)
    np.testing.assert_array_equal(cells.encode(table.to_pandas()), codes)
    assert table.schema.types[:2] == [pa.int64(), pa.int64()]
    ages = np.bincount(table["age"].to_numpy())[17:]
    assert len(ages) == 74
    assert ages.min() > 150  # every age is drawn, 1250 draws a bin of 4 or 5
    price, bmi = table["price"].to_numpy(), table["bmi"].to_numpy()
    np.testing.assert_array_equal(price, np.round(price, 2))
    np.testing.assert_allclose(bmi, np.round(bmi, 4), atol=1e-9)  # edges have four
    assert table["born"].type == pa.date32()
    assert table["born"].null_count == 20_000 // 17
    assert table["came"][0].as_py().endswith((".2019", ".2020"))


def test_labels_have_no_step() -> None:
    with pytest.raises(InvalidParameterError, match="step"):
        CategoricalColumn("color", ("red", "blue"), step=1)


def test_a_step_that_suits_neither_range_nor_bins_draws_near_numbers() -> None:
    for step, edges in ((10.0, (1, 2, 3)), (1e-9, (0, 1)), (1.0, (-1e300, 1e300)), (3.0, (-7, -6.5, 0))):
        cells = NumberCells("x", edges, False, (), step)
        assert len(cells.labels) == len(edges) - 1
        drawn = cells.decode(np.arange(len(edges) - 1), np.random.default_rng(0)).to_numpy()
        assert np.isfinite(drawn).all()
        assert (np.abs(drawn) <= np.abs(edges).max() + step).all()
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(InvalidParameterError, match="step"):
            NumericColumn("x", 0, 1, step=bad)


def test_it_says_as_what_missing_cells_count() -> None:
    found = TableCells.of_schema(STEPS).filled
    assert found == {
        "age": "54 to 58",
        "price": "21.39 to 32.01",
        "bmi": "[45, 49.375)",
        "came": "the middle bin",
        "sex": "F",
    }
    cells = TableCells.of_schema(SCHEMA, bins=4)
    assert list(cells.filled) == ["age", "gain", "sex", "income"]
    empty = cells.encode(pd.DataFrame({name: [None] for name in cells.names}, dtype=object))[0]
    for name, label in cells.filled.items():
        assert cells.position(name, label)[1] == empty[cells.names.index(name)]


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
    np.testing.assert_allclose(np.diff(NumberCells.of("a", NumberRange(-1, 1), 5, False, 0.0).edges), 0.4)
    np.testing.assert_allclose(
        np.diff(np.log1p(NumberCells.of("a", NumberRange(0, 1e5, "log1p"), 5, False, 0.0).edges)), np.log1p(1e5) / 5
    )


def test_numbers_of_bins_of_any_type_are_numbers() -> None:
    for kind in (np.int64, np.uint8):
        assert TableCells.of_schema(SCHEMA, bins=kind(4)).shape == (4, 4, 2, 3, 2)


def test_one_odd_date_among_categories_changes_no_other() -> None:
    """Pandas' categories are dates or objects by what they hold; read as nanoseconds, they were no dates at all."""
    schema = Schema(
        (NumericColumn("born", 0, 40_000, date="age", at="2024-01-01"), CategoricalColumn("m", date="month"))
    )
    days = pd.Series(pd.to_datetime("1950-01-01") + pd.to_timedelta(np.arange(50) * 331, unit="D"))

    def encoded(cells: pd.Series) -> Any:
        return schema.encode(pd.DataFrame({"born": cells.astype("category"), "m": cells.astype("category")}))

    whole, plain = encoded(days), schema.encode(pd.DataFrame({"born": days, "m": days}))
    np.testing.assert_array_equal(whole, plain)
    for odd in ("unknown", date(1600, 1, 1), None, 7):
        cells = days.astype(object)
        cells.iloc[0] = odd
        np.testing.assert_array_equal(encoded(cells)[1:], whole[1:])


@pytest.mark.parametrize("kind", [object, "category"])
def test_whole_numbers_are_one_user_with_and_without_a_fraction(kind: Any) -> None:
    """A partition with a missing label holds floats: 5.0 is the user 5 of the others."""
    texts = [
        frames.distinct_labels(nw.from_native(pd.Series(labels).astype(kind), series_only=True))[0]
        for labels in ([5, 6, 7], [5.0, 6.0, np.nan])
    ]
    assert set(texts[1]) <= set(texts[0])


@pytest.mark.parametrize("how", ["arrow", "pandas"])
@pytest.mark.parametrize("last", ["w0", "new"])
def test_rows_are_taken_whatever_chunks_hold_together(how: str, last: str) -> None:
    """Indices of 8 bits count 127 values; one new value made searches and hold-outs raise after they were paid."""
    first, second = [f"v{k}" for k in range(100)], [*(f"w{k}" for k in range(28)), last]
    parts = [pa.DictionaryArray.from_arrays(pa.array(range(len(v)), pa.int8()), pa.array(v)) for v in (first, second)]
    column = pa.chunked_array(parts)
    table: Any = pa.table({"c": column})
    if how == "pandas":
        table = pd.DataFrame({"c": pd.Series(pd.arrays.ArrowExtensionArray(column))})  # pyright: ignore
    rows = np.array([0, 99, 128, 1])
    found = taken(table, rows)
    assert list(map(str, found["c"].to_pylist() if how == "arrow" else found["c"])) == ["v0", "v99", last, "v1"]
    assert len(taken(table["c"], rows)) == 4
