"""What is audited of answered queries and synthetic data."""

from __future__ import annotations

import numpy as np

from dpconvex.algorithms.queries.registry import QUERY_METHODS
from dpconvex.algorithms.select import Options
from dpconvex.audit.neighbors import array_pairs
from dpconvex.audit.target import Builder, Subject, smallest, targets
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems.queries import DenseQueries


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


TARGETS = targets(
    Unit.RECORD,
    {
        **{f"queries/{name}": ("approximate", _queries(name)) for name in QUERY_METHODS},
        "queries/saddle_point/pure": ("pure", _queries("saddle_point")),
    },
)
