"""Users on the command line: --user-column, --users and --records-per-user."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dpconvex.cli.main import app

SCHEMA = """
confirmed = true

[target]
name = "y"
classes = ["no", "yes"]

[columns.a]
lower = -1
upper = 1
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    users, a = rng.integers(0, 40, 300), rng.uniform(-1, 1, 300)
    users[:40] = np.arange(40)
    lines = [f"{x},{'yes' if x > 0 else 'no'},u{u}" for x, u in zip(a.tolist(), users.tolist(), strict=True)]
    (tmp_path / "data.csv").write_text("a,y,who\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fit(folder, *more):
    files = (folder / "data.csv", "--schema", folder / "schema.toml", "--out", folder / "model")
    return run("fit", *files, "--epsilon", 2, *more)


def test_a_user_column_protects_users(folder) -> None:
    result = fit(folder, "--user-column", "who", "--records-per-user", 3)
    assert result.exit_code == 0, result.output
    assert "Plans for 40 users" in result.output
    assert "records per user 3" in result.output
    certificate = json.loads((folder / "model" / "certificate.json").read_text(encoding="utf-8"))
    assert certificate["target"]["unit"] == "user"
    assert certificate["public"]["records_per_user"] == 3
    report = (folder / "model" / "report.html").read_text(encoding="utf-8")
    assert "Replacing everything that one person contributed" in report
    assert run("verify", folder / "model" / "certificate.json").exit_code == 0
    (folder / "new.csv").write_text("a\n0.5\n", encoding="utf-8")
    assert run("predict", folder / "model", folder / "new.csv").exit_code == 0


def test_an_evaluation_for_users_names_the_model_as_it_was_fitted(folder) -> None:
    assert fit(folder).exit_code == 0
    given = ("evaluate", folder / "model", folder / "data.csv", "--epsilon", 1, "--out", folder / "later")
    assert run(*given, "--user-column", "who").exit_code == 0
    first, later = (json.loads((folder / each / "certificate.json").read_text()) for each in ("model", "later"))
    assert (later["target"]["unit"], later["model"]) == ("user", first["model"])


@pytest.mark.gate
def test_a_typical_number_of_records_is_found_privately(folder) -> None:
    result = fit(folder, "--user-column", "who", "--records-per-user", "private", "--delta", 1e-6)
    assert result.exit_code == 0, result.output
    assert "(found)" in " ".join(result.output.split())
    report = (folder / "model" / "report.html").read_text(encoding="utf-8")
    assert "weight of every user" in report
    assert "1/40" in report
    assert run("verify", folder / "model" / "certificate.json").exit_code == 0
    asked = ("plan", "--users", 400, "--features", 3, "--epsilon", 1, "--records-per-user", "private")
    assert "(not yet; declared ranges are not narrowed)" in " ".join(run(*asked).output.split())
    for wrong in ("many", "2.5"):
        assert run(*asked[:-1], wrong).exit_code == 2
    assert run("plan", "--rows", 400, *asked[3:]).exit_code == 2


def test_a_schema_can_name_the_users_and_the_test_file_needs_none(folder) -> None:
    (folder / "schema.toml").write_text('user = "who"\n' + SCHEMA, encoding="utf-8")
    (folder / "test.csv").write_text("a,y\n0.5,yes\n-0.5,no\n", encoding="utf-8")
    result = fit(folder, "--test", folder / "test.csv", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["certificate"]["target"]["unit"] == "user"


def test_a_missing_user_column_is_named(folder) -> None:
    result = fit(folder, "--user-column", "nobody")
    assert result.exit_code == 2
    assert "nobody" in result.stderr


def test_plans_show_how_the_error_falls_with_users() -> None:
    asked = ("plan", "--users", 400, "--features", 3, "--epsilon", 1, "--records-per-user", 20)
    table = run(*asked)
    assert table.exit_code == 0, table.output
    assert "Plans for 400 users" in table.output
    assert "by users" in table.output
    facts = json.loads(run(*asked, "--json").stdout)
    assert (facts["users"], facts["records_per_user"]) == (400, 20)
    scaling = facts["scaling"]
    assert [row[0]["users"] for row in scaling] == [100, 400, 1600]
    assert [cell["records_per_user"] for cell in scaling[0]] == [1, 10, 20, 100]
    for column in zip(*scaling, strict=True):
        bounds = [cell["excess_loss_bound"] for cell in column]
        assert bounds == sorted(bounds, reverse=True)
    assert scaling[1][2]["excess_loss_bound"] == facts["plans"][0]["excess_loss_bound"]


@pytest.mark.parametrize("counts", [(), ("--rows", 10, "--users", 10)])
def test_plans_are_for_rows_or_users(counts) -> None:
    result = run("plan", *counts, "--features", 3, "--epsilon", 1)
    assert result.exit_code == 2
    assert "--users" in result.stderr


def test_a_schema_that_names_users_is_never_read_as_records(folder) -> None:
    named = folder / "named.toml"
    named.write_text('user = "who"\n' + SCHEMA, encoding="utf-8")
    assert "Users who: all rows of a user" in run("schema", "show", named).output
    for command in ("plan", "fit-sparse", "synthesize"):
        result = run(command, "--schema", named, "--epsilon", 1, "--rows", 300)
        assert result.exit_code == 2, command
        assert "user" in result.stderr, command
    for command in ("plan", "synthesize"):
        assert run(command, "--schema", named, "--epsilon", 1, "--users", 40).exit_code == 0
    result = run("fit-sparse", folder / "data.csv", "--schema", named, "--epsilon", 1, "--out", folder / "refused")
    assert result.exit_code == 2
    assert "single rows only" in result.stderr
    assert not (folder / "refused").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--user-column", "a"), "user_column='a'"),
        (("--user-column", "y"), "user_column='y'"),
        (("--user-column", "whom"), "has no column 'whom'"),
        (("--records-per-user", 3), "records_per_user=3: is for users"),
    ],
)
def test_mistakes_about_users_are_named(folder, more, said) -> None:
    result = fit(folder, *more)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (folder / "model").exists()


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((), "--rows: must be given"),
        (("--users", 0), "users=0"),
        (("--rows", 10, "--users", 10), "cannot be combined"),
        (("--rows", 10, "--records-per-user", 2), "records_per_user=2: is for users"),
    ],
)
def test_a_plan_says_what_it_counts(folder, counts, said) -> None:
    result = run("plan", "--schema", folder / "schema.toml", "--epsilon", 1, *counts)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_draft_names_the_users_column(folder) -> None:
    words = ("schema", "draft", folder / "data.csv", "--target", "y")
    assert '# user = "..."' in run(*words).output
    draft = run(*words, "--user-column", "who").output
    assert 'user = "who"\n' in draft
    assert "columns.who" not in draft
    assert run(*words, "--user-column", "y").exit_code == 2
    assert run(*words, "--user-column", "whom").exit_code == 2


def test_a_file_without_records_says_so(folder) -> None:
    (folder / "data.csv").write_text("a,y,who\n", encoding="utf-8")
    result = fit(folder, "--user-column", "who")
    assert result.exit_code == 2
    assert "holds no records" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--features", 2),
        ("median", "--features", 2, "--radius-bound", 1),
        ("fit-sparse", "--schema", "schema.toml"),
        ("synthesize", "--schema", "schema.toml"),
    ],
)
def test_no_rows_are_refused_by_the_name_of_the_option(folder, monkeypatch, words) -> None:
    monkeypatch.chdir(folder)
    result = run(*words, "--epsilon", 1, "--rows", 0)
    assert result.exit_code == 2
    assert "rows=0: must be an integer >= 1" in result.stderr
