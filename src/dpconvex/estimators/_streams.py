"""Fits of tables that are read portion by portion: which arguments they take, and the encoded rows."""

from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import narwhals as nw
import numpy as np

from dpconvex._types import Array
from dpconvex.data import Schema
from dpconvex.data.frames import distinct_labels, numbers, typed, whole
from dpconvex.data.schema import require_possible
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._features import FeatureMap, Scaled
from dpconvex.estimators._matrices import learned_matrix, numeric_matrix, same_length, user_labels
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.data.sources.cluster import open_source
from dpconvex.problems.data.sources.rows import LEAST, CellRows, EncodedRows, EncodedTables, TableSource, gathered
from dpconvex.problems.data.summation import SPARSE
from dpconvex.problems.data.users import UserGroups
from dpconvex.randomness import BitSource

M = TypeVar("M")
PROBE = 1_000_000
"""Assumed number of records when parameters are checked before reading; some methods refuse small numbers."""


def open_table(schema: Schema | None, X: Any, **others: Any) -> TableSource | None:
    """Return a table that is read portion by portion, and refuse `others` with it; None for data in memory."""
    if (table := open_source(X, schema.column_names() if schema else ())) is None:
        return None
    if schema is None:
        remedy = "Describe its columns with a Schema, or read it into a frame"
        raise InvalidDataError(f"X is read portion by portion, which needs a schema. {remedy}")
    refuse_with_portions(**others)
    return table


def refuse_with_portions(**given: Any) -> None:
    """Raise `InvalidParameterError` for arguments that do not go with data read portion by portion."""
    for name, value in given.items():
        if value is not None:
            what = "cannot be given with data that are read portion by portion"
            declared = value is True  # by the schema, or as weights of classes
            remedy = "" if declared else "Name its column in the schema, if it has a place there, or "
            shown = "declared" if declared else type(value).__name__
            raise InvalidParameterError(name, shown, what, f"{remedy}read the table into a frame".capitalize())


Opened = tuple[FeatureMap, EncodedRows, EncodedRows, UserGroups | None]
"""Feature map, encoded rows in the place of X and of y, and the users of the rows."""


def open_rows(model: Any, X: Any, y: Any, groups: Any, weights: Any = None, apart: bool = False) -> Opened | None:
    """Return a table that is encoded portion by portion; None where its whole matrix is made at once.

    `apart`: tables in memory may have their targets apart, in y.
    """
    weighed = True if weights is None and model._weighs else weights
    table = open_table(model.schema, X, y=y, sample_weight=weighed)
    if model.schema is not None:
        require_possible(model.schema.columns, X if table is None else table.empty)
    if table is None or model.schema is None:
        plain = (apart or y is None) and groups is None and weighed is None
        return open_cells(model, X, y) if plain else None
    if not model._relation.fixes_size:
        remedy = "Read the table into a frame"
        raise InvalidParameterError("neighbors", model.neighbors, "is for tables in memory", remedy)
    features, blind, missing = model._feature_map(None), model._blind(), model._missing

    def encode(table: Any) -> tuple[Array, Array]:
        return features.encode(table, missing), blind._targets_of(table, None)

    def sparse(table: Any) -> tuple[Any, Array]:
        return model.schema.sparse_cells(model.schema.compact(table), missing), blind._targets_of(table, None)

    encode(table.empty)
    model.n_features_in_ = len(model.schema.columns)
    rows = table.encoded(encode, features.domain.n_features, sparse if few_entries(features) else None)
    return features, rows, rows, open_users(model.schema, table, groups)


def few_entries(features: FeatureMap) -> bool:
    """Return whether most entries of encoded rows are 0: there are many more levels than columns."""
    return features.cells_of is not None and features.domain.n_features >= SPARSE * len(features.cells_of.columns)


def open_cells(model: Any, X: Any, y: Any = None) -> Opened | None:
    """Return a frame or array in memory as its cells, where its matrix would be large (public facts); else None."""
    if model.schema is None:
        return None if y is None else _open_array(model, X, y)
    features, frame = model._feature_map(None), nw.from_native(typed(X), pass_through=True)
    if (schema := features.cells_of) is None or not isinstance(frame, nw.DataFrame) or schema.user:
        return None
    if y is None and not schema.target:
        return None
    width = features.domain.n_features
    if 8 * len(frame) * width < max(LEAST, 32 * len(frame) * len(schema.columns)):  # cells take 1, 2 or 8 bytes
        return None
    labels = schema.target.labels if schema.target and y is None else ()
    kind = np.min_scalar_type(-len(labels)) if labels else np.dtype(np.float64)
    model.n_features_in_, given = len(schema.columns), None if y is None else model._targets_of(X, y)
    if given is not None and len(given) != len(frame):
        return None  # which is refused in words that suit what is private

    def read(rows: slice) -> tuple[tuple[Array, ...], Array]:
        part = frame[rows].to_native()
        targets = model._targets_of(part, None) if given is None else given[rows]
        return schema.compact(part), targets.astype(kind)

    sparse = partial(schema.sparse_cells, missing=model._missing) if few_entries(features) else None
    cells = gathered(len(frame), read)
    found = CellRows(*cells, width, partial(schema.encode_cells, missing=model._missing), sparse)
    return features, found, found, None


def _open_array(model: Any, X: Any, y: Any) -> Opened | None:
    """Return a large array whose columns are to be scaled as rows that are scaled portion by portion; else None."""
    large = isinstance(X, np.ndarray) and X.ndim == 2 and X.size and 8 * X.size >= LEAST
    if not large or not isinstance(features := model._feature_map(X.shape[-1]), Scaled) or features.open:
        return None
    X, targets = learned_matrix(model, X, reset=True), np.asarray(model._targets_of(X, y), dtype=np.float64)
    if len(X) != len(targets):
        return None
    found = CellRows([X], targets, X.shape[1], lambda cells: features.encode(cells[0], model._missing), whole=True)
    return features, found, found, None


def open_points(X: Any) -> EncodedRows | None:
    """Return the numeric columns of a table that is read portion by portion; None where X is in memory."""
    if isinstance(X, EncodedRows):
        return X
    if (table := open_source(X, None)) is None:
        return None

    def encode(table: Any) -> tuple[Array, Array]:
        frame = nw.from_native(typed(table), eager_only=True)  # its types may not be those declared
        cells = [numbers(each, texts=True) for each in frame.iter_columns()]
        return (np.column_stack(cells) if len(table) else np.empty(table.shape)), np.empty(len(table))

    if table.shape[1]:
        numeric_matrix(table.empty, empty=True)
    return table.encoded(encode, table.shape[1])


def users_of(schema: Schema | None, X: Any, groups: Any, *, empty: bool = False) -> UserGroups | None:
    """Return the users of records in memory, from labels (n,) or the schema's user column; None for records."""
    if groups is None and schema is not None and schema.user is not None:
        groups = schema.user_labels(X)
    return None if groups is None else UserGroups.of(user_labels(groups), empty=empty)


def checked(model: Any, X: Any, y: Any, groups: Any) -> tuple[FeatureMap, int, UserGroups | None, Any]:
    """Return the features, the number of records in memory, their users, and a copy of the model that plans for them.

    Raises what a fit would for records of another form than declared, before they cost something.
    """
    users = users_of(model.schema, X, groups)
    if model.schema is not None:
        require_possible(model.schema.columns, X)
    features, encoded, *_ = open_cells(model, X, y) or model._encoded(X, reset=True)
    records = encoded.shape[0]
    same_length(records, len(model._targets_of(X, y)), private=users is not None)
    same_length(records, records if users is None else users.n_records, "groups", private=True)
    model._weights(X, None)
    return features, records, users, able(model, encoded)


def open_users(schema: Schema, table: TableSource, groups: Any) -> UserGroups | None:
    """Return the users of a table's rows, from labels (n,) or the schema's user column; None for records."""
    # A pass reads the labels; each portion is sent those of its own rows.
    if groups is None and schema.user is None:
        return None
    table.require_order("users")
    if groups is not None:
        return users_of(None, table, groups)
    name, codes = schema.user, dict[bytes, int]()
    kind = getattr(table.empty[name], "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "iu" and kind.itemsize == 8:  # Dask: floats where one is missing
        what = f"the user column {name!r} has the type {kind}, and a missing cell would round others of its partition"
        remedy = "Make it an Arrow type: read_parquet(..., dtype_backend='pyarrow'), or astype('int64[pyarrow]')"
        raise InvalidDataError(f"{what}. {remedy}")

    def encode(table: Any) -> Any:
        return distinct_labels(nw.from_native(table, eager_only=True).get_column(name))

    encode(table.empty)
    parts: list[tuple[int, Array]] = []
    found: Any = table.encoded(encode, 1).run(lambda portion, first, _: (first, *portion))
    for first, labels, places in found:
        # 5, 5.0 and "5" are one label: a cell may make texts of all of its partition, whatever was declared.
        known = [codes.setdefault(x if isinstance(x, bytes) else str(whole(x)).encode(), len(codes)) for x in labels]
        parts.append((first, np.array([*known, -1])[places]))
    return UserGroups.of(np.concatenate([part for _, part in sorted(parts, key=lambda each: each[0])]))


def expanded(features: FeatureMap, encoded: Any, targets: Any, only_sums: bool) -> tuple[Any, Any]:
    """Return X and y in the form that the method for these features takes, from the result of `encode`."""
    if not isinstance(encoded, EncodedRows):
        return features.expand(encoded), targets
    if not isinstance(encoded, EncodedTables):
        return (encoded, encoded) if only_sums else encoded.matrix()
    rows = encoded if features.cells_of else encoded.then(features.expand, features.domain.n_features)
    return rows, rows


def count(records: Any) -> int:
    """Return the number of records; raise `InvalidDataError` unless features, targets and groups have the same."""
    if isinstance(records, EncodedRows):
        return len(records)
    X, targets, groups = records
    same_length(X.shape[0], len(targets))
    same_length(X.shape[0], len(groups), "groups")
    return len(targets)


def shuffled(records: Any, source: BitSource, only_sums: bool) -> Any:
    """Return a copy of records (features, targets, groups) in random order; rows for `only_sums` keep their order."""
    # One-pass methods need an order that is independent of the records: a file sorted by labels would mislead them.
    coins = source.generator()
    if isinstance(records, EncodedRows):
        if only_sums or not records.in_memory:
            return records
        X, y = records.matrix()
        records = X, *y.T
    order = coins.permutation(len(records[1]))
    X, targets, groups = records
    return X[order], targets[order], groups[order]


def able(model: M, records: Any) -> M:
    """Return a copy of a model whose plans, also those made in a run, need no more than these records provide."""
    planner: Any = copy(model)
    planner._sums = isinstance(records, EncodedRows) and not records.in_memory
    return planner


def promise_of(model: Any, n: int = PROBE) -> PrivacyParams:
    """Return the promise of a fit of a model with a schema to n units; raise what the fit would refuse."""
    model._public_count(n if model._relation.fixes_size else None)
    loss = model._declared_loss()
    features = model._smallest(model._feature_map(None))
    promise = model._asked(model._check, features, n, loss, model._unit(None))
    return replace(promise, epsilon=model.epsilon)  # ranges may take a part of it
