r"""Objectives of heavy-tailed methods: an average of losses that are made Lipschitz, and a ridge around a center."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LinearModelLoss, PiecewiseLinearLoss, TruncatedLosses, truncate
from dpconvex.problems.base import ROUNDING, UP, Objective, StatedBounds, inner_product_rounding
from dpconvex.problems.data import summation
from dpconvex.problems.data.records import Records, RecordSource, RowBlock
from dpconvex.problems.linear import lipschitz_extension as extension
from dpconvex.problems.linear.objective import clipped_targets
from dpconvex.sets import ConvexSet


@final_dataclass
class Truncation:
    """Public constants by which losses of a linear model become convex and Lipschitz without a bound on the data."""

    level: float  #: largest gradient norm C of one record
    #: Parameters of interest have at most this norm (l2); the loss is continued along its tangents beyond.
    radius: float
    #: For piecewise linear losses: parameter of the Moreau envelope in w; losses fall by at most ``smoothing C^2/2``.
    smoothing: float

    def __post_init__(self) -> None:
        for name in ("level", "radius", "smoothing"):
            _validate.real(name, getattr(self, name), at_least=_validate.SMALLEST, at_most=_validate.LARGEST)

    def curvature(self, loss: LinearModelLoss, feature_l2: float) -> float:
        """Largest curvature in w of one record's surrogate, rounded up."""
        if isinstance(loss, PiecewiseLinearLoss):
            return UP / self.smoothing
        return loss.curvature_bound * feature_l2**2 * UP


@final_dataclass
class TruncatedBounds(StatedBounds):
    """Constants of an average of truncated losses, in w: the level C and the largest curvature."""


class CenteredRisk(Objective):
    r"""``J(w) = mean_i f_i(w) + l2/2 |w - center|^2`` with convex ``f_i`` of slope at most `level`.

    A subclass is a dataclass with these fields; a center of None becomes 0.
    """

    loss: LinearModelLoss
    records: RecordSource
    targets: Array | None  #: None where they come with the records
    l2: float
    level: float
    center: Floats | Any
    dim = forwarded("records", "dim")

    def __post_init__(self) -> None:
        _validate.real("l2", self.l2, above=0.0)
        object.__setattr__(self, "targets", clipped_targets(self.loss, self.records, self.targets))
        center = np.zeros(self.dim) if self.center is None else self.center
        if center.shape != (self.dim,):
            raise InvalidDataError(f"center has shape {center.shape}; the parameters need ({self.dim},)")
        object.__setattr__(self, "center", center)

    @property
    def minimizer_norm(self) -> float:
        return (self._center_norm + self.level / self.l2) * UP

    @property
    def initial_gap(self) -> float:
        return (self.level + self.l2 * self._center_norm) ** 2 / (2 * self.l2) * UP

    def lipschitz_within(self, radius: float) -> float:
        return (self.level + self.l2 * (radius + self._center_norm)) * UP

    def plane_slope(self, radius: float) -> float:
        return self.level * UP

    def value_rounding(self, value: float, w: Floats) -> float:
        reach = float(np.linalg.norm(w)) + self._center_norm
        return ROUNDING * (abs(value) + (self.level + self.l2 * reach) * reach)

    @property
    def _center_norm(self) -> float:
        return float(np.linalg.norm(self.center)) * UP

    def _ridge(self, w: Floats) -> float:
        away = w - self.center
        return self.l2 / 2 * float(away @ away)


@final_dataclass(eq=False)
class TruncatedRisk(CenteredRisk):
    r"""``J(w) = mean_i f_i(w) + l2/2 |w - center|^2`` with convex ``f_i`` of gradient norm at most C everywhere.

    ``grad f_i = clip_C(grad loss_i)`` on the ball of the truncation's radius, but for the smoothing of kinks. Constants
    are those of the level C, not of the features: the sensitivity of the minimizer is ``2C/(l2 n)``.

    Source: Lowy 2026, with truncation in the place of the Lipschitz extension (docs, Heavy tails).
    """

    loss: LinearModelLoss
    records: RecordSource
    targets: Array | None  #: None where they come with the records
    l2: float
    truncation: Truncation
    center: Floats | Any = None
    level = forwarded("truncation", "level")

    def __post_init__(self) -> None:
        check_loss(self.loss)
        super().__post_init__()

    @cached_property
    def losses(self) -> TruncatedLosses:
        """The truncated losses of all records, which must be in memory."""
        assert isinstance(self.records, Records)
        return self._truncated(self.records, self.targets)

    def of(self, block: RowBlock) -> tuple[TruncatedLosses, slice]:
        """Return the losses, and the slice of them that belongs to a block."""
        if self.targets is not None:
            return self.losses, block.rows
        return self._truncated(block, block.targets), slice(None)

    def _truncated(self, rows: Records | RowBlock, targets: Array | Any) -> TruncatedLosses:
        t = self.truncation
        return truncate(self.loss, targets, np.sqrt(rows.squared_norms()), t.level, t.radius, t.smoothing)

    @property
    def bounds(self) -> TruncatedBounds:
        return TruncatedBounds(self.level, self._curvature)

    @property
    def smoothness(self) -> float:
        return (self._curvature + self.l2) * UP

    def value(self, w: Floats) -> float:
        def work(block: RowBlock) -> summation.Parts:
            losses, rows = self.of(block)
            return (summation.number_parts(losses.value(block.predict(w), rows)),)

        return summation.number(self.records.total(work)[0]) / self.records.n + self._ridge(w)

    def gradient(self, w: Floats) -> Floats:
        return self.mean_slope(w) + self.l2 * (w - self.center)

    def mean_slope(self, w: Floats) -> Floats:
        """Return the mean of the clipped gradients, without the ridge, of norm at most C, shape (dim,)."""

        def work(block: RowBlock) -> summation.Parts:
            losses, rows = self.of(block)
            return (block.adjoint(losses.slope(block.predict(w), rows), self.level),)

        return summation.vector(self.records.total(work)[0]) / self.records.n

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        def work(block: RowBlock) -> summation.Parts:
            z, (losses, rows) = block.predict(w), self.of(block)
            return block.adjoint(losses.slope(z, rows), self.level), summation.number_parts(losses.value(z, rows))

        slope, values = self.records.total(work)
        ridge, n = self.l2 * (w - self.center), self.records.n
        return summation.number(values) / n + self._ridge(w), summation.vector(slope) / n + ridge

    def hessian(self, w: Floats) -> Floats:
        def curvature(block: RowBlock) -> Floats:
            losses, rows = self.of(block)
            return losses.curvature(block.predict(w), rows)

        size = math.sqrt(self.records.largest(curvature)) * self.records.domain.linf
        parts = self.records.total(lambda b: (b.gram(np.sqrt(curvature(b)), size, np.rint),))[0]
        hessian = summation.gram(parts, size) / self.records.n
        hessian[np.diag_indices_from(hessian)] += self.l2
        return hessian

    def hessian_product(self, w: Floats, v: Floats) -> Floats:
        size = self._curvature * float(np.linalg.norm(v))

        def work(block: RowBlock) -> summation.Parts:
            losses, rows = self.of(block)
            return (block.adjoint(losses.curvature(block.predict(w), rows) * block.predict(v), size),)

        return summation.vector(self.records.total(work)[0]) / self.records.n + self.l2 * v

    def gradient_rounding(self, w: Floats) -> float:
        return ROUNDING * (self.level + self.smoothness * float(np.linalg.norm(w)) + self.l2 * self._center_norm)

    @property
    def _curvature(self) -> float:
        return self.truncation.curvature(self.loss, self.records.domain.l2)


def check_loss(loss: LinearModelLoss) -> None:
    """Raise `InvalidParameterError` unless the loss has one output and is smooth or piecewise linear."""
    if loss.n_outputs > 1:
        raise InvalidParameterError("loss", loss.name, "must have one prediction per record to be truncated")
    if math.isinf(loss.curvature_bound) and not isinstance(loss, PiecewiseLinearLoss):
        raise InvalidParameterError("loss", loss.name, "must be smooth or piecewise linear to be truncated")


@final_dataclass
class RecordCap:
    """Public limits: a record whose loss is steeper or higher is replaced by the zero function, by itself alone."""

    steepest: float  #: limit of ``|a| max |phi'|`` over the ball around 0 that holds the set
    highest: float = math.inf  #: limit of the loss at 0; kinks beyond the ball move to its end, which shifts values


def profiles(
    loss: LinearModelLoss, features: Floats, targets: Floats, radius: float, cap: RecordCap
) -> extension.Profiles:
    """Return the losses of records on a ball of that radius; targets as `clip_targets` returns them."""
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(features, axis=1)
        ends = extension.Curves(loss, features, targets).ends(radius)
        steep = lengths * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        piecewise = isinstance(loss, PiecewiseLinearLoss)
        high = np.zeros(len(features)) if piecewise else np.abs(loss.value(np.zeros(len(features)), targets))
        kept = (steep <= cap.steepest) & (high <= cap.highest)  # False for NaN
    features = np.where(kept[:, None], features, 0.0)
    if isinstance(loss, PiecewiseLinearLoss):
        reach = np.where(kept, radius * lengths, 0.0)
        return extension.Pieces(features, np.clip(-targets, -reach, reach), *loss.slope_interval(targets))
    return extension.Curves(loss, features, np.where(kept, targets, 0.0))


def extension_rounding(
    loss: LinearModelLoss, level: float, l2: float, cap: RecordCap, domain: ConvexSet, dim: int
) -> float:
    """Return a public bound on what rounding adds to the gap of a risk of extensions, for all records under the cap."""
    R = domain.radius
    highest = 0.0 if isinstance(loss, PiecewiseLinearLoss) else min(cap.highest, loss.value_at_zero)
    bracket = extension.bracket_rounding(level, cap.steepest, highest, domain, dim)
    return bracket + 8 * max(1e-14, inner_product_rounding(dim)) * (level + 4 * l2 * R) * R


@final_dataclass(eq=False)
class ExtensionRisk(CenteredRisk, extension.PlanesRisk):
    r"""``J(w) = mean_i f_{C,i}(w) + l2/2 |w - center|^2`` over a compact set, evaluated to a stated accuracy.

    Computed values leave out the mean lower bound at the center, so that large losses do not round, and have errors of
    at most `oracle_error`. So every certificate for objectives holds. The risk is defined on the set `domain` only,
    which holds the constraint and the center; `level` is C. Records beyond `cap` count as the zero function.
    """

    loss: LinearModelLoss
    records: Records
    targets: Array
    l2: float
    level: float
    domain: ConvexSet
    tolerance: float
    center: Floats | Any = None
    cap: RecordCap | Any = None  #: Limits of records; None becomes the largest that loss and domain of features allow

    def __post_init__(self) -> None:
        _validate.positive(self, "level", "tolerance")
        check_loss(self.loss)
        if self.cap is None:
            object.__setattr__(self, "cap", RecordCap(self.loss.slope_bound * self.records.domain.l2 * UP))
        super().__post_init__()

    @cached_property
    def pieces(self) -> extension.Profiles:
        """The records' losses; features as a dense copy."""
        return profiles(self.loss, self.records.rows(slice(None)), self.targets, self.domain.radius, self.cap)

    @property
    def bounds(self) -> StatedBounds:
        return StatedBounds(self.level)

    @cached_property
    def oracle_error(self) -> float:
        return self.tolerance + extension_rounding(self.loss, self.level, self.l2, self.cap, self.domain, self.dim)

    def gradient_rounding(self, w: Floats) -> float:
        return ROUNDING * self.lipschitz_within(float(np.linalg.norm(w)))

    def value_rounding(self, value: float, w: Floats) -> float:
        found, reach = self.at(w), self.domain.radius + self._center_norm
        rounding = inner_product_rounding(self.dim) * (self.level + self.l2 * reach) * reach
        return float((found.upper - found.lower).mean()) + rounding

    @cached_property
    def anchors(self) -> Floats:
        """Lower bounds at the center, (n,), whose mean is subtracted from computed values."""
        return self.extension(self.center).lower

    def extension(self, w: Floats) -> extension.Extension:
        return extension.lipschitz_extension(self.pieces, w, self.level, self.domain, self.tolerance)
