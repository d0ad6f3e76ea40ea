"""Certificates of every algorithm: genuine ones pass, forged ones are found, and what they state is public.

``pytest tests/contracts/test_certificates.py -k forgery -s`` prints the table of forgeries.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from dpconvex import (
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateGeometricMedian,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearchCV,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
    Schema,
    plan_minimize,
    verification,
    verify,
)
from dpconvex.algorithms import curvature, recipes, target_look
from dpconvex.algorithms.erm import gradient_descent
from dpconvex.algorithms.erm.heavy_tailed.registry import HEAVY_METHODS, heavy_plans
from dpconvex.algorithms.erm.registry import ERM_METHODS, Methods, plans
from dpconvex.algorithms.erm.two_stage import ranges, recentering, typical_user
from dpconvex.algorithms.location.geometric_median import plan as plan_median
from dpconvex.algorithms.location.registry import LOCATION_METHODS, plan_location
from dpconvex.algorithms.minimax.group_shares import GroupShares, after_shares
from dpconvex.algorithms.minimax.registry import SADDLE_METHODS, SPARSE_METHODS, plan_saddle
from dpconvex.algorithms.queries import evaluation, found_bins, noisy_tables, target_model
from dpconvex.algorithms.queries.registry import QUERY_METHODS, plan_queries
from dpconvex.algorithms.search import plan as searches
from dpconvex.algorithms.search.plan import Candidate
from dpconvex.algorithms.search.scores import Repeats, Score
from dpconvex.algorithms.select import Options
from dpconvex.errors import CertificateError, DpconvexError, InvalidParameterError
from dpconvex.losses import HuberLoss, LinearModelLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from dpconvex.privacy import (
    Check,
    PrivacyCertificate,
    PrivacyParams,
    Verification,
    accounting,
    verify as verify_numbers,
)
from dpconvex.privacy.certificate import COURSE, digest
from dpconvex.privacy.events import objective
from dpconvex.privacy.verify import Keys, _with, dotted, numbers, plan_checks, pricing, recompute
from dpconvex.problems import (
    Block,
    DataDomain,
    Factor,
    LinearModelProblem,
    LocationLoss,
    MatrixGame,
    PlayLog,
    PointDomain,
    PolytopeSaddle,
    RankOneGame,
    WorstGroupLoss,
    l1_ball_loss,
)
from dpconvex.problems.queries import DenseQueries, Marginals
from dpconvex.randomness import SystemSource
from dpconvex.verification import planned_again
from dpconvex_experiments.reference import group_privacy
from dpconvex_experiments.reference.objectives import MaxRisk, QuadraticGame, ShiftedMeanLoss
from instances import instances

PURE, MIXED = PrivacyParams(1.0), PrivacyParams(1.0, 1e-6)
FOR_USERS = PrivacyParams(1.0, 1e-6, unit="user")  # pyright: ignore[reportArgumentType]
GAUSSIAN, PAPER = Options(noise="gaussian"), Options("paper")
DOMAIN = DataDomain((Block(3, "l1", 1.0), Block(2, "linf", 0.5)), intercept=1.0)


FLAGS = DataDomain((Block(16, "linf", 0.5, "flags", "binary"), Block(2, "simplex", 1.0)), 1.0)


def linear(loss: Any = None, n: int = 400, users: bool = False, domain: DataDomain = DOMAIN, **more: Any):
    return LinearModelProblem(loss or LogisticLoss(), domain, n, 2.0, records_per_user=5 if users else None, **more)


def lasso() -> Any:
    return l1_ball_loss(SquaredLoss(1.0, prediction_bound=1.0), 400, 6, 1.0, third_derivative=0.0, intercept=True)


def numbers_over_a_ball() -> Any:
    return plan_saddle(lasso(), replace(PURE, epsilon=0.9))[0]


def grouped() -> Any:
    return group_privacy.plan(linear(n=50, users=True), FOR_USERS, Methods(Options(), ("noisy_gradient",)), cap=4)


def worst(shares: tuple[float, ...]) -> WorstGroupLoss:
    return WorstGroupLoss(LogisticLoss(), 4000, 3, 1.0, factors=tuple(1 / share for share in shares))


def shared() -> Any:
    first = GroupShares(4000, 2, PrivacyParams(4.0, 1e-6), 0.05)
    return after_shares(first, plan_saddle(worst((0.7, 0.4)), first.rest)[0], (0.7, 0.4))


def polytope() -> PolytopeSaddle:
    eye = np.eye(3)
    return PolytopeSaddle(400, lambda u, v, A: (A @ v, A @ u), lambda u, v, A: A @ v @ u, eye, eye, (1.0, 2.0), (-1, 1))


def found_center() -> Any:
    before: Any = plans(linear(n=4_000), MIXED, "recentering")[0]
    return before.resumed((0.1, -0.2), float(before.lengths[5]))


def found_bound() -> Any:
    before: Any = plans(linear(n=4_000, domain=FLAGS), MIXED, "joint_bound")[0]
    return before.resumed(float(before.bounds[5]))


def ranged() -> Any:
    """Two columns of the box without ranges."""
    rest = PrivacyParams(ranges.remaining(PURE.epsilon, 4_000, 2))
    return ranges.plan(plans(linear(n=4_000), rest, "objective_perturbation")[0], PURE, (3, 4), (4,))


def typical() -> Any:
    return typical_user.plan(linear(n=3_000, users=True), FOR_USERS, Methods(Options(), ("noisy_gradient",)))[0]


def found_ranges() -> Any:
    first, second = (0.0, 64.0, "signed_log", 0.5), (-4.0, 8.0, "none", 1.0)
    return ranged().resumed((first, second), ((0, 32), (3, 20)))


def found_knots() -> Any:
    """Knots of one column of the box, inside of its declared range."""
    rest = PrivacyParams(ranges.remaining(PURE.epsilon, 4_000, 0, 1))
    before = ranges.plan(plans(linear(n=4_000), rest, "objective_perturbation")[0], PURE, (), placed=(3,))
    return before.resumed((), ((0, 3, 4, 20, 32),))


def with_target_model() -> Any:
    """Tables of three columns, bins of which are found, beside a model of the target."""
    queries, opened = (
        Marginals.of_order((4, 2, 3), 2),
        found_bins.Open((0,), within=((0, 0.0, 8.0, "none", 1.0, 0.0),)),
    )
    rest = found_bins.rest(replace(PURE, epsilon=0.7), 400, opened, "laplace")
    tables = noisy_tables.plan(queries, 400, rest, relations="all")
    model = plans(linear(), replace(PURE, epsilon=0.3), "objective_perturbation")[0]
    then = found_bins.plan(tables, replace(PURE, epsilon=0.7), opened)
    return target_model.plan(then, Candidate({"epsilon": 0.3}, model), PURE)


def binned(*within: Any) -> Any:
    """Tables of three columns, of which the first and the last have no range, or public cells."""
    queries, opened = Marginals.of_order((4, 2, 3), 2), found_bins.Open((0, 2), (2,), (0,), within)
    rest = found_bins.rest(PURE, 400, opened, "laplace")
    return found_bins.plan(noisy_tables.plan(queries, 400, rest, relations="all"), PURE, opened)


def found_edges() -> Any:
    first, second = (0.0, 64.0, "none", 1.0), (-4.0, 8.0, "none", 1.0)
    return binned().resumed((first, second), ((0, 5, 30, 128), (0, 40, 70, 90)))


OWN = LocationLoss(DataDomain.l2_ball(2, 1.0))
NETS = "localized_exponential_mechanism", "gradient_score"
"""The methods that are for two parameters at most."""


def found_level(name: str) -> Any:
    steep = linear(SquaredLoss(1e3), domain=DataDomain.box(1 if name in NETS else 2, 0.5).with_intercept(0.5))
    plan: Any = heavy_plans(steep, MIXED, 2.0, None, name)[0]
    return plan.resumed(*(float(plan.scale.edges[20]), 0.5 * float(plan.scale.edges[20]))[: len(plan.scale.releases)])


def found_both() -> Any:
    """A level, then a center and a length of the ordinary method."""
    steep = linear(SquaredLoss(1e3), n=20_000, domain=DataDomain.box(8, 0.5).with_intercept(0.5))
    before: Any = heavy_plans(steep, PURE, 2.0, None, "clipped_residuals")[0]
    then = before.resumed(float(before.scale.edges[20]))
    method = then.then
    assert isinstance(method, recentering.RecenteredPlan)
    return then.after(method.resumed((0.1,) * 8, float(method.lengths[9])))


def looked() -> Any:
    before: Any = plans(linear(n=3_000, users=True), FOR_USERS, "informed_gradient")[0]
    count = len(before.look.columns)
    return before.resumed(
        (0.2,) * count, (0.3,) * count, 0.3, (0.0,) * 6 + (0.5, 0.5) + (0.0,) * 4, (1e-3,) * 3, (-0.1, 0.0, 0.1, 0.02)
    )


@cache
def searched(method: str, delta: float) -> Any:
    base = PrivateLogisticRegression(delta=delta, feature_bounds=(-1, 1), classes=[0, 1])
    return PrivateSearchCV(base, {"coefficient_norm": [4.0, 16.0]}, method=method).plan(20_000, 2)[0]


def huber(dim: int = 3) -> LinearModelProblem:
    return LinearModelProblem(HuberLoss(0.2, 1e6), DataDomain.box(dim - 1, 0.5).with_intercept(0.5), 400, 1.0)


MIXED_DOMAIN = DataDomain((Block(3, "simplex", 1.0), Block(2, "linf", 0.5)), 1.0)
PLANS: dict[str, Callable[[], Any]] = {
    "evaluation of classes": lambda: evaluation.plan(400, PURE),
    "tables as a matrix": lambda: noisy_tables.plan(
        Marginals.of_order((2,) * 12, 2), 400, PURE, relations="all", noise="matrix"
    ),
    "tables as a Gaussian matrix": lambda: noisy_tables.plan(
        Marginals.of_order((2,) * 12, 2), 400, MIXED, relations="all", noise="matrix"
    ),
    "evaluation of groups": lambda: evaluation.plan(400, PURE, classes=0, groups=3),
    "evaluation users": lambda: evaluation.plan(400, replace(FOR_USERS, delta=0.0), classes=3),
    "additive pair": lambda: PrivateAdditiveClassifier(
        1.0, feature_bounds=(-1, 2), classes=[0, 1], interactions=[("feature 0", "feature 1")]
    ).plan(400, 2)[0],
    "additive smooth users": lambda: PrivateAdditiveRegressor(
        9.0, feature_bounds=([0, -1], [1, 1]), target_bounds=(0, 1), knots=4, records_per_user=5
    ).plan(4000, 2, unit="user")[0],
    "objective with curvature": lambda: curvature.plan(linear(domain=MIXED_DOMAIN), PURE, robust=True),
    "objective with curvature users": lambda: curvature.plan(linear(users=True, domain=MIXED_DOMAIN), FOR_USERS),
    "objective with Gaussian curvature": lambda: curvature.plan(linear(domain=MIXED_DOMAIN), MIXED),
    "objective pure": lambda: plans(linear(), PURE, "objective_perturbation")[0],
    "objective gaussian": lambda: plans(linear(SoftmaxLoss(3)), MIXED, "objective_perturbation", GAUSSIAN)[0],
    "objective capped": lambda: plans(linear(LogisticLoss(0.7)), PURE, "objective_perturbation")[0],
    "objective capped gaussian": lambda: plans(linear(LogisticLoss(0.7)), MIXED, "objective_perturbation", GAUSSIAN)[0],
    "objective users": lambda: plans(linear(users=True), FOR_USERS, "objective_perturbation")[0],
    "output pure": lambda: plans(linear(), PURE, "output_perturbation")[0],
    "output paper": lambda: plans(linear(), MIXED, "output_perturbation", Options("paper"))[0],
    "output tilted": lambda: plans(linear(tilt=2.0), PURE, "output_perturbation")[0],
    "output attacked": lambda: plans(linear(attack_radius=0.1), MIXED, "output_perturbation")[0],
    "heavy custom": lambda: plan_minimize(OWN, 400, epsilon=1.0, radius=1.0, heavy_tailed=(2, 0.3)),
    "heavy custom net": lambda: plan_minimize(
        OWN, 400, epsilon=1.0, radius=1.0, heavy_tailed=(2, 0.3), algorithm=NETS[0]
    ),
    "output custom": lambda: plan_minimize(LocationLoss(DataDomain.l2_ball(2, 1.0)), 400, epsilon=1.0, radius=1.0),
    "exponential": lambda: plans(linear(domain=DataDomain.box(1, 1.0)), PURE, "exponential_mechanism")[-1],
    "exponential grid": lambda: plans(linear(domain=DataDomain.box(1, 1.0)), PURE, "exponential_mechanism")[0],
    "noisy gradient": lambda: plans(linear(), MIXED, "noisy_gradient")[0],
    "noisy gradient samples": lambda: gradient_descent.plan(linear(), MIXED, rate=0.1, steps=64),
    "statistics": lambda: plans(linear(SquaredLoss(1.0, 1.0)), MIXED, "sufficient_statistics")[0],
    "statistics paper": lambda: plans(linear(SquaredLoss(1.0, 1.0)), MIXED, "sufficient_statistics", PAPER)[0],
    "random projection": lambda: plans(linear(domain=DataDomain.l2_ball(8, 1.0)), PURE, "random_projection")[0],
    "constant": lambda: plans(linear(), MIXED, "constant")[0],
    "recentering": lambda: plans(linear(n=4_000), MIXED, "recentering")[0],
    "joint bound": lambda: plans(linear(n=4_000, domain=FLAGS), MIXED, "joint_bound")[0],
    "joint bound users": lambda: plans(linear(n=4_000, users=True, domain=FLAGS), FOR_USERS, "joint_bound")[0],
    "joint bound after": found_bound,
    "recentering users": lambda: plans(linear(n=4_000, users=True), FOR_USERS, "recentering")[0],
    "target look": lambda: target_look.plan(numbers_over_a_ball(), PURE),
    "target look after": lambda: target_look.plan(numbers_over_a_ball(), PURE).resumed((3, 7)),
    "ranges": ranged,
    "ranges after": found_ranges,
    "knots after": found_knots,
    "bins": binned,
    "bins after": found_edges,
    "target model": with_target_model,
    "target model after": lambda: with_target_model().resumed((), ((0, 9, 30, 64, 125),)),
    "bins within": lambda: binned((2, 0.0, 500.0, "none", 1.0, 0.5)),
    "bins within after": lambda: binned(
        (0, -5.0, 5.0, "signed_log", 2.0, 0.0), (2, 0.0, 20.0, "none", 1.0, 1.0)
    ).resumed((), ((0, 3, 90, 127), (0, 2, 9, 21))),
    "typical user": typical,
    "typical user after": lambda: typical().resumed(22),
    "phased": lambda: plans(linear(n=30_000, users=True), FOR_USERS, "phased_sgd")[0],
    "accelerated": lambda: plans(linear(n=3_000, users=True), FOR_USERS, "accelerated_user")[0],
    "informed": lambda: plans(linear(n=3_000, users=True), FOR_USERS, "informed_gradient")[0],
    "informed after": looked,
    "group privacy": grouped,
    **{
        f"heavy {name}": lambda name=name: heavy_plans(huber(2 if name in NETS else 3), PURE, 2.0, 6.5, name)[0]
        for name in HEAVY_METHODS
    },
    "heavy tuned": lambda: heavy_plans(huber(), MIXED, 2.0, None, "clipped_gradient")[0],
    "median users": lambda: plan_median(PointDomain(3, 100.0, 1e-2), 30_000, FOR_USERS),
    "median paper": lambda: plan_median(PointDomain(3, 100.0, 1e-2), 400, MIXED, constants="paper", boost="none"),
    **{
        f"median {name}": lambda name=name: plan_location(PointDomain(3, 10.0, 1e-2), 400, MIXED, name)
        for name in LOCATION_METHODS
    },
    **{
        f"queries {name}": lambda name=name: plan_queries(Marginals.of_order((3, 2, 4), 2), 400, MIXED, name)[0]
        for name in QUERY_METHODS
    },
    **{
        f"saddle {name}": lambda name=name: plan_saddle(RankOneGame(400, 6, 6), MIXED, name)[0]
        for name in SADDLE_METHODS
    },
    **{name: lambda m=method: m.attack(PURE, 1.0) for name, method in ERM_METHODS.items() if method.attack},
    **{f"sparse {name}": lambda name=name: plan_saddle(lasso(), MIXED, name)[0] for name in SPARSE_METHODS},
    "output untrusted": lambda: plan_minimize(
        LocationLoss(DataDomain.l2_ball(2, 1.0)), 400, epsilon=1.0, radius=1.0, trusted=False
    ),
    "output whole": lambda: plan_minimize(
        MaxRisk(LocationLoss(DataDomain.l2_ball(2, 1.0))), 400, epsilon=1.0, delta=1e-6, radius=1.0
    ),
    "output saddle": lambda: plan_minimize(instances(ShiftedMeanLoss)[0], 400, epsilon=1.0, radius=1.0),
    "gradient score": lambda: heavy_plans(huber(2), PURE, 2.0, 6.5, "gradient_score")[0],
    "heavy repeated": lambda: heavy_plans(huber(), PURE, 2.0, 6.5, failure=0.1)[0],
    "heavy level repeated": lambda: heavy_plans(huber(), PURE, 2.0, None, "heavy_tailed")[0],
    "recentering after": found_center,
    **{f"heavy {name} after": lambda name=name: found_level(name) for name in HEAVY_METHODS},
    "heavy recentered after": found_both,
    "worst group": lambda: plan_saddle(worst((0.5, 0.5)), MIXED)[0],
    "worst group after": shared,
    "queries dense": lambda: plan_queries(DenseQueries(np.eye(4)), 400, MIXED, "mwem")[0],
    "saddle matrices": lambda: plan_saddle(MatrixGame(400, 3, 4), MIXED)[0],
    "saddle plays": lambda: plan_saddle(PlayLog(400, 3, 4), MIXED)[0],
    "saddle quadratic": lambda: plan_saddle(QuadraticGame(4000, 3, 4), MIXED)[0],
    "saddle polytope": lambda: plan_saddle(polytope(), MIXED)[0],
    "search composition": lambda: searched("composition", 0.0),
    "search repeats": lambda: searched("repeats", 0.0),
    "search gaussian": lambda: searched("repeats", 1e-6),
}


@cache
def genuine(name: str) -> dict[str, Any]:
    return json.loads(PLANS[name]().certificate(SystemSource()).to_json())


@cache
def verified(name: str) -> Verification:
    return verify(json.dumps(genuine(name)))


def changed(fields: dict[str, Any], path: Keys, value: Any) -> str:
    """The text of a certificate with one entry changed and the digest computed anew, as a forger would."""
    fields = copy.deepcopy(fields)
    inner: Any = fields
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    fields["digest"] = digest(fields)
    return json.dumps(fields)


def compared(fields: dict[str, Any]) -> list[Check]:
    """The comparison with the plan made again: what `verify` adds to the checks of numbers."""
    try:
        read = PrivacyCertificate.from_dict(fields)
    except CertificateError as error:
        return [Check("well formed", False, str(error))]
    return plan_checks(read, planned_again)


def passes(fields: dict[str, Any]) -> bool:
    return all(check.passed for check in compared(fields))


def test_every_algorithm_is_here() -> None:
    made = {genuine(name)["algorithm"] for name in PLANS}
    assert made >= {*ERM_METHODS, *HEAVY_METHODS, *SADDLE_METHODS, *SPARSE_METHODS, "geometric_median", "group_privacy"}
    planners = {genuine(name)["planner"]["name"] for name in PLANS}
    assert planners == set(recipes.PLANNERS)


def test_the_text_of_every_plan_is_short() -> None:
    for name, made in PLANS.items():
        text = repr(plan := made())
        assert len(text) < 500, name
        assert plan.algorithm in text, name
        assert max(map(len, text.splitlines())) <= 100, name


def test_genuine_certificates_pass_and_every_number_is_confirmed() -> None:
    for name in PLANS:
        result = verified(name)
        assert result.passed, (name, [check for check in result.checks if not check.passed])
        assert result.planned
        assert result.unknown == result.unconfirmed == (), name


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.gate), pytest.param(2, marks=pytest.mark.slow)])
def test_any_changed_number_is_found(part: int) -> None:
    """In quick runs every ninth by much and by little, in the gate another ninth by much or little, in turn."""
    for name in PLANS:
        fields = genuine(name)
        stated = {key: fields[key] for key in ("target", "spent", "releases", "public")}
        for turn, (path, value) in enumerate(
            each for k, each in enumerate(numbers(stated)) if (0, 1, 2, 2, 2, 1, 2, 2, 2)[k % 9] == part
        ):
            others = (value + 1 if isinstance(value, int) else value * (1 + 1e-8) + 1e-300, 2 * value + 5)
            for other in others[turn % 2 :][:1] if part == 1 else others:
                forged = _with(fields, path, other)
                assert not passes(forged), (name, dotted(path), value, other)


def test_a_changed_promise_among_the_inputs_is_found(full: bool) -> None:
    """The plan is then another one, and everything else in the certificate is compared with it.

    In quick runs of every second plan, in the gate of the others.
    """
    for name in list(PLANS)[full::2]:
        fields = genuine(name)
        for path, value in numbers({"planner": fields["planner"]}):
            if path[-1] == "epsilon" and path[-2] == "privacy" and len(path) == 4:
                assert not passes(_with(fields, path, value / 2)), name


def divided(event: Any, factor: float, names: tuple[str, ...]) -> Any:
    """An event with every number of these names divided, wherever it stands."""
    if isinstance(event, dict):
        return {
            key: each / factor if key in names and isinstance(each, float) else divided(each, factor, names)
            for key, each in event.items()
        }
    return [divided(each, factor, names) for each in event] if isinstance(event, list) else event


def releases_with(fields: dict[str, Any], change: Callable[[int, dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    return {**fields, "releases": [change(k, release) for k, release in enumerate(fields["releases"])]}


def relabelled(fields: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    """Target and sensitivities for another relation or unit; inputs of the planner stay."""
    moved = releases_with(fields, lambda _, r: {**r, "sensitivity": {**r["sensitivity"], name: value}})
    return {**moved, "target": {**moved["target"], name: value}}


def swapped(fields: dict[str, Any]) -> dict[str, Any]:
    user = fields["target"]["unit"] == "user"
    public = {key: value for key, value in fields["public"].items() if key not in ("users", "records_per_user")}
    more = {} if user or "n" not in public else {"users": public["n"]}
    return {**relabelled(fields, "unit", "record" if user else "user"), "public": {**public, **more}}


def quartered(fields: dict[str, Any]) -> dict[str, Any]:
    names = ("sensitivity", "value", "slope", "range")
    return releases_with(fields, lambda _, release: divided(release, 4, names))


def noisier(fields: dict[str, Any]) -> dict[str, Any]:
    forged = releases_with(fields, lambda _, release: divided(release, 1 / 4, ("sigma", "scale", "noise_epsilon")))
    return {**forged, "public": divided(forged["public"], 1 / 4, ("sigma", "noise_scale"))}


def repriced(fields: dict[str, Any]) -> dict[str, Any]:
    """The cost stated anew, as it follows from the forged releases; as it was if these have no price."""
    try:
        with np.errstate(all="ignore"):
            cost = recompute(PrivacyCertificate.from_dict(fields), pricing())
    except (DpconvexError, ArithmeticError):
        return fields
    stated = dict(zip(("epsilon", "delta"), cost, strict=True))
    if COURSE in fields["public"]:
        return {**fields, "public": {**fields["public"], COURSE: stated}}
    return {**fields, "spent": {**fields["spent"], **stated}}


FORGERIES: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "sensitivities / 4": (": releases", quartered),
    "noise x 4": (": releases", noisier),
    "last release only": (": releases", lambda fields: {**fields, "releases": fields["releases"][-1:]}),
    "a block each": (": releases", lambda fields: releases_with(fields, lambda k, r: {**r, "block": f"part {k}"})),
    "add or remove": (": target", lambda fields: relabelled(fields, "neighboring", "add_or_remove_one")),
    "record for user": (": target", swapped),
    "no inputs": ("", lambda fields: {key: value for key, value in fields.items() if key != "planner"}),
    "inputs of another plan": (
        ": public",
        lambda fields: {**fields, "planner": genuine("median center_only")["planner"]},
    ),
    "spent / 2": (": spent", lambda fields: {**fields, "spent": divided(fields["spent"], 2, ("epsilon",))}),
    "exact bits": (
        ": noise source",
        lambda fields: {
            **fields,
            "noise_source": {**fields["noise_source"], "exact_bits": not fields["noise_source"]["exact_bits"]},
        },
    ),
    "assumptions left out": (": assumptions", lambda fields: {**fields, "assumptions": fields["assumptions"][:1]}),
}
"""Changes of several entries that agree with one another, and which part of the comparison must find each."""


def forged_plans(title: str) -> list[tuple[str, dict[str, Any]]]:
    """The forged certificates of all plans that it changes."""
    pairs = [(name, genuine(name), FORGERIES[title][1](genuine(name))) for name in PLANS]
    return [(name, forged) for name, fields, forged in pairs if forged != fields]


@pytest.mark.parametrize("title", FORGERIES)
def test_every_consistent_forgery_of_every_plan_is_found(title: str) -> None:
    forged = forged_plans(title)
    assert len(forged) >= 25
    for name, fields in forged:
        failed = {check.name for check in compared(fields) if not check.passed}
        assert {f"planned again{FORGERIES[title][0]}", "well formed"} & failed, name


@pytest.mark.slow
def test_table_of_forgeries() -> None:
    """Printed with ``-s``: how many plans a forgery changes, in how many it is found, in how many by numbers alone.

    The cost is stated as it follows from the forged releases, so that numbers agree with one another.
    """
    table = ["forgery                  plans  found  by numbers alone"]
    for title in FORGERIES:
        forged = [fields if title == "spent / 2" else repriced(fields) for _, fields in forged_plans(title)]
        texts = [json.dumps({**fields, "digest": digest(fields)}) for fields in forged]
        found, alone = (sum(not check(text).passed for text in texts) for check in (verify, verify_numbers))
        table.append(f"{title:24} {len(forged):5}  {found:5}  {alone:5}")
        assert found == len(forged)
    print("\n".join(table))


def test_a_forgery_is_a_failed_check_of_verify() -> None:
    for title in ("a block each", "add or remove"):
        forged = FORGERIES[title][1](genuine("output pure"))
        forged["digest"] = digest(forged)
        result = verify(json.dumps(forged))
        assert not result.planned
        failed = [check.name for check in result.checks if not check.passed]
        assert failed
        assert all(name.startswith("planned again") for name in failed), failed


@pytest.mark.slow
def test_a_fresh_process_knows_every_planner() -> None:
    """Whoever verifies has imported nothing else: planners and problems must be registered by that alone."""
    code = """
import json, sys
from dpconvex.privacy import PrivacyCertificate
from dpconvex.privacy.verify import plan_checks
from dpconvex.verification import planned_again
for name, fields in json.load(sys.stdin).items():
    checks = plan_checks(PrivacyCertificate.from_dict(fields), planned_again)
    assert all(check.passed for check in checks), (name, checks)
"""
    made = {name: genuine(name) for name in PLANS}
    ran = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(made), text=True, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_another_version_is_no_way_around_the_plan() -> None:
    """Equal plans pass, whoever made them; what differs fails, and the check says which version to ask."""
    fields = copy.deepcopy(genuine("output pure"))
    fields["versions"]["dpconvex"] = "0.0.1"
    assert all(check.passed for check in compared(fields))
    quarter = fields["releases"][0]["sensitivity"]["value"] / 4
    forged = json.loads(changed(fields, ("releases", 0, "sensitivity", "value"), quarter))
    wrong = [check for check in compared(forged) if not check.passed]
    assert wrong
    assert all("Made by dpconvex 0.0.1" in check.detail for check in wrong)
    del fields["planner"]
    (check,) = compared(fields)
    assert not check.passed
    assert "verify with that version" in check.detail


def inside(n: int, privacy: PrivacyParams, domain: DataDomain | None = None, method: str = "objective") -> Candidate:
    """A plan to stand inside another one; given a domain, it is forged: its coordinates are those of that domain."""
    problem = LinearModelProblem(LogisticLoss(), DOMAIN, n, 2.0, private_n=not privacy.neighboring.fixes_size)
    if domain is not None:
        object.__setattr__(problem, "factor", Factor.contrasts(domain))
    name = {"objective": "objective_perturbation", "gradient": "noisy_gradient"}[method]
    made: Any = recipes.PLANNERS[name](problem, privacy)
    return Candidate({}, made[0] if isinstance(made, tuple) else made)


def of_candidates(domain: DataDomain | None, repeats: Repeats | None) -> Any:
    each = tuple(inside(400, replace(PURE, epsilon=0.3), domain) for _ in range(2))
    whole = (inside(500, PURE, domain),) * 2
    return searches.assembled(PURE, 500, 100, Score("log_loss", 2.0), whole, each, repeats)


def beside_tables(domain: DataDomain | None) -> Any:
    tables = noisy_tables.plan(Marginals.of_order((4, 2, 3), 2), 400, replace(PURE, epsilon=0.5))
    return target_model.plan(tables, inside(400, replace(PURE, epsilon=0.5), domain), PURE)


NESTED: dict[str, Callable[[DataDomain | None], Any]] = {
    "composition": lambda domain: of_candidates(domain, None),
    "repeats": lambda domain: of_candidates(domain, Repeats(1.0, 0.0, epsilon=0.3)),
    "target model": beside_tables,
}


@pytest.mark.parametrize("name", NESTED)
def test_coordinates_of_another_domain_are_found_in_plans_inside_a_plan(name: str) -> None:
    """There X_2, hence tau and sensitivities, was believed: coordinates of a tiny domain divided it by a million."""
    assert verify(NESTED[name](None).certificate(SystemSource())).passed
    blocks = tuple(replace(block, bound=1e-6 * block.bound) for block in DOMAIN.blocks)
    forged = NESTED[name](DataDomain(blocks, 1e-6)).certificate(SystemSource())
    inner = "target_model" if name == "target model" else "candidates[1]"
    alone = {check.name for check in verify_numbers(forged.to_json()).checks if not check.passed}
    assert f"leverage of {inner}" in alone
    failed = {check.name: check.detail for check in verify(forged.to_json()).checks if not check.passed}
    assert "must be of the problem's domain" in failed["planned again"]


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("field", ["feature_l2", "l2"])
def test_the_leverage_of_a_plan_inside_a_plan_is_recomputed(name: str, field: str) -> None:
    fields = json.loads(NESTED[name](None).certificate(SystemSource()).to_json())
    where = ("target_model",) if name == "target model" else ("candidates", 1)
    path = ("public", *where, "constants", field)
    value = next(value for found, value in numbers(fields) if found == path)
    failed = [check for check in verify_numbers(changed(fields, path, 0.9 * value)).checks if not check.passed]
    assert [check.name for check in failed] == [f"leverage of {'.'.join(where[:1])}{'[1]' * (len(where) - 1)}"]
    del fields["planner"]
    fields["digest"] = digest(fields)
    assert f"{dotted(path)}" not in verify(json.dumps(fields)).unconfirmed


@pytest.mark.parametrize("method", ["objective", "gradient"])
def test_candidates_for_other_neighbors_are_found(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for replaced records accepted candidates that protect added ones, at half of the noise."""
    whole = PrivacyParams(3.0, 1e-6 * (method == "gradient"))
    part = replace(whole, epsilon=0.3, delta=whole.delta / 100)
    repeats = Repeats(1.0, 0.1, mu=0.05) if whole.delta else Repeats(1.0, 0.0, epsilon=0.3)

    def plan(relation: str) -> Any:
        each = tuple(inside(400, replace(part, neighboring=relation), method=method) for _ in range(2))
        every = tuple(inside(500, replace(whole, neighboring=relation), method=method) for _ in range(2))
        return searches.assembled(whole, 500, 100, Score("log_loss", 2.0), every, each, repeats)

    assert verify(plan("replace_one").certificate(SystemSource())).passed
    with pytest.raises(InvalidParameterError, match="must protect what the whole does"):
        plan("add_or_remove_one")
    with monkeypatch.context() as patch:
        patch.setattr(searches, "check_part", lambda *_: None)
        forged = plan("add_or_remove_one").certificate(SystemSource()).to_json()
    failed = {check.name: check.detail for check in verify(forged).checks if not check.passed}
    assert "must protect what the whole does" in failed.pop("planned again")
    assert set(failed) == ({f"relation of {searches.BEST!r}"} if method == "objective" else set())


ZEROS = {"type": "DenseQueries", "matrix": {"type": "array", "shape": [8_000, 8_000], "value": 0.0}}


@pytest.mark.parametrize(
    "planner",
    [
        {},
        {"name": "os.system", "inputs": {"command": "true"}},
        {"name": "output_perturbation", "inputs": []},
        {"name": "output_perturbation", "inputs": {"problem": {"type": "Path", "path": "/"}}},
        {"name": "output_perturbation", "inputs": {"problem": {"type": ["a"]}}},
        {"name": "output_perturbation", "inputs": {"problem": {"type": "name", "value": "recentering"}}},
        {"name": "query_noise", "inputs": {"queries": {"type": "array", "shape": [10**6, 10**6], "value": 0.0}}},
        {"name": "query_noise", "inputs": {"queries": {"type": "array", "shape": "ab", "value": 0.0}}},
        {"name": "noisy_gradient", "inputs": {"steps": 10**12}},
        {"name": "geometric_median", "inputs": {"n": 10**30}},
        {"name": "geometric_median", "inputs": {"n": -5}},
        {"name": "output_perturbation", "inputs": {"problem": [[[[[[0] * 10**5] * 3]]]]}},
        {"name": "mwem", "inputs": {"queries": [ZEROS] * 3, "n": 400}},
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_hostile_inputs_are_a_failed_check(planner: Any) -> None:
    (check,) = compared({**genuine("output pure"), "planner": planner})
    assert not check.passed


@pytest.mark.parametrize("name", ["noisy gradient", "saddle sgda", "output pure", "median geometric_median"])
@pytest.mark.dear("saddle sgda", "noisy gradient")
def test_large_sizes_are_planned_or_refused(name: str) -> None:
    """Each integer of a planner's inputs near the largest that is read, and beyond: no exception, and no long wait."""
    fields = genuine(name)
    for path, value in numbers({"planner": fields["planner"]}):
        if isinstance(value, int):
            for large in (2**19, 2**40, 2**70):
                assert not passes(_with(fields, path, large)), path


@pytest.mark.parametrize("released", [(1.0, 0.5), (0.0, 0.0), (), (None, 0.1)], ids=str)
def test_levels_that_are_not_public_make_no_plan(released: tuple[Any, ...]) -> None:
    plan: Any = heavy_plans(huber(), PURE, 2.0, None, "clipped_gradient")[0]
    level = float(plan.scale.edges[9])
    assert plan.resumed(level, level / 2).released == (level, level / 2)
    with pytest.raises(InvalidParameterError, match="one of the public levels"):
        plan.resumed(level, 2 * level)
    with pytest.raises(InvalidParameterError, match="one of the public levels"):
        plan.resumed(*released)


def too_much(name: str, change: Callable[[dict[str, Any]], Any]) -> bool:
    fields = copy.deepcopy(genuine(name))
    change(fields["planner"]["inputs"])
    (check,) = compared(fields)
    return not check.passed and "more computing than a check may" in check.detail


def test_planning_takes_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans within plans, and numbers of steps and draws that the sizes alone would allow."""
    one = genuine("search composition")["planner"]["inputs"]["candidates"][0]

    def numerous(inputs: dict[str, Any]) -> None:
        many = [copy.deepcopy(one) for _ in range(400)]
        for k, each in enumerate(many):
            each["plan"]["inputs"]["privacy"]["epsilon"] = 1 + k / 1000
        inputs["candidates"] = many

    def drawn(inputs: dict[str, Any]) -> None:
        inputs["problem"]["n"] = 2**40
        inputs.update(iterations=300_000, samples=300_000, period=1)

    def pieces(inputs: dict[str, Any]) -> None:
        inputs["problem"]["n"] = 2**40
        inputs.update(tuning="bound", failure=1e-300)

    assert too_much("sparse anytime_mirror_descent", drawn)
    assert too_much("saddle boosted_mirror_descent", pieces)
    monkeypatch.setattr(verification, "MOST_PLANNING", 2e5)  # the first dozens of the candidates
    assert too_much("search composition", numerous)


def test_many_classes_with_rates_take_no_square_of_them() -> None:
    loss = SoftmaxLoss(20_000, (1 / 20_000,) * 20_000)
    assert loss.trivial == pytest.approx(np.log(20_000))
    uneven = SoftmaxLoss(3, (0.7, 0.2, 0.1))
    assert uneven.trivial == pytest.approx(LinearModelLoss.trivial.fget(uneven))  # type: ignore[attr-defined]


def test_the_cap_of_a_loss_is_compared() -> None:
    for name in ("objective capped", "objective capped gaussian"):
        fields = genuine(name)
        assert fields["public"]["slope_cap"] == fields["releases"][0]["event"]["curvature"] == 0.7
        assert not passes(_with(fields, ("public", "curvature_law"), "bounded"))
        forged = copy.deepcopy(fields)
        del forged["public"]["slope_cap"]
        assert not passes(forged)


def test_a_wrong_closed_form_of_the_logistic_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant prices without the curvature at the cap, in making the certificate as in checking it."""
    plan = PLANS["objective capped"]()
    monkeypatch.setattr(objective, "logistic_epsilon", lambda noise, *_: noise)
    failed = {check.name for check in verify_numbers(plan.certificate(SystemSource())).checks if not check.passed}
    assert failed == {"price of 'minimizer of the perturbed objective'"}


TWO = {
    "output pure",
    "output paper",
    "noisy gradient",
    "noisy gradient samples",
    "queries mwem",
    "median geometric_median",
    "sparse frank_wolfe",
}


@pytest.mark.parametrize("name", sorted(TWO))
def test_two_accountants_price_it(name: str) -> None:
    checks = {check.name: check for check in verified(name).checks}
    assert "two accountants agree" in checks or "second accountant" in checks
    assert "one accountant" not in checks


def test_one_accountant_is_said_where_there_is_no_other() -> None:
    assert any(check.name == "one accountant" for check in verified("objective gaussian").checks)


HALVED = [*sorted(TWO - {"sparse frank_wolfe"}), "heavy clipped_gradient"]


@pytest.mark.parametrize("name", HALVED)
def test_an_accountant_that_prices_too_low_is_found_by_the_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant states half of every cost, in making the certificate as in checking it."""
    plan, real = PLANS[name](), accounting.spent_epsilon
    monkeypatch.setattr(accounting, "spent_epsilon", lambda events, delta: real(events, delta) / 2)
    failed = {check.name for check in verify_numbers(plan.certificate(SystemSource())).checks if not check.passed}
    assert "two accountants agree" in failed


def test_fields_of_a_later_version_are_named_and_left_out() -> None:
    fields = copy.deepcopy(genuine("output pure"))
    fields["novelty"] = 1
    fields["releases"][0]["color"] = "blue"
    fields["releases"][0]["sensitivity"]["shape"] = [1]
    fields["noise_source"]["origin"] = "here"
    fields["digest"] = digest(fields)
    result = verify(json.dumps(fields))
    assert result.passed
    added = ("novelty", "releases[0].color", "releases[0].sensitivity.shape", "noise_source.origin")
    assert sorted(result.unknown) == sorted(added)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("schema_version",), 2, "schema_version=2"),
        (("schema_version",), True, "schema_version=True"),
        (("releases", 0, "event", "kind"), "magic", "magic"),
        (("releases", 0, "event", "discount"), 0.5, "discount"),
    ],
)
def test_what_a_later_version_means_is_never_guessed(path: Keys, value: Any, says: str) -> None:
    result = verify(changed(genuine("output pure"), path, value))
    assert not result.passed
    assert len(result.checks) == 1
    assert says in result.checks[0].detail


def test_another_version_may_have_priced_it_higher() -> None:
    """A later accountant may find less than an honest certificate states, and never more."""
    fields = copy.deepcopy(genuine("noisy gradient"))
    fields["versions"]["dp-accounting"] = "0.0.1"
    for factor in (1.0, 0.9991, 0.9989, 0.5):
        other = copy.deepcopy(fields)
        other["releases"][0]["event"]["sensitivity"] *= factor
        other["releases"][0]["sensitivity"]["value"] *= factor
        other["digest"] = digest(other)
        assert verify_numbers(json.dumps(other)).passed
        assert passes(other) == (factor > 0.999)  # plans agree to a thousandth
    fields["spent"]["epsilon"] *= 0.99
    fields["digest"] = digest(fields)
    assert not verify_numbers(json.dumps(fields)).passed


@pytest.mark.parametrize(
    ("package", "promise", "price", "accepted"),
    [("numpy", 1.0, 0.9991, True), ("scikit-learn", 1.0, 0.9991, False), ("numpy", 0.9991, 0.9991, False)],
)
def test_only_some_versions_excuse_a_number(package: str, promise: float, price: float, accepted: bool) -> None:
    """Any other version did, and of the promise as well, so a certificate could state a thousandth less."""
    fields = copy.deepcopy(genuine("noisy gradient"))
    fields["versions"][package] = "0.0.1"
    fields["releases"][0]["event"]["sensitivity"] *= price
    fields["releases"][0]["sensitivity"]["value"] *= price
    fields["target"]["epsilon"] *= promise
    fields["digest"] = digest(fields)
    assert passes(fields) == accepted


def test_another_version_excuses_no_lower_cost() -> None:
    """With a forged version of NumPy, and a little more noise stated, a thousandth of the cost could be left out."""
    fields = copy.deepcopy(genuine("output pure"))
    fields["versions"]["numpy"] = "0.0.1"
    fields["releases"][0]["event"]["scale"] *= 1.0009
    fields["spent"]["epsilon"] /= 1.0009
    fields["digest"] = digest(fields)
    assert verify_numbers(json.dumps(fields)).passed
    failed = [check.name for check in verify(json.dumps(fields)).checks if not check.passed]
    assert failed == ["planned again: spent"]
    fields = copy.deepcopy(genuine("noisy gradient"))  # another accountant may have been less tight
    fields["versions"] |= {"numpy": "0.0.1", "scipy": "0.0.1", "dp-accounting": "0.0.1"}
    fields["spent"]["epsilon"] *= 1 + 1e-7
    fields["digest"] = digest(fields)
    assert verify(json.dumps(fields)).passed


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": NaN}', '{"a": Infinity}', '{"a":' * 100_000])
def test_ambiguous_json_is_no_certificate(text: str) -> None:
    assert not verify(text).passed


N = 600
SIDES = np.random.default_rng(0).uniform(-1, 1, (N, 2))
UNLIKE = ((SIDES, SIDES[:, 0] > 0), (np.zeros((N, 2)) + 0.9, np.arange(N) % 10 == 0))
"""Two data sets of one shape."""
BOUNDED = {"epsilon": 8.0, "delta": 1e-6, "random_state": 0}
BOXED = {**BOUNDED, "feature_bounds": (-1, 1)}
NUMBER = {**BOXED, "target_bounds": (-1, 1)}
CUBE = {**BOUNDED, "feature_bound": 1.0}
TABLE = Schema((NumericColumn("a", -1.0, 1.0), NumericColumn("b", -1.0, 1.0)))
FITTED: dict[str, Any] = {
    "logistic": PrivateLogisticRegression(**BOXED, classes=[0, 1]),
    "recentered": PrivateLogisticRegression(**BOXED, classes=[0, 1], algorithm="recentering"),
    "svc": PrivateLinearSVC(**BOXED, classes=[0, 1]),
    "linear": PrivateLinearRegression(**NUMBER),
    "huber": PrivateHuberRegressor(**NUMBER),
    "quantile": PrivateQuantileRegressor(**NUMBER),
    **{
        f"moments, {name}": PrivateHuberRegressor(
            **NUMBER, algorithm=name, heavy_tailed=2.0, width=1.0, fit_intercept=name not in NETS
        )
        for name in HEAVY_METHODS
    },
    "lasso": PrivateLasso(**CUBE, target_bounds=(-1, 1)),
    "sparse": PrivateSparseLogisticRegression(**CUBE, classes=[0, 1]),
    "worst group": PrivateWorstGroupClassifier(**CUBE, classes=[0, 1], groups=[0, 1]),
    "median": PrivateGeometricMedian(**BOUNDED, radius_bound=2.0, min_radius=0.01, algorithm="center_only"),
    "synthetic": PrivateSyntheticData(**BOUNDED, schema=TABLE),
    **{
        f"search, {method}": PrivateSearchCV(
            PrivateLogisticRegression(**BOXED, classes=[0, 1]), {"coefficient_norm": [4.0, 16.0]}, method=method
        )
        for method in ("composition", "repeats")
    },
}


DEAR = "moments, localized_exponential_mechanism"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == DEAR)) for n in FITTED])
@pytest.mark.thin
@pytest.mark.dear("synthetic", "sparse", "logistic")
def test_what_was_spent_is_a_function_of_public_inputs(name: str) -> None:
    """Fits on unlike data of one shape state the same cost, and their certificates pass."""
    costs = set()
    for X, y in UNLIKE:
        model = clone(FITTED[name])
        if name == "synthetic":
            model.fit(pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}))
        elif name == "worst group":
            model.fit(X, y.astype(int), groups=y.astype(int))
        else:
            model.fit(X, y.astype(int))
        found = model.certificate_
        costs.add((found.spent_epsilon, found.spent_delta))
        assert passes(json.loads(found.to_json()))
    assert len(costs) == 1, costs
