"""PyArrow, which is an extra: its modules, each imported when it is first used."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dpconvex import _validate
from dpconvex.errors import InvalidDataError


class _Later(ModuleType):
    def __getattr__(self, name: str) -> Any:
        _validate.installed("pyarrow")
        found = getattr(import_module(self.__name__), name)
        vars(self)[name] = found  # asked once
        return found


if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv as pacsv, parquet as pq
else:
    pa, pacsv, pq = map(_Later, ("pyarrow", "pyarrow.csv", "pyarrow.parquet"))

pc: Any = _Later("pyarrow.compute")  # type checkers do not see its functions, most of which are made on import


def without_views(values: Any) -> Any:
    """Return an Arrow table or chunked array with text views turned into plain texts: Arrow cannot filter views."""
    if isinstance(values, pa.Table):
        for k, each in enumerate(values.schema):
            if (kind := _usual(each.type)) != each.type:
                values = values.set_column(k, each.name, values.column(k).cast(kind))
        return values
    return values.cast(_usual(values.type))


def same_types(data: Any, columns: Collection[str]) -> None:
    """Raise where files of an Arrow data set give one of these columns other types: whether casts fail is content."""
    for part in data.get_fragments():
        for each in part.physical_schema:
            usual = data.schema.field(each.name).type if each.name in columns else each.type
            if each.type not in (usual, pa.null()):
                what = f"the files give the column {each.name!r} the types {usual} and {each.type}"
                raise InvalidDataError(f"{what}. Write them with the same types: whole numbers as floats, for example")


def _usual(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


__all__ = ["pa", "pacsv", "pc", "pq", "same_types", "without_views"]
