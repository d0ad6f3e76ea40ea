"""Print the tables of the documentation that no other benchmark or experiment prints, as Markdown rows.

    python benchmarks/docs_tables.py localised phased cohorts users user_noise  # planned bounds: seconds
    python benchmarks/docs_tables.py lengths wide median game rates     # measured: minutes
    python benchmarks/docs_tables.py projection --seeds 3          # Fashion-MNIST (Debian: dataset-fashion-mnist)

Measured entries are means over the seeds, with one standard error. Fits are seeded, hence not private: this measures
accuracy on public or simulated data.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex import PrivateHuberRegressor, PrivateLinearRegression, PrivateLogisticRegression, PrivateQuantileRegressor
from dpconvex.algorithms.erm import objective_perturbation, registry, user_level
from dpconvex.algorithms.erm.two_stage import projection as projecting
from dpconvex.algorithms.location import geometric_median
from dpconvex.algorithms.minimax import vertex_descent
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, SoftmaxLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import Block, DataDomain, LinearModelProblem, PointDomain, RankOneGame
from dpconvex.problems.data.points import clip_points
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import SeededSource
from dpconvex.solvers import geometric_median as solved_median
from dpconvex_experiments.reference import exponential_mechanism
from dpconvex_experiments.saddle_point.games import Game
from dpconvex_experiments.shared import gaussian_cluster, mean_distance
from heavy_tails import free_delays
from side_by_side.prepare import fashion

Row = tuple[object, ...]
OPTIMA = Path(__file__).parent / "results" / "tables.json"
"""A file of results that `make bench` writes."""


def spread(values: Iterable[float], digits: int = 2) -> str:
    found = np.array(list(values))
    return f"{found.mean():.{digits}g} ± {found.std(ddof=1) / math.sqrt(len(found)):.1g}"


def localised(seeds: int) -> Iterator[Row]:
    """Exponential mechanism, Localized: bounds at epsilon 1, one parameter, l2 = 0.1."""
    yield "loss", "n", "output perturbation", "localised"
    for loss, n in ((HingeLoss(), 10**3), (HingeLoss(), 10**4), (HingeLoss(), 10**5), (LogisticLoss(), 10**4)):
        problem = LinearModelProblem(loss, DataDomain.box(1, 1.0), n, 3.0)
        plain = registry.plans(problem, PrivacyParams(1.0), "output_perturbation", registry.Options(l2=0.1))[0]
        local = exponential_mechanism.plan_localized(problem, PrivacyParams(1.0), 0.1)[0]
        yield loss.name, f"{n:,}", *(f"{plan.predicted_error.bound:.2g}" for plan in (plain, local))


def phased(seeds: int) -> Iterator[Row]:
    """User-level privacy: one-pass SGD, What this is good for: bounds of phased SGD, delta 1e-6, trivial bound 0.5."""
    yield "loss", "epsilon", "users", "rows", "d", "plain means", "means behind the test", "best of both"
    cells = ((1, 10**3, 10**4), (1, 10**4, 100), (1, 10**5, 100), (4, 10**4, 100))
    for name, loss in (("smooth", LogisticLoss()), ("kinked", AbsoluteLoss(1.0))):
        for epsilon, n, rows in cells:
            problem = LinearModelProblem(loss, DataDomain.l2_ball(100, 1.0), n, 0.5, records_per_user=rows)
            privacy = PrivacyParams(epsilon, 1e-6, unit=Unit.USER)
            found = [
                user_level.plan_phased(problem, privacy, aggregate=aggregate).predicted_error.bound
                for aggregate in ("plain", "robust", "auto")
            ]
            yield name, epsilon, f"{n:,}", f"{rows:,}", 100, *(f"{bound:.2g}" for bound in found)


def cohorts(seeds: int) -> Iterator[Row]:
    """Gradients of users, Four ways: bounds of the accelerated method, d = 20, m = 64, R = 1, delta 1e-6."""
    sizes = (2000, 8000, 32_000, 128_000)
    yield "epsilon", "test", *(f"{n:,}" for n in sizes), "slope"
    for epsilon, test in ((1.0, "tested"), (4.0, "tested"), (4.0, "threshold")):
        found = []
        for n in sizes:
            problem = LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(20, 1.0), n, 1.0, records_per_user=64)
            privacy = PrivacyParams(epsilon, 1e-6, unit=Unit.USER)
            found.append(user_level.plan_accelerated(problem, privacy, test=test, outliers=0.02).bound)
        slope = float(np.polyfit(np.log(sizes), np.log(found), 1)[0])
        yield epsilon, test, *(f"{bound:.3g}" for bound in found), f"{slope:.2f}"


def users(seeds: int) -> Iterator[Row]:
    """Record or user, How many users: fewest users with a bound below a tenth of log 2."""
    sizes = ((5, 2.0), (20, 4.0), (100, 10.0))
    yield "", *(f"d={d}, R={radius:g}" for d, radius in sizes)
    for epsilon in (3.0, 1.0, 0.1):
        found = []
        for d, radius in sizes:

            def bound(n: int, d: int = d, radius: float = radius, epsilon: float = epsilon) -> float:
                domain = DataDomain.l2_ball(d, 1.0)
                problem = LinearModelProblem(LogisticLoss(), domain, n, radius, records_per_user=1)
                privacy = PrivacyParams(epsilon, unit=Unit.USER)
                return min(p.predicted_error.bound for p in objective_perturbation.plan(problem, privacy))

            low, high = 1, 2**24
            while high > low + max(1, low // 200):
                middle = (low + high) // 2
                low, high = (middle, high) if bound(middle) > 0.1 * math.log(2) else (low, middle)
            found.append(f"{float(f'{high:.2g}'):,.0f}")
        yield f"epsilon={epsilon:g}", *found


def user_noise(seeds: int) -> Iterator[Row]:
    """User-level privacy: methods of records, Gaussian noise: length of pure over Gaussian noise, epsilon 0.1 / 3."""
    caps = 1, 16, 64, 1024
    yield "domain", *(f"m = {cap}" for cap in caps)
    adult = DataDomain((Block(5, "linf", 0.5), *(Block(k, "simplex", 1.0) for k in (7, 16, 7, 14, 6, 5, 2, 41))), 1.0)
    domains = {"Adult's schema, d = 104": adult}
    domains |= {f"box of {k} columns": DataDomain.box(k, 1.0) for k in (50, 200)}
    domains |= {f"ball of {k} columns": DataDomain.l2_ball(k, 1.0) for k in (20, 50, 200, 784)}
    for name, domain in domains.items():
        cells = []
        for cap in caps:
            ratios = []
            for epsilon in (0.1, 3.0):
                problem = LinearModelProblem(LogisticLoss(), domain, 10**5, default_radius(domain), records_per_user=3)
                privacy = PrivacyParams(epsilon, 1e-6, unit=Unit.USER)
                made = objective_perturbation.plan(problem, privacy, most_rows=cap)
                lengths = [(float(np.linalg.norm(plan.deviations)), "gaussian" in plan.noise_name) for plan in made]
                pure, normal = (min(each for each, law in lengths if law == kind) for kind in (False, True))
                ratios.append(f"{pure / normal:.2g}")
            cells.append(" / ".join(ratios))
        yield name, *cells


def median(seeds: int) -> Iterator[Row]:
    """Geometric median, Constants: f / min f on a Gaussian cluster, d = 50, epsilon 1, R/r = 1e6; median and worst."""
    yield "n", "center alone", "fixed_order", "descent", "descent, worst"
    domain = PointDomain(50, 1000.0, 1e-3)
    for n in (10**3, 10**4, 10**5):
        ratios: dict[str, list[float]] = {}
        for seed in range(seeds):
            X = clip_points(gaussian_cluster(50.0, n, 50, 0.1, 0.9, np.random.default_rng(seed))[0], domain)
            best = solved_median(X).value
            for boost in ("none", "fixed_order", "descent"):
                plan = geometric_median.plan(domain, n, PrivacyParams(1.0, 1e-6), boost=boost)
                point = plan.run(X, SeededSource(seed)).location
                ratios.setdefault(boost, []).append(mean_distance(X, point) / best)
        yield f"{n:,}", *(f"{np.median(r):.8g}" for r in ratios.values()), f"{max(ratios['descent']):.8g}"


def game(seeds: int) -> Iterator[Row]:
    """Saddle points, Accuracy: gap of games with random rank-one payoffs, five informative rows; epsilon 1."""
    forms = {"paper": {"constants": "paper"}, "equal weights": {"output": "reuse"}, "default": {}}
    yield "n", "d", "uniform", *forms
    for n, d in ((10**4, 10**2), (10**4, 10**3), (10**5, 10**3)):
        gaps: dict[str, list[float]] = {}
        for seed in range(seeds):
            rng = np.random.default_rng((seed, n, d))
            played = Game.random(rng, d, 5)
            records = played.records(rng, n)
            gaps.setdefault("uniform", []).append(played.trivial)
            for name, options in forms.items():
                plan = vertex_descent.plan(RankOneGame(n, d, d), PrivacyParams(1.0, 1e-6), **options)
                result = plan.run(records, SeededSource(seed))
                gaps.setdefault(name, []).append(played.gap(result.x, result.y))
        yield f"{n:,}", f"{d:,}", *map(spread, gaps.values())


def student(n: int, rng: np.random.Generator, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features with Student's t-distribution (2.6 degrees of freedom, mean squared length 1.5) and targets.

    The noise in targets has the t-distribution with 3 degrees of freedom.
    """
    X = math.sqrt(1.5 / d / (2.6 / 0.6)) * rng.standard_t(2.6, (n, d))
    return X, X @ np.full(d, 1.4 / math.sqrt(d)) + 0.3 * rng.standard_t(3.0, n)


FRESH = 50_000


def lost(model: type, epsilon: float, n: int, seed: int, data: Draw, **options: Any) -> float:
    """Return the loss on fresh records, as a share of the loss of predicting the middle of the range."""
    X, y = data(n, np.random.default_rng((seed, 0)))
    fresh, target = data(FRESH, np.random.default_rng((seed, 1)))
    low, high = options["target_bounds"]
    fitted = model(epsilon, heavy_tailed=2, random_state=seed, **options).fit(X, y)
    unit = high - low
    loss = LOSSES[model]
    risks = [
        float(loss.value((np.clip(z, low, high) - target) / unit, np.zeros(len(target))).mean())
        for z in (fitted.predict(fresh), np.full(len(target), (low + high) / 2))
    ]
    return risks[0] / risks[1]


Draw = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
LOSSES = {
    PrivateHuberRegressor: HuberLoss(0.1),
    PrivateLinearRegression: HuberLoss(1e6),
    PrivateQuantileRegressor: AbsoluteLoss(1e12),
}
"""The loss by which each estimator is judged on held-out records, in units of the range of predictions."""


def lengths(seeds: int) -> Iterator[Row]:
    """Heavy tails (algorithm), Clipped residuals: Huber, d = 11, epsilon 1, by the length B of clipped records."""
    bounds = (3.0, 10.0, 30.0, 100.0)
    yield "n", *(f"B={bound:g}" for bound in bounds), "localization, B=1000"
    cells = [("clipped_residuals", bound) for bound in bounds] + [("heavy_tailed", 1000.0)]
    for n in (2_000, 10_000, 50_000):
        found = [
            spread(
                lost(
                    PrivateHuberRegressor,
                    1.0,
                    n,
                    seed,
                    partial(student, d=10),
                    algorithm=algorithm,
                    feature_norm=bound,
                    target_bounds=(-4.0, 4.0),
                )
                for seed in range(seeds)
            )
            for algorithm, bound in cells
        ]
        yield f"{n:,}", *found


def delayed(n: int, rng: np.random.Generator, *, domain: bool = False) -> Any:
    """Return flight delays, with departure delays that are clipped only at one day; or their domain."""
    data = free_delays()
    chosen = rng.choice(len(data.y), n, replace=False)
    return data.domain if domain else (data.X[chosen], data.y[chosen])


def wide(seeds: int) -> Iterator[Row]:
    """Heavy tails, From which n on: localization and clipped gradient descent for wide features, by n epsilon / d."""
    ratios = (100, 200, 400)
    yield "data", "model", *(f"{r}: {name}" for r in ratios for name in ("localized", "descent"))
    domain = delayed(1, np.random.default_rng(0), domain=True).with_intercept()
    flights = {"domain": domain, "target_bounds": (-60, 180)}
    simulated = {"feature_norm": 1000.0, "target_bounds": (-4.0, 4.0)}
    for name, draw, d, options in (
        ("flight delays", delayed, domain.dim, flights),
        ("Student features (2.6)", partial(student, d=10), 11, simulated),
    ):
        for model in LOSSES:
            found = [
                spread(lost(model, 1.0, ratio * d, seed, draw, algorithm=algorithm, **options) for seed in range(seeds))
                for ratio in ratios
                for algorithm in ("heavy_tailed", "clipped_gradient")
            ]
            yield name, model.__name__, *found


def projection(seeds: int) -> Iterator[Row]:
    """Random projection, How good is it: excess log-loss on Fashion-MNIST, pure epsilon."""
    epsilons = (0.1, 0.3, 1.0, 3.0)
    X, y, domain = fashion()
    order = np.random.default_rng(0).permutation(len(y))[: 4 * len(y) // 5]
    X, y, loss = np.ascontiguousarray(X[order]), y[order], SoftmaxLoss(10)
    domain = domain.with_intercept()
    problem = LinearModelProblem(loss, domain, len(y), default_radius(domain, 10))
    inside = np.column_stack([domain.clip(X), np.full(len(X), domain.intercept)])

    def risk(w: np.ndarray) -> float:
        return float(loss.value(inside @ w.reshape(10, -1).T, loss.clip_targets(y)).mean())

    least = json.loads(OPTIMA.read_text(encoding="utf-8"))["fashion"]["optimum"]
    yield "columns", *(f"epsilon={epsilon:g}" for epsilon in epsilons)
    for columns in (98, 49, 12):
        cells = []
        for epsilon in epsilons:
            privacy, planner = PrivacyParams(epsilon), partial(objective_perturbation.plan, noise="grouped")
            then = planner(projecting.projected(problem, columns), privacy)[0]
            plan = projecting.ProjectedPlan(problem, privacy, then, columns)
            cells.append(spread(risk(plan.run(X, y, SeededSource(seed)).point) - least for seed in range(seeds)))
        yield columns, *cells


def rates(seeds: int) -> Iterator[Row]:
    """Hopeless plans: excess log-loss without and with public rates, 14 % positive, 2,000 records, 10 columns."""
    from sklearn.linear_model import LogisticRegression

    loss = LogisticLoss()
    yield "deviation of coefficients", "epsilon", "best constant", "without: expected", "measured", "with", "measured"
    for deviation in (0.3, 0.9):
        rng = np.random.default_rng(1)
        X = rng.uniform(-1, 1, (2000, 10))
        w = rng.normal(size=10) * deviation
        y = (rng.random(2000) < 1 / (1 + np.exp(2.1 - X @ w))).astype(int)

        def risk(model: Any, X: np.ndarray = X, y: np.ndarray = y) -> float:
            return float(loss.value(model.decision_function(X), 2.0 * y - 1).mean())

        least = risk(LogisticRegression(C=1e6).fit(X, y))
        constant = -sum(p * math.log(p) for p in (y.mean(), 1 - y.mean())) - least
        for epsilon in (0.1, 0.3, 1.0):
            cells = []
            for given in (None, [0.86, 0.14]):
                options: Any = {"feature_bounds": (-1, 1), "classes": [0, 1], "rates": given}
                fits = [PrivateLogisticRegression(epsilon, random_state=k, **options).fit(X, y) for k in range(seeds)]
                cells += [f"{fits[0].plan_.predicted_error.expected:.2g}", spread(risk(fit) - least for fit in fits)]
            yield deviation, epsilon, f"{constant:.3f}", *cells


TABLES: dict[str, Callable[[int], Iterator[Row]]] = {
    make.__name__: make
    for make in (localised, phased, cohorts, users, user_noise, lengths, wide, median, game, projection, rates)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", choices=TABLES)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.tables:
        print(f"\n{name}: {TABLES[name].__doc__}", flush=True)
        for row in TABLES[name](arguments.seeds):
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
