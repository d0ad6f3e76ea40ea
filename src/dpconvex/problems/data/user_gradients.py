"""Gradients of users: one vector a user, whatever its number of records, in one pass and without a loop over users.

A user's gradient is computed from its own records alone, down to the last bit: a gradient is a sum over its records in
their order. Records are read in portions that end where a user ends, if the user is not larger than a portion.
"""

from __future__ import annotations

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError
from dpconvex.losses.base import LinearModelLoss
from dpconvex.problems.data import _threads
from dpconvex.problems.data.domain import shorten
from dpconvex.problems.data.records import Records
from dpconvex.problems.data.users import UserGroups

_PORTION = 2**18  # floats read at a time (2 MB)
_SHARE = 32  # portions of scattered records are at least this part of the data, so that few passes are made


def user_gradients(
    loss: LinearModelLoss,
    records: Records,
    targets: FloatArray,
    groups: UserGroups,
    weights: FloatArray | None,
    w: FloatArray,
) -> FloatArray:
    """Return every user's weighted sum of (sub)gradients, shape (n_users, dim).

    Parameters
    ----------
    loss : LinearModelLoss
    records : Records
        Of shape (n_records, records.dim).
    targets : array of shape (n_records,)
        In the loss's declared targets (`LinearModelLoss.clip_targets`).
    groups : UserGroups
        Of the same records.
    weights : array of shape (n_records,) or None
        None: each user's mean.
    w : array of shape (loss.n_outputs * records.dim,)
        Parameters.

    Raises
    ------
    InvalidDataError
        If the sizes do not fit (public facts).
    """
    reader = _Reader(loss, records, targets, groups, weights, w)
    out = np.empty((groups.n_users, len(w)))

    def work(part: int) -> FloatArray:
        users = reader.users(part)
        out[users] = reader.gradients(users)
        return np.zeros(0)

    _threads.total(reader.parts, work)
    return out


def clipped_mean(
    loss: LinearModelLoss,
    records: Records,
    targets: FloatArray,
    groups: UserGroups,
    weights: FloatArray | None,
    w: FloatArray,
    clip: float,
    centre: FloatArray | None = None,
) -> FloatArray:
    """Return the mean over users of their gradients, each shortened to l2 norm `clip`; shape (dim,).

    No array of the size (n_users, dim) is made. Replacing a user moves the exact mean by at most ``2 clip / n_users``;
    the computed sum rounds by less than `objective.ROUNDING` times `clip` on either data set.

    Parameters
    ----------
    loss, records, targets, groups, weights, w
        As in `user_gradients`.
    clip : float
        Positive; infinite for no clipping.
    centre : array of shape (dim,), optional
        Shorten the differences from this released or public vector, and return the mean of these.
    """
    reader = _Reader(loss, records, targets, groups, weights, w)

    def work(part: int) -> FloatArray:
        G = reader.gradients(reader.users(part))
        if centre is not None:
            G -= centre
        if clip < np.inf:
            np.nan_to_num(G, copy=False, nan=0.0)
            shorten(G, "l2", clip)
        return G.sum(0)

    return _threads.total(reader.parts, work) / groups.n_users


class _Reader:
    """Users in portions of about equally many records."""

    def __init__(
        self,
        loss: LinearModelLoss,
        records: Records,
        targets: FloatArray,
        groups: UserGroups,
        weights: FloatArray | None,
        w: FloatArray,
    ) -> None:
        n = groups.n_records
        sizes = (records.n, len(targets), n if weights is None else len(weights))
        if sizes != (n, n, n) or w.shape != (loss.n_outputs * records.dim,):
            raise InvalidDataError(f"records, targets and weights have sizes {sizes}, parameters {w.shape}: need {n}")
        self._loss, self._records, self._targets, self._groups = loss, records, targets, groups
        self._weights, self._W = weights, np.ascontiguousarray(w.reshape(loss.n_outputs, records.dim))
        self._portion = max(1, _PORTION // records.dim, 0 if groups.order is None else n // _SHARE)
        cuts = np.searchsorted(groups.starts, np.arange(self._portion, n, self._portion))
        self._bounds = np.unique(np.concatenate([[0], cuts, [groups.n_users]]))
        self.parts = len(self._bounds) - 1

    def users(self, part: int) -> slice:
        """Return the users of a portion."""
        return slice(int(self._bounds[part]), int(self._bounds[part + 1]))

    def gradients(self, users: slice) -> FloatArray:
        """Return the gradients of consecutive users."""
        from dpconvex.problems.data import _user_loops

        starts = self._groups.starts[users.start : users.stop + 1]
        out = np.zeros((users.stop - users.start, self._W.size))
        for first in range(int(starts[0]), int(starts[-1]), self._portion):
            place = slice(first, min(first + self._portion, int(starts[-1])))
            rows, index = self._read(place)
            z = np.empty((len(rows), len(self._W)))
            _user_loops.predictions(rows, self._W, z)
            one = self._loss.n_outputs == 1
            slopes = self._loss.derivative(z[:, 0] if one else z, self._targets[index]).reshape(len(rows), -1)
            if self._weights is not None:
                slopes = slopes * self._weights[index][:, None]
            _user_loops.add_by_user(rows, slopes, starts, first, out)
        return out if self._weights is not None else out / np.diff(starts)[:, None]

    def _read(self, place: slice) -> tuple[FloatArray, slice | AnyArray]:
        order = self._groups.order
        if order is None:
            return self._records.rows(place), place
        return self._records.take(order[place]), order[place]
