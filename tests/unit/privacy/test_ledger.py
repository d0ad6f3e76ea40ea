from __future__ import annotations

import pytest

from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.privacy import (
    AddedObjectivePerturbation,
    GaussianNoise,
    Ledger,
    Neighboring,
    NormExponentialNoise,
    PrivacyParams,
    PureMechanism,
    Release,
    Sensitivity,
    Unit,
    WholeRun,
)
from dpconvex.privacy.ledger import total_delta, total_epsilon

ADDED = Neighboring.ADD_OR_REMOVE_ONE


def release(epsilon: float, label: str = "value", block: str | None = None, times: int = 1) -> Release:
    return Release(label, "test", PureMechanism(epsilon), Sensitivity(1.0, "l1", "by hand"), block, times)


def test_only_planned_releases_are_recorded() -> None:
    planned = release(0.25, times=2)
    ledger = Ledger(PrivacyParams(1.0), [planned, release(0.5, "other")])
    once = release(0.25)
    ledger.record(once)
    ledger.record(once)
    with pytest.raises(BudgetExceededError, match="value"):
        ledger.record(once)
    with pytest.raises(BudgetExceededError, match="value"):
        Ledger(PrivacyParams(1.0), [release(0.25, times=2)]).record(release(0.25, times=3))
    with pytest.raises(BudgetExceededError, match="stranger"):
        ledger.record(release(1e-9, "stranger"))
    assert ledger.recorded == [once, once]


def test_a_plan_beyond_the_promise_is_refused() -> None:
    Ledger(PrivacyParams(1.0), [release(0.5, "a"), release(0.5, "b")])
    with pytest.raises(BudgetExceededError, match="must be at most"):
        Ledger(PrivacyParams(1.0), [release(0.5, "a"), release(0.5000000000000001, "b")])
    with pytest.raises(BudgetExceededError):
        Ledger(PrivacyParams(1.0, 1e-9), [Release("g", "t", GaussianNoise(1, 1), Sensitivity(1.0, "l2", "x"))])


def test_a_price_for_other_neighbors_is_refused() -> None:
    """The stated sensitivity may be for the right ones."""
    event = AddedObjectivePerturbation(1.0, 4.0, 0.01, "determinant", 0.25)
    for each in (event, WholeRun(((None, 1, event),))):
        Ledger(PrivacyParams(1.0, neighboring=ADDED), [Release("w", "t", each, Sensitivity(1.0, "l1", "x", ADDED))])
        with pytest.raises(BudgetExceededError, match="price is for another relation"):
            Ledger(PrivacyParams(1.0), [Release("w", "t", each, Sensitivity(1.0, "l1", "x"))])


def test_exact_sum_rounds_up() -> None:
    # 0.1 three times is more than the float 0.3.
    assert total_epsilon([release(0.1, times=3)], 0.0) > 0.3
    with pytest.raises(BudgetExceededError):
        Ledger(PrivacyParams(0.3), [release(0.1, times=3)])


def test_disjoint_blocks_cost_the_dearest_one() -> None:
    releases = [release(0.2, "all"), release(0.5, "a", block="first"), release(0.3, "b", block="second")]
    assert total_epsilon(releases, 0.0) == pytest.approx(0.7)
    assert total_delta(releases, 0.71) == 0.0
    assert total_delta(releases, 0.6) == 1.0


def test_relation_and_unit_must_match() -> None:
    odd = Sensitivity(1.0, "l1", "by hand", Neighboring.ADD_OR_REMOVE_ONE)
    with pytest.raises(BudgetExceededError, match="relation"):
        Ledger(PrivacyParams(1.0), [Release("v", "t", PureMechanism(0.1), odd)])
    user = Sensitivity(1.0, "l1", "by hand", unit=Unit.USER)
    with pytest.raises(BudgetExceededError, match="unit"):
        Ledger(PrivacyParams(1.0), [Release("v", "t", PureMechanism(0.1), user)])


def test_an_event_must_cover_the_lemma_s_sensitivity() -> None:
    with pytest.raises(InvalidParameterError, match="sensitivity"):
        Release("v", "t", NormExponentialNoise(1.0, 2.0), Sensitivity(1.1, "l1", "by hand"))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0.0, 0.0),
        (-1.0, 0.0),
        (float("nan"), 0.0),
        (float("inf"), 0.0),
        (1.0, 0.5),
        (1.0, -1e-9),
        (True, 0.0),
        ("1", 0),
    ],
)
def test_bad_promises_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InvalidParameterError, match=r"(epsilon|delta)="):
        PrivacyParams(epsilon, delta)
