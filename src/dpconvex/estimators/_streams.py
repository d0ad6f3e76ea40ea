"""Fits of tables that are read portion by portion: what may be given, and which plans can."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
from sklearn.base import clone

from dpconvex._types import AnyArray
from dpconvex.algorithms import LinearModelPlan
from dpconvex.data import Schema
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._features import FeatureMap
from dpconvex.problems.data.sources import EncodedPartitions, EncodedRows, EncodedTables, open_partitions, open_tables


class Streaming(Protocol):
    """What is asked of an estimator."""

    schema: Schema | None
    n_features_in_: int

    @property
    def _weighs(self) -> bool:
        """Whether records have weights."""
        ...

    def _feature_map(self, n_features: int | None) -> FeatureMap:
        """Return the public map from a user's features to a domain."""
        ...

    def _targets_of(self, X: Any, y: Any) -> AnyArray:
        """Return targets as a plan takes them, (n,)."""
        ...


def open_rows(model: Streaming, X: Any, y: Any, groups: Any, weights: Any) -> EncodedRows | None:
    """Return a table that is larger than memory, to be encoded as it is read; None where X is in memory.

    The arguments are those of `fit`. Refusals come from public facts, before a row is read.
    """
    schema = model.schema
    if isinstance(X, np.ndarray):
        return None
    columns = schema.column_names() if schema else ()
    parts = open_partitions(X, columns)
    tables = open_tables(X, columns) if parts is None else None
    if parts is None and tables is None:
        return None
    if schema is None:
        remedy = "Describe its columns with a Schema, or read it into a frame"
        raise InvalidDataError(f"X is read portion by portion, which needs a schema. {remedy}")
    weighed = True if weights is None and model._weighs else weights
    for name, value in (("y", y), ("groups", groups), ("user", schema.user), ("sample_weight", weighed)):
        if value is not None:
            what = "cannot be given with data that are read portion by portion"
            remedy = "Take the target from the schema; for users or weights, read the table into a frame"
            raise InvalidParameterError(name, type(value).__name__, what, remedy)
    blind: Any = clone(cast(Any, model))  # it travels to workers
    blind.set_params(random_state=None)

    features = model._feature_map(None)

    def encode(table: Any) -> tuple[AnyArray, AnyArray]:
        return features.encode(table), blind._targets_of(table, None)

    width = features.domain.n_features
    encode(parts.empty if parts is not None else tables.empty if tables is not None else None)
    model.n_features_in_ = len(schema.columns)
    if parts is not None:
        return EncodedPartitions(parts, encode, width)
    assert tables is not None
    return EncodedTables(tables, encode, width)


def expanded(features: FeatureMap, encoded: Any, targets: Any) -> tuple[Any, Any]:
    """Return X and y as the method for these features takes them, from what `encode` gave."""
    if not isinstance(encoded, EncodedTables | EncodedPartitions):
        return features.expand(encoded), targets

    rows = encoded.then(features.expand, features.domain.n_features)
    return rows, rows


def first_able(plans: tuple[LinearModelPlan, ...], encoded: object) -> LinearModelPlan:
    """Return the first plan that can read such data."""
    found = [plan for plan in plans if plan.only_sums or not isinstance(encoded, EncodedRows)]
    if found:
        return found[0]
    what = "needs single records, and X is read portion by portion"
    remedy = "Use a smooth loss with algorithm='objective_perturbation', or read the table into a frame"
    raise InvalidParameterError("algorithm", plans[0].algorithm, what, remedy)
