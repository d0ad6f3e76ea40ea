r"""The exact privacy loss of runs: what was released on one data set is replayed on its neighbor (docs, Audits).

The real listing runs on the first data set, then on the neighbor with the same releases and public coins; losses of the
releases add up (chain rule; `laws` has the densities, `bounds` says what losses prove). Samplers are trusted. Public
coins are held fixed, which can only reveal more than the claim covers; plans whose proof needs secret coins are left
to counting, but for steps on secret samples.

Steps on secret samples (`sampled_losses`)
    Let the units that do not change be alike, and q = K/n. Given the earlier releases a step's outcome has the law
    ``(1 - q) p(outcome | changed unit out) + q p(outcome | changed unit in)``. The listing runs with coins as they
    fall, then with the same releases twice on each data set, the changed unit, the last one, drawn never and always;
    what the first run computed must be one of the two, or the pair is refused. In Poisson samples the law is the same
    given the others' coins, which the claim's proof grants. `participation` checks the rate.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, final
from unittest import mock

import numpy as np
from scipy.stats import beta

from dpconvex import mechanisms
from dpconvex._types import Floats
from dpconvex.errors import UnsupportedEventError
from dpconvex.mechanisms.gaussian import Sample
from dpconvex.privacy import PoissonSteps, Release, SampledSteps
from dpconvex.privacy.profiles import epsilon_of
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import clip_points, weighted_mean
from dpconvex.randomness import BitSource, SeededSource
from dpconvex_experiments.audit.bounds import Losses
from dpconvex_experiments.audit.laws import log_law
from dpconvex_experiments.base import Track, untracked
from dpconvex_experiments.reference.outlier_removal import OutlierRemoval

Run = Callable[..., Any]  #: ``run(*data, source)``.
Steps = SampledSteps | PoissonSteps  #: Events of steps each of which runs a mechanism on a fresh secret sample.


@final
@dataclass
class Step:
    """One release: by which mechanism, of which private value, with which outcome."""

    mechanism: Any
    value: Any
    outcome: Any


def privacy_losses(
    run: Run, first: tuple[Any, ...], second: tuple[Any, ...], count: int, seed: int = 0, track: Track = untracked
) -> Losses:
    """Return the exact losses of `count` runs on `first` against `second`.

    `run` is the real listing, ``run(*data, source)``; the seed is of noise and coins, as nothing here is private. A
    mechanism without a known law, or that releases nothing which could be replayed, raises `UnsupportedEventError`.
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
    """Return the steps of one run on `first`, and those of a run on `second` with the same releases and coins."""
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
    """Return the sum of squared shifts, in standard deviations; nan if a release was not Gaussian."""
    total = 0.0 if len(steps) == len(again) else math.nan
    for mine, other in zip(steps, again, strict=False):
        if not (isinstance(mine.mechanism, mechanisms.GaussianMechanism) and mine.mechanism == other.mechanism):
            return math.nan
        shift = (np.nan_to_num(mine.value) - np.nan_to_num(other.value)) / mine.mechanism.sigma
        total += float(shift @ shift)
    return total


def observed(run: Run, data: tuple[Any, ...], source: BitSource, script: list[Step] | None) -> list[Step]:
    """Return the steps of one run; with a script, its releases."""
    tap = _Recorder(script)
    with tapped(tap):
        run(*data, source)
    return tap.steps


def coins(key: tuple[int, int]) -> BitSource:
    """Return the seeded source of a transcript."""
    return SeededSource(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]))


class Tap(Protocol):
    """Stands between mechanisms and their callers."""

    def meet(self, mechanism: Any, value: Any, fresh: Any) -> Any:
        """Return the outcome of a release of `value`; `fresh` was sampled."""
        ...

    def ask(self, session: mechanisms.ThresholdSession, mechanism: Any, value: float, fresh: bool) -> bool:
        """Return the answer to a query of a session, which is one release as a whole."""
        ...


@final
class _Recorder:
    """Notes steps; in a replay it also answers with the outcomes of the script."""

    def __init__(self, script: list[Step] | None) -> None:
        self.script = script
        self.steps: list[Step] = []
        self._sessions: dict[int, tuple[mechanisms.ThresholdSession, int]] = {}  # and the places of their steps

    def meet(self, mechanism: Any, value: Any, fresh: Any) -> Any:
        place = len(self.steps)
        outcome = fresh
        if self.script is not None and place < len(self.script):
            scripted = self.script[place]
            if type(scripted.mechanism) is type(mechanism):
                outcome = scripted.outcome
        self.steps.append(Step(mechanism, value, outcome))
        return outcome

    def ask(self, session: mechanisms.ThresholdSession, mechanism: Any, value: float, fresh: bool) -> bool:
        if id(session) not in self._sessions:
            self._sessions[id(session)] = (session, len(self.steps))
            self.steps.append(Step(mechanism, [], 0))
        place = self._sessions[id(session)][1]
        step, answer = self.steps[place], fresh
        step.value.append(float(np.nan_to_num(value)))
        scripted = self.script[place] if self.script is not None and place < len(self.script) else None
        if scripted is not None and isinstance(scripted.mechanism, mechanisms.AboveThreshold):
            answer = len(step.value) - 1 == scripted.outcome
        step.outcome += not answer
        return answer


@contextmanager
def tapped(tap: Tap) -> Iterator[None]:
    """Put a tap between every mechanism and its caller."""
    release, draw = mechanisms.Mechanism.release, mechanisms.VertexSession.draw
    query, guarded = mechanisms.ThresholdSession.query, mechanisms.OneTest.draw
    noisy, summed = mechanisms.SampledSession._noisy, mechanisms.CohortMean.noisy
    counted = mechanisms.GaussianSession._noisy

    def released(self: Any, value: Any, *args: Any, **options: Any) -> Any:
        fresh = release(self, value, *args, **options)
        if isinstance(self, mechanisms.AboveThreshold):
            return fresh  # its queries were met one by one
        return tap.meet(self, np.array(value, dtype=np.float64), fresh)

    def drawn(self: mechanisms.VertexSession, scores: Floats, count: int = 1) -> Any:
        return tap.meet(self._mechanism, np.array(scores), draw(self, scores, count))

    def on_sample(self: mechanisms.SampledSession, value: Floats) -> Any:
        return tap.meet(self._mechanism.step, np.array(value, dtype=np.float64), noisy(self, value))

    def in_session(self: mechanisms.GaussianSession, each: mechanisms.GaussianMechanism, value: Floats) -> Any:
        return tap.meet(each, np.array(value, dtype=np.float64), counted(self, each, value))

    def queried(self: mechanisms.ThresholdSession, value: float) -> bool:
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

    def cohorts(self: mechanisms.CohortMean, excesses: Floats, means: Floats, length: float, source: BitSource) -> Any:
        fresh = summed(self, excesses, means, length, source)
        return tap.meet(self, (excesses, means, length), fresh)

    def hidden(*_: Any, **__: Any) -> Any:
        raise UnsupportedEventError("noise inside an objective is not released: audit its density")

    def lost(*_: Any, **__: Any) -> Any:
        raise UnsupportedEventError("runs that lose are not released: audit by counting")

    patch = mock.patch.object
    with (
        patch(mechanisms.Mechanism, "release", released), patch(mechanisms.VertexSession, "draw", drawn),
        patch(mechanisms.SampledSession, "_noisy", on_sample), patch(mechanisms.GaussianSession, "_noisy", in_session),
        patch(mechanisms.ThresholdSession, "query", queried), patch(mechanisms.OneTest, "draw", guarded_draw),
        patch(mechanisms.CohortMean, "noisy", cohorts), patch(mechanisms.ObjectiveNoise, "draw", hidden),
        patch(mechanisms.BestOfRepeats, "release", lost),
    ):  # fmt: skip
        yield


def sampled_steps(releases: Iterable[Release]) -> Steps | None:
    """Return the steps on secret samples that a plan lists, None if there are none; raise if more is released."""
    events = [release.event for release in releases]
    found = [event for event in events if isinstance(event, Steps)]
    if found and len(events) > 1:
        raise UnsupportedEventError("steps on secret samples and other releases: audit by counting")
    return found[0] if found else None


def sampled_losses(
    steps: Steps, run: Run, first: tuple[Any, ...], second: tuple[Any, ...], count: int, seed: int = 0,
    track: Track = untracked,
) -> Losses:  # fmt: skip
    """Return what `privacy_losses` does, for a run of these steps; users that do not change must be alike."""
    rate = steps.rate
    losses, taken, told = [], 0, 0
    for k in track(range(count), "Replaying transcripts"):
        script = observed(run, first, coins((seed, k)), None)
        out, first_in, second_in = (
            _with_member(run, data, (seed, k), member, script)
            for data, member in ((first, False), (first, True), (second, True))
        )
        total = 0.0
        for real, absent, *present in zip(script, out, first_in, second_in, strict=True):
            if not any(_alike(real, other) for other in (absent, present[0])):
                raise UnsupportedEventError("the users that do not change must be alike")
            if not _alike(absent, present[0]):
                told, taken = told + 1, taken + (not _alike(real, absent))
            out_law, *in_laws = (log_law(step.mechanism, step.value, real.outcome) for step in (absent, *present))
            mine, other = (np.logaddexp(math.log1p(-rate) + out_law, math.log(rate) + law) for law in in_laws)
            total += float(mine - other)
        losses.append(total)
    return Losses(np.array(losses), np.full(count, np.nan), steps.steps, taken, told)


def participation(steps: Steps, found: Losses, delta: float, error: float) -> tuple[float, float]:
    """Return a rate at which the changed unit took part at least, and the epsilon of the priced steps at that rate.

    The rate is the bound of Clopper and Pearson, wrong with probability at most `error`; epsilon is ``-inf`` where it
    is not above the priced one.
    """
    rate = float(beta.ppf(error, found.taken, found.told - found.taken + 1)) if found.taken else 0.0
    if rate <= steps.rate:
        return rate, -math.inf
    if isinstance(steps, PoissonSteps):
        real: Steps = replace(steps, rate=min(rate, 1 - 1e-9))
    else:
        real = replace(steps, batch=math.floor(rate * steps.population))
    return rate, epsilon_of(real.delta, delta)


def _with_member(run: Run, data: tuple[Any, ...], key: tuple[int, int], member: bool, script: list[Step]) -> list[Step]:
    """Replay a transcript with samples that always or never hold the last unit."""
    drawn = mechanisms.SampledSession._sample

    def sample(self: mechanisms.SampledSession) -> Sample:
        others = drawn(self)
        last = self._units - 1
        return np.append(others[others < last], np.full(int(member), last))

    with mock.patch.object(mechanisms.SampledSession, "_sample", sample):
        return observed(run, data, _Forced(key, member), script)


def _alike(step: Step, other: Step) -> bool:
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(step.value, other.value, strict=True))


@final
class _Forced(BitSource):
    """The coins of a transcript, but samples never or always hold the last user."""

    name: ClassVar[str] = "the auditor's coins (not private)"
    private: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    def __init__(self, key: tuple[int, int], member: bool) -> None:
        self._coins, self._member = coins(key), member

    def generator(self) -> np.random.Generator:
        """A seeded source's generator, except for its method `choice`."""
        generator = _ForcedGenerator(self._coins.generator().bit_generator)
        generator.member = self._member
        return generator


class _ForcedGenerator(np.random.Generator):
    member: bool

    def choice(self, a: Any, size: Any = None, replace: bool = True, **options: Any) -> Floats:  # pyright: ignore
        last = np.max(a)
        picked = np.array(a)[np.asarray(a) != last][:size]
        if self.member:
            picked[0] = last
        return picked
