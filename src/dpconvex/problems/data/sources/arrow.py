"""Tables that are larger than memory, as Arrow record batches: data sets of files, lazy frames, relations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import narwhals as nw

from dpconvex.errors import InvalidDataError
from dpconvex.problems.data.sources.rows import EncodedRows, Portion

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = 2**28
"""Bytes that portions may take where nothing else is asked for."""

_COPIES = 6  # of a portion that exist at a time: cells and features, of the one that is used and the next one


@runtime_checkable
class ArrowStream(Protocol):
    """Whatever can be read as Arrow batches, as often as one likes."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@final
@dataclass(frozen=True, eq=False)
class Tables:
    """A table that is read batch by batch, again and again."""

    n: int  #: rows, public
    empty: pa.Table  #: the chosen columns without rows
    read: Callable[[int], Iterator[pa.RecordBatch]]  #: yields batches of at most about so many rows

    def portions(self, rows: int) -> Iterator[pa.Table]:
        """Yield all rows, about so many at a time."""
        import pyarrow as pa

        batches, size = [], 0
        with _one_error():
            for batch in self.read(rows):
                for start in range(0, batch.num_rows, rows):
                    batches.append(batch.slice(start, rows))
                    size += batches[-1].num_rows
                    if size >= rows:
                        yield pa.Table.from_batches(batches)
                        batches, size = [], 0
        if batches:
            yield pa.Table.from_batches(batches)


class _one_error:
    """One message for whatever goes wrong while files are read: theirs may quote cells."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, InvalidDataError):
            what = f"X could not be read ({type(error).__name__})"
            raise InvalidDataError(f"{what}. Check that its files are whole, and can be read again") from None


def open_tables(X: Any, columns: Sequence[str]) -> Tables | None:
    """Return some columns of a table that is no frame in memory; None where it is one, or no table at all.

    That is a ``pyarrow.dataset.Dataset`` (folders, globs, partitions, object stores), a ``polars.LazyFrame``, a DuckDB
    relation, or any object with ``__arrow_c_stream__`` that can be read again. `InvalidDataError` for a missing column,
    an empty table, a stream that can be read once, and Arrow data sets of CSV or JSON (public facts).
    """
    lazy = nw.dependencies.is_polars_lazyframe(X)
    if not lazy and not isinstance(X, ArrowStream) and not _is_dataset(X):
        return None
    if isinstance(nw.from_native(X, eager_only=True, allow_series=True, pass_through=True), nw.DataFrame | nw.Series):
        return None
    import pyarrow as pa

    if isinstance(X, pa.RecordBatch):
        return None
    if isinstance(X, pa.RecordBatchReader):
        raise InvalidDataError("X is a stream that can be read once. Give what it was made of: files, or a relation")
    with _one_error():
        if lazy:
            tables = _of_lazy(X, list(columns))
        else:
            tables = _of_dataset(X, list(columns)) if _is_dataset(X) else _of_stream(X, list(columns))
    if tables.n < 1:
        raise InvalidDataError("Found array with 0 sample(s): at least 1 record is needed")
    return tables


def _is_dataset(X: Any) -> bool:
    arrow = nw.dependencies.get_pyarrow()
    if arrow is None:
        return False
    from pyarrow import dataset

    return isinstance(X, dataset.Dataset)


def _chosen(schema: pa.Schema, columns: list[str]) -> pa.Table:
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InvalidDataError(f"X lacks the column {missing[0]!r}, which the schema names. Check the header")
    return schema.empty_table().select(columns)


def _of_dataset(X: Any, columns: list[str]) -> Tables:
    from pyarrow import dataset

    if isinstance(X, dataset.FileSystemDataset) and X.format.default_extname not in (
        "parquet",
        "feather",
        "ipc",
        "orc",
    ):
        what = "X is a data set of text files: Arrow guesses types from cells, and one malformed line makes it fail"
        raise InvalidDataError(f"{what}. Open it with dpconvex.data.open_files")
    empty = _chosen(X.schema, columns)

    def read(rows: int) -> Iterator[pa.RecordBatch]:
        ahead = {"batch_readahead": 2, "fragment_readahead": 1}  # memory
        return X.scanner(columns=columns, batch_size=rows, **ahead).to_batches()

    return Tables(X.count_rows(), empty, read)


def _of_lazy(X: Any, columns: list[str]) -> Tables:
    names = X.collect_schema().names()
    missing = [name for name in columns if name not in names]
    if missing:
        raise InvalidDataError(f"X lacks the column {missing[0]!r}, which the schema names. Check the header")
    chosen = X.select(columns)

    def read(rows: int) -> Iterator[pa.RecordBatch]:
        for frame in chosen.collect_batches(chunk_size=rows, maintain_order=True):
            yield from frame.to_arrow().to_batches()

    counted = nw.from_native(X).select(nw.len()).collect().item()
    return Tables(int(counted), chosen.head(0).collect().to_arrow(), read)


def _of_stream(X: Any, columns: list[str]) -> Tables:
    import pyarrow as pa

    def read(rows: int) -> Iterator[pa.RecordBatch]:
        for batch in pa.RecordBatchReader.from_stream(X):
            yield batch.select(columns)

    empty = _chosen(pa.RecordBatchReader.from_stream(X).schema, columns)
    return Tables(sum(batch.num_rows for batch in read(0)), empty, read)


@final
@dataclass(frozen=True, eq=False)
class EncodedTables(EncodedRows):
    """Portions of a table, encoded one by one; every row is encoded by itself."""

    tables: Tables
    encode: Callable[[pa.Table], Portion]
    n_features: int
    memory: int = MEMORY  #: bytes that portions may take

    @property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.tables.n

    def portions(self) -> Iterator[Portion]:
        rows = max(1, self.memory // (8 * _COPIES * (self.n_features + self.tables.empty.num_columns)))
        return map(self.encode, self.tables.portions(rows))
