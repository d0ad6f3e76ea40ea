"""The attack on exact losses: the density of a minimiser, all transcripts where they are few, else a sample of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

from dpconvex.algorithms.base import ConvexPlan
from dpconvex.algorithms.erm.heavy_tailed.clipped_residuals import ClippedResidualsPlan
from dpconvex.algorithms.erm.objective_perturbation import ObjectivePerturbationPlan
from dpconvex.audit import replay
from dpconvex.audit.bounds import Losses, epsilon_of_losses
from dpconvex.audit.density import minimiser_epsilon
from dpconvex.audit.enumeration import MOST, enumerated_pair
from dpconvex.audit.neighbours import Pair, Pairs
from dpconvex.audit.pace import Pace
from dpconvex.audit.progress import Track
from dpconvex.audit.report import Finding
from dpconvex.audit.sampled import participation, sampled_losses, sampled_steps
from dpconvex.errors import UnsupportedEventError

SEARCH = "Searching neighbours"
_FEWEST = 8
"""Transcripts of a pair in the search, unless time is short."""


def exact_finding(
    plan: Any, pairs: Pairs, transcripts: int, error: float, seed: int, track: Track, pace: Pace
) -> Finding | None:
    """Return what exact losses prove on the worst pair; None where laws are unknown.

    Parameters
    ----------
    plan : Auditable
    pairs : mapping of str to Pair
    transcripts : int
        Replayed on the worst pair.
    error : float
        Probability with which a sampled bound may be wrong.
    seed : int
        Of noise and coins.
    track : callable
        Shows progress.
    pace : Pace
        Of the audit.
    """
    perturbed = objective_perturbation(plan)
    if perturbed is not None:
        if perturbed.problem.dim > 1:
            return None
        found = {name: minimiser_epsilon(perturbed, *_both(pair)) for name, pair in track(pairs.items(), SEARCH)}
        best = max(found, key=lambda name: found[name])
        return Finding("minimiser density", best, found[best], 1.0, "one parameter, no sampling")
    try:
        return _replayed(plan, pairs, transcripts, error, seed, track, pace)
    except UnsupportedEventError:
        return None


def _replayed(
    plan: Any, pairs: Pairs, transcripts: int, error: float, seed: int, track: Track, pace: Pace
) -> Finding | None:
    run, delta = run_of(plan), plan.privacy.delta
    sampled = sampled_steps(getattr(plan, "releases", ()))
    losses_of = partial(sampled_losses, sampled) if sampled else replay.privacy_losses
    usable, each = _usable(losses_of, run, pairs, seed, pace)
    tries = pace.affordable(max(_FEWEST, transcripts // (4 * len(pairs))), each * len(pairs), 0.25, fewest=1)
    ranks: dict[str, float] = {}
    for name, pair in track(usable.items(), SEARCH):
        tried = losses_of(run, *_both(pair), tries, seed)
        if not tried.releases:
            return None  # nothing went through a mechanism of this library
        ranks[name] = epsilon_of_losses(tried, 0.0, error) if delta == 0 else tried.divergence
    ordered = sorted(ranks, key=lambda name: -ranks[name])
    best = ordered[0]
    found = None if sampled else _enumerated(run, pairs, ordered, delta, seed, pace.affordable(MOST, 2 * each, 0.5))
    if found is not None:
        return found
    count = pace.affordable(transcripts, each, 0.5)
    losses = losses_of(run, *_both(pairs[best]), count, seed + 1, track)
    epsilon = epsilon_of_losses(losses, delta, error)
    sure = delta == 0 or losses.mu is not None
    detail = f"{count} transcripts of up to {losses.releases} releases"
    if delta == 0:
        epsilon = max(epsilon, ranks[best])
    if sampled is not None:
        rate, drawn = participation(sampled, losses, delta, error)
        if drawn > max(epsilon, plan.privacy.epsilon):
            detail = (
                f"{losses.taken} of {losses.told} steps: a rate of {rate:.4g} or more, priced at {sampled.rate:.4g}"
            )
            return Finding("participation", best, drawn, 1 - error, detail)
    return Finding("exact loss", best, epsilon, 1.0 if sure else 1 - error, detail)


def _usable(
    losses_of: Callable[..., Losses], run: Callable[..., Any], pairs: Pairs, seed: int, pace: Pace
) -> tuple[dict[str, Pair], float]:
    """Pairs on which losses are known, and the seconds of a transcript; raises if there are none."""
    found, failure, each = {}, None, 0.0
    for name, pair in pairs.items():
        before = pace.spent
        try:
            losses_of(run, *_both(pair), 1, seed)
            found[name], each = pair, pace.spent - before
        except UnsupportedEventError as error:
            failure = error
    if failure and not found:
        raise failure
    return found, each


def _enumerated(
    run: Callable[..., Any], pairs: Pairs, names: list[str], delta: float, seed: int, most: int
) -> Finding | None:
    """Return what all transcripts prove, None if they are too many or not finite; the worst pairs first."""
    findings = []
    left = most
    for name in names:
        try:
            laws = enumerated_pair(run, *_both(pairs[name]), left, seed)
        except UnsupportedEventError:
            break
        left -= len(laws.first)
        findings.append(Finding("all transcripts", name, laws.epsilon(delta), 1.0, f"{len(laws.first)} transcripts"))
    return max(findings, key=lambda finding: finding.epsilon, default=None)


@singledispatch
def objective_perturbation(plan: Any) -> ObjectivePerturbationPlan | None:
    """Return the plan whose minimiser has a known density, if a plan releases one.

    Parameters
    ----------
    plan : Auditable
    """
    return None


@objective_perturbation.register
def _(plan: ObjectivePerturbationPlan) -> ObjectivePerturbationPlan | None:
    return plan


@objective_perturbation.register
def _(plan: ClippedResidualsPlan) -> ObjectivePerturbationPlan | None:
    return objective_perturbation(plan.then)


def run_of(plan: Any) -> Callable[..., Any]:
    """Return ``run(*data, source)`` of a plan; those of linear models take the users' labels last.

    Parameters
    ----------
    plan : Auditable
    """
    if isinstance(plan, ConvexPlan):
        return lambda X, y, *rest: plan.run(X, y, rest[-1], *rest[:-1])
    return plan.run


def _both(pair: Pair) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return pair.first, pair.second
