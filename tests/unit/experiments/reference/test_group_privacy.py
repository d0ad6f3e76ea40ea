"""Group privacy through a method for records: rows, cost, certificates, what cannot be priced."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.algorithms.erm import gradient_descent, registry
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LogisticLoss
from dpconvex.privacy import GuardedGaussianNoise, PrivacyParams, Unit, verify
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex_experiments.reference import group_privacy

N, CAP = 50, 4


def problem():
    return LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(3, 1.0), N, 2.0, records_per_user=CAP)


def data(seed=0):
    rng = np.random.default_rng(seed)
    groups = UserGroups.of(rng.permutation(np.repeat(np.arange(N), rng.integers(1, 9, N))))
    X = rng.uniform(-1, 1, (groups.n_records, 3))
    return X, np.sign(X[:, 0]), groups


def fillers(groups: UserGroups, seed: int):
    """Every user's block of rows, and in which users' order they are filled."""
    rows = group_privacy.filled_rows(groups, CAP, np.random.default_rng(seed)).reshape(groups.n_users, CAP)
    assert groups.order is not None
    whose = np.empty(groups.n_records, dtype=int)
    whose[groups.order] = np.repeat(np.arange(groups.n_users), groups.sizes)
    return rows, whose[rows]


def test_every_user_fills_its_rows_with_its_own_records() -> None:
    _, _, groups = data()
    rows, whose = fillers(groups, 0)
    assert (whose == whose[:, :1]).all()
    assert sorted(whose[:, 0].tolist()) == list(range(N))
    for filled, user in zip(rows.tolist(), whose[:, 0].tolist(), strict=True):
        assert len(set(filled)) == min(CAP, groups.sizes[user])


def test_the_order_in_which_users_fill_rows_is_random() -> None:
    """What a method does with a row may depend on its position, and a new label moves a user in the order of labels."""
    first, second = (fillers(data()[2], seed)[1][:, 0] for seed in (0, 1))
    assert (first != second).sum() > N / 2
    firsts = [int(fillers(data()[2], seed)[1][0, 0]) for seed in range(200)]
    assert len(set(firsts)) > N / 2  # 98 % of 50 are expected


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("planner", [registry.plans, lambda p, q: [gradient_descent.plan(p, q)]], ids=["auto", "noisy"])
def test_certificates_speak_of_users_and_verify(delta, planner) -> None:
    if delta == 0 and planner is not registry.plans:
        pytest.skip("noisy gradient descent needs delta")
    X, y, groups = data()
    privacy = PrivacyParams(2.0, delta, unit=Unit.USER)
    plan = group_privacy.plan(problem(), privacy, planner)
    result = plan.run(X, y, SystemSource(), groups)
    certificate = result.certificate
    assert verify(certificate).passed
    assert certificate.target.unit == Unit.USER
    assert certificate.spent_epsilon <= 2.0
    assert all(release.event.kind == "group_privacy" for release in certificate.releases)
    assert plan.inner.privacy.unit == Unit.RECORD
    assert plan.inner.privacy.epsilon <= 0.5
    assert plan.inner.problem.n == N * CAP


@pytest.mark.parametrize("label", [7, 100, -1], ids=["same", "last", "first"])
def test_replacing_a_user_replaces_at_most_cap_rows(label: int) -> None:
    """Another number of records, and another label: under the coupling that keeps everybody's slot and coins."""
    groups = data()[2]
    sizes = groups.sizes
    names = np.repeat(np.arange(N), sizes)
    changed = np.concatenate([names[names != 7], np.full(30, label)])
    other = UserGroups.of(changed)
    place = {user: i for i, user in enumerate(np.unique(changed).tolist())}
    users = np.random.default_rng(1).permutation(N)  # of the first data set; the coins that follow are the same

    class Coins:
        def __init__(self, order: np.ndarray) -> None:
            self.order, self.rest = order, np.random.default_rng(2)

        def permutation(self, n: int) -> np.ndarray:
            assert n == N
            return self.order

        def random(self, n: int) -> np.ndarray:
            return self.rest.random(n)

    moved = np.array([place[label if user == 7 else user] for user in users.tolist()])
    plain = UserGroups(groups.starts)
    before = names[group_privacy.filled_rows(plain, CAP, Coins(users))]  # pyright: ignore[reportArgumentType]
    after = changed[group_privacy.filled_rows(other, CAP, Coins(moved))]  # pyright: ignore[reportArgumentType]
    rows = np.where(before != after)[0]
    slot = int(np.flatnonzero(users == 7)[0])
    assert set(rows.tolist()) <= set(range(slot * CAP, (slot + 1) * CAP))
    assert (before[slot * CAP :][:CAP] == 7).all()


def test_the_error_does_not_fall_with_the_records_of_a_user() -> None:
    privacy = PrivacyParams(2.0, unit=Unit.USER)
    bounds = [group_privacy.plan(problem(), privacy, registry.plans, cap=cap).predicted_error.bound for cap in (1, 8)]
    assert bounds[1] == pytest.approx(bounds[0], rel=0.3)


def test_the_profile_of_a_group_is_exact_for_pure_noise_and_never_overflows() -> None:
    """(e, d) for one record is (3 e, d (1 + e^e + e^2e)) for three: Vadhan 2017, Lemma 2.2."""
    one = GuardedGaussianNoise("gaussian", 1.0, 4.0, 20.0, 0.0, 1.0, 4.0)
    group = group_privacy.GroupPrivacy(3, one)
    for epsilon in (0.0, 0.3, 3.0, 9.0):
        each = one.delta(epsilon / 3)
        assert group.delta(epsilon) == pytest.approx(min(1.0, each * sum(np.exp(np.arange(3) * epsilon / 3))), rel=1e-6)
    assert all(0 <= group.delta(epsilon) <= 1 for epsilon in (700.0, 800.0, 1e6))


def test_seeds_repeat_and_refusals() -> None:
    X, y, groups = data()
    plan = group_privacy.plan(problem(), PrivacyParams(2.0, unit=Unit.USER), registry.plans)
    first, again = (plan.run(X, y, SeededSource(3), groups).point for _ in range(2))
    assert np.array_equal(first, again)
    with pytest.raises(InvalidParameterError, match="unit"):
        group_privacy.plan(problem(), PrivacyParams(2.0), registry.plans)
    with pytest.raises(InvalidParameterError, match="cap"):
        group_privacy.plan(problem(), PrivacyParams(2.0, unit=Unit.USER), registry.plans, cap=0)
    with pytest.raises(InvalidParameterError, match="epsilon"):
        group_privacy.plan(problem(), PrivacyParams(2.0, unit=Unit.USER), lambda p, q: [])
