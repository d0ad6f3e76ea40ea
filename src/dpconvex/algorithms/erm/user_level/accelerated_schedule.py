r"""Phases of the accelerated method, and the bounds that choose them. All of it is utility, and public.

Phase i minimises, over the ball of radius R and from ``x_{i-1}``, the mean of n_i fresh users' mean losses plus
``l2/2 |x|^2 + lambda_i/2 |x - x_{i-1}|^2``; its excess at the end is at most ``g_i`` (`acsa`), with noise of mean
square ``V^2 = d s^2`` (and ``L^2/(K m)`` where a step sees K users only).

One phase (target "empirical"): ``g_1`` on the data, with ``lambda = 0``.

Several (target "population"; the paper's localization with its constants made explicit): replacing one of N records
moves a regularised minimiser by ``2L/((lambda + l2) N)``, so minimisers generalise up to ``2L^2/((lambda_i + l2) n_i
m)``, and the sum telescopes, with ``D_1 = R`` and ``D_i^2 = 2 g_{i-1}/(lambda_{i-1} + l2)``:

    E F(x_l) - F(w) <= sum_i [2L^2/((lambda_i + l2) n_i m) + lambda_i D_i^2/2] + L sqrt(2 g_l/(lambda_l + l2)).

Strongly convex losses (l2 > 0): the same again on a growing block of further users, from a point within ``sqrt(2
bound/l2)`` of the minimiser (the reduction of Feldman, Koren and Talwar 2020, Section 5.1): each begins nearer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import final

import numpy as np

from dpconvex.algorithms.erm.accelerated_sgd import Descent, plan_descent
from dpconvex.algorithms.erm.user_level.guards import Guard
from dpconvex.errors import InvalidParameterError

LENGTHS = tuple(sorted({round(2 ** (k / 2)) for k in range(2, 21)}))
"""Numbers of steps that are considered, 2 to 1024."""
FEW_LENGTHS = (8, 16, 32, 64, 128, 256)
"""The same where planning one of them takes long."""
PHASES = (2, 3, 4, 5, 6)
GROWTH = (1.0, 2.0, 3.0)
"""Exponents p of ``lambda_i = lambda 2^(p (i-1))``."""
RESTARTS = (1, 2, 3)


@final
@dataclass(frozen=True)
class Batching:
    """Which users a phase reads at each step.

    Parameters
    ----------
    first, users : int
        The phase's users are ``users`` consecutive slots from ``first``.
    batches : int
        Disjoint batches in turn.
    units : int
        Vectors in each mean: users, or bundles of users of sizes that differ by at most one.
    sample : int or None
        Size of a fresh random subset; None: no sampling.
    """

    first: int
    users: int
    batches: int
    units: int
    sample: int | None = None

    @property
    def read(self) -> int:
        """Users that a step reads, at least."""
        return self.sample or self.users // self.batches

    @property
    def partial(self) -> bool:
        """Whether a step sees less than all users of the phase."""
        return self.read < self.users


@final
@dataclass(frozen=True)
class Phase:
    """Constants of one phase.

    Parameters
    ----------
    batching : Batching
    l2 : float
        lambda_i.
    descent : Descent
    guard : Guard
        For one batch's share of the steps.
    """

    batching: Batching
    l2: float
    descent: Descent
    guard: Guard


GuardPlanner = Callable[[int, int], tuple[Batching, Guard]]
"""Batching and guard for so many users and steps; raises `InvalidParameterError` where impossible."""


@final
@dataclass(frozen=True)
class Facts:
    """Public numbers that the bounds are made of.

    Parameters
    ----------
    n, m, dim : int
        Users, records of each, parameters.
    radius, lipschitz, smoothness, l2 : float
        R, L, beta (of the stand-in for losses with kinks) and the ridge weight.
    excess : float
        What smoothing adds.
    guard : callable
        Plans the means; cached by the caller.
    lengths : tuple of int
        Numbers of steps that are considered.
    """

    n: int
    m: int
    dim: int
    radius: float
    lipschitz: float
    smoothness: float
    l2: float
    excess: float
    guard: GuardPlanner
    lengths: tuple[int, ...] = LENGTHS

    def variance(self, users: int, steps: int) -> float:
        """V^2 of a gradient; infinite where the test could not pass."""
        length = next((length for length in self.lengths if length >= steps), None)
        if length is None:
            return math.inf
        try:
            batching, guard = self.guard(users, length)
        except InvalidParameterError:
            return math.inf
        sampling = self.lipschitz**2 / (batching.read * self.m) if batching.partial else 0.0
        return self.dim * guard.deviation**2 + sampling

    def descent(self, users: int, l2: float, distance: float) -> Descent:
        """Steps of a phase with that many users and that weight, from so far away."""
        convexity = l2 + self.l2
        smooth, slope = self.smoothness + convexity, self.lipschitz + self.l2 * self.radius
        gap = min(slope * distance, slope**2 / (2 * convexity) if convexity else math.inf) * (1 + 1e-9)
        return plan_descent(smooth, convexity, distance, gap, lambda T: self.variance(users, T), self.lengths)

    def phase(self, first: int, users: int, l2: float, descent: Descent) -> Phase:
        """The phase with its guard, for exactly the steps of `descent`."""
        batching, guard = self.guard(users, descent.steps)
        return Phase(replace(batching, first=first), l2, descent, guard)


@final
@dataclass(frozen=True)
class Schedule:
    """Phases and their bound.

    Parameters
    ----------
    phases : tuple of Phase
    bound : float
    """

    phases: tuple[Phase, ...]
    bound: float


def empirical(facts: Facts) -> Schedule:
    """One phase with all users, for the excess on the data."""
    descent = facts.descent(facts.n, 0.0, facts.radius)
    bound = descent.excess + facts.excess
    require_steps(bound)
    return Schedule((facts.phase(0, facts.n, 0.0, descent),), bound)


def require_steps(bound: float) -> None:
    """Raise `InvalidParameterError` where no number of steps lets the test pass."""
    if not math.isfinite(bound):
        what = "must be larger: with so few users the test could not pass"
        raise InvalidParameterError("n", "users", what, "Use test='auto', more users, or a larger epsilon")


def population(facts: Facts) -> Schedule:
    """Several phases on disjoint users; with l2, restarts of them."""
    found: list[tuple[float, list[_Draft]]] = []
    for restarts in RESTARTS if facts.l2 else (1,):
        drafts: list[_Draft] = []
        radius, first, bound = facts.radius, 0, math.inf
        for block in _growing(facts.n, restarts):
            bound, part = _localised(facts, first, block, radius)
            drafts += part
            first += block
            radius = min(radius, math.sqrt(2 * bound / facts.l2)) if facts.l2 else radius
        found.append((bound, drafts))
    bound, drafts = min(found, key=lambda option: option[0])
    require_steps(bound)
    return Schedule(tuple(facts.phase(d.first, d.users, d.l2, d.descent) for d in drafts), bound)


@dataclass(frozen=True)
class _Draft:
    first: int
    users: int
    l2: float
    descent: Descent


def _growing(n: int, blocks: int) -> list[int]:
    """Block sizes that double, the last takes the rest."""
    sizes = [n * 2**k // (2**blocks - 1) for k in range(blocks - 1)]
    return [*sizes, n - sum(sizes)]


def halves(first: int, n: int, phases: int) -> list[tuple[int, int]]:
    """First slot and size of phases that take half of what is left, the last all of it."""
    out, left = [], n
    for i in range(phases):
        size = left if i == phases - 1 else left // 2
        out.append((first + n - left, size))
        left -= size
    return out


def _localised(facts: Facts, first: int, n: int, radius: float) -> tuple[float, list[_Draft]]:
    """Best phases on one block of users, from within `radius` of the minimiser."""
    L, best, least = facts.lipschitz, [], math.inf

    @cache
    def descent(users: int, l2: float, distance: float) -> Descent:
        return facts.descent(users, l2, distance)

    for count, p in _pairs(n):
        for weight in (L / radius * np.geomspace(1e-4, 10, 16)).tolist():
            bound, square, drafts = facts.excess, radius**2, []
            for i, (slot, users) in enumerate(halves(first, n, count)):
                l2 = weight * 2 ** (p * i)
                convexity = l2 + facts.l2
                found = descent(users, l2, min(2 * facts.radius, (L + facts.l2 * facts.radius) / convexity))
                bound += 2 * L**2 / (convexity * users * facts.m) + l2 * square / 2
                square = 2 * found.excess / convexity
                drafts.append(_Draft(slot, users, l2, found))
                if not bound < least:
                    break
            else:
                bound += (L + facts.l2 * facts.radius) * math.sqrt(square)
                if bound < least:
                    best, least = drafts, bound
    return least, best


def _pairs(n: int) -> Iterable[tuple[int, float]]:
    return ((count, p) for count in PHASES if n >= 2**count for p in GROWTH)
