"""Newton's method in a ball: its certificate against independent references, on plain and truncated risks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize

from dpconvex._types import Status
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.problems import DataDomain, Records, RegularizedRisk
from dpconvex.problems.linear.truncated import TruncatedRisk, Truncation
from dpconvex.sets import BallSection, Box, L2Ball
from dpconvex.solvers import AcceleratedGradient, BallNewton, Guaranteed
from dpconvex.solvers.newton import normal_cone

DIM = 4
DOMAIN = DataDomain.l2_ball(DIM, 5.0)


def problem(seed, loss, truncated=True, n=40, l2=0.3):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_t(2.5, (n, DIM)), rng.standard_t(2.5, n)
    records = Records.clipped(X, DOMAIN)
    if truncated:
        return TruncatedRisk(loss, records, y, l2, Truncation(2.0, 1.0, 0.01), 0.5 * rng.standard_normal(DIM))
    return RegularizedRisk(loss, records, y, l2, 0.5 * rng.standard_normal(DIM))


@pytest.mark.gate
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), radius=st.sampled_from([0.05, 0.4, 3.0]), truncated=st.booleans())
def test_the_certified_bound_is_true(seed, radius, truncated) -> None:
    """Reference: accelerated gradient to 1e-9, a method with another certificate."""
    for loss in (LogisticLoss(), HuberLoss(), *([AbsoluteLoss()] if truncated else [])):
        objective, ball = problem(seed, loss, truncated), L2Ball(radius)
        reference = AcceleratedGradient().solve(objective, 1e-9, ball)
        assert reference.status is Status.CERTIFIED
        for wanted in (1e-2, 1e-7):
            found = BallNewton().solve(objective, wanted, ball)
            assert found.status is Status.CERTIFIED
            assert found.accuracy.bound <= wanted
            assert ball.contains(found.point, 1e-13)
            assert np.linalg.norm(found.point - reference.point) <= found.accuracy.bound + 1e-9


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), onto=st.booleans(), radius=st.sampled_from([0.3, 3.0]))
def test_the_certificate_holds_at_any_point(seed, onto, radius) -> None:
    """Also on the sphere with the minimizer inside, where no normal vector may help."""
    rng = np.random.default_rng(seed)
    objective, ball = problem(seed, LogisticLoss()), L2Ball(radius)
    best = AcceleratedGradient().solve(objective, 1e-9, ball).point
    w = best + 10.0 ** rng.uniform(-6, 0) * rng.standard_normal(DIM)
    w *= radius / np.linalg.norm(w) if onto else min(1.0, 0.97 * radius / np.linalg.norm(w))
    bound = normal_cone(objective, ball, w, objective.gradient(w)).bound
    assert np.linalg.norm(w - best) <= bound + 1e-9


def test_against_a_general_purpose_optimizer() -> None:
    for seed in range(5):
        objective = problem(seed, HuberLoss())
        for radius in (0.2, 50.0):
            ours = BallNewton().solve(objective, 1e-8, L2Ball(radius)).point
            constraint = {"type": "ineq", "fun": lambda w, r=radius: r**2 - w @ w}
            theirs = minimize(
                objective.value, np.zeros(DIM), method="SLSQP", constraints=[constraint], options={"ftol": 1e-14}
            )
            assert objective.value(ours) <= theirs.fun + 1e-9
            assert np.linalg.norm(ours - theirs.x) < 1e-3


def test_no_constraint_start_and_refusals() -> None:
    objective = problem(0, SquaredLoss(10.0))
    found = BallNewton().solve(objective, 1e-8, start=np.ones(DIM))
    assert found.status is Status.CERTIFIED
    assert np.linalg.norm(objective.gradient(found.point)) < 1e-8
    assert BallNewton(max_steps=0).solve(objective, 1e-8, L2Ball(1.0)).status is Status.STEP_LIMIT
    with pytest.raises(InvalidParameterError, match="project"):
        BallNewton().solve(objective, 1e-8, Box(-1.0, 1.0, dim=DIM))
    with pytest.raises(InvalidParameterError, match="smooth"):
        BallNewton().solve(problem(0, AbsoluteLoss(), truncated=False), 1e-8)


def test_certificates_hold_in_the_part_of_a_small_ball() -> None:
    """A record that pulls out of a ball of radius 0.01: a wrong projection there once certified a point 0.1 away."""
    rng, radius = np.random.default_rng(0), 1e-6
    for _ in range(12):
        center = rng.standard_normal(3)
        center *= 0.9 / np.linalg.norm(center)
        section = BallSection(1.0, 0.01, center)
        X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
        X[0] *= 100
        for sign in (1.0, -1.0):
            y[0] = sign * 1e6
            records = Records.clipped(X, DataDomain.l2_ball(3, 1e3))
            risk = TruncatedRisk(HuberLoss(), records, y, 1.0, Truncation(0.02, 1.0, 1.0), center)
            solved = Guaranteed(BallNewton(), AcceleratedGradient()).solve(risk, radius, section)
            free = BallNewton().solve(risk, 1e-9, L2Ball(1.0)).point
            assert solved.status is Status.CERTIFIED
            g = risk.gradient(solved.point)
            corner = section.linear_minimizer(g)  # C2: the gap of a point bounds its distance
            gap = float(g @ (solved.point - corner))
            assert gap <= 2 * radius * (np.linalg.norm(g) + 1)
            if section.contains(free, 0.0):
                assert np.linalg.norm(solved.point - free) <= radius + 1e-9


def test_a_point_that_may_be_beyond_the_inner_sphere_claims_nothing() -> None:
    """Near the center of the inner ball, with a bound that reaches out of it: no distance to *its* minimizer."""
    objective = problem(0, HuberLoss())
    best = BallNewton().solve(objective, 1e-9, L2Ball(1.0)).point
    center = best / 2
    section = BallSection(1.0, 0.4 * float(np.linalg.norm(best)), center)
    found = BallNewton(max_steps=0).solve(objective, 1e-3, section, center)
    assert found.status is not Status.CERTIFIED
    assert np.isinf(found.accuracy.bound)
