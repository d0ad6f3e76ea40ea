r"""Every table of one and two columns with exact noise, and one model of all of them: the default for marginals.

Listing
    Count the tables; add discrete Laplace noise (delta = 0) or discrete Gaussian noise to every cell, the scale of each
    table fixed from public facts, or one noise to all tables at once (`matrix_tables`), whichever is smaller; fit
    latent classes (`latent_classes`), or a histogram if both it and the noise are small. Counting is the only step that
    reads records; no choice depends on them. R below is the mean total variation that noise alone adds to a pair.
Guarantee
    Pure epsilon, or (epsilon, delta), for neighbors that replace one record or all records of one user, or add or
    remove one record (`DISTANCES`).
Lemma
    A replaced record moves one unit between two cells of each table, of all tables at once if it differs everywhere: a
    distance of 2 in l1, of the root of 2 in l2. So Laplace scales ``b_A`` cost ``epsilon = sum 2/b_A``, and deviations
    ``sigma_A`` cost one Gaussian of ``mu^2 = sum 2/sigma_A^2``; both are attained. Mechanisms add the rounding to their
    grids. An added or removed record moves one cell of each table by 1, which is 1 in either norm, so the costs are
    ``sum 1/b_A`` and ``sum 1/sigma_A^2``, attained by every record, in both directions. Counts are integers, on the
    grid, for any number n of records. Then n is private: shares are noisy counts over `ReleasedTotal`, a function of
    the noisy counts, and everything else is planned for a declared number.
Users
    Each of a user's m records counts ``1/m`` in every table, rounded down to a public power of two: the user's table t
    is a function of that user's records alone, with no coins and no place among the others, not negative, of sum at
    most 1. Replaced by t' of any number of records: ``||t - t'||_1 <= ||t||_1 + ||t'||_1 <= 2``, and as no entry is
    negative ``||t - t'||_2^2 <= ||t||_2^2 + ||t'||_2^2 <= 2``, in all tables at once: the Lemma's constants. Sums are
    exact whatever their order (`users.exact_weights`): a float sum that rounds would let one user move others' parts.
    n counts users; shares are means over users of the shares of their own records.
Allocation
    One-way tables get a share h of the budget (epsilon or mu^2). Among tables of one kind it is split in proportion to
    the cube root of the cells, rounded to powers of ``2^(1/4)`` so that few scales, hence few ledger entries, exist.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.algorithms import PredictedError, recorded
from dpconvex.algorithms.queries import base
from dpconvex.algorithms.queries.latent_classes import FitPlan, fit
from dpconvex.algorithms.queries.matrix_tables import LABEL, LARGEST, LARGEST_GAUSSIAN, MatrixTables
from dpconvex.algorithms.queries.released_tables import Histogram, ReleasedTables, ReleasedTotal
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism, Planned
from dpconvex.mechanisms.gaussian import INFLATION
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Release, Sensitivity, Unit
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta
from dpconvex.problems.data.sources.rows import totals
from dpconvex.problems.data.summation import Parts
from dpconvex.problems.queries import LinearQueries, Marginals
from dpconvex.randomness import BitSource

LEMMA = "replacing a record moves one unit between two cells of the table: 2 in l1, the root of 2 in l2"
ADDED_LEMMA = "adding or removing a record moves one cell of the table by 1: 1 in l1 and in l2"
USER_LEMMA = "a user's records weigh at most 1 together in the table, so replacing all of them moves it as one record"
DISTANCES = {
    Neighboring.REPLACE_ONE: {"l1": (2.0, LEMMA), "l2": (_rounding.widen_up(math.sqrt(2.0)), LEMMA)},
    Neighboring.ADD_OR_REMOVE_ONE: {"l1": (1.0, ADDED_LEMMA), "l2": (1.0, ADDED_LEMMA)},
}
SHARE = 0.1  # share h of the budget for the one-way tables (benchmarks/whole_tables.py)
INDEPENDENT = 0.1  # typical mean total variation of independent columns; on benchmark tables it is 0.08 to 0.22
REFIT, FALLING, AGAIN = 0.15, 0.01, 0.04
"""Thresholds of R: up to `REFIT` a fit uses all cells; below `FALLING` its learning rate also falls at the end; above
`AGAIN` the model is fitted once more after Laplace noise."""
SMALL_CELLS, SMALL_RAW = 2**20, 0.02  # up to this number of combinations and this R, a histogram is fitted
SLOWER = 4  # times the steps of tables of equal noise: those with more noise have less weight (table_choices.py steps)
PAYS = 2 / 3  # largest R of Gaussian matrix noise, over that of separate noise (benchmarks/table_choices.py one-noise)
LARGE, CAUTION = 0.7, 1.2  # from R = LARGE, all pairs' error counts CAUTION times, else over it (there: relations)
MANY = 16  #: From this number of columns on, pairs of groups are tried, and a forest holds too few of all pairs.
CLASSES, FOLDS, MOST_STEPS, FIXED = 200, 5, 3000, (3, 3000)  # of fits; FIXED: folds and steps of those of fixed length
RELATIONS, NOISES = ("auto", "all", "none"), ("auto", "tables", "matrix")
Tables = tuple[tuple[int, ...], ...]

EXPECTED: dict[str, dict[str, tuple[float, float, float, float, float]]] = {
    "laplace": {
        "all": (0, 1.11, 0.572, 0.176, 0),
        "none": (0.048, 0.88, 0.827, 0, 1.45),
        "tree": (0.011, 1.44, 0.827, 0, 0.82),
    },
    "matrix": {"all": (0, 0.81, 0.528, 0.176, 0)},
    "joint gaussian": {"all": (0, 1.03, 0.745, 0, 0)},
    "gaussian": {
        "all": (0, 1.11, 0.745, 0, 0),
        "none": (0.041, 0.76, 0.774, 0, 1.66),
        "tree": (0.007, 0.98, 0.774, 0, 0.94),
    },
}
"""By law and relations: (relations, scale, power, other, chance). The expected mean total variation of two-way tables,
a guess, is the root of the sum of the squares of `relations` (what unmeasured relations are worth), of ``scale r^power
R^other``, and of chance times `by_chance`. r is `alone`, the variation that noise would add to tables of columns if
they got the whole budget. It predicts better than R, of which a fit removes more the more pairs there are. Fitted to
learning tables, each judged by the fit to the others (benchmarks/table_choices.py relations)."""


def by_chance(shape: Sequence[int], n: int) -> float:
    """Return the mean total variation between pairs and products of columns for n records whose columns are unrelated.

    It follows from sizes alone. No model without pairs comes nearer, and a model with few pairs not by much.
    """
    free = np.array([size - 1.0 for size in shape if size > 1])
    each = np.minimum(0.4 * np.sqrt(np.outer(free, free) / n), 1.0)  # half of the mean of a normal number's size
    return float(each[np.triu_indices(len(free), 1)].mean()) if len(free) > 1 else 0.0


def expected_variation(queries: LinearQueries, n: int, law: str, kind: str, noise: float, raw: float = 1.0) -> float:
    """Return the expected total variation (`EXPECTED`) for all pairs, no pair or a forest ("all", "none" or "tree").

    It is increasing and below 1, so that plans remain ordered even where noise hides everything.
    """
    relations, scale, power, other, chance = EXPECTED[law][kind]
    known = scale * noise**power * raw**other
    return below_one(math.hypot(relations, known, chance * by_chance(queries.shape, n) if chance else 0.0))


def below_one(expected: float) -> float:
    """Return an expectation as it is up to one half, and an increasing function of it below 1 above that."""
    return expected if expected <= 0.5 else 1 - 0.25 / expected


@final_dataclass
class NoisyTablesPlan(base.QueryReleasePlan):
    """Public constants of one release of noisy tables."""

    subsets: Tables  #: columns of the measured tables: all single columns, then the pairs
    relations: str  #: which pairs are measured: "all" or "none"
    law: str  #: law of the noise: "laplace", "gaussian", or "matrix", a pure noise on all tables at once
    mu: float  #: budget of Gaussian noise; 0 for pure noise
    joint: bool = False  #: whether one noise is added to all tables as one matrix
    title: str = "tables"  #: the ledger's name for the tables
    shares: tuple[float, float] | None = None  #: budget of single columns and of pairs; None: everything, by `SHARE`
    algorithm = "noisy_tables"
    preferred = True
    neighbors: ClassVar[tuple[Neighboring, ...]] = tuple(DISTANCES)
    noise_name = forwarded("law")

    @property
    def theorem(self) -> str:
        if self.joint:
            moved = "nuclear norm moves by twice a record's" if not self.mu else "entries move by an l2 distance"
            return f"One noise on the matrix of all tables: its {moved} (Lemma)."
        return "Independent noise on every table of counts: the sum of their costs, attained (Lemma)."

    @cached_property
    def noises(self) -> tuple[tuple[str, Mechanism[Floats], float], ...]:
        """For each table: ledger label, which tables of one scale share; noise; deviation of the noise of a share."""
        if self.joint:
            return tuple((LABEL, self._matrix.mechanism, each / self.n) for each in self._matrix.noises[:, 1].tolist())
        sizes, found = [math.prod(self.queries.shape[axis] for axis in subset) for subset in self.subsets], []
        keys = [(len(subset), round(4 / 3 * math.log2(size))) for subset, size in zip(self.subsets, sizes, strict=True)]
        totals = {order: math.fsum(2 ** (k / 4) for o, k in keys if o == order) for order in {o for o, _ in keys}}
        usual = {1: SHARE, 2: 1 - SHARE} if 2 in totals else {1: 1.0}
        orders = usual if self.shares is None else dict(enumerate(self.shares, start=1))
        noise = cache(partial(table_noise, self.law, self.privacy, self.mu, n=self.n))  # thousands of tables, few kinds
        for (order, key), size in zip(keys, sizes, strict=True):
            part = orders[order] * 2 ** (key / 4) / totals[order]
            found.append((f"{order}-way {self.title}, scale class {key}", *noise(part, size)))
        return tuple(found)

    @cached_property
    def _matrix(self) -> MatrixTables:
        return MatrixTables(tuple(size for size in self.queries.shape if size > 1), self.n, self.privacy, self.mu)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {label: mechanism for label, mechanism, _ in self.noises}

    @property
    def releases(self) -> tuple[Release, ...]:
        times = Counter(label for label, _, _ in self.noises) if not self.joint else {LABEL: 1}
        return tuple(replace(each, times=times[each.label]) for each in super().releases)

    @cached_property
    def raw(self) -> float:
        """R: the mean total variation that noise alone adds to the measured pairs, or to columns if there are none."""
        return self._added(float)

    @property
    def net(self) -> float:
        """R of what pairs say beyond their columns: the part of independent noise that no model of tables removes."""
        return self._added(lambda size: math.sqrt(size * (size - 1)))

    def _added(self, of_size: Callable[[int], float]) -> float:
        shape, order = self.queries.shape, max(map(len, self.subsets))
        rows = [(s, each[2]) for s, each in zip(self.subsets, self.noises, strict=True) if len(s) == order]
        return added(self.law, [math.prod(of_size(shape[axis]) for axis in s) * noise for s, noise in rows])

    @property
    def expected_variation(self) -> float:
        """The expected mean total variation of two-way tables: a guess of the order of magnitude (`EXPECTED`)."""
        law = f"joint {self.law}" if self.joint and self.mu else self.law
        found = expected_variation(self.queries, self.n, law, self.relations, self.alone, self.raw)
        return found if self.relations == "none" else min(found, self.raw)  # noisy tables without a fit have R

    @cached_property
    def alone(self) -> float:
        """The mean total variation that noise would add to tables of columns if they got the whole budget."""
        sizes = [size for size in self.queries.shape if size > 1]
        total, facts = math.fsum(size ** (1 / 3) for size in sizes), (self.law, self.privacy, self.mu)
        return added(self.law, [k * table_noise(*facts, k ** (1 / 3) / total, k, self.n)[1] for k in sizes])

    @property
    def ranked(self) -> float:
        """The expected error; for all pairs times `CAUTION` where R is large, since they lose most there, else over it.

        Where R is small, all pairs have a better worst pair at the same mean error, and predict a target better.
        """
        if self.relations == "none":
            return self.expected_variation
        return self.expected_variation * (CAUTION if self.raw >= LARGE else 1 / CAUTION)

    @property
    def _asked(self) -> tuple[float, bool]:
        """Largest noise deviation among the requested tables, and whether all requested tables are measured."""
        asked = set(self.queries.subsets) & set(self.subsets) or set(self.subsets)
        noise = max(each[2] for s, each in zip(self.subsets, self.noises, strict=True) if s in asked)
        return noise, set(self.queries.subsets) <= set(self.subsets)

    @property
    def predicted_error(self) -> PredictedError:
        """The largest noise of a cell, plus a typical amount unless all requested tables are measured."""
        (noise, measured), count = self._asked, self.queries.count
        tail = (1 + math.log(count)) / math.sqrt(2) if self.law == "laplace" else math.sqrt(2 * math.log(2 * count))
        bound = noise * tail + (0 if measured else INDEPENDENT)
        proved = measured and self.law != "matrix"
        return PredictedError(bound, 1.0, "largest of the noise variables, before the fit", proved=proved)

    @property
    def expectation(self) -> float:
        """What the fit leaves of the noise; at least `INDEPENDENT` if some requested table is not measured."""
        noise, measured = self._asked
        error = min(base.noise_left(self.queries, noise), self.predicted_error.bound)
        return error if measured else max(error, INDEPENDENT)

    @cached_property
    def fitting(self) -> FitPlan:
        """Constants of the fit of latent classes, from the number of cells and R."""
        cells = sum(math.prod(self.queries.shape[axis] for axis in subset) for subset in self.subsets)
        low = self.relations != "none" and self.raw <= REFIT
        again = int(self.law == "laplace" and self.raw > AGAIN)
        # A matrix has few coordinates to leave out, and these tell little where noise is small.
        fixed = low and self.joint and self.raw < (FALLING if self.mu else AGAIN)
        falling, (folds, most) = fixed or (low and self.raw < FALLING), FIXED if fixed else (FOLDS, MOST_STEPS)
        return FitPlan(min(CLASSES, cells), folds, most, low, falling, again, fixed)

    @cached_property
    def steps(self) -> int:
        """Steps of a histogram's fit, or 0 for latent classes, which model relations of three columns less well."""
        if self.queries.cells > SMALL_CELLS or self.raw > SMALL_RAW or self.queries.impossible:
            return 0
        measured, noise = Marginals(self.queries.shape, self.subsets), self._asked[0]
        return base.planned_steps(measured, noise, len(self.subsets), SLOWER)

    def describe(self) -> Mapping[str, Any]:
        listed: dict[str, list[list[int]]] = {}
        for subset, (label, _, _) in zip(self.subsets, self.noises, strict=True):
            listed.setdefault(label, []).append(list(subset))
        found = {"law": self.law, "relations": self.relations, "share_of_columns": SHARE, "measured": listed}
        found |= {"impossible": [list(map(list, pair)) for pair in self.queries.impossible]}
        found |= {"raw_total_variation": self.raw, "expected_total_variation": self.expected_variation}
        return found | ({"histogram_steps": self.steps} if self.steps else {"latent_classes": vars(self.fitting)})

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> base.Answered:
        return self.fitted(self.release(records, source, ledger, weights))

    def release(self, codes: Any, source: BitSource, ledger: Ledger, weights: Floats | None = None) -> ReleasedTables:
        """Count every table of records (n, columns), and return the noisy counts as shares."""
        shape, cells = self.queries.shape, self.queries.codes
        sides = [[shape[axis] for axis in subset] for subset in self.subsets]
        counted = totals(codes, codes, lambda X, _, w=None: table_counts(cells(X), shape, self.subsets, w), weights)
        each = zip(sides, self.noises, counted, strict=True)
        if self.joint:
            noisy = self._matrix.release(counted, source, ledger)
        else:
            noisy = [noise.release(c, label, source, ledger).reshape(k) for k, (label, noise, _), c in each]
        deviations = [deviation * self.n for _, _, deviation in self.noises]
        total = None if self.privacy.neighboring.fixes_size else ReleasedTotal.of(noisy, deviations, self.law)
        n = self.n if total is None else total.value  # never the private number of records read
        shares, spread = tuple(table / n for table in noisy), tuple(deviation / n for deviation in deviations)
        inner = () if not self.joint else tuple((self._matrix.noises[:, 0] / n).tolist())
        return ReleasedTables(shape, self.subsets, shares, spread, self.law, coordinates=inner, total=total)

    def fitted(self, tables: ReleasedTables) -> base.Answered:
        """Return model, answers and tables, as functions of released numbers and public facts alone."""
        if self.steps:
            queries = Marginals(self.queries.shape, self.subsets)
            targets = {table: noisy.ravel() for table, noisy in enumerate(tables.noisy)}
            times = {table: (min(tables.deviations) / noise) ** 2 for table, noise in enumerate(tables.deviations)}
            uniform = np.full(queries.cells, 1 / queries.cells)
            model = Histogram(queries.shape, base.fit_histogram(queries, targets, times, uniform, self.steps))
        else:
            model = fit(tables, self.fitting, self.queries.impossible)
        return model, model.answers(self.queries.subsets), tables


def table_noise(
    law: str, privacy: PrivacyParams, mu: float, part: float, size: int, n: int
) -> tuple[Mechanism[Floats], float]:
    """Return the noise of a table of `size` cells that costs this part of the budget, and its deviation in a share."""
    # Both mechanisms enlarge the sensitivity for their grids, so no scale is computed from the budget by hand.
    part *= 1 - 1e-12
    norm = "l2" if law == "gaussian" else "l1"
    moved, lemma = DISTANCES[privacy.neighboring][norm]
    lemma = USER_LEMMA if privacy.unit == Unit.USER else lemma
    sensitivity = Sensitivity(moved, norm, lemma, privacy.neighboring, privacy.unit)
    if law != "gaussian":
        laplace = LaplaceMechanism.calibrate(sensitivity, privacy.epsilon * part, size)
        return laplace, math.sqrt(2) * laplace.scale / n
    gaussian = GaussianMechanism.of_mu(sensitivity, mu * math.sqrt(part) * (1 - 1e-12), size)
    return gaussian, gaussian.sigma * INFLATION / n


def part_of(privacy: PrivacyParams, law: str, share: float) -> PrivacyParams | None:
    """Return the promise of a share of epsilon, or of mu^2 at the same delta; None where delta alone covers it."""
    if law != "gaussian":
        return replace(privacy, epsilon=_rounding.product_down(privacy.epsilon, share), delta=0.0)
    mu = base.mu_of(privacy) * math.sqrt(share)
    epsilon = epsilon_of(lambda epsilon: gaussian_delta(epsilon, mu), privacy.delta)
    return replace(privacy, epsilon=epsilon) if epsilon else None


def added(law: str, sums: Sequence[float]) -> float:
    """Return the mean total variation that noise adds to tables, from each table's sum of deviations over cells."""
    return math.sqrt(0.5 if law == "laplace" else 2 / math.pi) / 2 * math.fsum(sums) / len(sums)


def table_counts(codes: Array, shape: tuple[int, ...], subsets: Tables, weights: Floats | None = None) -> Parts:
    """Return the counts, or sums of records' weights (n,), in every table, from values of all columns (n, columns)."""
    columns, sides = codes.T, ([shape[axis] for axis in subset] for subset in subsets)
    pairs = zip(subsets, sides, strict=True)  # lazily: only one table's cells are in memory at a time
    cells = ((np.ravel_multi_index([columns[axis] for axis in s], size), math.prod(size)) for s, size in pairs)
    return tuple(np.bincount(each, weights, count) for each, count in cells)


@recorded("noisy_tables")
def plan(
    queries: LinearQueries, n: int, privacy: PrivacyParams, *, relations: str = "auto", noise: str = "auto"
) -> NoisyTablesPlan:
    """Plan noise on the tables of columns and of pairs of columns.

    `relations` says which pairs are measured: ``"all"`` that the queries list, ``"none"``, or by ``"auto"`` the choice
    with the smaller expected error. `noise` is separate for each table (``"tables"``) or one for all (``"matrix"``, for
    replaced units and all pairs; with a delta no pair may be impossible); ``"auto"`` takes the smaller noise.
    """
    base.check_tables(queries, n, privacy, NoisyTablesPlan.neighbors)
    shape = queries.shape
    _validate.choice("relations", relations, RELATIONS)
    _validate.choice("noise", noise, NOISES)
    mu = base.mu_of(privacy)
    columns = [axis for axis, size in enumerate(shape) if size > 1]
    listed = [pair for pair in queries.subsets if len(pair) == 2 and set(pair) <= set(columns)]
    rows, every = 1 + sum(shape) - len(shape), listed == [*combinations(columns, 2)] != []  # as the matrix has them
    most = LARGEST_GAUSSIAN if mu else LARGEST
    fits = every and privacy.neighboring.fixes_size and not (mu and queries.impossible) and rows <= most
    if noise == "matrix" and not fits:
        what = f"needs replaced units, all pairs once and in order, none impossible with a delta, at most {most} values"
        raise InvalidParameterError("noise", noise, what, "Use noise='auto'")
    found: list[NoisyTablesPlan] = []
    for kind in ("all", "none") if relations == "auto" else (relations,):
        subsets = (*((axis,) for axis in columns), *(listed if kind == "all" else ()))
        laws = (("laplace", 0.0), *((("gaussian", mu),) if mu else ()))
        plans = [NoisyTablesPlan(queries, n, privacy, subsets, kind, law, m) for law, m in laws]
        found.append(min(plans, key=lambda each: each.raw))
        if kind == "all" and noise != "tables" and fits:
            laws = (*((("matrix", 0.0),) if rows <= LARGEST else ()), *laws[1:])
            plans = [NoisyTablesPlan(queries, n, privacy, subsets, kind, law, m, True) for law, m in laws]
            joint, apart = min(plans, key=lambda each: each.raw), found[-1]
            limit = apart.net if joint.law == "matrix" else PAYS * apart.raw
            found[-1] = joint if noise == "matrix" or joint.raw < limit else apart
    return min(found, key=lambda each: each.ranked)
