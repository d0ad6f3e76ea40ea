"""Blocks of a domain with their sizes for noise, and the cheapest ways to group and weigh the blocks.

Proofs: docs, Objective perturbation, section 4, and Additive models, section 2.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpconvex._types import Array, BoolArray, Floats, IntArray
from dpconvex.problems.data.domain import DataDomain, is_centered

UP = 1 + 1e-14


def sum_by(groups: IntArray, values: Array) -> Floats:
    """Return the sum of the values of each group."""
    return np.bincount(groups, values).astype(np.float64)


class Shapes(NamedTuple):
    """The m blocks of a norm; all arrays have shape (m,)."""

    sizes: IntArray  #: number of columns
    widths: Floats  #: bound of the block's norm over the domain
    euclidean: BoolArray  #: whether the block is measured in l2, else in l1
    centered: BoolArray  #: whether the block is measured modulo constants
    costs: Floats  #: cost of a unit of energy in the block

    @property
    def dimensions(self) -> IntArray:
        return self.sizes - self.centered

    @property
    def spread(self) -> Floats:
        """Expected squared length of a uniform point in each block's unit ball: cross-polytope, ball, centered body."""
        d = self.sizes.astype(np.float64)
        polytope, ball = 2 * d / ((d + 1) * (d + 2)), d / (d + 2)
        middle = (2 * (d - 1) - (d - 1 + (self.sizes % 2 == 0)) / d) / (d * (d + 1))  # (2.1)
        return self.widths**2 * np.where(self.euclidean, ball, np.where(self.centered, middle, polytope))

    @property
    def cost(self) -> Floats:
        return self.spread * self.costs

    def scaled(self, factor: float) -> "Shapes":
        return self._replace(widths=self.widths * factor)


def blocks_of(domain: DataDomain, costs: Sequence[float] | None = None) -> Shapes:
    """Return the domain's blocks, with their bounds as widths; a box counts as blocks of one column."""
    blocks = domain.all_blocks
    repeats = [block.size if block.norm == "linf" else 1 for block in blocks]
    euclidean = np.repeat([block.norm == "l2" and block.size > 1 for block in blocks], repeats)
    centered = np.repeat([is_centered(domain, block) for block in blocks], repeats)
    sizes = np.array([1 if block.norm == "linf" else block.size for block in blocks], dtype=np.int64)
    widths = np.repeat([block.bound for block in blocks], repeats)
    cost = np.repeat(np.ones(len(blocks)) if costs is None else np.array(costs, dtype=np.float64), repeats)
    return Shapes(np.repeat(sizes, repeats), widths, euclidean, centered, cost)


def l1_blocks(domain: DataDomain, costs: Sequence[float] | None = None) -> Shapes:
    """Return the domain's blocks as `blocks_of` does, but all bounded in l1."""
    shapes = blocks_of(domain, costs)
    widths = np.where(shapes.euclidean, shapes.widths * np.sqrt(shapes.sizes) * UP, shapes.widths)
    return shapes._replace(widths=widths, euclidean=np.zeros_like(shapes.euclidean))


def centered_lengths(domain: DataDomain) -> tuple[IntArray, Floats]:
    """Dimension of each block, and its largest l2 length, rounded up; centered blocks count modulo constants. (m,)

    For a point x of the simplex, ``|x - 1/d|^2 <= 1 - 1/d``.
    """
    blocks = domain.all_blocks
    centered = np.array([is_centered(domain, block) for block in blocks])
    sizes, widths = np.array([block.size for block in blocks]), np.array([block.l2 for block in blocks])
    return sizes - centered, np.where(centered, widths * np.sqrt(1 - 1 / sizes) * UP, widths)


def gaussian_block_weights(
    domain: DataDomain, costs: Sequence[float] | None = None, *, modulo_constants: bool = False
) -> tuple[Floats, float]:
    """Cheapest blockwise variances of Gaussian noise for records of `domain`; `costs` as `for_domain` has them.

    The noise is ``N(0, sigma^2 diag(1/m_j))`` with ``m_j = sqrt(d_j) / s_j``, ``s_j`` the block's l2 bound; its
    energy is ``sigma^2 (sum_j s_j sqrt(d_j)) ** 2`` over the squared record length, against ``d sum_j s_j^2`` for equal
    variances (docs, Objective perturbation, end of section 3). Returns the standard deviations ``1 / sqrt(m_j)`` of all
    coordinates at ``sigma = 1``, and the largest length of a record in units of these, ``sqrt(sum_j m_j s_j^2)``; both
    rounded up. `modulo_constants`: for parameters that sum to 0 over centered blocks; ``d_j`` and ``s_j`` are then
    those of `centered_lengths`.
    """
    sizes = np.array([block.size for block in domain.all_blocks])
    dimensions, widths = sizes, np.array([block.l2 for block in domain.all_blocks])
    if modulo_constants:
        dimensions, widths = centered_lengths(domain)
    weights = np.sqrt(dimensions if costs is None else dimensions * np.array(costs)) / widths
    bound = math.sqrt(math.fsum(weights * widths**2)) * UP
    return np.repeat(1 / np.sqrt(weights) * UP, sizes), bound


def optimal_weights(shapes: Shapes, groups: IntArray) -> Floats:
    """``a_g = E_g^(1/3)``: Hoelder's optimum of ``(sum a_g)^2 sum E_g / a_g^2``; any positive weights are valid."""
    largest = shapes.widths.max()  # scaled away, and tiny energies lifted, so that no square underflows to weight 0
    energy = _group_energy(sum_by(groups, shapes.dimensions), sum_by(groups, shapes.scaled(1 / largest).cost))
    return np.cbrt(np.maximum(energy, 1e-60 * energy.max())) * largest ** (2 / 3)


def _group_energy(columns: Floats, spread: Floats) -> Floats:
    """Expected squared length of a group's noise at epsilon 1 and slope bound 1 (``E_g``, same docs, section 4)."""
    return 4 * (columns + 1) * (columns + 2) * spread


def cheapest_groups(columns: Floats, spread: Floats) -> IntArray:
    """Split a sequence into contiguous groups of least ``sum_g E_g^(1/3)``; return each item's group number."""
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
