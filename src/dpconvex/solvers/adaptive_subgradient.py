r"""The subgradient method and the projection of the heavy-tail paper: reference methods for tiny problems.

Adaptive inexact projected subgradients need no Lipschitz constant, and stop with a certificate. Their step counts are
those of the theory, ``(3 D L / target)^2``: beyond a few records use other solvers (docs, Heavy tails).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats

Projection = Callable[[Floats, float], Floats]  # a member within the stated distance of the nearest one


@final
@dataclass(frozen=True, eq=False)
class AdaptiveResult:
    """The outcome of `adaptive_subgradient`."""

    point: Floats  #: average of the iterates, a member of the set, shape (dim,)
    certified: bool  #: whether the stopping test fired; then the gap of `point` is at most the target
    steps: int  #: Iterations. They depend on the data: not for release.


def adaptive_subgradient(
    subgradient: Callable[[Floats], Floats],
    project: Projection,
    start: Floats,
    diameter: float,
    target: float,
    max_steps: int | None = None,
) -> AdaptiveResult:
    """Minimize a convex function over a convex set to a certified gap (Lowy 2026, Algorithm 3, Proposition 2.9).

    `subgradient` is taken at a member, `project(point, distance)` is a member that near to the projection of the point,
    `start` (dim,) a member, `diameter` at least the set's, and `target` the wanted gap, value minus minimum.

    Without `max_steps` it runs until the test fires, as private use requires (a cap is a data-dependent event; an audit
    of a capped run found 3.5 to 4.7 times the claimed epsilon): at most ``(3 diameter L / target)^2`` steps for slopes
    up to L. Steps are ``D / sqrt(S_t)``, ``S_t`` the sum of squared subgradient norms; it stops when
    ``3 D sqrt(S_t) <= target t``.
    """
    _validate.real("diameter", diameter, above=0.0)
    _validate.real("target", target, above=0.0)
    x, total, norm, step = start.copy(), np.zeros_like(start), 0.0, 0
    while max_steps is None or step < max_steps:
        step += 1
        g = subgradient(x)
        total += x
        norm = math.hypot(norm, *g.tolist())  # the square root of S_t, which itself might overflow
        if not np.any(g):
            return AdaptiveResult(x, True, step)
        if 3 * diameter * norm <= target * step:
            return AdaptiveResult(total / step, True, step)
        eta = diameter / norm
        x = project(x - eta * g, min(diameter, target * eta / (6 * diameter)))
    return AdaptiveResult(total / max(step, 1), False, step)


def biased_subgradient(
    subgradient: Callable[[Floats], Floats],
    project: Projection,
    start: Floats,
    diameter: float,
    target: float,
    lipschitz: float,
    steps: int | None = None,
) -> Floats:
    """Minimize a convex function over a convex set with a fixed number of constant steps (Lowy 2026, Lemma D.5).

    Every data set takes the same number of steps, and the gap of the result is at most ``3/4 target + bias``.

    `subgradient` is at a member w some g (dim,) with ``f(u) >= f(w) + <g, u - w> - bias`` for all members u and
    ``|g| <= lipschitz``: such as the planes of `lipschitz_extension`, whose bias is ``upper - lower``; it should be at
    most a quarter of the target. Without `steps` it takes ``(4 diameter lipschitz / target)^2``, what the lemma asks
    for. The other arguments are those of `adaptive_subgradient`.
    """
    for name, number in (("diameter", diameter), ("target", target), ("lipschitz", lipschitz)):
        _validate.real(name, number, above=0.0)
    steps = math.ceil((4 * diameter * lipschitz / target) ** 2) if steps is None else steps
    _validate.integer("steps", steps, at_least=1)
    eta = diameter / (lipschitz * math.sqrt(steps))
    distance = min(diameter, target * eta / (6 * diameter))
    x, total = start.copy(), np.zeros_like(start)
    for _ in range(steps):
        total += x
        x = project(x - eta * subgradient(x), distance)
    return total / steps


def ridge_subgradient(
    subgradient: Callable[[Floats], Floats], project: Callable[[Floats], Floats], start: Floats, l2: float, steps: int
) -> Floats:
    """Minimize a function with a ridge by a fixed number of steps ``2 / (l2 (t + 1))``; the average of weights t.

    For `biased_subgradient`'s oracle of a function h plus ``l2/2 |w - center|^2``, whose planes keep the ridge exact,
    and exact projections the gap is at most ``2 L^2 / (l2 (T + 1)) + bias`` (docs, Heavy tails): the one-step
    inequalities, multiplied by t, telescope. Started at the center, no step leaves the ball of radius C / l2 around
    it, C being the slope of h, so ``L = 2 C``.
    """
    _validate.real("l2", l2, above=0.0)
    _validate.integer("steps", steps, at_least=1)
    x, total = start.copy(), np.zeros_like(start)
    for t in range(1, steps + 1):
        total += 2 * t / steps / (steps + 1) * x
        x = project(x - 2 / (l2 * (t + 1)) * subgradient(x))
    return total


def ridge_subgradient_steps(lipschitz: float, l2: float, target: float) -> int:
    """Return how many steps of `ridge_subgradient` leave a gap of ``3/4 target + bias``."""
    return math.ceil(8 * lipschitz**2 / (3 * l2 * target) * (1 + 1e-12))


@final
@dataclass(frozen=True, eq=False)
class JointProblem:
    r"""``Phi(w, y_1, ..., y_m) = mean_i [f_i(y_i) + C |w - y_i|] + l2/2 |w - center|^2`` over ``W^(m+1)``.

    Its minimum over the y is the ridge risk of the Lipschitz extensions of *any* convex losses, which need not be
    evaluated: the w of a point of gap alpha has a gap of at most alpha there (Lowy 2026, Lemma 2.7).

    The callables say values (m,) and subgradients (m, dim) of the losses at points (m, dim), one for each record, and
    the exact projection onto W; `level` is the C.
    """

    values: Callable[[Floats], Floats]
    subgradients: Callable[[Floats], Floats]
    m: int
    dim: int
    level: float
    l2: float
    center: Floats
    project: Callable[[Floats], Floats]  #: of w: onto W, or in a second stage onto the part that w is held to
    others: Callable[[Floats], Floats] | None = None  #: of all y, (m, dim): onto W; None: `project` for each

    def value(self, joint: Floats) -> float:
        """Return ``Phi`` at a vector of length ``(m + 1) dim``: w, then the y."""
        w, y = self._split(joint)
        away = w - self.center
        losses = self.values(y) + self.level * np.linalg.norm(w - y, axis=1)
        return float(losses.mean()) + self.l2 / 2 * float(away @ away)

    def subgradient(self, joint: Floats) -> Floats:
        """Return a subgradient of ``Phi``, shape ((m + 1) dim,)."""
        w, y = self._split(joint)
        lengths = np.linalg.norm(w - y, axis=1, keepdims=True)
        s = np.divide(w - y, lengths, out=np.zeros_like(y), where=lengths > 0)
        g_w = self.level * s.mean(0) + self.l2 * (w - self.center)
        return np.append(g_w, (self.subgradients(y) - self.level * s) / self.m)

    def project_joint(self, joint: Floats, distance: float) -> Floats:
        """Return the projection onto the product of the sets; exact, so `distance` is met."""
        w, y = self._split(joint)
        others = np.array([self.project(part) for part in y]) if self.others is None else self.others(y)
        return np.append(self.project(w), others)

    def _split(self, joint: Floats) -> tuple[Floats, Floats]:
        parts = joint.reshape(-1, self.dim)
        return parts[0], parts[1:]
