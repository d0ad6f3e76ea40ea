"""The compiled loops of `csv_file`, cached on disk; imported when needed, for numba loads slowly.

A cell is a pair of places (start, stop) in the text. A quoted cell starts after its quote, and its stop is negative.
``slots`` (columns of the header,) says where each column's cell is kept; -1: it is not needed. ``comma`` is the byte
that separates cells. ``breaks``: a record may be several lines.
"""

from dpconvex._compiled import njit
from dpconvex._types import Array

_QUOTE, _LINE, _RETURN = 34, 10, 13


@njit()
def locate(
    text: Array, place: int, slots: Array, starts: Array, stops: Array, comma: int, breaks: bool
) -> tuple[int, int]:
    """Find the cells of the records from `place` on, at most ``len(starts)``; return how many, and where it stopped."""
    count = 0
    while count < len(starts) and place < len(text):
        place = _record(text, place, slots, starts[count], stops[count], comma, breaks)
        count += 1
    return count, place


@njit()
def gather(text: Array, starts: Array, stops: Array, ends: Array, out: Array) -> None:
    """Write the cells to `out`, slot after slot, quotes undone; slot k begins at ``ends[k, 0]``."""
    at = 0
    for slot in range(starts.shape[1]):
        ends[slot, 0] = at
        for row in range(len(starts)):
            start, stop = starts[row, slot], stops[row, slot]
            quoted = stop < 0
            stop = abs(stop)
            while start < stop:
                if quoted and text[start] == _QUOTE:
                    quoted = start + 1 < stop and text[start + 1] == _QUOTE  # doubled, or else the end of the quotes
                    start += 1
                    if not quoted:
                        continue
                out[at] = text[start]
                at += 1
                start += 1
            ends[slot, row + 1] = at


@njit()
def _record(text: Array, place: int, slots: Array, starts: Array, stops: Array, comma: int, breaks: bool) -> int:
    """Read one record; return where the next begins."""
    end = place
    while end < len(text) and text[end] != _LINE:
        end += 1
    last = _trimmed(text, place, end)
    if _line(text, place, last, slots, starts, stops, comma) and breaks:
        following = _lines(text, place, slots, starts, stops, comma)
        if following >= 0:
            return following
        _line(text, place, last, slots, starts, stops, comma)
    return end + 1


@njit()
def _line(text: Array, place: int, last: int, slots: Array, starts: Array, stops: Array, comma: int) -> bool:
    """Read a line as a record; return whether a quote at the start of a cell is not closed in it."""
    starts[:], stops[:] = 0, 0
    unclosed, column = False, 0
    while True:
        start, sign, after = place, 1, place
        if place < last and text[place] == _QUOTE:
            closing = _closing(text, place + 1, last)
            if closing < last:
                start, sign, after = place + 1, -1, closing + 1
            else:
                unclosed = True  # and a character like any other
        place = _until(text, after, last, comma)
        if column < len(slots) and slots[column] >= 0:
            starts[slots[column]], stops[slots[column]] = start, sign * place
        column += 1
        if place == last:
            return unclosed
        place += 1


@njit()
def _lines(text: Array, place: int, slots: Array, starts: Array, stops: Array, comma: int) -> int:
    """Read a record of several lines; return where the next begins, or -1 where no well-formed one stands here."""
    starts[:], stops[:] = 0, 0
    for column in range(len(slots)):
        start, slot, sign = place, slots[column], 1
        if place < len(text) and text[place] == _QUOTE:
            place = _closing(text, place + 1, len(text)) + 1
            start, stop, sign = start + 1, place, -1
            if place > len(text):
                return -1
            while place < len(text) and text[place] == _RETURN:
                place += 1
        else:
            place = _until(text, place, len(text), comma)
            stop = place if place < len(text) and text[place] == comma else _trimmed(text, start, place)
            for k in range(start, stop):
                if text[k] == _QUOTE:
                    return -1
        if slot >= 0:
            starts[slot], stops[slot] = start, sign * stop
        ended = place == len(text) or text[place] == _LINE
        if (not ended and text[place] != comma) or ended != (column == len(slots) - 1):
            return -1
        place += 1
    return min(place, len(text))


@njit()
def _until(text: Array, place: int, stop: int, comma: int) -> int:
    """Return the next comma or line end, or `stop`."""
    while place < stop and text[place] != comma and text[place] != _LINE:
        place += 1
    return place


@njit()
def _closing(text: Array, place: int, stop: int) -> int:
    """Return the next quote that is not doubled, or `stop`."""
    while place < stop:
        if text[place] == _QUOTE:
            if place + 1 == stop or text[place + 1] != _QUOTE:
                return place
            place += 1
        place += 1
    return stop


@njit()
def _trimmed(text: Array, start: int, stop: int) -> int:
    """Return where the text ends without the carriage returns before a line end."""
    while stop > start and text[stop - 1] == _RETURN:
        stop -= 1
    return stop
