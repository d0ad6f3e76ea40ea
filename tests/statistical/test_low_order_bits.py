"""Mironov's attack on the low-order bits of noise: it breaks a naive sampler and learns nothing from ours.

The attacker knows that a release is one of two values plus Laplace noise, and asks of each value whether *any* uniform
number that a generator can give leads to exactly these bits. With epsilon 0.001 an honest attacker is right half of the
time; the margins below fail right samplers with probability below 1e-6 each.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.geometry import L2Norm
from dpconvex.mechanisms import GaussianMechanism, LaplaceMechanism, NormNoiseMechanism
from dpconvex.privacy import Sensitivity
from dpconvex.randomness import SystemSource

EPSILON, TRIALS = 1e-3, 2000
VALUES = (0.0, 1.0)
SCALE = (VALUES[1] - VALUES[0]) / EPSILON
_ULPS = np.arange(-64, 65)


def naive(value: float, rng: np.random.Generator) -> float:
    """The textbook: the inverse distribution function at a float, added in floats."""
    return value + float(rng.choice([-1.0, 1.0])) * -SCALE * np.log(1 - rng.random())


def reachable(release: float, value: float) -> bool:
    """Whether the naive sampler can give these bits from that value: candidates around the inverse are tried."""
    noise = abs(release - value)
    steps = np.rint(-np.expm1(-noise / SCALE) * 2.0**53) + _ULPS
    found = -SCALE * np.log(1 - steps[(steps >= 0) & (steps < 2.0**53)] / 2.0**53)
    return bool(np.isin(release, np.concatenate([value + found, value - found])))


def right_guesses(releases: list[tuple[int, float]]) -> float:
    """Share of right guesses: the only reachable value, or a coin where both or neither are."""
    rng, right = np.random.default_rng(1), 0
    for truth, release in releases:
        possible = [k for k in (0, 1) if reachable(release, VALUES[k])]
        guess = possible[0] if len(possible) == 1 else int(rng.integers(2))
        right += guess == truth
    return right / len(releases)


def test_the_attack_breaks_a_naive_sampler() -> None:
    rng = np.random.default_rng(0)
    truths = rng.integers(2, size=TRIALS).tolist()
    assert right_guesses([(k, naive(VALUES[k], rng)) for k in truths]) > 0.7


@pytest.mark.thin
@pytest.mark.parametrize(
    "mechanism",
    [
        LaplaceMechanism.calibrate(Sensitivity(1.0, "absolute", "test"), EPSILON, 1),
        NormNoiseMechanism(L2Norm(1), Sensitivity(1.0, "l2", "test"), EPSILON),
        GaussianMechanism.calibrate(Sensitivity(1.0, "absolute", "test"), EPSILON, 1e-6, 1),
    ],
    ids=lambda mechanism: mechanism.name,
)
@pytest.mark.gate
def test_it_learns_nothing_from_ours(mechanism) -> None:
    """Also not which of the two values a release came from by its last bits alone."""
    truths = np.random.default_rng(2).integers(2, size=TRIALS).tolist()
    source = SystemSource()
    releases = [(k, float(mechanism._sample(np.array([VALUES[k]]), source)[0])) for k in truths]
    assert abs(right_guesses(releases) - 0.5) < 2.5 / np.sqrt(TRIALS)
    units = np.array([release for _, release in releases]) / mechanism.step
    assert (units == np.rint(units)).all()
    parity = (units % 2 == 1).astype(int)
    agree = float(np.mean(parity == np.array(truths)))
    assert abs(agree - 0.5) < 2.5 / np.sqrt(TRIALS)
