"""Cones that bound lengths: the projection by Moreau's conditions, the ball, checks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex.sets import SecondOrderCones

CONES = [SecondOrderCones(4, 1, 0.3), SecondOrderCones(1, 4, 2.0, free=1), SecondOrderCones(2, 3, 1.0, free=2)]


def parts(cones, w):
    n = cones.size * cones.count
    x, q = w[:n].reshape(cones.count, cones.size), w[n : n + cones.count]
    return np.linalg.norm(x, axis=1), q, w[n + cones.count :]


@pytest.mark.parametrize("cones", CONES, ids=repr)
def test_projection_satisfies_moreaus_conditions(cones) -> None:
    """``p`` in K, ``p - w`` in the dual cone ``|x| <= slope q``, and the two orthogonal: p is the projection."""
    for w in np.random.default_rng(0).standard_normal((500, cones.dim)):
        p = cones.project(w)
        lengths, q, free = parts(cones, p)
        dual_lengths, dual_q, dual_free = parts(cones, p - w)
        assert np.all(cones.slope * lengths <= q + 1e-14)
        assert np.all(dual_lengths <= cones.slope * dual_q + 1e-14)
        assert abs(p @ (p - w)) <= 1e-13
        np.testing.assert_allclose(free, w[len(w) - len(free) :], rtol=1e-15)
        np.testing.assert_allclose(dual_free, 0, atol=1e-15)


@pytest.mark.parametrize("cones", CONES, ids=repr)
def test_in_a_ball_the_projection_is_nearest(cones) -> None:
    ball = SecondOrderCones(cones.size, cones.count, cones.slope, cones.free, radius=0.7)
    rng = np.random.default_rng(1)
    members = np.array([ball.project(w) for w in rng.standard_normal((300, cones.dim))])
    assert np.linalg.norm(members, axis=1).max() == pytest.approx(0.7)
    for w in 2 * rng.standard_normal((100, cones.dim)):
        p = ball.project(w)
        assert np.all((members - p) @ (w - p) <= 1e-12)


def test_known_points() -> None:
    cone = SecondOrderCones(2, 1, 1.0)
    np.testing.assert_allclose(cone.project(np.array([3.0, 4.0, 0.0])), [1.5, 2.0, 2.5])
    np.testing.assert_array_equal(cone.project(np.array([3.0, 4.0, -5.0])), [0, 0, 0])
    assert not cone.contains(np.array([3.0, 4.0, 4.9]))
    assert SecondOrderCones(1, 2, 3.0, free=1).dim == 5


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0, 1, 1.0), "dim"), ((1, 0, 1.0), "count"), ((1, 1, 0.0), "slope"), ((1, 1, 1.0, -1), "free")],
)
def test_parameters_are_checked(arguments, name) -> None:
    with pytest.raises(InvalidParameterError, match=f"^{name}="):
        SecondOrderCones(*arguments)
    with pytest.raises(InvalidParameterError, match=r"^radius="):
        SecondOrderCones(1, 1, 1.0, radius=math.nan)
