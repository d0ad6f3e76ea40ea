"""The cap on the slope of the logistic loss: what it minimizes, how it is chosen, where it does not apply."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from dpconvex import Block, DataDomain, PrivateLogisticRegression, PrivateSearchCV, load_model, save_model, verify
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators.classifiers import CAPS
from dpconvex.losses import LogisticLoss, SoftmaxLoss
from dpconvex.problems.linear.expected_risk import _kept_curvature, _ordinary_logits

ADULT = DataDomain((Block(5, "linf", 0.5), *(Block(size, "l1", 1.0) for size in (7, 16, 7, 14, 6, 5, 2, 41))))


def data(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (rng.random(n) < 1 / (1 + np.exp(-6 * X[:, 0] - 1))).astype(int)


@pytest.mark.parametrize("algorithm", ["objective_perturbation", "output_perturbation"])
@pytest.mark.parametrize("cap", [0.3, 0.6])
def test_large_epsilon_recovers_the_optimum_of_the_capped_loss(cap: float, algorithm: str) -> None:
    X, y = data()
    l2 = 1e-2
    model = PrivateLogisticRegression(
        1e6, feature_bounds=(-1, 1), l2=l2, slope_cap=cap, algorithm=algorithm, classes=[0, 1]
    )
    model.fit(X, y)
    bend = 0.75 * cap
    sign, kink, rate = 2.0 * y - 1, np.log((1 - bend) / bend), bend * (1 - bend) / (cap - bend)

    def risk(v: np.ndarray) -> float:
        """Written anew: logistic to the right of the kink; to the left the slope nears the cap by an exponential."""
        margin = sign * (X / 2 @ v[:-1] + v[-1])
        past = np.maximum(kink - margin, 0)
        saturated = np.logaddexp(0, -kink) + cap * past - (cap - bend) * (1 - np.exp(-rate * past)) / rate
        return float(np.where(margin > kink, np.logaddexp(0, -margin), saturated).mean() + l2 / 2 * v @ v)

    reference = minimize(risk, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(model.encoded_coef_[0], reference.x[:2], atol=0.01)
    np.testing.assert_allclose(model.encoded_intercept_[0], reference.x[2], atol=0.01)


def test_the_certificate_states_the_cap_and_verifies() -> None:
    X, y = data()
    model = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), slope_cap=0.7, classes=[0, 1]).fit(X, y)
    assert model.certificate_.public["slope_cap"] == 0.7
    assert verify(model.certificate_).passed
    plain = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), slope_cap=1, classes=[0, 1]).fit(X, y)
    assert "slope_cap" not in plain.certificate_.public
    assert verify(plain.certificate_).passed


def cap_of(n: int, epsilon: float, delta: float = 0.0, **more: Any) -> float:
    plan = PrivateLogisticRegression(epsilon, delta, domain=ADULT, **more).plan(n)[0]
    return plan.problem.loss.slope_bound


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.dear("1e-06")
def test_the_plan_caps_more_where_noise_is_larger(delta: float) -> None:
    caps = [cap_of(36_186, e, delta, algorithm="objective_perturbation") for e in (0.1, 1.0, 10.0, 1e4)]
    assert caps == sorted(caps)
    assert caps[0] <= 0.7
    assert caps[-1] == 1.0


def test_the_choice_is_the_smallest_expected_error() -> None:
    model = PrivateLogisticRegression(1.0, domain=ADULT, classes=[0, 1])
    chosen = model.plan(36_186)
    assert len({plan.problem.loss for plan in chosen}) == 1
    expected = [
        model.set_params(slope_cap=cap).plan(36_186)[0].predicted_error.rank for cap in (1, 0.9, 0.8, 0.7, 0.6, 0.5)
    ]
    assert chosen[0].predicted_error.rank == min(expected)
    assert expected[0] > min(expected)


@pytest.mark.parametrize("more", [{"tilt": 0.2}, {"adversarial_radius": 0.1}, {"risk": "population"}], ids=str)
def test_other_objectives_have_no_cap_unless_asked(more: dict[str, Any]) -> None:
    assert cap_of(36_186, 0.1, **more) == 1.0
    X, y = data(500)
    model = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), slope_cap=0.7, classes=[0, 1], **more).fit(X, y)
    assert model.certificate_.public["slope_cap"] == 0.7
    assert verify(model.certificate_).passed


def test_paper_constants_have_no_cap_and_users_that_of_records() -> None:
    assert cap_of(1000, 0.1, algorithm="output_perturbation", constants="paper", l2=0.1) == 1.0
    X, y = data(600)
    groups = np.arange(600) // 3
    of_records = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), classes=[0, 1]).plan(200, X.shape[1])[0]
    for cap in (None, 0.6):
        model = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), slope_cap=cap, classes=[0, 1]).fit(
            X, y, groups=groups
        )
        assert model.plan_.problem.loss.slope_bound == (cap or of_records.problem.loss.slope_bound)
        assert verify(model.certificate_).passed


@pytest.mark.parametrize("cap", [0.0, -1.0, 1.5, float("nan"), "a"])
def test_caps_are_between_0_and_1(cap: Any) -> None:
    with pytest.raises(InvalidParameterError, match="slope_cap="):
        PrivateLogisticRegression(1.0, feature_norm=1.0, slope_cap=cap).plan(100, 2)


def test_a_large_epsilon_recovers_the_optimum_of_the_capped_softmax_loss() -> None:
    rng, cap, l2 = np.random.default_rng(1), 0.4, 1e-2
    X = rng.uniform(-1, 1, (4000, 2))
    z = X @ np.array([[4.0, -4.0, 0.0], [0.0, 3.0, -3.0]])
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    how: Any = {"feature_bounds": (-1, 1), "l2": l2, "slope_cap": cap, "classes": [0, 1, 2]}
    model = PrivateLogisticRegression(1e6, algorithm="objective_perturbation", **how).fit(X, y)
    own = np.arange(3) == y[:, None]

    def risk(v: np.ndarray) -> float:  # written anew, from the odds of the other classes
        w = v.reshape(3, 3)
        scores = X / 2 @ w[:, :2].T + w[:, 2]
        odds = np.exp(scores - scores[own][:, None]).sum(axis=1, where=~own)
        most = cap / (1 - cap)
        losses = np.where(odds < most, np.log1p(odds), np.log1p(most) + cap * np.log(odds / most))
        return float(losses.mean() + l2 / 2 * v @ v)

    reference = minimize(risk, np.zeros(9), method="BFGS", options={"gtol": 1e-9}).x.reshape(3, 3)
    np.testing.assert_allclose(model.encoded_coef_, reference[:, :2], atol=0.01)
    np.testing.assert_allclose(model.encoded_intercept_, reference[:, 2], atol=0.01)
    assert model.certificate_.public["slope_cap"] == cap
    assert verify(model.certificate_).passed


def test_probabilities_of_classes_are_those_at_which_scores_minimize_the_expected_capped_loss() -> None:
    rng = np.random.default_rng(0)
    for classes, cap in ((3, 0.9), (3, 0.5), (4, 0.2), (7, 0.6), (2, 0.4)):
        loss = SoftmaxLoss(classes, cap=cap)
        z = np.vstack([rng.normal(0, scale, (300, classes)) for scale in (0.1, 1.0, 5.0)])
        found = softmax(loss.log_odds(z), axis=1)
        slopes = [loss.derivative(z, np.full(len(z), float(label))) for label in range(classes)]
        assert np.abs(np.einsum("nk,kno->no", found, np.array(slopes))).max() < 1e-14
        if classes == 2:
            odds = LogisticLoss(cap).log_odds(z[:, 1] - z[:, 0])
            np.testing.assert_allclose(found[:, 1], 1 / (1 + np.exp(-odds)), rtol=1e-12)
        else:
            np.testing.assert_array_equal(found.argmax(axis=1), z.argmax(axis=1))


def test_the_trace_of_capped_curvature_is_attained_and_never_exceeded() -> None:
    rng = np.random.default_rng(0)
    for classes, cap in product((2, 3, 5, 9), (0.05, 0.3, 0.5, 0.65, 0.8, 0.95)):
        loss = SoftmaxLoss(classes, cap=cap)
        others = np.log(min(cap, 1 - 1 / classes) / (classes - 1)) * np.ones((1, classes))
        others[0, 0] = np.log1p(-min(cap, 1 - 1 / classes)) + 1e-12  # just inside
        worst = loss.hessian_weights(others, np.zeros(1)).trace(axis1=1, axis2=2)[0]
        assert worst == pytest.approx(loss.curvature_trace, rel=1e-6)
        z = np.vstack([rng.normal(0, scale, (500, classes)) for scale in (0.3, 1.0, 3.0)])
        found = loss.hessian_weights(z, rng.integers(0, classes, len(z)).astype(float))
        assert found.trace(axis1=1, axis2=2).max() <= loss.curvature_trace * (1 + 1e-12)
        assert np.linalg.eigvalsh(found).max() <= loss.curvature_bound * (1 + 1e-12)


def test_losses_of_all_labels_and_what_caps_keep_of_curvature_are_those_of_single_ones() -> None:
    for loss in (SoftmaxLoss(4, cap=0.4), SoftmaxLoss(3, (0.6, 0.3, 0.1), 0.7), SoftmaxLoss(3)):
        z = np.random.default_rng(0).normal(0, 3, (200, loss.n_classes))
        each = [loss.value(z, np.full(len(z), float(label))) for label in range(loss.n_classes)]
        np.testing.assert_allclose(loss.of_labels(z).T, each, rtol=1e-12, atol=1e-15)
    loss = SoftmaxLoss(4, cap=0.4)
    logits, weights = _ordinary_logits(4)
    bends = [loss.hessian_weights(logits, np.full(len(logits), float(label))) for label in range(4)]
    traces = np.trace(np.array(bends), axis1=2, axis2=3).T
    usual = np.trace(loss.usual.hessian_weights(logits, np.zeros(len(logits))), axis1=1, axis2=2)
    assert _kept_curvature(loss) == pytest.approx((weights * traces).sum() / usual.mean(), rel=1e-12)


def test_a_plan_for_many_classes_takes_little_time_and_memory() -> None:
    model = PrivateLogisticRegression(
        1.0, feature_bounds=(-1, 1), algorithm="objective_perturbation", classes=range(1500)
    )
    assert model.plan(10**5, 4)[0].problem.loss.slope_bound < math.sqrt(2)


def test_several_classes_are_capped_as_two_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (1500, 3)), rng.integers(0, 3, 1500)
    base = PrivateLogisticRegression(0.3, feature_bounds=(-1, 1), classes=[0, 1, 2], random_state=0)
    expected = [base.set_params(slope_cap=cap).plan(1500, 3)[0].predicted_error.rank for cap in (1, *CAPS)]
    model = base.set_params(slope_cap=None).fit(X, y)
    assert model.plan_.predicted_error.rank == min(expected) < expected[0]
    assert model.slope_cap_ < 1
    odds = SoftmaxLoss(3, cap=model.slope_cap_**0.75).log_odds(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), softmax(odds, axis=1))
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert again.slope_cap_ == model.slope_cap_
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(
        model.set_params(probabilities="sigmoid").predict_proba(X), softmax(model.decision_function(X), axis=1)
    )


def test_probabilities_are_those_at_which_the_score_minimizes_the_expected_capped_loss() -> None:
    z = np.concatenate([np.linspace(-40, 40, 4001), [-1e308, -1e5, -0.0, 1e-300, 1e5, 1e308]])
    for cap in (1.0, 0.9, 0.7, 0.5, 0.3, 0.01):
        loss = LogisticLoss(cap)
        found = loss.log_odds(z)
        p, q = 1 / (1 + np.exp(-np.clip(found, -700, 700))), 1 / (1 + np.exp(np.clip(found, -700, 700)))
        slope = p * loss.derivative(z, np.ones_like(z)) + q * loss.derivative(z, -np.ones_like(z))
        assert np.abs(slope).max() < 1e-15, cap
        assert np.isfinite(found).all(), cap
        np.testing.assert_array_equal(loss.log_odds(-z), -found, err_msg=str(cap))
        kink = abs(np.log(cap) - np.log1p(-cap)) if cap < 1 else np.inf
        steps = np.diff(found[:4001])
        if cap >= 0.5:
            assert (steps > 0).all(), cap
            np.testing.assert_array_equal(found[np.abs(z) <= kink], z[np.abs(z) <= kink], err_msg=str(cap))
        else:
            assert (steps >= 0).all(), cap
            assert (found[np.abs(z) <= kink] == 0).all(), cap


def test_a_capped_model_is_calibrated_where_few_are_positive(tmp_path: Path) -> None:
    """Mean probability over rate; at epsilon 1e5 there is next to no noise, and all is seeded."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (20_000, 4))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-1.2 * X.sum(axis=1) + 2.2))).astype(int)
    how: Any = {"feature_bounds": (-1, 1), "slope_cap": 0.5, "random_state": 0, "classes": [0, 1]}
    model = PrivateLogisticRegression(1e5, probabilities="calibrated", **how).fit(X, y)
    linked, labels, scores = model.predict_proba(X), model.predict(X), model.decision_function(X)
    logs = model.predict_log_proba(X)
    tempered = model.set_params(probabilities="tempered").predict_log_proba(X)
    model.set_params(probabilities="sigmoid")
    plain = model.predict_proba(X)
    assert plain[:, 1].mean() / y.mean() < 0.85
    assert abs(linked[:, 1].mean() / y.mean() - 1) < 0.05
    right = np.arange(len(y)), y
    assert -logs[right].mean() < -model.predict_log_proba(X)[right].mean() - 0.008
    np.testing.assert_allclose(np.exp(logs), linked, rtol=1e-12)
    np.testing.assert_allclose(linked.sum(axis=1), 1, rtol=1e-12)
    between = np.sort([logs[:, 1], model.predict_log_proba(X)[:, 1]], axis=0)
    assert (between[0] <= tempered[:, 1] + 1e-12).all()
    assert (tempered[:, 1] <= between[1] + 1e-12).all()
    np.testing.assert_allclose(tempered[:, 1], -np.logaddexp(0, -LogisticLoss(0.5**0.75).log_odds(scores)))
    np.testing.assert_array_equal(model.predict(X), labels)
    np.testing.assert_array_equal(labels == 1, linked[:, 1] > 0.5)
    assert (np.diff(linked[np.argsort(scores), 1]) >= 0).all()
    np.testing.assert_allclose(plain[:, 1], 1 / (1 + np.exp(-scores)), rtol=1e-12)
    with pytest.raises(InvalidParameterError, match="changed after its fit"):  # the certificate names the other model
        save_model(model, tmp_path / "model.skops")
    save_model(model.set_params(probabilities="calibrated"), tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_proba(X), linked)
    np.testing.assert_array_equal(again.set_params(probabilities="sigmoid").predict_proba(X), plain)


def test_the_planned_cap_is_kept_by_fits_searches_and_files(tmp_path: Path) -> None:
    X, y = data(2000)
    base = PrivateLogisticRegression(0.1, feature_bounds=(-1, 1), algorithm="objective_perturbation", classes=[0, 1])
    search = PrivateSearchCV(base, {"coefficient_norm": [2.0, 8.0]}, method="composition", scoring="log_loss").fit(X, y)
    for model in (base.fit(X, y), search.best_estimator_):
        cap = model.plan_.problem.loss.slope_bound
        assert model.slope_cap_ == cap < 1
        odds = LogisticLoss(cap**0.75).log_odds(model.decision_function(X))
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-odds)))
        save_model(model, tmp_path / "model.skops")
        again = load_model(tmp_path / "model.skops")
        assert again.slope_cap_ == cap
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_other_readings_are_refused_before_a_fit() -> None:
    with pytest.raises(InvalidParameterError, match="probabilities='plain'"):
        PrivateLogisticRegression(1.0, feature_norm=1.0, probabilities="plain").plan(100, 2)


def test_a_saved_model_keeps_its_cap(tmp_path: Path) -> None:
    X, y = data(300)
    model = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), slope_cap=0.7, classes=[0, 1]).fit(X, y)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert again.get_params()["slope_cap"] == 0.7
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(("classes", "cap", "l2"), [(4, 0.5, 1e-3), (4, 0.3, 1e-3), (4, 0.02, None), (3, 0.05, None)])
def test_gaussian_plans_of_small_caps_are_made_or_left_out(classes: int, cap: float, l2: float | None) -> None:
    """Their events charge the trace without a cap: no plan may hope for less."""
    model = PrivateLogisticRegression(
        1.0,
        1e-6,
        feature_bounds=(-1, 1),
        classes=range(classes),
        slope_cap=cap,
        algorithm="objective_perturbation",
        l2=l2,
    )
    assert model.plan(1000, 3)
