"""``dpconvex plan``: what a fit would cost and lose, from public facts. Reads no data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex.cli import _options
from dpconvex.cli._console import number, one_line_errors, print_json, print_table, print_text
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms.base import Plan


@one_line_errors
def plan(
    rows: Annotated[int, typer.Option(help="Number of records.")],
    epsilon: _options.Epsilon,
    features: Annotated[int | None, typer.Option(help="Number of columns, if there is no schema.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema file (TOML).")] = None,
    model: Annotated[str, typer.Option(help="logistic.")] = "logistic",
    delta: _options.Delta = 0.0,
    feature_norm: Annotated[
        float | None, typer.Option(help="Bound on a row's Euclidean length, with --features.  [default: 1]")
    ] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes.  [default: the schema's, or 2]")] = None,
    algorithm: _options.Algorithm = "auto",
    constants: _options.Constants = "calibrated",
    noise: _options.Noise = "auto",
    l2: _options.L2 = None,
    coefficient_norm: _options.CoefficientNorm = None,
    as_json: _options.Json = False,
) -> None:
    """List every valid plan with its noise and expected loss. Sees no data."""
    from dpconvex import _validate
    from dpconvex.data import Schema
    from dpconvex.estimators import PrivateLogisticRegression

    _validate.choice("model", model, ("logistic",))
    if (features is None) == (schema is None):
        raise InvalidParameterError("features", features, "either --features or --schema must be given, not both", "")
    if schema is not None and feature_norm is not None:
        raise InvalidParameterError("feature_norm", feature_norm, "cannot be combined with --schema", "Leave one out")
    if classes is not None:
        _validate.integer("classes", classes, at_least=2)
    estimator = PrivateLogisticRegression(
        epsilon,
        delta,
        schema=None if schema is None else Schema.from_toml(schema),
        feature_norm=None if schema is not None else 1.0 if feature_norm is None else feature_norm,
        algorithm=algorithm,
        constants=constants,
        noise=noise,
        l2=l2,
        coefficient_norm=coefficient_norm,
    )
    found = estimator.plan(rows, features, classes)
    if as_json:
        print_json({"rows": rows, "epsilon": epsilon, "delta": delta, "plans": plan_rows(found)})
        return
    print_plans(found)
    print_text(
        f"\nTrivial loss (always answering with equal probabilities): {number(found[0].predicted_error.trivial)}."
    )
    print_text(
        "Excess loss: bound on the expected mean log-loss above the best model's. Above the trivial loss it is "
        "vacuous: it promises nothing about this fit."
    )


def plan_rows(plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """Return JSON-ready facts of plans; the first is the chosen one."""
    import numpy as np

    return [
        {
            "chosen": k == 0,
            "algorithm": plan.algorithm,
            "constants": plan.constants,
            "noise": plan.noise_name,
            "l2": plan.l2,
            "coefficient_sd": float(np.median(plan.coefficient_deviation)),
            "predicted_excess_loss": plan.predicted_error.bound,
            "trivial_loss": plan.predicted_error.trivial,
            "vacuous": plan.predicted_error.vacuous,
            "source": plan.predicted_error.source,
        }
        for k, plan in enumerate(plans)
    ]


def print_plans(plans: Sequence[Plan]) -> None:
    """Print the table of plans, the chosen one first and marked."""
    rows = plan_rows(plans)
    problem, privacy = plans[0].problem, plans[0].privacy
    promise = f"epsilon {privacy.epsilon:g}" + (f", delta {privacy.delta:g}" if privacy.delta else "")
    print_table(
        f"Plans for {problem.n:,} records, {problem.dim} parameters, {promise}",
        ("", "algorithm", "noise", "l2", "noise sd", "excess loss", "note"),
        (
            (
                "*" if row["chosen"] else "",
                row["algorithm"],
                row["noise"],
                number(row["l2"]),
                number(row["coefficient_sd"]),
                number(row["predicted_excess_loss"]),
                "vacuous" if row["vacuous"] else "",
            )
            for row in rows
        ),
        right=(3, 4, 5),
        marked=0,
    )
    print_text("* chosen. noise sd: median over coefficients, approximate for objective perturbation.")
