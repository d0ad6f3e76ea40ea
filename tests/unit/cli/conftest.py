"""A small public table on disk, its schema, and a way to run commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.csv as pacsv
import pytest
from typer.testing import CliRunner

from dpconvex import adult_schema
from dpconvex.cli import report
from dpconvex.cli.main import app
from dpconvex_experiments.adult import split

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in a fresh folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


ALL_MODELS = ("test_cli_models.py", "test_heavy_tailed_options.py")


@pytest.fixture(autouse=True)
def _coarse_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Reports have no curve, but in the tests that are about reports; of all models it has three points, not nine.

    To plan for its points and to draw it takes longer than most fits.
    """
    name = request.node.path.name
    if name == "test_cli_report.py":
        yield
        return
    patch: Any = mock.patch.object(report, "_loss_figure", return_value="<svg></svg>")
    if name in ALL_MODELS:
        patch = mock.patch.object(report, "GRID", (*report.GRID[:2], 3))
    with patch:
        yield


@pytest.fixture(scope="session")
def public_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv (1,500 rows of Adult), test.csv (500) and adult.toml."""
    folder = tmp_path_factory.mktemp("public")
    train, test = split(1_500)
    pacsv.write_csv(train, folder / "train.csv")
    pacsv.write_csv(test.slice(0, 500), folder / "test.csv")
    (folder / "adult.toml").write_text(adult_schema().to_toml(), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def fitted_folder(public_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that `fit` wrote."""
    out = tmp_path_factory.mktemp("fitted") / "model"
    words = ["fit", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 2, "--out", out]
    words += ["--purpose", "a <test> of reports"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return out
