"""What `pip install dpconvex` leaves out: which extra brings it, and what is said, before anything is paid."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.metadata import distributions, packages_distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpconvex import (
    PrivateGeometricMedian,
    PrivateLogisticRegression,
    budget_context,
    fit_and_evaluate,
    private_metrics,
    save_model,
)
from dpconvex._validate import EXTRAS, installed
from dpconvex.errors import DpconvexError, MissingExtraError

ROOT = Path(__file__).parents[2]
BOUNDS: dict[str, Any] = {"feature_bounds": (-1, 1)}


def records(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    return X, X[:, 0] > 0


@pytest.mark.gate
def test_every_extra_brings_the_module_that_it_is_named_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    distributions = packages_distributions()

    def names(lines: list[str]) -> set[str]:
        return {re.split(r"[^A-Za-z0-9._-]", line)[0] for line in lines}

    core = names(project["dependencies"])
    for module, extra in EXTRAS.items():
        own = {name.lower() for name in distributions.get(module, [module])}
        assert own & names(project["optional-dependencies"][extra]), module
        assert not own & core, module
    every = project["optional-dependencies"]["all"][0]
    assert all(extra in every or extra in project["optional-dependencies"]["cli"][0] for extra in EXTRAS.values())


def test_a_bill_of_materials_names_every_distribution_once() -> None:
    sbom = runpy.run_path(str(ROOT / "tools" / "sbom.py"))
    found = sbom["document"](list(distributions()))
    names = [part["name"] for part in found["components"]]
    assert names == sorted(set(names))
    assert {"numpy", "scikit-learn", "opendp", "python-flint"} <= set(names)
    assert found["metadata"]["component"]["licenses"] == [{"license": {"name": "Apache-2.0"}}]
    assert all(part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}" for part in found["components"])
    assert "file:" not in json.dumps(found)


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(*EXTRAS)
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"opendp and matplotlib: .* 'dpconvex\[opendp,report\]'") as refused:
        installed("numpy", "opendp", "numba", "matplotlib")
    assert isinstance(refused.value, DpconvexError | ImportError)


def test_integer_noise_without_its_sampler_is_refused_before_it_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default of pure promises needs none. The audit's targets show that no plan is overlooked."""
    X, y = records()
    gaussian = PrivateLogisticRegression(1.0, 1e-6, noise="gaussian", algorithm="objective_perturbation", **BOUNDS)
    pure = PrivateLogisticRegression(1.0, **BOUNDS).fit(X, y)
    monkeypatch.setitem(sys.modules, "opendp", None)
    uses = [
        lambda: gaussian.fit(X, y),
        lambda: PrivateGeometricMedian(1.0, radius_bound=2.0).fit(X),
        lambda: private_metrics(pure, X, y, epsilon=1.0),
        lambda: fit_and_evaluate(PrivateLogisticRegression(1.0, **BOUNDS), X, y, epsilon=1.0),
    ]
    with budget_context(epsilon=9, delta=1e-3) as budget:
        for use in uses:
            with pytest.raises(MissingExtraError, match=r"dpconvex\[opendp\]"):
                use()
        assert budget.account().spent == ()
        PrivateLogisticRegression(1.0, **BOUNDS).fit(X, y)
        assert len(budget.account().spent) == 1


WITHOUT = [name for name, extra in EXTRAS.items() if extra in ("fit", "opendp", "report", "onnx")] + [
    "polars",
    "pandas",
]
SLIM = """
import sys
sys.modules.update(dict.fromkeys({without!r}))
import numpy as np
import dpconvex
from dpconvex.errors import MissingExtraError
model = dpconvex.load_model("model/model.skops")
X = np.load("X.npy")
assert np.array_equal(model.predict(X), np.load("y.npy"))
model.predict_proba(X)
assert dpconvex.verify("model").passed
assert dpconvex.verify("evaluation.json").passed
model.to_dict()
model.to_sql("t")
for use, extra in (
    (lambda: model.fit(X, X[:, 0] > 0), "fit"),
    (lambda: dpconvex.save_model(model, "again"), "fit"),
    (lambda: dpconvex.data.read_table("t.csv"), "fit"),
    (lambda: dpconvex.private_metrics(model, X, X[:, 0] > 0, epsilon=1.0), "fit"),
):
    try:
        use()
    except MissingExtraError as error:
        assert f"dpconvex[{{extra}}]" in str(error), error
    else:
        raise AssertionError("it was not refused")
from typer.testing import CliRunner
from dpconvex.cli.main import app
for words, code in (
    (["verify", "model"], 0),
    (["export", "model", "--format", "sql", "--table", "t"], 0),
    (["--help"], 0),
    (["plan", "--rows", "1000", "--features", "3", "--epsilon", "1"], 0),
    (["schema", "draft", "t.csv"], 2),
    (["export", "model", "--format", "sklearn", "--output", "plain.skops"], 2),
    (["audit", "constant"], 2),
    (["fit", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--out", "new"], 2),
):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == code, (words, done.output, done.exception)
    assert code == 0 or "dpconvex[fit]" in done.output or "s.toml" in done.output, (words, done.output)
"""


@pytest.mark.gate
def test_the_slim_core_predicts_verifies_and_exports(tmp_path: Path) -> None:
    """In another process: here all of them are imported."""
    X, y = records()
    model = PrivateLogisticRegression(1.0, **BOUNDS).fit(X, y)
    (tmp_path / "model").mkdir()
    save_model(model, tmp_path / "model" / "model.skops")
    (tmp_path / "model" / "certificate.json").write_text(model.certificate_.to_json())
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    evaluated = private_metrics(model, X, y, epsilon=1.0).certificate_
    (tmp_path / "evaluation.json").write_text(evaluated.to_json())
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", model.predict(X))
    code = SLIM.format(without=WITHOUT)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
