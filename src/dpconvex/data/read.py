"""Tables from CSV and Parquet files, and the public data sets that ship with the library.

No error quotes or depends on the content of a well-formed file.
"""

from __future__ import annotations

import functools
import glob
import operator
import os
import re
import stat
from collections.abc import Iterable, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dpconvex import _validate
from dpconvex._arrow import pa, pc, pq, same_types
from dpconvex._files import AnyPath
from dpconvex._types import final_dataclass
from dpconvex.data.csv_file import MOST_UNPACKED, csv_columns, csv_header
from dpconvex.data.draft import MOSTLY
from dpconvex.data.frames import duplicates, numbers, open_table, parse_numbers, require_columns
from dpconvex.data.schema import Schema, require_possible
from dpconvex.errors import InvalidDataError, SchemaError
from dpconvex.problems.data.sources.arrow import OrderedStream

_CELLS = 2**20  # largest number of cells parsed at a time, where columns are short
_ENDS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
_NONE = "__HIVE_DEFAULT_PARTITION__"  # what writers of folders write for a missing value
_POSITION = 8  # number of bytes of the position of a level, or of the end of a text
MOST_RATIO = 1000
"""A Parquet file may declare `MOST_UNPACKED` of cells or this multiple of its own size, whichever is larger."""


def read_table(path: AnyPath, schema: Schema | None = None, *, features_only: bool = False) -> pa.Table:
    """Read a ``.csv`` file (UTF-8, with a header) or a ``.parquet`` file.

    Cells of a CSV file are separated by what its header has most of: commas, semicolons, tabs or bars. Where that is
    the semicolon, numbers may have a decimal comma.

    Parameters
    ----------
    path : path
        The file. CSV files may be compressed (``.csv.gz``); ``-`` is CSV from the standard input; a pattern such as
        ``visits/*.csv`` reads all files that fit it, in the order of their names, one below the other.
    schema : Schema, optional
        Read only the columns that it names. In a CSV file its numeric columns become float64, cells that are no number
        null, and every other column stays text. Without it all columns are read, and a CSV column all of whose
        non-empty cells are numbers (none as 007) becomes float64: a choice read off the data, fit for drafts and public
        tables.
    features_only : bool
        With a schema: leave out target and user, as prediction does.

    Raises
    ------
    InvalidDataError
        When the file is missing, cannot be read, is no well-formed file of its kind, or declares more than
        `MOST_UNPACKED` of cells.
    SchemaError
        When the header lacks a column that the schema names.
    """
    _validate.installed("pyarrow", "numba")
    names = None if schema is None else schema.column_names(features_only)
    read = [_read_parquet(each, names) if _parquet(each) else _read_csv(each, names, schema) for each in _files(path)]
    try:
        return read[0] if len(read) == 1 else pa.concat_tables(read, promote_options="default")
    except pa.ArrowException:
        what = "the files differ in the types or names of their columns"
        remedy = "Convert them" if schema else "Read them with a schema, or convert them"
        raise InvalidDataError(f"{path}: {what}. {remedy}") from None


def open_files(path: AnyPath, schema: Schema) -> Any:
    """Open tables that are larger than memory, for the `fit` of an estimator with this schema. Reads no record.

    The path is a folder (partitioned or not), a pattern such as ``visits/*.parquet``, one file, or an address that
    Arrow knows (``s3://``, ``gs://``) of Parquet files. CSV files must each fit in memory; the schema says which of
    their columns are numbers. `InvalidDataError` where there is no such file, or one of another kind.
    """
    _validate.installed("pyarrow", "numba")
    where = os.fspath(path)
    try:
        system, names = _listed(where)
        kinds = set(map(_kind, names))
        if kinds == {".parquet"}:
            return _folders(system, names)
    except (pa.ArrowException, OSError, ValueError):
        raise InvalidDataError(f"{where}: cannot be opened. Check the path, and that the files are whole") from None
    if kinds and kinds <= {*_ENDS[:-1]} and "://" not in where:
        for name in names:
            _checked_names(name, read_header(name, schema.line_breaks), schema.column_names())
        return CsvFiles(tuple(map(Path, names)), schema)
    what = "must hold .parquet files alone or .csv files (.tsv, .gz)" if names else "must name files, and none is there"
    raise InvalidDataError(f"{where}: {what}. Check the path")


def _listed(where: str) -> tuple[Any, list[str]]:
    """Return a file system and the names of the files that a path means; hidden ones are left out."""
    from pyarrow import fs

    system, root = fs.FileSystem.from_uri(where) if "://" in where else (fs.LocalFileSystem(), "")
    names = []
    for at in [root] if root else map(os.path.abspath, [where] if os.path.exists(where) else glob.glob(where)):
        (own,) = system.get_file_info([at])
        found = [own] if own.is_file else system.get_file_info(fs.FileSelector(at, recursive=True))
        inside = [(each.path, each.path[len(at) :].strip("/").split("/")) for each in found if each.is_file]
        names += [path for path, parts in inside if not any(part.startswith((".", "_")) for part in parts)]
    return system, sorted(name for name in names if root or "." in name.rpartition("/")[2])


def _folders(system: Any, names: list[str]) -> Any:
    """Return Parquet files as one table. In names of folders, as in ``town=Rome``, stand cells, which are texts.

    Readers guess the type of such a column from all names, so one record would decide how all others are read.
    """
    from pyarrow import dataset

    footers = (pq.read_schema(name, filesystem=system) for name in names)
    kinds = {each.name: each.type for each in next(footers)}
    for later in footers if pa.null() in kinds.values() else ():  # a column may be empty in the first files
        kinds |= {each.name: each.type for each in later if kinds.get(each.name) == pa.null()}
    parts = (re.findall("([^/=]+)=([^/]*)/", name) for name in names)
    cells = [{unquote(k): unquote(v, errors="replace") for k, v in each} for each in parts]
    keys = {k: pa.large_string() for each in cells for k in each if k not in kinds}
    known = [{k: v for k, v in each.items() if k in keys and v != _NONE}.items() for each in cells]
    held = [functools.reduce(operator.and_, (pc.field(k) == v for k, v in each), pc.scalar(True)) for each in known]
    options = {"format": dataset.ParquetFileFormat(), "filesystem": system, "partitions": held}
    return dataset.FileSystemDataset.from_paths(names, schema=pa.schema([*kinds.items(), *keys.items()]), **options)


@final_dataclass
class CsvFiles(OrderedStream):
    """CSV files of one schema, read one after the other whenever they are asked for."""

    files: tuple[Path, ...]
    schema: Schema

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        named, numeric = dict.fromkeys(self.schema.column_names()), self.schema.numeric_names
        kinds = pa.schema([(name, pa.float64() if name in numeric else pa.large_string()) for name in named])
        tables = (read_table(file, self.schema).select(kinds.names).cast(kinds) for file in self.files)
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(kinds, batches).__arrow_c_stream__(requested_schema)


def check_table(path: AnyPath, schema: Schema | None = None, folders: bool = True) -> None:
    """Raise what reading files by a schema would raise about their names, headers and types. Reads no record.

    Without `folders`, for engines, columns that stand in names of folders are refused, for engines guess their types,
    and so are CSV files in folders and patterns; what fits alone refuse is left to them.
    """
    places = _files(path)
    if schema is not None and (len(places) > 1 or any(map(os.path.isdir, places))):
        opened = open_files(path, schema)
        if not isinstance(opened, CsvFiles):  # names of folders may be columns
            _checked_names(path, opened.schema.names, schema.column_names())
            same_types(opened, schema.column_names(), folders)
            return _check_types(opened.schema, schema, folders)
        if folders:
            return None  # opening CSV files looks at their headers
        places = opened.files
    if not folders and not all(map(_parquet, places)):
        raise InvalidDataError(f"{path}: engines read Parquet files. Use --engine local, or convert them")
    for each in places:
        header = read_header(each, schema is None or schema.line_breaks)
        _checked_names(each, header, None if schema is None else schema.column_names())
        if schema is not None and _parquet(each):
            _check_types(_parquet_schema(each), schema, folders)


def stated_rows(path: AnyPath) -> int | None:
    """Return how many rows Parquet files say that they hold; None for files that must be read to know."""
    try:
        system, names = _listed(os.fspath(path))
        if not names or set(map(_kind, names)) != {".parquet"}:
            return None
        return sum(pq.read_metadata(name, filesystem=system).num_rows for name in names)
    except (pa.ArrowException, OSError, ValueError):
        return None  # readers say why


def _check_types(types: pa.Schema, schema: Schema, fits: bool) -> None:
    empty = types.empty_table()
    schema.encode(empty)
    require_possible(schema.columns if fits else (), empty)
    if schema.target is not None:
        schema.encode_target(empty)
    if schema.user is not None:
        schema.user_labels(empty)


def read_header(path: AnyPath, line_breaks: bool = True) -> list[str]:
    """Return the names of a file's columns. Reads no record, and raises as `read_table` does."""
    first = _files(path)[0]
    return list(_parquet_schema(first).names) if _parquet(first) else csv_header(first, line_breaks)[0]


def require_numbers(path: AnyPath, names: Iterable[str], remedy: str) -> None:
    """Raise `InvalidDataError` where a file says that one of these columns holds no numbers. Reads no record."""
    first = _files(path)[0]
    if not _parquet(first):
        return
    empty = open_table(_parquet_schema(first).empty_table(), names)
    for name in names:
        try:
            numbers(empty.get_column(name))
        except SchemaError:
            raise InvalidDataError(f"{first}: the column {name!r} holds no numbers. {remedy}") from None


def _files(path: AnyPath) -> list[Any]:
    """Return the files that a path names: itself, or the files that match a pattern, in the order of their names."""
    where = os.fspath(path)
    if not any(sign in where for sign in "*?[") or os.path.exists(where):
        return [path]
    if not (found := sorted(glob.glob(where))):
        raise InvalidDataError(f"{where}: no file fits this pattern. Check the path")
    return found


def _kind(path: AnyPath) -> str | None:
    """Return the known file extension of a name."""
    return next((kind for kind in _ENDS if str(path).lower().endswith(kind)), None)


def _parquet(path: AnyPath) -> bool:
    """Return whether a file is Parquet or CSV, by its name; raise unless it can be opened."""
    if str(path) == "-":
        return False
    kind = _kind(path)
    if os.path.isdir(path):
        what = "is a folder, and a file, or files by a pattern, are needed here"
        ends = sorted(end for each in os.listdir(path) if (end := _kind(each))) or [".parquet"]
        raise InvalidDataError(f"{path}: {what}. Name them, as in '{os.path.join(path, f'*{ends[0]}')}'")
    if kind is None:
        ends = f"{', '.join(_ENDS[:-1])} or {_ENDS[-1]}"
        raise InvalidDataError(f"{path}: the name must end in {ends}. Convert the file, or rename it")
    try:
        mode = os.stat(path).st_mode  # before opening: a pipe would wait for a writer
        if stat.S_ISREG(mode):
            with open(path, "rb"):
                return kind == ".parquet"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise InvalidDataError(f"{path}: cannot be read ({reason}). Check the path") from None
    raise InvalidDataError(f"{path}: must be a regular file, and is a pipe or a device. Write the table to a file")


def _read_csv(path: AnyPath, names: tuple[str, ...] | None, schema: Schema | None) -> pa.Table:
    numeric, line_breaks = (None, True) if schema is None else (schema.numeric_names, schema.line_breaks)
    header, _, comma = csv_header(path, line_breaks)
    columns: dict[str, Any] = dict(csv_columns(path, _checked_names(path, header, names), line_breaks))
    if numeric is None:
        none = pa.scalar(None, pa.large_string())
        columns = {k: pc.if_else(pc.equal(pc.binary_length(v), 0), none, v) for k, v in columns.items()}
    values = _parsed({k: cells for k, cells in columns.items() if numeric is None or k in numeric}, comma == ";")
    if numeric is None:  # a column of numbers and nothing else holds numbers; true, false and 007 stay words
        for k, v in values.items() if comma == ";" else ():  # drafts read what are mostly numbers, with points
            mostly = len(v) - v.null_count >= MOSTLY * (len(v) - columns[k].null_count)
            columns[k] = _with_points(columns[k]) if mostly else columns[k]
        values = {k: v for k, v in values.items() if columns[k].null_count == v.null_count < len(v)}
        broken = {k: pc.match_substring(columns[k], "\n") for k in values}  # line breaks, which a draft must see
        values = {k: v for k, v in values.items() if not pc.any(broken[k]).as_py()}
        words = {k: pc.match_substring_regex(columns[k], r"(?i)^\s*(true|false|0\d\d+)\s*$") for k in values}
        values = {k: v for k, v in values.items() if not pc.any(words[k]).as_py()}
    return pa.table({name: values.get(name, cells) for name, cells in columns.items()})


def _parsed(columns: Mapping[str, Any], decimal: bool) -> dict[str, Any]:
    """Return columns as numbers, with `decimal` commas allowed; many short ones at a time, for each call takes long."""
    names, found = list(columns), dict[str, Any]()
    n = len(columns[names[0]]) if names else 0
    count = max(1, _CELLS // max(1, n))
    for group in (names[k : k + count] for k in range(0, len(names), count)):
        cells = pa.chunked_array([chunk for name in group for chunk in columns[name].chunks], pa.large_string())
        values = parse_numbers(_with_points(cells) if decimal else cells).combine_chunks()
        found |= {name: values.slice(k * n, n) for k, name in enumerate(group)}
    return found


def _with_points(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return numbers with decimal commas, as 12,5 and 1.234,56, in the usual form; other cells unchanged."""
    grouped = pc.match_substring_regex(cells, r"^\s*[-+]?\d{1,3}(\.\d{3})+,\d*\s*$")
    cells = pc.if_else(grouped, pc.replace_substring(cells, ".", ""), cells)
    return pc.replace_substring_regex(cells, "^([^.,]*),([^.,]*)$", "\\1.\\2")


def _read_parquet(path: AnyPath, names: tuple[str, ...] | None) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            names = _checked_names(path, file.schema_arrow.names, names)
            kinds = {name: file.schema_arrow.field(name).type for name in names}
            size, levels = _declared(file.metadata, kinds)
            rows = file.metadata.num_rows
        if not 0 <= size <= max(MOST_UNPACKED, MOST_RATIO * os.path.getsize(path)):
            most = f"{MOST_UNPACKED / 2**30:g} GiB and {MOST_RATIO} times the size of the file"
            remedy = "Read it yourself, and use the Python interface"
            raise InvalidDataError(f"{path}: declares {size / 2**30:.3g} GiB, more than {most}. {remedy}")
        with pq.ParquetFile(path, read_dictionary=levels) as file:
            table = file.read(columns=[name for name in names if _cell_width(kinds[name]) is not None])
        columns: dict[str, Any] = dict.fromkeys(names, pa.nulls(rows, pa.list_(pa.null())))
        return pa.table(columns | dict(zip(table.column_names, table.columns, strict=True)))
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError):
        raise InvalidDataError(f"{path}: could not be parsed as Parquet. Write the file anew") from None


def _cell_width(kind: pa.DataType) -> int | None:
    """Return the bytes of a cell of this type, those of its text left out; None for types that are not read."""
    if pa.types.is_dictionary(kind):
        return None if (inner := _cell_width(kind.value_type)) is None else _POSITION + inner
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return None
    return _POSITION if _is_text(kind) or pa.types.is_null(kind) else max(1, kind.bit_width // 8)


def _is_text(kind: pa.DataType) -> bool:
    """Return whether cells are texts or bytes, of any length."""
    names = ("is_string", "is_large_string", "is_string_view", "is_binary", "is_large_binary", "is_binary_view")
    return any(getattr(pa.types, name)(kind) for name in names)


def _declared(metadata: pq.FileMetaData, kinds: Mapping[str, pa.DataType]) -> tuple[int, list[str]]:
    """Return how many bytes some columns take at most, and which of them can be read as levels."""
    # A file of kilobytes can hold a text of a megabyte and name it in a million cells: texts are read as levels.
    widths = {name: width for name, kind in kinds.items() if (width := _cell_width(kind)) is not None}
    size = metadata.num_rows * sum(widths.values())
    levels = {name for name in widths if _is_text(kinds[name])}
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        for chunk in (group.column(j) for j in range(group.num_columns)):
            if chunk.path_in_schema in widths:
                # A text that is stored as its difference from the one before may be as long as all that is stored.
                times = chunk.num_values if "DELTA_BYTE_ARRAY" in chunk.encodings else 1
                size += chunk.total_uncompressed_size * times
                if any(encoding.startswith("DELTA") for encoding in chunk.encodings):
                    levels.discard(chunk.path_in_schema)
    return size, sorted(levels)


def _parquet_schema(path: AnyPath) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        raise InvalidDataError(f"{path}: could not be parsed as Parquet. Write the file anew") from None


def _checked_names(path: AnyPath, header: list[str], names: tuple[str, ...] | None) -> tuple[str, ...]:
    wanted = tuple(header) if names is None else names
    require_columns(header, wanted, str(path))
    if repeated := [name for name in duplicates(header) if name in wanted]:
        raise InvalidDataError(f"{path} has two columns named {repeated[0]!r}. Rename one")
    return wanted


_ADULT = files("dpconvex.data") / "adult"
_CITIES = files("dpconvex.data") / "cities"


def load_adult() -> pa.Table:
    """Adult census income: 45,222 people, 14 columns and ``income`` (above 50,000 dollars for 24.8 %).

    Notes
    -----
    Barry Becker and Ronny Kohavi, UCI Machine Learning Repository, 1996, doi 10.24432/C5XW20, license CC BY 4.0. The
    changes made are listed in the README beside the file.
    """
    with as_file(_ADULT / "adult.parquet") as path:
        return read_table(path)


def adult_schema() -> Schema:
    """Schema of `load_adult`, from the data set's public documentation: 13 feature columns, 102 encoded features.

    The survey weight ``fnlwgt`` is no feature of a person and is left out.
    """
    return Schema.from_toml_text((_ADULT / "adult.toml").read_text(encoding="utf-8"), "adult.toml")


def load_cities() -> pa.Table:
    """The 34,006 cities with 15,000 people or more: ``country`` (ISO code), ``latitude``, ``longitude`` in degrees.

    Notes
    -----
    GeoNames, https://www.geonames.org, license CC BY 4.0. The changes made are listed in the README beside the file.
    """
    with as_file(_CITIES / "cities.parquet") as path:
        return read_table(path)
