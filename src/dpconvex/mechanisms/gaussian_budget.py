r"""A Gaussian budget whose number of uses is set in the run: the price is one release's, whatever the number is.

Guarantee
    All T releases of a session are charged as *one* Gaussian release of ``mu = sensitivity / sigma``, whatever T is.
Lemma
    With ``sigma sqrt(T)`` each of T adaptive releases is dominated, for every history, by the Gaussian pair of
    ``mu / sqrt(T)``; T such compose to the pair of mu (Zhu, Dong and Wang 2022, Theorem 10). The pair does not depend
    on T, so T may be any function of what was released before the session began. It is set once and before the first
    release; a run that stops early gets nothing back.
Sensitivity
    Of each value, `step.sensitivity`: values are stated in units in which it is a constant.
Why no samples
    The profile of T steps on Poisson samples depends on rate and T, and no common pair dominates all choices.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from dpconvex import _progress, _rounding, _validate
from dpconvex._types import Floats, forwarded
from dpconvex.errors import BudgetExceededError
from dpconvex.mechanisms.base import Planned, check_shape
from dpconvex.mechanisms.gaussian import GaussianMechanism
from dpconvex.privacy import Ledger
from dpconvex.randomness import BitSource


@final
@dataclass(frozen=True)
class GaussianBudget(Planned):
    """Adaptive noisy values in one run, whose number is set in the run; all together are charged as the `whole`."""

    whole: GaussianMechanism  #: What a single release would be
    name: ClassVar[str] = "Gaussian, its uses counted in the run"
    sensitivity = forwarded("whole", "sensitivity")  # of one value
    event = forwarded("whole", "event")

    def exact_bits(self, source: BitSource) -> bool:
        return self.whole.exact_bits(source)

    def each(self, uses: int) -> GaussianMechanism:
        """Return one of `uses` equal releases: rounded up, so that their squares add up to no more than the budget."""
        root = _rounding.widen_up(math.sqrt(_validate.integer("uses", uses, at_least=1)))
        return GaussianMechanism(self.whole.sensitivity, _rounding.product_up(self.whole.sigma, root), self.whole.dim)

    def start(self, label: str, source: BitSource, ledger: Ledger) -> "GaussianSession":
        """Record the whole budget, and return the session that spends it."""
        ledger.record(self.planned(label))
        return GaussianSession(self, source)


@final
class GaussianSession:
    """The releases of one run; obtained from `GaussianBudget.start`."""

    def __init__(self, budget: GaussianBudget, source: BitSource) -> None:
        self._budget, self._source = budget, source
        self._each: GaussianMechanism | None = None
        self._uses = self._done = 0

    def set_uses(self, uses: int) -> None:
        """Set how many releases there will be: once, from public facts and earlier releases."""
        if self._each is not None:
            raise BudgetExceededError("Gaussian budget: the number of uses is set already, and cannot be changed")
        self._each, self._uses = self._budget.each(uses), uses

    def release(self, value: Floats) -> Floats:
        """Return a value, shape (dim,), with noise; `BudgetExceededError` beyond the number that was set."""
        if self._each is None or self._done >= self._uses:
            raise BudgetExceededError("Gaussian budget: no use is left, or their number is not set yet")
        check_shape(value, self._budget.whole.dim)
        self._done += 1
        _progress.advance(self, self._done, self._uses)
        return self._noisy(self._each, value)

    def _noisy(self, each: GaussianMechanism, value: Floats) -> Floats:
        return each._sample(value, self._source)
