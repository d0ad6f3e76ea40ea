"""Entry point: ``dpconvex COMMAND``."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpconvex.cli import evaluate, fit, game, median, plan, schema, search, shapes, synthesize, verify
from dpconvex.cli.budget import WHO, app as budget
from dpconvex_experiments import commands


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
    paragraphs = (command.help or "").split("\n\n")  # whose lines would end in help where they end in the source
    command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    for param in (*command.params, command.get_help_option(command.context_class(command))):
        if getattr(param, "is_flag", False):
            param.metavar = ""
        elif getattr(param, "multiple", False):
            param.metavar = param.metavar or "<str>"
        if param.opts in (["--out"], ["--output"]):
            param.opts = ["--out", "--output"]
    for each in getattr(command, "commands", {}).values():
        _spell(each)


ABOUT = "Differentially private convex models, with certificates that anybody can verify."
app = typer.Typer(name="dpconvex", cls=_Root, help=ABOUT, no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"dpconvex {version('dpconvex')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")] = False,
    who: Annotated[str,
        typer.Option(envvar="DPCONVEX_WHO", help="Who runs this, in words, for the entries of a --budget.")] = "",
) -> None:  # fmt: skip
    WHO.set(who)


models = (plan.plan, fit.fit, fit.fit_sparse, search.search, fit.predict, evaluate.evaluate, shapes.shapes)
releases = (shapes.intervals, shapes.export, median.median, game.game, synthesize.synthesize)
for command in (*models, *releases, verify.verify, verify.sign, commands.audit, commands.demo, commands.reproduce):
    app.command()(command)
app.add_typer(schema.app, name="schema")
app.add_typer(budget, name="budget")
