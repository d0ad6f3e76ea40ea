"""``dpconvex export`` and ``predict``, and the vocabulary that all commands share."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import skops.io
import typer
from typer.testing import CliRunner

from dpconvex import CategoricalColumn, NumericColumn, PrivateLogisticRegression, Schema
from dpconvex.cli.main import app
from dpconvex.data import ClassTarget
from dpconvex.estimators import _features
from dpconvex.estimators.persistence import save_model

RUNNER = CliRunner()
COLUMNS = (NumericColumn("age", 0, 100, "signed_log", scale=9), CategoricalColumn("sex", ("f", "m")))
TABLE = pd.DataFrame(
    {"who": ["p1", "p2", "p3"] * 20, "age": range(60), "sex": ["f", "m"] * 30, "ill": ["no", "yes"] * 30}
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    TABLE.to_csv(folder / "t.csv", index=False)
    schema = Schema(COLUMNS, ClassTarget("ill", ("no", "yes")))
    model = PrivateLogisticRegression(3.0, schema=schema, slope_cap=1.0, random_state=0).fit(TABLE)
    save_model(model, folder / "model.skops")
    (folder / "metrics.json").write_text('{"auc": 0.75}')
    return folder


def run(*words: object) -> str:
    result = RUNNER.invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_format_is_written(place: Path) -> None:
    assert json.loads(run("export", place))["format"] == "dpconvex-model"
    assert 'FROM "people"' in run("export", place, "--format", "sql", "--table", "people")
    assert "| auc | 0.75 | |" in run("export", place, "--format", "card")
    run("export", place, "--format", "sklearn", "--output", place / "plain.skops")
    content = (place / "plain.skops").read_bytes()
    assert all(name.startswith(("sklearn.", "numpy.", "scipy.")) for name in skops.io.get_untrusted_types(data=content))
    found = list(csv.DictReader(run("predict", place, place / "t.csv").splitlines()))
    plain = skops.io.loads(content, trusted=skops.io.get_untrusted_types(data=content))
    assert plain.predict(TABLE).tolist() == [row["prediction"] for row in found]
    for words in (["--format", "xml"], ["--format", "sklearn"]):
        result = RUNNER.invoke(app, ["export", str(place), *words])
        assert result.exit_code == 2
        assert "error: " in result.output


@pytest.mark.parametrize("cap", [None, 1.0])
def test_a_pipeline_without_probabilities_is_called_so(tmp_path: Path, cap: float | None) -> None:
    schema = Schema(COLUMNS, ClassTarget("ill", ("no", "yes")))
    save_model(PrivateLogisticRegression(3.0, schema=schema, slope_cap=cap).fit(TABLE), tmp_path / "model.skops")
    words = ("export", str(tmp_path), "--format", "sklearn", "--output", str(tmp_path / "plain.skops"))
    result = RUNNER.invoke(app, words)
    assert ("so the pipeline has no predict_proba. Fit with --slope-cap 1" in result.stderr) == (cap is None)


def test_predictions_keep_ids_and_come_in_portions(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("predict", place, place / "t.csv", "--proba", "--id", "who")
    rows = list(csv.DictReader(whole.splitlines()))
    assert list(rows[0]) == ["who", "prediction", "p(no)", "p(yes)"]
    assert [row["who"] for row in rows] == TABLE["who"].tolist()
    assert run("predict", place, place / "t.csv", "--id", "age").splitlines()[2].startswith("1,")
    monkeypatch.setattr(_features, "PREDICTED", 7)
    assert run("predict", place, place / "t.csv", "--proba", "--id", "who") == whole
    run("predict", place, place / "t.csv", "--proba", "--id", "who", "--out", place / "p.csv")
    assert (place / "p.csv").read_text() == whole
    for name in ("prediction", "p(yes)"):  # the column of predictions would take its place
        refused = RUNNER.invoke(app, ["predict", str(place), str(place / "t.csv"), "--proba", "--id", name])
        assert f"id='{name}': is the name of a column of predictions" in refused.output


def test_flags_show_no_type_and_outputs_have_both_names() -> None:
    def walk(command: object) -> None:
        for param in command.params:  # pyright: ignore[reportAttributeAccessIssue]
            if "--out" in param.opts or "--output" in param.opts:
                assert {"--out", "--output"} <= set(param.opts)
        for each in getattr(command, "commands", {}).values():
            walk(each)

    walk(typer.main.get_command(app))
    for words in (["--help"], ["predict", "--help"], ["schema", "check", "--help"]):
        assert "<bool>" not in run(*words)
    assert "complet" in run("--help")


def test_an_interrupt_while_importing_is_one_line() -> None:
    code = (
        "import sys\nclass Stop:\n def find_spec(self, name, *_):\n  if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\nfrom dpconvex.__main__ import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "Aborted.\n")


def test_a_closed_standard_output_takes_no_place_of_a_file(place: Path) -> None:
    """With ``>&-`` commands that write bytes ended with a traceback, and the first opened file was standard output."""
    command = f"{sys.executable} -m dpconvex predict {place / 'model.skops'} {place / 't.csv'} >&-"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
