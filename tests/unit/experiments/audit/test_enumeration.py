"""All transcripts: adaptive draws by hand, what is refused, and the numbers that follow from two laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex.errors import UnsupportedEventError
from dpconvex.mechanisms import LaplaceMechanism, ReportNoisyMax, VertexSampling
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex_experiments.audit import EnumeratedPair, enumerated_pair

MAXIMUM = ReportNoisyMax(Sensitivity(1.0, "linf", "test"), 1.0)


def ledger(*releases):
    return Ledger(PrivacyParams(1e5, 0.4), releases)


def drawn(scores, source):
    """Two draws; the second sees twice the scores if the first was 0."""
    mechanism = VertexSampling(Sensitivity(1.0, "range", "test"), 2, 2.0, 2)
    session = mechanism.start("test", source, ledger(mechanism.planned("test")))
    first = int(session.draw(scores)[0])
    return session.draw(scores * (2 if first == 0 else 1))


def test_adaptive_draws_have_the_product_of_their_probabilities() -> None:
    found = enumerated_pair(drawn, (np.array([0.5, 0.0]),), (np.zeros(2),))
    p, q = 1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(-1.0))
    assert np.exp(found.first) == pytest.approx([p * q, p * (1 - q), (1 - p) * p, (1 - p) ** 2], abs=1e-6)
    assert np.exp(found.second) == pytest.approx([0.25] * 4)
    assert found.largest_loss == pytest.approx(max(math.log(4 * p * q), -math.log(4 * (1 - p) ** 2)), abs=1e-5)


def test_delta_epsilon_and_divergence_belong_together() -> None:
    """Randomized response with 3/4: epsilon log 3, and by hand elsewhere."""
    pair = EnumeratedPair(np.log([0.75, 0.25]), np.log([0.25, 0.75]))
    assert pair.largest_loss == pytest.approx(math.log(3))
    assert pair.epsilon(0.0) == pair.largest_loss
    assert pair.delta(0.0) == pytest.approx(0.5)
    assert pair.delta(0.5) == pytest.approx(0.75 - math.exp(0.5) / 4)
    assert pair.epsilon(0.75 - math.exp(0.5) / 4) == pytest.approx(0.5, abs=1e-6)
    assert pair.renyi(2.0) == pytest.approx(math.log(0.75**2 / 0.25 + 0.25**2 / 0.75))


def test_a_transcript_that_one_side_never_makes_costs_everything() -> None:
    pair = EnumeratedPair(np.array([math.log(0.9), math.log(0.1)]), np.array([0.0, -math.inf]))
    assert pair.epsilon(0.0) == math.inf
    assert pair.delta(100.0) == pytest.approx(0.1)


def test_the_noisy_maximum_is_enumerated() -> None:
    def run(scores, source):
        return MAXIMUM.release(scores, "test", source, ledger(MAXIMUM.planned("test")))

    found = enumerated_pair(run, (np.array([0.0, -1.0, 0.5]),), (np.zeros(3),))
    assert np.exp(found.first).sum() == pytest.approx(1.0)
    assert np.exp(found.second) == pytest.approx([1 / 3] * 3)


def test_what_cannot_be_enumerated_is_refused() -> None:
    def real(value, source):
        mechanism = LaplaceMechanism(Sensitivity(1.0, "absolute", "test"), 1.0, 1)
        return mechanism.release(value, "test", source, ledger(mechanism.planned("test")))

    with pytest.raises(UnsupportedEventError, match="finitely many"):
        enumerated_pair(real, (np.zeros(1),), (np.ones(1),))
    with pytest.raises(UnsupportedEventError, match="nothing was drawn"):
        enumerated_pair(lambda value, source: None, (0,), (1,))
    with pytest.raises(UnsupportedEventError, match="more than 3"):
        enumerated_pair(drawn, (np.zeros(2),), (np.ones(2),), most=3)
