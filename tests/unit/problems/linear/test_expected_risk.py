"""The model of ordinary data that ranks plans: its spectrum against explicit matrices, its predictions against fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize
from scipy.special import rel_entr

from dpconvex import NumericColumn, PrivateLogisticRegression, Schema, adult_schema, load_adult
from dpconvex.losses import HuberLoss, LogisticLoss, SmoothedHingeLoss, SoftmaxLoss, SquaredLoss
from dpconvex.problems import Block, DataDomain, Factor
from dpconvex.problems.data.domain import likely_values
from dpconvex.problems.linear.expected_risk import (
    ORDINARY,
    TypicalData,
    capped_curvature,
    is_marked,
    surrogate_excess,
    typical_curvature,
)
from dpconvex.problems.linear.problem import default_radius
from dpconvex.problems.linear.shapes import ExpectedShapes, Levels

MIXED = DataDomain((Block(3, "l1", 1.0), Block(2, "linf", 0.5), Block(4, "l1", 1.0)), 1.0)


def explicit(domain: DataDomain, scale: float) -> np.ndarray:
    """Second moments: blocks independent, levels equally frequent, moments about the mean times `scale`."""
    blocks, mean = [], []
    for block in domain.all_blocks:
        size = block.size
        if block.norm == "l1":
            p = np.full(size, 1 / size)
            blocks.append(block.bound**2 * scale * (np.diag(p) - np.outer(p, p)))
            mean.append(block.bound * p)
        else:
            blocks.append(block.bound**2 * scale * ORDINARY.numeric_variance * np.eye(size))
            mean.append(np.full(size, block.bound * ORDINARY.numeric_squared_mean**0.5))
    full = np.zeros((domain.dim, domain.dim))
    at = 0
    for part in blocks:
        full[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    center = np.concatenate(mean)
    return full + np.outer(center, center)


@given(l2=st.floats(1e-3, 1.0), seed=st.integers(0, 100))
def test_the_directions_are_those_of_the_matrix(l2: float, seed: int) -> None:
    """Averaged over the quantiles, each of which is an ordinary matrix; near enough: two numbers share a spectrum."""
    loss = LogisticLoss()
    typical = TypicalData.of(MIXED, loss, 2.0)
    rng = np.random.default_rng(seed)
    deviations = np.repeat(rng.uniform(0.1, 2, 4), [3, 2, 4, 1])
    first = typical.curvature[typical.block == 0]
    scales = first / (typical_curvature(loss) / 3)
    assert scales.mean() == pytest.approx(1)
    expected = []
    for scale in scales:
        H = typical_curvature(loss) * explicit(MIXED, scale)
        inverse = np.linalg.inv(H + l2 * np.eye(MIXED.dim))
        expected.append(np.trace(inverse @ H @ inverse @ np.diag(deviations**2)) / 2)
    assert typical.gradient_noise(l2, deviations) == pytest.approx(np.mean(expected), rel=0.15)


def test_a_number_counts_once_whether_missing_ones_are_marked_or_not() -> None:
    """As an l1 ball of two columns it counted for seven numbers, and zero was to lose more than it can."""
    plain, marked = (
        Schema(tuple(NumericColumn(f"x{k}", -1, 1, indicator=mark) for k in range(30))).domain().with_intercept(1.0)
        for mark in (False, True)
    )
    radii = [default_radius(domain) for domain in (plain, marked)]
    assert np.square(radii) == pytest.approx([30 * 4 + 4, 30 * 8 + 4])  # two columns of half-width 1/2
    expected = [
        TypicalData.of(domain, LogisticLoss(), radius) for domain, radius in zip((plain, marked), radii, strict=True)
    ]
    signals = [float(each.count @ (each.curvature * each.signal)) for each in expected]
    assert signals[1] == pytest.approx(signals[0], rel=0.2)  # with what the means of plain ones add
    assert expected[1].at_zero < np.log(2)
    assert not any(map(is_marked, MIXED.all_blocks))


def test_without_noise_and_ridge_nothing_is_lost() -> None:
    typical = TypicalData.of(MIXED, LogisticLoss(), 2.0)
    assert typical.shrinkage(1e-12) == pytest.approx(0, abs=1e-12)
    assert typical.shrinkage(1e12) == pytest.approx(typical.at_zero)
    assert typical.released_noise(np.zeros(MIXED.dim)) == 0
    ridges = np.geomspace(1e-4, 1e2, 20)
    assert (np.diff([typical.shrinkage(ridge) for ridge in ridges]) > 0).all()
    assert (np.diff([typical.gradient_noise(ridge, np.ones(MIXED.dim)) for ridge in ridges]) < 0).all()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_units_do_not_matter(scale: float) -> None:
    """Features s times as large, parameters and ridge to match."""
    small = TypicalData.of(DataDomain.box(5, 1.0).with_intercept(1.0), LogisticLoss(), 3.0)
    large = TypicalData.of(DataDomain.box(5, scale).with_intercept(scale), LogisticLoss(), 3.0 / scale)
    ones = np.ones(6)
    assert large.at_zero == pytest.approx(small.at_zero)
    assert large.shrinkage(0.1 * scale**2) == pytest.approx(small.shrinkage(0.1))
    assert large.gradient_noise(0.1 * scale**2, scale * ones) == pytest.approx(small.gradient_noise(0.1, ones))


def test_softmax_of_two_classes_is_logistic() -> None:
    """Two outputs +w/2 and -w/2: half the squared norm each, half the ridge's pull, twice the curvature."""
    logistic = TypicalData.of(MIXED, LogisticLoss(), 2.0)
    softmax = TypicalData.of(MIXED, SoftmaxLoss(2), 2.0 / np.sqrt(2))
    assert softmax.at_zero == pytest.approx(logistic.at_zero)
    assert softmax.shrinkage(0.2) == pytest.approx(logistic.shrinkage(0.1))


@pytest.mark.parametrize(
    "loss", [LogisticLoss(), SoftmaxLoss(5), SmoothedHingeLoss(0.5), HuberLoss(0.3), SquaredLoss(1.0)]
)
def test_the_typical_curvature_is_one_that_the_loss_can_have(loss) -> None:
    assert 0 < typical_curvature(loss) <= loss.curvature_bound


@pytest.mark.thin
@pytest.mark.parametrize("cap", [0.5, 0.6, 0.7, 0.8, 0.9])
@pytest.mark.dear("0.5")
def test_the_price_of_a_capped_slope(cap: float) -> None:
    """Against a fit of simulated calibrated data with as many coefficients as a scale and a shift, read as planned."""
    priced = surrogate_excess(LogisticLoss(cap), LogisticLoss())
    rng = np.random.default_rng(1)
    z = rng.normal(0, 2, 400_000)
    y = np.where(rng.uniform(size=len(z)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    capped, plain = LogisticLoss(cap), LogisticLoss()

    def risk(loss, w: np.ndarray) -> float:
        return float(loss.value(w[0] * z + w[1], y).mean())

    fits = [minimize(lambda w, loss=loss: risk(loss, w), [1.0, 0.0]).x for loss in (capped, plain)]
    read = LogisticLoss(cap**0.5).log_odds(fits[0][0] * z + fits[0][1])
    assert priced == pytest.approx(float(plain.value(read, y).mean()) - risk(plain, fits[1]), abs=2e-4)
    assert 0 <= priced <= risk(plain, fits[0]) - risk(plain, fits[1]) + 2e-4


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0])
def test_expected_and_measured_excess_agree_on_adult(epsilon: float) -> None:
    """Within a factor of 2.5: the spread of the spectrum was chosen on this table. Seeds fixed."""
    schema, frame = adult_schema(), load_adult()
    X, y = schema.encode(frame), schema.encode_target(frame)

    def log_loss(model) -> float:
        return float(np.logaddexp(0, -(2 * y - 1) * (X @ model.coef_[0] + model.intercept_[0])).mean())

    domain = schema.domain()
    models = [
        PrivateLogisticRegression(
            e, domain=domain, algorithm="objective_perturbation", random_state=seed, classes=[0, 1]
        ).fit(X, y)
        for e, seed in [(1e5, 0), *((epsilon, k) for k in range(3))]
    ]
    measured = np.mean([log_loss(model) for model in models[1:]]) - log_loss(models[0])
    assert 0.4 < measured / models[1].plan_.predicted_error.expected < 2.5


@pytest.mark.parametrize(("rate", "exact"), [(0.02, False), (0.9, False), (0.02, True), (0.4, False), (None, False)])
@pytest.mark.parametrize("shaped", [False, True], ids=["linear", "shapes"])
def test_plans_count_how_far_the_start_is_from_public_rates(rate: float | None, exact: bool, shaped: bool) -> None:
    """With an infinite ridge all of the divergence of the rates from the start is left, without one nothing."""
    domain, loss = DataDomain.box(3, 0.5).with_intercept(1.0), LogisticLoss(rate=rate, exact=exact)
    typical = TypicalData.of(domain, loss, 2.0)
    if shaped:
        shapes = ExpectedShapes((Levels(3), Levels(2)), 1.0)
        blocks = DataDomain((Block(3, "l1", 1.0, "one_hot"), Block(2, "l1", 1.0, "one_hot")), 1.0)
        factor = Factor.of(blocks, [0.4, 0.3, 0.3], lambda block: None)
        typical = shapes.typical(loss, factor, 1.0)
    left = [typical.unlearned(l2) - typical.shrinkage(l2) for l2 in (1e-12, 0.01, 0.1, 1e12)]
    start = 1 / 3 if rate is None or rate < 0.5 else 2 / 3
    pairs = [] if rate is None or rate == 0.4 or exact else [(rate, start), (1 - rate, 1 - start)]
    gap = sum(float(rel_entr(*pair)) for pair in pairs)
    assert left[-1] == pytest.approx(gap, rel=1e-6)
    assert left[0] == pytest.approx(0.0, abs=1e-6)
    assert left == sorted(left)


@pytest.mark.parametrize(
    ("rates", "exact"), [(None, False), (0.5, False), (0.5, True)], ids=["", "rates", "start at rates"]
)
def test_the_constant_and_a_number_that_is_off_center_are_correlated(rates, exact) -> None:
    """One number: noise and signal of an explicit matrix; a start at the rates leaves the constant no signal."""
    domain, loss = DataDomain.box(1, 0.5).with_intercept(1.0), LogisticLoss(rate=rates, exact=exact)
    typical, tuning = TypicalData.of(domain, loss, 2.0), ORDINARY
    m = np.array([0.5 * tuning.numeric_squared_mean**0.5, 1.0])
    H = typical_curvature(loss) * (np.diag([tuning.numeric_variance / 4, 0.0]) + np.outer(m, m))
    deviations, l2 = np.array([0.3, 2.0]), 1e-4
    inverse = np.linalg.inv(H + l2 * np.eye(2))
    expected = np.trace(inverse @ H @ inverse @ np.diag(deviations**2)) / 2
    assert typical.gradient_noise(l2, deviations) == pytest.approx(expected)
    shares = np.array([4.0, 4.0]) / 8 * tuning.squared_length * 4
    signal = shares[0] * np.outer([1, -m[0]], [1, -m[0]]) if exact else np.diag(shares)
    assert typical.at_zero == pytest.approx(np.trace(H @ signal) / 2)
    shrunk = l2 * inverse
    assert typical.shrinkage(l2) == pytest.approx(np.trace(H @ shrunk @ signal @ shrunk) / 2)
    costs = [np.diag(inverse @ H @ inverse)[k] / 2 for k in range(2)]
    np.testing.assert_allclose(typical.noise_costs(l2), costs)
    assert costs[1] > 1.5 / H[1, 1] / 2


def test_what_ranges_let_plans_guess() -> None:
    found = [likely_values(*each) for each in ((-2.0, 2.0), (0.0, 1.0), (0.0, 2.0), (-1.0, 2.0))]
    assert found == ["centered", "binary", "any", "any"]
    kinds = [TypicalData.of(DataDomain((Block(1, "linf", 0.5, "", v),), 1.0), LogisticLoss(), 2.0) for v in found[:3]]
    costs = [typical.noise_costs(1e-6) for typical in kinds]
    assert costs[1][0] < costs[0][0] / 3  # two values at the ends of a range spread more than other numbers
    assert costs[0][1] < costs[2][1]  # noise in the constant costs least beside numbers of mean 0
    schema = Schema((NumericColumn("a", -2, 2), NumericColumn("b", 0, 1), NumericColumn("c", 0, 1, "log1p")))
    assert [block.values for block in schema.domain().blocks] == ["centered", "binary", "any"]


SQUARED = SquaredLoss(0.5, prediction_bound=0.5)


def test_predictions_of_numbers_vary_as_is_said_however_many_columns_there_are() -> None:
    for columns in (2, 40):
        domain = DataDomain((Block(columns, "linf", 0.5, "", "centered"), Block(3, "l1", 1.0)), 1.0)
        found = [TypicalData.of(domain, SQUARED, 3.0, explained=given) for given in (0.006, 0.012)]
        constant = 2 * found[0].at_zero - found[1].at_zero
        assert found[1].at_zero - found[0].at_zero == pytest.approx(0.003, rel=1e-6)  # half the variance
        assert constant == pytest.approx(TypicalData.of(domain, SQUARED, 3.0, explained=1e-12).at_zero, rel=1e-6)


def test_a_cap_on_residuals_flattens_the_loss_and_errors_count_in_the_usual_one() -> None:
    domain = DataDomain.box(5, 0.5).with_intercept(1.0)
    plain, ridge, deviations = TypicalData.of(domain, SQUARED, 3.0, explained=0.006), 1e-3, np.full(6, 1e-3)
    for cap, told in ((0.25, None), (0.0625, None), (0.25, ORDINARY.residual_in_part)):
        loss = HuberLoss(cap, 0.5, of_mean=True)
        capped = TypicalData.of(domain, loss, 3.0, explained=0.006, residual=told)
        share, deviation = capped_curvature(loss, told), told or ORDINARY.residual_deviation
        residuals = np.random.default_rng(0).exponential(deviation, 100_000) - deviation
        assert share == pytest.approx((np.abs(residuals) <= cap).mean(), abs=0.01)
        assert capped.at_zero == pytest.approx(plain.at_zero)
        assert capped.bias == pytest.approx(surrogate_excess(loss, loss.usual, told))
        # The minimizer of share * (S, ridge / share): as the squared loss has it with less ridge and more noise.
        assert capped.shrinkage(ridge * share) - capped.bias == pytest.approx(plain.shrinkage(ridge))
        assert capped.gradient_noise(ridge * share, deviations * share) == pytest.approx(
            plain.gradient_noise(ridge, deviations)
        )
