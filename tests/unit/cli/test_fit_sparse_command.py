"""``dpconvex fit-sparse``: models and certificates out, predictions from them, plans without data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pacsv
import pytest

from dpconvex import load_model, read_table


def words(folder: Path, *more: Any) -> tuple[Any, ...]:
    return ("fit-sparse", folder / "train.csv", "--schema", folder / "adult.toml", "--epsilon", 4, *more)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ((), "PrivateSparseLogisticRegression"),
        (("--group-column", "sex", "--algorithm", "vertex_mirror_descent"), "PrivateWorstGroupClassifier"),
    ],
)
@pytest.mark.dear("more0-PrivateSparseLogisticRegression")
def test_it_writes_a_model_that_predicts(run: Any, public_files: Path, more: tuple[Any, ...], name: str) -> None:
    result = run(*words(public_files, *more, "--radius", 2, "--purpose", "a study"))
    assert result.exit_code == 0, result.output
    assert {path.name for path in Path("model").iterdir()} == {"model.skops", "certificate.json", "report.html"}
    model: Any = load_model("model/model.skops")
    assert type(model).__name__ == name
    assert model.radius == 2
    assert "a study" in Path("model/report.html").read_text()
    assert run("verify", "model").exit_code == 0
    predicted = run("predict", "model", public_files / "test.csv", "--proba", "--output", "p.csv")
    assert predicted.exit_code == 0, predicted.output
    table = read_table(public_files / "test.csv", model.schema)
    assert pacsv.read_csv("p.csv")["prediction"].to_pylist() == model.predict(table).tolist()


def test_a_numeric_target_makes_a_lasso(run: Any, public_files: Path) -> None:
    text = (public_files / "adult.toml").read_text()
    head, _, tail = text.partition("[columns.education-num]")
    numeric = head.replace(text[text.index("[target]") : text.index("[columns.age]")], "") + tail.partition("\n\n")[2]
    target = '[target]\nname = "education-num"\nlower = 1\nupper = 16\n\n'
    Path("numeric.toml").write_text(numeric.replace("[columns.age]", target + "[columns.age]"))
    given = ("--schema", "numeric.toml", "--epsilon", 4)
    result = run("fit-sparse", public_files / "train.csv", *given, "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert type(load_model("model/model.skops")).__name__ == "PrivateLasso"
    assert printed["plan"]["public"]["loss"] == "squared"
    assert printed["test"] is None
    tested = run("fit-sparse", public_files / "train.csv", *given, "--test", public_files / "test.csv", "--force")
    assert "NOT PRIVATE: R2" in tested.stdout.replace("\n", " "), tested.output
    assert run("fit-sparse", public_files / "train.csv", *given, "--group-column", "sex", "--force").exit_code == 2


def test_a_plan_reads_no_data(run: Any, public_files: Path) -> None:
    plan = ("fit-sparse", "--schema", public_files / "adult.toml", "--epsilon", 1, "--rows", 5000)
    listed = json.loads(run(*plan, "--json").stdout)
    assert (listed["rows"], listed["epsilon"], listed["delta"]) == (5000, 1.0, 1e-6)
    assert "frank_wolfe" in {one["algorithm"] for one in listed["plans"]}
    shown = run(*plan)
    assert shown.exit_code == 0
    assert "bound: on the loss above" in shown.stdout
    assert not Path("model").exists()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--rows", 100), "rows"),
        (("--radius", 0), "radius"),
        (("--group-column", "age"), "group_column"),
        (("--algorithm", "magic"), "algorithm"),
    ],
)
def test_mistakes_are_one_line(run: Any, public_files: Path, more: tuple[Any, ...], named: str) -> None:
    result = run(*words(public_files, *more))
    assert result.exit_code == 2
    assert named in result.stderr
    assert not Path("model").exists()


def test_a_budget_pays_for_counting_the_groups_too(run: Any, public_files: Path) -> None:
    assert run("budget", "create", "adult.budget", "--epsilon", 4, "--delta", 1e-5).exit_code == 0
    words = ("--schema", public_files / "adult.toml", "--epsilon", 3, "--group-column", "sex")
    result = run("fit-sparse", public_files / "train.csv", *words, "--budget", "adult.budget")
    assert result.exit_code == 0, result.output
    assert "epsilon 3, delta 1e-06" in result.stdout
    left = json.loads(run("budget", "show", "adult.budget", "--json").stdout)["left"]
    assert float(left["epsilon"]) == 1.0


def test_a_public_test_file_is_measured(run: Any, public_files: Path) -> None:
    result = run(*words(public_files, "--radius", 2, "--test", public_files / "test.csv", "--json"))
    assert result.exit_code == 0, result.output
    measured = json.loads(result.stdout)["test"]
    assert measured["private"] is False
    model: Any = load_model("model/model.skops")
    table = read_table(public_files / "test.csv", model.schema)
    right = [str(label) for label in table["income"].to_pylist()]
    assert measured["accuracy"] == pytest.approx(np.mean(model.predict(table) == right), abs=1e-12)
    Path("empty.csv").write_text((public_files / "test.csv").read_text().split("\n")[0] + "\n")
    run("budget", "create", "b.json", "--epsilon", 9, "--delta", 1e-5)
    before = Path("b.json").read_text()
    empty = run(*words(public_files, "--out", "none", "--test", "empty.csv", "--budget", "b.json"))
    assert Path("b.json").read_text() == before
    assert empty.exit_code == 2
    assert "no records" in empty.stderr
    assert not Path("none").exists()
