r"""Training against an adversary who moves the features: closed form, and a smooth problem with an equal minimizer.

The adversary may add any v with ``|v|_p <= s`` to the features of every record, p = 2 or infinity, never to the
constant feature. A convex loss of one prediction is largest at an end of the predictions that can be reached,

    ``worst(w) = max(loss(z - rho, y), loss(z + rho, y))``,  ``z = <w, x>``,  ``rho = s |w_features|_{p*}``,

where p* is the dual norm: l2 for p = 2, l1 for p = infinity.

Lift (docs, Adversarial training, Lemma 1; Lowy and Razaviyayn, Section 5.2, has a saddle point in its place): the worst
case is ``loss(z + c rho, y) + charge rho``, with ``c = -y`` and no charge for losses of the margin. With variables over
cones ``a |w_g| <= q_g`` in place of the norm it is a linear model of records ``(x, c_i s/a, ...)`` and ridge
l2/(1 + a^2); a ball ``|w| <= R`` becomes that of radius ``sqrt(1 + a^2) R``.
"""

import math
from functools import cached_property
from typing import Literal

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LinearModelLoss, PiecewiseLinearLoss, SmoothLoss
from dpconvex.problems.data.domain import Block, DataDomain
from dpconvex.sets import SecondOrderCones

AttackNorm = Literal["l2", "linf"]
ATTACK_NORMS: tuple[AttackNorm, ...] = ("l2", "linf")


@final_dataclass
class Attack:
    """All perturbations of a record's features of norm at most `radius`."""

    radius: float  #: positive, in the unit of the (encoded, scaled) features; at most 1e100
    norm: AttackNorm = "l2"  #: norm in which perturbations are measured

    def __post_init__(self) -> None:
        _validate.real("attack_radius", self.radius, above=0.0, at_most=_validate.LARGEST)
        _validate.choice("attack_norm", self.norm, ATTACK_NORMS)

    def reach(self, domain: DataDomain) -> float:
        """Largest l2 norm of a record of the domain after the attack, the constant included, rounded up.

        It bounds how losses change with parameters; `Problem.contrast` bounds how gradients differ between records.

        p = 2: ``|x + v|_2 <= X + s``. p = infinity: ``|x + v|^2 <= |x|^2 + 2 s |x|_1 + d s^2``. Both are attained.
        """
        s = self.radius
        if self.norm == "l2":
            return _rounding.widen_up(math.hypot(_plain(domain).l2 + s, domain.intercept))
        squared = math.fsum((domain.l2**2, 2 * s * _plain(domain).l1, domain.n_features * s * s))
        return _rounding.widen_up(math.sqrt(squared))

    def mean_dual_norm(self, domain: DataDomain) -> float:
        """Return a bound on ``E|z|_{p*} / E|z|_2`` over the features' coefficients, z isotropic of length domain.dim.

        It is 1 for p = 2. For p = infinity, it is ``n_features`` times a uniform direction's mean absolute coordinate,
        ``Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))``: about ``sqrt(2 d / pi)``.
        """
        if self.norm == "l2":
            return 1.0
        d = domain.dim
        log_mean = math.lgamma(d / 2) - math.lgamma((d + 1) / 2) - math.log(math.pi) / 2
        return domain.n_features * math.exp(log_mean) * (1 + 1e-9)

    def check(self, loss: LinearModelLoss, tilt: float) -> None:
        """Raise `InvalidParameterError` if the problem has no exact smooth form."""
        piecewise = isinstance(loss, PiecewiseLinearLoss)
        if loss.n_outputs > 1:
            reason = "must be 0 for several outputs: the worst perturbation has no closed form there"
            remedy = "Use two classes with a loss of one margin (logistic, hinge)"
        elif piecewise and tilt:
            reason = f"must be 0 for a tilted {loss.name} loss"
            remedy = "Use tilt=0, or a smooth loss of the margin (logistic, smoothed hinge)"
        elif not piecewise and not (isinstance(loss, SmoothLoss) and loss.sides == 1):
            reason = f"must be 0 for the {loss.name} loss: under attack it is neither smooth nor piecewise linear"
            remedy = "Use a classifier of two classes, or quantile regression without smoothing"
        else:
            return
        raise InvalidParameterError("attack_radius", self.radius, reason, remedy)


@final_dataclass
class Lift:
    """The equivalent problem over cones (module docstring): its domain, ridge, records and parameters."""

    attack: Attack
    plain: DataDomain  #: domain of the records before the attack

    @property
    def cones(self) -> int:
        """Number of cones and of further columns: 1 for p = 2, the number of features for p = infinity."""
        return 1 if self.attack.norm == "l2" else self.plain.n_features

    @cached_property
    def radius(self) -> float:
        """The attack's radius, or the radius that cancels all features if that is less; minimizers are equal.

        At the latter radius the minimizer has coefficients 0, which a stronger adversary cannot affect.
        """
        features = _plain(self.plain)
        return min(self.attack.radius, features.l2 if self.attack.norm == "l2" else features.linf)

    @cached_property
    def slope(self) -> float:
        """The number a of ``a |w_g| <= q_g``, at least 1e-8: smaller values would not help."""
        return max(1e-8, math.sqrt(self.radius * math.sqrt(self.cones) / _plain(self.plain).l2))

    @property
    def stretch(self) -> float:
        """``sqrt(1 + a^2)``, the length of optimal lifted parameters over the length of the parameters."""
        return math.hypot(1.0, self.slope)

    @cached_property
    def domain(self) -> DataDomain:
        """Domain of the lifted records."""
        column = Block(self.cones, "linf", _rounding.widen_up(self.radius / self.slope), "attack")
        return DataDomain((*self.plain.blocks, column), self.plain.intercept / self.stretch)

    def ridge(self, l2: float) -> float:
        """Regularization of the lifted problem."""
        return l2 / (1 + self.slope * self.slope)

    def column(self, loss: LinearModelLoss, targets: Floats) -> Floats:
        """Return the further feature of every record, shape (n,)."""
        shift = -targets  # the c of the module docstring
        if isinstance(loss, PiecewiseLinearLoss):
            lo, hi = loss.slope_interval(targets)
            shift = (hi + lo) / (hi - lo)
        return self.radius / self.slope * shift

    def linear(self, loss: LinearModelLoss) -> Floats | None:
        """Return the coefficients of the linear term (lifted dim,); None where there is none."""
        if not isinstance(loss, PiecewiseLinearLoss):
            return None
        lo, hi = (float(end[0]) for end in loss.slope_interval(loss.clip_targets(np.ones(1))))  # any target
        charge, out = -2 * hi * lo / (hi - lo), np.zeros(self.domain.dim)
        out[self.plain.n_features : self.domain.n_features] = charge * self.radius / self.slope
        return out if charge else None

    def constraint(self, radius: float) -> SecondOrderCones:
        """Return the cones, for parameters of norm at most `radius` (may be infinite)."""
        d, k = self.plain.n_features, self.cones
        free = self.domain.dim - self.domain.n_features
        return SecondOrderCones(d // k, k, self.slope, free, radius * self.stretch)

    def parameters(self, point: Floats) -> Floats:
        """Return the parameters (dim,) for lifted parameters; distances do not grow."""
        return np.concatenate([point[: self.plain.n_features], point[self.domain.n_features :] / self.stretch])


def _plain(domain: DataDomain) -> DataDomain:
    """Return the domain without the constant feature, which adversaries cannot move."""
    return DataDomain(domain.blocks)
