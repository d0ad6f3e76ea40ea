"""Measure what the rows of ``systems.toml`` name, at three seeds, and write ``fidelity.json``.

    python tools/fidelity.py [NAME...] [--quick NAME...] [--records FOLDER]

NAME is the start of an experiment's name; without any NAME all experiments of the rows are run. Experiments named after
``--quick`` run in their quick form. Results that are already in the file stay unless they are measured again. With
``--records FOLDER`` records that ``dpconvex reproduce NAME --seed SEED --out FOLDER/SEED`` wrote are read where they
exist, and these experiments are not run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from systems import SEEDS, systems

from dpconvex_experiments import EXPERIMENTS, Setting, run_experiment

PATH = Path(__file__).with_name("fidelity.json")
KEPT = ("value", "error", "runs", "low", "high", "basis", "passed")


def main() -> None:
    """Run or read, and write after each experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--quick", nargs="*", default=[])
    parser.add_argument("--records", type=Path)
    options = parser.parse_args()
    wanted = {measure.experiment for system in systems() for measure in system.measures}
    for name in sorted(wanted & EXPERIMENTS.keys()):
        quick = any(name.startswith(start) for start in options.quick)
        if not quick and not name.startswith(tuple(options.names) or ("",)):
            continue
        found = [record(name, seed, quick=quick, folder=options.records) for seed in SEEDS]
        if all(found):
            known = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}  # others may have written
            known = {other: kept for other, kept in known.items() if other in wanted}
            known[name] = entry(name, [each for each in found if each])
            PATH.write_text(text(known), encoding="utf-8")
            print(name, [each["passed"] for each in found if each], flush=True)


def record(name: str, seed: int, *, quick: bool, folder: Path | None) -> dict[str, Any] | None:
    """Return the record of a run; None if it should be read from a file that does not exist."""
    if folder is None:
        return run_experiment(EXPERIMENTS[name], Setting(quick=quick, seed=seed)).to_dict()
    path = folder / str(seed) / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def entry(name: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the rows need of an experiment's runs; if two checks share a name, the two-sided one is taken."""
    asked = {measure.check for system in systems() for measure in system.measures if measure.experiment == name}
    seeds = {}
    for run in records:
        checks: dict[str, Any] = {}
        for check in run["checks"]:
            two_sided = check["low"] is not None and check["high"] is not None
            if check["name"] in asked and (two_sided or check["name"] not in checks):
                checks[check["name"]] = {key: _short(check[key]) for key in KEPT}
        seeds[str(run["seed"])] = {"passed": run["passed"], "seconds": round(run["seconds"]), "checks": checks}
    return {"quick": records[0]["quick"], "seeds": seeds}


def text(known: dict[str, Any]) -> str:
    """Return JSON with one line for each seed."""
    blocks = []
    for name, found in sorted(known.items()):
        lines = ",\n".join(f'  "{seed}": {json.dumps(run)}' for seed, run in found["seeds"].items())
        blocks.append(f'"{name}": {{"quick": {json.dumps(found["quick"])}, "seeds": {{\n{lines}}}}}')
    return "{" + ",\n".join(blocks) + "}\n"


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
