"""All methods that minimize the loss of a linear model, by name, and the choice among them from public facts."""

import math
from dataclasses import replace
from functools import lru_cache

from dpconvex import _validate
from dpconvex._types import final_dataclass
from dpconvex.algorithms import LinearModelPlan, check_unit, stored
from dpconvex.algorithms.erm import gradient_descent, objective_perturbation, output_perturbation, sufficient_statistics
from dpconvex.algorithms.erm.two_stage import constant, joint_bound, projection, recentering
from dpconvex.algorithms.erm.user_level import plan_accelerated, plan_phased
from dpconvex.algorithms.select import AIMS, LARGEST, NOISES, SMALLEST, Method, Options, Registry
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem

CAUTION, OF_NUMBERS, OF_USERS_CLASSES, WIDE, SURE = 1.5, 2.0, 2.0, 30, 0.05
"""A plan with delta > 0 is preferred if its expected error times a factor is less than that of pure plans. The factor
is CAUTION in general, and falls to 1 as columns exceed WIDE, since pure noise there costs more than is expected; where
records' classes are expected to lose less than SURE of what parameters 0 lose, columns count once for each class but
one (docs, What was tried, Delta and classes of many columns). It is OF_NUMBERS, and falls in the same way (a category
is one column), where a regression's explained variance is a guess, since plans preferred there lost 1.8 times the
expected error with few columns (`benchmarks/prior.py`; docs, What was tried, Delta and numbers); 1 for users'
regressions; OF_USERS_CLASSES for users' two classes (`benchmarks/user_ranks.py`)."""
FEW_USERS = 2.0, 200.0
"""Of users' several classes the factor is larger by the first, times the fourth power of the second over the number of
users where there are more: plans that spend delta, descents above all, lose two to three times what they expect then
(`benchmarks/many_classes.py --users`)."""
CENTERED = ("objective_perturbation", "noisy_gradient", "sufficient_statistics")
"""Methods that may run on recentered columns. (Few directions of a table lose what tells several classes apart.)"""
PROJECTED = ("objective_perturbation",)
"""Methods that may run on projected columns, or on a constant alone. Other methods gain nothing from a projection:
Gaussian noise in each direction does not shrink with fewer columns."""
GAUSSIAN = ("auto", "gaussian")
OF_USERS = ("test", "smoothing")
Found = tuple[LinearModelPlan, ...]  #: Valid plans; the first one is the one to run.


def _gradient(problem: LinearModelProblem, privacy: PrivacyParams, l2: float = 0.0, noise: str = "auto") -> Found:
    rate = None if noise == "auto" else 1.0  # full batches compose with further releases, secret samples do not
    return (gradient_descent.plan(problem, privacy, l2=l2, rate=rate),)


def _statistics(
    problem: LinearModelProblem, privacy: PrivacyParams, l2: float = 0.0, constants: str = "calibrated"
) -> Found:
    if constants == "calibrated":
        return (sufficient_statistics.plan(problem, privacy, l2=l2),)
    return () if l2 else (sufficient_statistics.plan_adaptive_ridge(problem, privacy),)


def _recentering(problem: LinearModelProblem, privacy: PrivacyParams, noise: str = "auto", sums: bool = False) -> Found:
    names = (*CENTERED, "informed_gradient") if problem.grouped else CENTERED
    return recentering.plan(problem, privacy, Methods(Options(noise=noise, sums=sums), names))


def _joint(problem: LinearModelProblem, privacy: PrivacyParams, noise: str = "auto", sums: bool = False) -> Found:
    options, names = Options(noise=noise, sums=sums), (*CENTERED, *("informed_gradient",) * problem.grouped)
    return joint_bound.plan(problem, privacy, Methods(options, names), Methods(options, (*names, "recentering")))


def _projection(
    problem: LinearModelProblem, privacy: PrivacyParams, noise: str = "grouped", l2: float | None = None,
    sums: bool = False,
) -> Found:  # fmt: skip
    if problem.grouped:
        return ()
    return projection.plan(problem, privacy, Methods(Options(noise=noise, l2=l2, sums=sums), PROJECTED))


def _constant(
    problem: LinearModelProblem, privacy: PrivacyParams, noise: str | None = None, l2: float | None = None
) -> Found:
    planner = Methods(Options(noise=noise or "l2", l2=l2), PROJECTED)
    return constant.plan(problem, privacy, planner, counted=noise is None and l2 is None)


ERM_METHODS = Registry(
    "erm",
    Method("objective_perturbation", objective_perturbation.plan, ("l2", "noise", "most_rows"), noises=None),
    Method(
        "output_perturbation", output_perturbation.plan, ("constants", "l2", "noise", "target", "solver"), None, AIMS
    ),
    Method("phased_sgd", plan_phased, ("constants",), GAUSSIAN, AIMS),
    Method("accelerated_user", plan_accelerated, ("constants", "target", "l2", *OF_USERS), GAUSSIAN, AIMS),
    Method("noisy_gradient", _gradient, ("l2", "noise"), GAUSSIAN),
    # It takes few steps, against noise, unless its look shows a strong signal (docs, Look first, then plan).
    Method("informed_gradient", gradient_descent.plan_informed, ("l2",), GAUSSIAN),
    Method("sufficient_statistics", _statistics, ("l2", "constants"), GAUSSIAN),
    Method("random_projection", _projection, ("l2", "noise", "sums"), noises=None),
    Method("recentering", _recentering, ("noise", "sums"), noises=None),
    Method("joint_bound", _joint, ("noise", "sums"), noises=None),
    Method("constant", _constant, ("noise", "l2"), noises=None),
)  #: Every method by the name used in estimators and on the command line.


@stored
@final_dataclass
class Methods:
    """A function that plans the named algorithms for any problem and promise; its first plan is the one to run."""

    options: Options
    names: tuple[str, ...]  #: Names of the algorithms to try

    def __post_init__(self) -> None:
        if not set(self.names) <= set(ERM_METHODS) or len(set(self.names)) < len(self.names):
            raise InvalidParameterError("names", self.names, "must be different algorithms")

    def __call__(self, problem: LinearModelProblem, privacy: PrivacyParams) -> Found:
        """Return the plans, or raise the most telling refusal."""
        found, refusals = ERM_METHODS.choose(self.names, self.options, (problem, privacy), _rank, problem.name)
        if not found:
            raise _most_telling(refusals)
        return found

    def check(self, problem: LinearModelProblem, privacy: PrivacyParams) -> None:
        """Raise the error that a call would raise."""
        if not _applies(problem, privacy, self.options, self.names):
            self(problem, privacy)


@lru_cache(maxsize=256)  # a pure function of frozen values: a fit, its table and its report ask for equal plans
def plans(
    problem: LinearModelProblem, privacy: PrivacyParams, algorithm: str = "auto", options: Options | None = None
) -> Found:
    """Return all valid plans, the smallest predicted error first. Sees no data.

    Raises the most telling `InvalidParameterError` if nothing applies, or if floats cannot hold the constants.
    """
    options, names = options or Options(), _names(problem, privacy, algorithm)
    found, refusals = ERM_METHODS.choose(names, options, (problem, privacy), _rank, problem.name)
    if not found and refusals:
        raise _most_telling(refusals)
    if not found:
        name = next((name for name in ("solver", *OF_USERS, "constants", "noise") if name in options.fixed()), None)
        if name is None:
            what = "has no plan for this problem and promise"
            raise InvalidParameterError("algorithm", algorithm, what, "Use 'auto'")
        what = f"is not available for algorithm={algorithm!r}"
        raise InvalidParameterError(name, getattr(options, name), what, "Leave it out, or use another algorithm")
    return found


def check(problem: LinearModelProblem, privacy: PrivacyParams, algorithm: str, options: Options) -> None:
    """Raise `InvalidParameterError` where `plans` would; in the time of one plan."""
    if not _applies(problem, privacy, options, _names(problem, privacy, algorithm)):
        plans(problem, privacy, algorithm, options)


def _names(problem: LinearModelProblem, privacy: PrivacyParams, algorithm: str) -> tuple[str, ...]:
    """Return the methods to try, or raise `InvalidParameterError` for facts that no method accepts."""
    names = ERM_METHODS.names(algorithm)
    _validate.real("epsilon", privacy.epsilon, at_least=SMALLEST)
    _validate.real("radius", problem.radius, at_least=SMALLEST, at_most=LARGEST)
    check_unit(problem, privacy)
    return names


def _applies(problem: LinearModelProblem, privacy: PrivacyParams, options: Options, names: tuple[str, ...]) -> bool:
    """Return whether some method and noise has a plan; it stops at the first plan found."""
    noises = NOISES[1:] if options.noise == "auto" else (options.noise,)
    facts, tried = (problem, privacy), ((name, replace(options, noise=noise)) for name in names for noise in noises)
    return any(ERM_METHODS.choose((name,), own, facts, _rank, problem.name)[0] for name, own in tried)


def expected_of_first(found: Found) -> float:
    """Return a sort key for lists of plans: the expected error of each list's first plan, in the usual loss."""
    expected = found[0].predicted_error.expected
    return math.inf if expected is None else _rounded(expected)


def cautious_of_first(found: Found) -> float:
    """Return a sort key for lists of plans of a loss and of its surrogates: `cautious` of each list's first plan."""
    return math.inf if found[0].predicted_error.expected is None else _rank(found[0])


def cautious(plan: LinearModelPlan) -> float:
    """Return the expected error, times its factor (see `CAUTION`) if delta is spent; the bound if none is expected."""
    task, users, error = plan.problem, plan.problem.grouped, plan.predicted_error
    if error.expected is None or is_pure(plan):
        return error.rank
    numbers = task.explained is not None
    if users and (numbers or task.loss.n_outputs == 1):
        return error.rank * (1.0 if numbers else OF_USERS_CLASSES)
    sure = not users and not numbers and error.expected < SURE * task.loss.usual.value_at_zero
    columns = sum(1 if numbers and block.categorical else block.size for block in task.domain.all_blocks)
    wide = columns * (task.loss.curvature_rank if sure else 1)
    few = 1 + FEW_USERS[0] * min(1.0, FEW_USERS[1] / task.n) ** 4 if users else 1.0
    return error.rank * few * (1 + ((OF_NUMBERS if numbers else CAUTION) - 1) * min(1.0, WIDE / wide) ** 2)


def is_pure(plan: LinearModelPlan) -> bool:
    """Return whether the plan spends no delta."""
    return all(each.event.pure_epsilon is not None for each in plan.releases)


def _rounded(error: float) -> float:
    """Return an error to nine digits, so that rounding by processors does not decide between equal plans."""
    return float(f"{error:.9g}")


def _rank(plan: LinearModelPlan) -> float:
    """Return the sort key of plans: `cautious`, to nine digits."""
    return _rounded(cautious(plan))


def _most_telling(refusals: dict[str, InvalidParameterError]) -> InvalidParameterError:
    """Return output perturbation's refusal, the most general; if it is about noise, one that does not suggest it."""
    general = refusals.get("output_perturbation")
    if general is not None and general.name != "noise":
        return general
    alone = (error for error in refusals.values() if "output_perturbation" not in error.remedy)
    return next(alone, next(iter(refusals.values())))
