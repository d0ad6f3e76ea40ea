"""Evidence for heavy tails in quick mode: it passes, repeats, fails when something is broken; its parts are right."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

from dpconvex.geometry import L2Norm
from dpconvex.problems import Records
from dpconvex.problems.linear.truncated import TruncatedRisk, Truncation
from dpconvex_experiments import EXPERIMENTS, Setting
from dpconvex_experiments.checks import Anchors
from dpconvex_experiments.heavy_tails import audit, lower_bound, methods, rates
from dpconvex_experiments.heavy_tails.rates import DIAMETER, LinearLoss, rate, wide_problem
from dpconvex_experiments.reference.lower_bound import PackingLaw
from dpconvex_experiments.shared import streams, unit_vectors

OURS = [name for name in EXPERIMENTS if name.startswith("heavy-tails/")]
QUICK = Setting(quick=True)


LONGEST = ("/mechanisms", "/methods", "/parameter-free", "/rates", "lower-bound")


@pytest.mark.gate
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.endswith(LONGEST)) for name in OURS]
)
def test_quick_runs_pass_and_are_well_formed(name: str) -> None:
    from matplotlib.figure import Figure

    outcome = EXPERIMENTS[name].measure(QUICK)
    assert outcome.passed, outcome.rows
    assert outcome.rows
    assert len(set(outcome.columns)) == len(outcome.columns)
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert sum(map(len, outcome.columns)) + 2 * len(outcome.columns) <= 80  # headers do not wrap
    outcome.draw(figure := Figure())
    assert figure.axes
    assert all(axes.has_data() for axes in figure.axes)


def test_a_seed_gives_the_same_numbers_and_another_gives_others() -> None:
    first, again, other = (lower_bound.packing_excess(2.0, 500, 4.0, 2, seed) for seed in (1, 1, 2))
    assert first == again != other


# Mutants


def with_noise(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Multiply the noise that privacy needs."""
    transform = L2Norm.transform
    monkeypatch.setattr(L2Norm, "transform", lambda norm, u: [factor * z for z in transform(norm, u)])


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.1, 3.0, 16.0])
@pytest.mark.parametrize("name", ["rates", "lower-bound", "stages"])
def test_another_noise_fails(name: str, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with_noise(monkeypatch, factor)
    assert not EXPERIMENTS[f"heavy-tails/{name}"].measure(QUICK).passed


@pytest.mark.thin
@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (0.1, False)])
@pytest.mark.gate
def test_another_noise_fails_single_points(factor: float, passed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick sibling: one point of each experiment, with the runs of its quick form, against its anchor."""
    with_noise(monkeypatch, factor)
    point = rates.Point(2.0, 8_000, 12, 0.25)
    _, _, strong = rates.worst_excess(point, 3, 0)
    ratio = {"of rate at r = 0.9, k = 2, n = 8000, d = 12, epsilon = 0.25": strong.times(1 / point.unit)}
    packing = lower_bound.packing_excess(4.0, 4_000, 4.0, 12, 0).times(1 / rate(4.0, 10, 4_000, 1.0))
    other = {"of rate, k = 4, n = 4000, 4 d/(n epsilon)": packing}
    near = Anchors("heavy-tails/rates", True).near(ratio) + Anchors("heavy-tails/lower-bound", True).near(other)
    assert [check.passed for check in near] == [passed] * 2, near


@pytest.mark.slow
def test_exchanged_methods_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanged = {name: methods.METHODS[name] for name in methods.PURE}
    exchanged["localized"], exchanged["descent"] = exchanged["descent"], exchanged["localized"]
    monkeypatch.setattr(methods, "METHODS", exchanged)
    monkeypatch.setattr(methods, "TUNED", {})
    assert not methods.comparison.measure(QUICK).passed


@pytest.mark.slow
def test_half_the_noise_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    transform = L2Norm.transform
    monkeypatch.setattr(L2Norm, "transform", lambda norm, u: [z / 2 for z in transform(norm, u)])
    assert not audit.audit.measure(QUICK).passed


@pytest.mark.gate
def test_one_stage_in_the_place_of_two_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = rates.planned
    monkeypatch.setattr(rates, "planned", lambda k, m, _: planned(k, m, 1))
    assert not rates.stages.measure(QUICK).passed


def test_the_printed_double_stage_is_that_of_the_paper() -> None:
    """Section 2.7 of the specification: beta = 12 C/(epsilon lambda m) twice, radius 600 C d/(lambda m epsilon)."""
    plan = rates.planned(2.0, 1000, 2)
    (phase,) = plan.phases
    unit = phase.truncation.level / (phase.l2 * phase.m)
    assert [m.scale for m in plan.noises[0]] == pytest.approx([12 * unit / rates.EPSILON] * 2)
    assert phase.stages[0].confine == pytest.approx(600 * unit * rates.DIM / rates.EPSILON)
    assert phase.truncation.level == pytest.approx((1000 * rates.EPSILON / rates.DIM) ** 0.5)
    assert [stage.radius for stage in phase.stages] == pytest.approx([unit, unit / 6])


def test_the_attacked_plan_makes_one_release_and_its_neighbors_are_the_worst() -> None:
    for loss in audit.LOSSES:
        plan = audit.one_release(loss, 1.0)
        assert len(plan.releases) == 1
        low, high = audit.minimizers(plan)
        (phase,) = plan.phases
        assert high - low == pytest.approx(2 * phase.truncation.level / (phase.l2 * phase.m), rel=1e-6)


@pytest.mark.slow
def test_a_bound_thirty_times_that_of_descent_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    worse = {**lower_bound.BOUNDS, "localized": lambda *a: 30 * lower_bound.BOUNDS["descent"](*a)}
    monkeypatch.setattr(lower_bound, "BOUNDS", worse)
    assert not lower_bound.constants.measure(QUICK).passed


# The linear loss and the designs


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=2), st.floats(0.01, 10.0))
def test_truncated_linear_losses_have_clipped_features_as_gradients(point: list[float], level: float) -> None:
    X = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    problem = wide_problem(LinearLoss(), 2, 3, rates.Moments(2.0, 10.0))
    risk = TruncatedRisk(
        LinearLoss(), Records.clipped(X, problem.domain), np.zeros(3), 1.0, Truncation(level, 1.0, 1.0)
    )
    lengths = np.linalg.norm(X, axis=1)
    clipped = X * np.minimum(1.0, level / np.where(lengths == 0, 1.0, lengths))[:, None]
    assert risk.mean_slope(np.array(point)) == pytest.approx(clipped.mean(axis=0), rel=1e-12)


@pytest.mark.parametrize("k", rates.ORDERS)
def test_pareto_noise_has_the_declared_moment(k: float) -> None:
    """By its quantile function: lengths are ``s u^(-1/a)``, so that ``E L^k = s^k a/(a - k) = 1``; median checked."""
    V = rates.pareto_noise(np.random.default_rng(0), k, 20_000, 3)
    a = k + 0.2
    scale = ((a - k) / a) ** (1 / k)
    lengths = np.linalg.norm(V, axis=1)
    assert lengths.min() >= scale * (1 - 1e-12)
    assert np.mean(lengths <= scale * 2 ** (1 / a)) == pytest.approx(0.5, abs=0.02)  # 5.6 standard deviations
    assert np.linalg.norm(V[lengths < 5].mean(axis=0)) < 0.05


def test_sweeps_meet_in_their_base() -> None:
    for quick, n in ((True, 8_000), (False, 32_000)):
        base = rates.Point(2.0, n, 50, 0.25)
        assert all(base in sweep for sweep in rates.sweeps(base, quick=quick).values())


def test_streams_are_their_own() -> None:
    pairs = [streams(0, 1), streams(0, 2), streams(1, 1)]
    draws = [x for rng, source in pairs for x in (rng.random(), source.generator().random())]
    assert len(set(draws)) == len(draws)
    assert streams(0, 1)[0].random() == draws[0]


@pytest.mark.parametrize("design", methods.DESIGNS, ids=lambda design: design.name)
def test_no_fresh_risk_is_far_below_that_of_the_truth(design: methods.Design) -> None:
    rng = np.random.default_rng(0)
    risk = methods._Fresh(design, rng)
    truth = np.full(methods.DIM, methods.SIGNAL / math.sqrt(methods.DIM))
    assert risk(truth) == 0
    assert all(risk(truth + 0.1 * u) > 0 for u in unit_vectors(rng, 20, methods.DIM))


# Bisection


@pytest.mark.parametrize("threshold", [1, 2, 7, 1000, 10**12])
def test_bisection_finds_thresholds_to_a_percent(threshold: int) -> None:
    found = lower_bound.smallest(lambda n: n >= threshold)
    assert found is not None
    assert threshold <= max(found, 1) <= 1.01 * threshold + 1
    assert lower_bound.smallest(lambda n: n > lower_bound.LARGEST) is None


# The lower bound


def test_packing_instances_have_the_declared_mean_and_moments() -> None:
    direction = np.array([0.6, 0.8])
    for k, p in itertools.product((2.0, 4.0), (0.01, 0.3, 1.0)):
        instance = PackingLaw(k, p, direction)
        length = p ** (-1 / k)
        assert p * length == pytest.approx(instance.mean_norm)
        for q in (k, 2.0, 1.0):
            assert (p * length**q) ** (1 / q) == pytest.approx(instance.moment(q))
        X = instance.draw(20_000, np.random.default_rng(0))
        assert np.mean(X.any(axis=1)) == pytest.approx(p, abs=5.5 * math.sqrt(p * (1 - p) / 20_000) + 1e-12)
        assert instance.excess(-direction) == pytest.approx(0)
        assert instance.excess(np.zeros(2)) == pytest.approx(instance.mean_norm)


def test_lemma_g1_and_its_false_intermediate_display() -> None:
    """T28: ``|estimate - mean|^2 <= (8 m/D) excess`` for all points of the ball; with ``D/(4m)`` it would be false."""
    rng = np.random.default_rng(0)
    points = unit_vectors(rng, 500, 3) * rng.random((500, 1))
    for w, direction in zip(points, unit_vectors(rng, 500, 3), strict=True):
        instance = PackingLaw(2.0, 0.2, direction)
        m = instance.mean_norm
        away = lower_bound.estimated_mean(w, m) - m * direction
        assert away @ away <= 8 * m / DIAMETER * instance.excess(w) * (1 + 1e-12)
    instance, w = PackingLaw(2.0, 1.0, np.eye(2)[0]), np.array([0.1, 0.0])
    away = lower_bound.estimated_mean(w, 1.0) - np.eye(2)[0]
    assert instance.excess(w) == pytest.approx(1.1)
    assert DIAMETER / 4 * (away @ away) == pytest.approx(2.0)  # above the excess


def test_e5_a_packing_needs_equal_lengths_and_many_directions() -> None:
    """Erratum E5: Lemma G.1 is false for means of unequal length; the printed p is below 0 for two directions."""
    w, m, short = -np.eye(2)[0], 1.0, 0.5 * np.eye(2)[0]  # w is the minimizer under either mean
    away = lower_bound.estimated_mean(w, m) - short
    assert away @ away > 8 * m / DIAMETER * (short @ w + 0.5) + 0.2  # the excess of w under the short mean is 0
    zeta, n, epsilon = 0.25, 100, 1.0
    assert math.log((2 - 1) / (4 * math.e * zeta)) / (n * epsilon) < 0
    for dim in (1, 2, 10):  # here p runs over the grid of counts, and directions are unit vectors
        assert lower_bound.hardest(2.0, n, dim, epsilon)[0] > 0
    assert np.allclose(np.linalg.norm(unit_vectors(np.random.default_rng(0), 50, 3), axis=1), 1.0)


def test_a_small_excess_identifies_the_direction() -> None:
    """Lemma G.3: below ``D m/128`` the nearest of directions at least 1/2 apart is the right one."""
    rng = np.random.default_rng(1)
    directions = np.vstack([np.eye(4), -np.eye(4)])
    tried = 0
    for w in unit_vectors(rng, 2_000, 4) * 0.05 - np.eye(4)[0] * 0.97:
        instance = PackingLaw(2.0, 0.1, np.eye(4)[0])
        if np.linalg.norm(w) <= 1 and instance.excess(w) < DIAMETER * instance.mean_norm / 128:
            estimate = lower_bound.estimated_mean(w, instance.mean_norm)
            assert np.argmin(np.linalg.norm(estimate - instance.mean_norm * directions, axis=1)) == 0
            tried += 1
    assert tried > 50


@pytest.mark.parametrize("n", [3, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_private_bound_is_far_below_the_loss_of_the_zero_vector(n: int, epsilon: float) -> None:
    """The zero vector is private and loses m <= D/2 on every instance; so no bound may exceed it."""
    for k, d in itertools.product((2.0, 4.0), (1, 10, 500)):
        assert 0 < lower_bound.hardest(k, n, d, epsilon)[0] < DIAMETER / 2 / 64


def test_the_private_bound_has_the_rate() -> None:
    for k in (2.0, 4.0):
        few, many = (lower_bound.hardest(k, n, 10, 1.0)[0] for n in (10**4, 10**6))
        assert few / many == pytest.approx(100 ** (1 - 1 / k))


@pytest.mark.parametrize("n", [1, 20, 400])
def test_the_sampling_bound_is_that_of_the_best_test(n: int) -> None:
    """No rule that reads the number of +e_1 loses less on average over both signs: the likelihood ratio's, in full."""
    bound, rho = lower_bound.sampling_lower_bound(n)
    counts = np.arange(n + 1)
    plus, minus = binom.pmf(counts, n, (1 + rho) / 2), binom.pmf(counts, n, (1 - rho) / 2)
    decide = np.where(2 * counts > n, -1.0, np.where(2 * counts < n, 1.0, 0.0))  # w_1 of the best rule
    loss = rho * (plus @ (1 + decide) + minus @ (1 - decide)) / 2
    assert loss == pytest.approx(bound)


def test_the_divergence_of_the_two_laws() -> None:
    """T30: ``KL = rho log((1 + rho)/(1 - rho)) <= 4 rho^2`` up to 1/2, what the paper bounds the total variation by."""
    for rho in np.linspace(0.01, 0.5, 50):
        assert rho * math.log((1 + rho) / (1 - rho)) <= 4 * rho**2
