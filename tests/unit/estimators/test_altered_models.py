"""Model files whose numbers were changed: parameters out of range and parts that do not agree are one error."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.base import is_classifier

from dpconvex import Block, DataDomain, PrivateLogisticRegression, load_model, save_model, verify
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, NumericTarget, Schema
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators import ESTIMATORS, SPARSE_ESTIMATORS

N = 60
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
Y = np.arange(N) % 2
FAST = {"PrivateLogisticRegression": "output_perturbation", "PrivateLasso": "frank_wolfe"}


def fitted(kind: Any, **options: Any) -> Any:
    options = {**({"classes": [0, 1]} if is_classifier(kind()) else {"target_bounds": (0, 1)}), **options}
    if kind in SPARSE_ESTIMATORS:
        options = {"feature_bound": options.pop("feature_norm", None), **options}
    model = kind(5.0, random_state=0, algorithm=FAST.get(kind.__name__, "auto"), **options)
    if kind.__name__ == "PrivateWorstGroupClassifier":
        return model.set_params(groups=(0, 1), group_shares=(0.5, 0.5)).fit(X, Y, groups=Y)
    return model.fit(X, Y)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the file of one model of each class holds."""
    path, found = tmp_path_factory.mktemp("models") / "m.skops", {}
    for kind in (*ESTIMATORS, *SPARSE_ESTIMATORS):
        save_model(fitted(kind, feature_norm=1.0), path)
        found[kind.__name__] = skops.io.load(path)
    return found


def loaded(state: dict[str, Any], folder: Path) -> Any:
    (folder / "m.skops").write_bytes(skops.io.dumps(state))
    return load_model(folder / "m.skops")


OTHERS = ({"epsilon": 50.0}, {"delta": 0.1}, {"neighbors": "add_or_remove_one", "rows": N})
EVERY = pytest.mark.parametrize("name", [kind.__name__ for kind in (*ESTIMATORS, *SPARSE_ESTIMATORS)])
REALS = {"epsilon", "delta", "feature_norm", "feature_bound", "radius", "l2", "coefficient_norm", "tilt"}
REALS |= {"adversarial_radius", "smallest_share", "slope_cap", "smoothing", "width", "quantile", "heavy_tailed"}
TEXTS = {"algorithm", "constants", "noise", "risk", "adversarial_norm", "group_column", "probabilities"}


@EVERY
@pytest.mark.thin
@pytest.mark.dear("PrivateHuberRegressor", "PrivateLogisticRegression")
def test_parameters_out_of_range_are_refused(states: dict[str, dict[str, Any]], name: str, tmp_path: Path) -> None:
    state = states[name]
    assert type(loaded(state, tmp_path)).__name__ == name
    assert set(state["parameters"]) >= {"epsilon", "fit_intercept", "schema"}
    for parameter in state["parameters"]:
        bad = [[1.0, 2.0, 3.0], {"a": 1}]
        bad += [-1.0, float("nan"), float("inf"), "1"] if parameter in REALS else []
        bad += [0, 2.5, None] if parameter == "records_per_user" else []
        bad += [1, None, "no"] if parameter == "fit_intercept" else []
        bad += [1.5] if parameter in TEXTS else []
        bad += ["", "confirmed = 3", 7] if parameter == "schema" else []
        bad += [[0.0], [1.0, 0.0], [0.0, float("nan")], 3] if parameter.endswith("_bounds") else []
        for value in bad:
            with pytest.raises(InvalidDataError, match="is not a dpconvex model: "):
                loaded({**state, "parameters": {**state["parameters"], parameter: value}}, tmp_path)


@pytest.mark.thin
@EVERY
def test_parts_of_another_shape_are_refused(states: dict[str, dict[str, Any]], name: str, tmp_path: Path) -> None:
    state = states[name]
    listed = state["classes"]
    changes = [
        {part: change(np.asarray(state[part]))}
        for part in ("encoded_coef", "encoded_intercept", "coef", "intercept")
        for change in (
            lambda a: a[..., None],
            lambda a: np.zeros((2, 2)),
            lambda a: np.zeros(0),
            lambda a: a * np.nan,
            lambda a: 2 * a + 1,
        )
    ]
    changes += [{"n_features_in": value} for value in (0, -3, 2, 4, 10**30)]
    changes += [{"feature_names_in": value} for value in (["a"], ["a", "b", 3], "abc", ["a", "b", "c", "d"])]
    changes += [{"classes": value} for value in (None if listed else {"dtype": "<i8", "values": [0, 1]},)]
    if listed:
        values = ([0], [], [1, 1], [[0, 1], [2, 3]], [0, 1, 2])
        changes += [{"classes": {"dtype": "<i8", "values": value}} for value in values]
    if state["slope_cap"] is not None:
        changes += [{"slope_cap": value} for value in (None, 0.0, 1.5, float("nan"), "1", [0.5])]
    for change in changes:
        with pytest.raises(InvalidDataError, match="is not a dpconvex model: "):
            loaded({**state, **change}, tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"size": 4}, {"size": 0}, {"size": 1.5}, {"bound": -1.0}, {"bound": float("nan")}, {"norm": "l7"}, {"name": 3}],
    ids=str,
)
def test_altered_domains_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    save_model(fitted(ESTIMATORS[0], domain=DataDomain((Block(3, "l1", 1.0, "p"),))), tmp_path / "m.skops")
    state = skops.io.load(tmp_path / "m.skops")
    state["parameters"]["domain"]["blocks"][0].update(change)
    with pytest.raises(InvalidDataError, match="is not a dpconvex model: "):
        loaded(state, tmp_path)


@pytest.mark.parametrize("change", OTHERS, ids=str)
def test_a_promise_that_is_not_the_certificates_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    save_model(fitted(ESTIMATORS[0], feature_norm=1.0), tmp_path / "m.skops")
    state = skops.io.load(tmp_path / "m.skops")
    state["parameters"].update(change)
    with pytest.raises(InvalidDataError, match="its certificate is of another promise"):
        loaded(state, tmp_path)


@pytest.mark.parametrize("change", OTHERS, ids=str)
def test_a_model_whose_promise_was_changed_after_the_fit_is_not_saved(change: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(ESTIMATORS[0], feature_norm=1.0).set_params(**change)
    with pytest.raises(InvalidParameterError, match="was changed after its fit"):
        save_model(model, tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())


def test_every_fact_of_a_block_and_kind_of_number_is_saved(tmp_path: Path) -> None:
    model = PrivateLogisticRegression(Fraction(7, 2), domain=DataDomain.l1_ball(3, 1.0, 0.5), classes=[0, 1]).fit(X, Y)
    save_model(model, tmp_path / "m.skops")
    read = load_model(tmp_path / "m.skops")
    assert (read.epsilon, read.domain) == (3.5, model.domain)


def test_verify_compares_the_certificate_with_the_one_in_the_model_file(tmp_path: Path) -> None:
    """Each alone is whole; a file of another promise beside the model is told."""
    model = fitted(ESTIMATORS[0], feature_norm=1.0)
    save_model(model, tmp_path / "model.skops")
    smaller = replace(fitted(ESTIMATORS[0], feature_norm=1.0).set_params(epsilon=0.1).fit(X, Y).certificate_)
    for stated, passes in ((model.certificate_, True), (replace(smaller, model=model.certificate_.model), False)):
        (tmp_path / "certificate.json").write_text(stated.to_json())
        failed = {check.name for check in verify(tmp_path).checks if not check.passed} - {"noise is not seeded"}
        assert failed == (set() if passes else {"model file"})


@pytest.mark.thin
@pytest.mark.parametrize("kind", [*ESTIMATORS, *SPARSE_ESTIMATORS], ids=lambda kind: kind.__name__)
def test_another_schema_is_refused(kind: Any, tmp_path: Path) -> None:
    import pandas as pd

    target = ClassTarget("y", ("no", "yes")) if is_classifier(kind()) else NumericTarget("y", 0, 1)
    columns = (NumericColumn("x", -1, 1), CategoricalColumn("c", ("a", "b", "d")))
    table = pd.DataFrame({"x": X[:, 0], "c": ["a", "b", "d"] * (N // 3), "y": ["no", "yes"] * (N // 2)})
    if not is_classifier(kind()):
        table["y"] = Y
    model = kind(5.0, random_state=0, algorithm=FAST.get(kind.__name__, "auto"), schema=Schema(columns, target))
    if kind.__name__ == "PrivateWorstGroupClassifier":
        model.set_params(group_column="c", group_shares=(0.3, 0.3, 0.4))
    save_model(model.fit(table), tmp_path / "m.skops")
    state = skops.io.load(tmp_path / "m.skops")
    assert loaded(state, tmp_path).schema == model.schema
    others = [Schema(columns[:1], target), Schema((*columns, NumericColumn("z", 0, 1)), target)]
    others += [] if is_classifier(kind()) else [Schema(columns, ClassTarget("y", ("no", "yes"))), Schema(columns)]
    for schema in others:
        state["parameters"]["schema"] = schema.to_toml()
        with pytest.raises(InvalidDataError, match="is not a dpconvex model: "):
            loaded(state, tmp_path)
