r"""Gradients with Gaussian noise: entropic mirror descent, DP-SGDA (Euclidean steps), private multiplicative weights.

Guarantee
    (epsilon, delta) for neighbors that replace one record; exact Gaussian accounting, zCDP for multiplicative weights.
Lemma, descent
    Gradients are centered (their mean over coordinates is subtracted, which changes nothing on a simplex). The
    difference of two records' gradients in block b has range at most ``spread_b``, so after centering its l2 norm is at
    most ``sqrt(d_b) spread_b/2`` (Popoviciu), and a mean of m records moves by at most ``sqrt(d_x spread_x^2 + d_y
    spread_y^2)/(2 m)``. T full gradients compose to ``mu``, each with ``mu/sqrt(T)``; gradients of disjoint batches
    spend ``mu`` each, on different records. All pairs are functions of released gradients.
Bound, descent
    ``sum_b [A_b/(tau_b T) + tau_b/2 (L_b^2 + v_b)]`` on the expected gap on the data (full gradients), with
    ``A = log d``, ``v = E max_j b_j^2 <= 2 sigma^2 log(2 e d)`` (entropic) or ``A = 1/2``, L, v in the l2 norm
    (Euclidean). One pass: for the distribution of the records, with twice these (the pair depends on the gradients'
    noise). Smooth minimization: docs, Saddle points: the other methods.
Lemma, multiplicative weights: one player of a matrix game learns, the other answers with private best responses
    Both points are functions of earlier releases. The responder's scores ``c * mean gradient`` move by a vector of
    range ``c spread/n``: ``eta^2/8``-zCDP (Cesar and Rogers 2021). The learner's centered mean gradient moves by at
    most ``sqrt(d) spread/(2 n)`` in l2: ``mu^2/2``-zCDP.
Bound, multiplicative weights
    For bilinear games ``E gap <= log(d)/(tau T) + tau/2 (L^2 + 2 sigma^2 log(2 e d)) + log(d')/c`` on the data: the
    learner's regret and the responder's expected loss.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, attributes, final_dataclass
from dpconvex.algorithms import PredictedError, check_relation, recorded, require_delta, uses, within_floats
from dpconvex.algorithms.minimax.base import SIGNS, SaddlePlan, SaddleResult, require_records
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import GaussianMechanism, VertexSampling
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_mu, largest_rho
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource
from dpconvex.sets import Simplex

LABEL = "mean gradients"
LEMMA = (
    "a mean of m gradients, clipped record by record and centered, moves by at most "
    "sqrt(dx spread_x^2 + dy spread_y^2)/(2m) in l2 (a vector of range s has deviation at most s/2)"
)
DRAWN, MOVED = "best responses", "gradients at the best responses"
DRAW_LEMMA = "a mean of n gradients, clipped record by record, moves by a vector of range at most spread/n"
MOVE_LEMMA = "a mean of n gradients, clipped record by record and centered, moves by at most sqrt(d) spread/(2n) in l2"
MOST_STEPS, MOST_BATCHES, MOST_ROUNDS = 300, 400, 300
# One player takes more steps with full gradients, as long as all of them read at most so many numbers.
MOST_OF_ONE, MOST_READ = 1000, 3e9
# Measured on simulated games and regressions (docs, Saddle points).
SLOPE_SHARE = 0.25  # share of the worst slope, rarely met, for which steps are chosen unless the game is bilinear
ERROR_SHARES = {"smooth": 0.08, "entropic": 0.3, "euclidean": 0.15}  # measured gap as a share of the bound


@final_dataclass(eq=False)
class GaussianDescentPlan(SaddlePlan):
    """Public constants of one run of noisy descent."""

    geometry: str  #: geometry of the steps: "entropic" or "euclidean"
    iterations: int  #: number T of steps
    steps: tuple[float, float]  #: step sizes of x and y
    mu: float  #: Gaussian budget of all steps that read one record
    bound: float  #: bound on the expected gap
    smooth: bool = False  #: whether steps and bound are for smooth minimization
    constants = "calibrated"
    noise_name = "gaussian"
    theorem = "Gaussian mechanisms on centered mean gradients, composed adaptively or in parallel over batches."
    mechanisms = uses({LABEL: "mechanism"})

    @property
    def algorithm(self) -> str:
        return "gaussian_mirror_descent" if self.geometry == "entropic" else "sgda"

    @property
    def one_pass(self) -> bool:
        """Whether each step reads its own batch, or all records."""
        return self.geometry == "euclidean"

    @property
    def only_sums(self) -> bool:
        return not self.one_pass

    @property
    def batch(self) -> int:
        """Number of records that one step reads."""
        return self.problem.n // self.iterations if self.one_pass else self.problem.n

    @cached_property
    def mechanism(self) -> GaussianMechanism:
        problem = self.problem
        sensitivity = Sensitivity(_largest_move(problem) / self.batch * (1 + 1e-12), "l2", LEMMA)
        each = self.mu if self.one_pass else self.mu / math.sqrt(self.iterations)
        dim = problem.dx + (problem.dy if problem.dy > 1 else 0)
        return GaussianMechanism.of_mu(sensitivity, each * (1 - 1e-9), dim)

    @property
    def predicted_error(self) -> PredictedError:
        return PredictedError(self.bound, self.problem.trivial_gap, "regret of noisy mirror descent")

    @property
    def expectation(self) -> float:
        return self.bound * ERROR_SHARES["smooth" if self.smooth else self.geometry]

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        if not self.one_pass:
            return (replace(self.mechanism.planned(LABEL), times=self.iterations),)
        return tuple(self.mechanism.planned(LABEL, f"batch {t}") for t in range(1, self.iterations + 1))

    def describe(self) -> Mapping[str, Any]:
        facts = attributes(self, "geometry", "one_pass", "iterations", "smooth")
        return {**facts, "batch": self.batch, "steps": list(self.steps), "sigma": self.mechanism.sigma}

    def _run(self, records: Any, source: BitSource) -> SaddleResult:
        problem, ledger, B = self.problem, Ledger(self.privacy, self.releases), self.batch
        points = [np.full(problem.dx, 1 / problem.dx), np.full(problem.dy, 1 / problem.dy)]
        totals = [np.zeros(problem.dx), np.zeros(problem.dy)]
        for t in range(self.iterations):
            if not self.smooth:
                totals = [total + point for total, point in zip(totals, points, strict=True)]
            rows = slice(t * B, (t + 1) * B) if self.one_pass else slice(0, problem.n)
            sums = problem.gradient_sums(records, rows, SimplexPoint.full(points[0]), SimplexPoint.full(points[1]))
            # Centering halves how far a record moves gradients, and does not change steps on a simplex.
            centered = np.concatenate([(g - g.mean()) / B for g in sums])[: self.mechanism.dim]
            noisy = self.mechanism.release(centered, LABEL, source, ledger, self.releases[t * self.one_pass].block)
            moves = (-self.steps[0] * noisy[: problem.dx], self.steps[1] * noisy[problem.dx :])  # y ascends
            points = [self._moved(p, m) if len(m) > 1 else p for p, m in zip(points, moves, strict=True)]
            if self.smooth:
                totals = [total + point for total, point in zip(totals, points, strict=True)]
        return self.finish(totals[0] / self.iterations, totals[1] / self.iterations, source)

    def _moved(self, point: Floats, move: Floats) -> Floats:
        if self.geometry == "euclidean":
            return Simplex(len(point)).project(point + move)
        logs = np.log(np.maximum(point, 1e-300)) + move
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()


def _largest_move(problem: SimplexSaddle) -> float:
    """Return how far one record moves the *sum* of centered gradients, in l2, rounding included."""
    squares = problem.dx * problem.spread[0] ** 2 + (problem.dy * problem.spread[1] ** 2 if problem.dy > 1 else 0.0)
    return _rounding.widen_up(math.sqrt(squares) / 2 * (1 + problem.sum_rounding))


def _regret(problem: SimplexSaddle, entropic: bool, sigma: float, T: int) -> tuple[float, tuple[float, float], bool]:
    """Return bound and steps for noise of deviation sigma, and whether they are for smooth minimization."""
    bound, steps = 0.0, []
    met = 1.0 if problem.bilinear else SLOPE_SHARE
    for d, L in zip((problem.dx, problem.dy), problem.lipschitz, strict=True):
        if d == 1:
            steps.append(0.0)
            continue
        distance = math.log(d) if entropic else 0.5  # KL and half the squared distance to the center
        noise, slope = (2 * sigma**2 * math.log(2 * math.e * d), L**2) if entropic else (d * sigma**2, d * L**2)
        factor = 1.0 if entropic else 2.5  # one pass: the pair depends on the gradients' noise
        distance = distance if entropic else 2 * distance
        step = math.sqrt(2 * distance / (T * factor * (met**2 * slope + noise)))
        bound += distance / (step * T) + step / 2 * factor * (slope + noise)
        steps.append(step)
    if problem.dy == 1 and entropic and 0 < problem.smoothness < math.inf:
        distance, noise = math.log(problem.dx), 2 * sigma**2 * math.log(2 * math.e * problem.dx)
        step = min(1 / (2 * problem.smoothness), math.sqrt(distance / (T * noise)))
        smooth = distance / (step * T) + step * noise
        if smooth < bound:
            return smooth, (step, 0.0), True
    return bound, (steps[0], steps[1]), False


def _plan(problem: SimplexSaddle, privacy: PrivacyParams, geometry: str, most: int) -> GaussianDescentPlan:
    """Plan the number of steps of the smallest bound: full gradients if entropic, else one pass."""
    check_relation(privacy)
    require_delta(privacy)
    require_records(problem)
    entropic, mu = geometry == "entropic", largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12)  # it is rounded up
    most = _validate.integer("most", most, at_least=1, at_most=MOST_OF_ONE)

    def regret(T: int) -> tuple[float, tuple[float, float], bool]:
        records = problem.n if entropic else problem.n // T
        sigma = _largest_move(problem) / records * (math.sqrt(T) if entropic else 1.0) / mu
        return _regret(problem, entropic, sigma, T)

    with within_floats(problem.name):
        T = min(_counts(most), key=lambda count: regret(count)[0])
        bound, steps, smooth = regret(T)
        return GaussianDescentPlan(problem, privacy, geometry, T, steps, mu, bound, smooth)


def _counts(most: int) -> list[int]:
    """Return the numbers of steps to try, with factors of about 2^(1/4)."""
    return sorted({min(most, round(2 ** (i / 4))) for i in range(4 * most.bit_length() + 1)})


@recorded("gaussian_mirror_descent")
def plan_mirror_descent(problem: SimplexSaddle, privacy: PrivacyParams, most: int = MOST_STEPS) -> GaussianDescentPlan:
    """Plan entropic mirror descent with Gaussian noise on full gradients, of at most `most` steps; for few vertices."""
    return _plan(problem, privacy, "entropic", most)


def plan_longest(problem: SimplexSaddle, privacy: PrivacyParams) -> GaussianDescentPlan:
    """Plan entropic mirror descent of as many steps as are taken in a reasonable time."""
    affordable = MOST_READ / (problem.n * problem.dx) if problem.dy == 1 else MOST_STEPS
    return plan_mirror_descent(problem, privacy, int(np.clip(affordable, MOST_STEPS, MOST_OF_ONE)))


@recorded("sgda")
def plan_sgda(problem: SimplexSaddle, privacy: PrivacyParams) -> GaussianDescentPlan:
    """Plan DP-SGDA: Euclidean steps with projection, in one pass over disjoint batches."""
    return _plan(problem, privacy, "euclidean", min(MOST_BATCHES, problem.n))


@final_dataclass(eq=False)
class MultiplicativeWeightsPlan(SaddlePlan):
    """Public constants of one run of private multiplicative weights."""

    learner: int  #: 0 if x learns, 1 if y does
    rounds: int  #: number T of rounds
    step: float  #: step size tau of the learner
    rho: float  #: zCDP budget; half of it for each player
    bound: float  #: bound on the expected gap
    algorithm = "multiplicative_weights"
    constants = "calibrated"
    noise_name = "gaussian"
    error_share = 0.25
    theorem = "Exponential and Gaussian mechanisms in adaptive zCDP composition."
    mechanisms = uses({DRAWN: "sampling", MOVED: "mechanism"})

    @property
    def score_scale(self) -> float:
        """The factor c from the mean gradient to scores."""
        return _scale(self.problem, 1 - self.learner, self.rounds, self.rho)

    @cached_property
    def sampling(self) -> VertexSampling:
        spread = self.problem.spread[1 - self.learner] * (1 + self.problem.sum_rounding)
        eta = _rounding.product_up(self.score_scale, spread, 1 / self.problem.n, 1 + 1e-12)
        squares = _rounding.product_up(eta, eta, float(self.rounds))
        return VertexSampling(Sensitivity(eta, "range", DRAW_LEMMA), self.rounds, squares, self.rounds)

    @cached_property
    def mechanism(self) -> GaussianMechanism:
        sensitivity = Sensitivity(_largest_mean_move(self.problem, self.learner), "l2", MOVE_LEMMA)
        return GaussianMechanism.of_mu(sensitivity, math.sqrt(self.rho / self.rounds) * (1 - 1e-9), self._dims[0])

    @property
    def _dims(self) -> tuple[int, int]:
        dims = (self.problem.dx, self.problem.dy)
        return dims[self.learner], dims[1 - self.learner]

    @property
    def predicted_error(self) -> PredictedError:
        return PredictedError(self.bound, self.problem.trivial_gap, "regret of the learner and loss of the responder")

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
    """Return the factor from mean gradients to scores with which the draws of all rounds cost half of rho."""
    eta = math.sqrt(8 * rho / 2 / rounds) * (1 - 1e-9) / ENLARGEMENT
    return eta * problem.n / (problem.spread[block] * (1 + 2 * problem.sum_rounding))


def _largest_mean_move(problem: SimplexSaddle, block: int) -> float:
    """Return how far one record moves the centered mean gradient of a block, in l2, rounding included."""
    d = (problem.dx, problem.dy)[block]
    return _rounding.widen_up(math.sqrt(d) * problem.spread[block] / (2 * problem.n) * (1 + problem.sum_rounding))


@recorded("multiplicative_weights")
def plan_multiplicative_weights(problem: SimplexSaddle, privacy: PrivacyParams) -> MultiplicativeWeightsPlan:
    """Plan private multiplicative weights for a matrix game with both gradients dependent on the records.

    The number of rounds minimizes the bound. The player with fewer vertices learns.
    """
    check_relation(privacy)
    require_delta(privacy)
    if not problem.bilinear or problem.dy == 1 or not all(problem.spread):
        raise InvalidParameterError("problem", problem.name, "must be a matrix game of private records", "Use 'sgda'")
    me = int(problem.dx > problem.dy)
    dims = (problem.dx, problem.dy)
    ell, L = math.log(dims[me]), problem.lipschitz[me]
    rho = largest_rho(privacy.epsilon, privacy.delta) * (1 - 1e-9)

    def tuned(T: int) -> tuple[float, float]:
        sigma = _largest_mean_move(problem, me) / math.sqrt(rho / T)
        square = L**2 + 2 * sigma**2 * math.log(2 * math.e * dims[me])
        step = math.sqrt(2 * ell / (T * square))
        return ell / (step * T) + step / 2 * square + math.log(dims[1 - me]) / _scale(problem, 1 - me, T, rho), step

    with within_floats(problem.name):
        T = min(_counts(MOST_ROUNDS), key=lambda count: tuned(count)[0])
        bound, step = tuned(T)
        return MultiplicativeWeightsPlan(problem, privacy, me, T, step, rho, bound)
