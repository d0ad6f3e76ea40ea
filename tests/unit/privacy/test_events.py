from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy import (
    Event,
    GaussianNoise,
    GaussianObjectivePerturbation,
    NormExponentialNoise,
    PureMechanism,
    PureObjectivePerturbation,
    accounting,
    events,
)
from dpconvex.privacy.events import event_from_dict, pure_delta
from dpconvex.privacy.events.objective import GAUSSIAN_RULES, logistic_epsilon, logistic_line, saturating_epsilon

CAPS = st.sampled_from([0.5, 0.7, 1 - 1e-12, 1.0])

RULES = [(rule, 0.7 if rule == "logistic" else 3.0) for rule in GAUSSIAN_RULES]
"""Every Gaussian rule with a curvature."""

EVENTS: list[Event] = [
    PureMechanism(0.5),
    NormExponentialNoise(1.0, 3.0),
    GaussianNoise(1.0, 4.0),
    PureObjectivePerturbation(2.0, 4.0, 0.1, "determinant", 0.25),
    PureObjectivePerturbation(2.0, 4.0, 0.1, "free", 1.0),
    PureObjectivePerturbation(2.0, 4.0, 2.0, "logistic", 1.0),
    PureObjectivePerturbation(2.0, 4.0, 0.1, "determinant", 2 / 3, rank=2),
    PureObjectivePerturbation(2.0, 4.0, 2.0, "logistic", 0.7),
    PureObjectivePerturbation(2.0, 4.0, 2.0, "logistic", 0.7, rank=3),
    PureObjectivePerturbation(2.0, 4.0, 2.0, "saturating", 3.0),
    PureObjectivePerturbation(2.0, 4.0, 0.3, "saturating", 1.3, rank=5, bend=10.0),
    *(GaussianObjectivePerturbation(1.0, 5.0, 0.01, 0.05, *rule) for rule in RULES),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: f"{e.kind}-{getattr(e, 'rule', '')}")
class TestEveryEvent:
    def test_round_trip(self, event: Event) -> None:
        assert event_from_dict(event.to_dict()) == event

    def test_profile_decreases_and_vanishes_at_the_pure_cost(self, event: Event) -> None:
        grid = np.linspace(0, 6, 40)
        deltas = [event.delta(float(e)) for e in grid]
        assert all(a >= b - 1e-12 for a, b in itertools.pairwise(deltas))
        assert 0 < deltas[0] <= 1
        if event.pure_epsilon is not None:
            assert event.delta(float(event.pure_epsilon) * (1 + 1e-12)) == 0.0

    def test_count_k_equals_k_calls(self, event: Event) -> None:
        if event.pure_epsilon is None and not isinstance(event, GaussianNoise):
            with pytest.raises(UnsupportedEventError):
                accounting.spent_epsilon([(event, 3)], 1e-6)
            assert not accounting.supports([(event, 3)])
            return
        merged = accounting.spent_epsilon([(event, 3)], 1e-6)
        apart = accounting.spent_epsilon([(event, 1)] * 3, 1e-6)
        assert merged == pytest.approx(apart, rel=1e-6)
        assert merged > accounting.spent_epsilon([(event, 1)], 1e-6)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "unknown"},
        {},
        {"kind": "gaussian_noise", "sensitivity": 1.0},
        {"kind": "gaussian_noise", "sensitivity": 1.0, "sigma": -1.0},
        {"kind": "gaussian_noise", "sensitivity": 1.0, "sigma": 1.0, "more": 2},
        {"kind": "pure_mechanism", "epsilon": "1"},
    ],
)
def test_unknown_events_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(UnsupportedEventError):
        event_from_dict(fields)


@given(st.floats(1e-3, 10), st.floats(0, 10))
def test_pure_profile_is_randomized_response(pure: float, epsilon: float) -> None:
    p = math.exp(pure) / (1 + math.exp(pure))
    truth = max(0.0, p - math.exp(epsilon) * (1 - p))
    assert pure_delta(Fraction(pure), epsilon) >= truth - 1e-11
    assert pure_delta(Fraction(pure), epsilon) == pytest.approx(truth, abs=1e-9)


def test_pure_and_gaussian_compose_through_pld() -> None:
    pure, gaussian = PureMechanism(0.3), GaussianNoise(1.0, 5.0)
    together = accounting.spent_epsilon([(pure, 1), (gaussian, 1)], 1e-6)
    assert accounting.spent_epsilon([(gaussian, 1)], 1e-6) < together
    assert together <= 0.3 + accounting.spent_epsilon([(gaussian, 1)], 1e-6) + 1e-3
    assert accounting.spent_epsilon([(gaussian, 1)], 0.0) == math.inf


class TestObjectivePerturbation:
    def test_free_rule_is_refused_below_its_floor(self) -> None:
        with pytest.raises(InvalidParameterError, match="tau"):
            PureObjectivePerturbation(2.0, 4.0, 0.26, "free", 1.0)
        assert PureObjectivePerturbation(2.0, 4.0, 0.25, "free", 1.0).pure_epsilon == Fraction(1, 2)

    @pytest.mark.parametrize("rule", ["determinant", "free", "logistic"])
    def test_a_bend_is_of_saturating_curvature_alone(self, rule: str) -> None:
        """Elsewhere no price reads it, and certificates leave it out: whatever a file says would be lost."""
        fields = PureObjectivePerturbation(2.0, 4.0, 0.1, rule, 0.5).to_dict()
        with pytest.raises(UnsupportedEventError, match="bend="):
            event_from_dict(fields | {"bend": 7.0})

    def test_determinant_adds_the_log(self) -> None:
        event = PureObjectivePerturbation(2.0, 4.0, 0.2, "determinant", 0.25)
        assert float(event.pure_epsilon) == pytest.approx(0.5 + math.log1p(0.05), rel=1e-12)

    def test_softmax_with_two_classes_pays_less_than_one_logistic_factor(self) -> None:
        # (k - 1) log(1 + tau / k) with k = 2: docs, Objective perturbation, Several outputs.
        event = PureObjectivePerturbation(2.0, 4.0, 0.2, "determinant", 0.5, rank=1)
        assert float(event.pure_epsilon) - 0.5 == pytest.approx(math.log1p(0.1), rel=1e-12)

    @given(st.floats(0.01, 8.0), st.floats(1e-3, 50.0), st.floats(1e-3, 1.0) | CAPS, st.sampled_from([1, 2, 100]))
    @example(1.0, 0.5, 1.0, 1)  # where curvature begins to cost without a cap
    def test_logistic_cost_is_the_maximum_over_slopes(self, noise: float, tau: float, cap: float, rank: int) -> None:
        a = np.linspace(0, cap, 20001)
        truth = np.max(noise / 2 * (1 + a / cap) + rank * np.log1p(tau * a * (1 - a) / rank))
        found = float(logistic_epsilon(Fraction(noise), tau, cap, rank))
        assert found >= truth * (1 - 1e-15)
        assert found == pytest.approx(truth, rel=1e-5)

    @given(st.floats(0.01, 8.0), st.floats(1e-3, 50.0))
    def test_without_a_cap_the_cost_is_the_noise_up_to_the_floor(self, noise: float, tau: float) -> None:
        found = logistic_epsilon(Fraction(noise), tau)
        assert (found == Fraction(noise)) == (tau <= noise / 2)

    @given(
        st.floats(0.01, 8.0), st.floats(1e-3, 50.0), st.floats(0.3, 50.0), st.sampled_from([1, 2, 100]), st.booleans()
    )
    @example(1.0, 1 / 6, 3.0, 1, False)  # where curvature begins to cost
    def test_saturating_cost_is_the_maximum_over_slopes(
        self, noise: float, tau: float, q: float, rank: int, added: bool
    ) -> None:
        """Theorem 2c, for replaced units and for added ones."""
        a = np.append(np.linspace(0, 1, 20001), max(1 - 1 / q, 0.0))
        pulls = noise * a if added else noise / 2 * (1 + a)
        truth = np.max(pulls + rank * np.log1p(tau * np.minimum(1, q * (1 - a)) / rank))
        found = float(saturating_epsilon(Fraction(noise), tau, q, rank, 1 if added else 2))
        assert found >= truth * (1 - 1e-15)
        assert found == pytest.approx(truth, rel=1e-5)
        assert found <= noise + rank * math.log1p(tau / rank) + 1e-9  # never more than Theorem 1

    @given(st.floats(1e-3, 50.0), st.floats(1e-3, 1.0) | CAPS)
    def test_the_line_lies_above_the_curvature_and_touches_it(self, tau: float, cap: float) -> None:
        at_cap, at_zero = logistic_line(cap, tau)
        a = np.linspace(0, cap, 20001)
        gap = at_zero + (at_cap - at_zero) * a / cap - np.log1p(tau * a * (1 - a))
        assert gap.min() >= -1e-15 * (1 + at_zero)
        assert gap[-1] <= 1e-12

    @pytest.mark.parametrize("cap", [0.0, 1.1, -0.5, math.nan])
    def test_a_cap_is_between_0_and_1(self, cap: float) -> None:
        with pytest.raises(InvalidParameterError, match="curvature="):
            PureObjectivePerturbation(2.0, 4.0, 0.1, "logistic", cap)
        with pytest.raises(InvalidParameterError, match="curvature="):
            GaussianObjectivePerturbation(1.0, 6.0, 0.0, 0.1, "logistic", cap)

    def test_without_a_cap_the_line_gives_the_condition_sc(self) -> None:
        """(3.4) at ``A = 1`` is (3.2) with ``q = 1``."""
        capped, plain = (
            GaussianObjectivePerturbation(1.0, 6.0, 0.1, 0.3, rule, 1.0) for rule in ("logistic", "one_sided_sc")
        )
        assert capped.delta(1.0) == pytest.approx(plain.delta(1.0), rel=1e-12)

    def test_gaussian_leading_term_is_the_plain_gaussian_mechanism(self) -> None:
        event = GaussianObjectivePerturbation(1.0, 12.0, 0.0, 1e-9, "one_sided_sc", 1.0)
        plain = GaussianNoise(2.0, 12.0).delta(1.0)
        assert plain * (1 - 1e-9) <= event.delta(1.0) <= plain * 1.01

    @pytest.mark.parametrize("rule", RULES)
    def test_output_noise_only_adds(self, rule: tuple[str, float]) -> None:
        deltas = [GaussianObjectivePerturbation(1.0, 6.0, rho, 0.05, *rule).delta(1.0) for rho in (0.0, 0.1, 0.5)]
        assert deltas[0] < deltas[1] < deltas[2]

    def test_curvature_beyond_the_budget_gives_nothing(self) -> None:
        assert GaussianObjectivePerturbation(1.0, 6.0, 0.0, 100.0, "one_sided", 1.0).delta(1.0) == 1.0


def test_a_kind_stands_for_one_class_and_is_known_with_it() -> None:
    """No list is kept by hand: a new class, of a plug-in say, is known once it is defined."""
    with pytest.raises(UnsupportedEventError, match="event kind='a new kind': must be one of bounded_laplace_noise"):
        event_from_dict({"kind": "a new kind", "epsilon": 1.0})

    @dataclass(frozen=True)
    class New(PureMechanism):
        kind: ClassVar[str] = "a new kind"

    try:
        assert event_from_dict(New(0.5).to_dict()) == New(0.5)
        with pytest.raises(TypeError, match="has it already"):

            class Other(GaussianNoise):
                kind: ClassVar[str] = "a new kind"

        assert type(event_from_dict({"kind": "gaussian_noise", "sensitivity": 1.0, "sigma": 2.0})) is GaussianNoise
    finally:
        del events.base._KINDS["a new kind"]
    for odd in (None, 3, [], "Event", "PureEvent", "GaussianNoise", "dpconvex.privacy.events.GaussianNoise"):
        with pytest.raises(UnsupportedEventError, match="must be one of"):
            event_from_dict({"kind": odd})
