"""PyArrow, which is an extra: its modules, each imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dpconvex import _validate


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        _validate.installed("pyarrow")
        return getattr(import_module(self.__name__), name)


if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv as pacsv, parquet as pq
else:
    pa, pacsv, pq = map(_Later, ("pyarrow", "pyarrow.csv", "pyarrow.parquet"))

pc: Any = _Later("pyarrow.compute")  # most of its functions are made on import, unseen by type checkers

__all__ = ["pa", "pacsv", "pc", "pq"]
