"""CSV files as columns of text. Any content is read, and hardly any content changes how other records are read.

A reader that refuses malformed lines, or lets an open quote swallow what follows, makes exit code and number of records
depend on one cell. Here the lines are the structure:

- A line is a record, an empty one too. It ends with a line feed; carriage returns before that are left out.
- Cells that a line lacks are empty; cells beyond the header's are dropped.
- A quote at the start of a cell quotes it up to the next single quote of its line; doubled quotes stand for one, and
  text after the closing quote is taken as it is. Where no quote closes it, it is a character like any other.
- The one exception are cells with line breaks: lines that together are one well-formed record (quoted cells closed and
  followed by a comma or a line end, other cells without quotes, as many cells as the header) are that record.

*Why others stay as they are.* Let the other records be well-formed, and none of their quoted cells begin with a comma
or a line break (after quotes). A line with an open quote is read with those below only where the next single quote
closes that cell. But it opens a cell of another record, so text follows it, and the lines are no well-formed record.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from dpconvex._types import AnyArray
from dpconvex.errors import InvalidDataError

if TYPE_CHECKING:
    import pyarrow as pa

_MARK = b"\xef\xbb\xbf"  # of byte order, before the header
_CELLS, _ROWS = 2**16, 64  # located at a time: what a cache holds, but many rows of wide tables


def csv_header(path: str | PathLike[str]) -> list[str]:
    """Return the names of a CSV file's columns. Reads no record."""
    return _header(path)[0]


def csv_columns(path: str | PathLike[str], header: list[str], names: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    """Return columns of a CSV file as text that may be no valid Unicode, ``large_string`` (n,) each."""
    import pyarrow as pa

    from dpconvex.data._csv_loops import gather, locate

    place = _header(path)[1]
    text = np.fromfile(path, np.uint8)
    positions = {name: k for k, name in enumerate(names)}
    slots = np.array([positions.get(name, -1) for name in header])
    rows = max(_ROWS, _CELLS // max(1, len(names)))
    chunks: list[list[pa.Array]] = [[pa.array([], pa.large_string())] for _ in names]
    while place < len(text):
        starts, stops = np.empty((2, rows, len(names)), np.int64)
        count, place = locate(text, place, slots, starts, stops)
        starts, stops = starts[:count], stops[:count]
        ends = np.empty((len(names), count + 1), np.int64)
        cells = np.empty(int(np.sum(np.abs(stops) - starts)), np.uint8)
        gather(text, starts, stops, ends, cells)
        for chunk, offsets in zip(chunks, ends, strict=True):
            chunk.append(_texts(offsets, cells))
    return {name: pa.chunked_array(chunk) for name, chunk in zip(names, chunks, strict=True)}


def _texts(offsets: AnyArray, cells: AnyArray) -> pa.Array:
    import pyarrow as pa

    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(cells)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def _header(path: str | PathLike[str]) -> tuple[list[str], int]:
    """Return the names of the columns, and the number of bytes until the first record."""
    lengths: list[int] = []

    def lines(file: BinaryIO) -> Iterator[str]:
        for line in file:
            mark = b"" if lengths else _MARK
            lengths.append(len(line))
            yield line.removeprefix(mark).decode("utf-8", "replace")

    try:
        with open(path, "rb") as file:
            header = next(csv.reader(lines(file)), [])
    except (OSError, csv.Error):
        header = []
    if not header or any("\0" in name for name in header):
        what = "The first line must name the columns, in UTF-8, and lines must end in line feeds"
        raise InvalidDataError(f"{path}: could not be parsed as CSV. {what}")
    return header, sum(lengths)
