"""A Gaussian budget: one price for any number of uses, which is set once and enforced."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms import GaussianBudget, GaussianMechanism
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.privacy.ledger import total_delta
from dpconvex.randomness import SeededSource

WHOLE = GaussianMechanism.of_mu(Sensitivity(0.5, "l2", "test"), 0.3, 2)
BUDGET = GaussianBudget(WHOLE)


def started(source: SeededSource | None = None):
    ledger = Ledger(PrivacyParams(50.0, 0.1), [BUDGET.planned("steps")])
    return BUDGET.start("steps", source or SeededSource(0), ledger), ledger


@pytest.mark.parametrize("uses", [1, 2, 3, 16, 256, 9999])
def test_the_price_does_not_depend_on_the_number_of_uses(uses: int) -> None:
    """Squares of the uses' mu add up to the budget's, and never to more."""
    each, whole = BUDGET.each(uses).event, BUDGET.event
    spent = uses * (each.sensitivity / each.sigma) ** 2 / (whole.sensitivity / whole.sigma) ** 2
    assert 1 - 1e-9 < spent <= 1
    assert total_delta([BUDGET.planned("steps")], 1.0) == total_delta([WHOLE.planned("steps")], 1.0)


def test_noise_is_that_of_the_number_that_was_set() -> None:
    session, _ = started(SeededSource(1))
    session.set_uses(400)
    found = np.array([session.release(np.zeros(2)) for _ in range(400)])
    assert np.std(found) == pytest.approx(20 * WHOLE.sigma, rel=0.13)  # five standard errors
    assert len(np.unique(found)) > 700


def test_the_budget_is_recorded_once_and_before_the_first_use() -> None:
    session, ledger = started()
    assert ledger.recorded == [BUDGET.planned("steps")]
    session.set_uses(2)
    session.release(np.zeros(2))
    assert len(ledger.recorded) == 1
    with pytest.raises(BudgetExceededError, match="covered"):
        BUDGET.start("steps", SeededSource(0), ledger)


def test_no_use_before_the_number_is_set_and_none_beyond_it() -> None:
    session, _ = started()
    with pytest.raises(BudgetExceededError, match="not set yet"):
        session.release(np.zeros(2))
    session.set_uses(2)
    for _ in range(2):
        session.release(np.zeros(2))
    with pytest.raises(BudgetExceededError, match="no use is left"):
        session.release(np.zeros(2))


def test_the_number_is_set_once() -> None:
    session, _ = started()
    session.set_uses(2)
    with pytest.raises(BudgetExceededError, match="set already"):
        session.set_uses(1)
    session.release(np.zeros(2))
    with pytest.raises(BudgetExceededError, match="set already"):
        session.set_uses(100)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="uses=0"):
        BUDGET.each(0)
    session, _ = started()
    session.set_uses(1)
    with pytest.raises(InvalidParameterError, match="shape"):
        session.release(np.zeros(3))
