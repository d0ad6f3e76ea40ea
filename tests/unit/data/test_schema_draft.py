"""Drafts say what was read off the data, are refused until confirmed, and read back as schemas."""

from __future__ import annotations

import datetime
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, NumericTarget, Schema, draft_schema, read_table
from dpconvex.data.draft import MARK, MAX_CATEGORIES, TAKEN
from dpconvex.data.targets import UnrangedColumn
from dpconvex.errors import SchemaError

FRAME = pl.DataFrame(
    {
        "age": [31.5, 77.0, None, math.nan, math.inf],
        "grade": [1, 2, 1, 3, 2],
        "constant": [5] * 5,
        "void": pl.Series([None] * 5, dtype=pl.Float64),
        "color": ["red ", 'gr"een', None, "", "blue"],
        "flag": [True, False, True, None, True],
        "day": [datetime.date(2000, 1, 1)] * 5,
        "note": [f"secret {i}" for i in range(5)],
        "income": ["low", "high", "low", "low", "high"],
    }
)


def test_draft_reads_back_as_an_unconfirmed_schema() -> None:
    wide = pl.concat([FRAME] * (MAX_CATEGORIES + 1)).with_columns(note=pl.int_range(pl.len()).cast(pl.String))
    schema = Schema.from_toml_text(draft_schema(wide, "income"))
    assert schema == Schema(
        (
            NumericColumn("age", 31.5, 77, indicator=True, step=0.5),
            NumericColumn("grade", 1, 3, step=1),
            NumericColumn("constant", 5, 10, step=1),
            NumericColumn("void", 0, 1, indicator=True),
            CategoricalColumn("color", ("blue", 'gr"een', "red"), other=True),
            CategoricalColumn("flag", ("false", "true")),
            NumericColumn("day", 0, 1, date="age", at="2000-01-01"),
        ),
        ClassTarget("income", ("high", "low")),
        confirmed=False,
        line_breaks=False,
    )
    with pytest.raises(SchemaError, match="confirmed"):
        schema.require_confirmed()
    assert schema.encode(wide).shape == (len(wide), 6 + 4 + 2)


def test_targets_of_numbers_but_for_a_few_cells_have_a_range() -> None:
    numbers = [f"{k}.5" for k in range(300)]
    draft = draft_schema(pd.DataFrame({"y": [*numbers, "unknown"], "x": range(301)}), "y")
    target = tomllib.loads(draft)["target"]
    assert (target["lower"], target["upper"]) == (0.5, 299.5)
    assert "0.33% of the rows have none here" in draft


def test_words_for_nothing_are_no_classes_and_texts_are_no_target() -> None:
    frame = pd.DataFrame({"y": ["no", "yes", "?", "n/a"] * 30, "note": [f"note {k}" for k in range(120)]})
    assert tomllib.loads(draft_schema(frame, "y"))["target"]["classes"] == ["no", "yes"]
    assert "# Left out: 120 classes were found. List the public classes." in draft_schema(frame, "note")


@pytest.mark.parametrize("empty", [None, ""])
def test_labels_that_are_words_for_nothing_are_counted_as_missing(empty: str | None) -> None:
    """A stranger's table had 9 % of its labels as NA, and the draft said nothing of them."""
    frame = pd.DataFrame({"y": ["no", "yes", "NA", "n/a", empty] * 30, "x": range(150)})
    assert "# 60.00% of the rows have none here (NA, n/a or an empty cell). They count" in draft_schema(frame, "y")


def test_codes_with_leading_zeros_are_no_numbers(tmp_path) -> None:
    path = tmp_path / "places.csv"
    path.write_text("zip,dose,grade\n" + "".join(f"{k % 30 * 331:05d},{k % 9:02d},{k % 12}\n" for k in range(240)))
    draft = draft_schema(read_table(path), "grade")
    columns = tomllib.loads(draft)["columns"]
    assert columns["zip"]["categories"][:2] == ["00000", "00331"]
    assert columns["dose"]["upper"] == 8  # two digits are hours, months or doses
    assert "If they are codes, not numbers" in draft
    path.write_text("grade,x\n" + "".join(f"{k:0{3 + k % 2}d},{k}\n" for k in range(50)))  # of several lengths
    assert tomllib.loads(draft_schema(read_table(path), "grade"))["target"]["upper"] == 49


@pytest.mark.parametrize("form", ["{:,.2f}", "${:,.2f}", "{:.1f}%", "{:.2f} €", "-{:,.0f}"])
@pytest.mark.parametrize("comma", [False, True])
def test_numbers_that_are_written_for_people_are_named(form: str, comma: bool) -> None:
    texts = [form.format(1234.5 * k + 1000) for k in range(MAX_CATEGORIES + 20)]
    texts = [text.translate(str.maketrans(",.", ".,")) for text in texts] if comma else texts
    draft = draft_schema(pd.DataFrame({"x": texts, "y": texts}), "y")
    read = all(text.replace("-", "").replace(".", "", 1).isdigit() for text in texts)
    assert read or draft.count("Left out: numbers with separators, decimal commas, % or a currency") == 2


def test_two_values_and_many_empty_cells_offer_a_level_for_these() -> None:
    for empty in (0, 60):
        draft = draft_schema(pd.DataFrame({"x": ["NO", "YES"] * 30 + [None] * empty}))
        assert ("# other = true" in draft) == bool(empty)


def test_every_line_read_off_the_data_is_marked() -> None:
    """Two tables with the same public facts: where their drafts differ, both lines carry the mark."""
    other = FRAME.with_columns(
        age=pl.lit(3.0),
        grade=pl.lit(5),
        color=pl.lit("gold"),
        note=pl.lit("word"),
        income=pl.Series(["a", "b", "c", "a", "b"]),
        flag=pl.lit(False),
    )
    drafts = [set(draft_schema(frame, "income").splitlines()) for frame in (FRAME, other)]
    differing = drafts[0] ^ drafts[1]
    unmarked = {line for line in differing if MARK.strip() not in line}
    # The remark on codes and the extra level are there or not; their texts hold no value but the remark's own.
    assert unmarked <= {line for line in unmarked if line.startswith(("# Few distinct", "other = true", "]"))}
    assert not any("secret" in line for line in unmarked)
    assert sum(MARK.strip() in line for line in differing) > 8
    tomllib.loads(draft_schema(FRAME))


def test_numeric_targets_and_codes() -> None:
    frame = pd.DataFrame({"y": np.linspace(0, 1, 30), "code": [0.0, 1.0] * 15, "x": range(30)})
    assert Schema.from_toml_text(draft_schema(frame, "y")).target == NumericTarget("y", 0, 1)
    assert Schema.from_toml_text(draft_schema(frame, "code")).target == ClassTarget("code", ("0", "1"))
    draft = draft_schema(frame)
    assert 'If they are codes: categories = ["0", "1"]' in draft
    assert Schema.from_toml_text(draft).target is None
    counts = draft_schema(pd.DataFrame({"y": [0, 3, 1] * 10, "x": [None, 1.5, 2.5] * 10}), "y")
    assert "# If they are numbers, not codes: lower = 0 and upper = 3 in their place." in counts
    assert "\nindicator = true  # read from the data" in counts
    few = draft_schema(pd.DataFrame({"y": [0, 3, 1] * 30, "x": [None] + [1.5, 2.25] * 44 + [3]}), "y")
    assert "\n# indicator = true  # read from the data" in few
    assert "\nstep = 0.25  # read from the data" in few


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([1, 1.5, 2, 2.5, 3], 0.5),
        ([0, 0.5, 1, 2], 0.5),
        ([450, 500, 1020], 10),
        ([1, 2, 5], 1),
        ([0, 100], 1),  # two numbers may share a divisor by chance
        ([36.6, 37.1, 38.2], 0.1),
        ([0.0002, 0.0006, 0.001], 0.0002),
        ([0, 0.00025, 1], 0),
    ],
)
def test_the_step_is_the_largest_round_one_that_divides_all_numbers(values: list[float], step: float) -> None:
    found = Schema.from_toml_text(draft_schema(pd.DataFrame({"x": values * 30})))
    assert found.columns[0].step == step


def test_codes_that_fill_several_lines_stay_a_comment() -> None:
    people = 10**9 + 7**9 * np.arange(10)
    draft = draft_schema(pd.DataFrame({"people": np.tile(people, 60), "y": np.arange(600.0)}), target="y")
    assert '\n#   "1000000000",' in draft
    assert Schema.from_toml_text(draft).columns[0].name == "people"


def test_drafts_say_which_rows_have_no_label_and_which_column_says_nothing() -> None:
    """A third of the rows of one public table had no label: its model learned that they are all healthy."""
    frame = pd.DataFrame({"ill": ["no", "yes", None, "no"] * 9, "year": [2013] * 36, "yes": [0, 1, 1, 0] * 9})
    draft = draft_schema(frame, "ill")
    assert "# 25.00% of the rows have none here. They count as the first class" in draft
    assert "# 33.33% of the rows have none here" in draft_schema(frame.assign(y=[0.5, 1.5, None] * 12), "y")
    assert "have none here" not in draft_schema(frame, "yes")
    assert draft.count("Every row holds the same value") == 1
    heights = frame.assign(height=[0, 10, 40, 9000] * 9, grade=[1, 2, 3, 60] * 9)
    remarks = [line for line in draft_schema(heights, "ill").splitlines() if "log1p" in line]
    assert len(remarks) == 1
    assert MARK in remarks[0]
    skewed = heights.assign(cost=[1.5, 2.5, 3.25, 9000.5] * 9)
    target = draft_schema(skewed, "cost").split("[columns")[0]
    assert f"a smaller upper may do.{MARK}" in target
    assert "smaller upper" not in draft_schema(skewed, "cost", ranges=False)
    unranged = draft_schema(heights.assign(tweet="no"), "ill", ranges=False)
    assert "log1p" not in unranged  # a fit that finds the range finds the scale
    assert unranged.count("Every row holds the same value") == 2
    found = {column.name: column for column in Schema.from_toml_text(unranged).columns}
    assert found["yes"] == NumericColumn("yes", 0, 1, step=1)  # a range of yes and no is no secret
    assert found["grade"] == UnrangedColumn("grade")


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([[1], None, {"a": 2}, "a\ud800", b"\xff"], dtype=object),
        pd.Series(pd.Categorical([1, "red", None, 2.0, (3,)])),
        pl.Series([None] * 5),
        pa.array(["a", "b", "c", "d", "\n"]),
        pa.array(["x"] * 5).dictionary_encode(),
        pa.array([1, 2, 3, 4, 5]).dictionary_encode(),
    ],
    ids=lambda column: type(column).__name__,
)
def test_odd_columns_still_give_a_readable_draft(column: Any) -> None:
    if isinstance(column, pd.Series):
        frame: Any = pd.DataFrame({"odd\n": column, "x": range(5)})
    elif isinstance(column, pl.Series):
        frame = pl.DataFrame({"odd\n": column, "x": range(5)})
    else:
        frame = pa.table({"odd\n": column, "x": range(5)})
    schema = Schema.from_toml_text(draft_schema(frame))
    assert schema.encode(frame).shape[0] == 5
    Schema.from_toml_text(draft_schema(frame, "odd\n"))


def test_unknown_target_and_nameless_columns() -> None:
    with pytest.raises(SchemaError, match="no column 'incom'"):
        draft_schema(FRAME, "incom")
    draft = draft_schema(pd.DataFrame({"": [1.0], "a": [2.0]}))
    assert [column.name for column in Schema.from_toml_text(draft).columns] == ["a"]
    assert "its name is no text" in draft_schema(pd.DataFrame([[1.0, 2.0]]))


def test_the_last_word_of_a_name_says_whether_whole_numbers_name_rows() -> None:
    many, few = [*range(70)] * 2, [0, 1] * 70
    names = dict.fromkeys(("zip", "accountNumber", "id_of_case", "number_of_visits", "patient weight"), many)
    draft = draft_schema(pd.DataFrame(names | {"student": few, "void": [""] * 140}))
    read = [column.name for column in Schema.from_toml_text(draft).columns]
    assert read == ["number_of_visits", "patient weight", "student"]
    assert "# [columns.void]\n# Left out: every cell is empty." in draft
    assert '# user = "accountNumber"' in draft


@pytest.mark.parametrize("name", ["email", "user_id", "userName", "nhs_number", "policy_no", "driver", "card_number"])
def test_texts_that_name_people_and_repeat_are_proposed_as_user(name: str) -> None:
    texts = [f"0{k % 90:04d}" for k in range(200)]
    draft = draft_schema(pd.DataFrame({name: texts, "y": ["a", "b"] * 100}), "y")
    assert f'# user = "{name}"' in draft
    assert "separators" not in draft  # codes, and no numbers written for people


def test_row_numbers_with_gaps_are_left_out_and_times_are_not() -> None:
    """A stranger's table was filtered, and its row numbers, 1 to 17,566 in 17,549 rows, became a number."""
    gaps = np.flatnonzero(np.arange(1000) % 7)
    mixed, n = np.random.default_rng(0).permutation(np.flatnonzero(np.arange(940) % 12)), len(gaps)
    names = {"Unnamed: 0": gaps[::-1] * 3, "rownames": gaps % 100, "site": gaps, "shuffled": mixed[:n]}
    stay = {"year": gaps, "Time": gaps, "monthsSince": gaps, "growth": gaps**3, "fallen": gaps[::-1], "few": gaps // 2}
    draft = draft_schema(pd.DataFrame(names | stay))
    assert [column.name for column in Schema.from_toml_text(draft).columns] == list(stay)
    assert draft.count("# Left out: whole numbers that seem to name rows") == len(names)
    short = draft_schema(pd.DataFrame({"area": gaps[:99], "place": range(99)}))
    assert [column.name for column in Schema.from_toml_text(short).columns] == ["area"]


def test_ids_of_which_some_are_missing_do_not_repeat() -> None:
    """A stranger's table of employees had six rows without an id, and the draft said that ids repeat."""
    ids = [f"e{k}" for k in range(70)]
    for column in ([*ids, None, None], [*ids, "", ""], pd.array([*range(70), None, None], dtype="Int64")):
        assert "Its values repeat" not in draft_schema(pd.DataFrame({"EmpID": column}))
    assert "Its values repeat" in draft_schema(pd.DataFrame({"EmpID": [*ids, None, "e1"]}))


def test_a_target_of_times_is_called_one() -> None:
    times = [f"{2 + k // 60:02d}:{k % 60:02d}:51" for k in range(100)]
    days = [str(day.date()) for day in pd.date_range("2024-01-01", periods=100)]
    for texts in (times, days):
        draft = draft_schema(pd.DataFrame({"y": texts, "x": range(100)}), "y")
        assert "# Left out: dates, clock times or durations. A target must be numbers, as minutes, or classes." in draft


def test_whole_numbers_that_read_as_dates_are_told(tmp_path: Path) -> None:
    days = pd.date_range("2015-11-20", periods=80)
    pd.DataFrame({"day": days.strftime("%Y%m%d"), "size": range(20160132, 20160212)}).to_csv(tmp_path / "t.csv")
    table = read_table(tmp_path / "t.csv")
    draft = draft_schema(table)
    assert draft.count('# If they are dates: date = "month" and format = "%Y%m%d" in the place of bounds.') == 1
    schema = Schema.from_toml_text('confirmed = true\n[columns.day]\ndate = "month"\nformat = "%Y%m%d"\n')
    found = schema.encode(read_table(tmp_path / "t.csv", schema))
    assert found.shape == (80, 12)
    assert found[0, 10] == 1  # November


def test_few_texts_among_numbers_are_listed() -> None:
    """Sixty cells such as ``2 (estimated)`` filled the drafts of public tables."""
    mixed = [*map(str, range(100)), *(f"{k} or so" for k in range(40)), "-999"]
    draft = draft_schema(pd.DataFrame({"x": mixed}))
    assert "# 40 texts in it are no numbers, and count as missing, listed or not." in draft
    assert tomllib.loads(draft)["columns"]["x"]["missing"] == [f"{k} or so" for k in (0, 1, 10, 11, 12)] + ["-999"]


def test_words_of_files_stay_words_and_foreign_letters_are_told(tmp_path) -> None:
    path = tmp_path / "towns.csv"
    path.write_bytes("town,sold\nN\u00eemes,True\nParis,False\nParis,True\n".encode("latin-1"))
    draft = draft_schema(read_table(path), "sold")
    assert 'classes = ["False", "True"]' in draft
    assert draft.startswith("# Some texts are not UTF-8")
    assert draft.splitlines()[0].endswith(MARK.strip())
    path.write_text("town,sold\nN\u00eemes,1\nParis,0\n", encoding="utf-8")
    draft = draft_schema(read_table(path), "sold")
    assert 'classes = ["0", "1"]' in draft
    assert "UTF-8" not in draft


def test_foreign_letters_are_told_where_no_line_of_the_draft_shows_them(tmp_path) -> None:
    path = tmp_path / "notes.csv"
    notes = "".join(f"{k},note {k}\n" for k in range(100))
    path.write_bytes(f"age,note\n{notes}101,No\u00ebl\n".encode("latin-1"))
    assert draft_schema(read_table(path)).startswith("# Some texts are not UTF-8")
    path.write_text(f"age,note\n{notes}101,No\u00ebl\n", encoding="utf-8")
    assert "UTF-8" not in draft_schema(read_table(path))


def test_a_draft_says_that_no_feature_is_left() -> None:
    table = pd.DataFrame({"y": ["a", "b"] * 50, "name": [f"person {k}" for k in range(100)]})
    for columns, left in ((["y", "name"], True), (["y"], True), (["y", "y2"], False)):
        draft = draft_schema(table.assign(y2=table["y"])[columns], "y")
        assert ("# No feature is left" in draft) == left


def test_clock_times_and_dates_with_times_are_drafted() -> None:
    """On unseen tables clock times, and dates such as 1/5/13 22:33, were left out as free text."""
    rng = np.random.default_rng(0)
    minutes, days = rng.integers(0, 1440, 90), pd.date_range("2012-11-01", periods=90)
    times = [f"{m // 60}:{m % 60:02d}" for m in minutes]
    frame = pd.DataFrame(
        {
            "at": times,
            "came": [f"{day.month}/{day.day}/{day:%y} {time}" for day, time in zip(days, times, strict=True)],
            "left": [f"{day:%d-%b-%y}" for day in days],
            "stamp": days + pd.to_timedelta(minutes, "min"),
            "midnight": [f"{day:%Y-%m-%d} 00:00:00" for day in days],
        }
    )
    draft = draft_schema(frame)
    assert Schema.from_toml_text(draft).columns == (
        NumericColumn("at", 0, 24, date="hour"),
        NumericColumn("came", 0, 89, date="age", at="2013-01-29", format="%m/%d/%y"),
        NumericColumn("left", 0, 89, date="age", at="2013-01-29", format="%d-%b-%y"),
        NumericColumn("stamp", 0, 89, date="age", at="2013-01-29"),
        NumericColumn("midnight", 0, 89, date="age", at="2013-01-29"),
    )
    for name in ("came", "stamp"):  # their time of day, as lines that wait for a person
        lines = draft.split(f'# [columns."{name} hour"]\n')[1].split("# Left out")[0].replace("# ", "")
        assert lines == f'formula = "hours(\\"{name}\\")"\nlower = 0\nupper = 24\n'
        column = NumericColumn(f"{name} hour", 0, 24, formula=f'hours("{name}")')
        np.testing.assert_allclose(Schema((column,)).encode(frame)[:, 0], minutes / 1440 - 0.5, atol=1e-9)
    assert draft.count("hours(") == 2
    typed = pl.DataFrame({"at": [datetime.time(9, 30)] * 3})
    assert Schema.from_toml_text(draft_schema(typed)).columns == (NumericColumn("at", 0, 24, date="hour"),)
    unread = Schema.from_toml_text(draft_schema(frame, ranges=False)).columns
    assert unread[0] == NumericColumn("at", 0, 24, date="hour")  # its meaning says its range
    assert [(column.ranged, column.date) for column in unread[1:]] == [(False, "age")] * 4  # pyright: ignore
    assert "2013" not in draft_schema(frame, ranges=False)


def test_zero_far_from_all_others_is_no_value() -> None:
    years = pd.DataFrame({"built": [0, *range(1900, 1960)], "code": [0, 5, 6, 7] * 15 + [7], "cost": range(61)})
    columns = Schema.from_toml_text(draft := draft_schema(years)).columns
    assert columns[0] == NumericColumn("built", 1900, 1959, step=1, missing=("0",))
    assert draft.count(f"# {TAKEN}: 0. Where one is a value, take it out of `missing`") == 1
    assert not columns[1].missing
    half = pd.DataFrame({"built": [0] * 20 + list(range(1900, 1960))})
    assert Schema.from_toml_text(draft_schema(half)).columns[0].indicator  # pyright: ignore


@pytest.mark.parametrize(
    "cell",
    [
        lambda k: datetime.date(2020, 1, 1 + k % 28),
        lambda k: datetime.time(k % 24, 5),
        lambda k: f"2021-03-{1 + k % 28:02d}",
        lambda k: f"{k % 24:02d}:30",
    ],
    ids=["dates", "times", "texts of dates", "texts of times"],
)
@pytest.mark.parametrize(("every", "line"), [(4, "\nindicator = true"), (50, "\n# indicator = true"), (1000, None)])
def test_dates_and_times_that_are_missing_are_kept_apart_as_numbers_are(
    cell: Any, every: int, line: str | None
) -> None:
    cells = [None if k % every == every - 1 else cell(k) for k in range(300)]
    drafted = draft_schema(pl.DataFrame({"when": cells, "y": ["a", "b"] * 150}), "y")
    assert ("indicator" in drafted) == (line is not None)
    assert line is None or line in drafted
    Schema.from_toml_text(drafted.replace("confirmed = false", "confirmed = true"))
