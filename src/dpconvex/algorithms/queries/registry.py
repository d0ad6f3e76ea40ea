"""All ways to answer linear queries by name, and the choice among them from public facts."""

import math

from dpconvex.algorithms.queries import mwem, noisy_answers, noisy_tables, noisy_tree, synthetic
from dpconvex.algorithms.queries.base import QueryReleasePlan
from dpconvex.algorithms.select import Method, Options, Registry
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.queries import LinearQueries

QUERY_METHODS = Registry(
    "queries",
    Method("noisy_tables", noisy_tables.plan),
    Method("noisy_tree", noisy_tree.plan),
    Method("query_noise", noisy_answers.plan),
    Method("mwem", mwem.plan),
    Method("saddle_point", synthetic.plan, ("constants",)),
)
"""``planner(queries, n, privacy, **options) -> QueryReleasePlan``."""


def plan_queries(
    queries: LinearQueries,
    n: int,
    privacy: PrivacyParams,
    algorithm: str = "auto",
    *,
    constants: str = "calibrated",
    sums: bool = False,
) -> tuple[QueryReleasePlan, ...]:
    """Return all valid plans, or those that need `sums` alone, the smallest expectation first. Sees no data.

    Noisy tables come first where they apply: marginals of one and two columns. ``constants="paper"`` has the saddle
    point alone. `InvalidParameterError` if nothing applies.
    """
    names, options = QUERY_METHODS.names(algorithm), Options(constants, sums=sums)
    found, refusals = QUERY_METHODS.choose(names, options, (queries, n, privacy), _rank, "queries")
    if not found:
        remedy = "Use algorithm='saddle_point'"
        other = InvalidParameterError("constants", constants, "must be 'calibrated' for this algorithm", remedy)
        raise next(reversed(refusals.values()), other)
    return found


def _rank(method: Method, plan: QueryReleasePlan) -> tuple[bool, bool, float]:
    # Bounds compare badly: the saddle point's is 3 to 5 times what it loses, MWEM has none, that of noisy answers
    # ignores the fit. Expectations fit measurements within a factor of 2 (docs, Synthetic data).
    _ = plan.releases  # public constants that are no floats show up here
    return not math.isfinite(plan.expectation), not plan.preferred, plan.ranked
