"""``dpconvex median``: files in and out, plans without data, errors of one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dpconvex import PrivateGeometricMedian

BUDGET = ("--epsilon", 2, "--delta", 1e-6, "--radius-bound", 100)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    X = rng.normal([3.0, -2.0], 0.1, size=(2_000, 2))
    X[:100] = 50
    people = pa.array([f"p{k // 2}" for k in range(2_000)])
    return pa.table({"east": X[:, 0], "north": X[:, 1], "who": people})


@pytest.fixture
def files(table: pa.Table, tmp_path: Path) -> dict[str, Path]:
    """The same table as points.csv and points.parquet."""
    paths = {kind: tmp_path / f"points.{kind}" for kind in ("csv", "parquet")}
    pacsv.write_csv(table, paths["csv"])
    pq.write_table(table, paths["parquet"])
    return paths


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.dear("csv")
def test_it_writes_what_the_estimator_releases(run: Any, files: dict[str, Path], table: pa.Table, kind: str) -> None:
    words = ("median", files[kind], *BUDGET, "--column", "east", "--column", "north", "--seed", 3)
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    released = json.loads(Path("median/median.json").read_text())
    X = np.column_stack([table["east"].to_numpy(), table["north"].to_numpy()])
    expected = PrivateGeometricMedian(2.0, 1e-6, radius_bound=100.0, random_state=3).fit(X)
    assert released["columns"] == ["east", "north"]
    assert released["location"] == expected.location_.tolist()
    assert (released["radius"], released["status"]) == (expected.radius_, "ok")
    assert "NOT PRIVATE" in result.stdout
    assert run("verify", "median").exit_code == 1  # seeded


def test_json_alone_is_printed_and_certificates_verify(run: Any, files: dict[str, Path]) -> None:
    result = run("median", files["parquet"], *BUDGET, "--user-column", "who", "--json", "--out", "elsewhere")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["files"] == ["elsewhere/median.json", "elsewhere/certificate.json"]
    assert printed["columns"] == ["east", "north"]  # all but the user's
    assert printed["certificate"]["target"]["unit"] == "user"
    assert printed["certificate"]["public"]["n"] == 1_000
    assert printed["certificate"]["private"]
    assert run("verify", "elsewhere").exit_code == 0
    assert run("verify", "elsewhere/certificate.json").exit_code == 0


def test_a_folder_is_replaced_only_when_forced(run: Any, files: dict[str, Path]) -> None:
    words = ("median", files["csv"], *BUDGET, "--user-column", "who")
    assert run(*words).exit_code == 0
    before = Path("median/median.json").read_text()
    refused = run(*words)
    assert refused.exit_code == 2
    assert "holds" in refused.stderr
    assert Path("median/median.json").read_text() == before
    forced = run(*words, "--force")
    assert forced.exit_code == 0, forced.output
    assert Path("median/median.json").read_text() != before


def test_cells_that_are_no_numbers_neither_stop_nor_speak(run: Any, tmp_path: Path) -> None:
    """One odd cell must not turn a column of numbers into text."""
    lines = ["x,y", *["1.0,2.0"] * 300, "oops,", "inf,nan", "1e999,-5"]
    (tmp_path / "odd.csv").write_text("\n".join(lines) + "\n")
    result = run("median", "odd.csv", "--epsilon", 5, "--radius-bound", 10)
    assert result.exit_code == 0, result.output
    assert np.isfinite(json.loads(Path("median/median.json").read_text())["location"]).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.csv", *BUDGET), "cannot be read"),
        (("points.txt", *BUDGET), "or .parquet"),
        (("points.csv", *BUDGET, "--column", "west"), "no column 'west'"),
        (("points.parquet", *BUDGET), "who"),  # text, and declared a number
        (("points.csv", "--epsilon", 1, "--radius-bound", -1), "radius_bound=-1"),
        (("points.csv", *BUDGET, "--rows", 5), "rows=5"),
        (BUDGET, "error: --rows"),
        (("--rows", 100, *BUDGET), "error: --features"),
    ],
)
def test_errors_are_one_line_and_write_nothing(
    run: Any, files: dict[str, Path], words: tuple[Any, ...], message: str
) -> None:
    result = run("median", *words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert not Path("median").exists()


def test_plan_reads_no_data(run: Any) -> None:
    words = ("median", "--rows", 20_000, "--features", 10, *BUDGET)
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    listed = json.loads(run(*words, "--json").stdout)
    assert (listed["rows"], listed["epsilon"]) == (20_000, 2.0)
    (facts,) = listed["plans"]
    plan = PrivateGeometricMedian(2.0, 1e-6, radius_bound=100.0).plan(20_000, 10)
    assert [r["label"] for r in facts["releases"]] == [r.label for r in plan.releases]
    assert facts["public"] == json.loads(json.dumps(dict(plan.public)))
    assert json.loads(run(*words, "--user-column", "who", "--json").stdout)["users"] == 20_000


def test_without_names_all_columns_but_the_users_are_coordinates(run: Any, files: dict[str, Path]) -> None:
    result = run("median", files["csv"], *BUDGET, "--user-column", "who", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["columns"] == ["east", "north"]
    refused = run("median", files["csv"], *BUDGET, "--user-column", "east", "--column", "east", "--force")
    assert refused.exit_code == 2
    assert "user_column='east'" in refused.stderr
