"""Sums are exact, whatever the order, the blocks and the threads; their errors are those that the module proves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from dpconvex.problems import Attack, DataDomain, LinearModelProblem, Records, RegularizedRisk, TiltedRisk, UserGroups
from dpconvex.problems.data import summation
from dpconvex.problems.data.users import clipped_mean
from dpconvex.solvers import LBFGS, AcceleratedGradient, NewtonCholesky

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def pieces(values, cuts):
    return np.split(values, sorted({cut % (len(values) + 1) for cut in cuts}))


@settings(max_examples=200)
@given(st.lists(FLOATS, max_size=60), st.lists(st.integers(0, 60)), st.randoms(use_true_random=False))
def test_numbers_are_the_exact_sum_rounded_once(values, cuts, random):
    exact = sum(map(Fraction, values), Fraction(0))
    random.shuffle(values)
    table = sum(summation.number_parts(part) for part in pieces(np.array(values, dtype=np.float64), cuts))
    try:
        assert summation.number(table) == float(exact)
    except OverflowError:
        assert np.isinf(summation.number(table))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([np.inf, 1], np.inf), ([-np.inf, 1], -np.inf), ([np.inf, -np.inf], np.nan), ([np.nan, 1], np.nan), ([], 0.0),
     ([5e-324, 5e-324], 1e-323), ([1e308, 1e308], np.inf), ([1e308, 1e308, -1e308], 1e308)],
)  # fmt: skip
def test_extreme_numbers(values, expected):
    np.testing.assert_equal(summation.exact_sum(np.array(values, dtype=np.float64)), expected)


@settings(max_examples=60)
@given(
    st.integers(1, 300), st.integers(1, 9), st.sampled_from([1e-200, 1e-3, 1.0, 7.0, 1e150]),
    st.integers(0, 2**31), st.lists(st.integers(0, 300), max_size=4),
)  # fmt: skip
def test_vectors_do_not_depend_on_order_or_blocks_and_err_as_proved(n, d, size, seed, cuts):
    rng = np.random.default_rng(seed)
    rows, factors = rng.uniform(-1, 1, (n, d)), size * rng.uniform(-1, 1, n)
    whole = summation.vector(summation.vector_parts(rows, factors, size))
    order = rng.permutation(n)
    parts = [
        summation.vector_parts(np.ascontiguousarray(rows[part]), factors[part], size)
        for part in pieces(order, cuts)
    ]  # fmt: skip
    rng.shuffle(parts)
    np.testing.assert_array_equal(whole, summation.vector(sum(parts)))
    for j in range(d):
        exact = sum((Fraction(s) * Fraction(x) for s, x in zip(factors, rows[:, j], strict=True)), Fraction(0))
        size_of = sum(abs(s * x) for s, x in zip(factors, rows[:, j], strict=True))
        assert abs(Fraction(whole[j]) - exact) <= 2.0**-53 * size_of + n * 2.0**-60 * size + 2.0**-51 * abs(whole[j])


def test_a_million_equal_summands_do_not_drift():
    """Equal summands round alike: floats added one by one drift, and no assumption of independence would hold."""
    rows, factors = np.full((2**14, 1), 0.1), np.full(2**14, 1 / 3)
    parts = 64 * summation.vector_parts(rows, factors, 1 / 3)
    product = 0.1 * (1 / 3)
    assert summation.vector(parts)[0] == pytest.approx(2**20 * product, rel=2e-16 * 2)


@pytest.mark.parametrize("rounded", [np.rint, np.trunc])
def test_second_moments_do_not_depend_on_order_and_stay_in_the_domain(rounded):
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (4000, 5))
    results = []
    for order in (np.arange(4000), rng.permutation(4000)):
        shuffled = rows[order]
        cuts = np.split(shuffled, [1700, 1701, 3000]) if order[0] else [shuffled[:2048], shuffled[2048:]]
        results.append(
            summation.gram(
                sum(summation.gram_parts(part.copy(), np.ones(len(part)), 1.0, rounded) for part in cuts), 1.0
            )
        )
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], rows.T @ rows, atol=4000 * 2.0**-20)
    np.testing.assert_array_equal(results[0], results[0].T)
    if rounded is np.trunc:
        one = summation.gram(summation.gram_parts(rows[:1].copy(), np.ones(1), 1.0, rounded), 1.0)
        assert np.trace(one) <= rows[0] @ rows[0]


# Objectives and solvers -----------------------------------------------------------------------------------------------

N, P = 9000, 7


def table(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P)) / 2
    return X, np.where(rng.random(N) < 1 / (1 + np.exp(-3 * X[:, 0])), 1.0, -1.0), rng.permutation(N)


def objectives(X, y):
    domain = DataDomain.l2_ball(P, 1.0).with_intercept()
    records, linear = Records.clipped(X, domain), np.linspace(-0.1, 0.1, P + 1)
    yield RegularizedRisk(LogisticLoss(), records, y, 1e-3, linear)
    yield RegularizedRisk(SquaredLoss(1.0), records, y, 1e-3)
    yield RegularizedRisk(SoftmaxLoss(2), records, (y > 0).astype(float), 1e-2)
    yield TiltedRisk(LogisticLoss(), records, y, 1e-2, tilt=2.0)


def test_values_gradients_and_solutions_have_the_same_bits_for_every_order_and_thread(monkeypatch):
    X, y, order = table()
    found = []
    for threads, rows in ((1, slice(None)), (2, slice(None)), (3, order)):
        monkeypatch.setattr(summation, "threads", lambda threads=threads: threads)
        for objective in objectives(np.asfortranarray(X[rows]) if threads == 2 else X[rows], y[rows]):
            w = np.linspace(-1, 2, objective.dim)
            solvers = (NewtonCholesky(), LBFGS(), AcceleratedGradient()) if objective.tilt == 0 else (NewtonCholesky(),)
            solved = [solver.solve(objective, 1e-3).point for solver in solvers]
            value, gradient = objective.value_and_gradient(w)
            found.append(np.concatenate(
                [[value], gradient, objective.gradient(w), objective.hessian(w).ravel(),
                 objective.hessian_product(w, w), *solved]
            ))  # fmt: skip
    for k in range(4):
        np.testing.assert_array_equal(found[k], found[4 + k])
        np.testing.assert_array_equal(found[k], found[8 + k])


def test_an_attack_does_not_mind_the_order():
    X, y, order = table(1)
    problem = LinearModelProblem(
        LogisticLoss(), DataDomain.l2_ball(P, 1.0).with_intercept(), N, 3.0, attack_radius=0.1, attack_norm="linf"
    )
    objectives = [problem.objective(X[rows], y[rows], 1e-2) for rows in (slice(None), order)]
    w = np.linspace(-0.2, 0.5, objectives[0].dim)
    np.testing.assert_array_equal(*(objective.gradient(w) for objective in objectives))
    assert Attack(0.1, "linf").norm == "linf"


def test_users_gradients_do_not_mind_the_order(monkeypatch):
    X, y, order = table(2)
    users, domain, means = np.arange(N) % 700, DataDomain.l2_ball(P, 1.0), []
    for threads, rows in ((1, slice(None)), (2, order)):
        monkeypatch.setattr(summation, "threads", lambda threads=threads: threads)
        groups = UserGroups.of(users[rows])
        records = Records.clipped(X[rows], domain)
        means.append(clipped_mean(LogisticLoss(), records, y[rows], groups, None, np.ones(P), 0.1))
    np.testing.assert_array_equal(*means)


def test_very_unequal_weights_err_by_a_share_of_their_sum() -> None:
    """200,000 records of a weight 2^-30 of the largest: on one grid they would err by 1e-13 of it together."""
    n, light = 200_000, 2.0**-30
    weights, rows = np.full(n, light), np.full((n, 1), 1 / 3)
    weights[0] = 1.0
    parts, blocks = np.zeros((8, 3, 1)), [slice(i, i + 2**14) for i in range(0, n, 2**14)]
    for part in blocks:
        of = lambda some, size, X=rows[part], v=weights[part]: summation.vector_parts(X[some], v[some], size)  # noqa: E731
        parts += summation.by_weight(weights[part], 1.0, 1 / 3, of)
    exact = Fraction(1 / 3) + (n - 1) * Fraction(light / 3)
    assert abs(Fraction(float(summation.weighted_vector(parts)[0])) - exact) <= Fraction(2) ** -52


def test_classes_of_weights_bound_what_they_hold() -> None:
    weights = np.concatenate([2.0 ** -np.arange(0.0, 80.0, 0.25), [0.0, 1.0]])
    seen: list[tuple[float, float, float]] = []

    def of(rows: object, size: float) -> np.ndarray:
        inside = weights[rows]  # type: ignore[index]
        seen.append((size, inside.max(), inside[inside > 0].min()))
        return np.zeros((3, 1))

    summation.by_weight(weights, 1.0, 1.0, of)
    assert len(seen) == 8
    assert all(largest <= size for size, largest, _ in seen)
    assert all(size <= 16 * least for size, _, least in sorted(seen)[1:])  # all classes but the last
