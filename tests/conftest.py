"""Settings that every test shares."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, settings

from dpconvex.algorithms.erm import registry
from dpconvex.problems.data import _threads

# The gate must give the same verdict twice, so examples are derived from the test alone, and never timed.
# `HYPOTHESIS_PROFILE=explore` searches at random, with ten times as many examples.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# One BLAS thread is what `make test` asks for; to ask again in every solver would take 3 % of the time.
if os.environ.get("OPENBLAS_NUM_THREADS") == "1":
    _threads._controller = lambda: SimpleNamespace(limit=lambda **_: nullcontext())  # type: ignore[assignment]

# Each call of a runner would build all commands and options anew: 30 ms, hundreds of times.
typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]


@contextmanager
def naming(*values: object) -> Iterator[None]:
    """Whatever fails inside says which case it was: many cheap cases stand in one test, since a test costs more."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the case {', '.join(map(str, values))}")
        raise


@pytest.fixture(scope="session")
def case() -> Callable[..., AbstractContextManager[None]]:
    """To be used as ``with case(loss, content): ...``."""
    return naming


@pytest.fixture
def monkeypatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A test that patches the library neither uses plans made before nor leaves its own behind."""
    replace, patched = monkeypatch.setattr, False

    def replacing(*arguments: Any, **options: Any) -> None:
        nonlocal patched
        patched = True
        registry.plans.cache_clear()
        replace(*arguments, **options)

    monkeypatch.setattr = replacing  # type: ignore[method-assign]
    yield monkeypatch
    if patched:
        monkeypatch.undo()
        registry.plans.cache_clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Keep how long every test took, for ``make house``."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration
    kept = getattr(config, "cache", None)  # `-p no:cacheprovider` leaves it out
    if seconds and kept is not None:
        kept.set("durations", dict(seconds))


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is marked `thin` every third is quick, the others are for the gate."""
    seen: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("thin") is not None:
            name = item.nodeid.partition("[")[0]
            if seen[name] % 3:
                item.add_marker(pytest.mark.gate)
            seen[name] += 1
