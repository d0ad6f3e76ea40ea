"""What is audited: a promise, neighboring data sets, and what a run hands out.

A distribution lists its `Target` objects under the entry point group ``dpconvex.audit``: a name, the kind of promise,
and a function that builds a small plan.
"""

from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, final

import numpy as np

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms import ConvexPlan, PrivateResult
from dpconvex.algorithms.location.base import LocationResult
from dpconvex.algorithms.minimax.base import SaddleResult
from dpconvex.algorithms.queries.base import QueryResult
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams, Release, Unit


class Auditable(Protocol):
    """What can be audited: a promise and a way to run. Every plan of this library is one."""

    @property
    def privacy(self) -> PrivacyParams:
        """The promise."""
        ...

    @property
    def run(self) -> Callable[..., Any]:
        """``run(*data, source)`` returns what is released."""
        ...


@final
class Pair(NamedTuple):
    """Two data sets that differ in one unit: the arguments of a run before its source."""

    first: tuple[Any, ...]
    second: tuple[Any, ...]


Pairs = Mapping[str, Pair]
SIZES = (8, 24, 72, 216, 648)  #: Numbers of records that `smallest` tries.


def run_of(plan: Any) -> Callable[..., Any]:
    """Return ``run(*data, source)`` of a plan; those of linear models take the users' labels last."""
    if isinstance(plan, ConvexPlan):
        return lambda X, y, *rest: plan.run(X, y, rest[-1], *rest[:-1])
    return plan.run


@singledispatch
def released(result: Any) -> Floats:
    """Return the released numbers of a result, shape (k,), all that an attacker sees; statuses become 0 ("ok") or 1.

    Results of this library, numbers and arrays are known, None too: nothing was released. Others register a function of
    their own with ``@released.register``.
    """
    if isinstance(result, tuple):
        return np.concatenate([released(part) for part in result])
    return np.atleast_1d(np.asarray(np.nan if result is None else result, dtype=np.float64)).ravel()


@released.register
def _(result: PrivateResult) -> Floats:
    return np.append(result.point, float(result.status != "ok"))


@released.register
def _(result: LocationResult) -> Floats:
    if result.center is None:
        return result.location
    return np.concatenate([result.location, result.center, [result.radius, float(result.status != "ok")]])


@released.register
def _(result: SaddleResult) -> Floats:
    return np.concatenate([result.x, result.y])


@released.register
def _(result: QueryResult) -> Floats:
    noisy = [] if result.tables is None else [table.ravel() for table in result.tables.noisy]
    return np.concatenate([result.histogram, result.answers, *noisy])


@final_dataclass(eq=False)
class Use:
    """Something to audit that is not a plan: a promise, the releases, and a way to run it."""

    privacy: PrivacyParams
    algorithm: str
    releases: tuple[Release, ...]
    run: Callable[..., Any]


@final_dataclass(eq=False)
class Subject:
    """A plan with what an audit of it needs: neighboring data sets, and the released numbers of a result."""

    plan: Auditable
    pairs: Pairs
    output: Callable[[Any], Floats] = released


Builder = Callable[[PrivacyParams, float], Subject]
"""A function from a promise and a bound on the domain to a subject; raises `InvalidParameterError` without a plan."""
P = ParamSpec("P")


def builder(build: Callable[Concatenate[PrivacyParams, float, P], Subject]) -> Callable[P, Builder]:
    """Decorator: call a function by its further arguments to get a builder of its first two."""
    return lambda *args, **options: lambda privacy, bound: build(privacy, bound, *args, **options)


@final_dataclass
class Target:
    """An algorithm or mechanism, ready to be audited; its name is ``algorithm`` or ``algorithm/variant``.

    A `pure` promise has delta 0; neighbors replace the data of one `unit`.
    """

    name: str
    pure: bool
    unit: Unit
    builder: Builder

    def subject(self, epsilon: float, delta: float, bound: float) -> Subject:
        """Return what to audit; `bound` is on features, points, queries or payoffs, or a mechanism's sensitivity."""
        return self.builder(PrivacyParams(epsilon, 0.0 if self.pure else delta, unit=self.unit), bound)


def targets(unit: Unit, entries: Mapping[str, tuple[str, Builder]]) -> tuple[Target, ...]:
    """Return targets by name; beside each builder stands the kind of promise, "pure" or "approximate"."""
    return tuple(Target(name, kind == "pure", unit, builder) for name, (kind, builder) in entries.items())


def smallest(planned: Callable[[int], Subject]) -> Subject:
    """Return the subject of the fewest records for which there is a plan."""
    for n in SIZES[:-1]:
        try:
            return planned(n)
        except InvalidParameterError:
            continue
    return planned(SIZES[-1])
