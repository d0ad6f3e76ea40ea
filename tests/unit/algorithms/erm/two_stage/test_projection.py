"""Columns in a ball projected to fewer: parameters, neighbors, coins, content, and what the plan expects to lose."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpconvex import PrivateLogisticRegression
from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.two_stage import projection as projecting, recentering
from dpconvex.algorithms.erm.two_stage.projection import FEWEST, ProjectedPlan, projected, projection
from dpconvex.algorithms.select import Options
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import HuberLoss, LogisticLoss, SoftmaxLoss
from dpconvex.mechanisms import ObjectiveNoise
from dpconvex.privacy import PrivacyCertificate, PrivacyParams, verify
from dpconvex.problems import Block, DataDomain, LinearModelProblem
from dpconvex.problems.linear.expected_risk import ORDINARY, TypicalData, _power_law, squared_reach
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import BitSource, SeededSource, SystemSource

MIXED = DataDomain((Block(5, "l2", 2.0), Block(3, "l1", 1.0), Block(6, "l2", 1.5), Block(2, "linf", 0.5)), 0.5)
"""Eleven columns in two balls, five others between and behind them, a constant."""
N = 60


def problem(loss=None, n: int = N, domain: DataDomain = MIXED, radius: float = 5.0, **more) -> LinearModelProblem:
    return LinearModelProblem(loss or LogisticLoss(), domain, n, radius, **more)


def planned(task: LinearModelProblem, epsilon: float = 1.0, delta: float = 0.0, l2: float | None = None):
    (plan,) = plans(task, PrivacyParams(epsilon, delta), "random_projection", Options(l2=l2))
    assert isinstance(plan, ProjectedPlan)
    return plan


def to(columns: int, plan: ProjectedPlan) -> ProjectedPlan:
    """The same plan with another number of columns."""
    assert plan.recipe is not None
    then = plan.recipe.inputs["planner"](projected(plan.problem, columns), plan.privacy)[0]
    return replace(plan, then=then, columns=columns)


def records(n: int = N, seed: int = 0, domain: DataDomain = MIXED) -> np.ndarray:
    """Some inside the domain, some far outside."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, domain.n_features)) * rng.choice([0.1, 1.0, 30.0], (n, 1))


def coins(plan: ProjectedPlan, seed: int) -> np.ndarray:
    """The projection that a run with this seed draws: the first thing that it asks the source for."""
    return projection(len(plan.wide), plan.columns, SeededSource(seed))


# Parameters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [10, 5])
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.5, 1.0), SoftmaxLoss(3)], ids=lambda loss: loss.name)
def test_without_noise_it_minimizes_over_the_projected_models(loss, columns: int) -> None:
    """Epsilon 1e6: parameters ``P^T v``, and v has no gradient on the projected records, computed here anew."""
    y = np.arange(N) % 3 if loss.n_outputs == 3 else np.where(np.arange(N) % 2, 1.0, -1.0)
    plan = to(columns, planned(problem(loss), 1e6, l2=0.05))
    X, P = records(), coins(plan, 3)
    w = plan.run(X, y, SeededSource(3)).point.reshape(loss.n_outputs, MIXED.dim)
    wide, others = [0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13], [5, 6, 7, 14, 15]
    v = w[:, wide] @ P.T * (columns / 11)  # rows of P are orthogonal, of squared length 11 / columns
    np.testing.assert_allclose(v @ P, w[:, wide], atol=1e-12)
    inside = MIXED.clip(X)
    inner = plan.then.problem
    fewer = np.column_stack([inside[:, wide] @ P.T, inside[:, others]])
    objective = inner.objective(fewer, y, 0.05)
    point = np.column_stack([v, w[:, others], w[:, -1:]]).ravel()
    assert np.linalg.norm(objective.gradient(point)) < 1e-4 * np.linalg.norm(objective.gradient(0 * point))


def test_the_projected_records_have_the_predictions_of_the_parameters_put_back() -> None:
    """Block by block: a mixed-up order of columns would show."""
    plan = planned(problem())
    X, P, rng = records(), coins(plan, 0), np.random.default_rng(1)
    v = rng.normal(size=plan.then.problem.domain.dim)
    put_back = np.empty(MIXED.dim)
    put_back[[*range(5), *range(8, 14)]] = v[: plan.columns] @ P
    put_back[[5, 6, 7]], put_back[[14, 15]] = v[plan.columns : plan.columns + 3], v[plan.columns + 3 : -1]
    put_back[-1] = v[-1]
    inner = plan._projected(X, P) @ v[:-1] + v[-1] * plan.then.problem.domain.intercept
    np.testing.assert_allclose(inner, MIXED.clip(X) @ put_back[:-1] + 0.5 * put_back[-1], atol=1e-12)


def test_the_projected_domain() -> None:
    inner = projected(problem(), 6).domain
    expected = [(6, "l2", 2.5), (3, "l1", 1.0), (2, "linf", 0.5)]
    assert [(b.size, b.norm, b.bound) for b in inner.blocks] == expected
    assert inner.intercept == 0.5
    assert MIXED.columns_in("l2").tolist() == [*range(5), *range(8, 14)]
    reach = {block.name or str(k): squared_reach(block) for k, block in enumerate(MIXED.all_blocks)}
    left = sum(reach.values()) - (1 - 6 / 11) * (reach["0"] + reach["2"])
    assert projected(problem(), 6).radius ** 2 == pytest.approx(25 * left / sum(reach.values()))


@pytest.mark.parametrize(("columns", "kept"), [(11, 10), (64, 4), (9, 4)])
def test_projections_are_orthogonal_and_keep_lengths_on_average(columns: int, kept: int) -> None:
    P = projection(columns, kept, SeededSource(0))
    np.testing.assert_allclose(P @ P.T, columns / kept * np.eye(kept), atol=1e-12)
    x = np.random.default_rng(0).normal(size=columns)
    lengths = [np.sum((projection(columns, kept, SeededSource(s)) @ x) ** 2) for s in range(400)]
    assert np.mean(lengths) == pytest.approx(x @ x, rel=0.15)  # deviations of a mean of 400: at most 0.035
    entries = np.mean([projection(columns, kept, SeededSource(s)) ** 2 for s in range(400)], axis=0)
    np.testing.assert_allclose(entries, 1 / kept, rtol=0.5)  # what `coefficient_deviation` takes them for


@pytest.mark.gate
def test_the_deviation_of_the_noise_is_that_of_runs() -> None:
    """On data that say nothing: of 600 seeds each relative error of a variance has a deviation below 0.1."""
    seeds, tolerance = 600, 0.25
    plan = planned(problem(), 0.5, l2=1.0)
    assert plan.coefficient_deviation.shape == (MIXED.dim,)
    runs = [plan.run(np.zeros((N, 16)), np.ones(N), SeededSource(s)).point for s in range(seeds)]
    ratio = np.std(runs, axis=0)[:-1] / plan.coefficient_deviation[:-1]
    assert ratio == pytest.approx(np.full(16, np.mean(ratio)), rel=tolerance)
    assert 0.5 < np.mean(ratio) < 1.5
    many = planned(problem(SoftmaxLoss(3)))
    assert many.coefficient_deviation.shape == (3 * MIXED.dim,)


# Privacy -------------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), where=st.integers(0, 39), columns=st.integers(1, 10))
def test_neighbors_stay_neighbors_inside_the_public_ball(seed: int, n: int, where: int, columns: int) -> None:
    """Bit by bit, extreme records included; and each projected record is clipped as the method's sensitivity wants."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1e300, -0.5, 0.0, 0.2, 3.0, np.nan, np.inf], (n, 16))
    other = X.copy()
    other[where % n] = rng.choice([-np.inf, 1e9, -2.0, 0.1], 16)
    plan = to(columns, planned(problem(n=n)))
    P = coins(plan, seed)
    with np.errstate(all="ignore"):
        one, two = plan._projected(X, P), plan._projected(other, P)
    same = np.arange(n) != where % n
    assert (one[same] == two[same]).all()
    assert np.isfinite(one).all()
    inner = plan.then.problem.domain
    seen = inner.clip(one)
    assert (np.linalg.norm(seen[:, :columns], axis=1) <= math.hypot(2.0, 1.5)).all()
    assert (np.abs(seen[:, columns : columns + 3]).sum(axis=1) <= 1).all()
    assert (np.abs(seen[:, -2:]) <= 0.5).all()


def test_the_projection_depends_on_the_source_alone() -> None:
    plan = planned(problem())
    y = np.where(np.arange(N) % 2, 1.0, -1.0)

    def directions(X: np.ndarray, seed: int) -> np.ndarray:
        """Projector to the span of the projected columns' parameters, over several runs of one seed."""
        w = plan.run(X, y, SeededSource(seed)).point[plan.wide]
        return np.linalg.lstsq(coins(plan, seed).T, w, rcond=None)[0] @ coins(plan, seed) - w

    for data in (records(), records(seed=7), np.full((N, 16), np.nan)):
        np.testing.assert_allclose(directions(data, 5), 0, atol=1e-9)  # in the row space of the seed's P
    w = plan.run(records(), y, SeededSource(5)).point[plan.wide]
    P = coins(plan, 6)
    off = w - np.linalg.lstsq(P.T, w, rcond=None)[0] @ P
    assert np.linalg.norm(off) > 0.1 * np.linalg.norm(w)  # and not in that of another


def test_the_projection_has_a_stream_of_its_own() -> None:
    """Noise drawn from the generator that drew P could be computed from P, which the released parameters show."""
    streams: list[np.random.Generator] = []
    inner = SeededSource(0)

    class Source(BitSource):
        name, private, exact = "counting", False, False

        def generator(self) -> np.random.Generator:
            streams.append(inner.generator())
            return streams[-1]

    drawn: list[int] = []
    real = ObjectiveNoise.draw

    def draw(self, *args, **named):
        drawn.append(len(streams))
        return real(self, *args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectiveNoise, "draw", draw)
        planned(problem()).run(records(), np.ones(N), Source())
    assert drawn == [1]  # one stream was taken before: the projection's
    assert len(streams) > 1
    assert len({id(stream.bit_generator) for stream in streams}) == len(streams)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("n", [N, 5000])
def test_it_spends_what_its_method_spends_and_can_be_verified(delta: float, n: int) -> None:
    plan = planned(problem(n=n), 1.0, delta)
    result = plan.run(records(n), np.where(np.arange(n) % 2, 1.0, -1.0), SystemSource())
    assert isinstance(result.plan, ProjectedPlan)
    assert result.plan.releases == plan.releases == plan.then.releases
    text = result.certificate.to_json()
    read = PrivacyCertificate.from_json(text)
    assert verify(read).passed
    assert 0.999 < read.spent_epsilon <= 1
    assert read.algorithm == "random_projection"
    assert read.public["projected"] == {"columns": 11, "to": plan.columns, "method": "objective_perturbation"}
    assert read.public["feature_l2"] == pytest.approx(plan.then.problem.feature_l2)
    assert json.loads(text)["public"]["n"] == n
    assert not verify(replace(read, spent_epsilon=0.9)).passed
    assert any("does not depend on the data" in each.statement for each in plan.assumptions)


@pytest.mark.parametrize("content", [np.nan, np.inf, -1e300, 0.0, 5e-324])
def test_content_never_speaks(content: float) -> None:
    plan = planned(problem())
    result = plan.run(np.full((N, 16), content), np.full(N, content), SystemSource())
    assert np.isfinite(result.point).all()
    assert verify(result.certificate).passed


@pytest.mark.parametrize("chunk", [1, 16, 16 * 7, 10**9])
def test_chunks_of_rows_change_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, X = planned(problem()), records()
    P = coins(plan, 0)
    whole = plan._projected(X, P)
    monkeypatch.setattr(projecting, "CHUNK", chunk)
    np.testing.assert_allclose(plan._projected(X, P), whole, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.longdouble])
def test_every_real_dtype_will_do(dtype) -> None:
    X = records().astype(dtype)
    y, plan = np.where(np.arange(N) % 2, 1.0, -1.0), planned(problem())
    given, wide = (plan.run(each, y, SeededSource(1)).point for each in (X, X.astype(np.float64)))
    np.testing.assert_array_equal(given, wide)


@pytest.mark.parametrize(
    ("task", "privacy"),
    [
        (problem(domain=DataDomain.box(20, 1.0)), PrivacyParams(1.0)),
        (problem(domain=DataDomain.l2_ball(2 * FEWEST - 1, 1.0)), PrivacyParams(1.0)),
        (problem(records_per_user=3), PrivacyParams(1.0, unit="user")),  # pyright: ignore[reportArgumentType]
        (problem(tilt=1.0), PrivacyParams(1.0)),
        (problem(attack_radius=0.1), PrivacyParams(1.0)),
        (problem(), PrivacyParams(1.0, neighboring="add_or_remove_one")),  # pyright: ignore[reportArgumentType]
    ],
    ids=["no ball", "few columns", "users", "tilted", "attacked", "add or remove"],
)
def test_it_is_not_offered_where_it_does_not_apply(task: LinearModelProblem, privacy: PrivacyParams) -> None:
    with pytest.raises(InvalidParameterError):
        plans(task, privacy, "random_projection")
    if str(privacy.neighboring) == "replace_one":
        assert all(plan.algorithm != "random_projection" for plan in plans(task, privacy))


@pytest.mark.parametrize(
    ("task", "promise"),
    [
        (problem(), {"unit": "user"}),
        (problem(), {"neighboring": "add_or_remove_one"}),
        (problem(tilt=1.0), {}),
        (problem(attack_radius=0.1), {}),
    ],
    ids=["users", "add or remove", "tilted", "attacked"],
)
def test_it_refuses_by_itself_whatever_its_method_does(task: LinearModelProblem, promise: dict[str, str]) -> None:
    """An attack on projected records would be another one; records of a user would not stay together."""

    def planner(problem: LinearModelProblem, privacy: PrivacyParams):
        pytest.fail("asked the method")

    with pytest.raises(InvalidParameterError):
        projecting.plan(task, PrivacyParams(1.0, **promise), planner)  # pyright: ignore[reportArgumentType]


def test_other_shapes_are_refused() -> None:
    plan = planned(problem())
    for X in (np.zeros((N - 1, 16)), np.zeros((N, 15)), np.zeros((N, 16), dtype=str)):
        with pytest.raises(InvalidDataError):
            plan.run(X, np.ones(N), SeededSource(0))


def test_the_plan_of_another_promise() -> None:
    plan = planned(problem(n=5000))
    again = plan.at(PrivacyParams(0.01))
    assert again.privacy == again.then.privacy == PrivacyParams(0.01)
    assert again.columns <= plan.columns
    assert planned(problem(n=5000), 0.01).predicted_error == again.predicted_error


def test_recentered_columns_can_be_projected() -> None:
    """Three plans deep: epsilon 1e5, columns that are constant but for the first; what both put back predicts it."""

    def planner(task: LinearModelProblem, privacy: PrivacyParams):
        return projecting.plan(task, privacy, objective_perturbation.plan)

    n, rng = 2000, np.random.default_rng(0)
    X = np.full((n, 12), 0.3)
    X[:, 0] += rng.uniform(-0.3, 0.3, n)
    task = problem(HuberLoss(1.0, 1.0), n, DataDomain.box(12, 1.0).with_intercept(1.0), 20.0)
    result = recentering.plan(task, PrivacyParams(1e5), planner)[0].run(X, 2 * X[:, 0] - 0.6, SeededSource(0))
    residuals = X @ result.point[:-1] + result.point[-1] - (2 * X[:, 0] - 0.6)
    assert np.abs(residuals).max() < 0.05
    public = result.certificate.public
    assert public["projected"]["columns"] == 12
    assert public["recentered"]["method"] == "random_projection"
    assert verify(recentering.plan(task, PrivacyParams(1.0), planner)[0].certificate(SystemSource())).passed


@pytest.mark.parametrize("algorithm", ["random_projection", "recentering"])
def test_a_fitted_model_can_be_pickled(algorithm: str) -> None:
    """Cross-validation in several processes sends fitted models about, and plans with them."""
    domain = DataDomain.box(2, 1.0) if algorithm == "recentering" else DataDomain.l2_ball(8, 1.0)
    X, y = np.ones((2000, domain.n_features)) / 4, np.arange(2000) % 2
    model = PrivateLogisticRegression(1.0, domain=domain.with_intercept(1.0), algorithm=algorithm, classes=[0, 1]).fit(
        X, y
    )
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_proba(X), model.predict_proba(X))
    assert copied.plan_.releases == model.plan_.releases


# Accuracy ------------------------------------------------------------------------------------------------------------


@pytest.mark.thin
@pytest.mark.parametrize(("d", "m"), [(64, 32), (128, 16), (300, 75), (300, 9)])
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(4)], ids=lambda loss: loss.name)
def test_the_bias_of_a_projection_against_a_simulation(d: int, m: int, loss) -> None:
    """Best fits in 60 random subspaces, for signals that are equal in all directions: within 10 %."""
    typical = TypicalData.of(DataDomain.l2_ball(d, 1.0).with_intercept(1.0), loss, 3.0)
    ball = typical.block == 0
    outputs = max(1, loss.n_outputs - 1)
    each = np.rint(typical.count[ball] / outputs).astype(int)
    h, signal = np.repeat(typical.curvature[ball], each), np.repeat(typical.signal[ball], each)
    assert len(h) == d
    lost = []
    for seed in range(60):
        P = projection(d, m, SeededSource(seed))
        fit = np.linalg.solve((P * h) @ P.T, P * h)  # of the parameters, (m, d)
        left = np.eye(d) - P.T @ fit
        lost.append(outputs * np.sum((left.T * h) @ left * np.diag(signal)) / 2)
    assert typical.projection_bias([0], m) == pytest.approx(np.mean(lost), rel=0.1)


def test_fewer_columns_lose_more_and_all_of_them_nothing() -> None:
    typical = TypicalData.of(MIXED, LogisticLoss(), 5.0)
    lost = [typical.projection_bias([0, 2], m) for m in range(1, 11)]
    assert all(a > b > 0 for a, b in pairwise(lost))
    among = np.isin(typical.block, [0, 2])
    assert lost[0] < np.sum((typical.count * typical.curvature * typical.signal)[among]) / 2


@given(size=st.integers(1, 3000))
def test_the_moments_of_a_ball_follow_a_power_of_the_rank(size: int) -> None:
    count, moment = _power_law(size)
    assert count.sum() == size
    assert count @ moment / size == pytest.approx(1)
    assert (np.diff(moment) < 0).all()
    ends = np.cumsum(count)
    exact = np.arange(1, size + 1) ** -1.5
    exact *= size / exact.sum()
    first = ends.astype(int) - count.astype(int)
    for where, (start, end) in enumerate(zip(first, ends.astype(int), strict=True)):
        assert moment[where] == pytest.approx(exact[start:end].mean())


def test_domains_of_schemas_share_the_signal_as_before() -> None:
    """One-hot blocks, columns in [-1/2, 1/2] and the constant 1: two logits each, R = 2 sqrt(blocks), less expected."""
    domain = DataDomain((Block(3, "l1", 1.0), Block(2, "linf", 0.5), Block(7, "l1", 1.0)), 1.0)
    assert [squared_reach(block) for block in domain.all_blocks] == [4.0, 8.0, 4.0, 4.0]
    R = default_radius(domain)
    assert pytest.approx(2 * math.sqrt(5)) == R
    typical = TypicalData.of(domain, LogisticLoss(), R)
    inside = [typical.signal[typical.block == k].mean() * size for k, size in ((0, 3), (2, 7))]
    assert inside == pytest.approx([4.0 * ORDINARY.squared_length] * 2)
    assert pytest.approx(R * math.sqrt(10 * math.log2(10)) / 2) == default_radius(domain, 10)
    ball = DataDomain.l2_ball(100, 2.0)
    assert default_radius(ball) == pytest.approx(10.0 * math.sqrt((100 / 16) ** 0.75))
    assert default_radius(DataDomain.l2_ball(16, 2.0)) == pytest.approx(4.0)  # as much as one column tells
    assert default_radius(DataDomain.l2_ball(1600, 2.0)) == pytest.approx(40.0 * math.sqrt(8.0))
    assert squared_reach(Block(100, "l2", 2.0, "recentered", "centered")) == 100.0  # its columns were counted before
    for loss in (LogisticLoss(), SoftmaxLoss(10)):
        of_ball = TypicalData.of(ball.with_intercept(1.0), loss, 3.0)
        assert of_ball.count @ of_ball.signal == pytest.approx(9.0 * ORDINARY.squared_length)


@pytest.mark.parametrize("loss", [LogisticLoss(), LogisticLoss(0.5), SoftmaxLoss(10)], ids=repr)
def test_no_number_of_columns_is_expected_to_gain_more_than_zero_loses(loss: LogisticLoss | SoftmaxLoss) -> None:
    gains = []
    for columns in (4, 40, 400, 4000):
        box = DataDomain.box(columns, 0.5).with_intercept(1.0)
        gains.append(TypicalData.of(box, loss.usual, default_radius(box, loss.n_outputs)).at_zero)
    most = loss.usual.value_at_zero
    assert gains[0] < 0.5 * most
    assert gains == sorted(gains)
    assert gains[2:] == pytest.approx([most, most])


@pytest.mark.gate
def test_it_wins_with_many_columns_and_classes() -> None:
    """Mean log-loss 1.0 against 1.3 without a projection; moments fall as rank^-1.5; seeds fixed."""
    n, d, k = 1500, 200, 5
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.75
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    w = 6 * rng.normal(size=(d, k)) / np.sqrt(np.arange(1, d + 1))[:, None]
    y = np.argmax(X @ w + rng.gumbel(size=(n, k)), axis=1)

    def log_loss(algorithm: str, seed: int) -> float:
        model = PrivateLogisticRegression(
            0.5, feature_norm=1.0, classes=range(k), algorithm=algorithm, random_state=seed
        ).fit(X, y)
        return -float(model.predict_log_proba(X)[np.arange(n), y].mean())

    means = [np.mean([log_loss(name, s) for s in range(4)]) for name in ("random_projection", "objective_perturbation")]
    assert means[0] < means[1] - 0.15


@pytest.mark.parametrize("values", ["any", "sparse"])
def test_no_projection_needs_more_memory_than_a_machine_has(values) -> None:
    """Of words half of 50,000 columns lose as much as fewer: the matrix had 9 GB, and the fit ended without a word."""
    domain = DataDomain((Block(50_000, "l2", 1.0, values=values),))
    model = PrivateLogisticRegression(2.0, domain=domain, classes=[0, 1], algorithm="random_projection")
    assert model.plan(300, 50_000)[0].columns * 50_000 <= projecting.LARGEST
