"""The auditor can refute, does not refute what is true, and its parts agree with what is known in closed form."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpconvex.algorithms.erm.heavy_tailed.registry import HEAVY_METHODS
from dpconvex.algorithms.erm.registry import ERM_METHODS
from dpconvex.algorithms.minimax.registry import SADDLE_METHODS, SPARSE_METHODS
from dpconvex.algorithms.queries.registry import QUERY_METHODS
from dpconvex.audit import Pair, audit, log_law, privacy_losses, prove, proved_epsilon
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import AboveThreshold, LaplaceMechanism, ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.privacy.profiles import gaussian_delta
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit.laws import halting_law, selection_law
from dpconvex_experiments.audit.targets import TARGETS, chosen

EXTENT = Sensitivity(1.0, "absolute", "test")


@dataclass(frozen=True)
class Mean:
    """An extension as a user would write it: clipped mean with Laplace noise, of which `share` is drawn."""

    privacy: PrivacyParams
    share: float = 1.0
    clipped: bool = True
    through_mechanism: bool = True

    def run(self, x, source):
        value = np.mean(np.clip(x, -1, 1) if self.clipped else x, keepdims=True)
        scale = self.share * 2 / len(x) / self.privacy.epsilon
        if not self.through_mechanism:
            return value + source.generator().laplace(0, scale, 1)
        mechanism = LaplaceMechanism(Sensitivity(2 / len(x) / (1 + 2**-19), "absolute", "mean"), scale, 1)
        return mechanism.release(value, "mean", source, Ledger(PrivacyParams(1e5), [mechanism.planned("mean")]))


def extremes(n=4, far=1.0):
    return {"ends": Pair((np.full(n, far),), (np.append(np.full(n - 1, far), -far),))}


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_an_honest_extension_passes_and_is_shown_to_be_tight(epsilon) -> None:
    report = audit(Mean(PrivacyParams(epsilon)), extremes(far=50.0), runs=0, transcripts=40)
    assert report.passed
    assert report.proved_at_least == pytest.approx(epsilon, rel=1e-3)
    assert report.findings[0].confidence == 1.0


@pytest.mark.parametrize("mutant", [{"share": 0.5}, {"clipped": False}], ids=str)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_broken_extensions_are_refuted_by_their_exact_loss(epsilon, mutant) -> None:
    report = audit(Mean(PrivacyParams(epsilon), **mutant), extremes(far=2.0), runs=0, transcripts=40)
    assert not report.passed
    assert report.proved_at_least == pytest.approx(2 * epsilon, rel=1e-4)


@pytest.mark.gate
def test_counting_refutes_what_goes_through_no_mechanism() -> None:
    """Each verdict wrong with probability at most 1e-3; the noise is the operating system's, so it varies.

    Of 40 honest audits the least proved 0.48, the middle one 0.67, with a spread of 0.07: 0.3 is five spreads away.
    """
    honest = audit(Mean(PrivacyParams(1.0), through_mechanism=False), extremes(), runs=2000)
    broken = audit(Mean(PrivacyParams(1.0), 0.4, through_mechanism=False), extremes(), runs=2000)
    assert [finding.attack for finding in broken.findings] == ["counting"]
    assert honest.passed
    assert honest.proved_at_least > 0.3
    assert not broken.passed


def test_counting_is_right_where_the_answer_is_known() -> None:
    """Laplace noise of epsilon 1: never above (but for 1e-3), not far below with 20,000 runs. Seeds are fixed."""
    rng = np.random.default_rng(0)
    first, second = rng.laplace(0, 1, (20_000, 1)), rng.laplace(1, 1, (20_000, 1))
    assert 0.8 < prove(first, second, 0.0, 1e-3).epsilon <= 1.0
    assert prove(first, first[::-1], 0.0, 1e-3).epsilon <= 0.1
    assert prove(first.round(), second.round(), 0.0, 1e-3).epsilon <= 1.0


def test_proved_epsilon_at_the_ends() -> None:
    assert proved_epsilon(0, 0, 100, 0.0, 1e-3) == -math.inf
    assert proved_epsilon(100, 100, 100, 0.0, 1e-3) < 0
    assert 2 < proved_epsilon(1000, 0, 1000, 0.0, 1e-3) < 6  # log(0.99/0.0076)
    assert proved_epsilon(100, 0, 100, 0.99, 1e-3) == -math.inf


def test_the_law_of_the_noisy_maximum_is_that_of_permute_and_flip() -> None:
    """McKenna and Sheldon 2020, two candidates: the worse one has half of ``exp(-gap)``; then against simulation."""
    found = np.exp(selection_law(np.array([0.0, -1.3]), 1.0))
    assert found == pytest.approx([1 - math.exp(-1.3) / 2, math.exp(-1.3) / 2], rel=1e-12)
    scores, rng = np.array([0.0, -0.5, -2.0, 0.3]), np.random.default_rng(0)
    drawn = np.argmax(scores + rng.exponential(0.7, (200_000, 4)), axis=1)
    assert np.exp(selection_law(scores, 0.7)) == pytest.approx(np.bincount(drawn) / 200_000, abs=0.006)  # 5 deviations


@pytest.mark.gate
def test_the_law_of_above_threshold_adds_up_and_matches_its_sampler() -> None:
    mechanism, queries = AboveThreshold(EXTENT, 2.0, 1.0), np.array([-1.0, 0.5, 2.0])
    logs = np.array([halting_law(mechanism, queries, k) for k in range(4)])
    law = np.exp(logs - np.logaddexp.reduce(logs))
    ledger = Ledger(PrivacyParams(1e5), [replace(mechanism.planned("q"), times=20_000)])
    source = SeededSource(1)
    drawn = [mechanism.release(queries, "q", source, ledger) for _ in range(4000)]
    assert law == pytest.approx(np.bincount(drawn, minlength=4) / 4000, abs=0.04)  # 5 deviations


def test_replay_gives_the_exact_loss_of_adaptive_releases() -> None:
    """A second release whose value depends on the first: the loss is the sum, computed by hand."""
    mechanism = LaplaceMechanism(EXTENT, 2.0, 1)
    seen = []

    def run(x, source):
        ledger = Ledger(PrivacyParams(1e5), [replace(mechanism.planned("x"), times=2)])
        first = mechanism.release(x, "x", source, ledger)
        second = mechanism.release(x * np.sign(first), "x", source, ledger)
        seen.append((float(first[0]), float(second[0])))

    found = privacy_losses(run, (np.array([1.0]),), (np.array([0.0]),), 20)
    by_hand = [(abs(a) - abs(a - 1) + abs(b) - abs(b - math.copysign(1, a))) / 2 for a, b in seen[::2]]
    assert found.losses == pytest.approx(by_hand, abs=1e-5)
    assert seen[::2] == seen[1::2]  # the neighbor saw the same releases
    assert found.releases == 2
    assert found.mu is None


def test_a_release_that_the_neighbor_never_makes_is_an_infinite_loss() -> None:
    mechanism = LaplaceMechanism(EXTENT, 2.0, 1)

    def run(x, source):
        if x[0] > 0:
            mechanism.release(x, "x", source, Ledger(PrivacyParams(1e5), [mechanism.planned("x")]))

    assert privacy_losses(run, (np.ones(1),), (np.zeros(1),), 8).losses.max() == math.inf


def test_gaussian_plans_are_priced_by_formula() -> None:
    subject = TARGETS["clipped_mean"].subject(2.0, 1e-6, 10.0)
    report = audit(subject.plan, subject.pairs, runs=0, transcripts=8)
    assert report.passed
    assert report.proved_at_least == pytest.approx(2.0, rel=1e-3)
    assert gaussian_delta(2.0, 0.4) < 1e-6 < gaussian_delta(2.0, 0.6)  # so the formula was needed: counts see no 1e-6


def test_unknown_laws_are_refused() -> None:
    with pytest.raises(Exception, match="no law is known"):
        log_law(object(), np.zeros(1), np.zeros(1))
    assert log_law(ReportNoisyMax(Sensitivity(1.0, "linf", "x"), 1.0), np.zeros(2), 0) == pytest.approx(-math.log(2))


@pytest.mark.parametrize("change", [{"runs": 3}, {"transcripts": -1}, {"error": 0.0}, {"pairs": {}}], ids=str)
def test_bad_parameters_are_named(change) -> None:
    with pytest.raises(InvalidParameterError, match=f"^{next(iter(change))}="):
        audit(Mean(PrivacyParams(1.0)), **{"pairs": extremes(), **change})
    with pytest.raises(InvalidParameterError, match=r"^pairs="):
        audit(Mean(PrivacyParams(1.0)))


def test_every_algorithm_can_be_audited() -> None:
    for name in (*ERM_METHODS, *HEAVY_METHODS, *SADDLE_METHODS, *SPARSE_METHODS):
        assert chosen(name), name
    for name in QUERY_METHODS:
        assert chosen(f"queries/{name}"), name
    assert len(chosen("all")) == len(TARGETS)
    assert chosen("none such") == ()


def test_a_report_is_json() -> None:
    report = audit(Mean(PrivacyParams(1.0)), extremes(), runs=16, transcripts=8)
    fields = json.loads(json.dumps(report.to_dict()))
    assert fields["passed"] is True
    assert {finding["attack"] for finding in fields["findings"]} == {"exact loss", "counting"}
    assert fields["claimed"] == {"epsilon": 1.0, "delta": 0.0, "neighboring": "replace_one", "unit": "record"}
