"""The same bits from memory, folders, lazy frames and streams; refusals from public facts; noise is drawn once."""

from __future__ import annotations

import dataclasses
import sys
import weakref
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from sklearn.base import clone

from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSearchCV,
    PrivateSyntheticData,
    budget_context,
)
from dpconvex.algorithms.erm.gradient_descent import typical_steps
from dpconvex.algorithms.erm.heavy_tailed import clipped_gradient
from dpconvex.algorithms.erm.objective_perturbation import ObjectivePerturbationPlan
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, NumericTarget, Schema, in_order, open_files
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators import _features, _streams
from dpconvex.problems.data import summation
from dpconvex.problems.data.sources import rows as held
from dpconvex.problems.data.sources.arrow import MEMORY, open_tables
from dpconvex.problems.data.sources.cluster import DaskPartitions

N = 1500
COLUMNS = (
    NumericColumn("age", 0, 100),
    NumericColumn("gain", 0, 1000, "log1p"),
    CategoricalColumn("town", ("Aa", "Bb", "Cc", "Dd"), other=True),
)
CLASSES = Schema(COLUMNS, ClassTarget("sick", ("no", "yes")))
NUMBERS = Schema(COLUMNS, NumericTarget("cost", 0, 10))
MODELS = {
    "logistic": (PrivateLogisticRegression, CLASSES, {}),
    "capped": (PrivateLogisticRegression, CLASSES, {"slope_cap": 0.7, "algorithm": "objective_perturbation"}),
    "output": (PrivateLogisticRegression, CLASSES, {"algorithm": "output_perturbation"}),
    "svc": (PrivateLinearSVC, CLASSES, {"delta": 1e-6, "algorithm": "objective_perturbation"}),
    "least squares": (PrivateLinearRegression, NUMBERS, {"algorithm": "objective_perturbation"}),
    "statistics": (PrivateLinearRegression, NUMBERS, {"delta": 1e-6, "algorithm": "sufficient_statistics"}),
    "huber": (PrivateHuberRegressor, NUMBERS, {"algorithm": "output_perturbation"}),
    "tilt": (PrivateLogisticRegression, CLASSES, {"tilt": 2.0}),
    "attack": (PrivateLogisticRegression, CLASSES, {"adversarial_radius": 0.1}),
    "gradient": (PrivateLogisticRegression, CLASSES, {"epsilon": 0.4, "delta": 1e-6, "algorithm": "noisy_gradient"}),
    "centered": (PrivateLogisticRegression, CLASSES, {"epsilon": 8.0, "delta": 1e-6, "algorithm": "recentering"}),
    "clipped residuals": (
        PrivateLinearRegression,
        NUMBERS,
        {"delta": 1e-6, "heavy_tailed": (2.0, 5.0), "algorithm": "clipped_residuals"},
    ),
    "clipped gradients": (
        PrivateLinearRegression,
        NUMBERS,
        {"delta": 1e-6, "heavy_tailed": (2.0, 5.0), "algorithm": "clipped_gradient"},
    ),
    "level": (PrivateHuberRegressor, NUMBERS, {"heavy_tailed": 2.0, "algorithm": "clipped_residuals"}),
    "level of gradients": (
        PrivateLinearRegression,
        NUMBERS,
        {"delta": 1e-6, "heavy_tailed": 2.0, "algorithm": "clipped_gradient"},
    ),
}


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    age, town = rng.normal(50, 30, N), rng.choice(["Aa", "Bb", "Cc", "Dd", "Zz"], N)
    age[:5] = [np.nan, np.inf, -np.inf, 1e300, 0.0]
    gain = np.where(rng.random(N) < 0.1, np.nan, rng.exponential(100, N))
    sick = np.where(rng.random(N) < 1 / (1 + np.exp(-(age - 50) / 20)), "yes", "no")
    cost = pa.array(np.clip(age, 0, 100) / 20 + rng.normal(0, 1, N), mask=rng.random(N) < 0.01)
    return pa.table({"age": age, "cost": cost, "town": town, "gain": gain, "sick": sick, "unused": age})


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The same rows in memory, and elsewhere in another order."""
    whole, folder = table(), tmp_path_factory.mktemp("visits")
    order = np.random.default_rng(1).permutation(N)
    for k, part in enumerate(np.array_split(order, [3, 300, 301, 1200])):
        (folder / f"month={k}").mkdir()
        pa.parquet.write_table(whole.take(part), folder / f"month={k}" / "part.parquet", row_group_size=250)
        pa.csv.write_csv(whole.take(part), folder / f"{k}.csv")
    return {
        "arrow data set": pa.dataset.dataset(folder, format="parquet", exclude_invalid_files=True),
        "folder": open_files(folder / "month=*", CLASSES),
        "pattern": open_files(folder / "*" / "*.parquet", CLASSES),
        "lazy frame": pl.from_arrow(whole.take(order)).lazy(),
        "stream": Stream(whole.take(order)),
        "csv": folder,
    }


class Stream:
    """As a relation of a database: it can be read again, and is no table."""

    def __init__(self, whole: pa.Table) -> None:
        self.whole, self.reads = whole, 0

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        self.reads += 1
        batches = self.whole.to_batches(max_chunksize=250)
        return pa.RecordBatchReader.from_batches(self.whole.schema, batches).__arrow_c_stream__(requested_schema)


class Shuffled(Stream):
    """As a join: rows come in another order each time."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        found = self.whole.take(np.random.default_rng(self.reads).permutation(len(self.whole)))
        self.reads += 1
        return pa.RecordBatchReader.from_batches(found.schema, found.to_batches(max_chunksize=250)).__arrow_c_stream__()


def fitted(name: str, X: object):
    model, schema, options = MODELS[name]
    return model(**{"epsilon": 1.0, "schema": schema, "random_state": 5, **options}).fit(X)


@cache
def in_memory() -> PrivateLogisticRegression:
    """The logistic model of the table in memory, fitted once."""
    return fitted("logistic", table())


SETTINGS = ((1, 2**28), (3, 150_000))
"""Threads that encode, and memory for portions: one portion, or several."""


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.thin
@pytest.mark.dear("svc", "clipped gradients")
def test_every_source_gives_the_same_model(name, places, monkeypatch, full, same_certificate) -> None:
    monkeypatch.setattr(summation, "threads", lambda: 1)
    # Passes are all alike: what differs is how portions are read.
    monkeypatch.setattr(clipped_gradient, "MOST_STEPS", 16)
    monkeypatch.setattr(typical_steps, "TUNING", dataclasses.replace(typical_steps.TUNING, most_steps=16))
    expected = fitted(name, table())
    # Whatever reads the rows, sums see portions: so the gate takes two of the places in turn, each with both settings.
    turn = list(MODELS).index(name)
    kinds = [("arrow data set", "folder", "pattern", "lazy frame", "stream")[(turn + k) % 5] for k in (0, 2)]
    cases = list(zip(kinds if full else ("folder", "stream"), SETTINGS[:: (-1) ** (turn // 5)], strict=True))
    for place, (threads, memory) in cases:
        monkeypatch.setattr(summation, "threads", lambda threads=threads: threads)
        MEMORY.set(memory)
        found = fitted(name, places[place])
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        same_certificate(found.certificate_, expected.certificate_)
        assert found.n_features_in_ == expected.n_features_in_


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.thin
def test_sparse_portions_give_the_same_model(name, places, monkeypatch) -> None:
    monkeypatch.setattr(clipped_gradient, "MOST_STEPS", 16)
    monkeypatch.setattr(typical_steps, "TUNING", dataclasses.replace(typical_steps.TUNING, most_steps=16))
    expected = fitted(name, table())
    made = []
    encode = Schema.sparse_cells
    monkeypatch.setattr(Schema, "sparse_cells", lambda *args, **given: made.append(0) or encode(*args, **given))
    monkeypatch.setattr(_streams, "LEAST", 0)
    monkeypatch.setattr(_streams, "SPARSE", 0)
    monkeypatch.setattr(summation, "SPARSE", 0)
    for X in (places["folder"], table().to_pandas()):
        np.testing.assert_array_equal(fitted(name, X).coef_, expected.coef_)
    assert made or name in ("attack", "centered", "clipped residuals", "level")


def owned() -> pa.Table:
    return table().append_column("who", pa.array(np.random.default_rng(2).integers(0, 300, N).astype(str)))


USERS = dataclasses.replace(CLASSES, user="who")
BY_INDEX = {
    "users": PrivateLogisticRegression(1.0, schema=USERS, random_state=5),
    "users, descent": PrivateLogisticRegression(
        1.0, delta=1e-6, schema=USERS, algorithm="noisy_gradient", random_state=5
    ),
    "users, additive": PrivateAdditiveClassifier(1.0, schema=USERS, random_state=5),
    "users, ranges": PrivateLogisticRegression(20.0, schema=USERS.without_ranges(), random_state=5),
    "users, synthetic": PrivateSyntheticData(1.0, schema=USERS, random_state=5),
    "search": PrivateSearchCV(
        PrivateLogisticRegression(8.0, schema=CLASSES, random_state=5), {"coefficient_norm": [2.0, 6.0]}
    ),
}
"""Fits in which facts of rows go by their places."""


@pytest.mark.parametrize("name", BY_INDEX)
def test_what_goes_by_place_needs_an_order_that_is_known_or_declared(name: str, places) -> None:
    """Public facts decide, before anything is read or paid: an order that is looked at would tell of the rows."""
    model, whole = BY_INDEX[name], owned()
    unit = "user" if name.startswith("users") else "record"
    with budget_context(epsilon=100.0, delta=1e-3, unit=unit) as budget:
        for X in (Shuffled(whole), pl.from_arrow(whole).lazy(), Stream(whole)):
            with pytest.raises(InvalidDataError, match=r"go by place\. Write it to Parquet, or declare the order"):
                clone(model).set_params(**unseeded(model)).fit(X)
        assert budget.account().left[0] == 100.0
    expected = clone(model).fit(in_memory_of(whole))
    for X in (pl.from_arrow(whole).lazy(), Stream(whole)):
        found = clone(model).fit(in_order(X))
        for attribute in ("coef_", "histogram_"):
            for each in ("best_estimator_",) if name == "search" else ("",):
                one, other = (getattr(found, each) if each else found), (getattr(expected, each) if each else expected)
                if hasattr(one, attribute):
                    np.testing.assert_array_equal(getattr(one, attribute), getattr(other, attribute))


def unseeded(model: Any) -> dict[str, Any]:
    return {name: None for name in model.get_params() if name.endswith("random_state")}


def in_memory_of(whole: pa.Table) -> Any:
    """A file's rows, which have one order: the same method runs as on streams."""
    return pa.dataset.dataset(whole)


@pytest.mark.parametrize("name", ["logistic", "output", "gradient", "centered"])
def test_sums_over_records_do_not_depend_on_the_order_of_any_pass(name: str) -> None:
    found = fitted(name, Shuffled(table()))
    np.testing.assert_array_equal(found.coef_, fitted(name, table()).coef_)


def test_labels_by_place_need_files(places) -> None:
    for place in ("lazy frame", "stream"):
        with pytest.raises(InvalidDataError, match="users go by place"):
            PrivateLogisticRegression(1.0, schema=CLASSES).fit(places[place], groups=np.arange(N))
        assert PrivateLogisticRegression(1.0, schema=CLASSES).fit(in_order(places[place]), groups=np.arange(N))
    by_label = PrivateLogisticRegression(1.0, schema=CLASSES, random_state=5)
    assert by_label.fit(places["folder"], groups=np.arange(N)).plan_.privacy.unit == "user"


TOWNS = tuple(f"{a}{b}" for a in "ABCDEF" for b in "abcdef")
WIDE = Schema((*COLUMNS[:2], CategoricalColumn("town", TOWNS), CategoricalColumn("sex", ("f", "m"))), CLASSES.target)


@pytest.mark.parametrize(("kind", "sums"), [("arrow", True), ("pandas", False)])
def test_cells_in_memory_give_the_same_model(kind, sums, monkeypatch) -> None:
    """Positions of categories in one byte each, in the place of a matrix of zeros and ones."""
    whole = table().append_column("sex", [np.where(np.arange(N) % 3, "f", "m")])
    frame = whole if kind == "arrow" else whole.to_pandas()
    model = PrivateLogisticRegression(1.0, schema=WIDE, random_state=5, algorithm="objective_perturbation")
    expected = clone(model).fit(frame)
    made = []
    monkeypatch.setattr(ObjectivePerturbationPlan, "only_sums", sums)  # what needs single records gets the matrix
    monkeypatch.setattr(held, "_STEP", 300)
    monkeypatch.setattr(held, "_PORTION", 2**14)
    monkeypatch.setattr(_streams, "LEAST", 0)
    monkeypatch.setattr(_streams, "CellRows", lambda *args: made.append(held.CellRows(*args)) or made[-1])
    found = clone(model).fit(frame)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.certificate_ == expected.certificate_
    assert [column.dtype for column in made[0]._cells] == [np.float64, np.float64, np.int8, np.int8]
    monkeypatch.setattr(_features, "PREDICTED", 700)
    np.testing.assert_array_equal(found.predict(frame), expected.predict(frame))


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearRegression])
def test_cells_in_memory_may_have_their_targets_apart(kind, monkeypatch) -> None:
    frame = table().append_column("sex", [np.where(np.arange(N) % 3, "f", "m")]).to_pandas()
    y = np.arange(N) % 2 if kind is PrivateLogisticRegression else frame["age"].to_numpy()
    given = {"classes": [0, 1]} if kind is PrivateLogisticRegression else {"target_bounds": (0, 100)}
    model = kind(1.0, schema=Schema(WIDE.columns), random_state=5, algorithm="objective_perturbation", **given)
    expected = clone(model).fit(frame, y)
    made = []
    monkeypatch.setattr(held, "_STEP", 300)
    monkeypatch.setattr(_streams, "LEAST", 0)
    monkeypatch.setattr(_streams, "CellRows", lambda *args: made.append(held.CellRows(*args)) or made[-1])
    found = clone(model).fit(frame, y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.certificate_ == expected.certificate_
    assert len(made) == 1
    with pytest.raises(InvalidDataError, match="records"):
        clone(model).fit(frame, y[1:])


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearRegression])
@pytest.mark.parametrize("options", [{}, {"epsilon": 8.0, "delta": 1e-6, "algorithm": "recentering"}])
def test_large_arrays_are_scaled_portion_by_portion(kind, options, monkeypatch) -> None:
    """Whole copies of an array, scaled, cut and moved, took eight times its memory."""
    X = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
    X[:4, 0] = [np.nan, np.inf, -np.inf, 1e30]
    y = np.arange(N) % 2 if kind is PrivateLogisticRegression else X[:, 1]
    given = {"classes": [0, 1]} if kind is PrivateLogisticRegression else {"target_bounds": (-4, 4)}
    model = kind(**{"epsilon": 1.0, "feature_bounds": (-4, 4), "random_state": 5, **given, **options})
    expected = clone(model).fit(X, y)
    made = []
    monkeypatch.setattr(held, "_PORTION", 2**14)
    monkeypatch.setattr(_streams, "LEAST", 0)
    monkeypatch.setattr(
        _streams, "CellRows", lambda *args, **more: made.append(held.CellRows(*args, **more)) or made[-1]
    )
    found = clone(model).fit(X, y)
    assert np.shares_memory(made[0]._cells[0], X)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert (found.certificate_, found.n_features_in_) == (expected.certificate_, 3)
    with pytest.raises(InvalidDataError, match="records"):
        clone(model).fit(X, y[1:])


@pytest.mark.parametrize("algorithm", ["objective_perturbation", "noisy_gradient"])
def test_a_table_that_grows_during_a_fit_ends_it_with_one_error(algorithm) -> None:
    whole = table().append_column("who", [np.arange(N) % 60])

    class Grows:
        passes = 0

        def __arrow_c_stream__(self, requested_schema=None):
            self.passes += 1
            found = whole if self.passes < 4 else pa.concat_tables([whole, whole[:100]])
            return found.__arrow_c_stream__()

    model = PrivateLogisticRegression(3.0, 1e-6, schema=dataclasses.replace(CLASSES, user="who"), algorithm=algorithm)
    with pytest.raises(InvalidDataError, match=f"had {N} rows when it was opened and [0-9]+ when it was read"):
        model.fit(in_order(Grows()))


def test_lazy_frames_and_data_sets(places) -> None:
    expected = in_memory()
    for place in ("arrow data set", "pattern", "lazy frame"):
        np.testing.assert_array_equal(fitted("logistic", places[place]).coef_, expected.coef_)


def test_csv_files_are_read_as_text(places) -> None:
    """Arrow's own reader would guess types from cells; ours reads numbers cell by cell."""
    found = fitted("logistic", open_files(Path(str(places["csv"])) / "*.csv", CLASSES))
    np.testing.assert_array_equal(found.coef_, in_memory().coef_)
    with pytest.raises(InvalidDataError, match="guesses types"):
        fitted("logistic", pa.dataset.dataset(list(Path(str(places["csv"])).glob("*.csv")), format="csv"))


def test_noise_is_drawn_once_whatever_is_read(places, monkeypatch) -> None:
    """A pass over the data, or a task that is repeated, draws nothing: the source is asked as often as in memory."""
    from dpconvex.randomness import SeededSource

    states = []
    for X in (table(), places["stream"]):
        source = SeededSource(7)
        PrivateLogisticRegression(1.0, schema=CLASSES, random_state=source).fit(X)
        states.append(source.generator().integers(2**62))
    assert states[0] == states[1]
    assert places["stream"].reads > 3  # type: ignore[attr-defined]


def test_refusals_come_from_public_facts(places, tmp_path) -> None:
    def refused(X, match, error=InvalidDataError, model=PrivateLogisticRegression, **options):
        options = {"schema": CLASSES, **options}
        with pytest.raises(error, match=match):
            model(1.0, **options).fit(X)

    stream = places["stream"]
    refused(pa.RecordBatchReader.from_batches(table().schema, []), "read once")
    refused(Stream(table().drop_columns("town")), "lacks the schema's column 'town'")
    refused(Stream(table().slice(0, 0)), "0 sample")
    refused(stream, "needs a schema", schema=None, feature_norm=1.0)
    refused(stream, "single records", InvalidParameterError, PrivateLinearSVC, smoothing=0, delta=0.0)
    one_pass = {"schema": dataclasses.replace(CLASSES, user="unused"), "delta": 1e-6, "algorithm": "phased_sgd"}
    refused(in_order(stream), "portion by portion", InvalidParameterError, **one_pass)
    with pytest.raises(InvalidParameterError, match="portion by portion"):
        PrivateLogisticRegression(1.0, schema=CLASSES).fit(stream, y=np.zeros(N))
    for name, place in (("folder", tmp_path / "nothing"), ("other", tmp_path)):
        (tmp_path / "a.txt").write_text(name)
        with pytest.raises(InvalidDataError, match="must"):
            open_files(place, CLASSES)


class Changing(Stream):
    """Loses rows, or fails with a message that quotes a cell, once it has been counted."""

    def __init__(self, whole: pa.Table, fails: bool) -> None:
        super().__init__(whole)
        self.fails = fails

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if self.reads > 2:
            if self.fails:
                raise RuntimeError("cell 'Aa' of secret row 17")
            self.whole = table().slice(1)
        return super().__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("fails", "what"), [(True, r"could not be read \(RuntimeError\)"), (False, "rows when it was")]
)
def test_files_that_change_or_break_end_in_one_error_without_content(fails, what) -> None:
    with pytest.raises(InvalidDataError, match=what) as error:
        fitted("logistic", Changing(table(), fails))
    assert "Aa" not in str(error.value)
    assert error.value.__cause__ is None


def test_portions_are_encoded_by_several_threads_of_which_few_wait(places, monkeypatch) -> None:
    expected = in_memory().coef_  # by as many threads as there are
    monkeypatch.setattr(summation, "threads", lambda: 3)
    tables = open_tables(places["stream"], CLASSES.column_names())
    assert tables is not None
    encoded, used = [], []

    def encode(part: Any) -> tuple[np.ndarray, np.ndarray]:
        encoded.append(len(part))
        return np.zeros((len(part), 7)), np.zeros(len(part))

    rows = dataclasses.replace(tables, memory=30_000).encoded(encode, 7)
    for first, m in rows.run(lambda portion, first, held: (first, len(portion[1]))):
        assert first == sum(used)  # in order here, though nobody may rely on it
        used.append(m)
        assert len(encoded) <= len(used) + 4
    assert sum(used) == N
    assert len(used) > 8
    assert np.array_equal(fitted("logistic", places["stream"]).coef_, expected)


def test_portions_stay_below_their_memory(places) -> None:
    tables = open_tables(places["stream"], CLASSES.column_names())
    assert tables is not None
    rows = dataclasses.replace(tables, memory=100_000).encoded(
        lambda part: (np.zeros((len(part), 7)), np.zeros(len(part))), 7
    )
    sizes = list(rows.run(lambda portion, *_: len(portion[1])))
    assert sum(sizes) == len(rows) == N
    assert max(sizes) * 8 * 7 <= 100_000


def test_some_rows_of_texts_that_are_views_are_taken() -> None:
    texts = pa.array(["a", None, "c" * 100, "d"], pa.string_view())  # Arrow itself takes none of these
    tables = open_tables(Stream(pa.table({"text": texts, "number": [1.0, 2.0, 3.0, 4.0]})), None)
    assert tables is not None
    (part,) = tables.taken(np.array([1, 2])).portions(1)
    assert part.to_pydict() == {"text": [None, "c" * 100], "number": [2.0, 3.0]}


def test_frames_in_memory_are_no_sources() -> None:
    whole = table()
    for X in (whole, whole.to_pandas(), pl.from_arrow(whole), whole.to_batches()[0], np.zeros((3, 2)), [[1.0]], None):
        assert open_tables(X, CLASSES.column_names()) is None


def test_plans_that_need_single_records_take_no_source(places) -> None:
    model = PrivateLogisticRegression(1.0, schema=CLASSES)
    plans = {plan.algorithm: plan for plan in model.plan(N)}
    after_looks: Any = plans["objective_perturbation"]
    assert isinstance(after_looks.then, ObjectivePerturbationPlan)
    assert plans["objective_perturbation"].only_sums
    users = {plan.algorithm: plan for plan in PrivateLogisticRegression(1.0, 1e-6, schema=CLASSES).plan(N, unit="user")}
    assert users["objective_perturbation"].only_sums
    assert users["noisy_gradient"].only_sums
    assert not users["phased_sgd"].only_sums


def test_frames_that_guess_types_are_refused(tmp_path: Path) -> None:
    """Polars guesses types of names of folders from all of them, and fails at one malformed line of a CSV file."""
    for name in ("0", "1"):
        (tmp_path / "csv" / f"u={name}").mkdir(parents=True)
        pa.parquet.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "csv" / f"u={name}" / "part.parquet")
    (tmp_path / "a.csv").write_text("x,u\n1,2\n")
    folders = pl.scan_parquet(tmp_path / "csv", hive_partitioning=True)
    assert open_tables(folders, ["x"]) is not None  # a folder called csv holds no text files
    for hive in (None, {"u": pl.String}):
        with pytest.raises(InvalidDataError, match="'u' of X is made of names of folders"):
            open_tables(pl.scan_parquet(tmp_path / "csv", hive_schema=hive), ["x", "u"])
    for lazy in (folders.rename({"u": "who"}), folders.with_columns(who=pl.col("u"))):
        with pytest.raises(InvalidDataError, match="'u' of X is made of names of folders"):
            open_tables(lazy, ["x", "who"])
    for lazy in (pl.scan_csv(tmp_path / "a.csv"), pl.scan_csv(tmp_path / "a.csv").filter(pl.col("x") > 0)):
        with pytest.raises(InvalidDataError, match="text files through polars"):
            open_tables(lazy, ["x"])


def test_lazy_frames_that_cast_strictly_are_refused(tmp_path: Path) -> None:
    """One cell that is no number made a fit fail after it was paid; whether there is one must not matter."""
    frame = pl.DataFrame({"x": ["1", "odd"], "k": [1, 2], "t": ["a", "b"]})
    frame.write_parquet(tmp_path / "a.parquet")
    X = pl.scan_parquet(tmp_path / "a.parquet")
    for lazy in (X, X.filter(pl.col("x") != "odd")):
        with pytest.raises(InvalidDataError, match="casts strictly"):
            open_tables(lazy.with_columns(pl.col("x").cast(pl.Float64)), ["x"])
    with pytest.raises(InvalidDataError, match="casts strictly"):  # which was computed while the header was read
        open_tables(X.cast({"x": pl.Float64}).group_by("t").agg(pl.col("x").max()), ["x"])
    for plain in (
        X.with_columns(pl.col("x").cast(pl.Float64, strict=False)),
        X.filter(pl.col("k") > 0.5).with_columns(x=pl.col("k") * 1.5 + pl.col("k").mean().over("t")),
        X.join(X.select("k", z="t"), on="k").select("x", "z").rename({"z": "strict_cast"}),
        X.group_by("t").agg(pl.col("k").mean(), pl.col("x").first()).sort("t").head(5),
        pl.concat([X, X]),
    ):
        assert open_tables(plain, ["x"]) is not None


def test_readers_of_text_that_hide_are_refused(tmp_path: Path, monkeypatch) -> None:
    """Unions of unions, data sets inside of polars, and relations of DuckDB."""
    (tmp_path / "a.csv").write_text("x,csv\n1,2\n")
    text = pa.dataset.dataset(tmp_path / "a.csv", format="csv")
    for X in (text, pa.dataset.dataset([text]), pa.dataset.dataset([pa.dataset.dataset([text])])):
        with pytest.raises(InvalidDataError, match="data set of text files"):
            open_tables(X, ["x"])
    with pytest.raises(InvalidDataError, match="give an Arrow data set itself"):
        open_tables(pl.scan_pyarrow_dataset(text), ["x"])

    class Relation(Stream):
        plan = ""

        def explain(self) -> str:
            return self.plan

    monkeypatch.setitem(sys.modules, "duckdb", SimpleNamespace(DuckDBPyRelation=Relation))
    relation = Relation(pa.table({"x": [1.0], "csv": [2.0]}))
    for relation.plan in (
        "│ Function: READ_CSV │",
        "│  Function:  │\n│  READ_CSV_AUTO  │",
        "READ_JSON",
        "READ_NDJSON_OBJECTS",
    ):
        with pytest.raises(InvalidDataError, match="text files through DuckDB"):
            open_tables(relation, ["x"])
    assert relation.reads == 0
    relation.plan = "│ Function: READ_PARQUET │\n│ Projections: x, csv, json, read │"
    assert open_tables(relation, ["x", "csv"]) is not None


def test_no_stream_is_left_open_while_another_is_read() -> None:
    """A connection to DuckDB has one result at a time."""

    class Batches(list):
        """Batches that a weak reference may point to."""

    class OneAtATime:
        def __init__(self) -> None:
            self.last: Any = lambda: None

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            assert self.last() is None
            batches = Batches(table().to_batches())
            self.last = weakref.ref(batches)
            return pa.RecordBatchReader.from_batches(table().schema, (b for b in batches)).__arrow_c_stream__()

    found = open_tables(OneAtATime(), ["age"])
    assert found is not None
    for _ in range(2):
        assert sum(part.num_rows for part in found.portions(3)) == N


def test_dask_frames_that_guess_types_are_refused(tmp_path: Path) -> None:
    dask = pytest.importorskip("dask.dataframe")
    (tmp_path / "a.csv").write_text("x,u\n1,2\n")
    for name in ("a", "b"):
        (tmp_path / "csv" / f"u={name}").mkdir(parents=True)
        pa.parquet.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "csv" / f"u={name}" / "part.parquet")
    for given in ({}, {"filesystem": "arrow"}):
        frame = dask.read_parquet(tmp_path / "csv", **given)
        assert DaskPartitions(frame, ["x"]).engine == "dask"
        with pytest.raises(InvalidDataError, match="'u' of X is made of names of folders"):
            DaskPartitions(frame.assign(z=1), ["x", "u"])
    with pytest.raises(InvalidDataError, match="text files through Dask"):
        DaskPartitions(dask.read_csv(tmp_path / "a.csv"), ["x"])


def test_dask_frames_of_delayed_parts_are_read() -> None:
    """Their expressions raise when they are asked for what readers have."""
    dask, frame = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    part = pd.DataFrame({"x": [0.5, 1.0]})
    made = frame.from_delayed([dask.delayed(lambda: part)()], meta=part.iloc[:0])
    assert DaskPartitions(made.assign(z=1), ["x"]).sizes == [2]
    assert DaskPartitions(frame.from_map(lambda k: part, [0], label="mycsv", meta=part.iloc[:0]), ["x"]).sizes == [2]
