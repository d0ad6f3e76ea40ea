"""Noisy gradient descent with clipped gradients: cost, sensitivity, the bound."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from dpconvex.algorithms.erm.heavy_tailed.clipped_gradient import plan
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.losses import AbsoluteLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import PrivacyParams, verify
from dpconvex.privacy.ledger import total_delta, total_epsilon
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.problems.linear.truncated import TruncatedRisk
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.sets import L2Ball

LOSSES = (SquaredLoss(1e4), HuberLoss(), LogisticLoss(), AbsoluteLoss(1e4))
DELTA = 1e-6


def planned(loss=None, n=200, dim=3, epsilon=1.0, delta=0.0, **fixed):
    problem = LinearModelProblem(loss or HuberLoss(), DataDomain.l2_ball(dim, 1e4), n, 1.0)
    return plan(problem, PrivacyParams(epsilon, delta), Moments(2.0, 4.0), **fixed)


def heavy(n, dim, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2.5, (n, dim))
    return X, X.sum(1) / 2 + rng.standard_t(2.5, n)


@pytest.mark.parametrize("steps", [None, 1, 7, 300])
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_all_steps_together_cost_what_was_promised(steps, delta) -> None:
    found = planned(delta=delta, steps=steps)
    if delta:
        assert total_delta(found.releases, 1.0) <= delta
        assert total_delta(found.releases, 1.0 - 1e-4) > delta
    else:
        assert 1.0 - 1e-5 < total_epsilon(found.releases, 0.0) <= 1.0


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.dear("SquaredLoss")
def test_gradients_of_neighbors_stay_within_the_sensitivity_and_reach_it(loss) -> None:
    found, rng, worst = planned(loss, 5), np.random.default_rng(0), 0.0
    for _ in range(60):
        X, y = rng.standard_normal((5, 3)), rng.standard_normal(5)
        w = L2Ball(found.problem.radius).project(rng.standard_normal(3))
        slopes = []
        for sign in (1.0, -1.0):
            X2, y2 = X.copy(), y.copy()
            X2[0], y2[0] = np.array([1e3, 1e3, -1e3]) * (sign if loss.sides == 1 else 1.0), 1e9 * sign
            y2[0] = 1e9 if loss.sides == 1 else y2[0]
            records = Records.clipped(X2, found.problem.domain)
            slopes.append(TruncatedRisk(loss, records, y2, 1.0, found.truncation).mean_slope(w))
        worst = max(worst, float(np.linalg.norm(slopes[0] - slopes[1])))
    reach = found.mechanism.sensitivity.value
    assert worst <= reach
    assert worst > 0.9 * 2 * found.level / 5 or loss.sides == 1
    assert worst > 0.4 * reach


@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_no_content_raises_warns_or_shows(delta) -> None:
    expected = None
    for loss in LOSSES:
        found = planned(loss, 30, delta=delta, steps=5)
        expected = None
        for fill in (0.3, 0.0, np.nan, np.inf, 1e300, 1e-300):
            result = found.run(np.full((30, 3), fill), np.full(30, fill), SeededSource(1))
            assert np.isfinite(result.point).all()
            shown = json.dumps({**result.certificate.to_dict(), "versions": None, "digest": None}, sort_keys=True)
            expected = expected or shown
            assert shown == expected


@pytest.mark.gate
def test_certificates_verify() -> None:
    for delta in (0.0, DELTA):
        assert verify(planned(delta=delta).run(*heavy(200, 3), SystemSource()).certificate).passed


def test_the_bound_holds_and_free_constants_are_taken() -> None:
    found = planned(AbsoluteLoss(1e4), 4000, epsilon=8.0)
    X, y = heavy(4000, 3)
    loss = AbsoluteLoss()
    best = min(float(loss.value(X @ np.full(3, a), y).mean()) for a in (0.4, 0.5, 0.57))
    excess = [float(loss.value(X @ found.run(X, y, SeededSource(s)).point, y).mean()) - best for s in range(4)]
    assert np.mean(excess) <= found.predicted_error.bound
    fixed = planned(level=2.0, steps=9, step_size=0.1)
    assert (fixed.level, fixed.steps, fixed.step_size) == (2.0, 9, 0.1)
    assert fixed.bound >= planned().bound
    assert isinstance(planned(delta=DELTA).mechanism, GaussianMechanism)
    assert math.isfinite(fixed.coefficient_deviation[0])
