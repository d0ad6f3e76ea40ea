"""A typical number of records of a user, found privately: what is counted, what is read, what it costs, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from dpconvex import PrivateLinearRegression, PrivateLogisticRegression, load_model, save_model, verify
from dpconvex.algorithms.erm.registry import Methods, plans
from dpconvex.algorithms.erm.two_stage import typical_user
from dpconvex.algorithms.erm.two_stage.typical_user import GUESS, SHARES, TYPICAL, TypicalUserPlan
from dpconvex.algorithms.select import Options
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import PrivateAdditiveClassifier
from dpconvex.losses import LogisticLoss, SquaredLoss
from dpconvex.mechanisms import JointHistogram
from dpconvex.privacy import Neighboring, PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource

USERS = PrivacyParams(1.0, 1e-6, unit=Unit.USER)
NOISY = Methods(Options(), ("noisy_gradient",))


def planned(n: int = 400, privacy: PrivacyParams = USERS, planner: Any = NOISY) -> TypicalUserPlan:
    domain = DataDomain.box(2, 1.0).with_intercept(1.0)
    return typical_user.plan(LinearModelProblem(LogisticLoss(), domain, n, 2.0, records_per_user=1), privacy, planner)[
        0
    ]


def table(sizes: Any, seed: int = 0) -> tuple[np.ndarray, np.ndarray, UserGroups]:
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.uniform(-1, 1, (len(users), 2))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0), UserGroups.of(users)


@pytest.fixture
def counted(monkeypatch) -> list[np.ndarray]:
    """What the histogram is given."""
    seen: list[np.ndarray] = []
    release = JointHistogram.release

    def watched(self, value, *rest):
        seen.append(np.array(value))
        return release(self, value, *rest)

    monkeypatch.setattr(JointHistogram, "release", watched)
    return seen


@pytest.mark.parametrize(("n", "epsilon"), [(1000, 1.0), (1000, 30.0), (5000, 3.0)])
def test_whatever_number_is_released_has_a_plan_that_the_promise_covers(n: int, epsilon: float) -> None:
    """From 361 records on a phased fit cost 1.31 beside the histogram: it was refused when both had been paid for."""
    privacy = PrivacyParams(epsilon, 1e-6, unit=Unit.USER)
    plan = planned(n, privacy, Methods(Options(), ("phased_sgd",)))
    assert {plan.informed(typical).then.algorithm for typical in TYPICAL} == {"phased_sgd"}


@pytest.mark.parametrize("n", [10, 400, 10**6])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_the_budget_is_split_before_the_run(n, epsilon) -> None:
    plan = planned(n, PrivacyParams(epsilon, 1e-6, unit=Unit.USER))
    assert SHARES[0] * epsilon <= plan.first.epsilon <= SHARES[1] * epsilon
    assert plan.first.epsilon + plan.then.privacy.epsilon <= epsilon
    assert float(plan.releases[0].event.pure_epsilon) == pytest.approx(plan.first.epsilon, rel=1e-9)
    assert plan.certificate(SeededSource(0)).spent_epsilon == epsilon
    assert plan.then.privacy.delta == plan.privacy.delta
    assert plan.first.sensitivity.unit == Unit.USER


def test_cells_are_octaves_of_the_numbers_of_records(counted) -> None:
    sizes = [1, 2, 3, 4, 7, 8, 2047, 2048, 5000]
    planned(9).run(*table(sizes)[:2], SeededSource(0), table(sizes)[2])
    assert counted[0].tolist() == [1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 1, 2]
    ends = [(2**k, 2 ** (k + 1) - 1) for k in range(len(TYPICAL))]
    assert all(low <= middle <= high for (low, high), middle in zip(ends, TYPICAL, strict=True))


@pytest.mark.parametrize(("before", "after"), [(1, 4000), (3, 4), (2, 3), (90, 1)])
def test_a_replaced_user_moves_the_counts_by_two_at_most(counted, before, after) -> None:
    for last in (before, after):
        X, y, groups = table([3, 8, 8, 20, last])
        planned(5).run(X, y, SeededSource(0), groups)
    first, second = counted
    assert first.sum() == second.sum() == 5
    assert np.abs(first - second).sum() <= 2


def test_only_released_counts_are_read(monkeypatch) -> None:
    """Two tables, one released histogram: the same plan."""
    chosen = []
    for size in (1, 1000):
        noisy = np.full(len(TYPICAL), 0.0)
        noisy[5] = 30.0
        monkeypatch.setattr(JointHistogram, "release", lambda *_, noisy=noisy: noisy)
        X, y, groups = table([size] * 30)
        ran: Any = planned(30, PrivacyParams(1e4, 1e-6, unit=Unit.USER)).run(X, y, SeededSource(0), groups).plan
        chosen.append((ran.typical, ran.problem.records_per_user, ran.then.describe()))
    assert chosen[0] == chosen[1]
    assert chosen[0][:2] == (TYPICAL[5], TYPICAL[5])


@pytest.mark.thin
@pytest.mark.parametrize("size", [1, 5, 30, 700, 2048])
@pytest.mark.dear("700")
def test_the_median_is_found_where_noise_is_small(size) -> None:
    X, y, groups = table([size] * 150)
    ran: Any = planned(150, PrivacyParams(1e4, 1e-6, unit=Unit.USER)).run(X, y, SeededSource(3), groups).plan
    assert ran.typical == TYPICAL[min(size.bit_length() - 1, 11)]


def test_counts_that_noise_drowns_leave_the_guess() -> None:
    plan, rng = planned(50, PrivacyParams(0.01, 1e-6, unit=Unit.USER)), np.random.default_rng(0)
    noise = rng.laplace(0, 2 / plan.first.epsilon, (200, len(TYPICAL)))
    found = [plan.read_off(50 / 12 + one - one.mean()) for one in noise]
    assert {TYPICAL.index(each) for each in found} <= {GUESS - 1, GUESS, GUESS + 1}


@pytest.mark.thin
@pytest.mark.parametrize("extreme", [-1e300, 0.0, 1e300])
@pytest.mark.parametrize("algorithm", ["noisy_gradient", "informed_gradient", "objective_perturbation", "phased_sgd"])
@pytest.mark.dear("phased_sgd--1e+300")
def test_every_release_has_a_plan(algorithm, extreme) -> None:
    plan = planned(3_000, planner=Methods(Options(), (algorithm,)))
    for k in range(len(TYPICAL)):
        noisy = np.full(len(TYPICAL), -extreme)
        noisy[k] = extreme
        assert plan.informed(plan.read_off(noisy)).problem.records_per_user in TYPICAL
    for typical in TYPICAL:
        then = plan.resumed(typical)
        assert then.then.privacy == plan.then.privacy
        assert then.releases[0] == plan.releases[0]


@pytest.mark.parametrize("typical", [1, 5, 22])
def test_a_released_number_is_planned_for_as_if_there_had_been_no_guess(typical) -> None:
    domain = DataDomain.box(2, 0.5).with_intercept(0.5)
    problem = LinearModelProblem(SquaredLoss(0.5, 0.5), domain, 300, 0.8, records_per_user=1)
    auto = Methods(Options(), ("objective_perturbation", "sufficient_statistics"))
    plan = typical_user.plan(problem, replace(USERS, epsilon=1.56), auto)[0]
    assert plan.problem.factor is not None  # objective perturbation chose coordinates for the guess, and for it alone
    alone = auto(replace(problem, records_per_user=typical), plan.then.privacy)[0]
    assert plan.informed(typical).then.public == alone.public


def test_what_no_number_could_be_planned_for_is_refused_before_the_run() -> None:
    def only_few(problem, privacy):
        if problem.records_per_user > 100:
            raise InvalidParameterError("records_per_user", problem.records_per_user, "is too large")
        return plans(problem, privacy, "noisy_gradient")

    with pytest.raises(InvalidParameterError, match="too large"):
        planned(planner=only_few)


@pytest.mark.parametrize("number", [3, 0, 10**6, "5"])
def test_only_listed_numbers_can_be_released(number) -> None:
    with pytest.raises(InvalidParameterError, match="records_per_user"):
        planned().resumed(number)


def fitted(kind: Any = PrivateLogisticRegression, **options: Any) -> Any:
    X, y, groups = table(np.random.default_rng(1).geometric(0.1, 300))
    labels = groups.spread(np.arange(300.0))
    given = {"feature_bounds": (-1, 1), "classes": [-1.0, 1.0], "records_per_user": "private", "random_state": 0}
    return kind(2.0, 1e-6, **{**given, **options}).fit(X, y, groups=labels)


def test_one_certificate_that_verifies(tmp_path) -> None:
    model = fitted(algorithm="noisy_gradient", random_state=None)
    assert isinstance(model.plan_, TypicalUserPlan)
    assert model.certificate_.public["typical_user"]["found"] == model.plan_.typical
    assert model.certificate_.public["records_per_user"] == model.plan_.typical
    assert verify(model.certificate_).passed
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").records_per_user == "private"
    assert model.plans_at(1.0)[0].problem.records_per_user == model.plan_.typical
    again = model.plan_.at(USERS)
    assert (again.typical, again.privacy, again.problem.records_per_user) == (None, USERS, TYPICAL[GUESS])


@pytest.mark.gate
def test_it_goes_with_private_ranges_and_with_numbers() -> None:
    X, _, groups = table(np.random.default_rng(1).geometric(0.1, 300))
    labels = groups.spread(np.arange(300.0))
    model = PrivateLinearRegression(
        2.0, 1e-6, feature_bounds=(-1, 1), target_bounds="private", records_per_user="private"
    ).fit(X, X[:, 0], groups=labels)
    assert verify(model.certificate_).passed
    assert model.plan_.then.typical in TYPICAL


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_looks_at_declared_ranges_come_first(delta: float) -> None:
    """In ranges that are far too wide a fit was worse than a constant, and one with a declared number was not."""
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(600), 7)
    X = rng.uniform(0, 1, (len(users), 2))
    y = X @ [2.0, -1.0] + 0.1 * rng.standard_normal(len(users))
    model = PrivateLinearRegression(
        2.0, delta, feature_bounds=(0, 20), target_bounds=(-60, 60), records_per_user="private", random_state=0
    ).fit(X, y, groups=users)
    assert np.square(model.predict(X) - y).mean() < 0.5 * y.var()
    assert model.plan_.typical in TYPICAL
    assert next(each.label for each in model.certificate_.releases).startswith("part of the target's declared range")
    assert verify(model.certificate_).planned


def test_refusals_are_from_public_facts() -> None:
    X, y, groups = table([2] * 30)
    model = PrivateLogisticRegression(
        1.0, 1e-6, feature_bounds=(-1, 1), classes=[-1.0, 1.0], records_per_user="private"
    )
    with pytest.raises(InvalidParameterError, match="is for users"):
        model.fit(X, y)
    with pytest.raises(InvalidParameterError, match="is for users"):
        model.plan(30, 2, unit="record")
    with pytest.raises(InvalidParameterError, match=r"records_per_user='private': .*neighbors='replace_one'"):
        clone(model).set_params(neighbors="add_or_remove_one", rows=60).fit(X, y, groups=groups.spread(np.arange(30.0)))
    with pytest.raises(InvalidParameterError, match="inference"):
        model.set_params(inference=True).fit(X, y, groups=groups.spread(np.arange(30.0)))
    with pytest.raises(InvalidParameterError, match="must be a number"):
        fitted(PrivateAdditiveClassifier)
    with pytest.raises(InvalidParameterError, match="records_per_user"):
        fitted(records_per_user="typical")
    for change in ({"neighboring": Neighboring.ADD_OR_REMOVE_ONE}, {"unit": Unit.RECORD}):
        with pytest.raises(InvalidParameterError, match=r"neighboring|unit|users"):
            planned(privacy=replace(USERS, **change))
