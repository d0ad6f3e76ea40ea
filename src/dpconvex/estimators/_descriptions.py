"""Descriptions that several estimators share in their docstrings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import TypeVar, dataclass_transform, final

T = TypeVar("T")
RELEASED = """
certificate_ : PrivacyCertificate
    What the fit costs, and why; `verify` checks it.
plan_ : Plan
    The plan that ran: every constant, from public facts.
n_features_in_ : int
    Number of columns seen by `fit`.
"""
SEED = """
random_state : None, int or BitSource
    None draws noise from the operating system. A seed is for tests only: the result is then *not private*, and the
    certificate says so.
verbose : bool, default=False
    Show a bar of planned and done releases if a fit takes long, in a terminal or notebook.
"""
LINEAR = """
coef_ : array of shape (1, n_features)
    Released coefficients.
intercept_ : array of shape (1,)
    Released intercept.
classes_ : array of shape (2,)
    Labels.
"""
REGRESSOR = {
    "guarantee": """
Guarantee: as `PrivateLogisticRegression`: everything that `fit` learns from data is (epsilon, delta)-differentially
private for neighbors that replace one record, pure with ``delta=0``, and nothing else depends on the data.
""",
    "parameters": """
target_bounds : (lower, upper), optional
    Public range of the target, in its unit. Targets are clipped into it, and so are predictions; NaN counts as its
    middle. Default: the schema's. ``"private"``: the fit finds a range privately. With ``algorithm="auto"`` a fit looks
    for the part of a declared range that matters, where that is expected to gain (docs, Private ranges).
epsilon, delta, feature_norm, feature_bounds, domain, schema : optional
    As in `PrivateLogisticRegression`. Exactly one of the four descriptions of the features must be given.
fit_intercept : bool, default=True
    Append a constant feature; it is inside the bounds and regularized too, usually less than a column. False: a record
    whose encoded features are all 0 is predicted as the middle of the target bounds.
algorithm, constants, noise, l2, random_state, verbose : optional
    As in `PrivateLogisticRegression`. The penalty is on coefficients in units of the target's range.
coefficient_norm : float, optional
    Norm of the coefficients (of encoded features, in units of the target's range) that the model should be able to
    reach, positive; it steers regularization, never privacy. Default: about a third of the range for each column.
weight_cap, tilt, risk, solver, user_test, user_smoothing, most_rows, records_per_user, neighbors, rows : optional
    As in `PrivateLogisticRegression`; a tilt is in the inverse unit of the loss, for a range of width 1. Weights need a
    declared range of the target, and no `heavy_tailed`.
heavy_tailed : "auto", float or (float, float), optional
    For targets (claims, delays, spending) or features without a known largest value. ``"auto"``: no moment is known; a
    level for gradients is found privately, with a proof, and refused if there are too few records for it. An order k >=
    2: the same, without the proof for few records. ``(k, G_k)``: the k-th moment of the gradients is at most ``G_k^k``,
    for a target scaled to width 1. `target_bounds` then bounds predictions and sets the unit; targets are *not* clipped
    into it, only to a million times its width. `algorithm` is ``"auto"``, ``"clipped_residuals"`` (ordinary methods; no
    noise depends on the largest target), ``"heavy_tailed"`` (localized output perturbation, pure; no noise depends on
    the largest record), ``"clipped_gradient"`` or, for two parameters, ``"localized_exponential_mechanism"`` or
    ``"gradient_score"``; no `l2`, `noise`, tilt or adversary. Docs: "Heavy tails in practice".
failure : float, optional
    In (0, 1/2), with `heavy_tailed`: the bound on the risk holds except with this probability, by repetitions on parts
    of the records, which cost accuracy. Default: it holds in expectation.
surrogate : str, default="truncated"
    With ``algorithm="heavy_tailed"``: what replaces the loss of a steep record. ``"truncated"``: its slope is cut.
    ``"extension"``: its Lipschitz extension over the set of coefficients, as in the paper; slower. ``"structured"``
    (piecewise linear losses), ``"joint"``, ``"fixed_steps"`` and ``"printed_steps"`` are the paper's own ways to the
    same minimizer, the last three for some dozens to hundreds of records.
constraint : (lower, upper) or a set of `dpconvex.sets`, optional
    With `heavy_tailed`: which coefficients are allowed, for encoded features and targets scaled to width 1: an interval
    for each, or a bounded set of vectors, the constant's entry last. Default: the ball of `coefficient_norm`.
""",
    "attributes": """
coef_ : array of shape (n_features,)
    Released coefficients, in the target's unit per unit of the feature (per encoded column with a schema).
intercept_ : float
    Released intercept, in the target's unit.
{released}
""",
    "released": RELEASED,  # after what holds its name
}  #: Of all regressors


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def final_estimator(**texts: str) -> Callable[[type[T]], type[T]]:
    """Make a class a final dataclass, with shared texts in its docstring, for ``{name}``; ``{class}`` is its name."""

    def filled(cls: type[T]) -> type[T]:
        cls.__doc__ = cleandoc(str(cls.__doc__))
        for name, text in texts.items():
            cls.__doc__ = cls.__doc__.replace(f"{{{name}}}", text.strip("\n").replace("{class}", cls.__name__))
        return final(dataclass(eq=False, repr=False)(cls))

    return filled
