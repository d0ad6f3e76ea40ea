r"""Tables of all columns, and of all pairs of columns with their values in groups that follow from the former.

Where noise on all pairs would hide them, pairs of a few groups a column still say how columns go together.

Listing
    1. Noise on the table of each column. 2. Group its values, as many groups as planned: values in their order, or else
    by falling share, and the fullest group is halved again and again. 3. Release the tables of all pairs of grouped
    columns (`noisy_tables`, perhaps with one noise of all tables). 4. Fit latent classes to these; inside a group,
    values are independent of all else and as frequent as step 1 says.
Guarantee
    Pure epsilon, or (epsilon, delta), for the neighbors of `noisy_tables`: records, users, added records.
Lemma
    Step 1 is a release of tables, with part of the promise. Given what it released, groups are public maps of the
    values of a column, so grouping is a public map of single records: the Lemma of `noisy_tables` holds for the grouped
    records as it stands, for users too, since a record keeps its weight. Numbers of groups, scales and the plan of step
    3 are fixed before records are read, so both are an adaptive use of fixed mechanisms: pure epsilons add up, Gaussian
    noise by the squares of mu. Step 4 is post-processing.
Intervals
    For tables of one column, from step 1 alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _validate
from dpconvex._types import Array, Floats, forwarded
from dpconvex.algorithms import PredictedError, check_relation, recorded
from dpconvex.algorithms.queries import base, latent_classes, noisy_tables
from dpconvex.algorithms.queries.noisy_tables import NoisyTablesPlan
from dpconvex.algorithms.queries.released_tables import ReleasedModel, ReleasedTables, within
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Planned
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Release
from dpconvex.problems.data import ranges
from dpconvex.problems.data.sources.rows import mapped, same
from dpconvex.problems.queries import LinearQueries, Marginals
from dpconvex.randomness import BitSource

EVEN = 1e-4  #: Share of a column's records that are spread evenly over its values, whatever the noisy table holds.
GROUPS, SHARES = (3, 4, 6, 8), (0.2, 0.35, 0.6)  #: Among which a plan chooses: groups a column; budget of step 1.
NAME = "tables of grouped values"
GAINS = 1.1  #: For `auto`: expected errors over those of others
KEPT = {1: 0.0, 2: 0.5, 3: 0.61, 4: 0.69, 6: 0.81, 8: 0.88, 12: 0.975, 16: 1.0}
"""What groups keep of how a column with 16 values in order goes together with others. Without an order they lose twice
as much, and of more than 16 values all. Fitted to tables of the corpus's learning half, without noise
(benchmarks/grouped_tables.py)."""
CHANCE = 0.7  #: What is expected of chance, in `noisy_tables.by_chance`
EXPECTED = {"laplace": (0.05, 1.0, 0.91, 0.96, 1.1), "gaussian": (0.085, 1.05, 0.97, 0.96, 1.0)}
"""Mean total variation of two-way tables to expect, a guess: the root of the sum of squares of what relations are worth
that groups leave out, of scales times powers of the noise of columns and of what pairs of groups expect, and of
`CHANCE` times `noisy_tables.by_chance`. Fitted as well."""


class Released(NamedTuple):
    """What step 1 to 3 leave."""

    columns: ReleasedTables  #: of one column each, all values
    groups: tuple[NDArray[np.int64], ...]  #: of each column, the group of each value
    pairs: ReleasedTables  #: of grouped values


@final
@dataclass(frozen=True, eq=False)
class GroupedModel(ReleasedModel):
    """A distribution over groups of values; inside its group a value is independent of all other columns."""

    shape: tuple[int, ...]
    of_groups: ReleasedModel
    levels: tuple[Floats, ...]  #: for each column (groups, values): distributions inside the groups

    def _marginal(self, axes: tuple[int, ...]) -> Floats:
        table = self.of_groups.marginal(axes)
        for place, axis in enumerate(axes):
            table = np.moveaxis(np.tensordot(table, self.levels[axis], (place, 0)), -1, place)
        return table

    def _sample(self, size: int, generator: np.random.Generator) -> Array:
        drawn = self.of_groups.sample(size, generator)
        return np.column_stack([within(drawn[:, k], part, generator) for k, part in enumerate(self.levels)])


@final
@dataclass(frozen=True)
class GroupedTablesPlan(base.QueryReleasePlan):
    """Constants of one release."""

    columns: NoisyTablesPlan  #: step 1: no pairs
    pairs: NoisyTablesPlan  #: step 3: all pairs of grouped values
    share: float  #: of epsilon, or of mu^2, that step 1 has
    algorithm = "grouped_tables"
    only_sums: ClassVar[bool] = True
    constants = "calibrated"
    preferred = True
    neighbors: ClassVar[tuple[Neighboring, ...]] = NoisyTablesPlan.neighbors  # pyright: ignore[reportIncompatibleVariableOverride]
    law = forwarded("columns", "law")
    noise_name = forwarded("pairs", "law")
    raw = forwarded("pairs", "raw")

    @property
    def theorem(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"Adaptive composition of tables of columns, and of pairs of groups found in them: {self.pairs.theorem}"

    @property
    def groups(self) -> tuple[int, ...]:
        """Number of groups of each column: of those with no more values, each is one."""
        return self.pairs.queries.shape

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {**self.columns.mechanisms, **self.pairs.mechanisms}

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.columns.releases, *self.pairs.releases)

    @cached_property
    def left_out(self) -> float:
        """The share of relations that groups leave out, a guess: the mean over pairs of columns."""
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
        """The mean total variation of two-way tables to expect: the order of magnitude on other tables, a guess."""
        return noisy_tables.below_one(self._expected)

    @cached_property
    def ranked(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A fifth less than expected: where columns tell much of one another, groups gain far more than expected.

        A tenth more where all pairs could be measured instead, for they leave nothing out. Of few columns more than all
        other expectations: forests and all pairs serve them.
        """
        usual = noisy_tables.plan(self.queries, self.n, self.privacy)
        better = usual.relations == "none" or self._expected < usual.expected_variation / GAINS
        few = len(self.columns.subsets) < noisy_tables.MANY
        return noisy_tables.below_one(self._expected * (1 / noisy_tables.CAUTION if better else GAINS)) + few

    @property
    def predicted_error(self) -> PredictedError:
        """The largest noise of a cell, and a typical amount for what groups leave out."""
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
        """Return noisy tables of columns, and of pairs of the groups that follow from them."""
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
        """Return model and answers, functions of released numbers and public facts alone."""
        levels = [np.ones((1, 1))] * len(self.groups)
        for (k,), noisy in zip(found.columns.subsets, found.columns.noisy, strict=True):
            of, each = found.groups[k], np.arange(len(noisy))
            held = (1 - EVEN) * latent_classes.projected(noisy) + EVEN / len(noisy)
            levels[k] = np.zeros((self.groups[k], len(noisy)))
            levels[k][of, each] = held / np.bincount(of, held)[of]
        of_groups = latent_classes.fit(self._pooled(found), self.pairs.fitting)
        model = GroupedModel(self.queries.shape, of_groups, tuple(levels))
        answers = [model.marginal(subset).ravel() for subset in self.queries.subsets]
        return model, np.concatenate(answers), found.columns

    def _pooled(self, found: Released) -> ReleasedTables:
        """Return the tables of groups, those of single columns pooled with what step 1 says of them."""
        pairs, first = found.pairs, found.columns
        noisy, deviations = list(pairs.noisy), list(pairs.coordinates or pairs.deviations)
        for place, ((k,), shares, deviation) in enumerate(
            zip(first.subsets, first.noisy, first.deviations, strict=True)
        ):
            sums, size = np.bincount(found.groups[k], shares, self.groups[k]), len(shares) / self.groups[k]
            own = 1 / (1 + deviations[place] ** 2 / (size * deviation**2))  # weights inverse to the variances
            noisy[place] = own * noisy[place] + (1 - own) * sums
            deviations[place] *= math.sqrt(own)
        change = {"coordinates" if pairs.coordinates else "deviations": tuple(deviations)}
        return replace(pairs, noisy=tuple(noisy), **change)


def grouped(shares: Floats, deviation: float, count: int, ordered: bool) -> NDArray[np.int64]:
    """Return the group of each value, of `count` groups none of which is empty: a public function of noisy shares."""
    order = np.arange(len(shares)) if ordered else np.argsort(-shares, kind="stable")
    edges = ranges.split(shares[order], deviation, count)
    found = np.empty(len(shares), dtype=np.int64)
    found[order] = np.searchsorted(edges[1:-1], np.arange(len(shares)), side="right")
    return found


@recorded("grouped_tables")
def plan(
    queries: LinearQueries,
    n: int,
    privacy: PrivacyParams,
    *,
    groups: int | None = None,
    share: float | None = None,
    noise: str = "auto",
) -> GroupedTablesPlan:
    """Plan noise on tables of columns, and of pairs of at most `groups` groups of values a column.

    `share` of the promise is for the former; `noise` is that of the latter. None: what is expected
    to be best, of `GROUPS` and `SHARES`.
    """
    check_relation(privacy, users=True, neighbors=GroupedTablesPlan.neighbors)
    _validate.records("n", n)
    base.check_tables(queries)
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
    """Return the plan with noise of this law; None where there is nothing to group, or pairs have another law."""
    shape = queries.shape
    listed = tuple(pair for pair in queries.subsets if len(pair) == 2 and min(shape[k] for k in pair) > 1)
    if not listed or max(shape) <= groups:
        return None
    first, rest = (noisy_tables.part_of(privacy, law, part) for part in (share, 1 - share))
    if first is None or rest is None:
        return None
    singles = tuple((k,) for k, size in enumerate(shape) if size > 1)
    columns = NoisyTablesPlan(queries, n, first, singles, "none", law, base.mu_of(first))
    coarse = Marginals(tuple(min(size, groups) for size in shape), listed, center=queries.center)
    pairs = replace(noisy_tables.plan(coarse, n, rest, relations="all", noise=noise), title=NAME)
    if (pairs.law == "gaussian") != (law == "gaussian"):
        return None
    return GroupedTablesPlan(queries, n, privacy, columns, pairs, share)
