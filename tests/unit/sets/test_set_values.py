"""Particular sets: known projections, a projection by other means, large inputs, parameter checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex.sets import BallSection, Box, Ellipsoid, L1Ball, L2Ball, Polytope, SecondOrderCones, Simplex, WholeSpace


def test_known_projections() -> None:
    np.testing.assert_allclose(L2Ball(1.0).project(np.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-15)
    np.testing.assert_allclose(L1Ball(1.0).project(np.array([2.0, -1.5, 0.1])), [0.75, -0.25, 0.0], atol=1e-15)
    np.testing.assert_allclose(Simplex(3).project(np.array([0.5, 0.5, -3.0])), [0.5, 0.5, 0.0], atol=1e-15)
    np.testing.assert_allclose(Simplex(4, 2.0).project(np.full(4, 7.0)), np.full(4, 0.5), atol=1e-15)
    np.testing.assert_array_equal(Box([0.0, -1.0], 1.0).project(np.array([-2.0, 0.5])), [0.0, 0.5])
    np.testing.assert_array_equal(WholeSpace().project(np.array([-2.0, 0.5])), [-2.0, 0.5])


@pytest.mark.parametrize("seed", range(5))
def test_projections_by_bisection_on_the_threshold(seed: int) -> None:
    """The optimality condition fixes one threshold, found here by root search instead of by sorting."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(50) * 10.0 ** rng.uniform(-1, 3)
    total = 0.7

    def threshold(v: np.ndarray) -> float:
        low, high = v.min() - total, v.max()
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(v - middle, 0).sum() > total else (low, middle)
        return low

    tolerance = 1e-12 * np.abs(w).max()
    np.testing.assert_allclose(Simplex(50, total).project(w), np.maximum(w - threshold(w), 0), atol=tolerance)
    size = np.abs(w)
    expected = np.sign(w) * np.maximum(size - threshold(size), 0)
    np.testing.assert_allclose(L1Ball(total).project(w), expected, atol=tolerance)


def test_a_huge_entry_does_not_swallow_the_radius() -> None:
    np.testing.assert_array_equal(L1Ball(1.0).project(np.array([1e308, -3.0, 2.0])), [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(Simplex(3).project(np.array([-1e308, 1e308, 0.0])), [0.0, 1.0, 0.0])
    np.testing.assert_allclose(L2Ball(1.0).project(np.array([1e308, 1e308])), np.full(2, math.sqrt(0.5)), rtol=1e-15)


def test_large_projection_keeps_its_sum() -> None:
    w = np.random.default_rng(0).standard_normal(200_000)
    for constraint in (Simplex(len(w)), L1Ball(30.0), L1Ball(30.0, dim=len(w))):
        assert np.abs(constraint.project(w)).sum() == pytest.approx(constraint.radius, rel=1e-13)
    assert np.linalg.norm(L2Ball(0.1).project(w)) == pytest.approx(0.1, rel=1e-14)


def test_equal_roundings_do_not_add_up() -> None:
    """A million entries that are rounded alike would move the sum by 1e-10."""
    w = np.full(1_000_001, 1e-7)
    w[0] = 1.0
    assert Simplex(len(w)).project(w).sum() == pytest.approx(1.0, rel=1e-14)


def test_a_negative_weight_is_no_member_of_the_simplex() -> None:
    assert not Simplex(3).contains(np.array([0.8, 0.4, -0.2]))
    assert Simplex(3).contains(np.array([0.8, 0.4, -0.2]), tolerance=0.21)
    assert not Simplex(3).contains(np.array([0.8, 0.4, 0.0]))


def test_known_linear_minimizers() -> None:
    g = np.array([3.0, -4.0])
    np.testing.assert_allclose(L2Ball(2.0).linear_minimizer(g), [-1.2, 1.6], rtol=1e-15)
    np.testing.assert_array_equal(L1Ball(2.0).linear_minimizer(g), [0.0, 2.0])
    np.testing.assert_array_equal(Simplex(2, 3.0).linear_minimizer(g), [0.0, 3.0])
    np.testing.assert_array_equal(Box(-1.0, 2.0, dim=2).linear_minimizer(g), [-1.0, 2.0])


def test_sizes() -> None:
    box = Box([0.0, -1.0], [3.0, 3.0])
    assert box.dim == 2
    assert box.radius == pytest.approx(math.hypot(3, 3), rel=1e-15)
    assert box.diameter == pytest.approx(5.0, rel=1e-12)
    assert Box(-3.0, 1.0, dim=4).radius == 6.0
    assert Simplex(3, 2.0).diameter == pytest.approx(2 * math.sqrt(2), rel=1e-12)
    assert Simplex(1).diameter == 0.0
    assert L2Ball(2.0).diameter >= 4.0
    assert WholeSpace().diameter == math.inf


def test_a_projection_outside_by_rounding_stays_within_the_diameter() -> None:
    rng = np.random.default_rng(1)
    for ball in (L2Ball(0.3), L1Ball(0.3)):
        for w in rng.standard_normal((200, 7)):
            assert np.linalg.norm(ball.project(w) - ball.project(-w)) <= ball.diameter


def test_boxes_are_values_whatever_form_the_bounds_had() -> None:
    assert Box(np.array([0.0, 0.0]), 1.0) == Box([0, 0], [1, 1]) == Box(0.0, 1.0, dim=2)
    assert hash(Box(0.0, 1.0, dim=2)) == hash(Box([0, 0], 1))
    assert Box(1.0, 1.0, dim=2).diameter == pytest.approx(0.0, abs=1e-300)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: L2Ball(0.0), "radius"),
        (lambda: L2Ball(math.inf), "radius"),
        (lambda: L2Ball(1.0, dim=0), "dim"),
        (lambda: L1Ball(-1.0), "radius"),
        (lambda: L1Ball(1.0, dim=1.5), "dim"),  # type: ignore[arg-type]
        (lambda: Simplex(0), "dim"),
        (lambda: Simplex(None), "dim"),
        (lambda: Simplex(2, total=0.0), "total"),
        (lambda: Box(0.0, 1.0), "dim"),
        (lambda: Box([0.0], [1.0, 2.0]), "dim"),
        (lambda: Box([0.0, 0.0], 1.0, dim=3), "dim"),
        (lambda: Box([], []), "dim"),
        (lambda: Box(2.0, 1.0, dim=2), "lower"),
        (lambda: Box("low", 1.0, dim=2), "lower"),
        (lambda: Box(0.0, math.inf, dim=2), "upper"),
        (lambda: Box(0.0, [[1.0]], dim=1), "upper"),
        (lambda: WholeSpace(0), "dim"),
    ],
)
def test_parameters_are_checked(build: Any, name: str) -> None:
    with pytest.raises(InvalidParameterError, match=f"^{name}="):
        build()


@pytest.mark.parametrize("inner", [0.3, 1e-2, 1e-4, 1e-7])
def test_the_nearest_point_of_a_small_ball_is_found(inner: float) -> None:
    """Distances from the center round by the length of the whole vector, which must not refuse that ball's sphere."""
    rng = np.random.default_rng(0)
    for length in (0.5, 0.9, 1.0 - 0.4 * inner, 1.0):
        center = rng.standard_normal(3)
        center *= length / np.linalg.norm(center)
        section = BallSection(1.0, inner, center)
        for _ in range(40):
            away = rng.standard_normal(3)
            away /= np.linalg.norm(away)
            target = center + inner * away
            if np.linalg.norm(target) > 1 - 1e-9 * inner:
                continue
            assert np.linalg.norm(section.project(center + 3 * inner * away) - target) <= 5e-16
            assert np.linalg.norm(section.linear_minimizer(-away) - target) <= 5e-16


def test_the_rim_of_a_small_ball_is_as_accurate_as_any_point() -> None:
    """Center on the outer sphere: the rim's height is known without cancellation."""
    for inner in (0.5, 1e-3, 1e-6, 1e-8):
        section = BallSection(1.0, inner, [1.0, 0.0])
        depth, width = inner * inner / 2, inner * math.sqrt(1 - inner * inner / 4)
        rim = np.array([1 - depth, width])
        outside = rim * (1 + inner) + [-depth, width]  # in its normal cone
        assert np.linalg.norm(section.project(outside) - rim) <= 5e-16


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_polytopes_against_the_optimality_conditions(dim: int) -> None:
    """Nearest if and only if no vertex lies in the direction of the residual; points far, near and degenerate."""
    rng = np.random.default_rng(dim)
    normals = np.vstack([rng.standard_normal((3, dim)), np.eye(dim), -np.eye(dim)])
    polytope = Polytope(normals, np.r_[rng.uniform(0.2, 1, 3), np.full(2 * dim, 2.0)])
    corners = np.array([polytope.linear_minimizer(g) for g in rng.standard_normal((300, dim))])
    points = rng.standard_normal((200, dim)) * 10.0 ** rng.uniform(-2, 6, (200, 1))
    points[:20] = corners[:20]
    points[20:40] = corners[20:40] + normals[:1]  # normal cones at vertices, where constraints are dependent
    found = polytope.project_rows(points)
    away = points - found
    size = np.linalg.norm(away, axis=1) + np.linalg.norm(points, axis=1)
    for corner in corners:
        assert np.all(np.einsum("ij,ij->i", corner - found, away) <= 1e-13 * size * polytope.radius)
    assert all(polytope.contains(p, 1e-13) for p in found)
    assert np.array_equal(found[7], polytope.project(points[7]))


def test_polytopes_with_known_projections() -> None:
    triangle = Polytope([[-1, 0], [0, -1], [1, 2]], [0, 0, 4])
    np.testing.assert_allclose(triangle.project(np.array([1.0, 31825.0])), [0.0, 2.0], atol=1e-15)
    np.testing.assert_allclose(triangle.project(np.array([3.0, 3.0])), [2.0, 1.0], rtol=1e-15)
    assert triangle.radius == pytest.approx(4.0, rel=1e-12)
    box = Polytope(np.vstack([np.eye(3), -np.eye(3)]), [1, 2, 3, 1, 2, 3])
    w = np.array([5.0, -1.0, -7.0])
    np.testing.assert_allclose(box.project(w), Box([-1.0, -2.0, -3.0], [1.0, 2.0, 3.0]).project(w), atol=1e-15)
    assert box.diameter == pytest.approx(2 * math.sqrt(14), rel=1e-12)


@pytest.mark.parametrize(
    ("normals", "bounds", "match"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], "bounded"),
        ([[1.0], [-1.0]], [-2.0, 1.0], "bounded"),
        ([[1.0], [-1.0]], [1.0, -1.0], "interior"),
        ([[0.0], [1.0]], [1.0, 1.0], "no row zero"),
        ([[1.0], [-1.0]], [1.0], "shape"),
        ([[1.0, 0.0], [1.0, 1e-6], [-1.0, 1.0], [0.0, -1.0]], [1.0, 1.0, 1.0, 1.0], "nearly dependent"),
    ],
)
def test_polytopes_that_are_none(normals: Any, bounds: Any, match: str) -> None:
    with pytest.raises(InvalidParameterError, match=match):
        Polytope(normals, bounds)


def test_extreme_half_axes() -> None:
    for size in (1e-170, 1e-120, 1e150):
        p = Ellipsoid([size, size / 2]).project(np.array([3 * size, 0.0]))
        np.testing.assert_allclose(p, [size, 0.0], rtol=1e-15)


def test_cones_see_vectors_whose_squares_vanish() -> None:
    cones = SecondOrderCones(1, 2, 0.7)
    p = cones.project(np.array([1.1e-287, 0.0, 0.0, -1.0]))
    assert cones.contains(p)
    assert 0 < p[0] < 1.1e-287
