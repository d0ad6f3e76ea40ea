"""Record-level methods at the level of users: what their lemmas say about replaced users, searched for violations."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpconvex import verify
from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.objective_perturbation import planner
from dpconvex.algorithms.erm.objective_perturbation.regularization import smallest_l2
from dpconvex.algorithms.erm.registry import cautious, is_pure, plans
from dpconvex.algorithms.select import Options
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import HuberLoss, LogisticLoss, SmoothedHingeLoss, SoftmaxLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import Block, DataDomain, LinearModelProblem, Records, UserGroups
from dpconvex.randomness import SeededSource
from dpconvex.solvers import NewtonCholesky
from dpconvex_experiments.reference import exponential_mechanism
from dpconvex_experiments.reference.exponential_mechanism import relative_risk

pytestmark = pytest.mark.thin

USERS = PrivacyParams(1.0, unit="user")
OURS = ("output_perturbation", "objective_perturbation", "exponential_mechanism")


def task(**changes) -> LinearModelProblem:
    facts = {"loss": LogisticLoss(), "domain": DataDomain.l2_ball(2, 1.0), "n": 30, "radius": 2.0}
    return LinearModelProblem(**{**facts, "records_per_user": 3, **changes})


def data(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, UserGroups]:
    users = rng.permutation(np.repeat(np.arange(n), rng.integers(1, 8, n)))
    return rng.uniform(-1, 1, (len(users), 2)), rng.choice([-1.0, 1.0], len(users)), UserGroups.of(users)


def refused(certificate) -> list[str]:
    """Names of failed checks, but for that of the seed."""
    return [
        check.name for check in verify(certificate).checks if not check.passed and check.name != "noise is not seeded"
    ]


@pytest.mark.parametrize("algorithm", OURS)
@pytest.mark.parametrize("privacy", [USERS, PrivacyParams(0.5, 1e-6, unit="user")])
def test_certificates_are_for_users_and_verify(algorithm: str, privacy: PrivacyParams) -> None:
    X, y, groups = data(30, np.random.default_rng(0))
    for plan in plans(task(), privacy, algorithm):
        result = plan.run(X, y, SeededSource(0), groups)
        certificate = result.certificate
        assert certificate.target.unit == "user"
        assert {release.sensitivity.unit for release in certificate.releases} == {"user"}
        assert certificate.spent_epsilon <= privacy.epsilon
        assert certificate.public["users"] == 30
        assert certificate.public["records_per_user"] == 3
        assert refused(certificate) == []
        assert "everything one user contributed" in certificate.explain()
        assert len(y) not in certificate.public.values()  # how many records there are is private


@pytest.mark.parametrize("algorithm", OURS)
def test_users_of_one_record_are_records(algorithm: str) -> None:
    """Same noise, same data: the same release, but for the rounding of the weights."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (30, 2)), rng.choice([-1.0, 1.0], 30)
    for by_user in plans(task(), USERS, algorithm):
        options = (plan for plan in plans(task(records_per_user=None), PrivacyParams(1.0), algorithm))
        by_record = next(plan for plan in options if plan.noise_name == by_user.noise_name)
        one = by_user.run(X, y, SeededSource(3), UserGroups.of(np.arange(30))).point
        other = by_record.run(X, y, SeededSource(3)).point
        assert one == pytest.approx(other, rel=1e-6, abs=1e-6)


def test_a_certificate_for_users_with_the_rank_of_a_record_is_refused() -> None:
    X, y, groups = data(30, np.random.default_rng(0))
    problem = task(loss=HuberLoss(0.5, 1.0))
    plan = objective_perturbation.plan(problem, USERS, noise="l2")[0]
    certificate = plan.run(X, y, SeededSource(0), groups).certificate
    assert refused(certificate) == []
    first, second = certificate.releases
    event = dataclasses.replace(first.event, rank=1)  # pyright: ignore[reportArgumentType]
    forged = dataclasses.replace(certificate, releases=(dataclasses.replace(first, event=event), second))
    assert any(name.startswith("planned again: releases") for name in refused(forged))


def test_groups_go_with_users_only() -> None:
    X, y, groups = data(30, np.random.default_rng(2))
    by_user = plans(task(), USERS, "output_perturbation")[0]
    with pytest.raises(InvalidDataError, match="groups"):
        by_user.run(X, y, SeededSource(0))
    with pytest.raises(InvalidDataError, match="groups"):
        by_user.run(X, y[:-1], SeededSource(0), groups)
    fewer = UserGroups.of(np.minimum(np.arange(len(y)), 28))
    with pytest.raises(InvalidDataError, match="n=30 users"):
        by_user.run(X, y, SeededSource(0), fewer)
    by_record = plans(task(records_per_user=None), PrivacyParams(1.0), "output_perturbation")[0]
    with pytest.raises(InvalidDataError, match="groups"):
        by_record.run(X[:30], y[:30], SeededSource(0), groups)


def test_promise_and_problem_must_fit() -> None:
    for problem, privacy in ((task(), PrivacyParams(1.0)), (task(records_per_user=None), USERS)):
        with pytest.raises(InvalidParameterError, match="unit"):
            plans(problem, privacy)
        with pytest.raises(InvalidParameterError, match="unit"):
            objective_perturbation.plan(problem, privacy)
        with pytest.raises(InvalidParameterError, match="unit"):
            exponential_mechanism.plan(problem, privacy)


@pytest.mark.gate
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(0.5, 0.5)], ids=lambda loss: loss.name)
def test_users_of_one_record_get_the_plans_of_records(loss, delta: float) -> None:
    """Same methods in the same order, same expectations, but for what only one of the two has."""
    given = {} if loss.task == "classification" else {"explained": 0.006}
    problem = task(loss=loss, n=5000, domain=DataDomain.box(4, 0.5).with_intercept(1.0), radius=3.0, **given)
    listed = []
    for records, unit in ((None, "record"), (1, "user")):
        found = plans(dataclasses.replace(problem, records_per_user=records), PrivacyParams(1.0, delta, unit=unit))
        ranks = np.array([cautious(plan) for plan in found])
        assert (ranks[1:] >= ranks[:-1] * (1 - 1e-8)).all()  # equal ones stand in the order of noises
        names = OURS if loss.task == "classification" else ("constant", *OURS)  # users' constants come sooner
        pure = [plan for plan in found if is_pure(plan) and plan.algorithm in names]
        listed.append({(plan.algorithm, plan.noise_name, k): plan for k, plan in enumerate(pure)})
    assert listed[0].keys() == listed[1].keys()
    for key, plan in listed[0].items():
        assert listed[1][key].predicted_error.rank == pytest.approx(plan.predicted_error.rank, rel=0.05)


def test_gaussian_objective_perturbation_needs_a_cap_for_users() -> None:
    """Theorem U4 takes a union over pairs of vertices, as many as distinct rows (docs, Methods of records)."""
    privacy = PrivacyParams(1.0, 1e-6, unit="user")
    assert all("gaussian" not in p.noise_name for p in objective_perturbation.plan(task(), privacy))
    with pytest.raises(InvalidParameterError, match="needs a cap"):
        objective_perturbation.plan(task(), privacy, noise="gaussian")


def replaced(rng: np.random.Generator, extreme: np.ndarray, label: float, size: int) -> tuple:
    """Twenty users; user 0 has `size` records at `extreme` with that label."""
    sizes = np.array([size, *rng.integers(1, 5, 19)])
    X = np.concatenate([np.tile(extreme, (size, 1)), rng.uniform(-0.5, 0.5, (sizes[1:].sum(), 2))])
    y = np.concatenate([np.full(size, label), rng.choice([-1.0, 1.0], sizes[1:].sum())])
    return X, y, UserGroups(np.concatenate([[0], np.cumsum(sizes)]))


@pytest.mark.parametrize("l2", [0.05, 5.0])
def test_no_user_moves_the_minimizer_beyond_the_sensitivity(l2: float) -> None:
    """Users of up to 50 records at the domain's edge; where the loss is nearly linear the bound is nearly attained."""
    problem = task(loss=SmoothedHingeLoss(0.5), n=20)
    plan = plans(problem, USERS, "output_perturbation", Options(l2=l2))[0]
    bound, largest = plan.releases[0].sensitivity.value, 0.0
    for seed, sizes in enumerate([(1, 1), (50, 1), (50, 50), (1, 7)]):
        points = []
        for k, size in enumerate(sizes):
            X, y, groups = replaced(np.random.default_rng(seed), np.array([(-1.0) ** k, 0.0]), 1.0, size)
            points.append(NewtonCholesky().solve(problem.objective(X, y, l2, groups), 1e-9).point)
        largest = max(largest, float(np.linalg.norm(points[0] - points[1])))
    assert largest <= bound
    if l2 == 5.0:
        assert largest > 0.9 * bound


def test_unweighted_records_would_break_the_sensitivity() -> None:
    """What the weights are for: with all records alike the same search exceeds the bound many times."""
    problem = task(loss=SmoothedHingeLoss(0.5), n=20)
    bound = plans(problem, USERS, "output_perturbation", Options(l2=5.0))[0].releases[0].sensitivity.value
    alike = task(loss=SmoothedHingeLoss(0.5), n=1, records_per_user=None)
    points = []
    for sign in (1.0, -1.0):
        X, y, _ = replaced(np.random.default_rng(0), np.array([sign, 0.0]), 1.0, 50)
        points.append(NewtonCholesky().solve(alike.objective(X, y, 5.0), 1e-9).point)
    assert np.linalg.norm(points[0] - points[1]) > 3 * bound


def test_no_user_moves_a_score_beyond_its_sensitivity() -> None:
    problem = task(n=20)
    plan = exponential_mechanism.plan(problem, USERS)[0]
    scores = []
    for sign, size in ((1.0, 50), (-1.0, 9)):
        X, y, groups = replaced(np.random.default_rng(0), np.array([sign, 0.0]), 1.0, size)
        records, weights = Records.clipped(X, problem.domain), problem.weights(groups)
        scores.append(relative_risk(problem.loss, records, y, plan.grid, weights=weights))
    moved = float(np.abs(scores[0] - scores[1]).max())
    assert 0.3 * plan.choice.sensitivity.value < moved <= plan.choice.sensitivity.value


ONE_HOT = DataDomain((Block(2, "l1", 1.0),))


def largest_privacy_loss(
    problem: LinearModelProblem, l2: float, scale: float, rng: np.random.Generator, margins: tuple[float, ...] = ()
) -> float:
    """Search the exact density of the minimizer in two dimensions, l1 noise, for the worst pair of users.

    ``log p_D(w) = -|T_D(w)|_1 / scale + log det`` with ``T = C - G_u`` for any common part C; users are weighted
    vertices of the domain with any targets, seen through slope and curvature at w, also where records have these
    margins. The common curvature is 0.
    """
    loss, n = problem.loss, problem.n
    vertices = np.concatenate([np.eye(2), -np.eye(2)])
    targets = np.array([-1.0, -0.5 - 1e-9, -0.5 + 1e-9, 0.0, 0.5 - 1e-9, 0.5 + 1e-9, 1.0])
    pairs = itertools.combinations_with_replacement(range(4), 2)
    users = list(itertools.product(pairs, targets, targets, (0.0, 0.5)))
    X = vertices[[pair for pair, *_ in users]]  # (users, 2 records, 2 features)
    y = loss.clip_targets(np.array([each[1:3] for each in users]).ravel())
    v = np.array([(1 - share, share) for *_, share in users])
    worst = 0.0
    for w in (np.zeros(2), *rng.normal(0, 1, (3, 2)), *np.repeat(margins, 2).reshape(-1, 2)):
        z = (X @ w).ravel()
        gradients = np.einsum("ur,urf->uf", v * loss.derivative(z, y).reshape(v.shape), X)
        bend = v * loss.hessian_weights(z, y).reshape(v.shape)
        logs = np.log(np.linalg.det(np.einsum("ur,urf,urg->ufg", bend, X, X) + n * l2 * np.eye(2)))
        apart = np.abs(gradients[:, None] - gradients[None]).sum(-1)  # a common part far away attains it
        worst = max(worst, float((apart / scale + np.abs(logs[:, None] - logs[None])).max()))
    return worst


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("multiple", [2.0, 20.0])
@pytest.mark.dear("2.0-0.3")
def test_the_determinant_of_a_user_is_paid_in_full(epsilon: float, multiple: float) -> None:
    """Kinked curvature: a user of two unlike records pulls and bends in full. A record's rank would be too cheap."""
    problem = task(loss=HuberLoss(0.5, 1.0), domain=ONE_HOT, n=3)
    lowest = smallest_l2(problem, epsilon)
    tau = problem.tau(multiple * lowest)
    share = planner.rules.pure_share(problem.loss, False, tau, epsilon, planner.rules.user_rank(problem))
    assert share.rule == "determinant"
    scale = 2 * problem.loss.slope_bound / share.epsilon
    worst = largest_privacy_loss(problem, multiple * lowest, scale, np.random.default_rng(0))
    assert epsilon * 0.98 <= worst <= epsilon * (1 + 1e-9)
    cheap = planner.rules.pure_share(problem.loss, False, tau, epsilon)
    too_little = 2 * problem.loss.slope_bound / cheap.epsilon
    assert largest_privacy_loss(problem, multiple * lowest, too_little, np.random.default_rng(0)) > epsilon


@pytest.mark.gate
@pytest.mark.parametrize("loss", [LogisticLoss()], ids=lambda loss: loss.name)
def test_free_curvature_stays_free_for_users(loss) -> None:
    """At the floor on the regularization; below a quarter of it the same search finds more than epsilon."""
    problem, epsilon = task(loss=loss, domain=ONE_HOT, n=3), 0.5
    floor = 2 * problem.tau(1.0) / epsilon
    share = planner.rules.pure_share(
        loss, False, problem.tau(floor * (1 + 1e-9)), epsilon, planner.rules.user_rank(problem)
    )
    assert (share.rule, share.epsilon) == ("free", epsilon)
    scale = 2 * loss.slope_bound / epsilon
    assert largest_privacy_loss(problem, floor, scale, np.random.default_rng(1)) <= epsilon
    assert largest_privacy_loss(problem, floor / 100, scale, np.random.default_rng(1)) > epsilon


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize(("cap", "multiple"), [(1.0, 0.3), (0.9, 0.3), (0.5, 1.0), (0.3, 0.3)])
@pytest.mark.thin
@pytest.mark.dear("0.9-0.3-2.0", "0.3-0.3-0.3")
def test_the_logistic_rule_holds_for_users(cap: float, multiple: float, epsilon: float) -> None:
    """Never above epsilon, and near it; `multiple` of the floor from which curvature is free without a cap."""
    loss = LogisticLoss(cap)
    problem = task(loss=loss, domain=ONE_HOT, n=3)
    l2 = multiple * 2 * problem.tau(1.0) / epsilon
    share = planner.rules.pure_share(loss, False, problem.tau(l2), epsilon, planner.rules.user_rank(problem))
    assert share.rank == 2
    kink = math.log((1 - cap) / cap) if cap < 1 else -10.0
    margins = tuple(np.concatenate([kink + np.array([-1e-9, 1e-9]), np.linspace(kink, 2, 4)]))
    rng = np.random.default_rng(3)
    worst = largest_privacy_loss(problem, l2, 2 * cap / share.epsilon, rng, margins)
    assert worst <= epsilon * (1 + 1e-9)
    assert worst >= (0.98 if cap <= 0.5 else 0.7) * epsilon
    if cap <= 0.5:  # mutant: the rank of a record
        cheap = planner.rules.pure_share(loss, False, problem.tau(l2), epsilon).epsilon
        assert largest_privacy_loss(problem, l2, 2 * cap / cheap, rng, margins) > epsilon * (1 + 1e-4)


def test_below_the_floor_users_pay_more_than_records() -> None:
    loss, tau = LogisticLoss(), 4.0
    by_record, by_user = (planner.rules.pure_share(loss, False, tau, 1.0, rank) for rank in (None, 5))
    assert by_record.rule == by_user.rule == "logistic"
    assert by_user.epsilon < by_record.epsilon


@pytest.mark.parametrize("loss", [SoftmaxLoss(3), HuberLoss(0.5, 1.0)], ids=lambda loss: loss.name)
def test_other_losses_plan_for_users(loss) -> None:
    rng = np.random.default_rng(5)
    X, _, groups = data(30, rng)
    y = rng.integers(0, 3, len(X)).astype(float)
    for plan in plans(task(loss=loss), USERS, "objective_perturbation"):
        assert np.isfinite(plan.run(X, y, SeededSource(0), groups).point).all()
