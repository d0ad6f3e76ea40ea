"""``dpconvex evaluate`` and ``fit --holdout --evaluate``."""

from __future__ import annotations

import json
import re

import pyarrow.csv as pacsv
import pytest
from typer.testing import CliRunner

from dpconvex import Budget, load_adult
from dpconvex.cli.main import app
from dpconvex.data import adult_schema


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    pacsv.write_csv(load_adult().slice(0, 6000), folder / "adult.csv")
    (folder / "adult.toml").write_text(adult_schema().to_toml(), encoding="utf-8")
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.gate
def test_a_hold_out_and_a_later_evaluation_are_charged_and_verified(place) -> None:
    Budget.create(place / "budget", 1.2)
    options = ("--schema", place / "adult.toml", "--epsilon", 1, "--out", place / "model", "--budget", place / "budget")
    result = run("fit", place / "adult.csv", *options, "--holdout", 0.2, "--evaluate", 0.8)
    assert result.exit_code == 0, result.output
    assert "1,200 records (held out)" in result.stdout
    assert "the larger" in result.stdout
    assert float(Budget(place / "budget").account().left[0]) == pytest.approx(0.2)
    assert run("verify", place / "model").exit_code == 0
    assert run("verify", place / "model" / "evaluation.certificate.json").exit_code == 0
    assert json.loads((place / "model" / "metrics.json").read_text())["metrics"]["accuracy"][0] > 0.5
    report = (place / "model" / "report.html").read_text(encoding="utf-8")
    assert "How good it is, on private records" in report
    assert ">calibration</text>" in report
    later = ("evaluate", place / "model", place / "adult.csv", "--budget", place / "budget", "--out", place / "later")
    result = run(*later, "--epsilon", 0.2, "--by", "sex", "--json")
    found = json.loads(result.stdout)
    assert set(found["groups"]) == {"sex=Female", "sex=Male", "(not listed)"}
    assert float(Budget(place / "budget").account().left[0]) == pytest.approx(0)
    assert run("verify", place / "later").exit_code == 0
    page = (place / "later" / "report.html").read_text(encoding="utf-8")
    assert "auc, sex=Male" in page
    assert ">ROC</text>" in page
    refused = run(*later, "--epsilon", 0.1, "--force")
    assert refused.exit_code == 2
    assert "0 left" in refused.stderr
    shown = run(
        "evaluate", place / "model", place / "adult.csv", "--epsilon", 2, "--by", "race=White", "--out", place / "w"
    )
    assert shown.exit_code == 0
    assert "95 % intervals" in shown.stdout
    (group,) = (line for line in shown.stdout.splitlines() if line.startswith("race=White"))
    assert re.fullmatch(r"race=White( +\d\.\d+±\d\.\d+){5}", group)  # one line for each group
    assert max(map(len, shown.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--holdout", 0.2), "goes with --evaluate"),
        (("--evaluate", 1.0), "goes with --evaluate"),
        (("--holdout", 2, "--evaluate", 1), "holdout=2"),
        (("--holdout", 0.2, "--evaluate", 1, "--engine", "local"), "in memory"),
        (("--by", "sex"), "by='sex': goes with --evaluate"),
        (("--holdout", 0.2, "--evaluate", 1, "--by", "age"), "must be a categorical column"),
    ],
)
def test_hold_outs_are_refused_in_one_line(place, options, words) -> None:
    out = ("--schema", place / "adult.toml", "--epsilon", 1, "--out", place / "no")
    result = run("fit", place / "adult.csv", *out, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (place / "no").exists()


def test_hold_outs_report_groups_and_folders_are_refused_before_anything_is_paid(place) -> None:
    groups = ("--by", "sex", "--by", "race=White,Black")
    options = (
        "--schema",
        place / "adult.toml",
        "--epsilon",
        1,
        "--holdout",
        0.3,
        "--evaluate",
        1,
        "--out",
        place / "by",
    )
    result = run("fit", place / "adult.csv", *options, *groups, "--holdout", 0.3, "--evaluate", 1, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert "sex=Male, race=Black" in found["evaluation"]["groups"]
    assert found["certificate"]["target"]["epsilon"] == 1  # groups cost nothing more
    assert run("verify", place / "by").exit_code == 0
    folder = place / "parts"
    folder.mkdir()
    (folder / "one.csv").write_bytes((place / "adult.csv").read_bytes())
    Budget.create(place / "whole", 1)
    paid = ("--epsilon", 1, "--budget", place / "whole", "--out", place / "no")
    for words in (("schema", "draft", folder), ("evaluate", place / "by", folder, *paid)):
        result = run(*words)
        assert result.exit_code == 2
        assert f"{folder}: is a folder" in result.stderr
        assert "*.csv'" in result.stderr
    refused = run("evaluate", place / "by", place / "adult.csv", *paid, "--user-column", "age")
    assert "user_column='age': is a feature or the target" in refused.stderr
    assert Budget(place / "whole").account().left[0] == 1
    assert run("schema", "draft", folder / "*.csv").exit_code == 0
