"""Loops that numba compiles, cached on disk; imported when they are needed, for numba loads slowly."""

import math

import numpy as np

from dpconvex._compiled import njit
from dpconvex._types import Array, Floats
from dpconvex.losses.base import BENT, CLIP, KNEE, TANH, Q

_reordered = njit(nogil=True, fastmath={"reassoc", "contract"})
"""Decorator of loops whose sums may be reordered: no proof rests on the order, or rounding is charged for any order."""


@njit()
def onto_cones(v: Floats, w: Floats, count: int, size: int, slope: float) -> None:
    """Write the projection of `v` onto `SecondOrderCones` into `w`."""
    p = count * size
    for g in range(count):
        squared = 0.0
        for j in range(g * size, (g + 1) * size):
            squared += v[j] * v[j]
        length, q = np.sqrt(squared), v[p + g]
        shrink, bound = 1.0, q
        if slope * length > q:
            ray = max(length + slope * q, 0.0) / (1.0 + slope * slope)
            shrink, bound = (ray / length if length > 0.0 else 1.0), slope * ray
        for j in range(g * size, (g + 1) * size):
            w[j] = shrink * v[j]
        w[p + g] = bound
    for j in range(p + count, len(v)):
        w[j] = v[j]


@njit()
def ascend(
    features: Floats, factor: Floats, extra: Floats, intercept: float, targets: Floats,
    slopes: Floats, lo: Floats, hi: Floats, curvature: Floats,
    step: float, order: Array, count: int, size: int, slope: float, v: Floats, w: Floats,
) -> None:  # fmt: skip
    """Maximize the dual over each slope in turn; ``z = <w, x>``, ``v -= step * change * x``, w projects v."""
    p = features.shape[1]
    if count == 0:
        v = w
    for i in order:
        z = 0.0
        for j in range(p):
            z += features[i, j] * w[j]
        z *= factor[i]
        for j in range(p, p + count):
            z += extra[i] * w[j]
        if intercept > 0:
            z += intercept * w[p + count]
        if curvature[i] > 0:
            best = min(max(slopes[i] + (z - targets[i]) / curvature[i], lo[i]), hi[i])
        else:  # a record of zeros: its best slope does not depend on w
            best = hi[i] if targets[i] < 0 else lo[i]
        change = best - slopes[i]
        if change != 0:
            slopes[i] = best
            for j in range(p):
                v[j] -= step * change * factor[i] * features[i, j]
            for j in range(p, p + count):
                v[j] -= step * change * extra[i]
            if intercept > 0:
                v[p + count] -= step * change * intercept
            if count > 0:
                onto_cones(v, w, count, size, slope)


@njit()
def difference(x: float, anchor: float, offset: float) -> float:
    """Return ``x - (anchor + offset)``, accurate to about the last place, as compilation may not reorder it."""
    return (x - anchor) - offset


@njit(nogil=True)
def unit_vectors(X: Floats, anchor: Floats, offset: Floats, coincident_square: float, out: Floats) -> None:
    """Write the unit vector towards each row to `out`, 0 for coinciding points; each depends on its row alone."""
    for i in range(len(X)):
        square = 0.0
        for j in range(len(anchor)):
            out[i, j] = difference(X[i, j], anchor[j], offset[j])
            square += out[i, j] * out[i, j]
        scale = 0.0 if square < coincident_square else 1.0 / np.sqrt(square)
        for j in range(len(anchor)):
            out[i, j] *= scale


@_reordered
def sums(
    X: Floats, anchor: Floats, offset: Floats, portion: int, coincident_square: float, direction: Floats
) -> tuple[float, float, int, int, float]:
    """Add the unit vectors to `direction`; return the other fields of `UnitVectorSums`, the last one squared."""
    n, d = X.shape
    row, part = np.empty(d), np.empty(d)
    distance, weight, coincident, nearest, least = 0.0, 0.0, 0, -1, np.inf
    for first in range(0, n, portion):
        part[:] = 0.0
        part_distance, part_weight = 0.0, 0.0
        for i in range(first, min(first + portion, n)):
            square = 0.0
            for j in range(d):
                row[j] = difference(X[i, j], anchor[j], offset[j])
                square += row[j] * row[j]
            if square < coincident_square:
                coincident += 1
                continue
            if square < least:
                least, nearest = square, i
            length = np.sqrt(square)
            inverse = 1 / length
            part_distance += length
            part_weight += inverse
            for j in range(d):
                part[j] += row[j] * inverse
        distance += part_distance
        weight += part_weight
        for j in range(d):
            direction[j] += part[j]
    return distance, weight, coincident, nearest, least


@_reordered
def walk(
    points: Floats, visits: Array, center: Floats, z: Floats,
    step: float, ball: float, first: int, coincident_square: float,
) -> Floats:  # fmt: skip
    """Take one step of length `step` towards each visited row; return the mean of the iterates ``first, ..., T``.

    (If it is -1: ``0, ..., T - 1``.) Iterates are relative to the center; z holds the first one, finally the last one.
    """
    d, steps = len(z), len(visits)
    row, kept, count = np.empty(d), np.zeros(d), 0
    for t in range(steps + 1):
        if first <= t and (first >= 0 or t < steps):
            count += 1
            for j in range(d):
                kept[j] += z[j]
        if t == steps:
            break
        square = 0.0
        for j in range(d):
            row[j] = difference(points[visits[t], j], center[j], z[j])
            square += row[j] * row[j]
        if square < coincident_square:
            continue
        scale, square = step / np.sqrt(square), 0.0
        for j in range(d):
            z[j] += scale * row[j]
            square += z[j] * z[j]
        if square > ball * ball:
            scale = ball / np.sqrt(square)
            for j in range(d):
                z[j] *= scale
    return kept / count


@_reordered
def slope_at(curve: Floats, shape: int, scale: float, prediction: float) -> float:
    """Return the slope of a record's `SlopeCurve` at a prediction."""
    u = (prediction - curve[2]) / scale
    if shape == CLIP:
        u = min(max(u, -1.0), 1.0)
    elif shape == TANH:
        u = math.tanh(u)
    elif shape == BENT:
        past = max(abs(u) - KNEE, 0.0)
        u = min(max(u, -KNEE), KNEE) + math.copysign(math.expm1(-Q * past) / Q, u)
        largest = abs(curve[0]) + curve[1]
        return min(max(largest * u, curve[0] - curve[1]), curve[0] + curve[1])
    else:
        u = u / math.hypot(1.0, u)
    return curve[0] + curve[1] * u


@_reordered
def subgradient_steps(
    rows: Floats, index: Array, curves: Floats, shape: int, scale: float,
    linear: Floats, w: Floats, mean: Floats, dual: Floats, t: float, mu: float, radius: float,
) -> float:  # fmt: skip
    """Run Algorithm 3 (`StochasticSubgradient`) over `rows`; `t` counts the steps of all calls."""
    for k in range(len(rows)):
        a, i = rows[k], index[k]
        prediction = 0.0
        for j in range(len(a)):
            prediction += a[j] * w[j]
        slope = slope_at(curves[i], shape, scale, prediction)
        t += 1
        dual[i, 0] += t
        dual[i, 1] += t * slope
        step, keep, square = 2 / (mu * t), 1 - 2 / t, 0.0
        for j in range(len(a)):
            w[j] = keep * w[j] - step * (slope * a[j] + linear[j])
            square += w[j] * w[j]
        inside = min(1.0, radius / math.sqrt(square)) if square > 0 else 1.0
        for j in range(len(a)):
            w[j] *= inside
            mean[j] += (w[j] - mean[j]) * 2 / (t + 1)
    return t


@_reordered
def katyusha_steps(
    rows: Floats, old_slopes: Floats, curves: Floats, shape: int, scale: float,
    mean: Floats, snapshot: Floats, x: Floats, y: Floats, z: Floats, average: Floats,
    weight: float, pull: float, gamma: float, beta: float, mu: float,
) -> float:  # fmt: skip
    """Run the inner loop of `Katyusha` over `rows`; `mean` is the gradient of loss and linear term at `snapshot`.

    The j-th y has weight ``(1 + gamma mu)^j`` in `average`; `weight` is the sum of all weights so far over the last.
    """
    shrink, shorten = 1 / (1 + gamma * mu), 1 / (3 * beta + mu)
    for i in range(len(rows)):
        a = rows[i]
        prediction = 0.0
        for j in range(len(a)):
            x[j] = pull * z[j] + 0.5 * snapshot[j] + (0.5 - pull) * y[j]
            prediction += a[j] * x[j]
        change = slope_at(curves[i], shape, scale, prediction) - old_slopes[i]
        weight = 1 + weight * shrink
        for j in range(len(a)):
            v = mean[j] + change * a[j]
            z[j] = (z[j] - gamma * v) * shrink
            y[j] = (3 * beta * x[j] - v) * shorten
            average[j] += (y[j] - average[j]) / weight
    return weight


@_reordered
def one_pass(
    rows: Floats, curves: Floats, shape: int, scale: float,
    start: Floats, step: float, radius: float, moved: Floats, total: Floats,
) -> None:  # fmt: skip
    """Take one projected step per row; `moved` is the iterate less `start`, `total` sums `moved` before each step."""
    d = len(start)
    for i in range(len(rows)):
        prediction = 0.0
        for j in range(d):
            total[j] += moved[j]
            prediction += rows[i, j] * (start[j] + moved[j])
        change, square = step * slope_at(curves[i], shape, scale, prediction), 0.0
        for j in range(d):
            moved[j] -= change * rows[i, j]
            square += (start[j] + moved[j]) ** 2
        if square > radius * radius:
            inside = radius / math.sqrt(square)
            for j in range(d):
                moved[j] = (start[j] + moved[j]) * inside - start[j]
