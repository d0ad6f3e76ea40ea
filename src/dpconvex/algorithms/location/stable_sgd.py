r"""Stable stochastic gradient descent from a private warm start: Algorithm 4 of the private-median paper, in phases.

Phase k walks from a released point z, ``z <- project(z + eta_k (x_i - z) / ||x_i - z||)`` for the visited records i,
and releases the average of some of its iterates plus Gaussian noise.

Guarantee
    mu-GDP (hence (epsilon, delta)) for neighbors that replace one record, given the warm start.
Lemma
    Two walks of a phase from the same start over the same visits, in data sets that differ in one record, stay within
    ``2 m eta`` of each other after m visits of that record; so do their averages. (The paper: ``(2m+1) eta``. Proof:
    docs, Geometric median, Stage 3.) A walk that counts as standing at x and does not move (``a <= c``, c = 1e-145 for
    squares that underflow) ends at most ``2 eta`` from the other, or at most the old distance, when ``eta >= 2 c``.
    Visits may not depend on the data: they come from coins drawn apart from all noise, public for records, secret for
    users, whose places depend on labels. The ball and its center are released values. Any fixed choice of iterates may
    be averaged, but only one average is released.
    Phases compose to the root of the sum of squares; in a single pass every record is visited in one phase only, so
    each phase may spend the whole budget.
Rounding
    A step relative to the ball's center errs by at most ``u (d + 20)(ball + 2 eta)``, u = 2^-53, on either data set.
    Errors do not grow on the way: ``2 T`` times that joins the sensitivity, averaging included.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.stats import poisson

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms.location.base import Booster, Refined, WarmStart
from dpconvex.algorithms.location.noisy_descent import into_ball
from dpconvex.mechanisms import FailureAllowance, GaussianMechanism, Planned
from dpconvex.privacy import Assumption, Ledger, Release, Sensitivity, Unit
from dpconvex.randomness import BitSource
from dpconvex.solvers.weiszfeld import COINCIDENT, UNIT_ROUNDOFF

LEMMA = "average of a contractive walk, in units of its bound 2 m eta (m visits of a record), plus rounding"
ALLOWANCE = "a record is visited more often than m times"
Order = Literal["fixed", "random"]


@final_dataclass
class Phase:
    """Public constants of one phase. Lengths are multiples of the warm start's ball."""

    label: str
    steps: int  #: number of visits
    step: float  #: step size eta
    ball: float  #: radius of the ball onto which iterates are projected
    recentered: bool  #: whether the ball is around the phase's start instead of the warm start's center
    first: int  #: iterates first, ..., steps are averaged; with -1 the iterates 0, ..., steps - 1, as printed
    uses: int | None  #: number of visits of one record that the noise covers; None: as many as the drawn order has
    extra: int  #: number of step sizes added to 2 * uses in the sensitivity: 1 as printed, else 0
    mechanism: GaussianMechanism  #: noise for sensitivity 1, since the average is released in units of its sensitivity
    block: str | None  #: name of the phase's records, if no other phase reads them

    def sensitivity(self, uses: int) -> float:
        """Return how far one record, visited `uses` times, can move the average in l2, rounding included."""
        error = 2 * UNIT_ROUNDOFF * (self.steps * (self.mechanism.dim + 20) + 16)
        bound = _rounding.product_up(2.0 * uses + self.extra, self.step)  # the lemma
        return _rounding.sum_up((bound, _rounding.product_up(error, self.ball + 2 * self.step, 1 + 1e-9)))

    def average(self, points: Floats, visits: Array, center: Floats, z: Floats, size: float) -> Floats:
        """Walk from `z`, without noise; return the average of the kept iterates, both relative to the ball's center."""
        from dpconvex.solvers._loops import walk

        return walk(points, visits, center, z.copy(), self.step * size, self.ball * size, self.first, COINCIDENT)


@final_dataclass
class StableSgd(Booster):
    """Public constants of all phases."""

    n: int  #: number of records
    order: Order  #: order of visits: passes in one shuffled order, or independent uniform draws
    phases: tuple[Phase, ...]
    allowance: FailureAllowance | None = None  #: for draws that visit a record more often than the printed noise covers
    name: ClassVar[str] = "stable_sgd"

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        allowed = {} if self.allowance is None else {ALLOWANCE: self.allowance}
        return {**allowed, **{phase.label: phase.mechanism for phase in self.phases}}

    @property
    def releases(self) -> tuple[Release, ...]:
        blocks = {phase.label: phase.block for phase in self.phases}
        return tuple(mechanism.planned(label, blocks.get(label)) for label, mechanism in self.mechanisms.items())

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        coins = "drawn from coins apart from data and noise"
        return (Assumption("the order of visits does not depend on data", coins),)

    @property
    def deviation(self) -> float:
        last = self.phases[-1]  # for a ball of two radii
        uses = last.uses or int(poisson.isf(1 / (2 * self.n), last.steps / self.n)) + 1  # likely the most visits
        return 2 * last.sensitivity(uses) * last.mechanism.sigma

    def describe(self) -> Mapping[str, Any]:
        return {
            "boost": {"fixed": "fixed_order", "random": self.name}[self.order],
            "steps": [phase.steps for phase in self.phases],
            "step_in_balls": [phase.step for phase in self.phases],
            "covered_visits": [phase.uses for phase in self.phases],
        }

    def refine(self, points: Floats, start: WarmStart, source: BitSource, ledger: Ledger) -> Refined:
        if self.allowance is not None:
            self.allowance.charge(ALLOWANCE, ledger)
        z, size = start.center, start.ball
        for phase, visits in zip(self.phases, self.visits(source.generator()), strict=True):
            center = z if phase.recentered else start.center
            uses = phase.uses if phase.uses is not None else int(np.bincount(visits).max())
            unit = phase.sensitivity(uses) * size
            moved = phase.average(points, visits, center, z - center, size) - (z - center)
            noisy = phase.mechanism.release(moved / unit, phase.label, source, ledger, phase.block)
            z = start.center + into_ball(z - start.center + unit * noisy, size)
        return Refined(z)

    def visits(self, coins: np.random.Generator) -> list[Array]:
        """Draw the records that each phase visits, from public facts alone."""
        if self.order == "random":
            return [coins.integers(self.n, size=phase.steps) for phase in self.phases]
        order, ends = coins.permutation(self.n), np.cumsum([phase.steps for phase in self.phases])
        return [order[np.arange(end - phase.steps, end) % self.n] for phase, end in zip(self.phases, ends, strict=True)]


def plan_stable_sgd(
    n: int, dim: int, mu: float, *, order: Order = "fixed", passes: int = 1,
    phases: int = 2, travel: float = 4.0, tail: float = 0.5, unit: Unit = Unit.RECORD,
) -> StableSgd:  # fmt: skip
    """Plan phases of equal length that together spend `mu`, step sizes falling by 4 from one to the next.

    Step sizes of the first phase sum to ``travel / phases`` balls; the last share `tail` of each phase is averaged.
    """
    _validate.choice("order", order, ("fixed", "random"))
    _validate.integer("phases", phases, at_least=1)
    total = _validate.integer("n", n, at_least=1) * _validate.integer("passes", passes, at_least=1)
    _validate.real("travel", travel, above=0.0)
    _validate.real("tail", tail, above=0.0, at_most=1.0)
    phases = min(phases, total)
    alone = order == "fixed" and passes == 1
    # In a single pass phases read disjoint records; otherwise squares of budgets add up, and accountants round up.
    each = mu if alone else mu / math.sqrt(phases) * (1 - 1e-12)
    mechanism = GaussianMechanism.of_mu(Sensitivity(1.0, "l2", LEMMA, unit=unit), each, dim)

    def phase(k: int) -> Phase:
        steps = total * (k + 1) // phases - total * k // phases
        first, uses = steps - math.ceil(tail * steps) + 1, -(-steps // n) if order == "fixed" else None
        label, block = f"average of phase {k + 1}", f"phase {k + 1}" if alone else None
        return Phase(
            label, steps, travel / total / 4.0**k, ball=1.0, recentered=False, first=first, uses=uses, extra=0,
            mechanism=mechanism, block=block,
        )  # fmt: skip

    return StableSgd(n, order, tuple(map(phase, range(phases))))
