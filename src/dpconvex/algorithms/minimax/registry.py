"""All ways to a private saddle point over two simplices by name, and the choice among them from public facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dpconvex import _validate
from dpconvex.algorithms.base import within_floats
from dpconvex.algorithms.minimax import saddle_point
from dpconvex.algorithms.minimax.base import SaddlePlan
from dpconvex.algorithms.minimax.gaussian import SADDLE_BASELINES
from dpconvex.algorithms.minimax.saddle_point import bias_reduced, boosted
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.minimax.base import SimplexSaddle

Planner = Callable[[SimplexSaddle, PrivacyParams, str], SaddlePlan]


def calibrated_only(plan: Callable[[SimplexSaddle, PrivacyParams], SaddlePlan]) -> Planner:
    """Return a planner that refuses printed constants, for methods that are not the saddle-point paper's.

    Parameters
    ----------
    plan : callable
        ``plan(problem, privacy)``.
    """

    def planner(problem: SimplexSaddle, privacy: PrivacyParams, constants: str) -> SaddlePlan:
        if constants != "calibrated":
            remedy = "Use algorithm='vertex_mirror_descent'"
            raise InvalidParameterError("constants", constants, "must be 'calibrated' for this algorithm", remedy)
        return plan(problem, privacy)

    return planner


def vertex_descent(problem: SimplexSaddle, privacy: PrivacyParams, constants: str) -> SaddlePlan:
    """Plan Algorithm 1; arguments as every `Planner`'s."""
    return saddle_point.plan(problem, privacy, constants=constants)


def _bias_reduced(problem: SimplexSaddle, privacy: PrivacyParams, constants: str) -> SaddlePlan:
    return bias_reduced.plan(problem, privacy, constants=constants)


def _boosted(problem: SimplexSaddle, privacy: PrivacyParams, constants: str) -> SaddlePlan:
    return boosted.plan(problem, privacy, constants=constants)


SADDLE_METHODS: dict[str, Planner] = {
    "vertex_mirror_descent": vertex_descent,
    **{name: calibrated_only(plan) for name, plan in SADDLE_BASELINES.items()},
    "bias_reduced_mirror_descent": _bias_reduced,
    "boosted_mirror_descent": _boosted,
}
"""Planner of every method: ``planner(problem, privacy, constants) -> SaddlePlan``."""


def plan_saddle(
    problem: SimplexSaddle, privacy: PrivacyParams, algorithm: str = "auto", *, constants: str = "calibrated"
) -> tuple[SaddlePlan, ...]:
    """Return all valid plans, the smallest `SaddlePlan.expected_error` first. Sees no data.

    Parameters
    ----------
    problem : SimplexSaddle
        With ``dy > 1``.
    privacy : PrivacyParams
        With delta 0 the methods with Gaussian noise do not apply.
    algorithm : str
        ``"auto"`` or one of `SADDLE_METHODS`.
    constants : {"calibrated", "paper"}
        ``"paper"``: the saddle-point paper's own methods.

    Raises
    ------
    InvalidParameterError
        If nothing applies.
    """
    return ordered_plans(SADDLE_METHODS, problem, privacy, algorithm, constants)


def ordered_plans(
    methods: Mapping[str, Planner], problem: SimplexSaddle, privacy: PrivacyParams, algorithm: str, constants: str
) -> tuple[SaddlePlan, ...]:
    """Return the valid plans of these methods, or of one, the smallest `SaddlePlan.expected_error` first.

    Parameters
    ----------
    methods : mapping
        Planners by name.
    problem, privacy, algorithm, constants
        As in `plan_saddle`.
    """
    _validate.choice("algorithm", algorithm, ("auto", *methods))
    _validate.choice("constants", constants, ("calibrated", "paper"))
    found: list[SaddlePlan] = []
    refusals: list[InvalidParameterError] = []
    for name, planner in methods.items():
        if algorithm in ("auto", name):
            try:
                with within_floats(problem.name):
                    plan = planner(problem, privacy, constants)
                    _ = plan.releases, plan.expected_error  # public constants that are no floats show up here
                found.append(plan)
            except InvalidParameterError as error:
                refusals.append(error)
    if not found:
        raise refusals[0]
    return tuple(sorted(found, key=lambda plan: (not math.isfinite(plan.expected_error), plan.expected_error)))
