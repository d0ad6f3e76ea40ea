"""The help of ``--constants`` names every method that can be asked for the paper's."""

from __future__ import annotations

import pytest
from typer.main import get_command

from dpconvex.algorithms.erm.heavy_tailed.registry import HEAVY_METHODS
from dpconvex.algorithms.erm.registry import ERM_METHODS
from dpconvex.algorithms.minimax.registry import SADDLE_METHODS, SPARSE_METHODS
from dpconvex.algorithms.queries.registry import QUERY_METHODS
from dpconvex.cli.main import app

HEAVY = {name for name, method in HEAVY_METHODS.items() if method.printed} - {"clipped_residuals"}
"""Clipped residuals hand constants on to the methods of `ERM_METHODS`."""
ASKED = {
    **dict.fromkeys(("plan", "fit"), {n for n, m in ERM_METHODS.items() if "constants" in m.takes} | HEAVY),
    "fit-sparse": {n for r in (SADDLE_METHODS, SPARSE_METHODS) for n, m in r.items() if "constants" in m.takes},
    "synthesize": {n for n, m in QUERY_METHODS.items() if "constants" in m.takes},
    "median": {"stable_sgd", "fixed_order"},
}


@pytest.mark.parametrize("command", ASKED)
def test_families_with_paper_constants_are_named(command: str) -> None:
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    (text,) = (each.help for each in parameters if each.name == "constants")
    missing = {name for name in ASKED[command] if name not in text}
    assert ASKED[command]
    assert not missing
