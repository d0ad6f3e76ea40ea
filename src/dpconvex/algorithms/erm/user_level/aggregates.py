r"""Aggregation of the results of a phase's parts to one released point, in three (epsilon, delta)-DP ways.

Each takes one displacement a part, from a point that is already released; one user moves one displacement.

`Guarded`: a mean that is released only if most displacements are within a public radius of one another, which may be
wrong: then the test fails. `Plain` ("sample and aggregate"): all are cut to a public length c: their mean moves by at
most ``2 c / C``. `Searched`: above-threshold finds the first radius of a public grid at which the h-index is high, for
the weighted mean; if none passes, the plain one (docs, User-level privacy, Private radius).

Users' mean gradients (`UserGradients`) are vectors whose mean a step releases; losses with kinks have smooth stand-ins.
`Randomized` is the paper's (Section 4, E12), with a fresh draw for each record and step: with one draw for each user,
users' mean gradients would not concentrate; one for each step would leave an error that no mean reduces. `Envelope` has
equal error and a curvature smaller by ``2 sqrt(d)`` (docs, User gradients, Losses with kinks). Privacy needs neither.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.random import Generator

from dpconvex import _validate
from dpconvex._types import REQUIRED, Array, Floats, Positions, attributes, final_dataclass
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LinearModelLoss, PiecewiseLinearLoss
from dpconvex.mechanisms import AboveThreshold, FailureAllowance, GaussianMechanism, GuardedMean
from dpconvex.mechanisms.robust_mean import best_ramp, counts_within, h_index, ramp
from dpconvex.privacy import Ledger, Release, Sensitivity, Unit
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import LinearModelProblem, PointDomain, Records, UserGroups
from dpconvex.problems.data.points import WEIGHTED_MEAN_ROUNDING, clip_points, weighted_mean
from dpconvex.problems.data.users import pick_users, user_gradients
from dpconvex.randomness import BitSource

MEAN_LEMMA = "in units of 2 c / C (rounding included), a mean of C vectors of length at most c moves by at most 1"
SEARCHED_LEMMA = (
    "in units of kappa times the selected radius (or of 2 c / C), rounding included, the mean of a good pair moves by "
    "at most 1"
)
Where: TypeAlias = tuple[str, BitSource, Ledger, str]  #: A release's label, source, ledger and block


class Aggregate(ABC):
    """Public constants of one release."""

    presumes_radius: ClassVar[bool] = False  #: Whether it fails unless displacements are within a given radius
    noise: Any  #: the mechanism that releases the mean
    #: Standard deviation of the noise in each coordinate; if a radius is selected, for the largest radius.
    deviation: float = REQUIRED

    def releases(self, label: str, block: str) -> tuple[Release, ...]:
        """Return everything that `release` may record."""
        return (self.noise.planned(label, block),)

    @abstractmethod
    def release(self, displacements: Floats, start: Floats, *where: *Where) -> Floats | None:
        """Return a private displacement (dim,) from those of the parts (C, dim); None if the test failed."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants."""


@final_dataclass
class Guarded(Aggregate):
    """Release the weighted mean of displacements cut to `clip`, if most are within `radius` of one another."""

    noise: GuardedMean
    radius: float
    clip: float
    presumes_radius: ClassVar[bool] = True

    @property
    def deviation(self) -> float:
        return self.noise.unit_length(self.radius, self.clip) * self.noise.sigma

    def release(self, displacements: Floats, start: Floats, *where: *Where) -> Floats | None:
        return self.noise.release(displacements, self.radius, self.clip, *where)

    def describe(self) -> Mapping[str, Any]:
        found = {"aggregate": self.noise.name, **attributes(self, "radius", "clip"), **self.noise.describe()}
        return {**found, "sensitivity": self.noise.unit_length(self.radius, self.clip), "noise": self.deviation}


@final_dataclass
class Plain(Aggregate):
    """Release a mean of C vectors, points or their displacements from the start, each cut to a public length c."""

    count: int  #: C
    clip: float  #: c
    about_origin: bool  #: whether points are cut, instead of displacements
    noise: GaussianMechanism  #: in units of the mean's sensitivity

    @property
    def length(self) -> float:
        """Sensitivity of the mean, rounding included."""
        return plain_length(self.count, self.clip)

    @property
    def deviation(self) -> float:
        return self.length * self.noise.sigma

    def release(self, displacements: Floats, start: Floats, *where: *Where) -> Floats | None:
        anchor = start if self.about_origin else np.zeros_like(start)
        mean = plain_mean(displacements + anchor, self.clip)
        return self.length * self.noise.release(mean / self.length, *where) - anchor

    def describe(self) -> Mapping[str, Any]:
        found = {"aggregate": "sample and aggregate", **attributes(self, "clip", "about_origin")}
        return {**found, "sensitivity": self.length, "noise": self.deviation}


@final_dataclass
class Searched(Aggregate):
    """Find a radius privately, then release the weighted mean at it; s0, A and B as in `mechanisms.RobustMean`."""

    count: int  #: number C of displacements
    grid: tuple[float, ...]  #: radii, ascending
    clip: float  #: largest length of a displacement
    passing: int  #: s0
    low: int  #: A
    high: int  #: B
    kappa: float  #: sensitivity of the weighted mean in units of the radius
    test: AboveThreshold  #: the test of the h-indices
    misled: float  #: delta_t, the probability of a radius that passes wrongly
    noise: GaussianMechanism  #: in units of the mean's sensitivity

    @property
    def deviation(self) -> float:
        """Deviation at the last radius of the grid, or of the plain mean if that is smaller."""
        return min(self.length(self.grid[-1]), plain_length(self.count, self.clip)) * self.noise.sigma

    @cached_property
    def allowance(self) -> FailureAllowance:
        """The part of delta that pays for radii that pass wrongly."""
        lemma = "threshold's and queries' noise exceed the margin (union bound over the grid)"
        return FailureAllowance(self.misled, lemma, self.noise.sensitivity.unit)

    def length(self, radius: float) -> float:
        """Return the sensitivity of the weighted mean at a selected radius, rounding included."""
        rounding = 2 * (WEIGHTED_MEAN_ROUNDING + 2.0**-51) * self.clip
        return (self.kappa * radius * (1 + 2 * (self.noise.dim + 8) * 2.0**-52) + rounding) * (1 + 1e-12)

    def releases(self, label: str, block: str) -> tuple[Release, ...]:
        return (
            self.test.planned(f"radius of {label}", block),
            self.allowance.planned(f"failing lemma of {label}", block),
            *super().releases(label, block),
        )

    def release(self, displacements: Floats, start: Floats, *where: *Where) -> Floats | None:
        label, source, ledger, block = where
        points = clip_points(displacements, PointDomain(displacements.shape[1], self.clip, self.clip / 2))
        ledger.record(self.allowance.planned(f"failing lemma of {label}", block))
        session = self.test.start(f"radius of {label}", source, ledger, block)
        length, mean = plain_length(self.count, self.clip), plain_mean(points, self.clip)
        for radius in self.grid:
            counts = counts_within(points, radius)
            if session.query(h_index(counts)):
                length = self.length(radius)
                mean = weighted_mean(points, ramp(counts, self.low, self.high))
                break
        return length * self.noise.release(mean / length, *where)

    def describe(self) -> Mapping[str, Any]:
        radii = {"aggregate": "private radius", "grid": [self.grid[0], self.grid[-1], len(self.grid)]}
        weights = {**attributes(self, "clip", "passing"), "ramp": [self.low, self.high]}
        return {**radii, **weights, "sensitivity_in_radii": self.kappa, "noise_in_units": self.noise.sigma}


def plain(count: int, dim: int, clip: float, about_origin: bool, mu: float, unit: Unit = Unit.USER) -> Plain:
    """Return the plain mean that spends `mu`."""
    noise = GaussianMechanism.of_mu(Sensitivity(1.0, "l2", MEAN_LEMMA, unit=unit), mu, dim)
    return Plain(count, clip, about_origin, noise)


def plain_length(count: int, clip: float) -> float:
    """Return the sensitivity ``2 c / C`` of a plain mean, rounding included."""
    return (2 * clip / count + 2 * (WEIGHTED_MEAN_ROUNDING + 2.0**-51) * clip) * (1 + 1e-12)


def plain_mean(points: Floats, clip: float) -> Floats:
    """Return the mean of vectors (C, dim), each cut to length `clip` (not a number counts as 0)."""
    cut = clip_points(points, PointDomain(points.shape[1], clip, clip / 2))
    return weighted_mean(cut, np.ones(len(cut)))


def searched(
    count: int, dim: int, epsilon: float, delta: float, grid: tuple[float, ...], clip: float,
    *, failure: float = 1e-3, unit: Unit = Unit.USER,
) -> Searched | None:  # fmt: skip
    """Return the release of least noise, or None with too few parts; `failure`: probability to miss a good radius."""
    misled, best, least = delta / 10, None, math.inf
    for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        pure = share * epsilon
        scales = AboveThreshold(Sensitivity(1.0, "absolute", "h-index", unit=unit), pure, 0.0)
        margin = scales.threshold_scale * math.log(1 / misled) + scales.query_scale * math.log(len(grid) / misled)
        missed = (scales.threshold_scale + scales.query_scale) * math.log(1 / failure)
        margin = margin * (1 + 1e-5) + 1e-5 * (scales.threshold_scale + scales.query_scale)
        passing = math.floor(count - margin - missed)  # s0; a bad radius must beat the margin, good ones the rest
        if (found := best_ramp(count, passing)) is None:
            continue
        mu = largest_mu(epsilon, delta * 0.9 * (1 - 1e-9), pure) * (1 - 1e-9)
        if found[0] / mu < least:
            least = found[0] / mu
            noise = GaussianMechanism.of_mu(Sensitivity(1.0, "l2", SEARCHED_LEMMA, unit=unit), mu, dim)
            lemma = "one displacement changes every h-index by at most 1"
            threshold = (passing + margin) * (1 + 1e-15)
            test = AboveThreshold(Sensitivity(1.0, "absolute", lemma, unit=unit), pure, threshold)
            best = Searched(count, grid, clip, passing, found[1], found[2], found[0], test, misled, noise)
    return best


Vectors = Callable[[Floats], Floats]  #: Vectors (users, dim) at parameters (dim,). Not private.
SMOOTHINGS = ("auto", "none", "envelope", "randomized")


@final_dataclass
class ShiftedLoss:
    """A loss of predictions plus a shift of each record, which is the second column of the targets."""

    loss: LinearModelLoss
    n_outputs: ClassVar[int] = 1

    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the slope (n,) at ``z + y[:, 1]`` for the targets ``y[:, 0]``."""
        return self.loss.derivative(z + y[:, 1], y[:, 0])

    def slope_within(self, reach: float) -> float:
        """Return a bound of the slope over all predictions, since shifts are unbounded."""
        return self.loss.slope_bound


Stepped = tuple[LinearModelLoss | ShiftedLoss, Floats]  #: Loss and targets (n,) of one step.


@dataclass(frozen=True)
class Smoothing:
    """A way to make a loss smooth; this base class leaves the loss unchanged."""

    size: float = 0.0  #: The parameter that certificates state
    name: ClassVar[str] = "none"

    def smoothness(self, problem: LinearModelProblem) -> float:
        """Return the smoothness constant of one record's stand-in."""
        return problem.smoothness

    def excess(self, problem: LinearModelProblem) -> float:
        """Return the largest difference between the excess of the loss and that of the stand-in."""
        return 0.0

    def at_step(self, loss: LinearModelLoss, targets: Floats, norms: Floats, dim: int, coins: Generator) -> Stepped:
        """Return loss and targets (n,) of one step, for records of lengths `norms` (n,); coins are not the noise's."""
        return loss, targets


@final_dataclass
class Envelope(Smoothing):
    """Moreau envelope of a piecewise linear loss, of width `size`, in the unit of predictions over that of slopes."""

    name: ClassVar[str] = "envelope"

    def smoothness(self, problem: LinearModelProblem) -> float:
        return problem.feature_l2**2 / self.size

    def excess(self, problem: LinearModelProblem) -> float:
        return self.size * problem.loss.slope_bound**2 / 2

    def at_step(self, loss: LinearModelLoss, targets: Floats, norms: Floats, dim: int, coins: Generator) -> Stepped:
        assert isinstance(loss, PiecewiseLinearLoss)  # `smoothings` offers it to no other
        return loss.smoothed(self.size), targets


@final_dataclass
class Randomized(Smoothing):
    """Average of the loss over a ball of radius `size` around the parameters, by one draw for each record and step."""

    name: ClassVar[str] = "randomized"

    def smoothness(self, problem: LinearModelProblem) -> float:
        return problem.lipschitz * math.sqrt(problem.dim) / self.size

    def excess(self, problem: LinearModelProblem) -> float:
        return problem.lipschitz * self.size

    def at_step(self, loss: LinearModelLoss, targets: Floats, norms: Floats, dim: int, coins: Generator) -> Stepped:
        shape = (dim + 1) / 2
        shifts = self.size * norms * (2 * coins.beta(shape, shape, size=len(targets)) - 1)
        return ShiftedLoss(loss), np.column_stack([targets, shifts])


def smoothings(problem: LinearModelProblem, kind: str, error: float) -> Smoothing:
    """Return the smoothing of a kind whose excess is `error`; ``auto``: none for smooth losses, or the envelope."""
    _validate.choice("smoothing", kind, SMOOTHINGS)
    smooth = math.isfinite(problem.smoothness)
    kind = ("none" if smooth else "envelope") if kind == "auto" else kind
    if kind == "none":
        if not smooth:
            raise InvalidParameterError("smoothing", kind, "must not be 'none' for a loss with kinks", "Use 'auto'")
        return Smoothing()
    if kind == "envelope":
        if not isinstance(problem.loss, PiecewiseLinearLoss):
            raise InvalidParameterError("smoothing", kind, "needs a piecewise linear loss", "Use 'auto'")
        return Envelope(2 * error / problem.loss.slope_bound**2)
    if problem.loss.n_outputs > 1:
        raise InvalidParameterError("smoothing", kind, "needs a loss of one prediction", "Use 'auto'")
    return Randomized(error / problem.lipschitz)


@final_dataclass
class Batching:
    """The choice of the users that a phase reads at each step."""

    first: int  #: first slot of the phase, whose users are in consecutive slots of a random order
    users: int
    batches: int  #: number of disjoint batches, which are read in turn
    sample: int | None = None  #: size of a fresh random subset at each step; None: whole batches

    @property
    def read(self) -> int:
        """Least number of users that a step reads."""
        return self.sample or self.users // self.batches


@final_dataclass(eq=False)
class UserGradients:
    """Mean gradients of users; coins that order users are not those of the noise."""

    problem: LinearModelProblem
    smoothing: Smoothing
    X: Array
    y: Array
    groups: UserGroups
    coins: Generator

    def batches(self, batching: Batching, slots: Positions) -> list[Vectors]:
        """Return one function for each batch of the users `slots`; it gives users' mean gradients in a random order."""
        if (size := batching.sample) is not None:  # without replacement (erratum E5)
            return [lambda w: self._of(self.coins.choice(slots, size, replace=False))(w)]
        return [self._of(slots[j :: batching.batches]) for j in range(batching.batches)]

    def _of(self, users: Positions) -> Vectors:
        """Return the function that gives the mean gradients of these users, in an unspecified order."""
        everybody = len(users) == self.groups.n_users
        rows, groups = (slice(None), self.groups) if everybody else pick_users(self.groups, users)
        loss = self.problem.loss
        records, targets = Records.clipped(self.X[rows], self.problem.domain), loss.clip_targets(self.y[rows])
        norms = np.sqrt(records.squared_norms())

        def vectors(w: Floats) -> Floats:
            slopes, values = self.smoothing.at_step(loss, targets, norms, len(w), self.coins)
            # Of the loss only the derivative is used.
            return user_gradients(slopes, records, values, groups, None, w)  # pyright: ignore[reportArgumentType]

        return vectors
