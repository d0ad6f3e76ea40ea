r"""Noisy projected gradient descent with gradients clipped per unit: a record, or everything of one user.

Guarantee
    (epsilon, delta)-DP, neighbors replace one record, or one user with all records (the unit of the promise), or add or
    remove one.
Lemma
    A mean over K units of vectors of length at most C moves by at most ``2C/K`` in l2 when one unit is replaced, at
    every point, whatever the point depends on. A unit is in one batch, which is read in ``steps / batches`` steps;
    Gaussian noise composes adaptively (mu by the root of the sum of squares), batches are disjoint, steps and averages
    are post-processing. The sensitivity is ``2C/K``, K the least number of units in a batch, plus the rounding of sums.
Samples (rate q < 1)
    In every step each unit, a user with all records, takes part with probability q, by coins of its own that are drawn
    afresh and never released (`SampledGaussian`). The sum over those that do, divided by the public ``q n``, never by
    their number, moves by at most ``C/(q n)`` in l2 with a unit's taking part, and a replaced one changes no other's
    coin: users stand in the order of their labels, and a new label moves others by a place, but the law of independent
    coins knows no order. So T steps cost what `PoissonSteps` says.
Added or removed units
    Then their number is private, and one that is declared, n0, stands in its place wherever a plan divides: a sum of
    vectors of length at most C, over n0, moves by at most ``C/n0`` when one joins it. The sum is over exact multiples
    of a grid, so others' roundings stay as they are; it is cut to ``1000 C`` (a projection onto a ball, which brings no
    two points farther apart), so that roundings of the sum are at most `ROUNDING` times that. All units, one batch.
Assumptions
    The number of units is public, or a declared one; C, steps and step size are functions of public numbers. Records
    are put into batches by position, users by a uniform permutation (coins of their own): its law does not change when
    a user's label does.
Steps and bounds (docs, Noisy gradient descent and Clipped users)
    Typical steps measure gradients divided by D, `gaussian_block_weights`: the lemma is about ``D^-1 g``, and g gets
    noise of deviation ``sigma D``. Others have the bound of `accelerated_sgd`; plain ones average half of the points.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dpconvex._types import Array, Floats, attributes
from dpconvex.algorithms import PredictedError, PrivateResult, StatedPlan
from dpconvex.algorithms.erm.accelerated_sgd import Descent, Stage
from dpconvex.algorithms.erm.gradient_descent.gradients import Clipping, Gradient, mean_gradients, sampled_gradient
from dpconvex.algorithms.erm.gradient_descent.typical_steps import Steps
from dpconvex.mechanisms import GaussianMechanism, Planned, SampledGaussian
from dpconvex.privacy import Assumption, Ledger, Neighboring, Release
from dpconvex.problems import UserGroups
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

LABEL = "mean clipped gradient"
TAIL = 0.5  #: Share of the iterates that plain steps average: the last half.
DRIFT = 0.15  #: Deviation of the last point of accelerated steps without curvature, over ``sigma T^1.5 / Gamma``.
SPARSE = 1.5  #: Factor on what is expected of classes of words, twice of which may be lost (`benchmarks/texts.py`).
FAR = 30.0  #: Radius of the ball for typical steps, over the comparator's norm: it only keeps numbers finite.


@dataclass(frozen=True)
class NoisyGradientPlan(StatedPlan):
    """Constants of one run of noisy gradient descent in the ball of the problem's radius; a unit is what is clipped."""

    clip: float  #: Length C to which a unit's gradient is cut
    batches: int  #: Disjoint batches of units, taken in turn; 1: all units in every step
    steps: int  #: T, a multiple of `batches`
    step_size: float  #: eta of plain steps
    gamma: float | None  #: Gamma of accelerated steps; None: plain steps
    #: Noise of one gradient. Its sensitivity is that to a replaced unit or, with samples, to a unit's taking part.
    mechanism: GaussianMechanism
    bound: float  #: Upper bound of the expected excess mean loss
    trivial: float  #: Most excess mean loss of the zero vector
    rests_on: str  #: The assumptions under which the bound is proved, or that it is an estimate
    l2: float = 0.0  #: Ridge weight; its gradient needs no noise
    typical: Steps | None = None  #: Steps with momentum, chosen for typical data; None: steps with a proved bound
    #: D of one output (dim,), by which gradients are divided before they are cut; None: they are not divided.
    deviations: Floats | None = None
    expected: float | None = None  #: Expected excess mean loss on typical data
    rate: float = 1.0  #: Probability with which a unit takes part in a step; 1: every unit of the batch does
    neighbors = tuple(Neighboring)  # pyright: ignore[reportAssignmentType]
    noise_name = "gaussian"
    constants = "calibrated"
    algorithm: ClassVar[str] = "noisy_gradient"

    @property
    def ball(self) -> L2Ball:
        """The ball onto which parameters are projected after every step."""
        return L2Ball(self.problem.radius * (1.0 if self.typical is None else FAR))

    @cached_property
    def clipping(self) -> Clipping:
        """How a unit's gradient is measured and cut."""
        return Clipping(self.problem, self.clip, self.deviations)

    @property
    def predicted_error(self) -> PredictedError:
        source = f"noisy projected gradient descent; {self.rests_on}"
        proved = not self.rests_on.startswith("an estimate")
        words = "sparse" in {block.values for block in self.problem.domain.blocks}
        caution = SPARSE if words and self.problem.loss.task == "classification" else 1.0
        return PredictedError(self.bound, self.trivial, source, expected=self.expected, proved=proved, caution=caution)

    @property
    def sampled(self) -> SampledGaussian | None:
        """The mechanism of all steps on samples; None where steps read whole batches."""
        return SampledGaussian(self.mechanism, self.rate, self.steps) if self.rate < 1 else None

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {LABEL: self.mechanism if self.sampled is None else self.sampled}

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """The releases of all gradients: one entry for each batch, or one for all samples."""
        if self.sampled is not None:
            return (self.sampled.planned(LABEL),)
        times = self.steps // self.batches
        return tuple(replace(self.mechanism.planned(LABEL, block), times=times) for block in self.blocks)

    @property
    def only_sums(self) -> bool:
        whole = self.batches == 1 and (self.rate == 1 or not self.problem.grouped)
        return whole and self.problem.only_sums  # batches are records by their position, samples users by theirs

    @property
    def blocks(self) -> tuple[str | None, ...]:
        """Names of the disjoint batches; a single None if there is one batch."""
        return (None,) if self.batches == 1 else tuple(f"batch {j + 1}" for j in range(self.batches))

    @property
    def theorem(self) -> str:
        unit = self.privacy.unit
        if self.sampled is not None:
            drawn = f"sums over samples that every {unit} joins with probability q"
            return f"Noisy gradient descent: {drawn}, each gradient cut to length C, composed adaptively."
        return f"Noisy gradient descent: mean gradients, each {unit}'s cut to length C, composed adaptively."

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        how = "its vector is scaled down to C" if self.clipping.cuts else "C is the Lipschitz constant over the domain"
        where = "" if self.deviations is None else ", each block's part divided by its scale,"
        sizes = Assumption("the number of steps and their size are public", "the plan fixes them; every step is taken")
        drawn = Assumption("batches do not depend on the data", "by position, or by coins apart from data and noise")
        if self.sampled is not None:
            what = f"{self.privacy.unit}s take part independently with the stated rate, and who did stays secret"
            drawn = Assumption(what, "coins of the session that adds the noise; sums are divided by rate times n")
        return (Assumption(f"every {self.privacy.unit}'s gradient{where} has length at most C", how), sizes, drawn)

    @property
    def coefficient_deviation(self) -> Floats:
        """Deviation (dim,) of the released point from noise alone, as if the loss had no curvature."""
        if self.typical is not None:
            walked = math.sqrt(float(self.typical.response(np.zeros(1))[1][0])) * self.mechanism.sigma
            return np.minimum(walked * self.clipping.scales, self.problem.radius)
        if self.gamma is None:
            walked = self.step_size * self.mechanism.sigma * math.sqrt(2 * self.steps / 3)
        else:
            walked = DRIFT * self.mechanism.sigma * self.steps**1.5 / self.gamma
        return np.full(self.problem.dim, min(walked, self.problem.radius))

    def describe(self) -> Mapping[str, Any]:
        facts: dict[str, Any] = {"noise": self.noise_name, "level": self.clip, "batches": self.batches}
        if self.rate < 1:
            facts["rate"] = self.rate
        facts |= attributes(self, "steps", "step_size", "gamma")
        if self.typical is not None:
            start = np.cumsum([0] + [block.size for block in self.problem.domain.all_blocks[:-1]])
            facts |= attributes(self.typical, "momentum", "averaged")
            facts["block_scales"] = self.clipping.scales[start].tolist()
        return facts

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        released = self._on_sample(X, y, groups, source) if self.sampled else self._on_batch(X, y, groups, source)

        def noisy(w: Floats) -> Floats:
            return self.clipping.scales * released(w) + self.l2 * w

        w, total, averaged = np.zeros(self.problem.dim), np.zeros(self.problem.dim), math.ceil(TAIL * self.steps)
        if self.typical is not None:
            return self.finish(self.typical.minimize(w, noisy, self.ball.project), source)
        if self.gamma is not None:
            descent = Descent((Stage(self.steps, self.gamma),), 0.0, self.bound)
            return self.finish(descent.minimize(w, noisy, self.ball.project)[0], source)
        for t in range(self.steps):
            if t >= self.steps - averaged:  # the mean is of the points where gradients are taken
                total += w
            w = self.ball.project(w - self.step_size * noisy(w))
        return self.finish(total / averaged, source)

    def _on_batch(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> Gradient:
        """Return the function that releases a noisy mean gradient, of the batches in turn."""
        ledger = Ledger(self.privacy, self.releases)
        gradients = mean_gradients(self.clipping, self.batches, X, y, groups, source)
        turn = iter(range(self.steps))

        def released(w: Floats) -> Floats:
            j = next(turn) % self.batches
            return self.mechanism.release(gradients[j](w), LABEL, source, ledger, self.blocks[j])

        return released

    def _on_sample(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> Gradient:
        """Return the function that releases a noisy gradient of a fresh, secret sample of units at each call."""
        assert self.sampled is not None
        session = self.sampled.start(self.problem.n, LABEL, source, Ledger(self.privacy, self.releases))
        gradient = sampled_gradient(self.clipping, self.rate, X, y, groups)
        return lambda w: session.release(partial(gradient, w))
