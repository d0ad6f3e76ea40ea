"""Small instances of every loss, set, norm, mechanism, solver and convex function: what the contract tests try."""

import math
from typing import Any, TypeVar

import numpy as np

from dpconvex import losses, mechanisms, problems, sets, solvers
from dpconvex.geometry import GroupedNorm, L2Norm
from dpconvex.privacy import Sensitivity
from dpconvex.problems import DataDomain
from dpconvex_experiments.reference import lower_bound, objectives
from dpconvex_experiments.reference.location import MedianMechanism
from dpconvex_experiments.reference.printed_median import BoundedLaplaceMechanism

T = TypeVar("T")

NORMS = (
    L2Norm(1),
    L2Norm(5),
    GroupedNorm(np.array([1, 3, 2]), np.array([0.5, 1.0, 2.0]), np.array([0, 1, 0]), np.array([2.0, 1.5])),
    GroupedNorm(np.array([4]), np.array([1.0]), np.array([0]), np.array([1.0]), "l1"),
    GroupedNorm(np.ones(3, dtype=np.int64), np.ones(3), np.zeros(3, dtype=np.int64), np.ones(1), "block_max"),
    GroupedNorm(
        np.array([3, 2, 1]),
        np.array([1.0, 0.5, 2.0]),
        np.array([0, 0, 1]),
        np.array([1.0, 0.5]),
        euclidean=np.array([True, False, False]),
    ),
    GroupedNorm(
        np.array([1, 4, 3]),
        np.array([0.5, 1.0, 1.0]),
        np.array([0, 1, 0]),
        np.array([2.0, 1.0]),
        centered=np.array([False, True, True]),
    ),
)
"""Of each class of norms."""


def _measured(norm: str, value: float = 1.0) -> Sensitivity:
    return Sensitivity(value, norm, "example")


_LINE, _SQUARE = DataDomain.box(1, 1.0), sets.Box(-1.0, 1.0, dim=2)
_ORDERED = [[-1, 0, 0], [1, -1, 0], [0, 1, -1], [0, 0, 1]]
_WEIGHTED = (
    losses.LogisticLoss(),
    losses.LogisticLoss(0.7, 0.2),
    losses.SoftmaxLoss(3),
    losses.SmoothedHingeLoss(0.5),
    losses.HuberLoss(0.5, 0.5),
)
_BALLS: tuple[dict[str, Any], ...] = ({"radius": 2.0, "dim": 3}, {"radius": 0.5}, {"radius": 1e-3, "dim": 1})
_SATURATING: tuple[dict[str, Any], ...] = ({}, {"width": 0.3, "target_bound": 2.0})
_LOCATION = (problems.LocationLoss(DataDomain.l2_ball(3, 1.0), 0.1), problems.LocationLoss(DataDomain.box(1, 2.0), 1.0))

INSTANCES: dict[type, tuple[Any, ...]] = {
    losses.LogisticLoss: (
        losses.LogisticLoss(),
        losses.LogisticLoss(0.7),
        losses.LogisticLoss(0.3),
        losses.LogisticLoss(rate=0.14),
        losses.LogisticLoss(0.7, 0.14),
        losses.LogisticLoss(0.6, saturating=True),
        losses.LogisticLoss(0.9, 0.3, saturating=True),
    ),
    losses.SoftmaxLoss: (
        losses.SoftmaxLoss(2),
        losses.SoftmaxLoss(3),
        losses.SoftmaxLoss(7),
        losses.SoftmaxLoss(3, (0.7, 0.2, 0.1)),
        losses.SoftmaxLoss(3, cap=0.7),
        losses.SoftmaxLoss(5, (0.5, 0.2, 0.1, 0.1, 0.1), 0.4),
    ),
    losses.HingeLoss: (losses.HingeLoss(),),
    losses.SmoothedHingeLoss: (
        losses.SmoothedHingeLoss(),
        losses.SmoothedHingeLoss(0.05),
        losses.SmoothedHingeLoss(0.5, center=0.75),
        losses.SmoothedHingeLoss(0.5, saturating=True),
    ),
    losses.SquaredLoss: (losses.SquaredLoss(1.0), losses.SquaredLoss(2.0, prediction_bound=3.0)),
    losses.HuberLoss: (
        losses.HuberLoss(),
        losses.HuberLoss(0.3, target_bound=2.0),
        losses.HuberLoss(5.0, target_bound=2.0),
        losses.HuberLoss(0.1, 0.5, of_mean=True),
        losses.HuberLoss(0.3, target_bound=2.0, saturating=True),
        losses.HuberLoss(0.1, 0.5, of_mean=True, saturating=True),
    ),
    losses.SmoothedAbsoluteLoss: (losses.SmoothedAbsoluteLoss(), losses.SmoothedAbsoluteLoss(0.05, target_bound=2.0)),
    losses.SmoothedPinballLoss: (
        losses.SmoothedPinballLoss(),
        losses.SmoothedPinballLoss(0.9, 0.1, target_bound=2.0),
        losses.SmoothedPinballLoss(0.25, 0.5, target_bound=2.0, saturating=True),
        losses.SmoothedPinballLoss(0.6, 0.1, target_bound=2.0, saturating=True),
    ),
    losses.PseudoHuberLoss: tuple(losses.PseudoHuberLoss(**given) for given in _SATURATING),
    losses.LogCoshLoss: tuple(losses.LogCoshLoss(**given) for given in _SATURATING),
    losses.AbsoluteLoss: (losses.AbsoluteLoss(), losses.AbsoluteLoss(2.0)),
    losses.PinballLoss: (losses.PinballLoss(), losses.PinballLoss(0.9, 2.0), losses.PinballLoss(0.05, 2.0)),
    losses.WeightedLoss: tuple(map(losses.WeightedLoss, _WEIGHTED)),
    sets.WholeSpace: (sets.WholeSpace(), sets.WholeSpace(3)),
    sets.L2Ball: tuple(sets.L2Ball(**given) for given in _BALLS),
    sets.L1Ball: tuple(sets.L1Ball(**given) for given in _BALLS),
    sets.Ellipsoid: (sets.Ellipsoid([2.0, 0.5, 1.0]), sets.Ellipsoid([[0.6, 0.4], [0.4, 0.6]]), sets.Ellipsoid([0.25])),
    sets.Box: (sets.Box(-1.0, 2.0, dim=3), sets.Box([0.0, -1.0], [0.0, 1.0]), sets.Box([5.0, 6.0, 7.0], 8.0)),
    sets.Simplex: (sets.Simplex(3), sets.Simplex(2, total=5.0), sets.Simplex(1)),
    sets.Polytope: (
        sets.Polytope(_ORDERED, [0, 0, 0, 1]),
        sets.Polytope([[1, 0], [0, 1], [-1, 0], [0, -1], [3, -3]], [1, 1, 1, 1, 3]),
    ),
    sets.BallSection: (
        sets.BallSection(1.0, 0.3, [0.0, 0.5]),
        sets.BallSection(1.0, 0.5, [0.0, 0.0, 0.9]),
        sets.BallSection(2.0, 0.5, [1.9]),
    ),
    sets.Section: (
        sets.Section(_SQUARE, 0.5, [0.0, 0.0]),
        sets.Section(_SQUARE, 9.0, [0.5, 1.0]),
        sets.Section(sets.L2Ball(1.0), 0.25, [0.0, 0.0, 0.0]),
    ),
    sets.SecondOrderCones: (
        sets.SecondOrderCones(3, 1, 0.5),
        sets.SecondOrderCones(1, 2, 2.0, free=1, radius=2.0),
        sets.SecondOrderCones(2, 1, 1.0, radius=0.5),
        sets.SecondOrderCones(1, 2, 0.7),
    ),
    L2Norm: NORMS[:2],
    GroupedNorm: NORMS[2:],
    mechanisms.GaussianMechanism: (
        mechanisms.GaussianMechanism.calibrate(_measured("absolute", 2.0), 0.5, 1e-6, 1),
        mechanisms.GaussianMechanism.calibrate(_measured("l2", 0.01), 3.0, 1e-3, 3, "zwb"),
    ),
    mechanisms.NormNoiseMechanism: tuple(
        mechanisms.NormNoiseMechanism(norm, _measured(norm.name, 0.3), 0.7) for norm in NORMS if norm.absolute
    ),
    mechanisms.MatrixNoiseMechanism: tuple(
        mechanisms.MatrixNoiseMechanism(q, Sensitivity(2.0, "nuclear", "test"), 0.7) for q in (1, 3)
    ),
    mechanisms.JointHistogram: (mechanisms.JointHistogram((2, 4, 3), 0.7), mechanisms.JointHistogram((5,), 1.3)),
    mechanisms.LaplaceMechanism: (
        mechanisms.LaplaceMechanism.calibrate(_measured("absolute", 2.0), 0.5, 1),
        mechanisms.LaplaceMechanism.calibrate(_measured("l1", 0.01), 3.0, 3),
    ),
    BoundedLaplaceMechanism: (BoundedLaplaceMechanism.calibrate(_measured("absolute"), 0.9, 1e-3),),
    mechanisms.ReportNoisyMax: (mechanisms.ReportNoisyMax(_measured("linf"), 0.8),),
    mechanisms.ExponentialMechanism: (mechanisms.ExponentialMechanism(_measured("linf"), 0.8),),
    mechanisms.AboveThreshold: (
        mechanisms.AboveThreshold(_measured("absolute"), 0.9, 2.0),
        mechanisms.AboveThreshold(_measured("absolute"), 0.9, 2.0, 0.5),
    ),
    MedianMechanism: (MedianMechanism(0.7, -2.0, 3.0, 5), MedianMechanism(0.2, -1.0, math.pi, 4, "gaussian")),
    **{kind: (kind(),) for kind in solvers.NAMED_SOLVERS.values()},
    solvers.Subgradient: (solvers.Subgradient(), solvers.Subgradient(output="average")),
    solvers.CuttingPlane: (solvers.CuttingPlane(max_steps=3000),),
    solvers.Guaranteed: (solvers.Guaranteed(solvers.NewtonCholesky(max_steps=1), solvers.AcceleratedGradient()),),
    problems.LocationLoss: _LOCATION,
    lower_bound.LinearLoss: (lower_bound.LinearLoss(),),
    objectives.LogLinearDensity: (objectives.LogLinearDensity(3, 20), objectives.LogLinearDensity(1, 5)),
    objectives.MaxRisk: tuple(map(objectives.MaxRisk, _LOCATION)),
    objectives.ShiftedMeanLoss: (
        objectives.ShiftedMeanLoss(DataDomain.l2_ball(2, 1.0), 0.3),
        objectives.ShiftedMeanLoss(_LINE, 0.5, 1.0),
        objectives.ShiftedMeanLoss(_LINE, 0.5, norm="linf"),
    ),
}
"""By class: a new loss, set, mechanism or solver has a line here."""


def instances(kind: type[T]) -> tuple[T, ...]:
    """Return the instances of a class; `KeyError` where it has no line."""
    return INSTANCES[kind]
