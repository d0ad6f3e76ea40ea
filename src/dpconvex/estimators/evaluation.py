"""Private evaluation of fitted models: metrics with intervals on test records, and a hold-out that costs nothing more.

Guarantee
    Pure epsilon-DP in the test records (`dpconvex.algorithms.queries.evaluation`). Scores of records are functions of
    their own rows to the last bit: sums in one fixed order, no matrix products.
Hold-out
    Theorem 5 of the docs, Private evaluation: units are put in an order that is uniformly random, secret and used once;
    the first are the test part. A unit is in one part only, so model and evaluation together cost the larger of the two
    prices. With coins that are public or depend on records this is false for tables whose order does.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms import begin, require_runnable
from dpconvex.algorithms.queries import metrics
from dpconvex.algorithms.queries.evaluation import EvaluationPlan, plan as plan_evaluation
from dpconvex.algorithms.queries.metrics import Estimate
from dpconvex.algorithms.search.plan import taken
from dpconvex.algorithms.search.scores import Score
from dpconvex.data.frames import codes, open_table, typed
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import _targets
from dpconvex.estimators._digest import model_digest
from dpconvex.estimators._features import scores_of_rows
from dpconvex.estimators._matrices import fitted_columns, same_length
from dpconvex.estimators._streams import checked, users_of
from dpconvex.estimators.base import FittedModel, PrivateLinearModel
from dpconvex.estimators.classifiers import LogisticModel, PrivateLinearClassifier
from dpconvex.estimators.sparse import PrivateSparseClassifier
from dpconvex.losses import LogisticLoss
from dpconvex.privacy import Payment, PrivacyCertificate, PrivacyParams, Unit, charge
from dpconvex.problems.data import _loops
from dpconvex.randomness import BitSource, source_from

UNLISTED = "(not listed)"
HELD_OUT = (
    "Model and evaluation were made from disjoint parts of one table, whose places a secret random order decided that "
    "was used once and is stored nowhere. So releasing both is ({epsilon:g}, {delta:g})-differentially private, the "
    "larger of the two prices, for neighbors that replace one {unit}: neither certificate alone is the price of both. "
    "A further evaluation of these records costs its own epsilon in full."
)
SEEDED = " NOT PRIVATE: with a seed the order is no secret."


@final_dataclass(eq=False)
class PrivateMetrics(Mapping[str, Estimate]):
    """Metrics by name, each an `Estimate` (value, lower, upper) with a 95 % interval; made by `private_metrics`."""

    whole: Mapping[str, Estimate]
    groups: Mapping[str, Mapping[str, Estimate]]  #: Metrics of each group, by the group's label
    differences: Mapping[str, Mapping[str, Estimate]]  #: Metrics of each group less those of the first group
    #: (bins, 5): mean probability, share that was right, its interval, number of units; bins that are known
    calibration: Floats
    roc: Floats  #: (points, 2): false and true positive rates; empty where they are unknown
    certificate_: PrivacyCertificate  #: States what the evaluation costs
    plan_: EvaluationPlan  #: The plan that ran: public constants
    cells_: Floats  #: The released noisy sums, from which everything else follows
    promise_: str = ""  #: The joint promise of model and evaluation, after a hold-out
    #: For regressions the range that targets are clipped to; for three classes or more the numbers of the classes
    scope_: str = ""
    classes_: tuple[str, ...] = ()  #: Labels of the classes: ``recall[2]`` is of the third

    def __getitem__(self, name: str) -> Estimate:
        return self.whole[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole)

    def __len__(self) -> int:
        return len(self.whole)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields; unknown metrics are None."""

        def fields(found: Mapping[str, Estimate]) -> dict[str, Any]:
            return {name: [each.value, each.lower, each.upper] if each.known else None for name, each in found.items()}

        groups, less = ({k: fields(v) for k, v in each.items()} for each in (self.groups, self.differences))
        metrics = {"metrics": fields(self), "groups": groups, "differences": less}
        arrays = {"calibration": self.calibration.tolist(), "roc": self.roc.tolist(), "cells": self.cells_.tolist()}
        words = {"promise": self.promise_ or None, "scope": self.scope_ or None, "classes": list(self.classes_)}
        return {**metrics, **arrays, **words}

    def __repr__(self) -> str:
        lines = [f"{name}: {each}" for name, each in self.items()]
        lines += [f"{name} ({label}): {each}" for label, found in self.groups.items() for name, each in found.items()]
        return "\n".join(lines)


def private_metrics(
    model: Any, X: Any, y: Any = None,
    *, epsilon: float, by: Any = None, groups: Any = None, random_state: int | BitSource | None = None,
) -> PrivateMetrics:  # fmt: skip
    """Evaluate a fitted model on private test records: every metric with an interval, for one epsilon.

    Guarantee: everything returned is together pure epsilon-DP for neighbors that replace one test record, or one user
    of `groups`, whose number is public. The training records are not part of it: if the model was fitted on the same
    records, its own price is added.

    Parameters
    ----------
    model : fitted estimator
        A linear, additive or sparse model of this library; it must have been fixed before.
    X : array of shape (n, n_features) or data frame
        Test features, as in `fit`.
    y : array of shape (n,), optional
        Labels or targets. With a schema, None takes its target column. No label raises: one that is missing or not
        listed counts as the first class, and a missing number as the middle of the range.
    epsilon : float
        Privacy budget of the evaluation, positive. About ``100 / n`` leaves an error of 0.006 in the accuracy.
    by : str, list of str or mapping, optional
        Columns of a data frame `X` whose groups are reported too, at no further cost: categorical columns of the
        schema, or ``{column: public levels}``. Levels of several columns are combined. What is missing or not listed is
        in the group ``"(not listed)"``.
    groups : array of shape (n,), optional
        Whose record it is. Default: the schema's user column, if it names one.
    random_state : None, int or BitSource
        None draws noise from the operating system. A seed is for tests only: the result is then *not private*.

    Returns
    -------
    PrivateMetrics
        A mapping from names such as ``"accuracy"``, ``"auc"``, ``"log_loss"``, ``"brier"`` to `Estimate`. Of numbers:
        ``"r2"``, ``"rmse"`` and ``"mae"``; of quantiles, in the place of the first two, ``"pinball"`` and
        ``"coverage"``, the share of targets that are at most the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateLogisticRegression, private_metrics
    >>> X = np.random.default_rng(0).uniform(-1, 1, (6000, 2))
    >>> y = X[:, 0] > 0
    >>> model = PrivateLogisticRegression(epsilon=1.0, feature_bounds=(-1, 1)).fit(X[:3000], y[:3000])
    >>> found = private_metrics(model, X[3000:], y[3000:], epsilon=0.5)
    >>> found["accuracy"].lower > 0.8
    True
    >>> found.certificate_.spent_epsilon <= 0.5
    True
    """
    return _evaluate(model, X, y, epsilon, by, groups, source_from(random_state))


def _evaluate(
    model: Any, X: Any, y: Any, epsilon: float, by: Any, labels: Any, source: BitSource, paid: Payment | None = None
) -> PrivateMetrics:
    model = getattr(model, "best_estimator_", model)  # the model that a search chose
    if not isinstance(model, FittedModel):
        what = "must be a fitted linear, additive or sparse model of this library, or a search for one"
        raise InvalidParameterError("model", type(model).__name__, what, "Evaluate another model on public records")
    check_is_fitted(model, "encoded_coef_")
    fitted: Any = model
    names, group = _groups(fitted, X, by)
    scores, classes = scores_of_rows(model, X), _classes(model)
    truth = _truth(model, X, y)
    users = users_of(model.schema, X, labels)
    same_length(len(scores), len(truth), private=users is not None)
    same_length(len(scores), len(scores) if users is None else users.n_records, "groups", private=True)
    n = len(scores) if users is None else users.n_users
    privacy = PrivacyParams(epsilon, unit=Unit.RECORD if users is None else Unit.USER)
    plan = plan_evaluation(n, privacy, classes=classes, groups=max(len(names), 1))
    payment = paid or begin(plan, "evaluation", int(model.n_features_in_), n, source)
    within = np.zeros(len(scores), dtype=np.int64) if group is None else group
    if classes == 0:
        target: Any = fitted._range()
        parts = [(values - target.lower) / target.width for values in (scores[:, 0], truth)]
        predicted, right = np.clip(parts, 0, 1)  # as `predict` clips
        above, level = right - predicted, fitted._level
        score = Score("squared_error", 1.0) if level is None else Score("pinball", 1.0, level)
        last = right**2 if level is None else above <= 0
        values = np.column_stack([score.of_residuals(above), np.abs(above), right, last])
        result = plan.run(within[:, None], values, users, source)
        found = metrics.of_numbers(result, target.lower, target.upper, level is not None)
    elif classes == 2:
        z, (center, unit) = scores[:, 0], _bins(model)
        cuts, link = _cuts(model, unit * metrics.grid(plan.shapes[-1][1], center).cuts)
        places = np.searchsorted(cuts, z, side="left")  # (t, t']: a score of 0 is below, as `predict` counts it
        result = plan.run(((within * (len(cuts) + 1) + places) * 2 + truth)[:, None], None, users, source)
        found = metrics.of_scores(result, link, center, flat=not model.encoded_coef_.any())
    else:
        top, odds = np.empty(len(scores), dtype=np.int64), np.empty(len(scores))
        _loops.top_scores(scores, top, odds)
        bins = np.searchsorted(metrics.grid(plan.shapes[-1][1]).cuts, odds, side="left")
        confusion = (within * classes + truth) * classes + top
        table = (within * plan.shapes[-1][1] + bins) * 2 + (top == truth)
        result = plan.run(np.column_stack([confusion, table]), None, users, source)
        found = metrics.of_classes(result)
    certificate = replace(result.certificate, model=model_digest(model))
    # One line may pay for both, and names the model's certificate; both name the line.
    certificate = payment.stated(certificate) if paid else payment.named(certificate)
    each, less = (dict(zip(names, part, strict=False)) for part in (found.groups, found.differences))
    less = {name: less[name] for name in names[1:]}
    listed = tuple(map(str, fitted.classes_)) if classes else ()
    scope = "" if classes else "Targets count as clipped to {0.lower:g} to {0.upper:g}.".format(fitted._range())
    if classes > 2:
        scope = f"Classes: {', '.join(f'[{k}] {label}' for k, label in enumerate(listed))}."
    released = found.calibration, found.roc, certificate, plan, result.cells
    return PrivateMetrics(found.whole, each, less, *released, scope_=scope, classes_=listed)


def require_replaced(model: Any) -> None:
    """Raise `InvalidParameterError` where the number of units is private: a holdout is a share of it."""
    if not model._relation.fixes_size:
        what = "must be 'replace_one' with a holdout"
        raise InvalidParameterError("neighbors", model.neighbors, what, "Leave one out")


def fit_and_evaluate(
    model: PrivateLinearModel, X: Any, y: Any = None,
    *, epsilon: float, holdout: float = 0.2, by: Any = None, groups: Any = None,
) -> PrivateMetrics:  # fmt: skip
    """Fit a model on a random part of private records, and evaluate it on the rest, at the larger of the two prices.

    Guarantee: model and metrics together are (max of the epsilons, delta of the fit)-differentially private for
    neighbors that replace one record, or one user. Which records were held out is secret and stored nowhere; there is
    no way to hold out by label, by date, by the content of a record or by a seed, for all these break the promise.

    Parameters
    ----------
    model : PrivateLinearModel
        Unfitted; it is fitted here. A seed in its ``random_state`` makes the whole *not private*.
    X, y, by, groups
        As in `private_metrics`, all records.
    epsilon : float
        Privacy budget of the evaluation, positive. Up to the epsilon of the fit it adds nothing to the whole.
    holdout : float, default=0.2
        Share of the units that are held out, in (0, 1).

    Returns
    -------
    PrivateMetrics
        Its ``promise_`` says what both cost.
    """
    _validate.real("holdout", holdout, above=0.0, below=1.0)
    if not isinstance(model, PrivateLinearModel):
        raise InvalidParameterError("model", type(model).__name__, "must be a linear or additive model of this library")
    require_replaced(model)
    if isinstance(getattr(model, "classes", None), str):
        what = "reads the labels off the records, and each part may hold others"
        raise InvalidParameterError("classes", model.classes, what, "List the classes")  # pyright: ignore
    source = source_from(model.random_state)
    features, records, users, planner = checked(model, X, y, groups)
    names, _ = _groups(model, X, by)
    units = records if users is None else users.n_users
    held = round(holdout * units)
    if not 0 < held < units:
        what = f"leaves {held} of {units} units to evaluate on: both parts need at least one"
        raise InvalidParameterError("holdout", holdout, what, "Use another share, or more records")
    unit, loss = Unit.RECORD if users is None else Unit.USER, model._declared_loss()
    plan = planner._plans(features, units - held, loss, unit)[0]
    evaluation = PrivacyParams(epsilon, unit=unit)
    promise = PrivacyParams(max(plan.privacy.epsilon, epsilon), plan.privacy.delta, unit=unit)
    classes = max(loss.n_outputs, 2) * (loss.task == "classification")
    plan_evaluation(held, evaluation, classes=classes, groups=max(len(names), 1))  # raises if it cannot run
    require_runnable(plan, source)
    _validate.installed(*(["opendp"] if source.private else []))  # the metrics' counts are integers
    plan.warn(units - held, promise)
    paid = charge(promise, "fit and evaluation", fitted_columns(model), units, private=source.private)
    # Theorem 5: a uniform order of the units, from the operating system, used once; only its ends matter
    order = source.generator().permutation(units)
    place = np.empty(units, dtype=np.int64)
    place[order] = np.arange(units)
    if users is None:
        parts, labels = (order[held:], order[:held]), (None, None)
    else:
        of_record = place[users.codes]
        parts = (np.flatnonzero(of_record >= held), np.flatnonzero(of_record < held))
        labels = (of_record[parts[0]], of_record[parts[1]])
    model._ready, model._paid = plan, paid
    try:
        model.fit(_rows(X, parts[0]), _rows(y, parts[0]), groups=labels[0])
    finally:
        del model._ready
    found = _evaluate(model, _rows(X, parts[1]), _rows(y, parts[1]), epsilon, by, labels[1], source, paid)
    text = HELD_OUT.format(epsilon=promise.epsilon, delta=promise.delta, unit=unit)
    return replace(found, promise_=text + ("" if source.private else SEEDED))


def _rows(values: Any, index: Array) -> Any:
    """Return the chosen rows of a table, array, sparse matrix or list, in the chosen order; None for None."""
    return values.tocsr()[index] if scipy.sparse.issparse(values) else taken(typed(values), index)


def _classes(model: Any) -> int:
    return max(len(model.classes_), 2) if isinstance(model, PrivateLinearClassifier | PrivateSparseClassifier) else 0


def _truth(model: Any, X: Any, y: Any) -> Array:
    """Return positions of classes (0 for unlisted labels), or numbers in the target's unit."""
    if not _classes(model):
        target = model._range()
        return target.middle + target.width * target.scale(model._numbers(X, y))
    if model.schema is not None and y is None:
        return model.schema.encode_target(X)
    return _targets.declared_index(model._required(y), np.asarray(model.classes_))


def _bins(model: Any) -> tuple[float, float]:
    """Return center (0 for near ones) and unit of the bins of scores, from public rates and the released model."""
    odds, exact = isinstance(model, LogisticModel | PrivateSparseClassifier), isinstance(model, LogisticModel)
    rates: Any = model._rates(2) if exact and model._link.cap >= 0.5 else None  # else bins are of scores, as they are
    blocks, unit = model._fitted_map().domain.blocks, 1.0
    parts = np.split(model.encoded_coef_[0], np.cumsum([block.size for block in blocks])[:-1])
    levels = [block.categorical and block.size > 1 for block in blocks]
    if rates is not None:
        center = math.log(rates[1] / rates[0])
    else:  # of a record in the middle of its ranges, on average over categories
        means = [part.mean() for part, each in zip(parts, levels, strict=True) if each]
        center = float(model.encoded_intercept_[0] + sum(means))
    if not odds:  # margins have no unit of their own: their typical deviation
        of_levels = [part.var() for part, each in zip(parts, levels, strict=True) if each]
        wide = [np.square(part * block.bound).sum() / 3 for part, block in zip(parts, blocks, strict=True)]
        unit = min(1.0, max(1e-9, math.sqrt(sum(of_levels) + sum(np.where(levels, 0.0, wide)))))
    return (center / unit if abs(center) > 2 * unit else 0.0), unit


def _cuts(model: Any, cuts: Floats) -> tuple[Floats, Any]:
    """Return thresholds of log-odds on the scores, and the link that makes log-odds of the bins' middles, or None."""
    # Thresholds on log-odds are mapped back by the link; a link that is flat around 0 is applied to midpoints instead.
    if not isinstance(model, LogisticModel | PrivateSparseClassifier):
        return cuts, None
    cap = model._link.cap if isinstance(model, LogisticModel) else 1.0
    if cap < 0.5:
        return cuts, LogisticLoss(cap).log_odds
    if cap < 1:
        above = np.maximum(np.abs(cuts) - math.log(cap), 1e-300)
        outside = above + np.log(-np.expm1(-above))  # log(1 + e^z) = t - log A
        cuts = np.where(np.abs(cuts) <= math.log(cap / (1 - cap)), cuts, np.copysign(outside, cuts))
    return cuts, lambda c: c


def _groups(model: Any, X: Any, by: Any) -> tuple[tuple[str, ...], Array | None]:
    """Return the names of the groups, unlisted labels last, and the group of every record; empty without `by`."""
    if by is None:
        return (), None
    columns = levels_of(model.schema, by)
    if not isinstance(nw.from_native(typed(X), eager_only=True, pass_through=True), nw.DataFrame):
        raise InvalidParameterError("by", by, "names columns, and X is no data frame", "Give X as a data frame")
    frame = open_table(X)
    names, position, unlisted = ("",), np.zeros(len(frame), dtype=np.int64), np.zeros(len(frame), dtype=np.bool_)
    for column, levels in columns.items():
        _validate.choice("by", column, tuple(frame.columns))
        found = codes(frame.get_column(column), levels)
        unlisted |= found < 0
        position = position * len(levels) + np.maximum(found, 0)
        names = tuple(f"{name}, {column}={level}".removeprefix(", ") for name in names for level in levels)
    return (*names, UNLISTED), np.where(unlisted, len(names), position)


def levels_of(schema: Any, by: Any) -> Mapping[str, Sequence[str]]:
    """Return the public levels of the columns to group by; raise unless they are declared."""
    if isinstance(by, Mapping):
        return {str(name): tuple(str(level) for level in levels) for name, levels in by.items()}
    declared = {} if schema is None else {column.name: column for column in schema.columns if not column.numeric}
    wanted = (by,) if isinstance(by, str) else tuple(by)
    for name in wanted:
        if name not in declared:
            what = "must be a categorical column of the schema, or a mapping from columns to their public levels"
            raise InvalidParameterError("by", name, what, "For example by={'region': ('north', 'south')}")
    return {name: declared[name].categories for name in wanted}
