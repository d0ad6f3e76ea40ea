"""Where records come from when they are not a matrix in memory: tables that are read again and again."""

from dpconvex.problems.data.sources.arrow import EncodedTables, open_tables
from dpconvex.problems.data.sources.rows import EncodedRows, StreamedRecords

__all__ = ["EncodedRows", "EncodedTables", "StreamedRecords", "open_tables"]
