"""Who must approve a release: a budget, a certificate checked without the data, a card, and refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpconvex.cli.main import app

sys.path.insert(0, str(Path(__file__).parent))
import hospital

RUNNER = CliRunner()
SCHEMA = """confirmed = true
user = "patient_id"
[target]
name = "readmitted"
classes = ["no", "yes"]
[columns.crp]
lower = 0
upper = 100
missing = ["?", "NA", -999]
source = "Laboratory manual, 2024"
[columns.sex]
categories = ["female", "male"]
aliases = { Male = "male", femal = "female" }
"""


def run(*words: object, code: int = 0) -> str:
    result = RUNNER.invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


def test_from_budget_to_approval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hospital.write(tmp_path / "stays.csv.gz")
    Path("stays.toml").write_text(SCHEMA)
    run("budget", "create", "stays.budget", "--epsilon", "3", "--unit", "user", "--data", "stays 2024")
    fit = ("fit", "stays.csv.gz", "--schema", "stays.toml", "--epsilon", "2", "--budget", "stays.budget")
    run(*fit, "--output", "first")
    shown = json.loads(run("budget", "show", "stays.budget", "--json"))
    assert shown["left"]["epsilon"] == "1"
    assert shown["spent"][0]["time"][:2] == "20"
    assert "stays 2024" in run("budget", "show", "stays.budget")
    assert "error: " in run(*fit, "--out", "second", code=2)
    assert not Path("second").exists()

    run("verify", "first/certificate.json")
    card = run("export", "first", "--format", "card")
    for words in ("everything one user contributed", "Laboratory manual, 2024", "female, male", "## Limits"):
        assert words in card
    forged = json.loads(Path("first/certificate.json").read_text()) | {"spent_epsilon": 0.1}
    Path("first/forged.json").write_text(json.dumps(forged))
    run("verify", "first/forged.json", code=1)
