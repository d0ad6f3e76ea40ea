r"""Private search: the budget of every candidate, the choice among them, and its cost. Only `run` sees data.

Records (or users) are split by coins into a training and a held-out part. Candidates are fitted on the first and scored
on the second. As a record is in one part only, the search costs what the dearer part costs, not the sum. Coins of
records may be public, as positions are; those of users are secret and uniform: one user's labels move others' places.

``composition``
    All fits together spend the promise on the training part, permute-and-flip over the held-out losses on the other.
``repeats``
    A secret random number of runs, each a candidate drawn uniformly, its fit, and its held-out loss with noise. Only
    the best run is released: `privacy.events.private_selection`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar, cast

import narwhals as nw
import numpy as np

from dpconvex import _progress, _rounding
from dpconvex._arrow import takeable
from dpconvex._types import Array, attributes, final_dataclass
from dpconvex.algorithms import LinearModelPlan, Plan, PredictedError, check_relation, recorded, stored
from dpconvex.algorithms.search.scores import Repeats, Score, Searchable, fit_label, plain
from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.mechanisms import BestOfRepeats, GaussianMechanism, LaplaceMechanism, Planned, ReportNoisyMax
from dpconvex.privacy import Assumption, Event, FailureProbability, GaussianNoise, Ledger, PrivacyParams, Release
from dpconvex.privacy.events.basic import PureMechanism
from dpconvex.privacy.events.private_selection import LAW_SLACK, RepeatedSelection, WholeRun
from dpconvex.privacy.ledger import fits
from dpconvex.privacy.params import check_part
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta, largest_mu, smallest
from dpconvex.problems import UserGroups
from dpconvex.problems.data.sources.rows import TableSource
from dpconvex.randomness import BitSource

TRAINING, HELD_OUT = "training part", "held-out part"
RUNS_A_CANDIDATE = 4
"""Number of runs per candidate that are always made: more add little to the chance that the best is tried."""
LAWS = ((0.0, 0.0), (1.0, 0.0))
"""Shape and gamma of the law of the number of pure runs, which cost ``(2 + shape) epsilon`` for any gamma."""
GAUSSIAN_LAWS = ((0.0, 0.1), (1.0, 0.1))
"""Shape and gamma for Gaussian runs (our choice): smaller gammas cost more and hardly help to try the best."""
SHRINKING = (1.0, 0.85, 0.7, 0.55, 0.4, 0.25)
"""Shares of a budget that are tried where noise is only partly Gaussian; the first that fits the promise is used."""
MISSED = 0.02
"""Assumed cost of not trying the best candidate, as a share of the loss of predicting nothing (our choice)."""
AFFORDABLE = 0.03
"""Largest `SearchPlan.stake` at which ``"auto"`` searches: small beside the possible gain of a better setting.

Our choice (``benchmarks/private_search.py``): where no setting was better, searches with a larger stake lost most."""
METHODS = ("composition", "repeats", "none")


@stored
@final_dataclass
class Candidate:
    """One setting of the parameters, planned at its budget."""

    settings: Mapping[str, Any]  #: Values of the searched parameters, by name
    plan: LinearModelPlan  #: Plan of the fit
    model: Searchable | None = None  #: Model that is not yet fitted; None if planned again from a certificate

    def declared(self) -> "Candidate":
        """Return the candidate as a certificate stores it: without model, with JSON-ready settings."""
        return Candidate({name: plain(value) for name, value in self.settings.items()}, self.plan)

    def describe(self) -> dict[str, Any]:
        """JSON-ready settings and constants."""
        facts = {"settings": dict(self.declared().settings), "algorithm": self.plan.algorithm}
        return {**facts, **attributes(self.plan.privacy, "epsilon", "delta"), "constants": dict(self.plan.public)}

    @property
    def event(self) -> WholeRun:
        """All releases of the fit together; if they depend on one another, the worst run that its promise admits."""
        if self.plan.adaptive:  # a pure mechanism of the promised epsilon, which fails with probability delta
            promise = self.plan.privacy
            worst: list[Event] = [PureMechanism(promise.epsilon)]
            worst += [FailureProbability(promise.delta)] if promise.delta else []
            return WholeRun(tuple((None, 1, event) for event in worst))
        return WholeRun(tuple((release.block, release.times, release.event) for release in self.plan.releases))

    def release(self, label: str) -> Release:
        """Return the ledger entry of the fit on the training part."""
        first = self.plan.releases[0]
        return Release(label, first.mechanism, self.event, first.sensitivity, TRAINING)


ANY, PURE, GAUSSIAN = "any", "pure", "gaussian"
"""Kinds of noise that a search asks for; plans at the whole budget, for comparison, are of any kind and made first."""
Maker = Callable[[PrivacyParams, int, str], tuple[Candidate, ...]]
"""Maps a promise, a number of units and a kind of noise to all candidates."""


@final_dataclass(eq=False)
class SearchPlan(Plan):
    """Public constants of a search."""

    method: str  #: "composition", "repeats", or "none": the default is fitted to all records
    privacy: PrivacyParams  #: The promise for the whole search
    n: int  #: Number of all units
    held_out: int  #: Number of units in the held-out part
    score: Score  #: Held-out score of a fitted candidate
    candidates: tuple[Candidate, ...]  #: Candidates at their budgets; for ``"none"`` the default alone
    whole: tuple[Candidate, ...]  #: All settings planned at the whole budget with all units
    selection: ReportNoisyMax | BestOfRepeats | None = None  #: Mechanism that chooses a candidate
    noise: LaplaceMechanism | GaussianMechanism | None = None  #: Noise on the score of each run of ``"repeats"``
    algorithm: ClassVar[str] = "private_search"
    constants: str = "calibrated"

    @property
    def noise_name(self) -> str:
        return ", ".join(dict.fromkeys(candidate.plan.noise_name for candidate in self.candidates))

    @property
    def coverage(self) -> float:
        """Probability that a given candidate is fitted and scored: 1 unless candidates are drawn."""
        if not isinstance(self.selection, BestOfRepeats):
            return 1.0
        missed = 1 - 1 / len(self.candidates)
        weights = self.selection.event.weights
        return 1 - math.fsum(w * missed**k for k, w in enumerate(weights, 1)) / math.fsum(weights)

    @cached_property
    def price(self) -> float:
        """Mean factor by which the search raises the predicted error of a setting; 1 without a search."""
        if self.method == "none":
            return 1.0
        pairs = zip(self.candidates, self.whole, strict=True)
        return math.fsum(_loss(here) / _loss(whole) for here, whole in pairs) / len(self.whole)

    @cached_property
    def cost(self) -> float:
        """Mean predicted error that the search adds to a candidate, as a share of the loss of predicting nothing."""
        if self.method == "none":
            return 0.0
        pairs = zip(self.candidates, self.whole, strict=True)
        added = ((_loss(here) - _loss(whole)) / here.plan.predicted_error.trivial for here, whole in pairs)
        return math.fsum(added) / len(self.whole)

    @property
    def stake(self) -> float:
        """The risk of searching: `cost` plus `MISSED` times the probability to miss the best setting."""
        return self.cost + MISSED * (1 - self.coverage)

    @property
    def predicted_error(self) -> PredictedError:
        """Mean over the candidates at their budgets. The search takes the best, up to the noise of the choice."""
        errors = [candidate.plan.predicted_error for candidate in self.candidates]
        source = "mean over the candidates, without the noise of the choice"
        known = [error.expected for error in errors if error.expected is not None]
        bound, trivial = math.fsum(error.bound for error in errors) / len(errors), max(e.trivial for e in errors)
        expected = math.fsum(known) / len(known) if len(known) == len(errors) else None
        proved = self.selection is None and errors[0].proved
        return PredictedError(bound, trivial, source, expected=expected, proved=proved)

    @property
    def yardstick(self) -> float:
        return min(candidate.plan.yardstick for candidate in self.candidates)

    @property
    def hopeless(self) -> bool:
        return all(candidate.plan.hopeless for candidate in self.candidates)

    @property
    def releases(self) -> tuple[Release, ...]:
        if self.selection is None:
            return self.candidates[0].plan.releases
        if isinstance(self.selection, BestOfRepeats):
            return (self.selection.planned(BEST),)
        fitted = tuple(c.release(fit_label(k, len(self.candidates))) for k, c in enumerate(self.candidates))
        return (*fitted, self.selection.planned(CHOICE, HELD_OUT))

    @property
    def theorem(self) -> str:
        if self.selection is None:
            return self.candidates[0].plan.theorem
        if isinstance(self.selection, BestOfRepeats):
            best = "Best of a random number of runs (Papernot and Steinke 2022; docs, Private search, Theorem 1)"
            each = "a fit on the training part and a noisy score on the held-out part (parallel composition)"
            return f"{best}, each {each}."
        choice = "permute-and-flip (McKenna and Sheldon 2020) on the held-out part"
        return f"Composition of all fits on the training part; {choice}; parallel composition of the two parts."

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        clipped = f"every loss is clipped into [0, {self.score.bound:g}] before it is averaged"
        own = (
            Assumption("training and held-out part are disjoint", "split by coins that do not depend on the data"),
            Assumption("one held-out unit moves a score by a bounded amount", clipped),
            Assumption("candidates were chosen without looking at the data", "declared"),
        )
        secret = Assumption(
            "how many runs counted, and what the others gave, stays secret",
            "the same number of runs is always made and only the best is kept; running time is outside the guarantee",
        )
        if self.selection is None:
            return self.candidates[0].plan.assumptions
        inner = (a for candidate in self.candidates for a in candidate.plan.assumptions)
        return tuple(dict.fromkeys((*own, *([secret] if self.method == "repeats" else []), *inner)))

    @property
    def public(self) -> Mapping[str, Any]:
        if self.selection is None:
            return self.candidates[0].plan.public
        facts = attributes(self, "n", "held_out", "method")
        facts |= {"score": self.score.name, "score_bound": self.score.bound}
        facts |= attributes(self, "price", "cost", "stake", "coverage")
        return facts | {"candidates": [candidate.describe() for candidate in self.candidates]}

    def exact_bits(self, source: BitSource) -> bool:
        own: list[Planned | None] = [self.selection, self.noise]
        chosen = all(mechanism.exact_bits(source) for mechanism in own if mechanism is not None)
        return chosen and all(candidate.plan.exact_bits(source) for candidate in self.candidates)


BEST = "the best of the runs"
CHOICE = "which candidate has the smallest held-out loss"


def _loss(candidate: Candidate) -> float:
    """Return the predicted error, at most ten times that of the zero vector, beyond which it means nothing."""
    error = candidate.plan.predicted_error
    return min(error.rank, 10 * error.trivial)


def plan_search(
    make: Maker, privacy: PrivacyParams, n: int, held_out: int, score: Score, method: str
) -> tuple[SearchPlan, ...]:
    """Return the plans of a method, or of all for ``"auto"``; the first is the one to run.

    Plans are ordered by `SearchPlan.stake`; for ``"auto"``, ``"none"`` comes first if the least is not `AFFORDABLE`.
    """
    whole = make(privacy, n, ANY)
    base = assembled(privacy, n, held_out, score, whole)
    if method == "none" or (method == "auto" and len(whole) == 1):
        return (base,)
    builders: dict[str, Callable[..., Iterator[SearchPlan | None]]] = {"composition": _composed, "repeats": _repeated}
    built = (plan for name, build in builders.items() if method in ("auto", name) for plan in build(make, base))
    found = sorted((plan for plan in built if plan is not None), key=lambda plan: plan.stake)
    if not found and method != "auto":
        raise InvalidParameterError("method", method, "cannot be priced for these candidates", "Use method='auto'")
    if method != "auto":
        return tuple(found)
    return (*found, base) if found and found[0].stake <= AFFORDABLE else (base, *found)


@recorded("private_search")
def assembled(
    privacy: PrivacyParams, n: int, held_out: int, score: Score, whole: tuple[Candidate, ...],
    candidates: tuple[Candidate, ...] = (), repeats: Repeats | None = None,
) -> SearchPlan:  # fmt: skip
    """Return the plan of a search over planned candidates: all of them once, or `repeats`; neither: the default alone.

    Whether the promise covers it is not checked here. Parameters are those of `SearchPlan`.
    """
    check_relation(privacy, users=True)
    for candidate, records in (*((c, n - held_out) for c in candidates), *((c, n) for c in whole)):
        check_part(privacy, candidate.plan.privacy, "candidates")
        if candidate.plan.problem.n != records:
            raise InvalidParameterError("candidates", candidate.settings, f"must be planned for n={records}")
    if not candidates:
        return SearchPlan("none", privacy, n, held_out, score, whole[:1], whole)
    sensitivity = score.sensitivity(held_out, privacy.unit)
    if repeats is None:
        choice = ReportNoisyMax(dataclasses.replace(sensitivity, norm="linf"), privacy.epsilon)
        return SearchPlan("composition", privacy, n, held_out, score, candidates, whole, choice)
    noise = repeats.noise(sensitivity)
    runs = tuple(WholeRun(((TRAINING, 1, candidate.event), (HELD_OUT, 1, noise.event))) for candidate in candidates)
    most = RUNS_A_CANDIDATE * len(whole)
    best = BestOfRepeats(sensitivity, RepeatedSelection(runs, repeats.shape, repeats.gamma, most))
    return SearchPlan("repeats", privacy, n, held_out, score, candidates, whole, best, noise)


def _composed(make: Maker, base: SearchPlan) -> Iterator[SearchPlan | None]:
    """Yield plans with all candidates at equal shares, pure or Gaussian."""
    privacy, count = base.privacy, len(base.whole)
    each = dataclasses.replace(privacy, epsilon=_rounding.ratio_down(privacy.epsilon, count), delta=0.0)
    yield _attempt(lambda: _payable(make, base, each, PURE))
    if privacy.delta:
        mu = largest_mu(privacy.epsilon, privacy.delta) / math.sqrt(count)
        yield _shrunk(privacy, mu, privacy.delta / count, lambda each, _: _payable(make, base, each, GAUSSIAN))


def _repeated(make: Maker, base: SearchPlan) -> Iterator[SearchPlan | None]:
    """Yield plans with random repeats, for every law of their number, pure or Gaussian."""
    privacy, most = base.privacy, RUNS_A_CANDIDATE * len(base.whole)

    def pure(shape: float, gamma: float) -> SearchPlan | None:
        epsilon = _rounding.difference_down(privacy.epsilon, float(LAW_SLACK))
        each = dataclasses.replace(privacy, epsilon=_rounding.ratio_down(epsilon, 2 + shape), delta=0.0)
        return _payable(make, base, each, PURE, Repeats(shape, gamma, epsilon=each.epsilon))

    def gaussian(shape: float, gamma: float) -> SearchPlan | None:
        mu, delta = _largest_run(privacy, shape, gamma, most)
        repeats = partial(Repeats, shape, gamma)
        return _shrunk(privacy, mu, delta, lambda each, mu: _payable(make, base, each, GAUSSIAN, repeats(mu=mu)))

    yield from [_attempt(lambda law=law: pure(*law)) for law in LAWS]
    if privacy.delta:
        yield from [gaussian(*law) for law in GAUSSIAN_LAWS]


def _largest_run(privacy: PrivacyParams, shape: float, gamma: float, most: int) -> tuple[float, float]:
    """Return the mu that Gaussian runs could have, and the delta at which a run is then calibrated."""

    def event(mu: float) -> RepeatedSelection:
        return RepeatedSelection((GaussianNoise(mu, 1.0),), shape, gamma, most)

    mu = 1 / smallest(lambda inverse: event(1 / inverse).delta(privacy.epsilon) <= privacy.delta, 1.0)
    return mu, privacy.delta / event(mu).expected


def _shrunk(
    privacy: PrivacyParams, mu: float, delta: float, plan: Callable[[PrivacyParams, float], SearchPlan | None]
) -> SearchPlan | None:
    """Return the first plan that fits the promise, with candidates calibrated to smaller and smaller mu."""
    for share in SHRINKING:
        epsilon = epsilon_of(lambda epsilon, mu=share * mu: gaussian_delta(epsilon, mu), delta)
        each = dataclasses.replace(privacy, epsilon=epsilon, delta=delta)
        try:
            found = plan(each, share * mu)
        except (InvalidParameterError, UnsupportedEventError):
            return None  # a smaller budget would change nothing
        if found is not None:
            return found
    return None


def _payable(
    make: Maker, base: SearchPlan, each: PrivacyParams, kind: str, repeats: Repeats | None = None
) -> SearchPlan | None:
    """Return the plan of candidates with the budget `each`, or None if the promise does not cover it."""
    candidates = make(each, base.n - base.held_out, kind)
    plan = assembled(base.privacy, base.n, base.held_out, base.score, base.whole, candidates, repeats)
    return plan if fits(plan.releases, plan.privacy) else None


def _attempt(plan: Callable[[], SearchPlan | None]) -> SearchPlan | None:
    """Return a plan, or None if its candidates cannot be planned or priced at its budget."""
    try:
        return plan()
    except (InvalidParameterError, UnsupportedEventError):
        return None


ModelT = TypeVar("ModelT", bound=Searchable)


@final_dataclass(eq=False)
class Part:
    """A part of the records, either for training or held out for scores."""

    X: Any  #: Features, as in an estimator's `fit`
    y: Any
    labels: Array | None  #: Number of each record's user, (n_records,); None where records are protected

    @property
    def groups(self) -> UserGroups | None:
        """The users of the records."""
        return None if self.labels is None else UserGroups.of(self.labels)


def run(plan: SearchPlan, base: ModelT, data: Part, source: BitSource) -> tuple[int, ModelT]:
    """Return the position of the chosen candidate and its fitted model; parameters of `base` are searched."""
    if plan.selection is None:
        return 0, cast(ModelT, fit(plan.candidates[0], data, source))
    ledger = Ledger(plan.privacy, plan.releases)
    training, held_out = split(data, plan.n, plan.held_out, source)
    truth, groups = partial(base._blind()._truth, y=held_out.y), held_out.groups

    def scored(k: int) -> tuple[ModelT, float]:
        model = cast(ModelT, fit(plan.candidates[k], training, source))
        return model, plan.score.mean(model, held_out.X, truth, groups)

    if isinstance(plan.selection, BestOfRepeats):
        drawn, noise = source.generator(), plan.noise
        assert noise is not None

        def attempt() -> tuple[tuple[int, ModelT], float]:
            k = int(drawn.integers(len(plan.candidates)))
            model, score = scored(k)
            own = Ledger(plan.privacy, [noise.planned("score")])  # the search's ledger holds the run as a whole
            return (k, model), float(noise.release(np.array([score]), "score", source, own)[0])

        return plan.selection.release(attempt, BEST, source, ledger)
    assert isinstance(plan.selection, ReportNoisyMax)
    fitted = []
    for k, candidate in enumerate(plan.candidates):
        ledger.record(candidate.release(fit_label(k, len(plan.candidates))))
        fitted.append(scored(k))
    chosen = plan.selection.release(np.array([score for _, score in fitted]), CHOICE, source, ledger, HELD_OUT)
    return chosen, fitted[chosen][0]


def fit(candidate: Candidate, data: Part, source: BitSource) -> Searchable:
    """Return a candidate's model, fitted as planned, without its noise source."""
    assert candidate.model is not None
    with _progress.muted():
        return candidate.model._fitted_as(candidate.plan, data.X, data.y, data.labels, source)


def split(data: Part, n: int, held_out: int, source: BitSource) -> tuple[Part, Part]:
    """Return training and held-out part, by coins, from numbers of units; a user's records go to one part."""
    out = np.zeros(n, dtype=bool)
    out[source.generator().permutation(n)[:held_out]] = True
    mask = out if data.labels is None else out[data.labels.astype(np.intp)]
    return _rows(data, np.flatnonzero(~mask)), _rows(data, np.flatnonzero(mask))


def _rows(data: Part, rows: Array) -> Part:
    return Part(taken(data.X, rows), taken(data.y, rows), None if data.labels is None else data.labels[rows])


def taken(values: Any, rows: Array) -> Any:
    """Return the chosen rows of a table, column, array or list, in the same type; tables not in memory stay there."""
    if isinstance(values, TableSource):
        return values.taken(rows)
    found: Any = nw.from_native(takeable(values), eager_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.DataFrame | nw.Series):
        return found[rows.tolist()].to_native()
    if values is None or isinstance(values, list | tuple):
        return None if values is None else list(map(values.__getitem__, rows.tolist()))
    return np.asarray(values)[rows]
