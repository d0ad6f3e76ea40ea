"""`private_game`: three forms of records, one answer; parameters and shapes are checked."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex import PrivacyCertificate, private_game, verify
from dpconvex.errors import InvalidDataError, InvalidParameterError

RULES = np.array([[0.9, 0.9, 0.9], [-0.5, 0.2, -0.9], [0.8, 0.9, 0.7]])
"""Row 1 is best for the row player whatever the other does; then column 1 for the other."""


@pytest.mark.gate
def test_dominant_strategies_gain_the_mass() -> None:
    rng = np.random.default_rng(0)
    payoffs = np.where(rng.random((4000, 3, 3)) < (1 + RULES) / 2, 1.0, -1.0)
    for algorithm in ("auto", "vertex_mirror_descent"):
        result = private_game(payoffs, epsilon=2.0, algorithm=algorithm, random_state=0)
        assert (result.x.argmax(), result.y.argmax()) == (1, 1)
        assert result.x.sum() == pytest.approx(1)


@pytest.mark.gate
def test_rank_one_records_and_plays() -> None:
    rng = np.random.default_rng(1)
    a = np.where(rng.random((4000, 3)) < [0.9, 0.1, 0.9], 1, -1).astype(np.int8)
    b = np.ones((4000, 2), dtype=np.int8)
    result = private_game(np.hstack([a, b]), epsilon=2.0, form="rank_one", shape=(3, 2), random_state=0)
    assert result.x.argmax() == 1
    i, j = rng.integers(0, 3, 20_000), rng.integers(0, 3, 20_000)
    plays = np.column_stack([i, j, RULES[i, j]])
    result = private_game(plays, epsilon=4.0, form="plays", shape=(3, 3), random_state=0)
    assert result.x.argmax() == 1


def test_the_certificate_verifies_and_content_never_speaks() -> None:
    texts = set()
    for value in (0.0, np.nan, np.inf, -1e300):
        result = private_game(np.full((300, 2, 3), value), epsilon=1.0)
        assert np.isfinite(result.x).all()
        texts.add(result.certificate.to_json())
    assert len(texts) == 1
    assert verify(texts.pop()).passed


@pytest.mark.parametrize("records", [np.zeros((0, 2, 2)), np.zeros((5, 2)), [[1.0]], np.full((5, 2, 2), "a")])
def test_wrong_forms_are_refused(records) -> None:
    with pytest.raises(InvalidDataError):
        private_game(records, epsilon=1.0)


@pytest.mark.parametrize(
    "wrong",
    [{"form": "cards"}, {"epsilon": 0.0}, {"bound": 0.0}, {"algorithm": "magic"}, {"constants": "x"}, {"delta": 0.6}],
)
def test_parameters_are_checked(wrong) -> None:
    with pytest.raises(InvalidParameterError):
        private_game(np.zeros((50, 2, 2)), **{"epsilon": 1.0, **wrong})
    with pytest.raises(InvalidParameterError, match="shape"):
        private_game(np.zeros((50, 4)), epsilon=1.0, form="rank_one")


def test_records_that_are_no_array_or_none_say_so() -> None:
    with pytest.raises(InvalidDataError, match="are a list; a NumPy array"):
        private_game([[[0.0, 1.0]] * 2], epsilon=1.0)
    with pytest.raises(InvalidDataError, match=r"have shape \(0, 2, 2\)"):
        private_game(np.zeros((0, 2, 2)), epsilon=1.0)


def test_bounds_of_any_type_are_floats() -> None:
    for bound in (np.float32(1), np.int64(1)):
        found = private_game(np.zeros((50, 2, 2)), epsilon=np.float32(1), bound=bound)
        assert verify(PrivacyCertificate.from_json(found.certificate.to_json())).planned
