r"""The event of a search: the best of a secret random number of runs, each with a score that is part of the run.

Runs are independent draws from one law Q: a candidate drawn uniformly, its fit, its noisy score. The number K of runs
is random and secret, with

    P(K = k)  proportional to  w_k,   w_1 = 1,   w_k = w_(k-1) (1 - gamma) (k - 1 + shape)/k,   k = 1 ... most,

the negative binomial distribution without its zero, cut off at `most`. Only the run with the best score is released.

**Theorem.** Let ``delta_Q`` be the profile of Q, and e a number with ``(1 - gamma) delta_Q(e) <= gamma (exp(e) - 1)``.
Then the search has the profile ``E[K] delta_Q(epsilon - (1 + shape) e)``. If Q is epsilon-DP, it is
``(2 + shape) epsilon``-DP, also for ``gamma = 0``.

Proof. Let ``f(z) = E[z^K]``, and F_t, for t in [0, 1], the chance that a run scores less than a given score, or the
same and a coin of bias t falls heads; among runs of equal score the first is taken. An outcome with that score has
probability ``q h``, q under Q, ``h = integral of f'(F_t) dt``. Write F' for the neighbour's. As chances of one event,
``1 - F'_t <= exp(e) (1 - F_t) + delta_Q(e)``; so, for ``G = gamma + (1 - gamma)(1 - F)``, ``G' <= gamma +
exp(e) (1 - gamma)(1 - F) + gamma (exp(e) - 1) = exp(e) G``. Without the cut-off ``f'(F)`` is proportional to
``G^-(1 + shape)``: its ratio to the neighbour's is at most ``exp((1 + shape) e)``. The cut-off leaves a partial sum S
of the power series of f'. S grows with z, and S/f' does not (tail over partial sum grows, for every series without
negative coefficients). So where F is at least F', the ratio of S is at most that of f', and elsewhere at most 1. Hence
``h <= exp(c) h'``, ``c = (1 + shape) e``, and for any event A, as ``h <= f'(1) = E[K]``, ``P(A) - exp(epsilon) P'(A)
<= sum over A of h (q - exp(epsilon - c) q')_+ <= E[K] delta_Q(epsilon - c)``. For a pure Q every ratio is bounded, with
``e = epsilon``, as delta_Q is 0 there: ``q h <= exp(epsilon) q' exp((1 + shape) epsilon) h'``. QED.

The pure part is Papernot and Steinke 2022, "Hyperparameter tuning with Renyi differential privacy", Theorem 7 of its
appendix, after Liu and Talwar 2019; the profile sharpens Koskela, Redberg and Wang 2024, "Privacy profiles for private
selection", Theorem 3.1, by the choice of e, and adds the cut-off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from dpconvex import _rounding, _validate
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.events.basic import Event, Parts, pure_delta
from dpconvex.privacy.profiles import charge, smallest

LAW_SLACK = Fraction(1, 2**50)
"""Added to epsilon: the weights of the number of runs are floats, each within 2^-53 of the formula, relative to it."""
MOST_RUNS = 10_000

Used = tuple[str | None, int, Event]
"""The block of records that is read (None: all), how often, and what it costs."""


@dataclass(frozen=True)
class WholeRun(Event):
    """Several uses of mechanisms, on all records or on disjoint blocks of them, as one event.

    Parameters
    ----------
    uses : tuple of (block, times, event)
        At least one; events may be mappings of their fields, as certificates have them.
    """

    uses: tuple[Used, ...]
    kind: ClassVar[str] = "whole_run"

    def __post_init__(self) -> None:
        object.__setattr__(self, "uses", tuple(_used(use) for use in _listed("uses", self.uses)))

    @cached_property
    def _lists(self) -> list[list[tuple[Event, int]]]:
        """Events that add up: those of all records together with those of each block."""
        everywhere = [(event, times) for block, times, event in self.uses if block is None]
        blocks: dict[str, list[tuple[Event, int]]] = {}
        for block, times, event in self.uses:
            if block is not None:
                blocks.setdefault(block, []).append((event, times))
        return [everywhere + events for events in blocks.values()] or [everywhere]

    def _charge(self) -> None:
        from dpconvex.privacy.accounting import charge_list

        for events in self._lists:
            charge_list(len(events))

    @property
    def pure_epsilon(self) -> Fraction | None:
        """Of the dearest block with what touches every record; None if a use has none."""
        self._charge()
        totals = [[(event.pure_epsilon, times) for event, times in events] for events in self._lists]
        if any(pure is None for events in totals for pure, _ in events):
            return None
        return max(sum((pure * times for pure, times in e if pure is not None), Fraction(0)) for e in totals)

    @property
    def parts(self) -> Parts | None:
        """Each part of the block in which it is largest; None if a use has no such form."""
        self._charge()
        known = [[(event.parts, times) for event, times in events] for events in self._lists]
        if any(part is None for parts in known for part, _ in parts):
            return None
        totals = [_added([(part, times) for part, times in parts if part is not None]) for parts in known]
        largest = (max(getattr(each, name) for each in totals) for name in ("pure", "mu", "failure", "rho"))
        return Parts(*largest)

    def delta(self, epsilon: float) -> float:
        """Of the dearest block with what touches every record."""
        from dpconvex.privacy import accounting

        pure = self.pure_epsilon
        if pure is not None:
            return pure_delta(pure, epsilon)
        return max(accounting.spent_delta(events, epsilon) for events in self._lists)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, the events as mappings."""
        return {"kind": self.kind, "uses": [[block, times, event.to_dict()] for block, times, event in self.uses]}


@dataclass(frozen=True)
class RepeatedSelection(Event):
    """The best of a secret random number of runs; see the module's docstring.

    Parameters
    ----------
    runs : tuple of Event
        What one run costs, one event for every candidate that it may draw; at least one. The profile of Q is at most
        the largest of theirs (joint convexity). Mappings of their fields, as certificates have them, are accepted.
    shape : float
        Above -1, at most 10.
    gamma : float
        In [0, 1). 0 for pure promises only.
    most : int
        Largest number of runs, 1 to 10,000.
    """

    runs: tuple[Event, ...]
    shape: float
    gamma: float
    most: int
    kind: ClassVar[str] = "repeated_selection"

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(_event(run) for run in _listed("runs", self.runs)))
        _validate.real("shape", self.shape, above=-1.0, at_most=10.0)
        _validate.real("gamma", self.gamma, at_least=0.0, below=1.0)
        if _validate.integer("most", self.most, at_least=1) > MOST_RUNS:
            raise InvalidParameterError("most", self.most, f"must be at most {MOST_RUNS}")

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Law of the number of runs: weights w_1 ... w_most, each within 2^-53 of the formula."""
        charge(150 * self.most)
        w, found = Fraction(1), [1.0]
        for k in range(2, self.most + 1):
            # A float's worth of guard digits: exact fractions would grow with k. Their error is far below 2^-53.
            w = (w * (1 - Fraction(self.gamma)) * (k - 1 + Fraction(self.shape)) / k).limit_denominator(2**400)
            found.append(float(w))
        return tuple(found)

    @cached_property
    def expected(self) -> float:
        """Expected number of runs, rounded up."""
        total = math.fsum(self.weights)
        return _rounding.widen_up(math.fsum(k * w for k, w in enumerate(self.weights, 1)) / total)

    @property
    def pure_epsilon(self) -> Fraction | None:
        """``(2 + shape)`` times that of a run; None if a run has none. A single run costs itself."""
        each = [run.pure_epsilon for run in self.runs]
        if any(pure is None for pure in each):
            return None
        largest = max(pure for pure in each if pure is not None)
        return largest if self.most == 1 else (2 + Fraction(self.shape)) * largest + LAW_SLACK

    def run_delta(self, epsilon: float) -> float:
        """Profile of one run: the largest of the candidates'."""
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
        """What selection adds to epsilon, ``(1 + shape) e`` and the law's slack, rounded up; 0 for a single run."""
        if self.most == 1:
            return 0.0
        if math.isinf(self.exponent):
            return math.inf
        return _rounding.float_up((1 + Fraction(self.shape)) * Fraction(self.exponent) + LAW_SLACK)

    def delta(self, epsilon: float) -> float:
        """The smaller of the theorem's two profiles."""
        charge(100)
        pure = self.pure_epsilon
        worst = 1.0 if pure is None else pure_delta(pure, epsilon)
        if worst == 0.0 or self.charge > epsilon:
            return worst
        left = _rounding.difference_down(epsilon, self.charge)
        return min(worst, 1.0, _rounding.product_up(self.expected, self.run_delta(left)))

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, the runs as mappings."""
        runs = [run.to_dict() for run in self.runs]
        return {"kind": self.kind, "runs": runs, "shape": self.shape, "gamma": self.gamma, "most": self.most}


def _added(parts: Sequence[tuple[Parts, int]]) -> Parts:
    """Parts of a composition, rounded up: Gaussian ones add as the root of the sum of squares, all others plainly."""
    pure = sum((part.pure * times for part, times in parts), Fraction(0))
    squares, failure, rho = (
        _rounding.float_up(sum((Fraction(getattr(p, name)) ** power * t for p, t in parts), Fraction(0)))
        for name, power in (("mu", 2), ("failure", 1), ("rho", 1))
    )
    alone = [part.mu for part, times in parts for _ in range(min(times, 2)) if part.mu]
    mu = alone[0] if len(alone) == 1 else _rounding.widen_up(math.sqrt(squares)) if alone else 0.0
    return Parts(pure, mu, failure, rho)


def _listed(name: str, values: Any) -> Sequence[Any]:
    if not isinstance(values, list | tuple) or not values:
        raise InvalidParameterError(name, values, "must list at least one")
    return values


def _event(value: Any) -> Event:
    """Return an event, or the one that a mapping of its fields describes."""
    from dpconvex.privacy.events.registry import event_from_dict

    if isinstance(value, dict):
        return event_from_dict(value)
    if not isinstance(value, Event):
        raise InvalidParameterError("event", value, "must be an event")
    return value


def _used(use: Any) -> Used:
    if not isinstance(use, list | tuple) or len(use) != 3 or not isinstance(use[0], str | None):
        raise InvalidParameterError("uses", use, "must be (block, times, event)")
    return use[0], _validate.integer("times", use[1], at_least=1), _event(use[2])
