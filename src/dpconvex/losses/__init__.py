"""Losses of linear models, with the constants that privacy proofs need.

A new loss is one class and its name in `LOSSES`; the contract tests then check it.
"""

from dpconvex.losses.base import CurvatureLaw, LinearModelLoss, PiecewiseLinearLoss, SmoothLoss
from dpconvex.losses.classification import LogisticLoss, SoftmaxLoss
from dpconvex.losses.derived import TruncatedLosses, WeightedLoss, truncate
from dpconvex.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpconvex.losses.regression import (
    AbsoluteLoss, HuberLoss, LogCoshLoss, PinballLoss, PseudoHuberLoss, SmoothedAbsoluteLoss, SmoothedPinballLoss,
    SquaredLoss,
)  # fmt: skip

LOSSES: tuple[type[LinearModelLoss], ...] = (
    LogisticLoss, SoftmaxLoss, SquaredLoss, HuberLoss, PseudoHuberLoss, LogCoshLoss, HingeLoss, SmoothedHingeLoss,
    AbsoluteLoss, SmoothedAbsoluteLoss, PinballLoss, SmoothedPinballLoss, WeightedLoss,
)  # fmt: skip
"""Every loss of the library."""

__all__ = [
    "LOSSES", "AbsoluteLoss", "CurvatureLaw", "HingeLoss", "HuberLoss", "LinearModelLoss", "LogCoshLoss",
    "LogisticLoss", "PiecewiseLinearLoss", "PinballLoss", "PseudoHuberLoss", "SmoothLoss",
    "SmoothedAbsoluteLoss", "SmoothedHingeLoss", "SmoothedPinballLoss", "SoftmaxLoss", "SquaredLoss",
    "TruncatedLosses", "WeightedLoss", "truncate",
]  # fmt: skip
