"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[1] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCES.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.thin
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.dear("dpconvex.estimators.search", "dpconvex.estimators.worst_group")
def test_examples(name: str) -> None:
    """What differs is printed."""
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=options)
    assert tried > 0
    assert failed == 0
