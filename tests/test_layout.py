"""The house rules that a machine can check: sizes, docstrings, export lists, one version, nothing of this machine."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dpconvex
from dpconvex_experiments.audit.targets import TARGETS

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PART_PACKAGES = ("losses", "sets", "solvers", "mechanisms", "geometry")

MAX_FILE_LINES = {"dpconvex": 450, "dpconvex_experiments": 500}  # a file of experiments holds several of one kind
MAX_BODY_LINES = 60

# Written in pieces, so that this file does not contain what it forbids.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"(?<![\w.])/(?:work|tmp|root|home)" + r"/",
            "files[.]pythonhosted" + "[.]org",
            "pypi[.]org" + "/simple",
            "extra-index" + "-url",
        ]
    )
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def tool(name: str) -> Any:
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house = tool("house")


@cache
def definitions(tree: ast.Module) -> list[Definition]:
    """Every class and function at any depth."""
    return [node for node in ast.walk(tree) if isinstance(node, Definition)]


def public_definitions(body: list[ast.stmt]) -> Iterator[Definition]:
    """Public classes and functions of a module, and the public methods of its public classes."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body)


def body_lines(node: Definition) -> int:
    """Lines of a function below its signature and its docstring."""
    statements = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return (statements[-1].end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def is_overload_or_override(node: Definition) -> bool:
    """Methods that take their documentation from the abstract method they implement."""
    names = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
    return bool(names & {"overload", "override", "setter"})


def test_sizes_stay_within_the_budget() -> None:
    long = []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if (lines := text.count("\n")) > MAX_FILE_LINES[path.relative_to(ROOT / "src").parts[0]]:
            long.append(f"{name_of(path)} has {lines} lines: split it")
        long += [
            f"{name_of(path)}: {node.name} has {body_lines(node)} lines"
            for node in definitions(tree_of(path))
            if not isinstance(node, ast.ClassDef) and body_lines(node) > MAX_BODY_LINES
        ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("package", [name for name in house.PACKAGES if (ROOT / "src" / name).is_dir()])
def test_the_house_stays_small_and_has_no_import_circle(package: str) -> None:
    """Limits stand in tools/house.py, and ``make house`` says more; imports inside functions count."""
    files = [path for path in SOURCES if path.is_relative_to(ROOT / "src" / package)]
    assert sum(path.read_text(encoding="utf-8").count("\n") for path in files) <= house.MAX_LINES[package]
    assert len(files) <= house.MAX_FILES[package]
    assert not house.circles(ROOT, package)


def test_everything_public_is_documented() -> None:
    missing = []
    for path in SOURCES:
        tree = tree_of(path)
        missing += [] if ast.get_docstring(tree) else [f"{name_of(path)}: the module"]
        inherited = inherited_methods(tree)
        missing += [
            f"{name_of(path)}: {node.name}"
            for node in public_definitions(tree.body)
            if not ast.get_docstring(node) and not is_overload_or_override(node) and node not in inherited
        ]
    assert not missing, "\n".join(missing)


def inherited_methods(tree: ast.Module) -> set[Definition]:
    """Methods of classes with a base class: the contract, and its documentation, stand in the base."""
    return {
        method
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.bases
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    }


@pytest.mark.parametrize("package_name", PART_PACKAGES)
def test_every_part_is_exported(package_name: str) -> None:
    """A new part is one file and one export line: a public module that exports nothing is a forgotten line."""
    package = importlib.import_module(f"dpconvex.{package_name}")
    exported = {getattr(getattr(package, name), "__module__", None) for name in package.__all__}
    modules = {
        module.name
        for module in pkgutil.iter_modules(package.__path__, f"dpconvex.{package_name}.")
        if not module.name.rpartition(".")[2].startswith("_")
    }
    assert modules <= exported, f"no export from {sorted(modules - exported)}"


def test_the_public_names_resolve() -> None:
    assert len(set(dpconvex.__all__)) == len(dpconvex.__all__) > 0
    for name in dpconvex.__all__:
        assert getattr(dpconvex, name) is not None


def test_one_version_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = re.search(r"^version: *\"?([^\"\n]+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    changes = re.search(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert citation is not None
    assert changes is not None
    assert {version, citation[1], changes[1], dpconvex.__version__} == {version}


def tracked_files() -> list[Path]:
    """What git tracks, or, in an unpacked archive, the files that a release is made of."""
    answer = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode == 0 and answer.stdout:
        return [ROOT / name for name in answer.stdout.split("\0") if name]
    return [*SOURCES, *ROOT.glob("*.*"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "requirements").glob("*.txt")]


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked_files():
        if not path.is_file() or b"\0" in (content := path.read_bytes())[:8192]:
            continue
        text = content.decode("utf-8", errors="replace")
        for number, line in enumerate(text.splitlines() if FORBIDDEN.search(text) else (), start=1):
            if FORBIDDEN.search(line):
                found.append(f"{name_of(path)}:{number}: {line.strip()[:80]}")
    assert not found


def test_the_lock_files_agree_and_hold_no_address() -> None:
    pins = {}
    for name in ("runtime", "dev"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        assert "://" not in text
        pins[name] = dict(re.findall(r"^([a-z0-9._-]+)==([^ \\]+)", text, re.M))
        assert text.count("--hash=") >= len(pins[name]) > 0
    assert pins["runtime"].items() <= pins["dev"].items()


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["fit"], *extras["opendp"], *extras["report"]]
    assert extras["cli"] == ["dpconvex[fit,opendp,report]"]
    wanted = {re.split(r"[^A-Za-z0-9._-]", line)[0] for line in lines}
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements" / "runtime.txt").read_text(), re.M))
    assert wanted <= locked


FIGURE = re.compile(r"[-−]?[\d.,]+( ?%| s| ms)?( ± ?[\d.]+)?")
COMMAND = re.compile(r"benchmarks/\w|dpconvex [a-z]|make [a-z]|tests/\w|tools/\w|examples/\w")
DERIVED = {"## The promise", "## Setting", "## Noise and ridge", "## What epsilon means"}
"""Sections whose numbers are arithmetic of their own words."""


def test_every_table_of_figures_names_the_command_that_makes_it() -> None:
    """In README and docs: a table with more than six numbers stands in a section that says how to get them again."""
    found = [path for path in tracked_files() if path.suffix == ".md"]
    pages = [path for path in found if path.parent == ROOT or "docs" in path.relative_to(ROOT).parts]
    nameless = []
    for page in pages:
        if page.name == "reproduce.md":  # its first lines say it for all of the page
            continue
        for section in re.split(r"(?m)^(?=#)", page.read_text(encoding="utf-8")):
            rows = [line for line in section.splitlines() if line.startswith("|")]
            cells = [cell.strip(" *") for row in rows for cell in row.strip().strip("|").split("|")]
            if sum(bool(FIGURE.fullmatch(cell)) for cell in cells) > 6 and not COMMAND.search(section):
                nameless.append(f"{page.name}: {section.splitlines()[0]}")
    assert not [name for name in nameless if name.split(": ")[1] not in DERIVED]


def test_no_page_has_a_name_that_sphinx_writes_itself() -> None:
    """Sphinx puts its own page over one of these names, and nobody can read ours."""
    taken = {"search", "genindex", "modindex", "py-modindex"}
    assert not [path for path in (ROOT / "docs").glob("*.md") if path.stem in taken]


def errata() -> Iterator[tuple[str, list[str]]]:
    """Section and cells of every row of the tables of docs/errata.md."""
    section = ""
    for line in (ROOT / "docs" / "errata.md").read_text(encoding="utf-8").splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        if line.startswith("|") and not line.startswith(("| id |", "|---")):
            yield section, [cell.strip() for cell in line.strip("|").split("|")]


def test_every_erratum_has_an_id_of_its_own_its_code_and_its_test() -> None:
    """Seven cells; the last two name what exists, or say after a dash why there is nothing."""
    seen, wrong = set(), []
    for section, cells in errata():
        assert len(cells) == 7, f"{section}: {cells[0]} has {len(cells)} cells"
        ids = re.findall(r"[A-Z]\d+", cells[0])
        wrong += [f"{section}: {cells[0]}: no id"] if not ids else []
        wrong += [f"{section}: {name} twice" for name in ids if (section, name) in seen]
        seen.update((section, name) for name in ids)
        for kind, cell, exists in (("code", cells[5], code_exists), ("test", cells[6], collected)):
            links = re.findall(r"`([^`]+)`", cell)
            if not links and not re.fullmatch(r"– \w.+", cell):
                wrong.append(f"{section}: {cells[0]}: no {kind}")
            wrong += [f"{section}: {cells[0]}: no {kind} {link}" for link in links if not exists(link)]
    assert len(seen) > 80
    assert not wrong, "\n".join(wrong)


def code_exists(name: str) -> bool:
    """Whether a dotted name, of the package or the experiments, is a module or an attribute below one."""
    first, *rest = name.removeprefix("dpconvex.").split(".")
    module = first if first == "dpconvex_experiments" else "dpconvex"
    path, rest = ROOT / "src" / module, rest if first == module else [first, *rest]
    while rest and ((path / rest[0]).is_dir() or (path / f"{rest[0]}.py").is_file()):
        path, module = path / rest[0], f"{module}.{rest.pop(0)}"
    found: object = importlib.import_module(module)
    for part in rest:
        found = getattr(found, part, None)
    return found is not None


@cache
def statements(path: Path) -> list[ast.stmt]:
    """Of a module; none if there is no such file."""
    return tree_of(path).body if path.is_file() else []


def collected(link: str) -> bool:
    """Whether ``path::[Class::]name`` below tests/ is a test."""
    path, _, name = link.partition("::")
    body = statements(ROOT / "tests" / path)
    for part in name.split("::"):
        named = [node for node in body if isinstance(node, Definition) and node.name == part]
        if not named or not part.lower().startswith("test"):
            return False
        body = named[-1].body
    return isinstance(named[-1], ast.FunctionDef)


def test_every_planted_mistake_still_applies() -> None:
    """What a mutant replaces occurs once in the sources, and the tests and the target that it names exist."""
    mutants = tool("mutants")
    names = [mutant.name for mutant in mutants.MUTANTS]
    assert len(set(names)) == len(names)
    for mutant in mutants.MUTANTS:
        text = (ROOT / "src" / "dpconvex" / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"{mutant.name}: {mutant.file} must hold {mutant.old!r} once"
        ast.parse(text.replace(mutant.old, mutant.new))
        assert mutant.target in ("", *TARGETS), mutant.name
        read = ""
        for test in (test for test in mutant.tests if test.startswith("tests/")):
            file, *parts = test.split("::")
            paths = [ROOT / file] if file.endswith(".py") else sorted((ROOT / file).rglob("*.py"))
            text = "".join(path.read_text(encoding="utf-8") for path in paths)
            assert all(f"def {part.split('[')[0]}(" in text for part in parts), test
            read += text
        chosen = mutant.tests[mutant.tests.index("-k") + 1] if "-k" in mutant.tests else ""
        words = set(re.findall(r"\w+", chosen)) - {"and", "or", "not"}
        missing = {word for word in words if word.lower() not in read.lower()}
        assert not missing, f"{mutant.name}: no test is about {missing}"
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    assert mutants.updated(page, {}) == page  # the table is in order, and no row is of a mutant that is gone


def test_every_function_is_annotated() -> None:
    """pyright leaves out what has no annotation at all (pyproject.toml)."""
    bare = []
    for path in SOURCES:
        for node in definitions(tree_of(path)):
            if not isinstance(node, ast.ClassDef):
                given = node.args
                every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                if node.returns is None and not any(each is not None and each.annotation for each in every):
                    bare.append(f"{name_of(path)}:{node.lineno}: {node.name}")
    assert not bare


def test_final_classes_have_no_subclass() -> None:
    """pyright sees `final`, and not what `final_dataclass` makes final."""
    names = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in SOURCES]
    modules = [importlib.import_module(name) for name in names if not name.endswith(("__init__", "__main__"))]
    classes = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    assert sum("__final__" in vars(kind) for kind in classes) > 300
    assert not [kind for kind in classes if any("__final__" in vars(base) for base in kind.__mro__[1:])]


UNIX_ONLY = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}


def unguarded(tree: ast.Module) -> Iterator[str]:
    """Modules that only Unix has, where nothing catches that they are missing."""
    guards = [
        (node.body[0].lineno, node.body[-1].end_lineno or 0)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        and any(ast.unparse(each.type) == "ImportError" for each in node.handlers if each.type is not None)
    ]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if not any(first <= getattr(node, "lineno", 0) <= last for first, last in guards):
            yield from (name for name in names if name.partition(".")[0] in UNIX_ONLY)


def test_imports_need_no_unix() -> None:
    naming = [path for path in SOURCES if any(name in path.read_text(encoding="utf-8") for name in UNIX_ONLY)]
    assert [(name_of(path), name) for path in naming for name in unguarded(tree_of(path))] == []
    assert list(unguarded(ast.parse("def f():\n    import fcntl\nfrom resource import getrusage"))) == [
        "resource",
        "fcntl",
    ]
    assert list(unguarded(ast.parse("try:\n    import fcntl\nexcept ImportError:\n    fcntl = None"))) == []


STARTS = """
import importlib, pathlib, sys, warnings

warnings.simplefilter("ignore")
sys.path.insert(0, "benchmarks")
for path in sorted(pathlib.Path("benchmarks").rglob("*.py")):
    name = ".".join(path.relative_to("benchmarks").with_suffix("").parts)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # peers and packages of data are installed by `make bench` alone
        if str(error.name).startswith("dpconvex") or (pathlib.Path("benchmarks") / f"{error.name}.py").exists():
            raise
    print(name)
"""


@pytest.mark.gate
def test_every_benchmark_starts() -> None:
    run = subprocess.run([sys.executable, "-c", STARTS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"after {run.stdout.split()[-1:]}: {run.stderr[-2000:]}"
