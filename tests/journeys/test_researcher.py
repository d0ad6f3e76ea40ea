"""A researcher: plans without data, constants of a paper, a run under a seed, a loss of his own, an audit."""

from __future__ import annotations

import json

import numpy as np
from typer.testing import CliRunner

from dpconvex import PrivateLogisticRegression
from dpconvex.cli.main import app

RUNNER = CliRunner()


def run(*words: object) -> str:
    result = RUNNER.invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_plans_constants_and_runs() -> None:
    found = {}
    for constants in ("paper", "calibrated"):
        model = PrivateLogisticRegression(1.0, feature_norm=1.0, constants=constants, classes=[-1, 1], random_state=3)
        plans = model.set_params(algorithm="output_perturbation").plan(2000, 5)
        found[constants] = plans[0].predicted_error.bound
    assert found["calibrated"] <= found["paper"]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)) / 4
    y = np.sign(X[:, 0] + 0.1 * rng.normal(size=2000))
    fits = [model.fit(X, y).coef_ for _ in range(2)]
    np.testing.assert_array_equal(*fits)
    assert "NOT PRIVATE" in model.certificate_.explain()


def test_commands() -> None:
    plan = json.loads(run("plan", "--rows", "5000", "--features", "10", "--epsilon", "1", "--json"))
    assert plan
    assert "geometric-median" in run("reproduce", "--list")
