"""Projection onto a scaled simplex, shared by the simplex and the l1 ball."""

from __future__ import annotations

import numpy as np

from dpconvex._types import FloatArray


def project_onto_simplex(v: FloatArray, total: float) -> FloatArray:
    """Return the nearest vector with entries >= 0 and sum `total`, by sorting; O(d log d).

    Entries are first shifted so that the largest is 0 and cut at ``-total``: neither changes the projection, and
    every number stays within ``d * total`` however large `v` is.
    """
    v = np.maximum(v - v.max(), -total)
    ordered = np.sort(v)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, len(v) + 1)
    active = np.count_nonzero(ordered > thresholds)  # at least 1: the largest is 0 and its threshold -total
    # The threshold once more with a pairwise sum, then a rescaling: the sum is `total` up to a few roundings.
    threshold = (ordered[:active].sum() - total) / active
    out = np.maximum(v - threshold, 0.0)
    return out * (total / out.sum())
