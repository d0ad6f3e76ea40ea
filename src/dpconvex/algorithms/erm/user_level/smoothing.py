r"""Smooth stand-ins for losses with kinks: what the accelerated method minimises in their place.

Randomised (the paper, Section 4)
    ``f_r(w) = E f(w + y)``, y uniform in the ball of radius r: L-Lipschitz, ``L sqrt(d)/r``-smooth, and ``f <= f_r <=
    f + L r`` (the paper prints it the wrong way round, E12). A linear model sees y only through ``<y, x>``, which is
    ``r |x| U`` with ``(1 + U)/2 ~ Beta((d+1)/2, (d+1)/2)``: one draw a record, fresh at every step. One draw a user
    would keep a user's mean gradient from concentrating, one a step would leave an error that no mean reduces.
Envelope (calibrated)
    The Moreau envelope of the loss in its prediction, of width s: L-Lipschitz, ``X_2^2/s``-smooth, ``f - s A^2/2 <= f_s
    <= f``, nothing random. The same error with a curvature smaller by ``2 sqrt(d)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.losses.base import LinearModelLoss, PiecewiseLinearLoss
from dpconvex.problems.linear.problem import LinearModelProblem


@final
@dataclass(frozen=True)
class ShiftedLoss:
    """A loss at predictions that are moved by a record's own shift; the shift is the second column of the targets.

    Parameters
    ----------
    loss : LinearModelLoss
        Of one output.
    """

    loss: LinearModelLoss
    n_outputs: ClassVar[int] = 1

    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the slope (n,) at ``z + y[:, 1]`` for the targets ``y[:, 0]``."""
        return self.loss.derivative(z + y[:, 1], y[:, 0])


class Smoothing(ABC):
    """How a loss is made smooth.

    Attributes
    ----------
    name : str
    """

    name: ClassVar[str]

    @abstractmethod
    def smoothness(self, problem: LinearModelProblem) -> float:
        """Smoothness constant of one record's stand-in."""

    @abstractmethod
    def excess(self, problem: LinearModelProblem) -> float:
        """Largest difference between the excess of the loss and that of the stand-in."""

    @abstractmethod
    def size(self) -> float:
        """The parameter, for the certificate."""

    @abstractmethod
    def at_step(
        self, loss: LinearModelLoss, targets: FloatArray, norms: FloatArray, dim: int, coins: np.random.Generator
    ) -> tuple[LinearModelLoss | ShiftedLoss, FloatArray]:
        """Return the loss and targets whose slopes are those of one step.

        Parameters
        ----------
        loss : LinearModelLoss
        targets : array of shape (n,)
        norms : array of shape (n,)
            Lengths of the records.
        dim : int
            Number of parameters d.
        coins : numpy.random.Generator
            Apart from all noise.
        """


@final
@dataclass(frozen=True)
class NoSmoothing(Smoothing):
    """The loss is smooth as it is."""

    name: ClassVar[str] = "none"

    def smoothness(self, problem: LinearModelProblem) -> float:
        """The problem's."""
        return problem.smoothness

    def excess(self, problem: LinearModelProblem) -> float:
        """0."""
        return 0.0

    def size(self) -> float:
        """0."""
        return 0.0

    def at_step(
        self, loss: LinearModelLoss, targets: FloatArray, norms: FloatArray, dim: int, coins: np.random.Generator
    ) -> tuple[LinearModelLoss | ShiftedLoss, FloatArray]:
        """The loss and the targets themselves."""
        return loss, targets


@final
@dataclass(frozen=True)
class Envelope(Smoothing):
    """Moreau envelope of a piecewise linear loss.

    Parameters
    ----------
    width : float
        s, positive, in the unit of predictions over that of slopes.
    """

    width: float
    name: ClassVar[str] = "envelope"

    def __post_init__(self) -> None:
        _validate.real("width", self.width, above=0.0)

    def smoothness(self, problem: LinearModelProblem) -> float:
        """``X_2^2 / s``."""
        return problem.feature_l2**2 / self.width

    def excess(self, problem: LinearModelProblem) -> float:
        """``s A^2 / 2``."""
        return self.width * problem.loss.slope_bound**2 / 2

    def size(self) -> float:
        """The width."""
        return self.width

    def at_step(
        self, loss: LinearModelLoss, targets: FloatArray, norms: FloatArray, dim: int, coins: np.random.Generator
    ) -> tuple[LinearModelLoss | ShiftedLoss, FloatArray]:
        """The envelope."""
        assert isinstance(loss, PiecewiseLinearLoss)  # `smoothings` offers it to no other
        return loss.smoothed(self.width), targets


@final
@dataclass(frozen=True)
class Randomised(Smoothing):
    """Average over a ball around the parameters, by one draw a record and step.

    Parameters
    ----------
    radius : float
        r, positive, in the unit of parameters.
    """

    radius: float
    name: ClassVar[str] = "randomised"

    def __post_init__(self) -> None:
        _validate.real("radius", self.radius, above=0.0)

    def smoothness(self, problem: LinearModelProblem) -> float:
        """``L sqrt(d) / r``."""
        return problem.lipschitz * math.sqrt(problem.dim) / self.radius

    def excess(self, problem: LinearModelProblem) -> float:
        """``L r``."""
        return problem.lipschitz * self.radius

    def size(self) -> float:
        """The radius."""
        return self.radius

    def at_step(
        self, loss: LinearModelLoss, targets: FloatArray, norms: FloatArray, dim: int, coins: np.random.Generator
    ) -> tuple[LinearModelLoss | ShiftedLoss, FloatArray]:
        """Fresh shifts of all predictions."""
        shape = (dim + 1) / 2
        shifts = self.radius * norms * (2 * coins.beta(shape, shape, size=len(targets)) - 1)
        return ShiftedLoss(loss), np.column_stack([targets, shifts])


SMOOTHINGS = ("auto", "none", "envelope", "randomised")


def smoothings(problem: LinearModelProblem, kind: str, error: float) -> Smoothing:
    """Return the smoothing of a kind whose excess is `error`.

    Parameters
    ----------
    problem : LinearModelProblem
    kind : {"auto", "none", "envelope", "randomised"}
        ``auto``: none for smooth losses, else the envelope.
    error : float
        Positive.

    Raises
    ------
    InvalidParameterError
        If the kind does not go with the loss.
    """
    _validate.choice("smoothing", kind, SMOOTHINGS)
    smooth = math.isfinite(problem.smoothness)
    kind = ("none" if smooth else "envelope") if kind == "auto" else kind
    if kind == "none":
        if not smooth:
            raise InvalidParameterError("smoothing", kind, "must not be 'none' for a loss with kinks", "Use 'auto'")
        return NoSmoothing()
    if kind == "envelope":
        if not isinstance(problem.loss, PiecewiseLinearLoss):
            raise InvalidParameterError("smoothing", kind, "needs a piecewise linear loss", "Use 'auto'")
        return Envelope(2 * error / problem.loss.slope_bound**2)
    if problem.loss.n_outputs > 1:
        raise InvalidParameterError("smoothing", kind, "needs a loss of one prediction", "Use 'auto'")
    return Randomised(error / problem.lipschitz)
