"""Options that change what is minimized, and what `plan` says of the paper's bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

PLAN = ("plan", "--rows", 20_000, "--features", 5, "--epsilon", 1)
ATTACK = ("--adversarial-radius", 0.1, "--adversarial-norm", "linf")


def rows(run: Any, *words: Any) -> dict[str, Any]:
    result = run(*PLAN, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_plans_state_their_objective(run: Any) -> None:
    for words, shown in (
        (("--risk", "population"), "risk population"),
        (ATTACK, "adversarial radius 0.1 (linf)"),
        (("--tilt", 0.2), "tilt 0.2"),
    ):
        found = rows(run, *words)
        assert {plan["algorithm"] for plan in found["plans"]} == {"output_perturbation"}
        assert shown in " ".join(run(*PLAN, *words).stdout.split())
    found = rows(run, "--risk", "population", *ATTACK)
    assert (found["risk"], found["adversarial_radius"], found["adversarial_norm"]) == ("population", 0.1, "linf")
    assert "risk" not in run(*PLAN).stdout.split("\n")[0]


def test_the_slope_cap_is_an_option_of_the_logistic_model(run: Any) -> None:
    shown = " ".join(run(*PLAN, "--slope-cap", 0.7).stdout.split())
    assert "slope cap 0.7" in shown
    assert "slope cap" not in run(*PLAN, "--slope-cap", 1).stdout
    noise = [plan["typical_coefficient_sd"] for cap in (1, 0.7) for plan in rows(run, "--slope-cap", cap)["plans"][:1]]
    assert noise[1] < noise[0]


def test_the_printed_bound_is_in_json_always_and_in_the_table_with_the_paper_s_constants(run: Any) -> None:
    by_name = {plan["algorithm"]: plan for plan in rows(run)["plans"]}
    assert by_name["objective_perturbation"]["printed_bound"] is None
    assert by_name["output_perturbation"]["printed_bound"] > 0
    (paper,) = rows(run, "--constants", "paper", "--l2", 0.1)["plans"]

    assert paper["printed_bound"] > paper["excess_loss_bound"] > 0
    shown = run(*PLAN, "--constants", "paper", "--l2", 0.1).stdout
    assert "printed" in shown
    assert f"{paper['printed_bound']:.3g}" in shown
    assert "printed" not in run(*PLAN).stdout


def test_a_vacuous_choice_is_said_in_capitals(run: Any) -> None:
    result = run("plan", "--rows", 100, "--features", 50, "--epsilon", 0.1)
    assert "VACUOUS" in result.stdout
    assert "VACUOUS" not in run(*PLAN).stdout


def test_a_hopeless_choice_is_said_on_stderr_and_in_json(run: Any) -> None:
    """From public facts, before any data; the words are those of the library's warning."""
    poor = ("plan", "--rows", 20, "--features", 2, "--epsilon", 1e-6)
    result = run(*poor)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: epsilon=1e-06: a fit by objective_perturbation is hopeless: ")
    assert "hopeless" in result.stdout
    assert run(*PLAN).stderr == ""
    for words, hopeless in ((poor, True), (PLAN, False)):
        chosen = json.loads(run(*words, "--json").stdout)["plans"][0]
        assert chosen["hopeless"] is hopeless
        assert 0 < chosen["yardstick"] <= chosen["trivial_loss"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--risk", "both"), "risk='both'"),
        (("--risk", "population", "--tilt", 1), "risk='population'"),
        (("--adversarial-radius", -1), "adversarial_radius=-1"),
        ((*ATTACK, "--classes", 3), "adversarial_radius=0.1"),
        (("--adversarial-radius", 0.1, "--adversarial-norm", "l3"), "adversarial_norm='l3'"),
        ((*ATTACK, "--model", "huber"), "adversarial_radius=0.1"),
        (("--slope-cap", 2), "slope_cap=2"),
        (("--slope-cap", 0.7, "--model", "svc"), "slope_cap=0.7: does not apply to --model svc"),
    ],
    ids=str,
)
def test_refusals(run: Any, words: tuple[Any, ...], message: str) -> None:
    result = run(*PLAN, *words)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {message}")


def test_fit_writes_them_into_certificate_and_report(run: Any, public_files: Path, tmp_path: Path) -> None:
    words = ("--schema", public_files / "adult.toml", "--epsilon", 2, "--json")
    result = run("fit", public_files / "train.csv", *words, *ATTACK, "--risk", "population", "--out", "m")
    assert result.exit_code == 0, result.output
    public = json.loads(result.stdout)["certificate"]["public"]
    assert (public["attack_radius"], public["attack_norm"], public["target"]) == (0.1, "linf", "population")
    page = " ".join((tmp_path / "m" / "report.html").read_text(encoding="utf-8").split())
    assert "<dt>adversarial radius</dt><dd>0.1 (linf)</dd>" in page
    assert "<dt>risk</dt><dd>population</dd>" in page
    assert "Excess of the population logistic loss" in page
    assert "Private linear model, logistic loss" in page
    assert run("verify", "m").exit_code == 0
    predicted = run("predict", "m", public_files / "test.csv")
    assert predicted.exit_code == 0
    assert len(predicted.stdout.splitlines()) == 501
