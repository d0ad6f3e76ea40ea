r"""Ranges of numbers: what maps a column to [-1/2, 1/2], and the public cells in which ranges are looked for.

Every double has a cell: powers of two (octaves) of either sign, one cell around 0, two end cells, one for what is
missing. So a range may be read off released counts of the cells, and then belongs to nobody (docs, Private ranges).
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dpconvex import _validate
from dpconvex._types import Array, Floats, IntArray, final_dataclass, set_fields
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.data import _loops
from dpconvex.problems.data.domain import center

TRANSFORMS: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "none": (np.positive, np.positive, {}),
    "log1p": (np.log1p, np.expm1, {"above": -1.0}),
    "sqrt": (np.sqrt, np.square, {"at_least": 0.0}),
    "signed_log": (lambda x: np.sign(x) * np.log1p(np.abs(x)), lambda x: np.sign(x) * np.expm1(np.abs(x)), {}),
}  #: Increasing maps by name: the map, its inverse, and the limits that its domain sets to a lower bound.
LOWEST, HIGHEST = -30, 40
"""Exponents of the smallest octave and of the end cell: smaller sizes count as 0, larger ones fall in the end cell."""
END = HIGHEST - LOWEST + 1  #: Level of the end cells. The cell around 0 has level 0, octaves have levels between.
MISSING = 2 * END + 1
CELLS = MISSING + 1
EDGE, FAR, NEAR = 0.7, 1.2, 3
"""A range goes on past the fullest octave while octaves hold on average EDGE deviations of noise, FAR after NEAR."""
RARE, RARER, STANDS = 0.1, 0.25, 3.0
"""Deviations of noise by which the fullest octave must be fuller for each octave away from 1 (numbers of 1e9 are rare),
and for each octave above 1 in a target, whose range must not be far too large; and the deviations that the count of
0, or of a sign, must exceed to count as present (`benchmarks/private_ranges.py`)."""
WIDTHS = 1, 2, 4, 8  #: Numbers of neighboring octaves whose counts are added to find the fullest (docs, What was tried)
HEAVY = 4  #: A column is put on a logarithmic scale if its last octave is more than this many above the median's.
SPIKE = 0.1  #: A column is put on a logarithmic scale if more than this share of its records is 0.
SPARE, ZEROS = 3, 17
"""On a logarithmic scale: spare octaves at the ends, and the last exponent of a column where only 0 stands out."""
FINE = 4  #: The logarithmic scale turns linear this many octaves below the median's.


@final_dataclass
class NumberRange:
    """A range in a column's own unit, ``lower < upper``, and an increasing map of value/scale to [-1/2, 1/2]."""

    lower: float
    upper: float
    transform: str = "none"
    scale: float = 1.0

    def __post_init__(self) -> None:
        low = _validate.real("lower", self.lower)
        high = _validate.real("upper", self.upper, above=low, remedy="Give a range wider than one value")
        if not math.isfinite(high - low):
            raise InvalidParameterError("upper", high, "must leave a finite width upper - lower")
        limits = TRANSFORMS[_validate.choice("transform", self.transform, TRANSFORMS)][2]
        _validate.real("lower", low, **limits, remedy='Use transform = "none", or shift the column')
        if _validate.real("scale", self.scale, above=0.0) != 1 and self.transform != "signed_log":
            raise InvalidParameterError("scale", self.scale, 'is for transform = "signed_log"', "Leave it out")
        own = {name: getattr(self, name) for name in ("lower", "upper", "scale")}  # digests of models tell 0 from 0.0
        set_fields(self, **{name: value if type(value) is int else float(value) for name, value in own.items()})
        first, last = self.ends
        if not 0 < last - first < math.inf:
            raise InvalidParameterError("upper", high, "must exceed lower after the transform")

    @property
    def ends(self) -> tuple[float, float]:
        """The two ends after the transform."""
        return float(self.mapped(self.lower)), float(self.mapped(self.upper))

    def mapped(self, values: Any) -> Any:
        """Return numbers of the range after the transform."""
        return TRANSFORMS[self.transform][0](np.divide(values, self.scale))

    def even(self, count: int) -> list[float]:
        """Return numbers that are evenly spaced after the transform, from end to end."""
        return self.back(np.linspace(*self.ends, count).tolist())

    def back(self, places: Sequence[float]) -> list[float]:
        """Return the numbers at these transformed positions, the first and last of which are the range's ends."""
        inverse = TRANSFORMS[self.transform][1]
        return [self.lower, *(float(inverse(place) * self.scale) for place in places[1:-1]), self.upper]

    def transformed(self, values: Array) -> Array:
        """Return any numbers, clipped into the range, after the transform; missing ones stay NaN."""
        return self.mapped(np.clip(values, self.lower, self.upper))

    def encode(self, values: Array, out: Floats | None = None) -> Floats:
        """Return numbers (n,) scaled to [-1/2, 1/2], written to `out`; NaN becomes 0, an infinity the nearer end."""
        found = np.empty(len(values)) if out is None else out
        center([(values if self.transform == "none" else self.transformed(values), self.ends, 0)], found[:, None])
        return found


def cells(values: Array) -> IntArray:
    """Return the cell of every number, (n,): whatever it is, each has exactly one."""
    with np.errstate(all="ignore"):
        values = np.asarray(values, dtype=np.float64)
    exponents = np.frexp(values)[1].astype(np.int64) - 1
    levels = np.where(np.isinf(values), END, np.clip(exponents - LOWEST + 1, 0, END))
    levels[values == 0] = 0
    return np.where(np.isnan(values), MISSING, END + np.where(values < 0, -levels, levels))


def find(counts: Floats, deviation: float, linear: bool, rare: float = RARE) -> NumberRange:
    """Return the range that released counts (CELLS,) suggest; finite and of positive length whatever they are.

    It starts at the fullest octave of sizes (`_fullest`) and extends either way to where the sum of counts less `EDGE`
    deviations each is largest: single tails drown in noise, sums do not. Each sign's range is then found in the same
    way. Unless `linear`, the scale is logarithmic if 0 stands out or the largest sizes are far above the median.
    """
    signs, noise = (counts[END - 1 :: -1], counts[END + 1 : MISSING]), math.sqrt(2) * deviation  # level 1 first
    sizes = signs[0] + signs[1]
    mode = _fullest(sizes / noise, rare)
    zero = bool(counts[END] > STANDS * deviation)
    if sizes[mode] <= zero * STANDS * noise:
        return NumberRange(0.0, 2.0**ZEROS, "signed_log") if zero and not linear else NumberRange(0.0, 1.0)
    low, high = mode - _reach(sizes[:mode][::-1], noise), mode + _reach(sizes[mode + 1 :], noise)
    within = [side[low : high + 1] for side in signs]
    there = [float(side.sum()) > STANDS * math.sqrt(len(side)) * deviation for side in within]
    there[int(within[1].sum() >= within[0].sum())] = True
    least = low + 1
    ends = [least + max(_reach(side, deviation) - 1, 0) if on else 0 for side, on in zip(within, there, strict=True)]
    inner = 0 if zero or all(there) else least
    first, last = -ends[0] if there[0] else inner, ends[1] if there[1] else -inner
    full, top = np.cumsum(np.maximum(sizes[low : high + 1], 0)), max(ends)
    median = least + int(np.searchsorted(full, full[-1] / 2))
    kind = zero and counts[END] > SPIKE * counts.sum()
    if linear or not (kind or top - median > HEAVY):
        return NumberRange(_start(first, last), -_start(-last, -first))
    unit = max(math.ldexp(1.0, median + LOWEST - 1 - FINE), math.ldexp(1.0, LOWEST))
    spare = SPARE if top - median > HEAVY else 0
    wider = [min(abs(end) + spare, END) for end in (first, last)]
    bottom = -_upper(wider[0]) if first < 0 else _start(max(first - spare, 0), last)
    upper = _upper(wider[1]) if last > 0 else -_start(max(-last - spare, 0), -first)
    return NumberRange(bottom, upper, "signed_log", unit)


def _fullest(sizes: Floats, rare: float) -> int:
    """Return the fullest octave within the row of 1, 2, 4 or 8 octaves that stands out most; `sizes` in deviations."""
    # A wide spread drowns if octaves are read one by one: in populations, say, each of twenty has a twentieth.
    exponents = np.arange(LOWEST, HIGHEST + 1)
    penalty, best, mode = np.maximum(rare * exponents, -RARE * exponents), -math.inf, 0
    for width in WIDTHS:
        rows, penalties = (sliding_window_view(each, width) for each in (sizes, penalty))
        found = rows.sum(1) / math.sqrt(width) - penalties.max(1)
        first = int(found.argmax())
        if found[first] > best:
            best, mode = float(found[first]), first + int(rows[first].argmax())
    return mode


def _reach(counts: Floats, noise: float) -> int:
    """Return how many of these cells, given in order from the fullest outwards, a range includes."""
    gains = np.cumsum(counts - np.where(np.arange(len(counts)) < NEAR, EDGE, FAR) * noise)
    return int(np.argmax(gains)) + 1 if gains.size and gains.max() > 0 else 0


PARTS = 32  #: Equal cells into which a range is cut; missing numbers have one more cell.
THIN, FEW, VAGUE = 0.15, 0.001, 0.03
"""A range on a linear scale is cut where cells hold, on average, less than THIN deviations plus a share FEW of the
records; it is not cut if one deviation is more than a share VAGUE of the records."""
Ranges = tuple[NumberRange, ...]  #: The ranges of some columns
Places = tuple[tuple[float, ...], ...]  #: The knots of some columns
Step = tuple[float, float]  #: Position of the first multiple of a step in a range, and length of a step, both in cells
WHOLE = NumberRange(0.0, 1.0)  #: The range of places, which are numbers scaled to [0, 1] in their declared range.
SOUGHT = 5  #: Knots found in a declared range, both ends included (docs, Additive models, section 4).


def parts(found: NumberRange, values: Array, count: int = PARTS) -> IntArray:
    """Return each number's cell (n,) among `count` equal cells of a range: end cells beyond it, `count` for NaN."""
    with np.errstate(all="ignore"):
        missing = np.isnan(np.asarray(values, dtype=np.float64))
    cell = np.minimum(np.floor((found.encode(values) + 0.5) * count), count - 1).astype(np.int64)
    return np.where(missing, count, cell)


def parts_of_columns(found: NumberRange, X: Floats, columns: Sequence[int]) -> Array:
    """Return the cells, as `parts` does, of the numbers of some columns in one linear range, (columns, n)."""
    out = np.empty((len(columns), len(X)), dtype=np.uint8)
    rows, where = np.require(X, np.float64, ["C"]), np.array(columns, dtype=np.int64)
    _loops.parts(rows, where, found.lower, found.upper, PARTS, out)
    return out


def keep(X: Floats, columns: Sequence[int], within: Sequence[NumberRange]) -> None:
    """Clip columns of X into linear ranges and map these to [-1/2, 1/2], in place; missing numbers become 0."""
    ends = np.array([(one.lower, one.upper) for one in within]).reshape(-1, 2)
    _loops.keep(X, np.array(columns, dtype=np.int64), ends)


def crowded(found: NumberRange, counts: Floats, deviation: float, knots: int = 2) -> tuple[int, ...]:
    """Return the cells' edges at which the kept range starts, has knots and ends; the last count is of missing ones."""
    # Knots cut counts, mixed half and half with an even law, into equal shares. Logarithmic scales stay whole; there a
    # cell with over a third of the records, mostly that of 0, has knots at both its edges, as in `sought`.
    cells, first, stop = counts[:-1], 0, len(counts) - 1
    if found.transform == "none" and deviation <= VAGUE * counts.sum():
        few = FEW * PARTS / len(cells) * counts.sum()
        thin, fullest = cells - THIN * deviation - few, int(cells.argmax())
        first = int(np.argmin(np.cumsum(np.append(0.0, thin[:fullest]))))
        stop -= int(np.argmin(np.cumsum(np.append(0.0, thin[:fullest:-1]))))
        first = max(0, min(first, stop - knots + 1))
        stop = max(stop, first + knots - 1)
    held, own, fullest = np.maximum(cells[first:stop], 0.0), set[int](), first + int(cells[first:stop].argmax())
    if knots >= SOUGHT and found.transform != "none" and cells[fullest] > counts.sum() / 3:
        own, held[fullest - first] = {fullest, fullest + 1} - {first, stop}, 0.0
    law, spaces = np.cumsum(held / max(held.sum(), 1e-300) + 1 / len(held)), knots - len(own) - 1
    inner = first + np.searchsorted(law, np.arange(1, spaces) * law[-1] / spaces) + 1
    room = np.arange(knots)
    edges = np.maximum.accumulate(np.array([first, *sorted((*inner, *own)), stop]) - room) + room  # none twice
    return tuple(np.minimum(edges, stop - room[::-1]).tolist())


def multiples(places: Sequence[float] | Array, step: float) -> Array:
    """Return the index of the first multiple of `step` at or above each increasing place; for the last, above it."""
    found = np.ceil(np.divide(places, step) - 1e-9) + 0.0  # no -0
    found[-1] = np.floor(places[-1] / step + 1e-9) + 1
    return found


GRID = 128  #: Most cells of a declared range from which bins are built; 64 were worse, 256 no better.
DEPTH = 2.0**-20  #: Width of the finest cells, next to the number nearest to 0, as a share of the declared range.
TINY = 2.0**LOWEST  #: Smaller sizes are counted as 0, here as in octaves.


def point(width: float) -> float:
    """Return the width of a cell that stands for a single value."""
    return min(TINY, width * 2.0**-40)


def grid(within: NumberRange, step: float) -> list[float]:
    """Return the edges of at most `GRID` public cells of a declared range, increasing, from end to end.

    Half of the edges are even after the transform, half logarithmic in the distance from the number nearest to 0, for
    skewed columns; both ends and 0 have cells of their own. With a step, each edge lies between two multiples.
    """
    low, high, width = within.lower, within.upper, within.upper - within.lower
    first, stop = multiples((low, high), step) if step else (0.0, math.inf)
    if stop - first <= GRID:
        found = step * (first + np.arange(stop - first - 1) + 0.5)
    else:
        middle, gap = min(max(0.0, low), high), step / 2 or point(width)
        least, half = max(step, DEPTH * width), GRID // 2
        ways = [(sign, far) for sign, far in ((-1, middle - low), (1, high - middle)) if far > least]
        logs = [middle + sign * np.geomspace(least, far, (half - 4) // len(ways) + 1)[:-1] for sign, far in ways]
        found = np.concatenate([within.even(half + 1)[1:-1], *logs])
        if step:
            found = (np.floor(found / step) + 0.5) * step
            low, high = step * first, step * (stop - 1)
        zero = (-gap if step else 0.0, gap) if low < 0 < high else ()
        found = np.unique(np.append(found, (low + gap, high - gap, *zero)))
    return [within.lower, *found[(found > low) & (found < high)].tolist(), within.upper]


DOUBT = 3.0  #: Deviations of noise added to two halves of cells, which draws them to shares by their number of cells.
EVEN = 0.25  #: Weight of equal shares in the mixture with the cells' own shares, by which bins are split.


def shares(counts: Floats, deviation: float) -> Floats:
    """Return positive shares of cells, of sum 1, halving repeatedly; noisier halves lean to their number of cells."""
    if len(counts) < 2:
        return np.ones(len(counts))
    parts_, doubt = np.array_split(counts, 2), DOUBT * deviation / math.sqrt(len(counts))
    held = [max(float(part.sum()), 0.0) + doubt * len(part) for part in parts_]
    return np.concatenate([h / sum(held) * shares(part, deviation) for h, part in zip(held, parts_, strict=True)])


def split(counts: Floats, deviation: float, bins: int) -> tuple[int, ...]:
    """Return increasing edges of `bins` bins of cells: the fullest bin is halved again and again.

    A cell that stands out and holds more than one bin's share has a bin of its own.
    """
    held, size = shares(counts, deviation), len(counts)
    law = np.append(0.0, np.cumsum((1 - EVEN) * held + EVEN / size))
    own = np.flatnonzero((held > 1 / bins) & (counts > STANDS * deviation))
    own = own[np.argsort(-held[own])][: max(bins // 2 - 1, 0)]
    edges = {0, size, *own.tolist(), *(own + 1).tolist()}
    while len(edges) <= bins:
        _, a, b = max((law[b] - law[a], a, b) for a, b in pairwise(sorted(edges)) if b - a > 1)
        edges.add(a + 1 + int(np.abs(law[a + 1 : b] - (law[a] + law[b]) / 2).argmin()))
    return tuple(sorted(edges))


def sought(counts: Floats, deviation: float) -> tuple[int, ...]:
    """Return `SOUGHT` edges of the cells (PARTS + 1,) of a declared range: both ends, and knots where numbers lie.

    A cell with more than a third of all numbers gets both its edges. Other knots cut the counts that exceed one
    deviation into equal shares; if those give too few knots, the middles of the widest gaps are added.
    """
    held, fullest = np.where(counts[:PARTS] > deviation, counts[:PARTS], 0.0), int(counts[:PARTS].argmax())
    edges = {0, PARTS}
    if held[fullest] > counts.sum() / 3:
        edges |= {fullest, fullest + 1}
        held[fullest] = 0.0
    law, more = np.cumsum(held), SOUGHT - len(edges)
    if law[-1] > 0:
        edges |= {int(k) + 1 for k in np.searchsorted(law, np.arange(1, more + 1) * law[-1] / (more + 1))}
    while len(edges) < SOUGHT:
        gap, first = max((b - a, a) for a, b in pairwise(sorted(edges)))
        edges.add(first + gap // 2)
    return tuple(sorted(edges))


def kept(found: NumberRange, first: float, stop: float, count: int = PARTS) -> NumberRange:
    """Return the part of a range from cell `first` to before cell `stop`, of `count` equal cells."""
    if (first, stop) == (0, count):
        return found
    step = (found.upper - found.lower) / count
    return NumberRange(found.lower + first * step, found.lower + stop * step)


def whole_steps(part: tuple[float, float], step: Step) -> tuple[float, float]:
    """Return a released part with its ends moved to multiples of a public step, if a step is at least a cell long.

    The new ends are the first and last multiple in the part or, if it holds fewer than two, the multiples around it.
    """
    first, length = step
    if not 1 <= length <= 1e6:  # shorter than a cell, or so long that rounding would hide the part
        return part
    low, high = ((end - first) / length for end in part)
    inner, outer = (math.ceil(low - 1e-9), math.floor(high + 1e-9)), (math.floor(low + 1e-9), math.ceil(high - 1e-9))
    low, high = inner if inner[1] > inner[0] else outer
    return max(first + low * length, 0.0), min(first + high * length, float(PARTS))


def knots(found: NumberRange, cut: Sequence[int], count: int = PARTS) -> list[float]:
    """Return the numbers at increasing edges of a range's cells; the first and the last are the kept range's ends."""
    within = kept(found, cut[0], cut[-1], count)
    first, last = within.ends
    return within.back([first + (last - first) * ((k - cut[0]) / (cut[-1] - cut[0])) for k in cut])


def read_back(fields: Sequence[Any], edges: Sequence[Sequence[int]], columns: int, count: int = PARTS) -> Ranges:
    """Return released ranges, one a column, from their fields; refuse what `find` and `crowded` cannot return."""
    outer = tuple(NumberRange(*each) for each in fields)
    fine = all(map(released, outer)) and len(outer) == len(edges) == columns
    if not fine or any(cut[0] < 0 or cut[-1] > count or min(np.diff(cut)) < 1 for cut in edges):
        raise InvalidParameterError("ranges", fields, "must be one range a column, whose ends are powers of two")
    return outer


def released(found: NumberRange) -> bool:
    """Return whether a range is one of those that `find` can return: its ends are 0, 1 or powers of two."""
    powers = all(end == 0 or math.frexp(abs(end))[0] == 0.5 for end in (found.lower, found.upper, found.scale))
    return powers and max(abs(found.lower), abs(found.upper)) <= _upper(END)


def _upper(level: int) -> float:
    """Return the largest absolute value in a level (the number of a cell, counted from 0)."""
    return math.ldexp(1.0, level + LOWEST)


def _start(first: int, last: int) -> float:
    """Return the lower end of a range of signed levels; if the first is positive, an octave lower than that level."""
    if first > 1:
        return math.ldexp(1.0, first + LOWEST - 2)
    return 0.0 if first >= 0 and last > 0 else -_upper(-first)
