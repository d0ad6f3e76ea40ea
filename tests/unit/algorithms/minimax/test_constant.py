"""Constants of linear models over an l1 ball: an exact sum of targets, its noise, and when one is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dpconvex import PrivateLasso, PrivateSparseLogisticRegression
from dpconvex.algorithms.minimax import constant
from dpconvex.algorithms.minimax.registry import SADDLE_METHODS, SPARSE_METHODS, plan_saddle
from dpconvex.errors import HopelessPlanWarning, InvalidParameterError
from dpconvex.losses import LogisticLoss, SquaredLoss
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import MatrixGame, WorstGroupLoss, l1_ball_loss
from dpconvex.randomness import SeededSource

PURE = PrivacyParams(1.0, 0.0)
ODD = [0.0, 1e-9, 0.5, -0.5, 3.0, -np.inf, np.inf, np.nan, 1e300]


def problem(n: int = 9, loss: Any = None, **more: Any) -> Any:
    return l1_ball_loss(loss or SquaredLoss(0.5, 1.0), n, 3, 2.0, feature_bound=0.5, **{"intercept": True, **more})


def summed(plan: Any, y: Any, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return the number that a run adds noise to."""
    seen: list[float] = []

    def release(_: Any, value: np.ndarray, *more: Any) -> np.ndarray:
        seen.append(float(value[0]))
        return value

    with monkeypatch.context() as patched:
        patched.setattr(LaplaceMechanism, "release", release)
        plan.run((np.full((len(y), 3), np.nan), np.asarray(y), np.zeros(len(y), np.int8)), SeededSource(0))
    return seen[0]


@pytest.mark.parametrize("loss", [SquaredLoss(0.5, 1.0), LogisticLoss()], ids=["numbers", "two classes"])
def test_a_replaced_target_moves_the_sum_by_at_most_two(loss: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stood there and whatever stands there; the bound is reached, and the order does not matter."""
    plan, most = constant.plan(problem(loss=loss), PURE), 0.0
    for rest in (np.zeros(8), np.linspace(-0.5, 0.5, 8), np.full(8, 1 / 3)):
        sums = [summed(plan, np.append(rest, one), monkeypatch) for one in ODD]
        most = max(most, max(sums) - min(sums))
        assert summed(plan, np.append(rest, 0.3)[::-1], monkeypatch) == summed(plan, np.append(rest, 0.3), monkeypatch)
    assert most == plan.mechanism.sensitivity.value == 2.0


def test_sums_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand tenths are not 100 in floating point; rounded one by one they are a thousand times one number."""
    plan = constant.plan(problem(1000), PURE)
    one = np.rint(0.2 * constant.UNITS) / constant.UNITS
    assert summed(plan, np.full(1000, 0.1), monkeypatch) == 1000 * one


def test_the_constant_is_that_of_the_mean_and_lies_in_the_ball() -> None:
    rng = np.random.default_rng(0)
    y = rng.uniform(0.1, 0.3, 5000)
    records: Any = rng.normal(size=(5000, 3)), y, np.zeros(5000, np.int8)
    given = problem(5000)
    result = constant.plan(given, PURE).run(records, SeededSource(0))
    weights = given.point(result.x)
    assert weights[:3].tolist() == [0, 0, 0]
    assert 0.5 * weights[3] == pytest.approx(y.mean(), abs=0.01)
    tight = WorstGroupLoss(given.loss, 5000, 3, 0.1, 0.5, (1.0,), True)
    assert np.abs(tight.point(constant.plan(tight, PURE).run(records, SeededSource(0)).x)).sum() <= 0.1 + 1e-12
    signs: Any = records[0], np.where(np.arange(5000) < 1000, 1.0, -1.0), records[2]
    two = problem(5000, loss=LogisticLoss())
    found = two.point(constant.plan(two, PURE).run(signs, SeededSource(0)).x)
    assert 0.5 * found[3] == pytest.approx(-1.0)  # -1.39, were the ball larger
    wide = WorstGroupLoss(LogisticLoss(), 5000, 3, 9.0, 0.5, (1.0,), True)
    assert 0.5 * wide.point(constant.plan(wide, PURE).run(signs, SeededSource(0)).x)[3] == pytest.approx(
        -1.386, abs=0.05
    )
    alike: Any = records[0], np.full(5000, -1.0), records[2]
    assert np.isfinite(constant.plan(wide, PURE).run(alike, SeededSource(0)).x).all()


def test_the_expected_excess_is_that_of_the_noise() -> None:
    """The loss is half a square here, so the noise of the mean costs half of its variance."""
    plan = constant.plan(problem(50), PURE)
    y = np.linspace(-0.4, 0.4, 50)
    records: Any = np.zeros((50, 3)), y, np.zeros(50, np.int8)
    found = [0.5 * plan.problem.point(plan.run(records, SeededSource(k)).x)[3] for k in range(400)]
    assert np.square(found).mean() / 2 == pytest.approx(plan._noise, rel=0.25)


def test_what_has_no_constant_is_refused() -> None:
    for given in (problem(intercept=False), MatrixGame(9, 2, 2)):
        with pytest.raises(InvalidParameterError):
            constant.plan(given, PURE)
    groups = WorstGroupLoss(LogisticLoss(), 9, 3, 1.0, 1.0, (2.0, 2.0), True)
    assert "constant" not in {plan.algorithm for plan in plan_saddle(groups, PURE)}
    assert "constant" in SPARSE_METHODS
    assert "constant" not in SADDLE_METHODS


def test_few_records_have_a_constant_and_it_says_so() -> None:
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (500, 40))
    y = 12 + X[:, 0] + rng.normal(size=500)
    model = PrivateLasso(1.0, feature_bound=1.0, target_bounds=(-50, 50), random_state=0)
    with pytest.warns(HopelessPlanWarning, match="frank_wolfe"):
        model.fit(sparse.csr_array(X), y)
    assert (model.plan_.algorithm, model.sparsity_) == ("constant", 0)
    assert abs(model.score(X, y)) < 0.05
    assert model.plan(100_000, 40)[0].algorithm != "constant"
    ill = rng.random(500) < 0.2
    two = PrivateSparseLogisticRegression(0.2, feature_bound=1.0, random_state=0)
    with pytest.warns(HopelessPlanWarning, match="no column is used"):
        two.fit(X, ill)
    assert two.predict_proba(X)[:, 1] == pytest.approx(0.2, abs=0.06)
