"""Lipschitz extensions: published values, brute force, planes, the bias bounds, and the joint reformulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex._types import Status
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss
from dpconvex.problems import DataDomain, Records
from dpconvex.problems.linear.lipschitz_extension import Pieces, lipschitz_extension
from dpconvex.problems.linear.truncated import ExtensionRisk
from dpconvex.sets import Box, Ellipsoid, L2Ball, Polytope
from dpconvex.solvers import CuttingPlane
from dpconvex_experiments.reference.extensions import JointProblem, adaptive_subgradient

RANGES = {"affine": (1.0, 1.0), "hinge": (0.0, 1.0), "absolute": (-1.0, 1.0)}
DOMAINS = (L2Ball(1.0, dim=2), Box(-0.5, 1.0, dim=2), Ellipsoid([1.0, 0.4]))

# Specification of the heavy-tail paper, T1: unit disc; kind, a, b, C, w, f_C(w), subgradient.
GOLDEN = [
    ("affine", (3, 0), 0, 1, (0, 0), -2, (1, 0)),
    ("affine", (3, 0), 0, 1, (0, 1), -1.6803096879, (0.7953336454, 0.6061719166)),
    ("affine", (3, 4), 1, 2, (0.6, 0.5), -0.4666527509, (1.3153012759, 1.5066461276)),
    ("hinge", (3, 0), 1, 1, (0.8, 0.1), 1.1333333333, (1, 0)),
    ("hinge", (3, 0), 4, 1, (0.8, 0.1), 2.8021733878, (0.9990552876, 0.0434572462)),
    ("hinge", (3, 0), 2.9, 1, (0.1, 0.9), 1.2459793692, (0.8560869410, 0.5168318387)),
    ("absolute", (2, 1), -2, 1, (-0.5, 0.5), 1.1401754251, (-0.9647638212, -0.2631174058)),
    ("absolute", (2, 1), -0.5, 1, (-0.5, 0.5), 0.4472135955, (-0.8944271910, -0.4472135955)),
    ("absolute", (0.3, 0.4), -2, 1, (-0.5, 0.5), 1.95, (-0.3, -0.4)),
]


def pieces(kind, a, b):
    a = np.atleast_2d(np.asarray(a, dtype=float))
    lower, upper = RANGES[kind]
    return Pieces(a, np.full(len(a), b, dtype=float), np.full(len(a), lower), np.full(len(a), upper))


def disc_points(domain, rng, n=4000):
    return domain.project_rows(rng.uniform(-1.5, 1.5, (n, 2)))


@pytest.mark.parametrize(("kind", "a", "b", "level", "w", "value", "slope"), GOLDEN)
def test_published_values(kind, a, b, level, w, value, slope) -> None:
    found = lipschitz_extension(pieces(kind, a, b), np.array(w, dtype=float), level, L2Ball(1.0), 1e-12)
    assert found.upper - found.lower < 2e-12
    assert found.lower[0] == pytest.approx(value, abs=2e-10)
    assert np.allclose(found.slopes[0], slope, atol=2e-6)


def test_one_dimension() -> None:
    found = lipschitz_extension(pieces("affine", (10.0,), 0.0), np.array([0.7]), 1.0, Box(0.0, 1.0, dim=1), 1e-12)
    assert found.upper[0] == pytest.approx(0.7, abs=1e-11)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(list(RANGES)), index=st.integers(0, 2), size=st.floats(-2, 6))
def test_brackets_and_planes_hold_for_every_record(seed, kind, index, size) -> None:
    """Against the definition on a fine set of points; planes below f_C everywhere; slopes at most C; f_C <= f."""
    rng, domain, level = np.random.default_rng(seed), DOMAINS[index], 0.8
    some = pieces(kind, rng.standard_normal((3, 2)) * 10.0**size, 0.0)
    some = Pieces(some.slopes, rng.standard_normal(3) * 10.0**size, some.lower, some.upper)
    w, rounding = domain.project(rng.uniform(-1, 1, 2)), 1e-12 * 10.0**size
    found = lipschitz_extension(some, w, level, domain, 1e-9)
    assert np.all(found.upper - found.lower <= 1e-9 + rounding)
    assert np.all(np.linalg.norm(found.slopes, axis=1) <= level * (1 + 1e-9))
    assert np.all(found.upper <= some.values(w) + rounding)
    cloud = disc_points(domain, rng)
    v = cloud @ some.slopes.T + some.offsets
    table = np.maximum(some.lower * v, some.upper * v)  # (points, 3)
    brute = (table + level * np.linalg.norm(w - cloud, axis=1)[:, None]).min(0)
    assert np.all(found.lower <= brute + rounding + 1e-12)
    others = disc_points(domain, rng, 2)
    for u in others:
        at_u = lipschitz_extension(some, u, level, domain, 1e-9)
        plane = found.lower + found.slopes @ (u - w)
        assert np.all(plane <= at_u.upper + rounding + 1e-11)
        assert np.all(np.abs(at_u.upper - found.upper) <= level * np.linalg.norm(u - w) + 3e-9 + rounding)


def test_bias_of_the_value_and_where_the_paper_misuses_it() -> None:
    """f - f_C <= D (A - C)+ on W (T2); on a part of W the bound must still use the diameter of W (T3, erratum E1)."""
    some, domain = pieces("affine", (10.0,), 0.0), Box(0.0, 1.0, dim=1)
    w = np.array([0.99])
    bias = some.values(w)[0] - lipschitz_extension(some, w, 1.0, domain, 1e-12).upper[0]
    assert bias == pytest.approx(8.91, abs=1e-9)
    assert bias <= 1.0 * (10 - 1)
    assert bias > 0.01 * (10 - 1)


def risk(loss, seed=0, m=12, level=1.0, domain=None, tolerance=1e-8):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2.1, (m, 2)) * 2
    records = Records.clipped(X, DataDomain.l2_ball(2, 1e6))
    return ExtensionRisk(loss, records, rng.standard_normal(m), 0.8, level, domain or L2Ball(1.0), tolerance)


EXTENDED = [(AbsoluteLoss(), DOMAINS[0]), (HingeLoss(), DOMAINS[1])]
OTHERS = [(loss, domain) for loss in (AbsoluteLoss(), HingeLoss()) for domain in DOMAINS]


@pytest.mark.parametrize(
    ("loss", "domain"),
    [*EXTENDED, *(pytest.param(*each, marks=pytest.mark.gate) for each in OTHERS if each not in EXTENDED)],
    ids=repr,
)
def test_cutting_planes_certify_the_extended_risk(loss, domain) -> None:
    objective = risk(loss, domain=domain)
    found = CuttingPlane().solve(objective, 1e-2, domain)
    sharper = CuttingPlane().solve(objective, 2.5e-3, domain)
    assert found.status is sharper.status is Status.CERTIFIED
    assert np.linalg.norm(found.point - sharper.point) <= found.accuracy.bound + sharper.accuracy.bound
    rng = np.random.default_rng(1)
    rivals = disc_points(domain, rng, 5)
    assert objective.value(sharper.point) <= min(map(objective.value, rivals)) + 1e-6


@pytest.mark.parametrize("seeds", [1, pytest.param(2, marks=pytest.mark.gate)])
def test_distance_to_the_untruncated_minimizer(seeds) -> None:
    """At most 2 / (l2 m) times the sum of A_i over the records with A_i > C, for every data set (T4)."""
    for seed in range(seeds):
        for level in (0.5, 2.0):
            objective, plain = (risk(AbsoluteLoss(), seed, level=c) for c in (level, 1e3))
            points = [CuttingPlane().solve(r, 1e-3, L2Ball(1.0)).point for r in (objective, plain)]
            pieces = objective.pieces
            norms = np.linalg.norm(pieces.slopes, axis=1) * np.maximum(-pieces.lower, pieces.upper)
            bound = 2 / objective.l2 * np.where(norms > level, norms, 0.0).mean()
            assert np.linalg.norm(points[0] - points[1]) <= bound + 2e-3


def test_the_joint_reformulation_has_the_same_minimizer(full: bool) -> None:
    """Lemma 2.7, by the paper's own solver on two records; T6."""
    objective = risk(AbsoluteLoss(), 3, m=2)
    some, ball = objective.pieces, L2Ball(1.0)

    def subgradients(y):
        v = np.einsum("ij,ij->i", some.slopes, y) + some.offsets
        return np.sign(v)[:, None] * some.slopes

    joint = JointProblem(some.values, subgradients, 2, 2, objective.level, objective.l2, np.zeros(2), ball.project)
    alpha = 0.2 if full else 0.5
    found = adaptive_subgradient(
        joint.subgradient, joint.project_joint, np.zeros(6), 2 * np.sqrt(3.0), alpha, max_steps=100_000
    )
    assert found.certified
    exact = CuttingPlane().solve(objective, 1e-3, ball).point
    shift = objective.anchors.mean()
    least = objective.value(exact) + shift
    assert joint.value(found.point) <= least + alpha
    assert least - 1e-5 <= objective.value(found.point[:2]) + shift <= joint.value(found.point) + 1e-9


@pytest.mark.parametrize("points", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", list(RANGES))
@pytest.mark.parametrize("domain", [L2Ball(1.0), Box(-1.0, 1.0, dim=3)], ids=repr)
@pytest.mark.thin
def test_planes_hold_at_accuracies_where_rounding_turns_them(kind, domain, points) -> None:
    """Steep records and a tolerance below what floats allow: planes are lower, never wrong (they were, by 1e-7)."""
    rng, worst = np.random.default_rng(0), -math.inf
    for size in (1.0, 1e3, 1e8):
        n = 25
        records = Pieces(
            3 * size * rng.standard_normal((n, 3)),
            2 * size * rng.standard_normal(n),
            *np.array(RANGES[kind])[:, None] * np.ones(n),
        )
        for _ in range(points):
            w = domain.project(2 * rng.standard_normal(3))
            found = lipschitz_extension(records, w, 1.0, domain, 1e-12)
            for _ in range(points):
                u = domain.project(w + 10.0 ** rng.uniform(-3, 1) * rng.standard_normal(3))
                upper = lipschitz_extension(records, u, 1.0, domain, 1e-8).upper
                worst = max(worst, float((found.lower + found.slopes @ (u - w) - upper).max()))
    assert worst <= 0


# Errata of the heavy-tail paper (docs, Errata)


def test_e6_the_hidden_direction_of_theorem_b1_shows_in_the_first_gradient() -> None:
    """E6: ``f_i(y) = g_i(<v, y>)``, ``g_i(t) = -a t + beta_i phi(t)``: equal at all queries across v, which is where
    an adaptive algorithm does not stay: its second query is the first gradient, whatever v is chosen afterwards.
    """
    a, betas, v = 1.5, (0.5, 1.0), np.array([0.6, 0.0, 0.8])
    s = np.linspace(0, 1, 20_001)
    eta = np.exp(-1 / np.maximum(s, 1e-3) ** 2)
    slope = np.concatenate([[0.0], np.cumsum((eta[1:] + eta[:-1]) / 2) * s[1]])
    phi = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2) * s[1]])

    def oracle(beta, y):
        t = abs(float(v @ y))
        value = -a * float(v @ y) + beta * np.interp(t, s, phi)
        return value, (-a + beta * np.sign(v @ y) * np.interp(t, s, slope)) * v

    for y in (np.zeros(3), np.array([0.8, 0.0, -0.6]), np.array([0.0, 1.0, 0.0])):  # not adaptive: orthogonal to v
        (f0, g0), (f1, g1) = (oracle(beta, y) for beta in betas)
        assert f0 == f1
        assert np.array_equal(g0, g1)
    first = oracle(betas[0], np.zeros(3))[1]
    second = -first / np.linalg.norm(first)
    np.testing.assert_allclose(second, v, atol=1e-15)
    assert oracle(betas[1], second)[0] - oracle(betas[0], second)[0] > 0.005
    extended = [np.min(-a * s + beta * phi + 1.0 * s) for beta in betas]  # f_C(0), C = 1: they do differ
    assert extended[1] - extended[0] > 0.005


def test_e13_the_printed_lipschitz_constant_of_the_joint_problem_is_loose() -> None:
    """E13: ``A + 2C + l2 D``, where ``C + l2 D + (A + C)/sqrt(m)`` holds: the y-blocks are divided by m."""
    m, A, C, l2, rng = 100, 50.0, 1.0, 0.1, np.random.default_rng(0)
    ball, longest = L2Ball(1.0), 0.0
    signs = rng.standard_normal((m, 2))
    signs *= A / np.linalg.norm(signs, axis=1, keepdims=True)
    joint = JointProblem(lambda y: (signs * y).sum(1), lambda _: signs, m, 2, C, l2, np.zeros(2), ball.project)
    for _ in range(20):
        point = np.concatenate([ball.project(rng.standard_normal(2)) for _ in range(m + 1)])
        longest = max(longest, float(np.linalg.norm(joint.subgradient(point))))
    assert longest <= C + l2 * 2 + (A + C) / math.sqrt(m) < (A + 2 * C + l2 * 2) / 7


def test_e15_e19_planes_keep_to_the_level_where_subgradients_relative_to_the_set_have_no_bound() -> None:
    """E15, E19: at the border any multiple of the outward normal is a subgradient too; planes are C long, not 2C."""
    some, level, w, members = pieces("absolute", (3.0, 1.0), -0.2), 1.0, np.array([0.6, 0.8]), np.eye(2) / 2
    plane = lipschitz_extension(some, w, level, L2Ball(1.0), 1e-9)
    assert np.linalg.norm(plane.slopes) <= level * (1 + 1e-9)
    steeper = plane.slopes[0] + 1e6 * w  # w is its own outward normal; still below at every member
    for u in members:
        assert plane.lower[0] + steeper @ (u - w) <= lipschitz_extension(some, u, level, L2Ball(1.0), 1e-9).upper[0]


def test_e18_a_set_without_interior_is_refused_with_the_way_out() -> None:
    """E18: "polytopes have a strictly feasible point" is false for the simplex; its equation must go first."""
    rows, bounds = [[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0], [-1.0, -1.0]], [0.0, 0.0, 1.0, -1.0]
    with pytest.raises(InvalidParameterError, match="Eliminate the equations"):
        Polytope(rows, bounds)
    found = lipschitz_extension(pieces("affine", (3.0,), 0.0), np.array([0.5]), 1.0, Box(0.0, 1.0, dim=1), 1e-9)
    assert found.upper[0] == pytest.approx(0.5, abs=1e-8)  # the line between the corners, by one coordinate
