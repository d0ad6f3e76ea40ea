"""What all mechanisms share: they carry their sensitivity, and they record before they sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy.events.basic import Event
from dpconvex.privacy.ledger import Ledger, Release
from dpconvex.privacy.sensitivity import Sensitivity
from dpconvex.randomness.source import BitSource

Output = TypeVar("Output")


class Planned(ABC):
    """A use of private randomness with a price known before data are seen.

    Attributes
    ----------
    name : str
        Name of the mechanism in plans, ledgers and certificates.
    sensitivity : Sensitivity
        Of the value, as proved; the event charges at least this.
    event : Event
        What one use costs.
    """

    name: ClassVar[str]
    sensitivity: Sensitivity
    event: Event

    @abstractmethod
    def exact_bits(self, source: BitSource) -> bool:
        """Whether noise from `source` is exact on a grid, so that the bits of a release are covered by the proof."""

    def log_density(self, value: AnyArray, outcome: Any) -> float:
        """Return the logarithm of the probability or density of an outcome given the private value, up to a constant.

        For the audit, so it is written from the class's docstring and not from its sampler; mechanisms of this package
        have theirs in `dpconvex.audit.laws`. Without one, a mechanism is audited by counting outcomes.

        Raises
        ------
        UnsupportedEventError
            If the mechanism does not say it.
        """
        raise UnsupportedEventError(f"no law is known for {type(self).__name__}: give log_density, or count outcomes")

    @final
    def planned(self, label: str, block: str | None = None) -> Release:
        """Return the ledger entry of one use.

        Parameters
        ----------
        label : str
            What is released, in words.
        block : str or None
            The fixed part of the records that it reads (`Release`); None for all.
        """
        return Release(label, self.name, self.event, self.sensitivity, block)


class Mechanism(Planned, Generic[Output]):
    """A mechanism that turns a value into a private release."""

    @property
    @abstractmethod
    def event(self) -> Event:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What one use costs."""

    @abstractmethod
    def _sample(self, value: FloatArray, source: BitSource) -> Output:
        """Draw the release of `value`, shape as the mechanism says."""

    @final
    def release(
        self, value: AnyArray, label: str, source: BitSource, ledger: Ledger, block: str | None = None
    ) -> Output:
        """Record the release in the ledger, then sample it.

        Parameters
        ----------
        value : array
            The private value, of the mechanism's shape. Its content never raises: NaN counts as 0, and values far
            outside what floats on the grid can hold saturate.
        label, block : str
            As in `planned`.
        source : BitSource
            Of the noise.
        ledger : Ledger
            It must list `planned(label, block)`.

        Raises
        ------
        BudgetExceededError
            If the ledger does not list this release (any more). Nothing is sampled then.
        """
        ledger.record(self.planned(label, block))
        return self._sample(np.asarray(value, dtype=np.float64), source)

    @classmethod
    @abstractmethod
    def examples(cls) -> tuple[Mechanism[Output], ...]:
        """A few small instances, for contract tests."""


def check_norm(sensitivity: Sensitivity, *norms: str) -> None:
    """Raise `InvalidParameterError` unless the sensitivity is stated in one of `norms`."""
    if sensitivity.norm not in norms:
        wanted = " or ".join(map(repr, norms))
        raise InvalidParameterError("sensitivity.norm", sensitivity.norm, f"must be {wanted}", "Use another mechanism")


def check_shape(value: FloatArray, dim: int) -> None:
    """Raise `InvalidParameterError` unless `value` has shape (dim,): a public fact."""
    if value.shape != (dim,):
        raise InvalidParameterError("value.shape", value.shape, f"must be ({dim},)")
