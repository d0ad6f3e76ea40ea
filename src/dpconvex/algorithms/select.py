"""All algorithms by name, and the choice among them from public facts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

from dpconvex import _validate
from dpconvex.algorithms.base import LinearModelPlan, check_unit, within_floats
from dpconvex.algorithms.erm import (
    exponential_mechanism,
    gradient_descent,
    objective_perturbation,
    output_perturbation,
    sufficient_statistics,
    user_level,
)
from dpconvex.algorithms.erm.two_stage import centering, projection
from dpconvex.algorithms.recipes import stored
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems.linear.problem import LinearModelProblem

NOISES = ("auto", "grouped", "weighted_l1", "l1", "block_max", "l2", "gaussian", "weighted_gaussian")
"""Kinds of noise that a caller may ask for; which apply depends on the algorithm and on delta."""

CONSTANTS = ("calibrated", "paper")

CAUTIOUS = "noisy_gradient"
"""Its steps for users are limited by what their noise may cost: where bounds say little, it does least harm.

Measured (``benchmarks/user_level.py``): a third to a tenth of the others' excess loss for 537 viewers and 3,230 planes.
"""

CONVINCING = 0.2
"""Share of the trivial loss below which another plan's bound is preferred to `CAUTIOUS`, for users.

Chosen on five public tables (docs, Record or user): no value is right on all of them, this one loses least.
"""

RECENTRED = ("objective_perturbation", "noisy_gradient", "sufficient_statistics", "random_projection")
"""Methods for recentred columns."""

PROJECTED = ("objective_perturbation",)
"""Methods for projected columns. Gaussian noise in every direction is the same with fewer: others have no need."""

SMALLEST, LARGEST = 1e-100, 1e100
"""Sizes of public parameters whose squares and ratios are floats."""


@stored
@dataclass(frozen=True)
class Options:
    """What a user may fix instead of leaving it to the plan.

    Parameters
    ----------
    constants : {"calibrated", "paper"}
        Constant set.
    noise : str
        One of `NOISES`.
    l2 : float or None
        Regularisation; None: chosen from public facts.
    target : {"empirical", "population"}
        Excess on the data or on their distribution (output perturbation only).
    """

    constants: str = "calibrated"
    noise: str = "auto"
    l2: float | None = None
    target: str = "empirical"

    def __post_init__(self) -> None:
        _validate.choice("constants", self.constants, CONSTANTS)
        _validate.choice("noise", self.noise, NOISES)
        _validate.choice("target", self.target, output_perturbation.TARGETS)
        if self.l2 is not None:
            _validate.real("l2", self.l2, at_least=SMALLEST, at_most=LARGEST)


Planner = Callable[[LinearModelProblem, PrivacyParams, Options], tuple[LinearModelPlan, ...]]


def _output(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    return output_perturbation.plan(
        problem,
        privacy,
        constants=options.constants,
        l2=options.l2,
        noise=options.noise,
        target=options.target,
    )


def _objective(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    _require_empirical(options)
    if options.constants != "calibrated":
        return ()
    return objective_perturbation.plan(problem, privacy, l2=options.l2, noise=options.noise)


def _exponential(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    _require_empirical(options)
    if options != Options(l2=options.l2):
        return ()
    localised = exponential_mechanism.plan_localised(problem, privacy, options.l2)
    return localised if options.l2 else (*exponential_mechanism.plan(problem, privacy), *localised)


def _phased(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    if options.l2 is not None or options.noise not in ("auto", "gaussian"):
        return ()
    return (user_level.plan_phased(problem, privacy, constants=options.constants),)


def _accelerated(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    if options.noise not in ("auto", "gaussian"):
        return ()
    found = user_level.plan_accelerated(
        problem, privacy, constants=options.constants, target=options.target, l2=options.l2 or 0.0
    )
    return (found,)


def _noisy(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    _require_empirical(options)
    if options.noise not in ("auto", "gaussian") or options.constants != "calibrated":
        return ()
    rate = None if options.noise == "auto" else 1.0  # the other composes with more releases
    return (gradient_descent.plan(problem, privacy, l2=options.l2 or 0.0, rate=rate),)


def _statistics(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    _require_empirical(options)
    if options.noise not in ("auto", "gaussian"):
        return ()
    if options.constants == "paper":
        return () if options.l2 else (sufficient_statistics.plan_adaptive_ridge(problem, privacy),)
    return (sufficient_statistics.plan(problem, privacy, l2=options.l2 or 0.0),)


def _recentring(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    _require_empirical(options)
    if options.constants != "calibrated" or options.l2 is not None or problem.grouped:
        return ()
    methods = Methods(options, RECENTRED)
    found = centering.plan(problem, privacy, methods)
    for plan in found:  # refuse here, from public facts, what would be refused once the length is known
        methods.check(centering.recentred(problem, float(plan.lengths[-1])), privacy)
    return found


def _projection(problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> tuple[LinearModelPlan, ...]:
    _require_empirical(options)
    if options.constants != "calibrated" or problem.grouped:
        return ()
    noise = "grouped" if options.noise == "auto" else options.noise
    return projection.plan(problem, privacy, Methods(replace(options, noise=noise), PROJECTED))


@final
@stored
@dataclass(frozen=True)
class Methods:
    """Plans some algorithms for another problem and promise, the one to run first in front.

    Parameters
    ----------
    options : Options
    names : tuple of str
        Of the algorithms.
    """

    options: Options
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not set(self.names) <= set(ALGORITHMS) or len(set(self.names)) < len(self.names):
            raise InvalidParameterError("names", self.names, "must be different algorithms")

    def __call__(self, problem: LinearModelProblem, privacy: PrivacyParams) -> tuple[LinearModelPlan, ...]:
        """Return the plans, or raise the most telling refusal."""
        found, refusals = _valid(problem, privacy, self.options, self.names)
        if not found:
            raise _most_telling(refusals)
        return found

    def check(self, problem: LinearModelProblem, privacy: PrivacyParams) -> None:
        """Raise as a call would."""
        if not _applies(problem, privacy, self.options, self.names):
            self(problem, privacy)


def _require_empirical(options: Options) -> None:
    """Raise `InvalidParameterError` where only output perturbation has a schedule for the population."""
    if options.target != "empirical":
        remedy = "Use algorithm='output_perturbation'"
        raise InvalidParameterError("target", options.target, "must be 'empirical' for this algorithm", remedy)


ALGORITHMS: dict[str, Planner] = {
    "objective_perturbation": _objective,
    "output_perturbation": _output,
    "exponential_mechanism": _exponential,
    "phased_sgd": _phased,
    "accelerated_user": _accelerated,
    "noisy_gradient": _noisy,
    "sufficient_statistics": _statistics,
    "random_projection": _projection,
    "recentring": _recentring,
}
"""Planner of every algorithm, by the name used in estimators and on the command line."""


@lru_cache(maxsize=256)  # a pure function of frozen values: a fit, its table and its report ask for the same plans
def plans(
    problem: LinearModelProblem, privacy: PrivacyParams, algorithm: str = "auto", options: Options | None = None
) -> tuple[LinearModelPlan, ...]:
    """Return all valid plans, the smallest predicted error first. Sees no data.

    For users, where no other bound is `CONVINCING`, the plan of `CAUTIOUS` comes first.

    Raises
    ------
    InvalidParameterError
        If nothing applies to what was asked for, or a parameter is so extreme that floats cannot hold its constants.
    """
    options, names = options or Options(), _names(problem, privacy, algorithm)
    found, refusals = _valid(problem, privacy, options, names)
    if not found and refusals:
        raise _most_telling(refusals)
    if not found:
        raise InvalidParameterError(
            "noise" if options.constants == "calibrated" else "constants",
            options.noise if options.constants == "calibrated" else options.constants,
            f"is not available for algorithm={algorithm!r}",
            "Use noise='auto' and constants='calibrated'",
        )
    return found


def check(problem: LinearModelProblem, privacy: PrivacyParams, algorithm: str, options: Options) -> None:
    """Raise `InvalidParameterError` as `plans` would, at the price of one plan."""
    if not _applies(problem, privacy, options, _names(problem, privacy, algorithm)):
        plans(problem, privacy, algorithm, options)


def _names(problem: LinearModelProblem, privacy: PrivacyParams, algorithm: str) -> tuple[str, ...]:
    """Return the algorithms to try, or raise `InvalidParameterError` for what none of them takes."""
    _validate.choice("algorithm", algorithm, ("auto", *ALGORITHMS))
    _validate.real("epsilon", privacy.epsilon, at_least=SMALLEST)
    _validate.real("radius", problem.radius, at_least=SMALLEST, at_most=LARGEST)
    check_unit(problem, privacy)
    return tuple(ALGORITHMS) if algorithm == "auto" else (algorithm,)


def _applies(problem: LinearModelProblem, privacy: PrivacyParams, options: Options, names: tuple[str, ...]) -> bool:
    """Return whether there is a plan of some algorithm and noise; the first one is enough to know."""
    noises = NOISES[1:] if options.noise == "auto" else (options.noise,)
    each = (_valid(problem, privacy, replace(options, noise=noise), (name,))[0] for name in names for noise in noises)
    return any(each)


def _valid(
    problem: LinearModelProblem, privacy: PrivacyParams, options: Options, names: tuple[str, ...]
) -> tuple[tuple[LinearModelPlan, ...], dict[str, InvalidParameterError]]:
    """Return the plans of some algorithms, the one to run first, and why the others refuse."""
    found: list[LinearModelPlan] = []
    refusals: dict[str, InvalidParameterError] = {}
    for name in names:
        try:
            with within_floats(problem.name):
                found += ALGORITHMS[name](problem, privacy, options)
        except InvalidParameterError as error:
            refusals[name] = error
    return tuple(sorted(found, key=_promise)), refusals


def expected_of_first(found: tuple[LinearModelPlan, ...]) -> float:
    """Sort key of lists of plans, the best one first: what it expects to lose, in the usual loss."""
    expected = found[0].predicted_error.expected
    return math.inf if expected is None else _rounded(expected)


def _rounded(error: float) -> float:
    """Return an error to nine digits: between equal plans the order of noises decides, not how a processor rounds."""
    return float(f"{error:.9g}")


def _promise(plan: LinearModelPlan) -> tuple[bool, float]:
    """Sort key: the expected error; for users the bound, `CAUTIOUS` before all plans whose bound is not convincing."""
    error = plan.predicted_error
    if plan.privacy.unit != Unit.USER:
        return False, _rounded(error.rank)
    return plan.algorithm != CAUTIOUS and error.bound > CONVINCING * error.trivial, _rounded(error.bound)


def _most_telling(refusals: dict[str, InvalidParameterError]) -> InvalidParameterError:
    """Return the refusal of the most general algorithm; if it lacks the noise, of one that has it and stands alone."""
    general = refusals.get("output_perturbation")
    if general is not None and general.name != "noise":
        return general
    alone = (error for error in refusals.values() if "output_perturbation" not in error.remedy)
    return next(alone, next(iter(refusals.values())))
