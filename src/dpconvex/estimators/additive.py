"""Additive classifier and regressor: the models of `additive_base`, with classes or numbers as targets."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, final

from dpconvex import _validate
from dpconvex.estimators.additive_base import AdditiveModel
from dpconvex.estimators.base import RELEASED, with_shared
from dpconvex.estimators.classifiers import LogisticModel
from dpconvex.estimators.regressors import CAPS, DEFAULT_SMOOTHING, DEFAULT_WIDTH, PrivateLinearRegressor
from dpconvex.losses import HuberLoss, LinearModelLoss, PseudoHuberLoss, SmoothedPinballLoss, SquaredLoss
from dpconvex.problems import LinearModelProblem

SHARED = """
epsilon, delta : float
    Privacy budget of one `fit`, as in `PrivateLogisticRegression`.
schema : Schema, optional
    Columns, ranges, categories and target of a table. Its numeric columns may say ``missing`` and ``knots`` themselves.
feature_bounds : (lower, upper), optional
    Public bounds on every column of a numeric matrix. Exactly one of the two must be given.
ranges : {"declared"}, default="declared"
    Where the ranges of numeric columns come from. Private ranges are not built yet.
knots : "auto" or int, default="auto"
    Knots of every numeric column that declares none; 2 makes it a straight line. ``"auto"``: the number of the smallest
    expected error, from public facts; then a model of straight lines by another method is considered too.
interactions : list of pairs of column names, default=()
    Pairs whose products are added, at 4 knots a column and up to 8 levels of a category. Each is one more block, so
    all others have about ``1/m`` more noise, m the number of blocks.
missing : {"own", "none"}, default="own"
    Whether a missing number has a value of its own, for numeric columns that do not say so; ``"none"``: it counts as
    equal parts of all values. It is never found out from cells or types.
monotone : dict, optional
    Names of numeric columns and ``"increasing"`` or ``"decreasing"``: the released shape is replaced by the nearest
    such one, all knots counting the same. One score only. Certificate and deviations are of the shape before.
algorithm, noise : str, default="auto"
    ``"objective_perturbation"`` fits shapes only; ``"auto"`` also plans straight lines by any method.
records_per_user, random_state : optional
    As in `PrivateLogisticRegression`.
"""
FOUND = """
shapes_ : list of Shape
    The released shapes, one a column or pair: vertices, values (summing to 0) and planned deviation of the noise.
intercept_ : array or float
    The score of a record whose shapes are all 0.
knots_ : tuple
    Knots of each column, in its own unit; empty for categories.
degrees_of_freedom_ : dict
    Planned, of each column; after a fit in this process.
coef_ : array
    Values of all shapes, one after the other.
{released}
"""
DOCS = {"shared": SHARED, "found": FOUND, "released": RELEASED}


@final
@with_shared(**DOCS)
@dataclass(eq=False, repr=False)
class PrivateAdditiveClassifier(AdditiveModel, LogisticModel):
    """Additive classification (a generalized additive model) under differential privacy, binary and multiclass.

    The log-odds are a sum of one shape a column, a broken line for a number and a value a level for a category. With
    pure privacy and declared ranges it is the most accurate classifier of this library on most tables, and it can be
    read: each column is one picture. Guarantee: as `PrivateLogisticRegression`.

    Parameters
    ----------
    {shared}
    classes, slope_cap, probabilities, rates : optional
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    {found}
    classes_ : array of shape (n_classes,)
        Labels.

    References
    ----------
    Nori, Caruana, Bu, Shen and Kulkarni (2021), for additive models under privacy by boosting. Proofs: "Additive
    models" in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateAdditiveClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = np.abs(X[:, 0]) > 0.5
    >>> model = PrivateAdditiveClassifier(epsilon=1.0, feature_bounds=(-1, 1)).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> [shape.name for shape in model.shapes_]
    ['feature 0', 'feature 1']
    """

    kind: ClassVar[str] = "additive"


LOSSES = ("squared", "huber", "quantile")


@final
@with_shared(**DOCS)
@dataclass(eq=False, repr=False)
class PrivateAdditiveRegressor(AdditiveModel, PrivateLinearRegressor):
    """Additive regression (a generalized additive model) under differential privacy.

    The prediction is a sum of one shape a column, inside the public range of the target. Guarantee: as
    `PrivateLogisticRegression`.

    Parameters
    ----------
    {shared}
    target_bounds : (lower, upper), optional
        Public range of the target. Default: the schema's numeric target. It must be declared.
    loss : {"squared", "huber", "quantile"}, default="squared"
        Mean, robust mean or a quantile, as in `PrivateLinearRegression`, `PrivateHuberRegressor` and
        `PrivateQuantileRegressor`, with their default widths.
    quantile : float, default=0.5
        Which quantile, with ``loss="quantile"``.

    Attributes
    ----------
    {found}

    References
    ----------
    Proofs: "Additive models" in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateAdditiveRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> y = 20 * X[:, 0] ** 2 + rng.normal(size=20_000)
    >>> model = PrivateAdditiveRegressor(epsilon=1.0, feature_bounds=(-1, 1), target_bounds=(0, 20)).fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    """

    kind: ClassVar[str] = "additive_regression"

    _: KW_ONLY
    loss: str = "squared"
    quantile: float = 0.5
    heavy_tailed: Any = field(init=False, default=None)

    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        _validate.choice("loss", self.loss, LOSSES)
        if self.loss == "squared":
            return SquaredLoss(reach, prediction_bound=reach)
        if self.loss == "huber":
            return PseudoHuberLoss(DEFAULT_WIDTH, target_bound=reach)
        return SmoothedPinballLoss(self.quantile, DEFAULT_SMOOTHING, target_bound=reach)

    def _surrogates(self, problem: LinearModelProblem) -> tuple[LinearModelLoss, ...]:
        if self.loss != "squared":
            return ()
        return tuple(HuberLoss(cap, self._reach(), of_mean=True) for cap in CAPS)
