"""Intervals and tests of linear models that are fitted with ``inference=True``: everything here is post-processing."""

from collections.abc import Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpconvex import _validate, algorithms
from dpconvex._types import Floats
from dpconvex.algorithms import curvature, recipes
from dpconvex.algorithms.curvature import InferencePlan, inference_of
from dpconvex.algorithms.erm.registry import Found
from dpconvex.algorithms.select import Options
from dpconvex.data.targets import PRIVATE
from dpconvex.errors import InvalidParameterError, NotPaidForError
from dpconvex.estimators._features import FeatureMap, pieces
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.inference.intervals import TUNING, Estimates, Intervals, Summary
from dpconvex.losses import HuberLoss, LinearModelLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.privacy.profiles import limited
from dpconvex.problems import LinearModelProblem

INFERENCE = """
inference : bool, "model" or "robust", default=False
    Also release what intervals are made of: part of epsilon pays for a noisy curvature. `summary`, `conf_int`, `bse_`,
    `pvalues_`, `cov_params` and `predict_interval` then cost nothing more. True means ``"model"`` for logistic
    regression (the scatter of gradients is taken from the curvature), and ``"robust"`` for regressions and with
    ``groups`` (it is released, too). Least squares caps residuals at half of the target's range, unless `residual_cap`
    is given or it joins two whole numbers, as 0 and 1. Looks at declared ranges narrow them before; coefficients are
    then per range found, and ``algorithm="objective_perturbation"`` keeps what is declared. No weights; at most 40
    encoded columns. Docs: "Intervals".
"""
MOST_PLANNING = 12e6  #: Limit of computing, in about microseconds, for planning anew from a certificate.
KINDS = (False, True, "model", "robust")
NOT_OFFERED = [
    "tilt", "adversarial_radius", "constants", "risk", "class_weight", "heavy_tailed", "failure", "constraint",
    "interactions", "monotone",
]  # fmt: skip
UNPROVED = "cannot be given with inference: no interval is proved, or measured, for it"
RESIDUAL_CAP = 0.5  #: Default cap of least squares, in target ranges: few residuals are longer, and noise is halved.
CAPPED = {"slope_cap": 1.0, "residual_cap": 1.0}
MEANING = {
    "logistic": "log-odds of the best logistic approximation, slopes capped at {slope_cap:g}; not assumed to be true",
    "squared": "least squares of clipped targets, extended by tangents for predictions beyond their range",
    "huber": "least squares of clipped targets, residuals capped at {residual_cap:g} of their range (Huber's loss)",
    "pseudo_huber": "minimizer of the pseudo-Huber loss of clipped targets",
}  #: Description of the estimated quantity, by loss.
Reference = Mapping[str, str] | None  #: By column, the level that others are compared with.


@dataclass(eq=False, repr=False)
class WithIntervals(PrivateLinearModel):
    """A linear model that can be fitted for intervals."""

    _: KW_ONLY
    inference: bool | str = False

    def _least_expected(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> Any:
        if self._infers():
            return (self._for_inference(problem, privacy, options),)
        return super()._least_expected(problem, privacy, options)

    def _check(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> PrivacyParams:
        if self._infers():
            return self._for_inference(problem, privacy, options).privacy
        return super()._check(problem, privacy, options)

    def _plans(self, features: FeatureMap, n: int, loss: LinearModelLoss, unit: Unit = Unit.RECORD) -> Found:
        """Return the plans, without looks at ranges where these take the epsilon that a finite interval needs."""
        found = super()._plans(features, n, loss, unit)
        if not self._infers() or not self._may_look or cast(InferencePlan, inference_of(found[0])).hopeful:
            return found
        plain = copy(self)
        plain._looks = False
        alone = super(WithIntervals, plain)._plans(features, n, loss, unit)
        return alone if cast(InferencePlan, inference_of(alone[0])).hopeful else found

    def plans_at(self, epsilon: float) -> Found:
        if not self._infers():
            return super().plans_at(epsilon)
        whole, own = replace(self.plan_.privacy, epsilon=epsilon), cast(InferencePlan, inference_of(self.plan_))
        if own is self.plan_:
            return (own.at(whole),)
        features: Any = self._feature_map(self.n_features_in_)
        features = features.at(knots) if (knots := getattr(self.plan_, "knots", 2)) > 2 else features
        return self._with_ranges(features, (own.at(self._rest(features, whole, own.problem.n)),), whole)

    def _weights(self, X: Any, sample_weight: Any) -> Floats | None:
        if sample_weight is not None and self._infers():
            what = "cannot be given with inference: no interval is proved for weights"
            raise InvalidParameterError("sample_weight", type(sample_weight).__name__, what, "Leave it out")
        return super()._weights(X, sample_weight)

    def _infers(self) -> bool:
        if self.inference not in KINDS or not isinstance(self.inference, bool | str):
            raise InvalidParameterError("inference", self.inference, "must be True, False, 'model' or 'robust'", "")
        return self.inference is not False

    def _for_inference(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> InferencePlan:
        """Return the single plan, or refuse, from public facts, options without proved or measured intervals."""
        given, usual = self.get_params(deep=False), type(self)().get_params(deep=False)
        facts: dict[str, Any] = {"weight_cap": self._cap}
        facts |= {name: given[name] for name in NOT_OFFERED if name in given and given[name] != usual[name]}
        facts |= {} if self.algorithm in ("auto", "objective_perturbation") else {"algorithm": self.algorithm}
        facts |= {"records_per_user": PRIVATE} if self._asks_users else {}
        facts |= {"inference": "model"} if problem.grouped and self.inference == "model" else {}
        facts |= {} if problem.loss.name in {*MEANING, "softmax"} else {"loss": problem.loss.name}
        if self.domain is not None and any(block.norm == "simplex" for block in self.domain.blocks):
            facts["domain"] = "simplex"  # its records need not be levels; those of a schema are
        for name, value in facts.items():
            if value is not None:
                raise InvalidParameterError(name, value, UNPROVED, "Leave it out, or set inference=False")
        if isinstance(problem.loss, SquaredLoss) and given.get("residual_cap") is None and not self._yes_or_no:
            problem = replace(problem, loss=HuberLoss(RESIDUAL_CAP, problem.loss.target_bound, of_mean=True))
        elif getattr(problem.loss, "saturating", False):
            # The estimated quantity is the minimizer of a loss whose slope reaches its cap at once, without saturating.
            problem = replace(problem, loss=replace(cast(Any, problem.loss), saturating=False))
        robust = self.inference == "robust" or (self.inference is True and self._target_range() is not None)
        found = curvature.plan(problem, privacy, robust=robust, l2=options.l2, noise=options.noise)
        open_ended = (each.name for each in getattr(self.schema, "columns", ()) if getattr(each, "other", False))
        return algorithms.continued(found, uncounted=tuple(open_ended))

    @property
    def bse_(self) -> Floats:
        """Standard errors, in the order of `summary`; NaN where they are unknown."""
        return self.summary().found.std_err

    @property
    def pvalues_(self) -> Floats:
        """P-values of coefficients being 0, in the order of `summary`; never below 1 in 10,001."""
        return self.summary().found.p_value

    def summary(self, level: float = 0.95, *, joint: bool = False, reference: Reference = None) -> Summary:
        """Return estimates, standard errors, tests and intervals, as statistics packages print them.

        Parameters
        ----------
        level, joint : float in (0, 1), bool
            Level of the intervals, and whether all finite intervals of that level hold at once.
        reference : dict of str, optional
            By column of three or more levels, the level that others are compared with. Default: of largest curvature.

        Returns
        -------
        Summary
            To print; its `names` are those of the m rows, its `found` has an array of shape (m,) for each column.
        """
        names, rows = self._contrasts(reference)
        (intervals, plan), found = self._known(), self._estimates(rows, level, np.arange(len(rows)) == 0, joint)
        meant = MEANING[plan.problem.loss.name].format(**CAPPED | dict(plan.problem.loss.facts))
        delta = f", delta {plan.privacy.delta:g}" * (not plan.privacy.pure)
        units, share = f"{plan.privacy.unit}s", f"{plan.share:.0%} of it for the curvature"
        per, at = "per unit of a column", "where all columns are 0"
        spent = self.certificate_.target.epsilon - plan.privacy.epsilon
        ends = f" (targets: {bounds.lower:.4g} to {bounds.upper:.4g})" if (bounds := self._target_range()) else ""
        bounded = bool((intervals.spread.shrunk < 1).any())
        if self.schema is not None or plan.layout.categories:  # as vertices of shapes are
            whole = "whole range of a number, declared or found," if spent > 0 else "whole declared range of a number,"
            per = f"over the {whole} and against the level named, or the first of two"
            at = "at the middle of ranges and of two levels, and at levels named"
        notes = (
            f"Coefficients are {per}.",
            f"The intercept is {at}.",
            f"Estimates are corrected for the ridge; coef_, which predicts, is not. {plan.problem.n} {units}, epsilon "
            f"{plan.privacy.epsilon:g}{delta}, {share}.",
            *[f"Ranges (ranges_) were found for epsilon {spent:.2g} more{ends}; what lies beyond counts as an end."]
            * (spent > 0),
            f"Coverage is for many {units} drawn independently; nothing is promised of it for few.",
            *["Standard errors take the model to be nearly true; those of inference='robust' do not."]
            * (not plan.robust),
            *["All users count the same; a user's loss is the mean of its records'."] * plan.problem.grouped,
            *[f"The bound {TUNING.coefficient_bound:g} on what is not resolved was active."] * bounded,
        )
        return Summary(f"{type(self).__name__}: {meant}", names, found, level, notes)

    def conf_int(self, level: float = 0.95, joint: bool = False, *, reference: Reference = None) -> Floats:
        """Return the ends (m, 2) of the intervals of `summary`, with its parameters; infinite if not known."""
        found = self.summary(level, joint=joint, reference=reference).found
        return np.column_stack([found.lower, found.upper])

    def cov_params(self, *, reference: Reference = None) -> Floats:
        """Return the covariance of the estimates of `summary`, (m, m), with its `reference`; NaN where not known."""
        return self.output_scale**2 * self._known()[0].covariance(self._contrasts(reference)[1])

    def predict_interval(self, X: Any, level: float = 0.95) -> Floats:
        """Return bands (n, 2) of the probability of the second class, or of the mean; not of new targets.

        Their ends are in the unit of predictions, and the band of one record covers with the probability `level`. The
        records `X` are not protected: nothing of them is released.
        """
        if len(parts := pieces(self.schema, X)) > 1:
            return np.concatenate([self.predict_interval(part, level) for part in parts])
        features, (_, encoded) = self._fitted_map(), self._encoded(X, reset=False)
        constant = np.full((encoded.shape[0], 1), self._known()[1].problem.domain.intercept)
        rows = features.domain.clip(features.expand(encoded))
        found = self._estimates(np.hstack([rows, constant]), level, np.ones(len(constant)))
        return self._linked(np.column_stack([found.lower, found.upper]))

    def _known(self) -> tuple[Intervals, InferencePlan]:
        """Return intervals and plan, computed once from certificate and coefficients alone."""
        check_is_fitted(self)
        made, recipe = vars(self).get("_made"), self.certificate_.planner
        if made is None or made[0] is not self.certificate_:
            with limited(MOST_PLANNING):  # certificates may come from anywhere
                plan = None if self.inference is False or recipe is None else recipes.again(recipe)
            plan, d = inference_of(plan), self.encoded_coef_.shape[1]
            if plan is None or not plan.noisy or plan.problem.domain.n_features != d:
                what = "is not paid for: standard errors need a noisy curvature. Fit with inference=True"
                raise NotPaidForError(f"inference={self.inference!r}: {what}")
            shift = (float(self.encoded_intercept_[0]) - self._start(plan)) / plan.problem.domain.intercept
            w = np.append(self.encoded_coef_[0], shift) / self.output_scale
            made = vars(self)["_made"] = self.certificate_, Intervals(plan.released(w), plan.draws), plan
        return made[1:]

    def _start(self, plan: InferencePlan) -> float:
        """Return the linear prediction of parameters 0."""
        bounds, offset = self._target_range(), self.output_scale * float(np.sum(plan.problem.loss.offset))
        return offset + (0.0 if bounds is None else bounds.middle)

    def _estimates(self, rows: Floats, level: float, starts: Any, joint: bool = False) -> Estimates:
        """Return estimates in the unit of coefficients; `starts` (m,) says which rows are predictions."""
        _validate.real("level", level, above=0.0, below=1.0)
        (intervals, plan), size = self._known(), self.output_scale
        return intervals.estimates(rows, level, joint, self._start(plan) / size * starts).scaled(size)

    def _contrasts(self, reference: Reference) -> tuple[tuple[str, ...], Floats]:
        """Return names of coefficients and their contrasts (m, d): the intercept, numbers, levels less a reference."""
        intervals, plan = self._known()
        if not isinstance(reference, Mapping | None):
            what = "must be a dict from columns to levels"
            raise InvalidParameterError("reference", reference, what, "For example {'color': 'red'}")
        d, given = plan.problem.domain.n_features, dict(reference or {})
        coef, constant = self._fitted_map().decode(np.eye(d), np.zeros(d))  # linear in the encoded coefficients
        rows, first = np.hstack([coef.T, np.zeros((d, 1))]), np.append(constant, plan.problem.domain.intercept)
        names, left = self._coefficient_names(d), list[int]()
        for name, columns in plan.layout.categories.items():
            levels = [names[k].partition("=")[2] for k in columns]
            asked = given.pop(name, levels[intervals.most_seen(columns)])
            _validate.choice("reference", asked, levels, f"They are the levels of {name}")
            base = columns[levels.index(asked)]
            rows[columns] -= rows[base]
            first[base] += 1.0
            names = [f"{each} (against {asked})" if k in columns else each for k, each in enumerate(names)]
            left.append(base)
        columns = () if self.schema is None else self.schema.columns
        own = {each.name: each.cells(1).labels for each in columns if not each.numeric}
        for name, level in given.items():
            if name in own:  # one of two levels
                _validate.choice("reference", level, own[name], f"They are the levels of {name}")
            raise InvalidParameterError("reference", name, "must name columns of three or more levels", "")
        return ("(intercept)", *np.delete(names, left)), np.vstack([first, np.delete(rows, left, axis=0)])

    def _coefficient_names(self, d: int) -> list[str]:
        names: Any = vars(self).get("feature_names_in_", [f"x{k}" for k in range(d)])
        return [*(names if self.schema is None else self.schema.feature_names)]


def summary_of(model: PrivateLinearModel) -> Summary | None:
    """Return the summary of a fitted model that paid for one."""
    return model.summary() if isinstance(model, WithIntervals) and model.inference is not False else None
