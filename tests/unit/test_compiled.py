"""Loops are compiled where nothing can be cached, too."""

from __future__ import annotations

from typing import Any

import numba
import pytest

from dpconvex import _compiled


def doubled(x: float) -> float:
    return 2 * x


@pytest.mark.parametrize("writable", [True, False])
def test_loops_are_compiled_with_a_cache_or_without(monkeypatch: pytest.MonkeyPatch, writable: bool) -> None:
    """In a read-only installation without a home folder numba raises, after a budget was charged."""
    asked: list[bool] = []
    njit = numba.njit

    def refusing(*function: Any, **options: Any) -> Any:
        if function:  # numba's own
            return njit(*function, **options)
        asked.append(options.pop("cache", False))
        if asked[-1] and not writable:
            raise RuntimeError("cannot cache function 'doubled': no locator available for file")
        return njit(**options)

    monkeypatch.setattr(numba, "njit", refusing)
    assert _compiled.njit(nogil=True)(doubled)(2.0) == 4.0
    assert asked == [True, False][: 2 - writable]
