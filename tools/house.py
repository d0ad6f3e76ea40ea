"""Measure the house: lines by kind, files, import circles, what an algorithm must declare, tests, slowest tests.

    python tools/house.py [ROOT]

ROOT is a checkout (default: this one). Nothing in it is run: sources are read with `ast` and `tokenize`, and imports,
those inside functions included and those under TYPE_CHECKING not, with grimp. tests/test_layout.py asserts the limits.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import grimp
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dpconvex", "dpconvex_experiments")
MAX_LINES = {"dpconvex": 50_000, "dpconvex_experiments": 12_630}
"""Largest number of lines of each package. Before anybody adds lines, as many must be cut."""
MAX_FILES = {"dpconvex": 280, "dpconvex_experiments": 70}
DURATIONS = ".pytest_cache/v/durations"
"""File with the seconds of each test in the last run of a checkout's tests, written by tests/conftest.py."""

KINDS = ("code", "imports", "docstring", "comments", "blank")
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One file and its syntax tree."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of each line. A docstring is any string that stands as a statement; code is the rest."""
        lines = self.text.splitlines()
        kinds = ["code" if line.strip() else "blank" for line in lines]
        tokens = list(tokenize.generate_tokens(io.StringIO(self.text).readline))
        spoken = {row for token in tokens if token.type not in LAYOUT | {tokenize.COMMENT} for row in rows(token)}
        for token in tokens:
            if token.type == tokenize.COMMENT and token.start[0] not in spoken:
                kinds[token.start[0] - 1] = "comments"
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                fill(kinds, node, "imports")
            elif (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                fill(kinds, node, "docstring")
        return kinds

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @cached_property
    def constants(self) -> list[str]:
        """Upper-case names that the module assigns."""
        targets = [
            name
            for node in self.tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for name in ast.walk(target)
        ]
        return [target.id for target in targets if isinstance(target, ast.Name) and target.id.strip("_").isupper()]


def rows(token: tokenize.TokenInfo) -> range:
    return range(token.start[0], token.end[0] + 1)


def fill(kinds: list[str], node: ast.stmt, kind: str) -> None:
    begin, end = node.lineno - 1, node.end_lineno or node.lineno
    kinds[begin:end] = [kind] * (end - begin)


def has_one_line(function: Function) -> bool:
    """Whether the body, without the docstring, is one statement on one line; a docstring alone does not count."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return len(body) == 1 and body[0].lineno == body[0].end_lineno


def sources(folder: Path) -> list[Source]:
    return [Source(path) for path in sorted(folder.rglob("*.py"))]


def count(files: Iterable[Source]) -> Counter[str]:
    """The number of lines of each kind."""
    return Counter(kind for file in files for kind in file.kinds)


def circles(root: Path, package: str, typing: bool = False) -> list[list[str]]:
    """Modules that import one another, directly or through others, wherever the import statement stands.

    ``typing``: imports for the type checker alone count too.
    """
    sys.path.insert(0, str(root / "src"))
    graph = grimp.build_graph(package, exclude_type_checking_imports=not typing, cache_dir=None)
    sys.path.pop(0)
    modules = sorted(graph.modules)
    number = {module: index for index, module in enumerate(modules)}
    arrows = [(number[a], number[b]) for a in modules for b in graph.find_modules_directly_imported_by(a)]
    if not arrows:
        return []
    begin, end = np.array(arrows).T
    matrix = coo_array((np.ones(len(arrows)), (begin, end)), shape=(len(modules), len(modules)))
    _, group = connected_components(matrix, connection="strong")
    found = [[modules[index] for index in np.flatnonzero(group == label)] for label in np.unique(group)]
    return [circle for circle in found if len(circle) > 1]


def declared(base: Source) -> Iterator[tuple[str, list[str], list[str]]]:
    """Abstract classes of a module: name, abstract members, attributes without a value; those of base classes too."""
    known: dict[str, tuple[set[str], set[str]]] = {}
    for node in base.tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        members, attributes = set[str](), set[str]()
        for parent in node.bases:
            inherited = known.get(ast.unparse(parent).split("[")[0], (set(), set()))
            members, attributes = members | inherited[0], attributes | inherited[1]
        for line in node.body:
            if isinstance(line, Function):
                abstract = any("abstractmethod" in ast.unparse(decorator) for decorator in line.decorator_list)
                members = members | {line.name} if abstract else members - {line.name}
            elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                name, required = line.target.id, line.value is not None and ast.unparse(line.value) == "REQUIRED"
                members = members | {name} if required else members - {name}
                attributes = attributes | {name} if line.value is None else attributes - {name}
        known[node.name] = (members, attributes)
        if members:
            yield node.name, sorted(members), sorted(attributes)


def share(part: float, whole: float) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def report_package(root: Path, package: str) -> None:
    files = sources(root / "src" / package)
    lines, total = count(files), sum(file.lines for file in files)
    functions = [function for file in files for function in file.functions]
    constants = [name for file in files for name in file.constants]
    short = sum(len(name) <= 7 for name in constants)
    median = statistics.median(file.lines for file in files)
    code = lines["code"] + lines["imports"]
    one_line = sum(map(has_one_line, functions))
    limits = f"at most {MAX_LINES[package]:,} lines, {MAX_FILES[package]} files"
    print(f"\n{package} ({limits})")
    print(f"  lines         {total:,}: " + ", ".join(f"{kind} {lines[kind]:,}" for kind in KINDS))
    print(f"  files         {len(files)}, half of them up to {median:.0f} lines")
    print(f"  imports       {share(lines['imports'], code)} of the code")
    print(f"  comments      one line of its own per {code / max(lines['comments'], 1):.0f} lines of code")
    print(f"  functions     {len(functions):,}, {share(one_line, len(functions))} with a body of one line")
    print(f"  constants     {len(constants)} in capitals, {short} of at most 7 letters")
    found, typed = circles(root, package), circles(root, package, typing=True)
    print(f"  circles       {len(found)} ({len(typed)} with imports under TYPE_CHECKING)")
    for circle in found:
        print(f"    {' <-> '.join(name.removeprefix(f'{package}.') for name in circle)}")


def report(root: Path) -> None:
    """Print all measurements of a checkout."""
    present = [package for package in PACKAGES if (root / "src" / package).is_dir()]
    for package in present:
        report_package(root, package)

    print("\nTo add an algorithm (abstract members; attributes without a value)")
    for name, members, attributes in declared(Source(root / "src" / "dpconvex" / "algorithms" / "base.py")):
        print(f"  {name}: {len(members)} ({', '.join(members)}); {len(attributes)} ({', '.join(attributes)})")

    written = sum(file.lines for package in present for file in sources(root / "src" / package))
    tests = sources(root / "tests")
    lines = sum(file.lines for file in tests)
    named = sum(function.name.startswith("test") for file in tests for function in file.functions)
    print(f"\nTests: {lines:,} lines in {len(tests)} files, {lines / written:.2f} per source line; {named:,} functions")

    path = root / DURATIONS
    if path.is_file():
        seconds: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        print(f"Last test run: {len(seconds):,} cases, {sum(seconds.values()):.0f} s")
        for name in sorted(seconds, key=seconds.__getitem__, reverse=True)[:15]:
            print(f"  {seconds[name]:6.2f} s  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="a checkout")
    report(parser.parse_args().root.resolve())


if __name__ == "__main__":
    main()
