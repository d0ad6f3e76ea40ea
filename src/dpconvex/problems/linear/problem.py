"""The public statement of a linear-model problem: loss, domain, size and the norm of the comparator."""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, forwarded, forwards, set_fields
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LinearModelLoss
from dpconvex.problems.base import MOST_TIMES, ROUNDING, Aggregation, Problem, inner_product_rounding
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.factor import Factor
from dpconvex.problems.data.records import Records, RecordSource
from dpconvex.problems.data.sources.rows import EncodedRows, streamed
from dpconvex.problems.data.users import UserGroups, record_weights
from dpconvex.problems.linear.adversarial import ATTACK_NORMS, Attack, AttackNorm, Lift
from dpconvex.problems.linear.expected_risk import TypicalData, squared_reach
from dpconvex.problems.linear.objective import NO_TILT, LinearModelObjective, RegularizedRisk, TiltedRisk
from dpconvex.problems.linear.shapes import ExpectedShapes
from dpconvex.sets import ConvexSet

MOST_COEFFICIENTS = 2**27  # most coefficients of a model: a few vectors of this length take gigabytes


@dataclass(frozen=True)
@forwards("loss", "name value_at_zero trivial")
class LinearModelProblem(Problem):
    """Average or tilted loss of a linear model over `n` records of a domain. Holds no data.

    Under attack, solvers see a lifted objective: it has an equal minimizer in other variables, which `parameters`
    translates, and is minimized over `constraint` (docs, Adversarial training).
    """

    loss: LinearModelLoss  #: convex loss of the predictions, with its proven constants
    domain: DataDomain  #: domain into which every record is clipped, with the constant feature
    n: int  #: number of records, or of users; public under replace-one neighbors
    #: l2 norm R of the comparator: regularization is chosen so that the model competes with every parameter vector up
    #: to this norm. It never affects privacy.
    radius: float
    #: 0: the objective is the average loss. Positive, in the inverse unit of the loss: ``1/tilt log(mean exp(tilt
    #: loss))``, which lets large losses outweigh small ones.
    tilt: float = 0.0
    #: 0: no adversary. Positive, in the unit of the (encoded, scaled) features: every record's loss is the largest one
    #: over all perturbations of its features of norm at most this; the constant feature is never perturbed. For losses
    #: of one margin and for the absolute and pinball losses (with a tilt: smooth losses of one margin).
    attack_radius: float = 0.0
    attack_norm: AttackNorm = "l2"  #: norm in which perturbations are measured
    #: None: `n` counts records. A number: `n` counts users, whose losses are means over their records, and the
    #: objective is the mean over users. The number is a public guess of a typical user's number of records: plans may
    #: assume it, and one-pass methods draw at most that many of a user; privacy does not rest on it. No tilt, attack.
    records_per_user: int | None = None
    #: None: the ridge is on the parameters themselves. Otherwise they are ``F v``, block by block, with the ridge on v
    #: (docs, Additive models, section 1), and `dim` counts v; `radius` stays that of the parameters. For averages.
    factor: Factor | None = None
    #: The prior of the blocks' shapes, which replaces `TypicalData` in plans; needs a factor.
    shapes: ExpectedShapes | None = None
    #: Variance of predictions that plans expect in regressions; None: it follows from `radius` and grows with columns.
    explained: float | None = None
    #: Squared coefficients that plans expect, over those that follow from `radius` (`Tuning.many`).
    surplus: float = 1.0
    #: Deviation of residuals that plans expect in regressions, over the targets' range; None: the ordinary share.
    residual: float | None = None
    #: Whether the number of units is private and `n` a public guess of it: the sum of all losses is divided by `n`. So
    #: one unit adds as much to the objective as in a mean over `n`. For averages.
    private_n: bool = False
    only_sums = True
    bounds = forwarded("loss")

    def __post_init__(self) -> None:
        numbers = {
            "n": _validate.records("n", self.n),
            "radius": _validate.real("radius", self.radius, above=0.0),
            "tilt": _validate.real("tilt", self.tilt, at_least=0.0, remedy=NO_TILT),
            "attack_radius": _validate.real("attack_radius", self.attack_radius, at_least=0.0),
        }
        set_fields(self, **numbers)  # Python's own: numpy's scalars fit neither fractions nor JSON
        if self.tilt and math.isinf(self.loss.value_at_zero):
            what = "must have bounded targets to be tilted"
            raise InvalidParameterError("loss", self.loss.name, what, "Give it a target_bound")
        if self.loss.n_outputs * self.domain.dim > MOST_COEFFICIENTS:
            found = self.loss.n_outputs * self.domain.dim
            what = f"must leave at most {MOST_COEFFICIENTS} coefficients, and there would be {found}"
            raise InvalidParameterError("n_features", self.domain.dim, what, "Use fewer features or classes")
        if self.factor is not None and self.factor.domain != self.domain:
            raise InvalidParameterError("factor", "of another domain", "must be of the problem's domain")
        _validate.choice("attack_norm", self.attack_norm, ATTACK_NORMS)
        if self.attack is not None:
            self.attack.check(self.loss, self.tilt)
        if self.private_n and (self.tilt or self.attack_radius):
            name = "tilt" if self.tilt else "attack_radius"
            raise InvalidParameterError(name, numbers[name], "must be 0 where the number of records is private")
        if self.records_per_user is not None:
            number = _validate.integer("records_per_user", self.records_per_user, at_least=1)
            object.__setattr__(self, "records_per_user", number)
            for name in ("tilt", "attack_radius"):
                if numbers[name]:
                    raise InvalidParameterError(name, numbers[name], "must be 0 where users are protected")

    @property
    def grouped(self) -> bool:
        return self.records_per_user is not None

    @property
    def aggregation(self) -> Aggregation:
        return "tilted" if self.tilt else "average"

    @property
    def dim(self) -> int:
        return self.loss.n_outputs * (self.domain.dim if self.factor is None else self.factor.rank)

    def clipped(self, X: Array | EncodedRows, y: Array | EncodedRows) -> tuple[RecordSource, Array | None]:
        """Return records in the domain and targets in the loss's range, or None if the records hold the targets.

        X and y are arrays, or one source of encoded rows, given twice.
        """
        if isinstance(X, EncodedRows) and X.whole:
            X, y = X.matrix()
        if isinstance(X, EncodedRows):
            return streamed(X, self.domain, self.loss.clip_targets), None
        assert isinstance(y, np.ndarray)
        return Records.clipped(X, self.domain, empty=self.private_n), self.loss.clip_targets(y)

    def on(
        self, records: RecordSource, targets: Array | None, l2: float, groups: UserGroups | None = None,
        linear: Floats | None = None,
    ) -> LinearModelObjective:  # fmt: skip
        """Return the objective on records of the domain, without an attack.

        `groups` assigns records to users, if and only if `n` counts users; `linear` (dim,) is a linear term.
        """
        if self.tilt:
            return TiltedRisk(self.loss, records, targets, l2, linear, tilt=self.tilt)
        weights, heaviest = self.weights(groups), None
        if weights is not None and targets is None:  # the records hold both
            records, weights, heaviest = records.weighted(weights), None, float(weights.max())
        counted = (records.n if groups is None else groups.n_users, self.n) if self.private_n else None
        given = (self.loss, records, targets, l2, linear, weights, heaviest, counted)
        return RegularizedRisk(*given, factor=self.factor)

    def weights(self, groups: UserGroups | None) -> Floats | None:
        """Return the records' weights (n_records,), with sum at most ``1/n`` for each user; None for ``1/n`` each."""
        if (groups is not None) != self.grouped:
            raise InvalidDataError("groups must be given where, and only where, the problem has records_per_user")
        if groups is None:
            return None
        if groups.n_users != self.n and not self.private_n:
            raise InvalidDataError(f"groups has {groups.n_users} users, but the problem is for n={self.n}. Plan again")
        return record_weights(groups, _rounding.ratio_down(1.0, self.n))

    @cached_property
    def attack(self) -> Attack | None:
        return Attack(self.attack_radius, self.attack_norm) if self.attack_radius else None

    @cached_property
    def lift(self) -> Lift | None:
        """The map from the problem under attack to an ordinary problem over cones; None without an adversary."""
        return None if self.attack is None else Lift(self.attack, self.domain)

    @cached_property
    def _lifted(self) -> "LinearModelProblem":
        assert self.lift is not None
        return LinearModelProblem(self.loss, self.lift.domain, self.n, self.radius * self.lift.stretch, self.tilt)

    def objective(self, X: Array, y: Array, l2: float, groups: UserGroups | None = None) -> LinearModelObjective:
        records, targets = self.clipped(X, y)
        if self.lift is None:
            return self.on(records, targets, l2, groups)
        lifted = records.lifted(partial(self.lift.column, self.loss), targets, self.lift.domain)
        return replace(self._lifted.on(lifted, targets, self.lift.ridge(l2)), linear=self.lift.linear(self.loss))

    def constraint(self, radius: float) -> ConvexSet:
        return super().constraint(radius) if self.lift is None else self.lift.constraint(radius)

    def parameters(self, point: Floats) -> Floats:
        if self.factor is not None:
            return self.factor.parameters(point.reshape(self.loss.n_outputs, -1)).ravel()
        return point if self.lift is None else self.lift.parameters(point)

    @cached_property
    def feature_l2(self) -> float:
        """Largest l2 norm of a record, after the attack if there is one, rounded up."""
        return self._length if self.attack is None else self.attack.reach(self.domain)

    @property
    def _length(self) -> float:
        """``X_2`` before an attack, in the coordinates of the ridge."""
        return self.domain.l2 if self.factor is None else self.factor.l2

    @cached_property
    def ridge_radius(self) -> float:
        """The comparator norm in the ridge's coordinates, if blocks share its square by `squared_reach`."""
        if self.factor is None:
            return self.radius
        needed = np.array([squared_reach(block) for block in self.domain.all_blocks])
        return self.radius * math.sqrt(float(np.sum(needed / self.factor.mean_squares)) / needed.sum())

    @cached_property
    def typical(self) -> TypicalData | Any:  # None for a tilt or an attack, which most methods refuse
        if self.tilt or self.attack_radius:
            return None
        if self.shapes is not None and self.factor is not None:
            unit = (self.radius / default_radius(self.domain)) ** 2
            return self.shapes.typical(self.loss.unweighted, self.factor, unit, self.residual)
        length = self.radius * math.sqrt(self.surplus)
        return TypicalData.of(self.domain, self.loss.unweighted, length, self.factor, self.explained, self.residual)

    def log_weight_ratio(self, radius: float) -> float:
        span = self.loss_range(radius) if self.tilt else 0.0
        return math.inf if math.isinf(span) else _rounding.product_up(self.tilt, span)

    @cached_property
    def lipschitz(self) -> float:
        slope = self.loss.slope_bound
        return slope if math.isinf(slope) else _rounding.product_up(slope, self.feature_l2)

    @property
    def contrast(self) -> float:
        """``2 A X_2`` with A the largest slope, also under attack (docs, Adversarial training, Lemma 2)."""
        slope = self.loss.slope_bound
        return slope if math.isinf(slope) else _rounding.product_up(2.0, slope, self._length)

    @property
    def smoothness(self) -> float:
        # Under attack worst cases of smooth losses have kinks (erratum U10).
        return self.curvature if self.attack is None else math.inf

    @property
    def kink(self) -> float:
        """Excess from centered noise by the kinks of the dual norm: ``A s E|z|_{p*} / E|z|``; 0 without an attack."""
        if self.attack is None or math.isinf(self.loss.curvature_bound):
            return 0.0
        return self.loss.slope_bound * self.attack.radius * self.attack.mean_dual_norm(self.domain)

    @cached_property
    def curvature(self) -> float:
        """One record's curvature; with a tilt, that plus ``tilt L^2`` (Lowy and Razaviyayn, Lemma 5.3).

        The kinks of an attack are left out (docs, Adversarial training, Theorem 3).
        """
        if math.isinf(self.loss.curvature_bound):
            return math.inf
        one = _rounding.product_up(self.loss.curvature_bound, self.feature_l2, self.feature_l2)
        if self.tilt == 0:
            return one
        return _rounding.sum_up((one, _rounding.product_up(self.tilt, self.lipschitz, self.lipschitz)))

    def minimizer_norm(self, l2: float) -> float:
        # L / l2: the gradient vanishes. sqrt(2 v / l2): J(w*) <= J(0), losses are at least 0, at zero at most v.
        v, most = self.loss.value_at_zero, self.most_times
        return _rounding.widen_up(min(most * self.lipschitz / l2, math.sqrt(2 * most * v / l2)))

    def loss_range(self, radius: float) -> float:
        """Largest difference between two records' losses *at the same parameters* of norm at most `radius`, rounded up.

        Predictions lie in ``[-Z, Z]``, ``Z = radius X_2`` after the attack; convex losses are largest at an end, with
        an extreme target, monotone ones smallest too, others are at least 0. Several outputs: ``loss(0) + slope Z``.
        """
        ends = _rounding.product_up(radius, self.feature_l2)
        if self.loss.n_outputs > 1:
            return _rounding.sum_up((self.loss.value_at_zero, _rounding.product_up(self.loss.slope_bound, ends)))
        largest_target = np.finfo(np.float64).max
        targets = self.loss.clip_targets(np.array([-largest_target, largest_target] * 2))
        values = self.loss.value(np.array([-ends, -ends, ends, ends]), targets)
        top = _rounding.widen_up(float(values.max()))
        if self.loss.task == "regression" or self.loss.sides == 2:
            return top
        return top - max(0.0, float(values.min()) * (1 - _rounding.SLACK)) * (1 - 1e-15)

    def tau(self, l2: float) -> float:
        """Return ``X_2^2 / (n l2)``, rounded up: the curvature that one record can add, relative to the ridge."""
        return _rounding.ratio_up(_rounding.product_up(self._length, self._length), self.n * l2 * (1 - 1e-15))

    def certifiable_radius(self, l2: float, linear: float = 0.0) -> float:
        """Return three times the certificates' rounding slack at the longest minimizer; `linear`: norm of that term."""
        if self.lift is not None:
            linear = 0.0 if (charge := self.lift.linear(self.loss)) is None else float(np.linalg.norm(charge))
            return self._lifted.certifiable_radius(self.lift.ridge(l2), linear)
        v = self.loss.value_at_zero
        size = self.minimizer_norm(l2) + 2 * linear / l2
        tilting = 2 * self.tilt * self.lipschitz * (v + self.lipschitz * size) if self.tilt else 0.0
        if math.isinf(self.smoothness):  # a gap certifies: slack in values, then a square root
            v = self.lipschitz * size if math.isinf(v) else v  # unbounded targets: only differences of values count
            gap = 3 * math.sqrt(2 * ROUNDING * (v + (self.lipschitz + l2 * size) * size) / l2)
            if self.tilt == 0:
                return gap
            # Tilted losses are smoothed to a width that shrinks with the radius squared, which rounding grows with.
            smoothed = 1.5 * (15 * ROUNDING * size * (self.lipschitz / l2) ** 2) ** (1 / 3)
            return max(gap, smoothed) + 12 * ROUNDING * tilting / l2
        columns = self.domain.dim + (0 if self.factor is None else self.factor.rank)
        most = self.most_times
        moved = inner_product_rounding(columns) * (most * self.smoothness + l2) * size
        grid = 0.0 if self.factor is None else self.factor.summed_rounding * self.domain.linf * self.loss.slope_bound
        return 3 * (ROUNDING * (most * self.lipschitz + linear + tilting) + moved + most * grid) / l2

    @property
    def differing(self) -> int:
        """Number of units by which the sums of two neighbors differ: 1 if a unit is added, 2 if one is exchanged."""
        return 1 if self.private_n else 2

    @property
    def most_times(self) -> float:
        """Most units in a sum, over `n`: with more, sums are cut, and solvers need not certify."""
        return MOST_TIMES if self.private_n else 1.0

    def describe(self) -> dict[str, Any]:
        declared = {"declared_n": self.n} if self.private_n else {}
        return {
            "loss": self.loss.name, **self.loss.facts, "n": self.n, **declared, "outputs": self.loss.n_outputs,
            "dim": self.domain.dim, "feature_l2": self._length, "intercept": self.domain.intercept,
            "radius": self.radius, **({"tilt": self.tilt} if self.tilt else {}),
            **({"users": self.n, "records_per_user": self.records_per_user} if self.grouped else {}),
            **({"attack_radius": self.attack_radius, "attack_norm": self.attack_norm} if self.attack_radius else {}),
            **({} if self.factor is None else {"factor": self.factor.stated}),
            "blocks": [block.describe() for block in self.domain.blocks],
        }  # fmt: skip


def default_radius(domain: DataDomain, n_outputs: int = 1) -> float:
    """Return the comparator norm for features scaled like a schema's: each block may give about 2 logits.

    Ours (docs, Objective perturbation, section 5): ``2 sqrt(m)`` for m blocks of unit size, else by `squared_reach`.
    """
    norm = math.sqrt(math.fsum(squared_reach(block) for block in domain.all_blocks))
    if n_outputs == 1:
        return norm
    # k outputs share one model's logits: two outputs +w/2 and -w/2 have norm ||w|| / sqrt(2). The expected gain, in
    # proportion to the square, is an equal share of log k for all k.
    return norm * math.sqrt(n_outputs * math.log2(n_outputs)) / 2
