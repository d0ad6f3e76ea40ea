"""Lemmas of the heavy-tail paper that no method needs by itself: a projection by bisection, a bound on a gap."""

import math
from collections.abc import Callable

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats


def project_onto_section(
    project: Callable[[Floats], Floats], point: Floats, centre: Floats, radius: float, distance: float
) -> Floats:
    """Return a member of ``W`` and the ball around `centre` within `distance` of the nearest one.

    Lowy 2026, Lemma 2.8: bisection on the multiplier of the ball; the end inside the ball is kept, so the result is a
    member whatever the accuracy. `project` is the exact projection onto W, `centre` a member of W.
    """
    _validate.real("radius", radius, above=0.0)
    _validate.real("distance", distance, above=0.0)
    nearest = project(point)
    if float(np.linalg.norm(nearest - centre)) <= radius:
        return nearest
    reach = float(np.linalg.norm(point - centre))
    low, high = 0.0, reach / radius

    def at(multiplier: float) -> Floats:
        return project((point + multiplier * centre) / (1 + multiplier))

    best = at(high)
    for _ in range(math.ceil(math.log2(1 + reach**2 / (radius * distance)))):
        middle = 0.5 * (low + high)
        x = at(middle)
        if float(np.linalg.norm(x - centre)) > radius:
            low = middle
        else:
            high, best = middle, x
    return best


def biased_subgradient_gap(
    diameter: float, lipschitz: float, steps: int, eta: float, bias: float, distance: float
) -> float:
    """Return the bound of Lemma D.5: ``D^2/(2 eta T) + eta L^2/2 + B + D xi/eta + xi^2/(2 eta)``.

    T steps of size eta along subgradients of bias B and length L, with projections to a distance xi.
    """
    projections = diameter * distance / eta + distance**2 / (2 * eta)
    return diameter**2 / (2 * eta * steps) + eta * lipschitz**2 / 2 + bias + projections
