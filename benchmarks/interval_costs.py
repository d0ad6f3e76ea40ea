"""Measure what intervals cost predictions, part by part, and what caps on residuals do to estimates and their errors.

    python benchmarks/interval_costs.py [--delta 1e-6] [--seeds 2] [--rows 8000]
    python benchmarks/interval_costs.py --ranges 1 4 [--epsilons 1 3] [--rows 20000]

Tables and excess are those of `consistency.py`, at epsilon .3, 1 and 3. Each line has geometric means over tables of
the excess relative to an ordinary fit, and standard errors of their logarithms. The lines are: an ordinary fit by
objective perturbation alone, which looks at no ranges; this fit without caps; this fit with half of epsilon; fits for
intervals without a cap and with the usual share for a curvature that can tell nothing (the former default), with caps
on residuals in ranges of the target, with today's default but for looks at ranges, and with looks; and, of these fits,
predictions shrunk to the ridge that an ordinary plan expects to be best, and to a posterior mean. Further columns: the
number of finite intervals, standard errors relative to those without a cap, and the largest move of the best fit by a
cap, in standard errors, with its table.

``--ranges`` compares fits with looks at ranges to fits without, if columns are declared so many times as wide: how many
intervals are finite, standard errors of the same coefficients in the same unit, excess (in the mean, of a constant's),
and how far looks move the exact best fit, in standard errors, since they clip: the median, the 90 % quantile, and the
largest. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Any
from unittest import mock

import numpy as np

from consistency import CLASSES, FLOOR, NUMBERS, SMOOTH, Case, altered, case
from dpconvex.algorithms.curvature import InferencePlan
from dpconvex.estimators._features import divisible

EPSILONS, CAPS = (0.3, 1.0, 3.0), (0.5, 0.35, 0.25, 0.18)
OLD = mock.patch.object(InferencePlan, "hopeful", True)


def fitted(given: Case, epsilon: float, delta: float, seed: int, cap: float | None, looks: bool = False) -> Any:
    if cap is not None:
        cap *= given.schema.target.upper - given.schema.target.lower
    more = {} if cap is None else {"residual_cap": cap}
    model = SMOOTH[given.kind](epsilon, delta, random_state=seed, schema=given.schema, inference=True, **more)
    model._looks = looks
    return model.fit(given.frame)


def excess(given: Case, model: Any, w: np.ndarray | None = None) -> float:
    """Return the excess of a fit, or of its model with parameters `w` in place of its own."""
    if w is not None:
        start, constant = model._start(model._known()[1]), model._known()[1].problem.domain.intercept
        model.encoded_coef_ = model.output_scale * w[None, :-1]
        model.encoded_intercept_ = start + model.output_scale * constant * w[-1:]
    of_class = given.kind == "classes"
    return given.share(model.predict_proba(given.frame)[:, 1] if of_class else model.predict(given.frame))


def shrunk(model: Any) -> dict[str, np.ndarray]:
    """Return parameters that are shrunk, using only what was released."""
    intervals, plan = model._known()
    found, data, typical = intervals.spread, intervals._given, plan.problem.typical
    one, deviations = np.eye(len(data.v)), np.sqrt(np.diag(data.linear)) / data.n
    ridges = data.l2 * np.geomspace(1, 1e5, 121)
    best = min(ridges, key=lambda l2: typical.shrinkage(l2) + typical.gradient_noise(l2, deviations))
    signal = float(typical.count @ typical.signal / typical.count.sum())
    H = np.linalg.inv(found.inverse)
    ridge = np.linalg.solve(H + best * one, (H + data.l2 * one) @ data.v)
    posterior = signal * np.linalg.solve(signal * one + found.covariance, data.v + found.shift)
    return {"now, ridge": data.factor @ ridge, "now, posterior": data.factor @ posterior}


def best_fit(given: Case, model: Any) -> np.ndarray:
    """Return the contrasts that the summary shows, at the table's exact minimizer."""
    plan, features = model._known()[1], model._fitted_map()
    X, y = features.expand(features.encode(given.frame)), model._targets_of(given.frame, None)
    y = model.plan_._kept(y) if getattr(model.plan_, "target_cells", ()) else y
    Z = np.column_stack([X, np.full(len(X), plan.problem.domain.intercept)]) @ model._known()[0]._given.factor
    v, loss = np.linalg.lstsq(Z, y, rcond=None)[0], plan.problem.loss
    for _ in range(60):
        H = (Z * loss.hessian_weights(Z @ v, y)[:, None]).T @ Z + 1e-9 * len(X) * np.eye(len(v))
        v = v - np.linalg.solve(H, Z.T @ loss.derivative(Z @ v, y))
    return model.output_scale * (model._contrasts(None)[1] @ model._known()[0]._given.factor @ v)[1:]


def measured(given: Case, epsilon: float, delta: float, seed: int) -> dict[str, dict[str, Any]]:
    """Return the excess by line, and for fits with intervals standard errors and how far caps move the best fit."""
    numbers = given.kind == "numbers"
    alone = {"algorithm": "objective_perturbation"}
    whole = given.schema.target.upper - given.schema.target.lower if numbers else 1.0
    uncapped = alone | {"residual_cap" if numbers else "slope_cap": whole}
    found: dict[str, dict[str, Any]] = {
        "ordinary": {"excess": given.ask(epsilon, delta, seed)},
        "no looks": {"excess": given.ask(epsilon, delta, seed, **alone)},
        "no caps": {"excess": given.ask(epsilon, delta, seed, **uncapped)},
        "half of epsilon": {"excess": given.ask(epsilon / 2, delta, seed, **uncapped)},
    }
    lines = [("before", 1.0 if numbers else None)]
    lines += [(f"cap {cap:g}", cap) for cap in CAPS] if numbers else []
    middle = None
    for name, cap in [*lines, ("without looks", None), ("now", None)]:
        with OLD if (name, cap) in lines else nullcontext():
            model = fitted(given, epsilon, delta, seed, cap, looks=name == "now")
            errors = model.summary().found.std_err[1:]
        found[name] = {"excess": excess(given, model)}
        if name != "now":  # there coefficients are per found range
            found[name]["errors"] = errors
        if numbers and name != "now":
            at = best_fit(given, model)
            middle = at if middle is None else middle
            found[name]["moved"] = np.abs(at - middle)
    more = shrunk(model)
    return found | {name: {"excess": excess(given, model, w)} for name, w in more.items()}


def wider(column: Any, factor: float) -> Any:
    """Return a column that a fit may look at, with a range that much wider."""
    if not divisible(column):
        return column
    more = (column.upper - column.lower) * (factor - 1)
    below = 0.0 if column.lower == 0 else more / 2
    return replace(column, lower=column.lower - below, upper=column.upper + more - below)


def in_units(given: Case, model: Any) -> tuple[dict[str, np.ndarray], float]:
    """Return the standard error and the exact value of each coefficient per range of the case, and the excess."""
    summary, best = model.summary(), best_fit(given, model)
    own = {each.name: each for each in model._fitted_map().schema.columns if each.numeric}
    whole = {each.name: each for each in given.schema.columns if each.numeric}
    found = {}
    for name, error, middle in zip(summary.names[1:], summary.found.std_err[1:], best, strict=True):
        unit = 1.0
        if name in own:
            unit = (whole[name].upper - whole[name].lower) / (own[name].upper - own[name].lower)
        found[name] = unit * np.array([error, middle])
    return found, excess(given, model)


def ranges(given: argparse.Namespace) -> None:
    """Print what looks at ranges do to intervals, for each factor by which columns are declared wider."""
    for (kind, names), factor in product((("classes", CLASSES), ("numbers", NUMBERS)), given.ranges):
        finite, ratios, moves, shares = np.zeros(3, dtype=int), list[float](), list[float](), []
        for name, epsilon, seed in product(names, given.epsilons, range(given.seeds)):
            table = case(name, given.rows)
            declared = copy(table)
            declared.schema = altered(table.schema, lambda column, by=factor: wider(column, by))
            pair = [fitted(declared, epsilon, given.delta, seed, None, looks) for looks in (False, True)]
            (before, lost), (after, loses) = (in_units(table, model) for model in pair)
            shares.append((lost, loses))
            for row in set(before) & set(after):  # levels are compared with the one that is seen most
                (one, middle), (other, moved) = before[row], after[row]
                finite += [np.isfinite(one), np.isfinite(other), 1]
                ratios += [np.log(other / one)] if np.isfinite(one + other) else []
                moves += [abs(moved - middle) / other] if np.isfinite(other) else []
        shown = f"| {kind} | {factor:g} | {finite[0]}, {finite[1]} of {finite[2]} | {np.exp(np.mean(ratios)):.2f}"
        means, high = np.mean(shares, axis=0), np.quantile(moves, [0.5, 0.9, 1.0])
        print(f"{shown} | {means[0]:.3f}, {means[1]:.3f} | {high[0]:.2g}, {high[1]:.2g}, {high[2]:.2g} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--ranges", type=float, nargs="+", help="factors by which columns are declared wider")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0], help="with --ranges")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.ranges:
        ranges(given)
        return
    for kind, names in (("classes", CLASSES), ("numbers", NUMBERS)):
        runs = {}
        for name in names:
            table = case(name, given.rows)
            for epsilon in EPSILONS:
                runs[name, epsilon] = [measured(table, epsilon, given.delta, seed) for seed in range(given.seeds)]
        for line in next(iter(runs.values()))[0]:
            report(kind, line, names, runs)


def report(kind: str, line: str, names: tuple[str, ...], runs: dict[Any, Any]) -> None:
    def size(cell: Any, of: str) -> float:
        return max(FLOOR, float(np.mean([run[of]["excess"] for run in runs[cell]])))

    logs = [np.mean([np.log(size((t, e), line) / size((t, e), "ordinary")) for e in EPSILONS]) for t in names]
    shown = f"| {kind} | {line} | {np.exp(np.mean(logs)):.2f} ({np.std(logs) / len(logs) ** 0.5:.2f})"
    if "errors" in runs[names[0], EPSILONS[0]][0][line]:
        pairs = [(t, run[line], run["before"]) for (t, _), cell in runs.items() for run in cell]
        errors = np.concatenate([one["errors"] for _, one, _ in pairs])
        ratio = np.log(errors / np.concatenate([other["errors"] for *_, other in pairs]))
        shown += f" | {np.isfinite(errors).sum()} of {len(errors)} | {np.exp(np.nanmean(ratio)):.2f}"
        if kind == "numbers":
            moves = dict.fromkeys(names, 0.0)
            for t, one, _ in pairs:
                moves[t] = max(moves[t], np.nanmax([0.0, *(one["moved"] / one["errors"])]))
            first, *rest = sorted(moves, key=lambda t: -moves[t])
            shown += f" | {moves[first]:.2f} ({first}), {moves[rest[0]]:.2f}"
    print(shown + " |", flush=True)


if __name__ == "__main__":
    main()
