"""fit: its outputs, that content never changes what it says, and that it writes all or nothing."""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

import dpconvex
from dpconvex import Budget, PrivateLogisticRegression, load_model, verify
from dpconvex.algorithms.erm.registry import plans
from dpconvex.cli import _output
from dpconvex.cli.report import GRID
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators.classifiers import CAPS

FILES = {"model.skops", "certificate.json", "report.html", "schema.found.toml"}  # the last: parts of ranges
TOML = """
confirmed = true
[target]
name = "y"
classes = ["no", "yes"]
[columns.x]
lower = 0
upper = 10
[columns.color]
categories = ["red", "green", "blue"]
"""


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "s.toml"
    path.write_text(TOML)
    return path


def table(folder: Path, rows: str) -> Path:
    path = folder / "t.csv"
    path.write_text("x,color,y\n" + rows)
    return path


def leftovers(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} - {"s.toml", "t.csv"}


def test_fit_writes_a_model_a_verified_certificate_and_a_report(fitted_folder: Path) -> None:
    assert {entry.name for entry in fitted_folder.iterdir()} == FILES
    assert verify(fitted_folder / "certificate.json").passed
    model = load_model(fitted_folder / "model.skops")
    assert model.certificate_.to_json() == (fitted_folder / "certificate.json").read_text()


def test_fit_explains_itself_within_80_columns(run: Any, public_files: Path) -> None:
    words = ("fit", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 1)
    result = run(*words, "--test", public_files / "test.csv")
    assert result.exit_code == 0, result.output
    assert "Promise: replacing one row" in result.stdout
    assert "Trusted: the declared bounds, categories and classes are public knowledge." in result.stdout
    assert len(result.stdout.splitlines()) <= 40  # reasons are for `verify --explain` and the report
    assert "NOT PRIVATE: accuracy" in result.stdout
    assert "Classes: <=50K, >50K; any other label counts as <=50K" in result.stdout  # said for every table
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""


def test_fit_json_is_only_json(run: Any, public_files: Path) -> None:
    words = ("fit", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 3, "--json")
    result = run(*words, "--test", public_files / "test.csv", "--target", "income", "--delta", 1e-6)
    printed = json.loads(result.stdout)
    assert {Path(name).name for name in printed["files"]} == FILES
    assert printed["certificate"]["target"]["epsilon"] == 3
    assert printed["test"]["private"] is False
    assert 0.5 < printed["test"]["accuracy"] <= 1


def test_a_seed_repeats_the_fit_and_is_stamped_not_private(run: Any, toml: Path, tmp_path: Path) -> None:
    table(tmp_path, "1,red,no\n9,blue,yes\n" * 50)
    words = ("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1, "--seed", 7)
    first = run(*words, "--out", "a")
    assert first.exit_code == 0
    assert "NOT PRIVATE" in first.stdout
    run(*words, "--out", "b")
    coefficients = [load_model(tmp_path / out / "model.skops").coef_.tolist() for out in "ab"]
    assert coefficients[0] == coefficients[1]
    assert run("verify", "a").exit_code == 1


CONTENTS = {
    "ordinary": "1,red,no\n9,blue,yes\n4,green,no\n8,red,yes\n",
    "missing": ",,\n,,\n,,\n,,\n",
    "nan and infinities": "nan,red,no\ninf,blue,yes\n-inf,green,no\n1e400,red,yes\n",
    "constant": "5,red,yes\n" * 4,
    "one class": "1,red,no\n2,blue,no\n3,green,no\n4,red,no\n",
    "unseen": "1,mauve,no\n2,,maybe\n3,?,yes\n4,red,\n",
    "out of range": "-1e9,red,no\n1e9,blue,yes\n11,green,no\n-0.1,red,yes\n",
    "not numbers": "abc,red,no\n--,blue,yes\n1;2,green,no\n0x1,red,yes\n",
}


def test_content_never_changes_exit_code_messages_or_certificate(run: Any, toml: Path, tmp_path: Path) -> None:
    outputs = []
    for k, rows in enumerate(CONTENTS.values()):
        table(tmp_path, rows)
        result = run("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1, "--out", f"m{k}")
        assert result.exit_code == 0, result.output
        certificate = (tmp_path / f"m{k}" / "certificate.json").read_text()
        certificate, digests = re.subn(r"sha256:[0-9a-f]{64}", "sha256", certificate)  # the model's and the file's own
        assert digests == 2
        outputs.append((result.stdout.replace(f"m{k}", "m"), result.stderr, certificate))
    assert len(set(outputs)) == 1


def test_one_record_is_enough(run: Any, toml: Path, tmp_path: Path) -> None:
    table(tmp_path, "1,red,no\n")
    result = run("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1)
    assert result.exit_code == 0, result.output
    assert "VACUOUS" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--epsilon", "0"),
        ("--epsilon", "-1"),
        ("--epsilon", "nan"),
        ("--epsilon", "inf"),
        ("--epsilon", "1", "--delta", "0.5"),
        ("--epsilon", "1", "--delta", "-1"),
        ("--epsilon", "1", "--algorithm", "magic"),
        ("--epsilon", "1", "--noise", "magic"),
        ("--epsilon", "1", "--constants", "magic"),
        ("--epsilon", "1", "--l2", "0"),
        ("--epsilon", "1", "--coefficient-norm", "-2"),
        ("--epsilon", "1", "--noise", "gaussian"),
        ("--epsilon", "1", "--target", "z"),
        ("--epsilon", "1", "--target", "color"),
        ("--epsilon", "1", "--test", "missing.csv"),
        ("--epsilon", "1", "--seed", "-3"),
        ("--epsilon", "1", "--out", "no/such/folder"),
        ("--epsilon", "1", "--out", "."),
        ("--epsilon", "1", "--out", "t.csv"),
    ],
    ids=" ".join,
)
def test_bad_parameters_give_one_line_and_nothing_else(
    run: Any, toml: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    table(tmp_path, "1,red,no\n9,blue,yes\n")
    refused(run("fit", "t.csv", "--schema", "s.toml", *words), tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("absent.csv", None),
        ("t.txt", b"x,color,y\n1,red,no\n"),
        ("missing_column.csv", b"x,y\n1,no\n"),
        ("no_target.csv", b"x,color\n1,red\n"),
        ("empty.csv", b""),
        ("header_only.csv", b"x,color,y\n"),
        ("broken.parquet", b"PAR1 nothing"),
    ],
)
def test_unusable_tables_give_one_line_and_nothing_else(
    run: Any, toml: Path, tmp_path: Path, name: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = run("fit", name, "--schema", "s.toml", "--epsilon", 1)
    refused(result, tmp_path, {name} if content is not None else set())
    assert name in result.stderr
    assert "red" not in result.stderr


def test_a_parquet_column_of_the_wrong_type_is_refused(run: Any, toml: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [[1.0, 2.0]], "color": ["red"], "y": ["no"]}), tmp_path / "t.parquet")
    refused(run("fit", "t.parquet", "--schema", "s.toml", "--epsilon", 1), tmp_path, {"t.parquet"})


@pytest.mark.parametrize(
    "text",
    [
        "[columns.x]\nlower = 3\nupper = 1\n",
        "not toml",
        TOML.replace("true", "false", 1),
        TOML.replace("[target]", "[t]"),
    ],
    ids=["empty range", "no TOML", "not confirmed", "unknown table"],
)
def test_unusable_schemas_are_refused(run: Any, toml: Path, tmp_path: Path, text: str) -> None:
    table(tmp_path, "1,red,no\n")
    toml.write_text(text)
    refused(run("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1), tmp_path)
    refused(run("fit", "t.csv", "--schema", "absent.toml", "--epsilon", 1), tmp_path)


def refused(result: Any, folder: Path, expected: set[str] = frozenset()) -> None:  # pyright: ignore[reportArgumentType]
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert leftovers(folder) == expected


def test_an_old_model_is_replaced_only_with_force_and_only_as_a_whole(run: Any, toml: Path, tmp_path: Path) -> None:
    table(tmp_path, "1,red,no\n9,blue,yes\n")
    words = ("fit", "t.csv", "--schema", "s.toml", "--epsilon")
    assert run(*words, 1).exit_code == 0
    old = (tmp_path / "model" / "certificate.json").read_text()
    assert run(*words, 2).exit_code == 2
    assert (tmp_path / "model" / "certificate.json").read_text() == old
    assert run(*words, 2, "--force").exit_code == 0
    assert json.loads((tmp_path / "model" / "certificate.json").read_text())["target"]["epsilon"] == 2
    (tmp_path / "model" / "notes.txt").write_text("keep me")
    assert run(*words, 3, "--force").exit_code == 2
    assert (tmp_path / "model" / "notes.txt").read_text() == "keep me"
    assert leftovers(tmp_path) == {"model"}


def test_what_another_run_wrote_meanwhile_is_kept(
    run: Any, toml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path, "1,red,no\n9,blue,yes\n")
    Budget.create(tmp_path / "own.json", 3)
    (tmp_path / "model").mkdir()  # an empty folder is taken
    write = dpconvex.save_model

    def after_another(*args: Any) -> None:
        (tmp_path / "model" / "certificate.json").write_text("of another run")
        write(*args)

    monkeypatch.setattr(dpconvex, "save_model", after_another)
    result = run("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1, "--budget", "own.json")
    (kept,) = leftovers(tmp_path) - {"model", "own.json", "own.json.lock"}
    said = f"This release is in {tmp_path / kept}. Epsilon 1 stays charged to own.json\n"
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(f"model': was written by another run meanwhile. {said}")
    assert (tmp_path / "model" / "certificate.json").read_text() == "of another run"
    assert {each.name for each in (tmp_path / kept).iterdir()} >= {"model.skops", "certificate.json", "report.html"}
    assert verify(tmp_path / kept).passed


def test_what_takes_the_place_of_a_replaced_release_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --force the old release made room, another run took it, and the own release was deleted."""
    working, path, rename = tmp_path / ".model.own", tmp_path / "model", os.rename
    for folder, text in ((path, "old"), (working, "own")):
        folder.mkdir()
        (folder / "certificate.json").write_text(text)

    def meanwhile(source: Path, target: Path) -> None:
        rename(source, target)
        if source == path:
            path.mkdir()
            (path / "certificate.json").write_text("of another run")

    monkeypatch.setattr(os, "rename", meanwhile)
    with pytest.raises(InvalidParameterError, match="written by another run"):
        _output._take_place(working, path, True)
    assert (path / "certificate.json").read_text() == "of another run"
    assert (tmp_path / "model.own" / "certificate.json").read_text() == "own"


def test_output_that_cannot_be_printed_does_not_deny_the_release(
    run: Any, toml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path, "1,red,no\n9,blue,yes\n")
    monkeypatch.setattr("dpconvex.cli._output.print_json", failing(OSError(28, "No space left on device"), None))
    result = run("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1, "--json")
    what = "standard output could not be written (No space left on device)"
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(f"error: {what}. This release is in {tmp_path / 'model'}\n")
    assert verify(tmp_path / "model").passed


def test_what_a_short_command_printed_is_written_before_it_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    def released() -> str:
        _output.RELEASED.set(". This release is in model")
        return "done"

    monkeypatch.setattr("sys.stdout", None)  # closed: nobody wants to read
    assert _output.one_line_errors(released)() == "done"
    monkeypatch.setattr("sys.stdout", Full())
    with pytest.raises(typer.Exit) as ended:
        _output.one_line_errors(released)()
    assert ended.value.exit_code == 1
    assert "standard output could not be written" in capsys.readouterr().err
    with pytest.raises(typer.Exit) as ended:
        _output.one_line_errors(lambda: None)()
    assert ended.value.exit_code == 2  # it said "[Errno 28] No space left on device" alone
    assert capsys.readouterr().err == "error: standard output could not be written (No space left on device)\n"


def test_a_full_disk_is_told_by_the_name_of_the_file(
    run: Any, toml: Path, fitted_folder: Path, public_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "[Errno 28] No space left on device" alone."""
    table(tmp_path, "1,red,no\n9,blue,yes\n")
    predict = ("predict", fitted_folder, public_files / "test.csv", "--output", "p.csv")
    for words, name in (
        (predict, "p.csv"),
        (("schema", "draft", "t.csv", "--output", "d.toml"), "d.toml"),
        (("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1), "what a budget paid is spent"),
    ):
        monkeypatch.setattr("os.fsync", failing(OSError(28, "No space left on device"), None))
        result = run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "No space left on device" in result.stderr
        assert name in result.stderr
        assert ".partial" not in result.stderr
        assert leftovers(tmp_path) == set()
    monkeypatch.setattr("dpconvex.cli.fit.write_csv", failing(OSError(28, "No space left on device"), None))
    result = run(*predict[:-2])
    assert result.exit_code == 2
    assert result.stderr == "error: standard output could not be written (No space left on device)\n"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "ctrl-c"])
@pytest.mark.parametrize("where", ["dpconvex.cli.report.write_report", "dpconvex.save_model", "os.rename"])
@pytest.mark.thin
def test_a_failing_write_leaves_everything_as_it_was(
    run: Any, toml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException
) -> None:
    table(tmp_path, "1,red,no\n9,blue,yes\n")
    words = ("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1)
    assert run(*words).exit_code == 0
    before = {each.name: each.read_bytes() for each in (tmp_path / "model").iterdir()}
    monkeypatch.setattr(where, failing(error, os.rename if where == "os.rename" else None))
    for more in (("--force",), ("--out", "new")):
        result = run(*words, *more)
        assert result.exit_code != 0
        if isinstance(error, OSError):  # it said "[Errno 28] No space left on device" alone
            assert "could not be written (No space left on device)" in result.stderr
            assert "what a budget paid is spent" in result.stderr
        assert {each.name: each.read_bytes() for each in (tmp_path / "model").iterdir()} == before
        assert leftovers(tmp_path) == {"model"}


def failing(error: BaseException, rename: Callable[[Any, Any], None] | None) -> Callable[..., None]:
    """Return a function that raises; for `os.rename` only where the new folder takes its place."""

    def fail(*args: Any) -> None:
        if rename is not None and (str(args[0]).endswith(".old") or str(args[1]).endswith(".old")):
            rename(args[0], args[1])
            return
        raise error

    return fail


def test_interrupting_the_fit_leaves_nothing(
    run: Any, toml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path, "1,red,no\n")
    Budget.create(tmp_path / "own.json", 3)
    for error, code in ((KeyboardInterrupt(), 130), (SystemExit(143), 143)):
        monkeypatch.setattr(PrivateLogisticRegression, "fit", failing(error, None))
        result = run("fit", "t.csv", "--schema", "s.toml", "--epsilon", 1, "--budget", "own.json")
        assert (result.exit_code, result.stderr) == (code, "Aborted. Epsilon 1 stays charged to own.json.\n")
    assert leftovers(tmp_path) <= {"own.json", "own.json.lock"}


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--rows", 0, "--features", 3, "--epsilon", 1),
        ("plan", "--rows", 10, "--epsilon", 1),
        ("plan", "--rows", 10, "--features", 3, "--schema", "s.toml", "--epsilon", 1),
        ("plan", "--rows", 10, "--schema", "s.toml", "--feature-norm", 1, "--epsilon", 1),
        ("plan", "--rows", 10, "--features", 0, "--epsilon", 1),
        ("plan", "--rows", 10, "--features", 3, "--epsilon", 0),
        ("plan", "--rows", 10, "--features", 3, "--epsilon", 1, "--classes", 1),
        ("plan", "--rows", 10, "--features", 3, "--epsilon", 1, "--model", "magic"),
        ("plan", "--rows", 10, "--features", 3, "--epsilon", 1, "--feature-norm", 0),
        ("verify", "absent.json"),
        ("predict", "absent", "t.csv"),
        ("predict", "t.csv", "t.csv"),
        ("schema", "show", "absent.toml"),
        ("schema", "draft", "absent.csv"),
        ("schema", "draft", "t.csv", "--output", "no/such/folder.toml"),
        ("schema", "draft", "t.csv", "--target", "z"),
        ("demo", "--quick", "--out", "no/such/folder"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_other_commands_refuse_in_one_line(run: Any, toml: Path, tmp_path: Path, words: tuple[Any, ...]) -> None:
    table(tmp_path, "1,red,no\n")
    refused(run(*words), tmp_path)


def test_predict_refuses_in_one_line(run: Any, toml: Path, tmp_path: Path, fitted_folder: Path) -> None:
    table(tmp_path, "1,red,no\n")
    refused(run("predict", fitted_folder, "t.csv"), tmp_path)
    refused(run("predict", fitted_folder, "t.csv", "--output", "no/such/file.csv"), tmp_path)


def test_fit_plans_once_for_the_fit_and_once_for_every_epsilon_drawn(run: Any, public_files: Path) -> None:
    words = ("fit", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 1.75)
    plans.cache_clear()
    assert run(*words).exit_code == 0
    assert plans.cache_info().misses <= 1 + len(CAPS) + GRID[2]  # the loss and its surrogates; then the figure


def few_columns(public_files: Path, folder: Path) -> Path:
    """Adult's schema with four columns."""
    parts = re.split(r"(?m)^(?=\[)", (public_files / "adult.toml").read_text())
    names = ("age", "education-num", "hours-per-week", "sex")
    few = [part for part in parts if not part.startswith("[columns") or any(f".{name}]" in part for name in names)]
    (folder / "few.toml").write_text("".join(few))
    return folder / "few.toml"


@pytest.mark.gate
def test_inference_prints_intervals_and_keeps_them_with_the_model(run: Any, public_files: Path, tmp_path: Path) -> None:
    toml = few_columns(public_files, tmp_path)
    result = run("fit", public_files / "train.csv", "--schema", toml, "--epsilon", 3, "--inference", "--out", "m")
    assert result.exit_code == 0, result.output
    assert all(word in result.stdout for word in ("std err", "P>|z|", "(intercept)", "epsilon 3"))
    model: Any = load_model(tmp_path / "m" / "model.skops")
    assert str(model.summary()).splitlines()[2] in (tmp_path / "m" / "report.html").read_text().replace("&gt;", ">")
    assert verify(tmp_path / "m").passed
    wide = json.loads(run("intervals", "m", "--level", 0.99, "--joint", "--json").stdout)["rows"]["age"]
    found = dict(zip(model.summary().names, model.conf_int(), strict=True))["age"]
    lower, upper = wide["lower"] or -math.inf, wide["upper"] or math.inf  # null: noise hides that end
    assert lower <= found[0] < found[1] <= upper
    assert "[0.005" in run("intervals", "m", "--level", 0.99).stdout
    assert run("fit", public_files / "train.csv", "--schema", toml, "--epsilon", 3, "--out", "k").exit_code == 0
    assert run("intervals", "k").stderr.startswith("error: no --inference: is not paid for: ")
    assert run("intervals", "k").stderr.endswith("Fit with --inference\n")


def test_inference_is_in_the_json_and_refused_where_it_is_not_offered(
    run: Any, public_files: Path, tmp_path: Path
) -> None:
    toml = few_columns(public_files, tmp_path)
    planned = run("plan", "--rows", 9_000, "--schema", toml, "--epsilon", 3, "--inference").stdout
    assert all(
        words in " ".join(planned.split()) for words in ("4 of 4", "A forecast, for levels and classes (see rates)")
    )
    words = ("fit", public_files / "train.csv", "--schema", toml, "--epsilon", 3, "--inference")
    rows = json.loads(run(*words, "--json").stdout)["intervals"]["rows"]
    assert set(rows) == {"(intercept)", "age", "education-num", "hours-per-week", "sex=Male"}
    refused = run(*words[:3], public_files / "adult.toml", *words[4:], "--out", "n")
    assert refused.exit_code == 2
    assert "at most 40 encoded columns" in refused.stderr
    assert run(*words, "--model", "svc", "--out", "n").exit_code == 2


def test_added_records_are_asked_for_with_a_declared_number(run: Any, public_files: Path) -> None:
    """Also of users; a plan without data says what the fit will promise, and the budget is for that relation."""
    wanted = ("--neighbors", "add_or_remove_one")
    fit = ("fit", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 2, "--json")
    assert run("budget", "create", "b.json", "--epsilon", 5, "--delta", 1e-5, *wanted).exit_code == 0
    for more, word in (
        (wanted, "error: --rows"),
        (("--rows", 700), "add_or_remove_one"),
        ((*wanted, "--rows", 700, "--engine", "local"), "engine='local'"),
        ((*wanted, "--rows", 700, "--holdout", 0.2, "--evaluate", 1), "neighbors"),
        ((*wanted, "--rows", 700, "--ranges", "private"), "ranges"),
        (("--budget", "b.json"), "is for --neighbors add_or_remove_one"),
    ):
        refused = run(*fit, *more)
        assert refused.exit_code == 2
        assert word in refused.stderr
    result = run(*fit, *wanted, "--rows", 700, "--budget", "b.json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["certificate"]["public"]["declared_n"] == 700
    assert printed["certificate"]["target"]["neighboring"] == "add_or_remove_one"
    assert "Adding or removing" in Path("model/report.html").read_text()
    assert run("verify", "model").exit_code == 0
    plan = ("plan", "--schema", public_files / "adult.toml", "--epsilon", 2, "--json", *wanted)
    algorithms = {one["algorithm"] for one in json.loads(run(*plan, "--rows", 700).stdout)["plans"]}
    assert algorithms == {"objective_perturbation"}
    of_users = json.loads(run(*plan, "--users", 700, "--delta", 1e-6).stdout)["plans"]
    assert {one["algorithm"] for one in of_users} == {"objective_perturbation", "noisy_gradient", "informed_gradient"}
