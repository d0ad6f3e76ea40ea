"""From which n a proven bound is below what any constant vector is charged: plans only, no data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping

from dpconvex.algorithms.erm import heavy_tailed
from dpconvex.algorithms.erm.heavy_tailed import clipped_gradient
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem
from dpconvex_experiments.base import Cell, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate, exact
from dpconvex_experiments.heavy_tails._common import DIAMETER, PAPER, LinearLoss, wide_problem
from dpconvex_experiments.shared import LINE_STYLES, panels

Case = tuple[float, int, float]
"""k, d, epsilon."""
CASES: tuple[Case, ...] = tuple(itertools.product((2.0, 4.0), (10, 50, 100), (0.5, 1.0, 4.0)))
SHARES = (1.0, 0.1)
LARGEST = 10**15
Bound = Callable[[LinearModelProblem, float, Moments], float]


def _localized(constants: str, failure: float | None) -> Bound:
    def bound(problem: LinearModelProblem, epsilon: float, moments: Moments) -> float:
        privacy = PrivacyParams(epsilon)
        return heavy_tailed.plan(problem, privacy, moments, constants=constants, failure=failure).schedule.bound

    return bound


def _descent(problem: LinearModelProblem, epsilon: float, moments: Moments) -> float:
    return clipped_gradient.plan(problem, PrivacyParams(epsilon), moments).bound


BOUNDS: Mapping[str, Bound] = {
    "localized": _localized("calibrated", None),
    "but for 0.1": _localized("calibrated", 0.1),
    "printed": _localized("paper", 0.1),
    "descent": _descent,
}


def smallest(enough: Callable[[int], bool]) -> int | None:
    """Return an n from which something holds, to 1 %; None above 1e15.

    Bisection: bounds fall with n but for small steps, where phases are added.
    """
    low, high = 1, LARGEST
    if not enough(high):
        return None
    while high > 1.01 * low + 1:
        middle = round((low * high) ** 0.5)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def value(bound: Bound, case: Case, n: int) -> float:
    """Return the bound for ``G_1 = G_2 = G_k = 1``; infinite if n is too small for the constants."""
    k, dim, epsilon = case
    moments = Moments(k, 1.0)
    try:
        return bound(wide_problem(LinearLoss(), dim, n, moments), epsilon, moments)
    except InvalidParameterError:
        return math.inf


def thresholds(case: Case, target: float) -> list[int | None]:
    """Return, for every bound, from which n it is at most `target`."""
    return [smallest(lambda n, bound=bound: value(bound, case, n) <= target) for bound in BOUNDS.values()]


def overtakes(case: Case) -> int | None:
    """Return from which n the localized bound is below that of descent."""
    return smallest(lambda n: value(BOUNDS["localized"], case, n) <= value(BOUNDS["descent"], case, n))


@experiment(
    "heavy-tails/constants",
    "From how many records on does each set of constants prove anything?",
    f"{PAPER}, Theorem 3.1; docs, Heavy tails",
)
def constants(setting: Setting) -> Outcome:
    """Bisect for every bound, setting and share of the trivial bound."""
    cases = [case for case in CASES if not setting.quick or case[1] == 10]
    rows: list[tuple[Cell, ...]] = []
    for case in setting.track(cases, "Planning"):
        crossing = overtakes(case)
        rows += [(*case, share, *thresholds(case, share * DIAMETER), crossing) for share in SHARES]

    def draw(figure: Figure) -> None:
        for axes, share in zip(panels(figure, len(SHARES)), SHARES, strict=True):
            chosen = [row for row in rows if row[3] == share]
            for j, (name, style) in enumerate(zip(BOUNDS, LINE_STYLES, strict=False)):
                axes.plot(range(len(cases)), [row[4 + j] or math.nan for row in chosen], style, label=name)
            axes.set_yscale("log")
            axes.set_title(f"smallest n, bound below {share:g} G_1 D")
            labels = [f"{k:g}, {d}, {epsilon:g}" for k, d, epsilon in cases]
            axes.set_xticks(range(len(cases)), labels, rotation=90, fontsize=7)
            axes.set_xlabel("k, d, epsilon")
        figure.axes[0].legend()

    return Outcome(
        ("k", "d", "epsilon", "share", *BOUNDS, "overtakes"),
        tuple(rows),
        "the calibrated bound beats G_1 D with n <= 100,000 records for d <= 50 and epsilon >= 1, and with a "
        "thousandth of what the printed constants need in every setting; its thresholds are near their anchors",
        (
            *(check for row in rows if row[3] == 1.0 for check in _useful(row)),
            *Anchors("heavy-tails/constants", setting.quick).near(
                {
                    f"k = {row[0]}, d = {row[1]}, epsilon = {row[2]}, share {row[3]}": Estimate(
                        float(row[4] or LARGEST)
                    )
                    for row in rows
                }
            ),
        ),
        draw,
        (
            "G_1 = G_2 = G_k = 1, D = 2, linear loss. Share: 1 is the trivial bound G_1 D, what any fixed vector may "
            "lose; 0.1 a tenth of it. The zero vector loses at most half. Localized: calibrated, in expectation; the "
            "next two hold but for probability 0.1. Printed: with the bias repaired.",
            "Descent: pure clipped gradient descent by its own bound, which is on the excess on the *data*; the others "
            "are on the population's. Overtakes: from where the localized bound is the smaller one. Empty: above 1e15.",
        ),
    )


def _useful(row: tuple[Cell, ...]) -> Iterator[Check]:
    k, d, epsilon, _, localized, _, printed, *_ = (float(cell or LARGEST) for cell in row)
    name = f"k = {k:g}, d = {d:g}, epsilon = {epsilon:g}"
    yield exact(f"printed over calibrated, {name}", printed / localized, 1_000, math.inf)
    if d <= 50 and epsilon >= 1:
        yield exact(f"records, {name}", localized, 1, 100_000)
