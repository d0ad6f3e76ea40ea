"""How commands speak: tables and JSON on stdout, progress and one-line errors on stderr."""

from __future__ import annotations

import functools
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpconvex.errors import DpconvexError, DpconvexWarning, HopelessPlanWarning

if TYPE_CHECKING:
    from dpconvex.privacy import PrivacyParams

_P = ParamSpec("_P")
_T = TypeVar("_T")


def one_line_errors(command: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn expected failures of a command into ``error: ...`` on stderr and exit code 2, and warnings into one line."""

    def tell(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, DpconvexWarning):
            print(f"warning: {message}", file=sys.stderr)
        else:
            usual(message, category, *place)

    usual = warnings.showwarning

    @functools.wraps(command)
    def guarded(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", HopelessPlanWarning)  # a command fits once: it counts no repeats
                warnings.showwarning = tell
                return command(*args, **options)
        except BrokenPipeError:
            raise  # the reader went away; click ends quietly
        except (DpconvexError, OSError) as error:
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
            raise typer.Exit(2) from None
        except MemoryError:
            print("error: this does not fit in memory", file=sys.stderr)
            raise typer.Exit(2) from None

    return guarded


def console(*, err: bool = False) -> Console:
    """Return a console for plain text: names from files are never read as markup."""
    return Console(stderr=err, markup=False, highlight=False, emoji=False)


def print_table(
    title: str, headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), marked: int = -1
) -> None:
    """Print a table that fits 80 columns: cells wrap.

    Parameters
    ----------
    title : str
        Printed above.
    headers : sequence of str
        One a column.
    rows : iterable of sequence of str
        Cells.
    right : iterable of int
        Columns aligned to the right (numbers); they never wrap.
    marked : int
        Row printed in bold.
    """
    numbers = set(right)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for k, header in enumerate(headers):
        justify = "right" if k in numbers else "left"
        table.add_column(Text(header), justify=justify, no_wrap=k in numbers, overflow="fold", header_style="dim")
    for k, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold" if k == marked else None)
    if title:
        console().print(Text(title, style="bold"))  # not the table's own title, which would wrap at the table's width
    console().print(table)


def print_text(text: str = "") -> None:
    """Print text, wrapped at words."""
    console().print(text)


def print_json(value: Any) -> None:
    """Print `value` as JSON; numbers that JSON does not know become null."""
    print(json.dumps(finite(value), indent=2, allow_nan=False))


def number(value: float, digits: int = 3) -> str:
    """Return a number for a table cell."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "-"


def budget_words(privacy: PrivacyParams) -> str:
    """Return epsilon, and delta where it is positive, for a table's title."""
    return f"epsilon {privacy.epsilon:g}" + (f", delta {privacy.delta:g}" if privacy.delta else "")


def working(text: str) -> AbstractContextManager[object]:
    """Show that something runs while the context is open: on standard error, on a terminal only."""
    return console(err=True).status(text)


def track(items: Iterable[_T], text: str, /) -> Iterable[_T]:
    """Pass the items on, with a progress bar on stderr where that is a terminal."""
    from rich import progress

    shown = console(err=True)
    return progress.track(items, text, console=shown, disable=not shown.is_terminal, transient=True)


def finite(value: Any) -> Any:
    """Return a JSON-ready value in which numbers that JSON does not know are None."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
