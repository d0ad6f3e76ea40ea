"""The table of the papers' systems: every call runs, and *done* is refused to whatever is missing."""

from __future__ import annotations

import dataclasses
import math
import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from systems import SEEDS, Measure, System, fidelity, shortcomings, systems
from typer.main import get_command

import dpconvex
from dpconvex import DataDomain, NumericColumn, Schema, solvers
from dpconvex.cli.main import app
from dpconvex.errors import DpconvexWarning
from dpconvex.losses import LogisticLoss
from dpconvex.problems import LinearModelProblem
from dpconvex.problems.data.records import Records
from dpconvex_experiments import EXPERIMENTS
from dpconvex_experiments.reference import lower_bound

PUBLIC = [name for name in dir(dpconvex) if not name.startswith("_")]
PAGE = Path(__file__).parents[3] / "docs" / "papers.md"
N = 600


def example_names() -> dict[str, Any]:
    """What the page says the calls may use; the test below holds it to that."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, (N, 2))
    y = X[:, 0] > 0
    domain = DataDomain.l2_ball(2, 1.0)
    problem = LinearModelProblem(LogisticLoss(), domain, N, 1.0)
    return {
        **{name: getattr(dpconvex, name) for name in PUBLIC},
        "solvers": solvers,
        "lower_bound": lower_bound,
        "X": X,
        "y": y,
        "t": np.clip(X[:, 0] + rng.normal(0, 0.2, N), -1, 1),
        "users": rng.integers(0, N // 3, N),
        "points": X,
        "payoffs": rng.uniform(-1, 1, (N, 3, 3)),
        "table": pa.table({"age": X[:, 0], "size": X[:, 1]}),
        "schema": Schema((NumericColumn("age", -1, 1), NumericColumn("size", -1, 1))),
        "objective": problem.on(Records.clipped(X, domain), 2.0 * y - 1, 0.1),
    }


CALLS = {system.call: f"{system.paper.split()[0].lower()}-{system.number}" for system in systems() if system.call}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return example_names()


DEAR = ("heavy-Algorithms 6 and 7", "users-Theorem 4.1")
DEAREST = ("heavy-Algorithm 3", "heavy-Theorem D.4")  # many steps on three records; quick in test_surrogates.py


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=name, marks=[pytest.mark.gate] * (name in DEAR) + [pytest.mark.slow] * (name in DEAREST))
        for call, name in CALLS.items()
    ],
)
@pytest.mark.thin
def test_every_call_runs(call: str, names: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpconvexWarning)  # with so few records no plan has hope
        assert eval(call, dict(names)) is not None


def test_the_page_names_what_calls_use(names: dict[str, Any]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in names.keys() - set(PUBLIC))


def test_commands_and_their_options_exist() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for system in systems():
        if system.command.startswith("-"):
            continue
        command, *words = system.command.split()
        known = {option for parameter in commands[command].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, system.command


def test_there_are_thirty_five() -> None:
    assert len({(system.paper, system.number) for system in systems()}) == len(systems()) == 35
    assert len({system.paper for system in systems()}) == 5
    assert set().union(*(system.constants for system in systems())) == {"calibrated", "paper"}
    assert all(measure.theory for system in systems() for measure in system.measures)


def test_what_is_on_record_is_what_the_rows_ask_for() -> None:
    """A name that was changed, or a row that left, is noticed: ``python tools/fidelity.py`` measures again."""
    asked = {(m.experiment, m.check) for system in systems() for m in system.measures}
    kept = {
        (name, check)
        for name, found in fidelity().items()
        for run in found["seeds"].values()
        for check in run["checks"]
    }
    assert kept <= asked
    assert {name for name, _ in asked} <= EXPERIMENTS.keys()
    assert all(tuple(found["seeds"]) == tuple(map(str, SEEDS)) for found in fidelity().values())


def test_the_page_shows_every_row() -> None:
    text = runpy.run_path(str(PAGE.parent / "generated.py"))["papers"]()
    done = [system for system in systems() if not shortcomings(system, EXPERIMENTS)]
    assert text.startswith(f"{len(done)} of 35 are done")
    assert all(f"| **{system.number}**: {system.what} |" in text for system in systems())
    assert text.count("| done |") == len(done)


# A row that is done, and each way to lose that.

CHECK = {"value": -0.5, "low": -0.6, "high": -0.4}
NAME = next(iter(EXPERIMENTS))
GOOD = System("a", "1", "w", "math:pi", "1", "-", (), (Measure(NAME, "slope", "-1/2"),))


def found(seeds: tuple[int, ...] = SEEDS, *, passed: bool = True, **limits: float | None) -> dict[str, Any]:
    run = {"passed": passed, "checks": {"slope": {**CHECK, **limits}}}
    return {NAME: {"quick": False, "seeds": {str(seed): run for seed in seeds}}}


def exponents(low: float = -0.6, high: float = -0.4) -> dict[str, Any]:
    record = found(low=low, high=high)
    for run in record[NAME]["seeds"].values():
        run["checks"]["exponent"] = run["checks"]["slope"]
    return record


def test_a_complete_row_is_done() -> None:
    assert shortcomings(GOOD, EXPERIMENTS, found()) == ()
    flat = dataclasses.replace(GOOD, measures=(Measure(NAME, "exponent", "0: logarithmic"),))
    assert shortcomings(flat, EXPERIMENTS, exponents(low=-0.1, high=0.1)) == ()


@pytest.mark.parametrize(
    ("change", "record", "words"),
    [
        ({"lacks": "an option"}, found(), "an option"),
        ({"code": "math:tau_of_nobody"}, found(), "no math:"),
        ({"code": "nowhere_at_all:pi"}, found(), "no nowhere"),
        ({"call": ""}, found(), "no call"),
        ({"measures": ()}, found(), "no measurement"),
        ({"measures": (Measure("a/b", "slope", "1"),)}, found(), "no experiment a/b"),
        ({"measures": (Measure(NAME, "other", "1"),)}, found(), "not recorded"),
        ({}, found((0, 1)), "not recorded at seeds 0, 1, 2"),
        ({}, found(passed=False), "fails"),
        ({}, found(high=None), "one side only"),
        ({}, found(low=-math.inf), "one side only"),
        ({"measures": (Measure(NAME, "exponent", "-1/2"),)}, exponents(high=0.1), "limits include 0"),
    ],
)
def test_whatever_is_missing_is_said(change: dict[str, Any], record: dict[str, Any], words: str) -> None:
    (said,) = shortcomings(dataclasses.replace(GOOD, **change), EXPERIMENTS, record)
    assert words in said
