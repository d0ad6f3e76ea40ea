"""Noise of real arithmetic: the one rounding, and that doubtful bits are drawn anew. Laws: `test_samplers`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from dpconvex.geometry import L2Norm, StandardNormals
from dpconvex.randomness import BitSource, SeededSource, SystemSource, real
from instances import NORMS


class _Scripted(np.random.Generator):
    """Gives the bytes it was told to, then those of a seed."""

    def __init__(self, script: list[bytes]) -> None:
        super().__init__(np.random.PCG64(0))
        self.script, self.calls = script, 0

    def bytes(self, length: int) -> bytes:
        self.calls += 1
        return self.script.pop(0) if self.script else super().bytes(length)


@final
@dataclass
class ScriptedSource(BitSource):
    """For these tests only."""

    script: list[bytes]
    name: ClassVar[str] = "scripted"
    private: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    given: list[_Scripted] = field(default_factory=list)

    def generator(self) -> np.random.Generator:
        self.given.append(_Scripted(list(self.script)))
        return self.given[-1]


@dataclass(frozen=True)
class Uniform:
    """The uniform numbers themselves."""

    uniforms: int = 1

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        return list(uniforms)


def _bytes(number: float) -> bytes:
    return int(number * 2**128).to_bytes(16, "little")


@pytest.mark.parametrize("number", [0.3, 1e-9, 1 - 1e-9])
def test_sums_are_rounded_once(number) -> None:
    """Value and noise of very different size: floats would round three times."""
    for value in (1e16, 1.0, 0.1, -3e-12):
        found = real.add_noise(np.array([value]), Uniform(), 1e-3, 2.0**-40, ScriptedSource([_bytes(number)]))
        with ctx.workprec(400):
            exact = (arb(value) + arb(1e-3) * arb(int(number * 2**128)) / arb(2) ** 128) / arb(2) ** -40
            units = int((exact + arb(0.5)).floor().unique_fmpz())
        assert found[0] == units * 2.0**-40


def test_doubtful_bits_are_drawn_anew() -> None:
    """First bits that are all 0 leave the logarithm open; those at a half leave the rounding open."""
    zeros = ScriptedSource([bytes(16 * L2Norm(1).uniforms)])
    assert np.isfinite(real.draw(L2Norm(1), 1, zeros)).all()
    assert zeros.given[0].calls == 2
    tie = ScriptedSource([(2**127 - 2).to_bytes(16, "little")])  # an interval below 1/2
    assert real.add_noise(np.zeros(1), Uniform(), 1.0, 1.0, tie)[0] == 0
    assert tie.given[0].calls == 1
    for last, wanted in ((b"\x00" * 16, 0.0), (b"\xff" * 16, 1.0)):
        # a value of -2^-140 moves the threshold into the interval of the first bits: the next ones decide
        source = ScriptedSource([(2**127).to_bytes(16, "little"), last])
        assert real.add_noise(np.array([-(2.0**-140)]), Uniform(), 1.0, 1.0, source)[0] == wanted
        assert source.given[0].calls == 2


def test_huge_values_are_no_trouble() -> None:
    for value in (1.7e308, -1.7e308, 5e-324):
        found = real.add_noise(np.array([value, 0.0]), L2Norm(2), 1e-6, 2.0**-40, SeededSource(0))
        assert np.isfinite(found).all()
        assert abs(found[1]) < 1e-3
        assert math.copysign(1.0, found[0]) == math.copysign(1.0, value) or abs(value) < 1


def test_simulated_laws_are_those_that_noise_is_drawn_from() -> None:
    """The same uniform numbers give the same vectors, in floats and in balls; long products do not underflow."""
    from flint import arb

    for law in (*NORMS, StandardNormals(3)):
        found = real.simulate(law, 20, np.random.default_rng(1))
        generator = np.random.default_rng(1)
        uniforms = 1 - np.column_stack([generator.random(20) for _ in range(law.uniforms)])
        exact = [[float(z.mid()) for z in law.transform([arb(u) for u in row])] for row in uniforms.tolist()]
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)
    lengths = np.linalg.norm(real.simulate(L2Norm(3000), 50, np.random.default_rng(2)), axis=1)
    assert np.abs(lengths / 3000 - 1).max() < 0.1


def test_system_noise_does_not_repeat() -> None:
    assert len({tuple(real.draw(L2Norm(3), 2, SystemSource()).ravel()) for _ in range(20)}) == 20
    assert len(np.unique(real.draw(L2Norm(3), 20, SystemSource()))) == 60


@pytest.mark.gate
def test_one_rounding_keeps_the_privacy_loss_of_real_noise() -> None:
    """Dimension 1: Laplace noise. Exact probabilities of grid points of two neighbors, epsilon 1, at most e apart.

    The frequency of each of the cells is that of the exact law; wrong with probability 1e-5.
    """
    step, count, cells = 0.25, 5000, np.arange(-8, 9)
    found = np.array(
        [real.add_noise(np.array([0.1]), L2Norm(1), 1.0, step, s)[0] for s in map(SeededSource, range(count))]
    )
    law = stats.laplace(0.1)
    edges = np.concatenate([[-np.inf], (cells[:-1] + 0.5) * step, [np.inf]])
    expected = np.diff(law.cdf(edges)) * count
    counts = np.histogram(np.clip(found, -2, 2) / step, bins=np.arange(-8.5, 9.5))[0]
    assert stats.chisquare(counts, expected).pvalue > 1e-5
    ratios = np.diff(law.cdf(edges)) / np.diff(stats.laplace(1.1).cdf(edges))
    assert np.abs(np.log(ratios)).max() <= 1 + 1e-12
