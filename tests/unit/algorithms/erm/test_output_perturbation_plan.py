"""Plan of output perturbation and the choice among plans: constants that fit together, noise kinds, messages."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex.algorithms.erm import output_perturbation
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import NOISES, Options
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, LogisticLoss, PinballLoss, SoftmaxLoss, SquaredLoss
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.mechanisms.gaussian import zwb_constant
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, LinearModelProblem, Records, RegularizedRisk
from dpconvex.randomness import SeededSource

DOMAIN = DataDomain.l2_ball(3, 2.0).with_intercept(1.0)


def problem(loss, n=200, radius=2.0, domain=DOMAIN):
    return LinearModelProblem(loss, domain, n, radius)


@pytest.mark.parametrize("loss", [LogisticLoss(), HingeLoss(), SoftmaxLoss(3), AbsoluteLoss(1.0)], ids=repr)
@pytest.mark.parametrize("constants", ["calibrated", "paper"])
def test_the_noise_covers_the_minimizer_and_the_solver(loss, constants) -> None:
    for plan in output_perturbation.plan(problem(loss), PrivacyParams(0.7, 1e-6), constants=constants):
        reach = 2 * loss.slope_bound * DOMAIN.l2 / (plan.l2 * 200) + 2 * plan.solver_radius
        assert plan.mechanism.sensitivity.value >= reach * (1 - 1e-12)
        assert plan.mechanism.sensitivity.norm == "l2"
        claimed = plan.releases[0].event.claimed_sensitivity
        assert claimed is not None
        assert claimed >= plan.mechanism.sensitivity.value
        epsilon = plan.releases[0].event.pure_epsilon
        assert epsilon is None or float(epsilon) == pytest.approx(0.7, rel=1e-9)


@pytest.mark.thin
@pytest.mark.parametrize("bound", [0.1, 1.0, 100.0])
@pytest.mark.gate
def test_the_mean_like_instance_attains_the_sensitivity(bound) -> None:
    """Linear part of the hinge: the minimizer is a mean, and one flipped label moves it by ``2L/(l2 n)``."""
    domain = DataDomain.box(1, bound)
    (plan,) = output_perturbation.plan(problem(HingeLoss(), 4, domain=domain), PrivacyParams(1.0), l2=4 * bound**2)
    X = np.full((4, 1), bound)
    points = []
    for y in ([1.0, 1.0, -1.0, -1.0], [1.0, 1.0, 1.0, -1.0]):
        risk = RegularizedRisk(HingeLoss(), Records.clipped(X, domain), np.array(y), plan.l2)
        points.append(plan.solver.solve(risk, 1e-9 / bound).point)
    moved = float(np.linalg.norm(points[0] - points[1]))
    assert moved == pytest.approx(plan.schedule.sensitivity, rel=1e-6)


def test_paper_and_calibrated_differ_as_documented() -> None:
    privacy = PrivacyParams(1.0, 1e-6)
    paper = {p.noise_name: p for p in output_perturbation.plan(problem(LogisticLoss()), privacy, constants="paper")}
    sharp = {p.noise_name: p for p in output_perturbation.plan(problem(LogisticLoss()), privacy)}
    assert paper.keys() == sharp.keys() == {"l2", "gaussian"}
    for kind, plan in paper.items():
        assert sharp[kind].predicted_error.bound < plan.predicted_error.bound
    root = zwb_constant(1e-6)
    sigma = (root + math.sqrt(root**2 + 1)) / math.sqrt(2)
    zwb, exact = paper["gaussian"].mechanism, sharp["gaussian"].mechanism
    assert isinstance(zwb, GaussianMechanism)
    assert isinstance(exact, GaussianMechanism)
    assert zwb.sigma == pytest.approx(sigma * zwb.sensitivity.value, rel=1e-5)
    assert exact.sigma < 0.9 * sigma * exact.sensitivity.value
    assert paper["l2"].schedule.sensitivity > 2 * paper["l2"].problem.lipschitz / (paper["l2"].l2 * 200)


@pytest.mark.parametrize("d", [2, 10, 40, 200])
def test_pure_noise_wins_in_low_dimension_even_where_delta_is_allowed(d) -> None:
    """Docs: Gaussian noise is the smaller one for d above about 18 (exact calibration, 1e-6)."""
    found = plans(
        problem(HingeLoss(), domain=DataDomain.l2_ball(d, 1.0)), PrivacyParams(1.0, 1e-6), "output_perturbation"
    )
    assert min(found, key=lambda plan: plan.predicted_error.rank).noise_name == ("l2" if d < 18 else "gaussian")


@pytest.mark.parametrize("loss", [AbsoluteLoss(), PinballLoss(0.3)], ids=repr)
@pytest.mark.dear("AbsoluteLoss(target_bound=inf)")
def test_losses_with_unbounded_targets_have_plans_that_run(loss) -> None:
    (plan,) = output_perturbation.plan(problem(loss, 20), PrivacyParams(1.0))
    y = np.array([np.inf, -np.inf, np.nan, 1e300, 3.0] * 4)
    assert np.isfinite(plan.run(np.ones((20, 3)), y, SeededSource(0)).point).all()


@pytest.mark.parametrize(
    ("arguments", "name", "says"),
    [
        ({"loss": SquaredLoss(1.0)}, "loss", "bounded slope"),
        ({"algorithm": "sgd"}, "algorithm", "must be one of"),
        ({"algorithm": "objective_perturbation", "constants": "paper"}, "constants", "not available"),
        ({"algorithm": "output_perturbation", "noise": "grouped"}, "noise", "must be one of 'auto', 'l2', 'gaussian'"),
        ({"noise": "gaussian"}, "noise", "needs delta > 0"),
        ({"noise": "weighted_gaussian"}, "noise", "needs delta > 0"),  # by the algorithm that has this noise
        ({"noise": "l1", "constants": "paper"}, "noise", "objective perturbation's"),
        ({"noise": "l1", "loss": HingeLoss()}, "noise", "objective perturbation's"),
        ({"algorithm": "objective_perturbation", "loss": HingeLoss()}, "loss", "output_perturbation"),
    ],
    ids=str,
)
def test_messages(arguments, name, says) -> None:
    given = {"loss": LogisticLoss(), "algorithm": "auto", "constants": "calibrated", "noise": "auto"} | arguments
    options = Options(constants=given["constants"], noise=given["noise"])
    with pytest.raises(InvalidParameterError, match=says) as caught:
        plans(problem(given["loss"]), PrivacyParams(1.0), given["algorithm"], options)
    assert caught.value.name == name


def test_a_plan_says_which_noise_it_has() -> None:
    for noise, says in (("l1", "must be one of"), ("gaussian", "needs delta > 0")):
        with pytest.raises(InvalidParameterError, match=says):
            output_perturbation.plan(problem(LogisticLoss()), PrivacyParams(1.0), noise=noise)


@pytest.mark.parametrize(
    "wrong", [{"constants": "printed"}, {"noise": "cauchy"}, {"l2": 0.0}, {"l2": 1e-300}, {"l2": math.inf}], ids=str
)
def test_options_are_checked(wrong) -> None:
    with pytest.raises(InvalidParameterError):
        Options(**wrong)


def test_every_noise_is_offered_by_some_algorithm() -> None:
    privacy = PrivacyParams(1.0, 1e-6)
    offered = {p.noise_name for p in plans(problem(LogisticLoss()), privacy)}
    assert offered >= set(NOISES) - {"auto"}
    for name in ("output_perturbation", "objective_perturbation"):
        assert {p.algorithm for p in plans(problem(LogisticLoss()), privacy, name)} == {name}
