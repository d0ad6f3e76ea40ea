"""A first draft of a schema file, read off a table. Drafting is not private; the draft says so line by line."""

import re
from datetime import UTC, datetime
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrame

from dpconvex._arrow import pa
from dpconvex._types import Floats
from dpconvex.data import frames
from dpconvex.data.formulas import days, hours
from dpconvex.data.schema_toml import format_key, format_value
from dpconvex.data.targets import PRIVATE
from dpconvex.errors import SchemaError

MAX_CATEGORIES = 60  #: A text column with more distinct values is left out of a draft. The USA have up to 57 states.
MAX_CODES = 10  #: A column with at most this number of distinct whole numbers may hold codes; the draft says so.
MANY_MISSING = 0.02  #: From this share of empty cells on, a draft makes them a separate value, not only a remark.
SKEWED = 50  #: A draft suggests a logarithm if the largest number exceeds this multiple of the median (or of 1).
MOSTLY = 0.6  #: A text column holds numbers, dates or clock times if at least this share of its distinct texts are.
DENSE, SPARSE = 0.9, 0.01  #: Least share of its range that a column of row numbers holds in any order; in order.
IN_ORDER = 100  #: Least number of rows from which distinct whole numbers that increase down the file are row numbers.
MAX_WORDS = 5  #: Most texts of a column of numbers that a draft lists as missing.
DATE_FORMS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y%m%d", "%d-%b-%Y", "%d-%b-%y",
              "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")  # fmt: skip
"""Formats of dates that drafts know; the first that reads most of a column's texts."""
TAKEN = "Taken for codes of no value, as they lie far from all others"  #: Begins what a draft says of such numbers.
_LEAST_ROWS = 20  # a shorter table may hold different numbers by chance
_PEOPLE = ("patient", "person", "subject", "user", "customer", "client", "member", "account", "household", "employee",
           "student", "mrn", "ssn", "id")  # fmt: skip
_ID_WORDS = (*_PEOPLE, "nr", "no", "num", "number", "key", "uuid", "code", "zip", "zipcode", "postcode", "plz", "phone",
             "uid", "case", "visit", "encounter", "record", "row", "rownames", "unnamed", "index", "pid")  # fmt: skip
_WHOSE = {*_PEOPLE, "uid", "pid", "userid", "username", "email", "mail", "login", "phone", "msisdn", "nhs", "nino",
          "cust", "acct", "emp", "staff", "worker", "driver", "card", "iban", "policy", "policyholder", "case",
          "respondent", "participant", "resident", "voter", "borrower", "tenant", "visitor", "guest", "cookie",
          "device", "passenger", "citizen", "taxpayer", "donor", "player", "pupil", "panelist", "insured",
          "beneficiary"}  # fmt: skip
_TIMES = {"year", "date", "datetime", "timestamp", "time", "period", "quarter", "month", "week", "day", "hour"}
_WRITTEN = re.compile(r"[^\w.,-]{0,2}[-+]?\d[\d.,'\u00a0 ]*[^\w.,]{0,2}")  # numbers with separators, % or a currency
_PADDED = re.compile(r"0\d\d+")  # codes such as postal ones, and no numbers, where all have one length
_NOTHING = ("?", "-", ".", "na", "n/a", "nan", "null", "missing")  # words for no value
MARK = "  # read from the data: confirm from public knowledge"
_HEAD = """\
# Draft of a schema. It was read off the table, so it may reveal private facts and no private fit accepts it.
# Replace every line marked "read from the data" by public knowledge (documentation, the meaning of the column), or
# convince yourself that it is public; remove columns that are no features; then set confirmed = true.
confirmed = false
source = ""  # say here where the public knowledge comes from
"""
_SAME = f"# Every row holds the same value, so it says nothing: remove this column.{MARK}\n"
_RATES = "# rates = [...]  # if it is published how frequent the classes are: one share a class, adding up to 1\n"
_HOURS = 'date = "hour"  # clock times, as hours of the day\nlower = 0\nupper = 24\n'
FOREIGN = "Some texts are not UTF-8: convert the file, as with iconv -f latin1 -t utf-8, and draft again"
_NONE = "# No feature is left: every column is the target, the user or left out.\n"
_LINES = "# No cell holds a line break. Where none can, a line of a CSV file is a record, whatever stands in it.\n"
_USER = '# user = "..."  # if people have several rows: the column that says whose row it is. Then remove it below.\n'


def draft_schema(table: IntoDataFrame, target: str | None = None, user: str | None = None, ranges: bool = True) -> str:
    """Draft a schema file from a table.

    Drafting reads the private data: the draft is for the data's owner, who confirms it line by line.
    `Schema.require_confirmed` refuses it until ``confirmed = true`` is set.

    Parameters
    ----------
    table : pandas, polars, pyarrow or narwhals data frame
        The table.
    target : str, optional
        The column to predict.
    user : str, optional
        The column that says whose record it is. Without it the draft holds a commented line that asks for one.
    ranges : bool
        False: no range is read off the table but that of columns that hold 0 and 1 alone; ``range = "private"`` lets a
        fit find the others privately.

    Returns
    -------
    str
        TOML text. Lines read off the data end with a comment that says so. Columns that are no features as they are
        (types other than text, category, number and boolean; more than 60 distinct texts) are commented out.

    Raises
    ------
    InvalidDataError
        When `table` is no table in memory, or has two columns of one name.
    SchemaError
        When there is no column `target` or `user`, or they are the same.
    """
    named = tuple(name for name in (target, user) if name is not None)
    frame = frames.open_table(table, named)
    if target is not None and target == user:
        raise SchemaError(f"the table's column {target!r} cannot be both target and user. Name another one")
    texts = [each for each in map(frame.get_column, frame.columns) if each.dtype == nw.String]
    whole = not any(each.str.contains("\n", literal=True).any() for each in texts)
    lines = (_LINES + _line("line_breaks", False)) * whole
    parts = [_HEAD + lines + (_user_hint(frame) if user is None else f"user = {format_value(user)}\n")]
    if target is not None:
        parts.append(_target(frame.get_column(target), ranges))
    columns = [_column(frame.get_column(name), ranges) for name in frame.columns if name not in named]
    text = "\n".join([*parts, *columns, *[_NONE] * all(each.startswith("# [") for each in columns)])
    foreign = "\ufffd" in text
    try:
        for each in texts:
            each.to_arrow().validate(full=True)
    except ValueError:  # bytes that are no UTF-8, where no line shows them
        foreign = True
    return f"# {FOREIGN}.{MARK}\n{text}" if foreign else text


def _user_hint(frame: nw.DataFrame[Any]) -> str:
    """Return a commented line that asks for the user column; it names a column of repeated ids, if there is one."""
    for name in frame.columns:
        words = _words(name) or [""]
        if (
            _WHOSE.intersection(words)
            and len(frame) >= _LEAST_ROWS
            and (_names_rows(name) or words[-1] in _WHOSE | {"name"})
        ):
            try:
                codes = frames.label_codes(frame.get_column(name))
            except SchemaError:
                continue
            known = codes[codes >= 0]
            if MAX_CATEGORIES < len(np.unique(known)) < len(known):
                what = "Its values repeat: if rows with the same value belong to one person, take the # away"
                return f"# user = {format_value(name)}{MARK}\n# {what}.\n"
    return _USER


def _words(name: Any) -> list[str]:
    return re.findall("[a-z]+", re.sub("([a-z])([A-Z])", r"\1 \2", str(name)).lower())


def _names_rows(name: Any) -> bool:
    """Whether a column's name means ids: ``patient``, ``id_patient`` and ``visit no``, but not ``patient weight``."""
    words = _words(name)
    return bool(words) and (words[0] == "id" or words[-1] in _ID_WORDS)


def _column(series: frames.Series, ranges: bool) -> str:
    head = f"[columns.{format_key(str(series.name))}]\n"
    if not isinstance(series.name, str) or not series.name:
        return _left_out(head, "its name is no text. Name it to use it")
    if isinstance(series.dtype, nw.Time):
        return head + _HOURS + _apart(hours(series))
    if isinstance(series.dtype, nw.Date | nw.Datetime):
        clock = hours(series) if isinstance(series.dtype, nw.Datetime) else np.zeros(1)
        return head + _dates(days(series), "", ranges, series.name, clock)
    try:
        values = frames.distinct_values(series)
    except SchemaError:
        return _left_out(head, f"type {frames.type_name(series)} is no feature. Derive numbers or categories from it")
    if series.dtype == nw.Boolean:
        return head + _line("categories", ["false", "true"], read=False)
    missing, found = list[str](), list[str]()
    if not frames.is_float(values):
        found, values = distinct(values), None
        written = frames.texts_series(found)
        clock = hours(written)
        for form in DATE_FORMS:
            if len(found) > 2 and np.mean(~np.isnan(days(written, form))) >= MOSTLY:
                return head + _dates(days(series, form), form, ranges, series.name, clock)
        if len(found) > 2 and np.mean(~np.isnan(clock)) >= MOSTLY:
            return head + _HOURS + _apart(hours(series))
        if (values := _mostly_numbers(found)) is not None:
            missing = [text for text, value in zip(found, values, strict=True) if not value.is_valid]
            if len(missing) > MAX_WORDS:
                head += f"# {len(missing)} texts in it are no numbers, and count as missing, listed or not.{MARK}\n"
                missing = missing[:MAX_WORDS]
    if values is not None:
        numbers = _finite(values)
        if _is_id(series, numbers):
            return _left_out(head, "whole numbers that seem to name rows, people or places")
        sentinels = _sentinels(numbers)
        numbers = numbers[~np.isin(numbers, sentinels)]
        missing += (codes := _codes(sentinels))
        remedy = "Where one is a value, take it out of `missing` and widen the range"
        head += f"# {TAKEN}: {', '.join(codes)}. {remedy}.{MARK}\n" if codes else ""
        note = _comment(f"Few distinct whole numbers. If they are codes: categories = {format_value(_codes(numbers))}")
        head += _SAME if len(values) == 1 and not series.null_count() else ""
        if ranges and _is_skewed(series, numbers):
            head += f'# Most numbers are far below the largest: transform = "log1p" may suit them.{MARK}\n'
        whole = np.unique(numbers)
        texts = [f"{number:.0f}" for number in whole if 19000101 <= number <= 21001231 and number % 1 == 0]
        if len(texts) > 2 and np.sum(~np.isnan(days(frames.texts_series(texts), "%Y%m%d"))) >= MOSTLY * len(whole):
            head += f'# If they are dates: date = "month" and format = "%Y%m%d" in the place of bounds.{MARK}\n'
        lines = head + (note + MARK.strip() + "\n") * _may_be_codes(numbers) + _range(numbers, ranges)
        cells = frames.numbers(series, texts=True)
        lines += _apart(np.where(np.isin(cells, sentinels), np.nan, cells), bool(missing))
        return lines + (_line("missing", missing) if missing else "")
    return _categories(series, found, head)


def _categories(series: frames.Series, found: list[str], head: str) -> str:
    if not 0 < len(found) <= MAX_CATEGORIES:
        return _left_out(head, _many(found, "distinct texts. If it is a category, list its public values"))
    missing = [text for text in found if text.lower() in _NOTHING]
    found = [text for text in found if text not in missing] or found
    head += _SAME if len(found) == 1 and not series.null_count() else ""
    other = "other = true  # a level for missing and unlisted values\n"
    if len(found) == 2:  # else the first level would take what is missing
        other = f"# {other[:-1]}{MARK}\n" if series.null_count() > MANY_MISSING * len(series) else ""
    noted = _line("missing", missing) if missing and missing != found else ""
    return head + _line("categories", found) + other + noted


def _many(found: list[str], what: str) -> str:
    written = [_WRITTEN.fullmatch(text) is not None and not _PADDED.fullmatch(text) for text in found]
    if np.mean(written or [False]) >= MOSTLY:
        return "numbers with separators, decimal commas, % or a currency. Write them plainly, as 1234.5"
    return f"{len(found)} {what}" if found else "every cell is empty"


def _apart(cells: Floats, coded: bool = False) -> str:
    """Return the lines that keep missing cells apart if some are missing or `coded` as numbers; a remark if few are."""
    if not (share := np.mean(np.isnan(cells)) if len(cells) else 0.0) and not coded:
        return ""
    note = f"# Some numbers are missing. The next line keeps them apart, in synthetic data too.{MARK}\n"
    return note + ("" if share > MANY_MISSING else "# ") + _line("indicator", True)


def _dates(found: Floats, form: str, ranges: bool, name: str, clock: Floats) -> str:
    """Return the lines of a column of dates, days since 1970; as ages, with the other parts as remarks."""
    hour, apart = "", _apart(found)
    if np.mean(~np.isnan(clock)) >= MOSTLY and np.nanmin(clock) < np.nanmax(clock):
        formula = f"formula = {format_value(f'hours({format_value(name)})')}\n"
        hour = f"[columns.{format_key(f'{name} hour')}]\n{formula}lower = 0\nupper = 24\n"
        hour = "\n" + _left_out(hour, "the time of day. Take the # away from the lines above to use it, too")
    known = found[~np.isnan(found)].astype(np.int64)
    first, last = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    at = str(np.datetime64(last, "D"))
    without = "`at`, bounds and indicator" if apart else "`at` and bounds"
    lines = f'date = "age"  # days before `at`. Or date = "month", or "weekday", without {without}\n'
    lines += f"format = {format_value(form)}{MARK}\n" if form not in ("", DATE_FORMS[0]) else ""
    if not ranges:
        today = str(datetime.now(UTC).date())
        return lines + _line("at", today, read=False) + _line("range", PRIVATE, read=False) + apart + hour
    return lines + _line("at", at) + _line("lower", 0) + _line("upper", max(1, last - first)) + apart + hour


def _is_id(series: frames.Series, numbers: Floats) -> bool:
    """Whether distinct whole numbers name rows: many in a column called so, or one a row, in order or with few gaps."""
    n, named = len(series), _names_rows(series.name)
    if len(numbers) <= MAX_CATEGORIES or not np.all(numbers == np.floor(numbers)):
        return False
    if named or len(numbers) < n or _TIMES & {word.rstrip("s") for word in _words(series.name)}:
        return named
    in_order = n >= IN_ORDER and np.all(np.diff(frames.numbers(series, texts=True)) > 0)
    return bool(n >= (SPARSE if in_order else DENSE) * (numbers.max() - numbers.min() + 1))


def _sentinels(numbers: Floats) -> Floats:
    """Return numbers such as -999, 9999 or 0 that lie far from all others: they often stand for no value."""
    sizes = [10.0**k - 1 for k in range(1, 8)] + [8.0 * (10**k - 1) / 9 for k in range(2, 8)]
    if len(np.unique(numbers)) > MAX_CODES:  # of many numbers, all within a factor of two, 0 is none
        sizes.append(0.0)
    known = np.isin(np.abs(numbers), sizes) | (numbers == -1)
    rest = numbers[~known]
    if len(rest) < 3:
        return rest[:0]
    low, high = rest.min(), rest.max()
    far = (numbers > high + (high - low)) | (numbers < low - (high - low)) | ((numbers < 0) & (low >= 0))
    return np.unique(numbers[known & far])


def _target(series: frames.Series, ranges: bool) -> str:
    head, values = "[target]\n" + _line("name", series.name, read=False), frames.distinct_values(series)
    share, nothing, words = series.null_count() / max(1, len(series)), list[str](), ""
    if not frames.is_float(values):
        parsed = _mostly_numbers(distinct(values))
        if parsed is not None:
            values, share = parsed, np.mean(np.isnan(frames.numbers(series, texts=True)))
        else:
            nothing = [text for text in distinct(values) if text.lower() in _NOTHING]
            share += np.mean(frames.codes(series, ("", *nothing)) >= 0) if len(series) else 0
            words = f" ({', '.join(nothing)} or an empty cell)" if nothing else ""
    if share:
        counts = "the first class, or the middle of the range: leave them out of the file?"
        head += f"# {share:.2%} of the rows have none here{words}. They count as {counts}{MARK}\n"
    numeric, boolean = frames.is_float(values), series.dtype == nw.Boolean
    if numeric and not boolean and not _may_be_codes(_finite(values)):
        if ranges and _is_skewed(series, _finite(values)):
            head += f"# Most numbers are far below the largest, with which noise grows: a smaller upper may do.{MARK}\n"
        if _may_be_codes(_finite(values), MAX_CATEGORIES):
            head += f"# If they are codes, not numbers: classes in the place of the next lines.{MARK}\n"
        return head + _range(_finite(values), ranges)
    found = ["false", "true"] if boolean else _codes(_finite(values)) if numeric else distinct(values)
    found = [text for text in found if text not in nothing]
    if not 2 <= len(found) <= MAX_CATEGORIES:
        written = frames.texts_series(found)
        times = (hours(written), *(days(written, form) for form in DATE_FORMS))
        if len(found) > 2 and any(np.mean(~np.isnan(each)) >= MOSTLY for each in times):
            return _left_out(head, "dates, clock times or durations. A target must be numbers, as minutes, or classes")
        return _left_out(head, _many(found, "classes were found. List the public classes"))
    note = "# The first class takes missing and unlisted labels; of two classes, the second is the positive one.\n"
    note += _comment(f"The positive class is {found[1]!r:.60}.")[:-1] + f"{MARK}\n" if len(found) == 2 else ""
    if numeric and not boolean and len(found) > 2:
        note += f"# If they are numbers, not codes: lower = {found[0]} and upper = {found[-1]} in their place.{MARK}\n"
    return head + note + _line("classes", found, read=not boolean) + _RATES


def _mostly_numbers(texts: list[str]) -> Any:
    """Return distinct texts as arrow numbers, null where one is none; None for two or fewer, codes, or mostly none."""
    if any(map(_PADDED.fullmatch, texts)) and len({len(text) for text in texts if text.isdigit()}) == 1:
        return None
    parsed = frames.parse_numbers(frames.object_texts(np.array(texts, dtype=object)))
    return parsed if len(texts) > 2 and len(parsed) - parsed.null_count >= MOSTLY * len(parsed) else None


def _left_out(head: str, reason: str) -> str:
    return f"{_comment(head)}# Left out: {reason}.{MARK}\n"


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())


def _line(key: str, value: Any, read: bool = True) -> str:
    return "".join(f"{line}{MARK if read else ''}\n" for line in f"{key} = {format_value(value)}".splitlines())


def _range(numbers: Floats, ranges: bool) -> str:
    if not ranges and not np.array_equal(np.unique(numbers), (0, 1)):  # yes and no: their meaning says the range
        return _line("range", PRIVATE, read=False)
    low, high = span(numbers)
    step = _step(np.unique(numbers))
    return _line("lower", low) + _line("upper", high) + (_line("step", step) if step else "")


def _step(numbers: Floats) -> float:
    """Return the largest of the steps 1, 2, 2.5 and 5 times a power of ten, from 0.0001 on, that divides all numbers.

    It is 0 where none does, and at most 1 for two numbers, which may share a divisor by chance.
    """
    # Numbers of four decimals at most; whole numbers have none, however large.
    decimal = (np.rint(numbers) == numbers) | (np.round(np.clip(numbers, -1e15, 1e15), 4) == numbers)
    if not len(numbers) or not np.all(decimal & (np.abs(numbers) < 1e300)):
        return 0.0
    whole = np.rint(numbers * 1e4)  # in units of 0.0001
    for size in [digits * 10**power for power in range(9, -1, -1) for digits in (50, 25, 20, 10)] + [5, 2, 1]:
        rest = np.fmod(numbers, size / 1e4) if size >= 1e4 else np.fmod(whole, size)
        if not rest.any() and (size <= 1e4 or len(numbers) > 2):
            return size / 1e4
    return 0.0


def span(numbers: Floats) -> tuple[float, float]:
    """Return the least and the largest number, or where they are equal a larger end."""
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
    return low, high if low < high else low + max(1.0, abs(low))


def _finite(values: Any) -> Floats:
    numbers = frames.with_nan(values)
    return numbers[np.isfinite(numbers)]


def _is_skewed(series: frames.Series, values: Floats) -> bool:
    """Whether none of a column's distinct numbers is negative, and the largest is many times the middle one of all."""
    low, high = values.min(initial=0), values.max(initial=0)
    if low < 0 or high <= SKEWED:
        return False
    numbers = frames.numbers(series, texts=True)
    return bool(high > SKEWED * np.median(numbers[np.isfinite(numbers)]))


def _may_be_codes(numbers: Floats, most: int = MAX_CODES) -> bool:
    return 2 <= len(np.unique(numbers)) <= most and bool(np.all(numbers == np.floor(numbers)))


def _codes(numbers: Floats) -> list[str]:
    return [format_value(float(number)) for number in np.unique(numbers)]


def distinct(values: Any) -> list[str]:
    """Return distinct texts of an arrow array, sorted; empty ones and missing cells left out."""
    # As bytes first: text that was not checked on reading may be no valid Unicode.
    found = values.drop_null().cast(pa.large_binary()).to_pylist()
    return sorted({raw.decode("utf-8", "replace") for raw in found} - {""})
