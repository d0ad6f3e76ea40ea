"""Checks: limits, errors and false alarms; and what is compared with an anchor."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex_experiments import Check, Estimate, Outcome, checks as module
from dpconvex_experiments.checks import ALARM, SINGLE, Anchor, Anchors, exact, exponent, largest_t, mean, p_value, share


def test_estimates_have_their_errors() -> None:
    found = Estimate.of([1.0, 2.0, 3.0])
    assert found == (2.0, pytest.approx(1 / math.sqrt(3)), 3)
    assert Estimate.of([5.0]) == (5.0, 0.0, 1)
    assert Estimate.share(1, 4) == (0.25, pytest.approx(math.sqrt(0.25 * 0.75 / 4)), 4)
    assert found.times(-2) == (-4.0, pytest.approx(2 / math.sqrt(3)), 3)
    ratio = Estimate(6.0, 0.6, 10).over(Estimate(2.0, 0.1, 5))
    assert ratio == (3.0, pytest.approx(3 * math.hypot(0.1, 0.05)), 5)
    rng = np.random.default_rng(0)
    middles = [Estimate.quantile(rng.standard_normal(100), 0.5) for _ in range(200)]
    stated = np.mean([m.error for m in middles])
    assert stated == pytest.approx(np.std([m.value for m in middles]), rel=0.25)  # five standard deviations


def test_exponents_have_the_error_of_their_points() -> None:
    x = (1.0, 10.0, 100.0)
    fitted = exponent(x, [Estimate(3 * v**-0.5, 0.1 * 3 * v**-0.5, 5) for v in x])
    assert fitted.value == pytest.approx(-0.5)
    assert fitted.error == pytest.approx(0.1 / math.sqrt(2) / math.log(10))
    assert fitted.runs == 13


def test_a_check_passes_between_its_limits_only() -> None:
    for value, passed in ((0.5, True), (1.0, True), (1.1, False), (-0.1, False), (math.nan, False), (math.inf, False)):
        assert exact("x", value, 0.0, 1.0).passed is passed, value
        assert exact("x", value, 0.0, 1.0).alarm == 0
    assert exact("x", 5.0, 0.0, math.inf).passed
    assert not p_value("p", SINGLE / 2, 10, "some").passed
    assert not mean("one run", Estimate(1.0), 1.0, 1.0).passed  # no error of its own


@pytest.mark.gate
def test_false_alarms_are_as_rare_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a stated 2 % a check fails in 1 % to 3.5 % of 1,500 cases: 2.8 and 4.1 standard deviations."""
    monkeypatch.setattr(module, "SINGLE", 0.02)
    module._quantile.cache_clear()
    rng = np.random.default_rng(0)
    cases = 1_500
    anchor = Anchor(1.0, 1.0, 9, 10)
    try:
        failed = {
            "mean": sum(not mean("x", Estimate.of(row), 0.0, 0.0).passed for row in rng.standard_normal((cases, 6))),
            "share": sum(not share("x", k, 1000, 0.3, 0.3).passed for k in rng.binomial(1000, 0.3, cases)),
            "largest": sum(not largest_t("x", row, 7).passed for row in rng.standard_t(7, (cases, 5))),
        }
        earlier = rng.standard_normal((cases, 10))
        spread = earlier.std(axis=1, ddof=1)
        within = []
        for center, deviation, new in zip(earlier.mean(axis=1), spread, rng.standard_normal(cases), strict=True):
            low, high = anchor._replace(spread=deviation).between(center, center, log=False)
            within.append(low <= new <= high)
        failed["anchor"] = cases - sum(within)
    finally:
        module._quantile.cache_clear()
    assert all(0.01 < count / cases < 0.035 for count in failed.values()), failed


def test_numbers_are_near_their_anchors_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"some/one": {"quick": {"a": [2.0, 0.01, 19, 20], "b": [0.0, 0.01, 19, 20]}}}
    monkeypatch.setattr(module, "_anchors", lambda: known)
    anchors = Anchors("some/one", True)
    for factor, passed in ((1.0, True), (1.24, True), (1 / 1.24, True), (1.5, False), (1 / 1.5, False), (-1.0, False)):
        (check,) = anchors.near({"a": Estimate(2 * factor, 0.1, 5)})
        assert check.passed is passed, factor
        assert check.scale == "log"
        assert check.alarm == SINGLE
    (check,) = anchors.near({"b": Estimate(0.05)}, linear=True)
    assert check.passed
    assert not anchors.near({"b": Estimate(0.1)}, linear=True)[0].passed
    assert not anchors.near({"nowhere": Estimate(1.0)})[0].passed
    both = anchors.near({"a": Estimate(2.0), "b": Estimate(1.0)})
    assert both[-1].name == "geometric mean of 'a' and 1 more"
    assert not both[-1].passed  # it has no anchor here
    assert anchors.within("a", Estimate(2.0), 0.0, 1.9).passed  # 2.0 is within chance of 1.9
    assert not anchors.within("a", Estimate(2.0), 0.0, 1.5).passed
    other = Anchors("some/one", False)
    assert other.near({"a": Estimate(9.0)}) == ()
    assert other.within("a", Estimate(2.0, 0.01, 9), 0.0, 1.5) == mean("a", Estimate(2.0, 0.01, 9), 0.0, 1.5)


def test_an_outcome_has_checks_and_few_false_alarms() -> None:
    one = p_value("p", 0.5, 10, "some")
    many = round(ALARM / SINGLE)
    outcome = Outcome(("x",), ((1,),), "it holds", (one,) * many, lambda figure: None)
    assert outcome.passed
    assert outcome.alarm == pytest.approx(ALARM)
    failed: tuple[Check, ...] = (one, exact("x", 2, 0, 1))
    assert not Outcome(("x",), ((1,),), "it holds", failed, lambda figure: None).passed
    for wrong in ((), (one,) * (many + 1)):
        with pytest.raises(InvalidParameterError, match="checks="):
            Outcome(("x",), ((1,),), "it holds", wrong, lambda figure: None)
