"""Checks of experiments: a measured number with its error, two limits, and how often the check fails in vain.

A check passes if its number lies between its limits. The limits are the claimed ones, widened for statistical error:
if the claim is true the check fails with probability at most `alarm`, which is `SINGLE`, or 0 for exact numbers.
Limits come from a theorem, from the plan that was run, or from our own *anchors*: what the same measurement gave for
other seeds (``anchors.json``, written by ``tools/anchors.py``). A number must be within `TOLERANCE` of its anchor.

Student's t is exact for normal numbers only. Means of few skewed runs are not normal: anchors are compared by
logarithms, and the tolerance covers more than chance does; twenty seeds of every experiment are run by the slow tests.
"""

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import stats

ALARM = 1e-3
"""Upper limit of the sum of the false-alarm probabilities of an experiment's checks."""
SINGLE = 1e-5
"""Probability of a false alarm of one check."""
TOLERANCE = 0.25
"""Largest relative distance of a number from its anchor, in addition to statistical error."""
Basis: TypeAlias = Literal["theorem", "plan", "anchor"]


class Estimate(NamedTuple):
    """A measured number, its standard error, and from how many independent runs."""

    value: float
    error: float = 0.0
    runs: int = 1

    @classmethod
    def of(cls, values: Iterable[float]) -> "Estimate":
        """Return the mean; a single run has no error of its own."""
        found = np.fromiter(values, dtype=np.float64)
        error = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else 0.0
        return cls(float(found.mean()), error, len(found))

    @classmethod
    def quantile(cls, values: Iterable[float], share: float) -> "Estimate":
        """Return a quantile; error: half the distance between the quantiles a standard error of `share` away."""
        found = np.fromiter(values, dtype=np.float64)
        off = math.sqrt(share * (1 - share) / len(found))
        low, middle, high = np.quantile(found, (max(0.0, share - off), share, min(1.0, share + off)))
        return cls(float(middle), float(high - low) / 2, len(found))

    @classmethod
    def share(cls, hits: int, runs: int) -> "Estimate":
        """Return a frequency."""
        return cls(hits / runs, math.sqrt(hits * (runs - hits) / runs**3), runs)

    @property
    def deviation(self) -> float:
        """Standard deviation of a single run, where the number is a mean."""
        return self.error * math.sqrt(self.runs)

    def times(self, factor: float) -> "Estimate":
        """Return a known multiple."""
        return Estimate(factor * self.value, abs(factor) * self.error, self.runs)

    def over(self, other: "Estimate") -> "Estimate":
        """Return the ratio, with the error of independent numbers."""
        ratio = self.value / other.value
        relative = math.hypot(self.error / self.value, other.error / other.value) if self.value else 0.0
        return Estimate(ratio, abs(ratio) * relative, min(self.runs, other.runs))


def exponent(x: Sequence[float], y: Sequence[Estimate]) -> Estimate:
    """Return the exponent of the power law that fits best (least squares of logarithms), for independent numbers."""
    centered = np.log(x) - np.log(x).mean()
    weights = centered / (centered**2).sum()
    value = float(weights @ np.log([max(e.value, 1e-300) for e in y]))
    error = math.sqrt(sum((w * e.error / e.value) ** 2 for w, e in zip(weights, y, strict=True) if e.value))
    return Estimate(value, error, 1 + sum(e.runs - 1 for e in y))


@dataclass(frozen=True)
class Check:
    """A number that must lie between limits."""

    name: str  #: what is measured
    value: float  #: value, error, runs: the number, its standard error, and from how many independent runs
    error: float
    runs: int
    low: float  #: low, high: the limits, statistical error included
    high: float
    basis: Basis  #: where the limits come from: theorem, plan, or anchor
    test: str  #: the distribution that widens the limits: t, binomial, a named test, or none for exact numbers
    alarm: float  #: bound on the probability that the check fails although the claim is true
    # How the number is compared with its anchor: by logarithms, or linearly; empty if it has no anchor.
    scale: Literal["", "log", "linear"] = ""

    @property
    def passed(self) -> bool:
        """Whether the number lies between the limits; one that is not finite does not."""
        return math.isfinite(self.value) and self.low <= self.value <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the verdict."""
        return {**asdict(self), "passed": bool(self.passed)}


def exact(name: str, value: float, low: float, high: float, basis: Basis = "theorem") -> Check:
    """Check a number that chance does not move, or a claim that holds for every draw.

    Limits are widened by nothing. A flag is checked as 1 between 1 and 1.
    """
    return Check(name, float(value), 0.0, 1, low, high, basis, "exact", 0.0)


def mean(name: str, found: Estimate, low: float, high: float, basis: Basis = "theorem") -> Check:
    """Check that a mean's expectation lies between limits, by Student's t with the runs' own deviation."""
    if found.runs < 2:
        return Check(name, *found, math.nan, math.nan, basis, "t, one run", SINGLE)
    slack = _quantile(found.runs - 1) * found.error
    return Check(name, *found, low - slack, high + slack, basis, f"t, {found.runs - 1}", SINGLE)


def share(name: str, hits: int, runs: int, low: float, high: float, basis: Basis = "theorem") -> Check:
    """Check that the probability of an event that was counted lies between limits (Clopper and Pearson's test)."""
    least = stats.binom.ppf(SINGLE / 2, runs, low) / runs
    most = stats.binom.isf(SINGLE / 2, runs, high) / runs
    return Check(name, *Estimate.share(hits, runs), float(least), float(most), basis, "Clopper-Pearson", SINGLE)


def p_value(name: str, found: float, runs: int, test: str) -> Check:
    """Check that a test of an exact distribution does not reject; `test` says which."""
    return Check(name, float(found), 0.0, runs, SINGLE, 1.0, "theorem", test, SINGLE)


def largest_t(name: str, found: Iterable[float], freedom: int) -> Check:
    """Check that the largest of many t statistics, dependent or not, is no larger than their number makes it."""
    statistics = [abs(float(t)) for t in found]
    most = float(stats.t.isf(SINGLE / 2 / len(statistics), freedom))
    test = f"t, {freedom}, of {len(statistics)}"
    return Check(name, max(statistics), 1.0, freedom + 1, 0.0, most, "theorem", test, SINGLE)


class Anchor(NamedTuple):
    """What the same measurement gave for other seeds.

    `spread` is the standard deviation of one measurement (of its logarithm, where the scale is logarithmic), and
    `freedom` how well it is known.
    """

    value: float
    spread: float
    freedom: int
    seeds: int

    def between(self, low: float, high: float, *, log: bool) -> tuple[float, float]:
        """Return limits widened by what one more measurement differs from `seeds` earlier ones."""
        slack = _quantile(self.freedom) * self.spread * math.sqrt(1 + 1 / self.seeds)
        slack = min(slack, 700.0) if log else slack  # no overflow
        return (low * math.exp(-slack), high * math.exp(slack)) if log else (low - slack, high + slack)


@dataclass(frozen=True)
class Anchors:
    """The anchors of one experiment at one size."""

    experiment: str
    quick: bool

    def near(self, found: Mapping[str, Estimate], *, linear: bool = False) -> tuple[Check, ...]:
        """Check that every number is within `TOLERANCE` of its anchor; and their geometric mean, which varies less.

        An experiment never anchored at this size has no such checks, and its claims are tested with its own errors.
        """
        if not self.known:
            return ()
        checks = []
        if len(found) > 1 and not linear:
            logs = np.log([max(e.value, 1e-300) for e in found.values()])
            relative = float(np.mean([e.error / max(e.value, 1e-300) for e in found.values()]))
            middle = math.exp(float(logs.mean()))
            # Distinct numbers may come from the same runs: their errors are added as if they were one.
            all_ = Estimate(middle, middle * relative, min(e.runs for e in found.values()))
            found = {**found, f"geometric mean of {next(iter(found))!r} and {len(found) - 1} more": all_}
        for name, estimate in found.items():
            value = self._anchor(name).value
            wide = (value - TOLERANCE * abs(value), value + TOLERANCE * abs(value))
            limits = wide if linear else (value / (1 + TOLERANCE), value * (1 + TOLERANCE))
            checks.append(self._check(name, estimate, *limits, "anchor", linear))
        return tuple(checks)

    def within(
        self, name: str, found: Estimate, low: float, high: float, basis: Basis = "theorem", *, linear: bool = False
    ) -> Check:
        """Check that a number lies between limits, widened by how much it varied from seed to seed."""
        if not self.known:
            return mean(name, found, low, high, basis) if found.runs > 1 else exact(name, found.value, low, high, basis)
        return self._check(name, found, low, high, basis, linear)

    def _check(self, name: str, found: Estimate, low: float, high: float, basis: Basis, linear: bool) -> Check:
        anchor = self._anchor(name)
        limits = anchor.between(low, high, log=not linear)
        return Check(name, *found, *limits, basis, f"t, {anchor.freedom}", SINGLE, "linear" if linear else "log")

    @property
    def known(self) -> bool:
        """Whether the experiment was anchored at this size."""
        return bool(self._all)

    @property
    def _all(self) -> dict[str, list[Any]]:
        return _anchors().get(self.experiment, {}).get("quick" if self.quick else "full", {})

    def _anchor(self, name: str) -> Anchor:
        """Return the anchor of a name; if there is none, an anchor that no number is near, so that the check fails."""
        value, spread, freedom, seeds = self._all.get(name, (math.nan, math.nan, 1, 1))
        return Anchor(value, spread, int(freedom), int(seeds))


@functools.cache
def _anchors() -> dict[str, dict[str, dict[str, list[Any]]]]:
    return json.loads((files("dpconvex_experiments") / "anchors.json").read_text(encoding="utf-8"))


@functools.cache
def _quantile(freedom: int) -> float:
    return float(stats.t.isf(SINGLE / 2, freedom))
