"""What every algorithm has in common: a plan made of public facts, a run that touches data, a result.

A planner fixes every constant from sizes, domain and privacy parameters. The plan's ``_run`` is the paper's listing.
Only ``PrivateResult.point`` and ``status`` depend on the data.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, final

import numpy as np

from dpconvex import _validate, errors
from dpconvex._html import panel
from dpconvex._types import REQUIRED, Array, Floats, attributes, forwarded
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import Recipe, stored_recipe
from dpconvex.errors import HopelessPlanWarning, InvalidDataError, InvalidParameterError, warn
from dpconvex.mechanisms import Planned
from dpconvex.privacy import Assumption, Ledger, NoiseSource, Payment, PrivacyCertificate, Release, certify, charge
from dpconvex.privacy.params import Neighboring, PrivacyParams, Unit
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.problems.base import Problem
from dpconvex.problems.data.sources.rows import EncodedRows
from dpconvex.randomness import BitSource, OwnSamplers
from dpconvex.solvers import SolverResult

CLEARLY = 0.9
"""A plan is worth running if its expected loss is below this share of a constant answer's.

Ridge weights tend to infinity as epsilon falls, so the error of plans that learn nothing approaches that of the
constant from either side.
"""
LOOSE = 10.0  # Factor by which a bound may exceed a constant's loss where no error is expected (docs, Which algorithm)
DATA_ASSUMPTIONS = (
    Assumption("every record lies in the declared domain", "records are clipped into it before anything is computed"),
    Assumption("the number of records is public", "neighbors replace one record, so both data sets have it"),
    Assumption("the declared bounds, categories and classes are public knowledge", "declared"),
)
USER_ASSUMPTIONS = (
    DATA_ASSUMPTIONS[0],
    Assumption(
        "the number of users is public; who they are and how many records each has is not",
        "neighbors replace everything that one user has, by any number of records, so both data sets have it",
    ),
    Assumption("all records of a person bear the same user label", "declared; whoever has k labels has k units"),
    DATA_ASSUMPTIONS[2],
)
ADDED_ASSUMPTIONS = (
    DATA_ASSUMPTIONS[0],
    Assumption(
        "the number of records is not public; the plan is for a declared number",
        "neighbors add or remove one record; sums are exact integers, and no divisor, size, option or message is "
        "computed from the true number. The declared one is a public guess, and privacy does not rest on it",
    ),
    DATA_ASSUMPTIONS[2],
)
ADDED_USER_ASSUMPTIONS = (
    DATA_ASSUMPTIONS[0],
    Assumption(
        "neither who the users are, nor how many, nor how many records each has is public",
        "neighbors add or remove everything that one user has; sums are divided by a declared number, a public guess "
        "on which privacy does not rest",
    ),
    *USER_ASSUMPTIONS[2:],
)
ASSUMPTIONS = {
    (Neighboring.REPLACE_ONE, Unit.RECORD): DATA_ASSUMPTIONS,
    (Neighboring.REPLACE_ONE, Unit.USER): USER_ASSUMPTIONS,
    (Neighboring.ADD_OR_REMOVE_ONE, Unit.RECORD): ADDED_ASSUMPTIONS,
    (Neighboring.ADD_OR_REMOVE_ONE, Unit.USER): ADDED_USER_ASSUMPTIONS,
}  #: Assumptions of all methods by relation and protected unit; a promise that is not listed has no certificate.
USER_LOSS = Assumption(
    "a user's part of the objective has the slope and curvature bounds of one record's loss",
    "it is a weighted sum of them; the weights add up to at most 1 and depend on the user's own number of records and "
    "a public number only",
)
P = TypeVar("P", bound=Problem, covariant=True)  #: The kind of problem that a plan is for.


@dataclass(frozen=True)
class PrivateResult:
    """The result of a run."""

    #: The released parameters (dim,), all outputs flat; it and `status` are the only fields that depend on data.
    point: Floats
    certificate: PrivacyCertificate  #: States what the release costs
    plan: "Plan"  #: The plan that ran: public constants
    #: ``"ok"``, or which released test ended the run early; a function of what was released, so it costs nothing.
    status: str = "ok"


class Releasing:
    """A plan, or stage of a plan, that releases something by mechanisms fixed before the data are seen."""

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        """All mechanisms that may release anything, by a label of what they release, in the order of the run."""
        raise NotImplementedError(f"{type(self).__name__} names neither its mechanisms nor its releases")

    @property
    def releases(self) -> tuple[Release, ...]:
        """All planned releases; by default one use of each mechanism on all records."""
        return tuple(mechanism.planned(label) for label, mechanism in self.mechanisms.items())

    def exact_bits(self, source: BitSource) -> bool:
        """Whether all noise of released values comes from an exact sampler."""
        return all(mechanism.exact_bits(source) for mechanism in self.mechanisms.values())


def uses(names: Mapping[str, str]) -> Any:
    """Return a `mechanisms` property from attribute names by label; attributes that are None are left out."""

    def found(plan: Any) -> Mapping[str, Planned]:
        every = {label: getattr(plan, name) for label, name in names.items()}
        return {label: one for label, one in every.items() if one is not None}

    return property(found)


class Plan(Releasing, ABC):
    """Public constants of one algorithm on one problem, and what they promise."""

    algorithm: ClassVar[str]
    constants: str  #: which constant set
    noise_name: str  #: kind of noise
    privacy: PrivacyParams
    recipe: Recipe | None = None  #: How the plan was made; set by the planner (`recipes.recorded`).
    neighbors: ClassVar[tuple[Neighboring, ...]] = (Neighboring.REPLACE_ONE,)  #: relations its lemmas are proved for
    #: Whether a run needs sums over the records alone, or few of them by position: it can read any source.
    only_sums: ClassVar[bool] = False
    #: Released values from which a run made later plans: public facts for `resumed`; empty if there are none (yet).
    course: tuple[Any, ...] = ()
    #: Whether releases are planned from earlier ones, so that a run need not cost what `releases` costs.
    #:
    #: Only the promise covers all that a run may do, so a certificate states the promise itself as spent.
    adaptive: bool = False
    predicted_error: PredictedError = REQUIRED  #: The predicted error of the fit.
    theorem: str = REQUIRED  #: The statement that gives the guarantee.
    assumptions: tuple[Assumption, ...] = REQUIRED  #: Assumptions of the guarantee beyond `ASSUMPTIONS`.
    public: Mapping[str, Any] = REQUIRED  #: JSON-ready public facts and constants.
    #: The loss of a constant answer, in the unit of the predicted error: at most, or on ordinary data.
    yardstick: float = forwarded("predicted_error", "trivial")
    #: The expected error, in this unit; None if only a bound is known.
    expectation: float | None = forwarded("predicted_error", "expected")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__repr__ = cls.__repr__  # inherited: that of a dataclass would list all fields

    def __repr__(self) -> str:
        return "\n".join([self._title, *(f"  {name}: {fact}" for name, fact in self._facts().items())])

    def _repr_html_(self) -> str:
        error = self.predicted_error
        expected = error.bound if error.expected is None else error.expected
        return panel(self._title, self._facts(), expected / max(error.trivial, 1e-300))

    @property
    def _title(self) -> str:
        return f"Plan: {self.algorithm}, {self.constants} constants"

    def _facts(self) -> dict[str, str]:
        error, privacy = self.predicted_error, self.privacy
        expected = "" if error.expected is None else f"expected {error.expected:.3g}, "
        return {
            "promise": f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, per {privacy.unit}",
            "noise": self.noise_name,
            "error": f"{expected}at most {error.bound:.3g}",
            "error of a constant answer": f"{error.trivial:.3g}",
        }

    @property
    def hopeless(self) -> bool:
        """Whether a fit is not expected to be clearly better than a constant answer, from public facts alone.

        The expectation must be below `CLEARLY` times the `yardstick`. If only a bound is known, it must be below
        `LOOSE` times the `yardstick`: bounds hold for every data set, and real errors are about that far below them.
        """
        if self.expectation is None:
            return not self.predicted_error.bound < LOOSE * self.yardstick
        return not self.expectation < CLEARLY * self.yardstick

    remark: ClassVar[str] = ""  #: What `note` says beyond the bound

    @property
    def note(self) -> str:
        """The remark of a table beside the bound: that it is an estimate, hopeless or vacuous, and what it is for."""
        error = self.predicted_error
        promises = ["hopeless"] if self.hopeless else ["vacuous"] * error.vacuous
        return ", ".join(["estimate"] * (not error.proved) + promises + [self.remark] * bool(self.remark))

    @property
    def outlook(self) -> str:
        """The comparison that `hopeless` makes, in words."""
        worse = f"{self.yardstick:.3g} worse than the best"
        if self.expectation is None:
            bound = self.predicted_error.bound
            return f"a constant answer is at most {worse}, and nothing is known of this fit but a bound of {bound:.3g}"
        return f"a constant answer is about {worse}, and this fit is expected to be {self.expectation:.3g} worse"

    @final
    def warn(self, n: int, promise: PrivacyParams | None = None) -> None:
        """Warn of a `hopeless` plan, and of a delta of at least 1/n; `promise` is that of the whole fit, if another."""
        promise = promise or self.privacy
        if self.hopeless:
            what = f"a fit by {self.algorithm} is hopeless: {self.outlook}"
            remedy = "Use more records, fewer columns, a larger epsilon; leave out l2 if you gave it"
            warn(HopelessPlanWarning, f"epsilon={promise.epsilon:g}: {what}. {remedy}")
        if promise.delta * n >= 1:
            what = f"is at least 1 / {n:,} {promise.unit}s: publishing one of them whole would keep such a promise"
            warn(errors.LargeDeltaWarning, f"delta={promise.delta:g}: {what}. Use a value far below, or 0")

    def resumed(self, *course: Any) -> "Plan":
        """Return the plan with which a run continues once `course` is released; refuse what no run could release."""
        raise InvalidParameterError("course", course, "must be empty: this plan does not go on from what it releases")

    @final
    def certificate(self, source: BitSource) -> PrivacyCertificate:
        """Return the certificate of a run. It states the *planned* cost, which is known before the data are read."""
        note = "Exact samplers: what is released has no floating-point fingerprint."
        if not (exact := self.exact_bits(source)):
            note = "Floating-point sampler; released values are rounded to a public grid after the noise. "
            note += "The guarantee is for real arithmetic."
        stated = attributes(self, "algorithm", "constants", "theorem", "releases", "public")
        stated["assumptions"] = (*ASSUMPTIONS[self.privacy.neighboring, self.privacy.unit], *self.assumptions)
        stated |= {"noise_source": NoiseSource(source.name, source.private, exact, note)}
        return certify(target=self.privacy, whole=self.adaptive, planner=stored_recipe(self), **stated)


class ConvexPlan(Plan, Generic[P]):
    """Public constants of one algorithm that releases an approximate minimizer of a convex problem.

    A new algorithm says what it promises (`predicted_error`, `theorem`, `assumptions`), what may release anything
    (`mechanisms`) and what a run does (`_run`). All other members have a default.
    """

    problem: P
    l2: float  #: Weight of the ridge penalty; 0 without one
    exact_deviation: bool = False  #: Whether `coefficient_deviation` is exactly that of the noise, not a guess
    #: Standard deviation of the noise in each released parameter (dim,) if columns are typical: mostly a guess.
    #:
    #: None if unknown; reports then show no typical bands.
    coefficient_deviation: Floats | None = None
    #: Expected median half-width of 95 % intervals over columns' ranges, number of finite intervals, and of all.
    #:
    #: None where nothing is released for intervals.
    expected_intervals: tuple[float, int, int] | None = None

    @property
    def innermost(self) -> "ConvexPlan[P]":
        """The plan that releases the parameters: here this one."""
        return self

    @property
    def yardstick(self) -> float:
        """The excess of parameters 0: on ordinary data, if the plan has a model of it, and at most the trivial loss."""
        typical, trivial = self.problem.typical, self.predicted_error.trivial
        if typical is None or self.predicted_error.expected is None or not typical.at_zero > 0:
            return trivial
        return min(trivial, typical.at_zero)

    def noise_reach(self) -> Floats | None:
        """How far noise moves each parameter (dim,) from the noiseless fit, on *any* data: simulated 95 % quantiles.

        One parameter at a time, not all jointly; against the minimizer with this regularization, not the population's.
        Simulated from a separate public stream, so it says nothing about the noise of a run. None if unknown.
        """
        return None

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready public constants beyond the problem's."""
        return {"noise": self.noise_name}

    @abstractmethod
    def _run(self, X: Array, y: Array, groups: UserGroups | Any, source: BitSource) -> PrivateResult:
        """Run the paper's listing on data of the planned shape; `groups` is None unless the plan protects users."""

    @final
    @property
    def public(self) -> Mapping[str, Any]:
        error = self.predicted_error
        loss = {"excess_loss_bound" if error.proved else "excess_loss_estimate": error.bound}
        return {**self.problem.describe(), "l2": self.l2, **self.describe(), **loss}

    @final
    def run(self, X: Array, y: Array, source: BitSource, groups: UserGroups | None = None) -> PrivateResult:
        """Run the planned algorithm on features (n_records, n_features) and targets (n_records,), both clipped here.

        With a `private_n` there may be any number of records, even 0.

        Plans that need `only_sums` also take `EncodedRows`, the same object for X and y. There must be exactly the
        planned number of records, or of users: `groups` names the user of each record, and only plans that protect
        users take it. Targets are ignored by problems that have none. Raises `InvalidDataError` if shapes or dtypes are
        not those of the plan (public facts).
        """
        if not (self.only_sums and isinstance(X, EncodedRows) and X is y):
            for name, value in (("X", X), ("y", y)):  # X may be sparse (CSR)
                if not isinstance(value, np.ndarray) and not (name == "X" and getattr(value, "format", "") == "csr"):
                    what = f"{name} is of type {type(value).__name__}; a plan runs on NumPy arrays"
                    raise InvalidDataError(f"{what}. Convert it, or use an estimator, which takes data frames")
        n = self.problem.n
        if (groups is not None) != (self.privacy.unit == Unit.USER):
            raise InvalidDataError(f"groups must be given for unit='user' only, and the plan has {self.privacy.unit!s}")
        if not self.privacy.neighboring.fixes_size:
            if X.shape[0] != len(y) or (groups is not None and groups.n_records != len(y)):
                raise InvalidDataError("X, y and groups must have one length")
        elif groups is not None:
            if not X.shape[0] == len(y) == groups.n_records or groups.n_users != n:
                raise InvalidDataError(f"X, y and groups must have one length and n={n} users: the noise depends on it")
        elif X.shape[0] != n or len(y) != n:
            what = f"X has {X.shape[0]} records and y {len(y)}, but the plan is for n={n}: the noise depends on n"
            raise InvalidDataError(f"{what}. Plan again")
        with np.errstate(all="ignore"):  # what floating point meets depends on the data, so it never speaks up
            return self._run(X, y, groups, source)

    @final
    def finish(self, point: Floats, source: BitSource, status: str = "ok") -> PrivateResult:
        """Attach the certificate to released parameters; `status` as `PrivateResult` has it."""
        return PrivateResult(point, self.certificate(source), self, status)


LinearModelPlan = ConvexPlan[LinearModelProblem]
"""Public constants of one algorithm that releases the parameters of a linear model."""


@dataclass(frozen=True, eq=False)
class StatedPlan(LinearModelPlan):
    """A plan for a linear model whose first fields are what is minimized, and the promise."""

    problem: LinearModelProblem  #: Its `n` counts users where the promise is for users
    privacy: PrivacyParams


def require_runnable(plan: Plan, source: BitSource) -> None:
    """Raise, before anything is paid, what a run would: costs beyond the promise, or samplers that are missing."""
    Ledger(plan.privacy, plan.releases)
    if source.private and not plan.exact_bits(OwnSamplers()):
        _validate.installed("opendp")


def begin(
    plan: Plan, what: str, columns: int | Sequence[str], n: int, source: BitSource, promise: PrivacyParams | None = None
) -> Payment:
    """Warn of the plan (`Plan.warn`), and pay (`charge`): the last step of every fit before it reads its data.

    Return the payment, which the certificate names. `what` describes the fit in words; `columns` is the number or the
    names of the data's columns; `n` counts units. `promise` is that of the whole fit, if the plan is only part of it.
    """
    require_runnable(plan, source)
    plan.warn(n, promise)
    return charge(promise or plan.privacy, what, columns, n, private=source.private)


def require_average(problem: LinearModelProblem, factored: bool = False) -> None:
    """Raise `InvalidParameterError` for a tilted or attacked problem, and for one with a factor unless `factored`."""
    if not factored:
        require_plain(problem)
    remedy = "Use algorithm='output_perturbation'"
    if problem.tilt:
        raise InvalidParameterError("tilt", problem.tilt, "must be 0 for this algorithm", remedy)
    if problem.attack_radius:
        raise InvalidParameterError("attack_radius", problem.attack_radius, "must be 0 for this algorithm", remedy)


def require_plain(problem: Problem) -> None:
    """Raise `InvalidParameterError` for a problem with a factor: most theory is for the parameters themselves."""
    if getattr(problem, "factor", None) is not None:
        what = "must be None for this algorithm"
        raise InvalidParameterError("factor", "given", what, "Use algorithm='objective_perturbation'")


def beyond_floats(problem: str) -> InvalidParameterError:
    """Return the error for public parameters so extreme, together, that the plan's arithmetic fails."""
    what = "must have constants whose squares, ratios and products are floats"
    return InvalidParameterError("problem", problem, what, "Rescale the data or the parameters")


@contextmanager
def within_floats(problem: str) -> Iterator[None]:
    """Turn failures of a plan's arithmetic into `beyond_floats`, and keep NumPy quiet: constants are public."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ArithmeticError as error:
        raise beyond_floats(problem) from error


def check_relation(
    privacy: PrivacyParams,
    *, users: bool = False, neighbors: tuple[Neighboring, ...] = Plan.neighbors, added_users: bool = False,
) -> None:  # fmt: skip
    """Raise `InvalidParameterError` unless the promise is for `neighbors`, and for records, or users if `users`.

    If neighbors differ in size, promises for users need `added_users`.
    """
    if privacy.neighboring not in neighbors:
        what = "must be " + " or ".join(repr(str(each)) for each in neighbors) + " for this algorithm"
        remedy = "Added or removed units are protected by noisy_gradient, informed_gradient (users) and "
        remedy += "objective_perturbation, and by noisy tables of synthetic data, of order 1 or 2"
        raise InvalidParameterError("neighboring", str(privacy.neighboring), what, remedy)
    if privacy.unit != Unit.RECORD and not (users if privacy.neighboring.fixes_size else added_users):
        what = f"must be 'record' for this algorithm{'' if privacy.neighboring.fixes_size else ' and these neighbors'}"
        remedy = "Use a method for users, or protect single records: no groups, no user column"
        raise InvalidParameterError("unit", str(privacy.unit), what, remedy)


def require_delta(privacy: PrivacyParams, purpose: str = "Gaussian noise") -> None:
    """Raise `InvalidParameterError` for a pure promise."""
    if privacy.pure:
        raise InvalidParameterError("delta", privacy.delta, f"must be > 0 for {purpose}", "Use 1e-6 or less")


def in_units(text: str, privacy: PrivacyParams) -> str:
    """Return a statement about records as one about the units that are protected."""
    return text.replace("record", "user") if privacy.unit == Unit.USER else text


def check_unit(problem: Problem, privacy: PrivacyParams) -> None:
    """Raise `InvalidParameterError` unless the problem's `n` counts what the promise protects."""
    if problem.grouped != (privacy.unit == Unit.USER):
        counted = "users" if problem.grouped else "records"
        raise InvalidParameterError("unit", str(privacy.unit), f"must fit the problem, whose n counts {counted}")
    if problem.private_n == privacy.neighboring.fixes_size:
        how = "is a guess" if problem.private_n else "is public"
        raise InvalidParameterError("neighboring", str(privacy.neighboring), f"must fit the problem, whose n {how}")


def check_average(
    problem: LinearModelProblem, privacy: PrivacyParams, neighbors: tuple[Neighboring, ...] = Plan.neighbors,
    factored: bool = False,
) -> None:  # fmt: skip
    """Raise `InvalidParameterError` unless a record or user of an average loss is protected, for `neighbors`."""
    check_relation(privacy, users=True, neighbors=neighbors, added_users=True)
    check_unit(problem, privacy)
    require_average(problem, factored)


def require(solved: SolverResult, radius: float) -> Floats:
    """Return the solver's point if its certificate reaches `radius`; otherwise release nothing.

    In exact arithmetic planned solvers reach it for every data set; only rounding at scales that plans avoid can fail.
    """
    if solved.accuracy.kind != "distance" or not solved.accuracy.bound <= radius:
        raise errors.AccuracyError("the solver could not certify the planned accuracy; nothing was released")
    return solved.point
