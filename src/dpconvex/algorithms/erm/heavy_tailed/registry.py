r"""Methods for heavy tails by name, and plans that first find a level for gradients by a release of their own.

Guarantee
    The method's, for neighbors that replace one record. A `LeveledPlan` makes two runs: `Scale`, then the method.
    Localization and its scale read different records, each at epsilon: adaptive parallel composition. In other methods
    both runs read all records: `SHARE` of epsilon (pure) and the rest add up (basic composition), and delta is theirs.
Sensitivity
    Each release states its own; the second run's constants are functions of the released scale and of public facts.
Assumptions
    Those of the method. Moments, declared or not, affect accuracy only: privacy holds with any.
Choice
    ``"auto"`` compares sizes, not bounds, which are of two kinds (on the data, on new records): `chosen`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate, algorithms
from dpconvex._types import Array, final_dataclass, forwarded
from dpconvex.algorithms.base import P
from dpconvex.algorithms.erm import heavy_tailed
from dpconvex.algorithms.erm.heavy_tailed import Moments, clipped_gradient, clipped_residuals, level
from dpconvex.algorithms.erm.heavy_tailed.localization import check_constraint, plan_custom
from dpconvex.algorithms.erm.heavy_tailed.moments import check_heavy
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.recipes import NAMED, stored
from dpconvex.algorithms.select import LARGEST, SMALLEST, Options, needs_records
from dpconvex.errors import InvalidParameterError
from dpconvex.plugins import of_paper
from dpconvex.privacy import Ledger, PrivacyParams, Release
from dpconvex.problems import CustomProblem, LinearModelProblem, UserGroups
from dpconvex.problems.base import Problem
from dpconvex.problems.linear.expected_risk import squared_length
from dpconvex.randomness import BitSource
from dpconvex.sets import Box, ConvexSet

SHARE = 0.1  #: Share of epsilon for the level (our choice): 0.05 to 0.2 are equal within noise from n = 2,000 on.
APART = 4  #: For localization, every fourth record serves to find the level.
USUAL = (1.0, 0.25, 0.0625)  #: Levels, in units of a target's range, for which plans are judged before one is found.
WIDEST, NARROW = 0.3, 4.0
"""``"auto"`` prefers clipped residuals if the longest record, in units of a typical record, is at most the larger of
NARROW and ``WIDEST sqrt(n epsilon / d)``. Our choice: measured, the methods cross near 0.3 to 0.45 of that root."""


@stored
@final_dataclass
class Shape:
    """Surrogate of the losses and set of parameters, where either is not the default."""

    surrogate: str = "truncated"  #: Name of the surrogate in `SURROGATES`
    constraint: ConvexSet | None = None  #: None: the ball of the problem's radius


def constraint_ends(given: Any) -> tuple[float, float]:
    """Return the interval that an option states, or raise `InvalidParameterError`."""
    what = "must be a set of dpconvex.sets, or (lower, upper) for every coefficient"
    try:
        lower, upper = (_validate.real("constraint", end) for end in given)
    except (TypeError, ValueError):
        raise InvalidParameterError("constraint", given, what, "Write (0, 2)") from None
    if not lower < upper:
        raise InvalidParameterError("constraint", given, "must have lower < upper", "Write (0, 2)")
    return lower, upper


def constraint_set(given: ConvexSet | tuple[float, float] | None, problem: LinearModelProblem) -> ConvexSet | None:
    """Return the set that an option states; an interval is for coefficients, while the constant keeps the radius."""
    if given is None or isinstance(given, ConvexSet):
        return given
    lower, upper = constraint_ends(given)
    constants, free = problem.dim - problem.domain.n_features, problem.radius
    coefficients = problem.domain.n_features
    return Box([lower] * coefficients + [-free] * constants, [upper] * coefficients + [free] * constants)


@final_dataclass
class HeavyMethod:
    """A method for heavy tails."""

    #: Maps problem, promise and moments to the plan; the keyword `constants` takes another constant set.
    planner: Callable[..., Any]
    #: Maps problem, promise, constant set, failure probability and the released scale to the plan; None: needs moments.
    leveled: Callable[..., algorithms.LinearModelPlan] | None = None
    #: Whether the method needs moments of slopes at the prediction 0 (if slopes are unbounded), not of gradients
    slopes: bool = False
    printed: bool = True  #: Whether the method has the paper's constants
    apart: bool = False  #: Whether its level is found on separate records, which the theorem for new records needs
    repeats: bool = False  #: Whether its bound can hold with high probability instead of in expectation
    shaped: bool = False  #: Whether the planner takes a `Shape`
    chooses: bool = False  #: Whether the planner takes `sums`

    def __call__(
        self, problem: P, privacy: PrivacyParams, moments: Moments, constants: str, **more: Any
    ) -> algorithms.ConvexPlan[P]:
        """Return the plan; `more` may be the `failure` probability and the fields of a `Shape`."""
        self.check(constants)
        chosen = {} if constants == "calibrated" else {"constants": constants}
        return self.planner(problem, privacy, moments, **chosen, **more)

    def check(self, constants: str) -> None:
        """Raise `InvalidParameterError` if the method lacks the constant set."""
        if constants != "calibrated" and not self.printed:
            remedy = "Use algorithm='heavy_tailed'"
            raise InvalidParameterError("constants", constants, "must be 'calibrated' for this algorithm", remedy)

    def settled(self, problem: LinearModelProblem, k: float) -> Moments | None:
        """Return the moments that follow from public facts, where the loss bounds slopes; else None."""
        return Moments(k, problem.loss.slope_bound) if self.slopes and problem.loss.cut(SMALLEST) is None else None


def _beside(name: str, *given: Any, **more: Any) -> Any:
    """Return the plan of a method that belongs to the experiments, since it only serves comparisons."""
    return of_paper(name)(*given, **more)


def _localized(name: str) -> HeavyMethod:
    """Return a method of the experiments that runs on records apart from those that its level is found on."""
    leveled = partial(level.localized, planner=partial(_beside, f"{name}, level given"))
    return HeavyMethod(partial(_beside, name), leveled, printed=False, apart=True, repeats=True)


HEAVY_METHODS: Mapping[str, HeavyMethod] = {
    "heavy_tailed": HeavyMethod(heavy_tailed.plan, level.localized, apart=True, repeats=True, shaped=True),
    "clipped_residuals": HeavyMethod(clipped_residuals.plan, level.ordinary, slopes=True, chooses=True),
    "clipped_gradient": HeavyMethod(clipped_gradient.plan, level.descent, printed=False),
    **{name: _localized(name) for name in ("localized_exponential_mechanism", "gradient_score")},
}  #: Methods by their name in estimators and on the command line; ``"auto"`` is one of the first two, by `chosen`.
NAMED.update({f"heavy-tailed method {name}": method for name, method in HEAVY_METHODS.items()})


def chosen(problem: LinearModelProblem, privacy: PrivacyParams, constants: str = "calibrated") -> str:
    """Return the method that ``"auto"`` means: clipped residuals, unless records may be far longer than typical."""
    loss = problem.loss
    if constants == "paper" or (math.isinf(loss.slope_bound) and loss.cut(SMALLEST) is None):
        return "heavy_tailed"
    unit = problem.domain.intercept
    # Columns bounded by the constant's size have typical lengths; of wider columns only the bound is known.
    blocks = [b for b in problem.domain.all_blocks if b.categorical or b.bound <= unit]
    typical = math.sqrt(math.fsum(squared_length(b) * min(1.0, unit / b.bound) ** 2 for b in blocks))
    widest = max(NARROW, WIDEST * math.sqrt(problem.n * privacy.epsilon / problem.dim))
    return "clipped_residuals" if problem.domain.l2 <= widest * typical else "heavy_tailed"


@final_dataclass
class LeveledPlan(TwoStagePlan):
    """A level for gradients from the data, then a method that uses it: one promise for both."""

    scale: level.Scale
    #: The plan of the method: before a run for the largest level, in a result for the released level.
    then: algorithms.LinearModelPlan
    method: HeavyMethod  #: The method that plans `then`
    failure: float | None = None  #: Probability with which the bound may fail; None: it holds in expectation
    shape: Shape | None = None  #: Surrogate and set of `then`, where not the default
    sums: bool = False  #: Whether `then` may only need sums
    released: tuple[float, ...] = ()  #: In a result, the released level and, for gradients, second moment
    adaptive: ClassVar[bool] = True
    constants = forwarded("scale", "constants")
    presumed = (
        "the second run's constants depend on the data through the first releases only",
        "it is planned from the released level and second moment",
    )

    @property
    def only_sums(self) -> bool:
        return super().only_sums and not self.method.apart  # separate records are chosen by position

    @property
    def algorithm(self) -> str:
        return next((name for name, one in HEAVY_METHODS.items() if one is self.method), self.then.algorithm)

    @property
    def reach(self) -> float:
        """Largest size of the argument of slopes or gradients: of predictions or of parameters."""
        return clipped_residuals.PREDICTIONS if self.method.slopes else self.problem.radius

    def error(self, released: tuple[float, ...], moments: Moments) -> float:
        """Return the theorem's bound for a released scale; before a run for ``scale.worst(moments)``."""
        share = 1 if self.shape is None or self.shape.surrogate == "truncated" else 2  # a slope less its extension's
        bias = share * min(moments.bound * self.scale.tail[1] ** (1 - 1 / moments.k), moments.g1)
        unlucky = 0.0 if self.failure is not None else self.scale.failure * moments.g1
        return self._then(released).predicted_error.bound + 2 * self.reach * (bias + unlucky)

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """Before the run, for the largest gradients that the domain admits; in a result a guess, as its source says."""
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
        return algorithms.PredictedError(error, min(given.trivial, self.reach * largest[-1]), source, proved=proved)

    @cached_property
    def _usual(self) -> list["LeveledPlan"]:
        """Plans for the levels `USUAL`, since bounds for the largest possible level tell nothing."""
        edges = self.scale.edges
        levels = [float(edges[edges <= largest].max(initial=edges[-1])) for largest in USUAL]
        return [self.informed(*(level,) * len(self.scale.releases)) for level in levels]

    @property
    def hopeless(self) -> bool:
        return super().hopeless if self.released else all(plan.hopeless for plan in self._usual)

    @property
    def outlook(self) -> str:
        if self.released:
            return super().outlook
        return f"{self._usual[0].outlook} for a level of {self._usual[0].released[0]:.3g}; one has to be found first"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.scale.releases, *self.then.releases)

    def exact_bits(self, source: BitSource) -> bool:
        return source.exact and self.then.exact_bits(source)

    @property
    def course(self) -> tuple[Any, ...]:
        return (*self.released, *self.then.course) if self.released else ()

    def resumed(self, *course: Any) -> Any:
        """Return the plan for a released scale; later releases of the course are passed on to the method."""
        count = len(self.scale.releases)
        released, later = course[:count], course[count:]
        if len(released) < count or released[0] not in self.scale.edges or not 0 < released[-1] <= released[0]:
            raise InvalidParameterError("scale", released, "must be one of the public levels, and a moment below it")
        return TwoStagePlan.resumed(self.informed(*released), *later)

    @property
    def theorem(self) -> str:
        shared = "on records of its own" if self.method.apart else "on the same records, epsilons adding up"
        chosen = f"counts above public edges, chosen by noisy scores; epsilon {self.scale.epsilon:.6g}"
        return f"A private level for gradients ({chosen}), {shared}, and a method that uses it. {self.then.theorem}"

    def describe(self) -> Mapping[str, Any]:
        facts = {key: value for key, value in self.then.describe().items() if not key.startswith("moment_")}
        released = zip(("level", "second_moment"), self.released, strict=False)  # slopes have a level alone
        found: dict[str, Any] = {**self.scale.describe(), **dict(released)}
        if self.released:
            found["bound_for_cut"] = self.then.predicted_error.bound
        more = {} if self.failure is None else {"failure_probability": self.failure}
        return {**facts, "method": self.then.algorithm, **more, "private_level": found}

    def informed(self, *released: float) -> "LeveledPlan":
        """Return the plan for the values that the scale released, with unchanged budgets."""
        return algorithms.continued(self, then=self._then(released), released=released)

    def _then(self, released: tuple[float, ...]) -> algorithms.LinearModelPlan:
        half = None if self.failure is None else self.failure / 2
        rest = replace(self.problem, n=self.then.problem.n)
        return _after(self.method, rest, self.then.privacy, self.constants, half, self.shape, self.sums)(*released)

    def at(self, privacy: PrivacyParams) -> "LeveledPlan":
        facts = self.problem, privacy, self.method, self.constants, self.failure, self.shape
        found = leveled(*facts, sums=self.sums)
        return found.informed(*self.released) if self.released else found

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        first, rest = (X, y), (X, y)
        if self.method.apart:
            apart = np.arange(self.problem.n) % APART == APART - 1
            first, rest = (X[apart], y[apart]), (X[~apart], y[~apart])
        plan = self.informed(*self.scale.run(*first, source, Ledger(self.privacy, self.scale.releases)))
        result = plan.then.run(*rest, source)
        return plan.restored(result, result.point, source)


def _after(method: HeavyMethod, *given: Any) -> Callable[..., algorithms.LinearModelPlan]:
    """Return the planner of the method after the scale; `given` ends with a shape or None, and with `sums`."""
    assert method.leveled is not None  # true for linear models; for the type checker
    *facts, shape, sums = given
    more = {} if shape is None else vars(shape)
    return partial(method.leveled, *facts, **more, **({"sums": True} if sums and method.chooses else {}))


@algorithms.recorded("leveled")
def leveled(
    problem: LinearModelProblem, privacy: PrivacyParams, method: HeavyMethod, constants: str = "calibrated",
    failure: float | None = None, shape: Shape | None = None, *, proved: bool = False, sums: bool = False,
) -> LeveledPlan:  # fmt: skip
    """Return the plan of a run that first finds a level; refuse what cannot follow it or, if `proved`, has no proof."""
    check_heavy(problem, privacy, Moments(2.0, 1.0))
    method.check(constants)
    share = privacy.epsilon if method.apart else _rounding.product_down(SHARE, privacy.epsilon)
    rest = privacy if method.apart else privacy.less(share)
    n = problem.n // APART if method.apart else problem.n
    unlucky = min(0.01, problem.n**-0.5) if failure is None else failure / 2
    scale = level.Scale(problem, n, share, rest.epsilon, unlucky, method.slopes, method.apart, constants)
    if proved and not scale.enough:
        least = math.ceil(2 * (scale.slack + scale.least)) * (APART if method.apart else 1)
        remedy = "Declare a moment, heavy_tailed=(2, G), or leave its bound out, heavy_tailed=2: then nothing is proved"
        raise InvalidParameterError("n", problem.n, f"must be at least {least} to find a level with no moment", remedy)
    others = replace(problem, n=problem.n - n if method.apart else n)
    then = _after(method, others, rest, constants, None if failure is None else failure / 2, shape, sums)
    least, largest = scale.ends
    then(*least)  # refuse here, from public facts, what would be refused later
    return LeveledPlan(problem, privacy, scale, then(*largest), method, failure, shape, sums)


def heavy_plans(
    problem: LinearModelProblem, privacy: PrivacyParams, k: float | None, bound: float | None,
    algorithm: str = "auto", options: Options | None = None, failure: float | None = None, shape: Shape | None = None,
) -> tuple[algorithms.LinearModelPlan, ...]:  # fmt: skip
    """Return the valid plans for heavy tails, the chosen one first. Sees no data.

    The loss has one prediction and is smooth or piecewise linear. `bound` is ``G_k``, on the moment of order `k`, at
    least 2, of the gradients; if it is None, the run finds a level itself, where the method needs it. If the order is
    None too, plans with too few records to prove anything of the level are refused. `failure`, as in
    `localization.plan`, and `shape`, whose set's radius replaces the problem's, are for localization, which ``"auto"``
    then means. Of the options only `constants` may be set: ridge weight, noise and target are the method's.
    """
    options = options or Options()
    _check(problem, privacy, algorithm, HEAVY_METHODS, options)
    if algorithm == "auto":
        plain = failure is None and shape is None
        algorithm = chosen(problem, privacy, options.constants) if plain else "heavy_tailed"
        if plain and options.sums and problem.loss.cut(SMALLEST) is not None:
            algorithm = "clipped_residuals"  # localization reads parts by position
    method, more = HEAVY_METHODS[algorithm], {}
    if shape is not None:
        more = vars(shape)
        if not method.shaped:
            name = "constraint" if shape.constraint is not None else "surrogate"
            raise InvalidParameterError(name, more[name], "is for the algorithm 'heavy_tailed'", "Use that, or 'auto'")
        check_constraint(problem, shape.constraint)
        problem = problem if shape.constraint is None else replace(problem, radius=shape.constraint.radius)
    if failure is not None:
        failure = _validate.real("failure", failure, above=0.0, below=0.5, remedy="It is a probability")
        more = {**more, "failure": failure}
        if not method.repeats:
            what = "is for algorithm='heavy_tailed'; the bounds of others hold in expectation"
            raise InvalidParameterError("failure", failure, what, "Leave one of the two out")
    with algorithms.within_floats(problem.name):
        given = None if k is None or bound is None else Moments(k, bound)
        moments = given if given and not method.slopes else method.settled(problem, k or 2.0)
        if given and moments is None:
            moments = clipped_residuals.slope_moments(problem, given)
        if moments is None:
            facts = problem, privacy, method, options.constants, failure, shape
            found = leveled(*facts, proved=k is None or failure is not None, sums=options.sums)
        else:
            restricted = {"sums": True} if options.sums and method.chooses else {}
            found = method(problem, privacy, moments, options.constants, **more, **restricted)
    if options.sums and not found.only_sums:
        raise needs_records(algorithm)
    return (found,)


CUSTOM_METHODS: Mapping[str, HeavyMethod] = {
    "heavy_tailed": HeavyMethod(plan_custom),
    "localized_exponential_mechanism": HeavyMethod(
        partial(_beside, "localized_exponential_mechanism_custom"), printed=False
    ),
}  #: Methods for custom losses; ``"auto"`` is the first.


def custom_plan(
    problem: CustomProblem, privacy: PrivacyParams, tails: tuple[float, float], algorithm: str, options: Options
) -> algorithms.ConvexPlan[CustomProblem]:
    """Return the plan for a custom loss; `tails` are order and bound of the moment of its slopes."""
    _check(problem, privacy, algorithm, CUSTOM_METHODS, options)
    try:
        moments = Moments(*map(float, tails))
    except (TypeError, ValueError):
        what = "must be (k, G_k): order, at least 2, and bound of a moment of the slopes of records' losses"
        raise InvalidParameterError("heavy_tailed", tails, what, "None is estimated of such losses") from None
    with algorithms.within_floats(problem.name):
        method = CUSTOM_METHODS["heavy_tailed" if algorithm == "auto" else algorithm]
        return method(problem, privacy, moments, options.constants)


def _check(
    problem: Problem, privacy: PrivacyParams, algorithm: str, methods: Mapping[str, HeavyMethod], options: Options
) -> None:
    """Raise `InvalidParameterError` for options that methods for heavy tails do not have, and extreme numbers."""
    _validate.choice("algorithm", algorithm, ("auto", *methods), "These are for heavy tails")
    _validate.real("epsilon", privacy.epsilon, at_least=SMALLEST)
    _validate.real("radius", problem.radius, at_least=SMALLEST, at_most=LARGEST)
    if options.l2 is not None:
        raise InvalidParameterError("l2", options.l2, "is chosen by the method for heavy tails", "Leave it out")
    if options.noise != "auto":
        raise InvalidParameterError("noise", options.noise, "must be 'auto' for heavy tails", "Leave it out")
    for name in ("solver", "test", "smoothing"):
        if name in options.fixed():
            raise InvalidParameterError(name, options.fixed()[name], "does not apply to heavy tails", "Leave it out")
