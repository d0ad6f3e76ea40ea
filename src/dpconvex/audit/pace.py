"""How many runs an audit makes: as many as are wanted, fewer where they would take too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, final

FEWEST = 8


@final
class Pace:
    """The time of one audit.

    Numbers of runs are fixed before the runs start, from the time that earlier ones took: a bound that stopped when
    time was up would not hold.

    Parameters
    ----------
    seconds : float or None
        Of the processor, aim for the whole audit; None: no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self._start = seconds, time.process_time()

    @property
    def spent(self) -> float:
        """Seconds of the processor since the start."""
        return time.process_time() - self._start

    def timed(self, action: Callable[[], Any]) -> float:
        """Return the seconds of an action, which is done twice because first times are longer; 0 without a limit.

        Parameters
        ----------
        action : callable
        """
        if self.seconds is None:
            return 0.0
        action()
        start = time.process_time()
        action()
        return time.process_time() - start

    def affordable(self, wanted: int, each: float, share: float, fewest: int = FEWEST) -> int:
        """Return `wanted` or as many as a share of the time left pays for, at least `fewest`.

        Parameters
        ----------
        wanted : int
        each : float
            Seconds of one.
        share : float
            In (0, 1].
        fewest : int
            At least 1.
        """
        if self.seconds is None or each <= 0:
            return wanted
        left = share * max(self.seconds - self.spent, 0.0)
        return max(min(wanted, fewest), min(wanted, int(left / each)))
