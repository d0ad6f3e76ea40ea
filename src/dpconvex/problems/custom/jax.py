"""A record loss from one JAX function: values and gradients by automatic differentiation, compiled."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.custom.functions import RecordLoss
from dpconvex.problems.data.domain import DataDomain


def jax_loss(
    f: Callable[[Any, Any], Any], *, dim: int, domain: DataDomain, lipschitz: float | Callable[[float], float],
    smoothness: float = math.inf, value_at_zero: float = math.inf, name: str = "jax loss",
) -> RecordLoss:  # fmt: skip
    """Return the loss of one record as a `RecordLoss`. Needs ``dpconvex[jax]``.

    The function is mapped over records, differentiated and compiled; it runs in float64, whatever JAX does elsewhere.

    Parameters
    ----------
    f : callable
        ``f(w, record)`` of parameters (dim,) and one record (n_features,), a JAX scalar, convex in w. It must be
        traceable, so no data can make it raise.
    dim : int
        Length of w.
    domain : DataDomain
        Where records are clipped to.
    lipschitz : float or callable
        Largest gradient norm (l2), or that as a function of the norm of w.
    smoothness, value_at_zero : float
        As in `ConvexFunction`.
    name : str
        For plans and certificates.

    Raises
    ------
    ImportError
        If JAX is not installed.

    Examples
    --------
    A robust center of points in the plane (see `LocationLoss`)::

        import jax.numpy as jnp

        loss = jax_loss(
            lambda w, x: jnp.sqrt(1 + jnp.sum((w - x) ** 2)),
            dim=2,
            domain=DataDomain.l2_ball(2, 1.0),
            lipschitz=1.0,
            smoothness=1.0,
        )
    """
    jax = require_jax("jax_loss")
    _validate.integer("dim", dim, at_least=1)
    loss = JaxLoss(f, dim, domain, lipschitz, smoothness, value_at_zero, name)
    shape = jax.eval_shape(f, np.zeros(dim), np.zeros(domain.n_features)).shape
    if shape != ():
        raise InvalidParameterError("f", name, f"must return a scalar, not an array of shape {shape}", "Sum it up")
    return loss


@final_dataclass(eq=False)
class JaxLoss(RecordLoss):
    """What `jax_loss` returns; parameters as there."""

    f: Callable[[Any, Any], Any]
    dim: int
    domain: DataDomain
    slope: float | Callable[[float], float]
    smoothness: float = math.inf
    value_at_zero: float = math.inf
    name: str = "jax loss"

    def lipschitz(self, radius: float) -> float:
        return float(self.slope(radius) if callable(self.slope) else self.slope)

    def value(self, w: Floats, records: Floats) -> Floats:
        return self._call("each", w, records)[0]

    def gradient(self, w: Floats, records: Floats) -> Floats:
        return self._call("each", w, records)[1]

    def each(self, points: Floats, records: Floats) -> tuple[Floats, Floats]:
        """Return both by one call, rows filled up to a power of two: few sizes are compiled."""
        m = len(records)
        rows = np.minimum(np.arange(1 << (m - 1).bit_length()), m - 1)
        values, gradients = self._call("pairs", points[rows], records[rows])
        return values[:m], gradients[:m]

    def sums(self, w: Floats, records: Floats) -> tuple[float, Floats]:
        """Return both sums by one backward pass, without the gradients of single records."""
        value, gradient = self._call("sum", w, records)
        return float(value), gradient

    @cached_property
    def _compiled(self) -> dict[str, Callable[..., Any]]:
        """For one point and many records, for a point a record, and for the sum over records at one point."""
        jax = require_jax("jax_loss")
        each = jax.value_and_grad(self.f)
        total = jax.value_and_grad(lambda w, records: jax.vmap(self.f, (None, 0))(w, records).sum())
        kinds = {"each": jax.vmap(each, (None, 0)), "pairs": jax.vmap(each), "sum": total}
        return {name: jax.jit(function) for name, function in kinds.items()}

    def _call(self, which: str, w: Floats, records: Floats) -> tuple[Floats, Floats]:
        value, gradient = in_double(self._compiled[which], w, records)
        if value.dtype != np.float64:
            remedy = "Its results are certified to 13 digits; convert nothing to float32"
            raise InvalidParameterError("f(...).dtype", str(value.dtype), "must be float64", remedy)
        return np.asarray(value), np.asarray(gradient)


def require_jax(name: str) -> Any:
    """Return JAX, or raise `ImportError`: `name` needs it."""
    try:
        import jax  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(f"{name} needs JAX. Install it with: pip install 'dpconvex[jax]'") from error
    return jax


def in_double(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function with 64-bit numbers, a setting that ends with the call; no content of data raises."""
    import jax  # pyright: ignore[reportMissingImports]

    with jax.enable_x64(True), jax.debug_nans(False), jax.debug_infs(False):
        return function(*arguments)
