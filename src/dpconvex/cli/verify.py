"""``dpconvex verify`` and ``sign``: check a certificate without the data, and say who stands behind it."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import dpconvex
from dpconvex._files import read_text
from dpconvex.cli import _options
from dpconvex.cli._output import CERTIFICATE, MODEL, one_line_errors, print_json, print_table, print_text
from dpconvex.errors import InvalidParameterError


@one_line_errors
def verify(
    certificate: Annotated[Path, typer.Argument(help="certificate.json, or the folder that holds it.")],
    public_key: Annotated[Path | None,
        typer.Option(help="PEM file: the signature beside the certificate must be of this key.")] = None,
    explain: Annotated[bool,
        typer.Option("--explain", help="Say what was released, by which lemmas, and what it rests on.")] = False,
    as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Recompute the privacy cost, plan again, and compare all of the certificate; in a folder, with the model as well.

    Exit code 1 if a check fails.
    """
    from dpconvex.privacy.verify import NOT_CHECKED

    path = certificate / CERTIFICATE if certificate.is_dir() else certificate
    try:
        read_text(path)  # an unreadable file is an error of usage; a malformed one is a failed check
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise InvalidParameterError("certificate", str(path), what, "Name certificate.json or its folder") from None
    except UnicodeDecodeError:
        pass
    result = dpconvex.verify(certificate, public_key=public_key)
    compared = any(c.name == "model" for c in result.checks)
    if as_json:
        found = {"passed": result.passed, "epsilon": result.epsilon, "delta": result.delta}
        found |= {"checks": [asdict(c) for c in result.checks]}
        unsure = {"unknown_fields": result.unknown, "unconfirmed_numbers": result.unconfirmed}
        print_json({**found, **unsure, "model_compared": compared, "not_checked": NOT_CHECKED})
    else:
        rows = [("ok" if c.passed else "FAIL", c.name, c.detail) for c in result.checks]
        print_table(f"Certificate {path}", ("", "check", "detail"), rows)
        if failed := sum(not c.passed for c in result.checks):
            print_text(f"\n{failed} of {len(result.checks)} checks FAILED. Do not rely on this certificate.")
        else:
            cost = f"epsilon = {result.epsilon:.6g}" + (f", delta = {result.delta:.3g}" if result.delta else "")
            print_text(f"\nAll {len(result.checks)} checks passed: the listed releases cost {cost}.")
        if result.fields.get("model") and not compared:
            missing = f"the folder holds no {MODEL}" if certificate.is_dir() else "name its folder to compare it, too"
            print_text(f"The certificate names a model, and none was compared: {missing}.")
        if result.unknown:
            print_text(f"Of a later version, not read: {', '.join(result.unknown)}.")
        if result.unconfirmed:
            paths = dict.fromkeys(re.sub(r"\[\d+\]", "[]", path) for path in result.unconfirmed)  # a list's once
            print_text(f"Stated, but confirmed by nothing else in the file: {', '.join(paths)}.")
        if result.fields:  # nothing, of a file that is none
            print_text("\n".join(("No certificate can show:", *(f"  - {line}" for line in NOT_CHECKED))))
        if explain and {c.name for c in result.checks if not c.passed} <= {"noise is not seeded"}:
            print_text(f"\n{dpconvex.PrivacyCertificate.from_json(read_text(path)).explain()}")
    if not result.passed:
        raise typer.Exit(1)


@one_line_errors
def sign(
    certificate: Annotated[Path | None,
        typer.Argument(help="certificate.json, or the folder of a model that holds it.")] = None,
    key: Annotated[Path | None, typer.Option(help="PEM file of your Ed25519 private key.")] = None,
    new_key: Annotated[Path | None,
        typer.Option(help="Write a new private key to this file, and its public half beside it.")] = None,
) -> None:  # fmt: skip
    """Write an Ed25519 signature beside a certificate that passes verification. Needs the extra `sign`."""
    from dpconvex.privacy.certificate import new_key as make_key, sign as write_signature

    if (certificate is None) != (key is None) or (certificate is None) == (new_key is None):
        what = "must be given with a certificate, or --new-key FILE alone"
        raise InvalidParameterError("key", None if key is None else str(key), what, "See dpconvex sign --help")
    if new_key is not None:
        public = make_key(new_key)
        return print_text(f"Wrote {new_key}: keep it to yourself. Wrote {public}: give it to whoever verifies.")
    assert certificate is not None
    assert key is not None
    if failed := [check for check in dpconvex.verify(certificate).checks if not check.passed]:
        what = f"fails verification: {failed[0].name} ({failed[0].detail})"
        raise InvalidParameterError("certificate", str(certificate), what, "Run dpconvex verify on it")
    where = write_signature(certificate / CERTIFICATE if certificate.is_dir() else certificate, key)
    print_text(f"Wrote {where}")
