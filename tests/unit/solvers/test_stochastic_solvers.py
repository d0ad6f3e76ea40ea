"""The record-by-record methods: the papers' listings, their accuracy and cost, independence of all other randomness."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex._types import Status
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import (
    LOSSES,
    AbsoluteLoss,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    PiecewiseLinearLoss,
    PinballLoss,
    SmoothedHingeLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from dpconvex.losses.base import BENT
from dpconvex.problems import DataDomain, Records, RegularizedRisk, TiltedRisk
from dpconvex.sets import L2Ball
from dpconvex.solvers import (
    AcceleratedGradient,
    DualCoordinateAscent,
    Guaranteed,
    Katyusha,
    NewtonCholesky,
    StochasticSubgradient,
    _loops,
    default_solver,
    stochastic,
)
from instances import instances

pytestmark = pytest.mark.thin

ONE_OUTPUT = [loss for kind in LOSSES for loss in instances(kind) if loss.n_outputs == 1]
SMOOTH = [LogisticLoss(), SmoothedHingeLoss(0.5), HuberLoss(0.5, target_bound=2.0), SquaredLoss(2.0)]
KINKED = [HingeLoss(), AbsoluteLoss(2.0), PinballLoss(0.8, target_bound=2.0)]


def problem(loss, n=300, d=4, l2=0.05, *, intercept=True, linear=0.0, dtype=np.float64, domain=None):
    """Some rows are longer than the unit ball, so that row factors are at work."""
    rng = np.random.default_rng(3)
    X = (0.6 * rng.standard_normal((n, d))).astype(dtype)
    y = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    domain = DataDomain.l2_ball(d, 1.0) if domain is None else domain
    records = Records.clipped(X, domain.with_intercept() if intercept else domain)
    b = linear * rng.standard_normal(records.dim) if linear else None
    return RegularizedRisk(loss, records, y, l2, b)


@given(
    loss=st.sampled_from([loss for loss in ONE_OUTPUT if stochastic.needs_slope_curve(loss) is None]),
    z=st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1e100, -1e100]),
    y=st.floats(-3, 3) | st.sampled_from([-1.0, 0.0, 1.0]),
)
def test_slope_curves_are_the_slopes_of_the_losses(loss, z, y):
    y = loss.clip_targets(np.array([y]))
    curve = stochastic.slope_curve(loss, y)
    offset, amplitude, shift = curve.records[0]
    with np.errstate(over="ignore"):
        t = float((z - shift) / curve.scale)
    with np.errstate(over="ignore"):
        slope = _loops.slope_at(curve.records[0], curve.shape, curve.scale, z)
    if curve.shape != BENT:  # a bent slope is not of this form
        s = [min(max(t, -1.0), 1.0), math.tanh(t), t / math.hypot(1.0, t)][curve.shape]
        assert slope == pytest.approx(offset + amplitude * s, rel=1e-12)
    if isinstance(loss, PiecewiseLinearLoss) and z == y[0]:
        lo, hi = loss.slope_interval(y)
        assert lo[0] <= slope <= hi[0]
    else:
        expected = loss.derivative(np.array([z]), y)[0]
        # Near a kink of a narrow spline the rounding of z - y is magnified by the curvature.
        grain = min(loss.curvature_bound, 1e3) * 1e-15 * (abs(z) + abs(y[0]))
        assert slope == pytest.approx(expected, rel=1e-12, abs=1e-14 + grain)


@pytest.mark.parametrize("domain", [DataDomain.l2_ball(4, 1.0), DataDomain.box(4, 0.5)], ids=["ball", "box"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.dear("float64-ball")
def test_draws_are_the_clipped_records_and_uniform(monkeypatch, dtype, domain):
    monkeypatch.setattr("dpconvex.problems.data.records._BLOCK", 64)  # several row blocks
    monkeypatch.setattr("dpconvex.problems.data.records._LEAST_ROWS", 1)
    monkeypatch.setattr(stochastic, "_SAMPLE", 100)  # several portions
    records = problem(LogisticLoss(), dtype=dtype, domain=domain).records
    assert records.n_blocks > 4
    dense, seen = records.rows(slice(None)), []
    for index, rows in stochastic.draws(records, 30_000, np.random.default_rng(1)):
        np.testing.assert_array_equal(rows, dense[index])
        seen.append(index)
    assert len(seen) > 4
    counts = np.bincount(np.concatenate(seen), minlength=records.n)
    assert counts.sum() == 30_000
    # Chi-square with 299 degrees of freedom: 6 standard deviations either side, error probability below 1e-6.
    assert abs(((counts - 100.0) ** 2 / 100.0).sum() - 299) < 6 * math.sqrt(2 * 299)


def test_stochastic_subgradient_is_algorithm_3():
    """A transcription of the listing, the mean with weights t and every slope taken from the loss itself."""
    objective = problem(HuberLoss(0.5, target_bound=2.0), linear=0.1)
    count = components_of(objective, 4096)
    w, mean, total, mu = np.zeros(objective.dim), np.zeros(objective.dim), 0.0, objective.l2
    R = (objective.lipschitz + objective.linear_norm) / mu
    for t, (x, y) in enumerate(count, start=1):
        g = objective.loss.derivative(np.array([x @ w]), np.array([y]))[0] * x + mu * w + objective.linear
        w = w - 2 / (mu * t) * g
        w = w * min(1.0, R / np.linalg.norm(w))
        mean, total = mean + t * w, total + t
    result = StochasticSubgradient(max_steps=1).solve(objective, 1e-9)
    np.testing.assert_allclose(result.point, mean / total, rtol=1e-9, atol=1e-12)


def algorithm_5(objective, epochs, tau1):
    """The listing from 0, with its growing weights and without cached slopes; psi is the ridge."""
    X, y, n = objective.records.rows(slice(None)), objective.targets, objective.records.n
    mu, beta = objective.l2, objective.smoothness
    order, gamma = np.random.default_rng(0), 1 / (3 * tau1 * beta)
    snapshot = ys = zs = np.zeros(objective.dim)
    for _ in range(epochs):
        mean = objective.gradient(snapshot) - mu * snapshot
        total, weights = np.zeros(objective.dim), 0.0
        for j, i in enumerate(order.integers(n, size=2 * n)):
            x = tau1 * zs + 0.5 * snapshot + (0.5 - tau1) * ys
            slope = objective.loss.derivative(np.array([X[i] @ x, X[i] @ snapshot]), y[i])
            v = mean + (slope[0] - slope[1]) * X[i]
            zs = (zs / gamma - v) / (1 / gamma + mu)
            ys = (3 * beta * x - v) / (3 * beta + mu)
            total, weights = total + (1 + gamma * mu) ** j * ys, weights + (1 + gamma * mu) ** j
        snapshot = total / weights
    return snapshot


@pytest.mark.parametrize("l2", [0.05, 1e-4])
def test_katyusha_is_algorithm_5(l2):
    """Two epochs of the listing, with the smoothness in tau_1."""
    objective = problem(LogisticLoss(), n=40, l2=l2, linear=0.1)
    tau1 = min(math.sqrt(2 * 40 * l2 / (3 * objective.smoothness)), 0.5)
    result = Katyusha(max_steps=2).solve(objective, 1e-13)
    np.testing.assert_allclose(result.point, algorithm_5(objective, 2, tau1), rtol=1e-9, atol=1e-12)
    assert (result.steps, result.gradient_calls) == (2, 7)


def test_p8_the_printed_step_of_katyusha_depends_on_the_unit_of_the_features():
    """Erratum P8: L for beta in tau_1. In units of 1/100 six epochs leave a hundred times more than they should.

    The loop is over epochs of 2n component steps, where the count that is stated for it is one of component steps.
    """
    n, gaps = 40, {}
    for unit in (1.0, 0.01):
        rng = np.random.default_rng(3)
        records = Records.clipped(unit * rng.standard_normal((n, 3)) * [1, 0.3, 0.1], DataDomain.l2_ball(3, unit))
        objective = RegularizedRisk(LogisticLoss(), records, rng.standard_normal(n), 1e-3 * unit**2)
        exact = NewtonCholesky().solve(objective, 1e-6 / unit)
        lipschitz = LogisticLoss().slope_bound * unit
        printed = min(math.sqrt(2 * n * objective.l2 / (3 * lipschitz)), 0.5)
        points = {"printed": algorithm_5(objective, 6, printed), "runs": Katyusha(6).solve(objective, 1e-13).point}
        for name, point in points.items():
            gaps[name, unit] = objective.value(point) - objective.value(exact.point)
    assert gaps["runs", 0.01] == pytest.approx(gaps["runs", 1.0], rel=0.05)
    assert gaps["printed", 0.01] > 100 * gaps["runs", 0.01]


def components_of(objective, count):
    X = objective.records.rows(slice(None))
    return [(X[i], objective.targets[i]) for i in np.random.default_rng(0).integers(objective.records.n, size=count)]


@settings(max_examples=30, deadline=None)
@given(
    loss=st.sampled_from(SMOOTH),
    l2=st.sampled_from([1e-3, 0.1, 1e6]),
    intercept=st.booleans(),
    linear=st.sampled_from([0.0, 1.0, 3.0]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_katyusha_reaches_the_minimizer(loss, l2, intercept, linear, dtype):
    objective = problem(loss, l2=l2, intercept=intercept, linear=linear, dtype=dtype)
    radius = 1e-8 * (1 + linear) / min(l2, 1.0)
    result = Katyusha().solve(objective, radius)
    assert result.status is Status.CERTIFIED
    reference = default_solver(loss, dim=objective.dim).solve(objective, radius)
    assert reference.status is Status.CERTIFIED
    assert np.linalg.norm(result.point - reference.point) <= result.accuracy.bound + reference.accuracy.bound


def test_katyusha_converges_as_fast_as_the_prototype():
    """n = 1000, d = 10, mu = 1e-3: the gradient norm fell from 1e-2 to 4e-13 in 14 epochs in a separate prototype."""
    objective = problem(LogisticLoss(), n=1000, d=10, l2=1e-3, intercept=False)
    result = Katyusha().solve(objective, 4e-13 * 1000)
    assert result.status is Status.CERTIFIED
    assert result.steps <= 20
    forecast = Katyusha.steps_for(objective.smoothness, 1e-3, 1000, objective.initial_gap, 4e-13 * 1000)
    assert result.steps <= forecast


@pytest.mark.parametrize("loss", KINKED + SMOOTH[:3], ids=repr)
def test_stochastic_subgradient_keeps_its_rate_and_a_true_bound(loss):
    """The expected gap is at most 2 L^2 / (mu (T + 1)); observed gaps are far below, for L is a worst case."""
    objective = problem(loss)
    result = StochasticSubgradient(max_steps=20).solve(objective, 1e-9)
    assert result.status is Status.STEP_LIMIT
    exact = DualCoordinateAscent() if isinstance(loss, PiecewiseLinearLoss) else NewtonCholesky()
    best = exact.solve(objective, 1e-5)
    assert best.status is Status.CERTIFIED
    error = float(np.linalg.norm(result.point - best.point))
    assert error <= result.accuracy.bound + 1e-5
    assert result.accuracy.bound <= 0.2  # the domain's minimizers have norm up to 28
    L = objective.lipschitz_within(objective.lipschitz / objective.l2)
    gap = objective.value(result.point) - objective.value(best.point)
    assert gap <= 2 * L**2 / (objective.l2 * (20 * 4096 + 1))


def test_the_duality_certificate_improves_with_more_stages():
    objective = problem(HingeLoss())
    bounds = [StochasticSubgradient(max_steps=k).solve(objective, 1e-9).accuracy.bound for k in (1, 10, 100)]
    assert bounds[2] < bounds[1] < bounds[0]


@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        (Guaranteed(Katyusha(max_steps=1), AcceleratedGradient()), LogisticLoss()),
        (Guaranteed(StochasticSubgradient(max_steps=1), AcceleratedGradient()), LogisticLoss()),
        (Guaranteed(StochasticSubgradient(max_steps=1), DualCoordinateAscent()), HingeLoss()),
    ],
    ids=repr,
)
def test_las_vegas_hands_over_to_a_solver_that_cannot_fail(solver, loss):
    objective = problem(loss)
    radius = 1e-4 if isinstance(loss, HingeLoss) else 1e-9
    assert solver.fast.solve(objective, radius).status is Status.STEP_LIMIT
    result = solver.solve(objective, radius)
    assert result.status is Status.CERTIFIED
    assert result.accuracy.bound <= radius


@pytest.mark.parametrize(("solver", "loss"), [(Katyusha(), LogisticLoss()), (StochasticSubgradient(3), HingeLoss())])
def test_the_order_is_fixed_and_touches_no_other_randomness(solver, loss):
    objective = problem(loss)
    np.random.seed(1)  # noqa: NPY002
    first = solver.solve(objective, 1e-6)
    draw = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert draw == np.random.random()  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(first.point, solver.solve(objective, 1e-6).point)


@pytest.mark.gate
@pytest.mark.parametrize(("solver", "loss"), [(Katyusha(2), LogisticLoss()), (StochasticSubgradient(2), HingeLoss())])
def test_the_data_are_not_copied(solver, loss):
    X = np.random.default_rng(0).standard_normal((200_000, 40)) * 0.1
    objective = RegularizedRisk(loss, Records.clipped(X, DataDomain.l2_ball(40, 1.0)), X[:, 0], 0.1)
    solver.solve(problem(loss), 1e-6)  # compiles
    tracemalloc.start()
    solver.solve(objective, 1e-9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * X.nbytes


def test_refusals():
    assert "compiled slope" in str(Katyusha().refusal(SoftmaxLoss(3), L2Ball(1.0), 12))
    assert "smooth" in str(Katyusha().refusal(HingeLoss(), L2Ball(1.0), 4))
    assert "bounded slope" in str(StochasticSubgradient().refusal(SquaredLoss(1.0), L2Ball(1.0), 4))
    average = problem(LogisticLoss())
    with pytest.raises(InvalidParameterError, match="average of losses"):
        Katyusha().solve(TiltedRisk(average.loss, average.records, average.targets, average.l2, tilt=1.0), 0.1)
    with pytest.raises(InvalidParameterError, match="without constraints"):
        Katyusha().solve(average, 0.1, L2Ball(1.0))


def test_forecasts():
    """Hand-computed: rates 1.5 (well conditioned) and (1 + sqrt(mu / (3 beta m)))^m; 4 (L / (mu r))^2 steps."""
    assert Katyusha.steps_for(1.0, 0.5, 100, 1.0, 2.0) == 2  # ln(2 / 1^2) / ln 1.5 = 1.7
    # m = 200, mu = 1e-6: 200 ln(1 + sqrt(1e-6 / 600)) = 0.0081646; ln(2 / 1e-4) = 9.9035 -> 1213.
    assert Katyusha.steps_for(1.0, 1e-6, 100, 1.0, 1e4) == 1213
    assert StochasticSubgradient.steps_for(2.0, 0.1, 0.5) == 6400
