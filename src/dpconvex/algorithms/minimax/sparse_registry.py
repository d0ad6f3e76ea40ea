"""All ways to a private minimiser over one simplex or l1 ball by name, and the choice among them from public facts."""

from __future__ import annotations

from dpconvex.algorithms.minimax import frank_wolfe
from dpconvex.algorithms.minimax.base import SaddlePlan
from dpconvex.algorithms.minimax.gaussian import plan_mirror_descent
from dpconvex.algorithms.minimax.registry import Planner, calibrated_only, ordered_plans, vertex_descent
from dpconvex.algorithms.minimax.saddle_point import anytime
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.minimax.base import SimplexSaddle


def _anytime(problem: SimplexSaddle, privacy: PrivacyParams, constants: str) -> SaddlePlan:
    return anytime.plan(problem, privacy, constants=constants)


SPARSE_METHODS: dict[str, Planner] = {
    "frank_wolfe": calibrated_only(frank_wolfe.plan),
    "anytime_mirror_descent": _anytime,
    "vertex_mirror_descent": vertex_descent,
    "gaussian_mirror_descent": calibrated_only(plan_mirror_descent),
    "variance_reduced_frank_wolfe": calibrated_only(frank_wolfe.plan_variance_reduced),
}
"""Planner of every method: ``planner(problem, privacy, constants) -> SaddlePlan``."""


def plan_sparse(
    problem: SimplexSaddle, privacy: PrivacyParams, algorithm: str = "auto", *, constants: str = "calibrated"
) -> tuple[SaddlePlan, ...]:
    """Return all valid plans, the smallest expected excess loss first. Sees no data.

    Parameters
    ----------
    problem : SimplexSaddle
        With ``dy = 1``.
    privacy : PrivacyParams
        With delta 0 the methods with Gaussian noise do not apply.
    algorithm : str
        ``"auto"`` or one of `SPARSE_METHODS`.
    constants : {"calibrated", "paper"}
        ``"paper"``: the saddle-point paper's own methods.

    Raises
    ------
    InvalidParameterError
        If nothing applies.
    """
    return ordered_plans(SPARSE_METHODS, problem, privacy, algorithm, constants)
