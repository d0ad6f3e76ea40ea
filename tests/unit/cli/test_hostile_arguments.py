"""Fuzzed arguments and files for commands that read no private table: one line on stderr, and never a traceback."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from typer.testing import CliRunner

from dpconvex.cli.main import app

TOML = """confirmed = true
[target]
name = "y"
classes = ["no", "yes"]
[columns.x]
lower = 0
upper = 10
[columns.c]
categories = ["red", "green"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a schema, a table, a model with its certificate, and a budget."""
    path = tmp_path_factory.mktemp("arguments")
    (path / "s.toml").write_text(TOML)
    (path / "t.csv").write_text("x,c,y\n" + "1,red,no\n2,green,yes\n" * 20)
    words = ("fit", path / "t.csv", "--schema", path / "s.toml", "--epsilon", 1, "--out", path / "model")
    assert CliRunner().invoke(app, [*map(str, words), "--algorithm", "output_perturbation"]).exit_code == 0
    assert CliRunner().invoke(app, ["budget", "create", str(path / "b.json"), "--epsilon", "3"]).exit_code == 0
    return path


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in that folder, with little memory to spare: what asks for gigabytes must refuse, not try."""
    monkeypatch.chdir(folder)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if sys.platform == "linux":
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def run(*words: str) -> tuple[int, str]:
    """Return exit code and output; errors are one line of usage, or one of ours that names what was wrong."""
    result = CliRunner().invoke(app, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    if result.exit_code == 2 and not result.stderr.startswith("Usage: "):
        assert result.stderr.startswith("error: "), result.stderr
        assert result.stderr.count("\n") == 1
    else:
        assert result.exit_code in (0, 1, 2)
    return result.exit_code, result.output


def ours(output: str, *names: str) -> bool:
    """Whether a message has the form ``name=value: ...`` and names one of these."""
    return any(re.match(rf"error: {name}=.*: ", output) for name in names)


FUZZ = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
numbers = st.sampled_from(
    ["0", "-0.0", "-1", "1e-320", "1e308", "1e309", "-inf", "inf", "nan", "0x10", "1_0", "", " ", "½"]
)
numbers |= st.floats().map(repr) | st.integers().map(str)
counts = st.sampled_from(["0", "-1", "1", "2", "1e3", str(2**53), str(2**64), "9" * 400, "nan", "", "1.5"]) | numbers
odd = st.sampled_from(
    ["", " ", "\n", "\x1b[31m", "[red]", "%s", "../..", "a" * 5000, "\udc80", "\u202e", "--help", "auto"]
)
words = odd | st.text(max_size=5)
REALS = ("epsilon", "delta", "feature-norm", "l2", "coefficient-norm", "tilt", "adversarial-radius", "quantile")
TEXTS = ("model", "algorithm", "constants", "noise", "risk", "adversarial-norm", "heavy-tailed", "schema")
COUNTS = ("rows", "users", "features", "classes", "records-per-user")


def options(reals: tuple[str, ...], counted: tuple[str, ...], texts: tuple[str, ...]) -> Any:
    """Draw a few options with odd values."""
    one = st.tuples(st.sampled_from(reals), numbers) if reals else st.nothing()
    one |= st.tuples(st.sampled_from(counted), counts) if counted else st.nothing()
    one |= st.tuples(st.sampled_from(texts), words) if texts else st.nothing()
    return st.lists(one, max_size=3).map(lambda pairs: [f"--{name}={value}" for name, value in pairs])


@FUZZ
@given(given_options=options(REALS, COUNTS, TEXTS))
@example(["--rows=" + "9" * 400])
@example(["--features=" + str(2**64)])
@example(["--classes=" + str(2**40)])
@example(["--users=" + str(2**64)])
@example(["--rows=" + str(2**53), "--features=1"])
@example(["--feature-norm=1e308"])
def test_plan(given_options: list[str]) -> None:
    base = [] if any(text.startswith(("--rows", "--users")) for text in given_options) else ["--rows=1000"]
    base += [] if any(text.startswith(("--features", "--schema")) for text in given_options) else ["--features=3"]
    run("plan", "--epsilon=1", "--algorithm=output_perturbation", *base, *given_options)


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "1e-400"])
def test_messages_name_the_parameter(value: str) -> None:
    code, output = run("plan", "--rows=1000", "--features=3", f"--epsilon={value}")
    assert code == 2
    assert ours(output, "epsilon")
    code, output = run("budget", "create", "new.json", f"--epsilon={value}")
    assert code == 2
    assert ours(output, "epsilon")
    assert not Path("new.json").exists()
    code, output = run("audit", "objective_perturbation", f"--epsilon={value}", "--runs=10", "--transcripts=0")
    assert code == 2
    assert ours(output, "epsilon")


@FUZZ
@given(given_options=options(("epsilon", "delta"), (), ("unit", "data")), name=words)
def test_budget_create(given_options: list[str], name: str) -> None:
    name = "new" + name.replace("/", "")
    code, _ = run("budget", "create", *(["--epsilon=1"] if not given_options else []), *given_options, "--", name)
    for path in Path().glob("new*"):
        assert code == 0
        assert run("budget", "show", str(path))[0] == 0
        path.unlink()


small = st.sampled_from(["0", "-1", "10", "1.5", "nan", ""])
few = words.filter(lambda name: name != "all")


@FUZZ
@given(
    name=few | st.just("mechanism/laplace"),
    given_options=options(("epsilon", "delta", "feature-norm"), ("seed",), ("out",)),
    runs=small,
    transcripts=small,
)
@example("mechanism/laplace", ["--seed=" + "9" * 400], "10", "2")
@example("mechanism/laplace", ["--feature-norm=1e308"], "10", "2")
def test_audit(name: str, given_options: list[str], runs: str, transcripts: str) -> None:
    run("audit", f"--runs={runs}", f"--transcripts={transcripts}", *given_options, "--", name)


@FUZZ
@given(name=few, given_options=options((), ("seed",), ("out",)))
def test_reproduce(name: str, given_options: list[str]) -> None:
    assert run("reproduce", "--quick", *given_options, "--", name)[0] == 2


def test_reproduce_into_a_folder_that_cannot_be() -> None:
    for out in ("t.csv", "t.csv/x", "a\0b", "a" * 5000):
        assert run("reproduce", "output-perturbation/e2-gaussian", "--quick", f"--out={out}")[0] == 2


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([10**400, -1, "1e400", "nan"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of everything in a JSON document."""
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from paths(child, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of a document with another value at one place."""
    if not path:
        return value
    copy = json.loads(json.dumps(document))
    node = copy
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return copy


FILES = {
    "empty": b"",
    "binary": bytes(range(256)) * 10,
    "zeros": b"\0" * 10_000,
    "deep": b"[" * 100_000,
    "deep tables": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "digits": b"9" * 100_000,
    "list": b"[]",
    "null": b"null",
    "nan": b"NaN",
    "twice": b'{"a": 1, "a": 2}',
    "mark": b"\xef\xbb\xbf{}",
    "utf16": '{"a": 1}'.encode("utf-16"),
    "surrogate": b'{"schema_version": "\\ud800"}',
    "escapes": b'{"\\u001b[31m": 1}',
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_nothing(name: str) -> None:
    Path("odd.json").write_bytes(FILES[name])
    assert run("verify", "odd.json")[0] == 1
    assert run("verify", "odd.json", "--json")[0] == 1
    assert run("budget", "show", "odd.json")[0] == 2
    assert run("schema", "show", "odd.json")[0] == 2
    assert run("predict", "odd.json", "t.csv")[0] == 2
    assert run("plan", "--epsilon=1", "--rows=1000", "--schema=odd.json")[0] == 2
    Path("odd.csv").write_bytes(FILES[name])
    assert run("predict", "model", "odd.csv")[0] == 2


WRONG = {
    "algorithm": [],
    "spent.epsilon": 10**400,
    "releases.0.block": {},
    "releases.0.label": 3,
    "noise_source.name": None,
    "public": [],
    "versions": 1,
}


@pytest.mark.parametrize("place", WRONG)
def test_certificates_with_fields_of_another_type_fail_a_check(place: str) -> None:
    document = json.loads(Path("model/certificate.json").read_text())
    path = tuple(int(key) if key.isdigit() else key for key in place.split("."))
    text = json.dumps(changed(document, path, "@")).replace('"@"', str(WRONG[place]).replace("None", "null"))
    Path("odd.json").write_text(text)
    assert run("verify", "odd.json")[0] == 1


@settings(FUZZ, max_examples=20)
@given(data=st.data())
def test_certificates_with_anything_in_them_fail_a_check(data: st.DataObject) -> None:
    document = json.loads(Path("model/certificate.json").read_text())
    path = data.draw(st.sampled_from(list(paths(document))))
    Path("odd.json").write_text(json.dumps(changed(document, path, data.draw(values))))
    code, output = run("verify", "odd.json")
    assert code == (0 if json.loads(Path("odd.json").read_text()) == document else 1), output


@settings(FUZZ, max_examples=8)
@given(cut=st.integers(0, 10_000), at=st.integers(0, 10_000), byte=st.binary(min_size=1, max_size=3))
def test_damaged_files(cut: int, at: int, byte: bytes) -> None:
    for name, words in {
        "model/certificate.json": ("verify",),
        "b.json": ("budget", "show"),
        "s.toml": ("schema", "show"),
        "t.csv": ("schema", "draft"),
        "model/model.skops": ("predict", "t.csv"),
    }.items():
        content = Path(name).read_bytes()
        place = at % len(content)
        for damaged in (content[: cut % len(content)], content[:place] + byte + content[place + len(byte) :]):
            odd = Path("damaged" + Path(name).suffix)
            odd.write_bytes(damaged)
            run(*((words[0], str(odd), words[1]) if words[0] == "predict" else (*words, str(odd))))


@pytest.mark.gate
def test_pipes_devices_and_endless_files_are_refused() -> None:
    if not Path("pipe").exists():
        os.mkfifo("pipe")
        with open("large", "wb") as file:
            file.truncate(2**33)  # takes no room on the disk
    for name, word in (("pipe", "regular file"), ("/dev/zero", "regular file"), ("large", "more than 16 MiB")):
        for command in (("verify",), ("schema", "show"), ("plan", "--epsilon=1", "--rows=9", "--schema")):
            code, output = run(*command, name)
            assert code == 2
            assert word in output
        assert run("fit", "t.csv", "--epsilon=1", "--schema", name)[0] == 2
        assert run("budget", "show", name)[0] == 2
        assert run("predict", name, "t.csv")[0] == 2
    assert run("verify", "a\0b")[0] == 2
    assert run("schema", "show", "a\0b")[0] == 2


@FUZZ
@given(names=st.lists(words, max_size=2), given_options=options((), (), ("target", "user-column", "output")))
def test_draft(names: list[str], given_options: list[str]) -> None:
    run("schema", "draft", *given_options, "--", *(names or ["t.csv"]))


@FUZZ
@given(names=st.lists(words | st.sampled_from(["model", "t.csv", "s.toml"]), max_size=3), proba=st.booleans())
@example(["model", "t.csv"], True)
def test_predict(names: list[str], proba: bool) -> None:
    code, _ = run("predict", *["--proba"][:proba], "--output=predicted.csv", "--", *names)
    assert code == (0 if names == ["model", "t.csv"] else 2)
