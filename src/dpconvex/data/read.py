"""Tables from CSV and Parquet files. No error quotes or depends on the content of a well-formed file."""

from __future__ import annotations

import csv
import os
import stat
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpconvex.data.frames import duplicates, parse_numbers, require_columns
from dpconvex.data.schema import Schema
from dpconvex.errors import InvalidDataError

if TYPE_CHECKING:
    import pyarrow as pa


MOST_BYTES, MOST_RATIO = 2**32, 1000
"""A Parquet file may declare so many bytes of cells, or so many times its own size; the larger of both."""

LONGEST_LINE = 2**31 - 1
"""Bytes of the longest record of a CSV file that is read."""


def read_table(path: str | PathLike[str], schema: Schema | None = None, *, features_only: bool = False) -> pa.Table:
    """Read a ``.csv`` file (comma-separated, UTF-8, with a header) or a ``.parquet`` file.

    Parameters
    ----------
    path : path
        The file.
    schema : Schema, optional
        Read only the columns that it names. In a CSV file its numeric columns become float64, cells that are no
        number null, and every other column stays text. Without it all columns are read, and a CSV column all of
        whose non-empty cells are numbers becomes float64: a choice read off the data, fit for drafts and public
        tables.
    features_only : bool
        With a schema: leave out target and user, as prediction does.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    InvalidDataError
        When the file is missing, cannot be read, is no well-formed file of its kind, or declares more than
        `MOST_BYTES` of cells.
    SchemaError
        When the header lacks a column that the schema names.
    """
    reader = _read_parquet if _parquet(path) else _read_csv
    names = None if schema is None else schema.column_names(features_only)
    return reader(path, names, None if schema is None else schema.numeric_names)


def check_table(path: str | PathLike[str], schema: Schema | None = None) -> None:
    """Raise what `read_table` would raise about a file's name, place and header. Reads no record.

    Raises
    ------
    InvalidDataError, SchemaError
        As `read_table`.
    """
    _checked_names(path, read_header(path), None if schema is None else schema.column_names())


def read_header(path: str | PathLike[str]) -> list[str]:
    """Return the names of a file's columns. Reads no record.

    Raises
    ------
    InvalidDataError
        As `read_table`.
    """
    return _parquet_header(path) if _parquet(path) else _csv_header(path)


def _parquet(path: str | PathLike[str]) -> bool:
    """Return whether it is a Parquet or a CSV file, by its name; raise unless it can be opened."""
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise InvalidDataError(f"{path}: the name must end in .csv or .parquet. Convert the file, or rename it")
    try:
        mode = os.stat(path).st_mode  # before opening: a pipe would wait for a writer
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            with open(path, "rb"):
                return kind == ".parquet"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise InvalidDataError(f"{path}: cannot be read ({reason}). Check the path") from None
    raise InvalidDataError(f"{path}: must be a regular file, and is a pipe or a device. Write the table to a file")


def _read_csv(path: str | PathLike[str], names: tuple[str, ...] | None, numeric: frozenset[str] | None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    header = _csv_header(path)
    names = _checked_names(path, header, names)
    options = pacsv.ConvertOptions(
        include_columns=list(names),
        column_types=dict.fromkeys(names, pa.string()),
        check_utf8=False,  # a cell that is no valid text matches no category; it must not stop the reading
        strings_can_be_null=numeric is None,
        null_values=[""],
    )
    # An empty line of a table with one column is a record whose cell is empty: left out, it would change the size.
    parsing = pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(header) > 1)
    table = None
    for size in (0, LONGEST_LINE):  # a line longer than the usual block is read at the second attempt
        reading = pacsv.ReadOptions(block_size=min(os.path.getsize(path) + 1, size) if size else None)
        try:
            table = pacsv.read_csv(path, reading, parsing, options)
            break
        except (pa.ArrowException, OSError, KeyError):
            continue
    if table is None:
        raise InvalidDataError(  # pyarrow's own message quotes cells
            f"{path}: could not be parsed as CSV. Every line needs {len(header)} comma-separated cells, like the header"
        )
    columns = []
    for name in names:
        cells: Any = table.column(name)
        values = parse_numbers(cells) if numeric is None or name in numeric else None
        # Without a schema: a column of numbers is one with numbers and nothing else.
        if values is not None and (numeric is not None or cells.null_count == values.null_count < len(cells)):
            cells = values
        columns.append(cells)
    return pa.table(columns, list(names))


def _read_parquet(path: str | PathLike[str], names: tuple[str, ...] | None, numeric: frozenset[str] | None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = _checked_names(path, file.schema_arrow.names, names)
            meta = file.metadata
            groups = (meta.row_group(k).total_byte_size for k in range(meta.num_row_groups))
            size = max(8 * meta.num_rows * len(names), sum(groups))
            if not 0 <= size <= max(MOST_BYTES, MOST_RATIO * os.path.getsize(path)):
                raise InvalidDataError(
                    f"{path}: declares {size / 2**30:.3g} GiB, more than {MOST_BYTES / 2**30:g} GiB and {MOST_RATIO} "
                    "times the size of the file. Read it yourself, and use the Python interface"
                )
            return file.read(columns=list(names))
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InvalidDataError(f"{path}: could not be parsed as Parquet. Write the file anew") from None


def _parquet_header(path: str | PathLike[str]) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InvalidDataError(f"{path}: could not be parsed as Parquet. Write the file anew") from None


def _csv_header(path: str | PathLike[str]) -> list[str]:
    try:
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            header = next(csv.reader(file), [])
    except (OSError, csv.Error):
        header = []
    if not header:
        raise InvalidDataError(f"{path}: could not be parsed as CSV. The first line must name the columns")
    return header


def _checked_names(path: str | PathLike[str], header: list[str], names: tuple[str, ...] | None) -> tuple[str, ...]:
    wanted = tuple(header) if names is None else names
    require_columns(header, wanted, str(path))
    repeated = [name for name in duplicates(header) if name in wanted]
    if repeated:
        raise InvalidDataError(f"{path} has two columns named {repeated[0]!r}. Rename one")
    return wanted
