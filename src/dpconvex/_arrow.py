"""PyArrow, which is an extra: its modules, each imported when it is first used."""

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from dpconvex._validate import Later
from dpconvex.errors import InvalidDataError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv as pacsv, parquet as pq
else:
    pa, pacsv, pq = map(Later, ("pyarrow", "pyarrow.csv", "pyarrow.parquet"))

pc: Any = Later("pyarrow.compute")  # type checkers do not see its functions, most of which are made on import


def takeable(values: Any) -> Any:
    """Return a table or column in types of which rows can be taken: no text views, no short indices; others unchanged.

    Arrow joins the dictionaries of chunks when rows are taken, and indices of 8 bits cannot count all of their values.
    """
    arrow, pandas = map(sys.modules.get, ("pyarrow", "pandas"))
    if arrow is None:
        return values
    if isinstance(values, pa.Table):
        return pa.table(list(map(takeable, values.columns)), names=values.column_names)
    if isinstance(values, pa.ChunkedArray):
        return values if (kind := _usual(values.type)) == values.type else values.cast(kind)
    if pandas is not None and isinstance(values, pandas.Series) and isinstance(values.dtype, pandas.ArrowDtype):
        kind = values.dtype.pyarrow_dtype
        if kind == _usual(kind):
            return values
        cells = pa.chunked_array(values.array.__arrow_array__()).cast(_usual(kind))  # pandas cannot cast all types
        return pandas.Series(pandas.arrays.ArrowExtensionArray(cells), values.index, name=values.name)
    if pandas is not None and isinstance(values, pandas.DataFrame):
        kinds = [kind.pyarrow_dtype for kind in values.dtypes if isinstance(kind, pandas.ArrowDtype)]
        return values.apply(takeable) if any(kind != _usual(kind) for kind in kinds) else values
    return values


def same_types(data: Any, columns: Collection[str], folders: bool = True) -> None:
    """Raise where a file of an Arrow data set lacks one of these columns, or gives it another type: casts may fail.

    Names of folders are cells, and a type other than text was guessed from them. Without `folders` they hold no column.
    """
    # Whether casts fail depends on cells, but for texts of another form. All of this stands in the files' footers.
    first: set[str] = set()
    try:
        for part in data.get_fragments():  # of unions of unions, too
            if getattr(getattr(part, "format", None), "default_extname", "") in ("csv", "json"):
                what = "X is a data set of text files: Arrow guesses types from cells, and fails at a malformed line"
                raise InvalidDataError(f"{what}. Open it with dpconvex.data.open_files")
            found = {each.name: each.type for each in part.physical_schema}
            first = first or set(found) & set(columns)
            for name in first:
                usual, own = data.schema.field(name).type, found.get(name)
                if own is None:
                    raise InvalidDataError(f"a file has no column {name!r}, as others have. Write it to all of them")
                own = own.value_type if own != usual and pa.types.is_dictionary(own) else own
                if own != pa.null() and _plain(own) != _plain(usual):
                    what = f"the files give the column {name!r} the types {usual} and {own}"
                    remedy = "Write them with the same types: whole numbers as floats, for example"
                    raise InvalidDataError(f"{what}. {remedy}")
        for name in set(columns) & set(data.schema.names) - first:
            if not folders or _plain(data.schema.field(name).type) != pa.large_string():
                what = f"names of folders hold the column {name!r}, whose type is guessed from them"
                raise InvalidDataError(f"{what}. Use dpconvex.data.open_files, or --engine local")
    except InvalidDataError:
        raise
    except (ValueError, OSError):  # among them Arrow's own
        what = "a file cannot be opened, or the data set is filtered, so that types of files cannot be compared"
        raise InvalidDataError(f"{what}. Check that files are whole; filter with polars.scan_parquet") from None


def _plain(kind: "pa.DataType") -> "pa.DataType":
    kind = _usual(kind)
    return pa.large_string() if pa.types.is_string(kind) else pa.large_binary() if pa.types.is_binary(kind) else kind


def _usual(kind: "pa.DataType") -> "pa.DataType":
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), _usual(kind.value_type))
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


__all__ = ["pa", "pacsv", "pc", "pq", "same_types", "takeable"]
