"""Files as they come: separators, compression, standard input, several files; and the local look at a table."""

from __future__ import annotations

import gzip
import io
import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dpconvex.cli.fit import engine_for
from dpconvex.cli.main import app
from dpconvex.data import (
    CategoricalColumn,
    ClassTarget,
    NumericColumn,
    Schema,
    draft_schema,
    look_at,
    open_files,
    read_header,
    read_table,
)
from dpconvex.errors import InvalidDataError, SchemaError

SCHEMA = Schema((NumericColumn("a", 0, 9), CategoricalColumn("b", ("x", "y"))))


@pytest.mark.thin
@pytest.mark.parametrize("comma", [",", ";", "\t", "|"])
def test_the_header_says_what_separates(comma: str, tmp_path: Path) -> None:
    text = f'a{comma}b\n1.5{comma}"x{comma}"\n{comma}y\nwhat?{comma},;|\n2{comma}\n'
    for name, content in {"t.csv": text.encode(), "t.csv.gz": gzip.compress(text.encode())}.items():
        (tmp_path / name).write_bytes(content)
        table = read_table(tmp_path / name, SCHEMA)
        assert table["a"].to_pylist()[:2] == [1.5, None]
        assert table["b"].to_pylist()[:2] == [f"x{comma}", "y"]
        assert len(table) == 4
    one = tmp_path / "one.csv"
    one.write_text('"a;b"\n1\n')
    assert read_header(one) == ["a;b"]  # no separator outside of quotes


def test_decimal_commas_stand_where_semicolons_separate(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(
        b"a;b\n1,5;x\n1.5;x\n1,5,0;x\n1.000,5;x\n\xff,1;x\n,5;x\n-1.234.567,89;x\n12.34,5;x\n"
    )
    values = read_table(tmp_path / "t.csv", SCHEMA)["a"].to_pylist()
    assert values == [1.5, 1.5, None, 1000.5, None, 0.5, -1234567.89, None]


def test_drafts_of_files_with_semicolons_know_decimal_commas(tmp_path: Path) -> None:
    """A word among such numbers is a missing value, as among numbers with points; other texts stay as they are."""
    cells = [f"{k},5;{k % 2},{k % 3} m" if k % 9 else "n/a;x, y" for k in range(90)]
    (tmp_path / "t.csv").write_text("a;b\n" + "\n".join([*cells, "1.138,91;x, y"]) + "\n")
    found = read_table(tmp_path / "t.csv")
    assert found["b"].to_pylist()[-1] == "x, y"
    drafted = tomllib.loads(draft_schema(found))["columns"]["a"]
    assert (drafted["lower"], drafted["upper"], drafted["missing"]) == (1.5, 1138.91, ["n/a"])


def test_patterns_mean_all_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "s1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "s2.csv").write_text("b;a\ny;2\n")
    assert read_table(tmp_path / "s*.csv", SCHEMA).to_pydict() == {"a": [1, 2], "b": ["x", "y"]}
    with pytest.raises(InvalidDataError, match="no file fits"):
        read_table(tmp_path / "z*.csv")
    (tmp_path / "s3.csv").write_text("a\n1\n")
    with pytest.raises(SchemaError, match="no column 'b'"):
        read_table(tmp_path / "s*.csv", SCHEMA)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "s[1].csv"
    path.write_text("a,b\n1,x\n")
    assert engine_for(path, None) == "memory"
    assert open_files(path, SCHEMA).files == (path,)
    assert read_table(path, SCHEMA).to_pydict() == {"a": [1], "b": ["x"]}


def test_broken_archives_give_one_message(tmp_path: Path) -> None:
    good = gzip.compress(b"a,b\n1,x\n" * 1000)
    for k, content in enumerate((b"", b"no archive", good[:30], good[:-4], good[:15] + b"\0\0\0\0" + good[19:])):
        path = tmp_path / f"{k}.csv.gz"
        path.write_bytes(content)
        with pytest.raises(InvalidDataError, match=f"could not be {'unpacked' if k else 'parsed'}"):
            read_table(path, SCHEMA)


def test_an_archive_may_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpconvex.data.csv_file.MOST_UNPACKED", 10_000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,x\n" * 10_000))
    with pytest.raises(InvalidDataError, match="Split the file"):
        read_table(tmp_path / "t.csv.gz", SCHEMA)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,x\n")))
    assert read_table("-", SCHEMA).to_pydict() == {"a": [1], "b": ["x"]}
    assert read_table("-", SCHEMA).num_rows == 1  # again: a command reads header and records


TABLE = pa.table(
    {
        "age": ["30", "300", "sixty", "-999"],
        "sex": ["f", "femal", "", "m"],
        "one": [1, 1, 1, 1],
        "y": ["no", "yes", "YES", "no"],
        "who": ["a"] * 3 + ["b"],
    }
)
LOOKED = Schema(
    (
        NumericColumn("age", 0, 120, missing=("-999",)),
        CategoricalColumn("sex", ("female", "m"), aliases={"f": "female"}, other=True),
        NumericColumn("one", 0, 2),
    ),
    ClassTarget("y", ("no", "yes")),
    user="who",
    confirmed=False,
)


def test_a_look_finds_what_would_cost_a_budget() -> None:
    look = look_at(TABLE, LOOKED)
    age, sex, one, y = look.columns
    assert (age.missing, age.clipped, age.unlisted) == (0.5, 0.25, 0)
    assert (sex.missing, sex.unlisted, sex.spellings) == (0.25, 0.25, {"femal": "female"})
    assert one.constant
    assert (y.unlisted, y.spellings, y.signal) == (0.25, {"YES": "yes"}, None)
    assert (look.users, look.most_rows, look.users_with_many) == (2, 3, 0)
    assert all(0 <= (column.signal or 0) <= 1 for column in look.columns)
    look_at(TABLE.slice(0, 0), LOOKED)


def test_the_command_says_that_it_is_not_private_and_writes_nothing(tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.csv.write_csv(TABLE, tmp_path / "t.csv")
    (tmp_path / "t.toml").write_text(LOOKED.to_toml())

    def run(*more: Any) -> Any:
        return CliRunner().invoke(app, ["schema", "check", str(tmp_path / "t.csv"), str(tmp_path / "t.toml"), *more])

    found = run()
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("NOT PRIVATE")
    assert "sex: 'femal' is not listed. Did you mean 'female'?" in found.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.toml"]
    assert json.loads(run("--json").stdout)["private"] is False
    out = tmp_path / "look.json"
    assert run("--output", str(out)).exit_code == 0
    assert json.loads(out.read_text())["warning"].startswith("NOT PRIVATE")
    assert run("--output", str(out)).exit_code == 2  # never replaced
    flags = TABLE.set_column(TABLE.column_names.index("sex"), "sex", pa.array([True] * len(TABLE)))
    pyarrow.parquet.write_table(flags, tmp_path / "t.parquet")
    found = CliRunner().invoke(app, ["schema", "check", str(tmp_path / "t.parquet"), str(tmp_path / "t.toml")])
    assert found.exit_code == 2
    assert "column 'sex' has type Boolean, and can hold none of the listed values 'female', 'm', 'f'" in found.stderr
