"""What estimators may minimize instead of the mean loss on the records: worst-case losses, the population's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from dpconvex import (
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    load_model,
    save_model,
    verify,
)
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators.base import CALLED

pytestmark = pytest.mark.together

L2 = 1e-2
NORMS = {"l2": 2, "linf": 1}
"""Of the attack, and of the coefficients that it meets."""


def data(n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """One strong feature that an attack spoils little, four weak ones that it spoils together."""
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.5).astype(int)
    sign = 2.0 * y - 1
    X = 0.1 * sign[:, None] + 0.1 * rng.normal(size=(n, 5))
    X[:, 0] = np.where(rng.random(n) < 0.85, sign, -sign) * 0.5
    return np.clip(X, -0.5, 0.5), y


def worst_margins(model: Any, X: np.ndarray, y: np.ndarray, radius: float, norm: str) -> np.ndarray:
    w = model.encoded_coef_[0]
    return (2.0 * y - 1) * (X @ w + model.encoded_intercept_[0]) - radius * np.linalg.norm(w, NORMS[norm])


@pytest.mark.parametrize("norm", NORMS)
def test_large_epsilon_recovers_the_robust_optimum(norm: str) -> None:
    X, y = data()
    radius = 0.1
    model = PrivateLogisticRegression(
        1e6, feature_bounds=(-0.5, 0.5), l2=L2, adversarial_radius=radius, adversarial_norm=norm, classes=[0, 1]
    ).fit(X, y)
    sign = 2.0 * y - 1

    def risk(v: np.ndarray) -> float:
        margin = sign * (X @ v[:-1] + v[-1]) - radius * np.linalg.norm(v[:-1], NORMS[norm])
        return float(np.logaddexp(0, -margin).mean() + L2 / 2 * v @ v)

    found = np.append(model.encoded_coef_[0], model.encoded_intercept_[0])
    reference = minimize(risk, found, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-5, "fatol": 1e-10})
    assert risk(found) <= reference.fun + 1e-5
    plain = PrivateLogisticRegression(1e6, feature_bounds=(-0.5, 0.5), l2=L2, classes=[0, 1]).fit(X, y)
    assert risk(found) < risk(np.append(plain.encoded_coef_[0], plain.encoded_intercept_[0])) - 0.003


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("estimator", [PrivateLogisticRegression, PrivateLinearSVC], ids=lambda e: e.__name__)
def test_training_against_attacks_survives_them(estimator: Any, norm: str) -> None:
    X, y = data(6000)
    options = {
        "epsilon": 20.0,
        "feature_bounds": (-0.5, 0.5),
        "coefficient_norm": 5.0,
        "random_state": 0,
        "classes": [0, 1],
    }
    plain = estimator(**options, algorithm="output_perturbation", l2=1e-3).fit(X, y)
    robust = estimator(**options, adversarial_radius=0.2, adversarial_norm=norm).fit(X, y)
    shares = [np.mean(worst_margins(model, X, y, 0.2, norm) > 0) for model in (plain, robust)]
    assert shares[1] > shares[0] + 0.1
    assert robust.plan_.algorithm == "output_perturbation"
    assert robust.certificate_.public["attack_radius"] == 0.2
    assert robust.certificate_.public["attack_norm"] == norm


def test_attacks_and_population_risk_verify_and_are_saved(tmp_path: Path) -> None:
    X, y = data(300)
    model = PrivateLogisticRegression(
        1.0,
        feature_bounds=(-0.5, 0.5),
        adversarial_radius=0.1,
        adversarial_norm="linf",
        risk="population",
        classes=[0, 1],
    ).fit(X, y)
    assert verify(model.certificate_).passed
    assert model.certificate_.public["target"] == "population"
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    given = loaded.get_params()
    assert (given["adversarial_radius"], given["adversarial_norm"], given["risk"]) == (0.1, "linf", "population")
    assert loaded.plan(300, 5)[0].l2 == model.plan_.l2


def test_population_risk_regularizes_more_and_promises_less() -> None:
    options: dict[str, Any] = {"feature_norm": 1.0, "algorithm": "output_perturbation"}
    for estimator, more in ((PrivateLogisticRegression, {}), (PrivateLinearRegression, {"target_bounds": (0, 1)})):
        one, other = (estimator(1.0, **options, **more, risk=r).plan(5000, 4)[0] for r in ("empirical", "population"))
        assert other.l2 > one.l2
        assert other.predicted_error.bound > one.predicted_error.bound
    offered = PrivateLogisticRegression(1.0, feature_norm=1.0, risk="population").plan(5000, 4)
    assert {plan.algorithm for plan in offered} == {"output_perturbation"}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"adversarial_radius": -0.1}, "adversarial_radius"),
        ({"adversarial_radius": np.nan}, "adversarial_radius"),
        ({"adversarial_radius": 0.1, "adversarial_norm": "l3"}, "adversarial_norm"),
        ({"adversarial_radius": 0.1, "classes": [0, 1, 2]}, "adversarial_radius"),
        ({"adversarial_radius": 0.1, "algorithm": "objective_perturbation"}, "adversarial_radius"),
        ({"adversarial_radius": 0.1, "noise": "l1"}, "noise"),
        ({"tilt": 0.1, "noise": "grouped"}, "noise"),
        ({"risk": "population", "noise": "gaussian"}, "noise"),
        ({"risk": "both"}, "risk"),
        ({"risk": "population", "tilt": 0.1}, "risk"),
        ({"risk": "population", "algorithm": "objective_perturbation"}, "risk"),
    ],
    ids=str,
)
def test_refusals_use_the_estimator_s_own_words(options: dict[str, Any], name: str) -> None:
    X, y = data(30)
    model = PrivateLogisticRegression(feature_norm=1.0, **{"classes": [0, 1], **options})
    for attempt in (lambda: model.plan(30, 5), lambda: model.fit(X, y)):
        with pytest.raises(InvalidParameterError) as caught:
            attempt()
        assert caught.value.name == name
        assert str(caught.value).startswith(f"{name}=")
        assert not any(word in str(caught.value) for word in CALLED if word != "target")


def test_regression_losses_without_a_closed_form_are_refused_and_the_others_are_not() -> None:
    with pytest.raises(InvalidParameterError, match="adversarial_radius"):
        PrivateLinearRegression(feature_norm=1.0, target_bounds=(0, 1), adversarial_radius=0.1).plan(100, 2)
    robust = PrivateQuantileRegressor(feature_norm=1.0, target_bounds=(0, 1), smoothing=0, adversarial_radius=0.1)
    assert robust.plan(100, 2)[0].algorithm == "output_perturbation"


@pytest.mark.parametrize("content", [np.nan, np.inf, -np.inf, 1e300, 0.0], ids=str)
@pytest.mark.parametrize("norm", NORMS)
def test_content_never_speaks_under_attack(content: float, norm: str) -> None:
    model = PrivateLogisticRegression(feature_norm=1.0, adversarial_radius=0.1, adversarial_norm=norm, classes=[0, 1])
    model.fit(np.full((40, 3), content), np.zeros(40, int))
    assert np.isfinite(model.coef_).all()
    assert verify(model.certificate_).passed


def test_numpy_scalars_of_any_precision_are_numbers() -> None:
    """Their certificates are JSON, and their constants exact fractions, only once they are Python's."""
    X, y = data(40)
    options = {"l2": np.float32(0.1), "adversarial_radius": np.int64(1), "tilt": np.float32(0.5)}
    model = PrivateLogisticRegression(feature_norm=1.0, classes=[0, 1], **options).fit(X, y)
    assert verify(model.certificate_.to_json()).passed


@pytest.mark.parametrize("value", [1e-320, 1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("name", ["epsilon", "l2", "coefficient_norm", "feature_norm"])
@pytest.mark.parametrize("estimator", [PrivateLogisticRegression, PrivateLinearRegression])
def test_a_parameter_beyond_floats_is_named(estimator: Any, name: str, value: float) -> None:
    options = {"feature_norm": 1.0, **({} if estimator is PrivateLogisticRegression else {"target_bounds": (0, 1)})}
    with pytest.raises(InvalidParameterError) as caught:
        estimator(**(options | {name: value})).plan(1000, 5)
    assert caught.value.name == name


def test_parameters_beyond_floats_together_are_refused() -> None:
    """Each is in its range, their squares and ratios are not: no plan, and no arithmetic error."""
    with pytest.raises(InvalidParameterError, match="floats"):
        PrivateLogisticRegression(1e-100, feature_norm=1e90, coefficient_norm=1e100, tilt=1.0).plan(1000, 5)


@pytest.mark.parametrize("norm", [1e-90, 1e90])
def test_plans_for_the_shortest_and_the_longest_records_that_may_be_declared(norm: float) -> None:
    expected = [PrivateLogisticRegression(feature_norm=each).plan(1000, 5)[0].predicted_error for each in (1, norm)]
    assert expected[1].expected == pytest.approx(expected[0].expected)
