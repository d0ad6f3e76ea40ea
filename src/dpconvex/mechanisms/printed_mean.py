r"""The outlier removal of Lowy, Liu and Asi (2024), Algorithm 1, steps 4 to 6, calibrated exactly ("Form A").

Mechanism, for an even number C of points and a radius tau
    ``s = (1/C) #{(j, k) : |x_j - x_k| <= tau}``; if ``s + Lap(b) < 4C/5``: fail. Else keep each point with probability
    ``p_j = clip((h_j - C/2)/(C/6), 0, 1)``, ``h_j = #{k : |x_j - x_k| <= 2 tau}``, independently, and release the mean
    of the kept points with Gaussian noise.
Good pairs, both scores at least 2C/3
    Some point has 2C/3 points within tau; these have ``p = 1``, so at least 2C/3 are kept, surely. Kept points have
    more than C/2 neighbours, of which C/2 are unchanged, so any two, even one on each side, share an unchanged one:
    distance at most 4 tau. ``p_j`` of an unchanged point moves by at most 6/C, so under the maximal coupling at most
    ``k = quantile(Bin(C - 1, 6/C), 1 - zeta)`` of them are kept on one side only, except with probability zeta. Hence
    the means differ by at most ``6 tau (k + 2) / C``.
Bad pairs
    Both scores are below ``2C/3 + 2(C - 1)/C``: the noise must exceed ``2C/15 - 2(C - 1)/C``.
Odd C
    The ramp's lower end C/2 leaves only (C-1)/2 unchanged neighbours, and the argument fails: refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import _grid
from dpconvex.mechanisms.laplace import LaplaceMechanism
from dpconvex.mechanisms.robust_mean import score_sensitivity
from dpconvex.mechanisms.test_and_release import GuardedMean, counts_within
from dpconvex.privacy import GuardedGaussianNoise, Sensitivity, Unit
from dpconvex.randomness import exact
from dpconvex.randomness.source import BitSource


@final
@dataclass(frozen=True)
class OutlierRemoval(GuardedMean):
    """Constants of the printed mechanism.

    Parameters
    ----------
    count, dim : int
        Number C of points, even and at least 16, and their dimension.
    score_scale : float
        Laplace scale b.
    coupling : float
        zeta, in (0, 1).
    sigma : float
        Standard deviation of the mean's noise in units of its sensitivity.
    unit : Unit
    """

    count: int
    dim: int
    score_scale: float
    coupling: float
    sigma: float
    unit: Unit = Unit.USER
    lemma: ClassVar[str] = "outlier removal, Lemma B.2 with exact constants"  # pyright: ignore[reportIncompatibleVariableOverride]
    name: ClassVar[str] = "outlier removal"

    def __post_init__(self) -> None:
        _validate.integer("count", self.count, at_least=16)
        if self.count % 2:
            raise InvalidParameterError("count", self.count, "must be even", "Use one point more")
        _validate.real("coupling", self.coupling, above=0.0, below=1.0)
        _ = self.event

    @property
    def threshold(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """``4C/5``."""
        return 0.8 * self.count

    @property
    def margin(self) -> float:
        """``2C/15 - 2(C - 1)/C``, rounded down."""
        return 2 * self.count / 15 * (1 - 1e-12) - score_sensitivity(self.count, "average")

    @property
    def flips(self) -> int:
        """k: how many unchanged points are kept on one side only, but for probability zeta."""
        return flips(self.count, self.coupling)

    @property
    def reach(self) -> float:
        """``6 (k + 2) / C``."""
        return 6 * (self.flips + 2) / self.count * (1 + 1e-12)

    @cached_property
    def event(self) -> GuardedGaussianNoise:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Test and release together."""
        moves = _grid.enlarged(score_sensitivity(self.count, "average"))
        return GuardedGaussianNoise(
            "laplace", moves, self.score_scale, self.margin, self.coupling, _grid.enlarged(1.0), self.sigma
        )

    @cached_property
    def score_noise(self) -> LaplaceMechanism:
        """The noise of the score."""
        moves = Sensitivity(score_sensitivity(self.count, "average"), "absolute", "2(C - 1)/C", unit=self.unit)
        return LaplaceMechanism(moves, self.score_scale, 1)

    def describe(self) -> Mapping[str, Any]:
        """Number of points, flips and threshold."""
        return {
            "points": self.count,
            "score": "average",
            "coupling": self.coupling,
            "flips": self.flips,
            "threshold": self.threshold,
            "sensitivity_in_radii": self.reach,
        }

    def _examine(self, points: FloatArray, radius: float, source: BitSource) -> tuple[float, FloatArray]:
        score = float(counts_within(points, radius).sum()) / self.count
        half = self.count // 2
        kept = np.clip((counts_within(points, 2 * radius) - half) / (self.count / 6), 0.0, 1.0)
        coins = source.generator().random(self.count)  # a stream of its own, independent of the score's noise
        return score, (coins < kept).astype(np.float64)

    def _noisy(self, score: float, source: BitSource) -> float:
        step = self.score_noise.step
        units = exact.discrete_laplace(_grid.to_units(np.array([score]), step), self.score_scale / step, source)
        return float(_grid.from_units(units, step)[0])


def flips(count: int, coupling: float) -> int:
    """Return the upper `coupling`-quantile of ``Bin(count - 1, 6/count)``: ``P(more) <= coupling``."""
    from scipy.stats import binom

    # 1e-9 covers the library's own error; `isf` may be one off, and more flips are on the safe side.
    return int(binom.isf(coupling * (1 - 1e-9), count - 1, min(1.0, 6 / count * (1 + 1e-15))))


def least_count(score_scale: float, failure: float) -> int:
    """Smallest even C at which bad pairs pass with probability at most `failure`."""
    wanted = score_scale * math.log(1 / (2 * failure)) * (1 + 3e-5) + 3e-5 * score_scale + 2
    return 2 * math.ceil(_rounding.widen_up(7.5 * wanted) / 2)


def plan_outlier_removal(
    count: int, dim: int, epsilon: float, delta: float, *, score_scale: float | None = None, unit: Unit = Unit.USER
) -> OutlierRemoval:
    """Return the printed mechanism with exact constants: Gaussian noise for what test and coupling leave of a promise.

    Parameters
    ----------
    count, dim : int
    epsilon, delta : float
        Positive.
    score_scale : float, optional
        b; default: the paper's ``20/epsilon``, which spends a tenth of epsilon.
    unit : Unit

    Raises
    ------
    InvalidParameterError
        If there are too few points.
    """
    from dpconvex.privacy.profiles import largest_mu

    scale = 20 / epsilon if score_scale is None else _validate.real("score_scale", score_scale, above=0.0)
    coupling, rest = delta / 8, epsilon - _grid.enlarged(score_sensitivity(count, "average")) / scale
    least = least_count(scale, delta)
    if count < least or rest <= 0:
        what = f"must be at least {least} for this promise"
        raise InvalidParameterError("count", count, what, "Use RobustMean, or more points")
    mu = largest_mu(rest, delta * (7 / 8)) * (1 - 1e-9)
    return OutlierRemoval(count, dim, scale, coupling, _grid.enlarged(1.0) / mu * (1 + 1e-12), unit)
