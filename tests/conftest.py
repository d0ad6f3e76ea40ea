"""Settings that every test shares."""

from __future__ import annotations

import gc
import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from itertools import combinations, count
from types import SimpleNamespace
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, is_hypothesis_test, settings

from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.select import Registry
from dpconvex.privacy import PrivacyCertificate, profiles
from dpconvex.problems.data import summation
from dpconvex.randomness import BitSource, SeededSource, SystemSource, exact, source

# The gate must give the same verdict twice, so examples are derived from the test alone, and never timed.
# `HYPOTHESIS_PROFILE=explore` searches at random, with ten times as many examples.
settings.register_profile(
    "gate",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", settings.get_profile("gate"))
settings.register_profile("explore", deadline=None, max_examples=500, print_blob=True)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)


def quick_examples(examples: int) -> int:
    """Of the examples that a property asks for: all of few, a quarter of many."""
    return min(examples, max(20, examples // 4))


# One BLAS thread is what `make test` asks for; to ask again in every solver would take 3 % of the time.
_asking = summation._controller
if os.environ.get("OPENBLAS_NUM_THREADS") == "1" and PROFILE != "explore":
    summation._controller = lambda: SimpleNamespace(limit=lambda **_: nullcontext())  # type: ignore[assignment]

_drawn: defaultdict[str, Iterator[int]] = defaultdict(count)


def entropy_of_test(size: int) -> bytes:
    """Return what the operating system would have: other bytes on every call, the same in every run of a test.

    Fits without a seed, as the command line's, would otherwise give a test another verdict once in a thousand runs.
    A forked process gets bytes of its own, as it does from the operating system.
    """
    name = os.environ.get("PYTEST_CURRENT_TEST", "")
    fork = 0 if os.getpid() == _PID else os.getpid()
    return hashlib.shake_256(f"{name} {next(_drawn[name])} {fork}".encode()).digest(size)


_PID = os.getpid()
source.os = SimpleNamespace(urandom=entropy_of_test)  # type: ignore[assignment]


def drawn_again(draw: Callable[..., Any]) -> Callable[..., Any]:
    """OpenDP's samplers ask the operating system themselves: they run, and other noise of the same law is returned."""

    def drawn(units: Any, scale: float, source: BitSource) -> Any:
        as_ever = draw(units, scale, source)
        if type(source) is not SystemSource or "test_samplers" in os.environ.get("PYTEST_CURRENT_TEST", ""):
            return as_ever
        return draw(units, scale, SeededSource(int.from_bytes(entropy_of_test(16), "little")))

    return drawn


for _draw in (exact.discrete_laplace, exact.discrete_gaussian, exact.noisy_argmax):
    setattr(exact, _draw.__name__, drawn_again(_draw))


# Each call of a runner would build all commands and options anew: 30 ms, hundreds of times.
typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]


_choose, _chosen = Registry.choose, dict[Any, Any]()


def chosen_once(registry: Registry, *asked: Any) -> Any:
    """Choose among the same plans once: a pure function of public facts, as `plans` is that is cached anyway.

    Where computing is limited, as whoever verifies a certificate limits it, all is planned anew.
    """
    key = (id(registry), *asked)
    try:
        if profiles.WORK.get() or hash(key) is None:
            return _choose(registry, *asked)
    except TypeError:  # facts of a caller's own that have no hash
        return _choose(registry, *asked)
    if key not in _chosen:
        if len(_chosen) > 1000:
            _chosen.clear()
        _chosen[key] = registry, _choose(registry, *asked)  # the registry is kept: its number is not used again
    return _chosen[key][1]


Registry.choose = chosen_once  # type: ignore[method-assign]


def plan_anew() -> None:
    """Forget all plans."""
    registry.plans.cache_clear()
    _chosen.clear()


@contextmanager
def naming(*values: object) -> Iterator[None]:
    """Whatever fails inside says which case it was: many cheap cases stand in one test, since a test costs more."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the case {', '.join(map(str, values))}")
        raise


@pytest.fixture(scope="session")
def case() -> Callable[..., AbstractContextManager[None]]:
    """To be used as ``with case(loss, content): ...``."""
    return naming


def _without_sums(recipe: Any) -> Any:
    """Leave out of a recipe that methods which plan after a release may follow it with sums alone."""
    if isinstance(recipe, Mapping):
        return {k: _without_sums(v) for k, v in recipe.items() if (k, v) != ("sums", True)}
    return recipe


@pytest.fixture(scope="session")
def same_certificate() -> Callable[[PrivacyCertificate, PrivacyCertificate], None]:
    """To be used as ``same_certificate(found, expected)``, of a source and of memory."""

    def check(found: PrivacyCertificate, expected: PrivacyCertificate) -> None:
        assert replace(found, planner=_without_sums(found.planner)) == expected

    return check


@pytest.fixture(params=[pytest.param(False, id="quick"), pytest.param(True, id="full", marks=pytest.mark.gate)])
def full(request: pytest.FixtureRequest) -> bool:
    """Whether to test with all runs, seeds or steps, as in ``runs = 6000 if full else 2500``; the gate does."""
    return request.param


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solvers ask for one BLAS thread, as they do for users."""
    monkeypatch.setattr(summation, "_controller", _asking)


@pytest.fixture
def monkeypatch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A test that patches the library neither uses plans made before nor leaves its own behind; others use those."""
    replace, patched, kept = monkeypatch.setattr, False, dict[Any, Any]()

    def replacing(*arguments: Any, **options: Any) -> None:
        nonlocal patched
        if not patched:
            kept.update(_chosen)
        patched = True
        plan_anew()
        replace(*arguments, **options)

    monkeypatch.setattr = replacing  # type: ignore[method-assign]
    yield monkeypatch
    if patched:
        monkeypatch.undo()
        plan_anew()
        _chosen.update(kept)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Keep how long every test took, for ``make house``."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration
    kept = getattr(config, "cache", None)  # `-p no:cacheprovider` leaves it out
    if seconds and kept is not None:
        kept.set("durations", dict(seconds))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare all that collection made from every later search for garbage: 1 to 13 % of the time of tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a test that is marked `thin` every third is quick, the others are for the gate (but see below).

    So are those whose names hold a word of the mark `dear`: cheaper cases of the same test are quick. Properties that
    are not slow are tried with fewer examples in quick runs, and the gate runs those again with all.
    """
    fewer_tried = set[Callable[..., Any]]()
    for item in items if PROFILE != "explore" else ():
        if (
            not isinstance(item, pytest.Function)
            or not is_hypothesis_test(item.function)
            or item.function in fewer_tried
        ):
            continue
        asked = item.function._hypothesis_internal_use_settings  # as the plugin of hypothesis itself changes them
        fewer = quick_examples(asked.max_examples)
        if fewer == asked.max_examples or item.get_closest_marker("slow") is not None:
            continue
        if PROFILE == "gate":
            item.add_marker(pytest.mark.gate)
        else:
            item.function._hypothesis_internal_use_settings = settings(asked, max_examples=fewer)
            fewer_tried.add(item.function)
    alike = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("thin") is not None:
            cases = alike[item.nodeid.partition("[")[0]]
            if len(cases) % 3:
                item.add_marker(pytest.mark.gate)
            cases.append(item)
        for mark in item.iter_markers("dear"):
            if any(word in item.name.partition("[")[2] for word in mark.args):
                item.add_marker(pytest.mark.gate)
    for cases in alike.values():
        leave_out_known_pairs(cases)
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        if item.get_closest_marker("gate") and given.get("full") is False:  # the gate runs the full form of that case
            item.add_marker(pytest.mark.slow)
    items[:] = put_together(items)


def leave_out_known_pairs(cases: list[pytest.Item]) -> None:
    """Of a thin test with three parameters or more the gate leaves out cases of which it has all pairs of values."""
    known = set[frozenset[tuple[int, str]]]()
    for item in sorted(cases, key=lambda each: each.get_closest_marker("gate") is not None):
        if item.get_closest_marker("slow") is None and isinstance(item, pytest.Function):
            values = enumerate(item.callspec._idlist if hasattr(item, "callspec") else ())
            pairs = {frozenset(pair) for pair in combinations(values, 2)}
            if len(pairs) > 1 and item.get_closest_marker("gate") and pairs <= known:
                item.add_marker(pytest.mark.slow)
            known |= pairs


TOGETHER = pytest.StashKey[list[pytest.Function]]()


def put_together(items: list[pytest.Item]) -> list[pytest.Item]:
    """Make the cases of a test that is marked `together` one test: to start and report each costs 8 ms.

    They need nothing but their parameters. What is quick and what is not stays apart.
    """
    kept, first = list[pytest.Item](), dict[Any, pytest.Function]()
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("together") and cases_alone(item):
            name = item.nodeid.partition("[")[0]
            one = first.setdefault((name, *(bool(item.get_closest_marker(mark)) for mark in ("gate", "slow"))), item)
            one.stash.setdefault(TOGETHER, []).append(item)
            if one is not item:
                one._nodeid = f"{name}[{len(one.stash[TOGETHER])} cases]"
                continue
        kept.append(item)
    return kept


def cases_alone(item: pytest.Function) -> bool:
    """Whether a test has parameters, and asks for nothing else."""
    given = item.callspec.params if hasattr(item, "callspec") else ()
    alike = not (is_hypothesis_test(item.function) or item.get_closest_marker("xfail"))
    return alike and bool(given) and set(item.fixturenames) <= set(given)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the cases of a test that was put together, one after the other."""
    cases = pyfuncitem.stash.get(TOGETHER, [])
    for each in cases:
        with naming(each.callspec.id), suppress(pytest.skip.Exception):
            each.obj(**each.callspec.params)
    return bool(cases) or None
