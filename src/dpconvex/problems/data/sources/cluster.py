"""Tables that a cluster holds: Dask frames and Ray data sets. No other module imports an engine.

Each task reads, encodes and clips one partition, and returns a sum. It is sent again if its worker is lost, which
changes nothing: sums are exact, and the driver counts the parts of each partition once. Tasks draw no random bits, hold
no source of them and no budget (the encoding is made so by `estimators._streams`): a task that is
repeated releases nothing twice.
"""

import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar, final

import narwhals as nw
import numpy as np

from dpconvex._arrow import pa, pc, takeable
from dpconvex._types import Array, set_fields
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data.sources.arrow import check_origin, open_tables, quiet_reading
from dpconvex.problems.data.sources.rows import Encode, Held, InOrder, TableSource, Task, chosen_columns, inside

T = TypeVar("T")
is_dask = nw.dependencies.is_dask_dataframe
NUMBER = r"^(u?int\d+|.*float|double|bool)$"  #: Types of Arrow whose cells are read alike.
RETRIES = 3  #: Most times that a task is sent again.


class Partitions(TableSource):
    """The partitions of a table of which some columns are read, wherever they are."""

    engine: str

    @cached_property
    def sizes(self) -> list[int]:
        """Number of rows of each partition, public."""
        return self.run(len)

    @property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return sum(self.sizes)

    def taken(self, index: Array) -> "Partitions":
        return TakenPartitions(self, index)

    @abstractmethod
    def run(self, function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
        """Return the results of `function` on each partition, with its argument from one sequence if given."""

    def sent(self, encode: Encode, task: Task[T], held: Held) -> Iterator[T]:
        def whole(part: Any, place: tuple[int, int, Any]) -> tuple[int, T | None]:
            first, size, given = place
            if len(part) != size:
                return len(part), None
            with np.errstate(all="ignore"):  # what floats meet depends on the data
                return size, task(encode(part), first, given)

        ends = np.cumsum([0, *self.sizes]).tolist()
        places = [(first, stop - first, held(first, stop)) for first, stop in pairwise(ends)]
        for (size, found), (_, expected, _) in zip(self.run(whole, places), places, strict=True):
            if size != expected:
                what = f"X had {self.n} rows when it was opened and others when it was read"
                raise InvalidDataError(f"{what}. Keep its files as they are during a fit")
            yield found  # pyright: ignore[reportReturnType]


@final
class TakenPartitions(Partitions):
    """Some rows of each partition; each task gets the indices of the rows in its partition."""

    def __init__(self, whole: Partitions, index: Array) -> None:
        self.engine, self.empty, self._whole = whole.engine, whole.empty, whole
        ends = np.cumsum([0, *whole.sizes]).tolist()
        self._rows = [inside(index, first, stop) for first, stop in pairwise(ends)]

    @cached_property
    def sizes(self) -> list[int]:
        return list(map(len, self._rows))

    def run(self, function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
        def of(part: Any, given: tuple[Array, *tuple[Any, ...]]) -> T:
            rows, *more = given
            found: Any = nw.from_native(takeable(part), eager_only=True)
            return function(found[rows.tolist()].to_native(), *more)

        return self._whole.run(of, list(zip(self._rows, *arguments, strict=True)))


@final
class DaskPartitions(Partitions):
    """Partitions of a Dask frame, on the client that is current when `fit` is called; without a client, on threads."""

    engine = "dask"
    ordered = False

    def __init__(self, frame: Any, columns: Sequence[str] | None) -> None:
        found = frame[chosen_columns(columns, list(frame.columns))]
        check_origin(*_origin(frame), list(found.columns), "Dask")
        flags = [name for name, kind in found.dtypes.items() if kind == "bool"]  # objects where a cell is missing
        self._frame, self.empty = found, found._meta.astype(dict.fromkeys(flags, "boolean"))

    def run(self, function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
        import dask  # pyright: ignore

        kind = lambda of: "number" if of.kind in "iufb" else str(of)  # noqa: E731
        meta, kinds = self._frame._meta, self._frame._meta.dtypes.map(kind)

        def of(part: Any, *given: Any) -> T:  # one cell may change a part's types, whatever was declared
            others = part.columns[part.dtypes.map(kind) != kinds]
            return function(_alone(part, others, lambda name: pa.array(meta[name]).type), *given)

        parts, call = self._frame.to_delayed(), dask.delayed(of, pure=False)  # pyright: ignore
        calls = [call(*given) for given in zip(parts, *arguments, strict=True)]
        with quiet_reading():
            return list(dask.compute(*calls, retries=RETRIES))  # pyright: ignore


def _origin(frame: Any) -> tuple[str, str]:
    """Return the readers that a Dask frame's expression has, and files of Parquet; "" where Dask does not tell."""
    try:
        steps = list(frame.expr.walk())
        labels = [each.operand("label") for each in steps if "label" in each._parameters]
        parquet = [each._dataset_info for each in steps if hasattr(type(each), "_dataset_info")]
        files = [(info.get("all_files") or info["ds"].files)[0] for info in parquet]
    except (AttributeError, KeyError, TypeError, IndexError, NotImplementedError):
        return "", ""
    return " ".join(map(str, labels)), " ".join(map(str, files))


@final
class RayPartitions(Partitions):
    """Blocks of a Ray data set, which its object store keeps from the first pass on."""

    engine = "ray"

    def __init__(self, data: Any, columns: Sequence[str] | None) -> None:
        import ray  # pyright: ignore

        with quiet_reading():
            steps = data._logical_plan.dag.post_order_iter() if hasattr(data, "_logical_plan") else ()
            check_origin(" ".join([data.stats(), *(each.name for each in steps)]), "", (), "Ray")
            self._blocks = data.select_columns(chosen_columns(columns, list(data.schema().names))).to_arrow_refs()
        head = _remote(lambda block: block.slice(0, 0))
        forms: Any = (ray.get(head.remote(each)) for each in self._blocks)  # blocks lose columns with their last row
        none: Any = next((form for form in forms if form.num_columns), pa.table({}))
        self._kinds, self.empty = none.schema, _cell_by_cell(none, none.schema)

    def run(self, function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
        import ray  # pyright: ignore

        def of(block: Any, *given: Any, kinds: Any = self._kinds) -> T:
            return function(_cell_by_cell(block if block.num_columns else kinds.empty_table(), kinds), *given)

        call = _remote(of)
        with quiet_reading():
            return ray.get([call.remote(*given) for given in zip(self._blocks, *arguments, strict=True)])


def _cell_by_cell(block: Any, kinds: Any) -> Any:
    """Return a block of Ray's, columns of other types than these `_alone`: one cell may change a block's types."""
    from pandas import ArrowDtype, Series

    own, declared = ({(x.name, re.sub(NUMBER, "number", str(x.type))) for x in of} for of in (block.schema, kinds))
    others = [name for name, kind in own if (name, kind) not in declared or "arrow_pickled" in kind]
    odd = {name: Series(block[name].to_pylist(), dtype=object) for name, kind in own if "arrow_pickled" in kind}
    table = block.to_pandas(types_mapper=ArrowDtype, ignore_metadata=True).assign(**odd) if others else block
    return _alone(table, others, lambda name: kinds.field(name).type)


def _alone(table: Any, names: Sequence[str], kind: Callable[[str], Any]) -> Any:
    """Return a pandas table with named columns as objects, or as dates of an Arrow type: cells are read one by one."""
    from pandas import ArrowDtype

    def date(cell: Any, of: Any) -> Any:
        with suppress(Exception):  # any cell is legal
            cell = cell if isinstance(cell, pa.Scalar) else pa.scalar(getattr(cell, "asm8", cell))  # all nanoseconds
            number = pa.types.is_integer(cell.type)
            return None if number else cell.cast(options=pc.CastOptions(of, allow_time_truncate=True))

    table = table.copy(deep=False) if len(names) else table
    for name in names:
        cells, of = table[name], kind(name)
        if pa.types.is_temporal(of):
            read = [date(cell, of) for cell in (cells if cells.dtype == object else pa.array(cells))]
            table[name] = type(cells)(pa.array(read, of), cells.index, ArrowDtype(of))
        else:
            table[name] = cells.astype(object)
    return table


def _remote(function: Callable[..., Any]) -> Any:
    import ray  # pyright: ignore

    return ray.remote(max_retries=RETRIES)(lambda *given: function(*given))  # builtins too


@contextmanager
def opened(path: str, engine: str, address: str | None, columns: Sequence[str]) -> Iterator[Callable[[], Any]]:
    """Reach an engine, at its address or on this machine; yield what reads `columns` of Parquet files on it.

    Clusters of this machine listen on the loopback, without a dashboard. `InvalidDataError` where an engine is missing
    or cannot be reached.
    """
    try:
        if engine == "dask":
            from dask import config, dataframe  # pyright: ignore
            from distributed import Client, LocalCluster  # pyright: ignore

            with ExitStack() as stack:
                stack.enter_context(config.set({"distributed.scheduler.http.routes": []}))  # they show call stacks
                local = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
                cluster = stack.enter_context(LocalCluster(**local)) if address is None else address  # pyright: ignore
                with _reaching():
                    stack.enter_context(Client(cluster))
                yield lambda: InOrder(dataframe.read_parquet(path, columns=list(columns), dtype_backend="pyarrow"))
        else:
            import ray  # pyright: ignore

            with _reaching():
                ray.init(address=address, include_dashboard=False, log_to_driver=False)
            try:
                yield lambda: ray.data.read_parquet(path, columns=list(columns))  # which looks into the files
            finally:
                ray.shutdown()
    except ImportError:
        raise InvalidDataError(f"{engine} is not installed. pip install 'dpconvex[{engine}]'") from None
    except (OSError, TimeoutError) as error:
        what = f"{engine} could not be reached, or {path} not opened ({type(error).__name__})"
        raise InvalidDataError(f"{what}. Check --address and the files") from None


@contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, RuntimeError):  # what engines raise for addresses that are none
        raise ConnectionError from None


def is_ray(table: object) -> bool:
    """Return whether `table` is a Ray data set, without importing Ray."""
    return isinstance(table, getattr(sys.modules.get("ray.data"), "Dataset", ()))


def open_source(table: object, columns: Sequence[str] | None) -> TableSource | None:
    """Return columns (None: all) of a table that is read portion by portion; None for tables in memory and arrays.

    A `TableSource` is returned unchanged. Tables that cannot be read raise `InvalidDataError` (public facts).
    """
    table = nw.to_native(table, pass_through=True)
    if isinstance(table, InOrder):
        if (found := open_source(table.table, columns)) is not None:
            set_fields(found, ordered=True)
        return found
    if isinstance(table, TableSource | np.ndarray):
        return table if isinstance(table, TableSource) else None
    if is_dask(table) or is_ray(table):
        return (DaskPartitions if is_dask(table) else RayPartitions)(table, columns)
    return open_tables(table, columns)


def predicted(predict: Callable[[Any], Any], table: Any) -> Any:
    """Return lazy results of `predict` on each partition; None for tables in memory.

    They are a Dask series with the frame's index, or a Ray data set with the column ``prediction``.
    """
    if is_dask(table):
        import pandas as pd

        def of(part: Any) -> Any:
            return pd.Series(predict(part), index=part.index, name="prediction")

        return table.map_partitions(of, meta=of(table._meta_nonempty))
    if not is_ray(table):
        return None
    return table.map_batches(lambda part: {"prediction": np.asarray(predict(part))}, batch_format="pyarrow")
