"""The adviser: which epsilon, or how many records, a goal needs; from public facts, as ranges and never one number.

What a plan expects to lose is a guess, so its inverse is one. The range comes from how far such guesses were off on
public tables that had no part in making them (`MEASURED`). Nothing here can see data: there is no argument for them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.base import clone

from dpconvex import _validate
from dpconvex._html import panel
from dpconvex._types import final_dataclass
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.queries import evaluation
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.linear.expected_risk import evenness

MEASURED = (0.07, 1.7, 14.6)
"""Quantiles .02, .5 and .98 of measured over expected excess on 83 tables (benchmarks/advice.py)."""
EPSILONS = tuple(10 ** (k / 6) for k in range(-12, 10))  # 0.01 to 31.6
ROWS = tuple(round(10 ** (k / 3)) for k in range(6, 28))  # 100 to 1e9
WIDTHS = (0.3, 1.0, 7.0)
"""Quantiles .05, .5 and .95 of measured over expected half-widths in 38 cells (benchmarks/intervals.py)."""
HELD_OUT = 0.2  #: Share of the records that evaluations are planned for.
#: By metric: deviation of its noise over that of a share of records (docs, Private evaluation), and of a record's part
SCORED = {"accuracy": (1.0, 0.5), "rate": (1.0, 0.5), "auc": (1.5, 0.5), "log_loss": (2.4, 1.0)}
Planner = Callable[[PrivateLinearModel], Sequence[LinearModelPlan]]


@final_dataclass
class Forecast:
    """What a fit is expected to lose over the best model: a typical amount, with the range seen on public tables."""

    at: float  #: the epsilon, or the number of records or users
    low: float
    typical: float
    high: float  #: pessimistic amount, at most about the loss of a constant answer
    constant: float  #: approximate loss of a constant answer; infinite where that has no meaning
    algorithm: str  #: algorithm of the chosen plan


@final_dataclass
class Advice:
    """A range of epsilons, or of numbers of records, with which a goal is expected to be reached: a guess."""

    wanted: str  #: "epsilon" or "rows"
    goal: float  #: the limit to reach: an excess in units of the loss, or in the unit of `measure`
    low: float  #: value at which the luckiest of 50 fits reaches the goal; infinite if not up to `most`
    typical: float  #: value at which half of the fits reach the goal
    high: float  #: value at which all but the unluckiest of 50 fits reach the goal
    most: float  #: the largest value that was tried
    curve: tuple[Forecast, ...]  #: the forecast at each value that was tried
    measure: str = "excess"  #: what the goal limits, a name in `MEASURES`

    @property
    def limits(self) -> str:
        """The quantity that the goal limits, in words."""
        return MEASURES[self.measure][0]

    def __str__(self) -> str:
        typical, low, high = (self._shown(value) for value in (self.typical, self.low, self.high))
        met = next((each.algorithm for each in self.curve if each.at >= self.typical), "")
        known = " (there a constant meets it, which uses no column)" * (met == "constant")
        goal = f"{self.limits} of at most {self.goal:.3g}"
        return f"{self.wanted} {typical} ({low} to {high}), for {goal}: a guess{known}"

    def _shown(self, value: float) -> str:
        if math.isinf(value):
            return f"above {self.most:,.3g}"
        less = " or less" if value == self.curve[0].at else ""
        return (f"{value:,.0f}" if self.wanted == "rows" else f"{value:.2g}") + less

    def _repr_html_(self) -> str:
        shown = {name: self._shown(getattr(self, name)) for name in ("typical", "low", "high")}
        share = min(1.0, self.typical / self.most)
        return panel(f"Needed {self.wanted}", {"goal": f"{self.limits} of at most {self.goal:.3g}", **shown}, share)


def forecast(plans: Sequence[LinearModelPlan], at: float, measure: str = "excess") -> Forecast:
    """Return the expectations of the first of some plans."""
    return Forecast(at, *MEASURES[measure][1](plans[0]), plans[0].algorithm)


Expected = tuple[float, float, float, float]
"""Low, typical and high value of a measure, and its value for a constant answer."""


def _excess(plan: LinearModelPlan) -> Expected:
    low, typical, high = (min(plan.predicted_error.rank * factor, plan.yardstick) for factor in MEASURED)
    return low, typical, high, plan.yardstick


def _share_of_excess(factor: float, plan: LinearModelPlan, ranks: bool = False) -> Expected:
    # What columns tell of rare classes is a smaller part of the log-loss, but not of how well scores rank.
    factor /= evenness(plan.problem.loss.told) if ranks else 1.0
    if plan.problem.loss.task != "classification" or plan.problem.loss.n_outputs > 1:
        raise InvalidParameterError("goal", "auc or accuracy", "is for classifiers of two classes", "Give an excess")
    low, typical, high, constant = (min(0.5, factor * each) for each in _excess(plan))
    return low, typical, high, constant


def _half_width(plan: LinearModelPlan) -> Expected:
    if plan.expected_intervals is None:
        raise InvalidParameterError("goal", "halfwidth", "needs a model with intervals", "Set inference=True")
    half, finite, _ = plan.expected_intervals
    low, typical, high = (half * factor if finite else math.inf for factor in WIDTHS)
    return low, typical, high, math.inf


def _evaluation(metric: str, plan: LinearModelPlan) -> Expected:
    n, (noise, sampling) = max(1, round(HELD_OUT * plan.problem.n)), SCORED[metric]
    test: Any = evaluation.plan(n, PrivacyParams(plan.privacy.epsilon, unit=plan.privacy.unit))
    told = plan.problem.loss.told or (0.5, 0.5)
    n = n * 2 * min(told) if metric == "auc" and len(told) == 2 else n  # as many pairs as with equal rates
    own = noise * math.sqrt(4 * test.bins) / (n * plan.privacy.epsilon)
    most = math.inf if metric == "log_loss" else 0.5  # the others lie in [0, 1]
    spread = (1.96 * math.hypot(own, share * sampling / math.sqrt(n)) for share in (0.0, 0.7, 1.0))
    low, typical, high = (min(most, each) for each in spread)
    return low, typical, high, math.inf


MEASURES: dict[str, tuple[str, Callable[[Any], Expected]]] = {
    "excess": ("an excess loss", _excess),
    "auc": ("a loss of AUC", partial(_share_of_excess, 0.7, ranks=True)),
    "accuracy": ("a loss of accuracy", partial(_share_of_excess, 0.65)),
    "halfwidth": ("a half-width of intervals over columns' ranges (of numbers: over the target's)", _half_width),
    **{f"evaluate:{name}": (f"a half-width of an evaluation's {name}", partial(_evaluation, name)) for name in SCORED},
}  #: Measures that a goal may limit: description and forecast. AUC and accuracy follow the excess log-loss (docs).


def required_epsilon(
    estimator: PrivateLinearModel, n: int, n_features: int | None = None, *, goal: float | str, unit: str | None = None
) -> Advice:
    """Return the range of epsilons with which a model is expected to reach a goal. Sees no data.

    Parameters
    ----------
    estimator : estimator
        A linear or additive model with its options. Its delta counts, its epsilon does not.
    n, n_features, unit
        As for ``estimator.plan``.
    goal : float or str
        Largest excess loss over the best model without privacy: in units of the loss (log-loss; for regressors half the
        squared error on a target scaled to width 1), or as a share of what a constant answer loses, ``"10%"``. Or
        another limit: ``"auc=-0.005"`` or ``"accuracy=-0.01"`` (two classes: at most so much less), ``"halfwidth=0.2"``
        of a 95 % interval over a column's range (``inference=True``), or ``"evaluate:auc=0.02"`` (``accuracy``,
        ``rate``, ``log_loss``), the half-width in a private evaluation of a fifth of the records.

    Returns
    -------
    Advice
        Its ``low``, ``typical`` and ``high`` epsilon; infinite if no epsilon up to 31.6 is enough.

    Raises
    ------
    InvalidParameterError
        If the goal or a parameter is out of range.

    Examples
    --------
    >>> from dpconvex import PrivateLogisticRegression, adult_schema, required_epsilon
    >>> model = PrivateLogisticRegression(schema=adult_schema())
    >>> advice = required_epsilon(model, 45_222, goal=0.02)
    >>> advice.low < advice.typical < advice.high
    True
    """
    return advise(estimator, goal, lambda one: one.plan(n, n_features, unit=unit))


def required_rows(
    estimator: PrivateLinearModel, n_features: int | None = None, *, goal: float | str, unit: str | None = None
) -> Advice:
    """Return the range of numbers of records, or users, with which a model is expected to reach a goal. Sees no data.

    Parameters are those of `required_epsilon`, but the estimator's epsilon counts, too. The advice holds a ``low``, a
    ``typical`` and a ``high`` number; infinite if no number up to 1e9 is enough.
    """
    return advise_rows(goal, lambda n: estimator.plan(n, n_features, unit=unit))


def advise(estimator: PrivateLinearModel, goal: float | str, plans: Planner) -> Advice:
    """Return the advice on epsilon, for any way to make plans of an estimator with another epsilon."""
    measure = measure_of(goal)
    return _inverted("epsilon", goal, forecasts(estimator, plans, EPSILONS, measure), measure)


def advise_rows(goal: float | str, plans: Callable[[int], Sequence[LinearModelPlan]]) -> Advice:
    """Return the advice on rows, for any way to make plans for a number of them."""
    measure = measure_of(goal)
    return _inverted("rows", goal, [forecast(plans(n), n, measure) for n in ROWS], measure)


def forecasts(
    estimator: PrivateLinearModel, plans: Planner, epsilons: Sequence[float], measure: str = "excess"
) -> list[Forecast]:
    """Return the forecasts for a model at some epsilons."""
    found = []
    for epsilon in epsilons:
        one: Any = clone(estimator)
        found.append(forecast(plans(one.set_params(epsilon=epsilon)), epsilon, measure))
    return found


def measure_of(goal: float | str) -> str:
    """Return the measure that a goal limits; raise `InvalidParameterError` for anything that is not a goal."""
    named = goal.partition("=")[0] if isinstance(goal, str) and "=" in goal else "excess"
    _checked(goal, _validate.choice("goal", named, tuple(MEASURES), "As in 'auc=-0.005'"), 1.0)
    return named


def _checked(goal: float | str, measure: str, constant: float) -> float:
    """Return the goal in the unit of its measure."""
    if isinstance(goal, str):
        text = goal.rpartition("=")[2]
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            what = "must be an excess loss, as 0.01, or a share of what a constant answer loses, as 10%"
            raise InvalidParameterError("goal", goal, what, "Or as auc=-0.005, halfwidth=0.2") from None
        goal = abs(share) if measure in ("auc", "accuracy") else share  # a loss may be written as a change
        goal *= constant if text.endswith("%") else 1
    return _validate.real("goal", goal, above=0.0)


def _inverted(wanted: str, goal: float | str, curve: list[Forecast], measure: str) -> Advice:
    most = max(each.constant for each in curve)
    wished, judged = _checked(goal, measure, most), curve
    if isinstance(goal, str) and goal.endswith("%"):  # of what a constant is expected to lose at the same point
        names = ("low", "typical", "high", "constant")
        judged = [replace(one, **{name: getattr(one, name) * most / one.constant for name in names}) for one in curve]
    low, typical, high = (_first(judged, wished, name) for name in ("low", "typical", "high"))
    if judged is not curve:
        wished *= next((each.constant for each in curve if each.at >= typical), most) / most  # there, as a number
    return Advice(wanted, wished, low, typical, high, curve[-1].at, tuple(curve), measure)


def _first(curve: list[Forecast], goal: float, name: str) -> float:
    """Return the least value from which on the goal is met, between two values along a power law."""
    met = [getattr(each, name) <= goal for each in curve]
    if not met[-1]:
        return math.inf
    first = len(met) - met[::-1].index(False) if False in met else 0
    if first == 0:
        return curve[0].at
    before, after = curve[first - 1], curve[first]
    high, low = max(getattr(before, name), goal), max(getattr(after, name), 1e-300)
    share = math.log(high / goal) / math.log(high / low) if low < high < math.inf else 1.0
    return before.at * (after.at / before.at) ** share
