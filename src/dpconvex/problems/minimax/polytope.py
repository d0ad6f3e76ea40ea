"""Saddle problems from a function of single records, over simplices or over polytopes with given vertices.

The function gives gradients row by row, so that they can be clipped row by row. Batch means could not: clipping a
mean leaves a sensitivity of the clip level itself, not of the level over the batch size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, forwarded
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems.custom.jax import in_double, require_jax
from dpconvex.problems.minimax.base import Pair, SimplexPoint, SimplexSaddle, check_bound, check_sizes, clamped

Gradients = Callable[[Floats, Floats, Array], tuple[Array, Array]]
Values = Callable[[Floats, Floats, Array], Array]


@final
@dataclass(frozen=True, eq=False)
class PolytopeSaddle(SimplexSaddle):
    """``f(u, v; z)``, convex in u and concave in v, over two polytopes given by their vertices.

    With ``u = V x`` and ``v = W y``, x and y in simplices, gradients lift to ``V^T grad_u`` and ``W^T grad_v``.
    *Lifted* coordinates are clipped, record by record; non-finite ones become 0. The functions must not raise for any
    content of a record.

    Records: an array (n, ...) of any form that the functions understand.

    Examples
    --------
    A random game with 3 rows and 2 columns:

    >>> import numpy as np
    >>> def gradients(u, v, A):
    ...     return A @ v, np.swapaxes(A, 1, 2) @ u
    >>> def values(u, v, A):
    ...     return A @ v @ u
    >>> game = PolytopeSaddle(
    ...     8, gradients, values, np.eye(3), np.eye(2), (1.0, 1.0), (-1.0, 1.0), 1.0, 0.0, is_bilinear=True
    ... )
    >>> game.dx, game.dy, game.spread
    (3, 2, (4.0, 4.0))
    """

    n: int
    #: ``gradients(u, v, records) -> (grad_u, grad_v)`` of shapes (m, p) and (m, q) for m records; row i a function of
    #: record i alone. For minimization only return ``np.zeros((m, 1))`` second and give ``W = [[0]]``.
    gradients: Gradients
    values: Values  #: ``values(u, v, records) -> (m,)``
    #: V (p, dx), W (q, dy): vertices in columns; identity matrices for simplices.
    V: Floats
    W: Floats
    #: ``(bx, by)``: lifted gradients are clipped to ``[-bx, bx]`` and ``[-by, by]``. Positive.
    bounds: tuple[float, float]
    value_bounds: tuple[float, float]  #: least and largest value, to which values are clipped
    #: l1_smoothness, l2_smoothness: L1 and L2 of the lifted function; they serve accuracy only.
    l1_smoothness: float = math.inf
    l2_smoothness: float = math.inf
    is_bilinear: bool = False  #: whether f is linear in u for fixed v and in v for fixed u
    title: str = "polytope saddle problem"  #: for plans and certificates
    name: ClassVar[str] = "polytope saddle problem"
    smoothness = forwarded("l1_smoothness")
    second_smoothness = forwarded("l2_smoothness")
    bilinear = forwarded("is_bilinear")
    value_range = forwarded("value_bounds")  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        for label in ("V", "W"):
            vertices = np.asarray(getattr(self, label), dtype=np.float64)
            if vertices.ndim != 2 or not np.isfinite(vertices).all():
                raise InvalidParameterError(label, vertices.shape, "must be a finite matrix, vertices in columns")
            object.__setattr__(self, label, vertices)
        check_sizes(self.n, self.dx, self.dy)
        for bound in self.bounds:
            check_bound("bounds", bound)
        _validate.real("l1_smoothness", min(self.l1_smoothness, 1e300), at_least=0.0)
        _validate.real("l2_smoothness", min(self.l2_smoothness, 1e300), at_least=0.0)
        low, high = self.value_bounds
        _validate.real("value_bounds", high, above=_validate.real("value_bounds", low))

    @property
    def dx(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.V.shape[1]

    @property
    def dy(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.W.shape[1]

    @property
    def spread(self) -> tuple[float, float]:
        return 4 * self.bounds[0], 4 * self.bounds[1] if self.dy > 1 else 0.0

    @property
    def lipschitz(self) -> tuple[float, float]:
        return self.bounds[0], self.bounds[1] if self.dy > 1 else 0.0

    def declared(self) -> "PolytopeSaddle":
        """Return the problem without its functions and with as many vertices: plans read no more of it."""
        V, W = (np.zeros((1, each.shape[1])) for each in (self.V, self.W))
        return replace(self, gradients=no_function, values=no_function, V=V, W=W)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "title": self.title, "bounds": list(self.bounds)}

    def check(self, records: Any) -> None:
        if not isinstance(records, np.ndarray) or records.shape[:1] != (self.n,):
            raise InvalidDataError(f"records must be an array with n={self.n} rows")

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        part = records[rows]
        found = self.gradients(x.combine(self.V), y.combine(self.W), part)
        sums = []
        for grad, vertices, bound in zip(found, (self.V, self.W), self.bounds, strict=True):
            each = np.asarray(grad, dtype=np.float64)
            if each.shape != (len(part), len(vertices)):
                wanted = f"(m, {len(vertices)}), one row a record"
                raise InvalidParameterError("gradients(...).shape", each.shape, f"must be {wanted}", "Do not average")
            finite = np.where(np.isfinite(each), each, 0.0)
            sums.append(clamped(finite @ vertices, bound).sum(0))
        return sums[0], sums[1]

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        return np.asarray(self.values(x.combine(self.V), y.combine(self.W), records[rows]), dtype=np.float64)


def no_function(*_: Any) -> NoReturn:
    """Stand for a function where only constants are known."""
    raise AssertionError("declared constants have no function")


def jax_saddle(
    f: Callable[[Any, Any, Any], Any],
    n: int,
    V: Floats,
    W: Floats,
    *,
    bounds: tuple[float, float],
    value_bounds: tuple[float, float],
    smoothness: float = math.inf,
    second_smoothness: float = math.inf,
    bilinear: bool = False,
) -> PolytopeSaddle:
    """Return the problem of one JAX function ``f(u, v, record)``. Needs ``dpconvex[jax]``.

    It is a JAX scalar, convex in u and concave in v. The other arguments are those of `PolytopeSaddle`; `smoothness`,
    `second_smoothness` and `bilinear` are its ``l1_smoothness``, ``l2_smoothness`` and ``is_bilinear``.
    """
    jax = require_jax("jax_saddle")
    compiled = jax.jit(jax.vmap(jax.value_and_grad(f, (0, 1)), (None, None, 0)))

    def gradients(u: Floats, v: Floats, records: Array) -> tuple[Array, Array]:
        gu, gv = in_double(compiled, u, v, records)[1]
        return np.asarray(gu), np.asarray(gv)

    def values(u: Floats, v: Floats, records: Array) -> Array:
        return np.asarray(in_double(compiled, u, v, records)[0])

    constants = (smoothness, second_smoothness, bilinear)
    return PolytopeSaddle(n, gradients, values, V, W, bounds, value_bounds, *constants, "jax saddle problem")
