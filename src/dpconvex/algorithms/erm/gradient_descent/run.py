"""Noisy projected gradient descent with clipped units, plain or accelerated. Constants: `plan.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import PrivateResult
from dpconvex.algorithms.erm.gradient_descent.gradients import (
    LABEL,
    Gradient,
    mean_gradients,
    sampled_gradient,
)
from dpconvex.algorithms.erm.gradient_descent.typical_steps import Steps
from dpconvex.privacy import Ledger
from dpconvex.problems.data.users import UserGroups
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.gradient_descent.plan import NoisyGradientPlan


def run(
    plan: NoisyGradientPlan, X: AnyArray, y: AnyArray, groups: UserGroups | None, source: BitSource
) -> PrivateResult:
    """Take the planned number of noisy steps from 0; average the last points (plain: where gradients were taken).

    Parameters
    ----------
    plan : NoisyGradientPlan
        Public constants.
    X : array of shape (n_records, n_features)
        Features, clipped here.
    y : array of shape (n_records,)
        Targets, clipped here.
    groups : UserGroups or None
        Whose record each is; None: every record is a unit.
    source : BitSource
        Where the noise comes from.
    """
    released = _on_sample(plan, X, y, source) if plan.sampled else _on_batch(plan, X, y, groups, source)

    def noisy(w: FloatArray) -> FloatArray:
        return plan.scales * released(w) + plan.l2 * w

    w, total = np.zeros(plan.problem.dim), np.zeros(plan.problem.dim)
    if plan.typical is not None:
        return plan.finish(_with_momentum(plan.typical, noisy, w, plan.ball), source)
    if plan.descent is not None:
        return plan.finish(plan.descent.minimise(w, noisy, plan.ball.project)[0], source)
    for t in range(plan.steps):
        if t >= plan.steps - plan.averaged:
            total += w
        w = plan.ball.project(w - plan.step_size * noisy(w))
    return plan.finish(total / plan.averaged, source)


def _on_batch(
    plan: NoisyGradientPlan, X: AnyArray, y: AnyArray, groups: UserGroups | None, source: BitSource
) -> Gradient:
    """Noisy mean gradients, of all units or of each batch in its turn."""
    ledger = Ledger(plan.privacy, plan.releases)
    gradients = mean_gradients(plan, X, y, groups, source)
    turn = iter(range(plan.steps))

    def released(w: FloatArray) -> FloatArray:
        j = next(turn) % plan.batches
        return plan.mechanism.release(gradients[j](w), LABEL, source, ledger, plan.blocks[j])

    return released


def _on_sample(plan: NoisyGradientPlan, X: AnyArray, y: AnyArray, source: BitSource) -> Gradient:
    """Noisy gradients of a fresh secret sample of records each."""
    assert plan.sampled is not None
    session = plan.sampled.start(plan.problem.n, LABEL, source, Ledger(plan.privacy, plan.releases))
    gradient = sampled_gradient(plan, X, y)
    return lambda w: session.release(partial(gradient, w))


def _with_momentum(steps: Steps, noisy: Callable[[FloatArray], FloatArray], w: FloatArray, ball: L2Ball) -> FloatArray:
    """Return the mean of the last points of `typical_steps`, each projected on the ball."""
    velocity, total = np.zeros_like(w), np.zeros_like(w)
    for t in range(steps.count):
        velocity = steps.momentum * velocity - steps.size * noisy(w + steps.momentum * velocity)
        w = ball.project(w + velocity)
        if t >= steps.count - steps.averaged:
            total += w
    return total / steps.averaged
