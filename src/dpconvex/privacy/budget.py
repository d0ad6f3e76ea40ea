"""A budget that outlives a run: a ledger file for one data set, safe under concurrent processes and crashes.

Guarantee
    Whatever runs were paid from one file, together they are (epsilon, delta)-differentially private with the totals in
    the file's first line, however each was chosen after seeing the results of those before (basic composition; no
    tighter sum holds for promises that are not fixed in advance). Amounts are exact decimals. A budget that renews
    gives its totals anew to every period: the runs of k periods together are (k epsilon, k delta)-differentially
    private. A period that has a line stays begun: what is left of older ones never comes back, and a clock set back
    changes nothing.
How it is kept
    Docs, A budget for one data set. A run is paid before its data are read: under an exclusive lock the sum is checked,
    and one line appended and forced to the disk. A line that cannot be read counts as all that was left, unless it was
    cut off after its two amounts. Nothing is ever given back: whether a run failed may depend on its data.
"""

import decimal
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import compress
from pathlib import Path
from typing import Any, Self

from dpconvex._files import MOST_BYTES, AnyPath, TwiceError, once_each
from dpconvex._types import final_dataclass
from dpconvex.errors import BudgetExceededError, BudgetFileError, DpconvexError, InvalidParameterError
from dpconvex.privacy.params import Neighboring, PrivacyParams, Unit

VERSION = 2  #: Version of the file format; version 1 has no periods and no notes of releases. Others are refused.
MOST_TEXT = 200  #: Largest number of characters in a line's description.
_EXACT = decimal.Context(prec=4000, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])  # exact
_AMOUNTS = re.compile(r'\{"epsilon": ([-+.eE0-9]+), "delta": ([-+.eE0-9]+),')


@final_dataclass
class Spent:
    """One line of a budget, and the promise it paid for. A line that cannot be read counts as all that was left."""

    epsilon: Decimal | None  #: None if the line cannot be read
    delta: Decimal | None  #: None if the line cannot be read
    what: str  #: what was paid for, in words
    time: str  #: time of the payment (UTC), for people; nothing is computed from it
    whole: bool = True  #: whether the line could be read completely
    who: str = ""  #: who paid, as stated
    period: int | None = None  #: number of the period of a budget that renews; None counts in every period
    certificate: str = ""  #: digest of the certificate that names this line; empty until that is written
    model: str = ""  #: digest of the model that this certificate certifies


@final_dataclass
class Account:
    """What a budget file holds at one moment."""

    total: PrivacyParams  #: the whole budget, with its unit and relation
    data: str  #: which data set it is for, in words
    spent: tuple[Spent, ...]  #: the lines, oldest first
    renews: int = 0  #: length of a period in months; 0: the budget never renews
    begins: str = ""  #: first day (UTC) of period 0
    period: int = 0  #: number of the newest period that the clock or a line names; below 0 before the first day
    version: int = VERSION  #: version of the file's format

    @property
    def periods(self) -> int:
        """Number k of periods that were paid from: all promises together cost at most k times the totals."""
        known = [entry.period for entry in self.spent if entry.period is not None]
        unknown = len(self.spent) - len(known)  # each line without a period may belong to another one
        return len(set(known)) + unknown if self.renews else min(1, unknown)

    @property
    def left(self) -> tuple[Decimal, Decimal]:
        """Epsilon and delta that are left, exact; at least 0, and 0 if a line cannot be read."""
        epsilon, delta = _decimal(self.total.epsilon), _decimal(self.total.delta)
        for entry in self.spent:
            if entry.period not in (None, self.period):
                continue
            if entry.epsilon is None or entry.delta is None:
                return Decimal(0), Decimal(0)
            epsilon, delta = _EXACT.subtract(epsilon, entry.epsilon), _EXACT.subtract(delta, entry.delta)
        return max(epsilon, Decimal(0)), max(delta, Decimal(0))

    @property
    def unreadable(self) -> int:
        """Number of lines that were cut off or changed."""
        return sum(not entry.whole for entry in self.spent)

    def require(self, promise: PrivacyParams, name: str) -> None:
        """Raise `BudgetExceededError` unless `promise` has the budget's unit and relation and fits what is left."""
        for what in ("unit", "neighboring"):
            own, asked = str(getattr(self.total, what)), str(getattr(promise, what))
            if own != asked:
                raise BudgetExceededError(
                    f"{what}={asked!r}: the budget {name!r} is for {what}={own!r}. Make another with {what}={asked!r}"
                    + "; or give groups to every fit" * ((own, asked) == ("user", "record"))
                )
        if self.period < 0:
            raise BudgetExceededError(f"begins={self.begins!r}: nothing is paid from {name!r} before. Wait until then")
        epsilon, delta = self.left
        if _decimal(promise.epsilon) > epsilon or _decimal(promise.delta) > delta:
            torn = f" ({self.unreadable} lines cannot be read)" if epsilon == delta == 0 and self.unreadable else ""
            pure = ", or for delta=0 where the method takes it" * (_decimal(promise.delta) > delta)
            asked = f"epsilon={promise.epsilon!r}, delta={promise.delta!r}"
            has = f"the budget {name!r} has epsilon {exact_text(epsilon)} and delta {exact_text(delta)} left{torn}"
            remedy = f"Ask for no more{pure}; nothing was read, nothing was spent"
            raise BudgetExceededError(f"{asked}: {has}. {remedy}")


@final_dataclass
class Budget:
    """The ledger file of one data set, at `path`. It holds no data: promises, dates and descriptions.

    Symbolic and hard links to it are the same budget; a copy is another one, and the guarantee is lost.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> budget = Budget.create(Path(folder.name) / "budget.json", epsilon=1.0, delta=1e-6, data="visits of 2025")
    >>> budget.spend(PrivacyParams(0.7), "model of stays")
    1
    >>> str(budget.account().left[0])
    '0.3'
    >>> budget.spend(PrivacyParams(0.5), "another model")
    Traceback (most recent call last):
    ...
    dpconvex.errors.BudgetExceededError: epsilon=0.5, delta=0.0: the budget 'budget.json' has epsilon 0.3 and ...
    >>> folder.cleanup()
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @classmethod
    def create(
        cls, path: AnyPath, epsilon: float, delta: float = 0.0,
        *, unit: str = "record", neighboring: str = "replace_one", data: str = "", renews: int = 0, begins: str = "",
    ) -> Self:  # fmt: skip
        """Write a new budget file, in a folder that exists; an existing file is never replaced.

        Parameters
        ----------
        path : path
            The file, which must not exist.
        epsilon, delta : float
            The totals, as in `PrivacyParams`.
        unit, neighboring : str
            The unit and the relation that every promise to be paid must have.
        data : str
            Which data set the budget is for, in words.
        renews : int
            The totals are given anew every `renews` months; 0: never. k periods promise k times as much.
        begins : str
            Day from which months are counted, as ``"2026-01-01"`` (UTC); with `renews`.

        Raises
        ------
        InvalidParameterError
            When a total is out of range, the file exists, or its folder cannot be written to.
        """
        total = _promise(epsilon, delta, unit, neighboring)
        header = {"dpconvex_budget": VERSION, "epsilon": total.epsilon, "delta": total.delta}
        header |= {"unit": str(total.unit), "neighboring": str(total.neighboring), "data": _words("data", data)}
        if renews or begins:
            _period(renews, begins)
            header |= {"renews": renews, "begins": begins}
        where = Path(path)
        _locks(where)
        try:
            file = os.open(where, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            remedy = "Choose another name: a budget is never replaced"
            raise InvalidParameterError("path", str(path), "exists already", remedy) from None
        except OSError as error:
            raise _unusable(where, error) from None
        try:
            _append(file, json.dumps(header) + "\n")
            _sync_folder(where.parent)
        except OSError as error:
            where.unlink(missing_ok=True)
            raise _unusable(where, error) from None
        finally:
            os.close(file)
        return cls(where)

    @classmethod
    def open(cls, path: AnyPath) -> Self:
        """Return the budget of an existing file; raise `BudgetFileError` if the file is missing or is no budget."""
        budget = cls(Path(path))
        budget.account()
        return budget

    def account(self) -> Account:
        """Read what is spent and what is left; raise `BudgetFileError` if the file is gone, or is no budget."""
        with _locked(self.path, os.O_RDONLY) as file:
            return _read(file, self.path)

    def spend(self, promise: PrivacyParams, what: str, who: str = "") -> int:
        """Enter a promise that is about to be made; call it before the data are read.

        When it returns, the line is on the disk. When it raises, nothing may be released: the line is not there, or, if
        the disk failed while writing, it may be there and counts.

        Parameters
        ----------
        promise : PrivacyParams
            The promise, as the run's certificate will state it.
        what, who : str
            What is paid for, and who pays, in words of at most `MOST_TEXT` characters each.

        Returns
        -------
        int
            The number of the line, from 1.

        Raises
        ------
        BudgetExceededError
            When the promise does not fit what is left, or is for another unit or relation.
        """
        words = {"what": _words("what", what)} | ({"who": _words("who", who)} if who else {})
        with _locked(self.path, os.O_RDWR) as file:
            account = _read(file, self.path)
            account.require(promise, self.path.name)
            amounts: dict[str, Any] = {"epsilon": promise.epsilon, "delta": promise.delta}
            amounts |= {"period": account.period} if account.renews else {}
            self._enter(file, amounts | {"time": datetime.now(UTC).isoformat(timespec="seconds")} | words)
        return len(account.spent) + 1

    def released(self, line: int, certificate: str, model: str | None) -> None:
        """Note the digests of what a paid line released. No amount changes; a file of version 1 gets no such notes."""
        with _locked(self.path, os.O_RDWR) as file:
            account = _read(file, self.path)
            if not 1 <= line <= len(account.spent):
                raise InvalidParameterError("line", line, f"must be one of {len(account.spent)} lines of the budget")
            if account.version > 1:
                self._enter(file, {"line": line, "certificate": certificate, "model": model or ""})

    def _enter(self, file: int, fields: dict[str, Any]) -> None:
        cut_off = os.pread(file, 1, os.fstat(file).st_size - 1) != b"\n"
        _append(file, ("\n" if cut_off else "") + json.dumps(fields) + "\n")
        if not os.path.samestat(os.fstat(file), os.stat(self.path)):
            what = "the file was replaced while it was written. Nothing may be released"
            raise BudgetFileError(f"{self.path}: {what}")


def exact_text(amount: Decimal) -> str:
    """Return all digits of a decimal, in powers of ten where it is tiny."""
    short = _EXACT.normalize(amount)
    return f"{short:f}" if not short or -4 <= short.adjusted() < 16 else f"{short:e}"


def _promise(epsilon: Any, delta: Any, unit: Any, neighboring: Any) -> PrivacyParams:
    for name, value, kinds in (("unit", unit, Unit), ("neighboring", neighboring, Neighboring)):
        if value not in tuple(kinds):
            raise InvalidParameterError(name, value, "must be one of " + ", ".join(repr(str(kind)) for kind in kinds))
    return PrivacyParams(epsilon, delta, neighboring, unit)


def _period(renews: Any, begins: Any) -> int:
    """Return the number of today's period (UTC); it is below 0 before the first day."""
    if type(renews) is not int or not 1 <= renews <= 120:
        raise InvalidParameterError("renews", renews, "must be a number of months from 1 to 120")
    try:
        first = date.fromisoformat(begins)
    except (TypeError, ValueError):
        first = None
    if first is None or first.day > 28:
        what, remedy = "must be a day from 1 to 28 of a month, as in 2026-01-01", "Amounts that renew need a first day"
        raise InvalidParameterError("begins", begins, what, remedy)
    now = datetime.now(UTC).date()
    return ((now.year - first.year) * 12 + now.month - first.month - (now.day < first.day)) // renews


def _words(name: str, text: str) -> str:
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise InvalidParameterError(name, text, f"must be a text of at most {MOST_TEXT} characters")
    return text


def _decimal(value: float) -> Decimal:
    """Return the shortest decimal that reads back as this float: what the caller wrote, and certificates print."""
    return Decimal(repr(value))


def _locks(path: Path) -> Any:
    """Return the module of file locks, which Windows lacks."""
    try:
        import fcntl
    except ImportError:
        raise BudgetFileError(f"{path}: budget files need the file locks of Linux, macOS or another Unix") from None
    return fcntl


@contextmanager
def _locked(path: Path, mode: int) -> Iterator[int]:
    """Open a file under a shared lock for reading, or an exclusive one for writing; the lock ends with the process."""
    fcntl = _locks(path)
    append = os.O_APPEND if mode == os.O_RDWR else 0
    try:
        file = os.open(path, mode | append | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise BudgetFileError(f"{path}: is not a regular file. Make a budget with `dpconvex budget create`")
        fcntl.flock(file, fcntl.LOCK_EX if mode == os.O_RDWR else fcntl.LOCK_SH)
        yield file
    except OSError as error:
        raise _unusable(path, error) from None
    finally:
        os.close(file)


def _append(file: int, line: str) -> None:
    """Append one line and force it to the disk; if there is no room for all of it, its written part is removed."""
    data, size = line.encode("ascii"), os.fstat(file).st_size
    try:
        if os.write(file, data) < len(data):
            raise OSError(errno.ENOSPC, "no space is left for a whole line")
    except OSError:
        os.ftruncate(file, size)  # removes only what this process wrote, as it holds the lock
        raise
    os.fsync(file)


def _sync_folder(folder: Path) -> None:
    """Force a folder's entry of a new file to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(file: int, path: Path) -> Account:
    with open(file, "rb", closefd=False) as stream:
        stream.seek(0)
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise BudgetFileError(f"{path}: has more than {MOST_BYTES >> 20} MiB, and is not read. Nothing may be released")
    lines = content.decode("utf-8", errors="replace").split("\n")
    header = _fields(lines[0])
    if header is None or "dpconvex_budget" not in header:
        raise BudgetFileError(f"{path}: is no budget file. Make one with `dpconvex budget create`")
    if header["dpconvex_budget"] not in (1, VERSION):
        stated = header["dpconvex_budget"]
        what = f"is a budget of format {stated}, and this version of dpconvex reads {VERSION}"
        raise BudgetFileError(f"{path}: {what}. Use the version that wrote it")
    try:
        epsilon, delta = (float(_amount(header[name])) for name in ("epsilon", "delta"))
        total = _promise(epsilon, delta, header["unit"], header["neighboring"])
        renews, begins = range(121).index(header.get("renews", 0)), str(header.get("begins", ""))
        period = _period(renews, begins) if "renews" in header or "begins" in header else 0
    except (KeyError, TypeError, ValueError, ArithmeticError, DpconvexError) as error:
        raise BudgetFileError(f"{path}: its first line is no budget ({error})") from None
    version = int(header["dpconvex_budget"])
    entries = [line for line in lines[1:] if line.strip()]
    # Notes of what was released, and beginnings of such notes, pay for nothing.
    begun = (line.startswith('{"line"') or (len(line) > 2 and '{"line"'.startswith(line)) for line in entries)
    notes = [version > 1 and each for each in begun]
    spent = [_entry(line, renews > 0) for line, note in zip(entries, notes, strict=True) if not note]
    for text in compress(entries, notes):
        fields = _fields(text) or {}
        line = fields.get("line")
        if _counts(line, len(spent)) and line:
            known = {name: str(fields.get(name, "")) for name in ("certificate", "model")}
            spent[int(line) - 1] = replace(spent[int(line) - 1], **known)
    newest = max([period, *(entry.period for entry in spent if entry.period is not None)])
    return Account(total, str(header.get("data", "")), tuple(spent), renews, begins, newest, version)


def _fields(line: str) -> dict[str, Any] | None:
    """Return a line's fields: none of them if a name occurs twice in the line; None if it is no JSON object."""
    try:
        fields = json.loads(
            line, parse_float=Decimal, parse_int=Decimal, parse_constant=Decimal, object_pairs_hook=once_each
        )
    except TwiceError:
        return {}
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _entry(line: str, renews: bool) -> Spent:
    """Return what a line says, or its amounts if it was cut off after them; other lines count as all that was left."""
    fields = _fields(line)
    found = _AMOUNTS.match(line)
    if fields is None:
        fields = {} if found is None else {"epsilon": found[1], "delta": found[2]}
        whole, what = False, "(a line that was cut off)"
    else:
        whole, what = True, str(fields.get("what", ""))
    try:
        epsilon, delta = _amount(fields["epsilon"]), _amount(fields["delta"])
        PrivacyParams(float(epsilon), float(delta))
        period = fields.get("period") if renews else None
        if period is not None and not _counts(period, 120_000):
            raise ValueError("no period")
    except (KeyError, TypeError, ValueError, ArithmeticError, DpconvexError):
        return Spent(None, None, "(a line that cannot be read)", "", False)
    when, who = str(fields.get("time", "")), str(fields.get("who", ""))
    return Spent(epsilon, delta, what, when, whole, who, None if period is None else int(period))


def _counts(value: Any, most: int) -> bool:
    return isinstance(value, Decimal) and 0 <= value <= most and value == int(value)


def _amount(value: Any) -> Decimal:
    """Return an amount of the file, exact; raise `ValueError` unless it is the shortest decimal of some float."""
    amount = Decimal(value)
    if not isinstance(value, Decimal | str) or not amount.is_finite() or _decimal(float(amount)) != amount:
        raise ValueError("an amount is no number of a budget")
    return amount


def _unusable(path: Path, error: OSError) -> BudgetFileError:
    make = ". `dpconvex budget create` makes one" if isinstance(error, FileNotFoundError) else ""
    make = make if path.parent.exists() else f". There is no folder {path.parent}"
    return BudgetFileError(f"{path}: cannot be used as a budget file ({error.strerror}). Nothing may be released{make}")
