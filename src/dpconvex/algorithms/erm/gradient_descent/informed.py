r"""Noisy gradient descent for users that first releases a few statistics (a look), and plans the rest of the run by it.

Guarantee
    (epsilon, delta)-DP, neighbors replace one user with all records, or add or remove one.
Lemma
    Releases that are each a mean over n users of vectors that are functions of one user's records, of public facts and
    of earlier releases: (0) where there are p numeric columns, the user's mean of each in units of its half range, in
    ``[-1, 1]^p``, which moves by at most ``2 sqrt(p)/n`` in l2; and, given what was released of these centers, the root
    of the user's mean squared distance of each from it, cut to [0, 1]: ``sqrt(p)/n``; (1) the user's share of positive
    labels, in [0, 1]: ``1/n``; (2) the unit vector of the bin that the length of ``D^-1 g_u(w_0)``, or r_u if that is
    more, falls in: ``sqrt(2)/n`` in l2; (3) ``D^-1 g_u(w_0)`` over C_0, or over r_u if that is more, cut to length 1:
    ``2/n``; (4) T times the same at w_t with C for C_0: ``2/n`` each; (5) the slope ``<g_u(w_T), v>`` along the way v
    that the steps took, over its level and cut to [-1, 1]: ``2/n``; (6) by how much the slope of the constant, as if
    all labels were positive, differs where what is kept of v ends from that at w_0, over its level and cut to [-1, 1]:
    ``2/n``. g_u is the user's mean gradient in the coefficients of moved columns and of a smaller constant, r_u a
    function of the user's features, of their number and of (0). Theorem: the moves of columns, D, the start w_0, C_0,
    C, T, step size, averages, v, its level, what is kept of it and by how much the constant is moved may be any
    functions of earlier releases, for a vector is cut whatever it is, and what follows release 6 is post-processing.
    For every output of those, release i is dominated by the Gaussian pair of a constant mu_i, the T gradients together
    by that of mu_4 (`GaussianBudget`); constant pairs compose adaptively to the pair of ``mu^2 = sum mu_i^2`` (Zhu,
    Dong and Wang 2022, Theorem 10), which is what the promise allows.
Sensitivity
    As above, plus the rounding of sums (`mean_of_users`): at most `ROUNDING` times the longest vector, on either side.
    Where users are added or removed, sums are divided by a declared number (`plan`, Added or removed units): one more
    adds at most ``sqrt(p)``, ``sqrt(p)``, 1/2 (shares less 1/2), 1, 1, 1, 1 and 1 to those of (0) to (6), over n.
    Centers and widths are sums of integers, multiples of 2^-31, into which each user's number is rounded by itself.
Assumptions
    The number of users is public, or declared. Nothing is drawn: after a look no samples may be taken, for their price
    depends on rate and T together.
Accuracy
    `look` reads the releases; docs, Look first, then plan, has the model and what was measured.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate, algorithms
from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.algorithms.erm.gradient_descent import typical_steps
from dpconvex.algorithms.erm.gradient_descent.gradients import within_reach
from dpconvex.algorithms.erm.gradient_descent.look import FARTHEST, TUNING, Course, Look, kept, with_smaller_constant
from dpconvex.algorithms.erm.gradient_descent.plan import FAR
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import WeightedLoss
from dpconvex.mechanisms import GaussianBudget, GaussianMechanism
from dpconvex.privacy import Assumption, Ledger, Neighboring, PrivacyParams, Sensitivity, Unit
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.problems.base import ROUNDING
from dpconvex.problems.data.domain import shorten
from dpconvex.problems.data.sources.rows import mapped, same
from dpconvex.problems.data.users import integer_means, mean_of_users, record_weights
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

CENTERS, WIDTHS = "centers of the numeric columns, over their half ranges", "widths around these centers"
LABELS, LENGTHS = "share of positive labels", "shares of users by length of their gradients"
GRADIENT, STEPS = "mean gradient at the start, over its level", "mean gradients of all steps, over their level"
CENTERS_LEMMA = "a mean over n users of points of [-1, 1]^p changes by at most 2 sqrt(p)/n, plus rounding"
WIDTHS_LEMMA = "a mean over n users of points of [0, 1]^p changes by at most sqrt(p)/n, plus rounding"
UNITS = 2.0**31  #: Users' numbers are rounded to multiples of 1 / UNITS before they are summed.
LABELS_LEMMA = "a mean over n users of numbers in [0, 1] changes by at most 1/n when one is replaced, plus rounding"
LENGTHS_LEMMA = "one user leaves a bin and one enters another: sqrt(2)/n in the l2 norm, plus rounding"
SLOPE = "slope at the end of the way, over its level"
CONSTANT = "change of the constant's slope, labels left out, over its level"
VECTOR = 2.0, 1.0  #: Most that one replaced user, or one added user, moves a sum of vectors of length at most 1.
VECTORS_LEMMA = "a mean over n users of vectors of length at most 1 changes by at most 2/n, plus rounding"


@final_dataclass
class InformedPlan(algorithms.StatedPlan):
    """The mechanisms of a look and the budget of a descent; results hold `released`, and `ahead` follows from it."""

    centers: GaussianMechanism | None  #: None: there are no numeric columns, or noise would drown their widths
    widths: GaussianMechanism | None  #: None where `centers` is None
    labels: GaussianMechanism | None  #: None: there is no constant, or the shares of classes are public
    lengths: GaussianMechanism
    gradient: GaussianMechanism
    budget: GaussianBudget  #: The noise of all steps together
    slope: GaussianMechanism
    constant: GaussianMechanism | None  #: None where `labels` is None
    look: Look
    ahead: Course  #: The course of the run; before the look, the one that is best for typical data
    #: The released values that fix the course: centers and widths of columns, share of labels, shares of users by
    #: length, squares by block; then, after the steps, both slopes along the way and its bend, over the level of
    #: slopes, and the change of the constant's slope, over the largest slope, the ridge's part included
    released: tuple[Any, ...] = ()
    l2: float = 0.0
    neighbors = tuple(Neighboring)  # pyright: ignore[reportAssignmentType]
    noise_name = "gaussian"
    constants = "calibrated"
    algorithm: ClassVar[str] = "informed_gradient"
    only_sums = forwarded("problem", "only_sums")
    course = forwarded("released")
    theorem = (  # pyright: ignore[reportAssignmentType]
        "A look at labels, gradient lengths and one gradient, then noisy gradient descent planned from it, then a look "
        "at slopes where it ends: each release is dominated by a Gaussian pair that does not depend on earlier "
        "releases, and these compose."
    )
    assumptions = (  # pyright: ignore[reportAssignmentType]
        Assumption(
            "every user's gradient, each block's part divided by its scale, is at most as long as the level",
            "its vector is scaled down to it, also where one label could make it longer",
        ),
        Assumption(
            "levels, start, number and size of steps, what is kept of them: all follow from earlier releases only",
            "they are planned from them; the session sets the number of steps once, before the first",
        ),
    )
    mechanisms = algorithms.uses(
        {CENTERS: "centers", WIDTHS: "widths", LABELS: "labels", LENGTHS: "lengths"}
        | {GRADIENT: "gradient", STEPS: "budget", SLOPE: "slope", CONSTANT: "constant"}
    )

    def __post_init__(self) -> None:
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @property
    def clip(self) -> float:
        """Length C to which the gradients of all steps are cut."""
        return self.ahead.level * self.ahead.length * self.look.longest

    @cached_property
    def steps(self) -> typical_steps.Steps:
        """The steps, lengthened to make up for the part of typical gradients that cutting removes."""
        planned = self.ahead.choice.steps
        return replace(planned, size=planned.size / kept(self.ahead.level))

    @cached_property
    def spread(self) -> Floats:
        """Deviation (dim,) of the noise in one gradient, over the share of typical gradients that cutting leaves."""
        sigma = self.budget.each(self.ahead.choice.steps.count).sigma
        return sigma * self.clip / kept(self.ahead.level) * self.look.scales

    @property
    def share_of_way(self) -> float:
        """Share of the way that is kept, from its start; 1 until slopes are released."""
        way = self.released[-1] if self.released else ()
        return self.look.share_of_way(*way[:3], deviation=self.slope.sigma) if way else 1.0

    def constant_moved(self, noise: float = 0.0) -> float:
        """Return by how much the constant is moved, if its slope had `noise` more deviations of noise."""
        if self.constant is None:
            return 0.0
        *_, slope = self.released[-1] if self.released and len(self.released[-1]) > 3 else (0.0,)
        share, sigma = self.released[2] if self.released else 0.5, TUNING.change * self.constant.sigma
        return self.look.constant_moved(share, slope + noise * sigma, sigma) / self.problem.domain.intercept

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        problem, trivial = self.problem, min(self.problem.trivial, self.problem.lipschitz * self.problem.radius)
        variance = float(np.square(self.spread).sum())
        bound = typical_steps.quadratic_bound(self.ahead.choice.steps, self.look.problem, variance, self.l2)
        source = "noisy gradient descent after a look; an estimate: for quadratic risks of at most half the largest "
        source += "curvature, clipping bias left out"
        bound = min(bound, 2 * problem.lipschitz * problem.radius)
        sigma = 0.0 if self.constant is None else TUNING.change * self.constant.sigma
        left = self.look.constant_left(sigma) if sigma else 0.0  # from unknown labels and drift of the run
        expected, (least, few) = self.ahead.choice.expected + left, TUNING.few_users
        caution = max(TUNING.caution / math.sqrt(problem.records_per_user or 1), least * min(1.0, few / problem.n))
        return algorithms.PredictedError(bound, trivial, source, proved=False, expected=expected, caution=caution)

    @property
    def coefficient_deviation(self) -> Floats:
        walked = self.share_of_way * math.sqrt(float(self.ahead.choice.steps.response(np.zeros(1))[1][0])) * self.spread
        own, far = self.constant_moved(-1.0) - self.constant_moved(1.0), [walked[-1], *self.look.moved_parts(walked)]
        walked[-1] = math.hypot(own / 2, self.look.unit * float(np.linalg.norm(far)))
        return np.minimum(walked, self.problem.radius)

    def resumed(self, *course: Any) -> "InformedPlan":
        """Return the plan after these releases: centers, widths, share, shares by length, squares, slopes and bend."""
        center, width, share, shares, squares, way = course
        count = 0 if self.centers is None else len(self.look.columns)
        look = (self._narrowed(center, width) if len(center) == len(width) == count else self.look).told(share)
        numbers = np.array([*center, *width, share, *shares, *squares, *way], dtype=np.float64)
        needed, ends = (count, count, TUNING.bins, len(look.problem.domain.blocks)), (0, 3, 3 + bool(self.constant))
        fits = tuple(map(len, (center, width, shares, squares))) == needed and len(way) in ends
        if not fits or not np.isfinite(numbers).all():
            raise InvalidParameterError("look", course, "must hold columns twice, a share, lengths, squares, slopes")
        found = look.planned(share, np.array(shares), np.array(squares))
        released = (tuple(center), tuple(width), share, tuple(shares), tuple(squares), tuple(way))
        return algorithms.continued(self, look=look, ahead=found, released=released)

    def _narrowed(self, center: Any, width: Any) -> Look:
        return self.look.narrowed(np.array(center), np.array(width)) if len(center) else self.look

    def describe(self) -> Mapping[str, Any]:
        before = {"noise": self.noise_name, "steps": "chosen after the look"}
        if not self.released:
            return before
        found, steps, sizes = self.ahead, self.steps, [b.size for b in self.look.problem.domain.all_blocks]
        return {
            **before, "steps": steps.count, "step_size": steps.size, "momentum": steps.momentum,
            "averaged": steps.averaged, "level": self.clip, "start": found.start,
            "share_of_way": self.share_of_way, "constant_moved": self.constant_moved(),
            "typical_gradient": found.length, "assumed_signal": found.signal, "centers": list(self.look.center),
            "block_scales": self.look.scales[np.cumsum([0, *sizes[:-1]])].tolist(),
        }  # fmt: skip

    def _run(self, X: Array, y: Array, groups: UserGroups, source: BitSource) -> algorithms.PrivateResult:
        ledger, problem = Ledger(self.privacy, self.releases), self.problem
        facts = problem.loss, *problem.clipped(X, y), groups, record_weights(groups)
        mean = partial(self._mean, partial(mean_of_users, *facts))
        columns = self._columns(X, groups, source, ledger)  # line 0: where the columns lie
        seen = algorithms.continued(self, look=self._narrowed(*columns))
        look = seen.look
        begin, share = np.zeros(problem.dim), 0.5 if problem.loss.told is None else problem.loss.told[1]
        least = seen._least_lengths(X, groups)
        if self.labels is not None:  # line 1: where to start
            middle = 0.5 * problem.private_n  # one more user moves a sum of shares about it by half as much
            mean_share = mean(begin, lambda G: self._shares(G) - middle, 1.0)
            share = middle + float(self.labels.release(mean_share, LABELS, source, ledger)[0])
        begin[-1] = look.start(share)[0]
        found_in = mean(begin, seen._bins, 1.0, least)
        shares = self.lengths.release(found_in, LENGTHS, source, ledger)  # line 2: a typical length
        level = TUNING.cut * look.typical_length(np.clip(shares, -FARTHEST, FARTHEST)) * look.longest
        cut = mean(begin, partial(seen._cut, level=level), 1.0, least)
        found = self.gradient.release(cut, GRADIENT, source, ledger)  # line 3: a gradient
        course = *columns, share, tuple(shares.tolist()), tuple(look.block_squares(found).tolist())
        plan = self.resumed(*course, ())
        w = begin / np.append(np.ones(problem.dim - 1), look.unit)
        session = self.budget.start(STEPS, source, ledger)
        session.set_uses(plan.steps.count)

        def noisy(w: Floats) -> Floats:
            at = look.moved_back(w)
            released = session.release(mean(at, partial(seen._cut, level=plan.clip), 1.0, least))
            return plan.clip * look.scales * released + self.l2 * look.moved(at[None])[0]

        ball = L2Ball(FAR * look.problem.radius)  # it only keeps numbers finite
        way = plan.steps.minimize(w, noisy, ball.project) - w  # line 4: the steps
        unit = look.slope_level(plan.ahead, way)
        at = look.moved_back(w), look.moved_back(w + way)
        along = mean(at[1], partial(seen._slope, over=way / unit), 1.0)
        end = float(self.slope.release(along, SLOPE, source, ledger)[0])  # line 5: the slope at their end
        first = level / kept(TUNING.cut) * look.scales * found @ way / unit
        ridge = [self.l2 * float(look.moved(each[None])[0] @ way) / unit for each in at]
        slopes = float(first) + ridge[0], end + ridge[1], plan.look.bend(way) / unit
        plan = self.resumed(*course, slopes)
        point = look.moved_back(ball.project(w + plan.share_of_way * way))
        if self.constant is not None:  # line 6: how the constant's slope has changed there, all labels positive
            most, (_, records, targets, *_) = TUNING.change * problem.loss.slope_bound, facts
            if targets is None:  # then the record source holds the targets
                records, _ = problem.clipped(*mapped(X, y, same, np.ones_like))
            positive = None if targets is None else np.ones_like(targets)
            over = np.append(np.zeros(problem.dim - 1), 1 / (most * look.problem.domain.intercept))
            before = float(problem.loss.derivative(begin[-1:] * problem.domain.intercept, np.ones(1))[0]) / most
            change = partial(seen._slope, over=over, less=before)
            alike = partial(mean_of_users, problem.loss, records, positive, *facts[-2:])
            moved = self._mean(alike, point, change, 1.0)
            off = float(self.constant.release(moved, CONSTANT, source, ledger)[0])
            off = TUNING.change * (off + self.l2 * float(look.moved(point[None])[0] @ over))
            plan = self.resumed(*course, (*slopes, off))
            point[-1] += plan.constant_moved()
        return plan.finish(point, source)

    def _mean(self, mean: Any, w: Floats, change: Callable[..., Floats], size: float, *own: Floats) -> Floats:
        """Return the sum over users of `change` of their gradients at w, each of length at most 1, divided by n."""
        total = mean(w, change, size, self.problem.n, *own)
        return within_reach(total, 1.0) if self.problem.private_n else total

    def _columns(self, X: Any, groups: UserGroups, source: BitSource, ledger: Ledger) -> tuple[Any, Any]:
        """Release the centers of the numeric columns, and users' mean distances from them, both in half ranges."""
        if self.centers is None or self.widths is None:
            return (), ()
        places, halves = (np.array(list(each)) for each in (self.look.columns, self.look.columns.values()))

        def units(change: Callable[[Floats], Floats], rows: Floats) -> Array:
            return np.rint(change(self.problem.domain.clip(rows)[:, places] / halves) * UNITS).astype(np.int64)

        def sums(found: Array) -> Floats:
            total = found.sum(0) / UNITS / self.problem.n
            return within_reach(total, math.sqrt(len(places))) if self.problem.private_n else total

        center = self.centers.release(sums(integer_means(X, partial(units, same), groups)), CENTERS, source, ledger)
        apart = partial(units, lambda inside: np.square((inside - self.look.centers(center)) / 2))
        square = integer_means(X, apart, groups) / UNITS  # a quarter of each user's mean squared distance
        distance = np.rint(np.minimum(2 * np.sqrt(square), 1.0) * UNITS).astype(np.int64)
        width = self.widths.release(sums(distance), WIDTHS, source, ledger)
        return tuple(center.tolist()), tuple(width.tolist())

    def _shares(self, G: Floats) -> Floats:
        """Return users' shares of positive labels, (m, 1), from their mean slopes at prediction 0."""
        positive, negative = self.problem.loss.derivative(np.zeros(2), np.array([1.0, -1.0]))
        found = (G[:, -1:] / self.problem.domain.intercept - negative) / (positive - negative)
        return np.clip(np.nan_to_num(found, nan=0.0), 0.0, 1.0)

    def _least_lengths(self, X: Any, groups: UserGroups) -> Floats:
        """Return r_u (n_users,), the least length by which a user's gradient counts: about the effect of one label.

        It does not depend on labels: otherwise users of the rarer class, whose gradients are longer, would count less.
        """
        look, domain, constants = self.look, self.problem.domain, self.problem.dim - self.problem.domain.n_features
        most = 4 * look.longest / self.problem.loss.slope_bound  # records outside of narrowed columns may be longer

        def squares(rows: Floats) -> Array:
            whole = np.column_stack([domain.clip(rows), np.full((rows.shape[0], constants), domain.intercept)])
            found = np.square(look.moved(whole) / look.scales / most).sum(1, keepdims=True)
            return np.rint(np.minimum(found, 1.0) * UNITS).astype(np.int64)

        mean = integer_means(X, squares, groups)[:, 0] / UNITS
        return TUNING.label * self.problem.loss.slope_bound * most * np.sqrt(mean) / groups.sizes**TUNING.label_power

    def _bins(self, G: Floats, least: Floats) -> Floats:
        """Return the bins of the users' gradient lengths as unit vectors, (m, bins)."""
        lengths = np.linalg.norm(_finite(self.look.moved(G) / self.look.scales), axis=1)
        return np.eye(TUNING.bins)[np.searchsorted(self.look.edges, np.maximum(lengths, least))]

    def _slope(self, G: Floats, over: Floats, less: float = 0.0) -> Floats:
        """Return the slopes of users' losses along `over`, minus `less`, clipped to [-1, 1], (m, 1)."""
        slopes = (_finite(self.look.moved(G)) * over).sum(1) - less
        return np.clip(np.nan_to_num(slopes, nan=0.0), -1.0, 1.0)[:, None]

    def _cut(self, G: Floats, least: Floats, level: float) -> Floats:
        """Return users' gradients over D and over the larger of `level` and `least`, cut to length 1, (m, dim)."""
        scaled = _finite(self.look.moved(G) / self.look.scales / np.maximum(level, least)[:, None])
        shorten(scaled, "l2", 1.0)
        return scaled


def _finite(rows: Floats) -> Floats:
    """Return the rows, with 0 for rows that are not finite; in practice all are finite, as slopes are bounded."""
    return np.where(np.isfinite(rows).all(1, keepdims=True), rows, 0.0)


@algorithms.recorded("informed_gradient")
def plan_informed(problem: LinearModelProblem, privacy: PrivacyParams, *, l2: float = 0.0) -> InformedPlan:
    """Return the plan that looks first; it needs users, delta > 0, and an average of smooth losses of two classes.

    With a ridge of weight `l2`, the excess is that of the loss with the ridge. A look costs `TUNING.shares` of mu^2.
    """
    if privacy.unit != Unit.USER:
        raise InvalidParameterError("unit", str(privacy.unit), "must be 'user' for a look", "Use 'noisy_gradient'")
    algorithms.check_average(problem, privacy, InformedPlan.neighbors)
    algorithms.require_delta(privacy)
    _validate.real("l2", l2, at_least=0.0)
    loss = problem.loss
    if loss.task != "classification" or loss.n_outputs > 1 or math.isinf(problem.smoothness):
        what = "must be a smooth loss of two classes for a look"
        raise InvalidParameterError("loss", loss.name, what, "Use 'noisy_gradient'")
    if loss.usual != loss:
        raise InvalidParameterError("loss", loss.name, "must have whole slopes for a look", "Use 'noisy_gradient'")
    if isinstance(loss, WeightedLoss):  # labels are read off slopes, which needs records of weight 1
        raise InvalidParameterError("loss", loss.name, "must have records of equal weight", "Use 'noisy_gradient'")
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12)  # accountants round up
    constant = problem.domain.intercept > 0 and loss.rates is None
    columns = len(Look(problem, mu, l2, (0.0, 0.0, 0.0)).columns)
    column_share = float(np.clip(TUNING.columns_need / (problem.n * mu), *TUNING.column_share))
    own_mu = mu * math.sqrt(column_share) * (1 - 1e-15)
    centers = widths = None
    if columns and problem.domain.intercept and math.sqrt(columns) / (problem.n * own_mu) < TUNING.loud:
        root = math.sqrt(columns)
        centers = _mechanism(problem, (2 * root, root), "l2", CENTERS_LEMMA, own_mu, columns)
        widths = _mechanism(problem, (root, root), "l2", WIDTHS_LEMMA, own_mu, columns)
    before = (TUNING.shares[0] if constant else 0.0, *TUNING.shares[1:])
    columns_too = 0.0 if centers is None else 2 * column_share
    last = TUNING.slope_share, TUNING.constant_share * constant
    shares = (*before, 1 - sum(before) - columns_too - sum(last), *last)
    of_labels, of_lengths, of_gradient, of_steps, *of_last = (mu * math.sqrt(share) * (1 - 1e-15) for share in shares)
    labels = _mechanism(problem, (1.0, 0.5), "absolute", LABELS_LEMMA, of_labels, 1) if constant else None
    lengths = _mechanism(problem, (math.sqrt(2), 1.0), "l2", LENGTHS_LEMMA, of_lengths, TUNING.bins)
    gradient = _mechanism(problem, VECTOR, "l2", VECTORS_LEMMA, of_gradient, problem.dim)
    budget = GaussianBudget(_mechanism(problem, VECTOR, "l2", VECTORS_LEMMA, of_steps, problem.dim))
    slope = _mechanism(problem, VECTOR, "absolute", VECTORS_LEMMA, of_last[0], 1)
    end = _mechanism(problem, VECTOR, "absolute", VECTORS_LEMMA, of_last[1], 1) if constant else None
    deviations = 0.0 if labels is None else labels.sigma, lengths.sigma, gradient.sigma
    own = (0.0, 0.0) if centers is None or widths is None else (centers.sigma, widths.sigma)
    look = Look(with_smaller_constant(problem), of_steps, l2, deviations, own)
    look = look if loss.told is None else look.told(loss.told[1])
    first = centers, widths, labels, lengths, gradient
    return InformedPlan(problem, privacy, *first, budget, slope, end, look, look.unread(), l2=l2)


def _mechanism(
    task: LinearModelProblem, moved: tuple[float, float], norm: str, lemma: str, mu: float, dim: int
) -> GaussianMechanism:
    """Return the mechanism for a mean over users; `moved`: how far a replaced, or an added, user moves the sum."""
    relation, most = Neighboring.REPLACE_ONE, moved[0]
    if task.private_n:
        relation, most = Neighboring.ADD_OR_REMOVE_ONE, moved[1]
        lemma = f"one user more adds a vector of length at most {most:.4g} to a sum, over a declared n, plus rounding"
    value = _rounding.sum_up((_rounding.ratio_up(_rounding.widen_up(most), task.n), 2 * ROUNDING * task.most_times))
    return GaussianMechanism.of_mu(Sensitivity(value, norm, lemma, relation, Unit.USER), mu, dim)
