"""Signatures of certificates: only the key's holder makes one, only for these bytes; keys are kept from others."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpconvex import plan_minimize
from dpconvex.cli.main import app
from dpconvex.errors import DpconvexError, InvalidParameterError
from dpconvex.privacy import certificate as signing, verify
from dpconvex.problems import DataDomain, LocationLoss
from dpconvex.randomness import SystemSource

pytest.importorskip("cryptography")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh working folder with a certificate and a pair of keys."""
    loss = LocationLoss(DataDomain.l2_ball(2, 1.0))
    certificate = plan_minimize(loss, 400, epsilon=1.0, radius=1.0).certificate(SystemSource())
    (tmp_path / "certificate.json").write_text(certificate.to_json())
    monkeypatch.chdir(tmp_path)
    assert run("sign", "--new-key", "key.pem") == 0
    return tmp_path


def run(*words: str) -> int:
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code


def test_a_signature_holds_for_these_bytes_and_this_key_alone(folder: Path) -> None:
    assert run("sign", "certificate.json", "--key", "key.pem") == 0
    assert run("verify", "certificate.json", "--public-key", "key.pub.pem") == 0
    assert run("verify", str(folder), "--public-key", "key.pub.pem") == 0
    assert verify(folder / "certificate.json", public_key=folder / "key.pub.pem").passed
    assert run("sign", "--new-key", "other.pem") == 0
    assert run("verify", "certificate.json", "--public-key", "other.pub.pem") == 1
    content = Path("certificate.json").read_text()
    Path("certificate.json").write_text(content + " ")  # the digest is the same, the bytes are not
    assert run("verify", "certificate.json") == 0
    assert run("verify", "certificate.json", "--public-key", "key.pub.pem") == 1
    Path("certificate.json").write_text(content)
    good = Path("certificate.json.sig").read_text()
    for bad in ("", "@", "AAAA", good[::-1], good.replace(good[5], "A" if good[5] != "A" else "B"), "\0", good * 2):
        Path("certificate.json.sig").write_text(bad)
        assert run("verify", "certificate.json", "--public-key", "key.pub.pem") == 1, bad
    os.remove("certificate.json.sig")
    assert run("verify", "certificate.json", "--public-key", "key.pub.pem") == 1
    assert not verify(content, public_key="key.pub.pem").passed


def test_what_fails_verification_is_not_signed(folder: Path) -> None:
    fields = json.loads(Path("certificate.json").read_text())
    Path("certificate.json").write_text(json.dumps(fields | {"algorithm": "other"}))
    assert run("sign", "certificate.json", "--key", "key.pem") == 2
    assert not Path("certificate.json.sig").exists()


def test_keys_are_written_for_their_owner_alone_and_never_replaced(folder: Path) -> None:
    assert stat.S_IMODE(os.stat("key.pem").st_mode) == 0o600
    before = Path("key.pem").read_bytes(), Path("key.pub.pem").read_bytes()
    assert run("sign", "--new-key", "key.pem") == 2
    assert (Path("key.pem").read_bytes(), Path("key.pub.pem").read_bytes()) == before
    assert sorted(os.listdir()) == ["certificate.json", "key.pem", "key.pub.pem"]
    with pytest.raises(InvalidParameterError, match="exists already"):
        signing.new_key(Path("key.pem"))
    assert run("sign", "--new-key", "absent/key.pem") == 2


def test_wrong_uses_say_what_is_wanted(folder: Path) -> None:
    Path("text.pem").write_text("no key")
    Path("binary.pem").write_bytes(b"\xff\xfe")
    for words in (
        ("sign",),
        ("sign", "certificate.json"),
        ("sign", "--key", "key.pem"),
        ("sign", "certificate.json", "--key", "key.pem", "--new-key", "b.pem"),
        ("sign", "certificate.json", "--key", "absent.pem"),
        ("sign", "certificate.json", "--key", "text.pem"),
        ("sign", "certificate.json", "--key", "binary.pem"),
        ("sign", "certificate.json", "--key", "key.pub.pem"),
        ("verify", "certificate.json", "--public-key", "key.pem"),
        ("verify", "certificate.json", "--public-key", "text.pem"),
        ("verify", "certificate.json", "--public-key", "absent.pem"),
    ):
        assert run(*words) == 2, words


def test_without_the_extra_the_error_says_how_to_install_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for call in (
        lambda: signing.sign(Path("certificate.json"), Path("key.pem")),
        lambda: signing.signature_fault(Path("certificate.json"), Path("key.pub.pem")),
        lambda: signing.new_key(Path("b.pem")),
    ):
        with pytest.raises(DpconvexError, match=r"pip install 'dpconvex\[sign\]'"):
            call()
