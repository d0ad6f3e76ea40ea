"""`PrivateSearchCV`: the best of several parameter settings, for one promise that covers the whole search."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self, cast, final

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpconvex import _progress, _validate
from dpconvex._types import Array, Floats
from dpconvex.algorithms import begin
from dpconvex.algorithms.erm.registry import ERM_METHODS
from dpconvex.algorithms.search.plan import GAUSSIAN, METHODS, PURE, Candidate, Part, SearchPlan, plan_search, run
from dpconvex.algorithms.search.scores import score_for
from dpconvex.algorithms.select import NOISES, Plans
from dpconvex.data.frames import typed
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._matrices import fitted_columns, learned_matrix, same_length
from dpconvex.estimators._streams import checked, open_rows, open_table
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.privacy import CarriesBudgets, PrivacyCertificate, PrivacyParams, Unit
from dpconvex.randomness import source_from

FIXED = ("inference", "epsilon", "delta", "neighbors", "rows", "random_state", "schema", "classes", "rates")
FIXED += ("records_per_user",)
"""Parameters that no grid may hold: those of the promise, randomness, records and users."""


@final
@dataclass(eq=False, repr=False)
class PrivateSearchCV(CarriesBudgets, MetaEstimatorMixin, BaseEstimator):
    """Search over parameters of a private linear model; the promise covers the search as a whole.

    Guarantee: for any two data sets of the same size that differ in one record (with ``groups``: one user), the law of
    everything that `fit` learns, the chosen setting *and* its model, satisfies the (epsilon, delta) of `estimator`.
    ``certificate_`` states and prices it.

    Part of the records is held out. Candidates are fitted to the others with a smaller budget each, and chosen by
    their clipped held-out losses through a private selection. So a search costs accuracy: it pays where the settings
    differ by more than that. `plan` says beforehand what it costs (``price``, ``cost``, ``stake``); see "Private
    search" in the docs.

    Parameters
    ----------
    estimator : PrivateLinearModel
        Classifier or regressor, not fitted. Its ``epsilon``, ``delta`` and ``random_state`` are those of the search.
    param_grid : mapping or list of mappings
        As in scikit-learn's ``GridSearchCV``: lists of values by parameter. Any parameter of `estimator` except
        ``epsilon``, ``delta``, ``neighbors``, ``rows``, ``random_state``, ``schema``, ``classes``, ``rates`` and
        ``records_per_user``. The first setting is the default that is fitted where a search is not worth it. Values
        must be chosen without looking at the data.
    method : {"auto", "composition", "repeats", "none"}, default="auto"
        How the search is paid for. ``"composition"``: all candidates are fitted and share the budget. ``"repeats"``: a
        secret random number of randomly drawn candidates is fitted, each at a fixed share of the budget. ``"none"``: no
        search; the first setting gets all records and the whole budget. ``"auto"``: the one that risks least by its
        plan; ``"none"`` if that is more than 0.03 of what predicting nothing loses.
    scoring : str, default="auto"
        Held-out loss. Classifiers: ``"error_rate"`` (auto), or ``"log_loss"`` for those with probabilities. Regressors,
        in units of the target's public range: ``"squared_error"`` (auto for least squares), ``"absolute_error"`` (auto
        for Huber), ``"pinball"`` (auto for quantiles, at the estimator's quantile).
    score_bound : float, optional
        Largest loss of one record, positive; larger ones are clipped to it. The noise of the choice is proportional to
        it. Default: 2 for the log-loss, else 1.
    holdout : float, default=0.2
        Share of records (users) that is held out, in (0, 1).
    verbose : bool, default=False
        Show how many fits are done, in a terminal or notebook, while a search takes long.

    Attributes
    ----------
    best_params_ : dict
        The released setting.
    best_estimator_ : PrivateLinearModel
        The released model, fitted, with the certificate of the *whole search*: save it with `save_model`.
    certificate_ : PrivacyCertificate
        What the search costs and why.
    plan_ : SearchPlan
        The public constants that were used.
    results_ : dict
        Everything that was released: ``best_params`` and public facts. There are no scores and no ``cv_results_``: the
        scores of candidates, and the models that were not chosen, depend on private data that nobody has paid for.
    n_features_in_ : int
        Columns seen by `fit`.

    Notes
    -----
    The search takes the time of ``plan_``'s number of fits, always the same; which of them counted is secret. An
    adversary who can time single fits is outside the guarantee, as for every fit of this library.

    References
    ----------
    Chaudhuri and Vinterbo 2013; Liu and Talwar 2019; Papernot and Steinke 2022; Koskela, Redberg and Wang 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateLogisticRegression, PrivateSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=1.0, feature_bounds=(-1, 1), classes=[0, 1])
    >>> search = PrivateSearchCV(model, {"coefficient_norm": [4.0, 16.0]}).fit(X, y)
    >>> search.score(X, y) > 0.8
    True
    >>> search.certificate_.spent_epsilon <= 1.0
    True
    """

    estimator: Any
    param_grid: Any
    _: KW_ONLY
    method: str = "auto"
    scoring: str = "auto"
    score_bound: float | None = None
    holdout: float = 0.2
    verbose: bool = False
    best_params_: dict[str, Any] = field(init=False)
    best_estimator_: PrivateLinearModel = field(init=False)
    certificate_: PrivacyCertificate = field(init=False)
    plan_: SearchPlan = field(init=False)
    results_: dict[str, Any] = field(init=False)

    def plan(self, n: int, n_features: int | None = None, *, unit: str | None = None) -> tuple[SearchPlan, ...]:
        """Return the plans for data of this size, the one that `fit` would run first. Sees no data.

        Parameters are those of `PrivateLinearModel.plan`; `n` is at least 2.
        """
        return self._plans(n, n_features, self._base()._unit(unit))

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Fit the candidates to data as the estimator takes them, choose one privately, and release it alone."""
        base = self._base()
        source = source_from(base.random_state)
        table = open_table(base.schema, X, y=y)
        if table is not None:
            table.require_order("the parts of a search")
        X, y = typed(X) if table is None else table, typed(y)
        if base.schema is None:  # checks the public form alone, before anything is split
            matrix = learned_matrix(clone(base), X, reset=True)
            X = matrix if isinstance(X, list | tuple) else X  # a table keeps its names
        if table is None:
            _, count, users, _ = checked(clone(base), X, y, groups)
        else:
            users = cast(Any, open_rows(clone(base), X, y, groups))[-1]  # refuses what the first fit would
            count = len(table)
            same_length(count, count if users is None else users.n_records, "groups", private=True)
        unit, n = (Unit.RECORD, count) if users is None else (Unit.USER, users.n_users)
        if n < 2:
            raise InvalidDataError(f"Found array with {n} sample(s) ({unit}s): a search needs a minimum of 2")
        n_features = None if base.schema is not None else _shape(X)[1]
        plan = self._plans(n, n_features, unit, sums=table is not None)[0]
        columns = _shape(X)[1] if base.schema is None else fitted_columns(base)
        paid = begin(plan, type(self).__name__, columns, n, source)
        with _progress.shown(type(self).__name__, self.verbose):
            k, model = run(plan, base, Part(X, y, None if users is None else users.codes), source)
        self.plan_, self.best_estimator_ = plan, model
        self.best_params_ = dict(plan.candidates[k].settings)
        if plan.selection is not None:  # the model costs the whole search, not only the winner's share of it
            model.certificate_ = plan.certificate(source)
        model._paid = paid
        self.certificate_ = model._named().certificate_
        self.results_ = {"best_params": self.best_params_, "public": dict(plan.public)}
        return self

    def predict(self, X: Any) -> Array:
        """Return the chosen model's prediction for every record, (n,)."""
        return self._fitted().predict(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the chosen model's accuracy or R^2, as its own `score` does. On private data it is not private."""
        return float(self._fitted().score(X, y))  # pyright: ignore[reportAttributeAccessIssue]

    @available_if(lambda self: callable(vars(type(self.estimator)).get("predict_proba")))
    def predict_proba(self, X: Any) -> Floats:
        """Return the chosen model's probabilities, (n, n_classes)."""
        return self._fitted().predict_proba(X)  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def n_features_in_(self) -> int:
        """Columns seen by `fit`."""
        return self._fitted().n_features_in_

    @property
    def classes_(self) -> Array:
        """Labels of the chosen classifier."""
        return self._fitted().classes_  # pyright: ignore[reportAttributeAccessIssue]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.target_tags = inner.estimator_type, inner.target_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags, tags.non_deterministic = inner.input_tags, True
        tags.input_tags.sparse = False  # held-out losses are sums over dense rows
        return tags

    def _fitted(self) -> PrivateLinearModel:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def _base(self) -> PrivateLinearModel:
        """Return the estimator, or raise where a search cannot be private or makes no sense."""
        base = self.estimator
        if not isinstance(base, PrivateLinearModel):
            what = "must be a private linear model of this library"
            raise InvalidParameterError("estimator", base, what, "Use PrivateLogisticRegression, say")
        if isinstance(base.get_params(deep=False).get("classes"), str):
            what = "must be declared for a search: parts of the records may lack some"
            raise InvalidParameterError("classes", base.get_params(deep=False)["classes"], what, "List them")
        if base.get_params(deep=False).get("inference", False) is not False:
            what = "must be False for a search: intervals after a choice by the data are too short"
            raise InvalidParameterError("inference", True, what, "Fit the chosen setting on other records")
        if not base._relation.fixes_size:  # before any record is counted
            what = "must be 'replace_one' for a search: its parts have public sizes"
            raise InvalidParameterError("neighbors", str(base._relation), what, "Fit one setting")
        return base

    def _settings(self) -> list[dict[str, Any]]:
        """Return all settings of the grid, checked by name."""
        try:
            settings = [dict(each) for each in ParameterGrid(self.param_grid)]
        except (TypeError, ValueError) as error:
            raise InvalidParameterError("param_grid", self.param_grid, str(error).rstrip(".")) from None
        known = set(self.estimator.get_params(deep=False))
        for name in dict.fromkeys(name for each in settings for name in each):
            if name in FIXED or name not in known:
                what = "must be a parameter of the estimator" if name not in known else "may not be searched"
                remedy = f"Search over some of {', '.join(sorted(known - set(FIXED)))}"
                raise InvalidParameterError("param_grid", name, what, remedy)
        if not settings:
            raise InvalidParameterError("param_grid", self.param_grid, "must hold at least one setting")
        return settings

    def _at(self, setting: Mapping[str, Any]) -> PrivateLinearModel:
        return cast(PrivateLinearModel, clone(self.estimator)).set_params(**setting)

    def _plans(self, n: int, n_features: int | None, unit: Unit, sums: bool = False) -> tuple[SearchPlan, ...]:
        base, settings = self.estimator, self._settings()
        if any(model._open(model._feature_map(n_features)) for model in map(self._at, ({}, *settings))):
            remedy = "Declare them: those that one fit found are public from then on (schema.found.toml)"
            raise InvalidParameterError("ranges", "private", "must be declared: every setting would pay", remedy)
        score = score_for(base, self.scoring, self.score_bound)
        share = _validate.real("holdout", self.holdout, above=0.0, below=1.0)
        _validate.choice("method", self.method, ("auto", *METHODS))
        held_out = min(max(1, round(share * _validate.integer("n", n, at_least=2))), n - 1)
        pins = [dict[str, dict[str, Any]]() for _ in settings]

        def make(privacy: PrivacyParams, count: int, noise: str) -> tuple[Candidate, ...]:
            zipped = zip(settings, pins, strict=True)
            return tuple(_candidate(base, each, privacy, count, n_features, pin, noise, sums) for each, pin in zipped)

        return Plans(plan_search(make, base._promise(unit), n, held_out, score, self.method))


def _candidate(
    base: PrivateLinearModel, settings: Mapping[str, Any], privacy: PrivacyParams, n: int, n_features: int | None,
    pins: dict[str, dict[str, Any]], noise: str, sums: bool,
) -> Candidate:  # fmt: skip
    """Return a setting at a part of the budget, with the algorithm and noise that are best at the whole budget."""
    # The whole budget is planned first and leaves `pins`: planning anew at each budget would take far longer.
    if noise != "any" and noise not in pins:
        raise InvalidParameterError("noise", noise, "is had by no plan of this candidate")
    budget = {"epsilon": privacy.epsilon, "delta": privacy.delta, "random_state": None}
    model = cast(PrivateLinearModel, clone(base)).set_params(**{**settings, **budget})
    model._sums = sums  # plans made in the runs included
    model._looks = False  # every setting would pay for looks, and be scored in a unit of its own
    unit = str(privacy.unit)
    try:
        plans = model.set_params(**pins.get(noise, {})).plan(n, n_features, unit=unit)
    except InvalidParameterError:  # the best algorithm at the whole budget may have no plan at this budget
        if noise != PURE:
            raise
        model.set_params(**{name: value for name, value in base.get_params(deep=False).items() if name in pins[noise]})
        plans = model.set_params(**settings).plan(n, n_features, unit=unit)
    if noise == "any":
        for plan in reversed(plans):
            pure = all(release.event.pure_epsilon is not None for release in plan.releases)
            noises = {"noise": plan.noise_name} if plan.algorithm in ERM_METHODS and plan.noise_name in NOISES else {}
            pins[PURE if pure else GAUSSIAN] = {"algorithm": plan.algorithm, **noises}
    return Candidate(settings, plans[0], model)


def _shape(values: Any) -> tuple[int, ...]:
    """Return the shape of a table, column, array or list: a public fact. Cells of lists are not looked at."""
    found: Any = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.DataFrame | nw.Series):
        return tuple(found.shape)
    return (len(values),) if isinstance(values, list | tuple) else np.asarray(values).shape or (0,)
