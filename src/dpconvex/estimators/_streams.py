"""Fits of tables that are read portion by portion: what may be given, and which plans can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpconvex._types import AnyArray
from dpconvex.algorithms import LinearModelPlan
from dpconvex.data import Schema
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems.data.sources import EncodedRows, EncodedTables, open_tables


def open_rows(
    schema: Schema | None, X: Any, others: Mapping[str, Any], targets: Callable[[Any], AnyArray]
) -> EncodedRows | None:
    """Return a table that is larger than memory, to be encoded as it is read; None where X is in memory.

    `others` are arguments of `fit` that must be left out then; `targets` encodes those of a table. Refusals come from
    public facts, before a row is read.
    """
    tables = None if isinstance(X, np.ndarray) else open_tables(X, schema.column_names() if schema else ())
    if tables is None:
        return None
    if schema is None:
        remedy = "Describe its columns with a Schema, or read it into a frame"
        raise InvalidDataError(f"X is read portion by portion, which needs a schema. {remedy}")
    for name, value in (*others.items(), ("user", schema.user)):
        if value is not None:
            what = "cannot be given with data that are read portion by portion"
            remedy = "Take the target from the schema; protect users by reading the table into a frame"
            raise InvalidParameterError(name, type(value).__name__, what, remedy)

    def encode(table: Any) -> tuple[AnyArray, AnyArray]:
        return schema.encode(table), targets(table)

    encode(tables.empty)
    return EncodedTables(tables, encode, schema.domain().n_features)


def first_able(plans: tuple[LinearModelPlan, ...], encoded: object) -> LinearModelPlan:
    """Return the first plan that can read such data."""
    found = [plan for plan in plans if plan.only_sums or not isinstance(encoded, EncodedRows)]
    if found:
        return found[0]
    what = "needs single records, and X is read portion by portion"
    remedy = "Use a smooth loss with algorithm='objective_perturbation', or read the table into a frame"
    raise InvalidParameterError("algorithm", plans[0].algorithm, what, remedy)
