"""Plant privacy bugs in copies of the package, and record which detector catches each: audit, tests, verifier.

    python tools/mutants.py [--only WORD] [--out docs/mutants.md]

Each mutant replaces one piece of source text in a temporary copy. Detectors: exact losses (`audit` without counting),
counting (`audit` without exact losses), the named tests, and `verify`, run from the unchanged package on the
certificate that the mutant writes. Exit code 1 if some mutant is caught by none. Takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
DETECTORS = ("exact losses", "counting", "tests", "verifier")
CONTRACT = "tests/contracts/test_mechanisms.py"
CERTIFICATE = """
from dpconvex.audit.catalogue import TARGETS
from dpconvex.randomness import SystemSource
print(TARGETS[{target!r}].subject({epsilon}, 0.05, {bound}).plan.certificate(SystemSource()).to_json())
"""


@dataclass(frozen=True)
class Mutant:
    """What is replaced by what, which audit attacks it, and which tests are about it."""

    name: str
    file: str
    old: str
    new: str
    target: str
    tests: tuple[str, ...]
    epsilon: float = 1.0
    bound: float = 1.0


OUTPUT = "algorithms/output_perturbation"
MUTANTS = (
    Mutant(
        "noise halved in the sampler",
        "mechanisms/norm_noise.py",
        "self.norm, self.scale, self.step, source)",
        "self.norm, self.scale / 2, self.step, source)",
        "output_perturbation",
        ("tests/statistical/test_samplers.py", "-k", "scale_their_noise"),
    ),
    Mutant(
        "noise halved in the calibration",
        "mechanisms/norm_noise.py",
        "_rounding.ratio_up(self.sensitivity.value, self.epsilon)",
        "_rounding.ratio_up(self.sensitivity.value, 2 * self.epsilon)",
        "output_perturbation",
        (CONTRACT,),
    ),
    Mutant(
        "sensitivity without its factor 2",
        f"{OUTPUT}/sensitivity.py",
        "return problem.contrast / l2",
        "return problem.contrast / 2 / l2",
        "output_perturbation",
        ("tests/statistical/test_audit_algorithms.py", "-k", "output_perturbation"),
    ),
    Mutant(
        "feature bound not squared in the curvature",
        "problems/linear_model.py",
        "_rounding.ratio_up(_rounding.product_up(self.domain.l2, self.domain.l2), ",
        "_rounding.ratio_up(self.domain.l2, ",
        "objective_perturbation/curved",
        ("tests/contracts/test_algorithms.py", "-k", "verify_unless"),
        bound=100.0,
    ),
    Mutant(
        "a phase released without noise",
        "algorithms/heavy_tailed/run.py",
        "noisy = mechanism.release(solved, entry.label, source, ledger, entry.block)",
        "noisy = solved",
        "heavy_tailed",
        ("tests/unit/algorithms/test_heavy_tailed.py",),
    ),
    Mutant(
        "a phase left out of the list of releases",
        "algorithms/baselines/exponential_mechanism/localised.py",
        "return (self.centre.planned(CENTRE), self.choice.planned(CHOICE))",
        "return (self.choice.planned(CHOICE),)",
        "exponential_mechanism/localised",
        ("tests/unit/algorithms/test_exponential_localised.py",),
    ),
    Mutant(
        "features not clipped",
        "problems/records.py",
        "clipped = domain.clip(part)",
        "clipped = np.asarray(part, dtype=np.float64)",
        "output_perturbation",
        ("tests/unit/problems/test_records.py",),
    ),
    Mutant(
        "regularisation from the data",
        f"{OUTPUT}/run.py",
        "plan.problem.objective(X, y, plan.l2, groups)",
        "plan.problem.objective(X, y, plan.l2 * (1.5 - float((y > 0).mean())), groups)",
        "output_perturbation",
        ("tests/contracts/test_public_constants.py", "-k", "output_perturbation"),
    ),
    Mutant(
        "projection scaled by the data",
        "algorithms/random_projection.py",
        "P = projection(len(self.wide), self.columns, source)",
        "P = projection(len(self.wide), self.columns, source) * np.std(self.problem.domain.clip(X)[:, self.wide], 0)",
        "random_projection",
        ("tests/unit/algorithms/test_random_projection.py", "-k", "source_alone"),
    ),
    Mutant(
        "solver accuracy ignored",
        f"{OUTPUT}/schedules.py",
        "_rounding.sum_up((sensitivity, r, r))",
        "sensitivity",
        "output_perturbation/worst_solver",
        ("tests/unit/algorithms/test_schedules.py",),
    ),
    Mutant(
        "misprint P2: sigma too small by the root of 2",
        "mechanisms/gaussian.py",
        "(math.sqrt(2) * epsilon)",
        "(2 * epsilon)",
        "output_perturbation/paper_gaussian",
        ("tests/unit/mechanisms/test_additive_noise.py",),
    ),
    Mutant(
        "misprint P3: accuracy enters as 2 alpha / mu",
        f"{OUTPUT}/schedules.py",
        "_rounding.sum_up((sensitivity, r, r))",
        "_rounding.sum_up((sensitivity, r * r))",
        "output_perturbation/worst_solver_gaussian",
        ("tests/unit/algorithms/test_schedules.py",),
    ),
    Mutant(
        "seeds reused",
        "randomness/source.py",
        'int.from_bytes(os.urandom(32), "little")',
        "7",
        "output_perturbation",
        ("tests/unit/randomness/test_source.py",),
    ),
    Mutant(
        "ledger entry omitted",
        "mechanisms/base.py",
        "ledger.record(self.planned(label, block))",
        "pass",
        "output_perturbation",
        (CONTRACT,),
    ),
    Mutant(
        "certificate understates what was spent",
        "privacy/certificate.py",
        "spent_epsilon=spent,",
        "spent_epsilon=spent / 2,",
        "output_perturbation",
        ("tests/unit/privacy/test_certificate.py",),
    ),
)


def main() -> int:
    """Run all mutants, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name holds this word")
    parser.add_argument("--out", type=Path, help="Markdown file for the table")
    options = parser.parse_args()
    rows = []
    for mutant in MUTANTS:
        if options.only in mutant.name:
            with tempfile.TemporaryDirectory() as folder:
                rows.append((mutant.name, detected(mutant, Path(folder))))
            print(rows[-1], flush=True)
    text = table(rows)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    return int(any(not any("caught" in verdict for verdict in verdicts) for _, verdicts in rows))


def detected(mutant: Mutant, folder: Path) -> tuple[str, ...]:
    """Return what each detector says."""
    shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "src" / "dpconvex" / mutant.file
    text = file.read_text(encoding="utf-8")
    if mutant.old not in text:
        raise SystemExit(f"{mutant.name}: {mutant.file} no longer holds {mutant.old!r}")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    source = folder / "src"
    audit = ["-m", "dpconvex", "audit", mutant.target, "--epsilon", str(mutant.epsilon), "--json"]
    audit += ["--feature-norm", str(mutant.bound)]
    found = [_verdict(run(source, *audit, *more)) for more in EXACT_THEN_COUNTING]
    tests = run(source, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests)
    found.append("caught" if tests.returncode == 1 else "-" if tests.returncode == 0 else "?")
    if (
        found[-1] == "caught"
        and run(SOURCE, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests).returncode
    ):
        found[-1] = "fails without it"
    script = CERTIFICATE.format(target=mutant.target, epsilon=mutant.epsilon, bound=mutant.bound)
    written = run(source, "-c", script)
    path = folder / "certificate.json"
    path.write_text(written.stdout, encoding="utf-8")
    if written.returncode or mutant.target.startswith("mechanism/"):
        found.append("no certificate")
    else:
        found.append("caught" if run(SOURCE, "-m", "dpconvex", "verify", str(path)).returncode else "-")
    return tuple(found)


LONGEST, TOO_LONG = 300, 124
"""Seconds for one detector, and the exit code of one that takes longer."""
EXACT_THEN_COUNTING = (
    ("--runs", "0", "--transcripts", "40", "--seconds", "8"),
    ("--transcripts", "0", "--runs", "800", "--seconds", "8"),
)


def _verdict(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode in (0, TOO_LONG):
        return "-" if done.returncode == 0 else "too long"
    if done.returncode == 2 and "error:" in done.stderr:
        return "caught: run refused"
    return "caught" if '"passed": false' in done.stdout else "caught: run fails"


def run(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with this copy of the package before all others."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    try:
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, TOO_LONG, "", "")


def table(rows: list[tuple[str, tuple[str, ...]]]) -> str:
    """Return the table in Markdown."""
    lines = ["| planted mistake | " + " | ".join(DETECTORS) + " |", "|---" * (len(DETECTORS) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(verdicts) + " |" for name, verdicts in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
