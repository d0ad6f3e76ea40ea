"""``dpconvex audit``: try to refute the promises of this library's algorithms, and say what could be proved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpconvex.cli import _options, _output
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.audit import AuditReport
    from dpconvex.audit.auditor import Settings
    from dpconvex.audit.target import Target

JSON, HTML, GRID = "audit.json", "audit.html", "audit-grid.json"
GRID_SECONDS = 3.0


@_output.one_line_errors
def audit(
    name: Annotated[
        str | None, typer.Argument(help="An algorithm with all its variants, or all; see --list.", show_default=False)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what can be audited and audit nothing.")] = False,
    epsilon: Annotated[float, typer.Option(help="Of the promise that is attacked. From 0.1 to 8.")] = 1.0,
    delta: Annotated[
        float, typer.Option(help="Of promises that have one. A large one makes events frequent, so counts prove more.")
    ] = 0.05,
    feature_norm: Annotated[
        float, typer.Option(help="Bound on features, points, payoffs or answers. From 0.1 to 100.")
    ] = 1.0,
    runs: Annotated[int, typer.Option(help="Counted runs on each of two data sets; 0: exact losses only.")] = 2000,
    transcripts: Annotated[int, typer.Option(help="Replayed runs for exact losses; 0: counting only.")] = 400,
    seconds: Annotated[
        float | None, typer.Option(help="Of the processor, aim for each audit: fewer runs where they take long.")
    ] = None,
    grid: Annotated[
        bool,
        typer.Option("--grid", help="Every epsilon from 0.1 to 8 at every bound from 0.1 to 100; resumes from --out."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Of random neighbours and replays; counted noise is real.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Existing folder for audit.json and audit.html.")] = None,
    as_json: _options.Json = False,
) -> None:
    """Attack whole runs on worst-case neighbours. Exit code 1 if a promise is refuted."""
    from importlib.metadata import version

    from dpconvex.audit import audit as attack
    from dpconvex.audit.auditor import Settings
    from dpconvex.audit.targets import TARGETS, chosen

    if listed:
        _list(tuple(TARGETS.values()), as_json)
        return
    targets = chosen(name or "")
    if not targets:
        raise _output.unknown(name, TARGETS, "must be an algorithm", "audit")
    if grid:
        if out is None:
            raise InvalidParameterError("out", None, "must be given with --grid", "It holds what is found, and resumes")
        settings = Settings(version("dpconvex"), delta, runs, transcripts, seconds or GRID_SECONDS, seed)
        _grid(targets, out / GRID, settings, as_json)
        return
    reports: list[AuditReport] = []
    effort = {"runs": runs, "transcripts": transcripts, "seconds": seconds, "seed": seed}
    for target in targets:
        subject = target.subject(epsilon, delta, feature_norm)
        own = {"title": target.name, "output": subject.output}
        reports.append(attack(subject.plan, subject.pairs, **own, **effort, track=_output.track))
    if out is not None:
        write_reports(reports, out, feature_norm)
    if as_json:
        _output.print_json([report.to_dict() for report in reports])
    else:
        _show(reports, out)
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def _grid(targets: Sequence[Target], file: Path, settings: Settings, as_json: bool) -> None:
    from dpconvex.audit.auditor import EPSILONS, audit_grid, summary

    cells = audit_grid(targets, file, settings, _output.track)
    lines = summary(cells)
    if as_json:
        _output.print_json([{"target": name, "proved": best, "runs": r, "seconds": s} for name, best, r, s in lines])
    else:
        rows = [
            (name, *(_output.number(best[e]) if e in best else "-" for e in EPSILONS), f"{spent:.0f}")
            for name, best, _, spent in lines
        ]
        title = "Largest epsilon proved, over all bounds, for the claimed"
        _output.print_table(title, ("algorithm", *map(str, EPSILONS), "seconds"), rows, right=range(1, 7))
        _output.print_text(f"Wrote {file}")
    refuted = [cell for cell in cells if not cell.passed]
    for cell in refuted:
        _output.print_text(f"REFUTED: {cell.target} at epsilon {cell.epsilon:g}, bound {cell.bound:g}: {cell.proved:g}")
    if refuted:
        raise typer.Exit(1)


def write_reports(reports: Sequence[AuditReport], folder: Path, feature_norm: float) -> None:
    """Write ``audit.json`` and ``audit.html``, each wholly or not at all."""
    from importlib.metadata import version

    from dpconvex.audit import ERROR
    from dpconvex.data import write_atomically

    content = {
        "version": version("dpconvex"),
        "feature_norm": feature_norm,
        "passed": all(report.passed for report in reports),
        "reports": [report.to_dict() for report in reports],
    }
    write_atomically(folder / JSON, _output.json_text(content))
    shown = {**content, "reports": reports, "number": _output.number, "confidence": 1 - ERROR}
    _output.write_page(folder / HTML, "audit.html.j2", **shown)


def _list(targets: Sequence[Target], as_json: bool) -> None:
    if as_json:
        _output.print_json([{"name": t.name, "pure": t.pure, "unit": str(t.unit)} for t in targets])
        return
    rows = [(t.name, "epsilon" if t.pure else "epsilon, delta", str(t.unit)) for t in targets]
    _output.print_table("What can be audited", ("name", "promise", "neighbours differ in one"), rows)


def _show(reports: Sequence[AuditReport], out: Path | None) -> None:
    rows = []
    for report in reports:
        best = report.findings[0] if report.findings else None
        claimed = report.claimed
        rows.append(
            (
                "ok" if report.passed else "REFUTED",
                report.title,
                _output.number(claimed.epsilon) + (f", {claimed.delta:g}" if claimed.delta else ""),
                _output.number(report.proved_at_least),
                best.attack if best and best.epsilon > 0 else "-",
                f"{report.seconds:.1f}",
            )
        )
    _output.print_table("Audit", ("", "algorithm", "claimed", "proved at least", "by", "seconds"), rows, right=(3, 5))
    _output.print_text()
    refuted = sum(not report.passed for report in reports)
    if refuted:
        _output.print_text(f"{refuted} of {len(reports)} promises were REFUTED.")
    else:
        _output.print_text("No promise was refuted. That is no proof of privacy: the proofs are in the documentation.")
    if out is not None:
        _output.print_text(f"Wrote {out / JSON} and {out / HTML}")
