"""Noisy maximum and above-threshold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms import AboveThreshold, ExponentialMechanism, ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.randomness import SeededSource, SystemSource, exact
from dpconvex_experiments.audit.laws import finite_law
from instances import instances

SOURCES = pytest.mark.parametrize("source", [SeededSource(5), SystemSource()], ids=["seeded", "system"])
ONE = Sensitivity(1.0, "absolute", "test")


def ledger_for(mechanism) -> Ledger:
    return Ledger(PrivacyParams(mechanism.epsilon), [mechanism.planned("x")])


@SOURCES
def test_noisy_max_limits(source) -> None:
    scores = np.array([1.0, 3.0, 2.0])
    sharp = ReportNoisyMax(Sensitivity(1.0, "linf", "test"), 1e3)
    assert sharp.release(scores, "x", source, ledger_for(sharp)) == 1  # fails with probability e^-500
    flat = ReportNoisyMax(Sensitivity(1.0, "linf", "test"), 1e-9)
    drawn = {flat._sample(scores, source) for _ in range(100)}
    assert drawn == {0, 1, 2}  # misses one with probability below 1e-16


def test_noisy_max_costs_epsilon_by_opendps_own_map() -> None:
    mechanism = ReportNoisyMax(Sensitivity(0.37, "linf", "test"), 0.8)
    move = math.floor(0.37 / mechanism.step) + 1  # the furthest that rounding lets a score move
    epsilon = exact.argmax_measurement(mechanism.scale / mechanism.step).map(move)
    assert 0.8 * (1 - 1e-5) < epsilon <= 0.8
    assert float(mechanism.event.pure_epsilon) == 0.8


def test_noisy_max_checks_public_facts_only() -> None:
    mechanism = instances(ReportNoisyMax)[0]
    assert 0 <= mechanism._sample(np.array([np.nan, np.inf, -np.inf]), SeededSource(0)) < 3
    with pytest.raises(InvalidParameterError, match="shape"):
        mechanism._sample(np.zeros(0), SeededSource(0))
    with pytest.raises(InvalidParameterError, match="norm"):
        ReportNoisyMax(ONE, 1.0)


@pytest.mark.parametrize("epsilon", [0.01, 0.8, 5.0])
def test_the_exponential_mechanism_has_losses_in_an_interval(epsilon) -> None:
    """Scores that move against each other by the sensitivity: the interval has length epsilon, and no more."""
    mechanism, base = ExponentialMechanism(Sensitivity(0.3, "linf", "test"), epsilon), np.array([0.1, -2.0, 1.0, 0.7])
    moved = base + 0.3 * np.array([1.0, -1.0, -1.0, 1.0])
    ratio = finite_law(mechanism, moved) - finite_law(mechanism, base)
    assert 0.999 * epsilon < np.ptp(ratio) <= epsilon
    assert mechanism.event.epsilon == epsilon
    drawn = np.bincount([mechanism._sample(base, SeededSource(seed)) for seed in range(2000)], minlength=4) / 2000
    assert np.abs(drawn - np.exp(finite_law(mechanism, base))).max() < 4 * 0.5 / 2000**0.5
    with pytest.raises(InvalidParameterError, match="shape"):
        mechanism._sample(np.zeros(0), SeededSource(0))


@SOURCES
def test_above_threshold_stops_and_stays_stopped(source) -> None:
    mechanism = AboveThreshold(ONE, 1e4, 10.0)
    ledger = ledger_for(mechanism)
    session = mechanism.start("x", source, ledger)
    assert [session.query(v) for v in (0.0, 9.0, -np.inf, np.nan, 11.0)] == [False] * 4 + [True]
    with pytest.raises(BudgetExceededError, match="ended"):
        session.query(0.0)
    assert len(ledger.recorded) == 1
    with pytest.raises(BudgetExceededError):
        mechanism.start("x", source, ledger)
    assert mechanism._sample(np.array([0.0, 11.0, 12.0]), source) == 1
    assert mechanism._sample(np.array([0.0, 1.0]), source) == 2


def test_above_threshold_splits_the_whole_budget() -> None:
    mechanism = AboveThreshold(ONE, 0.9, 2.0)
    first, second = 1 / mechanism.threshold_scale, 2 / mechanism.query_scale
    assert 0.9 * (1 - 2e-6) < first + second <= 0.9
    assert second / first == pytest.approx(2 ** (2 / 3), rel=1e-9)  # Lyu, Su and Li 2017, section 4.2, c = 1
    with pytest.raises(InvalidParameterError, match="threshold"):
        AboveThreshold(ONE, 0.9, math.inf)


def _log_probability(queries, threshold_scale: float, query_scale: float) -> float:
    """Log-probability of "below" for all queries but the last, then "above", at threshold 0, by quadrature."""
    noise = stats.laplace(scale=query_scale)

    def integrand(t: float) -> float:
        log_below = sum(noise.logcdf(t - q) for q in queries[:-1])
        return math.exp(log_below + noise.logsf(t - queries[-1]) + stats.laplace.logpdf(t, scale=threshold_scale))

    return math.log(integrate.quad(integrand, -60, 60, points=[0.0, *queries], limit=400, epsabs=0)[0])


@pytest.mark.gate
def test_above_threshold_privacy_loss_by_quadrature() -> None:
    """The worst pattern (low queries fall by 1, the last rises by 1) stays within epsilon, and not by much."""
    mechanism = AboveThreshold(ONE, 0.9, 0.0)
    lows = [4.0] * 12  # all well above the threshold: "below" pulls the noisy threshold up
    here, there = [*lows, -4.0], [low + 1 for low in lows] + [-5.0]

    def loss(query_scale: float) -> float:
        arguments = mechanism.threshold_scale, query_scale
        return _log_probability(here, *arguments) - _log_probability(there, *arguments)

    assert 0.8 * 0.9 < loss(mechanism.query_scale) <= 0.9
    assert loss(mechanism.query_scale / 2) > 0.9  # forgetting the factor 2 is caught


@pytest.mark.parametrize("split", [0.1, 0.8])
def test_one_noisy_threshold_and_fresh_noise_for_every_query(split) -> None:
    """Share of 2,000 sessions of 5 queries that are all below: that of one threshold, within 5 standard errors (6e-7).

    A threshold drawn for every query, or one noise for all queries, is off by more than 0.1 at one of the splits.
    """
    mechanism, sessions = AboveThreshold(ONE, 1.0, 0.0, split), 2_000
    t = np.linspace(-30, 30, 60_001) * mechanism.threshold_scale
    below = stats.laplace.cdf(t, scale=mechanism.query_scale) ** 5
    wanted = float(np.trapezoid(below * stats.laplace.pdf(t, scale=mechanism.threshold_scale), t))
    planned = mechanism.planned("test")
    ledger = Ledger(PrivacyParams(1.1 * sessions), [replace(planned, times=sessions)])
    source, found = SeededSource(1), 0
    for _ in range(sessions):
        session = mechanism.start("test", source, ledger)
        found += not any(session.query(0.0) for _ in range(5))
    assert found / sessions == pytest.approx(wanted, abs=5 * math.sqrt(wanted * (1 - wanted) / sessions))
