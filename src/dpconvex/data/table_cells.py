"""Tables as cells of a finite domain, and back."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from narwhals.typing import IntoDataFrame

from dpconvex import _validate
from dpconvex._arrow import pa
from dpconvex._types import Array, final_dataclass
from dpconvex.data.cells import AUTO, DEFAULT_BINS, PRIVATE, CategoryCells, CellColumn, NumberBins, OpenCells
from dpconvex.data.columns import Described
from dpconvex.data.formulas import written_dates, written_hours
from dpconvex.data.frames import codes, open_table, texts_series
from dpconvex.data.schema import Schema
from dpconvex.errors import InvalidParameterError

Bins = int | str | Mapping[str, NumberBins]
"""Bins of every numeric column, or of columns by name (others have ``"auto"``): their number, their edges, or
``"private"``, which means 16 bins found by a release."""


@final_dataclass
class TableCells:
    """A finite public domain for the rows of a table: the values of every column.

    >>> from dpconvex.data import NumericColumn, CategoricalColumn, Schema
    >>> schema = Schema((NumericColumn("age", 0, 100), CategoricalColumn("sex", ("Female", "Male"))))
    >>> cells = TableCells.of_schema(schema, bins=4)
    >>> cells.shape, cells.columns[0].labels[0]
    ((4, 2), '[0, 25)')
    """

    columns: tuple[CellColumn, ...]
    described: tuple[Described, ...]  #: the schema's columns

    @classmethod
    def of_schema(
        cls, schema: Schema, names: Sequence[str] | None = None, bins: Bins = DEFAULT_BINS,
        auto: NumberBins = DEFAULT_BINS, public: Collection[str] = (),
    ) -> "TableCells":  # fmt: skip
        """Return the domain of columns, by default all; bins ``"auto"`` mean `auto`, but of `public` columns 16."""
        parts: dict[str, Described] = {column.name: column for column in schema.columns}
        if schema.target is not None:
            parts[schema.target.name] = schema.target
        chosen = tuple(parts) if names is None else tuple(names)
        for name in chosen:
            _validate.choice("columns", name, parts, "Name columns of the schema")
        if not chosen or len(set(chosen)) < len(chosen):
            raise InvalidParameterError("columns", chosen, "must name at least one column, and none twice")
        if isinstance(bins, Mapping):
            for name in bins:
                _validate.choice("bins", name, [name for name in chosen if parts[name].numeric])
        each = {name: bins.get(name, AUTO) if isinstance(bins, Mapping) else bins for name in chosen}
        for name, given in each.items():
            if isinstance(given, str):
                usual = DEFAULT_BINS if name in public else auto
                each[name] = usual if _validate.choice("bins", given, (AUTO, PRIVATE)) == AUTO else given
        return cls(tuple(parts[name].cells(each[name]) for name in chosen), tuple(parts[name] for name in chosen))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of every column."""
        return tuple(len(column.labels) for column in self.columns)

    @property
    def open(self) -> tuple[int, ...]:
        """Positions of the columns whose bins a release has yet to find."""
        return tuple(k for k, column in enumerate(self.columns) if isinstance(column, OpenCells))

    @property
    def ordered(self) -> tuple[int, ...]:
        """Positions of the columns of numbers, whose values have an order."""
        return tuple(k for k, part in enumerate(self.described) if part.numeric)

    def within(self, found: Sequence[tuple[Sequence[float], Sequence[tuple[float, float]]]]) -> "TableCells":
        """Return the domain with the edges found of the open columns, in order, and what lies between them."""
        waiting = iter(found)
        each = (column.within(*next(waiting)) if isinstance(column, OpenCells) else column for column in self.columns)
        return replace(self, columns=tuple(each))

    def encode(self, table: IntoDataFrame) -> Array:
        """Return each row's position in every column's values, int64 (n, columns); no content raises.

        Of open columns the numbers themselves: then all are float64.
        """
        frame = open_table(table, [name for part in self.described for name in part.inputs])
        found = [column.encode(part.read(frame)) for column, part in zip(self.columns, self.described, strict=True)]
        return np.stack(found, axis=1).astype(np.float64 if self.open else np.int64)

    def decode(self, codes: Array, rng: np.random.Generator) -> "pa.Table":
        """Return a row for each row of positions (n, columns); numbers are drawn uniformly inside their bins."""
        found = {}
        for column, part, place in zip(self.columns, self.described, codes.T, strict=True):
            cells, at = column.decode(place, rng), getattr(part, "at", "")
            cells = written_dates(cells, at, getattr(part, "format", "")) if at else cells
            found[column.name] = written_hours(cells) if getattr(part, "date", "") == "hour" else cells
        return pa.table(found)

    @property
    def filled(self) -> dict[str, str]:
        """As which value missing cells count, by column; without those of which the schema says what is to be done."""
        found = {}
        for column, part in zip(self.columns, self.described, strict=True):
            if getattr(part, "indicator", None) is None and not getattr(column, "other", ""):
                label = column.labels[0 if isinstance(column, CategoryCells) else len(column.labels) // 2]
                unnamed = isinstance(column, OpenCells) or getattr(part, "at", "")  # ends of bins of ages are no dates
                found[column.name] = "the middle bin" if unnamed else label
        return found

    def position(self, name: str, label: str) -> tuple[int, int]:
        """Return the number of a column and that of one of its labels."""
        _validate.choice("column", name, self.names)
        labels = self.columns[self.names.index(name)].labels
        found = int(codes(texts_series([label]), labels)[0])  # as cells are read: True is true, 1.0 is 1
        _validate.choice(f"label of {name!r}", labels[found] if found >= 0 else label, labels)
        return self.names.index(name), found
