"""How commands speak: tables and JSON on stdout, progress and one-line errors on stderr."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpconvex.errors import DpconvexError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def one_line_errors(command: Callable[_P, _T]) -> Callable[_P, _T]:
    """Turn expected failures of a command into ``error: ...`` on stderr and exit code 2."""

    @functools.wraps(command)
    def guarded(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return command(*args, **options)
        except BrokenPipeError:
            raise  # the reader went away; click ends quietly
        except (DpconvexError, OSError) as error:
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
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
    table = Table(
        title=Text(title), title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for k, header in enumerate(headers):
        justify = "right" if k in numbers else "left"
        table.add_column(Text(header), justify=justify, no_wrap=k in numbers, overflow="fold", header_style="dim")
    for k, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold" if k == marked else None)
    console().print(table)


def print_text(text: str = "") -> None:
    """Print text, wrapped at words."""
    console().print(text)


def print_json(value: Any) -> None:
    """Print `value` as JSON; numbers that JSON does not know become null."""
    print(json.dumps(_finite(value), indent=2, allow_nan=False))


def number(value: float, digits: int = 3) -> str:
    """Return a number for a table cell."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "-"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
