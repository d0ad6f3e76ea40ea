"""Where records come from when they are not a matrix in memory: tables that are read again and again."""

from dpconvex.problems.data.sources.arrow import EncodedTables, open_tables
from dpconvex.problems.data.sources.cells import LEAST, CellRows
from dpconvex.problems.data.sources.cluster import (
    EncodedPartitions,
    Partitions,
    open_partitions,
    open_source,
    predicted,
)
from dpconvex.problems.data.sources.rows import EncodedRows, TableSource, each_row, mapped, picked, streamed, totals

__all__ = [
    "LEAST",
    "CellRows",
    "EncodedPartitions",
    "EncodedRows",
    "EncodedTables",
    "Partitions",
    "TableSource",
    "each_row",
    "mapped",
    "open_partitions",
    "open_source",
    "open_tables",
    "picked",
    "predicted",
    "streamed",
    "totals",
]
