"""What the experiments share: users with equally many records, plans for them, random numbers."""

from __future__ import annotations

import numpy as np

from dpconvex.losses import LinearModelLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups

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
