"""Tables: their public description, reading, writing, and a bundled example."""

from dpconvex._files import write_atomically
from dpconvex.data.columns import (
    CategoricalColumn,
    ClassTarget,
    NumericColumn,
    NumericTarget,
    UnrangedColumn,
    UnrangedTarget,
)
from dpconvex.data.draft import draft_schema
from dpconvex.data.read import adult_schema, check_table, load_adult, load_cities, open_files, read_header, read_table
from dpconvex.data.schema import Schema
from dpconvex.data.table_cells import TableCells

__all__ = [
    "CategoricalColumn",
    "ClassTarget",
    "NumericColumn",
    "NumericTarget",
    "Schema",
    "TableCells",
    "UnrangedColumn",
    "UnrangedTarget",
    "adult_schema",
    "check_table",
    "draft_schema",
    "load_adult",
    "load_cities",
    "open_files",
    "read_header",
    "read_table",
    "write_atomically",
]
