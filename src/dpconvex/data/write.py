"""Files that are either wholly written or not touched."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import IO

from dpconvex.errors import InvalidParameterError


def write_atomically(path: str | PathLike[str], content: str | bytes | Callable[[IO[bytes]], object]) -> None:
    """Write a file so that readers see the old file or the new one, never a part.

    Parameters
    ----------
    path : path
        The file, in a folder that exists; replaced when it exists.
    content : str, bytes or callable
        Text (written as UTF-8), bytes, or a function that writes into the binary file it is given. When the function
        raises, the exception goes on and an old file stays as it was.

    Raises
    ------
    InvalidParameterError
        When the folder is missing or cannot be written.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    try:
        file = open(partial, "xb")  # noqa: SIM115  (only opening may be blamed on the path)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        _replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _replace(partial: Path, target: Path) -> None:
    try:
        os.replace(partial, target)
    except OSError as error:
        raise _unwritable(target, error) from None


def _unwritable(path: str | PathLike[str], error: OSError) -> InvalidParameterError:
    requirement = f"must be a file that can be written ({error.strerror})"
    return InvalidParameterError("path", os.fspath(path), requirement, "Choose a writable folder that exists")
