"""Losses of support vector machines: the hinge and its smoothings."""

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass, forwarded, quiet
from dpconvex.losses import base
from dpconvex.losses.classification import TwoClasses


@final_dataclass
class HingeLoss(TwoClasses, base.PiecewiseLinearLoss):
    """``max(1 - y z, 0)`` with targets -1 and +1: the loss of the support vector machine.

    Equal to ``max of u (z - y)`` over u between 0 and ``-y``. Targets above 0 become +1, all others (0, NaN) -1.
    """

    name = "hinge"
    slope_bound = 1.0
    value_at_zero = 1.0  # pyright: ignore[reportAssignmentType]

    def slope_interval(self, y: Floats) -> tuple[Floats, Floats]:
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)

    def smoothed(self, width: float) -> "SmoothedHingeLoss":
        """Return the one that is quadratic for margins in ``[1 - width, 1]``, at most ``width / 2`` below."""
        base.check_width(width)
        return SmoothedHingeLoss(width, center=1.0 - 0.5 * width)


@final_dataclass
class SmoothedHingeLoss(TwoClasses, base.SmoothLoss):
    """A hinge whose slope in the margin ``m = y z`` is ``-clip((center + width / 2 - m) / width, 0, 1)``.

    With ``center = 1`` it lies above the hinge by at most ``width / 8``. Slope at most 1, curvature at most
    ``1 / width``; no q, since the curvature is ``1 / width`` right up to the largest slope, unless it is `saturating`:
    then slopes bend from -2/3 on, q is ``3 / width``, and it lies above by at most ``25 width / 162``. Targets above 0
    become +1, all others (0, NaN) -1.
    """

    name = "smoothed_hinge"
    slope_bound = 1.0
    width: float = 1.0  #: length of the quadratic piece, in units of the margin, between 1e-100 and 1e100
    center: float = 1.0  #: kink of the hinge that it tends to on both sides: its middle; between -1e100 and 1e100
    saturating: bool = False  #: whether the slope bends before it reaches -1, as in `base.Spline`
    self_concordance = forwarded("_piece", "self_concordance")

    def __post_init__(self) -> None:
        base.check_width(self.width)
        _validate.real("center", self.center, at_least=-_validate.LARGEST, at_most=_validate.LARGEST)

    @property
    def curvature_bound(self) -> float:
        return _rounding.ratio_up(1.0, self.width)

    @property
    def value_at_zero(self) -> float:
        return _rounding.widen_up(float(self._piece.value(np.array([-self.end]))[0]))

    @quiet
    def value(self, z: Floats, y: Floats) -> Floats:
        return self._piece.value(z * y - self.end)

    @quiet
    def derivative(self, z: Floats, y: Floats) -> Floats:
        return y * self._piece.slope(z * y - self.end)

    @quiet
    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        return self._piece.curvature(z * y - self.end)

    @property
    def _piece(self) -> base.Spline:
        return base.Spline(-1.0, 0.0, self.width, self.saturating)

    @property
    def end(self) -> float:
        """The margin from which the loss is 0."""
        return self.center + self._piece.short(1.0) * self.width
