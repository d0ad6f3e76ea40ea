"""The grid resumes, refuses other settings, and leaves out what the library refuses; time limits numbers of runs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex_experiments.audit import Pair, audit
from dpconvex_experiments.audit.report import Pace
from dpconvex_experiments.audit.targets import TARGETS
from dpconvex_experiments.audit_grid import REFUSED, Settings, audit_grid, summary
from dpconvex_experiments.base import untracked

SETTINGS = Settings("0", 0.05, 0, 8, 5.0, 0)


def test_a_grid_resumes_where_it_was(tmp_path, monkeypatch) -> None:
    file, targets = tmp_path / "grid.json", [TARGETS["mechanism/laplace"], TARGETS["mechanism/gaussian"]]
    first = audit_grid(targets[:1], file, SETTINGS, untracked, (1.0, 2.0), (0.1,))
    held = json.loads(file.read_text())
    assert [row[:3] for row in held["cells"]] == [["mechanism/laplace", 1.0, 0.1], ["mechanism/laplace", 2.0, 0.1]]
    assert [cell.proved for cell in first] == pytest.approx([1.0, 2.0], rel=1e-3)

    audited = []
    monkeypatch.setattr(
        "dpconvex_experiments.audit_grid.audit", lambda plan, *_, **o: audited.append(plan) or audit(plan, *_, **o)
    )
    both = audit_grid(targets, file, SETTINGS, untracked, (1.0, 2.0), (0.1,))
    assert both[:2] == first
    assert [plan.algorithm for plan in audited] == ["Gaussian", "Gaussian"]
    assert all(cell.passed for cell in both)
    assert [(name, *best) for name, best, *_ in summary(both)] == [
        ("mechanism/laplace", 1.0, 2.0),
        ("mechanism/gaussian", 1.0, 2.0),
    ]


def test_other_settings_are_not_continued(tmp_path) -> None:
    file, targets = tmp_path / "grid.json", [TARGETS["mechanism/laplace"]]
    audit_grid(targets, file, SETTINGS, untracked, (1.0,), (1.0,))
    with pytest.raises(InvalidParameterError, match=r"^out="):
        audit_grid(targets, file, replace(SETTINGS, delta=0.1), untracked, (1.0,), (1.0,))


def test_a_promise_that_the_library_refuses_is_no_cell(tmp_path) -> None:
    cells = audit_grid(
        [TARGETS["mechanism/bounded_laplace"]], tmp_path / "grid.json", SETTINGS, untracked, (1.0, 8.0), (1.0,)
    )
    assert [cell.attack == REFUSED for cell in cells] == [False, True]
    assert list(summary(cells)[0][1]) == [1.0]


class Slow:
    """A run that takes a hundredth of a second of the processor."""

    privacy = PrivacyParams(1.0)

    def run(self, x, source):
        sum(range(200_000))
        return x + source.generator().laplace(0, 2, 1)


@pytest.mark.gate
def test_time_limits_the_number_of_runs() -> None:
    pairs = {"ends": Pair((np.zeros(1),), (np.ones(1),))}
    report = audit(Slow(), pairs, runs=100_000, seconds=0.5)
    assert 8 <= report.runs < 5000
    assert report.passed
    with pytest.raises(InvalidParameterError, match=r"^seconds="):
        audit(Slow(), pairs, seconds=0.0)


def test_a_pace_without_a_limit_grants_everything() -> None:
    free, tight = Pace(None), Pace(1e-9)
    assert free.affordable(1000, free.timed(lambda: None), 0.5) == 1000
    assert tight.affordable(1000, 1.0, 0.5) == 8
    assert tight.affordable(1000, 1.0, 0.5, fewest=1) == 1
    assert tight.affordable(4, 1.0, 0.5) == 4
