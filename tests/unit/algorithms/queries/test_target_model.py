"""A model of the target: what it fits, what it draws, and what both releases cost together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateLogisticRegression,
    PrivateSyntheticData,
    Schema,
    budget_context,
    verify,
)
from dpconvex.algorithms.queries import noisy_tables, target_model
from dpconvex.algorithms.queries.released_tables import Histogram
from dpconvex.algorithms.queries.target_model import TargetModelPlan
from dpconvex.algorithms.search.plan import Candidate
from dpconvex.data import ClassTarget, NumericTarget, open_files
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.queries import Marginals

SHAPE, TARGET = (3, 4, 2), 1
RNG = np.random.default_rng(0)
WEIGHTS = RNG.dirichlet(np.ones(24))
BASE = Histogram(SHAPE, WEIGHTS)
POOL = target_model.pool_of(BASE, TARGET, np.random.default_rng(0))
N = 6_000


def of_classes(scores: list[np.ndarray]) -> target_model.TargetModel:
    given = softmax(target_model.added_up(scores, POOL[0], TARGET), axis=1)
    return target_model.of_classes(BASE, TARGET, POOL, scores, given)


def test_classes_keep_their_shares_and_follow_the_odds() -> None:
    scores = [RNG.normal(size=(size, 4)) for size in SHAPE]
    found = of_classes(scores)
    assert found.marginal((TARGET,)) == pytest.approx(BASE.marginal((TARGET,)), abs=1e-4)
    assert found.marginal((0, 2)) == pytest.approx(BASE.marginal((0, 2)))
    odds = np.log(found.given(POOL[0]))
    wanted = target_model.added_up(scores, POOL[0], TARGET)
    left = odds - wanted  # what is left depends on the class alone
    left -= left.mean(axis=1, keepdims=True)
    assert np.abs(left - left[0]).max() < 0.05


def test_probabilities_less_sure_than_the_odds_make_the_model_so() -> None:
    scores = [3 * RNG.normal(size=(size, 4)) for size in SHAPE]
    sure = target_model.added_up(scores, POOL[0], TARGET)
    found = target_model.of_classes(BASE, TARGET, POOL, scores, softmax(0.3 * sure, axis=1))
    assert found.scores[0] / scores[0] == pytest.approx(0.3, rel=0.1)


def test_all_tables_are_those_of_one_distribution_and_of_drawn_records() -> None:
    found = of_classes([2 * RNG.normal(size=(size, 4)) for size in SHAPE])
    whole = found.marginal((0, 1, 2))
    assert whole.sum() == pytest.approx(1)
    assert found.marginal((2, 1)) == pytest.approx(whole.sum(axis=0).T)
    assert found.marginal((1, 0)) == pytest.approx(whole.sum(axis=2).T)
    drawn = found.sample(200_000, np.random.default_rng(1))
    counted = np.bincount(np.ravel_multi_index(drawn.T, SHAPE), minlength=24).reshape(SHAPE) / len(drawn)
    assert np.abs(counted - whole).max() < 0.005


def test_many_combinations_are_drawn() -> None:
    wide = Histogram((40, 60, 30, 3), np.full(216_000, 1 / 216_000))
    records, weights = target_model.pool_of(wide, 3, np.random.default_rng(0))
    assert len(records) == len(weights) == target_model.POOL
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("noise", [0.0, 1e-4, 10.0])
def test_the_mean_of_a_number_moves_as_far_as_noise_may_have_moved_it(noise: float) -> None:
    middles, scores = np.array([0.0, 1.0, 2.0, 10.0]), [RNG.normal(size=(size, 1)) for size in SHAPE]
    start = 3.0 - POOL[1] @ target_model.added_up(scores, POOL[0], TARGET)[:, 0]
    found = target_model.of_numbers(BASE, TARGET, POOL, scores, middles, float(start), noise)
    shares = BASE.marginal((TARGET,))
    off = middles - shares @ middles
    moved = found.marginal((TARGET,)) @ middles - shares @ middles
    reach = target_model.DOUBT * noise * np.sqrt(off @ off)
    assert moved == pytest.approx(np.clip(3.0 - shares @ middles, -reach, reach), abs=1e-3)


def test_numbers_have_the_covariance_of_calibrated_predictions() -> None:
    middles, scores = np.arange(4.0), [0.3 * RNG.normal(size=(size, 1)) for size in SHAPE]
    found = target_model.of_numbers(BASE, TARGET, POOL, scores, middles, 0.0, 0.0)
    f = target_model.added_up(scores, POOL[0], TARGET)[:, 0]
    y, weights = found.given(POOL[0]) @ middles, POOL[1]
    f, y = f - weights @ f, y - weights @ y
    assert weights @ (f * y) == pytest.approx(weights @ f**2, rel=0.02)


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e6])
@pytest.mark.parametrize("shares", [[1.0, 0.0, 0.0, 0.0], [0.25] * 4, [0.5, 0.0, 0.0, 0.5]])
def test_any_released_numbers_give_a_distribution(size: float, shares: list[float]) -> None:
    """Whatever noise does: predictions of any size or none, and a target of one value."""
    base = Histogram(SHAPE, np.multiply.outer(np.full(3, 1 / 3), np.outer(shares, [0.5, 0.5])).ravel())
    pool = target_model.pool_of(base, TARGET, np.random.default_rng(0))
    for level in (0.0, size):
        scores = [level * RNG.normal(size=(each, 1)) for each in SHAPE]
        found = target_model.of_numbers(base, TARGET, pool, scores, np.arange(4.0), size, size)
        assert found.marginal((0, 1)).sum() == pytest.approx(1)
        odds = [np.pad(part, ((0, 0), (0, 3))) for part in scores]
        given = softmax(target_model.added_up(odds, pool[0], TARGET), axis=1)
        assert np.isfinite(target_model.of_classes(base, TARGET, pool, odds, given).marginal((0, 1))).all()


SCHEMA = Schema(
    (*(NumericColumn(f"x{k}", 0, 1) for k in range(4)), CategoricalColumn("kind", ("a", "b", "c"), other=True)),
    ClassTarget("y", ("no", "yes")),
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    X, kind = rng.random((N, 4)), rng.choice(["a", "b", "c"], N)
    z = 4 * (X @ [1, -1, 1, -1]) + (kind == "a")
    number = 10 + z + rng.normal(size=N)
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-z)), "yes", "no")
    level = np.select([z < -1, z < 1], ["low", "middle"], "high")
    return pa.table({f"x{k}": X[:, k] for k in range(4)} | {"kind": kind, "y": y, "number": number, "level": level})


def auc(model: PrivateSyntheticData, table: pa.Table) -> float:
    drawn = model.sample(random_state=1)
    learned = LogisticRegression().fit(SCHEMA.encode(drawn), SCHEMA.encode_target(drawn))
    return float(roc_auc_score(SCHEMA.encode_target(table), learned.decision_function(SCHEMA.encode(table))))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_both_releases_cost_what_is_promised_and_no_more(table: pa.Table, delta: float) -> None:
    model = PrivateSyntheticData(0.5, delta, schema=SCHEMA, target_share=0.4, random_state=0)
    with budget_context(0.5, delta) as budget:
        clone(model).set_params(random_state=None).fit(table)
        assert float(budget.account().left[0]) == 0.0
    model.fit(table)
    plan = model.plan_
    assert isinstance(plan, TargetModelPlan)
    assert plan.releases[0].label == target_model.LABEL
    assert len(plan.releases) == 1 + len(plan.then.releases)
    assert model.target_model_.certificate_.target.epsilon == plan.model.plan.privacy.epsilon <= 0.2
    assert plan.model.plan.privacy.delta == 0.0
    assert plan.model.plan.privacy.epsilon + plan.then.privacy.epsilon <= 0.5
    assert 0.45 < model.certificate_.spent_epsilon <= 0.5
    checks = verify(model.certificate_).checks
    assert [check.name for check in checks if not check.passed] == ["noise is not seeded"]
    forged = replace(model.certificate_, releases=model.certificate_.releases[1:])
    assert "planned again: releases" in [check.name for check in verify(forged).checks if not check.passed]


def test_models_learn_more_from_records_whose_target_follows_a_model(table: pa.Table) -> None:
    found = {
        share: np.mean(
            [
                auc(PrivateSyntheticData(0.3, 0.0, schema=SCHEMA, target_share=share, random_state=k).fit(table), table)
                for k in range(3)
            ]
        )
        for share in (0.0, 0.3)
    }
    assert found[0.3] > found[0.0] + 0.02
    assert found[0.3] > 0.83  # real rows: 0.86


@pytest.mark.parametrize(
    "target",
    [NumericTarget("number", 0, 20), ClassTarget("level", ("low", "middle", "high"))],
    ids=["number", "classes"],
)
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({}, id="usual"),
        pytest.param({"delta": 0.0}, id="pure"),
        pytest.param({"algorithm": "noisy_tree"}, id="forest"),
        pytest.param({"bins": 8, "order": 1}, id="columns"),
        pytest.param({"neighbors": "add_or_remove_one", "rows": N}, id="added"),
        pytest.param({"groups": np.arange(N) // 2}, id="users"),
    ],
)
def test_numbers_and_several_classes(table: pa.Table, target: object, how: dict) -> None:
    groups = how.get("groups")
    own = {key: value for key, value in how.items() if key != "groups"}
    model = PrivateSyntheticData(4.0, schema=replace(SCHEMA, target=target), target_share=0.5, random_state=0, **own)
    model.fit(table, groups=groups)
    drawn = model.sample(4_000, random_state=1)
    sign = [np.asarray(each["x0"]) - np.asarray(each["x1"]) for each in (table, drawn)]
    if isinstance(target, NumericTarget):
        real, found = (np.corrcoef(s, each["number"])[0, 1] for s, each in zip(sign, (table, drawn), strict=True))
    else:
        real, found = (s[np.asarray(e["level"]) == "high"].mean() for s, e in zip(sign, (table, drawn), strict=True))
    assert 0.6 < found / real < 1.3


def test_columns_that_are_computed_or_dates_or_missing_are_drawn_as_themselves() -> None:
    rng = np.random.default_rng(0)
    n = 4_000
    day = np.datetime64("2020-01-01") + rng.integers(0, 366, n).astype("m8[D]")
    height, weight = rng.uniform(1.5, 2, n), rng.uniform(50, 100, n)
    month = day.astype("M8[M]").astype(int) % 12
    bmi = weight / height**2
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(month - 6) - (bmi - 25))), "yes", "no")
    weight[::10] = np.nan
    data = pa.table({"day": day, "height": height, "weight": weight, "y": y})
    schema = Schema.from_toml_text(
        """
        confirmed = true
        target = { name = "y", classes = ["no", "yes"] }
        [columns.bmi]
        formula = "weight / height ** 2"
        lower = 10
        upper = 50
        indicator = true
        [columns.day]
        date = "month"
        """
    )
    model = PrivateSyntheticData(8.0, schema=schema, target_share=0.5, random_state=0).fit(data)
    drawn = model.sample(random_state=0)
    months = np.array([int(cell) for cell in drawn["day"].to_pylist()])
    yes = np.asarray(drawn["y"]) == "yes"
    assert months[yes].mean() > months[~yes].mean() + 2
    numbers = np.array([np.nan if cell is None else cell for cell in drawn["bmi"].to_pylist()])
    assert np.nanmean(numbers[yes]) > np.nanmean(numbers[~yes]) + 1


def test_portions_and_users_of_a_schema_give_what_memory_gives(table: pa.Table, tmp_path) -> None:
    data = table.append_column("who", pa.array(np.arange(N) % 3_000))
    pq.write_table(data, tmp_path / "t.parquet", row_group_size=1_000)
    model = PrivateSyntheticData(4.0, schema=replace(SCHEMA, user="who"), target_share=0.3, random_state=0)
    found, read = clone(model).fit(data), clone(model).fit(open_files(tmp_path / "t.parquet", model.schema))
    assert found.plan_.n == 3_000
    assert found.target_model_.certificate_.target.unit == "user"
    assert read.target_model_.coef_ == pytest.approx(found.target_model_.coef_)
    assert read.answers_ == pytest.approx(found.answers_, abs=1e-4)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"target_share": 1.0}, "target_share=1.0: must be"),
        ({"target_share": -0.1}, "target_share"),
        ({"target_share": 0.3, "columns": ["x0", "x1"]}, "needs a target"),
        ({"target_share": 0.3, "columns": ["y"]}, "needs a target"),
        ({"target_share": 0.3, "schema": replace(SCHEMA, target=None)}, "needs a target"),
    ],
)
def test_what_has_no_target_is_refused_before_anything_is_paid(table: pa.Table, parameters: dict, words: str) -> None:
    with budget_context(1.0, 1e-6) as budget:
        with pytest.raises(InvalidParameterError, match=words):
            PrivateSyntheticData(**{"schema": SCHEMA, **parameters}).fit(table)
        assert float(budget.account().left[0]) == 1.0


def test_a_number_in_one_bin_is_drawn_from_it(table: pa.Table) -> None:
    """It was refused after the payment: no table of one cell is measured."""
    schema = replace(SCHEMA, target=NumericTarget("number", 0, 20))
    model = PrivateSyntheticData(4.0, schema=schema, bins={"number": 1}, target_share=0.3).fit(table)
    assert model.marginal("number") == pytest.approx([1.0])
    assert len(model.sample(50)) == 50


@pytest.mark.parametrize("numeric", [False, True])
def test_impossible_values_of_the_target_are_not_drawn_and_move_no_other_column(numeric: bool) -> None:
    """Records of levels for which the model's target is often impossible were drawn again, as other levels."""
    rng, n = np.random.default_rng(0), 20_000
    kind, x = rng.choice(["a", "b", "c"], n, p=[0.45, 0.45, 0.1]), rng.random((2, n))
    y = (kind == "a") & (rng.random(n) < 0.3 + 0.6 * x[0])
    data = pa.table({"kind": kind, "x0": x[0], "x1": x[1], "y": 4.5 * y if numeric else np.where(y, "yes", "no")})
    target = NumericTarget("y", 0, 5) if numeric else ClassTarget("y", ("yes", "no"))
    columns = CategoricalColumn("kind", ("a", "b", "c")), NumericColumn("x0", 0, 1), NumericColumn("x1", 0, 1)
    zeros = [{"kind": level, "y": "[4, 5]" if numeric else "yes"} for level in "bc"]
    model = PrivateSyntheticData(
        20.0, schema=Schema(columns, target), bins=5, impossible=zeros, target_share=0.3, random_state=0
    ).fit(data)
    drawn = model.sample(n, random_state=1)
    levels, found = np.asarray(drawn["kind"]), np.asarray(drawn["y"])
    ill = found >= 4 if numeric else found == "yes"
    assert not ill[levels != "a"].any()
    assert ill.mean() == pytest.approx(y.mean(), abs=0.02)
    assert (levels == "a").mean() == pytest.approx(0.45, abs=0.02)
    assert model.marginal("kind", "y").sum(axis=1) == pytest.approx(model.marginal("kind"), abs=0.01)


@pytest.mark.parametrize(
    ("columns", "algorithm"), [(("x0", "y"), "query_noise"), (("x0", "y"), "mwem"), (("kind", "x0", "y"), "mwem")]
)
def test_one_table_of_all_columns_leaves_that_of_the_others(table: pa.Table, columns: tuple, algorithm: str) -> None:
    """Nothing but the target was measured, so the other columns were drawn from even shares."""
    data = table.set_column(0, "x0", pa.array(np.asarray(table["x0"]) ** 3))
    model = PrivateSyntheticData(
        20.0, schema=SCHEMA, columns=columns, order=len(columns), algorithm=algorithm, bins=4, target_share=0.2
    ).fit(data)
    assert model.marginal("x0") == pytest.approx(np.diff(np.cbrt([0, 0.25, 0.5, 0.75, 1])), abs=0.05)


def test_both_plans_are_for_one_number_of_units() -> None:
    privacy = PrivacyParams(0.5, 0.0)
    then = noisy_tables.plan(Marginals.of_order((2, 2), 2), 100, privacy)
    plan = PrivateLogisticRegression(0.5, 0.0, schema=SCHEMA).plan(99)[0]
    with pytest.raises(InvalidParameterError, match="that of the tables, 100"):
        target_model.plan(then, Candidate({}, plan), PrivacyParams(1.0, 0.0))


@pytest.mark.parametrize("given", [{"neighboring": "add_or_remove_one"}, {"unit": "user"}, {"epsilon": 0.4}])
def test_both_plans_are_for_parts_of_one_promise(given: dict) -> None:
    """A plan that goes on from its releases may cost all of its own promise."""
    privacy = PrivacyParams(0.5, 0.0)
    then = noisy_tables.plan(Marginals.of_order((2, 2), 2), 100, privacy)
    plan = PrivateLogisticRegression(0.5, 0.0, schema=SCHEMA).plan(100)[0]
    whole = PrivacyParams(**{"epsilon": 1.0, "delta": 0.0, **given})
    with pytest.raises(InvalidParameterError, match="then="):
        target_model.plan(then, Candidate({}, plan), whole)
    assert target_model.plan(then, Candidate({}, plan), PrivacyParams(1.0, 0.0)).privacy.epsilon == 1.0


def test_what_is_impossible_with_the_target_leaves_the_other_columns_as_they_are(table: pa.Table) -> None:
    zeros = [{"y": "yes", "kind": "b"}]
    given = {"schema": SCHEMA, "impossible": zeros, "target_share": 0.5, "random_state": 0}
    model = PrivateSyntheticData(4.0, 0.0, **given, algorithm="noisy_tree").fit(table)
    drawn = model.sample(20_000, random_state=1)
    kinds, yes = np.asarray(drawn["kind"].fill_null("-")), np.asarray(drawn["y"]) == "yes"
    assert not (yes & (kinds == "b")).any()
    assert 0.27 < (kinds == "b").mean() < 0.37
    assert model.marginal("y", "kind")[1, 1] == 0.0
