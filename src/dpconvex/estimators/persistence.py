"""Fitted models on disk: what prediction needs and the certificate, as plain values that are safe to load.

A model file is a skops archive of dictionaries, lists, text, numbers and numeric arrays only. ``skops.io.load`` opens
it without trusting any type. `load_model` reads its JSON and its arrays by itself: skops would follow references from
one value to another, and a small file may hold more of them than any machine can follow. Loading never runs code from
the file and takes time and memory in proportion to its size. It holds what the fit released and public facts; no data,
no generator, no seed.
"""

import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import astuple
from itertools import count
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpconvex import _validate, estimators
from dpconvex._types import Array, Floats
from dpconvex.algorithms.erm.heavy_tailed.registry import constraint_ends
from dpconvex.data import Schema, write_atomically
from dpconvex.data.targets import PRIVATE
from dpconvex.errors import CertificateError, DpconvexError, InvalidDataError, InvalidParameterError
from dpconvex.estimators._digest import domain_fields, model_digest
from dpconvex.estimators._features import FeatureMap
from dpconvex.estimators._targets import class_shares
from dpconvex.privacy import PrivacyCertificate, PrivacyParams
from dpconvex.problems import Block, DataDomain, NumberRange
from dpconvex.sets import ConvexSet

SavedModel = estimators.PrivateLinearModel | estimators.PrivateSparseModel  #: What can be saved: linear models, fitted.
_PLAIN = {("DictNode", "builtins", "dict"), ("ListNode", "builtins", "list"), ("TupleNode", "builtins", "tuple")}
_PLAIN |= {("TypeNode", "builtins", "str"), ("JsonNode", "builtins", "str"), ("NdArrayNode", "numpy", "ndarray")}
"""All that a model file is made of. skops itself trusts many more types, whose constructors would run."""

MOST_MODEL = 2**30  #: Largest size of a model file.
_LARGE = (ArithmeticError, MemoryError)  #: Raised for numbers and shapes that are too large.
MODEL, CERTIFICATE = "model.skops", "certificate.json"  #: Names that commands give to a model's files.
FORMAT, VERSION = "dpconvex-model", 1  #: Stored in every file. A reader accepts its own version only.
_DROPPED = ("classes", "groups", "group_shares", "random_state", "verbose")
_CODED = ("schema", "domain", "feature_bounds", "target_bounds", *_DROPPED)
"""Constructor parameters that are not stored as they are; the dropped ones are not stored at all."""
_LATER = {"inference"}  # Parameters that older files lack; False there.
_REALS: dict[str, dict[str, Any]] = {name: {"above": 0.0} for name in ("weight_cap", "l2", "coefficient_norm")}
_REALS |= {name: {"at_least": 0.0} for name in ("tilt", "adversarial_radius")}
_REALS |= {name: {"above": 0.0, "below": 1.0} for name in ("smallest_share", "failure")}
"""Ranges of the parameters that no other check here covers; a value of None means the default."""

_TEXTS = ("algorithm", "constants", "noise", "risk", "adversarial_norm", "group_column")
_TEXTS += ("solver", "user_test", "user_smoothing", "surrogate")

CLASSIFIERS = (estimators.PrivateLinearClassifier, estimators.PrivateSparseClassifier)


def save_model(estimator: SavedModel, path: str | Path) -> None:
    """Write a fitted estimator to `path`, atomically.

    Parameters
    ----------
    estimator : PrivateLinearModel or PrivateSparseModel
        Any linear model of the library, fitted. What is stored is already released, so saving costs no privacy.
    path : str or Path
        File to write; an existing file is replaced.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    InvalidParameterError
        If the class labels are neither text, numbers nor Booleans, or the estimator was changed after `fit`.
    InvalidDataError
        If the file cannot be written.
    """
    if not isinstance(estimator, SavedModel):
        what, remedy = "must be a linear, additive or sparse model", "Of a search, save best_estimator_"
        raise InvalidParameterError("estimator", type(estimator).__name__, what, remedy)
    check_is_fitted(estimator)
    content = archive(_state(estimator))
    if estimator.certificate_.model not in (None, model_digest(estimator)) or not _covered(estimator):
        what = "was changed after its fit, so its certificate is not of this model"
        raise InvalidParameterError("estimator", type(estimator).__name__, what, "Save it as it was fitted")
    write_atomically(path, content)


def archive(value: Any) -> bytes:
    """Return a skops archive of `value` that is the same in every process.

    skops numbers objects by their addresses in memory, and these tell what else the process has read: cells, too.
    """
    _validate.installed("skops")
    from skops.io import dumps

    numbers, places = dict[str, str](), count()

    def numbered(node: Any) -> Any:
        if isinstance(node, list):
            return [numbered(each) for each in node]
        if not isinstance(node, dict):
            return node
        found = {key: numbered(each) for key, each in node.items()}
        if isinstance(found.get("__id__"), int):  # each node is written where it stands
            found["__id__"] = next(places)
        if isinstance(name := found.get("file"), str):
            found["file"] = numbers.setdefault(name, f"{len(numbers)}.npy")
        return found

    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(dumps(value))) as given, zipfile.ZipFile(written, "w") as out:
        schema = json.dumps(numbered(json.loads(given.read("schema.json"))), indent=2)
        for name, new in numbers.items():
            out.writestr(zipfile.ZipInfo(new), given.read(name))
        out.writestr(zipfile.ZipInfo("schema.json"), schema)
    return written.getvalue()


def load_model(path: str | Path) -> SavedModel:
    """Read an estimator written by `save_model`. It predicts exactly as the saved one did.

    ``plan_`` is not stored; ``model.plan(n, n_features)`` computes it again from public facts.

    Parameters
    ----------
    path : str or Path
        File written by `save_model`, or a folder of ``dpconvex fit``. It may come from anywhere: nothing in it is
        executed.

    Returns
    -------
    PrivateLinearModel or PrivateSparseModel
        Of the class that was saved; fitted, with ``coef_``, ``intercept_``, ``certificate_`` and, for a classifier,
        ``classes_``.

    Raises
    ------
    InvalidDataError
        If the file cannot be read, is not a model of this version, or holds the certificate of another model.
    """
    path = Path(path) / MODEL if os.path.isdir(path) else path
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for a writer
            raise InvalidDataError(f"model file {str(path)!r} is no regular file")
        with open(path, "rb") as file:
            content = file.read(min(os.fstat(file.fileno()).st_size, MOST_MODEL) + 1)
    except OSError as error:
        raise InvalidDataError(f"model file {str(path)!r} cannot be read: {error.strerror}") from None
    if len(content) > MOST_MODEL:
        raise InvalidDataError(f"model file {str(path)!r} is larger than {MOST_MODEL >> 20} MiB. No model is")
    try:
        return _restored(_plain_values(content))
    except (DpconvexError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, *_LARGE) as error:
        told = isinstance(error, (InvalidDataError, InvalidParameterError, CertificateError))
        detail = str(error) if told else type(error).__name__
        raise InvalidDataError(f"model file {str(path)!r} is not a dpconvex model: {detail}") from None


def _plain_values(content: bytes) -> dict[str, Any]:
    """Return the archive's content, refusing any type that is not plain."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            if size > len(content):  # model files are not compressed, so an entry cannot be larger than the file
                raise InvalidDataError(f"it unpacks to {size:,} bytes from {len(content):,}")
            schema = json.loads(archive.read("schema.json"))
            if _kinds(schema) - _PLAIN:
                raise InvalidDataError("it holds objects, and a model file holds plain values only")
            arrays = {name: archive.read(name) for name in set(archive.namelist()) if name.endswith(".npy")}
        state = _value(schema, {name: _array(held) for name, held in arrays.items()})
    except InvalidDataError:
        raise
    except Exception:  # an untrusted file may break its readers in any way, but none of them runs code from it
        raise InvalidDataError("it is not a skops archive") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise InvalidDataError("it is a skops archive of something else")
    if state.get("version") != VERSION:
        raise InvalidDataError(f"it has version {state.get('version')!r}, and this dpconvex reads version {VERSION}")
    return state


def _value(node: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    """Return the value of a node of the schema; every node is read once, where it stands."""
    kind = node["__loader__"]
    content: Any = node.get("content")
    if kind == "DictNode":
        return {str(key): _value(each, arrays) for key, each in dict(content).items()}
    if kind in ("ListNode", "TupleNode"):
        values = [_value(each, arrays) for each in list(content)]
        return tuple(values) if kind == "TupleNode" else values
    return arrays[node["file"]] if kind == "NdArrayNode" else json.loads(content)


def _array(content: bytes) -> Array:
    """Return an array of NumPy's own format; its header must declare just as much as follows."""
    file = io.BytesIO(content)
    versions = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_columns, dtype = versions[np.lib.format.read_magic(file)](file)
    if dtype.hasobject or min(shape, default=1) < 1 or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError("not what its header says")
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape, order="F" if by_columns else "C").copy()


def _kinds(node: Any) -> set[tuple[str, ...]]:
    """Loader, module and class of everything in the schema of a skops archive."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    own = set[tuple[str, ...]]()
    if isinstance(node, dict) and "__loader__" in node:
        own.add(tuple(str(node.get(key)) for key in ("__loader__", "__module__", "__class__")))
    return own.union(*map(_kinds, children))


def _state(estimator: SavedModel) -> dict[str, Any]:
    given = estimator.get_params(deep=False)
    parameters = {name: _native(value) for name, value in given.items() if name not in _CODED}
    parameters["schema"] = None if estimator.schema is None else estimator.schema.to_toml()
    if "domain" in given:
        parameters["domain"] = None if given["domain"] is None else domain_fields(given["domain"])
    for name, array in (("feature_bounds", lambda b: np.asarray(b, dtype=np.float64)), ("target_bounds", float)):
        if name in given:  # "private": found ranges are stored separately
            bounds = given[name]
            parameters[name] = bounds if isinstance(bounds, str | None) else [array(b) for b in bounds]
    if isinstance(given.get("class_weight"), Mapping):  # as a list: model files know text as keys alone
        classes = vars(estimator)["classes_"]
        class_shares(given["class_weight"], classes)  # refuses what was set after the fit
        parameters["class_weight"] = [float(given["class_weight"][label]) for label in classes.tolist()]
    classes = estimator.classes_.tolist() if isinstance(estimator, CLASSIFIERS) else []
    if not all(isinstance(value, (str, int, float)) for value in classes):
        raise InvalidParameterError("classes", classes, "must be text, numbers or Booleans to be saved")
    names = vars(estimator).get("feature_names_in_")  # set by scikit-learn for tables with text column names
    knots = vars(estimator).get("knots_")  # of additive models
    kind = {"format": FORMAT, "version": VERSION, "estimator": type(estimator).__name__, "parameters": parameters}
    return {
        **kind,
        **{name: getattr(estimator, f"{name}_") for name in ("coef", "intercept", "encoded_coef", "encoded_intercept")},
        # with their dtype: text, of fixed length or objects, round-trips too
        "classes": {"dtype": vars(estimator)["classes_"].dtype.str, "values": classes} if classes else None,
        "slope_cap": vars(estimator).get("slope_cap_"),  # of logistic models: how scores become probabilities
        "n_features_in": int(estimator.n_features_in_),
        "ranges": [list(astuple(each)) for each in estimator.ranges_],
        "feature_names_in": None if names is None else [str(name) for name in names],
        "certificate": estimator.certificate_.to_json(),
        **({} if knots is None else {"knots": [*map(list, knots)], "deviation": vars(estimator)["shape_deviation_"]}),
    }


def _restored(state: Mapping[str, Any]) -> SavedModel:
    model = _unfitted(state)
    classes = None if state["classes"] is None else _labels(state["classes"])
    for name in ("encoded_coef", "encoded_intercept", "coef", "intercept"):  # a list may name one array many times
        if not isinstance(state[name], np.ndarray | float):
            raise InvalidDataError(f"its {name} is no array")
    arrays = (np.asarray(state[name], dtype=np.float64) for name in ("encoded_coef", "encoded_intercept", "coef"))
    model.encoded_coef_, model.encoded_intercept_, model.coef_ = arrays
    given = state["intercept"]
    model.intercept_ = given if isinstance(given, float) else np.asarray(given, dtype=np.float64)
    model.n_features_in_ = int(state["n_features_in"])
    model.ranges_ = tuple(NumberRange(*fields) for fields in state.get("ranges", ()))
    if isinstance(model, estimators.LogisticModel):
        model.slope_cap_ = state["slope_cap"]
    if isinstance(model, estimators.AdditiveModel):
        model.knots_ = tuple(tuple(map(float, knots)) for knots in state["knots"])
        model.shape_deviation_ = np.asarray(state["deviation"], dtype=np.float64)
        if model.shape_deviation_.shape != model.encoded_coef_.shape:
            raise InvalidDataError("its deviations are not those of its values")
    names = state["feature_names_in"]
    _check_restored(model, names, classes)
    if isinstance(model, CLASSIFIERS) and classes is not None:
        model.classes_ = classes
        if isinstance(model, estimators.PrivateSparseClassifier):
            model.classes = classes
    if names is not None:
        vars(model)["feature_names_in_"] = np.asarray(names, dtype=object)
    model.certificate_ = PrivacyCertificate.from_json(state["certificate"])
    if model.certificate_.model not in (None, model_digest(model)):
        raise InvalidDataError("its certificate is of another model")
    if not _covered(model):
        raise InvalidDataError("its certificate is of another promise")
    return model


def _covered(model: SavedModel) -> bool:
    """Whether the certificate's promise is the model's; of one that a search chose it is the search's, and larger."""
    promised, neighbors = model.certificate_.target, getattr(model, "neighbors", "replace_one")
    same = neighbors == promised.neighboring.value
    return same and model.epsilon <= promised.epsilon and model.delta <= promised.delta


def _check_restored(model: SavedModel, names: Any, classes: Array | None) -> None:
    """Raise as if the parameters had been given by a user, and unless the parts of the model agree."""
    _parameters(model)
    _sizes(model)
    features = model._feature_map(model.n_features_in_)
    unknown, target = model._open(features), int(model._may_look and model._target_range() is not None)
    looks = target + len(features.lookable) * (model._may_look and model._looks_at_columns)
    if len(model.ranges_) - unknown not in (0, target, looks):
        raise InvalidDataError(f"it holds {len(model.ranges_)} ranges, and its parameters leave {unknown} open")
    features = model._fitted_map()
    if isinstance(model, estimators.PrivateSparseModel):
        model._radius(features)
    outputs = _outputs(model, classes)
    d = features.domain.n_features
    count = features.n_columns
    if model.n_features_in_ != count:
        raise InvalidDataError(f"it says {model.n_features_in_} columns, and its parameters {count}")
    if names is not None and not (isinstance(names, list) and [type(name) for name in names] == [str] * count):
        raise InvalidDataError(f"it must name {count} columns, or none")
    _agree(model, features, (outputs, d), classes is None)


def _parameters(model: SavedModel) -> None:
    given = model.get_params(deep=False)
    PrivacyParams(given["epsilon"], given["delta"])
    model._public_count(1 if model._relation.fixes_size else None)
    for name, bounds in _REALS.items():
        _validate.optional(_validate.real, {name: given.get(name)}, **bounds)
    for name in _TEXTS:
        if not isinstance(given.get(name, ""), str | None):
            raise InvalidParameterError(name, given[name], "must be text")
    if not isinstance(constraint := given.get("constraint"), ConvexSet | None):
        constraint_ends(constraint)
    if not isinstance(given.get("fit_intercept", True), bool):
        raise InvalidParameterError("fit_intercept", given["fit_intercept"], "must be true or false")
    if given.get("records_per_user") != PRIVATE:
        _validate.integer("records_per_user", given.get("records_per_user", 1), at_least=1)
    _validate.optional(_validate.integer, {"most_rows": given.get("most_rows")}, at_least=1)
    if isinstance(model, estimators.WithIntervals):
        model._infers()


def _sizes(model: SavedModel) -> None:
    """Compare the declared number of features with the coefficients, before anything of that size is made."""
    found, domain = np.shape(model.encoded_coef_), getattr(model, "domain", None)
    if isinstance(model, estimators.AdditiveModel):
        stated = sum(max(len(knots), 2) for knots in model.knots_)
        if len(found) != 2 or (model.schema is None and not len(model.knots_) == model.n_features_in_ <= found[1]):
            raise InvalidDataError(f"its encoded coefficients have shape {found}, and its knots are {stated}")
        return
    stated = None if model.schema is not None else model.n_features_in_ if domain is None else domain.n_features
    if len(found) != 2 or stated not in (None, found[1]):
        raise InvalidDataError(f"its encoded coefficients have shape {found}, and its parameters say {stated} features")


def _outputs(model: SavedModel, classes: Array | None) -> int:
    """Return the number of outputs, and check what the model predicts."""
    if isinstance(model, estimators.PrivateLinearRegressor):
        model._loss(model._range().width, model._reach())
    if isinstance(model, estimators.PrivateLasso):
        model._range()
    if isinstance(model, estimators.PrivateLinearRegressor | estimators.PrivateLasso) != (classes is None):
        raise InvalidDataError("a classifier must list its classes, and nothing else may")
    if classes is None:
        return 1
    if classes.ndim != 1 or len(classes) < 2 or len(set(classes.tolist())) < len(classes):
        raise InvalidDataError("a classifier must list at least two different classes")
    if (weights := model.get_params(deep=False).get("class_weight")) is not None:
        class_shares(weights, classes)
    if isinstance(model, estimators.LogisticModel):
        cap = _validate.real("slope_cap_", model.slope_cap_, at_least=_validate.SMALLEST, at_most=1.0)
        if model.slope_cap not in (None, cap):
            raise InvalidDataError(f"its slope cap, {cap:g}, is not that of its parameters")
    if isinstance(model, estimators.PrivateLinearClassifier):
        if not (declared := model._schema_classes()) or tuple(classes.tolist()) != declared:
            model.classes = classes  # rates are in their order
        model._loss(len(classes))
    elif len(classes) > 2:
        raise InvalidDataError("a sparse classifier has two classes")
    return 1 if len(classes) == 2 else len(classes)


def _agree(model: SavedModel, features: FeatureMap, shape: tuple[int, int], flat: bool) -> None:
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
    stored: tuple[Floats, Floats] = (np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_))
    size = np.abs(found[0]).max(initial=1.0) + np.abs(found[1]).max(initial=1.0)  # size of terms that may have canceled
    if not all(np.allclose(a, b, rtol=1e-6, atol=1e-9 * size) for a, b in zip(stored, found, strict=True)):
        raise InvalidDataError("its coefficients are not those of its encoded features")


def _unfitted(state: Mapping[str, Any]) -> SavedModel:
    """Return an estimator of the saved class with the saved parameters."""
    kinds = (*estimators.ESTIMATORS, *estimators.ADDITIVE_ESTIMATORS, *estimators.SPARSE_ESTIMATORS)
    known = {estimator.__name__: estimator for estimator in kinds}
    if state["estimator"] not in known:
        raise InvalidDataError(f"it holds a {state['estimator']}, which this version does not know")
    model = known[state["estimator"]]()
    parameters = {**dict.fromkeys(_LATER & set(model.get_params(deep=False)), False), **state["parameters"]}
    if missing := set(model.get_params(deep=False)) - set(_DROPPED) ^ set(parameters):
        raise InvalidDataError(f"its parameters are not those of {state['estimator']}: {', '.join(sorted(missing))}")
    decode = {"schema": Schema.from_toml_text, "domain": _domain, "target_bounds": tuple}
    decode["feature_bounds"] = lambda pairs: tuple(pairs) if len(pairs) == 2 else [tuple(p.tolist()) for p in pairs]
    for name, read in decode.items():
        given = parameters.get(name)
        if given is not None and (name == "schema" or not isinstance(given, str)):
            parameters[name] = read(parameters[name])
    return model.set_params(**parameters)


def _native(value: Any) -> Any:
    """Return NumPy numbers, also those in a pair, as Python numbers, and anything else unchanged."""
    if isinstance(value, (tuple, list)):
        return type(value)(_native(each) for each in value)
    if isinstance(value, Real) and not isinstance(value, int | float | np.generic):
        return float(value)  # a fraction
    return value.item() if isinstance(value, np.generic) else value


def _labels(fields: Mapping[str, Any]) -> Array:
    dtype = np.dtype(fields["dtype"])
    if dtype.kind not in "biufUO" or not all(isinstance(value, (str, int, float)) for value in fields["values"]):
        raise InvalidDataError("its classes are neither text, numbers nor Booleans")
    # A width of text from the file could be any: the labels' own is enough.
    return np.array(fields["values"], dtype=str if dtype.kind == "U" else dtype)


def _domain(fields: Mapping[str, Any]) -> DataDomain:
    if not all(isinstance(block["name"], str) for block in fields["blocks"]):
        raise InvalidDataError("a block's name must be text")
    told = (
        (b["size"], b["norm"], b["bound"], b["name"], b.get("values", "any"), b.get("largest"))
        for b in fields["blocks"]
    )
    return DataDomain(tuple(Block(*each) for each in told), fields["intercept"])
