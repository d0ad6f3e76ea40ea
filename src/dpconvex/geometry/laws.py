"""Laws of noise vectors, as functions of uniform numbers: independent normal numbers, and laws in new coordinates."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
from scipy import sparse

from dpconvex._types import Floats, forwarded
from dpconvex.problems import Factor


class NoiseLaw(ABC):
    """The law of a random vector of length `dim`, exactly sampled, in which a release is hidden."""

    name: str
    dim: int

    @property
    @abstractmethod
    def coordinate_variances(self) -> Floats:
        """Variances of the coordinates of a sample, shape (dim,)."""

    @property
    def contrast_variances(self) -> Floats:
        """Variance of ``<u, b>`` for unit vectors u that sum to 0 over centered blocks, by coordinate, (dim,).

        Contrasts of one block have equal variances, and those of different coordinates and blocks are uncorrelated.
        """
        return self.coordinate_variances

    @property
    def energy(self) -> float:
        """Expected squared Euclidean length of a sample."""
        return float(self.coordinate_variances.sum())

    @property
    @abstractmethod
    def uniforms(self) -> int:
        """How many independent uniform numbers `transform` takes."""

    @abstractmethod
    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """Return one sample as a function of uniform numbers of (0, 1), as balls (`dpconvex.randomness.real`)."""


@final
@dataclass(frozen=True)
class StandardNormals:
    """Independent standard normal numbers, at least one, by Box and Muller."""

    dim: int

    @property
    def uniforms(self) -> int:
        """Two for every pair."""
        return self.dim + self.dim % 2

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """``sqrt(-2 log u) (cos 2 pi v, sin 2 pi v)`` for every pair, the last one cut if `dim` is odd."""
        out: list[Any] = []
        for u, v in zip(uniforms[::2], uniforms[1::2], strict=True):
            length, (sine, cosine) = (-2 * u.log()).sqrt(), (2 * v).sin_cos_pi()
            out += (length * cosine, length * sine)
        return out[: self.dim]


@final
@dataclass(frozen=True, eq=False)
class IndependentNormals(NoiseLaw):
    """Independent normal coordinates of the given standard deviations, (dim,)."""

    deviations: Floats
    name: ClassVar[str] = "gaussian"  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.deviations)

    @property
    def coordinate_variances(self) -> Floats:
        return np.square(self.deviations)

    @property
    def uniforms(self) -> int:
        return StandardNormals(self.dim).uniforms

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        normals = StandardNormals(self.dim).transform(uniforms)
        return [z * deviation for z, deviation in zip(normals, self.deviations.tolist(), strict=True)]


@final
@dataclass(frozen=True, eq=False)
class FactoredNoise(NoiseLaw):
    """The law of ``F^T b``, with b a sample of a law on the old coordinates, formed in ball arithmetic.

    Noise of the old coordinates, seen in new ones: docs, Additive models, section 1.
    """

    base: NoiseLaw
    factor: Factor
    name = forwarded("base", "name")  #: That of the law on the old coordinates, in whose norm records are measured
    dim = forwarded("factor", "rank")
    uniforms = forwarded("base", "uniforms")  # pyright: ignore[reportIncompatibleMethodOverride]

    @cached_property
    def coordinate_variances(self) -> Floats:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.factor.matrix.power(2).T @ self.base.contrast_variances

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        b, columns = self.base.transform(uniforms), sparse.csc_array(self.factor.matrix)
        arrays: tuple[Any, ...] = (columns.indptr, columns.indices, columns.data)
        starts, rows, entries = (array.tolist() for array in arrays)
        return [sum(entries[k] * b[rows[k]] for k in range(*span)) for span in pairwise(starts)]
