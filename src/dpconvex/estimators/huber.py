"""`PrivateHuberRegressor`: robust regression."""

from __future__ import annotations

from typing import Any, ClassVar, final

from dpconvex import _validate
from dpconvex.data import Schema
from dpconvex.estimators._targets import LARGEST
from dpconvex.estimators.regressor import PrivateLinearRegressor
from dpconvex.losses import LinearModelLoss, PseudoHuberLoss
from dpconvex.problems import DataDomain
from dpconvex.randomness import BitSource

DEFAULT_WIDTH = 0.2
"""Of the pseudo-Huber loss, as a share of the target's range (ours)."""


@final
class PrivateHuberRegressor(PrivateLinearRegressor):
    """Robust regression under differential privacy: the pseudo-Huber loss.

    Squared for small residuals, linear for large ones. Its slope is at most `width`, so noise is smaller than for least
    squares, and its curvature costs nothing in objective perturbation.

    Guarantee: as `PrivateLogisticRegression`: everything that `fit` learns from data is (epsilon, delta)-differentially
    private for neighbours that replace one record, pure with ``delta=0``, and nothing else depends on the data.

    Parameters
    ----------
    width : float, optional
        Residual at which the loss turns linear, in the target's unit. Default: a fifth of the target's range (ours).
    target_bounds : (lower, upper), optional
        Public range of the target, in its unit. Targets are clipped into it and NaN counts as its middle; predictions
        are clipped too. Default: the schema's numeric target.
    epsilon, delta, feature_norm, feature_bounds, domain, schema : optional
        As in `PrivateLogisticRegression`. Exactly one of the four descriptions of the features must be given.
    fit_intercept : bool, default=True
        Append a constant feature, inside the bounds and regularised like the rest. False: predictions start from the
        middle of the target bounds.
    algorithm, constants, noise, l2, random_state : optional
        As in `PrivateLogisticRegression`. The penalty is on coefficients in units of the target's range.
    coefficient_norm : float, optional
        Norm of the coefficients (of encoded features, in units of the target's range) that the model should be able to
        reach; steers regularisation, never privacy. Default: about a third of the range a column.
    tilt, risk, records_per_user : optional
        As in `PrivateLogisticRegression`; a tilt is in the inverse unit of the loss, for a range of width 1.
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
    Awan and Slavkovic (2020). Proofs: "Objective perturbation", Theorem 2, in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateHuberRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 2))
    >>> y = 20 + 5 * X[:, 0] + rng.normal(size=5000)
    >>> model = PrivateHuberRegressor(epsilon=1.0, feature_bounds=(-1, 1), target_bounds=(0, 40))
    >>> model.fit(X, y).score(X, y) > 0.7
    True
    """

    kind: ClassVar[str] = "huber"
    _own_score: ClassVar[str] = "absolute_error"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        width: float | None = None,
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
        self.width = width

    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        share = DEFAULT_WIDTH
        if self.width is not None:
            share = _validate.real("width", self.width, above=0.0) / width
        return PseudoHuberLoss(min(max(share, 1 / LARGEST), LARGEST), target_bound=reach)
