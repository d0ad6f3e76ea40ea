"""Parquet files that unpack to far more than they hold: read as levels, or refused by what they declare."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, Schema, draft_schema, read_table
from dpconvex.errors import InvalidDataError, SchemaError

LONG = "r" * 2_000_000
SCHEMA = Schema(
    (CategoricalColumn("c", ("red", "7")), NumericColumn("x", 0, 10)), ClassTarget("y", ("no", "yes")), user="u"
)


def repeated(n: int, *values: Any) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(n, dtype=np.int32) % len(values)), pa.array(values))


@pytest.mark.parametrize("kind", ["text", "levels"])
def test_one_long_text_in_every_cell_takes_no_room(tmp_path: Path, kind: str) -> None:
    """200 GB of cells, of which each column stores 2 MB once."""
    n, path = 100_000, tmp_path / "t.parquet"
    plain = pa.table({name: repeated(n, LONG, "red", " 7.0", "yes", "") for name in ("c", "y", "u")})
    table = plain.append_column("x", repeated(n, 1.0, 5.0, 2.5, 10.0, 7.5))
    if kind == "text":  # the file does not say that its texts are levels
        table = table.replace_schema_metadata(None)
        pq.write_table(table, path, store_schema=False, row_group_size=30_001)
        assert pq.read_schema(path).field("c").type == pa.string()
    else:
        pq.write_table(table, path)
    assert path.stat().st_size < 2_000_000
    found = read_table(path, SCHEMA)
    assert SCHEMA.encode(found)[:6].tolist() == [[0, -0.4], [-0.5, 0], [0.5, -0.25], [0, 0.5], [0, 0.25], [0, -0.4]]
    assert SCHEMA.encode_target(found)[:6].tolist() == [0, 0, 0, 1, 0, 0]
    users = SCHEMA.user_labels(found)
    assert len(set(users[:5].tolist())) == 5
    assert users[4] == -1
    assert users[5] == users[0]


def test_levels_are_those_of_the_values_whatever_their_dictionaries(tmp_path: Path) -> None:
    """Chunks with dictionaries of their own, one value twice in a dictionary, levels that are null or not used."""
    first = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 3]), pa.array(["a", "b", "a", None]))
    second = pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["a", "red"]))
    table = pa.table({"c": pa.chunked_array([first, second]), "u": pa.chunked_array([first, second])})
    plain = pa.table({"c": ["a", "b", "a", None, None, "red", "a"], "u": ["a", "b", "a", None, None, "red", "a"]})
    column = SCHEMA.columns[0]
    for either in (table, plain):
        labels = SCHEMA.user_labels(either).tolist()
        assert [labels.index(label) for label in labels] == [0, 1, 0, 3, 3, 5, 0]
        assert labels[3] == -1
        assert Schema((column,)).encode(either).ravel().tolist() == [0, 0, 0, 0, 0, -0.5, 0]
        assert 'categories = ["a", "b", "red"]' in draft_schema(either)


@pytest.mark.gate
def test_texts_stored_as_differences_are_charged_for_what_they_may_become(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    texts = pa.table({"c": [LONG[:20_000] + str(k) for k in range(5000)]})
    pq.write_table(texts, path, use_dictionary=False, column_encoding={"c": "DELTA_BYTE_ARRAY"})
    assert path.stat().st_size < 100_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpconvex.data.read.MOST_UNPACKED", 2**26)
        with pytest.raises(InvalidDataError, match=r"more than 0\.0625 GiB"):
            read_table(path)
    assert read_table(path).num_rows == 5000
    pq.write_table(texts, path, use_dictionary=False, column_encoding={"c": "DELTA_LENGTH_BYTE_ARRAY"})
    assert read_table(path).equals(texts)


def test_cells_of_a_fixed_width_are_charged_with_it(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": pa.array([b"x" * 10_000] * 10_000, pa.binary(10_000))}), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpconvex.data.read.MOST_UNPACKED", 2**26)
        with pytest.raises(InvalidDataError, match=r"declares 0\.0931 GiB"):
            read_table(path)


@pytest.mark.parametrize("cell", [[LONG[:10_000]], {"a": LONG[:10_000]}, [[1.0]]])
def test_lists_and_records_are_not_read(tmp_path: Path, cell: Any) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": [cell] * 2000, "d": [datetime.date.max] * 2000, "x": [1.0] * 2000}), path)
    table = read_table(path)
    assert table.nbytes < 100_000
    assert table["x"].to_pylist() == [1.0] * 2000
    with pytest.raises(SchemaError, match="column 'c' has type"):
        Schema(SCHEMA.columns).encode(table)
    draft = draft_schema(table)
    assert draft.count("is no feature. Derive") == 1
    assert 'date = "age"' in draft
