r"""Private evaluation of a fixed model: one table of noisy counts, or of noisy means, from which all metrics follow.

Guarantee
    Pure epsilon-DP for neighbors that replace one test record, or all records of one user, whose number n is public.
Lemma
    Counts: a record is in exactly one cell (bin of its score, label, group) of each of t tables, so replacing it moves
    the counts by at most 2 t in l1 (docs, Private evaluation, Lemma 1). A user's records share a weight of 1.
    Numbers: a record adds four numbers in [0, 1] to its group; replacing it moves them by at most 1 in the maximum
    norm of one group, and where the group is private too, counted, by at most 1 in each of two groups (Lemma 2).
Users
    Each of a user's m records has the integer weight ``floor(2^32 / m)``, in units of 2^-32. So sums are exact in any
    order, and the single rounding to a float is part of the sensitivity. A score must depend on its own row alone, to
    the last bit; otherwise the number of one user's rows could move other users' scores across a threshold.
Assumptions
    The model is fixed beforehand: it was released, or does not depend on the test records. "Exactly one cell" is
    enforced, not checked: positions are clipped into the table, numbers into [0, 1], and NaN counts as 0.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import REQUIRED, Array, Floats, final_dataclass
from dpconvex.algorithms import Plan, PredictedError, check_relation, recorded
from dpconvex.errors import InvalidDataError
from dpconvex.geometry import GroupedNorm
from dpconvex.mechanisms import LaplaceMechanism, Mechanism, NormNoiseMechanism, Planned
from dpconvex.privacy import Assumption, Ledger, PrivacyCertificate, PrivacyParams, Sensitivity, Unit
from dpconvex.problems import UserGroups
from dpconvex.randomness import BitSource

ONE = 2**32  # The integer weight of one unit (record or user); a user's records share it.
LARGEST = 2**31 - 1  # The largest number of units: with it, integer sums stay below 2^63.
RANGE = 4.0  #: Thresholds are equal steps of the log-odds between minus and plus this.
NUMBERS = 4  # Means released per group: loss, absolute residual, target, and squared target (quantiles: if covered).


@final_dataclass(eq=False)
class EvaluationResult:
    """The released tables of one evaluation, with certificate and plan."""

    cells: Floats  #: The noisy sums of all tables in one vector, in the order of the plan's `shapes`
    certificate: PrivacyCertificate
    plan: "EvaluationPlan"


@dataclass(frozen=True)
class EvaluationPlan(Plan):
    """Public constants of one noisy table about `n` test units in `groups` groups."""

    n: int
    privacy: PrivacyParams
    groups: int = 1
    algorithm: ClassVar[str] = "private_evaluation"
    constants: ClassVar[str] = "calibrated"
    theorem: ClassVar[str] = (
        "Sums over test records with noise of their sensitivity; all metrics and intervals are functions of them."
    )
    assumptions: ClassVar[tuple[Assumption, ...]] = (
        Assumption(
            "the model was fixed before: released privately, or made without these test records",
            "declared; a private model fitted on the same records adds its own price, one fitted on them without "
            "privacy voids the promise",
        ),
    )
    label: ClassVar[str]
    shapes: ClassVar[tuple[tuple[int, ...], ...]] = REQUIRED  #: Shapes of the tables.
    mechanism: ClassVar[Mechanism[Floats]] = REQUIRED  #: The noise on all tables together.
    #: Standard deviation of the noise in the accuracy, or in a mean on the scale from 0 to 1.
    deviation: ClassVar[float] = REQUIRED

    @property
    def size(self) -> int:
        """Number of cells of all tables."""
        return sum(math.prod(shape) for shape in self.shapes)

    def _widened(self, sensitivity: float) -> float:
        """Return a sensitivity enlarged by the rounding of each sum, of at most n, to one float."""
        return _rounding.sum_up((sensitivity, 2.0 * self.size * self.n * 2.0**-53))

    @property
    def predicted_error(self) -> PredictedError:
        source = "standard deviation of the noise in the accuracy, or in a mean"
        return PredictedError(self.deviation, 0.5, source, expected=self.deviation, proved=False)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {self.label: self.mechanism}

    @property
    def public(self) -> Mapping[str, Any]:
        return {"n": self.n, "groups": self.groups, "tables": [list(shape) for shape in self.shapes]}

    @final
    def run(self, where: Array, values: Floats | None, users: UserGroups | None, source: BitSource) -> EvaluationResult:
        """Release the tables of records given by positions (n_records, k), and `values` where the plan sums numbers.

        `users` says which user each record belongs to; only plans that protect users take it. Raises
        `InvalidDataError` if sizes do not fit (public facts).
        """
        units = len(where) if users is None else users.n_users
        if units != self.n or (users is not None) != (self.privacy.unit == Unit.USER):
            raise InvalidDataError(f"{units} units are given, and the plan is for n={self.n} {self.privacy.unit}s")
        if users is not None and users.n_records != len(where):
            raise InvalidDataError("groups and the test data must have one length")
        ledger = Ledger(self.privacy, self.releases)
        shares = np.full(len(where), float(ONE)) if users is None else users.spread(ONE // users.sizes.astype(float))
        with np.errstate(all="ignore"):
            sums = self._sums(np.asarray(where).astype(np.int64), values, shares.astype(np.int64)) / ONE
            noisy = self.mechanism.release(sums, self.label, source, ledger)
        return EvaluationResult(noisy, self.certificate(source), self)

    @abstractmethod
    def _sums(self, where: Array, values: Floats | None, weights: Array) -> Array:
        """Return the exact sums, int64 (cells,), in units of `ONE`."""


@final_dataclass
class CountsPlan(EvaluationPlan):
    """Counts of records by bin of the score, label and group; with more than two classes also a confusion table.

    The shape is (groups, bins, 2). With more than two classes a table (groups, classes, classes) comes first; bins are
    then those of the top score, and the last axis says whether the top class was wrong (0) or right (1).
    """

    classes: int = 2
    noise_name: ClassVar[str] = "laplace"
    label: ClassVar[str] = "scores of test records on public thresholds, by label"

    @property
    def bins(self) -> int:
        """Number of bins of the score, even, from public facts; with finer bins noise would hide what they tell."""
        share = self.n * self.privacy.epsilon / (self.groups * (1 if self.classes == 2 else 2))
        return 8 if share < 2000 else 12 if share <= 1e5 else 24

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        table = (self.groups, self.bins, 2)
        return (table,) if self.classes == 2 else ((self.groups, self.classes, self.classes), table)

    @cached_property
    def mechanism(self) -> LaplaceMechanism:
        # Lemma 1: one cell of each table loses a unit and another gains one
        lemma = "a replaced unit moves one unit of count between two cells of each table (docs, Private evaluation)"
        moved = Sensitivity(self._widened(2.0 * len(self.shapes)), "l1", lemma, unit=self.privacy.unit)
        return LaplaceMechanism.calibrate(moved, self.privacy.epsilon, self.size)

    @property
    def deviation(self) -> float:
        return self.mechanism.scale * math.sqrt(math.prod(self.shapes[0]) / 2) / self.n

    def _sums(self, where: Array, values: Floats | None, weights: Array) -> Array:
        total, start = np.zeros(self.size, dtype=np.int64), 0
        for k, shape in enumerate(self.shapes):
            cells = math.prod(shape)
            np.add.at(total, start + np.clip(where[:, k], 0, cells - 1), weights)  # exactly one cell of each table
            start += cells
        return total


@final_dataclass
class NumbersPlan(EvaluationPlan):
    """Sums of four numbers in [0, 1] for each group, preceded by the group's count where groups are private."""

    noise_name: ClassVar[str] = "grouped"
    label: ClassVar[str] = "sums of residuals and targets of test records"

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return ((self.groups, NUMBERS + (self.groups > 1)),)

    @cached_property
    def mechanism(self) -> NormNoiseMechanism:
        groups, width = self.shapes[0]
        ones = np.ones(groups * width)
        norm = GroupedNorm(ones.astype(np.int64), ones, np.repeat(np.arange(groups), width), np.ones(groups))
        # Lemma 2: the maximum over the numbers of a group, summed over the two groups that a unit leaves and enters
        lemma = "a replaced unit moves four numbers in [0, 1] by at most 1 a group (docs, Private evaluation)"
        moved = Sensitivity(self._widened(1.0 if groups == 1 else 2.0), norm.name, lemma, unit=self.privacy.unit)
        return NormNoiseMechanism(norm, moved, self.privacy.epsilon)

    @property
    def deviation(self) -> float:
        return self.mechanism.scale * math.sqrt(float(self.mechanism.norm.coordinate_variances[0])) / self.n

    def _sums(self, where: Array, values: Floats | None, weights: Array) -> Array:
        assert values is not None  # the plan sums them
        groups, width = self.shapes[0]
        inside = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0)
        parts = np.floor(inside * weights[:, None]).astype(np.int64)
        parts = np.column_stack([weights, parts]) if groups > 1 else parts
        total = np.zeros((groups, width), dtype=np.int64)
        np.add.at(total, np.clip(where[:, 0], 0, groups - 1), parts)
        return total.ravel()


@recorded("private_evaluation")
def plan(n: int, privacy: PrivacyParams, *, classes: int = 2, groups: int = 1) -> EvaluationPlan:
    """Return the plan for `n` test units in `groups` groups; ``classes=0`` means a regression."""
    check_relation(privacy, users=True)
    for name, value, least, most in (("n", n, 1, LARGEST), ("groups", groups, 1, 500), ("classes", classes, 0, 100)):
        _validate.real(name, _validate.integer(name, value, at_least=least), at_most=most)
    return CountsPlan(n, privacy, groups, max(classes, 2)) if classes else NumbersPlan(n, privacy, groups)
