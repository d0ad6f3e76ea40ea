r"""The attack on exact losses: the density of a minimizer, all transcripts where they are few, else a sample of them.

Density (`minimizer_epsilon`)
    Objective perturbation with one parameter: the minimizer w has the density of the noise at ``-n F_D'(w)`` times ``n
    F_D''(w)`` (docs, Objective perturbation, Theorem 1). The noise that hides the solver's inaccuracy is left out, so
    for pure noise the bound is on the minimizer's share of epsilon.
All transcripts (`enumerated_pair`)
    A script answers every draw of the real listing, once for every transcript, and log-probabilities (`laws`) add up.
    Public coins are held fixed, which can only reveal more than the claim covers.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast, final

import numpy as np

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms.erm.heavy_tailed.clipped_residuals import ClippedResidualsPlan
from dpconvex.algorithms.erm.objective_perturbation import ObjectivePerturbationPlan
from dpconvex.errors import UnsupportedEventError
from dpconvex.geometry import FactoredNoise, NoiseNorm
from dpconvex.losses import SmoothLoss
from dpconvex.mechanisms import GaussianObjectiveNoise, NormObjectiveNoise, ThresholdSession
from dpconvex.privacy.profiles import epsilon_of
from dpconvex.problems import Records, UserGroups
from dpconvex_experiments.audit import replay
from dpconvex_experiments.audit.bounds import Losses, epsilon_of_losses
from dpconvex_experiments.audit.laws import finite_law
from dpconvex_experiments.audit.replay import coins, participation, sampled_losses, sampled_steps, tapped
from dpconvex_experiments.audit.report import FEWEST, Finding, Pace
from dpconvex_experiments.audit.target import Pair, Pairs, run_of
from dpconvex_experiments.base import Track

SEARCH = "Searching neighbors"
MOST = 300  #: All transcripts are enumerated if there are at most this many.
_SLACK = 1e-9  #: Added to delta, as sums of thousands of probabilities are rounded.
_OFFSETS = np.array([-1e-6, -1e-9, 0.0, 1e-9, 1e-6])  #: Densities are compared this far from a loss's kinks.
_QUADRATURE = 1e-3  #: Relative error allowed for numerical integrals.
Law = dict[tuple[int, ...], float]  #: Log-probability of every transcript.


def exact_finding(
    plan: Any, pairs: Pairs, transcripts: int, error: float, seed: int, track: Track, pace: Pace
) -> Finding | None:
    """Return what exact losses prove on the worst pair; None where laws are unknown."""
    perturbed = objective_perturbation(plan)
    if perturbed is not None:
        if perturbed.problem.dim > 1:
            return None
        best, most = "", -math.inf
        for name, pair in track(pairs.items(), SEARCH):
            needed = minimizer_epsilon(perturbed, *pair, most)
            best, most = (name, needed) if needed > most else (best, most)
        return Finding("minimizer density", best, most, 1.0, "one parameter, no sampling")
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
    tries = pace.affordable(max(FEWEST, transcripts // (4 * len(pairs))), each * len(pairs), 0.25, fewest=1)
    ranks: dict[str, float] = {}
    for name, pair in track(usable.items(), SEARCH):
        tried = losses_of(run, *pair, tries, seed)
        if not tried.releases:
            return None  # nothing went through a mechanism of this library
        ranks[name] = epsilon_of_losses(tried, 0.0, error) if delta == 0 else tried.divergence
    ordered = sorted(ranks, key=lambda name: -ranks[name])
    best = ordered[0]
    found = None if sampled else _enumerated(run, pairs, ordered, delta, seed, pace.affordable(MOST, 2 * each, 0.5))
    if found is not None:
        return found
    count = pace.affordable(transcripts, each, 0.5)
    losses = losses_of(run, *pairs[best], count, seed + 1, track)
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
    """Return the pairs on which losses are known, and the seconds of a transcript; raise if there is no such pair."""
    found, failure, each = {}, None, 0.0
    for name, pair in pairs.items():
        before = pace.spent
        try:
            losses_of(run, *pair, 1, seed)
            found[name], each = pair, pace.spent - before
        except UnsupportedEventError as error:
            failure = error
    if failure and not found:
        raise failure
    return found, each


def _enumerated(
    run: Callable[..., Any], pairs: Pairs, names: list[str], delta: float, seed: int, most: int
) -> Finding | None:
    """Return what all transcripts prove; None if they are too many or not finite. `names`: the worst pairs first."""
    findings = []
    left = most
    for name in names:
        try:
            laws = enumerated_pair(run, *pairs[name], left, seed)
        except UnsupportedEventError:
            break
        left -= len(laws.first)
        findings.append(Finding("all transcripts", name, laws.epsilon(delta), 1.0, f"{len(laws.first)} transcripts"))
    return max(findings, key=lambda finding: finding.epsilon, default=None)


def objective_perturbation(plan: Any) -> ObjectivePerturbationPlan | None:
    """Return the plan whose minimizer has a known density, if a plan releases one."""
    last = plan.then if isinstance(plan, ClippedResidualsPlan) else plan
    return last if isinstance(last, ObjectivePerturbationPlan) else None


def minimizer_epsilon(
    plan: ObjectivePerturbationPlan, first: tuple[Any, ...], second: tuple[Any, ...], known: float = 0.0
) -> float:
    """Return the epsilon, at the plan's delta, that the exact minimizer of a one-parameter plan needs.

    Where it is not above one that is `known` already, that one or less is returned.
    """
    noise = plan.noise
    if isinstance(noise, NormObjectiveNoise):
        points = _points(plan, 0.0)
        law = noise.norm.base if isinstance(noise.norm, FactoredNoise) else noise.norm
        rate = float(cast(NoiseNorm, law)(np.ones(1))) / noise.event.scale / _unit(plan)
        laws = [_log_density(plan, data, points, lambda b: -rate * np.abs(b)) for data in (first, second)]
        return float(np.abs(laws[0] - laws[1]).max())
    assert isinstance(noise, GaussianObjectiveNoise)
    sigma = noise.event.sigma * float(noise.standard_deviations[0]) * _unit(plan)
    points = _points(plan, sigma)
    constant = np.log(sigma * np.sqrt(2 * np.pi))
    laws = [_log_density(plan, data, points, lambda b: -((b / sigma) ** 2) / 2 - constant) for data in (first, second)]

    def delta_at(epsilon: float) -> float:
        with np.errstate(over="ignore"):  # infinity is never reached from below, which is what it should say
            needed = [np.maximum(np.exp(a) - np.exp(b + epsilon), 0.0) for a, b in (laws, laws[::-1])]
        return max(float(np.trapezoid(part, points)) for part in needed) * (1 - _QUADRATURE)

    if known > 0 and delta_at(known) <= plan.privacy.delta:
        return known
    return epsilon_of(delta_at, plan.privacy.delta)


def _unit(plan: ObjectivePerturbationPlan) -> float:
    """Return how far a step of 1 in the plan's coordinate moves the parameter, and by which factor features grow."""
    factor = plan.problem.factor
    return 1.0 if factor is None else float(factor.matrix.toarray().item())


def _points(plan: ObjectivePerturbationPlan, sigma: float) -> Floats:
    """Return points at which densities are compared: around kinks and far out, or an even grid for integrals."""
    bound, n = plan.problem.feature_l2, plan.problem.n
    if sigma:
        return np.linspace(-1, 1, 60_001) * (8 * sigma + 4 * plan.problem.loss.slope_bound * bound) / (n * plan.l2)
    kinks = (np.array([0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0])[:, None] + _OFFSETS).ravel()
    return np.unique(np.concatenate([kinks, -kinks, np.linspace(-3, 3, 601), np.linspace(-60, 60, 241)])) / bound


def _log_density(plan: ObjectivePerturbationPlan, data: tuple[Any, ...], points: Floats, log_noise: Any) -> Floats:
    X, y, *rest = data
    groups: UserGroups | None = rest[0] if rest else None
    problem = plan.problem
    loss, n = problem.loss, problem.n
    assert isinstance(loss, SmoothLoss)  # objective perturbation plans no other
    weights = problem.weights(groups)
    counts = np.ones(len(y)) if weights is None else n * weights
    targets = loss.clip_targets(y)
    b, curvature = n * plan.l2 * points, np.full(len(points), n * plan.l2)
    for block in Records.clipped(X, problem.domain, empty=problem.private_n).blocks():
        x = block.predict(np.full((1, 1), _unit(plan)))[:, 0]
        labels, each = targets[block.rows], counts[block.rows]
        z = np.outer(points, x)
        tiled = np.tile(labels, len(points))
        slopes = loss.derivative(z.ravel(), tiled).reshape(z.shape)
        bends = loss.hessian_weights(z.ravel(), tiled).reshape(z.shape)
        b = b + slopes @ (each * x)
        curvature = curvature + bends @ (each * x * x)
    return log_noise(-b) + np.log(curvature)


@final_dataclass(eq=False)
class EnumeratedPair:
    """The laws of all transcripts on two neighboring data sets: log-probabilities, ``-inf`` where there is none."""

    first: Floats
    second: Floats

    @property
    def largest_loss(self) -> float:
        """The largest privacy loss of a transcript: the least epsilon for which a pure promise is true."""
        with np.errstate(invalid="ignore"):
            return float(np.nanmax(np.abs(self.first - self.second)))

    def delta(self, epsilon: float) -> float:
        """Return the least delta at an epsilon, in the direction that needs more."""
        p, q = np.exp(self.first), np.exp(self.second)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond e^700 only outcomes that one law excludes count
            factor = np.exp(epsilon)
            return float(max(np.where(b > 0, np.maximum(a - factor * b, 0), a).sum() for a, b in ((p, q), (q, p))))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at a delta, rounded down."""
        if delta == 0 or not math.isfinite(self.largest_loss):
            return self.largest_loss
        return epsilon_of(self.delta, delta + _SLACK)

    def renyi(self, order: float) -> float:
        """Return the Renyi divergence of an order, in the larger direction."""
        sides = ((self.first, self.second), (self.second, self.first))
        return max(float(np.logaddexp.reduce(order * a + (1 - order) * b)) / (order - 1) for a, b in sides)


def enumerated_pair(
    run: Callable[..., Any], first: tuple[Any, ...], second: tuple[Any, ...], most: int = MOST, seed: int = 0
) -> EnumeratedPair:
    """Return the laws of all transcripts of ``run(*data, source)``, the real listing, on two neighboring data sets.

    Beyond `most` transcripts, or where something else than an index is released, `UnsupportedEventError` is raised. The
    seed is of public coins.
    """
    p, q = transcript_law(run, first, most, seed), transcript_law(run, second, most, seed)
    keys = sorted(p.keys() | q.keys())
    return EnumeratedPair(*(np.array([law.get(key, -np.inf) for key in keys]) for law in (p, q)))


def transcript_law(run: Callable[..., Any], data: tuple[Any, ...], most: int = MOST, seed: int = 0) -> Law:
    """Return the log-probability of every transcript on one data set."""
    found: Law = {}
    script: tuple[int, ...] | None = ()
    tap = _Script()
    with tapped(tap):
        while script is not None:
            tap.begin(script)
            run(*data, coins((seed, 0)))
            if not tap.drawn:
                raise UnsupportedEventError("nothing was drawn")
            if len(found) >= most or (not found and math.prod(tap.sizes) > most):
                raise UnsupportedEventError(f"more than {most} transcripts")
            found[tuple(tap.drawn)] = tap.log
            script = tap.next_script()
    return found


@final
class _Script:
    """Answers draws as told, then with the first outcome, and adds up log-probabilities."""

    def __init__(self) -> None:
        self.begin(())

    def begin(self, script: tuple[int, ...]) -> None:
        self.script, self.log = script, 0.0
        self.drawn: list[int] = []
        self.sizes: list[int] = []

    def next_script(self) -> tuple[int, ...] | None:
        """Raise the last draw that has an outcome left; None after all transcripts."""
        for place in reversed(range(len(self.drawn))):
            if self.drawn[place] + 1 < self.sizes[place]:
                return (*self.drawn[:place], self.drawn[place] + 1)
        return None

    def meet(self, mechanism: Any, value: Any, fresh: Any) -> Any:
        law = finite_law(mechanism, value)
        picks = np.array([self._pick(law) for _ in range(np.size(fresh))], dtype=np.int64)
        return picks if np.ndim(fresh) else int(picks[0])

    def ask(self, session: ThresholdSession, mechanism: Any, value: float, fresh: bool) -> bool:
        raise UnsupportedEventError("queries of a session are not enumerated")

    def _pick(self, law: Floats) -> int:
        place = len(self.drawn)
        pick = self.script[place] if place < len(self.script) else 0
        self.drawn.append(pick)
        self.sizes.append(len(law))
        self.log += float(law[pick])
        return pick
