r"""New coordinates for the parameters of a linear model: ``w = F v``, block by block, with the floats of F public.

A ridge ``l2/2 |v|^2`` on the new coordinates is the quadratic penalty of covariance ``F F^T`` on the old ones: shapes
that are likely a priori are cheap. Theorem A, factor form (docs, Additive models, section 1): objective perturbation
of features ``F^T x`` with the random term ``F^T b`` has the privacy of noise ``b`` in the old coordinates, with
``tau = X_2^2 / (n l2)`` and ``X_2 = sup |F^T x|``, for *any* public F whose columns sum to 0 over every centered block.
Nothing is inverted, so nothing is enclosed: F is what its floats say (`dpconvex._leverage`).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from dpconvex import _leverage, _rounding
from dpconvex._types import Floats, final_dataclass
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.data.domain import Block, DataDomain, is_centered

LARGEST_BLOCK = 512  #: Most columns of a block whose matrix is not plain contrasts: certificates state its floats.
NEGLIGIBLE = 1e-9  #: Directions in which a kernel has less than this share of its largest eigenvalue are dropped.
Kernel = Callable[[Block], Floats | None]
"""From a block of two columns or more to the prior covariance (d, d) of its values, of any scale; None: identity."""


@final_dataclass
class Factor:
    """The matrix F, block by block of a domain."""

    domain: DataDomain
    #: For each of `domain.all_blocks`: one number that multiplies the identity, contrasts, or the rows of a matrix.
    blocks: tuple[_leverage.Part, ...]

    def __post_init__(self) -> None:
        parts: list[_leverage.Part] = []
        for block, part in zip(self.domain.all_blocks, self.blocks, strict=True):
            if isinstance(part, tuple) and len(part) == 2 and not isinstance(part[0], tuple):
                part = _leverage.Contrasts(*cast(Any, part))  # as a certificate's recipe has it
            if not self._allowed(block, part):
                what = "must be one number or, for a simplex, a row on a grid for each column; centered: of sum 0"
                raise InvalidParameterError("blocks", block.name, what)
            parts.append(part)
        object.__setattr__(self, "blocks", tuple(parts))

    def _allowed(self, block: Block, part: _leverage.Part) -> bool:
        if isinstance(part, float):
            return math.isfinite(part) and not is_centered(self.domain, block)
        found = _leverage.grid(part)
        fits = block.norm == "simplex" and found.integers.shape[0] == block.size
        return fits and (found.balanced or not is_centered(self.domain, block))

    @classmethod
    def of(cls, domain: DataDomain, shares: Sequence[float], kernel: Kernel) -> "Factor":
        """Return the factor in which block j has the largest prior variance ``shares[j]`` of a prediction.

        `kernel` is called for centered blocks; parameters of all other blocks are independent and of equal variance.
        """
        parts: list[_leverage.Part] = []
        for block, share in zip(domain.all_blocks, shares, strict=True):
            if is_centered(domain, block):
                parts.append(_root(block.size, kernel(block), share))
            else:
                length = block.bound if block.norm == "linf" else block.l2  # of a box each column has its share
                parts.append(math.sqrt(share) / length)
        return cls(domain, tuple(parts))

    @classmethod
    def contrasts(cls, domain: DataDomain) -> "Factor":
        """Return the factor of the plain ridge: orthonormal contrasts in centered blocks, identities in all others."""
        blocks = domain.all_blocks
        parts = (_leverage.Contrasts(b.size, (b.size - 1) / b.size) if is_centered(domain, b) else 1.0 for b in blocks)
        return cls(domain, tuple(parts))

    @cached_property
    def matrix(self) -> Any:
        """The matrix F, sparse, (domain.dim, rank)."""
        return block_diagonal(self.matrices)

    @cached_property
    def matrices(self) -> tuple[Any, ...]:
        """The diagonal blocks of F, sparse."""
        parts = zip(self.domain.all_blocks, self.blocks, strict=True)
        return tuple(
            part * sparse.eye_array(block.size) if isinstance(part, float) else _leverage.grid(part).matrix
            for block, part in parts
        )

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Number of new coordinates of each block."""
        return tuple(matrix.shape[1] for matrix in self.matrices)

    @cached_property
    def mean_squares(self) -> Floats:
        """Mean squared length of the columns of each block of F, (m,)."""
        return np.array([float(matrix.power(2).sum() / matrix.shape[1]) for matrix in self.matrices])

    @property
    def rank(self) -> int:
        """Number of new coordinates."""
        return self.matrix.shape[1]

    @cached_property
    def l2(self) -> float:
        """``X_2``: largest l2 norm of a record in the new coordinates, the constant feature included; rounded up.

        A record's part in a simplex is a mixture of vertices, and so no longer than the longest row.
        """
        total = Fraction(0)
        for block, part in zip(self.domain.all_blocks, self.blocks, strict=True):
            if isinstance(part, float):
                total += (Fraction(part) * Fraction(block.l2)) ** 2
            else:
                total += _leverage.grid(part).squared_length * Fraction(block.rounded) ** 2
        return _rounding.widen_up(math.sqrt(_rounding.float_up(total)))

    @cached_property
    def summed_rounding(self) -> float:
        """Bound in l2 on the rounding of ``F^T g`` by the grid of sums (`summation`), for mean products of at most 1.

        Each of the ``dim`` entries of g errs by ``2^-60`` at most.
        """
        return 2.0**-60 * math.sqrt(self.domain.dim * float(self.matrix.power(2).sum())) * (1 + 1e-9)

    @property
    def stated(self) -> list[dict[str, Any]]:
        """The matrix F, block by block, in the form that certificates state."""
        return [_leverage.stated(part) for part in self.blocks]

    def deviations(self, deviations: Floats) -> Floats:
        """Return the standard deviations of ``F v`` (..., dim) for uncorrelated v of those deviations (..., rank)."""
        return np.sqrt((self.matrix.power(2) @ np.square(deviations).T).T)

    def parameters(self, v: Floats) -> Floats:
        """Return ``F v`` for vectors (..., rank)."""
        return (self.matrix @ v.T).T if v.ndim > 1 else self.matrix @ v

    def gradient(self, g: Floats) -> Floats:
        """Return ``F^T g`` for vectors (..., dim)."""
        return (self._transposed @ g.T).T if g.ndim > 1 else self._transposed @ g

    def curvature(self, hessian: Floats) -> Floats:
        """Return ``F^T H F`` for a symmetric matrix (dim, dim)."""
        return self._transposed @ (self._transposed @ hessian).T

    @cached_property
    def _transposed(self) -> Any:
        return sparse.csr_array(self.matrix.T)


def _root(d: int, covariance: Floats | None, share: float) -> _leverage.Part:
    """Return F with ``F F^T`` the centered covariance, scaled to the largest variance `share`, on its grid."""
    if covariance is None:
        return _leverage.Contrasts(d, share)
    if d > LARGEST_BLOCK:
        what = f"must have at most {LARGEST_BLOCK} vertices where their values depend on one another"
        raise InvalidParameterError("blocks", d, what, "Use fewer knots or pairs of coarser columns")
    centered = covariance - covariance.mean(0) - covariance.mean(1)[:, None] + covariance.mean()
    values, vectors = eigh(centered / centered.diagonal().max())
    kept = values > NEGLIGIBLE * values[-1]
    return _leverage.balanced(vectors[:, kept] * np.sqrt(share * values[kept]))


def block_diagonal(blocks: Iterable[Any]) -> Any:
    """Return the sparse matrix with these diagonal blocks, which may be sparse or arrays."""
    return sparse.csr_array(sparse.block_diag([*map(sparse.coo_array, blocks)]))
