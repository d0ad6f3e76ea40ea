r"""Every table of one and two columns with exact noise, and one model of all of them: the default for marginals.

Listing
    Count the tables; add discrete Laplace noise (delta = 0) or discrete Gaussian noise to every cell, the scale of each
    table fixed from public facts; fit latent classes (`latent_classes`), or a histogram where it is small and the noise
    too. Counting is the only step that reads records; nothing is chosen after them.
Guarantee
    Pure epsilon, or (epsilon, delta), for neighbors that replace one record.
Lemma
    A replaced record moves one unit between two cells of each table, of all tables at once if it differs everywhere: 2
    in l1, root of 2 in l2. So Laplace scales ``b_A`` cost ``sum 2/b_A``, and deviations ``sigma_A`` one Gaussian of
    ``mu^2 = sum 2/sigma_A^2``; both are attained. Mechanisms add the rounding to their grids.
Allocation
    A share h of the budget (of mu^2) for the one-way tables; inside both kinds in proportion to the cube root of the
    cells, rounded to powers of ``2^(1/4)`` so that few scales, hence few entries of the ledger, exist. A sum of
    ``c_A`` cells' noise is least for ``c^(1/2)`` (Laplace) and ``c^(2/3)`` (Gaussian); the fit makes up for most of it.
Which tables
    All pairs, while their noise is below what they tell; then the pairs with one column, the `center`; then no pair:
    the columns' own tables alone, with the whole budget, so that noise never makes the result worse than independent
    columns. Chosen from the mean total variation R of the raw noise, a public number (`MOST_RAW`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms import PredictedError, check_relation, recorded
from dpconvex.algorithms.queries.base import Answered, QueryReleasePlan, fit_histogram, planned_steps
from dpconvex.algorithms.queries.latent_classes import FitPlan, fit
from dpconvex.algorithms.queries.models import Histogram, ReleasedModel
from dpconvex.algorithms.queries.released_tables import ReleasedTables
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism, Planned
from dpconvex.mechanisms.gaussian import INFLATION
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems.queries import LinearQueries, Marginals
from dpconvex.randomness import BitSource

LEMMA = "replacing a record moves one unit between two cells of the table: 2 in l1, the root of 2 in l2"
SHARE = 0.1  # of the budget for the one-way tables (benchmarks/whole_tables.py)
MOST_RAW = {"all": 0.75, "center": 0.06}  # R up to which pairs are measured (benchmarks/whole_tables.py)
INDEPENDENT = 0.1  # Mean total variation of independent columns on benchmark tables: 0.08 to 0.22
REFIT, FALLING = 0.15, 0.01  # R below which the fit uses all cells, and lets its rate fall
SMALL_CELLS, SMALL_RAW = 2**20, 0.02  # up to which one weight a combination is fitted instead of classes
MOST_COLUMNS, MOST_VALUES, MOST_CELLS = 100, 4_000, 5_000_000
CLASSES, FOLDS, MOST_STEPS = 200, 5, 3000
RELATIONS = ("auto", "all", "center", "none")

Tables = tuple[tuple[int, ...], ...]


@final
@dataclass(frozen=True)
class NoisyTablesPlan(QueryReleasePlan):
    """Constants of one release."""

    subsets: Tables  #: columns of the measured tables: each of one column, then pairs
    relations: str  #: which pairs: "all", "center" or "none"
    law: str  #: of the noise: "laplace" or "gaussian"
    share: float  #: h, of the budget for the one-way tables
    mu: float  #: Gaussian budget; 0 for Laplace noise
    algorithm = "noisy_tables"
    constants = "calibrated"
    preferred = True
    theorem = "Independent noise on every table of counts: the sum of their costs, attained (Lemma)."

    @property
    def noise_name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.law

    @cached_property
    def noises(self) -> tuple[tuple[str, Mechanism[FloatArray], float], ...]:
        """For each table its label in the ledger, which it shares with tables of its scale, its noise and its scale."""
        shape, found = self.queries.shape, []
        sizes = [math.prod(shape[axis] for axis in subset) for subset in self.subsets]
        keys = [(len(subset), round(4 / 3 * math.log2(size))) for subset, size in zip(self.subsets, sizes, strict=True)]
        totals = {order: math.fsum(2 ** (k / 4) for o, k in keys if o == order) for order, _ in keys}
        orders = {1: self.share, 2: 1 - self.share} if 2 in totals else {1: 1.0}
        for (order, key), size in zip(keys, sizes, strict=True):
            part = orders[order] * 2 ** (key / 4) / totals[order]
            label = f"{('one', 'two')[order - 1]}-way tables, scale class {key}"
            found.append((label, *self._mechanism(part * (1 - 1e-12), size)))
        return tuple(found)

    def _mechanism(self, part: float, size: int) -> tuple[Mechanism[FloatArray], float]:
        """Return the noise of a table that may spend a part of the budget, and its scale or standard deviation."""
        if self.law == "laplace":
            laplace = LaplaceMechanism.calibrate(Sensitivity(2.0, "l1", LEMMA), self.privacy.epsilon * part, size)
            return laplace, laplace.scale
        sensitivity = Sensitivity(_rounding.widen_up(math.sqrt(2.0)), "l2", LEMMA)
        # The mechanism enlarges the sensitivity for its grid, so scales are never computed from the budget by hand.
        gaussian = GaussianMechanism.of_mu(sensitivity, self.mu * math.sqrt(part) * (1 - 1e-12), size)
        return gaussian, gaussian.sigma * INFLATION

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {label: mechanism for label, mechanism, _ in self.noises}

    @property
    def releases(self) -> tuple[Release, ...]:
        times = Counter(label for label, _, _ in self.noises)
        return tuple(replace(each, times=times[each.label]) for each in super().releases)

    @cached_property
    def deviations(self) -> FloatArray:
        """Standard deviation of the noise of a share, for each table."""
        return np.array([math.sqrt(2 if self.law == "laplace" else 1) * scale / self.n for scale in self.scales])

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Scale of Laplace noise, standard deviation of Gaussian noise, in counts, for each table."""
        return tuple(scale for _, _, scale in self.noises)

    @cached_property
    def raw(self) -> float:
        """R: the mean total variation that noise alone adds to the measured pairs; to columns, if there are none."""
        order = max(map(len, self.subsets))
        ratio = math.sqrt(0.5) if self.law == "laplace" else math.sqrt(2 / math.pi)
        shape = self.queries.shape
        found = [
            math.prod(shape[axis] for axis in subset) / 2 * ratio * float(deviation)
            for subset, deviation in zip(self.subsets, self.deviations, strict=True)
            if len(subset) == order
        ]
        return math.fsum(found) / len(found)

    @property
    def expected_variation(self) -> float:
        """The mean total variation of two-way tables to expect: the order of magnitude on benchmark tables, a guess."""
        if len(self.queries.shape) > 1 and self.relations != "all":
            return INDEPENDENT + self.raw if self.relations == "none" else 0.6 * INDEPENDENT + self.raw / 2
        return min(self.raw, 0.09 * self.raw**0.6) if self.raw > 0.01 else self.raw

    @property
    def predicted_error(self) -> PredictedError:
        """The largest noise of any cell: a bound on the noisy tables, where all that are asked for are measured."""
        largest, count = float(self.deviations.max()), self.queries.count
        tail = math.log(2 * count) / math.sqrt(2) if self.law == "laplace" else math.sqrt(2 * math.log(2 * count))
        measured = set(self.subsets) >= set(self.queries.subsets)
        bound = largest * tail + (0 if measured else INDEPENDENT)
        return PredictedError(bound, 1.0, "largest noise of a cell of the noisy tables", proved=measured)

    @property
    def expectation(self) -> float:
        """As for noise on all answers: the fit removes most of it; what is not measured is off by a typical amount."""
        pairs, sigma = sum(len(subset) == 2 for subset in self.subsets) or 1, float(self.deviations.max())
        typical = math.sqrt(2 * sigma * math.sqrt(2 * pairs * math.log(self.queries.cells + 1)) / self.queries.count)
        error = min(typical, self.predicted_error.bound)
        return error if self.predicted_error.proved else max(error, INDEPENDENT)

    @cached_property
    def fitting(self) -> FitPlan:
        """Constants of the latent classes, from the number of values and R."""
        cells = sum(math.prod(self.queries.shape[axis] for axis in subset) for subset in self.subsets)
        small = self.relations != "none" and self.raw <= REFIT
        return FitPlan(min(CLASSES, cells), FOLDS, MOST_STEPS, small, small and self.raw < FALLING)

    @property
    def small(self) -> bool:
        """Whether a histogram is fitted: it has relations of three columns better, where it fits and noise is small."""
        return self.queries.cells <= SMALL_CELLS and self.raw <= SMALL_RAW and not self.queries.impossible

    @property
    def steps(self) -> int:
        """Steps of the histogram's fit."""
        return planned_steps(self.measured, float(self.deviations.max()), len(self.subsets))

    @property
    def measured(self) -> Marginals:
        """The measured tables as queries."""
        return Marginals(self.queries.shape, self.subsets)

    def describe(self) -> Mapping[str, Any]:
        listed: dict[str, list[list[int]]] = {}
        for subset, (label, _, _) in zip(self.subsets, self.noises, strict=True):
            listed.setdefault(label, []).append(list(subset))
        found = {"law": self.law, "relations": self.relations, "share_of_columns": self.share, "measured": listed}
        guess = {"raw_total_variation": self.raw, "expected_total_variation": self.expected_variation}
        model = {"model": "histogram" if self.small else "latent classes"}
        fitting = {"steps": self.steps} if self.small else {**vars(self.fitting)}
        return {**found, **guess, **model, "fit": fitting}

    def clip_records(self, records: AnyArray) -> AnyArray:
        return self.queries.codes(records)

    def _run(self, records: AnyArray, source: BitSource, ledger: Ledger) -> Answered:
        tables = self.release(records, source, ledger)  # from here on post-processing: records are not read again
        return self.fitted(tables)

    def release(self, codes: AnyArray, source: BitSource, ledger: Ledger) -> ReleasedTables:
        """Count every table of records (n, columns), and return the counts with noise, as shares."""
        noisy, shape = [], self.queries.shape
        for subset, (label, mechanism, _) in zip(self.subsets, self.noises, strict=True):
            sides = [shape[axis] for axis in subset]
            cells = np.ravel_multi_index([codes[:, axis] for axis in subset], sides)
            counts = np.bincount(cells, minlength=math.prod(sides))
            noisy.append(mechanism.release(counts, label, source, ledger).reshape(sides) / self.n)
        return ReleasedTables(shape, self.n, self.subsets, tuple(noisy), self.scales, self.law)

    def fitted(self, tables: ReleasedTables) -> Answered:
        """Return model and answers, functions of released numbers and public facts alone."""
        model = self._histogram(tables) if self.small else fit(tables, self.fitting, self.queries.impossible)
        answers = [model.marginal(subset).ravel() for subset in self.queries.subsets]
        return model, np.concatenate(answers), tables

    def _histogram(self, tables: ReleasedTables) -> ReleasedModel:
        weights = [1 / tables.variance(table) for table in range(len(self.subsets))]
        times = {table: weight / max(weights) for table, weight in enumerate(weights)}
        targets = {table: noisy.ravel() for table, noisy in enumerate(tables.noisy)}
        uniform = np.full(self.queries.cells, 1 / self.queries.cells)
        return Histogram(self.queries.shape, fit_histogram(self.measured, targets, times, uniform, self.steps))


@recorded("noisy_tables")
def plan(
    queries: LinearQueries,
    n: int,
    privacy: PrivacyParams,
    *,
    relations: str = "auto",
    share: float = SHARE,
) -> NoisyTablesPlan:
    """Plan noise on the tables of columns and of pairs of columns.

    `relations` says which pairs: ``"all"`` that the queries list, those with the column ``queries.center``, or
    ``"none"``; ``"auto"`` goes from the first to the last until the noise is small enough. `share` is that of the
    columns' own tables in the budget.
    """
    check_relation(privacy)
    _validate.records("n", n)
    _check_queries(queries)
    _validate.choice("relations", relations, RELATIONS)
    _validate.real("share", share, above=0.0, below=1.0)
    kinds = RELATIONS[1:] if relations == "auto" else (relations,)
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-9) if privacy.delta else 0.0
    found: list[NoisyTablesPlan] = []
    for kind in kinds:
        subsets = _measured(queries, kind)
        if kind == "center" and queries.center is None:
            continue
        laws = [("laplace", 0.0), *([("gaussian", mu)] if mu else [])]
        plans = [NoisyTablesPlan(queries, n, privacy, subsets, kind, law, share, m) for law, m in laws]
        found.append(min(plans, key=lambda each: each.raw))
        if found[-1].raw <= MOST_RAW.get(kind, math.inf):
            break
    if not found:
        raise InvalidParameterError("center", None, "must be a column for relations='center'", "Name one")
    return found[-1]


def _measured(queries: LinearQueries, kind: str) -> Tables:
    """Return the tables of all columns with two values or more, and those pairs of them that a kind measures."""
    columns = [axis for axis, size in enumerate(queries.shape) if size > 1]
    wanted = {subset for subset in queries.subsets if len(subset) == 2}
    pairs = [pair for pair in combinations(columns, 2) if pair in wanted and (kind == "all" or queries.center in pair)]
    return (*((axis,) for axis in columns), *(pairs if kind != "none" else ()))


def _check_queries(queries: LinearQueries) -> None:
    shape = queries.shape
    if not queries.subsets or max(map(len, queries.subsets)) > 2:
        what = "must be marginal tables of one or two columns for this algorithm"
        raise InvalidParameterError("queries", queries.count, what, "Use order=2, or algorithm='query_noise'")
    cells = sum(math.prod(shape[axis] for axis in subset) for subset in queries.subsets)
    widest = sorted(range(len(shape)), key=lambda axis: -shape[axis])[:3]
    remedy = "Use fewer columns or bins; most values have columns " + ", ".join(f"{i} ({shape[i]})" for i in widest)
    for name, size, most in (
        ("columns", len(shape), MOST_COLUMNS),
        ("values of all columns", sum(shape), MOST_VALUES),
        ("cells of all tables", cells, MOST_CELLS),
    ):
        if size > most:
            raise InvalidParameterError(name, size, f"must be at most {most}", remedy)
    if max(shape) < 2:
        raise InvalidParameterError("queries.shape", shape, "must have a column with two values or more", "")
