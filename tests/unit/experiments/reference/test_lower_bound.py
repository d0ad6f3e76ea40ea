"""The packing of the lower bound as a test problem: its moments, its risk, and the bound's algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex_experiments.reference.lower_bound import hardest, heavy_tailed_lower_bound


@pytest.mark.parametrize("k", [1.5, 2.0, 3.0])
def test_the_instance_is_the_paper_s(k: float) -> None:
    hard = heavy_tailed_lower_bound(20_000, 12, epsilon=0.1, order=k, seed=1)
    law, norms = hard.law, np.linalg.norm(hard.X, axis=1)
    shown = norms > 0
    np.testing.assert_allclose(norms[shown], law.p ** (-1 / k))
    assert abs(shown.mean() - law.p) < 5 * math.sqrt(law.p / 20_000)
    assert law.moment(k) == 1.0
    assert law.p * norms[shown][0] ** k == pytest.approx(1.0)
    assert hard.problem.domain.l2 >= norms.max()  # nothing is clipped
    assert law.excess(-law.direction) == pytest.approx(0.0, abs=1e-12)
    assert law.excess(np.zeros(12)) == pytest.approx(law.mean_norm)
    np.testing.assert_allclose(hard.X.mean(axis=0), law.mean_norm * law.direction, atol=0.5 * law.mean_norm)
    assert 0 < hard.least_excess < law.mean_norm


def test_the_bound_is_what_packing_and_decoding_prove() -> None:
    """T31: at its p, the decoding error times D m/128; no other p is harder."""
    n, d, epsilon, k = 5_000, 10, 1.0, 2.0
    least, p = hardest(k, n, d, epsilon)
    q = (2**d - 1) * math.exp(-epsilon * math.ceil(n * p))
    assert least == pytest.approx(2 * p ** (1 - 1 / k) / 128 * q / (2 * (1 + q)))
    assert 0.5 <= n * p * epsilon / (d * math.log(2)) <= 1.5
    slopes = [hardest(k, m, d, epsilon)[0] / hardest(k, 4 * m, d, epsilon)[0] for m in (10**4, 10**6)]
    assert slopes == pytest.approx([2.0, 2.0], rel=0.02)


@pytest.mark.parametrize("wrong", [{"order": 1.0}, {"n": 0}, {"dim": 0}, {"epsilon": 0.0}])
def test_public_mistakes_raise(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        heavy_tailed_lower_bound(**{"n": 10, "dim": 2, "epsilon": 1.0, **wrong})  # type: ignore[arg-type]
    assert caught.value.name in wrong
