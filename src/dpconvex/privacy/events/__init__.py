"""Events: what one use of a mechanism costs. A certificate can name these events, and those of a plug-in."""

from dpconvex.privacy.events.base import Event, Parts, PureEvent, event_from_dict, pure_delta

__all__ = ["Event", "Parts", "PureEvent", "event_from_dict", "pure_delta"]
