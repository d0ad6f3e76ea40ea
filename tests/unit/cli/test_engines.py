"""Folders and engines on every command that reads a private table: the same files as from one file in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dpconvex.cli.main import app
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, Schema

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
        (("synthesize", "parts", "--schema", "s.toml", "--epsilon", 1, "--budget", "b.json"), "pays for single files"),
    ],
)
def test_refusals(here: Path, arguments: tuple[object, ...], what: str) -> None:
    found = CliRunner().invoke(app, list(map(str, arguments)))
    assert found.exit_code == 2
    assert what in found.stderr
    assert not (here / "synthetic").exists()
