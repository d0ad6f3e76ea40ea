r"""Metrics with intervals from the noisy tables of `evaluation`: post-processing, of released numbers alone.

Formulas and what they assume: docs, Private evaluation. Tables have leading axes for simulated draws; the first step
always moves all cells equally so that they add up to the public number of units.

Within a bin the density is taken as flat in the log-odds c, and the probability ``rho = 1/(1 + e^-c)`` as right: then
positives sit ``s^2/12 (1 - rho)`` above the middle of a bin of width s, negatives ``s^2/12 rho`` below, and a positive
of a bin outranks a negative of the same bin with probability ``1/2 + s/12``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.queries.evaluation import RANGE, EvaluationResult

DRAWS, SEED = 1000, 0x6576616C
"""Simulated tables of an interval, and the public seed of their stream, apart from any run's noise."""
SURE = 4.0
"""A count is known where it exceeds so many deviations of its noise; what divides by others is not reported."""
NORMAL = 1.959963984540054

Metrics = dict[str, FloatArray]
Table = Callable[[FloatArray], Metrics]


@final
@dataclass(frozen=True)
class Estimate:
    """A number with a 95 % interval for its value in the population of the test records; NaN: not known."""

    value: float
    lower: float
    upper: float

    @property
    def known(self) -> bool:
        """Whether the noise leaves anything to say."""
        return math.isfinite(self.value)

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.lower:.4g}, {self.upper:.4g}]" if self.known else "not known"


@final
@dataclass(frozen=True)
class Found:
    """All estimates from one release."""

    whole: Mapping[str, Estimate]
    groups: tuple[Mapping[str, Estimate], ...]  #: One each, the last for labels that are not listed; empty without groups
    #: Each group's metrics less those of the first group, with intervals of the difference
    differences: tuple[Mapping[str, Estimate], ...]
    #: (bins, 5): mean prediction of a bin, share of positives, its interval, records; bins that are known
    calibration: FloatArray
    roc: FloatArray  #: (points, 2): false and true positive rates, ascending


def centers(bins: int) -> FloatArray:
    """Return the middles of the bins, in log-odds."""
    return RANGE * (2 * np.arange(bins) + 1 - bins) / bins


def thresholds(bins: int) -> FloatArray:
    """Return the public thresholds between bins, in log-odds; 0 is one of them."""
    return RANGE * (2 * np.arange(1, bins) - bins) / bins


def of_scores(result: EvaluationResult, link: Callable[[FloatArray], FloatArray] | None) -> Found:
    """Return the metrics of two classes; `link` turns middles of bins into log-odds, None: scores are no log-odds."""
    plan: Any = result.plan
    (shape,) = plan.shapes
    variance = 2 * plan.mechanism.scale**2
    tables, draws = _tables(result, shape)
    covariance = -variance / math.prod(shape)  # that centering gives two cells
    bins, groups = shape[1], shape[0]

    def of(pooled: int) -> Table:
        return lambda T: _score_metrics(T, link, pooled**2 * covariance)

    count = SURE * math.sqrt(bins * variance)
    found = _each_group(tables, draws, of, lambda T, pooled: _too_few(T, count * math.sqrt(pooled)), groups, count)
    whole, simulated = tables.sum(0), draws.sum(1)
    rates = whole.sum(1)
    order = np.flatnonzero(rates > SURE * plan.mechanism.scale * math.sqrt(groups))
    calibration, roc = np.empty((0, 5)), np.empty((0, 2))
    if link is not None and len(order):
        from sklearn.isotonic import isotonic_regression

        share = np.clip(whole[:, 1] / np.where(rates > 0, rates, 1), 0, 1)[order]
        fitted = isotonic_regression(share, sample_weight=rates[order], y_min=0, y_max=1)
        spread = _spread(simulated[:, order, 1] / np.maximum(simulated[:, order].sum(2), 1))
        middle = 1 / (1 + np.exp(-link(centers(bins))[order]))
        ends = (np.clip(fitted - spread, 0, 1), np.clip(fitted + spread, 0, 1))
        calibration = np.column_stack([middle, fitted, *ends, rates[order]])
    if found.whole["auc"].known:
        tail = np.maximum.accumulate(np.clip(np.cumsum(whole[::-1], axis=0) / whole.sum(0), 0, 1), axis=0)
        roc = np.vstack([[0.0, 0.0], tail[:-1], [1.0, 1.0]])
    return Found(found.whole, found.groups, found.differences, calibration, roc)


def _score_metrics(T: FloatArray, link: Callable[[FloatArray], FloatArray] | None, covariance: float) -> Metrics:
    """Return all metrics of tables (..., bins, 2), the positives last."""
    N, P = T[..., 0], T[..., 1]
    bins = T.shape[-2]
    n, negatives, positives = T.sum((-1, -2)), N.sum(-1), P.sum(-1)
    above = slice(bins // 2, bins)  # bins are (t, t']: a score of 0 lies below, as `predict` has it
    true_positive, true_negative = P[..., above].sum(-1), N[..., : bins // 2].sum(-1)
    step = 2 * RANGE / bins
    inside = 0.5 if link is None else 0.5 + step / 12
    below = np.cumsum(N, axis=-1) - N
    won = (P * (below + inside * N)).sum(-1) - covariance * bins * bins / 2  # bins of one label are never multiplied
    found = {
        "accuracy": (true_positive + true_negative) / n,
        "auc": won / (positives * negatives - covariance * bins * bins),
        "rate": positives / n,
        "recall": true_positive / positives,
        "specificity": true_negative / negatives,
        "precision": true_positive / (true_positive + N[..., above].sum(-1)),
    }
    if link is not None:
        c = link(centers(bins))
        rho = 1 / (1 + np.exp(-c))
        curve = step**2 / 24 * rho * (1 - rho)
        one = np.logaddexp(0, -c) + curve - step**2 / 12 * (1 - rho) ** 2
        zero = np.logaddexp(0, c) + curve - step**2 / 12 * rho**2
        found["log_loss"] = (P @ one + N @ zero) / n
        slope = step**2 / 12 * rho * (1 - rho)
        square_one = (1 - rho) ** 2 - slope * (1 - rho) * (3 - 5 * rho)  # f + f' E u + f'' s^2/24
        square_zero = rho**2 + slope * rho * (2 - 5 * rho)
        found["brier"] = (P @ square_one + N @ square_zero) / n
        share = np.clip(found["rate"], 1e-12, 1 - 1e-12)
        found["calibration_in_the_large"] = found["rate"] - (P + N) @ rho / n
        entropy = -share * np.log(share) - (1 - share) * np.log1p(-share)
        found["gain_over_constant"] = entropy - found["log_loss"]
    return found


RANGES = {name: (0.0, 1.0) for name in ("accuracy", "auc", "rate", "recall", "specificity", "precision", "brier")}
RANGES |= {"log_loss": (0.0, math.inf), "r2": (-math.inf, 1.0), "rmse": (0.0, math.inf), "mae": (0.0, math.inf)}
BY_CLASS = {"auc": 2, "recall": 1, "specificity": 0, "precision": 1}
"""Metrics that need a count of positives (1), of negatives (0), or of both (2)."""


def _too_few(T: FloatArray, least: float) -> frozenset[str]:
    """Return the metrics that say nothing in a table (bins, 2): those that divide by a count that noise may be all of."""
    counts = T.sum(0)
    poor = {2: bool((counts < least).any()), 1: bool(counts[1] < least), 0: bool(counts[0] < least)}
    return frozenset(name for name, needs in BY_CLASS.items() if poor[needs])


def of_classes(result: EvaluationResult) -> Found:
    """Return the metrics of more than two classes: from the confusion table, and top-label calibration."""
    plan: Any = result.plan
    confusion, bins = plan.shapes
    cells, scale = math.prod(confusion), plan.mechanism.scale
    tables, draws = _tables(result, confusion, slice(0, cells))
    classes, groups = confusion[1], confusion[0]
    least = SURE * math.sqrt(classes * 2 * scale**2)

    def table(T: FloatArray) -> Metrics:
        right, n = np.diagonal(T, axis1=-2, axis2=-1), T.sum((-1, -2))
        found = {"accuracy": right.sum(-1) / n}
        for k in range(classes):
            found |= {f"rate[{k}]": T[..., k, :].sum(-1) / n, f"recall[{k}]": right[..., k] / T[..., k, :].sum(-1)}
            found[f"precision[{k}]"] = right[..., k] / T[..., :, k].sum(-1)
        return found

    def unknown(T: FloatArray, pooled: int) -> frozenset[str]:
        limit = least * math.sqrt(pooled)
        poor = [f"recall[{k}]" for k in np.flatnonzero(T.sum(1) < limit)]
        return frozenset(poor + [f"precision[{k}]" for k in np.flatnonzero(T.sum(0) < limit)])

    found = _each_group(tables, draws, lambda pooled: table, unknown, groups, least * math.sqrt(classes))
    top, simulated = (values.sum(-3) for values in _tables(result, bins, slice(cells, None)))
    size = top.sum(1)
    order = np.flatnonzero(size > SURE * math.sqrt(4 * groups) * scale)
    share = np.clip(top[order, 1] / size[order], 0, 1)
    spread = _spread(simulated[:, order, 1] / np.maximum(simulated[:, order].sum(2), 1))
    middle = 1 / (1 + np.exp(-centers(bins[1])[order]))
    ends = (np.clip(share - spread, 0, 1), np.clip(share + spread, 0, 1))
    calibration = np.column_stack([middle, share, *ends, size[order]])
    return Found(found.whole, found.groups, found.differences, calibration, np.empty((0, 2)))


def of_numbers(result: EvaluationResult, lower: float, upper: float) -> Found:
    """Return the metrics of a regression whose target has the public range from `lower` to `upper`."""
    plan: Any = result.plan
    groups, width = plan.shapes[0]
    generator = np.random.default_rng(SEED)
    sums = result.cells.reshape(groups, width)
    noise = plan.draw(DRAWS, generator).reshape(DRAWS, groups, width)
    deviation = math.sqrt(float(plan.mechanism.norm.coordinate_variances[0])) * plan.mechanism.scale
    if groups == 1:
        sums, noise = np.column_stack([[plan.n], sums]), np.concatenate([np.zeros((DRAWS, 1, 1)), noise], axis=2)
    means = np.clip(sums[:, 1:] / np.maximum(sums[:, :1], 1), 0, 1)
    sampling = np.sqrt(np.maximum(sums[:, :1], 0) * means * (1 - means))  # at most, for numbers in [0, 1]
    draws = sums + noise
    draws[..., 1:] += sampling * generator.standard_normal(draws[..., 1:].shape)

    def table(S: FloatArray) -> Metrics:
        square, absolute, mean, second = (S[..., k] / S[..., 0] for k in range(1, 5))
        spread = np.maximum(second - mean**2, 1e-300)
        unit = upper - lower
        rmse = unit * np.sqrt(np.maximum(square, 0))
        return {"r2": 1 - square / spread, "rmse": rmse, "mae": unit * absolute, "mean_target": lower + unit * mean}

    spreads = draws.sum(1)[..., 4] / plan.n - (draws.sum(1)[..., 3] / plan.n) ** 2
    flat = frozenset(["r2"] if np.quantile(spreads, 0.025) <= 0 else [])

    def total(S: FloatArray) -> FloatArray:
        S[..., 0] = plan.n  # public
        return S

    everything = _estimates(table, total(sums.sum(0)), total(draws.sum(1)), flat)
    each, differences = _by_group(table, sums, draws, lambda S: flat, lambda S: bool(S[0] < 2 * SURE * deviation))
    return Found(everything, each, differences, np.empty((0, 5)), np.empty((0, 2)))


def _tables(
    result: EvaluationResult, shape: tuple[int, ...], part: slice = slice(None)
) -> tuple[FloatArray, FloatArray]:
    """Return a table whose cells add up to n, and draws of it (draws, ...): multinomial, with fresh noise."""
    plan, generator = result.plan, np.random.default_rng(SEED)
    cells = result.cells[part]

    def centered(values: FloatArray) -> FloatArray:  # the number of units is public
        return values + (plan.n - values.sum(-1, keepdims=True)) / len(cells)

    table = centered(cells)
    shares = np.maximum(table, 0)
    sampled = generator.multinomial(plan.n, shares / shares.sum(), size=DRAWS)
    noisy = centered(sampled + plan.draw(DRAWS, generator)[:, part])
    return table.reshape(shape), noisy.reshape(DRAWS, *shape)


def _each_group(
    tables: FloatArray,
    draws: FloatArray,
    of: Callable[[int], Table],
    unknown: Callable[[FloatArray, int], frozenset[str]],
    groups: int,
    least: float,
) -> Found:
    """Return the estimates of all groups together and of each; groups smaller than `least` root 2 are not known."""
    whole = _estimates(of(groups), tables.sum(0), draws.sum(1), unknown(tables.sum(0), groups))
    small = math.sqrt(2) * least
    each, differences = _by_group(of(1), tables, draws, lambda T: unknown(T, 1), lambda T: bool(T.sum() < small))
    return Found(whole, each, differences, np.empty((0, 5)), np.empty((0, 2)))


def _by_group(
    table: Table,
    tables: FloatArray,
    draws: FloatArray,
    unknown: Callable[[FloatArray], frozenset[str]],
    small: Callable[[FloatArray], bool],
) -> tuple[tuple[Mapping[str, Estimate], ...], tuple[Mapping[str, Estimate], ...]]:
    if len(tables) == 1:
        return (), ()
    found = [(table(T), table(draws[:, g]), set(table(T)) if small(T) else unknown(T)) for g, T in enumerate(tables)]
    first = found[0]
    differences = tuple(
        {
            name: _estimate(name, values[name] - first[0][name], drawn[name] - first[1][name], poor | first[2], True)
            for name in values
        }
        for values, drawn, poor in found
    )
    each = tuple({name: _estimate(name, values[name], drawn[name], poor) for name in values} for values, drawn, poor in found)
    return each, differences


def _estimates(table: Table, value: FloatArray, draws: FloatArray, poor: frozenset[str]) -> Mapping[str, Estimate]:
    values, drawn = table(value), table(draws)
    return {name: _estimate(name, values[name], drawn[name], poor) for name in values}


def _estimate(
    name: str, value: FloatArray, draws: FloatArray, poor: frozenset[str] | set[str], difference: bool = False
) -> Estimate:
    """Return the value plus and minus 1.96 robust deviations of the draws, cut to the range of the metric."""
    if name in poor or not math.isfinite(value):
        return Estimate(math.nan, math.nan, math.nan)
    low, high = (-math.inf, math.inf) if difference else RANGES.get(name.split("[")[0], (-math.inf, math.inf))
    center, reach = float(value), float(_spread(draws))
    return Estimate(*(min(max(x, low), high) for x in (center, center - reach, center + reach)))


def _spread(draws: FloatArray) -> Any:
    """Return 1.96 deviations of draws (draws, ...), by their quantiles: tails may be heavy."""
    ends = np.quantile(np.nan_to_num(draws), [0.16, 0.84], axis=0)
    return NORMAL * (ends[1] - ends[0]) / 2
