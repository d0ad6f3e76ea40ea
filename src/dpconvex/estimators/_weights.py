"""Weights of records and classes: capped by public numbers, so that noise hides a record of any weight.

Guarantee and lemma: `dpconvex.losses.weighted`. What is not capped would not be hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.data import Schema
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._features import same_length
from dpconvex.estimators._targets import number_array
from dpconvex.losses import LinearModelLoss, SmoothLoss, WeightedLoss


def weighted(loss: LinearModelLoss, cap: float | None) -> WeightedLoss:
    """Return the loss of weighted records, or refuse a loss that is not smooth."""
    if not isinstance(loss, SmoothLoss):
        what = "must be left out: weights need a smooth loss"
        raise InvalidParameterError("weight_cap", cap, what, "Give a positive smoothing")
    return WeightedLoss(loss)


def shares_of_cap(schema: Schema | None, X: Any, sample_weight: Any, cap: float | None) -> FloatArray | None:
    """Return weights in shares of their cap, (n,), in [0, 1]; None where there are none. NaN counts as 0."""
    if sample_weight is None and schema is not None and schema.weight is not None:
        sample_weight = schema.weights(X)
    if sample_weight is None:
        return None
    if cap is None:
        what = "must be given with sample_weight: noise hides a record of the largest weight"
        raise InvalidParameterError("weight_cap", None, what, "Give a public bound; weights above it are clipped")
    with np.errstate(all="ignore"):  # clipped, or the noise would not hide it: Lemma (weights)
        return np.clip(np.nan_to_num(number_array(sample_weight) / cap, nan=0.0), 0.0, 1.0)


def packed(loss: LinearModelLoss, targets: AnyArray, weights: FloatArray | None, cap: float | None) -> FloatArray:
    """Return targets with their weights (n,), those that are not given being 1."""
    weights = np.full(len(targets), _one(cap)) if weights is None else weights
    same_length(targets, weights, "sample_weight")
    return cast(WeightedLoss, loss).packed(targets, weights)


def times_class(
    weights: FloatArray | None, index: AnyArray, classes: AnyArray, class_weight: Any, cap: float | None
) -> FloatArray | None:
    """Return weights (n,) times the public ones of the classes, in shares of the largest."""
    if class_weight is None:
        return weights
    listed = class_weight
    if isinstance(listed, Mapping) and set(listed) == set(classes.tolist()):
        listed = [listed[label] for label in classes.tolist()]
    if not isinstance(listed, list | tuple) or len(listed) != len(classes):
        what = "must give every declared class a weight: a dict by class, or a list in their order"
        remedy = '"balanced" would count the classes in private data. Use 1 / public share of each class'
        raise InvalidParameterError("class_weight", class_weight, what, remedy)
    of_class = np.array([_validate.real(f"class_weight[{k}]", w, above=0.0) for k, w in enumerate(listed)])
    shares = (of_class / of_class.max())[index]
    same_length(shares, shares if weights is None else weights, "sample_weight")
    return shares * (_one(cap) if weights is None else weights)


def _one(cap: float | None) -> float:
    """Return the weight 1 in shares of the cap."""
    return 1.0 if cap is None else min(1.0, 1 / cap)
