r"""All tables of one and two columns in one release: a matrix of second moments with one noise.

Listing
    A record is the vector x that holds a constant and, for each column, the coordinates of its value, ``w_i U_i[a]``,
    where the columns of U_i are an orthonormal basis of the vectors of sum 0. The first row of the sum of ``x x'`` over
    records determines the tables of single columns, the rest what pairs say beyond them. The matrix is released with
    the noise of `MatrixNoiseMechanism`, or entry by entry with Gaussian noise, and all tables are computed from it.
Guarantee
    Pure epsilon, or (epsilon, delta), for neighbors that replace one record or all records of one user.
Lemma
    ``x x'`` is semidefinite, of trace ``|x|^2``: replacing a record moves the sum by at most ``2 max |x|^2`` in the
    nuclear norm, attained by orthogonal x. A user's records weigh at most 1 together: semidefinite, of trace at most
    ``max |x|^2``, too. Sums are computed in floats, each entry with at most ``2 d + 8`` roundings of numbers of at most
    ``n m_k m_l``, m_k the largest coordinate k: a Frobenius norm of at most ``(2 d + 8) 2^-53 n sum m_k^2``, times
    ``sqrt(q)`` in the nuclear norm, on either of two data sets.
Lemma of Gaussian noise
    Noise of entries is independent, so blocks of a column with itself stay at 0; f(x) is what is left, each entry once.
    With ``s_i`` the inner product of the coordinates of column i in x and y, ``|s_i| <= a_i``, the largest squared
    length of its coordinates, ``f(x) f(y) = ((sum s_i)^2 - sum s_i^2) / 2``. So ``|f(x) - f(y)|^2 <= (sum a_i)^2 - sum
    a_i^2 + sum s_i^2``, at most ``max |x|^4``, attained by columns of two values that agree in half of their length: a
    quarter of what noise on cells pays for. A user's sum lies in the convex hull of 0 and all f(x), and ``|f(x)|^2 <=
    max |x|^4 / 2``. Rounding is as above, in the Frobenius norm.
Mistakes
    Pairs listed twice, or not in the matrix's order, would make matrices other than ``x x'``, which a record moves
    further: so plans take this noise only for all pairs, each once and in order. For pure noise a column's block with
    itself moves, too: if it were left at 0, its released noise would reveal the noise that hides the rest.
When it pays
    Pure: for many columns of few values, since the noise of a pair grows with the number of columns and the root of the
    number of all values, not with the number of pairs. Gaussian: always, most for few values: no noise is spent on what
    tables of pairs repeat of single columns, and no record moves all that pairs say beyond these.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from dpconvex import _rounding
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms.queries.latent_classes import coordinates
from dpconvex.mechanisms import GaussianMechanism, MatrixNoiseMechanism
from dpconvex.mechanisms.gaussian import INFLATION
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity, Unit
from dpconvex.randomness import BitSource

LEMMA = "a record's matrix x x' has trace |x|^2, so replacing it moves their sum by at most twice that, plus rounding"
USER_LEMMA = "a user's records weigh at most 1 together, so their matrices move the sum as one record's does"
LABEL = "all tables, as one matrix"
CONSTANT = 0.1  #: Share of ``|x|^2`` of the constant; more favors single columns (table_choices.py one-noise)
LARGEST = 512  #: Largest number of rows of a matrix with pure noise, which then takes five seconds and half a gigabyte
LARGEST_GAUSSIAN = 2048  #: Largest number of rows of a matrix with Gaussian noise
GAUSSIAN_LEMMA = "replacing a record moves the entries of different columns by at most |x|^2 in l2, plus rounding"


@final_dataclass
class MatrixTables:
    """The release of all tables of one and two of some columns that have two values or more each."""

    sizes: tuple[int, ...]  #: number of values of each column
    n: int  #: public number of units (records or users)
    privacy: PrivacyParams
    mu: float = 0.0  #: Gaussian budget; 0 for pure noise

    @cached_property
    def weights(self) -> Floats:
        """Weights w of the constant and of each column with ``|x|^2 = 1``, for the least noise over cells of pairs."""
        sizes = np.array(self.sizes, dtype=np.float64)
        lengths = 1 - 1 / sizes
        found = (sizes / np.sqrt(lengths)) ** (1 / 3)
        constant = 2 / (2 + (sizes - 1).mean() * math.sqrt(len(sizes))) if self.mu else CONSTANT
        return np.sqrt(np.append(constant, (1 - constant) * found**2 / (found**2 @ lengths)))

    @cached_property
    def _parts(self) -> list[Any]:
        """Coordinates, without weights, of the constant and of the values of each column: (values, coordinates)."""
        return [np.ones((1, 1)), *(coordinates(size) for size in self.sizes)]

    @cached_property
    def places(self) -> tuple[Array, Array]:
        """Row indices and column indices of the released entries, two arrays (entries,)."""
        of = np.repeat(np.arange(len(self._parts)), [part.shape[1] for part in self._parts])
        rows, columns = np.triu_indices(len(of))
        kept = (of[rows] != of[columns]) | (not self.mu)
        return rows[kept], columns[kept]

    @cached_property
    def mechanism(self) -> MatrixNoiseMechanism | GaussianMechanism:
        """The noise, for the distance that a replaced unit moves the sums plus twice their rounding (Lemmas)."""
        parts = [w * part for w, part in zip(self.weights, self._parts, strict=True)]
        length = _rounding.sum_up(float((part**2).sum(axis=1).max()) for part in parts) * (1 + 1e-12)
        largest, rows = sum(float((part**2).max(axis=0).sum()) for part in parts), 1 + sum(self.sizes) - len(self.sizes)
        off = largest * self.n * (2 * max(self.sizes) + 8) * 2.0**-53
        user, lemma = self.privacy.unit == Unit.USER, GAUSSIAN_LEMMA if self.mu else LEMMA
        facts = (f"{USER_LEMMA}: {lemma}" if user else lemma, self.privacy.neighboring, self.privacy.unit)
        if self.mu:
            sensitivity = Sensitivity(_rounding.sum_up((length, 2 * off)), "l2", *facts)
            return GaussianMechanism.of_mu(sensitivity, self.mu * (1 - 1e-12), len(self.places[0]))
        value = _rounding.product_up(2.0, _rounding.sum_up((length, math.sqrt(rows) * off)))
        return MatrixNoiseMechanism(rows, Sensitivity(value, "nuclear", *facts), self.privacy.epsilon)

    @cached_property
    def noises(self) -> Floats:
        """Noise deviation of a coordinate and of a cell, for each column and then for each pair: (tables, 2)."""
        noise, sizes = self.mechanism, np.array(self.sizes)
        gaussian = isinstance(noise, GaussianMechanism)
        entry = noise.sigma * INFLATION if gaussian else noise.scale * math.sqrt((noise.size + 1) / 2)
        (i, j), weights, left = np.triu_indices(len(sizes), 1), self.weights[1:], 1 - 1 / sizes
        own, both = entry / (self.weights[0] * weights), entry / (weights[i] * weights[j])
        cells = own * np.sqrt(left)
        pairs = both**2 * left[i] * left[j] + (cells[i] / sizes[j]) ** 2 + (cells[j] / sizes[i]) ** 2
        return np.column_stack([np.append(own, both), np.append(cells, np.sqrt(pairs))])

    def release(self, counts: Sequence[Floats], source: BitSource, ledger: Ledger) -> list[Floats]:
        """Return noisy counts of all columns, then of all pairs, in the order of `counts`."""
        sizes, starts, p = self.sizes, np.cumsum((1, *self.sizes)), len(self.sizes)
        at, pairs = list(map(slice, starts[:-1], starts[1:])), list(zip(*np.triu_indices(p, 1), strict=True))
        tables = np.diag(np.concatenate([counts[0].sum(keepdims=True), *counts[:p]]).astype(np.float64))
        tables[0, 1:] = tables.diagonal()[1:]
        for (i, j), table in zip(pairs, counts[p:], strict=True):
            tables[at[i], at[j]] = table.reshape(sizes[i], sizes[j])
        weighted, back = (
            block_diag(*(w * part for w, part in zip(weights, self._parts, strict=True)))
            for weights in (self.weights, 1 / self.weights)
        )
        noisy = np.zeros((weighted.shape[1], weighted.shape[1]))
        entries = (weighted.T @ tables @ weighted)[self.places]
        noisy[self.places] = self.mechanism.release(entries, LABEL, source, ledger)
        tables = back @ noisy @ back.T
        found = [tables[0, part] + self.n / size for part, size in zip(at, sizes, strict=True)]
        for i, j in pairs:
            even = found[i][:, None] / sizes[j] + (found[j] - self.n / sizes[j]) / sizes[i]
            found.append(even + tables[at[i], at[j]])
        return found
