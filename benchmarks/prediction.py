"""Does the expected error of a plan predict the measured one, and does `algorithm="auto"` choose well?

    python benchmarks/prediction.py [--tables adult cancer ... | --corpus learning] [--seeds 2] [--rows 20000]
        [--json FILE]
    python benchmarks/prediction.py --probabilities [--seeds 2]
    python benchmarks/prediction.py --bands [--seeds 2]

Every plan (algorithm, noise, cap) that the estimators offer for a table and a budget is fitted, not only the chosen
plan. The excess of a fit is its training loss above the optimum of the same features: log-loss, or half the squared
error in units of the target's range. Printed are Spearman's rank correlation of expected and measured excess, among the
plans of a cell (table, epsilon, delta) and over all plans; quantiles of measured / expected; and the measured excess of
the chosen plan relative to the best plan of its cell. Fits are seeded, hence not private: this measures accuracy on
public data.

With ``--probabilities`` the ways to read scores under a slope cap (`PrivateLogisticRegression`, ``probabilities``) are
compared on Adult and on simulated tables with 14 % positives. Printed are log-loss and the mean probability over the
rate, on the records of the fit and on other records. With ``--bands`` it measures how far the noise of fits to Adult
moves coefficients from the fit without noise, in units of the report's two bands.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from scipy.stats import spearmanr

import corpus
from dpconvex import DataDomain, PrivateLinearRegression, PrivateLogisticRegression
from dpconvex.errors import HopelessPlanWarning
from dpconvex.problems import Records, RegularizedRisk
from dpconvex.randomness import SeededSource
from dpconvex.solvers import NewtonCholesky
from excess_loss import log_loss, optimum
from tables import REGRESSION_TABLES, TABLES, Table

EPSILONS = (0.1, 0.3, 1.0, 3.0)
DELTAS = (0.0, 1e-6)
HOPELESS = 3.0
"""Plans whose expected excess is this many times that of the zero vector are left out: nobody would run them."""


def cells(table: Table, rows: int, seeds: int) -> Iterator[dict]:
    """Yield one measurement for each plan."""
    order = np.random.default_rng(0).permutation(len(table.X))[:rows]
    X, y = table.X[order], table.y[order]
    schema = table.schema
    domain, numeric = schema.domain(), schema.target.numeric
    if numeric:
        target = schema.target
        width = target.upper - target.lower
        common = {"domain": domain, "target_bounds": (target.lower, target.upper)}
        kind, design = PrivateLinearRegression, np.column_stack([X, np.ones(len(X))])
        best = float(np.square(design @ np.linalg.lstsq(design, y, rcond=None)[0] - y).mean()) / 2 / width**2
    else:
        common, kind = {"domain": domain, "classes": [0, 1]}, PrivateLogisticRegression
        best = optimum(X, y, domain.with_intercept(1.0))

    def excess(model) -> float:
        z = X @ np.ravel(model.coef_) + np.ravel(model.intercept_)[0]
        return (float(np.square((z - y) / width).mean()) / 2 if numeric else log_loss(z, y)) - best

    for epsilon in EPSILONS:
        for delta in DELTAS:
            base = kind(epsilon, delta, **common)
            for rank, plan in enumerate(base.plan(len(X), X.shape[1])):
                error = plan.predicted_error
                if error.expected is None or error.expected > HOPELESS * plan.problem.typical.at_zero:
                    continue
                own = {"algorithm": plan.algorithm}
                if plan.algorithm.endswith("perturbation"):
                    own["noise"] = plan.noise_name
                if not numeric:
                    own["slope_cap"] = plan.problem.loss.cap
                start, measured = time.perf_counter(), []
                for seed in range(seeds):
                    measured.append(excess(kind(epsilon, delta, **common, **own, random_state=seed).fit(X, y)))
                yield {
                    "table": table.name, "n": len(X), "dim": plan.problem.dim, "epsilon": epsilon, "delta": delta,
                    "rank": rank, **own, "noise_name": plan.noise_name, "l2": plan.l2, "expected": error.expected,
                    "bound": error.bound, "at_zero": plan.problem.typical.at_zero,
                    "measured": measured, "seconds": (time.perf_counter() - start) / seeds,
                }  # fmt: skip


def summary(lines: list[dict]) -> dict:
    """Return rank correlations, calibration, and what the chosen plans lose over the best ones."""
    expected = np.array([line["expected"] for line in lines])
    measured = np.array([np.mean(line["measured"]) for line in lines])
    ratio = measured / expected
    within, price = [], []
    for key in {(line["table"], line["epsilon"], line["delta"]) for line in lines}:
        own = [k for k, line in enumerate(lines) if (line["table"], line["epsilon"], line["delta"]) == key]
        if len(own) > 2:
            within.append(float(spearmanr(expected[own], measured[own]).statistic))
        first = min(own, key=lambda k: lines[k]["rank"])
        price.append(measured[first] / measured[own].min())
    return {
        "plans": len(lines),
        "rank_correlation": float(spearmanr(expected, measured).statistic),
        "rank_correlation_of_bounds": float(spearmanr([line["bound"] for line in lines], measured).statistic),
        "rank_correlation_within_cells": float(np.mean(within)) if within else math.nan,
        "measured_over_expected": np.quantile(ratio, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist(),
        "chosen_over_best": np.quantile(price, [0.5, 0.75, 0.9, 1.0]).tolist(),
    }


def show(groups: dict[str, list[dict]]) -> None:
    table = RichTable(title="Expected against measured excess loss")
    for name in (
        "table",
        "plans",
        "rank corr.",
        "in a cell",
        "of bounds",
        "measured/expected 5 50 95 %",
        "chosen/best",
    ):
        table.add_column(name, justify="left" if name == "table" else "right")
    for name, lines in groups.items():
        s = summary(lines)
        low, _, middle, _, high = s["measured_over_expected"]
        table.add_row(
            name,
            str(s["plans"]),
            f"{s['rank_correlation']:.2f}",
            f"{s['rank_correlation_within_cells']:.2f}",
            f"{s['rank_correlation_of_bounds']:.2f}",
            f"{low:.2f} {middle:.2f} {high:.2f}",
            f"{s['chosen_over_best'][0]:.2f} to {s['chosen_over_best'][-1]:.2f}",
        )
    Console(width=120).print(table)


def simulated(normal: bool, n: int = 20_000, d: int = 30) -> tuple[np.ndarray, np.ndarray, DataDomain]:
    """Return records of a logistic model with 14 % positives and log-odds of deviation 1.5, and their domain.

    Columns are uniform on their range, or normal with a sixth of it as deviation.
    """
    rng = np.random.default_rng(0)
    X = np.clip(rng.standard_normal((n, d)) / 6, -0.5, 0.5) if normal else rng.uniform(-0.5, 0.5, (n, d))
    z = X @ rng.standard_normal(d)
    z = 1.5 * z / z.std() - 2.45
    return X, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int), DataDomain.box(d, 0.5)


def probabilities(seeds: int) -> None:
    """Print log-loss and (mean probability) / rate for all ways to read scores, on fitted and on other records."""
    adult = TABLES["adult"](45_222)
    tables = {
        "adult": (adult.X, adult.y, adult.schema.domain(), 36_186),
        "simulated, normal columns": (*simulated(True), 10_000),
        "simulated, uniform columns": (*simulated(False), 10_000),
    }
    out = RichTable(title="Log-loss (mean probability / rate), fitted records and others")
    readings = ("sigmoid", "tempered", "calibrated")
    for name in ("table", "rate", "epsilon", "cap", *readings, *(f"{each}, others" for each in readings)):
        out.add_column(name, justify="left" if name == "table" else "right")
    for name, (X, y, domain, fitted) in tables.items():
        for epsilon in EPSILONS:
            models = [
                PrivateLogisticRegression(epsilon, domain=domain, classes=[0, 1], random_state=k) for k in range(seeds)
            ]
            for model in models:
                model.fit(X[:fitted], y[:fitted])
            found = []
            for part in (slice(0, fitted), slice(fitted, None)):
                for link in readings:
                    logs = [model.set_params(probabilities=link).predict_log_proba(X[part]) for model in models]
                    loss = np.mean([-each[np.arange(len(each)), y[part]].mean() for each in logs])
                    mean = np.mean([np.exp(each[:, 1]).mean() for each in logs]) / y[part].mean()
                    found.append(f"{loss:.4f} ({mean:.2f})")
            out.add_row(name, f"{y.mean():.3f}", f"{epsilon:g}", f"{models[0].slope_cap_:g}", *found)
    Console(width=180).print(out)


def bands(seeds: int) -> None:
    """Print distances from the fit without noise over the bands: quantiles over coefficients, and how many miss."""
    table = TABLES["adult"]()
    y = 2.0 * table.y - 1
    out = RichTable(title="Adult: root mean square distance over typical deviation, and share of distances in a band")
    for name in ("method", "epsilon", "median", "90 %", "worst", "within typical", "within guaranteed", "width ratio"):
        out.add_column(name, justify="left" if name == "method" else "right")
    for algorithm in ("objective_perturbation", "output_perturbation"):
        for epsilon in (0.3, 1.0):
            base = PrivateLogisticRegression(epsilon, domain=table.schema.domain(), classes=[0, 1], algorithm=algorithm)
            plan = base.plan(len(y))[0]
            records = Records.clipped(table.X, plan.problem.domain)
            best = NewtonCholesky().solve(RegularizedRisk(plan.problem.loss, records, y, plan.l2), 1e-6).point
            points = [plan.run(table.X, y, SeededSource(seed)).point for seed in range(seeds)]
            away, guess, reach = np.abs(np.array(points) - best), plan.coefficient_deviation, plan.noise_reach()
            ratio = np.sqrt(np.mean(away**2, axis=0)) / guess
            shares = [f"{np.mean(away <= band):.3f}" for band in (2 * guess, reach)]
            spread = [f"{value:.2f}" for value in np.quantile(ratio, [0.5, 0.9, 1.0])]
            out.add_row(algorithm, f"{epsilon:g}", *spread, *shares, f"{np.median(reach / (2 * guess)):.1f}")
    Console(width=140).print(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own = {**TABLES, **REGRESSION_TABLES}
    every = {**own, **{name: partial(corpus.load, name) for name in corpus.TWO_CLASSES_OR_NUMBERS}}
    parser.add_argument("--tables", nargs="+", default=list(own), choices=list(every))
    parser.add_argument("--corpus", choices=("learning", "held_out"), help="take all tables of that half instead")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000, help="the largest number of records of a table")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--probabilities", action="store_true", help="compare the readings of scores under a slope cap")
    parser.add_argument("--bands", action="store_true", help="measure the bands of coefficients")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", HopelessPlanWarning)  # small tables and small budgets are measured too
    if arguments.probabilities:
        return probabilities(arguments.seeds)
    if arguments.bands:
        return bands(arguments.seeds)
    groups = {}
    half = {"learning": corpus.LEARNING, "held_out": corpus.HELD_OUT}.get(arguments.corpus)
    for name in arguments.tables if half is None else filter(every.__contains__, half):
        groups[name] = list(cells(every[name](), arguments.rows, arguments.seeds))
        if arguments.json:
            lines = [line for group in groups.values() for line in group]
            arguments.json.write_text(json.dumps({"summary": summary(lines), "plans": lines}, indent=1))
        show({name: groups[name]})
    show({**groups, "all": [line for group in groups.values() for line in group]})


if __name__ == "__main__":
    main()
