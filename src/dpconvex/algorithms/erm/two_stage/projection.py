r"""A random projection of the columns in a ball first, then objective perturbation on fewer columns.

Guarantee
    The guarantee of the method on the projected records, for neighbors that replace one record.
Lemma
    The projection P is drawn without looking at the data, from a stream that is independent of the noise, and moves
    each record by itself. So neighbors stay neighbors; given P the method protects them; and P together with what the
    method releases is as private as the release. The parameters of the original columns, ``P^T v``, are a function
    of both (docs, Random projection; Kasiviswanathan and Jin 2016).
Sensitivity
    The method's. A projected record is shortened to the radius of the ball that bounds the original records.
Assumptions
    Those of the method. That predictions survive a projection is for accuracy: privacy holds for any P.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dpconvex import algorithms
from dpconvex._types import Array, Floats, IntArray, final_dataclass
from dpconvex.algorithms.erm.two_stage.base import Planner, TwoStagePlan
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data import _loops
from dpconvex.problems.data.sources.rows import mapped
from dpconvex.problems.linear.expected_risk import reach_share
from dpconvex.randomness import BitSource

FEWEST = 4  #: Least number of columns after a projection.
LARGEST = 2**26  #: Most entries of a projection's matrix (512 MB), unless the fewest columns need more
CHUNK = 4_000_000  #: Most entries of the data that are clipped and projected at a time; it bounds memory.


@final_dataclass
class ProjectedPlan(TwoStagePlan):
    """A method, `then`, on records whose columns in l2 blocks are projected to `columns` columns."""

    then: algorithms.LinearModelPlan
    columns: int
    algorithm: ClassVar[str] = "random_projection"
    added = " Records are projected one by one, by a matrix drawn independently of the data."
    presumed = ("the projection does not depend on the data or on the noise", "it is drawn from a stream of its own")

    @cached_property
    def wide(self) -> IntArray:
        """Positions of the columns that are projected."""
        return self.problem.domain.columns_in("l2")

    @cached_property
    def others(self) -> IntArray:
        """Positions of the columns that stay."""
        return np.setdiff1d(np.arange(self.problem.domain.n_features), self.wide)

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """The method's bound, for projected records only; `expected` adds the loss from the projection."""
        given, typical = self.then.predicted_error, self.problem.typical
        if given.expected is None or typical is None:
            return replace(given, proved=False)
        blocks = tuple(i for i, block in enumerate(self.problem.domain.blocks) if block.norm == "l2")
        lost = typical.projection_bias(blocks, self.columns)
        source = f"{given.source}, among models of the projected records; an estimate"
        return replace(given, expected=given.expected + lost, source=source, proved=False)

    @property
    def coefficient_deviation(self) -> Floats | None:
        """For projected columns a root mean square over projections, for other columns the deviation by `then`."""
        if (found := self.then.coefficient_deviation) is None:
            return None
        inner = found.reshape(-1, self.then.problem.domain.dim)
        return self._placed(inner, np.sqrt(np.mean(inner[:, : self.columns] ** 2, axis=1, keepdims=True)))

    def describe(self) -> Mapping[str, Any]:
        projected = {"columns": len(self.wide), "to": self.columns, "method": self.then.algorithm}
        return {**self.then.problem.describe(), **self.then.describe(), "projected": projected}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        P = projection(len(self.wide), self.columns, source)  # line 1: independent of data and noise
        result = self.then.run(*mapped(X, y, partial(self._projected, P=P)), source)  # line 2; it clips again
        weights = result.point.reshape(self.problem.loss.n_outputs, -1)
        point = self._placed(weights, weights[:, : self.columns] @ P)  # line 3: back to the original columns
        return self.restored(result, point, source)

    def _placed(self, inner: Floats, wide: Floats) -> Floats:
        """Return flat parameters (outputs * dim,): `wide` for projected columns, from `inner` for all other columns."""
        out = np.empty((len(inner), self.problem.domain.dim))
        out[:, self.wide] = wide
        out[:, self.others] = inner[:, self.columns : self.columns + len(self.others)]
        out[:, self.problem.domain.n_features :] = inner[:, self.columns + len(self.others) :]
        return out.ravel()

    def _projected(self, X: Array, P: Floats) -> Floats:
        """Return records with projected columns first, each a function of itself alone; chunks of rows at a time."""
        out = np.empty((X.shape[0], self.columns + len(self.others)))
        step = max(1, CHUNK // max(1, self.problem.domain.n_features))
        for first in range(0, X.shape[0], step):
            inside = self.problem.domain.clip(X[first : first + step])
            z = np.empty((len(inside), self.columns))
            _loops.predictions(np.ascontiguousarray(inside[:, self.wide]), np.ascontiguousarray(P), z)
            out[first : first + step, : self.columns] = z
            out[first : first + step, self.columns :] = inside[:, self.others]
        return out


@algorithms.recorded("random_projection")
def plan(problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner) -> tuple[ProjectedPlan, ...]:
    """Return the plan with the number of columns of the smallest expected error."""
    algorithms.check_relation(privacy)
    algorithms.require_average(problem)
    p = len(problem.domain.columns_in("l2"))
    best: ProjectedPlan | None = None
    counts = [p >> halvings for halvings in range(1, p.bit_length()) if p >> halvings >= FEWEST]
    for columns in [count for count in counts if count * p <= LARGEST] or counts[-1:]:
        found = ProjectedPlan(problem, privacy, planner(projected(problem, columns), privacy)[0], columns)
        if best is not None and found.predicted_error.rank > best.predicted_error.rank:
            break  # even fewer columns would lose more
        best = found
    if best is None:
        what = f"must have at least {2 * FEWEST} columns that are bounded together in l2"
        remedy = "Declare feature_norm, or use algorithm='objective_perturbation'"
        raise InvalidParameterError("domain", f"{p} columns in l2 blocks", what, remedy)
    return (best,)


def projected(problem: LinearModelProblem, columns: int) -> LinearModelProblem:
    """Return the problem over projected records; their part of the squared radius shrinks in proportion to columns."""
    domain = problem.domain
    wide = [block for block in domain.blocks if block.norm == "l2"]
    p = sum(block.size for block in wide)
    length = math.hypot(*(block.bound for block in wide))
    kept = tuple(block for block in domain.blocks if block.norm != "l2")
    inner = DataDomain((Block(columns, "l2", length, "projected"), *kept), domain.intercept)
    share = reach_share(domain, "l2")
    return replace(problem, domain=inner, radius=problem.radius * math.sqrt(1 - share * (1 - columns / p)))


def projection(columns: int, kept: int, source: BitSource) -> Floats:
    """Return the projection onto a uniformly random subspace, (kept, columns), scaled to keep mean squares."""
    return np.linalg.qr(source.generator().standard_normal((columns, kept)))[0].T * np.sqrt(columns / kept)
