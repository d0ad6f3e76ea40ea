"""Entry point: ``dpconvex COMMAND``."""

from __future__ import annotations

from typing import Annotated

import typer

from dpconvex.cli import (
    audit,
    budget,
    demo,
    evaluate,
    fit,
    fit_sparse,
    game,
    median,
    plan,
    reproduce,
    schema,
    search,
    shapes,
    synthesize,
    verify,
)

app = typer.Typer(
    name="dpconvex",
    help="Differentially private convex models, with certificates that anybody can verify.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"dpconvex {version('dpconvex')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command("plan")(plan.plan)
app.command("fit")(fit.fit)
app.command("fit-sparse")(fit_sparse.fit_sparse)
app.command("search")(search.search)
app.command("predict")(fit.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("shapes")(shapes.shapes)
app.command("median")(median.median)
app.command("game")(game.game)
app.command("synthesize")(synthesize.synthesize)
app.command("verify")(verify.verify)
app.command("sign")(verify.sign)
app.command("audit")(audit.audit)
app.add_typer(schema.app, name="schema")
app.add_typer(budget.app, name="budget")
app.command("demo")(demo.demo)
app.command("reproduce")(reproduce.reproduce)


def main() -> None:
    """Run the command line."""
    app()
