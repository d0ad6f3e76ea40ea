"""plan, schema, verify and predict: what they print, and that it agrees with the library."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dpconvex import PrivateLogisticRegression, Schema, adult_schema, load_model, read_table
from dpconvex.cli._output import _spoken, print_table, print_text
from dpconvex.privacy.verify import NOT_CHECKED


def test_plan_lists_all_plans_of_the_estimator(run: Any) -> None:
    result = run("plan", "--rows", 5000, "--features", 20, "--epsilon", 1, "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)["plans"]
    expected = PrivateLogisticRegression(1.0, feature_norm=1.0).plan(5000, 20)
    assert [(p["algorithm"], p["noise"]) for p in shown] == [(p.algorithm, p.noise_name) for p in expected]
    assert [p["chosen"] for p in shown] == [True] + [False] * (len(shown) - 1)
    assert [p["excess_loss_bound"] for p in shown] == pytest.approx([p.predicted_error.bound for p in expected])
    assert [p["expected_excess_loss"] for p in shown] == pytest.approx([p.predicted_error.expected for p in expected])
    proved = {p["algorithm"]: p["bound_is_proved"] for p in shown}
    others = {"objective_perturbation": True, "output_perturbation": True, "constant": True}
    assert proved == {**others, "random_projection": False}


def test_plan_table_fits_80_columns_and_marks_vacuous_plans(run: Any) -> None:
    result = run("plan", "--rows", 200, "--features", 50, "--epsilon", 0.1, "--delta", 1e-6)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "vacuous" in result.stdout
    assert "*  " in result.stdout


def test_names_of_algorithms_are_whole_beside_long_notes(run: Any, tmp_path: Path) -> None:
    columns = "".join(f"[columns.{name}]\nlower = 0\nupper = 1\n" for name in "xz")
    text = f'confirmed = true\n[target]\nname = "y"\nclasses = ["a", "b"]\nRATES\n{columns}'
    for rates, told in (("", False), ("rates = [0.95, 0.05]", True)):
        (tmp_path / "s.toml").write_text(text.replace("RATES", rates))
        shown = run("plan", "--rows", 300, "--schema", tmp_path / "s.toml", "--epsilon", 0.05, "--delta", 1e-6).stdout
        assert max(map(len, shown.splitlines())) <= 80
        assert "objective_perturbation  " in shown
        assert ("if shares are published, give rates" in " ".join(shown.split())) != told
        assert ("always predicting the public rates" in shown) == told
    svc = run("plan", "--rows", 300, "--features", 3, "--epsilon", 1, "--model", "svc").stdout
    assert "give rates" not in svc


def test_plan_takes_a_schema_and_classes(run: Any, public_files: Path) -> None:
    words = ("plan", "--rows", 36_186, "--schema", public_files / "adult.toml", "--epsilon", 1)
    assert json.loads(run(*words, "--json").stdout)["plans"][0]["noise"] == "grouped"
    three = run("plan", "--rows", 900, "--features", 3, "--classes", 3, "--epsilon", 1, "--json")
    assert json.loads(three.stdout)["plans"][0]["trivial_loss"] == pytest.approx(np.log(3))


def test_schema_show_lists_every_column(run: Any, public_files: Path) -> None:
    result = run("schema", "show", public_files / "adult.toml")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    for column in adult_schema().columns:
        assert column.name in result.stdout
    assert "102 encoded features" in result.stdout


def test_a_draft_says_what_is_wrong_with_its_target_and_which_numbers_are_codes(run: Any, tmp_path: Path) -> None:
    lines = (f'{0 if k == 3 else 1900 + k},"${k},000 ",person {k}' for k in range(90))
    (tmp_path / "t.csv").write_text("\n".join(["built,gift,name", *lines]))
    for target, why in (("gift", "a currency. Write them plainly"), ("name", "90 classes were found")):
        result = run("schema", "draft", "t.csv", "--target", target, "--output", f"{target}.toml")
        assert f"warning: {target!r} cannot be the target as it is: " in result.stderr
        assert why in result.stderr
        assert "lie far from all others: built." in " ".join(result.stdout.split())
        assert "UTF-8" not in result.stderr
    (tmp_path / "t.csv").write_bytes("town\nN\u00eemes\n".encode("latin-1"))
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run("schema", "draft", "t.csv", "--output", "pipe").exit_code == 0
    assert os.read(reader, 20) == b"# Some texts are not"
    os.close(reader)
    result = run("schema", "draft", "t.csv")
    assert result.stderr.startswith("warning: Some texts are not UTF-8: convert the file, as with iconv")
    assert result.exit_code == 0


def test_a_draft_names_columns_without_a_name(run: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n".join([",size", *(f"{k},{k / 2}" for k in range(30))]))
    assert "the file gives: (no name)." in " ".join(
        run("schema", "draft", "t.csv", "--output", "t.toml").stdout.split()
    )


def test_schema_draft_is_refused_until_confirmed(run: Any, public_files: Path, tmp_path: Path) -> None:
    table = public_files / "train.csv"
    result = run("schema", "draft", table, "--target", "income", "--output", "draft.toml")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "draft.toml").read_text()
    assert "read from the data" in text
    refused = run("fit", table, "--schema", "draft.toml", "--epsilon", 1)
    assert refused.exit_code == 2
    assert "confirm" in refused.stderr
    assert not (tmp_path / "model").exists()
    (tmp_path / "draft.toml").write_text(text.replace("confirmed = false", "confirmed = true"))
    assert run("fit", table, "--schema", "draft.toml", "--epsilon", 1).exit_code == 0
    again = run("schema", "draft", table, "--output", "draft.toml")
    assert again.exit_code == 2  # never replaces what a person may have confirmed
    printed = run("schema", "draft", table, "--target", "income")
    assert Schema.from_toml_text(printed.stdout).classes == ("<=50K", ">50K")


@pytest.mark.parametrize("name", ["", "certificate.json"])
def test_verify_passes_on_what_fit_wrote(run: Any, fitted_folder: Path, name: str) -> None:
    result = run("verify", fitted_folder / name)
    assert result.exit_code == 0, result.output
    assert "checks passed" in result.stdout
    assert "No certificate can show" in result.stdout
    assert "Theorems 1 to 3" not in result.stdout
    assert "Theorems 1 to 3" in run("verify", fitted_folder / name, "--explain").stdout
    checked = json.loads(run("verify", fitted_folder / name, "--json").stdout)
    assert checked["passed"] is True
    assert checked["epsilon"] == pytest.approx(2.0, rel=1e-6)
    assert checked["not_checked"] == list(NOT_CHECKED)
    assert checked["model_compared"] is (name == "")
    assert ("name its folder to compare it, too" in " ".join(result.stdout.split())) == bool(name)


def test_verify_says_that_a_folder_has_no_model(run: Any, fitted_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    shutil.copy(fitted_folder / "certificate.json", tmp_path / "alone")
    result = run("verify", "alone")
    assert result.exit_code == 0
    assert "names a model, and none was compared: the folder holds no model.skops." in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields["spent"].update(epsilon=0.1),
        lambda fields: fields["target"].update(epsilon=0.5),
        lambda fields: fields["releases"].pop(),
        lambda fields: fields.update(private=False),
        lambda fields: fields.pop("releases"),
    ],
    ids=["spent", "target", "release dropped", "flag", "no releases"],
)
@pytest.mark.thin
@pytest.mark.dear("spent")
def test_verify_fails_on_a_tampered_certificate(run: Any, fitted_folder: Path, tmp_path: Path, change: Any) -> None:
    fields = json.loads((fitted_folder / "certificate.json").read_text())
    change(fields)
    (tmp_path / "tampered.json").write_text(json.dumps(fields))
    result = run("verify", "tampered.json")
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    if fields.get("private") is False:  # once: a verification takes a second
        as_json = run("verify", "tampered.json", "--json")
        assert as_json.exit_code == 1
        assert json.loads(as_json.stdout)["passed"] is False


def test_verify_calls_a_file_that_is_no_certificate_a_failed_check(run: Any, tmp_path: Path) -> None:
    (tmp_path / "noise.json").write_bytes(b"\xff\x00 not json")
    assert run("verify", "noise.json").exit_code == 1


def test_predict_equals_the_estimator(run: Any, fitted_folder: Path, public_files: Path, tmp_path: Path) -> None:
    model = load_model(fitted_folder / "model.skops")
    table = read_table(public_files / "test.csv", model.schema, features_only=True)
    printed = run("predict", fitted_folder, public_files / "test.csv", "--proba")
    assert printed.exit_code == 0, printed.output
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert [row["prediction"] for row in rows] == model.predict(table).tolist()
    shown = np.array([float(row["p(>50K)"]) for row in rows])
    np.testing.assert_allclose(shown, model.predict_proba(table)[:, 1], rtol=1e-12)
    written = run("predict", fitted_folder / "model.skops", public_files / "test.csv", "--output", "p.csv")
    assert written.exit_code == 0
    assert written.stdout == ""
    with open(tmp_path / "p.csv", newline="") as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == model.predict(table).tolist()


def test_predict_needs_no_target_column(run: Any, fitted_folder: Path, public_files: Path, tmp_path: Path) -> None:
    import pyarrow.csv as pacsv

    pacsv.write_csv(pacsv.read_csv(public_files / "test.csv").drop_columns("income"), tmp_path / "new.csv")
    assert run("predict", fitted_folder, "new.csv").exit_code == 0


def test_help_and_version_import_nothing_numerical() -> None:
    """They answer within 0.3 s of CPU time because no numerical library is imported."""
    code = "import dpconvex.cli.main, sys; print(*{'numpy', 'scipy', 'sklearn', 'matplotlib'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_module_entry_point_and_version() -> None:
    done = subprocess.run([sys.executable, "-m", "dpconvex", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("dpconvex ")


def test_plan_with_a_tilt_offers_output_perturbation_only() -> None:
    from typer.testing import CliRunner

    from dpconvex.cli.main import app

    arguments = ["plan", "--rows", "1000", "--features", "3", "--epsilon", "1", "--tilt", "0.1", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert {plan["algorithm"] for plan in json.loads(result.stdout)["plans"]} == {"output_perturbation"}


def test_what_does_not_fit_a_line_goes_on_below_its_first_word(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    print_text("Cost:    one two three four five six\n\n  - a list that is longer than a line\nplain")
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["Cost:    one two three four", "         five six"]
    assert lines[2:] == ["", "  - a list that is longer than", "    a line", "plain"]


def test_names_in_tables_are_broken_between_their_parts(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "26")
    names = ("objective_perturbation_with_curvature", "race=African-American, sex=Male", "w" * 20)
    print_table("", ("name", "error"), [(name, "0.125±0.0625") for name in names], right=[1])
    lines = [line.split("  ")[0].rstrip() for line in capsys.readouterr().out.splitlines()]
    broken = ["objective_", "perturbation", "_with_", "curvature"]
    assert lines[1:] == [*broken, "race=", "African-", "American,", "sex=Male", "w" * 12, "w" * 8]


def test_numbers_stay_whole_on_narrow_terminals(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("objective_perturbation", "0.00585", "0.0553"), ("constant", "0.148", "0.698")]
    for width in ("36", "0"):  # 0: some terminals do not know theirs
        monkeypatch.setenv("COLUMNS", width)
        print_table("", ("algorithm", "expected", "bound"), rows, right=[1, 2])
        lines = capsys.readouterr().out.splitlines()
        assert re.fullmatch(r"objective_\S* +0.00585 +0.0553 *", lines[1])


GONE = """
import os
from dpconvex.cli import _output
@_output.one_line_errors
def command():
    _output.PAID.set(". Epsilon 1 stays charged to b.json")
    _output.print_text("released")
read, write = os.pipe()
os.close(read)
os.dup2(write, 1)
command()
"""


def test_a_reader_that_went_away_aborts_nothing() -> None:
    """As in ``dpconvex evaluate ... | head``: the release was written, and the command said that it was aborted."""
    done = subprocess.run([sys.executable, "-c", GONE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_commands_that_take_long_say_that_they_work(run: Any, public_files: Path, monkeypatch: Any) -> None:
    said = []
    for where in ("_progress.shown", "cli._output.working", "cli.plan.working"):
        monkeypatch.setattr(f"dpconvex.{where}", lambda text, *_: said.append(text) or nullcontext())
    schema = ("--schema", public_files / "adult.toml", "--epsilon", 1)
    assert run("plan", "--rows", 500, *schema).exit_code == 0
    assert run("fit", public_files / "train.csv", *schema).exit_code == 0
    median = ("--column", "age", "--radius-bound", 100, "--epsilon", 1)
    assert run("median", public_files / "train.csv", *median).exit_code == 0
    assert said[0] == "Planning"
    assert said.count("Fitting") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("users=None: must be given. Give --users", "--users: must be given. Give --users"),
        ("epsilon=-1: must be > 0", "epsilon=-1: must be > 0"),
        ("epsilon=2.0, noise='l2': the budget has epsilon=1", "epsilon=2.0, noise='l2': the budget has --epsilon 1"),
        ("a goal. Set inference=True.", "a goal. Set --inference."),
        ("data/epsilon=3/none.csv: cannot be read", "data/epsilon=3/none.csv: cannot be read"),
        ("Or set inference=False, noise='l2'.", "Or set no --inference, --noise l2."),
        (
            "neighboring='replace_one': the budget is for neighboring='x'",
            "neighbors='replace_one': the budget is for --neighbors x",
        ),
        ("is for user_column='a', target_bounds=None", "is for --user-column a, target_bounds=None"),
    ],
)
def test_messages_of_the_library_name_options_as_the_command_line_does(text: str, expected: str) -> None:
    assert _spoken(text, ("users", "epsilon", "inference", "noise", "user_column", "neighbors")) == expected


def test_predict_says_of_which_columns_much_cannot_be_read(
    run: Any, fitted_folder: Path, public_files: Path, tmp_path: Path
) -> None:
    """That new records are read otherwise than meant would show nowhere else."""
    whole = read_table(public_files / "test.csv")
    usual = run("predict", fitted_folder, public_files / "test.csv", "--check")
    assert "note:" not in usual.stderr
    schema = load_model(fitted_folder / "model.skops").schema
    category = next(column for column in schema.columns if not column.numeric and not column.other).name
    number = next(column for column in schema.columns if column.numeric).name
    other = whole.to_pandas().assign(**{category: "nowhere", number: "1.234.567"})
    other.to_csv(tmp_path / "other.csv", index=False)
    assert run("predict", fitted_folder, tmp_path / "other.csv").stderr == ""  # content says nothing unless asked
    found = run("predict", fitted_folder, tmp_path / "other.csv", "--check")
    assert f"note: {category!r}: 100% of the cells are not listed" in found.stderr
    assert f"note: {number!r}: 100% of the cells are missing or unreadable" in found.stderr
    assert found.stdout.count("\n") == usual.stdout.count("\n")


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none"])
def test_predictions_of_no_records_are_a_header(
    name: str, run: Any, fitted_folder: Path, public_files: Path, tmp_path: Path
) -> None:
    """A nightly job failed on an empty batch."""
    whole, path = read_table(public_files / "test.csv"), tmp_path / name
    if name == "none.csv":
        path.write_text((public_files / "test.csv").read_text().splitlines()[0] + "\n")
    else:
        (tmp_path / "none").mkdir()
        pq.write_table(whole.slice(0, 0), path / "0.parquet" if name == "none" else path)
    for more in ((), ("--proba", "--id", "age"), ("--check",)):
        usual = run("predict", fitted_folder, public_files / "test.csv", *more)
        found = run("predict", fitted_folder, path, *more)
        assert (found.exit_code, found.stderr) == (0, ""), found.output
        assert found.stdout == usual.stdout.splitlines(keepends=True)[0]
    assert run("predict", fitted_folder, path, "--output", "p.csv").exit_code == 0
    assert (tmp_path / "p.csv").read_text() == '"prediction"\n'
