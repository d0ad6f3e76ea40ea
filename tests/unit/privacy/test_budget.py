"""A budget file: exact sums, refusals, torn and wrong files, several processes, and kills at any moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dpconvex.errors import BudgetExceededError, BudgetFileError, InvalidParameterError
from dpconvex.privacy import Budget, PrivacyParams, Unit
from dpconvex.privacy.budget import exact_text

TENTH = PrivacyParams(0.1, 1e-7)


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget.create(tmp_path / "budget.json", 1.0, 1e-6, data="visits")


def lines(budget: Budget) -> list[str]:
    return budget.path.read_text().splitlines()


def test_ten_tenths_are_one(budget: Budget) -> None:
    """In floats the sum of ten 0.1 is below 1, and of three above 0.3: neither may matter."""
    for k in range(10):
        budget.spend(TENTH, f"run {k}")
    assert budget.account().left == (0, 0)
    assert [entry.what for entry in budget.account().spent] == [f"run {k}" for k in range(10)]
    before = budget.path.read_bytes()
    with pytest.raises(BudgetExceededError, match="epsilon 0 and delta 0 left"):
        budget.spend(PrivacyParams(1e-12), "one more")
    assert budget.path.read_bytes() == before


@given(st.lists(st.floats(1e-300, 1e6), min_size=1, max_size=8))
def test_amounts_are_exact_and_within_one_part_in_2_to_the_53(tmp_path_factory: Any, amounts: list[float]) -> None:
    budget = Budget.create(tmp_path_factory.mktemp("b") / "b.json", 1e6)
    spent, decimals = Fraction(0), Fraction(0)
    for epsilon in amounts:
        try:
            budget.spend(PrivacyParams(epsilon), "")
        except BudgetExceededError:
            assert decimals + Fraction(Decimal(repr(epsilon))) > 10**6
        else:
            spent, decimals = spent + Fraction(epsilon), decimals + Fraction(Decimal(repr(epsilon)))
    assert Fraction(budget.account().left[0]) == 10**6 - decimals
    assert spent <= 10**6 * (1 + Fraction(1, 2**53))


def test_a_refusal_says_what_is_left(budget: Budget) -> None:
    budget.spend(PrivacyParams(0.7), "first")
    with pytest.raises(BudgetExceededError, match=r"has epsilon 0\.3 and delta 1e-6 left"):
        budget.spend(PrivacyParams(0.5), "second")
    with pytest.raises(BudgetExceededError, match="or for delta=0"):
        budget.spend(PrivacyParams(0.1, 1e-5), "too much delta")
    budget.spend(PrivacyParams(0.3, 1e-6), "exactly the rest")
    assert len(budget.account().spent) == 2


def test_unit_and_relation_have_to_match(budget: Budget) -> None:
    for other in (PrivacyParams(0.1, unit=Unit.USER), PrivacyParams(0.1, neighboring="add_or_remove_one")):  # pyright: ignore
        with pytest.raises(BudgetExceededError, match=r"is for .* Make another with (unit='user'|neighboring='add)"):
            budget.spend(other, "other promise")
    assert budget.account().spent == ()
    users = Budget.create(budget.path.with_name("users.json"), 1.0, unit="user")
    users.spend(PrivacyParams(0.1, unit=Unit.USER), "users")
    with pytest.raises(BudgetExceededError, match=r"unit='record'.*give groups to every fit"):
        users.spend(PrivacyParams(0.1), "records")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 0.7}, "delta"),
        ({"unit": "row"}, "unit"),
        ({"neighboring": "other"}, "neighboring"),
        ({"data": "x" * 201}, "data"),
        ({"path": "there.json"}, "path"),
    ],
)
def test_bad_parameters_are_named_and_nothing_is_written(tmp_path: Path, change: dict[str, Any], name: str) -> None:
    (tmp_path / "there.json").write_text("mine")
    good: dict[str, Any] = {"path": "new.json", "epsilon": 1.0, "delta": 0.0}
    given_ = good | change
    with pytest.raises(InvalidParameterError) as raised:
        Budget.create(tmp_path / given_.pop("path"), **given_)
    assert raised.value.name == name
    assert [path.name for path in tmp_path.iterdir()] == ["there.json"]
    assert (tmp_path / "there.json").read_text() == "mine"


def test_a_long_description_is_refused(budget: Budget) -> None:
    with pytest.raises(InvalidParameterError, match="what"):
        budget.spend(TENTH, "x" * 201)


TORN = PrivacyParams(0.2, 1e-8)


def test_a_line_cut_off_anywhere_never_counts_less(budget: Budget) -> None:
    """Whole amounts count; where they are cut, everything that was left counts, and the next run is refused."""
    budget.spend(PrivacyParams(0.5), "first")
    start = budget.path.stat().st_size
    budget.spend(TORN, "second")
    whole = budget.path.read_bytes()
    after = budget.account().left
    kinds = set()
    for end in range(start + 1, len(whole) + 1):
        budget.path.write_bytes(whole[:end])
        account = budget.account()
        assert account.left in (after, (0, 0)), whole[start:end]
        kinds.add((account.left == after, account.unreadable))
        if account.left == after:
            budget.spend(TENTH, "third")
            assert budget.account().left == (after[0] - Decimal("0.1"), after[1] - Decimal("1e-7"))
            assert budget.path.read_bytes().startswith(whole[:end].rstrip(b"\n") + b"\n")  # nothing is repaired away
        else:
            with pytest.raises(BudgetExceededError, match="cannot be read"):
                budget.spend(PrivacyParams(1e-6), "third")
    assert kinds == {(True, 0), (True, 1), (False, 1)}


@pytest.mark.parametrize(
    "line",
    [
        '{"epsilon": -0.5, "delta": 0.0, "what": "a gift"}',
        '{"epsilon": 0.0, "delta": 0.0}',
        '{"epsilon": NaN, "delta": 0.0}',
        '{"epsilon": 1e-999999, "delta": 0.0}',
        '{"epsilon": 1e999999999999999999999, "delta": 0.0}',
        '{"epsilon": true, "delta": 0.0}',
        '{"epsilon": "0.1", "delta": [0]}',
        '{"delta": 0.0}',
        '{"epsilon": 0.10000000000000000000000000000001, "delta": 0.0}',
        "[]",
        "null",
        "garbage",
        "\x00\x00\x00",
        '{"a":' * 100_000,
    ],
)
def test_a_line_that_says_nothing_counts_as_all_that_was_left(budget: Budget, line: str) -> None:
    with open(budget.path, "a") as file:
        file.write(line + "\n")
    account = budget.account()
    assert account.left == (0, 0)
    assert account.unreadable == 1
    with pytest.raises(BudgetExceededError, match="1 line"):
        budget.spend(TENTH, "after")


def test_more_spent_than_there_was_leaves_nothing(budget: Budget) -> None:
    with open(budget.path, "a") as file:
        file.write('{"epsilon": 5, "delta": 0, "what": "by hand", "a field of a later version": 1}\n\n')
    account = budget.account()
    assert account.left == (0, Decimal("1e-6"))
    assert account.unreadable == 0


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "no budget file"),
        (b"\xff\xfe", "no budget file"),
        (b"{}", "no budget file"),
        (b"age,income\n1,2\n", "no budget file"),
        (b'{"dpconvex_budget": 1, "epsi', "no budget file"),
        (b'{"dpconvex_budget": 3, "epsilon": 1.0}\n', "format 3"),
        (b'{"dpconvex_budget": 1, "epsilon": 1.0}\n', "first line"),
        (b'{"dpconvex_budget": 1, "epsilon": -1.0, "delta": 0.0, "unit": "record", "neighboring": "x"}', "first line"),
        (
            b'{"dpconvex_budget": 2, "epsilon": 1.0, "delta": 0.0, "unit": "record", "neighboring": "replace_one", '
            b'"renews": 1e99999999, "begins": "2026-01-01"}',
            "first line",
        ),  # a number of so many digits takes hours
    ],
)
def test_a_wrong_file_is_refused_and_not_touched(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    for act in (lambda: Budget.open(path), lambda: Budget(path).spend(TENTH, "x")):
        with pytest.raises(BudgetFileError, match=match):
            act()
    assert path.read_bytes() == content


def test_no_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("nothing.json", ".", "pipe"):
        with pytest.raises(BudgetFileError):
            Budget(tmp_path / name).spend(TENTH, "x")
    with pytest.raises(BudgetFileError):
        Budget.create(tmp_path / "no folder" / "b.json", 1.0)


def test_links_are_the_same_budget(budget: Budget, tmp_path: Path) -> None:
    (tmp_path / "soft.json").symlink_to(budget.path)
    (tmp_path / "hard.json").hardlink_to(budget.path)
    for name in ("soft.json", "hard.json"):
        Budget(tmp_path / name).spend(TENTH, name)
    assert [entry.what for entry in budget.account().spent] == ["soft.json", "hard.json"]
    assert (tmp_path / "soft.json").is_symlink()
    (tmp_path / "dangling.json").symlink_to(tmp_path / "victim")
    with pytest.raises(InvalidParameterError, match="exists already"):
        Budget.create(tmp_path / "dangling.json", 1.0)
    assert not (tmp_path / "victim").exists()


def test_a_folder_that_cannot_be_written_is_enough_and_a_file_that_cannot_is_refused(
    budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written beside the file. (The superuser may write anywhere, so refusals are simulated.)"""
    budget.path.parent.chmod(0o500)
    try:
        budget.spend(TENTH, "in a read-only folder")
    finally:
        budget.path.parent.chmod(0o700)
    real = os.open

    def refuse(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(BudgetFileError, match="Permission denied"):
        budget.spend(TENTH, "to a read-only file")
    assert len(budget.account().spent) == 1  # reading needs no right to write


def test_a_full_disk_leaves_no_part_of_a_line(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = budget.path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:20]))
    with pytest.raises(BudgetFileError, match="no space"):
        budget.spend(TENTH, "x")
    assert budget.path.read_bytes() == before


def test_a_disk_that_fails_after_writing_counts(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(BudgetFileError, match="Input/output"):
        budget.spend(TENTH, "x")
    assert len(budget.account().spent) == 1


def test_a_line_is_on_the_disk_before_spend_returns(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: seen.append(budget.path.read_bytes().count(b"\n")))
    budget.spend(TENTH, "x")
    assert seen == [2]


def test_a_file_replaced_meanwhile_is_noticed(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(file: int) -> None:
        other = budget.path.with_name("other")
        other.write_text(lines(budget)[0] + "\n")
        os.replace(other, budget.path)

    monkeypatch.setattr(os, "fsync", replace)
    with pytest.raises(BudgetFileError, match="replaced"):
        budget.spend(TENTH, "x")


SEVERAL = """
import os, sys, time
from dpconvex.errors import BudgetExceededError
from dpconvex.privacy import Budget, PrivacyParams, budget
read = budget._read
def slowly(file, path):
    account = read(file, path)
    time.sleep(0.005)  # gives the others a chance to read the same sum
    return account
budget._read = slowly
for worker in range(6):
    if os.fork() == 0:
        granted = 0
        for _ in range(15):
            try:
                Budget(sys.argv[1]).spend(PrivacyParams(1 / 32), f"worker {worker}")
                granted += 1
            except BudgetExceededError:
                pass
        os._exit(granted)
print(sum(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(6)))
"""

KILLED = """
import os, signal, sys, time
from dpconvex.privacy import Budget, PrivacyParams
budget, released = Budget(sys.argv[1]), sys.argv[1] + ".released"
open(released, "x").close()
for k in range(int(sys.argv[2])):
    victim = os.fork()
    if victim == 0:
        out = os.open(released, os.O_WRONLY | os.O_APPEND)
        while True:
            budget.spend(PrivacyParams(0.001), "victim " * 20)
            os.write(out, b".")  # stands for data being read and a result being handed out
    before = os.stat(released).st_size
    while k % 2 and os.stat(released).st_size == before:  # every second one is known to have released something
        time.sleep(0.0005)
    time.sleep(0.004 + 0.00137 * (k % 17))
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
    print(os.stat(released).st_size, budget.account().left[0])
"""


def script(text: str, *words: Any) -> str:
    """Run a program in an interpreter of its own, where forking is safe."""
    command = [sys.executable, "-c", text, *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_concurrent_processes_never_exceed_the_budget(budget: Budget) -> None:
    """Six processes ask for 90 times 1/32, of which 32 fit; exactly these are granted, and each is one whole line."""
    granted = int(script(SEVERAL, budget.path))
    assert granted == len(budget.account().spent) == 32
    assert budget.account().left[0] == 0
    assert all(json.loads(line) for line in lines(budget))


@pytest.mark.gate
@pytest.mark.parametrize("times", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_processes_killed_at_any_moment_never_under_count(budget: Budget, times: int) -> None:
    large = Budget.create(budget.path.with_name("large.json"), 1e6)
    ends = [line.split() for line in script(KILLED, large.path, times).splitlines()]
    for k, (released, left) in enumerate(ends, start=1):
        lines_spent = (Decimal(1_000_000) - Decimal(left)) / Decimal("0.001")
        assert int(released) <= lines_spent <= int(released) + k  # a killed process is at most one line ahead
    assert len(ends) == times
    assert int(ends[-1][0]) >= times // 2  # it did run
    large.spend(PrivacyParams(0.1), "the file is usable after all this")


@pytest.mark.parametrize(
    ("value", "text"), [("0.30", "0.3"), ("0E-7", "0"), ("1E+2", "100"), ("1E-6", "1e-6"), ("0.0125", "0.0125")]
)
def test_amounts_are_printed_with_all_digits(value: str, text: str) -> None:
    assert exact_text(Decimal(value)) == text


def test_a_name_that_occurs_twice_counts_as_all_that_was_left(budget: Budget) -> None:
    """Readers differ in which of the two they take; the last was, so a line could hide what it had spent."""
    head = budget.path.read_text()
    for line in (
        '{"epsilon": 0.9, "delta": 0.0, "epsilon": 0.01}',
        '{"epsilon": 0.01, "delta": 0.0, "epsilon": 0.9, "time": "", "what": ""}',
        '{"epsilon": 0.1, "delta": 0.0, "what": {"a": 1, "a": 2}}',
    ):
        budget.path.write_text(head + line + "\n")
        assert budget.account().left == (0, 0), line
        assert budget.account().unreadable == 1
    budget.path.write_text(head.replace('"epsilon": 1.0', '"epsilon": 1.0, "epsilon": 100.0'))
    with pytest.raises(BudgetFileError, match="no budget"):
        budget.account()


PIECES = [
    '{"epsilon": ',
    "0.1",
    "1e400",
    "-1",
    "9" * 5000,
    ', "delta": ',
    "0.0",
    ', "what": "x"',
    "}",
    "NaN",
    "[" * 3000,
]
PIECES += [', "epsilon": ', "null", '"', "\\u0000", "1e-400", "Infinity"]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=7).map("".join), max_size=4))
def test_any_lines_leave_no_more_than_before(tmp_path_factory: Any, given_lines: list[str]) -> None:
    budget = Budget.create(tmp_path_factory.mktemp("b") / "b.json", 1.0, 1e-6)
    left = budget.account().left
    for line in given_lines:
        with budget.path.open("a") as file:
            file.write(line + "\n")
        account = budget.account()
        assert all(now <= before for now, before in zip(account.left, left, strict=True)), line
        assert "\n" in line or not line.strip() or len(account.spent) > 0
        left = account.left


def test_a_file_that_is_too_long_is_not_read(budget: Budget) -> None:
    with budget.path.open("a") as file:
        file.write("\n" * 2**24)
    with pytest.raises(BudgetFileError, match="more than 16 MiB"):
        budget.account()


class _Clock(datetime):
    today = "2026-01-01"

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.fromisoformat(cls.today).replace(tzinfo=UTC)


@pytest.fixture
def quarterly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Budget:
    monkeypatch.setattr("dpconvex.privacy.budget.datetime", _Clock)
    monkeypatch.setattr(_Clock, "today", "2026-01-15")
    return Budget.create(tmp_path / "quarterly.json", 1.0, renews=3, begins="2026-01-15")


def test_every_period_has_the_totals_and_old_ones_never_come_back(
    quarterly: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarterly.spend(PrivacyParams(0.25), "first", "A. Ito")
    monkeypatch.setattr(_Clock, "today", "2026-04-14")
    assert str(quarterly.account().left[0]) == "0.75"
    monkeypatch.setattr(_Clock, "today", "2026-04-15")
    quarterly.spend(PrivacyParams(1.0), "all of the second")  # not 1.75
    with pytest.raises(BudgetExceededError, match="epsilon 0 and"):
        quarterly.spend(PrivacyParams(0.25), "more")
    account = quarterly.account()
    assert [entry.period for entry in account.spent] == [0, 1]
    assert account.periods == 2
    assert account.spent[0].who == "A. Ito"


def test_a_clock_set_back_opens_no_period_again(quarterly: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Clock, "today", "2026-07-20")
    quarterly.spend(PrivacyParams(1.0), "third period")
    for day in ("2026-01-15", "2026-05-01", "2020-01-01"):
        monkeypatch.setattr(_Clock, "today", day)
        with pytest.raises(BudgetExceededError, match="epsilon 0 and"):
            quarterly.spend(PrivacyParams(0.5), "earlier")


def test_nothing_is_paid_before_the_first_day(quarterly: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Clock, "today", "2026-01-14")
    with pytest.raises(BudgetExceededError, match="begins='2026-01-15'"):
        quarterly.spend(PrivacyParams(0.5), "too early")


@pytest.mark.parametrize("period", ["", ', "period": null', ', "period": -1', ', "period": 0.5', ', "period": "0"'])
def test_a_line_whose_period_cannot_be_read_counts_in_every_period(
    quarterly: Budget, monkeypatch: pytest.MonkeyPatch, period: str
) -> None:
    with quarterly.path.open("a") as file:
        file.write('{"epsilon": 0.75, "delta": 0.0' + period + "}\n")
    for day in ("2026-02-01", "2026-08-01"):
        monkeypatch.setattr(_Clock, "today", day)
        assert quarterly.account().left[0] <= Decimal("0.25")


@pytest.mark.parametrize(
    ("renews", "begins", "name"),
    [(0, "2026-01-01", "renews"), (1.5, "2026-01-01", "renews"), (3, "", "begins"), (3, "2026-01-31", "begins")],
)
def test_periods_are_public_facts_that_are_checked(tmp_path: Path, renews: Any, begins: str, name: str) -> None:
    with pytest.raises(InvalidParameterError, match=f"{name}="):
        Budget.create(tmp_path / "b.json", 1.0, renews=renews, begins=begins)
    assert not (tmp_path / "b.json").exists()


def test_a_note_of_a_release_changes_no_amount(budget: Budget) -> None:
    line = budget.spend(TENTH, "x")
    budget.released(line, "sha256:c", "sha256:m")
    budget.spend(TENTH, "y")
    account = budget.account()
    assert [(entry.certificate, entry.model) for entry in account.spent] == [("sha256:c", "sha256:m"), ("", "")]
    assert str(account.left[0]) == "0.8"
    for wrong in (0, 3):
        with pytest.raises(InvalidParameterError, match="line="):
            budget.released(wrong, "sha256:c", None)


def test_a_note_cut_off_anywhere_costs_nothing_and_moves_no_line(budget: Budget) -> None:
    line = budget.spend(TENTH, "first")
    paid = budget.path.read_bytes()
    budget.released(line, "sha256:c", "sha256:m")
    note = budget.path.read_bytes()[len(paid) :]
    for length in range(3, len(note)):  # a shorter one may be of a payment
        budget.path.write_bytes(paid + note[:length])
        assert str(budget.account().left[0]) == "0.9"
        assert budget.spend(TENTH, "second") == line + 1
        assert [entry.what for entry in budget.account().spent] == ["first", "second"]


def test_a_payment_cannot_be_hidden_among_notes_and_old_files_have_none(budget: Budget, tmp_path: Path) -> None:
    with budget.path.open("a") as file:
        file.write('{"certificate": "sha256:c", "line": 1}\n')
    assert budget.account().left[0] == 0
    old = tmp_path / "old.json"
    old.write_text(lines(budget)[0].replace('"dpconvex_budget": 2', '"dpconvex_budget": 1') + "\n")
    Budget(old).released(Budget(old).spend(TENTH, "x"), "sha256:c", None)
    assert str(Budget(old).account().left[0]) == "0.9"
    assert len(lines(Budget(old))) == 2
