"""Events: what one use of a mechanism costs. A certificate can name these, and those of a plug-in."""

from dpconvex.privacy.events.base import Event, Parts, PureEvent, event_from_dict, pure_delta
from dpconvex.privacy.events.basic import (
    BoundedLaplaceNoise,
    BoundedRange,
    FailureProbability,
    GaussianNoise,
    NormExponentialNoise,
    PureMechanism,
    VertexDraws,
)
from dpconvex.privacy.events.objective import GaussianObjectivePerturbation, PureObjectivePerturbation
from dpconvex.privacy.events.private_selection import GroupPrivacy, RepeatedSelection, WholeRun
from dpconvex.privacy.events.subsampled import PoissonSteps, SampledSteps
from dpconvex.privacy.events.test_and_release import GuardedGaussianNoise

__all__ = [
    "BoundedLaplaceNoise",
    "BoundedRange",
    "Event",
    "FailureProbability",
    "GaussianNoise",
    "GaussianObjectivePerturbation",
    "GroupPrivacy",
    "GuardedGaussianNoise",
    "NormExponentialNoise",
    "Parts",
    "PoissonSteps",
    "PureEvent",
    "PureMechanism",
    "PureObjectivePerturbation",
    "RepeatedSelection",
    "SampledSteps",
    "VertexDraws",
    "WholeRun",
    "event_from_dict",
    "pure_delta",
]
