"""What plans expect of ordinary data: settings of the guess compared on the learning tables of the corpus.

    python benchmarks/prior.py [--seeds 5] [--rows 20000] [--tables NAME ...] [--half learning] [--json FILE]
    python benchmarks/prior.py --numbers --seeds 2 --json FILE

Training excess of ``algorithm="auto"`` by setting of `problems/linear/expected_risk.py` (`Tuning`) and of the caution
toward delta (`algorithms/erm/registry.py`), relative to today's: geometric means over tables and budgets, the worst
cell, how often a fit is worse than 1.1 times a constant, and what is left of the gain when each table is judged by the
setting that is best on the *others*. With ``--numbers``: pure, regressions alone, those of the half and
`corpus.MORE_NUMBERS`, by what their columns are expected to explain. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

import corpus
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.two_stage import constant
from dpconvex.errors import DpconvexWarning
from dpconvex.problems.linear import expected_risk

TODAY, REMAINS = expected_risk.ORDINARY, constant.REMAINS
CAUTION = registry.CAUTION, registry.OF_NUMBERS
SETTINGS = {
    "length 1, residuals .15, caution 1": {"squared_length": 1.0, "residual_deviation": 0.15, "caution": 1.0},
    "length 1": {"squared_length": 1.0},
    "length .6": {"squared_length": 0.6},
    "length .25": {"squared_length": 0.25},
    "residuals .07": {"residual_deviation": 0.07},
    "residuals .15": {"residual_deviation": 0.15},
    "caution 1": {"caution": 1.0},
    "caution 1.25": {"caution": 1.25},
    "caution 2": {"caution": 2.0},
    "residuals in a part .1": {"residual_in_part": 0.1},
    "variance .05": {"numeric_variance": 0.05},
    "variance .2": {"numeric_variance": 0.2},
    "means .05": {"numeric_squared_mean": 0.05},
    "means .2": {"numeric_squared_mean": 0.2},
    "binary .4": {"binary_variance": 0.4},
    "binary .8": {"binary_variance": 0.8},
}
NUMBERS = {
    "in proportion to columns": {"explained_variance": 0.0, "remains": 0.25},
} | {
    f"explained {variance:g}, power {power:g}, remains {share:g}": {
        "explained_variance": variance, "explained_power": power, "remains": share,
    }
    for variance, power, share in (
        (0.008, 0, 1), (0.008, 0.5, 1), (0.006, 0, 0.5), (0.006, 0.5, 0.5), (0.006, 0, 0.3), (0.006, 1, 0.3),
    )
}  # fmt: skip
BUDGETS = tuple(product((0.1, 0.3, 1.0, 3.0), (0.0, 1e-6)))
FLOOR, TOLERATED = 1e-9, 1.1  # Of an excess; of a constant's


def use(setting: dict[str, float]) -> None:
    """Let all plans expect that."""
    chosen = dict(setting)
    own = (chosen.pop("caution"),) * 2 if "caution" in chosen else CAUTION
    registry.CAUTION, registry.OF_NUMBERS = own
    constant.REMAINS = {**REMAINS, "regression": chosen.pop("remains", REMAINS["regression"])}
    guess = replace(TODAY, **chosen)
    for module in forget():
        if hasattr(module, "ORDINARY"):
            module.ORDINARY = guess


def forget() -> list:
    """Clear what plans remember, and return the modules of the package."""
    found = [module for name, module in list(sys.modules.items()) if name.startswith("dpconvex")]
    for module in found:
        for value in list(vars(module).values()):
            getattr(value, "cache_clear", lambda: None)()
    return found


def measured(
    name: str, rows: int, seeds: int, settings: dict[str, dict[str, float]], budgets: tuple[tuple[float, float], ...]
) -> dict[str, list[tuple[float, float]]]:
    """Return mean excess and its ratio to a constant's, by setting, one pair a budget."""
    table = corpus.load(name)
    table = replace(table, X=table.X[:rows], y=table.y[:rows], frame=None)
    found = {}
    for label, setting in {"today": {}, **settings}.items():
        use(setting)
        lines = [corpus.measure(table, epsilon, delta, seeds) for epsilon, delta in budgets]
        means = [max(float(np.mean(line["measured"])), FLOOR) for line in lines]
        found[label] = [(mean, mean / line["constant"]) for mean, line in zip(means, lines, strict=True)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000, help="records of a table, at most")
    parser.add_argument("--half", choices=("learning", "held_out"), default="learning")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--numbers", action="store_true", help="regressions, pure, by what columns explain")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    half = corpus.LEARNING if given.half == "learning" else corpus.HELD_OUT
    names = given.tables or [name for name in half if name not in corpus.MANY_CLASSES]
    settings, budgets = SETTINGS, BUDGETS
    if given.numbers:
        settings, budgets = NUMBERS, tuple(pair for pair in BUDGETS if pair[1] == 0)
        regressions = [name for name in half if len(corpus.RECIPES[name].target.split()) > 1]
        names = given.tables or [*regressions, *corpus.MORE_NUMBERS]
    every = {}
    for name in names:
        every[name] = measured(name, given.rows, given.seeds, settings, budgets)
        print(name, "measured", flush=True)
        if given.json:
            given.json.write_text(json.dumps(every, indent=1) + "\n")
    pure = np.array([delta == 0 for _, delta in budgets])
    excess = {label: np.array([cells[label] for cells in every.values()]) for label in ("today", *settings)}
    logs = {label: np.log(found[..., 0] / excess["today"][..., 0]) for label, found in excess.items()}
    for label, log in sorted(logs.items(), key=lambda each: each[1].mean()):
        bad = np.mean(excess[label][..., 1] > TOLERATED)
        parts = {"pure": pure, "delta": ~pure}
        shown = ", ".join(f"{part} {np.exp(log[:, own].mean()):.3f}" for part, own in parts.items() if own.any())
        print(
            f"{label:36s} geometric mean {np.exp(log.mean()):.3f} ({shown}), worst {np.exp(log.max()):.2f}, "
            f"worse than a constant {bad:.1%}"
        )
    first = logs[next(iter(settings))]
    left_out = []
    for k in range(len(names)):
        chosen = min(logs, key=lambda label: np.delete(logs[label], k, axis=0).mean())
        left_out.append((logs[chosen] - first)[k])
    error = np.mean(left_out, axis=1).std(ddof=1) / np.sqrt(len(names)) if len(names) > 1 else np.nan
    gain = f"{np.exp(np.mean(left_out)):.3f} (standard error of the logarithm {error:.3f})"
    print(f"each table by the setting that is best on the others, over the first setting: {gain}")


if __name__ == "__main__":
    main()
