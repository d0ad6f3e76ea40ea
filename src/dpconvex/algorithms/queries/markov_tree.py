r"""Markov trees (Chow and Liu 1968), conditional on a center column if there is one, fitted to released tables.

    q(x) = P(y) prod_i P(x_i | x_parent(i), y)

y is the value of the center, the column whose tables with all others were measured; the edges are the other measured
pairs. Without a center there is no y. Columns that no edge joins are independent, given y.

Guarantee
    Post-processing: `fit` is handed `ReleasedTables` and public constants, and imports nothing that could hold records.
Listing
    1. Pool each column's table and the row sums of its table with the center, weights inverse to the variances; take
       the nearest distribution. 2. Each measured pair: the nearest nonnegative table with these sums (Dykstra 1983).
    3. With a center, an edge's table of three columns has the largest entropy among those with the pairs' tables
       (iterative proportional fitting). The product of these is the distribution of largest entropy with all measured
       tables: given pairs (i, y) every clique (i, parent, y) is fitted by itself, for separators are pairs (parent, y).
    Impossible cells of measured pairs are set to 0 at the end of step 2, and scaling keeps them 0; those of other pairs
    are avoided when records are sampled (`ReleasedModel`).
"""

import math
from collections.abc import Sequence

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms.queries.latent_classes import projected
from dpconvex.algorithms.queries.released_tables import ReleasedModel, ReleasedTables, within
from dpconvex.problems.queries import Zero

DYKSTRA, SCALING = 300, 40  # largest numbers of sweeps of Dykstra's method and of proportional fitting
TINY = 1e-300


@final_dataclass(eq=False)
class MarkovTree(ReleasedModel):
    """A distribution over columns that factors along a forest, given the center."""

    shape: tuple[int, ...]
    center: int | None
    weights: Floats  #: P(y), (values of the center,); one weight without a center
    levels: tuple[Floats, ...]  #: P(x_i | y) of each column, (values of the center, values)
    #: Parent, child and P(child | parent, y), (values of the center, of the parent, of the child); parents come first.
    edges: tuple[tuple[int, int, Floats], ...]
    impossible: tuple[Zero, ...] = ()

    def _marginal(self, axes: tuple[int, ...]) -> Floats:
        wanted = [axis for axis in axes if axis != self.center]
        children = {child for _, child, _ in self.edges}
        found, kept = self.weights, list[int]()
        for root in range(len(self.shape)):
            if root not in children and root != self.center:
                below, inner = self._below(root, wanted)
                part = self.levels[root][(..., *[None] * len(inner))] * below
                if root in wanted:
                    inner = [root, *inner]
                elif inner:
                    part = part.sum(axis=1)
                else:
                    continue
                found = found[(..., *[None] * len(inner))] * part.reshape(len(part), *[1] * len(kept), *part.shape[1:])
                kept += inner
        if self.center in axes:
            kept = [self.center, *kept]
        else:
            found = found.sum(axis=0)
        return found.transpose([kept.index(axis) for axis in axes])

    def _below(self, node: int, wanted: list[int]) -> tuple[Floats, list[int]]:
        """Return P(wanted columns below a node | the node, y), (values of y, of the node, ...), and their positions."""
        found, kept = np.ones((len(self.weights), self.shape[node])), list[int]()
        for parent, child, table in self.edges:
            if parent == node:
                part, inner = self._below(child, wanted)
                if child in wanted:
                    part, inner = table[(..., *[None] * len(inner))] * part[:, None], [child, *inner]
                elif inner:
                    part = np.einsum("yab,yb...->ya...", table, part)
                else:
                    continue
                spread = part.reshape(*part.shape[:2], *[1] * len(kept), *part.shape[2:])
                found, kept = found[(..., *[None] * len(inner))] * spread, kept + inner
        return found, kept

    def _sample(self, size: int, generator: np.random.Generator) -> Array:
        found = np.zeros((size, len(self.shape)), dtype=np.int64)
        given = within(np.zeros(size, dtype=np.int64), self.weights[None, :], generator)
        if self.center is not None:
            found[:, self.center] = given
        parents = {child: (parent, table) for parent, child, table in self.edges}
        roots = [column for column in range(len(self.shape)) if column not in parents and column != self.center]
        for column in (*roots, *(child for _, child, _ in self.edges)):
            groups, shares = given, self.levels[column]
            if column in parents:
                parent, table = parents[column]
                groups, shares = given * table.shape[1] + found[:, parent], table.reshape(-1, table.shape[2])
            found[:, column] = within(groups, shares, generator)
        return found


def conditionals(
    tables: ReleasedTables, center: int | None, impossible: tuple[Zero, ...] = ()
) -> tuple[Floats, tuple[Floats, ...]]:
    """Return P(y), and P(x_i, y) of each column, (values of y, values), from the tables of columns and of the center.

    The second table of the center itself is diagonal; columns without a table have one value.
    """
    sums: list[list[tuple[Floats, float]]] = [[] for _ in tables.shape]
    fixed = len(tables.subsets) - tables.chosen
    listed = list(zip(tables.subsets, tables.noisy, tables.deviations, strict=True))[:fixed]
    for subset, noisy, deviation in listed:
        for place, axis in enumerate(subset):
            others = noisy.sum(axis=1 - place) if len(subset) == 2 else noisy
            sums[axis].append((others, (deviation**2 * noisy.size / len(others)) ** -1))
    single: list[Array] = [np.ones(1) for _ in sums]
    for axis, each in enumerate(sums):
        if each:
            shares, weights = zip(*each, strict=True)
            single[axis] = projected(np.average(shares, axis=0, weights=weights))
    if center is None:
        return np.ones(1), tuple(shares[None, :] for shares in single)
    joint = {axis: np.outer(single[center], shares) for axis, shares in enumerate(single)}
    joint[center] = np.diag(single[center])
    for subset, noisy, _ in listed:
        if len(subset) == 2 and center in subset:
            other = subset[1 - subset.index(center)]
            table = noisy if subset[0] == center else noisy.T
            joint[other] = with_sums(table, single[center], single[other], _zeros(impossible, center, other))
    return single[center], tuple(joint[axis] for axis in range(len(single)))


def _zeros(impossible: tuple[Zero, ...], i: int, j: int) -> list[tuple[int, int]]:
    """Return the impossible cells of the table of columns i and j."""
    return [(zero[i], zero[j]) for zero in map(dict, impossible) if i in zero and j in zero]


def fit(tables: ReleasedTables, center: int | None, impossible: tuple[Zero, ...] = ()) -> MarkovTree:
    """Return the tree whose tables are near the released tables; post-processing."""
    with np.errstate(all="ignore"):
        weights, joint = conditionals(tables, center, impossible)
        single = [part.sum(axis=0) for part in joint]
        found: dict[int, dict[int, Floats]] = {axis: {} for axis in range(len(single))}
        first = len(tables.subsets) - tables.chosen
        for (i, j), noisy in zip(tables.subsets[first:], tables.noisy[first:], strict=True):
            pair = with_sums(noisy, single[i], single[j], _zeros(impossible, i, j))
            triple = pair[None] if center is None else of_largest_entropy(pair, joint[i], joint[j])
            found[i][j], found[j][i] = triple, triple.transpose(0, 2, 1)
        edges, seen = list[tuple[int, int, Floats]](), set[int]()
        for root in range(len(single)):
            ahead = [] if root in seen else [root]
            seen.add(root)
            for parent in ahead:
                for child, triple in found[parent].items():
                    if child not in seen:
                        seen.add(child)
                        ahead.append(child)
                        edges.append((parent, child, _given(triple, _given(joint[child], single[child])[:, None, :])))
        levels = tuple(_given(part, shares) for part, shares in zip(joint, single, strict=True))
        return MarkovTree(tables.shape, center, weights, levels, tuple(edges), impossible)


def _given(table: Floats, otherwise: Floats) -> Floats:
    """Return a table divided by its sums over the last axis; rows of sum 0 become the row of `otherwise`."""
    total = table.sum(axis=-1, keepdims=True)
    found = np.where(total > TINY, table / np.maximum(total, TINY), otherwise)
    return found / found.sum(axis=-1, keepdims=True)


def with_sums(noisy: Floats, rows: Floats, columns: Floats, impossible: Sequence[tuple[int, int]] = ()) -> Floats:
    """Return the nearest table (a, b) with these row and column sums and no negative cell; the sums hold exactly.

    With `impossible` cells, these are 0, and the sums hold as far as that allows.
    """
    a, b = noisy.shape
    found, correction = noisy, np.zeros_like(noisy)
    for _ in range(DYKSTRA):
        off_rows, off_columns = rows - found.sum(axis=1), columns - found.sum(axis=0)
        moved = found + off_rows[:, None] / b + off_columns / a - off_rows.sum() / (a * b)
        found = np.maximum(moved + correction, 0.0)
        correction += moved - found
        if np.abs(found - moved).max() < 1e-7:
            break
    found = np.maximum(found, 1e-12)
    for cell in impossible:
        found[cell] = 0.0
    for _ in range(SCALING):
        found = found * (rows / np.maximum(found.sum(axis=1), TINY))[:, None]
        found = found * (columns / np.maximum(found.sum(axis=0), TINY))
    return found


def of_largest_entropy(pair: Floats, first: Floats, second: Floats) -> Floats:
    """Return the table (y, a, b) of largest entropy with margins (a, b), (y, a) and (y, b); the last two are exact."""
    found = (first / np.maximum(first.sum(axis=1), TINY)[:, None])[:, :, None] * second[:, None, :]
    for _ in range(SCALING):
        found = found * (pair / np.maximum(found.sum(axis=0), TINY))
        found = found * (first / np.maximum(found.sum(axis=2), TINY))[:, :, None]
        found = found * (second / np.maximum(found.sum(axis=1), TINY))[:, None, :]
    return found


def cells_of(shape: tuple[int, ...], subset: tuple[int, ...]) -> int:
    """Return the number of cells of a table."""
    return math.prod(shape[axis] for axis in subset)
