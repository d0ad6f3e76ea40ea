"""A level without any moment: sensitivities of its releases, its theorem step by step, and that it is the rate's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpconvex.algorithms.erm.heavy_tailed import Moments, clipped_residuals
from dpconvex.algorithms.erm.heavy_tailed.level import Scale
from dpconvex.algorithms.erm.heavy_tailed.moments import _bounds, record_bounds
from dpconvex.algorithms.erm.heavy_tailed.registry import APART, heavy_plans
from dpconvex.algorithms.erm.heavy_tailed.schedule import TUNING, Setting, calibrated
from dpconvex.algorithms.erm.heavy_tailed.surrogates import SURROGATES
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.privacy import Ledger, PrivacyParams, verify
from dpconvex.privacy.ledger import total_epsilon
from dpconvex.problems import DataDomain, LinearModelProblem
from dpconvex.randomness import SeededSource, SystemSource

LOSSES = (SquaredLoss(1e4), HuberLoss(), LogisticLoss(), AbsoluteLoss(1e4), HingeLoss())


def problem(loss: Any = None, n: int = 40_000, dim: int = 3, length: float = 1e4) -> LinearModelProblem:
    return LinearModelProblem(loss or HuberLoss(1.0, 1e6), DataDomain.l2_ball(dim, length), n, 1.0)


def scale(n: int = 5000, epsilon: float = 1.0, slopes: bool = False, **more: Any) -> Scale:
    return Scale(problem(SquaredLoss(1e6, 1e6), n), n, epsilon, epsilon, 0.01, slopes, **more)


def heavy(n: int, dim: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(4.5, (n, dim))
    return X, X.sum(1) + rng.standard_t(4.5, n)


def test_gradient_bounds_hold() -> None:
    rng = np.random.default_rng(0)
    for loss in LOSSES:
        X, y = heavy(50)
        y = loss.clip_targets(y)
        bounds = _bounds(problem(loss), np.linalg.norm(X, axis=1), y, slopes=False)
        for _ in range(50):
            w = rng.standard_normal(3)
            w /= max(1.0, np.linalg.norm(w))
            gradients = np.abs(loss.derivative(X @ w, y)) * np.linalg.norm(X, axis=1)
            assert np.all(gradients <= bounds * (1 + 1e-12))
        assert bounds.max() <= scale().edges[0] or loss is not LOSSES[0]


def test_bounds_of_slopes_do_not_depend_on_features() -> None:
    X, y = heavy(50)
    one, other = (record_bounds(problem(SquaredLoss(1e6)), Z, y, slopes=True) for Z in (X, 0 * X))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one, np.abs(y))


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_neighbors_move_scores_and_sums_by_at_most_one(n: int) -> None:
    """T37: the largest changes are attained, so half of either sensitivity would not do."""
    rng, found = np.random.default_rng(n), scale(n)
    scores, sums = 0.0, 0.0
    for _ in range(400):
        bounds = found.edges[0] * 10.0 ** rng.uniform(-12, 0, n)
        other = bounds.copy()
        other[0] = rng.choice([0.0, found.edges[0], bounds[0] * 1.5, *found.edges[:3], *found.edges[-3:]])
        changes = found.scores(found.below(bounds)) - found.scores(found.below(other))
        scores = max(scores, float(np.abs(changes).max()))
        level = float(rng.choice(found.edges))
        sums = max(sums, abs(found.squares(bounds, level) - found.squares(other, level)))
    assert (0.5 if n == 1 else 1.0) == scores <= found.choice.sensitivity.value == 1.0
    assert 0.99 <= sums <= found.noise.sensitivity.value == 1.0


@pytest.mark.parametrize("slopes", [False, True])
def test_the_cost(slopes: bool) -> None:
    found = scale(slopes=slopes, epsilon=0.7)
    assert 0.7 * (1 - 1e-6) < total_epsilon(found.releases, 0.0) <= 0.7
    assert len(found.releases) == 2 - slopes


def test_the_method_never_reads_the_records_of_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """T37: with the scale's release fixed, its records change nothing; the others do."""
    n = 400
    plan: Any = heavy_plans(problem(SquaredLoss(1e6), n), PrivacyParams(1e5), 2.0, None, "heavy_tailed")[0]
    read: list[np.ndarray] = []

    def deaf(self: Scale, X: np.ndarray, *_: Any) -> tuple[float, float]:
        read.append(X)
        return float(self.edges[50]), float(self.edges[52])

    monkeypatch.setattr(Scale, "run", deaf)
    X, y = heavy(n)
    runs = {}
    for name, changed in (("none", ()), ("scale", (True,)), ("others", (False,))):
        turned = np.isin(np.arange(n) % APART == APART - 1, changed)
        signs = np.where(turned, -1.0, 1.0)
        runs[name] = plan.run(X * signs[:, None], y * signs + turned, SeededSource(0)).point
    np.testing.assert_array_equal(runs["none"], runs["scale"])
    assert (runs["none"] != runs["others"]).any()
    assert len(read[0]) == plan.scale.n == n // APART
    assert plan.then.problem.n == n - n // APART


LAWS = {"pareto 2.2": 2.2, "pareto 4.2": 4.2, "constant": math.inf}


def lengths(law: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (1 - rng.random(n)) ** (-1 / LAWS[law])


@pytest.mark.parametrize("constants", ["calibrated", "paper"])
@pytest.mark.parametrize("law", LAWS)
def test_what_the_theorem_says_of_the_released_numbers(law: str, constants: str) -> None:
    """T38: in every run, as the failure probability is 0.001: tails at both edges, V, and the worst level."""
    tail, n = LAWS[law], 20_000
    wanted = replace(problem(None, n, 10), loss=AbsoluteLoss(1e6))
    found = Scale(wanted, n, 1.0, 1.0, 0.001, constants=constants)
    X = np.zeros((n, 10))
    for seed in range(8):
        X[:, 0] = lengths(law, n, seed)
        C, V = found.run(X, np.zeros(n), SeededSource(seed), Ledger(PrivacyParams(1.0), found.releases))
        assert C >= 1
        assert C**-tail <= found.tail[1]
        q = 1.0 if C / math.sqrt(2) < 1 else (C / math.sqrt(2)) ** -tail
        assert q >= found.tail[0]
        second = 1.0 if math.isinf(tail) else (tail - 2 * C ** (2 - tail)) / (tail - 2)
        second = min(second, C * C)
        assert math.sqrt(second) <= V <= 3 * math.sqrt(second)
        if not math.isinf(tail):
            for k in (0.5 * tail, tail - 0.1):
                if k >= 2:
                    G = (tail / (tail - k)) ** (1 / k)
                    worst = found.worst(Moments(k, G))
                    assert worst[0] * (1 + 1e-9) >= C
                    assert worst[1] * (1 + 1e-9) >= V
                    assert C ** (1 - tail) / (tail - 1) <= G * found.tail[1] ** (1 - 1 / k)


@pytest.mark.parametrize(("law", "k"), [("pareto 2.2", 2.0), ("pareto 4.2", 4.0), ("constant", 50.0)])
@pytest.mark.parametrize(("dim", "epsilon"), [(10, 1.0), (50, 0.25)])
def test_noise_and_bias_are_the_rate_at_every_size(law: str, k: float, dim: int, epsilon: float) -> None:
    """T38: flat over 64-fold n, within constants of ``G_k (d/(m epsilon))^(1 - 1/k)``, knowing neither k nor G_k."""
    tail, ratios = LAWS[law], []
    G = 1.0 if math.isinf(tail) else (tail / (tail - k)) ** (1 / k)
    for n in (20_000, 1_280_000):
        wanted = LinearModelProblem(AbsoluteLoss(1e6), DataDomain.l2_ball(dim, 1e4), n, 1.0)
        found = Scale(wanted, n // APART, epsilon, epsilon, 0.01)
        assert found.enough
        scores = found.scores(found.below(lengths(law, found.n, n)))
        index = int(scores.argmax())  # what the noise chooses with the largest chance
        C, m = float(found.edges[index]), 3 * n // 8
        unit = G * (dim / (m * epsilon)) ** (1 - 1 / k)
        bias = 0.0 if math.isinf(tail) else C ** (1 - tail) / (tail - 1)
        ratios.append(((C * dim / (m * epsilon)) / unit, bias / unit))
    for one, other in zip(*ratios, strict=True):
        assert max(one, other) <= 3
        assert 0.4 <= (other + 1e-9) / (one + 1e-9) <= 2.5 or math.isinf(tail)


def test_few_records_are_refused_from_public_facts() -> None:
    privacy = PrivacyParams(1.0)
    for n in (3, 400):
        with pytest.raises(InvalidParameterError, match="must be at least 6") as caught:
            heavy_plans(problem(n=n), privacy, None, None, "heavy_tailed")
        assert caught.value.name == "n"
        assert not heavy_plans(problem(n=n), privacy, 2.0, None, "heavy_tailed")[0].predicted_error.proved
    assert heavy_plans(problem(n=700), privacy, None, None, "heavy_tailed")[0].predicted_error.proved


def test_no_content_raises_warns_or_shows() -> None:
    plan: Any = heavy_plans(problem(SquaredLoss(1e6), 60), PrivacyParams(1.0), 2.0, None, "heavy_tailed")[0]
    facts = set()
    for fill in (0.3, 0.0, np.nan, np.inf, 1e300, 1e-300):
        result: Any = plan.run(np.full((60, 3), fill), np.full(60, fill), SeededSource(0))
        assert np.isfinite(result.point).all()
        assert result.plan.released[0] in plan.scale.edges
        facts.add(str(sorted(result.certificate.public["private_level"])))
    assert len(facts) == 1


def test_the_bound_holds_for_every_order_and_the_certificate_says_so() -> None:
    plan: Any = heavy_plans(problem(SquaredLoss(1e6)), PrivacyParams(1.0), None, None, "heavy_tailed")[0]
    bounds = [plan.error(plan.scale.worst(Moments(k, 10.0)), Moments(k, 10.0)) for k in (2.0, 3.0, 4.0, 50.0)]
    assert bounds == sorted(bounds, reverse=True)
    assert plan.predicted_error.proved
    result = plan.run(*heavy(40_000), SystemSource())
    stated = result.certificate.public
    assert stated["private_level"]["bound_for_cut"] <= bounds[0]
    assert "excess_loss_estimate" in stated
    assert verify(result.certificate).passed


@pytest.mark.parametrize("level", [None, 2.0])
def test_repetitions_hold_their_probability_and_say_their_price(level: float | None) -> None:
    """8.5: never fewer parts than promised; one part, too, needs Markov's inequality."""
    wanted = problem(n=50_000)

    def at(wanted: LinearModelProblem) -> Setting:
        return Setting.of(wanted, 1.0, Moments(2.0, 2.0), SURROGATES["truncated"], None, level)

    once = calibrated(at(wanted))
    assert once.price == 1.0
    for failure in (0.4, 0.01):
        found = calibrated(at(wanted), failure)
        J = found.phases[0].repetitions
        assert found.price == found.bound / once.bound
        T = len(found.phases)
        assert J == 1 if failure / T >= 1 - TUNING.success else J >= 3
        assert found.bound >= math.sqrt(10) * once.bound * 0.99
    with pytest.raises(InvalidParameterError, match="so many parts") as caught:
        calibrated(at(problem(n=3)), 1e-3)
    assert caught.value.name == "n"


def test_cut_residuals_bias_on_the_same_records() -> None:
    """Hölder for the empirical law: at most t + s records exceed the level, whichever records those are."""
    n = 20_000
    wanted = LinearModelProblem(SquaredLoss(1e6, 1e6), DataDomain.box(2, 0.5).with_intercept(0.5), n, 1.0)
    plan: Any = heavy_plans(wanted, PrivacyParams(1.0), None, None, "clipped_residuals")[0]
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 2))
    for tail in (2.1, 4.0):
        y = X[:, 0] + rng.standard_t(tail, n)
        C = plan.run(X, y, SeededSource(1)).plan.released[0]
        mass = plan.scale.tail[1]
        assert (np.abs(y) > C).mean() <= mass
        for k in (2.0, 3.0):
            assert np.maximum(np.abs(y) - C, 0).mean() <= (np.abs(y) ** k).mean() ** (1 / k) * mass ** (1 - 1 / k)
    assert clipped_residuals.PREDICTIONS == 0.5
