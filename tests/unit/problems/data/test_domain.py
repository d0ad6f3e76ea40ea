"""Clipping into a domain: membership whatever the content, members untouched, one record at a time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.geometry import GroupedNorm
from dpconvex.problems import Block, DataDomain, Records

DOMAINS = [
    DataDomain.l2_ball(4, 1.0),
    DataDomain.l1_ball(4, 2.5),
    DataDomain.box(4, 0.5),
    DataDomain((Block(1, "linf", 3.0), Block(2, "l1", 1.0), Block(1, "l2", 1e-3))),
    DataDomain((Block(2, "l1", 1.0), Block(2, "l1", 1.0))),
    DataDomain((Block(2, "simplex", 1.0), Block(2, "linf", 1.0))),
    DataDomain((Block(4, "simplex", 1.0),), intercept=1.0),
    DataDomain.l2_ball(4, 1e-200),
    DataDomain.l2_ball(4, 1e200),
]
matrices = hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.just(4)), elements=st.floats(width=64))


def block_norms(domain, X):
    start = 0
    for block in domain.blocks:
        part = X[:, start : start + block.size] / block.bound
        yield np.linalg.norm(part, {"l1": 1, "simplex": 1, "l2": 2, "linf": np.inf}[block.norm], axis=1)
        if block.norm == "simplex":
            assert (part >= 0).all()
            yield 2 - part.sum(1)
        start += block.size


@pytest.mark.parametrize("domain", DOMAINS)
@given(X=matrices)
def test_clipped_rows_are_members(domain, X):
    for norms in block_norms(domain, domain.clip(X)):
        assert np.all(norms <= 1 + 1e-15)


@pytest.mark.parametrize("domain", DOMAINS)
@given(X=matrices)
def test_clipping_again_changes_nothing(domain, X):
    once = domain.clip(X)
    np.testing.assert_array_equal(domain.clip(once), once)


@pytest.mark.parametrize("domain", DOMAINS)
@given(X=matrices)
def test_rows_are_clipped_one_at_a_time(domain, X):
    alone = np.concatenate([domain.clip(row[None]) for row in X])
    np.testing.assert_array_equal(domain.clip(X), alone)


whole = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 5), st.just(4)), elements=st.sampled_from([0.0, 1.0, 0.5, np.nan])
)


@pytest.mark.parametrize("domain", DOMAINS)
@given(X=matrices | whole)
def test_what_a_look_holds_is_left_alone(domain, X):
    for rows in (X, domain.clip(X)):
        if domain.holds(rows):
            np.testing.assert_array_equal(domain.clip(rows), rows)


def test_a_look_knows_intervals_and_vertices():
    domain = DataDomain((Block(2, "linf", 0.5), Block(1, "l1", 1.0), Block(3, "simplex", 1.0)))
    member = np.array([[-0.5, 0.5, 1.0, 0.0, 1.0, 0.0]])
    assert domain.holds(member)
    for column, value in ((0, -0.6), (1, np.nan), (2, 1.1), (3, 1.0), (4, 0.0), (4, np.nan), (5, -0.0), (5, 0.5)):
        wrong = np.repeat(member, 3, axis=0)
        wrong[1, column] = value
        assert not domain.holds(wrong)  # -0.0 would be 0.0 where another row is clipped


MIXED = (Block(2, "simplex", 1.0), Block(1, "linf", 0.5), Block(3, "simplex", 1.0), Block(2, "l2", 1.0))


L1 = tuple(Block(size, "l1", 1.0) for size in (1, 2))  # categories, too, but no simplices


@pytest.mark.parametrize("blocks", [MIXED, MIXED[1:2], MIXED[:1], MIXED[::-1], L1 + MIXED, MIXED[:1] + L1])
@given(data=st.data())
def test_sparse_rows_are_held_and_clipped_as_others_are(blocks, data):
    domain = DataDomain(blocks, intercept=1.0)
    cells = st.sampled_from([0.0, 1.0, 0.5, -0.5, 0.6, -1.0, 1.5, np.nan, np.inf, 1e300, 1 / 3])
    inside = domain.clip(data.draw(hnp.arrays(np.float64, (4, domain.n_features), elements=cells)))
    X = np.vstack([inside, data.draw(hnp.arrays(np.float64, (4, domain.n_features), elements=cells))])
    rows = scipy.sparse.csr_array(X[data.draw(st.permutations(range(8)))])
    found = Records.clipped(rows, domain)
    assert scipy.sparse.issparse(found._blocks[0].features)
    np.testing.assert_array_equal(found.rows(slice(None))[:, :-1], domain.clip(rows.toarray()))


def test_entries_that_are_stored_twice_are_not_held():
    values, columns = np.array([0.4, 0.4, 1.0, 0.3, 1.0, 0.3]), np.array([0, 0, 1, 0, 2, 0])
    twice = scipy.sparse.csr_array((values, columns, np.array([0, 3, 6])), shape=(2, 3))
    twice.has_canonical_format = True  # which anybody may say
    domain = DataDomain((Block(1, "linf", 0.5), Block(2, "simplex", 1.0)))
    np.testing.assert_array_equal(Records.clipped(twice, domain).rows(slice(None)), [[0.5, 1, 0], [0.5, 0, 1]])
    assert twice.nnz == 6


def test_entries_that_are_stored_twice_are_stored_once_when_clipped():
    """Of a row that is inside as well: whatever works on stored entries would take their parts for whole ones."""
    rows = scipy.sparse.csr_array((np.array([0.2, 0.2, 1.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 3))
    rows.has_canonical_format = True  # which anybody may say
    clipped = DataDomain((Block(1, "linf", 0.5), Block(2, "simplex", 1.0))).clip_sparse(rows)
    np.testing.assert_array_equal(clipped.data, [0.4, 1.0])


def test_what_rounding_hides_of_a_long_row_is_inside_what_domains_state() -> None:
    """The row's length is computed as 1, so it is kept; what the small entries add is lost in the sum."""
    row, domain = np.full((1, 10**5), 0.999 * 2.0**-53), DataDomain.l1_ball(10**5, 1.0)
    row[0, 0] = 1.0
    kept = Records.clipped(row, domain).rows(slice(None))[0]
    long = sum(map(Fraction, kept.tolist()))
    assert Fraction(1) < long <= Fraction(domain.l1)
    for norm in (GroupedNorm.l1(domain), GroupedNorm.weighted_l1(domain), GroupedNorm.block_max(domain)):
        of_one = Fraction(float(norm.half_widths[0])) / Fraction(float(norm.weights[0]))
        assert long <= Fraction(norm.record_bound(domain)) * of_one


@pytest.mark.parametrize("norm", ["l1", "l2", "simplex"])
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 60), bound=st.sampled_from([0.1, 1.0, 3.0]))
def test_no_record_changes_the_bits_of_another(norm, seed, size, bound):
    # Lengths within a few units in the last place of the bound: whether a row is scaled must not depend on others.
    rng = np.random.default_rng(seed)
    bound = 1.0 if norm == "simplex" else bound
    domain = DataDomain((Block(size, norm, bound), Block(size, norm, bound)))
    X = rng.standard_normal((60, 2, size))
    X = np.abs(X) if norm == "simplex" else X
    X *= bound / np.linalg.norm(X, {"l1": 1, "simplex": 1, "l2": 2}[norm], axis=2, keepdims=True)
    X = (X * (1 + rng.integers(-4, 5, (60, 2, 1)) * 2.0**-53)).reshape(60, 2 * size)
    alone = np.concatenate([domain.clip(row[None]) for row in X])
    for share, value in ((0.02, 0.0), (0.02, np.nan), (0.02, 50.0), (0.95, 50.0)):
        Y, others = X.copy(), rng.random(60) >= share
        Y[~others] = value
        for order in "CF":  # of columns one after the other sums would be others
            np.testing.assert_array_equal(domain.clip(np.array(Y, order=order))[others], alone[others])


def test_zeros_of_either_sign_are_clipped_alike_whatever_other_rows_are() -> None:
    """Vertices kept a zero's sign where all rows of a portion were vertices; and so did an entry at its largest."""
    domain = DataDomain((Block(3, "simplex", 1.0), Block(1, "l1", 1.0, largest=1.0)))
    vertices = np.array([[-0.0, 1.0, 0.0, 1.0], [1.0, 0.0, -0.0, 1.0]])
    among = np.vstack([vertices, [[0.5, 2.0, np.nan, 3.0]]])
    for X in (vertices, among):
        for found in (domain.clip(X), domain.clipped(X)):
            assert found[:2].tobytes() == domain.clip(among)[:2].tobytes()
    assert not np.signbit(domain.clip(vertices)).any()


def test_a_long_row_keeps_its_direction_and_gets_the_full_length():
    clipped = DataDomain.l2_ball(2, 1.0).clip(np.array([[30.0, 40.0], [3e300, 4e300], [0.3, 0.4]]))
    np.testing.assert_allclose(clipped, [[0.6, 0.8], [0.6, 0.8], [0.3, 0.4]], rtol=1e-13)


def test_rule_for_values_that_are_not_finite():
    clipped = DataDomain.l2_ball(2, 1.0).clip(np.array([[np.nan, 0.5], [np.inf, 5.0], [-np.inf, np.nan]]))
    np.testing.assert_allclose(clipped, [[0, 0.5], [1, 0], [-1, 0]], atol=1e-13)
    box = DataDomain.box(3, 2.0).clip(np.array([[np.inf, -np.inf, np.nan]]))
    np.testing.assert_array_equal(box, [[2, -2, 0]])


def test_one_hot_rows_are_untouched():
    domain = DataDomain((Block(3, "l1", 1.0), Block(2, "l1", 1.0)))
    rows = np.array([[0, 1, 0, 0, 1], [0, 0, 0, 1, 0]], dtype=np.int8)
    np.testing.assert_array_equal(domain.clip(rows), rows)


def test_constants_of_a_domain():
    domain = DataDomain((Block(4, "linf", 0.5), Block(3, "l1", 1.0), Block(2, "l2", 2.0))).with_intercept(1.0)
    assert domain.dim == 10
    assert domain.l2 == pytest.approx(np.sqrt(1 + 1 + 4 + 1))
    assert domain.l1 == pytest.approx(2 + 1 + 2 * np.sqrt(2) + 1)
    assert domain.linf == 2.0


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((2, 5)), np.array([["a"] * 3]), np.zeros((2, 3), complex)])
def test_public_form_is_checked(X):
    with pytest.raises(InvalidDataError, match="X has"):
        DataDomain.box(3, 1.0).clip(X)


@pytest.mark.parametrize("cells", [["1", "2"], ["hello world", "2"]])
def test_messages_do_not_say_how_long_a_text_is(cells: list[str]) -> None:
    with pytest.raises(InvalidDataError, match=r"^X has dtype str; must be numeric"):
        DataDomain.box(2, 1.0).check_columns(np.array([["1", "2"], cells]))


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan])
def test_bounds_must_be_positive_and_finite(bound):
    with pytest.raises(InvalidParameterError, match="bound="):
        DataDomain.l2_ball(3, bound)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64])
def test_bounds_of_any_type_give_the_same_constants(kind) -> None:
    # In single precision the root of 2 is less than it is, and noise would be for less.
    given = DataDomain((Block(np.int64(2), "linf", kind(3)),), intercept=kind(1))
    wanted = DataDomain((Block(2, "linf", 3.0),), intercept=1.0)
    for name in ("l1", "l2", "linf"):
        assert getattr(given, name) == getattr(wanted, name)
        assert type(getattr(given, name)) is float
    assert given.l2 >= 19**0.5


def test_points_of_a_simplex() -> None:
    """Vertices stay as they are; what has no positive part counts as equal parts of all."""
    domain = DataDomain((Block(3, "simplex", 1.0),), intercept=1.0)
    X = np.array(
        [[0, 1, 0], [0, 0, 0], [-1, np.nan, -np.inf], [2, 2, 0], [np.inf, 1e300, 5], [1e-320, 0, 0], [-5, 1, 3]]
    )
    expected = [[0, 1, 0], [1 / 3] * 3, [1 / 3] * 3, [0.5, 0.5, 0], [1, 0, 0], [1, 0, 0], [0, 0.25, 0.75]]
    found = domain.clip(X)
    assert found[0].tolist() == [0, 1, 0]
    assert found == pytest.approx(np.array(expected), abs=1e-7)
    with pytest.raises(InvalidParameterError, match="bound"):
        Block(3, "simplex", 2.0)
