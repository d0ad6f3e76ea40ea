"""The privacy certificate: what was promised, what was released, why it holds, in a file that holds no data.

A certificate can be checked by anybody without the data: `dpconvex.verify` recomputes the cost from the releases.
The digest finds accidental or careless changes. Who needs proof of origin signs the file with an Ed25519 key: the
signature lies beside it, and as a certificate names its model by a digest, it stands for the model too. What is signed
are the bytes of the file, so that other tools can check it: ``openssl pkeyutl -verify -rawin``.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dpconvex import _validate
from dpconvex._files import MOST_BYTES, once_each, read_text, write_atomically
from dpconvex._html import panel
from dpconvex._types import attributes
from dpconvex.errors import CertificateError, DpconvexError, InvalidParameterError
from dpconvex.privacy import ledger as _ledger
from dpconvex.privacy.ledger import Release
from dpconvex.privacy.params import PrivacyParams

SCHEMA_VERSION = 1
"""Version of the JSON layout. A reader accepts its own version only. New optional fields, which change no other field's
meaning, do not raise it; an older reader ignores them. An event with an unknown kind or field is refused as a whole."""
MOST_WORDS = 1000  #: Largest number of characters in a message about a malformed certificate, which may quote it.
MOST_VALUES, MOST_DEEP = 2**18, 64
"""Largest number of values in a certificate, and largest depth to which its lists and objects may be nested."""
COURSE = "cost_of_this_course"
"""Name of a public fact of runs that may take one of several courses: the cost of the course that was taken."""
T = TypeVar("T")


@dataclass(frozen=True)
class Assumption:
    """Something the guarantee rests on, and what makes it true."""

    statement: str
    enforced_by: str  #: what enforces the statement, or "declared" where only the user's word stands behind it


@dataclass(frozen=True)
class NoiseSource:
    """Where random bits came from."""

    name: str  #: name of the source in words
    private: bool  #: False for a seeded source: whoever knows the seed can subtract the noise
    exact_bits: bool  #: whether all noise came from exact samplers
    note: str = ""  #: what is known about noise from other samplers


@dataclass(frozen=True)
class PrivacyCertificate:
    """What a release costs in privacy, and the facts from which that can be computed again."""

    algorithm: str  #: which algorithm ran
    constants: str  #: with which constant set
    theorem: str  #: the statement that gives the guarantee
    target: PrivacyParams  #: what was promised
    #: What the releases cost together, rounded up. A pure cost has ``spent_delta == 0``.
    spent_epsilon: float
    spent_delta: float
    accountant: str  #: how the cost was computed
    releases: tuple[Release, ...]  #: everything that left the data, with sensitivities and lemmas
    assumptions: tuple[Assumption, ...]  #: what the guarantee rests on, and how each is enforced
    noise_source: NoiseSource
    public: Mapping[str, Any]  #: public facts and constants of the plan: sizes, domain, regularization, noise scales
    #: Library and interpreter versions.
    versions: Mapping[str, str] = field(default_factory=lambda: dict(current_versions()))
    #: Digest of the released model, so that no other model can be shown with this certificate; None where a plan or a
    #: release of another kind is certified.
    model: str | None = None
    #: Which planner fixed all of this and what it was given, so that it can be planned again; None: that is not known.
    planner: Mapping[str, Any] | None = None
    budget: str | None = None  #: which line of which budget file paid, as the run stated it; `verify` sees no such file

    @property
    def private(self) -> bool:
        """Whether the promise holds: false when the noise was seeded."""
        return self.noise_source.private

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields, with the schema version first and the digest last."""
        fields: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            **attributes(self, "private", "algorithm", "constants", "theorem"),
            "target": asdict(self.target),
            "spent": {"epsilon": self.spent_epsilon, "delta": self.spent_delta, "accountant": self.accountant},
            "releases": [release.to_dict() for release in self.releases],
            "assumptions": [asdict(assumption) for assumption in self.assumptions],
            "noise_source": asdict(self.noise_source), "public": dict(self.public), "versions": dict(self.versions),
        }  # fmt: skip
        optional = {"model": self.model, "planner": self.planner and dict(self.planner), "budget": self.budget}
        fields |= {name: value for name, value in optional.items() if value is not None}
        return fields | {"digest": digest(fields)}

    def public_fields(self) -> dict[str, Any]:
        """The fields that public facts alone decide: all but the digests and the line of the budget."""
        return {name: value for name, value in self.to_dict().items() if name not in ("model", "budget", "digest")}

    def to_json(self) -> str:
        """Text of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> PrivacyCertificate:
        """Read a certificate without verifying it; raises `CertificateError` if it is malformed."""
        return cls.from_dict(parse(text))

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> PrivacyCertificate:
        """Inverse of `to_dict`."""
        version = fields.get("schema_version")
        if type(version) is not int or version != SCHEMA_VERSION:
            what = f"this version of dpconvex reads {SCHEMA_VERSION}, so nothing was checked"
            remedy = "Use the dpconvex version named under versions, or a later one"
            raise CertificateError(f"schema_version={version!r}: {what}. {remedy}")
        kinds: dict[str, type] = dict.fromkeys(("algorithm", "constants", "theorem", "model", "budget"), str)
        kinds |= dict.fromkeys(("public", "versions", "planner"), dict)
        present = [name for name in kinds if name in fields or name not in ("model", "planner", "budget")]
        try:
            parts: dict[str, Any] = {name: _of(kinds[name], fields, name) for name in present}
            return cls(
                target=_read(PrivacyParams, fields["target"]), spent_epsilon=float(fields["spent"]["epsilon"]),
                spent_delta=float(fields["spent"]["delta"]), accountant=_of(str, fields["spent"], "accountant"),
                releases=tuple(Release.from_dict(release) for release in fields["releases"]),
                assumptions=tuple(_read(Assumption, assumption) for assumption in fields["assumptions"]),
                noise_source=_read(NoiseSource, fields["noise_source"]), **parts,
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, DpconvexError) as error:
            what = f"{type(error).__name__}: {str(error)[:MOST_WORDS]}"
            raise CertificateError(f"malformed certificate: {what}") from None

    def _repr_html_(self) -> str:
        target = self.target
        rows = {
            "promise": f"epsilon {target.epsilon:g}, delta {target.delta:g}, per {target.unit}",
            "spent": f"epsilon {self.spent_epsilon:.6g}, delta {self.spent_delta:.3g}",
            "method": f"{self.algorithm}, {self.constants} constants",
            "private": "yes" if self.private else "NO: the noise was seeded",
        }
        return panel("Privacy certificate", rows, self.spent_epsilon / target.epsilon, self.explain())

    def explain(self, reasons: bool = True) -> str:
        """Say in some lines of plain words what was promised, what it cost, and why the promise holds.

        Without `reasons`: no lemmas, no sensitivities, and no assumptions but those that a person declared.
        """
        target = self.target
        unit = {"record": "one row of the data", "user": "everything one user contributed to the data"}[target.unit]
        change = {"replace_one": "replacing", "add_or_remove_one": "adding or removing"}[target.neighboring]
        bound = f"a factor of e^{target.epsilon:g}" + (f", plus {target.delta:g}" if target.delta else "")
        at_delta = f" at delta = {self.spent_delta:.3g}" if self.spent_delta else ""
        cost = f"epsilon = {self.spent_epsilon:.6g}{at_delta}"
        lines = [
            f"Promise: {change} {unit} changes the probability of any outcome by at most {bound}.",
            f"Cost:    {cost} of the promised epsilon = {target.epsilon:g} ({self.accountant}).",
            f"Method:  {self.algorithm}, {self.constants} constants. {self.theorem if reasons else ''}".rstrip(),
        ]
        declared = [a.statement for a in self.assumptions if a.enforced_by.startswith("declared")]
        if reasons:
            lines += self._reasons()
        elif declared:
            lines.append(f"Trusted: {'; '.join(declared)}.")
        source = self.noise_source
        lines.append(f"Noise:   {source.name}. {source.note}".rstrip())
        if self.budget:
            lines.append(f"Paid:    {self.budget}.")
        if not source.private:
            lines.append("NOT PRIVATE: the noise was seeded. Fit again without a seed before releasing anything.")
        # Whatever the texts of a certificate hold, no line ends early or commands a terminal.
        return "\n".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in lines)

    def _reasons(self) -> list[str]:
        lines = ["Released from the data:"]
        alike: dict[Any, dict[str, None]] = {}  # releases with the same reason are told together
        for release in self.releases:
            alike.setdefault((release.mechanism, release.sensitivity), {})[release.label] = None
        for (mechanism, stated), labels in alike.items():
            where = f"  - {'; '.join(labels)} through {mechanism}"
            if stated.norm == "none":  # no value is released
                lines += [where, f"    because {stated.lemma}"]
            else:
                lines.append(f"{where}: sensitivity {stated.value:.4g}")
                lines.append(f"    in the {stated.norm} norm, because {stated.lemma}")
        lines.append("It rests on:")
        return lines + [f"  - {a.statement} ({a.enforced_by})" for a in self.assumptions]


def _read(kind: type[T], fields: Mapping[str, Any]) -> T:
    """Build a value from its fields; fields that this version does not know are left out."""
    parts = {part.name: part.type for part in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    known = {name: value for name, value in fields.items() if name in parts}
    for name in known:
        _of({"str": str, "bool": bool}.get(str(parts[name]), object), known, name)
    return kind(**known)


def _of(kind: type[T], fields: Mapping[str, Any], name: str) -> T:
    """Return a field of the stated type, or raise `TypeError`: readers rely on text fields being text."""
    value = fields[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}")
    return value


def certify(
    *, target: PrivacyParams, releases: tuple[Release, ...],
    public: Mapping[str, Any], whole: bool = False, **stated: Any,
) -> PrivacyCertificate:  # fmt: skip
    """Price the releases and put everything into a certificate; `stated` are its other fields.

    `whole`: the releases are one of several courses that a run may take, each within the promise. Then the promise is
    stated as spent, and the cost of this course stands among the public facts (`COURSE`).
    """
    pure = _ledger.total_epsilon(releases, 0.0)
    delta = 0.0 if pure <= target.epsilon else target.delta
    spent = pure if delta == 0 else _ledger.total_epsilon(releases, delta)
    if delta and _ledger.total_delta(releases, target.epsilon) <= delta:
        spent = min(spent, target.epsilon)  # the profile holds at the target itself; the inversion is rounded up
    if whole:
        public = {**public, COURSE: {"epsilon": spent, "delta": delta}}
        spent, delta = target.epsilon, target.delta
    stated |= {"spent_epsilon": spent, "spent_delta": delta, "accountant": _ledger.accountants(releases)}
    return PrivacyCertificate(target=target, releases=releases, public=public, **stated)


@functools.cache  # reading package metadata takes longer than many fits
def current_versions() -> Mapping[str, str]:
    """Return the versions of the packages that a guarantee passes through; "absent" where one is not installed."""
    names = ("dpconvex", "numpy", "scipy", "opendp", "python-flint", "dp-accounting", "randomgen", "scikit-learn")
    return {"python": platform.python_version()} | {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def parse(text: str) -> dict[str, Any]:
    """Return the fields of a certificate file, or raise `CertificateError`."""
    if len(text) > MOST_BYTES:
        raise CertificateError(f"not a certificate: more than {MOST_BYTES >> 20} MiB of text")
    try:
        fields = json.loads(text, object_pairs_hook=once_each, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CertificateError(f"not a certificate: invalid JSON ({error})") from None
    if not isinstance(fields, dict):
        raise CertificateError("not a certificate: a JSON object is needed")
    if _size(fields) > MOST_VALUES:
        most = f"{MOST_VALUES} values, or {MOST_DEEP} lists in one another"
        raise CertificateError(f"not a certificate: more than {most}")
    return fields


def _size(fields: Any) -> float:
    """Return the number of values in nested lists and objects; infinity if they are nested deeper than allowed."""
    level, count = [(fields, 0)], 0
    while level and count <= MOST_VALUES:
        value, depth = level.pop()
        if depth > MOST_DEEP:
            return math.inf
        inner = value.values() if isinstance(value, dict) else value
        count += len(inner)
        level += [(each, depth + 1) for each in inner if isinstance(each, dict | list)]
    return count


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def digest(fields: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of all fields but the digest itself."""
    content = {key: value for key, value in fields.items() if key != "digest"}
    return "sha256:" + hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def signature_path(certificate: Path) -> Path:
    """Return where a certificate's signature lies: ``certificate.json.sig`` beside ``certificate.json``."""
    return certificate.with_name(certificate.name + ".sig")


def new_key(path: Path) -> Path:
    """Write a new private key, readable by its owner alone, and its public half ``key.pub.pem``; return that path."""
    ed25519, coding = _ed25519()
    key, public = ed25519.Ed25519PrivateKey.generate(), path.with_name(path.stem + ".pub.pem")
    for each in (path, public):
        if each.exists():
            raise InvalidParameterError("new_key", str(each), "exists already", "Choose another name")
    pem, plain = coding.Encoding.PEM, coding.NoEncryption()
    write_atomically(path, key.private_bytes(pem, coding.PrivateFormat.PKCS8, plain), mode=0o600, new=True)
    write_atomically(public, key.public_key().public_bytes(pem, coding.PublicFormat.SubjectPublicKeyInfo), new=True)
    return public


def sign(certificate: Path, key: Path) -> Path:
    """Write the signature of a certificate's file beside it, replacing an old one; return its path."""
    ed25519, coding = _ed25519()
    what = "must be an Ed25519 private key in PEM form, without a password"
    remedy = "Make one with `dpconvex sign --new-key key.pem`"
    load = functools.partial(coding.load_pem_private_key, password=None)
    private = _key("key", key, load, ed25519.Ed25519PrivateKey, what, remedy)
    where = signature_path(certificate)
    signature = private.sign(_text("certificate", certificate).encode())
    write_atomically(where, base64.b64encode(signature).decode() + "\n")
    return where


def signature_fault(certificate: Path, public_key: Path) -> str | None:
    """Return what is wrong with the signature beside a certificate's file; None if the key's private half made it."""
    ed25519, coding = _ed25519()
    from cryptography.exceptions import InvalidSignature

    what, remedy = "must be an Ed25519 public key in PEM form", "The signer has it: key.pub.pem"
    public = _key("public_key", public_key, coding.load_pem_public_key, ed25519.Ed25519PublicKey, what, remedy)
    where = signature_path(certificate)
    try:
        signature, content = base64.b64decode(read_text(where).strip(), validate=True), read_text(certificate).encode()
        public.verify(signature, content)
    except OSError as error:
        return f"{where.name} cannot be read ({error.strerror})"
    except (binascii.Error, UnicodeError, ValueError, InvalidSignature):
        return f"{where.name} is not a signature of this file with that key"
    return None


def _ed25519() -> tuple[Any, Any]:
    """Return the modules for Ed25519 keys and for their encoding."""
    _validate.installed("cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    return ed25519, serialization


def _key(name: str, path: Path, load: Callable[[bytes], Any], kind: type, what: str, remedy: str) -> Any:
    """Return the key in a PEM file, which must be of the stated kind; `what` and `remedy` are texts for the error."""
    from cryptography.exceptions import UnsupportedAlgorithm

    text, found = _text(name, path).encode(), None
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        found = load(text)
    if not isinstance(found, kind):
        raise InvalidParameterError(name, str(path), what, remedy)
    return found


def _text(name: str, path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise InvalidParameterError(name, str(path), f"cannot be read ({error.strerror})", "Check the path") from None
    except UnicodeDecodeError:
        raise InvalidParameterError(name, str(path), "is no text file", "Keys are PEM files") from None
