"""Plans that find their own level: budgets, certificates, what may depend on data, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.heavy_tailed import Moments, clipped_residuals
from dpconvex.algorithms.erm.heavy_tailed.clipped_residuals import ClippedResidualsPlan
from dpconvex.algorithms.erm.heavy_tailed.registry import (
    HEAVY_METHODS,
    SHARE,
    HeavyMethod,
    LeveledPlan,
    Shape,
    chosen,
    heavy_plans,
    leveled,
)
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import Options
from dpconvex.errors import BudgetExceededError, InvalidDataError, InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpconvex.privacy import GaussianObjectivePerturbation, PrivacyParams, PureMechanism, accounting, verify
from dpconvex.problems import Block, DataDomain, LinearModelProblem
from dpconvex.randomness import SeededSource, SystemSource

pytestmark = pytest.mark.together

LOSSES = (HuberLoss(0.2, 1e6), SquaredLoss(1e6, 1e6), AbsoluteLoss(1e6), LogisticLoss(), HingeLoss())
CASES = [(loss, name, PrivacyParams(1.0)) for loss in LOSSES for name in HEAVY_METHODS]
CASES += [(LOSSES[0], name, PrivacyParams(0.3, 1e-6)) for name in HEAVY_METHODS]


def problem(loss: Any = LOSSES[0], n: int = 400, method: str = "auto") -> LinearModelProblem:
    return LinearModelProblem(loss, DataDomain.box(columns(method), 0.5).with_intercept(0.5), n, 1.0)


def columns(method: str) -> int:
    """As many features as suit a method: nets are for two parameters."""
    return 1 if method in ("localized_exponential_mechanism", "gradient_score") else 2


def records(n: int = 400, seed: int = 0, method: str = "auto") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, columns(method)))
    return X, X[:, 0] + rng.standard_t(2.1, n)


@pytest.mark.thin
@pytest.mark.parametrize(("loss", "method", "privacy"), CASES)
@pytest.mark.dear("loss2-", "loss3-", "loss4-")
def test_one_certificate_covers_both_releases(loss: Any, method: str, privacy: PrivacyParams) -> None:
    (plan,) = heavy_plans(problem(loss, method=method), privacy, 2.0, None, method)
    result = plan.run(*records(method=method), SeededSource(1))
    certificate = result.certificate
    slopes = method == "clipped_residuals"
    if slopes and not isinstance(loss, SquaredLoss):  # slopes are bounded by the loss: nothing to estimate
        assert isinstance(result.plan, ClippedResidualsPlan)
        assert (result.plan.bias, result.plan.level) == (0, loss.slope_bound)
    else:
        assert isinstance(result.plan, LeveledPlan)
        assert result.plan.released
        label = "level of slopes" if slopes else "level of gradients"
        assert certificate.releases[0].label == label
    assert certificate.releases == result.plan.releases
    assert certificate.target == privacy
    assert certificate.spent_epsilon <= privacy.epsilon
    assert certificate.spent_delta <= privacy.delta
    if isinstance(result.plan, LeveledPlan):  # other moments may be followed by a dearer run
        assert (certificate.spent_epsilon, certificate.spent_delta) == (privacy.epsilon, privacy.delta)
    failed = [check.name for check in verify(certificate).checks if not check.passed]
    assert failed == ["noise is not seeded"]


@pytest.mark.parametrize("method", HEAVY_METHODS)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 1.0, math.pi, 1e6])
def test_the_shares_add_up_to_no_more_than_the_promise(epsilon: float, method: str) -> None:
    plan = leveled(problem(method=method), PrivacyParams(epsilon), HEAVY_METHODS[method])
    first, then = plan.scale.epsilon, plan.then.privacy.epsilon
    if HEAVY_METHODS[method].apart:  # parallel: other records
        assert first == then == epsilon
        assert {release.block for release in plan.releases[:2]}.isdisjoint({r.block for r in plan.then.releases})
        return
    assert first == pytest.approx(SHARE * epsilon)
    assert epsilon * (1 - 1e-12) <= math.fsum((first, then)) <= epsilon


@pytest.mark.parametrize("method", HEAVY_METHODS)
@pytest.mark.parametrize("mutant", ["first", "second"])
def test_a_plan_that_spends_too_much_is_refused(mutant: str, method: str) -> None:
    plan = leveled(problem(method=method), PrivacyParams(1.0), HEAVY_METHODS[method])
    greedy = replace(plan.scale, epsilon=1.01)
    rich = leveled(problem(method=method), PrivacyParams(1.2), HEAVY_METHODS[method]).then
    with pytest.raises(BudgetExceededError if mutant == "first" else InvalidParameterError, match="at most epsilon"):
        replace(plan, scale=greedy) if mutant == "first" else replace(plan, then=rich)


@pytest.mark.thin
@pytest.mark.parametrize("loss", LOSSES[:3])
@pytest.mark.parametrize("method", HEAVY_METHODS)
@pytest.mark.parametrize("n", [1, 3, 30, 5000])
def test_nothing_released_makes_planning_fail(method: str, n: int, loss: Any) -> None:
    """The second plan is made from released numbers: it must not raise, whatever they are."""
    plan = leveled(problem(loss, n, method), PrivacyParams(1.0, 1e-2), HEAVY_METHODS[method])
    for level in plan.scale.edges[[0, 1, 20, 40, 60, 78, 79]].tolist():
        for total in (-1e6, 0.0, 0.3 * n, 1e9):
            released = (level,) if plan.scale.slopes else (level, plan.scale.second(level, total))
            informed = plan.informed(*released)
            assert informed.then.privacy == plan.then.privacy
            assert math.isfinite(informed.predicted_error.bound)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("n", [30, 5000])
def test_every_ordinary_method_composes_with_a_pure_release(n: int, delta: float) -> None:
    pure = PureMechanism(0.1)
    for loss in (LOSSES[1].cut(1.0), LOSSES[3]):
        for plan in plans(problem(loss, n), PrivacyParams(1.0, delta)):
            events = [(pure, 1), *((release.event, release.times) for release in plan.releases if not release.block)]
            assert accounting.supports(events), plan.algorithm
            assert accounting.spent_epsilon(events, delta) <= 1.1 * (1 + 1e-6), plan.algorithm


def _priced_alone(task: LinearModelProblem, rest: PrivacyParams, constants: str, failure: None, level: float) -> Any:
    """Clipped residuals whose ordinary method is objective perturbation with Gaussian noise."""
    return objective_perturbation.plan(replace(task, loss=task.loss.cut(level)), rest, noise="gaussian")[0]


PRICED_ALONE = HeavyMethod(clipped_residuals.plan, _priced_alone, slopes=True)


def test_a_method_that_is_priced_alone_may_follow_the_level() -> None:
    wide = LinearModelProblem(LOSSES[1], DataDomain.box(60, 0.5).with_intercept(0.5), 1000, 1.0)
    plan = leveled(wide, PrivacyParams(1.0, 1e-6), PRICED_ALONE)
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


@pytest.mark.thin
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
    plan = leveled(problem(LOSSES[1], n), PrivacyParams(1.0), HEAVY_METHODS["heavy_tailed"])
    X, y = np.full((n, 2), 0.5), np.full(n, -1e9)
    result: Any = plan.run(X, y, SeededSource(0)).plan
    assert result.released[0] == plan.scale.edges[0]
    assert 0.9 * result.released[0] <= result.released[1] <= result.released[0]
    assert (plan.predicted_error.proved, result.predicted_error.proved) == (True, False)
    assert result.then.predicted_error.bound <= plan.predicted_error.bound
    at = result.at(PrivacyParams(2.0))
    assert (at.released, at.privacy.epsilon) == (result.released, 2.0)


@pytest.mark.parametrize("method", HEAVY_METHODS)
def test_a_known_bound_needs_no_level(method: str) -> None:
    (plan,) = heavy_plans(problem(method=method), PrivacyParams(1.0), 2.0, 0.3, method)
    assert plan.algorithm == method
    assert plan.privacy.epsilon == 1.0
    assert all("level" not in release.label for release in plan.releases)


@pytest.mark.thin
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
        (DataDomain.box(200, 0.5).with_intercept(1.0), 10, "clipped_residuals"),  # as long as its columns make it
        (DataDomain.box(200, 5.0).with_intercept(1.0), 10, "heavy_tailed"),
        (DataDomain.l2_ball(2, 1.0), 10**6, "heavy_tailed"),  # nothing tells how long a typical record is
    ],
)
def test_auto_looks_at_how_long_a_record_may_be(domain: DataDomain, n: int, expected: str) -> None:
    wanted = LinearModelProblem(SquaredLoss(1e6, 1e6), domain, n, 1.0)
    for bound in (None, 1.0):
        assert [plan.algorithm for plan in heavy_plans(wanted, PrivacyParams(1.0), 2.0, bound)] == [expected]
    assert chosen(wanted, PrivacyParams(1.0), "paper") == "heavy_tailed"


def test_the_bias_of_an_extension_counts_twice() -> None:
    """A slope less its extension's is at most twice what a cut slope loses (surrogates: `Extension.bias`)."""
    found, law = {}, Moments(2.0, 0.5)
    for surrogate in ("truncated", "extension"):
        (plan,) = heavy_plans(problem(LOSSES[0]), PrivacyParams(1.0), 2.0, None, "heavy_tailed", shape=Shape(surrogate))
        released = float(plan.scale.edges[20]), 0.5 * float(plan.scale.edges[20])
        unlucky = 2 * plan.reach * plan.scale.failure * law.g1
        found[surrogate] = plan.error(released, law) - plan.resumed(*released).then.predicted_error.bound - unlucky
    assert found["extension"] == pytest.approx(2 * found["truncated"])
    assert found["truncated"] > 0


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "l2": ("l2", {"options": Options(l2=1.0)}),
    "noise": ("noise", {"options": Options(noise="l1")}),
    "algorithm": ("algorithm", {"algorithm": "objective_perturbation"}),
    "order": ("k", {"k": 1.5, "bound": 1.0}),
    "nothing known, few records": ("n", {"k": None, "algorithm": "heavy_tailed"}),
    "nothing known, few records, residuals": ("n", {"k": None, "algorithm": "clipped_residuals", "loss": LOSSES[1]}),
    "failure, few records": ("n", {"failure": 0.1}),
    "failure of another": ("failure", {"failure": 0.1, "algorithm": "clipped_residuals"}),
    "failure of a half": ("failure", {"failure": 0.5, "bound": 1.0}),
    "repetitions": ("n", {"failure": 1e-300, "bound": 1.0}),
    "bound": ("bound", {"bound": -1.0}),
    "small bound": ("moments.bound", {"bound": 1e-200, "algorithm": "heavy_tailed"}),
    "printed, few records": ("n", {"options": Options(constants="paper"), "bound": 1.0}),
    "three parameters": ("dim", {"bound": 1.0, "algorithm": "localized_exponential_mechanism"}),
    "three parameters, scores": ("dim", {"bound": 1.0, "algorithm": "gradient_score"}),
    "printed descent": ("constants", {"algorithm": "clipped_gradient", "options": Options(constants="paper")}),
}


@pytest.mark.parametrize(("name", "changed"), REFUSED.values(), ids=REFUSED)
def test_refusals_name_the_parameter(name: str, changed: dict[str, Any]) -> None:
    given: dict[str, Any] = {"k": 2.0, "bound": None, **changed}
    loss = given.pop("loss", LOSSES[0])
    with pytest.raises(InvalidParameterError) as caught:
        heavy_plans(problem(loss), PrivacyParams(1.0), **given)
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
    found = leveled(problem(), PrivacyParams(1.0), HEAVY_METHODS["heavy_tailed"])
    for plan in (found, found.then):
        for pair in ((kind(X), y), (X, kind(y))):
            with pytest.raises(InvalidDataError, match="runs on NumPy arrays"):
                plan.run(*pair, SeededSource(0))  # pyright: ignore[reportArgumentType]
