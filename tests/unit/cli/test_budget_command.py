"""``dpconvex budget`` and ``--budget``: paid before the data are read, refused before the data are read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import dpconvex
from dpconvex import adult_schema, read_table
from dpconvex.cli import fit, median, synthesize
from dpconvex.errors import BudgetFileError
from dpconvex.privacy import Budget, PrivacyCertificate, PrivacyParams

COLUMNS = ("age", "hours-per-week")


def words(command: str, files: Path, table: str = "train.csv") -> list[Any]:
    """A quick run of every command that spends."""
    schema = ["--schema", files / "adult.toml", "--epsilon", 1]
    own: dict[str, list[Any]] = {
        "fit": ["fit", files / table, *schema],
        "fit-sparse": ["fit-sparse", files / table, *schema],
        "fit-sparse groups": ["fit-sparse", files / table, *schema, "--group-column", "sex"],
        "median": ["median", files / table, "--epsilon", 1, "--radius-bound", 200],
        "synthesize": ["synthesize", files / table, *schema, "--order", 1],
        "game": ["game", files / table, "--epsilon", 1, "--form", "rank_one", "--shape", "12x3"],
    }
    coordinates = [word for name in COLUMNS for word in ("--column", name)]
    more = {"median": coordinates, "synthesize": ["--column", "sex", "--column", "race"]}
    return [*own[command], *more.get(command, []), "--out", "out"]


EVERY = pytest.mark.parametrize("command", ["fit", "fit-sparse", "fit-sparse groups", "median", "synthesize", "game"])


@pytest.fixture
def budget(run: Any, tmp_path: Path) -> Path:
    """A budget of epsilon 1.5 in the folder where commands run."""
    made = run("budget", "create", "budget.json", "--epsilon", 1.5, "--delta", 1e-5, "--data", "census")
    assert made.exit_code == 0, made.output
    assert "--budget budget.json" in made.stdout
    return tmp_path / "budget.json"


def shown(run: Any) -> dict[str, Any]:
    result = run("budget", "show", "budget.json", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@EVERY
@pytest.mark.thin
def test_a_paid_release_is_not_lost_where_no_note_of_it_is_taken(
    run: Any, public_files: Path, budget: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any) -> None:
        raise BudgetFileError("the disk is full")

    monkeypatch.setattr(Budget, "released", fails)
    done = run(*words(command, public_files), "--budget", budget)
    assert done.exit_code == 0, done.output
    assert "warning: budget.json took no note of the certificate of line 1" in done.stderr
    certificate = PrivacyCertificate.from_json((tmp_path / "out" / "certificate.json").read_text())
    assert certificate.budget == "line 1 of budget.json"


@EVERY
@pytest.mark.thin
def test_a_run_is_paid_once_with_the_promise_of_its_certificate(
    run: Any, public_files: Path, budget: Path, tmp_path: Path, command: str
) -> None:
    done = run(*words(command, public_files), "--budget", budget)
    assert done.exit_code == 0, done.output
    (line,) = shown(run)["spent"]
    target = PrivacyCertificate.from_json((tmp_path / "out" / "certificate.json").read_text()).target
    assert (float(line["epsilon"]), float(line["delta"])) == (target.epsilon, target.delta)
    assert line["what"].startswith(command.split()[0])
    assert "train.csv" in line["what"]
    assert shown(run)["left"]["epsilon"] == "0.5"
    if command == "fit":
        told = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
        assert "budget.json: epsilon 1.5, delta 1e-5 before; epsilon 0.5, delta 1e-5 after" in told


@pytest.mark.parametrize(
    ("more", "rows", "what"),
    [
        (("fit",), 0, "empty.parquet: holds no records; at least 1 is needed"),
        (("fit", "--algorithm", "recentering"), 700, "here n \\* epsilon is 700"),
        (("search", "--over", "algorithm=recentering,output_perturbation"), 1, "n=1"),
        (("synthesize",), 0, "holds no records"),
        (("median", "--column", "age", "--radius-bound", "100"), 1, "n=1: must be an integer >= 20"),
    ],
)
def test_rows_that_parquet_files_state_are_asked_about_before_a_run_pays(
    run: Any, public_files: Path, budget: Path, more: tuple[str, ...], rows: int, what: str
) -> None:
    table = read_table(public_files / "train.csv", adult_schema()).slice(0, rows)
    pq.write_table(table, "empty.parquet")
    schema = () if more[0] == "median" else ("--schema", public_files / "adult.toml")
    refused = run(more[0], "empty.parquet", "--epsilon", 1, *schema, *more[1:], "--budget", budget)
    assert refused.exit_code == 2, refused.output
    assert re.search(what, " ".join(refused.stderr.split())), refused.stderr
    assert shown(run)["spent"] == []


def forbid(monkeypatch: pytest.MonkeyPatch, act: Callable[..., Any]) -> None:
    """Replace every reader of private tables."""
    from dpconvex import data

    for module in (dpconvex, data, median, synthesize, fit):
        monkeypatch.setattr(module, "read_table", act, raising=False)


@EVERY
def test_a_run_that_would_exceed_it_is_refused_before_data_are_read(
    run: Any, public_files: Path, budget: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*given: Any, **more: Any) -> Any:
        raise AssertionError("data were read")

    forbid(monkeypatch, read)
    Budget(budget).spend(PrivacyParams(1.0), "before")
    before = budget.read_bytes()
    refused = run(*words(command, public_files), "--budget", budget)
    assert refused.exit_code == 2, refused.output
    assert "has epsilon 0.5 and delta 1e-5 left" in refused.stderr
    assert budget.read_bytes() == before
    assert not (tmp_path / "out").exists()


@EVERY
def test_it_is_paid_when_the_data_are_read(
    run: Any, public_files: Path, budget: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def read(*given: Any, **more: Any) -> Any:
        seen.append(len(Budget(budget).account().spent))
        raise OSError("the disk went away")

    forbid(monkeypatch, read)
    run(*words(command, public_files), "--budget", budget)
    assert seen == [1]


@pytest.mark.thin
@EVERY
@pytest.mark.parametrize("trouble", ["no file", "no column", "name", "seed", "no budget", "output"])
def test_what_can_be_known_before_costs_nothing(
    run: Any, public_files: Path, budget: Path, tmp_path: Path, command: str, trouble: str
) -> None:
    pacsv.write_csv(pa.table({"other": [1, 2]}), tmp_path / "narrow.csv")
    (tmp_path / "table.txt").write_text("age\n1\n")
    given = words(command, public_files)
    table, extra = public_files / "train.csv", []
    if trouble == "no file":
        table = tmp_path / "nothing.csv"
    elif trouble == "no column":
        table = tmp_path / "narrow.csv"
    elif trouble == "name":
        table = tmp_path / "table.txt"
    elif trouble == "seed":
        extra = ["--seed", 1]
    elif trouble == "output":
        (tmp_path / "out").write_text("a file")
    given = [table if word == public_files / "train.csv" else word for word in given]
    file = "nothing.json" if trouble == "no budget" else budget
    refused = run(*given, *extra, "--budget", file)
    assert refused.exit_code == 2, refused.output
    assert shown(run)["spent"] == []


def test_a_table_without_a_readable_header_costs_nothing(
    run: Any, public_files: Path, budget: Path, tmp_path: Path
) -> None:
    for name, content in (("cut.parquet", b"PAR1 and no footer"), ("empty.csv", b"")):
        (tmp_path / name).write_bytes(content)
        given = [tmp_path / name if word == public_files / "train.csv" else word for word in words("fit", public_files)]
        refused = run(*given, "--budget", budget)
        assert refused.exit_code == 2
        assert "could not be parsed" in refused.stderr
    assert shown(run)["spent"] == []


def test_a_table_of_wrong_types_costs_nothing(run: Any, public_files: Path, budget: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    given = [file if word == public_files / "train.csv" else word for word in words("fit", public_files)]
    table = pacsv.read_csv(public_files / "train.csv")
    for name, column in (("age", pa.array([[1.0]] * len(table))), ("income", pa.array([1] * len(table)))):
        changed = table.drop_columns([name]).append_column(name, column)
        pq.write_table(changed, file)
        refused = run(*given, "--budget", budget)
        assert refused.exit_code == 2
        assert f"column '{name}' has type" in refused.stderr
    assert shown(run)["spent"] == []


def test_what_fails_once_it_is_paid_says_that_it_stays_charged(run: Any, public_files: Path, budget: Path) -> None:
    header = (public_files / "train.csv").read_text().splitlines()[0]
    (budget.parent / "header.csv").write_text(header + "\n")
    given = ("fit", budget.parent / "header.csv", "--schema", public_files / "adult.toml", "--epsilon", 0.25)
    failed = run(*given, "--budget", budget)
    assert failed.exit_code == 2
    assert failed.stderr.endswith("Epsilon 0.25 stays charged to budget.json\n")
    assert len(shown(run)["spent"]) == 1
    assert "stays charged" not in run(*given).stderr


def test_users_and_records_have_budgets_of_their_own(run: Any, public_files: Path, budget: Path) -> None:
    given = words("median", public_files)
    refused = run(*given, "--user-column", "fnlwgt", "--budget", budget)
    assert refused.exit_code == 2
    assert "unit='user'" in refused.stderr
    made = run("budget", "create", "users.json", "--epsilon", 1, "--delta", 1e-5, "--unit", "user")
    assert made.exit_code == 0, made.output
    done = run(*given, "--user-column", "fnlwgt", "--budget", "users.json")
    assert done.exit_code == 0, done.output


def test_the_table_shows_every_run_and_what_is_left(run: Any, budget: Path) -> None:
    Budget(budget).spend(PrivacyParams(0.5, 1e-6), "a model with a [bold] name")
    with open(budget, "a") as file:
        file.write('{"epsilon": 0.25, "delta": 0.0, "ti')
    result = run("budget", "show", "budget.json")
    assert result.exit_code == 0, result.output
    for part in ("census", "1.5", "a model with a [bold] name", "0.25", "left", "0.75", "9e-6", "1 line(s)"):
        assert part in result.stdout
    facts = shown(run)
    assert facts["left"] == {"epsilon": "0.75", "delta": "9e-6"}
    assert facts["unreadable_lines"] == 1
    assert [line["whole"] for line in facts["spent"]] == [True, False]


def test_errors_are_one_line(run: Any, budget: Path) -> None:
    for given in (
        ("create", "budget.json", "--epsilon", 1),
        ("create", "new.json", "--epsilon", -1),
        ("create", "new.json", "--epsilon", 1, "--unit", "row"),
        ("show", "nothing.json"),
    ):
        result = run("budget", *given)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1


@EVERY
@pytest.mark.thin
def test_a_certificate_names_its_line_and_the_line_its_certificate(
    run: Any, public_files: Path, budget: Path, tmp_path: Path, command: str
) -> None:
    Budget(budget).spend(PrivacyParams(0.25), "another run")
    done = run("--who", "A. Ito", *words(command, public_files), "--budget", budget)
    assert done.exit_code == 0, done.output
    certificate = PrivacyCertificate.from_json((tmp_path / "out" / "certificate.json").read_text())
    assert certificate.budget == "line 2 of budget.json"
    entry = shown(run)["spent"][1]
    assert entry["who"] == "A. Ito"
    assert entry["certificate"] == certificate.to_dict()["digest"]
    assert entry["model"] == (certificate.model or "")
    assert run("verify", "out").exit_code == 0
    assert shown(run)["spent"][0]["who"] == ""  # never asked of the system


def test_a_page_shows_the_year(run: Any, tmp_path: Path) -> None:
    made = run("budget", "create", "year.json", "--epsilon", 2, "--renews", 12, "--begins", "2025-01-01")
    assert made.exit_code == 0, made.output
    Budget(tmp_path / "year.json").spend(PrivacyParams(0.5), "model of <stays>", "A. Ito")
    done = run("budget", "show", "year.json", "--html", "year.html")
    assert done.exit_code == 0, done.output
    assert "does not come back" in " ".join(done.stdout.split())
    page = (tmp_path / "year.html").read_text()
    for part in ("<svg", "A. Ito", "&lt;stays&gt;", "Epsilon 1.5 of 2.0 is left", "does not come back"):
        assert part in page
    assert "http" not in page.replace("http://www.w3.org", "")
    refused = run("budget", "show", "year.json", "--html", "year.json")
    assert refused.exit_code == 2
    assert "html=" in refused.stderr
