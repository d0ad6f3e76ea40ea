"""Exact audit of everything that releases drawn vertices: the law of all draws, on two neighbors, against the claim.

Tiny instances with gradients that are an arbitrary +-1 table of (record, query point), so that adaptivity is real. The
law of the transcript is enumerated, not sampled: nothing here is random but the tables, whose seeds are fixed.
"""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from dpconvex.algorithms import Plan
from dpconvex.algorithms.minimax import anytime, bias_reduced, boosted, frank_wolfe
from dpconvex.algorithms.queries import noisy_answers, synthetic
from dpconvex.mechanisms import VertexSession
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import PolytopeSaddle
from dpconvex.problems.queries import DenseQueries
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit import enumerated_pair

PRIVACY = PrivacyParams(1.0, 0.05)
ORDERS = (1.05, 1.5, 2.0, 4.0, 10.0, 40.0)


@pytest.fixture(autouse=True)
def cheap_runs():
    """Thousands of runs: leave out the pricing of each, which other tests check and planted mistakes would not pass."""
    with (
        mock.patch.object(Plan, "certificate", return_value=None),
        mock.patch("dpconvex.privacy.ledger.fits", return_value=True),
    ):
        yield


def exact_cost(plan, first, second) -> np.ndarray:
    """Largest Renyi divergence over order, least delta at epsilon 1, and largest loss, in both directions."""
    laws = enumerated_pair(plan.run, (first,), (second,), most=1100)
    assert np.exp(laws.first).sum() == pytest.approx(1.0)
    return np.array([max(laws.renyi(order) / order for order in ORDERS), laws.delta(1.0), laws.largest_loss])


def table_problem(n: int, seed: int) -> PolytopeSaddle:
    """Gradients are signs of a hash of record, point and coordinate, so they change with every query point."""
    key = np.random.default_rng(seed).uniform(50, 100, 4)

    def gradients(u, v, records):
        phase = key[0] * records[:, :1] + key[1] * u[0] + key[2] * v[0] + key[3] * np.arange(2)
        return records[:, 1:] * np.sign(np.sin(phase)), np.zeros((len(records), 1))

    def values(u, v, records):
        return np.sin(key[0] * records[:, 0] + u[0])

    return PolytopeSaddle(
        n, gradients, values, np.eye(2), np.zeros((1, 1)), (1.0, 1.0), (-1.0, 1.0), 1.0, 1.0, title="table"
    )


def neighbors(n: int, seed: int, changed: int) -> tuple[np.ndarray, np.ndarray]:
    """The changed record has all its gradients flipped, or is another one."""
    rng = np.random.default_rng(seed)
    first = np.column_stack([rng.uniform(size=n), np.ones(n)])
    second = first.copy()
    second[changed] = [first[changed, 0], -1.0] if seed % 2 else [rng.uniform(), 1.0]
    return first, second


PLANNERS = {
    "frank_wolfe": lambda problem, privacy: frank_wolfe.plan(problem, privacy, steps=5),
    "variance_reduced": lambda problem, privacy: frank_wolfe.plan_variance_reduced(problem, privacy, phases=2),
    "anytime": lambda problem, privacy: anytime.plan(
        problem, privacy, iterations=4, samples=2, period=2, output_samples=2, step=100.0
    ),
    "anytime_paper": lambda problem, privacy: anytime.plan(
        problem, privacy, constants="paper", iterations=3, samples=2, period=1
    ),
    "bias_reduced": lambda problem, privacy: bias_reduced.plan(
        problem, privacy, truncation=1, budget=4.0, step=100.0, antithetic=False, coins=3
    ),
    "antithetic": lambda problem, privacy: bias_reduced.plan(
        problem, privacy, truncation=1, budget=4.0, step=100.0, antithetic=True, coins=3
    ),
}


def scaled(plan, factor: float):
    """The planted mistake: larger steps or scores than the accountant was told."""
    for field in ("score_scale", "score_scales", "tau_y", "step", "steps"):
        value = getattr(plan, field, None)
        if isinstance(value, tuple):
            return replace(plan, **{field: tuple(factor * v for v in value)})
        if isinstance(value, float):
            return replace(plan, **{field: factor * value})
    raise AssertionError


def few_draws(plan):
    """Plans of two vertices have ``2^limit`` transcripts: keep to a thousand."""
    assert plan.sampling.limit <= 10
    return plan


@pytest.mark.parametrize("seeds", [(1,), pytest.param((1, 2), marks=pytest.mark.gate)], ids=len)
@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.thin
def test_the_law_of_all_draws_costs_no_more_than_is_claimed(name: str, seeds: tuple[int, ...]) -> None:
    # Found over these tables: a largest D_alpha/(alpha rho) of 0.97 to 1.00, for Algorithm 3 of 0.6.
    n, worst = 12, np.zeros(3)
    for seed in seeds:
        plan = few_draws(PLANNERS[name](table_problem(n, seed), PRIVACY))
        for changed in (0, 3):
            worst = np.maximum(worst, exact_cost(plan, *neighbors(n, seed, changed)))
    event = plan.sampling.event
    assert worst[0] <= event.rho
    assert worst[1] <= PRIVACY.delta
    assert worst[2] <= float(event.range_sum)
    assert worst[0] > 0.4 * event.rho, "the attack is too weak to find anything"


@pytest.mark.parametrize("name", ["frank_wolfe", "variance_reduced", "anytime"])
@pytest.mark.dear("anytime", "variance_reduced")
def test_pure_promises_hold_exactly(name: str) -> None:
    privacy = PrivacyParams(1.0)
    for seed in (1, 3):
        plan = PLANNERS[name](table_problem(12, seed), privacy)
        assert exact_cost(plan, *neighbors(12, seed, 0))[2] <= 1.0


@pytest.mark.thin
@pytest.mark.parametrize(
    ("name", "factor"),
    [("frank_wolfe", 1.1), ("variance_reduced", 1.2), ("anytime", 1.2), ("bias_reduced", 1.5), ("antithetic", 1.5)],
)
@pytest.mark.dear("bias_reduced-1.5")
def test_steps_too_large_are_caught(name: str, factor: float) -> None:
    plan = PLANNERS[name](table_problem(12, 1), PRIVACY)
    costs = (
        exact_cost(scaled(PLANNERS[name](table_problem(12, s), PRIVACY), factor), *neighbors(12, s, changed))[0]
        for s in (1, 3)
        for changed in (0, 3)
    )
    assert any(cost > plan.sampling.event.rho for cost in costs)


@pytest.mark.thin
@pytest.mark.parametrize("mode", synthetic.MODES)
@pytest.mark.gate
def test_the_law_of_the_drawn_queries(mode: str) -> None:
    # One query and its negation: 2 options a draw. The largest D_alpha/(alpha rho) is above 0.9.
    queries, privacy = DenseQueries(np.array([[0.0, 1.0, 0.5]])), PrivacyParams(0.3, 0.05)
    plan = synthetic.plan(queries, 6, privacy, mode=mode, steps=6)
    plan = replace(plan, tau_y=synthetic._cap(queries, 6, privacy, 6, mode))
    worst, mutant = np.zeros(3), 0.0
    order = mock.Mock(wraps=np.random.default_rng(0))
    order.permutation = lambda records: records  # the shuffle that exposes the changed record most
    with mock.patch.object(SeededSource, "generator", return_value=order):
        for rest in ([0, 0, 0, 0, 0], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1], [2, 2, 0, 1, 2]):
            pair = np.array([0, *rest]), np.array([1, *rest])
            worst = np.maximum(worst, exact_cost(plan, *pair))
            mutant = max(mutant, exact_cost(scaled(plan, 1.1), *pair)[0])
    rho = plan.sampling.event.rho
    assert 0.9 * rho < worst[0] <= rho < mutant
    assert worst[1] <= PRIVACY.delta


def test_the_private_selection_of_boosting() -> None:
    """Candidates are fixed by hand, so that the law of the last draw alone is compared: pure epsilon on part four."""
    n = 400
    problem = table_problem(n, 0)
    plan = replace(boosted.plan(problem, PRIVACY), candidates=2, answers=1)
    rng = np.random.default_rng(0)
    first = np.column_stack([rng.uniform(size=n), np.ones(n)])
    losses = []
    for trial in range(5):
        second = first.copy()
        second[n - 1 - trial, 0] = rng.uniform()
        seen = []
        for data in (first, second):
            coins = np.random.default_rng(trial)  # the same vertices for both

            def draw(self, scores, count=1, seen=seen, coins=coins):
                seen.append(scores)
                return coins.integers(0, len(scores), count)

            with mock.patch.object(VertexSession, "draw", draw):
                plan.run(data, SeededSource(0))
        half = len(seen) // 2
        moves = seen[half - 1] - seen[-1]
        losses.append(np.ptp(moves))
        for a, b in zip(seen[: half - 1], seen[half:-1], strict=True):
            np.testing.assert_array_equal(a, b)  # the first three parts are the same
    assert 0 < max(losses) <= PRIVACY.epsilon


def test_noisy_answers_move_within_their_sensitivity() -> None:
    rng = np.random.default_rng(1)
    queries = DenseQueries(rng.choice([-1.0, 1.0], (20, 5)), -1.0, 1.0)
    plan = noisy_answers.plan(queries, 30, PRIVACY)
    records = rng.integers(0, 5, 30)
    other = records.copy()
    distances = []
    for cell in range(5):
        other[4] = cell
        distances.append(np.linalg.norm((queries.record_sums(records) - queries.record_sums(other)) / 30))
    assert 0.5 * plan.mechanism.sensitivity.value < max(distances) <= plan.mechanism.sensitivity.value
