"""Composition of events. The only module that imports ``dp_accounting``.

Pure epsilons are summed, exactly and rounded up. A single event has its exact profile (delta as a function of epsilon).
A few pure events, any number of Gaussian ones and failing lemmas have one in closed form (`profiles.mixed_delta`):
Gaussians compose to one Gaussian, each worst pure mechanism makes the profile a mixture of two, and failures are added.
If an event is known by its zCDP cost (sampled vertices), all are added up in zCDP, a Gaussian as ``mu^2/2``. An event
without `parts`, beside pure events, is charged its profile at the epsilon that they leave (basic composition). The
rest, many pure events with Gaussian ones, goes through ``dp_accounting``'s privacy-loss distributions (PLD). Two facts
about ``dp_accounting`` 0.6 shape this module: its RDP accountant under-reports replace-one for the Gaussian, so it is
not used; and its relation flag doubles sensitivities under replace-one, so the sensitivity of *our* relation is put
into the noise multiplier and the plain Gaussian pair is composed.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpconvex import _rounding
from dpconvex.errors import UnsupportedEventError
from dpconvex.privacy.events.base import Event, Parts
from dpconvex.privacy.profiles import WORK, Work, charge, epsilon_of, mixed_delta, zcdp_delta

Counted = tuple[Event, int]  #: An event and the number of times it is used
MOST_PURE = 4
"""Largest number of pure events that is priced in closed form, which has ``2^MOST_PURE`` terms; more of them go through
PLD, which has no answer below about delta = 1e-15."""
MOST_LOSSES = 2**22  #: Largest number of points of PLD's grid of losses, which is held in memory.
MOST_GAUSSIAN = 7e5  #: Largest number of points for a Gaussian's losses: above mu = 3 steps exceed 1e-4, which is safe.


def accountant_name(events: Sequence[Counted]) -> str:
    """Which method prices these events: an exact sum or profile, a closed form, zCDP, PLD, or none."""
    if not events:
        return "none"
    if all(event.pure_epsilon is not None for event, _ in events):
        return "exact sum"
    if any(event.parts is not None and event.parts.rho for event, _ in events):
        return "zCDP"
    if len(events) == 1 and events[0][1] == 1:
        return "exact profile"
    if _lone(events) is not None:
        return "basic composition"
    pure_uses = sum(times for event, times in events if event.parts is None or event.parts.pure)
    return "closed form" if pure_uses <= MOST_PURE and supports(events) else "PLD"


def supports(events: Sequence[Counted]) -> bool:
    """Whether there is a method that prices these events together; planners ask before they promise it."""
    alone = sum(times for _, times in events) <= 1 or _lone(events) is not None
    return alone or all(event.parts is not None for event, _ in events)


def _lone(events: Sequence[Counted]) -> Event | None:
    """Return the one event that has a profile but no `parts`; None unless it is used once, beside pure events only."""
    return event if (event := impure(events)) is not None and event.parts is None else None


def impure(events: Sequence[Counted]) -> Event | None:
    """Return the one event that is not pure; None unless there is only one, and it is used once."""
    (event, times), *more = [(event, times) for event, times in events if event.pure_epsilon is None] or [(None, 0)]
    return event if times == 1 and not more else None


def spent_epsilon(events: Sequence[Counted], delta: float) -> float:
    """Total epsilon at `delta`, rounded up; infinity where no epsilon suffices."""
    charge_list(len(events))
    if (name := accountant_name(events)) == "none":
        return 0.0
    if name == "exact sum":
        return _rounding.float_up(_pure(events))
    if delta == 0:
        return float("inf")
    if name in _PROFILES:
        return epsilon_of(_profile(name, events), delta)
    left = _rounding.difference_down(delta, added(_parts(events)).failure)
    return float(_pld(events).get_epsilon_for_delta(left)) if left > 0 else math.inf


def spent_delta(events: Sequence[Counted], epsilon: float) -> float:
    """Total delta at `epsilon`, rounded up; 0 where a pure guarantee covers it."""
    charge_list(len(events))
    if (name := accountant_name(events)) == "none":
        return 0.0
    if name == "exact sum":
        return 0.0 if spent_epsilon(events, 0.0) <= epsilon else 1.0
    if name in _PROFILES:
        return _profile(name, events)(epsilon)
    found = float(_pld(events).get_delta_for_epsilon(epsilon))
    return min(1.0, _rounding.sum_up((found, added(_parts(events)).failure)))


def second_opinion(events: Sequence[Counted], delta: float) -> tuple[str, float] | None:
    """Price the same events once more, by ``dp_accounting`` alone: the accountant's name, and the epsilon it proves.

    A pure promise is priced at a delta of 1e-12, as ``dp_accounting`` has no answer at 0. The result is None where
    ``dp_accounting`` cannot express these events, or where they are priced by its PLD in the first place.
    """
    charge_list(len(events))
    name = accountant_name(events)
    own = events[0][0].second_opinion(delta) if len(events) == 1 and events[0][1] == 1 and delta else None
    if own is not None:
        return own
    if name in ("none", "PLD") or any(event.parts is None for event, _ in events):
        return None
    parts = _parts(events)
    left = _rounding.difference_down(delta or 1e-12, added(parts).failure)
    if left <= 0:
        return None
    if any(part.rho for part, _ in parts):
        from dp_accounting import dp_event
        from dp_accounting.rdp import rdp_privacy_accountant

        orders = 1 + np.geomspace(1e-3, 1e7, 2000)  # the default orders end at 1024, too low for a small epsilon
        rdp = rdp_privacy_accountant.RdpAccountant(orders.tolist())
        each = ((Fraction(part.rho) + (Fraction(part.mu) ** 2 + part.pure**2) / 2) * times for part, times in parts)
        rdp.compose(dp_event.ZCDpEvent(_rounding.float_up(sum(each, Fraction(0)))))
        return "RDP of dp-accounting", float(rdp.get_epsilon(left))
    try:
        return "PLD of dp-accounting", float(_pld(events).get_epsilon_for_delta(left))
    except (OverflowError, UnsupportedEventError):  # PLD overflows at pure epsilons of 709; its grid ends earlier
        return None


def charge_list(count: int) -> None:
    """Charge the computing that pricing `count` events takes: denominators of exact sums grow with each ratio."""
    charge(50 + 20 * count + count**3 / 400)


def _pure(events: Sequence[Counted]) -> Fraction:
    """Exact sum of the pure epsilons of all events that have a pure epsilon."""
    return sum((event.pure_epsilon * times for event, times in events if event.pure_epsilon is not None), Fraction(0))


def _parts(events: Sequence[Counted]) -> list[tuple[Parts, int]]:
    parts = [(event.parts, times) for event, times in events]
    known = [(part, times) for part, times in parts if part is not None]
    if len(known) < len(parts):
        kinds = ", ".join(event.kind for event, _ in events)
        raise UnsupportedEventError(f"events {kinds}: no accountant composes these together")
    return known


def added(parts: Sequence[tuple[Parts, int]]) -> Parts:
    """Return the parts of a composition, rounded up: the mu of Gaussian parts add as the root of the sum of squares."""
    pure = sum((part.pure * times for part, times in parts), Fraction(0))
    squares, failure, rho = (
        _rounding.float_up(sum((Fraction(getattr(p, name)) ** power * t for p, t in parts), Fraction(0)))
        for name, power in (("mu", 2), ("failure", 1), ("rho", 1))
    )
    alone = [part.mu for part, times in parts for _ in range(min(times, 2)) if part.mu]
    mu = alone[0] if len(alone) == 1 else _rounding.widen_up(math.sqrt(squares)) if alone else 0.0
    return Parts(pure, mu, failure, rho)


def _closed_form(events: Sequence[Counted]) -> Callable[[float], float]:
    """Profile of the composition: delta as a function of epsilon."""
    parts = _parts(events)
    pure = [_rounding.float_up(part.pure) for part, times in parts if part.pure for _ in range(times)]
    first, *others = pure or [0.0]
    total = added(parts)
    return lambda epsilon: min(1.0, _rounding.sum_up((mixed_delta(epsilon, first, total.mu, *others), total.failure)))


def _concentrated(events: Sequence[Counted]) -> Callable[[float], float]:
    """Profile of a composition by zCDP; pure parts are ``epsilon^2/2``-zCDP, or are subtracted from epsilon."""
    if len(events) == 1 and events[0][1] == 1:
        return events[0][0].delta
    parts = _parts(events)
    total = added(parts)
    exact = sum((Fraction(part.rho) * times + Fraction(part.mu) ** 2 * times / 2 for part, times in parts), Fraction(0))
    squares = sum((part.pure**2 * times / 2 for part, times in parts), Fraction(0))
    rho, both = _rounding.float_up(exact), _rounding.float_up(exact + squares)

    def profile(epsilon: float) -> float:
        left = Fraction(epsilon) - total.pure
        apart = zcdp_delta(rho, _rounding.float_down(left)) if left >= 0 else 1.0
        return min(1.0, _rounding.sum_up((min(apart, zcdp_delta(both, epsilon)), total.failure)))

    return profile


def _basic(events: Sequence[Counted]) -> Callable[[float], float]:
    """Profile of one event beside pure events: its own profile, at epsilon less the sum of the pure epsilons."""
    event, pure = impure(events), _pure(events)
    assert event is not None

    def profile(epsilon: float) -> float:
        left = Fraction(epsilon) - pure
        return event.delta(_rounding.float_down(left)) if left >= 0 else 1.0

    return profile


_PROFILES: dict[str, Callable[[Sequence[Counted]], Callable[[float], float]]] = {
    "exact profile": lambda events: events[0][0].delta,
    "basic composition": _basic,
    "closed form": _closed_form,
    "zCDP": _concentrated,
}


def _profile(name: str, events: Sequence[Counted]) -> Callable[[float], float]:
    """Return the named profile, or basic composition where that is smaller, as an event's own profile may be finer."""
    found = _PROFILES[name](events)
    if (event := impure(events)) is None or event.finest or event.parts is None:
        return found
    basic = _basic(events)
    return lambda epsilon: min(found(epsilon), basic(epsilon))


def _pld(events: Sequence[Counted]):
    """Return the composition's privacy-loss distribution (PLD), an object of `dp_accounting`."""
    parts = _parts(events)
    whole = added(parts)
    # Step of the grid of losses: a step that is large beside the losses is safe, but gives a too large price.
    step = min(1e-4, 1e-3 * (whole.mu + float(whole.pure)))
    reach = whole.mu * (whole.mu + 20)
    many = sum(2 * times * math.ceil(part.pure / Fraction(step)) for part, times in parts)
    if not max(reach / step, many) <= MOST_LOSSES:
        uses = f"{sum(times for part, times in parts if part.pure)} pure uses, and Gaussian ones of mu={whole.mu:.3g}"
        raise UnsupportedEventError(f"{uses}: their losses need a grid of too many points")
    pure = tuple((_rounding.float_up(part.pure), times) for part, times in parts if part.pure)
    return _composed(whole.mu, pure, max(step, reach / MOST_GAUSSIAN), WORK.get())


@lru_cache(maxsize=4)  # ledgers ask for the same composition again, and one takes seconds where losses are large
def _composed(mu: float, pure: tuple[tuple[float, int], ...], step: float, _limit: Work | None):
    from dp_accounting.pld import common, privacy_loss_distribution

    # Each limit pays anew: what it allows must not depend on what was priced before it.
    charge(1000 + (4 * mu * (mu + 20) + sum(2 * times * epsilon for epsilon, times in pure)) / step)
    total = privacy_loss_distribution.identity(step)
    if mu:
        deviation = 1 / mu * (1 - 1e-15)
        one = privacy_loss_distribution.from_gaussian_mechanism(deviation, value_discretization_interval=step)
        total = total.compose(one)
    for epsilon, times in pure:
        parameters = common.DifferentialPrivacyParameters(epsilon, 0.0)
        one = privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=step)
        total = total.compose(one.self_compose(times) if times > 1 else one)
    return total
