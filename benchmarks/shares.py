"""Compare the shares of a prediction's prior variance that kinds of blocks get, and two ways to weigh noise.

    python benchmarks/shares.py [--tables adult flights ...] [--seeds 4] [--rows 20000]

Fits are by objective perturbation under pure epsilon, with noise in the cheapest grouped norm, and slope cap and ridge
as planned. An option consists of the shares of categories, of numbers and of the constant (`planner.SHARES`), and of
the weight of a block's noise: the excess loss that it costs, or its mean square. An option's score on a table is the
logarithm of its mean excess training log-loss, averaged over budgets. Printed: every score less the table's best score,
and for each table the option that is best on all other tables, with its score on this one. Fits are seeded, hence not
private.
"""

from __future__ import annotations

import argparse
import warnings
from unittest import mock

import numpy as np

from dpconvex import PrivateLogisticRegression
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.objective_perturbation import planner
from excess_loss import EPSILONS, log_loss, optimum
from tables import TABLES

SHARES = ((1.0, 1.0, 1.0), (0.5, 1.0, 1.0), (0.25, 1.0, 1.0), (1.0, 1.0, 4.0), (0.5, 0.5, 1.0), (0.25, 0.25, 1.0))
ORDINARY = planner.noise_costs


def options() -> dict[str, tuple[tuple[float, ...], bool]]:
    """Return, by name, shares and whether noise is weighed by excess."""
    return {f"{shares} {'excess' if by else 'energy'}": (shares, by) for by in (True, False) for shares in SHARES}


def scores(name: str, rows: int, seeds: int) -> dict[str, float]:
    """Return the score of every option on one table."""
    table = TABLES[name]()
    order = np.random.default_rng(0).permutation(len(table.X))[:rows]
    X, y, domain = table.X[order], table.y[order], table.schema.domain()
    best, found = optimum(X, y, domain.with_intercept(1.0)), {}
    for option, (shares, by_excess) in options().items():
        registry.plans.cache_clear()
        planner.coordinates.cache_clear()
        costs = ORDINARY if by_excess else lambda problem, privacy: None
        with mock.patch.object(planner, "SHARES", shares), mock.patch.object(planner, "noise_costs", costs):
            found[option] = np.mean([np.log(excess(X, y, domain, best, epsilon, seeds)) for epsilon in EPSILONS])
    return found


def excess(X, y, domain, best: float, epsilon: float, seeds: int) -> float:
    """Return the mean excess log-loss at one budget."""
    losses = []
    for seed in range(seeds):
        options = {"algorithm": "objective_perturbation", "noise": "grouped", "slope_cap": None, "classes": [0, 1]}
        model = PrivateLogisticRegression(epsilon, domain=domain, random_state=seed, **options).fit(X, y)
        losses.append(log_loss(X @ model.coef_[0] + model.intercept_[0], y) - best)
    return float(np.mean(losses))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    found = {}
    for name in arguments.tables:
        found[name] = scores(name, arguments.rows, arguments.seeds)
        least = min(found[name].values())
        print(name, {option: round(float(score - least), 3) for option, score in found[name].items()}, flush=True)
    for left in found:
        others = {option: np.mean([found[name][option] for name in found if name != left]) for option in options()}
        chosen = min(others, key=others.__getitem__)
        print(f"without {left}: {chosen}, which loses {found[left][chosen] - min(found[left].values()):.3f} there")


if __name__ == "__main__":
    main()
