"""Evidence for user-level privacy in quick mode: it passes, repeats, and fails when something is broken."""

from __future__ import annotations

import pytest

from dpconvex.algorithms.erm.user_level import guards
from dpconvex.mechanisms import robust_mean
from dpconvex_experiments import EXPERIMENTS, Setting
from dpconvex_experiments.checks import Anchors
from dpconvex_experiments.user_level import crossover, rates, robustness
from dpconvex_experiments.user_level.rates import Point, worst_excess

OURS = [name for name in EXPERIMENTS if name.startswith("user-level/")]
QUICK = Setting(quick=True)


QUICKEST = ("gradients",)
LONGEST = ("strongly-convex", "one-pass", "/rates", "robustness", "crossover")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.gate] * (not name.endswith(QUICKEST)) + [pytest.mark.slow] * name.endswith(LONGEST)
        )
        for name in OURS
    ],
)
def test_quick_runs_pass_and_are_well_formed(name: str) -> None:
    from matplotlib.figure import Figure

    outcome = EXPERIMENTS[name].measure(QUICK)
    assert outcome.passed, outcome.rows
    assert len(set(outcome.columns)) == len(outcome.columns)
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert sum(map(len, outcome.columns)) + 2 * len(outcome.columns) <= 80  # headers do not wrap
    outcome.draw(figure := Figure())
    assert figure.axes
    assert all(axes.has_data() for axes in figure.axes)


def test_a_seed_gives_the_same_numbers_and_another_gives_others() -> None:
    first, again, other = (worst_excess(Point(300, 4, 5, 8.0), 1, seed) for seed in (1, 1, 2))
    assert first == again
    assert first[0] != other[0]


def with_noise(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Multiply the noise of guarded means."""
    add = robust_mean.add_gaussian
    monkeypatch.setattr(robust_mean, "add_gaussian", lambda value, sigma, *rest: add(value, factor * sigma, *rest))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.2, 3.0])
def test_another_noise_fails(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with_noise(monkeypatch, factor)
    assert not EXPERIMENTS["user-level/rates"].measure(QUICK).passed


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (0.2, False), (3.0, False)])
@pytest.mark.dear("1.0-True")
def test_another_noise_fails_a_single_point(factor: float, passed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick sibling: one point, with the runs of the quick form, against its anchor."""
    with_noise(monkeypatch, factor)
    _, strong, _ = worst_excess(Point(2000, 4, 20, 8.0), 2, 0)
    (check,) = Anchors("user-level/rates", True).near(
        {"excess of noise alone, n = 2000, m = 4, d = 20, epsilon = 8": strong}
    )
    assert check.passed is passed, check


def test_counts_with_another_power_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = rates.counted
    monkeypatch.setattr(rates, "counted", lambda n, m, smoothness: counted(n, m, smoothness) * n**0.1)
    assert not rates.gradients.measure(QUICK).passed


@pytest.mark.slow
def test_tests_that_always_fail_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards.TestedSteps, "start", lambda *_: lambda points: None)
    assert not robustness.robustness.measure(QUICK).passed


def test_robust_means_cross_clipping_as_the_specification_says() -> None:
    """Specification, section 4.7: from some 10 to 20 records per user on; a small n, or bundles, make it more."""
    found = [crossover.crossing(n, 8.0, 10) for n in (500, 2000)]
    assert found == [64, 32]
    assert crossover.crossing(50, 1.0, 10) is None
