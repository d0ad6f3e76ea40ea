r"""Norms in which noise is drawn, and the exact samplers of the densities ``exp(-||b||)`` (scale 1).

Pure mathematics: a norm knows its dimension, how long a record of a `DataDomain` can be in it, the energy of its
noise, and how to sample. The noise of density ``exp(-||b|| / scale)`` is ``scale`` times a sample. For several outputs
(softmax), noise is one independent copy per output, which is the law of the sum of the outputs' norms.

All norms here are *absolute*: they depend on ``|b_i|`` only and grow with each. So moving each coordinate by at most
``g`` moves the vector by at most ``g * norm(ones)``, and clipping coordinates never increases a distance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.problems import DataDomain

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MAX_RUNS = 2000
"""Largest number of distinct kinds of blocks that the quadratic search for groups looks at one by one."""

_UP = 1 + 1e-14


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


class NoiseNorm(ABC):
    """A norm on vectors of length `dim`, with a sampler of the density proportional to ``exp(-||b||)``."""

    name: str
    dim: int

    @abstractmethod
    def __call__(self, v: FloatArray) -> FloatArray:
        """Norm of vectors of shape (..., dim); shape (...)."""

    @abstractmethod
    def record_bound(self, domain: DataDomain) -> float:
        """Largest norm of a feature vector of `domain`, the constant feature included, rounded up."""

    @property
    @abstractmethod
    def coordinate_variances(self) -> FloatArray:
        """Variances of the coordinates of a sample, shape (dim,)."""

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

    @classmethod
    @abstractmethod
    def examples(cls) -> tuple[NoiseNorm, ...]:
        """A few small instances, for contract tests."""


@final
@dataclass(frozen=True)
class L2Norm(NoiseNorm):
    """The Euclidean norm: uniform direction, radius Gamma(dim); not a vector of independent Laplace variables."""

    dim: int
    name: ClassVar[str] = "l2"  # pyright: ignore[reportIncompatibleVariableOverride]

    def __post_init__(self) -> None:
        _validate.integer("dim", self.dim, at_least=1)

    def __call__(self, v: FloatArray) -> FloatArray:
        return np.linalg.norm(v, axis=-1)

    def record_bound(self, domain: DataDomain) -> float:
        _same_dim(self.dim, domain)
        return domain.l2

    @property
    def coordinate_variances(self) -> FloatArray:
        """``dim + 1`` each: the squared radius has mean ``dim (dim + 1)``."""
        return np.full(self.dim, self.dim + 1.0)

    @property
    def uniforms(self) -> int:
        """``dim`` for the radius, as many for the direction, one more if `dim` is odd."""
        return self.dim + self._normals.uniforms

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """Minus the logarithm of a product is Gamma(dim); a normal vector has the direction."""
        normals = self._normals.transform(uniforms[self.dim :])
        product: Any = math.prod(uniforms[: self.dim])
        square: Any = sum(z * z for z in normals)
        stretch = -product.log() / square.sqrt()
        return [stretch * z for z in normals]

    @property
    def _normals(self) -> StandardNormals:
        return StandardNormals(self.dim)

    @classmethod
    def examples(cls) -> tuple[L2Norm, ...]:
        return cls(1), cls(5)


@final
@dataclass(frozen=True, eq=False)
class GroupedNorm(NoiseNorm):
    r"""Grouped block norm ``sum_g a_g max_{j in g} ||b_j|| / s_j`` over consecutive blocks ``b_j``.

    A block is measured in l1 or, where its records fill a ball, in l2. One group per block of l1 is a weighted l1 norm,
    one group of all blocks the block maximum, one group of one-column blocks a scaled l-infinity norm. Within a group
    all blocks share one Gamma(D_g + 1) radius, ``D_g`` the columns of the group, and each block is uniform in its
    cross-polytope or ball.

    Docs, Objective perturbation, section 4: energies, optimal weights and sampler with proofs. K-norm mechanism: Hardt
    and Talwar 2010, "On the geometry of differential privacy".
    """

    sizes: IntArray  #: columns of each block, (m,)
    half_widths: FloatArray  #: ``s_j``, positive, (m,): the bound of the block over the domain, in l1 or l2
    groups: IntArray  #: number of the group of each block, (m,): 0 to G - 1, each used
    weights: FloatArray  #: ``a_g``, positive, (G,)
    name: str = "grouped"  #: for sensitivities and reports
    #: Which blocks are measured in l2, (m,); default none.
    euclidean: BoolArray = field(default_factory=lambda: np.zeros(1, dtype=bool))

    def __post_init__(self) -> None:
        object.__setattr__(self, "euclidean", np.broadcast_to(self.euclidean, np.shape(self.sizes)))
        for name, dtype in (
            ("euclidean", np.bool_),
            ("sizes", np.int64),
            ("half_widths", np.float64),
            ("groups", np.int64),
            ("weights", np.float64),
        ):
            array = np.array(getattr(self, name), dtype=dtype)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.sizes.ndim != 1 or not len(self.sizes) or (self.sizes < 1).any():
            raise InvalidParameterError("sizes", self.sizes, "must be a non-empty vector of integers >= 1")
        if self.half_widths.shape != self.sizes.shape or not _positive(self.half_widths):
            raise InvalidParameterError("half_widths", self.half_widths, "must be one positive number per block")
        used = np.unique(self.groups)
        if self.groups.shape != self.sizes.shape or not np.array_equal(used, np.arange(len(self.weights))):
            raise InvalidParameterError("groups", self.groups, "must give each block a group 0..G-1, each used")
        if self.weights.ndim != 1 or not _positive(self.weights):
            raise InvalidParameterError("weights", self.weights, "must be one positive number per group")

    @classmethod
    def for_domain(cls, domain: DataDomain) -> GroupedNorm:
        """Cheapest grouping of the domain's blocks, by dynamic programming over blocks sorted by size and width.

        Equal blocks stay together. Above `MAX_RUNS` distinct kinds, neighboring kinds are first joined into that
        many chunks; the answer is then at least as good as one group per block.
        """
        sizes, widths, euclidean = _blocks(domain)
        kinds, kind_of = np.unique(np.column_stack([sizes, widths, euclidean]), axis=0, return_inverse=True)
        kind_of = kind_of.reshape(-1)
        chunk_of = kind_of if len(kinds) <= MAX_RUNS else kind_of * MAX_RUNS // len(kinds)
        spread = _sum_by(chunk_of, _spread(sizes, widths / widths.max(), euclidean))
        groups = _cheapest_groups(_sum_by(chunk_of, sizes), spread)[chunk_of]
        candidates = [groups] if len(kinds) <= MAX_RUNS else [groups, np.arange(len(sizes))]
        weights = [_optimal_weights(sizes, widths, each, euclidean) for each in candidates]
        norms = [cls(sizes, widths, *pair, "grouped", euclidean) for pair in zip(candidates, weights, strict=True)]
        return min(norms, key=lambda norm: norm.record_bound(domain) ** 2 * norm.energy)

    @classmethod
    def l1(cls, domain: DataDomain) -> GroupedNorm:
        """The plain l1 norm: independent Laplace coordinates of equal scale."""
        sizes, widths = _l1_blocks(domain)
        return cls(sizes, widths, np.arange(len(sizes)), widths, "l1")

    @classmethod
    def weighted_l1(cls, domain: DataDomain) -> GroupedNorm:
        """The cheapest blockwise weighted l1 norm."""
        sizes, widths = _l1_blocks(domain)
        alone = np.arange(len(sizes))
        return cls(sizes, widths, alone, _optimal_weights(sizes, widths, alone, False), "weighted_l1")

    @classmethod
    def block_max(cls, domain: DataDomain) -> GroupedNorm:
        """``max_j ||b_j|| / s_j``: every record of the domain has norm at most 1."""
        sizes, widths, euclidean = _blocks(domain)
        return cls(sizes, widths, np.zeros(len(sizes), dtype=np.int64), np.ones(1), "block_max", euclidean)

    @cached_property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return int(self.sizes.sum())

    def __call__(self, v: FloatArray) -> FloatArray:
        blocks = self._block_sums(np.abs(v))
        if self.euclidean.any():
            blocks = np.where(self.euclidean, np.sqrt(self._block_sums(np.square(v))), blocks)
        return self._group_maxima(blocks / self.half_widths) @ self.weights

    def record_bound(self, domain: DataDomain) -> float:
        """``sum_g a_g`` for the domain the norm was made for; in general the group's widest block counts."""
        sizes, widths, euclidean = _blocks(domain)
        if not self.euclidean.any():
            (sizes, widths), euclidean = _l1_blocks(domain), self.euclidean
        if not (np.array_equal(sizes, self.sizes) and np.array_equal(euclidean, self.euclidean)):
            raise InvalidParameterError(
                "domain", f"{len(sizes)} blocks", "must have the norm's blocks", "Build the norm from this domain"
            )
        widths = widths * np.where(self.euclidean, 1 + 1e-15 * (4 + sizes), 1.0)  # as `Block.l2`
        return math.fsum(self._group_maxima(widths / self.half_widths) * self.weights) * _UP

    @cached_property
    def coordinate_variances(self) -> FloatArray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """``(D+1)(D+2)/a^2`` times ``2 s^2/((d+1)(d+2))``, l2: ``s^2/(d+2)``; block of d columns, group of D."""
        radius = (self._group_sizes + 1) * (self._group_sizes + 2) / self.weights**2
        spread = _spread(self.sizes, self.half_widths, self.euclidean)
        variances = np.repeat(radius[self.groups] * (spread / self.sizes), self.sizes)
        variances.setflags(write=False)
        return variances

    @property
    def uniforms(self) -> int:
        """``D + 1`` for the radius of a group of ``D`` columns, ``d + 1`` for a block of ``d``, l2: made even."""
        return 2 * self.dim + len(self.weights) + len(self.sizes) + int((self.sizes[self.euclidean] % 2).sum())

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """Signed exponentials over their sum and one more, per block; times one Gamma(D + 1) radius per group.

        Minus the logarithm of a product of ``D + 1`` uniform numbers has that law. In l2: normal numbers over the root
        of the sum of their squares and of twice an exponential (Barthe, Guedon, Mendelson and Naor 2005, theorem 1).
        """
        rest = iter(uniforms)
        shapes, weights = self._group_sizes.astype(int).tolist(), self.weights.tolist()
        products: list[Any] = [math.prod(islice(rest, d + 1)) for d in shapes]
        radii = [-product.log() / a for product, a in zip(products, weights, strict=True)]
        out: list[Any] = []
        blocks = (self.sizes, self.half_widths, self.groups, self.euclidean)
        for d, s, group, euclidean in zip(*(values.tolist() for values in blocks), strict=True):
            if euclidean:
                law = StandardNormals(d)
                normals = law.transform(list(islice(rest, law.uniforms)))
                stretch = radii[group] * s / (sum(z * z for z in normals) - 2 * next(rest).log()).sqrt()
                out += (z * stretch for z in normals)
                continue
            signed = [2 * u - 1 for u in islice(rest, d)]
            lengths = [-abs(t).log() for t in signed]
            stretch = radii[group] * s / (sum(lengths) - next(rest).log())
            out += (t.sgn() * length * stretch for t, length in zip(signed, lengths, strict=True))
        return out

    @classmethod
    def examples(cls) -> tuple[GroupedNorm, ...]:
        return (
            cls(np.array([1, 3, 2]), np.array([0.5, 1.0, 2.0]), np.array([0, 1, 0]), np.array([2.0, 1.5])),
            cls(np.array([4]), np.array([1.0]), np.array([0]), np.array([1.0]), "l1"),
            cls(np.ones(3, dtype=np.int64), np.ones(3), np.zeros(3, dtype=np.int64), np.ones(1), "block_max"),
            cls(
                np.array([3, 2, 1]),
                np.array([1.0, 0.5, 2.0]),
                np.array([0, 0, 1]),
                np.array([1.0, 0.5]),
                euclidean=np.array([True, False, False]),
            ),
        )

    @cached_property
    def _group_sizes(self) -> FloatArray:
        return _sum_by(self.groups, self.sizes)

    @cached_property
    def _by_group(self) -> tuple[IntArray, IntArray]:
        """Order of the blocks by group, and where each group starts in it."""
        return np.argsort(self.groups, kind="stable"), _starts(np.bincount(self.groups))

    def _block_sums(self, v: FloatArray) -> FloatArray:
        return np.add.reduceat(v, _starts(self.sizes), axis=-1)

    def _group_maxima(self, blocks: FloatArray) -> FloatArray:
        order, starts = self._by_group
        return np.maximum.reduceat(blocks[..., order], starts, axis=-1)


def gaussian_block_weights(domain: DataDomain) -> tuple[FloatArray, float]:
    """Cheapest blockwise variances of Gaussian noise for records of `domain`.

    The noise is ``N(0, sigma^2 diag(1/m_j))`` with ``m_j = sqrt(d_j) / s_j``, ``s_j`` the block's l2 bound; its
    energy is ``sigma^2 (sum_j s_j sqrt(d_j)) ** 2`` over the squared record length, against ``d sum_j s_j^2`` for equal
    variances (docs, Objective perturbation, end of section 3). Returns the standard deviations ``1 / sqrt(m_j)`` of all
    coordinates at ``sigma = 1``, and the largest length of a record in units of these, ``sqrt(sum_j m_j s_j^2)``; both
    rounded up.
    """
    sizes = np.array([block.size for block in domain.all_blocks])
    widths = np.array([block.l2 for block in domain.all_blocks])
    weights = np.sqrt(sizes) / widths
    bound = math.sqrt(math.fsum(weights * widths**2)) * _UP
    return np.repeat(1 / np.sqrt(weights) * _UP, sizes), bound


def _same_dim(dim: int, domain: DataDomain) -> None:
    if domain.dim != dim:
        raise InvalidParameterError("domain", domain.dim, f"must have {dim} columns", "Build the norm for this domain")


def _sum_by(groups: IntArray, values: AnyArray) -> FloatArray:
    return np.bincount(groups, values).astype(np.float64)


def _positive(v: AnyArray) -> bool:
    return bool(np.isfinite(v).all() and (v > 0).all())


def _starts(sizes: NDArray[Any]) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _blocks(domain: DataDomain) -> tuple[IntArray, FloatArray, BoolArray]:
    """Sizes, bounds of the domain's blocks, and which are bounded in l2; a box counts as one-column blocks."""
    blocks = domain.all_blocks
    repeats = [block.size if block.norm == "linf" else 1 for block in blocks]
    euclidean = np.repeat([block.norm == "l2" and block.size > 1 for block in blocks], repeats)
    sizes = np.array([1 if block.norm == "linf" else block.size for block in blocks], dtype=np.int64)
    return np.repeat(sizes, repeats), np.repeat([block.bound for block in blocks], repeats), euclidean


def _l1_blocks(domain: DataDomain) -> tuple[IntArray, FloatArray]:
    """As `_blocks`, all bounded in l1."""
    sizes, widths, euclidean = _blocks(domain)
    return sizes, np.where(euclidean, widths * np.sqrt(sizes) * _UP, widths)


def _spread(sizes: IntArray, widths: FloatArray, euclidean: BoolArray | bool) -> FloatArray:
    """Expected squared length of a uniform point of each block's cross-polytope, or ball."""
    return sizes * widths**2 / (sizes + 2.0) * np.where(euclidean, 1.0, 2 / (sizes + 1.0))


def _optimal_weights(sizes: IntArray, widths: FloatArray, groups: IntArray, euclidean: BoolArray | bool) -> FloatArray:
    """``a_g = E_g^(1/3)``: Hoelder's optimum of ``(sum a_g)^2 sum E_g / a_g^2``; any positive weights are valid."""
    largest = widths.max()  # taken out, and tiny energies lifted, so that no square underflows to a zero weight
    energy = _group_energy(_sum_by(groups, sizes), _sum_by(groups, _spread(sizes, widths / largest, euclidean)))
    return np.cbrt(np.maximum(energy, 1e-60 * energy.max())) * largest ** (2 / 3)


def _group_energy(columns: FloatArray, spread: FloatArray) -> FloatArray:
    """``E_g`` of the docs, Objective perturbation, section 4: expected squared length at epsilon 1, slope bound 1."""
    return 4 * (columns + 1) * (columns + 2) * spread


def _cheapest_groups(columns: FloatArray, spread: FloatArray) -> IntArray:
    """Split a sequence into contiguous groups of least ``sum_g E_g^(1/3)``; the group number of each item."""
    items = len(columns)
    before_columns = np.concatenate([[0.0], np.cumsum(columns)])
    before_spread = np.concatenate([[0.0], np.cumsum(spread)])
    cost, cut = np.zeros(items + 1), np.zeros(items + 1, dtype=np.int64)
    for stop in range(1, items + 1):
        energy = _group_energy(before_columns[stop] - before_columns[:stop], before_spread[stop] - before_spread[:stop])
        candidates = cost[:stop] + np.cbrt(energy)
        cut[stop] = int(np.argmin(candidates))
        cost[stop] = candidates[cut[stop]]
    groups, stop, number = np.zeros(items, dtype=np.int64), items, 0
    while stop:
        groups[cut[stop] : stop] = number
        stop, number = int(cut[stop]), number + 1
    return number - 1 - groups
