"""Checks of public parameters, each with one message form: ``name=value: what is required. how to fix it``."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from dpconvex.errors import InvalidParameterError, MissingExtraError

EXTRAS: dict[str, str] = {
    **dict.fromkeys(("numba", "flint", "randomgen", "skops", "pyarrow"), "fit"),
    **{name: name for name in ("opendp", "onnx", "jax", "dask", "ray")},
    **{"matplotlib": "report", "jinja2": "report", "cryptography": "sign"},
}  #: Modules that `pip install dpconvex` does not install, and the extras of pyproject.toml that install them.
MOST_RECORDS = 2**53  # largest number of records: up to it floats count exactly
SMALLEST, LARGEST = 1e-100, 1e100  # limits of public parameters, so that squares and ratios do not overflow
SMALLEST_SHARE = 1e-9  # smallest share of a class: a rarer class gives a first prediction of more than 20 logits


def installed(*modules: str) -> None:
    """Raise `MissingExtraError` unless all of these modules of `EXTRAS` can be imported."""
    if missing := [name for name in modules if not _found(name)]:
        extras = ",".join(dict.fromkeys(EXTRAS[name] for name in missing))
        what = f"{' and '.join(missing)}: must be installed for this. Use pip install 'dpconvex[{extras}]'"
        raise MissingExtraError(what)


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


class Later(ModuleType):
    """A module that is imported when it is first used, after a check that the extra it belongs to is installed."""

    def __getattr__(self, name: str) -> Any:
        package = self.__name__.partition(".")[0]
        installed(*[package] * (package in EXTRAS))
        found = getattr(import_module(self.__name__), name)
        vars(self)[name] = found  # asked once
        return found

    def __reduce__(self) -> tuple[Any, ...]:  # tasks are sent to other processes
        return import_module, (self.__name__,)


def real(
    name: str, value: Any, *, above: float | None = None, at_least: float | None = None,
    below: float | None = None, at_most: float | None = None, remedy: str = "",
) -> float:  # fmt: skip
    """Return `value` as a finite float inside the stated range, or raise `InvalidParameterError`."""
    number = _number(value)
    if (
        math.isfinite(number)
        and (above is None or above < number)
        and (at_least is None or at_least <= number)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    ):
        return number
    bounds = {">": above, ">=": at_least, "<": below, "<=": at_most}
    wanted = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds.items() if bound is not None)
    raise InvalidParameterError(name, value, f"must be a finite number {wanted}".rstrip(), remedy)


def integer(name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None, remedy: str = "") -> int:
    """Return `value` as an int within the stated range, or raise `InvalidParameterError`."""
    requirement = "must be an integer" + (f" >= {at_least}" if at_least is not None else "")
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or (at_least is not None and int(value) < at_least):
        raise InvalidParameterError(name, value, requirement, remedy)
    if at_most is not None and int(value) > at_most:
        raise InvalidParameterError(name, value, f"must be at most {at_most}", remedy)
    return int(value)


def optional(check: Callable[..., Any], values: Mapping[str, Any], **bounds: Any) -> None:
    """Apply `check` to each of the named values that is not None."""
    for name, value in values.items():
        if value is not None:
            check(name, value, **bounds)


def positive(whole: object, *names: str) -> None:
    """Check that the named attributes are finite numbers above 0."""
    for name in names:
        real(name, getattr(whole, name), above=0.0)


def records(name: str, value: Any) -> int:
    """Return a number of records, an int from 1 to `MOST_RECORDS`, or raise `InvalidParameterError`."""
    if integer(name, value, at_least=1) > MOST_RECORDS:
        raise InvalidParameterError(name, value, f"must be at most {MOST_RECORDS}, up to which floats count exactly")
    return int(value)


def shares(name: str, values: Any, count: int) -> tuple[float, ...]:
    """Return public shares of `count` classes, which add up to 1, or raise `InvalidParameterError`.

    Shares may be rounded to percent, as publications print them: they are then scaled so that they add up to 1.
    """
    remedy = "Give one share a class from public knowledge, in the order of the classes"
    if isinstance(values, str) or not isinstance(values, list | tuple) or len(values) != count:
        raise InvalidParameterError(name, values, f"must be a list of {count} shares", remedy)
    found = [real(f"{name}[{k}]", value, at_least=SMALLEST_SHARE, remedy=remedy) for k, value in enumerate(values)]
    total = math.fsum(found)
    if not abs(total - 1) <= 0.005 * count:
        raise InvalidParameterError(name, values, f"must add up to 1, and they add up to {total:.4g}", remedy)
    return tuple(found) if abs(total - 1) <= 1e-12 else tuple(share / total for share in found)


def choice(name: str, value: Any, options: Iterable[str], remedy: str = "") -> str:
    """Return `value` when it is one of `options`, or raise `InvalidParameterError`."""
    listed = [str(option) for option in options]
    if not isinstance(value, str) or value not in listed:
        raise InvalidParameterError(name, value, "must be one of " + ", ".join(map(repr, listed)), remedy)
    return value


def _number(value: Any) -> float:
    """Return a real number as a float, and NaN for anything else."""
    if type(value) is float:  # true of most values, and the check below is slow
        return value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def dtype_of(array: Any) -> str:
    """Return the kind of an array's cells for messages; a full dtype would reveal the length of the longest text."""
    return array.dtype.type.__name__.rstrip("_")


def shape_of(array: Any) -> str:
    """Return an array's shape in words for errors, without its length, as the number of records may be private."""
    return f"({', '.join(['n', *map(str, array.shape[1:])])}{',' * (len(array.shape) == 1)})"
