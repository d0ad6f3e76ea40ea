"""Private moment bounds: one record moves two counts by one; the estimate is near the truth; nothing leaks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dpconvex.algorithms.erm.heavy_tailed import Moments, plan_moments
from dpconvex.algorithms.erm.heavy_tailed.moments import BINS, _gradient_bounds
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams, verify
from dpconvex.privacy.ledger import total_epsilon
from dpconvex.problems import DataDomain, LinearModelProblem
from dpconvex.randomness import SeededSource, SystemSource

LOSSES = (SquaredLoss(1e4), HuberLoss(), LogisticLoss(), AbsoluteLoss(1e4), HingeLoss())


def planned(loss=None, n=5000, epsilon=0.2, k=2.0, dim=3):
    return plan_moments(
        LinearModelProblem(loss or HuberLoss(), DataDomain.l2_ball(dim, 1e4), n, 1.0), PrivacyParams(epsilon), k
    )


def heavy(n, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(4.5, (n, dim))
    return X, X.sum(1) + rng.standard_t(4.5, n)


def test_the_cost_and_the_sensitivity() -> None:
    found = planned()
    assert 0.2 * (1 - 1e-6) < total_epsilon(found.releases, 0.0) <= 0.2
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(200):
        bounds = 10.0 ** rng.uniform(-320, 300, 6)
        other = bounds.copy()
        other[0] = rng.choice([0.0, 1e300, bounds[0] * 1.5, *found.edges[:3]])
        a, b = found.histogram(bounds), found.histogram(other)
        assert a.sum() == b.sum() == 6
        worst = max(worst, np.abs(a - b).sum())
    assert worst == found.mechanism.sensitivity.value == 2.0


@pytest.mark.parametrize(("loss", "k"), [*((loss, 2.0) for loss in LOSSES), *((loss, 3.0) for loss in LOSSES[1:])])
def test_the_estimate_is_a_useful_bound(loss, k) -> None:
    """Near the empirical moment where that exists: bins are sqrt(2) wide, and a few tail records may get lost."""
    found = planned(loss, k=k)
    X, y = heavy(5000)
    A = _gradient_bounds(found.problem, np.linalg.norm(X, axis=1), loss.clip_targets(y))
    moments, certificate = found.run(X, y, SeededSource(1))
    assert isinstance(moments, Moments)
    truth = float((A**k).mean() ** (1 / k))
    assert 0.7 * truth <= moments.bound <= 1.6 * truth
    assert moments.g1 <= moments.g2 <= moments.bound
    assert not certificate.noise_source.private
    assert A.max() <= found.edges[0]


def test_gradient_bounds_hold() -> None:
    rng = np.random.default_rng(0)
    for loss in LOSSES:
        found = planned(loss)
        X, y = heavy(50)
        y = loss.clip_targets(y)
        bounds = _gradient_bounds(found.problem, np.linalg.norm(X, axis=1), y)
        for _ in range(50):
            w = rng.standard_normal(3)
            w /= max(1.0, np.linalg.norm(w))
            gradients = np.abs(loss.derivative(X @ w, y)) * np.linalg.norm(X, axis=1)
            assert np.all(gradients <= bounds * (1 + 1e-12))


def test_no_content_raises_warns_or_shows() -> None:
    found, expected = planned(n=20), None
    for fill in (0.3, 0.0, np.nan, np.inf, 1e300, 1e-300):
        moments, certificate = found.run(np.full((20, 3), fill), np.full(20, fill), SeededSource(0))
        assert moments.bound > 0
        shown = json.dumps({**certificate.to_dict(), "versions": None, "digest": None}, sort_keys=True)
        expected = expected or shown
        assert shown == expected
    assert found.moments(np.full(BINS, -3.0)).bound > 0


def test_certificates_verify_and_public_mistakes_raise() -> None:
    assert verify(planned(n=100).run(*heavy(100), SystemSource())[1]).passed
    with pytest.raises(InvalidDataError, match="plan is for"):
        planned(n=100).run(*heavy(99), SystemSource())
    with pytest.raises(InvalidParameterError, match="k="):
        planned(k=1.0)


@pytest.mark.parametrize("k", [2.0, 3.0])
def test_moments_of_known_counts(k) -> None:
    """Half of the records at one edge and half at a quarter of it."""
    found, counts = planned(k=k), np.zeros(BINS)
    counts[[6, 10]] = 1e9
    edge, moments = found.edges[6], found.moments(counts)
    for value, q in ((moments.bound, k), (moments.g2, 2.0), (moments.g1, 1.0)):
        assert value == pytest.approx(edge * ((1 + 0.25**q) / 2) ** (1 / q), rel=1e-12)
