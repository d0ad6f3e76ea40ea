"""All kinds of events by name: how a certificate's releases become events again. Unknown kinds are refused."""

from __future__ import annotations

from typing import Any

from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy.events.basic import Event, GaussianNoise, NormExponentialNoise, PureMechanism
from dpconvex.privacy.events.failure import BoundedLaplaceNoise, FailureProbability
from dpconvex.privacy.events.gaussian_cover import BoundedRange
from dpconvex.privacy.events.group import GroupPrivacy
from dpconvex.privacy.events.objective import GaussianObjectivePerturbation, PureObjectivePerturbation
from dpconvex.privacy.events.private_selection import RepeatedSelection, WholeRun
from dpconvex.privacy.events.subsampled import PoissonSteps, SampledSteps
from dpconvex.privacy.events.test_and_release import GuardedGaussianNoise
from dpconvex.privacy.events.vertex_sampling import VertexDraws

MOST_NESTED = 6
"""Events in one another: a search, its runs, a run for a group, its steps on samples, a step; and one to spare."""


def _nested(value: Any) -> int:
    """Return how many events are in one another, without going much deeper than is allowed."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    level, deepest = [(each, 0) for each in inner], 0
    while level and deepest <= MOST_NESTED:
        each, depth = level.pop()
        depth += isinstance(each, dict)
        deepest = max(deepest, depth)
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list | tuple) else ()
        level += [(item, depth) for item in inner if isinstance(item, dict | list | tuple)]
    return 1 + deepest


def event_from_dict(fields: dict[str, Any]) -> Event:
    """Rebuild an event from `Event.to_dict`; unknown kinds or fields raise `UnsupportedEventError`."""
    if (depth := _nested(fields)) > MOST_NESTED:
        raise UnsupportedEventError(f"events lie {depth} deep in one another: at most {MOST_NESTED} do")
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
