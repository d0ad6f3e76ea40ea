"""Shares of groups, released privately, and what follows with them: a first step of worst-group training.

Guarantee
    ``shares.epsilon`` of pure differential privacy for the shares, then whatever the second step promises: basic
    composition, adaptive, since the second step's own promise is fixed before the shares are known.
Lemma
    Replacing one record moves at most two of the counts, by one each: l1 sensitivity 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import DATA_ASSUMPTIONS, Plan
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex.privacy import Ledger, PrivacyCertificate, PrivacyParams, Release, Sensitivity, certify
from dpconvex.randomness import BitSource

BUDGET = 0.05
"""Part of epsilon that the shares cost (ours): noise of about 40/epsilon records, for groups of hundreds or more."""

LEMMA = "a replaced record moves at most two counts of groups, by one each"


@final
@dataclass(frozen=True)
class GroupShares:
    """Plan of a private release of the share of every group.

    Parameters
    ----------
    n : int
        Records, at least 1.
    n_groups : int
        At least 2.
    privacy : PrivacyParams
        Promise of the shares and the second step together.
    smallest : float
        Shares below it are raised to it, in (0, 1): what a group may weigh is bounded by its inverse.
    """

    n: int
    n_groups: int
    privacy: PrivacyParams
    smallest: float

    def __post_init__(self) -> None:
        _validate.records("n", self.n)
        _validate.integer("n_groups", self.n_groups, at_least=2)
        _validate.real("smallest_share", self.smallest, above=0.0, below=1.0)

    @cached_property
    def mechanism(self) -> LaplaceMechanism:
        """Laplace noise on the counts."""
        return LaplaceMechanism.calibrate(
            Sensitivity(2.0, "l1", LEMMA), BUDGET * self.privacy.epsilon * (1 - 1e-9), self.n_groups
        )

    @property
    def planned(self) -> Release:
        """The ledger entry."""
        return self.mechanism.planned("number of records in each group")

    @property
    def rest(self) -> PrivacyParams:
        """Promise of the second step, rounded down."""
        left = _rounding.difference_down(self.privacy.epsilon, BUDGET * self.privacy.epsilon)
        return PrivacyParams(left, self.privacy.delta)

    def run(self, groups: AnyArray, source: BitSource) -> FloatArray:
        """Return released shares (n_groups,), each at least `smallest`, of group numbers (n,) inside the range."""
        ledger = Ledger(self.privacy, (self.planned,))
        counts = np.bincount(groups, minlength=self.n_groups).astype(np.float64)
        noisy = self.mechanism.release(counts, self.planned.label, source, ledger)
        return raised(noisy / self.n, self.smallest)

    def certificate(self, second: Plan, certificate: PrivacyCertificate, shares: FloatArray) -> PrivacyCertificate:
        """Return the certificate of both steps; the arguments are of the second."""
        return certify(
            algorithm=second.algorithm,
            constants=second.constants,
            theorem=f"Shares of the groups: Laplace mechanism. Then: {second.theorem}",
            target=self.privacy,
            releases=(self.planned, *second.releases),
            assumptions=(*DATA_ASSUMPTIONS, *second.assumptions),
            noise_source=certificate.noise_source,
            public={**second.public, "released_shares": [float(share) for share in shares]},
        )


def raised(shares: FloatArray, smallest: float) -> FloatArray:
    """Return shares of at least `smallest` and at most 1."""
    return np.clip(shares, smallest, 1.0)
