"""Ed25519 signatures of certificates, in a file beside them: who published a certificate, and that it is unchanged.

A certificate names its model by a digest, so a signed certificate stands for the model too. What is signed are the
bytes of the file, so that other tools can check it: ``openssl pkeyutl -verify -rawin``.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

from dpconvex._files import read_text, write_atomically
from dpconvex.errors import DpconvexError, InvalidParameterError

MISSING = "signatures need the package cryptography. Install it with: pip install 'dpconvex[sign]'"


def signature_path(certificate: Path) -> Path:
    """Return where a certificate's signature lies: ``certificate.json.sig`` beside ``certificate.json``."""
    return certificate.with_name(certificate.name + ".sig")


def public_path(key: Path) -> Path:
    """Return where the public half of a new key is written: ``key.pub.pem`` beside ``key.pem``."""
    return key.with_name(key.stem + ".pub.pem")


def new_key(path: Path) -> Path:
    """Write a new private key, which its owner alone may read, and its public half; return the latter's path."""
    ed25519, coding = _ed25519()
    key, public = ed25519.Ed25519PrivateKey.generate(), public_path(path)
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
    try:
        private: Any = coding.load_pem_private_key(_text("key", key).encode(), password=None)
    except (ValueError, TypeError, _unsupported()):
        private = None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        what = "must be an Ed25519 private key in PEM form, without a password"
        raise InvalidParameterError("key", str(key), what, "Make one with `dpconvex sign --new-key key.pem`")
    where = signature_path(certificate)
    signature = private.sign(_text("certificate", certificate).encode())
    write_atomically(where, base64.b64encode(signature).decode() + "\n")
    return where


def signature_fault(certificate: Path, public_key: Path) -> str | None:
    """Return what is wrong with the signature beside a certificate's file; None if it is made with that key."""
    ed25519, coding = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        public: Any = coding.load_pem_public_key(_text("public_key", public_key).encode())
    except (ValueError, TypeError, _unsupported()):
        public = None
    if not isinstance(public, ed25519.Ed25519PublicKey):
        what = "must be an Ed25519 public key in PEM form"
        raise InvalidParameterError("public_key", str(public_key), what, "The signer has it: key.pub.pem")
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
    """Return the modules of Ed25519 keys and of their encoding."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise DpconvexError(MISSING) from None
    return ed25519, serialization


def _unsupported() -> type[Exception]:
    from cryptography.exceptions import UnsupportedAlgorithm

    return UnsupportedAlgorithm


def _text(name: str, path: Path) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise InvalidParameterError(name, str(path), f"cannot be read ({error.strerror})", "Check the path") from None
    except UnicodeDecodeError:
        raise InvalidParameterError(name, str(path), "is no text file", "Keys are PEM files") from None
