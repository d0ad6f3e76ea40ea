r"""Whose record it is: records grouped by user in one pass, and how much each record then counts.

A *user* is everything that one label covers. The number of users is public; how many records a user has, and so how
many records there are, is not. Weights depend on a user's own number of records only:

    v_z = min(m_u, M) / (M m_u)        for each of the m_u records z of user u,

with a public number M, the cap. They add up to ``min(m_u, M) / M <= 1`` for each user, so the user's part of an
objective, ``f_u = sum_z v_z loss_z``, is convex and has the Lipschitz constant and the curvature bound of one record's
loss. A bound on what replacing one record among n does, whose proof needs no more than that, holds for replacing one
user among n. ``M = 1``: all users count the same. Larger M: users count in proportion to their records, up to M of
them. Every record is used, none is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError

Positions = NDArray[np.intp]

_MISSING = ("None", "nan", "NaT", "<NA>")


@final
@dataclass(frozen=True, eq=False)
class UserGroups:
    """Which records belong to which user.

    Parameters
    ----------
    starts : array of shape (n_users + 1,)
        Ascending, from 0 to the number of records; every user has at least one record.
    order : array of shape (n_records,) or None
        User u has the records ``order[starts[u]:starts[u + 1]]``, in their order in the data; None stands for
        ``0, 1, 2, ...``: the data are grouped already.

    Examples
    --------
    >>> groups = UserGroups.of(np.array(["b", "a", "b"]))
    >>> groups.n_users, groups.sizes.tolist(), groups.order.tolist()
    (2, [1, 2], [1, 0, 2])
    """

    starts: Positions
    order: Positions | None = None

    @classmethod
    def of(cls, labels: AnyArray) -> UserGroups:
        """Group records by their labels; users are in the order of the sorted labels.

        Parameters
        ----------
        labels : array of shape (n_records,), n_records >= 1
            Whose record it is: numbers, texts, dates; objects are told apart by their text. All missing labels are one
            user: nobody's protection is weaker for it than if they had a label of their own.

        Raises
        ------
        InvalidDataError
            If there is no record, or the labels are no vector (public facts).
        """
        names = np.asarray(labels)
        if names.ndim != 1 or len(names) == 0:
            raise InvalidDataError(f"groups has shape {names.shape}; one label a record is needed, and one record")
        if names.dtype.kind == "O":  # whatever the cells hold can be compared then
            texts: Any = np.frompyfunc(str, 1, 1)(names)
            names = texts.astype(str)
            names[np.isin(names, _MISSING)] = ""
        order: Positions | None = None
        if not bool(np.all(names[1:] >= names[:-1])):
            order = np.argsort(names, kind="stable")
            names = names[order]
        missing = names != names
        new = (names[1:] != names[:-1]) & ~(missing[1:] & missing[:-1])
        return cls(np.concatenate([[0], np.flatnonzero(new) + 1, [len(names)]]), order)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.starts) - 1

    @property
    def n_records(self) -> int:
        """Number of records; private."""
        return int(self.starts[-1])

    @property
    def sizes(self) -> Positions:
        """How many records each user has, (n_users,); private."""
        return np.diff(self.starts)

    def spread(self, values: FloatArray) -> FloatArray:
        """Give every record the value of its user: (n_users,) to (n_records,)."""
        grouped = np.repeat(values, self.sizes)
        if self.order is None:
            return grouped
        out = np.empty_like(grouped)
        out[self.order] = grouped
        return out


def record_weights(groups: UserGroups, cap: int, share: float = 1.0) -> FloatArray:
    """Return the weights v of the module's docstring times `share`, rounded down, shape (n_records,).

    Parameters
    ----------
    groups : UserGroups
    cap : int
        The public number M of records up to which a user counts for more, at least 1.
    share : float
        What the weights of a user with M records add up to, at most.
    """
    sizes = groups.sizes.astype(np.float64)
    down = np.nextafter(np.minimum(sizes, cap) / (cap * sizes), 0.0)
    return groups.spread(down if share == 1 else np.nextafter(share * down, 0.0))
