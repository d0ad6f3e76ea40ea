"""``dpconvex audit``: table, files, exit codes, names."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dpconvex.cli.main import app
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex_experiments.audit.targets import TARGETS


def call(*arguments: str):
    return CliRunner().invoke(app, ["audit", *arguments])


def test_a_report_is_printed_and_written(tmp_path) -> None:
    found = call("mechanism/laplace", "--runs", "40", "--transcripts", "40", "--out", str(tmp_path))
    assert found.exit_code == 0, found.output
    assert "No promise was refuted" in found.output
    fields = json.loads((tmp_path / "audit.json").read_text())
    assert fields["passed"]
    assert fields["reports"][0]["proved_at_least"] == pytest.approx(1.0, rel=1e-3)
    page = (tmp_path / "audit.html").read_text()
    assert "None of 1 promises was refuted" in page
    assert "exact loss" in page
    assert {path.name for path in tmp_path.iterdir()} == {"audit.json", "audit.html"}


def test_json_holds_no_infinity() -> None:
    found = call("mechanism/gaussian", "--runs", "16", "--transcripts", "8", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)[0]["title"] == "mechanism/gaussian"


def test_a_refuted_promise_ends_with_one(monkeypatch, tmp_path) -> None:
    calibrate = LaplaceMechanism.calibrate
    weak = classmethod(lambda cls, sensitivity, epsilon, dim: calibrate(sensitivity, 2 * epsilon, dim))
    monkeypatch.setattr(LaplaceMechanism, "calibrate", weak)
    found = call("mechanism/laplace", "--runs", "0", "--transcripts", "16", "--out", str(tmp_path))
    assert found.exit_code == 1
    assert "REFUTED" in found.output
    assert not json.loads((tmp_path / "audit.json").read_text())["passed"]


def test_the_grid_is_written_and_resumed(tmp_path) -> None:
    arguments = ("mechanism/laplace", "--grid", "--runs", "0", "--transcripts", "8", "--out", str(tmp_path))
    found = call(*arguments)
    assert found.exit_code == 0, found.output
    assert len(json.loads((tmp_path / "audit-grid.json").read_text())["cells"]) == 20
    again = json.loads(call(*arguments, "--json").stdout)
    assert again[0]["proved"] == pytest.approx({e: float(e) for e in ("0.1", "0.5", "1.0", "2.0", "8.0")}, rel=1e-3)
    assert call(*arguments[:-2]).exit_code == 2


def test_the_list_names_all_targets() -> None:
    assert [entry["name"] for entry in json.loads(call("--list", "--json").stdout)] == list(TARGETS)
    assert "mechanism/laplace" in call("--list").output


@pytest.mark.parametrize("arguments", [("outputperturbation",), (), ("mechanism/laplace", "--runs", "3")])
def test_errors_are_one_line(arguments) -> None:
    found = call(*arguments)
    assert found.exit_code == 2
    assert "error: " in found.output
