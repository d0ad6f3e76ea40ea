"""The saddle-point experiments in quick mode."""

from __future__ import annotations

import pytest

from dpconvex_experiments import EXPERIMENTS, Setting

OURS = [name for name in EXPERIMENTS if name.startswith("saddle-point/")]


QUICKEST = ("sparsification", "queries")
LONGEST = ("exponents", "/boosted-bound", "/boosting", "/tightness")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.gate] * (not name.endswith(QUICKEST)) + [pytest.mark.slow] * name.endswith(LONGEST)
        )
        for name in OURS
    ],
)
@pytest.mark.dear("saddle-point/queries")
def test_quick_runs_pass_and_are_well_formed(name: str) -> None:
    outcome = EXPERIMENTS[name].measure(Setting(quick=True))
    assert outcome.passed, outcome.rows
    assert outcome.rows
    assert len(set(outcome.columns)) == len(outcome.columns)
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert sum(map(len, outcome.columns)) + 2 * len(outcome.columns) <= 110


@pytest.mark.slow
@pytest.mark.parametrize("printed", [1.0, 0.5])
def test_without_erratum_e2_bias_reduction_fails(printed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The printed normalizer is at most 1; it must be ``2 - 2^-M``."""
    monkeypatch.setattr("dpconvex.algorithms.minimax.bias_reduced.normalizer", lambda M: printed)
    outcome = EXPERIMENTS["saddle-point/bias-reduction"].measure(Setting(quick=True))
    assert not outcome.passed
    sums = [check for check in outcome.checks if check.name.startswith("telescoping")]
    assert sums
    assert not any(check.passed for check in sums)


def test_there_are_as_many_as_the_documentation_describes() -> None:
    assert len(OURS) == 12
