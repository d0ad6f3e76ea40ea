"""One private bound for the sum of many columns before an ordinary method: domain, releases, refusals, content."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

from dpconvex import PrivateLinearRegression, PrivateLogisticRegression, verify
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.two_stage.joint_bound import TUNING, JointPlan, joined
from dpconvex.algorithms.erm.two_stage.recentering import row_lengths
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import HuberLoss, LogisticLoss, SoftmaxLoss
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.privacy import PrivacyCertificate, PrivacyParams, Unit
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.records import Records
from dpconvex.randomness import SeededSource, SystemSource

FLAGS = Block(20, "linf", 0.5, "flags", "binary")
MORE = Block(10, "linf", 1.0, "more", "binary")
MIXED = DataDomain((Block(2, "linf", 2.0, "scores"), FLAGS, Block(3, "simplex", 1.0), MORE), 1.0)
JOINT, OTHERS, HALF = np.r_[2:22, 25:35], np.r_[0:2, 22:25], np.repeat([0.5, 1.0], [20, 10])


def problem(loss=None, n: int = 4000, domain: DataDomain = MIXED, **more) -> LinearModelProblem:
    return LinearModelProblem(loss or LogisticLoss(), domain, n, 5.0, **more)


def planned(task: LinearModelProblem, epsilon: float = 1.0, delta: float = 0.0) -> JointPlan:
    unit = Unit.USER if task.grouped else Unit.RECORD
    (plan,) = plans(task, PrivacyParams(epsilon, delta, unit=unit), "joint_bound")
    assert isinstance(plan, JointPlan)
    return plan


def sparse(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Records of `MIXED` whose flags are nearly all 0, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    flags = (rng.random((n, 30)) < 0.02) * 1.0
    scores, levels = rng.uniform(-2, 2, (n, 2)), np.eye(3)[rng.integers(0, 3, n)]
    z = 3 * flags[:, 0] + 2 * flags[:, 21] + scores[:, 0] + levels[:, 0]
    own = (2 * flags - 1) * HALF
    return np.column_stack([scores, own[:, :20], levels, own[:, 20:]]), np.where(z > rng.logistic(size=n), 1.0, -1.0)


def test_columns_are_measured_from_zero() -> None:
    moved = planned(problem())._moved(sparse(50)[0], -HALF, 2 * HALF)
    assert set(np.unique(moved[:, :30])) == {0.0, 1.0}
    assert (moved[:, 32:].sum(1) == 1).all()
    assert planned(problem()).numeric.tolist() == JOINT.tolist()


def test_the_domain_has_a_joint_block_first() -> None:
    domain = joined(problem(), 4.0).domain
    joint, *others = domain.blocks
    assert (joint.size, joint.norm, joint.bound, joint.largest, joint.values) == (30, "l1", 4.0, 1.0, "binary")
    assert ([block.name or block.norm for block in others], domain.intercept) == (["scores", "simplex"], 1.0)
    assert joined(problem(), 0.25).domain.blocks[0].largest == 0.25
    assert joined(problem(), 2.0).radius > joined(problem(), 4.0).radius  # shorter records need longer coefficients


@given(seed=st.integers(0, 10**6), bound=st.sampled_from([0.3, 1.0, 2.5, 7.0]), largest=st.sampled_from([0.2, 1.0]))
def test_no_record_is_longer_than_stated(seed: int, bound: float, largest: float) -> None:
    """Entries, their sum and the Euclidean length, whatever a record holds, and however a reader passes it."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([1, 2, 12]))
    block = Block(size, "l1", bound, largest=min(largest, bound))
    X = rng.choice([0.0, 0.1, -0.3, 1.0, 1 / 3, 5.0, -1e300, np.inf, np.nan, 5e-324], (40, size))
    for domain in (DataDomain((block,)), DataDomain((block, Block(1, "linf", 1.0)), 1.0)):
        given_rows = np.column_stack([X, np.zeros((40, domain.n_features - size))])
        read = [Records.clipped(each, domain) for each in (given_rows, csr_array(given_rows))]
        for rows in (domain.clip(given_rows), *(np.vstack([b.dense() for b in r.blocks()]) for r in read)):
            exact = [[abs(Fraction(x)) for x in row[:size]] for row in rows.tolist()]
            assert max(map(max, exact)) <= Fraction(block.linf)
            assert max(map(sum, exact)) <= Fraction(block.l1)
            assert max(sum(x * x for x in row) for row in exact) <= Fraction(block.l2) ** 2


def test_the_stated_length_is_nearly_attained() -> None:
    """Seven entries of 1 are a record whose sum is 7: its length is the root, not 7."""
    block = Block(12, "l1", 7.0, largest=1.0)
    row = DataDomain((block,)).clip(np.array([[1.0] * 7 + [0.0] * 5]))
    assert np.linalg.norm(row) == pytest.approx(block.l2, rel=1e-12)
    assert block.l2 == pytest.approx(7**0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("norm", "bound", "largest"), [("l1", 2.0, 3.0), ("l1", 2.0, 0.0), ("l2", 2.0, 1.0), ("linf", 2.0, 1.0)]
)
def test_a_largest_entry_is_for_l1_blocks_and_at_most_the_bound(norm: Any, bound: float, largest: float) -> None:
    with pytest.raises(InvalidParameterError, match="largest"):
        Block(3, norm, bound, largest=largest)


@pytest.mark.thin
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.5, 1.0), SoftmaxLoss(3)], ids=lambda loss: loss.name)
def test_without_noise_it_finds_the_parameters_of_the_columns_as_they_were(loss) -> None:
    """Epsilon 1e6: the minimizer of the moved problem, put back, predicts what it predicts on moved records."""
    n = 400
    X, y = sparse(n)
    y = np.arange(n) % 3 if loss.n_outputs == 3 else y
    result = planned(problem(loss, n), 1e6).run(X, y, SeededSource(1))
    ran = result.plan
    assert isinstance(ran, JointPlan)
    assert ran.moved
    inner, w = ran.then.problem, result.point.reshape(loss.n_outputs, MIXED.dim)
    weights = np.column_stack([w[:, JOINT] * 2 * HALF, w[:, OTHERS], w[:, -1] - w[:, JOINT] @ HALF])
    if inner.factor is not None:  # objectives are functions of the coordinates that the ridge is on
        weights = np.vstack([np.linalg.lstsq(inner.factor.matrix.toarray(), each, rcond=None)[0] for each in weights])
    moved = ran._moved(X, -HALF, 2 * HALF)
    assert np.linalg.norm(inner.objective(moved, y, ran.then.l2).gradient(weights.ravel())) < 1e-3


def scores(plan: JointPlan, X: np.ndarray, groups: UserGroups | None = None) -> np.ndarray:
    """Return the scores of the list of bounds, as a run computes them."""
    seen = list[np.ndarray]()

    class Stop(Exception):
        pass

    def release(self, value, *rest, **named):
        seen.append(np.array(value))
        raise Stop

    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(ReportNoisyMax, "release", release)
        with pytest.raises(Stop):
            plan._run(X, np.ones(len(X)), groups, SeededSource(0))
    return seen[0]


@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), where=st.integers(0, 59))
def test_a_replaced_record_moves_every_score_by_one_at_most(seed: int, n: int, where: int) -> None:
    """Scores as the run computes them, extreme records included."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1e300, -0.5, -0.1, 0.0, 0.2, 0.5, 7.0, np.nan, np.inf], (n, 35))
    other = X.copy()
    other[where % n] = rng.choice([-np.inf, -0.5, 0.5, 1e9], 35)
    plan = planned(problem(n=5000))  # `_run` does not ask how many records there are
    first, second = scores(plan, X), scores(plan, other)
    assert np.abs(first - second).max() <= 1
    assert (first * 2**24 == np.rint(first * 2**24)).all()  # sums are exact
    assert plan.first.sensitivity.value == 1


@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 40), min_size=2, max_size=2))
def test_a_replaced_user_moves_a_sum_of_shares_by_one_at_most(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    rest = rng.integers(1, 30, 5)
    plan = planned(problem(n=5000, records_per_user=3))
    shared, found = rng.choice([-0.5, 0.5, 0.2, np.nan], (int(rest.sum()), 35)), list[np.ndarray]()
    for size, value in zip(sizes, rng.permutation([[-1e9] * 35, [1e9] * 35]), strict=True):
        X, labels = np.vstack([shared, np.tile(value, (size, 1))]), np.append(np.repeat(np.arange(5), rest), [5] * size)
        mixed = rng.permutation(len(X))
        found.append((scores(plan, X[mixed], UserGroups.of(labels[mixed])) - plan.gains)[1:])
    assert len(found[0]) > 10
    assert np.abs(found[0] - found[1]).max() <= 1
    assert 0 <= min(map(np.min, found)) <= max(map(np.max, found)) <= 6


@pytest.mark.parametrize("users", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.dear("1e-06-True", "0.0-True")
def test_it_spends_what_it_promises_and_can_be_verified(delta: float, users: bool) -> None:
    n = 4000
    X, y = sparse(2 * n if users else n)
    task = problem(n=n, records_per_user=2) if users else problem(n=n)
    groups = UserGroups.of(np.arange(2 * n) % n) if users else None
    result = planned(task, 1.0, delta).run(X, y, SystemSource(), groups)
    read = PrivacyCertificate.from_json(result.certificate.to_json())
    assert verify(read).passed
    assert 0.999 < read.spent_epsilon <= 1
    stated: Any = read.public["joint_bound"]
    assert stated["used"]
    assert stated["bound"] == result.plan.bound < 5  # pyright: ignore[reportAttributeAccessIssue]
    assert read.public["blocks"][0]["largest"] == 1  # pyright: ignore[reportIndexIssue, reportArgumentType]


def test_verification_recomputes_the_length_from_the_largest_entry() -> None:
    before = planned(problem())
    plan = before.informed(float(before.bounds[10]))
    assert plan.moved
    stated = plan.certificate(SystemSource())
    assert verify(stated).passed
    blocks: Any = [dict(block) for block in stated.public["blocks"]]  # pyright: ignore[reportGeneralTypeIssues]
    blocks[0]["largest"] = 0.5
    assert not verify(replace(stated, public={**stated.public, "blocks": blocks})).passed


def test_the_public_list_covers_every_record() -> None:
    plan = planned(problem())
    assert plan.bounds[0] == 30
    assert 1 < plan.bounds[-1] < 3
    assert plan.gains[0] == 0
    assert plan.gains[-1] <= TUNING.most * 4000
    assert plan.bounds[1] == pytest.approx(TUNING.largest * 30)
    assert all(a > b > 0 for a, b in pairwise(plan.bounds))
    assert (plan.gains * 2**10 == np.rint(plan.gains * 2**10)).all()
    assert json.dumps(dict(plan.describe()), allow_nan=False)


def test_a_listed_bound_is_taken_up_again_and_no_other() -> None:
    plan = planned(problem())
    bound = float(plan.bounds[10])
    assert plan.resumed(bound).bound == bound
    with pytest.raises(InvalidParameterError, match="listed"):
        plan.resumed(bound * 1.01)


def test_a_record_counts_the_same_in_any_portion() -> None:
    """NumPy sums the rows of a portion of one row in another order: one record could move the counts of two."""
    rng = np.random.default_rng(0)
    domain = DataDomain((replace(FLAGS, size=40),), 1.0)
    plan, X = planned(problem(n=5000, domain=domain)), rng.uniform(-0.5, 0.5, (300, 40))
    moved = plan._moved(X, *plan.shift)
    for absolute in (True, False):
        whole = row_lengths(moved, 40, absolute=absolute)
        alone = [row_lengths(plan._moved(row[None], *plan.shift), 40, absolute=absolute)[0] for row in X]
        np.testing.assert_array_equal(whole, alone)


def test_a_listed_bound_of_another_processor_is_one() -> None:
    plan = planned(problem())
    other = float(np.nextafter(plan.bounds[5], 1))
    assert plan.resumed(other).bound == other
    for wrong in ((1, 2), None, "4", float(plan.bounds[5]) * (1 + 1e-9)):
        with pytest.raises(InvalidParameterError, match="listed"):
            plan.resumed(wrong)


def test_deviations_are_those_of_the_columns_as_they_were() -> None:
    plan = planned(problem())
    after = plan.informed(float(plan.bounds[3]))
    assert after.coefficient_deviation is not None
    assert after.then.coefficient_deviation is not None
    noise = np.random.default_rng(0).normal(size=(4000, MIXED.dim)) * after.then.coefficient_deviation
    measured = np.std([after._moved_back(each) for each in noise], axis=0)
    np.testing.assert_allclose(measured, after.coefficient_deviation, rtol=0.1)


def test_the_bound_is_drawn() -> None:
    """Few records: the choice's noise is of the size of what bounds differ by."""
    X, y = sparse(1000)
    ran: list[Any] = [planned(problem(n=1000)).run(X, y, SeededSource(seed)).plan for seed in range(6)]
    assert len({plan.bound for plan in ran}) > 1


def test_columns_that_are_rarely_at_their_corner_stay() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (4000, 35))
    result = planned(problem()).run(X, np.where(X[:, 0] > 0, 1.0, -1.0), SystemSource())
    ran: Any = result.plan
    assert not ran.moved
    assert ran.bound == 30
    assert ran.then.problem.domain == MIXED
    assert verify(result.certificate).passed


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_it_is_taken_and_wins_where_few_columns_are_not_zero(kind: str) -> None:
    """One-hot columns and flags as a pipeline makes them: a fraction of the loss without it; seeds fixed."""
    n, d = 6000, 100
    rng = np.random.default_rng(0)
    X = (rng.random((n, d)) < 0.03) * 1.0
    z = X @ rng.normal(size=d) * 1.5
    number = np.clip(0.08 * z + 0.05 * rng.normal(size=n), -0.5, 0.5)
    label = (z > rng.logistic(size=n)).astype(int)

    def loss(algorithm: str) -> float:
        given: dict[str, Any] = {"feature_bounds": (0, 1), "algorithm": algorithm, "random_state": 1}
        if kind == "numbers":
            model = PrivateLinearRegression(1.0, target_bounds=(-0.5, 0.5), **given).fit(X, number)
            return float(np.square(model.predict(X) - number).mean() / number.var())
        model = PrivateLogisticRegression(1.0, classes=[0, 1], **given).fit(X, label)
        assert (model.plan_.algorithm == "joint_bound") == (algorithm == "auto")
        return -float(model.predict_log_proba(X)[np.arange(n), label].mean())

    if kind == "numbers":  # in shares of the target's variance
        assert loss("auto") < 0.5 * loss("objective_perturbation")
    else:
        assert loss("auto") < loss("objective_perturbation") - 0.05


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (problem(domain=DataDomain((replace(FLAGS, size=15),), 1.0)), "there are too few such columns"),
        (problem(domain=DataDomain((replace(FLAGS, values="any"),), 1.0)), "there are too few such columns"),
        (problem(domain=DataDomain((FLAGS,))), "there is no constant feature"),
        (problem(n=500), "n * epsilon is 500"),
        (problem(n=500, records_per_user=3), "n * epsilon is 500"),
    ],
    ids=["few columns", "numbers", "no constant", "few records", "few users"],
)
def test_it_is_not_offered_where_it_does_not_apply(task: LinearModelProblem, words: str) -> None:
    privacy = PrivacyParams(1.0, unit="user" if task.grouped else "record")
    assert all(plan.algorithm != "joint_bound" for plan in plans(task, privacy))
    with pytest.raises(InvalidParameterError, match=re.escape(f"of 1000 at least; here {words}. Use")):
        plans(task, privacy, "joint_bound")


@pytest.mark.parametrize("content", [np.nan, np.inf, -1e300, 0.0, 5e-324])
def test_content_never_speaks(content: float) -> None:
    task = problem(n=2000)
    result = planned(task).run(np.full((2000, 35), content), np.full(2000, content), SystemSource())
    assert np.isfinite(result.point).all()
    assert verify(result.certificate).passed


def test_the_plan_of_another_promise_has_seen_no_data() -> None:
    X, y = sparse(4000)
    ran = planned(problem()).run(X, y, SeededSource(0)).plan
    again: Any = ran.at(PrivacyParams(2.0))  # pyright: ignore[reportAttributeAccessIssue]
    assert again.bound is None
    assert not again.moved
