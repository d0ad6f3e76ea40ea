"""Choose what plans of additive models guess of shapes (`Guess` in `problems/linear/shapes.py`); Adult is not used.

    python benchmarks/additive_guess.py measure FILE [--tables NAME ...] [--seeds 2]
    python benchmarks/additive_guess.py choose FILE
    python benchmarks/additive_guess.py straight FILE [--rows 20000] [--kinds numbers]
    python benchmarks/additive_guess.py monotone FILE

``measure`` fits every number of knots with every regularization, and writes the log-loss on held-out records. Numeric
targets are made classes at a round number. ``choose`` plans with every guess of a grid and looks up the loss of the
plan's choice; its regret is this loss less that of the best choice. For each table it prints the guess of the least
mean regret on all other tables, and that guess's regret on this table. ``straight`` fits shapes and straight lines to
the learning tables of the corpus. For every threshold that decides when shapes bend, it prints the loss above that of
the better fit, in units of a constant's loss. ``monotone`` compares three ways to treat columns of these tables whose
effect must be monotone: leave them as they are, take the nearest monotone shape with equal weights, and the library's
way.
Fits are seeded, hence not private: this measures accuracy on public data.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from dataclasses import replace

import numpy as np
from sklearn.isotonic import isotonic_regression

import corpus
from dpconvex import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from dpconvex.data import ClassTarget
from dpconvex.estimators import AdditiveModel, additive
from dpconvex.problems.linear import shapes
from prior import forget
from tables import REGRESSION_TABLES, TABLES

EPSILONS = {0.1: 0.6, 0.3: 0.7, 1.0: 0.7, 3.0: 0.9}
"""The values of epsilon that are measured, each with the slope cap that suits it."""
KNOTS, TAUS = (2, 3, 4, 8, 16), (0.1, 0.25, 0.6, 1.5)
SPREADS = (1.0, 0.4, 0.15)
SPLIT = {"diamonds": 2500, "delays": 15, "spending": 100}
NAMES = ("flights", "fertility", "spambase", *SPLIT)
TRAIN, TEST = 24_000, 30_000


def table_of(name: str):
    """Return schema, records and labels."""
    if name not in SPLIT:
        table = TABLES[name]()
        return table.schema, table.frame, np.asarray(table.y, float)
    table = REGRESSION_TABLES[name]()
    schema = replace(table.schema, target=ClassTarget("above", ("no", "yes")))
    return schema, table.frame, (np.asarray(table.y) > SPLIT[name]).astype(float)


def rows(frame, chosen: np.ndarray):
    return frame.iloc[chosen] if hasattr(frame, "iloc") else frame.take(chosen)


def split(schema, frame, y: np.ndarray, seed: int, train: int = TRAIN):
    order = np.random.default_rng(seed).permutation(len(y))
    held = min(max(len(y) // 5, len(y) - train), TEST)
    test, learn = order[:held], order[held : held + train]
    return rows(frame, learn), y[learn].astype(int), rows(frame, test), y[test].astype(int)


def log_loss(model, frame, y: np.ndarray) -> float:
    return float(-model.predict_log_proba(frame)[np.arange(len(y)), y].mean())


def fitted(schema, frame, y: np.ndarray, epsilon: float, cap: float, knots: int, l2: float, seed: int):
    columns = replace(schema, target=None)
    model = PrivateAdditiveClassifier(
        epsilon, schema=columns, classes=[0, 1], slope_cap=cap, knots=knots, noise="grouped",
        algorithm="objective_perturbation", random_state=seed,
    )  # fmt: skip
    model.l2 = l2
    return model.fit(frame, y)


def measure(path: str, names, seeds: int) -> None:
    found = []
    for seed, name in itertools.product(range(seeds), names):
        schema, frame, y = table_of(name)
        X, target, held, truth = split(schema, frame, y, seed)
        start = time.perf_counter()
        for (epsilon, cap), knots, share in itertools.product(EPSILONS.items(), KNOTS, TAUS):
            model = fitted(schema, X, target, epsilon, cap, knots, 1 / (len(target) * share * epsilon), seed)
            loss = log_loss(model, held, truth)
            case = {"table": name, "seed": seed, "n": len(target), "epsilon": epsilon}
            found.append({**case, "knots": knots, "tau": share, "loss": loss})
        print(name, seed, f"{time.perf_counter() - start:.0f} s", flush=True)
        with open(path, "w") as file:
            json.dump(found, file)


def choose(path: str) -> None:
    with open(path) as file:
        found = json.load(file)
    names = list(dict.fromkeys(row["table"] for row in found))
    grid = [
        shapes.Guess(line=line, motion=motion * line, level=level, spread=spread)
        for line, motion, level, spread in itertools.product((1, 3), (0.2, 0.7), (0.25,), SPREADS)
    ]
    regrets = np.array([[regret(name, found, guess) for name in names] for guess in grid])
    for k, name in enumerate(names):
        others = np.delete(regrets, k, 1)
        best = int(np.argmin(others.mean(1)))
        print(f"{name:10} left out: {grid[best]}: {regrets[best, k]:.4f} there, {others[best].mean():.4f} elsewhere")
    order = np.argsort(regrets.mean(1))
    for k in order[:8]:
        print("all tables:", grid[k], f"regret {regrets[k].mean():.5f}", np.round(regrets[k], 4))
    now = np.array([regret(name, found, shapes.GUESS) for name in names])
    print("as it is:", shapes.GUESS, f"regret {now.mean():.5f}", np.round(now, 4))


def regret(name: str, found: list[dict], guess) -> float:
    """Return the mean, over budgets, of what a guess's plan loses over the best choice that was measured."""
    before, shapes.GUESS = shapes.GUESS, guess
    forget()
    schema, n = SCHEMAS.setdefault(name, table_of(name)[0]), next(r["n"] for r in found if r["table"] == name)
    total = 0.0
    for epsilon, cap in EPSILONS.items():
        mean: dict[tuple[int, float], list[float]] = {}
        for row in found:
            if (row["table"], row["epsilon"]) == (name, epsilon):
                mean.setdefault((row["knots"], row["tau"]), []).append(row["loss"])
        losses = {key: float(np.mean(values)) for key, values in mean.items()}
        model = PrivateAdditiveClassifier(
            epsilon, schema=replace(schema, target=None), classes=[0, 1], slope_cap=cap, noise="grouped",
            algorithm="objective_perturbation",
        )  # fmt: skip
        features = model._feature_map(None)
        each = {k: super(AdditiveModel, model)._plans(features.at(k), n, model._loss(2)) for k in KNOTS}
        k = min(each, key=lambda k: each[k][0].expected)
        tau = float(np.clip(each[k][0].problem.tau(each[k][0].l2) / epsilon, TAUS[0], TAUS[-1]))
        total += np.interp(np.log(tau), np.log(TAUS), [losses[k, t] for t in TAUS]) - min(losses.values())
    shapes.GUESS = before
    return total / len(EPSILONS)


def straight(path: str, seeds: int, most: int, kinds: str) -> None:
    rows_found: list[dict] = []
    for name in (name for name in (*corpus.LEARNING, *corpus.MORE_NUMBERS) if name not in corpus.MANY_CLASSES):
        table = corpus.load(name)
        schema, frame, numbers = table.schema, table.frame.iloc[:most], table.schema.target.numeric
        if kinds not in ("both", "numbers" if numbers else "classes"):
            continue
        y = np.asarray(schema.encode_target(frame), float)
        for epsilon in EPSILONS:
            row = {"table": name, "epsilon": epsilon, "numbers": numbers}
            for which, learned in (("straight", 0.0), ("bent", np.inf)):
                additive.LEARNED, losses = dict.fromkeys(("classification", "regression"), learned), []
                for seed in range(seeds):
                    order = np.random.default_rng(seed).permutation(len(y))
                    test, train = order[: len(y) // 5], order[len(y) // 5 :]
                    kind = PrivateAdditiveRegressor if numbers else PrivateAdditiveClassifier
                    model = kind(epsilon, schema=schema, random_state=seed).fit(frame.iloc[train])
                    losses.append(lost(model, frame.iloc[test], y[test]))
                row[which] = float(np.mean(losses))
                plan, zero = model.plan_, model.plan_.problem.typical.at_zero
                row |= {"n": len(train), f"{which}_expected": plan.predicted_error.expected / zero}
                row |= {f"{which}_columns": plan.problem.domain.n_features, f"{which}_algorithm": plan.algorithm}
            row["share"] = row["bent_expected"]
            rows_found.append(row)
            print(row, flush=True)
    with open(path, "w") as file:
        json.dump(rows_found, file, indent=1)
    compare(rows_found)


THRESHOLDS = (0.0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.13, 0.15, 0.2, 0.3, 0.6, np.inf)


def compare(found: list[dict]) -> None:
    """Print what every threshold loses over the better of the two fits, and the choices with each table left out."""
    for numbers in (False, True):
        rows = [row for row in found if row["numbers"] == numbers]
        if not rows:
            continue
        both = np.array([[row["straight"], row["bent"]] for row in rows])
        bent = np.array([[row["share"] < learned for learned in THRESHOLDS] for row in rows])
        taken = np.where(bent, both[:, [1]], both[:, [0]])
        lost, more = taken - both.min(1, keepdims=True), taken - both[:, [0]]
        print("targets that are", "numbers" if numbers else "classes")
        names, epsilons = (np.array([row[key] for row in rows]) for key in ("table", "epsilon"))
        every = list(dict.fromkeys(names.tolist()))
        for k, learned in enumerate(THRESHOLDS):
            ratio, by_table = taken[:, k] / both[:, 0], [more[names == name, k].mean() for name in every]
            error = np.std(by_table, ddof=1) / len(every) ** 0.5
            each = ", ".join(f"{more[epsilons == epsilon, k].mean():+.4f}" for epsilon in EPSILONS)
            print(
                f"bent where less than {learned:g} is lost: {bent[:, k].sum()} of {len(rows)} bent, regret "
                f"{lost[:, k].mean():.4f}; over lines {np.mean(by_table):+.4f} ({error:.4f}), by epsilon {each}; "
                f"worse by 5 % {np.sum(ratio > 1.05)}, at most {ratio.max():.2f} times"
            )
        best = {name: int(more[names != name].mean(0).argmin()) for name in every}
        out = [more[names == name, k].mean() for name, k in best.items()]
        chosen = [THRESHOLDS[k] for k in best.values()]
        error = np.std(out, ddof=1) / len(every) ** 0.5
        print("chosen without each table:", {t: chosen.count(t) for t in chosen}, f"{np.mean(out):+.4f} ({error:.4f})")


DIRECTIONS = {
    "census_wages": {"education": "increasing"},
    "default": {"balance": "increasing"},
    "exam_scores": {"standLRT": "increasing"},
    "grades": {"sat": "increasing", "hsperc": "decreasing"},
    "lending": {"int_rate": "increasing"},
    "math_scores": {"ses": "increasing"},
    "nitrogen": {"LNOxEm": "increasing"},
}


def monotone(path: str, seeds: int) -> None:
    found: list[dict] = []
    for name, directions in DIRECTIONS.items():
        table = corpus.load(name)
        schema, frame, numbers = table.schema, table.frame.iloc[:20_000], table.schema.target.numeric
        y = np.asarray(schema.encode_target(frame), float)
        for epsilon in (0.1, 0.3, 1.0):
            losses = np.zeros((seeds, 3))
            for seed in range(seeds):
                order = np.random.default_rng(seed).permutation(len(y))
                test, train = order[: len(y) // 5], order[len(y) // 5 :]
                kind = PrivateAdditiveRegressor if numbers else PrivateAdditiveClassifier
                free, ours = (
                    kind(epsilon, schema=schema, knots=8, monotone=asked, random_state=seed).fit(frame.iloc[train])
                    for asked in (None, directions)
                )
                losses[seed, [0, 2]] = [lost(each, frame.iloc[test], y[test]) for each in (free, ours)]
                for shape in (shape for shape in free.shapes_ if shape.name in directions):
                    places = sum(not isinstance(vertex, str) for vertex in shape.vertices)
                    rises = directions[shape.name] == "increasing"
                    shape.values[:places] = isotonic_regression(shape.values[:places], increasing=rises)
                losses[seed, 1] = lost(free, frame.iloc[test], y[test])
            mean, error = losses.mean(0), losses.std(0, ddof=1) / seeds**0.5
            found.append({"table": name, "epsilon": epsilon, "losses": losses.tolist()})
            cells = ", ".join(f"{a:.3f} ± {b:.3f}" for a, b in zip(mean, error, strict=True))
            print(f"{name:14} {epsilon:4g}: free, equal weights, ours: {cells}", flush=True)
    with open(path, "w") as file:
        json.dump(found, file, indent=1)


def lost(model, frame, y: np.ndarray) -> float:
    """Return what predictions lose, in units of what a constant loses."""
    if isinstance(model, PrivateAdditiveRegressor):
        return float(np.square(model.predict(frame) - y).mean() / y.var())
    rate = y.mean()
    return log_loss(model, frame, y.astype(int)) / float(-rate * np.log(rate) - (1 - rate) * np.log(1 - rate))


SCHEMAS: dict = {}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "choose", "straight", "monotone"))
    parser.add_argument("path")
    parser.add_argument("--tables", nargs="+", default=NAMES)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000, help="``straight``: largest number of records")
    parser.add_argument("--kinds", choices=("both", "classes", "numbers"), default="both", help="``straight``: targets")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "measure":
        measure(arguments.path, arguments.tables, arguments.seeds)
    elif arguments.what == "choose":
        choose(arguments.path)
    elif arguments.what == "straight":
        straight(arguments.path, arguments.seeds, arguments.rows, arguments.kinds)
    else:
        monotone(arguments.path, arguments.seeds)
