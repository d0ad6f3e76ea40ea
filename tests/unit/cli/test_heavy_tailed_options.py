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
        for expected in (algorithm, "moment of order 2, to be estimated", risk, "not known yet", "0.1", "for G = 1"):
            assert expected in shown
        shown = " ".join(run(*words, "4:0.3").stdout.split())
        assert "moment of order 4, declared 0.3" in shown
        assert "not known yet" not in shown
    found = json.loads(run(*PLAN, "--model", "huber", "--heavy-tailed", "4:0.3", "--json").stdout)
    assert found["heavy_tailed"] == "4:0.3"
    assert [plan["algorithm"] for plan in found["plans"]] == ["clipped_residuals"]


@pytest.mark.parametrize("tails", ["2", "2:0.3"])
def test_fit_writes_a_model_a_certificate_and_a_report(run: Any, claims: tuple[Path, Path], tails: str) -> None:
    table, schema = claims
    words = ("--schema", schema, "--epsilon", 1, "--model", "linear", "--heavy-tailed", tails, "--out", "model")
    result = run("fit", table, *words)
    assert result.exit_code == 0, result.output
    assert ("estimated" if tails == "2" else "declared") in " ".join(result.stdout.split())
    folder = table.parent / "model"
    certificate = json.loads((folder / "certificate.json").read_text())
    assert certificate["spent"]["epsilon"] == pytest.approx(1.0)
    labels = [release["label"] for release in certificate["releases"]]
    assert ("histogram of slopes" in labels) == (tails == "2")
    assert run("verify", folder / "certificate.json").exit_code == 0
    assert "<svg" in (folder / "report.html").read_text()
    assert run("predict", folder, table).exit_code == 0
    assert load_model(folder / "model.skops").get_params()["heavy_tailed"] == (2.0 if tails == "2" else (2.0, 0.3))


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
        (("--model", "linear", "--heavy-tailed", "x"), "must be K or K:G"),
        (("--model", "linear", "--heavy-tailed", "2:"), "must be K or K:G"),
        (("--model", "linear", "--heavy-tailed", 1.5), "order k >= 2"),
        (("--model", "linear", "--heavy-tailed", 2, "--tilt", 1), "tilt=1"),
        (("--model", "linear", "--heavy-tailed", 2, "--noise", "l1"), "noise='l1'"),
        (("--model", "linear", "--heavy-tailed", 2, "--algorithm", "output_perturbation"), "'clipped_gradient'"),
        (("--model", "linear", "--algorithm", "heavy_tailed"), "Give heavy_tailed=2"),
    ],
)
def test_refusals_have_one_line_and_a_remedy(run: Any, words: tuple[Any, ...], message: str) -> None:
    result = run(*PLAN, *words)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


@pytest.mark.gate
def test_printed_constants_are_not_refused_for_the_check_before_the_data(run: Any, claims: tuple[Path, Path]) -> None:
    table, schema = claims
    words = ("--schema", schema, "--epsilon", 1, "--heavy-tailed", "2:0.3", "--algorithm", "heavy_tailed")
    result = run("fit", table, *words, "--constants", "paper", "--out", table.parent / "printed")
    assert result.exit_code == 0, result.output
