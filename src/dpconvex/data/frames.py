"""Columns of any table that narwhals reads, as numbers or as category codes.

Two rules hold for everything here. Errors come from public facts only: the header and the column types. And each
record is read by itself: how a cell is read never depends on another cell, or one record could change the others.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from narwhals.typing import IntoDataFrame

from dpconvex._arrow import pa, pc, takeable
from dpconvex._types import Array, Floats, IntArray
from dpconvex.errors import InvalidDataError, SchemaError

Frame = nw.DataFrame[Any]
Series = nw.Series[Any]
MOST, LONGEST = 40, 100  #: Largest number of names in a message, and of characters shown of each name
#: Attributes of which arrays, columns and tables have one at least.
TYPED = ("__array__", "__array_interface__", "__dataframe__", "__arrow_c_stream__", "dtype", "columns", "shape")
#: Lists, and sequences whose elements have one known type.
PLAIN: tuple[Any, ...] = (list, tuple, str, bytes, bytearray, memoryview, array, range)
NUMBER = r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf|infinity)$"


def typed(values: Any) -> Any:
    """Return a typed pandas or arrow object as the column or table that narwhals reads, and any sequence as a list.

    Whatever else it is stays as it is. Types follow from types alone: pandas and NumPy would infer them from cells.
    """
    if _of_cells(type(values)):  # a deque, say
        return list(values)
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidDataError("a masked array is given, and masks are not read. Fill it, as X.filled(np.nan) does")
    values = nw.to_native(values, pass_through=True)
    # NumPy would turn a pandas array with a missing cell into objects, and an array without into numbers.
    pandas, arrow = nw.dependencies.get_pandas(), nw.dependencies.get_pyarrow()
    if pandas is not None and isinstance(values, pandas.Index | pandas.api.extensions.ExtensionArray):
        return pandas.Series(values, dtype=object if str(values.dtype) == "object" else None)
    if arrow is not None and isinstance(values, arrow.Array):
        values = arrow.chunked_array([values])
    if arrow is not None and isinstance(values, arrow.RecordBatch):
        values = arrow.Table.from_batches([values])
    names = values.columns if pandas is not None and isinstance(values, pandas.DataFrame) else ()
    names = values.column_names if arrow is not None and isinstance(values, arrow.Table) else names
    if repeated := duplicates(names):
        raise InvalidDataError(f"the table has two columns named {repeated[0]!r}. Rename one")
    return takeable(values)


def _of_cells(kind: type) -> bool:
    """Return whether values of that type are rows of cells alone, whose type NumPy would infer from the cells."""
    rows = hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and not issubclass(kind, (*PLAIN, Mapping))
    return rows and (issubclass(kind, Sequence) or not any(hasattr(kind, name) for name in TYPED))


def open_table(table: IntoDataFrame, needed: Iterable[str] = ()) -> Frame:
    """Return `table` as an eager narwhals frame; raise `SchemaError` where it lacks a `needed` column."""
    try:
        frame = nw.from_native(typed(table), eager_only=True)
    except TypeError:
        what = f"a table in memory is needed (pandas, polars or pyarrow), not {type(table).__name__}"
        remedy = "Collect a lazy frame first; an array needs norm bounds instead of a schema"
        raise InvalidDataError(f"{what}. {remedy}") from None
    except DuplicateError:
        raise InvalidDataError("the table has two columns of one name. Rename one") from None
    require_columns(frame.columns, needed, "the table")
    return frame


def duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in order."""
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]


def require_columns(present: Iterable[str], needed: Iterable[str], where: str) -> None:
    """Raise `SchemaError` when the header `present` lacks a `needed` name."""
    header = dict.fromkeys(present := list(present))
    if missing := [name for name in needed if name not in header]:
        what = "column {}, which is" if len(missing) == 1 else "columns {}, which are"
        what = f"{where} has no {what.format(_shown(missing))} needed"
        foreign = ". It is not UTF-8: convert it, as with iconv -f cp1252 -t utf-8" * ("\ufffd" in str(list(header)))
        twice = f", {_shown(repeated)} more than once" if (repeated := duplicates(present)) else ""
        raise SchemaError(f"{what}. Its columns are {_shown(list(header)) or 'none'}{twice}{foreign}")


def _shown(names: Sequence[str]) -> str:
    """Return the first `MOST` names as a text, each cut to `LONGEST`: a table may have any number of columns."""
    words = [text if len(text := repr(name)) <= LONGEST else text[:LONGEST] + "..." for name in names[:MOST]]
    return ", ".join(words) + (f" and {len(names) - MOST:,} more" if len(names) > MOST else "")


def numbers(series: Series, texts: bool = False) -> Floats:
    """Return a column as float64, (n,), NaN for missing values; with `texts`, text columns are read cell by cell."""
    # A single cell may turn a column into text, so the type of a column may depend on one cell.
    values, positions = _levels(series)
    if not is_float(values) and texts:
        values = parse_numbers(values)
    if not is_float(values):
        what = f"column {series.name!r} has type {type_name(series)}, but the schema declares a number"
        raise SchemaError(f"{what}. Convert the column to a numeric type, or declare categories")
    return taken(with_nan(values), positions, np.nan)


def number_table(table: IntoDataFrame, names: Sequence[str]) -> "pa.Table":
    """Return the named columns as numbers, read cell by cell: cells that are no number are missing, for any type."""
    frame = open_table(table, names)
    return pa.table({name: numbers(frame.get_column(name), texts=True) for name in names})


def codes(series: Series, categories: Sequence[str], closed: bool = False) -> IntArray:
    """Return the position of each cell's category, (n,); -1 for missing values and values not listed.

    With `closed` the column's type must agree with the list (`refuse_impossible`): for columns whose unlisted values
    would be taken for a listed one.

    A cell matches the category with the same text, blanks around it left out. Failing that, it matches the first
    category that reads as the same number, ``true`` and ``false`` reading as 1 and 0: so 1, 1.0, "1" and "1.0" agree
    in every file format.
    """
    if closed:
        refuse_impossible(series, categories)
    values, positions = _levels(series)
    listed = pa.array(categories, pa.large_string())
    listed_numbers = with_nan(parse_numbers(listed))
    if is_float(values):
        return taken(_nearest_equal(with_nan(values), listed_numbers), positions, -1)
    found = np.asarray(pc.index_in(values, value_set=listed).fill_null(-1), dtype=np.int64)
    if not np.isnan(listed_numbers).all():
        found = np.where(found >= 0, found, _nearest_equal(with_nan(parse_numbers(values)), listed_numbers))
    return taken(found, positions, -1)


def renamed(series: Series, listed: tuple[str, ...], aliases: Mapping[str, str]) -> Series:
    """Return the column with every alias replaced by the value that it means; other unlisted cells are missing."""
    if not aliases:
        return series
    positions = codes(series, (*listed, *aliases))
    found = pa.array((*listed, *aliases.values()), pa.large_string()).take(pa.array(positions, mask=positions < 0))
    return nw.from_native(pa.chunked_array([found]), series_only=True)


def refuse_impossible(series: Series, categories: Sequence[str], every: bool = False) -> None:
    """Raise `SchemaError` where the type alone says that a value or a category (`every`: each) is misspelled."""
    # Values of Boolean and Enum types must be listed, and numbers need numeric categories; other levels are content.
    kind = kind_of(series)
    declared: list[str] = ["false", "true"] if kind == "boolean" else []
    if series.implementation.is_polars() and isinstance(series.dtype, nw.Enum):
        declared = [*series.dtype.categories]
    unlisted = [value for value, k in zip(declared, codes(texts_series(declared), categories), strict=True) if k < 0]
    numeric = with_nan(parse_numbers(object_texts(np.array(categories, dtype=object))))
    texts = [text for text, value in zip(categories, numeric, strict=True) if kind == "number" and np.isnan(value)]
    if not unlisted and not texts:
        return
    what = f"whose value {_shown(unlisted)} is not listed" if unlisted else f"which cannot hold {_shown(texts)}"
    if every:
        if len(unlisted) < len(declared) or 0 < len(texts) < len(categories):
            return
        what = f"and can hold none of the listed values {_shown(categories)}"
    values = "its values, or aliases for them," if every else "its values"
    remedy = f"List {values} as they are written in the table, or convert the column"
    raise SchemaError(f"column {series.name!r} has type {type_name(series)}, {what}. {remedy}")


def texts_series(values: Array | Sequence[str]) -> Series:
    """Return the texts of an array of Python objects, (n,), as a column; no object raises."""
    return nw.from_native(pa.chunked_array([object_texts(np.asarray(values, dtype=object))]), series_only=True)


def number_series(values: Floats) -> Series:
    """Return numbers (n,) as a column."""
    return nw.new_series("", values, backend="pyarrow")


def label_codes(series: Series) -> IntArray:
    """Return a number for each cell's label, (n,), the same for equal labels; -1 for missing cells and empty texts."""
    return _label_codes(series)[1]


def distinct_labels(series: Series) -> tuple[list[Any], IntArray]:
    """Return the labels that occur, with texts as bytes and times as integers, and positions as `label_codes` does."""
    found, codes = _label_codes(series)
    if found is not None and (pa.types.is_string(found.type) or pa.types.is_large_string(found.type)):
        found = found.cast(pa.large_binary())
    elif found is not None and pa.types.is_temporal(found.type):
        found = found.view(pa.int32() if found.type.bit_width == 32 else pa.int64())
    return [] if found is None else found.to_pylist(), codes


def _label_codes(series: Series) -> tuple[Any, IntArray]:
    """Return the labels that occur as an arrow array (None: no cells), and the position of each cell's label, (n,)."""
    # Labels never become numbers or texts of fixed width, or one cell would change how others are read.
    values, positions = _split(_arrow(series, whole))
    if pa.types.is_floating(values.type):
        values = pc.add(values.cast(pa.float64()), 0.0)  # -0 becomes 0, which is the same label
    try:
        encoded = values.dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise _unsupported(series) from None
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    found = np.concatenate([np.zeros(0, np.int64), *(chunk.indices.fill_null(-1) for chunk in chunks)])
    missing = np.asarray(pc.is_null(values, nan_is_null=True))
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        missing = missing | np.asarray(pc.equal(pc.binary_length(values), 0).fill_null(True))
    labels = chunks[0].dictionary if chunks else None  # all chunks have the same dictionary
    return labels, taken(np.where(missing, -1, found), positions, -1)


def distinct_values(series: Series) -> Any:
    """Return a column's distinct values, as ``double`` or trimmed ``large_string``, with null if a cell is missing."""
    values, positions = _levels(series)
    return pc.unique(values if positions is None else values.take(pa.array(positions, mask=positions < 0)))


def _levels(series: Series) -> tuple[Any, Array | None]:
    """Return a column's levels, arrow ``double`` or trimmed ``large_string``, and each cell's, (n,), -1 for none."""
    # Without positions (None) each cell is its own level. Long levels are never repeated per cell, to save memory.
    kind = kind_of(series)
    values, positions = _split(_arrow(series))
    if kind == "text":
        return pc.ascii_trim_whitespace(values.cast(pa.large_string())), positions
    return values.cast(pa.float64(), safe=False), positions


def dates_or_texts(series: Series, clock: bool = False) -> tuple[Any, Array | None]:
    """Return `_levels` as trimmed texts; for date types as days since 1970, with `clock` as hours of the day."""
    kind, types = _split(_arrow(series.head(0)))[0].type, pa.types
    if types.is_integer(kind) or types.is_boolean(kind):
        raise SchemaError(f"column {series.name!r} has type {type_name(series)}, which is no date or time. Convert it")
    if types.is_timestamp(kind) or (types.is_time(kind) if clock else types.is_date(kind)):
        if zone := getattr(kind, "tz", None):
            try:
                pa.array([0], kind).cast(pa.date32(), safe=False)
            except pa.ArrowException:
                what = f"column {series.name!r} has times in {zone!r}, a zone that this machine does not know"
                raise SchemaError(f"{what}. Install tzdata, or write them in UTC") from None
        values, positions = _split(_arrow(series))
        if clock:
            seconds = pc.add(pc.multiply(pc.minute(values), 60), pc.second(values))
            return pc.add(pc.hour(values).cast(pa.float64()), pc.divide(seconds.cast(pa.float64()), 3600.0)), positions
        values = values.cast(pa.timestamp("s", getattr(kind, "tz", None)), safe=False)
        return values.cast(pa.date32(), safe=False).cast(pa.int32()), positions
    values, positions = _levels(series)
    if is_float(values):  # numbers are no dates
        values = pa.chunked_array([pa.nulls(len(values), pa.large_string())])
    return values, positions


def kind_of(series: Series) -> Literal["text", "number", "boolean", "nothing"]:
    """Return the kind of the column from its type alone, without reading a cell. Objects count as text."""
    kind, types = _arrow(series if series.implementation.is_pyarrow() else series.head(0)).type, pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_null(kind):
        return "nothing"
    raise _unsupported(series)


def _split(values: Any) -> tuple[Any, Array | None]:
    """Return an arrow array's dictionary and each cell's level in it, (n,), -1 for none; or all values, and None."""
    if not pa.types.is_dictionary(values.type):
        return values, None
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    levels = [chunk.dictionary for chunk in chunks]  # not unified: results depend on each level alone
    starts = np.cumsum([0, *map(len, levels)])
    positions = [
        np.where(np.asarray(chunk.is_null()), -1, np.asarray(chunk.indices.cast(pa.int64()).fill_null(0)) + start)
        for chunk, start in zip(chunks, starts[:-1], strict=True)
    ]
    return pa.chunked_array(levels, values.type.value_type), np.concatenate([np.zeros(0, np.int64), *positions])


def taken(found: Array, positions: Array | None, missing: float) -> Array:
    """Return the values found for levels, expanded to one value for each cell."""
    return found if positions is None else np.append(found, found.dtype.type(missing))[positions]


def parse_numbers(texts: Any) -> Any:
    """Read an arrow text array as ``double``, cell by cell; true and false are 1 and 0, texts without number null."""
    cells = pc.ascii_lower(pc.ascii_trim_whitespace(texts.cast(pa.large_string())))
    for word, digit in (("true", "1"), ("false", "0")):
        cells = pc.if_else(pc.equal(cells, word), digit, cells)
    # The pattern decides what is a number, as a cast fails for a whole column because of one cell.
    is_number = pc.match_substring_regex(cells, NUMBER)
    return pc.if_else(is_number, cells, pa.scalar(None, pa.large_string())).cast(pa.float64())


def _arrow(series: Series, read: Callable[[Any], Any] | None = None) -> Any:
    """Return the column as an arrow array; Python objects and pandas levels, perhaps `read` first, as their text."""
    if series.implementation.is_pandas_like():
        native: Any = series.to_native()
        if native.dtype == "object":
            return object_texts(native.to_numpy(), read)
        if native.dtype == "category":
            positions = native.cat.codes.to_numpy()
            # Even the levels' type may depend on a cell, so they are the objects that a column of objects would hold.
            levels = object_texts(native.cat.categories.astype(object).to_numpy(), read)
            return pa.DictionaryArray.from_arrays(pa.array(positions, mask=positions < 0), levels)
        if native.dtype == np.longdouble:  # a type unknown to arrow
            with np.errstate(all="ignore"):
                return pa.array(native.to_numpy().astype(np.float64))
    if series.implementation.is_pyarrow():
        return series.to_native()  # to_arrow joins the chunks, which fails where their dictionaries differ
    if series.dtype == nw.Object:
        return object_texts(series.to_numpy(), read)
    try:
        return series.to_arrow()
    except UnicodeError:  # text that is no valid Unicode, in a column that pandas keeps as Python strings
        return object_texts(series.to_numpy(), read)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        raise _unsupported(series) from None


def object_texts(values: Array, read: Callable[[Any], Any] | None = None) -> "pa.Array":
    """Return the text of each Python object, perhaps `read` first; null for missing ones and those without a text."""
    with np.errstate(all="ignore"):  # a NaN among the cells must not warn
        cells = np.asarray(values, dtype=object)
        found = np.frompyfunc(_text, 1, 1)(cells if read is None else np.frompyfunc(read, 1, 1)(cells))
    return pa.array(found, pa.large_string())


def whole(cell: Any) -> Any:
    """Return whole numbers of any type as int, and decimals as float, since labels are compared by their text."""
    try:
        if isinstance(cell, Decimal):  # int(1e999999) would have as many digits
            return float(cell) if cell.adjusted() > 999 or cell != int(cell) else int(cell)
        integral = isinstance(cell, np.bool_) or (isinstance(cell, Real) and cell % 1 == 0)
        return int(cell) if integral and not isinstance(cell, np.timedelta64) else cell  # pyright: ignore
    except Exception:  # any cell is legal
        return cell


def _text(value: Any) -> str | None:
    try:
        if value is None or value != value:
            return None
        text = str.__str__(str(value))  # a subclass of str may have no hash
        text.encode()
        return text
    except Exception:  # any cell is legal: what cannot be compared, or written as Unicode, is missing
        return None


def _unsupported(series: Series) -> SchemaError:
    what = f"column {series.name!r} has type {type_name(series)}, which is neither text, category, number nor boolean"
    return SchemaError(f"{what}. Convert it, or leave it out of the schema")


def type_name(series: Series) -> str:
    """Return the column's type for messages; narwhals' name for a pandas object column would depend on its cells."""
    if series.implementation.is_pandas_like():
        return str(series.to_native().dtype)
    return "Enum" if isinstance(series.dtype, nw.Enum) else str(series.dtype)  # without its categories


def is_float(values: Any) -> bool:
    """Whether an arrow array holds numbers (else text)."""
    return pa.types.is_float64(values.type)


def with_nan(values: Any) -> Floats:
    """Return Arrow numbers as float64, null as NaN; possibly a read-only view."""
    return np.asarray(values.fill_null(np.nan) if values.null_count else values, dtype=np.float64)


def _nearest_equal(values: Floats, listed: Floats) -> IntArray:
    """Return each value's first position in `listed`, -1 where there is none. NaN equals nothing."""
    order = np.argsort(listed, kind="stable")
    places = np.minimum(np.searchsorted(listed[order], values), len(listed) - 1)
    return np.where(listed[order][places] == values, order[places], -1)
