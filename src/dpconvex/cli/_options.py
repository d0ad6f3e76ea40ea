"""Options that several commands share. Values are checked by the library, whose messages name what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpconvex import _validate
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.data import Schema
    from dpconvex.estimators import PrivateLinearModel

Epsilon = Annotated[float, typer.Option(help="Privacy budget, positive. Typical values lie between 0.1 and 10.")]
Delta = Annotated[float, typer.Option(help="In [0, 1/2); 0 is pure differential privacy.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="logistic, svc, linear, huber or quantile. Default: logistic, or linear where the schema's target is "
        "a number."
    ),
]
Quantile = Annotated[float | None, typer.Option(help="Which quantile, with --model quantile. Default: 0.5.")]
HeavyTailed = Annotated[
    str | None,
    typer.Option(
        metavar="K[:G]",
        help="Regression of heavy-tailed targets: the order K >= 2 of a moment of the gradients that is bounded, and "
        "its bound G for a target scaled to width 1; without G it is estimated for a tenth of epsilon, where it is "
        "needed. Target bounds then bound predictions; targets are not clipped into them.",
    ),
]
Algorithm = Annotated[
    str,
    typer.Option(
        help="auto, objective_perturbation, output_perturbation, exponential_mechanism, noisy_gradient, recentring "
        "(numeric columns), random_projection (plan --features) or sufficient_statistics (linear); for users also "
        "phased_sgd or accelerated_user; with --heavy-tailed auto, "
        "clipped_residuals, heavy_tailed or clipped_gradient."
    ),
]
Constants = Annotated[str, typer.Option(help="calibrated, or paper (output perturbation only).")]
Noise = Annotated[str, typer.Option(help="auto, or a name that `dpconvex plan` lists.")]
L2 = Annotated[
    float | None,
    typer.Option(help="Regularisation. Default: from public facts. Tuning it on the private data is not private."),
]
CoefficientNorm = Annotated[
    float | None, typer.Option(help="Norm of coefficients that the model should reach. Never affects privacy.")
]
Tilt = Annotated[float, typer.Option(help="Positive: weigh large losses more (output perturbation only).")]
AdversarialRadius = Annotated[
    float,
    typer.Option(
        help="Train against features moved by up to this, in encoded units (two classes, output perturbation only)."
    ),
]
AdversarialNorm = Annotated[str, typer.Option(help="How such a move is measured: l2 or linf.")]
SlopeCap = Annotated[
    float | None,
    typer.Option(
        help="Largest slope of the logistic loss, in (0, 1]; two classes. Less noise for a slight bias. Default: from "
        "public facts."
    ),
]
ResidualCap = Annotated[
    float | None,
    typer.Option(
        help="Largest residual that counts in full, in units of the target; model linear. Less noise for a bias of "
        "skewed targets. Default: from public facts."
    ),
]
Risk = Annotated[
    str, typer.Option(help="empirical, or population: bound the loss on new records (output perturbation only).")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Budget = Annotated[
    Path | None,
    typer.Option(help="Budget file of this data set: pay from it, or refuse, before data are read. See `budget`."),
]
Purpose = Annotated[str, typer.Option(help="What the model is for, in words: the report says so.")]
Test = Annotated[
    Path | None, typer.Option(help="PUBLIC test file. The printed metrics are not private.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing model folder.")]
UserColumn = Annotated[
    str | None,
    typer.Option(
        help="Column that says whose row it is: protects all rows of a user together. Default: the schema's, if it "
        "names one.",
    ),
]
RecordsPerUser = Annotated[
    int,
    typer.Option(
        help="PUBLIC: how many rows a typical user is known or guessed to have. Accuracy gains from it, privacy never "
        "rests on it."
    ),
]
SchemaFile = Annotated[Path, typer.Option("--schema", help="Schema file (TOML); see `dpconvex schema`.")]


def build(
    model: str | None,
    epsilon: float,
    delta: float,
    *,
    schema: Schema | None,
    feature_norm: float | None = None,
    quantile: float | None,
    heavy_tailed: str | None = None,
    algorithm: str,
    constants: str,
    noise: str,
    l2: float | None,
    coefficient_norm: float | None,
    tilt: float,
    adversarial_radius: float,
    adversarial_norm: str,
    slope_cap: float | None = None,
    residual_cap: float | None = None,
    risk: str,
    records_per_user: int = 1,
    seed: int | None = None,
) -> PrivateLinearModel:
    """Return the unfitted estimator that the options describe."""
    from dpconvex.estimators import ESTIMATORS, PrivateLinearRegressor

    kinds = {estimator.kind: estimator for estimator in ESTIMATORS}
    target = None if schema is None else schema.target
    if model is None:
        model = "linear" if target is not None and target.numeric else "logistic"
    _validate.choice("model", model, kinds)
    estimator = kinds[model](
        epsilon,
        delta,
        schema=schema,
        feature_norm=feature_norm,
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
        random_state=seed,
    )
    if schema is None and isinstance(estimator, PrivateLinearRegressor):
        estimator.target_bounds = (0.0, 1.0)  # plans are made in units of the target's range, so any range will do
    moment = None if heavy_tailed is None else moment_order(heavy_tailed)
    own = {"quantile": quantile, "heavy_tailed": moment, "slope_cap": slope_cap, "residual_cap": residual_cap}
    for name, value in own.items():
        if value is not None:
            if name not in estimator.get_params():
                raise InvalidParameterError(name, value, f"does not apply to --model {model}", "Leave it out")
            estimator.set_params(**{name: value})
    return estimator


def planned_rows(table: Path | None, rows: int | None) -> int:
    """Return how many records to plan for: ``--rows`` where there is no table, or else a number of no consequence."""
    if (table is None) == (rows is None):
        what = "must be given where there is no table" if rows is None else "is for a plan without data"
        raise InvalidParameterError("rows", rows, what, "Give either a table, or --rows for a plan")
    return 10_000 if rows is None else _validate.integer("rows", rows, at_least=1)


def moment_order(text: str) -> float | tuple[float, float]:
    """Return the order ``K`` of a moment, or ``(K, G)`` for ``K:G``; the library checks the numbers."""
    order, colon, bound = text.partition(":")
    try:
        return (float(order), float(bound)) if colon else float(order)
    except ValueError:
        what = "must be K or K:G, such as 2 or 2:6.5"
        raise InvalidParameterError("heavy_tailed", text, what, "K is the order of a bounded moment") from None
