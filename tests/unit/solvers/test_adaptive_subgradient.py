"""The reference methods of the heavy-tail paper: certified stop for any slope, inexact projection, cutting planes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex._types import Floats, Status
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, LogisticLoss
from dpconvex.problems import DataDomain, Objective, Records, RegularizedRisk
from dpconvex.problems.linear.truncated import TruncatedRisk, Truncation
from dpconvex.sets import Box, L2Ball
from dpconvex.solvers import BallNewton, CuttingPlane, DualCoordinateAscent, Guaranteed
from dpconvex_experiments.reference.extensions import adaptive_subgradient, biased_subgradient


def project_onto_section(
    project: Callable[[Floats], Floats], point: Floats, center: Floats, radius: float, distance: float
) -> Floats:
    """Return a member of ``W`` and the ball around `center` within `distance` of the nearest one.

    Lowy 2026, Lemma 2.8: bisection on the multiplier of the ball; the end inside the ball is kept, so the result is a
    member whatever the accuracy. `project` is the exact projection onto W, `center` a member of W.
    """
    nearest = project(point)
    if float(np.linalg.norm(nearest - center)) <= radius:
        return nearest
    reach = float(np.linalg.norm(point - center))
    low, high = 0.0, reach / radius

    def at(multiplier: float) -> Floats:
        return project((point + multiplier * center) / (1 + multiplier))

    best = at(high)
    for _ in range(math.ceil(math.log2(1 + reach**2 / (radius * distance)))):
        middle = 0.5 * (low + high)
        x = at(middle)
        if float(np.linalg.norm(x - center)) > radius:
            low = middle
        else:
            high, best = middle, x
    return best


def biased_subgradient_gap(
    diameter: float, lipschitz: float, steps: int, eta: float, bias: float, distance: float
) -> float:
    """Return the bound of Lemma D.5: ``D^2/(2 eta T) + eta L^2/2 + B + D xi/eta + xi^2/(2 eta)``.

    T steps of size eta along subgradients of bias B and length L, with projections to a distance xi.
    """
    projections = diameter * distance / eta + distance**2 / (2 * eta)
    return diameter**2 / (2 * eta * steps) + eta * lipschitz**2 / 2 + bias + projections


def test_the_count_of_the_specification() -> None:
    """T7: |x - 0.3| on [0, 1], target 0.1, from 0 stops at step 900 (901 where rounding breaks the tie)."""
    found = adaptive_subgradient(
        lambda x: np.sign(x - 0.3), lambda x, _: np.clip(x, 0.0, 1.0), np.zeros(1), 1.0, 0.1, max_steps=1000
    )
    assert found.certified
    assert found.steps in (900, 901)
    assert abs(found.point[0] - 0.3) <= 0.1


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), spread=st.floats(0, 6))
def test_a_certified_stop_is_right_whatever_the_slopes(seed, spread) -> None:
    """Random piecewise linear functions with slopes spread over decades, projections inexact against us."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((4, 2)) * 10.0 ** rng.uniform(-spread, 0, (4, 1)), rng.standard_normal(4) * 0.1
    seen = [0.0]

    def subgradient(x):
        g = a[np.argmax(a @ x + b)]
        seen.append(float(np.linalg.norm(g)))
        return g

    def project(x, distance):
        p = np.clip(x, -1, 1)
        return np.clip(p + distance / 2 * rng.uniform(-1, 1, 2), -1, 1)

    diameter, target = 2 * math.sqrt(2), 0.3
    found = adaptive_subgradient(subgradient, project, np.ones(2), diameter, target, max_steps=20_000)
    assert found.certified
    assert found.steps <= math.ceil((3 * diameter * max(seen) / target) ** 2)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    least = (grid @ a.T + b).max(1).min()
    assert (a @ found.point + b).max() <= least + target


def test_huge_slopes_do_not_overflow() -> None:
    found = adaptive_subgradient(
        lambda x: np.full(1, 1e200), lambda x, _: np.clip(x, 0.0, 1.0), np.ones(1), 1.0, 1e199, max_steps=1000
    )
    assert found.certified
    assert not adaptive_subgradient(
        lambda x: np.full(1, math.nan), lambda x, _: x, np.ones(1), 1.0, 1.0, max_steps=10
    ).certified


@pytest.mark.gate
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), bias=st.sampled_from([0.0, 0.02, 0.1]))
def test_constant_steps_keep_their_bound_with_biased_subgradients(seed, bias) -> None:
    """T9: subgradients taken where the function is at most `bias` off, projections inexact against us."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((4, 2)), rng.standard_normal(4) * 0.1
    diameter, target = 2 * math.sqrt(2), 0.4
    lipschitz = float(np.linalg.norm(a, axis=1).max())

    def subgradient(x):
        values = a @ x + b
        allowed = np.flatnonzero(values >= values.max() - bias)  # a plane that low at x is a bias-subgradient
        return a[rng.choice(allowed)]

    def project(x, distance):
        return np.clip(np.clip(x, -1, 1) + distance / 2 * rng.uniform(-1, 1, 2), -1, 1)

    steps = math.ceil((4 * diameter * lipschitz / target) ** 2)
    eta = diameter / (lipschitz * math.sqrt(steps))
    found = biased_subgradient(subgradient, project, np.ones(2), diameter, target, lipschitz)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    gap = (a @ found + b).max() - (grid @ a.T + b).max(1).min()
    bound = biased_subgradient_gap(diameter, lipschitz, steps, eta, bias, min(diameter, target * eta / (6 * diameter)))
    assert gap <= bound
    assert bound <= 0.75 * target + bias
    short = biased_subgradient(subgradient, project, np.ones(2), diameter, target, lipschitz, steps=1)
    assert np.array_equal(short, np.ones(2))


@pytest.mark.parametrize(
    ("point", "wanted"),
    [((2.0, 2.0), (1.0, 0.5)), ((-1.0, 0.2), (0.5024814049, 0.0497518595)), ((0.9, 0.1), (0.9, 0.1))],
)
def test_published_projections(point, wanted) -> None:
    """T8: the unit square and the ball of radius 1/2 around (1, 0)."""
    found = project_onto_section(Box(0.0, 1.0, dim=2).project, np.array(point), np.array([1.0, 0.0]), 0.5, 1e-10)
    assert np.allclose(found, wanted, atol=2e-10)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), accuracy=st.sampled_from([1e-1, 1e-4, 1e-8]))
def test_inexact_projections_are_members_near_the_exact_one(seed, accuracy) -> None:
    rng, calls = np.random.default_rng(seed), [0]
    box, radius = Box(-1.0, 1.0, dim=3), rng.uniform(0.1, 2)
    center, point = box.project(rng.standard_normal(3)), 3 * rng.standard_normal(3)

    def project(w):
        calls[0] += 1
        return box.project(w)

    found = project_onto_section(project, point, center, radius, accuracy)
    assert calls[0] <= math.ceil(math.log2(1 + float(np.sum((point - center) ** 2)) / (radius * accuracy))) + 2
    exact = project_onto_section(box.project, point, center, radius, 1e-13)
    assert box.contains(found)
    assert np.linalg.norm(found - center) <= radius * (1 + 1e-12)
    assert np.linalg.norm(found - exact) <= accuracy + 1e-11


@pytest.mark.parametrize("loss", [AbsoluteLoss(), HingeLoss(), LogisticLoss()], ids=repr)
@pytest.mark.dear("AbsoluteLoss")
def test_cutting_planes_agree_with_another_method(loss) -> None:
    """Newton on a barely smoothed loss: two certificates that share nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), rng.standard_normal(50)
    records = Records.clipped(X, DataDomain.l2_ball(3, 3.0))
    plain = RegularizedRisk(loss, records, y, 0.4)
    smooth = TruncatedRisk(loss, records, y, 0.4, Truncation(3.0, 10.0, 1e-8))
    for ball in (L2Ball(0.2), L2Ball(5.0)):
        planes = CuttingPlane(max_steps=500).solve(plain, 3e-4, ball)
        newton = BallNewton().solve(smooth, 1e-4, ball)
        assert planes.status is newton.status is Status.CERTIFIED
        apart = np.linalg.norm(planes.point - newton.point)
        assert apart <= planes.accuracy.bound + newton.accuracy.bound + math.sqrt(1e-8 * 9 / 0.4)


def test_steps_suffice_on_a_hard_case() -> None:
    """The a-priori count is an upper bound of what is needed."""
    rng = np.random.default_rng(1)
    records = Records.clipped(rng.standard_normal((30, 2)), DataDomain.l2_ball(2, 1.0))
    objective = RegularizedRisk(AbsoluteLoss(), records, rng.standard_normal(30), 0.5)
    found = CuttingPlane().solve(objective, 0.05, L2Ball(1.0))
    assert found.status is Status.CERTIFIED
    assert found.steps <= CuttingPlane.steps_for(2.0, 0.5, 0.05)


@pytest.mark.gate
def test_the_gap_that_is_claimed_covers_the_true_one_at_every_step() -> None:
    """The lower bound closes in, so a gap reported four times too small would be refuted."""
    rng = np.random.default_rng(2)
    records = Records.clipped(rng.standard_normal((40, 3)), DataDomain.l2_ball(3, 3.0))
    objective = RegularizedRisk(HingeLoss(), records, rng.standard_normal(40), 0.2)
    ball = L2Ball(4.0)
    least = objective.value(CuttingPlane(max_steps=400).solve(objective, 1e-6, ball).point)
    tightest = math.inf
    for steps in range(1, 40, 1):
        found = CuttingPlane(max_steps=steps).solve(objective, 1e-6, ball)
        claimed = 0.2 / 2 * found.accuracy.bound**2
        true = objective.value(found.point) - least
        assert true <= claimed + 1e-12
        if true > 1e-9:
            tightest = min(tightest, claimed / true)
    assert tightest < 3


# The oracle interface of cutting planes: values of a stated error


class Blurred(Objective):
    """``|<a, w> - 1| + l2/2 |w|^2`` on a ball, by values that an adversary lowers by up to `oracle_error`."""

    everywhere = False

    def __init__(self, error: float) -> None:
        self.l2, self.oracle_error, self.a, self.coins = 0.5, error, np.array([1.5, -1.0]), np.random.default_rng(0)

    bounds = property(lambda self: AbsoluteLoss())
    dim, smoothness, minimizer_norm, initial_gap = 2, math.inf, math.inf, math.inf

    def lipschitz_within(self, radius: float) -> float:
        return float(np.linalg.norm(self.a)) + self.l2 * radius

    def plane_slope(self, radius: float) -> float:
        return float(np.linalg.norm(self.a))

    def value_and_gradient(self, w):
        v = float(self.a @ w) - 1
        lowered = abs(v) + self.l2 / 2 * float(w @ w) - self.oracle_error * self.coins.uniform(0.9, 1)
        return lowered, np.sign(v) * self.a + self.l2 * w

    def gradient_rounding(self, w: np.ndarray) -> float:
        return 0.0

    def value_rounding(self, value: float, w: np.ndarray) -> float:
        return self.oracle_error


@pytest.mark.parametrize("share", [1e-6, 1 / 8, 1 / 4])
def test_an_oracle_with_an_error_never_ends_without_a_certificate(share) -> None:
    """Lemma 8.0 of the specification: ``e + 2B <= alpha`` within ``16 / (1 - 2B/alpha) (L / (mu r))^2`` planes."""
    radius = 0.02
    objective = Blurred(share * 0.5 / 2 * radius**2)
    found = CuttingPlane().solve(objective, radius, L2Ball(1.0))
    assert found.status is Status.CERTIFIED
    exact = CuttingPlane().solve(Blurred(1e-12), 1e-4, L2Ball(1.0)).point
    assert np.linalg.norm(found.point - exact) <= found.accuracy.bound + 1e-4
    plain, blurred = (CuttingPlane.steps_for(2.0, 0.5, radius, b) for b in (0.0, objective.oracle_error))
    assert blurred - 64 >= (plain - 64) / (1 - 2 * share) * (1 - 1e-3)


def test_errors_that_would_drown_the_certificate_are_refused_as_public_facts() -> None:
    with pytest.raises(InvalidParameterError, match="must be at least"):
        CuttingPlane().solve(Blurred(0.26 * 0.25 * 1e-4), 0.01, L2Ball(1.0))


def test_objectives_that_end_at_their_set_are_not_solved_beyond_it() -> None:
    for solver in (CuttingPlane(), Guaranteed(DualCoordinateAscent(), CuttingPlane())):
        with pytest.raises(InvalidParameterError, match="on which the objective is defined"):
            solver.solve(Blurred(1e-9), 0.1)
