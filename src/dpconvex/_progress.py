"""Progress of long work, on a terminal or in a notebook: how many of the planned releases are done, which is public.

Ledgers and sessions report each release, and `shown` draws the bar; nothing else about a run is shown. The fits inside
a private search are muted, as it is secret which candidates it drew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Timer
from typing import Any, Literal

DELAY = 2.0  # seconds that work may take before anything is shown


class _Bar:
    """A bar for the reporter that plans the most steps; it pulses until a reporter has more than one step."""

    def __init__(self, progress: Any, text: str) -> None:  # a bar of rich, which loads slowly
        self.progress, self.task = progress, progress.add_task(text, total=None)
        self.reporter: object = None
        self.total = 1

    def advance(self, reporter: object, done: int, total: int) -> None:
        if total > self.total:
            self.reporter, self.total = reporter, total
        if reporter is self.reporter:
            self.progress.update(self.task, completed=done, total=total)


_bar: ContextVar[_Bar | Literal[False] | None] = ContextVar("progress", default=None)  # False: muted


def advance(reporter: object, done: int, total: int) -> None:
    """Report that `done` of a public number `total` of steps are done; this does nothing unless a bar is `shown`."""
    if bar := _bar.get():
        bar.advance(reporter, done, total)


@contextmanager
def shown(text: str, wanted: Any = True) -> Iterator[None]:
    """Show a bar on stderr while the block runs, after `DELAY` seconds, but only in notebooks and terminals."""
    if not wanted or _bar.get() is not None:
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not (console.is_terminal or console.is_jupyter):
        yield
        return
    progress = Progress(console=console, transient=True)
    before, timer = _bar.set(_Bar(progress, text)), Timer(DELAY, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        _bar.reset(before)
        timer.cancel()
        timer.join()
        if progress.live.is_started:
            progress.stop()


@contextmanager
def muted() -> Iterator[None]:
    """Show no progress of what the block releases."""
    before = _bar.set(False)
    try:
        yield
    finally:
        _bar.reset(before)
