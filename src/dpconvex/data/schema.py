"""The public description of a table: which columns are features, inside which bounds, and what is predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.data.columns import (
    AbstractColumn,
    AbstractTarget,
    NumericColumn,
    NumericTarget,
    UnrangedColumn,
    UnrangedTarget,
    nonempty,
)
from dpconvex.data.frames import duplicates, label_codes, open_table, require_columns
from dpconvex.data.schema_toml import format_schema, parse_schema, read_schema_text
from dpconvex.errors import InvalidParameterError, SchemaError
from dpconvex.problems import DataDomain, NumberRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.typing import IntoDataFrame


@final
@dataclass(frozen=True)
class Schema:
    """Public facts about a table, and the encoding that puts every record inside them.

    Every range and every category must come from public knowledge (documentation, the meaning of a column), never
    from the private table: privacy is proved for the domain that the schema declares. `encode` reads each record by
    itself and puts it into `domain` whatever it holds, so the guarantee does not rest on the data being clean.

    Parameters
    ----------
    columns : tuple of NumericColumn, UnrangedColumn or CategoricalColumn
        The features, in order; at least one. Columns of the table that are not listed are ignored.
    target : ClassTarget, NumericTarget or UnrangedTarget, optional
        The column to predict.
    user : str, optional
        Name of the column that says whose record it is.
    confirmed : bool
        That a person stands by every range and list as public knowledge. Drafts are not confirmed.
    source : str
        Where the public knowledge comes from; free text.

    Raises
    ------
    InvalidParameterError
        When there is no column, or a name is used twice.

    See Also
    --------
    draft_schema : a first draft of the file, from a table.

    Notes
    -----
    The file format is TOML. Every key other than ``columns`` and ``confirmed`` is optional::

        confirmed = true
        source = "Form 12, page 3"
        user = "person"

        [target]
        name = "income"
        classes = ["<=50K", ">50K"]     # or: lower = 0, upper = 100
        rates = [0.76, 0.24]            # public shares of the classes, optional

        [columns.age]
        lower = 17
        upper = 90

        [columns.gain]
        lower = 0
        upper = 99999
        transform = "log1p"             # default: "none"

        [columns.debt]
        range = "private"               # no public range: a fit finds one, and pays for it

        [columns.colour]
        categories = ["red", "green", "blue"]
        other = true                    # default: false

    Why columns are scaled and centered like this: docs, Objective perturbation, section 4.

    Examples
    --------
    >>> from dpconvex.data import NumericColumn, CategoricalColumn
    >>> schema = Schema((NumericColumn("age", 17, 90), CategoricalColumn("sex", ("Female", "Male"))))
    >>> schema.feature_names
    ('age', 'sex=Male')
    >>> schema.domain().l2 < 0.7072
    True
    """

    columns: tuple[AbstractColumn, ...]
    target: AbstractTarget | None = None
    user: str | None = None
    confirmed: bool = True
    source: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns:
            raise InvalidParameterError("columns", self.columns, "must hold at least one column")
        if self.user is not None:
            nonempty("user", self.user)
        if not isinstance(self.confirmed, bool):
            raise InvalidParameterError("confirmed", self.confirmed, "must be true or false")
        if not isinstance(self.source, str):
            raise InvalidParameterError("source", self.source, "must be text")
        for what, names in (("column", self.column_names()), ("feature", self.feature_names)):
            repeated = duplicates(names)
            if repeated:
                raise InvalidParameterError("name", repeated[0], f"is used by more than one {what}", "Rename one")

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema file; `SchemaError` names the file, the table and the key."""
        return cls.from_toml_text(read_schema_text(path), str(path))

    @classmethod
    def from_toml_text(cls, toml: str, where: str = "schema") -> Schema:
        """Read the text of a schema file; `where` names it in errors (`SchemaError`)."""
        columns, target, rest = parse_schema(toml, where)
        try:
            return cls(columns, target, **rest)
        except InvalidParameterError as error:
            raise SchemaError(f"{where}: {error}") from None

    def to_toml(self) -> str:
        """The schema as the text of a schema file; `from_toml_text` gives an equal schema back."""
        return format_schema(self.columns, self.target, self.user, self.confirmed, self.source)

    def confirm(self) -> Schema:
        """The same schema, confirmed."""
        return replace(self, confirmed=True)

    def require_confirmed(self, where: str = "schema") -> None:
        """Raise `SchemaError` unless a person has confirmed the schema."""
        if not self.confirmed:
            raise SchemaError(
                f"{where}: confirmed=False: a draft is read off the private data, so its ranges and lists may reveal "
                "them. Check every line marked 'read from the data' against public knowledge, then set confirmed = true"
            )

    def column_names(self, features_only: bool = False) -> tuple[str, ...]:
        """Columns of the table that the schema names: the features, and unless `features_only` target and user."""
        names = tuple(column.name for column in self.columns)
        if features_only:
            return names
        target = () if self.target is None else (self.target.name,)
        return names + target + (() if self.user is None else (self.user,))

    @property
    def numeric_names(self) -> frozenset[str]:
        """Columns of the table that hold numbers."""
        target = () if self.target is None else (self.target,)
        return frozenset(part.name for part in (*self.columns, *target) if part.numeric)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per encoded column: ``age``, ``colour=red``, ``colour=(other)``."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def classes(self) -> tuple[str, ...]:
        """The target's public classes; `SchemaError` where the schema has none."""
        if self.target is None or not self.target.labels:
            raise SchemaError("the schema declares no classes. Add [target] with name and classes")
        return self.target.labels

    def domain(self) -> DataDomain:
        """The domain of the encoded records, one block a column, without an intercept.

        Numeric and two-category columns are one feature of absolute value at most 1/2, others an l1 block of bound 1.
        """
        for column in self.unranged:
            raise column.undeclared
        return DataDomain(tuple(column.block for column in self.columns))

    @property
    def unranged(self) -> tuple[UnrangedColumn, ...]:
        """The features whose ranges are to be found privately."""
        return tuple(column for column in self.columns if isinstance(column, UnrangedColumn))

    def with_ranges(self, found: Sequence[NumberRange]) -> Schema:
        """Return the schema with released ranges: of the columns that have none, in order, then of such a target."""
        waiting = iter(found)
        columns = (
            tuple(self.columns)
            if not found
            else tuple(c if c.ranged else NumericColumn(c.name, *next(waiting).fields) for c in self.columns)
        )
        target, last = self.target, next(waiting, None)
        if target is not None and not target.ranged and last is not None:
            target = NumericTarget(target.name, last.lower, last.upper)
        return replace(self, columns=columns, target=target)

    def without_ranges(self) -> Schema:
        """Return the schema with the ranges of all numeric columns, and of a numeric target, left to private fits."""
        return replace(
            self,
            columns=tuple(UnrangedColumn(c.name) if c.numeric else c for c in self.columns),
            target=UnrangedTarget(self.target.name) if self.target is not None and self.target.numeric else self.target,
        )

    def encode(self, table: IntoDataFrame) -> FloatArray:
        """The table as bounded features, float64 (n, ``domain().n_features``): every row lies in ``domain()``.

        Columns that the schema does not name are ignored, and their order does not matter. A column that is missing or
        whose type (never its content) does not suit the schema raises `SchemaError`; what is no table,
        `InvalidDataError`.
        """
        frame = open_table(table)
        require_columns(frame.columns, self.column_names(features_only=True), "the table")
        blocks = [column.block.size for column in self.columns]
        out = np.zeros((len(frame), sum(blocks)))
        stop = 0
        for column, size in zip(self.columns, blocks, strict=True):
            start, stop = stop, stop + size
            column.encode_into(frame.get_column(column.name), out[:, start:stop])
        return out

    def user_labels(self, table: IntoDataFrame) -> AnyArray:
        """Numbers that say whose record it is, (n,), -1 where nobody is named; `SchemaError` without a user column."""
        if self.user is None:
            raise SchemaError("the schema names no user column. Add user with the name of the column")
        frame = open_table(table)
        require_columns(frame.columns, (self.user,), "the table")
        return label_codes(frame.get_column(self.user))

    def encode_target(self, table: IntoDataFrame) -> AnyArray:
        """The target column inside its public values, (n,); raises as `encode`, and where the schema has no target.

        Of classes the positions in `classes` (int64; missing and unlisted labels count as the first class), of numbers
        the values clipped to the range (float64; missing values count as the mid-range).
        """
        if self.target is None:
            raise SchemaError("the schema declares no target. Add [target] with name and classes")
        frame = open_table(table)
        require_columns(frame.columns, (self.target.name,), "the table")
        return self.target.encode(frame.get_column(self.target.name))
