"""`PrivateLogisticRegression`: binary and multiclass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, cast, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms.select import SMALLEST
from dpconvex.data import Schema
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators.classifier import ProbabilisticClassifier
from dpconvex.losses import LinearModelLoss, LogisticLoss, SoftmaxLoss
from dpconvex.problems import DataDomain
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import BitSource

CAPS = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Largest slopes that are tried beside 1. Smaller ones lost on Adult at every budget and 500 to 36,186 records."""

PROBABILITIES = ("calibrated", "sigmoid")


@final
class PrivateLogisticRegression(ProbabilisticClassifier):
    """Logistic regression under differential privacy, binary and multiclass.

    Guarantee: for any two data sets of the same size that differ in one record, the law of everything that `fit`
    learns from data (``coef_``, ``intercept_``) satisfies (epsilon, delta)-differential privacy; with ``delta=0``,
    pure epsilon-DP. ``certificate_`` states and prices it. Nothing else depends on the data: no exception, no
    warning, no iteration count.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one `fit`, positive. Two fits on the same data cost the sum.
    delta : float, default=0.0
        In [0, 1/2). With ``delta > 0`` Gaussian noise is considered too.
    feature_norm : float, optional
        Public bound on the Euclidean length of a row. Longer rows are shortened to it.
    feature_bounds : (lower, upper), optional
        Public bounds on every column, numbers or arrays of shape (n_features,). Values are clipped and the columns
        scaled to [-1/2, 1/2] inside; ``coef_`` is in the original units.
    domain : DataDomain, optional
        Any product of bounded blocks.
    schema : Schema, optional
        Columns, ranges, categories and classes of a table. `fit` then takes data frames (pandas, polars, pyarrow).
        Exactly one of these four must be given, from public knowledge.
    classes : array of labels, "infer" or None, default=None
        The labels, in order, the negative one first. None: the schema's classes, or False and True for Boolean labels;
        labels of another type are refused. A label that is not listed counts as the first, silently, for an error
        would tell what a record holds; classes that the labels' *type* rules out are refused. ``"infer"`` reads the
        labels off `y`: *which labels occur* is then public and outside the guarantee, and the certificate says so.
    fit_intercept : bool, default=True
        Append a constant feature, inside the bounds and regularised like the rest.
    algorithm : str, default="auto"
        ``"auto"`` takes the smallest predicted error, from public facts. Or a name: ``"objective_perturbation"``,
        ``"output_perturbation"``, ``"exponential_mechanism"`` (one or two parameters), ``"noisy_gradient"``,
        ``"recentring"`` (numeric columns), ``"random_projection"`` (`feature_norm`, or a domain with another l2 block,
        of 8 columns or more); to protect users also ``"phased_sgd"`` and ``"accelerated_user"``.
    constants : {"calibrated", "paper"}, default="calibrated"
        Tight numbers, or the theorems' (output perturbation only). Both are certified.
    noise : str, default="auto"
        Kind of noise; ``"auto"`` considers all that apply.
    l2 : float, optional
        Strength of the penalty ``l2/2 ||w||^2`` on the mean loss. Default: chosen from public facts. A value tuned
        on the private data is not private.
    coefficient_norm : float, optional
        Norm of the coefficients (in encoded units) that the model should be able to reach; steers regularisation,
        never privacy. Default: about two logits a column.
    tilt : float, default=0.0
        Positive: minimise ``1/tilt log(mean exp(tilt loss))`` instead of the mean loss, which weighs hard records
        (small classes, say) more. Output perturbation only. The noise grows like ``exp(tilt * range of the loss)``, so
        stay well below ``log(epsilon n / d)`` over that range; see the plan. Negative tilts are not convex: refused.
    adversarial_radius : float, default=0.0
        Positive: minimise the mean of every record's largest loss while an adversary moves its features by up to this
        length, in encoded units (a numeric column is 1 wide; the intercept's constant cannot be moved). Two classes and
        output perturbation only. The bound on the loss counts the attack; the cost in privacy is the same.
    adversarial_norm : {"l2", "linf"}, default="l2"
        How the adversary's move is measured: its Euclidean length, or its largest entry.
    slope_cap : float, optional
        Two classes: largest slope A of the loss, in (0, 1]. Where the slope reaches A, at the margin
        ``log((1 - A)/A)``, the loss goes on along its tangent: a badly misclassified record pulls with A, not with 1,
        and A times the noise hides it. The price is a bias of large log-odds. 1: the logistic loss. Default: the cap of
        the smallest expected error, from public facts; 1 for users, a tilt, an adversary, paper constants, or the
        population's risk. More than two classes have no cap.
    probabilities : {"calibrated", "sigmoid"}, default="calibrated"
        How `predict_proba` reads a score z when the fitted loss has a slope cap ``A < 1``. ``"calibrated"``: the
        log-odds at which z has the smallest expected capped loss: z itself for ``|z| <= log(A/(1 - A))``, then
        ``z -+ log(1/A)``. ``"sigmoid"``: z, which understates small classes but for what noise adds. Labels and the
        order of records are the same, so it may be changed on a fitted model, but not saved with it; without a cap
        both are one.
    rates : list of float, optional
        Public shares of the classes, in their order, adding up to 1; never counted in the private data. The model then
        starts from them: coefficients 0 predict them. They also set the yardstick of `HopelessPlanWarning`, and the
        expected error. Default: the schema's, if it has them. Needs declared classes.
    risk : {"empirical", "population"}, default="empirical"
        Excess of what the plan keeps small: of the mean loss on these records, or of the expected loss on new records
        from the same distribution (records must then be independent draws). Population: a little more regularisation
        and a larger bound, output perturbation only. Privacy holds either way.
    records_per_user : int, default=1
        For `fit` with ``groups``: how many records a typical user is known or guessed to have, a public number. Methods
        that gain from many records per user plan with it, and one-pass methods draw at most so many of a user. Privacy
        never rests on it. All users count the same, whatever they have.
    random_state : None, int or BitSource, default=None
        None: the operating system's generator. A seed makes the result *not private* (the certificate says so); it
        is for tests and benchmarks.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Released coefficients.
    intercept_ : array of shape (1,) or (n_classes,)
        Released intercepts.
    classes_ : array of shape (n_classes,)
        Labels.
    certificate_ : PrivacyCertificate
        What the fit costs and why.
    plan_ : Plan
        The public constants that were used.
    slope_cap_ : float
        Largest slope of the fitted loss: what was asked for or planned; 1 without a cap.
    status_ : str
        ``"ok"``, or which released test ended the run early (methods made for users only).
    n_features_in_ : int
        Columns seen by `fit`.

    Notes
    -----
    `score` on the training data is not private. Labels, bounds and categories must not be chosen by looking at the
    data. Content never raises: NaN counts as the middle of the range, infinities as the nearest bound.

    References
    ----------
    Lowy and Razaviyayn, "Output Perturbation for Differentially Private Convex Optimization"; Chaudhuri, Monteleoni
    and Sarwate (2011); Awan and Slavkovic (2020); Redberg, Koskela and Wang (2023). Proofs: "Algorithms" in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = PrivateLogisticRegression(epsilon=1.0, feature_bounds=(-1, 1), classes=["no", "yes"]).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> model.certificate_.spent_epsilon <= 1.0
    True
    """

    kind: ClassVar[str] = "logistic"
    effect: ClassVar[str] = "log-odds"
    slope_cap_: float

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
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
        slope_cap: float | None = None,
        probabilities: str = "calibrated",
        rates: Any = None,
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
        self.slope_cap = slope_cap
        self.probabilities = probabilities
        self.rates = rates

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of every class, (n, n_classes), in the order of ``classes_``."""
        from scipy.special import expit, softmax

        logits = self._log_odds(X)
        if logits.ndim == 2:
            return softmax(logits, axis=1)
        if len(self.classes_) == 1:
            return np.ones((len(logits), 1))
        return np.column_stack([expit(-logits), expit(logits)])

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of `predict_proba`."""
        from scipy.special import log_expit, log_softmax

        logits = self._log_odds(X)
        if logits.ndim == 2:
            return log_softmax(logits, axis=1)
        if len(self.classes_) == 1:
            return np.zeros((len(logits), 1))
        return np.column_stack([log_expit(-logits), log_expit(logits)])

    def _log_odds(self, X: Any) -> FloatArray:
        """Return the log-odds of the second class, (n,), or the scores of all classes, (n, n_classes)."""
        scores = self.decision_function(X)
        link = _validate.choice("probabilities", self.probabilities, PROBABILITIES)
        return scores if link == "sigmoid" or scores.ndim == 2 else LogisticLoss(self.slope_cap_).log_odds(scores)

    def _learnt(self) -> None:
        self.slope_cap_ = self.plan_.problem.loss.facts.get("slope_cap", 1.0)

    def _loss(self, n_classes: int) -> LinearModelLoss:
        cap = 1.0 if self.slope_cap is None else self.slope_cap
        _validate.real("slope_cap", cap, at_least=SMALLEST, at_most=1.0)
        _validate.choice("probabilities", self.probabilities, PROBABILITIES)
        rates = self._rates(n_classes)
        if n_classes == 2:
            return LogisticLoss(cap, None if rates is None else rates[1])
        if cap != 1:
            raise InvalidParameterError("slope_cap", self.slope_cap, "is for two classes", "Leave it out")
        return SoftmaxLoss(n_classes, rates)

    def _rates(self, n_classes: int) -> tuple[float, ...] | None:
        """Return the public shares of the classes: the caller's, or the schema's where the classes are."""
        if self.rates is not None:
            if self._given_classes() is None and not self._schema_classes():
                what, remedy = "needs declared classes, whose order it has", "List classes, or give a schema with them"
                raise InvalidParameterError("rates", self.rates, what, remedy)
            return _validate.shares("rates", self.rates, n_classes)
        target = None if self.schema is None else self.schema.target
        return None if target is None or not self._schema_classes() else target.rates

    def _surrogates(self, problem: LinearModelProblem) -> tuple[LinearModelLoss, ...]:
        """Return the loss with capped slopes, where the caller leaves the cap open; for two classes."""
        if self.slope_cap is not None or problem.loss.n_outputs > 1:
            return ()
        return tuple(replace(cast(LogisticLoss, problem.loss), cap=cap) for cap in CAPS)
