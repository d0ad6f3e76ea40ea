"""``dpconvex plan --goal``, several epsilons, and the picture: ranges, JSON, clear errors, no data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

PLAN = ("plan", "--features", 5, "--rows", 20_000)


@pytest.mark.gate
def test_a_goal_gives_ranges_of_epsilon_and_rows(run: Any) -> None:
    shown = run(*PLAN, "--goal", 0.005, "--epsilon", 1).stdout
    assert "Needed with 20,000 records: epsilon" in shown
    assert "Needed at epsilon 1: rows" in shown
    assert "guess" in shown
    needed = json.loads(run(*PLAN, "--goal", "5%", "--json").stdout)["needed"]["epsilon"]
    assert needed["low"] <= needed["typical"] <= needed["high"]


def test_epsilons_are_compared_in_one_table(run: Any) -> None:
    shown = run(*PLAN, "--epsilon", "0.1,1,3").stdout
    assert [line.split()[0] for line in shown.splitlines() if line[:1].isdigit()] == ["0.1", "1", "3"]
    rows = json.loads(run(*PLAN, "--epsilon", "3,0.1", "--json").stdout)["expected"]
    assert [row["at"] for row in rows] == [0.1, 3.0]
    assert rows[0]["typical"] > rows[1]["typical"] > 0
    assert all(row["low"] < row["typical"] < row["high"] <= row["constant"] for row in rows[1:])


@pytest.mark.gate
def test_a_picture_is_written_whole(run: Any) -> None:
    run(*PLAN, "--epsilon", "0.1,1", "--picture", "expected.svg")
    assert "<svg" in Path("expected.svg").read_text(encoding="utf-8")
    assert [path.name for path in Path().iterdir() if path.suffix == ".partial"] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--epsilon: must be given"),
        (("--epsilon", ","), "epsilon=',': must be given"),
        (("--epsilon", "1,x"), "epsilon='1,x': must be a positive number"),
        (("--epsilon", "0,1"), "epsilon='0,1': must be a positive number"),
        (("--goal", "ten"), "goal='ten': must be an excess loss"),
        (("--goal", "0"), "goal=0.0"),
        (("--epsilon", "1,2", "--picture", "expected.bmp"), "picture='.bmp'"),
    ],
)
def test_wrong_wishes_are_refused(run: Any, options: tuple[str, ...], words: str) -> None:
    result = run(*PLAN, *options)
    assert result.exit_code == 2
    assert words in result.stderr
