"""Gradients of users: against a plain computation, for any order and any sizes, and user by user to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.errors import InvalidDataError
from dpconvex.losses import AbsoluteLoss, LinearModelLoss, LogisticLoss, SoftmaxLoss
from dpconvex.problems import DataDomain, Records, UserGroups
from dpconvex.problems.data import users as module
from dpconvex.problems.data.users import clipped_mean, mean_of_users, record_weights, user_gradients

LOSSES: list[LinearModelLoss] = [LogisticLoss(), SoftmaxLoss(3), AbsoluteLoss()]


def data(loss: LinearModelLoss, grouped: bool, n: int = 900, dtype: str = "float64"):
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.full(n // 2, 7), rng.zipf(1.4, size=n - n // 2) % 50])  # one user has half the records
    labels = np.sort(labels) if grouped else rng.permutation(labels)
    X = (3 * rng.normal(size=(n, 5))).astype(dtype)
    y = {"logistic": rng.choice([-1.0, 1.0], n), "softmax": rng.integers(0, 3, n)}.get(loss.name, rng.normal(size=n))
    records = Records.clipped(X, DataDomain.l2_ball(5, 1.0).with_intercept())
    w = rng.normal(size=loss.n_outputs * records.dim)
    return records, loss.clip_targets(np.asarray(y)), UserGroups.of(labels), labels, w


def plain(loss, records, targets, labels, weights, w) -> np.ndarray:
    X, W = records.rows(slice(0, records.n)), w.reshape(loss.n_outputs, -1)
    z = X @ W.T
    slopes = loss.derivative(z[:, 0] if loss.n_outputs == 1 else z, targets).reshape(records.n, -1)
    out = []
    for user in np.unique(labels):
        rows = labels == user
        v = np.full(rows.sum(), 1 / rows.sum()) if weights is None else weights[rows]
        out.append(np.einsum("i,ik,ij->kj", v, slopes[rows], X[rows]).ravel())
    return np.array(out)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("portion", [2**18, 64])
def test_against_a_plain_computation(loss, grouped, weighted, portion, monkeypatch) -> None:
    monkeypatch.setattr(module, "_PORTION", portion)
    records, targets, groups, labels, w = data(loss, grouped)
    weights = np.linspace(0, 1, records.n) * record_weights(groups) if weighted else None
    expected = plain(loss, records, targets, labels, weights, w)
    found = user_gradients(loss, records, targets, groups, weights, w)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    for clip in (0.1, np.inf):
        norms = np.linalg.norm(expected, axis=1, keepdims=True)
        mean = (expected * np.minimum(1, clip / norms)).mean(0)
        np.testing.assert_allclose(clipped_mean(loss, records, targets, groups, weights, w, clip), mean, atol=1e-13)


def test_float32_records_are_read_as_they_are() -> None:
    loss = LOSSES[0]
    records, targets, groups, labels, w = data(loss, grouped=False, dtype="float32")
    expected = plain(loss, records, targets, labels, None, w)
    np.testing.assert_allclose(user_gradients(loss, records, targets, groups, None, w), expected, atol=1e-14)


def test_a_user_is_computed_from_its_own_records_alone() -> None:
    """Bit for bit: other users' records, number of records and place do not matter, not even at the kink of a loss."""
    loss, rng = AbsoluteLoss(), np.random.default_rng(3)
    own, own_y, w = rng.normal(size=(40, 9)), np.zeros(40), np.linspace(-1, 1, 9)
    own[:20, 8] = -own[:20, :8] @ w[:8]  # predictions near 0, where the slope jumps
    results = []
    for others in (1, 2, 3, 5, 64, 1001):
        X = np.concatenate([rng.normal(size=(others, 9)), own])
        labels = np.repeat(["a", "b"], [others, 40])
        shuffled = rng.permutation(others + 40)
        shuffled = np.concatenate([shuffled[shuffled < others], others + np.arange(40)])
        records = Records.clipped(X[shuffled] / 50, DataDomain.l2_ball(9, 1.0))
        targets = loss.clip_targets(np.concatenate([np.ones(others), own_y]))
        found = user_gradients(loss, records, targets, UserGroups.of(labels[shuffled]), None, w)
        results.append(found[1].tobytes())
    assert len(set(results)) == 1


def test_bits_of_a_user_do_not_depend_on_how_many_records_others_have() -> None:
    """Nor with weights: else one user could move all others from one bin of lengths to the next."""
    rng, domain, results = np.random.default_rng(0), DataDomain.box(3, 1.0).with_intercept(), set()
    own, labels = rng.uniform(-1, 1, (60, 3)) * np.exp(-6 * rng.random((60, 3))), rng.choice([-1.0, 1.0], 60)
    for others in (1, 10, 200):
        X, y = np.concatenate([own, np.zeros((others, 3))]), np.append(labels, np.ones(others))
        groups = UserGroups.of(np.repeat(np.arange(7), [10] * 6 + [others]))
        facts = LOSSES[0], Records.clipped(X, domain), y, groups, record_weights(groups)
        seen: list[np.ndarray] = []
        mean_of_users(*facts, np.array([0.3, -0.2, 0.7, 0.1]), lambda G, seen=seen: seen.append(G.copy()) or G, 10.0)
        results.add(seen[0][:6].tobytes())
    assert len(results) == 1


def test_records_are_taken_in_any_order() -> None:
    records, *_ = data(LOSSES[0], grouped=False)
    index = np.random.default_rng(1).integers(0, records.n, 500)
    np.testing.assert_array_equal(records.take(index), records.rows(slice(0, records.n))[index])
    assert records.take(index[:0]).shape == (0, records.dim)


def test_sizes_must_fit() -> None:
    loss = LOSSES[0]
    records, targets, groups, _, w = data(loss, grouped=True)
    for changed in ((records, targets[1:], groups, None, w), (records, targets, groups, targets[1:], w),
                    (records, targets, groups, None, w[1:])):  # fmt: skip
        with pytest.raises(InvalidDataError):
            user_gradients(loss, *changed)
