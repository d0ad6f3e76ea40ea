"""Moving targets into the declared ones, record by record."""

from __future__ import annotations

import math

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError
from dpconvex.losses.base import quiet

LARGEST_TARGET = 1e100
"""Where no bound is declared, targets are clipped here, so that residuals and sums of losses stay finite."""


def signs(y: AnyArray) -> FloatArray:
    """Return +1 where ``y > 0``, else -1 (so 0 and NaN become -1)."""
    return np.where(_checked(y) > 0, 1.0, -1.0)


@quiet
def class_indices(y: AnyArray, n_classes: int) -> FloatArray:
    """Return the nearest class index 0, ..., n_classes - 1; NaN becomes 0."""
    out = _as_float_copy(y)
    np.nan_to_num(out, copy=False, nan=0.0)
    np.rint(out, out=out)
    return np.clip(out, 0, n_classes - 1, out=out)


@quiet
def reals(y: AnyArray, bound: float) -> FloatArray:
    """Return `y` clipped to ``[-bound, bound]`` (at most ``LARGEST_TARGET``); NaN becomes 0."""
    out = _as_float_copy(y)
    np.nan_to_num(out, copy=False, nan=0.0)
    limit = min(bound, LARGEST_TARGET)
    return np.clip(out, -limit, limit, out=out)


def check_bound(target_bound: float, *, finite: bool = False) -> None:
    """Raise `InvalidParameterError` unless the bound is in (0, ``LARGEST_TARGET``], or infinite if allowed."""
    if finite or target_bound != math.inf:
        remedy = "Give the largest absolute target, in the unit of the target, from public knowledge"
        _validate.real("target_bound", target_bound, above=0.0, at_most=LARGEST_TARGET, remedy=remedy)


def _checked(y: AnyArray) -> AnyArray:
    y = np.asarray(y)
    if y.ndim != 1:
        raise InvalidDataError(f"y has shape {y.shape}; one target per record is needed, shape (n,)")
    if y.dtype.kind not in "fiub":
        raise InvalidDataError(f"y has dtype {y.dtype}; a real numeric dtype is needed. Encode labels first")
    return y


def _as_float_copy(y: AnyArray) -> FloatArray:
    return np.array(_checked(y), dtype=np.float64)
