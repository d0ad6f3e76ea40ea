"""Entry point: ``dpconvex COMMAND``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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


class _Root(TyperGroup):
    """Commands of one vocabulary: a flag shows no type, and files and folders to write are --out and --output alike."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        _spell(self)

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)
        for param in found:  # the options of completion came after all others
            param.metavar = "" if getattr(param, "is_flag", False) else param.metavar
        return found


def _spell(command: Any) -> None:
    for param in (*command.params, command.get_help_option(command.context_class(command))):
        if getattr(param, "is_flag", False):
            param.metavar = ""
        if param.opts in (["--out"], ["--output"]):
            param.opts = ["--out", "--output"]
    for each in getattr(command, "commands", {}).values():
        _spell(each)


app = typer.Typer(
    name="dpconvex",
    cls=_Root,
    help="Differentially private convex models, with certificates that anybody can verify.",
    no_args_is_help=True,
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
app.command("export")(shapes.export)
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
