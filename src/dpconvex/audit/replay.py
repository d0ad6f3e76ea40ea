r"""The exact privacy loss of runs: what was released on one data set is replayed on its neighbour.

A run turns private values into releases, one mechanism after another, and each value may depend on earlier releases. A
`Transcript` is everything that was released. Run the real listing on the first data set, note every value and release;
run it on the neighbour with *the same releases* and the same public coins, and note the values again. Then

    loss = sum over releases of log p(release | value) - log p(release | neighbour's value)

is the exact privacy loss of that transcript (the chain rule; `laws` gives the densities). A pure promise is refuted by
one transcript whose loss exceeds epsilon; what losses prove about (epsilon, delta) is in `bounds`.

This sees sensitivities, scales, clipping, what is released and how often, at any epsilon and in any dimension. It
trusts the samplers, which `counting` does not. Public coins are held fixed: that can only reveal more than the claim
covers, so plans whose proof needs secret coins are left to `sampled` and `counting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, final
from unittest import mock

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.audit.bounds import Losses
from dpconvex.audit.laws import log_law
from dpconvex.audit.progress import Track, untracked
from dpconvex.errors import UnsupportedEventError
from dpconvex.mechanisms import (
    AboveThreshold,
    BestOfRepeats,
    GaussianMechanism,
    Mechanism,
    ObjectiveNoise,
    OutlierRemoval,
    SampledSession,
    ThresholdSession,
    VertexSession,
)
from dpconvex.mechanisms.test_and_release import GuardedMean
from dpconvex.problems.data.points import PointDomain, clip_points, weighted_mean
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
        steps, again = replayed(run, first, second, (seed, k))
        losses.append(_loss(steps, again))
        squares.append(_square(steps, again))
        longest = max(longest, len(steps))
    return Losses(np.array(losses), np.array(squares), longest)


def replayed(
    run: Run, first: tuple[Any, ...], second: tuple[Any, ...], key: tuple[int, int]
) -> tuple[list[Step], list[Step]]:
    """Return the steps of one run on `first`, and those of a run on `second` with the same releases and coins.

    Parameters
    ----------
    run, first, second
        As in `privacy_losses`.
    key : tuple of int
        Seed, and number of the transcript.
    """
    steps = observed(run, first, coins(key), None)
    return steps, observed(run, second, coins(key), steps)


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


def observed(run: Run, data: tuple[Any, ...], source: BitSource, script: list[Step] | None) -> list[Step]:
    """Return the steps of one run; with a script, its releases.

    Parameters
    ----------
    run : callable
    data : tuple
        Arguments before the source.
    source : BitSource
        Of noise and coins.
    script : list of Step or None
    """
    tap = _Recorder(script)
    with tapped(tap):
        run(*data, source)
    return tap.steps


def coins(key: tuple[int, int]) -> BitSource:
    """Return the seeded source of a transcript.

    Parameters
    ----------
    key : tuple of int
        Seed, and number of the transcript.
    """
    return SeededSource(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]))


class Tap(Protocol):
    """Stands between mechanisms and their callers."""

    def meet(self, mechanism: Any, value: Any, fresh: Any) -> Any:
        """Return the outcome of a release of `value`; `fresh` was sampled."""
        ...

    def ask(self, session: ThresholdSession, mechanism: Any, value: float, fresh: bool) -> bool:
        """Return the answer to a query of a session, which is one release as a whole."""
        ...


@final
class _Recorder:
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
def tapped(tap: Tap) -> Iterator[None]:
    """Put a tap between every mechanism and its caller.

    Parameters
    ----------
    tap : Tap
    """
    release, draw, query, guarded = Mechanism.release, VertexSession.draw, ThresholdSession.query, GuardedMean.draw
    noisy = SampledSession._noisy

    def released(self: Any, value: Any, *args: Any, **options: Any) -> Any:
        fresh = release(self, value, *args, **options)
        if isinstance(self, AboveThreshold):
            return fresh  # its queries were met one by one
        return tap.meet(self, np.array(value, dtype=np.float64), fresh)

    def drawn(self: VertexSession, scores: FloatArray, count: int = 1) -> Any:
        return tap.meet(self._mechanism, np.array(scores), draw(self, scores, count))

    def on_sample(self: SampledSession, value: FloatArray) -> Any:
        return tap.meet(self._mechanism.step, np.array(value, dtype=np.float64), noisy(self, value))

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

    def lost(self: Any, *args: Any, **options: Any) -> Any:
        raise UnsupportedEventError("runs that lose are not released: audit by counting")

    with (
        mock.patch.object(Mechanism, "release", released),
        mock.patch.object(VertexSession, "draw", drawn),
        mock.patch.object(SampledSession, "_noisy", on_sample),
        mock.patch.object(ThresholdSession, "query", queried),
        mock.patch.object(GuardedMean, "draw", guarded_draw),
        mock.patch.object(ObjectiveNoise, "draw", hidden),
        mock.patch.object(BestOfRepeats, "release", lost),
    ):
        yield
