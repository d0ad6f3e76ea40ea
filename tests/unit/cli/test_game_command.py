"""``dpconvex game``: files of payoffs in, strategies and certificate out; plans without data; errors of one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpconvex import private_game

RULES = np.array([[0.9, 0.9, 0.9], [-0.5, 0.2, -0.9], [0.8, 0.9, 0.7]])
"""Row 1 and then column 1 are best."""


@pytest.fixture
def plays(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, 3, (2, 6000))
    table = pd.DataFrame({"who": [f"p{k}" for k in range(6000)], "column": j, "row": i, "payoff": RULES[i, j]})
    table.to_csv(tmp_path / "plays.csv", index=False)
    return tmp_path / "plays.csv"


@pytest.mark.gate
def test_it_writes_what_the_function_releases(run: Any, plays: Path) -> None:
    """Columns by name, in any order, among others."""
    result = run("game", plays, "--shape", "3x3", "--epsilon", 4, "--seed", 3)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    released = json.loads(Path("game/game.json").read_text())
    table = pd.read_csv(plays)[["row", "column", "payoff"]].to_numpy(dtype=float)
    expected = private_game(table, epsilon=4, form="plays", shape=(3, 3), random_state=3)
    assert (released["row"], released["column"]) == (expected.x.tolist(), expected.y.tolist())
    assert released["shape"] == [3, 3]
    assert np.argmax(released["row"]) == 1
    assert "NOT PRIVATE" in result.stdout
    assert run("verify", "game").exit_code == 1  # seeded
    assert run("game", plays, "--shape", "3x3", "--epsilon", 4).exit_code == 2  # the folder exists


@pytest.mark.parametrize("form", ["matrices", "rank_one"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.thin
@pytest.mark.dear("csv-matrices")
def test_records_of_other_forms(run: Any, tmp_path: Path, form: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    mean = RULES[:, :2].ravel() if form == "matrices" else np.array([0.9, -0.9, 0.9, 0.9, 0.9])
    cells = np.where(rng.random((4000, len(mean))) < (1 + mean) / 2, 1.0, -1.0)
    table = pd.DataFrame(cells, columns=[f"c{k}" for k in range(len(mean))])
    path = tmp_path / f"payoffs.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    result = run("game", path, "--form", form, "--shape", "3x2", "--epsilon", 2, "--json", "--out", "there")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["files"] == ["there/game.json", "there/certificate.json"]
    assert np.argmax(printed["row"]) == 1
    assert len(printed["column"]) == 2
    assert printed["plan"]["public"]["n"] == 4000
    assert run("verify", "there").exit_code == 0


def test_a_plan_reads_no_data(run: Any) -> None:
    words = ("game", "--shape", "30x20", "--epsilon", 1, "--rows", 20_000)
    listed = json.loads(run(*words, "--json").stdout)
    assert (listed["rows"], listed["epsilon"], listed["delta"]) == (20_000, 1.0, 1e-6)
    assert {one["algorithm"] for one in listed["plans"]} >= {"vertex_mirror_descent", "boosted_mirror_descent"}
    assert [one["chosen"] for one in listed["plans"]].count(True) == 1
    shown = run(*words)
    assert shown.exit_code == 0
    assert "30 x 20 actions" in shown.stdout
    printed = json.loads(run(*words, "--constants", "paper", "--form", "matrices", "--json").stdout)
    assert {one["constants"] for one in printed["plans"]} == {"paper"}
    assert run("game", "--shape", "2x2", "--epsilon", 1e-4, "--rows", 10).stderr.startswith("warning:")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--shape", "3"), "shape"),
        (("--shape", "3x1"), "shape"),
        (("--shape", "3x-2"), "shape"),
        (("--shape", "9" * 5000 + "x2"), "shape"),
        (("--shape", "3x3", "--form", "cards"), "form"),
        (("--shape", "3x3", "--bound", "0"), "bound"),
        (("--shape", "3x3", "--form", "matrices"), "9 columns"),
        (("--shape", "3x3", "--rows", "10"), "rows"),
        (("--shape", "3x3", "--delta", "0.7"), "delta"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(run: Any, plays: Path, words: tuple[str, ...], named: str) -> None:
    result = run("game", plays, "--epsilon", 1, *words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
    assert not Path("game").exists()


def test_a_file_without_the_columns_of_plays_is_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("row,col,payoff\n0,0,1\n")
    result = run("game", tmp_path / "t.csv", "--shape", "2x2", "--epsilon", 1)
    assert result.exit_code == 2
    assert "column" in result.stderr
    assert run("game", "--shape", "2x2", "--epsilon", 1).exit_code == 2  # neither file nor --rows


@pytest.mark.gate
def test_what_cells_hold_is_clipped_or_mapped(run: Any, tmp_path: Path) -> None:
    """Texts, blanks, infinities and actions beyond the game: same certificate, same columns, no message."""
    said = set()
    for cells in ("0,1,1\n", "x,,nan\n", "-5,1e999,-inf\n", "7,9,1e300\n"):
        (tmp_path / "t.csv").write_text("row,column,payoff\n" + cells * 300)
        result = run("game", tmp_path / "t.csv", "--shape", "2x2", "--epsilon", 1, "--json", "--force")
        assert result.exit_code == 0, result.output
        printed = json.loads(result.stdout)
        assert np.isfinite(printed["row"]).all()
        said.add((result.stderr, json.dumps(printed["plan"])))
    assert len(said) == 1
