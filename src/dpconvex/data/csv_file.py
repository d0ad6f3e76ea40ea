"""CSV files as columns of text. Any content is read, and hardly any content changes how other records are read.

A reader that refuses malformed lines, or lets an open quote swallow what follows, makes exit code and number of records
depend on one cell. Here the lines are the structure (docs, Threat model, CSV files: the rules, why others stay as they
are, and what a table whose cells hold line breaks must assume).

The separator is the one of comma, semicolon, tab and bar that the header has most of outside of quotes: the header is
public. So is whether it ends in a carriage return alone: then these are line feeds, in all of the file. Files may be
compressed (``.gz``), and ``-`` is the standard input.
"""

import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, BinaryIO, TextIO

import numpy as np

from dpconvex._arrow import pa
from dpconvex._files import AnyPath
from dpconvex._types import Array
from dpconvex.errors import InvalidDataError

_MARK = b"\xef\xbb\xbf"  # the byte-order mark before the header
SEPARATORS = ",;\t|"
MOST_UNPACKED = 2**32  #: Largest size of an unpacked compressed file, and of the standard input.
_HEAD = 2**16  # bytes in which the first line ends, but for very long ones
_CELLS, _ROWS = 2**16, 64  # cells located at a time, which fit a cache, but at least this number of rows


def csv_columns(path: AnyPath, names: tuple[str, ...], line_breaks: bool = True) -> "dict[str, pa.ChunkedArray]":
    """Return columns of a CSV file as text that may be no valid Unicode, ``large_string`` (n,) each."""
    from dpconvex.data._csv_loops import gather, locate

    header, place, comma = csv_header(path, line_breaks)
    text = _bytes(path)
    positions = {name: k for k, name in enumerate(names)}
    slots = np.array([positions.get(name, -1) for name in header])
    rows = max(_ROWS, _CELLS // max(1, len(names)))
    chunks: list[list[pa.Array]] = [[pa.array([], pa.large_string())] for _ in names]
    while place < len(text):
        starts, stops = np.empty((2, rows, len(names)), np.int64)
        count, place = locate(text, place, slots, starts, stops, ord(comma), line_breaks)
        starts, stops = starts[:count], stops[:count]
        ends = np.empty((len(names), count + 1), np.int64)
        cells = np.empty(int(np.sum(np.abs(stops) - starts)), np.uint8)
        gather(text, starts, stops, ends, cells)
        for chunk, offsets in zip(chunks, ends, strict=True):
            # Text of its own: some versions of pyarrow, up to 23, misread columns that begin within a buffer.
            buffers = [None, pa.py_buffer(offsets - offsets[0]), pa.py_buffer(cells[offsets[0] : offsets[-1]])]
            chunk.append(pa.Array.from_buffers(pa.large_string(), count, buffers))
    return {name: pa.chunked_array(chunk) for name, chunk in zip(names, chunks, strict=True)}


def packed(path: AnyPath) -> bool:
    """Return whether a file is compressed, by its name."""
    return str(path).lower().endswith(".gz")


@lru_cache(1)
def _standard_input(stream: TextIO) -> bytes:
    return stream.buffer.read(MOST_UNPACKED)


def _open(path: AnyPath) -> BinaryIO:
    """Open a file; if its first line ends in a carriage return alone, as old spreadsheets write, with line feeds."""
    unpacked: Any = gzip.open if packed(path) else open
    file: Any = io.BytesIO(_standard_input(sys.stdin)) if str(path) == "-" else unpacked(path, "rb")
    first, feed, _ = file.read(_HEAD).partition(b"\n")  # of a file of line feeds the header alone is looked at
    file.seek(0)
    bare = re.sub(rb'"[^"]*"', b"", first)
    if b"\r" not in (bare.rstrip(b"\r") if feed else bare):
        return file
    with file:
        return io.BytesIO(file.read(MOST_UNPACKED + 1).replace(b"\r", b"\n"))


def _bytes(path: AnyPath) -> Array:
    try:
        with _open(path) as file:
            if isinstance(file, io.BufferedReader):
                return np.fromfile(path, np.uint8)
            found = file.read(MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error):
        raise InvalidDataError(f"{path}: could not be unpacked. Write the file anew") from None
    if len(found) > MOST_UNPACKED:
        raise InvalidDataError(f"{path}: holds more than {MOST_UNPACKED / 2**30:g} GiB unpacked. Split the file")
    return np.frombuffer(found, np.uint8)


def csv_header(path: AnyPath, line_breaks: bool = True) -> tuple[list[str], int, str]:
    """Return names of columns, the number of bytes until the first record, and the separator. Reads no record.

    Without `line_breaks` the first line is the header, whatever its quotes; else names may hold line breaks.
    """
    lengths: list[int] = []

    def lines(file: BinaryIO) -> Iterator[str]:
        while line := file.readline():
            mark = b"" if lengths else _MARK
            lengths.append(len(line))
            yield line.removeprefix(mark).decode("utf-8", "replace")

    comma, header, empty = ",", list[str](), False
    try:
        with _open(path) as file:
            bare = re.sub(r'"[^"]*"', "", next(lines(file), ""))
            comma, empty = max(SEPARATORS, key=bare.count), not lengths  # the first of equals: the comma
        lengths.clear()
        with _open(path) as file:
            first = lines(file) if line_breaks else islice(lines(file), 1)
            header = next(csv.reader(first, delimiter=comma), [])
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InvalidDataError(f"{path}: could not be unpacked. Write the file anew") from None
    except (OSError, csv.Error):
        header = []
    if not header or any("\0" in name for name in header):
        utf16 = "seems to be UTF-16. Convert it, as with iconv -f utf-16 -t utf-8"
        what = "could not be parsed as CSV, as it is empty" if empty else "could not be parsed as CSV"
        remedy = "The first line must name the columns, in UTF-8"
        raise InvalidDataError(f"{path}: {utf16 if header else f'{what}. {remedy}'}")
    return header, sum(lengths), comma
