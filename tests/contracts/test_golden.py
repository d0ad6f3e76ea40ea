"""Behavior as it is today: names, options, refusals, certificates and what a seed releases, of everything public.

Nothing here says that a number is right; other tests do. This one says that it is the same as before. Write it anew
with ``python tests/contracts/test_golden.py`` (CONTRIBUTING, Tests). So that another CPU passes, floats in hashed parts
are rounded to 9 significant digits first, released numbers to 12, and those are compared up to `RTOL` of the largest.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import inspect
import json
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
import typer.main
from sklearn.base import BaseEstimator
from typer.testing import CliRunner

import dpconvex
from dpconvex import (
    CategoricalColumn,
    DataDomain,
    NumericColumn,
    PrivacyCertificate,
    PrivacyParams,
    PrivateGeometricMedian,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearchCV,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
    Schema,
    errors,
    estimators,
    losses,
    mechanisms,
    private_game,
    private_minimize,
    problems,
    sets,
    solvers,
)
from dpconvex.algorithms.location.registry import LOCATION_METHODS
from dpconvex.cli.main import app
from dpconvex.data import ClassTarget
from dpconvex.errors import DpconvexError
from dpconvex.privacy import Release
from dpconvex_experiments.reference.objectives import LogLinearDensity, MaxRisk, ShiftedMeanLoss

GOLDEN = Path(__file__).with_name("golden.json")
RTOL = 1e-9
OF_FITS = {"histogram_": 1e-6}  # which stop at a tolerance, so that another processor's rounding moves them further
DIGITS, HASH = 9, 8

Thunk = Callable[[], Any]

# One table for all: three columns, a number to predict and its sign, four rows a user, two groups.
N, USERS, GROUPS = 200, np.arange(200) % 50, np.arange(200) % 2
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (4000, 8))
NUMBERS = X[:, :3] @ [1.0, -0.5, 0.25] + 0.1 * RNG.standard_normal(4000)
LABELS = (NUMBERS > 0).astype(int)
TERCILES = np.digitize(NUMBERS, [-0.3, 0.3])
HEAVY = NUMBERS + RNG.standard_t(2, 4000)
TABLE = pa.table(
    {
        "age": 50 + 50 * X[:500, 0],
        "color": np.array(["red", "green", "blue"])[TERCILES[:500]],
        "ill": np.array(["no", "yes"])[LABELS[:500]],
        "person": np.arange(500) % 100,
    }
)
SCHEMA = Schema(
    (NumericColumn("age", 0, 100), CategoricalColumn("color", ("red", "green", "blue"))),
    ClassTarget("ill", ("no", "yes")),
)
CLASSES: dict[str, Any] = {"classes": [0, 1], "random_state": 0}
BOUNDS: dict[str, Any] = {"target_bounds": (-2.0, 2.0), "random_state": 0}
NORM: dict[str, Any] = {"feature_norm": 2.0}
BOX: dict[str, Any] = {"feature_bounds": (-1.0, 1.0)}

LINEAR: tuple[tuple[Any, dict[str, Any]], ...] = (
    (PrivateLogisticRegression, CLASSES),
    (PrivateLinearSVC, CLASSES),
    (PrivateLinearRegression, BOUNDS),
    (PrivateHuberRegressor, BOUNDS),
    (PrivateQuantileRegressor, BOUNDS),
)
LINEAR_METHODS = (
    "auto",
    "objective_perturbation",
    "output_perturbation",
    "exponential_mechanism",
    "phased_sgd",
    "accelerated_user",
    "informed_gradient",
    "noisy_gradient",
    "sufficient_statistics",
    "random_projection",
    "recentering",
)
SHAPED: dict[str, tuple[int, int, dict[str, Any]]] = {
    "exponential_mechanism": (N, 1, {"feature_norm": None, **BOX, "fit_intercept": False}),
    "random_projection": (400, 8, {}),
    "recentering": (4000, 3, {"feature_norm": None, **BOX}),
}
"""Methods that need another table than three columns under one norm: rows, columns, bounds."""
NOISES = ("grouped", "weighted_l1", "l1", "block_max", "l2", "gaussian", "weighted_gaussian")
HEAVY_METHODS = ("auto", "heavy_tailed", "clipped_residuals", "clipped_gradient")
SPARSE_METHODS = (
    "auto",
    "frank_wolfe",
    "anytime_mirror_descent",
    "vertex_mirror_descent",
    "gaussian_mirror_descent",
    "variance_reduced_frank_wolfe",
)
GAME_METHODS = (
    "auto",
    "vertex_mirror_descent",
    "gaussian_mirror_descent",
    "sgda",
    "multiplicative_weights",
    "bias_reduced_mirror_descent",
    "boosted_mirror_descent",
)
PRINTED = (
    "gaussian_mirror_descent",
    "anytime_mirror_descent",
    "vertex_mirror_descent",
    "bias_reduced_mirror_descent",
    "boosted_mirror_descent",
    "saddle_point",
)
"""Methods with the constants that their paper prints, and one without."""
QUERY_METHODS = ("auto", "query_noise", "mwem", "saddle_point")
DELTAS = {"pure": 0.0, "delta": 1e-6}


def linear(kind: Any, known: dict[str, Any], n: int = N, d: int = 3, y: Any = None, users: bool = False, **more: Any):
    """A fit of a linear model, to be made later."""
    y = (LABELS if "classes" in known else NUMBERS) if y is None else y
    unit = {"records_per_user": 4} if users else {}
    model = kind(**{**known, **unit, **more})
    return lambda: model.fit(X[:n, :d], y[:n], groups=USERS if users else None)


def of_linear(kind: Any, known: dict[str, Any]) -> dict[str, Thunk]:
    """Every algorithm, promise and unit, then every option that all linear models have."""

    def fit(*sizes: int, **more: Any) -> Thunk:
        return linear(kind, known, *sizes, **{**NORM, **more})

    found = {
        f"{name} {of} {'users' if users else 'records'}": fit(algorithm=name, delta=delta, users=users)
        for name in LINEAR_METHODS
        for of, delta in DELTAS.items()
        for users in (False, True)
        if name not in SHAPED or (of, users) == ("delta", False)
    }
    for of, delta in DELTAS.items():
        for name, (n, d, shape) in SHAPED.items():
            if (name, of) != ("recentering", "delta") or kind is PrivateLinearSVC:  # others take 0.4 seconds to plan
                found[f"{name} {of} in shape"] = fit(n, d, algorithm=name, delta=delta, **shape)
    if kind in (PrivateLogisticRegression, PrivateHuberRegressor):
        for noise in NOISES:
            found[f"objective_perturbation noise {noise}"] = fit(
                algorithm="objective_perturbation", noise=noise, delta=1e-6
            )
    for name in LINEAR_METHODS[1:]:
        for users in (False, True):
            shared = {"algorithm": name, "delta": 1e-6, "users": users}
            if not users or name in ("output_perturbation", "phased_sgd", "accelerated_user"):
                found[f"{name} paper {'users' if users else 'records'}"] = fit(constants="paper", **shared)
            if name in ("output_perturbation", "accelerated_user"):
                found[f"{name} population {'users' if users else 'records'}"] = fit(risk="population", **shared)
    options: dict[str, dict[str, Any]] = {
        "noise l2": {"noise": "l2", "delta": 1e-6},
        "noise gaussian": {"noise": "gaussian", "delta": 1e-6},
        "noise grouped": {"noise": "grouped"},
        "paper pure": {"constants": "paper"},
        "population pure": {"risk": "population"},
        "l2": {"l2": 0.1},
        "coefficient_norm": {"coefficient_norm": 1.5},
        "no intercept": {"fit_intercept": False},
        "feature_bounds": {"feature_norm": None, **BOX},
        "domain": {"feature_norm": None, "domain": DataDomain.box(3, 0.5).with_intercept(0.5)},
        "tilt": {"tilt": 2.0},
        "tilt users": {"tilt": 2.0, "users": True, "delta": 1e-6},
        "adversarial": {"adversarial_radius": 0.1},
        "adversarial delta": {"adversarial_radius": 0.1, "delta": 1e-6},
        "adversarial linf": {"adversarial_radius": 0.1, "adversarial_norm": "linf"},
        "adversarial users": {"adversarial_radius": 0.1, "users": True, "delta": 1e-6},
    }
    # By a method that accepts all of them and plans quickly.
    return found | {title: fit(**{"algorithm": "output_perturbation", **more}) for title, more in options.items()}


def of_regressor(kind: Any) -> dict[str, Thunk]:
    """Heavy tails, with an order of moments alone and with a bound (clipped gradients with delta plan slowly)."""
    return {
        f"{name} {of} {title}": linear(
            kind, BOUNDS, 400, y=HEAVY, algorithm=name, delta=delta, heavy_tailed=tails, constants=constants, **NORM
        )
        for name in HEAVY_METHODS
        for of, delta in DELTAS.items()
        for title, tails, constants in (
            ("order", 2.0, "calibrated"),
            ("bound", (2.0, 3.0), "calibrated"),
            ("paper", (2.0, 3.0), "paper"),
        )
        if (name, of, title) != ("clipped_gradient", "delta", "bound")
        and ((name, of, title) != ("clipped_gradient", "delta", "order") or kind is PrivateHuberRegressor)
    }


def of_logistic() -> dict[str, Thunk]:
    """Slope caps, rates, probabilities, three classes, schemas."""

    def fit(**more: Any) -> Thunk:
        return linear(PrivateLogisticRegression, CLASSES, **{**NORM, **more})

    three = {"classes": [0, 1, 2], "y": TERCILES}
    few: dict[str, Any] = {**three, "algorithm": "objective_perturbation"}  # too few for "auto"
    by_schema = {"schema": SCHEMA, "random_state": 0}
    return {
        **{
            f"slope_cap {of} {'users' if users else 'records'}": fit(slope_cap=0.6, delta=delta, users=users)
            for of, delta in DELTAS.items()
            for users in (False, True)
        },
        "rates": fit(rates=[0.7, 0.3]),
        "uncalibrated": fit(probabilities="sigmoid"),
        "three classes pure": fit(**three),
        "three classes delta": fit(**three, delta=1e-6),
        "three classes users": fit(**few, delta=1e-6, users=True),
        "three classes rates": fit(**few, rates=[0.4, 0.3, 0.3]),
        "inferred classes": fit(classes="infer"),
        "schema": lambda: PrivateLogisticRegression(**by_schema).fit(TABLE),
        "schema users": lambda: PrivateLogisticRegression(delta=1e-6, **by_schema).fit(TABLE, groups=TABLE["person"]),
    }


def of_others() -> dict[str, Thunk]:
    """Parameters that one linear model has alone."""
    return {
        "linear residual_cap": linear(PrivateLinearRegression, BOUNDS, residual_cap=0.5, **NORM),
        "linear residual_cap delta": linear(PrivateLinearRegression, BOUNDS, residual_cap=0.5, delta=1e-6, **NORM),
        "huber width": linear(PrivateHuberRegressor, BOUNDS, width=0.1, **NORM),
        "quantile 0.9": linear(PrivateQuantileRegressor, BOUNDS, quantile=0.9, **NORM),
        "quantile smoothing": linear(PrivateQuantileRegressor, BOUNDS, smoothing=0.2, **NORM),
        "quantile plain": linear(PrivateQuantileRegressor, BOUNDS, smoothing=0.0, delta=1e-6, **NORM),
        "svc hardly any epsilon": linear(PrivateLinearSVC, CLASSES, epsilon=1e-3, **NORM),
        "svc plenty of epsilon": linear(PrivateLinearSVC, CLASSES, epsilon=50.0, **NORM),
        "svc smoothing": linear(PrivateLinearSVC, CLASSES, smoothing=0.1, **NORM),
        "svc plain": linear(PrivateLinearSVC, CLASSES, smoothing=0.0, delta=1e-6, **NORM),
    }


def of_sparse() -> dict[str, Thunk]:
    """Every method of the models over l1 balls."""
    found: dict[str, Thunk] = {}
    x, labels, numbers, groups = X[:N, :3], LABELS[:N], NUMBERS[:N], {"groups": [0, 1]}
    bound = {"feature_bound": 1.0}
    for of, delta in DELTAS.items():
        for constants in ("calibrated", "paper"):
            shared = {"delta": delta, "constants": constants}
            for name in SPARSE_METHODS if constants == "calibrated" else PRINTED[:3]:
                given = {**shared, "algorithm": name, **bound}
                title = f"{name} {of} {constants}"
                found[f"lasso {title}"] = lambda g=given: PrivateLasso(**BOUNDS, **g).fit(x, numbers)
                found[f"logistic {title}"] = lambda g=given: PrivateSparseLogisticRegression(**CLASSES, **g).fit(
                    x, labels
                )
            for name in GAME_METHODS if constants == "calibrated" else PRINTED[2:5]:
                given = {**shared, "algorithm": name, **bound, **groups, "group_shares": (0.5, 0.5)}
                found[f"worst group {name} {of} {constants}"] = lambda g=given: PrivateWorstGroupClassifier(
                    **CLASSES, **g
                ).fit(x, labels, groups=GROUPS)
        found[f"worst group released shares {of}"] = lambda d=delta: PrivateWorstGroupClassifier(
            delta=d, smallest_share=0.2, **CLASSES, **bound, **groups
        ).fit(x, labels, groups=GROUPS)
    found["lasso bounds radius no intercept"] = lambda: PrivateLasso(
        **BOUNDS, **BOX, radius=0.5, fit_intercept=False
    ).fit(x, numbers)
    found["logistic schema"] = lambda: PrivateSparseLogisticRegression(schema=SCHEMA, random_state=0).fit(TABLE)
    return found


def of_median() -> dict[str, Thunk]:
    """Every algorithm and constant set, for records and users."""
    points = X[:400, :3]

    def fit(users: bool = False, **more: Any) -> Thunk:
        model = PrivateGeometricMedian(**{"radius_bound": 10.0, "random_state": 0, "delta": 1e-6, **more})
        return lambda: model.fit(points, groups=np.arange(400) % 100 if users else None)

    return {
        **{
            f"{name} {constants} {'users' if users else 'records'}": fit(users, algorithm=name, constants=constants)
            for name, method in LOCATION_METHODS.items()
            for constants in ("calibrated", "paper")[: 1 + ("constants" in method.takes)]
            for users in (False, True)
        },
        "min_radius level": fit(min_radius=0.01, level=0.7),
        "plenty": fit(epsilon=20.0),
        "pure": fit(delta=0.0),
    }


def of_rest() -> dict[str, Thunk]:
    """Synthetic data, searches, games and functions of one's own."""
    found: dict[str, Thunk] = {}
    ball = DataDomain.l2_ball(3, 1.0)
    location, points = problems.LocationLoss(ball, width=0.2), X[:400, :3]
    functions = {
        "location": location,
        "maximal risk": MaxRisk(problems.LocationLoss(DataDomain.l2_ball(3, 1.0))),
        "shifted mean": ShiftedMeanLoss(DataDomain.l2_ball(2, 1.0), 0.3),
        "log density": LogLinearDensity(3, 20),
    }
    games = np.sign(X[:400, :, None] - X[400:800, None, :])[:, :3, :4]
    plays = np.column_stack([np.arange(400) % 3, np.arange(400) // 3 % 4, X[:400, 0]])
    for of, delta in DELTAS.items():
        for name in QUERY_METHODS:
            for constants in ("calibrated", "paper"):
                if constants == "paper" and name not in PRINTED:
                    continue
                given: dict[str, Any] = {"algorithm": name, "delta": delta, "constants": constants}
                found[f"synthetic {name} {of} {constants}"] = lambda g=given: PrivateSyntheticData(
                    schema=SCHEMA, bins=4, random_state=0, **g
                ).fit(TABLE)
        for name in GAME_METHODS:
            for constants in ("calibrated", "paper"):
                if constants == "paper" and name not in PRINTED:
                    continue
                given = {"algorithm": name, "delta": delta, "constants": constants, "epsilon": 1.0, "random_state": 0}
                found[f"game {name} {of} {constants}"] = lambda g=given: private_game(games, **g)
        both: dict[str, Any] = {"delta": delta, "epsilon": 1.0, "random_state": 0}
        found[f"game rank_one {of}"] = lambda g=both: private_game(X[:400, :7], form="rank_one", shape=(3, 4), **g)
        found[f"game plays {of}"] = lambda g=both: private_game(plays, form="plays", shape=(3, 4), **g)
        for title, function in functions.items():
            records = X[:400, : function.domain.n_features]
            found[f"minimize {title} {of}"] = lambda g=both, f=function, r=records: private_minimize(
                f, r, radius=1.0, **g
            )
        for method in ("auto", "composition", "repeats", "none"):
            base = PrivateLogisticRegression(delta=delta, slope_cap=1.0, noise="l2" if not delta else "gaussian", **BOX)
            base.set_params(**CLASSES)
            found[f"search {method} {of}"] = lambda b=base, m=method: PrivateSearchCV(
                b, {"coefficient_norm": [2.0, 8.0]}, method=m
            ).fit(X[:500, :3], LABELS[:500])
    more: dict[str, dict[str, Any]] = {
        "paper": {"constants": "paper"},
        "l2": {"l2": 0.1},
        "gaussian": {"noise": "gaussian", "delta": 1e-6},
        "population": {"target": "population", "delta": 1e-6},
        "untrusted": {"trusted": False},
    }
    for title, given in more.items():
        found[f"minimize {title}"] = lambda g=given: private_minimize(
            location, points, epsilon=1.0, radius=1.0, random_state=0, **g
        )
    found["search users"] = lambda: PrivateSearchCV(
        PrivateLinearRegression(1.0, 1e-6, records_per_user=4, **BOX, **BOUNDS), {"coefficient_norm": [1.0, 2.0]}
    ).fit(X[:N, :3], NUMBERS[:N], groups=USERS)
    found["synthetic order columns"] = lambda: PrivateSyntheticData(
        schema=SCHEMA, columns=["age", "ill"], bins={"age": (0, 20, 100)}, order=1, random_state=0
    ).fit(TABLE)
    return found


FACES: dict[str, Callable[[], dict[str, Thunk]]] = {
    **{kind.__name__: lambda kind=kind, known=known: of_linear(kind, known) for kind, known in LINEAR},
    "heavy tails": lambda: {
        f"{kind.__name__} {title}": thunk
        for kind, known in LINEAR
        if known is BOUNDS
        for title, thunk in of_regressor(kind).items()
    },
    "logistic options": of_logistic,
    "other options": of_others,
    "sparse": of_sparse,
    "median": of_median,
    "others": of_rest,
}


def digits(value: Any, count: int = DIGITS) -> Any:
    """The same with every float rounded to so many significant digits, and arrays as lists."""
    if isinstance(value, Mapping):
        return {str(key): digits(each, count) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [digits(each, count) for each in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return float(f"{value:.{count - 1}e}") if isinstance(value, float | np.floating) else value


def short_hash(value: Any) -> str:
    text = json.dumps(digits(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH]


STATED = ("schema_version", "private", "algorithm", "constants", "spent", "versions")
RELEASED = (
    *("coef_", "intercept_", "location_", "radius_", "group_weights_", "group_shares_", "histogram_"),
    *("point", "x", "y"),
)


def short_event(release: dict[str, Any]) -> str:
    return json.dumps(digits(release["event"], 6)).replace('"', "")


def certified(fields: dict[str, Any]) -> dict[str, Any]:
    """A line that people can read, and a hash of every other field, so that a failure says which one changed."""
    spent, releases = fields["spent"], fields["releases"]
    stated = f"{fields['algorithm']} ({fields['constants']}), epsilon {spent['epsilon']:.{DIGITS}g}, "
    stated += f"delta {spent['delta']:.{DIGITS}g} by {spent['accountant']}, {len(releases)} releases"
    stated += f", first {short_event(releases[0])}" if releases else ""
    stated += f"; version {fields['schema_version']}, {'' if fields['private'] else 'not '}private"
    hashes = {name: short_hash(value) for name, value in sorted(fields.items()) if name not in STATED}
    return {"states": stated, "hashes": hashes}


def pinned(thunk: Thunk) -> dict[str, Any]:
    """What a run releases and certifies, or how it is refused."""
    try:
        made = thunk()
    except DpconvexError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    certificate = made.certificate_ if isinstance(made, BaseEstimator) else made.certificate
    model = made.best_estimator_ if isinstance(made, PrivateSearchCV) else made
    found = {name: getattr(model, name) for name in RELEASED if getattr(model, name, None) is not None}
    if model is not made:
        found["best"] = list(made.best_params_.values())
    if hasattr(model, "coef_") and model.schema is None and model.algorithm == "auto":
        found["predictions"] = getattr(model, "predict_proba", model.predict)(X[:2, : model.n_features_in_])
    numbers = {name: [float(f"{each:.11e}") for each in np.ravel(values)] for name, values in found.items()}
    return {**certified(certificate.public_fields()), "released": numbers}


def differences(found: Any, expected: Any, where: str) -> Iterator[str]:
    """One line for each entry that is not as before; released numbers may differ by a rounding."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for name in [*expected, *(name for name in found if name not in expected)]:
            if name not in found or name not in expected:
                yield f"{where}: {name}: {'gone' if name in expected else 'new'}"
            else:
                yield from differences(found[name], expected[name], f"{where}: {name}")
    elif ": released: " in where and isinstance(found, list) and len(found) == len(expected):
        largest = max(map(abs, expected), default=0.0)
        tolerance = OF_FITS.get(where.rsplit(": ", 1)[-1], RTOL)
        if not np.allclose(found, expected, rtol=0, atol=tolerance * largest):
            yield f"{where}: {found} instead of {expected}"
    elif found != expected:
        yield f"{where}: {found!r} instead of {expected!r}"


def compare(found: Any, part: str, name: str) -> None:
    # Through JSON, as the file went: tuples are lists then.
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))[part][name]
    lines = list(differences(ordered(json.loads(json.dumps(found))), ordered(expected), name))
    shown = "\n".join(lines[:40])
    assert not lines, f"{len(lines)} differences from golden.json (CONTRIBUTING, Tests, says what to do):\n{shown}"


def ordered(found: Any) -> Any:
    """Put parameters that are given by name alone in the order of their names: callers see no other."""
    if isinstance(found, dict):
        return {name: ordered(each) for name, each in found.items()}
    if not (isinstance(found, str) and found.startswith("(") and "*, " in found):
        return found
    before, star, after = found[:-1].partition("*, ")
    return before + star + ", ".join(sorted(after.split(", "))) + ")"


def released(face: str) -> dict[str, Any]:
    return {title: pinned(thunk) for title, thunk in FACES[face]().items()}


def parameters(of: Any) -> str:
    """Names, kinds and defaults; annotations are for readers."""
    signature = inspect.signature(of)
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(inspect.Signature([each for each in plain if each.name != "self"]))


def members(cls: type) -> dict[str, str]:
    """Public members that this library gives to a class, methods with their parameters; without fields."""
    ours = [base for base in cls.__mro__ if base.__module__.split(".")[0] == "dpconvex"]
    names = {name for base in ours for name in vars(base) if not name.startswith("_")}
    names -= {*inspect.signature(cls).parameters, *(f"set_{method}_request" for method in ("fit", "predict", "score"))}
    found = {name: getattr(cls, name) for name in sorted(names)}
    return {name: parameters(value) if callable(value) else "value" for name, value in found.items()}


def family(base: type) -> Iterator[type]:
    yield from (each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, base))


def public_names() -> dict[str, Any]:
    everything = {name: getattr(dpconvex, name) for name in sorted(dpconvex.__all__)}
    return {
        "dpconvex": sorted(dpconvex.__all__),
        "errors": sorted(f"{each.__name__} < {each.__mro__[1].__name__}" for each in family(DpconvexError)),
        "warnings": sorted(f"{each.__name__} < {each.__mro__[1].__name__}" for each in family(errors.DpconvexWarning)),
        "parameters": {
            name: [each.value for each in value] if isinstance(value, enum.EnumType) else parameters(value)
            for name, value in everything.items()
            if callable(value)
        },
        "members": {
            name: members(value)
            for name, value in everything.items()
            if inspect.isclass(value) and not isinstance(value, enum.EnumType)
        },
        "lists": {
            module.__name__: sorted(module.__all__)
            for module in (losses, sets, solvers, mechanisms, problems, estimators)
        },
    }


FITTED = {
    **{kind.__name__: linear(kind, known, algorithm="output_perturbation", **NORM) for kind, known in LINEAR},
    **{
        name: lambda face=face, title=title: FACES[face]()[title]()
        for name, (face, title) in {
            "PrivateLasso": ("sparse", "lasso frank_wolfe delta calibrated"),
            "PrivateSparseLogisticRegression": ("sparse", "logistic frank_wolfe delta calibrated"),
            "PrivateWorstGroupClassifier": ("sparse", "worst group released shares delta"),
            "PrivateGeometricMedian": ("median", "geometric_median calibrated records"),
            "PrivateSyntheticData": ("others", "synthetic auto delta calibrated"),
            "PrivateSearchCV": ("others", "search none pure"),
            "private_game": ("others", "game rank_one pure"),
            "private_minimize": ("others", "minimize location pure"),
        }.items()
    },
}


def fitted_attributes() -> dict[str, list[str]]:
    return {name: sorted(each for each in vars(made()) if not each.startswith("_")) for name, made in FITTED.items()}


def commands() -> dict[str, Any]:
    """Per command its help and, per option, type, default, range and help."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        yield name, command
        for each, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{name} {each}")

    def option(param: Any) -> str:
        kind = getattr(param.type_descriptor, "annotation", param.type_descriptor)
        flags = " ".join([*param.opts, *param.secondary_opts])
        default = param.default() if callable(param.default) else param.default
        facts = [getattr(kind, "__name__", str(kind)), f"default {default!s}"]
        facts += [name for name in ("required", "multiple", "is_flag", "hidden") if getattr(param, name, False)]
        facts += [f"{name} {value}" for name in ("min", "max") if (value := getattr(param, name, None)) is not None]
        return f"{flags} ({', '.join(facts)}): {getattr(param, 'help', '')}"

    return {
        name: {"help": command.help, "options": {each.name: option(each) for each in command.params}}
        for name, command in walk(typer.main.get_command(app), "dpconvex")
    }


def refusal(thunk: Thunk) -> str:
    try:
        thunk()
    except Exception as error:  # scikit-learn's too; its type is pinned
        return f"{type(error).__name__}: {error}"
    return "accepted"


def refusals() -> dict[str, str]:
    """Of Python: lists of names, and one refusal of each kind."""
    x, y, fit = X[:50, :3], LABELS[:50], {**CLASSES, **NORM}
    logistic, event = PrivateLogisticRegression, {"event": {"kind": "?"}}
    release = {"label": "a", "mechanism": "b", "sensitivity": None, "block": None, "times": 1}
    location = problems.LocationLoss(DataDomain.l2_ball(3, 1.0))
    thunks: dict[str, Thunk] = {
        "algorithms, linear": lambda: logistic(algorithm="?", **fit).plan(100, 3),
        "algorithms, heavy tails": lambda: PrivateHuberRegressor(algorithm="?", heavy_tailed=2, **BOUNDS, **NORM).plan(
            9, 3
        ),
        "algorithms, sparse": lambda: PrivateLasso(algorithm="?", feature_bound=1.0, **BOUNDS).plan(100, 3),
        "algorithms, worst group": lambda: PrivateWorstGroupClassifier(
            algorithm="?", groups=[0, 1], group_shares=(0.5, 0.5), feature_bound=1.0, **CLASSES
        ).plan(100, 3),
        "algorithms, queries": lambda: PrivateSyntheticData(algorithm="?", schema=SCHEMA).plan(100),
        "algorithms, games": lambda: private_game(np.zeros((5, 2, 2)), epsilon=1.0, algorithm="?"),
        "algorithms, medians": lambda: PrivateGeometricMedian(radius_bound=1.0, algorithm="?").plan(100, 3),
        "noises": lambda: logistic(noise="?", **fit).plan(100, 3),
        "constants": lambda: logistic(constants="?", **fit).plan(100, 3),
        "risks": lambda: logistic(risk="?", **fit).plan(100, 3),
        "forms of games": lambda: private_game(np.zeros((5, 2, 2)), epsilon=1.0, form="?"),
        "methods of searches": lambda: PrivateSearchCV(logistic(**fit), {"l2": [1.0]}, method="?").plan(100, 3),
        "scorings": lambda: PrivateSearchCV(logistic(**fit), {"l2": [1.0]}, scoring="?").plan(100, 3),
        "kinds of events": lambda: Release.from_dict({**release, **event}),
        "epsilon": lambda: logistic(-1.0, **fit).fit(x, y),
        "delta": lambda: logistic(1.0, 0.7, **fit).fit(x, y),
        "no bounds": lambda: logistic(**CLASSES).fit(x, y),
        "two bounds": lambda: logistic(**fit, **BOX).fit(x, y),
        "no classes": lambda: logistic(**NORM).fit(x, y),
        "no target bounds": lambda: PrivateLinearRegression(**NORM).fit(x, y),
        "quantile": lambda: PrivateQuantileRegressor(quantile=2.0, **BOUNDS, **NORM).fit(x, y),
        "lengths": lambda: logistic(**fit).fit(x, y[:-1]),
        "no rows": lambda: logistic(**fit).fit(x[:0], y[:0]),
        "one axis": lambda: logistic(**fit).fit(x[0], y),
        "objects": lambda: logistic(**fit).fit(x.astype(object), y),
        "not fitted": lambda: logistic(**fit).predict(x),
        "records_per_user alone": lambda: logistic(records_per_user=3, **fit).fit(x, y),
        "slope_cap": lambda: logistic(slope_cap=2.0, **fit).fit(x, y),
        "no target": lambda: logistic(**fit).fit(x),
        "list of records": lambda: private_minimize(location, [[0.0]], epsilon=1.0, radius=1.0),  # type: ignore[arg-type]
        "radius": lambda: private_minimize(location, x, epsilon=1.0, radius=0.0),
        "epsilon nan": lambda: PrivacyParams(float("nan")),
        "no schema": lambda: PrivateSyntheticData().plan(100),
        "range of a column": lambda: NumericColumn("a", 1, 0),
        "missing column": lambda: logistic(schema=SCHEMA).fit(TABLE.drop_columns(["age"])),
        "certificate": lambda: PrivacyCertificate.from_json("{}"),
    }
    return {name: refusal(thunk) for name, thunk in thunks.items()}


COMMAND_LINES: dict[str, str] = {
    "no command": "",
    "unknown command": "?",
    "unknown option": "plan --epsilon 1 --rows 100 --features 3 --nonsense",
    "missing option": "fit t.csv --schema s.toml",
    "not a number": "plan --epsilon many --rows 100 --features 3",
    "epsilon": "plan --epsilon nan --rows 100 --features 3",
    "rows": "plan --epsilon 1 --rows 0 --features 3",
    "no size": "plan --epsilon 1 --features 3",
    "model": "plan --epsilon 1 --rows 100 --features 3 --model nonsense",
    "algorithm": "plan --epsilon 1 --rows 100 --features 3 --algorithm nonsense",
    "noise without delta": "plan --epsilon 1 --rows 100 --features 3 --noise gaussian",
    "no table": "fit absent.csv --schema s.toml --epsilon 1",
    "kind of table": "fit t.txt --schema s.toml --epsilon 1",
    "no schema": "fit t.csv --schema absent.toml --epsilon 1",
    "wrong schema": "fit t.csv --schema wrong.toml --epsilon 1",
    "not confirmed": "fit t.csv --schema draft.toml --epsilon 1",
    "no such column": "fit narrow.csv --schema s.toml --epsilon 1",
    "output is a file": "fit t.csv --schema s.toml --epsilon 1 --out t.csv",
    "no model": "predict absent t.csv",
    "no budget": "budget show absent.json",
    "no certificate": "verify absent.json",
    "wrong certificate": "verify wrong.toml",
    "audit": "audit nonsense",
    "reproduce": "reproduce nonsense",
    "experiments": "reproduce --list",
    "audits": "audit --list",
    "audits as JSON": "audit --list --json",
    "plan": "plan --epsilon 1 --rows 500 --features 3",
    **{
        f"plan {model}": f"plan --epsilon 1 --delta 1e-6 --rows 500 --features 3 --model {model} --json"
        for model in ("logistic", "svc", "linear", "huber", "quantile")
    },
    "plan users": "plan --epsilon 1 --users 500 --features 3 --model svc --json",
    "plan by schema": "plan --epsilon 1 --rows 500 --schema s.toml --json",
    "budget made": "budget create b.json --epsilon 1",
    "budget there": "budget create b.json --epsilon 1",
    "budget shown": "budget show b.json --json",
    "budget too small": "fit t.csv --schema s.toml --epsilon 2 --model svc --budget b.json",
    "version": "--version",
    "fit": "fit t.csv --schema s.toml --epsilon 1 --delta 1e-6 --algorithm output_perturbation "
    "--noise gaussian --l2 0.1 --coefficient-norm 2 --out fit",
    "fit there": "fit t.csv --schema s.toml --epsilon 1 --out fit",
    "fit-sparse": "fit-sparse t.csv --schema s.toml --epsilon 1 --delta 1e-6 --out sparse",
    "search": "search t.csv --schema s.toml --epsilon 1 --model svc --over coefficient_norm=1,4 --out search",
    "median": "median t.csv --column age --radius-bound 100 --epsilon 1 --delta 1e-6 --out median",
    "game": "game plays.csv --shape 3x2 --epsilon 1 --out game",
    "game plan": "game --shape 3x2 --epsilon 1 --rows 4000 --json",
    "synthesize": "synthesize t.csv --schema s.toml --epsilon 1 --delta 1e-6 --bins 16 --out synthetic",
    "verify": "verify fit",
}
NAMED = ("experiments", "audits")
"""Commands whose output is kept in full: lists of names."""


def command_lines() -> dict[str, Any]:
    """Exit code and output of each, in one folder and in this order; long outputs are hashed."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        (folder / "s.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
        (folder / "draft.toml").write_text(
            SCHEMA.to_toml().replace("confirmed = true", "confirmed = false"), encoding="utf-8"
        )
        (folder / "users.toml").write_text(replace(SCHEMA, user="person").to_toml(), encoding="utf-8")
        (folder / "wrong.toml").write_text("confirmed = true\n[columns.age]\nlower = 3\nupper = 1\n", encoding="utf-8")
        (folder / "t.txt").write_text("age\n1\n", encoding="utf-8")
        pacsv.write_csv(TABLE, folder / "t.csv")
        pacsv.write_csv(TABLE.select(["age"]), folder / "narrow.csv")
        (folder / "plays.csv").write_text("row,column,payoff\n" + "0,1,1\n2,0,-0.5\n" * 150, encoding="utf-8")
        for title, words in COMMAND_LINES.items():
            before = set(folder.iterdir())
            result = CliRunner().invoke(app, words.split(), env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
            plain = re.sub(r"\x1b\[[0-9;]*m", "", result.output).replace(name, "FOLDER")
            lines = [" ".join(line.strip("│╭╮╰╯─ ").split()) for line in plain.splitlines()]
            text: Any = [line for line in lines if line]
            if "--json" in words and result.exit_code == 0:
                content = json.loads(result.stdout)  # a warning that a plan is hopeless stands beside it
                listed = content.pop("plans", []) if isinstance(content, dict) else []
                for each in listed:  # plans of equal error come in an order that rounding decides
                    each.pop("chosen")
                text = sorted(f"{each['algorithm']} {each.get('noise', '')} {short_hash(each)}" for each in listed)
                text.append(short_hash(content))
            elif len(text) > 12 and title not in NAMED:
                text = [short_hash(text)]
            made = sorted(set(folder.iterdir()) - before)
            found[title] = {"exit": result.exit_code, "output": text}
            if made and made[0].is_dir():  # noise is the system's: what is printed is another thing each time
                made_by = PrivacyCertificate.from_json((made[0] / "certificate.json").read_text(encoding="utf-8"))
                files = sorted(each.name for each in made[0].iterdir())
                found[title] = {"exit": result.exit_code, "files": files, **certified(made_by.public_fields())}
    return found


PARTS: dict[str, Callable[[], Any]] = {
    "public names": public_names,
    "attributes of fitted": fitted_attributes,
    "commands": commands,
    "refusals": refusals,
    "command lines": command_lines,
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.dear("others", "sparse", "heavy tails", "PrivateLinearSVC", "PrivateQuantile", "PrivateHuber")
def test_certificates_and_released_numbers_are_as_before(face: str) -> None:
    compare(released(face), "released", face)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.dear("command lines")
def test_names_options_and_refusals_are_as_before(part: str) -> None:
    compare(PARTS[part](), "parts", part)


def pretty(value: Any, indent: str = "") -> str:
    """JSON with a line for each leaf, and one for all numbers or hashes of a run."""
    short = json.dumps(value, ensure_ascii=False)
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    numbers = all(isinstance(each, float) or (isinstance(each, str) and len(each) == HASH) for each in inner)
    lists = all(isinstance(each, list) and all(isinstance(number, float) for number in each) for each in inner)
    texts = isinstance(value, list) and len(short) + len(indent) <= 120
    if numbers or lists or texts:
        return short
    names = (
        [f"{json.dumps(name, ensure_ascii=False)}: " for name in value]
        if isinstance(value, dict)
        else [""] * len(inner)
    )
    lines = [f"{indent} {name}{pretty(each, indent + ' ')}" for name, each in zip(names, inner, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(lines) + f"\n{indent}{closing}"


def main() -> None:
    """Write `GOLDEN` anew."""
    warnings.simplefilter("ignore")
    golden = {
        "parts": {name: make() for name, make in PARTS.items()},
        "released": {face: released(face) for face in FACES},
    }
    text = pretty(golden)
    GOLDEN.write_text(text + "\n", encoding="utf-8")
    print(f"{GOLDEN.name}: {sum(map(len, golden['released'].values()))} runs, {len(text):,} characters")


if __name__ == "__main__":
    main()
