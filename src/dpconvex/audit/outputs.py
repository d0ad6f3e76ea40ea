"""What an attacker sees of a result: every released number, as one vector."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.base import PrivateResult
from dpconvex.algorithms.location.base import LocationResult
from dpconvex.algorithms.location.geometric_median import GeometricMedianResult
from dpconvex.algorithms.minimax.base import SaddleResult
from dpconvex.algorithms.queries.base import QueryResult


@singledispatch
def released(result: Any) -> FloatArray:
    """Return the released numbers of a result, shape (k,); statuses become 0 ("ok") or 1.

    Parameters
    ----------
    result : object
        A result of this library, a number or an array; None: nothing was released. Others register a function of their
        own with ``@released.register``.
    """
    if isinstance(result, tuple):
        return np.concatenate([released(part) for part in result])
    return np.atleast_1d(np.asarray(np.nan if result is None else result, dtype=np.float64)).ravel()


@released.register
def _(result: PrivateResult) -> FloatArray:
    return np.append(result.point, float(result.status != "ok"))


@released.register
def _(result: GeometricMedianResult) -> FloatArray:
    return np.concatenate([result.location, result.center, [result.radius, float(result.status != "ok")]])


@released.register
def _(result: LocationResult) -> FloatArray:
    return result.location


@released.register
def _(result: SaddleResult) -> FloatArray:
    return np.concatenate([result.x, result.y])


@released.register
def _(result: QueryResult) -> FloatArray:
    return np.concatenate([result.histogram, result.answers])
