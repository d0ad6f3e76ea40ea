"""Mean gradients of the units of a batch, each unit's cut to the planned length. Nothing here is private."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.problems import Records, RegularizedRisk, _threads
from dpconvex.problems.linear_model import LinearModelProblem
from dpconvex.problems.objective import Objective
from dpconvex.problems.records import RowBlock
from dpconvex.problems.user_batches import pick_users
from dpconvex.problems.user_gradients import clipped_mean
from dpconvex.problems.users import UserGroups, record_weights
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.baselines.noisy_gradient.plan import NoisyGradientPlan

Gradient = Callable[[FloatArray], FloatArray]


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


def _of_records(plan: NoisyGradientPlan, X: AnyArray, y: AnyArray) -> Gradient:
    problem = plan.problem
    if not plan.cuts:
        return _gradient(problem.objective(X, y, 0.0))
    records, targets = Records.clipped(X, problem.domain), problem.loss.clip_targets(y)
    if plan.deviations is None:
        return partial(clipped_records, problem, records, targets, np.sqrt(records.squared_norms()), plan.clip)
    scales = plan.deviations
    lengths = np.concatenate([np.linalg.norm(block.dense() / scales, axis=1) for block in records.blocks()])
    return lambda w: clipped_records(problem, records, targets, lengths, plan.clip, w) / plan.scales


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
