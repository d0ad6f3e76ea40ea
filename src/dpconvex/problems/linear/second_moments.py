"""The choice of the entries of a weighted second moment of records that are released, and their sums.

The docs, Intervals, Lemmas 2 and 3, prove half of the most that a replaced record or user moves a block of entries;
`dpconvex.algorithms.curvature`, which releases the entries, states the sensitivity.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations_with_replacement, product

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.problems.data import _loops, summation
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.records import RowBlock
from dpconvex.problems.linear.shapes import ExpectedShapes, Knots

UP = 1 + 1e-12  #: Factor that covers the rounding of one record's contribution.
MEAN = 1 / 3  #: Mean of a numeric column that plans assume, over its bound.
DEVIATION = 1 / 6  #: Deviation given other columns that plans assume; if larger, collinear columns stay unresolved.


@final_dataclass(eq=False)
class Layout:
    """The D released entries of the curvature matrix of columns, categories and a constant (last)."""

    widths: Floats  #: (d,): largest magnitude of each column
    categories: Mapping[str, list[int]]  #: Columns of each category
    blocks: tuple[tuple[float, int], ...]  #: Half of each block's sensitivity to a replaced record, c = 1; its size
    lengths: tuple[float, ...]  #: Half of each block's sensitivity in l2
    places: Array  #: (2, D): the two columns of each summed product; higher indices are columns added by `extended`
    patterns: Floats  #: (D, d, d): the part of the curvature matrix that each entry fills
    planned: Floats  #: (d, d): second moments that plans assume: independent columns, levels equally frequent

    def extended(self, block: RowBlock) -> Floats:
        """Return the records (m, d + categories): after the constant ``sqrt(1 - |p|^2)`` of each category."""
        rows, added = block.dense(), np.empty((len(self.categories), block.features.shape[0]))
        for k, out in zip(self.categories.values(), added, strict=True):
            _loops.lengths(np.ascontiguousarray(rows[:, k]), False, out)
        return np.hstack([rows, np.sqrt(np.maximum(0.0, 1.0 - added)).T])


@lru_cache(maxsize=64)
def layout_of(domain: DataDomain, shapes: ExpectedShapes | None = None, users: bool = False) -> Layout:
    """Return the layout for a domain with a constant whose blocks are numbers and simplices.

    `shapes` says which simplices are a number's knots. `users`: for second moments of users' vectors, whose blocks are
    bounded in l1 only, every pair of columns is released.
    """
    d, s0, parts, widths = domain.dim, domain.intercept, list[list[int]](), list[float]()
    starts = np.cumsum([0, *(block.size for block in domain.blocks)]).tolist()
    vertices = {} if shapes is None else dict(zip(starts, shapes.vertices, strict=False))  # by first column
    categories, found = dict[str, list[int]](), list[tuple[float, Array, Floats]]()
    for block in domain.all_blocks:
        columns = [*range(len(widths), len(widths) + block.size)]
        widths += [block.linf] * block.size
        parts += [columns] if block.norm == "simplex" else [[k] for k in columns]
        categories |= {block.name: columns} if block.norm == "simplex" else {}
    for a, b in combinations_with_replacement(parts, 2):
        if a is b and len(a) > 1 and not users:
            place = [*categories.values()].index(a)  # the first category tells the second moment of the constant
            knots = vertices.get(a[0])
            own = _hats(domain, a, knots) if isinstance(knots, Knots) else _levels(domain, a, d + place)
            own[2][:, -1, -1] *= place == 0
            found.append(own)
        elif users or not (categories and b == [d - 1] and (a is b or len(a) > 1)):
            pairs = np.array([*(combinations_with_replacement(a, 2) if a is b else product(a, b))])
            patterns, each = np.zeros((len(pairs), d, d)), np.arange(len(pairs))
            patterns[each, *pairs.T] = patterns[each, *pairs.T[::-1]] = 1.0
            most = widths[a[0]] * widths[b[0]] * UP
            found.append((most * (0.5 if a is b and len(a) == 1 else 1.0), pairs, patterns))
    mean, planned = np.full(d, s0), np.zeros((d, d))
    for k in parts[:-1]:
        mass = vertices[k[0]].prior.mass if vertices else np.eye(len(k)) / len(k)
        mean[k] = mass.sum(1) if len(k) > 1 else MEAN * widths[k[0]]
        own = mass - np.outer(mean[k], mean[k]) if len(k) > 1 else (DEVIATION * widths[k[0]]) ** 2
        planned[np.ix_(k, k)] = own
    blocks, (_, places, patterns) = tuple((half, len(at)) for half, at, _ in found), zip(*found, strict=True)
    every = np.concatenate(places).T, np.concatenate(patterns)
    levels = [*(k for each in categories.values() for k in each), *range(d, d + len(categories))]
    lengths = tuple(half * (math.sqrt(0.5) * UP if np.isin(at, levels).all() else 1.0) for half, at, _ in found)
    return Layout(np.array(widths), categories, blocks, lengths, *every, planned + np.outer(mean, mean))


def _hats(domain: DataDomain, k: list[int], knots: Knots) -> tuple[float, Array, Floats]:
    """Return the products of a shape's vertices; with the constant stand their sums, as weights add up to 1."""
    last = len(knots.places)
    every = combinations_with_replacement(range(len(k)), 2)
    pairs = np.array([(i, j) for i, j in every if not knots.own or i == j or (j == i + 1 and j < last)])
    patterns, places = np.zeros((len(pairs), domain.dim, domain.dim)), np.array(k)[pairs]
    for (i, j), pattern in zip(places, patterns, strict=True):
        pattern[i, j] = pattern[j, i] = 1.0
        pattern[[i, j], -1] = pattern[-1, [i, j]] = domain.intercept
    patterns[:, -1, -1] = domain.intercept**2 * (1 + (pairs[:, 0] < pairs[:, 1]))
    return UP, places, patterns


def _levels(domain: DataDomain, k: list[int], own: int) -> tuple[float, Array, Floats]:
    """Return the levels, and last the cells without one: their second moments are ``1/d^2`` everywhere."""
    patterns, d = np.zeros((len(k) + 1, domain.dim, domain.dim)), len(k)
    patterns[np.arange(d), k, k] = 1.0
    patterns[d][np.ix_(k, k)] = (1 - np.eye(d)) / (d * (d - 1))
    patterns[:, k, -1] = patterns[:, -1, k] = domain.intercept * np.vstack([np.eye(d), np.full(d, 1 / d)])
    patterns[:, -1, -1] = domain.intercept**2
    return UP, np.repeat([*k, own], 2).reshape(-1, 2), patterns


def moments(layout: Layout, block: RowBlock, weights: Floats, most: float, share: Floats | float = 1.0) -> Array:
    """Return the parts of the second moments of `extended` records times weights (m,) in [0, most]; sums are exact.

    `share` (m,) is a record's part of its user. A record's contribution depends on the record, its weight and its share
    alone: entries are rounded towards zero, one by one.
    """
    size, step = largest(layout, most), summation.PANEL_ROWS
    roots, total = np.sqrt(np.clip(np.nan_to_num(weights), 0.0, most) * share), np.zeros(())
    for rows in (slice(k, k + step) for k in range(0, len(roots), step)):
        total = total + summation.gram_parts(layout.extended(block.part(rows)), roots[rows], size, np.trunc)
    return total


def largest(layout: Layout, most: float) -> float:
    """Return the largest entry of a record times the root of a weight of at most `most`."""
    return math.sqrt(most) * max(1.0, float(layout.widths.max()))
