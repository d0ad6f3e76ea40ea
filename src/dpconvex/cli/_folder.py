"""A folder of outputs that appears whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpconvex.errors import InvalidParameterError

MODEL, CERTIFICATE, REPORT, MEDIAN = "model.skops", "certificate.json", "report.html", "median.json"
SYNTHETIC, SIGNATURE = "synthetic.csv", "certificate.json.sig"
"""Files of a folder of outputs."""


@contextmanager
def model_folder(path: Path, *, force: bool) -> Iterator[Path]:
    """Give a hidden working folder beside `path` that takes its place when the block ends well.

    All refusals come first, before a block spends privacy budget. When the block fails, or is interrupted, the
    working folder is removed and `path` is as it was.

    Parameters
    ----------
    path : Path
        The folder to create. An empty folder may exist already.
    force : bool
        Replace an existing model folder, as a whole. A folder that holds anything else is never replaced.

    Yields
    ------
    Path
        Where to write.
    """
    path = path.resolve()
    _check(path, force)
    working = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        working.mkdir()
    except OSError as error:
        raise InvalidParameterError(
            "out", str(path), f"cannot be created here ({error.strerror})", "Choose a folder that you may write to"
        ) from None
    try:
        yield working
        _take_place(working, path)
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
    if names and not names <= {MODEL, CERTIFICATE, REPORT, MEDIAN, SYNTHETIC, SIGNATURE}:
        raise InvalidParameterError("out", str(path), "holds other files than a model", "Choose another folder")
    if names and not force:
        raise InvalidParameterError("out", str(path), "holds a model already", "Add --force to replace it")


def _take_place(working: Path, path: Path) -> None:
    """Rename `working` to `path`. An old model folder is moved aside first and comes back if that fails."""
    old = path.with_name(f"{working.name}.old")
    replacing = path.exists()
    if replacing:
        os.rename(path, old)
    try:
        os.rename(working, path)
    except BaseException:
        if replacing:
            os.rename(old, path)
        raise
    if replacing:
        shutil.rmtree(old, ignore_errors=True)
