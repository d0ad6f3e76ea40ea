"""Norm-exponential ("K-norm") noise, of density proportional to ``exp(-||z|| / scale)``: of vectors, of histograms, and
of symmetric matrices against changes of bounded nuclear norm; and Laplace noise of single numbers, on a grid, with
OpenDP's exact discrete sampler.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass, forwarded
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm, NoiseLaw, NoiseNorm, StandardNormals
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape, exact_as_reals, exact_as_source
from dpconvex.privacy import NormExponentialNoise, Sensitivity, Unit
from dpconvex.problems import Block, DataDomain
from dpconvex.randomness import BitSource, exact, real


class NormExponential(Mechanism[Floats]):
    """Adds real noise of density proportional to ``exp(-||z|| / scale)``, and rounds the sum once to a public grid."""

    norm: NoiseLaw  #: norm of the noise density, of dimension d; values have shape (d,)
    epsilon: float  #: epsilon of one release, positive
    exact_bits = exact_as_reals

    @cached_property
    def scale(self) -> float:
        """Scale of the noise density: sensitivity over epsilon, rounded up."""
        return _rounding.ratio_up(self.sensitivity.value, self.epsilon)

    @cached_property
    def step(self) -> float:
        """Step of the grid of releases, about a millionth of the scale."""
        return exact.checked_step(_rounding.power_of_two_at_most(self.scale) * exact.FINENESS, self.sensitivity.value)

    @property
    def event(self) -> NormExponentialNoise:
        return NormExponentialNoise(self.sensitivity.value, self.scale)

    def simulate(self, size: int, generator: np.random.Generator) -> Floats:
        """Return `size` noise vectors of the law, (size, d): for pictures, not for a run (`real.simulate`)."""
        return self.scale * real.simulate(self.norm, size, generator)

    def _sample(self, value: Floats, source: BitSource) -> Floats:
        check_shape(value, self.norm.dim)
        # NaN becomes 0, infinity the largest float: clipping coordinates never increases a distance.
        return real.add_noise(np.nan_to_num(value), self.norm, self.scale, self.step, source)


@final_dataclass
class NormNoiseMechanism(NormExponential):
    """Pure epsilon in any noise norm; the mechanism of output perturbation (in the l2 norm, "l2 Laplace").

    The noise is that of real arithmetic: the release is the sum of the value and of a real noise vector, rounded once
    to the public grid of `step`, however many random bits that takes (`dpconvex.randomness.real`). So the low-order
    bits say nothing, and rounding costs nothing: it is post-processing. The guarantee holds down to the last bit.

    Source: Hardt and Talwar 2010, "On the geometry of differential privacy"; in the l2 norm Chaudhuri, Monteleoni and
    Sarwate 2011, "Differentially private empirical risk minimization", and Lowy and Razaviyayn, Lemma B.3 (moments).
    """

    norm: NoiseNorm  #: of dimension d; values have shape (d,)
    sensitivity: Sensitivity  #: sensitivity in this norm: its `norm` is `norm.name`
    epsilon: float  #: epsilon of one release, positive
    name: ClassVar[str] = "norm-exponential noise"

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, self.norm.name)
        if not self.norm.absolute:  # such noise does not hide anything that is constant over a block
            raise InvalidParameterError("norm", self.norm.name, "must be a norm of the magnitudes of the coordinates")
        _validate.real("epsilon", self.epsilon, above=0.0)
        _ = self.step


LEMMA = "a replaced unit moves a weight of 1, in all, between cells of each column (docs, Private ranges, Lemma F)"


@final_dataclass
class JointHistogram(NormExponential):
    r"""Noisy counts of all columns' cells, column after column, shape (sum of cells,); each column sums to n.

    One release of several histograms: pure epsilon, at the same noise whatever the number of cells.

    Guarantee
        Epsilon-DP for neighbors that replace one record, for columns whose cells are public, when every record is
        counted in exactly one cell of *every* column; or one user, whose weights add up to exactly 1 in every column.
    Lemma
        Lemma F of the docs, Private ranges. A record's cells are a point of a product of simplices: another
        one changes block j of the counts by ``e_k - e_l``, of length at most 2 in the quotient norm ``||.||_c``, in
        which the sum of a block, the public number of records, has length 0. So the grouped norm of the change is at
        most ``2 X_K``. Released is ``counts_j + b_j - mean(b_j)``, b of density ``exp(-epsilon ||b||_K / (2 X_K))``.
    Mistake
        The sampler's own representative of b has a coordinate that is 0 in every block: added to the counts it would
        give away a count in each. The law of the noise never hands it out (`GroupedNorm.transform`).
    """

    cells: tuple[int, ...]  #: number of public cells of each column, at least 2
    epsilon: float  #: epsilon for all columns together, positive
    unit: Unit = Unit.RECORD  #: the unit that is replaced
    name: ClassVar[str] = "joint histogram, norm-exponential noise"
    dim = forwarded("norm", "dim")  #: Number of cells of all columns

    def __post_init__(self) -> None:
        if not self.cells or min(self.cells) < 2:
            raise InvalidParameterError("cells", self.cells, "must be one number of cells, at least 2, for each column")
        _validate.real("epsilon", self.epsilon, above=0.0)
        _ = self.step

    @cached_property
    def domain(self) -> DataDomain:
        """The cells of a record: a product of simplices."""
        return DataDomain(tuple(Block(count, "simplex", 1.0) for count in self.cells), intercept=1.0)

    @cached_property
    def norm(self) -> GroupedNorm:
        """The cheapest grouped norm of the columns."""
        sizes = np.array(self.cells)
        every = GroupedNorm.for_domain(self.domain)  # its last block is the constant, which is not counted
        used, groups = np.unique(every.groups[:-1], return_inverse=True)
        ones = np.ones(len(sizes))
        return GroupedNorm(sizes, ones, groups.reshape(-1), every.weights[used], "grouped", centered=ones > 0)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """``2 X_K``, the largest length of the change."""
        value = _rounding.product_up(2.0, _rounding.sum_up(self.norm.weights.tolist()))
        return Sensitivity(value, "grouped", LEMMA, unit=self.unit)

    @cached_property
    def deviations(self) -> Floats:
        """Standard deviations of the noise in each column's cells, (columns,)."""
        starts = np.cumsum(self.cells) - np.array(self.cells)
        return self.scale * np.sqrt(self.norm.coordinate_variances[starts])


@final_dataclass
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

    size: int  #: number q of rows
    name: ClassVar[str] = "nuclear"

    @property
    def dim(self) -> int:
        return self.size * (self.size + 1) // 2

    @property
    def coordinate_variances(self) -> Floats:
        """Variances: ``(q + 1) / 2``, on the diagonal ``q + 1``."""
        return (np.ones((self.size, self.size)) + np.eye(self.size))[np.triu_indices(self.size)] * (self.size + 1) / 2

    @property
    def uniforms(self) -> int:
        return 2 * self.size * (self.size + 1)

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        normals = StandardNormals(self.uniforms).transform(uniforms)
        rows = [normals[k : k + self.size + 1] for k in range(0, len(normals), self.size + 1)]
        found = real.gram(rows[: self.size], rows[self.size :])
        return [(found[i][j] + found[j][i]) / 2 for i in range(self.size) for j in range(i, self.size)]


@final_dataclass
class MatrixNoiseMechanism(NormExponential):
    """Pure epsilon for a symmetric matrix, given by its upper triangle, row by row: half a difference of Wisharts.

    For one number it is Laplace noise; an entry has the deviation ``scale sqrt((q + 1) / 2)`` for q rows. The logarithm
    of the density changes by at most the nuclear norm of a shift over the scale (Lemma of `WishartDifference`), so the
    price is that of norm-exponential noise. All of a matrix has to be given that the sensitivity is about: the noise of
    entries is not independent, and an entry that is left at 0 hands out its part.
    """

    size: int  #: number q of rows of the matrix; values have shape (q (q + 1) / 2,)
    sensitivity: Sensitivity  #: sensitivity in the norm "nuclear"
    epsilon: float  #: epsilon of one release, positive
    name: ClassVar[str] = "matrix noise"
    dim = forwarded("norm", "dim")

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, "nuclear")
        _validate.integer("size", self.size, at_least=1)
        _validate.real("epsilon", self.epsilon, above=0.0)
        _ = self.step

    @cached_property
    def norm(self) -> WishartDifference:
        return WishartDifference(self.size)


@final_dataclass
class LaplaceMechanism(Mechanism[Floats]):
    """Independent Laplace noise on every coordinate: pure epsilon, down to the last bit.

    The value is rounded to a public grid, for which the sensitivity is enlarged; discrete Laplace noise on the grid has
    exactly the privacy of the continuous one (Ghosh, Roughgarden and Sundararajan 2012).
    """

    sensitivity: Sensitivity  #: sensitivity in the l1 norm (`"absolute"` in dimension 1)
    scale: float  #: scale of the noise, positive; its variance is `2 scale**2`. `calibrate` computes it from epsilon.
    dim: int  #: values have shape (dim,)
    name: ClassVar[str] = "Laplace"
    exact_bits = exact_as_source

    def __post_init__(self) -> None:
        _validate.real("scale", self.scale, above=0.0)
        _validate.integer("dim", self.dim, at_least=1)
        check_norm(self.sensitivity, *(("l1", "absolute") if self.dim == 1 else ("l1",)))
        _ = self.step

    @classmethod
    def calibrate(cls, sensitivity: Sensitivity, epsilon: float, dim: int) -> "LaplaceMechanism":
        """Return the mechanism that costs `epsilon`."""
        _validate.real("epsilon", epsilon, above=0.0)
        return cls(sensitivity, _rounding.ratio_up(exact.enlarged(sensitivity.value), epsilon), dim)

    @cached_property
    def step(self) -> float:
        """Step of the grid of values and releases."""
        return exact.spacing(self.sensitivity.value, self.scale, self.dim)

    @property
    def event(self) -> NormExponentialNoise:
        return NormExponentialNoise(exact.enlarged(self.sensitivity.value), self.scale)

    def simulate(self, size: int, generator: np.random.Generator) -> Floats:
        """Return `size` vectors of about the noise's law, (size, dim): for intervals, not for a run."""
        return generator.laplace(scale=self.scale, size=(size, self.dim))

    def _sample(self, value: Floats, source: BitSource) -> Floats:
        check_shape(value, self.dim)
        noisy = exact.discrete_laplace(exact.to_units(value, self.step), self.scale / self.step, source)
        return exact.from_units(noisy, self.step)
