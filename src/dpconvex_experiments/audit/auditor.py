r"""The auditor: tries to refute a promise of privacy, and says what it could prove (docs, Audits).

Two attacks on neighboring data sets: the `exact` privacy loss where laws are known, which chooses the pair, and counts
of the outputs of whole runs (`bounds.prove`), which assume nothing. A promise *passes* if neither proves more than was
promised: no proof of privacy, while a refutation is one of its failure, but for the stated probability.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats
from dpconvex.algorithms import ConvexPlan, Plan
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import ledger
from dpconvex.problems import LinearModelProblem
from dpconvex.randomness import BitSource, SystemSource
from dpconvex_experiments.audit import bounds
from dpconvex_experiments.audit.exact import SEARCH, exact_finding
from dpconvex_experiments.audit.neighbors import record_pairs, user_pairs
from dpconvex_experiments.audit.report import AuditReport, Finding, Pace
from dpconvex_experiments.audit.target import Auditable, Pairs, Subject, released, run_of
from dpconvex_experiments.base import Track, untracked

ERROR = 1e-3  #: Largest probability that an audit calls a true promise refuted.


def audit(
    plan: Auditable, pairs: Pairs | None = None,
    *, title: str | None = None, output: Callable[[Any], Floats] = released, runs: int = 2000, transcripts: int = 400,
    error: float = ERROR, seconds: float | None = None, source: BitSource | None = None, seed: int = 0,
    track: Track | None = None,
) -> AuditReport:  # fmt: skip
    """Try to refute the promise of a plan, or of anything with ``privacy`` and ``run(*data, source)``.

    `pairs` are those of the plan's own domain by default, for linear models; `output` turns what a run returns into the
    numbers (k,) that an attacker sees. `runs` are counted on each of two data sets, `transcripts` replayed on the worst
    pair, which a quarter as many find: at least 8 of each, or 0 for none. Each sampled bound is wrong with probability
    at most `error`. `seconds` is an aim for the whole audit: where runs take long there are fewer. `source` is of the
    noise of counted runs, `seed` of random neighbors and of replayed noise.
    """
    pace = Pace(None if seconds is None else _validate.real("seconds", seconds, above=0.0))
    _validate.real("error", error, above=0.0, below=0.5)
    for name, value in (("runs", runs), ("transcripts", transcripts)):
        if _validate.integer(name, value, at_least=0) and value < 8:
            raise InvalidParameterError(name, value, "must be 0 or at least 8")
    found = _default_pairs(plan, seed) if pairs is None else dict(pairs)
    if not found:
        raise InvalidParameterError("pairs", {}, "must hold at least one pair of neighboring data sets")
    show = track or untracked
    with priced_once():
        exact = exact_finding(plan, found, transcripts, error, seed, show, pace) if transcripts else None
        findings = [] if exact is None else [exact]
        if runs:
            pair = next(iter(found.values()))
            each = 2 * pace.timed(lambda: run_of(plan)(*pair.first, SystemSource()))
            runs = pace.affordable(runs, each * (1 if exact else 1 + len(found) / 8), 1.0)
            subject = Subject(plan, found, output)
            best = exact.pair if exact else _piloted(subject, max(8, runs // 8), show)
            findings.append(_counted(subject, best, runs, error, source or SystemSource(), show))
    findings.sort(key=lambda finding: -finding.epsilon)
    name = title or getattr(plan, "algorithm", type(plan).__name__)
    return AuditReport(name, plan.privacy, tuple(findings), runs, pace.spent)


@contextmanager
def priced_once() -> Iterator[None]:
    """Price equal ledgers once, and leave certificates out; the ledger still refuses what a plan does not list."""
    with (
        mock.patch.object(ledger, "fits", functools.lru_cache(maxsize=64)(_fits)),
        mock.patch.object(Plan, "certificate", _nothing),
    ):
        yield


_fits = ledger.fits


def _nothing(*_: Any) -> None:
    """Replace a function that is left out, and do nothing; a mock would be slower than most runs."""


def _default_pairs(plan: Any, seed: int) -> Pairs:
    if isinstance(plan, ConvexPlan) and isinstance(plan.problem, LinearModelProblem):
        return user_pairs(plan.problem) if plan.problem.grouped else record_pairs(plan.problem, seed)
    remedy = "Build them with dpconvex.audit.Pair"
    raise InvalidParameterError("pairs", None, "must be given for a plan that is not for a linear model", remedy)


def _counted(subject: Subject, name: str, runs: int, error: float, source: BitSource, track: Track) -> Finding:
    counted = bounds.prove(*_outputs(subject, name, runs, source, track), subject.plan.privacy.delta, error)
    detail = f"{counted.event}: {counted.first:.4g} against {counted.second:.4g} of {runs - runs // 2} runs"
    return Finding("counting", name, counted.epsilon, 1 - error, detail)


def _outputs(subject: Subject, name: str, runs: int, source: BitSource, track: Track) -> tuple[Floats, Floats]:
    """Return the released numbers of `runs` runs on each of the two data sets of a pair."""
    run, pair = run_of(subject.plan), subject.pairs[name]
    first, second = [], []
    for _ in track(range(runs), "Counting outputs"):
        first.append(subject.output(run(*pair.first, source)))
        second.append(subject.output(run(*pair.second, source)))
    return np.array(first), np.array(second)


def _piloted(subject: Subject, runs: int, track: Track) -> str:
    """Name of the pair that a few runs tell apart best: independent of the runs that are counted later."""
    scores = {}
    for name in track(subject.pairs, SEARCH):
        outputs = _outputs(subject, name, runs, SystemSource(), untracked)
        scores[name] = bounds.prove(*outputs, subject.plan.privacy.delta, 0.2).epsilon
        spread = sum(np.linalg.norm(side.std(axis=0)) for side in outputs) + 1e-300
        apart = float(np.linalg.norm(outputs[0].mean(axis=0) - outputs[1].mean(axis=0)) / spread)
        scores[name] = max(scores[name], 0.0) + 1e-3 * min(apart, 1e3)  # ranks pairs on which counts prove nothing
    return max(scores, key=lambda name: scores[name])
