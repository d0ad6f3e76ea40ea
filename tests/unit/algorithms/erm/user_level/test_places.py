"""Where users stand: phases, batches, groups and samples are drawn by coins, for the order of labels is private.

A replaced user may bear another label; in the order of labels that moves everybody between the two by one place, from
one batch into the next. With a uniform order of their own, two neighbors can be coupled so that one place differs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm import gradient_descent
from dpconvex.algorithms.erm.gradient_descent import gradients
from dpconvex.algorithms.erm.user_level import aggregates, plan_accelerated, plan_phased
from dpconvex.algorithms.erm.user_level.phased import Pooled
from dpconvex.losses import LogisticLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource

N = 240
PROMISE = PrivacyParams(8.0, 1e-5, unit=Unit.USER)
PROBLEM = LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(2, 1.0), N, 1.0, records_per_user=2)
PLANS: dict[str, Callable[[], LinearModelPlan]] = {
    "phased": lambda: plan_phased(PROBLEM, PROMISE, groups=20, phases=2),
    "noisy": lambda: gradient_descent.plan(PROBLEM, PROMISE, batches=4, steps=4),
    "batches": lambda: plan_accelerated(PROBLEM, PROMISE, test="clipped", batches=4),
    "sampled": lambda: plan_accelerated(PROBLEM, PROMISE, sample=150),
}


@cache
def planned(kind: str) -> LinearModelPlan:
    return PLANS[kind]()


@pytest.fixture
def read(monkeypatch) -> list[np.ndarray]:
    """Users that are read together, in the order of reading."""
    seen: list[np.ndarray] = []
    for module in (gradients, aggregates):
        pick = module.pick_users
        monkeypatch.setattr(module, "pick_users", lambda g, users, pick=pick: (seen.append(users), pick(g, users))[1])
    walk = Pooled.displacements
    monkeypatch.setattr(
        Pooled, "displacements", lambda self, users, *rest: (seen.extend(users), walk(self, users, *rest))[1]
    )
    return seen


def run(kind: str, seed: int, read: list[np.ndarray]) -> list[np.ndarray]:
    groups = UserGroups(np.arange(N + 1))
    read.clear()
    planned(kind).run(np.zeros((N, 2)), np.ones(N), SeededSource(seed), groups)
    return list(read)


@pytest.mark.thin
@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.dear("sampled")
def test_places_are_uniform(kind: str, read) -> None:
    """The first place of 6 runs holds 5.9 different ones of 240 users on average; fewer than 4: below 1e-5."""
    firsts = []
    for seed in range(6):
        parts = run(kind, seed, read)
        firsts.append(int(parts[0][0]))
        for users in parts:
            assert len(set(users.tolist())) == len(users)
    assert len(set(firsts)) >= 4
    assert 10 < np.mean(firsts) < 230  # 3.9 deviations


@pytest.mark.parametrize("kind", ["phased", "noisy", "batches"])
@pytest.mark.dear("batches")
def test_parts_are_disjoint(kind: str, read) -> None:
    users = np.concatenate(run(kind, 0, read))
    assert len(set(users.tolist())) == len(users)
    assert len(users) > N / 2


def test_samples_are_fresh_in_every_step(read) -> None:
    """Two of the samples agree with probability below 1e-60."""
    parts = [frozenset(users.tolist()) for users in run("sampled", 0, read)]
    assert len(parts) > 1
    assert len(set(parts)) == len(parts)


def test_e5_a_sample_holds_no_user_twice(read) -> None:
    """Erratum E5: 60 draws of 240 users with replacement repeat one with probability above 0.999; samples never do.

    A user drawn twice moves two of the points whose mean is bounded for one.
    """
    assert np.prod(1 - np.arange(60) / N) < 1e-3
    for users in run("sampled", 1, read):
        assert len(users) == 150
        assert len(set(users.tolist())) == 150
