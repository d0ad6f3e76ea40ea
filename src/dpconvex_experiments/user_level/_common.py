"""What the experiments share: users with equally many records, plans for them, random numbers."""

from __future__ import annotations

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.losses import LinearModelLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource

PAPER = "Lowy, Liu and Asi 2024, Faster algorithms for user-level private SCO"
DELTA = 1e-6


def promise(epsilon: float) -> PrivacyParams:
    """Return the promise for users."""
    return PrivacyParams(epsilon, DELTA, unit=Unit.USER)


def user_problem(loss: LinearModelLoss, dim: int, n: int, m: int, radius: float) -> LinearModelProblem:
    """Return the problem of `n` users with `m` records each, features in the unit ball."""
    return LinearModelProblem(loss, DataDomain.l2_ball(dim, 1.0), n, radius, records_per_user=m)


def same_size(n: int, m: int) -> UserGroups:
    """Return `n` users with `m` consecutive records each."""
    return UserGroups(np.arange(n + 1) * m)


def unit_vectors(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    """Return `n` independent uniform unit vectors, shape (n, dim)."""
    X = rng.standard_normal((n, dim))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def logistic_labels(rng: np.random.Generator, X: FloatArray, scores: FloatArray) -> FloatArray:
    """Return labels -1 and 1 with these log-odds, shape (n,)."""
    return np.where(rng.random(len(X)) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)


def streams(*key: int) -> tuple[np.random.Generator, SeededSource]:
    """Return the random numbers of the data and, independent of them, of the noise; each key has its own."""
    data, noise = np.random.SeedSequence(key).spawn(2)
    return np.random.default_rng(data), SeededSource(int(noise.generate_state(1, np.uint64)[0]))
