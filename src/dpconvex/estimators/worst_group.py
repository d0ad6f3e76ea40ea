"""`PrivateWorstGroupClassifier`: train for the group that fares worst."""

from dataclasses import KW_ONLY, field
from typing import Any, ClassVar, Self

import numpy as np

from dpconvex import _progress, _validate
from dpconvex._types import Array, Floats
from dpconvex.algorithms import begin
from dpconvex.algorithms.minimax.base import SaddlePlan
from dpconvex.algorithms.minimax.group_shares import GroupShares, after_shares, raised
from dpconvex.algorithms.minimax.registry import plan_saddle
from dpconvex.data.frames import open_table
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._descriptions import LINEAR, RELEASED, final_estimator
from dpconvex.estimators._features import FeatureMap
from dpconvex.estimators._matrices import fitted_columns
from dpconvex.estimators._streams import able, count, open_rows, refuse_with_portions, shuffled
from dpconvex.estimators._targets import declared_index
from dpconvex.estimators.sparse import PrivateSparseClassifier
from dpconvex.privacy import PrivacyParams
from dpconvex.randomness import source_from


@final_estimator(released=RELEASED, linear=LINEAR)
class PrivateWorstGroupClassifier(PrivateSparseClassifier):
    """Logistic regression for the group with the largest mean loss, under differential privacy.

    A model with a small mean loss may fail for a small group. This one minimizes the *largest* of the groups' mean
    losses (group distributionally robust optimization), over coefficients in an l1 ball: a saddle point, in which an
    opponent shifts weight to the group that fares worst. Prediction does not need the group.

    Guarantee: everything that `fit` learns from data, groups included, is (epsilon, delta)-differentially private for
    neighbors that replace one record, with a public number of records; nothing else depends on the data.

    Parameters
    ----------
    groups : sequence, optional
        Public labels of the groups, at least two. A label that is not listed counts as the first one. Default: the
        categories of `group_column`.
    group_column : str, optional
        With a schema: name of the categorical column that says to which group a record belongs.
    group_shares : array of shape (n_groups,), optional
        Public shares of the groups among the records, in the order of `groups`, adding up to 1. A group's mean loss is
        computed with them. Default: released privately, for 5 % of epsilon.
    smallest_share : float, default=0.05
        Public, positive: smaller shares are raised to it. A group with a raised share counts by less than its full
        loss, but steps, which shrink in proportion to the smallest share, stay useful.
    radius : float, optional
        Public, positive: largest l1 norm of the coefficients. Default: 3 divided by the features' bound.
    epsilon, delta, classes, feature_bound, feature_bounds, schema, fit_intercept, algorithm, constants, random_state,
    verbose : optional
        As in `PrivateSparseLogisticRegression`.

    Attributes
    ----------
    {linear}
    group_weights_ : array of shape (n_groups,)
        Released weights of the groups: large where the loss is large.
    group_shares_ : array of shape (n_groups,)
        Shares that were used, public or released.
    groups_ : array of shape (n_groups,)
        Labels of the groups.
    {released}

    References
    ----------
    Gonzalez, Guzman and Paquette, "Mirror Descent Algorithms with Nearly Dimension-Independent Rates for
    Differentially-Private Stochastic Saddle-Point Problems", section 1.4; Sagawa et al. (2020).

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateWorstGroupClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(10_000, 2))
    >>> group = (rng.random(10_000) < 0.2).astype(int)
    >>> y = np.where(group, X[:, 1], X[:, 0] + X[:, 1]) > 0
    >>> model = PrivateWorstGroupClassifier(epsilon=2.0, feature_bound=1.0, groups=[0, 1]).fit(X, y, groups=group)
    >>> model.score(X[group == 1], y[group == 1]) > 0.7
    True
    """

    kind: ClassVar[str] = "worst_group"
    _: KW_ONLY
    groups: Any = None
    group_column: str | None = None
    group_shares: Any = None
    smallest_share: float = 0.05
    group_weights_: Floats = field(init=False)
    group_shares_: Floats = field(init=False)
    groups_: Array = field(init=False)

    def plan(self, n: int, n_features: int | None = None) -> tuple[SaddlePlan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Without public shares this plans for groups of equal size, with the budget left after paying for shares; `fit`
        plans again for the shares that it releases.
        """
        labels = self._group_labels()
        shares = self._public_shares(len(labels))
        equal = np.full(len(labels), 1 / len(labels))
        privacy = self._shares_plan(n, len(labels)).rest if shares is None else self._privacy()
        return self._plans(self._feature_map(n_features), n, equal if shares is None else shares, privacy)

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Fit for the worst group, by the plan with the smallest predicted error at the given budget.

        Data are as in `PrivateLasso.fit`; `groups`, shape (n,), says which group each record belongs to, and is
        private. Default: the column `group_column` of `X`.
        """
        source = source_from(self.random_state)
        labels, chosen = self._group_labels(), None
        if (opened := open_rows(self, X, y, None)) is None:
            features, encoded = self._encoded(X, reset=True)
            targets, classes = self._signs(X, y)
            records: Any = encoded, targets, self._group_index(X, groups, labels)
        else:
            refuse_with_portions(groups=groups)
            features, records, classes = *opened[:2], self._schema_classes()
        n, planner, privacy = count(records), able(self, records), self._privacy()
        shares = self._public_shares(len(labels))
        planned = planner.plan(n, features.domain.n_features)[0]  # from public facts, with the release of shares
        self._paid = begin(planned, type(self).__name__, fitted_columns(self), n, source, privacy)
        if shares is None:
            chosen = self._shares_plan(n, len(labels))
            shares, privacy = chosen.run(records if opened else records[2], source), chosen.rest
        self.plan_ = planned if chosen is None else planner._plans(features, n, shares, privacy)[0]
        with _progress.shown(type(self).__name__, self.verbose):
            result = self.plan_.run(shuffled(records, source, self.plan_.only_sums), source)
        problem: Any = self.plan_.problem
        self._store(features, problem.point(result.x))
        self.certificate_ = result.certificate
        if chosen is not None:
            self.certificate_ = after_shares(chosen, self.plan_, tuple(shares.tolist())).certificate(source)
        self.group_weights_, self.group_shares_ = result.y, shares
        self.groups_, self.classes_ = labels, classes
        return self._named()

    def _plans(self, features: FeatureMap, n: int, shares: Floats, privacy: PrivacyParams) -> tuple[SaddlePlan, ...]:
        problem = self._problem(features, n, tuple(float(1 / share) for share in shares))
        return plan_saddle(problem, privacy, self.algorithm, constants=self.constants, sums=self._sums)

    def _shares_plan(self, n: int, n_groups: int) -> GroupShares:
        return GroupShares(n, n_groups, self._privacy(), self.smallest_share)

    def _public_shares(self, n_groups: int) -> Floats | None:
        """Return the declared shares, none below `smallest_share`; None if shares must be released."""
        smallest = _validate.real("smallest_share", self.smallest_share, above=0.0, below=1.0)
        if self.group_shares is None:
            return None
        shares = np.asarray(self.group_shares, dtype=np.float64)
        if shares.shape != (n_groups,) or not bool(((shares > 0) & (shares <= 1)).all()):
            what = f"must be {n_groups} numbers in (0, 1], one a group"
            raise InvalidParameterError("group_shares", self.group_shares, what)
        return raised(shares, smallest)

    def _targets_of(self, X: Any, y: Any) -> Floats:
        return np.column_stack([self._signs(X, y)[0], self._group_index(X, None, self._group_labels())])

    def _group_labels(self) -> Array:
        if self.groups is not None:
            labels = np.asarray(self.groups)
            if labels.ndim != 1 or len(labels) < 2 or len(np.unique(labels)) < len(labels):
                what = "must list at least two different labels"
                raise InvalidParameterError("groups", self.groups, what, "List all that may occur, as in groups=[0, 1]")
            return labels
        labels = () if self.group_column is None or self.schema is None else self._column().cells(1).labels
        if len(labels) < 2:
            what = "must list the public labels, or group_column name a column of the schema with categories"
            remedy = "Groups must be public knowledge; which record belongs to which is private"
            raise InvalidParameterError("groups", None, what, remedy)
        return np.asarray(labels)

    def _group_index(self, X: Any, groups: Any, labels: Array) -> Array:
        """Return the number of every record's group, (n,)."""
        if groups is not None:
            return declared_index(groups, labels, "groups")
        if self.schema is None or self.group_column is None:
            raise InvalidDataError("groups=None: must be given, one label a record. Or give a schema and group_column")
        frame = open_table(X, (self.group_column,))
        if self.groups is None:
            return self._column().cells(1).encode(self._column().read(frame))
        return declared_index(frame.get_column(self.group_column).to_native(), labels, "groups")

    def _column(self) -> Any:
        columns = {} if self.schema is None else {c.name: c for c in self.schema.columns if not c.numeric}
        _validate.choice("group_column", self.group_column, columns, "Name a column with categories")
        return columns[str(self.group_column)]
