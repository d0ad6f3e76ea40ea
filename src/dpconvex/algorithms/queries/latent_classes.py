r"""Latent classes (Goodman 1974; Dunson and Xing 2009): a mixture of products, fitted to released tables.

    q(x) = sum_k w_k prod_i P_ki(x_i)

One matrix product, ``P' diag(w) P``, gives every table of two columns, so all tables agree with one distribution.

Guarantee
    Post-processing: `fit` is handed `ReleasedTables` and public constants, and imports nothing that could hold records.
Listing
    Weighted least squares by Adam, from the product of the one-way tables with random logits (a public seed). Every
    fold of the cells is left out once; each fit keeps the model that predicts its left-out noisy cells best, or the
    product itself; the fits are averaged. With little noise (a public rule) left-out cells only decide the number of
    steps. Impossible cells are fitted with some more weight and belong to no fold, or they would decide when to stop.
    After matrix noise they are not fitted; the model's tables and records leave them out instead (`ReleasedModel`).
    Mending: stopping early shrinks the strongest relations most. With Gaussian noise, pairs whose noisy table is
    further from the average model than noise explains (a sum of squares over cells, of known mean and deviation) are
    fitted again, starting from that model. All other pairs are fitted to the model's own tables, plus what their noisy
    tables say beyond noise in a basis of cosines over the values of both columns: trends are a few smooth coordinates.
    Matrix noise (`matrix_tables`): folds consist of coordinates of pairs, whose noise is uncorrelated, not of cells;
    with little noise a fixed number of steps is taken.
    Laplace noise has a sharp peak and long tails, so least squares wastes half of the information (Huber 1964): after
    the first fit, the residual of a noisy cell is transformed (`LIKELY`) and the model is fitted again.
"""

import copy
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms.queries import released_tables
from dpconvex.problems.queries import Zero

RATE = 0.1  #: Learning rate of Adam
CHECK, PATIENCE, GAIN = 20, 10, 1e-5
"""Left-out cells are scored every `CHECK` steps; `PATIENCE` scores without a relative gain of `GAIN` end a fit."""
ZERO_WEIGHT = 3.0  #: Weight of impossible cells; that of the least noisy table is 1 (table_choices.py zeros).
MISSED, MENDING = 2.0, (0.03, 100)
"""A pair is fitted again if its misfit exceeds what noise explains by more than `MISSED` deviations; `MENDING` holds
learning rate and steps of that fit (benchmarks/table_choices.py mending)."""
SURE = 2.5, 4.0
"""Trends are coordinates beyond so many deviations of noise: of cosines of degree up to SMOOTH, and of others
(benchmarks/table_choices.py trends)."""
LIKELY, FAR = 1.8557, 6.0
"""A residual of r scales of Laplace noise counts as ``LIKELY r / sqrt(1 + r^2)``: for noise around a small s the mean
is then s and the variance 1.3 instead of 2. Above `FAR`, where noise is rare, it stays r (table_choices.py mending)."""
SEED = 0


@final_dataclass(eq=False)
class LatentClasses(released_tables.ReleasedModel):
    """A mixture of products of distributions over columns."""

    shape: tuple[int, ...]
    weights: Floats  #: w, (classes,): at least 0, of sum 1
    levels: tuple[Floats, ...]  #: P_i: for each column the distribution of its values in each class, (classes, values)
    impossible: tuple[Zero, ...] = ()

    def _marginal(self, axes: tuple[int, ...]) -> Floats:
        first, second = self._products(axes[::2]), self._products(axes[1::2])
        table = first.T @ (self.weights[:, None] * second)
        order = (*axes[::2], *axes[1::2])
        return table.reshape([self.shape[axis] for axis in order]).transpose([order.index(axis) for axis in axes])

    def _products(self, axes: tuple[int, ...]) -> Floats:
        """Return for each class the shares of all combinations of values of some columns, (classes, cells)."""
        found = np.ones((len(self.weights), 1))
        for axis in axes:
            found = (found[:, :, None] * self.levels[axis][:, None, :]).reshape(len(found), -1)
        return found

    def _sample(self, size: int, generator: np.random.Generator) -> Array:
        """Round the classes' sizes, then in each class the counts of each column's values; mix columns in classes."""
        classes = released_tables.systematic(self.weights, size, generator)
        return np.stack([released_tables.within(classes, shares, generator) for shares in self.levels], axis=1)


@final_dataclass
class FitPlan:
    """Public constants of a fit."""

    classes: int  #: number of classes K of one fit
    folds: int  #: number E of fits that are averaged
    most: int  #: largest number of steps of one fit
    refit: bool  #: whether fits use all cells, and left-out cells only decide the number of steps: for little noise
    falling: bool  #: whether the learning rate falls at the end: for very little noise
    again: int  #: number of further fits with transformed residuals, for Laplace noise
    fixed: bool = False  #: whether exactly `most` steps are taken, without looking at left-out cells


Singles = NDArray[np.floating[Any]]  #: Floats of single precision, in which fits work; results have double precision.


class _State(NamedTuple):
    """The model at one step of a fit: the distributions that its logits stand for."""

    values: Singles  #: P, (classes, all values)
    weights: Singles  #: w, (classes,)


@final
class _Target:
    """The data of a fit: noisy shares of all pairs in one symmetric matrix, one-way tables, and weights of both."""

    def __init__(self, tables: released_tables.ReleasedTables, impossible: tuple[Zero, ...]) -> None:
        self.shape = tables.shape
        starts = np.cumsum([0, *tables.shape])
        self.starts, size = starts, int(starts[-1])
        self.of = np.repeat(np.arange(len(tables.shape)), tables.shape)
        self.shares, self.inverse = np.zeros((size, size), np.float32), np.zeros((size, size), np.float32)
        self.one, self.one_weight = np.zeros(size, np.float32), np.zeros(size, np.float32)
        start, self.basis, blocks = np.ones(size), None, None
        noises = tables.coordinates or tables.deviations
        if tables.coordinates:
            blocks = [np.column_stack([np.zeros(k), coordinates(k)]).astype(np.float32) for k in tables.shape]
            self.basis = block_diag(*blocks)
        self.least = min(noises)
        for table, subset in enumerate(tables.subsets):
            parts = [slice(starts[axis], starts[axis + 1]) for axis in subset]
            noisy, weight = tables.noisy[table], (self.least / noises[table]) ** 2
            if len(subset) == 1:
                self.one[parts[0]], self.one_weight[parts[0]] = noisy, weight
                start[parts[0]] = projected(noisy)
                continue
            (i, j), known = parts, 0
            if blocks is not None:
                noisy, known = blocks[subset[0]].T @ noisy @ blocks[subset[1]], 1  # the first coordinate is 0
            self.shares[i, j], self.shares[j, i] = noisy, noisy.T
            self.inverse[i, j][known:, known:] = self.inverse[j, i][known:, known:] = weight
        self.start, self.scored = start, self.inverse > 0
        for (i, a), (j, b) in impossible if blocks is None else ():
            for place in ((starts[i] + a, starts[j] + b), (starts[j] + b, starts[i] + a)):
                self.shares[place], self.inverse[place], self.scored[place] = 0.0, ZERO_WEIGHT, False

    def folds(self, count: int, generator: np.random.Generator) -> Array:
        """Return the fold, below `count`, of every cell of a pair, the same at both places; -1: never left out."""
        fold = np.triu(generator.integers(0, count, self.shares.shape), 1)
        return np.where(self.scored, fold + fold.T, -1)

    def missed(self, tables: Singles) -> Array:
        """Return for every cell whether its pair's table is further from the noisy table than noise explains."""
        excess = np.where(self.scored, self.inverse * ((tables - self.shares) / self.least) ** 2 - 1, 0.0)
        excess, cells = (self.block_sums(self.block_sums(each).T) for each in (excess, 1.0 * self.scored))
        return self.scored & (excess > MISSED * np.sqrt(2 * cells))  # a squared normal variable has variance 2

    def trends(self, tables: Singles) -> Singles:
        """Return for every cell what its pair's noisy table says beyond these tables in coordinates beyond noise."""
        basis = block_diag(*map(released_tables.cosines, self.shape)).astype(np.float32)
        noise = self.least / np.sqrt(np.where(self.scored, self.inverse, 1.0))
        found = basis.T @ np.where(self.scored, (self.shares - tables) / noise, 0.0) @ basis
        degree = np.concatenate([np.arange(1, size) for size in self.shape])
        found[np.abs(found) <= np.where(np.maximum.outer(degree, degree) <= released_tables.SMOOTH, *SURE)] = 0.0
        return np.where(self.scored, noise * (basis @ found @ basis.T), 0.0)

    def block_sums(self, values: Singles) -> Singles:
        """Return the sum over the values of each column, repeated for each value: (classes, all values)."""
        return np.add.reduceat(values, self.starts[:-1], axis=1)[:, self.of]


def fit(tables: released_tables.ReleasedTables, plan: FitPlan, impossible: tuple[Zero, ...] = ()) -> LatentClasses:
    """Return latent classes whose tables are near the released tables; post-processing."""
    with np.errstate(all="ignore"):
        target, generator = _Target(tables, impossible), np.random.default_rng(SEED)
        if not target.inverse.any():
            product = np.split(target.start[None, :], target.starts[1:-1], axis=1)
            return LatentClasses(target.shape, np.ones(1), tuple(product))
        average = _fits(target, plan, generator)
        for _ in range(plan.again):
            average = _fits(_tamed(target, average), plan, generator)
        average = average if tables.coordinates else _mended(target, average, tables.law == "gaussian")
        weights, values = average.weights.astype(np.float64), average.values.astype(np.float64)
        parts = [part / part.sum(axis=1, keepdims=True) for part in np.split(values, target.starts[1:-1], axis=1)]
        return LatentClasses(target.shape, weights / weights.sum(), tuple(parts), impossible)


def _fits(target: _Target, plan: FitPlan, generator: np.random.Generator) -> _State:
    fold, most = target.folds(10 if plan.refit else plan.folds, generator), plan.most
    if plan.refit and not plan.fixed:
        most = sum(_descend(target, plan, generator, fold == e, most)[1] for e in range(2)) // 2
    parts = [None if plan.refit else fold == e for e in range(plan.folds)]
    found = [_descend(target, plan, generator, part, most)[0] for part in parts]
    values, weights = map(np.concatenate, zip(*found, strict=True))
    return _State(values, weights / weights.sum())


def _tamed(target: _Target, state: _State) -> _Target:
    """Return a target whose residuals beyond the model are transformed for Laplace noise (`LIKELY`)."""
    tables, scales = _tables(target, state), target.least / np.sqrt(2 * np.maximum(target.inverse, 1e-30))
    beyond = (target.shares - tables) / scales
    likely = np.where(np.abs(beyond) > FAR, beyond, LIKELY * beyond / np.sqrt(1 + beyond**2))
    target = copy.copy(target)
    target.shares = np.where(target.scored, tables + scales * likely, target.shares).astype(np.float32)
    return target


def _mended(target: _Target, state: _State, normal: bool) -> _State:
    """Fit the pairs that the model misses again if noise is `normal`, and the trends of all others (Listing)."""
    weights, tables = state.weights, _tables(target, state)
    missed, trends = target.missed(tables) & normal, target.trends(tables)
    if not missed.any() and not trends.any():
        return state
    target = copy.copy(target)
    target.shares = np.where(target.scored & ~missed, tables + trends, target.shares).astype(np.float32)
    target.one = (weights @ state.values).astype(np.float32)
    raw, (rate, steps) = [np.log(part + 1e-9) for part in (state.values, weights)], MENDING
    return deque(_steps(target, raw, target.inverse, [rate] * steps), maxlen=1).pop()


def _steps(target: _Target, raw: list[Singles], weight: Singles, rates: Iterable[float]) -> Iterator[_State]:
    """Take an Adam step of each learning rate from the logits `raw`, changed in place, and yield each state."""
    moments, state = [[np.zeros_like(part) for part in raw] for _ in range(2)], _state(target, raw)
    for step, rate in enumerate(rates, start=1):
        for part, slope, first, second in zip(raw, _slopes(target, state, weight), *moments, strict=True):
            first += np.float32(0.1) * (slope - first)
            second += np.float32(0.01) * (slope * slope - second)
            unbiased = np.sqrt(second / (1 - 0.99**step)) + 1e-12
            part -= np.float32(rate / (1 - 0.9**step)) * first / unbiased
        state = _state(target, raw)
        yield state


def _descend(
    target: _Target, plan: FitPlan, generator: np.random.Generator, left_out: Array | None, most: int
) -> tuple[_State, int]:
    """Return the state that predicts the left-out cells best, and its step; if none are left out, the last state."""
    product = np.log(target.start + 1e-4).astype(np.float32)
    logits = product + 0.3 * generator.standard_normal((plan.classes, len(product))).astype(np.float32)
    raw = [logits, np.zeros(plan.classes, np.float32)]
    weight = target.inverse if left_out is None else np.where(left_out, np.float32(0), target.inverse)
    held = None if left_out is None else np.flatnonzero(np.triu(left_out))
    even = np.exp(product)[None, :] / target.block_sums(np.exp(product)[None, :])
    best, kept = np.inf, (_State(even.astype(np.float32), np.ones(1, np.float32)), 0)
    if held is not None:
        best = _score(target, kept[0], held)
    since, state, rates = 0, _state(target, raw), [RATE] * most
    if held is None and plan.falling:
        rates += [0.3 * RATE] * (most // 4) + [0.1 * RATE] * (most // 4)
    for step, state in enumerate(_steps(target, raw, weight, rates), start=1):
        if held is not None and step % CHECK == 0:
            score = _score(target, state, held)
            since = 0 if score < best * (1 - GAIN) else since + 1
            if score < best:
                best, kept = score, (state, step)
            if since >= PATIENCE:
                break
    return kept if held is not None or not most else (state, most)


def _state(target: _Target, raw: list[Singles]) -> _State:
    """Return the softmax of the logits of values, column by column, and of the logits of classes."""
    values = np.exp(raw[0] - np.maximum.reduceat(raw[0], target.starts[:-1], axis=1)[:, target.of])
    weights = np.exp(raw[1] - raw[1].max())
    return _State(values / target.block_sums(values), weights / weights.sum())


def _tables(target: _Target, state: _State) -> Singles:
    """Return the model's shares of all pairs in one matrix, in the target's coordinates."""
    values = state.values if target.basis is None else state.values @ target.basis
    return values.T @ (state.weights[:, None] * values)


def _slopes(target: _Target, state: _State, weight: Singles) -> tuple[Singles, Singles]:
    """Return the gradient of ``1/4 sum W (M - Y)^2 + 1/2 sum w (m - y)^2`` in the logits of values and of classes."""
    P, w = state
    slopes = weight * (_tables(target, state) - target.shares)
    pairs = P @ slopes if target.basis is None else P @ target.basis @ slopes @ target.basis.T
    one = target.one_weight * (w @ P - target.one)
    inner = (pairs + one) * P
    of_values = w[:, None] * (inner - P * target.block_sums(inner))
    of_classes = 0.5 * (pairs * P).sum(axis=1) + P @ one
    return of_values, w * (of_classes - w @ of_classes)


def _score(target: _Target, state: _State, held: Array) -> float:
    """Return the weighted squared error on left-out cells, which estimates the error plus a constant without bias."""
    gap = _tables(target, state).ravel()[held] - target.shares.ravel()[held]
    return float(np.dot(target.inverse.ravel()[held] * gap, gap))


def coordinates(size: int) -> Floats:
    """Return an orthonormal basis (size, size - 1) of the vectors of sum 0: each value against the later ones."""
    found = np.diag(size - 1.0 - np.arange(size))[:, : size - 1] - np.tri(size, size - 1, -1)
    return found / np.sqrt((found**2).sum(axis=0))


def projected(shares: Floats) -> Floats:
    """Return the nearest distribution to shares (k,) of any sign."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(shares) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]] if np.isfinite(excess).all() else 0.0
    return np.maximum(shares - threshold, 0.0)
