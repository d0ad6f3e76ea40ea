"""Looks at declared ranges where one unit is added or removed: exact laws of neighbors, and nothing tells how many."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpconvex import (
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    verify,
)
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.algorithms.erm.two_stage.ranges import (
    FIRST,
    FULL,
    HALVED,
    SCALED,
    STOP,
    counted,
    look_cost,
    offered,
    scored,
)
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import HuberLoss
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.privacy import Neighboring, PrivacyParams, Unit
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.ranges import PARTS, parts
from dpconvex_experiments.audit.laws import finite_law

ADDED: dict[str, Any] = {"neighbors": "add_or_remove_one", "rows": 3000, "random_state": 0}
DECLARED = ranges.NumberRange(0.0, 20_000.0)
BOUNDS: dict[str, Any] = {"feature_bounds": (0, 1000), "target_bounds": (0, 20_000), **ADDED}


def planned(epsilon: float, unit: Unit = Unit.RECORD, **at: Any) -> Any:
    records = 2 if unit == Unit.USER else None
    domain = DataDomain((Block(1, "linf", 0.5),))
    problem = LinearModelProblem(HuberLoss(0.5, 0.5), domain, 50, 1.0, records_per_user=records, private_n=True)
    privacy = PrivacyParams(2 * epsilon, 0.0, Neighboring.ADD_OR_REMOVE_ONE, unit)
    then = plans(problem, replace(privacy, epsilon=epsilon), "objective_perturbation")[0]
    return ranges.plan(then, privacy, (), **at)


def law(look: ReportNoisyMax, y: np.ndarray, groups: UserGroups | None = None) -> np.ndarray:
    """Log-probabilities of all 528 parts, exactly."""
    counts = counted(None, y, groups, lambda _, y: parts(SCALED, y)[None], PARTS + 1)
    return finite_law(look, scored(counts, HALVED * look.scale))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_law_of_a_part_keeps_the_promise_and_uses_it(epsilon: float) -> None:
    """All tables of up to two records in some places, nobody among them, or beside a heap; and one record more."""
    look, most = planned(epsilon, look=True).look, 0.0
    places = [-0.5, 0.02, 0.5, np.nan]
    small = [list(each) for k in range(3) for each in itertools.combinations_with_replacement(places, k)]
    heap = [0.5] * round(120 / epsilon)
    for rest in [*small, heap, [*heap, -0.5], [*heap, *[-0.5] * (len(heap) - 3)]]:
        before = law(look, np.array(rest))
        for one in places:
            moved = np.abs(law(look, np.array([*rest, one])) - before)[before > -60].max()  # rarer: rounding
            assert moved <= look.epsilon * (1 + 1e-6)
            most = max(most, moved)
    assert most > 0.97 * look.epsilon


def test_a_user_more_keeps_the_promise() -> None:
    """Whose records may lie in several cells; nobody at all is a neighbor of one user."""
    look, most = planned(1.0, Unit.USER, look=True).look, 0.0
    for n in (0, 1, 100):
        rest = np.full(3 * n, 0.4)
        labels = np.repeat(np.arange(n), 3)
        before = law(look, rest, UserGroups.of(labels, empty=True))
        for more in ([-0.5], [-0.5, 0.0, 0.0, np.nan], [0.4] * 300):
            groups = UserGroups.of(np.append(labels, np.full(len(more), n)))
            moved = np.abs(law(look, np.append(rest, more), groups) - before)[before > -60].max()
            assert moved <= look.epsilon * (1 + 1e-6)
            most = max(most, moved)
    assert most > 0.9 * look.epsilon


def test_scores_of_any_number_of_units_are_exact() -> None:
    """Cells are cut where sums would round: so one user more moves no score further than it may."""
    counts = np.full(PARTS + 1, 2.0**40)
    counts[3] = FULL / 2 + 2.0**-24
    other = counts + np.append(np.full(PARTS, 2.0**-24), 0.5)
    moved = scored(other, 7.0) - scored(counts, 7.0)
    assert set(moved.tolist()) == {0.0, 2.0**-24}
    assert np.isfinite(scored(np.full(PARTS + 1, 1e300), 7.0)).all()


@pytest.mark.parametrize("unit", list(Unit))
@pytest.mark.parametrize("at", [{"look": True}, {"looked": (0,)}], ids=str)
def test_releases_state_half_of_what_a_replaced_unit_moves(at: Any, unit: Unit) -> None:
    plan = planned(1.0, unit, **at)
    release = plan.releases[0]
    assert (release.sensitivity.value, release.sensitivity.norm) == (0.5, "linf")
    assert release.sensitivity.neighboring == "add_or_remove_one"
    assert release.sensitivity.unit == unit
    assert 2 * release.sensitivity.value <= release.event.epsilon * (plan.look or plan.looks).scale


def test_looks_that_no_epsilon_pays_are_refused_by_name() -> None:
    """The planner was asked for both and gave the columns nothing: the mechanism then spoke of epsilon=0."""
    with pytest.raises(InvalidParameterError, match=r"looked=\(0,\): must have 150 units times epsilon"):
        planned(0.5, look=True, looked=(0,))


def test_private_histograms_are_for_replaced_units_alone() -> None:
    asked: tuple[dict[str, Any], ...] = {"target": True}, {"placed": (0,)}
    for at in asked:
        with pytest.raises(InvalidParameterError, match="replace_one"):
            planned(1.0, **at)


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    return X, 300 + 400 * X[:, 0] + 30 * rng.standard_normal(n)


@pytest.mark.parametrize("users", [False, True])
def test_scores_are_counts_and_numbers_of_the_declared_n(users: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are costs; a fit of nobody has the scores of no count."""
    seen: list[np.ndarray] = []
    public: list[np.ndarray] = []
    given = ReportNoisyMax._sample
    monkeypatch.setattr(ReportNoisyMax, "_sample", lambda self, v, s: (seen.append(v), given(self, v, s))[1])
    model = PrivateLinearRegression(1.0, **BOUNDS)
    for n in (0, 1, 2500):
        X, y = table(n)
        seen.clear()
        plan: Any = model.fit(X, y, groups=np.arange(n) if users else None).plan_
        assert plan.look.epsilon == pytest.approx(look_cost(1.0, 2 * ADDED["rows"]), rel=1e-9)
        counts = np.bincount(parts(DECLARED, y), minlength=PARTS + 1) if n else np.zeros(PARTS + 1)
        below = np.append(0.0, np.cumsum(counts[:PARTS]))
        few = offered(HALVED * plan.look.scale / plan.problem.n)
        public.append(seen[0] - (below[STOP] - below[FIRST])[few])
        np.testing.assert_array_equal(public[-1], public[0])
        assert len(seen) == 3  # the target, and two columns


@pytest.mark.parametrize(("kind", "delta"), [(PrivateLinearRegression, 0.0), (PrivateHuberRegressor, 1e-6)])
def test_a_look_saves_wide_ranges_and_certificates_hold(kind: Any, delta: float) -> None:
    X, y = table(2500)
    model = kind(1.0, delta, **{**BOUNDS, "random_state": None}).fit(X, y)
    seeded, other = (kind(1.0, delta, **BOUNDS) for _ in range(2))
    other._looks = False
    assert seeded.fit(X, y).score(X, y) > 0.1 > other.fit(X, y).score(X, y)
    assert {release.sensitivity.neighboring for release in model.certificate_.releases} == {"add_or_remove_one"}
    assert verify(model.certificate_).passed
    assert "adding or removing one row" in model.certificate_.explain()
    first, *others = model.certificate_.releases
    grown = replace(first, sensitivity=replace(first.sensitivity, value=0.25))
    assert not verify(replace(model.certificate_, releases=(grown, *others))).passed


@pytest.mark.parametrize("kind", [PrivateAdditiveRegressor, PrivateLogisticRegression])
def test_a_released_part_is_all_that_differs_between_tables_of_any_size(kind: Any, monkeypatch: Any) -> None:
    """Given that the same parts are released: plans, texts, certificates and warnings are equal, for users, too."""
    monkeypatch.setattr(ReportNoisyMax, "_sample", lambda self, scores, source: len(scores) // 2)
    given = {k: v for k, v in BOUNDS.items() if k != "target_bounds"} | {"classes": [0, 1]}
    model = kind(1.0, 1e-6, **(given if kind is PrivateLogisticRegression else BOUNDS))
    for users in (False, True):
        stated = []
        for n in (0, 1, 7, 5000):
            X, y = table(n)
            y = (y > 500).astype(int) if kind is PrivateLogisticRegression else y
            model.fit(X, y, groups=np.arange(n) // 2 if users else None)
            told = {k: v for k, v in model.certificate_.to_dict().items() if k not in ("digest", "model")}
            stated.append((told, model.ranges_, model.plan_.releases, model.coef_.shape))
        assert len(model.ranges_) >= 2
        assert "column_ranges" in str(stated[0][0])
        assert all(each == stated[0] for each in stated)
