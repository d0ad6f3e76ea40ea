"""Lipschitz extensions of any convex loss: planes that hold, brackets closed by public counts, promises that break."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpconvex.errors import AccuracyError
from dpconvex.problems import DataDomain, LocationLoss, Records, jax_loss
from dpconvex.problems.custom.extension import ExtendedRisk, Extender
from dpconvex.sets import L2Ball
from max_affine import MaxAffine, max_affine_extension

R = 1.0


def ball(rng, k, dim):
    points = rng.standard_normal((k, dim))
    return R * points / np.maximum(1, np.linalg.norm(points, axis=1, keepdims=True))


class Affine:
    """Maxima of `pieces` affine functions for each of m records, 0 at 0; every other record is at the cap."""

    def __init__(self, seed, m, dim, pieces, cap):
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((m, pieces, dim))
        scale = np.where(np.arange(m) % 2, cap, cap * 10.0 ** rng.uniform(-3, 0, m))
        self.a = a * (scale / np.linalg.norm(a, axis=2).max(1))[:, None, None]
        self.b = rng.standard_normal((m, pieces)) * scale[:, None] / 3
        self.b -= self.b.max(1, keepdims=True)
        self.calls = np.zeros(m, dtype=int)

    def __call__(self, rows, points):
        np.add.at(self.calls, rows, 1)
        z = np.einsum("kjd,kd->kj", self.a[rows], points) + self.b[rows]
        return z.max(1), self.a[rows, z.argmax(1)]


@pytest.mark.parametrize("dim", [1, 2, 4])
@pytest.mark.parametrize("level", [0.05, 1.0])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.dear("3-0.05-4", "3-1.0-4")
def test_planes_hold_everywhere_and_the_bracket_closes_in_the_public_count(dim, level, pieces) -> None:
    """T33 of the specification, by the method of ellipsoids; `max_affine_extension` is the independent reference."""
    f, rng = Affine(dim, 6, dim, pieces, 50.0), np.random.default_rng(1)
    extender = Extender(level, 50.0 * (1 + 1e-12), R, 1e-6)
    w, others = ball(rng, 6, dim), ball(rng, 300, dim)
    found = extender.planes(f, w)
    assert (found.upper - found.lower <= extender.tolerance).all()
    assert f.calls.max() <= extender.steps_for(dim) + 1
    assert (np.linalg.norm(found.slopes, axis=1) <= level * (1 + 1e-12)).all()
    for i in range(6):
        values = f(np.full(300, i), others)[0]
        apart = np.linalg.norm(others[:, None] - others[None], axis=2)
        above = np.min(values + level * apart, axis=1)  # of f_C, from points visited by chance
        assert (found.lower[i] + (others - w[i]) @ found.slopes[i] <= above + 1e-9).all()
        exact = max_affine_extension(MaxAffine(f.a[i], f.b[i]), w[i], level, L2Ball(R), 1e-4)
        assert exact.lower - 1e-9 <= found.upper[i]
        assert found.lower[i] <= exact.upper + 1e-9


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.dear("5]")
def test_at_the_planned_floor_rounding_leaves_nothing_open(dim) -> None:
    """T35: with a tolerance of two roundings, the least that is planned, every bracket closes in the public count."""
    rng = np.random.default_rng(0)
    for cap in (1.0, 1e6):
        for level in (1e-3, 1.0):
            for pieces in (1, 3):
                extender = Extender(level, cap * (1 + 1e-12), R, 1.0)
                extender = replace(extender, tolerance=2 * extender.rounding)
                w = ball(rng, 8, dim)
                w[:2] /= np.linalg.norm(w[:2], axis=1, keepdims=True)
                found = extender.planes(Affine(pieces, 8, dim, pieces, cap), w)
                assert (found.upper - found.lower <= extender.tolerance).all()


def test_known_values() -> None:
    """T1: one dimension, ``f = 10 w``; the plane, a steep record's own loss being 9 away from it at the far end."""
    extender = Extender(1.0, 10.0 * (1 + 1e-12), R, 1e-9)
    w = np.array([[-1.0], [-0.2], [0.9]])
    found = extender.planes(lambda rows, points: (10 * points[:, 0], np.full(points.shape, 10.0)), w)
    np.testing.assert_allclose(found.upper, -10 + (w[:, 0] + 1), atol=1e-9)
    np.testing.assert_allclose(found.lower, -10 + (w[:, 0] + 1), atol=2e-9)
    found = extender.planes(lambda rows, points: (0.5 * points[:, 0], np.full(points.shape, 0.5)), w)
    np.testing.assert_allclose(found.slopes, 0.5)  # not steep: the extension is the loss itself


BROKEN = {
    "not finite": lambda rows, points: (np.full(len(rows), np.nan), np.zeros(points.shape)),
    "steeper than declared": lambda rows, points: (0 * points[:, 0], np.full(points.shape, 20.0)),
    "larger than its slope allows": lambda rows, points: (np.full(len(rows), 20.0), np.zeros(points.shape)),
    "a gradient that is none": lambda rows, points: (0 * points[:, 0], 9 * np.sign(points)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_ends_the_run(name) -> None:
    extender = Extender(1.0, 10.0, R, 1e-3)
    with pytest.raises(AccuracyError, match="broke a claim"):
        extender.planes(BROKEN[name], np.array([[0.9, 0.0], [0.5, 0.5]]))


def test_each_record_at_its_own_point() -> None:
    rng = np.random.default_rng(0)
    loss, X = LocationLoss(DataDomain.l2_ball(2, 1.0), 0.1), rng.standard_normal((9, 2)) * 0.4
    points = np.repeat(ball(rng, 3, 2), [4, 4, 1], axis=0)
    values, gradients = loss.each(points, X)
    for i in range(9):
        assert values[i] == pytest.approx(loss.value(points[i], X[i : i + 1])[0])
        np.testing.assert_allclose(gradients[i], loss.gradient(points[i], X[i : i + 1])[0])


@pytest.mark.gate
def test_jax_takes_all_points_at_once_and_agrees() -> None:
    jnp = pytest.importorskip("jax.numpy")
    domain, rng = DataDomain.l2_ball(2, 5.0), np.random.default_rng(3)
    numpy_loss = LocationLoss(domain, 0.1)
    loss = jax_loss(lambda w, x: jnp.sqrt(jnp.sum((w - x) ** 2) + 0.01) - 0.1, dim=2, domain=domain, lipschitz=1 + 1e-9)
    records = Records.clipped(rng.standard_normal((11, 2)), domain)
    extender, center = Extender(0.3, 1 + 1e-9, R, 1e-8), np.zeros(2)
    for w in ball(rng, 3, 2):
        one, other = (ExtendedRisk(f, records, 0.5, extender, center).value_and_gradient(w) for f in (loss, numpy_loss))
        assert one[0] == pytest.approx(other[0], abs=2e-8)
        np.testing.assert_allclose(one[1], other[1], atol=1e-3)
