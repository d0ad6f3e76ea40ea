"""Types decide, cells do not: every type and content in every container, for X, y and groups, on every estimator.

A fit on cells that are missing, infinite or too large ends as one on plain cells of the same type does: with the same
certificate, shapes and warnings, or with the same error. The quick test gives the bad cells of one type together; the
slow one gives every content by itself, to every estimator. Both replay seeds, so they raise no false alarm.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import sklearn.base
from sklearn.base import is_classifier
from typer.testing import CliRunner

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateGeometricMedian,
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateSearchCV,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
    Schema,
)
from dpconvex.cli.main import app
from dpconvex.data import ClassTarget
from dpconvex.errors import DpconvexError
from dpconvex.estimators import ESTIMATORS, SPARSE_ESTIMATORS
from dpconvex.estimators.persistence import save_model
from dpconvex.privacy import PrivacyCertificate

N = 24
Cells = list[Any]
D = decimal.Decimal
DAY = datetime.date

BOOLEANS = [[False, True], [None, True], [None]]
FLOATS = [[0.0, 1.0], [None, 1.0], [np.nan, 1.0], [np.inf, -np.inf], [None]]
DECIMALS = [[D(0), D(1)], [None, D(1)], [D(10) ** 17, -(D(10) ** 17)], [None]]
TEXTS = [["no", "yes"], [None, "yes"], ["", "\1"], ["1", "nan"], [None]]
DATES = [[DAY(2000, 1, 1), DAY(2000, 1, 2)], [None, DAY(1, 1, 1)], [DAY(9999, 12, 31), None], [None]]
OBJECTS = [[0, 1], [None, "x"], [True, np.nan], [object, 10**400], ["no", "yes"]]


def integers(low: int, high: int) -> list[Cells]:
    return [[0, 1], [None, 1], [low, high], [None]]


def floats(kind: Any) -> list[Cells]:
    info = np.finfo(kind)
    return [*FLOATS, [kind(info.max), kind(info.min)]]


SIGNED, UNSIGNED = integers(-(2**63), 2**63 - 1), integers(0, 2**64 - 1)
Kind = tuple[list[Cells], Any]
NUMPY: dict[str, Kind] = {
    "bool": (BOOLEANS, np.bool_),
    "int8": (integers(-128, 127), np.int8),
    "int64": (SIGNED, np.int64),
    "uint64": (UNSIGNED, np.uint64),
    "float16": (floats(np.float16), np.float16),
    "float32": (floats(np.float32), np.float32),
    "float64": (floats(np.float64), np.float64),
    "longdouble": (floats(np.longdouble), np.longdouble),
    "text": (TEXTS, np.str_),
    "bytes": ([[b"no", b"yes"], [b"", b"1"]], np.bytes_),
    "object": (OBJECTS, object),
    "date": ([[0, 1], ["NaT", 1]], "M8[D]"),
    "duration": ([[0, 1], ["NaT", 1]], "m8[s]"),
    "complex": ([[0, 1], [np.nan, np.inf]], np.complex128),
}
PANDAS: dict[str, Kind] = {
    **{k: v for k, v in NUMPY.items() if k not in ("text", "bytes", "date", "duration")},
    "boolean": (BOOLEANS, "boolean"),
    "Int64": (SIGNED, "Int64"),
    "UInt64": (UNSIGNED, "UInt64"),
    "Float32": (floats(np.float32), "Float32"),
    "Float64": (FLOATS, "Float64"),
    "str": (TEXTS, "str"),
    "string": (TEXTS, "string"),
    "category": ([*TEXTS, [0, 1], [True, None], [2.5, None]], "category"),
    "datetime": ([*DATES[:1], [None, DAY(2000, 1, 1)], [None]], "datetime64[ns]"),
    "timedelta": ([[0, 1], [None, 1]], "timedelta64[ns]"),
    "period": ([["2000-01-01", "2000-01-02"], [None, "2000-01-01"]], "period[D]"),
    "sparse": ([[0.0, 1.0], [np.nan, np.inf]], "Sparse[float]"),
}
ARROW: dict[str, Kind] = {
    "bool": (BOOLEANS, pa.bool_()),
    "int64": (SIGNED, pa.int64()),
    "uint64": (UNSIGNED, pa.uint64()),
    "float16": (floats(np.float16), pa.float16()),
    "float32": (floats(np.float32), pa.float32()),
    "float64": (floats(np.float64), pa.float64()),
    "decimal128": (DECIMALS, pa.decimal128(38, 2)),
    "decimal256": ([*DECIMALS, [D(10) ** 75, D(1)]], pa.decimal256(76, 0)),
    "null": ([[None]], pa.null()),
    "text": (TEXTS, pa.string()),
    "large text": (TEXTS, pa.large_string()),
    "text view": (TEXTS, pa.string_view()),
    "levels of text": (TEXTS, pa.dictionary(pa.int8(), pa.string())),
    "levels of numbers": (FLOATS, pa.dictionary(pa.int8(), pa.float64())),
    "bytes": ([[b"no", b"yes"], [None, b"\xff"]], pa.binary()),
    "date": (DATES, pa.date32()),
    "time": ([[0, 1], [None, 1]], pa.time64("us")),
    "timestamp": ([[0, 1], [None, 2**62]], pa.timestamp("ns", "Europe/Berlin")),
    "duration": ([[0, 1], [None, 2**62]], pa.duration("s")),
    "list": ([[[1], [2]], [None, []]], pa.list_(pa.int8())),
    "record": ([[{"a": 1}, {"a": 2}], [None, {"a": None}]], pa.struct([("a", pa.int8())])),
}
ON_ARROW = ("bool", "int64", "uint64", "float64", "decimal128", "null", "text", "levels of text", "date", "duration")
POLARS: dict[str, Kind] = {
    "bool": (BOOLEANS, pl.Boolean),
    "int64": (SIGNED, pl.Int64),
    "uint64": (UNSIGNED, pl.UInt64),
    "int128": (SIGNED, pl.Int128),
    "float32": (FLOATS, pl.Float32),
    "float64": (floats(np.float64), pl.Float64),
    "decimal": (DECIMALS, pl.Decimal(38, 2)),
    "null": ([[None]], pl.Null),
    "text": (TEXTS, pl.String),
    "category": (TEXTS, pl.Categorical),
    "enum": ([["no", "yes"], [None, "yes"], [None]], pl.Enum(["no", "yes"])),
    "enum of others": ([["no", "yes"], [None, "maybe"], [None]], pl.Enum(["no", "yes", "maybe"])),
    "object": (OBJECTS, pl.Object),
    "bytes": ([[b"no", b"yes"], [None, b"\xff"]], pl.Binary),
    "date": (DATES, pl.Date),
    "datetime": ([[0, 1], [None, 2**62]], pl.Datetime("us", "UTC")),
    "duration": ([[0, 1], [None, 2**62]], pl.Duration),
    "list": ([[[1], [2]], [None, []]], pl.List(pl.Int8)),
}
Maker = Callable[..., Any]


def as_pandas(cells: Cells, kind: Any) -> Any:
    if isinstance(kind, pa.DataType):
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(cells, kind)])))
    return pd.Series(cells, dtype=kind)


COLUMNS: dict[str, tuple[dict[str, Kind], Maker, Maker]] = {
    # Types, one column, and a table of columns by name.
    "numpy": (
        NUMPY,
        lambda cells, kind: np.array(cells, dtype=kind),
        lambda table, _: np.column_stack([*table.values()]),
    ),
    "pandas": (PANDAS, as_pandas, lambda table, _: pd.DataFrame(table)),
    "pandas on arrow": ({k: ARROW[k] for k in ON_ARROW}, as_pandas, lambda table, _: pd.DataFrame(table)),
    "pandas array": (
        {k: PANDAS[k] for k in ("boolean", "Int64", "category", "object")},
        lambda cells, kind: pd.array(cells, dtype=kind),
        lambda table, _: pd.DataFrame(
            {k: pd.Series(v, dtype=object if str(v.dtype) == "object" else None) for k, v in table.items()}
        ),
    ),
    "polars": (
        POLARS,
        lambda cells, kind: pl.Series(values=cells, dtype=kind, strict=False),
        lambda table, _: pl.DataFrame(table),
    ),
    "arrow": (ARROW, lambda cells, kind: pa.chunked_array([pa.array(cells, kind)]), lambda table, _: pa.table(table)),
    "arrow array": (
        {k: ARROW[k] for k in ("bool", "decimal128", "float64")},
        pa.array,
        lambda table, _: pa.RecordBatch.from_pydict(table),
    ),
    "list": (
        {"any": (OBJECTS, None)},
        lambda cells, _: list(cells),
        lambda table, _: list(map(list, zip(*table.values(), strict=True))),
    ),
    "deque": (
        {"any": (OBJECTS, None)},
        lambda cells, _: deque(cells),
        lambda table, _: deque(map(list, zip(*table.values(), strict=True))),
    ),
    "sparse": (
        {k: NUMPY[k] for k in ("bool", "int64", "float32", "float64", "longdouble", "complex")},
        lambda cells, kind: np.array(cells, dtype=kind),
        lambda table, _: scipy.sparse.csr_array(np.column_stack([*table.values()])),
    ),
}


def filled(cells: Cells) -> Cells:
    return (cells * N)[:N]


def contents(container: str, kind: str, together: bool) -> list[Cells]:
    """Return the cells that a column of this type may hold, N a content; the first is plain."""
    possible, made = COLUMNS[container][0][kind]
    if not (container.startswith(("pandas", "polars", "arrow")) or made in (object, None)):
        possible = [cells for cells in possible if None not in cells]
    if container == "pandas" and kind in NUMPY and made is not object:
        possible = [cells for cells in possible if None not in cells]
    each = [filled(cells) for cells in possible]
    return [each[0], filled([*itertools.chain(*possible[1:])] or possible[0])] if together else each


NUMBERS, NAMES = [0, 1], ["no", "yes"]
FAST = {"algorithm": "output_perturbation", "random_state": 0}
RANGE = {"feature_bounds": (0.0, 1.0)}
TARGETS: dict[str, Any] = {"target_bounds": (0.0, 1.0)}
LINEAR = [kind(2.0, **FAST, **RANGE, **({} if is_classifier(kind()) else TARGETS)) for kind in ESTIMATORS]
BALL: dict[str, Any] = {"feature_bound": 1.0, "random_state": 0, "algorithm": "vertex_mirror_descent"}
LASSO = PrivateLasso(2.0, **TARGETS, **BALL)
WORST = PrivateWorstGroupClassifier(2.0, group_shares=(0.5, 0.5), **BALL)
SPARSE = [PrivateSparseLogisticRegression(2.0, **BALL), WORST]
MEDIAN = PrivateGeometricMedian(2.0, radius_bound=10.0, random_state=0)
SEARCH = PrivateSearchCV(LINEAR[0], {"l2": [0.5, 1.0]}, method="composition")
PLAIN_SCHEMA = Schema((NumericColumn("a", 0, 1), NumericColumn("b", 0, 1)), ClassTarget("y", ("0", "1")), "u")
NAMED_SCHEMA = Schema(
    (CategoricalColumn("a", ("no", "yes")), NumericColumn("b", 0, 1)), ClassTarget("y", ("no", "yes"))
)
BY_SCHEMA = [
    *(PrivateLogisticRegression(2.0, schema=schema, **FAST) for schema in (PLAIN_SCHEMA, NAMED_SCHEMA)),
    PrivateSparseLogisticRegression(2.0, schema=NAMED_SCHEMA, random_state=0, algorithm="vertex_mirror_descent"),
    *(PrivateSyntheticData(2.0, schema=NAMED_SCHEMA, bins=2, target_share=s, random_state=0) for s in (0.0, 0.5)),
]
MODELS: list[Any] = [*LINEAR, LASSO, *SPARSE, MEDIAN, SEARCH, *BY_SCHEMA]


def clone(model: Any) -> Any:
    return sklearn.base.clone(model)


UNEXPECTED = "an error of another kind"


def outcome(model: Any, X: Any, y: Any, groups: Any) -> tuple[Any, ...]:
    """Return what is public about a fit and a prediction: exit, message, warnings, certificate, forms."""
    model = clone(model)
    more = {} if groups is None else {"groups": groups}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, **more)
            found: tuple[Any, ...] = (model.certificate_.public_fields(), model.n_features_in_)
            if isinstance(model, PrivateGeometricMedian):
                found += (model.location_.shape,)
            elif not isinstance(model, PrivateSyntheticData):
                predicted = model.predict(X)
                fitted = model.best_estimator_ if isinstance(model, PrivateSearchCV) else model
                assert np.isfinite(fitted.coef_).all()
                found += (predicted.shape, predicted.dtype, fitted.coef_.shape, getattr(model, "classes_", None))
        except Exception as error:  # scikit-learn refuses sparse matrices by a TypeError
            expected = isinstance(error, DpconvexError | TypeError)
            found = ("" if expected else UNEXPECTED, type(error).__name__, str(error))
    return str(found), [str(warning.message) for warning in said]


def declaring(model: Any, **labels: Cells) -> Any:
    """Return the model with classes and groups as plain cells are: 0 and 1, or no and yes."""
    if isinstance(model, PrivateSearchCV):
        return clone(model).set_params(estimator=declaring(model.estimator, **labels))
    if not is_classifier(model) or model.schema is not None:
        return model
    known = ["classes", *(["groups"] if isinstance(model, PrivateWorstGroupClassifier) else [])]
    return clone(model).set_params(**{k: NAMES if labels.get(k, [0])[0] == "no" else NUMBERS for k in known})


def flags(container: str, missing: bool) -> Any:
    """Return a column of Booleans, some missing: no column of floats beside them decides how a table is read."""
    cells = filled([True, None if missing else False])
    made = {"polars": pl.Series(cells), "arrow": pa.chunked_array([pa.array(cells)]), "arrow array": pa.array(cells)}
    return made.get(container, pd.Series(cells, dtype="boolean") if "pandas" in container else np.arange(N) % 2 == 1)


Case = tuple[str, Any, list[tuple[Any, Any, Any]]]


def cases(model: Any, container: str, kind: str, together: bool) -> Iterator[Case]:
    """Yield each place that a column can have, the model, and X, y and groups of a fit for every content there."""
    kinds, column, table = COLUMNS[container]
    cells = contents(container, kind, together)
    columns = [column(each, kinds[kind][1]) for each in cells]
    if getattr(model, "schema", None) is not None:
        if container not in ("numpy", "list", "deque", "sparse"):
            plain = {"a": columns[0], "b": flags(container, missing=True), "y": columns[0], "u": columns[0]}
            for name in ("a", "y"):
                yield name, model, [(table(plain | {name: each}, None), None, None) for each in columns]
        return
    X, y = np.tile([[0.0, 1.0], [1.0, 0.0]], (N // 2, 1)), (np.arange(N) % 2).astype(float)
    worst = isinstance(model, PrivateWorstGroupClassifier)
    rows = y if worst else None
    turned = [column(each[::-1], kinds[kind][1]) for each in cells]
    tables = []
    for k, (a, b) in enumerate(zip(columns, turned, strict=True)):
        beside = {} if container in ("numpy", "sparse") else {"c": flags(container, missing=k > 0)}
        tables.append(table({"a": a, "b": b} | beside, None))
    yield "X", declaring(model), [(each, y, rows) for each in tables]
    if container == "sparse":
        return
    if not isinstance(model, PrivateGeometricMedian):
        yield "y", declaring(model, classes=cells[0]), [(X, each, rows) for each in columns]
        if is_classifier(model) and not worst:
            yield "y, no classes", model, [(X, each, rows) for each in columns]
    if worst:
        yield "groups", declaring(model, groups=cells[0]), [(X, y, each) for each in columns]
    elif not isinstance(model, PrivateLasso | PrivateSparseLogisticRegression):
        two = [each for each in contents(container, kind, False) if len({repr(cell) for cell in each}) == 2]
        users = [column(each, kinds[kind][1]) for each in two]  # how many there are is public
        yield "groups", declaring(model), [(X, y, each) for each in users]


def differing(models: list[Any], kinds: Iterator[tuple[str, str]] | list[tuple[str, str]], together: bool) -> list[str]:
    """Return the cases in which contents of one type end differently, in words."""
    found = []
    for model, (container, kind) in itertools.product(models, kinds):
        for place, made, fits in cases(model, container, kind, together):
            ends = [outcome(made, *fit) for fit in fits]
            name = f"{type(model).__name__}: {place} of {container}, {kind}"
            found += [f"{name}: {ends[0]} != {end}" for end in ends if end != ends[0] or UNEXPECTED in end[0]]
    return found


EVERY = [(container, kind) for container, (kinds, _, _) in COLUMNS.items() for kind in kinds]
FEW = [("polars", "bool"), ("pandas", "boolean"), ("arrow", "decimal128"), ("pandas array", "object"), ("deque", "any")]
"""Of types that NumPy knows only where no cell is missing."""


def test_every_estimator_is_here() -> None:
    assert {type(model) for model in MODELS} >= {*ESTIMATORS, *SPARSE_ESTIMATORS}


def test_types_decide_and_cells_do_not(full: bool) -> None:
    """In quick runs every sixth type meets one of the first two estimators in turn, in the gate both meet all others.

    Every estimator meets one of the `FEW` types in quick runs, the others in the gate.
    """
    for k, model in enumerate((LINEAR[0], MODELS[-4])):
        assert not differing(
            [model], [each for j, each in enumerate(EVERY) if (j % 12 == 6 * k) != full], together=True
        )
    if not full:
        assert not differing([LASSO], [each for each in EVERY if each[0] == "sparse"], together=True)
    for k, model in enumerate([*LINEAR[1:], LASSO, *SPARSE, MEDIAN, SEARCH, *MODELS[-3:]]):
        assert not differing(
            [model], [each for j, each in enumerate(FEW) if (j == k % len(FEW)) != full], together=True
        )


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_content_of_every_type(model: Any) -> None:
    assert not differing([model], EVERY, together=False)


TOML = """confirmed = true
[target]
name = "y"
classes = ["0", "1"]
[columns.a]
lower = 0
upper = 1
[columns.b]
lower = 0
upper = 1
"""
COMMANDS = {
    "fit": "fit FILE --schema s.toml --epsilon 1 --algorithm output_perturbation --out OUT",
    "fit users": "fit FILE --schema s.toml --epsilon 1 --algorithm output_perturbation --user-column u --out OUT",
    "search": "search FILE --schema s.toml --epsilon 1 --over l2=0.5,1 --method composition --out OUT",
    "fit-sparse": "fit-sparse FILE --schema s.toml --epsilon 1 --out OUT",
    "synthesize": "synthesize FILE --schema s.toml --epsilon 1 --bins 2 --out OUT",
    "synthesize labels": "synthesize FILE --schema s.toml --epsilon 1 --bins 2 --target-share 0.5 --out OUT",
    "median": "median FILE --epsilon 1 --radius-bound 10 --column a --column b --out OUT",
    "game": "game FILE --epsilon 1 --form rank_one --shape 2x2 --out OUT",
    "predict": "predict model FILE",
}
FILES = {
    "parquet": [
        {"a": pa.array(filled(flag), pa.bool_()), "b": pa.array(filled(cells), pa.decimal128(38, 2))}
        | {"y": pa.array(filled(flag), pa.bool_()), "u": pa.array(filled(flag), pa.bool_())}
        for flag, cells in (([False, True], DECIMALS[0]), ([None, True], DECIMALS[2]))
    ],
    "csv": [
        {"a": filled(cells), "b": filled(cells[::-1]), "y": filled(labels), "u": filled(users)}
        for cells, labels, users in (
            (["0", "1"], ["0", "1"], ["a", "b"]),
            (["", "nan", "-inf", "1e999", "x", "1"], ["", "2", "x", "1"], ["", "b"]),
        )
    ],
}


def ended(command: str, file: str, table: Any) -> tuple[Any, ...]:
    """Return exit code, error, what certificates say and the files of a command; of predictions, how many."""
    pq.write_table(pa.table(table), file) if file.endswith("parquet") else pd.DataFrame(table).to_csv(file, index=False)
    result = CliRunner().invoke(app, COMMANDS[command].replace("FILE", file).replace("OUT", "out").split())
    if result.exit_code or command == "predict":
        return result.exit_code, result.stderr, result.stdout.count("\n")
    names = sorted(path.name for path in Path("out").iterdir())
    certificate = PrivacyCertificate.from_json(Path("out/certificate.json").read_text()).public_fields()
    shutil.rmtree("out")
    return 0, result.stderr, names, certificate


@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=pytest.mark.gate)])
def test_commands_do_not_either(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dpconvex.cli.report.write_report", lambda *_: None)  # of released values alone, and slow
    Path("s.toml").write_text(TOML)
    model = PrivateLogisticRegression(1.0, schema=Schema.from_toml("s.toml"), **FAST)
    save_model(model.fit(pa.table(FILES["parquet"][0])), "model")
    for command in COMMANDS:
        plain, other = (ended(command, f"t.{kind}", table) for table in FILES[kind])
        assert plain[0] == 0, (command, plain)
        assert other == plain, command
