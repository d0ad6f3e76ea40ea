"""The audit of a search refutes the mistakes that searches make: exact losses of whole runs on neighbors, seeded."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dpconvex.algorithms.search import plan as listing
from dpconvex.algorithms.search.scores import Score
from dpconvex.errors import BudgetExceededError
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit import audit
from dpconvex_experiments.audit.targets import TARGETS


def subject():
    return TARGETS["private_search"].subject(1.0, 0.0, 1.0)


def audited(transcripts=40):
    search = subject()
    return audit(search.plan, search.pairs, output=search.output, runs=0, transcripts=transcripts)


@pytest.mark.slow  # tests/contracts/test_audits.py asks the same of this target
def test_the_search_itself_spends_what_it_says() -> None:
    report = audited()
    assert report.passed
    assert report.proved_at_least > 0.99


@pytest.mark.slow
def test_half_the_sensitivity_of_scores_is_refuted(monkeypatch) -> None:
    full = Score.sensitivity

    def halved(self, count, unit):
        stated = full(self, count, unit)
        return dataclasses.replace(stated, value=stated.value / 2)

    monkeypatch.setattr(Score, "sensitivity", halved)
    assert not audited().passed


@pytest.mark.slow
def test_scoring_on_training_records_is_refuted(monkeypatch) -> None:
    split = listing.split

    def overlapping(data, n, held_out, source):
        training, _ = split(data, n, held_out, source)
        return training, listing.Part(training.X[-held_out:], training.y[-held_out:], None)

    monkeypatch.setattr(listing, "split", overlapping)
    assert not audited(100).passed


def test_candidates_at_the_whole_budget_each_are_refused(monkeypatch) -> None:
    """Whoever forgets that all fits are paid for meets the ledger, before anything is sampled."""
    run = listing.run
    monkeypatch.setattr(
        listing, "run", lambda plan, *rest: run(dataclasses.replace(plan, candidates=plan.whole), *rest)
    )
    with pytest.raises(BudgetExceededError, match="cost epsilon=2"):
        subject().plan.run(np.ones((6, 1)), np.ones(6), SeededSource(0))
