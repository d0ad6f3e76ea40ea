"""``dpconvex fit-sparse``: models and certificates out, predictions from them, plans without data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pytest

from dpconvex import load_model, read_table


def words(folder: Path, *more: Any) -> tuple[Any, ...]:
    return ("fit-sparse", folder / "train.csv", "--schema", folder / "adult.toml", "--epsilon", 4, *more)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ((), "PrivateSparseLogisticRegression"),
        (("--group", "sex", "--algorithm", "vertex_mirror_descent"), "PrivateWorstGroupClassifier"),
    ],
)
def test_it_writes_a_model_that_predicts(run: Any, public_files: Path, more: tuple[Any, ...], name: str) -> None:
    result = run(*words(public_files, *more, "--radius", 2))
    assert result.exit_code == 0, result.output
    assert {path.name for path in Path("model").iterdir()} == {"model.skops", "certificate.json"}
    model: Any = load_model("model/model.skops")
    assert type(model).__name__ == name
    assert model.radius == 2
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
    assert run("fit-sparse", public_files / "train.csv", *given, "--group", "sex", "--force").exit_code == 2


def test_a_plan_reads_no_data(run: Any, public_files: Path) -> None:
    plan = ("fit-sparse", "--schema", public_files / "adult.toml", "--epsilon", 1, "--rows", 5000)
    listed = json.loads(run(*plan, "--json").stdout)
    assert "frank_wolfe" in {one["algorithm"] for one in listed}
    shown = run(*plan)
    assert shown.exit_code == 0
    assert "bound on the excess" in shown.stdout
    assert not Path("model").exists()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--rows", 100), "rows"),
        (("--radius", 0), "radius"),
        (("--group", "age"), "group_column"),
        (("--algorithm", "magic"), "algorithm"),
    ],
)
def test_mistakes_are_one_line(run: Any, public_files: Path, more: tuple[Any, ...], named: str) -> None:
    result = run(*words(public_files, *more))
    assert result.exit_code == 2
    assert named in result.stderr
    assert not Path("model").exists()
