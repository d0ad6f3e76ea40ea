"""Options that several commands share. Values are checked by the library, whose messages name what is allowed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpconvex
from dpconvex import _validate
from dpconvex.errors import InvalidParameterError, SchemaError

if TYPE_CHECKING:
    from dpconvex.estimators import PrivateLinearModel

Epsilon = Annotated[float, typer.Option(help="Privacy budget, positive; smaller is more private. Usual: 0.1 to 10.")]
Delta = Annotated[float, typer.Option(help="In [0, 1/2), far below 1 / records; 0 is pure differential privacy.")]
SmallDelta = Annotated[float, typer.Option(help="In [0, 1/2), far below 1 / records. 0, fit's default: pure privacy.")]
Model = Annotated[str | None, typer.Option(
    help="logistic, svc, linear, huber, quantile or additive (a curve for each column). Default: logistic, or linear "
    "if the schema's target is a number."
)]  # fmt: skip
Listed = Annotated[str, typer.Option(help="auto, or a name that the plan lists.")]
PrivateTable = Annotated[
    Path | None, typer.Argument(help="CSV or Parquet file with the private records; folder, pattern. Or give --rows.")
]
SchemaFile = Annotated[Path, typer.Option("--schema", help="Schema file (TOML); see `dpconvex schema`.")]
Target = Annotated[str | None, typer.Option(help="Column to predict. Default: the schema's.")]
Inference = Annotated[bool, typer.Option("--inference", help="Intervals, too: logistic, linear, huber, additive.")]
Declared = Annotated[int | None, typer.Option(
    help="With --neighbors add_or_remove_one: a public guess of how many records, or users, there are."
)]  # fmt: skip
Rows = Annotated[int | None, typer.Option(help="Show plans for this number of records; read no data.")]
Users = Annotated[int | None, typer.Option(help="Number of users, instead of --rows: protects all rows of a user.")]
Neighbors = Annotated[str, typer.Option(
    help="replace_one; or add_or_remove_one: the number of records is private, too, and --rows is a public guess."
)]  # fmt: skip
Seed = Annotated[int | None, typer.Option(help="Seed of the noise: NOT PRIVATE, for tests only.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Budget = Annotated[Path | None, typer.Option(
    help="Budget file of this data set. The run pays from it, or is refused, before data are read."
)]  # fmt: skip
Purpose = Annotated[str, typer.Option(help="What the model is for, in words, for the report.")]
Test = Annotated[Path | None, typer.Option(help="PUBLIC test file: its metrics are not private.", show_default=False)]
Engine = Annotated[str | None, typer.Option(
    help="memory, local (read portion by portion), dask or ray. Default: memory for a file, local for a folder or a "
    "pattern of Parquet files."
)]  # fmt: skip
Address = Annotated[str | None, typer.Option(help="Address of the scheduler of dask or ray. Default: a local one.")]
Memory = Annotated[str | None, typer.Option(help="Memory for the portions of --engine local, as in 512MiB.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing model folder.")]
ForceOwn = Annotated[bool, typer.Option("--force", help="Replace an existing folder of this command.")]
UserColumn = Annotated[str | None, typer.Option(
    help="Column that says whose row it is; all rows of a user are protected together. Default: the schema's, if it "
    "names one."
)]  # fmt: skip
GAME_METHODS = "vertex_mirror_descent, bias_reduced_mirror_descent, boosted_mirror_descent"


def constants(methods: str) -> Any:
    """Return the option ``--constants`` of a command some of whose `methods` have the paper's constants."""
    return typer.Option(help=f"calibrated, or the paper's own: paper, for {methods}.")


def _option(of: Any, help: str, **more: Any) -> tuple[Any, Any]:
    """Return an option with this default and its type; if a type is given instead, the default is None."""
    kind, default = (of | None, None) if isinstance(of, type) else (list[str] if isinstance(of, list) else type(of), of)
    return Annotated[kind, typer.Option(help=help, **more)], default


MODEL: dict[str, tuple[Any, Any]] = {
    "model": (Model, None),
    "quantile": _option(float, "Which quantile, with --model quantile. Default: 0.5."),
    "heavy_tailed": _option(str,
        "Regression of heavy-tailed targets, which are not clipped. auto: no moment is known; a level for gradients is "
        "found privately. K: the order, at least 2, of a moment of the gradients; as auto, but without a proof for few "
        "records. K:G: with its bound G, for a target scaled to width 1. Target bounds then bound predictions.",
        metavar="auto|K[:G]"),
    "failure": _option(float,
        "With --heavy-tailed: the bound fails at most with this probability, below 1/2. Default: in expectation."),
    "surrogate": _option(str,
        "With --heavy-tailed: what replaces the loss of a steep record: truncated (default), extension, or, for "
        "few records, structured, joint, fixed_steps or printed_steps."),
    "constraint": _option(str,
        "With --heavy-tailed: interval for every coefficient, in units of the target's range per encoded feature.",
        metavar="LOWER:UPPER"),
    "delta": (Delta, 0.0),
    "ranges": _option("declared",
        "declared: those of the schema. private: the fit finds the ranges of all numeric columns, and of a "
        'numeric target, privately, and ignores the schema\'s. For single columns: range = "private" in the schema.'),
    "algorithm": _option("auto",
        "auto, objective_perturbation, output_perturbation, exponential_mechanism, noisy_gradient, recentering "
        "(numeric columns), joint_bound (columns in [0, 1]), random_projection (plan --features), constant or "
        "sufficient_statistics (linear); for users also informed_gradient, phased_sgd or accelerated_user; with "
        "--heavy-tailed auto, clipped_residuals, heavy_tailed, clipped_gradient or, for two parameters, "
        "localized_exponential_mechanism or gradient_score."),
    "constants": _option(
        "calibrated", "calibrated: tight. paper: the paper's, for output_perturbation, phased_sgd, "
        "sufficient_statistics and heavy_tailed; the others refuse it, and accelerated_user says why it cannot be run.",
    ),
    "noise": _option("auto", "Kind of noise: auto, or a name that `dpconvex plan` lists."),
    "l2": _option(float, "Weight of the ridge penalty. Default: planned. A value tuned on the data is not private."),
    "coefficient_norm": _option(float, "Norm that coefficients should be able to reach. Never affects privacy."),
    "tilt": _option(0.0, "Above 0: large losses weigh more (output perturbation only)."),
    "adversarial_radius": _option(0.0,
        "Above 0: train against features moved by so much, in encoded units (two classes, output perturbation)."),
    "adversarial_norm": _option("l2", "Norm of that move: l2 or linf."),
    "inference": (Inference, False),
    "slope_cap": _option(float,
        "Largest slope of the loss, in (0, 1] (models of classes). Smaller: less noise, more bias."),
    "residual_cap": _option(float,
        "Largest pull of a residual, in units of the target (model linear). Smaller: less noise, more bias "
        "for skewed targets. Default: from public facts; half of the range with --inference."),
    "smoothing": _option(float,
        "Length over which the kink of the loss is rounded: of the margin with --model svc (default 0.5), in "
        "units of the target with quantile (default: 7.5 % of its range, less with many records). 0 keeps the kink."),
    "width": _option(
        float,
        "Residual at which the loss of --model huber turns linear, in units of the target. Default: 20 % of its range.",
    ),
    "risk": _option("empirical", "empirical, or population: bound the loss on new records (output perturbation only)."),
    "solver": _option("auto",
        "Certified method by which output perturbation minimizes: auto, newton_cholesky, lbfgs, accelerated_gradient, "
        "katyusha, subgradient, stochastic_subgradient, dual_coordinate_ascent, ... It affects time, never privacy."),
    "user_test": _option("auto", "Guard of means over users: tested, threshold or clipped (accelerated_user)."),
    "user_smoothing": _option("auto", "Smoothing of a loss with kinks: envelope or randomized (accelerated_user)."),
    "most_rows": _option(int, "PUBLIC cap on a user's distinct rows, for Gaussian noise of objective perturbation."),
    "records_per_user": _option(1,
        "PUBLIC: how many rows a typical user has, known or guessed. Accuracy gains from it, privacy never rests on "
        "it. private: found from the data, for 1 to 3 % of epsilon; declared ranges are then not narrowed.",
        parser=lambda text: text if text == "private" else int(text), metavar="N|private"),
    "neighbors": _option("replace_one",
        "replace_one; or add_or_remove_one: whether somebody is in the data is private, too, and --rows "
        "(of plan: or --users) is a public guess."),
    "knots": _option(int, "Number of knots of every numeric column (additive). Default: from public facts."),
    "interactions": _option([], "Two columns that act together, as age,hours; repeatable (additive).", metavar="A,B"),
    "missing": _option(str, "own (default, but for intervals): missing numbers have a value of their own; or none."),
    "monotone": _option([], "Numeric column whose curve must not fall (age) or rise (-age); repeatable (additive)."),
}  # fmt: skip
"""Options that describe a linear model on the command line: by name, an option and its default."""

OWN = ("quantile", "heavy_tailed", "failure", "surrogate", "constraint")
OWN += ("slope_cap", "residual_cap", "smoothing", "width", "knots", "interactions", "missing", "monotone")
"""Those of the `MODEL` options that only some models have."""

SELDOM = "failure surrogate constraint constants noise l2 coefficient_norm tilt adversarial_radius adversarial_norm"
SELDOM += " slope_cap residual_cap smoothing width risk solver user_test user_smoothing most_rows neighbors"

ADDITIVE = "additive"  #: Name of the additive model, for classes and for numbers.


def describes_model(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options of `MODEL`; they arrive by name as its ``**options``."""
    signature = inspect.signature(command, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [each.replace(kind=kind) for each in signature.parameters.values() if each.name != "options"]
    shared = [inspect.Parameter(name, kind, default=default, annotation=of) for name, (of, default) in MODEL.items()]
    for name in SELDOM.split():
        MODEL[name][0].__metadata__[0].rich_help_panel = "Options that are seldom needed"

    @functools.wraps(command)
    def described(**values: Any) -> None:
        command(**values)

    described.__signature__ = signature.replace(parameters=[*own, *shared])  # pyright: ignore[reportAttributeAccessIssue]
    return described


def build(
    epsilon: float, options: dict[str, Any],
    *, schema: dpconvex.Schema | None, feature_norm: float | None = None, seed: int | None = None,
) -> PrivateLinearModel:  # fmt: skip
    """Return the unfitted estimator that the options of `MODEL` describe."""
    model, kind = model_kind(options["model"], schema)
    given = {name: value for name, value in options.items() if name not in ("model", "ranges", *OWN)}
    given |= {"feature_norm": feature_norm}
    if _validate.choice("ranges", options["ranges"], ("declared", "private")) == "private":
        if schema is None:
            raise InvalidParameterError("ranges", "private", "needs a schema", "Give --schema")
        schema = schema.without_ranges()
    estimator = kind(epsilon, schema=schema, random_state=seed)
    moment, ends, names = options["heavy_tailed"], options["constraint"], options["monotone"]
    own = {
        **{name: options[name] for name in OWN},
        "heavy_tailed": None if moment is None else moment_order(moment),
        "constraint": None if ends is None else interval(ends),
        "interactions": [tuple(pair.split(",")) for pair in options["interactions"]],
        "monotone": {name.removeprefix("-"): "decreasing" if name[:1] == "-" else "increasing" for name in names},
    }
    given |= {name: value for name, value in own.items() if value not in (None, [], {})}
    has = estimator.get_params()
    for name, value in given.items():
        if name not in has and value != (MODEL[name][1] if name in MODEL else None):
            raise InvalidParameterError(name, value, f"does not apply to --model {model}", "Leave it out")
    estimator.set_params(**{name: value for name, value in given.items() if name in has})
    if schema is None and "target_bounds" in has:
        estimator.set_params(target_bounds=(0.0, 1.0))  # plans are made in units of the range: any will do
    return estimator


def model_kind(model: str | None, schema: dpconvex.Schema | None) -> tuple[str, type[PrivateLinearModel]]:
    """Return a model's name, by default that for the schema's target, and its class."""
    from dpconvex.estimators import ADDITIVE_ESTIMATORS, ESTIMATORS, PrivateLinearRegressor

    kinds = {estimator.kind: estimator for estimator in ESTIMATORS}
    target = None if schema is None else schema.target
    numeric = target is not None and target.numeric
    kinds[ADDITIVE] = ADDITIVE_ESTIMATORS[numeric]
    if model is None:
        model = "linear" if numeric else "logistic"
    kind = kinds[_validate.choice("model", model, kinds)]
    if target is not None and issubclass(kind, PrivateLinearRegressor) != numeric:
        what = f"is for {'classes' if numeric else 'numbers'}, and the schema's target is not"
        raise InvalidParameterError(
            "model", model, what, f"Use {'linear, huber, quantile' if numeric else 'logistic, svc'} or additive"
        )
    return model, kind


def planned_rows(table: Path | None, count: int | None, name: str = "rows") -> int:
    """Return the number of records to plan for: ``--rows`` or so without a table, else a number that has no effect."""
    if (table is None) == (count is None):
        what = "must be given where there is no table" if count is None else "is for a plan without data"
        raise InvalidParameterError(name, count, what, f"Give either a table, or --{name} for a plan")
    return 10_000 if count is None else _validate.integer(name, count, at_least=1)


def moment_order(text: str) -> str | float | tuple[float, float]:
    """Return the order ``K`` of a moment, ``(K, G)`` for ``K:G``, or "auto"; the library checks the numbers."""
    if text == "auto":
        return text
    order, colon, bound = text.partition(":")
    try:
        return (float(order), float(bound)) if colon else float(order)
    except ValueError:
        what = "must be auto, K or K:G, such as 2 or 2:6.5"
        raise InvalidParameterError("heavy_tailed", text, what, "K is the order of a bounded moment") from None


def interval(text: str) -> tuple[float, float]:
    """Return the ends of ``LOWER:UPPER``; the library checks them."""
    lower, _, upper = text.partition(":")
    try:
        return float(lower), float(upper)
    except ValueError:
        raise InvalidParameterError("constraint", text, "must be LOWER:UPPER, such as 0:2", "") from None


def fit_schema(path: Path, target: str | None, user: str | None) -> dpconvex.Schema:
    """Read a confirmed schema with a target; `target` and `user`, if given, are other columns than it names."""
    schema = dpconvex.Schema.from_toml(path)
    schema.require_confirmed(str(path))
    if schema.target is None:
        raise SchemaError("the schema declares no target. Add [target] with name and classes, or with lower and upper")
    if target is not None:
        if target in [column.name for column in schema.columns]:
            what = "is a feature of the schema"
            raise InvalidParameterError("target", target, what, "Remove it there, and give [target] what it holds")
        schema = replace(schema, target=replace(schema.target, name=target))  # pyright: ignore[reportArgumentType]
    return with_user(schema, user)


def with_user(schema: dpconvex.Schema, user: str | None) -> dpconvex.Schema:
    """Return the schema with another user column, if one is given, that is none of its other columns."""
    if user is None:
        return schema
    if user in replace(schema, user=None).column_names():
        remedy = "Name the column of user identifiers, and remove it from the schema's other columns"
        raise InvalidParameterError("user_column", user, "is a feature or the target in the schema", remedy)
    return replace(schema, user=user)


def numbers_only(names: Sequence[str], user: str | None = None) -> dpconvex.Schema:
    """Return a schema of numbers, so that no cell decides how a column is read; what is no number becomes null."""
    return dpconvex.Schema(tuple(dpconvex.NumericColumn(name, -1.0, 1.0) for name in names), user=user)
