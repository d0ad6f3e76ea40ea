"""Events: immutable descriptions of a mechanism's use, from which anybody can compute its privacy cost again.

An event never changes its meaning. Each gives ``pure_epsilon`` (an exact rational, or None where no pure guarantee
holds) and ``delta(epsilon)``, an upper bound on its privacy profile in both directions. A class that defines a ``kind``
registers itself; certificates can name these classes and nothing else.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

from dpconvex import _rounding
from dpconvex._types import REQUIRED
from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy.params import Neighboring
from dpconvex.privacy.profiles import charge

E = TypeVar("E", bound="Event")
MOST_NESTED = 6
"""Largest depth of nested events: a search, its runs, a run for a group, its steps on samples, a step; one to spare."""


@dataclass(frozen=True)
class Parts:
    """A composition that reveals at least as much as an event; the closed-form accountant adds such parts up."""

    pure: Fraction  #: epsilon of the pure part, 0 for none
    mu: float = 0.0  #: sensitivity over standard deviation of the Gaussian part, 0 for none
    failure: float = 0.0  #: probability with which everything may be revealed
    rho: float = 0.0  #: zCDP cost rho of the zero-concentrated part, 0 for none


class Event(ABC):
    """One use of one mechanism. Its `kind` is its name in certificates, which no other class has.

    An event is `finest` if its price is that of its parts or of `second_opinion`: then two accountants must agree.
    """

    kind: ClassVar[str]
    neighboring: Neighboring | None = None  #: The only relation its price holds for; None: its sensitivity's
    inner: tuple["Event", ...] = ()  #: The events that this one is made of
    finest: ClassVar[bool] = False
    pure_epsilon: Fraction | None = None  #: exact; None if the event has none
    #: Where `pure_epsilon` is a maximum in closed form: the maximum that a search finds, for comparison; else None
    searched_epsilon: float | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Register a class that states a kind; a kind stands for one class only."""
        super().__init_subclass__(**options)
        if (kind := cls.__dict__.get("kind")) is None:  # an abstract class, or another form of a known event
            return
        known = _KINDS.setdefault(kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"event kind={kind!r}: {known.__module__}.{known.__qualname__} has it already")
        _KINDS[kind] = cls

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon >= 0`."""

    @property
    def parts(self) -> Parts | None:
        """Pure, Gaussian, failing and zCDP parts that together dominate the event; None if it has no such form."""
        return None if self.pure_epsilon is None else Parts(self.pure_epsilon)

    @property
    def claimed_sensitivity(self) -> float | None:
        """The sensitivity that the event's numbers presume, to be compared with the release's; None if there is none.

        Unless a class overrides this property, it is the event's field `sensitivity`.
        """
        return getattr(self, "sensitivity", None)

    def second_opinion(self, delta: float) -> tuple[str, float] | None:
        """Another accountant's name and its epsilon for this event alone at `delta`; None: its `parts` are priced."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with the kind first; an event inside this one becomes a dict of its own fields."""
        fields = dataclasses.fields(self)  # pyright: ignore[reportArgumentType]
        return {"kind": self.kind} | {field.name: _plain(getattr(self, field.name)) for field in fields}


_KINDS: dict[str, type[Event]] = {}  #: The registered classes, by kind


class PureEvent(Event):
    """One use of a mechanism that is charged as the worst of its pure epsilon."""

    pure_epsilon: Fraction = REQUIRED  #: Pure epsilon, exact.

    def delta(self, epsilon: float) -> float:
        return pure_delta(self.pure_epsilon, epsilon)


def pure_delta(pure_epsilon: Fraction, epsilon: float) -> float:
    """Profile of the worst pure mechanism (randomized response): ``(e^pure - e^epsilon) / (1 + e^pure)``, or 0."""
    charge(10)
    excess = pure_epsilon - Fraction(epsilon)
    if excess <= 0:
        return 0.0
    pure = _rounding.float_up(pure_epsilon)
    return min(1.0, -math.expm1(-_rounding.float_up(excess)) / (1 + math.exp(-pure)) * (1 + 1e-13))


def event_from_dict(fields: dict[str, Any]) -> Event:
    """Rebuild an event from `Event.to_dict`; unknown kinds or fields raise `UnsupportedEventError`."""
    if (depth := _nested(fields)) > MOST_NESTED:
        raise UnsupportedEventError(f"events lie {depth} deep in one another: at most {MOST_NESTED} do")
    arguments = dict(fields)
    kind = arguments.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnsupportedEventError(f"event kind={kind!r}: must be one of {', '.join(sorted(_KINDS))}")
    try:
        return _KINDS[kind](**arguments)
    except (TypeError, InvalidParameterError) as error:
        raise UnsupportedEventError(f"event kind={kind!r}: {error}") from None


def inner_event(name: str, value: Any, kind: type[E]) -> E:
    """Return an event held by another event; a mapping of its fields, as in certificates, is turned into the event."""
    event = event_from_dict(value) if isinstance(value, dict) else value
    if not isinstance(event, kind):
        raise InvalidParameterError(name, value, f"must be of the class {kind.__name__}")
    return event


class ComposedEvent(Event):
    """An event made of others, whose price holds for the one relation for which theirs hold."""

    @property
    def neighboring(self) -> Neighboring | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        found = {event.neighboring for event in self.inner} - {None}
        if len(found) > 1:
            raise InvalidParameterError("events", sorted(map(str, found)), "must have prices for the same neighbors")
        return next(iter(found), None)


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_dict()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _nested(value: Any) -> int:
    """Return the depth of nested events, without going much deeper than `MOST_NESTED`."""
    level, deepest = [(value, 0)], 1
    while level and deepest <= MOST_NESTED + 1:
        each, depth = level.pop()
        depth += isinstance(each, dict)
        deepest = max(deepest, depth)
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list | tuple) else ()
        level += [(item, depth) for item in inner if isinstance(item, dict | list | tuple)]
    return deepest
