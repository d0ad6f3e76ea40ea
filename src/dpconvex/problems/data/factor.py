r"""New coordinates for the parameters of a linear model: ``w = F v``, block by block, with the floats of F public.

A ridge ``l2/2 |v|^2`` on the new coordinates is the quadratic penalty of covariance ``F F^T`` on the old ones: shapes
that are likely beforehand are cheap. Theorem A, factor form (docs, Additive models, section 1): objective perturbation
of features ``F^T x`` with the random term ``F^T b`` has the privacy of noise ``b`` in the old coordinates, with
``tau = X_2^2 / (n l2)`` and ``X_2 = sup |F^T x|``, for *any* public F whose columns sum to 0 over every centered block.
Nothing is inverted, so nothing is enclosed: F is what its floats say.

Columns of F sum to exactly 0 over a centered block: entries are multiples of ``2**-40`` of a power of two that no entry
exceeds, and the last row is minus the sum of the others, exact for up to ``2**12`` rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.data.domain import Block, DataDomain

GRID_BITS, LARGEST_BLOCK = 40, 2**12
NEGLIGIBLE = 1e-9
"""Eigenvalues of a kernel below this share of the largest are dropped: no prior variance, no direction."""

Kernel = Callable[[Block], FloatArray | None]
"""From a block of two columns or more to the prior covariance of its values, (d, d), any scale; None: independent."""


@final
@dataclass(frozen=True, eq=False)
class Factor:
    """The matrix F, block by block of a domain."""

    domain: DataDomain
    #: For each of `domain.all_blocks`: a matrix (d, r), or one number that multiplies the identity.
    blocks: tuple[FloatArray | float, ...]

    def __post_init__(self) -> None:
        for block, part in zip(self.domain.all_blocks, self.blocks, strict=True):
            ok = np.isfinite(part).all() and (np.ndim(part) == 0 or np.shape(part)[0] == block.size)
            if not ok or (self.centered(block) and (np.ndim(part) == 0 or _column_sums(np.asarray(part)).any())):
                what = "must be finite, with a row for each column and, over a centered block, columns of sum 0"
                raise InvalidParameterError("blocks", block.name, what)

    @classmethod
    def of(cls, domain: DataDomain, shares: Sequence[float], kernel: Kernel) -> Factor:
        """Return the factor in which block j has the largest prior variance ``shares[j]`` of a prediction.

        `kernel` is asked for centered blocks; the others have equal, independent parameters.
        """
        parts: list[FloatArray | float] = []
        for block, share in zip(domain.all_blocks, shares, strict=True):
            if cls.centered_in(domain, block):
                parts.append(_root(block.size, kernel(block), share))
            else:
                length = block.bound if block.norm == "linf" else block.l2  # of a box each column has its share
                parts.append(_on_grid(np.array(math.sqrt(share) / length), 52).item())
        return cls(domain, tuple(parts))

    @classmethod
    def contrasts(cls, domain: DataDomain) -> Factor:
        """Return the factor of the plain ridge: orthonormal contrasts of centered blocks, all else as it is."""
        shares = [
            (block.size - 1) / block.size if cls.centered_in(domain, block) else None for block in domain.all_blocks
        ]
        blocks = zip(domain.all_blocks, shares, strict=True)
        return cls(domain, tuple(1.0 if share is None else _root(block.size, None, share) for block, share in blocks))

    @staticmethod
    def centered_in(domain: DataDomain, block: Block) -> bool:
        """Return whether that block of the domain is centered."""
        return block.norm == "simplex" and domain.intercept > 0

    def centered(self, block: Block) -> bool:
        """Return whether that block is centered."""
        return self.centered_in(self.domain, block)

    @cached_property
    def matrix(self) -> Any:
        """The whole of F, sparse, (domain.dim, rank)."""
        sizes = [block.size for block in self.domain.all_blocks]
        parts = [
            part * sparse.eye_array(size) if np.ndim(part) == 0 else part
            for part, size in zip(self.blocks, sizes, strict=True)
        ]
        return sparse.csr_array(sparse.block_diag(parts, format="csr"))

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """New coordinates of each block."""
        blocks = zip(self.domain.all_blocks, self.blocks, strict=True)
        return tuple(block.size if np.ndim(part) == 0 else np.shape(part)[1] for block, part in blocks)

    @cached_property
    def mean_squares(self) -> FloatArray:
        """Mean squared length of the columns of each block of F, (m,)."""
        return np.array([float(np.square(part).sum() / max(np.shape(part)[-1:], default=1)) for part in self.blocks])

    @property
    def rank(self) -> int:
        """How many new coordinates there are."""
        return self.matrix.shape[1]

    @cached_property
    def l2(self) -> float:
        """``X_2``: largest l2 norm of a record in the new coordinates, the constant feature included; rounded up.

        A record's part in a simplex is a mixture of vertices, and so no longer than the longest row.
        """
        total = Fraction(0)
        for block, part in zip(self.domain.all_blocks, self.blocks, strict=True):
            if np.ndim(part) == 0:
                total += (Fraction(float(part)) * Fraction(block.l2)) ** 2
            else:
                longest = max(sum(Fraction(x) ** 2 for x in row) for row in np.asarray(part).tolist())
                total += longest * Fraction(block.rounded) ** 2
        return _rounding.widen_up(math.sqrt(_rounding.float_up(total)))

    def deviations(self, deviations: FloatArray) -> FloatArray:
        """Return the standard deviations of ``F v`` (..., dim) for uncorrelated v of those deviations (..., rank)."""
        return np.sqrt((self.matrix.power(2) @ np.square(deviations).T).T)

    def parameters(self, v: FloatArray) -> FloatArray:
        """Return ``F v`` for vectors (..., rank)."""
        return (self.matrix @ v.T).T if v.ndim > 1 else self.matrix @ v

    def gradient(self, g: FloatArray) -> FloatArray:
        """Return ``F^T g`` for vectors (..., dim)."""
        return (self._transposed @ g.T).T if g.ndim > 1 else self._transposed @ g

    def curvature(self, hessian: FloatArray) -> FloatArray:
        """Return ``F^T H F`` for a symmetric matrix (dim, dim)."""
        return self._transposed @ (self._transposed @ hessian).T

    @cached_property
    def _transposed(self) -> Any:
        return sparse.csr_array(self.matrix.T)


def _root(d: int, covariance: FloatArray | None, share: float) -> FloatArray:
    """Return F with ``F F^T`` the centered covariance, scaled to the largest variance `share`, on its grid."""
    if d > LARGEST_BLOCK:
        raise InvalidParameterError("blocks", d, f"must have at most {LARGEST_BLOCK} levels", "Group rare levels")
    if covariance is None:
        root = _contrasts(d) * math.sqrt(share * d / (d - 1))
    else:
        centered = covariance - covariance.mean(0) - covariance.mean(1)[:, None] + covariance.mean()
        values, vectors = eigh(centered / centered.diagonal().max())
        kept = values > NEGLIGIBLE * values[-1]
        root = vectors[:, kept] * np.sqrt(share * values[kept])
    root = _on_grid(root, GRID_BITS)
    root[-1] = 0.0
    root[-1] = -root.sum(0)  # exact: multiples of one power of two
    return root[:, root.any(0)] + 0.0


def _contrasts(d: int) -> FloatArray:
    """Return Helmert's orthonormal basis of the vectors of sum 0, (d, d - 1): roots and quotients only."""
    m = np.arange(1.0, d)
    basis = np.triu(np.ones((d, d - 1)))
    basis[np.arange(1, d), np.arange(d - 1)] = -m
    return basis / np.sqrt(m * (m + 1))


def _on_grid(x: FloatArray, bits: int) -> FloatArray:
    unit = 2.0 ** (math.ceil(math.log2(np.abs(x).max())) - bits)
    return np.rint(x / unit) * unit


def _column_sums(part: FloatArray) -> FloatArray:
    return np.array([float(sum(map(Fraction, column))) for column in part.T.tolist()])
