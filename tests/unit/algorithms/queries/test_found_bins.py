"""Private ranges and bins before noisy tables: cost, neighbors, outcomes of any kind, shapes, certificates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from sklearn.base import clone

from dpconvex import PrivateSyntheticData, Schema, verify
from dpconvex.algorithms.queries import found_bins, noisy_tables, noisy_tree
from dpconvex.algorithms.queries.found_bins import SIZE, FoundBinsPlan, Open
from dpconvex.data import CategoricalColumn, NumericColumn, UnrangedColumn, UnrangedTarget, open_files
from dpconvex.data.frames import number_series
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import ExponentialMechanism, Mechanism, ReportNoisyMax
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Unit
from dpconvex.privacy.ledger import fits, total_epsilon
from dpconvex.problems import NumberRange, UserGroups
from dpconvex.problems.data import ranges
from dpconvex.problems.data.sources.arrow import MEMORY
from dpconvex.problems.data.users import exact_weights
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource

BOTH = pytest.mark.parametrize("delta", [0.0, 0.05])
QUERIES = Marginals.of_order((4, 2, 3), 2)
OPEN = Open((0, 2), (2,), (0,))
WITHIN = ((0, -8.0, 8.0, "none", 1.0, 0.0), (2, 0.0, 300.0, "sqrt", 1.0, 0.5))  # declared ranges of the same columns
OPENED = {"none": OPEN, "one": replace(OPEN, within=WITHIN[1:]), "both": replace(OPEN, within=WITHIN)}
DECLARED = pytest.mark.parametrize("opened", OPENED.values(), ids=[f"declared {name}" for name in OPENED])
NUMBERS = (0.0, -0.0, 3.0, -7.5, 1e300, -np.inf, np.nan, 2.0**-31)


def planned(privacy: PrivacyParams, n: int = 6, queries=QUERIES, tree: bool = False, opened=OPEN) -> FoundBinsPlan:
    law = "gaussian" if privacy.delta else "laplace"
    left = found_bins.rest(privacy, n, opened, law)
    then = noisy_tree.plan(queries, n, left) if tree else noisy_tables.plan(queries, n, left, relations="all")
    assert then.law == law
    return found_bins.plan(then, privacy, opened)


def cost(plan: FoundBinsPlan, data: list, answers: int) -> tuple[float, float]:
    """What two data sets cost, where released numbers are the same, and the most that scores of pairs move by."""
    seen: list[list] = []

    def release(self, value, *_):
        seen[-1].append((self, np.array(value, dtype=float)))
        if isinstance(self, ReportNoisyMax | ExponentialMechanism):
            return 0
        return np.random.default_rng([answers, len(seen[-1])]).exponential(3.0, len(seen[-1][-1][1])).round()

    for records, groups in data:
        seen.append([])
        ledger, weights = Ledger(plan.privacy, plan.releases), groups and exact_weights(groups)
        with mock.patch.object(Mechanism, "release", release):
            begun = plan._begun(records, weights, SeededSource(0), ledger)
            begun.then.release(begun.binned(records), SeededSource(0), ledger, weights)
    total, scores = 0.0, 0.0
    for (mechanism, mine), (_, its) in zip(*seen, strict=True):
        if isinstance(mechanism, ReportNoisyMax | ExponentialMechanism):
            scores = max(scores, float(np.abs(mine - its).max()))
            total += plan.then.choice.event.mu**2 if plan.mu else mechanism.epsilon
        elif plan.mu:
            total += float((mine - its) @ (mine - its)) / mechanism.sigma**2
        else:
            total += float(np.abs(mine - its).sum()) / mechanism.scale
    return (total**0.5 if plan.mu else total), scores


@BOTH
@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.dear("True-0.05")
@DECLARED
def test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more(delta: float, tree: bool, opened: Open) -> None:
    """Records with every kind of number, whatever was released before: equal releases, all that differs is counts."""
    plan = planned(PrivacyParams(3.0, delta), tree=tree, opened=opened)
    rng, worst = np.random.default_rng(0), 0.0
    for answers in range(24):
        pool = NUMBERS if answers % 2 else (3.0, 5.0, 7.5, 250.0)  # the least of these few is of one record
        rest = np.column_stack([rng.choice(pool, 5), rng.integers(0, 2, 5), rng.choice(pool, 5)])
        pair = [[rng.choice(pool), k, rng.choice(pool)] for k in (0, 1)]
        if answers % 3 == 0:
            pair = [[np.nan, 0, 0.0], [5.0, 1, np.nan]]
        found, scores = cost(plan, [(np.vstack([row, rest]), None) for row in pair], answers)
        worst = max(worst, found)
        assert scores <= 1.0001
    assert 0.999 * (plan.mu or 3.0) < worst <= (plan.mu or 3.0)


@BOTH
@DECLARED
def test_a_replaced_user_and_an_added_record_cost_what_is_charged(delta: float, opened: Open) -> None:
    rng = np.random.default_rng(1)
    rest = np.column_stack([rng.choice(NUMBERS, 6), rng.integers(0, 2, 6), rng.choice(NUMBERS, 6)])
    users = planned(PrivacyParams(3.0, delta, unit=Unit.USER), 4, opened=opened)
    added = planned(PrivacyParams(3.0, delta, Neighboring.ADD_OR_REMOVE_ONE), opened=opened)
    worst = [0.0, 0.0]
    for answers in range(6):
        data = []
        for records in ([[np.nan, 0, 0.0]] * 3, [[5.0, 1, np.nan]]):
            groups = UserGroups.of(np.array(["a"] * len(records) + ["b", "b", "c", "d", "d", "d"]))
            data.append((np.vstack([records, rest]), groups))
        worst[0] = max(worst[0], cost(users, data, answers)[0])
        data = [(rest, None), (np.vstack([rest, [[np.nan, 0, 7.0]]]), None)]
        worst[1] = max(worst[1], cost(added, data, answers)[0])
    for plan, found in zip((users, added), worst, strict=True):
        assert fits(plan.releases, plan.privacy)
        assert 0.999 * (plan.mu or 3.0) < found <= (plan.mu or 3.0)


@BOTH
def test_every_release_is_in_the_ledger_which_uses_the_promise(delta: float) -> None:
    for n, columns in ((100, 2), (50_000, 2), (50_000, 40)):
        shape = (16,) * columns
        plan = planned(PrivacyParams(1.0, delta), n, Marginals.of_order(shape, 2), opened=Open(tuple(range(columns))))
        assert fits(plan.releases, plan.privacy)
        assert total_epsilon(plan.releases, delta) > 0.999
        tables = 1 if plan.then.joint else len(plan.then.subsets)
        assert sum(each.times for each in plan.releases) == 2 * columns + tables
        assert all(0.04 <= part <= most for part, most in zip(plan.parts, (0.2, 0.04), strict=True))
        ends = tuple((k, 0.0, 1e5, "none", 1.0, 1.0) for k in range(columns))
        opened = Open(tuple(range(columns)), within=ends)
        public = planned(PrivacyParams(1.0, delta), n, Marginals.of_order(shape, 2), opened=opened)
        assert fits(public.releases, public.privacy)
        assert total_epsilon(public.releases, delta) > 0.999
        assert public.parts == (0.0, 0.04)
        assert sum(each.times for each in public.releases) == columns + len(public.then.subsets or (0,))


@DECLARED
def test_every_outcome_gives_the_planned_bins(full: bool, opened: Open) -> None:
    """Noise alone, single cells, all there is in one cell, counts of any sign: increasing edges, cells in bins."""
    plan = planned(PrivacyParams(1.0), 50, Marginals.of_order((17, 2, 16), 2), opened=opened)
    rng, octaves = np.random.default_rng(0), [ranges.CELLS] * len(opened.unranged)
    for trial in range(150 if full else 60):
        counts = []
        for size in (*octaves, SIZE, SIZE):
            drawn = rng.laplace(0, rng.choice([0.1, 10, 1e4]), size)
            drawn[rng.integers(0, size, 3)] += rng.choice([0, 30, 1e5])
            drawn[[ranges.END, -1][size != ranges.CELLS]] += rng.choice([0, 1e6])
            counts.append(drawn)
        waiting = iter(counts)
        with mock.patch.object(Mechanism, "release", lambda *_, waiting=waiting: next(waiting)):
            begun = plan._begun(np.zeros((50, 3)), None, SeededSource(0), Ledger(plan.privacy, plan.releases))
        codes = begun._codes(np.column_stack([np.repeat(NUMBERS, 3), np.zeros(24), np.tile(NUMBERS, 3)]))
        assert (codes >= 0).all()
        assert (codes < np.array(plan.queries.shape)).all(), trial
        public = {k: NumberRange(*ends[:2]) for k, *ends in opened.within}
        for (edges, law), one in zip(begun.bins, dict(sorted((public | begun.found).items())).values(), strict=True):
            assert len(edges) == 17
            assert np.isfinite(edges).all()
            assert (np.diff(edges) > 0).all()
            assert all((np.diff(part) > 0).all() for part in np.array(law).T)
            assert set(edges) <= {place for place, _ in law}
            assert (edges[0], edges[-1]) == (one.lower, one.upper)
        assert plan.resumed(*begun.course) == begun


SCHEMA = Schema(
    (UnrangedColumn("amount"), CategoricalColumn("kind", ("p", "q")), UnrangedColumn("age", "none", indicator=True)),
    UnrangedTarget("paid"),
)


def table(n: int = 5000) -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.integers(17, 91, n).astype(float)
    amount = np.where(rng.random(n) < 0.6, 0.0, np.exp(5 + 2 * rng.standard_normal(n)))
    kind = np.where(age + 20 * rng.standard_normal(n) > 50, "q", "p")
    age[rng.random(n) < 0.1] = np.nan
    return pa.table({"amount": amount, "kind": kind, "age": age, "paid": amount / 2 + 3.0})


@pytest.mark.thin
@BOTH
@pytest.mark.gate
def test_ranges_and_zeros_are_found_and_numbers_are_drawn_inside(delta: float) -> None:
    private = PrivateSyntheticData(6.0, delta, schema=SCHEMA, random_state=0).fit(table())
    drawn, real = private.sample(4000, 0).to_pandas(), table().to_pandas()
    assert abs((drawn["amount"] == 0).mean() - 0.6) < 0.05
    assert abs(drawn["age"].isna().mean() - 0.1) < 0.03
    for name, one in private.ranges_.items():
        assert one.lower <= drawn[name].min() <= drawn[name].max() <= one.upper
        quantiles = [frame[name].quantile([0.7, 0.9]) for frame in (drawn, real)]
        np.testing.assert_allclose(*quantiles, rtol=0.35)
    older = [frame[frame["kind"] == "q"]["age"].mean() - frame["age"].mean() for frame in (drawn, real)]
    assert older[0] == pytest.approx(older[1], abs=3)
    assert private.marginal("age", interval=0.95).low.shape == (17,)
    declared = private.found_schema_
    assert isinstance(declared.columns[2], NumericColumn)
    assert declared.columns[2].indicator
    assert declared.target.lower == private.ranges_["paid"].lower
    assert PrivateSyntheticData(1.0, schema=declared, random_state=0).fit(table()).ranges_ == {}
    part = PrivateSyntheticData(3.0, schema=SCHEMA, columns=("kind", "age"), random_state=0).fit(table())
    assert not part.found_schema_.columns[0].ranged
    assert part.found_schema_.columns[2].ranged


@pytest.mark.thin
@pytest.mark.parametrize("more", [{}, {"delta": 0.0}, {"neighbors": "add_or_remove_one", "rows": 5000}], ids=str)
@pytest.mark.gate
def test_a_certificate_is_planned_again_with_what_was_found(more: dict) -> None:
    private = PrivateSyntheticData(2.0, schema=SCHEMA, **more).fit(table())
    found = verify(private.certificate_)
    assert found.passed, [check for check in found.checks if not check.passed]
    assert not found.unconfirmed
    assert len(private.certificate_.public["private_bins"]["found"]) == 3
    text = private.certificate_.to_json()
    assert str(private.plan_.edges[0][-1]) in text
    users = PrivateSyntheticData(2.0, schema=SCHEMA).fit(table(), groups=np.arange(5000) // 2)
    assert more or verify(users.certificate_).passed


@pytest.mark.gate
def test_tables_are_read_portion_by_portion_with_the_same_bits(tmp_path: Path) -> None:
    who = np.arange(3000) // 3
    pacsv.write_csv(table(3000).append_column("who", pa.array(who)), tmp_path / "table.csv")
    model = PrivateSyntheticData(2.0, schema=SCHEMA, bins=6, random_state=0)
    owned = replace(SCHEMA, user="who")
    token = MEMORY.set(150_000)
    try:
        read = clone(model).fit(open_files(tmp_path / "table.csv", SCHEMA))
        users = clone(model).set_params(schema=owned).fit(open_files(tmp_path / "table.csv", owned))
    finally:
        MEMORY.reset(token)
    for one, groups in ((read, None), (users, who)):
        here = clone(model).fit(table(3000), groups=groups)
        assert here.ranges_ == one.ranges_
        np.testing.assert_array_equal(here.answers_, one.answers_)


def test_nothing_but_released_numbers_leaves() -> None:
    """The same answers of all mechanisms: the same model, certificate, schema and records for different data."""
    rng, found = np.random.default_rng(5), []
    other = pa.table({"amount": [np.nan] * 50, "kind": ["x"] * 50, "age": [1e308] * 50, "paid": [-np.inf] * 50})
    answers = {size: rng.exponential(5.0, size).round() for size in range(1, 400)}
    for data in (table(50), other):
        with mock.patch.object(Mechanism, "release", lambda _, value, *more: answers[len(value)].copy()):
            private = PrivateSyntheticData(1.0, schema=SCHEMA, algorithm="noisy_tables", random_state=0).fit(data)
        told = [private.certificate_.to_dict(), private.found_schema_.to_toml(), private.sample(20, 0), private.cells_]
        found.append([*told, private.plan_.course, private.answers_.tolist(), sorted(vars(private))])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"algorithm": "mwem"}, "declared ranges"),
        ({"order": 3}, "order"),
        ({"bins": 129}, "bins"),
        ({"bins": {"age": 0}}, "bins"),
        ({"constants": "paper"}, "constants"),
    ],
    ids=str,
)
def test_what_needs_declared_ranges_is_refused_before_data_are_read(parameters: dict, words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        PrivateSyntheticData(1.0, schema=SCHEMA, **parameters).plan(1000)


@pytest.mark.gate
def test_public_edges_need_no_range() -> None:
    edges = {"age": (0, 30, 60, 100), "amount": (0, 1, 100, 1e5), "paid": (0, 10, 1e5)}
    private = PrivateSyntheticData(3.0, schema=SCHEMA, bins=edges, random_state=0).fit(table())
    assert private.ranges_ == {}
    assert private.cells_.shape == (3, 2, 4, 2)
    mixed = PrivateSyntheticData(3.0, schema=SCHEMA, bins={"age": edges["age"]}, random_state=0).fit(table())
    assert set(mixed.ranges_) == {"amount", "paid"}


def test_a_course_that_no_run_can_release_is_refused() -> None:
    plan = planned(PrivacyParams(1.0), 50)
    one = (0.0, 2.0, "none", 1.0)
    assert plan.resumed((one, one), ((0, 5, 9, 20), (0, 1, 2, 3))).edges
    for fields, edges in (
        ((one,), ((0, 5, 9, 20),)),
        ((one, one), ((0, 5, 5, 20), (0, 1, 2, 3))),
        ((one, one), ((0, 5, 9, 200), (0, 1, 2, 3))),
        ((one, one), ((0, 5), (0, 1, 2, 3))),
        ((one, replace_upper(one)), ((0, 5, 9, 20), (0, 1, 2, 3))),
    ):
        with pytest.raises(InvalidParameterError):
            plan.resumed(fields, edges)
    public = planned(PrivacyParams(1.0), 50, opened=OPENED["both"])
    last = len(public.open.grids[0]) - 1, len(public.open.grids[2]) - 1
    assert public.resumed((), ((0, 5, 9, last[0]), (0, 1, 2, last[1]))).edges
    for edges in (((0, 5, 9, last[0] - 1), (0, 1, 2, last[1])), ((1, 5, 9, last[0]), (0, 1, 2, last[1]))):
        with pytest.raises(InvalidParameterError):
            public.resumed((), edges)
    for opened in (Open((5,)), Open((0,), missing=())):
        with pytest.raises(InvalidParameterError, match="bins"):
            planned(PrivacyParams(1.0), 50, Marginals.of_order((34, 2, 3), 2), opened=opened)


def replace_upper(one: tuple) -> tuple:
    return (one[0], 3.0, *one[2:])


SKEWED = Schema(
    (
        NumericColumn("income", 0, 1e6),
        NumericColumn("height", 0, 30_000, step=1, indicator=True),
        NumericColumn("balance", -5000, 5000),
        CategoricalColumn("kind", ("p", "q")),
        NumericColumn("children", 0, 8, step=1),
        NumericColumn("cover", 0, 100),
    )
)


def skewed(n: int = 20_000) -> pa.Table:
    """Long tails, numbers that are often 0, at an end, or beyond it."""
    rng = np.random.default_rng(0)
    income = np.exp(9 + 1.2 * rng.standard_normal(n))
    height = np.where(rng.random(n) < 0.3, 0.0, np.floor(rng.exponential(300, n)))
    height[rng.random(n) < 0.1] = np.nan
    balance = np.where(rng.random(n) < 0.4, 0.0, 300 * rng.standard_normal(n))
    cover = np.where(rng.random(n) < 0.5, 120.0, rng.uniform(20, 100, n))
    kind = np.where(income > 8000, "q", "p")
    columns = {"income": income, "height": height, "balance": balance, "kind": kind}
    return pa.table({**columns, "children": rng.integers(0, 4, n), "cover": cover})


@pytest.mark.thin
@BOTH
def test_bins_of_declared_ranges_follow_the_data_and_what_is_frequent_has_its_own(delta: float) -> None:
    private = PrivateSyntheticData(6.0, delta, schema=SKEWED, bins="private", random_state=0).fit(skewed())
    real, drawn = (table.to_pandas() for table in (skewed(), private.sample(20_000, 0)))
    for name in ("income", "height"):
        np.testing.assert_allclose(*(frame[name].quantile([0.4, 0.6, 0.9]) for frame in (drawn, real)), rtol=0.2)
    assert abs((drawn["height"] == 0).mean() - (real["height"] == 0).mean()) < 0.03
    assert abs((drawn["balance"] == 0).mean() - 0.4) < 0.03
    assert abs((drawn["cover"] == 100).mean() - 0.5) < 0.03
    assert abs(drawn["height"].isna().mean() - 0.1) < 0.03
    assert (drawn["height"].dropna() % 1 == 0).all()
    assert abs((drawn["kind"] == (np.where(drawn["income"] > 8000, "q", "p"))).mean()) > 0.85
    labels = {column.name: column.labels for column in private.cells_.columns}
    assert labels["height"][0] == "0"
    assert labels["cover"][-1] == "100"
    assert "0" in labels["balance"]
    assert labels["children"] == tuple("012345678")
    assert (private.ranges_, private.found_schema_) == ({}, SKEWED)
    assert private.marginal("income", "kind", interval=0.95).low.shape == (16, 2)
    assert private.cells_.shape == (16, 17, 16, 2, 9, 16)
    assert private.plan_.open.columns == (0, 1, 2, 5)


@pytest.mark.thin
@pytest.mark.parametrize("more", [{}, {"delta": 0.0}, {"neighbors": "add_or_remove_one", "rows": 3000}], ids=str)
def test_certificates_of_found_bins_are_planned_again(more: dict) -> None:
    private = PrivateSyntheticData(2.0, schema=SKEWED, bins="private", **more).fit(skewed(3000))
    found = verify(private.certificate_)
    assert found.passed, [check for check in found.checks if not check.passed]
    assert not found.unconfirmed
    public = private.certificate_.public["private_bins"]
    assert [len(cut) for cut in public["found"]] == [17] * 4
    users = PrivateSyntheticData(2.0, schema=SKEWED, bins="private").fit(skewed(3000), groups=np.arange(3000) // 2)
    assert more or verify(users.certificate_).passed


def test_found_bins_of_portions_are_those_of_the_table_in_memory(tmp_path: Path) -> None:
    pacsv.write_csv(skewed(3000), tmp_path / "table.csv")
    model = PrivateSyntheticData(2.0, schema=SKEWED, bins="private", random_state=0)
    token = MEMORY.set(150_000)
    try:
        read = clone(model).fit(open_files(tmp_path / "table.csv", SKEWED))
    finally:
        MEMORY.reset(token)
    here = clone(model).fit(skewed(3000))
    assert here.cells_ == read.cells_
    np.testing.assert_array_equal(here.answers_, read.answers_)


def test_bins_are_found_where_public_facts_say_that_they_pay() -> None:
    def opened(n: int, **more) -> tuple[int, ...]:
        return PrivateSyntheticData(**{"epsilon": 1.0, "delta": 0.0, "schema": SKEWED, **more}).domain(n).open

    assert opened(50_000) == (0, 1, 2, 5)
    assert opened(300) == ()
    assert opened(300, bins="private") == (0, 1, 2, 5)
    assert opened(50_000, bins=16) == opened(50_000, order=3) == opened(50_000, algorithm="mwem") == ()
    assert opened(50_000, bins={"income": 5, "height": (0, 10, 1000), "cover": "private"}) == (2, 5)
    assert opened(50_000, impossible=[{"kind": "p", "cover": "[0, 6.25)"}]) == (0, 1, 2)
    model = PrivateSyntheticData(1.0, schema=SKEWED, impossible=[{"kind": "p", "children": "8"}])
    assert model.plan(50_000)[0].queries.impossible == (((3, 0), (4, 8)),)
    for more in ({"order": 3}, {"algorithm": "mwem"}, {"impossible": [{"kind": "p", "income": "bin 1"}]}):
        with pytest.raises(InvalidParameterError):
            PrivateSyntheticData(1.0, schema=SKEWED, bins="private", **more).plan(50_000)
    with pytest.raises(InvalidParameterError, match="bins"):
        PrivateSyntheticData(1.0, schema=SKEWED, bins="found").plan(50_000)


@pytest.mark.parametrize("algorithm", ["auto", "noisy_tables", "noisy_tree", "grouped_tables"])
def test_noise_is_pure_where_a_share_of_a_large_delta_leaves_no_epsilon(algorithm: str) -> None:
    privacy, edges = PrivacyParams(1e-4, 0.01), {"income": 16, "height": 16, "balance": 16, "cover": "private"}
    assert found_bins.rest(privacy, 500, Open((0,)), "gaussian") is None
    assert noisy_tables.part_of(privacy, "gaussian", 0.5) is None
    plans = PrivateSyntheticData(1e-4, 0.01, schema=SKEWED, bins=edges, algorithm=algorithm).plan(500)
    assert {plan.then.law for plan in plans} == {"laplace"}
    assert all(fits(plan.releases, privacy) for plan in plans)


def test_equal_bins_are_what_they_were() -> None:
    private = PrivateSyntheticData(3.0, schema=SKEWED, bins=16, random_state=0).fit(skewed(3000))
    np.testing.assert_allclose(private.cells_.columns[0].edges, np.linspace(0, 1e6, 17))
    assert not private.cells_.columns[0].law
    assert "private_bins" not in private.certificate_.public


def test_nothing_but_released_numbers_leaves_where_ranges_are_declared() -> None:
    rng, found = np.random.default_rng(5), []
    answers = {size: rng.exponential(5.0, size).round() for size in range(1, 400)}
    bad = {"income": [np.nan] * 50, "height": [1e308] * 50, "balance": [-np.inf] * 50, "kind": ["x"] * 50}
    for data in (skewed(50), pa.table({**bad, "children": [99] * 50, "cover": ["?"] * 50})):
        with mock.patch.object(Mechanism, "release", lambda _, value, *more: answers[len(value)].copy()):
            given = {"schema": SKEWED, "bins": "private", "algorithm": "noisy_tables", "random_state": 0}
            private = PrivateSyntheticData(1.0, **given).fit(data)
        told = [private.certificate_.to_dict(), private.sample(20, 0), private.cells_, private.plan_.course]
        found.append([*told, private.answers_.tolist(), sorted(vars(private))])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("one", "step"),
    [
        (NumberRange(0, 1e6), 0.0),
        (NumberRange(-3, 1e9), 1.0),
        (NumberRange(85.3, 9e6, "log1p"), 1.0),
        (NumberRange(-1e300, 1e300), 0.0),
        (NumberRange(1e9, 1e9 + 1e-6), 0.0),
        (NumberRange(-7, -1e-9, "signed_log", 0.1), 0.0),
        (NumberRange(0.25, 0.75), 1.0),
        (NumberRange(0, 127), 1.0),
        (NumberRange(0, 1e-12, "sqrt"), 0.0),
        (NumberRange(-180.5, 180.5), 0.1),
    ],
    ids=str,
)
def test_public_cells_part_the_numbers(one: NumberRange, step: float) -> None:
    """Increasing edges from end to end; no cell of a column with a step is without a multiple."""
    edges = ranges.grid(one, step)
    assert (edges[0], edges[-1]) == (one.lower, one.upper)
    assert len(edges) - 1 <= ranges.GRID
    assert (np.diff(edges) > 0).all()
    if step:
        first = ranges.multiples(edges, step)
        assert (np.diff(first) > 0).all() or len(edges) == 2
    column = UnrangedColumn("x").cells(4).within(edges, ())
    low, high = pa.array([one.lower, -1e308]), pa.array([one.upper, np.inf])
    cells = [column.encode(number_series(part.to_numpy())) for part in (low, high)]
    assert [each.tolist() for each in cells] == [[0, 0], [len(edges) - 2] * 2]
