"""All ways to answer linear queries by name, and the choice among them from public facts."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpconvex import _validate
from dpconvex.algorithms.base import within_floats
from dpconvex.algorithms.queries import mwem, noisy_answers, synthetic
from dpconvex.algorithms.queries.base import QueryReleasePlan
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.queries import LinearQueries

Planner = Callable[[LinearQueries, int, PrivacyParams, str], QueryReleasePlan]


def _saddle(queries: LinearQueries, n: int, privacy: PrivacyParams, constants: str) -> QueryReleasePlan:
    return synthetic.plan(queries, n, privacy, constants=constants)


def _noise(queries: LinearQueries, n: int, privacy: PrivacyParams, constants: str) -> QueryReleasePlan:
    _require_calibrated(constants)
    return noisy_answers.plan(queries, n, privacy)


def _mwem(queries: LinearQueries, n: int, privacy: PrivacyParams, constants: str) -> QueryReleasePlan:
    _require_calibrated(constants)
    return mwem.plan(queries, n, privacy)


def _require_calibrated(constants: str) -> None:
    if constants != "calibrated":
        remedy = "Use algorithm='saddle_point'"
        raise InvalidParameterError("constants", constants, "must be 'calibrated' for this algorithm", remedy)


QUERY_METHODS: dict[str, Planner] = {"query_noise": _noise, "mwem": _mwem, "saddle_point": _saddle}
"""Planner of every method: ``planner(queries, n, privacy, constants) -> QueryReleasePlan``."""


def expected_error(plan: QueryReleasePlan) -> float:
    """Return the largest error of a histogram that is typical, by which `plan_queries` orders methods.

    Bounds compare badly: the saddle point's is 3 to 5 times what it loses, MWEM has none, and that of noisy answers
    ignores the fit, which removes most of the noise. Each is replaced by what fits measurements on simulated tables and
    random queries within a factor of 2 (docs, Synthetic data). Public facts only.

    Parameters
    ----------
    plan : QueryReleasePlan
    """
    return min(plan.predicted_error.trivial, plan.expectation)


def plan_queries(
    queries: LinearQueries,
    n: int,
    privacy: PrivacyParams,
    algorithm: str = "auto",
    *,
    constants: str = "calibrated",
) -> tuple[QueryReleasePlan, ...]:
    """Return all valid plans, the smallest `expected_error` first. Sees no data.

    Parameters
    ----------
    queries : LinearQueries
        What is asked.
    n : int
        Number of records.
    privacy : PrivacyParams
        With delta 0 only the saddle point applies.
    algorithm : {"auto", "query_noise", "mwem", "saddle_point"}
        All methods, or one.
    constants : {"calibrated", "paper"}
        ``"paper"``: the saddle point only.

    Raises
    ------
    InvalidParameterError
        If nothing applies.
    """
    _validate.choice("algorithm", algorithm, ("auto", *QUERY_METHODS))
    found: list[QueryReleasePlan] = []
    refusals: list[InvalidParameterError] = []
    for name, planner in QUERY_METHODS.items():
        if algorithm in ("auto", name):
            try:
                with within_floats("queries"):
                    plan = planner(queries, n, privacy, constants)
                    _ = plan.releases, expected_error(plan)  # public constants that are no floats show up here
                found.append(plan)
            except InvalidParameterError as error:
                refusals.append(error)
    if not found:
        raise refusals[-1]
    return tuple(sorted(found, key=lambda plan: (not math.isfinite(expected_error(plan)), expected_error(plan))))
