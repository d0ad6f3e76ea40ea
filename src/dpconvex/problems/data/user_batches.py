"""The records of some users, found in one step."""

from __future__ import annotations

import numpy as np

from dpconvex.problems.data.users import Positions, UserGroups


def pick_users(groups: UserGroups, users: Positions) -> tuple[Positions, UserGroups]:
    """Return which records some users have, one user after the other, and the same users as groups of those records.

    Parameters
    ----------
    groups : UserGroups
        All users.
    users : array of shape (k,), k >= 1
        Positions of users in `groups`, each at most once.

    Returns
    -------
    rows : array
        Positions of the records in the data.
    UserGroups
        Of the picked records, in that order.

    Examples
    --------
    >>> groups = UserGroups.of(np.array(["b", "a", "b", "c"]))
    >>> rows, picked = pick_users(groups, np.array([2, 1]))
    >>> rows.tolist(), picked.starts.tolist()
    ([3, 0, 2], [0, 1, 3])
    """
    firsts, sizes = groups.starts[:-1][users], groups.sizes[users]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.arange(starts[-1]) + np.repeat(firsts - starts[:-1], sizes)
    return (rows if groups.order is None else groups.order[rows]), UserGroups(starts)
