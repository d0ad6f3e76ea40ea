"""Measure the anchors of experiments: what the same measurement gives for seeds that no test and no page uses.

    python tools/anchors.py NAME... [--full] [--seeds 20]

NAME is an experiment, the start of one, or nothing for all. Writes src/dpconvex_experiments/anchors.json, where entries
of other experiments and sizes stay. With eight seeds or more a number's spread is its deviation from seed to seed; with
fewer it is the standard error that each run states itself.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from importlib.resources import files

import numpy as np

from dpconvex_experiments import EXPERIMENTS, Check, Setting
from dpconvex_experiments.checks import Anchors

FIRST, MANY = 1_000, 8
PATH = files("dpconvex_experiments") / "anchors.json"


def main() -> None:
    """Run, and write after each experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[""])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    Anchors.known = property(lambda self: True)  # pyright: ignore[reportAttributeAccessIssue] - all are wanted
    for name, experiment in EXPERIMENTS.items():
        if not name.startswith(tuple(options.names)):
            continue
        start = time.process_time()
        found: dict[str, list[Check]] = defaultdict(list)
        for seed in range(FIRST, FIRST + options.seeds):
            outcome = experiment.measure(Setting(quick=not options.full, seed=seed))
            for key, check in {check.name: check for check in outcome.checks if check.scale}.items():
                found[key].append(check)
            if not found:
                break
        print(f"{name}: {len(found)} anchors, {time.process_time() - start:.0f} s", flush=True)
        if found:
            anchors = json.loads(PATH.read_text(encoding="utf-8"))
            size = "full" if options.full else "quick"
            anchors.setdefault(name, {})[size] = {key: anchor(checks) for key, checks in found.items()}
            PATH.write_text(text(anchors), encoding="utf-8")  # pyright: ignore[reportAttributeAccessIssue]


def anchor(checks: list[Check]) -> list[float]:
    """Return value, spread, degrees of freedom, seeds: see `dpconvex_experiments.checks.Anchor`."""
    values = np.array([check.value for check in checks])
    log = checks[0].scale == "log"
    if log:
        values = np.log(np.maximum(values, 1e-300))
    if len(checks) >= MANY:
        spread, freedom = float(values.std(ddof=1)), len(checks) - 1
    else:
        errors = np.array([check.error / check.value if log else check.error for check in checks])
        spread, freedom = float(np.sqrt(np.mean(errors**2))), max(1, sum(check.runs - 1 for check in checks))
    middle = float(values.mean())
    return [float(f"{np.exp(middle) if log else middle:.4g}"), float(f"{spread:.3g}"), freedom, len(checks)]


def text(anchors: dict[str, dict[str, dict[str, list[float]]]]) -> str:
    """Return JSON with one line for each anchor."""
    blocks = []
    for name in sorted(anchors):
        sizes = []
        for size, entries in sorted(anchors[name].items()):
            lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(entry)}" for key, entry in entries.items())
            sizes.append(f'"{size}": {{\n{lines}}}')
        blocks.append(f"{json.dumps(name)}: {{\n" + ",\n".join(sizes) + "}")
    return "{" + ",\n".join(blocks) + "}\n"


if __name__ == "__main__":
    main()
