"""X4 and X5: localization beside clipped gradient descent, printed constants and noise for the worst case."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm import heavy_tailed, output_perturbation
from dpconvex.algorithms.erm.heavy_tailed import Moments, clipped_gradient, record_cap
from dpconvex.losses import AbsoluteLoss, HuberLoss, LinearModelLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate
from dpconvex_experiments.heavy_tails.rates import PAPER, RADIUS, wide_problem
from dpconvex_experiments.shared import lines, panels, streams

EPSILON, DELTA, DIM = 1.0, 1e-6, 10
FRESH = PUBLIC = 200_000
SIGNAL = 0.7
BETWEEN, OTHER_EPSILONS, OTHER_DIM = 10_000, (0.5, 3.0), 50
"""Number of records at which epsilon and d are varied, one at a time, and their other values."""


@dataclass(frozen=True)
class Design:
    """Regression with independent Student features and noise."""

    name: str
    features: float  #: features, noise: degrees of freedom
    noise: float
    k: float  #: order of the moment that is declared
    robust: bool  #: whether the loss is absolute; else it is Huber's
    dim: int = DIM

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return features (n, dim) and targets (n,) of a model of coefficients of norm `SIGNAL`."""
        X = rng.standard_t(self.features, (n, self.dim))
        return X, X @ self.truth + rng.standard_t(self.noise, n)

    @property
    def truth(self) -> Floats:
        """The coefficients (dim,)."""
        return np.full(self.dim, SIGNAL / self.dim**0.5)

    def loss(self, cap: float = 1.0) -> LinearModelLoss:
        """Return the loss; both have slopes of at most 1. Absolute: targets up to `cap`."""
        return AbsoluteLoss(cap) if self.robust else HuberLoss()

    def moments(self, rng: np.random.Generator) -> Moments:
        """Return the moments of the feature norms in a public sample: gradients are no longer."""
        lengths = np.sqrt(sum(rng.standard_t(self.features, PUBLIC) ** 2 for _ in range(self.dim)))
        kth, second, first = (float(np.mean(lengths**q) ** (1 / q)) for q in (self.k, 2.0, 1.0))
        return Moments(self.k, kth, min(second, kth), min(first, second, kth))


DESIGNS = (Design("absolute", 2.6, 3.0, 2.0, True), Design("huber", 5.0, 5.0, 4.0, False))
Method = Callable[[LinearModelProblem, float, Moments], LinearModelPlan]
"""A function from a problem, epsilon and moments to a plan."""


def _localized(constants: str) -> Method:
    return lambda problem, epsilon, moments: heavy_tailed.plan(
        problem, PrivacyParams(epsilon), moments, constants=constants
    )


def _worst_case(problem: LinearModelProblem, epsilon: float, moments: Moments) -> LinearModelPlan:
    """Noise for the longest record of the domain, which one in ``100 n`` exceeds."""
    return output_perturbation.plan(problem, PrivacyParams(epsilon), target="population")[0]


def _descent(delta: float) -> Method:
    return lambda problem, epsilon, moments: clipped_gradient.plan(problem, PrivacyParams(epsilon, delta), moments)


METHODS: Mapping[str, Method] = {
    "localized": _localized("calibrated"),
    "printed": _localized("paper"),
    "worst case": _worst_case,
    "descent": _descent(0.0),
    "descent, delta": _descent(DELTA),
}
"""The methods that are planned from public facts alone, by name."""
PURE = ("localized", "printed", "worst case", "descent")
TUNED = {"tuned": 0.0, "tuned, delta": DELTA}
"""Clipped gradient descent with the best of `GRID` on the *test risk*: no private procedure."""
GRID = tuple(product((1.5, 3.0, 6.0), (100,), (0.1, 0.3)))
"""Settings of the tuned descent: clipping level, number of steps, step size."""


@dataclass(frozen=True)
class Task:
    """One design with n records, and what its methods lose."""

    design: Design
    n: int
    epsilon: float
    runs: int
    seed: int
    tuned: bool = True  # whether to try the grid, and Gaussian noise; else pure methods planned from public facts alone

    def measure(self) -> dict[str, tuple[Estimate, float | None]]:
        """Return mean excess and proven bound of every method; ``zero`` is the zero vector."""
        rng, _ = streams(self.seed, 0, int(self.design.k))
        moments = self.design.moments(rng)
        problem = wide_problem(self.design.loss(record_cap(moments, self.n)), self.design.dim, self.n, moments)
        risk = _Fresh(self.design, rng)
        methods = {name: METHODS[name] for name in (METHODS if self.tuned else PURE)}
        plans = {name: method(problem, self.epsilon, moments) for name, method in methods.items()}
        found: dict[str, tuple[Estimate, float | None]] = {
            name: (self._excess(risk, plan, i), plan.predicted_error.bound)
            for i, (name, plan) in enumerate(plans.items())
        }
        for i, (name, delta) in enumerate(TUNED.items() if self.tuned else ()):
            choices = [
                clipped_gradient.plan(
                    problem, PrivacyParams(self.epsilon, delta), moments, level=level, steps=steps, step_size=step_size
                )
                for level, steps, step_size in GRID
            ]
            found[name] = min(self._excess(risk, plan, 10 + i) for plan in choices), None
        found["zero"] = Estimate(risk(np.zeros(self.design.dim))), None
        return found

    def _excess(self, risk: "_Fresh", plan: LinearModelPlan, method: int) -> Estimate:
        """Return the mean excess over the runs; all methods see the same records."""
        found = []
        for run in range(self.runs):
            rng, _ = streams(self.seed, 1, run, self.n)
            _, source = streams(self.seed, 2, run, self.n, method)
            found.append(risk(plan.run(*self.design.draw(self.n, rng), source).point))
        return Estimate.of(found)


class _Fresh:
    """Excess risk on fresh records, which are the same for all methods."""

    def __init__(self, design: Design, rng: np.random.Generator) -> None:
        self._loss = design.loss(1e100)
        self._X, self._y = design.draw(FRESH, rng)
        self._least = 0.0
        self._least = self(design.truth)  # noise is symmetric: the truth minimizes

    def __call__(self, w: Floats) -> float:
        """Return the mean loss above that of the truth."""
        return float(self._loss.value(self._X @ w, self._y).mean()) - self._least


@experiment("heavy-tails/methods", f"{PAPER}, Theorem 3.1, Table 1; docs, Heavy tails")
def comparison(setting: Setting, anchors: Anchors) -> Outcome:
    """Which private method loses least with heavy tails, at the same epsilon?"""
    sizes = (2_000,) if setting.quick else (2_000, 10_000, 50_000)
    designs = DESIGNS[:1] if setting.quick else DESIGNS
    runs = 3 if setting.quick else 4
    jobs = [(design, n, EPSILON) for design in designs for n in sizes]
    if not setting.quick:
        jobs += [(design, BETWEEN, epsilon) for design in designs for epsilon in OTHER_EPSILONS]
        jobs += [(replace(design, dim=OTHER_DIM), BETWEEN, EPSILON) for design in designs]
    found = {
        (design.name, design.dim, epsilon, n): Task(design, n, epsilon, runs, setting.seed, not setting.quick).measure()
        for design, n, epsilon in setting.track(jobs, "Comparing")
    }
    rows = tuple(
        (*key, name, excess.value, excess.error, proven)
        for key, values in found.items()
        for name, (excess, proven) in values.items()
    )
    checks = [check for key, values in found.items() for check in _checks(anchors, key, values)]

    def draw(figure: Figure) -> None:
        for axes, design in zip(panels(figure, len(designs)), designs, strict=True):
            mine = [found[design.name, DIM, EPSILON, n] for n in sizes]
            curves = {name: [max(values[name][0].value, 1e-5) for values in mine] for name in mine[0] if name != "zero"}
            lines(axes, sizes, curves, ("records", f"excess risk, {design.name}, k = {design.k:g}"))
            axes.axhline(mine[0]["zero"][0].value, color="#444444", linewidth=1, linestyle=":")

    return Outcome(
        ("loss", "d", "epsilon", "n", "method", "excess", "s.e.", "proven"),
        rows,
        "localized loses less than every other pure method that is planned from public facts alone, and at epsilon = "
        f"{EPSILON:g}, d = {DIM} less than half of what the zero vector loses; it and descent are near their anchors",
        tuple(checks),
        draw,
        f"Figure: d = {DIM}, epsilon = {EPSILON:g}. R = {RADIUS:g}, coefficients of norm {SIGNAL:g}; absolute: "
        "Student features (2.6 degrees of freedom) and noise (3), k = 2; huber: 5 and 5, k = 4. Means of "
        f"{runs} runs on {FRESH:,} fresh records. Moments from a public sample of as many.\n"
        "Printed: the paper's constants, which leave the zero vector where it is. Worst case: output perturbation "
        "with noise for the longest record that the domain admits. Descent: clipped gradient descent with the "
        f"constants of its bound; delta: with Gaussian noise, delta = {DELTA:g}. Its bound is for the data.\n"
        f"Tuned: the same with the best of {len(GRID)} constants by the test risk itself, which no private method "
        "can do; on public data of the same kind it is possible, and then it is the method to beat: the risk is "
        "strongly convex around its minimum, where localization has no advantage.",
    )


def _checks(
    anchors: Anchors, key: tuple[str, int, float, int], values: Mapping[str, tuple[Estimate, float | None]]
) -> list[Check]:
    """Compare localized with each other pure method and with the zero vector; and both kinds with their anchors."""
    loss, dim, epsilon, n = key
    where = f"{loss}, d = {dim}, epsilon = {epsilon:g}, n = {n}"
    excess = {name: found for name, (found, _) in values.items()}
    ours = excess["localized"]
    found = [anchors.within(f"localized over {name}, {where}", ours.over(excess[name]), 0.0, 1.0) for name in PURE[1:]]
    if (dim, epsilon) == (DIM, EPSILON):
        found.append(anchors.within(f"localized over zero, {where}", ours.over(excess["zero"]), 0.0, 0.5))
    near = ("localized", *(name for name in ("descent", "descent, delta") if name in excess))
    return found + [c for name in near for c in anchors.near({f"{name}, {where}": excess[name]})]
