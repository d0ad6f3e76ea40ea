"""The public data sets that ship with the library."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from dpconvex.data.read import read_table
from dpconvex.data.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_ADULT = files("dpconvex.data") / "adult"
_CITIES = files("dpconvex.data") / "cities"


def load_adult() -> pa.Table:
    """Adult census income: 45,222 people, 14 columns and ``income`` (above 50,000 dollars for 24.8 %).

    Returns
    -------
    pyarrow.Table

    Notes
    -----
    Barry Becker and Ronny Kohavi, UCI Machine Learning Repository, 1996, doi 10.24432/C5XW20, license CC BY 4.0. The
    changes made are listed in the README beside the file.
    """
    with as_file(_ADULT / "adult.parquet") as path:
        return read_table(path)


def adult_schema() -> Schema:
    """Schema of `load_adult`, from the data set's public documentation: 13 feature columns, 102 encoded features.

    The survey weight ``fnlwgt`` is no feature of a person and is left out.
    """
    return Schema.from_toml_text((_ADULT / "adult.toml").read_text(encoding="utf-8"), "adult.toml")


def load_cities() -> pa.Table:
    """The 34,006 cities with 15,000 people or more: ``country`` (ISO code), ``latitude``, ``longitude`` in degrees.

    Returns
    -------
    pyarrow.Table

    Notes
    -----
    GeoNames, https://www.geonames.org, license CC BY 4.0. The changes made are listed in the README beside the file.
    """
    with as_file(_CITIES / "cities.parquet") as path:
        return read_table(path)
