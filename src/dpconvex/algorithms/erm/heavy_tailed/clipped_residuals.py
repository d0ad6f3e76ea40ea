r"""Residuals cut at one public level, then an ordinary method: for heavy-tailed targets and well-bounded features.

Guarantee
    The ordinary method's, for neighbors that replace one record and every data set: no moment has to exist.
Lemma
    Let ``phi_W`` be the loss whose slope in the prediction is ``clip(phi', -W, W)`` (`LinearModelLoss.cut`): convex, of
    slope at most W, whatever the target is. The ordinary method runs on it, with the sensitivity that it states there.
    The level W is a function of public facts or of a released level. Losses of bounded slope are not changed.
Assumptions
    Those of the ordinary method. Moments affect accuracy only: privacy holds with any. The bound, for predictions in
    the range [-P, P], adds the bias ``2 P M^k / ((k - 1) T^(k-1))``, ``T = W - c P`` (docs, Clipped residuals).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from dpconvex._types import Array, final_dataclass, forwarded
from dpconvex.algorithms import LinearModelPlan, PredictedError, PrivateResult, recorded
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, check_heavy, check_moments, extreme
from dpconvex.algorithms.erm.heavy_tailed.schedule import TUNING
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.select import LARGEST, SMALLEST, Options
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.randomness import BitSource

PREDICTIONS = 0.5  #: P, since estimators map the range of predictions to [-1/2, 1/2]; it affects accuracy only.


@final_dataclass
class ClippedResidualsPlan(TwoStagePlan):
    """An ordinary method, `then`, on the loss of `problem` with its slope cut; `moments` are those of the slopes s."""

    moments: Moments
    then: LinearModelPlan
    sums: bool = False
    algorithm: ClassVar[str] = "clipped_residuals"
    level = forwarded("then.problem.loss", "slope_bound")  #: level W, the largest slope

    @property
    def bias(self) -> float:
        """Bound on the excess loss that cutting slopes adds; 0 where nothing is cut."""
        if self.then.problem.loss == self.problem.loss:
            return 0.0
        return 2 * PREDICTIONS * self.moments.excess(self.level - PREDICTIONS * self.problem.loss.curvature_bound)

    @property
    def predicted_error(self) -> PredictedError:
        """The ordinary method's bound and the bias, for predictions within the range."""
        given = self.then.predicted_error
        source = f"{given.source}, and the bias of residuals cut at {self.level:.4g} for predictions within the range"
        trivial = min(self.problem.loss.value_at_zero, PREDICTIONS * self.moments.g1)  # convexity: slope at 0 times P
        source = source if self.bias else given.source
        return PredictedError(given.bound + self.bias, trivial, source, proved=given.proved)

    @property
    def theorem(self) -> str:
        if not self.bias:
            return self.then.theorem
        return f"{self.then.theorem} The loss is {self.then.problem.loss.name}: its slope is at most {self.level:.6g}."

    def describe(self) -> Mapping[str, Any]:
        method = {**self.then.describe(), "method": self.then.algorithm}
        if not self.bias:
            return method
        losses = {"loss": self.problem.loss.name, "minimized_loss": self.then.problem.loss.name}
        return {**method, **losses, "slope_cut_at": self.level, **self.moments.describe()}

    def at(self, privacy: PrivacyParams) -> "ClippedResidualsPlan":
        return plan(self.problem, privacy, self.moments, constants=self.constants, sums=self.sums)

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        result = self.then.run(X, y, source)
        return self.restored(result, result.point, source)


@recorded("clipped_residuals")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments,
    *, constants: str = "calibrated", sums: bool = False,
) -> ClippedResidualsPlan:  # fmt: skip
    """Return the plan of the ordinary method with the smallest bound; with `sums`, among those that need sums alone.

    Noise is proportional to the domain's longest record. The loss has one prediction and is smooth or piecewise linear;
    `moments` are those of its slopes at the prediction 0, and are not used where slopes are bounded.
    """
    check_heavy(problem, privacy, moments)
    try:
        beyond = TUNING.level(moments.k, moments.bound, problem.n * privacy.epsilon / problem.dim)
    except OverflowError:
        raise extreme(problem.name, moments) from None
    if not SMALLEST <= beyond <= LARGEST:
        raise extreme(problem.name, moments)
    return ClippedResidualsPlan(problem, privacy, moments, fitted(problem, privacy, beyond, constants, sums), sums)


def fitted(
    problem: LinearModelProblem, privacy: PrivacyParams, beyond: float, constants: str, sums: bool
) -> LinearModelPlan:
    """Return the best ordinary method on the loss with its slope cut at `beyond` plus what predictions can add."""
    loss = problem.loss.cut(beyond + PREDICTIONS * problem.loss.curvature_bound) or problem.loss
    return plans(replace(problem, loss=loss), privacy, options=Options(constants, sums=sums))[0]


def slope_moments(problem: LinearModelProblem, moments: Moments) -> Moments:
    """Return moments of slopes from those of gradients; raise without a constant feature, the shortest record."""
    check_moments(moments)
    unit = problem.domain.intercept
    if unit == 0:
        what = "must be positive for a bound on slopes to follow from one on gradients"
        raise InvalidParameterError("intercept", unit, what, "Leave the bound out, or use algorithm='heavy_tailed'")
    return Moments(moments.k, moments.bound / unit, moments.g2 / unit, moments.g1 / unit)
