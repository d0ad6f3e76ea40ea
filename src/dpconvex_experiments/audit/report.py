"""What an audit says, how it shows how far it is, and how many runs it makes."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar, final

from dpconvex._types import attributes, final_dataclass
from dpconvex.privacy import PrivacyParams

TOLERANCE = 1e-6  #: Relative rounding error allowed for exact losses before a promise counts as refuted.
FEWEST = 8  #: An audit makes at least this many runs of each kind, however long they take.
T = TypeVar("T")


@final_dataclass
class Finding:
    """What one attack proved."""

    attack: str  #: "exact loss", "participation", "all transcripts", "minimizer density" or "counting"
    pair: str  #: name of the pair of neighboring data sets
    epsilon: float  #: lower bound at the claimed delta; -inf if nothing was proved
    confidence: float  #: probability with which the bound holds; 1 where nothing was sampled or one transcript is proof
    detail: str  #: the counted event, or the number of transcripts


@final_dataclass
class AuditReport:
    """What an audit found."""

    title: str  #: name of what was audited
    claimed: PrivacyParams
    findings: tuple[Finding, ...]  #: one of each attack that applies, the best first
    runs: int  #: number of counted runs on each of the two data sets
    seconds: float  #: processor time of the whole audit

    @property
    def proved_at_least(self) -> float:
        """Largest epsilon that an attack proved, 0 if none proved anything."""
        return max([0.0, *(finding.epsilon for finding in self.findings)])

    @property
    def passed(self) -> bool:
        """Whether nothing proved exceeds what was promised."""
        return self.proved_at_least <= self.claimed.epsilon * (1 + TOLERANCE)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields, with the two verdicts."""
        return {
            "title": self.title,
            "claimed": {k: str(v) if isinstance(v, str) else v for k, v in asdict(self.claimed).items()},
            **attributes(self, "proved_at_least", "passed", "runs", "seconds"),
            "findings": [asdict(finding) for finding in self.findings],
        }


@final
class Pace:
    """How many runs an audit makes in so many seconds of the processor (None: no limit).

    Fixed before the runs start, from earlier ones' times: a bound that stopped when time was up would not hold.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self._start = seconds, time.process_time()

    @property
    def spent(self) -> float:
        """Seconds of the processor since the start."""
        return time.process_time() - self._start

    def timed(self, action: Callable[[], Any]) -> float:
        """Return the seconds of an action, which is done twice because first times are longer; 0 without a limit."""
        if self.seconds is None:
            return 0.0
        action()
        start = time.process_time()
        action()
        return time.process_time() - start

    def affordable(self, wanted: int, each: float, share: float, fewest: int = FEWEST) -> int:
        """Return `wanted`, or as many as a share of the time left pays for at `each` seconds, at least `fewest`."""
        if self.seconds is None or each <= 0:
            return wanted
        return max(min(wanted, fewest), min(wanted, int(share * max(self.seconds - self.spent, 0.0) / each)))
