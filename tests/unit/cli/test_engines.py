"""Folders and engines on every command that reads a private table: the same files as from one file in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dpconvex.cli.main import app
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, Schema
from dpconvex.privacy import Budget

COLUMNS = (NumericColumn("age", 0, 100), CategoricalColumn("town", ("Aa", "Bb")))


def run(*arguments: object) -> str:
    found = CliRunner().invoke(app, list(map(str, arguments)))
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, town = rng.normal(50, 30, 600), rng.choice(["Aa", "Bb", "Zz"], 600)
    whole = pa.table({"age": age, "town": town, "sick": np.where(age > 50, "yes", "no"), "unused": age})
    pq.write_table(whole, "all.parquet")
    Path("parts").mkdir()
    for k in range(3):
        pq.write_table(whole.slice(250 * k, 250), f"parts/{k}.parquet")
    Path("s.toml").write_text(Schema(COLUMNS, ClassTarget("sick", ("no", "yes"))).to_toml())
    return tmp_path


@pytest.mark.gate
def test_a_folder_gives_the_same_files_as_one_file(here: Path) -> None:
    common = ("--schema", "s.toml", "--epsilon", 2, "--seed", 3)
    for place, more in (("all.parquet", ()), ("parts", ("--memory", "1MiB"))):
        run("fit", place, *common, "--out", f"model {place}", *more)
        run("predict", f"model {place}", place, "--proba", "--output", f"predicted {place}", *more)
        run("synthesize", place, *common, "--out", f"synthetic {place}", *more)
        points = ("--column", "age", "--column", "unused", "--epsilon", 2, "--radius-bound", 1000, "--seed", 3)
        run("median", place, *points, "--out", f"median {place}", *more)
    for name in ("predicted {}", "synthetic {}/synthetic.csv", "median {}/median.json"):
        one, other = (Path(name.format(place)).read_bytes() for place in ("all.parquet", "parts"))
        assert one == other
    assert Path("predicted parts").read_text().count("\n") == 601


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("median", "parts", "--epsilon", 1, "--radius-bound", 10), "must be given for folders"),
        (("median", "parts", "--epsilon", 1, "--radius-bound", 10, "--user-column", "town"), "tables in memory"),
        (("synthesize", "all.parquet", "--schema", "s.toml", "--epsilon", 1, "--address", "x"), "engine dask or ray"),
        (("fit", "table.csv", "--schema", "s.toml", "--epsilon", 1, "--engine", "dask"), "reads Parquet files"),
        (("fit", "parts", "--schema", "s.toml", "--epsilon", 1, "--engine", "memory"), "reads files and patterns"),
    ],
)
def test_refusals(here: Path, arguments: tuple[object, ...], what: str) -> None:
    (here / "table.csv").write_text("age,town,sick\n")
    found = CliRunner().invoke(app, list(map(str, arguments)))
    assert found.exit_code == 2
    assert what in found.stderr
    assert not (here / "synthetic").exists()


def test_folders_are_paid_for_and_what_cannot_be_read_costs_nothing(here: Path) -> None:
    pq.write_to_dataset(pq.read_table("all.parquet"), "towns", partition_cols=["town"])  # folders hold a column
    Path("texts").mkdir()
    (here / "texts/.hidden").write_text("no table")
    for k, end in enumerate(("csv", "csv.gz")):
        with pa.output_stream(f"texts/{k}.{end}") as file:
            pacsv.write_csv(pq.read_table(f"parts/{k}.parquet"), file)
    run("budget", "create", "b.json", "--epsilon", 10)
    common = ("--schema", "s.toml", "--epsilon", 1, "--budget", "b.json", "--force")
    for place in ("parts", "towns", "texts", "parts/[01].parquet", "parts/*.parquet"):
        run("fit", place, *common)
    for place, engine in (("texts", "dask"), ("texts/*", "ray"), ("texts/0*", "dask")):
        found = CliRunner().invoke(app, list(map(str, ("fit", place, *common, "--engine", engine))))
        assert found.exit_code == 2, found.output
        assert "engines read Parquet files" in found.stderr
    run("verify", "model")
    Path("s.toml").write_text(Path("s.toml").read_text().replace("town", "city"))
    for place in ("parts", "towns", "texts", "nowhere/*.parquet"):
        found = CliRunner().invoke(app, list(map(str, ("fit", place, *common))))
        assert found.exit_code == 2, found.output
    assert Budget("b.json").account().left[0] == 5


@pytest.mark.parametrize("engine", ["local", pytest.param("dask", marks=pytest.mark.gate)])
def test_predictions_of_folders_are_those_of_one_file_and_are_checked_as_well(here: Path, engine: str) -> None:
    if engine == "dask":
        pytest.importorskip("dask.dataframe")
    run("fit", "all.parquet", "--schema", "s.toml", "--epsilon", 2, "--seed", 3)
    notes = []
    for place, more in (
        ("all.parquet", ()),
        ("parts", ("--engine", engine)),
        ("parts/*.parquet", ("--engine", engine)),
    ):
        found = CliRunner().invoke(app, ["predict", "model", place, "--check", "--output", "predicted.csv", *more])
        assert found.exit_code == 0, found.output
        notes.append((found.stderr, Path("predicted.csv").read_text()))
    assert "note: 'town': 35% of the cells are not listed" in notes[0][0]
    assert notes[0] == notes[1] == notes[2]


@pytest.mark.gate  # waits for half a minute
def test_a_scheduler_that_is_not_there_costs_nothing(here: Path) -> None:
    run("budget", "create", "b.json", "--epsilon", 1)
    arguments = ("--schema", "s.toml", "--epsilon", "1", "--budget", "b.json", "--address", "tcp://127.0.0.1:9")
    found = CliRunner().invoke(app, ["fit", "parts", *arguments, "--engine", "dask"])
    assert found.exit_code == 2, found.output
    assert Budget("b.json").account().left[0] == 1


@pytest.mark.gate
@pytest.mark.parametrize(("engine", "module"), [("dask", "dask.dataframe"), ("ray", "ray.data")])
def test_engines_read_once_a_run_has_paid(
    here: Path, engine: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def read(*given: object, **more: object) -> None:
        seen.append(len(Budget("b.json").account().spent))
        raise OSError("the disk went away")

    monkeypatch.setattr(pytest.importorskip(module), "read_parquet", read)
    run("budget", "create", "b.json", "--epsilon", 1)
    arguments = ("--schema", "s.toml", "--epsilon", "1", "--budget", "b.json", "--engine", engine)
    assert CliRunner().invoke(app, ["fit", "parts", *arguments]).exit_code == 2
    assert seen == [1]


@pytest.mark.parametrize(
    ("engine", "address"),
    [
        ("dask", "foo://x:1"),
        pytest.param("dask", "nonsense", marks=pytest.mark.gate),
        pytest.param("dask", "tls://127.0.0.1:1", marks=pytest.mark.gate),
        pytest.param("ray", "foo://x:1", marks=pytest.mark.gate),
    ],
)
def test_addresses_that_are_none_are_one_line(here: Path, engine: str, address: str) -> None:
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine])
    arguments = ("--schema", "s.toml", "--epsilon", "1", "--engine", engine, "--address", address)
    command = [
        sys.executable,
        "-m",
        "dpconvex",
        "fit",
        "parts",
        *arguments,
    ]  # a client that failed stays in its process
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in found.stderr.splitlines() if line.startswith(("error:", "Traceback"))]
    assert (found.returncode, len(errors)) == (2, 1), found.stderr
    assert f"error: {engine} could not be reached" in errors[0]
