"""What every exported mechanism must satisfy; a new mechanism is tested by its export line and its instances."""

from __future__ import annotations

import inspect
import pickle
import sys
from unittest import mock

import numpy as np
import pytest

import dpconvex.mechanisms as package
from dpconvex.errors import BudgetExceededError
from dpconvex.mechanisms import AboveThreshold, ExponentialMechanism, Mechanism, NormNoiseMechanism, ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Release
from dpconvex.privacy.events import event_from_dict
from dpconvex.privacy.ledger import total_epsilon
from dpconvex.randomness import BitSource, OwnSamplers, SeededSource, SystemSource
from dpconvex_experiments.reference.location import MedianMechanism
from dpconvex_experiments.reference.printed_median import BoundedLaplaceMechanism
from instances import instances

pytestmark = pytest.mark.together

CLASSES = [
    kind
    for kind in map(package.__dict__.get, package.__all__)
    if inspect.isclass(kind) and issubclass(kind, Mechanism) and not inspect.isabstract(kind)
] + [BoundedLaplaceMechanism, MedianMechanism]
MECHANISMS = [pytest.param(m, id=f"{type(m).__name__}-{i}") for kind in CLASSES for i, m in enumerate(instances(kind))]
SOURCES = pytest.mark.parametrize("source", [SeededSource(11), SystemSource()], ids=["seeded", "system"])


def value_for(mechanism) -> np.ndarray:
    if isinstance(mechanism, ReportNoisyMax | ExponentialMechanism | AboveThreshold):
        return np.array([0.5, 1.5, -2.0, 3.0])
    dim = mechanism.norm.dim if isinstance(mechanism, NormNoiseMechanism) else mechanism.dim
    return np.linspace(-1.0, 1.0, dim)


def promise(mechanism, times: int = 1) -> Ledger:
    return Ledger(PrivacyParams(1e3, 0.4), [mechanism.planned("value")] * times)


def test_every_concrete_export_is_under_contract() -> None:
    assert {"LaplaceMechanism", "GaussianMechanism", "NormNoiseMechanism", "ReportNoisyMax", "AboveThreshold"} <= {
        kind.__name__ for kind in CLASSES
    }
    assert len({kind.name for kind in CLASSES}) == len(CLASSES)
    assert "exact_bits" in Mechanism.__abstractmethods__  # what certificates repeat is never claimed by default


@pytest.mark.parametrize("mechanism", MECHANISMS)
@SOURCES
def test_release_is_recorded_and_finite(mechanism, source) -> None:
    ledger, value = promise(mechanism), value_for(mechanism)
    before = value.copy()
    released = mechanism.release(value, "value", source, ledger)
    assert ledger.recorded == [mechanism.planned("value")]
    assert np.isfinite(released).all()
    np.testing.assert_array_equal(value, before)
    if isinstance(released, np.ndarray):
        assert (released.shape, released.dtype) == (value.shape, np.float64)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_exact_without_opendp_never_asks_it(mechanism, monkeypatch) -> None:
    """And what is not does: plans know before they are paid whether a run can draw."""
    monkeypatch.setitem(sys.modules, "opendp", None)

    def release() -> None:
        mechanism.release(value_for(mechanism), "value", SystemSource(), promise(mechanism))

    if mechanism.exact_bits(OwnSamplers()):
        release()
    else:
        with pytest.raises(ImportError, match="opendp"):
            release()
    assert not mechanism.exact_bits(SeededSource(0))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("planned", [[], ["another label"]])
def test_unplanned_releases_are_refused_before_anything_is_sampled(mechanism, planned) -> None:
    source = mock.create_autospec(SystemSource, instance=True)
    source.exact = False
    ledger = Ledger(PrivacyParams(1e3, 0.4), [mechanism.planned(label) for label in planned])
    with (
        mock.patch("dpconvex.randomness.exact._exact") as exact,
        mock.patch("dpconvex.randomness.exact.argmax_measurement") as argmax,
        pytest.raises(BudgetExceededError, match=r"not .* covered"),
    ):
        mechanism.release(value_for(mechanism), "value", source, ledger)
    source.generator.assert_not_called()
    exact.assert_not_called()
    argmax.assert_not_called()
    assert ledger.recorded == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_ledger_knows_before_the_sampler_runs(mechanism) -> None:
    ledger = promise(mechanism)

    class Watching(BitSource):
        name, private, exact = "watching", False, False

        def generator(self):
            assert len(ledger.recorded) == 1
            return SeededSource(0).generator()

    mechanism.release(value_for(mechanism), "value", Watching(), ledger)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_k_calls_cost_what_k_planned_releases_cost(mechanism) -> None:
    ledger, source = promise(mechanism, 3), SeededSource(0)
    for _ in range(3):
        mechanism.release(value_for(mechanism), "value", source, ledger)
    with pytest.raises(BudgetExceededError):
        mechanism.release(value_for(mechanism), "value", source, ledger)
    once = mechanism.planned("value")
    counted = Release(once.label, once.mechanism, once.event, once.sensitivity, times=3)
    if mechanism.event.pure_epsilon is None:
        assert total_epsilon(ledger.recorded, 1e-6) == pytest.approx(total_epsilon([counted], 1e-6), rel=1e-3)
    else:
        assert total_epsilon(ledger.recorded, 0.0) == total_epsilon([counted], 0.0)
        assert total_epsilon([counted], 0.0) == pytest.approx(3 * float(mechanism.event.pure_epsilon))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_equal_seeds_repeat_and_system_entropy_does_not(mechanism) -> None:
    value = value_for(mechanism)
    first, second = (mechanism.release(value, "value", SeededSource(5), promise(mechanism)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    if isinstance(first, np.ndarray):
        many = [mechanism.release(value, "value", SystemSource(), promise(mechanism)) for _ in range(20)]
        assert any((each != many[0]).any() for each in many)  # equal with probability below 2^-18: noise has spread


@pytest.mark.parametrize("mechanism", MECHANISMS)
@SOURCES
def test_content_neither_raises_nor_warns(mechanism, source) -> None:
    shape = value_for(mechanism).shape
    for content in (np.nan, np.inf, -np.inf, 1e308, 0.0, 5e-324):
        assert np.isfinite(mechanism.release(np.full(shape, content), "value", source, promise(mechanism))).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_event_covers_the_sensitivity_and_survives_a_round_trip(mechanism) -> None:
    release = mechanism.planned("value", "block 1")
    assert Release.from_dict(release.to_dict()) == release
    assert event_from_dict(mechanism.event.to_dict()) == mechanism.event
    claimed = mechanism.event.claimed_sensitivity
    assert claimed is None or claimed >= mechanism.sensitivity.value
    assert release.sensitivity is mechanism.sensitivity
    assert release.block == "block 1"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_mechanisms_are_immutable_and_pickle(mechanism) -> None:
    with pytest.raises(AttributeError):
        mechanism.sensitivity = None
    copied = pickle.loads(pickle.dumps(mechanism))
    assert copied.planned("value") == mechanism.planned("value")
    assert not mechanism.exact_bits(SeededSource(0))
