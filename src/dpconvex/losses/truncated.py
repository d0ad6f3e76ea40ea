r"""Losses of given records with every slope cut at a level of the record's own: convex Lipschitz surrogates.

For a loss ``phi(<x, w>, y)`` and a level ``c = C / |x|`` the surrogate has the derivative ``clip(phi', -c, c)`` in the
prediction. Its gradient in w is the clipped gradient ``clip_C(grad loss)``, yet it is the gradient of a *convex*
function, so whatever is proved of minimizers of convex C-Lipschitz losses holds for it (docs, Heavy tails).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from dpconvex._types import Floats, final_dataclass, quiet
from dpconvex.losses.base import LinearModelLoss, PiecewiseLinearLoss, SmoothLoss

_HALVINGS = 64  # number of bisections of the range of predictions, whose ends are then exact to the last bit
_FLAT = 1e-300  # stands for 0 in denominators
_SHORTEST = 1e-140  # shorter records count as this long, which cuts them lower: squares of their norms lose digits


class TruncatedLosses(ABC):
    """Losses of fixed records; `rows` says which of them the predictions `z`, of shape (m,), belong to.

    Every function is convex and once differentiable, with ``|slope| <= level`` record by record. No content raises or
    warns.
    """

    @abstractmethod
    def value(self, z: Floats, rows: slice) -> Floats:
        """Return the losses, shape (m,)."""

    @abstractmethod
    def slope(self, z: Floats, rows: slice) -> Floats:
        """Return the derivatives in `z`, shape (m,)."""

    @abstractmethod
    def curvature(self, z: Floats, rows: slice) -> Floats:
        """Return the second derivatives in `z`, shape (m,)."""


@final_dataclass(eq=False)
class TruncatedSmoothLosses(TruncatedLosses):
    """A smooth loss where ``|phi'| <= level``, between `lower` and `upper`, tangents beyond; arrays of shape (n,)."""

    loss: SmoothLoss
    targets: Floats
    level: Floats
    lower: Floats
    upper: Floats

    @quiet
    def value(self, z: Floats, rows: slice) -> Floats:
        inside = np.clip(z, self.lower[rows], self.upper[rows])
        return self.loss.value(inside, self.targets[rows]) + self.slope(z, rows) * (z - inside)

    @quiet
    def slope(self, z: Floats, rows: slice) -> Floats:
        inside = np.clip(z, self.lower[rows], self.upper[rows])
        return np.clip(self.loss.derivative(inside, self.targets[rows]), -self.level[rows], self.level[rows])

    @quiet
    def curvature(self, z: Floats, rows: slice) -> Floats:
        inside = (z > self.lower[rows]) & (z < self.upper[rows])
        return np.where(inside, self.loss.hessian_weights(z, self.targets[rows]), 0.0)


@final_dataclass(eq=False)
class TruncatedPiecewiseLinearLosses(TruncatedLosses):
    """``max of u (z - y) - width u^2 / 2 over u in [lower, upper]``, ``|u| <= level``, ``width > 0``; arrays (n,)."""

    targets: Floats
    lower: Floats
    upper: Floats
    width: Floats

    @quiet
    def value(self, z: Floats, rows: slice) -> Floats:
        u = self.slope(z, rows)
        return u * (z - self.targets[rows] - 0.5 * self.width[rows] * u)

    @quiet
    def slope(self, z: Floats, rows: slice) -> Floats:
        return np.clip((z - self.targets[rows]) / self.width[rows], self.lower[rows], self.upper[rows])

    @quiet
    def curvature(self, z: Floats, rows: slice) -> Floats:
        width = self.width[rows]
        u = (z - self.targets[rows]) / width
        return np.where((u > self.lower[rows]) & (u < self.upper[rows]), 1.0 / width, 0.0)


@quiet
def truncate(
    loss: LinearModelLoss, targets: Floats, norms: Floats, level: float, radius: float, smoothing: float
) -> TruncatedLosses:
    """Return the surrogates of given records over the parameters of norm at most `radius`.

    The loss, of one prediction, has slopes of both signs or slopes that vanish; `targets` (n,) come from
    `LinearModelLoss.clip_targets`, `norms` (n,) are feature norms ``|x|``. The slope is cut at ``C / |x|``, with C the
    `level`, the largest gradient norm.

    Smooth losses: predictions beyond ``radius |x|`` continue the tangent, so that the gradient never exceeds its
    largest norm over the ball either. Piecewise linear losses: the Moreau envelope, in w, with the parameter
    `smoothing`; the loss falls by at most ``smoothing C^2 / 2``, and its gradient in w changes by at most
    ``1 / smoothing`` per unit of w, however long features are.
    """
    levels = level / np.maximum(norms, _SHORTEST)
    if isinstance(loss, PiecewiseLinearLoss):
        lower, upper = loss.slope_interval(targets)
        width = np.maximum(smoothing * norms**2, _FLAT)
        return TruncatedPiecewiseLinearLosses(targets, np.maximum(lower, -levels), np.minimum(upper, levels), width)
    assert isinstance(loss, SmoothLoss)  # callers check; tells the type checker
    reach = radius * norms
    upper = _crossing(loss.derivative, targets, levels, reach)
    lower = -_crossing(lambda z, y: -loss.derivative(-z, y), targets, levels, reach)
    return TruncatedSmoothLosses(loss, targets, levels, lower, upper)


def _crossing(slope: Callable[[Floats, Floats], Floats], targets: Floats, levels: Floats, reach: Floats) -> Floats:
    """Return the largest prediction in ``[-reach, reach]`` with a slope of at most the level; -reach if none has."""
    upper = reach.copy()
    steep = np.flatnonzero(slope(upper, targets) > levels)
    y, c = targets[steep], levels[steep]
    low, high = -reach[steep], reach[steep]
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        flat = slope(middle, y) <= c
        low, high = np.where(flat, middle, low), np.where(flat, high, middle)
    upper[steep] = low
    return upper
