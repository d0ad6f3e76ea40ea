"""Additive models: a shape for each column and for pairs on request, fitted as one private linear model.

Guarantee
    The guarantee of the plan that ran, a plan for a linear model whose features are weights on public vertices.
Lemma
    Factor form and Lemmas C to E of the docs, Additive models: simplex blocks are centered, and the ridge is on
    coordinates in which smooth shapes are cheap.
Sensitivity
    A record's features in a block have norm at most 1, for any vertices; the plan states the sensitivity.
Assumptions
    Ranges, levels, knots and which columns have a value of their own for missing cells are public.
"""

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpconvex import _validate
from dpconvex._arrow import pa
from dpconvex._types import Floats
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.curvature import MOST_COLUMNS, inference_of
from dpconvex.algorithms.erm.registry import Found, expected_of_first, plans
from dpconvex.algorithms.erm.two_stage.ranges import NEEDED, weighing, worth_knots
from dpconvex.algorithms.select import Options
from dpconvex.data import NumericColumn, UnrangedColumn
from dpconvex.data.columns import MOST_KNOTS
from dpconvex.data.targets import PRIVATE
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._descriptions import RELEASED, final_estimator
from dpconvex.estimators._features import FeatureMap, bounds_of, checked_schema, require_one
from dpconvex.estimators._intervals import INFERENCE, WithIntervals
from dpconvex.estimators._shapes import Shape, ShapeMap, checked_pairs, expected_share, planned_deviations, shape_facts
from dpconvex.estimators.classifiers import LogisticModel
from dpconvex.estimators.regressors import DEFAULT_SMOOTHING, DEFAULT_WIDTH, PrivateLinearRegressor, capped
from dpconvex.losses import LinearModelLoss, PseudoHuberLoss, SmoothedPinballLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import LinearModelProblem
from dpconvex.problems.linear.shapes import Knots

KNOTS = (2, 3, 4, 6, 8, 12, 16)  #: Numbers of evenly spaced knots per column that are tried; 2 make it linear.
LEARNED = {"classification": 0.13, "regression": 0.05}
"""Shapes may bend if their expected error is below this share of the loss of parameters 0; otherwise straight lines are
planned. Chosen on the learning tables of the corpus (`benchmarks/additive_guess.py straight`)."""
FAR = 0.5  #: Beyond this share with two knots, no number of knots came below those (2 to 40 columns, n up to 200,000).
SHAPES = "objective_perturbation"  #: The algorithm that fits shapes; straight lines may use any algorithm.


@dataclass(eq=False, repr=False)
class AdditiveModel(WithIntervals):
    """A private additive model. Parameters are documented with the final classes."""

    _straight = False  # whether straight lines are planned
    _: KW_ONLY
    knots: Any = "auto"
    interactions: Any = ()
    missing: str = "auto"
    monotone: Any = None
    # Parameters of linear models that are fixed here.
    feature_norm: float | None = field(init=False, default=None)
    domain: Any = field(init=False, default=None)
    fit_intercept: bool = field(init=False, default=True)
    constants: str = field(init=False, default="calibrated")
    l2: float | None = field(init=False, default=None)
    coefficient_norm: float | None = field(init=False, default=None)
    tilt: float = field(init=False, default=0.0)
    adversarial_radius: float = field(init=False, default=0.0)
    adversarial_norm: str = field(init=False, default="l2")
    risk: str = field(init=False, default="empirical")
    solver: str = field(init=False, default="auto")
    user_test: str = field(init=False, default="auto")
    user_smoothing: str = field(init=False, default="auto")
    most_rows: int | None = field(init=False, default=None)
    knots_: tuple[tuple[float, ...], ...] = field(init=False)
    shape_deviation_: Floats = field(init=False)
    _sparse: ClassVar[bool] = False

    def _feature_map(self, n_features: int | None, own: bool | None = None) -> ShapeMap:
        _validate.choice("missing", self.missing, ("auto", "own", "none"))
        _validate.choice("algorithm", self.algorithm, ("auto", SHAPES), "Linear estimators have the others")
        require_one({"schema": self.schema, "feature_bounds": self.feature_bounds}, "schema", "They must be public")
        columns: Any = self._bounded(n_features) if self.schema is None else checked_schema(self.schema).columns
        pairs = checked_pairs(self.interactions, columns)
        asked = self.missing == "own" or (self.missing == "auto" and not self.inference)
        own = asked if own is None else own
        if self.missing == "own":  # of straight lines, too; with "auto" they have what linear models have
            columns = [replace(c, indicator=True) if c.numeric and c.indicator is None else c for c in columns]
        found = ShapeMap.of(columns, self.schema is not None, own, pairs, free=isinstance(self.knots, str))
        self._directions(found)
        return found

    def _bounded(self, n_features: int | None) -> tuple[NumericColumn | UnrangedColumn, ...]:
        if n_features is None:
            raise InvalidParameterError("n_features", None, "must be given to plan without data", "")
        _validate.integer("n_features", n_features, at_least=1)
        given: Any = vars(self).get("feature_names_in_")
        known = given is not None and len(given) == n_features and len(set(map(str, given))) == n_features
        names: Any = given if known else [""] * n_features
        named = [str(name) or f"feature {k}" for k, name in enumerate(names)]
        if isinstance(self.feature_bounds, str) and self.feature_bounds == PRIVATE:
            return tuple(UnrangedColumn(name, "none") for name in named)
        lower, upper = bounds_of(self.feature_bounds, n_features)
        return tuple(NumericColumn(*each) for each in zip(named, lower.tolist(), upper.tolist(), strict=True))

    def _maps(self, features: ShapeMap) -> list[ShapeMap]:
        """Return the maps to plan with, one for each distinct domain, that with the fewest columns first."""
        if isinstance(self.knots, str):
            _validate.choice("knots", self.knots, ("auto",), "Or give their number")
        elif _validate.integer("knots", self.knots, at_least=2) > MOST_KNOTS:
            what = f"must be at most {MOST_KNOTS}"
            raise InvalidParameterError("knots", self.knots, what, "More knots hold more noise than shape")
        counts: Any = KNOTS if self.knots == "auto" else (self.knots,)
        found = {each.domain: each for each in map(features.at, reversed(counts))}
        return list(reversed(found.values()))

    def _fitted_map(self) -> ShapeMap:
        found = self._feature_map(self.n_features_in_).found(*self._told).with_knots(self.knots_)
        if self.missing != "auto" or found.domain.n_features == self.coef_.shape[-1]:
            return found
        own = bool(self.inference)  # `inference` was set after the fit, and what "auto" means with it
        return self._feature_map(self.n_features_in_, own).found(*self._told).with_knots(self.knots_)

    def _directions(self, features: ShapeMap) -> dict[str, bool]:
        """Return which numeric columns are monotone, and whether they increase; raise for anything else."""
        given = {} if self.monotone is None else self.monotone
        words = {"increasing": True, "decreasing": False}
        numeric = {block.name for block in features.blocks if block.kind == "numeric"}
        fits = isinstance(given, Mapping) and all(name in numeric for name in given)
        if not fits or not all(isinstance(word, str) and word in words for word in given.values()):
            what = "must map names of numeric columns to 'increasing' or 'decreasing'"
            raise InvalidParameterError("monotone", self.monotone, what)
        return {str(name): words[word] for name, word in given.items()}

    def _plans(self, features: FeatureMap, n: int, loss: LinearModelLoss, unit: Unit = Unit.RECORD) -> Found:
        """Return the plans for the number of knots with the smallest expected error, or for straight lines."""
        shapes = cast(ShapeMap, features)
        if self.monotone and loss.n_outputs > 1:
            raise InvalidParameterError("monotone", self.monotone, "is for one score", "Leave it out")
        if self._infers():
            return self._inferring(shapes, n, loss, unit)
        placed = shapes.skewed if self.knots == "auto" and self._relation.fixes_size else ()
        shapes = replace(shapes, placed=placed if worth_knots(float(self.epsilon), n, len(placed)) else ())
        quick = copy(self)
        quick.noise = "grouped" if self.noise == "auto" else self.noise  # errors of other laws differ little
        maps, choosing = self._maps(shapes), self.algorithm == self.knots == "auto" and not shapes.pairs
        found = [super(AdditiveModel, quick)._plans(maps[0], n, loss, unit)]
        hopeless = choosing and expected_share(found[0][0]) > FAR  # lines come, whatever more knots expect
        found += [super(AdditiveModel, quick)._plans(each, n, loss, unit) for each in maps[1:] if not hopeless]
        best = min(found, key=expected_of_first)
        if quick.noise != self.noise and not hopeless:
            privacy, chosen = best[0].privacy, self._fitting(shapes, best[0])
            best = self._planned(chosen, best[0].problem, privacy, SHAPES, Options(noise=self.noise, sums=self._sums))
        if not choosing:
            return best
        # Where there are only categories lines are equivalent.
        bent = len(maps) > 1 and expected_share(best[0]) < LEARNED[loss.task] and not self._loses_target(shapes, n)
        felt = self.epsilon * weighing(n, self._promise(unit))
        if bent and (loss.task != "regression" or felt >= NEEDED):  # else targets may lie anywhere
            return best
        lines = copy(self)
        lines._straight = True
        return super(AdditiveModel, lines)._plans(shapes.straight, n, loss, unit)

    def _inferring(self, shapes: ShapeMap, n: int, loss: LinearModelLoss, unit: Unit) -> Found:
        """Return the plan of the smallest expected error among those whose standard errors are expected to be finite.

        If none are, the plan with the fewest knots. Maps with too many vertices for intervals are not tried.
        """
        fewest, *more = self._maps(shapes)
        maps = [fewest, *(each for each in more if each.domain.n_features < MOST_COLUMNS)]
        found: list[Any] = [super(AdditiveModel, self)._plans(each, n, loss, unit) for each in maps]
        known = [each for each in found if math.isfinite(cast(Any, inference_of(each[0])).expected_deviation)]
        return min(known or found[:1], key=expected_of_first)

    def _smallest(self, features: FeatureMap) -> FeatureMap:
        return self._maps(cast(ShapeMap, features))[0]

    def _choices(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> Found:
        if self._asks_users:
            remedy = "Leave it out: noise of shapes does not depend on it"
            raise InvalidParameterError("records_per_user", self.records_per_user, "must be a number", remedy)
        return plans(problem, privacy, "auto" if problem.shapes is None else SHAPES, options)

    def _fitting(self, features: FeatureMap, plan: LinearModelPlan) -> FeatureMap:
        looked, blocks = bool(getattr(plan, "looked", ())), plan.problem.domain.blocks
        shapes = replace(cast(ShapeMap, features), placed=getattr(plan, "placed", ()), looked=looked)
        straight = plan.problem.shapes is None
        found = shapes.ends if straight else next(m for m in self._maps(shapes) if m.domain.blocks == blocks)
        knots = getattr(plan, "found_knots", ()) if plan.algorithm != "constant" else ()
        found = found.found(self._released(found, plan), found.parts(getattr(plan, "cells", ())), knots)
        self.knots_ = found.knots
        return found.straight if straight else found

    def plans_at(self, epsilon: float) -> Found:
        if self._infers() or self.plan_.problem.shapes is None:  # the lines' method need not apply at another epsilon
            return super().plans_at(epsilon)
        features = replace(self._feature_map(self.n_features_in_), placed=getattr(self.plan_, "placed", ()))
        features = features.at(getattr(self.plan_, "knots", 2))
        return self._planned(features, self.plan_.problem, replace(self.plan_.privacy, epsilon=epsilon), SHAPES)

    def _learned(self) -> None:
        super()._learned()
        shapes, values = self._fitted_map(), self.coef_.copy()
        deviation = planned_deviations(self.plan_)
        if self.plan_.problem.shapes is None:
            coefs = deviation.reshape(len(values), -1)[:, : shapes.straight.domain.n_features]
            ones = np.eye(coefs.shape[1])  # levels are centered, so a mean of deviations would not be their deviation
            deviation = np.sqrt(np.square(coefs) @ np.square(shapes.straight.decode(ones, np.zeros(len(ones)))[0]))
        else:
            deviation = np.tile(deviation[: values.shape[1]], (len(values), 1))
        self.shape_deviation_ = self.output_scale * deviation
        directions, problem = self._directions(shapes), self.plan_.problem
        for k, (block, where) in enumerate(shapes.slices):
            if block.name in directions:
                knots, curvature = cast(Knots, block.expected), np.eye(block.size)  # of straight lines any will do
                if problem.shapes is not None:
                    facts = problem.loss, cast(Any, problem.factor), self.plan_.l2, problem.residual
                    curvature = problem.shapes.curvature(k, *facts)
                values[0, where], lost = knots.monotone(values[0, where], directions[block.name], curvature)
                self.intercept_ = self.intercept_ + lost
        self.coef_, self.encoded_coef_ = values, values.copy()
        self.encoded_intercept_ = np.array(self.intercept_, dtype=np.float64)

    @property
    def shapes_(self) -> list[Shape]:
        """The released shapes, one a column or pair, in the order of the columns."""
        check_is_fitted(self)
        values, noise = self.encoded_coef_, self.shape_deviation_
        k, bands = 0 if len(values) == 1 else slice(None), self._bands() if self.inference else None
        found = []
        for each, at in self._fitted_map().slices:
            log_from = None if each.rule.get("transform", "none") == "none" else float(each.rule.get("scale", 1.0))
            known = values[k, at], noise[k, at], None if bands is None else bands[:, at]
            found.append(Shape(each.name, each.kind, each.vertices, *known, log_from))
        return found

    def _bands(self) -> Floats:
        """Return the intervals of the values, (2, d), in each block around the value of its most frequent vertex."""
        intervals, plan = self._known()
        d = plan.problem.domain.n_features
        rows, base = np.eye(d, d + 1), np.arange(d)
        for columns in plan.layout.categories.values():
            base[columns] = columns[intervals.most_seen(columns)]
        found = self._estimates(rows - rows[base], 0.95, 0.0)
        ends = np.where(base == np.arange(d), 0.0, np.array([found.lower, found.upper]))
        return self.encoded_coef_[0, base] + ends

    @property
    def degrees_of_freedom_(self) -> dict[str, float]:
        """Planned degrees of freedom of each column in one score: how much of its shape the ridge penalty leaves."""
        check_is_fitted(self, "plan_")
        return {row["column"]: row["degrees_of_freedom"] for row in shape_facts(self.plan_)}

    def contributions(self, X: Any) -> Floats:
        """Return what each column, or pair, adds to the score of every record, in the order of ``shapes_``.

        The shape is (n, n_shapes), or (n, n_shapes, n_classes) for more than two classes. All together add up to the
        score (`decision_function`, or the prediction before it is clipped) less ``intercept_``.
        """
        parts = self._parts(X)
        return parts[..., 0] if parts.shape[2] == 1 else parts

    def _parts(self, X: Any) -> Floats:
        check_is_fitted(self)
        _, cells = self._encoded(X, reset=False)
        slices = self._fitted_map().slices
        out = np.empty((len(cells), len(slices), len(self.encoded_coef_)))
        for k, (block, where) in enumerate(slices):
            out[:, k] = block.weights(cells) @ self.encoded_coef_[:, where].T
        return out

    def _linear(self, X: Any) -> Floats:
        return self._parts(X).sum(1) + self.encoded_intercept_

    def shape_table(self) -> Any:
        """Return the shapes as a table (pyarrow, which narwhals, pandas and polars read).

        Columns: ``column``, ``output``, ``knot`` (of numeric columns), ``level`` (of others), ``value``, ``deviation``,
        and ``lower`` and ``upper``, the ends of `Shape.interval` where it was paid for.
        """
        rows = [
            (shape.name, k, *((None, at) if isinstance(at, str) else (float(at), None)), *map(float, numbers), *ends)
            for shape in self.shapes_
            for k, each in enumerate(zip(np.atleast_2d(shape.values), np.atleast_2d(shape.deviation), strict=True))
            for at, *numbers, ends in zip(shape.vertices, *each, shape.ends, strict=True)
        ]
        types = {"column": pa.string(), "output": pa.int64(), "knot": pa.float64(), "level": pa.string()}
        types |= dict.fromkeys(("value", "deviation", "lower", "upper"), pa.float64())
        return pa.table([pa.array(*x) for x in zip(zip(*rows, strict=True), types.values(), strict=True)], [*types])

    def _coefficient_names(self, d: int) -> list[str]:
        at = [(block, vertex) for block, _ in self._fitted_map().slices for vertex in block.vertices]
        return [f"{block.name}={each if isinstance(each, str) else format(each, '.6g')}" for block, each in at]

    def _terms(self) -> list[dict[str, Any]]:
        values, slices = self.encoded_coef_, self._fitted_map().slices
        return [{"name": block.name, "values": values[:, where].tolist(), **block.rule} for block, where in slices]


PARAMETERS = """
epsilon, delta, records_per_user, neighbors, rows, weight_cap, random_state, verbose : optional
    As in `PrivateLogisticRegression`.
schema : Schema, optional
    Columns, ranges, categories and target of a table. Its numeric columns may say ``indicator`` and ``knots``.
feature_bounds : (lower, upper), optional
    Public range of every column of a numeric matrix, or ``"private"``: the fit finds ranges and knots privately, as for
    columns of a schema without a range. Exactly one of `schema` and `feature_bounds` must be given.
knots : "auto" or int, default="auto"
    Number of knots, where a shape may bend, of numeric columns that declare none, at least 2 (a straight line).
    ``"auto"``: that of the least expected error, by public facts, or straight lines by any method; if there are enough
    records, a declared logarithmic scale gets five found privately, for 4 % of epsilon.
interactions : list of pairs of column names, default=()
    Pairs that act together, at 4 knots a column and up to 8 levels of a category. Each adds a block, so the noise in
    all others grows by about ``1/m``, with m the number of blocks.
missing : {"auto", "own", "none"}, default="auto"
    ``"own"``: a missing number has a value of its own; ``"none"``: it counts as equal parts of all values; ``"auto"``:
    ``"none"`` with ``inference``, as a value that hardly any record has makes all intervals wide, else ``"own"``. For
    numeric columns of which the schema does not say so; never read off the data.
monotone : dict, optional
    From names of numeric columns to ``"increasing"`` or ``"decreasing"``. The released shape is replaced by the nearest
    one of that kind, at no cost. One score only. Certificate and deviations are those of the shape before.
algorithm, noise : str, default="auto"
    ``"objective_perturbation"`` always fits shapes; ``"auto"`` also plans straight lines by any method.
"""
ATTRIBUTES = """
shapes_ : list of Shape
    The released shapes, one a column or pair: vertices, values (summing to 0) and planned deviation of the noise.
intercept_ : array or float
    The score of a record whose shapes are all 0.
knots_ : tuple
    Knots of each column, in its own unit; empty for categories.
degrees_of_freedom_ : dict
    Planned degrees of freedom by column; not saved with the model.
coef_ : array
    Values of all shapes, one after the other.
{released}
"""
PARAMETERS += INFERENCE.strip()
ADDITIVE = {"parameters": PARAMETERS, "attributes": ATTRIBUTES, "released": RELEASED}  #: Shared by both classes.


@final_estimator(**ADDITIVE)
class PrivateAdditiveClassifier(AdditiveModel, LogisticModel):
    """Additive classification (a generalized additive model) under differential privacy, binary and multiclass.

    The log-odds are a sum of one shape a column, a broken line for a number and a value a level for a category. With
    pure privacy and declared ranges it is the most accurate classifier of this library on most tables, and it can be
    read: each column is one picture. Guarantee: as `PrivateLogisticRegression`.

    Parameters
    ----------
    {parameters}
    classes, slope_cap, probabilities, rates, class_weight : optional
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    {attributes}
    classes_ : array of shape (n_classes,)
        Labels.

    References
    ----------
    Nori, Caruana, Bu, Shen and Kulkarni (2021), by boosting under privacy. Proofs: "Additive models" in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateAdditiveClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 2))
    >>> y = np.abs(X[:, 0]) > 0.5
    >>> model = PrivateAdditiveClassifier(epsilon=1.0, feature_bounds=(-1, 1)).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    kind: ClassVar[str] = "additive"


@final_estimator(**ADDITIVE)
class PrivateAdditiveRegressor(AdditiveModel, PrivateLinearRegressor):
    """Additive regression under differential privacy: the prediction is a sum of shapes, inside a public range.

    Guarantee: as the linear model of the same `loss`.

    Parameters
    ----------
    {parameters}
    target_bounds : (lower, upper), optional
        Public range of the target, in its unit. Default: the schema's. ``"private"``: the fit finds one privately.
    loss : {"squared", "huber", "quantile"}, default="squared"
        Mean, robust mean or a quantile, as in `PrivateLinearRegression`, `PrivateHuberRegressor` and
        `PrivateQuantileRegressor`, with their default widths.
    quantile : float, default=0.5
        Which quantile, in (0, 1), with ``loss="quantile"``.

    Attributes
    ----------
    {attributes}

    Proofs: "Additive models" in the docs.
    """

    kind: ClassVar[str] = "additive_regression"
    _: KW_ONLY
    loss: str = "squared"
    quantile: float = 0.5
    heavy_tailed: Any = field(init=False, default=None)
    failure: float | None = field(init=False, default=None)
    surrogate: str = field(init=False, default="truncated")
    constraint: Any = field(init=False, default=None)

    @property
    def _level(self) -> float | None:
        return self.quantile if self.loss == "quantile" else None

    @property
    def _own_score(self) -> str:
        return {"huber": "absolute_error", "quantile": "pinball"}.get(self.loss, "squared_error")

    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        _validate.choice("loss", self.loss, ("squared", "huber", "quantile"))
        if self.loss == "squared":
            return SquaredLoss(reach, prediction_bound=reach)
        if self.loss == "huber":
            return PseudoHuberLoss(DEFAULT_WIDTH, target_bound=reach)
        return SmoothedPinballLoss(self.quantile, DEFAULT_SMOOTHING, target_bound=reach, saturating=True)

    def _explained(self, share: float, look: bool) -> float | None:
        return super()._explained(share, look) if self._straight else None  # shapes have their own prior

    def _surrogates(self, problem: LinearModelProblem) -> tuple[LinearModelLoss, ...]:
        return capped(self._reach(), self.delta) if self.loss == "squared" else ()
