"""Base of all mechanisms: they carry their sensitivity, and they record before they sample."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import REQUIRED, Array, Floats, final_dataclass
from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy import Event, FailureProbability, Ledger, Release, Sensitivity, Unit
from dpconvex.randomness import BitSource

Output = TypeVar("Output")


class Planned(ABC):
    """A use of private randomness with a price known before data are seen.

    The `name` is that of the mechanism in plans, ledgers and certificates, the `sensitivity` that of the value, as
    proved: the `event`, which says what one use costs, charges at least this.
    """

    name: ClassVar[str]
    sensitivity: Sensitivity
    event: Event

    @abstractmethod
    def exact_bits(self, source: BitSource) -> bool:
        """Whether noise from `source` is exact on a grid, so that the bits of a release are covered by the proof.

        Every mechanism says it itself: certificates repeat it, and nobody may claim it by forgetting to say no.
        """

    def log_density(self, value: Array, outcome: Any) -> float:
        """Return the logarithm of the probability or density of an outcome given the private value, up to a constant.

        For the audit, so it is written from the class's docstring and not from its sampler; mechanisms of this package
        have theirs in `dpconvex_experiments.audit.laws`. Without one, a mechanism is audited by counting outcomes.
        """
        raise UnsupportedEventError(f"no law is known for {type(self).__name__}: give log_density, or count outcomes")

    @final
    def planned(self, label: str, block: str | None = None) -> Release:
        """Return the ledger entry of one use: what is released, in words, from which fixed part of the records."""
        return Release(label, self.name, self.event, self.sensitivity, block)


def exact_as_source(self: Planned, source: BitSource) -> bool:
    """Return whether the source makes noise exact on a grid: the `exact_bits` of most mechanisms."""
    return source.exact


def exact_as_reals(self: Planned, source: BitSource) -> bool:
    """Return `exact_bits` for real numbers and choices, which need no sampler of integers, hence no OpenDP."""
    return source.exact or source.reals


class Mechanism(Planned, Generic[Output]):
    """A mechanism that turns a value into a private release."""

    event: Event = REQUIRED  #: The privacy event of one use.

    @abstractmethod
    def _sample(self, value: Floats, source: BitSource) -> Output:
        """Draw the release of `value`, shape as the mechanism says."""

    @final
    def release(self, value: Array, label: str, source: BitSource, ledger: Ledger, block: str | None = None) -> Output:
        """Record the release in the ledger, then sample it.

        The content of `value`, of the mechanism's shape, never raises: NaN counts as 0, and values far outside what
        floats on the grid can hold saturate. If the ledger does not list `planned(label, block)` (any more),
        `BudgetExceededError` is raised and nothing sampled.
        """
        ledger.record(self.planned(label, block))
        return self._sample(np.asarray(value, dtype=np.float64), source)


@final_dataclass
class FailureAllowance(Planned):
    """A lemma that may fail: nothing is released, but the sensitivity that rests on it costs this part of delta."""

    probability: float  #: probability of failure, for both of two neighboring data sets together
    lemma: str  #: the bound on this probability, and its randomness, in words
    unit: Unit = Unit.RECORD
    name: ClassVar[str] = "allowance for failure"

    def __post_init__(self) -> None:
        _validate.real("probability", self.probability, above=0.0, below=1.0)

    @property
    def sensitivity(self) -> Sensitivity:
        return Sensitivity(1.0, "none", self.lemma, unit=self.unit)  # no value is released

    @property
    def event(self) -> FailureProbability:
        return FailureProbability(self.probability)

    def exact_bits(self, source: BitSource) -> bool:
        return True  # nothing is drawn

    def charge(self, label: str, ledger: Ledger) -> None:
        """Enter the allowance in the ledger, before any release that rests on the lemma."""
        ledger.record(self.planned(label))


def check_norm(sensitivity: Sensitivity, *norms: str) -> None:
    """Raise `InvalidParameterError` unless the sensitivity is stated in one of `norms`."""
    if sensitivity.norm not in norms:
        wanted = " or ".join(map(repr, norms))
        raise InvalidParameterError("sensitivity.norm", sensitivity.norm, f"must be {wanted}", "Use another mechanism")


def check_shape(value: Floats, dim: int) -> None:
    """Raise `InvalidParameterError` unless `value` has shape (dim,): a public fact."""
    if value.shape != (dim,):
        raise InvalidParameterError("value.shape", value.shape, f"must be ({dim},)")
