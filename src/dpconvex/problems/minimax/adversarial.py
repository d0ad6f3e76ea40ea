r"""Adversarial losses ``max_{v in S} h(w, v, x)`` whose payoff h is concave in the attack v: saddle problems.

Every record has its own attack ``v_i`` in the public set S, and ``G(w) = mean_i max_{v_i} h(w, v_i, x_i)`` is convex
and as Lipschitz as h, but in general *not smooth*, however smooth h is (Lowy and Razaviyayn, section 5.2; erratum U10).
So plans use the bounds for Lipschitz losses, unless h is strongly concave in v. Minima are certified by the saddle gap
(docs, Saddle problems).
"""

import math
from abc import abstractmethod
from bisect import bisect_left
from typing import ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.problems.base import ROUNDING, UP, Aggregation, StatedBounds
from dpconvex.problems.custom.functions import ConvexFunction, CustomObjective, dense_blocks, of_shape
from dpconvex.problems.data.domain import Block
from dpconvex.problems.data.records import Records
from dpconvex.sets import L2Ball

_INNER = 200  # accelerated steps to find attacks outside of the saddle solver: for reports and searches only


@final_dataclass
class SaddleBounds(StatedBounds):
    """Bounds that mark an objective for the saddle solver; no other solver may certify it."""


class SaddleLoss(ConvexFunction):
    """A payoff h(w, v, x), convex in the parameters w (dim,), concave in the attack v (k,) on a record."""

    attack: Block  #: The set S: norm ``"l2"`` or ``"linf"``, k and bound. It is centered at 0.
    #: parameter_smoothness, attack_smoothness, cross_smoothness: how much ``grad_w h`` changes a unit of w, ``grad_v
    #: h`` a unit of v, and either a unit of the other (l2). Finite, for all w, all v in S and every record.
    parameter_smoothness: float
    attack_smoothness: float
    cross_smoothness: float
    #: Strong concavity of h in v; 0 if there is none. If it is positive, worst attacks depend smoothly on w.
    attack_concavity: float = 0.0
    aggregation: ClassVar[Aggregation] = "average"
    bounds: ClassVar[SaddleBounds] = SaddleBounds()

    @abstractmethod
    def attack_lipschitz(self, radius: float) -> float:
        """Return the largest l2 norm of ``grad_v h`` at parameters of norm at most `radius`."""

    @abstractmethod
    def value(self, w: Floats, v: Floats, records: Floats) -> Floats:
        """Return h at `w` (dim,), attacks `v` (m, k) and `records` (m, n_features), shape (m,)."""

    @abstractmethod
    def gradient(self, w: Floats, v: Floats, records: Floats) -> Floats:
        """Return the gradients in w, shape (m, dim)."""

    @abstractmethod
    def attack_gradient(self, w: Floats, v: Floats, records: Floats) -> Floats:
        """Return the gradients in v, shape (m, k)."""

    @final
    @property
    def smoothness(self) -> float:
        """Smoothness of G: ``beta_w + beta_wv^2 / concavity`` (Danskin), infinite without strong concavity."""
        if self.attack_concavity == 0:
            return math.inf
        return (self.parameter_smoothness + self.cross_smoothness**2 / self.attack_concavity) * UP

    @final
    def objective(self, records: Records, l2: float, radius: float) -> "SaddleObjective":
        return SaddleObjective(self, records, l2, radius)

    @final
    def total(self, w: Floats, records: Records) -> tuple[float, Floats]:
        objective = SaddleObjective(self, records, 1.0, 1.0)
        v = objective.worst_attacks(w)
        value, gradient = 0.0, np.zeros(self.dim)
        for rows, part in dense_blocks(records):
            value += float(np.sum(of_shape("value", self.value(w, v[part], rows), (len(rows),))))
            gradient += objective.slopes(w, v[part], rows)
        return value / records.n, gradient / records.n

    @final
    def certifiable_radius(self, l2: float, radius: float, max_steps: int) -> float:
        """Return the smallest distance, to ten percent, for which `saddle_steps` is at most `max_steps`."""
        for name in ("parameter_smoothness", "attack_smoothness", "cross_smoothness", "attack_concavity"):
            _validate.real(name, getattr(self, name), at_least=0.0)
        _validate.real("attack_lipschitz", self.attack_lipschitz(radius), at_least=0.0)
        least = max(3 * math.sqrt(2 * self.rounding(l2, radius) / l2), 1e-9 * radius)
        choices = [least * 1.1**power for power in range(230)]
        enough = bisect_left(choices, True, key=lambda r: saddle_steps(self, l2, radius, r) <= max_steps)
        return choices[min(enough, len(choices) - 1)]

    @final
    def rounding(self, l2: float, radius: float) -> float:
        """Return the slack charged for rounding in a computed saddle gap."""
        slope = self.lipschitz(radius) + (self.parameter_smoothness + l2) * radius
        return 2 * ROUNDING * (slope * radius + self.attack_lipschitz(radius) * self.attack.l2)

    @final
    def claims(self, radius: float) -> tuple[str, ...]:
        smooth = f"{self.parameter_smoothness:g}, {self.attack_smoothness:g}, {self.cross_smoothness:g}"
        return (
            "the payoff is convex in the parameters for every attack",
            f"the payoff is {self.attack_concavity:g}-strongly concave in the attack; its gradients change by at most "
            f"{smooth} (parameters, attack, across)",
            f"its gradient in the attack is at most {self.attack_lipschitz(radius):g} long in the ball",
            *super().claims(radius),
        )


@final_dataclass(eq=False)
class SaddleObjective(CustomObjective):
    """``J(w) = G(w) + l2/2 |w|^2`` over a ball. Values use nearly the worst attacks, so certificates ignore them."""

    function: SaddleLoss
    smoothness = math.inf  # the worst attack may jump  # pyright: ignore[reportAssignmentType]

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        value, gradient = self.function.total(w, self.records)
        return value + self.l2 / 2 * float(w @ w), gradient + self.l2 * w

    def gradient_rounding(self, w: Floats) -> float:
        return math.inf

    def value_rounding(self, value: float, w: Floats) -> float:
        return math.inf

    def slopes(self, w: Floats, v: Floats, rows: Floats) -> Floats:
        """Return the sum of the gradients in w of some records' payoffs, shape (dim,)."""
        gradients = of_shape("gradient", self.function.gradient(w, v, rows), (len(rows), self.dim))
        return np.sum(np.ascontiguousarray(gradients.T), axis=1)

    def payoff_gradients(self, w: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Return finite gradients: in w of the mean payoff with the ridge (dim,), and in v of each record (n, k)."""
        slope, attacks = self.l2 * w, np.empty_like(v)
        for rows, part in dense_blocks(self.records):
            slope = slope + self.slopes(w, v[part], rows) / self.records.n
            attacks[part] = of_shape("attack_gradient", self.function.attack_gradient(w, v[part], rows), v[part].shape)
        return np.nan_to_num(slope, posinf=0.0, neginf=0.0), np.nan_to_num(attacks, posinf=0.0, neginf=0.0)

    def project_attacks(self, v: Floats) -> Floats:
        """Return the nearest attacks of S, (n, k)."""
        bound = self.function.attack.bound
        return np.clip(v, -bound, bound) if self.function.attack.norm == "linf" else L2Ball(bound).project_rows(v)

    def attack_gap(self, v: Floats, gradients: Floats) -> float:
        """Return ``max_u mean_i <gradient_i, u_i - v_i>`` over attacks u of S: the Frank-Wolfe gap."""
        norm = np.abs(gradients).sum(1) if self.function.attack.norm == "linf" else np.linalg.norm(gradients, axis=1)
        return float(np.mean(self.function.attack.bound * norm - np.einsum("ij,ij->i", gradients, v)))

    def worst_attacks(self, w: Floats) -> Floats:
        """Return nearly the worst attacks at `w`, (n, k): accelerated ascent, exact for payoffs linear in v."""
        v = np.zeros((self.records.n, self.function.attack.size))
        beta = self.function.attack_smoothness
        if beta == 0:
            gradients = self.payoff_gradients(w, v)[1]
            if self.function.attack.norm == "linf":
                return self.function.attack.bound * np.sign(gradients)
            lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
            return self.function.attack.bound * gradients / np.maximum(lengths, 1e-300)
        y, t = v, 1.0
        for _ in range(_INNER):
            previous, v = v, self.project_attacks(y + self.payoff_gradients(w, y)[1] / beta)
            if np.abs(v - previous).max(initial=0.0) <= 1e-15 * self.function.attack.bound:
                break
            t, old = (1 + math.sqrt(1 + 4 * t * t)) / 2, t
            y = v + (old - 1) / t * (v - previous)
        return v


@final_dataclass
class SaddleConstants:
    """Constants of the regularized saddle problem that the solver solves (proofs: docs, Saddle problems)."""

    sigma: float  #: weight of a ridge on the attacks: sigma s^2 / 4, s the longest attack, is half the wanted gap
    concavity: float  #: strong concavity of the payoff plus the ridge
    condition: float  #: Lipschitz constant of the saddle operator in l2 |w|^2 + concavity mean |v_i|^2; monotonicity 1


def saddle_constants(loss: SaddleLoss, l2: float, accuracy: float) -> SaddleConstants:
    """Return the constants for the ridge `l2` and a distance of `accuracy` to the minimizer."""
    sigma = l2 * (accuracy / loss.attack.l2) ** 2
    concavity = sigma + loss.attack_concavity
    diagonal = max(loss.parameter_smoothness / l2 + 1, (loss.attack_smoothness + sigma) / concavity)
    condition = diagonal + loss.cross_smoothness / math.sqrt(l2 * concavity)
    return SaddleConstants(sigma, concavity, max(4 / 3, condition) * UP)


def saddle_steps(loss: SaddleLoss, l2: float, radius: float, accuracy: float) -> int:
    """Return the extragradient steps after which the saddle gap certifies `accuracy`, for every data set.

    The squared distance to the regularized saddle point, in its norm, shrinks by ``1 - 1/(2 condition)`` a step, from
    at most ``l2 (2R)^2 + concavity (2s)^2``. Near it the gap is at most ``sigma s^2 / 4`` plus a polynomial in it.
    """
    constants = saddle_constants(loss, l2, accuracy)
    concavity, kappa = constants.concavity, constants.condition
    s, cross, steep = loss.attack.l2, loss.cross_smoothness, loss.lipschitz(radius) + l2 * radius
    wanted, near = l2 * accuracy**2 / 4 - loss.rounding(l2, radius), math.sqrt(l2) * radius
    if wanted <= 0:
        return 2**62

    def excess(distance: float) -> float:
        dw, dv = distance / math.sqrt(l2), distance / math.sqrt(concavity)
        attack = 2 * s * (loss.attack_smoothness * dv + cross * dw) + loss.attack_lipschitz(radius) * dv
        return attack + ((loss.parameter_smoothness + l2) * dw + cross * dv) ** 2 / (2 * l2) + steep * dw

    while excess(near) > wanted:
        near /= 2
    start = 4 * (l2 * radius**2 + concavity * s**2)
    return max(1, math.ceil(math.log(start / near**2) / -math.log1p(-1 / (2 * kappa)) * (1 + 1e-9)))
