"""A constant prediction of a linear model over an l1 ball: the best answer where columns would add more noise.

Listing
    1. Add up the targets, each clipped to [-B, B] and rounded to a multiple of ``2^-24 B``. 2. Release the sum with
    Laplace noise. 3. Return the constant that is best for that mean, by post-processing; all other coefficients are 0.
Guarantee
    Pure epsilon, for neighbors that replace one record.
Lemma
    A record's rounded target is a multiple of ``2^-24`` in [-1, 1], in units of B, whatever the record is, so a
    replaced record moves the sum by at most 2. Sums are exact below 2^29 records. Features have no part in it.
Assumptions
    None beyond those of all methods.
Accuracy
    The mean is off by ``sqrt(2) 2 B / (n epsilon)``; the loss by its square times half of the curvature.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass, finite
from dpconvex.algorithms import PredictedError, check_relation, recorded, uses
from dpconvex.algorithms.minimax import base
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import SimplexSaddle, WorstGroupLoss
from dpconvex.problems.data.sources.rows import EncodedRows, totals
from dpconvex.randomness import BitSource

LABEL = "sum of the targets"
LEMMA = "a target in [-1, 1], rounded by itself, moves an exact sum by at most 2 if it is replaced"
UNITS = 2.0**24  #: Targets are rounded to multiples of 1 / UNITS of their bound.
DOUBT = 0.5  #: Counts of two classes are raised by this many scales of the noise, or of 1 if that is more.
REMAINS = {"regression": 0.08, "classification": 0.16}
"""Assumed loss of the best constant, as a share of that of weights 0 at worst, by task. Expected errors of the other
methods are shares of bounds, so this says from where on they lose more than a constant: chosen on learning tables, on
which .08 is best for classes, too, but from .16 on every fit loses more, and scores rank (`benchmarks/sparse_models.py
--constants`)."""


@final_dataclass(eq=False)
class ConstantPlan(base.SaddlePlan):
    """A noisy sum of the targets, and the constant that follows from it."""

    problem: WorstGroupLoss
    mechanism: LaplaceMechanism  #: in units of the targets' bound
    algorithm: ClassVar[str] = "constant"
    constants: ClassVar[str] = "calibrated"
    noise_name: ClassVar[str] = "laplace"
    theorem: ClassVar[str] = "Laplace mechanism for the sum of the targets; features have no part in it."
    assumptions: ClassVar[tuple[Assumption, ...]] = ()
    error_share: ClassVar[float] = 1.0
    only_sums: ClassVar[bool] = True
    mechanisms = uses({LABEL: "mechanism"})
    hopeless = True  # pyright: ignore[reportAssignmentType]
    outlook = (  # pyright: ignore[reportAssignmentType]
        "no column is used, and the answer is the same for all; algorithm='frank_wolfe' makes a fit"
    )

    @property
    def _noise(self) -> float:
        """Expected excess of the released constant over the best one."""
        off = _bound(self.problem) * self.mechanism.scale / self.problem.n
        return min(self.problem.loss.curvature_bound * off**2, self.problem.trivial_gap)

    @property
    def predicted_error(self) -> PredictedError:
        trivial = self.problem.trivial_gap
        return PredictedError(self._noise + trivial, trivial, "a constant, and its noise")

    @property
    def expectation(self) -> float:
        return self._noise + REMAINS[self.problem.loss.task] * self.yardstick

    def describe(self) -> Mapping[str, Any]:
        return {"noise": self.noise_name, "scale": self.mechanism.scale}

    def _run(self, records: Any, source: BitSource) -> base.SaddleResult:
        ledger, bound = Ledger(self.privacy, self.releases), _bound(self.problem)

        def work(_: Array, y: Array) -> tuple[Array, ...]:
            inside = finite(self.problem.loss.clip_targets(y if y.ndim == 1 else y[:, 0]), bound) / bound
            return (np.rint(inside * UNITS).astype(np.int64).sum(keepdims=True),)

        X, y = (records, records) if isinstance(records, EncodedRows) else records[:2]
        exact = totals(X, y, work)[0] / UNITS  # line 1
        noisy = float(self.mechanism.release(exact, LABEL, source, ledger)[0])  # line 2
        return self.finish(self._vertices(self._best(noisy)), np.ones(1), source)  # line 3

    def _best(self, total: float) -> float:
        """Return the best constant prediction for targets of this sum, in units of their bound."""
        n, loss = self.problem.n, self.problem.loss
        if loss.task == "regression":
            return _bound(self.problem) * total / n
        counts = np.maximum([(n - total) / 2, (n + total) / 2], 0.0) + DOUBT * max(self.mechanism.scale, 1.0)
        return float(np.log(counts[1] / counts[0]))

    def _vertices(self, constant: float) -> Floats:
        """Return the point whose model predicts this constant, or the nearest one inside of the ball."""
        share = float(np.clip(constant / self.problem.reach, -1.0, 1.0))
        x = np.zeros(self.problem.dx)
        x[[self.problem.dim - 1, -1]] = (1 + share) / 2, (1 - share) / 2
        return x


def _bound(problem: WorstGroupLoss) -> float:
    """Return the largest size of a clipped target."""
    return float(np.abs(problem.loss.clip_targets(np.array([-1e300, 1e300]))).max())


@recorded("l1_constant")
def plan(problem: SimplexSaddle, privacy: PrivacyParams) -> ConstantPlan:
    """Plan a constant prediction for a linear model over an l1 ball, of one group and with an intercept."""
    check_relation(privacy)
    base.require_single(problem)
    if not isinstance(problem, WorstGroupLoss) or not problem.intercept or problem.factors != (1.0,):
        what = "must be that of a linear model with an intercept"
        raise InvalidParameterError("problem", problem.name, what, "Use algorithm='frank_wolfe'")
    return ConstantPlan(problem, privacy, LaplaceMechanism.calibrate(Sensitivity(2.0, "l1", LEMMA), privacy.epsilon, 1))
