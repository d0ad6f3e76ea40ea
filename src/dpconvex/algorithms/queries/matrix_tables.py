r"""All tables of one and two columns in one release: a matrix of second moments with noise of its own shape.

Listing
    Column i of d values has coordinates ``w_i U_i[a]``, U_i an orthonormal basis of the vectors of sum 0; a record has
    the vector x of all columns' coordinates and a constant in front. ``sum_r x_r x_r'`` holds, in blocks, what tables of
    two columns say beyond their columns, and in its first row the tables of columns. It gets the noise of
    `MatrixNoiseMechanism`; tables are read off the noisy matrix.
Guarantee
    Pure epsilon, for neighbors that replace one record or all records of one user.
Lemma
    ``x x'`` is positive semidefinite of trace ``|x|^2``, so replacing a record moves the matrix by at most ``2 max
    |x|^2`` in the nuclear norm, all of it where the two vectors are orthogonal. A user's records have weights of sum at
    most 1, so theirs is a matrix of trace at most ``max |x|^2``, too. The mechanism adds no rounding, but sums are
    computed in floats: each entry is off by at most ``(2 d + 8) 2^-53 n w_i w_j``, so the matrix by ``sqrt(q)`` times
    that of its Frobenius norm, on either of two data sets (`off`).
Mistake
    Blocks of one column with itself hold its table on their diagonals, so they move, too. Left at 0, they would hand
    out the noise beside what it hides; they are filled with what the lemma is about, and nothing is read off them.
When it pays
    The noise of a pair grows with the root of all values times the number of columns; of independent Laplace noise, with
    the number of pairs. So it is for many columns of few values: a tenth for 40 columns of two.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import Floats
from dpconvex.algorithms.queries.latent_classes import coordinates
from dpconvex.mechanisms import MatrixNoiseMechanism
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity, Unit
from dpconvex.randomness import BitSource

LEMMA = "a record's matrix x x' has trace |x|^2, so replacing it moves their sum by at most twice that, plus rounding"
USER_LEMMA = "a user's records weigh at most 1 together, so their matrices move the sum as one record's does"
LABEL = "all tables, as one matrix"
CONSTANT = 0.1  #: Share of ``|x|^2`` of the constant in front, hence of the tables of columns
LARGEST = 512  #: Rows of a matrix, at most: noise on so many takes half a minute


@final
@dataclass(frozen=True)
class MatrixTables:
    """The release of all tables of some columns, each of two values or more."""

    sizes: tuple[int, ...]  #: number of values of each column
    n: int  #: units, a public number
    privacy: PrivacyParams

    @property
    def rows(self) -> int:
        return 1 + sum(self.sizes) - len(self.sizes)

    @cached_property
    def weights(self) -> Floats:
        """Of the constant and of each column, so that ``|x|^2`` is 1: least noise over the cells of all pairs."""
        sizes = np.array(self.sizes, dtype=np.float64)
        lengths = 1 - 1 / sizes
        found = (sizes / np.sqrt(lengths)) ** (1 / 3)
        return np.sqrt(np.append(CONSTANT, (1 - CONSTANT) * found**2 / (found**2 @ lengths)))

    @cached_property
    def mechanism(self) -> MatrixNoiseMechanism:
        squares = [self.weights[0] ** 2, *(float((part**2).sum(axis=1).max()) for part in self._parts)]
        length = _rounding.sum_up(squares) * (1 + 1e-12)
        entries = math.fsum(float((part**2).max()) * part.shape[1] for part in self._parts) + squares[0]
        off = math.sqrt(self.rows) * entries * self.n * (2 * max(self.sizes) + 8) * 2.0**-53
        lemma = USER_LEMMA if self.privacy.unit == Unit.USER else LEMMA
        value = _rounding.product_up(2.0, _rounding.sum_up((length, off)))
        sensitivity = Sensitivity(value, "nuclear", lemma, unit=self.privacy.unit)
        return MatrixNoiseMechanism(self.rows, sensitivity, self.privacy.epsilon)

    @cached_property
    def _parts(self) -> list[Floats]:
        """For each column, the coordinates of its values (values, coordinates)."""
        return [w * coordinates(size) for w, size in zip(self.weights[1:], self.sizes, strict=True)]

    @cached_property
    def _starts(self) -> list[int]:
        return [1 + sum(self.sizes[:k]) - k for k in range(len(self.sizes) + 1)]

    @property
    def deviations(self) -> Iterator[float]:
        """Standard deviations of the noise of a cell: of each column, then of each pair."""
        sizes, weights = np.array(self.sizes), self.weights[1:]
        entry = self.mechanism.scale * math.sqrt((self.rows + 1) / 2)
        own = entry / (self.weights[0] * weights) * np.sqrt(1 - 1 / sizes)
        yield from own.tolist()
        for i, j in zip(*np.triu_indices(len(sizes), 1), strict=True):
            inner = (entry / (weights[i] * weights[j])) ** 2 * (1 - 1 / sizes[i]) * (1 - 1 / sizes[j])
            yield math.sqrt(inner + (own[i] / sizes[j]) ** 2 + (own[j] / sizes[i]) ** 2)

    def release(self, counts: Sequence[Floats], source: BitSource, ledger: Ledger) -> list[Floats]:
        """Return noisy counts of all columns, then of all pairs, in the order of `counts`."""
        p, parts, rows = len(self.sizes), self._parts, self.rows
        at = [slice(a, b) for a, b in zip(self._starts[:-1], self._starts[1:], strict=True)]
        pairs = list(zip(*np.triu_indices(p, 1), strict=True))
        matrix, upper = np.zeros((rows, rows)), np.triu_indices(rows)
        matrix[0, 0] = self.weights[0] ** 2 * counts[0].sum()
        for i, table in enumerate(counts[:p]):
            matrix[0, at[i]] = self.weights[0] * (table @ parts[i])
            matrix[at[i], at[i]] = parts[i].T @ (table[:, None] * parts[i])  # it moves: Mistake
        for (i, j), table in zip(pairs, counts[p:], strict=True):
            matrix[at[i], at[j]] = parts[i].T @ table.reshape(self.sizes[i], self.sizes[j]) @ parts[j]
        noisy = np.zeros((rows, rows))
        noisy[upper] = self.mechanism.release(matrix[upper], LABEL, source, ledger)
        back = [part / w**2 for part, w in zip(parts, self.weights[1:], strict=True)]
        found = [self.n / size + back[i] @ noisy[0, at[i]] / self.weights[0] for i, size in enumerate(self.sizes)]
        for i, j in pairs:
            even = (
                found[i][:, None] / self.sizes[j] + found[j] / self.sizes[i] - self.n / (self.sizes[i] * self.sizes[j])
            )
            found.append(even + back[i] @ noisy[at[i], at[j]] @ back[j].T)
        return found
