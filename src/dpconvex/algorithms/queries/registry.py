"""All ways to answer linear queries by name, and the choice among them from public facts."""

import math
from typing import Any

from dpconvex.algorithms.queries import found_bins, grouped_tables, mwem, noisy_answers, noisy_tables, noisy_tree
from dpconvex.algorithms.queries.base import QueryReleasePlan
from dpconvex.algorithms.queries.synthetic import plan as plan_saddle_point
from dpconvex.algorithms.select import Method, Options, Plans, Registry
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.queries import LinearQueries

QUERY_METHODS = Registry(
    "queries",
    Method("noisy_tables", noisy_tables.plan),
    Method("noisy_tree", noisy_tree.plan),
    Method("grouped_tables", grouped_tables.plan),
    Method("query_noise", noisy_answers.plan),
    Method("mwem", mwem.plan),
    Method("saddle_point", plan_saddle_point, ("constants",)),
)  #: ``planner(queries, n, privacy, **options) -> QueryReleasePlan``.

FINDING = ("noisy_tables", "noisy_tree", "grouped_tables")  #: Methods that can find ranges and bins


def plan_queries(
    queries: LinearQueries, n: int, privacy: PrivacyParams, algorithm: str = "auto",
    *, constants: str = "calibrated", sums: bool = False, open: found_bins.Open | None = None,
) -> tuple[QueryReleasePlan, ...]:  # fmt: skip
    """Return all valid plans, smallest expectation first; with `sums` only plans that need sums alone. Sees no data.

    Noisy tables come first where they apply: to marginals of one and two columns. ``constants="paper"`` is for the
    saddle point alone. Only plans of noisy tables find the ranges and bins of `open` columns. Raises
    `InvalidParameterError` if no method applies.
    """
    if open is not None:
        return _with_ranges(queries, n, privacy, algorithm, open, constants=constants, sums=sums)
    names, options = QUERY_METHODS.names(algorithm), Options(constants, sums=sums)
    found, refusals = QUERY_METHODS.choose(names, options, (queries, n, privacy), _rank, "queries")
    if not found:
        remedy = "Use algorithm='saddle_point'"
        other = InvalidParameterError("constants", constants, "must be 'calibrated' for this algorithm", remedy)
        texts: dict[str, list[str]] = {}
        for name, error in refusals.items():
            texts.setdefault(str(error).rstrip("."), []).append(name)
        if len(texts) < 2:
            raise next(iter(refusals.values()), other)
        listed = "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())
        raise InvalidParameterError("algorithm", algorithm, f"finds no method that applies: {listed}")
    return found


def _with_ranges(
    queries: LinearQueries, n: int, privacy: PrivacyParams, algorithm: str, open: found_bins.Open, **options: Any
) -> tuple[QueryReleasePlan, ...]:
    """Return plans that first find ranges, with the noise law for which the expected error of tables is smaller."""
    if algorithm not in ("auto", *FINDING):
        what = f"needs declared ranges and public bins: those that find some are {', '.join(FINDING)}"
        raise InvalidParameterError("algorithm", algorithm, what, "Give lower and upper, or use algorithm='auto'")
    found: list[found_bins.FoundBinsPlan] = []
    for law in ("gaussian", "laplace") if privacy.delta else ("laplace",):
        left = found_bins.rest(privacy, n, open, law)
        found += [
            found_bins.plan(each, privacy, open)
            for each in (plan_queries(queries, n, left, algorithm, **options) if left else ())
            if isinstance(each, found_bins.OfBins) and (each.law == "gaussian") == (law == "gaussian")
        ]
    if not found:
        what = "must be 1 or 2 where ranges or bins are found"
        remedy = "Declare the ranges, lower and upper, and give the number of bins"
        raise InvalidParameterError("order", max(map(len, queries.subsets)), what, remedy)
    return Plans(sorted(found, key=lambda each: each.ranked))


def _rank(plan: QueryReleasePlan) -> tuple[bool, bool, float]:
    # Bounds are not comparable: the saddle point's bound is 3 to 5 times its loss, MWEM has none, and that of noisy
    # answers ignores the fit. Expectations agree with measurements within a factor of 2 (docs, Synthetic data).
    _ = plan.releases  # raises if public constants are not representable as floats
    return not math.isfinite(plan.expectation), not plan.preferred, plan.ranked
