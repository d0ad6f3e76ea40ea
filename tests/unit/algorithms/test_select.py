"""Lists of plans: tuples that show themselves as one table, with the methods that refused."""

from __future__ import annotations

import copy
import html
import pickle
from html.parser import HTMLParser
from typing import Any

import pytest

from dpconvex import (
    NumericColumn,
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
    Schema,
)
from dpconvex.algorithms.minimax.registry import plan_saddle
from dpconvex.algorithms.select import Plans
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import RankOneGame

BOX: dict[str, Any] = {"feature_bounds": (-1.0, 1.0), "target_bounds": (-1.0, 1.0)}
SCHEMA = Schema((NumericColumn("a", 0, 1), NumericColumn("b", 0, 1)))
LISTS = {
    "logistic": lambda: PrivateLogisticRegression(1.0, feature_norm=1.0).plan(500, 3),
    "users": lambda: PrivateLogisticRegression(1.0, 1e-6, feature_norm=1.0).plan(500, 3, unit="user"),
    "private ranges": lambda: PrivateLinearRegression(1.0, feature_bounds="private", target_bounds="private").plan(
        500, 3
    ),
    "additive": lambda: PrivateAdditiveRegressor(1.0, **BOX).plan(500, 3),
    "heavy tails": lambda: PrivateHuberRegressor(1.0, **BOX, heavy_tailed=(2, 1.0)).plan(500, 3),
    "sparse": lambda: PrivateLasso(1.0, 1e-6, feature_bound=1.0, target_bounds=(0, 1)).plan(500, 3),
    "worst group": lambda: PrivateWorstGroupClassifier(1.0, 1e-6, feature_bound=1.0, groups=["a", "b"]).plan(500, 3),
    "tables": lambda: PrivateSyntheticData(1.0, schema=SCHEMA).plan(500),
    "search": lambda: PrivateSearchCV(
        PrivateLogisticRegression(1.0, feature_norm=1.0, classes=[0, 1]), {"l2": [0.1, 1.0]}
    ).plan(500, 3),
    "game": lambda: plan_saddle(RankOneGame(500, 3, 3), PrivacyParams(1.0)),
}


class Cells(HTMLParser):
    """The cells of every row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.inside = tag in ("th", "td")
        if tag == "tr":
            self.rows.append([])
        elif self.inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


@pytest.mark.thin
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.dear("additive")
def test_plans_show_themselves_as_one_table(name: str) -> None:
    """In text and in a notebook: a row a plan in their order, then a row a refused method with its reason."""
    found = LISTS[name]()
    assert isinstance(found, Plans)
    title, *lines = repr(found).splitlines()
    cells = Cells()
    cells.feed(found._repr_html_())
    assert cells.rows[0] == ["", "method", "noise", "expected", "at most", "note"]
    assert lines[0].split() == " ".join(cells.rows[0]).split()
    assert len(lines) == len(cells.rows) == 1 + len(found) + len(found.refused)
    assert html.escape(title) in found._repr_html_()
    assert [row[0] for row in cells.rows[1:]] == ["*"] + [""] * (len(lines) - 2)
    names = [plan.algorithm for plan in found] + [each for each, _ in found.refused]
    for line, row, algorithm in zip(lines[1:], cells.rows[1:], names, strict=True):
        assert row[1] == algorithm in line
        assert [cell for cell in row if cell and cell not in line] == []
    for plan, row in zip(found, cells.rows[1:], strict=False):
        assert row[2] == plan.noise_name
        assert row[4] == f"{plan.predicted_error.bound:.3g}"
        assert row[3] == ("" if plan.expectation is None else f"{plan.expectation:.3g}")
    assert all("refused: " in row[5] for row in cells.rows[1 + len(found) :])


def test_a_list_of_plans_is_a_tuple() -> None:
    found = LISTS["logistic"]()
    first, *rest = found
    assert found == tuple(found) == (first, *rest)
    assert hash(found) == hash(tuple(found))
    assert found[0] is first
    assert isinstance(found[1:], tuple)
    assert str(found) == repr(found)
    for same in (copy.copy(found), pickle.loads(pickle.dumps(found))):
        assert isinstance(same, Plans)
        assert repr(same) == repr(found)


def test_refusals_say_why_and_are_escaped() -> None:
    found = LISTS["logistic"]()
    refused = dict(found.refused)
    assert "delta=0.0: must be positive" in refused["noisy_gradient"]
    assert found.changed(found[:1]).refused == found.refused
    assert "&lt;b&gt;" in Plans(found, [("<b>", "never")])._repr_html_()
    assert repr(Plans(())).startswith("No plan\n")
