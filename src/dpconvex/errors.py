"""Exceptions of dpconvex. All are raised from public facts only: parameters, schema, shapes, dtypes, files."""

import os
import sys
import warnings
from typing import Any


class DpconvexError(Exception):
    """Base class of every error that dpconvex raises on purpose."""


class InvalidParameterError(DpconvexError, ValueError):
    """A parameter is outside its allowed range: its `name` as the caller wrote it, and the `value` that was given.

    The `requirement` says what is required, and the `remedy`, which may be empty, how to fix it.
    """

    def __init__(self, name: str, value: Any, requirement: str, remedy: str = "") -> None:
        self.name, self.value, self.requirement, self.remedy = name, value, requirement, remedy
        text = f"{name}={_shown(value)}: {requirement}."
        super().__init__(f"{text} {remedy}." if remedy else text)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.value, self.requirement, self.remedy)


def _shown(value: Any) -> str:
    """Return a parameter's text, cut if it is longer than `MOST_SHOWN`, as it may come from a file."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer with more digits than Python prints, deeply nested lists
        text = f"<{type(value).__name__} that is too long to print>"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


MOST_SHOWN = 300  # largest number of a parameter's characters in a message


class UnavailableError(InvalidParameterError, AttributeError):
    """Something that this object is too large to have. For tools that read all attributes, a missing attribute."""


class InvalidDataError(DpconvexError, ValueError):
    """Data whose *public* form (shape, dtype, columns) cannot be used; never raised because of data content."""


class SchemaError(DpconvexError, ValueError):
    """A schema file or object is malformed, or a table does not have the schema's columns."""


class MissingExtraError(DpconvexError, ImportError):
    """A package that this use needs is not installed; the message names the extra that brings it."""


class BudgetExceededError(DpconvexError):
    """A release was asked for that the planned budget does not cover."""


class BudgetFileError(DpconvexError):
    """A budget file is missing, is no budget, or cannot be locked or written; nothing may be released then."""


class UnsupportedEventError(DpconvexError, ValueError):
    """A privacy event that no accountant here can price; it is refused, never guessed."""


class CertificateError(DpconvexError):
    """A privacy certificate is malformed, inconsistent or tampered with."""


def warn(category: "type[DpconvexWarning]", text: str) -> None:
    """Give a warning that points at the first caller outside this package."""
    frame, level, package = sys._getframe(1), 2, os.path.dirname(__file__)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


class NotPaidForError(DpconvexError, AttributeError):
    """A fit was asked for something that it did not release."""


class DpconvexWarning(UserWarning):
    """Base class of every warning of dpconvex. All are given from public facts only, as errors are."""


class HopelessPlanWarning(DpconvexWarning):
    """A fit that is not expected to be clearly better than a constant answer, by its plan (`Plan.hopeless`)."""


class LargeDeltaWarning(DpconvexWarning):
    """A promise whose delta is at least one divided by the number of units: it allows publishing one unit's data."""


class RepeatedFitWarning(DpconvexWarning):
    """Another fit to the same columns and number of records in this process: if data are the same, costs add up."""


class AccuracyError(DpconvexError):
    """A solver could not certify the accuracy that the plan promised, so nothing is released.

    Plans pair a fast solver with a guaranteed one, so this marks a configuration without an affordable bound;
    the plan and the certificate of such a configuration say that refusing lies outside the guarantee.
    """
