"""A local look at what a schema makes of a table, before a budget is spent. Everything here reveals private facts."""

import difflib

import numpy as np
from narwhals.typing import IntoDataFrame

from dpconvex._types import Floats, final_dataclass
from dpconvex.data.columns import OTHER, AbstractColumn, Described
from dpconvex.data.draft import distinct, span
from dpconvex.data.frames import Frame, codes, distinct_values, is_float, label_codes, numbers, open_table, with_nan
from dpconvex.data.schema import Schema
from dpconvex.problems import NumberRange

MANY = 20  #: A look mentions persons with more rows than this, and shows this number of spellings of a column at most.


@final_dataclass
class ColumnLook:
    """The effect of a schema on one column: shares of all rows, between 0 and 1."""

    name: str
    missing: float  #: cells that are empty, listed as missing, or not a number where a number is needed
    unlisted: float  #: for categories and classes, values that are not listed
    clipped: float  #: for numbers, values outside the bounds
    constant: bool  #: whether every row is encoded alike
    #: Share of the target's variance that this column explains by itself, in sample; None without a target.
    signal: float | None
    spellings: dict[str, str]  #: unlisted values, each with the listed one that it resembles, or ""


@final_dataclass
class TableLook:
    """The effect of a schema on a table. Not private: for the eyes of the data's owner."""

    rows: int
    columns: tuple[ColumnLook, ...]
    users: int | None = None  #: number of distinct users, if the schema names their column
    most_rows: int | None = None  #: largest number of rows of one user
    users_with_many: int | None = None  #: number of users with more than `MANY` rows


def look_at(table: IntoDataFrame, schema: Schema) -> TableLook:
    """Look at a table through a schema: a local check that a typo does not cost a budget. Not private, and it says so.

    `SchemaError` where the header lacks a column or a type does not suit the schema, as in a fit.
    """
    frame = open_table(table, schema.column_names())
    columns = (numbers(part.read(frame), texts=True) for part in schema.parts if not part.ranged)
    seen = (span(np.clip(values[np.isfinite(values)], -1e300, 1e300)) for values in columns)
    schema = schema.with_ranges([NumberRange(*ends) for ends in seen])
    wanted = None if schema.target is None else np.asarray(schema.encode_target(frame), dtype=np.float64)
    looks = tuple(_look(frame, part, wanted) for part in schema.parts)
    if schema.user is None:
        return TableLook(len(frame), looks)
    labels = schema.user_labels(frame)
    counts = np.unique(labels[labels >= 0], return_counts=True)[1]
    return TableLook(len(frame), looks, len(counts), int(counts.max(initial=0)), int(np.sum(counts > MANY)))


def _look(frame: Frame, part: Described, wanted: Floats | None) -> ColumnLook:
    series, n = part.read(frame), len(frame)
    spellings: dict[str, str] = {}
    unlisted = clipped = np.zeros(n, bool)
    if part.numeric:
        values = numbers(series, texts=True)
        missing, given = np.isnan(values), part.to_dict()
        clipped = (values < given["lower"]) | (values > given["upper"])
    else:
        raw = frame.get_column(part.name)
        listed = tuple(label for label in part.cells(1).labels if label != OTHER)
        missing = (label_codes(raw) < 0) | (codes(raw, ("", *part.missing)) >= 0)
        unlisted = (codes(series, listed) < 0) & ~missing
        if unlisted.any():
            values = distinct_values(raw.filter(unlisted.tolist()))
            found = [f"{value:g}" for value in with_nan(values)] if is_float(values) else distinct(values)
            spellings = {text: _nearest(text, listed) for text in found[:MANY]}
    empty, other, cut = (float(np.mean(cells)) if n else 0.0 for cells in (missing, unlisted, clipped))
    constant, signal = False, None
    if isinstance(part, AbstractColumn):
        encoded = np.zeros((n, part.block.size))
        part.encode_into(part.compact(series), encoded)
        constant = bool(np.all(encoded == encoded[:1]))
        signal = None if wanted is None else _explained(encoded, wanted)
    return ColumnLook(part.name, empty, other, cut, constant, signal, spellings)


def _nearest(text: str, listed: tuple[str, ...]) -> str:
    """Return the listed value that a text resembles, whatever its case, or ""."""
    lowered = {value.lower(): value for value in listed}
    found = difflib.get_close_matches(text.lower(), lowered, 1, 0.7)
    short = [value for key, value in lowered.items() if text and (key.startswith(text.lower()))]
    return lowered[found[0]] if found else short[0] if len(short) == 1 else ""


def _explained(encoded: Floats, wanted: Floats) -> float:
    """Return the R^2 of a least-squares fit of the target on one encoded column and a constant."""
    if len(np.unique(wanted)) < 2:
        return 0.0
    centered, y = encoded - encoded.mean(0), wanted - wanted.mean()
    gram = centered.T @ centered + 1e-9 * np.eye(encoded.shape[1])
    return float(np.clip(y @ centered @ np.linalg.solve(gram, centered.T @ y) / (y @ y), 0, 1))
