"""Point clouds have the laws that their names say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import f, kstest

from dpconvex.errors import InvalidParameterError
from dpconvex_experiments.shared import gaussian_cluster, student_t


@pytest.mark.parametrize("d", [1, 3, 20])
def test_cluster_and_background(d) -> None:
    """Kolmogorov-Smirnov on both parts, fixed seed: error probability 1e-3 each."""
    X, center = gaussian_cluster(50.0, 2000, d, 0.1, 0.9, np.random.default_rng(d))
    assert X.shape == (2000, d)
    assert np.linalg.norm(center) == pytest.approx(25.0)
    near = np.linalg.norm(X - center, axis=1) < 0.1 * (d**0.5 + 5)
    assert 1800 <= near.sum() <= 1815
    assert kstest(((X[near] - center) / 0.1).ravel()[:1800], "norm").pvalue > 1e-3
    spread = np.linalg.norm(X[~near], axis=1)
    assert spread.max() <= 50
    if d > 1:
        assert kstest((spread / 50) ** d, "uniform").pvalue > 1e-3
    assert near[:900].sum() == pytest.approx(810, abs=40)  # in random order


def test_student_t_norms_follow_the_f_law() -> None:
    X = student_t(5.0, 3000, 10, np.random.default_rng(0))
    assert kstest(np.square(X).sum(1) / 10, f(10, 5.0).cdf).pvalue > 1e-3


def test_public_form_is_checked() -> None:
    rng = np.random.default_rng(0)
    for arguments in ((0.0, 5, 2, 0.1, 0.9), (1.0, 0, 2, 0.1, 0.9), (1.0, 5, 2, 0.0, 0.9), (1.0, 5, 2, 0.1, 1.1)):
        with pytest.raises(InvalidParameterError):
            gaussian_cluster(*arguments, rng)
    with pytest.raises(InvalidParameterError):
        student_t(0.0, 5, 2, rng)
    assert gaussian_cluster(1.0, 5, 2, 0.1, 1.0, rng)[0].shape == (5, 2)
