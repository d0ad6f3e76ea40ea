"""The model of the target in synthetic data; only `planned`, and the fit of its `Candidate`, concern records."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dpconvex import _rounding
from dpconvex._types import Array, Floats
from dpconvex.algorithms.queries import target_model
from dpconvex.algorithms.queries.released_tables import ReleasedModel, ReleasedTables
from dpconvex.algorithms.search.plan import Candidate
from dpconvex.data import Schema, TableCells
from dpconvex.data.cells import NumberCells
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.classifiers import PrivateLogisticRegression
from dpconvex.estimators.regressors import PrivateLinearRegression
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.queries import Marginals

REPEATS = 8  #: Numbers drawn in each bin, over which predictions are averaged


def planned(
    schema: Schema, names: Sequence[str], n: int, privacy: PrivacyParams, share: float, sums: bool
) -> tuple[Candidate, PrivacyParams]:
    """Return the planned model of a schema's target for a share of epsilon, and the promise that is left.

    `names` are the columns of the synthetic data, the target among them; with `sums` the table is read in portions.
    """
    target, columns = schema.target, tuple(column for column in schema.columns if column.name in names)
    if target is None or target.name not in names or not columns:
        remedy = "Add [target] to the schema, and keep it and another column among columns"
        raise InvalidParameterError("target_share", share, "needs a target", remedy)
    epsilon = _rounding.product_down(privacy.epsilon, share)
    own = replace(schema, columns=columns, weight=None, weight_cap=None)
    kind = PrivateLinearRegression if target.numeric else PrivateLogisticRegression
    size: dict[str, Any] = {} if privacy.neighboring.fixes_size else {"rows": n}
    model = kind(epsilon, 0.0, schema=own, neighbors=str(privacy.neighboring), **size)
    model._sums = sums
    plan = model.plan(n, unit=str(privacy.unit))[0]
    left = replace(privacy, epsilon=_rounding.difference_down(privacy.epsilon, epsilon))
    return Candidate({"epsilon": epsilon}, plan, model), left


@np.errstate(all="ignore")  # what floating point meets depends on the data, so it never speaks up
def described(
    model: PrivateLinearModel, base: ReleasedModel, tables: ReleasedTables | None, cells: TableCells, queries: Marginals
) -> ReleasedModel:
    """Return the distribution `base` of the columns, in which the target follows the released model."""
    axis, zeros = cast(int, queries.center), queries.impossible
    model, generator = _of_drawn(model), np.random.default_rng(0)
    pool, (start, scores) = target_model.pool_of(base, axis, generator), _scores(model, base, cells, axis)
    column, count = cells.columns[axis], cells.shape[axis]
    if isinstance(column, NumberCells):
        drawn: Any = column.decode(np.repeat(np.arange(count), REPEATS**2), generator)
        middles = np.asarray(drawn.cast("float64").to_numpy(zero_copy_only=False)).reshape(count, -1).mean(axis=1)
        noise = 0.0 if tables is None or count == 1 else tables.estimate((axis,))[1]  # one bin is not measured
        return target_model.of_numbers(base, axis, pool, scores, middles, start, noise, zeros)
    given = cast(PrivateLogisticRegression, model).predict_proba(cells.decode(pool[0], generator))
    odds = [np.pad(part, ((0, 0), (count - part.shape[1], 0))) for part in scores]  # two classes have one output
    return target_model.of_classes(base, axis, pool, odds, given, zeros)


def _of_drawn(model: PrivateLinearModel) -> PrivateLinearModel:
    """Return a model for drawn tables, in which columns that are computed from others are there themselves."""
    found, schema = copy(model), cast(Schema, model.schema)
    plain: Any = (replace(each, **{"formula" if each.numeric else "date": ""}) for each in schema.columns)
    found.schema = replace(schema, columns=tuple(plain))
    return found


def _scores(model: PrivateLinearModel, base: ReleasedModel, cells: TableCells, axis: int) -> tuple[float, list[Floats]]:
    """Return what each value of each column adds to the linear predictions, (values, outputs), and the first start.

    They are additive, so one record suffices whose values are changed one by one.
    """
    shape = cells.shape
    first = np.array([base.marginal((k,)).argmax() for k in range(len(shape))])
    places = [(k, value) for k, size in enumerate(shape) if k != axis for value in range(size)]
    records: Array = np.tile(first, (len(places) + 1, 1))
    records[np.arange(1, len(records)), [k for k, _ in places]] = [value for _, value in places]
    drawn = cells.decode(np.repeat(records, REPEATS, axis=0), np.random.default_rng(1))
    found = model._linear(drawn).reshape(len(records), REPEATS, -1).mean(axis=1)
    scores = [np.zeros((size, found.shape[1])) for size in shape]
    for (k, value), row in zip(places, found[1:], strict=True):
        scores[k][value] = row - found[0]
    return float(found[0, 0]), scores
