"""Sums over parts by several threads."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.problems.data import summation


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize("parts", [1, 2, 7, 8, 13, 40])
def test_every_part_is_counted_once(threads, parts, monkeypatch):
    monkeypatch.setattr(summation, "threads", lambda: threads)
    seen = []

    def work(index):
        seen.append(index)
        return np.array([1.0, float(index)]), np.array([2])

    found, whole = summation.total(parts, work)
    np.testing.assert_array_equal(found, [parts, parts * (parts - 1) / 2])
    assert whole.tolist() == [2 * parts]
    assert sorted(seen) == list(range(parts))


def test_an_error_in_a_thread_is_not_lost(monkeypatch):
    monkeypatch.setattr(summation, "threads", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        summation.total(20, lambda index: (np.array([1 / (index - 15)]),))


@pytest.mark.parametrize(("asked", "expected"), [("1", 1), ("junk", None), ("", None), ("0", 1)])
def test_number_of_threads_follows_the_environment(asked, expected, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    summation.threads.cache_clear()
    try:
        assert summation.threads() == expected if expected else 1 <= summation.threads() <= 4
    finally:
        summation.threads.cache_clear()
