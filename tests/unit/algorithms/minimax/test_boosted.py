"""Algorithm 4 and the one-pass Frank-Wolfe that it cites: printed constants, explicit bounds, moves of estimates."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from dpconvex.algorithms.minimax import boosted, frank_wolfe
from dpconvex.algorithms.minimax.frank_wolfe import rounded_spread, walk
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import SquaredLoss
from dpconvex.privacy import PrivacyParams, verify
from dpconvex.privacy.ledger import fits
from dpconvex.problems import RankOneGame, l1_ball_loss, single_group
from dpconvex.problems.minimax.base import SaddleSection, SimplexPoint
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex_experiments.reference.objectives import QuadraticGame

PRIVACY = PrivacyParams(1.0, 1e-6)


def quadratic(n: int) -> SaddleSection:
    return SaddleSection(QuadraticGame(n, 4, 2), 0, n, "x", SimplexPoint.uniform(2))


def regression(n: int):
    return l1_ball_loss(SquaredLoss(1.0, prediction_bound=1.0), n, 3, 1.0, third_derivative=0.0)


def scores_of(plan, records, draws) -> list[np.ndarray]:
    found: list[np.ndarray] = []

    def draw(self, scores, count=1):
        found.append(scores)
        return draws[len(found) - 1 : len(found)]

    with mock.patch("dpconvex.mechanisms.selection.VertexSession.draw", draw):
        plan.run(records, SeededSource(0))
    return found


@pytest.mark.parametrize("constants", ["calibrated", "paper"])
@pytest.mark.parametrize("kind", ["quadratic", "regression"])
@pytest.mark.dear("paper", "quadratic-calibrated")
def test_a_record_moves_the_leaves_below_its_node_by_the_charged_range(kind: str, constants: str) -> None:
    """Scores of neighbors, given the same draws; the largest share of the charge that the search finds is stated."""
    n, worst = 400, 0.0
    problem = quadratic(n) if kind == "quadratic" else regression(n)
    plan = frank_wolfe.plan_variance_reduced(problem, PRIVACY, phases=3, constants=constants)
    ends, nodes = np.cumsum(plan.sizes), [node for node, _ in walk(3)]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        # Draws that stay at one vertex of the left subtree, and then at another, move the point furthest.
        draws = rng.integers(0, problem.dx, 64) if seed % 2 else np.repeat(rng.integers(0, problem.dx, 32), 2)
        changed = int(rng.integers(ends[-1]))
        hit = int(np.searchsorted(ends, changed, side="right"))
        table = rng.choice([-1.0, 0.0, 1.0], (n, 12 if kind == "quadratic" else 4))
        other = table.copy()
        other[changed] = rng.choice([-1.0, 0.0, 1.0], table.shape[1])
        pair = [t if kind == "quadratic" else single_group(t[:, :3], t[:, 3]) for t in (table, other)]
        moved = [np.ptp(a - b) for a, b in zip(*(scores_of(plan, t, draws) for t in pair), strict=True)]
        scale = plan.score_scales[nodes[hit].phase - 1]
        most = scale * rounded_spread(problem) * nodes[hit].kappa(problem) / plan.sizes[hit]
        below = range(hit, hit + nodes[hit].leaves)
        assert all(move <= (most if k in below else 1e-9 * scale) for k, move in enumerate(moved))
        if nodes[hit].depth:
            worst = max(worst, max(moved) / most)
    assert 0.2 < worst <= 1


def test_the_way_between_points_is_bounded_by_the_steps_of_the_left_subtree() -> None:
    last = 0.0
    for node, _ in walk(6):
        assert 0 <= node.moved <= 2
        if node.phase == 6 and node.depth == 6:
            assert node.moved <= 4 / (2**6 - 2)
        last = max(last, node.moved)
    assert last == 2.0


def test_the_printed_constants_are_those_of_theorem_3_22() -> None:
    n = 10**6
    problem = regression(n)
    plan = frank_wolfe.plan_variance_reduced(problem, PRIVACY, constants="paper")
    b, L0 = n / math.log(n) ** 2, problem.spread[0] / 4
    goal = problem.smoothness * b / (L0 * math.log(1e6) * math.log(problem.dx))
    assert plan.phases == round(2 / 3 * math.log2(goal))
    assert plan.sizes[0] == math.ceil(b)
    for t, scale in enumerate(plan.score_scales, 1):
        assert scale == pytest.approx(b / (2 * L0 * 2 ** (t / 2) * math.log(n * 1e6)))
    assert fits(plan.releases, PRIVACY)
    with pytest.raises(InvalidParameterError, match="delta"):
        frank_wolfe.plan_variance_reduced(problem, PrivacyParams(1.0), constants="paper")


def test_e10_the_printed_noise_needs_gradients_that_move_with_the_point() -> None:
    """A leaf of the last phase, from clipping alone: its own draw breaks (epsilon, delta)."""
    n, t = 10**8, 12
    b, delta = n / math.log(n) ** 2, 1e-6
    scale = b / (2 * 2 ** (t / 2) * math.log(n / delta))  # L0 = 1, epsilon = 1
    eta = scale * 8 / (b / 2**t)  # a difference of two gradients of two records, coordinates in [-1, 1]
    assert eta == pytest.approx(4 * 2 ** (t / 2) / math.log(n / delta))
    p, q = 1 / (1 + math.exp(-eta / 2)), 1 / (1 + math.exp(eta / 2))  # of one of two vertices
    assert p - math.e * q > 1000 * delta
    # What is planned there has more noise; where clipping bounds the move it has the printed noise.
    printed = frank_wolfe.plan_variance_reduced(quadratic(10**6), PRIVACY, constants="paper")
    assert printed.sampling.square_sum < 0.05
    rough = mock.PropertyMock(return_value=(math.inf, math.inf))
    with mock.patch.object(SaddleSection, "drift", rough):
        capped = frank_wolfe.plan_variance_reduced(quadratic(10**6), PRIVACY, constants="paper", phases=8)
        assert fits(capped.releases, PRIVACY)
    free = frank_wolfe.plan_variance_reduced(quadratic(10**6), PRIVACY, constants="paper", phases=8)
    assert capped.score_scales[-1] < 0.7 * free.score_scales[-1]


def test_printed_boosting_has_the_cited_parts() -> None:
    plan = boosted.plan(QuadraticGame(10**6, 6, 6), PRIVACY, constants="paper")
    kinds = {name: piece for piece, name, _ in plan.pieces}
    assert [piece.algorithm for piece in kinds.values()] == [
        "bias_reduced_mirror_descent",
        "variance_reduced_frank_wolfe",
        "variance_reduced_frank_wolfe",
    ]
    assert {piece.constants for piece in kinds.values()} == {"paper"}
    assert not plan.predicted_error.proved
    assert fits(plan.releases, PRIVACY)


def test_the_explicit_bound_of_theorem_3_20() -> None:
    """Non-trivial for many records, with probability 1 - beta; an independent computation of its four terms."""
    problem, beta = RankOneGame(2 * 10**6, 8, 8), 0.05
    plan = boosted.plan(problem, PRIVACY, tuning="bound", failure=beta)
    count, replies, m = plan.candidates, plan.answers, problem.n // 4
    assert (count, replies) == (7, 11)
    candidate, x, y = (piece.predicted_error.bound for piece, _, _ in plan.pieces)
    hoeffding = 2 * math.sqrt(math.log(8 * count * (2 * replies + 1) / beta) / (2 * m))
    selected = math.log(4 * count / beta) * 8 / m
    right = (
        (4 / beta) ** (1 / count) * candidate + (8 * count / beta) ** (1 / replies) * (x + y) + 4 * hoeffding + selected
    )
    assert plan.predicted_error.bound == pytest.approx(right, rel=1e-4)
    assert plan.predicted_error.proved
    assert plan.predicted_error.bound < problem.trivial_gap
    assert plan.expectation < plan.predicted_error.bound


@pytest.mark.gate
def test_boosted_results_verify() -> None:
    rng = np.random.default_rng(0)
    problem = RankOneGame(6000, 3, 3)
    records = rng.choice([-1, 1], (6000, 6)).astype(np.int8)
    for changes in ({}, {"candidates": 2, "answers": 3, "responder": boosted._PRINTED_ANSWER}):
        result = replace(boosted.plan(problem, PRIVACY), **changes).run(records, SystemSource())
        assert verify(result.certificate.to_json()).passed
        assert result.x.sum() == pytest.approx(1)
