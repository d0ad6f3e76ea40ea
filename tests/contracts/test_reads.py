"""What composition presumes of every algorithm: which records each release reads, and how often.

The spy needs no help from the algorithms. A run is repeated with one unit replaced, *the same releases and the same
coins* (`audit.replay`): a release whose private value moves reads that unit, one whose value stays does not. Tables
whose records pull hard are the audit's. Nothing is sampled but coins, whose seeds are fixed: where no probability is
stated a test cannot fail by chance.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from dpconvex.algorithms.erm import gradient_descent, heavy_tailed, user_level
from dpconvex.algorithms.erm.gradient_descent.gradients import sampled_gradient
from dpconvex.algorithms.erm.heavy_tailed import Moments
from dpconvex.algorithms.location.base import WarmStart
from dpconvex.algorithms.location.stable_sgd import plan_stable_sgd
from dpconvex.algorithms.queries import synthetic
from dpconvex.errors import UnsupportedEventError
from dpconvex.losses import AbsoluteLoss, HingeLoss, LogisticLoss, SmoothedHingeLoss
from dpconvex.mechanisms import (
    AboveThreshold,
    CohortMean,
    GaussianBudget,
    GaussianMechanism,
    GaussianSession,
    NormNoiseMechanism,
    RobustMean,
    SampledGaussian,
    SampledSession,
    ThresholdSession,
    VertexSampling,
    VertexSession,
)
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.privacy import Ledger, PoissonSteps, PrivacyParams, SampledSteps, Unit
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.queries import DenseQueries
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit import Pair, Subject, array_pairs, record_pairs, user_pairs
from dpconvex_experiments.audit.auditor import priced_once
from dpconvex_experiments.audit.replay import Step, _Recorder, coins, tapped
from dpconvex_experiments.audit.target import run_of
from dpconvex_experiments.audit.targets import TARGETS
from dpconvex_experiments.reference import gradient_score, localized_mechanism
from dpconvex_experiments.reference.location import MedianMechanism
from dpconvex_experiments.reference.targets import erm, location, mechanisms, minimax

Path = tuple[tuple[int, str | None], ...]
"""Where a release stands: the ledgers around it, outermost first, each with the block of its entry."""


class _Spy:
    """Notes steps as a replay does, and for each the block under which it was entered."""

    def __init__(self, script: list[Step] | None) -> None:
        self.recorder, self.paths, self.now = _Recorder(script), [], ()
        self.sessions: dict[int, Path] = {}
        self.kept: list[Any] = []  # numbers of objects must not be used again

    def meet(self, mechanism: Any, value: Any, fresh: Any) -> Any:
        self.paths.append(self.now)
        return self.recorder.meet(mechanism, value, fresh)

    def ask(self, session: ThresholdSession, mechanism: Any, value: float, fresh: bool) -> bool:
        answer = self.recorder.ask(session, mechanism, value, fresh)
        self.paths += [self.now] * (len(self.recorder.steps) - len(self.paths))
        return answer


@contextmanager
def _watched(spy: _Spy) -> Iterator[None]:
    """Let a spy know of every ledger entry, and of which entry each session is."""
    init, record = Ledger.__init__, Ledger.record
    around: dict[int, Path] = {}

    def opened(self: Ledger, *args: Any) -> None:
        init(self, *args)
        spy.kept.append(self)
        around[id(self)] = spy.now

    def entered(self: Ledger, release: Any) -> None:
        record(self, release)
        spy.now = (*around.get(id(self), ()), (id(self), release.block))

    def started(start: Any) -> Any:
        def opening(self: Any, *args: Any, **options: Any) -> Any:
            session = start(self, *args, **options)
            spy.kept.append(session)
            spy.sessions[id(session)] = spy.now
            return session

        return opening

    def used(use: Any) -> Any:
        def using(self: Any, *args: Any, **options: Any) -> Any:
            spy.now = spy.sessions.get(id(self), spy.now)  # a one-shot use opens no session of its own
            return use(self, *args, **options)

        return using

    with tapped(spy), ExitStack() as stack:
        stack.enter_context(mock.patch.object(Ledger, "__init__", opened))
        stack.enter_context(mock.patch.object(Ledger, "record", entered))
        for kind in (AboveThreshold, VertexSampling, SampledGaussian, GaussianBudget):
            stack.enter_context(mock.patch.object(kind, "start", started(kind.start)))
        uses = {ThresholdSession: "query", VertexSession: "draw", SampledSession: "release", GaussianSession: "release"}
        for kind, name in uses.items():
            stack.enter_context(mock.patch.object(kind, name, used(getattr(kind, name))))
        yield


def _seen(
    run: Any, data: tuple[Any, ...], seed: int, script: list[Step] | None = None
) -> tuple[list[Step], list[Path]]:
    """Return the steps of one run and where each stands; with a script, the values that meet its releases."""
    spy = _Spy(script)
    with _watched(spy):
        run(*data, coins((0, seed)))
    return spy.recorder.steps, spy.paths


def _labels(groups: UserGroups) -> np.ndarray:
    labels = np.empty(groups.n_records, dtype=int)
    labels[slice(None) if groups.order is None else groups.order] = np.repeat(np.arange(groups.n_users), groups.sizes)
    return labels


def _replaced(pair: Pair, units: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The first table of a pair with one unit after the other replaced by what the pair replaces its own unit by."""
    if isinstance(pair.first[-1], UserGroups):
        (X, y, groups), (X2, y2, groups2) = pair.first, pair.second
        mine, others = _labels(groups), _labels(groups2)
        new = others == groups.n_users - 1  # pairs of users replace the last one
        for unit in _spread(groups.n_users, units):
            stay = mine != unit
            labels = np.concatenate([mine[stay], np.full(new.sum(), unit)])
            targets = None if y is None else np.concatenate([y[stay], y2[new]])
            yield unit, (np.concatenate([X[stay], X2[new]]), targets, UserGroups.of(labels))
        return
    if isinstance(pair.first[0], tuple):  # records that are one argument, of several arrays
        yield from ((unit, (data,)) for unit, data in _replaced(Pair(pair.first[0], pair.second[0]), units))
        return
    n, given = len(pair.first[0]), [k for k, table in enumerate(pair.first) if table is not None]
    differ = [np.flatnonzero((pair.first[k] != pair.second[k]).reshape(n, -1).any(1)) for k in given]
    changed = int(np.concatenate(differ)[0])
    for unit in _spread(n, units):
        tables = [None if table is None else table.copy() for table in pair.first]
        for k in given:
            tables[k][unit] = pair.second[k][changed]
        if any((tables[k][unit] != pair.first[k][unit]).any() for k in given):
            yield unit, tuple(tables)


def _spread(n: int, count: int) -> list[int]:
    return sorted({round(k) for k in np.linspace(0, n - 1, min(n, count))})


def _moved(a: Any, b: Any) -> bool:
    if isinstance(a, tuple | list):
        return len(a) != len(b) or any(_moved(*both) for both in zip(a, b, strict=True))
    return not np.array_equal(np.nan_to_num(a), np.nan_to_num(b))


def _linear(loss: Any, n: int, records: int | None = None) -> LinearModelProblem:
    return LinearModelProblem(loss, DataDomain((Block(1, "linf", 1.0),)), n, 1.0, records_per_user=records)


def _subject(plan: Any) -> Subject:
    return Subject(plan, (user_pairs if plan.problem.grouped else record_pairs)(plan.problem))


def _keen(plan: Any) -> Any:
    """A plan whose solver goes on where a start that is accurate enough would do."""
    method = copy.copy(plan.method)
    method.minimize = lambda part, data, center, near: plan.method.minimize(
        part, data, center, (near[0], 1e-3 * near[1], near[2])
    )
    return replace(plan, method=method)


def _coin_pairs(n: int) -> dict[str, Pair]:
    """Parts of records at equal distances must be alike: targets by coins."""
    y = np.random.default_rng(0).choice([-1.0, 1.0], n)
    return {"coins": Pair((np.ones((n, 1)), y), (np.ones((n, 1)), np.append(-y[:1], y[1:])))}


def _walk(order: Any) -> Subject:
    """The refinement of a median from a start that is given: in the audit's tables its test fails."""
    stage = plan_stable_sgd(40, 1, 1.0, order=order, phases=3)

    def run(points: np.ndarray, source: Any) -> np.ndarray:
        ledger = Ledger(PrivacyParams(50.0, 0.1), stage.releases)
        return stage.refine(points, WarmStart(np.zeros(1), 1.0, 0.5), source, ledger).location

    points = np.random.default_rng(0).normal(size=(40, 1))
    return Subject(SimpleNamespace(run=run), array_pairs({"far": (points, np.append([[100.0]], points[1:], 0))}))  # pyright: ignore


USERS = PrivacyParams(1.0, 0.05, unit=Unit.USER)
RECORDS = PrivacyParams(1.0, 0.05)
SPLIT: dict[str, Any] = {
    "heavy_tailed, repetitions": lambda: Subject(
        _keen(heavy_tailed.plan(_linear(LogisticLoss(), 600), RECORDS, Moments(2.0, 1.0), failure=0.2)),
        _coin_pairs(600),
    ),
    "localized_exponential_mechanism, repetitions": lambda: Subject(
        _keen(localized_mechanism.plan(_linear(LogisticLoss(), 600), RECORDS, Moments(2.0, 1.0), failure=0.2)),
        _coin_pairs(600),
    ),
    "gradient_score, repetitions": lambda: Subject(
        _keen(gradient_score.plan(_linear(LogisticLoss(), 600), RECORDS, Moments(2.0, 1.0), failure=0.2)),
        _coin_pairs(600),
    ),
    "noisy_gradient, batches": lambda: _subject(
        gradient_descent.plan(_linear(HingeLoss(), 12), RECORDS, steps=6, batches=3)
    ),
    "noisy_gradient, batches of users": lambda: _subject(
        gradient_descent.plan(_linear(HingeLoss(), 12, 2), USERS, steps=6, batches=3)
    ),
    "phased_sgd, phases": lambda: _subject(
        user_level.plan_phased(_linear(AbsoluteLoss(), 60, 4), USERS, groups=8, phases=3, aggregate="plain")
    ),
    "accelerated_user, phases of batches": lambda: _subject(
        user_level.plan_accelerated(
            _linear(SmoothedHingeLoss(0.5), 60, 4), USERS, target="population", test="clipped", batches=2
        )
    ),
    "queries, fresh batches": lambda: Subject(
        synthetic.plan(DenseQueries(np.array([[0.0, 1.0, 0.5]])), 24, RECORDS, mode="fresh", steps=6),
        array_pairs({"zeros": (np.zeros(24, int), np.r_[1, np.zeros(23, int)])}),
    ),
}
SPLIT |= {f"stable_sgd, {order} order": partial(_walk, order) for order in ("random", "fixed")}
"""What the audit's targets do not split: parts of records or users in several blocks."""


FAMILIES: dict[str, Iterable[str]] = {
    "split": SPLIT,
    "linear": [target.name for target in erm.TARGETS if "/added" not in target.name],
    # Pairs of "added" records differ in their number, so no unit takes another's place.
    "vertices": [target.name for target in minimax.TARGETS if "/added" not in target.name],
    "others": [target.name for target in (*location.TARGETS, *erm.SEARCHES, *mechanisms.TARGETS)],
}
BLOCKS = {
    "split": {*SPLIT} - {"queries, fresh batches", "stable_sgd, random order"},
    "linear": set(),
    "vertices": {"boosted_mirror_descent", "sgda"},
    "others": {"private_search"},
}
"""What splits its units into blocks; two of our own count a unit's draws or visits in one entry."""


def _subject_of(family: str, name: str) -> Subject:
    return SPLIT[name]() if family == "split" else TARGETS[name].subject(1.0, 0.05, 1.0)


@dataclass
class Reads:
    """What one run reads: its steps, where they stand, and for every unit the values that meet the same releases."""

    name: str
    title: str
    steps: list[Step]
    paths: list[Path]
    others: dict[int, list[Step]]

    def of(self, unit: int) -> list[int]:
        """Steps that read a unit."""
        both = zip(self.steps, self.others[unit], strict=False)
        return [k for k, (mine, other) in enumerate(both) if _moved(mine.value, other.value)]


def _reads(name: str, subject: Subject, units: int, seed: int = 0) -> Iterator[Reads]:
    run = run_of(subject.plan)
    names = list(subject.pairs)
    for what in dict.fromkeys((names[0], names[-1])):
        pair = subject.pairs[what]
        steps, paths = _seen(run, pair.first, seed)
        others = {unit: _seen(run, data, seed, steps)[0] for unit, data in _replaced(pair, units)}
        yield Reads(name, f"{name}, {what}", steps, paths, others)


MANY = {"boosted_mirror_descent": 36, "phased_sgd, phases": 24}
"""Units that are replaced, where more than 8: pieces leave records over, and clipped walks hide their users."""
UNSEEN = ("objective_perturbation", "clipped_residuals", "private_search/repeats")
"""Noise inside an objective, and runs that lose: their releases are not met one by one."""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def watched(family: str) -> list[Reads]:
    """Runs of everything that splits, samples or composes."""
    found: list[Reads] = []
    with priced_once():
        for name in FAMILIES[family]:
            try:
                found += _reads(name, _subject_of(family, name), MANY.get(name, 8))
            except UnsupportedEventError:
                assert name.startswith(UNSEEN), name
    return found


def _apart(one: Path, other: Path) -> bool:
    """Whether two releases claim disjoint records: two blocks of one ledger."""
    blocks = dict(other)
    return any(block and blocks.get(ledger) and blocks[ledger] != block for ledger, block in one)


def test_blocks_read_disjoint_units(family: str, watched: list[Reads]) -> None:
    """Parallel composition charges the dearest block, which is right only if no unit is read by two of them."""
    seen, split = set(), set()
    for run in watched:
        for unit in run.others:
            steps = run.of(unit)
            seen |= {run.name} if steps else set()
            for j, k in combinations(steps, 2):
                both = " and ".join(str([block for _, block in run.paths[step]]) for step in (j, k))
                assert not _apart(run.paths[j], run.paths[k]), f"{run.title}: {both} both read unit {unit}"
        split |= {run.name} if any(_apart(a, b) for a, b in combinations(set(run.paths), 2)) else set()
    assert {run.name for run in watched} == seen, "a table pulls too weakly to be seen"
    assert split == BLOCKS[family]


LENGTHS = {"l1": 1, "l2": 2, "linf": np.inf, "absolute": np.inf}
TWICE = {
    "noisy_gradient/samples": 2,  # it prices taking part, and a replaced record does so twice
    "noisy_gradient/user_samples": 2,
    "group_privacy": 2,  # it prices one of a user's two records
}


def _move(step: Step, other: Step) -> float:
    """How far a value moves, in units of the stated sensitivity."""
    mechanism, mine, its = step.mechanism, step.value, other.value
    if isinstance(mechanism, RobustMean):  # score, mean, and the mean's sensitivity where both scores pass
        score = abs(mine[0] - its[0])  # of sensitivity 1
        good = min(mine[0], its[0]) >= mechanism.passing
        return max(score, float(np.linalg.norm(mine[1] - its[1])) / mine[2] if good else 0.0)
    if isinstance(mechanism, CohortMean):  # the same in each cohort, the whole sum in the last's units
        moved = np.abs(mine[0] - its[0])
        good = not moved.any() or min(mine[0][moved > 0].min(), its[0][moved > 0].min()) >= 0
        sums = [mechanism.cohorts.total(step[1], np.ones(len(moved), dtype=bool)) for step in (mine, its)]
        return max(float(moved.sum()), float(np.linalg.norm(sums[0] - sums[1])) / mine[2] if good else 0.0)
    if isinstance(mechanism, MedianMechanism):
        return 0.0  # its sensitivity is of the score
    count = min(np.size(mine), np.size(its))  # of the queries of a session
    moved = np.nan_to_num(np.asarray(mine)[:count]) - np.nan_to_num(np.asarray(its)[:count])
    norm, value = mechanism.sensitivity.norm, mechanism.sensitivity.value
    if norm == "range":
        return float(np.ptp(moved)) / value
    if norm == "nuclear":  # of a symmetric matrix, given by its upper triangle
        moved, upper = np.zeros((mechanism.size, mechanism.size)), moved
        moved[np.triu_indices(mechanism.size)] = upper
        return float(np.abs(np.linalg.eigvalsh(moved, "U")).sum()) / value
    return float(mechanism.norm(moved) if norm not in LENGTHS else np.linalg.norm(moved, LENGTHS[norm])) / value


def test_no_unit_moves_a_release_further_than_is_stated(watched: list[Reads]) -> None:
    """Each release for itself: what one overstates does not hide what another understates."""
    largest: dict[str, float] = {}
    for run in watched:
        if run.name == "mechanism/vertex_sampling":
            continue  # its tables are further apart than it claims
        for unit, other in run.others.items():
            for mine, its in zip(run.steps, other, strict=False):
                moved = _move(mine, its) / TWICE.get(run.name, 1)
                largest[run.name] = max(largest.get(run.name, 0.0), moved)
                assert moved <= ENLARGEMENT, f"{run.title}: unit {unit} moves {mine.mechanism.name} by {moved}"
    assert sum(moved > 0.9 for moved in largest.values()) > len(largest) / 4, "the tables pull too weakly"


def test_vertices_are_drawn_as_often_as_is_charged(family: str, watched: list[Reads]) -> None:
    """Exposure: draws after a unit is read, for every method that draws vertices, and what their ranges add up to."""
    fullest: dict[str, float] = {}
    for run in watched:
        for sampling in {
            id(s.mechanism): s.mechanism for s in run.steps if isinstance(s.mechanism, VertexSampling)
        }.values():
            own = [k for k, step in enumerate(run.steps) if step.mechanism is sampling]
            counts = np.array([np.size(run.steps[k].outcome) for k in own])
            assert counts.sum() == sampling.limit, run.title
            if run.name == "mechanism/vertex_sampling":
                continue
            for other in run.others.values():
                moved = np.array([np.ptp(run.steps[k].value - other[k].value) for k in own])
                read = np.array([_moved(run.steps[k].value, other[k].value) for k in own])
                assert counts[read].sum() <= sampling.draws, run.title
                assert counts @ moved**2 <= sampling.square_sum * ENLARGEMENT**2, run.title
                assert sampling.range_sum is None or counts @ moved <= sampling.range_sum * ENLARGEMENT, run.title
                fullest[run.name] = max(fullest.get(run.name, 0.0), counts[read].sum() / sampling.draws)
    assert len(fullest) >= {"vertices": 12, "split": 1}.get(family, 0)
    assert set(fullest.values()) <= {1.0}, fullest  # the unit that is exposed most is exposed as often as is charged


def test_noise_is_drawn_anew_for_every_release(watched: list[Reads]) -> None:
    """Additive noises of a run, in their scales: more than half differ by 1e-5; a pair does not once in 10^5."""
    for run in watched:
        noises = []
        for step in run.steps:
            if isinstance(step.mechanism, GaussianMechanism | NormNoiseMechanism):
                scale = getattr(step.mechanism, "sigma", 0.0) or getattr(step.mechanism, "scale", 0.0)
                noises.append((np.asarray(step.outcome) - np.nan_to_num(step.value)).ravel()[0] / scale)
        different = 1 + np.count_nonzero(np.diff(np.sort(noises)) > 1e-5)
        assert different > len(noises) / 2, run.title


class Watched(np.ndarray):
    """A table that notes which rows are taken from it by their numbers."""

    rows: list[np.ndarray]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, np.ndarray) and key.dtype.kind == "i":
            self.rows.append(key)
        return np.asarray(self)[key]


def _taken(plan: Any, X: np.ndarray, y: np.ndarray, seed: int, *groups: UserGroups) -> list[np.ndarray]:
    table = X.view(Watched)
    table.rows = []
    with priced_once():
        run_of(plan)(table, y, *groups, SeededSource(seed))
    return table.rows


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_records_take_part_at_the_priced_rate_in_fresh_samples(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 coins of one run and another: shares within 5 standard errors; a false alarm has probability 2e-6."""
    n, steps = 2_000, 50
    plan = gradient_descent.plan(_linear(HingeLoss(), n), RECORDS, steps=steps, rate=rate)
    event = plan.releases[0].event
    assert isinstance(event, PoissonSteps)
    drawn: list[np.ndarray] = []
    own = sampled_gradient

    def watched(*given: Any) -> Any:
        gradient = own(*given)
        return lambda w, sample: (drawn.append(np.asarray(sample)), gradient(w, sample))[1]

    module = sys.modules["dpconvex.algorithms.erm.gradient_descent.plan"]  # the package's name is the function
    monkeypatch.setattr(module, "sampled_gradient", watched)
    for seed in (1, 2):
        plan.run(np.ones((n, 1)), np.ones(n), SeededSource(seed))
    assert len(drawn) == 2 * event.steps == 2 * steps
    runs = [drawn[:steps], drawn[steps:]]
    for samples in runs:
        share = sum(map(len, samples)) / (n * steps)
        assert share == pytest.approx(event.rate, abs=5 * np.sqrt(rate * (1 - rate) / (n * steps)))
    fresh = [np.bincount(sample, minlength=n) for samples in runs for sample in samples]
    both = np.mean([a @ b for a, b in pairwise(fresh)]) / n
    assert both == pytest.approx(rate**2, abs=8 * rate * np.sqrt((1 - rate) / (n * steps)))  # 5 standard errors or more
    assert not any(np.array_equal(a, b) for a, b in zip(*runs, strict=True))  # the source draws them


def test_steps_on_subsets_draw_each_afresh_from_all_users() -> None:
    """60 of 200 users a step: overlaps have mean 18 and deviation 3; one of 40 or more has probability below 1e-9."""
    users, size = 200, 60
    subject = TARGETS["accelerated_user/sampled"].subject(1.0, 0.05, 1.0)
    event = subject.plan.releases[0].event
    assert isinstance(event, SampledSteps)
    assert (event.population, event.batch) == (users, size)
    X, y, labels = np.ones((2 * users, 1)), np.ones(2 * users), np.repeat(np.arange(users), 2)
    samples = []
    for seed in (1, 2):
        taken = _taken(subject.plan, X, y, seed, UserGroups.of(labels))
        assert 1 < len(taken) <= event.steps
        samples += [set(labels[rows]) for rows in taken]
    assert {len(sample) for sample in samples} == {size}
    assert max(len(a & b) for a, b in combinations(samples, 2)) < 40
    assert len(set().union(*samples)) > 0.9 * users  # each is left out of 10 samples with probability 0.03
