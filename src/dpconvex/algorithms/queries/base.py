r"""Private answers to many counting or averaging queries about one table: what all such methods share.

A record is a cell of a public domain; the data are n cells; a query is the mean of a bounded public function over the
records. Every method here returns a histogram over the domain, from which every query, and records, follow for free.

The code in this module reads the records once, clips them into the domain, and releases nothing itself. `fit_histogram`
turns released answers into a histogram, which is post-processing.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import REQUIRED, Array, Floats, final_dataclass, forwards
from dpconvex.algorithms import Plan, check_relation
from dpconvex.algorithms.queries.released_tables import Histogram, ReleasedModel, ReleasedTables
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.privacy import Assumption, Ledger, Neighboring, PrivacyCertificate, PrivacyParams, Sensitivity, Unit
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems.data.sources.rows import EncodedRows, totals
from dpconvex.problems.data.summation import one_blas_thread
from dpconvex.problems.data.users import UserGroups, exact_weights
from dpconvex.problems.queries import LARGEST, LinearQueries
from dpconvex.randomness import BitSource

Answered = tuple[ReleasedModel, Floats, ReleasedTables | None]
"""What a listing returns: the model, answers, and released tables where there are any."""
LEMMA = (
    "replacing one of n records moves the mean answers of a block of queries by at most block_l2/n in l2 (block_l1/n "
    "in l1), of several blocks by the root of their number (their number) times that; plus the rounding of the means"
)
LEAST_STEPS, MOST_STEPS, MOST_WORK = 50, 20_000, 1e9
"""Limits of a fit: steps at least and at most, and cells times steps at most, which takes seconds on one core."""


@final_dataclass(eq=False)
class QueryResult:
    """What a run returns: the released model, answers and tables, with certificate and plan."""

    model: ReleasedModel  #: gives the share of every combination of values, and draws synthetic records
    answers: Floats  #: Answers to the planned queries, (count,): those of the model unless the method says otherwise.
    tables: ReleasedTables | None  #: the noisy tables themselves, where the method measured tables
    certificate: PrivacyCertificate  #: states what the release costs
    plan: "QueryReleasePlan"  #: the plan that ran: public constants

    @property
    def histogram(self) -> Floats:
        """Weights of all combinations of values, (cells,), of sum 1; at most 2^27."""
        return self.model.marginal(range(len(self.model.shape))).ravel()


@dataclass(frozen=True)
class QueryReleasePlan(Plan):
    """Public constants of one way to answer queries about n records."""

    queries: LinearQueries
    n: int  #: number of records or users; a declared number, perhaps not the true one, where neighbors differ in size
    privacy: PrivacyParams
    theorem: ClassVar[str]
    constants = "calibrated"
    only_sums: ClassVar[bool] = True
    preferred: ClassVar[bool] = False  #: whether `auto` takes the method wherever it applies
    assumptions: ClassVar[tuple[Assumption, ...]] = (
        Assumption("a query's values lie in its public range", "the queries are public and fixed"),
    )
    #: A guess at the typical largest error of the histogram (docs, Synthetic data); not a bound.
    expectation: ClassVar[float] = REQUIRED

    @property
    def ranked(self) -> float:
        """Key by which `auto` orders equally preferred plans: the expectation, at most the trivial error."""
        return min(self.predicted_error.trivial, self.expectation)

    @final
    @property
    def public(self) -> Mapping[str, Any]:
        queries = self.queries
        facts = {"cells": queries.cells, "queries": queries.count, "low": queries.low, "high": queries.high}
        size = "n" if self.privacy.neighboring.fixes_size else "declared_n"
        return {size: self.n, **facts, **self.describe()}

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants of the method."""

    @abstractmethod
    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> Answered:
        """Run the paper's listing; return model, answers and released tables.

        Records are cells (n,) inside the domain, for plans that need `only_sums` as given: they clip what they sum.
        `weights` say how much each record counts, for plans that protect users: at most 1 for all of a user's.
        """

    @final
    def answered(self, histogram: Floats, answers: Floats | None = None) -> Answered:
        """Return a histogram in the form that `_run` returns; the answers are the histogram's own unless given."""
        model = Histogram(self.queries.shape, histogram)
        return model, self.queries.answers(histogram) if answers is None else answers, None

    @final
    def record_sums(self, records: Any) -> Floats:
        """Return the sums of all queries over the records; for marginals these are whole numbers and exact."""
        queries = self.queries
        return totals(records, records, lambda cells, _: (queries.record_sums(queries.clip_records(cells)),))[0]

    @final
    def run(self, records: Array | EncodedRows, source: BitSource, groups: UserGroups | None = None) -> QueryResult:
        """Run the planned method on the cell of each record, integers (n,), or on its values, integers (n, columns).

        What lies outside the domain counts as cell or value 0. Plans that need `only_sums` also take rows whose
        features are values. Raises `InvalidDataError` if length or dtype are not those of the plan (public facts).
        Where neighbors differ in size, any number of records is accepted, even 0, and no output reveals it. `groups`
        says which user each record belongs to: only plans that protect users take it, and their n counts users.
        """
        read: Any = records
        if (groups is not None) != (self.privacy.unit == Unit.USER) or (groups and groups.n_users != self.n):
            whose = "no groups" if groups is None else f"groups of {groups.n_users} users"
            raise InvalidDataError(f"{whose} are given, and the plan is for n={self.n} {self.privacy.unit}s")
        rows = self.n if groups is None else groups.n_records
        if not self.privacy.neighboring.fixes_size:
            read = self._any_number(records)
        elif not (self.only_sums and isinstance(records, EncodedRows) and len(records) == rows):
            cells, columns = np.asarray(records), len(self.queries.shape)
            if cells.shape[:1] != (rows,) or not self._takes(cells):
                size = "one for each of groups" if groups else rows  # of users' records, their number is private
                what = f"records have shape {cells.shape}" if groups is None else f"records have {cells.ndim} axes"
                what += f" and dtype {_validate.dtype_of(cells)}: integers of shape ({size},)"
                raise InvalidDataError(f"{what} are planned, or ({size}, {columns})")
            read = cells if self.only_sums else self.queries.clip_records(cells)
        ledger = Ledger(self.privacy, self.releases)
        # What floating point meets depends on the data, so it never speaks up.
        with np.errstate(all="ignore"), one_blas_thread():
            weights = None if groups is None else exact_weights(groups)
            plan = self._begun(read, weights, source, ledger)
            model, answers, tables = plan._run(read, weights, source, ledger)
        return QueryResult(model, answers, tables, plan.certificate(source), plan)

    def _takes(self, records: Array) -> bool:
        """Whether axes and dtype of records are those that are planned (public facts)."""
        return records.shape[1:] in ((), (len(self.queries.shape),)) and records.dtype.kind in "iu"

    def _begun(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> "QueryReleasePlan":
        """Release what the rest of the run depends on, and return the plan to continue with, most often this one."""
        return self

    def _any_number(self, records: Array | EncodedRows) -> Array:
        """Return records in memory, of any number; error messages never reveal how many there are."""
        if isinstance(records, EncodedRows):
            raise InvalidDataError("records are read portion by portion: these neighbors need them in memory")
        cells, columns = np.asarray(records), len(self.queries.shape)
        if cells.ndim and not len(cells) and not isinstance(records, np.ndarray):  # an empty list has no dtype
            return np.zeros((0, columns), dtype=np.int64)
        if not cells.ndim or not self._takes(cells):
            what = f"records have {cells.ndim} axes and dtype {_validate.dtype_of(cells)}: integers of shape (records,)"
            raise InvalidDataError(f"{what} are planned, or (records, {columns})")
        return cells


@dataclass(frozen=True)
@forwards("then", "algorithm noise_name ranked expectation")
class StagedPlan(QueryReleasePlan):
    """A plan that releases something of its own, and the tables of another plan with what it leaves of the promise."""

    then: Any  #: the other plan
    preferred: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    def exact_bits(self, source: BitSource) -> bool:
        return super().exact_bits(source) and self.then.exact_bits(source)

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> Answered:
        return self.then._run(records, weights, source, ledger)


def check(queries: LinearQueries, n: int, privacy: PrivacyParams) -> None:
    """Raise `InvalidParameterError` unless queries can be answered about n records under this promise."""
    check_relation(privacy)
    _validate.records("n", n)
    _validate.integer("queries.count", queries.count, at_least=1)
    if queries.impossible:
        remedy = "Use algorithm='noisy_tables', or leave it out"
        raise InvalidParameterError("impossible", len(queries.impossible), "is not used by this algorithm", remedy)
    if queries.cells > LARGEST:
        widest = sorted(queries.shape, reverse=True)[:3]
        what = f"must have at most {LARGEST} combinations of values for this algorithm, and columns have up to {widest}"
        remedy = f"Use algorithm='noisy_tables' with order 1 or 2 (up to {MOST['columns']} columns), or fewer columns"
        raise InvalidParameterError("queries.cells", f"{Decimal(queries.cells):.2e}", what, remedy)


MOST = {"columns": 100, "values of all columns": 4_000, "cells of all tables": 5_000_000}


def check_tables(queries: LinearQueries, n: int, privacy: PrivacyParams, neighbors: tuple[Neighboring, ...]) -> None:
    """Raise `InvalidParameterError` unless queries are tables of one or two columns, not too many, for this promise."""
    check_relation(privacy, users=True, neighbors=neighbors)
    _validate.records("n", n)
    shape = queries.shape
    if not queries.subsets or max(map(len, queries.subsets)) > 2:
        what = "must be marginal tables of one or two columns for this algorithm"
        raise InvalidParameterError("queries", queries.count, what, "Use order=2, or algorithm='query_noise'")
    if max(shape) < 2:
        raise InvalidParameterError("queries.shape", shape, "must have a column with two values or more", "")
    widest = ", ".join(map(str, sorted(shape, reverse=True)[:3]))
    for name, size in zip(MOST, (len(shape), sum(shape), queries.count), strict=True):
        if size > MOST[name]:
            remedy = f"Name fewer columns (columns, --column) or use fewer bins: the widest have {widest} values"
            raise InvalidParameterError(name, size, f"must be at most {MOST[name]}", remedy)


def mu_of(privacy: PrivacyParams, law: str = "gaussian") -> float:
    """Return the budget mu of Gaussian noise, slightly reduced because accountants round up; 0 for pure noise."""
    return largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-9) if law == "gaussian" and privacy.delta > 0 else 0.0


def mean_sensitivity(queries: LinearQueries, n: int, blocks: int, count: int, norm: str = "l2") -> Sensitivity:
    """Return how far replacing one of n records moves the computed mean answers of `blocks` blocks, `count` in all."""
    one, power = (queries.block_l2, 0.5) if norm == "l2" else (queries.block_l1, 1.0)
    exact = _rounding.product_up(one / n, blocks**power, 1 + 1e-12)
    return Sensitivity(_rounding.sum_up((exact, 2 * rounding(queries) * count**power * (1 + 1e-12))), norm, LEMMA)


def rounding(queries: LinearQueries) -> float:
    """Bound on the error of one computed mean answer: one rounding for each cell, in units of the largest value."""
    return (queries.cells + 4) * 2.0**-53 * max(abs(queries.low), abs(queries.high)) * (1 + 1e-12)


def planned_steps(queries: LinearQueries, sigma: float, tables: int, times: int = 1) -> int:
    """Return `times` the steps of `fit_histogram` after which its own error is below that of noise, a public number."""
    # After k steps the objective is within ``4 L log Z / k^2`` of its least value; noise leaves ``count e^2 / 2``.
    smooth = 8 * tables * queries.block_l2**2 / 4 * math.log(queries.cells + 1)
    wanted = math.sqrt(smooth / queries.count) / max(noise_left(queries, sigma), 1e-9)
    most = min(MOST_STEPS, int(MOST_WORK / queries.cells))
    return max(LEAST_STEPS, min(times * max(LEAST_STEPS, math.ceil(wanted)), most))


def noise_left(queries: LinearQueries, sigma: float) -> float:
    """Return a bound on the root mean square error of fitted answers, where `sigma` is the deviation of their noise.

    The fit is at most as far from the noisy answers as the data are: squared errors sum to at most twice
    ``max_z <noise, q(z)>`` (Nikolov, Talwar and Zhang 2013).
    """
    width = queries.block_l2 / math.sqrt(2) * math.sqrt(2 * len(queries.blocks) * math.log(queries.cells + 1))
    return math.sqrt(2 * sigma * width / queries.count)


def fit_histogram(
    queries: LinearQueries, targets: Mapping[int, Floats], times: Mapping[int, float], start: Floats, steps: int
) -> Floats:
    r"""Return a minimizer over the simplex of ``sum_b times_b ||q_b(x) - targets_b||^2 / 2``, started at `start`.

    Accelerated entropic mirror descent (Tseng 2008); the sum is ``sum_b times_b block_l2^2/4``-smooth in l1.
    """
    curvature = sum(times.values()) * queries.block_l2**2 / 4
    everything = len(targets) == len(queries.blocks)
    goal, weight = np.zeros(queries.count), np.zeros(queries.count)
    for block, target in targets.items():
        goal[queries.blocks[block]], weight[queries.blocks[block]] = target, times[block]
    log_z = np.log(np.maximum(start, 1e-300))
    x, z = start, start
    for k in range(steps):
        theta = 2 / (k + 2)
        y = (1 - theta) * x + theta * z
        if everything:
            slope = queries.combine(weight * (queries.answers(y) - goal))
        else:
            slope = np.zeros(queries.cells)
            for block, target in targets.items():
                slope += queries.block_combine(block, times[block] * (queries.block_answers(block, y) - target))
        log_z = log_z - slope / (theta * curvature)
        log_z -= log_z.max()
        z = np.exp(log_z)
        z /= z.sum()
        x = (1 - theta) * x + theta * z
    return x / x.sum()
