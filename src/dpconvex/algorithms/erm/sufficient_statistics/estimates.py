r"""What is made of noisy statistics: a first fit, a level for residuals, steps. Post-processing; no data here.

Noise in second moments hides curvature below about ``2 sqrt(d)`` of its deviations: the *resolution* s. With the noisy
moments ``A = V diag(a) V^T``, negative a raised to 0, steps are taken with the inverse of ``A + (s + lambda) I``, which
is at least the true curvature except in extreme draws: steps neither diverge nor stall where A is right, and where it
is not they are those of gradient descent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex._types import FloatArray

_GRID = np.exp(np.linspace(-9.0, 6.0, 61))
"""Candidates for the energy of the parameters, in units of what the public radius lets one expect."""
_TRUST = 1.5
"""Deviation of the logarithm of that energy from what is expected, a priori."""


@final
@dataclass(frozen=True, eq=False)
class Curvature:
    """Noisy second moments by eigenvalues.

    Parameters
    ----------
    values : array of shape (dim,)
        At least 0.
    basis : array of shape (dim, dim)
        Eigenvectors in columns.
    deviation : float
        Of an entry of the matrix off the diagonal.
    resolution : float
        Curvature that noise may hide.
    """

    values: FloatArray
    basis: FloatArray
    deviation: float
    resolution: float

    @classmethod
    def of(cls, matrix: FloatArray, deviation: float, share: float) -> Curvature:
        """Decompose a noisy matrix, shape (dim, dim); the resolution is `share` times ``sqrt(dim)`` deviations."""
        values, basis = np.linalg.eigh(matrix)
        return cls(np.maximum(values, 0.0), basis, deviation, share * deviation * np.sqrt(len(values)))

    def first_fit(self, products: FloatArray, deviation: float, expected: float) -> tuple[FloatArray, float]:
        """Return the posterior mean of the parameters, shape (dim,), and their estimated energy.

        A priori they are independent normal numbers; what noise in the moments does to them counts as further noise of
        the products. The energy, the sum of their variances, is that of the largest posterior density.

        Parameters
        ----------
        products : array of shape (dim,)
            Noisy mean of ``x y``.
        deviation : float
            Of their noise.
        expected : float
            Energy from public facts.
        """
        d, a, seen = len(self.values), self.values, self.basis.T @ products
        energies = expected * _GRID
        noise = deviation**2 + self.deviation**2 * energies
        variances = energies[:, None] / d * a**2 + noise[:, None]
        evidence = -0.5 * (np.log(variances) + seen**2 / variances).sum(1) - 0.5 * (np.log(_GRID) / _TRUST) ** 2
        best = int(np.argmax(evidence))
        return self.basis @ (energies[best] / d * a * seen / variances[best]), float(energies[best])

    def step(self, gradient: FloatArray, ridge: float) -> FloatArray:
        """Return the inverse of ``A + (resolution + ridge) I`` times a gradient, shape (dim,)."""
        return self.basis @ (self.basis.T @ gradient / (self.values + self.resolution + ridge))

    def settled(self, points: FloatArray, gradients: FloatArray, ridge: float) -> FloatArray:
        """Return what points and gradients say together, shape (dim,).

        A step from the mean point with the mean gradient: of all of them where the curvature is known, for the first
        points are then as good as the last; of the last half in other directions.

        Parameters
        ----------
        points, gradients : arrays of shape (rounds, dim)
            In the order in which they were taken.
        ridge : float
        """
        late = slice(len(points) // 2, None)
        last, whole = (points[part].mean(0) + self.step(gradients[part].mean(0), ridge) for part in (late, slice(None)))
        known = np.square(self.values / (self.values + self.resolution + ridge))
        return last + self.basis @ (known * (self.basis.T @ (whole - last)))


def cutting_level(shares: FloatArray, thresholds: FloatArray, noise: float, reach: float) -> float:
    """Return the threshold at which noise and what cutting residuals does to a mean gradient are least together.

    Parameters
    ----------
    shares : array of shape (k + 1,)
        Noisy shares of residuals between the thresholds, the smallest first.
    thresholds : array of shape (k,)
        Ascending.
    noise : float
        Length of the gradient's noise per unit of the threshold.
    reach : float
        Length that the mean of cut-off parts gives the gradient, per unit.
    """
    edges = np.concatenate([[0.0], thresholds, thresholds[-1:]])
    middle = (edges[1:] + edges[:-1]) / 2
    beyond = np.maximum(middle[None, :] - thresholds[:, None], 0.0) @ shares
    cost = (noise * thresholds) ** 2 + (reach * np.maximum(beyond, 0.0)) ** 2
    return float(thresholds[np.argmin(cost)])
