"""``dpconvex budget``: a ledger file for one data set, from which runs are paid before they read it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex.cli import _options
from dpconvex.cli._output import one_line_errors, print_json, print_table, print_text
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.data import Schema
    from dpconvex.privacy import PrivacyParams
    from dpconvex.privacy.budget import Account

app = typer.Typer(help="Keep account of all runs on one data set.", no_args_is_help=True)

BudgetFile = Annotated[Path, typer.Argument(help="The budget file.")]


@dataclass(frozen=True)
class Paid:
    """What a run took from the budget file of that name, and the epsilon and delta that it left there."""

    name: str
    promise: PrivacyParams
    epsilon: Decimal
    delta: Decimal

    def text(self) -> str:
        """Return what was left before and after."""
        from dpconvex.privacy.budget import exact_text

        after = (self.epsilon, self.delta)
        taken = (Decimal(repr(self.promise.epsilon)), Decimal(repr(self.promise.delta)))
        before = [exact_text(left + part) for left, part in zip(after, taken, strict=True)]
        left = [exact_text(part) for part in after]
        return f"{self.name}: epsilon {before[0]}, delta {before[1]} before; epsilon {left[0]}, delta {left[1]} after"


@app.command("create")
@one_line_errors
def create(
    path: BudgetFile,
    epsilon: Annotated[float, typer.Option(help="Total for all runs together, positive.")],
    delta: Annotated[float, typer.Option(help="Total for all runs together, in [0, 1/2).")] = 0.0,
    unit: Annotated[str, typer.Option(help="record, or user: what the promises protect.")] = "record",
    data: Annotated[str, typer.Option(help="Which data set it is for, in words.")] = "",
) -> None:
    """Write a new budget file. An existing file is never replaced."""
    from dpconvex.privacy import Budget

    budget = Budget.create(path, epsilon, delta, unit=unit, data=data)
    _show(path, budget.account())
    print_text(f"\nAdd --budget {path} to every run on these data.")


@app.command("show")
@one_line_errors
def show(path: BudgetFile, as_json: _options.Json = False) -> None:
    """Print what is spent and what is left. Reads no data."""
    from dpconvex.privacy import Budget

    account = Budget(path).account()
    if as_json:
        print_json(facts(account))
    else:
        _show(path, account)


def pay(
    budget: Path | None, promise: PrivacyParams, what: str, table: Path, schema: Schema | None, *, seed: int | None
) -> Paid | None:
    """Enter a run's promise into its budget, before its table is read; do nothing where there is no budget.

    What can be wrong with the table's name, place, header and types is found first, so that it costs nothing. A seeded
    run is refused: it keeps no promise.
    """
    from dpconvex.data import check_table
    from dpconvex.privacy import Budget
    from dpconvex.privacy.budget import MOST_TEXT

    if budget is None:
        return None
    if seed is not None:
        raise InvalidParameterError("seed", seed, "makes a run not private, so no budget covers it", "Leave it out")
    check_table(table, schema)
    Budget(budget).spend(promise, f"{what} {table.name}"[:MOST_TEXT])
    return Paid(budget.name, promise, *Budget(budget).account().left)


def facts(account: Account) -> dict[str, Any]:
    """Return JSON-ready facts; amounts are texts, which hold all digits."""
    from dpconvex.privacy.budget import exact_text

    epsilon, delta = account.left
    return {
        "data": account.data,
        "unit": str(account.total.unit),
        "neighboring": str(account.total.neighboring),
        "total": {"epsilon": repr(account.total.epsilon), "delta": repr(account.total.delta)},
        "left": {"epsilon": exact_text(epsilon), "delta": exact_text(delta)},
        "unreadable_lines": account.unreadable,
        "spent": [
            {
                "epsilon": None if entry.epsilon is None else exact_text(entry.epsilon),
                "delta": None if entry.delta is None else exact_text(entry.delta),
                "time": entry.time,
                "what": entry.what,
                "whole": entry.whole,
            }
            for entry in account.spent
        ],
    }


def _show(path: Path, account: Account) -> None:
    total, known = account.total, facts(account)
    cells = [("total", f"{total.epsilon:g}", f"{total.delta:g}", account.data)]
    cells += [(each["time"], each["epsilon"] or "all", each["delta"] or "all", each["what"]) for each in known["spent"]]
    cells.append(("left", *known["left"].values(), ""))
    print_text(f"Budget {path}, protecting every {total.unit}, {str(total.neighboring).replace('_', ' ')}")
    print_table("", ("", "epsilon", "delta", ""), cells, right=(1, 2), marked=len(cells) - 1)
    if account.unreadable:
        print_text(
            f"\n{account.unreadable} line(s) cannot be read completely. A line whose two amounts are whole counts with "
            "them, any other as all that was left."
        )
