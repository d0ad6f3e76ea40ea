"""`PrivateLinearRegression`: least squares with a ridge penalty."""

from __future__ import annotations

from typing import ClassVar, final

from dpconvex.estimators.regressor import PrivateLinearRegressor
from dpconvex.losses import LinearModelLoss, SquaredLoss


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

    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        return SquaredLoss(reach, prediction_bound=reach)
