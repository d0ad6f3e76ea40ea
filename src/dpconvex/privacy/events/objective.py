r"""Cost of releasing the minimizer of a randomly perturbed objective (objective perturbation) of a linear model.

Objective ``J(w) = (1/n) sum phi(<w,x_i>, y_i) + (l2/2)||w||^2 + <b,w>/n``; neighbors replace one record. Notation:
``tau = X_2^2/(n l2)`` with ``X_2`` the largest l2 norm of a feature vector (intercept included), ``A`` the slope bound,
``c`` the curvature bound, ``q`` the constant of condition SC, formula (1.2): ``phi'' <= (q/A)(A - |phi'|)``.

Rules (theorems, formula numbers and proofs: docs, "Objective perturbation"). The noise part of the privacy loss is at
most ``sensitivity / scale``; the Jacobian part at most ``r log(1 + t tau / r)`` for a loss whose Hessian in the
predictions has rank at most ``r`` and trace at most ``t`` (``determinant``; one output: ``r = 1, t = c``; softmax with
k classes: ``r = k - 1, t = 1 - 1/k``). With SC their sum is at most the noise part when ``q tau <= epsilon_1 / 2``
(``free``; softmax with Frobenius noise: ``q = 4``); else it is maximized over the slope (``saturating``, Theorem 2c,
for losses of one output), as for logistic slopes capped at A (``logistic``). These three rules need the full two-sided
sensitivity ``2 A X_K`` in the noise scale.

Neighbors that add or remove one record (`AddedObjectivePerturbation`; n declared): gradients differ by one record's,
``A X_K``, and one of the two orders pays the determinant alone. ``free`` then needs ``q tau <= epsilon_1`` only, and
``logistic`` and ``saturating`` are formula (1.4a) (docs, Objective perturbation, Added or removed units).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.events.base import Event, PureEvent
from dpconvex.privacy.params import Neighboring
from dpconvex.privacy.profiles import gaussian_delta

PURE_RULES = ("determinant", "free", "logistic", "saturating")
GAUSSIAN_RULES = ("one_sided", "two_sided", "one_sided_sc", "two_sided_sc", "logistic", "softmax")
USER_RULES = GAUSSIAN_RULES[:4]
TANGENT_RULES = ("one_sided_sc", "two_sided_sc", "logistic")  #: Rules whose curvature cost is concave in the slope
Vertices = tuple[tuple[float, float, float], ...]  #: What `_vertices` returns, one tuple for each kind of vertex


@dataclass(frozen=True)
class PureObjectivePerturbation(PureEvent):
    """The minimizer under norm-exponential noise ``b`` of the given scale."""

    sensitivity: float  #: largest distance, in the noise's norm, between the gradients of two records (`2 A X_K`)
    scale: float  #: scale of the noise density `exp(-||b|| / scale)`
    tau: float  #: `X_2^2 / (n l2)`, rounded up
    rule: str  #: which bound on the determinant applies (module docstring)
    # The trace bound `t` for `determinant`, `q` for `free`, `q / c` for `saturating`, the largest slope for `logistic`
    curvature: float
    rank: int = 1  #: the rank bound `r`; `free` does not use it
    bend: float = 1.0  #: the curvature bound `c`; only `saturating` uses it
    pulls: ClassVar[int] = 2  #: In how many records neighbors differ: 2 if one is replaced, 1 if it is added or removed
    neighboring: ClassVar[Neighboring | None] = Neighboring.REPLACE_ONE
    kind: ClassVar[str] = "pure_objective_perturbation"

    def __post_init__(self) -> None:
        _validate.positive(self, "sensitivity", "scale", "tau", "curvature", "bend")
        _validate.choice("rule", self.rule, PURE_RULES)
        _check_cap(self.rule, self.curvature)
        _validate.integer("rank", self.rank, at_least=1)
        if self.bend != 1.0 and self.rule != "saturating":
            raise InvalidParameterError("bend", self.bend, f"must be 1 for rule={self.rule!r}", "Leave it out")
        if self.rule == "free" and Fraction(self.curvature) * Fraction(self.tau) * self.pulls > self.noise_epsilon:
            what = f"must satisfy q*tau <= epsilon_1{'/2' * (self.pulls - 1)} for rule='free'"
            raise InvalidParameterError("tau", self.tau, what, "Raise the regularization")

    @property
    def noise_epsilon(self) -> Fraction:
        """The noise part ``epsilon_1``: sensitivity over scale."""
        return Fraction(self.sensitivity) / Fraction(self.scale)

    @property
    def pure_epsilon(self) -> Fraction:
        """Total pure epsilon of the exact minimizer, by the stated rule, rounded up."""
        noise = self.noise_epsilon
        if self.rule == "free":
            return noise
        if self.rule == "determinant":
            return noise + Fraction(determinant_cost(self.curvature, self.rank, self.tau))
        if self.rule == "saturating":
            tau = _rounding.product_up(self.tau, self.bend)
            return saturating_epsilon(noise, tau, self.curvature, self.rank, self.pulls)
        return logistic_epsilon(noise, self.tau, self.curvature, self.rank, self.pulls)

    @property
    def searched_epsilon(self) -> float | None:
        """The maximum of the logistic or the saturating rule over a grid of slopes; None for other rules."""
        if self.rule not in ("logistic", "saturating"):
            return None
        e, cap, r = _rounding.float_up(self.noise_epsilon), self.curvature, self.rank
        slopes = np.append(np.linspace(0, 1, 2001), max(1 - 1 / cap, 0.0))  # last: a saturating curvature's kink
        bends = cap * slopes * (1 - cap * slopes) if self.rule == "logistic" else np.minimum(1.0, cap * (1 - slopes))
        pulls = e * slopes if self.pulls == 1 else e / 2 * (1 + slopes)
        return float(np.max(pulls + r * np.log1p(self.tau * self.bend / r * bends)))

    def to_dict(self) -> dict[str, Any]:
        return {name: each for name, each in super().to_dict().items() if name != "bend" or self.rule == "saturating"}


@dataclass(frozen=True)
class AddedObjectivePerturbation(PureObjectivePerturbation):
    """`PureObjectivePerturbation` where neighbors add or remove a record; n is declared, `sensitivity` is ``A X_K``."""

    pulls: ClassVar[int] = 1
    neighboring: ClassVar[Neighboring | None] = Neighboring.ADD_OR_REMOVE_ONE
    kind: ClassVar[str] = "pure_objective_perturbation_of_added_units"


def determinant_cost(trace: float, rank: int, tau: float) -> float:
    """Largest log-ratio of determinants, ``r log(1 + t tau / r)``, rounded up."""
    return _rounding.widen_up(rank * math.log1p(trace * tau / rank))


def logistic_epsilon(noise: Fraction, tau: float, cap: float = 1.0, rank: int = 1, pulls: int = 2) -> Fraction:
    """Formula (1.4): ``e/2 + max of e a/(2 A) + r log(1 + tau a (1 - a)/r) over slopes a in [0, A]``, rounded up.

    If one record is added (`pulls` = 1), formula (1.4a) is the same maximum with ``e a/A``, and no first term.
    Here `noise` is ``e``, `cap` is A and `rank` is r. The bracket is concave in a, with its maximum at A or at a root.
    """
    if rank > 1:
        return rank * logistic_epsilon(noise / rank, _rounding.ratio_up(tau, rank), cap, pulls=pulls)
    rate = _rounding.float_up(noise) / (pulls * cap)
    at_cap = noise if cap == 1 else noise + Fraction(determinant_cost(cap * (1 - cap), 1, tau))
    if rate * (1 + tau * cap * (1 - cap)) >= tau * (2 * cap - 1):
        return at_cap
    half = rate * tau
    b, c = half - 2 * tau, rate + tau
    root = math.sqrt(b * b + 4 * half * c)
    a = (b + root) / (2 * half) if b > 0 else 2 * c / (root - b)
    a = min(max(a, 0.0), cap)
    value = rate * ((pulls - 1) * cap + a) + math.log1p(tau * a * (1 - a))
    return max(at_cap, Fraction(value * (1 + 1e-11)))  # the bracket is flat at the root, whose rounding costs far less


def saturating_epsilon(noise: Fraction, tau: float, q: float, rank: int = 1, pulls: int = 2) -> Fraction:
    """Theorem 2c: ``e/2 + max of e a/2 + r log(1 + tau min(1, q (1 - a))/r) over slopes a in [0, 1]``, rounded up.

    If one record is added (`pulls` = 1) it is the same maximum with ``e a``, and no first term. Here `noise` is ``e``
    and `rank` is r. The bracket rises up to ``a = 1 - 1/q`` and is concave from there on.
    """
    if rank > 1:
        return rank * saturating_epsilon(noise / rank, _rounding.ratio_up(tau, rank), q, pulls=pulls)
    rate = _rounding.float_up(noise) / pulls
    if Fraction(q) * Fraction(tau) <= noise / pulls:  # it rises up to a = 1: Theorem 2
        return noise
    short = min(max(1 / rate - 1 / (tau * q), 0.0), 1 / q, 1.0)  # 1 - a at the maximum
    value = rate * (pulls - short) + math.log1p(tau * min(1.0, q * short))
    return max(noise, Fraction(value * (1 + 1e-11)))  # the bracket is flat there, or at a kink that doubles meet


def logistic_line(cap: float, tau: float) -> tuple[float, float]:
    """Values at `cap` and at 0 of the tangent at `cap` of ``a -> log(1 + tau a (1 - a))``, concave; rounded up."""
    top = 0.0 if cap == 1 else determinant_cost(cap * (1 - cap), 1, tau)
    fall = cap * tau * (2 * cap - 1) / (1 + tau * cap * (1 - cap))
    return top, _rounding.widen_up(top + fall) + _rounding.SLACK * abs(fall)  # top and fall may cancel


def tangent_line(rule: str, curvature: float, tau: float, tangent: float = 1.0) -> tuple[float, float]:
    """Values at the largest slope A and at 0 of a line above what curvature costs at slopes between, rounded up.

    That cost, ``h(a) = log(1 + tau a (1 - a))`` (`curvature` is A), or with SC ``log(1 + q tau (1 - a))`` (`curvature`
    is q, A = 1), is concave: every tangent will do. This one touches it at `tangent` times A.
    """
    if tangent == 1.0:
        return logistic_line(curvature, tau) if rule == "logistic" else (0.0, _rounding.widen_up(curvature * tau))
    cap, rate = (curvature, tau) if rule == "logistic" else (1.0, curvature * tau)
    t = tangent * cap
    bend, growth = (t * (1 - t), 1 - 2 * t) if rule == "logistic" else (1 - t, -1.0)
    value, slope = math.log1p(rate * bend), rate * growth / (1 + rate * bend)
    slack = _rounding.SLACK * (1 + value + abs(slope))  # terms may cancel
    return _rounding.widen_up(value + (cap - t) * slope) + slack, _rounding.widen_up(value - t * slope) + slack


def _check_cap(rule: str, curvature: float) -> None:
    if rule == "logistic":
        _validate.real("curvature", curvature, above=0.0, at_most=1.0)


@dataclass(frozen=True)
class GaussianObjectivePerturbation(Event):
    """The minimizer under Gaussian ``b``, released with Gaussian output noise that hides the solver's inaccuracy."""

    # Largest length of one record's gradient in units where every coordinate of `b` has the same standard deviation:
    # `A X_2` (also for softmax, whose slopes are `A (p - e_y)`).
    gradient_bound: float
    sigma: float  #: standard deviation of every coordinate of `b` in these units
    rho: float  # twice the certified solver radius over the output noise's standard deviation; 0 for an exact minimizer
    tau: float  #: `X_2^2 / (n l2)`, rounded up
    # Formula (3.1) for margin losses or two-sided losses, (3.2) for losses with condition SC ("_sc"), (3.4) for the
    # logistic loss with a cap, or softmax.
    rule: str
    # The bound `c`; `q` for the `_sc` rules; the largest slope for `logistic`; the number of classes for `softmax`
    curvature: float
    neighboring: ClassVar[Neighboring | None] = Neighboring.REPLACE_ONE
    curvature_mu: ClassVar[float] = 0.0
    tangent: ClassVar[float] = 1.0
    kind: ClassVar[str] = "gaussian_objective_perturbation"

    def __post_init__(self) -> None:
        _validate.positive(self, "gradient_bound", "sigma", "tau", "curvature")
        _validate.real("rho", self.rho, at_least=0.0)
        _validate.choice("rule", self.rule, GAUSSIAN_RULES)
        _check_cap(self.rule, self.curvature)

    @property
    def claimed_sensitivity(self) -> float:
        """Distance between two records' gradients: twice the gradient bound (``sqrt(8) X_2`` for softmax)."""
        return _rounding.product_up(math.sqrt(8.0) if self.rule == "softmax" else 2.0, self.gradient_bound)

    def delta(self, epsilon: float) -> float:
        """Formulas (3.1) to (3.4): a union bound over the vertices of the gradient-difference polytope."""
        mu = _rounding.ratio_up(self.gradient_bound, self.sigma)
        return min(1.0, sum(count * self._profile(e, length * mu) for count, e, length in self._vertices(epsilon)))

    def _vertices(self, epsilon: float) -> Vertices:
        return _vertices(self.rule, self.curvature, self.tau, epsilon, self.tangent)

    def _profile(self, epsilon: float, mu: float) -> float:
        shift = math.hypot(mu, self.rho, self.curvature_mu) * (1 + 1e-15)
        return 1.0 if epsilon < 0 else gaussian_delta(epsilon, shift)


@dataclass(frozen=True)
class CurvedObjectivePerturbation(GaussianObjectivePerturbation):
    """The minimizer, and a sum over records at the released parameters with Gaussian noise: formula (3.4t).

    *Every* vertex reads the shift of that sum as well, also the vertices at which slopes do not differ.
    """

    #: Largest change of the sum, divided by the standard deviation of its noise
    curvature_mu: float  # pyright: ignore[reportGeneralTypeIssues]
    #: Where the line of `tangent_line` touches, in units of the largest slope; 1 for rules outside `TANGENT_RULES`
    tangent: float  # pyright: ignore[reportGeneralTypeIssues]
    kind: ClassVar[str] = "gaussian_objective_perturbation_with_curvature"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive(self, "curvature_mu")
        _validate.real("tangent", self.tangent, above=0.0, at_most=1.0)
        if self.tangent != 1.0 and self.rule not in TANGENT_RULES:
            raise InvalidParameterError("tangent", self.tangent, f"must be 1 for rule={self.rule!r}", "It has no line")


@dataclass(frozen=True)
class UserGaussianObjectivePerturbation(GaussianObjectivePerturbation):
    """The minimizer if all records of a user are replaced, at most `rows` distinct records on either side: Theorem U4.

    A user's gradient is in a simplex of `rows` vertices and 0 (two sides: in a cross-polytope), which do not depend on
    the minimizer; its Hessian has the trace of a record's, but any rank.
    """

    rows: int  #: largest number of distinct records of a user, *enforced* before weights are made
    parameters: int  #: rank of a user's Hessian: the number of all parameters
    kind: ClassVar[str] = "user_gaussian_objective_perturbation"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("rule", self.rule, USER_RULES)
        _validate.integer("rows", self.rows, at_least=1)
        _validate.integer("parameters", self.parameters, at_least=1)

    def _vertices(self, epsilon: float) -> Vertices:
        m, free = float(self.rows), self.rule.endswith("_sc")
        cost = 0.0 if free else determinant_cost(self.curvature, self.parameters, self.tau)  # Theorem U1
        at_zero = epsilon - _rounding.widen_up(self.curvature * self.tau if free else cost)  # Theorem U2: q tau (1 - a)
        if self.rule.startswith("one_sided"):
            return ((m**2, epsilon - cost, 2.0), (m, epsilon - cost, 1.0), (m, at_zero, 1.0), (1, at_zero, 0.0))
        each = ((2 * m**2, epsilon - cost, 2.0), (2 * m**2, epsilon - cost, math.sqrt(2) * (1 + 1e-15)))
        return (*each, (2 * m, at_zero, 1.0), (1, at_zero, 0.0)) if free else (*each, (1, at_zero, 0.0))


@lru_cache(maxsize=256)  # a calibration asks for the same vertices at many noise levels
def _vertices(rule: str, curvature: float, tau: float, epsilon: float, tangent: float) -> Vertices:
    """Multiplicity, remaining epsilon and length (in units of the gradient bound) of every kind of vertex."""
    if rule == "softmax":
        k = curvature
        left = epsilon - determinant_cost(1 - 1 / k, round(k) - 1, tau)
        kinds = [(k - 1, math.sqrt(8)), ((k - 1) * (k - 2), math.sqrt(6)), (2 * (k - 1), math.sqrt(2)), (1, 0.0)]
        return tuple((count, left, length * (1 + 1e-15)) for count, length in kinds if count > 0)
    if rule in TANGENT_RULES:
        at_cap, at_zero = (epsilon - cost for cost in tangent_line(rule, curvature, tau, tangent))
        if rule == "two_sided_sc":
            return ((2, at_cap, 2.0), (2, at_cap, math.sqrt(2)), (2, at_zero, 1.0), (2, at_zero, 0.0))
        return ((1, at_cap, 2.0), (1, at_cap, 1.0), (1, at_zero, 1.0), (1, at_zero, 0.0))
    left = epsilon - determinant_cost(curvature, 1, tau)
    if rule == "one_sided":
        return ((1, left, 2.0), (2, left, 1.0), (1, left, 0.0))
    return ((2, left, 2.0), (2, left, math.sqrt(2)), (1, left, 0.0))
