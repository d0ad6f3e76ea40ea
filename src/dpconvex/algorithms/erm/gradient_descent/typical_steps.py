r"""Steps with constant momentum, and the constants that do best on typical data. Pure arithmetic on public facts.

Steps
    ``v <- m v - eta (g(w + m v) + noise)``, ``w <- w + v`` from 0 (Nesterov's momentum, m constant); the mean of the
    last points, or the last one, is released.
Model
    On a quadratic risk the result is linear in the minimiser and in the noise. Along a direction of curvature c let
    ``a_j`` be what an error of 1 in a gradient moves the point j steps later. The point misses a share
    ``1 + c sum_j a_j`` of the minimiser, and has ``sum_j a_j^2`` times the variance of a gradient's noise; for a mean
    of points the ``a_j`` are averaged. Both depend on ``x = eta c`` and m only (the noise times eta^2), so they are
    tabulated. `TypicalData` says which curvatures there are; the sum over them is the expected excess.
Choice
    Number of steps, eta, m, last point or mean, and the clipping level, by the least expected excess. A short level
    takes proportionally less noise; what it loses (`LEVELS`) was measured on simulated tables, as were the constants
    below. Fewer passes where they gain little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.losses.base import LinearModelLoss
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.linear.expected_risk import CONFIDENT, RESIDUAL, typical_curvature
from dpconvex.problems.linear.problem import LinearModelProblem

MOMENTA = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98)
RATES = tuple(2.0**-k for k in range(-1, 11))
"""Step sizes in units of one over the largest curvature. Up to 2: curvatures of at most half the largest are stable,
and beyond that the length of clipped gradients limits how far a run can swing."""
TAILS = (0.0, 0.5)
"""Shares of the points, from the last backwards, in the mean; 0: the last point alone."""
ENOUGH = 1.02
"""Fewer steps are taken where the expected excess grows by no more than this factor."""
BOLD = 2.0
"""How much more signal than typical data have the choice counts on: strong signals lose more by short runs."""
LEVELS = ((0.5, 0.02), (0.7, 0.004), (1.0, 0.0007), (1.5, 0.0))
"""Clipping levels in units of `slope_unit` times a typical record's length, and the excess that clipping costs."""
RESIDUALS = ((0.2, 0.003), (0.35, 0.0006), (0.5, 0.0))
"""The same for smooth losses of residuals, which are short once a model fits."""
MIDDLE = 1 / 3
"""Mean square of a numeric column on [-1, 1], for the typical length of a record."""
MOST_STEPS = 256
WORK = 1e10
"""Entries of the data that all passes together may read; at least `FEW` passes are always allowed."""
FEW = 32
SAMPLED_RATES = (0.3, 0.1, 0.03, 0.01)
MOST_SAMPLED = 2048
"""Steps on samples, at most."""
GAIN = 0.9
"""Samples are taken where their expected excess is smaller by this factor."""
GATHER, PICK = 4.0, 100.0
"""Times to gather and clip an entry of a sampled record, and to pick a record, over that to read an entry in order."""
NOISE, STEP = 13_000.0, 1e6
"""Times to draw one coordinate's exact noise, and of a step on no data at all, in the same unit (about 1 ns)."""
_PRODUCTS = np.geomspace(1e-9, 2.0, 300)
"""Values of x in the table."""


@dataclass(frozen=True)
class Steps:
    """Constants of a run.

    Parameters
    ----------
    count : int
        T, at least 1.
    size : float
        eta.
    momentum : float
        m in [0, 1).
    averaged : int
        How many of the last points are averaged, at least 1.
    """

    count: int
    size: float
    momentum: float
    averaged: int

    def response(self, curvature: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the missed share of the minimiser, and the noise variance for gradient noise of variance 1.

        Parameters
        ----------
        curvature : array of shape (g,)
        """
        with np.errstate(all="ignore"):
            sums = _sums(self.size * curvature, np.array([self.momentum]), self.count)[:, 0]
            missed, noise = _tail(sums, self.size * curvature, self.count, self.averaged)
            return missed, self.size**2 * noise


@dataclass(frozen=True)
class Choice:
    """Steps, clipping level and what typical data lose with them.

    Parameters
    ----------
    steps : Steps
    level : float
        C, in units of the slope bound times the largest record.
    expected : float
        Excess loss.
    rate : float
        Probability of taking part in a step.
    """

    steps: Steps
    level: float
    expected: float
    rate: float = 1.0


def choose(
    problem: LinearModelProblem,
    noise: FloatArray,
    *,
    mu: float,
    levels: Sequence[tuple[float, float]],
    steps: int | None = None,
    l2: float = 0.0,
    rates: Sequence[float] = (1.0,),
) -> Choice:
    """Return what does best on typical data; samples only where they gain at least `GAIN`.

    Parameters
    ----------
    problem : LinearModelProblem
        Of an average loss.
    noise : array of shape (dim,)
        Standard deviations of the noise of one gradient of all records with the whole budget and level 1.
    mu : float
        The whole budget.
    levels : sequence of (float, float)
        Levels to choose from, and what each costs.
    steps : int, optional
        T, if it is given.
    l2 : float
        Ridge weight.
    rates : sequence of float
        Probabilities to choose from with which a record takes part in a step; 1: all do.
    """
    counts = {rate: (steps,) if steps else _counts(problem, rate) for rate in rates}
    effects = _effects(problem, noise, max(counts.values(), key=len), l2)
    found = [option for rate in rates for option in _options(problem, effects, mu, levels, counts[rate], l2, rate)]
    whole, sampled = ([pair for pair in found if (pair[1].rate < 1) == below] for below in (False, True))
    gain = sampled and (not whole or _least(sampled) < GAIN * _least(whole))
    options = sampled if gain else whole
    enough = ENOUGH * _least(options)
    good = [(score, choice) for score, choice in options if not score > enough]
    return min(good, key=lambda pair: (pair[1].steps.count * step_work(problem, pair[1].rate), pair[0]))[1]


def _least(options: list[tuple[float, Choice]]) -> float:
    return min(score for score, _ in options)


def _effects(
    problem: LinearModelProblem, noise: FloatArray, counts: tuple[int, ...], l2: float
) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return the excess of steps, shape (counts, tails, momenta, rates), and that of parameters 0.

    From the missed share of the minimiser; from noise, were the budget not shared; from samples, over ``1/rate - 1``.
    """
    typical = problem.typical
    assert typical is not None  # there is no tilt and no attack here
    largest = unit_curvature(problem) + l2
    curvature = typical.curvature + l2
    kept = np.square(typical.curvature / curvature)  # of the minimiser's square, with the ridge
    bias = typical.count * curvature * typical.signal * kept / 2
    weight = typical.count * curvature / 2
    products = np.multiply.outer(np.array(RATES) / largest, curvature)
    place = np.searchsorted(_PRODUCTS, products).clip(0, len(_PRODUCTS) - 1)  # (rates, g)
    missed, spread = _table(counts)  # (counts, tails, momenta, products)
    with np.errstate(all="ignore"):  # unstable steps
        biases = (np.square(missed)[..., place] * bias).sum(-1)
        spread = spread[..., place]
        noises = (spread * weight * typical.variances(noise)).sum(-1) * np.square(np.array(RATES) / largest)
        variance = weight * typical.curvature * residual_square(problem.loss) / problem.n
        drawn = (spread * variance).sum(-1) * np.square(np.array(RATES) / largest)
    return biases, noises, drawn, float(bias.sum())


def _options(
    problem: LinearModelProblem,
    effects: tuple[FloatArray, FloatArray, FloatArray, float],
    mu: float,
    levels: Sequence[tuple[float, float]],
    counts: tuple[int, ...],
    l2: float,
    rate: float,
) -> Iterator[tuple[float, Choice]]:
    """Yield the best constants for each level and number of steps, and their score."""
    typical, largest = problem.typical, unit_curvature(problem) + l2
    assert typical is not None
    biases, noises, drawn = (effect[: len(counts)] for effect in effects[:3])
    shares = [count * dearer(mu, count, rate) for count in counts]  # the budget is shared
    with np.errstate(all="ignore"):
        noises = noises * np.array(shares)[:, None, None, None]
        drawn = drawn * (1 / rate - 1) if rate < 1 else np.zeros_like(drawn)
    for level, cost in levels:
        with np.errstate(all="ignore"):
            model = np.nan_to_num(BOLD * biases + level**2 * noises + drawn, nan=np.inf)
            total = model + cost * np.clip(1 - model / (BOLD * effects[3]), 0.0, 1.0)  # who learns little loses little
        best = total.reshape(len(counts), -1).argmin(1).tolist()
        for k, count in enumerate(counts):
            tail, m, r = np.unravel_index(best[k], total[k].shape)
            picked = Steps(count, RATES[r] / largest, MOMENTA[m], _averaged(count)[tail])
            plain = total[k, tail, m, r] - (BOLD - 1) * biases[k, tail, m, r]
            yield float(total[k, tail, m, r]), Choice(picked, level, typical.bias + float(plain), rate)


def dearer(mu: float, steps: int, rate: float) -> float:
    """Return how much larger the noise variance of sampled steps is than that of as many steps on all records.

    By the variance of one step's losses, ``4 q^2 sinh(r^2)`` for a record that adds r deviations; close to exact.

    Parameters
    ----------
    mu : float
        The whole budget.
    steps : int
    rate : float
        In (0, 1].
    """
    if rate == 1:
        return 1.0
    share = mu**2 / (4 * rate**2 * steps)
    return share / math.asinh(share)


def residual_square(loss: LinearModelLoss) -> float:
    """Return a typical squared slope over the typical curvature: 1 for classes, as for a likelihood that fits."""
    if loss.task == "classification":
        return 1.0
    residual = RESIDUAL * 2 * math.sqrt(2 * loss.value_at_zero)
    return min(residual, loss.slope_bound) ** 2 / typical_curvature(loss)


def step_work(problem: LinearModelProblem, rate: float) -> float:
    """Return what one step costs, in entries of the data read in order.

    Parameters
    ----------
    problem : LinearModelProblem
    rate : float
        In (0, 1].
    """
    outputs, dim = problem.loss.n_outputs, problem.domain.dim
    entries = dim * (1 + outputs / 8)
    of_record = entries if rate == 1 else rate * (GATHER * entries + PICK)
    return problem.n * of_record + NOISE * outputs * dim + STEP


def quadratic_bound(steps: Steps, problem: LinearModelProblem, variance: float, l2: float = 0.0) -> float:
    """Return the largest expected excess on quadratic risks of at most half the largest curvature, without clipping.

    Parameters
    ----------
    steps : Steps
    problem : LinearModelProblem
        The minimiser has at most the norm `problem.radius`.
    variance : float
        Mean squared length of the error of one gradient.
    l2 : float
        Ridge weight.
    """
    curvature = l2 + np.concatenate([[0.0], np.geomspace(1e-9, 0.5, 100)]) * unit_curvature(problem)
    missed, spread = steps.response(curvature)
    bias = float(np.max(curvature * np.square(missed))) * problem.radius**2 / 2
    return bias + float(np.max(curvature * spread)) * variance / 2


def typical_levels(problem: LinearModelProblem, weights: FloatArray) -> tuple[tuple[float, float], ...]:
    """Return clipping levels in units of the longest gradient, and their costs.

    Parameters
    ----------
    problem : LinearModelProblem
    weights : array of shape (dim,)
        What each squared feature counts in a record's length.
    """
    loss, typical = problem.loss, typical_length(problem.domain, weights)
    unit = min(1.0, loss.value_at_zero / math.log(2))  # measured for two classes
    levels = RESIDUALS if _has_residuals(loss) else LEVELS
    levels = levels if loss.usual == loss else levels[-2:]  # short slopes already stand in for short levels
    found = [(min(1.0, level * typical), cost * unit if level * typical < 1 else 0.0) for level, cost in levels]
    return tuple(dict(found).items())


def typical_length(domain: DataDomain, weights: FloatArray) -> float:
    """Return a typical record's length over the largest, numeric columns being uniform.

    Parameters
    ----------
    domain : DataDomain
    weights : array of shape (dim,)
        What each squared feature counts; equal inside a block.
    """
    blocks = domain.all_blocks
    size = np.array([block.size for block in blocks])
    square = np.array([block.l2**2 for block in blocks]) * weights[np.cumsum(size) - size]
    share = np.array([MIDDLE if block.norm == "linf" else 1.0 for block in blocks])
    return math.sqrt(float(share @ square) / float(square.sum()))


def slope_unit(loss: LinearModelLoss) -> float:
    """Return the largest slope, for losses of residuals with a range the one at twice the largest residual of 0."""
    return min(loss.slope_bound, _steepest(loss)) if _has_residuals(loss) else loss.slope_bound


def _steepest(loss: LinearModelLoss) -> float:
    return 2 * math.sqrt(2 * loss.curvature_bound * loss.value_at_zero)


def _has_residuals(loss: LinearModelLoss) -> bool:
    """Whether slopes shrink with residuals, of a known range, over that whole range."""
    known = math.isfinite(loss.value_at_zero) and math.isfinite(loss.curvature_bound)
    return loss.task == "regression" and known and _steepest(loss) <= loss.slope_bound * (1 + 1e-9)


def unit_curvature(problem: LinearModelProblem) -> float:
    """Return the risk's largest curvature; for losses with kinks a typical density of them in place of a bound."""
    if math.isfinite(problem.smoothness):
        return problem.smoothness
    return typical_curvature(problem.loss) / CONFIDENT * problem.domain.l2**2


def _counts(problem: LinearModelProblem, rate: float) -> tuple[int, ...]:
    """Numbers of steps; on samples as many as take no longer than the most on all records."""
    outputs = problem.loss.n_outputs
    read = problem.n * problem.domain.dim * (1 + outputs / 8)
    most = min(MOST_STEPS, max(FEW, WORK / read))
    if rate < 1:
        most = min(
            MOST_SAMPLED, max(2.0, 2 ** int(math.log2(most)) * step_work(problem, 1.0) / step_work(problem, rate))
        )
    return tuple(2**k for k in range(1, int(math.log2(most)) + 1))


def _averaged(count: int) -> list[int]:
    return [max(1, math.ceil(tail * count)) for tail in TAILS]


@lru_cache(maxsize=16)
def _table(counts: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Missed shares and noise over eta^2 by number of steps, last point or mean, momentum and x."""
    with np.errstate(all="ignore"):
        sums = _sums(_PRODUCTS, np.array(MOMENTA), max(counts))
        both = np.array([[_tail(sums, _PRODUCTS, T, averaged) for averaged in _averaged(T)] for T in counts])
    return both[:, :, 0], both[:, :, 1]


def _sums(products: FloatArray, momenta: FloatArray, count: int) -> FloatArray:
    """Partial sums of ``a_j / eta``, shape (count + 1, momenta, products)."""
    m = momenta[:, None]
    moved = -np.ones((len(momenta), len(products)))
    speed = moved
    sums = [np.zeros_like(moved)]
    for _ in range(count):
        sums.append(sums[-1] + moved)
        speed = m * speed - products * (moved + m * speed)
        moved = moved + speed
    return np.array(sums)


def _tail(sums: FloatArray, products: FloatArray, count: int, averaged: int) -> tuple[FloatArray, FloatArray]:
    """Missed share and noise over eta^2 of the mean of the last points."""
    age = np.arange(1, count + 1)
    weight = (sums[age] - sums[np.maximum(age - averaged, 0)]) / averaged
    missed = 1 + products * sums[count - averaged + 1 : count + 1].mean(0)
    return missed, np.square(weight).sum(0)
