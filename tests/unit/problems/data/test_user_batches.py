"""Picking the records of some users."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from dpconvex.problems.data.users import UserGroups, pick_users


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_picked_users_have_their_own_records_in_order(labels, random) -> None:
    names = np.array(labels)
    groups = UserGroups.of(names)
    present = np.unique(names)
    users = list(range(len(present)))
    random.shuffle(users)
    users = np.array(users[: random.randint(1, len(users))])
    rows, picked = pick_users(groups, users)
    assert picked.n_users == len(users)
    for k, user in enumerate(users):
        mine = rows[picked.starts[k] : picked.starts[k + 1]]
        assert mine.tolist() == np.flatnonzero(names == present[user]).tolist()
