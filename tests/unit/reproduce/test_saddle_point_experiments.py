"""The saddle-point experiments in quick mode."""

from __future__ import annotations

import pytest

from dpconvex.reproduce import EXPERIMENTS, Setting

OURS = [name for name in EXPERIMENTS if name.startswith("saddle-point/")]


@pytest.mark.parametrize("name", OURS)
def test_quick_runs_pass_and_are_well_formed(name: str) -> None:
    outcome = EXPERIMENTS[name].measure(Setting(quick=True))
    assert outcome.passed, outcome.rows
    assert outcome.rows
    assert len(set(outcome.columns)) == len(outcome.columns)
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert sum(map(len, outcome.columns)) + 2 * len(outcome.columns) <= 100


def test_there_are_eight() -> None:
    assert len(OURS) == 8
