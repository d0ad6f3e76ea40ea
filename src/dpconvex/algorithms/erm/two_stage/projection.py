r"""A random projection of the columns in a ball first, then objective perturbation on fewer columns.

Guarantee
    That of the method on the projected records, for neighbours that replace one record.
Lemma
    The projection P is drawn without looking at the data, from a stream that is independent of the noise, and moves
    each record by itself. So neighbours stay neighbours; given P the method protects them; and P together with what the
    method releases is as private as the release. The parameters in the columns as they were, ``P^T v``, are a function
    of both.
Sensitivity
    The method's. A projected record is shortened to the length of the ball it was in.
Assumptions
    Those of the method. That predictions survive a projection is for accuracy: privacy holds for any P.
Why
    Pure noise of an l2 sensitivity is as many times longer as there are columns. In m random directions inner products
    change by about ``1/sqrt(m)`` of the lengths (Johnson and Lindenstrauss 1984), and the best fit loses what
    `TypicalData.projection_bias` says: little where a few directions hold most of the variance.
Memory
    One copy of the projected records, n rows of m and the other columns.

References
----------
Kasiviswanathan and Jin (2016), "Efficient private empirical risk minimization for high-dimensional learning".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast, final

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import LinearModelPlan, PrivateResult, check_relation, require_average
from dpconvex.algorithms.erm.two_stage.base import DelegatingPlan
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import Assumption, PrivacyParams, Release
from dpconvex.problems.data.domain import Block, DataDomain
from dpconvex.problems.linear.expected_risk import reach_share
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import BitSource

FEWEST = 4
"""Columns that are left, at least."""
CHUNK = 4_000_000
"""Entries that are clipped and projected at a time."""

Planner = Callable[[LinearModelProblem, PrivacyParams], tuple[LinearModelPlan, ...]]
"""Plans of the method for a problem and a promise, the one to run first."""


@final
@dataclass(frozen=True)
class ProjectedPlan(DelegatingPlan):
    """A method on records whose columns in l2 blocks are projected.

    Parameters
    ----------
    problem : LinearModelProblem
        What is minimised.
    privacy : PrivacyParams
        The promise.
    then : LinearModelPlan
        The method on the projected problem.
    columns : int
        To how many.
    planner : callable
        Plans `then`.
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    then: LinearModelPlan
    columns: int
    planner: Planner
    algorithm: ClassVar[str] = "random_projection"

    @cached_property
    def wide(self) -> NDArray[np.int64]:
        """Positions of the columns that are projected."""
        return wide_columns(self.problem.domain)

    @cached_property
    def others(self) -> NDArray[np.int64]:
        """Positions of the columns that stay."""
        return np.setdiff1d(np.arange(self.problem.domain.n_features), self.wide)

    @property
    def predicted_error(self) -> PredictedError:
        """The method's bound, which is for projected records only; expected: with what the projection loses."""
        given, typical = self.then.predicted_error, self.problem.typical
        if given.expected is None or typical is None:
            return replace(given, proved=False)
        lost = typical.projection_bias(self._wide_blocks, self.columns)
        source = f"{given.source}, among models of the projected records; an estimate"
        return replace(given, expected=given.expected + lost, source=source, proved=False)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The method's."""
        return self.then.releases

    @property
    def theorem(self) -> str:
        """The method's, and why a projection costs nothing."""
        return f"{self.then.theorem} Records are projected one by one, by a matrix drawn independently of the data."

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The method's, and that P knows nothing."""
        blind = Assumption(
            "the projection does not depend on the data or on the noise", "it is drawn from a stream of its own"
        )
        return (*self.then.assumptions, blind)

    @property
    def coefficient_deviation(self) -> FloatArray | None:
        """That of `then`; of a projected column the mean over projections. Shape (dim,)."""
        found = self.then.coefficient_deviation
        if found is None:
            return None
        inner = found.reshape(-1, self.then.problem.domain.dim)
        out = np.empty((len(inner), self.problem.domain.dim))
        out[:, self.wide] = np.sqrt(np.mean(inner[:, : self.columns] ** 2, axis=1, keepdims=True))
        out[:, self.others] = inner[:, self.columns : self.columns + len(self.others)]
        out[:, self.problem.domain.n_features :] = inner[:, self.columns + len(self.others) :]
        return out.ravel()

    def describe(self) -> Mapping[str, Any]:
        """Constants of the method, its domain, and where that comes from."""
        projected = {"columns": len(self.wide), "to": self.columns, "method": self.then.algorithm}
        return {**self.then.problem.describe(), **self.then.describe(), "projected": projected}

    def exact_bits(self, source: BitSource) -> bool:
        """As the method."""
        return self.then.exact_bits(source)

    def at(self, privacy: PrivacyParams) -> ProjectedPlan:
        """Return the plan of another promise."""
        return plan(self.problem, privacy, self.planner)[0]

    def _listing(self, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
        P = projection(len(self.wide), self.columns, source)  # line 1: independent of data and noise
        result = self.then.run(self._projected(X, P), y, source)  # line 2: the method, which clips again
        ran = self.after(cast(LinearModelPlan, result.plan))
        weights = result.point.reshape(self.problem.loss.n_outputs, -1)
        out = np.empty((len(weights), self.problem.domain.dim))
        out[:, self.wide] = weights[:, : self.columns] @ P  # line 3: back to the columns as they were
        out[:, self.others] = weights[:, self.columns : self.columns + len(self.others)]
        out[:, self.problem.domain.n_features :] = weights[:, self.columns + len(self.others) :]
        return ran.finish(out.ravel(), source, result.status)

    def _projected(self, X: AnyArray, P: FloatArray) -> FloatArray:
        """Return the records, clipped one by one, with projected columns first; chunks of rows at a time."""
        out = np.empty((len(X), self.columns + len(self.others)))
        step = max(1, CHUNK // max(1, self.problem.domain.n_features))
        for first in range(0, len(X), step):
            inside = self.problem.domain.clip(X[first : first + step])
            out[first : first + step, : self.columns] = inside[:, self.wide] @ P.T
            out[first : first + step, self.columns :] = inside[:, self.others]
        return out

    @property
    def _wide_blocks(self) -> tuple[int, ...]:
        return tuple(i for i, block in enumerate(self.problem.domain.blocks) if _is_wide(block))


@recorded("random_projection")
def plan(problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner) -> tuple[ProjectedPlan, ...]:
    """Return the plan with the number of columns of the smallest expected error.

    Parameters
    ----------
    problem : LinearModelProblem
        Public facts.
    privacy : PrivacyParams
        The promise.
    planner : callable
        Plans of the method for a problem and a promise, the one to run first.

    Raises
    ------
    InvalidParameterError
        If no l2 block is wide enough, or the method refuses.
    """
    check_relation(privacy)
    require_average(problem)
    p = len(wide_columns(problem.domain))
    best: ProjectedPlan | None = None
    for columns in (p >> halvings for halvings in range(1, p.bit_length()) if p >> halvings >= FEWEST):
        then = planner(projected(problem, columns), privacy)[0]
        found = ProjectedPlan(problem, privacy, then, columns, planner)
        if best is not None and found.predicted_error.rank > best.predicted_error.rank:
            break  # fewer still lose more
        best = found
    if best is None:
        what = f"must have at least {2 * FEWEST} columns that are bounded together in l2"
        remedy = "Declare feature_norm, or use algorithm='objective_perturbation'"
        raise InvalidParameterError("domain", f"{p} columns in l2 blocks", what, remedy)
    return (best,)


def projected(problem: LinearModelProblem, columns: int) -> LinearModelProblem:
    """Return the problem over projected records: `columns` first, then the other blocks.

    The comparator norm's share of the projected columns falls in proportion to their number, in its square.
    """
    domain = problem.domain
    wide = [block for block in domain.blocks if _is_wide(block)]
    p = sum(block.size for block in wide)
    length = math.hypot(*(block.bound for block in wide))
    kept = tuple(block for block in domain.blocks if not _is_wide(block))
    inner = DataDomain((Block(columns, "l2", length, "projected"), *kept), domain.intercept)
    share = reach_share(domain, "l2")
    return replace(problem, domain=inner, radius=problem.radius * math.sqrt(1 - share * (1 - columns / p)))


def projection(columns: int, kept: int, source: BitSource) -> FloatArray:
    """Return the projection onto a uniformly random subspace, (kept, columns), times ``sqrt(columns / kept)``.

    So the mean squared length of a projected vector is its own. Rows are orthogonal.
    """
    normal = source.generator().standard_normal((columns, kept))
    return np.linalg.qr(normal)[0].T * np.sqrt(columns / kept)


def wide_columns(domain: DataDomain) -> NDArray[np.int64]:
    """Return the positions of the columns in l2 blocks."""
    return domain.columns_in("l2")


def _is_wide(block: Block) -> bool:
    return block.norm == "l2"
