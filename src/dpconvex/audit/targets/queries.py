"""What is audited of answered queries, synthetic data and private evaluation."""

from __future__ import annotations

import numpy as np

from dpconvex.algorithms.queries.evaluation import plan as plan_evaluation
from dpconvex.algorithms.queries.registry import QUERY_METHODS
from dpconvex.algorithms.select import Options
from dpconvex.audit.neighbors import array_pairs
from dpconvex.audit.target import Builder, Pair, Subject, smallest, targets
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import UserGroups
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


def _evaluation(classes: int, groups: int, users: bool) -> Builder:
    """A unit that leaves one end of every table for the other, or one group for another."""

    def build(privacy: PrivacyParams, bound: float) -> Subject:
        n = 3
        plan = plan_evaluation(n, privacy, classes=classes, groups=groups)
        owners = [np.array([0, 1, 2]), np.array([0, 1, 2, 2, 2])] if users else [np.arange(3)] * 2

        def data(unit: np.ndarray, end: int) -> tuple[object, ...]:
            mine = np.where(unit == 2, end, 0)
            where = np.column_stack([mine * 10**6] * len(plan.shapes))
            values = None if classes else np.column_stack([mine.astype(np.float64)] * 4)
            return where, values, UserGroups.of(unit) if users else None

        pairs = {"one end, the other": Pair(data(owners[0], 0), data(owners[1], 1))}
        return Subject(plan, pairs, lambda result: result.cells)

    return build


TARGETS = targets(
    Unit.USER,
    {
        "private_evaluation/users": ("pure", _evaluation(2, 1, True)),
        "private_evaluation/numbers_of_users": ("pure", _evaluation(0, 3, True)),
    },
) + targets(
    Unit.RECORD,
    {
        "private_evaluation": ("pure", _evaluation(2, 1, False)),
        "private_evaluation/classes": ("pure", _evaluation(3, 1, False)),
        "private_evaluation/groups": ("pure", _evaluation(2, 3, False)),
        "private_evaluation/numbers": ("pure", _evaluation(0, 1, False)),
        **{f"queries/{name}": ("approximate", _queries(name)) for name in QUERY_METHODS},
        "queries/saddle_point/pure": ("pure", _queries("saddle_point")),
    },
)
