"""Encoding tables: against a slow oracle, inside the domain, and never an error because of content."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, NumericTarget, Schema
from dpconvex.data.schema import require_possible
from dpconvex.errors import InvalidDataError, SchemaError

pytestmark = pytest.mark.together

Table = Callable[[dict[str, list[Any]]], Any]

THIRDS = [1 / 3] * 3
"""What is not listed counts as equal parts of all levels."""


def _pandas_objects(data: dict[str, list[Any]]) -> Any:
    frame = pd.DataFrame(data)
    return frame.assign(**{name: frame[name].astype(object) for name in ("color", "sex", "label")})


def _pandas_categories(data: dict[str, list[Any]]) -> Any:
    frame = pd.DataFrame(data)
    return frame.assign(**{name: frame[name].astype("category") for name in ("color", "sex", "label")})


def _polars(data: dict[str, list[Any]]) -> Any:
    kinds = {"age": pl.Float64, "gain": pl.Float64, "color": pl.String, "sex": pl.String, "label": pl.String}
    return pl.DataFrame(data, schema=kinds)


def _polars_categories(data: dict[str, list[Any]]) -> Any:
    return _polars(data).with_columns(pl.col("color", "sex", "label").cast(pl.Categorical))


def _arrow(data: dict[str, list[Any]]) -> Any:
    return _polars(data).to_arrow()


def _arrow_dictionary(data: dict[str, list[Any]]) -> Any:
    table = _arrow(data)
    for position in (2, 3, 4):
        table = table.set_column(position, table.column_names[position], table.column(position).dictionary_encode())
    return table


TABLES: dict[str, Table] = {
    "pandas": pd.DataFrame,
    "pandas-objects": _pandas_objects,
    "pandas-categories": _pandas_categories,
    "polars": _polars,
    "polars-categories": _polars_categories,
    "pyarrow": _arrow,
    "pyarrow-dictionary": _arrow_dictionary,
    "narwhals": lambda data: nw.from_native(_polars(data)),
}

SCHEMA = Schema(
    (
        NumericColumn("gain", 0, 5000, "log1p"),
        CategoricalColumn("color", ("red", "2", "blue"), other=True),
        NumericColumn("age", 17, 90),
        CategoricalColumn("sex", ("Female", "Male")),
    ),
    ClassTarget("label", ("no", "yes", "1.0")),
)

FLOATS = st.one_of(st.none(), st.floats(), st.floats(-10, 120), st.sampled_from([17.0, 90.0, 5000.0, -1.0, math.inf]))
CELLS = st.one_of(
    st.none(),
    st.sampled_from(["red", " red\t", "2", "2.0", "+2", "blue", "Female", "Male", "yes", "true", "1", "", "RED"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
TABLE_DATA = st.integers(0, 8).flatmap(
    lambda n: st.fixed_dictionaries(
        {
            name: st.lists(cells, min_size=n, max_size=n)
            for name, cells in {"age": FLOATS, "gain": FLOATS, "color": CELLS, "sex": CELLS, "label": CELLS}.items()
        }
    )
)


def _scaled(value: float | None, low: float, high: float, transform: Callable[[float], float]) -> float:
    if value is None or math.isnan(value):
        return 0.0
    first, last = transform(low), transform(high)
    return (transform(min(max(value, low), high)) - (first + last) / 2) / (last - first)


def _position(cell: str | None, listed: tuple[str, ...]) -> int:
    """The matching rule again, cell by cell."""

    def number(text: str) -> float:
        text = text.strip(" \t\n\v\f\r").lower()
        if text in ("true", "false"):
            return float(text == "true")
        return (
            float(text)
            if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?", text, re.A)
            else math.nan
        )

    if cell is None:
        return -1
    if cell.strip(" \t\n\v\f\r") in listed:
        return listed.index(cell.strip(" \t\n\v\f\r"))
    return next((i for i, text in enumerate(listed) if number(text) == number(cell)), -1)


def _oracle(data: dict[str, list[Any]]) -> tuple[np.ndarray, list[int]]:
    rows = []
    for gain, color, age, sex in zip(data["gain"], data["color"], data["age"], data["sex"], strict=True):
        levels = [0.0] * 4
        levels[_position(color, ("red", "2", "blue"))] = 1.0  # -1: the last, (other)
        rows.append(
            [
                _scaled(gain, 0, 5000, math.log1p),
                *levels,
                _scaled(age, 17, 90, float),
                [-0.5, 0.5, 0.0][_position(sex, ("Female", "Male"))],
            ]
        )
    labels = [max(_position(label, ("no", "yes", "1.0")), 0) for label in data["label"]]
    return np.array(rows).reshape(-1, 7), labels


@pytest.mark.thin
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@given(data=TABLE_DATA)
@pytest.mark.dear("pyarrow-dictionary")
def test_encoding_equals_the_oracle_and_stays_inside_the_domain(table: Table, data: dict[str, list[Any]]) -> None:
    if table in (pd.DataFrame, _pandas_objects, _pandas_categories):
        # pandas would choose the dtype of an all-None or empty list by content; a column is declared what it is.
        data = data | {name: [math.nan if x is None else x for x in data[name]] for name in ("age", "gain")}
        frame = table(data).astype({"age": float, "gain": float} | ({} if data["label"] else {"label": object}))
    else:
        frame = table(data)
    X, y = SCHEMA.encode(frame), SCHEMA.encode_target(frame)
    expected, labels = _oracle(data)
    assert X.shape == expected.shape
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    np.testing.assert_allclose(X, expected, rtol=0, atol=1e-14)
    assert y.tolist() == labels
    domain = SCHEMA.domain()
    start = 0
    for block in domain.blocks:
        part = X[:, start : start + block.size]
        assert np.all(np.abs(part).sum(1) <= block.bound)  # exact: l1 and linf of a bound reached without rounding
        start += block.size
    assert np.array_equal(domain.clip(X), X)


ODD_OBJECTS = [None, math.nan, pd.NA, pd.NaT, 1, 1.0, True, np.float32(2), "red", "a\ud800", b"\xff", [1], np.arange(3)]
ODD_OBJECTS += [{}, 10**5000, decimal.Decimal("2.0"), datetime.date(2000, 1, 1), object(), 1 + 2j]


class _Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __ne__ = __eq__
    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise RuntimeError("no")


def test_python_objects_never_raise_and_are_read_one_by_one() -> None:
    column = np.empty(len(ODD_OBJECTS) + 1, dtype=object)
    column[:] = [*ODD_OBJECTS, _Hostile()]
    schema = Schema((CategoricalColumn("c", ("red", "2", "1", "9"), other=True),))
    whole = schema.encode(pd.DataFrame({"c": column}))
    levels = [4, 4, 4, 4, 2, 2, 2, 1, 0, 4, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4]
    assert whole.argmax(1).tolist() == levels
    assert np.array_equal(whole.sum(1), np.ones(len(column)))
    for i in range(len(column)):
        alone = pd.DataFrame({"c": pd.Series(column[i : i + 1], dtype=object)})
        assert alone["c"].dtype == object
        assert np.array_equal(schema.encode(alone), whole[i : i + 1])
    polars = pl.DataFrame({"c": pl.Series([object(), None], dtype=pl.Object)})
    assert schema.encode(polars).argmax(1).tolist() == [4, 4]


@pytest.mark.parametrize("missing", [pd.NA, math.nan])
def test_python_text_that_is_no_unicode_is_missing(missing: Any) -> None:
    kind = pd.StringDtype("python", na_value=missing)
    frame = pd.DataFrame({"c": pd.array(np.array(["a", "a\ud800", None], dtype=object), dtype=kind)})
    assert Schema((CategoricalColumn("c", ("a", "b", "d")),)).encode(frame).tolist() == [[1, 0, 0], THIRDS, THIRDS]


def test_levels_of_a_pandas_category_may_be_anything() -> None:
    frame = pd.DataFrame({"c": pd.Categorical([1, "red", None, 2.0, (3,)])})
    assert Schema((CategoricalColumn("c", ("red", "2", "1")),)).encode(frame).tolist() == [
        [0, 0, 1],
        [1, 0, 0],
        THIRDS,
        [0, 1, 0],
        THIRDS,
    ]


def test_text_that_is_no_unicode_matches_nothing() -> None:
    offsets = pa.array([0, 2, 5, 6], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"\xff\xfe a 1")])
    X = Schema((CategoricalColumn("c", ("a", "1", "z")),)).encode(pa.table({"c": broken}))
    assert X.tolist() == [THIRDS, [1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 0, None], dtype="Int64"),
        pd.Series([1.0, -0.0, math.nan]),
        pd.Series([True, False, None], dtype="boolean"),
        pd.Series([True, False, None], dtype=object),
        pd.Series(["1.0", "0", ""]),
        pd.Series(["TRUE", "false", "NA"]),
        pd.Series([np.float16(1), 0, math.nan], dtype="float16"),
        pd.Series([1, 0, None], dtype="category"),
        pd.Series([decimal.Decimal("1.0"), decimal.Decimal(0), None], dtype=pd.ArrowDtype(pa.decimal128(3, 1))),
    ],
    ids=lambda column: str(column.dtype),
)
@pytest.mark.parametrize("categories", [("0", "1"), ("false", "true"), ("False", "1.0")])
def test_numbers_truth_values_and_their_texts_are_one_category(column: Any, categories: tuple[str, str]) -> None:
    X = Schema((CategoricalColumn("c", categories),)).encode(pd.DataFrame({"c": column}))
    assert X.ravel().tolist() == [0.5, -0.5, 0.0]


def test_equal_text_comes_before_equal_number() -> None:
    schema = Schema((CategoricalColumn("c", ("1", "01", "1.0")),))
    assert schema.encode(pl.DataFrame({"c": ["01", "1.0", "1", "1.00"]})).argmax(1).tolist() == [1, 2, 0, 0]
    assert schema.encode(pl.DataFrame({"c": [1]})).argmax(1).tolist() == [0]
    same = tuple("2." + "0" * zeros for zeros in range(1, 100))
    assert Schema((CategoricalColumn("c", ("9", *same)),)).encode(pl.DataFrame({"c": [2]})).argmax(1).tolist() == [1]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([20, None, 200, -3], pa.int64()),
        pa.array([20, None, 200, -3], pa.float16()),
        pa.array([20, None, 2**63, 0], pa.uint64()),
        pa.array(
            [decimal.Decimal(x) if x is not None else None for x in ("20", None, "200", "-3")], pa.decimal128(5, 0)
        ),
        pa.array([20.0, math.nan, math.inf, -math.inf]),
    ],
    ids=lambda column: str(column.type),
)
def test_any_number_type_is_clipped_and_scaled(column: Any) -> None:
    schema = Schema((NumericColumn("age", 0, 40),), NumericTarget("age2", 0, 40))
    table = pa.table({"age": column, "age2": column})
    assert schema.encode(table).ravel().tolist() == [0.0, 0.0, 0.5, -0.5]
    assert schema.encode_target(table).tolist() == [20.0, 20.0, 40.0, 0.0]


def test_ends_of_a_range_are_never_left() -> None:
    for low, high in [(0.1, 0.3), (-1e300, 1e-300), (5e-324, 1e-323), (1e16, 1e16 + 2), (-0.9999999, 1e300)]:
        for transform in ("none", "log1p") if low > -1 and high - low > 1e-3 and low < 1e15 else ("none",):
            schema = Schema((NumericColumn("x", low, high, transform),))  # pyright: ignore[reportArgumentType]
            X = schema.encode(pl.DataFrame({"x": [low, high, -math.inf, math.inf, math.nextafter(low, high)]}))
            assert X.min() == X[0, 0] == X[2, 0]
            assert X.max() == X[1, 0] == X[3, 0]
            assert np.abs(X).max() <= 0.5


def test_one_text_among_numbers_changes_no_other_cell() -> None:
    """One "sixty" makes a pandas column one of objects: its type must not decide how the others are read."""
    schema = Schema((NumericColumn("age", 0, 100),))
    cells = ["10", "sixty", None, "?", "80"]
    expected = np.array([[-0.4], [0], [0], [0], [0.3]])
    columns = (
        pd.Series([10, "sixty", None, "?", 80.0], dtype=object),
        pd.Series(cells, dtype="str"),
        pd.Series(cells, dtype="category"),
        pl.Series(cells),
        pa.array(cells),
        pa.array([10.0, None, None, math.nan, 80]),
    )
    for column in columns:
        table = pa.table({"age": column}) if isinstance(column, pa.Array) else {"age": column}
        frame = table if isinstance(table, pa.Table) else (pl if isinstance(column, pl.Series) else pd).DataFrame(table)
        np.testing.assert_allclose(schema.encode(frame), expected, atol=1e-15)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([datetime.date(2000, 1, 1)]),
        pl.Series([[1]]),
        pl.Series([1], dtype=pl.Int128),
        pd.Series([1 + 2j]),
        pd.Series(pd.to_datetime(["2000-01-01"])),
    ],
    ids=lambda column: str(column.dtype),
)
def test_other_types_are_refused_by_type(column: Any) -> None:
    frame = pl.DataFrame({"c": column}) if isinstance(column, pl.Series) else pd.DataFrame({"c": column})
    for part in (NumericColumn("c", 0, 1), CategoricalColumn("c", ("a", "b"))):
        with pytest.raises(SchemaError, match="neither text, category, number nor boolean"):
            Schema((part,)).encode(frame)


def test_a_column_without_type_is_all_missing() -> None:
    schema = Schema((NumericColumn("a", 0, 1), CategoricalColumn("c", ("a",), other=True)))
    for frame in (pa.table({"a": pa.nulls(2), "c": pa.nulls(2)}), pl.DataFrame({"a": [None] * 2, "c": [None] * 2})):
        assert schema.encode(frame).tolist() == [[0, 0, 1], [0, 0, 1]]


def test_headers_are_checked() -> None:
    schema = Schema((NumericColumn("age", 0, 1), NumericColumn("gain", 0, 1)), ClassTarget("t", ("a", "b")))
    with pytest.raises(SchemaError, match=r"no column 'gain', which is needed. Its columns are 'age', 'more'"):
        schema.encode(pl.DataFrame({"age": [1.0], "more": [2.0]}))
    with pytest.raises(SchemaError, match="no column 't'"):
        schema.encode_target(pl.DataFrame({"age": [1.0]}))
    for twice in (
        pd.DataFrame([[1.0, 2.0]], columns=["age", "age"]),
        pa.table([pa.array([1.0]), pa.array([1.0])], names=["age", "age"]),
    ):
        with pytest.raises(InvalidDataError, match="two columns"):
            schema.encode(twice)
    with pytest.raises(SchemaError, match="Its columns are 0, 1"):
        schema.encode(pd.DataFrame([[1.0, 2.0]]))


@pytest.mark.parametrize("table", [np.zeros((2, 2)), pl.LazyFrame({"age": [1.0]}), [[1.0]], None])
def test_what_is_no_table_in_memory_is_refused(table: Any) -> None:
    with pytest.raises(InvalidDataError, match=type(table).__name__):
        Schema((NumericColumn("age", 0, 1),)).encode(table)


def test_columns_are_found_by_name_and_the_table_is_left_alone() -> None:
    frame = pd.DataFrame({"extra": ["x"], "b": [3.0], "a": [-7.0]})
    before = frame.copy()
    X = Schema((NumericColumn("a", 0, 2), NumericColumn("b", 2, 4))).encode(frame)
    assert X.tolist() == [[-0.5, 0.0]]
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("levels", [2, 3, 127, 128, 300])
@pytest.mark.parametrize("other", [False, True])
def test_cells_hold_every_position(levels: int, other: bool) -> None:
    column = CategoricalColumn("c", tuple(f"v{k}" for k in range(levels)), other)
    schema = Schema((column,))
    table = pa.table({"c": [*column.categories, None]})
    encoded, width = schema.encode(table), levels + other
    if width == 2:
        np.testing.assert_array_equal(encoded[:, 0], [-0.5, 0.5, 0.0])
        return
    missing = np.eye(width)[-1] if other else np.full(width, 1 / width)
    np.testing.assert_array_equal(encoded, np.vstack([np.eye(width)[:levels], missing]))
    assert schema.compact(table)[0].itemsize == (1 if levels < 128 else 2)


def test_sparse_cells_are_those_of_the_matrix() -> None:
    towns = tuple(f"town {k}" for k in range(30))
    schema = Schema((
        NumericColumn("age", 0, 100, indicator=True), NumericColumn("pay", 0, 1000, "log1p"),
        NumericColumn("score", 0, 9), CategoricalColumn("town", towns), CategoricalColumn("sex", ("f", "m")),
        CategoricalColumn("one", ("x",)), CategoricalColumn("job", towns[:5], other=True),
        CategoricalColumn("day", date="weekday"),
    ))  # fmt: skip
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "age": rng.normal(50, 30, 200), "pay": rng.exponential(100, 200), "score": rng.integers(-2, 12, 200),
        "town": rng.choice([*towns, *towns, "elsewhere"], 200), "sex": rng.choice(["f", "m", "?"], 200),
        "one": rng.choice(["x", "y"], 200), "job": rng.choice(towns[:8], 200),
        "day": np.where(rng.random(200) < 0.02, "never", "2024-01-02"),
    })  # fmt: skip
    frame.loc[::9, ["age", "pay"]] = np.nan
    cells = schema.compact(frame)
    for missing in (0.0, np.nan):
        found = schema.sparse_cells(cells, missing)
        assert found.has_canonical_format
        np.testing.assert_array_equal(found.toarray(), schema.encode_cells(cells, missing))
    assert schema.sparse_cells(schema.compact(frame[:0])).shape == (0, schema.domain().n_features)
    elsewhere = schema.compact(frame.assign(town="elsewhere"))  # each such cell has an entry for each level
    found = schema.sparse_cells(elsewhere)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, schema.encode_cells(elsewhere))


FLAGS = {"bool": [True, False], "int": [1, 0], "float": [1.0, 0.0]}
AS_TABLES = {
    "pandas": pd.DataFrame,
    "nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "arrow-backed": lambda data: pd.DataFrame(data).convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "narwhals": lambda data: nw.from_native(pl.DataFrame(data)),
}


@pytest.mark.parametrize("make", AS_TABLES.values(), ids=AS_TABLES)
@pytest.mark.parametrize("cells", FLAGS.values(), ids=FLAGS)
def test_a_type_that_can_hold_no_category_is_refused_and_one_that_can_hold_any_is_not(make: Table, cells: Any) -> None:
    table = make({"k": cells})
    for listed in (("No", "Yes"), ("No", "Yes", "l")):
        for other in (False, True):
            words = "column 'k' has type .*, and can hold none of the listed values 'No', 'Yes'"
            with pytest.raises(SchemaError, match=words) as caught:
                require_possible((CategoricalColumn("k", listed, other),), table)
            assert "List its values, or aliases for them," in str(caught.value)
            for part in (table, table[:0] if not isinstance(table, pa.Table) else table.slice(0, 0)):
                with pytest.raises(SchemaError) as again:  # the type alone decides
                    require_possible((CategoricalColumn("k", listed, other),), part)
                assert str(again.value) == str(caught.value)
    for listed in (("0", "1"), ("1", "unknown"), ("no", "TRUE"), ("false", "yes"), ("0.0", "x")):
        column = CategoricalColumn("k", listed)
        require_possible((column,), table)
        assert (column.compact(column.read(nw.from_native(table))) >= 0).any()  # as cells are matched
    named = CategoricalColumn("k", ("No", "Yes"), aliases={"true": "Yes", "false": "No"})
    require_possible((named, CategoricalColumn("m", date="month")), make({"k": cells, "m": ["2024-05-01"] * 2}))
    assert named.compact(named.read(nw.from_native(table))).tolist() == [1, 0]


def test_types_that_need_not_hold_what_they_held_are_never_refused() -> None:
    column = CategoricalColumn("k", ("No", "Yes"))
    cells = np.array([True, False])
    read_off = pd.Categorical(cells), pd.Categorical([1, 2])  # even the type of their levels may follow from a cell
    for held in (cells.astype(object), [None, None], np.array(["1", "0"]), *read_off):
        require_possible((column,), pd.DataFrame({"k": held}))
    require_possible((column,), pl.DataFrame({"k": [None, None]}))
    kinds = pl.DataFrame({"k": pl.Series(["a"] * 2, dtype=pl.Enum(["a", "b"])), "m": [2, 3]})
    require_possible((CategoricalColumn("k", ("b", "c")), CategoricalColumn("m", ("2", "no"))), kinds)
    for parts in ((column,), (CategoricalColumn("m", ("No", "Yes")),)):
        with pytest.raises(SchemaError, match="can hold none of the listed values 'No', 'Yes'"):
            require_possible(parts, kinds)
    with pytest.raises(SchemaError, match="can hold none of the listed values '2', '3'"):
        require_possible((CategoricalColumn("k", ("2", "3")),), pl.DataFrame({"k": cells}))
