r"""Events made of other events: a whole run, and the best of a secret random number of runs.

The runs of a search (`RepeatedSelection`) are independent draws from one law Q: a candidate drawn uniformly, its fit,
its noisy score, which is part of the run. The number K of runs is random and secret, with

    P(K = k)  proportional to  w_k,   w_1 = 1,   w_k = w_(k-1) (1 - gamma) (k - 1 + shape)/k,   k = 1 ... most,

the negative binomial distribution without its zero, cut off at `most`. Only the run with the best score is released.

**Theorem.** Let ``delta_Q`` be the profile of Q, and e a number with ``(1 - gamma) delta_Q(e) <= gamma (exp(e) - 1)``.
Then the search has the profile ``E[K] delta_Q(epsilon - (1 + shape) e)``. If Q is epsilon-DP, it is
``(2 + shape) epsilon``-DP, also for ``gamma = 0``. (Proof: docs, Search, Theorem 1.)

The pure part is Papernot and Steinke 2022, "Hyperparameter tuning with Renyi differential privacy", Theorem 7 of its
appendix, after Liu and Talwar 2019; the profile sharpens Koskela, Redberg and Wang 2024, "Privacy profiles for private
selection", Theorem 3.1, by the choice of e, and adds the cut-off.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from dpconvex import _rounding, _validate
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import accounting
from dpconvex.privacy.events.base import ComposedEvent, Event, Parts, inner_event, pure_delta
from dpconvex.privacy.profiles import charge, smallest

LAW_SLACK = Fraction(1, 2**50)
"""Added to epsilon: each weight of the number of runs is a float within a relative 2^-53 of the formula."""
MOST_RUNS = 10_000  #: Largest number of runs that an event may allow
Used = tuple[str | None, int, Event]  #: Name of the block of records that is read (None: all), number of uses, event.


def added_up(uses: Iterable[Used]) -> list[list[tuple[Event, int]]]:
    """Return the lists of events whose prices add up: those on all records together with those of each block."""
    everywhere: list[tuple[Event, int]] = []
    blocks: dict[str, list[tuple[Event, int]]] = {}
    for block, times, event in uses:
        (everywhere if block is None else blocks.setdefault(block, [])).append((event, times))
    return [everywhere + events for events in blocks.values()] or [everywhere]


@dataclass(frozen=True)
class WholeRun(ComposedEvent):
    """Several uses of mechanisms, on all records or on disjoint blocks of them, as one event."""

    uses: tuple[Used, ...]
    kind: ClassVar[str] = "whole_run"

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses", tuple(_used(use) for use in _listed("uses", self.uses)))
        _ = self.neighboring

    @property
    def inner(self) -> tuple[Event, ...]:
        return tuple(event for _, _, event in self.uses)

    @cached_property
    def _lists(self) -> list[list[tuple[Event, int]]]:
        return added_up(self.uses)

    def _charge(self) -> None:
        for events in self._lists:
            accounting.charge_list(len(events))

    @property
    def pure_epsilon(self) -> Fraction | None:
        """Largest sum over a block and the uses on all records; None if a use has no pure epsilon."""
        self._charge()
        totals = [[(event.pure_epsilon, times) for event, times in events] for events in self._lists]
        if any(pure is None for events in totals for pure, _ in events):
            return None
        return max(sum((pure * times for pure, times in e if pure is not None), Fraction(0)) for e in totals)

    @property
    def parts(self) -> Parts | None:
        """Each part from the block in which that part is largest; None if a use has no parts."""
        self._charge()
        known = [[(event.parts, times) for event, times in events] for events in self._lists]
        if any(part is None for parts in known for part, _ in parts):
            return None
        totals = [accounting.added([(part, times) for part, times in parts if part is not None]) for parts in known]
        return Parts(*(max(getattr(each, name) for each in totals) for name in ("pure", "mu", "failure", "rho")))

    def delta(self, epsilon: float) -> float:
        if (pure := self.pure_epsilon) is not None:
            return pure_delta(pure, epsilon)
        return max(accounting.spent_delta(events, epsilon) for events in self._lists)


@dataclass(frozen=True)
class RepeatedSelection(ComposedEvent):
    """The best of a secret random number of runs; see the module's docstring."""

    # What one run costs: one event for every candidate that it may draw, at least one event. The profile of Q is at
    # most the largest of their profiles (joint convexity).
    runs: tuple[Event, ...]
    shape: float  #: shape of the law of the number of runs, above -1 and at most 10; a larger shape costs more
    gamma: float  #: in [0, 1); the smaller, the more runs. 0 is for pure promises only.
    most: int  #: largest number of runs, 1 to 10,000
    kind: ClassVar[str] = "repeated_selection"

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(inner_event("runs", run, Event) for run in _listed("runs", self.runs)))
        _ = self.neighboring
        _validate.real("shape", self.shape, above=-1.0, at_most=10.0)
        _validate.real("gamma", self.gamma, at_least=0.0, below=1.0)
        _validate.integer("most", self.most, at_least=1, at_most=MOST_RUNS)

    @property
    def inner(self) -> tuple[Event, ...]:
        return self.runs

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Law of the number of runs: weights w_1 ... w_most, each within a relative 2^-53 of the formula."""
        charge(150 * self.most)
        w, found = Fraction(1), [1.0]
        for k in range(2, self.most + 1):
            # Exact fractions would grow with k, so they are rounded, with an error far below 2^-53.
            w = (w * (1 - Fraction(self.gamma)) * (k - 1 + Fraction(self.shape)) / k).limit_denominator(2**400)
            found.append(float(w))
        return tuple(found)

    @cached_property
    def expected(self) -> float:
        """Expected number of runs, rounded up."""
        return _rounding.widen_up(math.fsum(k * w for k, w in enumerate(self.weights, 1)) / math.fsum(self.weights))

    @property
    def pure_epsilon(self) -> Fraction | None:
        """``(2 + shape)`` times a run's pure epsilon, or once if `most` is 1; None if a run has no pure epsilon."""
        each = [run.pure_epsilon for run in self.runs]
        if any(pure is None for pure in each):
            return None
        largest = max(pure for pure in each if pure is not None)
        return largest if self.most == 1 else (2 + Fraction(self.shape)) * largest + LAW_SLACK

    def run_delta(self, epsilon: float) -> float:
        """Profile of one run: the largest profile of a candidate."""
        return max(run.delta(epsilon) for run in dict.fromkeys(self.runs))

    @cached_property
    def exponent(self) -> float:
        """Smallest e with ``(1 - gamma) delta_Q(e) <= gamma (exp(e) - 1)``, rounded up; infinity if there is none."""
        if self.gamma == 0:
            return math.inf

        def holds(e: float) -> bool:
            left = (1 - self.gamma) * self.run_delta(e) * (1 + 1e-12)
            return left <= self.gamma * math.expm1(min(e, 700.0)) * (1 - 1e-12)

        return smallest(holds, 1.0)

    @cached_property
    def charge(self) -> float:
        """What selection adds to epsilon: ``(1 + shape) e`` plus `LAW_SLACK`, rounded up; 0 if `most` is 1."""
        if self.most == 1:
            return 0.0
        if math.isinf(self.exponent):
            return math.inf
        return _rounding.float_up((1 + Fraction(self.shape)) * Fraction(self.exponent) + LAW_SLACK)

    def delta(self, epsilon: float) -> float:
        """The smaller of the theorem's two profiles."""
        charge(100)
        worst = 1.0 if (pure := self.pure_epsilon) is None else pure_delta(pure, epsilon)
        if worst == 0.0 or self.charge > epsilon:
            return worst
        left = _rounding.difference_down(epsilon, self.charge)
        return min(worst, 1.0, _rounding.product_up(self.expected, self.run_delta(left)))


def _listed(name: str, values: Any) -> Sequence[Any]:
    if not isinstance(values, list | tuple) or not values:
        raise InvalidParameterError(name, values, "must list at least one")
    return values


def _used(use: Any) -> Used:
    if not isinstance(use, list | tuple) or len(use) != 3 or not isinstance(use[0], str | None):
        raise InvalidParameterError("uses", use, "must be (block, times, event)")
    return use[0], _validate.integer("times", use[1], at_least=1), inner_event("uses", use[2], Event)
