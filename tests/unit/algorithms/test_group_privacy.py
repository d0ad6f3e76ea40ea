"""Group privacy through a method for records: rows, cost, certificates, what cannot be priced."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.algorithms import selection
from dpconvex.algorithms.baselines import group_privacy, noisy_gradient
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LogisticLoss
from dpconvex.privacy import PrivacyParams, Unit, verify
from dpconvex.problems import DataDomain
from dpconvex.problems.linear_model import LinearModelProblem
from dpconvex.problems.users import UserGroups
from dpconvex.randomness import SeededSource, SystemSource

N, CAP = 50, 4


def problem():
    return LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(3, 1.0), N, 2.0, records_per_user=CAP)


def data(seed=0):
    rng = np.random.default_rng(seed)
    groups = UserGroups.of(rng.permutation(np.repeat(np.arange(N), rng.integers(1, 9, N))))
    X = rng.uniform(-1, 1, (groups.n_records, 3))
    return X, np.sign(X[:, 0]), groups


def test_every_user_fills_its_rows_with_its_own_records() -> None:
    _, _, groups = data()
    rows = group_privacy.filled_rows(groups, CAP, np.random.default_rng(0)).reshape(N, CAP)
    assert groups.order is not None
    for user in range(N):
        own = set(groups.order[groups.starts[user] : groups.starts[user + 1]].tolist())
        filled = rows[user].tolist()
        assert set(filled) <= own
        assert len(set(filled)) == min(CAP, len(own))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("planner", [selection.plans, lambda p, q: [noisy_gradient.plan(p, q)]], ids=["auto", "noisy"])
def test_certificates_speak_of_users_and_verify(delta, planner) -> None:
    if delta == 0 and planner is not selection.plans:
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


def test_replacing_a_user_replaces_at_most_cap_rows() -> None:
    groups = data()[2]
    rows = group_privacy.filled_rows(groups, CAP, np.random.default_rng(1))
    sizes = groups.sizes.copy()
    sizes[7] = 30  # the same coins: one draw a user, so the others keep their windows
    other = UserGroups(np.concatenate([[0], np.cumsum(sizes)]))
    again = group_privacy.filled_rows(other, CAP, np.random.default_rng(1)).reshape(N, CAP)
    place = rows.reshape(N, CAP)
    position = np.empty(groups.n_records, dtype=int)
    position[groups.order] = np.arange(groups.n_records)
    before = position[place] - groups.starts[:-1, None]
    after = again - other.starts[:-1, None]
    assert np.flatnonzero((before != after).any(axis=1)).tolist() in ([], [7])


def test_the_error_does_not_fall_with_the_records_of_a_user() -> None:
    privacy = PrivacyParams(2.0, unit=Unit.USER)
    bounds = [group_privacy.plan(problem(), privacy, selection.plans, cap=cap).predicted_error.bound for cap in (1, 8)]
    assert bounds[1] == pytest.approx(bounds[0], rel=0.3)


def test_seeds_repeat_and_refusals() -> None:
    X, y, groups = data()
    plan = group_privacy.plan(problem(), PrivacyParams(2.0, unit=Unit.USER), selection.plans)
    first, again = (plan.run(X, y, SeededSource(3), groups).point for _ in range(2))
    assert np.array_equal(first, again)
    with pytest.raises(InvalidParameterError, match="unit"):
        group_privacy.plan(problem(), PrivacyParams(2.0), selection.plans)
    with pytest.raises(InvalidParameterError, match="cap"):
        group_privacy.plan(problem(), PrivacyParams(2.0, unit=Unit.USER), selection.plans, cap=0)
    with pytest.raises(InvalidParameterError, match="epsilon"):
        group_privacy.plan(problem(), PrivacyParams(2.0, unit=Unit.USER), lambda p, q: [])
