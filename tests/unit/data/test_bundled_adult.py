"""The bundled data set: the counts that its sources state, and a schema that covers every record."""

from __future__ import annotations

import pytest

from dpconvex._arrow import pc
from dpconvex.data import adult_schema, load_adult


def test_counts_are_those_of_the_source() -> None:
    """45,222 complete records, 24.78 % above 50K without unknowns: UCI, adult.names."""
    adult = load_adult()
    assert adult.shape == (45_222, 15)
    y = adult_schema().encode_target(adult)
    assert y.mean() == pytest.approx(0.2478, abs=5e-5)
    assert adult["fnlwgt"].to_pylist()[0] > 0


@pytest.mark.gate
def test_schema_covers_every_record_and_has_the_measured_blocks() -> None:
    """Block sizes: docs, Objective perturbation, section 4, with sex as one column of values -1/2 and 1/2."""
    adult, schema = load_adult(), adult_schema()
    schema.require_confirmed()
    sizes = [block.size for block in schema.domain().blocks]
    assert sizes == [1] * 5 + [7, 16, 7, 14, 6, 5, 1, 41]
    for column in schema.columns:
        if column.numeric:
            ends = pc.min_max(adult[column.name]).as_py()
            assert column.lower <= ends["min"] <= ends["max"] <= column.upper  # pyright: ignore[reportAttributeAccessIssue]
    X = schema.encode(adult)
    start = 0
    for size in sizes:
        part = X[:, start : start + size]
        if size > 1:
            assert (part.sum(1) == 1).all()
            assert (part.sum(0) > 0).all()  # every listed category occurs
        start += size
    sex = X[:, schema.feature_names.index("sex=Male")]
    assert (abs(sex) == 0.5).all()
    assert sex.mean() + 0.5 == pytest.approx(0.675, abs=5e-4)
