"""One pass of projected SGD over the pooled records of each of several groups of users.

A group's result is a function of the records of its own users, of a public start and of coins of its own: one user
moves one result. Of a user with more than `cap` records a random `cap` are taken, so a group of N users takes at most
``N cap`` steps, a public number; a user with k records counts like ``min(k, cap)``, as in `problems.data.users`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses.base import LinearModelLoss
from dpconvex.problems.data import _threads
from dpconvex.problems.data.records import Records
from dpconvex.problems.data.users import Positions, UserGroups
from dpconvex.randomness import BitSource
from dpconvex.solvers import _components as components

_PORTION = 2**19  # floats read at a time (4 MB), at least,
_SHARE = 32  # or this part of the data


@final
@dataclass(frozen=True, eq=False)
class Pooled:
    """Records, targets and users of one data set.

    Parameters
    ----------
    loss : LinearModelLoss
        With a compiled slope.
    records : Records
    targets : array of shape (n_records,)
        In the loss's declared targets.
    groups : UserGroups
    radius : float
        Iterates stay in the l2 ball of this radius.
    cap : int
        Most records of a user.
    """

    loss: LinearModelLoss
    records: Records
    targets: FloatArray
    groups: UserGroups
    radius: float
    cap: int

    def displacements(self, users: AnyArray, start: FloatArray, step: float, source: BitSource) -> FloatArray:
        """Return how far each group's average iterate is from the start, shape (groups, dim).

        Parameters
        ----------
        users : array of shape (groups, users per group)
            Numbers of users, each at most once.
        start : array of shape (dim,)
            In the ball.
        step : float
            Step size.
        source : BitSource
            Of the order of records; each group has a stream of its own.
        """
        moved, total = np.zeros((2, len(users), len(start)))
        lengths, pieces, size = np.ones((len(users), 1)), [], 0
        portion = max(_PORTION // self.records.dim, self.records.n // _SHARE)
        for j, members in enumerate(users):
            index = drawn_records(self.groups, members, self.cap, source.generator())
            lengths[j] = max(1, len(index))
            for first in range(0, len(index), portion):
                pieces.append((j, index[first : first + portion]))
                size += len(pieces[-1][1])
                if size >= portion:  # so no two pieces of a group are walked at once
                    self._walk(pieces, start, step, moved, total)
                    pieces, size = [], 0
        self._walk(pieces, start, step, moved, total)
        return total / lengths

    def _walk(
        self, pieces: list[tuple[int, Positions]], start: FloatArray, step: float, moved: FloatArray, total: FloatArray
    ) -> None:
        """Walk on, over a piece of the records of each of some groups: they are read together, which is faster."""
        from dpconvex.algorithms.erm.user_level import _loops

        if not pieces:
            return
        ends = np.cumsum([0, *(len(index) for _, index in pieces)])
        index = np.concatenate([index for _, index in pieces])
        rows, curve = self.records.take(index), components.slope_curve(self.loss, self.targets[index])
        assert curve is not None  # the plan refused other losses; tells the type checker

        def walk(k: int) -> FloatArray:
            j, part = pieces[k][0], slice(ends[k], ends[k + 1])
            _loops.one_pass(
                rows[part], curve.records[part], curve.shape, curve.scale, start, step, self.radius, moved[j], total[j]
            )
            return np.zeros(0)

        _threads.total(len(pieces), walk)


def drawn_records(groups: UserGroups, users: AnyArray, cap: int, coins: np.random.Generator) -> Positions:
    """Return the records of some users, at most `cap` random ones of each, in random order.

    Parameters
    ----------
    groups : UserGroups
    users : array of shape (k,)
        Numbers of different users.
    cap : int
    coins : Generator
    """
    first, sizes = groups.starts[users], groups.sizes[users]
    ends = np.cumsum(sizes)
    inside = np.arange(int(ends[-1])) - np.repeat(ends - sizes, sizes)  # 0, 1, ... within each user
    places = np.repeat(first, sizes) + inside
    if bool(np.any(sizes > cap)):
        whose = np.repeat(np.arange(len(users)), sizes)
        places = places[np.lexsort((coins.random(len(places)), whose))][inside < cap]
    places = coins.permutation(places)
    return places if groups.order is None else groups.order[places]
