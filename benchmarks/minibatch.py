"""Compare noisy gradient descent on all records with descent on Poisson samples of them: excess loss and time.

    python benchmarks/minibatch.py simulated --passes 8 32
    python benchmarks/minibatch.py adult flights --seeds 3

With ``--passes P`` every sampling rate q takes P/q steps. Without it the planner chooses the number of steps within the
time that it allows itself: once for rate 1, and once for the best rate. The printed excess is the mean log-loss above
the optimum, averaged over seeded runs. Seconds are the processor time of one run with the operating system's exact
noise, as users have it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import tables
from dpconvex.algorithms.erm import gradient_descent
from dpconvex.losses import LogisticLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import Block, DataDomain, LinearModelProblem, Records, RegularizedRisk
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import NewtonCholesky

RATES = (1.0, 0.3, 0.1, 0.03, 0.01)
Data = tuple[np.ndarray, np.ndarray, DataDomain]


def simulated(n: int, numeric: int, levels: int, signal: float) -> Data:
    """Return records of one category, some levels of which are rare, and of uniform columns of two widths."""
    rng = np.random.default_rng(7)
    spread = np.where(np.arange(numeric) % 2, 0.1, 1.0)
    weights = 1.0 / np.arange(1, levels + 1)
    hot = np.eye(levels)[rng.choice(levels, n, p=weights / weights.sum())]
    X = np.concatenate([hot, rng.uniform(-0.5, 0.5, (n, numeric)) * spread], axis=1)
    logits = X @ (signal * rng.standard_normal(X.shape[1]))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-logits)), 1.0, -1.0)
    return X, y, DataDomain((Block(levels, "l1", 1.0), *[Block(1, "linf", 0.5)] * numeric))


def data(names: list[str]) -> Iterator[tuple[str, Data]]:
    for name in names:
        if name == "simulated":
            for n, d in ((50_000, 20), (50_000, 100), (500_000, 20), (500_000, 100)):
                for signal in (1.0, 3.0):
                    yield f"n={n}, d={d}, signal {signal:g}", simulated(n, d // 2, d // 2, signal)
        else:
            table = tables.TABLES[name]()
            yield name, (table.X, 2.0 * table.y - 1, table.schema.domain())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--passes", type=int, nargs="+", default=[0])
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    for name, (X, y, domain) in data(given.names):
        domain = domain.with_intercept(1.0)
        problem = LinearModelProblem(LogisticLoss(), domain, len(X), default_radius(domain))
        risk = RegularizedRisk(problem.loss, Records.clipped(X, domain), y, 1e-9)
        lowest = risk.value(NewtonCholesky().solve(risk, 1e-2).point)
        for epsilon in given.epsilons:
            for passes in given.passes:
                promise = PrivacyParams(epsilon, 1e-6)
                for rate in given.rates if passes else (1.0, None):
                    steps = round(passes / rate) if rate and passes else None
                    began = time.process_time()
                    plan = gradient_descent.plan(problem, promise, rate=rate, steps=steps)
                    planned = time.process_time() - began
                    found = [risk.value(plan.run(X, y, SeededSource(s)).point) - lowest for s in range(given.seeds)]
                    began = time.process_time()
                    plan.run(X, y, SystemSource())
                    seconds = time.process_time() - began
                    print(
                        f"{name} | epsilon {epsilon:g} | rate {plan.rate:g} | steps {plan.steps} | "
                        f"passes {plan.steps * plan.rate:.0f} | excess {np.mean(found):.5f} "
                        f"(+-{np.std(found):.5f}) | expected {plan.expected:.5f} | "
                        f"{seconds:.2f} s (planned in {planned:.2f} s)",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
