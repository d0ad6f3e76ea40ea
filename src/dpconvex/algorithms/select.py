"""Methods by name, and the choice among them, from public facts and before any data are seen.

A `Registry` holds the methods for one kind of problem. Estimators, the command line, the audit, the tables of the
documentation and the contract tests read it, so a new method is one file and one line in a registry. A method of
another distribution is found through its entry point (`dpconvex.plugins`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar, final

from dpconvex import _validate
from dpconvex._html import table
from dpconvex._types import final_dataclass
from dpconvex._validate import LARGEST, SMALLEST
from dpconvex.algorithms import Plan, stored, within_floats
from dpconvex.errors import InvalidParameterError
from dpconvex.plugins import load
from dpconvex.privacy import PrivacyParams

NOISES = ("auto", "grouped", "weighted_l1", "l1", "block_max", "l2", "gaussian", "weighted_gaussian")
"""Kinds of noise that a caller may ask for; which of them apply depends on the algorithm and on delta."""
CONSTANTS = ("calibrated", "paper")
AIMS = ("empirical", "population")  #: Aims of a plan: a small excess loss on the data, or on their distribution.
SUMS_REMEDY = "Use another algorithm (docs, Larger than memory), or read the table into a frame"
PlanT = TypeVar("PlanT", bound=Plan)


@stored
@dataclass(frozen=True)
class Options:
    """Options that a user may fix instead of leaving them to the plan."""

    constants: str = "calibrated"  #: One of `CONSTANTS`
    noise: str = "auto"  #: One of `NOISES`
    l2: float | None = None  #: Weight of the ridge penalty; None: chosen from public facts
    target: str = "empirical"  #: One of `AIMS`
    solver: str = "auto"  #: A name of `dpconvex.solvers.NAMED_SOLVERS`, checked by the planner
    test: str = "auto"  #: How means over users are guarded against outliers, checked by the planner
    smoothing: str = "auto"  #: How kinks are smoothed in methods for users, checked by the planner
    most_rows: int | None = None  #: Cap on the distinct records of a user, applied only where a proof needs it
    sums: bool = False  #: Whether plans, also those made in a run, may only need sums (`Plan.only_sums`)

    def __post_init__(self) -> None:
        _validate.choice("constants", self.constants, CONSTANTS)
        _validate.choice("noise", self.noise, NOISES)
        _validate.choice("target", self.target, AIMS)
        _validate.optional(_validate.real, {"l2": self.l2}, at_least=SMALLEST, at_most=LARGEST)

    def fixed(self) -> dict[str, Any]:
        """Return the options that differ from the defaults, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}


def needs_records(name: str) -> InvalidParameterError:
    """Return the error for a method that reads single records when data are read portion by portion."""
    what = "needs single records, and X is read portion by portion"
    return InvalidParameterError("algorithm", name, what, SUMS_REMEDY)


@final_dataclass
class Method:
    """One method for one kind of problem."""

    name: str  #: Name in estimators, the command line and certificates
    #: Maps public facts (the problem and the promise; for queries also the number of records between them) and the
    #: options of `takes`, as keywords, to one plan or a tuple of plans. It raises `InvalidParameterError` where the
    #: method does not apply.
    planner: Callable[..., Any]
    takes: tuple[str, ...] = ()  #: Fields of `Options` that are passed to the planner if the user fixed them
    #: Kinds of noise that the method has, of which the planner may refuse some; None: the planner checks all
    noises: tuple[str, ...] | None = ("auto",)
    aims: tuple[str, ...] = AIMS[:1]  #: The `AIMS` for which its constants may be chosen
    kind: str = "erm"  #: For a plug-in, its registry: "erm", "saddle", "sparse", "queries" or "location"
    #: ``attack(privacy, bound)`` returns a small plan for linear models, with features bounded by `bound`, on which
    #: one record matters as much as the lemma allows: `dpconvex audit` attacks it. Methods of this package have
    #: targets of their own in `dpconvex.audit`.
    attack: Callable[[PrivacyParams, float], Any] | None = None
    pure: bool = True  #: Whether the promise of `attack` has delta 0

    def offers(self, options: Options) -> bool:
        """Whether the method has what the user fixed; raise if it has no constants for the population."""
        if options.target not in self.aims:
            remedy = "Use algorithm='output_perturbation'"
            raise InvalidParameterError("target", options.target, "must be 'empirical' for this algorithm", remedy)
        known = {"target", "noise", "sums", "most_rows", *self.takes}
        return set(options.fixed()) <= known and (self.noises is None or options.noise in self.noises)

    def plans(self, options: Options, *facts: Any) -> tuple[Any, ...]:
        """Return all plans for these options; raise as the planner does."""
        found = self.planner(*facts, **{name: value for name, value in options.fixed().items() if name in self.takes})
        return found if isinstance(found, tuple) else (found,)


@final
class Plans(tuple[PlanT, ...]):
    """A tuple of plans, of which the first is the one to run; its text is a table that includes refused methods."""

    refused: tuple[tuple[str, str], ...]  #: Names of methods that do not apply, with the reason in words

    def __new__(cls, plans: Iterable[PlanT], refused: Iterable[tuple[str, str]] = ()) -> Self:
        made = super().__new__(cls, plans)
        made.refused = tuple(refused)
        return made

    def changed(self, plans: Iterable[PlanT]) -> Self:
        """Return the changed `plans` with the refusals of this tuple."""
        return type(self)(plans, self.refused)

    @property
    def _title(self) -> str:
        if not self:
            return "No plan"
        privacy = self[0].privacy
        return f"Plans for epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, per {privacy.unit}; * is chosen"

    def _table(self) -> list[tuple[str, ...]]:
        """Return a row for each plan, with expected excess and bound, and then a row for each refused method."""
        rows = [
            ("*" * (k == 0), p.algorithm, p.noise_name, _shown(p.expectation), _shown(p.predicted_error.bound), p.note)
            for k, p in enumerate(self)
        ]
        return [*rows, *(("", name, "", "", "", f"refused: {why}") for name, why in self.refused)]

    def __repr__(self) -> str:
        rows = [_COLUMNS, *self._table()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join([self._title, *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)])

    def _repr_html_(self) -> str:
        return table(self._title, _COLUMNS, self._table())


_COLUMNS = ("", "method", "noise", "expected", "at most", "note")


def _shown(error: float | None) -> str:
    return "" if error is None else f"{error:.3g}"


@final
class Registry(Mapping[str, Method]):
    """All methods for one kind of problem by name: those of this package, then those of plug-ins."""

    def __init__(self, kind: str, *methods: Method) -> None:
        self.kind = kind
        self._own = {method.name: method for method in methods}

    def _all(self) -> dict[str, Method]:
        added = {method.name: method for method in load("algorithms") if method.kind == self.kind}
        return {**added, **self._own} if added else self._own  # plug-ins cannot replace methods of this package

    def __getitem__(self, name: str) -> Method:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._own, *(name for name in self._all() if name not in self._own)))

    def __len__(self) -> int:
        return len(self._all())

    def names(self, algorithm: str) -> tuple[str, ...]:
        """Return the names that ``"auto"`` or one name stands for; raise `InvalidParameterError` for others."""
        _validate.choice("algorithm", algorithm, ("auto", *self))
        return tuple(self) if algorithm == "auto" else (algorithm,)

    def choose(
        self, names: tuple[str, ...], options: Options, facts: tuple[Any, ...],
        rank: Callable[[PlanT], Any], where: str,
    ) -> tuple[Plans[PlanT], dict[str, InvalidParameterError]]:  # fmt: skip
        """Return all valid plans of some methods, the smallest rank first, and why the others refuse.

        `facts` is what every planner is given: problem and promise. `rank` is the sort key of a plan; between equal
        ones the order of methods decides. `where` names the problem in messages.
        """
        found: list[tuple[Any, PlanT]] = []
        refusals: dict[str, InvalidParameterError] = {}
        for name in names:
            try:
                with within_floats(where):  # public constants that are no floats show up here
                    if self[name].offers(options):
                        made = self[name].plans(options, *facts)
                        able = [plan for plan in made if plan.only_sums or not options.sums]
                        found += [(rank(plan), plan) for plan in able]
                        if made and not able:
                            refusals[name] = needs_records(name)
            except InvalidParameterError as error:
                refusals[name] = error
        ranked = (plan for _, plan in sorted(found, key=lambda each: each[0]))
        return Plans(ranked, ((name, str(error)) for name, error in refusals.items())), refusals
