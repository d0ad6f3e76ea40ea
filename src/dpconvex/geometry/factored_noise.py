"""Noise of the old coordinates, seen in new ones: the law of ``F^T b`` (docs, Additive models, section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, final

from scipy import sparse

from dpconvex._types import FloatArray
from dpconvex.geometry.laws import NoiseLaw
from dpconvex.problems import Factor


@final
@dataclass(frozen=True, eq=False)
class FactoredNoise(NoiseLaw):
    """The law of ``F^T b``, with b a sample of a law on the old coordinates, formed in ball arithmetic."""

    base: NoiseLaw
    factor: Factor

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the law on the old coordinates, in whose norm records are measured."""
        return self.base.name

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.factor.rank

    @cached_property
    def coordinate_variances(self) -> FloatArray:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.factor.matrix.power(2).T @ self.base.contrast_variances

    @property
    def uniforms(self) -> int:
        return self.base.uniforms

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        b, columns = self.base.transform(uniforms), sparse.csc_array(self.factor.matrix)
        arrays: tuple[Any, ...] = (columns.indptr, columns.indices, columns.data)
        starts, rows, entries = (array.tolist() for array in arrays)
        return [sum(entries[k] * b[rows[k]] for k in range(*span)) for span in pairwise(starts)]
