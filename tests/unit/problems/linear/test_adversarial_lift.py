"""Losses under attack: closed form against a search, and the lifted problem against the one it stands for."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize

from dpconvex.errors import InvalidParameterError
from dpconvex.losses import (
    LOSSES,
    AbsoluteLoss,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    PinballLoss,
    SmoothedHingeLoss,
    SmoothLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from dpconvex.problems import Attack, Block, DataDomain, Lift, LinearModelProblem, Records
from dpconvex.solvers import AcceleratedGradient, DualCoordinateAscent, SmoothedAcceleratedGradient, default_solver
from dpconvex_experiments.shared import worst_losses
from instances import instances

pytestmark = pytest.mark.thin

DOMAINS = {
    "ball": DataDomain.l2_ball(3, 1.0).with_intercept(0.7),
    "one-hot": DataDomain.l1_ball(3, 1.0),
    "blocks": DataDomain((Block(1, "linf", 0.5), Block(2, "l1", 1.5)), intercept=2.0),
}
ONE_OUTPUT = [loss for kind in LOSSES for loss in instances(kind) if loss.n_outputs == 1]
ATTACKED = [LogisticLoss(), SmoothedHingeLoss(0.3), HingeLoss(), AbsoluteLoss(2.0), PinballLoss(0.8, 2.0)]
NORMS = ("l2", "linf")


def problem(loss, domain, n, norm, radius, tilt=0.0):
    return LinearModelProblem(loss, domain, n, 2.0, tilt=tilt, attack_radius=radius, attack_norm=norm)


def data(domain, n, seed, labels=2.0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, domain.n_features)), labels * rng.standard_normal(n)


def dense(X, domain):
    return np.column_stack([domain.clip(X), np.full((len(X), domain.dim - domain.n_features), domain.intercept)])


def risk(one, X, y, w, l2):
    """The regularized worst-case risk by its definition, in the parameters themselves."""
    targets = one.loss.clip_targets(y)
    losses = worst_losses(one.attack, one.loss, dense(X, one.domain) @ w, targets, w, one.domain)
    mean = np.log(np.mean(np.exp(one.tilt * losses))) / one.tilt if one.tilt else losses.mean()
    return mean + l2 / 2 * w @ w


def solved(one, X, y, l2, radius, solver=None):
    constraint = one.constraint(math.inf)
    solver = solver or default_solver(one.bounds, constraint, one.dim, tilted=one.tilt > 0)
    result = solver.solve(one.objective(X, y, l2), radius, constraint)
    assert result.accuracy.bound <= radius
    return one.parameters(result.point)


# The closed form ----------------------------------------------------------------------------------------------------


def perturbations(norm, w):
    """Vertices of the cube, or directions of the sphere with the worst ones among them."""
    if norm == "linf":
        return np.array(list(itertools.product((-1.0, 1.0), repeat=len(w))))
    v = np.vstack([np.random.default_rng(0).standard_normal((500, len(w))), w, -w])
    return v / np.linalg.norm(v, axis=1, keepdims=True)


@pytest.mark.parametrize("loss", ONE_OUTPUT, ids=repr)
@pytest.mark.parametrize("norm", NORMS)
def test_worst_losses_are_the_maximum_over_perturbations(loss, norm) -> None:
    domain, s = DOMAINS["ball"], 0.4
    X, y = data(domain, 20, 1)
    x, targets = dense(X, domain), loss.clip_targets(y)
    for w in 3 * np.random.default_rng(2).standard_normal((5, domain.dim)):
        found = worst_losses(Attack(s, norm), loss, x @ w, targets, w, domain)
        tried = [loss.value(x @ w + s * (v @ w[:-1]), targets) for v in perturbations(norm, w[:-1])]
        np.testing.assert_allclose(found, np.max(tried, axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s", [0.1, 3.0])
def test_reach_is_the_longest_attacked_record(domain, norm, s) -> None:
    X = np.vstack([data(domain, 2000, 3)[0] * 10, np.eye(domain.n_features), np.full(domain.n_features, 99.0)])
    x = dense(X, domain)
    features = x[:, : domain.n_features]
    if norm == "l2":
        v = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-9)
    else:
        v = np.where(features >= 0, 1.0, -1.0)
    lengths = np.linalg.norm(np.column_stack([features + s * v, x[:, domain.n_features :]]), axis=1)
    reach = Attack(s, norm).reach(domain)
    assert lengths.max() <= reach
    assert lengths.max() == pytest.approx(reach, rel=0.02)


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_mean_dual_norm_of_isotropic_noise(domain) -> None:
    """20 000 directions: relative error of the mean below 1 percent, eight standard errors."""
    z = np.random.default_rng(4).standard_normal((20_000, domain.dim))
    ratio = np.abs(z[:, : domain.n_features]).sum(1) / np.linalg.norm(z, axis=1)
    assert Attack(1.0, "linf").mean_dual_norm(domain) == pytest.approx(ratio.mean(), rel=0.01)
    assert Attack(1.0, "l2").mean_dual_norm(domain) == 1.0


# Records and lift -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_lifted_records_agree_with_dense_ones_and_copy_nothing(norm, domain) -> None:
    n = 50
    X = data(domain, n, 5)[0]
    X *= 1e-2  # inside the domain: views of the caller's array
    lift, rng = Lift(Attack(0.3, norm), domain), np.random.default_rng(6)
    extra = rng.uniform(-1, 1, n)
    records = Records.clipped(X, domain).lifted(lambda _: extra, extra, lift.domain)
    columns = np.repeat(extra[:, None], lift.cones, axis=1)
    full = np.column_stack([X, columns, np.full((n, domain.dim - domain.n_features), lift.domain.intercept)])
    w, g = rng.standard_normal(records.dim), rng.standard_normal(n)
    np.testing.assert_allclose(records.predict(w), full @ w, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(records.adjoint(g), g @ full, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(records.gram(np.abs(g)), full.T @ (np.abs(g)[:, None] * full), atol=2e-5)
    np.testing.assert_allclose(records.squared_norms(), (full**2).sum(1), rtol=1e-13)
    np.testing.assert_allclose(records.rows(slice(7, 40, 3)), full[7:40:3], rtol=1e-15)
    part, index, _ = records.subset(4)
    np.testing.assert_allclose(part.predict(w), full[index] @ w, rtol=1e-13, atol=1e-13)
    assert all(np.shares_memory(block.features, X) for block in records.blocks())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ATTACKED, ids=repr)
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_the_lifted_objective_is_the_risk_at_tight_points_and_above_elsewhere(norm, loss, domain) -> None:
    X, y = data(domain, 30, 7)
    one, l2, rng = problem(loss, domain, 30, norm, 0.3), 0.2, np.random.default_rng(8)
    lifted, cones = one.objective(X, y, l2), one.constraint(math.inf)
    d, k = domain.n_features, one.lift.cones
    assert lifted.smoothness / lifted.l2 <= one.loss.curvature_bound * (one.attack.reach(domain) ** 2 * 2) / l2 + 1.1
    for w in rng.standard_normal((20, domain.dim)):
        q = one.lift.slope * np.linalg.norm(w[:d].reshape(k, d // k), axis=1)
        point = np.concatenate([w[:d], q, one.lift.stretch * w[d:]])
        assert cones.contains(point)
        np.testing.assert_allclose(one.parameters(point), w, rtol=1e-14)
        assert np.linalg.norm(point) == pytest.approx(one.lift.stretch * np.linalg.norm(w), rel=1e-13)
        assert lifted.value(point) == pytest.approx(risk(one, X, y, w, l2), rel=1e-12)
        point[d : d + k] += rng.exponential(size=k)
        assert cones.contains(point)
        assert lifted.value(point) > risk(one, X, y, w, l2)


def shortest_subgradient(one, X, y, w, l2):
    """Norm of the shortest subgradient of the risk at `w`; times 1/l2, a proof of the distance to the minimizer."""
    x, targets, d = dense(X, one.domain), one.loss.clip_targets(y), one.domain.n_features
    rho = one.attack_radius * np.linalg.norm(w[: one.domain.n_features], 2 if one.attack.norm == "l2" else 1)
    z = x @ w - targets * rho
    slopes, losses = one.loss.derivative(z, targets), one.loss.value(z, targets)
    weights = np.exp(one.tilt * (losses - losses.max()))
    slopes *= weights / weights.sum()
    g, pull = slopes @ x + l2 * w, one.attack_radius * np.abs(slopes).sum()
    if one.attack_norm == "linf":
        g[:d] = np.where(
            w[:d] == 0, np.sign(g[:d]) * np.maximum(np.abs(g[:d]) - pull, 0), g[:d] + pull * np.sign(w[:d])
        )
    elif np.any(w[:d]):
        g[:d] += pull * w[:d] / np.linalg.norm(w[:d])
    else:
        g[:d] *= max(0.0, 1 - pull / max(np.linalg.norm(g[:d]), 1e-300))
    return float(np.linalg.norm(g))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("tilt", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.dear("2-0.0-linf", "8-0.0-linf")
def test_certified_bounds_hold_on_random_problems(norm, tilt, seed) -> None:
    """60 problems: the certified radius is never below the true error, and the reference is proven by other means."""
    rng = np.random.default_rng(seed)
    domain = list(DOMAINS.values())[seed % 3]
    loss = LogisticLoss() if seed % 2 else SmoothedHingeLoss(0.3)
    n, s, l2 = int(rng.integers(1, 60)), float(rng.choice([0.02, 0.2, 0.6])), float(rng.choice([0.01, 0.1]))
    X, y = data(domain, n, seed)
    y[: n // 2] = X[: n // 2, 0]
    one = problem(loss, domain, n, norm, s, tilt)
    exact = solved(one, X, y, l2, 1e-8)
    error = shortest_subgradient(one, X, y, exact, l2) / l2
    assert error <= 1e-7
    objective, cones = one.objective(X, y, l2), one.constraint(math.inf)
    for radius in (0.3, 1e-3):
        result = AcceleratedGradient().solve(objective, radius, cones)
        assert result.accuracy.bound <= radius
        assert np.linalg.norm(one.parameters(result.point) - exact) <= result.accuracy.bound + error


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", [HingeLoss(), AbsoluteLoss(2.0), PinballLoss(0.8, 2.0)], ids=repr)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.thin
@pytest.mark.dear(
    "1-HingeLoss()", "0-AbsoluteLoss(target_bound=2.0)", "1-AbsoluteLoss(target_bound=2.0)", "0-HingeLoss()-l2"
)
def test_piecewise_linear_losses_agree_with_a_direct_search(norm, loss, seed) -> None:
    """Two solvers that share little, and Nelder and Mead's method on the risk itself, from the solution and from 0."""
    domain, l2 = DOMAINS["blocks"], 0.3
    X, y = data(domain, 25, seed)
    one = problem(loss, domain, 25, norm, 0.15)
    w = solved(one, X, y, l2, 1e-5)
    rough = solved(one, X, y, l2, 0.05, SmoothedAcceleratedGradient())
    assert np.linalg.norm(w - rough) <= 0.05 + 1e-5
    value = risk(one, X, y, w, l2)
    for start in (w, np.zeros(len(w))):
        options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000, "maxfev": 4000}
        found = minimize(lambda u: risk(one, X, y, u, l2), start, method="Nelder-Mead", options=options)
        assert value <= found.fun + 1e-7
    assert value <= min(risk(one, X, y, u, l2) for u in w + 0.1 * np.random.default_rng(0).standard_normal((500, 4)))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", [HingeLoss(), AbsoluteLoss(2.0), PinballLoss(0.8, 2.0)], ids=repr)
def test_dual_coordinate_ascent_over_cones(norm, loss) -> None:
    """The fast solver alone, at a radius that no smoothed method affords; warm and cold starts agree."""
    domain, n, l2 = DataDomain.l2_ball(10, 1.0).with_intercept(), 3000, 0.01
    X, y = np.random.default_rng(0).standard_normal((2, n, 10))
    one = problem(loss, domain, n, norm, 0.05)
    objective, cones = one.objective(X, X[:, 0] - X[:, 1] + 0.3 * y[:, 0], l2), one.constraint(math.inf)
    result = DualCoordinateAscent().solve(objective, 1e-3, cones)
    assert result.accuracy.bound <= 1e-3
    assert cones.contains(result.point)
    warm = DualCoordinateAscent().solve(objective, 1e-3, cones, result.point)
    assert np.linalg.norm(warm.point - result.point) <= 2e-3
    assert "duality gap" in result.accuracy.lemma


@pytest.mark.parametrize("norm", NORMS)
def test_a_ball_around_the_parameters(norm) -> None:
    """Tilted problems are minimized in a ball: against a projected search in the parameters themselves."""
    domain = DOMAINS["ball"]
    X, y = data(domain, 40, 3)
    y = X @ [3.0, -2.0, 1.0]
    one = problem(LogisticLoss(), domain, 40, norm, 0.05, tilt=1.0)
    cones = one.constraint(0.5)
    result = AcceleratedGradient().solve(one.objective(X, y, 1e-2), 1e-7, cones)
    w = one.parameters(result.point)
    assert np.linalg.norm(w) == pytest.approx(0.5, rel=1e-6)  # active
    rng = np.random.default_rng(0)
    rivals = w + np.geomspace(1e-4, 1, 2000)[:, None] * rng.standard_normal((2000, 4))
    rivals *= np.minimum(1, 0.5 / np.linalg.norm(rivals, axis=1))[:, None]
    assert risk(one, X, y, w, 1e-2) <= min(risk(one, X, y, u, 1e-2) for u in rivals) + 1e-9


@settings(max_examples=30)
@given(
    fill=st.sampled_from([0.0, 1e300, math.nan, math.inf, -1.0]),
    n=st.sampled_from([1, 2, 7]),
    norm=st.sampled_from(NORMS),
    loss=st.sampled_from(ATTACKED),
    s=st.sampled_from([1e-3, 0.5, 50.0]),
)
def test_degenerate_data_are_solved_to_the_radius(fill, n, norm, loss, s) -> None:
    domain = DOMAINS["ball"]
    one = problem(loss, domain, n, norm, s)
    X = np.full((n, 3), fill)
    X[0, 0] = 1.0
    l2 = 0.5
    radius = max(1e-5, one.certifiable_radius(l2))
    w = solved(one, X, np.full(n, fill), l2, radius)
    assert np.linalg.norm(w) <= one.minimizer_norm(l2) + radius


def test_an_adversary_who_can_cancel_all_features_leaves_the_intercept() -> None:
    domain = DOMAINS["ball"]
    X, y = data(domain, 30, 9)
    y = np.sign(X[:, 0]) + 0.5
    one = problem(LogisticLoss(), domain, 30, "l2", 1.1)
    w = solved(one, X, y, 0.05, 1e-9)
    assert np.all(w[:3] == 0)
    assert w[3] != 0


def test_an_adversary_between_the_largest_entry_and_the_largest_length_cannot() -> None:
    """In the corners of a cube an l2 attack of 0.82 leaves something of features of length 0.87, linf nothing."""
    domain, n, l2 = DataDomain.box(3, 0.5), 12, 0.05
    y = np.tile([1.0, -1.0], n // 2)
    X = 0.5 * y[:, None] * np.ones(3)
    some, none = (problem(LogisticLoss(), domain, n, norm, 0.82) for norm in NORMS)
    w = solved(some, X, y, l2, 1e-8)
    assert shortest_subgradient(some, X, y, w, l2) / l2 <= 1e-7
    assert np.all(w > 0.1)
    assert np.abs(solved(none, X, y, l2, 1e-8)).max() <= 1e-8


def test_a_vanishing_attack_changes_nothing() -> None:
    domain = DOMAINS["ball"]
    X, y = data(domain, 30, 10)
    plain = LinearModelProblem(LogisticLoss(), domain, 30, 2.0)
    w = default_solver(plain.bounds).solve(plain.objective(X, y, 0.1), 1e-9).point
    for norm in NORMS:
        np.testing.assert_allclose(
            solved(problem(LogisticLoss(), domain, 30, norm, 1e-9), X, y, 0.1, 1e-9), w, atol=1e-8
        )


@pytest.mark.parametrize("loss", [LogisticLoss(), SmoothedHingeLoss(0.3)], ids=repr)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("s", [0.3, 2.0])
def test_constants_at_given_parameters_count_the_attack(loss, norm, s) -> None:
    """The range of two records' losses, on which the noise of tilted losses rests, and the curvature."""
    domain, length = DataDomain.box(2, 0.5), 1.5
    one, plain = problem(loss, domain, 2, norm, s, tilt=1.0), LinearModelProblem(loss, domain, 2, 2.0, tilt=1.0)
    w, x, y = length * np.full(2, math.sqrt(0.5)), np.array([[-0.5, -0.5], [0.5, 0.5]]), np.ones(2)
    worst = worst_losses(one.attack, loss, x @ w, y, w, domain)
    assert plain.loss_range(length) < worst[0] - worst[1] <= one.loss_range(length)

    average = problem(loss, domain, 2, norm, s)

    def along(t):
        return float(worst_losses(average.attack, loss, t * x @ w, y, t * w, domain)[0])

    kink = (1 - 1e-9) / (length * average.feature_l2) * (0.0 if isinstance(loss, LogisticLoss) else 0.9)
    t, step = kink + 2e-3, 1e-3
    second = (along(t + step) - 2 * along(t) + along(t - step)) / (step * length) ** 2
    unattacked = LinearModelProblem(loss, domain, 2, 2.0).curvature
    assert second <= average.curvature * (1 + 1e-6)
    if isinstance(loss, LogisticLoss):
        assert second > max(0.98 * average.curvature, 1.5 * unattacked)


def test_numbers_of_numpy_become_python_s() -> None:
    one = problem(LogisticLoss(), DOMAINS["ball"], np.int64(30), "l2", np.float32(0.5), tilt=np.float32(1.0))
    assert json.loads(json.dumps(one.describe()))["attack_radius"] == 0.5
    assert one.log_weight_ratio(1.0) == problem(LogisticLoss(), DOMAINS["ball"], 30, "l2", 0.5, 1.0).log_weight_ratio(
        1.0
    )


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "tilt", "reason"),
    [
        (SoftmaxLoss(3), 0.0, "several outputs"),
        (HuberLoss(1.0, 2.0), 0.0, "neither smooth nor piecewise linear"),
        (SquaredLoss(1.0, 3.0), 0.0, "neither smooth nor piecewise linear"),
        (HingeLoss(), 1.0, "tilted hinge"),
        (AbsoluteLoss(1.0), 1.0, "tilted absolute"),
    ],
    ids=repr,
)
def test_problems_without_an_exact_smooth_form_are_refused(loss, tilt, reason) -> None:
    with pytest.raises(InvalidParameterError, match=f"^attack_radius=0.1.*{reason}"):
        problem(loss, DOMAINS["ball"], 10, "l2", 0.1, tilt)


@pytest.mark.parametrize(
    ("radius", "norm", "name"), [(-1.0, "l2", "radius"), (math.inf, "l2", "radius"), (1, "l1", "norm")]
)
def test_parameters_are_checked(radius, norm, name) -> None:
    with pytest.raises(InvalidParameterError, match=f"^attack_{name}="):
        problem(LogisticLoss(), DOMAINS["ball"], 10, norm, radius)


def test_every_smooth_two_class_loss_is_a_loss_of_the_margin() -> None:
    """What the lift relies on for smooth losses: value does not increase in ``y z`` (no rates: depends on it alone)."""
    z = np.linspace(-5, 5, 101)
    for loss in ONE_OUTPUT:
        if isinstance(loss, SmoothLoss) and loss.task == "classification":
            up, down = loss.value(z, np.ones(101)), loss.value(-z, -np.ones(101))
            if loss.rates is None:
                np.testing.assert_allclose(up, down, rtol=1e-13)
            assert np.all(np.diff(up) <= 1e-15)
            assert np.all(np.diff(down) <= 1e-15)
