"""The exponential mechanism on projected gradients: scores on neighbours, the law, the bound, degenerate content."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams, verify
from dpconvex.privacy.ledger import total_epsilon
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.problems.linear.truncated import TruncatedRisk
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.sets import L2Ball
from dpconvex.solvers import AcceleratedGradient
from dpconvex_experiments.reference.gradient_score import plan_gradient_score

LOSSES = (SquaredLoss(1e4), HuberLoss(), LogisticLoss(), AbsoluteLoss(1e4), HingeLoss())


def planned(loss, n=200, dim=1, epsilon=1.0, wide=5.0, side=33, coarse=True):
    """The plan, with a coarser grid than the bound would have: scores are the same functions."""
    problem = LinearModelProblem(loss, DataDomain.l2_ball(dim, wide), n, 1.0)
    found = plan_gradient_score(problem, PrivacyParams(epsilon), Moments(2.0, 2.0))
    return replace(found, side=side) if coarse else found


def scores(found, X, y):
    records = Records.clipped(X, found.problem.domain)
    return found.scores(TruncatedRisk(found.problem.loss, records, y, found.l2, found.truncation))


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_neighbour_moves_a_score_beyond_the_sensitivity(loss, dim) -> None:
    """T20, a search over extreme records; opposite gradients of length C reach it where the loss has both signs."""
    found = planned(loss, 6, dim)
    rng, worst = np.random.default_rng(0), 0.0
    for trial in range(8):
        X, y = 10.0 ** rng.uniform(-2, 2) * rng.standard_normal((6, dim)), rng.standard_normal(6)
        values = []
        for sign in (1.0, -1.0):
            X[0], y[0] = (1e9, sign * 1e9) if trial % 2 else (sign * 1e9, 1e9)
            values.append(scores(found, X, y))
        worst = max(worst, float(np.abs(values[0] - values[1]).max()))
    reach = found.mechanism.sensitivity.value
    assert worst <= reach
    assert worst > 0.9 * reach


def test_the_step_is_public_and_the_scores_certify_distances() -> None:
    """Equation (25) of the specification: the distance from the minimiser is at most s / l2, on the whole grid."""

    for loss in (HuberLoss(), AbsoluteLoss(1e4)):
        found = planned(loss, 50, 2)
        rng = np.random.default_rng(1)
        X, y = rng.standard_t(2.5, (50, 2)), rng.standard_t(2.5, 50)
        risk = TruncatedRisk(loss, Records.clipped(X, found.problem.domain), y, found.l2, found.truncation)

        best = AcceleratedGradient().solve(risk, 1e-9, L2Ball(1.0)).point
        away, s = np.linalg.norm(found.grid - best, axis=1), -found.scores(risk)
        assert np.all(away <= s / found.l2 + 1e-8)
        gap = 2 / (found.side - 1) * math.sqrt(2)
        assert s.min() <= 2 / found.step * gap
        assert found.step == planned(loss, 50, 2).step


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_cost_content_and_certificate(loss) -> None:
    found, expected = planned(loss, 30), None
    assert 1 - 1e-9 < total_epsilon(found.releases, 0.0) <= 1
    for fill in (0.3, 0.0, np.nan, np.inf, 1e300, 1e-300):
        result = found.run(np.full((30, 1), fill), np.full(30, fill), SeededSource(1))
        assert abs(result.point[0]) <= 1 + 1e-12
        shown = json.dumps({**result.certificate.to_dict(), "versions": None, "digest": None}, sort_keys=True)
        expected = expected or shown
        assert shown == expected
    assert verify(found.run(np.zeros((30, 1)), np.zeros(30), SystemSource()).certificate).passed


@pytest.mark.gate
def test_the_bound_holds_and_public_mistakes_raise() -> None:
    loss = AbsoluteLoss(1e4)
    found = planned(loss, 4000, epsilon=4.0, coarse=False)
    rng = np.random.default_rng(0)
    X = rng.standard_t(4, (4000, 1))
    y = 0.5 * X[:, 0] + rng.standard_t(4, 4000)
    points = [found.run(X, y, SeededSource(seed)).point[0] for seed in range(5)]
    excess = [float(loss.value(X[:, 0] * w, y).mean() - loss.value(X[:, 0] * 0.5, y).mean()) for w in points]
    assert np.mean(excess) <= found.predicted_error.bound
    assert np.mean(np.abs(np.array(points) - 0.5)) < 0.4
    assert np.all(found.coefficient_deviation <= 1)
    with pytest.raises(InvalidParameterError, match="dim="):
        planned(loss, dim=3)


def test_e7_a_step_that_depends_on_the_data_breaks_the_sensitivity() -> None:
    """Erratum E7: ``gamma = 1/(l2 + H_Z)`` with ``H_Z`` the largest smoothness among the records, n = 1000, C = 1.

    At 0.999 in [-1, 1], where all gradients point outwards, one record of smoothness 10^6 moves the score by nearly C.
    """
    n, l2, w, C = 1000, 1e-3, 0.999, 1.0

    def score(smoothness, gradient):
        gamma = 1 / (l2 + smoothness)
        return abs(w - min(1.0, w - gamma * gradient)) / gamma

    gradients = -C, -C * (1 - 2 / n)  # of all records alike, and with one of them turned round
    moved = abs(score(1.0, gradients[0]) - score(1e6, gradients[1]))
    assert moved > 400 * 2 * C / n
    assert abs(score(1.0, gradients[0]) - score(1.0, gradients[1])) <= 2 * C / n  # a public step
    found = planned(AbsoluteLoss(1e4), 6)
    assert found.step == 1 / (found.truncation.curvature(found.problem.loss, found.problem.domain.l2) + found.l2)
