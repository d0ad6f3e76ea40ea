"""Record losses, whole objectives, JAX losses, and the attack that refutes wrong constants."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize

from dpconvex import attack_constants
from dpconvex._types import Status
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems import CustomProblem, DataDomain, LocationLoss, RecordLoss, Records, WholeObjective, jax_loss
from dpconvex.sets import L2Ball, WholeSpace
from dpconvex.solvers import LBFGS, AcceleratedGradient, NewtonCholesky, Subgradient, default_solver
from dpconvex_experiments.reference.objectives import LogLinearDensity, MaxRisk

DISC = DataDomain.l2_ball(2, 1.0)


def points(n, seed=0, width=2, scale=0.5):
    return scale * np.random.default_rng(seed).standard_normal((n, width))


@dataclass(frozen=True)
class Claimed(RecordLoss):
    """``factor |w - x|^2 / 2`` with claims to choose from; true ones: 1-Lipschitz within 1 of the disc, smooth 1."""

    slope: float = 2.0
    curvature: float = 1.0
    at_zero: float = 0.5
    sign: float = 1.0
    wrong: float = 1.0
    name = "claimed"
    domain = DISC
    dim = 2

    @property
    def smoothness(self):
        return self.curvature

    @property
    def value_at_zero(self):
        return self.at_zero

    def lipschitz(self, radius):
        return self.slope

    def value(self, w, records):
        return self.sign * np.square(w - records).sum(1) / 2

    def gradient(self, w, records):
        return self.wrong * self.sign * (w - records)


@pytest.fixture
def trials(full: bool) -> int:
    return 200 if full else 80


@pytest.mark.parametrize(
    ("change", "beaten"),
    [
        ({"slope": 1.9}, "lipschitz"),
        ({"curvature": 0.95}, "smoothness"),
        ({"curvature": 0.0}, "smoothness"),
        ({"at_zero": 0.45}, "value_at_zero"),
        ({"at_zero": 0.0}, "value_at_zero"),
        ({"sign": -1.0}, "convexity"),
        ({"wrong": 1.05}, "convexity"),
        ({"wrong": -1.0}, "convexity"),
    ],
)
@pytest.mark.thin
@pytest.mark.dear("change0-lipschitz")
def test_wrong_claims_are_refuted(change, beaten, trials) -> None:
    found = attack_constants(replace(Claimed(), **change), trials=trials)
    assert not found.holds
    assert getattr(found, beaten) > (0.001 if beaten == "convexity" else 1.0)


@pytest.mark.gate
def test_true_claims_are_not_refuted() -> None:
    assert attack_constants(Claimed()).holds


def test_a_function_that_is_not_finite_is_refuted(trials) -> None:
    assert not attack_constants(Claimed(sign=math.nan), trials=trials).holds


class Bounded(Claimed):
    """Finite in the ball of radius 1 only: accelerated steps would look further."""

    def value(self, w, records):
        return super().value(w, records) / (1.0 if np.linalg.norm(w) < 1 + 1e-9 else math.nan)


class Bent(Claimed):
    """Convex in the ball of radius 1, and a hill outside; claims of slope and curvature hold."""

    def value(self, w, records):
        return super().value(w, records) - np.square(max(0.0, np.linalg.norm(w) - 1.1))

    def gradient(self, w, records):
        norm = np.linalg.norm(w)
        return super().gradient(w, records) - 2 * max(0.0, norm - 1.1) * w / max(norm, 1e-9)


class Centered(Claimed):
    """Looks at the other records."""

    def value(self, w, records):
        return super().value(w, records - records.mean(0))

    def gradient(self, w, records):
        return super().gradient(w, records - records.mean(0))


@pytest.mark.gate
def test_what_happens_outside_the_ball_and_between_records_is_attacked(trials) -> None:
    assert math.isinf(attack_constants(Bounded(), trials=trials).convexity)
    assert attack_constants(Bent(curvature=3.0), trials=trials).convexity > 1e-3
    assert attack_constants(Centered(), trials=trials).separability > 1e-2


class Misshapen(Claimed):
    """Broadcasting would hide all of these."""

    def __init__(self, what):
        object.__setattr__(self, "what", what)

    def value(self, w, records):
        found = super().value(w, records)
        return {"column": found[:, None], "square": found[:, None] + 0 * found}.get(self.what, found)

    def gradient(self, w, records):
        found = super().gradient(w, records)
        return {"sum": found.sum(0), "one": found[:, :1]}.get(self.what, found)

    def sums(self, w, records):
        value, gradient = super().sums(w, records)
        return value, gradient[:1] if self.what == "sums" else gradient


@pytest.mark.parametrize("what", ["column", "square", "sum", "one", "sums"])
def test_shapes_are_checked(what) -> None:
    with pytest.raises(InvalidParameterError, match="shape"):
        Misshapen(what).total(np.zeros(2), Records.clipped(points(5), DISC))


class Meddling(Claimed):
    """Writes into what it is given."""

    def gradient(self, w, records):
        return np.subtract(w, records, out=w if len(records) == 1 else records)


@pytest.mark.parametrize("n", [1, 4])
def test_functions_cannot_change_records_or_parameters(n) -> None:
    X = points(n, scale=0.1)
    before = X.copy()
    with pytest.raises(ValueError, match="read-only"):
        CustomProblem(Meddling(), n, 1.0).objective(X, np.zeros(n), 0.1).gradient(np.zeros(2))
    np.testing.assert_array_equal(X, before)


def test_equal_summands_round_within_the_slack() -> None:
    """65536 equal records; a plain sum over rows is 7 times the slack off for some of these points."""
    loss = LocationLoss(DataDomain.box(2, 1.0), 0.5)
    for seed in range(6):
        x, w = np.random.default_rng(seed).uniform(-1, 1, (2, 2)) * [[1], [0.5]]
        risk = CustomProblem(loss, 65536, 1.0).objective(np.tile(x, (65536, 1)), np.zeros(65536), 1e-6)
        error = loss.total(w, risk.records)[1] - loss.gradient(w, x[None])[0]
        assert np.linalg.norm(error) <= 0.1 * risk.gradient_rounding(w)


def test_accuracy_rests_on_no_claim_but_those_listed() -> None:
    """A wrong `value_at_zero`, which no certificate lists, shortens no step count."""
    lie, X = Claimed(at_zero=0.0), points(9)
    risk = CustomProblem(lie, 9, 1.0).objective(X, np.zeros(9), 0.01)
    assert risk.initial_gap == CustomProblem(Claimed(), 9, 1.0).objective(X, np.zeros(9), 0.01).initial_gap > 0


@dataclass(frozen=True)
class Contrasting(Claimed):
    distance: float = 1.0

    def contrast(self, radius):
        return self.distance


def test_contrast_is_positive_and_at_most_twice_the_slope() -> None:
    assert CustomProblem(Contrasting(distance=100.0), 3, 1.0).contrast == 4.0
    assert CustomProblem(Contrasting(), 3, 1.0).contrast == 1.0
    for wrong in (-1.0, 0.0, math.nan, math.inf):
        with pytest.raises(InvalidParameterError, match="contrast="):
            CustomProblem(Contrasting(distance=wrong), 3, 1.0)


@pytest.mark.parametrize("loss", [LocationLoss(DISC, 0.3), LogLinearDensity(4, 30)], ids=lambda loss: loss.name)
def test_totals_are_means_whatever_the_blocks(loss, monkeypatch) -> None:
    X = points(5000, width=loss.domain.n_features)
    records, w = Records.clipped(X, loss.domain), np.full(loss.dim, 0.3)
    clipped = loss.domain.clip(X)
    expected = loss.value(w, clipped).mean(), loss.gradient(w, clipped).mean(0)
    for size in (2**20, 100):
        monkeypatch.setattr("dpconvex.problems.custom.functions._BLOCK", size)
        value, gradient = loss.total(w, records)
        assert value == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-10, atol=1e-14)


def test_density_is_a_density_and_fits() -> None:
    """At the maximum likelihood the model's expected statistics are the data's."""
    loss = LogLinearDensity(3, 50)
    X = np.random.default_rng(0).uniform(-0.5, 0.8, (2000, 1))
    risk = CustomProblem(loss, 2000, 50.0).objective(X, np.zeros(2000), 1e-6)
    found = default_solver(risk.bounds, L2Ball(50.0), 3).solve(risk, 1e-3, L2Ball(50.0))
    grid, probabilities = loss.density(found.point)
    assert probabilities.sum() == pytest.approx(1.0)
    statistics = np.cos(np.pi * np.outer(grid + 1, [1, 2, 3]) / 2)
    nearest = np.abs(grid[:, None] - X[:, 0]).argmin(0)
    np.testing.assert_allclose(probabilities @ statistics, statistics[nearest].mean(0), atol=1e-3)


@pytest.mark.parametrize("radius", [0.2, 2.0])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.gate) for seed in (1, 2))])
def test_solvers_certify_the_truth(seed, radius) -> None:
    """Against SciPy's constrained minimizer, with the ball active and not."""
    X = points(30, seed, scale=1.0) + 0.5
    loss = LocationLoss(DISC, 0.3)
    fast = default_solver(CustomProblem(loss, 30, 1.0).bounds, L2Ball(1.0), 2)
    cases = [(loss, (fast, AcceleratedGradient()), 1e-7), (MaxRisk(loss), (Subgradient(),), 0.05)]
    for function, solvers, accuracy in cases:
        risk, ball = CustomProblem(function, 30, radius).objective(X, np.zeros(30), 0.2), L2Ball(radius)
        epigraph = minimize(
            lambda v: v[0],
            np.array([2.0, 0.0, 0.0]),
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda v, radius=radius: radius**2 - v[1:] @ v[1:],
                    "jac": lambda v: np.array([0.0, *(-2 * v[1:])]),
                },
                {
                    "type": "ineq",
                    "fun": lambda v, risk=risk: v[0] - risk.value(v[1:]),
                    "jac": lambda v, risk=risk: np.array([1.0, *-risk.value_and_gradient(v[1:])[1]]),
                },
            ],
            jac=lambda v: np.array([1.0, 0.0, 0.0]),
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
        for solver in solvers:
            found = solver.solve(risk, accuracy, ball)
            assert found.status is Status.CERTIFIED
            assert ball.contains(found.point)
            assert np.linalg.norm(found.point - epigraph.x[1:]) <= found.accuracy.bound + 2e-5


def test_linear_model_solvers_refuse() -> None:
    problem = CustomProblem(LocationLoss(DISC), 3, 1.0)
    risk = problem.objective(points(3), np.zeros(3), 1.0)
    with pytest.raises(InvalidParameterError, match="linear-model"):
        NewtonCholesky().solve(risk, 0.1)
    with pytest.raises(InvalidParameterError, match="bounded slope or a bounded constraint"):
        Subgradient().solve(risk, 1.0)
    assert LBFGS().refusal(problem.bounds, WholeSpace(), 2) is None


def test_differences_of_gradients_serve_as_hessian_products() -> None:
    loss = LogLinearDensity(4, 30)
    risk = CustomProblem(loss, 9, 1.0).objective(points(9, width=1), np.zeros(9), 0.1)
    w, v = np.array([0.3, -0.2, 0.5, 0.1]), np.array([1.0, 2.0, 0.0, -1.0])
    _, p = loss.density(w)
    T = np.cos(np.pi * np.outer(np.linspace(-1, 1, 30) + 1, [1, 2, 3, 4]) / 2) / 2
    covariance = (T * p[:, None]).T @ T - np.outer(p @ T, p @ T)
    np.testing.assert_allclose(risk.hessian_product(w, v), covariance @ v + 0.1 * v, rtol=1e-6)
    assert not risk.hessian_product(w, np.zeros(4)).any()


def test_max_risk_is_the_largest_loss() -> None:
    loss, X, w = LocationLoss(DISC, 0.2), points(9), np.array([0.1, 0.2])
    losses = loss.value(w, DISC.clip(X))
    value, gradient = MaxRisk(loss).total(w, Records.clipped(X, DISC))
    assert value == losses.max()
    np.testing.assert_array_equal(gradient, loss.gradient(w, DISC.clip(X))[losses.argmax()])
    assert MaxRisk(loss).value_and_gradient(w, DISC.clip(X))[0] == value


class Spread(WholeObjective):
    """``|w - mean|^2 / 2``, written on all records at once."""

    name, domain, dim, smoothness = "spread", DISC, 2, 1.0

    def lipschitz(self, radius):
        return radius + 1

    def value_and_gradient(self, w, records):
        center = records.mean(0)
        return float(np.square(w - center).sum() / 2), w - center


def test_whole_objectives_see_all_records(full) -> None:
    X = points(6)
    value, gradient = Spread().total(np.zeros(2), Records.clipped(X, DISC))
    center = DISC.clip(X).mean(0)
    assert value == pytest.approx(center @ center / 2)
    np.testing.assert_allclose(gradient, -center)
    assert attack_constants(Spread(), trials=200 if full else 100).holds
    assert Spread.examples() == ()


@pytest.mark.gate
def test_jax_derives_values_and_gradients_in_float64() -> None:
    pytest.importorskip("jax")
    trials = 60
    import jax.numpy as jnp

    def f(w, x):
        return jnp.sqrt(0.09 + jnp.sum((w - x) ** 2)) - 0.3

    loss = jax_loss(f, dim=2, domain=DISC, lipschitz=1.0, smoothness=1 / 0.3, name="center")
    twin, w, X = LocationLoss(DISC, 0.3), np.array([0.1, -0.4]), DISC.clip(points(50))
    np.testing.assert_allclose(loss.value(w, X), twin.value(w, X), rtol=1e-13)
    np.testing.assert_allclose(loss.gradient(w, X), twin.gradient(w, X), rtol=1e-12, atol=1e-15)
    for mine, theirs in zip(loss.sums(w, X), twin.sums(w, X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13)
    assert attack_constants(loss, trials=trials).holds
    assert not attack_constants(jax_loss(f, dim=2, domain=DISC, lipschitz=0.8), trials=trials).holds
    assert jax_loss(f, dim=2, domain=DISC, lipschitz=lambda radius: 2 * radius).lipschitz(3.0) == 6.0
    assert jnp.zeros(1).dtype == jnp.float32  # the setting of other code is as it was


def test_jax_functions_cannot_lose_digits_or_raise_for_content() -> None:
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    single = jax_loss(lambda w, x: jnp.sum((w - x) ** 2).astype(jnp.float32), dim=2, domain=DISC, lipschitz=4.0)
    with pytest.raises(InvalidParameterError, match="float64"):
        single.total(np.zeros(2), Records.clipped(points(3), DISC))
    kinked = jax_loss(lambda w, x: jnp.sqrt(jnp.sum((w - x) ** 2)), dim=2, domain=DISC, lipschitz=1.0)
    with jax.debug_nans(True):  # a setting that would raise where w = x
        assert np.isnan(kinked.total(np.zeros(2), Records.clipped(np.zeros((3, 2)), DISC))[1]).all()


def test_without_jax_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"dpconvex\[jax\]"):
        jax_loss(lambda w, x: w, dim=1, domain=DISC, lipschitz=1.0)


def test_public_errors() -> None:
    loss = LocationLoss(DISC)
    for name, change in {"n": {"n": 0}, "radius": {"radius": 0.0}, "max_steps": {"max_steps": 0}}.items():
        with pytest.raises(InvalidParameterError, match=f"{name}="):
            CustomProblem(**{"function": loss, "n": 3, "radius": 1.0, **change})
    for name, change in {"lipschitz": {"slope": math.inf}, "smoothness": {"curvature": -1.0}}.items():
        with pytest.raises(InvalidParameterError, match=f"{name}="):
            CustomProblem(replace(Claimed(), **change), 3, 1.0)
    with pytest.raises(InvalidParameterError, match="value_at_zero="):
        CustomProblem(Claimed(at_zero=math.nan), 3, 1.0)
    with pytest.raises(InvalidParameterError, match="domain="):
        CustomProblem(LocationLoss(DISC.with_intercept()), 3, 1.0)
    with pytest.raises(InvalidParameterError, match="width="):
        LocationLoss(DISC, 0.0)
    with pytest.raises(InvalidParameterError, match="terms="):
        LogLinearDensity(9, 9)
    with pytest.raises(InvalidParameterError, match="radius="):
        attack_constants(loss, 0.0)
    with pytest.raises(InvalidDataError, match="shape"):
        CustomProblem(loss, 3, 1.0).objective(np.zeros((3, 5)), np.zeros(3), 1.0)


def test_jax_functions_must_return_a_scalar() -> None:
    pytest.importorskip("jax")
    with pytest.raises(InvalidParameterError, match="must return a scalar"):
        jax_loss(lambda w, x: w - x, dim=2, domain=DISC, lipschitz=1.0, name="vector")


def test_trust_is_yes_or_no() -> None:
    """A string would count as True, and privacy would rest on claims that the caller did not mean to stand behind."""
    with pytest.raises(InvalidParameterError, match="trusted"):
        CustomProblem(LocationLoss(DISC, 1.0), 5, 1.0, trusted="False")  # pyright: ignore[reportArgumentType]


def test_numbers_of_any_type_are_floats_and_other_functions_are_named() -> None:
    problem = CustomProblem(LocationLoss(DISC, width=np.float32(0.3)), 100, np.float32(0.7))
    assert type(problem.radius) is type(problem.function.width) is float
    assert type(L2Ball(np.float32(1)).radius) is float
    with pytest.raises(InvalidParameterError, match=r"function='function': must be a RecordLoss"):
        CustomProblem(lambda w, x: 0.0, 100, 1.0)
