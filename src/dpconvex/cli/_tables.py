"""Tables of the command line: one file in memory, or folders and patterns that are read portion by portion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpconvex import _validate
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.data import Schema

ENGINES = ("memory", "local", "dask", "ray")
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def engine_for(
    path: Path, engine: str | None, address: str | None = None, memory: str | None = None, budget: Path | None = None
) -> str:
    """Return the engine that is meant: without one, files are read into memory, folders and patterns in portions.

    Refuses options that it does not have, before anything is paid; a `budget` pays for single files alone.
    """
    many = path.is_dir() or set("*?[") & set(str(path))
    chosen = _validate.choice("engine", ("local" if many else "memory") if engine is None else engine, ENGINES)
    for name, value, where in (("address", address, ("dask", "ray")), ("memory", memory, ("local",))):
        if value is not None and chosen not in where:
            raise InvalidParameterError(name, value, f"is for the engine {' or '.join(where)}", f"Leave out --{name}")
    if budget is not None and chosen != "memory":
        raise InvalidParameterError("budget", str(budget), "pays for single files", "Use dpconvex.Budget in Python")
    return chosen


@contextmanager
def opened_table(
    path: Path, schema: Schema, engine: str | None, address: str | None, memory: str | None
) -> Iterator[Any]:
    """Open what `fit` takes: a table in memory, or one that the engine reads again at each pass."""
    from dpconvex.data import open_files, read_table

    chosen = engine_for(path, engine, address, memory)
    if chosen == "memory":
        yield read_table(path, schema)
    elif chosen == "local":
        from dpconvex.problems.data.sources.arrow import MEMORY

        token = MEMORY.set(MEMORY.get() if memory is None else read_bytes(memory))
        try:
            yield open_files(path, schema)
        finally:
            MEMORY.reset(token)
    else:
        from dpconvex.problems.data.sources.cluster import opened

        with opened(str(path), chosen, address, schema.column_names()) as table:
            yield table


def read_bytes(text: str) -> int:
    """Return a number of bytes from a text such as 512MiB."""
    number = text.rstrip("KMGiB")
    unit = text[len(number) :]
    if not number.strip().isdecimal() or unit not in _UNITS or int(number) * _UNITS[unit] < 2**20:
        raise InvalidParameterError("memory", text, "must be at least 1MiB, as in 512MiB or 2GiB")
    return int(number) * _UNITS[unit]
