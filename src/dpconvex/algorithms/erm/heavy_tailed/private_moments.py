r"""A usable moment bound from the data themselves, with a part of the budget.

Guarantee
    Pure epsilon-DP for neighbours that replace one record.
Lemma
    Every record falls into one bin of a public grid, by its gradient bound ``|x| max |phi'|`` over the ball or by the
    slope of its loss at the prediction 0: functions of the record alone. Replacing a record moves one count down by 1
    and one up by 1: l1 sensitivity 2. The moments are post-processing of the noisy counts.
Use
    ``moments, certificate = plan_moments(...).run(X, y, source)``, then a plan with the rest of epsilon: the two runs
    read the same records, so their epsilons add up. Moments are for utility: an unlucky histogram costs accuracy only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import DATA_ASSUMPTIONS, check_relation, require_arrays, require_average
from dpconvex.algorithms.recipes import Recipe, recorded, stored_recipe
from dpconvex.errors import InvalidDataError
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex.privacy import Ledger, NoiseSource, PrivacyCertificate, PrivacyParams, Release, Sensitivity, certify
from dpconvex.problems import Records
from dpconvex.problems.data.moments import Moments
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.problems.linear.truncated import check_loss
from dpconvex.randomness import BitSource

LABEL, SLOPES_LABEL = "histogram of gradient bounds", "histogram of slopes"
LEMMA = "every record is counted in one bin: one count falls by 1 and another grows by 1"
BINS, RATIO = 80, math.sqrt(2.0)
"""From the largest gradient that the domain allows down to ``RATIO^-BINS`` of it; all smaller ones in the last bin."""
FALSE_TOP = 0.05
"""Probability that an empty bin counts as occupied."""


@dataclass(frozen=True)
class MomentPlan:
    """Constants of one private estimate of moments.

    Parameters
    ----------
    problem : LinearModelProblem
        Loss, domain, n and radius.
    privacy : PrivacyParams
        What the histogram may cost; pure.
    k : float
        Order of the moment, at least 2.
    slopes : bool
        False: moments of gradients over the ball. True: of the slopes of the loss at the prediction 0.
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    k: float
    slopes: bool = False
    recipe: ClassVar[Recipe | None] = None
    course: ClassVar[tuple[Any, ...]] = ()

    @property
    def label(self) -> str:
        """Of the release."""
        return SLOPES_LABEL if self.slopes else LABEL

    @property
    def mechanism(self) -> LaplaceMechanism:
        """Noise of the counts."""
        return LaplaceMechanism.calibrate(Sensitivity(2.0, "l1", LEMMA), self.privacy.epsilon, BINS)

    @property
    def releases(self) -> tuple[Release, ...]:
        """One: the histogram."""
        return (self.mechanism.planned(self.label),)

    @property
    def edges(self) -> FloatArray:
        """Upper ends of the bins, falling, shape (BINS,)."""
        problem, ends = self.problem, np.finfo(np.float64).max
        with np.errstate(all="ignore"):
            targets = problem.loss.clip_targets(np.array([-ends, ends]))
            largest = self._bounds(np.full(2, problem.domain.l2), targets).max()
        return float(largest) * RATIO ** -np.arange(BINS, dtype=np.float64)

    def run(self, X: AnyArray, y: AnyArray, source: BitSource) -> tuple[Moments, PrivacyCertificate]:
        """Return the moments and the certificate.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Features, clipped here.
        y : array of shape (n,)
            Targets, clipped here.
        source : BitSource
            Where the noise comes from.

        Raises
        ------
        InvalidDataError
            If these are no arrays, or not of the shapes of the plan (public facts).
        """
        require_arrays(X, y)
        if len(X) != self.problem.n or len(y) != self.problem.n:
            raise InvalidDataError(f"X has {len(X)} records and y {len(y)}, but the plan is for n={self.problem.n}")
        ledger = Ledger(self.privacy, self.releases)
        with np.errstate(all="ignore"):
            norms = np.sqrt(Records.clipped(X, self.problem.domain).squared_norms())
            bounds = self._bounds(norms, self.problem.loss.clip_targets(y))
            counts = self.mechanism.release(self.histogram(bounds), self.label, source, ledger)
        return self.moments(counts), self.certificate(source)

    def _bounds(self, norms: FloatArray, targets: FloatArray) -> FloatArray:
        if self.slopes:
            return np.abs(self.problem.loss.derivative(np.zeros(len(targets)), targets))
        return _gradient_bounds(self.problem, norms, targets)

    def histogram(self, bounds: FloatArray) -> FloatArray:
        """Return how many bounds (n,) fall into each bin, shape (BINS,)."""
        smallest = np.searchsorted(-self.edges, -bounds, side="right") - 1
        return np.bincount(np.clip(smallest, 0, BINS - 1), minlength=BINS).astype(np.float64)

    def moments(self, counts: FloatArray) -> Moments:
        """Return the moments of noisy counts (BINS,): bins above the highest clearly occupied one count as empty."""
        threshold = self.mechanism.scale * math.log(BINS / FALSE_TOP)
        occupied = np.flatnonzero(counts > threshold)
        top = int(occupied[0]) if len(occupied) else BINS - 1
        edges, weights = self.edges[top:], np.maximum(counts[top:], 0.0)
        weights[0] = max(weights[0], 1.0)
        shares, ratios = weights / weights.sum(), edges / edges[0]
        kth, second, first = (float(edges[0]) * float(shares @ ratios**q) ** (1 / q) for q in (self.k, 2.0, 1.0))
        second = min(second, kth)
        return Moments(self.k, kth, second, min(first, second))

    def certificate(self, source: BitSource) -> PrivacyCertificate:
        """Return the certificate of a run."""
        exact = self.mechanism.exact_bits(source)
        return certify(
            algorithm="private_moments",
            constants="calibrated",
            theorem="A histogram over public bins with Laplace noise; moments are computed from it.",
            target=self.privacy,
            releases=self.releases,
            assumptions=DATA_ASSUMPTIONS,
            noise_source=NoiseSource(source.name, source.private, exact, "Discrete Laplace noise on a public grid."),
            public={**self.problem.describe(), "moment_order": self.k, "bins": BINS, "slopes": self.slopes},
            planner=stored_recipe(self),
        )


@recorded("private_moments")
def plan_moments(
    problem: LinearModelProblem, privacy: PrivacyParams, k: float = 2.0, *, slopes: bool = False
) -> MomentPlan:
    """Return the plan of a private moment estimate.

    Parameters
    ----------
    problem : LinearModelProblem
        As for `heavy_tailed.plan`, with bounded targets or a bounded slope.
    privacy : PrivacyParams
        The part of the budget for it; a tenth of epsilon is plenty for n in the thousands.
    k : float
        Order of the moment, at least 2; larger ones give faster rates and rest on fewer, larger records.
    slopes : bool, default=False
        Of the slopes of the loss at the prediction 0, whatever the features are, in the place of gradients.
    """
    check_relation(privacy)
    require_average(problem)
    check_loss(problem.loss)
    _validate.real("k", k, at_least=2.0, at_most=1e3)
    return MomentPlan(problem, privacy, k, slopes)


def _gradient_bounds(problem: LinearModelProblem, norms: FloatArray, targets: FloatArray) -> FloatArray:
    """``|x|`` times the largest slope over predictions up to ``R |x|``, which is at an end: slopes are monotone."""
    reach = problem.radius * norms
    ends = [np.abs(problem.loss.derivative(sign * reach, targets)) for sign in (-1.0, 1.0)]
    return np.nan_to_num(norms * np.maximum(*ends), nan=0.0, posinf=1e300)
