r"""Tails of columns of numbers, mended after a release: noise must not pass for records far out.

Most bins of a skewed column are empty. Noise has both signs and a model's shares have not, so an empty bin is left with
the positive part of its noise, far out: means, deviations and high quantiles of drawn numbers are too large.

Guarantee
    Post-processing: released tables, a fitted model and public edges go in, and no records.
Listing
    1. Sum a column's noisy table from either end: a sum of j bins has sqrt(j) deviations of noise, far less than j
       positive parts. The outermost bin that exceeds `STANDS` deviations, by itself or as the sum from it to the end,
       *stands out*. (If the end bin does by itself, a spike, it stays as it is, and the next bin counts as the end.)
    2. From the median m on, which has a half, shares of numbers further out than x fall like ``(1 + (x - m)/b)^-POWER``
       (Lomax 1954); b is such that they are the released sum where the bin that stands out begins. Nothing is changed
       if more than the part `FAR` of that sum would lie beyond the end of the range, which then is not far out.
    3. The bins further out keep what they have together, but no more than that law gives them, and in its proportions;
       all other bins gain, in their own proportions, what these lose. Inside found bins from the one that stands out
       on, numbers follow that law (in public bins they are even). Other columns keep their shares.
    So nothing that stands out is emptied: modes, spikes, ranges that are full to their ends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpconvex._types import Array, Floats
from dpconvex.algorithms.queries.grouped_tables import GroupedModel
from dpconvex.algorithms.queries.latent_classes import LatentClasses
from dpconvex.algorithms.queries.released_tables import ReleasedModel, ReleasedTables

STANDS, POWER, FAR = 3.0, 4.0, 0.1  # benchmarks/found_bins.py tails
Law = tuple[tuple[float, float], ...]  #: Shares of numbers below increasing places, as in `NumberCells`


def mended(
    model: ReleasedModel, tables: ReleasedTables, numbers: Mapping[int, tuple[Sequence[float], Law]]
) -> tuple[ReleasedModel, dict[int, Law]]:
    """Return the model and the laws inside of bins with mended tails (Listing).

    `numbers` has the edges of the bins of columns of numbers, and their laws, which may be empty. Values beyond the
    bins (missing numbers) stay as they are.
    """
    maps, laws = dict[int, Array](), {k: law for k, (_, law) in numbers.items()}
    for k, (ends, law) in numbers.items():
        if (k,) not in tables.subsets:
            continue
        edges, count, (noisy, noise) = np.array(ends), len(ends) - 1, tables.estimate((k,))
        old = model.marginal((k,))[:count]
        new, middle = old.copy(), np.interp(old.sum() / 2, np.append(0.0, np.cumsum(old)), edges)
        places, below = np.array(law).T if law else (edges, np.arange(count + 1.0))
        held, at = np.diff(below), np.searchsorted(places, edges)
        for sign in (1, -1):  # the lower tail is the upper one of the negative numbers
            turn = slice(None, None, sign)
            found = _tail(sign * (edges - middle)[turn], noisy[:count][turn], noise, new[turn])
            if found is None:
                continue
            first, stop, beyond, survive = found
            out = np.isin(np.arange(count), np.arange(count)[turn][first + 1 : stop])
            new[~out] *= 1 + (new[out].sum() - beyond.sum()) / max(new[~out].sum(), 1e-300)
            new[out] = beyond[turn]
            for bin_ in np.arange(count)[turn][first:stop] if law else ():
                start, end = at[bin_], at[bin_ + 1]
                inside = np.abs(np.diff(survive(sign * (places[start : end + 1] - middle))))
                held[start:end] = held[start:end].sum() * inside / max(inside.sum(), 1e-300)
        if law:
            laws[k] = tuple(zip(places.tolist(), np.append(0.0, np.cumsum(held)).tolist(), strict=True))
        lost, gain = np.maximum(old - new, 0.0) / np.maximum(old, 1e-300), np.maximum(new - old, 0.0)
        if gain.sum() > 0:
            maps[k] = np.eye(model.shape[k])
            maps[k][:count, :count] += np.outer(lost, gain / gain.sum()) - np.diag(lost)
    if not maps:
        return model, laws
    if isinstance(model, LatentClasses | GroupedModel):
        return replace(model, levels=tuple(p @ maps[k] if k in maps else p for k, p in enumerate(model.levels))), laws
    levels = tuple(maps.get(k, np.eye(size)) for k, size in enumerate(model.shape))
    return GroupedModel(model.shape, model, levels, model.impossible), laws


def _tail(
    edges: Array, noisy: Floats, noise: float, shares: Floats
) -> tuple[int, int, Floats, Callable[[Array], Floats]] | None:
    """Return the bin that stands out, the tail's end, shares of the bins between, and the law; None without a tail.

    Edges are distances from the median.
    """
    stop = len(noisy) - int(noisy[-1] > STANDS * noise)
    outer = noisy[:stop][::-1] / noise
    clear = np.flatnonzero(np.maximum(outer, np.cumsum(outer) / np.sqrt(np.arange(1, stop + 1))) > STANDS)
    first = stop - 1 - int(clear[0]) if clear.size else 0
    if not clear.size or (start := edges[first]) <= 0:
        return None
    total = min(max(noisy[first:stop].sum(), noisy[first]), shares[first:stop].sum())
    unit = start / (np.clip(2 * total, 1e-9, 0.98) ** (-1 / POWER) - 1)

    def survive(distances: Array) -> Floats:
        return ((start + unit) / (distances + unit)) ** POWER

    law = survive(edges[first : stop + 1])
    parts, most = -np.diff(law)[1:], total * (law[1] - law[-1]) / (1 - law[-1])
    beyond = min(shares[first + 1 : stop].sum(), most) * parts / max(parts.sum(), 1e-300)
    return None if law[-1] > FAR else (first, stop, beyond, survive)
