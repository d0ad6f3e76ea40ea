r"""A model of the target: the target of synthetic records follows a private linear model instead of noisy tables.

Noise hides most of what a hundred tables say of one column together; one model of this column needs far less noise.

Listing
    1. Fit a private linear model of the target to all other columns, for a share of epsilon. 2. Release noisy tables of
    the columns with the rest of the budget (`noisy_tables` and others), and fit their model q. The tables of the target
    with other columns are left out unless all tables with one noise are better. 3. With f the predictions of step 1,
    additive over columns, draw the target y of a record x that q drew from

        P(y | x)  proportional to  exp(h_y + lambda s_y(x)),  or 0 where a value of x makes y impossible,

    where s_y is the log-odds of class y, or ``f(x) z_y`` for numbers, z_y the middle of a bin in deviations of the
    target. h makes the shares of y those of q. lambda gives the mean of s_y(x) what the model of step 1 says it is: for
    classes by its probabilities, for numbers because a calibrated prediction has the covariance ``Var f`` with y (at
    most `EXPLAINED` of the target's variance). Of all laws with these shares and this mean it has the largest entropy.
Guarantee
    Pure epsilon, or (epsilon, delta), for the neighbors for which both releases are private.
Lemma
    The model is a private release by its own promise, the tables by theirs; both are planned before records are read,
    and neither plan depends on what the other releases. So they are two uses of fixed mechanisms, whose costs add up. A
    fit that goes on from its own releases is entered as a pure mechanism of all that it may spend. Step 3 reads what
    was released and public facts alone: `of_classes` and `of_numbers` are handed nothing that could hold records.
Assumptions
    None beyond those of both plans.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp, softmax

from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.algorithms import PredictedError, continued, recorded
from dpconvex.algorithms.queries.base import QueryReleasePlan, StagedPlan
from dpconvex.algorithms.queries.released_tables import ReleasedModel
from dpconvex.algorithms.search.plan import Candidate
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Planned
from dpconvex.privacy import Assumption, Ledger, Neighboring, PrivacyParams, Release
from dpconvex.privacy.params import check_part
from dpconvex.problems.queries import Marginals, Zero
from dpconvex.randomness import BitSource

LABEL = "model of the target"
DOUBT = 2.0  #: Deviations of noise by which the mean of a number may move to that of its predictions
STEEPEST = 50.0  #: Largest lambda
BARRED = 1e6  #: By how much the score of an impossible value is less
SLOPE = 1e3  #: Largest slope of the logarithm of shares over the range of a number
EXPLAINED = 0.9  #: Largest share of a number's variance that its model may explain
POOL = 20_000  #: Number of records by which means are taken where there are more combinations of values
LEAST = 1e-7  #: Least share of a value of the target
STEPS = 200  #: Largest number of steps of a fit


@final_dataclass
class TargetModelPlan(StagedPlan):
    """Tables of all columns, `then`, and a model of the target that is fitted before them."""

    model: Candidate  #: plan of the model; whoever runs this plan fits it
    neighbors: ClassVar[tuple[Neighboring, ...]] = tuple(Neighboring)
    only_sums, course = forwarded("then", "only_sums"), forwarded("then", "course")
    mechanisms: ClassVar[Mapping[str, Planned]] = {}

    @property
    def theorem(self) -> str:
        return f"Composition of a private model of the target ({self.model.plan.theorem}) and: {self.then.theorem}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return tuple(dict.fromkeys((*self.model.plan.assumptions, *self.then.assumptions)))

    @property
    def predicted_error(self) -> PredictedError:
        given = self.then.predicted_error
        return replace(given, source=f"{given.source}; of tables without the target", proved=False)

    @property
    def releases(self) -> tuple[Release, ...]:
        return (replace(self.model.release(LABEL), block=None), *self.then.releases)  # a fit on all records

    def exact_bits(self, source: BitSource) -> bool:
        return super().exact_bits(source) and self.model.plan.exact_bits(source)

    def resumed(self, *course: Any) -> "TargetModelPlan":
        return continued(self, then=self.then.resumed(*course))

    def describe(self) -> Mapping[str, Any]:
        return {**self.then.describe(), "target_model": self.model.describe()}

    def _takes(self, records: Array) -> bool:
        return self.then._takes(records)

    def _begun(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> "TargetModelPlan":
        ledger.record(self.releases[0])
        return continued(self, then=self.then._begun(records, weights, source, ledger))


@recorded("target_model")
def plan(then: QueryReleasePlan, model: Candidate, privacy: PrivacyParams) -> TargetModelPlan:
    """Return the plan that fits `model` and runs `then`; both are planned for parts of the promise `privacy`."""
    check_part(privacy, then.privacy, "then")
    check_part(privacy, model.plan.privacy, "model")
    if (n := model.plan.problem.n) != then.n:
        raise InvalidParameterError("n", n, f"must be that of the tables, {then.n}")
    return TargetModelPlan(then.queries, then.n, privacy, then, model)


def without(queries: Marginals, axis: int) -> Marginals:
    """Return the queries without the tables of a column with others; of a table of all columns the others are left."""
    kept = [subset for subset in queries.subsets if axis not in subset]
    rest = tuple(k for k in range(len(queries.shape)) if k != axis)
    others = tuple(pair for pair in queries.impossible if axis not in dict(pair))  # no tables show which they are
    return replace(queries, subsets=(*(kept or [rest]), (axis,)), center=None, impossible=others)


Pool = tuple[Array, Floats]
"""Records, (records, columns), whose target is not used, and the weight of each; weights sum to 1."""


@final_dataclass(eq=False)
class TargetModel(ReleasedModel):
    """A distribution over columns in which one of them, the target, follows a log-linear model of the others."""

    base: ReleasedModel  #: the law of the other columns
    axis: int  #: the target
    pool: Pool  #: records over which means are taken
    scores: tuple[Floats, ...]  #: lambda s_y of each column's values, (values, values of y); that of y is not used
    constant: Floats  #: h, (values of y,)
    impossible: tuple[Zero, ...] = ()
    shape = forwarded("base", "shape")

    def given(self, records: Array) -> Floats:
        """Return P(y | x) for every record, (records, values of y)."""
        return softmax(self.constant + added_up(self.scores, records, self.axis), axis=1)

    @cached_property
    def _shares(self) -> Floats:
        return self.pool[1][:, None] * self.given(self.pool[0])

    def _marginal(self, axes: tuple[int, ...]) -> Floats:
        others = tuple(axis for axis in axes if axis != self.axis)
        if others == axes:
            return self.base.marginal(axes)
        columns, order = self.pool[0][:, list(others)].T, (*others, self.axis)
        found = np.zeros((*(self.shape[axis] for axis in others), len(self.constant)))
        np.add.at(found, tuple(columns), self._shares if others else self._shares.sum(axis=0))
        return found.transpose([order.index(axis) for axis in axes])

    def _sample(self, size: int, generator: np.random.Generator) -> Array:
        found = self.base.sample(size, generator)
        ends = self.given(found).cumsum(axis=1)
        found[:, self.axis] = (ends[:, :-1] < generator.random(size)[:, None]).sum(axis=1)
        return found


def pool_of(base: ReleasedModel, axis: int, generator: np.random.Generator) -> Pool:
    """Return all combinations of the columns but `axis` with their shares; drawn ones, where these are too many."""
    others = [k for k in range(len(base.shape)) if k != axis]
    sides = [base.shape[k] for k in others]
    if math.prod(sides) > POOL:
        return base.sample(POOL, generator), np.full(POOL, 1 / POOL)
    records = np.zeros((math.prod(sides), len(base.shape)), dtype=np.int64)
    records[:, others] = np.indices(sides).reshape(len(sides), -1).T
    return records, base.marginal(others).ravel()


def added_up(scores: Sequence[Floats], records: Array, axis: int) -> Floats:
    """Return the sum of the scores of all values of each record but the one at `axis`, (records, outputs)."""
    parts = [part[records[:, k]] for k, part in enumerate(scores) if k != axis]
    return np.sum(parts, axis=0) if parts else np.zeros((len(records), scores[axis].shape[1]))


def _barred(base: ReleasedModel, axis: int, zeros: tuple[Zero, ...]) -> list[Floats]:
    """Return scores that rule out the target's impossible values, (values, values of y) for each column."""
    found = [np.zeros((size, base.shape[axis])) for size in base.shape]
    for (k, value), (other, cell) in (*zeros, *(pair[::-1] for pair in zeros)):
        if k == axis:
            found[other][cell, value] = -BARRED
    return found


def of_classes(
    base: ReleasedModel, axis: int, pool: Pool, scores: Sequence[Floats], given: Floats, zeros: tuple[Zero, ...] = ()
) -> TargetModel:
    """Return the model of a class from log-odds of each column's values, and probabilities of the pool's records."""
    shares, scaled = _positive(base.marginal((axis,))), _scaled(added_up(scores, pool[0], axis), pool[1])
    odds = np.log(np.maximum(given, LEAST)) + added_up(_barred(base, axis, zeros), pool[0], axis)
    constant, _ = _fitted(odds, np.zeros_like(odds), pool[1], shares, 0.0)
    wanted = float(pool[1] @ (softmax(odds + constant, axis=1) * scaled[0]).sum(axis=1))
    return _model(base, axis, pool, scores, scaled, shares, wanted, zeros)


def of_numbers(
    base: ReleasedModel, axis: int, pool: Pool, scores: Sequence[Floats], middles: Floats, start: float, noise: float,
    zeros: tuple[Zero, ...] = (),
) -> TargetModel:  # fmt: skip
    """Return the model of a number from predictions by column, (values, 1) each, and the middles of its bins.

    Predictions are `start` more than the sum of the columns' scores. `noise` is the deviation of the noise in a share
    of the target's table; as far as it may have moved the mean, this is that of the predictions.
    """
    scaled, shares = _scaled(added_up(scores, pool[0], axis), pool[1]), _positive(base.marginal((axis,)))
    off = middles - shares @ middles
    doubt = DOUBT * noise * math.sqrt(off @ off)
    shares = _moved(shares, off, float(np.clip(start + scaled[1][0] - shares @ middles, -doubt, doubt)))
    off -= shares @ off
    deviation = math.sqrt(max(shares @ off**2, sys.float_info.min))
    explained = min(scaled[2] / deviation, math.sqrt(EXPLAINED))
    return _model(base, axis, pool, scores, scaled, shares, explained, zeros, off / deviation)


def _model(
    base: ReleasedModel, axis: int, pool: Pool, scores: Sequence[Floats], scaled: tuple[Floats, Floats, float],
    shares: Floats, wanted: float, zeros: tuple[Zero, ...], z: Floats | float = 1.0,
) -> TargetModel:  # fmt: skip
    """Return the model whose s_y are `scores` times z_y; `scaled` is their sum in the pool as `_scaled` returns it."""
    (f, middle, spread), barred = scaled, _barred(base, axis, zeros)
    constant, steep = _fitted(added_up(barred, pool[0], axis), f * z, pool[1], shares, wanted)
    steep /= spread
    each = tuple(steep * part * z + bar for part, bar in zip(scores, barred, strict=True))
    return TargetModel(base, axis, pool, each, constant - steep * middle * z, zeros)


def _moved(shares: Floats, values: Floats, mean: float) -> Floats:
    """Return the shares of largest entropy relative to `shares` whose mean value is this, as far as that is reached."""

    def at(slope: float) -> Floats:
        return softmax(np.log(shares) + slope * values / (np.abs(values).max() or 1.0))

    mean = float(np.clip(mean, at(-SLOPE) @ values, at(SLOPE) @ values))
    return _positive(at(brentq(lambda slope: at(slope) @ values - mean, -SLOPE, SLOPE))) if mean else shares


def _scaled(values: Floats, weights: Floats) -> tuple[Floats, Floats, float]:
    """Return values (records, outputs) with mean 0 and mean square 1, if they differ at all; mean; and deviation."""
    middle = weights @ values
    spread = math.sqrt(float(weights @ ((values - middle) ** 2).sum(axis=1))) or 1.0
    return (values - middle) / spread, middle, spread


def _positive(shares: Floats) -> Floats:
    found = np.maximum(shares, LEAST)
    return found / found.sum()


def _fitted(odds: Floats, scores: Floats, weights: Floats, shares: Floats, wanted: float) -> tuple[Floats, float]:
    """Return h and lambda for which ``exp(odds + h + lambda scores)`` has these shares and this mean score.

    They minimize a convex function, the dual of the largest entropy; h of the first value is 0. Scores have mean 0, so
    without `odds` lambda is positive where `wanted` is.
    """

    def dual(at: Floats) -> tuple[float, Floats]:
        total, p = law(at)
        value = weights @ total - at[:-1] @ shares[1:] - at[-1] * wanted
        weighed = weights[:, None] * p
        return float(value), np.append(weighed[:, 1:].sum(axis=0) - shares[1:], (weighed * scores).sum() - wanted)

    def law(at: Floats) -> tuple[Floats, Floats]:
        logits = odds + np.append(0.0, at[:-1]) + at[-1] * scores
        total = logsumexp(logits, axis=1)
        return total, np.exp(logits - total[:, None])

    start = np.append(np.log(shares[1:] / shares[0]), 0.0)
    bounds = [(None, None)] * (len(start) - 1) + [(-STEEPEST, STEEPEST)]
    at = minimize(dual, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}).x
    return np.append(0.0, at[:-1]), float(at[-1])
