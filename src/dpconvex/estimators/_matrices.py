"""Conversion of users' features, labels and groups to arrays: read cell by cell, refused from public facts alone."""

import decimal
import numbers
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse
from sklearn.utils.validation import column_or_1d, validate_data

from dpconvex import _validate
from dpconvex._types import Array, Floats
from dpconvex.data import frames
from dpconvex.errors import InvalidDataError, SchemaError


def learned_matrix(model: Any, X: Any, *, reset: bool, sparse: bool = False) -> Any:
    """Return `X` as `numeric_matrix` does; scikit-learn's `model` learns or checks the columns' names and number."""
    empty = not model._relation.fixes_size  # then the number of records is private, even whether there is any
    matrix, table = numeric_matrix(X, empty=empty), frames.typed(X)
    if isinstance(nw.from_native(table, eager_only=True, pass_through=True), nw.DataFrame):
        validate_data(model, nw.to_native(table, pass_through=True), skip_check_array=True, reset=reset)
        return matrix
    given: Any = {"accept_sparse": "csr" if sparse else False, "ensure_min_samples": int(not empty)}
    return validate_data(model, matrix, dtype="numeric", ensure_all_finite=False, reset=reset, **given)


def numeric_matrix(X: Any, *, empty: bool = False) -> Any:
    """Return `X` as a numeric array, or unchanged if it is sparse, according to shape and dtypes (public) alone.

    An `X` without rows is refused unless `empty`.
    """
    # scikit-learn's checks would quote cells. Tables are read as schemas do: no cell decides how another is read.
    X = frames.typed(X)
    if isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame):
        return _frame_matrix(frames.open_table(X), empty)
    if empty and isinstance(X, list | tuple):
        raise InvalidDataError("X is a list, which has no columns if it is empty. Give an array or a data frame")
    array = X if scipy.sparse.issparse(X) else None
    if array is None:
        array = numbers_of(_cells_of(X)) if isinstance(X, list | tuple) else np.asarray(X)
    if array.dtype.kind == "c":
        raise InvalidDataError(f"Complex data not supported: X has dtype {_validate.dtype_of(array)}")
    if array.dtype.kind not in "fiub":
        raise InvalidDataError(f"X has dtype {_validate.dtype_of(array)}: numbers are needed. Text needs a Schema")
    if array.ndim != 2:
        what = f"Expected 2D array, got {array.ndim}D array instead: X has shape {_validate.shape_of(array)}"
        raise InvalidDataError(f"{what}. Reshape your data to (n_records, n_features)")
    _refuse_empty(array.shape, empty)
    if scipy.sparse.issparse(X) and array.dtype == np.longdouble:  # their overflows would warn at every conversion
        with np.errstate(all="ignore"):
            return array.astype(np.float64)
    return array


def _frame_matrix(frame: frames.Frame, empty: bool) -> Array:
    """Return a table as an array whose dtype follows from the types of its columns; missing cells are NaN."""
    _refuse_empty(frame.shape, empty)
    native, kinds = frame.to_native(), set(frame.schema.values())
    if frame.implementation.is_pandas() and all(isinstance(k, np.dtype) and k.kind in "fiub" for k in native.dtypes):
        return native.to_numpy(dtype=np.result_type(*native.dtypes))
    if frame.implementation.is_polars() and kinds in ({nw.Float64()}, {nw.Float32()}):
        return frame.to_numpy()
    out = np.empty(frame.shape)
    for k, series in enumerate(frame.iter_columns()):
        try:
            out[:, k] = frames.numbers(series)
        except SchemaError:
            what = f"column {series.name!r} is not numeric, but {frames.type_name(series)}"
            raise InvalidDataError(f"{what}. Leave it out, or describe the table with a Schema") from None
    return out


def _refuse_empty(shape: tuple[int, ...], empty: bool) -> None:
    """Raise `InvalidDataError`, in scikit-learn's words, if there is no column, or no row unless `empty`."""
    seen = f"(, {shape[1]})" if empty else shape  # the number of rows may be private
    for count, name in zip(shape, ("sample", "feature"), strict=True):
        if count == 0 and not (empty and name == "sample"):
            raise InvalidDataError(f"Found array with 0 {name}(s) (shape={seen}) while a minimum of 1 is required.")


def _cells_of(rows: list[Any] | tuple[Any, ...]) -> Array:
    """Return the cells of lists of lists as objects; the lengths of lists are public, their contents are not."""
    found = [_row(row) for row in rows]  # NumPy would look into cells, too, and call their methods
    if all(row is None for row in found):
        return elements(rows)
    lists = [elements([cell]) if row is None else row for cell, row in zip(rows, found, strict=True)]
    if any(row.ndim > 1 for row in lists) or len({*map(len, lists)}) > 1:
        raise InvalidDataError("Expected 2D array: rows of X differ in length. Give every record the same columns")
    return np.stack(lists)


def _row(row: Any) -> Array | None:
    """Return the cells of one record, as objects; None for a single cell, which may be anything."""
    try:
        if isinstance(row, Sequence) and not isinstance(row, str | bytes):
            return elements(list(row))
        found = np.asarray(row, dtype=object) if hasattr(type(row), "__array__") else None
        return None if found is None or found.ndim == 0 else found
    except Exception:  # any cell is legal
        return None


def numbers_of(cells: Array) -> Floats:
    """Return cells of a list as numbers, each read by itself; a cell that is not a number becomes NaN, missing."""
    # The type that NumPy would infer depends on every cell.
    with np.errstate(all="ignore"):  # a NaN among the cells must not warn
        found: Any = np.frompyfunc(_number, 1, 1)(cells)
    return found.astype(np.float64)


def elements(values: list[Any] | tuple[Any, ...]) -> Array:
    """Return the elements of a list as objects, (n,), whatever they are."""
    return np.fromiter(values, dtype=object, count=len(values))


def _number(cell: Any) -> float:
    try:
        return float(cell) if isinstance(cell, numbers.Real | decimal.Decimal | str | np.bool_) else float("nan")
    except Exception:  # any cell is legal, whatever it says of its class
        return float("nan")


def column_of(values: Any, name: str) -> frames.Series | Array:
    """Return typed labels or targets (a series, or a table of one column) as a narwhals series, others as an array."""
    if isinstance(values, str):
        remedy = f"Pass the column, as in {name}=table[{values!r}], not its name"
        raise InvalidDataError(f"{name}={values!r}: must hold one label a record. {remedy}")
    values = frames.typed(values)
    if isinstance(values, list | tuple):
        return elements(values)
    if scipy.sparse.issparse(values):
        what = "is sparse; labels are needed, one a record"
        raise InvalidDataError(f"{name} {what}. Make them an array, as with {name}.toarray().ravel()")
    found: Any = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.Series):
        return found
    table = isinstance(found, nw.DataFrame)
    try:
        array = np.empty(found.shape, dtype=np.bool_) if table else np.asarray(found)
    except ValueError:
        raise InvalidDataError(f"{name} holds labels of different shapes; one label a record is needed") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = column_or_1d(array, warn=True)
        return found.get_column(found.columns[0]) if table else array
    if array.ndim != 1:
        raise InvalidDataError(f"{name} has shape {_validate.shape_of(array)}; labels are needed, one a record")
    return array


def user_labels(groups: Any) -> Array:
    """Return labels of users as an array; for a column of a table, numbers that distinguish its labels."""
    labels = column_of(groups, "groups")
    if isinstance(labels, nw.Series):
        return frames.label_codes(labels)
    if labels.dtype.kind == "O":  # a user labeled 5 and 5.0 is one, whatever holds the labels
        with np.errstate(all="ignore"):
            return np.frompyfunc(frames.whole, 1, 1)(labels)
    if labels.dtype.kind in "cV":  # these have no order that a missing part leaves unchanged
        raise InvalidDataError(f"groups has dtype {_validate.dtype_of(labels)}. Convert it to numbers, texts or dates")
    return labels


def fitted_columns(estimator: Any) -> int | tuple[str, ...]:
    """Return the names, or the number, of the columns that `fit` was given; repeated fits are counted by them.

    Every fit asks before it pays: a schema that nobody has confirmed raises `SchemaError`.
    """
    if (schema := getattr(estimator, "schema", None)) is not None:
        schema.require_confirmed()
        return tuple(schema.column_names(features_only=True))
    names = getattr(estimator, "feature_names_in_", None)
    return int(estimator.n_features_in_) if names is None else tuple(map(str, names))


def same_length(n: int, length: int, what: str = "y", *, private: bool = False) -> None:
    """Raise `InvalidDataError` unless `n` records have one `what` each, and at least one unless `private`."""
    if n != length and private:
        raise InvalidDataError(f"X and {what} must have one length")
    if n != length:
        raise InvalidDataError(f"X has {n} records and {what} has {length}: they must agree")
    if n < 1 and not private:
        raise InvalidDataError("Found array with 0 sample(s): at least 1 record is needed")
