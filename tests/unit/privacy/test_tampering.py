"""Every number of a certificate, of every algorithm: a change is found, or the number is named as unconfirmed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from dpconvex import plan_minimize
from dpconvex.algorithms.base import Plan
from dpconvex.algorithms.baselines import group_privacy, noisy_gradient
from dpconvex.algorithms.baselines.median import MEDIAN_BASELINES
from dpconvex.algorithms.geometric_median import BOOSTS, plan as plan_median
from dpconvex.algorithms.heavy_selection import METHODS, heavy_plans
from dpconvex.algorithms.query_selection import QUERY_METHODS, plan_queries
from dpconvex.algorithms.saddle_selection import SADDLE_METHODS, plan_saddle
from dpconvex.algorithms.selection import ALGORITHMS, Options, plans
from dpconvex.algorithms.sparse_selection import SPARSE_METHODS, plan_sparse
from dpconvex.losses import HuberLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from dpconvex.privacy import (
    PrivacyCertificate,
    PrivacyParams,
    Verification,
    accounting,
    consistency,
    objective_events,
    verify,
)
from dpconvex.privacy.certificate import digest
from dpconvex.problems import Block, DataDomain, LocationLoss, PointDomain
from dpconvex.problems.linear_model import LinearModelProblem
from dpconvex.problems.linear_queries import Marginals
from dpconvex.problems.matrix_games import RankOneGame
from dpconvex.problems.worst_loss import l1_ball_loss
from dpconvex.randomness import SystemSource

PURE, MIXED = PrivacyParams(1.0), PrivacyParams(1.0, 1e-6)
FOR_USERS = PrivacyParams(1.0, 1e-6, unit="user")  # pyright: ignore[reportArgumentType]
GAUSSIAN, PAPER = Options(noise="gaussian"), Options("paper")
DOMAIN = DataDomain((Block(3, "l1", 1.0), Block(2, "linf", 0.5)), intercept=1.0)


def linear(loss: Any = None, n: int = 400, users: bool = False, domain: DataDomain = DOMAIN, **more: Any):
    return LinearModelProblem(loss or LogisticLoss(), domain, n, 2.0, records_per_user=5 if users else None, **more)


def lasso() -> Any:
    return l1_ball_loss(SquaredLoss(1.0, prediction_bound=1.0), 400, 6, 1.0, third_derivative=0.0)


def grouped() -> Plan:
    return group_privacy.plan(linear(n=50, users=True), FOR_USERS, lambda p, v: (noisy_gradient.plan(p, v),), cap=4)


def huber() -> LinearModelProblem:
    return LinearModelProblem(HuberLoss(0.2, 1e6), DataDomain.box(2, 0.5).with_intercept(0.5), 400, 1.0)


PLANS: dict[str, Callable[[], Plan]] = {
    "objective pure": lambda: plans(linear(), PURE, "objective_perturbation")[0],
    "objective gaussian": lambda: plans(linear(SoftmaxLoss(3)), MIXED, "objective_perturbation", GAUSSIAN)[0],
    "objective capped": lambda: plans(linear(LogisticLoss(0.7)), PURE, "objective_perturbation")[0],
    "objective capped gaussian": lambda: plans(linear(LogisticLoss(0.7)), MIXED, "objective_perturbation", GAUSSIAN)[0],
    "objective users": lambda: plans(linear(users=True), FOR_USERS, "objective_perturbation")[0],
    "output pure": lambda: plans(linear(), PURE, "output_perturbation")[0],
    "output paper": lambda: plans(linear(), MIXED, "output_perturbation", Options("paper"))[0],
    "output tilted": lambda: plans(linear(tilt=2.0), PURE, "output_perturbation")[0],
    "output attacked": lambda: plans(linear(attack_radius=0.1), MIXED, "output_perturbation")[0],
    "output custom": lambda: plan_minimize(LocationLoss(DataDomain.l2_ball(2, 1.0)), 400, epsilon=1.0, radius=1.0),
    "exponential": lambda: plans(linear(domain=DataDomain.box(1, 1.0)), PURE, "exponential_mechanism")[-1],
    "noisy gradient": lambda: plans(linear(), MIXED, "noisy_gradient")[0],
    "noisy gradient samples": lambda: noisy_gradient.plan(linear(), MIXED, rate=0.1, steps=64),
    "statistics": lambda: plans(linear(SquaredLoss(1.0, 1.0)), MIXED, "sufficient_statistics")[0],
    "statistics paper": lambda: plans(linear(SquaredLoss(1.0, 1.0)), MIXED, "sufficient_statistics", PAPER)[0],
    "random projection": lambda: plans(linear(domain=DataDomain.l2_ball(8, 1.0)), PURE, "random_projection")[0],
    "recentring": lambda: plans(linear(n=4_000), MIXED, "recentring")[0],
    "phased": lambda: plans(linear(n=30_000, users=True), FOR_USERS, "phased_sgd")[0],
    "accelerated": lambda: plans(linear(n=3_000, users=True), FOR_USERS, "accelerated_user")[0],
    "group privacy": grouped,
    **{f"heavy {name}": lambda name=name: heavy_plans(huber(), PURE, 2.0, 6.5, name)[0] for name in METHODS},
    "heavy tuned": lambda: heavy_plans(huber(), MIXED, 2.0, None, "clipped_gradient")[0],
    **{
        f"median {boost}": lambda boost=boost: plan_median(PointDomain(3, 100.0, 1e-2), 400, MIXED, boost=boost)
        for boost in BOOSTS
    },
    "median users": lambda: plan_median(PointDomain(3, 100.0, 1e-2), 30_000, FOR_USERS),
    "median paper": lambda: plan_median(PointDomain(3, 100.0, 1e-2), 400, MIXED, constants="paper", boost="none"),
    **{
        f"median {name}": lambda name=name: MEDIAN_BASELINES[name](PointDomain(3, 10.0, 1e-2), 400, MIXED)
        for name in MEDIAN_BASELINES
    },
    **{
        f"queries {name}": lambda name=name: plan_queries(Marginals.of_order((3, 2, 4), 2), 400, MIXED, name)[0]
        for name in QUERY_METHODS
    },
    **{
        f"saddle {name}": lambda name=name: plan_saddle(RankOneGame(400, 6, 6), MIXED, name)[0]
        for name in SADDLE_METHODS
    },
    **{f"sparse {name}": lambda name=name: plan_sparse(lasso(), MIXED, name)[0] for name in SPARSE_METHODS},
}
EVERY = pytest.mark.parametrize("name", PLANS)


@cache
def genuine(name: str) -> tuple[dict[str, Any], Verification]:
    certificate = json.loads(PLANS[name]().certificate(SystemSource()).to_json())
    return certificate, verify(json.dumps(certificate))


def changed(fields: dict[str, Any], path: consistency.Path, value: Any) -> str:
    """The text of a certificate with one entry changed and the digest computed anew, as a forger would."""
    fields = copy.deepcopy(fields)
    inner: Any = fields
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    fields["digest"] = digest(fields)
    return json.dumps(fields)


def others(value: float) -> list[float]:
    """Changes other than those with which the verifier itself finds out what it can confirm."""
    found: list[float] = [2 * value, -value] if value else [5, -5]
    return found + ([value // 2, 10**400] if isinstance(value, int) else [value * 1.01, value * 0.5, 1e300, 5e-324])


def test_every_algorithm_is_here() -> None:
    made = {genuine(name)[0]["algorithm"] for name in PLANS}
    assert made >= {*ALGORITHMS, *METHODS, *SADDLE_METHODS, *SPARSE_METHODS, "geometric_median", "group_privacy"}


@EVERY
def test_genuine_certificates_pass(name: str) -> None:
    _, result = genuine(name)
    assert result.passed, [check for check in result.checks if not check.passed]
    assert result.unknown == ()


@EVERY
def test_any_changed_number_is_found_or_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fields, result = genuine(name)  # before the change below: it is kept for the other tests
    monkeypatch.setattr(consistency, "second_opinions", lambda read, delta: [])  # the other checks have to do
    named = set(result.unconfirmed)
    for path, value in consistency.numbers(fields):
        if consistency.dotted(path) in named:
            continue
        for other in others(value):
            if other != value:
                assert not verify(changed(fields, path, other)).passed, (consistency.dotted(path), value, other)


@EVERY
def test_cost_noise_and_count_of_what_is_dearest_are_always_confirmed(name: str) -> None:
    fields, result = genuine(name)
    named = set(result.unconfirmed)
    assert not {"spent.epsilon", "spent.delta"} & named
    priced = [
        path
        for path, _ in consistency.numbers({"releases": fields["releases"]})
        if path[-1] in ("times", "sigma", "scale", "probability") and fields["releases"][path[1]]["block"] is None
    ]
    assert not {consistency.dotted(path) for path in priced} & named


def outside_public(name: str) -> set[str]:
    return {path for path in genuine(name)[1].unconfirmed if not path.startswith("public")}


def test_what_is_not_confirmed_is_known() -> None:
    """A larger promise is kept as well, and a pure one has no use for delta; a pure mechanism's lemma stands alone."""
    assert outside_public("output pure") == {"target.epsilon", "target.delta"}
    for name in ("noisy gradient", "noisy gradient samples", "queries query_noise"):
        assert outside_public(name) == {"target.epsilon"}
    assert outside_public("median descent") == {
        "target.epsilon",
        "releases[0].sensitivity.value",
        "releases[1].sensitivity.value",
    }
    assert outside_public("objective pure") == {
        "target.epsilon",
        "target.delta",
        "releases[0].event.curvature",
        "releases[0].event.rank",
    }


def test_the_cap_of_a_loss_is_confirmed() -> None:
    """Noise, price and public facts agree on it; nothing is free with one, and no other loss may use its rule."""
    for name in ("objective capped", "objective capped gaussian"):
        fields, result = genuine(name)
        assert not {"public.slope_cap", "releases[0].event.curvature"} & set(result.unconfirmed)
        assert fields["public"]["slope_cap"] == fields["releases"][0]["event"]["curvature"] == 0.7
        assert not verify(changed(fields, ("public", "curvature_law"), "bounded")).passed
        forged = copy.deepcopy(fields)
        del forged["public"]["slope_cap"]
        forged["digest"] = digest(forged)
        assert not verify(json.dumps(forged)).passed
    free = copy.deepcopy(genuine("objective capped")[0])
    free["releases"][0]["event"] |= {"rule": "free", "curvature": 1e-3}
    free["spent"]["epsilon"] = consistency.recompute(PrivacyCertificate.from_dict(free), consistency.Pricing())[0]
    free["digest"] = digest(free)
    failed = [check.name for check in verify(json.dumps(free)).checks if not check.passed]
    assert failed == ["curvature of 'minimiser of the perturbed objective'"]


def test_a_wrong_closed_form_of_the_logistic_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant prices without the curvature at the cap, in making the certificate as in checking it."""
    plan = PLANS["objective capped"]()
    monkeypatch.setattr(objective_events, "logistic_epsilon", lambda noise, tau, cap, rank: noise)
    failed = {check.name for check in verify(plan.certificate(SystemSource())).checks if not check.passed}
    assert failed == {"price of 'minimiser of the perturbed objective'"}


def test_public_facts_that_follow_from_releases_are_confirmed() -> None:
    for name, paths in {
        "objective pure": ("public.n", "public.l2", "public.feature_l2"),
        "output pure": ("public.minimiser_sensitivity",),
        "noisy gradient": ("public.steps",),
        "noisy gradient samples": ("public.steps", "public.rate"),
        "heavy heavy_tailed": ("public.phases[0].noise_scale[0]",),
        "saddle sgda": ("public.sigma",),
        "accelerated": ("public.users", "public.n"),
    }.items():
        fields, result = genuine(name)
        known = {consistency.dotted(path) for path, _ in consistency.numbers(fields)}
        assert set(paths) <= known, sorted(known)
        assert not set(paths) & set(result.unconfirmed), name


TWO = {
    "output pure",
    "output paper",
    "noisy gradient",
    "noisy gradient samples",
    "queries mwem",
    "median descent",
    "sparse frank_wolfe",
}


@pytest.mark.parametrize("name", sorted(TWO))
def test_two_accountants_price_it(name: str) -> None:
    checks = {check.name: check for check in genuine(name)[1].checks}
    assert "two accountants agree" in checks or "second accountant" in checks
    assert "one accountant" not in checks


def test_one_accountant_is_said_where_there_is_no_other() -> None:
    assert any(check.name == "one accountant" for check in genuine("objective gaussian")[1].checks)


HALVED = [*sorted(TWO - {"sparse frank_wolfe"}), "heavy clipped_gradient"]


@pytest.mark.parametrize("name", HALVED)
def test_an_accountant_that_prices_too_low_is_found_by_the_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant states half of every cost, in making the certificate as in checking it."""
    plan, real = PLANS[name](), accounting.spent_epsilon
    monkeypatch.setattr(accounting, "spent_epsilon", lambda events, delta: real(events, delta) / 2)
    failed = {check.name for check in verify(plan.certificate(SystemSource())).checks if not check.passed}
    assert "two accountants agree" in failed


def test_a_promise_for_records_does_not_pass_for_one_for_users() -> None:
    for name in ("output pure", "noisy gradient"):
        text = json.dumps(genuine(name)[0]).replace('"unit": "record"', '"unit": "user"')
        fields = json.loads(text)
        fields["digest"] = digest(fields)
        failed = [check.name for check in verify(json.dumps(fields)).checks if not check.passed]
        assert failed == ["unit"]


def test_fields_of_a_later_version_are_named_and_left_out() -> None:
    fields = copy.deepcopy(genuine("output pure")[0])
    fields["novelty"] = 1
    fields["releases"][0]["colour"] = "blue"
    fields["releases"][0]["sensitivity"]["shape"] = [1]
    fields["noise_source"]["origin"] = "here"
    fields["digest"] = digest(fields)
    result = verify(json.dumps(fields))
    assert result.passed
    added = ("novelty", "releases[0].colour", "releases[0].sensitivity.shape", "noise_source.origin")
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
def test_what_a_later_version_means_is_never_guessed(path: consistency.Path, value: Any, says: str) -> None:
    result = verify(changed(genuine("output pure")[0], path, value))
    assert not result.passed
    assert len(result.checks) == 1
    assert says in result.checks[0].detail


def test_another_version_may_have_priced_it_higher() -> None:
    """A later accountant may find less than an honest certificate states, and never more."""
    fields = copy.deepcopy(genuine("noisy gradient")[0])
    fields["versions"]["dp-accounting"] = "0.0.1"
    for factor, passes in ((1.0, True), (0.999, True), (0.5, True)):
        other = copy.deepcopy(fields)
        other["releases"][0]["event"]["sensitivity"] *= factor
        other["releases"][0]["sensitivity"]["value"] *= factor
        other["digest"] = digest(other)
        assert verify(json.dumps(other)).passed == passes
    fields["spent"]["epsilon"] *= 0.99
    fields["digest"] = digest(fields)
    assert not verify(json.dumps(fields)).passed


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": NaN}', '{"a": Infinity}', '{"a":' * 100_000])
def test_ambiguous_json_is_no_certificate(text: str) -> None:
    assert not verify(text).passed
