"""CSV files: what well-formed ones say, and that a malformed record is read without moving any other."""

from __future__ import annotations

import csv
import gzip
import io
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from dpconvex.data import NumericColumn, Schema, draft_schema, open_files, read_table
from dpconvex.data.csv_file import csv_columns, csv_header
from dpconvex.errors import InvalidDataError, InvalidParameterError

pytestmark = pytest.mark.together

HEAD = b"a,b,c\n"


def rows(
    folder: Path, content: bytes, names: tuple[str, ...] = ("a", "b", "c"), line_breaks: bool = True
) -> list[tuple[bytes, ...]]:
    path = folder / "t.csv"
    path.write_bytes(content)
    columns = csv_columns(path, names, line_breaks)
    return list(zip(*(columns[name].cast(pa.large_binary()).to_pylist() for name in names), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("csv")


MALFORMED = {
    "too few": (b"1\n", (b"1", b"", b"")),
    "too many": (b"1,2,3,4,5\n", (b"1", b"2", b"3")),
    "none": (b"\n", (b"", b"", b"")),
    "carriage returns": (b"1,2,3\r\r\n", (b"1", b"2", b"3")),
    "a carriage return inside": (b"1,\r,3\n", (b"1", b"\r", b"3")),
    "open": (b'1,"x,y\n', (b"1", b'"x', b"y")),
    "open at the end": (b'1,2,"\n', (b"1", b"2", b'"')),
    "open after a doubled one": (b'1,"x"",y\n', (b"1", b'"x""', b"y")),
    "text after quotes": (b'1,"x"y"z,3\n', (b"1", b'xy"z', b"3")),
    "quotes inside": (b'1,5" x 3",3\n', (b"1", b'5" x 3"', b"3")),
    "odd and long": (b'"1,2,3,"4\n', (b"1,2,3,4", b"", b"")),
    "blanks before a quote": (b'1, "x,y",3\n', (b"1", b' "x', b'y"')),
    "nothing UTF-8": (b"\xff,\x00,\xc3\n", (b"\xff", b"\x00", b"\xc3")),
}
OTHERS = {
    "plain": (b"4,5,6\n", (b"4", b"5", b"6")),
    "quoted": (b'"4,4","5","6"\n', (b"4,4", b"5", b"6")),
    "doubled": (b'"""4""","5""5",""\n', (b'"4"', b'5"5', b"")),
    "broken": (b'"4\n\n",5,"6\r\n"""\n', (b"4\n\n", b"5", b'6\r\n"')),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("other", OTHERS)
def test_malformed_records_keep_to_themselves(folder: Path, name: str, other: str) -> None:
    (line, cells), (plain, right) = MALFORMED[name], OTHERS[other]
    for before in range(3):
        assert rows(folder, HEAD + plain * before + line + plain * 2) == [right] * before + [cells] + [right] * 2
    assert rows(folder, HEAD + plain + line.rstrip(b"\n")) == [right, cells] if line.strip() else True


@given(st.lists(st.lists(st.text(st.sampled_from('",\n\rx é'), max_size=4), min_size=3, max_size=3), max_size=6))
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
def test_well_formed_files_are_read_as_they_were_written(folder: Path, quoting: int, table: list[list[str]]) -> None:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=quoting).writerows(table)  # pyright: ignore[reportArgumentType]
    content = buffer.getvalue().encode()
    assert rows(folder, HEAD + content) == [tuple(cell.encode() for cell in row) for row in table]


cells = st.text(st.sampled_from('",\n\rxy'), max_size=4).filter(
    lambda cell: cell.lstrip('"')[:1] not in (",", "\n", "\r")
)
records = st.lists(st.lists(cells, min_size=3, max_size=3), max_size=4)
anything = st.lists(st.sampled_from([b'"', b'""', b",", b"\r", b"x", b"\xff", b'",', b',"', b'","']), max_size=8).map(
    b"".join
)


def written(table: Sequence[Sequence[str]], separator: str = ",") -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    return buffer.getvalue().encode()


@given(records, anything, records)
def test_no_line_changes_how_others_are_read(folder: Path, before: list, line: bytes, after: list) -> None:
    """The number of records and all others stay as they are, whatever stands in one line."""
    found = rows(folder, HEAD + written(before) + line + b"\n" + written(after))
    assert len(found) == len(before) + 1 + len(after)
    assert found[: len(before)] == rows(folder, HEAD + written(before))
    assert found[len(before) + 1 :] == rows(folder, HEAD + written(after))


JOINED = {  # cells with which one malformed line joins where cells may hold line breaks
    "a line break first": (b'1,2,"', ",", "\n5"),
    "the separator first": (b'1;"', ";", ";5\n6"),
    "quotes, then the separator": (b'1,"', ",", '"",5\n6'),
    "quotes and a carriage return, then a line break": (b'1,2,"', ",", '"\r\n5'),
}


@pytest.mark.parametrize("name", JOINED)
def test_a_line_joins_others_only_where_cells_may_hold_line_breaks(folder: Path, name: str) -> None:
    """The dependence that docs, Threat model, CSV files, states, and that a schema without line breaks has not."""
    line, separator, cell = JOINED[name]
    head, rest = HEAD.replace(b",", separator.encode()), written([[cell, "6", "7"]] * 20, separator)
    plain, bad = (head + rest + each + b"\n" + rest for each in (b"1", line))
    assert len(rows(folder, plain)) == 41
    assert rows(folder, plain)[21:] != rows(folder, bad)[21:]
    lines, others = rows(folder, plain, line_breaks=False), rows(folder, bad, line_breaks=False)
    assert len(lines) == len(others) == plain.count(b"\n") - 1
    assert [k for k, (one, other) in enumerate(zip(lines, others, strict=True)) if one != other] == [rest.count(b"\n")]


several = st.lists(anything, max_size=4).map(b"\n".join)


@given(several, anything, anything, several)
def test_without_line_breaks_no_line_changes_any_other(
    folder: Path, before: bytes, line: bytes, other: bytes, after: bytes
) -> None:
    """However malformed the others are, and wherever their quotes stand."""
    one, two = (
        rows(folder, HEAD + before + b"\n" + each + b"\n" + after + b"\n", line_breaks=False) for each in (line, other)
    )
    place = before.count(b"\n") + 1
    assert len(one) == len(two) == place + 2 + after.count(b"\n")
    assert one[:place] == two[:place]
    assert one[place + 1 :] == two[place + 1 :]


def test_schemas_say_that_no_cell_holds_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b\n1,"x\n2"\n')
    schema = Schema((NumericColumn("a", 0, 9),))
    for declared, count in ((schema, 1), (replace(schema, line_breaks=False), 2)):
        assert Schema.from_toml_text(declared.to_toml()) == declared
        assert read_table(path, declared).num_rows == count
        assert pa.RecordBatchReader.from_stream(open_files(path, declared)).read_all().num_rows == count
    assert "line_breaks" not in draft_schema(read_table(path))
    assert "\nline_breaks = false  # read from" in draft_schema(pa.table({"a": [1, 2], "b": ["x", None]}))
    with pytest.raises(InvalidParameterError, match="line_breaks=0: must be true or false"):
        Schema((NumericColumn("a", 0, 9),), line_breaks=0)  # pyright: ignore[reportArgumentType]


def test_an_open_quote_in_the_header_takes_no_record_where_no_cell_holds_line_breaks(folder: Path) -> None:
    for rest in (b"1,2\n3,4\n", b'1,2"\n3,4\n', b'1,2\n3",4\n'):
        found = rows(folder, b'a,"b\n' + rest, ("a",), line_breaks=False)
        assert found == [(b"1",), (b'3"',) if b'3"' in rest else (b"3",)]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_carriage_returns_end_lines_where_they_end_the_header(tmp_path: Path, name: str) -> None:
    """So do spreadsheets of old write files; seven of 300 in public repositories are such ones."""
    path = tmp_path / name
    path.write_bytes((gzip.compress if name.endswith("gz") else bytes)(b'a,b,"c\rd"\r1,2,3\r\r4,"5",6'))
    assert csv_header(path)[0] == ["a", "b", "c\nd"]
    assert csv_columns(path, ("b",))["b"].to_pylist() == ["2", "", "5"]
    path.write_bytes((gzip.compress if name.endswith("gz") else bytes)(b"a,b\r\r\n1,\r\n3,4\n"))
    assert csv_columns(path, ("b",))["b"].to_pylist() == ["", "4"]


def test_a_lone_quote_in_the_header_lets_no_record_choose_how_lines_end(tmp_path: Path) -> None:
    """A quote of a record closed it, and a carriage return behind it made line feeds of all others."""
    path = tmp_path / "t.csv"
    for second in (b"2,7,1", b'2,7,"\rz'):
        lines = [b'x,y,size 12"', b"1,7,1", second, *[b"3,7,1"] * 7]
        path.write_bytes(b"".join(line + b"\r\n" for line in lines))
        found = csv_columns(path, ("x",), line_breaks=False)["x"].to_pylist()
        assert found == ["1", "2", *["3"] * 7]
    path.write_bytes(b"x,y\r\r\r\r")
    assert csv_columns(path, ("x",))["x"].to_pylist() == ["", "", ""]


def test_drafts_see_line_breaks_in_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b\n"5\n",x\n6,y\n')
    assert "line_breaks" not in draft_schema(read_table(path))
    path.write_bytes(b"a,b\n5,x\n6,y\n")
    assert read_table(path)["a"].to_pylist() == [5, 6]
    assert "line_breaks = false" in draft_schema(read_table(path))


@given(st.lists(anything, max_size=8))
def test_lines_are_records_unless_some_are_one_well_formed_record(folder: Path, lines: list[bytes]) -> None:
    found = rows(folder, HEAD + b"".join(line + b"\n" for line in lines))
    assert len(found) <= len(lines)
    if sum(line.count(b'"') % 2 for line in lines) < 2:
        assert len(found) == len(lines)


def test_columns_are_chosen_by_name_and_files_read_in_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpconvex.data.csv_file._CELLS", 7)
    content = b"\xef\xbb\xbfa,b,c\r\n" + b"".join(b'%d,"x\n%d",z\r\n' % (k, k) for k in range(20))
    assert rows(folder, content, ("c", "b")) == [(b"z", b"x\n%d" % k) for k in range(20)]
    assert rows(folder, HEAD) == []


@pytest.mark.parametrize("line", [b'"x,1,2\n', b'"x""\n', b'""",\n', b'x",\n"', b'","\n', b'",x,"\n'])
@pytest.mark.thin
def test_time_is_linear_in_the_size_of_the_file(folder: Path, line: bytes) -> None:
    """Each line could begin a record of several lines; 3 MB in well under the minutes that a quadratic search takes."""
    rows(folder, HEAD + line)
    start = time.process_time()
    assert rows(folder, HEAD + line * (3_000_000 // len(line)))
    assert time.process_time() - start < 10


@pytest.mark.parametrize("content", [b"", b"\n", b"\na,b\n", b"\ra,b\r", b'"' + b"x" * 200_000])
def test_a_header_is_needed(folder: Path, content: bytes) -> None:
    (folder / "h.csv").write_bytes(content)
    with pytest.raises(InvalidDataError, match="first line must name the columns") as refused:
        csv_header(folder / "h.csv")
    assert ("it is empty" in str(refused.value)) == (not content)


def test_utf_16_is_told(folder: Path) -> None:
    (folder / "h.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(InvalidDataError, match=r"seems to be UTF-16\. Convert it, as with iconv"):
        csv_header(folder / "h.csv")


def test_names_may_be_quoted_and_hold_line_breaks(folder: Path) -> None:
    assert rows(folder, b'"a\n(1)","b ""c""",\xff\n1,2,3\n', ("a\n(1)", 'b "c"', "\ufffd")) == [(b"1", b"2", b"3")]


def test_every_column_is_a_text_of_its_own(folder: Path) -> None:
    """Some versions of pyarrow, up to 23, misread texts whose offsets do not begin at 0."""
    (folder / "t.csv").write_text("a,b,c\n1,two,x\n33,,y\n", encoding="utf-8")
    for column in csv_columns(folder / "t.csv", ("a", "b", "c")).values():
        for chunk in column.chunks[1:]:
            offsets, cells = np.frombuffer(chunk.buffers()[1], np.int64), chunk.buffers()[2]
            assert offsets[0] == 0
            assert offsets[-1] == cells.size
