"""MWEM with replay, line by line. Constants and lemma: `plan.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.queries.base import fit_histogram
from dpconvex.privacy import Ledger
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.queries.mwem.plan import MwemPlan


def run(plan: MwemPlan, records: AnyArray, source: BitSource, ledger: Ledger) -> FloatArray:
    """Select, measure, fit; return the last histogram, shape (cells,).

    Parameters
    ----------
    plan : MwemPlan
        Public constants.
    records : array of shape (n,)
        Cells inside the domain.
    source : BitSource
        Where the noise comes from.
    ledger : Ledger
        It lists the plan's releases.
    """
    queries = plan.queries
    selected, measured = plan.releases
    session = plan.selection.start(selected.label, source, ledger)
    truth = queries.record_sums(records) / plan.n
    starts = [part.start for part in queries.blocks]
    histogram = np.full(queries.cells, 1 / queries.cells)
    sums: dict[int, FloatArray] = {}
    times: dict[int, int] = {}
    for t in range(1, plan.rounds + 1):
        errors = np.maximum.reduceat(np.abs(truth - queries.answers(histogram)), starts)
        block = int(session.draw(plan.scale * errors)[0])
        answers = truth[queries.blocks[block]]
        noisy = plan.measurements[len(answers)].release(answers, measured.label, source, ledger)
        sums[block] = sums.get(block, 0.0) + noisy
        times[block] = times.get(block, 0) + 1
        targets = {b: sums[b] / times[b] for b in sums}
        steps = plan.fit_steps * (10 if t == plan.rounds else 1)
        histogram = fit_histogram(queries, targets, times, histogram, steps)
    return histogram
