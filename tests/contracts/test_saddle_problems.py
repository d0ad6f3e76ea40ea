"""What every saddle problem over simplices must satisfy: no claimed constant is beaten, and records stay apart."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import dpconvex.problems as package
from dpconvex.errors import InvalidDataError
from dpconvex.losses import HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.problems import (
    MatrixGame,
    PlayLog,
    PolytopeSaddle,
    RankOneGame,
    SimplexPoint,
    SimplexSaddle,
    WorstGroupLoss,
    jax_saddle,
)
from dpconvex_experiments.reference.objectives import QuadraticGame

N = 24
WILD = (np.nan, np.inf, -np.inf, 1e308, -1e308, 3.0, 1.0, -1.0, 0.0)


@dataclass(frozen=True)
class Case:
    """A problem, records at the ends of their domain or wild, and what the search must attain of the spreads."""

    problem: SimplexSaddle
    make: Any
    attained: tuple[float, float]


def entries(shape, rng, wild):
    return rng.choice(WILD, shape) if wild else rng.choice([-1.0, 1.0, 0.3], shape, p=[0.45, 0.45, 0.1])


def linear_records(features, groups, sparse=None):
    def make(rng, wild):
        X = entries((N, features), rng, wild)
        y, g = rng.choice(WILD if wild else [-1.0, 1.0], N), rng.choice(WILD if wild else np.arange(groups), N)
        return (X if sparse is None else sparse(X), y, g)

    return make


def sparse_game(rng, wild):
    return csr_matrix(entries((N, 6), rng, wild))


def plays(rng, wild):
    if wild:
        return rng.choice(WILD, (N, 3))
    return np.column_stack([rng.integers(0, 3, N), rng.integers(0, 4, N), rng.choice([-2.0, 2.0], N)])


def quadratic_gradients(u, v, records):
    a, b = records[:, :2], records[:, 2:]
    with np.errstate(all="ignore"):
        return a * (a @ u)[:, None] + np.outer(b @ v, [1.0, 1.0]), b * u.sum() - 2 * np.outer(np.ones(len(b)), v)


def quadratic_values(u, v, records):
    a, b = records[:, :2], records[:, 2:]
    return (a @ u) ** 2 / 2 + u.sum() * (b @ v) - v @ v


def polytope():
    V, W = 0.5 * np.hstack([np.eye(2), -np.eye(2)]), np.eye(3)  # of an l1 ball, and of a simplex
    return PolytopeSaddle(N, quadratic_gradients, quadratic_values, V, W, (1.0, 2.5), (-1.5, 1.0), 2.0, 0.0)


def jax_game():
    pytest.importorskip("jax")
    return jax_saddle(
        lambda u, v, z: u @ z.reshape(3, 2) @ v,
        N,
        np.eye(3),
        np.eye(2),
        bounds=(1.0, 1.0),
        value_bounds=(-1.0, 1.0),
        smoothness=1.0,
        second_smoothness=0.0,
        bilinear=True,
    )


LOGISTIC = 1 / (6 * math.sqrt(3))
CASES = {
    "matrix": Case(MatrixGame(N, 3, 2), lambda rng, wild: entries((N, 3, 2), rng, wild), (1, 1)),
    "sparse matrix": Case(MatrixGame(N, 3, 2), sparse_game, (1, 1)),
    "rank one": Case(RankOneGame(N, 3, 4), lambda rng, wild: entries((N, 7), rng, wild), (1, 1)),
    "plays": Case(PlayLog(N, 3, 4, 2.0), plays, (1, 1)),
    "quadratic": Case(QuadraticGame(N, 3, 2), lambda rng, wild: entries((N, 10), rng, wild), (0.7, 0.7)),
    "logistic groups": Case(
        WorstGroupLoss(LogisticLoss(), N, 3, 2.0, 1.0, (1.0, 0.5, 2.0), False, LOGISTIC),
        linear_records(3, 3),
        (0.7, 0.7),
    ),
    "squared, one group, sparse": Case(
        WorstGroupLoss(SquaredLoss(1.0, 1.5), N, 3, 1.5, 1.0, (1.0,), True, 0.0),
        linear_records(3, 1, csr_array),
        (0.8, 0),
    ),
    "huber groups": Case(
        WorstGroupLoss(HuberLoss(0.5, 1.0), N, 4, 1.0, 1.0, (1.0, 1.0)), linear_records(4, 2), (0.8, 0.8)
    ),
    "polytope": Case(polytope(), lambda rng, wild: entries((N, 5), rng, wild), (0.4, 0.3)),
    "jax": Case(RankOneGame(N, 2, 2), None, (1, 1)),  # replaced below, so that JAX is imported in one test only
}
IDS = [name for name in CASES if name != "jax"]
everywhere = pytest.mark.parametrize("name", IDS)


def corner(dim, rng):
    return SimplexPoint.average(rng.integers(0, dim, rng.integers(1, 4)), dim)


def interior(dim, rng):
    return SimplexPoint.full(rng.dirichlet(np.ones(dim)))


def one(problem, records, i, x, y):
    return problem.gradient_sums(records, slice(i, i + 1), x, y)


def test_every_problem_is_under_contract() -> None:
    exported = {
        kind
        for kind in map(package.__dict__.get, package.__all__)
        if inspect.isclass(kind) and issubclass(kind, SimplexSaddle) and not inspect.isabstract(kind)
    }
    assert exported | {QuadraticGame} == {type(case.problem) for case in CASES.values()}


def attack(problem, make, attained, seeds=40):
    """Search for two records whose gradients differ by a vector of a range above the claim."""
    found = np.zeros(2)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        records = make(rng, seed % 2 == 1)
        x, y = corner(problem.dx, rng), corner(problem.dy, rng)
        each = [one(problem, records, i, x, y) for i in range(N)]
        for block in (0, 1):
            g = np.array([gradient[block] for gradient in each])
            assert np.isfinite(g).all()
            assert np.ptp(g.mean(0)) / 2 <= problem.lipschitz[block] * (1 + 1e-12) or not problem.spread[block]
            differences = g[:, None] - g[None]
            found[block] = max(found[block], np.ptp(differences, axis=2).max())
    for block in (0, 1):
        assert found[block] <= problem.spread[block] * (1 + 1e-12)
        assert found[block] >= attained[block] * problem.spread[block] * (1 - 1e-9)


@everywhere
@pytest.mark.thin
@pytest.mark.dear("squared, one group, sparse")
def test_no_pair_of_records_beats_the_spread(name) -> None:
    case = CASES[name]
    attack(case.problem, case.make, case.attained)


@everywhere
@pytest.mark.thin
@pytest.mark.dear("plays", "squared, one group, sparse")
def test_no_move_of_a_point_beats_the_drift(name) -> None:
    """Two records' gradients differ by a vector whose range changes by at most `drift` a unit of the move."""
    problem, make, found = CASES[name].problem, CASES[name].make, np.zeros(2)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        records = make(rng, seed % 2 == 1)
        x, v = corner(problem.dx, rng), corner(problem.dx, rng)
        y, w = corner(problem.dy, rng), corner(problem.dy, rng)
        for block, a, b in ((0, x, v), (1, y, w)):
            length = np.abs(a.dense() - b.dense()).sum()
            ends = [(a, y), (b, y)] if block == 0 else [(x, a), (x, b)]
            if length > 0:
                first, second = (np.array([one(problem, records, i, *end)[block] for i in range(N)]) for end in ends)
                change = first - second
                found[block] = max(found[block], np.ptp(change[:, None] - change[None], axis=2).max() / length)
    for block in (0, 1):
        if math.isfinite(problem.drift[block]):
            assert found[block] <= problem.drift[block] * (1 + 1e-9) + 1e-12
            assert found[block] >= 0.2 * problem.drift[block]


@everywhere
def test_sums_are_sums_over_single_records(name, monkeypatch) -> None:
    """So a replaced record changes its own term only; whatever the others hold, and however rows are chunked."""
    problem, rng = CASES[name].problem, np.random.default_rng(0)
    for wild in (False, True):
        records = CASES[name].make(rng, wild)
        x, y = corner(problem.dx, rng), interior(problem.dy, rng)
        whole = problem.gradient_sums(records, slice(3, 20), x, y)
        singles = [one(problem, records, i, x, y) for i in range(3, 20)]
        for block in (0, 1):
            np.testing.assert_allclose(whole[block], sum(s[block] for s in singles), rtol=1e-12, atol=1e-12)
        monkeypatch.setattr("dpconvex.problems.minimax.base._MOST_ROWS", 5)
        chunked = problem.gradient_sums(records, slice(3, 20), x, y)
        np.testing.assert_allclose(chunked[0], whole[0], rtol=1e-12, atol=1e-12)
        monkeypatch.undo()


@everywhere
def test_gradients_are_those_of_the_values(name) -> None:
    problem, rng = CASES[name].problem, np.random.default_rng(1)
    records, everything = CASES[name].make(rng, False), slice(0, N)
    for _ in range(5):
        x, y = interior(problem.dx, rng), interior(problem.dy, rng)
        gradients, h = problem.gradient_sums(records, everything, x, y), 1e-6
        for block, point in ((0, x), (1, y)):
            if point.dim == 1:
                continue
            towards = rng.integers(point.dim)
            moved, back = point.plus_vertex(towards, h), point.plus_vertex(towards, -h)
            ends = [(p, y) if block == 0 else (x, p) for p in (moved, back)]
            high, low = (problem.value_sum(records, everything, *end) for end in ends)
            direction = (moved.dense() - back.dense()) / (2 * h)
            assert (high - low) / (2 * h) == pytest.approx(gradients[block] @ direction, rel=1e-5, abs=1e-5)


@everywhere
def test_values_are_convex_in_x_and_concave_in_y_and_in_their_range(name) -> None:
    problem, rng = CASES[name].problem, np.random.default_rng(2)
    records = CASES[name].make(rng, False)
    low, high = problem.value_range
    for _ in range(20):
        x, v = (interior(problem.dx, rng) for _ in range(2))
        y, w = (interior(problem.dy, rng) for _ in range(2))
        middle = [SimplexPoint.full((a.dense() + b.dense()) / 2) for a, b in ((x, v), (y, w))]
        values = {
            key: problem.value_sum(records, slice(0, N), *pair) / N
            for key, pair in {
                "xy": (x, y),
                "vy": (v, y),
                "my": (middle[0], y),
                "xw": (x, w),
                "xm": (x, middle[1]),
            }.items()
        }
        assert all(low - 1e-12 <= value <= high + 1e-12 for value in values.values())
        assert values["my"] <= (values["xy"] + values["vy"]) / 2 + 1e-12
        assert values["xm"] >= (values["xy"] + values["xw"]) / 2 - 1e-12


@everywhere
def test_smoothness_is_not_beaten(name) -> None:
    problem, rng = CASES[name].problem, np.random.default_rng(3)
    records = CASES[name].make(rng, False)
    for _ in range(60):
        i = int(rng.integers(N))
        x, v = corner(problem.dx, rng), corner(problem.dx, rng)
        y, w = corner(problem.dy, rng), corner(problem.dy, rng)
        moved = np.abs(x.dense() - v.dense()).sum() + np.abs(y.dense() - w.dense()).sum()
        first, second = one(problem, records, i, x, y), one(problem, records, i, v, w)
        blocks = (0, 1) if problem.dy > 1 else (0,)
        most = max(np.abs(first[block] - second[block]).max() for block in blocks)
        assert most <= problem.smoothness * moved + 1e-12
        middle = [SimplexPoint.full((a.dense() + b.dense()) / 2) for a, b in ((x, v), (y, w))]
        between = one(problem, records, i, *middle)
        bend = max(np.abs(first[b] + second[b] - 2 * between[b]).max() for b in blocks)
        if math.isfinite(problem.second_smoothness):  # a second difference of a function of this smoothness
            assert bend <= problem.second_smoothness * (moved / 2) ** 2 + 1e-9


@everywhere
def test_records_are_not_changed_and_content_is_silent(name) -> None:
    problem, rng = CASES[name].problem, np.random.default_rng(4)
    records = CASES[name].make(rng, True)
    dense = [
        a.toarray() if hasattr(a, "toarray") else a for a in (records if isinstance(records, tuple) else (records,))
    ]
    before = [a.copy() for a in dense]
    problem.check(records)
    x, y = corner(problem.dx, rng), corner(problem.dy, rng)
    assert all(np.isfinite(g).all() for g in problem.gradient_sums(records, slice(0, N), x, y))
    assert math.isfinite(problem.value_sum(records, slice(0, N), x, y))
    after = [
        a.toarray() if hasattr(a, "toarray") else a for a in (records if isinstance(records, tuple) else (records,))
    ]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_repeated_entries_of_a_sparse_record_are_added_before_they_are_clipped() -> None:
    """Five ones in one cell are a five, clipped to one, even if the matrix claims to be in canonical form."""
    five = csr_matrix((np.ones(5), np.zeros(5, int), np.array([0, 5])), shape=(1, 4))
    five.has_canonical_format = True
    game, model = MatrixGame(1, 2, 2), WorstGroupLoss(SquaredLoss(1.0, prediction_bound=1.0), 1, 4, 1.0)
    zeros = np.zeros(1)
    for problem, records in ((game, five), (model, (five, zeros + 1.0, zeros))):
        x, y = SimplexPoint.uniform(problem.dx), SimplexPoint.uniform(problem.dy)
        gx, _ = problem.gradient_sums(records, slice(0, 1), x, y)
        assert np.abs(gx).max() <= 1 / problem.dy  # the weight of a column, or of the only group


@everywhere
def test_wrong_forms_are_refused(name) -> None:
    problem = CASES[name].problem
    for wrong in (None, [1.0], np.zeros((N + 1, 3)), np.zeros(N, dtype=str)[:3], (1, 2), (np.zeros((N, 2)),) * 3):
        with pytest.raises(InvalidDataError):
            problem.check(wrong)


@everywhere
def test_facts_are_json_ready(name) -> None:
    import json

    facts = CASES[name].problem.describe()
    assert json.loads(json.dumps(facts, allow_nan=False))["n"] == N


def test_a_jax_function_is_clipped_like_any_other() -> None:
    problem = jax_game()
    attack(problem, lambda rng, wild: entries((N, 6), rng, wild), (0.5, 0.5), seeds=2)
    records = entries((N, 6), np.random.default_rng(0), False)
    dense = MatrixGame(N, 3, 2)
    x, y = SimplexPoint.uniform(3), SimplexPoint.uniform(2)
    for found, right in zip(
        problem.gradient_sums(records, slice(0, N), x, y),
        dense.gradient_sums(records.reshape(N, 3, 2), slice(0, N), x, y),
        strict=True,
    ):
        np.testing.assert_allclose(found, right, rtol=1e-12)
