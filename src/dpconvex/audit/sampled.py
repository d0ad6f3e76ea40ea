r"""The exact privacy loss of steps on secret samples: of n users K, who must be alike, or Poisson samples of records.

Each step draws K of n users afresh, in secret, and releases a function of those drawn. If the users that do not change
have equal records, what is released depends on the sample only through whether the changed user is in it. So, given
the earlier releases, a step's outcome has the law

    (1 - q) p(outcome | changed user out) + q p(outcome | changed user in),    q = K/n,

and the losses add up over the steps as in `replay`. The auditor runs the listing once with coins as they fall, and
then, with the same releases, twice on each data set: with the changed user, the last one, drawn never and always. What
the first run computed must be one of the two, or the pair is refused.

In Poisson samples every record has a coin of its own. Given the others' coins the law is the same, with the rate q,
whatever the others hold: nothing is refused. To know the others' coins can only reveal more than the claim covers, and
the claim's proof grants it.

These losses take the rate q from the ledger. Whether units are drawn at that rate is seen in the first runs: in how
many steps the changed unit took part, compared with q by the bound of Clopper and Pearson (`participation`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, final
from unittest import mock

import numpy as np
from scipy.stats import beta

from dpconvex._types import FloatArray
from dpconvex.audit.bounds import Losses
from dpconvex.audit.laws import log_law
from dpconvex.audit.progress import Track, untracked
from dpconvex.audit.replay import Run, Step, coins, observed
from dpconvex.errors import UnsupportedEventError
from dpconvex.mechanisms import SampledSession
from dpconvex.mechanisms.sampled_gaussian import Sample
from dpconvex.privacy import PoissonSteps, Release, SampledSteps
from dpconvex.privacy.profiles import epsilon_of
from dpconvex.randomness import BitSource


def sampled_steps(releases: Iterable[Release]) -> SampledSteps | PoissonSteps | None:
    """Return the steps on secret samples that a plan lists, None if there are none.

    Parameters
    ----------
    releases : iterable of Release

    Raises
    ------
    UnsupportedEventError
        If something else is released besides.
    """
    events = [release.event for release in releases]
    found = [event for event in events if isinstance(event, SampledSteps | PoissonSteps)]
    if found and len(events) > 1:
        raise UnsupportedEventError("steps on secret samples and other releases: audit by counting")
    return found[0] if found else None


def sampled_losses(
    steps: SampledSteps | PoissonSteps,
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
    steps : SampledSteps or PoissonSteps
        What the run releases.
    run, first, second, count, seed, track
        As in `replay.privacy_losses`.

    Raises
    ------
    UnsupportedEventError
        If users that do not change differ.
    """
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
            rest = math.log1p(-rate) + _law(absent, real.outcome)
            mine, other = (np.logaddexp(rest, math.log(rate) + _law(step, real.outcome)) for step in present)
            total += float(mine - other)
        losses.append(total)
    return Losses(np.array(losses), np.full(count, np.nan), steps.steps, taken, told)


def participation(steps: SampledSteps | PoissonSteps, found: Losses, delta: float, error: float) -> tuple[float, float]:
    """Return a rate at which the changed unit took part at least, and the epsilon of the priced steps at that rate.

    Parameters
    ----------
    steps : SampledSteps or PoissonSteps
        As priced.
    found : Losses
    delta : float
        Claimed, positive.
    error : float
        Probability with which the rate may be wrong.

    Returns
    -------
    rate : float
        Bound of Clopper and Pearson.
    epsilon : float
        ``-inf`` where the rate is not above the priced one.
    """
    rate = float(beta.ppf(error, found.taken, found.told - found.taken + 1)) if found.taken else 0.0
    if rate <= steps.rate:
        return rate, -math.inf
    if isinstance(steps, PoissonSteps):
        real: SampledSteps | PoissonSteps = replace(steps, rate=min(rate, 1 - 1e-9))
    else:
        real = replace(steps, batch=math.floor(rate * steps.population))
    return rate, epsilon_of(real.delta, delta)


def _with_member(run: Run, data: tuple[Any, ...], key: tuple[int, int], member: bool, script: list[Step]) -> list[Step]:
    """Replay a transcript with samples that always or never hold the last unit."""
    drawn = SampledSession._sample

    def sample(self: SampledSession) -> Sample:
        others = drawn(self)
        last = self._units - 1
        return np.append(others[others < last], np.full(int(member), last))

    with mock.patch.object(SampledSession, "_sample", sample):
        return observed(run, data, _Forced(key, member), script)


def _law(step: Step, outcome: Any) -> float:
    return log_law(step.mechanism, step.value, outcome)


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
        """As of a seeded source, but for `choice`."""
        generator = _ForcedGenerator(self._coins.generator().bit_generator)
        generator.member = self._member
        return generator


class _ForcedGenerator(np.random.Generator):
    member: bool

    def choice(self, a: Any, size: Any = None, replace: bool = True, **options: Any) -> FloatArray:  # pyright: ignore
        last = np.max(a)
        picked = np.array(a)[np.asarray(a) != last][:size]
        if self.member:
            picked[0] = last
        return picked
