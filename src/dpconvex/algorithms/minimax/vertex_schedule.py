r"""Iterations, samples, batch sizes and steps of Algorithm 1, from public facts alone.

The explicit bound on the expected gap is that of the docs (Saddle points), for blocks b of half range ``L_b`` and step
``t_b``. Bilinear games re-use the query points and, with equal weights, do not pay the price of fresh output draws.
Tapered outputs have no proved bound.

Privacy: a record of batch r enters all later scores once, so each of the ``m_r`` draws made after batch r has range at
most ``t_b spread_b/|B_r|`` in block b, and ``max_r (m_r/|B_r|^2) sum_b (t_b spread_b)^2/8`` is the zCDP cost.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import Floats
from dpconvex.algorithms.minimax.base import affordable, batch_sizes
from dpconvex.errors import InvalidParameterError
from dpconvex.problems import SimplexSaddle

MOST_SAMPLES = 4096  # largest K that is considered


@final
@dataclass(frozen=True)
class Tuning:
    """What was measured on simulated games (docs, Saddle points); it enters choices only, never the privacy."""

    slack_share: float = 1 / 16  #: what sampling costs (bias and output terms), as a share of its bound
    # The same for the terms (5/2) t_b L_b^2 of noisy gradients. Averages with equal weights of bilinear games keep the
    # whole term: larger steps make the path cycle, and such an average depends on where in a cycle it stops.
    noise_share: float = 1 / 8
    # Share of the iterations over which the weights of a tapered output rise, and again fall. A path that cycles around
    # the saddle point is averaged out by weights without jumps; the rise also leaves out the start.
    ramp: float = 1 / 3
    gap_share: float = 1 / 4  #: measured gap as a share of the score, for `Schedule.expected`


TUNING = Tuning()


@final
@dataclass(frozen=True, eq=False)
class Layout:
    """Which draws follow which batch."""

    T: int  #: iterations, at least 2: gradients at all but the last
    K: int  #: draws for one query point
    reuse: bool  #: whether the output averages the query points themselves, or one fresh draw of each iterate
    balanced: bool  #: whether early batches, to whose records more draws are exposed, are larger
    pure: bool = False  #: whether ranges are summed instead of their squares
    tapered: bool = False  #: whether the output's weights rise from 0 and fall again; free: its points are released

    @cached_property
    def output_weights(self) -> Floats:
        """Weights of the released points in the output, shape (T,); they sum to 1."""
        place = (np.arange(self.T) + 0.5) / self.T
        weights = np.minimum(1.0, np.minimum(place, 1 - place) / TUNING.ramp) if self.tapered else np.ones(self.T)
        return weights / weights.sum()

    @cached_property
    def draws_after(self) -> NDArray[np.int64]:
        """Draws in each block after each of the T - 1 batches, shape (T - 1,)."""
        left = self.T - np.arange(1, self.T)
        return self.K * left if self.reuse else (self.K + 1) * (left - 1) + 1  # the last query point is not drawn

    @property
    def draws(self) -> int:
        """Draws in each block, all together."""
        return self.K * self.T if self.reuse else (self.K + 1) * self.T - self.K

    @cached_property
    def _exposed(self) -> Floats:
        """Roots of the draws that follow each batch, or for pure privacy their numbers."""
        exposed = self.draws_after.astype(np.float64)
        return exposed if self.pure else np.sqrt(exposed)

    @property
    def _weights(self) -> Floats:
        return self._exposed if self.balanced else np.ones(self.T - 1)

    def sizes(self, n: int) -> NDArray[np.int64]:
        """Return the batch sizes, shape (T - 1,)."""
        return batch_sizes(n, self._weights)

    def exposure(self, sizes: NDArray[np.int64]) -> float:
        """Largest of ``sqrt(m_r)/|B_r|``, or of ``m_r/|B_r|`` for pure privacy."""
        return float((self._exposed / sizes).max())

    def roughly(self, n: int) -> float:
        """`exposure` before rounding to whole records."""
        level = max(n - (self.T - 1) / 2, 1.0) / float(self._weights.sum())
        return float((self._exposed / self._weights).max()) / level


@final
@dataclass(frozen=True)
class Bound:
    """The explicit bound for a problem, with or without re-used outputs."""

    problem: SimplexSaddle
    reuse: bool
    noise_share: float = TUNING.noise_share  #: weights of terms in the score; 1 to minimize the bound itself
    slack_share: float = TUNING.slack_share

    @property
    def ells(self) -> tuple[float, float]:
        """Logarithms of the numbers of vertices."""
        return math.log(self.problem.dx), math.log(self.problem.dy)

    @property
    def single(self) -> bool:
        """Whether there is no maximization."""
        return self.problem.dy == 1

    def best_steps(self, T: int) -> tuple[float, float]:
        """Steps that minimize the score if privacy allows them."""
        factor = (2.0 if self.single else 0.8) / self.noise_share
        return tuple(  # pyright: ignore[reportReturnType]
            math.sqrt(factor * ell / T) / L if ell and L else 0.0
            for ell, L in zip(self.ells, self.problem.lipschitz, strict=True)
        )

    def steps(self, T: int, cap: float, pure: bool) -> tuple[float, float]:
        """Return nearly the best steps within ``(sum_b (t_b spread_b)^p)^(1/p) <= cap``, p = 1 or 2."""
        best, spread = self.best_steps(T), self.problem.spread
        # Where the cap binds, ``(l_b/spread_b^p)^(1/(1+p))`` minimizes ``sum l_b/t_b``.
        norm = 1 if pure else 2
        if float(np.linalg.norm(np.multiply(best, spread), norm)) <= cap:
            return best
        pairs = zip(self.ells, spread, strict=True)
        shape = [(ell / s**norm) ** (1 / (1 + norm)) if ell and s else 0.0 for ell, s in pairs]
        scale = cap / float(np.linalg.norm(np.multiply(shape, spread), norm))
        found = [scale * value if s else b for value, s, b in zip(shape, spread, best, strict=True)]
        for b, other in ((0, 1), (1, 0)):
            if found[b] > best[b] and spread[other]:
                rest = cap**norm - (best[b] * spread[b]) ** norm
                found[b], found[other] = best[b], min(best[other], max(rest, 0.0) ** (1 / norm) / spread[other])
                break
        return found[0], found[1]

    def bias(self, K: int) -> float:
        """Bound on the bias of gradients at averages of K vertices, times the diameter."""
        problem, joint = self.problem, 1.0 if self.single else 2.0
        if problem.bilinear or problem.second_smoothness == 0:
            return 0.0
        second = 2 * joint * problem.second_smoothness / K
        first = 4 * math.sqrt(joint) * problem.smoothness / math.sqrt(K)
        return 2 * joint * min(second, first, 2 * max(problem.lipschitz))

    def _regret(self, T: int, steps: tuple[float, float], noise_share: float) -> float:
        """First terms of the bound; infinite where a step is 0 that may not be."""
        total = 0.0
        twice, square = (1.0, 0.5) if self.single else (2.0, 2.5)
        for ell, step, L in zip(self.ells, steps, self.problem.lipschitz, strict=True):
            if ell and L:
                total += twice * ell / (step * T) + square * noise_share * step * L**2 if step > 0 else math.inf
        return total

    def slack(self, T: int, K: int) -> float:
        """Return the other terms, what sampling costs."""
        if self.reuse:
            return self.bias(K)
        ell, smooth = sum(self.ells), min(self.problem.smoothness, 1e300)
        # Lemma 3.11 with 4 L1 sqrt(l/T): erratum E4.
        output = 2 * smooth / T if self.single else 4 * smooth / T + 4 * smooth * math.sqrt(ell / T)
        return self.bias(K) + min(output, 2 * sum(self.problem.lipschitz))

    def value(self, T: int, K: int, steps: tuple[float, float]) -> float:
        """Return the bound; infinite for re-used outputs of a game that is not bilinear, where none is proved."""
        proved = self.problem.bilinear or not self.reuse
        return self._regret(T, steps, 1.0) + self.slack(T, K) if proved else math.inf

    def score(self, T: int, K: int, steps: tuple[float, float]) -> float:
        """Return what is minimized over T and K: the bound with the measured shares of its terms."""
        return self._regret(T, steps, self.noise_share) + self.slack_share * self.slack(T, K)


@final
@dataclass(frozen=True, eq=False)
class Schedule:
    """Constants of one run."""

    layout: Layout
    sizes: NDArray[np.int64]  #: of the batches, (T - 1,)
    steps: tuple[float, float]  #: of x and of y
    bound: float  #: on the expected gap; infinite where none is proved: tapered, and re-used if not bilinear
    expected: float  #: gap by measurement: a share of the score, for comparisons only

    @classmethod
    def of(cls, layout: Layout, sizes: NDArray[np.int64], steps: tuple[float, float], bound: Bound) -> "Schedule":
        """Return the schedule with its errors."""
        T, K = layout.T, layout.K
        expected = TUNING.gap_share * Bound(bound.problem, bound.reuse).score(T, K, steps)
        return cls(layout, sizes, steps, math.inf if layout.tapered else bound.value(T, K, steps), expected)


def calibrated(
    problem: SimplexSaddle,
    budget: float,
    *,
    pure: bool,
    reuse: bool,
    balanced: bool = True,
    T: int | None = None,
    K: int | None = None,
    measured: bool = True,
    tapered: bool = False,
) -> Schedule:
    """Return the schedule of the smallest `Bound.score`; `budget` is ``sqrt(8 rho)``, with `pure` epsilon."""
    if problem.n < 2:
        raise InvalidParameterError("n", problem.n, "must be at least 2", "One record cannot be learned from privately")
    n, noise_share = problem.n, TUNING.noise_share if measured and (tapered or not problem.bilinear) else 1.0
    bound = Bound(problem, reuse, noise_share, TUNING.slack_share if measured else 1.0)
    candidates = [T] if T is not None else np.unique(np.geomspace(2, min(n, 10**6), 60).astype(int)).tolist()
    fixed = 1 if bound.bias(1) == 0 else None
    wanted = K if K is not None else fixed
    samples = [wanted] if wanted is not None else np.unique(np.geomspace(1, MOST_SAMPLES, 37).astype(int)).tolist()
    best = (math.inf, candidates[0], samples[0])
    for t in candidates:
        base = Layout(t, 1, reuse, balanced, pure).roughly(n)
        for k in samples:
            more = k if reuse else (k + 1) / 2  # of the draws, hence of squared ranges
            cap = budget / (base * (more if pure else math.sqrt(more)))
            best = min(best, (bound.score(t, k, bound.steps(t, cap, pure)), t, k))
    iterations = best[1]
    if T is None and not balanced:  # batches of equal size that use all records
        iterations = max(2, min(n, n // max(1, round(n / (best[1] - 1))) + 1))
    affordable(n, iterations)
    layout = Layout(iterations, best[2], reuse, balanced, pure, tapered)
    sizes = layout.sizes(n)
    steps = bound.steps(layout.T, budget / layout.exposure(sizes), pure)
    return Schedule.of(layout, sizes, steps, bound)
