"""Where records come from when they are not a matrix in memory: tables that are read again and again."""

from dpconvex.problems.data.sources.arrow import open_tables
from dpconvex.problems.data.sources.cells import LEAST, CellRows
from dpconvex.problems.data.sources.cluster import Partitions, open_source, predicted
from dpconvex.problems.data.sources.rows import (
    EncodedRows,
    EncodedTables,
    TableSource,
    each_row,
    mapped,
    picked,
    streamed,
    totals,
)

__all__ = [
    "LEAST",
    "CellRows",
    "EncodedRows",
    "EncodedTables",
    "Partitions",
    "TableSource",
    "each_row",
    "mapped",
    "open_source",
    "open_tables",
    "picked",
    "predicted",
    "streamed",
    "totals",
]
