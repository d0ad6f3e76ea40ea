"""What is computed from the records of a least-squares problem, and what is made of it once it is noisy.

`Statistics` reads the data: nothing of it is private. `Curvature` and `cutting_level` see released numbers only: they
are post-processing.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import Array, Floats
from dpconvex.losses import SquaredLoss
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.problems.data import summation
from dpconvex.problems.data.records import RecordSource, RowBlock
from dpconvex.problems.data.summation import Parts

_ENERGIES = np.exp(np.linspace(-9.0, 6.0, 61))
"""Candidates for the energy of the parameters, in units of what the public radius lets one expect."""


@final
@dataclass(frozen=True, eq=False)
class Statistics:
    """Weighted sums over records; `of` makes them. A record's weight is ``1/n``; a user's records share theirs."""

    problem: LinearModelProblem
    records: RecordSource
    targets: Floats | None  #: None where they come with the records, as weights always do
    units: Floats  #: (dim,): features are divided by these, parameters multiplied

    @classmethod
    def of(
        cls, problem: LinearModelProblem, X: Array, y: Array, groups: UserGroups | None, units: Floats
    ) -> "Statistics":
        """Clip records and targets, and weigh them."""
        (records, targets), weights = problem.clipped(X, y), problem.weights(groups)
        return cls(problem, records if weights is None else records.weighted(weights), targets, units)

    def moments(self) -> Floats:
        """Return the mean of ``x x^T``, shape (dim, dim)."""
        size = self.records.domain.linf * math.sqrt(1 / self.problem.n)
        # Rounding towards 0 keeps each record in the domain; sums are exact: no grid and no error depends on the data.
        found = self.records.total(lambda b: (b.gram(np.sqrt(self._weights(b)), size, np.trunc),))[0]
        return summation.gram(found, size) / np.outer(self.units, self.units)

    def products(self) -> Floats:
        """Return the mean of ``x y``, shape (dim,)."""
        assert isinstance(self.problem.loss, SquaredLoss)  # plans check
        size = self.problem.loss.target_bound * self.records.domain.linf / self.problem.n
        found = self.records.total(lambda b: (self._adjoint(b, b.targets_in(self.targets), size),))[0]
        return summation.weighted_vector(found) / self.units

    def joint_moments(self, unit: float) -> Floats:
        """Return the mean of ``z z^T`` for ``z = (x, y / unit)``, shape (dim + 1, dim + 1)."""
        cross = self.products() / unit
        squares = self.records.total(
            lambda b: (summation.number_parts(self._weights(b) * (b.targets_in(self.targets) / unit) ** 2),)
        )
        corner = np.array([[summation.number(squares[0])]])
        return np.block([[self.moments(), cross[:, None]], [cross[None, :], corner]])

    def gradient(self, w: Floats, clip: float) -> Floats:
        """Return the mean of ``x cut(r)``, r the residual at `w` over `clip` and cut to [-1, 1]; shape (dim,)."""
        size = self.records.domain.linf / self.problem.n

        def work(block: RowBlock) -> Parts:
            cut = np.nan_to_num(np.clip(self._residuals(block, w) / clip, -1.0, 1.0))  # overflow stays in its record
            return (self._adjoint(block, cut, size),)

        return summation.weighted_vector(self.records.total(work)[0]) / self.units

    def residual_shares(self, w: Floats, thresholds: Floats) -> Floats:
        """Return the share of records by size of residual, between ascending thresholds, (len(thresholds) + 1,)."""
        bins = len(thresholds) + 1

        size = 1 / self.problem.n

        def work(block: RowBlock) -> Parts:
            found = np.searchsorted(thresholds, np.abs(self._residuals(block, w)), side="right")
            indicators, weights = np.eye(bins)[found], self._weights(block)
            of = lambda rows, size: summation.vector_parts(indicators[rows], weights[rows], size)  # noqa: E731
            return (summation.by_weight(weights, size, size, of),)

        return summation.weighted_vector(self.records.total(work)[0])

    def _adjoint(self, block: RowBlock, values: Floats, size: float) -> Array:
        return block.weighted_adjoint(values, self._weights(block), 1 / self.problem.n, size)

    def _residuals(self, block: RowBlock, w: Floats) -> Floats:
        return -self.problem.loss.derivative(block.predict(w / self.units), block.targets_in(self.targets))

    def _weights(self, block: RowBlock) -> Floats:
        if block.weights is not None:
            return block.weights
        return np.full(len(block.features), _rounding.ratio_down(1.0, self.problem.n))


def packed(matrix: Floats) -> Floats:
    """Return the upper triangle of a symmetric matrix as a vector of the matrix's Frobenius length."""
    rows, columns = np.triu_indices(len(matrix))
    return matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))


def unpacked(vector: Floats, dim: int) -> Floats:
    """Return the symmetric matrix, shape (dim, dim), of a `packed` vector."""
    rows, columns = np.triu_indices(dim)
    matrix = np.zeros((dim, dim))
    matrix[rows, columns] = vector / np.where(rows == columns, 1.0, np.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T


@final
@dataclass(frozen=True, eq=False)
class Curvature:
    """Noisy second moments by eigenvalues, raised to 0; steps take the resolution for curvature that noise may hide."""

    values: Floats  #: at least 0
    basis: Floats  #: eigenvectors in columns
    deviation: float  #: of an entry of the matrix off the diagonal
    resolution: float  #: curvature that noise may hide

    @classmethod
    def of(cls, matrix: Floats, deviation: float, share: float) -> "Curvature":
        """Decompose a noisy matrix, shape (dim, dim); the resolution is `share` times ``sqrt(dim)`` deviations."""
        values, basis = np.linalg.eigh(matrix)
        return cls(np.maximum(values, 0.0), basis, deviation, share * deviation * np.sqrt(len(values)))

    def first_fit(self, products: Floats, deviation: float, expected: float) -> tuple[Floats, float]:
        """Return the posterior mean of the parameters, a priori normal, and their energy of largest density."""
        d, a, seen = len(self.values), self.values, self.basis.T @ products
        energies = expected * _ENERGIES
        noise = deviation**2 + self.deviation**2 * energies
        variances = energies[:, None] / d * a**2 + noise[:, None]
        prior = -0.5 * (np.log(_ENERGIES) / 1.5) ** 2  # 1.5: a priori deviation of the logarithm
        evidence = -0.5 * (np.log(variances) + seen**2 / variances).sum(1) + prior
        best = int(np.argmax(evidence))
        return self.basis @ (energies[best] / d * a * seen / variances[best]), float(energies[best])

    def step(self, gradient: Floats, ridge: float) -> Floats:
        """Return the inverse of ``A + (resolution + ridge) I`` times a gradient, shape (dim,)."""
        return self.basis @ (self.basis.T @ gradient / (self.values + self.resolution + ridge))

    def settled(self, points: Floats, gradients: Floats, ridge: float) -> Floats:
        """Return a step from the mean of points and gradients, (rounds, dim): the last half where curvature hides."""
        late = slice(len(points) // 2, None)
        last, whole = (points[part].mean(0) + self.step(gradients[part].mean(0), ridge) for part in (late, slice(None)))
        known = np.square(self.values / (self.values + self.resolution + ridge))
        return last + self.basis @ (known * (self.basis.T @ (whole - last)))


def cutting_level(shares: Floats, thresholds: Floats, noise: float, reach: float) -> float:
    """Return the threshold of least noise and bias together, by noisy shares (k + 1,) between thresholds (k,)."""
    edges = np.concatenate([[0.0], thresholds, thresholds[-1:]])
    middle = (edges[1:] + edges[:-1]) / 2
    beyond = np.maximum(middle[None, :] - thresholds[:, None], 0.0) @ shares
    cost = (noise * thresholds) ** 2 + (reach * np.maximum(beyond, 0.0)) ** 2
    return float(thresholds[np.argmin(cost)])
