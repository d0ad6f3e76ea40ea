"""Planner of objective perturbation: energies, rules and their boundaries, consistency of its constants, messages."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from dpconvex import _rounding
from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.objective_perturbation import planner
from dpconvex.algorithms.erm.objective_perturbation.plan import JointGaussianOutput, SeparateOutput
from dpconvex.errors import AccuracyError, InvalidParameterError
from dpconvex.losses import (
    CurvatureLaw,
    HingeLoss,
    HuberLoss,
    LogCoshLoss,
    LogisticLoss,
    PseudoHuberLoss,
    SmoothedPinballLoss,
    SoftmaxLoss,
)
from dpconvex.mechanisms import GaussianObjectiveNoise, NormObjectiveNoise
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.privacy.events.objective import determinant_cost, logistic_epsilon
from dpconvex.problems import Block, DataDomain, LinearModelProblem
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import SeededSource, real

pytestmark = pytest.mark.together

ONE_HOT = (7, 16, 7, 14, 6, 5, 41)
ADULT_RECORDS = 36_186


def adult(width):
    """Blocks of the Adult schema (docs, Objective perturbation, section 4): numbers within +-width, sex, the rest."""
    blocks = [Block(5, "linf", width), Block(1, "linf", 0.5), *(Block(size, "simplex", 1.0) for size in ONE_HOT)]
    return DataDomain(tuple(blocks), intercept=1.0)


def plan_of(domain, noise, loss=None, n=ADULT_RECORDS, epsilon=1.0, delta=0.0, l2=None, radius=7.5, factor=None):
    problem = LinearModelProblem(loss or LogisticLoss(), domain, n, radius, factor=factor)
    (found,) = objective_perturbation.plan(problem, PrivacyParams(epsilon, delta), noise=noise, l2=l2)
    return found


class RenamedLoss(LogisticLoss):  # pyright: ignore[reportGeneralTypeIssues]  (final but for this test)
    name = "mine"


class RenamedSoftmax(SoftmaxLoss):  # pyright: ignore[reportGeneralTypeIssues]
    name = "mine"


class GenericLoss(LogisticLoss):  # pyright: ignore[reportGeneralTypeIssues]
    """Declares no law of its own."""

    curvature_law = CurvatureLaw.BOUNDED  # pyright: ignore[reportAssignmentType]


def test_the_price_depends_on_what_a_loss_declares_and_not_on_its_name() -> None:
    """The same loss under another name cost more noise; one that merely has the name of another must pay."""
    domain = DataDomain((Block(3, "l1", 1.0),), intercept=1.0)
    scales = {}
    for epsilon, delta, noise in ((1.0, 0.0, "l1"), (0.1, 0.0, "l2"), (1.0, 1e-6, "gaussian")):
        for first, second in ((LogisticLoss(0.7), RenamedLoss(0.7)), (SoftmaxLoss(3), RenamedSoftmax(3))):
            own, other = (plan_of(domain, noise, loss, 400, epsilon, delta) for loss in (first, second))
            assert (own.l2, own.noise.event) == (other.l2, other.noise.event)
    for loss in (LogisticLoss(0.99), GenericLoss(0.99)):
        scales[type(loss)] = planner.rules.pure_share(loss, False, 3.9, 1.0).epsilon
    assert scales[GenericLoss] < 0.8 * scales[LogisticLoss]


def polytope_energies(width, centered=True):
    """``(d_j, s_j, e_j)`` of every block: a Dirichlet law with random signs, or (2.1) of the docs, Additive models."""
    yield from [(1, width, width**2 / 3)] * 5
    yield from ((1, 0.5, 1 / 12), (1, 1.0, 1 / 3))
    for d in ONE_HOT:
        if centered:
            yield d - 1, 1.0, (2 * (d - 1) - (d - 1 + (d % 2 == 0)) / d) / (d * (d + 1))
        else:
            yield d, 1.0, 2 * d / ((d + 1) * (d + 2))


def energy_of(noise, blocks):
    """``(sum_g a_g)^2 sum_g E_g / a_g^2`` (docs, Objective perturbation, section 4), the grouped norm by trying."""
    blocks = sorted(blocks)
    if noise == "l1":
        return sum(s for _, s, _ in blocks) ** 2 * sum(4 * (d + 1) * (d + 2) * e / s**2 for d, s, e in blocks)

    def of_group(group):
        dimensions = sum(d for d, _, _ in group)
        return 4 * (dimensions + 1) * (dimensions + 2) * sum(e for _, _, e in group)

    cheapest = [0.0]
    for stop in range(1, len(blocks) + 1):
        starts = {"grouped": range(stop), "weighted_l1": [stop - 1], "block_max": [0]}[noise]
        cheapest.append(min(cheapest[start] + of_group(blocks[start:stop]) ** (1 / 3) for start in starts))
    return cheapest[-1] ** 3 if noise != "block_max" else of_group(blocks)


@pytest.mark.parametrize("noise", ["l1", "block_max", "weighted_l1", "grouped"])
@pytest.mark.parametrize("width", [0.5, 1.0])
def test_energies_of_the_adult_schema(noise, width) -> None:
    """At ``epsilon_1 = 1`` and equal costs, against sums written down again from the docs' formulas."""
    norm = planner.NORMS[noise](adult(width), None)
    found = norm.record_bound(adult(width)) ** 2 * norm.energy * 4
    assert found == pytest.approx(energy_of(noise, polytope_energies(width)), rel=1e-9)


def test_centered_blocks_save_energy() -> None:
    """The figures of the docs, Additive models, section 2, for the Adult schema."""
    assert energy_of("grouped", polytope_energies(0.5, centered=False)) == pytest.approx(46_672, abs=0.5)
    assert energy_of("grouped", polytope_energies(0.5)) == pytest.approx(39_557, abs=0.5)


@pytest.mark.parametrize("noise", ["grouped", "weighted_l1", "weighted_gaussian"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_noise_is_weighed_by_the_excess_that_it_costs(noise, epsilon, monkeypatch) -> None:
    """Weights by energy are valid, and cost more expected excess."""
    delta = 1e-6 if noise == "weighted_gaussian" else 0.0
    by_excess = plan_of(adult(0.5), noise, epsilon=epsilon, delta=delta)
    monkeypatch.setattr(planner, "noise_costs", lambda problem, privacy: None)
    by_energy = plan_of(adult(0.5), noise, epsilon=epsilon, delta=delta)
    assert by_excess.expected < by_energy.expected


@pytest.mark.parametrize(("columns", "times"), [(1, 1.0), (3, 1.0), (7, 2.0), (15, 4.0), (100, 4.0)])
def test_the_constant_has_a_fourth_of_what_columns_have(columns: int, times: float) -> None:
    """A column's prior variance at least, four times it at most; shares of all columns add up to 1."""
    boxed = DataDomain((Block(columns, "linf", 0.5), Block(1, "linf", 2.0)))
    *found, constant = planner.SHARES.of(boxed.with_intercept(3.0))
    assert found[0] == found[1]
    assert constant == pytest.approx(times * found[0])
    assert columns * found[0] + found[1] + constant == pytest.approx(1)
    assert planner.coordinates(boxed.with_intercept(3.0), plain=False).l2 == pytest.approx(1)
    ball, beside, constant = planner.SHARES.of(DataDomain((Block(columns, "l2", 0.3), Block(3, "simplex", 1.0)), 1.0))
    assert ball == pytest.approx(columns**0.5 * beside)
    assert constant == pytest.approx(max(1, (columns**0.5 + 1) / 4) * beside)
    assert sum(planner.SHARES.of(DataDomain.l2_ball(columns, 0.3))) == pytest.approx(1)  # no constant


def test_gaussian_energies_of_the_adult_schema() -> None:
    """Weights by cost need the least of ``sum c_j / m_j`` at a record's length ``sum m_j s_j^2``."""
    domain = adult(0.5)
    lengths = [*[0.5] * 6, *(math.sqrt(1 - 1 / d) for d in ONE_HOT), 1.0]
    plain, weighted = (plan_of(domain, kind, delta=1e-6, l2=1e-3) for kind in ("gaussian", "weighted_gaussian"))
    assert plain.noise.event.gradient_bound == pytest.approx(math.hypot(*lengths), rel=1e-6)
    energy = [float(np.square(plan.deviations).sum()) for plan in (plain, weighted)]
    dims = sum(d - 1 for d in ONE_HOT) + 7
    assert energy[0] / float(plain.noise.event.sigma) ** 2 == pytest.approx(dims, rel=1e-6)
    assert energy[1] / float(weighted.noise.event.sigma) ** 2 > 0


def test_the_adult_plan_follows_the_recipe() -> None:
    """99 percent of the budget for ``b``; the bound is (5.1) with the energy of ``F^T b``."""
    plan = plan_of(adult(0.5), "grouped")
    assert isinstance(plan.noise, NormObjectiveNoise)
    energy = float(plan.deviations @ plan.deviations)
    squares = [0.25] * 6 + [1 - 1 / d for d in ONE_HOT] + [1 / 3.25]  # over shares of 1, or 3.25 of the constant
    needed = 16.25 * sum(4 * square for square in squares)  # each needs 4: of |w|^2, and 1/s^2 where it is numeric
    assert plan.problem.ridge_radius**2 == pytest.approx(7.5**2 * needed / (4 * 14), rel=1e-3)
    wanted = plan.l2 * plan.problem.ridge_radius**2 / 2 + energy / (2 * ADULT_RECORDS**2 * plan.l2)
    assert plan.bound == pytest.approx(wanted, rel=0.02)
    assert plan.noise.event.pure_epsilon + plan.output.mechanism.event.pure_epsilon <= 1
    assert plan.noise.event.pure_epsilon == pytest.approx(0.99, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "tau"), [(0.1, 0.03), (0.3, 0.12), (1.0, 0.5), (3.0, 1.5)])
def test_the_plan_lands_near_the_prototypes_optimum(epsilon, tau) -> None:
    """Docs, Additive models, section 4: within a factor 2; (5.2) kept as a limit would be far from it."""
    caps = {0.1: 0.6, 0.3: 0.7, 1.0: 0.7, 3.0: 0.9}
    plan = plan_of(adult(0.5), "grouped", LogisticLoss(caps[epsilon]), epsilon=epsilon)
    assert tau / 2 <= plan.noise.event.tau <= tau * 2


@pytest.mark.parametrize(
    ("loss", "frobenius", "q"),
    [
        (LogisticLoss(), False, 1.0),
        (LogCoshLoss(), False, 2.0),
        (PseudoHuberLoss(), False, 0.75 * math.sqrt(3)),
        (HuberLoss(saturating=True), False, 3.0),
        (SmoothedPinballLoss(0.9, 0.1, saturating=True), False, 30.0),
        (SoftmaxLoss(3), True, 4.0),
        (SoftmaxLoss(2), True, 2.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("budget", [0.1, 1.0, 5.0])
def test_curvature_is_free_up_to_the_floor_and_not_beyond(loss, frobenius, q, budget) -> None:
    """Theorem 2: ``q tau <= epsilon_1 / 2``."""
    floor = budget / (2 * q)
    below = planner.rules.pure_share(loss, frobenius, floor * (1 - 1e-8), budget)
    above = planner.rules.pure_share(loss, frobenius, floor * (1 + 1e-8), budget)
    assert (below.rule, below.epsilon) == ("free", budget)
    several = loss.n_outputs > 1
    assert above.rule == ("determinant" if several else "logistic" if loss.name == "logistic" else "saturating")
    assert above.epsilon < budget
    if not several:  # exact rules are continuous there
        assert above.epsilon == pytest.approx(budget, rel=1e-6)


@pytest.mark.parametrize("loss", [SoftmaxLoss(3), SoftmaxLoss(2), HuberLoss()], ids=repr)
def test_losses_without_the_condition_pay_the_determinant(loss) -> None:
    """Softmax with blockwise noise, Huber: however large the regularization."""
    for tau in (1e-9, 0.1, 1.0):
        share = planner.rules.pure_share(loss, False, tau, 1.0)
        assert share.rule == "determinant"
        assert share.epsilon <= 1.0 - determinant_cost(loss.curvature_trace, loss.curvature_rank, tau)


@pytest.mark.thin
@pytest.mark.parametrize("cap", [1.0, 0.8])
@pytest.mark.parametrize("budget", [0.297, 0.99, 2.97])
def test_a_rounded_scale_stays_within_the_budget(cap, budget) -> None:
    """The scale is rounded: the noise may spend an ulp less than its share, which by (1.4) in floats may cost more."""
    generator = np.random.default_rng(0)
    for tau in generator.uniform(0.5 * budget, 1.5 * budget, 300):
        share = planner.rules.pure_share(LogisticLoss(cap), False, float(tau), budget)
        if share.rule != "logistic":
            continue
        for sensitivity in generator.uniform(1.0, 2.0, 5):
            scale = _rounding.ratio_up(float(sensitivity), share.epsilon)
            spent = Fraction(float(sensitivity)) / Fraction(scale)
            assert logistic_epsilon(spent, float(tau), cap) <= Fraction(budget)


def test_a_rounded_scale_stays_within_the_budget_of_users() -> None:
    """Of Hessians of a higher rank, parts of the noise may fall between those of floats: an instance, and others."""
    generator, cases = np.random.default_rng(0), [(12, 0.22425754777968926, 17.99176578110184)]
    cases += [(3, float(tau), float(s)) for tau, s in generator.uniform((0.15, 1.0), (0.45, 2.0), (2000, 2))]
    for rank, tau, sensitivity in cases:
        share = planner.rules.pure_share(LogisticLoss(), False, tau, 0.297, rank)
        spent = Fraction(sensitivity) / Fraction(_rounding.ratio_up(sensitivity, share.epsilon))
        assert logistic_epsilon(spent, tau, 1.0, rank) <= Fraction(0.297) or share.rule != "logistic"


def test_the_output_noise_is_counted_where_records_are_many() -> None:
    """Small ridges need a wide mask, as double precision certifies no less: the plan raises both until it is cheap."""
    domain = DataDomain.box(7, 0.5).with_intercept(1.0)
    for epsilon in (0.3, 3.0):
        for delta in (0.0, 1e-6):
            plan = plan_of(domain, "gaussian" if delta else "grouped", n=200_000, epsilon=epsilon, delta=delta)
            assert plan.output_excess <= 0.25 * plan.expected
            other = plan_of(domain, plan.noise_name, n=200_000, epsilon=epsilon, delta=delta, l2=plan.l2 * 1.5)
            assert other.expected > plan.expected


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_logistic_curvature_is_feasible_up_to_its_bound(epsilon) -> None:
    """``log(1 + tau/4) < epsilon`` (docs, Objective perturbation, (1.4))."""
    limit = 4 * math.expm1(epsilon)
    assert planner.rules.pure_share(LogisticLoss(), False, limit * 0.999, epsilon).epsilon > 0
    assert planner.rules.pure_share(LogisticLoss(), False, limit * 1.001, epsilon).epsilon <= 0


@pytest.mark.parametrize("cap", [0.3, 0.5, 0.7, 0.95])
@pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0])
def test_a_cap_pays_for_the_curvature_that_it_leaves(cap, tau) -> None:
    """(1.4): ``log(1 + tau A (1 - A))`` where the sum of noise and curvature still grows at the cap; else more."""
    share = planner.rules.pure_share(LogisticLoss(cap), False, tau, 1.0)
    assert (share.rule, share.curvature) == ("logistic", cap)
    at_cap = 1.0 - math.log1p(tau * cap * (1 - cap))
    assert share.epsilon <= at_cap
    assert share.epsilon >= 1.0 - determinant_cost(LogisticLoss(cap).curvature_trace, 1, tau) - 1e-9
    if cap <= 0.5 or tau <= 0.1:
        assert share.epsilon == pytest.approx(at_cap, rel=1e-9)
    assert share.epsilon < planner.rules.pure_share(LogisticLoss(), False, min(tau, 0.5), 1.0).epsilon


@pytest.mark.parametrize("noise", ["grouped", "weighted_gaussian"])
@pytest.mark.parametrize("loss", [LogisticLoss(), LogisticLoss(0.3), LogisticLoss(0.7), HuberLoss()], ids=repr)
@pytest.mark.parametrize("n", [500, ADULT_RECORDS])
def test_the_ridge_has_about_the_least_expected_error(loss, noise, n) -> None:
    """Smaller ones that curvature forbids are refused; (5.2) is no limit."""
    delta = 1e-6 if noise == "weighted_gaussian" else 0.0
    best = plan_of(adult(0.5), noise, loss, n=n, delta=delta)
    for factor in (0.6, 1.7):
        try:
            other = plan_of(adult(0.5), noise, loss, n=n, delta=delta, l2=factor * best.l2, factor=best.problem.factor)
        except InvalidParameterError:
            assert factor < 1
            continue
        assert best.expected <= other.expected * (1 + 1e-6)


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.3, 0.5, of_mean=True)], ids=lambda loss: loss.name)
def test_users_of_one_record_get_the_ridge_and_noise_of_records(loss) -> None:
    """The objective is that of records: only the rank of a user's curvature is another, which is dearer at most."""
    given = {"explained": None if loss.task == "classification" else 0.006}
    problem = LinearModelProblem(loss, adult(0.5), ADULT_RECORDS, 7.5, **given)
    users = dataclasses.replace(problem, records_per_user=1)
    of_records = objective_perturbation.plan(problem, PrivacyParams(1.0))
    of_users = objective_perturbation.plan(users, PrivacyParams(1.0, unit=Unit.USER))
    for one, other in zip(of_records, of_users, strict=True):
        assert one.noise_name == other.noise_name
        assert one.expected * (1 - 1e-9) <= other.expected <= 1.1 * one.expected
        assert one.l2 == pytest.approx(other.l2, rel=0.3)


def test_softmax_determinant() -> None:
    """``(k - 1) log(1 + tau / k)`` (docs, Objective perturbation, Several outputs)."""
    for k in (2, 3, 7):
        loss = SoftmaxLoss(k)
        cost = determinant_cost(loss.curvature_trace, loss.curvature_rank, 0.7)
        assert cost == pytest.approx((k - 1) * math.log1p(0.7 / k), rel=1e-12)
        assert cost >= (k - 1) * math.log1p(0.7 / k)


@pytest.mark.parametrize(("cap", "used"), [(1.0, 0.7), (0.7, 0.9), (0.4, 0.99)])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_density_of_a_minimizer_of_three_classes_keeps_the_promise_and_uses_it(
    cap: float, used: float, epsilon: float
) -> None:
    """All pairs of records that differ in the last of two, at points that are dense around caps and far out."""
    loss = SoftmaxLoss(3, cap=cap)
    problem = LinearModelProblem(loss, DataDomain.box(1, 1.0), 2, 2.0)
    plan = next(p for p in objective_perturbation.plan(problem, PrivacyParams(epsilon), noise="l1"))
    event, unit = plan.noise.event, float(plan.problem.factor.matrix.toarray().item())
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, scale, (4000, 3)) for scale in (0.5, 2.0, 8.0, 30.0)])
    points[::3, 2] -= 40.0  # one class is out of the question
    laws = []
    for x, y in ((1.0, 0), (1.0, 1), (1.0, 2), (-1.0, 0), (-1.0, 1), (-1.0, 2), (0.0, 0)):
        # In the coordinates of the ridge; the common record has x = 0, so that no curvature is common.
        slope = loss.derivative(points * x, np.full(len(points), float(y))) * x * unit
        b = 2 * plan.l2 * points / unit + slope
        bend = loss.hessian_weights(points * x, np.full(len(points), float(y))) * (x * unit) ** 2
        determinant = np.linalg.slogdet(2 * plan.l2 * np.eye(3) + bend)[1]
        laws.append(determinant - np.abs(b).sum(1) / unit / event.scale)
    largest = max(float(np.abs(first - second).max()) for first in laws for second in laws)
    assert used * event.pure_epsilon <= largest <= event.pure_epsilon * (1 + 1e-9)


SMALL = DataDomain(
    (Block(2, "l1", 1.0), Block(2, "l2", 3.0), Block(1, "linf", 0.5), Block(3, "simplex", 1.0)), intercept=1.0
)


CLASSES = SoftmaxLoss(3), SoftmaxLoss(3, cap=0.6)


@pytest.mark.parametrize("loss", [LogisticLoss(), LogisticLoss(0.7), HuberLoss(2.0), *CLASSES], ids=repr)
@pytest.mark.parametrize("noise", ["grouped", "weighted_l1", "l1", "block_max", "l2"])
@pytest.mark.parametrize("l2", [None, 0.02, 5.0])
def test_pure_constants_fit_together(loss, noise, l2) -> None:
    plan = plan_of(SMALL, noise, loss, n=500, radius=2.0, l2=l2)
    assert isinstance(plan.noise, NormObjectiveNoise)
    assert isinstance(plan.output, SeparateOutput)
    event = plan.noise.event
    # Sensitivity in the noise's own norm: any two records, any slopes.
    rng = np.random.default_rng(0)
    k = loss.n_outputs
    X = np.column_stack([SMALL.clip(rng.standard_normal((400, 8)) * 100), np.ones(400)])
    z, y = rng.standard_normal((400, k) if k > 1 else 400) * 50, loss.clip_targets(rng.standard_normal(400) * 50)
    gradients = loss.derivative(z, y).reshape(400, k)[:, :, None] * X[:, None, :]
    change = gradients[::2] - gradients[1::2]
    factor = plan.problem.factor
    if noise == "l2":
        lengths = plan.noise.norm(factor.gradient(change.reshape(-1, SMALL.dim)).reshape(200, -1))
    else:
        lengths = plan.noise.norm.base(change).sum(1)
    assert lengths.max() <= event.sensitivity
    # The certified radius and the noise that hides it.
    mechanism = plan.output.mechanism
    assert Fraction(mechanism.sensitivity.value) * Fraction(plan.l2) >= 2 * Fraction(plan.gradient_tolerance)
    assert mechanism.sensitivity.value >= 2 * plan.solver_radius
    assert Fraction(event.tau) * 500 * Fraction(plan.l2) >= Fraction(np.square(factor.gradient(X)).sum(1).max())
    assert event.pure_epsilon + mechanism.event.pure_epsilon <= 1
    # What is drawn is what is priced.
    draw = plan.noise._sample(plan.copies, SeededSource(0)).reshape(-1)
    unit = real.draw(plan.noise.norm, plan.copies, SeededSource(0)).reshape(-1)
    assert draw == pytest.approx(unit * event.scale, rel=1e-12)


@pytest.mark.parametrize(
    "loss",
    [LogisticLoss(), LogisticLoss(0.7), LogisticLoss(0.3), HuberLoss(2.0), PseudoHuberLoss(), *CLASSES],
    ids=repr,
)
@pytest.mark.parametrize("noise", ["gaussian", "weighted_gaussian"])
def test_gaussian_constants_fit_together(loss, noise) -> None:
    plan = plan_of(SMALL, noise, loss, n=500, delta=1e-6, radius=2.0)
    assert isinstance(plan.noise, GaussianObjectiveNoise)
    assert isinstance(plan.output, JointGaussianOutput)
    event = plan.noise.event
    assert Fraction(event.rho) * Fraction(plan.output.deviation) >= 2 * Fraction(plan.gradient_tolerance) / Fraction(
        plan.l2
    )
    # One record in units of the noise (for softmax the vertices carry the slopes).
    rng = np.random.default_rng(0)
    X = np.column_stack([SMALL.clip(rng.standard_normal((4000, 8)) * 100), np.ones(4000)])
    slope = getattr(loss, "cap", 1.0) if loss.n_outputs > 1 else loss.slope_bound
    X[:, 5:8] -= X[:, 5:8].mean(1, keepdims=True)  # a lift of what the noise hides: modulo constants
    assert (slope * np.linalg.norm(X / plan.noise.standard_deviations, axis=1)).max() <= event.gradient_bound
    assert event.delta(1.0) <= 1e-6
    assert event.delta(1.0 - 1e-6) > 1e-6
    assert dataclasses.replace(event, sigma=event.sigma / 2).delta(1.0) > 1e-5


@pytest.mark.parametrize("margin", [1e-2, 1e-3, 1e-4])
def test_no_data_set_makes_the_solver_refuse(margin) -> None:
    """Separable with a small margin: the minimizer is far longer than the comparator."""
    n = 100_000
    domain = DataDomain.l2_ball(1, 1.0).with_intercept(1.0)
    plan = plan_of(domain, "grouped", n=n, epsilon=100.0, radius=default_radius(domain))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = (margin * y)[:, None]
    assert np.isfinite(plan.run(X, y, SeededSource(0)).point).all()


@pytest.mark.gate
def test_the_test_above_can_fail() -> None:
    """A tolerance sized for parameters as short as the comparator is refused on the same data."""
    n = 100_000
    domain = DataDomain.l2_ball(1, 1.0).with_intercept(1.0)
    plan = plan_of(domain, "grouped", n=n, epsilon=100.0, radius=default_radius(domain))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    impatient = dataclasses.replace(plan, gradient_tolerance=1e-13)
    with pytest.raises(AccuracyError):
        impatient.run((1e-3 * y)[:, None], y, SeededSource(0))


@pytest.mark.parametrize(
    ("arguments", "name", "says"),
    [
        ({"noise": "grouped", "l2": 1e-9}, "l2", "Leave l2 out"),
        ({"noise": "gaussian"}, "noise", "needs delta > 0"),
        ({"noise": "cauchy"}, "noise", "must be one of"),
        ({"noise": "grouped", "l2": -1.0}, "l2", "must be a finite number > 0"),
        ({"noise": "grouped", "loss": HingeLoss()}, "loss", "must be smooth"),
    ],
    ids=str,
)
def test_messages(arguments, name, says) -> None:
    with pytest.raises(InvalidParameterError, match=says) as caught:
        plan_of(SMALL, n=500, **arguments)
    assert caught.value.name == name


@pytest.mark.parametrize("epsilon", [1e-4, 700.0, 1e4])
@pytest.mark.parametrize("loss", [LogisticLoss(), LogisticLoss(0.5), HuberLoss(), SoftmaxLoss(3)], ids=repr)
def test_extreme_budgets_have_plans(loss, epsilon) -> None:
    for noise in ("grouped", "l2"):
        assert plan_of(SMALL, noise, loss, n=50, epsilon=epsilon).bound > 0


def test_one_record_bends_by_the_squared_bound() -> None:
    """``tau = X_2^2 / (n l2)``: with another power of the bound the price is of another problem."""
    problem = LinearModelProblem(PseudoHuberLoss(1.0), DataDomain((Block(2, "l2", 100.0),)), 50, 1.0)
    assert problem.tau(3.0) == pytest.approx(100.0**2 / 150, rel=1e-12)
    for l2 in (None, 300.0):  # in coordinates in which a record has the length 1, and in its own
        (found,) = objective_perturbation.plan(problem, PrivacyParams(1.0), noise="l2", l2=l2)
        assert found.noise.event.tau == pytest.approx((1.0 if l2 is None else 1e4) / (50 * found.l2), rel=1e-12)
