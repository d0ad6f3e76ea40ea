r"""Users' mean gradients, of losses with kinks those of smooth stand-ins: vectors whose mean a step releases.

`Randomized` is the paper's (Section 4, E12), by one draw a record, fresh at every step: one draw a user would keep a
user's mean gradient from concentrating, one a step would leave an error that no mean reduces. `Envelope` has the same
error with a curvature smaller by ``2 sqrt(d)`` (docs, User gradients, Losses with kinks). Neither matters to privacy.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats
from dpconvex.algorithms.erm.user_level.accelerated_schedule import Batching
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LinearModelLoss, PiecewiseLinearLoss
from dpconvex.problems import LinearModelProblem, Records, UserGroups
from dpconvex.problems.data.users import Positions, pick_users, user_gradients

Vectors = Callable[[Floats], Floats]  #: Vectors (users, dim) at parameters (dim,). Not private.
SMOOTHINGS = ("auto", "none", "envelope", "randomized")


@final
@dataclass(frozen=True)
class ShiftedLoss:
    """A loss at predictions that are moved by a record's own shift; the shift is the second column of the targets."""

    loss: LinearModelLoss
    n_outputs: ClassVar[int] = 1

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the slope (n,) at ``z + y[:, 1]`` for the targets ``y[:, 0]``."""
        return self.loss.derivative(z + y[:, 1], y[:, 0])

    def slope_within(self, reach: float) -> float:
        """Return a bound on the slope: shifts know no bound, so it is that of all predictions."""
        return self.loss.slope_bound


@dataclass(frozen=True)
class Smoothing:
    """How a loss is made smooth; this one leaves it as it is."""

    size: float = 0.0  #: The parameter, for the certificate
    name: ClassVar[str] = "none"

    def smoothness(self, problem: LinearModelProblem) -> float:
        """Return the smoothness constant of one record's stand-in."""
        return problem.smoothness

    def excess(self, problem: LinearModelProblem) -> float:
        """Return the largest difference between the excess of the loss and that of the stand-in."""
        return 0.0

    def at_step(
        self, loss: LinearModelLoss, targets: Floats, norms: Floats, dim: int, coins: np.random.Generator
    ) -> tuple[LinearModelLoss | ShiftedLoss, Floats]:
        """Return loss and targets (n,) of one step, for records of lengths `norms` (n,); coins apart from noise."""
        return loss, targets


@final
@dataclass(frozen=True)
class Envelope(Smoothing):
    """Moreau envelope of a piecewise linear loss, of width `size`, in the unit of predictions over that of slopes."""

    name: ClassVar[str] = "envelope"

    def smoothness(self, problem: LinearModelProblem) -> float:
        return problem.feature_l2**2 / self.size

    def excess(self, problem: LinearModelProblem) -> float:
        return self.size * problem.loss.slope_bound**2 / 2

    def at_step(
        self, loss: LinearModelLoss, targets: Floats, norms: Floats, dim: int, coins: np.random.Generator
    ) -> tuple[LinearModelLoss | ShiftedLoss, Floats]:
        assert isinstance(loss, PiecewiseLinearLoss)  # `smoothings` offers it to no other
        return loss.smoothed(self.size), targets


@final
@dataclass(frozen=True)
class Randomized(Smoothing):
    """Average over a ball of radius `size` around the parameters, by one draw a record and step."""

    name: ClassVar[str] = "randomized"

    def smoothness(self, problem: LinearModelProblem) -> float:
        return problem.lipschitz * math.sqrt(problem.dim) / self.size

    def excess(self, problem: LinearModelProblem) -> float:
        return problem.lipschitz * self.size

    def at_step(
        self, loss: LinearModelLoss, targets: Floats, norms: Floats, dim: int, coins: np.random.Generator
    ) -> tuple[LinearModelLoss | ShiftedLoss, Floats]:
        shape = (dim + 1) / 2
        shifts = self.size * norms * (2 * coins.beta(shape, shape, size=len(targets)) - 1)
        return ShiftedLoss(loss), np.column_stack([targets, shifts])


def smoothings(problem: LinearModelProblem, kind: str, error: float) -> Smoothing:
    """Return the smoothing of a kind whose excess is `error`; ``auto``: none for smooth losses, else the envelope."""
    _validate.choice("smoothing", kind, SMOOTHINGS)
    smooth = math.isfinite(problem.smoothness)
    kind = ("none" if smooth else "envelope") if kind == "auto" else kind
    if kind == "none":
        if not smooth:
            raise InvalidParameterError("smoothing", kind, "must not be 'none' for a loss with kinks", "Use 'auto'")
        return Smoothing()
    if kind == "envelope":
        if not isinstance(problem.loss, PiecewiseLinearLoss):
            raise InvalidParameterError("smoothing", kind, "needs a piecewise linear loss", "Use 'auto'")
        return Envelope(2 * error / problem.loss.slope_bound**2)
    if problem.loss.n_outputs > 1:
        raise InvalidParameterError("smoothing", kind, "needs a loss of one prediction", "Use 'auto'")
    return Randomized(error / problem.lipschitz)


@final
@dataclass(frozen=True, eq=False)
class UserGradients:
    """Mean gradients of users; the coins are apart from all noise."""

    problem: LinearModelProblem
    smoothing: Smoothing
    X: Array
    y: Array
    groups: UserGroups
    coins: np.random.Generator

    def batches(self, batching: Batching, slots: Positions) -> list[Vectors]:
        """Return the vectors of every batch of a phase whose users are `slots`, in a random order."""
        size = batching.sample
        if size is not None:  # without replacement (erratum E5)
            return [lambda w: self._of(self.coins.choice(slots, size, replace=False))(w)]
        return [self._of(slots[j :: batching.batches]) for j in range(batching.batches)]

    def _of(self, users: Positions) -> Vectors:
        """Return the vectors of these users, in no order that a mean may rest on."""
        everybody = len(users) == self.groups.n_users
        rows, groups = (slice(None), self.groups) if everybody else pick_users(self.groups, users)
        loss = self.problem.loss
        records, targets = Records.clipped(self.X[rows], self.problem.domain), loss.clip_targets(self.y[rows])
        norms = np.sqrt(records.squared_norms())

        def vectors(w: Floats) -> Floats:
            slopes, values = self.smoothing.at_step(loss, targets, norms, len(w), self.coins)
            # Of the loss only the derivative is used.
            return user_gradients(slopes, records, values, groups, None, w)  # pyright: ignore[reportArgumentType]

        return vectors
