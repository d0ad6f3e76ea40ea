"""Figures and tables of the geometric median in quick mode: they pass, repeat, and fail when a method is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import f as f_distribution

from dpconvex.mechanisms import GaussianMechanism
from dpconvex.solvers import geometric_median
from dpconvex_experiments import EXPERIMENTS, Estimate, Setting
from dpconvex_experiments.geometric_median import accuracy, boosting, radius
from dpconvex_experiments.geometric_median._common import Trial

OURS = [name for name in EXPERIMENTS if name.startswith("geometric-median/")]
QUICK = Setting(quick=True)


def test_every_figure_and_table_of_the_paper_is_there() -> None:
    wanted = [f"geometric-median/figure-{k}" for k in range(1, 6)] + ["geometric-median/table-1"]
    assert set(wanted) <= set(OURS)


QUICKEST = ("figure-1", "figure-2", "figure-3", "figure-4", "figure-5", "skew")
LONGEST = ("/constant", "/one-pass", "/table-1")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.gate] * (not name.endswith(QUICKEST)) + [pytest.mark.slow] * name.endswith(LONGEST)
        )
        for name in OURS
    ],
)
@pytest.mark.thin
@pytest.mark.dear("geometric-median/skew", "geometric-median/figure-1")
def test_quick_runs_pass_and_are_well_formed(name: str) -> None:
    from matplotlib.figure import Figure

    outcome = EXPERIMENTS[name].measure(QUICK)
    assert outcome.rows
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)
    numbers = [cell for row in outcome.rows for cell in row if isinstance(cell, float)]
    assert np.isfinite(numbers).all()
    assert outcome.passed or name.endswith("table-1"), outcome.criterion  # times depend on what else runs
    outcome.draw(figure := Figure())
    assert all(axes.has_data() for axes in figure.axes)


@pytest.mark.gate
@pytest.mark.parametrize(
    "name", ["figure-5", *(pytest.param(name, marks=pytest.mark.gate) for name in ("figure-1", "skew"))]
)
def test_a_seed_gives_the_same_numbers_and_another_gives_others(name: str) -> None:
    measure = EXPERIMENTS[f"geometric-median/{name}"].measure
    first, again, other = (measure(Setting(quick=True, seed=seed)).rows for seed in (1, 1, 2))
    assert first == again != other


def test_trials_have_streams_of_their_own() -> None:
    trials = [Trial(0, (0, 0)), Trial(0, (0, 1)), Trial(1, (0, 0))]
    draws = [trial.data.random() for trial in trials]
    draws += [trial.noise(method).generator().random() for trial in trials for method in (0, 1)]
    assert len(set(draws)) == len(draws)
    assert trials[0].data.random() == draws[0]


def test_estimates_are_means_with_the_sample_deviation() -> None:
    found, one = Estimate.of([1.0, 2.0, 3.0]), Estimate.of([5.0])
    assert (found.value, found.runs) == (2.0, 3)
    assert found.deviation == pytest.approx(1.0)
    assert (*one, one.deviation) == (5.0, 0.0, 1, 0.0)


@pytest.mark.parametrize(("passes", "steps", "fixed"), [(1, 1_023, 2), (5, 8_191, 9)])
def test_printed_plans_have_the_printed_constants(passes: int, steps: int, fixed: int) -> None:
    """Specification, section 2.5: T, m, and phase k costs (9/16)^k rho/2, for rho = 0.5."""
    drawn = int(3 * (steps / 1_000 + np.log(8e5)))
    for order, uses in (("random", drawn), ("fixed", fixed)):
        plan = boosting._printed(1_000, passes, order)  # pyright: ignore[reportArgumentType]
        assert sum(phase.steps for phase in plan.phases) == steps
        assert {phase.uses for phase in plan.phases} == {uses}
        costs = [(phase.mechanism.sensitivity.value / phase.mechanism.sigma) ** 2 / 2 for phase in plan.phases]
        expected = [0.25 * (9 / 16) ** k for k in range(1, len(costs) + 1)]
        np.testing.assert_allclose(costs, expected, rtol=1e-5)  # noise is rounded up, on its grid


def more_noise(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Make every Gaussian mechanism `factor` times as noisy."""
    sample = GaussianMechanism._sample

    def louder(self: GaussianMechanism, value: Any, source: Any) -> Any:
        return sample(replace(self, sigma=factor * self.sigma), value, source)

    monkeypatch.setattr(GaussianMechanism, "_sample", louder)


@pytest.mark.gate
def test_more_noise_fails_the_accuracy_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the noise is 16 times the excess: more than the target at n = 1,000 and 10,000."""
    more_noise(monkeypatch, 4.0)
    assert not EXPERIMENTS["geometric-median/records"].measure(QUICK).passed


@pytest.mark.thin
@pytest.mark.parametrize("factor", [0.01, 3.0])
def test_another_noise_fails_figure_2(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    more_noise(monkeypatch, factor)
    assert not EXPERIMENTS["geometric-median/figure-2"].measure(QUICK).passed


@pytest.mark.gate
def test_fewer_inliers_fail_figure_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosting, "INSIDE", 0.6)
    assert not EXPERIMENTS["geometric-median/figure-2"].measure(QUICK).passed


@pytest.mark.gate
def test_exchanged_methods_fail_figures_2_and_4(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanged = dict(boosting.METHODS)
    a, b = "StableDPSGD", "FixedOrderDPSGD"
    exchanged[a], exchanged[b] = exchanged[b], exchanged[a]
    monkeypatch.setattr(boosting, "METHODS", exchanged)
    for figure in (2, 4):
        assert not EXPERIMENTS[f"geometric-median/figure-{figure}"].measure(QUICK).passed


@pytest.mark.gate
def test_a_radius_four_times_too_large_fails_figure_1(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = dict(radius.SEARCHES)
    right = searches["FastRadius"]
    searches["FastRadius"] = lambda points, domain, source: 4 * right(points, domain, source)
    monkeypatch.setattr(radius, "SEARCHES", searches)
    assert not EXPERIMENTS["geometric-median/figure-1"].measure(QUICK).passed


@pytest.mark.gate
def test_missing_data_sets_are_named_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = accuracy.Source("moon rocks", lambda: None, 1.0, "pip install rocks")
    monkeypatch.setattr(accuracy, "SOURCES", (accuracy.SOURCES[1], absent))
    outcome = accuracy.real_data.measure(QUICK)
    assert "moon rocks (pip install rocks)" in outcome.notes
    assert {row[0] for row in outcome.rows} == {"digits"}


def test_contaminated_points_are_what_they_say() -> None:
    case = accuracy._contaminated(0.25, np.random.default_rng(0))
    far = np.linalg.norm(case.points, axis=1) > 900
    assert far.mean() == 0.25
    assert case.error(np.zeros(10)) == 0


def test_the_papers_descent_has_constant_steps_and_averages_everything() -> None:
    plan: Any = boosting.METHODS["DPGD"](1_000, 5)
    assert (plan.tail, plan.step) == (1.0, 1 / np.sqrt(5))
    assert sum(release.times for release in plan.releases) == 5


# Errata of the paper's experiments (docs, Errata)


def test_u10_the_radius_of_heavy_tails_is_a_quantile_not_a_distribution_function() -> None:
    """U10: printed ``F(0.75)``, the share of points within the quantile is 0.75; 10,000 draws, five standard errors."""
    ratios = []
    for freedom in (2.0, 20.0):
        drawn = radius.heavy(freedom, 10_000, np.random.default_rng(0))
        lengths = np.linalg.norm(drawn.points, axis=1)
        assert np.mean(lengths <= drawn.radius) == pytest.approx(0.75, abs=5 * np.sqrt(0.1875 / 10_000))
        misread = np.sqrt(radius.DIM * f_distribution.cdf(0.75, radius.DIM, freedom))
        assert np.mean(lengths <= misread) < 0.25
        ratios.append(drawn.radius / misread)
    assert ratios[0] > 1.5 * ratios[1] > 1.5


def test_u12_the_told_radius_exceeds_the_objective() -> None:
    """U12: "f >= r" is said of radii inflated by 20; measured 0.24, 0.43, 0.82 and 0.04 of them at the median."""
    cases = [(boosting.Cluster(1000, bound), share) for bound, share in ((25.0, 0.24), (50.0, 0.43), (100.0, 0.82))]
    for data, share in [*cases, (boosting.Heavy(1000, 5.0), 0.044)]:
        points, _ = data.draw(np.random.default_rng(0))
        assert geometric_median(points).value / data.radius == pytest.approx(share, rel=0.05)


def test_u13_a_start_about_the_origin_leaves_the_median_out_of_reach() -> None:
    """U13: the center of the start's sphere is not said; about 0, the cluster is outside the ball of the walk."""
    data = boosting.Cluster(1000, 50.0)
    points, center = data.draw(np.random.default_rng(0))
    median = geometric_median(points).point
    assert np.linalg.norm(median) > 1.75 * data.radius  # no start within 0.75 of 0 is within a radius of it
    assert np.linalg.norm(median - center) < 0.25 * data.radius
