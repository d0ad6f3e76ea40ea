"""Tables that are larger than memory, as Arrow record batches: data sets of files, lazy frames, relations."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse
from narwhals.exceptions import DuplicateError

from dpconvex import _validate
from dpconvex._arrow import pa, same_types, takeable
from dpconvex._types import Array, final_dataclass
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data import summation
from dpconvex.problems.data.sources.rows import TableSource, chosen_columns, inside

MEMORY: ContextVar[int] = ContextVar("MEMORY", default=2**28)  #: Default for the bytes that portions may take.


class OrderedStream:
    """Base class of Arrow streams that have the same order of rows whenever they are read."""


@final_dataclass(eq=False)
class Tables(TableSource):
    """A table that is read batch by batch, in each pass anew."""

    n: int  #: number of rows, public
    empty: "pa.Table"  #: the chosen columns without rows
    read: "Callable[[int], Iterator[pa.RecordBatch]]"  #: yields batches of about the given number of rows
    ordered: bool = True
    memory: int = field(default_factory=lambda: MEMORY.get())  #: bytes that portions may take

    def taken(self, index: Array) -> "Tables":
        def some(size: int) -> "Iterator[pa.RecordBatch]":
            first = 0
            for batch in self.read(size):
                rows = pa.array(inside(index, first, first + batch.num_rows))
                yield from takeable(pa.Table.from_batches([batch])).take(rows).to_batches()
                first += batch.num_rows

        return replace(self, n=len(index), read=some)

    def portions(self, n_features: int) -> "Iterator[pa.Table]":
        copies = 2 * summation.threads() + 2  # cells and features of batches in use, cells of the next two batches
        rows = max(1, self.memory // (8 * copies * (n_features + self.empty.num_columns)))  # or at least half of them
        batches, size = [], 0
        with quiet_reading():
            for batch in self.read(rows):
                for part in (batch.slice(start, rows) for start in range(0, batch.num_rows, rows)):
                    batches, size = [*batches, part], size + part.num_rows
                    if 2 * size >= rows:
                        yield pa.Table.from_batches(batches)
                        batches, size = [], 0
        if batches:
            yield pa.Table.from_batches(batches)


@contextmanager
def quiet_reading() -> Iterator[None]:
    """Replace errors while files are read by one message, since their messages may quote cells."""
    try:
        yield
    except InvalidDataError:
        raise
    except Exception as error:
        what = f"X could not be read ({type(error).__name__})"
        raise InvalidDataError(f"{what}. Check that its files are whole, and can be read again") from None


def check_origin(readers: str, files: str, columns: Sequence[str], of: str) -> None:
    """Raise `InvalidDataError` where a frame `of` a library reads text files, or has names of folders as cells.

    The library guesses types from cells, or fails at one of them. `readers` and `files` are what it tells of its plan.
    """
    remedy = "Open it with dpconvex.data.open_files, or give an Arrow data set itself"
    if re.search(r"\b(Csv|NDJson|PYTHON|(?i:read(arrow|pandas)?[-_]?(csv|(nd)?json)(_auto|_objects)*))\b", readers):
        what = f"X may read text files through {of}, which guesses types from cells and fails at one malformed line"
        raise InvalidDataError(f"{what}. {remedy}")
    if named := next((name for name in columns if f"/{name}=" in files), None):
        what = f"column {named!r} of X is made of names of folders, and {of} guesses its type from all of them"
        raise InvalidDataError(f"{what}. {remedy}")


def open_tables(X: Any, columns: Sequence[str] | None) -> Tables | None:
    """Return columns (None: all) of a table outside of memory; None for a frame in memory, or for no table at all.

    Such a table is a ``pyarrow.dataset.Dataset`` (folders, partitions, object stores), a ``polars.LazyFrame``, a DuckDB
    relation, or any object with ``__arrow_c_stream__`` that can be read again. `InvalidDataError` for a missing column,
    a stream that can be read once, and Arrow data sets of CSV or JSON (public facts).
    """
    if isinstance(X, np.ndarray | list | tuple) or scipy.sparse.issparse(X):
        return None
    _validate.installed("pyarrow")
    from pyarrow import dataset

    lazy, arrow = bool(nw.dependencies.is_polars_lazyframe(X)), isinstance(X, dataset.Dataset)
    if not (lazy or arrow or hasattr(X, "__arrow_c_stream__")) or isinstance(X, pa.RecordBatch):
        return None
    try:
        found = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
    except DuplicateError:  # in memory: it is refused where its cells are read
        return None
    if isinstance(found, nw.DataFrame | nw.Series):
        return None
    if isinstance(X, pa.RecordBatchReader):
        raise InvalidDataError("X is a stream that can be read once. Give what it was made of: files, or a relation")
    with quiet_reading():
        explained = X.explain(optimized=False) if lazy else ""
        if ".strict_cast(" in explained:  # before anything is computed
            what = "X casts strictly (so do fill_null and when/then with another type), and fails at one odd cell"
            raise InvalidDataError(f"{what}. Write cast(..., strict=False) there, or leave it to the schema")
        if nw.dependencies.is_duckdb_relation(X):
            check_origin(" ".join(re.findall(r"\bREAD_\w+", X.explain())), "", (), "DuckDB")
        form = (X.head(0).collect().to_arrow() if lazy else X if arrow else pa.RecordBatchReader.from_stream(X)).schema
        chosen = chosen_columns(columns, form.names)
        if lazy:
            scans = re.findall(r"(\w+) SCAN \[([^\]]*)", explained)
            readers, files = (" ".join(each[k] for each in scans) for k in (0, 1))
            keys = [key for key in re.findall(r"/([^/=]+)=", files) if f'col("{key}")' in explained]  # maybe renamed
            check_origin(readers, files, [*chosen, *keys], "polars")
            n = int(nw.from_native(X).select(nw.len()).collect().item())
        elif arrow:
            same_types(X, chosen)
            n = X.count_rows()
        else:
            n = sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(X))

    def read(rows: int) -> "Iterator[pa.RecordBatch]":
        if lazy:
            for frame in X.select(chosen).collect_batches(chunk_size=rows, maintain_order=True):
                yield from frame.to_arrow().to_batches()
        elif arrow:
            # Memory: Arrow would read ahead, and keep what it has read of a file until the file's end; and its threads
            # read more and more of it while ours encode.
            ahead = {"batch_readahead": 2, "fragment_readahead": 1}
            parquet = isinstance(X, dataset.FileSystemDataset) and X.format.default_extname == "parquet"
            bounded = dataset.ParquetFragmentScanOptions(pre_buffer=False) if parquet else None
            options = {"fragment_scan_options": bounded, "use_threads": False, **ahead}
            yield from X.scanner(columns=chosen, batch_size=rows, **options).to_batches()
        else:
            yield from (batch.select(chosen) for batch in pa.RecordBatchReader.from_stream(X))

    return Tables(n, form.empty_table().select(chosen), read, ordered=arrow or isinstance(X, OrderedStream))
