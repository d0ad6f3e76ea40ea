"""What is audited of answered queries and synthetic data."""

from __future__ import annotations

import numpy as np

from dpconvex._types import AnyArray
from dpconvex.algorithms.queries import noisy_tables
from dpconvex.algorithms.queries.registry import QUERY_METHODS
from dpconvex.algorithms.select import Options
from dpconvex.audit.neighbors import array_pairs
from dpconvex.audit.target import Builder, Subject, Use, smallest, targets
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.problems.queries import DenseQueries, Marginals
from dpconvex.randomness import BitSource


def _queries(name: str) -> Builder:
    def build(privacy: PrivacyParams, bound: float) -> Subject:
        queries = DenseQueries(bound * np.array([[0.0, 1.0, 0.5]]), 0.0, bound)

        def planned(n: int) -> Subject:
            plan = QUERY_METHODS[name].plans(Options(), queries, n, privacy)[0]
            rests = {"zeros": np.zeros(n, int), "ones": np.ones(n, int), "mixed": np.arange(n) % 2}
            found = {}
            for what, rest in rests.items():
                first, second = rest.copy(), rest.copy()
                first[0], second[0] = 0, 1
                found[f"others {what}"] = (first, second)
            return Subject(plan, array_pairs(found))

        return smallest(planned)

    return build


def _tables(privacy: PrivacyParams, bound: float) -> Subject:
    """All tables of three columns; neighbors that differ in every column. What follows the release is public."""
    queries = Marginals.of_order((2, 3, 2), 2)
    plan = noisy_tables.plan(queries, 8, privacy, relations="all")

    def run(codes: AnyArray, source: BitSource) -> AnyArray:
        released = plan.release(queries.codes(codes), source, Ledger(privacy, plan.releases))
        return np.concatenate([noisy.ravel() for noisy in released.noisy])

    found = {}
    for what, rest in (("alike", np.zeros((8, 3), int)), ("mixed", np.arange(24).reshape(8, 3) % 2)):
        for how, other in (("differs everywhere", [1, 2, 1]), ("differs in one column", [0, 1, 0])):
            first, second = rest.copy(), rest.copy()
            first[0], second[0] = 0, other
            found[f"others {what}, {how}"] = (first, second)
    return Subject(Use(privacy, plan.algorithm, plan.releases, run), array_pairs(found))


TARGETS = targets(
    Unit.RECORD,
    {
        **{f"queries/{name}": ("approximate", _queries(name)) for name in QUERY_METHODS if name != "noisy_tables"},
        "queries/noisy_tables": ("approximate", _tables),
        "queries/noisy_tables/pure": ("pure", _tables),
        "queries/query_noise/pure": ("pure", _queries("query_noise")),
        "queries/saddle_point/pure": ("pure", _queries("saddle_point")),
    },
)
