"""Certificates from strangers: whatever their numbers, checking ends soon, in little memory, with a failed check."""

from __future__ import annotations

import copy
import json
import sys
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.privacy import certificate as certificates, verify
from dpconvex.privacy.certificate import digest

SENSITIVITY = {"value": 1.0, "norm": "l2", "lemma": "x", "neighboring": "replace_one", "unit": "record"}
GUARDED = {
    "kind": "guarded_gaussian_noise",
    "score_noise": "gaussian",
    "score_sensitivity": 1.0,
    "score_scale": 10.0,
    "margin": 60.0,
    "coupling": 0.0,
    "sensitivity": 1.0,
    "sigma": 10.0,
}
Uses = list[tuple[dict[str, Any], str | None, int]]


def pure(epsilon: float) -> dict[str, Any]:
    return {"kind": "pure_mechanism", "epsilon": epsilon}


def gaussian(mu: float) -> dict[str, Any]:
    return {"kind": "gaussian_noise", "sensitivity": 1.0, "sigma": 1 / mu}


def sampled(steps: int, population: int = 100, batch: int = 20) -> dict[str, Any]:
    return {"kind": "sampled_steps", "population": population, "batch": batch, "steps": steps, "step": GUARDED}


def poisson(rate: float, steps: int, mu: float) -> dict[str, Any]:
    return {"kind": "poisson_steps", "rate": rate, "steps": steps, "step": gaussian(mu)}


def grouped(depth: int, event: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "group_privacy", "size": 2, "record": event if depth <= 1 else grouped(depth - 1, event)}


def whole(uses: list[Any]) -> dict[str, Any]:
    return {"kind": "whole_run", "uses": uses}


def repeated(shape: float, runs: list[dict[str, Any]], most: int = 10_000) -> dict[str, Any]:
    return {"kind": "repeated_selection", "runs": runs, "shape": shape, "gamma": 0.01, "most": most}


def fields(uses: Uses, public: dict[str, Any] | None = None) -> dict[str, Any]:
    """A certificate of these releases, with a promise and a cost that are beside the point."""
    releases = [
        {
            "label": f"release {k}",
            "mechanism": "m",
            "event": event,
            "sensitivity": SENSITIVITY | {"value": event.get("sensitivity", 1.0)},
            "block": block,
            "times": times,
        }
        for k, (event, block, times) in enumerate(uses)
    ]
    content: dict[str, Any] = {
        "schema_version": 1,
        "private": True,
        "algorithm": "a",
        "constants": "c",
        "theorem": "t",
        "target": {"epsilon": 1e6, "delta": 1e-6, "neighboring": "replace_one", "unit": "record"},
        "spent": {"epsilon": 1.0, "delta": 1e-6, "accountant": "PLD"},
        "releases": releases,
        "assumptions": [],
        "noise_source": {"name": "operating system", "private": True, "exact_bits": True, "note": ""},
        "public": public or {},
        "versions": {},
    }
    return content | {"digest": digest(content)}


DEEP = '{"x":' + "[" * 900 + "]" * 900 + "}"
HOSTILE: dict[str, Any] = {
    "a median's pure release a billion times": lambda: [(pure(1e-3), None, 10**9), (gaussian(0.1), None, 1)],
    "pure and Gaussian uses of a fine grid": lambda: [(pure(1e-3), None, 10**6), (gaussian(0.1), None, 1)],
    "a pure release 10^9 times": lambda: [(pure(1e-9), None, 10**9)],
    "a pure release 10^30 times": lambda: [(pure(1e-9), None, 10**30)],
    "a count of 4,000 digits": lambda: [(pure(1.0), None, 10**4000)],
    "a Gaussian 10^9 times": lambda: [(gaussian(1.0), None, 10**9)],
    "hardly any noise": lambda: [(gaussian(1e5), None, 1), (pure(1.0), None, 5)],
    "a billion steps": lambda: [(sampled(10**9), None, 1)],
    "a million steps": lambda: [(sampled(10**6), None, 1)],
    "ten thousand steps that may fail": lambda: [(sampled(10**4), None, 1)],
    "a huge population": lambda: [(sampled(10, 10**400, 10**399), None, 1)],
    "a million Poisson steps": lambda: [(poisson(0.5, 10**6, 2.0), None, 1)],
    "rare Poisson steps": lambda: [(poisson(1e-6, 10**6, 1e-3), None, 1)],
    "blocks of one price": lambda: [(gaussian(0.1), f"b{k}", 1) for k in range(3000)],
    "blocks of many pure prices": lambda: [(pure(0.1 + k * 1e-5), f"b{k}", 1) for k in range(3000)],
    "blocks of many Gaussian prices": lambda: [(gaussian(0.1 + k * 1e-5), f"b{k}", 1) for k in range(3000)],
    "blocks for PLD": lambda: [(pure(0.1 + k * 1e-5), f"b{k}", 7) for k in range(300)] + [(gaussian(0.1), None, 1)],
    "many releases": lambda: [(gaussian(0.1 + k * 1e-5), None, 1) for k in range(3000)],
    "blocks beside many releases": lambda: [(gaussian(0.1), f"b{k}" if k % 2 else None, 1) for k in range(3000)],
    "ratios without a common denominator": lambda: [
        ({"kind": "norm_exponential_noise", "sensitivity": 1.0, "scale": 1000.1 + k / 7}, None, 1) for k in range(3000)
    ],
    "groups of groups": lambda: [(grouped(25, pure(1e-9)), None, 1)],
    "a group of 4,000 digits": lambda: [
        ({"kind": "group_privacy", "size": 10**4000, "record": gaussian(0.1)}, None, 1)
    ],
    "searches in searches": lambda: [(repeated(0.5, [repeated(0.5, [repeated(0.5, [GUARDED])])]), None, 1)],
    "searches of many runs": lambda: [(repeated(0.5 + k * 1e-4, [pure(1e-3)]), None, 1) for k in range(100)],
    "a search of many candidates": lambda: [(repeated(0.5, [pure(1e-3 + k * 1e-7) for k in range(5000)]), None, 1)],
    "a run of many uses": lambda: [(whole([[None, 1, gaussian(0.1 + k * 1e-5)] for k in range(3000)]), None, 1)],
    "a run of many blocks": lambda: [(whole([[f"b{k}", 1, gaussian(0.1 + k * 1e-5)] for k in range(3000)]), None, 1)],
    "a run for PLD": lambda: [(whole([[None, 10**6, pure(1e-3)], [None, 1, gaussian(0.1)]]), None, 1)],
}


def texts() -> dict[str, str]:
    one: Uses = [(gaussian(0.1), None, 1)]
    found = {name: json.dumps(fields(make())) for name, make in HOSTILE.items()}
    plain = json.dumps(fields(one))
    return found | {
        "5,000 public numbers": json.dumps(fields(one, {"x": list(range(5000))})),
        "300,000 public numbers": json.dumps(fields(one, {"x": list(range(300_000))})),
        "a deep public fact": plain.replace('"public": {}', f'"public": {DEEP}'),
        "a long name": json.dumps(fields(one, {"x" * 10**6: 1})),
        "course": json.dumps(fields(one, {"cost_of_this_course": 3})),
        "candidates": json.dumps(fields(one, {"candidates": [{}]}) | {"algorithm": "private_search"}),
        "a long text": "{" + " " * (2**24),
    }


@pytest.mark.gate
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.gate)])
def test_no_certificate_takes_long_or_much_memory(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small share of the computing that a check may take, so that the test itself is quick."""
    monkeypatch.setattr(sys.modules["dpconvex.privacy.verify"], "MOST_PRICING", 1e5)
    monkeypatch.setattr(sys.modules["dpconvex.privacy.verify"], "MOST_TRYING", 1e5)
    verify(json.dumps(fields([(gaussian(0.1), None, 1)])))  # imports are not counted
    for name, text in list(texts().items())[::every]:
        traced = len(text) < 2000  # tracing slows long ones down
        if traced:
            tracemalloc.start()
        start = time.process_time()
        result = verify(text)
        assert isinstance(result.unconfirmed, tuple)
        assert time.process_time() - start < 6, name
        if traced:
            assert tracemalloc.get_traced_memory()[1] < 2**28, name
            tracemalloc.stop()


@pytest.mark.slow
def test_no_certificate_takes_long_at_length() -> None:
    for name, text in texts().items():
        start = time.process_time()
        result = verify(text)
        assert isinstance(result.unconfirmed, tuple)
        assert time.process_time() - start < 20, name


@pytest.mark.gate
def test_what_is_too_much_to_price_is_a_failed_check_with_a_reason() -> None:
    for name, words in {
        "a median's pure release a billion times": "a grid of too many points",
        "a billion steps": "steps=1000000000: must be at most 1000000",
        "many releases": "more computing than a check may",
        "blocks beside many releases": "their product is above",
        "groups of groups": "events lie",
    }.items():
        result = verify(json.dumps(fields(HOSTILE[name]())))
        failed = [check.detail for check in result.checks if not check.passed]
        assert any(words in detail for detail in failed), (name, failed)
    few = texts()
    assert "262144 values" in verify(few["300,000 public numbers"]).checks[0].detail
    assert "64 lists" in verify(few["a deep public fact"]).checks[0].detail
    assert "16 MiB" in verify(few["a long text"]).checks[0].detail


def test_numbers_that_were_not_tried_are_named() -> None:
    result = verify(json.dumps(fields([(gaussian(0.1), None, 1)], {"x": list(range(3000))})))
    assert {f"public.x[{k}]" for k in range(3000)} <= set(result.unconfirmed)


GENUINE = [
    [(gaussian(0.1), None, 3), (pure(0.1), "left", 2)],
    [(sampled(5), None, 1), (pure(0.2), None, 1)],
    [(poisson(0.1, 20, 0.5), None, 1)],
    [(repeated(0.5, [whole([[None, 1, pure(0.1)], ["a", 1, gaussian(0.1)]])], 9), None, 1)],
    [
        (grouped(2, gaussian(0.1)), None, 1),
        ({"kind": "vertex_draws", "largest": 1.0, "draws": 9, "square_sum": 1.0}, None, 1),
    ],
]
HUGE = [0, 1, -1, 2**53, 10**9, 10**30, 10**400, 10**4000, 5e-324, 1e-300, 1e300, -1.5, 0.5, 1e6]
ODD = st.sampled_from([None, True, "x", "", [], {}, [[]], [1, 2], {"kind": "pure_mechanism"}, gaussian(0.1), *HUGE])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of everything in nested fields."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [p for key, each in inner for p in places(each, (*path, key))]


@settings(max_examples=60)
@given(data=st.data())
def test_certificates_with_odd_values_are_checked_without_an_exception(data: st.DataObject) -> None:
    given_fields = copy.deepcopy(fields(data.draw(st.sampled_from(GENUINE)), {"n": 10, "x": [1.0, {"y": 2}]}))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(given_fields)))
        inner: Any = given_fields
        for key in path[:-1]:
            inner = inner[key]
        if data.draw(st.booleans()):
            inner[path[-1]] = data.draw(ODD | st.floats(allow_nan=False, allow_infinity=False))
        else:
            del inner[path[-1]]
    given_fields["digest"] = digest(given_fields)
    result = verify(json.dumps(given_fields))
    assert isinstance(result.passed, bool)
    assert isinstance(result.unconfirmed, tuple)


def test_sizes_are_counted_without_recursion() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert certificates._size({"x": value}) == float("inf")
    assert certificates._size({"x": [1, 2, {"y": 3}]}) == 5
