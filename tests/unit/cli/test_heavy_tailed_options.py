"""``--heavy-tailed`` on plan and fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpconvex import NumericColumn, Schema, load_model
from dpconvex.data import NumericTarget

PLAN = ("plan", "--rows", 20_000, "--features", 5, "--epsilon", 1)


@pytest.fixture
def claims(tmp_path: Path) -> tuple[Path, Path]:
    """Claims without a largest value, and their schema; the range is that of predictions."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, 4000), "claim": rng.pareto(2.1, 4000) * 100})
    frame.to_csv(tmp_path / "claims.csv", index=False)
    schema = Schema((NumericColumn("age", 18, 90),), target=NumericTarget("claim", 0, 500))
    (tmp_path / "claims.toml").write_text(schema.to_toml(), encoding="utf-8")
    return tmp_path / "claims.csv", tmp_path / "claims.toml"


def test_plans_say_where_the_moment_bound_comes_from(run: Any) -> None:
    for algorithm, risk in (("heavy_tailed", "risk population"), ("clipped_residuals", "mean squared loss")):
        words = (*PLAN, "--model", "linear", "--algorithm", algorithm, "--heavy-tailed")
        shown = " ".join(run(*words, 2).stdout.split())
        for expected in (algorithm, "level to be found", risk, "No moment is assumed", "second moment is at most 1"):
            assert expected in shown
        assert " ".join(run(*words, "auto").stdout.split()) == shown
        shown = " ".join(run(*words, "4:0.3").stdout.split())
        assert "moment of order 4, declared 0.3" in shown
        assert "No moment is assumed" not in shown
    found = json.loads(run(*PLAN, "--model", "huber", "--heavy-tailed", "4:0.3", "--json").stdout)
    assert found["heavy_tailed"] == "4:0.3"
    assert [plan["algorithm"] for plan in found["plans"]] == ["clipped_residuals"]


def test_few_records_prove_nothing_of_a_level(run: Any) -> None:
    words = ("plan", "--rows", 300, "--features", 5, "--epsilon", 1, "--model", "linear", "--heavy-tailed")
    assert "too few records to prove anything" in " ".join(run(*words, 2).stdout.split())
    refused = run(*words, "auto")
    assert refused.exit_code != 0
    assert "n=300: must be at least" in " ".join(refused.output.split())


def test_surrogate_and_constraint_reach_the_plan(run: Any) -> None:
    words = (*PLAN, "--model", "huber", "--heavy-tailed", "2:0.3", "--surrogate", "extension", "--constraint=-1:2")
    shown = " ".join(run(*words).stdout.split())
    assert "surrogate extension" in shown
    assert "constraint Box" in shown
    found = json.loads(run(*words, "--json").stdout)
    assert (found["surrogate"], found["constraint"]) == ("extension", "-1:2")
    assert found["plans"][0]["algorithm"] == "heavy_tailed"


def test_failure_says_its_price(run: Any) -> None:
    words = (*PLAN, "--model", "linear", "--failure", 0.05, "--heavy-tailed")
    shown = " ".join(run(*words, "2:0.3").stdout.split())
    assert "heavy_tailed" in shown
    assert "holds with probability 1 - 0.05, by 7 repetitions a phase" in shown
    assert "No moment is assumed" in run(*words, "auto").stdout
    found = json.loads(run(*words, "2:0.3", "--json").stdout)
    assert found["failure"] == 0.05
    assert "but for probability 0.05" in found["plans"][0]["source"]


@pytest.mark.thin
@pytest.mark.parametrize("tails", ["2", "auto", "2:0.3"])
@pytest.mark.gate
def test_fit_writes_a_model_a_certificate_and_a_report(run: Any, claims: tuple[Path, Path], tails: str) -> None:
    table, schema = claims
    words = ("--schema", schema, "--epsilon", 1, "--model", "linear", "--heavy-tailed", tails, "--out", "model")
    result = run("fit", table, *words)
    assert result.exit_code == 0, result.output
    assert ("declared" if tails == "2:0.3" else "level found") in " ".join(result.stdout.split())
    folder = table.parent / "model"
    certificate = json.loads((folder / "certificate.json").read_text())
    assert certificate["spent"]["epsilon"] == pytest.approx(1.0)
    labels = [release["label"] for release in certificate["releases"]]
    assert ("level of slopes" in labels) == (tails != "2:0.3")
    assert run("verify", folder / "certificate.json").exit_code == 0
    assert "<svg" in (folder / "report.html").read_text()
    assert run("predict", folder, table).exit_code == 0
    assert load_model(folder / "model.skops").get_params()["heavy_tailed"] == {"2": 2.0, "2:0.3": (2.0, 0.3)}.get(
        tails, tails
    )


@pytest.mark.gate
def test_test_targets_are_clipped_no_more_than_training_targets(run: Any, claims: tuple[Path, Path]) -> None:
    """A file whose targets lie far above the range of predictions: errors show it with heavy tails only."""
    table, schema = claims
    far = table.parent / "far.csv"
    pd.DataFrame({"age": [20.0, 80.0, 40.0], "claim": [100_500.0, 100_500.0, 99_500.0]}).to_csv(far, index=False)
    words = ("fit", table, "--schema", schema, "--epsilon", 1, "--model", "linear", "--test", far, "--json", "--force")
    heavy = json.loads(run(*words, "--heavy-tailed", 2).stdout)["test"]
    ordinary = json.loads(run(*words).stdout)["test"]
    assert heavy["mae"] > 99_000
    assert ordinary["mae"] <= 500


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--heavy-tailed", 2), "does not apply to --model logistic"),
        (("--model", "linear", "--heavy-tailed", "x"), "must be auto, K or K:G"),
        (("--model", "linear", "--heavy-tailed", "2:"), "must be auto, K or K:G"),
        (("--model", "linear", "--heavy-tailed", 1.5), "order k >= 2"),
        (("--model", "linear", "--heavy-tailed", 2, "--tilt", 1), "tilt=1"),
        (("--model", "linear", "--failure", 0.1), "failure=0.1: is for heavy tails only"),
        (("--model", "linear", "--surrogate", "extension"), "is for heavy tails only"),
        (("--model", "linear", "--constraint", "0:1"), "is for heavy tails only"),
        (("--model", "linear", "--heavy-tailed", "2:1", "--surrogate", "x"), "surrogate='x'"),
        (("--model", "linear", "--heavy-tailed", "2:1", "--constraint", "x"), "must be LOWER:UPPER"),
        (("--model", "linear", "--heavy-tailed", "2:1", "--constraint", "2:1"), "must have lower < upper"),
        (("--model", "linear", "--heavy-tailed", "2:1", "--surrogate", "joint"), "needs more than"),
        (("--model", "linear", "--heavy-tailed", "2:1", "--failure", 0.6), "failure=0.6"),
        (("--model", "linear", "--heavy-tailed", 2, "--noise", "l1"), "noise='l1'"),
        (("--model", "linear", "--heavy-tailed", 2, "--algorithm", "output_perturbation"), "'clipped_gradient'"),
        (("--model", "linear", "--algorithm", "heavy_tailed"), "Give --heavy-tailed 2"),
    ],
)
def test_refusals_have_one_line_and_a_remedy(run: Any, words: tuple[Any, ...], message: str) -> None:
    result = run(*PLAN, *words)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_printed_constants_are_not_refused_for_the_check_before_the_data(run: Any, claims: tuple[Path, Path]) -> None:
    table, schema = claims
    words = ("--schema", schema, "--epsilon", 1, "--heavy-tailed", "2:0.3", "--algorithm", "heavy_tailed")
    result = run("fit", table, *words, "--constants", "paper", "--out", table.parent / "printed")
    assert result.exit_code == 0, result.output
