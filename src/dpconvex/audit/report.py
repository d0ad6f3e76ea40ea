"""What an audit says: one finding for every attack, and the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

from dpconvex.privacy import PrivacyParams

TOLERANCE = 1e-6
"""Relative slack for the arithmetic of exact losses."""


@final
@dataclass(frozen=True)
class Finding:
    """What one attack proved.

    Parameters
    ----------
    attack : {"exact loss", "participation", "all transcripts", "minimiser density", "counting"}
    pair : str
        Neighbouring data sets.
    epsilon : float
        Lower bound on epsilon at the claimed delta; ``-inf``: nothing.
    confidence : float
        With which it holds; 1 where nothing was sampled or one transcript is proof.
    detail : str
        Event, or number of transcripts.
    """

    attack: str
    pair: str
    epsilon: float
    confidence: float
    detail: str


@final
@dataclass(frozen=True)
class AuditReport:
    """What an audit found.

    Parameters
    ----------
    title : str
        What was audited.
    claimed : PrivacyParams
        The promise.
    findings : tuple of Finding
        One of each attack that applies, the best first.
    runs : int
        On each of the two data sets that were counted.
    seconds : float
        All of it.
    """

    title: str
    claimed: PrivacyParams
    findings: tuple[Finding, ...]
    runs: int
    seconds: float

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
            "proved_at_least": self.proved_at_least,
            "passed": self.passed,
            "runs": self.runs,
            "seconds": self.seconds,
            "findings": [asdict(finding) for finding in self.findings],
        }
