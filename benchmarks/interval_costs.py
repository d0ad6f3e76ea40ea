"""Measure what intervals cost predictions, part by part, and what caps on residuals do to estimates and their errors.

    python benchmarks/interval_costs.py [--delta 1e-6] [--seeds 2] [--rows 8000]

Tables and excess are those of `consistency.py`, at epsilon .3, 1 and 3. Each line has geometric means over tables of
the excess relative to an ordinary fit, and standard errors of their logarithms. The lines are: an ordinary fit by
objective perturbation alone, which looks at no ranges; this fit without caps; this fit with half of epsilon; fits for
intervals without a cap and with the usual share for a curvature that can tell nothing (the former default), with caps
on residuals in ranges of the target, and with today's default; and, of these fits, predictions shrunk to the ridge that
an ordinary plan expects to be best, and to a posterior mean. Further columns: the number of finite intervals, standard
errors relative to those without a cap, and the largest move of the best fit by a cap, in standard errors, with its
table. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np

from consistency import CLASSES, FLOOR, NUMBERS, SMOOTH, Case, case
from dpconvex.algorithms.curvature import InferencePlan

EPSILONS, CAPS = (0.3, 1.0, 3.0), (0.5, 0.35, 0.25, 0.18)
OLD = mock.patch.object(InferencePlan, "hopeful", True)


def fitted(given: Case, epsilon: float, delta: float, seed: int, cap: float | None) -> Any:
    if cap is not None:
        cap *= given.schema.target.upper - given.schema.target.lower
    more = {} if cap is None else {"residual_cap": cap}
    model = SMOOTH[given.kind](epsilon, delta, random_state=seed, schema=given.schema, inference=True, **more)
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
    ridge = np.linalg.solve(found.H + best * one, (found.H + data.l2 * one) @ data.v)
    posterior = signal * np.linalg.solve(signal * one + found.covariance, data.v + found.shift)
    return {"now, ridge": data.factor @ ridge, "now, posterior": data.factor @ posterior}


def best_fit(given: Case, model: Any) -> np.ndarray:
    """Return the contrasts that the summary shows, at the table's exact minimizer."""
    plan, features = model._known()[1], model._fitted_map()
    X, y = features.expand(features.encode(given.frame)), model._targets_of(given.frame, None)
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
    for name, cap in [*lines, ("now", None)]:
        with nullcontext() if name == "now" else OLD:
            model = fitted(given, epsilon, delta, seed, cap)
            errors = model.summary().found.std_err[1:]
        found[name] = {"excess": excess(given, model), "errors": errors}
        if numbers:
            at = best_fit(given, model)
            middle = at if middle is None else middle
            found[name]["moved"] = np.abs(at - middle)
    more = shrunk(model)
    return found | {name: {"excess": excess(given, model, w)} for name, w in more.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=8000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
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
