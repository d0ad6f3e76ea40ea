"""The ledger: what the plan allows, what was released, and what it costs. Written to before anything is sampled."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields as dataclass_fields, replace
from typing import Any

from dpconvex import _progress, _validate
from dpconvex.errors import BudgetExceededError, InvalidParameterError, UnsupportedEventError
from dpconvex.privacy import accounting
from dpconvex.privacy.events.base import Event, event_from_dict
from dpconvex.privacy.events.private_selection import added_up
from dpconvex.privacy.params import PrivacyParams, Sensitivity

MOST_CHARGED = 10**6  #: Largest number of releases to be priced; one on all records counts once for every block.


@dataclass(frozen=True)
class Release:
    """One planned or performed use of a mechanism."""

    label: str  #: what is released, in words
    mechanism: str  #: name of the mechanism
    event: Event  #: describes the privacy cost of one such release
    sensitivity: Sensitivity  #: sensitivity of the released value, with the lemma that proves it
    # Name of a fixed part of the records, disjoint from other blocks, which alone is read; None: all records are read
    block: str | None = None
    times: int = 1  #: number of such releases

    def __post_init__(self) -> None:
        _validate.integer("times", self.times, at_least=1)
        claimed = self.event.claimed_sensitivity
        if claimed is not None and claimed < self.sensitivity.value:
            what = f"must be at most the event's, {claimed!r}"
            raise InvalidParameterError("sensitivity", self.sensitivity.value, what, "Recalibrate")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready fields."""
        return {**vars(self), "event": self.event.to_dict(), "sensitivity": asdict(self.sensitivity)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Release":
        """Inverse of `to_dict`; unknown fields of a later version are left out, but in an event they are refused."""
        parts = {part.name: fields[part.name] for part in dataclass_fields(cls) if part.name in fields}
        if not all(isinstance(parts.get(name, ""), str | None) for name in ("label", "mechanism", "block")):
            raise TypeError("label, mechanism and block of a release must be text")
        parts["event"] = event_from_dict(parts["event"])
        stated = parts["sensitivity"]
        names = (part.name for part in dataclass_fields(Sensitivity))
        parts["sensitivity"] = Sensitivity(**{name: stated[name] for name in names if name in stated})
        return cls(**parts)


def charged(releases: Iterable[Release]) -> list[list[accounting.Counted]]:
    """Return one list of events for each block: those of the block's releases and of the releases on all records."""
    listed = list(releases)
    blocks, everywhere = len({r.block for r in listed} - {None}), sum(r.block is None for r in listed)
    if blocks * everywhere > MOST_CHARGED:
        what = f"{blocks} blocks, {everywhere} releases on all records"
        raise UnsupportedEventError(f"{what}: their product is above {MOST_CHARGED}")
    return added_up((r.block, r.times, r.event) for r in listed)


def total_epsilon(releases: Iterable[Release], delta: float) -> float:
    """Epsilon that all `releases` cost together at `delta`: the largest price among the lists of `charged`."""
    return max(accounting.spent_epsilon(events, delta) for events in charged(releases))


def total_delta(releases: Iterable[Release], epsilon: float) -> float:
    """Delta that all `releases` cost together at `epsilon`."""
    return max(accounting.spent_delta(events, epsilon) for events in charged(releases))


def accountants(releases: Iterable[Release]) -> str:
    """Names of the accountants used, for the certificate."""
    return ", ".join(sorted({accounting.accountant_name(events) for events in charged(releases)}))


class Ledger:
    """Lets a run release what its plan lists in `planned`, and nothing else.

    If all of `planned` together costs more than the promise, `BudgetExceededError` is raised at once.
    """

    def __init__(self, privacy: PrivacyParams, planned: Iterable[Release]) -> None:
        self.privacy = privacy
        self.planned = tuple(planned)
        self._left = Counter(dict.fromkeys(self.planned, 0))
        for release in self.planned:
            proved_for = release.sensitivity.neighboring, release.sensitivity.unit
            if proved_for != (privacy.neighboring, privacy.unit):
                raise BudgetExceededError(f"release {release.label!r}: its sensitivity is for another relation or unit")
            if release.event.neighboring not in (None, privacy.neighboring):
                raise BudgetExceededError(f"release {release.label!r}: its price is for another relation")
            self._left[replace(release, times=1)] += release.times
        if not fits(self.planned, privacy):
            cost = f"epsilon={total_epsilon(self.planned, privacy.delta)!r} at delta={privacy.delta!r}"
            raise BudgetExceededError(f"planned releases cost {cost}: must be at most epsilon={privacy.epsilon!r}")
        self._total = sum(release.times for release in self.planned)
        self.recorded: list[Release] = []

    def record(self, release: Release) -> None:
        """Enter one use of a mechanism that is about to be sampled; refuse one that the plan does not list."""
        one = replace(release, times=1)
        if self._left[one] < release.times:
            raise BudgetExceededError(f"release {release.label!r}: not (or no longer) covered by the plan")
        self._left[one] -= release.times
        self.recorded += [one] * release.times
        _progress.advance(self, len(self.recorded), self._total)


def fits(releases: Iterable[Release], privacy: PrivacyParams) -> bool:
    """Whether the releases together satisfy the promise."""
    listed = list(releases)
    if total_epsilon(listed, 0.0) <= privacy.epsilon:
        return True
    return privacy.delta > 0 and total_delta(listed, privacy.epsilon) <= privacy.delta
