"""E11: adversarial training: the smooth rate is refuted, the Lipschitz bound holds; robust logistic regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.erm import output_perturbation
from dpconvex.losses import LogisticLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import SeededSource
from dpconvex.sets import L2Ball
from dpconvex_experiments import checks
from dpconvex_experiments.base import Cell, Experiment, Figure, Outcome, Setting
from dpconvex_experiments.checks import Anchors, Estimate, exponent
from dpconvex_experiments.output_perturbation._common import laplace, lines, logistic_records, panels, releases

_Data: TypeAlias = tuple[FloatArray, FloatArray]

SIZES = (100, 1_000, 10_000)
ATTACKS = (0.0, 0.02, 0.05, 0.1)
EPSILONS = (0.5, 1.0, 4.0, math.inf)
DIM, RADIUS = 10, 5.0
TRUTH = 6 * np.array([1.0, 1.0, *[0.25] * (DIM - 2)])
"""Two strong features and many weak ones: what an attack on every feature at once makes worthless."""


@dataclass(frozen=True)
class _Fit:
    """Robust logistic regression: released parameters of some runs (not private: one), and the plan's bound."""

    attack: float
    epsilon: float
    points: list[FloatArray]
    bound: float | None


@dataclass(frozen=True)
class _Judged:
    """Mean test accuracies of a fit, clean and under its attack; and its excess adversarial risk on the train data."""

    fit: _Fit
    clean: float
    robust: float
    unaware: float
    found: Estimate

    @property
    def cells(self) -> tuple[Cell, ...]:
        epsilon = self.fit.epsilon if self.fit.bound is not None else None
        accuracies = (self.clean, self.robust, self.unaware)
        return ("robust logistic", epsilon, self.fit.attack, *accuracies, *self.found[:2], self.fit.bound, None)


def measure(setting: Setting) -> Outcome:
    """Measure the counterexample, then train against attacks in the maximum norm."""
    count, source = 2_000 if setting.quick else 40_000, SeededSource(setting.seed)
    against = [_counterexample(n, count, source) for n in SIZES]
    where = [*zip(SIZES, against, strict=True)]
    rate = exponent(SIZES, [excess for excess, _, _ in against])
    rng, n = np.random.default_rng(setting.seed), 4_000 if setting.quick else 20_000
    train, test = (logistic_records(rng, n, TRUTH) for _ in range(2))
    epsilons, runs = ((1.0, math.inf), 1) if setting.quick else (EPSILONS, 10)
    jobs = [(attack, epsilon) for attack in ATTACKS for epsilon in epsilons]
    fits = {job: _fit(*job, train, runs, source) for job in setting.track(jobs, "Training against attacks")}
    judged = [_judge(fit, fits[0.0, e], fits[a, math.inf], train, test) for (a, e), fit in fits.items()]
    anchors = Anchors("output-perturbation/e11-adversarial", setting.quick)
    private = {
        f"attack = {a:g}, epsilon = {e:g}": (j.found, j.fit.bound)
        for (a, e), j in zip(fits, judged, strict=True)
        if j.fit.bound is not None
    }
    rows: list[tuple[Cell, ...]] = [
        (f"counterexample, n = {m}", 1.0, None, None, None, None, *excess[:2], *limits)
        for m, (excess, *limits) in where
    ]

    def draw(figure: Figure) -> None:
        left, right = panels(figure, 2)
        bounds, claims = [bound for _, bound, _ in against], [claim for _, _, claim in against]
        measured = [excess.value for excess, _, _ in against]
        dashed = {"Lipschitz bound": bounds, "smooth claim (Prop. 5.1)": claims}
        lines(left, SIZES, {"measured": measured}, ("records", "excess adversarial risk"), dashed=dashed)
        for k, epsilon in enumerate(epsilons):
            mine = [j for j in judged if j.fit.epsilon == epsilon]
            name = f"epsilon {epsilon:g}" if math.isfinite(epsilon) else "not private"
            right.plot(ATTACKS, [j.robust for j in mine], "o-", color=f"C{k}", label=name)
            right.plot(ATTACKS, [j.unaware for j in mine], ":", color=f"C{k}")
        right.set_xlabel("attack; dotted: trained without it")
        right.set_ylabel("test accuracy under attack")
        right.legend()

    return Outcome(
        ("case", "epsilon", "attack", "clean", "robust", "unaware", "excess", "s.e.", "bound", "claim"),
        (*rows, *(j.cells for j in judged)),
        "the counterexample's risk exceeds the smooth claim, falls like 1/n (exponent -1 within 0.1) and stays below "
        "the Lipschitz bound; its mean is the exact one; robust logistic regression stays below its plan's bound and "
        "near its anchor",
        (
            checks.mean("exponent of the counterexample", rate, -1.1, -0.9),
            *(checks.mean(f"counterexample, n = {m}", e, _exact(m), _exact(m)) for m, (e, _, _) in where),
            *(checks.exact(f"exact value, n = {m}, claim to bound", _exact(m), c, b) for m, (_, b, c) in where),
            *(anchors.within(name, found, 0.0, bound, "plan") for name, (found, bound) in private.items()),
            *anchors.near({name: found for name, (found, _) in private.items()}),
        ),
        draw,
        (
            f"Counterexample: f(w, v) = w v + w^2/2, v in [-1, 1], whose worst case is not smooth; {count} releases, "
            f"measured exponent {rate.value:.3f} +- {rate.error:.3f}. Bound 2 L^2/mu q, claim 4 kappa L^2/mu q^2 "
            "with q = 1/n.",
            f"Robust logistic regression: n = {n}, d = {DIM}, R = {RADIUS:g}, delta = 0, {runs} runs. Accuracies on as "
            "many fresh records: clean, under the attack trained against, and under it when trained without; excess "
            "adversarial risk against the fit that is not private, whose epsilon is shown as missing.",
        ),
    )


def _counterexample(n: int, count: int, source: SeededSource) -> tuple[Estimate, float, float]:
    """Return mean excess of ``G = |w| + w^2/2``, the Lipschitz bound and the smooth claim: mu = 1, L = 2, R = 1."""
    ball = L2Ball(1.0)
    points = releases(laplace(1, 4 / n, 1.0), np.zeros(1), PrivacyParams(1.0), count, source)
    w = np.array([ball.project(point)[0] for point in points])
    return Estimate.of(np.abs(w) + 0.5 * w**2), 8 / n, 16 / n**2


def _exact(n: int) -> float:
    """Return ``E[min(|z|, 1) + min(z^2, 1)/2]`` for Laplace noise z of scale 4/n."""
    scale = 4 / n
    tail = math.exp(-1 / scale)
    return scale * (1 - tail) + scale**2 * (1 - tail * (1 + 1 / scale))


def _fit(attack: float, epsilon: float, train: _Data, runs: int, source: SeededSource) -> _Fit:
    """Fit privately, or with a ridge that costs less than 1e-4."""
    domain, private = DataDomain.l2_ball(DIM, 1.0), math.isfinite(epsilon)
    problem = LinearModelProblem(
        LogisticLoss(), domain, len(train[0]), RADIUS, attack_radius=attack, attack_norm="linf"
    )
    if private:
        plan = output_perturbation.plan(problem, PrivacyParams(epsilon))[0]
        return _Fit(attack, epsilon, [plan.run(*train, source).point for _ in range(runs)], plan.predicted_error.bound)
    plan = output_perturbation.plan(problem, PrivacyParams(1.0), l2=1e-5)[0]
    found = plan.solver.solve(problem.objective(*train, plan.l2), plan.solver_radius, plan.constraint)
    return _Fit(attack, epsilon, [problem.parameters(found.point)], None)


def _judge(fit: _Fit, unaware: _Fit, best: _Fit, train: _Data, test: _Data) -> _Judged:
    clean, robust = (np.mean([_accuracy(w, test, a) for w in fit.points]) for a in (0.0, fit.attack))
    without = np.mean([_accuracy(w, test, fit.attack) for w in unaware.points])
    least = _risk(best.points[0], train, fit.attack)
    excess = Estimate.of(_risk(w, train, fit.attack) - least for w in fit.points)
    return _Judged(fit, float(clean), float(robust), float(without), excess)


def _margins(w: FloatArray, data: _Data, attack: float) -> FloatArray:
    """Return the margins under the worst attack: the dual of the maximum norm is the l1 norm."""
    X, y = data
    return y * (X @ w) - attack * float(np.abs(w).sum())


def _accuracy(w: FloatArray, data: _Data, attack: float) -> float:
    return float((_margins(w, data, attack) > 0).mean())


def _risk(w: FloatArray, data: _Data, attack: float) -> float:
    margins = _margins(w, data, attack)
    return float(LogisticLoss().value(margins, np.ones(len(margins))).mean())


E11 = Experiment(
    "output-perturbation/e11-adversarial",
    "Does adversarial training have the smooth rate?",
    "Lowy and Razaviyayn, Proposition 5.1, Theorem 5.3 (erratum U10)",
    measure,
)
