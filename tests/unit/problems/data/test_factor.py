"""Coordinates F: columns of sum 0, leverage, the coding lemma; and what `verify` makes of an edited certificate."""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpconvex import PrivateLogisticRegression, verify
from dpconvex.algorithms import recipes
from dpconvex.algorithms.erm.registry import plans
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import FactoredNoise, GroupedNorm
from dpconvex.losses import LogisticLoss, SoftmaxLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.privacy.certificate import digest
from dpconvex.problems import Block, DataDomain, Factor, LinearModelProblem, Records, RegularizedRisk
from dpconvex.randomness import real


def brownian(block):
    u = np.linspace(0, 1, block.size) ** 2
    return np.outer(u - 0.5, u - 0.5) + np.minimum.outer(u, u) + 0.1 * np.eye(block.size)


DOMAINS = [
    DataDomain((Block(d, "simplex", 1.0), Block(2, "linf", 0.5), Block(e, "simplex", 1.0), Block(3, "l2", 2.0)), 1.0)
    for d, e in ((2, 3), (5, 4), (41, 7), (107, 2))
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: str(domain.dim))
@pytest.mark.parametrize("kernel", [lambda block: None, brownian], ids=["contrasts", "brownian"])
def test_columns_sum_to_zero_and_leverage_is_what_a_search_finds(domain, kernel) -> None:
    shares = (0.3, 0.05, 0.25, 0.2, 0.15)
    factor = Factor.of(domain, shares, kernel)
    F = factor.matrix.toarray()
    start = 0
    for block, part, share in zip(domain.all_blocks, factor.blocks, shares, strict=True):
        rows = F[start : start + block.size]
        start += block.size
        if block.norm == "simplex":
            assert not any(sum(map(Fraction, column)) for column in rows.T.tolist())
            assert np.square(rows).sum(1).max() == pytest.approx(share, rel=1e-9)
            centered = np.eye(block.size) - 1 / block.size
            shape = centered if kernel(block) is None else centered @ kernel(block) @ centered
            assert rows @ rows.T == pytest.approx(share * shape / shape.diagonal().max(), abs=1e-8)
        else:
            assert isinstance(part, float)
    rng = np.random.default_rng(0)
    X = np.column_stack([domain.clip(rng.standard_normal((3000, domain.n_features)) * 50), np.ones(3000)])
    X[:2000, : domain.blocks[0].size] = np.eye(domain.blocks[0].size)[rng.integers(domain.blocks[0].size, size=2000)]
    lengths = np.linalg.norm(factor.gradient(X), axis=1)
    assert lengths.max() <= factor.l2
    assert factor.l2 == pytest.approx(math.sqrt(0.3 + 2 * 0.05 + 0.25 + 0.2 + 0.15), rel=1e-9)
    if kernel(domain.blocks[0]) is None:  # every vertex has the longest part
        assert lengths.max() > 0.8 * factor.l2


def test_matrices_that_would_break_the_claim_are_refused() -> None:
    domain = DataDomain((Block(3, "simplex", 1.0), Block(2, "l1", 1.0)), intercept=1.0)
    rows = ((0.5,), (0.25,), (-0.75,))
    assert Factor(domain, (rows, 1.0, 1.0)).rank == 4
    for blocks in (
        (((0.5,), (0.25,), (-0.5,)), 1.0, 1.0),
        (1.0, 1.0, 1.0),
        (rows[:2], 1.0, 1.0),
        (rows, ((1.0,), (-1.0,)), 1.0),
        (rows, math.inf, 1.0),
    ):
        with pytest.raises(InvalidParameterError, match="blocks"):
            Factor(domain, blocks)


def test_coding_does_not_matter() -> None:
    """Another coding with ``B Q B^T`` and ``B b`` gives the same functions (docs, Additive models, section 2)."""
    rng = np.random.default_rng(3)
    domain = DataDomain((Block(4, "simplex", 1.0),), intercept=1.0)
    factor = Factor.of(domain, (0.7, 0.3), brownian)
    X, y = np.eye(4)[rng.integers(4, size=200)], rng.choice([1.0, -1.0], 200)
    b = rng.standard_normal(5)
    scores = []
    for turn in (np.eye(factor.rank), np.linalg.qr(rng.standard_normal((factor.rank, factor.rank)))[0]):
        F = factor.matrix.toarray() @ turn

        def gradient(v, F=F):
            features = np.column_stack([X, np.ones(200)]) @ F
            return (LogisticLoss().derivative(features @ v, y) @ features + F.T @ b) / 200 + 0.05 * v

        from scipy.optimize import root

        scores.append(F @ root(gradient, np.zeros(factor.rank), tol=1e-13).x)
    risk = RegularizedRisk(LogisticLoss(), Records.clipped(X, domain), y, 0.05, factor.gradient(b) / 200, factor=factor)
    from dpconvex.solvers import NewtonCholesky

    own = factor.parameters(NewtonCholesky().solve(risk, 1e-11).point)
    assert scores[1] == pytest.approx(scores[0], abs=1e-9)
    assert own == pytest.approx(scores[0], abs=1e-9)


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=repr)
def test_derivatives_in_new_coordinates(loss) -> None:
    rng = np.random.default_rng(5)
    domain = DataDomain((Block(3, "simplex", 1.0), Block(2, "linf", 1.0)), intercept=1.0)
    factor = Factor.of(domain, (0.5, 0.1, 0.3), brownian)
    X, y = domain.clip(rng.standard_normal((50, 5))), loss.clip_targets(rng.integers(0, 3, 50).astype(float))
    risk = RegularizedRisk(loss, Records.clipped(X, domain), y, 0.1, factor=factor)
    w, step = rng.standard_normal(risk.dim), 1e-5
    steps = step * np.eye(risk.dim)
    slopes = [(risk.value(w + s) - risk.value(w - s)) / 2 / step for s in steps]
    assert risk.gradient(w) == pytest.approx(slopes, abs=1e-7)
    bends = np.array([(risk.gradient(w + s) - risk.gradient(w - s)) / 2 / step for s in steps])
    assert risk.hessian(w) == pytest.approx(bends, abs=1e-6)


@pytest.mark.gate
def test_the_law_of_the_noise_does_not_depend_on_the_representative() -> None:
    """Sampled ``F^T b`` is F^T of the sampler's b plus any constant, and has the stated variances."""
    domain = DataDomain((Block(4, "simplex", 1.0), Block(1, "linf", 0.5)), intercept=1.0)
    factor = Factor.of(domain, (0.5, 0.2, 0.3), brownian)
    base = GroupedNorm.for_domain(domain)
    law = FactoredNoise(base, factor)
    b = real.simulate(base, 20_000, np.random.default_rng(0))
    b[:, :4] += np.random.default_rng(1).standard_normal((20_000, 1)) * 100
    same = real.simulate(law, 20_000, np.random.default_rng(0))
    assert factor.gradient(b) == pytest.approx(same, abs=1e-9)
    assert same.var(0) == pytest.approx(law.coordinate_variances, rel=0.1)


def test_a_plan_with_a_kernel_is_made_again() -> None:
    domain = DataDomain((Block(5, "simplex", 1.0), Block(1, "linf", 0.5)), intercept=1.0)
    factor = Factor.of(domain, (0.5, 0.2, 0.3), brownian)
    problem = LinearModelProblem(LogisticLoss(), domain, 100, 2.0, factor=factor)
    written = recipes._written(problem)
    assert recipes._read(json.loads(json.dumps(written))) == problem


def test_a_problem_has_coordinates_of_its_own_domain() -> None:
    """Its largest length is read off them: those of a tiny domain would hide how long records are."""
    tiny = DataDomain((Block(5, "simplex", 1.0), Block(1, "linf", 1e-6)), intercept=1.0)
    domain = DataDomain((Block(5, "simplex", 1.0), Block(1, "linf", 0.5)), intercept=1.0)
    with pytest.raises(InvalidParameterError, match="of the problem's domain"):
        LinearModelProblem(LogisticLoss(), domain, 100, 2.0, factor=Factor.contrasts(tiny))
    same = DataDomain((Block(5, "simplex", 1.0), Block(1, "linf", 0.5)), intercept=1.0)
    LinearModelProblem(LogisticLoss(), domain, 100, 2.0, factor=Factor.contrasts(same))


@pytest.mark.parametrize("name", ["output_perturbation", "noisy_gradient", "recentering", "constant"])
def test_methods_whose_theory_is_for_the_parameters_themselves_refuse_coordinates(name) -> None:
    """Output perturbation would release ``F v`` with the noise that v needs, at any length of F."""
    domain = DataDomain((Block(2, "linf", 0.5),), intercept=1.0)
    problem = LinearModelProblem(LogisticLoss(), domain, 3_000, 2.0, factor=Factor(domain, (1e3, 1e3)))
    with pytest.raises(InvalidParameterError, match="factor='given'"):
        plans(problem, PrivacyParams(1.0, 1e-6), name)
    assert plans(problem, PrivacyParams(1.0), "objective_perturbation")[0].problem.factor == problem.factor


def fitted():
    rng = np.random.default_rng(0)
    domain = DataDomain((Block(4, "simplex", 1.0), Block(2, "linf", 0.5)))
    X, y = domain.clip(rng.standard_normal((300, 6))), rng.integers(0, 2, 300)
    model = PrivateLogisticRegression(1.0, domain=domain, algorithm="objective_perturbation", classes=[0, 1])
    return json.loads(model.fit(X, y).certificate_.to_json())


EDITS = {
    "share": lambda public: public["factor"][0].update(share=public["factor"][0]["share"] * 0.5),
    "levels": lambda public: public["factor"][0].update(contrasts=5),
    "scale": lambda public: public["factor"][1].update(scale=public["factor"][1]["scale"] * 0.9),
    "a block left out": lambda public: public["factor"].pop(),
    "feature_l2": lambda public: public.update(feature_l2=public["feature_l2"] * 0.9),
    "l2": lambda public: public.update(l2=public["l2"] * 0.9),
    "rows": lambda public: public["factor"].__setitem__(0, {"rows": [[0.5], [0.25], [0.25], [-0.5]]}),
    "no rows": lambda public: public["factor"].__setitem__(0, {"scale": 0.5}),
    "off the grid": lambda public: public["factor"].__setitem__(0, {"rows": [[1.0], [1e-30], [0.0], [-1.0]]}),
    "size": lambda public: public["blocks"][0].update(size=3),
}


@pytest.mark.parametrize("edit", EDITS)
def test_verify_recomputes_the_leverage(edit) -> None:
    """Also without planning again: from what the certificate itself states of F."""
    from dpconvex.privacy import verify as numbers_alone

    fields = fitted() if "fields" not in CACHE else CACHE["fields"]
    CACHE["fields"] = fields
    assert numbers_alone(json.dumps(fields)).passed
    forged = copy.deepcopy(fields)
    EDITS[edit](forged["public"])
    forged["digest"] = digest({name: value for name, value in forged.items() if name != "digest"})
    result = numbers_alone(json.dumps(forged))
    assert not result.passed
    assert not verify(json.dumps(forged)).passed


CACHE: dict[str, dict] = {}
