"""How much memory the columns of a Parquet file need, from what the file declares and before anything is unpacked.

A file of some kilobytes can hold a text of a megabyte once and name it in a million cells. So columns of text are read
as levels and positions, and never written out; columns of lists and records, no features as they are, not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_POSITION = 8  # bytes of the position of a level, or of the end of a text


def cell_width(kind: pa.DataType) -> int | None:
    """Return the bytes of a cell of this type, those of its text left out; None for types that are not read."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        inner = cell_width(kind.value_type)
        return None if inner is None else _POSITION + inner
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return None
    return _POSITION if is_text(kind) or pa.types.is_null(kind) else max(1, kind.bit_width // 8)


def is_text(kind: pa.DataType) -> bool:
    """Return whether cells are texts or bytes, of any length."""
    import pyarrow.types as types

    tests = (types.is_string, types.is_large_string, types.is_string_view)
    return any(test(kind) for test in (*tests, types.is_binary, types.is_large_binary, types.is_binary_view))


def declared(metadata: pq.FileMetaData, kinds: Mapping[str, pa.DataType]) -> tuple[int, list[str]]:
    """Return how many bytes some columns take at most, and which of them can be read as levels.

    Parameters
    ----------
    metadata : pyarrow.parquet.FileMetaData
        Of the file.
    kinds : mapping of str to pyarrow.DataType
        Names and types of the columns; those whose type has no `cell_width` are left out.
    """
    widths = {name: width for name, kind in kinds.items() if (width := cell_width(kind)) is not None}
    size = metadata.num_rows * sum(widths.values())
    levels = {name for name in widths if is_text(kinds[name])}
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        for chunk in (group.column(j) for j in range(group.num_columns)):
            if chunk.path_in_schema in widths:
                # A text that is stored as its difference from the one before may be as long as all that is stored.
                times = chunk.num_values if "DELTA_BYTE_ARRAY" in chunk.encodings else 1
                size += chunk.total_uncompressed_size * times
                if any(encoding.startswith("DELTA") for encoding in chunk.encodings):
                    levels.discard(chunk.path_in_schema)
    return size, sorted(levels)
