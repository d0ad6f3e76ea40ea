"""Every model on the command line: plan, fit, report, predict; and options that do not go together."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpconvex import load_model, read_table, verify
from dpconvex.estimators import ESTIMATORS
from dpconvex.losses import PinballLoss

FEATURES = '[columns.x]\nlower = 0\nupper = 10\n[columns.color]\ncategories = ["red", "green", "blue"]\n'
NUMBER = f'confirmed = true\n[target]\nname = "y"\nlower = 0\nupper = 100\n{FEATURES}'
CLASS = f'confirmed = true\n[target]\nname = "z"\nclasses = ["no", "yes"]\n{FEATURES}'
SCHEMAS = {"logistic": CLASS, "svc": CLASS, "linear": NUMBER, "huber": NUMBER, "quantile": NUMBER}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = ["x,color,y,z,w"]
    for x, color in zip(rng.uniform(0, 10, 400), rng.choice(["red", "green", "blue"], 400), strict=True):
        y = 5 * x + 20 * (color == "red")
        lines.append(f"{x:.3f},{color},{y:.3f},{'yes' if y > 40 else 'no'},{y / 2:.3f}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "number.toml").write_text(NUMBER)
    (tmp_path / "class.toml").write_text(CLASS)
    return tmp_path


def schema_of(model: str) -> str:
    return "number.toml" if SCHEMAS[model] == NUMBER else "class.toml"


@pytest.mark.parametrize("model", [estimator.kind for estimator in ESTIMATORS])
@pytest.mark.thin
@pytest.mark.dear("huber")
def test_every_model_goes_all_the_way(run: Any, folder: Path, model: str) -> None:
    words = ("fit", "t.csv", "--schema", schema_of(model), "--model", model, "--epsilon", 20)
    result = run(*words, "--test", "t.csv")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    shown = "accuracy" if SCHEMAS[model] == CLASS else "pinball loss" if model == "quantile" else "R2"
    assert f"NOT PRIVATE: {shown}" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert verify(folder / "model" / "certificate.json").passed
    loaded = load_model(folder / "model" / "model.skops")
    assert loaded.kind == model
    printed = run("predict", "model", "t.csv")
    rows = [row["prediction"] for row in csv.DictReader(io.StringIO(printed.stdout))]
    expected = loaded.predict(read_table(folder / "t.csv", loaded.schema, features_only=True))
    if SCHEMAS[model] == CLASS:
        assert rows == expected.tolist()
    else:
        np.testing.assert_allclose(np.array(rows, dtype=float), expected, rtol=1e-12)
    page = (folder / "model" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert ("log-odds" in page) == (model == "logistic")
    assert ("middle of the range" in page) == (SCHEMAS[model] == NUMBER)
    as_json = json.loads(run(*words, "--test", "t.csv", "--out", "again", "--json").stdout)
    quality = as_json["test"]["accuracy"] if SCHEMAS[model] == CLASS else as_json["test"]["r2"]
    assert quality > 0.7
    assert (as_json["test"].get("coverage") is not None) == (model == "quantile")


@pytest.mark.thin
@pytest.mark.parametrize("model", [estimator.kind for estimator in ESTIMATORS])
@pytest.mark.dear("logistic")
def test_plan_agrees_with_fit(run: Any, folder: Path, model: str) -> None:
    options = ("--schema", schema_of(model), "--model", model, "--epsilon", 1, "--json")
    planned = json.loads(run("plan", "--rows", 400, *options).stdout)["plans"][0]
    assert json.loads(run("fit", "t.csv", *options).stdout)["plan"] == planned
    shown = run("plan", "--rows", 400, "--features", 3, "--model", model, "--epsilon", 1)
    assert shown.exit_code == 0, shown.output
    assert ("middle of the range" in shown.stdout) == (SCHEMAS[model] == NUMBER)


@pytest.mark.gate
def test_the_model_follows_the_target_where_none_is_named(run: Any, folder: Path) -> None:
    for schema, kind in (("number.toml", "linear"), ("class.toml", "logistic")):
        assert run("fit", "t.csv", "--schema", schema, "--epsilon", 1, "--out", kind).exit_code == 0
        assert load_model(folder / kind / "model.skops").kind == kind


def test_the_quantile_and_the_target_column_are_taken(run: Any, folder: Path) -> None:
    words = ("fit", "t.csv", "--schema", "number.toml", "--model", "quantile", "--quantile", 0.9, "--target", "w")
    assert run(*words, "--epsilon", 1, "--json").exit_code == 0
    model: Any = load_model(folder / "model" / "model.skops")
    assert model.quantile == 0.9
    assert model.schema.target.name == "w"
    planned = run(
        "plan", "--rows", 9, "--features", 2, "--model", "quantile", "--quantile", 0.9, "--epsilon", 1, "--json"
    )
    trivial = json.loads(planned.stdout)["plans"][0]["trivial_loss"]
    assert trivial <= PinballLoss(0.9, target_bound=0.5).value_at_zero
    assert trivial > PinballLoss(0.5, target_bound=0.5).value_at_zero


def test_released_numbers_in_the_report_are_in_the_units_of_the_target(run: Any, folder: Path) -> None:
    from dpconvex.cli.report import _coefficients
    from dpconvex.estimators import PrivateLinearRegression

    X = np.random.default_rng(0).uniform(-1, 1, (140, 2))  # too few for a look
    model = PrivateLinearRegression(1.0, feature_bounds=(-1, 1), target_bounds=(0, 2), random_state=0).fit(X, X[:, 0])
    wide = PrivateLinearRegression(1.0, feature_bounds=(-1, 1), target_bounds=(0, 2000), random_state=0)
    rows, wide_rows = _coefficients(model), _coefficients(wide.fit(X, 1000 * X[:, 0]))
    for one, other in zip(rows, wide_rows, strict=True):
        assert other["value"] == pytest.approx(1000 * one["value"])
        for band in ("typical", "reach"):
            assert other[band] == pytest.approx(1000 * one[band])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "t.csv", "--schema", "number.toml", "--model", "svc"), "classes"),
        (("fit", "t.csv", "--schema", "class.toml", "--model", "huber"), "is for numbers"),
        (("fit", "t.csv", "--schema", "class.toml", "--model", "magic"), "logistic"),
        (("fit", "t.csv", "--schema", "number.toml", "--quantile", 0.9), "--model linear"),
        (("fit", "t.csv", "--schema", "number.toml", "--model", "quantile", "--quantile", 2), "quantile=2"),
        (("plan", "--rows", 9, "--features", 2, "--model", "linear", "--classes", 3), "--model linear"),
        (("plan", "--rows", 9, "--features", 2, "--model", "svc", "--classes", 3), "Only binary"),
        (("plan", "--rows", 9, "--schema", "number.toml", "--model", "logistic"), "classes"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else value,
)
def test_options_that_do_not_go_together(run: Any, folder: Path, words: tuple[Any, ...], message: str) -> None:
    result = run(*words, "--epsilon", 1)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert not (folder / "model").exists()


def test_probabilities_need_a_model_that_has_them(run: Any, folder: Path) -> None:
    assert run("fit", "t.csv", "--schema", "class.toml", "--model", "svc", "--epsilon", 1).exit_code == 0
    result = run("predict", "model", "t.csv", "--proba")
    assert result.exit_code == 2
    assert "PrivateLinearSVC" in result.stderr
