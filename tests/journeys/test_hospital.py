"""A hospital's data owner: from a messy file of 40 columns to a verified model, with the commands alone."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpconvex.cli.main import app

sys.path.insert(0, str(Path(__file__).parent))
import hospital

RUNNER = CliRunner()


def run(*words: str | Path, stdin: str = "") -> str:
    result = RUNNER.invoke(app, [str(word) for word in words], input=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    hospital.write(folder / "stays.csv.gz")
    return folder


def confirmed(draft: str) -> str:
    """What a person makes of the draft: patients as users, spellings, two derived columns, sources, a transform."""
    text = re.sub(r'# (user = "patient_id").*', r"\1", draft)
    text = text.replace('categories = ["Male", "femal", "female", "male"]', 'categories = ["female", "male"]')
    text = text.replace('source = ""  # say', 'source = "Admission form 12"  # say')
    text = re.sub(
        r"(?s)\[columns.cost\].*?\n\n", '[columns.cost]\nlower = 0\nupper = 1e5\ntransform = "log1p"\n\n', text
    )
    text = re.sub(r"(?s)\[columns.(admitted|discharged|device|born)\].*?\n\n", "", text)
    text += """
[columns.stay]
formula = 'days("discharged") - days("admitted")'
lower = 0
upper = 60
transform = "sqrt"
unit = "days"

[columns.bmi]
formula = "weight / (height / 100) ** 2"
lower = 12
upper = 70
missing = [-999]
indicator = true
source = "WHO"

[columns.admitted]
date = "month"
missing = ["unknown"]
"""
    return text.replace("confirmed = false", "confirmed = true")


@pytest.mark.gate
def test_from_draft_to_verified_model(place: Path) -> None:
    table, schema = place / "stays.csv.gz", place / "stays.toml"
    run("schema", "draft", table, "--target", "readmitted", "--output", schema)
    draft = schema.read_text()
    for name in ("age", *hospital.LABS, "weight", "height", "pulse", "temperature"):
        part = draft.split(f"\n[columns.{name}]\n")[1].split("\n\n")[0]
        assert "lower" in part  # a number, whatever words are among the cells
        assert ("missing" in part) == (name != "temperature")
    assert "\n# [columns.stay_id]" in draft
    assert "\n# [columns.patient_id]" in draft
    assert '# user = "patient_id"' in draft
    assert 'format = "%d.%m.%Y"' in draft
    assert '\nmissing = ["?"]' in draft.split("[columns.smoker]")[1][:200]

    schema.write_text(confirmed(draft))
    look = json.loads(run("schema", "check", table, schema, "--json"))
    assert look["private"] is False
    assert look["most_rows"] > 3
    found = {column["name"]: column for column in look["columns"]}
    assert found["sex"]["spellings"] == {"Male": "male", "femal": "female"}
    assert 0.02 < found["bmi"]["missing"] < 0.1
    assert found["stay"]["missing"] < 0.02
    schema.write_text(
        schema.read_text().replace(
            'categories = ["female", "male"]',
            'categories = ["female", "male"]\naliases = { Male = "male", femal = "female" }',
        )
    )
    text = run("schema", "check", table, schema)
    assert text.count("NOT PRIVATE") == 2
    assert "not listed" not in text

    assert "patient" in run("schema", "show", schema)
    out = place / "model"
    run("plan", "--schema", schema, "--epsilon", "4", "--users", "1099")
    run("fit", table, "--schema", schema, "--epsilon", "4", "--out", out)
    run("verify", out / "certificate.json")
    certificate = json.loads((out / "certificate.json").read_text())
    assert any("bmi: WHO" in assumption["enforced_by"] for assumption in certificate["assumptions"])
    assert "WHO" in (out / "report.html").read_text()
    lines = run("predict", out, table).splitlines()
    assert len(lines) == hospital.ROWS + 1
    assert run("predict", out, "-", stdin=hospital.text()).splitlines() == lines  # the same records, from a pipe


def test_the_generator_makes_the_same_file_again() -> None:
    table = hospital.columns()
    assert len(table) == 40
    assert table == hospital.columns()
    assert table["age"][17] == "sixty"
