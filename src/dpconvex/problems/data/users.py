r"""Whose record it is: records grouped by user in one pass, and how much each record then counts.

A *user* is everything that one label covers. The number of users is public; how many records a user has, and so how
many records there are, is not. All users count the same, and a user's records share its weight:

    v_z = 1 / m_u        for each of the m_u records z of user u.

They add up to 1, so the user's part of an objective, ``f_u = sum_z v_z loss_z``, is convex and has the Lipschitz
constant and the curvature bound of one record's loss. A bound on what replacing one record among n does, whose proof
needs no more than that, holds for replacing one user among n. Every record is used, none is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError

Positions = NDArray[np.intp]

_MISSING = ("", "None", "nan", "NaT", "<NA>")


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
        if names.ndim != 1:
            raise InvalidDataError(f"groups has shape {names.shape}; one label a record is needed")
        if len(names) == 0:
            raise InvalidDataError("groups holds no records; at least 1 is needed")
        if names.dtype.kind == "O":  # whatever the cells hold, and however long their texts are, can be compared then
            codes: dict[str, int] = dict.fromkeys(_MISSING, 0)
            found: Any = np.frompyfunc(lambda cell: codes.setdefault(_text(cell), len(codes)), 1, 1)(names)
            names = found.astype(np.intp)
            ranks = np.empty(len(codes), dtype=np.intp)
            ranks[[codes[text] for text in sorted(codes)]] = np.arange(len(codes))
            names = np.where(names == 0, -1, ranks[names])
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


def _text(cell: object) -> str:
    try:
        return str(cell)
    except Exception:  # any cell is legal: what has no text is missing
        return ""


def record_weights(groups: UserGroups, share: float = 1.0) -> FloatArray:
    """Return the weights v of the module's docstring times `share`, rounded down, shape (n_records,).

    Parameters
    ----------
    groups : UserGroups
    share : float
        What the weights of a user add up to, at most.
    """
    down = np.nextafter(1 / groups.sizes, 0.0)
    return groups.spread(down if share == 1 else np.nextafter(share * down, 0.0))
