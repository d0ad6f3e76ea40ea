"""A search as planned: split, fit, score, choose, release. The only part of a search that sees data."""

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast, final

import narwhals as nw
import numpy as np

from dpconvex import _progress
from dpconvex._types import Array
from dpconvex.algorithms.search.plan import BEST, CHOICE, HELD_OUT, Candidate, SearchPlan
from dpconvex.algorithms.search.scores import Searchable, fit_label
from dpconvex.mechanisms import BestOfRepeats, ReportNoisyMax
from dpconvex.privacy import Ledger
from dpconvex.problems import UserGroups
from dpconvex.problems.data.sources.rows import TableSource
from dpconvex.randomness import BitSource

ModelT = TypeVar("ModelT", bound=Searchable)


@final
@dataclass(frozen=True, eq=False)
class Part:
    """Some of the records: those to fit on, or those that are held out to score on."""

    X: Any  #: As in `fit`
    y: Any
    labels: Array | None  #: Numbers of their users (n_records,); None where records are protected

    @property
    def groups(self) -> UserGroups | None:
        """Whose record it is."""
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
            own = Ledger(plan.privacy, [noise.planned("score")])  # the search's has the run as a whole
            noisy = noise.release(np.array([score]), "score", source, own)
            return (k, model), float(noisy[0])

        return plan.selection.release(attempt, BEST, source, ledger)
    assert isinstance(plan.selection, ReportNoisyMax)
    fitted = []
    for k, candidate in enumerate(plan.candidates):
        ledger.record(candidate.release(fit_label(k, len(plan.candidates))))
        fitted.append(scored(k))
    scores = np.array([score for _, score in fitted])
    chosen = plan.selection.release(scores, CHOICE, source, ledger, HELD_OUT)
    return chosen, fitted[chosen][0]


def fit(candidate: Candidate, data: Part, source: BitSource) -> Searchable:
    """Return the fitted model of a candidate, as planned, without its source."""
    assert candidate.model is not None
    with _progress.muted():
        return candidate.model._fitted_as(candidate.plan, data.X, data.y, data.labels, source)


def split(data: Part, n: int, held_out: int, source: BitSource) -> tuple[Part, Part]:
    """Return training and held-out part, by public coins, from numbers of units; a user's records go to one part."""
    out = np.zeros(n, dtype=bool)
    out[source.generator().permutation(n)[:held_out]] = True
    mask = out if data.labels is None else out[data.labels.astype(np.intp)]
    return _rows(data, np.flatnonzero(~mask)), _rows(data, np.flatnonzero(mask))


def _rows(data: Part, rows: Array) -> Part:
    return Part(taken(data.X, rows), taken(data.y, rows), None if data.labels is None else data.labels[rows])


def taken(values: Any, rows: Array) -> Any:
    """Return some rows of a table, column, array or list, of the same kind; tables elsewhere stay there."""
    if isinstance(values, TableSource):
        return values.taken(rows)
    found: Any = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(found, nw.DataFrame | nw.Series):
        return found[rows.tolist()].to_native()
    if values is None or isinstance(values, list | tuple):
        return None if values is None else list(map(values.__getitem__, rows.tolist()))
    return np.asarray(values)[rows]
