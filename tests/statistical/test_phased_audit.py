"""An audit of phased SGD from data to release: the worst user against the worst other one, with the planned noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpconvex.algorithms.erm.user_level import PhasedPlan, plan_phased
from dpconvex.algorithms.erm.user_level.aggregates import Plain
from dpconvex.losses import AbsoluteLoss
from dpconvex.mechanisms.robust_mean import budget
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource

USERS, RECORDS, RUNS = 20, 100, 60
PROMISE = PrivacyParams(8.0, 1e-5, unit=Unit.USER)
PROBLEM = LinearModelProblem(AbsoluteLoss(), DataDomain.l2_ball(1, 1.0), USERS, 1.0, records_per_user=RECORDS)


def audited_plan() -> PhasedPlan:
    """One group a user, with steps so long that a user alone drags its group to the end of the ball."""
    plan = plan_phased(PROBLEM, PROMISE, groups=USERS, phases=1, aggregate="plain")
    phase = replace(plan.phases[0], step_size=0.5)
    return replace(plan, schedule=replace(plan.schedule, phases=(phase,)))


def released(plan: PhasedPlan, canary: float, seed: int) -> np.ndarray:
    """Releases for users who all pull to one side, but for one who pulls with all its records to the canary's."""
    labels = np.repeat(np.arange(USERS), RECORDS)
    X, y = np.ones((USERS * RECORDS, 1)), np.full(USERS * RECORDS, 1e9)
    y[labels == 7] = canary * 1e9
    groups = UserGroups.of(labels)
    return np.array([plan.run(X, y, SeededSource(seed + run), groups).point[0] for run in range(RUNS)])


def measured_mu(plan: PhasedPlan) -> float:
    """Distance of the two laws in deviations: how well the best test tells the two users apart."""
    unprojected = replace(plan, schedule=replace(plan.schedule, projected=False))
    a, b = released(unprojected, 1.0, 0), released(unprojected, -1.0, 10_000)
    return abs(a.mean() - b.mean()) / np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)


def slack(mu: float) -> float:
    """4.5 deviations of the measured mu."""
    return 4.5 * np.sqrt(2 / RUNS) * np.sqrt(1 + mu**2 / 8)


@pytest.mark.gate
def test_the_worst_user_is_hidden_as_planned() -> None:
    """The audit attains the planned budget within sampling error, and does not exceed it.

    With 60 runs of each, the deviation of the measured mu is ``sqrt(2/60) sqrt(1 + mu^2 / 8)``; 4.5 of these are
    exceeded with probability below 1e-5.
    """
    plan = audited_plan()
    aggregate = plan.phases[0].aggregate
    assert isinstance(aggregate, Plain)
    mu = budget(PROMISE.epsilon, PROMISE.delta)[0]
    assert mu - slack(mu) < measured_mu(plan) < mu + slack(mu)


@pytest.mark.gate
@pytest.mark.parametrize("factor", [4.0])
def test_less_noise_is_caught(factor: float) -> None:
    """The same audit with a quarter of the noise, which the ledger would refuse."""
    plan = audited_plan()
    aggregate = plan.phases[0].aggregate
    assert isinstance(aggregate, Plain)
    weak = replace(aggregate, noise=replace(aggregate.noise, sigma=aggregate.noise.sigma / factor))
    wide = PrivacyParams(1e3, 0.4, unit=Unit.USER)
    phases = (replace(plan.phases[0], aggregate=weak),)
    broken = replace(plan, privacy=wide, schedule=replace(plan.schedule, phases=phases))
    mu = budget(PROMISE.epsilon, PROMISE.delta)[0]
    assert measured_mu(broken) > mu + slack(mu)
    with pytest.raises(Exception, match="cost"):
        Ledger(PROMISE, broken.releases)
