"""Excess risk of l1-constrained regression against the number of features, by all methods for minimisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex.algorithms.minimax.registry import plan_sparse
from dpconvex.losses import SquaredLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import l1_ball_loss, single_group
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate
from dpconvex_experiments.saddle_point._common import DELTA, PAPER, curves, noise

ZERO = 0.225
"""What the zero vector loses."""
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
    plan = plan_sparse(problem, PrivacyParams(1.0, DELTA), method)[0]
    w = problem.point(plan.run(single_group(X, y), noise(*key, 1)).x)
    return float(np.square(w - truth).sum() / 2)


@experiment(
    "saddle-point/minimisation",
    "Which method for sparse regression with many features?",
    f"{PAPER}, Theorem 4.2; Talwar, Thakurta and Zhang 2015",
)
def minimization(setting: Setting) -> Outcome:
    """Run every method over d."""
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
    anchors = Anchors("saddle-point/minimisation", setting.quick)
    ours = {d: methods["Frank-Wolfe"] for d, methods in found.items()}
    sampled = ("anytime (Alg. 5)", "vertices (Alg. 1)")

    def draw(figure: Figure) -> None:
        lines = {name: [row[3 + k] for row in rows] for k, name in enumerate(methods)}
        lines["zero"] = [ZERO for _ in rows]
        curves(figure.subplots(), [d for _, d in cells], lines, ("features d", f"excess risk, n = {cells[0][0]:,}"))

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
        (
            f"Random signs as features, targets from two coefficients (0.6 and -0.3), R = 1, epsilon 1, delta = "
            f"{DELTA:g}, {runs} runs; excess risk on the population. As the theory says, Frank-Wolfe is better here "
            "than mirror descent: its rate is optimal for minimisation.",
        ),
    )
