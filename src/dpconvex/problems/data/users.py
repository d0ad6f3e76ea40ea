r"""Records grouped by user in one pass, the weights of records, and the gradients of users.

A *user* is everything that one label covers. The number of users is public; the number of a user's records, and so the
number of all records, is not. All users have equal weight, which a user's records share:

    v_z = 1 / m_u        for each of the m_u records z of user u.

The v_z of a user add up to 1, so its part of an objective, ``f_u = sum_z v_z loss_z``, is convex and has the Lipschitz
constant and the curvature bound of one record's loss. A bound for replacing one record among n, if its proof needs no
more than that, holds for replacing one user among n. All records are used; none are sampled.

A user's gradient is computed from its own records alone, down to the last bit: it is a sum over the set of its records
(`summation`). Records are read in portions that end where a user ends, if the user is not larger than a portion.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, Positions, final_dataclass
from dpconvex.errors import InvalidDataError
from dpconvex.losses import LinearModelLoss
from dpconvex.problems.data import _loops, summation
from dpconvex.problems.data.domain import shorten
from dpconvex.problems.data.records import Records, RecordSource, RowBlock
from dpconvex.problems.data.sources.rows import EncodedRows, StreamedRecords

_MISSING = ("", "None", "nan", "NaT", "<NA>")
_PORTION = 2**18  # number of floats read at a time (2 MB)
_SHARE = 32  # portions of scattered records are at least this part of the data, so that few passes are made


@final_dataclass(eq=False)
class UserGroups:
    """The assignment of records to users.

    Examples
    --------
    >>> groups = UserGroups.of(np.array(["b", "a", "b"]))
    >>> groups.n_users, groups.sizes.tolist(), groups.order.tolist()
    (2, [1, 2], [1, 0, 2])
    """

    starts: Positions  #: (n_users + 1,): ascending from 0 to the number of records; every user has at least one record
    #: (n_records,): user u has the records ``order[starts[u]:starts[u + 1]]``, in their order in the data; None stands
    #: for ``0, 1, 2, ...``: the data are grouped already.
    order: Positions | None = None

    @classmethod
    def of(cls, labels: Array, *, empty: bool = False) -> "UserGroups":
        """Group records by their labels; users are in the order of the sorted labels.

        Labels (n_records,) are numbers, texts or dates; objects are compared by their text. All missing labels together
        are one user, and count as one in the public number of users. Where users are added or removed, one more person
        without a label replaces this user, which costs up to twice the epsilon. No records unless `empty`, or labels
        that are not a vector, raise `InvalidDataError` (public facts).
        """
        names = np.asarray(labels)
        if names.ndim != 1:
            raise InvalidDataError(f"groups has shape {_validate.shape_of(names)}; one label a record is needed")
        if len(names) == 0:
            if empty:
                return cls(np.zeros(1, dtype=np.intp))
            raise InvalidDataError("groups holds no records; at least 1 is needed")
        if names.dtype.kind in "OT":  # then cells of any kind, with texts of any length, can be compared
            codes: dict[str, int] = dict.fromkeys(_MISSING, 0)
            number = np.frompyfunc(lambda cell: codes.setdefault(_text(cell), len(codes)), 1, 1)
            found: Any = number(np.asarray(names, dtype=object))
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
        """Number of records of each user, (n_users,); private."""
        return np.diff(self.starts)

    @property
    def codes(self) -> Positions:
        """Every record's user, from 0 on, (n_records,); private."""
        return self.spread(np.arange(self.n_users))

    def spread(self, values: Array) -> Array:
        """Give every record the value of its user: (n_users,) to (n_records,)."""
        grouped = np.repeat(values, self.sizes)
        if self.order is None:
            return grouped
        out = np.empty_like(grouped)
        out[self.order] = grouped
        return out


def _text(cell: object) -> str:
    try:
        return "" if getattr(cell, "is_nan", bool)() else str.__str__(str(cell))  # subclasses of str may lack a hash
    except Exception:  # any cell is legal: a cell without a text counts as missing
        return ""


def record_weights(groups: UserGroups, share: float = 1.0) -> Floats:
    """Return the weights ``share / m_u`` of records, rounded down, (n_records,): a user's sum is at most `share`."""
    down = np.nextafter(1 / groups.sizes, 0.0)
    return groups.spread(down if share == 1 else np.nextafter(share * down, 0.0))


def exact_weights(groups: UserGroups) -> Floats:
    """Return ``1/m_u`` rounded down to a power of two that n_users alone sets, (n_records,).

    A user's weights add up to at most 1, and sums of weights over any records, in any order, are exact in floats. A
    user's sum is less than 1 by at most its number of records times that power, ``2^-32`` for up to a million users.
    """
    unit = 2.0 ** min(32, 52 - groups.n_users.bit_length())
    return groups.spread(np.floor(unit / groups.sizes) / unit)


def pick_users(groups: UserGroups, users: Positions) -> tuple[Positions, UserGroups]:
    """Return the positions of some different users' records, user after user, and `UserGroups` of these records."""
    firsts, sizes = groups.starts[:-1][users], groups.sizes[users]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.arange(starts[-1]) + np.repeat(firsts - starts[:-1], sizes)
    return (rows if groups.order is None else groups.order[rows]), UserGroups(starts)


def distinct_within(
    records: Floats, targets: Floats, groups: UserGroups, most: int, generator: np.random.Generator
) -> tuple[Positions, UserGroups]:
    """Return the ascending positions of the records (n, dim) kept under a cap, and `UserGroups` of these records.

    A user with more than `most` distinct records (compared bit by bit, with targets) keeps `most` of them with all
    copies: a uniform random subset, whose law depends on that user's own records alone.
    """
    users = groups.codes
    many = np.flatnonzero(groups.sizes[users] > most)
    stays = np.ones(len(users), dtype=bool)
    if len(many):
        cells = np.ascontiguousarray(np.column_stack([users[many], targets[many], records[many]]) + 0.0)  # no -0.0
        whole = cells.view(np.dtype((np.void, cells.itemsize * cells.shape[1])))[:, 0]
        _, first, place = np.unique(whole, return_index=True, return_inverse=True)
        owner = users[many][first]
        order = np.lexsort((generator.random(len(first)), owner))
        starts = np.searchsorted(owner[order], owner[order])  # of each user's distinct records, in random order
        chosen = np.zeros(len(first), dtype=bool)
        chosen[order] = np.arange(len(first)) - starts < most
        stays[many] = chosen[place]
    kept = np.flatnonzero(stays)
    return kept, UserGroups.of(users[kept])


def user_gradients(
    loss: LinearModelLoss, records: Records, targets: Floats, groups: UserGroups, weights: Floats | None, w: Floats
) -> Floats:
    """Return every user's weighted sum of (sub)gradients, shape (n_users, dim).

    Targets are clipped (`LinearModelLoss.clip_targets`). `weights` has one weight for each record; by default the sum
    is each user's mean. `w` holds all outputs, flat. Sizes that do not fit raise `InvalidDataError` (public facts).
    """
    reader = _Reader(loss, records, targets, groups, weights, w)
    out = np.empty((groups.n_users, len(w)))

    def work(part: int) -> summation.Parts:
        users = reader.users(part)
        out[users] = reader.gradients(users)
        return ()

    summation.total(reader.parts, work)
    return out


def clipped_mean(
    loss: LinearModelLoss, records: RecordSource, targets: Array | None, groups: UserGroups,
    weights: Floats | None, w: Floats, clip: float, n: int | None = None, scales: Floats | None = None,
) -> Floats:  # fmt: skip
    """Return the mean over users of their gradients, over `scales` if given, each shortened to l2 norm `clip`; (dim,).

    No array of the size (n_users, dim) is made. Replacing a user moves the exact mean by at most ``2 clip / n_users``;
    the computed sum rounds by less than `ROUNDING` times `clip` on either data set (`summation`, worst case).

    An infinite `clip` shortens nothing, and takes no `scales`. If `targets` is None, the records hold the targets, and
    weights must be given. The sum is divided by `n`, by default the number of users.
    """

    def shortened(G: Floats) -> Floats:
        if clip < np.inf:
            np.nan_to_num(G, copy=False, nan=0.0)
            G /= 1.0 if scales is None else scales
            shorten(G, "l2", clip)
        return G

    assert scales is None or clip < np.inf  # otherwise sums would have no grid
    size = min(clip, _reach(loss, records, w)) if scales is None else clip
    return mean_of_users(loss, records, targets, groups, weights, w, shortened, size, n)


def integer_means(X: Any, values: Callable[[Floats], Array], groups: UserGroups) -> Array:
    """Return each user's means of the integers ``values(rows)`` (m, k), rounded down; shape (n_users, k)."""
    codes = groups.codes

    def sums(rows: Any, own: Array, users: int) -> Array:
        found = values(rows)
        out = np.zeros((users, found.shape[1]), dtype=np.int64)
        np.add.at(out, own, found)
        return out

    def of_portion(portion: Any, _: int, own: Array) -> tuple[Array, Array]:
        users, places = np.unique(own, return_inverse=True)
        return users, sums(portion[0], places, len(users))

    if not isinstance(X, EncodedRows):
        return sums(X, codes, groups.n_users) // groups.sizes[:, None]
    parts = list(X.run(of_portion, lambda i, j: codes[i:j]))
    total = np.zeros((groups.n_users, parts[0][1].shape[1]), dtype=np.int64)
    for users, part in parts:  # integers: exact in any order
        total[users] += part
    return total // groups.sizes[:, None]


def mean_of_users(
    loss: LinearModelLoss, records: RecordSource, targets: Array | None, groups: UserGroups,
    weights: Floats | None, w: Floats, change: Callable[..., Floats], size: float, n: int | None = None,
    own: Floats | None = None,
) -> Floats:  # fmt: skip
    """Return the mean over users of vectors (k,) that `change` computes from their gradients, row by row; shape (k,).

    `change` takes gradients (m, dim) of any m >= 0 users, which it may overwrite, and these users' part of the numbers
    `own` (n_users,), if given. It returns an array (m, k), whose entries must be at most `size` in size. Nothing else
    is assumed of the vectors. Sums and targets are those of `clipped_mean`. The sum of the vectors is divided by `n`,
    by default the number of users.
    """

    def changed(G: Floats, users: Any) -> Array:
        found = change(G) if own is None else change(G, own[users])
        most, ones = summation.MOST_ROWS, np.ones(len(found))
        panels = [slice(i, i + most) for i in range(0, len(found), most)]
        zero = np.zeros((3, found.shape[1]))
        return np.sum([zero, *(summation.vector_parts(found[rows], ones[rows], size) for rows in panels)], axis=0)

    if targets is None:
        assert isinstance(records, StreamedRecords)
        assert weights is not None
        parts = _streamed_sum(loss, records, groups, weights, w, changed)
    else:
        assert isinstance(records, Records)
        reader = _Reader(loss, records, targets, groups, weights, w)
        work = lambda part: (changed(reader.gradients(reader.users(part)), reader.users(part)),)  # noqa: E731
        parts = summation.total(reader.parts, work)[0]
    return summation.vector(parts) / (n or groups.n_users)


def _streamed_sum(
    loss: LinearModelLoss, records: StreamedRecords, groups: UserGroups, weights: Floats, w: Floats,
    changed: Callable[[Floats, Any], Array],
) -> Array:  # fmt: skip
    """Return the parts of the sum of users' `changed` gradients, joining those of users with several portions."""
    codes, sizes, domain = groups.codes, groups.sizes, records.domain

    def work(blocks: list[RowBlock], held: tuple[Positions, Positions, Floats]) -> tuple[Any, ...]:
        own, expected, shares = held
        if len(own) == 0:
            none = np.empty((0, len(w)))
            return changed(none, own), own, none, none
        whole = UserGroups.of(own)
        firsts = whole.starts[:-1] if whole.order is None else whole.order[whole.starts[:-1]]
        users, complete = own[firsts], whole.sizes == expected[firsts]
        targets, begin = np.concatenate([block.targets_in(None) for block in blocks]), blocks[0].rows.start
        blocks = [replace(b, rows=slice(b.rows.start - begin, b.rows.stop - begin)) for b in blocks]  # from 0 on
        reader = _Reader(loss, Records(domain, len(own), blocks), targets, whole, shares, w)
        found = [reader.sums(reader.users(part)) for part in range(reader.parts)]
        high, low = map(np.concatenate, zip(*found, strict=True))
        return changed((high + low)[complete], users[complete]), users[~complete], high[~complete], low[~complete]

    passed = list(records.each_portion(work, lambda i, j: (codes[i:j], sizes[codes[i:j]], weights[i:j])))
    scattered, place = np.unique(np.concatenate([users for _, users, _, _ in passed]), return_inverse=True)
    rests = np.zeros((2, len(scattered), len(w)))
    for k in (0, 1):
        np.add.at(rests[k], place, np.concatenate([found[2 + k] for found in passed]))
    return np.sum([found[0] for found in passed], axis=0) + changed(rests[0] + rests[1], scattered.astype(np.intp))


def _reach(loss: LinearModelLoss, records: RecordSource, w: Floats) -> float:
    """Return the largest product of a slope and a feature at parameters w.

    Grids of sums follow from it, and not from weights, by which one user's number of records would move all others.
    """
    return loss.slope_within(records.domain.l2 * float(np.linalg.norm(w))) * records.domain.linf


class _Reader:
    """Users in portions of about equally many records."""

    def __init__(
        self, loss: LinearModelLoss, records: Records, targets: Floats, groups: UserGroups,
        weights: Floats | None, w: Floats,
    ) -> None:  # fmt: skip
        n = groups.n_records
        sizes = (records.n, len(targets), n if weights is None else len(weights))
        if sizes != (n, n, n) or w.shape != (loss.n_outputs * records.dim,):
            raise InvalidDataError(f"records, targets and weights have sizes {sizes}, parameters {w.shape}: need {n}")
        self._loss, self._records, self._targets, self._groups = loss, records, targets, groups
        self._weights, self._W = weights, np.ascontiguousarray(w.reshape(loss.n_outputs, records.dim))
        self._portion = max(1, _PORTION // records.dim, 0 if groups.order is None else n // _SHARE)
        self.size = _reach(loss, records, w)  # largest of all records' products
        cuts = np.searchsorted(groups.starts, np.arange(self._portion, n, self._portion))
        self._bounds = np.array([0, *np.unique(np.concatenate([cuts, [groups.n_users]]))])
        self.parts = len(self._bounds) - 1

    def users(self, part: int) -> slice:
        return slice(int(self._bounds[part]), int(self._bounds[part + 1]))

    def gradients(self, users: slice) -> Floats:
        high, low = self.sums(users)
        if self._weights is not None:
            return high + low
        return (high + low) / np.diff(self._groups.starts[users.start : users.stop + 1])[:, None]

    def sums(self, users: slice) -> tuple[Floats, Floats]:
        """Return the two parts of the sums of users' gradients."""
        starts = self._groups.starts[users.start : users.stop + 1]
        high, low = np.zeros((2, users.stop - users.start, *self._W.shape))
        steps = np.array(summation.steps(self.size))
        for first in range(int(starts[0]), int(starts[-1]), self._portion):
            place, order = slice(first, min(first + self._portion, int(starts[-1]))), self._groups.order
            index = place if order is None else order[place]
            rows = self._records.rows(place) if order is None else self._records.take(order[place])
            z = np.empty((len(rows), len(self._W)))
            _loops.predictions(rows, self._W, z)
            one = self._loss.n_outputs == 1
            slopes = self._loss.derivative(z[:, 0] if one else z, self._targets[index]).reshape(len(rows), -1)
            slopes = slopes if self._weights is None else slopes * self._weights[index][:, None]
            _loops.add_by_user(rows, slopes, starts, first, steps, high, low)
        return high.reshape(len(high), self._W.size), low.reshape(len(low), self._W.size)


UNITS = 2**24  #: A user's weight in each cell of a column is a multiple of 1 / UNITS.


def histogram(cells: Array, count: int, groups: UserGroups | None) -> Floats:
    """Return the number of records, or users, in each cell, (count,); the cells of a user's records are averaged."""
    if groups is None:
        return np.bincount(cells, minlength=count).astype(np.float64)
    order = slice(None) if groups.order is None else groups.order
    users = np.repeat(np.arange(groups.n_users), groups.sizes)
    keys, found = np.unique(users * count + cells[order], return_counts=True)
    user, cell = np.divmod(keys, count)
    units, rest = np.divmod(found * UNITS, groups.sizes[user])
    left = UNITS - np.bincount(user, units.astype(np.float64), groups.n_users).astype(np.int64)  # exact: below 2^53
    largest = np.lexsort((cell, -rest, user))  # each user's largest remainders first, ties by position
    starts = np.searchsorted(user, np.arange(groups.n_users))
    units[largest] += np.arange(len(keys)) - starts[user] < left[user]
    totals = np.zeros(count, dtype=np.int64)
    np.add.at(totals, cell, units)
    return totals / UNITS
