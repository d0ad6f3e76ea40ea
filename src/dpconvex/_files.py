"""Files: reading small texts from anywhere, and writing files either wholly or not at all.

A pipe or a device might never end, so neither is read.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias

from dpconvex.errors import InvalidParameterError

AnyPath: TypeAlias = str | os.PathLike[str]
MOST_BYTES = 2**24  # largest size of a text file that is read
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  #: Faults of a disk without room, which name no file.


class TwiceError(ValueError):
    """A name occurs twice in one object of JSON."""


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse a name that occurs twice, for readers differ in which of the values they take."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise TwiceError("a name occurs twice in one object")
    return fields


def read_text(path: AnyPath) -> str:
    """Return the text of a regular file of at most `MOST_BYTES`; other encodings than UTF-8 raise `UnicodeDecodeError`.

    A missing, unreadable, irregular or too long file raises an `OSError`, whose ``strerror`` says what is wrong.
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


def write_atomically(
    path: AnyPath, content: str | bytes | Callable[[IO[bytes]], object],
    *, mode: int = 0o666, new: bool = False,
) -> None:  # fmt: skip
    """Write a file so that readers see the old file or the new one, never a part.

    The `content` is text (written as UTF-8), bytes, or a function that writes into the binary file it is given; when it
    raises, the exception goes on and an old file stays as it was. `mode` says who may read and write the file, less
    what the process's umask takes away. Links are followed; pipes, devices and standard output are written into.
    `InvalidParameterError` is raised when the folder is missing or cannot be written, and when the file exists but
    must be `new`.
    """
    output = os.fspath(path) == "/dev/stdout"
    straight = output or (os.path.exists(path) and not (new or os.path.isfile(path)))
    target = Path(path if new or straight else os.path.realpath(path))
    partial = target if straight else target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    flags = os.O_WRONLY | os.O_CLOEXEC | (0 if straight else os.O_CREAT | os.O_EXCL)
    try:
        file = open(os.dup(1) if output else os.open(partial, flags, mode), "wb")  # noqa: SIM115
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if straight:
                return
            os.fsync(file.fileno())
        try:
            (os.link if new else os.replace)(partial, target)  # a hard link never replaces a file
        except OSError as error:
            raise _unwritable(target, error) from None
    except OSError as error:
        if error.filename is None and error.errno in FULL:
            error.filename = os.fspath(path)
        raise
    finally:
        if not straight:
            partial.unlink(missing_ok=True)


def _unwritable(path: AnyPath, error: OSError) -> InvalidParameterError:
    requirement = f"must be a file that can be written ({error.strerror})"
    return InvalidParameterError("path", os.fspath(path), requirement, "Choose a writable folder that exists")
