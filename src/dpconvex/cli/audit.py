"""``dpconvex audit``: try to refute the promises of this library's algorithms, and say what could be proved."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpconvex.cli import _options
from dpconvex.cli._output import finite, number, one_line_errors, print_json, print_table, print_text, track, write_page

if TYPE_CHECKING:
    from dpconvex.audit import AuditReport
    from dpconvex.audit.target import Target

JSON, HTML, GRID = "audit.json", "audit.html", "audit-grid.json"
GRID_SECONDS = 3.0


@one_line_errors
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
    from dpconvex.audit import audit as attack
    from dpconvex.audit.targets import TARGETS, chosen
    from dpconvex.errors import InvalidParameterError

    if listed:
        _list(tuple(TARGETS.values()), as_json)
        return
    targets = chosen(name or "")
    if not targets:
        close = difflib.get_close_matches(name or "", TARGETS, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(close)}? " if close else ""
        raise InvalidParameterError("name", name, "must be an algorithm", f"{hint}dpconvex audit --list shows them")
    if grid:
        _grid(targets, out, delta, runs, transcripts, seconds or GRID_SECONDS, seed, as_json)
        return
    reports: list[AuditReport] = []
    for target in targets:
        subject = target.subject(epsilon, delta, feature_norm)
        reports.append(
            attack(
                subject.plan,
                subject.pairs,
                title=target.name,
                output=subject.output,
                runs=runs,
                transcripts=transcripts,
                seconds=seconds,
                seed=seed,
                track=track,
            )
        )
    if out is not None:
        write_reports(reports, out, feature_norm)
    if as_json:
        print_json([report.to_dict() for report in reports])
    else:
        _show(reports, out)
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def _grid(
    targets: Sequence[Target],
    folder: Path | None,
    delta: float,
    runs: int,
    transcripts: int,
    seconds: float,
    seed: int,
    as_json: bool,
) -> None:
    from importlib.metadata import version

    from dpconvex.audit.auditor import EPSILONS, Settings, audit_grid, summary
    from dpconvex.errors import InvalidParameterError

    if folder is None:
        raise InvalidParameterError("out", None, "must be given with --grid", "It holds what is found, and resumes")
    settings = Settings(version("dpconvex"), delta, runs, transcripts, seconds, seed)
    cells = audit_grid(targets, folder / GRID, settings, track)
    lines = summary(cells)
    if as_json:
        print_json([{"target": name, "proved": best, "runs": r, "seconds": s} for name, best, r, s in lines])
    else:
        rows = [
            (name, *(number(best[e]) if e in best else "-" for e in EPSILONS), f"{spent:.0f}")
            for name, best, _, spent in lines
        ]
        title = "Largest epsilon proved, over all bounds, for the claimed"
        print_table(title, ("algorithm", *map(str, EPSILONS), "seconds"), rows, right=range(1, 7))
        print_text(f"Wrote {folder / GRID}")
    refuted = [cell for cell in cells if not cell.passed]
    for cell in refuted:
        print_text(f"REFUTED: {cell.target} at epsilon {cell.epsilon:g}, bound {cell.bound:g}: {cell.proved:g}")
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
    write_atomically(folder / JSON, json.dumps(finite(content), indent=2, allow_nan=False) + "\n")
    shown = {**content, "reports": reports, "number": number, "confidence": 1 - ERROR}
    write_page(folder / HTML, "audit.html.j2", **shown)


def _list(targets: Sequence[Target], as_json: bool) -> None:
    if as_json:
        print_json([{"name": t.name, "pure": t.pure, "unit": str(t.unit)} for t in targets])
        return
    rows = [(t.name, "epsilon" if t.pure else "epsilon, delta", str(t.unit)) for t in targets]
    print_table("What can be audited", ("name", "promise", "neighbours differ in one"), rows)


def _show(reports: Sequence[AuditReport], out: Path | None) -> None:
    rows = []
    for report in reports:
        best = report.findings[0] if report.findings else None
        promise = number(report.claimed.epsilon) + (f", {report.claimed.delta:g}" if report.claimed.delta else "")
        rows.append(
            (
                "ok" if report.passed else "REFUTED",
                report.title,
                promise,
                number(report.proved_at_least),
                best.attack if best and best.epsilon > 0 else "-",
                f"{report.seconds:.1f}",
            )
        )
    print_table("Audit", ("", "algorithm", "claimed", "proved at least", "by", "seconds"), rows, right=(3, 5))
    print_text()
    refuted = sum(not report.passed for report in reports)
    if refuted:
        print_text(f"{refuted} of {len(reports)} promises were REFUTED.")
    else:
        print_text("No promise was refuted. That is no proof of privacy: the proofs are in the documentation.")
    if out is not None:
        print_text(f"Wrote {out / JSON} and {out / HTML}")
