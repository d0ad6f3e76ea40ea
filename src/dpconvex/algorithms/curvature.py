r"""Objective perturbation, and a noisy curvature at the point that it released: what intervals are made of.

Guarantee
    For neighbors that replace one record, or one user. Pure: ``epsilon_1`` of the minimizer (objective perturbation,
    with its determinant and its output noise) plus ``epsilon_2`` of the curvature. Gaussian, records only: (epsilon,
    delta) by (3.4t) of the docs, a field of the minimizer's own event: its union bound has vertices at which slopes do
    not differ, which the curvature's shift makes dear. To add the squares of two Gaussian prices understates delta.
Lemma
    Theorem 2 of the docs, Intervals (basic, adaptive composition), and Theorem 3 there for Gaussian noise: given the
    released parameters, what is released is a sum over records of ``G_i``, a function of record i alone to the last
    bit, for *any* such parameters. So its loss is Gaussian with a shift of at most ``curvature_mu`` given the rest.
Sensitivity
    Lemma 2 there, with ``0 <= phi'' <= c``, ``|phi'| <= A``. Half of what a replaced record moves a block of G by, in
    l1, is at most

    - ``c s_a s_b`` for the products of two columns or categories bounded by ``s_a, s_b`` (1 for a category);
    - ``c`` for the levels of a category: ``phi'' (p_1^2, .., p_d^2, 1 - |p|^2)`` is ``phi''`` times a point of a
      simplex for *every* p, so the last entry, which sees cells without a level, is private too;
    - ``c`` for products of the weights p of a shape's vertices, ``phi'' p_k p_l`` with ``k <= l``: they are at least 0
      and add up to at most ``phi''``. With a vertex for missing cells only neighbors overlap, and no others are read;
    - ``c s^2 / 2`` for the square of a number, which lies in ``[0, c s^2]``, and ``A^2 / 2`` for a squared slope.

    A level with itself has no other entries, and with the constant it has the same numbers: no noise is spent there.
    Second moments of gradients (`robust`) have the same blocks with ``A^2`` for c. All of it is one vector with one
    norm, the grouped norm of these blocks. Gaussian: the l2 norm, each block in a unit of its own, where the same
    bounds hold, for products of two categories and for levels over the root of 2 (two points of ``c`` times a simplex).

    Users (Lemma 3 there): what a user adds is the mean of its records' ``G_i``, in the same convex sets. Its gradient g
    is a mean, too, so its second moments ``g g^T`` have entries for every pair of columns: two levels of a category may
    both stand in it. In l1 a block of g is at most ``A s_a``: halves are ``A^2 s_a s_b``, also for a category with
    itself (upper triangle), and ``A^2 s_a^2 / 2`` for a number.
Assumptions
    Records are clipped into the domain; computed ``phi''`` and ``|phi'|`` are clipped to their bounds. For privacy p is
    any point of a simplex. For *coverage* it is a level or, for a cell that is missing or not listed, its center, as
    schemas encode it: then the entries give all of ``E phi'' p p^T``, off its diagonal too.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, cast

import numpy as np

from dpconvex import _rounding, algorithms
from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.objective_perturbation.plan import MINIMIZER, ObjectivePerturbationPlan
from dpconvex.algorithms.erm.objective_perturbation.planner import GAUSSIANS, check_noise, coordinates, gaussian
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.erm.two_stage.ranges import RangedPlan
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm, gaussian_block_weights
from dpconvex.inference.intervals import Released, Spread, spread
from dpconvex.losses import CurvatureLaw
from dpconvex.mechanisms import GaussianMechanism, GaussianObjectiveNoise, NormNoiseMechanism, Planned
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity, Unit
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data import summation
from dpconvex.problems.data.records import RowBlock
from dpconvex.problems.data.users import mean_of_users, record_weights
from dpconvex.problems.linear.expected_risk import evenness
from dpconvex.problems.linear.second_moments import DEVIATION, UP, Layout, largest, layout_of, moments
from dpconvex.problems.linear.shapes import Pair
from dpconvex.randomness import BitSource

TYPICAL = 1 / 9  #: Expected variance of a number, in units of its squared bound; shares are chosen for a smaller one.
SPREAD = 1 / 4  #: Variance of a widely spread number; if intervals are infinite even then, no curvature is paid for.
CURVATURE = "curvature at the released parameters"  #: Label of the release in ledgers and certificates.
LEMMA = "a replaced record moves each block by at most twice its half-width (docs, Intervals, Lemma 2)"
USERS = "a replaced user moves each block by at most twice its half-width (docs, Intervals, Lemma 3)"
MOST_COLUMNS = 40  #: Largest number of columns: with more, noise in their products leaves hardly any finite interval.


@final_dataclass
class Tuning:
    """Shares of a budget, and the assumed table for which they are chosen: ``benchmarks/intervals.py``."""

    #: Shares tried for the curvature: of epsilon, or of the squared shift that all Gaussian noise together may have
    shares: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
    determinant: tuple[float, float] = 0.25, 0.1  #: Share of ``epsilon_1`` if curvature is not free: pure, Gaussian
    output: float = 0.98  #: Share of ``epsilon_1`` that output noise leaves, where curvature is free at the floor
    #: Costs of noise in squared slopes and in second moments of gradients, relative to noise in the curvature
    slopes: float = 0.01
    scores: float = 0.1
    logistic: float = 0.11  #: Assumed mean curvature of logistic losses; for others `other` times the largest curvature
    other: float = 0.7
    ratio: float = 0.05  #: Assumed mean squared slope over mean curvature; for logistic losses it is 1 instead


TUNING = Tuning()


@final_dataclass(eq=False)
class InferencePlan(TwoStagePlan):
    """Objective perturbation, `then`, and a release for intervals, whose values a run stores in `noisy`."""

    then: ObjectivePerturbationPlan
    share: float  #: Share for the curvature, of epsilon or of the squared shift that all Gaussian noise may have
    robust: bool  #: Whether second moments of gradients are released; else they are proportional to the curvature
    #: Noise of the curvature's entries, the gradients' entries, and for records the sum of squared slopes, in units
    second: NormNoiseMechanism | GaussianMechanism
    units: Floats
    noisy: tuple[float, ...] = ()
    uncounted: tuple[str, ...] = ()  #: Categories whose last level, of other values, no forecast counts as finite
    algorithm: ClassVar[str] = "objective_perturbation_with_curvature"
    predicted_error = forwarded("then", "predicted_error")

    @property
    def theorem(self) -> str:
        kept = "This promise covers coefficients, standard errors, intervals and tests."
        how = "Basic composition with a" if self.mechanisms else "One event with Gaussian noise, formula (3.4t): a"
        return f"{how} noisy curvature at the released parameters. {self.then.theorem} {kept}"

    @property
    def layout(self) -> Layout:
        """The released entries of the curvature."""
        return layout_of(self.problem.domain, self.problem.shapes)

    @property
    def score_layout(self) -> Layout:
        """The released entries of the second moments of gradients, if any."""
        return layout_of(self.problem.domain, self.problem.shapes, self.problem.grouped)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {} if isinstance(self.second, GaussianMechanism) else {CURVATURE: self.second}

    @property
    def releases(self) -> tuple[Release, ...]:  # Gaussian noise is priced inside the minimizer's event
        return (*self.then.releases, *(each.planned(label) for label, each in self.mechanisms.items()))

    @property
    def course(self) -> tuple[Any, ...]:
        return (self.noisy,) if self.noisy else ()

    def resumed(self, *course: Any) -> "InferencePlan":
        if [len(each) for each in course] != [len(self.units)] or not np.isfinite(course[0]).all():
            raise InvalidParameterError("noisy", len(course), f"must be {len(self.units)} finite numbers")
        return algorithms.continued(self, noisy=tuple(map(float, course[0])))

    def describe(self) -> Mapping[str, Any]:
        facts = {"share": self.share, "entries": len(self.units), "robust": self.robust}
        return {**self.then.describe(), "curvature_release": facts}

    def at(self, privacy: PrivacyParams) -> "InferencePlan":
        return plan(self.problem, privacy, robust=self.robust)

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        ledger = Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover
        if isinstance(joint := self.then.noise, GaussianObjectiveNoise):
            ledger.record(joint.planned(MINIMIZER))  # one price for both lines
        result = self.then.run(X, y, source, groups)  # line 1: the minimizer, on the grid of its output noise
        problem, layout, loss = self.problem, self.layout, cast(Any, self.problem.loss)
        records, targets = problem.clipped(X, y)
        weights = None if groups is None else record_weights(groups)
        bounds = (loss.curvature_bound, loss.slope_bound**2)[: 1 if groups else 2]
        weighed = records if weights is None or targets is not None else records.weighted(weights)

        def work(block: RowBlock) -> summation.Parts:
            z, labels = block.predict(result.point), block.targets_in(targets)  # at the *released* parameters
            seen = loss.hessian_weights(z, labels), np.square(loss.derivative(z, labels))
            share = block.weights_in(weights)
            return tuple(moments(layout, block, each, most, share) for each, most in zip(seen, bounds, strict=False))

        bends, *slopes = map(summation.gram, weighed.total(work), (largest(layout, most) for most in bounds))
        last = problem.domain.dim - 1
        if groups is None:
            parts = [*[slopes[0][*layout.places]] * self.robust, [slopes[0][last, last] / problem.domain.intercept**2]]
        else:
            facts, size = (loss, records, targets, groups, weights, result.point), self._score_bounds
            parts = [problem.n * size * mean_of_users(*facts, self._products, 2.0)]
        value = np.concatenate([bends[*layout.places], *parts])
        if isinstance(joint, GaussianObjectiveNoise):  # line 2
            noisy = self.units * joint.add_curvature_noise(value / self.units, MINIMIZER, source, ledger)
        else:
            noisy = self.second.release(value, CURVATURE, source, ledger)
        return self.resumed(noisy).finish(result.point, source, result.status)

    @cached_property
    def _score_bounds(self) -> Floats:
        """For each entry of second moments, half of the distance by which a replaced user moves the entry's block."""
        halves, sizes = zip(*self.score_layout.blocks, strict=True)
        return self.problem.loss.slope_bound**2 * np.repeat(halves, sizes)

    def _products(self, G: Floats) -> Floats:
        """Return the second moments of users' gradients (m, d) divided by `_score_bounds`: at most 2 in magnitude."""
        layout, most = self.score_layout, self.problem.loss.slope_bound
        G = np.clip(np.nan_to_num(G), -most * layout.widths, most * layout.widths)
        for k in layout.categories.values():  # rounding alone makes them longer
            G[:, k] /= np.maximum(1.0, np.abs(G[:, k]).sum(1, keepdims=True) / most)
        i, j = layout.places
        return G[:, i] * G[:, j] / self._score_bounds

    def released(self, w: Floats) -> Released:
        """Return the released values, parameters w (d,) and `noisy`, in the form that intervals need."""
        n, factor, layout = self.problem.n, self.then.problem.factor, self.layout
        assert factor is not None  # the planner of `then` ensures it
        D, G, second = len(layout.patterns), np.array(self.noisy or np.zeros(len(self.units))) / n, self.second
        gaussian = isinstance(second, GaussianMechanism)
        sizes = self.units * second.sigma if gaussian else second.scale * np.sqrt(second.norm.coordinate_variances)
        sizes = sizes / n
        S = self.score_layout.patterns[: len(self.score_layout.patterns) * self.robust]
        slopes = G[-1] / (self.problem.domain.intercept**2 if self.problem.grouped else 1.0)
        linear = np.diag(np.square(self.then.deviations))  # coordinates of the ridge are uncorrelated
        own = (n, self.l2, w, np.asarray(factor.matrix.todense()), linear, self.then.output.deviation)
        levels = tuple(layout.categories.values())
        scores, noise = G[D : D + len(S)], sizes[D : D + len(S)]
        return Released(*own, G[:D], slopes, sizes[:D], layout.patterns, levels, layout.widths, scores, noise, S)

    def draws(self, size: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
        """Simulate the linear term (size, p), and the noise of the curvature's mean entries (size, D)."""
        noise = (self.units * self.second.simulate(size, generator))[:, : len(self.layout.patterns)]
        return self.then.noise.simulate(1, size, generator), noise / self.problem.n

    def _planned(self, more: float = 0.0) -> tuple[Released, Spread]:
        """Return the expected release for the planned table, with `more` variance of numbers, and its spread."""
        loss, given = self.problem.loss, self.released(np.ones(self.problem.domain.dim))
        F, weight, ratio = given.factor, TUNING.other * loss.curvature_bound, TUNING.ratio
        if loss.curvature_law == CurvatureLaw.LOGISTIC:
            weight, ratio = TUNING.logistic * evenness(loss.told), 1.0
        numbers = [block.norm != "simplex" for block in self.problem.domain.blocks]
        each = np.append(np.repeat(numbers, [block.size for block in self.problem.domain.blocks]), False)
        H = weight * F.T @ (self.layout.planned + np.diag(more * each * np.square(self.layout.widths))) @ F
        center, v = given.linear / given.n**2 + ratio * H / given.n, 1 / np.linalg.norm(F, axis=0)
        return given, spread(H, center, F, v, self.l2, given.patterns, given.deviations)

    @cached_property
    def expected_deviation(self) -> float:
        """Mean standard error of the coordinates if the table is as planned; infinite if none would be known."""
        found = self._planned()[1]
        return float(np.sqrt(found.covariance.diagonal()).mean()) if found.converged else math.inf

    @cached_property
    def expected_intervals(self) -> tuple[float, int, int]:
        return self.half_widths(*self._planned(TYPICAL - DEVIATION**2))

    @property
    def hopeless(self) -> bool:
        return super().hopeless or not self.expected_intervals[1]

    @property
    def outlook(self) -> str:
        return super().outlook if self.expected_intervals[1] else "no interval is expected to be finite"

    @property
    def hopeful(self) -> bool:
        """Whether an interval is expected to be finite if numbers are spread widely."""
        return self.half_widths(*self._planned(SPREAD - DEVIATION**2))[1] > 0

    def half_widths(self, given: Released, found: Spread) -> tuple[float, int, int]:
        """Return the median half-width of the encoded coefficients that are known, their number, and that of all."""
        c, F = given.factor[:-1], given.factor
        entries = np.einsum("ik,fij,jl->fkl", F, given.patterns, F, optimize=True)
        seen = found.visible(c, entries, given.deviations)
        seen[[self.layout.categories[name][-1] for name in self.uncounted]] = False
        wide = [1.0 if block.norm == "simplex" else 2 * block.bound for block in self.problem.domain.blocks]
        each = 1.96 * np.repeat(wide, [block.size for block in self.problem.domain.blocks])
        half = each * np.sqrt(np.einsum("ij,jk,ik->i", c, found.covariance, c))
        return (float(np.median(half[seen])) if seen.any() else math.inf), int(seen.sum()), len(c)

    @property
    def remark(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        half, finite, of = self.expected_intervals
        of_target = " of the target's range" * (self.problem.loss.task == "regression")
        return f"intervals +-{half:.2g}{of_target}, {finite} of {of} finite" if finite else "no finite interval"


def inference_of(plan: Any) -> InferencePlan | None:
    """Return the part of a plan that is for intervals, alone or after private ranges; None if it has none."""
    plan = plan.then if isinstance(plan, RangedPlan) else plan
    return plan if isinstance(plan, InferencePlan) else None


@algorithms.recorded("objective_perturbation_with_curvature")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams,
    robust: bool = False, l2: float | None = None, noise: str = "auto",
) -> InferencePlan:  # fmt: skip
    """Return the plan whose share for the curvature makes intervals shortest on a table that public facts suggest.

    If no interval is expected to be finite, even for widely spread numbers, the curvature gets the smallest share.
    `robust` also releases second moments of gradients, as is always done for users. `l2` is by default smaller than
    without inference (half the floor of free curvature for logistic losses), because the ridge's shrinkage is corrected
    to first order only. With delta, noise is Gaussian unless `noise` names a pure one, and the ridge is at that floor;
    for users noise is pure.
    """
    algorithms.check_average(problem, privacy, factored=True)
    check_noise(problem, privacy, noise)
    domain, remedy = apart(problem.domain), "Use two classes, fit_intercept=True, fewer columns or levels"
    if domain != problem.domain:
        problem = replace(problem, domain=domain, factor=None)
    if any(block.size > 1 and block.norm in ("l1", "l2") for block in domain.blocks):
        what = "must have bounds of their own for inference: no feature_norm, no domain in l1 or l2"
        raise InvalidParameterError("features", "bounded together", what, "Give feature_bounds, or a schema")
    smooth = math.isfinite(problem.smoothness)
    if problem.loss.n_outputs > 1 or domain.intercept == 0 or domain.dim > MOST_COLUMNS or not smooth:
        what = f"must have a smooth loss, one output, a constant, at most {MOST_COLUMNS} encoded columns for inference"
        given = f"{problem.loss.n_outputs} outputs" if problem.loss.n_outputs > 1 else f"{domain.dim} columns"
        raise InvalidParameterError("problem", given, what, remedy)
    if problem.shapes is None:
        problem = replace(problem, factor=coordinates(domain, plain=l2 is not None))
    elif any(isinstance(each, Pair) for each in problem.shapes.vertices):
        raise InvalidParameterError("interactions", "pairs", "cannot be given with inference", "Leave them out")
    pure, robust = privacy.pure or problem.grouped, robust or problem.grouped
    usual = "grouped" if pure else "weighted_gaussian"
    kind, noise = usual if noise == "auto" else noise, noise if pure or noise != "auto" else usual
    tried = [_at(problem, privacy, share, robust, l2, kind) for share in TUNING.shares]
    best = min(reversed(tried), key=lambda each: each.expected_deviation)
    best = best if best.hopeful else tried[0]
    return best if kind == noise else _at(problem, privacy, best.share, robust, l2, noise)


def apart(domain: DataDomain) -> DataDomain:
    """Return a domain that holds this one, in which a number and its mark of missing values are bounded one by one."""
    blocks = list[Block]()
    for block in domain.blocks:
        marked = block.norm == "l1" and block.size == 2
        blocks += [Block(1, "linf", block.bound, block.name)] * 2 if marked else [block]
    return replace(domain, blocks=tuple(blocks))


def _at(
    problem: LinearModelProblem, privacy: PrivacyParams, share: float, robust: bool, l2: float | None, noise: str
) -> InferencePlan:
    if noise in GAUSSIANS:
        ridge, (units, moved) = _ridge(problem, privacy.epsilon, True) if l2 is None else l2, _units(problem, robust)
        within = partial(GaussianMechanism.of_mu, moved, dim=len(units))
        if (then := gaussian(problem, privacy, noise, ridge, share, within)) is None:
            raise InvalidParameterError("l2", l2, "is too small for this epsilon", "Leave l2 out, or raise it")
        return InferencePlan(problem, privacy, then, share, robust, cast(Any, then.noise).curvature, units)
    second = _rounding.product_down(share, privacy.epsilon)
    first = replace(privacy, epsilon=_rounding.difference_down(privacy.epsilon, second))
    ridge = _ridge(problem, first.epsilon, False) if l2 is None else l2
    then = min(objective_perturbation.plan(problem, first, l2=ridge, noise=noise), key=lambda each: each.expected)
    mechanism = NormNoiseMechanism(*_norm(problem, robust), second)
    return InferencePlan(problem, privacy, then, share, robust, mechanism, np.ones(mechanism.norm.dim))


def _ridge(problem: LinearModelProblem, epsilon: float, joint: bool) -> float:
    """Return the smallest ridge that the price of curvature allows: intervals correct its bias to first order only."""
    loss = problem.loss
    if loss.curvature_law == CurvatureLaw.LOGISTIC:
        tau = epsilon / 2 if joint else epsilon
    elif loss.self_concordance is not None:
        tau = (1.0 if joint else TUNING.output) * epsilon / (2 * loss.self_concordance)
    else:
        spent = TUNING.determinant[joint] * min(epsilon, 20.0)  # for users, whose Hessians have any rank, at most
        tau = (spent if problem.grouped else math.expm1(spent)) / loss.curvature_bound
    return problem.tau(1.0) / tau


@lru_cache(maxsize=64)  # all shares have the same
def _norm(problem: LinearModelProblem, robust: bool) -> tuple[GroupedNorm, Sensitivity]:
    """Return the norm of the release, and its sensitivity for a sum over n records."""
    domain, costs = _entries(problem, robust)
    norm = GroupedNorm.for_domain(domain, costs)
    return norm, _moved(problem, norm.record_bound(domain), norm.name, norm.dim)


@lru_cache(maxsize=64)
def _units(problem: LinearModelProblem, robust: bool) -> tuple[Floats, Sensitivity]:
    """Return the unit of each entry for Gaussian noise of one size, and the sensitivity in these units."""
    units, length = gaussian_block_weights(*_entries(problem, robust, in_l2=True))
    return units, _moved(problem, length, "l2", len(units))


def _moved(problem: LinearModelProblem, length: float, norm: str, entries: int) -> Sensitivity:
    # Of sums and of units, once each, for entries are exact up to then; users' gradients err by parts of the widest.
    ends = layout_of(problem.domain, problem.shapes).widths
    rounding = 1 + (4e-14 * ends.max() / ends.min() if problem.grouped else 2.0**-51) * problem.n * entries
    lemma, unit = (USERS, Unit.USER) if problem.grouped else (LEMMA, Unit.RECORD)
    return Sensitivity(_rounding.product_up(2.0, length, rounding), norm, lemma, unit=unit)


def _entries(problem: LinearModelProblem, robust: bool, in_l2: bool = False) -> tuple[DataDomain, tuple[float, ...]]:
    """Return blocks of the half-widths, and the relative cost of noise in each.

    They define a norm only: squares are not points of the domain, and differences of two lie in twice the domain.
    """
    c, square = problem.loss.curvature_bound, problem.loss.slope_bound**2
    facts = problem.domain, problem.shapes
    kinds = [(layout_of(*facts), c, 1.0)]
    kinds += [(layout_of(*facts, problem.grouped), square, TUNING.scores * (c / square) ** 2)] * robust
    blocks, costs = list[Block](), list[float]()
    for layout, most, factor in kinds:
        own = np.append(layout.planned.diagonal(), [1 / len(k) for k in layout.categories.values()])
        each, sizes = 1 / np.prod(own[layout.places], axis=0), [size for _, size in layout.blocks]
        halves = layout.lengths if in_l2 else [half for half, _ in layout.blocks]
        blocks += [Block(size, "l1", most * half) for half, size in zip(halves, sizes, strict=True)]
        parts = np.split(each, np.cumsum(sizes)[:-1])
        costs += [factor * float(part.mean()) for part in parts]  # entries matter beside their columns' own
    if not problem.grouped:
        blocks.append(Block(1, "l1", square / 2 * UP))
        costs.append(TUNING.slopes * max(costs[: len(kinds[0][0].blocks)]) * (c / square) ** 2)
    return DataDomain(tuple(blocks)), tuple(costs)
