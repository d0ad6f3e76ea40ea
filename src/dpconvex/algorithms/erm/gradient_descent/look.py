r"""What a look at users' gradients says about the rest of a run: arithmetic on public facts and released values alone.

A look is the first releases of a run: noisy centers and widths of numeric columns, a noisy share of positive labels,
noisy shares of users by the length of their gradients, and a noisy mean gradient, used by its blocks' squared lengths
and its slope along the way. The way is the vector from the first to the last point of the steps; slopes at its end,
along it and of the constant, are released last. The course is what the run does after the look (docs, Look first, then
plan). All grids are public and bounded, so every release, however extreme, leads to constants that a run can use.
"""

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms.erm.gradient_descent import typical_steps
from dpconvex.geometry import gaussian_block_weights
from dpconvex.losses import LogisticLoss
from dpconvex.problems import Block, DataDomain, LinearModelProblem
from dpconvex.problems.linear.expected_risk import ORDINARY, SHARED, squared_reach, typical_curvature


@final_dataclass
class Tuning:
    """Constants chosen on the five tables of `benchmarks/user_tables.py` (docs); for others they are guesses."""

    shares: tuple[float, float, float] = (0.05, 0.03, 0.12)  #: shares of mu^2 for labels, lengths and gradient
    column_share: tuple[float, float] = (0.03, 0.06)  #: limits of the share of mu^2 for centers, and again for widths
    columns_need: float = 4.0  #: within these limits the share is this number over n mu
    slope_share: float = 0.05  #: share of mu^2 for the slope at the end of the way
    constant_share: float = 0.02  #: share of mu^2 for the change of the constant's slope
    change: float = 0.3  #: cut-off of that change, over the largest slope: predictions seldom move further
    drift: float = 0.2  #: mean and deviation of a run's drift to the more frequent class, over 1 - 2 shares
    few: float = 3.0  #: records of a user beyond which less drift is expected
    loud: float = 0.25  #: columns are not looked at if a width would deviate by this much or more, in half ranges
    center_variance: float = 0.15  #: prior variance of a column's center about mid-range, in squared half ranges
    usual_width: float = 0.45  #: expected width of a column: mean distance from its center, in half ranges
    narrowest: float = 0.03  #: smallest width that is tried, in half ranges
    #: Plans are ranked by expected error times this, over the root of records a user: only a look sees how alike.
    caution: float = 0.75
    #: Least such factor up to this number of users, beyond which it falls as 1/n (`benchmarks/user_forecast.py --few`).
    few_users: tuple[float, float] = (0.4, 400.0)
    heavier: float = 1.25  #: root mean square of the distances from a column's center, over their mean
    prior_variance: float = 1 / 16  #: prior variance of the share of positive labels, around 1/2
    least_share: float = 0.03  #: smallest share of either class that a start may assume
    first_edge: float = 0.02  #: first edge of the lengths' bins, in units of the longest gradient
    last_edge: float = 0.64  #: last edge of these bins
    bins: int = 12  #: number of these bins
    longest: float = 0.6  #: largest typical length of gradients that is tried, in units of the longest gradient
    lengths: int = 40  #: number of typical lengths, or of widths, that are tried
    spread: float = 0.6  #: deviation of the logarithms of users' lengths, modeled as normal
    miscount: float = 0.03  #: deviation of a bin's share from that model
    alike: float = 0.15  #: part of a record's squared gradient that a user's mean keeps, however many records
    usual: float = 0.5  #: expected length of a record's gradient, in units of a typical record's length
    prior_spread: float = 0.7  #: prior deviation of the logarithm of a typical length, and of a width
    constant: float = 0.5  #: size of the constant in a run, over the problem's: it takes part of every level
    label: float = 0.7  #: least length by which a gradient counts, over a record's longest, for users of one record
    label_power: float = 1.5  #: for users of m records, the least length is divided by this power of m
    cut: float = 0.7  #: length to which the look's gradient is cut, in typical lengths
    #: Levels of the run in typical lengths, each with the excess by cutting, as a share of a constant's excess.
    levels: tuple[tuple[float, float], ...] = ((0.7, 0.002), (1.0, 0.001), (1.4, 0.0004), (2.0, 0.0001), (3.0, 0.0))
    signals: tuple[float, ...] = (1, 0.6, 0.35, 0.2, 0.1, 0.06, 0.035, 0.02, 0.01, 0.005, 0.002)
    risked: float = 0.005  #: excess that noise may cost even if the look shows no signal, for two classes
    seen: tuple[float, float, int] = (1e-3, 30.0, 45)  #: ends and size of the grid of signals that a look may show
    usual_signal: float = 0.35  #: prior median of the signal, whose logarithm has deviation log `prior_ratio`
    prior_ratio: float = 5.0
    slope_cut: float = 0.5  #: level of slopes along the way, in typical gradients times the way's length
    ways: tuple[float, int] = (3.0, 301)  #: end and size of the grid, from 0 on, of shares of the way to keep
    usual_way: float = 0.7  #: prior median of that share, whose logarithm has deviation `way_spread`
    least_way: float = 0.05  #: added before logarithms are taken, so that 0 is about as likely as 0.05
    way_spread: float = 0.5
    bend_spread: float = 3.0  #: prior deviation of the loss's second derivative along the way, over the modeled one
    least_bend: float = 0.05  #: least second derivative along the way, over the modeled one


TUNING = Tuning()
FARTHEST = 1e6  #: Released values are clipped to this size, so that their squares and sums stay finite.


def kept(level: float) -> float:
    """Return the mean share of a gradient left after a cut to k = `level`: ``E min(1, k exp(-Z/2))``, Z normal."""
    cut = 2 * math.log(level)
    return float(ndtr(cut) + level * math.exp(1 / 8) * ndtr(-cut - 0.5))


KEPT = kept(TUNING.cut)


@final_dataclass
class Course:
    """The constants of a run after its look; they are public once the look is released."""

    length: float  #: Typical length h of a user's gradient, over the longest possible length
    start: float  #: Coefficient of the constant at the start
    signal: float  #: The minimizer's squared coefficients, over the typical ones
    level: float  #: Clipping level k, over the typical length of a gradient
    choice: typical_steps.Choice  #: The steps, before they are lengthened to make up for cutting


@final_dataclass
class Look:
    """The public facts that a look is planned from and read with."""

    problem: LinearModelProblem
    mu: float  #: Budget of all steps together
    l2: float
    deviations: tuple[float, float, float]  #: Noise deviations of labels, lengths, and gradient (over its level)
    column_deviations: tuple[float, float] = (0.0, 0.0)  #: Noise deviations of the columns' centers and widths
    center: tuple[float, ...] = ()  #: Released centers of the numeric columns, in the order of `columns`; () before
    share: float | None = None  #: Share of positive labels, once it is known: curvatures are those of such rates

    @cached_property
    def task(self) -> LinearModelProblem:
        """The problem whose typical data plans assume: rare classes have little curvature, and noise goes far."""
        loss = self.problem.loss
        if self.share is None or not isinstance(loss, LogisticLoss):
            return self.problem
        return replace(self.problem, loss=replace(loss, rate=self.share).as_told)

    def told(self, share: float) -> "Look":
        """Return the look that knows the noisy share of positive labels."""
        return replace(self, share=self._share(share)[0])

    @cached_property
    def columns(self) -> dict[int, float]:
        """Half range by position of the numeric columns; binary ones are left out, as a look tells nothing of them."""
        found, place = {}, 0
        for block in self.problem.domain.blocks:
            if block.norm == "linf" and block.values != "binary":
                found |= dict.fromkeys(range(place, place + block.size), float(block.bound))
            place += block.size
        return found

    def centers(self, noisy: Floats) -> Floats:
        """Return the posterior means of centers, in half ranges, clipped to [-1, 1]."""
        trust = TUNING.center_variance / (TUNING.center_variance + self.column_deviations[0] ** 2)
        return np.clip(noisy * trust, -1.0, 1.0)

    def narrowed(self, noisy_center: Floats, noisy_width: Floats) -> "Look":
        """Return the look for moved and narrower columns, from noisy centers and mean distances in half ranges.

        Records are not clipped into the narrower columns: these only describe typical data, and gradients are cut.
        """
        tried = np.geomspace(TUNING.narrowest, 1.0, TUNING.lengths)
        off = np.square((np.clip(noisy_width, -FARTHEST, FARTHEST)[:, None] - tried) / self.column_deviations[1])
        prior = np.square(np.log(tried / TUNING.usual_width) / TUNING.prior_spread)
        widths = iter([TUNING.heavier * _log_mean(tried, -(each + prior) / 2) for each in off])
        blocks: list[Block] = []
        for block in self.problem.domain.blocks:
            if block.norm != "linf" or block.values == "binary":
                blocks.append(block)
                continue
            for _ in range(block.size):
                width = min(1.0, next(widths) / math.sqrt(ORDINARY.numeric_variance))
                blocks.append(replace(block, size=1, bound=width * block.bound, values="centered"))
        problem = _in_other_units(self.problem, replace(self.problem.domain, blocks=tuple(blocks)))
        center = self.centers(noisy_center) * np.array(list(self.columns.values()))
        return replace(self, problem=problem, center=tuple(center.tolist()))

    @property
    def unit(self) -> float:
        """The constant feature's size in a run, over its size in records."""
        return TUNING.constant if self.problem.domain.intercept else 1.0

    def moved(self, gradients: Floats) -> Floats:
        """Return gradients (m, dim) with respect to coefficients of the moved columns and the smaller constant."""
        out = gradients.copy()
        out[:, -1] *= self.unit
        if self.center:
            constant = out[:, -1] / self.problem.domain.intercept
            out[:, list(self.columns)] -= np.multiply.outer(constant, self.center)
        return out

    def moved_parts(self, point: Floats) -> Floats:
        """Return what moving back each column subtracts from the constant's coefficient."""
        if not self.center:
            return np.zeros(0)
        return point[list(self.columns)] * np.array(self.center) / self.problem.domain.intercept

    def moved_back(self, point: Floats) -> Floats:
        """Return coefficients (dim,) for the original columns and constant; `moved` is the transpose of this map."""
        return np.append(point[:-1], (point[-1] - self.moved_parts(point).sum()) * self.unit)

    @cached_property
    def scales(self) -> Floats:
        """D (dim,), by which gradients are divided before they are measured and cut."""
        return gaussian_block_weights(self.problem.domain)[0]

    @cached_property
    def longest(self) -> float:
        """Largest length that a record's gradient, divided by D, can have."""
        return typical_steps.slope_unit(self.problem.loss) * gaussian_block_weights(self.problem.domain)[1]

    @cached_property
    def edges(self) -> Floats:
        """Inner edges of the bins of lengths, (bins - 1,)."""
        return self.longest * np.geomspace(TUNING.first_edge, TUNING.last_edge, TUNING.bins - 1)

    @cached_property
    def usual_length(self) -> float:
        """Expected length of a typical gradient, in units of the longest."""
        alone = 1 / (self.problem.records_per_user or 1)
        typical = typical_steps.typical_length(self.problem.domain, 1 / self.scales**2)
        usual = TUNING.usual * math.sqrt(TUNING.alike + (1 - TUNING.alike) * alone)
        return typical * max(usual, TUNING.label * alone**TUNING.label_power)

    def unread(self) -> Course:
        """Return the course for typical data, which is expected before the look."""
        return self._course(self.usual_length, 0.0, 1.0)

    def start(self, share: float) -> tuple[float, float]:
        """Return the constant's first coefficient, and the posterior deviation of the share, given its noisy value."""
        if not self.problem.domain.intercept:
            return 0.0, 0.0
        p, unknown = self._share(share)
        return self._constant(p) * self.unit / self.problem.domain.intercept, unknown

    def _constant(self, share: float) -> float:
        """Return the best constant prediction for a share of positive labels."""
        loss, targets = self.problem.loss, np.array([1.0, -1.0])

        def slope(z: float) -> float:
            return float(np.array([share, 1 - share]) @ loss.derivative(np.full(2, z), targets))

        z: Any = brentq(slope, -50.0, 50.0) if slope(-50.0) < 0 < slope(50.0) else 0.0
        return float(z)

    def _share(self, noisy: float) -> tuple[float, float]:
        """Return the posterior mean and deviation of the share of positive labels, from its noisy value."""
        trust = TUNING.prior_variance / (TUNING.prior_variance + self.deviations[0] ** 2)
        p = float(np.clip(0.5 + (noisy - 0.5) * trust, TUNING.least_share, 1 - TUNING.least_share))
        return p, self.deviations[0] * math.sqrt(trust)

    def constant_moved(self, share: float, slope: float, deviation: float) -> float:
        """Return by how much to move predictions at the end, from the noisy share of labels and the constant's slope.

        A run drifts to predicting the more frequent class too often, as its gradients are shorter; it drifts less if
        users have both classes. `slope` is the change since the start, where the share says it is 0, over the largest.
        """
        p, unknown = self._share(float(np.clip(share, -FARTHEST, FARTHEST)))
        usual, spread = self._drift(1 - 2 * p, unknown)
        trust = spread**2 / (spread**2 + deviation**2 + unknown**2)
        off = usual + trust * (float(np.clip(slope, -1.0, 1.0)) - usual)
        least = TUNING.least_share
        return self._constant(p) - self._constant(float(np.clip(p + off, least, 1 - least)))

    def constant_left(self, deviation: float) -> float:
        """Return the excess expected after the constant has moved, from what stays unknown of the mean prediction."""
        loss, (_, unknown) = self.problem.loss, self._share(0.5)
        _, spread = self._drift(2 * math.sqrt(TUNING.prior_variance), unknown)
        variance = 1 / (spread**-2 + 1 / (deviation**2 + unknown**2))
        return variance * loss.slope_bound**2 / (2 * typical_curvature(loss))

    def _drift(self, uneven: float, unknown: float) -> tuple[float, float]:
        """Return the mean and deviation of a run's drift to the more frequent class; `uneven` is 1 - 2 shares."""
        alone = min(1.0, TUNING.few / (self.problem.records_per_user or 1)) ** 0.5
        return -TUNING.drift * alone * uneven, TUNING.drift * alone**0.5 * math.hypot(uneven, 2 * unknown)

    def typical_length(self, shares: Floats) -> float:
        """Return the posterior typical length h, within its grid, from noisy shares of users by bin."""
        tried = np.geomspace(TUNING.first_edge, TUNING.longest, TUNING.lengths)
        below = ndtr(np.log(self.edges / self.longest / tried[:, None]) / TUNING.spread)
        expected = np.diff(np.pad(below, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1))))
        off = np.square(np.subtract(shares, expected)).sum(1) / (self.deviations[1] ** 2 + TUNING.miscount**2)
        prior = np.square(np.log(tried / self.usual_length) / TUNING.prior_spread)
        return _log_mean(tried, -(off + prior) / 2)

    def planned(self, share: float, shares: Floats, squares: Floats) -> Course:
        """Return the course for the released values; `squares` are `block_squares` of the released mean gradient.

        In that mean, gradients are cut to `TUNING.cut` typical lengths.
        """
        share, shares = float(np.clip(share, -FARTHEST, FARTHEST)), np.clip(shares, -FARTHEST, FARTHEST)
        squares = np.clip(squares, 0.0, FARTHEST**2)
        (start, unknown), length = self.start(share), self.typical_length(shares)
        return self._course(length, start, max(self._risked(length), self._seen(length, unknown, squares)))

    def slope_level(self, course: Course, way: Floats) -> float:
        """Return the level to which slopes along a way (dim,) are cut."""
        return TUNING.slope_cut * course.length * self.longest * max(1e-300, float(np.linalg.norm(way * self.scales)))

    def bend(self, way: Floats) -> float:
        """Return by how much the loss's slope along a way (dim,) changes from its start to its end, on typical data."""
        typical, blocks = self.task.typical, self.problem.domain.all_blocks
        parts = np.split(np.square(way), np.cumsum([block.size for block in blocks])[:-1])
        weights = typical.count * typical.mixing  # (blocks, directions)
        return float(weights @ typical.curvature / weights.sum(1) @ [part.sum() for part in parts])

    def share_of_way(self, start: float, end: float, bend: float, deviation: float) -> float:
        """Return the share of its way that a run keeps, from 0 to the grid's end, by noisy slopes at the way's ends.

        Slopes and `bend` are over the level of slopes; `start` has the noise of the look's gradient, `end` noise of
        `deviation`. The loss is taken as a parabola along the way; the share is the posterior mean of its minimum.
        """
        start, end = np.clip((start, end), -FARTHEST, FARTHEST)
        usual = float(np.clip(bend, 1 / FARTHEST, FARTHEST))
        shares, spread = np.linspace(0.0, *TUNING.ways), TUNING.bend_spread * usual
        noise = TUNING.cut / KEPT / TUNING.slope_cut * self.deviations[2]
        # Given the share, slopes are multiples of the bend, whose prior and therefore posterior law is normal.
        sure = spread**-2 + np.square(shares / noise) + np.square((1 - shares) / deviation)
        sums = usual / spread**2 - shares * start / noise**2 + (1 - shares) * end / deviation**2
        prior = np.square(np.log((shares + TUNING.least_way) / TUNING.usual_way) / TUNING.way_spread)
        weights = np.square(sums) / sure - np.log(sure) - prior
        weights = np.exp((weights - weights.max()) / 2) * np.maximum(sums / sure, TUNING.least_bend * usual)
        return float(np.average(shares, weights=weights))

    def block_squares(self, gradient: Floats) -> Floats:
        """Return the squared length of each block's part of a gradient; one-hot parts are taken less their mean."""
        blocks = self.problem.domain.blocks
        parts = np.split(np.clip(gradient, -FARTHEST, FARTHEST), np.cumsum([block.size for block in blocks]))
        moved = (part - part.mean() if block.categorical else part for block, part in zip(blocks, parts, strict=False))
        return np.array([np.square(part).sum() for part in moved])

    def _seen(self, length: float, unknown: float, squares: Floats) -> float:
        """Return the posterior signal, given the gradient's block squares; without information, the usual signal."""
        blocks, typical = self.problem.domain.blocks, self.task.typical
        tried = np.geomspace(*TUNING.seen)
        weight = -np.square(np.log(tried / TUNING.usual_signal) / math.log(TUNING.prior_ratio))
        scale = TUNING.cut * length * self.longest / KEPT
        energy = typical.curvature**2 * typical.signal
        for place, block in enumerate(blocks):
            own = typical.block == (SHARED if block.norm == "linf" else place)
            free = block.size - 1 if block.categorical else block.size
            if not own.any() or free == 0:
                continue
            # Directions count by the block's part in them; so the constant's, which the start has fitted, hardly count.
            mean = np.average(energy[own], weights=(typical.count * typical.mixing[place])[own])
            D = float(self.scales[typical.start[place]])
            noise = (D * scale * self.deviations[2]) ** 2 + (unknown * block.l2) ** 2 / block.size
            variance = tried * mean + noise
            weight -= free * np.log(variance) + (D * scale) ** 2 * squares[place] / variance
        return _log_mean(tried, weight / 2)

    def _risked(self, length: float) -> float:
        """Return the largest signal whose best steps cost little by their noise, whatever the data are."""
        unit = self.task.loss.value_at_zero / math.log(2)
        bold = (s for s in TUNING.signals if self._choice(length, s).noise <= TUNING.risked * unit)
        return next(bold, TUNING.signals[-1])

    def _choice(self, length: float, signal: float) -> typical_steps.Choice:
        problem, typical = self.task, self.task.typical
        noise = problem.differing * length * self.longest / (problem.n * self.mu) * self.scales
        levels = [(k / kept(k), cost * signal * typical.at_zero) for k, cost in TUNING.levels]
        options: dict[str, Any] = {"steps": None, "l2": self.l2, "rates": (1.0,), "signal": signal, "bold": 1.0}
        return typical_steps.choose(problem, noise, mu=self.mu, levels=levels, **options)

    def _course(self, length: float, start: float, signal: float) -> Course:
        choice = self._choice(length, signal)
        level = next(level for level, _ in TUNING.levels if level / kept(level) == choice.level)
        return Course(length, start, signal, level, choice)


def with_smaller_constant(problem: LinearModelProblem) -> LinearModelProblem:
    """Return the problem with the constant feature scaled by `TUNING.constant`; runs start at the best constant."""
    return _in_other_units(problem, replace(problem.domain, intercept=TUNING.constant * problem.domain.intercept))


def _in_other_units(problem: LinearModelProblem, domain: DataDomain) -> LinearModelProblem:
    """Return the problem on another domain, with the radius scaled so that it allows logits of the same size."""
    needed, is_now = (sum(map(squared_reach, each.all_blocks)) for each in (problem.domain, domain))
    return replace(problem, domain=domain, radius=problem.radius * math.sqrt(is_now / needed))


def _log_mean(values: Floats, log_weights: Floats) -> float:
    """Return the weighted geometric mean."""
    weights = np.exp(log_weights - log_weights.max())
    return float(np.exp(np.average(np.log(values), weights=weights)))
