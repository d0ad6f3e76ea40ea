r"""Phases of the accelerated method, and the bounds that choose them. All are public; privacy does not rest on them.

Phase i minimizes, over the ball of radius R and from ``x_{i-1}``, the mean of n_i fresh users' mean losses plus
``l2/2 |x|^2 + lambda_i/2 |x - x_{i-1}|^2``; its excess at the end is at most ``g_i`` (`accelerated_sgd`), with noise of
mean square ``V^2 = d s^2`` (and ``L^2/(K m)`` where a step sees K users only). One phase of all users has
``lambda = 0``: ``g_1`` bounds the excess on the data (target "empirical"); what the population adds, one phase or
several (``localized``), with restarts for strongly convex losses: docs, User gradients, Theorem 4 and after it.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dpconvex._types import attributes, final_dataclass
from dpconvex.algorithms.erm.accelerated_sgd import Descent, plan_descent
from dpconvex.algorithms.erm.user_level.guards import Guard
from dpconvex.errors import InvalidParameterError
from dpconvex.problems import LinearModelProblem

LENGTHS = tuple(sorted({round(2 ** (k / 2)) for k in range(2, 25)}))
"""Numbers of steps that the search tries, 2 to 4096."""
SAMPLED_LENGTHS = (8, 16, 32, 64, 128, 256)  #: Numbers of steps to try with samples, each of which takes long to plan.


@final_dataclass
class Batching:
    """The choice of the users that a phase reads at each step."""

    first: int  #: first slot of the phase, whose users are in consecutive slots of a random order
    users: int
    batches: int  #: number of disjoint batches, which are read in turn
    sample: int | None = None  #: size of a fresh random subset at each step; None: whole batches

    @property
    def read(self) -> int:
        """Least number of users that a step reads."""
        return self.sample or self.users // self.batches


@final_dataclass
class Phase:
    """Constants of one phase."""

    batching: Batching
    l2: float  #: lambda_i
    descent: Descent
    guard: Guard  #: the noisy means of one batch's share of the steps

    def describe(self) -> dict[str, Any]:
        """JSON-ready constants."""
        radius = None if math.isinf(self.guard.radius) else self.guard.radius
        steps = {"steps": [stage.steps for stage in self.descent.stages], "l2": self.l2}
        guard = {"guard": self.guard.name, "radius": radius, "noise_scale": self.guard.deviation}
        users = attributes(self.batching, "users", "batches", "sample")
        return {**users, **steps, **guard, "test": self.guard.describe()}


Draft = tuple[int, int, float, Descent]  #: A phase without its guard: first slot, users, lambda_i, steps.
GuardPlanner = Callable[[int, int], tuple[Batching, Guard] | InvalidParameterError]
"""From numbers of users and steps to a batching and a guard, or to the error that says why there are none."""


@final_dataclass
class Facts:
    """The public numbers that the bounds are computed from."""

    problem: LinearModelProblem  #: of users, with R and L
    smoothness: float  #: beta of the loss, or of its smooth stand-in
    l2: float
    excess: float  #: what smoothing adds to the excess loss
    guard: GuardPlanner  #: a planner of guards, which the caller caches
    lengths: tuple[int, ...] = LENGTHS  #: numbers of steps to try

    @property
    def m(self) -> int:
        """Records of a user."""
        return self.problem.records_per_user or 1

    def variance(self, users: int, steps: int) -> float:
        """Return V^2 of a gradient; infinite where the test could not pass."""
        length = next((length for length in self.lengths if length >= steps), None)
        if length is None:
            return math.inf
        found = self.guard(users, length)
        if isinstance(found, InvalidParameterError):
            return math.inf
        batching, guard = found
        partial = batching.read < batching.users  # not all users of the phase
        sampling = self.problem.lipschitz**2 / (batching.read * self.m) if partial else 0.0
        return self.problem.dim * guard.deviation**2 + guard.scatter + sampling

    def descent(self, users: int, l2: float, distance: float) -> Descent:
        """Return the steps of a phase with regularization `l2`, from a start within `distance` of the minimizer."""
        convexity = l2 + self.l2
        smooth, slope = self.smoothness + convexity, self.problem.lipschitz + self.l2 * self.problem.radius
        gap = min(slope * distance, slope**2 / (2 * convexity) if convexity else math.inf) * (1 + 1e-9)
        return plan_descent(smooth, convexity, distance, gap, lambda T: self.variance(users, T), self.lengths)

    def phase(self, first: int, users: int, l2: float, descent: Descent) -> Phase:
        """Return the phase with its guard, for exactly the steps of `descent`."""
        found = self.guard(users, descent.steps)
        if isinstance(found, InvalidParameterError):
            raise found
        batching, guard = found
        return Phase(replace(batching, first=first), l2, descent, guard)


Schedule = tuple[tuple[Phase, ...], float]  #: Phases, and the bound of their excess.


def empirical(facts: Facts) -> Schedule:
    """Return one phase with all users, with the best bound of the excess on the data."""
    n = facts.problem.n
    descent = facts.descent(n, 0.0, facts.problem.radius)
    bound = descent.excess + facts.excess
    require_steps(bound)
    return (facts.phase(0, n, 0.0, descent),), bound


def require_steps(bound: float) -> None:
    """Raise `InvalidParameterError` where no number of steps lets the test pass."""
    if not math.isfinite(bound):
        what = "must be larger: with so few users the test could not pass"
        raise InvalidParameterError("n", "users", what, "Use user_test='auto', more users, or a larger epsilon")


def population(facts: Facts, localized: bool | None) -> Schedule:
    """Plan for the population: one phase, or `localized` phases, with restarts if l2 > 0; None: the smaller bound."""
    found = [] if localized else [uniform(facts)]
    if localized or (localized is None and facts.problem.loss.n_outputs > 1):
        found += [_restarted(facts, count) for count in ((1, 2, 3) if facts.l2 else (1,))]
    bound, drafts = min(found, key=lambda option: option[0])
    require_steps(bound)
    return tuple(facts.phase(*draft) for draft in drafts), bound


def uniform(facts: Facts) -> tuple[float, list[Draft]]:
    """Return one phase of all users, and its bound on the population by uniform convergence of linear models."""
    n, R, outputs = facts.problem.n, facts.problem.radius, facts.problem.loss.n_outputs
    descent = facts.descent(n, 0.0, R)
    contraction = 1.0 if outputs == 1 else math.sqrt(2 * outputs)  # c
    rate = contraction * facts.problem.lipschitz / math.sqrt(n * facts.m)
    bound = descent.excess + 2 * R * rate
    if facts.l2:
        k = 2 * rate**2 / facts.l2
        bound = min(bound, (math.sqrt(k) + math.sqrt(k + descent.excess)) ** 2)
    return bound + facts.excess, [(0, n, 0.0, descent)]


def _restarted(facts: Facts, restarts: int) -> tuple[float, list[Draft]]:
    """Return phases on `restarts` blocks of users; each starts within the distance that the block before leaves."""
    drafts: list[Draft] = []
    n, radius, first, bound = facts.problem.n, facts.problem.radius, 0, math.inf
    sizes = [n * 2**k // (2**restarts - 1) for k in range(restarts - 1)]  # sizes double; the last has the rest
    for block in (*sizes, n - sum(sizes)):
        bound, part = _localized(facts, first, block, radius)
        drafts += part
        first += block
        radius = min(radius, math.sqrt(2 * bound / facts.l2)) if facts.l2 else radius
    return bound, drafts


def halves(first: int, n: int, phases: int) -> list[tuple[int, int]]:
    """Return first slot and size of each phase: half of the users that are left, the last phase all of them."""
    out, left = [], n
    for i in range(phases):
        size = left if i == phases - 1 else left // 2
        out.append((first + n - left, size))
        left -= size
    return out


def _localized(facts: Facts, first: int, n: int, radius: float) -> tuple[float, list[Draft]]:
    """Return the best phases on one block of users, for a start within `radius` of the minimizer."""
    L, R, best, least = facts.problem.lipschitz, facts.problem.radius, [], math.inf
    exponents = (1.0, 2.0, 3.0)  # p of lambda_i = lambda 2^(p (i-1))
    descent = cache(facts.descent)
    for count, p in itertools.product([count for count in range(2, 7) if n >= 2**count], exponents):
        for weight in (L / radius * np.geomspace(1e-4, 10, 16)).tolist():
            bound, square, drafts = facts.excess, radius**2, []
            for i, (slot, users) in enumerate(halves(first, n, count)):
                l2 = weight * 2 ** (p * i)
                convexity = l2 + facts.l2
                found = descent(users, l2, min(2 * R, (L + facts.l2 * R) / convexity))
                bound += 2 * L**2 / (convexity * users * facts.m) + l2 * square / 2  # generalization, ridge
                square = 2 * found.excess / convexity  # D_(i+1)^2
                drafts.append((slot, users, l2, found))
                if not bound < least:
                    break
            else:
                bound += (L + facts.l2 * R) * math.sqrt(square)
                if bound < least:
                    best, least = drafts, bound
    return least, best
