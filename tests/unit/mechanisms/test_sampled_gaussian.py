"""Gaussian noise on secret samples: the law of a sample, one sample a release, one ledger entry, noise of its own."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms import GaussianMechanism, SampledGaussian
from dpconvex.mechanisms.gaussian import poisson_sample
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.randomness import SeededSource, SystemSource

STEP = GaussianMechanism.of_mu(Sensitivity(0.5, "l2", "test"), 0.3, 2)
SAMPLED = SampledGaussian(STEP, 0.2, 3)


def promise(mechanism: SampledGaussian) -> Ledger:
    return Ledger(PrivacyParams(50.0, 0.1), [mechanism.planned("sum")])


@pytest.mark.thin
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
def test_every_unit_has_a_coin_of_its_own(rate: float) -> None:
    """Sizes are binomial and neighboring units independent; fixed seed, each test fails by chance once in 10^4."""
    coins, units, runs = np.random.default_rng(5), 40, 20_000
    taken = np.zeros((runs, units), dtype=bool)
    for k in range(runs):
        sample = poisson_sample(units, rate, coins)
        assert np.all(np.diff(sample) > 0)
        taken[k, sample] = True
    counts = np.bincount(taken.sum(1), minlength=units + 1)
    wanted = runs * binom.pmf(np.arange(units + 1), units, rate)
    common = wanted > 20
    observed = np.append(counts[common], counts[~common].sum() + 20)
    expected = np.append(wanted[common], wanted[~common].sum() + 20)
    assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4
    assert np.abs(taken.mean(0) - rate).max() < 5 * np.sqrt(rate * (1 - rate) / runs)  # the first and the last too
    both = (taken[:, 1:] & taken[:, :-1]).mean(0)
    assert np.abs(both - rate**2).max() < 5 * np.sqrt(rate**2 * (1 - rate**2) / runs)


def test_long_samples_reach_the_end() -> None:
    coins = np.random.default_rng(0)
    sizes = [len(poisson_sample(100_000, 0.01, coins)) for _ in range(200)]
    assert np.mean(sizes) == pytest.approx(1000, abs=5 * np.sqrt(990 / 200))
    assert max(poisson_sample(100_000, 0.01, coins)[-1] for _ in range(20)) > 99_900


@pytest.mark.parametrize("gap", [1, 2, 3])
@pytest.mark.together
def test_a_sample_that_is_longer_than_most_goes_on_where_it_ended(gap: int) -> None:
    """Gaps are all alike, and far shorter than the mean of 12: more of them are drawn than at first."""
    coins = Mock(geometric=lambda rate, size: np.full(size, gap))
    np.testing.assert_array_equal(poisson_sample(1200, 1 / 12, coins), np.arange(gap - 1, 1200, gap))


@pytest.mark.parametrize("source", [SeededSource(3), SystemSource()], ids=["seeded", "system"])
def test_steps_are_recorded_once_and_no_more_than_planned_are_taken(source) -> None:
    ledger, seen = promise(SAMPLED), []
    session = SAMPLED.start(50, "sum", source, ledger)
    assert ledger.recorded == [SAMPLED.planned("sum")]

    def value(sample):
        seen.append(tuple(sample))
        return np.array([len(sample), -1.0])

    found = np.array([session.release(value) for _ in range(3)])
    assert len(set(seen)) == 3  # a fresh sample each time
    assert np.all(found != [[len(s), -1.0] for s in seen])
    with pytest.raises(BudgetExceededError, match="no step"):
        session.release(value)
    assert len(seen) == 3
    with pytest.raises(BudgetExceededError, match="covered"):
        SAMPLED.start(50, "sum", source, ledger)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_units_are_drawn_at_the_rate_that_is_priced(rate: float) -> None:
    """200,000 coins of one session, 5 standard errors: a false alarm has probability 6e-7."""
    many, taken = SampledGaussian(STEP, rate, 100), []
    session = many.start(2_000, "sum", SeededSource(2), Ledger(PrivacyParams(1e6, 0.4), [many.planned("sum")]))
    for _ in range(100):
        session.release(lambda sample: np.array([taken.append(len(sample)) or 0.0, 0.0]))
    assert sum(taken) / 200_000 == pytest.approx(many.event.rate, abs=5 * np.sqrt(rate * (1 - rate) / 200_000))


def test_samples_come_from_the_source() -> None:
    """Two sources, two sessions of one source: equal samples of 50 units at rate 0.2 have probability below 1e-8."""
    source, samples = SeededSource(7), []
    for each in (source, source, SeededSource(8), SystemSource()):
        SAMPLED.start(50, "sum", each, promise(SAMPLED)).release(
            lambda sample: np.array([samples.append(tuple(sample)) or 0.0, 0.0])
        )
    assert len(set(samples)) == 4


def test_the_noise_is_that_of_the_step() -> None:
    """Deviation within 5 standard errors of 8,000 draws."""
    many = SampledGaussian(STEP, 0.2, 4_000)
    session = many.start(10, "sum", SeededSource(1), Ledger(PrivacyParams(1e6, 0.4), [many.planned("sum")]))
    found = np.array([session.release(lambda sample: np.zeros(2)) for _ in range(4_000)])
    assert found.std() == pytest.approx(STEP.sigma, rel=5 / np.sqrt(2 * 8_000))


def test_less_noise_a_higher_rate_or_more_steps_are_refused() -> None:
    tight = PrivacyParams(1.0, SAMPLED.event.delta(1.0))
    Ledger(tight, [SAMPLED.planned("sum")])
    louder = GaussianMechanism(STEP.sensitivity, STEP.sigma / 2, 2)
    for other in (SampledGaussian(louder, 0.2, 3), SampledGaussian(STEP, 0.3, 3), SampledGaussian(STEP, 0.2, 4)):
        with pytest.raises(BudgetExceededError):
            Ledger(tight, [other.planned("sum")])


def test_refusals() -> None:
    for rate, steps, name in ((0.0, 1, "rate"), (1.0, 1, "rate"), (0.5, 0, "steps")):
        with pytest.raises(InvalidParameterError, match=name):
            SampledGaussian(STEP, rate, steps)
