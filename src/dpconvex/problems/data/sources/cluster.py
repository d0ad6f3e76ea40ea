"""Tables that a cluster holds: Dask frames and Ray data sets. Nobody else imports an engine.

Each task reads, encodes and clips one partition, and returns a sum. It is sent anew when its worker is lost, which
changes nothing: sums are exact, and the driver counts the parts of each partition once. Tasks draw no random bits, hold
no source of them and no budget (`EncodedPartitions.encode` is made so by `estimators._streams`): a task that is
repeated releases nothing twice.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, final

import numpy as np

from dpconvex._types import AnyArray
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data.sources.arrow import quiet_reading
from dpconvex.problems.data.sources.rows import EncodedRows, Portion, expanding

T = TypeVar("T")
Encode = Callable[[Any], Portion]

RETRIES = 3
"""How often a task is sent anew."""


class Partitions(ABC):
    """The partitions of a table of which some columns are read, wherever they are."""

    engine: str

    @property
    @abstractmethod
    def empty(self) -> Any:
        """The columns without rows."""

    @abstractmethod
    def run(self, function: Callable[..., T], arguments: Sequence[Any] | None = None) -> list[T]:
        """Return `function` of each partition, and of its argument if there are any, in their order."""


@final
class DaskPartitions(Partitions):
    """Partitions of a Dask frame, on the client that is current where `fit` is called; without one, on threads."""

    engine = "dask"

    def __init__(self, frame: Any, columns: Sequence[str]) -> None:
        _require(columns, list(frame.columns))
        self._frame = frame[list(columns)]

    @property
    def empty(self) -> Any:
        return self._frame._meta

    def run(self, function: Callable[..., T], arguments: Sequence[Any] | None = None) -> list[T]:
        import dask  # pyright: ignore

        parts, call = self._frame.to_delayed(), dask.delayed(function, pure=False)  # pyright: ignore
        given = [()] * len(parts) if arguments is None else [(argument,) for argument in arguments]
        calls = [call(part, *more) for part, more in zip(parts, given, strict=True)]
        with quiet_reading():
            return list(dask.compute(*calls, retries=RETRIES))  # pyright: ignore


@final
class RayPartitions(Partitions):
    """Blocks of a Ray data set, which its object store keeps from the first pass on."""

    engine = "ray"

    def __init__(self, data: Any, columns: Sequence[str]) -> None:
        import ray  # pyright: ignore

        with quiet_reading():
            schema = data.schema()
            _require(columns, list(schema.names))
            self._blocks = data.select_columns(list(columns)).to_arrow_refs()
        self._empty = ray.get(_remote(lambda block: block.slice(0, 0)).remote(self._blocks[0]))

    @property
    def empty(self) -> Any:
        return self._empty

    def run(self, function: Callable[..., T], arguments: Sequence[Any] | None = None) -> list[T]:
        import ray  # pyright: ignore

        call = _remote(function)
        given = [()] * len(self._blocks) if arguments is None else [(argument,) for argument in arguments]
        with quiet_reading():
            return ray.get([call.remote(block, *more) for block, more in zip(self._blocks, given, strict=True)])


def _remote(function: Callable[..., Any]) -> Any:
    import ray  # pyright: ignore

    return ray.remote(max_retries=RETRIES)(lambda *given: function(*given))  # builtins too


def _require(columns: Sequence[str], found: Sequence[str]) -> None:
    for name in columns:
        if name not in found:
            raise InvalidDataError(f"X lacks the column {name!r}, which the schema names. Check the header")


@contextmanager
def opened(path: str, engine: str, address: str | None, columns: Sequence[str]) -> Iterator[Any]:
    """Read Parquet files on an engine, at its address or on this machine; `columns` (of the files) alone.

    Clusters of this machine listen on the loopback, without a dashboard. `InvalidDataError` where an engine is missing
    or cannot be reached.
    """
    try:
        if engine == "dask":
            from dask import dataframe  # pyright: ignore
            from distributed import Client, LocalCluster  # pyright: ignore

            with ExitStack() as stack:
                local = {"dashboard_address": None, "host": "127.0.0.1"}
                cluster = stack.enter_context(LocalCluster(**local)) if address is None else address  # pyright: ignore
                stack.enter_context(Client(cluster))
                yield dataframe.read_parquet(path, columns=list(columns))
        else:
            import ray  # pyright: ignore

            ray.init(address=address, include_dashboard=False, log_to_driver=False)
            try:
                yield ray.data.read_parquet(path, columns=list(columns))
            finally:
                ray.shutdown()
    except ImportError:
        raise InvalidDataError(f"{engine} is not installed. pip install 'dpconvex[{engine}]'") from None
    except (OSError, TimeoutError) as error:
        what = f"{engine} could not be reached, or {path} not opened ({type(error).__name__})"
        raise InvalidDataError(f"{what}. Check --address and the files") from None


def is_dask(table: object) -> bool:
    """Say whether something is a Dask frame; loads nothing."""
    dask = sys.modules.get("dask.dataframe")
    return dask is not None and isinstance(table, dask.DataFrame)


def open_partitions(table: object, columns: Sequence[str]) -> Partitions | None:
    """Return a table that a cluster holds; None for any other. `InvalidDataError` for a missing column."""
    if is_dask(table):
        return DaskPartitions(table, columns)
    ray = sys.modules.get("ray.data")
    return RayPartitions(table, columns) if ray is not None and isinstance(table, ray.Dataset) else None


def predicted(predict: Callable[[Any], Any], table: object) -> Any:
    """Return what `predict` makes of each partition, to be computed when it is asked for; None for tables in memory.

    Of a Dask frame that is a Dask series with the frame's index, of a Ray data set one with the column ``prediction``.
    """
    if is_dask(table):
        import pandas as pd

        frame: Any = table

        def of(part: Any) -> Any:
            return pd.Series(predict(part), index=part.index, name="prediction")

        return frame.map_partitions(of, meta=of(frame._meta_nonempty))
    ray = sys.modules.get("ray.data")
    if ray is None or not isinstance(table, ray.Dataset):
        return None
    data: Any = table
    return data.map_batches(lambda part: {"prediction": np.asarray(predict(part))}, batch_format="pyarrow")


@final
class EncodedPartitions(EncodedRows):
    """Partitions of a cluster's table, each encoded where it is."""

    def __init__(self, partitions: Partitions, encode: Encode, n_features: int) -> None:
        self._partitions, self._encode, self.n_features = partitions, encode, n_features
        self._sizes = partitions.run(len)  # public
        self._first = np.cumsum([0, *self._sizes]).tolist()
        self.n = self._first[-1]

    def then(self, expand: Callable[[AnyArray], AnyArray], n_features: int) -> EncodedPartitions:
        """Return the same rows with their features expanded."""
        return EncodedPartitions(self._partitions, expanding(self._encode, expand), n_features)
        if self.n < 1:
            raise InvalidDataError("Found array with 0 sample(s): at least 1 record is needed")

    def portions(self) -> Iterator[Portion]:
        raise NotImplementedError  # rows stay where they are: `run`

    def run(self, task: Callable[[Portion, int], T]) -> Iterator[T]:
        encode, features = self._encode, self.n_features

        def whole(part: Any, place: tuple[int, int]) -> tuple[int, T | None]:
            first, size = place
            if len(part) != size:
                return len(part), None
            with np.errstate(all="ignore"):  # what floats meet depends on the data
                portion = encode(part) if size else (np.empty((0, features)), np.empty(0))
                return size, task(portion, first)

        places = list(zip(self._first[:-1], self._sizes, strict=True))
        for (size, found), (_, expected) in zip(self._partitions.run(whole, places), places, strict=True):
            if size != expected:
                what = f"X had {self.n} rows when it was opened and others when it was read"
                raise InvalidDataError(f"{what}. Keep its files as they are during a fit")
            yield found  # pyright: ignore[reportReturnType]
