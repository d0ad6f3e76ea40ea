"""Checks of a model that was read from a file: as if its parameters had been given by a user, and its parts agreed."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.select import SMALLEST
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._features import FeatureMap
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.classifier import PrivateLinearClassifier
from dpconvex.estimators.lasso import PrivateLasso
from dpconvex.estimators.logistic import PrivateLogisticRegression
from dpconvex.estimators.regressor import PrivateLinearRegressor
from dpconvex.estimators.sparse import PrivateSparseModel
from dpconvex.privacy import PrivacyParams

_REALS: dict[str, dict[str, Any]] = {
    "l2": {"above": 0.0},
    "coefficient_norm": {"above": 0.0},
    "tilt": {"at_least": 0.0},
    "adversarial_radius": {"at_least": 0.0},
    "smallest_share": {"above": 0.0, "below": 1.0},
}
"""Ranges of parameters that no other check here covers; None stands for a default."""

_TEXTS = ("algorithm", "constants", "noise", "risk", "adversarial_norm", "group_column")


def check_restored(model: PrivateLinearModel | PrivateSparseModel, names: Any, classes: AnyArray | None) -> None:
    """Raise unless a restored model could have been fitted with its parameters, and its parts agree.

    Parameters
    ----------
    model : PrivateLinearModel or PrivateSparseModel
        With coefficients, intercepts and the number of features.
    names : list of str or None
        Of the features, where they had any.
    classes : array or None
        Of a classifier.

    Raises
    ------
    InvalidParameterError, InvalidDataError
    """
    _parameters(model)
    _sizes(model)
    features = _features(model)
    outputs = _outputs(model, classes)
    d = features.domain.n_features
    count = d if model.schema is None else len(model.schema.columns)
    if model.n_features_in_ != count:
        raise InvalidDataError(f"it says {model.n_features_in_} columns, and its parameters {count}")
    if names is not None and not (isinstance(names, list) and [type(name) for name in names] == [str] * count):
        raise InvalidDataError(f"it must name {count} columns, or none")
    _agree(model, features, (outputs, d), classes is None)


def _parameters(model: PrivateLinearModel | PrivateSparseModel) -> None:
    given = model.get_params(deep=False)
    PrivacyParams(given["epsilon"], given["delta"])
    for name, bounds in _REALS.items():
        if given.get(name) is not None:
            _validate.real(name, given[name], **bounds)
    for name in _TEXTS:
        if not isinstance(given.get(name, ""), str | None):
            raise InvalidParameterError(name, given[name], "must be text")
    if not isinstance(given["fit_intercept"], bool):
        raise InvalidParameterError("fit_intercept", given["fit_intercept"], "must be true or false")
    _validate.integer("records_per_user", given.get("records_per_user", 1), at_least=1)


def _sizes(model: PrivateLinearModel | PrivateSparseModel) -> None:
    """Compare the declared number of features with the coefficients, before anything of that size is made."""
    found, domain = np.shape(model.encoded_coef_), getattr(model, "domain", None)
    stated = None if model.schema is not None else model.n_features_in_ if domain is None else domain.n_features
    if len(found) != 2 or stated not in (None, found[1]):
        raise InvalidDataError(f"its encoded coefficients have shape {found}, and its parameters say {stated} features")


def _features(model: PrivateLinearModel | PrivateSparseModel) -> FeatureMap:
    features = model._feature_map(model.n_features_in_)
    if isinstance(model, PrivateSparseModel):
        model._radius(features)
    return features


def _outputs(model: PrivateLinearModel | PrivateSparseModel, classes: AnyArray | None) -> int:
    """Return the number of outputs, and check what the model predicts."""
    if isinstance(model, PrivateLinearRegressor):
        model._loss(model._range().width, model._reach())
    if isinstance(model, PrivateLasso):
        model._range()
    if isinstance(model, PrivateLinearRegressor | PrivateLasso) != (classes is None):
        raise InvalidDataError("a classifier must list its classes, and nothing else may")
    if classes is None:
        return 1
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) < len(classes):
        raise InvalidDataError("a classifier must list at least two different classes")
    if isinstance(model, PrivateLogisticRegression):
        cap = _validate.real("slope_cap_", model.slope_cap_, at_least=SMALLEST, at_most=1.0)
        if model.slope_cap not in (None, cap) or (len(classes) > 2 and cap != 1):
            raise InvalidDataError(f"its slope cap, {cap:g}, is not that of its parameters and classes")
    if isinstance(model, PrivateLinearClassifier):
        if not (declared := model._schema_classes()) or tuple(classes.tolist()) != declared:
            model.classes = classes  # rates are in their order
        model._loss(len(classes))
    elif len(classes) > 2:
        raise InvalidDataError("a sparse classifier has two classes")
    return 1 if len(classes) == 2 else len(classes)


def _agree(
    model: PrivateLinearModel | PrivateSparseModel, features: FeatureMap, shape: tuple[int, int], flat: bool
) -> None:
    """Check the shapes of coefficients and intercepts, and that both forms of them say the same."""
    outputs, d = shape
    wanted: dict[str, tuple[Any, tuple[int, ...]]] = {
        "encoded coefficients": (model.encoded_coef_, shape),
        "encoded intercepts": (model.encoded_intercept_, (outputs,)),
        "coefficients": (model.coef_, (d,) if flat else shape),
        "intercepts": (model.intercept_, () if flat else (outputs,)),
    }
    for name, (values, form) in wanted.items():
        if np.shape(values) != form:
            raise InvalidDataError(f"its {name} have shape {np.shape(values)}, and its parameters say {form}")
    if not (np.isfinite(model.encoded_coef_).all() and np.isfinite(model.encoded_intercept_).all()):
        raise InvalidDataError("its coefficients are not finite")
    with np.errstate(all="ignore"):
        found = features.decode(model.encoded_coef_, model.encoded_intercept_)
    stored: tuple[FloatArray, FloatArray] = (np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_))
    size = np.abs(found[0]).max(initial=1.0) + np.abs(found[1]).max(initial=1.0)  # of terms that may have cancelled
    if not all(np.allclose(a, b, rtol=1e-6, atol=1e-9 * size) for a, b in zip(stored, found, strict=True)):
        raise InvalidDataError("its coefficients are not those of its encoded features")
