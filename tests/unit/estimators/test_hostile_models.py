"""Model files from strangers: nothing in them runs, nothing unpacks beyond the file, and every fault is one error."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pickle
import random
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dpconvex import PrivateLogisticRegression, load_model, save_model
from dpconvex.errors import InvalidDataError

pytestmark = pytest.mark.together


class Intruder:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The members of a genuine model file."""
    path = tmp_path_factory.mktemp("genuine") / "m.skops"
    X = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    save_model(
        PrivateLogisticRegression(epsilon=1.0, feature_norm=1.0, classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int)), path
    )
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def changed(parts: Mapping[str, bytes], change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return the archive with another schema.json."""
    schema = json.loads(parts["schema.json"])
    change(schema["content"])
    return archive({**parts, "schema.json": json.dumps(schema).encode()})


def refused(content: bytes, folder: Path, words: str = "") -> None:
    path = folder / "m.skops"
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match=f"model file .* is not a dpconvex model: .*{words}"):
        load_model(path)


def array(parts: Mapping[str, bytes]) -> str:
    return next(name for name in parts if name.endswith(".npy"))


def header(shape: str) -> bytes:
    """Return a NumPy file that declares a shape and holds nothing."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def test_the_genuine_parts_load(parts: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "m.skops").write_bytes(archive(parts))
    assert isinstance(load_model(tmp_path / "m.skops"), PrivateLogisticRegression)


def test_pickles_never_run(parts: dict[str, bytes], tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    buffer = io.BytesIO()
    np.save(buffer, np.array([Intruder(trap)], dtype=object), allow_pickle=True)
    refused(pickle.dumps(Intruder(trap)), tmp_path, "skops archive")
    refused(archive({**parts, array(parts): buffer.getvalue()}), tmp_path, "skops archive")
    refused(archive({"schema.json": pickle.dumps(Intruder(trap))}), tmp_path, "skops archive")
    assert not trap.exists()
    pickle.loads(pickle.dumps(Intruder(trap)))  # the trap itself works
    assert trap.exists()


@pytest.mark.parametrize(
    ("loader", "module", "name"),
    [
        ("FunctionNode", "os", "system"),
        ("PartialNode", "functools", "partial"),
        ("ObjectNode", "sklearn.linear_model", "LogisticRegression"),  # skops itself trusts this one
        ("OperatorFuncNode", "operator", "methodcaller"),
        ("TypeNode", "subprocess", "Popen"),
        ("MethodNode", "os", "system"),
        ("RandomGeneratorNode", "numpy.random", "Generator"),
        ("NdArrayNode", "numpy", "matrix"),
        ("DictNode", "collections", "OrderedDict"),
        ("NoSuchNode", "x", "y"),
    ],
)
def test_objects_are_refused_before_any_is_made(
    parts: dict[str, bytes], tmp_path: Path, loader: str, module: str, name: str
) -> None:
    node = {"__class__": name, "__module__": module, "__loader__": loader, "content": {}, "__id__": 1}
    refused(changed(parts, lambda content: content.update(estimator=node)), tmp_path, "plain values only")


@pytest.mark.thin
@pytest.mark.parametrize("member", ["extra", "schema.json"])
def test_nothing_unpacks_to_more_than_the_file(parts: dict[str, bytes], tmp_path: Path, member: str) -> None:
    bomb = archive({**parts, member: b"[" * (64 << 20)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 1 << 20
    refused(bomb, tmp_path, "unpacks to")


@pytest.mark.parametrize("shape", ["(1000000000000, 1000)", "(100000000, 1)", "(-1, 1)", "(2, 2)", "()"])
def test_declared_shapes_are_not_believed(parts: dict[str, bytes], tmp_path: Path, shape: str) -> None:
    refused(archive({**parts, array(parts): header(shape)}), tmp_path)


DEEP = 100_000


@pytest.mark.parametrize(
    "schema",
    [b"", b"\xff", b"[]", b"null", b"9" * 10_000, b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP],
    ids=["empty", "no text", "list", "null", "digits", "deep lists", "deep tables"],
)
def test_odd_schemas_are_refused(parts: dict[str, bytes], tmp_path: Path, schema: bytes) -> None:
    refused(archive({**parts, "schema.json": schema}), tmp_path, "skops archive")


@pytest.mark.parametrize("field", ["coef", "encoded_coef", "classes", "certificate", "parameters"])
@pytest.mark.parametrize("value", ['"x"', "null", "1e999", "[1]", '{"a": 1}', "9" * 30])
def test_odd_values_are_refused(parts: dict[str, bytes], tmp_path: Path, field: str, value: str) -> None:
    node = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "is_json": True, "__id__": 1}
    refused(changed(parts, lambda content: content.update({field: node | {"content": value}})), tmp_path)


@pytest.mark.parametrize("dtype", ["S2000000000", "M8", "V8", "nope", "f8,f8"])
def test_odd_types_of_labels_are_refused(parts: dict[str, bytes], tmp_path: Path, dtype: str) -> None:
    def change(content: dict[str, Any]) -> None:
        content["classes"]["content"]["dtype"]["content"] = json.dumps(dtype)

    refused(changed(parts, change), tmp_path)


def test_damaged_files_load_or_are_refused(parts: dict[str, bytes], tmp_path: Path) -> None:
    rng, genuine, loaded = random.Random(0), archive(parts), 0
    for k in range(150):
        content = bytearray(parts["schema.json"] if k % 2 else genuine)
        for _ in range(rng.choice([1, 3, 30])):
            content[rng.randrange(len(content))] = rng.randrange(256)
        damaged = (
            archive({**parts, "schema.json": bytes(content)}) if k % 2 else bytes(content[: rng.choice([99, None])])
        )
        (tmp_path / "m.skops").write_bytes(damaged)
        try:
            load_model(tmp_path / "m.skops")
            loaded += 1  # a digit of a number, or of a name that is not read
        except InvalidDataError:
            pass
    assert loaded < 75


def stubs(levels: int) -> dict[str, Any]:
    """Lists that each name the next one twice by its id: as skops reads it, a tree of 2^levels."""
    inner: dict[str, Any] = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": "1"}
    for level in range(levels):
        own = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "__id__": level + 1}
        inner = {**own, "content": [inner, {**own, "__id__": level, "content": []}, {**own, "__id__": level}]}
    return inner


@pytest.mark.gate
def test_references_are_not_followed_and_arrays_are_read_once(parts: dict[str, bytes], tmp_path: Path) -> None:
    """A 17 KB file of repeated references kept the reader busy without end; now it is read as it stands."""
    start = time.process_time()
    refused(changed(parts, lambda content: content.update(estimator=stubs(60))), tmp_path)
    mention = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy"}
    large = io.BytesIO()
    np.save(large, np.zeros(2**20))
    nodes = [{**mention, "file": "large.npy", "__id__": k + 1} for k in range(5000)]
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": nodes, "__id__": 9**9}
    schema = json.loads(parts["schema.json"])
    schema["content"]["coef"] = node
    tracemalloc.start()
    refused(archive({**parts, "schema.json": json.dumps(schema).encode(), "large.npy": large.getvalue()}), tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**28  # 40 GB if each mention were read
    assert time.process_time() - start < 10


@pytest.mark.parametrize("count", ["1000000000", "4", "-1", "1e9", "null"])
def test_a_declared_number_of_features_is_not_believed(parts: dict[str, bytes], tmp_path: Path, count: str) -> None:
    def change(content: dict[str, Any]) -> None:
        content["n_features_in"]["content"] = count

    start = time.process_time()
    refused(changed(parts, change), tmp_path)
    assert time.process_time() - start < 5


def places(node: Any) -> list[Any]:
    """Every dictionary of a schema's tree."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [node] * isinstance(node, dict) + [place for each in inner for place in places(each)]


NODES = ["null", "1e400", "[" * 500 + "]" * 500, '"x"', "9" * 4000, "-1", "1000000000", "0.5", "{}", "true", '"a.a.a"']


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_odd_trees_load_or_are_refused(parts: dict[str, bytes], tmp_path: Path, data: st.DataObject) -> None:
    schema = json.loads(parts["schema.json"])
    for _ in range(data.draw(st.integers(1, 3))):
        every = places(schema)
        place = every[data.draw(st.integers(0, len(every) - 1))]
        key = data.draw(st.sampled_from(sorted(place) or [""]))
        what = data.draw(st.sampled_from(["delete", "content", "other", "value"]))
        if what == "delete":
            place.pop(key, None)
        elif what == "content":
            place["content"] = data.draw(st.sampled_from(NODES))
        elif what == "other":
            place[key] = copy.deepcopy(every[data.draw(st.integers(0, len(every) - 1))])
        else:
            place[key] = data.draw(st.sampled_from([None, 1, "x", [], {}, 10**30]))
    (tmp_path / "m.skops").write_bytes(archive({**parts, "schema.json": json.dumps(schema).encode()}))
    with contextlib.suppress(InvalidDataError):  # nothing else, and in time
        load_model(tmp_path / "m.skops")


def test_pipes_and_folders_without_a_model_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "no regular file"), (tmp_path, "model.skops' cannot be read: No such file")):
        with pytest.raises(InvalidDataError, match=what):
            load_model(path)
