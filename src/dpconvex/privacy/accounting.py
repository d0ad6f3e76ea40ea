"""Composition of events. The only module that imports ``dp_accounting``.

Pure budgets are summed here, exactly and rounded up. Everything else is priced by the exact profile of the single
event, or by ``dp_accounting``'s privacy-loss distributions (PLD) for Gaussian and pure events together. Two facts of
``dp_accounting`` 0.6 shape this module: its RDP accountant under-reports replace-one for the Gaussian, so it is not
used; and its relation flag doubles sensitivities under replace-one, so the sensitivity of *our* relation is put into
the noise multiplier and the plain Gaussian pair is composed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpconvex import _rounding
from dpconvex.errors import UnsupportedEventError
from dpconvex.privacy.events import Event, GaussianNoise
from dpconvex.privacy.profiles import epsilon_of

Counted = tuple[Event, int]


def accountant_name(events: Sequence[Counted]) -> str:
    """Which method prices these events: ``exact sum``, ``exact profile``, ``PLD`` or ``none``."""
    if not events:
        return "none"
    if all(event.pure_epsilon is not None for event, _ in events):
        return "exact sum"
    if len(events) == 1 and events[0][1] == 1:
        return "exact profile"
    return "PLD"


def supports(events: Sequence[Counted]) -> bool:
    """Whether these events can be priced together; asked while planning."""
    if accountant_name(events) != "PLD":
        return True
    return all(event.pure_epsilon is not None or isinstance(event, GaussianNoise) for event, _ in events)


def spent_epsilon(events: Sequence[Counted], delta: float) -> float:
    """Total epsilon at `delta`, rounded up.

    Raises
    ------
    UnsupportedEventError
        If the events cannot be composed.
    """
    name = accountant_name(events)
    if name == "none":
        return 0.0
    if name == "exact sum":
        return _rounding.float_up(
            sum(
                (event.pure_epsilon * times for event, times in events if event.pure_epsilon is not None),
                Fraction(0),
            )
        )
    if delta == 0:
        return float("inf")
    if name == "exact profile":
        return epsilon_of(events[0][0].delta, delta)
    return _pld(events).get_epsilon_for_delta(delta)


def spent_delta(events: Sequence[Counted], epsilon: float) -> float:
    """Total delta at `epsilon`, rounded up; 0 where a pure guarantee covers it."""
    name = accountant_name(events)
    if name == "none":
        return 0.0
    if name == "exact sum":
        return 0.0 if spent_epsilon(events, 0.0) <= epsilon else 1.0
    if name == "exact profile":
        return events[0][0].delta(epsilon)
    return float(_pld(events).get_delta_for_epsilon(epsilon))


def pld_delta(event: GaussianNoise, epsilon: float) -> float:
    """The same event priced by ``dp_accounting`` alone: a second opinion for tests and `verify`."""
    return float(_pld([(event, 1)]).get_delta_for_epsilon(epsilon))


def _pld(events: Sequence[Counted]):
    from dp_accounting.pld import common, privacy_loss_distribution

    if not all(event.pure_epsilon is not None or isinstance(event, GaussianNoise) for event, _ in events):
        kinds = ", ".join(event.kind for event, _ in events)
        raise UnsupportedEventError(f"events {kinds}: no accountant composes these together")
    total = None
    for event, times in events:
        pure = event.pure_epsilon
        if pure is not None:
            parameters = common.DifferentialPrivacyParameters(_rounding.float_up(pure), 0.0)
            one = privacy_loss_distribution.from_privacy_parameters(parameters)
        else:
            assert isinstance(event, GaussianNoise)
            one = privacy_loss_distribution.from_gaussian_mechanism(1 / event.mu * (1 - 1e-15))
        many = one.self_compose(times) if times > 1 else one
        total = many if total is None else total.compose(many)
    assert total is not None
    return total
