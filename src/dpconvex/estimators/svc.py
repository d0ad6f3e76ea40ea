"""`PrivateLinearSVC`: the hinge loss, smoothed or not."""

from __future__ import annotations

from typing import Any, ClassVar, final

from dpconvex import _validate
from dpconvex.data import Schema
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._targets import LARGEST
from dpconvex.estimators.classifier import PrivateLinearClassifier
from dpconvex.losses import HingeLoss, LinearModelLoss, SmoothedHingeLoss
from dpconvex.problems import DataDomain
from dpconvex.randomness import BitSource


@final
class PrivateLinearSVC(PrivateLinearClassifier):
    """Linear support vector machine under differential privacy, for two classes.

    The hinge loss with its kink replaced by a parabola, so that objective perturbation applies; the hinge loss itself
    with ``smoothing=0``, by output perturbation alone. For probabilities, use `PrivateLogisticRegression`.

    Guarantee: as `PrivateLogisticRegression`: everything that `fit` learns from data is (epsilon, delta)-differentially
    private for neighbours that replace one record, pure with ``delta=0``, and nothing else depends on the data.

    Parameters
    ----------
    smoothing : float, default=0.5
        Length of the quadratic piece of the loss, in units of the margin; 0: the hinge loss.
    classes : array of two labels, "infer" or None, default=None
        As in `PrivateLogisticRegression`.
    epsilon, delta, feature_norm, feature_bounds, domain, schema, fit_intercept : optional
        As in `PrivateLogisticRegression`. Exactly one of the four descriptions of the features must be given.
    algorithm, constants, noise, l2, coefficient_norm, random_state : optional
        As in `PrivateLogisticRegression`.
    tilt, adversarial_radius, adversarial_norm, risk, records_per_user : optional
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        Released coefficients.
    intercept_ : array of shape (1,)
        Released intercept.
    classes_ : array of shape (2,)
        Labels.
    certificate_ : PrivacyCertificate
        What the fit costs and why.
    plan_ : Plan
        The public constants that were used.
    n_features_in_ : int
        Columns seen by `fit`.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate (2011), section 3.4 (smoothed hinge). Proofs: "Algorithms" in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateLinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLinearSVC(epsilon=1.0, feature_bounds=(-1, 1), classes=[0, 1]).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    kind: ClassVar[str] = "svc"
    effect: ClassVar[str] = "the margin"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        smoothing: float = 0.5,
        feature_norm: float | None = None,
        feature_bounds: Any = None,
        domain: DataDomain | None = None,
        schema: Schema | None = None,
        classes: Any = None,
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
            feature_norm=feature_norm,
            feature_bounds=feature_bounds,
            domain=domain,
            schema=schema,
            classes=classes,
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
        self.smoothing = smoothing

    def _loss(self, n_classes: int) -> LinearModelLoss:
        if n_classes > 2:
            raise InvalidParameterError(
                "n_classes",
                n_classes,
                "Only binary classification is supported. The type of the target is multiclass",
                "Use PrivateLogisticRegression for more than two classes",
            )
        width = _validate.real("smoothing", self.smoothing, at_least=0.0)
        return HingeLoss() if width == 0 else SmoothedHingeLoss(min(max(width, 1 / LARGEST), LARGEST))

    def __sklearn_tags__(self) -> Any:
        """Declare that there are two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
