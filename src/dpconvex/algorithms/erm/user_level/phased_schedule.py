r"""Choice of the sizes, step sizes and releases of phased one-pass SGD that minimize its bound.

Bound
    Theorem 5 of the docs (User-level privacy), on the expected excess *population* risk over the ball of radius R, for
    users with M records each, all drawn independently from one distribution. A test that fails costs at most ``2 L R``.
Radius
    Lemma 4 of the docs, or `PRACTICAL_SPREAD` (in 200000 measured pairs at most 2.1), which the bound then presumes.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms.erm.user_level.aggregates import Aggregate, Guarded, Searched, plain, plain_length, searched
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import RobustMean
from dpconvex.mechanisms.robust_mean import budget, robust_mean_of
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem

TEST_FAILURE = 1e-5  #: Probability beta that a test fails although points are close; also that points are not close.
PRACTICAL_SPREAD = 2.5  #: Default radius in units of ``eta L sqrt(T)``.


@dataclass(frozen=True)
class Phase:
    """One phase: C parts of N users each, who walk at most T steps."""

    first: int  #: index of the phase's first user in the random order of users
    parts: int  #: number C of parts
    users: int  #: number N of users in a part
    steps: int  #: most steps T in a part
    step_size: float  #: step size eta
    aggregate: Aggregate


@dataclass(frozen=True)
class Schedule:
    """All phases, a bound of the expected excess population risk, its source, and whether the result is projected."""

    phases: tuple[Phase, ...]
    bound: float
    source: str
    projected: bool


@dataclass(frozen=True)
class Facts:
    """The public facts and options that the search works with."""

    problem: LinearModelProblem  #: of n users with M records each; with L, beta and R
    privacy: PrivacyParams
    constant: float | None  #: radius in units of eta L sqrt(T); None: the proven radius
    searching: bool  #: whether the radius is found privately
    kind: str = "auto"  #: which releases may be used: "auto", "robust" or "plain"

    @classmethod
    def of(cls, problem: LinearModelProblem, privacy: PrivacyParams, radius: str | float, kind: str) -> "Facts":
        """Return the facts of a problem."""
        spreads = {"practical": PRACTICAL_SPREAD, "provable": None, "private": PRACTICAL_SPREAD}
        constant = spreads[radius] if isinstance(radius, str) else float(radius)
        return cls(problem, privacy, constant, radius == "private", kind)

    @property
    def records(self) -> int:
        """The number M of a user's records."""
        return self.problem.records_per_user or 1

    def spread(self, parts: int) -> float:
        """Return the radius in units of ``eta L sqrt(T)``."""
        if self.constant is not None:
            return self.constant
        return proven_spread(math.log(parts**2 / (2 * TEST_FAILURE)))


def proven_spread(level: float) -> float:
    """Return ``b(l) = 2 (sqrt(l) + sqrt(l + 1))``: two parts exceed it with probability at most ``e^-l``."""
    return 2 * (math.sqrt(level) + math.sqrt(level + 1))


@dataclass(frozen=True)
class _Shape:
    """The constants of all phases but the step size and the releases."""

    parts: int
    sizes: tuple[int, ...]
    decay: int  #: exponent k of ``eta_i = eta 2^(-k (i-1))``


def phase_sizes(n: int, phases: int) -> tuple[int, ...]:
    """Return the users of each phase: ``n/2, n/4, ...``, rounded down; the last has the rest (erratum E20)."""
    halves = [n >> i for i in range(1, phases)]
    return (*halves, n - sum(halves))


def calibrated(facts: Facts, groups: int | None = None, phases: int | None = None) -> Schedule:
    """Return the schedule of least bound for these numbers of groups (C) and phases; raise for too few users."""
    kinds = ("auto", "plain") if facts.kind == "auto" else (facts.kind,)  # plain alone may be better: tests may fail
    found = [_best_shape(replace(facts, kind=kind), groups, phases) for kind in kinds]
    _, shape, step, kind = min(found, key=lambda choice: choice[0])
    if shape is None:
        what = f"leaves too few users in a group or too few groups for the promise, of {facts.problem.n} users in all"
        raise InvalidParameterError("groups", groups, what, "Use other groups, fewer phases or aggregate='plain'")
    return _built(replace(facts, kind=kind), shape, step)


def _best_shape(facts: Facts, groups: int | None, phases: int | None) -> tuple[float, _Shape | None, float, str]:
    """Return the least bound, its shape, its first step size, and the kind of releases."""
    problem, best, chosen, step = facts.problem, math.inf, None, 0.0
    first = 2.0 ** (-np.arange(-4, 33) / 2)  # step sizes, in units of R / (L sqrt(T))
    counts = range(1, 7) if phases is None else [phases]
    for sizes in (phase_sizes(facts.problem.n, count) for count in counts):
        most = max(sizes[-1], 1)
        grid = {round(2 ** (k / 2)) for k in range(2 * int(math.log2(most)) + 1)} | {sizes[-1]}  # of ratio sqrt(2)
        for C in sorted(grid & set(range(1, min(sizes[-1], 20_000) + 1))) if groups is None else [groups]:
            if min(sizes) < C:
                continue
            for decay in (1, 2, 3) if len(sizes) > 1 else (1,):
                shape = _Shape(C, sizes, decay)
                etas = problem.radius / (problem.lipschitz * math.sqrt(_steps(facts, shape)[0])) * first
                bounds = np.minimum(*_bounds(facts, shape, etas))
                at = int(np.argmin(bounds))
                if bounds[at] < best:
                    best, chosen, step = float(bounds[at]), shape, float(etas[at])
    return best, chosen, step, facts.kind


def _steps(facts: Facts, shape: _Shape) -> list[int]:
    return [max(1, size // shape.parts * facts.records) for size in shape.sizes]


def _bounds(facts: Facts, shape: _Shape, etas: Floats) -> tuple[Floats, Floats]:
    """Return the bound with and without a last projection, for several first step sizes."""
    L, R, d = facts.problem.lipschitz, facts.problem.radius, facts.problem.dim
    square, total = np.full(len(etas), R**2), np.zeros(len(etas))
    for i, T in enumerate(_steps(facts, shape)):
        eta = etas * 2.0 ** (-shape.decay * i)
        total += np.minimum(square, 4 * R**2) / (2 * eta * T) + eta * L**2 / 2  # online to batch
        guarded, direct = _deviations(facts, shape.parts, T, eta)
        total += np.where(guarded < direct, 2 * TEST_FAILURE * 2 * L * R, 0.0)  # the loss if a test fails
        square = d * np.minimum(guarded, direct) ** 2  # from this phase's noise to the next one's start
    return total + L * np.sqrt(np.minimum(square, 4 * R**2)), total + facts.problem.curvature / 2 * square


def _deviations(facts: Facts, C: int, T: int, eta: Floats) -> tuple[Floats, Floats]:
    """Return the noise deviations of the guarded (or searched) mean and of the plain mean."""
    mu, _ = budget(facts.privacy.epsilon, facts.privacy.delta)
    L, R = facts.problem.lipschitz, facts.problem.radius
    direct = 2 * np.minimum(R, eta * L * T) / (C * mu)
    radius = facts.spread(C) * eta * L * math.sqrt(T)
    if facts.searching:
        found = _searched(facts, C, (1.0,), 1.0)
        scale = math.inf if found is None else found.kappa * found.noise.sigma
    else:
        mean = _robust(facts, C)
        scale = math.inf if mean is None else mean.deviation
    never = np.full_like(eta, np.inf)
    if facts.kind == "robust":
        return scale * radius, never
    if facts.kind == "plain":
        return never, direct
    return np.where(radius < 2 * R, scale * radius, np.inf), direct  # any two points are within 2 R


def _built(facts: Facts, shape: _Shape, eta: float) -> Schedule:
    first, phases, presumed = 0, [], False
    for i, (size, T) in enumerate(zip(shape.sizes, _steps(facts, shape), strict=True)):
        step = eta * 2.0 ** (-shape.decay * i)
        if step * facts.problem.lipschitz * T < 1e-10 * facts.problem.radius:
            break  # a phase that moves so little is not worth its users
        aggregate = _aggregate(facts, shape.parts, T, step)
        presumed |= aggregate.presumes_radius
        phases.append(Phase(first, shape.parts, size // shape.parts, T, step, aggregate))
        first += size
    projected, free = (float(bound[0]) for bound in _bounds(facts, shape, np.array([eta])))
    source = "phased one-pass SGD, telescoped (docs, User-level privacy); for independent records of one distribution"
    if presumed and facts.constant is not None:
        source += f", provided that groups' averages are within {facts.constant:g} eta L sqrt(T) of one another"
    return Schedule(tuple(phases), min(projected, free), source, projected <= free)


def _aggregate(facts: Facts, C: int, T: int, step: float) -> Aggregate:
    """Return the release with the least noise; public numbers decide."""
    guarded, direct = (float(noise[0]) for noise in _deviations(facts, C, T, np.array([step])))
    problem, L, R = facts.problem, facts.problem.lipschitz, facts.problem.radius
    reach = step * L * T
    radius, clip = facts.spread(C) * step * L * math.sqrt(T), min(2 * R, reach)
    if not guarded < direct:
        mu, _ = budget(facts.privacy.epsilon, facts.privacy.delta)
        return plain(C, problem.dim, min(R, reach), reach >= R, mu, facts.privacy.unit)
    if facts.searching:
        ends = sorted({radius * 2.0 ** (-k / 2) for k in range(-6, 15)})
        found = _searched(facts, C, tuple(rho for rho in ends if rho < plain_length(C, clip) * C), clip)
        assert found is not None  # its noise was finite; tells the type checker
        return found
    mean = _robust(facts, C)
    assert mean is not None  # its noise was finite; tells the type checker
    return Guarded(mean, radius, clip)


def _robust(facts: Facts, C: int) -> RobustMean | None:
    mu, test = budget(facts.privacy.epsilon, facts.privacy.delta)
    return robust_mean_of(C, facts.problem.dim, mu, test, failure=TEST_FAILURE, unit=facts.privacy.unit)


@lru_cache(maxsize=256)
def _searched(facts: Facts, C: int, grid: tuple[float, ...], clip: float) -> Searched | None:
    privacy, dim = facts.privacy, facts.problem.dim
    return searched(C, dim, privacy.epsilon, privacy.delta, grid, clip, failure=TEST_FAILURE, unit=privacy.unit)
