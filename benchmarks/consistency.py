"""Ask the same question in two ways, and compare what the two fits lose on learning tables.

    python benchmarks/consistency.py [--pairs added delta ...] [--seeds 2] [--rows 8000] [--json FILE]

A pair consists of two requests for one answer; public facts say that the second should be as good as the first, or
better. Both are fitted to tables of the learning half of `corpus.py`, at epsilon .1, .3, 1 and 3. The excess of a fit
is its training loss less that of the best model of its kind without privacy, divided by the excess of a constant; an
excess below .01 counts as .01. A line is printed for each pair and kind of target: the geometric mean, over tables, of
the second request's excess over the first's, with the standard error of its logarithm, the means by epsilon, the worst
cell, and the number of cells in which both fits are the same. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, QuantileRegressor

import corpus
from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    Schema,
)
from dpconvex.data import NumericTarget, UnrangedColumn

EPSILONS = (0.1, 0.3, 1.0, 3.0)
FLOOR, DELTA = 0.01, 1e-6
CLASSES = ("aggression", "crashes", "default", "health_insurance", "migraine", "smoking", "unemployment_benefits")
NUMBERS = ("census_wages", "college", "exam_scores", "grades", "log_wages", "math_scores", "nitrogen", "canadian_wages")
SMOOTH = {"classes": PrivateLogisticRegression, "numbers": PrivateLinearRegression}
ADDITIVE = {"classes": PrivateAdditiveClassifier, "numbers": PrivateAdditiveRegressor}


@dataclass
class Case:
    """A table, in a form of its schema, and what the best linear model and a constant lose on it."""

    name: str
    schema: Schema
    frame: pd.DataFrame
    how: str = "loss"  #: "loss": squared error or log-loss; "absolute": absolute error, or the share of wrong labels
    best: float = field(init=False)
    constant: float = field(init=False)

    def __post_init__(self) -> None:
        target = self.schema.target
        self.kind = "numbers" if isinstance(target, NumericTarget) else "classes"
        self.y = np.asarray(self.schema.encode_target(self.frame), dtype=float)
        X = np.column_stack([self.schema.encode(self.frame), np.ones(len(self.frame))])
        if self.kind == "classes":
            z = LogisticRegression(C=1e4, max_iter=3000).fit(X, self.y).predict_proba(X)[:, 1]
            rest = np.full(len(self.y), self.y.mean())
        elif self.how == "absolute":
            z = QuantileRegressor(alpha=0.0).fit(X, self.y).predict(X)
            rest = np.full(len(self.y), np.median(self.y))
        else:
            z = X @ np.linalg.lstsq(X, self.y, rcond=None)[0]
            rest = np.full(len(self.y), self.y.mean())
        self.best, self.constant = self.loss(z), self.loss(rest)

    def loss(self, z: np.ndarray) -> float:
        """Return the mean loss of predictions, or of probabilities of the second class."""
        if self.kind == "numbers":
            z = np.clip(z, self.schema.target.lower, self.schema.target.upper)
            return float(np.abs(z - self.y).mean() if self.how == "absolute" else np.square(z - self.y).mean())
        if self.how == "absolute":
            return float(np.mean((z > 0.5) != self.y))
        return float(-np.log(np.clip(np.where(self.y > 0, z, 1 - z), 1e-12, None)).mean())

    def share(self, z: np.ndarray) -> float:
        return (self.loss(z) - self.best) / max(self.constant - self.best, 1e-12)

    def ask(self, epsilon: float, delta: float, seed: int, kind: Any = None, **options: Any) -> float:
        """Return the excess of a fit, perhaps with another schema, frame, `X`, unit of targets (`scale`) or options."""
        schema, frame = options.pop("schema", self.schema), options.pop("frame", self.frame)
        X, move, given = options.pop("X", None), options.pop("scale", None), options.pop("given", {})
        model = (kind or SMOOTH[self.kind])(epsilon, delta, random_state=seed, **options)
        if X is None:
            X = frame
            model.set_params(schema=schema)
            model.fit(frame, **given)
        elif self.kind == "numbers":
            target = self.schema.target
            model.set_params(target_bounds=(target.lower, target.upper)).fit(X, self.y, **given)
        else:
            model.set_params(classes=[0, 1]).fit(X, self.y.astype(int), **given)
        if self.kind == "numbers":
            z = model.predict(X)
            return self.share(z if move is None else (z - move[1]) / move[0])
        if hasattr(model, "predict_proba"):
            return self.share(model.predict_proba(X)[:, 1])
        return self.share((model.decision_function(X) > 0) * 1.0)


def case(name: str, rows: int, how: str = "loss") -> Case:
    """Return a table of the corpus, with at most `rows` rows."""
    table = corpus.load(name)
    return Case(name, table.schema, table.frame.iloc[:rows].reset_index(drop=True), how)


def only(given: Case, wanted: Callable[[Any], bool]) -> Case | None:
    """Return the case with some of its columns; None if fewer than two are left."""
    columns = tuple(filter(wanted, given.schema.columns))
    return (
        Case(given.name, replace(given.schema, columns=columns), given.frame, given.how) if len(columns) > 1 else None
    )


def altered(schema: Schema, change: Callable[[Any], Any]) -> Schema:
    return replace(schema, columns=tuple(change(column) for column in schema.columns))


def two_level(column: Any) -> bool:
    if column.numeric:
        return (column.lower, column.upper) == (0, 1)
    return column.block.size == 1


def ranged(column: Any) -> bool:
    return column.numeric


def plain(given: Case) -> tuple[np.ndarray, dict[str, Any]]:
    """Return numeric columns as an array with their bounds."""
    X = np.column_stack([pd.to_numeric(given.frame[column.name]) for column in given.schema.columns])
    return X, {"feature_bounds": tuple(np.array([c.range.ends for c in given.schema.columns]).T)}


Loss = Callable[[Case, float, int], float]
Narrow = Callable[[Case], Case | None]


@dataclass(frozen=True)
class Pair:
    """Two ways to ask one question, and the tables on which both are compared."""

    name: str
    says: str
    usual: Loss
    other: Loss
    kinds: tuple[str, ...] = ("classes", "numbers")
    how: str = "loss"
    narrow: Narrow = lambda given: given


def usual(given: Case, epsilon: float, seed: int) -> float:
    return given.ask(epsilon, 0.0, seed)


def asked(delta: float = 0.0, kind: Any = None, **options: Any) -> Loss:
    return lambda given, epsilon, seed: given.ask(epsilon, delta, seed, kind, **options)


def added(delta: float) -> Loss:
    return lambda given, epsilon, seed: given.ask(
        epsilon, delta, seed, neighbors="add_or_remove_one", rows=len(given.frame)
    )


def with_schema(change: Callable[[Any], Any]) -> Loss:
    return lambda given, epsilon, seed: given.ask(epsilon, 0.0, seed, schema=altered(given.schema, change))


def reverse(given: Case, epsilon: float, seed: int) -> float:
    return given.ask(epsilon, 0.0, seed, schema=replace(given.schema, columns=given.schema.columns[::-1]))


def one_more(made: Callable[[Case], tuple[Any, Any]]) -> Loss:
    def loss(given: Case, epsilon: float, seed: int) -> float:
        column, values = made(given)
        schema = replace(given.schema, columns=(*given.schema.columns, column))
        return given.ask(epsilon, 0.0, seed, schema=schema, frame=given.frame.assign(**{column.name: values}))

    return loss


def copied(given: Case) -> tuple[Any, Any]:
    first = given.schema.columns[0]
    return replace(first, name="copy"), given.frame[first.name]


def never(column: Any) -> Any:
    if column.numeric or column.block.size < 2:
        return column
    return replace(column, categories=(*column.categories, *(f"never {k}" for k in range(20))))


def as_category(given: Case, epsilon: float, seed: int) -> float:
    """Ask with 0/1 columns that are declared as categories."""
    frame, columns = given.frame.copy(), []
    for column in given.schema.columns:
        if column.numeric and two_level(column):
            frame[column.name] = np.where(pd.to_numeric(frame[column.name]) > 0.5, "1", "0")
            columns.append(CategoricalColumn(column.name, ("0", "1"), other=False))
        else:
            columns.append(column)
    return given.ask(epsilon, 0.0, seed, schema=replace(given.schema, columns=tuple(columns)), frame=frame)


def as_number(given: Case, epsilon: float, seed: int) -> float:
    """Ask with categories of two levels that are declared as numbers 0 and 1."""
    frame, columns = given.frame.copy(), []
    for column in given.schema.columns:
        if not column.numeric and column.block.size == 1:
            frame[column.name] = (frame[column.name] == column.categories[-1]) * 1.0
            columns.append(NumericColumn(column.name, 0, 1))
        else:
            columns.append(column)
    return given.ask(epsilon, 0.0, seed, schema=replace(given.schema, columns=tuple(columns)), frame=frame)


def stepped(column: Any) -> Any:
    whole = column.numeric and column.lower.is_integer() and column.upper - column.lower >= 5
    return replace(column, step=1.0) if whole else column


def whole_numbers(given: Case) -> Case | None:
    """Return the case, or None if a column that would get a step of 1 has values that are not whole."""
    for column in given.schema.columns:
        if stepped(column) is not column:
            values = pd.to_numeric(given.frame[column.name]).dropna()
            if (values != values.round()).any():
                return None
    return given


def units(given: Case, epsilon: float, seed: int) -> float:
    """Ask with the target and numeric columns in other units."""
    frame, target = given.frame.copy(), given.schema.target
    columns = []
    for column in given.schema.columns:
        if column.numeric and not two_level(column):
            frame[column.name] = pd.to_numeric(frame[column.name]) * 8 + 16
            column = replace(column, lower=column.lower * 8 + 16, upper=column.upper * 8 + 16)
        columns.append(column)
    scale = None
    if given.kind == "numbers":
        frame[target.name] = frame[target.name] * 4 + 32
        target, scale = replace(target, lower=target.lower * 4 + 32, upper=target.upper * 4 + 32), (4.0, 32.0)
    schema = replace(given.schema, columns=tuple(columns), target=target)
    return given.ask(epsilon, 0.0, seed, schema=schema, frame=frame, scale=scale)


def array(given: Case, epsilon: float, seed: int) -> float:
    X, bounds = plain(given)
    return given.ask(epsilon, 0.0, seed, X=X, **bounds)


def encoded(given: Case, epsilon: float, seed: int) -> float:
    """Ask with encoded columns and their domain: such fits look at no range."""
    return given.ask(epsilon, 0.0, seed, X=given.schema.encode(given.frame), domain=given.schema.domain())


def weights(given: Case, epsilon: float, seed: int) -> float:
    return given.ask(epsilon, 0.0, seed, weight_cap=1.0, given={"sample_weight": np.ones(len(given.frame))})


def private_ranges(given: Case, epsilon: float, seed: int) -> float:
    """Ask without ranges of numeric columns, except [0, 1]."""
    schema = altered(given.schema, lambda c: UnrangedColumn(c.name) if c.numeric and not two_level(c) else c)
    return given.ask(epsilon, 0.0, seed, schema=schema)


def more_epsilon(given: Case, epsilon: float, seed: int) -> float:
    return given.ask(1.25 * epsilon, 0.0, seed)


PAIRS = (
    Pair("added", "add or remove one, pure, against replace one", usual, added(0.0)),
    Pair("added, delta", "the same with delta", asked(DELTA), added(DELTA)),
    Pair("delta", "delta against pure", usual, asked(DELTA)),
    Pair(
        "delta, additive",
        "the same, additive models",
        lambda c, e, s: c.ask(e, 0.0, s, ADDITIVE[c.kind]),
        lambda c, e, s: c.ask(e, DELTA, s, ADDITIVE[c.kind]),
    ),
    Pair(
        "delta, huber",
        "the same, Huber",
        asked(kind=PrivateHuberRegressor),
        asked(DELTA, PrivateHuberRegressor),
        ("numbers",),
    ),
    Pair(
        "delta, svc",
        "the same, SVC",
        asked(kind=PrivateLinearSVC),
        asked(DELTA, PrivateLinearSVC),
        ("classes",),
        "absolute",
    ),
    Pair("epsilon", "epsilon a quarter larger", usual, more_epsilon),
    Pair(
        "huber",
        "Huber against least squares: absolute error",
        usual,
        asked(kind=PrivateHuberRegressor),
        ("numbers",),
        "absolute",
    ),
    Pair(
        "quantile",
        "quantile .5 against least squares: absolute error",
        usual,
        asked(kind=PrivateQuantileRegressor),
        ("numbers",),
        "absolute",
    ),
    Pair(
        "array",
        "an array with bounds against a schema of the same numbers",
        usual,
        array,
        narrow=lambda c: only(c, ranged),
    ),
    Pair("domain", "encoded columns and a domain against the schema", usual, encoded),
    Pair("units", "other units", usual, units),
    Pair("order", "columns in the reverse order", usual, reverse),
    Pair(
        "constant",
        "a constant column more",
        usual,
        one_more(lambda c: (NumericColumn("one", 0, 2), np.ones(len(c.frame)))),
    ),
    Pair(
        "empty",
        "a numeric column at an end of its range more",
        usual,
        one_more(lambda c: (NumericColumn("one", 0, 100), np.zeros(len(c.frame)))),
    ),
    Pair("copy", "the first column twice", usual, one_more(copied)),
    Pair("levels", "20 levels more that never occur", usual, with_schema(never)),
    Pair("category", "0/1 columns as categories", usual, as_category),
    Pair("number", "two-level categories as numbers 0 and 1", usual, as_number),
    Pair("step", "steps declared", usual, with_schema(stepped), narrow=whole_numbers),
    Pair("weights", "weights 1 against none", usual, weights),
    Pair("private ranges", "private ranges against declared ones", usual, private_ranges),
    Pair(
        "additive, two levels",
        "additive against linear, two-level columns",
        usual,
        lambda c, e, s: c.ask(e, 0.0, s, ADDITIVE[c.kind]),
        narrow=lambda c: only(c, two_level),
    ),
    Pair("additive", "additive against linear", usual, lambda c, e, s: c.ask(e, 0.0, s, ADDITIVE[c.kind])),
    Pair("heavy 2", "heavy_tailed=2 against none", asked(DELTA), asked(DELTA, heavy_tailed=2), ("numbers",)),
    Pair("inference", "with intervals against none", usual, asked(inference=True)),
    Pair("inference, delta", "with intervals against none, delta", asked(DELTA), asked(DELTA, inference=True)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="*", default=[pair.name for pair in PAIRS])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    known: dict[Any, list[float]] = {}
    for pair in (pair for pair in PAIRS if pair.name in given.pairs):
        cells = []
        for kind, name in [(k, n) for k in pair.kinds for n in (CLASSES if k == "classes" else NUMBERS)]:
            if (table := pair.narrow(case(name, given.rows, pair.how))) is None:
                continue
            for epsilon in EPSILONS:
                both = []
                for way in (pair.usual, pair.other):
                    key = id(way), name, pair.how, len(table.schema.columns), epsilon
                    if key not in known:
                        known[key] = [way(table, epsilon, seed) for seed in range(given.seeds)]
                    both.append(known[key])
                first, second = (max(float(np.mean(values)), FLOOR) for values in both)
                line = {"pair": pair.name, "kind": kind, "table": name, "epsilon": epsilon, "usual": both[0]}
                line |= {"other": both[1], "log": float(np.log(second / first)), "same": both[0] == both[1]}
                cells.append(line)
        lines += cells
        if given.json:
            given.json.write_text(json.dumps(lines))
        for kind in pair.kinds:
            report(pair.says, kind, [cell for cell in cells if cell["kind"] == kind])


def report(says: str, kind: str, cells: list[dict[str, Any]]) -> None:
    """Print a row of the table."""
    if not cells:
        return

    def mean(**facts: Any) -> float:
        return float(np.mean([c["log"] for c in cells if all(c[name] == value for name, value in facts.items())]))

    of_tables = [mean(table=name) for name in {cell["table"] for cell in cells}]
    error, worst = np.std(of_tables) / np.sqrt(len(of_tables)), max(cells, key=lambda cell: cell["log"])
    at = " ".join(f"{np.exp(mean(epsilon=epsilon)):.2f}" for epsilon in EPSILONS)
    where = f"{np.exp(worst['log']):.1f} ({worst['table']}, {worst['epsilon']:g})"
    same = f"{sum(cell['same'] for cell in cells)} of {len(cells)} the same"
    print(f"| {says} | {kind} | {np.exp(np.mean(of_tables)):.2f} ({error:.2f}) | {at} | {where} | {same} |", flush=True)


if __name__ == "__main__":
    main()
