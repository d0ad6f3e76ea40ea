"""Vectors whose mean a step releases: users' mean gradients, or means over bundles of users. Not private."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.problems import Records
from dpconvex.problems.data.users import Positions, UserGroups, pick_users, user_gradients

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.user_level.accelerated import AcceleratedPlan
    from dpconvex.algorithms.erm.user_level.accelerated_schedule import Batching

Vectors = Callable[[FloatArray], FloatArray]
"""Vectors (units, dim) at parameters (dim,)."""


@final
@dataclass(frozen=True, eq=False)
class GradientSource:
    """Gradients of the users of one phase.

    Parameters
    ----------
    plan : AcceleratedPlan
    X, y : array
        All records and targets, as given.
    groups : UserGroups
    batching : Batching
    coins : numpy.random.Generator
        Apart from all noise.
    """

    plan: AcceleratedPlan
    X: AnyArray
    y: AnyArray
    groups: UserGroups
    batching: Batching
    coins: np.random.Generator

    def batches(self, slots: Positions) -> list[Vectors]:
        """Return the vectors of every batch.

        Parameters
        ----------
        slots : array of shape (batching.users,)
            The phase's users, in a random order.
        """
        size = self.batching.sample
        if size is not None:
            return [lambda w: self._fixed(self.coins.choice(slots, size, replace=False))(w)]
        return [self._fixed(slots[j :: self.batching.batches]) for j in range(self.batching.batches)]

    def _fixed(self, users: Positions) -> Vectors:
        """Vectors of these users; bundles are consecutive ones, whose order is random."""
        everybody = len(users) == self.groups.n_users
        rows, groups = (slice(None), self.groups) if everybody else pick_users(self.groups, users)
        loss, smoothing, units = self.plan.problem.loss, self.plan.smoothing, self.batching.units
        records, targets = Records.clipped(self.X[rows], self.plan.problem.domain), loss.clip_targets(self.y[rows])
        norms = np.sqrt(records.squared_norms())
        sizes = np.full(units, len(users) // units) + (np.arange(units) < len(users) % units)

        def vectors(w: FloatArray) -> FloatArray:
            slopes, values = smoothing.at_step(loss, targets, norms, len(w), self.coins)
            # Of the loss only the derivative is used.
            G = user_gradients(slopes, records, values, groups, None, w)  # pyright: ignore[reportArgumentType]
            if units == len(users):
                return G
            ordered = G[users] if everybody else G
            return np.add.reduceat(ordered, np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]

        return vectors
