"""What every ready-made convex function promises, and what a private minimization of it promises."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import dpconvex.problems
from dpconvex import attack_constants, plan_minimize, private_minimize
from dpconvex.privacy.ledger import total_delta, total_epsilon
from dpconvex.problems import CONVEX_FUNCTIONS, ConvexFunction, DataDomain, RecordLoss, Records, jax_loss
from dpconvex.randomness import SystemSource
from dpconvex_experiments.reference import objectives
from instances import INSTANCES, instances

pytestmark = pytest.mark.thin

KINDS = (*CONVEX_FUNCTIONS, *objectives.CONVEX_FUNCTIONS)
EXAMPLES = [pytest.param(f, id=f"{f.name}-{f.dim}") for kind in KINDS for f in instances(kind)]
RECORD_LOSSES = [kind for kind in KINDS if issubclass(kind, RecordLoss)]
SETTINGS = [{}, {"delta": 1e-6}, {"constants": "paper"}, {"trusted": False}, {"l2": 0.5}, {"radius": 3.0}]
CONTENTS = {"nan": np.nan, "infinite": np.inf, "zeros": 0.0, "duplicates": 0.3, "huge": -1e300, "tiny": 1e-300}


def arguments(settings):
    return {"epsilon": 1.0, "radius": 1.0, "max_steps": 300, **settings}


@pytest.mark.parametrize("function", EXAMPLES)
@pytest.mark.parametrize("radius", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("trials", [60, pytest.param(120, marks=pytest.mark.gate)])
@pytest.mark.dear("60-10.0-")
def test_no_claimed_constant_is_beaten_nor_very_loose(function, radius, trials) -> None:
    found = attack_constants(function, radius, trials=trials)
    assert found.holds, found
    assert min(found.lipschitz, found.contrast) >= 0.1
    assert math.isinf(function.smoothness) or found.smoothness >= 0.1


@pytest.mark.parametrize("function", EXAMPLES)
def test_a_total_is_made_of_the_clipped_records_alone(function) -> None:
    """Clipping first changes nothing, and neither does the order of the records."""
    rng = np.random.default_rng(0)
    X = 3 * rng.standard_normal((7, function.domain.n_features))
    w = rng.standard_normal(function.dim)
    value, gradient = function.total(w, Records.clipped(X, function.domain))
    for same in (function.domain.clip(X), X[::-1].copy()):
        other, slope = function.total(w, Records.clipped(same, function.domain))
        assert other == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(slope, gradient, rtol=1e-12)


def jax_example():
    jnp = pytest.importorskip("jax.numpy")
    domain = DataDomain.l2_ball(2, 1.0)
    return jax_loss(lambda w, x: jnp.sqrt(jnp.sum((w - x) ** 2) + 0.01), dim=2, domain=domain, lipschitz=1 + 1e-9)


AVERAGES = [pytest.param(lambda f=f: f, id=f"{f.name}-{f.dim}") for kind in RECORD_LOSSES for f in instances(kind)]


@pytest.mark.parametrize("made", [*AVERAGES, pytest.param(jax_example, id="jax")])
@pytest.mark.dear("smoothed distance-3")
def test_heavy_tails_keep_the_promises_of_every_loss_of_records(made) -> None:
    """Epsilon is spent, no content raises or shows in the certificate, and each record has its own point."""
    function, texts = made(), set()
    options = {"epsilon": 1.0, "radius": 1.0, "heavy_tailed": (2, 0.5 * function.lipschitz(1.0))}
    plan = plan_minimize(function, 5, **options)
    assert total_epsilon(plan.releases, 0.0) <= 1.0
    rng = np.random.default_rng(0)
    for value in CONTENTS.values():
        X = np.full((5, function.domain.n_features), value)
        X[0] = 1.0
        result = private_minimize(function, X, random_state=0, **options)
        assert np.linalg.norm(result.point) <= 1 + 1e-12
        facts = {**result.certificate.to_dict(), "versions": None, "digest": None}
        texts.add(json.dumps(facts, sort_keys=True))
        rows, points = function.domain.clip(X), rng.standard_normal((5, function.dim))
        values, gradients = function.each(points, rows)
        for i in range(5):
            assert values[i] == pytest.approx(function.value(points[i], rows[i : i + 1])[0], rel=1e-12)
            np.testing.assert_allclose(gradients[i], function.gradient(points[i], rows[i : i + 1])[0], atol=1e-12)
    assert len(texts) == 1


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("function", EXAMPLES)
def test_a_plan_costs_no_more_than_its_target(function, settings) -> None:
    plan = plan_minimize(function, 20, **arguments(settings))
    releases = list(plan.releases)
    pure, delta = total_epsilon(releases, 0.0), settings.get("delta", 0.0)
    assert pure <= 1.0 or (delta > 0 and total_delta(releases, 1.0) <= delta)
    assert plan.predicted_error.bound > 0
    public = [plan.problem.describe(), dict(plan.describe())]
    assert json.loads(json.dumps(public, allow_nan=False)) == public


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("function", EXAMPLES)
def test_no_content_raises_or_shows_in_the_certificate(function, settings) -> None:
    """Warnings are errors in this suite."""
    texts = set()
    for value in CONTENTS.values():
        X = np.full((5, function.domain.n_features), value)
        X[0] = 1.0
        result = private_minimize(function, X, random_state=0, **arguments(settings))
        assert np.isfinite(result.point).all()
        assert result.point.shape == (function.dim,)
        facts = {**result.certificate.to_dict(), "versions": None, "digest": None}
        texts.add(json.dumps(facts, sort_keys=True))
    assert len(texts) == 1


@pytest.mark.parametrize("function", EXAMPLES)
def test_an_unseeded_release_is_private(function) -> None:
    X = np.zeros((5, function.domain.n_features))
    plan = plan_minimize(function, 5, **arguments({}))
    # Large noise ends on the ball's surface, in one dimension at one of two points: 40 equal ones have chance 2^-39.
    results = [plan.run(X, np.zeros(5), SystemSource()) for _ in range(40)]
    assert results[0].certificate.to_dict()["private"]
    assert len({result.point.tobytes() for result in results}) > 1


def test_every_function_is_exported() -> None:
    def leaves(kind):
        return {kind} if not kind.__subclasses__() else set().union(*map(leaves, kind.__subclasses__()))

    shipped = {kind for kind in leaves(ConvexFunction) if kind.__module__.startswith("dpconvex.")}
    assert shipped & {*INSTANCES} == set(CONVEX_FUNCTIONS)
    assert {kind.__name__ for kind in CONVEX_FUNCTIONS} <= set(dpconvex.problems.__all__)
