"""docs/adding_a_part.md, word for word: its parts in a copy of the library, and its method in a package of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```python\n# src/(\S+)\n(.*?)```", re.S)
LINES = {  # the one line of the page's text, as imports and tuples have it: file, after what, what
    "losses/__init__.py": [
        ('then check it.\n"""\n', "from dpconvex.losses.arctan import ArctanLoss\n"),
        ("LOSSES: tuple[type[LinearModelLoss], ...] = (\n", "    ArctanLoss,\n"),
        ("__all__ = [\n", '    "ArctanLoss",\n'),
    ],
    "mechanisms/__init__.py": [
        ('samples."""\n', "from dpconvex.mechanisms.geometric import GeometricMechanism\n"),
        ("__all__ = [\n", '    "GeometricMechanism",\n'),
    ],
    "../instances.py": [  # of the tests
        (
            "INSTANCES: dict[type, tuple[Any, ...]] = {\n",
            "    losses.ArctanLoss: (losses.ArctanLoss(), losses.ArctanLoss(3.0)),\n"
            "    mechanisms.GeometricMechanism: (\n"
            '        mechanisms.GeometricMechanism.calibrate(_measured("absolute"), 0.5),\n'
            '        mechanisms.GeometricMechanism.calibrate(_measured("l1", 2.0), 1.0, 3),\n'
            "    ),\n",
        )
    ],
    "algorithms/erm/registry.py": [
        ("import LinearModelPlan, check_unit, stored\n", "from dpconvex.algorithms.erm import class_share\n"),
        ('Registry(\n    "erm",\n', "    class_share.METHOD,\n"),
    ],
}
USE = """
import json, math, sys
import numpy as np
from typer.testing import CliRunner
from dpconvex import PrivateLogisticRegression, errors, verify
from dpconvex.algorithms.erm.registry import ERM_METHODS, plans
from dpconvex_experiments.audit import audit
from dpconvex_experiments.audit.targets import TARGETS
from dpconvex.cli.main import app
from dpconvex.errors import HopelessPlanWarning
import warnings

warnings.simplefilter("ignore", HopelessPlanWarning)
assert "class_share" in ERM_METHODS
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (4000, 2))
y = np.where(rng.random(4000) < 0.8, "yes", "no")
model = PrivateLogisticRegression(
    1.0, feature_bounds=(-1, 1), classes=["no", "yes"], coefficient_norm=9.0, algorithm="class_share"
).fit(X, y)
assert abs(model.predict_proba(X)[0, 1] - np.mean(y == "yes")) < 0.01
assert model.certificate_.algorithm == "class_share"
assert (model.coef_ == 0).all()
checked = verify(model.certificate_)
assert checked.passed and checked.planned and not checked.unknown and not checked.unconfirmed, checked
assert "class_share" in {plan.algorithm for plan in plans(model.plan_.problem, model.plan_.privacy)}  # auto knows it
assert not plans.cache_clear()
forged = model.certificate_.to_json().replace('"scale":1.0', '"scale":0.5').replace('"scale": 1.0', '"scale": 0.5')
assert forged != model.certificate_.to_json() and not verify(forged).passed
try:
    PrivateLogisticRegression(
        1.0, feature_bounds=(-1, 1), classes=["no", "yes"], algorithm="class_share", noise="l2"
    ).plan(100, 2)
    raise AssertionError("a noise that it has not")
except errors.InvalidParameterError as error:
    assert "class_share" in str(error)
subject = TARGETS["class_share"].subject(1.0, 0.0, 1.0)
report = audit(subject.plan, subject.pairs, output=subject.output, runs=0, transcripts=40, title="class_share")
assert report.passed and report.proved_at_least > 0.99, report
ran = CliRunner().invoke(app, ["audit", "class_share", "--json"])
assert ran.exit_code == 0 and json.loads(ran.stdout), ran.output
ran = CliRunner().invoke(app, ["audit", "--list"])
assert "class_share" in ran.stdout
"""


def blocks() -> dict[str, str]:
    """Text by path below src/ of the page's complete files."""
    return dict(BLOCK.findall((ROOT / "docs" / "adding_a_part.md").read_text(encoding="utf-8")))


def python(*words: str, path: list[Path], seconds: float = 500) -> None:
    """Run Python with these folders in front of all others."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-6000:]


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the library with the page's loss, mechanism and method."""
    source = tmp_path_factory.mktemp("copy") / "src"
    shutil.copytree(ROOT / "src", source)  # with its caches, whose files have the times of their sources
    shutil.copy(ROOT / "tests" / "instances.py", source)
    for name, text in blocks().items():
        (source / name).write_text(text, encoding="utf-8")
    for name, lines in LINES.items():
        file = source / "dpconvex" / name
        text = file.read_text(encoding="utf-8")
        for before, added in lines:
            assert text.count(before) == 1, f"{name} must hold {before!r} once"
            text = text.replace(before, before + added)
        file.write_text(text, encoding="utf-8")
    return source


def test_the_page_holds_one_file_a_part() -> None:
    assert list(blocks()) == [
        "dpconvex/losses/arctan.py",
        "dpconvex/mechanisms/geometric.py",
        "dpconvex/algorithms/erm/class_share.py",
    ]


@pytest.mark.gate
def test_a_method_of_the_library_is_a_file_and_a_line(copy) -> None:
    python("-c", USE, path=[copy])


@pytest.mark.slow
def test_a_method_of_another_distribution_is_found_by_its_entry_point(tmp_path) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name in ("mechanisms/geometric.py", "algorithms/erm/class_share.py"):
        text = blocks()[f"dpconvex/{name}"].replace("dpconvex.mechanisms.geometric", "my_package.geometric")
        (package / name.rpartition("/")[2]).write_text(text, encoding="utf-8")
    installed = tmp_path / "my_package-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    table = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "adding_a_part.md").read_text(encoding="utf-8"), re.S)
    assert table is not None
    (installed / "entry_points.txt").write_text(re.sub(r'project\.entry-points\.|"', "", table[1]))
    python("-c", USE, path=[tmp_path, ROOT / "src"])


@pytest.mark.gate
@pytest.mark.parametrize(
    ("files", "words"),
    [
        pytest.param(["losses"], "Arctan", marks=pytest.mark.slow),
        pytest.param(["mechanisms"], "Geometric", marks=pytest.mark.slow),
        (
            ["audits", "certificates", "algorithms"],
            "(class_share and not test_algorithms) or every_algorithm or LogisticLoss",
        ),
    ],
    ids=["loss", "mechanism", "method"],
)
def test_the_contract_tests_pass_on_the_parts(copy, files, words) -> None:
    tests = [f"tests/contracts/test_{name}.py" for name in files]
    helpers = f"pythonpath={copy} tests tools"  # the copy's instances first
    python("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", helpers, *tests, "-k", words, path=[copy])
