"""The exponential mechanism over a net around each release (Algorithms 6 and 7): exact laws, nets, schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpconvex.algorithms.erm.heavy_tailed import Moments
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.privacy.ledger import total_epsilon
from dpconvex.problems import CustomProblem, DataDomain, LinearModelProblem, LocationLoss, Records
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit.laws import finite_law
from dpconvex_experiments.reference import localized_mechanism
from dpconvex_experiments.reference.localized_mechanism import MAX_DIM

LOSSES = (HuberLoss(1.0, 1e3), AbsoluteLoss(1e3), LogisticLoss(), SquaredLoss(1e3, 1e3))


def planned(loss=LOSSES[0], n=300, dim=2, epsilon=1.0, failure=None, bound=2.0):
    problem = LinearModelProblem(loss, DataDomain.l2_ball(dim - 1, 1e3).with_intercept(), n, 1.0)
    return localized_mechanism.plan(problem, PrivacyParams(epsilon), Moments(2.0, bound), failure=failure)


def custom(n=20, level=0.2):
    problem = CustomProblem(LocationLoss(DataDomain.box(1, 5.0), 0.05), n, 1.0)
    return localized_mechanism.plan_custom(problem, PrivacyParams(1.0), Moments(2.0, level))


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_the_exact_law_over_the_net_with_errors_at_both_ends(share) -> None:
    """T36 of the specification: the largest log-ratio is at most ``epsilon_EM + 2 chi B``, and nearly that.

    Values turn as far as Lemma 8.6 allows, ``+-C (u - c) / m`` for neighbors; errors are 0 here and B there.
    """
    plan = custom()
    t, phase = 0, plan.phases[0]
    lipschitz = 2 * phase.truncation.level * phase.stages[0].confine / phase.m
    error = share * lipschitz
    plan = replace(plan)
    object.__setattr__(plan, "errors", tuple(error for _ in plan.phases))
    choice = plan.choices[t]
    chi = choice.epsilon / (2 * (lipschitz + error))
    claimed = choice.epsilon
    assert claimed == pytest.approx(2 * chi * lipschitz + 2 * chi * error)  # epsilon_EM + 2 chi B
    center = np.zeros(1)
    net = plan.net(t, center)[:, 0]
    turned = 2 * phase.truncation.level / phase.m * net  # F_Z - F_Z' up to a constant
    worst, steep = 0.0, 40 * lipschitz * np.abs(net - net[0]) / np.ptp(net)
    for base in (np.zeros(len(net)), steep, steep[::-1]):
        for one, other in ((0.0, error), (error, 0.0)):
            first = base + turned / 2 + np.where(net > 0, one, other)
            second = base - turned / 2 + np.where(net > 0, other, one)
            laws = [finite_law(choice, -values) for values in (first, second)]
            worst = max(worst, float(np.abs(laws[0] - laws[1]).max()))
    assert worst <= claimed * (1 + 1e-9)
    assert worst >= 0.9 * claimed, "otherwise this test could not catch a forgotten B"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thin
@pytest.mark.gate
def test_scores_of_neighbors_move_by_no_more_than_the_sensitivity(seed) -> None:
    """Up to a constant: the objective by certified planes, records at the cap."""
    plan, rng = custom(), np.random.default_rng(seed)
    phase, center = plan.phases[0], np.array([0.1])
    net, part = plan.net(0, center), plan.part(plan.phases[0])
    X = rng.uniform(-5, 5, (phase.m, 1))
    scores = []
    for last in (-5.0, 5.0):
        Z = X.copy()
        Z[-1] = last
        data = Records.clipped(Z, plan.problem.domain), np.zeros(phase.m)
        risk = plan.method.risk(part, data, np.zeros(1), phase.stages[0].radius)
        scores.append(plan.scores(0, risk, net, center))
        exact = [risk.value_and_gradient(w)[0] for w in net]
        upper = localized_mechanism.upper_values(risk, net)
        assert (upper >= exact).all()
        assert (upper <= np.array(exact) + plan.errors[0]).all()
    moved = np.ptp(scores[0] - scores[1]) / 2
    assert moved <= plan.choices[0].sensitivity.value
    assert moved >= 0.6 * plan.choices[0].sensitivity.value


@pytest.mark.parametrize("dim", [1, 2])
def test_a_net_is_public_near_and_in_the_ball(dim) -> None:
    plan = planned(dim=dim) if dim == 2 else custom()
    rng, stage = np.random.default_rng(0), plan.phases[0].stages[0]
    spacing = 2 * stage.confine / (stage.side - 1) * np.sqrt(dim)
    for center in (np.zeros(dim), np.eye(dim)[0]):
        net = plan.net(0, center)
        assert (np.linalg.norm(net, axis=1) <= 1 + 1e-12).all()
        assert (np.linalg.norm(net - center, axis=1) <= stage.confine * (1 + 1e-9)).all()
        points = center + rng.uniform(-1, 1, (300, dim)) * stage.confine
        points = points[
            (np.linalg.norm(points, axis=1) <= 1) & (np.linalg.norm(points - center, axis=1) <= stage.confine)
        ]
        away = np.linalg.norm(points[:, None] - net[None], axis=2).min(1)
        assert away.max() <= spacing


@pytest.mark.thin
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("failure", [None, 0.1])
@pytest.mark.dear(
    "HuberLoss(width=1.0, target_bound=1000.0, of_mean=False)",
    "SquaredLoss(target_bound=1000.0, prediction_bound=1000.0)",
)
def test_a_plan_spends_its_epsilon_on_disjoint_parts(loss, failure) -> None:
    plan = planned(loss, 500, epsilon=0.7, failure=failure)
    assert 0.7 * (1 - 1e-5) < total_epsilon(plan.releases, 0.0) <= 0.7
    for phase, choice, error in zip(plan.phases, plan.choices, plan.errors, strict=True):
        assert choice.sensitivity.value >= 2 * phase.truncation.level * phase.stages[0].confine / phase.m + error
        assert choice.epsilon == 0.35
    blocks = {release.block for release in plan.releases}
    assert len(blocks) == sum(phase.repetitions for phase in plan.phases)
    result = plan.run(np.ones((500, 1)), np.ones(500), SeededSource(0))
    assert np.linalg.norm(result.point) <= 1 + 1e-12


def test_more_records_and_budget_lower_the_bound_and_three_parameters_are_refused() -> None:
    bounds = [planned(n=n, epsilon=e).schedule.bound for n, e in ((1000, 0.5), (1000, 2.0), (100_000, 2.0))]
    assert bounds == sorted(bounds, reverse=True)
    assert MAX_DIM == 2
    with pytest.raises(InvalidParameterError, match="pure samplers"):
        planned(dim=3)
    with pytest.raises(InvalidParameterError, match="bounded targets"):
        planned(HuberLoss())
