"""The problem of minimizing a `ConvexFunction` over the data in a ball."""

import math
from dataclasses import dataclass, replace
from typing import Any, final

from dpconvex import _rounding, _validate
from dpconvex._types import Array, attributes, final_dataclass, forwarded, forwards, set_fields
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems.base import Aggregation, Objective, Problem
from dpconvex.problems.custom.functions import ConvexFunction
from dpconvex.problems.data.domain import Block, DataDomain
from dpconvex.problems.data.records import Records
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.minimax.adversarial import SaddleLoss
from dpconvex.problems.minimax.games import no_function


@final_dataclass
@forwards("function", "name aggregation dim bounds smoothness")
class CustomProblem(Problem):
    """Minimize a `ConvexFunction` over parameters of norm at most `radius`. Holds no data."""

    function: ConvexFunction
    n: int  #: number of records; public under replace-one neighbors
    radius: float  #: l2 norm R of the ball, a public choice. It competes with every parameter vector of the ball.
    #: Whether privacy may rest on the function's claims. False: noise covers the whole ball, ``2 R``, and the release
    #: of any function that returns is private.
    trusted: bool = True
    #: Most steps of a subgradient method; it determines the accuracy for functions that are not smooth, and so their
    #: noise.
    max_steps: int = 100_000
    local = True  # Lipschitz constants are claimed in the ball only
    domain = forwarded("function", "domain")  #: Domain into which records are clipped

    def __post_init__(self) -> None:
        if not isinstance(self.function, ConvexFunction):
            given, what = type(self.function).__name__, "must be a RecordLoss, a WholeObjective, or from jax_loss"
            raise InvalidParameterError("function", given, what)
        _validate.records("n", self.n)
        _validate.integer("max_steps", self.max_steps, at_least=1)
        if not isinstance(self.trusted, bool):  # a string would pass for True, and privacy would rest on claims
            raise InvalidParameterError("trusted", self.trusted, "must be True or False")
        set_fields(self, radius=_validate.real("radius", self.radius, above=1e-150, below=1e150))  # squares are floats
        _validate.integer("dim", self.function.dim, at_least=1)
        _validate.real("lipschitz", self.function.lipschitz(self.radius), above=0.0, remedy="It must hold in the ball")
        _validate.real("contrast", self.function.contrast(self.radius), above=0.0)
        for name in ("smoothness", "value_at_zero"):
            if not getattr(self.function, name) >= 0:
                raise InvalidParameterError(name, getattr(self.function, name), "must be at least 0, or infinite")
        if self.function.domain.intercept:
            remedy = "Let the function add what it needs"
            raise InvalidParameterError("domain", self.function.domain, "must have no intercept", remedy)

    @property
    def claims(self) -> tuple[str, ...]:
        return self.function.claims(self.radius)

    @property
    def lipschitz(self) -> float:
        return self.function.lipschitz(self.radius)

    @property
    def contrast(self) -> float:
        """The function's claim for the ball, or ``2 L`` if that is less, by the claim on slopes."""
        return min(self.function.contrast(self.radius), 2 * self.lipschitz)

    @property
    def value_at_zero(self) -> float:
        return min(self.function.value_at_zero, _rounding.product_up(self.lipschitz, self.radius))

    def log_weight_ratio(self, radius: float) -> float:
        return 0.0 if self.aggregation == "average" else math.inf

    def minimizer_norm(self, l2: float) -> float:
        free = min(self.lipschitz / l2, math.sqrt(2 * self.value_at_zero / l2))
        return min(self.radius, _rounding.widen_up(free))

    def certifiable_radius(self, l2: float) -> float:
        return self.function.certifiable_radius(l2, self.radius, self.max_steps)

    def objective(self, X: Array, y: Array, l2: float, groups: UserGroups | None = None) -> Objective:
        if groups is not None:
            raise InvalidDataError("groups are not known to custom functions. Average a user's records in the function")
        return self.function.objective(Records.clipped(X, self.function.domain), l2, self.radius)

    def declared(self) -> "CustomProblem":
        """Return the problem with the function's declared constants and without the function; its plans are equal."""
        function, radius = self.function, self.radius
        common = attributes(function, "name", "domain", "dim", "value_at_zero")
        common |= {"radius": radius, "slope": function.lipschitz(radius), "difference": function.contrast(radius)}
        if isinstance(function, SaddleLoss):
            names = ("attack", "parameter_smoothness", "attack_smoothness", "cross_smoothness", "attack_concavity")
            common |= {**attributes(function, *names), "attack_slope": function.attack_lipschitz(radius)}
            return replace(self, function=DeclaredPayoff(**common))
        if type(function).certifiable_radius is not ConvexFunction.certifiable_radius:
            raise TypeError("the function has an accuracy rule of its own, which no certificate can hold")
        own = {"smoothness": function.smoothness, "aggregation": function.aggregation, "said": function.claims(radius)}
        return replace(self, function=DeclaredFunction(**common, **own))

    def describe(self) -> dict[str, Any]:
        facts = attributes(self, "aggregation", "n", "dim", "radius", "lipschitz", "contrast")
        some = attributes(self, "smoothness", "value_at_zero")
        facts |= {name: value for name, value in some.items() if math.isfinite(value)}
        blocks = [block.describe() for block in self.function.domain.blocks]
        return {"objective": self.name, **facts, "trusted": self.trusted, "blocks": blocks}


@dataclass(frozen=True, kw_only=True)
class _Declared(ConvexFunction):
    """What the caller declared of a function in a ball, all that a plan reads; it has no values."""

    name: str
    domain: DataDomain
    dim: int
    value_at_zero: float
    radius: float
    slope: float  #: `lipschitz` there
    difference: float  #: `contrast` there

    def lipschitz(self, radius: float) -> float:
        return self._at(radius, self.slope)

    def contrast(self, radius: float) -> float:
        return self._at(radius, self.difference)

    def _at(self, radius: float, value: float) -> float:
        if radius != self.radius:
            raise InvalidParameterError("radius", radius, f"must be {self.radius!r}, for which constants are declared")
        return value


@final
@dataclass(frozen=True, kw_only=True)
class DeclaredFunction(_Declared):
    """Constants of a `ConvexFunction` in the ball of one radius, by the names of its members."""

    smoothness: float
    aggregation: Aggregation
    said: tuple[str, ...]

    def claims(self, radius: float) -> tuple[str, ...]:
        return self.said

    total = no_function  # pyright: ignore[reportAssignmentType]


@final
@dataclass(frozen=True, kw_only=True)
class DeclaredPayoff(_Declared, SaddleLoss):
    """Constants of a `SaddleLoss` in the ball of one radius, by the names of its members."""

    attack_slope: float
    attack: Block
    parameter_smoothness: float
    attack_smoothness: float
    cross_smoothness: float
    attack_concavity: float

    def attack_lipschitz(self, radius: float) -> float:
        return self._at(radius, self.attack_slope)

    value = gradient = attack_gradient = no_function  # pyright: ignore[reportAssignmentType]
