"""All methods side by side: sparse regression against the number of features, synthetic data against n."""

from typing import Any

import numpy as np

from dpconvex.algorithms.minimax.registry import plan_saddle
from dpconvex.algorithms.queries.registry import plan_queries
from dpconvex.losses import SquaredLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import l1_ball_loss, single_group
from dpconvex.problems.queries import DenseQueries, LinearQueries, Marginals
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate
from dpconvex_experiments.saddle_point.games import DELTA, PAPER, noise
from dpconvex_experiments.shared import largest_error, lines

# Excess risk of l1-constrained regression against the number of features, by all methods for minimization.

ANSWERING = ("query_noise", "mwem", "saddle_point")  # methods for queries of any form
ZERO = 0.225
"""Excess risk of the zero vector."""
METHODS = {
    "Frank-Wolfe": "frank_wolfe",
    "anytime (Alg. 5)": "anytime_mirror_descent",
    "vertices (Alg. 1)": "vertex_mirror_descent",
    "Gaussian MD": "gaussian_mirror_descent",
    "one-pass FW": "variance_reduced_frank_wolfe",
}


def excess(method: str, n: int, d: int, key: tuple[int, ...]) -> float:
    """Return the excess population risk of one run."""
    rng = np.random.default_rng(key)
    truth = np.zeros(d)
    truth[rng.choice(d, 2, replace=False)] = 0.6, -0.3
    X = rng.choice(np.array([-1, 1], dtype=np.int8), (n, d))
    y = X @ truth + rng.uniform(-0.1, 0.1, n)
    problem = l1_ball_loss(SquaredLoss(1.0, prediction_bound=1.0), n, d, 1.0, third_derivative=0.0)
    plan = plan_saddle(problem, PrivacyParams(1.0, DELTA), method)[0]
    w = problem.point(plan.run(single_group(X, y), noise(*key, 1)).x)
    return float(np.square(w - truth).sum() / 2)


@experiment("saddle-point/minimization", f"{PAPER}, Theorem 4.2; Talwar, Thakurta and Zhang 2015")
def minimization(setting: Setting, anchors: Anchors) -> Outcome:
    """Which method for sparse regression with many features?"""
    cells = ((3_000, 50), (3_000, 500)) if setting.quick else ((10_000, 50), (10_000, 500), (10_000, 5_000))
    methods = {name: METHODS[name] for name in list(METHODS)[: 3 if setting.quick else 5]}
    runs = 2 if setting.quick else 4
    rows: list[tuple[Any, ...]] = []
    found: dict[int, dict[str, Estimate]] = {}
    for n, d in setting.track(cells, "Regressions"):
        found[d] = {
            name: Estimate.of(excess(m, n, d, (setting.seed, n, d, t)) for t in range(runs))
            for name, m in methods.items()
        }
        rows.append((n, d, ZERO, *(e.value for e in found[d].values()), found[d]["Frank-Wolfe"].error))
    ours = {d: methods["Frank-Wolfe"] for d, methods in found.items()}
    sampled = ("anytime (Alg. 5)", "vertices (Alg. 1)")

    def draw(figure: Figure) -> None:
        series = {name: [row[3 + k] for row in rows] for k, name in enumerate(methods)}
        series["zero"] = [ZERO for _ in rows]
        lines(
            figure.subplots(),
            [d for _, d in cells],
            series,
            ("features d", f"excess risk, n = {cells[0][0]:,}"),
            fontsize=7,
        )

    return Outcome(
        ("n", "d", "zero", *methods, "s.e. FW"),
        tuple(rows),
        "Frank-Wolfe loses less than half of what the zero vector does at every d, and less than every method with "
        "sampled iterates; all are near their anchors",
        (
            *(anchors.within(f"Frank-Wolfe, d = {d}", e, 0.0, ZERO / 2) for d, e in ours.items()),
            *(
                anchors.within(f"Frank-Wolfe over {name}, d = {d}", e.over(found[d][name]), 0.0, 1.0)
                for d, e in ours.items()
                for name in sampled
            ),
            *anchors.near({f"{name}, d = {d}": e for d, methods in found.items() for name, e in methods.items()}),
        ),
        draw,
        f"Random signs as features, targets from two coefficients (0.6 and -0.3), R = 1, epsilon 1, delta = "
        f"{DELTA:g}, {runs} runs; excess risk on the population. As the theory says, Frank-Wolfe is better here "
        "than mirror descent: its rate is optimal for minimization.",
    )


# Largest error of synthetic data over families of queries, against n: saddle point, MWEM, noise with a fit.

SHAPE = (4, 4, 4, 2, 2)


def families(rng: np.random.Generator, quick: bool) -> dict[str, LinearQueries]:
    """Return the families over 256 cells."""
    signs = rng.choice([-1.0, 1.0], (50 if quick else 200, 256))
    return {"random signs": DenseQueries(signs, -1.0, 1.0), "3-way marginals": Marginals.of_order(SHAPE, 3)}


@experiment("saddle-point/queries", f"{PAPER}, Theorem 1.1")
def queries(setting: Setting, anchors: Anchors) -> Outcome:
    """Which method for synthetic data?"""
    sizes = (1_000,) if setting.quick else (1_000, 10_000, 100_000)
    runs = 1 if setting.quick else 4
    rng = np.random.default_rng(setting.seed)
    rows: list[tuple[Any, ...]] = []
    cells = [(name, q, n) for name, q in families(rng, setting.quick).items() for n in sizes]
    near: dict[str, Estimate] = {}
    below: list[tuple[str, Estimate, float]] = []
    for name, queries, n in setting.track(cells, "Queries"):
        found: dict[str, list[float]] = {method: [] for method in ANSWERING}
        uniform = []
        for t in range(runs):
            draws = np.random.default_rng((setting.seed, n, t))
            records = draws.choice(256, n, p=draws.dirichlet(np.full(256, 0.05)))
            uniform.append(largest_error(queries, records, np.full(256, 1 / 256)))
            for k, method in enumerate(ANSWERING):
                plan = plan_queries(queries, n, PrivacyParams(1.0, DELTA), method)[0]
                result = plan.run(records, noise(setting.seed, n, t, k))
                found[method].append(largest_error(queries, records, result.histogram))
        means = {method: Estimate.of(errors) for method, errors in found.items()}
        largest = max(e.error for e in means.values())
        rows.append((name, n, Estimate.of(uniform).value, *(e.value for e in means.values()), largest))
        near |= {f"{method}, {name}, n = {n}": e for method, e in means.items()}
        shares = {method: Estimate.of(np.array(errors) / np.array(uniform)) for method, errors in found.items()}
        below += [(f"{method} over uniform, {name}, n = {n}", e, 1.0) for method, e in shares.items()]
        below.append((f"best over uniform, {name}, n = {n}", min(shares.values()), 1 / 3))

    def draw(figure: Figure) -> None:
        for axes, name in zip(figure.subplots(1, 2, sharey=True), dict.fromkeys(row[0] for row in rows), strict=True):
            mine = [row for row in rows if row[0] == name]
            series = {"uniform": [row[2] for row in mine]}
            series |= {method: [row[3 + k] for row in mine] for k, method in enumerate(ANSWERING)}
            lines(axes, sizes, series, ("records n", f"largest error, {name}"), fontsize=7)

    return Outcome(
        ("queries", "n", "uniform", *ANSWERING, "largest s.e."),
        tuple(rows),
        "every method is below the uniform histogram's error at every n, and the best of them below a third of it; all "
        "are near their anchors",
        (*(anchors.within(name, found, 0.0, most) for name, found, most in below), *anchors.near(near)),
        draw,
        f"256 cells, histograms from a Dirichlet distribution (0.05), epsilon 1, delta = {DELTA:g}, {runs} runs. "
        "The saddle point needs no delta; with delta, noise with a fit or MWEM with replay are better.",
    )
