"""Noise of a symmetric matrix, against changes of bounded nuclear norm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, forwarded
from dpconvex.geometry import NoiseLaw, StandardNormals
from dpconvex.mechanisms.base import check_norm
from dpconvex.mechanisms.k_norm import NormExponential
from dpconvex.privacy import Sensitivity
from dpconvex.randomness import real


@final
@dataclass(frozen=True)
class WishartDifference(NoiseLaw):
    r"""``(A B' + B A') / 2``, A and B of q rows and q + 1 columns of standard normal numbers; its upper triangle.

    Lemma
        Its density f on symmetric matrices has ``f(Z + D) >= exp(-||D||_*) f(Z)`` for every D, the nuclear norm: sum of
        the absolute eigenvalues. Twice Z is the difference of the Wishart matrices ``(A + B)(A + B)'/2`` and ``(A -
        B)(A - B)'/2``. With q + 1 degrees of freedom their densities are ``exp(-tr W / 2)``, up to a constant, on the
        cone of semidefinite matrices, and 0 elsewhere. So the density of their difference at X is the integral of
        ``exp(-tr W + tr X / 2)`` over all W for which W and W - X lie in the cone. Let ``2 D = P - N``, both in the
        cone, ``tr P + tr N = 2 ||D||_*``. If W is admitted for X, W + P is for X + 2 D, as ``W + P - X - 2 D = W - X +
        N``. This changes the exponent by ``-tr P + (tr P - tr N) / 2``, which is ``-||D||_*``.
    """

    size: int  #: q
    name: ClassVar[str] = "nuclear"  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.size * (self.size + 1) // 2

    @property
    def coordinate_variances(self) -> Floats:
        """``(q + 1) / 2``, on the diagonal twice that."""
        return (np.ones((self.size, self.size)) + np.eye(self.size))[np.triu_indices(self.size)] * (self.size + 1) / 2

    @property
    def uniforms(self) -> int:
        return 2 * self.size * (self.size + 1)

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        normals = StandardNormals(self.uniforms).transform(uniforms)
        rows = [normals[k : k + self.size + 1] for k in range(0, len(normals), self.size + 1)]
        found = real.gram(rows[: self.size], rows[self.size :])
        return [(found[i][j] + found[j][i]) / 2 for i in range(self.size) for j in range(i, self.size)]


@final
@dataclass(frozen=True)
class MatrixNoiseMechanism(NormExponential):
    """Pure epsilon for a symmetric matrix, given by its upper triangle, row by row: half a difference of Wisharts.

    For one number it is Laplace noise; an entry has the deviation ``scale sqrt((q + 1) / 2)`` for q rows. The logarithm
    of the density changes by at most the nuclear norm of a shift over the scale (Lemma of `WishartDifference`), so the
    price is that of norm-exponential noise. All of a matrix has to be given that the sensitivity is about: the noise of
    entries is not independent, and an entry that is left at 0 hands out its part.
    """

    size: int  #: q, rows of the matrix; values have shape (q (q + 1) / 2,)
    sensitivity: Sensitivity  #: "nuclear"
    epsilon: float  #: positive
    name: ClassVar[str] = "matrix noise"
    dim = forwarded("norm", "dim")

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, "nuclear")
        _validate.integer("size", self.size, at_least=1)
        _validate.real("epsilon", self.epsilon, above=0.0)
        _ = self.step

    @cached_property
    def norm(self) -> WishartDifference:  # pyright: ignore[reportIncompatibleVariableOverride]
        return WishartDifference(self.size)
