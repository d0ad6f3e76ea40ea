r"""Private answers to many counting or averaging queries about one table: what all such methods share.

A record is a cell of a public domain; the data are n cells; a query is the mean of a bounded public function over the
records. Every method here returns a histogram over the domain, from which every query, and records, follow for free.

Guarantee
    Of the methods. What they share reads the records once, clips them into the domain, and releases nothing itself.
Fit
    `fit_histogram` turns released (noisy) answers into a histogram: post-processing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms import Plan, check_relation
from dpconvex.errors import InvalidDataError
from dpconvex.privacy import Assumption, Ledger, PrivacyCertificate, PrivacyParams, Sensitivity
from dpconvex.problems.data.sources import EncodedRows, totals
from dpconvex.problems.data.summation import Parts
from dpconvex.problems.queries import LinearQueries
from dpconvex.randomness import BitSource

LEMMA = (
    "replacing one of n records moves the mean answers of a block of queries by at most block_l2/n in l2, "
    "of several blocks by the root of their number times that; plus the rounding of the means"
)


@final
@dataclass(frozen=True, eq=False)
class QueryResult:
    """What a run hands out."""

    histogram: FloatArray  #: (cells,): non-negative weights that sum to 1
    #: Shape (count,). Answers to the planned queries; those of the histogram unless the method says otherwise.
    answers: FloatArray
    certificate: PrivacyCertificate  #: what the release costs
    plan: QueryReleasePlan  #: the public constants

    def sample(self, size: int, generator: np.random.Generator) -> AnyArray:
        """Return `size` independent records drawn from the histogram, int64 cells of shape (size,); post-processing.

        The largest error grows by at most ``(high - low) sqrt(log(2 count) / (2 size))`` in expectation.
        """
        return generator.choice(len(self.histogram), size=_validate.integer("size", size, at_least=1), p=self.histogram)


@dataclass(frozen=True)
class QueryReleasePlan(Plan):
    """Public constants of one way to answer queries about n records."""

    queries: LinearQueries
    n: int
    privacy: PrivacyParams
    theorem: ClassVar[str]  # pyright: ignore[reportIncompatibleMethodOverride]
    assumptions: ClassVar[tuple[Assumption, ...]] = (  # pyright: ignore[reportIncompatibleMethodOverride]
        Assumption("a query's values lie in its public range", "the queries are public and fixed"),
    )

    @property
    @abstractmethod
    def expectation(self) -> float:
        """The largest error of a histogram that is typical: a guess (docs, Synthetic data), no bound."""

    @final
    @property
    def public(self) -> Mapping[str, Any]:
        queries = self.queries
        facts = {"cells": queries.cells, "queries": queries.count, "low": queries.low, "high": queries.high}
        return {"n": self.n, **facts, **self.describe()}

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants of the method."""

    @abstractmethod
    def _run(self, records: Any, source: BitSource, ledger: Ledger) -> tuple[FloatArray, FloatArray]:
        """Run the paper's listing on cells (n,) inside the domain; return histogram and answers."""

    @final
    def record_sums(self, records: Any) -> FloatArray:
        """Return the sums of all queries over the records; those of marginals are whole numbers, and exact."""

        def work(cells: AnyArray, _: AnyArray) -> Parts:
            return (self.queries.record_sums(self.queries.clip_records(cells)),)

        return totals(records, records, work)[0]

    @final
    def run(self, records: AnyArray | EncodedRows, source: BitSource) -> QueryResult:
        """Run the planned method on the cell of each record, integers (n,); those outside the domain count as cell 0.

        Plans that need `only_sums` also take rows whose features are cells. Raises `InvalidDataError` if length or
        dtype are not those of the plan (public facts).
        """
        if self.only_sums and isinstance(records, EncodedRows) and len(records) == self.n:
            return self._ran(records, source)
        cells = np.asarray(records)
        if cells.shape != (self.n,) or cells.dtype.kind not in "iu":
            raise InvalidDataError(
                f"records have shape {cells.shape} and dtype {cells.dtype}: integers of shape ({self.n},) are planned"
            )
        return self._ran(self.queries.clip_records(cells), source)

    def _ran(self, records: Any, source: BitSource) -> QueryResult:
        ledger = Ledger(self.privacy, self.releases)
        with np.errstate(all="ignore"):  # what floating point meets depends on the data, so it never speaks up
            histogram, answers = self._run(records, source, ledger)
        return QueryResult(histogram, answers, self.certificate(source), self)


def check(queries: LinearQueries, n: int, privacy: PrivacyParams) -> None:
    """Raise `InvalidParameterError` unless queries can be answered about n records under this promise."""
    check_relation(privacy)
    _validate.records("n", n)
    _validate.integer("queries.count", queries.count, at_least=1)


def mean_sensitivity(queries: LinearQueries, n: int, blocks: int, count: int) -> Sensitivity:
    """How far, in l2, one replaced record of n moves the mean answers of `blocks` blocks with `count` queries in all.

    Rounding of the computed means is included.
    """
    exact = _rounding.product_up(queries.block_l2 / n, math.sqrt(blocks), 1 + 1e-12)
    return Sensitivity(_rounding.sum_up((exact, 2 * rounding(queries) * math.sqrt(count))), "l2", LEMMA)


def rounding(queries: LinearQueries) -> float:
    """Bound on the error of one computed mean answer: one rounding for each cell, in units of the largest value."""
    return (queries.cells + 4) * 2.0**-53 * max(abs(queries.low), abs(queries.high)) * (1 + 1e-12)


def largest_error(queries: LinearQueries, records: AnyArray, histogram: FloatArray) -> float:
    """Return the largest error of a histogram (cells,) on the queries about records (n,). *Not private.*"""
    truth = queries.record_sums(queries.clip_records(records)) / len(records)
    return float(np.abs(truth - queries.answers(histogram)).max())


def fit_histogram(
    queries: LinearQueries, targets: Mapping[int, FloatArray], times: Mapping[int, int], start: FloatArray, steps: int
) -> FloatArray:
    r"""Return weights over the cells whose answers are near `targets`: least squares over the simplex.

    Accelerated entropic mirror descent (Tseng 2008) on ``sum_b times_b ||q_b(x) - targets_b||^2 / 2`` from `start`
    (cells,), near which the result stays where the answers leave a choice. Along directions within the simplex the
    objective is ``sum_b times_b block_l2^2/4``-smooth in the l1 norm. Post-processing of whatever was released:
    `targets` are the measured answers of each measured block, `times` how often it was measured, its weight. All
    `steps` are taken.
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
