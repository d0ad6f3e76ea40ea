"""What every algorithm promises, for every loss, noise and constant set that `plans` offers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpconvex.algorithms.erm.registry import ERM_METHODS, cautious, plans
from dpconvex.algorithms.recipes import PLANNERS
from dpconvex.algorithms.select import CONSTANTS, Options
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LOSSES, HingeLoss, HuberLoss, LogisticLoss, PiecewiseLinearLoss, SoftmaxLoss, SquaredLoss
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Release, verify
from dpconvex.privacy.ledger import total_delta, total_epsilon
from dpconvex.privacy.profiles import limited
from dpconvex.problems import Block, DataDomain, LinearModelProblem, Records, RegularizedRisk
from dpconvex.randomness import BitSource, SeededSource, SystemSource
from dpconvex.sets import L2Ball
from dpconvex.solvers import default_solver
from dpconvex_experiments.audit.targets import TARGETS
from instances import instances

EPSILON, DELTA = 1.0, 1e-6
DOMAIN = DataDomain((Block(3, "l1", 1.0), Block(2, "linf", 0.5)), intercept=1.0)
TINY = DataDomain.box(1, 1.0)
"""One feature, no intercept: small enough for algorithms that are made for few parameters."""
N, WIDTH = 24, 5
RECORD_LEVEL = [name for name in ERM_METHODS if name not in ("phased_sgd", "accelerated_user", "informed_gradient")]
"""Algorithms that plan for records; the others are for users only."""
BOUNDED = [loss for kind in LOSSES for loss in instances(kind) if math.isfinite(loss.slope_bound)]
CASES = [(loss, delta, constants) for loss in BOUNDED for delta in (0.0, DELTA) for constants in CONSTANTS]
CONTENTS = ("nan", "infinite", "constant", "zeros", "duplicates", "huge", "tiny", "far labels", "lost labels")


@cache
def offered(loss, delta=DELTA, constants="calibrated", n=N, epsilon=EPSILON, l2=None, domain=DOMAIN, radius=2.0):
    problem = LinearModelProblem(loss, domain, n, radius)
    return plans(problem, PrivacyParams(epsilon, delta), "auto", Options(constants=constants, l2=l2))


def title(value):
    return repr(value).replace(" ", "") if not isinstance(value, str | float) else str(value)


def table(content, n, rng, width=WIDTH):
    """Features and targets of that kind; labels 0, 1, ... suit every task."""
    X, y = rng.uniform(-1, 1, (n, width)), (np.arange(n) % 2).astype(float)
    if content == "nan":
        X[:], y[:] = np.nan, np.nan
    elif content == "infinite":
        X[::2], X[1::2], y[:] = np.inf, -np.inf, np.inf
    elif content == "constant":
        X[:], y[:] = 0.3, 1.0
    elif content == "zeros":
        X[:] = 0
    elif content == "duplicates":
        X[:] = X[0]
    elif content == "huge":
        X *= 1e300
        y *= -1e300
    elif content == "tiny":
        X *= 1e-300
    elif content == "far labels":
        y = np.arange(n) * 1e6 - 5
    elif content == "lost labels":
        y[::3] = np.nan
    return X, y


def public_part(certificate):
    return json.dumps({**certificate.to_dict(), "versions": None, "digest": None}, sort_keys=True)


@pytest.mark.together
@pytest.mark.parametrize(("loss", "delta", "constants"), CASES, ids=title)
def test_a_plan_costs_no_more_than_its_target(loss, delta, constants) -> None:
    """Recomputed from the releases as a certificate stores them."""
    found = offered(loss, delta, constants)
    ranks = np.array([cautious(plan) for plan in found])
    assert (ranks[1:] >= ranks[:-1] * (1 - 1e-8)).all()  # equal ones stand in the order of noises
    for plan in found:
        releases = [Release.from_dict(json.loads(json.dumps(release.to_dict()))) for release in plan.releases]
        pure = total_epsilon(releases, 0.0)
        assert pure <= EPSILON or (delta > 0 and total_delta(releases, EPSILON) <= delta), plan
        # ... and wastes next to nothing, so that doubled noise cannot pass either.
        if pure < math.inf:
            assert pure > EPSILON * (1 - 1e-6), plan
        elif constants == "calibrated":
            assert total_delta(releases, EPSILON * (1 - 1e-4)) > delta, plan


@pytest.mark.together
@pytest.mark.parametrize(("loss", "delta", "constants"), CASES, ids=title)
@pytest.mark.thin
def test_a_plan_is_a_pure_function_of_public_facts(loss, delta, constants) -> None:
    def facts(plan):
        text = json.dumps(
            [plan.algorithm, plan.noise_name, plan.l2, plan.problem.describe(), dict(plan.describe())], allow_nan=False
        )
        releases = [release.to_dict() for release in plan.releases]
        return (
            text,
            releases,
            plan.predicted_error,
            None if plan.coefficient_deviation is None else plan.coefficient_deviation.tolist(),
            getattr(plan, "solver_radius", None),
        )

    problem, privacy = LinearModelProblem(loss, DOMAIN, N, 2.0), PrivacyParams(EPSILON, delta)
    with limited(1e12):  # planned anew, not remembered (tests/conftest.py)
        again = plans.__wrapped__(problem, privacy, "auto", Options(constants=constants))
    assert [facts(plan) for plan in again] == [facts(plan) for plan in offered(loss, delta, constants)]
    for plan in again:
        if plan.coefficient_deviation is not None:  # not known, for a plug-in
            assert plan.coefficient_deviation.shape == (plan.problem.dim,)
            moved = plan.coefficient_deviation > 0
            assert moved.all() or (plan.algorithm == "constant" and moved.any())  # coefficients 0 stay
        assert plan.theorem
        assert plan.assumptions
        error = plan.predicted_error
        assert error.bound > 0
        names = {key: value for key, value in plan.public.items() if key.startswith("excess_loss")}
        assert names == {"excess_loss_bound" if error.proved else "excess_loss_estimate": error.bound}
        assert error.proved != ("an estimate" in error.source), error.source


REACHING = [(LogisticLoss(), 0.0), (LogisticLoss(0.6), DELTA), (SoftmaxLoss(3), 0.0), (HuberLoss(0.5), DELTA)]
RUNS, MISSES = 40, 12
"""Of 40 runs at most 12 may miss a coordinate's band of 95 %: P(more) < 4e-8, below 1e-4 for all bands together."""


def test_noise_stays_within_the_guaranteed_reach_on_any_data(full: bool) -> None:
    rng, known = np.random.default_rng(0), set()
    for k, (loss, delta) in enumerate(REACHING if full else REACHING[1:2]):
        for plan in offered(loss, delta, l2=0.05):
            reach = plan.noise_reach()
            if reach is None:
                assert plan.algorithm not in ("objective_perturbation", "output_perturbation")
                continue
            known.add((plan.algorithm, plan.noise_name))
            assert plan.exact_deviation == (plan.algorithm == "output_perturbation")
            for content in (("plain", "duplicates")[k % 2], "zeros") if full else ("zeros",):
                X, y = table(content, N, rng)
                risk = RegularizedRisk(loss, Records.clipped(X, DOMAIN), loss.clip_targets(y), plan.l2)
                best = default_solver(plan.problem.bounds, dim=risk.dim).solve(risk, 1e-6).point
                points = [plan.run(X, y, SeededSource(seed)).point for seed in range(RUNS)]
                away = np.abs(np.array(points) - best)
                assert np.sum(away > reach + 1e-6, axis=0).max() <= MISSES, (loss, plan.noise_name, content)
                if content == "zeros":  # without curvature a quarter of it at least is needed: no wider band passes
                    assert (np.quantile(away, 0.9, axis=0)[:-1] > reach[:-1] / 4).all(), (loss, plan.noise_name)
    assert len(known) > (6 if full else 1)


def test_the_reach_is_the_exact_quantile_in_one_dimension() -> None:
    """``b`` is a Laplace variable, and flat data give ``b / (n l2)``; 2 % for 2,000 draws, quantiles rounded up."""
    found = [p for p in offered(LogisticLoss(), 0.0, domain=TINY, l2=0.5) if p.algorithm == "objective_perturbation"]
    assert found
    for plan in found:
        assert plan.problem.factor.matrix.toarray().tolist() == [[1.0]]  # as `l2` is given
        scale = plan.noise.event.scale / float(getattr(plan.noise.norm, "base", plan.noise.norm)(np.ones(1)))
        exact = scale * math.log(20) / (plan.problem.n * plan.l2)
        spread = plan.output.deviation + plan.solver_radius
        assert exact * 0.97 < plan.noise_reach()[0] < exact * 1.25 + 6 * spread


def test_simulated_reach_has_a_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = offered(LogisticLoss(), 0.0)[0]
    again = plan.noise_reach()
    X, y = table("plain", N, np.random.default_rng(0))
    before = plan.run(X, y, SeededSource(3)).point
    for source in (SeededSource, SystemSource):
        monkeypatch.setattr(source, "generator", lambda *_: pytest.fail("a source of noise was used"))
    np.testing.assert_array_equal(plan.noise_reach(), again)
    monkeypatch.undo()
    np.testing.assert_array_equal(plan.run(X, y, SeededSource(3)).point, before)


FIRST = [next(loss for loss in BOUNDED if type(loss) is kind) for kind in dict.fromkeys(map(type, BOUNDED))]
"""One of each kind; the others, and the paper's constants, are for the gate."""
CONTENT_CASES = [
    (loss, constants)
    if loss in FIRST and (constants == "calibrated" or isinstance(loss, HingeLoss))
    else pytest.param(loss, constants, marks=pytest.mark.gate)
    for loss in BOUNDED
    for constants in CONSTANTS
]


@pytest.mark.parametrize(("loss", "constants"), CONTENT_CASES, ids=title)
@pytest.mark.dear("AbsoluteLoss(target_bound=inf)-calibrated", "quick-PinballLoss(quantile=0.5")
def test_no_content_raises_warns_or_shows_in_the_certificate(loss, constants, full) -> None:
    """Warnings are errors in this suite. A plan meets every third content, its sibling the next ones; in the gate the
    calibrated plans of one loss of each kind meet all."""
    every = full and loss in FIRST and constants == "calibrated"
    rng = np.random.default_rng(0)
    both = [offered(loss, DELTA, constants, domain=domain) for domain in (DOMAIN, TINY)]
    for place, plan in enumerate(plan for each in both for plan in each):
        expected = None
        for content in ("plain", *(CONTENTS if every else CONTENTS[place % 3 :: 3])):
            X, y = table(content, N, rng, plan.problem.domain.n_features)
            result = plan.run(X, y, SeededSource(1))
            assert result.point.shape == (plan.problem.dim,)
            assert np.isfinite(result.point).all(), (plan, content)
            shown = public_part(result.certificate)
            expected = expected or shown
            assert shown == expected, (plan, content)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, np.bool_, np.longdouble])
def test_every_real_dtype_gives_the_same_certificate(dtype) -> None:
    rng = np.random.default_rng(0)
    X, y = (rng.uniform(-2, 2, (N, WIDTH))).astype(dtype), (np.arange(N) % 2).astype(dtype)
    for loss in (LogisticLoss(), HingeLoss()):
        plan = offered(loss)[0]
        reference = plan.run(np.zeros((N, WIDTH)), np.zeros(N), SeededSource(1)).certificate
        assert public_part(plan.run(X, y, SeededSource(1)).certificate) == public_part(reference)


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HuberLoss(), HingeLoss()], ids=title)
def test_a_single_record_is_enough(loss) -> None:
    for constants in CONSTANTS:
        for plan in offered(loss, DELTA, constants, n=1):
            for content in ("plain", "nan", "huge"):
                result = plan.run(*table(content, 1, np.random.default_rng(0)), SeededSource(1))
                assert np.isfinite(result.point).all()


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HuberLoss(), HingeLoss()], ids=title)
@pytest.mark.parametrize("constants", CONSTANTS)
@pytest.mark.dear(
    "calibrated-LogisticLoss(cap=1.0,rate=None)",
    "calibrated-SoftmaxLoss(n_classes=3,rates=None)",
    "calibrated-HuberLoss(width=1.0,target_bound=inf,of_mean=False)",
    "paper-HuberLoss",
    "paper-SoftmaxLoss",
)
def test_certificates_verify_unless_seeded(loss, constants) -> None:
    for plan in (*offered(loss, DELTA, constants), *offered(loss, DELTA, constants, domain=TINY)):
        X, y = table("plain", N, np.random.default_rng(0), plan.problem.domain.n_features)
        private = plan.run(X, y, SystemSource())
        assert verify(private.certificate.to_json()).passed, plan
        assert private.certificate.private
        seeded = verify(plan.run(X, y, SeededSource(0)).certificate.to_json())
        assert [check.name for check in seeded.checks if not check.passed] == ["noise is not seeded"], plan


class Spy(BitSource):
    """A seeded source that notes when it is read."""

    name, private, exact = "spy", False, False

    def __init__(self, log):
        self.log, self.inner = log, SeededSource(0)

    def generator(self):
        self.log.append("sampled")
        return self.inner.generator()


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HingeLoss()], ids=title)
@pytest.mark.parametrize("constants", CONSTANTS)
def test_a_run_records_exactly_what_the_plan_lists_before_it_samples(loss, constants, monkeypatch) -> None:
    log: list[object] = []
    record = Ledger.record
    monkeypatch.setattr(Ledger, "record", lambda ledger, release: (record(ledger, release), log.append(release)))
    for plan in (*offered(loss, DELTA, constants), *offered(loss, DELTA, constants, domain=TINY)):
        log.clear()
        width = plan.problem.domain.n_features
        result = plan.run(*table("plain", N, np.random.default_rng(0), width), Spy(log))
        recorded = [entry for entry in log if entry != "sampled"]
        assert plan.releases == result.certificate.releases
        assert recorded == [one for r in plan.releases for one in [replace(r, times=1)] * r.times]
        assert log[0] != "sampled", "something was sampled before it was recorded"
        for place, entry in enumerate(log):  # every later release, too, is recorded before its noise
            if entry == "sampled":
                assert place > 0
                assert log[place - 1] != "sampled" or len(recorded) == 1


def smallest_problem(name: str) -> LinearModelProblem:
    """As few columns as the algorithm applies to: two stages need a constant and many records, projection a ball."""
    many = name in ("recentering", "joint_bound")
    domain = DataDomain.box(1, 1.0).with_intercept(1.0 if many or name == "constant" else 0.0)
    domain = DataDomain.l2_ball(8, 1.0) if name == "random_projection" else domain
    if name == "joint_bound":
        domain = DataDomain((Block(16, "linf", 0.5, "flags", "binary"),), 1.0)
    return LinearModelProblem(SquaredLoss(1.0, 1.0), domain, 4000 if many else N, 2.0)


@pytest.mark.parametrize("name", RECORD_LEVEL)
@pytest.mark.parametrize("rows", [N - 1, N + 1, 1])
def test_a_plan_refuses_another_number_of_records(name, rows) -> None:
    """The noise is sized for the plan's n; on fewer records the promise would be false."""
    plan = plans(smallest_problem(name), PrivacyParams(EPSILON, DELTA), name)[0]
    with pytest.raises(InvalidDataError):
        plan.run(np.zeros((rows, plan.problem.domain.n_features)), np.zeros(rows), SeededSource(0))


@pytest.mark.parametrize("name", RECORD_LEVEL)
@pytest.mark.parametrize("promise", [{"unit": "user"}, {"neighboring": "add_or_remove_one"}], ids=str)
def test_a_promise_that_the_lemmas_do_not_cover_is_refused(name, promise) -> None:
    """Sensitivities here are proved for one replaced record."""
    problem = smallest_problem(name)
    assert plans(problem, PrivacyParams(EPSILON, DELTA), name)
    with pytest.raises(InvalidParameterError):
        plans(problem, PrivacyParams(EPSILON, DELTA, **promise), name)


# Utility -------------------------------------------------------------------------------------------------------------


def risk_of(loss, X, y, l2, domain):
    return RegularizedRisk(loss, Records.clipped(X, domain), loss.clip_targets(y), l2)


def lowest_mean_loss(loss, X, y, domain, radius):
    """Lower bound on the mean loss over parameters of norm at most `radius`, certified by a constrained solver."""
    ridge, accuracy = 1e-3, 1e-3
    constraint = L2Ball(radius)
    if isinstance(loss, PiecewiseLinearLoss):
        loss = loss.smoothed(0.01)  # never above the loss, and quick to minimize
    risk = risk_of(loss, X, y, ridge, domain)
    solved = default_solver(loss, constraint, risk.dim).solve(risk, accuracy, constraint)
    assert solved.accuracy.bound <= accuracy
    slack = ridge / 2 * radius**2 + risk.lipschitz_within(radius) * accuracy
    return risk.value(solved.point) - slack


@pytest.mark.thin
@pytest.mark.parametrize("constants", CONSTANTS)
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HuberLoss(1.0, 2.0), HingeLoss()], ids=title)
@pytest.mark.parametrize("n", [60, 1000])
@pytest.mark.dear("HuberLoss(width=1.0,target_bound=2.0,of_mean=False)")
def test_the_predicted_bound_holds_on_average(loss, constants, n) -> None:
    """Mean of 8 seeded runs against the certified optimum over the comparator ball; seeds are fixed."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, WIDTH))
    y = (X @ [2, -2, 1, 3, -1] + rng.logistic(size=n) > 0).astype(float) + (loss.n_outputs > 2) * (X[:, 0] > 0.4)
    lowest = lowest_mean_loss(loss, X, y, DOMAIN, 2.0)
    plain = risk_of(loss, X, y, 0.0, DOMAIN)
    for plan in offered(loss, DELTA, constants, n=n):
        if "estimate" in plan.predicted_error.source:
            continue
        values = [plain.value(plan.run(X, y, SeededSource(seed)).point) for seed in range(8)]
        assert np.mean(values) - lowest <= plan.predicted_error.bound, plan


@pytest.mark.parametrize("constants", CONSTANTS)
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(1.0, 2.0), HingeLoss()], ids=title)
@pytest.mark.dear(
    "LogisticLoss(cap=1.0,rate=None)-calibrated", "HuberLoss(width=1.0,target_bound=2.0,of_mean=False)-calibrated"
)
def test_the_predicted_bound_for_a_given_ridge_holds_on_average(loss, constants) -> None:
    """With `l2` given the regularized objective is the target."""
    rng, n, l2 = np.random.default_rng(4), 300, 0.3
    X, y = rng.uniform(-1, 1, (n, WIDTH)), (np.arange(n) % 2).astype(float)
    risk = risk_of(loss, X, y, l2, DOMAIN)
    solved = default_solver(loss, dim=risk.dim).solve(risk, 1e-5)
    lowest = risk.value(solved.point) - risk.lipschitz_within(float(np.linalg.norm(solved.point)) + 1) * 1e-5
    for plan in offered(loss, DELTA, constants, n=n, l2=l2):
        values = [risk.value(plan.run(X, y, SeededSource(seed)).point) for seed in range(10)]
        assert np.mean(values) - lowest <= plan.predicted_error.bound, plan


def excess(plan, copies, seeds=range(12)):
    """Mean excess of the regularized risk on `copies` of one table: the minimizer is the same for every n."""
    rng = np.random.default_rng(5)
    X, y = rng.uniform(-1, 1, (50, WIDTH)), (np.arange(50) % 2).astype(float)
    X, y = np.tile(X, (copies, 1)), np.tile(y, copies)
    risk = risk_of(plan.problem.loss, X, y, plan.l2, DOMAIN)
    lowest = risk.value(plan.solver.solve(risk, 1e-7).point)
    return np.mean([risk.value(plan.run(X, y, SeededSource(seed)).point) for seed in seeds]) - lowest


@pytest.mark.parametrize("name", ["objective_perturbation", "output_perturbation"])
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_excess_of_a_fixed_ridge_falls_with_the_square_of_n_and_epsilon(name, delta) -> None:
    """Smooth loss, equal seeds, noise-dominated: slope -2 in n; in epsilon -2 for pure noise, at least -1.6 for
    Gaussian noise, whose scale falls a little more slowly than 1/epsilon."""

    def plan(n, epsilon):
        noise = "auto" if delta == 0 else "gaussian"
        problem = LinearModelProblem(LogisticLoss(), DOMAIN, n, 2.0)
        return plans(problem, PrivacyParams(epsilon, delta), name, Options(l2=1.0, noise=noise))[0]

    base = excess(plan(200, 0.5), 4)
    assert math.log(excess(plan(800, 0.5), 16) / base, 4) == pytest.approx(-2, abs=0.15)
    assert math.log(excess(plan(200, 2.0), 4) / base, 4) == pytest.approx(-2, abs=0.15 if delta == 0 else 0.4)


@pytest.mark.parametrize(
    ("name", "loss", "slope"),
    [
        ("output_perturbation", HingeLoss(), -1 / 2),
        ("output_perturbation", LogisticLoss(), -2 / 3),
        ("objective_perturbation", LogisticLoss(), -1.0),
    ],
    ids=title,
)
def test_bounds_fall_at_the_rates_of_the_theorems(name, loss, slope) -> None:
    """Docs: sharp schedule (classes G and J) and objective perturbation (5.2), in n and in epsilon.

    The ridge of the latter is that of the least expected error, so its bound falls a little slower.
    """
    near = 0.06 if name == "objective_perturbation" else 0.03

    def bound(n, epsilon):
        return plans(LinearModelProblem(loss, DOMAIN, n, 2.0), PrivacyParams(epsilon), name)[0].predicted_error.bound

    assert math.log(bound(10**4, 0.5) / bound(10**3, 0.5), 10) == pytest.approx(slope, abs=near)
    assert math.log(bound(10**4, 1.0) / bound(10**4, 0.1), 10) == pytest.approx(slope, abs=near)


AUDITED = [name for name, target in TARGETS.items() if not name.startswith(("mechanism/", "private_search"))]


@pytest.mark.together
@pytest.mark.parametrize("name", AUDITED)
def test_a_relation_is_planned_for_only_where_it_is_declared(name) -> None:
    """The planner that made an audited plan refuses the other relation, by public facts: whose n it is."""
    plan: Any = TARGETS[name].subject(1.0, 0.05, 1.0).plan
    recipe = getattr(plan, "recipe", None)
    if recipe is None:
        pytest.skip("no plan as users get it")
    assert plan.privacy.neighboring in plan.neighbors
    other = next(each for each in Neighboring if each != plan.privacy.neighboring)
    changed = {
        key: replace(value, neighboring=other) if isinstance(value, PrivacyParams) else value
        for key, value in recipe.inputs.items()
    }
    with pytest.raises(InvalidParameterError, match="neighboring"):
        PLANNERS[recipe.name](**changed)
