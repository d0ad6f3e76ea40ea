"""``dpconvex reproduce``: names, files, verdicts and exit codes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import dpconvex_experiments
from dpconvex.cli.main import app
from dpconvex_experiments import EXPERIMENTS, Experiment, Outcome
from dpconvex_experiments.checks import exact


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command in a fresh folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["reproduce", *words])


@pytest.fixture
def fakes(monkeypatch):
    """Two families: ``good`` with two experiments that pass, ``bad`` with one that fails; returns what was run."""
    seen = []

    def experiment(name, passed):
        def measure(setting):
            seen.append((name, setting.quick, setting.seed))
            rows = tuple((k, 0.123456, True, None) for k in setting.track(range(2), "Counting"))
            return Outcome(
                ("k", "x", "yes", "nothing"), rows, "always", (exact("passed", passed, 1, 1),), lambda figure: None
            )

        return Experiment(name, f"Title of {name}", "A theorem", measure)

    listed = [experiment("good/one", True), experiment("good/two", True), experiment("bad/three", False)]
    monkeypatch.setattr(dpconvex_experiments, "EXPERIMENTS", {e.name: e for e in listed})
    return seen


def test_list_shows_every_experiment(run) -> None:
    result = run("--list")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert all(name in result.stdout for name in EXPERIMENTS)  # on one line each
    shown = json.loads(run("--list", "--json").stdout)
    assert [entry["name"] for entry in shown] == list(EXPERIMENTS)
    assert all(entry["title"] and entry["source"] for entry in shown)


@pytest.mark.parametrize(("name", "hint"), [("output-perturbation/e3", "e3-sensitivity"), ("outputperturbation", "")])
def test_unknown_names_suggest_close_ones(run, name, hint, tmp_path) -> None:
    result = run(name)
    assert result.exit_code == 2
    assert "Did you mean output-perturbation" in result.stderr
    assert hint in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_name_is_needed(run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "must be an experiment, a family or all" in result.stderr


def test_one_experiment(run, fakes, tmp_path) -> None:
    result = run("good/one", "--quick", "--seed", "5", "--out", "here")
    assert result.exit_code == 0, result.output
    assert fakes == [("good/one", True, 5)]
    assert {path.name for path in (tmp_path / "here" / "good").iterdir()} == {"one.csv", "one.svg", "one.json"}
    for text in (
        "good/one: Title of good/one",
        "0.1235",
        "yes",
        "ok: always",
        "false alarm has probability 0",
        "A theorem",
        "one.svg",
    ):
        assert text in result.stdout


def test_a_family_and_all(run, fakes) -> None:
    result = run("good")
    assert result.exit_code == 0
    assert [name for name, *_ in fakes] == ["good/one", "good/two"]
    assert "Verdicts" in result.stdout
    fakes.clear()
    assert run("all").exit_code == 1
    assert len(fakes) == 3


def test_failures_are_exit_code_1_and_still_written(run, fakes, tmp_path) -> None:
    result = run("bad/three")
    assert result.exit_code == 1
    assert "FAIL: always" in result.stdout
    assert json.loads((tmp_path / "reproduced" / "bad" / "three.json").read_text())["passed"] is False


def test_json_is_one_document(run, fakes) -> None:
    result = run("all", "--json")
    assert result.exit_code == 1
    shown = json.loads(result.stdout)
    assert [(entry["name"], entry["passed"]) for entry in shown] == [
        ("good/one", True),
        ("good/two", True),
        ("bad/three", False),
    ]
    assert shown[0]["rows"] == [[0, 0.123456, True, None], [1, 0.123456, True, None]]


def test_folders_that_cannot_be_written_are_usage_errors(run, fakes, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    result = run("good/one", "--out", "file")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
