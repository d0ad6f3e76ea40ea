r"""A few tables: every column, a target (the center) with every column, and a forest of pairs that is chosen privately.

Where noise on the tables of all pairs of columns would hide them, fewer tables with less noise say more.

Listing
    1. Release noisy tables of each column and, with a center of few values, of the center with each other column.
    2. Score every other pair by half the l1 distance of its table to the prediction of step 1 (columns independent,
       given the center), less what the noise of step 3 would add to it. Choose k pairs one by one, among those that
       join two parts of the forest, by permute-and-flip (delta = 0) or the exponential mechanism. 3. Measure each with
       noise. 4. Fit a Markov tree to all measured tables (`markov_tree`): post-processing.
Guarantee
    Pure epsilon, or (epsilon, delta), for neighbors that replace one record, or all records of one user.
Lemmas
    Tables: as in `noisy_tables`, for users too, a unit moves each table by 2 in l1, the root of 2 in l2. Score: M, the
    model of step 1, is a function of released numbers, so given M, ``|half ||T - n M||_1 - half ||T' - n M||_1| <= half
    ||T - T'||_1 <= 1``, and what is subtracted is public. These are adaptive uses of fixed mechanisms: pure epsilons
    add up; Gaussians, and the Gaussians that cover draws of bounded range (`BoundedRange`), compose by their squares.
    Scales depend on the round alone, never on which pair was chosen, so the ledger is complete before records are read.
Assumptions
    The number k and all shares follow from public facts. Every round has candidates: k is at most the size of a
    spanning forest of the public graph of listed pairs, and every forest can be extended to a spanning forest.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import log_ndtr

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.algorithms import PredictedError, in_units, recorded
from dpconvex.algorithms.queries import markov_tree, noisy_tables
from dpconvex.algorithms.queries.base import Answered, QueryReleasePlan, check_tables
from dpconvex.algorithms.queries.released_tables import ReleasedTables
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import ExponentialMechanism, Mechanism, Planned, ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.problems.data.sources.rows import totals
from dpconvex.problems.queries import LinearQueries
from dpconvex.randomness import BitSource

SCORE_LEMMA = "replacing a record moves half the l1 distance of a table to a released one by at most 1, plus rounding"
CHOSEN, MEASURED = "next pair of the forest", "table of a chosen pair"


@final_dataclass
class Tuning:
    """Public rules, chosen on learning tables (benchmarks/table_choices.py forests); noise is measured by `alone`."""

    falling: float = 0.013  #: this over the noise is the share of a spanning forest's pairs that are measured
    most: float = 0.75  #: largest such share if the center's tables are measured
    selection: float = 0.05  #: share of the budget for choosing pairs; at most a third of what other tables leave
    center: int = 6  #: largest number of values of a center whose tables with all columns are measured by default
    center_noise: float = 0.015  #: largest noise at which the center's tables are measured by default
    #: Budget share of columns' tables without a center: the first less the second times the measured share of pairs.
    columns: tuple[float, float] = (0.9, 0.4)
    with_center: tuple[float, float] = (0.35, 0.3)  #: budget shares of columns' tables and of the center's tables


TUNING = Tuning()


@final_dataclass
class NoisyTreePlan(QueryReleasePlan):
    """Public constants of one release."""

    center: int | None  #: the column whose tables with all others are measured, if there is one
    pairs: int  #: number k of chosen pairs
    shares: tuple[float, float, float]  #: budget of columns, the center's tables and choosing; the rest: chosen pairs
    law: str  #: law of the noise: "laplace" or "gaussian"
    mu: float  #: budget of Gaussian noise; 0 for Laplace noise
    alone: float  #: mean total variation that noise would add to tables of columns if they got the whole budget
    algorithm = "noisy_tree"
    preferred = True
    theorem = "Independent noise on tables, some of them chosen by bounded scores: the sum of their costs (Lemmas)."
    noise_name = forwarded("law")

    @cached_property
    def fixed(self) -> noisy_tables.NoisyTablesPlan:
        """The tables measured for all data: their columns, and the noise of each."""
        columns = [axis for axis, size in enumerate(self.queries.shape) if size > 1]
        subsets: list[tuple[int, ...]] = [(axis,) for axis in columns]
        if self.center is not None:
            subsets += [(min(axis, self.center), max(axis, self.center)) for axis in columns if axis != self.center]
        facts = self.queries, self.n, self.privacy, tuple(subsets), "none", self.law, self.mu
        return noisy_tables.NoisyTablesPlan(*facts, shares=self.shares[:2])

    @cached_property
    def candidates(self) -> tuple[tuple[int, int], ...]:
        """The pairs among which some are chosen: requested pairs of columns with at least two values each."""
        shape = self.queries.shape
        pairs = [(s[0], s[1]) for s in self.queries.subsets if len(s) == 2 and min(shape[s[0]], shape[s[1]]) > 1]
        return tuple(pair for pair in pairs if self.center not in pair)

    def measured(self, pair: tuple[int, ...]) -> tuple[Mechanism[Floats], float]:
        """Return the noise of a chosen pair's table, whose scale is the same for all, and its deviation in a share."""
        part, size = (1 - sum(self.shares)) / self.pairs, markov_tree.cells_of(self.queries.shape, pair)
        return noisy_tables.table_noise(self.law, self.privacy, self.mu, part, size, self.n)

    @cached_property
    def choice(self) -> Mechanism[int]:
        """The mechanism of each of the k draws of a pair."""
        cells = max(markov_tree.cells_of(self.queries.shape, pair) for pair in self.candidates)
        off = (cells + 8) * 2.0**-50 * self.n  # rounding of a computed score, on either data set
        value, lemma = _rounding.sum_up((1.0, 2 * off)), in_units(SCORE_LEMMA, self.privacy)
        sensitivity = Sensitivity(value, "linf", lemma, unit=self.privacy.unit)
        if self.law == "laplace":
            return ReportNoisyMax(sensitivity, self.privacy.epsilon * self.shares[2] / self.pairs * (1 - 1e-12))
        half = self.mu * math.sqrt(self.shares[2] / self.pairs) / 2
        epsilon = 2 * float(log_ndtr(half) - log_ndtr(-half)) * (1 - 1e-6)  # its covering Gaussian has mu = 2 half
        return ExponentialMechanism(sensitivity, epsilon)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        chosen = {CHOSEN: self.choice, MEASURED: self.measured(self.candidates[0])[0]} if self.pairs else {}
        return {**self.fixed.mechanisms, **chosen}

    @property
    def releases(self) -> tuple[Release, ...]:
        times = Counter({CHOSEN: self.pairs, MEASURED: self.pairs})
        times.update(label for label, _, _ in self.fixed.noises)
        return tuple(replace(each, times=times[each.label]) for each in super().releases)

    @cached_property
    def raw(self) -> float:
        """The mean total variation that noise alone adds to a chosen pair's table."""
        sums = [self.measured(pair)[1] * markov_tree.cells_of(self.queries.shape, pair) for pair in self.candidates]
        return noisy_tables.added(self.law, sums)

    @property
    def expected_variation(self) -> float:
        """The expected mean total variation of two-way tables: a guess of the order of magnitude."""
        return noisy_tables.expected_variation(self.queries, self.n, self.law, "tree", self.alone)

    @property
    def ranked(self) -> float:
        """The expected error, times `CAUTION` for many columns: a forest has few of their pairs, groups have all."""
        many = len([size for size in self.queries.shape if size > 1]) >= noisy_tables.MANY
        return self.expected_variation * (noisy_tables.CAUTION if many else 1.0)

    @property
    def predicted_error(self) -> PredictedError:
        """The largest noise of a cell plus a typical amount for pairs that are not measured; no bound is proved."""
        noise, count = max(deviation for *_, deviation in self.fixed.noises), 2 * self.queries.count
        tail = math.log(count) / math.sqrt(2) if self.law == "laplace" else math.sqrt(2 * math.log(count))
        what = "largest of the noise variables, and of tables that are not measured"
        return PredictedError(noise * tail + noisy_tables.INDEPENDENT, 1.0, what, proved=False)

    @property
    def expectation(self) -> float:
        return min(self.predicted_error.bound, noisy_tables.INDEPENDENT + max(each[-1] for each in self.fixed.noises))

    def describe(self) -> Mapping[str, Any]:
        fixed = self.fixed.describe()
        found = {"law": self.law, "relations": "forest", "center": self.center, "chosen_pairs": self.pairs}
        found |= {name: fixed[name] for name in ("measured", "impossible")}
        shares = dict(zip(("columns", "center", "choosing"), self.shares, strict=True))
        return found | {"shares": shares, "expected_total_variation": self.expected_variation}

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> Answered:
        return self.fitted(self.release(records, source, ledger, weights))

    def release(self, codes: Any, source: BitSource, ledger: Ledger, weights: Floats | None = None) -> ReleasedTables:
        """Count, add noise, choose pairs and measure them; return the noisy counts as shares."""
        shape, noises, known = self.queries.shape, self.fixed.noises, [*self.fixed.subsets]
        subsets = (*known, *(self.candidates if self.pairs else ()))
        count, cells = noisy_tables.table_counts, self.queries.codes
        found = totals(codes, codes, lambda X, _, w=None: count(cells(X), shape, subsets, w), weights)
        counted = dict(zip(subsets, found, strict=True))

        def measure(subset: tuple[int, ...], label: str, noise: Mechanism[Floats]) -> Floats:
            sides = [shape[axis] for axis in subset]
            return noise.release(counted[subset], label, source, ledger).reshape(sides) / self.n

        noisy = [measure(subset, label, noise) for subset, (label, noise, _) in zip(known, noises, strict=True)]
        deviations = [deviation for *_, deviation in noises]
        found = ReleasedTables(shape, tuple(known), tuple(noisy), tuple(deviations), self.law)
        scores, parts = self._scores(counted, found), {axis: axis for pair in self.candidates for axis in pair}
        for _ in range(self.pairs):
            open_ = [pair for pair in self.candidates if parts[pair[0]] != parts[pair[1]]]
            pair = open_[self.choice.release(np.array([scores[pair] for pair in open_]), CHOSEN, source, ledger)]
            noise, deviation = self.measured(pair)
            noisy.append(measure(pair, MEASURED, noise))
            known.append(pair)
            deviations.append(deviation)
            parts = {axis: parts[pair[0]] if part == parts[pair[1]] else part for axis, part in parts.items()}
        return ReleasedTables(shape, tuple(known), tuple(noisy), tuple(deviations), self.law, self.pairs)

    def _scores(self, counted: Mapping[tuple[int, ...], Array], tables: ReleasedTables) -> dict[tuple[int, int], float]:
        """Return the scores of step 2 by pair; a replaced unit moves each by at most 1 (Lemmas)."""
        found, ratio = {}, math.sqrt(0.5 if self.law == "laplace" else 2 / math.pi)
        with np.errstate(all="ignore"):
            weights, joint = markov_tree.conditionals(tables, self.center)
            given = [part / np.maximum(weights, markov_tree.TINY)[:, None] for part in joint]
            for i, j in self.candidates if self.pairs else ():
                model = np.minimum(np.nan_to_num(given[i].T @ joint[j]), 1.0)
                distance = np.abs(counted[i, j] - self.n * model.ravel()).sum() / 2
                found[i, j] = float(distance) - model.size * self.n * self.measured((i, j))[1] * ratio / 4
        return found

    def fitted(self, tables: ReleasedTables) -> Answered:
        """Return model, answers and tables, as functions of released numbers and public facts alone."""
        model = markov_tree.fit(tables, self.center, self.queries.impossible)
        return model, model.answers(self.queries.subsets), tables


@recorded("noisy_tree")
def plan(
    queries: LinearQueries, n: int, privacy: PrivacyParams, *, pairs: int | None = None, center: bool | None = None
) -> NoisyTreePlan:
    """Plan noise on columns, on the center's tables, and on `pairs` chosen pairs, by default a number from `Tuning`.

    `center` says whether the tables of ``queries.center`` with all columns are measured; by default they are if it has
    few values and the noise is small (`Tuning`).
    """
    check_tables(queries, n, privacy, NoisyTreePlan.neighbors)
    every = noisy_tables.plan(queries, n, privacy, relations="all", noise="tables")
    if center is None:
        few = queries.center is not None and 1 < queries.shape[queries.center] <= TUNING.center
        center = few and every.alone <= TUNING.center_noise
    elif center and (queries.center is None or queries.shape[queries.center] < 2):
        raise InvalidParameterError("center", center, "must be False: queries have no center of two values or more", "")
    axis = queries.center if center else None
    least = NoisyTreePlan(queries, n, privacy, axis, 0, (1.0, 0.0, 0.0), every.law, every.mu, every.alone)
    edges, size = np.array(least.candidates, dtype=np.int64).reshape(-1, 2).T, len(queries.shape)
    graph = coo_array((np.ones(edges.shape[1]), edges), shape=(size, size))
    most = size - int(connected_components(graph, directed=False)[0])  # pairs of a spanning forest
    if most < 1:
        what = "must list two pairs of columns with two values or more, for a choice among them"
        raise InvalidParameterError("queries", queries.count, what, "Use algorithm='noisy_tables'")
    wanted = round(min(TUNING.most if center else 1.0, TUNING.falling / every.alone) * most)
    count = min(most, max(1, wanted if pairs is None else _validate.integer("pairs", pairs, at_least=1)))
    alone = TUNING.columns[0] - TUNING.columns[1] * count / most, 0.0
    columns, star = TUNING.with_center if center else alone
    selection = min(TUNING.selection, (1 - columns - star) / 3)
    return replace(least, pairs=count, shares=(columns, star, selection))
