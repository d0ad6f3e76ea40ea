"""Tables: their public description, reading, writing, and a bundled example."""

from dpconvex._files import write_atomically
from dpconvex.data.columns import CategoricalColumn, NumericColumn
from dpconvex.data.draft import draft_schema
from dpconvex.data.look import look_at
from dpconvex.data.read import adult_schema, check_table, load_adult, load_cities, open_files, read_header, read_table
from dpconvex.data.schema import Schema
from dpconvex.data.table_cells import TableCells
from dpconvex.data.targets import ClassTarget, NumericTarget, UnrangedColumn, UnrangedTarget
from dpconvex.problems.data.sources.rows import in_order

__all__ = [
    "CategoricalColumn", "ClassTarget", "NumericColumn", "NumericTarget", "Schema", "TableCells", "UnrangedColumn",
    "UnrangedTarget", "adult_schema", "check_table", "draft_schema", "in_order", "load_adult", "load_cities",
    "look_at", "open_files", "read_header", "read_table", "write_atomically",
]  # fmt: skip
