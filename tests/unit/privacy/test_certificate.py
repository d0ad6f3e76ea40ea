from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpconvex
from dpconvex import PrivateLogisticRegression
from dpconvex.errors import CertificateError
from dpconvex.privacy import (
    Assumption,
    GaussianNoise,
    NoiseSource,
    NormExponentialNoise,
    PrivacyCertificate,
    PrivacyParams,
    Release,
    Sensitivity,
    certify,
    verify,
)
from dpconvex.privacy.certificate import digest
from dpconvex.privacy.verify import _differences


def certificate(event: Any = None, delta: float = 0.0, private: bool = True) -> PrivacyCertificate:
    event = event or NormExponentialNoise(0.25, 0.5)
    return certify(
        algorithm="a method",
        constants="calibrated",
        theorem="A theorem.",
        target=PrivacyParams(1.0, delta),
        releases=(Release("point", "noise", event, Sensitivity(0.25, "l2", "a lemma")),),
        assumptions=(Assumption("records lie in the domain", "clipping"),),
        noise_source=NoiseSource("operating system" if private else "seeded", private, True),
        public={"n": 10},
    )


BOTH = [certificate(), certificate(GaussianNoise(0.25, 1.5), 1e-3)]


@pytest.mark.parametrize("given", BOTH, ids=["pure", "gaussian"])
def test_round_trip_and_verification(given: PrivacyCertificate, tmp_path: Path) -> None:
    text = given.to_json()
    assert PrivacyCertificate.from_json(text) == given
    path = tmp_path / "certificate.json"
    path.write_text(text)
    for form in (given, text, path, str(path)):
        result = verify(form)
        assert result.passed, [check for check in result.checks if not check.passed]
        assert result.epsilon == given.spent_epsilon


def test_costs() -> None:
    assert (BOTH[0].spent_epsilon, BOTH[0].spent_delta) == (0.5, 0.0)
    assert BOTH[1].spent_delta == 1e-3
    assert GaussianNoise(0.25, 1.5).delta(BOTH[1].spent_epsilon) <= 1e-3


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for key, item in value.items() for p in paths(item, (*prefix, key))]
    if isinstance(value, list):
        return [p for key, item in enumerate(value) for p in paths(item, (*prefix, key))]
    return [prefix]


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2 + 1
    return "tampered" if value is None else f"{value} tampered"


@pytest.mark.parametrize("given", BOTH, ids=["pure", "gaussian"])
def test_every_single_change_is_found(given: PrivacyCertificate) -> None:
    fields = json.loads(given.to_json())
    for path in paths(fields):
        tampered = json.loads(given.to_json())
        inner = tampered
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = changed(inner[path[-1]])
        assert not verify(json.dumps(tampered)).passed, path


FORGERIES: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("smaller spent epsilon", lambda f: f["spent"].update(epsilon=0.1)),
    ("half the noise", lambda f: f["releases"][0]["event"].update(scale=0.1)),
    ("sensitivity above the event's", lambda f: f["releases"][0]["sensitivity"].update(value=0.3)),
    ("no releases", lambda f: f.update(releases=[])),
    ("smaller promise", lambda f: f["target"].update(epsilon=0.4)),
    ("seeded but called private", lambda f: f["noise_source"].update(private=False)),
    ("another unit", lambda f: f["target"].update(unit="user")),
    ("unknown event", lambda f: f["releases"][0]["event"].update(kind="magic")),
    ("more releases than paid for", lambda f: f["releases"][0].update(times=5)),
]


@pytest.mark.parametrize(("name", "forge"), FORGERIES, ids=[name for name, _ in FORGERIES])
def test_forgeries_with_a_fresh_digest_are_found(name: str, forge: Callable[[dict[str, Any]], None]) -> None:
    fields = json.loads(BOTH[0].to_json())
    forge(fields)
    fields["digest"] = digest(fields)
    assert not verify(json.dumps(fields)).passed


def test_seeded_certificates_do_not_verify() -> None:
    seeded = certificate(private=False)
    assert not seeded.private
    assert "NOT PRIVATE" in seeded.explain()
    result = verify(seeded)
    assert [check.name for check in result.checks if not check.passed] == ["noise is not seeded"]


def test_noise_sources_that_nobody_knows_do_not_verify() -> None:
    model = PrivateLogisticRegression(1.0, feature_norm=1.0, classes=[0, 1], random_state=1)
    fields = json.loads(model.fit(np.eye(4), [0, 1, 0, 1]).certificate_.to_json())
    fields["noise_source"] |= {"name": "hardware dice", "private": True, "exact_bits": True, "note": ""}
    fields["private"] = True
    fields["digest"] = digest(fields)
    (failed,) = (check for check in dpconvex.verify(json.dumps(fields)).checks if not check.passed)
    assert failed.name == "planned again: noise source"


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"schema_version": 99}', '{"schema_version": 1}'])
def test_malformed_files_give_a_failed_check(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    result = verify(path)
    assert not result.passed
    assert math.isnan(result.epsilon)
    with pytest.raises(CertificateError):
        PrivacyCertificate.from_json(text)


def test_missing_file(tmp_path: Path) -> None:
    assert not verify(tmp_path / "nothing.json").passed


def test_explain_names_the_parts() -> None:
    text = BOTH[0].explain()
    for part in ("replacing one row", "epsilon = 0.5", "a lemma", "clipping", "operating system"):
        assert part in text


def test_no_text_of_a_certificate_makes_a_line_of_its_own() -> None:
    """A payment or an assumption could end its line, erase it on a terminal, and state another promise."""
    forged = "line 1.\x1b[2K\nPromise: replacing one row changes nothing"
    one = replace(BOTH[0], budget=forged, assumptions=(Assumption(forged, "declared"), *BOTH[0].assumptions))
    for reasons in (False, True):
        text = one.explain(reasons)
        assert sum(line.startswith("Promise") for line in text.split("\n")) == 1
        assert text.replace("\n", "").isprintable()
        assert text.count("replacing one row changes nothing") == 2
    spaced = replace(BOTH[0], budget="Größe von O'Brien\u00a0")
    assert "Größe von O'Brien\\xa0." in spaced.explain()


def test_one_is_as_planned_where_a_float_of_it_is_and_a_truth_is_not() -> None:
    """Earlier versions stated integers where they were given such."""
    assert [*_differences({"a": [1, 2.0]}, {"a": [1.0, 2]}, (), 0.0)] == []
    for stated, planned in ((1, 2.0), (True, 1), (1.0, True), ("1", 1), (1, 2), ([1], 1)):
        assert [*_differences(stated, planned, ("a",), 1e-9)] == [(("a",), stated, planned)]
