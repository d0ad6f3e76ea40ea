"""The ridge risk of Lipschitz extensions: which records count, what rounding adds for them all, and the objective."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import LinearModelLoss, PiecewiseLinearLoss
from dpconvex.problems.data.records import Records
from dpconvex.problems.linear.lipschitz_extension import (
    Curves,
    Extension,
    Oracle,
    Pieces,
    Profiles,
    bracket_rounding,
    lipschitz_extension,
)
from dpconvex.problems.linear.truncated import CenteredRisk, check_loss
from dpconvex.problems.objective import ROUNDING, UP, inner_product_rounding
from dpconvex.sets import ConvexSet


@final
@dataclass(frozen=True)
class RecordCap:
    """Which records are replaced by the zero function, each by itself: those steeper or higher than this. Public."""

    steepest: float  #: of ``|a| max |phi'|`` over the ball around 0 that holds the set
    highest: float = math.inf  #: of the loss at 0; kinks beyond the ball are moved to its end, which shifts values only


def profiles(
    loss: LinearModelLoss, features: FloatArray, targets: FloatArray, radius: float, cap: RecordCap
) -> Profiles:
    """Return the losses of records on a ball of that radius; targets as `clip_targets` returns them."""
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(features, axis=1)
        ends = Curves(loss, features, targets).ends(radius)
        steep = lengths * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        piecewise = isinstance(loss, PiecewiseLinearLoss)
        high = np.zeros(len(features)) if piecewise else np.abs(loss.value(np.zeros(len(features)), targets))
        kept = (steep <= cap.steepest) & (high <= cap.highest)  # False for NaN
    features = np.where(kept[:, None], features, 0.0)
    if isinstance(loss, PiecewiseLinearLoss):
        reach = np.where(kept, radius * lengths, 0.0)
        return Pieces(features, np.clip(-targets, -reach, reach), *loss.slope_interval(targets))
    return Curves(loss, features, np.where(kept, targets, 0.0))


def extension_rounding(
    loss: LinearModelLoss, level: float, l2: float, cap: RecordCap, domain: ConvexSet, dim: int
) -> float:
    """Return what rounding adds to the gap of any risk of extensions, for all records under the cap: public."""
    R = domain.radius
    highest = 0.0 if isinstance(loss, PiecewiseLinearLoss) else min(cap.highest, loss.value_at_zero)
    bracket = bracket_rounding(level, cap.steepest, highest, domain, dim)
    return bracket + 8 * max(1e-14, inner_product_rounding(dim)) * (level + 4 * l2 * R) * R


@final
@dataclass(frozen=True)
class ExtensionBounds:
    """Constants of an average of Lipschitz extensions: the level C, and no smoothness."""

    slope_bound: float
    curvature_bound: float = math.inf


@final
@dataclass(frozen=True, eq=False)
class ExtensionRisk(CenteredRisk):
    r"""``J(w) = mean_i f_{C,i}(w) + l2/2 |w - centre|^2`` over a compact set, evaluated to a stated accuracy.

    Its computed values are lower bounds less a constant (the lower bounds at the centre, so that large losses do not
    round), off by at most `oracle_error`, as `value_rounding` says; its gradients are exact slopes of lower planes. So
    every certificate for objectives holds for it. Defined on the set `domain` only, which holds the constraint and the
    centre; `level` is the C. Records beyond `cap` count as the zero function.
    """

    loss: LinearModelLoss
    records: Records  # pyright: ignore[reportIncompatibleVariableOverride]
    targets: AnyArray  # pyright: ignore[reportIncompatibleVariableOverride]
    l2: float
    level: float
    domain: ConvexSet
    tolerance: float
    centre: FloatArray | None = None
    cap: RecordCap | None = None  #: None: what the loss and the features' domain admit
    oracle: Oracle = lipschitz_extension
    everywhere = False
    smoothness = math.inf  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        _validate.real("level", self.level, above=0.0)
        _validate.real("tolerance", self.tolerance, above=0.0)
        check_loss(self.loss)
        if self.cap is None:
            object.__setattr__(self, "cap", RecordCap(self.loss.slope_bound * self.records.domain.l2 * UP))
        super().__post_init__()

    @cached_property
    def pieces(self) -> Profiles:
        """The records' losses; features as a dense copy."""
        assert self.cap is not None  # set on creation; tells the type checker
        return profiles(self.loss, self.records.rows(slice(None)), self.targets, self.domain.radius, self.cap)

    @property
    def bounds(self) -> ExtensionBounds:
        return ExtensionBounds(self.level)

    @cached_property
    def oracle_error(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        assert self.cap is not None  # set on creation; tells the type checker
        return self.tolerance + extension_rounding(self.loss, self.level, self.l2, self.cap, self.domain, self.dim)

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return a lower bound of ``J(w)`` less a constant, below it by at most `value_rounding`, and its slope."""
        found = self._extension(w)
        slope = found.slopes.mean(0) + self.l2 * (w - self._centre)
        return float((found.lower - self.anchors).mean()) + self._ridge(w), slope

    def gradient_rounding(self, w: FloatArray) -> float:
        return ROUNDING * self.lipschitz_within(float(np.linalg.norm(w)))

    def value_rounding(self, value: float, w: FloatArray) -> float:
        """Return how far the bounds of the extensions are apart at `w`, and the slack charged for rounding."""
        found, reach = self._extension(w), self.domain.radius + self._centre_norm
        rounding = inner_product_rounding(self.dim) * (self.level + self.l2 * reach) * reach
        return float((found.upper - found.lower).mean()) + rounding

    @cached_property
    def anchors(self) -> FloatArray:
        """Lower bounds at the centre, (n,): computed values are less by their mean."""
        return self.oracle(self.pieces, self._centre, self.level, self.domain, self.tolerance).lower

    @cached_property
    def _last(self) -> dict[bytes, Extension]:
        """The extensions at the last points asked for: a value and its slack are needed together."""
        return {}

    def _extension(self, w: FloatArray) -> Extension:
        key = w.tobytes()
        if key not in self._last:
            if len(self._last) > 2:
                del self._last[next(iter(self._last))]
            self._last[key] = self.oracle(self.pieces, w, self.level, self.domain, self.tolerance)
        return self._last[key]
