"""Linear classifiers: their labels, how labels become targets of a loss, and the losses."""

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self, cast, final

import numpy as np
from scipy.special import expit

from dpconvex import _validate
from dpconvex._types import Array, Floats
from dpconvex._validate import LARGEST, SMALLEST
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.search.scores import Score
from dpconvex.data.frames import whole
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import _streams, _targets
from dpconvex.estimators._descriptions import LINEAR, RELEASED, SEED, final_estimator
from dpconvex.estimators._intervals import INFERENCE, WithIntervals
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.losses import HingeLoss, LinearModelLoss, LogisticLoss, SmoothedHingeLoss, SoftmaxLoss
from dpconvex.privacy import Assumption
from dpconvex.problems import DataDomain, LinearModelProblem
from dpconvex.problems.data.sources.cluster import predicted
from dpconvex.problems.linear.expected_risk import ORDINARY
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import source_from

CAPS = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Slope caps that are tried beside 1. On Adult smaller caps were worse at every budget, for 500 to 36,186 records."""
PROBABILITIES = {"tempered": ORDINARY.link, "calibrated": 1.0, "sigmoid": 0.0}
"""Power of the slope cap in the link from scores to probabilities, by option; 1 is right if noise widens no scores."""


@dataclass(eq=False, repr=False)
class PrivateLinearClassifier(_targets.Classifier, PrivateLinearModel):
    """A private linear classifier; its classes are declared, not learned."""

    _: KW_ONLY
    classes: Any = None
    class_weight: Any = None
    classes_: Array = field(init=False)
    _scores: ClassVar[tuple[str, ...]] = ("error_rate",)
    _own_score: ClassVar[str] = "error_rate"
    output_scale: ClassVar[float] = 1.0

    @abstractmethod
    def _loss(self, n_classes: int) -> LinearModelLoss:
        """Return the loss for two or more classes."""

    @final
    def plan(
        self, n: int, n_features: int | None = None, n_classes: int | None = None, *, unit: str | None = None
    ) -> tuple[LinearModelPlan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Parameters are those of `PrivateLinearModel.plan`; `n_classes` are by default those of ``classes`` or the
        schema, else 2.
        """
        features = self._feature_map(n_features)
        loss = self._declared_loss() if n_classes is None else self._loss(n_classes)
        return self._plans(features, n, loss, self._unit(unit))

    def _declared_loss(self) -> LinearModelLoss:
        given = self._given_classes()
        return self._loss(len(given if given is not None else self._schema_classes()) or 2)

    @final
    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        source = source_from(self.random_state)
        if isinstance(self.classes, str) and not self._relation.fixes_size:
            raise InvalidParameterError("classes", self.classes, "is read off labels of private number", "List them")
        opened, weights = _streams.open_rows(self, X, y, groups, sample_weight, apart=True), None
        if opened is None:
            features, encoded = self._encoded(X, reset=True)
            index, classes = self._labels(X, y)
            targets, whose, own = _as_numbers(index, classes), self._groups(X, groups), self._weights(X, sample_weight)
            weights = _targets.times_class(own, index, classes, self.class_weight, self._cap)
        else:
            features, encoded, targets, whose = opened
            classes = self._named_classes() if y is None else self._labels(X, y)[1]  # `open_rows` needs a schema
        self._learn(features, encoded, targets, self._loss(max(len(classes), 2)), source, groups=whose, weights=weights)
        self.classes_ = classes
        if isinstance(self.classes, str):
            read = Assumption("which labels occur is public", "not enforced: read off y, because classes='infer'")
            self.certificate_ = replace(self.certificate_, assumptions=(*self.certificate_.assumptions, read))
        return self._named()

    @final
    def decision_function(self, X: Any) -> Floats:
        """Return the score of the second class, (n,), or the scores of all classes, (n, n_classes)."""
        scores = self._linear(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @final
    def predict(self, X: Any) -> Array:
        if (lazy := predicted(self.predict, X)) is not None:
            return lazy
        scores = self.decision_function(X)
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, len(scores))
        return self.classes_[np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)]

    def _default_radius(self, domain: DataDomain, loss: LinearModelLoss) -> float:
        return default_radius(domain, loss.n_outputs)

    def _given_classes(self) -> Array | None:
        """Return the declared classes, or None where they follow from the schema, the dtype or from `y`."""
        if self.classes is None:
            return None
        if isinstance(self.classes, str):
            _validate.choice("classes", self.classes, ("infer",), "Or give the list of labels")
            return None
        return _targets.checked_classes(self.classes)

    def _schema_classes(self) -> tuple[str, ...]:
        """Return the schema's classes, unless `classes` says otherwise; it may list the same ones in another type."""
        if self.schema is None or self.schema.target is None or isinstance(self.classes, str):
            return ()
        given, texts = self._given_classes(), self.schema.classes
        return texts if given is None or tuple(str(whole(label)).strip() for label in given.tolist()) == texts else ()

    def _named_classes(self) -> Array:
        """Return the classes of a schema that encodes the labels, in the type of `classes` if that lists them."""
        given, texts = self._given_classes(), cast(Any, self.schema).classes
        if given is not None and not self._schema_classes():
            what = f"must list the schema's classes in its order, {list(texts)}"
            raise InvalidParameterError("classes", self.classes, what, "Leave it out, or change the schema")
        return np.asarray(texts) if given is None else given

    def _labels(self, X: Any, y: Any) -> tuple[Array, Array]:
        if self.schema is not None and y is None:
            return self.schema.encode_target(X), self._named_classes()
        if self.schema is not None and self.schema.target is not None and self._schema_classes():
            return self.schema.target.encode(_targets.as_series(y)[0]), self._named_classes()
        classes = self._given_classes()
        if classes is None and self.classes is None:
            return _targets.default_index(self._required(y))
        classes = _targets.inferred_classes(self._required(y)) if classes is None else classes
        return _targets.declared_index(self._required(y), classes), classes

    def _targets_of(self, X: Any, y: Any) -> Array:
        index, classes = self._labels(X, y)
        _targets.times_class(None, index[:0], classes, self.class_weight, None)  # raises for weights of other classes
        return _as_numbers(index, classes)

    def _truth(self, X: Any, y: Any) -> Floats:
        return self._labels(X, y)[0].astype(np.float64)

    def _losses(self, score: Score, X: Any, truth: Floats) -> Floats:
        scores = self.decision_function(X)
        return (truth != (np.argmax(scores, axis=1) if scores.ndim == 2 else scores > 0)).astype(np.float64)


def _as_numbers(index: Array, classes: Array) -> Floats:
    """Return -1 and 1 for two classes, else positions."""
    return 2.0 * index - 1.0 if len(classes) <= 2 else index.astype(np.float64)


class ProbabilisticClassifier(_targets.FromLogits, PrivateLinearClassifier):
    """A private linear classifier that gives probabilities."""

    _scores: ClassVar[tuple[str, ...]] = ("error_rate", "log_loss")

    def _losses(self, score: Score, X: Any, truth: Floats) -> Floats:
        if score.name == "log_loss":
            return -self.predict_log_proba(X)[np.arange(len(truth)), truth.astype(np.intp)]
        return super()._losses(score, X, truth)


@dataclass(eq=False, repr=False)
class LogisticModel(ProbabilisticClassifier):
    """A private classifier by the logistic loss, its slopes capped, or by softmax."""

    effect: ClassVar[str] = "log-odds"
    _: KW_ONLY
    slope_cap: float | None = None
    probabilities: str = "tempered"
    rates: Any = None
    slope_cap_: float = field(init=False)

    @property
    def _link(self) -> LogisticLoss | SoftmaxLoss:
        """The loss whose `log_odds` maps scores to log-odds."""
        how = _validate.choice("probabilities", self.probabilities, PROBABILITIES)
        cap, classes = self.slope_cap_ ** PROBABILITIES[how], len(self.classes_)
        return SoftmaxLoss(classes, cap=cap) if classes > 2 else LogisticLoss(cap)

    def _log_odds(self, X: Any) -> Floats:
        scores = self.decision_function(X)  # which wants a fitted model, as the link does
        return self._link.log_odds(scores)

    def _linked(self, ends: Floats) -> Floats:
        # The width of an interval accounts for noise, so no tempering is needed.
        return expit(LogisticLoss(self.slope_cap_ ** math.ceil(PROBABILITIES[self.probabilities])).log_odds(ends))

    def _learned(self) -> None:
        self.slope_cap_ = self.plan_.problem.loss.facts.get("slope_cap", 1.0)

    def _loss(self, n_classes: int) -> LinearModelLoss:
        cap = _validate.real("slope_cap", 1 if self.slope_cap is None else self.slope_cap, at_least=SMALLEST, at_most=1)
        _validate.choice("probabilities", self.probabilities, PROBABILITIES)
        rates = self._rates(n_classes)
        if n_classes > 2:
            return SoftmaxLoss(n_classes, rates, cap)
        return LogisticLoss(cap, rates[1] if rates else None, saturating=cap < 1)

    def _rates(self, n_classes: int) -> tuple[float, ...] | None:
        """Return the public shares of the classes: the caller's, or the schema's if the classes come from it."""
        if self.rates is not None:
            if self._given_classes() is None and not self._schema_classes():
                what, remedy = "needs declared classes, whose order it has", "List classes, or give a schema with them"
                raise InvalidParameterError("rates", self.rates, what, remedy)
            return _validate.shares("rates", self.rates, n_classes)
        target = None if self.schema is None else self.schema.target
        return None if target is None or not self._schema_classes() else target.rates

    def _surrogates(self, problem: LinearModelProblem) -> tuple[LinearModelLoss, ...]:
        if self.slope_cap is not None:
            return ()
        usual = cast(Any, problem.loss.unweighted)
        if isinstance(usual, SoftmaxLoss):
            return tuple(replace(usual, cap=cap) for cap in CAPS)
        return tuple(replace(usual, cap=cap, saturating=True) for cap in CAPS)


@final_estimator(inference=INFERENCE, released=RELEASED, seed=SEED)
class PrivateLogisticRegression(WithIntervals, LogisticModel):
    """Logistic regression under differential privacy, binary and multiclass.

    Guarantee: everything that `fit` learns from data (``coef_``, ``intercept_``) is (epsilon, delta)-differentially
    private for neighbors that replace one record, pure with ``delta=0``. ``certificate_`` states and prices it.
    Nothing else depends on the data: no exception, no warning, no iteration count.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one `fit`, positive; smaller is more private. Two fits on the same data cost the sum.
    delta : float, default=0.0
        In [0, 1/2), and far below 1/n. 0 is pure differential privacy; above 0 Gaussian noise is considered, too.
    feature_norm : float, optional
        Public bound on the Euclidean length of a row of features. Longer rows are shortened to it. Plans take the rows
        of a sparse matrix for words, which tell less than images (`plan` without data knows a ``domain`` alone of it).
    feature_bounds : (lower, upper), optional
        Public range of every column: two numbers, or two arrays of shape (n_features,). Values are clipped into it.
        ``coef_`` is in the original units. ``"private"``: the fit finds ranges privately.
    domain : DataDomain, optional
        Any product of bounded blocks of columns, for encoded features.
    schema : Schema, optional
        Columns, ranges, categories and classes of a table. `fit` then takes data frames (pandas, polars, pyarrow).
        Exactly one of these four must be given, from public knowledge.
    classes : array of labels, "infer" or None, default=None
        The labels, in order, the negative one first. None: the schema's classes, as texts, or False and True for
        Boolean labels; other labels are refused. With a schema, ``classes=[0, 1]`` makes predictions numbers, as
        metrics of scikit-learn want them where `y` holds numbers. A label that is not listed counts as the first
        without an error, which would tell what a record holds; classes that the labels' *type* rules out are refused.
        ``"infer"`` reads the labels off `y`: *which labels occur* is then public and outside the guarantee, and the
        certificate says so.
    fit_intercept : bool, default=True
        Append a constant feature; it is inside the bounds and regularized too, usually less than a column.
    algorithm : str, default="auto"
        ``"auto"`` takes the plan with the least expected error, by public facts. Or a name:
        ``"objective_perturbation"``, ``"output_perturbation"``, ``"exponential_mechanism"`` (one or two parameters),
        ``"noisy_gradient"``, ``"recentering"`` (numeric columns), ``"joint_bound"`` (16 columns in [0, 1] or more),
        ``"random_projection"`` (`feature_norm`, or a domain with another l2 block, of 8 columns or more),
        ``"constant"`` (uses no column); for users also ``"informed_gradient"``, ``"phased_sgd"`` and
        ``"accelerated_user"``.
    constants : {"calibrated", "paper"}, default="calibrated"
        Tight constants, or the paper's (output perturbation only). Both are private and certified.
    noise : str, default="auto"
        Kind of noise, such as ``"l2"`` or ``"gaussian"``; ``"auto"`` considers all that apply.
    l2 : float, optional
        Weight of the penalty ``l2/2 ||w||^2`` beside the mean loss, positive. Default: chosen from public facts. A
        value tuned on the private data is not private.
    coefficient_norm : float, optional
        Norm of the coefficients (of encoded features) that the model should be able to reach, positive. It steers
        regularization, never privacy. Default: about two logits for each column.
    tilt : float, default=0.0
        At least 0. Above 0 it minimizes ``1/tilt log(mean exp(tilt loss))``, so that hard records (small classes, say)
        weigh more. By output perturbation alone; noise grows like ``exp(tilt * range of the loss)``, so stay well below
        ``log(epsilon n / d)`` over that range; see the plan.
    adversarial_radius : float, default=0.0
        At least 0. Above 0 it minimizes the mean of every record's largest loss while an adversary moves its features
        by up to this length, in encoded units (a numeric column is 1 wide; the constant cannot be moved). Two classes
        and output perturbation only. The bound on the loss includes the attack; the cost in privacy is the same.
    adversarial_norm : {"l2", "linf"}, default="l2"
        Norm in which the adversary's move is measured: its Euclidean length, or its largest entry.
    slope_cap : float, optional
        Largest slope A of the loss in the log-odds of the wrong classes, in (0, 1]. Where the slope reaches A (with two
        classes it leaves the logistic loss's at 3 A/4, and nears A), at a probability of ``1 - A`` for a record's own
        class, the loss goes on along its tangent. So a badly misclassified record pulls with A instead of 1, and A
        times the noise hides it; but large log-odds are biased. 1: the logistic loss, or softmax. Default: the cap of
        the least expected error; 1 for a tilt, an adversary, paper constants, or the population's risk.
    probabilities : {"tempered", "calibrated", "sigmoid"}, default="tempered"
        How `predict_proba` reads a score z if the fitted loss has a slope cap ``A < 1``. ``"calibrated"``: as the
        log-odds at which z has the least expected capped loss: z itself for ``|z| <= log(A/(1 - A))``, then ``z -+
        log(1/A)``; of more classes, softmax probabilities p become ``p max(1, (1 - p)/A)`` over their sum.
        ``"sigmoid"``: as the log-odds z, or as softmax scores, which understates small classes. ``"tempered"``:
        calibrated with ``A**0.75`` for A, between the two. Predicted labels are the same (of two classes the order of
        records, too), so it may be changed on a fitted model, but is not saved with it. Without a cap all three agree.
    rates : list of float, optional
        Public shares of the declared classes, in their order, adding up to 1; never counted in the private data.
        Default: the schema's. Coefficients 0 predict them; they enter the expected error and `HopelessPlanWarning`.
    risk : {"empirical", "population"}, default="empirical"
        What the plan keeps small: the excess of the mean loss on these records, or of the expected loss on new ones.
        ``"population"`` (independent draws, output perturbation only) has a larger penalty and bound, equally private.
    solver : str, default="auto"
        Method by which output perturbation minimizes: a name of `dpconvex.solvers.NAMED_SOLVERS`, such as
        ``"katyusha"``. A method with a step bound for every data set stands behind it, so the choice costs only time.
    user_test : {"auto", "tested", "threshold", "clipped"}, default="auto"
        For ``algorithm="accelerated_user"``: how means over users are protected against outlying users.
    user_smoothing : {"auto", "none", "envelope", "randomized"}, default="auto"
        For ``algorithm="accelerated_user"``: how the kinks of a loss are smoothed.
    most_rows : int, optional
        For users, and Gaussian noise of objective perturbation, whose proof needs it: a public cap m, at least 1. Of a
        user with more than m distinct rows, m random ones stay with all their copies; other methods keep all rows.
        Worth it with many columns (docs, Record or user); 64 costs little. Default: no such noise for users.
    weight_cap : float, optional
        Public bound on sample weights, needed with them; larger ones are clipped. Default: the schema's. Smooth losses.
    class_weight : dict or list, optional
        Public weights of the declared classes, by class or in their order. A record's loss is multiplied by its class's
        weight divided by the largest one. ``"balanced"`` is refused: it would count private labels.
    {inference}
    records_per_user : int or "private", default=1
        For `fit` with ``groups``: how many records a typical user has, at least 1: public knowledge or a guess. Methods
        plan with it, one-pass methods draw at most so many of a user; privacy never rests on it, and all users have
        the same weight. ``"private"``: found from the data for 1 to 3 % of epsilon, released; no looks at ranges then.
    neighbors : {"replace_one", "add_or_remove_one"}, default="replace_one"
        What the promise is about. With ``"add_or_remove_one"`` the number of records (or users) is private, too, and
        noise is for one more or fewer; epsilons of the two do not compare (docs, Replaced, or added and removed). By
        objective perturbation and, for delta > 0, noisy descent, from tables in memory, with all ranges declared.
    rows : int, optional
        A public guess of the number of records, or users, which ``"add_or_remove_one"`` alone needs: sums are divided
        by it, penalties planned for it. Privacy does not rest on it; to be wrong by a factor of five costs little.
    {seed}

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Released coefficients.
    intercept_ : array of shape (1,) or (n_classes,)
        Released intercepts.
    classes_ : array of shape (n_classes,)
        Labels.
    slope_cap_ : float
        Largest slope of the fitted loss: what was asked for or planned; 1 without a cap.
    status_ : str
        ``"ok"``, or which test ended the run early (methods for users only); it was released, so it is private.
    {released}

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
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = PrivateLogisticRegression(epsilon=1.0, feature_bounds=(-1, 1), classes=["no", "yes"]).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> model.certificate_.spent_epsilon <= 1.0
    True
    """

    kind: ClassVar[str] = "logistic"


@final_estimator(released=RELEASED, linear=LINEAR)
class PrivateLinearSVC(PrivateLinearClassifier):
    """Linear support vector machine under differential privacy, for two classes.

    The hinge loss with its kink replaced by a parabola, so that objective perturbation applies; the hinge loss itself
    with ``smoothing=0``, by output perturbation alone. For probabilities, use `PrivateLogisticRegression`.

    Guarantee: as `PrivateLogisticRegression`, for neighbors that replace one record, pure with ``delta=0``.

    Parameters
    ----------
    smoothing : float, default=0.5
        Length of the quadratic piece that replaces the kink, in units of the margin, at least 0; 0 is the hinge loss.
    classes, class_weight, weight_cap : optional
        As in `PrivateLogisticRegression`; weights need a positive `smoothing`.
    epsilon, delta, feature_norm, feature_bounds, domain, schema, fit_intercept : optional
        As in `PrivateLogisticRegression`. Exactly one of the four descriptions of the features must be given.
    algorithm, constants, noise, l2, coefficient_norm, tilt, adversarial_radius, adversarial_norm, risk, solver,
    user_test, user_smoothing, most_rows, records_per_user, neighbors, rows, random_state, verbose : optional
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    {linear}
    {released}

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate (2011), section 3.4 (smoothed hinge). Proofs: "Algorithms" in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateLinearSVC
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLinearSVC(epsilon=1.0, feature_bounds=(-1, 1), classes=[0, 1]).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    """

    kind: ClassVar[str] = "svc"
    effect: ClassVar[str] = "the margin"
    _: KW_ONLY
    smoothing: float = 0.5

    def _loss(self, n_classes: int) -> LinearModelLoss:
        _targets.require_two("n_classes", n_classes, n_classes)
        if (width := _validate.real("smoothing", self.smoothing, at_least=0.0)) == 0:
            return HingeLoss()
        return SmoothedHingeLoss(min(max(width, 1 / LARGEST), LARGEST), saturating=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
