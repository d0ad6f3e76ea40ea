"""What the documentation makes of the code: the picture of the house, its rooms and rules, the table of methods.

``conf.py`` puts each where a page has a block ``{generated} NAME``. To look at one: ``python docs/generated.py NAME``.
"""

from __future__ import annotations

import ast
import importlib
import io
import json
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import house  # noqa: E402

EXPERIMENTS = "dpconvex_experiments"
ALGORITHMS = "algorithms"
FUNCTIONS = "functions"
"""The room of single modules (beside the packages) that offer something to users."""
GROUND = "helpers"
"""The room of single modules that import only one another; all rooms import them."""

Edges = Counter[tuple[str, str]]


# --- rooms: the packages of dpconvex, two rooms of single modules, the experiments ------------------------------------


@cache
def imports() -> dict[str, frozenset[str]]:
    """The imports of every module, inside functions too; imports for the type checker alone do not count."""
    graph = house.grimp.build_graph(*house.PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    return {module: frozenset(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


@cache
def single_modules() -> dict[str, str]:
    """The room of every module that stands beside the packages; the interface itself and its starter have none."""
    names = {path.stem for path in (ROOT / "src" / "dpconvex").glob("*.py")} - {"__init__", "__main__"}
    ground = {name for name in names if {part(each) for each in imports()[f"dpconvex.{name}"]} <= names}
    return {name: GROUND if name in ground else FUNCTIONS for name in names}


def part(module: str) -> str:
    """The name right below dpconvex."""
    return module.partition(".")[2].partition(".")[0]


def room(module: str) -> str | None:
    if module.startswith(EXPERIMENTS):
        return EXPERIMENTS
    name = part(module)
    return single_modules().get(name, name if name and not name.startswith("__") else None)


@cache
def arrows() -> Edges:
    """How many imports lead from one room into another."""
    found: Edges = Counter()
    for module, others in imports().items():
        for other in others:
            begin, end = room(module), room(other)
            # Three commands, and the auditor, stand with what they run.
            plug_in = end == EXPERIMENTS and (begin == "cli" or module == "dpconvex.audit")
            if begin and end and begin != end and not plug_in:
                found[begin, end] += 1
    return found


@cache
def floors() -> list[list[str]]:
    """The rooms from the ground up: each stands right below the lowest of those that import it."""
    above: dict[str, set[str]] = {GROUND: set()}
    for begin, end in arrows():
        above.setdefault(begin, set())
        above.setdefault(end, set()).add(begin)
    depth: dict[str, int] = {}
    for name in TopologicalSorter(above).static_order():  # refuses circles
        depth[name] = max((depth[other] + 1 for other in above[name]), default=0)
    return [sorted(name for name in depth if depth[name] == floor) for floor in range(max(depth.values()), -1, -1)]


def sources(name: str) -> list[house.Source]:
    if name in (GROUND, FUNCTIONS):
        modules = sorted(module for module, where in single_modules().items() if where == name)
        return [house.Source(ROOT / "src" / "dpconvex" / f"{module}.py") for module in modules]
    folder = ROOT / "src" / EXPERIMENTS if name == EXPERIMENTS else ROOT / "src" / "dpconvex" / name
    return house.sources(folder)


def size(files: Iterable[house.Source]) -> tuple[int, int]:
    """Number of files and of lines."""
    listed = list(files)
    return len(listed), sum(file.lines for file in listed)


def purpose(file: house.Source) -> str:
    """The first line of a module's docstring, for Markdown."""
    return (house.ast.get_docstring(file.tree) or "").partition("\n")[0].replace("|", r"\|")


def families() -> list[Path]:
    """The rooms inside of algorithms."""
    folder = ROOT / "src" / "dpconvex" / ALGORITHMS
    return sorted(path.parent for path in folder.glob("*/__init__.py"))


# --- the picture ------------------------------------------------------------------------------------------------------


def direct() -> Edges:
    """The arrows between two rooms that no way over a third room replaces; those to the ground are left out."""
    every = {pair: count for pair, count in arrows().items() if GROUND not in pair}
    reached: dict[str, set[str]] = {}
    for floor in floors():
        for name in floor:
            next_ones = {end for begin, end in every if begin == name}
            reached[name] = next_ones.union(*(reached[other] for other in next_ones))
    replaced = {(a, c) for a, b in every for c in reached[b]}
    return Counter({pair: count for pair, count in every.items() if pair not in replaced})


def mathematics() -> set[str]:
    """The rooms that know nothing of privacy, as the import rules have it."""
    forbidden = [rule for rule in rules() if "dpconvex.privacy" in rule.get("forbidden_modules", ())]
    return {part(module) for rule in forbidden for module in rule["source_modules"]}


def places() -> dict[str, tuple[float, float, float, float]]:
    """The middle of every room and half of its width and height: mathematics stands on the right."""
    right = mathematics()
    found: dict[str, tuple[float, float, float, float]] = {}
    for y, floor in enumerate(floors()[1:]):

        def order(name: str) -> tuple[bool, float, str]:
            below = [found[end][0] for begin, end in direct() if begin == name]
            return name in right, sum(below) / len(below) if below else 0.0, name

        width = {name: len(families()) * 0.155 if name == ALGORITHMS else 0.165 for name in floor}
        gap = (1 - sum(width.values())) / (len(floor) + 1)
        x = 0.0
        for name in sorted(floor, key=order):
            x += gap + width[name] / 2
            found[name] = x, float(y), width[name] / 2, 0.36 if ALGORITHMS in floor else 0.24
            x += width[name] / 2
    return found


def picture() -> str:
    """Markdown that holds the drawing."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    place, right = places(), mathematics()
    top = len(floors()) - 2
    figure = Figure(figsize=(9, 1.04 * (top + 2)))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 1), ylim=(-1.4, top + 0.4))
    axes.axis("off")

    def box(x: float, y: float, width: float, height: float, color: str) -> None:
        style = {"boxstyle": "round,pad=0,rounding_size=0.012", "mutation_aspect": 10, "linewidth": 0.8}
        corner = x - width, y - height
        axes.add_patch(FancyBboxPatch(corner, 2 * width, 2 * height, facecolor=color, edgecolor="#555555", **style))

    def text(x: float, y: float, title: str, files: list[house.Source], more: str = "") -> None:
        number, lines = size(files)
        axes.text(x, y + 0.07, title, ha="center", va="center", fontsize=10, weight="bold")
        axes.text(x, y - 0.1, f"{number} files, {lines:,} lines{more}", ha="center", va="center", fontsize=7.5)

    for (begin, end), count in sorted(direct().items()):
        (x0, y0, width0, height0), (x1, y1, width1, height1) = place[begin], place[end]
        start = min(max(x1, x0 - 0.7 * width0), x0 + 0.7 * width0)
        stop = min(max(start, x1 - 0.7 * width1), x1 + 0.7 * width1)
        tail, head = (start, y0 - height0), (stop, y1 + height1)
        arrow = {"arrowstyle": "-|>", "mutation_scale": 12, "color": "#888888", "shrinkA": 0, "shrinkB": 0}
        axes.add_patch(FancyArrowPatch(tail, head, linewidth=0.6 + 0.4 * math.log2(count), zorder=0.5, **arrow))
        middle = tail[0] + 0.4 * (head[0] - tail[0]), tail[1] + 0.4 * (head[1] - tail[1])
        patch = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        axes.text(*middle, str(count), fontsize=8, color="#333333", ha="center", va="center", bbox=patch)

    colors = {True: "#dcebdc", False: "#dbe6f4"}
    for name, (x, y, width, height) in place.items():
        box(x, y, width, height, colors[name in right])
        if name != ALGORITHMS:
            text(x, y, name.removeprefix("dpconvex_"), sources(name))
            continue
        common = [file for file in sources(name) if file.path.parent.name == name]
        axes.text(x, y + 0.26, name, ha="center", va="center", fontsize=10, weight="bold")
        names = [folder.name for folder in families()]
        for index, inner in enumerate(names):
            at = x + 1.94 * width * (index - (len(names) - 1) / 2) / len(names)
            box(at, y, 0.92 * width / len(names), 0.17, "white")
            text(at, y, inner, house.sources(ROOT / "src" / "dpconvex" / name / inner))
        number, lines = size(common)
        what = f"what they share: {number} files, {lines:,} lines"
        axes.text(x, y - 0.27, what, ha="center", va="center", fontsize=7.5)
    box(0.5, -1.0, 0.48, 0.24, "#eeeeee")
    modules = ", ".join(sorted(name for name, where in single_modules().items() if where == GROUND))
    text(0.5, -1.0, f"{GROUND}: {modules}", sources(GROUND), "; every room imports them")

    return drawn(figure)


def drawn(figure: Any) -> str:
    """Markdown that holds a figure as a drawing that grows with the page."""
    import matplotlib as mpl

    file = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "house"}):
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    svg = file.getvalue()
    svg = re.sub(r'<svg [^>]*?width="[^"]*" height="[^"]*"', '<svg role="img" width="100%"', svg[svg.index("<svg") :])
    return f"```{{raw}} html\n{svg}\n```\n"


# --- the tables -------------------------------------------------------------------------------------------------------


def table(header: Iterable[object], rows: Iterable[Iterable[object]], align: str = "") -> str:
    """Markdown of a table; `align` has r or l a column, the last one for all that follow."""
    header = list(header)
    align = align.ljust(len(header), align[-1:] or "l")
    lines = [header, ["--:" if side == "r" else ":--" for side in align[: len(header)]], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def rooms() -> str:
    """Every room, from the top: what it is for, how large it is."""
    rows: list[tuple[object, ...]] = []
    for floor in reversed(floors()):
        for name in floor:
            files = sources(name)
            if name in (GROUND, FUNCTIONS):
                rows += [(f"`{file.path.stem}.py`", purpose(file), 1, f"{file.lines:,}") for file in files]
                continue
            folder = ROOT / "src" / (name if name == EXPERIMENTS else f"dpconvex/{name}")
            count, lines = size(files)
            rows.append((f"**{name}**", purpose(house.Source(folder / "__init__.py")), count, f"{lines:,}"))
            if name == ALGORITHMS:
                for inner in families():
                    count, lines = size(house.sources(inner))
                    what = purpose(house.Source(inner / "__init__.py"))
                    rows.append((f"{name}/**{inner.name}**", what, count, f"{lines:,}"))
    return table(("room", "what it is for", "files", "lines"), rows, "llrr")


def crossings() -> str:
    """How many imports lead from the room of a row into that of a column."""
    order = [name for floor in floors() for name in floor if name != GROUND]
    short = [name.removeprefix("dpconvex_") for name in order]
    rows = [
        (f"**{title}**", *(arrows().get((name, other), "") for other in order))
        for name, title in zip(reversed(order), reversed(short), strict=True)
    ]
    return table(("", *short), rows, "lr")


@cache
def rules() -> tuple[dict[str, Any], ...]:
    """The import rules of pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return tuple(settings["tool"]["importlinter"]["contracts"])


def rule_list() -> str:
    """Every import rule in words."""

    def names(modules: Iterable[str], join: str = ", ") -> str:
        return join.join(f"`{module.removeprefix('dpconvex.')}`" for module in modules)

    def words(rule: Mapping[str, Any]) -> str:
        match rule["type"]:
            case "layers":
                floors = [layer.replace("|", ":").split(":") for layer in rule["layers"]]
                chain = " > ".join(names(name.strip() for name in floor) for floor in floors)
                return f"Each may import what stands to its right: {chain}."
            case "independence":
                return f"None of these imports another: {names(rule['modules'])}."
            case "forbidden":
                text = f"{names(rule['source_modules'])} may not import {names(rule['forbidden_modules'])}"
                but = [each.replace("->", "to").replace("dpconvex.", "") for each in rule.get("ignore_imports", ())]
                return text + (f", except {names(but)}." if but else ".")
            case other:
                return f"A rule of type `{other}`."

    return "\n".join(f"**{rule['name']}**\n: {words(rule)}\n" for rule in rules())


# --- the methods ------------------------------------------------------------------------------------------------------

EPSILON, DELTA, N = 1.0, 1e-6, 20_000


def _linear_plans(name: str, privacy: Any) -> Iterator[Any]:
    from dpconvex.algorithms.erm.registry import plans
    from dpconvex.losses import LogisticLoss, SquaredLoss

    for loss in (LogisticLoss(), SquaredLoss(0.5, prediction_bound=0.5)):
        for problem in _problems(loss, privacy):
            yield from _found(plans, problem, privacy, name)


def _heavy_plans(name: str, privacy: Any) -> Iterator[Any]:
    from dpconvex.algorithms.erm.heavy_tailed.registry import heavy_plans
    from dpconvex.losses import HuberLoss

    for problem in _problems(HuberLoss(1.0, 1e6), privacy):
        yield from _found(heavy_plans, problem, privacy, 2.0, 1.0, name)


def _saddle_plans(name: str, privacy: Any) -> Iterator[Any]:
    from dpconvex.algorithms.minimax.registry import plan_saddle
    from dpconvex.problems import RankOneGame

    yield from _found(plan_saddle, RankOneGame(n=N, dx=20, dy=20), privacy, name)


def _sparse_plans(name: str, privacy: Any) -> Iterator[Any]:
    from dpconvex.algorithms.minimax.registry import plan_saddle
    from dpconvex.losses import LogisticLoss
    from dpconvex.problems import l1_ball_loss

    yield from _found(plan_saddle, l1_ball_loss(LogisticLoss(), N, 20, 1.0), privacy, name)


def _query_plans(name: str, privacy: Any) -> Iterator[Any]:
    from dpconvex.algorithms.queries.registry import plan_queries
    from dpconvex.problems.queries import DenseQueries, Marginals

    for queries in (DenseQueries(np.eye(20)), Marginals.of_order((4, 3, 2), 2)):
        yield from _found(plan_queries, queries, N, privacy, name)


def _problems(loss: Any, privacy: Any) -> Iterator[Any]:
    """Linear models that are small enough for every method, or wide enough: columns with bounds, rows with one."""
    from dpconvex.privacy import Unit
    from dpconvex.problems import DataDomain
    from dpconvex.problems.linear.problem import LinearModelProblem

    many = 10 if privacy.unit == Unit.USER else None
    for domain in (DataDomain.box(1, 0.5), DataDomain.box(5, 0.5), DataDomain.l2_ball(100, 1.0)):
        yield LinearModelProblem(loss, domain.with_intercept(), N, 2.0, records_per_user=many)


def _found(planner: Callable[..., Any], *facts: Any) -> tuple[Any, ...]:
    from dpconvex.errors import InvalidParameterError

    try:
        return planner(*facts)
    except InvalidParameterError:
        return ()


REGISTRIES: dict[str, tuple[str, str, Callable[[str, Any], Iterator[Any]]]] = {
    "Linear models": ("erm.registry", "ERM_METHODS", _linear_plans),
    "Linear models with heavy tails": ("erm.heavy_tailed.registry", "HEAVY_METHODS", _heavy_plans),
    "Sparse models: minimizers over a simplex or an l1 ball": ("minimax.registry", "SPARSE_METHODS", _sparse_plans),
    "Worst groups and games: saddle points": ("minimax.registry", "SADDLE_METHODS", _saddle_plans),
    "Synthetic tables and queries": ("queries.registry", "QUERY_METHODS", _query_plans),
}
"""For each kind of problem: the module and name of its registry, and a function that plans small examples."""


def methods() -> str:
    """Every method that ``algorithm`` may name: what it does, what it promises, whom it protects."""
    text: list[str] = []
    for title, (module, name, planner) in REGISTRIES.items():
        registry = getattr(importlib.import_module(f"dpconvex.algorithms.{module}"), name)
        rows = [(f"`{method}`", *_facts(method, planner)) for method in registry]
        text += [f"**{title}**", "", table(("method", "what it does", "promise", "protects"), rows)]
    return "\n".join(text)


def _facts(method: str, planner: Callable[[str, Any], Iterator[Any]]) -> tuple[str, str, str]:
    """What the method does, its kinds of promise, and its units, from plans of small examples."""
    from dpconvex.privacy import PrivacyParams, Unit
    from dpconvex.privacy.ledger import total_epsilon

    what, promises, units = "", set[str](), set[str]()
    for unit in Unit:
        for delta in (0.0, DELTA):
            for plan in planner(method, PrivacyParams(EPSILON, delta, unit=unit)):
                what = what or (sys.modules[type(plan).__module__].__doc__ or "").partition("\n")[0]
                spends = delta > 0 and total_epsilon(plan.releases, 0.0) > EPSILON
                promises.add("approximate" if spends else "pure")
                units.add(f"{unit}s")
    return what, " or ".join(sorted(promises, reverse=True)), ", ".join(sorted(units))


# --- the papers -------------------------------------------------------------------------------------------------------


def papers() -> str:
    """Every system of the papers: its code, its call, and its measurements beside the theory's numbers."""
    from systems import fidelity, shortcomings, systems

    from dpconvex_experiments import EXPERIMENTS as KNOWN

    text, done = list[str](), 0
    for paper in dict.fromkeys(system.paper for system in systems()):
        rows = list[tuple[str, ...]]()
        for system in (each for each in systems() if each.paper == paper):
            lacks = shortcomings(system, KNOWN)
            done += not lacks
            calls = [f"`{call}`" for call in (system.code.replace(":", "."), system.call) if call]
            calls.append(system.command[1:].strip() if system.command[:1] == "-" else f"`dpconvex {system.command}`")
            found = [_measured(measure, fidelity().get(measure.experiment)) for measure in system.measures]
            status = "done" if not lacks else "partly: " + "; ".join(lacks)
            name = f"**{system.number}**: {system.what}"
            sets = ", ".join(system.constants) or "-"
            rows.append((name, "<br>".join(filter(None, calls)), sets, "<br>".join(found) or "-", status))
        text += [f"## {paper}\n", table(("system", "where, how to call", "constants", "measured", "status"), rows)]
    return "\n".join([f"{done} of {len(systems())} are done.\n", *text])


def _measured(measure: Any, found: Mapping[str, Any] | None) -> str:
    """The measured numbers at every seed, and what theory says of them."""
    checks = [seed["checks"].get(measure.check) for seed in found["seeds"].values()] if found else []
    numbers = ", ".join(f"{c['value']:.3g}" + (f" ± {c['error']:.1g}" if c["error"] else "") for c in checks if c)
    form = " (quick form)" if found and found["quick"] else ""
    return f"`{measure.experiment}`{form}, {measure.check}: {numbers or 'not recorded'} (theory: {measure.theory})"


# --- intervals: what `benchmarks/intervals.py --out` has measured -----------------------------------------------------

CELLS = {
    "S1": "S1: logistic, 5 columns",
    "S2": "S2: logistic, rare levels, a collinear pair, 12 columns",
    "A6": "A6: Adult income, 17 columns, levels down to .07 %",
    "HU": "HU: pseudo-Huber, Adult hours, 9 columns",
    "S5": "S5: pseudo-Huber, S2's columns, heavy tails",
    "LS": "LS: least squares, S2's columns, unequal variances",
    "AD": "AD: additive logistic, 3 columns at 4 knots",
    "AA": "AA: additive logistic, Adult income, 3 columns at 4 knots",
    "U1": "U1: logistic, users with an effect of their own",
    "UW": "UW: pseudo-Huber, wages of women over years, users",
}


def measured_intervals() -> list[dict[str, Any]]:
    """Rows of the file in the order of the tables, sizes and budgets."""
    lines = (ROOT / "benchmarks" / "results" / "intervals.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        name, n, epsilon = row["cell"].split(":")
        row |= {"table": name, "n": int(n), "epsilon": float(epsilon)}
    return sorted(rows, key=lambda row: ([*CELLS].index(row["table"]), row["delta"], row["n"], row["epsilon"]))


def interval_table() -> str:
    """Markdown of all cells."""
    shown = []
    for row in measured_intervals():
        rates = ", ".join(f"{row[key]:.3f}".lstrip("0") for key in ("worst", "median", "best", "worst_finite"))
        width = f"{row['width']:.2f} ({row['widest']:.2f})" if row["finite"] else "-"
        cell = f"{row['n']:,}, {row['epsilon']:g}" + ", 1e-6" * bool(row["delta"])
        finite = f"{row['finite']:.0f} of {row['of']:.0f}"
        shown.append((CELLS[row["table"]], cell, finite, rates if row["finite"] else "all infinite", width))
    return table(("table", "n, ε, δ", "finite", "coverage: worst, median, best; worst given finite", "width"), shown)


def interval_picture() -> str:
    """Markdown that holds the widths over n epsilon."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes, colors = figure.subplots(), dict(zip(CELLS, mpl.colormaps["tab10"].colors, strict=False))
    for row in measured_intervals():
        if row["finite"]:
            face = "none" if row["delta"] else colors[row["table"]]
            axes.plot(row["n"] * row["epsilon"], row["width"], "o", mec=colors[row["table"]], mfc=face)
    for name, color in colors.items():
        axes.plot([], [], "o", color=color, label=name)
    axes.plot([], [], "o", color="gray", mfc="none", label="δ = 1e-6")
    for level in (1.25, 1.4):
        axes.axhline(level, color="gray", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="n ε", ylabel="width over the oracle's")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_yticks([1, 1.25, 1.4, 2, 3, 5, 8], minor=False)
    axes.minorticks_off()
    axes.legend(ncols=2, fontsize=8)
    return drawn(figure)


def rows_of(page: str, section: str) -> list[list[str]]:
    """Cells of the first table below a heading of a page, without the rows above its line."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").split(f"\n## {section}\n", 1)[1]
    table = text[text.index("\n|---") + 1 :].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


def user_picture() -> str:
    """Markdown that holds what is lost on twelve tables of users, as a share of a constant's loss."""
    from matplotlib.figure import Figure

    epsilons, floor = (0.1, 0.3, 1, 3), 0.0002
    ours, peer = (np.zeros(len(epsilons)) for _ in range(2))
    rows = rows_of("algorithms/users_measured.md", "Twelve tables")
    for _, constant, *cells in rows:
        losses = [max(float(cell.split()[0]), floor) / float(constant) for cell in cells]
        ours += np.log(losses[::2]) / len(rows)
        peer += np.log(losses[1::2]) / len(rows)
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.axhline(1, color="gray", linestyle=":", label="the best constant")
    axes.plot(epsilons, np.exp(peer), "s--", color="#d55e00", label="DP-SGD on users, best of six settings")
    axes.plot(epsilons, np.exp(ours), "o-", color="#0072b2", label="dpconvex, automatic")
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="excess over a constant's")
    axes.set_xticks(epsilons, [f"{each:g}" for each in epsilons])
    axes.minorticks_off()
    axes.legend(fontsize=9, frameon=False)
    return drawn(figure)


def range_picture() -> str:
    """Markdown that holds what looks at declared ranges of targets gain, by how wide these are."""
    from matplotlib.figure import Figure

    epsilons = ("0.1", "0.3", "1", "3")
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.axhline(1, color="gray", linestyle=":", label="no look")
    marks = zip(rows_of("algorithms/private_ranges.md", "Looks at targets, measured"), "os^D", strict=True)
    for (name, *cells), mark in marks:
        axes.plot(epsilons, [float(cell) for cell in cells[: len(epsilons)]], f"{mark}-", label=name.split(" (")[0])
    axes.set(ylim=(0, 1.05), xlabel="epsilon", ylabel="excess over that without")
    axes.legend(fontsize=9, frameon=False, title="range of the target", loc="upper left", bbox_to_anchor=(1, 1))
    return drawn(figure)


def numbers() -> str:
    """Every number that was chosen by measurements, by module: value, meaning, and the script where one is named."""
    text: list[str] = []
    for path in sorted((ROOT / "src" / "dpconvex").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        found = list(_chosen(ast.parse(source), source.split("\n")))
        if found:
            name = path.relative_to(ROOT / "src" / "dpconvex").as_posix()
            text += [f"**{name}**: {purpose(house.Source(path)).rstrip('.')}.", ""]
            text += [f"{each[2]}\n" for each in found if not each[0]]
            text += [table(("number", "value", "what it is"), (each for each in found if each[0])), ""]
    return "\n".join(text)


def _chosen(tree: ast.Module, lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Names, values and meanings of a module: fields of its `TUNINGS`, and constants that name their script."""
    for node, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef) and node.name in TUNINGS:
            script = " ".join((ast.get_docstring(node) or "").split())
            yield "", "", script.replace("``", "`")
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and each.value]
            yield from ((f"`{_target(each)}`", _value(each), _remark(each, lines)) for each in fields)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _target(node).isupper() and node.value:
            said = _remark(node, lines)
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                said = " ".join([said, *str(following.value.value).split()]).strip()
            if "benchmarks/" in said and not isinstance(node.value, ast.Call):
                yield f"`{_target(node)}`", _value(node), said


def _target(node: Any) -> str:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return ", ".join(each.id for each in getattr(target, "elts", [target]) if isinstance(each, ast.Name))


def _value(node: Any) -> str:
    value = " ".join(ast.unparse(node.value).split())
    return value if len(value) < 100 else "a table (source)"


def _remark(node: ast.stmt, lines: list[str]) -> str:
    """The comment at the end of a statement, or the ones above it."""
    last = lines[(node.end_lineno or node.lineno) - 1]
    beside = last.partition("  #")[2].lstrip(": ")
    above, k = list[str](), node.lineno - 2
    while not beside and lines[k].strip().startswith("#"):
        above.insert(0, lines[k].strip().lstrip("#: "))
        k -= 1
    return (beside or " ".join(above)).replace("|", "\\|")


TUNINGS = ("Tuning", "BoundTuning", "Guess")
"""Names of the classes whose fields are numbers that were chosen by measurements."""

GENERATED: dict[str, Callable[[], str]] = {
    "interval_table": interval_table,
    "interval_picture": interval_picture,
    "user_picture": user_picture,
    "range_picture": range_picture,
    "picture": picture,
    "rooms": rooms,
    "crossings": crossings,
    "rules": rule_list,
    "methods": methods,
    "numbers": numbers,
    "papers": papers,
}
"""The functions that return a block of Markdown, by the name of the block in the pages."""


def figure_style(gallery_conf: object, file: object) -> None:
    """Give every example the same figures: colors that all can tell apart, letters that a thumbnail keeps."""
    import matplotlib as mpl

    colors = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"]
    mpl.rcParams.update(
        {
            "font.size": 12,
            "legend.fontsize": 10,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": mpl.cycler(color=colors),
        }
    )


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print(GENERATED[wanted]())
