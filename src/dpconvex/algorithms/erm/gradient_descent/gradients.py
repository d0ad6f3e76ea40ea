"""Mean gradients of the units of a batch or a sample, each unit's cut to the planned length. Nothing is private."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.mechanisms.sampled_gaussian import Sample
from dpconvex.problems import Records, RegularizedRisk
from dpconvex.problems.data import _threads
from dpconvex.problems.data.records import RowBlock
from dpconvex.problems.data.users import UserGroups, clipped_mean, pick_users, record_weights
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.problems.objective import Objective
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.gradient_descent.plan import NoisyGradientPlan

LABEL = "mean clipped gradient"
Gradient = Callable[[FloatArray], FloatArray]
SampledGradient = Callable[[FloatArray, Sample], FloatArray]
_PANEL = 2**17
"""Floats that are gathered at a time (1 MB), one row block."""


def mean_gradients(
    plan: NoisyGradientPlan, X: AnyArray, y: AnyArray, groups: UserGroups | None, source: BitSource
) -> list[Gradient]:
    """Return, for every batch, the mean over its units of their clipped gradients, a function of parameters (dim,).

    Parameters
    ----------
    plan : NoisyGradientPlan
    X : array of shape (n_records, n_features)
    y : array of shape (n_records,)
    groups : UserGroups or None
        None: every record is a unit; batches are then records at equal distances.
    source : BitSource
        Of the coins that put users into batches.
    """
    if groups is None:
        parts = [slice(j, None, plan.batches) for j in range(plan.batches)]
        return [_of_records(plan, X[rows], y[rows]) for rows in parts]
    if plan.batches == 1:
        return [_of_users(plan, X, y, groups)]
    order = source.generator().permutation(groups.n_users)
    picked = [pick_users(groups, order[j :: plan.batches]) for j in range(plan.batches)]
    return [_of_users(plan, X[rows], y[rows], users) for rows, users in picked]


def sampled_gradient(plan: NoisyGradientPlan, X: AnyArray, y: AnyArray) -> SampledGradient:
    """Return a function of parameters (dim,) and of the numbers of sampled records, ascending, shape (m,), m >= 0.

    It sums their clipped gradients and divides by the expected number of records, ``rate * n``, never by m.

    Parameters
    ----------
    plan : NoisyGradientPlan
        With a rate below 1.
    X : array of shape (n_records, n_features)
    y : array of shape (n_records,)
    """
    problem = plan.problem
    _, targets, lengths = _prepared(plan, X, y)
    size = max(1, _PANEL // X.shape[1])

    def gradient(w: FloatArray, sample: Sample) -> FloatArray:
        def work(index: int) -> FloatArray:
            rows = sample[index * size : (index + 1) * size]
            records = Records.clipped(X[rows], problem.domain)
            return clipped_records(problem, records, targets[rows], lengths[rows], plan.clip, w) * len(rows)

        if len(sample) == 0:
            return np.zeros_like(w)
        with _threads.one_blas_thread():
            total = _threads.total(math.ceil(len(sample) / size), work)
        return total / (plan.rate * problem.n) / plan.scales

    return gradient


def _of_records(plan: NoisyGradientPlan, X: AnyArray, y: AnyArray) -> Gradient:
    problem = plan.problem
    if not plan.cuts:
        return _gradient(problem.objective(X, y, 0.0))
    of_mean = partial(clipped_records, problem, *_prepared(plan, X, y), plan.clip)
    return of_mean if plan.deviations is None else lambda w: of_mean(w) / plan.scales


def _prepared(plan: NoisyGradientPlan, X: AnyArray, y: AnyArray) -> tuple[Records, FloatArray, FloatArray]:
    """Clipped features, clipped targets, and the records' lengths in the norm in which gradients are measured."""
    problem, scales = plan.problem, plan.deviations
    records, targets = Records.clipped(X, problem.domain), problem.loss.clip_targets(y)
    if scales is None:
        return records, targets, np.sqrt(records.squared_norms())
    lengths = [np.linalg.norm(block.dense() / scales, axis=1) for block in records.blocks()]
    return records, targets, np.concatenate(lengths)


def _of_users(plan: NoisyGradientPlan, X: AnyArray, y: AnyArray, groups: UserGroups) -> Gradient:
    problem = plan.problem
    weights = record_weights(groups)
    records, targets = Records.clipped(X, problem.domain), problem.loss.clip_targets(y)
    if not plan.cuts:
        mean = np.nextafter(weights / groups.n_users, 0.0)
        return _gradient(RegularizedRisk(problem.loss, records, targets, 0.0, weights=mean))
    return lambda w: clipped_mean(problem.loss, records, targets, groups, weights, w, plan.clip)


def _gradient(objective: Objective) -> Gradient:
    return lambda w: objective.gradient(w)


def clipped_records(
    problem: LinearModelProblem, records: Records, targets: FloatArray, lengths: FloatArray, clip: float, w: FloatArray
) -> FloatArray:
    """Return the mean over records of their gradients, each scaled down to length `clip`, shape (dim,).

    Parameters
    ----------
    problem : LinearModelProblem
    records : Records
    targets : array of shape (n,)
        In the loss's declared targets.
    lengths : array of shape (n,)
        Of the records, in the norm in which gradients are measured.
    clip : float
        Positive.
    w : array of shape (dim,)
    """
    outputs = problem.loss.n_outputs
    W = w if outputs == 1 else w.reshape(outputs, records.dim)

    def work(block: RowBlock) -> FloatArray:
        slopes = problem.loss.derivative(block.predict(W), targets[block.rows])
        size = lengths[block.rows] * (np.abs(slopes) if slopes.ndim == 1 else np.linalg.norm(slopes, axis=1))
        factor = clip / np.maximum(size, clip)
        return block.adjoint(slopes * (factor if slopes.ndim == 1 else factor[:, None])).ravel()

    return _threads.total(records.n_blocks, lambda index: work(records.block(index))) / records.n
