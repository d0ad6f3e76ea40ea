"""``dpconvex sign``: say who stands behind a certificate, and through it behind a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpconvex.cli._console import one_line_errors, print_text
from dpconvex.cli._folder import CERTIFICATE
from dpconvex.errors import InvalidParameterError


@one_line_errors
def sign(
    certificate: Annotated[
        Path | None, typer.Argument(help="certificate.json, or the folder of a model that holds it.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file of your Ed25519 private key.")] = None,
    new_key: Annotated[
        Path | None, typer.Option(help="Write a new private key to this file, and its public half beside it.")
    ] = None,
) -> None:
    """Write an Ed25519 signature beside a certificate that passes verification. Needs dpconvex[sign]."""
    from dpconvex.privacy.certificate import new_key as make_key, sign as write_signature

    if (certificate is None) != (key is None) or (certificate is None) == (new_key is None):
        what = "must be given with a certificate, or --new-key FILE alone"
        raise InvalidParameterError("key", None if key is None else str(key), what, "See dpconvex sign --help")
    if new_key is not None:
        public = make_key(new_key)
        print_text(f"Wrote {new_key}: keep it to yourself. Wrote {public}: give it to whoever verifies.")
        return
    assert certificate is not None
    assert key is not None
    from dpconvex.verification import verify

    failed = [check for check in verify(certificate).checks if not check.passed]
    if failed:
        what = f"fails verification: {failed[0].name} ({failed[0].detail})"
        raise InvalidParameterError("certificate", str(certificate), what, "Run dpconvex verify on it")
    where = write_signature(certificate / CERTIFICATE if certificate.is_dir() else certificate, key)
    print_text(f"Wrote {where}")
