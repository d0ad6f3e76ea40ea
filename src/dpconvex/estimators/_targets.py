"""What is predicted: labels to positions, numbers to a public range. Looks at public form, never at content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import narwhals as nw
import numpy as np
from sklearn.utils.validation import column_or_1d

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.recipes import stored
from dpconvex.data.frames import object_codes, object_texts, type_name
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._features import elements, numbers_of, refuse_name

LARGEST = 1e100
"""Of a target bound: as the losses have it."""


def as_series(y: Any) -> nw.Series[Any]:
    """Return labels of any kind (array, list, Series) as one narwhals series.

    Raises
    ------
    InvalidDataError
        If `y` is not one-dimensional (a public fact).
    """
    import pyarrow as pa

    found = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(found, nw.Series):
        return found
    if isinstance(y, list | tuple):
        return nw.from_native(pa.chunked_array([object_texts(elements(y))]), series_only=True)
    labels, kind = label_array(y)
    values = labels.tolist() if kind == "text" else labels
    return nw.new_series("y", values, backend="pyarrow")


def declared_index(y: Any, classes: AnyArray, name: str = "y") -> AnyArray:
    """Return the index of every label in the declared `classes`, (n,); one that is not listed counts as the first.

    Lists and arrays of Python objects have no dtype, or one that their cells decide, so their cells are compared as a
    schema compares those of a column: by their text, or else as numbers. No cell raises.

    Parameters
    ----------
    y : array, list or Series of shape (n,)
        Labels.
    classes : array of shape (n_classes,)
        Public.
    name : str
        What the caller called `y`.

    Raises
    ------
    InvalidDataError
        If `y` is not one-dimensional, or of a dtype that is text where the classes are not (public facts).
    """
    refuse_name(name, y)
    if not isinstance(y, list | tuple):
        cells = np.asarray(y)
        if cells.dtype.kind != "O" or cells.ndim != 1 or _typed(y):
            return encode_labels(*label_array(y, name), classes, name)
    else:
        cells = elements(y)
    return np.maximum(object_codes(cells, [str(label).strip() for label in classes.tolist()]), 0)


def _typed(y: Any) -> bool:
    """Whether labels are a column of a declared type, though NumPy knows no dtype for it."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    return isinstance(series, nw.Series) and type_name(series).lower() != "object"


def label_array(y: Any, name: str = "y") -> tuple[AnyArray, str]:
    """Return labels as an array (n,) and their kind, ``"text"``, ``"number"`` or ``"boolean"``, from the dtype alone.

    Missing numbers become NaN and missing or odd texts the empty text. Where classes are declared use `declared_index`:
    the dtype of a list depends on its cells.

    Raises
    ------
    InvalidDataError
        If `y` is not one-dimensional.
    """
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and (series.dtype.is_numeric() or series.dtype == nw.Boolean):
        numbers = series.cast(nw.Float64).to_numpy()
        return numbers, "boolean" if series.dtype == nw.Boolean else "number"
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    if labels.ndim != 1:
        raise InvalidDataError(f"{name} has shape {labels.shape}; a one-dimensional array of labels is needed")
    if labels.dtype.kind in "fiu":
        return labels, "number"
    if labels.dtype.kind == "b":
        return labels, "boolean"
    texts = [_text(label) for label in labels.tolist()]  # Python objects: nothing to vectorise
    return np.array(texts, dtype=object), "text"  # not of one width: a single long text would take it for all


def _text(label: Any) -> str:
    return label if isinstance(label, str) else str(label) if isinstance(label, int | float | np.number) else ""


def default_index(y: Any) -> tuple[AnyArray, AnyArray]:
    """Return the class index of every label, (n,), and the classes 0 and 1, or False and True, by the labels' dtype.

    Raises
    ------
    InvalidParameterError
        If labels are text, or a list, which has no dtype.
    InvalidDataError
        If `y` is not one-dimensional.
    """
    if isinstance(y, list | tuple):
        what = "must be given for a list of labels, whose type a single one would decide"
        raise InvalidParameterError("classes", None, what, "List them, negative class first, or give y as an array")
    labels, kind = label_array(y)
    if kind == "text":
        remedy = "List them, negative class first"
        raise InvalidParameterError("classes", None, "must be given for text labels", remedy)
    classes = np.array([False, True]) if kind == "boolean" else np.array([0, 1], dtype=labels.dtype)
    return encode_labels(labels, kind, classes), classes


def encode_labels(labels: AnyArray, kind: str, classes: AnyArray, name: str = "y") -> AnyArray:
    """Return the index of every label in `classes`; a label that is not listed counts as the first class.

    Raises
    ------
    InvalidDataError
        If labels are text and classes are not, or the other way round (public facts).
    """
    text = classes.dtype.kind in "UO"
    if text != (kind == "text"):
        listed = ("classes=" if name == "y" else "declared are ") + repr(classes.tolist())
        raise InvalidDataError(f"{name} holds {kind} labels, but {listed}: give both the same type")
    listed = classes.astype(str) if text else classes
    index = np.zeros(len(labels), dtype=np.intp)
    for k, label in enumerate(listed[1:], start=1):
        index[labels == label] = k
    return index


def number_array(y: Any) -> AnyArray:
    """Return numeric targets as an array (n,); missing ones are NaN, and so is what is no number in a list.

    Raises
    ------
    InvalidDataError
        If `y` is not one-dimensional or has a dtype of text or objects (public facts).
    """
    if isinstance(y, list | tuple):
        return numbers_of(
            elements([cell[0] if isinstance(cell, list | tuple) and len(cell) == 1 else cell for cell in y])
        )
    values, kind = label_array(y)
    if kind == "text":
        raise InvalidDataError("y holds text or objects, and numbers are needed. Convert it to a numeric dtype")
    return values


@final
@stored
@dataclass(frozen=True)
class TargetRange:
    """The public range of a numeric target, in its own unit.

    Parameters
    ----------
    lower, upper : float
        ``lower < upper``, at most 1e100 in size.
    """

    lower: float
    upper: float

    @classmethod
    def checked(cls, bounds: Any) -> TargetRange:
        """Return the range ``(lower, upper)``, or raise `InvalidParameterError`."""
        try:
            lower, upper = bounds
        except (TypeError, ValueError):
            raise InvalidParameterError(
                "target_bounds", bounds, "must be two numbers (lower, upper)", "Take them from public knowledge"
            ) from None
        low = _validate.real("target_bounds[0]", lower)
        high = _validate.real("target_bounds[1]", upper, above=low, remedy="Give a range wider than one value")
        if max(-low, high) > LARGEST:
            raise InvalidParameterError("target_bounds", bounds, f"must be at most {LARGEST:g} in size")
        return cls(low, high)

    @property
    def width(self) -> float:
        """``upper - lower``."""
        return self.upper - self.lower

    @property
    def middle(self) -> float:
        """Half-way between the bounds."""
        return self.lower / 2 + self.upper / 2

    def scale(self, values: AnyArray, reach: float = 0.5) -> FloatArray:
        """Return a float64 copy (n,) that maps the range to [-1/2, 1/2], clipped to [-reach, reach]; NaN becomes 0."""
        with np.errstate(all="ignore"):  # long doubles beyond float64 become infinities
            out = (np.array(values, dtype=np.float64) - self.middle) / self.width
            return np.nan_to_num(np.clip(out, -reach, reach), copy=False, nan=0.0)
