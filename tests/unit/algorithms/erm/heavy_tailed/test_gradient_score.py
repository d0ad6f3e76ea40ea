"""The exponential mechanism on projected gradients: scores on neighbors, the law, the bound, degenerate content."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dpconvex.algorithms.erm.heavy_tailed import Moments
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.privacy import PrivacyParams, verify
from dpconvex.privacy.ledger import total_epsilon
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.sets import L2Ball
from dpconvex.solvers import AcceleratedGradient
from dpconvex_experiments.audit.laws import finite_law
from dpconvex_experiments.reference import gradient_score

LOSSES = (SquaredLoss(1e4), HuberLoss(), LogisticLoss(), AbsoluteLoss(1e4), HingeLoss())


def planned(loss, n=200, dim=1, epsilon=1.0, wide=5.0, side=33, failure=None):
    """The plan; coarser nets than the bound would have make tests fast: scores are the same functions."""
    problem = LinearModelProblem(loss, DataDomain.l2_ball(dim, wide), n, 1.0)
    found = gradient_score.plan(problem, PrivacyParams(epsilon), Moments(2.0, 2.0), failure=failure)
    if not side:
        return found
    phases = tuple(replace(each, stages=(replace(each.stages[0], side=side),)) for each in found.phases)
    return replace(found, schedule=replace(found.schedule, phases=phases))


def scores(found, t, X, y, net, center):
    data = Records.clipped(X, found.problem.domain), y
    return found.scores(t, found.method.risk(found.part(found.phases[t]), data, center, 0.0), net)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.dear(
    "SquaredLoss(target_bound=10000.0, prediction_bound=inf)-2",
    "HuberLoss(width=1.0, target_bound=inf, of_mean=False)-2",
)
def test_no_neighbor_moves_a_score_beyond_the_sensitivity(loss, dim) -> None:
    """T20, a search over extreme records; opposite gradients of length C reach it where slopes have both signs."""
    found = planned(loss, 200, dim, wide=50.0, side=9)
    rng = np.random.default_rng(0)
    for t, phase in enumerate(found.phases):
        worst, center = 0.0, 0.5 * np.eye(dim)[0] * bool(t)
        net = found.net(t, center)
        for trial in range(8):
            X = 10.0 ** rng.uniform(-2, 2) * rng.standard_normal((phase.m, dim))
            y, values = rng.standard_normal(phase.m), []
            for sign in (1.0, -1.0):
                X[0], y[0] = (1e9, sign * 1e9) if trial % 2 else (sign * 1e9, 1e9)
                values.append(scores(found, t, X, y, net, center))
            worst = max(worst, float(np.abs(values[0] - values[1]).max()))
        reach = found.noises[t][0].sensitivity.value
        assert worst <= reach
        assert worst > 0.45 * reach  # half of it where slopes have one sign only


@pytest.mark.thin
@pytest.mark.parametrize("dim", [1, 2])
def test_scores_certify_distances_and_nets_hold_the_minimizer(dim) -> None:
    """Equation (25) of the specification: the distance from the minimizer is at most s / l2, on the whole net."""
    for loss in (HuberLoss(), AbsoluteLoss(1e4)):
        found = planned(loss, 500, dim)
        rng = np.random.default_rng(1)
        for t, phase in enumerate(found.phases):
            X, y = rng.standard_t(2.5, (phase.m, dim)), rng.standard_t(2.5, phase.m)
            center, stage = np.full(dim, 0.6) * bool(t), phase.stages[0]
            part = found.part(phase)
            risk = found.method.risk(part, (Records.clipped(X, found.problem.domain), y), center, 0.0)
            best = AcceleratedGradient().solve(risk, 1e-9, L2Ball(1.0)).point
            net = found.net(t, center)
            away, s = np.linalg.norm(net - best, axis=1), -found.scores(t, risk, net)
            assert np.all(away <= s / phase.l2 + 1e-8)
            gap = 2 * stage.confine / (stage.side - 1) * math.sqrt(dim)
            assert away.min() <= gap + 1e-8
            assert s.min() <= 2 / found.step(phase) * gap


def test_the_exact_law_over_a_net_of_opposite_neighbors() -> None:
    """Scores turned by the whole sensitivity cost nearly all of epsilon, and no more."""
    choice = planned(HuberLoss(), 60).noises[0][0]
    base, moved = np.linspace(-40, 0, 33) * choice.sensitivity.value, choice.sensitivity.value / 2
    signs = np.where(np.arange(33) % 2, moved, -moved)
    loss = float(np.abs(finite_law(choice, base + signs) - finite_law(choice, base - signs)).max())
    assert 0.9 < loss <= 1 + 1e-9


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_cost_content_and_certificate(loss) -> None:
    found, expected = planned(loss, 60), None
    assert 1 - 1e-9 < total_epsilon(found.releases, 0.0) <= 1
    assert len({release.block for release in found.releases}) == len(found.phases)
    for fill in (0.3, 0.0, np.nan, np.inf, 1e300, 1e-300):
        result = found.run(np.full((60, 1), fill), np.full(60, fill), SeededSource(1))
        assert abs(result.point[0]) <= 1 + 1e-12
        shown = json.dumps({**result.certificate.to_dict(), "versions": None, "digest": None}, sort_keys=True)
        expected = expected or shown
        assert shown == expected
    plain = planned(loss, 60, side=0)
    assert verify(plain.run(np.zeros((60, 1)), np.zeros(60), SystemSource()).certificate).passed


def test_noise_is_drawn_anew_for_every_part_and_run() -> None:
    """At a small epsilon choices are nearly uniform: five equal ones of 33 have probability 33^-4."""
    found = planned(LogisticLoss(), 200, epsilon=1e-3, failure=0.1)
    assert len(found.releases) > len(found.phases)  # repetitions
    outcomes: list[list[int]] = []
    with pytest.MonkeyPatch.context() as patch:
        release = ReportNoisyMax.release
        patch.setattr(ReportNoisyMax, "release", lambda *each: outcomes[-1].append(index := release(*each)) or index)
        for seed in range(5):
            outcomes.append([])
            found.run(np.zeros((200, 1)), np.zeros(200), SeededSource(seed))
    assert len({run[0] for run in outcomes}) > 1
    assert all(len(set(run)) > 1 for run in outcomes)  # of the parts of a run


@pytest.mark.gate
@pytest.mark.parametrize(
    ("enough", "failure"), [(20_000, None), pytest.param(10**6, 0.1, marks=pytest.mark.slow)]
)  # repetitions
def test_the_bound_holds_and_public_mistakes_raise(enough, failure) -> None:
    loss, n = LogisticLoss(), 20_000
    useful = planned(loss, enough, epsilon=4.0, wide=1.0, side=0, failure=failure)
    assert useful.predicted_error.bound < useful.predicted_error.trivial
    found = planned(loss, n, epsilon=4.0, wide=1.0, side=0, failure=failure)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 1))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X[:, 0] / 2)), 1.0, -1.0)
    points = [found.run(X, y, SeededSource(seed)).point[0] for seed in range(2)]
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
    phase = found.phases[0]
    assert found.step(phase) == 1 / (phase.truncation.curvature(AbsoluteLoss(1e4), 5.0) + phase.l2)
