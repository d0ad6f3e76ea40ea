"""Largest error of synthetic data over families of queries, against n: saddle point, MWEM, noise with a fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex.algorithms.queries.base import largest_error
from dpconvex.algorithms.queries.registry import QUERY_METHODS, plan_queries
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.queries import DenseQueries, LinearQueries, Marginals
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate
from dpconvex_experiments.saddle_point._common import DELTA, PAPER, curves, noise

SHAPE = (4, 4, 4, 2, 2)


def families(rng: np.random.Generator, quick: bool) -> dict[str, LinearQueries]:
    """Return the families over 256 cells."""
    signs = rng.choice([-1.0, 1.0], (50 if quick else 200, 256))
    return {"random signs": DenseQueries(signs, -1.0, 1.0), "3-way marginals": Marginals.of_order(SHAPE, 3)}


@experiment("saddle-point/queries", "Which method for synthetic data?", f"{PAPER}, Theorem 1.1")
def queries(setting: Setting) -> Outcome:
    """Run every method on both families."""
    sizes = (1_000,) if setting.quick else (1_000, 10_000, 100_000)
    runs = 1 if setting.quick else 4
    rng = np.random.default_rng(setting.seed)
    rows: list[tuple[Any, ...]] = []
    cells = [(name, q, n) for name, q in families(rng, setting.quick).items() for n in sizes]
    near: dict[str, Estimate] = {}
    below: list[tuple[str, Estimate, float]] = []
    for name, queries, n in setting.track(cells, "Queries"):
        found: dict[str, list[float]] = {method: [] for method in QUERY_METHODS}
        uniform = []
        for t in range(runs):
            draws = np.random.default_rng((setting.seed, n, t))
            records = draws.choice(256, n, p=draws.dirichlet(np.full(256, 0.05)))
            uniform.append(largest_error(queries, records, np.full(256, 1 / 256)))
            for k, method in enumerate(QUERY_METHODS):
                plan = plan_queries(queries, n, PrivacyParams(1.0, DELTA), method)[0]
                result = plan.run(records, noise(setting.seed, n, t, k))
                found[method].append(largest_error(queries, records, result.histogram))
        means = {method: Estimate.of(errors) for method, errors in found.items()}
        rows.append(
            (
                name,
                n,
                Estimate.of(uniform).value,
                *(e.value for e in means.values()),
                max(e.error for e in means.values()),
            )
        )
        near |= {f"{method}, {name}, n = {n}": e for method, e in means.items()}
        shares = {method: Estimate.of(np.array(errors) / np.array(uniform)) for method, errors in found.items()}
        below += [(f"{method} over uniform, {name}, n = {n}", e, 1.0) for method, e in shares.items()]
        below.append((f"best over uniform, {name}, n = {n}", min(shares.values()), 1 / 3))
    anchors = Anchors("saddle-point/queries", setting.quick)

    def draw(figure: Figure) -> None:
        for axes, name in zip(figure.subplots(1, 2, sharey=True), dict.fromkeys(row[0] for row in rows), strict=True):
            mine = [row for row in rows if row[0] == name]
            lines = {"uniform": [row[2] for row in mine]}
            lines |= {method: [row[3 + k] for row in mine] for k, method in enumerate(QUERY_METHODS)}
            curves(axes, sizes, lines, ("records n", f"largest error, {name}"))

    return Outcome(
        ("queries", "n", "uniform", *QUERY_METHODS, "largest s.e."),
        tuple(rows),
        "every method is below the uniform histogram's error at every n, and the best of them below a third of it; all "
        "are near their anchors",
        (*(anchors.within(name, found, 0.0, most) for name, found, most in below), *anchors.near(near)),
        draw,
        (
            f"256 cells, histograms from a Dirichlet distribution (0.05), epsilon 1, delta = {DELTA:g}, {runs} runs. "
            "The saddle point needs no delta; with delta, noise with a fit or MWEM with replay are better.",
        ),
    )
