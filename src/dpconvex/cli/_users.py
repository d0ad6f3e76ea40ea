"""Protecting whole users on the command line: the user column, and how the expected loss falls with users."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from dpconvex.cli._console import number, print_table, print_text
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpconvex.algorithms.base import LinearModelPlan
    from dpconvex.data import Schema
    from dpconvex.estimators import PrivateLinearModel

FACTORS = (0.25, 1, 4)
"""Of the number of users in the table of `print_scaling`."""
RECORDS = (1, 10, 100)
"""Records per user there, beside the one that was asked for."""


def with_user(schema: Schema, column: str | None) -> Schema:
    """Return the schema with its user column replaced by the one that was asked for, if any."""
    if column is None:
        return schema
    if column in dataclasses.replace(schema, user=None).column_names():
        what = "is a feature or the target in the schema"
        remedy = "Name the column of user identifiers, and remove it from the schema's other columns"
        raise InvalidParameterError("user_column", column, what, remedy)
    return dataclasses.replace(schema, user=column)


def scaling(
    estimator: PrivateLinearModel,
    users: int,
    plans: Callable[[PrivateLinearModel, int], tuple[LinearModelPlan, ...]],
) -> list[list[dict[str, Any]]]:
    """Return the best plan for other numbers of users (rows) and records per user (columns), JSON-ready.

    Parameters
    ----------
    estimator : PrivateLinearModel
        Left as it is.
    users : int
        Number of users.
    plans : callable
        Plans of an estimator for a number of users, the best first.
    """
    from sklearn.base import clone

    def best(n: int, records: int) -> dict[str, Any]:
        one: Any = clone(estimator)
        one.set_params(records_per_user=records)
        plan = plans(one, n)[0]
        error = plan.predicted_error
        facts = {"users": n, "records_per_user": records, "algorithm": plan.algorithm}
        return {**facts, "excess_loss_bound": error.bound, "vacuous": error.vacuous}

    columns = sorted({estimator.records_per_user, *RECORDS})
    rows = sorted({max(1, round(users * factor)) for factor in FACTORS})
    return [[best(n, records) for records in columns] for n in rows]


def print_scaling(table: list[list[dict[str, Any]]]) -> None:
    """Print how the expected loss falls with users and with records per user."""
    names = sorted({cell["algorithm"] for row in table for cell in row})
    marks = dict(zip(names, "abcdefghij", strict=False))
    print_table(
        "Bound on the excess loss of the best plan, by users and records per user",
        ("users", *(f"{cell['records_per_user']:,}" for cell in table[0])),
        (
            (f"{row[0]['users']:,}", *(f"{number(c['excess_loss_bound'])} {marks[c['algorithm']]}" for c in row))
            for row in table
        ),
        right=range(len(table[0]) + 1),
    )
    print_text(", ".join(f"{mark}: {name.replace('_', ' ')}" for name, mark in marks.items()) + ".")
