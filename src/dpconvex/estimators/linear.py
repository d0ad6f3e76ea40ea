"""`PrivateLinearRegression`: least squares with a ridge penalty."""

from __future__ import annotations

from typing import Any, ClassVar, final

from dpconvex import _validate
from dpconvex.algorithms.select import LARGEST
from dpconvex.data import Schema
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators.regressor import PrivateLinearRegressor
from dpconvex.losses import HuberLoss, LinearModelLoss, SquaredLoss
from dpconvex.problems import DataDomain
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import BitSource

CAPS = (0.5, 0.25, 0.125, 0.0625)
"""Caps that are tried, in units of the target's range; without one slopes reach the whole range."""


@final
class PrivateLinearRegression(PrivateLinearRegressor):
    """Least-squares regression under differential privacy, with an l2 penalty (ridge).

    Beyond the target's range the squared loss continues along its tangent, so its slope is bounded by the range and
    coefficients need no bound of their own (with `heavy_tailed` slopes are cut record by record instead).

    Guarantee: as `PrivateLogisticRegression`: everything that `fit` learns from data is (epsilon, delta)-differentially
    private for neighbours that replace one record, pure with ``delta=0``, and nothing else depends on the data.

    Parameters
    ----------
    target_bounds : (lower, upper), optional
        Public range of the target, in its unit. Targets are clipped into it and NaN counts as its middle; predictions
        are clipped too. Default: the schema's numeric target.
    epsilon, delta, feature_norm, feature_bounds, domain, schema : optional
        As in `PrivateLogisticRegression`. Exactly one of the four descriptions of the features must be given.
    fit_intercept : bool, default=True
        Append a constant feature, inside the bounds and regularised like the rest. False: predictions start from the
        middle of the target bounds.
    algorithm, constants, noise, l2, random_state : optional
        As in `PrivateLogisticRegression`. The penalty is on coefficients in units of the target's range. With a delta
        also ``algorithm="sufficient_statistics"``, which is AdaSSP with ``constants="paper"``.
    coefficient_norm : float, optional
        Norm of the coefficients (of encoded features, in units of the target's range) that the model should be able to
        reach; steers regularisation, never privacy. Default: about a third of the range a column.
    tilt, risk, records_per_user : optional
        As in `PrivateLogisticRegression`; a tilt is in the inverse unit of the loss, for a range of width 1.
    residual_cap : float, optional
        Residuals count at most this much, in the target's unit: the loss is linear from there on (Huber's), and noise
        falls in proportion. Means of skewed targets are then biased towards the bulk. Default: the whole range or a
        half, quarter, eighth or sixteenth of it, by the smallest expected error, the bias that skewed residuals would
        have included; public facts decide. A number above the range: never cap.
    heavy_tailed : float or (float, float), optional
        For targets (claims, delays, spending) or features without a known largest value: the order k >= 2 of the moment
        of the gradients that is bounded, or ``(k, G_k)`` with that bound, for a target scaled to a range of width 1;
        with k alone, G_k is estimated for a tenth of epsilon where it is needed. `target_bounds` then bounds
        predictions and sets the unit; targets are *not* clipped into it, only to a million times its width. `algorithm`
        is ``"auto"``, ``"clipped_residuals"`` (ordinary methods; no noise depends on the largest target),
        ``"heavy_tailed"`` (localized output perturbation, pure; none depends on the largest record) or
        ``"clipped_gradient"``; `l2`, `noise`, tilts and adversaries do not apply. Docs: "Heavy tails in practice".
    adversarial_radius, adversarial_norm : optional
        No attack only (radius 0): the worst case of this loss is neither smooth nor piecewise linear.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Released coefficients, in the target's unit per unit of the feature (per encoded column with a schema).
    intercept_ : float
        Released intercept, in the target's unit.
    certificate_ : PrivacyCertificate
        What the fit costs and why.
    plan_ : Plan
        The public constants that were used.
    n_features_in_ : int
        Columns seen by `fit`.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate (2011); Kifer, Smith and Thakurta (2012). Proofs: "Algorithms" in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 2))
    >>> y = 20 + 5 * X[:, 0] + rng.normal(size=5000)
    >>> model = PrivateLinearRegression(epsilon=1.0, feature_bounds=(-1, 1), target_bounds=(0, 40))
    >>> model.fit(X, y).score(X, y) > 0.7
    True
    """

    kind: ClassVar[str] = "linear"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        residual_cap: float | None = None,
        target_bounds: tuple[float, float] | None = None,
        heavy_tailed: float | tuple[float, float] | None = None,
        feature_norm: float | None = None,
        feature_bounds: Any = None,
        domain: DataDomain | None = None,
        schema: Schema | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        constants: str = "calibrated",
        noise: str = "auto",
        l2: float | None = None,
        coefficient_norm: float | None = None,
        tilt: float = 0.0,
        adversarial_radius: float = 0.0,
        adversarial_norm: str = "l2",
        risk: str = "empirical",
        records_per_user: int = 1,
        random_state: int | BitSource | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            target_bounds=target_bounds,
            heavy_tailed=heavy_tailed,
            feature_norm=feature_norm,
            feature_bounds=feature_bounds,
            domain=domain,
            schema=schema,
            fit_intercept=fit_intercept,
            algorithm=algorithm,
            constants=constants,
            noise=noise,
            l2=l2,
            coefficient_norm=coefficient_norm,
            tilt=tilt,
            adversarial_radius=adversarial_radius,
            adversarial_norm=adversarial_norm,
            risk=risk,
            records_per_user=records_per_user,
            random_state=random_state,
        )
        self.residual_cap = residual_cap

    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        if self.residual_cap is None:
            return SquaredLoss(reach, prediction_bound=reach)
        cap = _validate.real("residual_cap", self.residual_cap, above=0.0) / width
        if self.heavy_tailed is not None:
            what = "must be left out with heavy_tailed, which cuts residuals by their moments"
            raise InvalidParameterError("residual_cap", self.residual_cap, what)
        if cap >= 2 * reach:  # no residual is longer
            return SquaredLoss(reach, prediction_bound=reach)
        return HuberLoss(max(cap, 1 / LARGEST), target_bound=reach, of_mean=True)

    def _surrogates(self, problem: LinearModelProblem) -> tuple[LinearModelLoss, ...]:
        """Return the loss with capped residuals, where the caller leaves the cap open."""
        if not (self.residual_cap is None and self.heavy_tailed is None) or self.algorithm == "sufficient_statistics":
            return ()
        return tuple(HuberLoss(cap, self._reach(), of_mean=True) for cap in CAPS)
