"""Neighbors that add or remove one record, or one user: what one more moves, and that nothing tells how many there are.

The number of units is private: plans are for a declared one, and every divisor, message and stated fact is its alone.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpconvex.algorithms.erm import gradient_descent, user_level
from dpconvex.algorithms.erm.gradient_descent.gradients import mean_gradients
from dpconvex.algorithms.erm.objective_perturbation import planner
from dpconvex.algorithms.erm.registry import ERM_METHODS, plans
from dpconvex.algorithms.select import Options
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import HingeLoss, LogisticLoss, SmoothedHingeLoss, SmoothLoss, SoftmaxLoss
from dpconvex.privacy import AddedObjectivePerturbation, Neighboring, PrivacyParams, PureObjectivePerturbation, Unit
from dpconvex.privacy.ledger import total_epsilon
from dpconvex.privacy.profiles import largest_mu
from dpconvex.privacy.verify import verify
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import NAMED_SOLVERS, default_solver
from dpconvex.solvers.base import Status
from dpconvex_experiments.audit.exact import minimizer_epsilon
from dpconvex_experiments.audit.neighbors import added_pairs, record_pairs, user_pairs
from dpconvex_experiments.audit.replay import privacy_losses, replayed
from dpconvex_experiments.audit.target import run_of

ADDED = Neighboring.ADD_OR_REMOVE_ONE
DOMAIN = DataDomain((Block(3, "simplex", 1.0, "town"), Block(1, "linf", 0.5)), 1.0)


def promise(epsilon: float = 1.0, delta: float = 0.0, unit: Unit = Unit.RECORD) -> PrivacyParams:
    return PrivacyParams(epsilon, delta, ADDED, unit)


def problem(n: int = 200, loss: Any = None, **more: Any) -> LinearModelProblem:
    return LinearModelProblem(loss or LogisticLoss(), DOMAIN, n, 4.0, private_n=True, **more)


def one_column(loss: SmoothLoss, bound: float, users: bool = False) -> LinearModelProblem:
    domain = DataDomain((Block(1, "linf", bound),))
    return LinearModelProblem(loss, domain, 3, 1 / bound, records_per_user=2 if users else None, private_n=True)


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.eye(3)[rng.integers(0, 3, n)], rng.uniform(-0.5, 0.5, n)])
    return X, np.where(rng.random(n) < 0.5 + X[:, 3], 1.0, -1.0)


def perturbed(problem: LinearModelProblem, epsilon: float, l2: float, noise: str = "l2") -> Any:
    unit = Unit.USER if problem.grouped else Unit.RECORD
    return plans(problem, promise(epsilon, 0.0, unit), "objective_perturbation", Options(l2=l2, noise=noise))[0]


@pytest.mark.thin
@pytest.mark.parametrize("bound", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("users", [False, True])
@pytest.mark.parametrize("loss", [SmoothedHingeLoss(0.5), LogisticLoss(), LogisticLoss(0.3), LogisticLoss(0.7)])
def test_the_density_of_a_minimizer_keeps_the_promise_and_uses_it(loss: Any, users: bool, bound: float) -> None:
    """Exact: a unit more at the worst place. Curvature that is free, and curvature that is paid for."""
    settings = (0.1, 1.2, "l2"), (1.0, 1.2, "grouped"), (4.0, 5.0, "grouped"), (1.0, 100.0, "l2"), (0.1, 100.0, "l1")
    for epsilon, ridge, noise in settings:
        given = one_column(loss, bound, users)
        plan = perturbed(given, epsilon, ridge * loss.curvature_bound * bound**2 / (3 * math.expm1(epsilon)), noise)
        pairs = added_pairs(user_pairs(given) if users else record_pairs(given))
        needed = max(minimizer_epsilon(plan, *pair) for pair in pairs.values())
        event = plan.noise.event
        assert isinstance(event, AddedObjectivePerturbation)
        assert needed <= float(event.pure_epsilon) * (1 + 1e-9)
        tight = not isinstance(loss, LogisticLoss) or loss.slope_bound <= 0.5
        assert needed >= (0.98 if tight else 0.55) * float(event.pure_epsilon)  # the search is not idle


@pytest.mark.parametrize("mistake", ["half of the noise", "curvature forgotten", "n of the data in the place of n"])
def test_mistakes_break_the_promise(mistake: str) -> None:
    given, loss = one_column(SmoothedHingeLoss(0.5), 1.0), SmoothedHingeLoss(0.5)
    for epsilon in (0.3, 1.0, 4.0):
        plan = perturbed(given, epsilon, 1.2 * loss.curvature_bound / (3 * math.expm1(epsilon)))
        event = plan.noise.event
        half, free = event.scale / 2, event.sensitivity / (0.99 * epsilon)
        scale = {"half of the noise": half, "curvature forgotten": free}.get(mistake, event.scale)
        wrong = replace(plan, noise=replace(plan.noise, event=replace(event, scale=scale)))
        if mistake.startswith("n of"):  # an objective of 30 records divided by their number, with noise for 3
            wrong = replace(wrong, problem=replace(plan.problem, n=30), l2=plan.l2 / 30)
        pairs = added_pairs(record_pairs(given))
        assert max(minimizer_epsilon(wrong, *pair) for pair in pairs.values()) > 1.02 * epsilon


def test_a_unit_more_costs_half_the_noise_and_needs_half_the_ridge() -> None:
    """At the same declared number; a replaced unit is one removed and one added: at most twice epsilon."""
    loss = LogisticLoss()
    tau = 0.7
    assert planner.rules.pure_share(loss, False, tau, 1.0, pulls=1)[:4] == (1.0, "free", 1.0, 1)
    assert planner.rules.pure_share(loss, False, tau, 1.0).rule == "logistic"
    with pytest.raises(InvalidParameterError, match=r"q\*tau <= epsilon_1 "):
        AddedObjectivePerturbation(1.0, 2.0, 0.51, "free", 1.0)
    with pytest.raises(InvalidParameterError, match=r"q\*tau <= epsilon_1/2 "):
        PureObjectivePerturbation(1.0, 2.0, 0.26, "free", 1.0)
    for cap, rank in itertools.product((0.3, 0.7, 1.0), (1, 4)):
        for rule, curvature in (("logistic", cap), ("saturating", 5 * cap)):
            event = AddedObjectivePerturbation(1.0, 2.0, 3.0, rule, curvature, rank)
            assert event.searched_epsilon is not None
            assert event.searched_epsilon <= float(event.pure_epsilon) <= event.searched_epsilon * (1 + 1e-6)


@pytest.mark.parametrize("units", [1, 200, 20_000])
@pytest.mark.parametrize("users", [False, True])
def test_one_more_moves_a_sum_by_its_sensitivity_at_most_however_many_there_are(units: int, users: bool) -> None:
    """With a hundred times the declared number, sums round a hundred times as much, and the plan has paid for it."""
    given = problem(200, records_per_user=2 if users else None)
    plan = gradient_descent.plan(given, promise(1.0, 1e-6, Unit.USER if users else Unit.RECORD))
    X, y = data(units)
    X[-1], y[-1] = [1.0, 0.0, 0.0, 0.5], -1.0
    moved = []
    for w in (np.zeros(5), np.array([2.0, -3.0, 1.0, 5.0, 1.0]), np.full(5, 1e3)):
        found = []
        for count in (units, units - 1):
            groups = UserGroups.of(np.arange(count), empty=True) if users else None
            (gradient,) = mean_gradients(plan.clipping, 1, X[:count], y[:count], groups, SeededSource(0))
            found.append(gradient(w))
        moved.append(float(np.linalg.norm(found[0] - found[1])))
    assert 0.5 * plan.mechanism.sensitivity.value < max(moved) <= plan.mechanism.sensitivity.value


def test_sums_of_far_more_units_than_declared_are_cut() -> None:
    plan = gradient_descent.plan(problem(1), promise(1.0, 1e-6))
    X, y = np.tile([1.0, 0.0, 0.0, 0.5], (20_000, 1)), np.full(20_000, 1.0)
    (gradient,) = mean_gradients(plan.clipping, 1, X, y, None, SeededSource(0))
    assert float(np.linalg.norm(gradient(np.zeros(5)))) <= 1000 * plan.clip
    assert float(np.linalg.norm(gradient(np.zeros(5)))) == pytest.approx(1000 * plan.clip)


LOOSE = promise(4.0, 0.05, Unit.USER)
"""With so few users that one of them matters, and still so little noise that columns are looked at."""


def test_no_user_more_moves_a_release_of_a_look_further_than_its_sensitivity_and_some_do_nearly() -> None:
    given, moved = problem(30, records_per_user=5), dict[int, float]()
    plan = gradient_descent.plan_informed(given, LOOSE)
    pairs = added_pairs(user_pairs(given, (1,))).values()
    for first, second in (*pairs, *([told(data) for data in pair] for pair in pairs)):
        for line, (mine, its) in enumerate(zip(*replayed(run_of(plan), first, second, (0, 0)), strict=True)):
            step = float(np.linalg.norm(mine.value - its.value)) / mine.mechanism.sensitivity.value
            assert step <= 1  # no number is none
            moved[line] = max(moved.get(line, 0.0), step)
    for line, least in enumerate((0.99, 0.6, 0.99, 0.99, 0.9)):  # centers, widths, labels, lengths, gradient
        assert moved[line] > least
    assert max(line for line, step in moved.items() if step > 0.99) == max(moved)  # the last look


def told(data: Any) -> Any:
    """Return data whose features tell the label, so that runs go far."""
    X, y, groups = data
    return np.where(y[:, None] < 0, [[0.0, 1.0, 0.0, -0.5]], X), y, groups


@pytest.mark.gate
@pytest.mark.parametrize("n", [30, 400])
def test_no_user_more_moves_a_look_and_its_steps_further_than_the_budget(n: int) -> None:
    """Gaussian releases: the sum of squared shifts over deviations is the exact squared mu of a transcript."""
    plan = gradient_descent.plan_informed(problem(n, records_per_user=5), LOOSE)
    assert 4 * 0.999 < total_epsilon(plan.releases, 0.05) <= 4 * (1 + 1e-9)
    pairs = added_pairs(user_pairs(problem(30, records_per_user=5), (1, 3)))
    shifts = max(float(privacy_losses(run_of(plan), *pair, 1).shifts.max()) for pair in pairs.values())
    most = largest_mu(4.0, 0.05) ** 2
    assert 0.2 * most < shifts <= most


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_method_protects_added_units_or_refuses_before_it_sees_data(unit: Unit, delta: float) -> None:
    given = problem(2000, records_per_user=2 if unit == Unit.USER else None)
    offered = {"objective_perturbation"} | ({"noisy_gradient"} if delta else set())
    offered |= {"informed_gradient"} if delta and unit == Unit.USER else set()
    for name in ERM_METHODS:
        if name in offered:
            for plan in plans(given, promise(1.0, delta, unit), name):
                assert {each.sensitivity.neighboring for each in plan.releases} == {ADDED}
                assert plan.certificate(SeededSource(0)).target.neighboring == ADDED
        else:
            with pytest.raises(InvalidParameterError):
                plans(given, promise(1.0, delta, unit), name)


def test_refusals_say_what_to_do() -> None:
    grouped = problem(records_per_user=2)
    both = promise(1.0, 1e-6), promise(1.0, 1e-6, Unit.USER)
    asked_for: Any = ({"batches": 2}, "batches"), ({"rate": 0.5}, "rate")
    for options, name in asked_for:
        for given, asked in zip((problem(), grouped), both, strict=True):
            with pytest.raises(InvalidParameterError, match=name):
                gradient_descent.plan(given, asked, **options)
    with pytest.raises(InvalidParameterError, match="noise='gaussian'"):
        planner.plan(problem(), both[0], noise="gaussian")
    with pytest.raises(InvalidParameterError, match="tilt"):
        problem(tilt=1.0)
    with pytest.raises(InvalidParameterError, match="whose n is a guess"):
        gradient_descent.plan(problem(), PrivacyParams(1.0, 1e-6))
    for planner_of in (gradient_descent.plan_informed, user_level.plan_phased):
        with pytest.raises(InvalidParameterError, match="neighboring"):
            planner_of(grouped, PrivacyParams(1.0, 1e-6, unit=Unit.USER))
    with pytest.raises(InvalidParameterError, match="whose n is public"):
        gradient_descent.plan(replace(problem(), private_n=False), promise(1.0, 1e-6))


CASES = [
    (PrivacyParams(1.0, 0.0, ADDED), LogisticLoss(), "auto"),
    (PrivacyParams(1.0, 1e-6, ADDED), LogisticLoss(), "noisy_gradient"),
    (PrivacyParams(1.0, 1e-6, ADDED), HingeLoss(), "noisy_gradient"),
    (PrivacyParams(1.0, 0.0, ADDED), SoftmaxLoss(3), "auto"),
    (PrivacyParams(1.0, 0.0, ADDED, Unit.USER), LogisticLoss(), "auto"),
    (PrivacyParams(1.0, 1e-6, ADDED, Unit.USER), LogisticLoss(), "auto"),
    (PrivacyParams(1.0, 1e-6, ADDED, Unit.USER), LogisticLoss(), "noisy_gradient"),
]


@pytest.mark.parametrize(("asked", "loss", "name"), CASES)
def test_runs_on_any_number_of_units_state_the_same(asked: PrivacyParams, loss: Any, name: str) -> None:
    """None, one, as many as declared, ten times as many: the same plan, and, but for what a look saw, certificate."""
    users = asked.unit == Unit.USER
    plan = plans(problem(200, loss, records_per_user=2 if users else None), asked, name)[0]
    for count in (0, 1, 200, 2000):
        X, y = data(count)
        y = y if loss.n_outputs == 1 else np.arange(count) % 3
        groups = [UserGroups.of(np.arange(count) // 2, empty=True)] * users
        found = plan.run(X, y, SeededSource(1), *groups)
        assert np.isfinite(found.point).all()
        assert found.certificate.public["n"] == 200
        assert found.certificate.public["declared_n"] == 200
        assert str(count) not in found.certificate.explain() or count in (0, 1, 200)
        assert found.plan.releases == plan.releases


def test_the_minimum_is_that_of_a_sum_over_the_declared_number() -> None:
    """With twice the records and twice the declared number, all is as before; with twice the records alone, not."""
    X, y = data(300)
    epsilon, twice = 1e6, (np.vstack([X, X]), np.append(y, y))
    asked = PrivacyParams(epsilon, 0.0, ADDED)
    option = Options(l2=1e-3, noise="l2")
    plan = plans(problem(300), asked, "objective_perturbation", option)[0]
    doubled = plans(problem(600), asked, "objective_perturbation", option)[0]
    alone = plan.run(X, y, SeededSource(0)).point
    assert doubled.run(*twice, SeededSource(0)).point == pytest.approx(alone, rel=1e-3, abs=1e-3)
    heavier = plan.run(*twice, SeededSource(0)).point
    public = replace(problem(600), private_n=False)
    usual = plans(public, PrivacyParams(epsilon), "objective_perturbation", replace(option, l2=0.5e-3))[0]
    assert heavier == pytest.approx(usual.run(*twice, SeededSource(0)).point, rel=1e-3, abs=1e-3)
    assert math.dist(heavier, alone) > 0.01


@pytest.mark.parametrize("loss", [LogisticLoss(), SmoothedHingeLoss(0.5), HingeLoss()])
def test_solvers_find_the_minimum_of_the_sum_or_refuse(loss: Any) -> None:
    """Methods that draw single records would take the sum for a mean, and certify it."""
    X, y = data(400)
    objective = problem(20, loss).objective(X, y, 0.1)
    usual = replace(problem(400, loss), private_n=False).objective(X, y, 0.1 * 20 / 400)
    found = 0
    names = "newton_cholesky", "lbfgs", "katyusha", "dual_coordinate_ascent", "stochastic_subgradient", "cutting_plane"
    for name in names:
        try:
            solved = NAMED_SOLVERS[name]().solve(objective, 1e-2)
        except InvalidParameterError:
            continue
        if solved.status != Status.CERTIFIED:
            continue
        truth = default_solver(loss, dim=5).solve(usual, 1e-3).point
        assert float(np.linalg.norm(solved.point - truth)) <= 0.011
        found += 1
    assert found


def test_a_certificate_of_one_relation_is_none_of_the_other() -> None:
    """Half of the noise, and another relation's name or event: without a planner, too."""
    added = perturbed(problem(200), 1.0, 1.0).certificate(SystemSource()).to_dict()
    public = replace(problem(200), private_n=False)
    replaced = plans(public, PrivacyParams(1.0), "objective_perturbation", Options(l2=1.0, noise="l2"))[0]
    usual = replaced.certificate(SystemSource()).to_dict()
    kinds = [each["releases"][0]["event"]["kind"] for each in (added, usual)]
    for certificate, kind in ((added, kinds[1]), (usual, kinds[0])):
        forged = copy.deepcopy(certificate)
        forged["releases"][0]["event"]["kind"] = kind
        wrong = {check.name for check in verify(json.dumps(forged)).checks if not check.passed}
        assert "relation of 'minimizer of the perturbed objective'" in wrong
        renamed = copy.deepcopy(certificate)
        other = {"replace_one": "add_or_remove_one", "add_or_remove_one": "replace_one"}
        for part in (renamed["target"], *(each["sensitivity"] for each in renamed["releases"])):
            part["neighboring"] = other[part["neighboring"]]
        assert any("relation of" in check.name for check in verify(json.dumps(renamed)).checks if not check.passed)
