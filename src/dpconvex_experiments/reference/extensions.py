r"""The slow ways of the heavy-tail paper (Lowy 2026) to Lipschitz extensions, for some dozens of records.

The surrogates below reach the minimizer of a ridge risk of extensions, for every data set within the planned distance
tau, by planned numbers of steps: Theorem D.4 with Lemma D.5, and Lemma 2.7 with Algorithm 3. Tau is planned so that the
number fits a public limit, noise follows, and too large plans are refused. What they are compared with is in
`problems.linear.lipschitz_extension`. The methods of subgradients come first; the steps of the adaptive one are those
of the theory, ``(3 D L / target)^2``.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms.erm.heavy_tailed.surrogates import Data, Extension, Near, Part
from dpconvex.errors import InvalidParameterError
from dpconvex.plugins import printed
from dpconvex.problems.linear.truncated import ExtensionRisk

MOST_STEPS = 1e5  #: Passes over the records in one minimization of a planned number of steps: some minutes.
Projection = Callable[[Floats, float], Floats]  # a member within the stated distance of the nearest one


@final_dataclass(eq=False)
class AdaptiveResult:
    """The outcome of `adaptive_subgradient`."""

    point: Floats  #: average of the iterates, a member of the set, shape (dim,)
    certified: bool  #: whether the stopping test fired; then the gap of `point` is at most the target
    steps: int  #: Iterations. They depend on the data: not for release.


def adaptive_subgradient(
    subgradient: Callable[[Floats], Floats], project: Projection, start: Floats, diameter: float, target: float,
    max_steps: int | None = None,
) -> AdaptiveResult:  # fmt: skip
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
    subgradient: Callable[[Floats], Floats], project: Projection, start: Floats, diameter: float, target: float,
    lipschitz: float, steps: int | None = None,
) -> Floats:  # fmt: skip
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


@final_dataclass(eq=False)
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


class Counted(Extension):
    """Methods of a number of steps that is planned: tau is at least what fits `most` of them."""

    most: ClassVar[float] = MOST_STEPS

    @abstractmethod
    def steps(self, part: Part, radius: float) -> float:
        """Return how many steps suffice for every data set, over W."""

    def finest(self, part: Part) -> float:
        floor, unit = super().finest(part), part.level / (part.l2 * part.m)
        for radius in np.geomspace(0.05, 2.0, 30) * unit:  # at 2, noise is three times that of exact points
            if radius >= floor and self.steps(part, float(radius)) <= self.most:
                return float(radius)
        what = f"needs more than {self.most:g} passes for parts of {part.m} records"
        remedy = "Use surrogate='extension', fewer records or a larger epsilon"
        raise InvalidParameterError("surrogate", self.name, what, remedy)

    def work(self, part: Part, radius: float) -> Mapping[str, Any]:
        steps = math.ceil(self.steps(part, radius))
        return {"steps": steps, "evaluations": steps * part.m}


@final_dataclass
class FixedSteps(Counted):
    """Theorem D.4, as many steps for every data set: as printed (Lemma D.5), or fewer by strong convexity."""

    printed: bool = False
    reached = "a fixed number of steps along planes of a planned accuracy suffices for all data (Theorem D.4)"

    def steps(self, part: Part, radius: float) -> float:
        alpha = part.l2 / 2 * radius**2
        if self.printed:
            return (4 * part.width * 2 * part.level / alpha) ** 2 + 1
        return ridge_subgradient_steps(2 * part.level, part.l2, alpha)

    def minimize(self, part: Part, data: Data, center: Floats, near: Near) -> Floats:
        region, radius, _ = near
        slope, wide, alpha = 2 * part.level, part.width, part.l2 / 2 * radius**2
        if not region.contains(center, 1e-12):  # else no step leaves its neighborhood; an eighth of alpha is for 1e-12
            slope, wide = part.level + part.l2 * part.domain.diameter, region.diameter
        slopes, start = self.risk(part, data, center, radius).gradient, region.project(center)
        if not self.printed:
            steps = ridge_subgradient_steps(slope, part.l2, alpha)
            return ridge_subgradient(slopes, region.project, start, part.l2, steps)
        width = min(region.diameter, wide)
        return biased_subgradient(slopes, lambda w, _: region.project(w), start, width, alpha, slope)


@final
class Joint(Counted):
    """The joint problem of Lemma 2.7 with Algorithm 3, which stops by a certificate of its own."""

    most = 50 * MOST_STEPS  # in the worst case; it stops earlier on others
    reached = "Algorithm 3 runs until its certificate fires, within a number of steps that is planned for"

    def steps(self, part: Part, radius: float) -> float:
        width = part.domain.diameter
        slope = part.level + part.l2 * width + (part.cap.steepest + part.level) / math.sqrt(part.m)
        return (3 * math.sqrt(part.m + 1) * width * slope / (part.l2 / 2 * radius**2)) ** 2 + 1

    def minimize(self, part: Part, data: Data, center: Floats, near: Near) -> Floats:
        region, radius, start = near
        pieces = cast(ExtensionRisk, self.risk(part, data, center, radius)).pieces
        dim = len(center)

        def subgradients(y: Floats) -> Floats:
            return pieces.derivatives(np.einsum("ij,ij->i", pieces.slopes, y))[:, None] * pieces.slopes

        joint = JointProblem(
            *(pieces.values, subgradients, part.m, dim, part.level, part.l2, center),
            region.project,
            part.domain.project_rows,
        )
        first = np.tile(region.project(start), part.m + 1)
        diameter = math.sqrt(region.diameter**2 + part.m * part.domain.diameter**2)
        target = part.l2 / 2 * radius**2
        return adaptive_subgradient(joint.subgradient, joint.project_joint, first, diameter, target).point[:dim]


for way in (Joint("joint"), FixedSteps("fixed_steps"), FixedSteps("printed_steps", printed=True)):
    printed(way.name)(way)
