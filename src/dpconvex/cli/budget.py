"""``dpconvex budget``: a ledger file for one data set, from which runs are paid before they read it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpconvex
from dpconvex import _validate
from dpconvex.cli import _options
from dpconvex.cli._output import CERTIFICATE, PAID, budget_words, one_line_errors, print_json, print_table, print_text
from dpconvex.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.privacy.budget import Account

app = typer.Typer(help="Keep account of all runs on one data set.", no_args_is_help=True)
WHO = ContextVar("who", default="")  #: The person who runs this command, as stated; never read from the system.
BudgetFile = Annotated[Path, typer.Argument(help="The budget file.")]


@dataclass(frozen=True)
class Paid:
    """A payment from a budget: the budget's name, the promise that was paid, and the epsilon and delta left."""

    name: str
    promise: dpconvex.PrivacyParams
    epsilon: Decimal
    delta: Decimal
    path: Path
    line: int

    def text(self) -> str:
        """Return the amounts left before and after the payment, as text."""
        from dpconvex.privacy.budget import exact_text

        epsilon, delta = Decimal(repr(self.promise.epsilon)), Decimal(repr(self.promise.delta))
        before = f"epsilon {exact_text(self.epsilon + epsilon)}, delta {exact_text(self.delta + delta)} before"
        return f"{self.name}: {before}; epsilon {exact_text(self.epsilon)}, delta {exact_text(self.delta)} after"


@app.command("create")
@one_line_errors
def create(
    path: BudgetFile,
    epsilon: Annotated[float, typer.Option(help="Total for all runs together, positive.")],
    delta: Annotated[float, typer.Option(help="Total for all runs together, in [0, 1/2).")] = 0.0,
    unit: Annotated[str, typer.Option(help="What the promises protect: record or user.")] = "record",
    neighbors: Annotated[str, typer.Option(help="Of the promises: replace_one or add_or_remove_one.")] = "replace_one",
    data: Annotated[str, typer.Option(help="Which data set it is for, in words.")] = "",
    renews: Annotated[int, typer.Option(help="Renew the totals every so many months. 0: never.")] = 0,
    begins: Annotated[str, typer.Option(help="First day of the first period (UTC), as in 2026-01-01.")] = "",
) -> None:
    """Write a new budget file. An existing file is never replaced."""
    terms: dict[str, Any] = {"unit": unit, "neighboring": neighbors, "data": data, "renews": renews, "begins": begins}
    _show(path, dpconvex.Budget.create(path, epsilon, delta, **terms).account())
    print_text(f"\nAdd --budget {path} to every run on these data.")


@app.command("show")
@one_line_errors
def show(
    path: BudgetFile,
    html: Annotated[Path | None, typer.Option(help="Write a page with the table and a picture to this file.")] = None,
    as_json: _options.Json = False,
) -> None:
    """Print what is spent, when, by whom, for which release, and what is left. Reads no data."""
    account = dpconvex.Budget(path).account()
    if html is not None:
        from dpconvex.cli._output import write_page
        from dpconvex.cli.report import budget_figure

        if html.exists() and html.samefile(path):
            raise InvalidParameterError("html", str(html), "must not be the budget file", "Choose another name")
        known = facts(account)
        known |= {"state": _state(account), "figure": budget_figure(account) if account.spent else ""}
        write_page(html, "budget.html.j2", name=path.name, account=account, known=known)
    if as_json:
        print_json(facts(account))
    else:
        _show(path, account)


def pay(
    budget: Path | None, promise: dpconvex.PrivacyParams, what: str, table: Path, schema: dpconvex.Schema | None,
    *, seed: int | None, plan: Callable[[int], Any] | None = None,
) -> Paid | None:  # fmt: skip
    """Enter a run's promise into its budget, if any, before its table is read, once all that is public suits `plan`."""
    from dpconvex.data.read import check_table, stated_rows
    from dpconvex.privacy.budget import MOST_TEXT

    _validate.installed("numba", "flint", "randomgen", "pyarrow", "opendp")
    if budget is None:
        return None
    if seed is not None:
        raise InvalidParameterError("seed", seed, "makes a run not private, so no budget covers it", "Leave it out")
    check_table(table, schema)
    rows = stated_rows(table) if promise.neighboring.fixes_size else None
    if rows == 0:
        raise InvalidDataError(f"{table}: holds no records; at least 1 is needed")
    if rows is not None and plan is not None and promise.unit == "record":
        plan(rows)
    line = dpconvex.Budget(budget).spend(promise, f"{what} {table.name}"[:MOST_TEXT], WHO.get())
    PAID.set(f". {budget_words(promise).capitalize()} stays charged to {budget.name}")
    return Paid(budget.name, promise, *dpconvex.Budget(budget).account().left, budget.resolve(), line)


def write_certificate(
    certificate: dpconvex.PrivacyCertificate, folder: Path, paid: Paid | None, name: str = CERTIFICATE
) -> dpconvex.PrivacyCertificate:
    """Write a certificate that names the budget's line, enter its digest there, and return it."""
    from dpconvex.privacy import Payment

    payment = Payment() if paid is None else Payment(((dpconvex.Budget(paid.path), paid.line),))
    certificate = payment.stated(certificate)
    (folder / name).write_text(certificate.to_json(), encoding="utf-8")
    payment.note(certificate)
    return certificate


def facts(account: Account) -> dict[str, Any]:
    """Return JSON-ready facts; amounts are texts, which hold all digits."""
    from dpconvex.privacy.budget import exact_text

    def text(amount: Decimal | None) -> str | None:
        return None if amount is None else exact_text(amount)

    epsilon, delta = account.left
    return {
        "data": account.data, "unit": str(account.total.unit), "neighboring": str(account.total.neighboring),
        "total": {"epsilon": repr(account.total.epsilon), "delta": repr(account.total.delta)},
        "left": {"epsilon": exact_text(epsilon), "delta": exact_text(delta)},
        "unreadable_lines": account.unreadable,
        "spent": [asdict(x) | {"epsilon": text(x.epsilon), "delta": text(x.delta)} for x in account.spent],
        "renews": account.renews, "begins": account.begins, "period": account.period,
        "periods_paid_from": account.periods,
    }  # fmt: skip


def _state(account: Account) -> str:
    """Say what a budget that renews promises."""
    if not account.renews:
        return ""
    total, count = account.total, max(account.periods, 1)
    return (
        f"The totals are for each {account.renews} month(s) from {account.begins}; now is number {account.period + 1}. "
        f"So far {count} of them may have been paid from: together they promise epsilon {count * total.epsilon:g}, "
        f"delta {count * total.delta:g}. What was left of older ones does not come back."
    )


def _words(each: dict[str, Any]) -> str:
    names = [f"by {each['who']}"] if each["who"] else []
    names += [f"{name} {each[name].removeprefix('sha256:')[:12]}" for name in ("certificate", "model") if each[name]]
    return ", ".join([each["what"], *names])


def _show(path: Path, account: Account) -> None:
    total, known = account.total, facts(account)
    cells = [("total", f"{total.epsilon:g}", f"{total.delta:g}", account.data)]
    cells += [(each["time"], each["epsilon"] or "all", each["delta"] or "all", _words(each)) for each in known["spent"]]
    cells.append(("left", *known["left"].values(), ""))
    print_text(f"Budget {path}, protecting every {total.unit}, {str(total.neighboring).replace('_', ' ')}")
    print_table("", ("", "epsilon", "delta", ""), cells, right=(1, 2), marked=len(cells) - 1)
    if account.renews:
        print_text(f"\n{_state(account)}")
    if account.unreadable:
        counts = "A line whose two amounts are whole counts with them, any other as all that was left."
        print_text(f"\n{account.unreadable} line(s) cannot be read completely. {counts}")
