"""``dpconvex synthesize``: a table in, a table and a certificate out; plans without data; errors of one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from dpconvex import PrivateSyntheticData, Schema, read_table

CHOSEN = ("--column", "sex", "--column", "income", "--column", "age", "--edges", "age=17,30,50,90")


def words(folder: Path, *more: Any) -> tuple[Any, ...]:
    return ("synthesize", folder / "train.csv", "--schema", folder / "adult.toml", "--epsilon", 2, *CHOSEN, *more)


def test_it_writes_what_the_estimator_draws(run: Any, public_files: Path) -> None:
    result = run(*words(public_files, "--seed", 3, "--size", 400))
    assert result.exit_code == 0, result.output
    drawn = pacsv.read_csv("synthetic/synthetic.csv")
    assert drawn.column_names == ["sex", "income", "age"]
    schema = Schema.from_toml(public_files / "adult.toml")
    model = PrivateSyntheticData(
        2.0, schema=schema, columns=drawn.column_names, bins={"age": (17, 30, 50, 90)}, random_state=3
    ).fit(read_table(public_files / "train.csv", schema))
    assert drawn["sex"].to_pylist() == model.sample(400, 3)["sex"].to_pylist()
    assert "NOT PRIVATE" in result.stdout
    assert "Missing cells" in result.stdout
    assert run("verify", "synthetic").exit_code == 1  # seeded
    assert run(*words(public_files, "--seed", 3)).exit_code == 2  # the folder exists
    assert run(*words(public_files, "--seed", 3, "--force")).exit_code == 0


def test_many_combinations_are_a_power_of_ten(run: Any) -> None:
    """74 columns of a public table had a number of 97 digits in the title."""
    levels = ["a", "b", "c", "d", "e", "f"]
    columns = "".join(f"[columns.c{k}]\ncategories = {levels}\n" for k in range(20))
    Path("wide.toml").write_text(f"confirmed = true\n{columns}")
    result = run("synthesize", "--schema", "wide.toml", "--rows", 1000, "--epsilon", 1)
    assert result.exit_code == 0, result.output
    assert "over 10^15" in result.stdout.replace("\n", " ")


@pytest.mark.parametrize("more", [("--order", 3), ("--algorithm", "query_noise"), ("--algorithm", "mwem")])
def test_tables_that_are_not_measured_have_a_page_too(run: Any, public_files: Path, more: tuple[Any, ...]) -> None:
    """The page of all methods but those of noisy tables failed, after the payment, and nothing was written."""
    result = run(*words(public_files, "--delta", 1e-6, *more))
    assert result.exit_code == 0, result.output
    assert "The records are to answer" in Path("synthetic/report.html").read_text()


def test_what_is_no_pair_is_refused_with_an_example(run: Any, public_files: Path) -> None:
    result = run(*words(public_files, "--impossible", "sex"))
    assert result.exit_code == 2
    assert "must be pairs: sex=Male" in result.stderr


def test_a_page_that_fails_does_not_cost_the_release(run: Any, public_files: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("dpconvex.cli.synthesize._write_report", lambda *_: 1 / 0)
    result = run(*words(public_files))
    assert result.exit_code == 0, result.output
    assert "report.html could not be made (ZeroDivisionError" in result.stderr
    assert {path.name for path in Path("synthetic").iterdir()} == {"synthetic.csv", "certificate.json"}
    assert "Wrote synthetic.csv and certificate.json to" in result.stdout  # no page that does not exist


def test_a_private_run_verifies(run: Any, public_files: Path) -> None:
    result = run(*words(public_files, "--json", "--out", "elsewhere"))
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["files"] == [f"elsewhere/{name}" for name in ("synthetic.csv", "certificate.json", "report.html")]
    assert printed["plan"]["public"]["cells"] == 12
    assert printed["missing_counted_as"] == {"sex": "Female", "income": "<=50K", "age": "30 to 49"}
    assert "age as 30 to 49" in Path("elsewhere/report.html").read_text()
    drawn = pacsv.read_csv("elsewhere/synthetic.csv")["age"]
    assert drawn.type == pa.int64()
    assert run("verify", "elsewhere").exit_code == 0


def test_all_rows_of_a_user_are_protected_together(run: Any, public_files: Path) -> None:
    """The schema's user column or the option; plans are for a number of users."""
    schema, table = (public_files / "adult.toml").read_text(), pacsv.read_csv(public_files / "train.csv")
    Path("owned.toml").write_text(f'user = "who"\n{schema}')
    who = pa.array([f"person {k % 90}" for k in range(len(table))])
    pacsv.write_csv(table.append_column("who", who), "owned.csv")
    given = ("--schema", public_files / "adult.toml", "--epsilon", 2, *CHOSEN, "--user-column", "who", "--json")
    result = run("synthesize", "owned.csv", *given)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["certificate"]["target"]["unit"] == "user"
    assert printed["plan"]["public"]["n"] == 90 == pacsv.read_csv("synthetic/synthetic.csv").num_rows
    assert "90 users" in Path("synthetic/report.html").read_text()
    assert run("verify", "synthetic").exit_code == 0
    owned = ("synthesize", "--schema", "owned.toml", "--epsilon", 2, *CHOSEN, "--users", 90)
    assert "90 users" in run(*owned).stdout
    assert json.loads(run(*owned, "--json").stdout)["users"] == 90
    assert run("synthesize", "owned.csv", *given, "--engine", "local", "--force").exit_code == 0
    assert run("verify", "synthetic").exit_code == 0
    assert "user_column" in run("synthesize", "owned.csv", *given[:-2], "age", "--force").stderr
    assert run(*owned, "--algorithm", "mwem").exit_code == 2
    both = run("synthesize", "owned.csv", *given[:-1], "--rows", 90)
    assert "rows=90: is for a plan without data" in both.stderr


def test_added_records_are_asked_for_with_a_declared_number(run: Any, public_files: Path) -> None:
    wanted = ("--neighbors", "add_or_remove_one")
    assert run("budget", "create", "other.json", "--epsilon", 5, "--delta", 1e-5).exit_code == 0
    assert run("budget", "create", "b.json", "--epsilon", 5, "--delta", 1e-5, *wanted).exit_code == 0
    refused = run(*words(public_files, *wanted))
    assert refused.exit_code == 2
    assert "rows" in refused.stderr
    wanted += ("--rows", 700)
    assert run(*words(public_files, *wanted, "--engine", "local")).exit_code == 2
    refused = run(*words(public_files, *wanted, "--budget", "other.json"))
    assert refused.exit_code == 2
    assert "is for --neighbors replace_one" in refused.stderr
    result = run(*words(public_files, *wanted, "--json", "--budget", "b.json"))
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["plan"]["public"]["declared_n"] == 700
    assert printed["certificate"]["target"]["neighboring"] == "add_or_remove_one"
    assert pacsv.read_csv("synthetic/synthetic.csv").num_rows == 700
    assert "700 records were declared" in Path("synthetic/report.html").read_text()
    assert run("verify", "synthetic").exit_code == 0
    assert run(*words(public_files, "--budget", "b.json", "--force")).exit_code == 2
    plans = run("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 1, *CHOSEN, *wanted, "--json")
    assert {one["algorithm"] for one in json.loads(plans.stdout)["plans"]} == {"noisy_tables"}


def test_a_plan_reads_no_data(run: Any, public_files: Path) -> None:
    plan = ("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 1, *CHOSEN, "--rows", 5000)
    listed = json.loads(run(*plan, "--json").stdout)
    assert (listed["rows"], listed["epsilon"], listed["delta"]) == (5000, 1.0, 1e-6)
    assert {one["algorithm"] for one in listed["plans"]} >= {"noisy_tables", "query_noise", "mwem"}
    shown = run(*plan)
    assert shown.exit_code == 0
    assert "the largest error" in shown.stdout
    assert {one["algorithm"]: one["bound_is_proved"] for one in listed["plans"]}["mwem"] is False
    assert all(one["largest_error_bound"] > 0 for one in listed["plans"])
    assert "estimate" in shown.stdout


def test_an_error_of_the_whole_range_is_hopeless(run: Any, public_files: Path) -> None:
    plan = ("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 1e-5, *CHOSEN, "--rows", 500)
    assert run(*plan).stderr.startswith("warning: epsilon=1e-05: a fit by noisy_tables is hopeless: ")
    chosen = json.loads(run(*plan, "--json").stdout)["plans"][0]
    assert chosen["hopeless"]
    assert chosen["expected_largest_error"] > 0.9 * chosen["yardstick"]


def test_plans_stand_in_the_order_of_what_they_expect(run: Any, public_files: Path) -> None:
    plan = ("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 1, *CHOSEN, "--rows", 5000)
    plans = json.loads(run(*plan, "--json").stdout)["plans"]
    # For pairs of columns these come first, whatever the others expect.
    assert {one["algorithm"] for one in plans[:2]} == {"noisy_tables", "noisy_tree"}
    expected = [one["expected_largest_error"] for one in plans[2:]]
    assert expected == sorted(expected)


def test_a_chosen_forest_is_reported(run: Any, public_files: Path) -> None:
    fit = ("synthesize", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 20)
    result = run(*fit, "--delta", 0, "--algorithm", "noisy_tree", *CHOSEN)
    assert result.exit_code == 0, result.stderr
    page = Path("synthetic/report.html").read_text(encoding="utf-8")
    assert "pairs were chosen privately" in page
    assert run("verify", "synthetic").exit_code == 0


def test_a_good_synthetic_plan_warns_of_nothing(run: Any, public_files: Path) -> None:
    plan = ("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 1, *CHOSEN, "--rows", 5000)
    assert run(*plan).stderr == ""
    assert not Path("synthetic").exists()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--rows", 100), "rows"),
        (("--edges", "age=a,b"), "edges"),
        (("--edges", "sex=1,2"), "bins"),
        (("--order", 0), "order"),
        (("--size", 0), "size"),
        (("--column", "weight"), "columns"),
        (("--algorithm", "magic"), "algorithm"),
        (("--delta", 0.7), "delta"),
    ],
)
def test_mistakes_are_one_line(run: Any, public_files: Path, more: tuple[Any, ...], named: str) -> None:
    result = run(*words(public_files, *more))
    assert result.exit_code == 2
    assert named in result.stderr
    assert result.stderr.count("\n") <= 4
    assert not Path("synthetic").exists()


def test_a_table_or_rows_must_be_given(run: Any, public_files: Path) -> None:
    result = run("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 1)
    assert result.exit_code == 2
    assert "rows" in result.stderr


def test_an_order_beyond_the_columns_is_the_table_of_all(run: Any, public_files: Path) -> None:
    words = ("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 1, *CHOSEN, "--rows", 5000, "--json")
    plans = [json.loads(run(*words, "--order", order).stdout)["plans"] for order in (3, 9)]
    assert plans[0] == plans[1]


def test_too_many_combinations_are_for_noisy_tables(run: Any, public_files: Path) -> None:
    plan = ("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 1, "--rows", 5000)
    assert {one["algorithm"] for one in json.loads(run(*plan, "--json").stdout)["plans"]} == {
        "noisy_tables",
        "noisy_tree",
        "grouped_tables",
    }
    result = run(*plan)
    weighed = [float(line.split()[-4]) for line in result.stdout.splitlines() if line.endswith("estimate")]
    assert weighed[0] == min(weighed)  # what was chosen by stands there
    assert weighed == sorted(weighed)
    assert "chosen by the weighed mean" in result.stdout
    result = run(*plan, "--order", 3)
    assert result.exit_code == 2
    assert "noisy_tables" in result.stderr


@pytest.mark.gate
def test_a_whole_table_and_a_page_of_what_was_released(run: Any, public_files: Path) -> None:
    pair = ("--impossible", "sex=Male,relationship=Wife")
    whole = ("synthesize", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 3, *pair)
    assert run(*whole, "--impossible", "sex=Male").exit_code == 2
    result = run(*whole, "--bins", 6, "--seed", 1)
    assert result.exit_code == 0, result.output
    drawn = pacsv.read_csv("synthetic/synthetic.csv")
    schema = Schema.from_toml(public_files / "adult.toml")
    assert drawn.column_names == list(schema.column_names())
    records = zip(drawn["sex"].to_pylist(), drawn["relationship"].to_pylist(), strict=True)
    assert ("Male", "Wife") not in set(records)
    page = Path("synthetic/report.html").read_text()
    for text in ("native-country", "Not private", "misfit", "the model's guess"):
        assert text in page
    certificate = json.loads(Path("synthetic/certificate.json").read_text())
    assert certificate["public"]["impossible"]


def test_ranges_are_found_and_written_as_a_schema(run: Any, public_files: Path) -> None:
    given = ("synthesize", public_files / "train.csv", "--schema", public_files / "adult.toml", "--epsilon", 3)
    some = ("--column", "age", "--column", "income", "--column", "hours-per-week", "--ranges", "private")
    result = run(*given, *some, "--bins", 5, "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["files"][-1] == "synthetic/schema.found.toml"
    assert printed["plan"]["public"]["private_bins"]["columns"] == [0, 2]
    assert run("verify", "synthetic").exit_code == 0
    found = Schema.from_toml("synthetic/schema.found.toml")
    ages = pacsv.read_csv("synthetic/synthetic.csv")["age"].to_numpy()
    part = next(column for column in found.columns if column.name == "age")
    assert part.lower <= ages.min() <= ages.max() <= part.upper
    plan = run("synthesize", "--schema", public_files / "adult.toml", "--epsilon", 3, *some, "--rows", 500, "--json")
    assert json.loads(plan.stdout)["plans"][0]["public"]["private_bins"]["found"] is None
    assert "bins" in run(*given, *some, "--bins", 99, "--force").stderr
    assert run(*given, "--ranges", "none").exit_code == 2
