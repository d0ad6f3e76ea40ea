"""Tables from CSV and Parquet files. No error quotes or depends on the content of a well-formed file."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpconvex.data.frames import duplicates, parse_numbers, require_columns
from dpconvex.data.schema import Schema
from dpconvex.errors import InvalidDataError

if TYPE_CHECKING:
    import pyarrow as pa


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
        When the file is missing, cannot be read, or is no well-formed file of its kind.
    SchemaError
        When the header lacks a column that the schema names.
    """
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    reader = readers.get(Path(path).suffix.lower())
    if reader is None:
        raise InvalidDataError(f"{path}: the name must end in .csv or .parquet. Convert the file, or rename it")
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InvalidDataError(f"{path}: cannot be read ({error.strerror}). Check the path") from None
    names = None if schema is None else schema.column_names(features_only)
    return reader(path, names, None if schema is None else schema.numeric_names)


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
    try:
        parsing = pacsv.ParseOptions(newlines_in_values=True)
        table = pacsv.read_csv(path, parse_options=parsing, convert_options=options)
    except (pa.ArrowException, OSError, KeyError):
        raise InvalidDataError(  # pyarrow's own message quotes cells
            f"{path}: could not be parsed as CSV. Every line needs {len(header)} comma-separated cells, like the header"
        ) from None
    for position, name in enumerate(names):
        cells: Any = table.column(name)
        values = parse_numbers(cells) if numeric is None or name in numeric else None
        # Without a schema: a column of numbers is one with numbers and nothing else.
        if values is not None and (numeric is not None or cells.null_count == values.null_count < len(cells)):
            table = table.set_column(position, name, values)
    return table


def _read_parquet(path: str | PathLike[str], names: tuple[str, ...] | None, numeric: frozenset[str] | None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = _checked_names(path, file.schema_arrow.names, names)
            return file.read(columns=list(names))
    except (pa.ArrowException, OSError):
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
