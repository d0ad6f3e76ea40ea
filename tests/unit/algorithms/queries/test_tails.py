"""Mended tails: skewed columns keep their means, whatever stands out stays, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dpconvex import PrivateSyntheticData, Schema
from dpconvex.algorithms.queries import tails
from dpconvex.algorithms.queries.grouped_tables import GroupedModel
from dpconvex.algorithms.queries.latent_classes import LatentClasses
from dpconvex.algorithms.queries.released_tables import Histogram, ReleasedModel, ReleasedTables
from dpconvex.data import CategoricalColumn, NumericColumn

N = 20_000
EDGES = (0.0, 1.0, 2.0, 4.0, 8.0, 100.0, 500.0, 1000.0)
NOISES = {
    "laplace": {"delta": 0.0, "algorithm": "noisy_tree"},
    "matrix": {"delta": 0.0, "algorithm": "noisy_tables"},
    "gaussian": {"delta": 1e-6},
    "added": {"delta": 0.0, "neighbors": "add_or_remove_one", "rows": N},
    "users": {"delta": 0.0},
}


def table() -> tuple[pa.Table, Schema]:
    rng = np.random.default_rng(0)
    columns = {
        "skewed": np.exp(rng.normal(8, 1, N)).round(),
        "spiked": np.where(rng.random(N) < 0.05, 50_000.0, rng.exponential(500, N).round()),
        "full": rng.uniform(0, 100, N),
    }
    kinds = {f"kind{k}": rng.choice(["a", "b", "c"], N) for k in range(7)}
    ranged = [NumericColumn(name, 0, most) for name, most in zip(columns, (500_000, 50_000, 100), strict=True)]
    return pa.table(columns | kinds), Schema((*ranged, *(CategoricalColumn(name, ("a", "b", "c")) for name in kinds)))


@pytest.mark.parametrize("noise", NOISES)
def test_skewed_numbers_keep_their_mean_and_what_is_at_the_top_stays(noise: str) -> None:
    data, schema = table()
    private = PrivateSyntheticData(1.0, schema=schema, random_state=0, **NOISES[noise])
    private.fit(data, groups=np.arange(N) // 2 if noise == "users" else None)
    assert private.tables_.law == (noise if noise in ("matrix", "gaussian") else "laplace")
    drawn = private.sample(N, random_state=0)
    for name in ("skewed", "spiked", "full"):
        found, real = (np.asarray(each[name], dtype=float) for each in (drawn, data))
        assert 0.85 < found.mean() / real.mean() < 1.2
        assert 0.6 < found.std() / real.std() < 1.4
    assert 0.03 < (np.asarray(drawn["spiked"]) > 30_000).mean() < 0.07
    assert 0.03 < (np.asarray(drawn["full"]) > 95).mean() < 0.07
    assert private.answers_ == pytest.approx(private.model_.answers(private.queries_.subsets))


def mended(shares: list[float], noisy: list[float], noise: float, law: tails.Law = ()) -> tuple[np.ndarray, tails.Law]:
    other = np.array([0.3, 0.7])
    model = LatentClasses((len(shares), 2), np.ones(1), (np.array([shares]), other[None]))
    tables = ReleasedTables(model.shape, ((0,), (1,)), (np.array(noisy), other), (noise, noise), "laplace")
    found, laws = tails.mended(model, tables, {0: (EDGES, law)})
    assert found.marginal((1,)) == pytest.approx(other)
    assert found.marginal((0,)).sum() == pytest.approx(1)
    return found.marginal((0,)), laws[0]


def test_empty_bins_far_out_lose_their_noise_and_nothing_that_stands_out_does() -> None:
    shares, noisy = [0.3, 0.3, 0.2, 0.1, 0.03, 0.04, 0.03], [0.3, 0.3, 0.2, 0.1, -0.02, 0.03, -0.01]
    found, _ = mended(shares, noisy, 0.02)
    assert found[4:].sum() < 0.05  # of 0.1
    assert found[6] < 1e-3
    assert found[:4] / found[0] == pytest.approx(np.array(shares[:4]) / shares[0])
    assert mended(shares, noisy, 0.001)[0][5] >= 0.04  # here it stands out, and the end of the range is not far
    spiked, _ = mended([0.23, *shares[1:6], 0.1], [*noisy[:6], 0.1], 0.02)
    assert spiked[6] >= 0.1
    assert spiked[4:6].sum() < 0.05
    alone, _ = mended(shares, [0.01] * 7, 1.0)
    assert alone == pytest.approx(shares)  # nothing stands out


def test_lower_tails_are_upper_tails_of_the_negative_numbers() -> None:
    shares, noisy = np.array([0.3, 0.3, 0.2, 0.1, 0.03, 0.04, 0.03]), np.array([0.3, 0.3, 0.2, 0.1, -0.02, 0.03, -0.01])
    law = tuple((float(x), float(p)) for x, p in zip((*EDGES[:5], 50.0, *EDGES[5:]), np.linspace(0, 1, 9), strict=True))
    seen = []
    for sign in (1, -1):
        model = Histogram((7,), shares[::sign])
        tables = ReleasedTables((7,), ((0,),), (noisy[::sign],), (0.02,), "laplace")
        own = tuple((sign * x, sign * p) for x, p in law)[::sign]
        found, laws = tails.mended(model, tables, {0: ((*(sign * x for x in EDGES),)[::sign], own)})
        assert isinstance(found, GroupedModel)
        seen.append((found.marginal((0,))[::sign], np.diff([p for _, p in laws[0]])[::sign]))
        assert np.bincount(found.sample(1000, np.random.default_rng(0))[:, 0], minlength=7)[::sign][6] < 5
    for first, second in zip(*seen, strict=True):
        assert first == pytest.approx(second)
    inside = seen[0][1]
    assert inside[4] > 5 * inside[5]  # from 8 to 50, and from there to 100: they were equal


def test_missing_numbers_and_unmeasured_columns_stay_as_they_are() -> None:
    shares, noisy = [0.3, 0.3, 0.1, 0.03, 0.04, 0.03, 0.1, 0.1], [0.3, 0.3, 0.1, 0.0, 0.03, -0.01, 0.01, 0.1]
    found, _ = mended(shares, noisy, 0.02)  # the last value is beyond the bins
    assert found[7] == pytest.approx(0.1)
    assert found[6] < 0.01
    model: ReleasedModel = Histogram((2, 2), np.full(4, 0.25))
    tables = ReleasedTables((2, 2), ((1,),), (np.array([0.5, 0.5]),), (0.1,), "gaussian")
    assert tails.mended(model, tables, {0: ((0.0, 1.0, 2.0), ())})[0] is model
