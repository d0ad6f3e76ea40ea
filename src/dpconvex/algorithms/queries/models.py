"""What a release of queries leaves: a distribution over the values of all columns. Post-processing only.

A model sees released numbers and public facts; how it came about is its fit's business. Records are drawn by
*systematic rounding*: shares times the number of records, rounded by one uniform number, so that counts are within one
of what the model expects. Independent draws would add an error of their own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.queries import LARGEST


class ReleasedModel(ABC):
    """A public distribution over the combinations of values of some columns."""

    shape: tuple[int, ...]  #: number of values of each column

    @final
    def marginal(self, axes: Sequence[int]) -> FloatArray:
        """Return the shares of all combinations of values of some columns, one axis a column, in that order.

        `InvalidParameterError` where they are more than 2^27.
        """
        sides = [self.shape[axis] for axis in axes]
        if math.prod(sides) > LARGEST:
            what = f"must have at most {LARGEST} combinations of values together"
            raise InvalidParameterError("columns", tuple(axes), what, "Ask for fewer columns, or sample records")
        return self._marginal(tuple(axes)).reshape(sides)

    @abstractmethod
    def _marginal(self, axes: tuple[int, ...]) -> FloatArray:
        """Return the shares, of any shape, for distinct columns."""

    @final
    def sample(self, size: int, generator: np.random.Generator) -> AnyArray:
        """Return `size` records, int64 (size, columns), in random order, systematically rounded."""
        return generator.permutation(self._sample(_validate.integer("size", size, at_least=1), generator))

    @abstractmethod
    def _sample(self, size: int, generator: np.random.Generator) -> AnyArray:
        """Return the records, in any order."""


@final
@dataclass(frozen=True, eq=False)
class Histogram(ReleasedModel):
    """One weight for every combination of values."""

    shape: tuple[int, ...]
    weights: FloatArray  #: (cells,): not negative, of sum 1

    def _marginal(self, axes: tuple[int, ...]) -> FloatArray:
        rest = tuple(set(range(len(self.shape))) - set(axes))
        table = self.weights.reshape(self.shape).sum(axis=rest)
        return table.transpose([sorted(axes).index(axis) for axis in axes])

    def _sample(self, size: int, generator: np.random.Generator) -> AnyArray:
        cells = systematic(self.weights, size, generator)
        return np.stack(np.unravel_index(cells, self.shape), axis=1).astype(np.int64)


def systematic(weights: FloatArray, size: int, generator: np.random.Generator) -> AnyArray:
    """Return `size` positions, ascending, each as often as its weight says up to one: a single uniform decides."""
    points = (np.arange(size) + generator.random()) / size
    ends = np.cumsum(weights)
    return np.minimum(np.searchsorted(ends / ends[-1], points, side="right"), len(weights) - 1)
