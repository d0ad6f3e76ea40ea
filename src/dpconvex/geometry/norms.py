r"""Norms in which noise is drawn, and the exact samplers of the densities ``exp(-||b||)`` (scale 1) and other laws.

Pure mathematics: a norm knows its dimension, the largest norm of a record of a `DataDomain`, its noise's energy
(expected squared length), and how to sample. Noise of density ``exp(-||b|| / scale)`` is ``scale`` times a sample. For
several outputs (softmax), noise is one independent copy per output, the law of the sum of the outputs' norms.

A norm is *absolute* if it depends on ``|b_i|`` only and grows with each. Then moving each coordinate by at most ``g``
moves the vector by at most ``g * norm(ones)``, and clipping coordinates never increases a distance. A norm with
centered blocks is not: it is 0 for a vector that is constant in each of them.

All laws (`NoiseLaw`) are functions of uniform numbers: noise of norms, independent normals, laws in new coordinates.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dpconvex import _validate
from dpconvex._types import REQUIRED, Array, Floats, IntArray, final_dataclass, forwarded
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import grouping
from dpconvex.problems import DataDomain, Factor


class NoiseLaw(ABC):
    """The law of the noise added to a release: a random vector of length `dim` that is sampled exactly."""

    name: str
    dim: int
    coordinate_variances: Floats = REQUIRED  #: Variances of the coordinates of a sample, shape (dim,).
    uniforms: int = REQUIRED  #: Number of independent uniform numbers that `transform` takes.
    #: Variance of ``<u, b>`` for unit vectors u that sum to 0 over centered blocks, by coordinate, (dim,).
    #:
    #: Contrasts of one block have equal variances, and those of different coordinates and blocks are uncorrelated.
    contrast_variances: Floats = forwarded("coordinate_variances")

    @property
    def energy(self) -> float:
        """Expected squared Euclidean length of a sample."""
        return float(self.coordinate_variances.sum())

    @abstractmethod
    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """Return one sample as a function of uniform numbers of (0, 1), as balls (`dpconvex.randomness.real`)."""


@final_dataclass
class StandardNormals:
    """Independent standard normal numbers, at least one, by Box and Muller."""

    dim: int

    @property
    def uniforms(self) -> int:
        """Two uniform numbers for every pair of normal numbers."""
        return self.dim + self.dim % 2

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """``sqrt(-2 log u) (cos 2 pi v, sin 2 pi v)`` for every pair, the last one cut if `dim` is odd."""
        out: list[Any] = []
        for u, v in zip(uniforms[::2], uniforms[1::2], strict=True):
            length, (sine, cosine) = (-2 * u.log()).sqrt(), (2 * v).sin_cos_pi()
            out += (length * cosine, length * sine)
        return out[: self.dim]


@final_dataclass(eq=False)
class IndependentNormals(NoiseLaw):
    """Independent normal coordinates with the given standard deviations, (dim,)."""

    deviations: Floats
    name: ClassVar[str] = "gaussian"

    @property
    def dim(self) -> int:
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


@final_dataclass(eq=False)
class FactoredNoise(NoiseLaw):
    """The law of ``F^T b``, with b a sample of a law on the old coordinates, formed in ball arithmetic.

    Noise of the old coordinates, seen in new ones: docs, Additive models, section 1.
    """

    base: NoiseLaw
    factor: Factor
    name = forwarded("base", "name")  #: Name of the law on the old coordinates, in whose norm records are measured
    dim = forwarded("factor", "rank")
    uniforms = forwarded("base", "uniforms")

    @cached_property
    def coordinate_variances(self) -> Floats:
        return self.factor.matrix.power(2).T @ self.base.contrast_variances

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        b, columns = self.base.transform(uniforms), sparse.csc_array(self.factor.matrix)
        starts, rows, entries = columns.indptr.tolist(), columns.indices.tolist(), columns.data.tolist()
        return [sum(entries[k] * b[rows[k]] for k in range(*span)) for span in pairwise(starts)]


MAX_RUNS = 2000  #: Largest number of distinct kinds of blocks in the quadratic search for groups; more are merged first


class NoiseNorm(NoiseLaw):
    """A norm on vectors of length `dim`, with a sampler of the density proportional to ``exp(-||b||)``."""

    absolute: bool = True  #: whether it depends on the coordinates' magnitudes only, and grows with each

    @abstractmethod
    def __call__(self, v: Floats) -> Floats:
        """Norm of vectors of shape (..., dim); shape (...)."""

    @abstractmethod
    def record_bound(self, domain: DataDomain) -> float:
        """Largest norm of a feature vector of `domain`, the constant feature included, rounded up."""


@final_dataclass
class L2Norm(NoiseNorm):
    """The Euclidean norm; noise has a uniform direction and a radius of law Gamma(dim), so it is no Laplace vector."""

    dim: int
    name: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        _validate.integer("dim", self.dim, at_least=1)

    def __call__(self, v: Floats) -> Floats:
        return np.linalg.norm(v, axis=-1)

    def record_bound(self, domain: DataDomain) -> float:
        if domain.dim != self.dim:
            what = f"must have {self.dim} columns"
            raise InvalidParameterError("domain", domain.dim, what, "Build the norm for this domain")
        return domain.l2

    @property
    def coordinate_variances(self) -> Floats:
        """``dim + 1`` in each coordinate, as the squared radius has mean ``dim (dim + 1)``."""
        return np.full(self.dim, self.dim + 1.0)

    @property
    def uniforms(self) -> int:
        """``dim`` numbers for the radius, ``dim`` for the direction, and one more if `dim` is odd."""
        return self.dim + StandardNormals(self.dim).uniforms

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """Minus the logarithm of a product is Gamma(dim); a normal vector has the direction."""
        normals = StandardNormals(self.dim).transform(uniforms[self.dim :])
        product: Any = math.prod(uniforms[: self.dim])
        square: Any = sum(z * z for z in normals)
        stretch = -product.log() / square.sqrt()
        return [stretch * z for z in normals]


@final_dataclass(eq=False)
class GroupedNorm(NoiseNorm):
    r"""Grouped block norm ``sum_g a_g max_{j in g} ||b_j|| / s_j`` over consecutive blocks ``b_j``.

    A block is measured in l1 or, where its records fill a ball, in l2. One group per block of l1 is a weighted l1 norm,
    one group of all blocks the block maximum, one group of one-column blocks a scaled l-infinity norm. Within a group
    all blocks share one Gamma(D_g + 1) radius, ``D_g`` the dimensions of the group, and each block is uniform in its
    cross-polytope or ball.

    A *centered* block of d columns, whose records are points of a simplex, is measured in the quotient of l1 by the
    constants, ``||v||_c = min_t ||v + t 1||_1 = sum_k |v_k - median(v)|``: it has ``d - 1`` dimensions, and samples
    have the sum 0 in it. (A representative with a coordinate that is exactly 0 would give away what it is added to.)

    Docs, Objective perturbation, section 4, and Additive models, section 2: energies, optimal weights and samplers with
    proofs. K-norm mechanism: Hardt and Talwar 2010, "On the geometry of differential privacy".
    """

    sizes: IntArray  #: columns of each block, (m,)
    half_widths: Floats  #: ``s_j``, positive, (m,): the bound of the block over the domain, in l1 or l2
    groups: IntArray  #: number of the group of each block, (m,): 0 to G - 1, each used
    weights: Floats  #: ``a_g``, positive, (G,)
    name: str = "grouped"  #: name in sensitivities and reports
    #: Which blocks are measured in l2, (m,); default none.
    euclidean: grouping.BoolArray = field(default_factory=lambda: np.zeros(1, dtype=bool))
    #: Which blocks are measured in l1 modulo constants, (m,); default none.
    centered: grouping.BoolArray = field(default_factory=lambda: np.zeros(1, dtype=bool))

    def __post_init__(self) -> None:
        kinds = {"euclidean": np.bool_, "centered": np.bool_, "sizes": np.int64, "groups": np.int64}
        for name in (*kinds, "half_widths", "weights"):
            given, kind = getattr(self, name), kinds.get(name, np.float64)
            array = np.array(np.broadcast_to(given, np.shape(self.sizes)) if kind is np.bool_ else given, dtype=kind)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.sizes.ndim != 1 or not len(self.sizes) or (self.sizes < 1).any():
            raise InvalidParameterError("sizes", self.sizes, "must be a non-empty vector of integers >= 1")
        if (self.centered & (self.euclidean | (self.sizes < 2))).any():
            raise InvalidParameterError("centered", self.centered, "must be l1 blocks of at least two columns")
        if self.half_widths.shape != self.sizes.shape or not _positive(self.half_widths):
            raise InvalidParameterError("half_widths", self.half_widths, "must be one positive number per block")
        used = np.unique(self.groups)
        if self.groups.shape != self.sizes.shape or not np.array_equal(used, np.arange(len(self.weights))):
            raise InvalidParameterError("groups", self.groups, "must give each block a group 0..G-1, each used")
        if self.weights.ndim != 1 or not _positive(self.weights):
            raise InvalidParameterError("weights", self.weights, "must be one positive number per group")

    @classmethod
    def for_domain(cls, domain: DataDomain, costs: Sequence[float] | None = None) -> "GroupedNorm":
        """Cheapest grouping of the domain's blocks, by dynamic programming over blocks sorted by size and width.

        `costs` are the positive costs of a unit of energy in each of `domain.all_blocks`, by default all equal.

        Equal blocks stay together. If there are more than `MAX_RUNS` distinct kinds, neighboring kinds are first joined
        into `MAX_RUNS` chunks; the result is then at least as good as one group per block.
        """
        shapes = grouping.blocks_of(domain, costs)
        kinds, kind_of = np.unique(np.column_stack(shapes), axis=0, return_inverse=True)
        kind_of = kind_of.reshape(-1)
        chunk_of = kind_of if len(kinds) <= MAX_RUNS else kind_of * MAX_RUNS // len(kinds)
        spread = grouping.sum_by(chunk_of, shapes.scaled(1 / shapes.widths.max()).cost)
        groups = grouping.cheapest_groups(grouping.sum_by(chunk_of, shapes.dimensions), spread)[chunk_of]
        candidates = [groups] if len(kinds) <= MAX_RUNS else [groups, np.arange(len(shapes.sizes))]
        norms = [cls._of(shapes, each, grouping.optimal_weights(shapes, each), "grouped") for each in candidates]
        each = np.repeat(shapes.costs, shapes.sizes)
        return min(norms, key=lambda norm: norm.record_bound(domain) ** 2 * float(norm.coordinate_variances @ each))

    @classmethod
    def _of(cls, shapes: grouping.Shapes, groups: IntArray, weights: Floats, name: str) -> "GroupedNorm":
        return cls(shapes.sizes, shapes.widths, groups, weights, name, shapes.euclidean, shapes.centered)

    @classmethod
    def l1(cls, domain: DataDomain) -> "GroupedNorm":
        """The plain l1 norm: independent Laplace coordinates of equal scale."""
        shapes = grouping.l1_blocks(domain)
        return cls._of(shapes, np.arange(len(shapes.sizes)), shapes.widths, "l1")

    @classmethod
    def weighted_l1(cls, domain: DataDomain, costs: Sequence[float] | None = None) -> "GroupedNorm":
        """The cheapest blockwise weighted l1 norm; `costs` as `for_domain` has them."""
        shapes = grouping.l1_blocks(domain, costs)
        alone = np.arange(len(shapes.sizes))
        return cls._of(shapes, alone, grouping.optimal_weights(shapes, alone), "weighted_l1")

    @classmethod
    def block_max(cls, domain: DataDomain) -> "GroupedNorm":
        """``max_j ||b_j|| / s_j``: every record of the domain has norm at most 1."""
        shapes = grouping.blocks_of(domain)
        return cls._of(shapes, np.zeros(len(shapes.sizes), dtype=np.int64), np.ones(1), "block_max")

    @property
    def absolute(self) -> bool:
        return not self.centered.any()

    @cached_property
    def dim(self) -> int:
        return int(self.sizes.sum())

    def __call__(self, v: Floats) -> Floats:
        blocks = self._block_sums(np.abs(v))
        if self.euclidean.any():
            blocks = np.where(self.euclidean, np.sqrt(self._block_sums(np.square(v))), blocks)
        for j, start in zip(np.flatnonzero(self.centered), _starts(self.sizes)[self.centered], strict=True):
            part = v[..., start : start + self.sizes[j]]
            blocks[..., j] = np.abs(part - np.median(part, axis=-1, keepdims=True)).sum(-1)
        return self._group_maxima(blocks / self.half_widths) @ self.weights

    def record_bound(self, domain: DataDomain) -> float:
        """``sum_g a_g`` for the domain the norm was made for; in general a group counts with its widest block."""
        shapes = grouping.blocks_of(domain) if self.euclidean.any() else grouping.l1_blocks(domain)
        same = ((getattr(shapes, name), getattr(self, name)) for name in ("sizes", "euclidean", "centered"))
        if not all(np.array_equal(*pair) for pair in same):
            blocks, remedy = f"{len(shapes.sizes)} blocks", "Build the norm from this domain"
            raise InvalidParameterError("domain", blocks, "must have the norm's blocks", remedy)
        rounding = np.where(shapes.sizes > 1, 1 + 1e-15 * (4 + shapes.sizes), 1.0)  # as `Block.rounded`
        return math.fsum(self._group_maxima(shapes.widths * rounding / self.half_widths) * self.weights) * grouping.UP

    @cached_property
    def coordinate_variances(self) -> Floats:
        """``(D+1)(D+2)/a^2`` times ``2 s^2/((d+1)(d+2))`` (l1) or ``s^2/(d+2)`` (l2): block of d columns, group of D.

        Centered: the latter is (2.1) of the docs, Additive models, over d; covariances have ``(d I - 1 1^T)/(d - 1)``.
        """
        radius = (self._group_sizes + 1) * (self._group_sizes + 2) / self.weights**2
        variances = np.repeat(radius[self.groups] * (self._shapes.spread / self.sizes), self.sizes)
        variances.setflags(write=False)
        return variances

    @property
    def contrast_variances(self) -> Floats:
        stretch = np.where(self.centered, self.sizes / np.maximum(self.sizes - 1, 1), 1.0)
        return self.coordinate_variances * np.repeat(stretch, self.sizes)

    @property
    def uniforms(self) -> int:
        """``D + 1`` for a group's radius; for a block ``d + 1`` (in l2: the next even d, plus 1; if centered: 2 d)."""
        blocks = self.sizes + np.where(self.centered, self.sizes, 1 + (self.sizes % 2) * self.euclidean)
        return int(self._group_sizes.sum()) + len(self.weights) + int(blocks.sum())

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """Signed exponentials over their sum and one more, per block; times one Gamma(D + 1) radius per group.

        Minus the logarithm of a product of ``D + 1`` uniform numbers has that law. In l2: normal numbers over the root
        of the sum of their squares and of twice an exponential (Barthe, Guedon, Mendelson and Naor 2005, theorem 1).
        Centered: exponentials over their sum, with `_balanced_signs`, less their mean (docs, Additive models).
        """
        rest = iter(uniforms)
        shapes, weights = self._group_sizes.astype(int).tolist(), self.weights.tolist()
        products: list[Any] = [math.prod(islice(rest, d + 1)) for d in shapes]
        radii = [-product.log() / a for product, a in zip(products, weights, strict=True)]
        out: list[Any] = []
        blocks = (self.sizes, self.half_widths, self.groups, self.euclidean, self.centered)
        for d, s, group, euclidean, centered in zip(*(values.tolist() for values in blocks), strict=True):
            if centered:
                signs = _balanced_signs(list(islice(rest, d)))
                exponentials = [-u.log() for u in islice(rest, d)]
                signed = [sign * length for sign, length in zip(signs, exponentials, strict=True)]
                stretch, mean = radii[group] * s / sum(exponentials), sum(signed) / d
                out += ((x - mean) * stretch for x in signed)
                continue
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

    @cached_property
    def _shapes(self) -> grouping.Shapes:
        return grouping.Shapes(self.sizes, self.half_widths, self.euclidean, self.centered, np.ones(len(self.sizes)))

    @cached_property
    def _group_sizes(self) -> Floats:
        return grouping.sum_by(self.groups, self._shapes.dimensions)

    @cached_property
    def _by_group(self) -> tuple[IntArray, IntArray]:
        """Order of the blocks by group, and where each group starts in it."""
        return np.argsort(self.groups, kind="stable"), _starts(np.bincount(self.groups))

    def _block_sums(self, v: Floats) -> Floats:
        return np.add.reduceat(v, _starts(self.sizes), axis=-1)

    def _group_maxima(self, blocks: Floats) -> Floats:
        order, starts = self._by_group
        return np.maximum.reduceat(blocks[..., order], starts, axis=-1)


def _positive(v: Array) -> bool:
    return bool(np.isfinite(v).all() and (v > 0).all())


def _starts(sizes: Array) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _balanced_signs(uniforms: list[Any]) -> list[Any]:
    """Draw the signs of d coordinates one by one: 0 once, 1 ``d // 2`` times, else -1; all orders equally likely."""
    d = len(uniforms)
    positive: Any = d // 2
    zero: Any = 1
    signs: list[Any] = []
    for left, u in zip(range(d, 0, -1), uniforms, strict=True):
        place = u * left
        is_positive = (1 - (place - positive).sgn()) / 2
        at_least_zero = (1 - (place - positive - zero).sgn()) / 2
        signs.append(is_positive + at_least_zero - 1)
        positive, zero = positive - is_positive, zero - at_least_zero + is_positive
    return signs
