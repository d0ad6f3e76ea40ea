r"""Tables of all columns, and tables of all pairs of columns whose values were grouped by means of the former.

Where noise hides tables of all values of two columns, tables of a few groups per column still show their relation.

Listing
    1. Release the noisy table of each column. 2. Put its values into the planned number of groups: starting from their
    order, or by falling share if they have none, halve the fullest group again and again. 3. Release the tables of all
    pairs of grouped columns (`noisy_tables`, perhaps with one noise for all tables). 4. Fit latent classes to these
    tables; inside a group a value is independent of all other columns, with the frequencies of step 1.
Guarantee
    Pure epsilon, or (epsilon, delta), for the neighbors of `noisy_tables`: records, users, added records.
Lemma
    Step 1 is a release of tables, with part of the promise. Given what it released, groups are public maps of the
    values of a column, so grouping is a public map of single records: the Lemma of `noisy_tables` holds unchanged for
    the grouped records, for users too, since a record keeps its weight. Numbers of groups, scales and the plan of step
    3 are fixed before records are read, so steps 1 and 3 are an adaptive use of fixed mechanisms: pure epsilons add up,
    and so do the squares of mu of Gaussian noise. Step 4 is post-processing.
Intervals
    Only tables of one column have intervals, from step 1 alone.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, IntArray, final_dataclass, forwarded
from dpconvex.algorithms import PredictedError, recorded
from dpconvex.algorithms.queries import base, latent_classes, noisy_tables
from dpconvex.algorithms.queries.released_tables import ReleasedModel, ReleasedTables, within
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Planned
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Release
from dpconvex.problems.data import ranges
from dpconvex.problems.data.sources.rows import mapped, same
from dpconvex.problems.queries import LinearQueries, Marginals, Zero
from dpconvex.randomness import BitSource

EVEN = 1e-4  #: This share of a column's records is spread evenly over its values, whatever the noisy table holds.
GROUPS, SHARES = (3, 4, 6, 8), (0.2, 0.35, 0.6)  #: What a plan tries: groups per column, and shares of step 1.
NAME = "tables of grouped values"
GAINS = 1.1  #: `auto` prefers all pairs unless their expected error is this many times that of grouped tables.
KEPT = {1: 0.0, 2: 0.5, 3: 0.61, 4: 0.69, 6: 0.81, 8: 0.88, 12: 0.975, 16: 1.0}
"""By number of groups, the share that they keep of the relation of a column of 16 ordered values with other columns.
Unordered values lose twice as much; of more than 16 of them all is lost. Fitted to tables of the corpus's learning
half, without noise (benchmarks/grouped_tables.py --kept)."""
CHANCE = 0.7  #: Weight of `noisy_tables.by_chance` in the expected total variation
EXPECTED = {"laplace": (0.05, 1.0, 0.91, 0.96, 1.1), "gaussian": (0.085, 1.05, 0.97, 0.96, 1.0)}
"""The expected mean total variation of two-way tables, a guess, is the root of the sum of four squares: a weight times
`left_out`; scale times a power of the columns' noise `raw`; scale times a power of what is expected of the pairs of
groups; and `CHANCE` times `noisy_tables.by_chance`. Fitted by benchmarks/grouped_tables.py, too."""


class Released(NamedTuple):
    """What steps 1 to 3 release."""

    columns: ReleasedTables  #: tables of one column each, with all its values
    groups: tuple[IntArray, ...]  #: for each column, the group of each of its values
    pairs: ReleasedTables  #: tables of pairs of columns, with grouped values


@final_dataclass(eq=False)
class GroupedModel(ReleasedModel):
    """A distribution over groups of values; given its group, a value is independent of all other columns."""

    shape: tuple[int, ...]
    of_groups: ReleasedModel
    levels: tuple[Floats, ...]  #: for each column the distribution of its values in each group, (groups, values)
    impossible: tuple[Zero, ...] = ()

    def _marginal(self, axes: tuple[int, ...]) -> Floats:
        table = self.of_groups.marginal(axes)
        for place, axis in enumerate(axes):
            table = np.moveaxis(np.tensordot(table, self.levels[axis], (place, 0)), -1, place)
        return table

    def _sample(self, size: int, generator: np.random.Generator) -> Array:
        drawn = self.of_groups.sample(size, generator)
        return np.column_stack([within(drawn[:, k], part, generator) for k, part in enumerate(self.levels)])


@final_dataclass
class GroupedTablesPlan(base.QueryReleasePlan):
    """Public constants of one release of grouped tables."""

    columns: noisy_tables.NoisyTablesPlan  #: plan of step 1: tables of single columns
    pairs: noisy_tables.NoisyTablesPlan  #: plan of step 3: all pairs of columns with grouped values
    share: float  #: share of epsilon, or of mu^2, that step 1 gets
    algorithm = "grouped_tables"
    preferred = True
    neighbors: ClassVar[tuple[Neighboring, ...]] = noisy_tables.NoisyTablesPlan.neighbors
    law = forwarded("columns", "law")
    noise_name = forwarded("pairs", "law")
    raw = forwarded("pairs", "raw")
    #: Number of groups of each column; a column with no more values than planned groups keeps all its values.
    groups = forwarded("pairs", "queries", "shape")

    @property
    def theorem(self) -> str:
        return f"Adaptive composition of tables of columns, and of pairs of groups found in them: {self.pairs.theorem}"

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {**self.columns.mechanisms, **self.pairs.mechanisms}

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.columns.releases, *self.pairs.releases)

    @cached_property
    def left_out(self) -> float:
        """A guess at the share of relations that groups leave out, the mean over pairs of columns (`KEPT`)."""
        kept = []
        for k, (size, count) in enumerate(zip(self.queries.shape, self.groups, strict=True)):
            lost = 1 - np.interp(16 * count / max(size, 16), [*KEPT], [*KEPT.values()])
            without = min(1.0, 2 * lost) if size <= 16 else 1.0
            kept += [1.0 if count == size else 1 - (lost if k in self.queries.ordered else without)] * (size > 1)
        return 1 - float(np.outer(kept, kept)[np.triu_indices(len(kept), 1)].mean())

    @cached_property
    def _expected(self) -> float:
        relations, scale, power, of_pairs, powered = EXPECTED[self.law]
        pairs = of_pairs * self.pairs.expected_variation**powered
        chance = CHANCE * noisy_tables.by_chance(self.queries.shape, self.n)
        return math.hypot(relations * self.left_out, scale * self.columns.raw**power, pairs, chance)

    @property
    def expected_variation(self) -> float:
        """The expected mean total variation of two-way tables: a guess of the order of magnitude (`EXPECTED`)."""
        return noisy_tables.below_one(self._expected)

    @cached_property
    def ranked(self) -> float:
        """The expected error over `CAUTION`: where columns are strongly related, groups gain far more than expected.

        It is multiplied by `GAINS` instead where tables of all pairs do about as well, for they leave nothing out. With
        few columns (`MANY`) 1 is added, so that every other plan ranks first: forests and all pairs serve few columns.
        """
        usual = noisy_tables.plan(self.queries, self.n, self.privacy)
        better = usual.relations == "none" or self._expected < usual.expected_variation / GAINS
        few = len(self.columns.subsets) < noisy_tables.MANY
        return noisy_tables.below_one(self._expected * (1 / noisy_tables.CAUTION if better else GAINS)) + few

    @property
    def predicted_error(self) -> PredictedError:
        """The largest noise of a cell plus a typical amount for what groups leave out; no bound is proved."""
        noise, what = self.pairs.predicted_error, "largest of the noise variables, and of what groups leave out"
        bound = max(noise.bound, self.columns.predicted_error.bound) + noisy_tables.INDEPENDENT
        return PredictedError(bound, 1.0, what, proved=False)

    @property
    def expectation(self) -> float:
        return min(self.predicted_error.bound, max(self.pairs.expectation, noisy_tables.INDEPENDENT))

    def describe(self) -> Mapping[str, Any]:
        columns, found = self.columns.describe(), self.pairs.describe()
        measured = {**columns["measured"], **found["measured"]}
        own = {"relations": "groups", "groups": list(self.groups), "share_of_columns": self.share, "measured": measured}
        return {**found, **own, "expected_total_variation": self.expected_variation}

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> base.Answered:
        return self.fitted(self.release(records, source, ledger, weights))

    def release(self, codes: Any, source: BitSource, ledger: Ledger, weights: Floats | None = None) -> Released:
        """Return noisy tables of columns, the groups that follow from them, and noisy tables of pairs of groups."""
        columns = self.columns.release(codes, source, ledger, weights)
        groups = [np.zeros(1, dtype=np.int64)] * len(self.groups)
        for (k,), shares, deviation in zip(columns.subsets, columns.noisy, columns.deviations, strict=True):
            groups[k] = grouped(shares, deviation, self.groups[k], k in self.queries.ordered)

        def coarse(portion: Array) -> Array:
            values = self.queries.codes(portion.astype(np.int64, copy=False))  # sources try a row of floats first
            return np.column_stack([of[values[:, k]] for k, of in enumerate(groups)])

        pairs = self.pairs.release(mapped(codes, codes, coarse, same)[0], source, ledger, weights)
        return Released(columns, tuple(groups), pairs)

    def fitted(self, found: Released) -> base.Answered:
        """Return model, answers and tables of columns, as functions of released numbers and public facts alone."""
        levels = [np.ones((1, 1))] * len(self.groups)
        for (k,), noisy in zip(found.columns.subsets, found.columns.noisy, strict=True):
            of, each = found.groups[k], np.arange(len(noisy))
            held = (1 - EVEN) * latent_classes.projected(noisy) + EVEN / len(noisy)
            levels[k] = np.zeros((self.groups[k], len(noisy)))
            levels[k][of, each] = held / np.bincount(of, held)[of]
        of_groups = latent_classes.fit(self._pooled(found), self.pairs.fitting)
        model = GroupedModel(self.queries.shape, of_groups, tuple(levels))
        return model, model.answers(self.queries.subsets), found.columns

    def _pooled(self, found: Released) -> ReleasedTables:
        """Return the tables of step 3, with those of single columns pooled with the sums of step 1 over groups."""
        pairs, first = found.pairs, found.columns
        noisy, deviations = list(pairs.noisy), list(pairs.coordinates or pairs.deviations)
        each = zip(first.subsets, first.noisy, first.deviations, strict=True)
        for place, ((k,), shares, deviation) in enumerate(each):
            sums, size = np.bincount(found.groups[k], shares, self.groups[k]), len(shares) / self.groups[k]
            own = 1 / (1 + deviations[place] ** 2 / (size * deviation**2))  # weights inverse to the variances
            noisy[place] = own * noisy[place] + (1 - own) * sums
            deviations[place] *= math.sqrt(own)
        change = {"coordinates" if pairs.coordinates else "deviations": tuple(deviations)}
        return replace(pairs, noisy=tuple(noisy), **change)


def grouped(shares: Floats, deviation: float, count: int, ordered: bool) -> IntArray:
    """Return the group of each value, of `count` groups none of which is empty: a public function of noisy shares."""
    order = np.arange(len(shares)) if ordered else np.argsort(-shares, kind="stable")
    edges = ranges.split(shares[order], deviation, count)
    found = np.empty(len(shares), dtype=np.int64)
    found[order] = np.searchsorted(edges[1:-1], np.arange(len(shares)), side="right")
    return found


@recorded("grouped_tables")
def plan(
    queries: LinearQueries, n: int, privacy: PrivacyParams,
    *, groups: int | None = None, share: float | None = None, noise: str = "auto",
) -> GroupedTablesPlan:  # fmt: skip
    """Plan noise on tables of columns, and on tables of pairs of columns with at most `groups` groups each.

    Tables of columns get the share `share` of the promise; `noise` is as in `noisy_tables.plan`, for the tables of
    pairs. `groups` and `share` are by default those of `GROUPS` and `SHARES` with the smallest expected error.
    """
    base.check_tables(queries, n, privacy, GroupedTablesPlan.neighbors)
    if queries.impossible:
        what = "is not used by this algorithm"
        raise InvalidParameterError("impossible", len(queries.impossible), what, "Use algorithm='noisy_tables'")
    counts = GROUPS if groups is None else (_validate.integer("groups", groups, at_least=2),)
    shares = SHARES if share is None else (_validate.real("share", share, above=0.0, below=1.0),)
    found: list[GroupedTablesPlan] = []
    for law in ("gaussian", "laplace") if privacy.delta else ("laplace",):
        if not found:
            each = (_plan(queries, n, privacy, law, *options, noise) for options in product(counts, shares))
            found = [plan for plan in each if plan is not None]
    if not found:
        what = "has no pair of columns of which one has more values than groups"
        raise InvalidParameterError("queries", queries.count, what, "Use algorithm='noisy_tables'")
    return min(found, key=lambda plan: plan.expected_variation)


def _plan(
    queries: LinearQueries, n: int, privacy: PrivacyParams, law: str, groups: int, share: float, noise: str
) -> GroupedTablesPlan | None:
    """Return the plan with noise of this law; None if there is nothing to group or the pairs' best law differs."""
    shape = queries.shape
    listed = tuple(pair for pair in queries.subsets if len(pair) == 2 and min(shape[k] for k in pair) > 1)
    if not listed or max(shape) <= groups:
        return None
    first, rest = (noisy_tables.part_of(privacy, law, part) for part in (share, 1 - share))
    if first is None or rest is None:
        return None
    singles = tuple((k,) for k, size in enumerate(shape) if size > 1)
    columns = noisy_tables.NoisyTablesPlan(queries, n, first, singles, "none", law, base.mu_of(first))
    coarse = Marginals(tuple(min(size, groups) for size in shape), listed, center=queries.center)
    pairs = replace(noisy_tables.plan(coarse, n, rest, relations="all", noise=noise), title=NAME)
    if (pairs.law == "gaussian") != (law == "gaussian"):
        return None
    return GroupedTablesPlan(queries, n, privacy, columns, pairs, share)
