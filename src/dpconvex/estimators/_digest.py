"""What a fit adds to a certificate: the digest of the model, and the sources of bounds."""

import hashlib
import json
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from dpconvex.data import Schema
from dpconvex.privacy import Assumption, PrivacyCertificate
from dpconvex.problems import DataDomain

_RELEASED = ("encoded_coef_", "encoded_intercept_", "coef_", "intercept_")
_ENCODING = ("feature_norm", "feature_bound", "fit_intercept")


def with_sources(certificate: PrivacyCertificate | None, schema: Schema | None) -> Any:
    """Return a certificate that names the source of every bound and list of a schema that states its own source."""
    if certificate is None or schema is None or not schema.sources:
        return certificate
    said = "; ".join(f"{name}: {source}" for name, source in schema.sources.items())
    declared = Assumption("bounds and lists of columns are public", f"not enforced: declared. {said}")
    return replace(certificate, assumptions=(*certificate.assumptions, declared))


def model_digest(model: Any) -> str:
    """Return the SHA-256 of all that predictions depend on: released numbers and public facts; it survives saving."""
    given, classes = model.get_params(deep=False), getattr(model, "classes_", None)
    names = vars(model).get("feature_names_in_")
    domain = given.get("domain")
    facts: dict[str, Any] = {
        "estimator": type(model).__name__, "schema": None if model.schema is None else model.schema.to_toml(),
        "domain": None if domain is None else domain_fields(domain),
        **({"ranges": [astuple(each) for each in model.ranges_]} if model.ranges_ else {}),
        **{name: None if given.get(name) is None else float(given[name]) for name in _ENCODING},
        "classes": None if classes is None else np.asarray(classes).tolist(),
        "slope_cap": vars(model).get("slope_cap_"), "probabilities": given.get("probabilities"),
        "columns": int(model.n_features_in_), "names": None if names is None else [str(name) for name in names],
    }  # fmt: skip
    for name in ("feature_bounds", "target_bounds"):
        pair = given.get(name)
        facts[name] = pair if isinstance(pair, str | None) else [np.asarray(b, float).tolist() for b in pair]
    if "knots_" in vars(model):  # additive models
        facts["shapes"] = [model.interactions, model.missing, model.knots_]
    found = hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str).encode())
    for name in (*_RELEASED, *(["shape_deviation_"] if "knots_" in vars(model) else [])):
        values = np.asarray(getattr(model, name), dtype="<f8")
        found.update(f"{name}{values.shape}".encode())
        found.update(values.tobytes())
    return "sha256:" + found.hexdigest()


def domain_fields(domain: DataDomain) -> dict[str, Any]:
    """JSON-ready facts of a domain."""
    return {"blocks": [block.describe() for block in domain.blocks], "intercept": float(domain.intercept)}
