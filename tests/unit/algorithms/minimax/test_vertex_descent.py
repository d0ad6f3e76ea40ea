"""Algorithm 1: constants, draws as charged, accuracy, and what a run may and may not do."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpconvex.algorithms.minimax import vertex_descent
from dpconvex.algorithms.minimax.base import batch_sizes, batch_slices
from dpconvex.algorithms.minimax.vertex_descent import Bound, Layout, calibrated
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LogisticLoss, SquaredLoss
from dpconvex.mechanisms import VertexSession
from dpconvex.privacy import Neighboring, PrivacyParams, verify
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems import MatrixGame, RankOneGame, WorstGroupLoss, duality_gap, l1_ball_loss, single_group
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex_experiments.reference.objectives import QuadraticGame
from dpconvex_experiments.reference.printed_constants import vertex_mirror_descent

PROMISE = PrivacyParams(1.0, 1e-6)
ROOT = math.sqrt(8 * largest_rho(1.0, 1e-6))


def spec_game(n, d, seed):
    """The game of the specification, 5.2: payoff a b^T, means 0.5 but for five of -0.9."""
    rng, mean = np.random.default_rng(seed), np.full(d, 0.5)
    mean[:5] = -0.9
    records = np.where(rng.random((n, 2 * d)) < (1 + np.r_[mean, mean]) / 2, 1, -1).astype(np.int8)
    return np.outer(mean, mean), records


def gap(M, result):
    return (result.x @ M).max() - (M @ result.y).min()


class TestBatches:
    @given(st.integers(1, 400), st.integers(0, 10**6), st.integers(1, 60))
    def test_sizes_fit_and_no_ratio_could_be_larger(self, n, seed, T) -> None:
        weights = np.random.default_rng(seed).uniform(0.1, 3.0, T)
        if len(weights) > n:
            with pytest.raises(InvalidParameterError, match="iterations"):
                batch_sizes(n, weights)
            return
        sizes = batch_sizes(n, weights)
        assert sizes.min() >= 1
        assert sizes.sum() <= n
        level = (sizes / weights).min() * (1 + 1e-9)  # a larger level needs more records than there are
        assert np.ceil(level * weights * (1 + 1e-9)).sum() > n

    def test_slices_are_disjoint_and_in_order(self) -> None:
        slices = batch_slices(np.array([3, 1, 2]))
        assert slices == [slice(0, 3), slice(3, 4), slice(4, 6)]

    @pytest.mark.parametrize("reuse", [True, False])
    @pytest.mark.parametrize("balanced", [True, False])
    @pytest.mark.parametrize("K", [1, 3])
    def test_a_run_makes_the_draws_that_the_plan_charges(self, reuse, balanced, K, monkeypatch) -> None:
        """Counts the draws after every batch in a real run; both blocks."""
        made, seen, draw = [0], [], VertexSession.draw
        problem = MatrixGame(30, 2, 3)

        def counted(self, scores, count=1):
            made[0] += count
            return draw(self, scores, count)

        def watched(records, rows, x, y):
            seen.append((rows, made[0]))
            return np.zeros(2), np.zeros(3)

        plan = vertex_descent.plan(
            problem,
            PROMISE,
            output="reuse" if reuse else "fresh",
            batches="balanced" if balanced else "equal",
            iterations=6,
            samples=K,
        )
        monkeypatch.setattr(VertexSession, "draw", counted)
        monkeypatch.setattr(MatrixGame, "gradient_sums", lambda self, *arguments: watched(*arguments))
        plan.run(np.zeros((30, 2, 3)), SeededSource(0))
        layout = plan.schedule.layout
        assert made[0] == 2 * layout.draws == plan.sampling.limit
        assert [2 * m for m in layout.draws_after] == [made[0] - before for _, before in seen]
        assert [rows.stop - rows.start for rows, _ in seen] == plan.schedule.sizes.tolist()
        assert seen[-1][0].stop <= 30
        assert plan.sampling.draws == 2 * layout.draws_after[0]


class TestConstants:
    @pytest.mark.parametrize("batches", ["equal", "balanced"])
    @pytest.mark.parametrize("output", ["reuse", "fresh"])
    @pytest.mark.parametrize("delta", [1e-6, 0.0])
    def test_the_charge_is_the_worst_record_s(self, batches, output, delta) -> None:
        """Recomputed batch by batch from steps, sizes and draws."""
        problem = WorstGroupLoss(LogisticLoss(), 500, 4, 2.0, 1.0, (1.0, 2.0, 1.0))
        plan = vertex_descent.plan(problem, PrivacyParams(1.0, delta), batches=batches, output=output)
        schedule = plan.schedule
        reaches = [t * s for t, s in zip(schedule.steps, problem.spread, strict=True)]
        squares = [
            m / size**2 * sum(r**2 for r in reaches)
            for m, size in zip(schedule.layout.draws_after, schedule.sizes, strict=True)
        ]
        sums = [m / size * sum(reaches) for m, size in zip(schedule.layout.draws_after, schedule.sizes, strict=True)]
        assert plan.sampling.square_sum == pytest.approx(max(squares), rel=1e-9)
        assert plan.sampling.square_sum >= max(squares)
        assert plan.sampling.sensitivity.value >= max(reaches) / schedule.sizes.min()
        certificate = plan.certificate(SystemSource())
        if delta:
            assert math.sqrt(max(squares)) == pytest.approx(ROOT, rel=2e-2) or schedule.steps == Bound(
                problem, output == "reuse"
            ).best_steps(schedule.layout.T)
            assert certificate.accountant == "zCDP"
        else:
            assert max(sums) <= certificate.spent_epsilon <= 1.0
        check = verify(certificate)
        assert check.passed, check.checks

    def test_the_explicit_bound_has_the_specification_s_closed_form(self) -> None:
        """Section 2.2: re-used output, equal batches: T = 0.484 s / sqrt(l), bound 10.5 l^(3/4) / sqrt(s)."""
        n, d = 10**5, 1000
        found = calibrated(RankOneGame(n, d, d), ROOT, pure=False, reuse=True, balanced=False, measured=False)
        ell, s = 2 * math.log(d), n * ROOT
        assert found.layout.K == 1
        assert abs(found.layout.T / (0.484 * s / math.sqrt(ell)) - 1) < 0.15
        assert found.bound == pytest.approx(10.5 * ell**0.75 / math.sqrt(s), rel=0.02)

    @pytest.mark.parametrize(
        ("n", "d", "bound", "T"), [(10**4, 10, 0.89, 999), (10**4, 1000, 2.0, 554), (10**5, 1000, 0.65, 6142)]
    )
    def test_the_specification_s_table_of_optimized_bounds(self, n, d, bound, T) -> None:
        """Section 5.1, quadratic regime, zCDP, L = 1: fresh outputs, equal batches."""
        problem = RankOneGame(n, d, d)
        sizes = np.unique(np.geomspace(5, 40, 40).astype(int)).tolist()
        found = [
            calibrated(problem, ROOT, pure=False, reuse=False, balanced=False, T=n // B + 1, K=1, measured=False)
            for B in sizes
        ]
        best = min(found, key=lambda schedule: schedule.bound)
        assert best.bound == pytest.approx(bound, rel=0.02)
        assert abs(best.layout.T / T - 1) < 0.25

    @pytest.mark.parametrize(
        ("n", "d", "T", "B", "cap"),
        [(10**3, 10, 125, 8, 0.0085), (10**4, 1000, 723, 13, 0.0058), (10**5, 1000, 7238, 13, 0.0018)],
    )
    def test_the_printed_constants(self, n, d, T, B, cap) -> None:
        """Section 5.1: Theorem 3.1 and Proposition 3.3 with constants 1."""
        found = vertex_mirror_descent(RankOneGame(n, d, d), 1.0, 1e-6)
        assert (found.layout.T, found.layout.K, int(found.sizes[0])) == (T, 1, B)
        assert found.steps[0] == found.steps[1] == pytest.approx(cap, abs=6e-5)

    def test_balanced_batches_allow_up_to_three_halves_of_the_step(self) -> None:
        layout = [Layout(200, 1, True, balanced, False) for balanced in (True, False)]
        ratio = layout[1].exposure(layout[1].sizes(10**6)) / layout[0].exposure(layout[0].sizes(10**6))
        assert 1.45 < ratio < 1.5

    @pytest.mark.parametrize("pure", [True, False])
    @given(st.floats(0.01, 10.0), st.integers(2, 500))
    def test_steps_respect_the_cap_and_are_nearly_the_best(self, pure, cap, T) -> None:
        problem = WorstGroupLoss(LogisticLoss(), 100, 50, 3.0, 1.0, (1.0, 1.0))
        bound, norm = Bound(problem, False, 1.0, 1.0), 1 if pure else 2
        found = bound.steps(T, cap, pure)
        spread = problem.spread
        assert np.linalg.norm(np.multiply(found, spread), norm) <= cap * (1 + 1e-9)
        for share in np.linspace(0.05, 0.95, 10):  # no other split of the cap is better by more than 5 %
            part = (share, 1 - share) if pure else (share, math.sqrt(1 - share**2))
            other = tuple(min(p * cap / s, b) for p, s, b in zip(part, spread, bound.best_steps(T), strict=True))
            assert bound.value(T, 1, found) <= bound.value(T, 1, other) * 1.05

    def test_no_bound_is_claimed_for_reused_outputs_of_games_that_are_not_bilinear(self) -> None:
        problem = QuadraticGame(10**4, 9, 9)
        plan = vertex_descent.plan(problem, PROMISE)
        assert plan.schedule.layout.reuse
        assert plan.predicted_error.vacuous
        assert 0 < plan.expectation < plan.predicted_error.bound == 3.0
        assert vertex_descent.plan(problem, PROMISE, output="fresh").schedule.bound > plan.expectation

    def test_non_affine_gradients_get_more_samples(self) -> None:
        problem = WorstGroupLoss(LogisticLoss(), 10**6, 100, 8.0, 1.0, (1.0,) * 5, third_derivative=0.1)
        assert calibrated(problem, ROOT, pure=False, reuse=False).layout.K > 1
        assert calibrated(QuadraticGame(10**4, 9, 9), ROOT, pure=False, reuse=False).layout.K == 1

    def test_a_tapered_output_costs_nothing_and_claims_no_bound(self) -> None:
        problem = RankOneGame(10**4, 100, 100)
        plans = {
            name: vertex_descent.plan(problem, PROMISE, output=name, iterations=300) for name in ("tapered", "reuse")
        }
        layout = plans["tapered"].schedule.layout
        assert vertex_descent.plan(problem, PROMISE).describe()["output"] == "tapered"
        assert layout.draws == plans["reuse"].schedule.layout.draws
        assert layout.draws_after.tolist() == plans["reuse"].schedule.layout.draws_after.tolist()
        assert plans["tapered"].predicted_error.vacuous
        assert plans["reuse"].schedule.bound < math.inf

    @given(st.integers(2, 200))
    def test_output_weights_rise_and_fall(self, T) -> None:
        weights = Layout(T, 1, True, True, False, True).output_weights
        assert weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(weights, weights[::-1])
        assert weights.min() > 0
        if T >= 3:
            assert weights[0] < weights[T // 2]
        assert Layout(T, 1, True, True).output_weights.tolist() == [1 / T] * T


class TestRuns:
    @pytest.mark.parametrize("output", ["reuse", "fresh"])
    def test_dominant_strategies_win(self, output) -> None:
        """Row 0 loses least, column 0 wins most, whatever the other does: erratum E1, y ascends."""
        A = np.full((4000, 3, 3), 0.5)
        A[:, 0, :] = -0.5
        A[:, :, 0] += 0.5
        found = vertex_descent.plan(MatrixGame(4000, 3, 3), PROMISE, output=output).run(A, SeededSource(0))
        assert found.x[0] > 0.8
        assert found.y[0] > 0.8
        assert found.x.sum() == pytest.approx(1.0)
        assert found.y.min() >= 0

    @pytest.mark.gate
    def test_the_gap_falls_as_in_the_prototype(self) -> None:
        """Specification, 5.2, n=1e4, d=100: 0.136 +- 0.03 (uniform 0.602, printed constants 0.541 +- 0.01).

        Equal weights; tapered ones are better.
        """
        M, records = spec_game(10_000, 100, 0)
        problem = RankOneGame(10_000, 100, 100)
        plans = {
            "tapered": vertex_descent.plan(problem, PROMISE),
            "equal": vertex_descent.plan(problem, PROMISE, output="reuse"),
            "paper": vertex_descent.plan(problem, PROMISE, constants="paper"),
        }
        gaps = {k: np.mean([gap(M, plan.run(records, SeededSource(s))) for s in (0, 1)]) for k, plan in plans.items()}
        assert gaps["tapered"] < 0.1
        assert gaps["equal"] < 0.25
        assert 0.45 < gaps["paper"] < 0.6

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "d", "most"), [(10_000, 1000, 0.11), (100_000, 1000, 0.03)])
    def test_the_targets(self, n, d, most) -> None:
        gaps = []
        for seed in range(3):
            M, records = spec_game(n, d, seed)
            gaps.append(gap(M, vertex_descent.plan(RankOneGame(n, d, d), PROMISE).run(records, SeededSource(seed))))
        assert np.mean(gaps) <= most

    def test_sparse_regression_over_the_l1_ball(self) -> None:
        """One simplex: excess risk 0.225 at zero (specification, 5.3)."""
        rng, n, p = np.random.default_rng(0), 20_000, 50
        X, truth = rng.choice([-1.0, 1.0], (n, p)), np.zeros(p)
        truth[:2] = 0.6, -0.3
        y = X @ truth + rng.uniform(-0.1, 0.1, n)
        problem = l1_ball_loss(SquaredLoss(1.0, 1.0), n, p, 1.0, third_derivative=0.0)
        found = vertex_descent.plan(problem, PROMISE).run(single_group(X, y), SeededSource(1))
        assert found.y.tolist() == [1.0]
        assert ((problem.point(found.x) - truth) ** 2).sum() / 2 < 0.08

    def test_the_worst_group_is_served(self) -> None:
        """Groups want opposite signs of one weight; the larger one must not win."""
        rng, n = np.random.default_rng(0), 20_000
        g = (rng.random(n) < 0.2).astype(int)
        X = rng.choice([-1.0, 1.0], (n, 6))
        y = np.where(g == 1, X[:, 1], X[:, 0])
        problem = WorstGroupLoss(LogisticLoss(), n, 6, 3.0, 1.0, (1.25, 5.0), third_derivative=0.1)
        found = vertex_descent.plan(problem, PROMISE).run((X, y, g), SeededSource(0))
        w = problem.point(found.x)
        assert min(w[0], w[1]) > 0.25
        assert found.y[1] > 0.3

    def test_gaps_are_enclosed(self) -> None:
        _, records = spec_game(3000, 20, 1)
        problem = RankOneGame(3000, 20, 20)
        u = np.full(20, 1 / 20)
        found = duality_gap(problem, records, u, u)
        assert found.upper == pytest.approx(found.lower, abs=1e-9)
        a, b = records[:, :20].astype(float), records[:, 20:].astype(float)
        mean = a.T @ b / 3000
        assert found.upper == pytest.approx((u @ mean).max() - (mean @ u).min(), abs=1e-9)
        quadratic = QuadraticGame(50, 3, 4)
        z = np.random.default_rng(0).uniform(-1, 1, (50, 14))
        x, y = np.full(3, 1 / 3), np.full(4, 1 / 4)
        wide = duality_gap(quadratic, z, x, y, steps=3, tolerance=0.0)
        tight = duality_gap(quadratic, z, x, y, steps=2000, tolerance=1e-4)
        assert wide.lower <= tight.lower <= tight.upper <= wide.upper
        assert tight.upper - tight.lower < 2e-3
        assert tight.lower > 0

    @pytest.mark.parametrize("content", [np.nan, np.inf, -1e308, 0.0])
    @pytest.mark.parametrize("constants", ["calibrated", "paper"])
    def test_content_neither_raises_nor_warns(self, content, constants) -> None:
        problem = WorstGroupLoss(LogisticLoss(), 200, 3, 1.0, 1.0, (1.0, 1.0))
        plan = vertex_descent.plan(problem, PROMISE, constants=constants)
        found = plan.run((np.full((200, 3), content), np.full(200, content), np.full(200, content)), SeededSource(0))
        assert np.isfinite(found.x).all()
        assert found.x.sum() == pytest.approx(1.0)

    def test_what_leaves_is_an_average_of_as_many_vertices_as_charged(self) -> None:
        problem = RankOneGame(400, 5, 7)
        plan = vertex_descent.plan(problem, PROMISE, output="reuse")
        found = plan.run(spec_game(400, 6, 0)[1], SeededSource(0))
        T = plan.schedule.layout.T
        np.testing.assert_allclose(found.x * T, np.rint(found.x * T), atol=1e-9)
        assert (found.x.shape, found.y.shape) == ((5,), (7,))
        again = plan.run(spec_game(400, 6, 0)[1], SeededSource(0))
        np.testing.assert_array_equal(found.x, again.x)

    def test_system_entropy_gives_a_private_certificate_that_verifies(self) -> None:
        plan = vertex_descent.plan(RankOneGame(300, 5, 7), PROMISE)
        found = plan.run(spec_game(300, 6, 0)[1], SystemSource())
        assert found.certificate.private
        assert found.certificate.noise_source.exact_bits
        assert verify(found.certificate.to_json()).passed
        assert 0.99 < found.certificate.spent_epsilon <= 1.0
        assert "vertices" in found.certificate.explain()
        assert pickle.loads(pickle.dumps(plan)).public == plan.public


class TestRefusals:
    def test_public_form(self) -> None:
        plan = vertex_descent.plan(RankOneGame(300, 5, 7), PROMISE)
        for wrong in (np.zeros((299, 12)), np.zeros((300, 11)), np.zeros((300, 12), dtype=str), [[1.0]]):
            with pytest.raises(InvalidDataError):
                plan.run(wrong, SeededSource(0))

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("output", {"output": "both"}),
            ("batches", {"batches": "random"}),
            ("constants", {"constants": "mine"}),
            ("iterations", {"iterations": 301}),
            ("iterations", {"iterations": 1}),
            ("samples", {"samples": 0}),
            ("tuning", {"tuning": "best"}),
        ],
    )
    def test_parameters(self, name, arguments) -> None:
        with pytest.raises(InvalidParameterError, match=name):
            vertex_descent.plan(RankOneGame(300, 5, 7), PROMISE, **arguments)

    def test_other_promises(self) -> None:
        problem = RankOneGame(300, 5, 7)
        with pytest.raises(InvalidParameterError, match="replace_one"):
            vertex_descent.plan(problem, PrivacyParams(1.0, 1e-6, Neighboring.ADD_OR_REMOVE_ONE))
        with pytest.raises(InvalidParameterError, match="delta > 0"):
            vertex_descent.plan(problem, PrivacyParams(1.0), constants="paper")
        with pytest.raises(InvalidParameterError, match="n="):
            vertex_descent.plan(RankOneGame(1, 5, 7), PROMISE)

    def test_unbounded_losses(self) -> None:
        with pytest.raises(InvalidParameterError, match="radius"):
            WorstGroupLoss(LogisticLoss(), 10, 2, math.inf)
        with pytest.raises(InvalidParameterError, match="factors"):
            WorstGroupLoss(LogisticLoss(), 10, 2, 1.0, 1.0, ())


# Errata of the paper (docs, Errata)


def test_e4_the_smoothing_of_lemma_3_11_costs_twice_what_is_printed() -> None:
    """E4: ``lambda = 2 L1/sqrt(T l)`` gives ``4 L1/T + 4 L1 sqrt(l/T)`` for both players; the bound has it."""
    L1, T, ells = 1.0, 400, (3.0, 5.0)
    ell = sum(ells)
    smoothing = 2 * L1 / math.sqrt(T * ell)
    cost = sum(2 * (L1 + L1**2 / smoothing) / T + smoothing * own for own in ells)
    assert cost == pytest.approx(4 * L1 / T + 4 * L1 * math.sqrt(ell / T))
    assert cost > 4 * L1 / T + 1.9 * 2 * L1 * math.sqrt(ell / T)
    bound = Bound(RankOneGame(10**5, 50, 50), False)
    smooth, ell = bound.problem.smoothness, 2 * math.log(50)
    assert bound.slack(T, 1) == pytest.approx(4 * smooth / T + 4 * smooth * math.sqrt(ell / T))


def test_e7_sampling_a_pair_costs_twice_what_one_simplex_does() -> None:
    """E7: ``tr(H Cov)/2`` for curvature 1 and -1 within a block, uniform points: exactly (1 - 1/d) L1/T a block."""
    d, T = 20, 8
    block = 2 * np.eye(d) - np.ones((d, d))
    covariance = (np.eye(d) / d - 1 / d**2) / T
    one = np.trace(block @ covariance) / 2
    pair = np.trace(np.kron(np.eye(2), block) @ np.kron(np.eye(2), covariance)) / 2
    assert one == pytest.approx((1 - 1 / d) / T)
    assert pair == pytest.approx(2 * one)
    game = RankOneGame(10**5, 50, 50)
    assert Bound(game, False).slack(10**5, 1) > 4 * game.smoothness / 10**5  # of a pair; 2 L1/T for one simplex


def test_e9_the_step_of_theorem_3_1_with_constants_1_exceeds_what_proposition_3_3_allows() -> None:
    """E9: its condition has a factor 1/16, which "up to constants" drops; what runs is the proposition's step."""
    n, epsilon, delta = 10**4, 1.0, 1e-6
    game = RankOneGame(n, 1000, 1000)
    found = vertex_mirror_descent(game, epsilon, delta)
    T, K, L0 = found.layout.T, found.layout.K, game.spread[0] / 4
    literal = n / T * epsilon / (L0 * math.sqrt(T * (K + 1) * math.log(1 / delta)))
    assert found.steps[0] <= literal / 16
    assert found.steps[0] > literal / 20
