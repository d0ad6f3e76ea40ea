"""Check a certificate without the data: recompute its cost from the releases and compare every number with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpconvex.errors import CertificateError, DpconvexError
from dpconvex.privacy import accounting
from dpconvex.privacy import ledger as _ledger
from dpconvex.privacy.certificate import PrivacyCertificate, digest, parse
from dpconvex.privacy.events import GaussianNoise
from dpconvex.privacy.ledger import Release
from dpconvex.privacy.objective_events import GaussianObjectivePerturbation, PureObjectivePerturbation
from dpconvex.privacy.params import Unit


@dataclass(frozen=True)
class Check:
    """One comparison.

    Parameters
    ----------
    name : str
        What was compared.
    passed : bool
        Whether it held.
    detail : str
        The numbers.
    """

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Verification:
    """Result of `verify`.

    Parameters
    ----------
    checks : tuple of Check
        In the order they were made.
    epsilon, delta : float
        The cost as recomputed here; NaN if the certificate could not be read.
    """

    checks: tuple[Check, ...]
    epsilon: float
    delta: float

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return all(check.passed for check in self.checks)


NOT_CHECKED = (
    "that the program that ran is the one named in the certificate",
    "that no other release was made from the same data",
    "that releases on separate blocks of records really read disjoint records",
    "that the declared bounds and classes were chosen without looking at the data",
)
"""What no certificate can show; printed by the command line beside the result."""


def verify(certificate: PrivacyCertificate | str | Path) -> Verification:
    """Recompute what a certificate claims from its releases alone.

    Parameters
    ----------
    certificate : PrivacyCertificate, str or Path
        The object, its JSON text, or the path of its file.

    Returns
    -------
    Verification
        With one `Check` a claim. A malformed certificate gives one failed check, not an exception.
    """
    try:
        fields = certificate.to_dict() if isinstance(certificate, PrivacyCertificate) else parse(_text(certificate))
        read = PrivacyCertificate.from_dict(fields)
    except CertificateError as error:
        return Verification((Check("well formed", False, str(error)),), float("nan"), float("nan"))
    epsilon, delta, checks = _recompute(read)
    return Verification((*_document_checks(fields, read), *checks), epsilon, delta)


def _text(certificate: str | Path) -> str:
    if isinstance(certificate, str) and certificate.lstrip().startswith("{"):
        return certificate
    try:
        return Path(certificate).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CertificateError(f"cannot read certificate {str(certificate)!r}: {error}") from None


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


def _recompute(read: PrivacyCertificate) -> tuple[float, float, list[Check]]:
    target = read.target
    try:
        pure = _ledger.total_epsilon(read.releases, 0.0)
        delta = 0.0 if pure <= target.epsilon else target.delta
        epsilon = pure if delta == 0 else _ledger.total_epsilon(read.releases, delta)
    except DpconvexError as error:
        return float("nan"), float("nan"), [Check("cost", False, str(error))]
    checks = [
        _compare("spent epsilon", read.spent_epsilon, epsilon, lambda stated, found: stated >= found * (1 - 1e-9)),
        _compare("spent delta", read.spent_delta, delta, lambda stated, found: stated == found),
        Check(
            "within the promise",
            epsilon <= target.epsilon * (1 + 1e-9) and delta <= target.delta,
            f"epsilon {epsilon:.9g} <= {target.epsilon:.9g}, delta {delta:.3g} <= {target.delta:.3g}",
        ),
    ]
    for release in read.releases:
        same = release.sensitivity.neighboring == target.neighboring and release.sensitivity.unit == target.unit
        checks.append(Check(f"relation of {release.label!r}", same, f"{target.neighboring}, {target.unit}"))
        claimed = release.event.claimed_sensitivity
        if claimed is not None:
            holds = claimed >= release.sensitivity.value
            detail = f"mechanism covers {claimed:.9g}, lemma needs {release.sensitivity.value:.9g}"
            checks.append(Check(f"sensitivity of {release.label!r}", holds, detail))
        checks += _against_public(release, read)
        if isinstance(release.event, GaussianNoise):
            first, second = (
                release.event.delta(target.epsilon),
                accounting.pld_delta(release.event, target.epsilon),
            )
            agree = abs(first - second) <= 1e-3 * max(first, second) + 1e-12
            checks.append(Check("two accountants agree", agree, f"delta {first:.4g} (exact), {second:.4g} (PLD)"))
    return epsilon, delta, checks


def _against_public(release: Release, read: PrivacyCertificate) -> list[Check]:
    """Compare an objective-perturbation event with the sizes and the regularisation the certificate states."""
    event, public = release.event, read.public
    if not isinstance(event, PureObjectivePerturbation | GaussianObjectivePerturbation):
        return []
    try:
        least = float(public["feature_l2"]) ** 2 / (float(public["n"]) * float(public["l2"]))
        loss, dim = str(public["loss"]), int(public["outputs"]) * int(public["dim"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        missing = "the certificate lacks n, l2, feature_l2, outputs, dim or loss"
        return [Check(f"curvature of {release.label!r}", False, missing)]
    rule_fits = event.rule != "logistic" or loss == "logistic"
    if read.target.unit == Unit.USER:  # a user's Hessian may have any rank, and there is no union over its vertices
        rule_fits = event.rule == "free" or (isinstance(event, PureObjectivePerturbation) and event.rank >= dim)
    return [
        Check(
            f"curvature of {release.label!r}",
            event.tau >= least * (1 - 1e-9) and rule_fits,
            f"tau {event.tau:.6g} covers {least:.6g}; rule {event.rule}, loss {loss}",
        )
    ]


def _compare(name: str, stated: float, found: float, holds: Callable[[float, float], bool]) -> Check:
    return Check(name, holds(stated, found), f"stated {stated:.9g}, recomputed {found:.9g}")
