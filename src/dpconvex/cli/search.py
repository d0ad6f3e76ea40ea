"""``dpconvex search``: the best of several settings of a model, for one promise that covers the whole search."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpconvex
from dpconvex.cli import _options, _output
from dpconvex.cli.budget import pay
from dpconvex.cli.fit import measure, opened_table, read_test, write_outputs
from dpconvex.cli.plan import print_facts
from dpconvex.cli.schema import print_labels
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms import PredictedError
    from dpconvex.algorithms.search.plan import SearchPlan

Over = Annotated[list[str], typer.Option(
    metavar="NAME=V1,V2,...",
    help="A parameter of the model (`coefficient_norm`, `width`, `target_bounds`, ...) and its values; several times "
    "for a grid. Values: numbers, words, LOWER:UPPER, none. The first setting is the default. Choose them without "
    "looking at the data.",
)]  # fmt: skip


@_output.one_line_errors
def search(
    schema: _options.SchemaFile, epsilon: _options.Epsilon, over: Over, table: _options.PrivateTable = None,
    target: _options.Target = None, model: _options.Model = None, delta: _options.Delta = 0.0,
    method: Annotated[str, typer.Option(help="How to pay: auto, composition, repeats; none: no search.")] = "auto",
    scoring: Annotated[
        str, typer.Option(help="auto, error_rate, log_loss; for numbers squared_error, absolute_error or pinball.")
    ] = "auto",
    score_bound: Annotated[float | None,
        typer.Option(help="Losses of records are clipped to it. Default: 2 for log_loss, else 1.")] = None,
    holdout: Annotated[float, typer.Option(help="Share of records held out for the choice.")] = 0.2,
    out: Annotated[Path, typer.Option(help="Folder for model, certificate and report.")] = Path("model"),
    rows: _options.Rows = None, user_column: _options.UserColumn = None, test: _options.Test = None,
    seed: _options.Seed = None, budget: _options.Budget = None, engine: _options.Engine = None,
    address: _options.Address = None, memory: _options.Memory = None, purpose: _options.Purpose = "",
    neighbors: Annotated[str, typer.Option(help="Nothing else: units of a search are replaced.")] = "replace_one",
    force: _options.Force = False, as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Fit several settings of a private model, choose one privately, and release it alone.

    The certificate covers the whole search. With --rows: show what it costs; no data are read.
    """
    from dpconvex.cli.report import Origin

    declared = _options.fit_schema(schema, target, user_column)
    found = build(model, declared, epsilon, delta, over, seed)
    found.estimator.set_params(neighbors=neighbors)
    found.set_params(method=method, scoring=scoring, score_bound=score_bound, holdout=holdout)
    plans = found.plan(_options.planned_rows(table, rows))  # refuses unusable parameters before anything is read
    if table is None:
        plans[0].warn(rows or 0)
        return _show(plans, as_json)
    with _output.model_folder(out, force=force) as folder:
        held_out = read_test(test, declared)
        kind = found.estimator.kind
        with _output.working("Searching"), opened_table(table, declared, engine, address, memory) as read:
            what = f"search --model {kind}"
            paid = pay(budget, plans[0].privacy, what, table, declared, seed=seed, plan=found.plan)
            found.fit(read())
        metrics = None if held_out is None else measure(found.best_estimator_, held_out)
        write_outputs(found.best_estimator_, folder, Origin(table.name, purpose, paid))
    names = (_output.MODEL, _output.CERTIFICATE, _output.REPORT)
    if as_json:
        best = {"best": settings(found.best_params_), "plan": facts(found.plan_)}
        return _output.print_files(found.certificate_, out, *names, **best, test=metrics and metrics.to_dict())
    _show((found.plan_,), False)
    chosen = ", ".join(f"{name}={value}" for name, value in found.best_params_.items())
    _output.print_text(f"\nChosen: {chosen or 'the estimator as it is'}")
    print_labels(declared)
    _output.print_released(found.certificate_, out, *names, metrics=metrics)


def build(
    model: str | None, schema: "dpconvex.Schema", epsilon: float, delta: float, over: Sequence[str], seed: int | None
) -> "dpconvex.PrivateSearchCV":
    """Return the search that the options describe, not fitted."""
    _, kind = _options.model_kind(model, schema)
    grid: dict[str, list[Any]] = {}
    for text in over:
        name, equals, values = text.partition("=")
        if not equals or name.strip() in grid:
            raise InvalidParameterError("over", text, "must be NAME=V1,V2,..., every name once")
        usual = getattr(kind, option := name.strip().replace("-", "_"), None)
        grid[option] = [_value(each.strip(), usual) for each in values.split(",")]
    return dpconvex.PrivateSearchCV(kind(epsilon, delta, schema=schema, random_state=seed), grid)


def _value(text: str, usual: Any) -> Any:
    """Return a number, None, true or false, a pair of numbers, or the word itself, which the library checks.

    Where the default `usual` is a word, "none" is one, too; where it is true or false, 1 and 0 mean these.
    """
    if (word := text.lower()) in ("true", "false") or (word == "none" and not isinstance(usual, str)):
        return {"true": True, "false": False}.get(word)
    lower, colon, upper = text.partition(":")
    try:
        if re.fullmatch("[+-]?[0-9]+", text):
            return bool(int(text)) if isinstance(usual, bool) and text in ("0", "1") else int(text)
        return (float(lower), float(upper)) if colon else float(text)
    except ValueError:
        return text


def settings(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings as JSON has them."""
    from dpconvex.algorithms.search.scores import plain

    return {name: plain(value) for name, value in values.items()}


def facts(plan: "SearchPlan") -> dict[str, Any]:
    """Return JSON-ready facts of a plan."""
    candidates = []
    for each in plan.candidates:
        found = {"settings": settings(dict(each.settings)), "algorithm": each.plan.algorithm}
        budget = {"epsilon": each.plan.privacy.epsilon, "delta": each.plan.privacy.delta}
        candidates.append({**found, "noise": each.plan.noise_name, **budget, **_errors(each.plan.predicted_error)})
    costs = {"price": plan.price, "cost": plan.cost, "coverage": plan.coverage, "stake": plan.stake}
    costs |= {"yardstick": plan.yardstick, "hopeless": plan.hopeless}
    return {"method": plan.method, **costs, **_errors(plan.predicted_error), "candidates": candidates}


def _errors(error: "PredictedError") -> dict[str, Any]:
    proved = {"excess_loss_bound": error.bound, "bound_is_proved": error.proved}
    return {"expected_excess_loss": error.expected, **proved}


def _show(plans: "Sequence[SearchPlan]", as_json: bool) -> None:
    first = plans[0]
    if as_json:
        return print_facts(first.n, first.privacy, map(facts, plans))
    cells = []
    for plan in plans:
        each = max(candidate.plan.privacy.epsilon for candidate in plan.candidates)
        tried = f"{plan.coverage:.0%}" if plan.selection is not None else "-"
        costs = (_output.number(plan.price, 3), _output.number(plan.cost, 2), _output.number(plan.stake, 2))
        cells.append((plan.method, plan.noise_name, _output.number(each, 3), tried, *costs))
    title = f"Searches over {len(first.whole)} settings, {first.n:,} {first.privacy.unit}s"
    headers = ("method", "noise", "epsilon of a fit", "tried", "price", "cost", "stake")
    full = f"{title}, {_output.budget_words(first.privacy)}"
    _output.print_table(full, headers, cells, right=(2, 3, 4, 5, 6), marked=0)
    _output.print_text("price: factor on the predicted error of a setting.")
    _output.print_text("cost: what the search loses if no setting is better, over the loss of predicting nothing.")
    _output.print_text("stake: that, and an allowance for the chance that the best setting is not tried.")
