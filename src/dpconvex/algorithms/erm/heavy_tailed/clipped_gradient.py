r"""Noisy projected gradient descent with clipped per-record gradients: the baseline under heavy tails.

Guarantee
    Pure epsilon-DP (noise ``exp(-|b|_2 / beta)``) or (epsilon, delta)-DP (Gaussian), neighbors replace one record.
Lemma
    A mean of n gradients, each cut to length C, moves by at most ``2C/n`` in l2 when one record is replaced, at every
    point, whatever the point depends on. T releases compose adaptively: pure epsilons add up, ``mu_t`` by the root of
    the sum of squares; steps, projections and averages are post-processing.
Assumptions
    Level, steps and step size are public. Sums of n cut gradients round by less than the slack in the sensitivity.
Bound
    Cut gradients are those of convex losses (docs, Heavy tails), and the average of the T iterates has expected excess

        R^2 / (2 eta T) + eta/2 (min(C, G_2)^2 + E|b|^2) + 2 R G_k^k / ((k-1) C^(k-1))

    on the data, over records with these moments. Level and T minimize it over a public grid, eta exactly.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats
from dpconvex.algorithms import PredictedError, PrivateResult, StatedPlan, recorded, uses
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, check_heavy, extreme
from dpconvex.geometry import L2Norm
from dpconvex.mechanisms import GaussianMechanism, NormNoiseMechanism
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.problems.base import ROUNDING
from dpconvex.problems.linear.truncated import TruncatedRisk, Truncation
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

__all__ = ["ClippedGradientPlan", "plan"]

LABEL = "clipped gradient"
LEMMA = "a mean of n vectors of length at most C changes by at most 2C/n when one is replaced, plus rounding"
MOST_STEPS = 4096


@dataclass(frozen=True)
class ClippedGradientPlan(StatedPlan):
    """Public constants of one run over the ball of the problem's radius."""

    level: float  #: level C, the length to which gradients are cut
    steps: int  #: number T of steps; a run takes all of them
    step_size: float  #: step size eta
    mechanism: NormNoiseMechanism | GaussianMechanism  #: noise of one gradient
    bound: float  #: bound on the expected excess mean loss
    trivial: float  #: largest loss of the zero vector
    noise_name: str
    constants: str = "calibrated"
    l2: float = 0.0
    algorithm: ClassVar[str] = "clipped_gradient"
    only_sums = True  # pyright: ignore[reportAssignmentType]
    mechanisms = uses({LABEL: "mechanism"})
    theorem = "Noisy gradient descent: mean gradients of records cut to length C, composed adaptively."  # pyright: ignore[reportAssignmentType]
    assumptions = (  # pyright: ignore[reportAssignmentType]
        Assumption("every record's gradient has length at most C", "its slope is cut at C over the record's norm"),
        Assumption("the number of steps and their size are public", "the plan fixes them; every step is taken"),
    )

    @property
    def truncation(self) -> Truncation:
        """Truncation of losses at the level over the ball; kinks are not smoothed."""
        return Truncation(self.level, self.problem.radius, 1e-100)

    @property
    def predicted_error(self) -> PredictedError:
        return PredictedError(self.bound, self.trivial, "projected stochastic subgradients, averaged; clipping bias")

    @property
    def releases(self) -> tuple[Release, ...]:
        return (replace(self.mechanism.planned(LABEL), times=self.steps),)

    @property
    def coefficient_deviation(self) -> Floats:
        """Deviation that the noise of all steps would give the average iterate if no gradient pulled it back."""
        d, mechanism = self.problem.dim, self.mechanism
        gaussian = isinstance(mechanism, GaussianMechanism)
        length = mechanism.sigma * math.sqrt(d) if gaussian else mechanism.scale * math.sqrt(d * (d + 1))
        per_step = self.step_size * length / math.sqrt(d)
        return np.full(d, min(per_step * math.sqrt(self.steps / 3), self.problem.radius))

    def describe(self) -> Mapping[str, Any]:
        return {"noise": self.noise_name, "level": self.level, "steps": self.steps, "step_size": self.step_size}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        """Take the planned number of steps from 0; return the average of the points where gradients were taken."""
        ledger = Ledger(self.privacy, self.releases)
        records, targets = self.problem.clipped(X, y)
        risk = TruncatedRisk(self.problem.loss, records, targets, 1.0, self.truncation)  # its ridge is left out below
        w, total, ball = np.zeros(self.problem.dim), np.zeros(self.problem.dim), L2Ball(self.problem.radius)
        for _ in range(self.steps):
            total += w
            noisy = self.mechanism.release(risk.mean_slope(w), LABEL, source, ledger)
            w = ball.project(w - self.step_size * noisy)
        return self.finish(total / self.steps, source)


@recorded("clipped_gradient")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments,
    *, level: float | None = None, steps: int | None = None, step_size: float | None = None,
) -> ClippedGradientPlan:  # fmt: skip
    """Return the plan: Gaussian noise if ``delta > 0``, else noise of the l2 norm.

    The loss has one prediction and is smooth or piecewise linear. `moments` are those of the gradients over the ball;
    they serve the bound and the defaults, not privacy. C (`level`), T (`steps`) and eta (`step_size`) may be given from
    public knowledge; those that are not minimize the bound.
    """
    check_heavy(problem, privacy, moments)
    n, d, R, k = problem.n, problem.dim, problem.radius, moments.k
    _validate.optional(_validate.real, {"level": level, "step_size": step_size}, above=0.0)
    _validate.optional(_validate.integer, {"steps": steps}, at_least=1)
    mu = 0.0 if privacy.pure else largest_mu(privacy.epsilon, privacy.delta)

    def length(T: int) -> float:
        """Return the root mean square length of the noise for C = 1, by which constants are chosen."""
        return 2 * T / (n * privacy.epsilon) * math.sqrt(d * (d + 1)) if privacy.pure else 2 / n * math.sqrt(T * d) / mu

    def bound(C: float, T: int, eta: float | None) -> tuple[float, float]:
        square = min(C, moments.g2) ** 2 + (C * length(T)) ** 2
        chosen = R / math.sqrt(T * square) if eta is None else eta
        cut = moments.excess(C) if problem.lipschitz > C else 0.0
        return R**2 / (2 * chosen * T) + chosen / 2 * square + 2 * R * cut, chosen

    reach = moments.bound * (n * privacy.epsilon / d + 1) ** (1 / k)
    levels = [level] if level else [reach * 2.0 ** (-j / 2) for j in range(-2, 24)]
    counts = [steps] if steps else [2**i for i in range(MOST_STEPS.bit_length())]
    try:
        found = ((*bound(C, T, step_size), C, T) for C in levels for T in counts)
        value, eta, C, T = min(found, key=lambda one: one[0])
        sensitivity = Sensitivity((2 * C / n + 2 * ROUNDING * C) * (1 + 1e-12), "l2", LEMMA)
        if privacy.pure:
            mechanism = NormNoiseMechanism(L2Norm(d), sensitivity, privacy.epsilon / T * (1 - 1e-12))
        else:
            mechanism = GaussianMechanism.of_mu(sensitivity, mu / math.sqrt(T) * (1 - 1e-12), d)
    except (ArithmeticError, ValueError):  # constants that no float holds
        raise extreme(problem.name, moments) from None
    trivial = min(problem.loss.value_at_zero, moments.g1 * R)
    noise = "l2" if privacy.pure else "gaussian"
    return ClippedGradientPlan(problem, privacy, C, T, eta, mechanism, value, trivial, noise)
