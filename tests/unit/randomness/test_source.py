"""Sources of randomness."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex.randomness import BitSource, SeededSource, SystemSource, source_from


def _draw(source: BitSource) -> float:
    return float(source.generator().random())


def test_chacha_with_twenty_rounds_is_the_published_cipher() -> None:
    # Key stream of the all-zero key, nonce and counter: RFC 8439, appendix A.1, test vector 1.
    from randomgen import ChaCha

    stream = ChaCha(key=0, rounds=20).random_raw(8).tobytes().hex()
    assert stream.startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")


def test_system_source_keys_chacha_with_32_bytes_of_system_entropy(monkeypatch) -> None:
    from randomgen import ChaCha

    asked = []

    def urandom(size: int) -> bytes:
        asked.append(size)
        return bytes(range(size))

    monkeypatch.setattr(f"{SystemSource.__module__}.os.urandom", urandom)
    bits = SystemSource().generator().bit_generator
    assert asked == [32]
    assert isinstance(bits, ChaCha)
    expected = ChaCha(key=int.from_bytes(bytes(range(32)), "little"), rounds=20)
    np.testing.assert_array_equal(bits.random_raw(20), expected.random_raw(20))


def test_system_source_never_repeats(monkeypatch) -> None:
    monkeypatch.setattr(f"{SystemSource.__module__}.os", os)  # not the bytes that other tests get
    source = SystemSource()
    draws = [_draw(source) for _ in range(50)] + [_draw(pickle.loads(pickle.dumps(source)))]
    assert len(set(draws)) == 51  # 53-bit draws: a chance repetition has probability 2e-13


# Forks in an interpreter of its own: this process may hold threads of other libraries, which a fork would break.
FORK_THREE_TIMES = """
import os
from dpconvex.randomness import SystemSource

def draw():
    return float(source.generator().random())

source = SystemSource()
draws = [draw()]
for _ in range(3):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, repr(draw()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    draws.append(float(os.read(reading, 100)))
print(len({*draws, draw()}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_system_source_never_repeats_in_forked_processes() -> None:
    printed = subprocess.run([sys.executable, "-c", FORK_THREE_TIMES], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "5"


def test_seeded_source_reproduces_and_spawns() -> None:
    first, second = SeededSource(7), SeededSource(7)
    streams = [_draw(first) for _ in range(3)]
    assert streams == [_draw(second) for _ in range(3)]
    assert len(set(streams)) == 3
    assert streams[0] != _draw(SeededSource(8))


def test_flags() -> None:
    assert (SystemSource.private, SystemSource.exact) == (True, True)
    assert (SeededSource.private, SeededSource.exact) == (False, False)
    assert "not private" in SeededSource.name


def test_source_from() -> None:
    assert isinstance(source_from(None), SystemSource)
    assert isinstance(source_from(np.int64(3)), SeededSource)
    source = SeededSource(1)
    assert source_from(source) is source
    for bad in (True, 1.5, np.random.default_rng(0), "system"):
        with pytest.raises(InvalidParameterError, match="random_state="):
            source_from(bad)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidParameterError, match="seed=-1"):
        source_from(-1)
