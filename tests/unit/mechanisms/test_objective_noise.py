"""Noise of objective perturbation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.geometry import GroupedNorm, L2Norm
from dpconvex.mechanisms import GaussianMechanism, GaussianObjectiveNoise, NormObjectiveNoise
from dpconvex.privacy import (
    GaussianObjectivePerturbation,
    Ledger,
    PrivacyParams,
    PureObjectivePerturbation,
    Sensitivity,
)
from dpconvex.privacy.events.objective import CurvedObjectivePerturbation
from dpconvex.randomness import SeededSource, SystemSource, real
from instances import instances

PURE = PureObjectivePerturbation(2.0, 4.0, 0.01, "determinant", 0.25)
GAUSS = GaussianObjectivePerturbation(1.0, 5.0, 0.02, 0.01, "one_sided", 0.25)


def pure(norm) -> NormObjectiveNoise:
    return NormObjectiveNoise(norm, PURE, Sensitivity(2.0, norm.name, "test"))


def gaussian(deviations, event=GAUSS) -> GaussianObjectiveNoise:
    return GaussianObjectiveNoise(np.asarray(deviations), event, Sensitivity(2.0, "l2", "test"))


def ledger_for(noise) -> Ledger:
    return Ledger(PrivacyParams(100.0, 0.1), [noise.planned("w")])


@pytest.mark.parametrize("norm", [L2Norm(3), instances(GroupedNorm)[0]], ids=lambda norm: norm.name)
def test_pure_noise_has_the_events_scale_and_one_copy_per_output(norm) -> None:
    noise, ledger = pure(norm), None
    ledger = ledger_for(noise)
    b = noise.draw(3, "w", SeededSource(4), ledger)
    np.testing.assert_array_equal(b, 4.0 * real.draw(norm, 3, SeededSource(4)).reshape(-1))
    assert len(np.unique(b)) == 3 * norm.dim
    assert ledger.recorded == [noise.planned("w")]
    assert noise.exact_bits(SystemSource())
    assert not noise.exact_bits(SeededSource(4))
    with pytest.raises(BudgetExceededError):
        noise.draw(3, "w", SeededSource(4), ledger)
    with pytest.raises(InvalidParameterError, match="norm"):
        NormObjectiveNoise(norm, PURE, Sensitivity(2.0, "other", "test"))


@pytest.mark.gate
def test_gaussian_noise_has_the_events_sigma_per_coordinate() -> None:
    noise = gaussian([1.0, 0.1, 3.0])
    draws = noise.draw(20_000, "w", SystemSource(), ledger_for(noise)).reshape(-1, 3)
    np.testing.assert_allclose(draws.std(0) / [5.0, 0.5, 15.0], 1.0, rtol=0.03)  # 6 standard errors


@pytest.mark.parametrize("source", [SeededSource(1), SystemSource()], ids=["seeded", "system"])
def test_output_noise_belongs_to_the_same_release(source) -> None:
    noise = gaussian(np.ones(3))
    ledger, w = ledger_for(noise), np.full(6000, 0.25)
    with pytest.raises(BudgetExceededError, match="draw"):
        noise.add_output_noise(w, 1e-3, "w", source, ledger)
    noise.draw(2000, "w", source, ledger)
    released = noise.add_output_noise(w, 1e-3, "w", source, ledger)
    assert (released - w).std() == pytest.approx(1e-3, rel=0.06)  # 6 standard errors
    assert len(ledger.recorded) == 1
    assert noise.exact_bits(source) == source.exact


def test_curvature_noise_belongs_to_the_same_release_and_is_covered_by_its_price() -> None:
    event = CurvedObjectivePerturbation(1.0, 5.0, 0.02, 0.01, "one_sided", 0.25, 0.3)
    mechanism = GaussianMechanism.of_mu(Sensitivity(2.0, "l2", "test"), event.curvature_mu, 6000)
    noise = GaussianObjectiveNoise(np.ones(3), event, Sensitivity(2.0, "l2", "test"), curvature=mechanism)
    ledger, value = ledger_for(noise), np.full(6000, 7.0)
    with pytest.raises(BudgetExceededError, match="draw"):
        noise.add_curvature_noise(value, "w", SeededSource(1), ledger)
    noise.draw(1, "w", SeededSource(1), ledger)
    released = noise.add_curvature_noise(value, "w", SeededSource(1), ledger)
    assert (released - value).std() == pytest.approx(2 / 0.3, rel=0.06)
    assert len(ledger.recorded) == 1
    smaller = GaussianMechanism.of_mu(mechanism.sensitivity, 0.31, 6000)
    for priced in (event, GAUSS):
        with pytest.raises(InvalidParameterError, match="curvature_mu"):
            replace(noise, event=priced, curvature=smaller)
    plain, ledger = gaussian(np.ones(3)), ledger_for(gaussian(np.ones(3)))
    plain.draw(1, "w", SeededSource(1), ledger)
    with pytest.raises(InvalidParameterError, match="curvature"):
        plain.add_curvature_noise(value, "w", SeededSource(1), ledger)


@pytest.mark.parametrize(("dim", "rho"), [(50, 0.02), (1, 1e-4), (7, 1e-4), (1000, 1e-4)])
def test_output_noise_charges_for_its_grid(dim, rho, monkeypatch) -> None:
    """Solver radius plus rounding, over the sampled deviation, stays within half of rho; of a small rho, too."""
    seen = {}

    def keep(value, sigma, step, source):
        seen.update(sigma=sigma, step=step)
        return value

    monkeypatch.setattr("dpconvex.mechanisms.objective_noise.add_gaussian", keep)
    noise = gaussian(np.ones(dim), replace(GAUSS, rho=rho))
    ledger = ledger_for(noise)
    noise.draw(1, "w", SeededSource(0), ledger)
    noise.add_output_noise(np.zeros(dim), 1e-3, "w", SeededSource(0), ledger)
    radius, rounded = rho * 1e-3 / 2, seen["step"] * np.sqrt(dim) / 2
    assert rounded <= 2**-11 * radius * (1 + 1e-9)  # half of what the enlarged noise pays for
    assert 2 * (radius + rounded) / seen["sigma"] <= rho
    assert seen["sigma"] >= 2**20 * seen["step"]
    assert 2**62 * seen["step"] > 1e6  # coefficients this large do not saturate


def test_output_noise_needs_a_planned_radius() -> None:
    noise = gaussian(np.ones(3), GaussianObjectivePerturbation(1.0, 5.0, 0.0, 0.01, "one_sided", 0.25))
    ledger = ledger_for(noise)
    noise.draw(1, "w", SeededSource(0), ledger)
    with pytest.raises(InvalidParameterError, match="rho"):
        noise.add_output_noise(np.zeros(3), 1e-3, "w", SeededSource(0), ledger)
    with pytest.raises(InvalidParameterError, match="standard_deviations"):
        gaussian([1.0, 0.0])
