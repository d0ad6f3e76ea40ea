"""The commands that run experiments: ``dpconvex audit``, ``demo`` and ``reproduce``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpconvex.cli import _options, _output
from dpconvex.errors import InvalidParameterError, RepeatedFitWarning

if TYPE_CHECKING:
    from dpconvex_experiments import Experiment
    from dpconvex_experiments.audit import AuditReport
    from dpconvex_experiments.audit.target import Target
    from dpconvex_experiments.audit_grid import Settings

JSON, HTML, GRID = "audit.json", "audit.html", "audit-grid.json"
GRID_SECONDS = 3.0


@_output.one_line_errors
def audit(
    name: Annotated[
        str | None, typer.Argument(help="An algorithm with all its variants, or all; see --list.", show_default=False)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List what can be audited and audit nothing.")] = False,
    epsilon: Annotated[float, typer.Option(help="Epsilon of the attacked promise, 0.1 to 8.")] = 1.0,
    delta: Annotated[
        float, typer.Option(help="Delta of promises that have one. Large: events are frequent, so counts prove more.")
    ] = 0.05,
    feature_norm: Annotated[
        float, typer.Option(help="Bound on features, points, payoffs or answers. From 0.1 to 100.")
    ] = 1.0,
    runs: Annotated[int, typer.Option(help="Counted runs on each of two data sets; 0: exact losses only.")] = 2000,
    transcripts: Annotated[int, typer.Option(help="Replayed runs for exact losses; 0: counting only.")] = 400,
    seconds: Annotated[
        float | None, typer.Option(help="Processor time to aim for in each audit; long runs become fewer.")
    ] = None,
    grid: Annotated[
        bool,
        typer.Option("--grid", help="Every epsilon from 0.1 to 8 at every bound from 0.1 to 100; resumes from --out."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of neighbors and replays; counted noise is real.", min=0)] = 0,
    out: Annotated[Path | None, typer.Option(help="Existing folder for audit.json and audit.html.")] = None,
    as_json: _options.Json = False,
) -> None:
    """Attack whole runs on worst-case neighbors. Exit code 1 if a promise is refuted."""
    from importlib.metadata import version

    from dpconvex_experiments.audit import audit as attack
    from dpconvex_experiments.audit.targets import TARGETS, chosen
    from dpconvex_experiments.audit_grid import Settings
    from dpconvex_experiments.terminal import track

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
        reports.append(attack(subject.plan, subject.pairs, **own, **effort, track=track))
    if out is not None:
        write_reports(reports, out, feature_norm)
    if as_json:
        _output.print_json([report.to_dict() for report in reports])
    else:
        _show(reports, out)
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def _grid(targets: Sequence[Target], file: Path, settings: Settings, as_json: bool) -> None:
    from dpconvex_experiments.audit_grid import EPSILONS, audit_grid, summary
    from dpconvex_experiments.terminal import track

    cells = audit_grid(targets, file, settings, track)
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

    from dpconvex.data import write_atomically
    from dpconvex_experiments.audit import ERROR

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
    _output.print_table("What can be audited", ("name", "promise", "neighbors differ in one"), rows)


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


@_output.one_line_errors
def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="8,000 records, 2 splits, epsilon 1 and 3: a few seconds.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the model at epsilon = 1.")] = Path("demo"),
    force: _options.Force = False, as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Fit bundled census data (Adult, 45,222 people) at several epsilons and compare.

    The data are public. Every number is the mean over fixed random splits; every private fit draws real noise.
    """
    from dpconvex.cli.fit import write_outputs
    from dpconvex.cli.report import Measured, Origin
    from dpconvex_experiments import adult
    from dpconvex_experiments.terminal import track

    with warnings.catch_warnings(), _output.model_folder(out, force=force) as folder:
        warnings.simplefilter("ignore", RepeatedFitWarning)  # public data: nothing is spent by fitting them again
        setting = adult.QUICK if quick else adult.FULL
        splits = [adult.split(setting.rows, seed) for seed in range(setting.splits)]
        rows, model = adult.compare(splits, setting.epsilons, track)
        train, test = splits[0]
        over = f"mean of {len(splits)} random splits, {len(train):,} records to fit and {len(test):,} to test"
        measured = Measured(adult.accuracy_figure(rows), f"Adult census data, which are public: {over}.")
        origin = Origin("Adult census income, bundled with dpconvex", "a demonstration on public data")
        write_outputs(model, folder, origin, measured)
    if as_json:
        _output.print_json(rows)
        return
    cells = []
    for row in rows:
        epsilon = "-" if row["epsilon"] is None else f"{row['epsilon']:g}"
        metrics = [f"{row[name]:.4f} ±{row[f'{name}_standard_error']:.4f}" for name in adult.METRICS]
        cells.append((row["model"], epsilon, *metrics, f"{row['seconds']:.2f}"))
    headers = ("model", "epsilon", *adult.METRICS.values(), "seconds")
    _output.print_table(f"Adult census income: {over}", headers, cells, right=range(1, 6))
    _output.print_text("\n± one standard error over the splits; the noise of private fits is part of it.")
    names = f"{_output.MODEL}, {_output.CERTIFICATE} and {_output.REPORT}"
    _output.print_text(f"Wrote {names} (epsilon = {adult.KEPT:g}, first split) to {out}")


@_output.one_line_errors
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="An experiment, a family of them, or all; see --list.", show_default=False)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and run none.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller: seconds instead of minutes.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of data and noise: nothing here is private.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the tables (CSV), figures (SVG) and records (JSON).")] = Path(
        "reproduced"
    ),
    as_json: _options.Json = False,
) -> None:
    """Repeat experiments, and say whether each met its criterion. Exit code 1 if one did not."""
    from dpconvex_experiments import EXPERIMENTS, Setting, run_experiment
    from dpconvex_experiments.terminal import show, show_names, track

    if listed and as_json:
        _output.print_json([{"name": e.name, "title": e.title, "source": e.source} for e in EXPERIMENTS.values()])
        return
    if listed:
        show_names(EXPERIMENTS.values())
        return
    records = []
    for experiment in _chosen(name, EXPERIMENTS):
        record = run_experiment(experiment, Setting(quick, seed, track))
        paths = record.write(out)
        records.append(record)
        if not as_json:
            show(record, paths)
    if as_json:
        _output.print_json([record.to_dict() for record in records])
    elif len(records) > 1:
        verdicts = [("ok" if r.outcome.passed else "FAIL", r.experiment.name, f"{r.seconds:.1f}") for r in records]
        _output.print_table("Verdicts", ("", "experiment", "seconds"), verdicts, right=(2,))
    if not all(record.outcome.passed for record in records):
        raise typer.Exit(1)


def _chosen(name: str | None, experiments: dict[str, Experiment]) -> Sequence[Experiment]:
    names = [*experiments, *sorted({experiment.family for experiment in experiments.values()}), "all"]
    if name not in names:
        raise _output.unknown(name, names, "must be an experiment, a family or all", "reproduce")
    return [e for e in experiments.values() if name in ("all", e.family, e.name)]
