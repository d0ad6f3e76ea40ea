"""The best of a secret random number of runs: selection whose price does not grow with the number of candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

import numpy as np

from dpconvex.mechanisms import _categorical
from dpconvex.mechanisms.base import Planned, check_norm
from dpconvex.privacy import Ledger, RepeatedSelection, Sensitivity
from dpconvex.randomness.source import BitSource

T = TypeVar("T")


@final
@dataclass(frozen=True)
class BestOfRepeats(Planned):
    """Runs something again and again, and hands out the outcome with the best score only.

    How many runs count is drawn first, and is secret. All `most` runs are always made, whatever was drawn, so that
    their number does not show in the running time; those beyond the number drawn are thrown away.

    Guarantees
    ----------
    Those of `RepeatedSelection`, provided that each run, *with its score*, is one of the event's runs, drawn with fresh
    randomness: scores of private data need noise of their own.

    Parameters
    ----------
    sensitivity : Sensitivity
        Of a score before its noise, ``"absolute"``.
    event : RepeatedSelection
        What a run costs, and the law of their number.

    References
    ----------
    Papernot and Steinke 2022, "Hyperparameter tuning with Renyi differential privacy".
    """

    sensitivity: Sensitivity
    event: RepeatedSelection  # pyright: ignore[reportIncompatibleVariableOverride]
    name: ClassVar[str] = "best of a secret number of runs"

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, "absolute")

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system: the number of runs has exactly its law. Runs have their own."""
        return source.exact

    def release(
        self,
        attempt: Callable[[], tuple[T, float]],
        label: str,
        source: BitSource,
        ledger: Ledger,
        block: str | None = None,
    ) -> T:
        """Record the release, make all runs, return the best outcome among those that count; of equals the first.

        Parameters
        ----------
        attempt : callable
            One run: an outcome and its noisy score, larger is better; no NaN.
        label, source, ledger, block
            As in `Mechanism.release`.

        Raises
        ------
        BudgetExceededError
            If the ledger does not list ``planned(label, block)``. Nothing is run then.
        """
        ledger.record(self.planned(label, block))
        count = 1 + int(_categorical.draw(np.array(self.event.weights), 1, source.generator())[0])
        best, record = attempt()
        for k in range(1, self.event.most):
            outcome, score = attempt()
            if k < count and score > record:
                best, record = outcome, score
        return best
