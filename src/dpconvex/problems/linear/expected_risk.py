r"""The error that plans expect on ordinary data, from public facts. It ranks plans; privacy never rests on it.

An *expected* error is the excess loss of a quadratic model of the risk at its minimizer, for a data set typical of the
schema (docs, Expected errors, has the model; Additive models, section 4, the model of shapes). A *direction* is an
eigenvector of the Hessian ``kappa (D + m m^T)``: D is diagonal in the directions within each block that sum to 0 and in
the numeric columns, and 0 in the span of the constant and the means of blocks; m is the mean record, whose part is 0 in
centered blocks. For shapes, directions are coordinates ``w = F v`` in which curvature and ridge are diagonal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Self, TypeVar, cast

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit

from dpconvex._types import Floats, final_dataclass
from dpconvex.losses import LinearModelLoss, LogisticLoss, SmoothLoss, SoftmaxLoss
from dpconvex.problems.data.domain import Block, BlockNorm, DataDomain, is_centered
from dpconvex.problems.data.factor import Factor

Size = TypeVar("Size", float, Floats)
SHARED = -1
"""Used in place of a block's index, for directions in all columns that are bounded one by one, and in the constant."""


@final_dataclass
class Tuning:
    """Guesses about ordinary data, with their sources in docs, Expected errors, and `benchmarks/prediction.py`."""

    spectrum_quantiles: int = 9  #: number of quantiles by which a spectrum of directions is approximated
    rank_power: float = 1.5  #: the moments of a ball's directions fall with this power of their rank
    numeric_variance: float = 0.2  #: variance of a numeric column on [-1, 1]
    #: Squared mean of such a column: the middle of the range is not known to be the middle of the data.
    numeric_squared_mean: float = 1 / 9
    binary_variance: float = 0.64  #: variance of a column of values -1 and 1, if a fifth of the records have the rarer
    ball_squared_length: float = 0.7  #: mean squared length of records in a ball of radius 1
    #: A ball tells as much as one column, and with more than `ball_plain` columns ``(columns / plain)^power`` times as
    #: much, up to `ball_most`, as images do (`benchmarks/balls.py`).
    ball_plain: float = 16.0
    ball_power: float = 0.75
    ball_most: float = 8.0
    #: Mean second derivative of a classification loss, over that at undecided predictions.
    decided_curvature: float = 0.44
    residual_deviation: float = 0.1  #: deviation of residuals, in units of the targets' range
    residual_in_part: float = 0.13  #: this deviation if a look keeps a part of the range, in units of the part
    residual_of_two: float = 0.3  #: this deviation if the range joins two whole numbers, as that of yes and no does
    #: Mean squared length of the minimizer over R^2: lengths R/4, R/2 and R are taken as equally likely, and expected
    #: errors are linear in the square.
    squared_length: float = 7 / 16
    #: Squared lengths of classes double where records times epsilon are more than the first for each column, and again
    #: above the second: ridges chosen for short ones lose more there than noise does (`benchmarks/lengths.py`).
    many: tuple[float, ...] = (300.0, 1000.0)
    #: Variance of a regression's best predictions about their mean, in squares of the targets' range. It replaces the
    #: value by `squared_length`: targets vary by a tenth of their range, however many columns there are.
    explained_variance: float = 0.006
    #: This variance if a look keeps a part of the targets' range: 2.8 times as much on the learning tables
    #: (geometric mean, `benchmarks/declared_ranges.py target --law`).
    explained_in_part: float = 0.0165
    explained_power: float = 0.5  #: a regression's squared coefficients fall with this power of a direction's curvature
    kink_density: float = 0.2  #: density of margins at the point where a margin loss changes its slope
    #: Power of a slope cap in the link from scores to log-odds: in fitted models, then where plans price a cap.
    link: float = 0.75
    priced_link: float = 0.5

    @property
    def moments(self) -> dict[str, tuple[float, float]]:
        """Variance and squared mean of columns on [-1, 1], by their kind, `Block.values`."""
        numbers = self.numeric_variance, self.numeric_squared_mean
        binary = self.binary_variance, 1 - self.binary_variance
        return {"any": numbers, "centered": (self.numeric_variance, 0.0), "binary": binary, "sparse": numbers}


ORDINARY = Tuning()  # the guesses that plans use


def evenness(rates: tuple[float, ...] | None) -> float:
    """Return the curvature of undecided predictions at these rates of classes, over that at equal ones; 1 for None."""
    return 1.0 if rates is None else math.fsum(p * (1 - p) for p in rates) / (1 - 1 / len(rates))


def typical_curvature(loss: LinearModelLoss) -> float:
    """Return a guess of the mean second derivative of the loss in each output's prediction, at a fitted model."""
    slope = loss.slope_bound
    if loss.task == "classification":
        decided = ORDINARY.decided_curvature * evenness(loss.rates) * loss.usual.curvature_trace / loss.curvature_rank
        if isinstance(loss, SoftmaxLoss) and loss.cap < 1:
            decided *= _kept_curvature(loss)
        return min(decided, ORDINARY.kink_density * slope)
    return min(loss.curvature_bound, 2 * slope)  # targets have a range of about 2


def capped_curvature(loss: LinearModelLoss, deviation: float | None = None) -> float:
    """Return the mean second derivative of a loss with capped residuals: the share of residuals below the cap."""
    residuals = ordinary_residuals(loss, deviation)
    return float(cast(SmoothLoss, loss).hessian_weights(residuals, np.zeros(len(residuals))).mean())


def ordinary_residuals(loss: LinearModelLoss, deviation: float | None = None) -> Floats:
    """Return typical skewed residuals of mean 0, (2000,); `value_at_zero` must be half the squared target bound."""
    spread = (deviation or ORDINARY.residual_deviation) * 2 * math.sqrt(2 * loss.usual.value_at_zero)
    residuals = spread * (-np.log1p(-(np.arange(2000) + 0.5) / 2000) - 1)
    return residuals - residuals.mean()


def curvature_and_worth(
    loss: LinearModelLoss, residual: float | None = None, capped: bool = True
) -> tuple[float, float]:
    """Return the mean curvature of a loss, and the usual loss's curvature over it; residual caps count if `capped`."""
    if loss.task != "regression" or loss.usual == loss or not capped:
        return typical_curvature(loss), 1.0
    kappa = max(capped_curvature(loss, residual), 1e-6 * loss.curvature_bound)  # a narrow cap may leave no residual
    return kappa, typical_curvature(loss.usual) / kappa


def spectrum(dim: int) -> Floats:
    """Return relative curvatures of the directions of a block, of mean 1, by quantile."""
    spread = np.exp(-np.linspace(0.0, 0.5 + math.log(dim), ORDINARY.spectrum_quantiles))
    return spread * (len(spread) / spread.sum())


def _possible(loss: LinearModelLoss, variance: float) -> float:
    """Return the share of a variance of predictions that is possible: classes gain no more than parameters 0 lose."""
    if loss.task == "regression":
        return 1.0
    gain = variance * typical_curvature(loss.usual) / 2
    return min(1.0, loss.usual.value_at_zero / max(gain, 1e-300))


@dataclass(frozen=True, eq=False)
class TypicalData:
    """Quadratic model of the risk's excess on typical data, with g groups of like directions, and m blocks."""

    count: Floats  #: number of directions in each group over all outputs, may be fractional, (g,)
    curvature: Floats  #: second derivative of the risk in a direction, positive, (g,)
    signal: Floats  #: squared coefficient of the minimizer in a direction, (g,)
    block: np.ndarray  #: index of the block that the directions belong to, or `SHARED`, (g,)
    start: np.ndarray  #: first column of each block, (m,)
    size: np.ndarray  #: number of columns of each block, (m,)
    mixing: Floats  #: share that each block's noise has in the noise of a direction, (m, g)
    bias: float  #: excess usual loss of the exact minimizer of a surrogate (`surrogate_excess`)
    #: Curvature of the usual loss, in which errors count, over that of this one.
    worth: float = field(default=1.0, kw_only=True)
    #: Squared coefficient, by direction, that takes predictions from where they start to the public rates, (g,); or 0.
    apart: Floats | float = field(default=0.0, kw_only=True)
    #: Curvature at the public rates, over that where predictions start.
    rarity: float = field(default=1.0, kw_only=True)

    @classmethod
    def of(
        cls, domain: DataDomain, loss: LinearModelLoss, radius: float, factor: Factor | None = None,
        explained: float | None = None, residual: float | None = None,
    ) -> "TypicalData":  # fmt: skip
        """Return the guess for the average loss; `radius` is the comparator norm. With a factor, coordinates are new.

        `explained` is the variance of the minimizer's predictions, or None if it follows from the radius; `residual` is
        the deviation of residuals in units of the targets' range, or None for the ordinary one.
        """
        blocks, outputs = domain.all_blocks, loss.n_outputs
        levels = np.array([block.size for block in blocks])
        size = levels if factor is None else np.array(factor.ranks)
        # Mean square of a record's part per unit of a new coordinate.
        stretch: Floats = np.ones(len(blocks)) if factor is None else factor.mean_squares
        square: Floats = stretch * np.array([squared_bound(block) for block in blocks])
        one_hot = np.array([block.categorical for block in blocks])  # the constant too: a block of one level
        fixed = one_hot & np.array([factor is None or not is_centered(domain, block) for block in blocks])
        boxed = np.array([block.norm == "linf" for block in blocks])
        marked = np.array([is_marked(block) for block in blocks])
        of_others = np.where(marked, ORDINARY.numeric_variance, ORDINARY.ball_squared_length)
        of_others = np.where(one_hot, 1.0, of_others) / levels  # of all columns of a block that are bounded together
        variance, squared_mean = np.transpose([ORDINARY.moments[block.values] for block in blocks])
        moment = square * np.where(boxed, variance, of_others)
        needed = np.array([squared_reach(block) for block in blocks])
        needed /= 2.0 ** math.frexp(needed.max())[1]  # a power of 2: products stay finite, and rounded as they were
        share = ORDINARY.squared_length * radius**2 * needed / needed.sum() / levels / stretch  # signal of a direction
        inside, energy = np.where(fixed, size - 1, size), size * moment
        used = np.flatnonzero(one_hot & (inside > 0))
        spread, quantiles = spectrum(domain.dim), ORDINARY.spectrum_quantiles
        count, block = np.repeat(inside[used] / quantiles, quantiles), np.repeat(used, quantiles)
        curvature, signal = np.outer(moment[used], spread).ravel(), np.repeat(share[used], quantiles)
        mixing = np.equal.outer(np.arange(len(blocks)), block).astype(np.float64)
        alike = np.where(boxed, moment, -1.0 - np.arange(len(blocks)))  # each ball is a group of its own
        for value in np.unique(alike[~one_hot]):
            members = np.flatnonzero((alike == value) & ~one_hot)
            dimension, total = size[members].sum(), energy[members].sum()
            ranks, relative = _power_law(int(dimension))
            count = np.append(count, ranks)
            block = np.append(block, np.full(len(ranks), SHARED if boxed[members[0]] else members[0]))
            curvature = np.append(curvature, total / dimension * relative)
            signal = np.append(signal, np.full(len(ranks), energy[members] @ share[members] / total))
            part = np.bincount(members, energy[members] / total, len(blocks)).astype(np.float64)
            mixing = np.append(mixing, np.repeat(part[:, None], len(ranks), 1), 1)
        if explained is not None and len(count):
            signal = signal * np.power(curvature, -ORDINARY.explained_power)
            signal = signal * (explained / float(count @ (curvature * signal)))
        mean = np.where(fixed, square / levels, 0.0)  # of blocks whose columns have equal sums in all records
        off: Floats = mixing.T @ np.where(boxed, square * squared_mean, 0.0)
        if mean.any():
            constant = float(mean @ (share * size)) / mean.sum()
            cells: Any = count, curvature, signal, mixing
            count, curvature, signal, mixing, along = _with_constant(cells, off, mean, constant, loss)
            block = np.append(block, np.full(len(count) - len(block), SHARED))
        else:  # no constant: the mean adds to every direction's second moment
            curvature, along = curvature + off, np.zeros(len(curvature))
        kappa, worth = curvature_and_worth(loss, residual, explained is not None)
        signal = signal * _possible(loss, float(count @ (curvature * signal)))
        contrasts = max(1, outputs - 1)  # the same vector added to all outputs changes no prediction
        return cls(
            count * contrasts, np.asarray(curvature * kappa, dtype=np.float64), signal / contrasts, block,
            np.cumsum(size) - size, size, mixing,
            0.0 if loss.usual == loss else surrogate_excess(loss, loss.usual, residual), worth=worth,
        ).started(loss, along)  # fmt: skip

    def started(self, loss: LinearModelLoss, along: Floats) -> Self:
        """Return this with what `loss` says of rates; `along`: the constant's squared part in each direction."""
        told, start = loss.told, loss.rates
        if told is None or start is None:
            return self
        rarity = typical_curvature(loss.usual.as_told) / typical_curvature(loss.usual)
        excess = float(np.dot(told, np.log(told) - np.log(start)))
        return replace(self, apart=along * excess / max(self._excess(along), 1e-300), rarity=rarity)

    @property
    def at_zero(self) -> float:
        """Excess loss of the zero vector; with public rates, about what the best constant loses."""
        return self.rarity * self._excess(self.signal)

    def variances(self, deviations: Floats) -> Floats:
        """Return the noise variance by direction (g,), given deviations (dim,) or (k, dim) that are equal in blocks."""
        return np.square(deviations.take(self.start, -1)) @ self.mixing

    def released_noise(self, deviations: Floats) -> float:
        """Return the expected excess from independent noise of `deviations` (dim,) added to the parameters."""
        return self._excess(self.variances(deviations))

    def shrinkage(self, l2: Size) -> Size:
        """Return the excess usual loss of the exact minimizer with ridge weight `l2`, or for each of many weights."""
        ridge: Any = np.asarray(l2)[..., None]
        return self.bias + self._excess(np.square(ridge / (self.curvature + ridge)) * self.signal)

    def unlearned(self, l2: float) -> float:
        """Return `shrinkage` and what the ridge leaves of the way to public rates; ridges are chosen without that."""
        return self.shrinkage(l2) + self._excess(np.square(l2 / (self.curvature + l2)) * self.apart)

    def gradient_noise(self, l2: Size, deviations: Floats) -> Size:
        """Return the expected excess from a random linear term in the ridge objective; (k, dim) for k weights `l2`."""
        ridge: Any = np.asarray(l2)[..., None]
        return self._excess(self.variances(deviations) / np.square(self.curvature + ridge))

    def noise_costs(self, l2: float) -> Floats:
        """Return by how much noise of variance 1 in all parameters of a block raises `gradient_noise`, (m,)."""
        return self.mixing @ (self._weight / np.square(self.curvature + l2)) / 2

    def projection_bias(self, blocks: Sequence[int], columns: int) -> float:
        """Return the expected excess of the best fit after a random projection of `blocks` to `columns` columns.

        A direction of curvature h loses the share ``k / (h + k)`` of its signal, where ``sum h / (h + k) = columns``.
        """
        among = np.isin(self.block, blocks)
        h, count = self.curvature[among], self.count[among]
        per_output = count / count.sum() * sum(self.size[block] for block in blocks)

        def spare(log_k: float) -> float:
            return float(np.sum(per_output * h / (h + math.exp(log_k)))) - columns

        low, high = math.log(h.min()) - 50, math.log(h.max() * per_output.sum() / columns)
        k = math.exp(cast(float, brentq(spare, low, high)))
        return float(np.sum(self._weight[among] * self.signal[among] * k / (h + k))) / 2

    def _excess(self, squares: Floats) -> Any:
        found = (self._weight * squares).sum(-1)
        return found / 2 if found.ndim else float(found) / 2

    @cached_property
    def _weight(self) -> Floats:
        return self.count * self.curvature * self.worth


def _with_constant(
    cells: tuple[Floats, ...], off: Floats, mean: Floats, signal: float, loss: LinearModelLoss
) -> tuple[Floats, ...]:
    """Return count, curvature, signal, mixing and squared part of the constant of the directions of ``D + m m^T``.

    `cells` describe D; `off` is the square of m in each of their directions. In the span of the constant, D is 0, and
    `mean` is the square of m by block. If predictions start from public rates, they have mean 0: the constant only
    makes up for the other coefficients, and has no signal of its own.
    """
    count, curvature, signals, mixing = cells
    moved = off > 0
    m = np.sqrt(np.append((count * off)[moved], mean.sum()))  # one direction of each cell has all of m
    h, vectors = eigh(np.diag(np.append(curvature[moved], 0.0)) + np.outer(m, m))
    found = np.diag(np.append(signals[moved], signal))
    if starts_as_told(loss):
        free = np.vstack((np.eye(len(m) - 1), -m[:-1] / m[-1]))
        found = free * signals[moved] @ free.T
    shares = np.column_stack((mixing[:, moved], mean / mean.sum())) @ np.square(vectors)
    squares = np.einsum("ij,ik,kj->j", vectors, found, vectors)
    return (
        np.append(count - moved, np.ones(len(m))),
        np.append(curvature, np.maximum(h, 1e-9 * h[-1])),
        np.append(signals, squares),
        np.append(mixing, shares, 1),
        np.append(np.zeros(len(count)), np.square(vectors[-1])),
    )


def _power_law(size: int) -> tuple[Floats, Floats]:
    """Return a few cells, even in the logarithm, of ranks 1 to `size`: the number of ranks and mean moment of each."""
    ranks, most = np.arange(1, size + 1), ORDINARY.spectrum_quantiles
    cells = np.minimum(most * np.log(ranks) / math.log(max(size, 2)), most - 1).astype(int)
    count = np.bincount(cells, minlength=1)
    total = np.bincount(cells, ranks**-ORDINARY.rank_power)
    full = count > 0
    return count[full].astype(np.float64), total[full] / count[full] * size / total.sum()


def is_marked(block: Block) -> bool:
    """Return whether the block is a numeric column and its mark of missing values: a column with `indicator`."""
    return block.norm == "l1" and block.size == 2 and not block.categorical


def squared_reach(block: Block) -> float:
    """Return the squared norm of coefficients by which a block gives about 2 logits: its share of the comparator norm.

    It is 4 for one-hot columns of bound 1, a numeric column of half-width 1/2, and a mark of missing values; it
    changes as the inverse square of the bound.
    """
    if block.norm == "linf" or is_marked(block):
        return block.size / block.bound**2
    if block.largest is not None:  # numbers of half the width, whose coefficients grow as fewer of them are not 0
        spread = ORDINARY.moments[block.values][0] * block.size * block.largest**2 / 4
        return 4 * block.size / block.largest**2 * max(1.0, spread / squared_length(block))
    if block.norm != "l2":
        return 4 / block.bound**2
    more = max(1.0, block.size / ORDINARY.ball_plain) ** ORDINARY.ball_power
    told = min(more, ORDINARY.ball_most) if block.values == "any" else 1.0  # not of words; recentered ones were ranges
    return 4 * block.size * told / block.bound**2


def squared_length(block: Block) -> float:
    """Return the mean squared length of the block's part of ordinary records."""
    if block.norm == "linf" or is_marked(block):
        return (1 if is_marked(block) else block.size) * block.bound**2 * math.fsum(ORDINARY.moments[block.values])
    return squared_bound(block) * (1.0 if block.categorical else ORDINARY.ball_squared_length)


def squared_bound(block: Block) -> float:
    """Return the square of the block's bound, or a bound on its squared length where entries have one of their own."""
    return block.bound * (block.largest or block.bound)


def starts_as_told(loss: LinearModelLoss) -> bool:
    """Return whether predictions start from public rates as the caller gave them."""
    return loss.rates is not None and loss.as_told == loss


def reach_share(domain: DataDomain, norm: BlockNorm) -> float:
    """Return the share of the squared comparator norm that is for blocks bounded in `norm`."""
    among = sum(squared_reach(block) for block in domain.blocks if block.norm == norm)
    return among / sum(map(squared_reach, domain.all_blocks))


@cache
def surrogate_excess(loss: LinearModelLoss, target: LinearModelLoss, residual: float | None = None) -> float:
    """Return the excess `target` loss of the minimizer of its surrogate `loss`, as functions of one prediction.

    Classification: logits, or their differences, are normal with deviation 2, labels follow them, and only the scale is
    fitted; for two classes with public rates, which fix the logits' mean, a shift as well. Scores become log-odds by
    the link for the cap to the power `priced_link`. Regression: residuals are exponential, and only a shift is fitted.
    """
    if loss.task != "classification":
        return target.curvature_bound * _shift(loss, ordinary_residuals(target, residual)) ** 2 / 2
    if isinstance(loss, SoftmaxLoss):
        return max(0.0, _logits_excess(loss, cast(SoftmaxLoss, target)))
    return max(0.0, _logit_excess(loss, target))


MANY = 64  #: With more classes, a cap is priced as for this many.


@cache
def _ordinary_logits(classes: int) -> tuple[Floats, Floats]:
    """Return logits (m, classes) whose differences have deviation 2, and each label's weight: its probability / m."""
    logits = np.random.default_rng(0).normal(0.0, math.sqrt(2.0), (max(32, 8192 // classes), classes))
    return logits, SoftmaxLoss(classes).probabilities(logits) / len(logits)


def _logits_excess(loss: SoftmaxLoss, target: SoftmaxLoss) -> float:
    loss, target = (SoftmaxLoss(min(each.n_classes, MANY), cap=each.cap) for each in (loss, target))
    logits, weights = _ordinary_logits(loss.n_classes)

    def risk(which: SoftmaxLoss, z: Floats) -> float:
        return float(np.sum(weights * which.of_labels(z)))

    found: Any = minimize_scalar(lambda scale: risk(loss, scale * logits), bounds=(0.1, 10.0), method="bounded")
    link = SoftmaxLoss(loss.n_classes, cap=loss.cap**ORDINARY.priced_link)
    return risk(target, link.log_odds(float(found.x) * logits)) - risk(target, logits)


@cache
def _kept_curvature(loss: SoftmaxLoss) -> float:
    """Return the share of the curvature's trace that a cap on slopes leaves, at ordinary logits of several classes."""
    logits, weights = _ordinary_logits(min(loss.n_classes, MANY))
    p = weights * len(logits)
    square, others = np.square(p).sum(axis=1, keepdims=True), 1 - p
    among = loss.cap * (1 - (square - np.square(p)) / np.square(others))
    kept = np.where(others <= loss.cap, 1 - square, among)
    return float(np.sum(weights * kept) / np.mean(1 - square))


def _shift(loss: LinearModelLoss, residuals: Floats) -> float:
    """Return the shift that a loss makes in residuals (m,) of mean 0; the squared loss makes none."""
    risk, most = lambda shift: float(loss.value(shift - residuals, 0 * residuals).mean()), 2 * float(residuals.std())
    found: Any = minimize_scalar(risk, bounds=(-most, most), method="bounded")
    return float(found.x)


def _logit_excess(loss: LinearModelLoss, target: LinearModelLoss) -> float:
    deviation, middle = 2.0, 0.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(101)
    if loss.rates is not None:
        total, rate = weights.sum(), loss.rates[1]
        surplus = lambda mean: float(weights @ expit(mean + deviation * nodes)) / total - rate  # noqa: E731
        middle = cast(float, brentq(surplus, -60.0, 60.0))
    logits = np.concatenate([middle + deviation * nodes] * 2)
    labels = np.repeat([1.0, -1.0], len(nodes))
    weights = np.concatenate([weights] * 2) / weights.sum() / (1 + np.exp(-labels * logits))

    def risk(which: LinearModelLoss, z: Floats) -> float:
        return float(weights @ which.value(z - which.offset[0], labels))

    if loss.rates is not None:
        both: Any = minimize(lambda w: risk(loss, w[0] * logits + w[1]), np.array([1.0, 0.0]), method="Nelder-Mead")
        z = both.x[0] * logits + both.x[1]
    else:
        found: Any = minimize_scalar(lambda scale: risk(loss, scale * logits), bounds=(0.1, 10.0), method="bounded")
        z = float(found.x) * logits
    read = LogisticLoss(loss.facts.get("slope_cap", 1.0) ** ORDINARY.priced_link).log_odds
    return risk(target, read(z)) - risk(target, logits)
