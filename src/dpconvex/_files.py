"""Small text files from anywhere: schemas, certificates. A pipe or a device might never end, so neither is read."""

from __future__ import annotations

import errno
import os
import stat

MOST_BYTES = 2**24
"""Of a text file."""


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a regular file of at most `MOST_BYTES`.

    Raises
    ------
    OSError
        If there is no such file, it cannot be read, is no regular file or is too long; ``strerror`` says which.
    UnicodeDecodeError
        If it is not UTF-8.
    """
    try:
        mode = os.stat(path).st_mode  # before opening: a pipe would wait for a writer
    except ValueError:  # a NUL in the name
        raise OSError(errno.EINVAL, "no name of a file", os.fspath(path)) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "a pipe or a device, and a regular file is needed", os.fspath(path))
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"more than {MOST_BYTES >> 20} MiB", os.fspath(path))
    return content.decode("utf-8")
