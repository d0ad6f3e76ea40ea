r"""Private Frank-Wolfe with full gradients (Talwar, Thakurta and Zhang 2015), exponential mechanism, zCDP.

Listing
    From the centre: for t = 0 .. T-1 draw a vertex with probability proportional to ``exp(-c (mean gradient at x)_j)``;
    ``x <- (1 - 2/(t+2)) x + 2/(t+2) e_j``. The last x is returned.
Guarantee
    (epsilon, delta), or pure epsilon, for neighbours that replace one record.
Lemma
    x is a function of the vertices drawn so far, so at the same x a mean of n clipped gradients moves by a vector of
    range at most ``spread/n``: every draw has range ``c spread/n``; T of them are charged together (`VertexDraws`).
Bound
    With f L1-smooth in the l1 norm (curvature at most ``4 L1`` on the simplex) and an expected linear error of
    ``log(d)/c`` a step, ``E excess <= 8 L1/(T + 2) + log(d)/c`` on the data, ``c = (n/spread) sqrt(8 rho/T)``: T
    balances the two, for the optimal rate ``(log d/(n epsilon))^(2/3)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex.algorithms.base import check_relation, within_floats
from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms.vertex_sampling import ENLARGEMENT, VertexSampling
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems.minimax.base import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

LABEL = "vertices towards which steps are taken"
LEMMA = (
    "a mean of n gradients, clipped record by record, at a released point moves by a vector of range at most spread/n"
)
MOST_STEPS = 2000
CURVATURE_SHARE = 8
"""By how much the curvature that is met falls short of the worst over the domain, for the default number of steps.

Data rarely attain the worst curvature (R^2 times a squared feature), and the best number of steps grows with the power
2/3 of it. Measured: simulated regression (docs, Saddle points), and text with 58,052 words.
"""
FEWEST_STEPS = 10


@final
@dataclass(frozen=True, eq=False)
class FrankWolfePlan(SaddlePlan):
    """Constants of one run.

    Parameters
    ----------
    problem : SimplexSaddle
        With ``dy = 1``.
    privacy : PrivacyParams
    steps : int
        T.
    score_scale : float
        c.
    bound : float
        On the expected excess.
    """

    problem: SimplexSaddle
    privacy: PrivacyParams
    steps: int
    score_scale: float
    bound: float
    constants: str = "calibrated"
    noise_name: str = "vertex sampling"
    algorithm: ClassVar[str] = "frank_wolfe"

    @cached_property
    def sampling(self) -> VertexSampling:
        """All draws."""
        eta = _rounding.product_up(self.score_scale, rounded_spread(self.problem), 1 / self.problem.n)
        squares = _rounding.product_up(eta, eta, float(self.steps))
        ranges = _rounding.product_up(eta, float(self.steps)) if self.privacy.pure else None
        return VertexSampling(Sensitivity(eta, "range", LEMMA), self.steps, squares, self.steps, ranges)

    @property
    def predicted_error(self) -> PredictedError:
        """Bound on the expected excess on the data."""
        return PredictedError(self.bound, self.problem.trivial_excess, "Frank-Wolfe with private linear minimisation")

    @property
    def releases(self) -> tuple[Release, ...]:
        """All draws, in one entry."""
        return (self.sampling.planned(LABEL),)

    @property
    def expected_error(self) -> float:
        """An eighth of the error with typical curvature, as measured."""
        return 0.12 * _typical(self.problem, self.steps, self.score_scale)

    @property
    def theorem(self) -> str:
        """Composition of exponential mechanisms."""
        return (
            "Private Frank-Wolfe (Talwar, Thakurta and Zhang 2015): exponential mechanisms of bounded range, composed."
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the lemma needs."""
        return (Assumption("each record's gradient has the stated spread", "clipped record by record before any sum"),)

    def describe(self) -> Mapping[str, Any]:
        """Steps and scale."""
        return {"steps": self.steps, "score_scale": self.score_scale}

    def exact_bits(self, source: BitSource) -> bool:
        """As the sampler."""
        return self.sampling.exact_bits(source)

    def _listing(self, records: Any, source: BitSource) -> SaddleResult:
        session = self.sampling.start(LABEL, source, Ledger(self.privacy, self.releases))
        n, one = self.problem.n, SimplexPoint.uniform(1)
        x = SimplexPoint.uniform(self.problem.dx)
        for t in range(self.steps):
            gradient, _ = self.problem.gradient_sums(records, slice(0, n), x, one)
            vertex = int(session.draw(-self.score_scale / n * gradient)[0])
            x = x.plus_vertex(vertex, 2 / (t + 2))
        return self.finish(x.dense(), np.ones(1), source)


def _typical(problem: SimplexSaddle, steps: int, scale: float) -> float:
    """The bound with a share of the worst curvature."""
    return 8 * problem.smoothness / CURVATURE_SHARE / (steps + 2) + math.log(problem.dx) / scale


def rounded_spread(problem: SimplexSaddle) -> float:
    """Return the spread of gradients in x, with the rounding of their sums."""
    return _rounding.product_up(problem.spread[0], 1 + problem.sum_rounding)


def require_single(problem: SimplexSaddle, smooth: bool = True) -> None:
    """Raise `InvalidParameterError` unless the problem is one of minimisation over one simplex, and smooth."""
    if problem.dy != 1:
        raise InvalidParameterError("problem.dy", problem.dy, "must be 1 for this algorithm", "Use a saddle algorithm")
    if not problem.spread[0] > 0:
        raise InvalidParameterError("problem", problem.name, "must depend on its records", "Solve it without privacy")
    if smooth and not math.isfinite(problem.smoothness):
        raise InvalidParameterError("problem", problem.name, "must be smooth for Frank-Wolfe", "Use mirror descent")


@recorded("frank_wolfe")
def plan(problem: SimplexSaddle, privacy: PrivacyParams, *, steps: int | None = None) -> FrankWolfePlan:
    """Plan private Frank-Wolfe.

    Parameters
    ----------
    problem : SimplexSaddle
        Smooth, with ``dy = 1``.
    privacy : PrivacyParams
        Pure or approximate.
    steps : int, optional
        T; default: what would minimise the bound if the curvature were an eighth of its bound, 10 to 2000.

    Raises
    ------
    InvalidParameterError
        If the problem has a second player or is not smooth.
    """
    check_relation(privacy)
    require_single(problem)
    if steps is not None:
        _validate.integer("steps", steps, at_least=1)
    spread, ell, smoothness = rounded_spread(problem), math.log(problem.dx), problem.smoothness
    root = 0.0 if privacy.pure else math.sqrt(8 * largest_rho(privacy.epsilon, privacy.delta))

    def scale(T: int) -> float:
        each = privacy.epsilon / T if privacy.pure else root / math.sqrt(T)
        return problem.n / spread * each / ENLARGEMENT**2 * (1 - 1e-6)

    def bound(T: int) -> float:
        return 8 * smoothness / (T + 2) + ell / scale(T)

    with within_floats(problem.name):
        counts = sorted(
            {round(2 ** (i / 8)) for i in range(8 * MOST_STEPS.bit_length())} & set(range(1, MOST_STEPS + 1))
        )
        T = steps or max(FEWEST_STEPS, min(counts, key=lambda T: _typical(problem, T, scale(T))))
        return FrankWolfePlan(problem, privacy, T, scale(T), bound(T))
