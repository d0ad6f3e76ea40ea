"""Targets: labels become positions, numbers are scaled to a public range. Errors follow from public form, not content.

Weights of records and classes are clipped to public caps, so that noise hides a record of any weight; without a cap it
would not. Guarantee and lemma: `dpconvex.losses.derived`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import narwhals as nw
import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms import Plan, stored
from dpconvex.data import NumericTarget, Schema
from dpconvex.data.frames import Series, codes, distinct_values, kind_of, numbers, texts_series, type_name, typed
from dpconvex.data.targets import PRIVATE
from dpconvex.errors import InvalidDataError, InvalidParameterError, SchemaError
from dpconvex.estimators._features import checked_schema
from dpconvex.estimators._matrices import column_of, elements, numbers_of, same_length
from dpconvex.losses import LinearModelLoss, SmoothLoss, WeightedLoss
from dpconvex.problems import NumberRange
from dpconvex.problems.data.ranges import PARTS, kept


def as_series(y: Any, name: str = "y") -> tuple[Series, str]:
    """Return labels of any kind (array, list, Series) as a narwhals series, and their kind by their type alone."""
    # Objects are compared by their text, for lists and pandas' categories may hold any object.
    labels = column_of(y, name)
    if isinstance(labels, nw.Series):
        labels = labels.alias(name)
        if type_name(labels).lower() in ("object", "category"):  # of pandas: levels' own type may follow from a cell
            return labels, "objects"
        try:
            return labels, kind_of(labels)
        except SchemaError:
            raise _no_labels(name, type_name(labels)) from None
    kind = labels.dtype.kind
    if kind == "b":
        return nw.new_series(name, labels, backend="pyarrow"), "boolean"
    if kind in "fiu":
        with np.errstate(all="ignore"):  # long doubles beyond float64 become infinities
            return nw.new_series(name, labels.astype(np.float64), backend="pyarrow"), "number"
    if kind not in "OUT":
        raise _no_labels(name, _validate.dtype_of(labels))
    return texts_series(labels).alias(name), "objects" if kind == "O" else "text"


def _no_labels(name: str, kind: str) -> InvalidDataError:
    return InvalidDataError(f"{name} has type {kind}: text, categories, numbers or Booleans are needed. Convert it")


def declared_index(y: Any, classes: Array, name: str = "y") -> Array:
    """Return the index of every label in the declared `classes`, (n,), compared as a schema does; unlisted: 0."""
    labels, kind = as_series(y, name)
    if kind not in ("objects", "nothing") and (classes.dtype.kind in "UO") != (kind == "text"):
        listed = ("classes=" if name == "y" else "declared are ") + repr(classes.tolist())
        what, told = f"{name} holds {kind} labels, but {listed}: give the same type", name == "y" and kind == "number"
        own = ". Scikit-learn's tools may have encoded them: encode y yourself, and give classes=[0, 1, ...]"
        raise InvalidDataError(what + own * told)
    try:
        return np.maximum(codes(labels, [str(label).strip() for label in classes.tolist()], closed=True), 0)
    except SchemaError as error:
        raise InvalidDataError(str(error)) from None


def checked_classes(classes: Any) -> Array:
    """Return declared classes as an array, or raise `InvalidParameterError` unless they are different labels."""
    remedy = "List them, negative class first, as in classes=[0, 1]"
    cells = elements(classes) if isinstance(classes, list | tuple) else np.asarray(classes)
    if cells.ndim != 1 or any(isinstance(cell, list | tuple) for cell in cells):
        nested = "must be texts, numbers or Booleans in one list, not lists or tuples of them"
        what = nested if cells.ndim else "must be a list or an array, which has an order"
        raise InvalidParameterError("classes", classes, what, remedy)
    if texts_series(cells).null_count():  # of the cells as they are: NumPy makes texts of ["a", nan]
        what = "must hold no missing value: a missing label counts as the first class, and is never predicted"
        raise InvalidParameterError("classes", classes, what, "Leave it out, or give such labels a name in y, too")
    listed = np.asarray(classes)
    names = {str(label).strip() for label in listed.tolist()}
    values = set(listed.astype(np.float64).tolist()) if listed.dtype.kind in "fiub" else names
    if len(values) < len(names):
        what = "must be different as float64, as which numbers are read: whole numbers beyond 2**53 need not be"
        raise InvalidParameterError("classes", classes, what, "Make texts of them, here and in y")
    if not 2 <= len(listed) == len(names):
        raise InvalidParameterError("classes", classes, "must list at least two different labels, each once", remedy)
    return listed


def require_two(name: str, value: Any, n_classes: int) -> None:
    """Raise `InvalidParameterError`, in the words that scikit-learn looks for, where there are more classes."""
    if n_classes > 2:
        what = "Only binary classification is supported. The type of the target is multiclass"
        raise InvalidParameterError(name, value, what, "Use PrivateLogisticRegression for more than two classes")


def default_index(y: Any) -> tuple[Array, Array]:
    """Return the class index of every label, (n,), and the classes, for Boolean labels: False and True."""
    # For other types a guess would silently count all labels but one as the first class.
    labels = column_of(y, "y")
    if as_series(labels)[1] != "boolean":
        kind = type_name(labels) if isinstance(labels, nw.Series) else _validate.dtype_of(labels)
        a_list = isinstance(typed(y), list | tuple)
        of = "a list of labels, whose type a single one would decide" if a_list else f"labels of type {kind}"
        what = f"must be given for {of}; only Booleans say which labels there are"
        remedy = "List them, negative class first, as in classes=[0, 1], or in a schema; or give y == positive_label"
        raise InvalidParameterError("classes", None, what, remedy)
    classes = np.array([False, True])
    return declared_index(labels, classes), classes


def inferred_classes(y: Any) -> Array:
    """Return the labels that occur, sorted. Reads the data: whoever asks for it makes which labels occur public."""
    labels = np.asarray(y) if isinstance(y := typed(y), list | tuple) else column_of(y, "y")
    if not isinstance(labels, nw.Series) and labels.dtype.kind in "fiub":
        found = np.unique(labels)
        found = found[found == found]
    else:
        found = np.unique(np.array(distinct_values(as_series(labels)[0]).drop_null().to_pylist()))
    if len(found) == 0:
        raise InvalidDataError("y holds no label, and classes='infer' reads them off y. List the classes")
    return found


def number_array(y: Any) -> Array:
    """Return numeric targets as an array (n,); missing targets, and list entries that are not numbers, are NaN."""
    if isinstance(y := typed(y), list | tuple):
        return numbers_of(elements([_alone(cell) for cell in y]))
    values, kind = as_series(y)
    if kind in ("text", "objects"):
        raise InvalidDataError("y holds text or objects, and numbers are needed. Convert it to a numeric dtype")
    return numbers(values)


def _alone(cell: Any) -> Any:
    """Return the element of a list of one element; other cells as they are."""
    try:
        return cell[0] if isinstance(cell, list | tuple) and len(cell) == 1 else cell
    except Exception:  # any cell is legal, whatever it says of its class or length
        return float("nan")


@stored
@final_dataclass
class TargetRange:
    """The public range of a numeric target, in its own unit: ``lower < upper``, at most 1e100 in size."""

    lower: float
    upper: float

    @classmethod
    def checked(cls, bounds: Any) -> "TargetRange":
        """Return the range ``(lower, upper)``, or raise `InvalidParameterError`."""
        try:
            lower, upper = bounds
        except (TypeError, ValueError):
            what, remedy = "must be two numbers (lower, upper)", "Take them from public knowledge"
            raise InvalidParameterError("target_bounds", bounds, what, remedy) from None
        low = _validate.real("target_bounds[0]", lower)
        high = _validate.real("target_bounds[1]", upper, above=low, remedy="Give a range wider than one value")
        if max(-low, high) > _validate.LARGEST:
            raise InvalidParameterError("target_bounds", bounds, f"must be at most {_validate.LARGEST:g} in size")
        return cls(low, high)

    @property
    def width(self) -> float:
        """``upper - lower``."""
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        """Half-way between the bounds."""
        return self.lower / 2 + self.upper / 2

    def scale(self, values: Array, reach: float = 0.5) -> Floats:
        """Return a float64 copy (n,) that maps the range to [-1/2, 1/2], clipped to [-reach, reach]; NaN becomes 0."""
        with np.errstate(all="ignore"):  # long doubles beyond float64 become infinities
            out = (np.array(values, dtype=np.float64) - self.middle) / self.width
            return np.nan_to_num(np.clip(out, -reach, reach), copy=False, nan=0.0)


def finds_range(target_bounds: Any, schema: Schema | None) -> bool:
    """Return whether the target's range is left to a fit."""
    if isinstance(target_bounds, str):
        _validate.choice("target_bounds", target_bounds, (PRIVATE,), "Or give (lower, upper)")
        return True
    target = None if schema is None else checked_schema(schema).target
    return target_bounds is None and target is not None and target.numeric and not target.ranged


def declared_range(target_bounds: Any, schema: Schema | None) -> TargetRange:
    """Return the target's range from the caller, or else from the schema; raise if neither declares one."""
    if target_bounds is not None:
        return TargetRange.checked(target_bounds)
    target = None if schema is None else checked_schema(schema).target
    if not isinstance(target, NumericTarget):
        what = "must be given as (lower, upper), or by a schema whose [target] has lower and upper"
        remedy = "Bounds must be public knowledge: targets are clipped into them"
        raise InvalidParameterError("target_bounds", None, what, remedy)
    return TargetRange.checked((target.lower, target.upper))


def weighted(loss: LinearModelLoss, cap: float | None) -> WeightedLoss:
    """Return the loss of weighted records, or refuse a loss that is not smooth."""
    if not isinstance(loss, SmoothLoss):
        what = "must be left out: weights need a smooth loss"
        raise InvalidParameterError("weight_cap", cap, what, "Give a positive smoothing")
    return WeightedLoss(loss)


def shares_of_cap(schema: Schema | None, X: Any, sample_weight: Any, cap: float | None) -> Floats | None:
    """Return weights in shares of their cap, (n,), in [0, 1], with NaN as 0; None without weights."""
    if sample_weight is None and schema is not None and schema.weight is not None:
        sample_weight = schema.weights(X)
    if sample_weight is None:
        return None
    if cap is None:
        what = "must be given with sample_weight: noise hides a record of the largest weight"
        raise InvalidParameterError("weight_cap", None, what, "Give a public bound; weights above it are clipped")
    with np.errstate(all="ignore"):  # clipped, or the noise would not hide it: Lemma (weights)
        return np.clip(np.nan_to_num(number_array(sample_weight) / cap, nan=0.0), 0.0, 1.0)


def packed(loss: LinearModelLoss, targets: Array, weights: Floats | None, cap: float | None) -> Floats:
    """Return targets with their weights (n,), which are 1 unless given."""
    weights = np.full(len(targets), _one(cap)) if weights is None else weights
    same_length(len(targets), len(weights), "sample_weight", private=True)
    return cast(WeightedLoss, loss).packed(targets, weights)


def times_class(
    weights: Floats | None, index: Array, classes: Array, class_weight: Any, cap: float | None
) -> Floats | None:
    """Return weights (n,) times the public weights of the classes, the latter in shares of the largest."""
    if class_weight is None:
        return weights
    shares = class_shares(class_weight, classes)[index]
    same_length(len(shares), len(shares if weights is None else weights), "sample_weight", private=True)
    return shares * (_one(cap) if weights is None else weights)


def class_shares(class_weight: Any, classes: Array) -> Floats:
    """Return the weight of every class, in their order, in shares of the largest."""
    by_class = isinstance(class_weight, Mapping) and set(class_weight) == set(classes.tolist())
    listed = [class_weight[label] for label in classes.tolist()] if by_class else class_weight
    if not isinstance(listed, list | tuple) or len(listed) != len(classes):
        what = "must give every declared class a weight: a dict by class, or a list in their order"
        remedy = '"balanced" would count the classes in private data. Use 1 / public share of each class'
        raise InvalidParameterError("class_weight", class_weight, what, remedy)
    of_class = np.array([_validate.real(f"class_weight[{k}]", w, above=0.0) for k, w in enumerate(listed)])
    return of_class / of_class.max()


def _one(cap: float | None) -> float:
    """Return the weight 1 in shares of the cap."""
    return 1.0 if cap is None else min(1.0, 1 / cap)


class Classifier(ClassifierMixin, ABC):
    """A classifier whose `score` reads labels as `fit` does: classes of a schema are texts, also of numbers."""

    @abstractmethod
    def _labels(self, X: Any, y: Any) -> tuple[Array, Array]:
        """Return the class index of every record and the classes."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy; of a table with a schema without `y`, too. On private data it is not private."""
        index, classes = self._labels(X, y)
        return float(accuracy_score(np.asarray(classes)[index], self.predict(X), sample_weight=sample_weight))  # pyright: ignore[reportAttributeAccessIssue]


class Regressor(RegressorMixin, ABC):
    """A regressor whose `score` reads a table with a schema as `fit` does."""

    _numeric = True
    schema: Any
    target_bounds: Any
    ranges_: Any
    n_features_in_: Any
    _feature_map: Any
    _schema_target: Any

    @property
    def output_scale(self) -> float:
        return self._range().width

    @abstractmethod
    def _numbers(self, X: Any, y: Any) -> Array:
        """Return the targets in their own unit."""

    @property
    def _finds_target(self) -> bool:
        return finds_range(self.target_bounds, self.schema)

    def _declared(self) -> TargetRange:
        """Return the range that targets are given in; a range of width 1 if a fit finds it."""
        return TargetRange(-0.5, 0.5) if self._finds_target else declared_range(self.target_bounds, self.schema)

    def _range(self) -> TargetRange:
        """Return the range of predictions: the declared range, the part of it that a fit kept, or the found range."""
        of_columns = len(self._feature_map(self.n_features_in_).unranged) if self.ranges_ else 0
        found = self.ranges_[of_columns : of_columns + 1]
        return TargetRange(found[0].lower, found[0].upper) if found else self._declared()

    _target_range = _range

    @property
    def _yes_or_no(self) -> bool:
        bounds, step = self._declared(), getattr(self._schema_target, "step", 0.0)
        return bounds.width == 1 and float(bounds.lower).is_integer() and not 0 < step < 0.25

    def _target_part(self, ran: Plan) -> tuple[NumberRange, ...]:
        whole = (0, PARTS) if getattr(ran, "cells", ()) else ()  # `ranges_` has a place for it
        bounds, cells = self._declared(), getattr(ran, "target_cells", ()) or whole
        return (kept(NumberRange(bounds.lower, bounds.upper), *cells),) if cells else ()

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2; of a table with a schema without `y`, too. On private data it is not private."""
        truth = np.asarray(self._numbers(X, y), dtype=np.float64)
        kept, middle = self._range(), self._declared().middle  # as fits count what is missing
        middle = kept.middle if self._finds_target else float(np.clip(middle, kept.lower, kept.upper))
        truth = np.where(np.isnan(truth), middle, truth)
        return float(r2_score(truth, self.predict(X), sample_weight=sample_weight))  # pyright: ignore[reportAttributeAccessIssue]


class FromLogits(ABC):
    """Probabilities of a classifier whose scores are log-odds."""

    classes_: Array

    @abstractmethod
    def _log_odds(self, X: Any) -> Floats:
        """Return the log-odds of the second class, (n,), or the scores of all classes, (n, n_classes)."""

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class, (n, n_classes), in the order of ``classes_``."""
        return self._of_odds(X, softmax, expit, np.ones)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of `predict_proba`."""
        return self._of_odds(X, log_softmax, log_expit, np.zeros)

    def _of_odds(self, X: Any, softmax: Any, expit: Any, certain: Any) -> Floats:
        logits = self._log_odds(X)
        if logits.ndim == 2:
            return softmax(logits, axis=1)
        return np.column_stack([expit(-logits), expit(logits)] if len(self.classes_) == 2 else [certain(len(logits))])
