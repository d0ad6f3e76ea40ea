"""Formulas, dates, transforms, missing cells and aliases: public rules, record by record, that no content upsets."""

from __future__ import annotations

import datetime
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from dpconvex import PrivateLogisticRegression, budget_context
from dpconvex.data import (
    CategoricalColumn,
    ClassTarget,
    NumericColumn,
    NumericTarget,
    Schema,
    TableCells,
    open_files,
    read_table,
)
from dpconvex.errors import InvalidParameterError, SchemaError
from dpconvex.problems.data.ranges import TRANSFORMS

pytestmark = pytest.mark.together

ANY_TEXT = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.sampled_from(
        ["-999", "NA", "?", "1e999", "-inf", "9:30", "99:99 pm", "2024-02-30", "2024-02-29", "0000-00-00", "9999-12-31"]
    ),
    st.floats().map(str),
    st.dates().map(str),
)
COLUMNS = (
    NumericColumn("a", -5, 5, "signed_log", missing=("-999", "?"), indicator=True),
    NumericColumn("b", 0, 100, "sqrt"),
    NumericColumn("c", 0, 9, "sqrt"),
    NumericColumn("ratio", -1, 1, formula='a / b ** c - log("d e") + min(a, 2)', missing=("0",)),
    NumericColumn("old", 0, 40000, date="age", at="2024-01-01"),
    NumericColumn("stay", 0, 60, formula="days(old) - days(month)"),
    NumericColumn("clock", 0, 24, formula="hours(old)"),
    CategoricalColumn("month", date="month", other=True),
    CategoricalColumn("day", date="weekday", format="%d.%m.%Y"),
    CategoricalColumn("sex", ("f", "m"), aliases={"femal": "f", "1": "m"}, missing=("?",)),
)
SCHEMA = Schema(COLUMNS, ClassTarget("y", ("no", "yes"), aliases={"ja": "yes"}))
NAMES = (*SCHEMA.column_names(),)


@given(st.lists(st.tuples(*(ANY_TEXT for _ in NAMES)), min_size=1, max_size=6))
def test_no_content_raises_and_every_record_is_read_by_itself(rows: list[tuple[Any, ...]]) -> None:
    columns = {name: [row[k] for row in rows] for k, name in enumerate(NAMES)}
    frames = [pd.DataFrame(columns, dtype=object), pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})]
    encoded = [SCHEMA.encode(frame) for frame in frames]
    np.testing.assert_array_equal(*encoded)
    np.testing.assert_array_equal(SCHEMA.domain().clip(encoded[0]), encoded[0])  # inside, and finite
    alone = np.concatenate([SCHEMA.encode(frames[1].slice(i, 1)) for i in range(len(rows))])
    np.testing.assert_array_equal(alone, encoded[0])
    cells = TableCells.of_schema(Schema(COLUMNS[7:]))
    assert cells.encode(frames[0]).max() < math.prod(cells.shape)
    SCHEMA.encode_target(frames[0])


def test_formulas_compute_what_they_say() -> None:
    frame = pl.DataFrame({"weight": [80.0, -999.0, None, 70.0], "height of": ["200", "170", "x", "0"]})
    column = NumericColumn(
        "bmi", 10, 30, formula='weight / ("height of" / 100) ** 2', missing=("-999",), indicator=True
    )
    expected = [[0.0, 0], [0, 0.5], [0, 0.5], [0.5, 0]]  # 20; missing; missing; infinite
    np.testing.assert_allclose(Schema((column,)).encode(frame), expected, atol=1e-15)
    assert Schema((column,)).column_names() == ("weight", "height of")
    assert Schema((column,)).domain().l2 < 0.5001  # the indicator costs nothing


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "a.b", "a[0]", "lambda: a", "(a := 1)", "a if b else c", "f'{a}'", "open(a)", "min(a)",
        "days(a + 1)", "hours(2)", "a @ b", "a, b", "1 + 2", "", "a" * 501, "(" * 200 + "a", "9" * 400 + " * a", "a; b",
        "a\nb", "min(*a)", "min(a, b, key=c)", "True * a", "1j * a", "a & b", "not a", "b'x'", "a < b", "print", "...",
        "None",
    ],
)  # fmt: skip
def test_formulas_hold_nothing_but_arithmetic(text: str) -> None:
    if text == "print":  # a column's name like any other
        assert NumericColumn("x", 0, 1, formula=text).inputs == {"print": True}
        return
    if text == "":
        assert NumericColumn("x", 0, 1, formula=text).inputs == {"x": True}
        return
    with pytest.raises(InvalidParameterError, match="formula"):
        NumericColumn("x", 0, 1, formula=text)


@pytest.mark.parametrize(
    "cells",
    [
        pl.Series([datetime.date(2023, 12, 31), None, datetime.date(2023, 2, 28)]),
        pl.Series([datetime.datetime(2023, 12, 31, 23, 59), None, datetime.datetime(2023, 2, 28)]),
        pd.Series(pd.to_datetime(["2023-12-31 12:00", None, "2023-02-28 00:00"])),
        pd.Series([datetime.date(2023, 12, 31), None, "2023-02-28T01:02"], dtype=object),
        pd.Series(["2023-12-31", "2023-02-29", " 2023-02-28 "], dtype="category"),
        pa.array(["2023-12-31 10:00:00", "tomorrow", "2023-02-28"]),
        pa.array([datetime.datetime(2023, 12, 31), None, datetime.datetime(2023, 2, 28)], pa.timestamp("ns", "UTC")),
        pa.array([datetime.date(2023, 12, 31), None, datetime.date(2023, 2, 28)], pa.date64()),
    ],
    ids=lambda cells: str(getattr(cells, "dtype", getattr(cells, "type", ""))),
)
def test_dates_are_days_months_and_weekdays_in_every_container(cells: Any) -> None:
    frame = (
        (pl if isinstance(cells, pl.Series) else pd).DataFrame({"t": cells})
        if not isinstance(cells, pa.Array)
        else None
    )
    table = pa.table({"t": cells}) if frame is None else frame
    age = Schema((NumericColumn("t", 0, 100, date="age", at="2024-01-01"),)).encode(table)
    np.testing.assert_allclose(age, [[-0.49], [0], [0.5]])
    month = Schema((CategoricalColumn("t", date="month", other=True),)).encode(table)
    assert np.argmax(month, axis=1).tolist() == [11, 12, 1]
    weekday = Schema((CategoricalColumn("t", date="weekday", other=True),)).encode(table)
    assert np.argmax(weekday, axis=1).tolist() == [6, 7, 1]  # a Sunday, and a Tuesday


@pytest.mark.parametrize("cells", [[19000, 19358, 1] * 20, [True, False, True] * 20], ids=["whole", "flags"])
@pytest.mark.parametrize("form", ["arrow", "levels", "polars", "pandas", "nullable", "folder", "dask"])
def test_numbers_and_flags_are_no_dates_and_cost_nothing(cells: list[Any], form: str, tmp_path: Path) -> None:
    """They were missing dates, one and all, silently; the type is public, as that of clock times and lists is."""
    table = pa.table({"t": cells, "x": [0.1, 0.5, 0.9] * 20, "y": ["no", "yes", "no"] * 20})
    frame = table.to_pandas()
    if form == "folder":
        pq.write_table(table, tmp_path / "a.parquet")
    made = {
        "arrow": lambda: table,
        "levels": lambda: table.set_column(0, "t", table["t"].dictionary_encode()),
        "polars": lambda: pl.from_arrow(table),
        "pandas": lambda: frame,
        "nullable": lambda: frame.convert_dtypes(),
        "folder": lambda: open_files(tmp_path, schema),
        "dask": lambda: pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2),
    }
    for column in (
        NumericColumn("t", 0, 100, date="age", at="2024-01-01"),
        NumericColumn("t", 0, 24, date="hour"),
        CategoricalColumn("t", date="weekday"),
        NumericColumn("old", 0, 100, formula="19000 - days(t)"),
    ):
        schema = Schema((NumericColumn("x", 0, 1), column), ClassTarget("y", ("no", "yes")))
        with budget_context(epsilon=1.0) as budget:
            with pytest.raises(SchemaError, match=r"column 't' has type .*, which is no date or time. Convert it"):
                PrivateLogisticRegression(epsilon=1.0, schema=schema).fit(made[form]())
            assert budget.account().left[0] == 1.0


def test_years_in_csv_files_are_texts_and_no_dates(tmp_path: Path) -> None:
    schema = Schema((NumericColumn("t", 0, 100, date="age", at="2024-01-01"), NumericColumn("x", 0, 1)))
    (tmp_path / "t.csv").write_text("t,x\n2020,1\n2023,0\n")
    np.testing.assert_array_equal(schema.encode(read_table(tmp_path / "t.csv", schema)), [[0, 0.5], [0, -0.5]])


def test_dates_in_other_formats() -> None:
    column = NumericColumn("t", 0, 100, date="age", at="2024-01-01", format="%d.%m.%Y")
    X = Schema((column,)).encode(
        pa.table({"t": ["31.12.2023", "1.1.2024", "2023-12-31", "32.1.2023", "31.12.2023 10:00"]})
    )
    np.testing.assert_allclose(X[:, 0], [-0.49, -0.5, 0, 0, -0.49])


def test_dates_with_short_years_and_names_of_months() -> None:
    cells = ["12/31/23", "1/1/24 22:33", "13/1/24", "12/31/2023", "7/4/69"]
    column = NumericColumn("t", -100, 100, date="age", at="2024-01-01", format="%m/%d/%y")
    X = Schema((column,)).encode(pa.table({"t": cells}))
    np.testing.assert_allclose(X[:, 0], [0.005, 0, 0, 0, 0.5])  # 1969, far before the range
    column = NumericColumn("t", -100, 100, date="age", at="2024-01-01", format="%d-%b-%y")
    X = Schema((column,)).encode(pa.table({"t": ["31-Dec-23", "31-dec-23 10:00", "31-Dez-23", None]}))
    np.testing.assert_allclose(X[:, 0], [0.005, 0.005, 0, 0])
    drawn = TableCells.of_schema(Schema((column,)))
    back = drawn.decode(np.full((9, 1), 7), np.random.default_rng(0))
    assert re.fullmatch("[0-9]{2}-[A-Z][a-z]{2}-2[34]", back["t"].to_pylist()[0])
    assert set(drawn.encode(back)[:, 0]) == {7}


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["9:30", "12:00 am", "24:00"]),
        pa.array([" 09:30:00 ", "1/1/13 0:00", "9:60"]),
        pa.array(["2024-01-01T09:30:00.250Z", "2024-01-01 00:00:00+02:00", "noon"]),
        pa.array([datetime.time(9, 30), datetime.time(0), None], pa.time64("us")),
        pl.Series([datetime.time(9, 30), datetime.time(0), None]),
        pd.Series([datetime.time(9, 30), datetime.time(0), None], dtype=object),
        pl.Series([datetime.datetime(2023, 12, 31, 9, 30), datetime.datetime(2023, 2, 28), None]),
        pd.Series(pd.to_datetime(["2023-12-31 09:30", "2023-02-28 00:00", None])),
        pd.Series(["9:30", "0:00", "13:00 pm"], dtype="category"),
    ],
    ids=lambda cells: str(getattr(cells, "dtype", getattr(cells, "type", ""))),
)
def test_clock_times_are_hours_of_the_day_in_every_container(cells: Any) -> None:
    table = pa.table({"t": cells}) if isinstance(cells, pa.Array) else None
    frame = (pl if isinstance(cells, pl.Series) else pd).DataFrame({"t": cells}) if table is None else table
    columns = NumericColumn("t", 0, 24, date="hour"), NumericColumn("again", 0, 24, formula="24 - hours(t)")
    expected = [[9.5 / 24 - 0.5, 0.5 - 9.5 / 24], [-0.5, 0.5], [0, 0]]
    np.testing.assert_allclose(Schema(columns).encode(frame), expected, atol=1e-6)


def test_synthetic_clock_times_are_read_back() -> None:
    schema = Schema((NumericColumn("t", 0, 24, date="hour", indicator=True),))
    cells = TableCells.of_schema(schema)
    assert Schema.from_toml_text(schema.to_toml()) == schema
    codes = np.repeat(np.arange(cells.shape[0]), 20)[:, None]
    table = cells.decode(codes, np.random.default_rng(1))
    assert re.fullmatch("[0-9]{2}:[0-9]{2}:[0-9]{2}", table["t"].to_pylist()[0])
    assert np.mean(cells.encode(table) == codes) > 0.99  # whole seconds may lie across an edge


def test_transforms_are_increasing_and_undone_by_their_inverse() -> None:
    for name, (forward, inverse, limits) in TRANSFORMS.items():
        x = np.linspace(limits.get("at_least", limits.get("above", -50.1) + 0.1), 50, 101)
        np.testing.assert_allclose(inverse(forward(x)), x, atol=1e-9)
        assert np.all(np.diff(forward(x)) > 0)
        column = NumericColumn("x", x[0], 50, name)  # pyright: ignore[reportArgumentType]
        edges = np.array(column.cells(4).edges)  # pyright: ignore[reportAttributeAccessIssue]
        np.testing.assert_allclose(np.diff(forward(edges)), (forward(50.0) - forward(x[0])) / 4)


def test_sentinels_and_aliases_agree_in_every_type() -> None:
    column = NumericColumn("x", 0, 10, missing=(-999, "NA"))  # pyright: ignore[reportArgumentType]
    for cells in ([0, -999, 10], [0.0, -999.0, 10.0], ["0", "-999.0", "10"], ["0", "NA", "10"]):
        np.testing.assert_array_equal(Schema((column,)).encode(pa.table({"x": cells})), [[-0.5], [0], [0.5]])
    target = Schema((column,), NumericTarget("y", 0, 10, missing=("-999",)))
    np.testing.assert_array_equal(target.encode_target(pa.table({"y": [-999, 10]})), [5, 10])
    sex = Schema((COLUMNS[-1],), SCHEMA.target)
    table = pa.table({"sex": ["femal", "m", "?", "x", "1.0"], "y": ["ja", "yes", "no", "Ja", None]})
    np.testing.assert_array_equal(sex.encode(table)[:, 0], [-0.5, 0.5, 0, 0, 0.5])
    assert sex.encode_target(table).tolist() == [1, 1, 0, 0, 0]


def test_files_hold_all_of_it() -> None:
    schema = Schema(COLUMNS, NumericTarget("y", 0, 1, unit="kg", source="Form 3"), user="p", weight="w", weight_cap=5)
    text = schema.to_toml()
    assert Schema.from_toml_text(text) == schema
    assert hash(Schema.from_toml_text(text)) == hash(schema)
    assert schema.sources == {"y": "Form 3"}
    given = {
        "confirmed": True,
        "columns": {"a": {"date": "age", "at": datetime.date(2024, 1, 1), "lower": 0, "upper": 9}},
    }
    assert Schema.from_dict(given).columns[0] == NumericColumn("a", 0, 9, date="age", at="2024-01-01")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("knots = [0, 5, 2, 9]", "increasing"),
        ("transform = 'sqrt'", "lower"),
        ("indicator = 'own'", "true or false"),
        ("date = 'age'", "at"),
        ("date = 'age'\nat = 'soon'", "must be a date"),
        ("date = 'year'", "must be"),
        ("date = 'hour'\nat = '2024-01-01'", "nowhere else"),
        ("at = '2024-01-01'", "nowhere else"),
        ("format = '%Y'", "%m"),
        ("formula = 'y + 1'", "target"),
        ("formula = 'c + 1'", "text or a date"),
        ("missing = -999", "list"),
        ("missing = ['a', 'a']", "twice"),
        ("unit = 3", "text"),
        ("source = []", "text"),
        ("aliases = {a = 'b'}", "not a key"),
    ],
)
def test_malformed_keys_are_named(line: str, words: str) -> None:
    lower = -1 if "sqrt'" in line else 0
    toml = "confirmed = true\n[target]\nname = 'y'\nclasses = ['0', '1']\n[columns.c]\ncategories = ['u', 'v']\n"
    with pytest.raises(SchemaError, match=re.escape(words)):
        Schema.from_toml_text(f"{toml}[columns.x]\nlower = {lower}\nupper = 9\n{line}\n")


def test_aliases_must_mean_something() -> None:
    for aliases in ({"x": "unknown"}, {"f": "m"}, ["f"], {"": "f"}):
        with pytest.raises(InvalidParameterError, match="aliases"):
            CategoricalColumn("sex", ("f", "m"), aliases=aliases)  # pyright: ignore[reportArgumentType]
