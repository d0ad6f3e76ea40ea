"""Public class shares: where predictions start, what they leave unchanged, who may state them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateLogisticRegression,
    Schema,
    load_model,
    save_model,
    verify,
)
from dpconvex.data import ClassTarget
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LogisticLoss, SoftmaxLoss
from dpconvex.losses.classification import RAREST
from dpconvex.solvers.stochastic import slope_curve

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 2))
TWO = (RNG.random(400) < 1 / (1 + np.exp(1.5 - 2 * X[:, 0]))).astype(int)
THREE = TWO + (X[:, 1] > 0.5)
LISTS: dict[int, tuple[np.ndarray, list[float]]] = {2: (TWO, [0.86, 0.14]), 3: (THREE, [0.7, 0.2, 0.1])}


def model(k: int = 2, epsilon: float = 1.0, **options: Any) -> PrivateLogisticRegression:
    given: dict[str, Any] = {"classes": list(range(k)), "rates": LISTS[k][1], "feature_bounds": (-1, 1), **options}
    return PrivateLogisticRegression(epsilon, random_state=0, **given)


@pytest.mark.parametrize("k", [2, 3])
def test_coefficients_0_predict_the_rates(k: int) -> None:
    y, rates = LISTS[k]
    fit = model(k, l2=1e4, algorithm="objective_perturbation", slope_cap=1.0).set_params(random_state=None)
    fitted = fit.fit(X, y)  # such a penalty leaves no other coefficients
    start = [1 - RAREST, RAREST] if k == 2 else rates  # of two classes, the rarer one starts at a third at least
    assert np.abs(fitted.predict_proba(X) - start).max() < 2e-3
    assert verify(fitted.certificate_).passed
    stated = fitted.certificate_.public
    assert stated["rate"] == 0.14 if k == 2 else stated["rates"] == rates


@pytest.mark.parametrize("k", [2, 3])
def test_without_noise_and_penalty_rates_change_no_prediction(k: int) -> None:
    y, _ = LISTS[k]
    told, blind = (
        model(k, 1e6, l2=1e-5, algorithm="output_perturbation", rates=rates).fit(X, y) for rates in (LISTS[k][1], None)
    )
    assert np.abs(told.predict_proba(X) - blind.predict_proba(X)).max() < 1e-3


@pytest.mark.parametrize("k", [2, 3])
def test_rates_change_no_price(k: int) -> None:
    """Slopes, curvatures and their law hold at every prediction, so also at moved ones."""
    options = {"l2": 0.1, "algorithm": "objective_perturbation", "noise": "l2"}
    told, blind = (model(k, rates=rates, **options).plan(400, 2)[0] for rates in (LISTS[k][1], None))
    if k == 2:  # the cap is chosen by what is expected
        told, blind = (model(2, rates=r, slope_cap=1.0, **options).plan(400, 2)[0] for r in (LISTS[2][1], None))
    assert told.releases == blind.releases
    assert told.problem.value_at_zero > blind.problem.value_at_zero  # the loss at 0 alone is another


@pytest.mark.parametrize("saturating", [False, True])
@pytest.mark.parametrize("cap", [1.0, 0.7, 0.5, 0.3])
def test_the_offset_is_the_best_constant_of_the_capped_loss(cap: float, saturating: bool) -> None:
    for rate in (0.02, 0.14, 0.6):
        loss, plain = LogisticLoss(cap, rate, saturating), LogisticLoss(cap, saturating=saturating)
        assert loss.rates is not None
        assert loss.rates[1] == (rate if rate > RAREST else RAREST)

        def mean(z: Any, share: float, plain: LogisticLoss = plain) -> np.ndarray:
            z = np.atleast_1d(z)
            return share * plain.value(z, np.ones(len(z))) + (1 - share) * plain.value(z, -np.ones(len(z)))

        z = np.linspace(-8, 8, 16_001)
        assert loss.trivial == pytest.approx(mean(z, rate).min(), abs=1e-6)  # what the best constant loses
        assert loss.trivial <= mean(z, rate).min() + 1e-12
        assert mean(loss.offset, loss.rates[1])[0] <= mean(z, loss.rates[1]).min() + 1e-12  # where predictions start
        assert loss.value_at_zero >= loss.value(np.zeros(2), np.array([1.0, -1.0])).max()


@pytest.mark.parametrize("cap", [1e-10, 1e-30, 1e-100])
def test_tiny_caps_have_a_best_constant(cap: float) -> None:
    saturating, plain = LogisticLoss(cap, 0.3, saturating=True), LogisticLoss(cap, 0.3)
    assert saturating.offset == pytest.approx(plain.offset)  # there both classes' slopes are far from the cap
    assert 0 < saturating.trivial < LogisticLoss(cap, saturating=True).trivial < 0.01


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("weights", [{}, {"class_weight": [1.0, 2.0, 2.0]}])
def test_a_constant_predicts_the_rates_as_they_were_told(k: int, weights: dict[str, Any]) -> None:
    """However rare a class is: there are no columns whose slopes a rare start would lower."""
    y, _ = LISTS[k]
    rates = [0.985, 0.015] if k == 2 else [0.9, 0.085, 0.015]
    own = {name: value[:k] for name, value in weights.items()}
    fitted = model(k, 0.1, rates=rates, algorithm="constant", **own).set_params(random_state=None).fit(X, y)
    assert np.abs(fitted.predict_proba(X) - rates).max() < 2e-3
    deviation = fitted.plan_.coefficient_deviation
    assert deviation is not None
    assert deviation.max() < 0.1
    assert verify(fitted.certificate_).passed


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateAdditiveClassifier])
def test_a_constant_is_planned_where_few_records_have_a_rare_class(kind: Any) -> None:
    """A fit starts at a third, and 1,000 records cannot bring it to 2 %; even classes have no such way to go."""
    columns = tuple(NumericColumn(f"x{k}", 0, 1) for k in range(10))

    def planned(rate: float) -> str:
        target = ClassTarget("y", ("no", "yes"), rates=(1 - rate, rate))
        return kind(0.15, schema=Schema(columns, target)).plan(1_000)[0].algorithm

    assert [planned(rate) for rate in (0.02, 1 / 3, 0.5)] == ["constant"] + ["objective_perturbation"] * 2


def test_compiled_slopes_are_moved_too() -> None:
    loss, y = LogisticLoss(rate=0.14), np.array([-1.0, 1.0])
    curve = slope_curve(loss, y)
    assert curve is not None
    for z in (-3.0, 0.0, 2.0):
        offset, amplitude, shift = curve.records.T
        assert offset + amplitude * np.tanh((z - shift) / curve.scale) == pytest.approx(loss.derivative(z + 0 * y, y))


def test_a_schema_states_them_and_the_caller_goes_first(tmp_path: Path) -> None:
    columns = (NumericColumn("a", -1, 1), CategoricalColumn("b", ("u", "v")))
    schema = Schema(columns, ClassTarget("t", ("no", "yes"), (0.86, 0.14)))
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "u", "v"), "t": np.where(TWO, "yes", "no")})
    options: dict[str, Any] = {"l2": 1e4, "random_state": 0, "algorithm": "objective_perturbation"}
    fitted = PrivateLogisticRegression(1.0, schema=schema, **options).fit(table)
    assert np.abs(fitted.predict_proba(table)[:, 1] - RAREST).max() < 2e-3
    other = PrivateLogisticRegression(1.0, schema=schema, rates=[0.5, 0.5], **options).fit(table)
    assert np.abs(other.predict_proba(table) - 0.5).max() < 2e-3
    turned = PrivateLogisticRegression(1.0, schema=schema, classes=["yes", "no"], **options)
    assert turned.plan(400)[0].problem.loss.rates is None  # the schema's shares have the order of its classes
    save_model(fitted, tmp_path / "m.skops")
    assert np.array_equal(load_model(tmp_path / "m.skops").predict_proba(table), fitted.predict_proba(table))


def test_shares_are_checked() -> None:
    for rates in ([0.5], [0.5, 0.4], [1.0, 0.0], [1.2, -0.2], [0.5, float("nan")], "ab", 0.14, [0.5, True]):
        with pytest.raises(InvalidParameterError, match="rates"):
            model(rates=rates).plan(100, 2)
        with pytest.raises(InvalidParameterError, match="rates"):
            ClassTarget("t", ("a", "b"), rates)  # pyright: ignore[reportArgumentType]
    for classes in (None, "infer"):
        with pytest.raises(InvalidParameterError, match="declared classes"):
            model(classes=classes).plan(100, 2)
    rounded = SoftmaxLoss(3, (0.33, 0.33, 0.33)).rates  # as publications round them
    assert rounded == pytest.approx((1 / 3, 1 / 3, 1 / 3))


@pytest.mark.parametrize("k", [2, 3])
def test_a_saved_model_with_rates_is_read_again(k: int, tmp_path: Path) -> None:
    y, rates = LISTS[k]
    classes = tuple("abc"[:k])
    columns = tuple(NumericColumn(name, -1, 1) for name in ("u", "v"))
    schema = Schema(columns, ClassTarget("y", classes, rates=tuple(rates)))
    table = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "y": np.array(classes)[y]})
    listed = model(k).set_params(random_state=None).fit(X, y)
    stated = PrivateLogisticRegression(schema=schema).fit(table)
    for number, (fitted, data) in enumerate(((listed, X), (stated, table))):
        save_model(fitted, tmp_path / f"{number}.skops")
        read: Any = load_model(tmp_path / f"{number}.skops")
        assert (read.predict_proba(data) == fitted.predict_proba(data)).all()
        assert read.predict(data).tolist() == fitted.predict(data).tolist()
        assert read.plan(400, 2)[0].problem.loss.rates == fitted.plan_.problem.loss.rates is not None


def test_the_largest_loss_of_parameters_0_holds_for_rates_that_nearly_add_up() -> None:
    """Such sums are taken as they are: the largest loss then is larger by the logarithm of the sum."""
    rates = (0.25, 0.75 + 9e-13)
    loss = SoftmaxLoss(2, rates)
    assert loss.rates == rates
    assert loss.value_at_zero >= float(np.log(1 + 9e-13) - np.log(0.25))
