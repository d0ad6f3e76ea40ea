"""Bars show the releases of a plan: on a terminal, after a while, and nothing of a private search's own draws."""

import io
import time
from typing import Any

import numpy as np
import pytest
import rich.console
from rich.progress import Progress

from dpconvex import PrivateGeometricMedian, PrivateLogisticRegression, PrivateSearchCV, _progress

BOUNDS: dict[str, Any] = {"feature_bounds": (-1, 1), "classes": [False, True]}


def records(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1, 1, (n, 3))
    return X, X[:, 0] > 0


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 80 columns shows, at once."""
    written = io.StringIO()
    usual = rich.console.Console

    def opened(**options: Any) -> rich.console.Console:
        return usual(file=written, force_terminal=True, width=80, **{**options, "stderr": False})

    monkeypatch.setattr(rich.console, "Console", opened)
    monkeypatch.setattr(_progress, "DELAY", 0.0)
    return written


@pytest.fixture
def steps(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """The (done, planned) that bars were told."""
    told: list[tuple[float, float]] = []
    usual = Progress.update

    def update(self: Progress, task: Any, **values: Any) -> None:
        told.append((values["completed"], values["total"]))
        usual(self, task, **values)

    monkeypatch.setattr(Progress, "update", update)
    return told


def test_a_bar_is_asked_for(steps: list[tuple[float, float]], terminal: io.StringIO) -> None:
    X, y = records()
    PrivateLogisticRegression(1.0, **BOUNDS, random_state=0).fit(X, y)
    assert not steps
    assert terminal.getvalue() == ""


def test_planned_steps_are_counted_whatever_the_data_hold(steps: list[tuple[float, float]]) -> None:
    X, y = records()
    shown = []
    for content in (X, np.full_like(X, np.nan)):
        model = PrivateLogisticRegression(1.0, 1e-6, algorithm="noisy_gradient", verbose=True, random_state=0, **BOUNDS)
        model.fit(content, y)
        shown.append(list(steps))
        steps.clear()
    assert shown[0] == shown[1]
    assert shown[0][-1][0] == shown[0][-1][1] > 1
    assert [done for done, _ in shown[0]] == sorted(done for done, _ in shown[0])


def test_several_releases_make_a_bar(steps: list[tuple[float, float]]) -> None:
    X, _ = records(2000)
    median = PrivateGeometricMedian(1.0, radius_bound=2.0, verbose=True, random_state=0).fit(X)
    assert steps[-1][1] == sum(each.times for each in median.plan_.releases)


@pytest.mark.gate
def test_a_search_shows_none_of_its_fits(steps: list[tuple[float, float]]) -> None:
    X, y = records()
    inner = PrivateLogisticRegression(1.0, 1e-6, algorithm="noisy_gradient", verbose=True, random_state=0, **BOUNDS)
    for method in ("repeats", "composition"):
        steps.clear()
        search = PrivateSearchCV(inner, {"coefficient_norm": [1.0, 2.0, 4.0]}, method=method, verbose=True).fit(X, y)
        assert {total for _, total in steps} <= {sum(each.times for each in search.plan_.releases)}


def test_a_bar_is_drawn_and_taken_away(terminal: io.StringIO) -> None:
    with _progress.shown("Fitting"):
        time.sleep(0.3)
        _progress.advance(terminal, 1, 4)
        with _progress.shown("inside"):
            time.sleep(0.3)
    assert "Fitting" in terminal.getvalue()
    assert "25%" in terminal.getvalue()
    assert "inside" not in terminal.getvalue()
    assert _progress._bar.get() is None


def test_short_work_shows_nothing(terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "DELAY", 60.0)
    with _progress.shown("Fitting"):
        _progress.advance(terminal, 1, 4)
    assert terminal.getvalue() == ""
    with pytest.raises(ZeroDivisionError), _progress.shown("Fitting"):
        1 / 0  # noqa: B018
    assert _progress._bar.get() is None


def test_no_terminal_no_bar(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "DELAY", 0.0)
    with _progress.shown("Fitting"):
        assert _progress._bar.get() is None
        time.sleep(0.1)
    assert capfd.readouterr() == ("", "")
