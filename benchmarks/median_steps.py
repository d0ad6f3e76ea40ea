"""Compare candidates for the constants of the median's descent on some data sets, and check the choice on others.

    python benchmarks/median_steps.py [--validate] [--seeds 6]

Without --validate one constant at a time is changed; the data are a cluster, heavy tails, skewed data, and clusters
with 25 % of outliers 10 to 1,000 radii away. With --validate only the chosen constants run, on data that had no part in
the choice: a clean cluster, log-normal coordinates, heavier tails, handwritten digits, cities, and 40 % of outliers.
The printed numbers are root mean square errors of the location in units of ``r sqrt(d) / (n mu)``, where r sqrt(d) is
the Frobenius norm of the inverse Hessian and mu is that of the whole promise. An average of all gradients reaches 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms.location import noisy_descent
from dpconvex.algorithms.location.geometric_median import plan
from dpconvex.privacy import PrivacyParams
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.randomness import SeededSource
from dpconvex.solvers import geometric_median
from dpconvex_experiments.geometric_median.accuracy import SOURCES
from dpconvex_experiments.shared import gaussian_cluster, student_t

Cloud = Callable[[int, int, np.random.Generator], Floats]
DELTA, BOUND = 1e-6, 1000.0
CHANGES: tuple[Mapping[str, float], ...] = (
    {},
    *({"APPROACH": value} for value in (0.1, 0.2, 0.3)),
    *({"DECAY": value} for value in (1.0, 10.0, 30.0)),
    *({"REACH": value} for value in (6.0, 10.0)),
    *({"LARGEST": value} for value in (0.25, 1.0)),
    *({"SPREAD": value} for value in (0.02, 0.1)),
)
STEPS = (30, 60, 100)


def outlying(share: float, radii: float) -> Cloud:
    def draw(n: int, d: int, rng: np.random.Generator) -> Floats:
        points = 0.1 * rng.standard_normal((n, d))
        points[: round(share * n)] = np.eye(d)[0] * radii * 0.1 * d**0.5
        return points + 7 / d**0.5

    return draw


CHOOSING: dict[str, Cloud] = {
    "cluster": lambda n, d, rng: gaussian_cluster(50.0, n, d, 0.1, 0.9, rng)[0],
    "heavy": lambda n, d, rng: student_t(5.0, n, d, rng) + 3,
    "skewed": lambda n, d, rng: rng.exponential(size=(n, d)),
    **{f"25 % at {k}": outlying(0.25, k) for k in (10, 30, 1000)},
}
CHECKING: dict[str, Cloud] = {
    "clean": lambda n, d, rng: gaussian_cluster(50.0, n, d, 0.1, 1.0, rng)[0],
    "log-normal": lambda n, d, rng: np.exp(rng.standard_normal((n, d))),
    "heavier": lambda n, d, rng: student_t(2.0, n, d, rng) - 5,
    "40 % at 100": outlying(0.4, 100),
}


def constant(points: Floats, epsilon: float, steps: int, seed: int) -> float:
    n, d = points.shape
    best = geometric_median(points).point
    gaps = points - best
    lengths = np.maximum(np.linalg.norm(gaps, axis=1), 1e-12)
    curvature = (np.eye(d) * (1 / lengths).sum() - (gaps / lengths[:, None] ** 3).T @ gaps) / n
    planned = plan(PointDomain(d, BOUND, 1e-3), n, PrivacyParams(epsilon, DELTA), steps=steps)
    error = np.linalg.norm(planned.run(points, SeededSource(seed + 10)).location - best)
    return float(error * n * largest_mu(epsilon, DELTA) / np.linalg.norm(np.linalg.inv(curvature)))


def summary(values: list[float]) -> str:
    return f"{np.sqrt(np.mean(np.square(values))):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--seeds", type=int, default=6)
    options = parser.parse_args()
    clouds = CHECKING if options.validate else CHOOSING
    usual = {name: getattr(noisy_descent, name) for change in CHANGES for name in change}
    trials = [({}, 60)] if options.validate else [({}, s) for s in STEPS] + [(c, 60) for c in CHANGES[1:]]
    for change, steps in trials:
        for name, value in {**usual, **change}.items():
            setattr(noisy_descent, name, value)
        for n, d, epsilon in ((1000, 10, 1.0), (1000, 50, 1.0), (4000, 10, 2.0), (10_000, 50, 1.0)):
            cells = []
            for name, draw in clouds.items():
                runs = [constant(draw(n, d, np.random.default_rng(s)), epsilon, steps, s) for s in range(options.seeds)]
                cells.append(f"{name}: {summary(runs)}")
            print(change or "chosen", steps, f"n={n} d={d} epsilon={epsilon:g} |", ", ".join(cells), flush=True)
    for source in SOURCES[:2] if options.validate else ():
        points = source.load()
        assert points is not None
        cells = [
            f"epsilon {e:g}: {summary([constant(points, e, 60, s) for s in range(options.seeds)])}" for e in (1, 4)
        ]
        print(source.name, points.shape, "|", ", ".join(cells), flush=True)


if __name__ == "__main__":
    main()
