r"""The exact privacy loss of runs: what was released on one data set is replayed on its neighbour.

A run turns private values into releases, one mechanism after another, and each value may depend on earlier releases. A
`Transcript` is everything that was released. Run the real listing on the first data set, note every value and release;
run it on the neighbour with *the same releases* and the same public coins, and note the values again. Then

    loss = sum over releases of log p(release | value) - log p(release | neighbour's value)

is the exact privacy loss of that transcript (the chain rule; `laws` gives the densities). A pure promise is refuted by
one transcript whose loss exceeds epsilon. Under (epsilon, delta) the mean of ``max(0, 1 - e^(epsilon - loss))`` over
runs on the first data set is the delta that is really needed, a number that is estimated with a confidence bound; if
all releases are Gaussian and their shifts do not depend on the transcript, it is a formula.

This sees sensitivities, scales, clipping, what is released and how often, at any epsilon and in any dimension. It
trusts the samplers, which `counting` does not. Public coins are held fixed: that can only reveal more than the claim
covers, so plans whose proof needs secret coins (sampled steps) are left to `counting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final
from unittest import mock

import numpy as np
from scipy.special import rel_entr

from dpconvex._types import FloatArray
from dpconvex.audit.laws import log_law
from dpconvex.audit.progress import Track, untracked
from dpconvex.errors import UnsupportedEventError
from dpconvex.mechanisms import (
    AboveThreshold,
    GaussianMechanism,
    Mechanism,
    ObjectiveNoise,
    OutlierRemoval,
    ThresholdSession,
    VertexSession,
)
from dpconvex.mechanisms.guarded_mean import GuardedMean
from dpconvex.privacy.ledger import Release
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta
from dpconvex.privacy.sampled_steps import SampledSteps
from dpconvex.problems.points import PointDomain, clip_points, weighted_mean
from dpconvex.randomness import BitSource, SeededSource

Run = Callable[..., Any]
"""``run(*data, source)``."""


@final
@dataclass
class Step:
    """One release: by which mechanism, of which private value, with which outcome."""

    mechanism: Any
    value: Any
    outcome: Any


@final
@dataclass(frozen=True, eq=False)
class Losses:
    """Privacy losses of transcripts.

    Parameters
    ----------
    losses : array of shape (transcripts,)
        Exact; ``inf`` where the neighbour cannot produce the transcript.
    mu : float or None
        If every release was Gaussian with a shift that was the same in all transcripts: the root of the sum of squared
        shifts in standard deviations. None otherwise.
    releases : int
        In the longest transcript.
    divergence : float
        Estimated mean loss, which ranks pairs: that of the shifts if all releases are Gaussian, else of the losses.
    """

    losses: FloatArray
    mu: float | None
    releases: int
    divergence: float


def privacy_losses(
    run: Run,
    first: tuple[Any, ...],
    second: tuple[Any, ...],
    count: int,
    seed: int = 0,
    track: Track = untracked,
) -> Losses:
    """Return the exact losses of `count` runs on `first` against `second`.

    Parameters
    ----------
    run : callable
        ``run(*data, source)``: the real listing.
    first, second : tuple
        Neighbouring data sets.
    count : int
        Transcripts.
    seed : int
        Of noise and coins: nothing here is private.
    track : callable
        Shows progress.

    Raises
    ------
    UnsupportedEventError
        If a mechanism has no known law, or releases nothing that could be replayed.
    """
    losses: list[float] = []
    squares: list[float] = []
    longest = 0
    for k in track(range(count), "Replaying transcripts"):
        source = (seed, k)
        steps = _observed(run, first, source, None)
        again = _observed(run, second, source, steps)
        losses.append(_loss(steps, again))
        squares.append(_square(steps, again))
        longest = max(longest, len(steps))
    same = max(squares) - min(squares) <= 1e-9 * max(squares)  # false for nan
    mean = float(np.mean(squares)) / 2
    divergence = float(np.mean(losses)) if math.isnan(mean) else mean
    return Losses(np.array(losses), math.sqrt(min(squares)) if same else None, longest, divergence)


def epsilon_of_losses(found: Losses, delta: float, error: float) -> float:
    """Return the lower bound on epsilon at `delta` that losses prove; exact for ``delta = 0`` and for Gaussians.

    Otherwise the first half of the losses picks an epsilon, and the second proves delta there by Chernoff's bound,
    wrong with probability at most `error`.

    Parameters
    ----------
    found : Losses
    delta : float
        The claimed one.
    error : float
        Probability with which the bound may be wrong.
    """
    if delta == 0:
        return float(np.abs(found.losses).max())  # a pure promise bounds the ratio from both sides
    if found.mu is not None:
        mu = found.mu
        return epsilon_of(lambda epsilon: gaussian_delta(epsilon, mu), delta) * (1 - 1e-9) if mu > 0 else 0.0
    half = len(found.losses) // 2
    grid = np.linspace(0, max(float(np.max(found.losses, where=np.isfinite(found.losses), initial=0.0)), 1e-9), 201)
    tuned = [e for e in grid[::4] if _least_delta(found.losses[:half], float(e), error) > delta]
    if not tuned:
        return -math.inf
    tested = float(max(tuned))
    return tested if _least_delta(found.losses[half:], tested, error) > delta else -math.inf


def replayable(releases: Iterable[Release]) -> bool:
    """Whether the guarantee of what a plan lists holds with its coins known: no steps on secret samples.

    Parameters
    ----------
    releases : iterable of Release
    """
    return all(release.event.kind != SampledSteps.kind for release in releases)


def _least_delta(losses: FloatArray, epsilon: float, error: float) -> float:
    """Chernoff's lower bound on a mean of numbers in [0, 1]: relative entropy at most ``log(1/error)/n``."""
    mean, allowed = float(-np.expm1(np.minimum(epsilon - losses, 0.0)).mean()), math.log(1 / error) / len(losses)
    low, high = 0.0, mean
    for _ in range(60):
        middle = (low + high) / 2
        entropy = float(rel_entr(mean, middle) + rel_entr(1 - mean, 1 - middle))
        low, high = (middle, high) if entropy > allowed else (low, middle)
    return low


def _loss(steps: list[Step], again: list[Step]) -> float:
    if [type(s.mechanism) for s in steps] != [type(s.mechanism) for s in again]:
        return math.inf  # the releases differ in kind or number
    total = 0.0
    for mine, other in zip(steps, again, strict=True):
        likely = log_law(mine.mechanism, mine.value, mine.outcome)
        total += likely - log_law(other.mechanism, other.value, mine.outcome)
    return total


def _square(steps: list[Step], again: list[Step]) -> float:
    """Sum of squared shifts in standard deviations; nan if a release was not Gaussian."""
    total = 0.0 if len(steps) == len(again) else math.nan
    for mine, other in zip(steps, again, strict=False):
        if not (isinstance(mine.mechanism, GaussianMechanism) and mine.mechanism == other.mechanism):
            return math.nan
        shift = (np.nan_to_num(mine.value) - np.nan_to_num(other.value)) / mine.mechanism.sigma
        total += float(shift @ shift)
    return total


def _observed(run: Run, data: tuple[Any, ...], source: tuple[int, int], script: list[Step] | None) -> list[Step]:
    tap = _Tap(script)
    with _tapped(tap):
        run(*data, _coins(source))
    return tap.steps


def _coins(key: tuple[int, int]) -> BitSource:
    return SeededSource(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]))


@final
class _Tap:
    """Notes steps; in a replay it also answers with the outcomes of the script."""

    def __init__(self, script: list[Step] | None) -> None:
        self.script = script
        self.steps: list[Step] = []
        self._sessions: dict[int, tuple[ThresholdSession, int]] = {}  # and the places of their steps

    def meet(self, mechanism: Any, value: Any, fresh: Any) -> Any:
        """Note a release and return its outcome."""
        place = len(self.steps)
        outcome = fresh
        if self.script is not None and place < len(self.script):
            scripted = self.script[place]
            if type(scripted.mechanism) is type(mechanism):
                outcome = scripted.outcome
        self.steps.append(Step(mechanism, value, outcome))
        return outcome

    def ask(self, session: ThresholdSession, mechanism: Any, value: float, fresh: bool) -> bool:
        """Note a query of a session, which is one release as a whole, and return the answer."""
        if id(session) not in self._sessions:
            self._sessions[id(session)] = (session, len(self.steps))
            self.steps.append(Step(mechanism, [], 0))
        place = self._sessions[id(session)][1]
        step, answer = self.steps[place], fresh
        step.value.append(float(np.nan_to_num(value)))
        scripted = self.script[place] if self.script is not None and place < len(self.script) else None
        if scripted is not None and isinstance(scripted.mechanism, AboveThreshold):
            answer = len(step.value) - 1 == scripted.outcome
        step.outcome += not answer
        return answer


@contextmanager
def _tapped(tap: _Tap) -> Iterator[None]:
    """Stand between every mechanism and its caller."""
    release, draw, query, guarded = Mechanism.release, VertexSession.draw, ThresholdSession.query, GuardedMean.draw

    def released(self: Any, value: Any, *args: Any, **options: Any) -> Any:
        fresh = release(self, value, *args, **options)
        if isinstance(self, AboveThreshold):
            return fresh  # its queries were met one by one
        return tap.meet(self, np.array(value, dtype=np.float64), fresh)

    def drawn(self: VertexSession, scores: FloatArray, count: int = 1) -> Any:
        return tap.meet(self._mechanism, np.array(scores), draw(self, scores, count))

    def queried(self: ThresholdSession, value: float) -> bool:
        answer = tap.ask(self, self._mechanism, value, query(self, value))
        self.open = not answer
        return answer

    def guarded_draw(self: Any, points: Any, radius: float, clip: float, source: BitSource) -> Any:
        fresh = guarded(self, points, radius, clip, source)
        if isinstance(self, OutlierRemoval):
            raise UnsupportedEventError("outlier removal draws secret coins: audit by counting")
        length = self.unit_length(radius, clip)
        inside = clip_points(points, PointDomain(self.dim, clip, clip / 2))
        score, weights = self._examine(inside, radius, source)
        return tap.meet(self, (score, weighted_mean(inside, weights), length), fresh)

    def hidden(self: Any, *args: Any, **options: Any) -> Any:
        raise UnsupportedEventError("noise inside an objective is not released: audit its density")

    with (
        mock.patch.object(Mechanism, "release", released),
        mock.patch.object(VertexSession, "draw", drawn),
        mock.patch.object(ThresholdSession, "query", queried),
        mock.patch.object(GuardedMean, "draw", guarded_draw),
        mock.patch.object(ObjectiveNoise, "draw", hidden),
    ):
        yield
