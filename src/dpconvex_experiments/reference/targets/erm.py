"""Targets of the audit for empirical risk minimization: records, heavy tails, users, searches.

Most problems have one feature, so that sensitivities are attained.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms import LinearModelPlan, curvature
from dpconvex.algorithms.erm import (
    gradient_descent,
    heavy_tailed,
    output_perturbation,
    sufficient_statistics,
    user_level,
)
from dpconvex.algorithms.erm.heavy_tailed import Moments, clipped_gradient, localization, registry
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.sufficient_statistics import plan_adaptive_ridge
from dpconvex.algorithms.erm.two_stage import constant, joint_bound, projection, ranges, recentering, typical_user
from dpconvex.algorithms.search import plan as search
from dpconvex.algorithms.select import Options
from dpconvex.estimators import PrivateLinearSVC, PrivateSearchCV
from dpconvex.losses import (
    AbsoluteLoss,
    HingeLoss,
    HuberLoss,
    LinearModelLoss,
    LogisticLoss,
    SmoothedHingeLoss,
    SquaredLoss,
)
from dpconvex.privacy import Neighboring, PrivacyParams, Unit
from dpconvex.problems import Block, CustomProblem, DataDomain, LinearModelProblem, LocationLoss, Objective
from dpconvex.problems.base import Bounds
from dpconvex.randomness import BitSource
from dpconvex.sets import Box, ConvexSet
from dpconvex.solvers import Solver, SolverResult
from dpconvex.solvers.base import Start
from dpconvex_experiments.audit.neighbors import linear_subject, record_pairs
from dpconvex_experiments.audit.target import Builder, Pair, Subject, Use, builder, targets
from dpconvex_experiments.reference import exponential_mechanism

N = 3  #: Number of records: so few that one of them moves the result far.
SEARCHED = 6  #: Number of records of a search. Two of them are held out, so one record moves a score far.
CAP = 1 / (1 + math.e)
"""Largest slope of a capped logistic loss. Opposite records both attain it if their margins are within 1 of 0."""
RIDGE = 4.0
"""Weight of the ridge over the squared bound of the features: it keeps margins in the linear part of the hinge."""
SHARE = 1e-3  #: Share of the radius of `WorstSolver` to which its inner solver is accurate.


def linear_problem(loss: LinearModelLoss, bound: float, n: int = N, records: int | None = None) -> LinearModelProblem:
    """Return a problem with one column, whose values are in the interval [-bound, bound]."""
    return LinearModelProblem(loss, DataDomain((Block(1, "linf", bound),)), n, 1.0 / bound, records_per_user=records)


def _counted(problem: LinearModelProblem, privacy: PrivacyParams) -> LinearModelProblem:
    """Return the problem, in which the number of units is private if the promise is for added or removed units."""
    return replace(problem, private_n=not privacy.neighboring.fixes_size)


def _beside_a_constant(loss: LinearModelLoss, privacy: PrivacyParams, bound: float) -> LinearModelProblem:
    domain, records = DataDomain((Block(1, "linf", bound),), bound), 2 if privacy.unit == Unit.USER else None
    return LinearModelProblem(loss, domain, N, 1.0 / bound, records_per_user=records)


def _added(build: Builder) -> Builder:
    """Return the builder for the relation in which one unit is added or removed."""
    return lambda privacy, bound: build(replace(privacy, neighboring=Neighboring.ADD_OR_REMOVE_ONE), bound)


@builder
def _output(
    privacy: PrivacyParams, bound: float, noise: str, loss: LinearModelLoss, ridge: float | None = RIDGE
) -> Subject:
    l2 = None if ridge is None else ridge * bound**2
    problem = linear_problem(loss, bound, records=2 if privacy.unit == Unit.USER else None)
    return linear_subject(plans(problem, privacy, "output_perturbation", Options(l2=l2, noise=noise))[0])


@final_dataclass
class WorstSolver(Solver):
    """A solver as wrong as its certificate allows: it moves a nearly exact point from 0 by the rest of the radius."""

    inner: Solver

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        return self.inner.refusal(loss, constraint, dim)

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        found = self.inner.solve(objective, SHARE * radius, constraint, start)
        length = float(np.linalg.norm(found.point))
        away = found.point / length if length else np.ones_like(found.point) / np.sqrt(objective.dim)
        moved = found.point + (1 - 2 * SHARE) * radius * away
        return replace(found, point=moved, accuracy=replace(found.accuracy, bound=radius))


@builder
def _worst_solver(privacy: PrivacyParams, bound: float, noise: str, constants: str = "calibrated") -> Subject:
    problem, l2 = linear_problem(HingeLoss(), bound), RIDGE * bound**2
    plan = output_perturbation.plan(problem, privacy, constants=constants, l2=l2, noise=noise)[0]
    return linear_subject(replace(plan, solver=WorstSolver(plan.solver)))


@builder
def _objective(
    privacy: PrivacyParams, bound: float, noise: str, loss: LinearModelLoss, ridge: float = 100.0,
    most_rows: int | None = None,
) -> Subject:  # fmt: skip
    problem = _counted(linear_problem(loss, bound, records=2 if privacy.unit == Unit.USER else None), privacy)
    l2 = ridge * loss.curvature_bound * bound**2 / (N * privacy.epsilon)
    options = Options(l2=l2, noise=noise, most_rows=most_rows)
    return linear_subject(plans(problem, privacy, "objective_perturbation", options)[0])


def _curvature(privacy: PrivacyParams, bound: float) -> Subject:
    """Minimizer and curvature are released; near 0 a record adds nothing to the column's curvature, or the most."""
    plan = curvature.plan(_beside_a_constant(LogisticLoss(), privacy, bound), privacy, robust=True)
    return Subject(plan, linear_subject(plan).pairs, lambda found: np.append(found.point, found.plan.noisy))


def _grid(privacy: PrivacyParams, bound: float) -> Subject:
    return linear_subject(exponential_mechanism.plan(linear_problem(HingeLoss(), bound), privacy)[0])


def _localized(privacy: PrivacyParams, bound: float) -> Subject:
    problem = linear_problem(SmoothedHingeLoss(0.5), bound)
    return linear_subject(exponential_mechanism.plan_localized(problem, privacy, RIDGE * bound**2)[0])


@builder
def _noisy(privacy: PrivacyParams, bound: float, steps: int, **options: Any) -> Subject:
    """All steps see gradients of full length, so on samples only noise hides whether a record takes part."""
    problem = _counted(linear_problem(HingeLoss(), bound, records=2 if privacy.unit == Unit.USER else None), privacy)
    return linear_subject(gradient_descent.plan(problem, privacy, steps=steps, clip=problem.lipschitz, **options))


def _noisy_blocks(privacy: PrivacyParams, bound: float) -> Subject:
    """The columns have unequal ranges, so each has a separate scale in the clipping and in the noise."""
    domain = DataDomain((Block(1, "linf", bound), Block(1, "linf", bound / 16)), bound / 4)
    return linear_subject(
        gradient_descent.plan(LinearModelProblem(LogisticLoss(), domain, N, 1.0 / bound), privacy, steps=4)
    )


@builder
def _statistics(privacy: PrivacyParams, bound: float, planner: Callable[..., LinearModelPlan]) -> Subject:
    """There are two columns, so that the products of two records can be orthogonal."""
    domain = DataDomain((Block(2, "l2", bound),))
    per_user = 2 if privacy.unit == Unit.USER else None
    problem = LinearModelProblem(SquaredLoss(1.0), domain, N, 1.0 / bound, records_per_user=per_user)
    return linear_subject(planner(problem, privacy))


def _recentered(privacy: PrivacyParams, bound: float) -> Subject:
    """There are hardly more units than the plan needs; the release of the method that follows has a known law."""
    n = math.ceil(1.01 * recentering.TUNING.miscount / (max(recentering.TUNING.length_shares) * privacy.epsilon))
    domain = DataDomain((Block(1, "linf", bound),), bound)
    records = 2 if privacy.unit == Unit.USER else None
    problem = LinearModelProblem(HingeLoss(), domain, n, 1.0 / bound, records_per_user=records)
    return _then_released(recentering.plan, problem, privacy, Options(l2=RIDGE * bound**2))


def _joint(privacy: PrivacyParams, bound: float) -> Subject:
    """As few columns and units as the plan needs; the release of the method that follows has a known law."""
    tuning = joint_bound.TUNING
    n = math.ceil(1.01 * tuning.looked / (max(tuning.shares) * privacy.epsilon))
    domain = DataDomain((Block(tuning.columns, "linf", bound, "flags", "binary"),), bound)
    records = 2 if privacy.unit == Unit.USER else None
    problem = LinearModelProblem(HingeLoss(), domain, n, 1.0 / bound, records_per_user=records)
    planner = partial(plans, algorithm="output_perturbation", options=Options(l2=RIDGE * bound**2))
    return linear_subject(joint_bound.plan(problem, privacy, planner, planner)[0])


def _projected(privacy: PrivacyParams, bound: float) -> Subject:
    """Eight columns are projected to four, for a method whose release has a known law."""
    problem = LinearModelProblem(HingeLoss(), DataDomain.l2_ball(8, bound), N, 1.0 / bound)
    return _then_released(projection.plan, problem, privacy, Options(l2=RIDGE * bound**2, noise="l2"))


def _then_released(first: Any, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> Subject:
    return linear_subject(first(problem, privacy, lambda *rest: plans(*rest, "output_perturbation", options))[0])


def _constant(privacy: PrivacyParams, bound: float) -> Subject:
    """A constant replaces the column, for a method whose release has a known law."""
    problem = _beside_a_constant(HingeLoss(), privacy, bound)
    return _then_released(constant.plan, problem, privacy, Options(l2=RIDGE * bound**2, noise="l2"))


def _classes(privacy: PrivacyParams, bound: float) -> Subject:
    """The constant follows from a noisy histogram of the classes."""
    return linear_subject(plans(_beside_a_constant(LogisticLoss(), privacy, bound), privacy, "constant")[0])


@builder
def _looked(privacy: PrivacyParams, bound: float, **at: Any) -> Subject:
    """Half of epsilon pays for choosing parts of declared ranges, half for a method whose releases have known laws."""
    records, options = 2 if privacy.unit == Unit.USER else None, Options(l2=RIDGE / 4, noise="l2")
    n = max(N, round(8 / privacy.epsilon)) if records is None and privacy.neighboring.fixes_size else N
    problem = linear_problem(HuberLoss(0.5, 0.5), 0.5, n, records=records)  # looks scale columns to [-1/2, 1/2]
    half = replace(privacy, epsilon=privacy.epsilon / 2)
    if not privacy.neighboring.fixes_size:  # so small a delta that the audit refutes a halved sensitivity
        privacy, half = (replace(each, delta=1e-9) for each in (privacy, half))
        then = gradient_descent.plan(_counted(problem, privacy), half, steps=4, clip=problem.lipschitz)
        return linear_subject(ranges.plan(then, privacy, (), **at))
    found = linear_subject(ranges.plan(plans(problem, half, "output_perturbation", options)[0], privacy, (), **at))
    ends = [(np.append(np.full(n - 1, 0.5), end)[:, None], np.full(n, 0.5)) for end in (0.5, -0.5)]
    return replace(found, pairs={"the fuller end": Pair(*ends), **found.pairs})


def _typical(privacy: PrivacyParams, bound: float) -> Subject:
    """Users are counted by their numbers of records, for a method whose release has a known law."""
    problem = linear_problem(HingeLoss(), bound, records=2)
    return _then_released(typical_user.plan, problem, privacy, Options(l2=RIDGE * bound**2, noise="l2"))


@builder
def _heavy(privacy: PrivacyParams, bound: float, loss: LinearModelLoss, n: int = N) -> Subject:
    return linear_subject(heavy_tailed.plan(linear_problem(loss, bound, n), privacy, Moments(2.0, bound)))


def _extended(privacy: PrivacyParams, bound: float) -> Subject:
    """Losses are extended over a box; for the worst neighbors, planes need the normal of one of its faces."""
    problem = linear_problem(AbsoluteLoss(1e9), bound)
    constraint = Box(-problem.radius / 2, problem.radius / 2, dim=problem.dim)
    moments, options = Moments(2.0, bound), {"surrogate": "extension", "constraint": constraint}
    return linear_subject(heavy_tailed.plan(replace(problem, radius=constraint.radius), privacy, moments, **options))


def _clipped(privacy: PrivacyParams, bound: float) -> Subject:
    problem, moments = linear_problem(HuberLoss(), bound), Moments(2.0, bound)
    return linear_subject(clipped_gradient.plan(problem, privacy, moments, steps=3, level=bound))


@builder
def _selected(privacy: PrivacyParams, bound: float, algorithm: str, known: bool) -> Subject:
    """Methods for heavy tails: a moment bound is `known`, or the run finds a level, on records that no pair changes."""
    problem = linear_problem(HuberLoss(1.0, 2.0), bound, n=20 if known else 21)
    return linear_subject(registry.heavy_plans(problem, privacy, 2.0, bound if known else None, algorithm)[0])


def _level(privacy: PrivacyParams, bound: float) -> Subject:
    """Only the scale is audited. Pairs differ in the last of 20 records, which it reads; the worst is 0 elsewhere."""
    problem = linear_problem(HuberLoss(1.0, 2.0), bound, n=20)
    plan = registry.heavy_plans(problem, privacy, 2.0, None, "heavy_tailed")[0]
    one = np.zeros((20, problem.domain.dim))
    one[-1, 0] = 2 * bound
    alone = Pair((one, np.ones(20)), (0 * one, np.ones(20)))
    return Subject(plan, {"alone": alone, **record_pairs(problem)}, lambda found: np.array(found.plan.released))


def _custom(privacy: PrivacyParams, bound: float) -> Subject:
    """A custom loss that is steeper than the level, so that its extension over the ball is another function."""
    problem = CustomProblem(LocationLoss(DataDomain.box(1, bound), bound / 10), N, bound)
    plan = localization.plan_custom(problem, privacy, Moments(2.0, 0.2))
    ends = [np.array([[bound], [-bound], [sign * bound]]) for sign in (1.0, -1.0)]
    heap = [np.array([[0.0], [0.0], [sign * bound]]) for sign in (1.0, -1.0)]
    pairs = {name: Pair(*((X, np.zeros(N)) for X in both)) for name, both in (("ends", ends), ("heap", heap))}
    return Subject(plan, pairs)


@builder
def _phased(privacy: PrivacyParams, bound: float, aggregate: str) -> Subject:
    users = 20
    problem = linear_problem(AbsoluteLoss(), bound, n=users, records=4)
    plan = user_level.plan_phased(problem, privacy, groups=users, phases=1, aggregate=aggregate)
    phases = tuple(replace(phase, step_size=10 / bound**2) for phase in plan.phases)  # only accuracy needs small steps
    return linear_subject(replace(plan, schedule=replace(plan.schedule, phases=phases)))


@builder
def _accelerated(
    privacy: PrivacyParams, bound: float, test: str, n: int = 200, sample: int | None = None, cohort: int | None = None
) -> Subject:
    problem = linear_problem(LogisticLoss(), bound, n=n, records=4)
    return linear_subject(user_level.plan_accelerated(problem, privacy, test=test, sample=sample, cohort=cohort))


def _informed(privacy: PrivacyParams, bound: float) -> Subject:
    """With a constant, the look reads labels too; the last user's labels turn, which changes share, bin and gradients.

    The column is binary, so the look leaves it out: these users would not move it, and its share would be lost.
    """
    domain = DataDomain((Block(1, "linf", bound, values="binary"),), bound)
    problem = LinearModelProblem(LogisticLoss(), domain, N, 1.0 / bound, records_per_user=2)
    plan = gradient_descent.plan_informed(_counted(problem, privacy), privacy)
    # Privacy may not rest on how a run is planned from the look. Here it takes the look's gradient for mere noise, and
    # the level of slopes is tiny: vectors are then cut, so that pairs use all of the budget for them.
    look = replace(plan.look, deviations=(*plan.look.deviations[:2], 1e9))
    object.__setattr__(look, "slope_level", lambda _, way: 1e-9 * float(np.linalg.norm(way)))
    return linear_subject(replace(plan, look=look))


@builder
def _search(privacy: PrivacyParams, bound: float, method: str, ratio: float = 9.0) -> Subject:
    """Two weights of the ridge, one `ratio` times the other, for output perturbation of known law, in one dimension."""
    domain = DataDomain((Block(1, "linf", bound),))
    fixed: dict[str, Any] = {"classes": [-1.0, 1.0], "fit_intercept": False, "noise": "l2"}
    base = PrivateLinearSVC(privacy.epsilon, domain=domain, algorithm="output_perturbation", **fixed)
    grid = {"l2": [4 * bound**2, 4 * ratio * bound**2]}
    plan = PrivateSearchCV(base, grid, method=method, holdout=1 / 3).plan(SEARCHED)[0]

    def run(X: Any, y: Any, source: BitSource) -> Floats:
        chosen, model = search.run(plan, base, search.Part(X, y, None), source)
        return np.array([chosen, *np.ravel(model.coef_)])

    use = Use(plan.privacy, plan.algorithm, plan.releases, run)
    return Subject(use, record_pairs(plan.whole[0].plan.problem), output=np.asarray)


TARGETS = (
    *targets(
        Unit.RECORD,
        {
            "output_perturbation": ("pure", _output("l2", HingeLoss())),
            "output_perturbation/gaussian": ("approximate", _output("gaussian", HingeLoss())),
            "output_perturbation/worst_solver": ("pure", _worst_solver("l2")),
            "output_perturbation/worst_solver_gaussian": ("approximate", _worst_solver("gaussian")),
            "output_perturbation/paper_gaussian": ("approximate", _worst_solver("gaussian", "paper")),
            "output_perturbation/planned": ("pure", _output("l2", LogisticLoss(), None)),
            "objective_perturbation": ("pure", _objective("l2", SmoothedHingeLoss(0.5))),
            "objective_perturbation/curved": ("pure", _objective("l2", SmoothedHingeLoss(0.5), 1.5)),
            "objective_perturbation/logistic": ("pure", _objective("l2", LogisticLoss(), 2.0)),
            "objective_perturbation/capped": ("pure", _objective("l2", LogisticLoss(CAP), 2.0)),
            "objective_perturbation/saturating": (
                "pure",
                _objective("l2", SmoothedHingeLoss(0.5, saturating=True), 2.0),
            ),
            "objective_perturbation/capped_gaussian": ("approximate", _objective("gaussian", LogisticLoss(CAP))),
            "objective_perturbation/gaussian": ("approximate", _objective("gaussian", SmoothedHingeLoss(0.5))),
            "objective_perturbation_with_curvature": ("pure", _curvature),
            "objective_perturbation_with_curvature/gaussian": ("approximate", _curvature),
            "objective_perturbation/added": ("pure", _added(_objective("l2", SmoothedHingeLoss(0.5)))),
            "objective_perturbation/added_logistic": ("pure", _added(_objective("l2", LogisticLoss(), 2.0))),
            "exponential_mechanism": ("pure", _grid),
            "exponential_mechanism/localised": ("pure", _localized),
            "noisy_gradient": ("approximate", _noisy(4, proved=True)),
            "noisy_gradient/blocks": ("approximate", _noisy_blocks),
            "noisy_gradient/added": ("approximate", _added(_noisy(4, proved=True))),
            "noisy_gradient/samples": ("approximate", _noisy(8, rate=0.4)),
            "sufficient_statistics": ("approximate", _statistics(sufficient_statistics.plan)),
            "sufficient_statistics/adaptive_ridge": ("approximate", _statistics(plan_adaptive_ridge)),
            "random_projection": ("pure", _projected),
            "target_range": ("pure", _looked(look=True)),
            "column_ranges": ("pure", _looked(looked=(0,))),
            "target_range/added": ("approximate", _added(_looked(look=True))),
            "column_ranges/added": ("approximate", _added(_looked(looked=(0,)))),
            "recentering": ("pure", _recentered),
            "joint_bound": ("pure", _joint),
            "constant": ("pure", _constant),
            "constant/classes": ("pure", _classes),
            "heavy_tailed": ("pure", _heavy(HuberLoss())),
            "heavy_tailed/phases": ("pure", _heavy(AbsoluteLoss(1e9), 64)),
            "heavy_tailed/extension": ("pure", _extended),
            "heavy_tailed/tuned": ("pure", _selected("heavy_tailed", False)),
            "heavy_tailed/custom": ("pure", _custom),
            "localized_exponential_mechanism": ("pure", _selected("localized_exponential_mechanism", True)),
            "gradient_score": ("pure", _selected("gradient_score", True)),
            "clipped_residuals": ("pure", _selected("clipped_residuals", True)),
            "heavy_tailed/scale": ("pure", _level),
            "clipped_gradient": ("approximate", _clipped),
        },
    ),
    *targets(
        Unit.USER,
        {
            "output_perturbation/users": ("pure", _output("l2", HingeLoss())),
            "objective_perturbation/users": ("pure", _objective("l2", SmoothedHingeLoss(0.5))),
            "objective_perturbation/added_users": ("pure", _added(_objective("l2", SmoothedHingeLoss(0.5)))),
            "objective_perturbation/users_gaussian": (
                "approximate",
                _objective("gaussian", SmoothedHingeLoss(0.5), most_rows=1),
            ),
            "objective_perturbation_with_curvature/users": ("pure", _curvature),
            "noisy_gradient/users": ("approximate", _noisy(4, proved=True)),
            "noisy_gradient/added_users": ("approximate", _added(_noisy(4, proved=True))),
            "noisy_gradient/user_samples": ("approximate", _noisy(8, rate=0.4)),
            "sufficient_statistics/users": ("approximate", _statistics(sufficient_statistics.plan)),
            "informed_gradient": ("approximate", _informed),
            "informed_gradient/added": ("approximate", _added(_informed)),
            "target_range/added_users": ("approximate", _added(_looked(look=True))),
            "phased_sgd": ("approximate", _phased("plain")),
            "typical_user": ("pure", _typical),
            "recentering/users": ("pure", _recentered),
            "joint_bound/users": ("pure", _joint),
            "constant/users": ("pure", _constant),
            "constant/users_classes": ("pure", _classes),
            "accelerated_user": ("approximate", _accelerated("clipped")),
            "accelerated_user/tested": ("approximate", _accelerated("tested")),
            "accelerated_user/sampled": ("approximate", _accelerated("tested", sample=60)),
            "accelerated_user/cohorts": ("approximate", _accelerated("tested", 601, cohort=200)),
            "accelerated_user/threshold_cohorts": ("approximate", _accelerated("threshold", 601, cohort=200)),
        },
    ),
)

SEARCHES = targets(
    Unit.RECORD,
    {"private_search": ("pure", _search("composition")), "private_search/repeats": ("pure", _search("repeats"))},
)
