"""Gaussian objective perturbation for users, Theorem U4: exact densities in two dimensions, and the formula itself.

The minimizer's density is the noise's at ``T_D(w)`` times ``|det DT_D(w)|``, so delta at an epsilon is a quadrature
over w: no sampling. Users have one to four rows; the others push the minimizer to where slopes are steep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import ndtr

from dpconvex import verify
from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.objective_perturbation import regularization as rules
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import HuberLoss, LinearModelLoss, LogisticLoss, PseudoHuberLoss, SoftmaxLoss
from dpconvex.privacy import GaussianObjectivePerturbation, PrivacyParams
from dpconvex.privacy.events.objective import UserGaussianObjectivePerturbation
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.users import distinct_within
from dpconvex.randomness import SeededSource

GRID = 161
LONGEST = 8.0  #: Standard deviations of b that the grid covers


class User(NamedTuple):
    rows: np.ndarray
    labels: np.ndarray
    weights: np.ndarray  #: They add up to 1


def density(
    loss: LinearModelLoss, user: User, common: np.ndarray, ridge: float, sigma: float, w: np.ndarray
) -> np.ndarray:
    """Return p(w), (m,), for `ridge` = n l2; the other users' gradient is `common`: all their slopes are saturated."""
    z, y = w @ user.rows.T, np.broadcast_to(user.labels, (len(w), len(user.labels)))
    T = -ridge * w - common - (user.weights * loss.derivative(z, y)) @ user.rows
    bends = user.weights * loss.hessian_weights(z, y)
    H = ridge * np.eye(2) + np.einsum("mi,ij,ik->mjk", bends, user.rows, user.rows)
    return np.exp(-np.square(T).sum(1) / (2 * sigma**2)) / (2 * math.pi * sigma**2) * np.linalg.det(H)


def deltas(
    loss: LinearModelLoss, common: np.ndarray, pair: tuple[User, User], ridge: float, sigma: float, epsilon: float
) -> float:
    """Return the larger delta at `epsilon` of the two directions, by quadrature."""
    axis = np.linspace(-1, 1, GRID) * (LONGEST * sigma + loss.slope_bound) / ridge
    w = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2) - common / ridge
    p, q = (density(loss, user, common, ridge, sigma, w) for user in pair)
    cell = (axis[1] - axis[0]) ** 2
    assert p.sum() * cell == pytest.approx(1.0, abs=1e-2)
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum() * cell) for a, b in ((p, q), (q, p)))


def pairs(loss: LinearModelLoss, seed: int, count: int) -> Iterator[tuple[int, np.ndarray, tuple[User, User]]]:
    """Yield a cap, a common gradient, and two users of at most so many rows of length 1.

    Half of them pull in nearly opposite directions, with the minimizer so far down that all are misclassified.
    """
    rng = np.random.default_rng(seed)
    for k in range(count):
        m, users = 1 + (k // 2) % 3 + (k % 8 == 7), []
        for side in (0.0, math.pi):
            size = int(rng.integers(1, m + 1))
            angles = np.abs(side - rng.uniform(0.05, 0.4, size)) if k % 2 else rng.uniform(0, 2 * math.pi, size)
            labels = np.full(size, 1.0) if loss.sides == 1 else rng.choice([-1.0, 0.0, 1.0], size)
            rows = np.stack([np.cos(angles), np.sin(angles)], -1)
            users.append(User(rows, labels, rng.dirichlet(np.full(size, 0.7))))
        yield m, np.array([0.0, loss.slope_bound * rng.choice([0.0, 1.0, 5.0, 40.0])]), (users[0], users[1])


def claim(loss: LinearModelLoss, m: int, tau: float, sigma: float) -> UserGaussianObjectivePerturbation:
    rule = rules.gaussian_rule(loss, (m, 2))
    return UserGaussianObjectivePerturbation(loss.slope_bound, sigma, 0.0, tau, *rule, m, 2)


@pytest.mark.thin
@pytest.mark.parametrize(
    "loss",
    [
        LogisticLoss(),
        pytest.param(LogisticLoss(0.7), marks=pytest.mark.slow),
        PseudoHuberLoss(1.0, 1.0),
        HuberLoss(0.5, 1.0),
    ],
    ids=repr,
)
@pytest.mark.dear("LogisticLoss(cap=1.0, rate=None)")
def test_no_pair_of_users_exceeds_the_claim_and_less_noise_does(loss: LinearModelLoss, full: bool) -> None:
    """At most .6 of the claim; at half the noise (two sides, whose union is coarser: at a third) several times it."""
    worst, less = 0.0, 0.0
    for m, common, pair in pairs(loss, 3, 60 if full else 30):
        sigma = 2 * loss.slope_bound
        epsilon = 3.0 * loss.slope_bound / sigma
        tau = epsilon / 2 / max(rules.gaussian_rule(loss, (m, 2))[1], 0.25)  # at the planned floor
        event = claim(loss, m, tau, sigma)
        worst = max(worst, deltas(loss, common, pair, 1 / tau, sigma, epsilon) / event.delta(epsilon))
        quiet = sigma / (2 if loss.sides == 1 else 3)
        less = max(less, deltas(loss, common, pair, 1 / tau, quiet, epsilon) / event.delta(epsilon))
    assert 0.01 < worst <= 1.0
    assert less > 1.2


def H(epsilon: float, mu: float) -> float:
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def theorem(rule: str, m: int, p: int, mu: float, epsilon: float, curvature: float, tau: float) -> float:
    """Theorem U4, written again from the docs."""
    if rule == "one_sided_sc":
        return m**2 * H(epsilon, 2 * mu) + m * H(epsilon, mu) + m * H(epsilon - curvature * tau, mu)
    if rule == "two_sided_sc":
        both = H(epsilon, 2 * mu) + H(epsilon, math.sqrt(2) * mu)
        return 2 * m**2 * both + 2 * m * H(epsilon - curvature * tau, mu)
    left = epsilon - p * math.log1p(curvature * tau / p)
    if rule == "one_sided":
        return m**2 * H(left, 2 * mu) + 2 * m * H(left, mu)
    return 2 * m**2 * (H(left, 2 * mu) + H(left, math.sqrt(2) * mu))


@pytest.mark.parametrize("rule", ["one_sided", "two_sided", "one_sided_sc", "two_sided_sc"])
def test_the_event_is_the_formula(rule: str) -> None:
    """Density tests have slack, so m for its square, q tau or a rank forgotten are caught here."""
    for m, p, tau, epsilon in ((1, 1, 0.2, 1.0), (7, 3, 0.4, 1.5), (64, 30, 0.05, 2.0)):
        event = UserGaussianObjectivePerturbation(1.3, 1.3 / 0.15, 0.0, tau, rule, 0.7, m, p)
        assert event.delta(epsilon) == pytest.approx(theorem(rule, m, p, 0.15, epsilon, 0.7, tau), rel=1e-9)
    one = UserGaussianObjectivePerturbation(1.0, 6.0, 0.1, 0.2, rule, 1.0, 1, 1)
    record = GaussianObjectivePerturbation(1.0, 6.0, 0.1, 0.2, rule, 1.0)
    # One row each: Theorem 4 (its two zero vertices with (1.2) and two sides are one here, and needed by neither).
    assert one.delta(1.0) == pytest.approx(record.delta(1.0), rel=1e-12 if rule != "two_sided_sc" else 1e-3)
    masked = replace(one, rho=0.2)
    assert masked.delta(1.0) > one.delta(1.0)
    assert UserGaussianObjectivePerturbation(1.0, 6.0, 0.0, 100.0, rule, 1.0, 1, 1).delta(1.0) == 1.0


def test_a_users_determinant_needs_the_rank_of_all_parameters() -> None:
    """Two orthogonal rows of half the weight bend with ``2 log(1 + t tau / 2)``: more than a record's rank pays."""
    loss, tau = HuberLoss(0.5, 1.0), 3.0
    H = np.eye(2) + tau * np.diag([0.5, 0.5])
    true = math.log(np.linalg.det(H))
    assert rules.curvature_charge(loss, tau, (2, 2))[0] == pytest.approx(true, rel=1e-9)
    assert rules.curvature_charge(loss, tau)[0] < true


def problem(loss: LinearModelLoss | None = None, n: int = 400, **given: object) -> LinearModelProblem:
    return LinearModelProblem(loss or LogisticLoss(), DataDomain.l2_ball(60, 1.0), n, 4.0, records_per_user=3, **given)


USERS = PrivacyParams(1.0, 1e-6, unit="user")


def test_plans_rest_on_the_cap_and_never_on_a_guess() -> None:
    many = objective_perturbation.plan(problem(), USERS, most_rows=16)
    found = {plan.noise_name: plan for plan in many}["gaussian"]
    event = found.releases[0].event
    assert isinstance(event, UserGaussianObjectivePerturbation)
    assert (event.rows, event.parameters) == (16, problem().dim)
    assert 0.99e-6 < event.delta(1.0) <= 1e-6
    pure = [plan for plan in many if plan.noise.event.pure_epsilon is not None]
    assert found.bound < min(plan.bound for plan in pure)  # from 50 columns of a ball on (docs, Record or user)
    assert not found.only_sums
    other = objective_perturbation.plan(replace(problem(), records_per_user=1), USERS, most_rows=16, noise="gaussian")
    assert other[0].releases == found.releases
    for cap, sigma in ((1, 0.9), (64, 1.02)):  # noise grows with the logarithm of the cap
        event = objective_perturbation.plan(problem(), USERS, most_rows=cap, noise="gaussian")[0].releases[0].event
        assert (event.sigma / found.releases[0].event.sigma > sigma) == (cap > 16)


def test_refusals() -> None:
    with pytest.raises(InvalidParameterError, match="noise='gaussian': needs a cap"):
        objective_perturbation.plan(problem(), USERS, noise="gaussian")
    softmax = LinearModelProblem(SoftmaxLoss(3), DataDomain.l2_ball(4, 1.0), 400, 4.0, records_per_user=3)
    with pytest.raises(InvalidParameterError, match="of one output"):
        objective_perturbation.plan(softmax, USERS, noise="gaussian", most_rows=4)
    assert all("gaussian" not in plan.noise_name for plan in objective_perturbation.plan(softmax, USERS, most_rows=4))
    records = replace(problem(), records_per_user=None)
    with pytest.raises(InvalidParameterError, match="most_rows=4: is for users"):
        objective_perturbation.plan(records, PrivacyParams(1.0, 1e-6), most_rows=4)


def test_verify_recomputes_delta_and_knows_the_cap() -> None:
    plan = objective_perturbation.plan(problem(), USERS, most_rows=16, noise="gaussian")[0]
    certificate = plan.certificate(SeededSource(0))
    assert [check.name for check in verify(certificate).checks if not check.passed] == ["noise is not seeded"]
    for change in ({"rows": 15}, {"parameters": plan.problem.dim - 1}, {"rows": 3}):
        forged = certificate.to_dict()
        forged["releases"][0]["event"].update(change)
        read = type(certificate).from_dict(forged)
        assert any("planned again: releases" in c.name for c in verify(read).checks if not c.passed)


def test_the_cap_keeps_whole_distinct_rows() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([3, 40, 1, 200])
    rows = rng.integers(0, 2, (sizes.sum(), 3)).astype(float)
    targets = rng.choice([-1.0, 1.0], len(rows))
    labels = rng.permutation(np.repeat(np.arange(4), sizes))
    groups = UserGroups.of(labels)
    whole = np.column_stack([labels, targets, rows])
    for most in (1, 2, 5, 16):
        kept, found = distinct_within(rows, targets, groups, most, np.random.default_rng(most))
        assert (np.diff(kept) > 0).all()
        assert found.n_users == 4
        for user in range(4):
            own, left = whole[labels == user], whole[kept][labels[kept] == user]
            distinct = np.unique(own, axis=0)
            stay = np.unique(left, axis=0)
            assert len(stay) == min(most, len(distinct))
            for row in stay:  # all copies
                assert (left == row).all(1).sum() == (own == row).all(1).sum()
    again, _ = distinct_within(rows, targets, groups, 200, np.random.default_rng(0))
    assert len(again) == len(rows)


@pytest.mark.gate
def test_what_stays_is_uniform_and_depends_on_the_users_own_rows_alone() -> None:
    """Over 3000 draws each of a user's six rows stays half of the time, whoever else is there (6 s.e.)."""
    own = np.arange(6.0)[:, None]
    for others in (0, 50):
        rows = np.concatenate([own, np.arange(others, dtype=float)[:, None]])
        groups = UserGroups.of(np.repeat([1, 0], [6, others]) if others else np.ones(6))
        counts = np.zeros(6)
        for seed in range(3000):
            kept, _ = distinct_within(rows, np.ones(len(rows)), groups, 3, np.random.default_rng(seed))
            counts[kept[kept < 6]] += 1
        assert counts.sum() == 9000
        assert (np.abs(counts / 3000 - 0.5) < 6 * 0.5 / math.sqrt(3000)).all()


def test_a_run_caps_before_it_weighs() -> None:
    """A user of five rows under cap 1 counts like one with a single row: the fit is that of the row that stays."""
    plan = objective_perturbation.plan(problem(n=20), USERS, most_rows=1, noise="gaussian")[0]
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(24, 60)) / 8, rng.choice([-1.0, 1.0], 24)
    groups = UserGroups.of(np.minimum(np.arange(24), 19))
    kept, few = distinct_within(plan.problem.domain.clip(X), y, groups, 1, SeededSource(5).generator())
    points = [
        plan.run(*data).point for data in ((X, y, SeededSource(5), groups), (X[kept], y[kept], SeededSource(5), few))
    ]
    assert len(kept) == 20
    np.testing.assert_allclose(*points, rtol=1e-6, atol=1e-6 * np.abs(points[0]).max())
