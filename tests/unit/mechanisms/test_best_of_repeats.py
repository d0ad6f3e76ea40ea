"""The best of a secret number of runs: its number has the stated law, all runs are made, and it is paid first."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms import BestOfRepeats, LaplaceMechanism
from dpconvex.privacy import Ledger, PrivacyParams, PureMechanism, RepeatedSelection, Sensitivity
from dpconvex.randomness import SeededSource, SystemSource

STATED = Sensitivity(1.0, "absolute", "test")


def best(most=6, shape=0.0, gamma=0.1):
    return BestOfRepeats(STATED, RepeatedSelection((PureMechanism(0.25),), shape, gamma, most))


def released(mechanism, scores, source):
    """Index of the winning run, of runs with the given scores."""
    runs = itertools.count()

    def attempt():
        k = next(runs)
        return k, scores[k]

    ledger = Ledger(PrivacyParams(1.0), [mechanism.planned("x")])
    winner = mechanism.release(attempt, "x", source, ledger)
    assert next(runs) == mechanism.event.most  # all are made, whatever was drawn
    return winner


@pytest.mark.parametrize(("shape", "gamma"), [(0.0, 0.0), (0.0, 0.3), (1.0, 0.1), (-0.5, 0.1)])
@pytest.mark.thin
@pytest.mark.dear("0.0-0.0")
def test_the_number_of_runs_has_the_stated_law(shape, gamma) -> None:
    """Scores that rise make the winner the last run that counts. A true law fails with probability 1e-4."""
    mechanism, source = best(6, shape, gamma), SeededSource(0)
    found = np.bincount([released(mechanism, range(6), source) for _ in range(4000)], minlength=6)
    weights = np.array(mechanism.event.weights)
    assert chisquare(found, 4000 * weights / weights.sum()).pvalue > 1e-4


def test_scores_that_fall_make_the_first_win_and_of_equals_the_first() -> None:
    for seed in range(20):
        assert released(best(), range(6, 0, -1), SeededSource(seed)) == 0
        assert released(best(), [1.0] * 6, SeededSource(seed)) == 0


def test_the_system_source_is_exact() -> None:
    assert best().exact_bits(SystemSource())
    assert not best().exact_bits(SeededSource(0))
    assert released(best(), range(6), SystemSource()) in range(6)


def test_nothing_runs_before_it_is_paid() -> None:
    mechanism, made = best(), []
    ledger = Ledger(PrivacyParams(1.0), [mechanism.planned("x")])
    for label, runs in (("y", 0), ("x", 6), ("x", 6)):
        try:
            mechanism.release(lambda: made.append(0) or (0, 0.0), label, SeededSource(0), ledger)  # pyright: ignore
        except BudgetExceededError:
            assert label == "y" or len(made) == 6
        assert len(made) == runs


def test_a_promise_that_forgets_the_repeats_is_refused() -> None:
    with pytest.raises(BudgetExceededError, match=r"cost epsilon=0\.5"):
        Ledger(PrivacyParams(0.25), [best().planned("x")])


def test_sensitivities_in_other_norms_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="norm"):
        BestOfRepeats(Sensitivity(1.0, "l2", "test"), best().event)


def test_released_candidates_stay_within_the_promise() -> None:
    """Whole law by counting: two neighbors whose scores differ by the sensitivity each, noise of a run at 0.5.

    The promise is 1; frequencies of 20,000 runs tell ratios apart by 0.1 with probability above 0.999.
    """
    score = LaplaceMechanism.calibrate(STATED, 0.5, 1)
    mechanism = BestOfRepeats(STATED, RepeatedSelection((score.event,), 0.0, 0.0, 4))
    rng = np.random.default_rng(0)

    def frequencies(scores):
        weights = np.array(mechanism.event.weights)
        counts = rng.choice(4, p=weights / weights.sum(), size=20_000) + 1
        drawn = rng.integers(3, size=(20_000, 4))
        noisy = np.asarray(scores)[drawn] + rng.laplace(scale=score.scale, size=drawn.shape)
        noisy[np.arange(4) >= counts[:, None]] = -np.inf
        return np.bincount(drawn[np.arange(20_000), noisy.argmax(axis=1)], minlength=3) / 20_000

    first, second = frequencies([0.0, 1.0, 1.0]), frequencies([1.0, 0.0, 0.0])
    assert np.abs(np.log(first / second)).max() <= float(mechanism.event.pure_epsilon or 0) + 0.1
