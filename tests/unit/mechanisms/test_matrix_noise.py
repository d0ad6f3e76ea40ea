"""Noise of a symmetric matrix: its exact law for two rows, Laplace for one, deviations, and sums of Laplace numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from dpconvex.mechanisms import MatrixNoiseMechanism
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit.laws import log_law

CLAIM = Sensitivity(2.0, "nuclear", "test")


def matrix(entries) -> np.ndarray:
    size = int((8 * len(entries) + 1) ** 0.5 / 2)
    found = np.zeros((size, size))
    found[np.triu_indices(size)] = entries
    return found + np.triu(found, 1).T


def released(size, count) -> np.ndarray:
    mechanism = MatrixNoiseMechanism(size, CLAIM, 2.0)
    ledger = Ledger(PrivacyParams(1e6), [mechanism.planned("matrix")] * count)
    source = SeededSource(0)
    return np.array([mechanism.release(np.zeros(mechanism.dim), "matrix", source, ledger) for _ in range(count)])


def test_the_density_ratio_reaches_the_nuclear_norm_and_never_more() -> None:
    """Outcomes near and far, shifts of every rank and sign: the exact law of two rows."""
    mechanism, rng, ratios = MatrixNoiseMechanism(2, CLAIM, 0.7), np.random.default_rng(0), []
    for _ in range(600):
        outcome = rng.standard_normal(3) * rng.choice([0.1, 3, 30, 300])
        shift = rng.standard_normal(3) * rng.choice([0.01, 1, 10])
        if rng.random() < 0.3:
            shift = np.array([1.0, rng.choice([-1, 1]), 1.0]) * shift[0]
        loss = log_law(mechanism, np.zeros(3), outcome) - log_law(mechanism, shift, outcome)
        ratios.append(loss / np.abs(np.linalg.eigvalsh(matrix(shift))).sum())
    assert 0.999 * 0.7 <= 2 * np.abs(ratios).max() <= 0.7 * (1 + 1e-9)


def test_draws_follow_that_law() -> None:
    """Shares of draws without negative, or positive, eigenvalues against the law's integral; 5 standard errors."""
    mechanism = MatrixNoiseMechanism(2, CLAIM, 2.0)
    ends = np.linalg.eigvalsh([matrix(row) for row in released(2, 1500)])
    grid = (np.arange(70) + 0.5) * 0.4 - 14
    mass = {True: 0.0, False: 0.0}
    for i, top in enumerate(grid):
        for low in grid[:i]:  # of two eigenvalues: their distance times the density
            law = np.exp(log_law(mechanism, np.zeros(3), np.array([top, 0.0, low])))
            mass[bool(top * low > 0)] += law * (top - low)
    share = mass[True] / (mass[True] + mass[False])
    assert np.mean(ends[:, 0] * ends[:, 1] > 0) == pytest.approx(share, abs=0.02 + 5 * 0.0112)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_entries_are_sums_of_laplace_numbers(size) -> None:
    """Half of q + 1 Laplace numbers off the diagonal; one alone is Laplace noise of the scale. Errors below 1e-3."""
    mechanism, rng = MatrixNoiseMechanism(size, CLAIM, 2.0), np.random.default_rng(1)
    noise, simulated = released(size, 400), mechanism.simulate(4000, rng)
    variances = mechanism.norm.coordinate_variances * mechanism.scale**2
    np.testing.assert_allclose(noise.var(axis=0) / variances, 1, atol=0.45)
    np.testing.assert_allclose(simulated.var(axis=0) / variances, 1, atol=0.25)
    place = min(1, size - 1)
    law = rng.laplace(size=(20_000, size + 1)).sum(axis=1) / 2 if size > 1 else rng.laplace(size=20_000)
    for draws in (noise, simulated):
        assert kstest(draws[:, place] / mechanism.scale, law).pvalue > 1e-3
    assert (noise != 0).all()
    np.testing.assert_array_equal(noise / mechanism.step, np.rint(noise / mechanism.step))
