"""Compilation of loops by numba, kept on disk where there is a place for it; imported with the loops alone."""

from collections.abc import Callable
from typing import Any

import numba


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function with numba's `options` when it is first called."""

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder that it may write to; a fit that was paid for must not fail for that
            return numba.njit(**options)(function)

    return compiled
