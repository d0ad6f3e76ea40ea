"""Misprints of Lowy and Razaviyayn whose consequence is a number: the printed form fails, the repaired one holds.

Those that belong to one part are tested beside it; docs/errata.md names every test.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpconvex._types import Status
from dpconvex.algorithms.erm.output_perturbation.schedules import printed_bound
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LOSSES, LogisticLoss, SmoothLoss
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.mechanisms.gaussian import zwb_constant
from dpconvex.privacy import PrivacyParams, Sensitivity
from dpconvex.problems import DataDomain, LinearModelProblem
from dpconvex.solvers import AcceleratedGradient, NewtonCholesky
from dpconvex_experiments.reference import printed_constants
from instances import instances


def big_c(epsilon, delta):
    return zwb_constant(delta) + math.sqrt(zwb_constant(delta) ** 2 + epsilon)


@pytest.mark.gate
def test_p1_an_accuracy_in_expectation_is_missed_by_some_runs() -> None:
    """Stochastic subgradients, ``f = mu/2 (w - x)^2``, x = +-a, R = a, parameters of Corollary 3.2, n = 10.

    The mean gap is far below alpha (0.074 alpha there), yet about 2e-4 of all runs are further away than
    ``sqrt(2 alpha/mu)``. With 300,000 runs the count is within a factor 1.6 but for a probability of 1e-4.
    """
    n, epsilon, mu, a, runs = 10, 1.0, 1.0, 1.0, 300_000
    slope = 2 * mu * a  # of f over the ball
    alpha = slope**2 / (mu * n) * min(1 / n, 1 / epsilon)
    steps = round(2 * n * max(n, epsilon))
    rng = np.random.default_rng(0)
    w, mean = np.zeros(runs), np.zeros(runs)
    for t in range(1, steps + 1):
        x = a * rng.choice(np.array([-1.0, 1.0]), runs)
        w = np.clip(w - 2 / (mu * t) * mu * (w - x), -a, a)
        mean += 2 * t / (steps * (steps + 1)) * w
    assert (mu / 2 * mean**2).mean() < 0.1 * alpha  # the minimizer is 0
    missed = (np.abs(mean) > math.sqrt(2 * alpha / mu)).mean()
    assert 2e-4 / 1.6 < missed < 2e-4 * 1.6


def test_p4_the_inverted_step_count_stops_too_early() -> None:
    """Corollary 3.3b prints ``max(1, y^2/kappa)`` for ``max(1, 1/(kappa y^2))``, y = sqrt(d) C / epsilon."""
    n, mu, epsilon, delta = 200, 0.01, 1e10, 1e-6
    problem = LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(1, 1.0), n, 1.0)
    beta, R = problem.smoothness + mu, problem.minimizer_norm(mu)
    L, kappa, y = problem.lipschitz + mu * R, beta / mu, big_c(epsilon, delta) / epsilon
    alpha = L**2 / mu * min(kappa * y**2, 1)
    radius, base = math.sqrt(2 * alpha / mu), beta * R**2 * mu / L**2
    printed = max(1, math.ceil(math.sqrt(kappa) * math.log(max(1, base * max(1, y**2 / kappa)))))
    repaired = math.ceil(math.sqrt(kappa) * math.log(base * max(1, 1 / (kappa * y**2))))
    X = np.linspace(0.2, 1.0, n)[:, None]
    risk = problem.objective(X, np.where(np.arange(n) % 4, 1.0, -1.0), mu)
    exact = NewtonCholesky().solve(risk, radius / 1000)
    assert exact.status is Status.CERTIFIED
    few = AcceleratedGradient(max_steps=printed).solve(risk, radius)
    assert few.status is Status.STEP_LIMIT
    assert np.linalg.norm(few.point - exact.point) > 100 * radius
    assert AcceleratedGradient(max_steps=repaired).solve(risk, radius).status is Status.CERTIFIED


@pytest.mark.parametrize(("n", "d", "epsilon"), [(1, 1, 100.0), (10, 4, 1e4), (100, 2, 1e6)])
def test_p5_the_printed_count_of_stochastic_steps_is_too_small(n, d, epsilon) -> None:
    """Corollary 3.2b has ``2 c + sqrt(epsilon)`` for C in the denominator; ``2 L^2/(mu alpha)`` steps are needed."""
    c, L, mu = zwb_constant(1e-6), 1.0, 0.1
    root = math.sqrt(d) * big_c(epsilon, 1e-6)
    alpha = L**2 / (mu * n) * min(1 / n, root / epsilon)
    printed = 2 * n * max(n, epsilon / (math.sqrt(d) * (2 * c + math.sqrt(epsilon))))
    needed = 2 * L**2 / (mu * alpha)
    assert printed < needed * (1 - 1e-3)
    assert needed == pytest.approx(2 * n * max(n, epsilon / root))


def test_p9_the_gaussian_formula_stops_at_one_half() -> None:
    for delta in (0.5, 0.7):
        with pytest.raises(InvalidParameterError):
            zwb_constant(delta)
        with pytest.raises(InvalidParameterError):
            PrivacyParams(1.0, delta)


def test_p10_the_printed_tight_instance_is_half_as_convex_as_it_says() -> None:
    """``mu/4 |w|^2 + L/4 <x, w>`` has curvature mu/2; ``mu/2 |w|^2 + L/2 <x, w>`` moves by the claimed ``L/(mu n)``."""
    n, mu, L = 10, 0.3, 2.0

    def moved(curvature, slope):
        """Of the minimizer ``-slope mean(x)/curvature``, when one of n records turns from e_1 to -e_1."""
        return slope * 2 / n / curvature

    assert moved(mu / 2, L / 4) == pytest.approx(L / (mu * n))  # attained, but by a function of another class
    assert moved(mu, L / 2) == pytest.approx(L / (mu * n))
    assert moved(mu, L / 4) == pytest.approx(L / (mu * n) / 2)  # what the printed slopes give with curvature mu


def test_u2_the_regularization_of_the_pure_case_does_not_give_the_claim() -> None:
    """Proposition 2.5b on ``F = L |w|``, d = n = 1, epsilon = 1e5, delta = 1e-3: 0.73 LR measured, 0.48 claimed."""
    epsilon, delta, L, R = 1e5, 1e-3, 1.0, 1.0
    c = big_c(epsilon, delta)

    def risk(q):
        """Of the release of the minimizer 0, projected to the ball."""
        lam = L / (R * math.sqrt(1 + 1 / q))
        sigma = c / (math.sqrt(2) * epsilon) * 2 * (L + lam * R) / lam
        inside = 2 * sigma * (norm.pdf(0) - norm.pdf(R / sigma))
        return L * (inside + 2 * R * norm.sf(R / sigma))

    claimed = 8.5 * L * R * math.sqrt(c / epsilon)
    assert claimed == pytest.approx(0.48, abs=0.01)
    assert risk(1 / epsilon) == pytest.approx(0.73, abs=0.01)
    assert risk(c / epsilon) == pytest.approx(0.07, abs=0.01)


def test_u3_the_printed_gaussian_risk_lacks_the_dimension() -> None:
    """Proposition 2.6, delta > 0, ``F = mu/2 |w|^2``: a release has the risk ``mu/2 d sigma^2``, printed without d."""
    mu, L, n, epsilon, delta = 0.1, 1.0, 1000, 1.0, 1e-6
    for d in (1, 30, 100):
        sigma = GaussianMechanism.calibrate(Sensitivity(2 * L / (mu * n), "l2", "test"), epsilon, delta, d, "zwb").sigma
        printed = mu / 2 * (big_c(epsilon, delta) / (math.sqrt(2) * epsilon) * 2 * L / (mu * n)) ** 2
        draws = sigma * np.random.default_rng(0).standard_normal((20_000, d))
        assert mu / 2 * (draws**2).sum(1).mean() == pytest.approx(d * printed, rel=0.05)  # five standard errors


def test_u4_the_proof_of_theorem_3_5a_gives_more_than_65() -> None:
    """Its decomposition at d = 1 needs up to about 122 ``B q^(2/3)``; 142 is what can be proved."""
    n, R, b, worst = 5, 1.0, 0.5, 0.0
    problem = LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(1, 1.0), n, R)
    for epsilon in np.geomspace(0.1, 1e3, 60).tolist():
        q = 1 / (epsilon * n)
        if q**2 > 1 / (R * b):  # outside the theorem
            continue
        found = printed_constants.output_perturbation(problem, None, epsilon, 0.0)
        energy = 2 / epsilon**2 * found.reach**2
        decomposed = found.l2 * (R**2 + found.solver_radius**2) / 2 + (b + found.l2) / 2 * energy
        worst = max(worst, decomposed / (b ** (1 / 3) * q ** (2 / 3)))
    assert 110 < worst < 142


@pytest.mark.parametrize("ratio", [0.3, 1.0, 30.0])
def test_u5_the_accuracy_of_corollary_3_7_is_none(ratio) -> None:
    """Its branch of alpha is at least LR wherever the theorem applies, ``x^2 <= L/(R beta)``; the other is not."""
    L, R = 1.0, 2.0
    beta = ratio * L / R
    for x in np.geomspace(1e-6, 1, 20) * math.sqrt(1 / ratio):
        assert L ** (4 / 3) * R ** (2 / 3) / beta ** (1 / 3) * x ** (-2 / 3) >= L * R * (1 - 1e-12)
        assert x > 1e-3 or beta ** (1 / 3) * L ** (2 / 3) * R ** (4 / 3) * x ** (2 / 3) < L * R


def wall(excess):
    """``max(0, |w| - 1)``: 0 on the unit ball, so that no constant on the ball knows of it. `excess` is its slope."""
    return lambda w: excess * np.maximum(np.abs(w) - 1, 0)


def test_u6_a_lipschitz_constant_on_the_ball_does_not_bound_the_stability_of_what_leaves_it() -> None:
    """Lemma 4.2 without projection: ``f = mu/2 w^2 - x w + wall``, records 1 but for one that turns to -1, epsilon = 1.

    The bound is ``L Delta`` with L on the ball; the wall's slope is felt by every release beyond it. By quadrature.
    """
    n, mu, epsilon = 10, 1.0, 1.0
    L, sensitivity = mu + 1, 2 / (mu * n)
    z = np.linspace(-80, 80, 800_001) * sensitivity / epsilon
    weight = np.exp(-np.abs(z) * epsilon / sensitivity)
    weight /= weight.sum()
    centers = (1.0, 1.0 - sensitivity)  # minimizers in the ball

    def stability(beyond, project):
        out = []
        for center in centers:
            w = np.clip(center + z, -1, 1) if project else center + z
            out.append(float(weight @ (mu / 2 * w**2 + w + beyond(w))))  # the loss of the record -1
        return out[0] - out[1]

    assert stability(wall(0.0), False) <= L * sensitivity
    assert stability(wall(100.0), True) <= L * sensitivity
    assert stability(wall(100.0), False) > 10 * L * sensitivity


def test_u8_the_accuracy_of_corollary_4_4_1_is_coarser_than_its_claim() -> None:
    """alpha = ``L^(4/3) R^(2/3) beta^(-1/3)`` allows the start 0, which loses more than is claimed for n = 10^8."""
    n, epsilon, R = 10**8, 1.0, 1.0
    problem = LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(1, 1.0), n, R)
    L, beta = problem.lipschitz, problem.smoothness
    claimed = printed_bound(problem, None, epsilon, 0.0, "population")
    assert claimed is not None
    alpha = L ** (4 / 3) * R ** (2 / 3) / beta ** (1 / 3)
    lost = math.log(2) - math.log1p(math.exp(-1))  # of 0 against the best w = 1, all labels alike
    assert alpha > L * R >= lost > claimed
    repaired = printed_constants.output_perturbation(problem, None, epsilon, 0.0, "population")
    assert repaired.l2 / 2 * repaired.solver_radius**2 < claimed / 1000


def test_u12_smoothness_on_the_ball_does_not_bound_the_risk_of_what_leaves_it() -> None:
    """``F = mu/2 w^2 + wall`` is mu-smooth on the ball; noise of length 1 loses far more than ``mu/2 E z^2``."""
    mu, z = 1.0, np.random.default_rng(0).standard_normal(20_000)
    assert (mu / 2 * z**2 + wall(10.0)(z)).mean() > 3 * (mu / 2 * z**2).mean()
    for kind in LOSSES:
        for loss in instances(kind):
            if isinstance(loss, SmoothLoss) and loss.n_outputs == 1:  # the library's constant holds on the line
                u = np.linspace(-1e3, 1e3, 4_001)
                slopes = loss.derivative(u, np.full(u.shape, 0.5 if loss.task == "regression" else 1.0))
                assert np.all(np.abs(np.diff(slopes)) <= loss.curvature_bound * np.diff(u) * (1 + 1e-9))
