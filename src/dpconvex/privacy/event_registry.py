"""All kinds of events by name: how a certificate's releases become events again. Unknown kinds are refused."""

from __future__ import annotations

from typing import Any

from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy.events import Event, GaussianNoise, NormExponentialNoise, PureMechanism
from dpconvex.privacy.failure_events import BoundedLaplaceNoise, FailureProbability
from dpconvex.privacy.gaussian_cover import BoundedRange
from dpconvex.privacy.group_events import GroupPrivacy
from dpconvex.privacy.guarded_events import GuardedGaussianNoise
from dpconvex.privacy.objective_events import GaussianObjectivePerturbation, PureObjectivePerturbation
from dpconvex.privacy.sampled_steps import PoissonSteps, SampledSteps
from dpconvex.privacy.selection_events import RepeatedSelection, WholeRun
from dpconvex.privacy.vertex_events import VertexDraws


def event_from_dict(fields: dict[str, Any]) -> Event:
    """Rebuild an event from `Event.to_dict`; unknown kinds or fields raise `UnsupportedEventError`."""
    kinds: dict[str, type[Event]] = {
        event.kind: event
        for event in (
            PureMechanism,
            BoundedRange,
            NormExponentialNoise,
            GaussianNoise,
            BoundedLaplaceNoise,
            FailureProbability,
            GuardedGaussianNoise,
            GroupPrivacy,
            SampledSteps,
            PoissonSteps,
            PureObjectivePerturbation,
            GaussianObjectivePerturbation,
            VertexDraws,
            WholeRun,
            RepeatedSelection,
        )
    }
    arguments = dict(fields)
    kind = arguments.pop("kind", None)
    if kind not in kinds:
        raise UnsupportedEventError(f"event kind={kind!r}: must be one of {', '.join(kinds)}")
    try:
        return kinds[kind](**arguments)
    except (TypeError, InvalidParameterError) as error:
        raise UnsupportedEventError(f"event kind={kind!r}: {error}") from None
