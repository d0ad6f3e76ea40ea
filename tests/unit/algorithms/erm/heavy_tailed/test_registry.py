"""Plans that find their own moment bound: budgets, certificates, what may depend on data, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.heavy_tailed import Moments, clipped_residuals
from dpconvex.algorithms.erm.heavy_tailed.clipped_residuals import ClippedResidualsPlan
from dpconvex.algorithms.erm.heavy_tailed.registry import (
    HEAVY_METHODS,
    SHARE,
    HeavyMethod,
    TunedPlan,
    chosen,
    heavy_plans,
    tuned,
)
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import Options
from dpconvex.errors import BudgetExceededError, InvalidDataError, InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.privacy import GaussianObjectivePerturbation, PrivacyParams, PureMechanism, accounting, verify
from dpconvex.problems import Block, DataDomain, LinearModelProblem
from dpconvex.randomness import SeededSource, SystemSource

LOSSES = (HuberLoss(0.2, 1e6), SquaredLoss(1e6, 1e6), AbsoluteLoss(1e6), LogisticLoss(), HingeLoss())
CASES = [(loss, name, PrivacyParams(1.0)) for loss in LOSSES for name in HEAVY_METHODS]
CASES += [(LOSSES[0], name, PrivacyParams(0.3, 1e-6)) for name in HEAVY_METHODS]


def problem(loss: Any = LOSSES[0], n: int = 400, method: str = "auto") -> LinearModelProblem:
    return LinearModelProblem(loss, DataDomain.box(columns(method), 0.5).with_intercept(0.5), n, 1.0)


def columns(method: str) -> int:
    """As many features as suit a method: nets are for two parameters."""
    return 1 if method == "localized_exponential_mechanism" else 2


def records(n: int = 400, seed: int = 0, method: str = "auto") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, columns(method)))
    return X, X[:, 0] + rng.standard_t(2.1, n)


@pytest.mark.parametrize(("loss", "method", "privacy"), CASES)
def test_one_certificate_covers_both_releases(loss: Any, method: str, privacy: PrivacyParams) -> None:
    (plan,) = heavy_plans(problem(loss, method=method), privacy, 2.0, None, method)
    result = plan.run(*records(method=method), SeededSource(1))
    certificate = result.certificate
    slopes = method == "clipped_residuals"
    if slopes and not isinstance(loss, SquaredLoss):  # slopes are bounded by the loss: nothing to estimate
        assert isinstance(result.plan, ClippedResidualsPlan)
        assert (result.plan.bias, result.plan.level) == (0, loss.slope_bound)
    else:
        assert isinstance(result.plan, TunedPlan)
        assert result.plan.known
        label = "histogram of slopes" if slopes else "histogram of gradient bounds"
        assert certificate.releases[0].label == label
    assert certificate.releases == result.plan.releases
    assert certificate.target == privacy
    assert certificate.spent_epsilon <= privacy.epsilon
    assert certificate.spent_delta <= privacy.delta
    if isinstance(result.plan, TunedPlan):  # other moments may be followed by a dearer run
        assert (certificate.spent_epsilon, certificate.spent_delta) == (privacy.epsilon, privacy.delta)
    failed = [check.name for check in verify(certificate).checks if not check.passed]
    assert failed == ["noise is not seeded"]


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 1.0, math.pi, 1e6])
def test_the_shares_add_up_to_no_more_than_the_promise(epsilon: float) -> None:
    plan = tuned(problem(), PrivacyParams(epsilon), 2.0, HEAVY_METHODS["heavy_tailed"])
    first, then = plan.first.privacy.epsilon, plan.then.privacy.epsilon
    assert first == pytest.approx(SHARE * epsilon)
    assert epsilon * (1 - 1e-12) <= math.fsum((first, then)) <= epsilon


@pytest.mark.parametrize("mutant", ["first at all of epsilon", "second at all of epsilon"])
def test_a_plan_that_spends_too_much_is_refused(mutant: str) -> None:
    plan = tuned(problem(), PrivacyParams(1.0), 2.0, HEAVY_METHODS["heavy_tailed"])
    greedy = replace(plan.first, privacy=PrivacyParams(1.0))
    rich = HEAVY_METHODS["heavy_tailed"](plan.problem, PrivacyParams(1.0), plan.moments, "calibrated")
    with pytest.raises(BudgetExceededError):
        replace(plan, first=greedy) if mutant.startswith("first") else replace(plan, then=rich)


@pytest.mark.parametrize("method", HEAVY_METHODS)
@settings(max_examples=25, deadline=None)
@given(counts=st.lists(st.floats(-1e4, 1e6), min_size=80, max_size=80), k=st.floats(2.0, 50.0))
def test_no_released_histogram_makes_planning_fail(method: str, counts: list[float], k: float) -> None:
    """The second plan is made from released numbers: it must not raise, whatever they are."""
    plan = tuned(problem(LOSSES[1], method=method), PrivacyParams(1.0), k, HEAVY_METHODS[method])
    informed = plan.informed(plan.first.moments(np.array(counts)))
    assert informed.then.privacy == plan.then.privacy
    assert informed.moments.bound <= plan.moments.bound * (1 + 1e-12)
    assert math.isfinite(informed.predicted_error.bound)


@pytest.mark.parametrize("epsilon", [0.3, 5.0])
@pytest.mark.parametrize("n", [30, 5000])
def test_every_second_run_composes_with_the_histogram(n: int, epsilon: float) -> None:
    plan = tuned(problem(LOSSES[1], n), PrivacyParams(epsilon, 1e-2), 2.0, HEAVY_METHODS["clipped_residuals"])
    for bound in (1e-5, 1.0, 40.0):
        assert plan.informed(Moments(2.0, bound)).then.privacy == plan.then.privacy


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("n", [30, 5000])
def test_every_ordinary_method_composes_with_a_pure_release(n: int, delta: float) -> None:
    pure = PureMechanism(0.1)
    for loss in (LOSSES[1].cut(1.0), LOSSES[3]):
        for plan in plans(problem(loss, n), PrivacyParams(1.0, delta)):
            events = [(pure, 1), *((release.event, release.times) for release in plan.releases if not release.block)]
            assert accounting.supports(events), plan.algorithm
            assert accounting.spent_epsilon(events, delta) <= 1.1 * (1 + 1e-6), plan.algorithm


def _priced_alone(task: LinearModelProblem, rest: PrivacyParams, moments: Moments) -> ClippedResidualsPlan:
    """Clipped residuals whose ordinary method is objective perturbation with Gaussian noise."""
    found = clipped_residuals.plan(task, rest, moments)
    return replace(found, then=objective_perturbation.plan(found.then.problem, rest, noise="gaussian")[0])


PRICED_ALONE = HeavyMethod(_priced_alone, slopes=True)


def test_a_method_that_is_priced_alone_may_follow_the_histogram() -> None:
    wide = LinearModelProblem(LOSSES[1], DataDomain.box(60, 0.5).with_intercept(0.5), 1000, 1.0)
    plan = tuned(wide, PrivacyParams(1.0, 1e-6), 2.0, PRICED_ALONE).informed(Moments(2.0, 0.01))
    assert isinstance(plan.releases[-1].event, GaussianObjectivePerturbation)
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (1000, 60))
    certificate = plan.run(X, X[:, 0] + 0.01 * rng.standard_t(3, 1000), SystemSource()).certificate
    assert certificate.spent_epsilon <= 1.0
    assert certificate.spent_delta <= 1e-6
    assert verify(certificate).passed


CONTENTS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "nan": lambda X, y: (X * np.nan, y * np.nan),
    "infinite": lambda X, y: (X * np.inf, y * np.inf),
    "huge": lambda X, y: (X * 1e300, y * 1e300),
    "one huge": lambda X, y: (np.where(np.arange(len(X))[:, None] == 3, 1e300, X), y),
    "zero": lambda X, y: (X * 0, y * 0),
}


@pytest.mark.parametrize("method", HEAVY_METHODS)
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_content_never_speaks(content: Any, method: str) -> None:
    (plan,) = heavy_plans(problem(LOSSES[1], method=method), PrivacyParams(1.0), 2.0, None, method)
    X, y = content(*records(method=method))
    result = plan.run(X, y, SeededSource(0))
    assert np.isfinite(result.point).all()
    assert result.status == "ok"


def test_before_a_run_the_bound_holds_for_all_data() -> None:
    n = 40_000
    plan = tuned(problem(LOSSES[1], n), PrivacyParams(1.0), 2.0, HEAVY_METHODS["heavy_tailed"])
    largest = plan.moments.bound
    X, y = np.full((n, 2), 0.5), np.full(n, -1e9)
    result = plan.run(X, y, SeededSource(0)).plan
    assert isinstance(result, TunedPlan)
    assert result.moments.bound == pytest.approx(largest, rel=0.05)  # noise in the empty bins
    assert not plan.known
    assert result.describe()["private_moments"]["estimated"]
    at = result.at(PrivacyParams(2.0))
    assert (at.moments, at.privacy.epsilon) == (result.moments, 2.0)


@pytest.mark.parametrize("method", HEAVY_METHODS)
def test_a_known_bound_needs_no_histogram(method: str) -> None:
    (plan,) = heavy_plans(problem(method=method), PrivacyParams(1.0), 2.0, 0.3, method)
    assert plan.algorithm == method
    assert plan.privacy.epsilon == 1.0
    assert all("histogram" not in release.label for release in plan.releases)


@pytest.mark.parametrize(
    ("domain", "n", "expected"),
    [
        (DataDomain.box(2, 0.5).with_intercept(1.0), 10, "clipped_residuals"),
        (DataDomain.l2_ball(2, 3.0).with_intercept(1.0), 10, "clipped_residuals"),
        (DataDomain.l2_ball(2, 10.0).with_intercept(1.0), 1_000, "heavy_tailed"),
        (DataDomain.l2_ball(2, 10.0).with_intercept(1.0), 10_000, "clipped_residuals"),  # 0.3 sqrt(n / 3) = 17
        (DataDomain.l2_ball(2, 1e4).with_intercept(1.0), 10**6, "heavy_tailed"),
        (DataDomain.l2_ball(2, 1e4).with_intercept(1e4), 10**6, "clipped_residuals"),
        (
            DataDomain(tuple(Block(9, "l1", 1.0, f"c{j}") for j in range(30))).with_intercept(1.0),
            10,
            "clipped_residuals",
        ),
        (DataDomain.l2_ball(2, 1.0), 10**6, "heavy_tailed"),  # nothing tells how long a typical record is
    ],
)
def test_auto_looks_at_how_long_a_record_may_be(domain: DataDomain, n: int, expected: str) -> None:
    wanted = LinearModelProblem(SquaredLoss(1e6, 1e6), domain, n, 1.0)
    for bound in (None, 1.0):
        assert [plan.algorithm for plan in heavy_plans(wanted, PrivacyParams(1.0), 2.0, bound)] == [expected]
    assert chosen(wanted, PrivacyParams(1.0), "paper") == "heavy_tailed"


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "l2": ("l2", {"options": Options(l2=1.0)}),
    "noise": ("noise", {"options": Options(noise="l1")}),
    "algorithm": ("algorithm", {"algorithm": "objective_perturbation"}),
    "order": ("k", {"k": 1.5}),
    "bound": ("bound", {"bound": -1.0}),
    "small bound": ("moments.bound", {"bound": 1e-200, "algorithm": "heavy_tailed"}),
    "printed, few records": ("n", {"options": Options(constants="paper")}),
    "three parameters": ("dim", {"bound": 1.0, "algorithm": "localized_exponential_mechanism"}),
    "printed descent": ("constants", {"algorithm": "clipped_gradient", "options": Options(constants="paper")}),
}


@pytest.mark.parametrize(("name", "changed"), REFUSED.values(), ids=REFUSED)
def test_refusals_name_the_parameter(name: str, changed: dict[str, Any]) -> None:
    given: dict[str, Any] = {"k": 2.0, "bound": None, **changed}
    with pytest.raises(InvalidParameterError) as caught:
        heavy_plans(problem(), PrivacyParams(1.0), **given)
    assert caught.value.name == name
    assert caught.value.remedy or name in ("k", "bound")


@pytest.mark.parametrize("method", HEAVY_METHODS)
@pytest.mark.parametrize("moments", [6.5, (2, 6.5), None])
def test_a_bare_number_is_no_moment(method: str, moments: Any) -> None:
    with pytest.raises(InvalidParameterError, match=r"Write Moments\(k=2, bound=6.5\)"):
        HEAVY_METHODS[method](problem(), PrivacyParams(1.0), moments, "calibrated")


@pytest.mark.parametrize("method", HEAVY_METHODS)
def test_extreme_numbers_are_blamed_by_name(method: str) -> None:
    given = problem(SquaredLoss(1.0), method=method)
    for bound in (1e-300, 1e-200, 1e300):
        with pytest.raises(InvalidParameterError) as caught:
            HEAVY_METHODS[method](given, PrivacyParams(1.0), Moments(2.0, bound), "calibrated")
        assert caught.value.name == "moments.bound"
    wide = LinearModelProblem(SquaredLoss(1.0), DataDomain.l2_ball(columns(method), 1e90), 10, 1e90)
    with pytest.raises(InvalidParameterError) as caught:
        heavy_plans(wide, PrivacyParams(1.0), 2.0, None, method)
    assert caught.value.name in ("problem", "moments.bound")


@pytest.mark.parametrize("kind", [list, pd.DataFrame, tuple])
def test_plans_run_on_arrays_and_say_so(kind: Any) -> None:
    X, y = records()
    tuned_plan = tuned(problem(), PrivacyParams(1.0), 2.0, HEAVY_METHODS["heavy_tailed"])
    for plan in (tuned_plan, tuned_plan.first, tuned_plan.then):
        for pair in ((kind(X), y), (X, kind(y))):
            with pytest.raises(InvalidDataError, match="runs on NumPy arrays"):
                plan.run(*pair, SeededSource(0))  # pyright: ignore[reportArgumentType]
