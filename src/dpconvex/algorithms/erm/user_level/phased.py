r"""Phased one-pass SGD over parts of the users (Lowy, Liu and Asi 2024, Algorithm 1).

Guarantee
    (epsilon, delta)-DP for neighbors that replace one *user*: everything that the data hold under one label.
Lemma
    Users are put into disjoint phases, and within a phase into C disjoint parts, by uniform coins. Given the coins and
    what earlier phases released, a user moves the result of one part of one phase. The release of a phase is
    (epsilon, delta)-DP for one replaced result of a part, whatever the results are (`aggregates`): parallel
    composition over phases. Averaging over the coins keeps the guarantee (joint convexity), and as they are uniform,
    it does not matter where a replaced user stands among the others.
Sensitivity
    A mean of C points, one of which moves, changes in l2 by at most 2 c / C, or by kappa times a radius after a noisy
    test (`mechanisms.robust_mean`). The number of users is public, the number of records of a user is not.
Failure
    The test is part of the release. A run whose test fails stops and returns the point that it released last (erratum
    E16), or the origin, with a status. Privacy does not rest on L, on smoothness or on the law of records.
Deviations
    Calibrated: h-index test, deterministic weights, exact accounting; sample-and-aggregate where its noise is smaller;
    C, step sizes and number of phases minimize the bound. Radius 0 does not fail: `radius="private"` searches it.
Bound
    Theorem 5 of the docs (User-level privacy), on the expected excess *population* risk over the ball of radius R, for
    users with M records each, all drawn independently from one distribution. A test that fails costs at most ``2 L R``.
Radius
    Lemma 4 of the docs, or `PRACTICAL_SPREAD` (in 200000 measured pairs at most 2.1), which the bound then presumes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate, algorithms
from dpconvex._types import Array, Floats, Positions, attributes, final_dataclass, forwarded
from dpconvex.algorithms.erm.user_level.aggregates import Aggregate, Guarded, Searched, plain, plain_length, searched
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LinearModelLoss
from dpconvex.mechanisms import RobustMean
from dpconvex.mechanisms.robust_mean import budget, robust_mean_of
from dpconvex.plugins import of_paper
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Unit
from dpconvex.problems import LinearModelProblem, Records, UserGroups
from dpconvex.problems.data import summation
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball
from dpconvex.solvers import stochastic

TEST_FAILURE = 1e-5  #: Probability beta that a test fails although points are close; also that points are not close.
PRACTICAL_SPREAD = 2.5  #: Default radius in units of ``eta L sqrt(T)``.
_PORTION = 2**19  # least number of floats read at a time (4 MB)
_SHARE = 32  # a portion is at least this part of the data, so that few passes are made
_OWN_GROUP = "a group's result depends on its own users, released values and coins of its own"
RADII = ("practical", "provable", "private")
AGGREGATES = ("auto", "robust", "plain")


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


@final_dataclass(eq=False)
class PhasedPlan(algorithms.StatedPlan):
    """Constants of one run of phased SGD in the ball of the problem's radius."""

    schedule: Schedule  #: The phases and their bound
    constants: str = "calibrated"
    noise_name: str = "gaussian"
    l2: float = 0.0
    algorithm: ClassVar[str] = "phased_sgd"
    assumptions = (  # pyright: ignore[reportAssignmentType]
        Assumption("users are assigned to phases and groups without looking at data", "uniform coins by position"),
        Assumption(_OWN_GROUP, "records are read, drawn and walked over group by group"),
        Assumption("records of one person have one label", "declared: two labels are two users"),
    )
    phases = forwarded("schedule", "phases")  #: The phases in the order in which they run

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        trivial = min(self.problem.trivial, self.problem.lipschitz * self.problem.radius)
        return algorithms.PredictedError(self.schedule.bound, trivial, self.schedule.source)

    @property
    def gradient_evaluations(self) -> int:
        """Most record gradients that a run evaluates: one for each record, up to each user's cap."""
        return sum(phase.parts * phase.steps for phase in self.phases)

    @property
    def releases(self) -> tuple[Release, ...]:
        return tuple(each for i, phase in enumerate(self.phases, 1) for each in phase.aggregate.releases(*_names(i)))

    @property
    def theorem(self) -> str:
        text = "Phased one-pass SGD over groups of users (Lowy, Liu and Asi 2024, Algorithm 1)"
        if self.constants == "paper":
            return text + ", Theorem 2.1 with the exact sensitivity of Lemma B.2 and an even number of groups."
        return text + ": h-index test with deterministic weights, or sample and aggregate; phases read disjoint users."

    @property
    def coefficient_deviation(self) -> Floats:
        return np.full(self.problem.dim, self.phases[-1].aggregate.deviation)

    def describe(self) -> Mapping[str, Any]:
        phases = [
            {"groups": each.parts, "users_per_group": each.users}
            | {**attributes(each, "steps", "step_size"), **each.aggregate.describe()}
            for each in self.phases
        ]
        facts = {"noise": self.noise_name, "gradient_evaluations": self.gradient_evaluations}
        return {**facts, "fallback": "the point released by the phase before, at first the origin", "phases": phases}

    def exact_bits(self, source: BitSource) -> bool:
        return source.exact  # all noise is discrete Gaussian or Laplace

    def _run(self, X: Array, y: Array, groups: UserGroups, source: BitSource) -> algorithms.PrivateResult:
        """In each phase, run SGD over each part of users from the last released point, and release the mean result."""
        ledger, problem = Ledger(self.privacy, self.releases), self.problem
        records, targets = Records.clipped(X, problem.domain), problem.loss.clip_targets(y)
        data = Pooled(problem.loss, records, targets, groups, problem.radius, problem.records_per_user or 1)
        order, ball = source.generator().permutation(problem.n), L2Ball(problem.radius)
        x = np.zeros(problem.dim)
        for i, phase in enumerate(self.phases, 1):  # line 1
            members = order[phase.first : phase.first + phase.parts * phase.users]  # line 2
            users, (label, block) = members.reshape(phase.parts, -1), _names(i)
            walked = data.displacements(users, x, phase.step_size, source)  # line 3
            moved = phase.aggregate.release(walked, x, label, source, ledger, block)  # lines 4 to 6
            if moved is None:
                return self.finish(x, source, f"the test of phase {i} of {len(self.phases)} failed")
            x = x + moved if i == len(self.phases) and not self.schedule.projected else ball.project(x + moved)
        return self.finish(x, source)


def _names(phase: int) -> tuple[str, str]:
    """Return the label of a phase's release, and the name of the users that it reads."""
    return f"mean iterate of phase {phase}", f"users of phase {phase}"


@final_dataclass(eq=False)
class Pooled:
    """One pass of projected SGD over each part's records, at most `cap` of each user: one user moves one result."""

    loss: LinearModelLoss
    records: Records
    targets: Floats
    groups: UserGroups
    radius: float
    cap: int

    def displacements(self, users: Array, start: Floats, step: float, source: BitSource) -> Floats:
        """Return how far each part's average iterate is from the start, (parts, dim); `users` is (parts, users)."""
        moved, total = np.zeros((2, len(users), len(start)))
        lengths, pieces, size = np.ones((len(users), 1)), [], 0
        portion = max(_PORTION // self.records.dim, self.records.n // _SHARE)
        for j, members in enumerate(users):
            index = drawn_records(self.groups, members, self.cap, source.generator())
            lengths[j] = max(1, len(index))
            for first in range(0, len(index), portion):
                pieces.append((j, index[first : first + portion]))
                size += len(pieces[-1][1])
                if size >= portion:  # so no two pieces of a part are walked at once
                    self._walk(pieces, start, step, moved, total)
                    pieces, size = [], 0
        self._walk(pieces, start, step, moved, total)
        return total / lengths

    def _walk(
        self, pieces: list[tuple[int, Positions]], start: Floats, step: float, moved: Floats, total: Floats
    ) -> None:
        """Continue the SGD of some parts over a piece of each part's records; reading all pieces at once is faster."""
        from dpconvex.solvers import _loops

        if not pieces:
            return
        ends = np.cumsum([0, *(len(index) for _, index in pieces)])
        index = np.concatenate([index for _, index in pieces])
        rows, curve = self.records.take(index), stochastic.slope_curve(self.loss, self.targets[index])
        assert curve is not None  # the plan refused other losses; tells the type checker

        def walk(k: int) -> tuple[()]:
            j, part = pieces[k][0], slice(ends[k], ends[k + 1])
            _loops.one_pass(
                rows[part], curve.records[part], curve.shape, curve.scale, start, step, self.radius, moved[j], total[j]
            )
            return ()

        summation.total(len(pieces), walk)


def drawn_records(groups: UserGroups, users: Array, cap: int, coins: np.random.Generator) -> Positions:
    """Return the records of some different users, at most `cap` random ones of each, in random order."""
    first, sizes = groups.starts[users], groups.sizes[users]
    ends = np.cumsum(sizes)
    inside = np.arange(int(ends[-1])) - np.repeat(ends - sizes, sizes)  # 0, 1, ... within each user
    places = np.repeat(first, sizes) + inside
    if bool(np.any(sizes > cap)):
        whose = np.repeat(np.arange(len(users)), sizes)
        places = places[np.lexsort((coins.random(len(places)), whose))][inside < cap]
    places = coins.permutation(places)
    return places if groups.order is None else groups.order[places]


@algorithms.recorded("phased_sgd")
def plan_phased(
    problem: LinearModelProblem, privacy: PrivacyParams, *, constants: str = "calibrated",
    radius: str | float = "practical", aggregate: str = "auto", groups: int | None = None, phases: int | None = None,
) -> PhasedPlan:  # fmt: skip
    """Return the plan, for users, delta positive, and losses of one prediction, bounded slope and a compiled form.

    ``constants="paper"``: printed constants, for more than 100000 users; noise exceeds the diameter at every size.
    `radius`, within which the parts' results should lie, is in units of ``eta L sqrt(T)``: 2.5 (``"practical"``), the
    proven one (``"provable"``, about 18), one found privately (``"private"``), or a number. Privacy does not depend on
    it (calibrated constants only). `aggregate`: test and robust mean (``"robust"``), sample and aggregate
    (``"plain"``), or in each phase the one with less noise (``"auto"``). `groups` and `phases`, the number C of parts
    and that of phases, are by default those of the smallest bound.
    """
    algorithms.check_average(problem, privacy)
    _require_users(problem, privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("aggregate", aggregate, AGGREGATES)
    if isinstance(radius, str):
        _validate.choice("radius", radius, RADII)
    else:
        _validate.real("radius", radius, above=0.0)
    _validate.optional(_validate.integer, {"groups": groups, "phases": phases}, at_least=1)
    facts = Facts.of(problem, privacy, radius, aggregate)
    schedule = of_paper("phased_sgd")(facts) if constants == "paper" else calibrated(facts, groups, phases)
    return PhasedPlan(problem, privacy, schedule, constants)


def _require_users(problem: LinearModelProblem, privacy: PrivacyParams) -> None:
    """Raise `InvalidParameterError` unless the problem is one of users that this algorithm can solve."""
    if privacy.unit != Unit.USER or problem.records_per_user is None:
        raise InvalidParameterError("unit", str(privacy.unit), "must be 'user', of a problem with records_per_user")
    if privacy.pure:
        raise InvalidParameterError("delta", privacy.delta, "must be positive", "Use a value far below 1/n")
    refusal = "needs a loss of bounded slope" if np.isinf(problem.lipschitz) else None
    refusal = "needs one output" if problem.loss.n_outputs > 1 else refusal
    refusal = refusal or stochastic.needs_slope_curve(problem.loss)
    if refusal:
        raise InvalidParameterError("loss", problem.loss.name, f"one-pass SGD {refusal}", "Use another algorithm")
