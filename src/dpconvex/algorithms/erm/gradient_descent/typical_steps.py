r"""Steps with constant momentum, and the choice of their constants for typical data. Arithmetic on public facts alone.

From 0, ``v <- m v - eta (g(w + m v) + noise)``, ``w <- w + v`` (Nesterov's momentum, m constant); the mean of the last
points, or the last one, is released. Along a direction of curvature c an error of 1 in a gradient moves the point j
steps later by ``a_j``, which depends on ``x = eta c`` and m only, so sums are tabulated (docs, Noisy gradient descent).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from dpconvex._types import Floats, final_dataclass
from dpconvex.losses import LinearModelLoss
from dpconvex.problems import DataDomain, LinearModelProblem
from dpconvex.problems.linear.expected_risk import ORDINARY, typical_curvature

_PRODUCTS = np.geomspace(1e-9, 2.0, 300)  #: Values of ``x = eta c`` in the table.


@final_dataclass
class Tuning:
    """Values that the choice tries, and constants it relies on, measured on simulated tables and Adult (docs)."""

    momenta: tuple[float, ...] = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98)
    # Step sizes times the largest curvature. Up to 2: curvatures of at most half the largest are stable, and beyond
    # that the length of clipped gradients limits how far a run can swing.
    step_sizes: tuple[float, ...] = tuple(2.0**-k for k in range(-1, 11))
    # Shares of the last points that are averaged; 0: the last point alone is released.
    averaged_shares: tuple[float, ...] = (0.0, 0.5)
    # The cheapest steps are taken whose expected excess is at most this factor above the least.
    tolerated_excess: float = 1.02
    # The choice assumes this many times the signal of typical data: strong signals lose more by short runs.
    signal_factor: float = 2.0
    # Pairs: a clipping level over `slope_unit` times a typical record's length, and the excess that clipping costs.
    clipping_levels: tuple[tuple[float, float], ...] = ((0.5, 0.02), (0.7, 0.004), (1.0, 0.0007), (1.5, 0.0))
    # Such pairs for smooth losses of residuals, which are short once a model fits.
    residual_levels: tuple[tuple[float, float], ...] = ((0.2, 0.003), (0.35, 0.0006), (0.5, 0.0))
    most_steps: int = 256
    # Most entries of the data that all passes together may read, and a number of passes that is always allowed.
    most_entries_read: float = 1e10
    least_passes: int = 32
    sampling_rates: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01)
    most_sampled_steps: int = 2048
    # Steps read samples if their expected excess is below this share of the least excess on all records.
    sampling_gain: float = 0.9
    # Times in units of reading an entry in order (about 1 ns): to gather and clip an entry of a sampled record, to pick
    # a record, to draw one coordinate's exact noise, and to take a step on no data at all.
    gathering_time: float = 4.0
    picking_time: float = 100.0
    noise_time: float = 13_000.0
    step_time: float = 1e6


TUNING = Tuning()


@final_dataclass
class Steps:
    """Constants of one run of steps with momentum."""

    count: int  #: T, at least 1
    size: float  #: eta
    momentum: float  #: m in [0, 1)
    averaged: int  #: How many of the last points are averaged, at least 1

    def minimize(self, start: Floats, noisy: Callable[[Floats], Floats], project: Callable[[Floats], Floats]) -> Floats:
        """Return the mean (dim,) of the last projected points, given a function that returns noisy gradients."""
        w, velocity, total = start, np.zeros_like(start), np.zeros_like(start)
        for t in range(self.count):
            velocity = self.momentum * velocity - self.size * noisy(w + self.momentum * velocity)
            w = project(w + velocity)
            if t >= self.count - self.averaged:
                total += w
        return total / self.averaged

    def response(self, curvature: Floats) -> tuple[Floats, Floats]:
        """Return, by curvature (g,), the missed share of the minimizer, and the variance from unit gradient noise."""
        with np.errstate(all="ignore"):
            sums = _sums(self.size * curvature, np.array([self.momentum]), self.count)[:, 0]
            missed, noise = _tail(sums, self.size * curvature, self.count, self.averaged)
            return missed, self.size**2 * noise


def _sums(products: Floats, momenta: Floats, count: int) -> Floats:
    """Return partial sums of ``a_j / eta``, shape (count + 1, momenta, products)."""
    m = momenta[:, None]
    moved = -np.ones((len(momenta), len(products)))
    speed = moved
    sums = [np.zeros_like(moved)]
    for _ in range(count):
        sums.append(sums[-1] + moved)
        speed = m * speed - products * (moved + m * speed)
        moved = moved + speed
    return np.array(sums)


def _tail(sums: Floats, products: Floats, count: int, averaged: int) -> tuple[Floats, Floats]:
    """Return, for the mean of the last points, the missed share of the minimizer and the variance over eta^2."""
    age = np.arange(1, count + 1)
    weight = (sums[age] - sums[np.maximum(age - averaged, 0)]) / averaged
    return 1 + products * sums[count - averaged + 1 : count + 1].mean(0), np.square(weight).sum(0)


def _averaged(count: int) -> list[int]:
    return [max(1, math.ceil(tail * count)) for tail in TUNING.averaged_shares]


@lru_cache(maxsize=16)
def _table(counts: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return missed shares and variances over eta^2, both (counts, averaged shares, momenta, values of x)."""
    with np.errstate(all="ignore"):
        sums = _sums(_PRODUCTS, np.array(TUNING.momenta), max(counts))
        both = np.array([[_tail(sums, _PRODUCTS, T, averaged) for averaged in _averaged(T)] for T in counts])
    return both[:, :, 0], both[:, :, 1]


def _effects(
    problem: LinearModelProblem, noise: Floats, counts: tuple[int, ...], l2: float, signal: float
) -> tuple[Floats, Floats, Floats, float]:
    """Return excess losses (counts, tails, momenta, step sizes) by bias, noise and sampling; and that of zero."""
    typical = problem.typical
    curvature = typical.curvature + l2
    kept = np.square(typical.curvature / curvature)  # the ridge leaves this share of the minimizer's square
    weight = typical.worth * typical.count * curvature / 2
    bias = signal * weight * typical.signal * kept
    sizes = np.array(TUNING.step_sizes) / (unit_curvature(problem) + l2)
    place = np.searchsorted(_PRODUCTS, np.multiply.outer(sizes, curvature)).clip(0, len(_PRODUCTS) - 1)  # (rates, g)
    missed, spread = _table(counts)  # (counts, tails, momenta, products)
    with np.errstate(all="ignore"):  # unstable steps
        biases = (np.square(missed)[..., place] * bias).sum(-1)
        spread = spread[..., place]
        noises = (spread * weight * typical.variances(noise)).sum(-1) * np.square(sizes)
        variance = weight * typical.curvature * residual_square(problem) / problem.n
        drawn = (spread * variance).sum(-1) * np.square(sizes)
    return biases, noises, drawn, float(bias.sum())


def dearer(mu: float, steps: int, rate: float) -> float:
    """Return a close estimate of the noise variance of steps at a sampling rate, over that of steps on all units."""
    if rate == 1:
        return 1.0
    share = mu**2 / (4 * rate**2 * steps)
    return share / math.asinh(share)


def residual_square(problem: LinearModelProblem) -> float:
    """Return a typical squared slope over the typical curvature; for classes 1, as for the right log-likelihood."""
    loss = problem.loss
    if loss.task == "classification":
        return 1.0
    residual = (problem.residual or ORDINARY.residual_deviation) * 2 * math.sqrt(2 * loss.value_at_zero)
    return min(residual, loss.slope_bound) ** 2 / typical_curvature(loss)


def unit_curvature(problem: LinearModelProblem) -> float:
    """Return the risk's largest curvature; for losses with kinks, estimated from a typical density of kinks."""
    if math.isfinite(problem.smoothness):
        return problem.smoothness
    return typical_curvature(problem.loss) / ORDINARY.decided_curvature * problem.domain.l2**2


def quadratic_bound(steps: Steps, problem: LinearModelProblem, variance: float, l2: float) -> float:
    """Return the largest expected excess on quadratic risks of at most half the largest curvature, without clipping."""
    curvature = l2 + np.concatenate([[0.0], np.geomspace(1e-9, 0.5, 100)]) * unit_curvature(problem)
    missed, spread = steps.response(curvature)
    bias = float(np.max(curvature * np.square(missed))) * problem.radius**2 / 2
    return bias + float(np.max(curvature * spread)) * variance / 2


def typical_levels(problem: LinearModelProblem, weights: Floats) -> tuple[tuple[float, float], ...]:
    """Return clipping levels over the longest gradient's length, and their costs; `weights` as in `typical_length`."""
    loss, typical = problem.loss, typical_length(problem.domain, weights)
    unit = min(1.0, loss.value_at_zero / math.log(2))  # costs were measured for two classes, where zero loses log 2
    typical *= max(1.0, (problem.residual or 0.0) / ORDINARY.residual_in_part)  # longer for yes and no
    levels = TUNING.residual_levels if _has_residuals(loss) else TUNING.clipping_levels
    levels = levels if loss.usual == loss else levels[-2:]  # a capped loss has short gradients: no low level is needed
    found = [(min(1.0, level * typical), cost * unit if level * typical < 1 else 0.0) for level, cost in levels]
    return tuple(dict(found).items())


def typical_length(domain: DataDomain, weights: Floats) -> float:
    """Return a typical record's length over the largest length; squares are weighed by `weights` (dim,)."""
    blocks = domain.all_blocks
    size = np.array([block.size for block in blocks])
    square = np.array([block.l2**2 for block in blocks]) * weights[np.cumsum(size) - size]
    share = np.array([1 / 3 if block.norm == "linf" else 1.0 for block in blocks])  # mean square on [-1, 1]
    return math.sqrt(float(share @ square) / float(square.sum()))


def slope_unit(loss: LinearModelLoss) -> float:
    """Return the largest slope; for losses of bounded residuals, the slope at twice zero's largest residual."""
    return min(loss.slope_bound, _steepest(loss)) if _has_residuals(loss) else loss.slope_bound


def _steepest(loss: LinearModelLoss) -> float:
    return 2 * math.sqrt(2 * loss.curvature_bound * loss.value_at_zero)


def _has_residuals(loss: LinearModelLoss) -> bool:
    """Whether targets have a known range, over all of which slopes shrink with residuals."""
    known = math.isfinite(loss.value_at_zero) and math.isfinite(loss.curvature_bound)
    return loss.task == "regression" and known and _steepest(loss) <= loss.slope_bound * (1 + 1e-9)


def step_work(problem: LinearModelProblem, rate: float) -> float:
    """Return the time of one step at a rate in (0, 1], in units of the time to read one entry of the data in order."""
    outputs, dim = problem.loss.n_outputs, problem.domain.dim
    entries = dim * (1 + outputs / 8)
    of_record = entries if rate == 1 else rate * (TUNING.gathering_time * entries + TUNING.picking_time)
    return problem.n * of_record + TUNING.noise_time * outputs * dim + TUNING.step_time


def _counts(problem: LinearModelProblem, rate: float) -> tuple[int, ...]:
    """Return the numbers of steps to try; on samples they take no longer than the most steps on all records."""
    read = problem.n * problem.domain.dim * (1 + problem.loss.n_outputs / 8)
    most = min(TUNING.most_steps, max(TUNING.least_passes, TUNING.most_entries_read / read))
    if rate < 1:
        as_long = 2 ** int(math.log2(most)) * step_work(problem, 1.0) / step_work(problem, rate)
        most = min(TUNING.most_sampled_steps, max(2.0, as_long))
    return tuple(2**k for k in range(1, int(math.log2(most)) + 1))


@final_dataclass
class Choice:
    """The chosen steps and clipping level, and the errors expected of them on typical data."""

    steps: Steps
    level: float  #: Clipping level, over the largest slope times the largest record's length
    expected: float  #: Expected excess loss on typical data
    rate: float  #: Probability with which a unit takes part in a step
    noise: float  #: The part of `expected` that comes from noise


def choose(
    problem: LinearModelProblem, noise: Floats,
    *, mu: float, levels: Sequence[tuple[float, float]], steps: int | None, l2: float, rates: Sequence[float],
    signal: float = 1.0, bold: float = TUNING.signal_factor,
) -> Choice:  # fmt: skip
    """Return the constants with the least expected excess on typical data; samples only if they gain enough.

    `noise` (dim,) are the deviations of one gradient over all records at level 1 that spends all of `mu`. `levels` are
    pairs of a level and the excess that clipping costs a full fit. `steps` is T, or None. `rates` are probabilities to
    take part in a step. Squared coefficients are `signal` times the typical ones; the choice assumes `bold` times it.
    """
    counts = {rate: (steps,) if steps else _counts(problem, rate) for rate in rates}
    effects = _effects(problem, noise, max(counts.values(), key=len), l2, signal)
    facts = problem, effects, mu, levels
    found = [option for rate in rates for option in _options(*facts, counts[rate], l2, rate, bold)]
    whole, sampled = ([pair for pair in found if (pair[1].rate < 1) == below] for below in (False, True))
    gain = sampled and (not whole or _least(sampled) < TUNING.sampling_gain * _least(whole))
    options = sampled if gain else whole
    enough = TUNING.tolerated_excess * _least(options)
    good = [(score, choice) for score, choice in options if not score > enough]
    return min(good, key=lambda pair: (pair[1].steps.count * step_work(problem, pair[1].rate), pair[0]))[1]


def _least(options: list[tuple[float, Choice]]) -> float:
    return min(score for score, _ in options)


def _options(
    problem: LinearModelProblem, effects: tuple[Floats, Floats, Floats, float], mu: float,
    levels: Sequence[tuple[float, float]], counts: tuple[int, ...], l2: float, rate: float, signal: float,
) -> Iterator[tuple[float, Choice]]:  # fmt: skip
    """Yield the score, and the best constants, for each level and number of steps."""
    typical, largest = problem.typical, unit_curvature(problem) + l2
    biases, noises, drawn = (effect[: len(counts)] for effect in effects[:3])
    shares = [count * dearer(mu, count, rate) for count in counts]  # steps share the budget
    with np.errstate(all="ignore"):
        noises = noises * np.array(shares)[:, None, None, None]
        drawn = drawn * (1 / rate - 1) if rate < 1 else np.zeros_like(drawn)
    for level, cost in levels:
        with np.errstate(all="ignore"):
            model = np.nan_to_num(signal * biases + level**2 * noises + drawn, nan=np.inf)
            total = model + cost * np.clip(1 - model / (signal * effects[3]), 0, 1)  # who learns little loses little
        best = total.reshape(len(counts), -1).argmin(1).tolist()
        for k, count in enumerate(counts):
            tail, m, r = np.unravel_index(best[k], total[k].shape)
            picked = Steps(count, TUNING.step_sizes[r] / largest, TUNING.momenta[m], _averaged(count)[tail])
            plain = total[k, tail, m, r] - (signal - 1) * biases[k, tail, m, r]
            loud = level**2 * float(noises[k, tail, m, r])
            yield float(total[k, tail, m, r]), Choice(picked, level, typical.bias + float(plain), rate, loud)
