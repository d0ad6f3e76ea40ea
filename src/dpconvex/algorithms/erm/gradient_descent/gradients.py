"""Mean gradients over the units (records or users) of a batch or sample, each cut to a length. Nothing is private."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.mechanisms.gaussian import Sample
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.problems.base import MOST_TIMES
from dpconvex.problems.data import summation
from dpconvex.problems.data.domain import shorten
from dpconvex.problems.data.records import RecordSource, RowBlock
from dpconvex.problems.data.users import clipped_mean, pick_users, record_weights
from dpconvex.randomness import BitSource

Gradient = Callable[[Floats], Floats]
SampledGradient = Callable[[Floats, Sample], Floats]


@final_dataclass
class Clipping:
    """How the gradient of one unit is measured and cut."""

    problem: LinearModelProblem  #: Its loss is an average over units
    level: float  #: Length C to which a unit's gradient is cut
    #: D of one output (dim,), by which gradients are divided before they are cut; None: they are not divided.
    deviations: Floats | None

    @property
    def divided(self) -> Floats | None:
        """D for all parameters; None where gradients are not divided."""
        return None if self.deviations is None else self.scales

    @property
    def cuts(self) -> bool:
        """Whether a gradient can be longer than the level at all."""
        return self.deviations is not None or self.level < self.problem.lipschitz or self.problem.private_n

    @cached_property
    def scales(self) -> Floats:
        """D for all parameters, of shape (n_parameters,)."""
        each = np.ones(self.problem.domain.dim) if self.deviations is None else self.deviations
        return np.tile(each, self.problem.loss.n_outputs)

    def lengths(self, block: RowBlock) -> Floats:
        """Return records' lengths in the norm in which gradients are measured, (m,)."""
        if self.deviations is None:
            return np.sqrt(block.squared_norms())
        return np.linalg.norm(block.dense() / self.deviations, axis=1)


def mean_gradients(
    clipping: Clipping, batches: int, X: Array, y: Array, groups: UserGroups | None, source: BitSource
) -> list[Gradient]:
    """Return each batch's mean clipped gradient; batch j has every `batches`-th record from j on, or random users."""
    if groups is None:
        parts = [slice(j, None, batches) for j in range(batches)] if batches > 1 else []
        return [_of_records(clipping, X[rows], y[rows]) for rows in parts] or [_of_records(clipping, X, y)]
    if batches == 1:
        return [_of_users(clipping, X, y, groups)]
    order = source.generator().permutation(groups.n_users)
    picked = [pick_users(groups, order[j::batches]) for j in range(batches)]
    return [_of_users(clipping, X[rows], y[rows], users) for rows, users in picked]


def sampled_gradient(
    clipping: Clipping, rate: float, X: Array, y: Array, groups: UserGroups | None = None
) -> SampledGradient:
    """Return the sum of the sampled units' clipped gradients over ``rate * n``, by parameters and sample."""
    problem = clipping.problem
    records, targets = problem.clipped(X, y)
    if groups is not None:
        assert targets is not None
        return partial(_of_sampled_users, clipping, rate, records, targets, groups)

    def gradient(w: Floats, sample: Sample) -> Floats:
        if len(sample) == 0:
            return np.zeros_like(w)
        total = clipped_sum(problem, records.chosen(sample, targets), None, clipping.lengths, clipping.level, w)
        return total / (rate * problem.n) / clipping.scales

    return gradient


def _of_sampled_users(
    clipping: Clipping, rate: float, records: RecordSource, targets: Array, groups: UserGroups, w: Floats,
    sample: Sample,
) -> Floats:  # fmt: skip
    if len(sample) == 0:
        return np.zeros_like(w)
    rows, users = pick_users(groups, sample)
    order = np.argsort(rows)
    users = UserGroups.of(np.repeat(np.arange(users.n_users), users.sizes)[order])
    drawn, own = records.chosen(rows[order], None), targets[rows[order]]
    level = clipping.level if clipping.cuts else math.inf  # the Lipschitz constant already bounds it
    facts = clipping.problem.loss, drawn, own, users, record_weights(users)
    mean = clipped_mean(*facts, w, level, scales=clipping.divided)
    return mean * (len(sample) / (rate * clipping.problem.n))


def _of_records(clipping: Clipping, X: Array, y: Array) -> Gradient:
    problem = clipping.problem
    if not clipping.cuts:
        return problem.objective(X, y, 0.0).gradient
    records, targets = problem.clipped(X, y)
    total = partial(clipped_sum, problem, records, targets, records.each(clipping.lengths), clipping.level)
    scales = 1.0 if clipping.deviations is None else clipping.scales
    if problem.private_n:
        return lambda w: within_reach(total(w) / problem.n / scales, clipping.level)
    return lambda w: total(w) / records.n / scales


def _of_users(clipping: Clipping, X: Array, y: Array, groups: UserGroups) -> Gradient:
    problem, weights = clipping.problem, record_weights(groups)
    if not clipping.cuts:
        own = replace(problem, n=groups.n_users)  # a batch has fewer users than the problem
        return own.on(*own.clipped(X, y), 0.0, groups).gradient
    records, targets = problem.clipped(X, y)
    n, facts = problem.n if problem.private_n else None, (problem.loss, records, targets, groups, weights)

    def mean(w: Floats) -> Floats:
        return clipped_mean(*facts, w, clipping.level, n, clipping.divided)

    return (lambda w: within_reach(mean(w), clipping.level)) if problem.private_n else mean


def within_reach(total: Floats, level: float) -> Floats:
    """Return a sum over units, over their declared number, cut to `MOST_TIMES` levels: its roundings are then bounded.

    Cutting brings no two sums farther apart; it matters only with over `MOST_TIMES` times the declared number of units.
    """
    cut = np.nan_to_num(total, nan=0.0)[None]
    shorten(cut, "l2", MOST_TIMES * level)
    return cut[0]


def clipped_sum(
    problem: LinearModelProblem, records: RecordSource, targets: Array | None,
    lengths: Callable[[RowBlock], Floats], clip: float, w: Floats,
) -> Floats:  # fmt: skip
    """Return the sum over records of gradients, each scaled down to `clip` in the norm of `lengths`, (dim,)."""
    outputs, domain = problem.loss.n_outputs, problem.domain
    W = w if outputs == 1 else w.reshape(outputs, records.dim)
    # Where gradients are divided by D, `lengths` are not the lengths of the features.
    largest = problem.loss.slope_within(domain.l2 * float(np.linalg.norm(w))) * domain.linf

    def work(block: RowBlock) -> summation.Parts:
        slopes = problem.loss.derivative(block.predict(W), block.targets_in(targets))
        size = lengths(block) * (np.abs(slopes) if slopes.ndim == 1 else np.linalg.norm(slopes, axis=1))
        factor = clip / np.maximum(size, clip)
        return (block.adjoint(slopes * (factor if slopes.ndim == 1 else factor[:, None]), largest),)

    return summation.vector(records.total(work)[0]).ravel()
