"""Compare settings of what plans expect of ordinary data, on the learning tables of the corpus.

    python benchmarks/prior.py [--seeds 5] [--rows 20000] [--tables NAME ...] [--half learning] [--json FILE]
    python benchmarks/prior.py --numbers --seeds 2 --json FILE
    python benchmarks/prior.py --links --rows 10000
    python benchmarks/prior.py --shrunk --rows 10000 --seeds 4

Settings are those of `problems/linear/expected_risk.py` (`Tuning`) and of the caution toward delta
(`algorithms/erm/registry.py`). Measured is the training excess of ``algorithm="auto"`` relative to today's setting.
Printed for each setting: the geometric mean over tables and budgets, the worst cell, and how often a fit's excess is
above 1.1 times a constant's. The last line judges each table by the setting that is best for all *other* tables.

With ``--numbers`` only regressions are fitted (of the half and of `corpus.MORE_NUMBERS`), under pure epsilon; settings
are what columns are expected to explain. With ``--links`` tables have two classes and are fitted by schema, under pure
epsilon; settings are the power of the slope cap in the link that reads scores, and in the link by which plans price
caps (0: scores are log-odds). With ``--shrunk`` scores of these tables are drawn toward their mean, whose release would
take 3 % of epsilon, by a factor that falls with the loss that a plan expects; this is simulated, as no such method
exists. Fits are seeded, hence not private.
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
from scipy.special import expit

import corpus
from dpconvex import PrivateLogisticRegression
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.two_stage import constant
from dpconvex.errors import DpconvexWarning
from dpconvex.losses import LogisticLoss
from dpconvex.problems.linear import expected_risk
from excess_loss import log_loss, optimum

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
FLOOR, TOLERATED = 1e-9, 1.1
"""Smallest excess that counts; a fit is worse than a constant if its excess is above this multiple of a constant's."""
READ, PRICED = (1.0, 0.75, 0.5, 0.25, 0.0), (0.0, 0.5, 0.75, 1.0)
FACTORS = np.linspace(0.2, 1.0, 9)  #: Factors on the distances of scores from their mean
SHARE, LOSING, HALVES_AT = 0.03, 0.035, (0.05, 0.07, 0.1, 0.15, 0.25)
"""Share of epsilon for the mean; expected loss, as a share of the trivial loss, from which on scores are shrunk; and
expected losses, in the same unit, at which scores are shrunk by a half."""
LEAST = 0.002  #: An excess counts as at least this share of a constant's: smaller differences are noise


def use(setting: dict[str, float]) -> None:
    """Let all plans expect what a setting says, and forget earlier plans."""
    chosen = dict(setting)
    own = (chosen.pop("caution"),) * 2 if "caution" in chosen else CAUTION
    registry.CAUTION, registry.OF_NUMBERS = own
    if "remains" in chosen:
        constant.REMAINS = {**REMAINS, **dict.fromkeys(("explained", "regression"), chosen.pop("remains"))}
    else:
        constant.REMAINS = REMAINS
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
    """Return, by setting, the mean excess and its ratio to a constant's: one pair for each budget."""
    table = corpus.load(name)
    table = replace(table, X=table.X[:rows], y=table.y[:rows], frame=None)
    found = {}
    for label, setting in {"today": {}, **settings}.items():
        use(setting)
        lines = [corpus.measure(table, epsilon, delta, seeds) for epsilon, delta in budgets]
        means = [max(float(np.mean(line["measured"])), FLOOR) for line in lines]
        found[label] = [(mean, mean / line["constant"]) for mean, line in zip(means, lines, strict=True)]
    return found


def links(name: str, rows: int, seeds: int) -> dict[str, list[tuple[float, float]]]:
    """Return, by powers, the mean excess over a constant's, and the rarer class's mean probability over its rate."""
    table = corpus.load(name)
    X, y, frame = table.X[:rows], table.y[:rows].astype(int), table.frame[:rows]
    best, share = optimum(X, y, table.schema.domain().with_intercept(1.0)), y.mean()
    rare, constant = int(share < 0.5), log_loss(np.full(len(y), np.log(share / (1 - share))), y) - best
    found: dict[str, list[tuple[float, float]]] = {}
    for priced in PRICED:
        use({"priced_link": priced})
        for epsilon in (0.1, 0.3, 1.0, 3.0):
            models = [PrivateLogisticRegression(epsilon, schema=table.schema, random_state=k) for k in range(seeds)]
            for model in models:
                model.fit(frame)
            for power in READ:
                cells = []
                for model in models:
                    odds = LogisticLoss(model.slope_cap_**power).log_odds(model.decision_function(frame))
                    cells.append((log_loss(odds, y) - best, expit(odds if rare else -odds).mean()))
                excess, mean = np.mean(cells, 0)
                ratio = max(excess / constant, LEAST), mean / min(share, 1 - share)
                found.setdefault(f"priced {priced:g}, read {power:g}", []).append(ratio)
    return found


def compare_links(names: list[str], rows: int, seeds: int) -> None:
    """Print excess relative to the first pair of powers, by epsilon and in all."""
    every = []
    for name in names:
        every.append(links(name, rows, seeds))
        print(name, "measured", flush=True)
    labels = list(every[0])
    excess = {label: np.log([[cell[0] for cell in each[label]] for each in every]) for label in labels}
    logs = {label: found - excess[labels[0]] for label, found in excess.items()}
    for label, log in logs.items():
        rates = np.exp(np.log([[cell[1] for cell in each[label]] for each in every]).mean(0))
        parts, error = np.exp(log.mean(0)), log.mean(1).std(ddof=1) / len(names) ** 0.5
        total = f"{np.exp(log.mean()):.3f} ({error:.3f}), worst {np.exp(log.max()):.2f}"
        print(f"{label:22s} {total}, by epsilon {np.round(parts, 3)}, rarer class over its rate {np.round(rates, 2)}")
    chosen = [min(logs, key=lambda label, k=k: np.delete(logs[label], k, 0).mean()) for k in range(len(names))]
    left = np.array([logs[label][k].mean() for k, label in enumerate(chosen)])
    print(f"left out: {np.exp(left.mean()):.3f} ({left.std(ddof=1) / len(names) ** 0.5:.3f})", sorted(set(chosen)))


def shrunk(name: str, rows: int, seeds: int) -> list[tuple[float, float, np.ndarray]]:
    """Return, by epsilon, the expected over the trivial loss, and the excess over a constant's, plain and by factor."""
    table = corpus.load(name)
    X, y, frame = table.X[:rows], table.y[:rows].astype(int), table.frame[:rows]
    best, share = optimum(X, y, table.schema.domain().with_intercept(1.0)), y.mean()
    constant, found = log_loss(np.full(len(y), np.log(share / (1 - share))), y) - best, []
    for epsilon in (0.05, 0.1, 0.3, 1.0):
        plain, drawn = [], []
        for seed in range(seeds):
            for left, cells in ((1.0, plain), (1 - SHARE, drawn)):
                model = PrivateLogisticRegression(epsilon * left, schema=table.schema, random_state=seed).fit(frame)
                z, link = model.decision_function(frame), LogisticLoss(model.slope_cap_**TODAY.link)
                if left == 1:
                    error = model.plan_.predicted_error
                    cells.append(log_loss(link.log_odds(z), y) - best)
                    continue
                rng, deviation = np.random.default_rng(seed), z.std()
                # Public moments give three deviations to either side of a middle that is off by one deviation.
                low = np.median(z) + deviation * (rng.choice([-1, 1]) - 3)
                mean = np.clip(z, low, low + 6 * deviation).mean()
                mean += rng.laplace(0, 6 * deviation / (len(z) * epsilon * SHARE))
                mean = np.clip(mean, low, low + 6 * deviation)
                cells.append([log_loss(link.log_odds(mean + f * (z - mean)), y) - best for f in FACTORS])
        cells = np.maximum(np.mean(drawn, 0) / constant, LEAST)
        found.append((error.expected / error.trivial, max(np.mean(plain) / constant, LEAST), cells))
    return found


def compare_shrunk(names: list[str], rows: int, seeds: int) -> None:
    """Print excess relative to scores as they are, by the loss at which they would be halved."""
    every = []
    for name in names:
        every.append(shrunk(name, rows, seeds))
        print(name, *(f"{e:.3f}: {base:.2f}, {np.round(cells, 2)}" for e, base, cells in every[-1]), flush=True)
    on = np.array([[e >= LOSING for e, _, _ in each] for each in every])
    logs = {}
    for half in HALVES_AT:
        at = [[np.interp(1 / (1 + e / half), FACTORS, cells) / base for e, base, cells in each] for each in every]
        logs[half] = log = np.where(on, np.log(at), 0.0)
        total = f"{np.exp(log[on].mean()):.3f} of {on.sum()} cells, worst {np.exp(log.max()):.2f}, all"
        print(f"halved at {half:g}: {total} {np.exp(log.mean()):.3f}, by epsilon {np.round(np.exp(log.mean(0)), 3)}")
    used = np.flatnonzero(on.any(1))
    kept = [min(logs, key=lambda half, k=k: np.delete(logs[half], k, 0)[np.delete(on, k, 0)].mean()) for k in used]
    left = np.array([logs[half][k][on[k]].mean() for half, k in zip(kept, used, strict=True)])
    print(f"left out: {np.exp(left.mean()):.3f} ({left.std(ddof=1) / len(used) ** 0.5:.3f})", sorted(set(kept)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000, help="the largest number of records of a table")
    parser.add_argument("--half", choices=("learning", "held_out"), default="learning")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--numbers", action="store_true", help="pure regressions, by what columns explain")
    parser.add_argument("--links", action="store_true", help="pure fits of two classes, by how scores are read")
    parser.add_argument("--shrunk", action="store_true", help="pure fits of two classes, scores drawn toward the mean")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    half = corpus.LEARNING if given.half == "learning" else corpus.HELD_OUT
    names = given.tables or [name for name in half if name not in corpus.MANY_CLASSES]
    settings, budgets = SETTINGS, BUDGETS
    if given.links or given.shrunk:
        classes = [name for name in names if len(corpus.RECIPES[name].target.split()) == 1]
        return (compare_links if given.links else compare_shrunk)(classes, given.rows, given.seeds)
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
