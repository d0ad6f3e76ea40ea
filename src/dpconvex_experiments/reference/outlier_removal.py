"""The paper's own outlier removal. Methods use `RobustMean`, which needs fewer users for the same promise."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, attributes, final_dataclass
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import LaplaceMechanism, OneTest
from dpconvex.mechanisms.robust_mean import counts_within
from dpconvex.privacy import GuardedGaussianNoise, Sensitivity, Unit
from dpconvex.randomness import BitSource, exact


@final_dataclass
class OutlierRemoval(OneTest):
    r"""The outlier removal of Lowy, Liu and Asi (2024), Algorithm 1, steps 4 to 6, calibrated exactly ("Form A").

    Mechanism, for an even number C of points and a radius tau
        ``s = (1/C) #{(j, k) : |x_j - x_k| <= tau}``; if ``s + Lap(b) < 4C/5``: fail. Else keep each point with
        probability ``p_j = clip((h_j - C/2)/(C/6), 0, 1)``, ``h_j = #{k : |x_j - x_k| <= 2 tau}``, independently, and
        release the mean of the kept points with Gaussian noise.
    Good pairs, both scores at least 2C/3
        But for probability zeta at most ``k = quantile(Bin(C - 1, 6/C), 1 - zeta)`` unchanged points are kept on one
        side only, and the means differ by at most ``6 tau (k + 2) / C`` (docs, User-level privacy).
    Bad pairs
        Both scores are below ``2C/3 + 2(C - 1)/C``: the noise must exceed ``2C/15 - 2(C - 1)/C``.
    Odd C
        The argument for good pairs fails: refused.
    """

    count: int  #: number C of points, even and at least 16
    dim: int  #: their dimension
    score_scale: float  #: Laplace scale b
    coupling: float  #: zeta, in (0, 1)
    sigma: float  #: standard deviation of the mean's noise in units of its sensitivity
    unit: Unit = Unit.USER
    lemma: ClassVar[str] = "outlier removal, Lemma B.2 with exact constants"
    name: ClassVar[str] = "outlier removal"

    def __post_init__(self) -> None:
        _validate.integer("count", self.count, at_least=16)
        if self.count % 2:
            raise InvalidParameterError("count", self.count, "must be even", "Use one point more")
        _validate.real("coupling", self.coupling, above=0.0, below=1.0)
        _ = self.event

    @property
    def threshold(self) -> float:
        return 0.8 * self.count

    @property
    def score_sensitivity(self) -> float:
        """``2 (C - 1)/C``, rounded up."""
        return score_sensitivity(self.count)

    @property
    def margin(self) -> float:
        """``2C/15 - 2(C - 1)/C``, rounded down."""
        return 2 * self.count / 15 * (1 - 1e-12) - self.score_sensitivity

    @property
    def flips(self) -> int:
        """k: largest number of unchanged points kept on one side only, except with probability zeta."""
        return flips(self.count, self.coupling)

    @property
    def reach(self) -> float:
        return 6 * (self.flips + 2) / self.count * (1 + 1e-12)

    @cached_property
    def event(self) -> GuardedGaussianNoise:
        moves, one = exact.enlarged(self.score_sensitivity), exact.enlarged(1.0)
        return GuardedGaussianNoise("laplace", moves, self.score_scale, self.margin, self.coupling, one, self.sigma)

    @cached_property
    def score_noise(self) -> LaplaceMechanism:
        moves = Sensitivity(self.score_sensitivity, "absolute", "2(C - 1)/C", unit=self.unit)
        return LaplaceMechanism(moves, self.score_scale, 1)

    def describe(self) -> Mapping[str, Any]:
        score = {"points": self.count, "score": "average", **attributes(self, "coupling", "flips", "threshold")}
        return {**score, "sensitivity_in_radii": self.reach}

    def _examine(self, points: Floats, radius: float, source: BitSource) -> tuple[float, Floats]:
        score = float(counts_within(points, radius).sum()) / self.count
        half = self.count // 2
        kept = np.clip((counts_within(points, 2 * radius) - half) / (self.count / 6), 0.0, 1.0)
        coins = source.generator().random(self.count)  # a stream of its own, independent of the score's noise
        return score, (coins < kept).astype(np.float64)


def score_sensitivity(count: int) -> float:
    """Return the sensitivity of the average count to one replaced point, ``2 (C - 1)/C``, rounded up."""
    return 2 * (count - 1) / count * (1 + 1e-12)


def flips(count: int, coupling: float) -> int:
    """Return the upper `coupling`-quantile of ``Bin(count - 1, 6/count)``: ``P(more) <= coupling``."""
    from scipy.stats import binom

    # 1e-9 covers the library's own error; `isf` may be one off, and more flips are on the safe side.
    return int(binom.isf(coupling * (1 - 1e-9), count - 1, min(1.0, 6 / count * (1 + 1e-15))))
