"""Output of commands: tables and JSON on stdout, one-line errors on stderr, and folders that appear whole or not."""

import difflib
import functools
import json
import math
import os
import re
import secrets
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, final

import typer
from rich.console import Console
from rich.containers import Lines
from rich.table import Table
from rich.text import Text

import dpconvex
from dpconvex import _progress, _validate
from dpconvex._files import FULL, write_atomically
from dpconvex.errors import DpconvexError, DpconvexWarning, InvalidParameterError, RepeatedFitWarning, warn

MODEL, CERTIFICATE, REPORT, MEDIAN = "model.skops", "certificate.json", "report.html", "median.json"
FOUND = "schema.found.toml"  # the schema with the ranges that a fit found
SYNTHETIC, GAME, SIGNATURE = "synthetic.csv", "game.json", "certificate.json.sig"
METRICS, EVALUATED = "metrics.json", "evaluation.certificate.json"  #: Names of files in an output folder.
PAID: ContextVar[str] = ContextVar("PAID", default="")  #: What the running command has charged to a budget, in words
RELEASED: ContextVar[str] = ContextVar("RELEASED", default="")  #: Where the running command's release is, in words
working = _progress.shown  #: Shows on a terminal what runs while the context is open
_P = ParamSpec("_P")
_T = TypeVar("_T")


def one_line_errors(command: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn expected failures of a command into ``error: ...`` and exit code 2 (1 after a release); warnings, too."""

    def tell(given: Mapping[str, Any], message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, DpconvexWarning):
            print(f"warning: {_spoken(str(message), given)}", file=sys.stderr)
        else:
            usual(message, category, *place)

    usual = warnings.showwarning

    @functools.wraps(command)
    def guarded(*args: _P.args, **options: _P.kwargs) -> _T:
        PAID.set("")
        RELEASED.set("")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", DpconvexWarning)
                warnings.simplefilter("ignore", RepeatedFitWarning)  # a command fits once
                warnings.showwarning = functools.partial(tell, options)
                found = command(*args, **options)
                print(end="", flush=True)  # a full disk shows here at the latest
                return found
        except (KeyboardInterrupt, SystemExit, BrokenPipeError) as stop:
            if BrokenPipeError not in (type(stop), type(stop.__context__)):  # else the reader went away
                print(f"Aborted{RELEASED.get()}{PAID.get()}.", file=sys.stderr)
            raise
        except (DpconvexError, OSError, MemoryError, ModuleNotFoundError) as error:
            what = "this does not fit in memory" if isinstance(error, MemoryError) else " ".join(str(error).split())
            what = _spoken(what, options) if isinstance(error, DpconvexError) else what
            if isinstance(error, ModuleNotFoundError):
                if (name := (error.name or "").split(".")[0]) not in _validate.EXTRAS:
                    raise
                what = f"{name}: must be installed for this. Use pip install 'dpconvex[{_validate.EXTRAS[name]}]'"
            if isinstance(error, OSError) and (RELEASED.get() or (error.filename is None and error.errno in FULL)):
                what = f"standard output could not be written ({error.strerror})"
            done = RELEASED.get() + PAID.get()
            print(f"error: {what.removesuffix('.') + done if done else what}", file=sys.stderr)
            raise typer.Exit(1 if RELEASED.get() else 2) from None

    return guarded


def _spoken(text: str, options: Mapping[str, Any]) -> str:
    """Return a message of the library with the running command's `options` as the command line spells them."""
    if text.startswith("Found array with 0 sample"):  # scikit-learn's words, without the file
        return f"{options.get('table') or options.get('points')}: holds no records; at least 1 is needed"
    begins = text.find(": ")

    def option(found: re.Match[str]) -> str:
        name, value = found.groups()
        name = "neighbors" if name == "neighboring" else name  # of budgets and promises
        if name not in {*options, "inference"}:  # an option of the fits of models that other commands read
            return found[0]
        if found.end() <= begins and value not in ("None", "True", "False"):  # a message begins with what was given
            return f"{name}={value}"
        flag = f"--{name.replace('_', '-')}"
        return {"None": flag, "True": flag, "False": f"no {flag}"}.get(value, f"{flag} {value.strip(chr(39))}")

    return re.sub(r"(?<![/\w.-])([a-z_0-9]+)=('[^' ]*'|[\w.+-]*\w)(?!/)", option, text)


def unknown(name: str | None, names: Collection[str], requirement: str, command: str) -> InvalidParameterError:
    """Return the error for a name that `command` does not list; similar names are offered."""
    within = [known for known in names if name and name in known]
    close = within[:3] or difflib.get_close_matches(name or "", names, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    return InvalidParameterError("name", name, requirement, f"{hint}dpconvex {command} --list shows them")


def console(*, err: bool = False) -> Console:
    """Return a console for plain text: names from files are never read as markup."""
    width = 80 if os.environ.get("COLUMNS") == "0" else None  # some terminals do not know theirs
    return Console(stderr=err, markup=False, highlight=False, emoji=False, width=width)


@final
class _Cell(Text):
    """Text whose words, where they are wider than the column, are broken behind a sign between their parts."""

    def wrap(self, console: Console, width: int, **options: Any) -> Lines:  # pyright: ignore
        part = rf"\S{{1,{width}}}(?!\S)|\S{{1,{max(1, width - 1)}}}[-_=/,.]|\S{{1,{width}}}"
        words = re.sub(r"\S+", lambda word: "\n".join(re.findall(part, word[0])), self.plain)
        return Text(words, self.style).wrap(console, width, **options)


def print_table(
    title: str, headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), marked: int = -1,
    whole: Iterable[int] = (),
) -> None:  # fmt: skip
    """Print a table that fits 80 columns: cells wrap, those of columns `right`, `whole` never; row `marked` is bold."""
    numbers, unbroken, rows = set(right), {*right, *whole}, list(rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for k, header in enumerate(headers):
        justify = "right" if k in numbers else "left"
        long = max((len(row[k]) for row in rows), default=0)
        wide = long if k in numbers else min(12, long) if k == 0 else None  # never squeezed out
        shape: Any = {"justify": justify, "no_wrap": k in unbroken, "overflow": "fold", "min_width": wide}
        table.add_column(Text(header), header_style="dim", **shape)
    for k, row in enumerate(rows):
        table.add_row(*map(_Cell, row), style="bold" if k == marked else None)
    if title:
        console().print(Text(title, style="bold"))  # not the table's own title, which would wrap at the table's width
    console().print(table)


def print_text(text: str = "") -> None:
    """Print text, wrapped at words; what does not fit a line goes on below its first word."""
    shown = console()
    for line in text.split("\n"):
        begins = re.match(r" *(- |[A-Z][a-z]+: +)?", line)
        indent = len(begins[0]) if begins else 0
        first, *rest = Text(line[indent:]).wrap(shown, max(20, shown.width - indent)) or [Text()]
        shown.print(Text(line[:indent]) + first, *(Text(" " * indent) + each for each in rest), sep="\n")


def print_json(value: Any) -> None:
    """Print `value` as JSON."""
    print(json_text(value), end="")


def json_text(value: Any) -> str:
    """Return `value` as JSON; numbers that JSON does not know become null."""
    return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), indent=2) + "\n"


def print_files(certificate: "dpconvex.PrivacyCertificate", folder: Path, *names: str, **facts: Any) -> None:
    """Print as JSON where files were written, what they hold, and their certificate."""
    files = [str(folder / name) for name in names if (folder / name).exists()]  # a page could perhaps not be made
    print_json({"files": files, **facts, "certificate": certificate.to_dict()})


def print_released(certificate: "dpconvex.PrivacyCertificate", folder: Path, *names: str, metrics: Any = None) -> None:
    """Say what was promised, state the `metrics` on a test file, if any, and say where the files are."""
    print_text(f"\n{certificate.explain(reasons=False)}\nReasons: dpconvex verify {shlex.quote(str(folder))} --explain")
    if metrics is not None:
        print_text(f"\nTest file, NOT PRIVATE: {metrics.text()}.")
    *others, last = (name for name in names if (folder / name).exists())  # a page could perhaps not be made
    print_text(f"\nWrote {', '.join(others)} and {last} to {folder}")


def write_page(path: str | Path, template: str, **content: Any) -> None:
    """Write an HTML page from one of this folder's templates, wholly or not at all."""
    _validate.installed("jinja2")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("dpconvex.cli")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    write_atomically(path, pages.get_template(template).render(**content))


@contextmanager
def own_risk(page: str) -> Iterator[None]:
    """Write a page in the block; a fault there must not lose what was released and paid for."""
    try:
        _validate.installed("jinja2", "matplotlib")
        yield
    except OSError:  # a disk that is full: nothing of the folder is kept
        raise
    except Exception as error:
        warn(DpconvexWarning, f"{page} could not be made ({type(error).__name__}: {error}). All else is written")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for a table cell, a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def budget_words(privacy: "dpconvex.PrivacyParams") -> str:
    """Return epsilon, and delta where it is positive, for a table's title."""
    return f"epsilon {privacy.epsilon:g}" + (f", delta {privacy.delta:g}" if privacy.delta else "")


@contextmanager
def model_folder(path: Path, *, force: bool) -> Iterator[Path]:
    """Give a hidden folder that takes the place of `path` when the block ends well; refusals come first."""
    path = path.resolve()
    _check(path, force)
    working = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        working.mkdir()
    except OSError as error:
        what, remedy = f"cannot be created here ({error.strerror})", "Choose a folder that you may write to"
        raise InvalidParameterError("out", str(path), what, remedy) from None
    try:
        yield working
        _take_place(working, path, force)
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(str(working)):  # mostly one to be read
            raise
        what = f"could not be written ({error.strerror}): nothing is kept, and what a budget paid is spent"
        raise InvalidParameterError("out", str(path), what, "Make room, or choose another folder") from None
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _check(path: Path, force: bool) -> None:
    if path == Path.cwd() or path.is_mount():
        raise InvalidParameterError("out", str(path), "must be a folder of its own", "For example --out model")
    if not path.parent.is_dir():
        raise InvalidParameterError("out", str(path), "must lie in an existing folder", f"Create {path.parent} first")
    if path.exists() and not path.is_dir():
        raise InvalidParameterError("out", str(path), "must be a folder, and a file of this name exists", "")
    names = {entry.name for entry in path.iterdir()} if path.exists() else set()
    written = {MODEL, CERTIFICATE, REPORT, FOUND, MEDIAN, SYNTHETIC, GAME, SIGNATURE, METRICS, EVALUATED}
    if names and not names <= written:
        raise InvalidParameterError("out", str(path), "holds other files than a release has", "Choose another folder")
    if names and not force:
        raise InvalidParameterError("out", str(path), "holds a release already", "Add --force to replace it")


def _take_place(working: Path, path: Path, force: bool) -> None:
    """Rename `working` to `path`, or beside it if another run wrote there meanwhile; `force` moves that aside first."""
    old = path.with_name(f"{working.name}.old")
    if replacing := force and path.exists():
        os.rename(path, old)
    try:
        os.rename(working, path)  # which may be an empty folder
    except BaseException as error:
        if replacing and not os.path.lexists(path):
            os.rename(old, path)
        elif os.path.lexists(path) and isinstance(error, OSError):
            os.rename(working, beside := path.with_name(working.name[1:]))
            RELEASED.set(f". This release is in {beside}")
            raise InvalidParameterError("out", str(path), "was written by another run meanwhile") from None
        raise
    RELEASED.set(f". This release is in {path}")
    if replacing:
        shutil.rmtree(old, ignore_errors=True)
