"""Neighboring data sets, worst cases first: built from a problem's own public domain, then drawn at random.

Every feature of a built record is far outside the domain, so that clipping is part of what is audited. The audit tries
all pairs and keeps the one that costs most; a pair that is no worst case makes its bound small, never wrong.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpconvex._types import Array, Floats
from dpconvex.algorithms import LinearModelPlan
from dpconvex.problems import LinearModelProblem, PointDomain, UserGroups
from dpconvex_experiments.audit.target import Pair, Subject

FAR = 8.0
"""Features are built this many times as large as the domain's bound: an algorithm that forgets to clip is refuted."""


def record_pairs(problem: LinearModelProblem, seed: int = 0, tries: int = 4) -> dict[str, Pair]:
    """Return pairs of data sets of ``problem.n`` records that differ in the last one; `tries` of them are random."""
    n, (high, low) = problem.n, _extremes(problem)
    x, others = _far_record(problem), np.arange(n - 1)
    shared = {
        "balanced others": np.where(others % 2 == 0, high, low),
        "equal others": np.full(n - 1, high),
        "others as the second": np.full(n - 1, low),
    }
    changes = {
        "target turned": ((x, high), (x, low)),
        "features emptied": ((x, high), (0 * x, high)),
        "features turned": ((x, high), (-x, high)),
    }
    aside = np.roll(x, 1)  # with the columns of an l2 block: orthogonal
    if (aside != x).any():
        changes["features turned aside"] = ((x, high), (aside, low))
    pairs = {}
    for (where, rest), (what, ends) in itertools.product(shared.items(), changes.items()):
        tables = [(np.vstack([np.tile(x, (n - 1, 1)), end[0]]), np.append(rest, end[1])) for end in ends]
        pairs[f"{what}, {where}"] = Pair(*tables)
    rng = np.random.default_rng(seed)
    for k in range(tries):
        X, y = rng.choice([-1.0, 0.3, 1.0], (n, 1)) * x, rng.choice([high, low], n)
        other = X.copy(), y.copy()
        other[0][-1], other[1][-1] = rng.choice([-1.0, 0.0, 1.0]) * x, high + low - y[-1]
        pairs[f"random {k}"] = Pair((X, y), other)
    return pairs


def user_pairs(problem: LinearModelProblem, sizes: tuple[int, ...] = (1, 3, 40)) -> dict[str, Pair]:
    """Return pairs of data sets of ``problem.n`` users, of whom the last has other records and other numbers of them.

    `sizes` are numbers of records of the last user.
    """
    n, (high, low) = problem.n, _extremes(problem)
    x, m = _far_record(problem), problem.records_per_user or 1
    users = np.repeat(np.arange(n - 1), m)
    pairs = {}
    for name, rest in (
        ("balanced others", np.where(users % 2 == 0, high, low)),
        ("equal others", np.full(len(users), high)),
    ):
        for before, after in itertools.product((m, sizes[-1]), {m, *sizes}):
            tables = []
            for size, label in ((before, high), (after, low)):
                y = np.concatenate([rest, np.full(size, label)])
                labels = np.concatenate([users, np.full(size, n - 1)])
                tables.append((np.tile(x, (len(y), 1)), y, UserGroups.of(labels)))
            pairs[f"last user with {before} or {after} records, {name}"] = Pair(*tables)
    return pairs


def linear_subject(plan: LinearModelPlan) -> Subject:
    """Return a plan with the worst neighbors of its unit."""
    problem = plan.problem
    pairs = user_pairs(problem) if problem.grouped else record_pairs(problem)
    return Subject(plan, added_pairs(pairs) if problem.private_n else pairs)


def added_pairs(pairs: Mapping[str, Pair]) -> dict[str, Pair]:
    """Return pairs of which one data set lacks the last unit of the other: the other units stay, or there are none."""
    found, seen = dict[str, Pair](), set[bytes]()
    for name, pair in pairs.items():
        for which, (X, y, *users) in zip(("first", "second"), pair, strict=True):
            starts = users[0].starts if users else np.arange(len(y) + 1)
            begin = starts[-2]
            before, last, nobody = (
                [UserGroups(s)] * len(users) for s in (starts[:-1], starts[-2:] - begin, starts[:1])
            )
            found[f"{name}: {which}, without its last"] = Pair((X, y, *users), (X[:begin], y[:begin], *before))
            alone = (X[begin:], y[begin:], *last), (X[:0], y[:0], *nobody)
            if (whole := X[begin:].tobytes() + y[begin:].tobytes()) not in seen:
                found[f"{name}: last of the {which}, or nobody"] = Pair(*alone)
            seen.add(whole)
    return found


def point_pairs(domain: PointDomain, n: int) -> dict[str, Pair]:
    """Return pairs of sets of n points of which the first moves from one end of the ball to the other."""
    end = np.zeros(domain.dim)
    end[0] = FAR * domain.radius_bound
    place = np.arange(n)[:, None]
    heaps = {
        "one heap at the end": np.tile(end, (n, 1)),
        "one heap in the middle": np.zeros((n, domain.dim)),
        "two heaps": np.where(place % 2 == 0, end, -end),
        "heap and scattered": np.where(place < 0.7 * n, 0.0, np.linspace(-1, 1, n)[:, None] * end / FAR),
    }
    pairs = {}
    for name, points in heaps.items():
        for change, moved in (("moves across", -points[0] if points[0].any() else end), ("moves away", end / FAR / 2)):
            other = points.copy()
            other[0] = moved
            pairs[f"{name}, one {change}"] = Pair((points,), (other,))
    return pairs


def array_pairs(values: Mapping[str, tuple[Any, Any]]) -> dict[str, Pair]:
    """Return pairs of one argument each, by name."""
    return {name: Pair((first,), (second,)) for name, (first, second) in values.items()}


def replaced(data: Array, place: int, one: Any, other: Any) -> tuple[Array, Array]:
    """Return two copies of a data set, with `one` and with `other` in a place."""
    first, second = data.copy(), data.copy()
    first[place], second[place] = one, other
    return first, second


def _far_record(problem: LinearModelProblem) -> Floats:
    """A record outside the domain, in the direction of its first column of every block."""
    x = np.zeros(problem.domain.n_features)
    start = 0
    for block in problem.domain.blocks:
        x[start : start + (block.size if block.norm == "linf" else 1)] = FAR * block.bound
        start += block.size
    return x


def _extremes(problem: LinearModelProblem) -> tuple[float, float]:
    """Targets at the two ends of what the loss admits."""
    ends = problem.loss.clip_targets(np.array([1e9, -1e9]))
    return float(ends[0]), float(ends[1])
