"""``dpconvex search``: a model, a certificate of the whole search and a report out; plans without data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpconvex import Budget, load_model

QUICK = ("--over", "coefficient_norm=2,8", "--over", "slope_cap=1", "--over", "noise=l2")


def words(folder: Path, *more: Any) -> tuple[Any, ...]:
    return ("search", folder / "train.csv", "--schema", folder / "adult.toml", "--epsilon", 4, *QUICK, *more)


@pytest.mark.parametrize("method", ["composition", "repeats"])
@pytest.mark.dear("repeats")
def test_it_writes_a_model_and_the_certificate_of_the_search(run: Any, public_files: Path, method: str) -> None:
    result = run(*words(public_files, "--method", method, "--test", public_files / "test.csv"))
    assert result.exit_code == 0, result.output
    assert {path.name for path in Path("model").iterdir()} == {"model.skops", "certificate.json", "report.html"}
    assert "Chosen: coefficient_norm=" in result.stdout
    assert "NOT PRIVATE: accuracy" in result.stdout
    certificate = json.loads(Path("model/certificate.json").read_text())
    assert certificate["algorithm"] == "private_search"
    assert certificate["target"]["epsilon"] == 4
    assert certificate["public"]["method"] == method
    assert [each["settings"]["coefficient_norm"] for each in certificate["public"]["candidates"]] == [2, 8]
    assert run("verify", "model").exit_code == 0
    model: Any = load_model("model/model.skops")
    assert model.coefficient_norm in (2, 8)
    assert run("predict", "model", public_files / "test.csv").exit_code == 0


def test_words_for_yes_and_no_are_truth_values(run: Any, public_files: Path) -> None:
    """They were texts, on which a search failed when its budget had been paid."""
    plan = ("search", "--schema", public_files / "adult.toml", "--epsilon", 1, "--rows", 50_000, "--json")
    shown = run(*plan, "--over", "fit_intercept=true,False", "--over", "noise=l2")
    assert shown.exit_code == 0, shown.output
    found = [each["settings"]["fit_intercept"] for each in json.loads(shown.stdout)["plans"][0]["candidates"]]
    assert found == [True, False]


def test_whole_numbers_and_words_are_what_the_setting_takes(run: Any, public_files: Path) -> None:
    """Knots had become 2.0, which is no number of knots, and the word none no word."""
    plan = ("search", "--schema", public_files / "adult.toml", "--epsilon", 1, "--rows", 50_000, "--json")
    shown = run(*plan, "--model", "additive", "--over", "knots=2,4", "--over", "missing=none", "--over", "noise=l2")
    assert shown.exit_code == 0, shown.output
    found = [each["settings"] for each in json.loads(shown.stdout)["plans"][0]["candidates"]]
    assert [each["knots"] for each in found] == [2, 4]
    assert {each["missing"] for each in found} == {"none"}
    shown = run(*plan, "--over", "fit_intercept=1,0", "--over", "slope_cap=none", "--over", "noise=l2")
    assert shown.exit_code == 0, shown.output
    found = [each["settings"] for each in json.loads(shown.stdout)["plans"][0]["candidates"]]
    assert [each["fit_intercept"] for each in found] == [True, False]
    assert [each["slope_cap"] for each in found] == [None, None]


def test_a_plan_reads_no_data(run: Any, public_files: Path) -> None:
    plan = ("search", "--schema", public_files / "adult.toml", "--epsilon", 1, *QUICK, "--rows", 50_000)
    shown = run(*plan)
    assert shown.exit_code == 0, shown.output
    assert "repeats" in shown.stdout
    printed = json.loads(run(*plan, "--json").stdout)
    assert printed["plans"][0]["chosen"]
    assert {each["method"] for each in printed["plans"]} == {"composition", "repeats", "none"}
    for each in (*printed["plans"], *printed["plans"][0]["candidates"]):
        assert each["excess_loss_bound"] > each["expected_excess_loss"] > 0
    assert not Path("model").exists()


def test_a_budget_is_paid_once_for_the_whole_search(run: Any, public_files: Path) -> None:
    assert run("budget", "create", "b.jsonl", "--epsilon", 5).exit_code == 0
    paid = words(public_files, "--budget", "b.jsonl", "--method", "composition")
    result = run(*paid, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["plan"]["method"] == "composition"
    assert float(Budget(Path("b.jsonl")).account().left[0]) == 1.0
    assert run(*paid, "--force").exit_code == 2


@pytest.mark.parametrize(
    ("over", "named"),
    [
        ("coefficient_norm", "over"),
        ("epsilon=1,2", "epsilon"),
        ("coefficient_norm=-1,2", "coefficient_norm"),
        ("algorithm=auto,none", "algorithm"),
        ("no_such=1", "no_such"),
        ("fit_intercept=yes", "true or false"),
    ],
)
@pytest.mark.dear("algorithm=auto,none-algorithm")
def test_what_is_refused(run: Any, public_files: Path, over: str, named: str) -> None:
    given = ("search", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 1)
    result = run(*given, "--over", over)
    assert result.exit_code == 2
    assert named in result.output
    assert not Path("model").exists()


@pytest.mark.gate
def test_ranges_are_pairs(run: Any, public_files: Path) -> None:
    text = (public_files / "adult.toml").read_text()
    head, _, tail = text.partition("[columns.education-num]")
    numeric = head.replace(text[text.index("[target]") : text.index("[columns.age]")], "") + tail.partition("\n\n")[2]
    target = '[target]\nname = "education-num"\nlower = 0\nupper = 1000\n\n'
    Path("numeric.toml").write_text(numeric.replace("[columns.age]", target + "[columns.age]"))
    given = ("search", public_files / "train.csv", "--schema", "numeric.toml", "--epsilon", 4, "--model", "huber")
    result = run(*given, "--over", "target_bounds=0:1000,0:16", "--over", "noise=l2", "--method", "composition")
    assert result.exit_code == 0, result.output
    model: Any = load_model("model/model.skops")
    assert list(model.target_bounds) in ([0, 16], [0, 1000])


def test_other_neighbors_are_refused_in_words(run: Any, public_files: Path) -> None:
    """There was no such option, and no word of why."""
    refused = run(*words(public_files, "--neighbors", "add_or_remove_one"))
    assert refused.exit_code == 2
    assert "neighbors='add_or_remove_one': must be 'replace_one' for a search" in refused.stderr
    assert not Path("model").exists()
