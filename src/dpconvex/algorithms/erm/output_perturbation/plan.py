r"""Black-box output perturbation (Lowy and Razaviyayn, Algorithms 1 and 6, repaired): constants, listing, planner.

Guarantee
    Epsilon-DP (delta = 0) or (epsilon, delta)-DP for neighbors that replace one record, or one user.
Lemma
    The regularized empirical risk is ``l2``-strongly convex and two neighbors differ by a ``2L/n``-Lipschitz part, so
    exact minimizers differ by at most ``2L/(l2 n)`` in l2 (Proposition 2.2), and the solver's point, within ``r`` of
    the exact minimizer *for every data set*, by at most ``2L/(l2 n) + 2r``. Tilted losses: ``1/n`` becomes the largest
    weight of one record, ``C/(C + n - 1)``; objectives that are no average: 1. Points of a ball of radius R are at most
    2R apart (`schedules`). For users, n counts users and f is a user's weighted sum of losses
    (`problems.data.users`), which is convex and L-Lipschitz; the proofs use no more.
Noise
    Density proportional to ``exp(-epsilon ||z||_2 / sensitivity)`` or Gaussian.
Assumptions
    ``L`` is the loss's slope bound times the largest feature norm of the domain; every record is clipped into the
    domain. ``r`` and ``l2`` come from public facts.
Deviations
    ``constants="paper"``: repaired forms only (errata P1, P2, U1). The released vector is projected only where the
    constants hold in a ball alone (tilted problems, `Problem.local`), in which such problems are solved.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate, algorithms
from dpconvex._types import Array, Floats, attributes, forwarded
from dpconvex.algorithms.base import USER_LOSS, P
from dpconvex.algorithms.erm.output_perturbation import schedules
from dpconvex.algorithms.predicted_error import reach_quantile, simulations
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import L2Norm
from dpconvex.mechanisms import GaussianMechanism, NormNoiseMechanism
from dpconvex.plugins import of_paper
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import UserGroups
from dpconvex.problems.base import Problem
from dpconvex.randomness import BitSource
from dpconvex.sets import ConvexSet, L2Ball, WholeSpace
from dpconvex.solvers import NAMED_SOLVERS, Guaranteed, Solver, default_solver

LABEL = "regularized minimizer"
TARGETS = ("empirical", "population")
NOISES = ("auto", "l2", "gaussian")
OTHER_NOISE = "Other kinds are objective perturbation's: smooth losses without tilt, attack or population risk"
_K = "K the largest distance of two records' gradients at a minimizer, 2L in general"

LEMMAS = {
    "average": f"strong convexity (Proposition 2.2): K/(l2 n), {_K}, plus 2r for the certified solver accuracy",
    "tilted": (
        f"strong convexity and the largest weight of one record (Lemma 5.2, repaired): K/l2 C/(C+n-1), {_K}, plus 2r "
        "for the certified solver accuracy; at most twice the radius of the ball"
    ),
    "whole": (
        "strong convexity (Proposition 2.2): K/l2, K the largest distance of two neighbors' gradients, 2L in general, "
        "plus 2r for the certified solver accuracy"
    ),
}
THEOREMS = {
    "average": (
        "Output perturbation (Lowy and Razaviyayn, Propositions 2.2 and 3.1 with a sure accuracy): the certified "
        f"minimizer moves by at most K/(l2 n) + 2r between neighbors, {_K}; noise covers that distance."
    ),
    "tilted": (
        "Output perturbation of a tilted risk (Lowy and Razaviyayn, Lemma 5.2 with a repaired proof, "
        "Proposition 3.1 with a sure accuracy): the certified minimizer moves by at most K/l2 C/(C+n-1) + 2r "
        f"between neighbors, {_K}, C = exp(tilt times the range of the loss in the ball), and by at most twice "
        "the ball's radius; noise covers the smaller distance."
    ),
    "whole": (
        "Output perturbation of an objective that is no average (Lowy and Razaviyayn, Propositions 2.2 and 3.1 with a "
        "sure accuracy): the certified minimizer moves by at most K/l2 + 2r between neighbors, K the largest distance "
        "of two neighbors' gradients, 2L in general; noise covers that."
    ),
}
DIAMETER_LEMMA = "points of a ball are at most twice its radius apart"
DIAMETER_THEOREM = (
    "Whatever the solver returns is projected to a public ball, whose points are at most 2R apart; noise covers that "
    "distance. Privacy rests on no constant of the objective, nor on convexity, nor on the solver's accuracy."
)
DIAMETER_ASSUMPTIONS = (Assumption("what is released before noise lies in the ball", "it is projected there"),)
_CHECKED = "a certificate (gradient norm, gap, or a step count proven for every data set) is checked before the release"
ACCURACY_ASSUMPTIONS = (
    Assumption("the objective is l2-strongly convex", "the regularizer is part of the objective"),
    Assumption("the solver's point is within r of the exact minimizer for every data set", _CHECKED),
)
_COMPUTED = "computed from the loss's values at the largest predictions and targets that the clipped records allow"
TILT_ASSUMPTIONS = (
    Assumption("the minimizer lies in the ball", "the regularizer or a constraint keeps it there for all data"),
    Assumption("C bounds the ratio of two records' weights everywhere in the ball", _COMPUTED),
)
RETURNS = Assumption(
    "the caller's function returns for every data set: it neither raises nor runs forever nor shows records elsewhere",
    "written by the caller, not enforced",
)
DECLARED = "declared by the caller, not enforced"


@dataclass(frozen=True)
class OutputPerturbationPlan(algorithms.ConvexPlan[P]):
    """Constants of one run of output perturbation."""

    problem: P  # pyright: ignore[reportGeneralTypeIssues]
    privacy: PrivacyParams
    schedule: schedules.Schedule  #: Regularization, sensitivity, solver radius, bound
    noise_name: str  #: "l2" or "gaussian"
    mechanism: NormNoiseMechanism | GaussianMechanism  #: The calibrated noise
    deviation: float  #: Standard deviation of the noise in every coordinate
    solver: Solver  #: A fast solver, and the guaranteed solver that takes over if it fails
    constants: str  #: "calibrated" or "paper"
    target: str = "empirical"  #: "empirical" or "population": the excess that is bounded
    printed: float | None = None  #: The bound that the paper prints for such problems
    asked: str = "auto"  #: The solver that the caller asked for
    algorithm: ClassVar[str] = "output_perturbation"
    l2 = forwarded("schedule", "l2")
    #: Distance to the exact minimizer that the solver certifies.
    solver_radius = forwarded("schedule", "solver_radius")
    mechanisms = algorithms.uses({LABEL: "mechanism"})

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        bound, source, trivial = self.schedule.bound, self.schedule.source, self.problem.trivial
        return algorithms.PredictedError(bound, trivial, source, self.printed, self.expected)

    @cached_property
    def expected(self) -> float | None:
        """Expected excess of a linear model on typical data; None for other problems, tilts, attacks, population."""
        typical = self.problem.typical
        if typical is None or self.target != "empirical":
            return None
        return typical.unlearned(self.l2) + typical.released_noise(self.coefficient_deviation)

    @property
    def only_sums(self) -> bool:
        return self.solver.only_sums and self.problem.only_sums

    @property
    def constraint(self) -> ConvexSet:
        """The set over which solvers minimize: all points, a ball if minimizers might leave it, cones under attack."""
        return _constraint(self.problem, self.schedule)

    @property
    def ball(self) -> ConvexSet:
        """The set onto which the solver's point is projected before noise: the ball that holds the minimizer, or all.

        The projection is non-expansive and does not move the minimizer, so the point stays within the solver radius.
        """
        return WholeSpace() if math.isinf(self.schedule.ball) else L2Ball(self.schedule.ball)

    @property
    def output_set(self) -> ConvexSet:
        """The set onto which the noisy point is projected (post-processing): the ball if the bound needs it, or all."""
        return self.ball if self.schedule.projected else WholeSpace()

    @property
    def theorem(self) -> str:
        accurate = THEOREMS[self.problem.aggregation]
        return algorithms.in_units(accurate if self.schedule.needs_accuracy else DIAMETER_THEOREM, self.privacy)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        code = (RETURNS,) if self.problem.claims else ()
        if not self.schedule.needs_accuracy:
            return (*DIAMETER_ASSUMPTIONS, *code)
        tilts = TILT_ASSUMPTIONS if self.problem.aggregation == "tilted" else ()
        claims = tuple(Assumption(claim, DECLARED) for claim in self.problem.claims)
        return (*ACCURACY_ASSUMPTIONS, *[USER_LOSS] * self.problem.grouped, *tilts, *claims, *code)

    @property
    def coefficient_deviation(self) -> Floats:
        return np.full(self.problem.dim, self.deviation)

    @property
    def exact_deviation(self) -> bool:
        # A noisy point that is projected does not stay where it is.
        return self.schedule.needs_accuracy and self.output_set == WholeSpace()

    def noise_reach(self) -> Floats | None:
        """Quantiles of the noise, plus the solver radius; None where privacy does not need the solver's accuracy.

        A projection of the sum can move a coordinate by the noise's length, which then replaces the coordinate's noise.
        """
        if not self.schedule.needs_accuracy:
            return None
        noise = self.mechanism.simulate(*simulations(self.problem.dim))
        if self.output_set != WholeSpace():
            noise = np.repeat(np.linalg.norm(noise, axis=1, keepdims=True), self.problem.dim, axis=1)
        return reach_quantile(np.abs(noise) + self.solver_radius)

    def describe(self) -> Mapping[str, Any]:
        sensitivity = self.schedule.sensitivity
        moves = {"minimizer_sensitivity": sensitivity} if math.isfinite(sensitivity) else {}
        target = {"target": self.target} if self.target != "empirical" else {}
        solver = {"solver": self.asked} if self.asked != "auto" else {}
        balls = attributes(self.schedule, "ball", "reach") if math.isfinite(self.schedule.ball) else {}
        return {**moves, "solver_radius": self.solver_radius, "noise": self.noise_name, **target, **solver, **balls}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        risk = self.problem.objective(X, y, self.l2, groups)  # lines 1, 2: F_lambda of records in the public domain
        found = self.solver.solve(risk, self.solver_radius, self.constraint)  # line 3: w_T
        point = algorithms.require(found, self.solver_radius) if self.schedule.needs_accuracy else found.point
        solved = self.problem.parameters(point)  # no further from the minimizer than in the solver's variables
        noisy = self.mechanism.release(self.ball.project(solved), LABEL, source, ledger)  # line 4: w_T + z
        return self.finish(self.output_set.project(noisy), source)


@algorithms.recorded("output_perturbation")
def plan(
    problem: P, privacy: PrivacyParams, *, constants: str = "calibrated", l2: float | None = None,
    noise: str = "auto", target: str = "empirical", solver: str = "auto",
) -> tuple[OutputPerturbationPlan[P], ...]:  # fmt: skip
    """Return the valid plans, one for each kind of noise: ``"l2"`` and, for ``delta > 0``, ``"gaussian"``.

    ``constants="calibrated"``: sharp schedule and the exact Gaussian. ``"paper"``: repaired printed schedule, ZWB
    Gaussian; tilted losses then need `l2` (the paper treats strongly convex ones). `l2` is given when the regularized
    objective itself is the target, else chosen from public facts. ``target="population"``: the excess on the
    distribution that records are drawn from independently, not on the data (averages only), which changes
    regularization and bound; privacy holds either way. `solver`, a name of `NAMED_SOLVERS`, takes the place of the
    usual one; the guaranteed one stands behind it. It costs time alone.
    """
    algorithms.check_relation(privacy, users=True)
    algorithms.check_unit(problem, privacy)
    algorithms.require_plain(problem)
    _validate.choice("target", target, TARGETS)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("noise", noise, NOISES, OTHER_NOISE)
    _validate.choice("solver", solver, ("auto", *NAMED_SOLVERS))
    if noise == "gaussian" and privacy.pure:
        raise InvalidParameterError("noise", noise, "needs delta > 0", "Give delta, or use a pure noise")
    if l2 is not None:
        l2 = _validate.real("l2", l2, above=0.0)
    if math.isinf(problem.lipschitz):
        raise InvalidParameterError("loss", problem.name, "must have a bounded slope", "Give it a prediction_bound")
    if problem.aggregation != "average" and target == "population":
        what = "tilted loss" if problem.aggregation == "tilted" else "whole objective"
        raise InvalidParameterError("target", target, f"must be 'empirical' for a {what}, which is no average")
    if not problem.trusted and constants == "paper":
        raise InvalidParameterError("constants", constants, "must be 'calibrated' where trusted=False: it uses claims")
    if problem.aggregation == "tilted" and constants == "paper" and l2 is None:
        remedy = "The paper treats strongly convex tilted losses only; use constants='calibrated' or give l2"
        raise InvalidParameterError("l2", None, "must be given for a tilted loss with constants='paper'", remedy)
    kinds = ([] if noise == "gaussian" else ["l2"]) + ([] if privacy.pure or noise == "l2" else ["gaussian"])
    with algorithms.within_floats(problem.name):
        return tuple(_one(problem, privacy, constants, l2, kind, target, solver) for kind in kinds)


def _one(
    problem: P, privacy: PrivacyParams, constants: str, l2: float | None, kind: str, target: str, solver: str
) -> OutputPerturbationPlan[P]:
    delta = privacy.delta if kind == "gaussian" else 0.0
    if constants == "paper":
        schedule = of_paper("output_perturbation")(problem, l2, privacy.epsilon, delta, target)
        if schedule.sensitivity < schedules.minimizer_sensitivity(problem, schedule.l2, schedule.ball):
            raise InvalidParameterError("constants", constants, "must cover how far the minimizer moves")
    else:
        _, deviation = _noise(1.0, "unit", problem, privacy, kind, constants)
        e2 = problem.dim * deviation**2
        e1 = math.sqrt(e2) if kind == "gaussian" else problem.dim / privacy.epsilon
        schedule = schedules.calibrated(problem, l2, e1, e2, target)
    lemma = LEMMAS[problem.aggregation] if schedule.needs_accuracy else DIAMETER_LEMMA
    mechanism, deviation = _noise(schedule.reach, lemma, problem, privacy, kind, constants)
    chosen = _solver(solver, problem, _constraint(problem, schedule))
    printed = schedules.printed_bound(problem, l2, privacy.epsilon, delta, target)
    return OutputPerturbationPlan(
        problem, privacy, schedule, kind, mechanism, deviation, chosen, constants, target, printed, asked=solver
    )


def _solver(name: str, problem: Problem, constraint: ConvexSet) -> Solver:
    """Return the usual solver, or the named solver, followed by the usual solver's guaranteed last resort."""
    tilted = problem.aggregation == "tilted"
    usual = default_solver(problem.bounds, constraint, problem.dim, tilted=tilted)
    if name == "auto":
        return usual
    asked = NAMED_SOLVERS[name]()
    both = Guaranteed(asked, usual.last)
    reason = both.refusal(problem.bounds, constraint, problem.dim)
    reason = asked.unfit(tilted=tilted, weighted=problem.grouped) or reason
    if reason is not None:
        raise InvalidParameterError("solver", name, f"does not solve this problem: it {reason}", "Use solver='auto'")
    return both


def _constraint(problem: Problem, schedule: schedules.Schedule) -> ConvexSet:
    confined = problem.local or schedule.ball < problem.minimizer_norm(schedule.l2)
    return problem.constraint(schedule.ball if confined else math.inf)


def _noise(
    reach: float, lemma: str, problem: Problem, privacy: PrivacyParams, kind: str, constants: str
) -> tuple[NormNoiseMechanism | GaussianMechanism, float]:
    """Return the mechanism for a minimizer that moves by at most `reach`, and its deviation in each coordinate."""
    sensitivity = Sensitivity(reach, "l2", algorithms.in_units(lemma, privacy), unit=privacy.unit)
    if kind == "l2":
        pure = NormNoiseMechanism(L2Norm(problem.dim), sensitivity, privacy.epsilon)
        return pure, pure.scale * math.sqrt(problem.dim + 1)
    method = "zwb" if constants == "paper" else "analytic"
    gaussian = GaussianMechanism.calibrate(sensitivity, privacy.epsilon, privacy.delta, problem.dim, method=method)
    return gaussian, gaussian.sigma
