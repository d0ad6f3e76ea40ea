r"""Histograms of several columns in one release: pure epsilon, at the same noise whatever the number of cells.

Guarantee
    Epsilon-DP for neighbors that replace one record, for columns whose cells are public, when every record is counted
    in exactly one cell of *every* column; or one user, whose weights add up to exactly 1 in every column.
Lemma
    Lemma F of the docs, Private ranges. A record's cells are a point of a product of simplices: another one
    changes block j of the counts by ``e_k - e_l``, of length at most 2 in the quotient norm ``||.||_c``, in which the
    sum of a block, the public number of records, has length 0. So the grouped norm of the change is at most ``2 X_K``.
    Released is ``counts_j + b_j - mean(b_j)``, b of density ``exp(-epsilon ||b||_K / (2 X_K))``. It is the real sum,
    rounded once to a public grid: post-processing.
Mistake
    The sampler's own representative of b has a coordinate that is 0 in every block: added to the counts it would give
    away a count in each. The law of the noise never hands it out (`GroupedNorm.transform`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm
from dpconvex.mechanisms.k_norm import NormExponential
from dpconvex.privacy import Sensitivity, Unit
from dpconvex.problems import Block, DataDomain

LEMMA = "a replaced unit moves a weight of 1, in all, between cells of each column (docs, Private ranges, Lemma F)"


@final
@dataclass(frozen=True)
class JointHistogram(NormExponential):
    """Noisy counts of all columns' cells, column after column, shape (sum of cells,); each column sums to n."""

    cells: tuple[int, ...]  #: number of public cells of each column, at least 2
    epsilon: float  #: positive, for all columns together
    unit: Unit = Unit.RECORD  #: what is replaced
    name: ClassVar[str] = "joint histogram, norm-exponential noise"

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
    def norm(self) -> GroupedNorm:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The cheapest grouped norm of the columns."""
        sizes = np.array(self.cells)
        every = GroupedNorm.for_domain(self.domain)  # of which the last block is the constant, that nothing counts
        used, groups = np.unique(every.groups[:-1], return_inverse=True)
        ones = np.ones(len(sizes))
        return GroupedNorm(sizes, ones, groups.reshape(-1), every.weights[used], "grouped", centered=ones > 0)

    @cached_property
    def sensitivity(self) -> Sensitivity:  # pyright: ignore[reportIncompatibleVariableOverride]
        """``2 X_K``, the largest length of the change."""
        return Sensitivity(
            _rounding.product_up(2.0, _rounding.sum_up(self.norm.weights.tolist())), "grouped", LEMMA, unit=self.unit
        )

    @cached_property
    def deviations(self) -> FloatArray:
        """Standard deviations of the noise in each column's cells, (columns,)."""
        starts = np.cumsum(self.cells) - np.array(self.cells)
        return self.scale * np.sqrt(self.norm.coordinate_variances[starts])

    @property
    def dim(self) -> int:
        """Number of cells of all columns."""
        return self.norm.dim

    def log_density(self, value: FloatArray, outcome: FloatArray) -> float:
        """On the affine space of columns that sum to n, up to a constant."""
        dimensions = self.norm.dim - len(self.cells)
        return -float(self.norm(outcome - np.nan_to_num(value))) / self.scale - dimensions * float(np.log(self.scale))

    @classmethod
    def examples(cls) -> tuple[JointHistogram, ...]:
        return cls((2, 4, 3), 0.7), cls((5,), 1.3)
