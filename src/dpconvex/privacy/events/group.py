"""A record-level guarantee read as one for groups of records: everything of one user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpconvex import _rounding, _validate
from dpconvex.privacy.events.basic import Event, Parts
from dpconvex.privacy.events.private_selection import WholeRun


@dataclass(frozen=True)
class GroupPrivacy(Event):
    """A mechanism for records, used where up to `size` records may be replaced at once.

    Replacing them one by one gives ``size`` times the pure epsilon; ``size`` times the mu of any mechanism that a
    Gaussian dominates (Dong, Roth and Su 2022, "Gaussian differential privacy", Theorem 2.14); and in general, for the
    profile delta of one record, ``delta(epsilon / size) (e^epsilon - 1)/(e^(epsilon/size) - 1)`` (Vadhan 2017, "The
    complexity of differential privacy", Lemma 2.2). A mechanism that is dominated by a pure and a Gaussian one
    *together* may cost a group more than both of them enlarged: a chain of data sets, each as far from the last as
    that allows, reaches further. Only where the two are separate uses does each enlarge by itself.

    Parameters
    ----------
    size : int
        Positive.
    record : Event
        What the mechanism costs a record; a mapping of its fields, as certificates have it, is accepted.
    """

    size: int
    record: Event
    kind: ClassVar[str] = "group_privacy"

    def __post_init__(self) -> None:
        if isinstance(self.record, dict):
            from dpconvex.privacy.events.registry import event_from_dict

            object.__setattr__(self, "record", event_from_dict(self.record))
        _validate.integer("size", self.size, at_least=1)

    @property
    def pure_epsilon(self) -> Fraction | None:
        """Size times the record's."""
        pure = self.record.pure_epsilon
        return None if pure is None else self.size * pure

    @property
    def parts(self) -> Parts | None:
        """Size times the pure or the Gaussian part; None where nothing is proved of the record's parts."""
        parts = self.record.parts
        if parts is None or parts.failure or parts.rho or (parts.pure and parts.mu and not _separate(self.record)):
            return None
        return Parts(self.size * parts.pure, _rounding.product_up(self.size, parts.mu) if parts.mu else 0.0)

    @property
    def claimed_sensitivity(self) -> float | None:
        """For one record."""
        return self.record.claimed_sensitivity

    def delta(self, epsilon: float) -> float:
        """Profile for the group."""
        parts = self.parts
        if parts is not None and parts.pure == 0 and parts.mu:
            from dpconvex.privacy.profiles import gaussian_delta

            return gaussian_delta(epsilon, parts.mu)
        each = self.record.delta(_rounding.ratio_down(epsilon, self.size))
        if each == 0:
            return 0.0
        many = math.log(self.size) if epsilon == 0 else _log_expm1(epsilon) - _log_expm1(epsilon / self.size)
        return min(1.0, math.exp(min(0.0, math.log(each) + many)) * (1 + 1e-9))

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, the record's event as a mapping."""
        return {"kind": self.kind, "size": self.size, "record": self.record.to_dict()}


def _separate(event: Event) -> bool:
    """Whether an event is a list of uses each of which is pure, or dominated by a Gaussian, by itself."""
    uses = event.uses if isinstance(event, WholeRun) else ()
    each = [use.parts for _, _, use in uses]
    return bool(each) and all(p is not None and not (p.pure and p.mu) for p in each)


def _log_expm1(x: float) -> float:
    """``log(e^x - 1)`` for x > 0, which does not overflow."""
    return x + math.log(-math.expm1(-x))
