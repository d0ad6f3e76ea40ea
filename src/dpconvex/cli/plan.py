"""``dpconvex plan``: what a fit would cost and lose, from public facts. Reads no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import dpconvex
from dpconvex import _validate
from dpconvex._files import write_atomically
from dpconvex.cli import _options
from dpconvex.cli._output import budget_words, number, one_line_errors, print_json, print_table, print_text, working
from dpconvex.cli.shapes import print_planned
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms import LinearModelPlan, Plan
    from dpconvex.algorithms.erm.heavy_tailed.registry import LeveledPlan
    from dpconvex.algorithms.erm.registry import Found
    from dpconvex.estimators import PrivateLinearModel
    from dpconvex.estimators.advice import Advice, Forecast
    from dpconvex.privacy import PrivacyParams

    Planner = Callable[[PrivateLinearModel, int], Found]


@_options.describes_model
@one_line_errors
def plan(
    epsilon: Annotated[str | None,
        typer.Option(help="Privacy budget, positive; or several: 0.1,1,3.", metavar="NUMBER,...")] = None,
    goal: Annotated[str | None, typer.Option(
        help="Goal of which it prints the epsilon and rows: an excess loss (0.02), or share of a constant's (10%); "
        "evaluate:auc=0.02: which epsilon and rows it needs."
    )] = None,
    picture: Annotated[Path | None,
        typer.Option(help="File (.png, .svg, .pdf) for a picture of what is expected over epsilon.")] = None,
    rows: Annotated[int | None, typer.Option(help="Number of records.")] = None, users: _options.Users = None,
    features: Annotated[int | None, typer.Option(help="Number of columns, if there is no schema.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Schema file (TOML).")] = None,
    feature_norm: Annotated[float | None,
        typer.Option(help="Bound on a row's Euclidean length, with --features. Default: 1.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes. Default: the schema's, or 2.")] = None,
    as_json: _options.Json = False, **options: Any,
) -> None:  # fmt: skip
    """List every valid plan with its noise and expected loss. Sees no data."""
    from dpconvex.estimators._shapes import shape_facts

    if (features is None) == (schema is None):
        raise InvalidParameterError("features", features, "exactly one of --features and --schema must be given", "")
    if schema is not None and feature_norm is not None:
        raise InvalidParameterError("feature_norm", feature_norm, "cannot be combined with --schema", "Leave one out")
    declared = None if schema is None else dpconvex.Schema.from_toml(schema)
    norm = None if schema is not None else 1.0 if feature_norm is None else feature_norm
    epsilons = _epsilons(epsilon, goal)
    estimator = _options.build(epsilons[0] if epsilons else 1.0, options, schema=declared, feature_norm=norm)
    n, unit = _counted(rows, users, estimator)
    planned = partial(_plans, features=features, classes=classes, unit=unit)
    if goal is not None or picture is not None or len(epsilons) > 1:
        with working("Planning for many budgets"):
            asked, found, curve = _advice(estimator, epsilons, goal, planned, n, drawn=picture is not None)
        if picture is not None:
            draw_advice(picture, curve, found[0] if found else None)
        return show_advice(asked, found, f"{n:,} {unit}s", as_json=as_json)
    with working("Planning"):
        found = planned(estimator, n)
        more = scaling(estimator, n, planned) if users else []
    found[0].warn(n)
    shapes = shape_facts(found[0]) if options["model"] == _options.ADDITIVE else []
    if as_json:
        counts = {"rows": rows} if users is None else {"users": users, "records_per_user": options["records_per_user"]}
        named = ("delta", "tilt", "adversarial_radius", "adversarial_norm", "risk")
        named += ("heavy_tailed", "failure", "surrogate", "constraint")
        problem = {**counts, "epsilon": epsilons[0], **{name: options[name] for name in named}}
        extra = {name: rows for name, rows in (("shapes", shapes), ("scaling", more)) if rows}
        return print_json({**problem, "plans": plan_rows(found), **extra})
    print_plans(found)
    if shapes:
        print_planned(shapes)
    if more:
        print_scaling(more)
    zero, scaled = loss_words(found[0])
    alike = found[0].problem.loss.usual.classes.size > 0  # not where shares are public, or do not help
    hint = " A constant loses less where a class is rare: if shares are published, give rates." if alike else ""
    print_text(f"\nTrivial loss ({zero}): {number(found[0].predicted_error.trivial)}.{hint}")
    print_text(
        f"Excess loss: of the {risk_name(found[0])} {loss_name(found[0])} loss over that of the best model whose "
        f"coefficients have at most the planned norm{scaled}, on average over the noise. Above the trivial "
        "loss a bound is vacuous: it promises nothing about this fit."
    )
    public = found[0].public
    if public.get("repetition_price"):
        print_text(
            f"The bound holds with probability 1 - {public['failure_probability']:g}, by "
            f"{public['phases'][0]['repetitions']} repetitions a phase: it is {number(public['repetition_price'])} "
            "times the one in expectation, without them."
        )
    if "private_level" in found[0].public:
        _print_level(cast("LeveledPlan", found[0]))


def _epsilons(text: str | None, goal: str | None) -> list[float]:
    """Return the epsilons that are asked for; none is needed beside a goal."""
    asked = [each for each in (text or "").split(",") if each.strip()]
    if not asked and goal is None:
        raise InvalidParameterError("epsilon", text, "must be given", "Give --epsilon, or a --goal to be told which")
    try:
        return [_validate.real("epsilon", float(each), above=0.0) for each in asked]
    except ValueError:
        what = "must be a positive number, or several with commas between them, as 0.1,1,3"
        raise InvalidParameterError("epsilon", text, what) from None


def _advice(
    estimator: PrivateLinearModel, epsilons: Sequence[float], goal: str | None, plans: Planner, n: int, *, drawn: bool
) -> tuple[list[Forecast], list[Advice], Sequence[Forecast]]:
    """Return the forecasts at the epsilons, the advice for the goal, and a curve over epsilon if it is `drawn`."""
    from dpconvex.estimators import advice

    def planned(one: PrivateLinearModel) -> tuple[LinearModelPlan, ...]:
        return plans(one, n)

    measure = "excess" if goal is None else advice.measure_of(goal)
    asked = advice.forecasts(estimator, planned, sorted(epsilons), measure)
    if goal is None:
        many = drawn and len(asked) == 1
        return asked, [], advice.forecasts(estimator, planned, advice.EPSILONS) if many else asked
    found = [advice.advise(estimator, goal, planned)]
    if len(epsilons) == 1:
        found.append(advice.advise_rows(goal, lambda count: plans(estimator, count)))
    return asked, found, found[0].curve


def show_advice(asked: Sequence[Forecast], found: Sequence[Advice], counted: str, *, as_json: bool) -> None:
    """Print what is expected at some epsilons, and which epsilon and number of records a goal needs."""
    if as_json:
        facts = ("measure", "goal", "low", "typical", "high")
        needed = {each.wanted: {k: getattr(each, k) for k in facts} for each in found}
        return print_json({"counted": counted, "expected": [vars(each) for each in asked], "needed": needed})
    if asked:
        title = f"To expect with {counted}: {found[0].limits if found else 'an excess loss'}"
        numbers = ((number(e.typical), f"{number(e.low)}-{number(e.high)}", number(e.constant)) for e in asked)
        rows = [(f"{e.at:g}", *own, e.algorithm) for e, own in zip(asked, numbers, strict=True)]
        print_table(title, ("epsilon", "typical", "range", "a constant", "algorithm"), rows, right=range(1, 4))
    for each in found:
        where = f"with {counted}" if each.wanted == "epsilon" else f"at epsilon {asked[0].at:g}"
        print_text(f"Needed {where}: {each}.")
    print_text(
        "These are guesses from public facts: ranges hold nine of ten measured values on public tables that had no "
        "part in making them. No data were read."
    )


def draw_advice(path: Path, curve: Sequence[Forecast], advice: Advice | None) -> None:
    """Write a picture of what is expected over epsilon, atomically."""
    _validate.installed("matplotlib")
    from matplotlib.figure import Figure

    _validate.choice("picture", path.suffix, (".png", ".svg", ".pdf"))
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    at = [each.at for each in curve]
    low, high = [each.low for each in curve], [each.high for each in curve]
    axes.fill_between(at, low, high, alpha=0.2, color="#0072b2", label="nine of ten tables")
    axes.plot(at, [e.typical for e in curve], color="#0072b2", label="typical")
    if math.isfinite(curve[0].constant):
        axes.plot(at, [e.constant for e in curve], ":", color="#555555", label="a constant answer, about")
    if advice is not None:
        axes.axhline(advice.goal, color="#d55e00", label="goal")
    what = "an excess loss" if advice is None else advice.limits
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel=f"{what}, to expect: a guess")
    axes.legend(fontsize=8)
    write_atomically(path, lambda file: figure.savefig(file, format=path.suffix[1:]))


LOSS_WORDS = {
    "classification": ("always treating all classes alike", ""),
    "regression": ("always predicting the middle of the range", ", for a target scaled to a range of width 1"),
}  #: By task of the loss: the answer of the zero vector, and the unit, as the end of a sentence.


def loss_words(plan: LinearModelPlan) -> tuple[str, str]:
    """Return `LOSS_WORDS` of a plan; public rates are the answer of the zero vector."""
    zero, scaled = LOSS_WORDS[plan.problem.loss.task]
    return "always predicting the public rates" if plan.problem.loss.told else zero, scaled


def loss_name(plan: LinearModelPlan) -> str:
    """Return the name of a plan's loss, for people."""
    return plan.problem.loss.name.replace("_", " ")


def risk_name(plan: LinearModelPlan) -> str:
    """Return which risk of the loss a plan bounds, for people."""
    if plan.problem.tilt:
        return "tilted"
    return "population" if plan.public.get("target") == "population" else "mean"


def variations(plan: Any) -> list[tuple[str, str]]:
    """Return in what a plan's objective differs from the mean loss on the records: names and values, for people."""
    public, problem = plan.public, plan.problem
    found = [("tilt", number(problem.tilt))] if getattr(problem, "tilt", 0.0) else []
    if getattr(problem, "records_per_user", None) is not None:
        how = "found" if public.get("typical_user", {}).get("found") else "not yet; declared ranges are not narrowed"
        how = how if "typical_user" in public else "a guess"
        found.append(("records per user", f"{plan.problem.records_per_user:,} ({how})"))
        found.append(("weight of every user", f"1/{plan.problem.n:,}"))
    if public.get("attack_radius"):
        found.append(("adversarial radius", f"{number(public['attack_radius'])} ({public['attack_norm']})"))
    found += [(key.replace("_", " "), number(public[key])) for key in ("slope_cap", "residual_cap") if key in public]
    if "target" in public:
        found.append(("risk", str(public["target"])))
    if "private_level" in public:
        level = public["private_level"].get("level")
        found.append(("level", "to be found" if level is None else f"found {number(level)}"))
    if "private_ranges" in public:
        found.append(("ranges", f"found privately, for epsilon {number(public['private_ranges']['epsilon'])}"))
    if "target_range" in public:
        look = number(public["target_range"]["epsilon"])
        found.append(("target's range", f"narrowed privately, for epsilon {look}"))
    if "column_ranges" in public:
        looks, count = number(public["column_ranges"]["epsilon"]), len(public["column_ranges"]["columns"])
        found.append((f"ranges of {count} column{'s' * (count > 1)}", f"narrowed privately, for epsilon {looks}"))
    if "joint_bound" in public:
        joint = public["joint_bound"]
        told = "to be bounded" if joint["bound"] is None else f"at most {number(joint['bound'])}, found privately"
        found.append((f"sum of {joint['columns']} columns", told))
    if "moment_order" in public:
        found.append(("moment", f"of order {public['moment_order']:g}, declared {number(public['moment_bounds'][0])}"))
    found += [(name, str(public[name])) for name in ("surrogate", "constraint") if name in public]
    return found


def _print_level(plan: LeveledPlan) -> None:
    """Say that the level is not known yet, and what the error is under which moments."""
    from dpconvex.algorithms.erm.heavy_tailed import Moments

    bounds = {k: plan.error(plan.scale.worst(Moments(k, 1.0)), Moments(k, 1.0)) for k in (2.0, 4.0)}
    facts = plan.public["private_level"]
    known = "There are too few records to prove anything of the level: bounds are estimates."
    if facts["proved"]:
        known = f"The excess loss is at most {number(bounds[2.0])} if their second moment is at most 1, "
        known += f"{number(bounds[4.0])} if the fourth is, and in proportion to its root."
    print_text(
        f"No moment is assumed: the fit spends epsilon {number(plan.scale.epsilon)} on {facts['records']:,} records to "
        f"find a level for gradients. What stands above is for the largest that the domain admits. {known}"
    )


def _counted(rows: int | None, users: int | None, estimator: PrivateLinearModel) -> tuple[int, str]:
    """Return the number of rows or users, and its noun."""
    if users is not None:
        if rows is not None:
            raise InvalidParameterError("rows", rows, "cannot be combined with --users", "Leave one out")
        return _validate.integer("users", users, at_least=1), "user"
    named = None if estimator.schema is None else estimator.schema.user
    if named is not None:
        what = f"must be the number of users: the schema names a user column, {named!r}, so fits protect users"
        raise InvalidParameterError("users", users, what, "Give --users in the place of --rows")
    if rows is None:
        raise InvalidParameterError("rows", rows, "must be given", "Give --rows, or --users to protect whole users")
    if estimator.records_per_user != 1:
        remedy = "Give --users in the place of --rows, or leave it out"
        raise InvalidParameterError("records_per_user", estimator.records_per_user, "is for users", remedy)
    return _validate.integer("rows", rows, at_least=1), "record"


def _plans(estimator: PrivateLinearModel, n: int, features: int | None, classes: int | None, unit: str) -> Found:
    from dpconvex.estimators import PrivateLinearClassifier

    if classes is None:
        return estimator.plan(n, features, unit=unit)
    _validate.integer("classes", classes, at_least=2)
    if not isinstance(estimator, PrivateLinearClassifier):
        raise InvalidParameterError("classes", classes, f"does not apply to --model {estimator.kind}", "Leave it out")
    return estimator.plan(n, features, classes, unit=unit)


def scaling(estimator: PrivateLinearModel, users: int, plans: Planner) -> list[list[dict[str, Any]]]:
    """Return the best plan for other numbers of users (rows) and records per user (columns), JSON-ready."""
    from sklearn.base import clone

    def best(n: int, records: int) -> dict[str, Any]:
        one: Any = clone(estimator)
        one.set_params(records_per_user=records)
        plan = plans(one, n)[0]
        error = plan.predicted_error
        facts = {"users": n, "records_per_user": records, "algorithm": plan.algorithm}
        return {**facts, "excess_loss_bound": error.bound, "vacuous": error.vacuous}

    given = estimator.records_per_user
    columns = sorted({1, 10, 100} | ({given} if isinstance(given, int) else set()))
    rows = sorted({max(1, round(users * factor)) for factor in (0.25, 1, 4)})
    return [[best(n, records) for records in columns] for n in rows]


def print_scaling(table: list[list[dict[str, Any]]]) -> None:
    """Print how the expected loss falls with users and with records per user."""
    marks = dict(zip(sorted({cell["algorithm"] for row in table for cell in row}), "abcdefghij", strict=False))
    shown = [[f"{number(cell['excess_loss_bound'])} {marks[cell['algorithm']]}" for cell in row] for row in table]
    title = "\nBound on the excess loss of the best plan, by users and records per user"
    headers = ("users", *(f"{cell['records_per_user']:,}" for cell in table[0]))
    rows = ((f"{row[0]['users']:,}", *cells) for row, cells in zip(table, shown, strict=True))
    print_table(title, headers, rows, right=range(len(headers)))
    print_text(", ".join(f"{mark}: {name.replace('_', ' ')}" for name, mark in marks.items()) + ".")


def plan_rows(plans: Sequence[LinearModelPlan]) -> list[dict[str, Any]]:
    """Return JSON-ready facts of plans; the first is the chosen one."""
    import numpy as np

    def facts(plan: LinearModelPlan, chosen: bool) -> dict[str, Any]:
        deviation, error = plan.coefficient_deviation, plan.predicted_error
        widths, names = plan.expected_intervals, ("half_width", "finite", "of")
        own = {} if widths is None else {"intervals": dict(zip(names, widths, strict=True))}
        return own | {
            "chosen": chosen, "algorithm": plan.algorithm, "constants": plan.constants, "noise": plan.noise_name,
            "l2": plan.l2,
            "typical_coefficient_sd": None if deviation is None else float(np.median(deviation)),
            "expected_excess_loss": error.expected, "excess_loss_bound": error.bound,
            "bound_is_proved": error.proved, "printed_bound": error.printed, "trivial_loss": error.trivial,
            "vacuous": error.vacuous, "yardstick": plan.yardstick, "hopeless": plan.hopeless, "source": error.source,
        }  # fmt: skip

    return [facts(plan, k == 0) for k, plan in enumerate(plans)]


def plan_facts(plan: Plan, **own: Any) -> dict[str, Any]:
    """Return JSON-ready facts that plans of all kinds have, after those of one kind."""
    error = plan.predicted_error
    shared = {"bound_is_proved": error.proved, "source": error.source, "hopeless": plan.hopeless}
    return {"algorithm": plan.algorithm, "constants": plan.constants, **own, **shared, "public": dict(plan.public)}


def print_facts(count: int, privacy: PrivacyParams, plans: Iterable[dict[str, Any]], counted: str = "rows") -> None:
    """Print facts of plans as JSON, the chosen one first and marked."""
    listed = [{"chosen": k == 0, **each} for k, each in enumerate(plans)]
    print_json({counted: count, "epsilon": privacy.epsilon, "delta": privacy.delta, "plans": listed})


def show_plans(
    title: str, plans: Sequence[Plan], meaning: str, rows: int, facts: Callable[[Any], dict[str, Any]] | None,
    promise: PrivacyParams | None = None, own: dict[str, list[float | None]] | None = None,
) -> None:  # fmt: skip
    """Print plans a line each, the chosen one marked, for a `promise` or their own; with `facts` as JSON.

    `own` are columns of numbers, one a plan, by what stands above them.
    """
    if facts is not None:
        counted = "users" if plans[0].privacy.unit == "user" else "rows"
        return print_facts(rows, promise or plans[0].privacy, map(facts, plans), counted)
    guessed = any(plan.expectation is not None for plan in plans)
    alike = len({plan.algorithm for plan in plans}) < len(plans)  # then noise tells them apart
    cells, more = [], own or {}
    for k, p in enumerate(plans):
        told = (*[getattr(p, "noise_name", "")] * alike, *(number(each[k]) for each in more.values()))
        told += (number(p.expectation),) * guessed
        cells.append(("" if k else "*", p.algorithm, *told, number(p.predicted_error.bound), p.note))
    headers = ("", "algorithm", *["noise"] * alike, *more, *["expected"] * guessed, "bound", "note")
    print_table(title, headers, cells, right=range(2 + alike, 3 + alike + guessed + len(more)), marked=0)
    print_text(meaning)


def print_plans(plans: Sequence[LinearModelPlan]) -> None:
    """Print the table of plans, the chosen one first and marked; with the paper's constants, its printed bound too."""
    rows, paper = plan_rows(plans), plans[0].constants == "paper"
    problem, privacy = plans[0].problem, plans[0].privacy
    varied = "".join(f", {name} {value}" for name, value in variations(plans[0]))
    cells = []
    for plan, row in zip(plans, rows, strict=True):
        wanted = ("expected_excess_loss", "excess_loss_bound", *["printed_bound"] * paper)
        told = [("none" if key == "printed_bound" else "") if row[key] is None else number(row[key]) for key in wanted]
        cells.append(("*" if row["chosen"] else "", plan.algorithm, plan.noise_name, *told, plan.note))
    title = f"Plans for {problem.n:,} {privacy.unit}s, {problem.dim} parameters, {budget_words(privacy)}{varied}"
    headers = ("", "algorithm", "noise", "expected", "bound", *["printed"] * paper, "note")
    whole = [1] if max(len(row["algorithm"]) for row in rows) <= 24 else ()  # a longer name leaves no room
    print_table(title, headers, cells, right=range(3, 5 + paper), marked=0, whole=whole)
    print_text(
        "* chosen. expected: excess loss on typical data, a guess that real data often exceed. bound: proved for every "
        "data set, but where the note says estimate."
        + "\nintervals: half-widths at 95 % over columns' ranges, and how many are finite. A forecast, for levels "
        "and classes (see rates) that are not rare and columns that no others tell; (other) never counts."
        * bool(plans[0].expected_intervals)
    )
    if paper:
        print_text(
            "printed: what the paper claims for such problems, none where its conditions fail. For comparison only: "
            "some claims are loose and some false."
        )
    if rows[0]["vacuous"]:
        print_text(
            f"VACUOUS: even the chosen plan's bound, {number(rows[0]['excess_loss_bound'])}, is not below the "
            f"trivial loss, {number(rows[0]['trivial_loss'])}. It promises nothing about this fit; more records, fewer "
            "columns or a larger epsilon would help."
        )
