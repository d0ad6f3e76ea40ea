"""What a solver returns: a point and a proof of how far it can be from the minimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from dpconvex._types import FloatArray, Status


@final
@dataclass(frozen=True)
class Accuracy:
    """A proven bound on the error of a point.

    Parameters
    ----------
    kind : {"distance", "gap"}
        l2 distance to the minimiser, or value minus minimum.
    bound : float
        The bound, rounded up. It depends on the data: not for release. Noise is calibrated to the radius that was
        asked for, never to this.
    basis : {"a posteriori", "a priori"}
        Computed at the point, or a step count that suffices for every data set.
    lemma : str
        The certificate or theorem that proves it.
    """

    kind: Literal["distance", "gap"]
    bound: float
    basis: Literal["a posteriori", "a priori"]
    lemma: str


@final
@dataclass(frozen=True, eq=False)
class SolverResult:
    """The outcome of a solver.

    Parameters
    ----------
    point : array of shape (dim,)
        Member of the constraint.
    accuracy : Accuracy
        True in every case; at most the radius asked for if and only if `status` is ``CERTIFIED``.
    status : Status
        ``STEP_LIMIT`` and ``STALLED`` (rounding stops all progress) are failures; raising is the caller's choice.
    steps : int
        Iterations. They depend on the data: not for release.
    gradient_calls : int
        Full passes over the data. They depend on the data: not for release.
    """

    point: FloatArray
    accuracy: Accuracy
    status: Status
    steps: int
    gradient_calls: int
