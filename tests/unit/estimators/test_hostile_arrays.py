"""Adversarial arrays and columns into every estimator: what a cell holds never raises, warns, logs or shows."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone, is_classifier

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateGeometricMedian,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
    Schema,
)
from dpconvex.data import ClassTarget
from dpconvex.errors import DpconvexError
from dpconvex.estimators import ESTIMATORS

pytestmark = [pytest.mark.thin, pytest.mark.together]

N = 24


def again(model: Any, **changes: Any) -> Any:
    """Return an unfitted copy with some parameters changed."""
    copy: Any = clone(model)
    return copy.set_params(**changes)


def target(model: Any) -> dict[str, Any]:
    return {"classes": [0, 1]} if is_classifier(model()) else {"target_bounds": (-1.0, 1.0)}


LINEAR = [model(epsilon=1.0, feature_norm=1.0, random_state=0, **target(model)) for model in ESTIMATORS]
SCALED = [again(model, feature_norm=None, feature_bounds=(-1.0, 1.0)) for model in LINEAR]
SPARSE = [
    PrivateLasso(feature_bound=1.0, random_state=0, target_bounds=(-1.0, 1.0)),
    PrivateSparseLogisticRegression(feature_bound=1.0, random_state=0, classes=[0, 1]),
]
WORST = PrivateWorstGroupClassifier(
    feature_bound=1.0, groups=[0, 1], group_shares=(0.5, 0.5), random_state=0, classes=[0, 1]
)
MEDIAN = PrivateGeometricMedian(radius_bound=10.0, random_state=0)
NUMERIC = [*LINEAR, *SCALED, *SPARSE, WORST, MEDIAN]
NAMES = [f"{type(model).__name__}{'-scaled' if model in SCALED else ''}" for model in NUMERIC]

EXTREME = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 2.0**-1022, 1e16, 0.5]
cells = st.sampled_from(EXTREME) | st.floats(width=64)
KINDS = [np.float64, np.float32, np.float16, np.longdouble, np.int8, np.uint64, np.int64, np.bool_]


def outcome(model: Any, X: Any, y: Any) -> tuple[Any, ...]:
    """Return all that is public about a run: its certificate, or its error; and what predictions look like."""
    model = again(model)
    try:
        if isinstance(model, PrivateGeometricMedian):
            model.fit(X)
            assert np.isfinite(model.location_).all()
        else:
            model.fit(X, y, **({"groups": y} if isinstance(model, PrivateWorstGroupClassifier) else {}))
            assert np.isfinite(model.coef_).all()
            found = model.predict(X)
            assert found.shape == (len(X),)
            assert np.isfinite(found.astype(float)).all()
    except DpconvexError as error:
        return type(error).__name__, str(error)
    return dataclasses.replace(model.certificate_, model=None).to_json(), model.n_features_in_


PLAIN = {id(model): {} for model in NUMERIC}


def reference(model: Any, shape: tuple[int, int], kind: Any) -> tuple[Any, ...]:
    """Return the outcome on zeros and ones of the same form."""
    known = PLAIN[id(model)]
    if (shape, kind) not in known:
        known[shape, kind] = outcome(model, np.eye(*shape).astype(kind), (np.arange(shape[0]) % 2).astype(kind))
    return known[shape, kind]


@pytest.mark.parametrize("model", NUMERIC, ids=NAMES)
@settings(max_examples=5)
@given(data=st.data())
def test_numbers_say_nothing(model: Any, data: Any) -> None:
    shape = data.draw(st.sampled_from([(N, 1), (N, 3), (1, 2)]))
    X = data.draw(hnp.arrays(np.float64, shape, elements=cells, fill=cells))
    y = data.draw(hnp.arrays(np.float64, shape[:1], elements=cells, fill=cells))
    assert outcome(model, X, y) == reference(model, shape, np.float64)


@pytest.mark.parametrize(
    "model", [LINEAR[0], SCALED[2], *SPARSE, WORST, MEDIAN], ids=lambda model: type(model).__name__
)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: np.dtype(kind).name)
def test_the_ends_of_every_type_say_nothing(model: Any, kind: Any) -> None:
    info = np.iinfo if np.dtype(kind).kind in "iu" else np.finfo
    ends = [0, 1] if kind is np.bool_ else [info(kind).min, info(kind).max, 0, 1]
    X = np.resize(np.array(ends, dtype=kind), (N, 3))
    assert outcome(model, X, np.resize(np.array(ends, dtype=kind), N)) == reference(model, (N, 3), kind)


@pytest.mark.slow
@pytest.mark.parametrize("model", NUMERIC, ids=NAMES)
@settings(max_examples=200)
@given(data=st.data())
def test_numbers_say_nothing_at_length(model: Any, data: Any) -> None:
    shape = data.draw(st.sampled_from([(N, 1), (N, 3), (1, 2), (2 * N, 8)]))
    X = data.draw(hnp.arrays(np.float64, shape, elements=cells, fill=cells))
    y = data.draw(hnp.arrays(np.float64, shape[:1], elements=cells, fill=cells))
    assert outcome(model, X, y) == reference(model, shape, np.float64)


FORMS: dict[str, Callable[[], Any]] = {
    "no rows": lambda: np.zeros((0, 3)),
    "no columns": lambda: np.zeros((3, 0)),
    "flat": lambda: np.zeros(3),
    "cube": lambda: np.zeros((3, 3, 3)),
    "text": lambda: np.array([["a", "b"]] * N),
    "objects": lambda: np.array([[object(), 1]] * N),
    "mixed": lambda: np.array([[1, "x"], [None, 2.0]] * N, dtype=object),
    "complex": lambda: np.zeros((N, 2), dtype=complex),
    "times": lambda: np.zeros((N, 2), dtype="M8[s]"),
    "records": lambda: np.zeros(N, dtype=[("a", float)]),
    "nothing": lambda: None,
    "frame of text": lambda: pd.DataFrame({"a": ["x"] * N}),
    "no frame": lambda: pd.DataFrame(),
    "polars text": lambda: pl.DataFrame({"a": ["x"] * N}),
    "dictionary": lambda: {"a": [1.0]},
}


@pytest.mark.parametrize("model", NUMERIC, ids=NAMES)
@pytest.mark.parametrize("form", FORMS)
def test_odd_forms_are_one_kind_of_error(model: Any, form: str) -> None:
    X = FORMS[form]()
    assert outcome(model, X, np.zeros(N))[0] in ("InvalidDataError", "InvalidParameterError")


class Loud:
    """A cell that fails at whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("secret")

    __repr__ = __eq__ = __ne__ = __bool__ = __hash__ = __float__ = __array__ = __len__ = __str__  # pyright: ignore


class Liar(float):
    """A number that fails when it is asked for its class."""

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("secret")


class Endless(list):
    """A list of no length."""

    __len__ = Loud.__len__


@pytest.mark.parametrize("make", [lambda: Liar(1.0), lambda: Endless([1.0])], ids=["class", "length"])
def test_elements_of_lists_may_lie_of_their_class_and_length(make: Any) -> None:
    model = PrivateLinearRegression(1.0, feature_bounds=(0, 1), target_bounds=(0, 1), random_state=0)
    X, y = [[0.5]] * 50, [0.5] * 50
    missing = model.fit([[float("nan")], *X], [float("nan"), *y]).coef_.tolist()
    assert model.fit([[make()], *X], [make(), *y]).coef_.tolist() == missing


SCHEMA = Schema(
    (NumericColumn("x", 0.0, 10.0), CategoricalColumn("c", ("red", "7"), other=True)), ClassTarget("y", ("no", "yes"))
)
TABLES = [
    *(model(epsilon=1.0, schema=SCHEMA, random_state=0) for model in ESTIMATORS if is_classifier(model())),
    PrivateSparseLogisticRegression(schema=SCHEMA, random_state=0),
    PrivateWorstGroupClassifier(schema=SCHEMA, group_column="c", group_shares=(0.4, 0.3, 0.3), random_state=0),
    PrivateSyntheticData(schema=SCHEMA, bins=3, random_state=0),
]
TABLE = pytest.mark.parametrize("model", TABLES, ids=lambda model: type(model).__name__)
MAKERS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "objects": lambda columns: pd.DataFrame(
        {k: pd.Series(v, dtype=object) for k, v in columns.items() if k != "x"}
    ).assign(x=columns["x"]),
    "polars": pl.DataFrame,
    "arrow": pa.table,
}


def fitted(model: Any, table: Any) -> str:
    model = again(model).fit(table)
    if not isinstance(model, PrivateSyntheticData):
        assert len(model.predict(table)) == N
    return dataclasses.replace(model.certificate_, model=None).to_json()


texts = st.sampled_from(["red", "7", "7.0", "", " ", "\0", "\u202e", "a" * 1000, "yes", "NaN", None]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=5
)


@TABLE
@pytest.mark.parametrize("make", MAKERS)
@settings(max_examples=2)
@given(data=st.data())
def test_cells_of_tables_say_nothing(model: Any, make: str, data: Any) -> None:
    columns = {
        "x": data.draw(st.lists(cells, min_size=N, max_size=N)),
        "c": ["red", *data.draw(st.lists(texts, min_size=N - 1, max_size=N - 1))],
        "y": ["no", *data.draw(st.lists(texts, min_size=N - 1, max_size=N - 1))],
    }
    plain = {"x": [1.0] * N, "c": ["red"] * N, "y": ["no"] * N}
    assert fitted(model, MAKERS[make](columns)) == fitted(model, MAKERS[make](plain))


@TABLE
def test_objects_in_cells_say_nothing(model: Any, caplog: pytest.LogCaptureFixture) -> None:
    odd = [Loud(), None, pd.NA, np.nan, b"\xff", "\ud800", 7, 7.0, True, (), [1], {"a": 1}, type, datetime.date.max]
    odd += [decimal.Decimal("sNaN"), complex(1, 1), np.float32(7), 10**400, -0.0, "red", pd.NaT, np.datetime64("NaT")]
    cells: Any = pd.Series((odd * 2)[:N], dtype=object)
    with caplog.at_level(logging.DEBUG):
        seen = fitted(model, pd.DataFrame({"x": [1.0] * N, "c": cells, "y": cells[::-1].reset_index(drop=True)}))
    plain = pd.DataFrame({"x": [1.0] * N, "c": ["red"] * N, "y": ["no"] * N}).astype({"c": object, "y": object})
    assert seen == fitted(model, plain)
    assert not [record for record in caplog.records if record.name.startswith("dpconvex")]


ARROW = [
    (pa.float16(), [np.float16(1), np.float16("nan"), None]),
    (pa.uint64(), [2**64 - 1, 0, None]),
    (pa.decimal128(38, 0), [decimal.Decimal(10**37), decimal.Decimal(1), None]),
    (pa.decimal256(76, 75), [decimal.Decimal("9." + "9" * 75), decimal.Decimal(1), None]),
    (pa.bool_(), [True, False, None]),
    (pa.null(), [None, None, None]),
    (pa.dictionary(pa.int8(), pa.float64()), [1.0, 2.0, None]),
    (pa.dictionary(pa.int8(), pa.string()), ["red", "", None]),
    (pa.string_view(), ["red", "a" * 1000, None]),
    (pa.large_string(), ["red", "", None]),
    (pa.binary(), [b"\xff", b"", None]),
    (pa.list_(pa.int8()), [[1], [], None]),
    (pa.struct([("a", pa.int8())]), [{"a": 1}, {"a": None}, None]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    (pa.timestamp("ns", "Europe/Berlin"), [0, 2**62, None]),
    (pa.duration("s"), [0, 2**62, None]),
]


@pytest.mark.parametrize("model", [TABLES[0]], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(("kind", "values"), ARROW, ids=[str(kind) for kind, _ in ARROW])
@pytest.mark.parametrize("column", ["x", "c", "y"])
def test_what_a_column_may_hold_is_decided_by_its_type(model: Any, kind: Any, values: list[Any], column: str) -> None:
    """Each of these types is read or refused, whatever its cells."""
    found = set()
    for chosen in ([values[0]] * N, [values[1]] * N, [None] * N, (values * N)[:N]):
        columns = {"x": pa.array([1.0] * N), "c": pa.array(["red"] * N), "y": pa.array(["no"] * N)}
        try:
            found.add(fitted(model, pa.table(columns | {column: pa.array(chosen, kind)})))
        except DpconvexError as error:
            found.add(f"{type(error).__name__}: {error}")
    assert len(found) == 1
