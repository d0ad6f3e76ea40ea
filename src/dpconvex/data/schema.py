"""The public description of a table: which columns are features, inside which bounds, and what is predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from narwhals.typing import IntoDataFrame
from scipy.sparse import coo_array

from dpconvex import _validate
from dpconvex._files import AnyPath
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.data.cells import PRIVATE
from dpconvex.data.columns import AbstractColumn, CategoricalColumn, Described, nonempty
from dpconvex.data.frames import duplicates, label_codes, numbers, open_table, refuse_impossible
from dpconvex.data.schema_toml import format_schema, parse_schema, parse_toml, read_schema_text
from dpconvex.data.targets import AbstractTarget, UnrangedColumn, without_range
from dpconvex.errors import InvalidParameterError, SchemaError
from dpconvex.problems import DataDomain, NumberRange
from dpconvex.problems.data.domain import center
from dpconvex.problems.data.summation import SPARSE

_TILE, _LEAST_ROWS = 2**17, 256
"""Number of floats encoded at a time, column by column, so that they stay in the cache; least rows of wide tables."""


@final_dataclass
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
    weight : str, optional
        Name of the column of sample weights.
    weight_cap : float, optional
        Public bound on them, needed with `weight`: larger weights are clipped to it.
    line_breaks : bool
        That cells of CSV files may hold line breaks. False: a line is a record, whatever stands in any line.

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
        line_breaks = false             # in cells of CSV files; default: true

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

        [columns.color]
        categories = ["red", "green", "blue"]
        other = true                    # default: false
        aliases = { rouge = "red" }     # other spellings

        [columns.bmi]
        formula = "weight / (height / 100) ** 2"
        lower = 10
        upper = 80
        missing = [-999]                # in weight or height
        indicator = true                # a feature that says that the value is missing

    All keys: docs, Schemas.

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
    weight: str | None = None
    weight_cap: float | None = None
    line_breaks: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns:
            raise InvalidParameterError("columns", self.columns, "must hold at least one column")
        if self.user is not None:
            nonempty("user", self.user)
        for name in ("confirmed", "line_breaks"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidParameterError(name, getattr(self, name), "must be true or false")
        if not isinstance(self.source, str):
            raise InvalidParameterError("source", self.source, "must be text")
        if (self.weight is None) != (self.weight_cap is None):
            what = "must be given with weight, and only then"
            raise InvalidParameterError("weight_cap", self.weight_cap, what, "Give the column and a public bound")
        if self.weight is not None:
            nonempty("weight", self.weight)
            object.__setattr__(self, "weight_cap", _validate.real("weight_cap", self.weight_cap, above=0.0))
        columns = tuple(part.name for part in self.parts) + self._others
        for what, names in (("column", columns), ("feature", self.feature_names)):
            if repeated := duplicates(names):
                raise InvalidParameterError("name", repeated[0], f"is used by more than one {what}", "Rename one")
        read: dict[str, bool] = {}
        for part in reversed(self.parts):
            for name, numeric in part.inputs.items():
                if name != part.name and name in (*self._others, self.target and self.target.name):
                    what = "is the target, the user or the weight, so no formula may use it"
                    raise InvalidParameterError("formula", name, what, "Leave it out of the formula")
                if read.setdefault(name, numeric) != numeric:
                    what = "is read as a number by one column, and as text or a date by another"
                    raise InvalidParameterError("name", name, what, "Make a column of its own of one of them")

    @classmethod
    def from_toml(cls, path: AnyPath) -> "Schema":
        """Read a schema file; `SchemaError` names the file, the table and the key."""
        return cls.from_toml_text(read_schema_text(path), str(path))

    @classmethod
    def from_toml_text(cls, toml: str, where: str = "schema") -> "Schema":
        """Read the text of a schema file; `where` names it in errors (`SchemaError`)."""
        return cls.from_dict(parse_toml(toml, where), where)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str = "schema") -> "Schema":
        """Read what a schema file holds, as a dictionary; `where` names it in errors (`SchemaError`)."""
        columns, target, rest = parse_schema(content, where)
        try:
            return cls(columns, target, **rest)
        except InvalidParameterError as error:
            raise SchemaError(f"{where}: {error}") from None

    def __repr__(self) -> str:  # estimators show it among their parameters; `to_toml` has all
        target = "no target" if self.target is None else f"target {self.target.name!r}"
        return f"<Schema: {len(self.columns)} columns, {target}, {'' if self.confirmed else 'not '}confirmed>"

    def to_toml(self) -> str:
        """The schema as the text of a schema file; `from_toml_text` gives an equal schema back."""
        rest = {key: getattr(self, key) for key in ("source", "user", "weight", "weight_cap")}
        line_breaks = None if self.line_breaks else False
        return format_schema(self.columns, self.target, self.confirmed, **rest, line_breaks=line_breaks)

    def confirm(self) -> "Schema":
        """The same schema, confirmed."""
        return replace(self, confirmed=True)

    def require_confirmed(self, where: str = "schema") -> None:
        """Raise `SchemaError` unless a person has confirmed the schema: every fit does, plans do not."""
        if not self.confirmed:
            what = "a draft is read off the private data, so its ranges and lists may reveal them"
            check = "Check every line marked 'read from the data' against public knowledge"
            raise SchemaError(f"{where}: confirmed=False: {what}. {check}, then set confirmed = true")

    def column_names(self, features_only: bool = False) -> tuple[str, ...]:
        """Columns of the table that the schema names: the features, and unless `features_only` target and user."""
        names = tuple(dict.fromkeys(name for column in self.columns for name in column.inputs))
        if features_only:
            return names
        return names + tuple(part.name for part in self.parts[len(self.columns) :]) + self._others

    @property
    def parts(self) -> tuple[Described, ...]:
        """The columns that are features, and the target where there is one."""
        return self.columns if self.target is None else (*self.columns, self.target)

    @property
    def _others(self) -> tuple[str, ...]:
        return tuple(name for name in (self.user, self.weight) if name is not None)

    @property
    def numeric_names(self) -> frozenset[str]:
        """Columns of the table that hold numbers."""
        found = {name for part in self.parts for name, numeric in part.inputs.items() if numeric}
        return frozenset(found if self.weight is None else found | {self.weight})

    @property
    def sources(self) -> dict[str, str]:
        """The stated source of bounds or list, for each column (and target) that states one."""
        return {part.name: part.source for part in self.parts if part.source}

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name per encoded column: ``age``, ``color=red``, ``color=(other)``."""
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
        if self.unranged:
            remedy = "Give lower and upper, or use a linear or additive model, which finds ranges privately"
            raise InvalidParameterError("range", PRIVATE, f"of {self.unranged[0].name!r} must be declared here", remedy)
        return DataDomain(tuple(column.block for column in self.columns))

    @property
    def unranged(self) -> tuple[UnrangedColumn, ...]:
        """The features whose ranges are to be found privately."""
        return tuple(column for column in self.columns if isinstance(column, UnrangedColumn))

    def with_ranges(self, found: Sequence[NumberRange] | Mapping[str, NumberRange]) -> "Schema":
        """Return the schema with released ranges: by name, or of all parts that have none, then of the target."""
        names = [part.name for part in self.columns if not part.ranged] + ([self.target.name] if self.target else [])
        given = found if isinstance(found, Mapping) else dict(zip(names, found, strict=False))

        def closed(part: Any) -> Any:
            return part.within(given[part.name]) if part and part.name in given else part

        return replace(self, columns=tuple(map(closed, self.columns)), target=closed(self.target))

    def without_ranges(self) -> "Schema":
        """Return the schema with the ranges of all numeric columns, and of a numeric target, left to private fits."""
        return replace(self, columns=tuple(map(without_range, self.columns)), target=without_range(self.target))

    def encode(self, table: IntoDataFrame) -> Floats:
        """The table as bounded features, float64 (n, ``domain().n_features``): every row lies in ``domain()``.

        Columns that the schema does not name are ignored, and their order does not matter. A column that is missing or
        whose type (never its content) does not suit the schema raises `SchemaError`; what is no table,
        `InvalidDataError`.
        """
        return self.encode_cells(self.compact(table))

    def compact(self, table: IntoDataFrame) -> tuple[Array, ...]:
        """The cells of every column in few bytes, each (n,), for `encode_cells`; raises as `encode`."""
        frame = open_table(table, self.column_names(features_only=True))
        return tuple(column.compact(column.read(frame)) for column in self.columns)

    def encode_cells(self, cells: Sequence[Array], missing: float = 0.0) -> Floats:
        """The features of compact cells, as `encode` returns them; `missing`: that of a number where none is."""
        ends = np.cumsum([0, *(column.block.size for column in self.columns)]).tolist()
        parts = [*zip(self.columns, cells, pairwise(ends), [c.interval for c in self.columns], strict=True)]
        out = np.zeros((len(cells[0]), ends[-1]))
        plain = [(values, interval, start) for _, values, (start, _), interval in parts if interval is not None]
        center(plain, out, missing)
        others = [part for part in parts if part[-1] is None]
        step = max(_LEAST_ROWS, _TILE // ends[-1])
        for rows in (slice(first, first + step) for first in range(0, len(out), step)):
            for column, values, (start, stop), _ in others:
                column.encode_into(values[rows], out[rows, start:stop], missing)
        return out

    def sparse_cells(self, cells: Sequence[Array], missing: float = 0.0) -> Any:
        """The same features as a sparse matrix (CSR); as an array where many cells have no level, and so all levels."""
        starts = np.cumsum([0, *(column.block.size for column in self.columns)])
        parts = zip((column.block for column in self.columns), cells, strict=True)
        full = sum(np.count_nonzero(own < 0) * block.size for block, own in parts if block.categorical)
        if SPARSE * full > len(cells[0]) * starts[-1]:
            return self.encode_cells(cells, missing)
        found = [column.entries(own, missing) for column, own in zip(self.columns, cells, strict=True)]
        columns = [first + own for first, (_, own, _) in zip(starts, found, strict=False)]
        at = np.concatenate([rows for rows, *_ in found]), np.concatenate(columns)
        return coo_array((np.concatenate([v for *_, v in found]), at), (len(cells[0]), int(starts[-1]))).tocsr()

    def user_labels(self, table: IntoDataFrame) -> Array:
        """Numbers that say whose record it is, (n,), -1 where nobody is named; `SchemaError` without a user column."""
        if self.user is None:
            raise SchemaError("the schema names no user column. Add user with the name of the column")
        return label_codes(open_table(table, (self.user,)).get_column(self.user))

    def weights(self, table: IntoDataFrame) -> Floats:
        """The weight column, (n,), NaN where it is missing; `SchemaError` without one."""
        if self.weight is None:
            raise SchemaError("the schema names no weight column. Add weight and weight_cap")
        return numbers(open_table(table, (self.weight,)).get_column(self.weight), texts=True)

    def encode_target(self, table: IntoDataFrame) -> Array:
        """The target column inside its public values, (n,); raises as `encode`, and where the schema has no target.

        Of classes the positions in `classes` (int64; missing and unlisted labels count as the first class), of numbers
        the values clipped to the range (float64; missing values count as the mid-range).
        """
        if self.target is None:
            raise SchemaError("the schema declares no target. Add [target] with name and classes")
        return self.target.encode(open_table(table, (self.target.name,)).get_column(self.target.name))


def require_possible(parts: Sequence[Described], table: IntoDataFrame) -> None:
    """Raise `SchemaError` where no cell of a column's type, which is public, can be one of its categories.

    For fits of whole tables: the types of a few rows, or of one partition, may follow from a cell.
    """
    frame = open_table(table, dict.fromkeys(name for part in parts for name in part.inputs))
    for part in parts:
        if isinstance(part, CategoricalColumn) and not part.date:
            refuse_impossible(frame.get_column(part.name), (*part.categories, *part.aliases), every=True)
