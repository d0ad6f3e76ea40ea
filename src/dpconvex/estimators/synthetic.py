"""`PrivateSyntheticData`: a private table that answers a family of marginals, as a scikit-learn style estimator."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, astuple, field, replace
from typing import Any, ClassVar, Self, cast, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpconvex import _progress, _validate
from dpconvex._arrow import pa
from dpconvex._types import Array, Floats
from dpconvex.algorithms import begin
from dpconvex.algorithms.queries import tails, target_model
from dpconvex.algorithms.queries.base import QueryReleasePlan
from dpconvex.algorithms.queries.found_bins import FoundBinsPlan, Open, pays
from dpconvex.algorithms.queries.registry import FINDING, plan_queries
from dpconvex.algorithms.queries.released_tables import Marginal, ReleasedModel, ReleasedTables
from dpconvex.algorithms.queries.target_model import TargetModelPlan
from dpconvex.algorithms.search.plan import Part, fit
from dpconvex.algorithms.select import Plans
from dpconvex.data import Schema
from dpconvex.data.cells import AUTO, MISSING, PRIVATE, CellColumn, NumberCells
from dpconvex.data.frames import open_table
from dpconvex.data.schema import require_possible
from dpconvex.data.table_cells import Bins, TableCells
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators import _target_model
from dpconvex.estimators._descriptions import RELEASED, SEED, final_estimator
from dpconvex.estimators._features import checked_schema
from dpconvex.estimators._matrices import same_length
from dpconvex.estimators._private import PrivateEstimator
from dpconvex.estimators._streams import open_users, users_of
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import NumberRange
from dpconvex.problems.data.sources.cluster import open_source
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import BitSource, source_from


@final_estimator(released=RELEASED, seed=SEED)
class PrivateSyntheticData(PrivateEstimator):
    """Synthetic records under differential privacy, whose marginal tables are near those of the data.

    Every column gets finitely many values (categories as they are, numbers in bins). With up to 100 columns, noisy
    tables of every column and of every pair of columns are released; a distribution over all columns is fitted to them,
    from which any number of records is drawn at no further cost. Other methods, and tables of more columns, keep one
    histogram over all combinations of values, of which there may be 2^27 at most.

    Guarantee: everything that `fit` learns from data is (epsilon, delta)-differentially private for neighbors that
    replace one record, or all records of one user (`groups`), of a public number, or add or remove one record, of a
    private number; nothing else depends on the data.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, positive.
    delta : float, default=1e-6
        0, or in (0, 1/2) and far below 1/n. 0 is pure privacy, at two to three times the error.
    schema : Schema
        Public description of the table. For columns with ``range = "private"`` a fit finds range and bins, and pays for
        them: about a twelfth of epsilon for all such columns together.
    columns : sequence of str, optional
        Columns to use, of the schema's features and target. Default: all.
    bins : {"auto", "private"}, int, or mapping from column names to one of them or edges, default="auto"
        Bins of numeric columns: the number of public bins of equal width, or public edges; ``"private"`` stands for 16
        bins that a fit finds, for 4 % of epsilon for all such columns together. ``"auto"`` finds them where noise is
        small enough (a public fact), else takes 16 of equal width. For a private range: at most 32 bins, or edges.
    order : int, default=2
        Number of columns of the marginal tables to answer; with fewer columns than that, one table of all of them.
        A higher order means more tables and larger errors.
    algorithm : str, default="auto"
        ``"auto"`` takes noisy tables for orders 1 and 2, else the method with the smallest predicted error, from public
        facts. If noise would hide the tables of all pairs of columns, it measures a privately chosen forest of pairs,
        or (from sixteen columns on) pairs of grouped values; if noise is still too large, it measures columns alone.
    constants : {"calibrated", "paper"}
        Tight constants, or the paper's (repaired) ones.
    target_share : float, default=0.0
        Share of epsilon for a private linear model of the schema's target, which the target of drawn records then
        follows; 0: it follows tables of pairs, as all columns do. For records that models are trained on: 0.3.
    impossible : sequence of mappings, optional
        Pairs of values that no record has together, as ``{"sex": "Male", "relationship": "Wife"}``: public knowledge.
        Such records are counted in the data, but never drawn. For noisy tables and chosen forests.
    neighbors : {"replace_one", "add_or_remove_one"}
        What the promise is about. With ``"add_or_remove_one"`` the number of records is private too, and the noise on
        counts is half as large (by the root of 2 if Gaussian) at the same epsilon, which promises less: replacing a
        record costs up to ``2 epsilon`` then, so epsilons of the two cannot be compared. For noisy tables, in memory.
    rows : int, optional
        A public guess of the number of records, for ``"add_or_remove_one"`` alone, which needs it: plans, and the size
        of samples, follow from it and not from the data. Privacy does not rest on it. Never count it.
    {seed}

    Attributes
    ----------
    cells_ : TableCells
        The public domain: names and values of every column, and the value that missing cells count as (``filled``).
    queries_ : Marginals
        The marginal tables.
    model_ : ReleasedModel
        The released distribution.
    tables_ : ReleasedTables or None
        The noisy tables, where they were released: entries have any sign, tables are not consistent; they are unbiased
        if the number of records is public. If it is private, ``tables_.total`` is its estimate from the tables.
    histogram_ : array of shape ``cells_.shape``
        Released shares of all combinations, which sum to 1; not available for more than 2^27 combinations.
    answers_ : array of shape (n_queries,)
        Released answers to the marginals.
    target_model_ : PrivateLinearModel or None
        The released model of the target, with a certificate of its own share; None without a ``target_share``.
    ranges_ : dict of NumberRange
        Ranges that were found, by column; empty where all were declared.
    found_schema_ : Schema
        The schema with these ranges, which are public from then on.
    {released}

    Notes
    -----
    Beyond the last bin of a numeric column that stands out from noise, shares fall off by a fixed law, so that noise
    does not pass for records far out (`algorithms.queries.tails`). Only tables of `order` columns are measured;
    relations of more columns are the model's guess. Hypothesis tests on synthetic records do not account for the noise.

    References
    ----------
    Gonzalez, Guzman and Paquette, "Mirror Descent Algorithms with Nearly Dimension-Independent Rates for
    Differentially-Private Stochastic Saddle-Point Problems", Theorem 1.1; Hardt, Ligett and McSherry (2012). Latent
    classes: Goodman (1974).

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from dpconvex import CategoricalColumn, NumericColumn, PrivateSyntheticData, Schema
    >>> schema = Schema((NumericColumn("age", 0, 100), CategoricalColumn("smokes", ("no", "yes"))))
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(0, 100, 20_000)
    >>> table = pa.table({"age": age, "smokes": np.where(rng.random(20_000) < age / 200, "yes", "no")})
    >>> private = PrivateSyntheticData(epsilon=1.0, schema=schema, bins=4).fit(table)
    >>> private.marginal("smokes").round(2)
    array([0.75, 0.25])
    >>> private.sample(3).column_names
    ['age', 'smokes']
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    schema: Schema | None = None
    columns: Sequence[str] | None = None
    bins: Bins = AUTO
    order: int = 2
    algorithm: str = "auto"
    constants: str = "calibrated"
    target_share: float = 0.0
    impossible: Sequence[Mapping[str, str]] | None = None
    neighbors: str = "replace_one"
    rows: int | None = None
    random_state: int | BitSource | None = None
    verbose: bool = False
    cells_: TableCells = field(init=False)
    queries_: Marginals = field(init=False)
    model_: ReleasedModel = field(init=False)
    tables_: ReleasedTables | None = field(init=False)
    answers_: Floats = field(init=False)
    target_model_: PrivateLinearModel | None = field(init=False)
    ranges_: dict[str, NumberRange] = field(init=False)
    plan_: QueryReleasePlan = field(init=False)
    _string: ClassVar[bool] = True

    def plan(self, n: int | None = None, *, unit: str | None = None) -> tuple[QueryReleasePlan, ...]:
        """Return all plans for `n` records, or else for `rows`, the smallest predicted error first. Sees no data.

        The `unit`, "record" or "user", is what is protected: a row, or all rows of a user, which `n` then counts.
        Default: users if the schema names their column.
        """
        n, privacy = self._promise(n, self._unit(unit))
        return self._plans(self._cells(n, privacy), n, privacy)

    def domain(self, n: int | None = None, *, unit: str | None = None) -> TableCells:
        """Return the columns' values that a fit to `n` records starts from; parameters as in `plan`. Sees no data."""
        return self._cells(*self._promise(n, self._unit(unit)))

    def _unit(self, unit: str | None) -> Unit:
        usual = Unit.RECORD if self._user is None else Unit.USER
        return Unit(_validate.choice("unit", usual if unit is None else unit, tuple(Unit)))

    def _plans(
        self, cells: TableCells, n: int, privacy: PrivacyParams, sums: bool = False
    ) -> tuple[QueryReleasePlan, ...]:
        how = {"constants": self.constants, "sums": sums}
        if cells.open:
            linear = [k for k in cells.open if getattr(cells.described[k], "transform", "auto") == "none"]
            missing = [k for k in cells.open if MISSING in cells.columns[k].labels]
            each: Any = [(k, cells.columns[k]) for k in cells.open]
            declared = [(k, *astuple(one.declared), one.step) for k, one in each if one.declared]
            how["open"] = Open(cells.open, tuple(linear), tuple(missing), tuple(declared))
        queries, share = self._queries(cells), self.target_share
        if _validate.real("target_share", share, at_least=0.0, below=1.0) == 0:
            return plan_queries(queries, n, privacy, self.algorithm, **how)
        candidate, left = _target_model.planned(checked_schema(self.schema), cells.names, n, privacy, share, sums)
        asked = (target_model.without(queries, cast(int, queries.center)), queries)
        each = [plan_queries(one, n, left, self.algorithm, **how) for one in asked]
        found = cast(Plans[QueryReleasePlan], min(each, key=lambda plans: plans[0].ranked))
        return found.changed(target_model.plan(one, candidate, privacy) for one in found)

    def _promise(self, n: int | None, unit: Unit) -> tuple[int, PrivacyParams]:
        """Return the public number of records or users, and what is promised."""
        relation = self._relation
        if unit == Unit.USER and not relation.fixes_size:
            remedy = "Leave it out, or protect single records: no groups, no user column"
            raise InvalidParameterError("neighbors", self.neighbors, "must be 'replace_one' for users", remedy)
        return self._public_count(n), PrivacyParams(self.epsilon, self.delta, relation, unit)

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release a distribution whose marginals are near those of a table.

        Parameters
        ----------
        X : data frame
            A pandas, polars or pyarrow table with the schema's columns, one record a row. No row is refused or left
            out: missing numbers count as the middle bin, or as a value of their own (an `indicator` in the
            schema), missing and unlisted labels as the level ``(other)``, or else as the first category.
        y : None
            Ignored.
        groups : array of shape (n,), optional
            Whose row it is. Then all rows of a user are protected together, by noisy tables of one or two columns:
            tables are means over users of the shares of their own rows, and the number of users counts as public.
            Default: the schema's user column, if it names one.

        Raises
        ------
        InvalidDataError, SchemaError
            If `X` is no table, has no rows, or a column is missing or of a wrong type.
        InvalidParameterError
            If a parameter is missing or out of range.
        """
        source = source_from(self.random_state)
        schema, user = checked_schema(self.schema), self._user if groups is None else None
        schema.require_confirmed()
        described = TableCells.of_schema(schema, self.columns).described
        names = dict.fromkeys((*(name for part in described for name in part.inputs), *((user,) if user else ())))
        table = open_source(X, tuple(names))
        if table is not None and not self._relation.fixes_size:
            what = "is for tables in memory"
            raise InvalidParameterError("neighbors", self.neighbors, what, "Read the table into a frame")
        rows, unit = len(open_table(X) if table is None else table), Unit.RECORD
        public = rows if self._relation.fixes_size else None
        if public == 0:
            raise InvalidDataError("Found array with 0 sample(s): at least 1 record is needed")
        empty = not self._relation.fixes_size  # else an error would tell of records
        users = users_of(schema, X, groups, empty=empty) if table is None else open_users(schema, table, groups)
        if users is not None:
            same_length(rows, users.n_records, "groups", private=True)
            public, unit = users.n_users, Unit.USER
        n, privacy = self._promise(public, unit)
        cells = self._cells(n, privacy)

        def encode(portion: Any) -> tuple[Array, Array]:
            found = cells.encode(portion)
            return found, found[:, 0]

        records: Any = cells.encode(X if table is None else table.empty)  # what it refuses, before it is paid for
        require_possible(described, X if table is None else table.empty)
        records = records if table is None else table.encoded(encode, len(cells.columns))
        self.plan_ = self._plans(cells, n, privacy, sums=table is not None)[0]
        paid = begin(self.plan_, type(self).__name__, cells.names, self.plan_.n, source)
        with _progress.shown(type(self).__name__, self.verbose):
            self.target_model_ = None
            if isinstance(self.plan_, TargetModelPlan):
                part = Part(X if table is None else table, None, None if users is None else users.codes)
                self.target_model_ = cast(PrivateLinearModel, fit(self.plan_.model, part, source))
            result = self.plan_.run(records, source, users)
        self.plan_, self.ranges_ = result.plan, {}
        ran = result.plan.then if isinstance(result.plan, TargetModelPlan) else result.plan
        if isinstance(ran, FoundBinsPlan):
            self.ranges_ = {cells.names[k]: one for k, one in ran.found.items()}
            cells = cells.within(ran.bins)
        self.model_, self.tables_, self.answers_ = result.model, result.tables, result.answers
        if result.tables is not None:
            numbers = {k: one for k, one in enumerate(cells.columns) if isinstance(one, NumberCells)}
            given = {k: (one.edges, one.law) for k, one in numbers.items()}
            self.model_, laws = tails.mended(result.model, result.tables, given)
            mended: dict[int, CellColumn] = {k: replace(one, law=laws[k]) for k, one in numbers.items()}
            cells = replace(cells, columns=tuple(mended.get(k, one) for k, one in enumerate(cells.columns)))
        self.cells_, self.queries_ = cells, self._queries(cells)
        if self.target_model_ is not None:
            self.model_ = _target_model.described(self.target_model_, self.model_, result.tables, cells, self.queries_)
        if self.model_ is not result.model:
            self.answers_ = self.model_.answers(self.queries_.subsets)
        self.certificate_, self.n_features_in_ = paid.named(result.certificate), len(cells.columns)
        return self

    def sample(self, size: int | None = None, random_state: int | None = None) -> "pa.Table":
        """Draw synthetic records from the released distribution; costs no privacy.

        Counts are rounded together, not drawn one by one (but a modelled target): the records' tables are as near the
        model's as their number allows. Several samples share the noise of one release, so the rules for combining
        imputed tables give invalid intervals for them (docs, Synthetic data); those of `marginal` are valid.

        Parameters
        ----------
        size : int, optional
            Number of records. Default: as many as the data had records, or users where these are protected, or `rows`
            where their number is private.
        random_state : int, optional
            Seed of the draws.

        Returns
        -------
        pyarrow.Table
            Categories are text (null for the level ``(other)``). Numbers are uniform in public bins, as multiples of
            the schema's `step`, as dates if they are ages of dates, else rounded to three digits of their bin's width.
        """
        check_is_fitted(self)
        rng = np.random.default_rng(random_state)
        return self.cells_.decode(self.model_.sample(self.plan_.n if size is None else size, rng), rng)

    @property
    def found_schema_(self) -> Schema:
        """The schema with the ranges that were found."""
        check_is_fitted(self)
        return cast(Schema, self.schema).with_ranges(self.ranges_)

    @property
    def histogram_(self) -> Floats:
        """Released shares of all combinations, where there are at most 2^27."""
        return self.model_.marginal(range(len(self.cells_.shape)))

    @overload
    def marginal(self, *columns: str) -> Floats: ...
    @overload
    def marginal(self, *columns: str, interval: float, together: bool = False) -> Marginal: ...
    def marginal(self, *columns: str, interval: float | None = None, together: bool = False) -> Floats | Marginal:
        """Return the released shares of all combinations of values of `columns`, with one axis per column, in order.

        Parameters
        ----------
        *columns : str
            Names of columns; their combinations may be 2^27 at most.
        interval : float, optional
            Level of intervals for the *data's* shares, such as 0.95: they use the noisy table alone and hold whatever
            the model does. They need one or two columns whose table was measured (`tables_`). With users they are for
            the mean over users of their own shares.
        together : bool
            Whether all intervals of the table hold at once with that probability, or each by itself.

        Returns
        -------
        array, or with `interval` a Marginal
            Shares; with `interval` also the bounds ``low``, ``high``, and whether the model ``fits`` between them. In
            the order of ``labels`` of the columns in ``cells_.columns``, which are levels, or bins between ``edges``.

        Raises
        ------
        InvalidParameterError
            If a column is unknown or named twice, or no interval is available.
        """
        check_is_fitted(self)
        names = self.cells_.names
        for name in columns:
            _validate.choice("columns", name, names)
        if len(set(columns)) < len(columns):
            raise InvalidParameterError("columns", columns, "must name no column twice")
        axes = [names.index(name) for name in columns]
        shares = self.model_.marginal(axes)
        if interval is None:
            return shares
        if (tables := self.tables_) is None or tuple(sorted(axes)) not in tables.subsets:
            what = "must be one or two columns whose table was measured, for an interval"
            remedy = "Leave interval out: the model has every table. algorithm='noisy_tables' measures some"
            raise InvalidParameterError("columns", columns, what, remedy)
        return tables.interval(tuple(axes), shares, interval, together)

    @property
    def fit_report_(self) -> list[dict[str, Any]]:
        """Misfit and trend of each measured table, from released numbers: noise alone explains about 1 and 3."""
        check_is_fitted(self, "model_")
        return [] if self.tables_ is None else self.tables_.report(self.cells_.names, self.model_.marginal)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the largest error of the model's marginals on a table. *Not private* on the data of `fit`."""
        check_is_fitted(self)
        records = self.cells_.encode(open_table(X))
        truth = self.queries_.record_sums(records) / len(records)
        return -float(np.abs(truth - self.model_.answers(self.queries_.subsets)).max())

    @property
    def _user(self) -> str | None:
        """Name of the schema's column of users, or None."""
        return getattr(self.schema, "user", None)

    def _queries(self, cells: TableCells) -> Marginals:
        """Return the tables to answer, with everything else that is public about them."""
        pairs = [tuple(cells.position(*each) for each in pair.items()) for pair in self.impossible or ()]
        if any(len(pair) != 2 for pair in pairs):
            raise InvalidParameterError("impossible", self.impossible, "must be pairs: sex=Male,relationship=Wife")
        target = checked_schema(self.schema).target
        center = cells.names.index(target.name) if target is not None and target.name in cells.names else None
        queries = Marginals.of_order(cells.shape, self.order)
        return replace(queries, center=center, impossible=tuple(pairs), ordered=cells.ordered)

    def _cells(self, n: int, privacy: PrivacyParams) -> TableCells:
        """Return the domain; it has open columns (a fit finds their bins) where parameters or the noise say so."""
        schema, named = checked_schema(self.schema), {name for pair in self.impossible or () for name in pair}
        public = TableCells.of_schema(schema, self.columns, self.bins)
        found = TableCells.of_schema(schema, self.columns, self.bins, PRIVATE, named)
        for name in named & {found.names[k] for k in found.open}:
            what = f"names a bin of {name!r}, and its bins are yet to be found"
            raise InvalidParameterError("impossible", self.impossible, what, "Give its bins: a number or edges")
        able = self.algorithm in (AUTO, *FINDING) and self.order <= 2 and self.constants == "calibrated"
        return found if able and pays(privacy, n, len(found.open)) else public
