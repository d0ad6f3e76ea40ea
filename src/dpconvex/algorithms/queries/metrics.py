r"""Metrics with intervals from the noisy tables of `evaluation`: post-processing of released numbers alone.

Formulas and their assumptions stand in the docs, Private evaluation. Tables have leading axes for simulated draws; the
first step always moves all cells equally so that they add up to the public number of units.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms.queries.evaluation import NUMBERS, RANGE, EvaluationResult

DRAWS, SEED = 1000, 0x6576616C
"""Number of simulated tables for an interval, and the public seed of their stream, distinct from any run's noise."""
SURE = 4.0  # Metrics that divide by a count are reported only if it exceeds this many deviations of its noise.
NORMAL = 1.959963984540054
Metrics = dict[str, Floats]
Estimates = Mapping[str, "Estimate"]
Table = Callable[[Floats, int], Metrics]


@final_dataclass
class Estimate:
    """A metric with a 95 % interval for its value in the population of the test records; NaN where it is unknown."""

    value: float
    lower: float
    upper: float

    @property
    def known(self) -> bool:
        """Whether the noise is small enough for an estimate."""
        return math.isfinite(self.value)

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.lower:.4g}, {self.upper:.4g}]" if self.known else "not known"


class Found(NamedTuple):
    """All estimates from one release. The last group has the unlisted labels; one group is not listed by itself."""

    whole: Estimates
    groups: tuple[Estimates, ...]
    differences: tuple[Estimates, ...]  #: Estimates of each group less those of the first group
    calibration: Floats  #: The `calibration` of `PrivateMetrics`
    roc: Floats


class Grid(NamedTuple):
    """Public bins of scores, all of one width `step`, in log-odds."""

    cuts: Floats  #: the thresholds between bins; 0 is one of them
    middles: Floats  #: midpoints of the bins
    step: float
    zero: int  #: the first bin above 0
    won: float  #: share of pairs in one bin whose positive has the higher score, for predictions that are right


def grid(bins: int, center: float = 0.0, flat: bool = False) -> Grid:
    """Return bins that reach about `RANGE` beyond a public center, and to both sides of 0; `flat`: all scores agree."""
    reach = RANGE + abs(center)
    step = max(2 * RANGE / bins, reach / (bins - 1))
    edges: Floats = step * (np.arange(bins + 1.0) - min(round(reach / step), bins - 1))
    edges = -edges[::-1] if center > 0 else edges
    won = 0.5 if flat else 0.5 + step / 12
    return Grid(edges[1:-1], (edges[1:] + edges[:-1]) / 2, step, int(np.argmin(np.abs(edges))), won)


def of_scores(
    result: EvaluationResult, link: Callable[[Floats], Floats] | None, center: float = 0.0, flat: bool = False
) -> Found:
    """Return the metrics of two classes; `link` maps bins' midpoints to log-odds, None if scores have no log-odds."""
    plan: Any = result.plan
    (shape,) = plan.shapes
    groups, bins, _ = shape
    within = grid(bins, center, flat)
    variance = 2 * plan.mechanism.scale**2
    tables, draws = _tables(result, shape)
    covariance = -variance / math.prod(shape)  # the covariance that centering gives to two cells
    count = SURE * math.sqrt(bins * variance)

    def table(T: Floats, pooled: int) -> Metrics:
        return _score_metrics(T, link, pooled**2 * covariance, within)

    def unknown(T: Floats, pooled: int) -> set[str]:
        poor = np.append(T.sum(0), T[within.zero :].sum()) < count * math.sqrt(pooled)
        return {name for name, which in DIVISORS.items() if poor[which].any()}

    found = _found(table, unknown, lambda T: T.sum() < math.sqrt(2) * count, tables, draws)
    whole, roc = tables.sum(0), np.empty((0, 2))
    least, middles = SURE * math.sqrt(groups) * plan.mechanism.scale, None if link is None else link(within.middles)
    calibration = _calibration(whole, draws.sum(1), least, middles)
    if found.whole["auc"].known:
        tail = np.maximum.accumulate(np.clip(np.cumsum(whole[::-1], axis=0) / whole.sum(0), 0, 1), axis=0)
        roc = np.vstack([[0.0, 0.0], tail[:-1], [1.0, 1.0]])
    return found._replace(calibration=calibration, roc=roc)


def _score_metrics(T: Floats, link: Callable[[Floats], Floats] | None, covariance: float, within: Grid) -> Metrics:
    """Return all metrics of tables (..., bins, 2), whose last axis holds negatives, then positives."""
    N, P = T[..., 0], T[..., 1]
    bins = T.shape[-2]
    n, negatives, positives = T.sum((-1, -2)), N.sum(-1), P.sum(-1)
    above = slice(within.zero, bins)  # bins are (t, t']: a score of 0 lies below, as `predict` has it
    true_positive, true_negative = P[..., above].sum(-1), N[..., : within.zero].sum(-1)
    step = within.step
    inside = 0.5 if link is None else within.won
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
        c = link(within.middles)
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
        found["gain_over_constant"] = entropy - np.maximum(found["log_loss"], 0.0)
    return found


SHARES = ("accuracy", "auc", "rate", "recall", "specificity", "precision", "brier")
RANGES: dict[str, tuple[float, float]] = {name: (0.0, 1.0) for name in SHARES}  # noqa: C420
RANGES |= {"coverage": (0.0, 1.0), "r2": (-math.inf, 1.0)}
RANGES |= {name: (0.0, math.inf) for name in ("log_loss", "rmse", "mae", "pinball")}  # noqa: C420
POWERS = {"rmse": 2.0}  #: Intervals of these metrics are symmetric for a power of them, here the mean square.
DIVISORS = {"auc": [0, 1], "gain_over_constant": [0, 1], "recall": [1], "specificity": [0], "precision": [1, 2]}
"""For each metric the counts that it needs, of negatives (0), positives (1) and records that are called positive (2);
where one may be noise alone, the metric is not reported."""


def of_classes(result: EvaluationResult) -> Found:
    """Return the metrics of more than two classes: from the confusion table, and top-label calibration."""
    plan: Any = result.plan
    confusion, bins = plan.shapes
    cells, scale = math.prod(confusion), plan.mechanism.scale
    tables, draws = _tables(result, confusion, slice(0, cells))
    classes, groups = confusion[1], confusion[0]
    least = SURE * math.sqrt(classes * 2 * scale**2)

    def table(T: Floats, pooled: int) -> Metrics:
        right, n = np.diagonal(T, axis1=-2, axis2=-1), T.sum((-1, -2))
        found = {"accuracy": right.sum(-1) / n}
        for k in range(classes):
            found |= {f"rate[{k}]": T[..., k, :].sum(-1) / n, f"recall[{k}]": right[..., k] / T[..., k, :].sum(-1)}
            found[f"precision[{k}]"] = right[..., k] / T[..., :, k].sum(-1)
        return found

    def unknown(T: Floats, pooled: int) -> set[str]:
        divisors = (("recall", T.sum(1)), ("precision", T.sum(0)))
        limit = least * math.sqrt(pooled)
        return {f"{name}[{k}]" for name, counts in divisors for k in np.flatnonzero(counts < limit)}

    found = _found(table, unknown, lambda T: T.sum() < math.sqrt(2 * classes) * least, tables, draws)
    top, simulated = (values.sum(-3) for values in _tables(result, bins, slice(cells, None)))
    calibration = _calibration(top, simulated, SURE * math.sqrt(groups) * scale, grid(bins[1]).middles)
    return found._replace(calibration=calibration)


def _calibration(table: Floats, draws: Floats, least: float, middles: Floats | None) -> Floats:
    """Return `Found.calibration` from a table (bins, 2) and its draws, for bins of more than `least` units."""
    size = table.sum(1)
    order = np.flatnonzero(size > least)
    if middles is None or not len(order):
        return np.empty((0, 5))
    from sklearn.isotonic import isotonic_regression

    share = np.clip(table[order, 1] / size[order], 0, 1)
    share = isotonic_regression(share, sample_weight=size[order], y_min=0, y_max=1)
    spread = _spread(draws[:, order, 1] / np.maximum(draws[:, order].sum(2), 1))
    ends = (np.clip(share - spread, 0, 1), np.clip(share + spread, 0, 1))
    return np.column_stack([1 / (1 + np.exp(-middles[order])), share, *ends, size[order]])


def of_numbers(result: EvaluationResult, lower: float, upper: float, quantile: bool = False) -> Found:
    """Return the metrics of a regression whose target has the public range from `lower` to `upper`."""
    plan: Any = result.plan
    groups, width = plan.shapes[0]
    generator = np.random.default_rng(SEED)
    sums = result.cells.reshape(groups, width)
    counts = sums[:, :1] if groups > 1 else np.array([[plan.n]])
    means = np.clip(sums[:, -NUMBERS:] / np.maximum(counts, 1), 0, 1)
    sampling = np.sqrt(np.maximum(counts, 0) * means * (1 - means))  # largest deviation of sums of numbers in [0, 1]
    draws = sums + plan.mechanism.simulate(DRAWS, generator).reshape(DRAWS, groups, width)
    draws[..., -NUMBERS:] += sampling * generator.standard_normal((DRAWS, groups, NUMBERS))

    def table(S: Floats, pooled: int) -> Metrics:
        n = plan.n if pooled == groups else S[..., 0]  # the number of all units is public
        loss, absolute, mean, last = (S[..., k] / n for k in range(-NUMBERS, 0))
        unit = upper - lower
        found = {"mae": unit * absolute, "mean_target": lower + unit * mean}
        if quantile:
            return {"pinball": unit * loss, "coverage": last, **found}
        spread, square = np.maximum(last - mean**2, 1e-300), np.maximum(loss, np.maximum(absolute, 0) ** 2)  # Jensen
        return {"r2": 1 - loss / spread, "rmse": unit * np.sqrt(square), **found}

    mean, second = (draws.sum(1)[..., k] / plan.n for k in (-2, -1))
    flat = {"r2"} if not quantile and np.quantile(second - mean**2, 0.025) <= 0 else set[str]()
    least = 2 * SURE * plan.deviation * plan.n
    return _found(table, lambda S, pooled: flat, lambda S: S[0] < least, sums, draws)


def _tables(result: EvaluationResult, shape: tuple[int, ...], part: slice = slice(None)) -> tuple[Floats, Floats]:
    """Return a table whose cells add up to n, and multinomial draws of it with fresh noise, (draws, ...)."""
    plan: Any = result.plan
    generator, cells = np.random.default_rng(SEED), result.cells[part]

    def centered(values: Floats) -> Floats:  # the number of units is public
        return values + (plan.n - values.sum(-1, keepdims=True)) / len(cells)

    table = centered(cells)
    shares = np.maximum(table, 0)
    sampled = generator.multinomial(plan.n, shares / shares.sum(), size=DRAWS)
    noisy = centered(sampled + plan.mechanism.simulate(DRAWS, generator)[:, part])
    return table.reshape(shape), noisy.reshape(DRAWS, *shape)


def _found(
    table: Table, unknown: Callable[[Floats, int], set[str]], small: Callable[[Floats], Any],
    tables: Floats, draws: Floats,
) -> Found:  # fmt: skip
    """Return the estimates for all groups together and for each of several; functions take how many are added up."""
    groups, found = len(tables), list[tuple[Metrics, Metrics, set[str]]]()
    for T, drawn in ((T, draws[:, g]) for g, T in enumerate(tables) if groups > 1):
        values = table(T, 1)
        found.append((values, table(drawn, 1), set(values) if small(T) else unknown(T, 1)))
    whole = tables.sum(0)
    everything = _estimates(table(whole, groups), table(draws.sum(1), groups), unknown(whole, groups), RANGES)
    differences = []
    for values, drawn, poor in found:
        pairs = zip((values, drawn), found[0][:2], strict=True)
        less = [{name: part[name] - base[name] for name in part} for part, base in pairs]
        differences.append(_estimates(less[0], less[1], poor | found[0][2], {}))
    each = tuple(_estimates(*parts, RANGES) for parts in found)
    return Found(everything, each, tuple(differences), np.empty((0, 5)), np.empty((0, 2)))


def _estimates(
    values: Metrics, draws: Metrics, poor: set[str], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, Estimate]:
    """Return values with intervals of 1.96 robust deviations of the draws, cut to the range of the metric."""
    found = {}
    for name, value in values.items():
        ends = np.full(3, math.nan)
        if name not in poor and math.isfinite(value):
            low, high = ranges.get(name.split("[")[0], (-math.inf, math.inf))
            power = POWERS.get(name, 1.0) if ranges else 1.0  # differences may be negative
            spread = _spread(draws[name] ** power) * np.array([0, -1, 1])
            ends = np.clip(value**power + spread, low, high) ** (1 / power)
        found[name] = Estimate(*ends.tolist())
    return found


def _spread(draws: Floats) -> Any:
    """Return 1.96 deviations of draws (draws, ...), estimated by quantiles because tails may be heavy."""
    ends = np.quantile(np.nan_to_num(draws), [0.16, 0.84], axis=0)
    return NORMAL * (ends[1] - ends[0]) / 2
