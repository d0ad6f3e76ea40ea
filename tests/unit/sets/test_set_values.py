"""Particular sets: known projections, a projection by other means, large inputs, parameter checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex.sets import Box, L1Ball, L2Ball, Simplex, WholeSpace


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
