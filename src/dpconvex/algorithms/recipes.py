"""Recipes of plans: planner and arguments as JSON, so that anybody can make the plan again without the data.

`recorded` marks the functions that make plans; each plan they return carries its `Recipe`. A recipe holds public facts
only: sizes, domain, loss, options, the promise, and for plans that continue from released values, these values. It is
stored in the certificate. `again` reads it and plans. A file may only name registered planners and classes that hold
public facts: nothing else is built, and no code is stored.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from dpconvex._types import final_dataclass
from dpconvex.errors import CertificateError
from dpconvex.losses import LinearModelLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.privacy.profiles import charge
from dpconvex.problems import Block, CustomProblem, DataDomain, Factor, LinearModelProblem, PointDomain, SimplexSaddle
from dpconvex.problems.custom.problem import DeclaredFunction, DeclaredPayoff
from dpconvex.problems.linear.shapes import ExpectedShapes, Knots, Levels, Pair
from dpconvex.problems.minimax.games import no_function
from dpconvex.problems.queries import LinearQueries
from dpconvex.sets import ConvexSet

KIND = "type"  # Key under which a stored object names its class
LARGEST = 1_200_000
"""Largest sum of all sizes in a recipe that is read: more columns or steps would keep a reader busy for minutes."""
UNLIMITED = ("n", "coins", "held_out", "max_steps")  # Names of integers that cost a planner no time
DEEPEST, MOST, PLANS, CELLS = 40, 100_000, 500, 10**8
"""Largest depth, number of values, number of plans, and number of array entries of a recipe that is read."""
PLANNING = 4_000
"""Cost of one call of a planner where computing is limited, in about microseconds, plus one for each column.

It is the time that searches with candidates of two columns take; slow parts of planners count separately.
"""
CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Block, DataDomain, Factor, LinearModelProblem, PointDomain, PrivacyParams),
        *(CustomProblem, DeclaredFunction, DeclaredPayoff, ExpectedShapes, Knots, Levels, Pair),
    )
}  #: Classes whose objects a recipe may hold beside subclasses of `OPEN`; `stored` adds further classes.
OPEN: tuple[type, ...] = (LinearModelLoss, SimplexSaddle, LinearQueries, ConvexSet)
"""Classes whose loaded subclasses a recipe may hold, too: a custom loss is known where it is imported."""
PLANNERS: dict[str, Callable[..., Any]] = {}
NAMED: dict[str, Any] = {"no function": no_function}  #: Objects that recipes hold by name.
P = ParamSpec("P")
T = TypeVar("T")


@final_dataclass
class Recipe:
    """The instructions to make one plan."""

    name: str  #: Name of the planner
    inputs: Mapping[str, Any]  #: Arguments of the planner by name, without those left at their defaults
    position: int = 0  #: Position of the plan among those that the planner returns
    course: tuple[Any, ...] = ()  #: Released values from which a run made this plan: arguments of the plan's `resumed`

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready fields; raise `TypeError` if an input cannot be stored."""
        inputs = {name: _written(value) for name, value in self.inputs.items()}
        written: dict[str, Any] = {"name": self.name, "inputs": inputs}
        if self.position:
            written["position"] = self.position
        if self.course:
            written["course"] = [_written(value) for value in self.course]
        return written


def recorded(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Mark a function whose plans, one or a tuple of them, can be made again; plans keep the innermost recipe.

    `name` appears in certificates and is unique.
    """

    def marked(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @wraps(function)
        def plan(*arguments: P.args, **options: P.kwargs) -> T:
            bound = signature.bind(*arguments, **options).arguments
            charge(PLANNING + getattr(bound.get("problem"), "dim", 0))
            found = function(*arguments, **options)
            given = {key: value for key, value in bound.items() if not _default(signature.parameters[key], value)}
            plans: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
            for position, each in enumerate(plans):
                if each.recipe is None:
                    object.__setattr__(each, "recipe", Recipe(name, given, position))
            return found

        if name in PLANNERS:
            raise ValueError(f"there is another planner {name!r}")
        PLANNERS[name] = NAMED[name] = plan
        return plan

    return marked


def stored(kind: type[T]) -> type[T]:
    """Mark a dataclass of public facts that recipes may hold."""
    CLASSES[kind.__name__] = kind
    return kind


def continued(plan: T, **changes: Any) -> T:
    """Return a plan with the fields that a run has fixed since it was made, and with its recipe."""
    after = replace(cast(Any, plan), **changes)
    object.__setattr__(after, "recipe", cast(Any, plan).recipe)
    return after


def stored_recipe(plan: Any) -> dict[str, Any] | None:
    """Return a plan's recipe and the values released since, for a certificate; None if these cannot be stored."""
    try:
        return None if plan.recipe is None else replace(plan.recipe, course=plan.course).to_dict()
    except TypeError:  # a caller's own function or class
        return None


def again(recipe: Mapping[str, Any]) -> Any:
    """Return the plan of a stored recipe, or raise what its planner raises; `CertificateError` if it is unknown."""
    _check_size(recipe)
    return _plan(recipe)


def _plan(recipe: Mapping[str, Any]) -> Any:
    if (name := recipe["name"]) not in PLANNERS:
        raise CertificateError(f"there is no planner {name!r}")
    found = PLANNERS[name](**{key: _read(value) for key, value in recipe["inputs"].items()})
    plan = found[recipe.get("position", 0)] if isinstance(found, tuple) else found
    course = tuple(_read(value) for value in recipe.get("course", ()))
    return plan.resumed(*course) if course else plan


def _default(parameter: inspect.Parameter, value: Any) -> bool:
    given = parameter.default
    return given is value or (type(given) is type(value) and not is_dataclass(given) and given == value)


def _written(value: Any) -> Any:
    """Return a public fact as a JSON value."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {KIND: "float", "value": repr(float(value))}
    if isinstance(value, tuple | list):
        return [_written(each) for each in value]
    if isinstance(value, Mapping) and KIND not in value:
        return {str(key): _written(each) for key, each in value.items()}
    recipe = getattr(value, "recipe", None)
    if isinstance(recipe, Recipe):
        return {KIND: "plan", **recipe.to_dict()}
    for name, known in NAMED.items():
        if known is value:
            return {KIND: "name", "value": name}
    declare = getattr(value, "declared", None)
    declared: Any = value if declare is None else declare()
    kind = type(declared)
    if is_dataclass(kind) and _class(kind.__name__) is kind:
        given = [(part, getattr(declared, part.name)) for part in fields(declared) if part.init]
        parts = {p.name: _written(each) for p, each in given if p.default is MISSING or each is not p.default}
        return {KIND: kind.__name__, **parts}
    if isinstance(declared, np.ndarray) and declared.size and (declared == declared.flat[0]).all():
        return {KIND: "array", "shape": list(declared.shape), "value": float(declared.flat[0])}
    raise TypeError(f"{kind.__name__} cannot be stored in a certificate")


def _read(value: Any) -> Any:
    """Return the object that `_written` wrote; arrays in JSON become tuples."""
    if isinstance(value, list):
        return tuple(_read(each) for each in value)
    if not isinstance(value, dict):
        return value
    if KIND not in value:
        return {key: _read(each) for key, each in value.items()}
    kind, inner = value[KIND], {key: each for key, each in value.items() if key != KIND}
    if kind == "plan":
        return _plan(inner)
    if kind == "float":
        return {"inf": math.inf, "-inf": -math.inf}[inner["value"]]
    if kind == "name":
        return NAMED[inner["value"]]
    if kind == "array":
        return np.broadcast_to(np.float64(inner["value"]), tuple(inner["shape"]))
    if (found := _class(kind)) is None:
        raise CertificateError(f"there is no {kind!r} here. If it is a class of your own, import it before verifying")
    return found(**{key: _read(each) for key, each in inner.items()})


def _class(name: Any) -> type | None:
    """Return the class of that name that recipes may hold."""
    if name in CLASSES:
        return CLASSES[name]
    waiting = list(OPEN)
    for kind in waiting:
        if kind.__name__ == name and is_dataclass(kind):
            return kind
        waiting += kind.__subclasses__()
    return None


def _check_size(recipe: Any) -> None:
    """Raise `CertificateError` for a recipe whose plan would take a reader's time or memory: by its numbers alone."""
    total, plans, cells = 0, 0, 0
    waiting: list[tuple[str, Any, int]] = [("", recipe, 0)]
    for count, (name, value, depth) in enumerate(waiting):
        if depth > DEEPEST or count > MOST:
            raise CertificateError("the planner's inputs are too many or too deep to be read")
        if isinstance(value, dict):
            plans += value.get(KIND) == "plan"
            cells += math.prod(map(abs, value["shape"])) if value.get(KIND) == "array" else 0
            if cells > CELLS:
                raise CertificateError("arrays of the planner's inputs are too large to be read")
            waiting += [(key, each, depth + 1) for key, each in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            waiting += [(name, each, depth + 1) for each in value]
        elif isinstance(value, int) and name not in UNLIMITED:
            total += abs(value)
        elif isinstance(value, int) and not 0 <= value <= 2**60:
            raise CertificateError(f"{name} of the planner's inputs is out of range")
        if total > LARGEST or plans > PLANS:
            raise CertificateError("the planner's inputs ask for more columns or steps than are planned here")
