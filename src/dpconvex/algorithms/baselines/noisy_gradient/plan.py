r"""Plan of noisy projected gradient descent with gradients clipped per unit: a record, or everything of one user.

Guarantee
    (epsilon, delta)-DP, neighbours replace one record, or one user with all records (the unit of the promise).
Lemma
    The mean over K units of vectors of length at most C moves by at most ``2C/K`` in l2 when one unit is replaced, at
    every point, whatever the point depends on. A unit is in one batch, which is read ``steps / batches`` times;
    Gaussian noise composes adaptively (mu by the root of the sum of squares), batches are disjoint, steps and averages
    are post-processing.
Sensitivity
    ``2C/K`` in l2 and the rounding of sums, K the least number of units in a batch.
Assumptions
    The number of units is public; C, steps and step size are functions of public numbers. Records are put into batches
    by position, users by a uniform permutation (coins of their own): its law does not change when a user's label does.
Bound
    Smooth losses take accelerated steps, with the bound of `acsa` for ``V^2 = d sigma^2``, for batches ``+ L^2/K``.
    Plain steps (losses with kinks, or on request), ``eta <= 1/(2 beta)``: the average of the last half of the points
    has expected excess at most ``R^2/(eta T) + 2 eta V^2`` (kinks: ``+ eta (L^2 + V^2)``), R the comparator's norm.
    Bounds are on the data for one batch, else on the population.
    Levels C < L: for every data set plus ``2 R (L - C)``.
Users of smooth losses
    For users with M records each, alike and with symmetric gradient errors of length ``t = L/sqrt(M)``, clipping scales
    a gradient g by about ``min(1, C/(|g| + t))`` at most, and ``|g|^2 <= 2 beta`` times the excess e. So with B the
    bound above, ``e min(1, C / (sqrt(2 beta e) + t)) <= B``, which is solved for e: an estimate, in which a short C
    cancels, for B is proportional to it. Short levels (``t/6``) are taken, which real users, who are not alike, ask
    for, and step sizes that let noise cost, ``beta |noise|^2 / (2 d)``, no more than 0.02 of the zero vector's largest
    loss: where noise is large, the run does not leave the neighbourhood of 0. Where it is small, half as much: what
    longer ways gain shrinks with the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.acsa import Descent, Stage, balanced_stage
from dpconvex.algorithms.base import (
    LinearModelPlan,
    PredictedError,
    PrivateResult,
    check_relation,
    check_unit,
    require_average,
)
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import Assumption, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems.linear_model import LinearModelProblem
from dpconvex.problems.objective import ROUNDING
from dpconvex.problems.users import UserGroups
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

LABEL = "mean clipped gradient"
LEMMA = "a mean of K vectors of length at most C changes by at most 2C/K when one is replaced, plus rounding"
MOST_STEPS = 256
"""Passes over the data that a plan chooses by itself, at most."""
MOST_BATCHES = 1024
TAIL = 0.5
"""Share of the iterates, from the last backwards, that are averaged."""
ENOUGH = 1.05
"""Fewer steps are taken where the bound grows by no more than this factor."""
SHORT = 1 / 6
"""Clipping level of users in units of ``L/sqrt(M)``."""
DRIFT = 0.15
"""Deviation of accelerated steps' last point, in units of ``sigma T^1.5 / Gamma``, without curvature."""
WALK = 0.02
"""Share of the zero vector's largest loss that the noise of all steps together may cost, for users alike.

Chosen, like `SHORT` and `LOUD`, on simulated users, unlike and of unequal sizes.
"""
LOUD = 0.05
"""Length of the noise of one gradient with the whole budget, in units of C, from which `WALK` is spent in full."""


@dataclass(frozen=True)
class NoisyGradientPlan(LinearModelPlan):
    """Constants of one run of noisy gradient descent.

    Parameters
    ----------
    problem : LinearModelProblem
        What is minimised, over the ball of its radius.
    privacy : PrivacyParams
        The promise; its unit is what is clipped.
    clip : float
        Length C to which a unit's gradient is cut.
    batches : int
        Disjoint batches of units, taken in turn; 1: all units in every step.
    steps : int
        T, a multiple of `batches`.
    step_size : float
        eta of plain steps.
    gamma : float or None
        Gamma of accelerated steps (`acsa`); None: plain steps.
    mechanism : GaussianMechanism
        Noise of one gradient.
    bound, trivial : float
        Expected excess mean loss, and what the zero vector loses at most.
    rests_on : str
        What the bound is proved for.
    l2 : float
        Ridge weight; its gradient needs no noise.
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    clip: float
    batches: int
    steps: int
    step_size: float
    gamma: float | None
    mechanism: GaussianMechanism
    bound: float
    trivial: float
    rests_on: str
    l2: float = 0.0
    noise_name: str = "gaussian"
    constants: str = "calibrated"
    algorithm: ClassVar[str] = "noisy_gradient"

    @property
    def ball(self) -> L2Ball:
        """Where all parameters lie."""
        return L2Ball(self.problem.radius)

    @property
    def cuts(self) -> bool:
        """Whether a gradient can be longer than the level at all."""
        return self.clip < self.problem.lipschitz

    @property
    def descent(self) -> Descent | None:
        """Accelerated steps; None for plain ones."""
        return None if self.gamma is None else Descent((Stage(self.steps, self.gamma),), 0.0, self.bound)

    @property
    def averaged(self) -> int:
        """How many of the last iterates are averaged."""
        return math.ceil(TAIL * self.steps)

    @property
    def solver_radius(self) -> float:
        """0: nothing is solved."""
        return 0.0

    @property
    def predicted_error(self) -> PredictedError:
        """Expected excess mean loss of the planned constants."""
        return PredictedError(self.bound, self.trivial, f"noisy projected gradient descent; {self.rests_on}")

    @cached_property
    def releases(self) -> tuple[Release, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """All gradients, batch by batch."""
        times = self.steps // self.batches
        return tuple(replace(self.mechanism.planned(LABEL, block), times=times) for block in self.blocks)

    @property
    def blocks(self) -> tuple[str | None, ...]:
        """Names of the disjoint batches; None for all units."""
        return (None,) if self.batches == 1 else tuple(f"batch {j + 1}" for j in range(self.batches))

    @property
    def theorem(self) -> str:
        """Composition of noisy mean gradients."""
        unit = self.privacy.unit
        return f"Noisy gradient descent: mean gradients, each {unit}'s cut to length C, composed adaptively."

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the lemma needs."""
        how = "its vector is scaled down to C" if self.cuts else "C is the Lipschitz constant over the domain"
        return (
            Assumption(f"every {self.privacy.unit}'s gradient has length at most C", how),
            Assumption("the number of steps and their size are public", "the plan fixes them; every step is taken"),
            Assumption("batches do not depend on the data", "by position, or by coins apart from data and noise"),
        )

    @property
    def coefficient_deviation(self) -> FloatArray:
        """Of the released point, if nothing pulled back."""
        if self.gamma is None:
            walked = self.step_size * self.mechanism.sigma * math.sqrt(2 * self.steps / 3)
        else:
            walked = DRIFT * self.mechanism.sigma * self.steps**1.5 / self.gamma
        return np.full(self.problem.dim, min(walked, self.problem.radius))

    def describe(self) -> Mapping[str, Any]:
        """Constants for the certificate."""
        return {
            "noise": self.noise_name,
            "level": self.clip,
            "batches": self.batches,
            "steps": self.steps,
            "step_size": self.step_size,
            "gamma": self.gamma,
            "predicted_excess_loss": self.bound,
        }

    def exact_bits(self, source: BitSource) -> bool:
        """As the mechanism has it."""
        return self.mechanism.exact_bits(source)

    def _listing(self, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
        from dpconvex.algorithms.baselines.noisy_gradient.run import run

        return run(self, X, y, None, source)

    def _user_listing(self, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups) -> PrivateResult:
        from dpconvex.algorithms.baselines.noisy_gradient.run import run

        return run(self, X, y, groups, source)


def plan(
    problem: LinearModelProblem,
    privacy: PrivacyParams,
    *,
    clip: float | None = None,
    batches: int = 1,
    steps: int | None = None,
    step_size: float | None = None,
    accelerated: bool = True,
    l2: float = 0.0,
) -> NoisyGradientPlan:
    """Return the plan of the least predicted error.

    Parameters
    ----------
    problem : LinearModelProblem
        Its average loss is minimised over the ball of its radius.
    privacy : PrivacyParams
        The promise, with delta positive. For users the problem must count users.
    clip : float, optional
        Level C, from public knowledge; default: the Lipschitz constant, for users of smooth losses the estimate of the
        module's docstring.
    batches : int
        1: full batch. More: each step reads one of so many disjoint batches; with as many steps, one pass.
    steps : int, optional
        T, at least 2 and a multiple of `batches`; default: as few as the bound allows, at most 256 passes.
    step_size : float, optional
        eta of plain steps; default: what minimises the bound.
    accelerated : bool
        Take accelerated steps where the loss is smooth and no step size is given.
    l2 : float
        Ridge weight; the excess is then that of the regularised loss.

    Raises
    ------
    InvalidParameterError
        If delta is 0, the loss has unbounded slopes and no level is given, or there are more batches than units.
    """
    check_relation(privacy, users=True)
    check_unit(problem, privacy)
    require_average(problem)
    if privacy.pure:
        remedy = "Use a value far below 1/n, or algorithm='output_perturbation'"
        raise InvalidParameterError("delta", privacy.delta, "must be positive for noisy gradient descent", remedy)
    _validate.integer("batches", batches, at_least=1)
    if batches > min(problem.n, MOST_BATCHES):
        raise InvalidParameterError("batches", batches, f"must be at most {min(problem.n, MOST_BATCHES)}")
    _validate.real("l2", l2, at_least=0.0)
    if clip is not None:
        _validate.real("clip", clip, above=0.0)
    elif math.isinf(problem.lipschitz):
        raise InvalidParameterError("loss", problem.loss.name, "has unbounded slopes", "Give a clipping level")
    if steps is not None and _validate.integer("steps", steps, at_least=max(2, batches)) % batches:
        raise InvalidParameterError("steps", steps, f"must be a multiple of batches, {batches}")
    if step_size is not None:
        _validate.real("step_size", step_size, above=0.0)
    setting = _Setting(problem, batches, largest_mu(privacy.epsilon, privacy.delta), l2, accelerated)
    first = 1 if batches == 1 else 0  # the first point is 0, whatever the data are
    counts = [steps] if steps else [batches * 2**k for k in range(first, MOST_STEPS.bit_length())]
    found = [setting.tuned(T, clip, step_size) for T in counts]
    least = min(option.bound for option in found)
    chosen = next(option for option in found if option.bound <= ENOUGH * least)
    sensitivity = (2 * chosen.clip / setting.least_batch + 2 * ROUNDING * chosen.clip) * (1 + 1e-12)
    mechanism = GaussianMechanism.of_mu(
        Sensitivity(sensitivity, "l2", LEMMA, unit=privacy.unit), setting.mu_of_step(chosen.steps), problem.dim
    )
    trivial = min(problem.value_at_zero, problem.lipschitz * problem.radius)
    return NoisyGradientPlan(
        problem,
        privacy,
        chosen.clip,
        batches,
        chosen.steps,
        chosen.step_size,
        chosen.gamma,
        mechanism,
        min(chosen.bound, 2 * problem.lipschitz * problem.radius),
        trivial,
        chosen.rests_on,
        l2,
    )


@dataclass(frozen=True)
class _Option:
    """Constants of a run and their bound; `gamma` is None for plain steps."""

    clip: float
    steps: int
    step_size: float
    gamma: float | None
    bound: float
    rests_on: str = ""


@dataclass(frozen=True)
class _Setting:
    """Public facts that bounds are made of; `mu` is the whole budget of a unit."""

    problem: LinearModelProblem
    batches: int
    mu: float
    l2: float
    accelerated: bool

    @property
    def least_batch(self) -> int:
        return self.problem.n // self.batches

    def mu_of_step(self, steps: int) -> float:
        return self.mu / math.sqrt(steps // self.batches) * (1 - 1e-12)  # accountants round up

    def tuned(self, steps: int, clip: float | None, step_size: float | None) -> _Option:
        """Return the option with the step size that the bound asks for, unless it is given."""
        L, users = self.problem.lipschitz, self.problem.records_per_user
        alike = users is not None and math.isfinite(self.problem.smoothness)
        within = L / math.sqrt(users or 1)
        clip = (SHORT * within if alike else L) if clip is None else clip
        clip = min(clip, L)
        if clip < L and alike:
            found = self._excess(clip, steps, step_size, within)
            k, beta = found.bound / clip, self.problem.smoothness
            root = (k * math.sqrt(2 * beta) + math.sqrt(2 * beta * k**2 + 4 * k * within)) / 2
            estimate = max(found.bound, root**2)
            return replace(found, bound=estimate, rests_on="an estimate for users alike, clipping bias left out")
        found = self._excess(clip, steps, step_size)
        if clip >= L:
            where = "on the data" if self.batches == 1 else "on the population"
            return replace(found, rests_on=f"proved {where}")
        bias = 2 * self.problem.radius * (L - clip)
        return replace(found, bound=found.bound + bias, rests_on="with the largest bias that clipping can have")

    def _excess(self, clip: float, steps: int, step_size: float | None, within: float | None = None) -> _Option:
        """Return constants, and the bound without the bias of clipping; `within`: t, for users alike."""
        problem = self.problem
        L, R = min(clip, problem.lipschitz) + self.l2 * problem.radius, problem.radius
        sigma = 2 * clip / (self.least_batch * self.mu_of_step(steps))
        noise = math.sqrt(problem.dim) * sigma
        variance = noise**2 + (L**2 / self.least_batch if self.batches > 1 else 0.0)
        beta, walk = problem.smoothness + self.l2, math.inf
        if within is not None:  # gradients are as good as shortened by C/t
            loudness = noise / (clip * math.sqrt(steps // self.batches))
            share = WALK * min(1.0, max(0.5, loudness / LOUD))
            walk = math.sqrt(2 * share * problem.dim * problem.value_at_zero / beta)
            beta *= min(1.0, clip / within)
        if self.accelerated and math.isfinite(beta) and step_size is None:
            gamma = balanced_stage(beta, 0.0, R, lambda _: variance, steps).stages[0].gamma
            gamma = max(gamma, DRIFT * noise * steps**1.5 / walk)
            bound = 2 * gamma * R**2 / (steps * (steps + 1)) + (2 * steps + 1) * variance / (6 * gamma)
            return _Option(clip, steps, 0.0, gamma, bound)
        largest = 1 / (2 * beta) if math.isfinite(beta) else math.inf
        weight = variance if math.isfinite(beta) else (L**2 + variance) / 2
        eta = min(largest, R / math.sqrt(2 * steps * weight), walk / (noise * math.sqrt(steps)))
        eta = eta if step_size is None else step_size
        if eta > largest:  # longer steps than smoothness allows: the Lipschitz bound still holds
            weight = (L**2 + variance) / 2
        return _Option(clip, steps, eta, None, (R**2 / (2 * eta * steps) + eta * weight) / TAIL)
