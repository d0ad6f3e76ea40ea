"""Check a certificate without the data: recompute its cost from the releases and compare every number with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dpconvex._files import read_text
from dpconvex.errors import CertificateError
from dpconvex.privacy import consistency
from dpconvex.privacy.certificate import PrivacyCertificate, digest, parse
from dpconvex.privacy.consistency import Check, Pricing
from dpconvex.privacy.profiles import limited


@dataclass(frozen=True)
class Verification:
    """Result of `verify`.

    Parameters
    ----------
    checks : tuple of Check
        In the order they were made.
    epsilon, delta : float
        The cost as recomputed here; NaN if the certificate could not be read.
    unknown : tuple of str
        Fields that this version does not know. They do not enter any check.
    fields : mapping
        What was verified; empty if it could not be read.
    planned : bool
        Whether all of it was compared with a plan made again.
    """

    checks: tuple[Check, ...]
    epsilon: float
    delta: float
    unknown: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    planned: bool = False

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return all(check.passed for check in self.checks)

    @cached_property
    def unconfirmed(self) -> tuple[str, ...]:
        """Numbers that nothing else in the certificate confirms, as ``public.radius``: a change would not be found.

        Of target, cost, releases and public facts: none if a plan made again has all of them. Otherwise found by
        trying: every number that is not named was made a thousandth larger and smaller, and each time a check failed.
        """
        return () if self.planned or not self.fields else consistency.unconfirmed(self.fields, Pricing())


MOST_PRICING = 6e6
"""Computing, about microseconds, that goes into the prices of one certificate."""

NOT_CHECKED = (
    "what the planner was given: sizes, bounds, losses, options, constants that a caller declared, values released "
    "between two steps. They are taken as stated; all else is compared with the plan that follows from them",
    "that the program that ran is the one named in the certificate, and that random bits came from the named source",
    "that releases on separate blocks of records really read disjoint records",
    "that no other release was made from the same data; a budget file keeps account of several",
    "that the declared bounds and classes were chosen without looking at the data",
    "that lemmas hold and failure probabilities are what they say: proved in the documentation, attacked by the tests",
)
"""What no certificate can show, or this verifier does not recompute; printed by the command line beside the result."""


def verify(
    certificate: PrivacyCertificate | str | Path,
    again: Callable[[PrivacyCertificate], PrivacyCertificate] | None = None,
    *,
    model: str | None = None,
    public_key: str | Path | None = None,
) -> Verification:
    """Recompute what a certificate claims from its releases, and compare it with the plan if that can be made again.

    Every list of releases that add up is priced twice, by this package and by ``dp_accounting``, where both can.
    ``dpconvex.verify`` is this with the planners of this package.

    Parameters
    ----------
    certificate : PrivacyCertificate, str or Path
        The object, its JSON text, or the path of its file.
    again : callable, optional
        Returns the certificate of the plan that a certificate names. None: numbers are compared with one another only.
    model : str, optional
        Digest of the model that the certificate is shown with; it must be the one that the certificate names.
    public_key : str or Path, optional
        File of an Ed25519 public key: the signature beside the certificate's file must be of its private half.

    Returns
    -------
    Verification
        With one `Check` a claim. A malformed certificate, or one of a later schema or with an event that is not known
        here, gives one failed check that says so, not an exception.
    """
    try:
        fields = certificate.to_dict() if isinstance(certificate, PrivacyCertificate) else parse(_text(certificate))
        read = PrivacyCertificate.from_dict(fields)
    except CertificateError as error:
        return Verification((Check("well formed", False, str(error)),), float("nan"), float("nan"))
    checks, epsilon, delta = _document_checks(fields, read), float("nan"), float("nan")
    if model is not None:
        named = "no model" if read.model is None else "another model"
        detail = "the certificate names this model" if read.model == model else f"the certificate names {named}"
        checks.append(Check("model", read.model == model, detail))
    if public_key is not None:
        checks.append(_signature(certificate, public_key))
    try:
        pricing = Pricing()
        with limited(MOST_PRICING):
            numbers = list(consistency.number_checks(read, pricing))
            if all(check.name != "cost" for check in numbers):
                epsilon, delta = consistency.recompute(read, pricing)
                numbers += consistency.second_opinions(read, delta)
    except consistency.UNREADABLE as error:
        numbers = [Check("numbers", False, f"some are not what their names say ({type(error).__name__})")]
    plan = [] if again is None else consistency.plan_checks(read, again)
    planned = len(plan) > 1 and all(check.passed for check in plan)
    return Verification((*checks, *numbers, *plan), epsilon, delta, _unknown(fields, read), fields, planned)


def _text(certificate: str | Path) -> str:
    if isinstance(certificate, str) and certificate.lstrip().startswith("{"):
        return certificate
    try:
        return read_text(certificate)
    except OSError as error:
        raise CertificateError(f"cannot read certificate {str(certificate)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CertificateError(f"certificate {str(certificate)!r} is no UTF-8 text") from None


def _signature(certificate: PrivacyCertificate | str | Path, public_key: str | Path) -> Check:
    from dpconvex.privacy.signing import signature_fault

    if isinstance(certificate, PrivacyCertificate) or str(certificate).lstrip().startswith("{"):
        return Check("signature", False, "lies beside a certificate's file, and no file was given")
    fault = signature_fault(Path(certificate), Path(public_key))
    return Check("signature", fault is None, fault or f"made with the private half of {Path(public_key).name}")


def _document_checks(fields: dict[str, Any], read: PrivacyCertificate) -> list[Check]:
    stated, computed = fields.get("digest"), digest(fields)
    source = read.noise_source
    flag = fields.get("private")
    return [
        Check("well formed", True, f"schema version {fields['schema_version']}"),
        Check(
            "digest",
            stated == computed,
            "content is unchanged" if stated == computed else "content was changed",
        ),
        Check("noise is not seeded", source.private, source.name),
        Check("private flag", flag == source.private, f"stated {flag}, noise source says {source.private}"),
        Check("something was released", bool(read.releases), f"{len(read.releases)} releases"),
    ]


def _unknown(fields: Mapping[str, Any], read: PrivacyCertificate) -> tuple[str, ...]:
    """Return the names of fields that reading left out."""
    known = json.loads(json.dumps(read.to_dict()))
    return tuple(consistency.dotted(path) for path in _extra(fields, known, ()))


def _extra(given: Any, known: Any, path: consistency.Path) -> list[consistency.Path]:
    if isinstance(given, Mapping) and isinstance(known, Mapping):
        new = [(*path, key) for key in given if key not in known]
        return new + [p for key in known if key in given for p in _extra(given[key], known[key], (*path, key))]
    if isinstance(given, list | tuple) and isinstance(known, list):
        return [p for k, (a, b) in enumerate(zip(given, known, strict=False)) for p in _extra(a, b, (*path, k))]
    return []
