"""Steps on secret samples: the exact loss of a toy run against its mixture by hand, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpconvex.errors import UnsupportedEventError
from dpconvex.mechanisms import RobustMean, gaussian
from dpconvex.privacy import PoissonSteps, Release, SampledSteps, Sensitivity, Unit
from dpconvex_experiments.audit import audit
from dpconvex_experiments.audit.auditor import priced_once
from dpconvex_experiments.audit.replay import coins, participation, sampled_losses, sampled_steps
from dpconvex_experiments.audit.target import run_of
from dpconvex_experiments.audit.targets import TARGETS
from robust_means import plan_robust_mean

N, K, RADIUS, CLIP = 90, 60, 1.0, 10.0
MEAN: RobustMean = plan_robust_mean(K, 1, 4.0, 0.05, unit=Unit.USER)
STEPS = SampledSteps(N, K, 2, MEAN.event)


def run(points, source):
    """Two steps, each on K secret points; the second is moved by what the first released."""
    generator, released, moved = source.generator(), [], 0.0
    for _ in range(2):
        chosen = generator.choice(np.arange(N), K, replace=False)
        found = MEAN.draw(points[chosen] + moved, RADIUS, CLIP, source)
        released.append(found)
        if found is None:
            break
        moved = float(np.clip(found[0], -1, 1)) / 4
    return released


def table(last):
    return np.append(np.full(N - 1, 0.5), last)[:, None]


def test_the_loss_is_that_of_the_mixture() -> None:
    """All others are alike, so all that matters is the last point's weight in the mean: 1/K, if it is drawn."""
    first, second = table(0.5), table(1.0)
    found = sampled_losses(STEPS, run, (first,), (second,), 12)
    scale = MEAN.unit_length(RADIUS, CLIP) * MEAN.noise.sigma
    for k, loss in enumerate(found.losses):
        moved, total = 0.0, 0.0
        for outcome in run(first, coins((0, k))):
            assert outcome is not None  # all points are close together: no test fails here
            away = (outcome[0] - (0.5 + moved)) / scale
            inside = (outcome[0] - (0.5 + moved + 0.5 / K)) / scale
            mixed = np.logaddexp(math.log(1 - K / N) - away**2 / 2, math.log(K / N) - inside**2 / 2)
            total += -(away**2) / 2 - mixed
            moved = float(np.clip(outcome[0], -1, 1)) / 4
        assert loss == pytest.approx(total, abs=1e-6)
    assert found.losses.std() > 0


def test_users_that_differ_are_refused() -> None:
    mixed = table(0.5)
    mixed[:N:2] -= 0.1
    with pytest.raises(UnsupportedEventError, match="alike"):
        sampled_losses(STEPS, run, (mixed,), (mixed,), 4)


def test_what_is_replayed_with_samples() -> None:
    sensitivity = Sensitivity(1.0, "l2", "test", unit=Unit.USER)
    steps, other = (Release("x", "y", event, sensitivity) for event in (STEPS, MEAN.event))
    assert sampled_steps([steps]) == STEPS
    assert sampled_steps([other]) is None
    with pytest.raises(UnsupportedEventError, match="other releases"):
        sampled_steps([steps, other])


@pytest.mark.gate
@pytest.mark.parametrize("factor", [pytest.param(1.0, marks=pytest.mark.slow), 1.25])
def test_whoever_draws_more_often_than_is_priced_is_caught(factor, monkeypatch) -> None:
    """480 coins of one record: a sound rate is refuted with probability at most 1e-3, the seed is fixed."""
    drawn = gaussian.poisson_sample
    monkeypatch.setattr(gaussian, "poisson_sample", lambda n, rate, source: drawn(n, factor * rate, source))
    subject = TARGETS["noisy_gradient/samples"].subject(1.0, 0.05, 1.0)
    name, pair = next(iter(subject.pairs.items()))
    steps = subject.plan.releases[0].event
    assert isinstance(steps, PoissonSteps)
    with priced_once():
        found = sampled_losses(steps, run_of(subject.plan), pair.first, pair.second, 60)
    assert found.told == 60 * steps.steps
    rate, epsilon = participation(steps, found, 0.05, 1e-3)
    assert (rate > steps.rate) == (epsilon > 1.0) == (factor > 1)
    if factor > 1:
        report = audit(subject.plan, {name: pair}, runs=0, transcripts=60)
        assert not report.passed
        assert report.findings[0].attack == "participation"


def test_participation_is_judged_from_public_counts_alone() -> None:
    """Subsets: 40 of 60 steps read the unit that 2 of 3 should; all 60 of 60 should not."""
    losses = sampled_losses(STEPS, run, (table(0.0),), (table(1.0),), 6)
    assert 0 < losses.taken < losses.told <= 12
    for taken, caught in ((40, False), (60, True)):
        rate, epsilon = participation(STEPS, replace(losses, taken=taken, told=60), 0.05, 1e-3)
        assert (rate > STEPS.rate, epsilon > -math.inf) == (caught, caught)
