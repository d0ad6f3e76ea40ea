"""Local clusters: the same bits as in memory, lost workers, one error, and no noise in tasks.

In quick runs workers are threads: to start processes takes most of the time.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import sys
import threading
import warnings
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.base import clone

from dpconvex import PrivateGeometricMedian, PrivateLogisticRegression, PrivateSearchCV, PrivateSyntheticData
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, Schema, in_order
from dpconvex.errors import InvalidDataError, SchemaError
from dpconvex.estimators._streams import open_users
from dpconvex.problems.data.records import RecordSource
from dpconvex.problems.data.sources.cluster import DaskPartitions, RayPartitions, _cell_by_cell, open_source
from dpconvex.randomness import SeededSource

# Of Dask, where it calls pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index:DeprecationWarning")
N = 3000
SCHEMA = Schema((NumericColumn("age", 0, 100), NumericColumn("gain", 0, 10)), ClassTarget("sick", ("no", "yes")))
OPTIONS = {
    "objective": {},
    "tilt": {"tilt": 1.0},
    "centered": {"epsilon": 8.0, "delta": 1e-6, "algorithm": "recentering"},
}


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    age, gain = rng.normal(50, 30, N), rng.exponential(2, N)
    age[:4] = [np.nan, np.inf, -np.inf, 1e300]
    sick = np.where(rng.random(N) < 1 / (1 + np.exp(-(age - 50) / 20)), "yes", "no")
    return pa.table({"age": age, "gain": gain, "sick": sick})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place, order = tmp_path_factory.mktemp("parts"), np.random.default_rng(1).permutation(N)
    for k, part in enumerate(np.array_split(order, [2, 900, 2000])):
        pa.parquet.write_table(table().take(part), place / f"{k}.parquet")
    return place


PROCESSES = pytest.param(True, id="processes", marks=pytest.mark.gate)


@pytest.fixture(scope="module", params=[pytest.param(False, id="threads"), PROCESSES])
def client(request):
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("dask.dataframe")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(processes=request.param, **options) as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


def fitted(X: object, **options):
    return PrivateLogisticRegression(**{"epsilon": 1.0, "schema": SCHEMA, "random_state": 5, **options}).fit(X)


@pytest.fixture
def same(same_certificate):
    def check(X: object, **options) -> None:
        expected, found = fitted(table(), **options), fitted(X, **options)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        same_certificate(found.certificate_, expected.certificate_)

    return check


@pytest.mark.parametrize(
    "name",
    [pytest.param("objective", marks=pytest.mark.gate), "tilt", pytest.param("centered", marks=pytest.mark.gate)],
)
def test_a_dask_cluster_gives_the_same_model(name, folder, client, same) -> None:
    """The others on threads: tests/contracts/test_algorithms_on_sources.py."""
    import dask.dataframe

    if name != "tilt" and client.cluster.processes is False:
        pytest.skip("with processes")
    same(dask.dataframe.read_parquet(folder), **OPTIONS[name])


def test_users_and_parts_need_frames_whose_order_is_declared() -> None:
    """After a shuffle a user's rows would count as another's, or one record stand in both parts of a search."""
    dataframe = pytest.importorskip("dask.dataframe")
    whole = table().to_pandas().assign(who=np.random.default_rng(2).integers(0, 200, N).astype(str))
    frame, users = dataframe.from_pandas(whole, npartitions=3), replace(SCHEMA, user="who")
    search = PrivateSearchCV(
        PrivateLogisticRegression(8.0, schema=SCHEMA, random_state=5), {"coefficient_norm": [2.0, 6.0]}
    )
    for fit in (lambda X: fitted(X, schema=users), search.fit):
        with pytest.raises(InvalidDataError, match="go by place"):
            fit(frame)
    np.testing.assert_array_equal(fitted(in_order(frame), schema=users).coef_, fitted(whole, schema=users).coef_)
    assert search.fit(in_order(frame)).best_estimator_.coef_.shape == (1, 2)
    shuffled = dataframe.from_map(lambda k: whole.iloc[k::2].sample(frac=1), [0, 1], meta=whole.iloc[:0])
    np.testing.assert_array_equal(fitted(shuffled).coef_, fitted(table()).coef_)


@pytest.mark.parametrize("cell", [True, None])
def test_a_missing_cell_changes_no_type_of_its_partition(cell: bool | None, tmp_path: Path) -> None:
    """Partitions of flags are Booleans, and objects where one is missing; those of whole numbers are floats there."""
    dataframe = pytest.importorskip("dask.dataframe")
    flags = pa.table({"x": pa.array([True, False] * 200 + [cell]), "z": [0] * 401})
    pyarrow.parquet.write_table(flags, tmp_path / "a.parquet")
    frame = dataframe.read_parquet(tmp_path)
    levels = CategoricalColumn("x", ("no", "yes")), CategoricalColumn("z", ("0", "1"))
    with pytest.raises(SchemaError, match="has type boolean"):
        PrivateSyntheticData(1.0, schema=Schema(levels)).fit(frame)
    model = PrivateGeometricMedian(1.0, 1e-6, radius_bound=2.0, random_state=0).fit(frame)
    assert np.isfinite(model.center_).all()


def test_a_cell_that_changes_the_types_of_its_part_changes_no_other_cell() -> None:
    """Dask need not check what parts hold: a text made texts of all labels of its part, and types were refused."""
    dataframe = pytest.importorskip("dask.dataframe")
    whole = pd.DataFrame({"x": np.linspace(0, 1, 60), "who": np.arange(60) % 10, "c": ["a", "b"] * 30})

    def part(k: int) -> pd.DataFrame:
        found = whole.iloc[30 * k : 30 * k + 30]
        return found if k else found.assign(who=found["who"].astype(object), x=found["x"].astype(object), c=5)

    frame = in_order(dataframe.from_map(part, [0, 1], meta=whole.astype({"who": object}).iloc[:0]))
    schema = Schema((NumericColumn("x", 0, 1), CategoricalColumn("c", ("a", "b"))), user="who")
    assert PrivateSyntheticData(1.0, schema=schema, columns=["x", "c"]).fit(frame).plan_.n == 10
    points = dataframe.from_map(lambda k: part(k)[["x"]], [0, 1], meta=whole[["x"]].iloc[:0])
    median = PrivateGeometricMedian(1.0, 1e-6, radius_bound=2.0, algorithm="clipped_mean")
    assert np.isfinite(median.fit(points).location_).all()


def test_a_cell_that_is_no_date_changes_no_other_date() -> None:
    """It made objects of all dates of its partition: a format of their own missed them, and users were split."""
    dataframe = pytest.importorskip("dask.dataframe")
    days = pd.Series(pd.date_range("1980-05-01", periods=6)).astype("datetime64[ns]")
    schema = Schema((NumericColumn("born", 0, 40000, date="age", at="2025-01-01", format="%d.%m.%Y"),))
    expected = schema.encode(pd.DataFrame({"born": days}))

    def part(k: int, cell: Any, kind: Any) -> pd.DataFrame:
        found = days.astype(kind)
        if k:
            found[0] = cell
        return pd.DataFrame({"born": found, "day": found})

    missing = schema.encode(pd.DataFrame({"born": [pd.NaT]}))[0]
    for cell in ("odd", 5, 1.5, [1], datetime(9999, 1, 1), np.datetime64("NaT"), None):
        meta = pd.DataFrame({"born": days, "day": days}).iloc[:0]
        frame = dataframe.from_map(part, [0, 1], cell=cell, kind=object, meta=meta)
        first, second = DaskPartitions(frame, ["born"]).run(schema.encode)
        np.testing.assert_array_equal(first, expected)
        np.testing.assert_array_equal(second, [missing, *expected[1:]])
        users = open_users(replace(schema, user="day"), open_source(in_order(frame), ["born", "day"]), None)
        assert sorted(users.sizes) == [1, 1, *[2] * 5]
    far = dataframe.from_map(part, [0, 1], cell=pd.Timestamp("2020-01-01"), kind="datetime64[s]", meta=meta)
    np.testing.assert_array_equal(DaskPartitions(far, ["born"]).run(schema.encode)[1][1:], expected[1:])


def test_users_labels_are_arrow_numbers(tmp_path: Path) -> None:
    """A float holds only some of the whole numbers above 2^53: users would be taken for one another."""
    dataframe = pytest.importorskip("dask.dataframe")
    people = pa.array([2**60 + 3 * k for k in range(200)] + [None], pa.int64())
    whole = pa.table({"age": [1.0] * 201, "gain": [1.0] * 201, "sick": ["no"] * 201, "who": people})
    pyarrow.parquet.write_table(whole, tmp_path / "a.parquet")
    users = replace(SCHEMA, user="who")
    with pytest.raises(InvalidDataError, match="dtype_backend='pyarrow'"):
        fitted(in_order(dataframe.read_parquet(tmp_path)), schema=users)
    arrow = dataframe.read_parquet(tmp_path, dtype_backend="pyarrow")
    assert fitted(in_order(arrow), schema=users).plan_.problem.n == 201


def test_a_missing_label_makes_no_second_user_of_a_whole_number() -> None:
    """Whole numbers are floats where one of their partition is missing: 5 and 5.0 are one user, the cell another."""
    dataframe = pytest.importorskip("dask.dataframe")
    whole = pd.DataFrame({"x": np.linspace(0, 1, 4), "who": np.array([5, 5, 6, 6], np.int32)})
    parts = [whole, whole.assign(who=[5.0, 5.0, np.nan, 7.0])]
    frame = in_order(dataframe.from_map(lambda k: parts[k], [0, 1], meta=whole.iloc[:0]))
    table = open_source(frame, ["x", "who"])
    assert table is not None
    users = open_users(Schema((NumericColumn("x", 0, 1),), user="who"), table, None)
    assert users is not None
    assert sorted(users.sizes) == [1, 1, 2, 4]


def test_predictions_are_lazy(folder, client) -> None:
    import dask.dataframe

    model, frame = fitted(table()), dask.dataframe.read_parquet(folder)
    found = model.predict(frame)
    assert isinstance(found, dask.dataframe.Series)
    np.testing.assert_array_equal(found.compute().to_numpy(), model.predict(frame.compute()))


def test_tasks_hold_no_rows_and_no_source_of_noise(folder, client, monkeypatch) -> None:
    """Whatever travels is small, and drawing noise inside of it would be seen: no bit source is in it."""
    import cloudpickle
    import dask.dataframe

    sent, run = [], DaskPartitions.run

    def watched(self, function, *arguments):
        sent.append(cloudpickle.dumps(function))
        return run(self, function, *arguments)

    monkeypatch.setattr(DaskPartitions, "run", watched)
    fitted(dask.dataframe.read_parquet(folder), random_state=SeededSource(5))
    assert len(sent) > 3
    assert max(map(len, sent)) < 40_000
    assert not any(b"dpconvex.randomness" in task or b"privacy.ledger" in task for task in sent)


@pytest.mark.parametrize("client", [PROCESSES], indirect=True)
def test_a_killed_worker_changes_nothing(folder, client) -> None:
    import dask.dataframe

    frame, expected = dask.dataframe.read_parquet(folder), fitted(table(), tilt=1.0)
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    timer.start()
    found = fitted(frame, tilt=1.0)
    timer.join()
    np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_broken_files_end_in_one_error_without_content(tmp_path, client) -> None:
    import dask.dataframe

    for k in range(2):
        pa.parquet.write_table(table(), tmp_path / f"{k}.parquet")
    frame = dask.dataframe.read_parquet(tmp_path)
    (tmp_path / "1.parquet").write_bytes(b"secret cell")
    with pytest.raises(InvalidDataError, match="could not be read") as error:
        fitted(frame)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


def test_records_leave_their_rows_at_home() -> None:
    from dpconvex.losses import LogisticLoss
    from dpconvex.problems import Block, DataDomain
    from dpconvex.problems.data.sources.rows import EncodedRows, nothing, streamed

    class Rows(EncodedRows):
        n, n_features = 1, 2

        def run(self, task, held=nothing):
            yield task((np.zeros((1, 2)), np.zeros(1)), 0, held(0, 1))

        def __reduce__(self):
            raise AssertionError("rows travel")

    records = streamed(Rows(), DataDomain((Block(2, "l2", 1.0),)), LogisticLoss().clip_targets)
    copy: RecordSource = pickle.loads(pickle.dumps(records))
    assert (copy.n, copy.dim) == (1, 2)


class SparkLike:
    """A frame with the two methods that the recipe of docs/large_data.md uses; tasks are pickled."""

    def __init__(self, parts: list[pa.Table], place: ModuleType) -> None:
        self.parts, self.place = parts, place

    def limit(self, n: int) -> SimpleNamespace:
        return SimpleNamespace(toArrow=lambda: self.parts[0].slice(0, n))

    def mapInArrow(self, task, schema: str) -> SimpleNamespace:
        sent, answers = self.place.cloudpickle.dumps(task), []
        for k in reversed(range(len(self.parts))):
            self.place.TaskContext = SimpleNamespace(get=lambda k=k: SimpleNamespace(partitionId=lambda: k))
            answers += [batch.to_pylist()[0] for batch in pickle.loads(sent)(iter(self.parts[k].to_batches()))]
        return SimpleNamespace(collect=lambda: [SimpleNamespace(**answer) for answer in answers])


@pytest.mark.gate
def test_the_recipe_for_spark(monkeypatch, same) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    page = (Path(__file__).parents[4] / "docs" / "large_data.md").read_text(encoding="utf-8")
    recipe = next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "class SparkPartitions" in block)
    place = ModuleType("pyspark")
    place.cloudpickle, place.TaskContext = cloudpickle, None
    monkeypatch.setitem(sys.modules, "pyspark", place)
    names: dict = {"__name__": "__main__"}
    exec(
        recipe[: recipe.index("\nmodel =")].replace("TaskContext.get()", "__import__('pyspark').TaskContext.get()"),
        names,
    )
    parts = [table().slice(0, 700), table().slice(700, 1), table().slice(701)]
    same(names["SparkPartitions"](SparkLike(parts, place)))


@pytest.mark.gate  # ten seconds until Ray is up
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets of Ray that is going
def test_ray_gives_the_same_model(folder, same) -> None:
    ray = pytest.importorskip("ray", reason="Ray has no wheel for this Python or processor")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        same(ray.data.read_parquet(str(folder)))
        one_odd_cell(ray.data.from_pandas)
        blocks_may_lose_all_rows(ray.data.from_pandas)
        a_word_among_dates(ray.data.from_pandas)
        texts_are_refused(ray.data, folder)
    finally:
        ray.shutdown()


def test_a_word_in_a_block_of_rays_changes_no_date() -> None:
    days = [datetime(1980, 5, k + 1) for k in range(4)]
    plain = pa.table({"born": pa.array(days, pa.timestamp("us"))})
    texts = pa.table({"born": ["odd", *map(str, days[1:])]})
    for form in ("%Y-%m-%d", "%d.%m.%Y"):
        schema = Schema((NumericColumn("born", 0, 40000, date="age", at="2025-01-01", format=form),))
        whole, odd = (schema.encode(_cell_by_cell(block, plain.schema)) for block in (plain, texts))
        np.testing.assert_array_equal(odd[1:], whole[1:])
        assert odd[0] == schema.encode(pd.DataFrame({"born": [pd.NaT]}))[0]


def one_odd_cell(blocks: Any) -> None:
    """A text in a block of Ray's made other objects of all cells of its column, which were refused, after payment."""
    rng = np.random.default_rng(0)
    whole = pd.DataFrame({"x": rng.random(600), "who": np.arange(600) % 300, "c": rng.choice(["a", "b"], 600)})
    whole["y"] = rng.choice(["n", "y"], 600)
    odd = whole.astype(object)
    odd.iloc[450] = ["text", 150, 5, [1]]
    as_read = whole.assign(x=np.where(np.arange(600) == 450, np.nan, whole["x"]))
    as_read.loc[450, ["c", "y"]] = None
    columns = NumericColumn("x", 0, 1), CategoricalColumn("c", ("a", "b"), other=True)
    for user in (None, "who"):
        model = PrivateLogisticRegression(
            random_state=0, schema=Schema(columns, ClassTarget("y", ("n", "y")), user=user)
        )
        expected = model.fit(as_read).coef_
        for parts in ([whole[:300], odd[300:]], [whole[:300], odd[300:600], whole[:0]], [odd[:300], odd[300:]]):
            np.testing.assert_array_equal(clone(model).fit(in_order(blocks(parts))).coef_, expected)


def blocks_may_lose_all_rows(blocks: Any) -> None:
    """Ray's blocks have no columns where a filter left no row, which one record decides, after payment."""
    whole = table().to_pandas()
    for empty in (0, 1):
        parts = [whole[:1000].copy(), whole[1000:2000].copy(), whole[2000:].copy()]
        parts[empty]["gain"] = -1.0
        kept = pd.concat([part for k, part in enumerate(parts) if k != empty])
        model = PrivateLogisticRegression(random_state=0, schema=SCHEMA, algorithm="objective_perturbation")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's: that expressions are faster, and that columns are gone
            filtered = blocks(parts).filter(lambda row: row["gain"] > -0.5)
            found = clone(model).fit(in_order(filtered)).coef_
        np.testing.assert_array_equal(found, clone(model).fit(kept[kept["gain"] > -0.5]).coef_)


def a_word_among_dates(blocks: Any) -> None:
    schema = Schema((NumericColumn("born", 0, 40000, date="age", at="2025-01-01", format="%d.%m.%Y"),))
    days = pd.DataFrame({"born": pd.date_range("1980-05-01", periods=4)})
    odd = days.astype(object)
    odd.iloc[1, 0] = "odd"
    found = RayPartitions(blocks([days, odd]), ["born"]).run(schema.encode)
    np.testing.assert_array_equal(found[0], schema.encode(days))
    np.testing.assert_array_equal(np.delete(found[1], 1), np.delete(found[0], 1))
    assert found[1][1] == schema.encode(pd.DataFrame({"born": [pd.NaT]}))[0]


def texts_are_refused(data: Any, folder: Path) -> None:
    """Arrow guesses types of a block of text from its cells, and fails at one malformed line."""
    (folder.parent / "a.csv").write_text("age\n1\n2\n")
    (folder.parent / "a.jsonl").write_text('{"age": 1}\n')
    text = data.read_csv(str(folder.parent / "a.csv"))
    found = (
        text,
        text.map_batches(lambda block: block),
        text.materialize(),
        data.read_json(str(folder.parent / "a.jsonl")),
    )
    for each in found:
        with pytest.raises(InvalidDataError, match="text files through Ray"):
            RayPartitions(each, ["age"])
