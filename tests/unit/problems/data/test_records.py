"""Records against a dense oracle made by `DataDomain.clip`, and their memory."""

from __future__ import annotations

import tracemalloc
from functools import cache

import numpy as np
import pytest
import scipy.sparse

from dpconvex.errors import InvalidDataError
from dpconvex.problems import Block, DataDomain, Records
from dpconvex.problems.data import summation

SPARSE = DataDomain((Block(40, "simplex", 1.0), Block(2, "linf", 0.5), Block(23, "simplex", 1.0)), intercept=0.7)
P = 6
DOMAINS = {
    "l2": DataDomain.l2_ball(P, 2.0),
    "l2+intercept": DataDomain.l2_ball(P, 2.0).with_intercept(0.7),
    "l1": DataDomain.l1_ball(P, 3.0).with_intercept(),
    "box": DataDomain.box(P, 1.0).with_intercept(),
    "blocks": DataDomain((Block(1, "linf", 1.0), Block(3, "l1", 1.0), Block(2, "l2", 1.0))),
    "simplex": DataDomain((Block(P, "simplex", 1.0),)).with_intercept(),
    "simplices": DataDomain((Block(2, "simplex", 1.0), Block(4, "simplex", 1.0)), intercept=0.5),
    "tiny": DataDomain.l2_ball(P, 1e-150),
    "huge": DataDomain.l1_ball(P, 1e150),
}


def spoilt(X):
    X = X.copy()
    X[0, 0], X[1, 1], X[2, 2], X[3, :2], X[4] = np.nan, np.inf, -np.inf, [np.inf, np.nan], 1e300
    return X


@cache
def matrices(n=50_000):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, P))
    read_only = X.copy()
    read_only.flags.writeable = False
    return {
        "plain": X,
        "inside": X * 1e-3,
        "spoilt": spoilt(X),
        "float32": X.astype(np.float32),
        "float32 spoilt": spoilt(X).clip(-3e38, 3e38).astype(np.float32),
        "float16": X.astype(np.float16),
        "int": (10 * X).astype(np.int16),
        "bool": X > 0,
        "longdouble": spoilt(X).astype(np.longdouble) * np.longdouble(10) ** 200,
        "fortran": np.asfortranarray(X),
        "strided": np.repeat(np.repeat(X, 2, 0), 2, 1)[::2, ::2],
        "reversed": X[::-1, ::-1],
        "read-only": read_only,
        "one row": X[:1],
        "zeros": np.zeros((7, P)),
        "duplicates": np.ones((9, P)),
    }


def dense(X, domain):
    clipped = domain.clip(X)
    return np.column_stack([clipped, np.full(len(X), domain.intercept)]) if domain.intercept else clipped


@pytest.mark.thin
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
@pytest.mark.parametrize("kind", matrices(10))
def test_records_act_as_the_clipped_matrix(kind, domain):
    X = matrices()[kind]
    before = X.copy()
    records, oracle, rng = Records.clipped(X, domain), dense(X, domain), np.random.default_rng(1)
    scale = domain.l2

    def close(actual, expected, size):
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12 * size)

    w, W = rng.standard_normal(domain.dim), rng.standard_normal((3, domain.dim))
    g, G = rng.standard_normal(len(X)), rng.standard_normal((len(X), 3))
    close(records.predict(w), oracle @ w, scale)
    close(records.predict(W), oracle @ W.T, scale)
    close(records.adjoint(g), oracle.T @ g, scale * len(X))
    close(records.adjoint(G), G.T @ oracle, scale * len(X))
    if scale < 1e100:  # squares of the largest floats overflow
        found, expected, most = records.gram(g**2), (oracle.T * g**2) @ oracle, (g**2).max()
        np.testing.assert_allclose(found, expected, atol=2e-6 * most * scale**2 * np.sqrt(len(X) + 10))
        close(records.squared_norms(), np.square(oracle).sum(1), scale**2)
    for rows in (slice(None), slice(1, len(X), 7), slice(len(X) - 1, None), slice(3, 3)):
        close(records.rows(rows), oracle[rows], scale)
    part, index, _ = records.subset(5)
    close(part.predict(w), oracle[index] @ w, scale)
    assert part.n == len(index)
    assert records.n == len(X)
    assert records.dim == domain.dim
    np.testing.assert_array_equal(X, before)


def test_very_many_columns():
    X = np.zeros((3, 10**6))
    X[1, 5] = 3.0
    records = Records.clipped(X, DataDomain.l2_ball(10**6, 1.0).with_intercept())
    w = np.arange(10**6 + 1) / 1e6
    np.testing.assert_allclose(records.predict(w), [1.0, 1.0 + 5e-6, 1.0])
    assert records.adjoint(np.ones(3))[5] == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("domain", "share"), [(DataDomain.l2_ball(50, 1.0), 0.05), (DataDomain.box(50, 9.0), 0.05)])
@pytest.mark.dear("domain1")
def test_no_copy_of_data_that_need_none(domain, share, dtype):
    X = np.random.default_rng(0).standard_normal((200_000, 50)).astype(dtype)
    w, g = np.ones(50), np.ones(len(X))
    tracemalloc.start()
    records = Records.clipped(X, domain)
    kept = tracemalloc.get_traced_memory()[0]
    records.predict(w), records.adjoint(g), records.gram(g)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept <= share * X.nbytes
    assert peak <= 48e6  # chunk buffers, not a second X of 80 MB


def test_only_the_blocks_that_need_it_are_copied():
    X = np.zeros((200_000, 50))
    X[0, 0] = np.nan
    tracemalloc.start()
    Records.clipped(X, DataDomain.box(50, 1.0))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept <= 2e6


@pytest.mark.parametrize("X", [np.zeros((0, P)), np.zeros((3, P + 1)), np.zeros(P), np.array([["a"] * P])])
def test_public_form_is_checked(X):
    with pytest.raises(InvalidDataError, match="X has"):
        Records.clipped(X, DOMAINS["l2"])


@pytest.mark.parametrize("wild", [np.nan, np.inf, 1e200])
def test_a_wild_record_does_not_move_others(wild):
    """Record-wise to the last bit, also beside a record that has to be clipped by another formula."""
    X = np.random.default_rng(3).standard_normal((3000, 7))
    other = X.copy()
    other[11, 2] = wild
    domain = DataDomain.l2_ball(7, 1.0)
    w = np.random.default_rng(4).standard_normal(domain.dim)
    before, after = (Records.clipped(data, domain).predict(w) for data in (X, other))
    keep = np.arange(len(X)) != 11
    np.testing.assert_array_equal(before[keep], after[keep])
    assert np.isfinite(after).all()


@pytest.mark.parametrize("domain", [SPARSE, DataDomain.l2_ball(65, 0.8).with_intercept()])
def test_sparse_rows_give_the_bits_of_others(domain, monkeypatch):
    rng = np.random.default_rng(0)
    n, d = 700, domain.n_features
    X = np.zeros((n, d))
    X[np.arange(n), rng.integers(0, 40, n)] = X[np.arange(n), rng.integers(42, d, n)] = 1.0
    X[:, 40:42] = rng.normal(size=(n, 2))
    X[::50] = rng.normal(size=(14, d)) * (rng.random((14, d)) < 0.2)
    dense, targets, weights = Records.clipped(X, domain), rng.normal(size=n), rng.random(n)
    monkeypatch.setattr(summation, "SPARSE", 0)
    found = Records.clipped(scipy.sparse.csr_array(X), domain)
    assert all(scipy.sparse.issparse(block.features) for block in found.blocks())
    g, W = rng.normal(size=(n, 3)), rng.normal(size=(3, domain.dim))

    def results(records):
        lifted = records.lifted(lambda values: values, targets, domain)
        part = records.chosen(np.arange(0, n, 3), None)
        for one, own in ((records, slice(None)), (lifted, slice(None)), (part, slice(None, None, 3))):
            yield from (one.predict(W), one.predict(W[0]), one.squared_norms(), one.rows(slice(None)))
            yield from (one.adjoint(g[own]), one.gram(weights[own]), one.subset(4, targets[own])[1])

    for one, other in zip(results(found), results(dense), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float32, np.int8, np.bool_])
def test_sparse_rows_of_any_type_are_measured_in_float64(dtype):
    """The square of 2^32 vanishes in 64 bits: such a record's gradient would not be cut."""
    values = np.array([2**32, 2**33 - 1, 3, 1, 1], dtype=np.float64) / 7
    X = scipy.sparse.csr_array((values, (range(5), range(5))), shape=(5, 200)).astype(dtype)
    X.data[:2] = 1 if np.dtype(dtype).itemsize < 8 else [2**32, 2**33 - 1]
    domain = DataDomain.l2_ball(200, 1.0)
    found, dense = (Records.clipped(rows, domain) for rows in (X, X.toarray()))
    assert found.block(0).features.dtype == np.float64
    assert scipy.sparse.issparse(found.block(0).features)
    np.testing.assert_array_equal(found.squared_norms(), dense.squared_norms())
