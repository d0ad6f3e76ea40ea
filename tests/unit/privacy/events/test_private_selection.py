"""The price of a search against the exact law of what it releases, enumerated on small and hostile instances."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import ndtr

from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy import (
    AddedObjectivePerturbation,
    Event,
    GaussianNoise,
    NormExponentialNoise,
    PureMechanism,
    PureObjectivePerturbation,
    RepeatedSelection,
    WholeRun,
    ledger,
)
from dpconvex.privacy.events import base, event_from_dict
from dpconvex.privacy.events.private_selection import LAW_SLACK
from dpconvex.privacy.profiles import gaussian_delta


def law_of_the_best(q, scores, weights):
    """Law of the outcome with the best score among K draws from q, the first of equals, by adding up over K."""
    q, scores, weights = np.asarray(q), np.asarray(scores), np.asarray(weights) / np.sum(weights)
    k = np.arange(1, len(weights) + 1)
    found = np.zeros(len(q))
    for s in np.unique(scores):
        at = scores == s
        up_to, below = q[scores <= s].sum(), q[scores < s].sum()
        found[at] = (weights @ (up_to**k - below**k)) * q[at] / q[at].sum()
    return found


def played(q, scores, weights, count, seed):
    """The same by playing it."""
    rng, found = np.random.default_rng(seed), np.zeros(len(q))
    for runs in rng.choice(len(weights), size=count, p=np.asarray(weights) / np.sum(weights)) + 1:
        outcomes = rng.choice(len(q), size=runs, p=q)
        found[outcomes[np.argmax(np.asarray(scores)[outcomes])]] += 1  # argmax takes the first of equals
    return found / count


def stick(p, q, epsilon):
    """Hockey-stick divergence of two discrete laws, the larger of both directions."""
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))


@dataclass(frozen=True)
class PairOfLaws(Event):
    """One pair of discrete laws with its exact profile."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    kind: ClassVar[str] = "pair of laws"

    @property
    def pure_epsilon(self) -> None:
        """Priced by its profile."""
        return None

    def delta(self, epsilon: float) -> float:
        """Exact."""
        return stick(np.array(self.first), np.array(self.second), epsilon)


del base._KINDS[PairOfLaws.kind]  # no file names it, and lists of kinds stay those of the library


shapes = st.sampled_from([-0.5, 0.0, 0.5, 1.0, 3.0])
gammas = st.sampled_from([0.0, 1e-3, 0.1, 0.5])


@st.composite
def laws(draw, epsilon=None):
    """Two laws on the same outcomes, some of equal score; of likelihood ratio at most e^epsilon, or any."""
    count = draw(st.integers(2, 6))
    parts = st.lists(st.floats(1e-3, 1.0), min_size=count, max_size=count)
    q = np.array(draw(parts)) ** draw(st.sampled_from([1, 4]))
    q = q / q.sum()
    scores = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    if epsilon is None:
        other = np.array(draw(parts))
    else:
        tilt = draw(st.lists(st.floats(-0.5, 0.5), min_size=count, max_size=count))
        other = q * np.exp(epsilon * np.array(tilt))
    return q, other / other.sum(), scores


@given(laws(epsilon=1.0), shapes, gammas, st.integers(1, 40))
def test_pure_price_covers_the_exact_law(pair, shape, gamma, most) -> None:
    q, other, scores = pair
    event = RepeatedSelection((PureMechanism(1.0),), shape, gamma, most)
    first, second = (law_of_the_best(law, scores, event.weights) for law in (q, other))
    assert event.pure_epsilon is not None
    assert np.abs(np.log(first / second)).max() <= float(event.pure_epsilon) + 1e-9
    for epsilon in (0.1, 0.5, 1.0, 1.5, 2.5):
        assert stick(first, second, epsilon) <= event.delta(epsilon) + 1e-12


@given(laws(), shapes, st.sampled_from([1e-3, 0.1, 0.5, 0.9]), st.integers(1, 40))
def test_profile_covers_the_exact_law(pair, shape, gamma, most) -> None:
    """For pairs of any profile, which may even have no overlap to speak of."""
    q, other, scores = pair
    event = RepeatedSelection((PairOfLaws(tuple(q), tuple(other)),), shape, gamma, most)
    first, second = (law_of_the_best(law, scores, event.weights) for law in (q, other))
    for epsilon in (0.05, 0.3, 1.0, 2.0, 4.0, 8.0):
        assert stick(first, second, epsilon) <= event.delta(epsilon) + 1e-12


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0])
@pytest.mark.dear("-0.5")
def test_pure_price_is_attained(shape) -> None:
    """Rare outcomes with a little above them: whoever forgets a factor of the theorem is refuted."""
    event = RepeatedSelection((PureMechanism(1.0),), shape, 0.0, 4000)
    above, rare = 0.02, 1e-7
    q = np.array([1 - above - rare, rare, above])
    other = np.array([0.0, rare / math.e, above * math.e])
    other[0] = 1 - other.sum()
    first, second = (law_of_the_best(law, [0, 1, 2], event.weights) for law in (q, other))
    lost = math.log(first[1] / second[1])
    assert event.pure_epsilon is not None
    assert 0.97 * float(event.pure_epsilon) <= lost <= float(event.pure_epsilon)
    assert lost > 1.4 * 1.0  # a charge of one run alone is refuted


@pytest.mark.parametrize("shape", [0.0, 1.0])
@pytest.mark.parametrize("mu", [0.05, 0.2, 1.0])
def test_profile_of_gaussian_runs_covers_quadrature(shape, mu) -> None:
    """The score is the outcome itself, the worst there is; a charge that forgets the repeats is refuted."""
    event = RepeatedSelection((GaussianNoise(mu, 1.0),), shape, 0.1, 20)
    x = np.linspace(-9, 9, 60_001)
    k, weights = np.arange(1, 21), np.array(event.weights) / np.sum(event.weights)

    def density(shift):
        below = ndtr(x - shift)
        slope = sum(w * j * below ** (j - 1) for w, j in zip(weights, k, strict=True))
        return slope * np.exp(-((x - shift) ** 2) / 2) / math.sqrt(2 * math.pi)

    first, second = density(mu), density(0.0)
    for epsilon in (mu, 2 * mu, 4 * mu):
        exact = max(
            np.trapezoid(np.maximum(a - math.exp(epsilon) * b, 0), x) for a, b in ((first, second), (second, first))
        )
        assert exact <= event.delta(epsilon) + 1e-9
        assert exact > 1.1 * gaussian_delta(epsilon, mu)


@pytest.mark.gate
def test_enumeration_is_what_happens() -> None:
    """Total variation of 40,000 plays: above 0.02 with probability below 1e-6 (six outcomes)."""
    q, scores = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1]), [0, 1, 1, 2, 2, 0]
    weights = RepeatedSelection((PureMechanism(1.0),), 0.0, 0.1, 12).weights
    found = played(q, scores, weights, 40_000, 0)
    assert np.abs(found - law_of_the_best(q, scores, weights)).sum() / 2 < 0.02


def test_law_of_the_number_of_runs() -> None:
    """Shape 0: P(k) proportional to (1-gamma)^k/k; shape 1: geometric; as printed by Papernot and Steinke."""
    logarithmic = RepeatedSelection((PureMechanism(1.0),), 0.0, 0.25, 30)
    np.testing.assert_allclose(logarithmic.weights, [0.75 ** (k - 1) / k for k in range(1, 31)], rtol=1e-15)
    geometric = RepeatedSelection((PureMechanism(1.0),), 1.0, 0.25, 30)
    np.testing.assert_allclose(geometric.weights, [0.75 ** (k - 1) for k in range(1, 31)], rtol=1e-15)
    mean = sum(k * w for k, w in enumerate(geometric.weights, 1)) / sum(geometric.weights)
    assert mean <= geometric.expected <= mean * (1 + 1e-12)


def test_weights_err_by_less_than_is_charged() -> None:
    event = RepeatedSelection((PureMechanism(1.0),), 0.5, 0.1, 200)
    exact, worst = Fraction(1), Fraction(0)
    for k, weight in enumerate(event.weights, 1):
        if k > 1:
            exact *= (1 - Fraction(0.1)) * (k - 1 + Fraction(1, 2)) / k
        worst = max(worst, abs(Fraction(weight) / exact - 1))
    assert 2 * math.log1p(float(worst)) <= float(LAW_SLACK)


def test_one_run_costs_itself() -> None:
    event = RepeatedSelection((GaussianNoise(0.5, 1.0),), 1.0, 0.1, 1)
    assert gaussian_delta(1.0, 0.5) <= event.delta(1.0) <= gaussian_delta(1.0, 0.5) * (1 + 1e-9)
    assert RepeatedSelection((PureMechanism(0.5),), 1.0, 0.1, 1).pure_epsilon == Fraction(1, 2)


def test_the_dearest_candidate_counts() -> None:
    cheap, dear = PureMechanism(0.1), PureMechanism(0.4)
    assert RepeatedSelection((cheap, dear), 0.0, 0.0, 9).pure_epsilon == 2 * Fraction(0.4) + LAW_SLACK
    mixed = RepeatedSelection((cheap, GaussianNoise(1.0, 1.0)), 0.0, 0.1, 9)
    assert mixed.pure_epsilon is None
    assert mixed.delta(3.0) >= RepeatedSelection((GaussianNoise(1.0, 1.0),), 0.0, 0.1, 9).delta(3.0)


def test_gaussian_runs_need_gamma() -> None:
    assert RepeatedSelection((GaussianNoise(0.01, 1.0),), 0.0, 0.0, 9).delta(5.0) == 1.0


def test_a_library_of_renyi_divergences_pays_more() -> None:
    """dp_accounting's RepeatAndSelectDpEvent (same law, not cut off), 4 runs expected; ours is its bound or less.

    Its Gaussian is the one of sensitivity 1: that of our relation stands in mu.
    """
    from dp_accounting import dp_event
    from dp_accounting.rdp import rdp_privacy_accountant

    gamma, mu, delta = 0.25, 0.2, 1e-6
    theirs = rdp_privacy_accountant.RdpAccountant((1 + np.geomspace(1e-2, 1e4, 400)).tolist())
    theirs.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1 / mu), mean=1 / gamma, shape=1.0))
    ours = RepeatedSelection((GaussianNoise(mu, 1.0),), 1.0, gamma, 400)
    assert ours.expected == pytest.approx(1 / gamma, rel=1e-6)
    epsilon = float(theirs.get_epsilon(delta))
    assert ours.delta(epsilon) <= delta
    assert ours.delta(epsilon / 2) > delta  # and not by a wide margin: they agree to a factor


def test_whole_runs_add_up_within_a_block_and_not_across() -> None:
    run = WholeRun((("a", 2, PureMechanism(0.25)), ("b", 1, PureMechanism(0.75)), (None, 1, PureMechanism(0.125))))
    assert run.pure_epsilon == Fraction(7, 8)
    gaussian = WholeRun((("a", 1, GaussianNoise(0.3, 1.0)), ("b", 4, GaussianNoise(0.2, 1.0))))
    assert gaussian.pure_epsilon is None
    assert gaussian.delta(0.5) == pytest.approx(gaussian_delta(0.5, 0.4), rel=1e-9)
    assert gaussian.parts is not None
    assert gaussian.parts.mu == pytest.approx(0.4)
    assert gaussian.parts.mu >= 0.4


def test_whole_runs_compose_like_their_parts_and_no_finer() -> None:
    from dpconvex.privacy import accounting

    run = WholeRun(((None, 1, GaussianNoise(0.3, 1.0)), (None, 2, PureMechanism(0.1))))
    apart = [(GaussianNoise(0.3, 1.0), 2), (PureMechanism(0.1), 4)]
    exact = accounting.spent_delta(apart, 1.0)
    assert exact <= accounting.spent_delta([(run, 2)], 1.0) <= 2 * exact  # its pure parts are one of twice the epsilon


EVENTS = [
    WholeRun((("a", 1, NormExponentialNoise(1.0, 2.0)), (None, 3, GaussianNoise(0.1, 1.0)))),
    RepeatedSelection((WholeRun((("a", 1, PureMechanism(0.5)),)), PureMechanism(0.25)), 0.0, 0.0, 8),
    RepeatedSelection((GaussianNoise(0.1, 1.0),), 1.0, 0.1, 20),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_events_come_back_from_text(event) -> None:
    again = event_from_dict(json.loads(json.dumps(event.to_dict())))
    assert again == event
    assert hash(again) == hash(event)
    assert again.delta(1.0) == event.delta(1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": -1.0},
        {"gamma": 1.0},
        {"gamma": -0.1},
        {"most": 0},
        {"most": 10**9},
        {"runs": []},
        {"runs": [{"kind": "nothing"}]},
        {"runs": 3},
    ],
)
def test_malformed_events_are_refused(change) -> None:
    fields = EVENTS[2].to_dict() | change
    with pytest.raises(UnsupportedEventError):
        event_from_dict(fields)


def test_malformed_uses_are_refused() -> None:
    for uses in ([], [["a", 0, PureMechanism(1.0)]], [["a", 1, 2.0]], [[3, 1, PureMechanism(1.0)]], [["a", 1]]):
        with pytest.raises(InvalidParameterError):
            WholeRun(uses)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_profiles_decrease_and_pure_ones_end(event) -> None:
    values = [event.delta(epsilon) for epsilon in np.linspace(0.0, 6.0, 13)]
    assert all(a >= b for a, b in itertools.pairwise(values))
    assert all(0.0 <= value <= 1.0 for value in values)
    if event.pure_epsilon is not None:
        assert event.delta(float(event.pure_epsilon) + 1e-9) == 0.0
    assert ledger.accounting.spent_epsilon([(event, 1)], 1e-3) < math.inf


REPLACED = PureObjectivePerturbation(2.0, 4.0, 0.01, "determinant", 0.25)
ADDED = AddedObjectivePerturbation(1.0, 4.0, 0.01, "determinant", 0.25)


def test_an_event_made_of_others_is_for_the_neighbors_of_these() -> None:
    """Their prices hold for no other neighbors, so its price does not either."""
    free = WholeRun(((None, 1, PureMechanism(0.5)),))
    assert free.neighboring is None
    for event in (REPLACED, ADDED):
        run = WholeRun((("a", 1, event), ("b", 1, PureMechanism(0.5))))
        assert run.neighboring == event.neighboring
        search = RepeatedSelection((free, run), 0.0, 0.0, 8)
        assert search.neighboring == event.neighboring
        assert event_from_dict(json.loads(json.dumps(search.to_dict()))).neighboring == event.neighboring
    assert RepeatedSelection((free,), 0.0, 0.0, 8).neighboring is None


def test_prices_for_different_neighbors_make_no_event() -> None:
    with pytest.raises(InvalidParameterError, match="the same neighbors"):
        WholeRun(((None, 1, REPLACED), (None, 1, ADDED)))
    with pytest.raises(InvalidParameterError, match="the same neighbors"):
        RepeatedSelection((REPLACED, ADDED), 0.0, 0.0, 8)
    forged = {"kind": "repeated_selection", "shape": 0.0, "gamma": 0.0, "most": 8}
    with pytest.raises(UnsupportedEventError, match="the same neighbors"):
        event_from_dict({**forged, "runs": [REPLACED.to_dict(), ADDED.to_dict()]})
