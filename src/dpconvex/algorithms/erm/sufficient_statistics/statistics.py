"""Second moments, residuals and gradients of a least-squares problem on data. Nothing here is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import AnyArray, FloatArray
from dpconvex.problems import Records
from dpconvex.problems.data import _threads
from dpconvex.problems.data.records import RowBlock
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.problem import LinearModelProblem


@final
@dataclass(frozen=True, eq=False)
class Statistics:
    """Weighted sums over records; `of` makes them. A record's weight is ``1/n``; a user's records share theirs.

    Parameters
    ----------
    problem : LinearModelProblem
    records : Records
    targets, weights : arrays of shape (n_records,)
    units : array of shape (dim,)
        Features are divided by these, parameters multiplied.
    """

    problem: LinearModelProblem
    records: Records
    targets: FloatArray
    weights: FloatArray
    units: FloatArray

    @classmethod
    def of(
        cls, problem: LinearModelProblem, X: AnyArray, y: AnyArray, groups: UserGroups | None, units: FloatArray
    ) -> Statistics:
        """Clip records and targets, and weigh them.

        Parameters
        ----------
        problem : LinearModelProblem
        X : array of shape (n_records, n_features)
        y : array of shape (n_records,)
        groups : UserGroups or None
        units : array of shape (dim,)
        """
        weights = problem.weights(groups)
        if weights is None:
            weights = np.full(len(y), _rounding.ratio_down(1.0, problem.n))
        return cls(problem, Records.clipped(X, problem.domain), problem.loss.clip_targets(y), weights, units)

    def moments(self) -> FloatArray:
        """Return the mean of ``x x^T``, shape (dim, dim)."""
        return self.records.gram(self.weights) / np.outer(self.units, self.units)

    def products(self) -> FloatArray:
        """Return the mean of ``x y``, shape (dim,)."""
        return self.records.adjoint(self.weights * self.targets) / self.units

    def joint_moments(self, unit: float) -> FloatArray:
        """Return the mean of ``z z^T`` for ``z = (x, y / unit)``, shape (dim + 1, dim + 1).

        Parameters
        ----------
        unit : float
            Of the targets.
        """
        y = self.targets / unit
        cross = self.products() / unit
        return np.block([[self.moments(), cross[:, None]], [cross[None, :], np.array([[self.weights @ y**2]])]])

    def gradient(self, w: FloatArray, clip: float) -> FloatArray:
        """Return the mean of ``x cut(r, 1)``, r the residual at `w` in units of `clip`; shape (dim,).

        Parameters
        ----------
        w : array of shape (dim,)
        clip : float
            Positive.
        """

        def work(block: RowBlock) -> FloatArray:
            cut = np.nan_to_num(np.clip(self._residuals(block, w) / clip, -1.0, 1.0))  # overflow stays in its record
            return block.adjoint(self.weights[block.rows] * cut)

        return _threads.total(self.records.n_blocks, lambda index: work(self.records.block(index))) / self.units

    def residual_shares(self, w: FloatArray, thresholds: FloatArray) -> FloatArray:
        """Return the share of records by the size of their residual, shape (len(thresholds) + 1,).

        Parameters
        ----------
        w : array of shape (dim,)
        thresholds : array of shape (k,)
            Ascending; the first bin holds what is below all of them.
        """
        bins = len(thresholds) + 1

        def work(block: RowBlock) -> FloatArray:
            found = np.searchsorted(thresholds, np.abs(self._residuals(block, w)), side="right")
            return np.bincount(found, self.weights[block.rows], minlength=bins).astype(np.float64)

        return _threads.total(self.records.n_blocks, lambda index: work(self.records.block(index)))

    def _residuals(self, block: RowBlock, w: FloatArray) -> FloatArray:
        return -self.problem.loss.derivative(block.predict(w / self.units), self.targets[block.rows])


def packed(matrix: FloatArray) -> FloatArray:
    """Return the upper triangle of a symmetric matrix as a vector of the matrix's Frobenius length.

    Parameters
    ----------
    matrix : array of shape (d, d)
    """
    rows, columns = np.triu_indices(len(matrix))
    return matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))


def unpacked(vector: FloatArray, dim: int) -> FloatArray:
    """Return the symmetric matrix, shape (dim, dim); inverse of `packed`.

    Parameters
    ----------
    vector : array of shape (dim * (dim + 1) / 2,)
    dim : int
    """
    rows, columns = np.triu_indices(dim)
    matrix = np.zeros((dim, dim))
    matrix[rows, columns] = vector / np.where(rows == columns, 1.0, np.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T
