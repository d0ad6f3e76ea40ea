"""Reading tables and writing files."""

from __future__ import annotations

import errno
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from dpconvex import PrivateLogisticRegression
from dpconvex.data import (
    CategoricalColumn,
    ClassTarget,
    NumericColumn,
    Schema,
    check_table,
    open_files,
    read_table,
    write_atomically,
)
from dpconvex.data.frames import parse_numbers
from dpconvex.errors import InvalidDataError, InvalidParameterError, SchemaError
from dpconvex.problems.data.sources.arrow import open_tables

SCHEMA = Schema((NumericColumn("age", 0, 100), CategoricalColumn("zip", ("01", "2"))), ClassTarget("y", ("0", "1")))


def test_schema_fixes_how_csv_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        b'\xef\xbb\xbfzip,extra,age,y\n01,"a,b",1e1,1\n2,"line\nbreak", 7 ,0.0\n\xff\xfe,,secret,\n,,,1\n,,1e999,TRUE\n'
    )
    table = read_table(path, SCHEMA)
    assert table.column_names == ["age", "zip", "y"]
    assert table["age"].to_pylist() == [10.0, 7.0, None, None, float("inf")]
    assert table["y"].to_pylist() == ["1", "0.0", "", "1", "TRUE"]
    assert SCHEMA.encode(table).tolist() == [[-0.4, -0.5], [-0.43, 0.5], [0.0, 0.0], [0.0, 0.0], [0.5, 0.0]]
    assert SCHEMA.encode_target(table).tolist() == [1, 0, 0, 1, 1]
    assert read_table(path, SCHEMA, features_only=True).column_names == ["age", "zip"]


def test_csv_without_schema_tells_numbers_from_text(tmp_path: Path) -> None:
    path = tmp_path / "t.CSV"
    path.write_text("a,b,c,d\n1,,x,\n,2.5,3,\n")
    table = read_table(path)
    assert table.to_pydict() == {"a": [1.0, None], "b": [None, 2.5], "c": ["x", "3"], "d": [None, None]}


def test_line_breaks_inside_cells_may_lie_anywhere(tmp_path: Path) -> None:
    """More than one block of the reader (1 MiB), so that a break inside a cell falls on the end of one."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + '"x\n\n\n\n\n\n\n\n\ny",1\n' * 100_000)
    table = read_table(path)
    assert table.num_rows == 100_000
    assert table["a"].unique().to_pylist() == ["x\n\n\n\n\n\n\n\n\ny"]


def test_no_rows_are_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("y,zip,age\n")
    assert SCHEMA.encode(read_table(path, SCHEMA)).shape == (0, 2)


def test_parquet_reads_only_what_the_schema_names(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"y": [1], "b.c": [2], "zip": ["2"], "age": [50]}), path)
    assert read_table(path).column_names == ["y", "b.c", "zip", "age"]
    table = read_table(path, SCHEMA)
    assert table.column_names == ["age", "zip", "y"]
    assert SCHEMA.encode(table).tolist() == [[0.0, 0.5]]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_header_faults_are_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "t.csv":
        path.write_text("age,zip\n1,2\n")
    else:
        pq.write_table(pa.table({"age": [1], "zip": [2]}), path)
    with pytest.raises(SchemaError, match=rf"{name} has no column 'y', .*'age', 'zip'$"):
        read_table(path, SCHEMA)


def test_a_name_that_stands_in_the_place_of_another_is_told(tmp_path: Path) -> None:
    """It said that a column is missing, and not that another is there twice."""
    (tmp_path / "t.csv").write_text("age,zip,age\n1,2,3\n")
    with pytest.raises(SchemaError, match=r"no column 'y', .* columns are 'age', 'zip', 'age' more than once$"):
        read_table(tmp_path / "t.csv", SCHEMA)


def test_unusable_files_give_one_message_without_cells(tmp_path: Path) -> None:
    cases = {
        "missing.csv": (None, "cannot be read .No such file"),
        "missing.parquet": (None, "cannot be read .No such file"),
        "t.xlsx": (b"", "must end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet"),
        "empty.csv": (b"", "first line must name the columns"),
        "twice.csv": (b"a,a\n1,2\n", "two columns named 'a'"),
        "noise.parquet": (b"secret", "could not be parsed as Parquet"),
        "folder.csv": ("folder", "is a folder, and a file, or files by a pattern, are needed here. Name them, as in"),
    }
    for name, (content, words) in cases.items():
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "folder":
            path.mkdir()
        with pytest.raises(InvalidDataError, match=words) as caught:
            read_table(path)
        assert name in str(caught.value)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


NUMBERS = st.from_regex(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", fullmatch=True)


@given(st.lists(NUMBERS | st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.none(), max_size=5))
def test_numbers_are_read_cell_by_cell(cells: list[str | None]) -> None:
    """Any cell is legal, and what it reads as depends on no other cell: that is what replace-one privacy needs."""
    together = parse_numbers(pa.array(cells, pa.string())).to_pylist()
    alone = [parse_numbers(pa.array([cell], pa.string()))[0].as_py() for cell in cells]
    assert together == alone
    for cell, value in zip(cells, alone, strict=True):
        if value is not None and cell is not None and cell.strip().lower() not in ("true", "false"):
            assert value == float(cell)


@given(NUMBERS)
def test_every_decimal_number_is_read(cell: str) -> None:
    assert parse_numbers(pa.array([f" {cell}\t"])).to_pylist() == [float(cell)]


def test_infinities_and_truth_values_are_numbers() -> None:
    cells = pa.array(["inf", "+INF", "-Infinity", "True", "FALSE"])
    assert parse_numbers(cells).to_pylist() == [math.inf, math.inf, -math.inf, 1.0, 0.0]


@pytest.mark.parametrize("cell", ["", "nan", "NA", "1,5", "0x1f", "1_0", "-", "e5", ".", "1e", "\u0663", "5 %", "1\n2"])
def test_what_is_no_number_is_missing(cell: str) -> None:
    assert parse_numbers(pa.array([cell])).to_pylist() == [None]


@pytest.mark.parametrize(
    ("one", "other", "allowed"),
    [
        (pa.int64(), pa.float64(), False),
        (pa.int32(), pa.int64(), False),
        (pa.float64(), pa.string(), False),
        (pa.null(), pa.float64(), True),
        (pa.float64(), pa.null(), True),
        (pa.float64(), None, False),
        (pa.string(), pa.large_string(), True),
        (pa.string(), pa.dictionary(pa.int8(), pa.string()), True),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), False),
        (pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.string()), False),
    ],
)
def test_files_of_one_table_have_the_same_types(
    one: pa.DataType, other: pa.DataType | None, allowed: bool, tmp_path: Path
) -> None:
    """Arrow casts later files to the first one's types, and fails or not by what their cells hold."""
    schema = Schema((NumericColumn("age", 0, 100),), ClassTarget("sick", ("no", "yes")))
    for name, kind in (("a", one), ("b", other)):
        table = pa.table({"sick": ["no", "yes"], "unused": pa.array([1, 2], pa.int8() if name == "a" else pa.int16())})
        if kind is not None:
            table = table.append_column("age", pa.nulls(2, kind))
        pq.write_table(table, tmp_path / f"{name}.parquet")
    for path in (tmp_path, tmp_path / "*.parquet"):
        if allowed:
            check_table(path, schema)
            assert open_tables(open_files(path, schema), schema.column_names()).n == 4
            continue
        wrong = "has no column 'age'" if other is None else "the column 'age' the types"
        with pytest.raises(InvalidDataError, match=wrong):
            check_table(path, schema)
        with pytest.raises(InvalidDataError, match=wrong):
            open_tables(open_files(path, schema), schema.column_names())


@pytest.mark.parametrize(
    "others", [["2"], ["unknown"], ["01"], ["1.5"], ["x.csv"], ["%FF"], ["__HIVE_DEFAULT_PARTITION__"]]
)
def test_a_record_whose_cell_names_a_folder_changes_no_other(others: list[str], tmp_path: Path) -> None:
    """Arrow guesses a column's type from the names of all folders: one record decided how others were read."""
    schema = Schema(
        (NumericColumn("age", 0, 100), CategoricalColumn("code", ("01", "1", "New York"))),
        ClassTarget("sick", ("1", "0", "unknown")),
    )
    for k, (code, sick) in enumerate(
        [("1", "1"), ("01", "0"), ("New%20York", "0"), *((each, each) for each in others)]
    ):
        folder = tmp_path / f"code={code}" / f"sick={sick}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"age": [float(k)]}), folder / "part.parquet")
    for path in (tmp_path, tmp_path / "*" / "*" / "*.parquet"):
        check_table(path, schema)
        found = open_files(path, schema).to_table().to_pandas().sort_values("age")
        assert found["code"].tolist()[:3] == ["1", "01", "New York"]
        assert found["sick"].tolist()[:3] == ["1", "0", "0"]
        with pytest.raises(InvalidDataError, match="names of folders"):
            check_table(path, schema, folders=False)
    guessed = pa.dataset.dataset(tmp_path / "code=1", format="parquet", partitioning="hive")
    with pytest.raises(InvalidDataError, match="names of folders hold the column 'sick'"):
        open_tables(guessed, ("age", "sick"))


def test_folders_that_are_links_and_keys_that_are_escaped_are_read(tmp_path: Path) -> None:
    schema = Schema((NumericColumn("age", 0, 100), CategoricalColumn("town", ("Rome", "A"))))
    for place in ("p/t%6Fwn=Rome", "elsewhere"):
        (tmp_path / place).mkdir(parents=True)
        pq.write_table(pa.table({"age": [1.0, 2.0]}), tmp_path / place / "part.parquet")
    (tmp_path / "p" / "town=A").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    for path in (tmp_path / "p", f"file://{tmp_path}/p", tmp_path / "p" / "*"):
        assert sorted(open_files(path, schema).to_table()["town"].to_pylist()) == ["A", "A", "Rome", "Rome"]


def test_types_of_files_that_cannot_be_compared_are_refused_in_one_line(tmp_path: Path) -> None:
    schema = Schema((NumericColumn("age", 0, 100),), ClassTarget("sick", ("no", "yes")))
    for name in "ab":
        pq.write_table(pa.table({"sick": ["no", "yes"], "age": [1.0, 2.0]}), tmp_path / f"{name}.parquet")
    filtered = open_files(tmp_path, schema).filter(pc.field("age") > 1)
    with pytest.raises(InvalidDataError, match="filtered"):
        open_tables(filtered, schema.column_names())
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:300])
    for path in (tmp_path, tmp_path / "*.parquet"):
        with pytest.raises(InvalidDataError, match="Check"):
            check_table(path, schema)


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_atomically(path, "é")
    assert path.read_bytes() == "é".encode()
    write_atomically(path, b"\x00")
    write_atomically(str(path), lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_links_are_followed_and_pipes_are_written_into(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out.txt")
    for text in ("new file", "replaced"):
        write_atomically(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "out.txt").read_text() == text
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for path in (tmp_path / "pipe", f"/proc/self/fd/{reader}"):  # as /dev/stdout, which names no place to link to
        write_atomically(path, lambda file: file.write(b"through"))
        assert os.read(reader, 99) == b"through"
    with pytest.raises(InvalidParameterError, match="File exists"):
        write_atomically(tmp_path / "pipe", "key", new=True)
    os.close(reader)
    assert sorted(os.listdir(tmp_path)) == ["link", "out.txt", "pipe"]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")

    def half(file: IO[bytes]) -> None:
        file.write(b"half")
        file.flush()
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_atomically(path, half)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (OSError(errno.ENOSPC, "No space left"), "out.txt"),
        (OSError(errno.EIO, "not from here"), None),
        (OSError(errno.ENOSPC, "No space left", "of another"), "of another"),
    ],
    ids=["full", "other", "named"],
)
def test_a_full_disk_names_the_file(error: OSError, named: str | None, tmp_path: Path) -> None:
    def full(file: IO[bytes]) -> None:
        raise error

    with pytest.raises(OSError, match=r"No space left|not from here") as caught:
        write_atomically(tmp_path / "out.txt", full)
    assert caught.value is error
    assert error.filename == (str(tmp_path / "out.txt") if named == "out.txt" else named)
    assert os.listdir(tmp_path) == []


def test_unwritable_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "out", tmp_path / "nowhere" / "out", tmp_path / "folder"):
        with pytest.raises(InvalidParameterError, match=r"path=.*must be a file that can be written .*writable folder"):
            write_atomically(path, "x")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="a name of POSIX systems")
def test_standard_output_goes_on_where_it_is(tmp_path: Path) -> None:
    """Redirected into a file, that file was replaced: what was written before and after was lost."""
    code = "from dpconvex.data import write_atomically as w; print(1, flush=True); w('/dev/stdout', '2\\n'); print(3)"
    with (tmp_path / "out").open("w") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "out").read_text() == "1\n2\n3\n"


def test_a_type_that_can_hold_no_category_is_refused_by_the_files_footers(tmp_path: Path) -> None:
    schema = Schema((CategoricalColumn("sex", ("female", "male")),))
    for k in range(2):
        pq.write_table(pa.table({"sex": [True, False]}), tmp_path / f"{k}.parquet")
    for path in (tmp_path, tmp_path / "*.parquet", tmp_path / "0.parquet"):
        with pytest.raises(SchemaError, match="type Boolean, and can hold none of the listed values 'female'"):
            check_table(path, schema)
    check_table(tmp_path / "0.parquet", schema, folders=False)  # predictions on an engine, too


def test_files_of_csv_that_lack_a_column_are_named_before_anything_is_read(tmp_path: Path) -> None:
    schema = Schema((NumericColumn("a", 0, 1), NumericColumn("b", 0, 1)))
    (tmp_path / "0.csv").write_text("a,b\n0,1\n")
    (tmp_path / "1.csv").write_text("a\n0\n")
    with pytest.raises(SchemaError, match=r"1\.csv.*'b'"):
        open_files(tmp_path, schema)


def test_masked_arrays_are_refused() -> None:
    """Cells under a mask, which hold anything, counted as numbers."""
    X = np.ma.masked_equal([[-999.0], [0.5]], -999.0)
    with pytest.raises(InvalidDataError, match=r"masks are not read. Fill it, as X.filled"):
        PrivateLogisticRegression(feature_bounds=(-1, 1), classes=[0, 1]).fit(X, [0, 1])
    with pytest.raises(InvalidDataError, match="masks are not read"):
        PrivateLogisticRegression(feature_bounds=(-1, 1), classes=[0, 1]).fit(X.data, np.ma.array([0, 1], mask=[0, 1]))
