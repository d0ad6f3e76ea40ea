r"""Methods for heavy tails by name, and plans that first find a level for gradients by a release of their own.

Guarantee
    That of the method, for neighbors that replace one record. A `LeveledPlan` makes two runs: `Scale`, then the method.
    Localization reads other records than its scale, each run at epsilon: adaptive parallel composition. The others read
    the same: `SHARE` of epsilon (pure) and the rest add up (basic composition), delta is the method's.
Sensitivity
    Of each release its own; the second run's constants are functions of the released scale and of public facts.
Assumptions
    Those of the method. Moments, declared or none, are for accuracy: privacy holds with any.
Choice
    ``"auto"`` compares sizes, not bounds, which are of two kinds (on the data, on new records): `chosen`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray
from dpconvex.algorithms import LinearModelPlan, PredictedError, PrivateResult, continued, recorded, within_floats
from dpconvex.algorithms.erm import heavy_tailed
from dpconvex.algorithms.erm.heavy_tailed import Moments, clipped_gradient, clipped_residuals, level
from dpconvex.algorithms.erm.heavy_tailed.level import Scale
from dpconvex.algorithms.erm.heavy_tailed.moments import check_heavy
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.recipes import NAMED
from dpconvex.algorithms.select import LARGEST, SMALLEST, Options
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.randomness import BitSource

SHARE = 0.1
"""Of epsilon, for the level. Ours: 0.05 to 0.2 lose the same within noise from n = 2,000 on."""
FOUND = ("level", "second_moment")
"""What a scale releases; of slopes the level alone."""
APART = 4
"""Localization: every fourth record finds the level."""

WIDEST, NARROW = 0.3, 4.0
"""Longest record, in units of a typical one, up to which ``"auto"`` prefers clipped residuals: the larger of NARROW and
``WIDEST sqrt(n epsilon / d)``. Ours, measured: the two methods cross near 0.3 to 0.45 of that root."""


@final
@dataclass(frozen=True)
class HeavyMethod:
    """A method for heavy tails."""

    #: From problem, promise and moments to the plan; with another constant set as the keyword `constants`
    planner: Callable[..., LinearModelPlan]
    #: The same from problem, promise, constant set, failure probability and what `Scale` released
    leveled: Callable[..., LinearModelPlan]
    #: False: it needs moments of gradients. True: of slopes at the prediction 0, and those where slopes are unbounded.
    slopes: bool = False
    printed: bool = True  #: Whether it has the paper's constants
    apart: bool = False  #: Whether its level is found on records of its own, which the theorem for new records needs
    repeats: bool = False  #: Whether its bound can be had but for a small failure probability

    def __call__(
        self, problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments, constants: str, **more: float
    ) -> LinearModelPlan:
        """Return the plan; `more` may be the `failure` probability."""
        self.check(constants)
        chosen = {} if constants == "calibrated" else {"constants": constants}
        return self.planner(problem, privacy, moments, **chosen, **more)

    def check(self, constants: str) -> None:
        """Raise `InvalidParameterError` if the method lacks the constant set."""
        if constants != "calibrated" and not self.printed:
            remedy = "Use algorithm='heavy_tailed'"
            raise InvalidParameterError("constants", constants, "must be 'calibrated' for this algorithm", remedy)

    def settled(self, problem: LinearModelProblem, k: float) -> Moments | None:
        """Return the moments that public facts tell already: slopes bounded by the loss; None where data must tell."""
        bound = problem.loss.slope_bound
        known = self.slopes and problem.loss.cut(SMALLEST) is None
        return Moments(k, bound) if known else None

    def adapted(self, problem: LinearModelProblem, moments: Moments) -> Moments:
        """Return what the method needs of declared moments of gradients."""
        if not self.slopes:
            return moments
        return self.settled(problem, moments.k) or clipped_residuals.slope_moments(problem, moments)


HEAVY_METHODS: Mapping[str, HeavyMethod] = {
    "heavy_tailed": HeavyMethod(heavy_tailed.plan, level.localized, apart=True, repeats=True),
    "clipped_residuals": HeavyMethod(clipped_residuals.plan, level.ordinary, slopes=True),
    "clipped_gradient": HeavyMethod(clipped_gradient.plan, level.descent, printed=False),
}
"""By the name used in estimators and on the command line; ``"auto"`` is one of the first two, by `chosen`."""
NAMED.update({f"heavy-tailed method {name}": method for name, method in HEAVY_METHODS.items()})


def chosen(problem: LinearModelProblem, privacy: PrivacyParams, constants: str = "calibrated") -> str:
    """Return the method that ``"auto"`` stands for: clipped residuals, unless records may be far longer than typical.

    A typical record is taken to consist of the constant and the one-hot columns. Without a constant, nothing tells.
    Localization, too, where slopes are unbounded and cannot be cut, and for the paper's constants, which are its own.
    """
    loss = problem.loss
    if constants == "paper" or (math.isinf(loss.slope_bound) and loss.cut(SMALLEST) is None):
        return "heavy_tailed"
    unit = problem.domain.intercept
    typical = math.sqrt(math.fsum(min(b.bound, unit) ** 2 for b in problem.domain.all_blocks if b.categorical))
    widest = max(NARROW, WIDEST * math.sqrt(problem.n * privacy.epsilon / problem.dim))
    return "clipped_residuals" if problem.domain.l2 <= widest * typical else "heavy_tailed"


@final
@dataclass(frozen=True)
class LeveledPlan(TwoStagePlan):
    """A level for gradients from the data, then a method that uses it: one promise for both."""

    problem: LinearModelProblem
    privacy: PrivacyParams  #: The promise for everything
    scale: Scale
    #: The method. Before a run: for the largest level; in a result: for the released one.
    then: LinearModelPlan
    method: HeavyMethod  #: Plans `then`
    failure: float | None = None  #: Probability with which the bound may fail; None: it holds in expectation
    released: tuple[float, ...] = ()  #: In a result: level and, of gradients, second moment
    adaptive: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @property
    def algorithm(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return next((name for name, one in HEAVY_METHODS.items() if one is self.method), self.then.algorithm)

    @property
    def constants(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.scale.constants

    @property
    def reach(self) -> float:
        """How far, at most, what slopes or gradients are taken in is from 0: predictions, or parameters."""
        return clipped_residuals.PREDICTIONS if self.method.slopes else self.problem.radius

    def error(self, released: tuple[float, ...], moments: Moments) -> float:
        """Return the theorem's bound, for a released scale, under any law with these moments of what is cut.

        The run uses neither the moments nor their order. Before it, for what the scale releases at most under such a
        law: ``error(scale.worst(moments), moments)``. In expectation, or but for the failure probability.
        """
        bias = min(moments.bound * self.scale.tail[1] ** (1 - 1 / moments.k), moments.g1)
        unlucky = 0.0 if self.failure is not None else self.scale.failure * moments.g1
        return self._then(released).predicted_error.bound + 2 * self.reach * (bias + unlucky)

    @property
    def predicted_error(self) -> PredictedError:
        """Before the run for the largest gradients that the domain admits; in a result a guess, as its source says."""
        largest = self.released or self.scale.ends[1]
        error = self.error(largest, Moments(1e3, largest[0]))
        given, mass = self.then.predicted_error, self.scale.tail[1]
        source = f"{given.source}; with gradients or slopes cut at a private level (docs, No moment known)"
        proved = self.method.apart and self.scale.enough and not self.released
        if self.released:
            source += (
                f": {given.bound:.4g} for those cut at {largest[0]:.4g}, but for probability {self.scale.failure:.3g}; "
                f"bias at most G {mass:.4g}^(1-1/k) times the width, G^k bounding the k-th moment: guessed by G = level"
            )
        return PredictedError(error, min(given.trivial, self.reach * largest[-1]), source, proved=proved)

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.scale.releases, *self.then.releases)

    def exact_bits(self, source: BitSource) -> bool:
        return source.exact and self.then.exact_bits(source)

    @property
    def course(self) -> tuple[Any, ...]:
        return (*self.released, *self.then.course) if self.released else ()

    def resumed(self, *course: Any) -> LeveledPlan:
        """Return the plan for a released scale; what the method released since goes to it."""
        count = len(self.scale.releases)
        released, later = course[:count], course[count:]
        if len(released) < count or released[0] not in self.scale.edges or not 0 < released[-1] <= released[0]:
            raise InvalidParameterError("scale", released, "must be one of the public levels, and a moment below it")
        plan = self.informed(*released)
        return plan.after(cast(LinearModelPlan, plan.then.resumed(*later))) if later else plan

    @property
    def theorem(self) -> str:
        shared = "on records of its own" if self.method.apart else "on the same records, epsilons adding up"
        return (
            f"A private level for gradients (counts above public edges, chosen by noisy scores; epsilon "
            f"{self.scale.epsilon:.6g}), {shared}, and a method that uses it. {self.then.theorem}"
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The method's, and that it learns of the scale's records through the releases alone."""
        only = Assumption(
            "the second run's constants depend on the data through the first releases only",
            "it is planned from the released level and second moment",
        )
        return (*self.then.assumptions, only)

    def describe(self) -> Mapping[str, Any]:
        facts = {key: value for key, value in self.then.describe().items() if not key.startswith("moment_")}
        found: dict[str, Any] = {**self.scale.describe(), **dict(zip(FOUND, self.released, strict=False))}
        if self.released:
            found["bound_for_cut"] = self.then.predicted_error.bound
        more = {} if self.failure is None else {"failure_probability": self.failure}
        return {**facts, "method": self.then.algorithm, **more, "private_level": found}

    def informed(self, *released: float) -> LeveledPlan:
        """Return the plan for what the scale released, with the same budgets."""
        return continued(self, then=self._then(released), released=released)

    def _then(self, released: tuple[float, ...]) -> LinearModelPlan:
        half = None if self.failure is None else self.failure / 2
        rest = replace(self.problem, n=self.then.problem.n)
        return self.method.leveled(rest, self.then.privacy, self.constants, half, *released)

    def at(self, privacy: PrivacyParams) -> LeveledPlan:
        """Return the plan of another promise for the same level."""
        found = leveled(self.problem, privacy, self.method, self.constants, self.failure)
        return found.informed(*self.released) if self.released else found

    def _run(self, X: AnyArray, y: AnyArray, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        first = np.arange(self.problem.n) % APART == APART - 1 if self.method.apart else np.ones(len(X), dtype=bool)
        rest = ~first if self.method.apart else slice(None)
        plan = self.informed(*self.scale.run(X[first], y[first], source, Ledger(self.privacy, self.scale.releases)))
        result = plan.then.run(X[rest], y[rest], source)
        return plan.restored(result, result.point, source)


@recorded("leveled")
def leveled(
    problem: LinearModelProblem,
    privacy: PrivacyParams,
    method: HeavyMethod,
    constants: str = "calibrated",
    failure: float | None = None,
    *,
    proved: bool = False,
) -> LeveledPlan:
    """Return the plan of a run that first finds a level itself; the promise is for both.

    Raises `InvalidParameterError` unless the method can be planned for the least and for the largest level, and if the
    level's theorem is asked to hold (`proved`), unless there are records enough for it.
    """
    check_heavy(problem, privacy, Moments(2.0, 1.0))
    method.check(constants)
    share = privacy.epsilon if method.apart else _rounding.product_down(SHARE, privacy.epsilon)
    rest = privacy if method.apart else replace(privacy, epsilon=_rounding.difference_down(privacy.epsilon, share))
    n = problem.n // APART if method.apart else problem.n
    unlucky = min(0.01, problem.n**-0.5) if failure is None else failure / 2
    scale = Scale(problem, n, share, rest.epsilon, unlucky, method.slopes, method.apart, constants)
    if proved and not scale.enough:
        least = math.ceil(2 * (scale.slack + scale.least)) * (APART if method.apart else 1)
        remedy = "Declare a moment, heavy_tailed=(2, G), or leave its bound out, heavy_tailed=2: then nothing is proved"
        raise InvalidParameterError(
            "n", problem.n, f"must be at least {least} to find a level without a moment", remedy
        )
    others = replace(problem, n=problem.n - n if method.apart else n)
    half = None if failure is None else failure / 2
    least, largest = scale.ends
    method.leveled(others, rest, constants, half, *least)  # refuse here, from public facts, what would be refused later
    then = method.leveled(others, rest, constants, half, *largest)
    return LeveledPlan(problem, privacy, scale, then, method, failure)


def heavy_plans(
    problem: LinearModelProblem,
    privacy: PrivacyParams,
    k: float | None,
    bound: float | None,
    algorithm: str = "auto",
    options: Options | None = None,
    failure: float | None = None,
) -> tuple[LinearModelPlan, ...]:
    """Return the valid plans for heavy tails, the chosen one first. Sees no data.

    The loss has one prediction and is smooth or piecewise linear. `bound` is ``G_k``, on the moment of order `k`, at
    least 2, of the gradients; None: the run finds a level itself, where the method needs it. No order either: refused
    where there are too few records to prove anything of the level. `failure`, as in `heavy_tailed.plan`: for
    localization, which ``"auto"`` then stands for. Of the options only `constants` may be fixed: weights of the ridge,
    noise and target are the method's.
    """
    options = options or Options()
    _validate.choice("algorithm", algorithm, ("auto", *HEAVY_METHODS), "These are for heavy tails")
    _validate.real("epsilon", privacy.epsilon, at_least=SMALLEST)
    _validate.real("radius", problem.radius, at_least=SMALLEST, at_most=LARGEST)
    if options.l2 is not None:
        raise InvalidParameterError("l2", options.l2, "is chosen by the method for heavy tails", "Leave it out")
    if options.noise != "auto":
        raise InvalidParameterError("noise", options.noise, "must be 'auto' for heavy tails", "Leave it out")
    automatic = "heavy_tailed" if failure is not None else chosen(problem, privacy, options.constants)
    method, more = HEAVY_METHODS[automatic if algorithm == "auto" else algorithm], {}
    if failure is not None:
        more["failure"] = _validate.real("failure", failure, above=0.0, below=0.5, remedy="It is a probability")
        if not method.repeats:
            what = "is for algorithm='heavy_tailed'; the bounds of others hold in expectation"
            raise InvalidParameterError("failure", failure, what, "Leave one of the two out")
    with within_floats(problem.name):
        given = None if k is None or bound is None else Moments(k, bound)
        moments = method.settled(problem, k or 2.0) if given is None else method.adapted(problem, given)
        if moments is None:
            proved = k is None or failure is not None
            return (leveled(problem, privacy, method, options.constants, failure, proved=proved),)
        return (method(problem, privacy, moments, options.constants, **more),)
