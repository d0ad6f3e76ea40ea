r"""Private multiplicative weights for matrix games: one player learns, the other answers with private best responses.

Guarantee
    (epsilon, delta) for neighbors that replace one record.
Lemma
    Both points are functions of earlier releases. The responder's scores ``c * mean gradient`` move by a vector of
    range ``c spread/n``: ``eta^2/8``-zCDP (Cesar and Rogers 2021). The learner's centered mean gradient moves by at
    most ``sqrt(d) spread/(2 n)`` in l2: ``mu^2/2``-zCDP.
Bound
    For bilinear games ``E gap <= log(d)/(tau T) + tau/2 (L^2 + 2 sigma^2 log(2 e d)) + log(d')/c`` on the data: the
    learner's regret and the responder's expected loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex.algorithms import PredictedError, check_relation, recorded, require_delta, within_floats
from dpconvex.algorithms.minimax.base import SIGNS, SaddlePlan, SaddleResult
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import GaussianMechanism, Planned, VertexSampling
from dpconvex.mechanisms.vertex_sampling import ENLARGEMENT
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

DRAWN, MOVED = "best responses", "gradients at the best responses"
DRAW_LEMMA = "a mean of n gradients, clipped record by record, moves by a vector of range at most spread/n"
MOVE_LEMMA = "a mean of n gradients, clipped record by record and centred, moves by at most sqrt(d) spread/(2n) in l2"
MOST_ROUNDS = 300


@final
@dataclass(frozen=True, eq=False)
class MultiplicativeWeightsPlan(SaddlePlan):
    """Constants of one run."""

    learner: int  #: 0 if x learns, 1 if y does
    rounds: int  #: T
    step: float  #: tau of the learner
    rho: float  #: zCDP budget; half of it for each player
    bound: float  #: on the expected gap
    algorithm = "multiplicative_weights"
    constants = "calibrated"
    noise_name = "gaussian"
    error_share = 0.25
    theorem = "Exponential and Gaussian mechanisms in adaptive zCDP composition."

    @property
    def score_scale(self) -> float:
        """Score c of a unit of gradient."""
        return _scale(self.problem, 1 - self.learner, self.rounds, self.rho)

    @cached_property
    def sampling(self) -> VertexSampling:
        spread = self.problem.spread[1 - self.learner] * (1 + self.problem.sum_rounding)
        eta = _rounding.product_up(self.score_scale, spread, 1 / self.problem.n, 1 + 1e-12)
        squares = _rounding.product_up(eta, eta, float(self.rounds))
        return VertexSampling(Sensitivity(eta, "range", DRAW_LEMMA), self.rounds, squares, self.rounds)

    @cached_property
    def mechanism(self) -> GaussianMechanism:
        sensitivity = Sensitivity(_largest_move(self.problem, self.learner), "l2", MOVE_LEMMA)
        return GaussianMechanism.of_mu(sensitivity, math.sqrt(self.rho / self.rounds) * (1 - 1e-9), self._dims[0])

    @property
    def _dims(self) -> tuple[int, int]:
        dims = (self.problem.dx, self.problem.dy)
        return dims[self.learner], dims[1 - self.learner]

    @property
    def predicted_error(self) -> PredictedError:
        what = "regret of the learner and loss of the responder"
        return PredictedError(self.bound, self.problem.trivial_gap, what)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {DRAWN: self.sampling, MOVED: self.mechanism}

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.sampling.planned(DRAWN), replace(self.mechanism.planned(MOVED), times=self.rounds))

    def describe(self) -> Mapping[str, Any]:
        facts = {"learner": "xy"[self.learner], "rounds": self.rounds, "step": self.step}
        return {**facts, "score_scale": self.score_scale, "sigma": self.mechanism.sigma}

    def _run(self, records: Any, source: BitSource) -> SaddleResult:
        problem, ledger, me = self.problem, Ledger(self.privacy, self.releases), self.learner
        session, everyone = self.sampling.start(DRAWN, source, ledger), slice(0, problem.n)
        logs = np.zeros(self._dims[0])
        totals = [np.zeros(problem.dx), np.zeros(problem.dy)]
        for _ in range(self.rounds):
            weights = np.exp(logs - logs.max())
            point = SimplexPoint.full(weights / weights.sum())
            pair = [point, point]
            pair[1 - me] = SimplexPoint.uniform(self._dims[1])  # the game is bilinear: its own point does not matter
            gradient = problem.gradient_sums(records, everyone, pair[0], pair[1])[1 - me]
            drawn = session.draw(SIGNS[1 - me] * self.score_scale / problem.n * gradient)
            pair[1 - me] = SimplexPoint.average(drawn, self._dims[1])
            totals[me] += point.weights
            totals[1 - me][drawn] += 1.0
            answer = problem.gradient_sums(records, everyone, pair[0], pair[1])[me] / problem.n
            noisy = self.mechanism.release(answer - answer.mean(), MOVED, source, ledger)
            logs = logs + SIGNS[me] * self.step * noisy
        return self.finish(totals[0] / self.rounds, totals[1] / self.rounds, source)


def _scale(problem: SimplexSaddle, block: int, rounds: int, rho: float) -> float:
    """Score of a unit of gradient for which the draws of all rounds cost half of rho."""
    eta = math.sqrt(8 * rho / 2 / rounds) * (1 - 1e-9) / ENLARGEMENT
    return eta * problem.n / (problem.spread[block] * (1 + 2 * problem.sum_rounding))


def _largest_move(problem: SimplexSaddle, block: int) -> float:
    """How far one record moves the centered mean gradient of a block, in l2, rounding included."""
    d = (problem.dx, problem.dy)[block]
    return _rounding.widen_up(math.sqrt(d) * problem.spread[block] / (2 * problem.n) * (1 + problem.sum_rounding))


@recorded("multiplicative_weights")
def plan_multiplicative_weights(
    problem: SimplexSaddle, privacy: PrivacyParams, *, rounds: int | None = None, learner: str | None = None
) -> MultiplicativeWeightsPlan:
    """Plan private multiplicative weights for a matrix game with both gradients dependent on the records.

    `rounds` is T; default: what minimizes the bound. The `learner` is "x" or "y"; default: who has fewer vertices.
    """
    check_relation(privacy)
    require_delta(privacy)
    if not problem.bilinear or problem.dy == 1 or not all(problem.spread):
        raise InvalidParameterError("problem", problem.name, "must be a matrix game of private records", "Use 'sgda'")
    if rounds is not None:
        _validate.integer("rounds", rounds, at_least=1)
    if learner is not None:
        _validate.choice("learner", learner, ("x", "y"))
    me = int(problem.dx > problem.dy) if learner is None else "xy".index(learner)
    dims = (problem.dx, problem.dy)
    ell, L = math.log(dims[me]), problem.lipschitz[me]
    rho = largest_rho(privacy.epsilon, privacy.delta) * (1 - 1e-9)

    def tuned(T: int) -> tuple[float, float]:
        sigma = _largest_move(problem, me) / math.sqrt(rho / T)
        square = L**2 + 2 * sigma**2 * math.log(2 * math.e * dims[me])
        step = math.sqrt(2 * ell / (T * square))
        return ell / (step * T) + step / 2 * square + math.log(dims[1 - me]) / _scale(problem, 1 - me, T, rho), step

    with within_floats(problem.name):
        grid = sorted({min(MOST_ROUNDS, round(2 ** (i / 4))) for i in range(4 * MOST_ROUNDS.bit_length() + 1)})
        T = rounds or min(grid, key=lambda count: tuned(count)[0])
        bound, step = tuned(T)
        return MultiplicativeWeightsPlan(problem, privacy, me, T, step, rho, bound)
