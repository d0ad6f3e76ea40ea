"""A look at a target's declared range before a regression over an l1 ball: its law, its bookkeeping, what it gains."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.dataset import dataset
from scipy import sparse

from dpconvex import CategoricalColumn, NumericColumn, PrivateLasso, Schema, load_model, save_model, verify
from dpconvex.algorithms import target_look
from dpconvex.algorithms.erm.two_stage.ranges import HALVED, SCALED, look_cost
from dpconvex.algorithms.minimax.registry import plan_saddle
from dpconvex.algorithms.recipes import again
from dpconvex.data import NumericTarget
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LogisticLoss, SquaredLoss
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import l1_ball_loss
from dpconvex.problems.data.ranges import PARTS, kept
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit.laws import finite_law

WIDE: dict[str, Any] = {"feature_bound": 1.0, "target_bounds": (-100.0, 300.0), "random_state": 0}
PURE = PrivacyParams(2.0, 0.0)


def problem(n: int = 200, loss: Any = None) -> Any:
    return l1_ball_loss(loss or SquaredLoss(0.5, 1.0), n, 3, 1.0, feature_bound=1.0)


def planned(n: int = 200, rest: float = 1.0) -> target_look.TargetLookPlan:
    return target_look.plan(plan_saddle(problem(n), replace(PURE, epsilon=rest))[0], PURE)


def table(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (n, 60))
    return X, 20 + 3 * X[:, 0] - 2 * X[:, 1] + rng.normal(size=n)


def released(plan: Any, y: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """The scores of a run's choice, and the targets that its second stage is given when all cells but four are left."""
    seen: list[np.ndarray] = []

    def choose(_: Any, scores: np.ndarray, *more: Any) -> int:
        seen.append(scores)
        return int(np.argmax(scores))

    def run(_: Any, records: Any, source: Any) -> Any:
        seen.append(records[1])
        raise StopIteration

    with monkeypatch.context() as patched:
        patched.setattr(ReportNoisyMax, "release", choose)
        patched.setattr(type(plan.then), "_run", run)
        with pytest.raises(StopIteration):
            plan.run((np.ones((len(y), 3)), y, np.zeros(len(y), np.int8)), SeededSource(0))
    return seen[0], seen[1]


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_the_law_of_the_part_keeps_the_promise(epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly, for every replacement of a record among some places; and it uses more than half of it."""
    plan, most = planned(12, 2.0 - min(epsilon, 1.9)), 0.0
    places = [-0.5, 0.02, 0.5, np.nan, np.inf]
    for rest in ([0.5] * 11, [-0.5] * 11, [0.02] * 5 + [0.5] * 6):
        laws = [finite_law(plan.look, released(plan, np.array([*rest, one]), monkeypatch)[0]) for one in places]
        for before, after in itertools.permutations(laws, 2):
            most = max(most, np.abs(after - before)[before > -60].max())
    assert 0.5 * plan.look.epsilon < most <= plan.look.epsilon * (1 + 1e-6)


def test_targets_are_clipped_into_the_released_part_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.append(np.full(199, 0.2), -0.5)
    plan, (scores, inside) = planned(), released(planned(), y, monkeypatch)
    assert inside[-1] == -0.5
    assert np.ptp(inside[:-1]) == 0
    assert -0.5 < inside[0] < 0.5
    assert scores.max() <= 200 + max(HALVED * plan.look.scale, target_look.TAIL * 200) * 5
    cells = plan.run((np.ones((200, 3)), y, np.zeros(200, np.int8)), SeededSource(1)).plan.target_cells
    assert inside[0] == pytest.approx(kept(SCALED, *cells).encode(np.array([0.2]))[0])


def test_a_fit_finds_the_part_and_says_so(tmp_path: Path) -> None:
    X, y = table()
    model = PrivateLasso(2.0, **WIDE).fit(X, y)
    (part,) = model.ranges_
    assert part.lower < 17 < 23 < part.upper
    assert part.upper - part.lower < 110  # of 400
    assert model.score(X, y) > 0.3
    assert PrivateLasso(2.0, **WIDE, radius=1.0).fit(X, y).score(X, y) < -1  # without a look
    assert model.predict(1e9 * X).max() <= part.upper
    assert model.certificate_.public["target_range"]["cells"]
    assert {c.name for c in verify(model.certificate_).checks if not c.passed} == {"noise is not seeded"}
    assert model.certificate_.releases[0].label == "part of the target's declared range, of 32 cells"
    assert model.plan_.look.epsilon == pytest.approx(look_cost(2.0, len(y)), rel=1e-9)
    path = tmp_path / "model.skops"
    save_model(model, path)
    again_ = load_model(path)
    assert again_.predict(X[:9]).tolist() == model.predict(X[:9]).tolist()
    assert again_.ranges_ == model.ranges_
    model.ranges_ *= 2
    with pytest.raises(InvalidParameterError, match="changed"):
        save_model(model, path)


def test_a_part_that_cannot_be_released_is_refused() -> None:
    recipe = planned().resumed((3, 7)).recipe
    assert again(replace(recipe, course=((3.0, 7.0),)).to_dict()).target_cells == (3.0, 7.0)
    for part in ((7, 3), (0, PARTS + 1), (-1, 4), (1, 2, 3)):
        with pytest.raises(InvalidParameterError, match="range"):
            planned().resumed(part)
    with pytest.raises(InvalidParameterError, match="range"):
        planned().resumed((1, 2), (1, 2))


def test_plans_of_more_than_the_promise_are_refused() -> None:
    for rest in (PrivacyParams(2.5, 0.0), PrivacyParams(1.0, 1e-6)):
        with pytest.raises((InvalidParameterError, ValueError)):
            target_look.plan(plan_saddle(problem(), rest)[0], PURE)


def test_looks_are_for_regressions_of_one_group() -> None:
    then = plan_saddle(problem(loss=LogisticLoss()), replace(PURE, epsilon=1.0))[0]
    with pytest.raises(InvalidParameterError, match="then"):
        target_look.plan(then, PURE)


@pytest.mark.parametrize(
    "given",
    [
        {"radius": 0.1},
        {"algorithm": "frank_wolfe"},
        {"constants": "paper"},
        {"target_bounds": (0, 1)},
        {"epsilon": 0.03},
    ],
    ids=str,
)
def test_when_no_look_is_taken(given: dict[str, Any]) -> None:
    X, y = table()
    model = PrivateLasso(**{"epsilon": 2.0, **WIDE, **given})
    assert not isinstance(model.plan(len(y), 60)[0], target_look.TargetLookPlan)
    assert model.fit(X, y).ranges_ == ()


def test_more_epsilon_keeps_no_longer_tail() -> None:
    """Half the width is worth a share of the records; it was worth less and less of them, and fits got worse."""
    X, y = table()
    y[:80] = np.linspace(30, 299, 80)  # of 4,000
    for epsilon in (2.0, 20.0, 200.0):
        (part,) = PrivateLasso(epsilon, **WIDE).fit(X, y).ranges_
        assert part.lower < 17 < 23 < part.upper < 80


def test_no_fit_without_a_look_comes_before_a_constant() -> None:
    """Where a look leaves too little for a fit, the whole range is up to 40 times worse than a constant."""
    few = PrivateLasso(1.0, feature_bound=1.0, target_bounds=(0.0, 365.0))
    whole = PrivateLasso(1.0, feature_bound=1.0, target_bounds=(0.0, 365.0), radius=1.0)  # without looks
    between = [n for n in (2600, 2800, 2950, 3200) if whole.plan(n, 4)[0].algorithm != "constant"]
    found = [few.plan(n, 4) for n in between]
    looks = [isinstance(plans[0], target_look.TargetLookPlan) for plans in found]
    assert 0 < sum(looks) < len(looks)
    assert looks == sorted(looks)
    assert all(look or plans[0].algorithm == "constant" for look, plans in zip(looks, found, strict=True))
    assert all(len({plan.algorithm for plan in plans}) == len(plans) for plans in found)
    unable = PrivateLasso(1.0, feature_bound=1.0, target_bounds=(0.0, 365.0), fit_intercept=False)
    assert unable.plan(500, 4)[0].algorithm != "constant"


def test_sparse_rows_and_portions_give_the_same_part(tmp_path: Path) -> None:
    """Portions keep their order, which full gradients do not depend on, so released numbers are the same."""
    X, y = table()
    dense, thin = (PrivateLasso(2.0, **WIDE).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    assert dense.ranges_ == thin.ranges_
    names = [f"x{k}" for k in range(5)]
    schema = Schema(tuple(NumericColumn(name, -1, 1) for name in names), NumericTarget("y", -100, 300, step=25))
    pq.write_table(
        pa.table({**dict(zip(names, X.T[:5], strict=True)), "y": y}), tmp_path / "t.parquet", row_group_size=999
    )
    whole, portions = (
        PrivateLasso(2.0, schema=schema, random_state=0).fit(rows)
        for rows in (pq.read_table(tmp_path / "t.parquet"), dataset(tmp_path / "t.parquet"))
    )
    assert whole.plan_.target_cells == portions.plan_.target_cells
    assert whole.found_schema_.target.lower % 25 == 0
    assert portions.found_schema_.target.upper == portions.ranges_[0].upper


def test_a_second_fit_starts_from_the_declared_range() -> None:
    X, y = table()
    model = PrivateLasso(2.0, **WIDE)
    first = model.fit(X, y).predict(X[:5]).tolist()
    assert model.fit(X, y).predict(X[:5]).tolist() == first


def test_ends_in_an_array_are_ends_and_plans_are_a_table() -> None:
    X, y = table()
    given = {**WIDE, "target_bounds": np.array([-100.0, 300.0])}
    model = PrivateLasso(2.0, 0.0, **given)
    assert "gaussian_mirror_descent" in dict(model.plan(len(y), 60).refused)
    assert model.fit(X, y).ranges_ == PrivateLasso(2.0, 0.0, **WIDE).fit(X, y).ranges_
    model.set_params(feature_bound=None, feature_bounds=([-1.0] * 2, [1.0] * 2))
    assert model.plan(len(y), 2)  # nothing of the fit to 60 columns matters


def test_a_missing_target_is_scored_as_it_was_fitted() -> None:
    """It counts as the middle of the declared range, 100, which lies above the part that is kept."""
    X, y = table()
    model = PrivateLasso(2.0, **WIDE).fit(X, y)
    (part,) = model.ranges_
    assert part.upper < 100
    some = np.where(np.arange(len(y)) < 40, np.nan, y)
    assert model.score(X, some) == pytest.approx(model.score(X, np.where(np.isnan(some), part.upper, y)))


@pytest.mark.parametrize("algorithm", ["anytime_mirror_descent", "variance_reduced_frank_wolfe"])
def test_tables_of_many_levels_run_methods_that_read_single_records(algorithm: str) -> None:
    """Such tables are encoded portion by portion; the fit failed with an assertion when it had been paid for."""
    rng = np.random.default_rng(0)
    levels = tuple(f"w{k}" for k in range(600))
    rows = pa.table({"word": rng.choice(levels, 20_000), "y": rng.uniform(0, 1, 20_000)})
    schema = Schema((CategoricalColumn("word", levels),), NumericTarget("y", 0, 1))
    model = PrivateLasso(5.0, schema=schema, algorithm=algorithm, random_state=0).fit(rows)
    assert np.isfinite(model.predict(rows)).all()
