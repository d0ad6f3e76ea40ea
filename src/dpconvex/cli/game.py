"""``dpconvex game``: a table of payoffs in; private strategies of both players and their certificate out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpconvex
from dpconvex import _validate
from dpconvex.cli import _options, _output
from dpconvex.cli.budget import pay, write_certificate
from dpconvex.cli.plan import plan_facts, show_plans
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms.minimax.base import SaddlePlan

SHOWN = 10  #: Number of actions of each player in the printed table; the file has all.


@_output.one_line_errors
def game(
    epsilon: _options.Epsilon,
    shape: Annotated[str, typer.Option(help="Numbers of actions of the row and of the column player.", metavar="RxC")],
    payoffs: Annotated[Path | None, typer.Argument(help="CSV or Parquet file of records; or give --rows.")] = None,
    form: Annotated[str, typer.Option(
        help="What a row of the file holds. plays: columns row and column (actions, counted from 0) and payoff. "
        "matrices: R times C columns, a payoff matrix row by row. rank_one: R + C columns, vectors a and b of the "
        "matrix a b^T."
    )] = "plays",
    bound: Annotated[float, typer.Option(help="PUBLIC bound to which payoffs are clipped; 1 for rank_one.")] = 1.0,
    delta: _options.SmallDelta = 1e-6, algorithm: _options.Listed = "auto",
    constants: Annotated[str, _options.constants(_options.GAME_METHODS)] = "calibrated",
    out: Annotated[Path, typer.Option(help="Folder for game.json and certificate.json.")] = Path("game"),
    rows: _options.Rows = None, seed: _options.Seed = None, budget: _options.Budget = None,
    force: _options.ForceOwn = False, as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Learn strategies of a zero-sum game from private payoffs: what the row player pays to the column player.

    The game is the mean of the records' payoff matrices. With --rows instead of a file: show the plans; no data are
    read.
    """
    import numpy as np

    from dpconvex.data.frames import number_table
    from dpconvex.games import plan_game, private_game

    promise, sides = dpconvex.PrivacyParams(epsilon, delta), read_shape(shape)
    rows = _options.planned_rows(payoffs, rows)
    options: dict[str, Any] = {"bound": bound, "form": form, "algorithm": algorithm, "constants": constants}
    plans = plan_game(rows, sides, promise, **options)  # refuses before anything is read
    if payoffs is None:
        plans[0].warn(rows)
        return _show(plans, as_json)
    with _output.model_folder(out, force=force) as folder:
        declared = declared_columns(payoffs, form, sides)
        paid = pay(budget, promise, "game", payoffs, declared, seed=seed)
        with _output.working("Playing"):
            table = dpconvex.read_table(payoffs, declared)
            records = np.column_stack(number_table(table, declared.column_names()).columns)
            records = records.reshape(-1, *sides) if form == "matrices" else records
            result = private_game(records, epsilon=epsilon, delta=delta, shape=sides, random_state=seed, **options)
        released = {"form": form, "shape": list(sides), "row": result.x.tolist(), "column": result.y.tolist()}
        (folder / _output.GAME).write_text(_output.json_text(released), encoding="utf-8")
        stated = write_certificate(result.certificate, folder, paid)
    if as_json:
        found = {**released, "plan": facts(result.plan)}
        return _output.print_files(stated, out, _output.GAME, _output.CERTIFICATE, **found)
    _show((result.plan,), False)
    for player, weights in (("row", result.x), ("column", result.y)):
        largest = (-weights).argsort(kind="stable")[:SHOWN].tolist()
        which = f", the largest {SHOWN} weights" if len(weights) > SHOWN else ""
        cells = [(str(k), _output.number(float(weights[k]))) for k in largest]
        _output.print_table(f"\nStrategy of the {player} player{which}", ("action", "probability"), cells, right=(0, 1))
    _output.print_released(stated, out, _output.GAME, _output.CERTIFICATE)


def read_shape(text: str) -> tuple[int, int]:
    """Return the two numbers of ``RxC``."""
    found = text.lower().split("x")
    if len(found) != 2 or not all(part.isdecimal() and part.isascii() and len(part) < 8 for part in found):
        raise InvalidParameterError("shape", text, "must be RxC, two integers >= 2", "For example --shape 10x5")
    return _validate.integer("shape", int(found[0]), at_least=2), _validate.integer("shape", int(found[1]), at_least=2)


def declared_columns(path: Path, form: str, shape: tuple[int, int]) -> "dpconvex.Schema":
    """Return a schema of numbers, by the header alone; what is no number counts as 0, an action as the first one."""
    from dpconvex.data import read_header

    names = ["row", "column", "payoff"]
    if form != "plays":
        names, wanted = read_header(path), shape[0] * shape[1] if form == "matrices" else shape[0] + shape[1]
        if len(names) != wanted:
            what = f"needs {wanted} columns for --form {form}, and {path.name} has {len(names)}"
            raise InvalidParameterError("shape", f"{shape[0]}x{shape[1]}", what, "Check the shape, the form, the file")
    return _options.numbers_only(names)


def facts(plan: "SaddlePlan") -> dict[str, Any]:
    """Return JSON-ready facts of a plan."""
    error = plan.predicted_error
    return plan_facts(plan, expected_gap=plan.expectation, gap_bound=error.bound, trivial_gap=error.trivial)


def _show(plans: "Sequence[SaddlePlan]", as_json: bool) -> None:
    first, n = plans[0], plans[0].problem.n
    sides = f"{first.problem.dx:,} x {first.problem.dy:,} actions"
    title = f"Plans for {n:,} records, {sides}, {_output.budget_words(first.privacy)}"
    note = "* chosen. expected: the duality gap, what both players together could still gain, on typical data, a guess."
    note += " bound: on the same, proved but where the note says estimate; vacuous if not below"
    note += f" {_output.number(first.predicted_error.trivial)}, which no pair of strategies exceeds."
    show_plans(title, plans, note, n, facts if as_json else None)
