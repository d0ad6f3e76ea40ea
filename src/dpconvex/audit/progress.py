"""How an audit shows how far it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Track(Protocol):
    """Passes the items on, and shows how far the loop is."""

    def __call__(self, items: Iterable[_T], text: str, /) -> Iterable[_T]:
        """Return `items` again; `text` says what is being done."""
        ...


def untracked(items: Iterable[_T], text: str, /) -> Iterable[_T]:
    """Pass the items on and show nothing."""
    return items
