"""Goodness of fit of every sampler, with mutants that must fail.

Seeded checks are deterministic. Checks of OpenDP's exact samplers and of the system generator use fresh entropy: each
is a test at level 1e-8, so all of them together fail by chance with probability below 1e-6.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from dpconvex._types import Floats
from dpconvex.geometry import GroupedNorm, L2Norm, StandardNormals
from dpconvex.mechanisms import GaussianMechanism, LaplaceMechanism, NormNoiseMechanism
from dpconvex.privacy import Sensitivity
from dpconvex.randomness import SeededSource, SystemSource, exact, real
from instances import NORMS, instances

LEVEL = 1e-8
SIZE = 20_000
NOISES = 4000
SOURCES = pytest.mark.parametrize("source", [SeededSource(2), SystemSource()], ids=["seeded", "system"])
NUMBER = {id(norm): k for k, norm in enumerate(NORMS)}
EACH_NORM = pytest.mark.parametrize("norm", NORMS, ids=lambda norm: f"{norm.name}{norm.dim}")


def fits(sample, law) -> bool:
    return stats.kstest(sample, law.cdf).pvalue > LEVEL


@cache
def drawn(number: int, private: bool) -> Floats:
    """Noise of one of the norms, which several tests look at."""
    return real.draw(NORMS[number], NOISES, SystemSource() if private else SeededSource(2))


@EACH_NORM
@pytest.mark.parametrize("private", [False, True], ids=["seeded", "system"])
@pytest.mark.thin
@pytest.mark.dear("system-grouped6_1", "seeded-grouped8", "system-grouped6_0")
def test_norm_of_the_noise_is_gamma(norm, private) -> None:
    lengths = norm(drawn(NUMBER[id(norm)], private))
    dimensions = norm.dim - int(np.sum(getattr(norm, "centered", 0)))  # a centered block has one fewer than columns
    assert fits(lengths, stats.gamma(dimensions))
    # mutants: half the scale, and the radius of a ball where that of a sphere is due
    assert not fits(lengths / 2, stats.gamma(dimensions))
    assert not fits(lengths, stats.gamma(dimensions + 1))


@pytest.mark.thin
@EACH_NORM
@pytest.mark.dear("grouped8")
def test_energies_and_means(norm) -> None:
    sample = drawn(NUMBER[id(norm)], False)
    for squares, expected in (
        ((sample**2).sum(1), norm.energy),
        *zip((sample**2).T, norm.coordinate_variances, strict=True),
    ):
        assert abs(squares.mean() - expected) < 4.5 * squares.std() / math.sqrt(len(squares))
        assert abs(squares.mean() / 4 - expected) > 4.5 * squares.std() / math.sqrt(len(squares))  # half the scale
    assert (np.abs(sample.mean(0)) < 4.5 * sample.std(0) / math.sqrt(len(sample))).all()


@pytest.mark.gate
def test_l2_direction_is_uniform_and_independent_of_the_radius() -> None:
    sample = real.draw(L2Norm(5), NOISES, SeededSource(4))
    lengths = np.linalg.norm(sample, axis=1)
    cosines = sample / lengths[:, None]
    for column in cosines.T:
        assert fits((column + 1) / 2, stats.beta(2, 2))  # (d - 1) / 2 on both sides
        assert abs(stats.spearmanr(np.abs(column), lengths).statistic) < 5 / math.sqrt(NOISES)
    iid = np.random.default_rng(4).laplace(size=(NOISES, 5))  # the l1 law is not the l2 law
    assert not fits((iid[:, 0] / np.linalg.norm(iid, axis=1) + 1) / 2, stats.beta(2, 2))


@pytest.mark.gate
def test_l2_blocks_are_uniform_in_a_ball() -> None:
    norm = instances(GroupedNorm)[3]  # a ball of 3 columns and a cross-polytope of 2 share a radius Gamma(6)
    sample = real.draw(norm, NOISES, SeededSource(6))
    ball = sample[:, :3]
    cosines = ball / np.linalg.norm(ball, axis=1)[:, None]
    for column in cosines.T:
        assert fits((column + 1) / 2, stats.beta(1, 1))  # (d - 1) / 2 on both sides
    # Which block is the longer one tells nothing of the radius, and is the ball with its share of the volume's cone.
    lengths, others = np.linalg.norm(ball, axis=1), np.abs(sample[:, 3:5]).sum(1) / 0.5
    longest = np.maximum(lengths, others)
    assert fits(longest, stats.gamma(5))
    assert abs((lengths > others).mean() - 3 / 5) < 4.5 * math.sqrt(0.24 / NOISES)
    assert abs((lengths > others).mean() - 1 / 2) > 4.5 * math.sqrt(0.24 / NOISES)  # shares of two equal blocks


@pytest.mark.gate
def test_each_group_has_its_own_gamma_radius() -> None:
    norm = instances(GroupedNorm)[0]
    sample = np.abs(real.draw(norm, NOISES, SeededSource(5)))
    blocks = np.add.reduceat(sample, [0, 1, 4], axis=1) / norm.half_widths
    first, second = norm.weights[0] * blocks[:, [0, 2]].max(1), norm.weights[1] * blocks[:, 1]
    assert fits(first, stats.gamma(3))
    assert fits(second, stats.gamma(3))
    assert abs(stats.spearmanr(first, second).statistic) < 5 / math.sqrt(NOISES)
    # Blocks of one group share the radius: E b_1^2 b_2^2 has the factor E R^4 = 840, not (E R^2)^2 = 400.
    product = (blocks[:, 0] ** 2) * (blocks[:, 2] ** 2)
    radius_4 = 4 * 5 * 6 * 7 / norm.weights[0] ** 4  # Gamma(4)
    expected = radius_4 * (1 / 3) * (1 / 2)  # a uniform point of [-1, 1], of the 2-dimensional cross-polytope
    assert abs(product.mean() - expected) < 4.5 * product.std() / math.sqrt(NOISES)
    separate = (4 * 5 / norm.weights[0] ** 2) ** 2 * (1 / 3) * (1 / 2)
    assert abs(product.mean() - separate) > 4.5 * product.std() / math.sqrt(NOISES)


@pytest.mark.gate
def test_blocks_are_uniform_in_their_cross_polytopes() -> None:
    laplace = real.draw(instances(GroupedNorm)[1], NOISES, SeededSource(6))
    for column in laplace.T:  # one block of one group: independent Laplace variables
        assert fits(column, stats.laplace())
    assert np.abs(np.corrcoef(np.abs(laplace).T) - np.eye(4)).max() < 5 / math.sqrt(NOISES)
    assert np.abs(np.corrcoef(np.sign(laplace).T) - np.eye(4)).max() < 5 / math.sqrt(NOISES)
    cube = real.draw(instances(GroupedNorm)[2], NOISES, SeededSource(7))
    inside = cube / np.abs(cube).max(1, keepdims=True)  # a point of the cube's surface: one coordinate is +-1
    largest = np.abs(inside) == 1
    assert (largest.sum(1) == 1).all()
    assert stats.chisquare(largest.sum(0)).pvalue > LEVEL
    assert fits(inside[~largest], stats.uniform(-1, 2))


@pytest.mark.parametrize("dim", [1, 4])
def test_normal_noise(dim) -> None:
    sample = real.draw(StandardNormals(dim), NOISES, SeededSource(8))
    for column in sample.T:
        assert fits(column, stats.norm())
        assert not fits(column / 2, stats.norm())
    assert fits((sample**2).sum(1), stats.chi2(dim))


@SOURCES
def test_discrete_laplace(source) -> None:
    noise = exact.discrete_laplace(np.full(SIZE, 1000), 2.0**24, source) - 1000
    assert fits(noise / 2.0**24, stats.laplace())
    assert not fits(noise / 2.0**25, stats.laplace())


@SOURCES
def test_discrete_laplace_with_few_steps(source) -> None:
    """Mass ``(1 - q)/(1 + q) q^|z|``, ``q = exp(-1/scale)``, by chi-squared."""
    noise = exact.discrete_laplace(np.zeros(SIZE, dtype=np.int64), 2.0, source)
    q, edge = math.exp(-0.5), 8
    z = np.arange(-edge, edge + 1)
    mass = (1 - q) / (1 + q) * q ** np.abs(z)
    mass[[0, -1]] = q**edge / (1 + q)
    counts = (np.clip(noise, -edge, edge)[:, None] == z).sum(0)
    assert stats.chisquare(counts, SIZE * mass / mass.sum()).pvalue > LEVEL
    assert stats.chisquare(counts, np.full(len(z), SIZE / len(z))).pvalue < LEVEL


@SOURCES
def test_discrete_gaussian(source) -> None:
    noise = exact.discrete_gaussian(np.full(SIZE, -7), 2.0**24, source) + 7
    assert fits(noise / 2.0**24, stats.norm())
    assert not fits(noise / 2.0**25, stats.norm())


@pytest.mark.thin
@pytest.mark.parametrize("source", [SeededSource(9), SystemSource()], ids=["seeded", "system"])
def test_noisy_argmax_of_two(source) -> None:
    """The lower of two scores wins with probability ``exp(-gap / scale) / 2``: a difference of exponentials."""
    gap, scale, draws = 40, 50.0, 4000
    wins = sum(exact.noisy_argmax(np.array([0, gap]), scale, source) == 0 for _ in range(draws))
    probability = math.exp(-gap / scale) / 2
    # One step of the grid against a scale of 50 steps: ties shift the probability by less than 1/100.
    low, high = stats.binom(draws, probability - 0.01).ppf(LEVEL), stats.binom(draws, probability + 0.01).ppf(1 - LEVEL)
    assert low <= wins <= high
    assert not low <= 2 * wins <= high


@SOURCES
def test_mechanisms_scale_their_noise_as_their_event_says(source) -> None:
    """Through `_sample`: the deviation from the value, over the event's scale, has the standard law."""
    dim, value = 5000, 3.0
    laplace = LaplaceMechanism.calibrate(Sensitivity(0.2, "l1", "test"), 0.5, dim)
    gaussian = GaussianMechanism.calibrate(Sensitivity(0.2, "l2", "test"), 0.5, 1e-5, dim)
    for mechanism, scale, law in (
        (laplace, laplace.event.scale, stats.laplace()),
        (gaussian, gaussian.event.sigma, stats.norm()),
    ):
        noise = (mechanism._sample(np.full(dim, value), source) - value) / scale
        assert fits(noise, law)
        assert not fits(noise / 2, law)
    norm = NormNoiseMechanism(L2Norm(3), Sensitivity(0.2, "l2", "test"), 0.5)
    noise = np.array([norm._sample(np.full(3, value), source) for _ in range(4000)]) - value
    lengths = np.linalg.norm(noise, axis=1) / norm.event.scale
    assert fits(lengths, stats.gamma(3))
    assert not fits(lengths / 2, stats.gamma(3))
