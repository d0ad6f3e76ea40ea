r"""Boosting to high probability with private selection (Algorithm 4), repaired and calibrated.

Guarantee
    (epsilon, delta) for neighbors that replace one record.
Lemma
    Pieces are fixed disjoint ranges of records, and each is read by one mechanism that keeps the whole promise; later
    ones see earlier ones through what those released: adaptive parallel composition. Values of a record are clipped to
    an interval of length r, so each of the two extremes of an estimated gap ``G_i`` moves by at most ``r/m`` on m
    records either way, and the score ``-c G_i`` by a vector of range at most ``4 c r/m``: epsilon for
    ``c = m epsilon/(4 r)``, which the printed exponent ``n epsilon/(32 B)`` is for ``m = n/4`` and ``r = 2 B``.

Parts of the run, constants and the bound (Theorem 3.20, explicit): docs, Saddle points: the other methods.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from dpconvex import _validate
from dpconvex._types import final_dataclass
from dpconvex.algorithms import PredictedError, check_relation, recorded, within_floats
from dpconvex.algorithms.minimax import anytime, bias_reduced, frank_wolfe, vertex_descent
from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling
from dpconvex.mechanisms.selection import ENLARGEMENT
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import charge
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.problems.minimax.base import SaddleSection
from dpconvex.randomness import BitSource

Planner = Callable[[SimplexSaddle, PrivacyParams], SaddlePlan]
SELECTED = "candidate of the smallest estimated gap"
SELECTION_LEMMA = (
    "an estimated gap is a difference of two extremes of means of m values, clipped to an interval of length r: each "
    "moves by at most r/m either way, so scores c G have range 4 c r/m"
)


@final_dataclass(eq=False)
class BoostedPlan(SaddlePlan):
    """Public constants of one run, either ``"calibrated"`` or those of the ``"paper"``."""

    constants: str
    candidates: int  #: number I of candidates
    answers: int  #: number J of answers to each candidate
    failure: float  #: failure probability beta
    base: Planner  #: planner of the candidates
    responder: Planner  #: planner of the answers, which are problems with one player
    algorithm = "boosted_mirror_descent"
    error_share = 1.0
    noise_name = "vertex sampling"
    theorem = "Algorithm 4: mechanisms on disjoint pieces, each of the whole promise, and one exponential mechanism."

    @property
    def quarter(self) -> int:
        """Number of records in each of the four parts."""
        return self.problem.n // 4

    @cached_property
    def sampling(self) -> VertexSampling:
        """The selection: pure epsilon on the fourth part."""
        eta = self.privacy.epsilon / ENLARGEMENT**2 * (1 - 1e-9)
        return VertexSampling(Sensitivity(eta, "range", SELECTION_LEMMA), 1, eta**2 * (1 - 1e-12), 1, eta)

    @property
    def score_scale(self) -> float:
        """The factor c from an estimated gap to a score."""
        low, high = self.problem.value_range
        return self.sampling.sensitivity.value * self.quarter / (4 * (high - low)) * (1 - 1e-6)

    @cached_property
    def pieces(self) -> tuple[tuple[SaddlePlan, str, int], ...]:
        """For each kind of piece, one plan, its name, and the number of such pieces."""
        x, y = SimplexPoint.uniform(self.problem.dx), SimplexPoint.uniform(self.problem.dy)
        size = self.quarter // self.candidates
        found = [(self.base(SaddleSection(self.problem, 0, size), self.privacy), "candidate", self.candidates)]
        total, each = self.candidates * self.answers, self.quarter // (self.candidates * self.answers)
        for player, fixed, active in (("x", y, self.problem.spread[0] > 0), ("y", x, self.problem.dy > 1)):
            if active:
                section = SaddleSection(self.problem, 0, each, player, fixed)
                found.append((self.responder(section, self.privacy), f"answer in {player}", total))
        return tuple(found)

    @property
    def predicted_error(self) -> PredictedError:
        low, high = self.problem.value_range
        count, replies, beta = self.candidates, self.answers, self.failure
        candidate, *answers = (plan.predicted_error for plan, _, _ in self.pieces)
        found = (4 / beta) ** (1 / count) * candidate.bound
        found += (8 * count / beta) ** (1 / replies) * sum(each.bound for each in answers)
        means = (high - low) * math.sqrt(math.log(8 * count * (2 * replies + 1) / beta) / (2 * self.quarter))
        bound = found + 4 * means + math.log(4 * count / beta) / self.score_scale
        proved = all(each.proved for each in (candidate, *answers))
        what = f"Theorem 3.20, explicit: with probability {1 - beta:g}" + ("" if proved else "; order of a candidate")
        return PredictedError(bound, self.problem.trivial_gap, what, proved=proved)

    @property
    def expectation(self) -> float:
        return self.pieces[0][0].expectation + math.log(self.candidates) / self.score_scale

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        planned = [
            replace(release, label=f"{name} {k}: {release.label}", block=f"piece {name} {k}")
            for plan, name, count in self.pieces
            for k in range(1, count + 1)
            for release in plan.releases
        ]
        return (*planned, self.sampling.planned(SELECTED, "fourth part"))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        of_pieces = {a.statement: a for plan, _, _ in self.pieces for a in plan.assumptions}
        return (*of_pieces.values(), Assumption("values are bounded", "each record's value is clipped before the mean"))

    def describe(self) -> Mapping[str, Any]:
        kinds = {name: {"algorithm": plan.algorithm, **plan.describe()} for plan, name, _ in self.pieces}
        facts = {"candidates": self.candidates, "answers": self.answers, "failure": self.failure}
        return {**facts, "score_scale": self.score_scale, "pieces": kinds}

    def exact_bits(self, source: BitSource) -> bool:
        return self.sampling.exact_bits(source) and all(plan.exact_bits(source) for plan, _, _ in self.pieces)

    def _run(self, records: Any, source: BitSource) -> SaddleResult:
        ledger, planned = Ledger(self.privacy, self.releases), iter(self.releases)
        plans = {name: plan for plan, name, _ in self.pieces}
        m, count, J = self.quarter, self.candidates, self.answers
        size, total = m // count, count * J
        each = m // total

        def solve(name: str, section: SaddleSection) -> SaddleResult:
            plan: SaddlePlan = replace(cast(Any, plans[name]), problem=section)  # it depends on no record
            for _ in plan.releases:
                ledger.record(next(planned))
            return plan.run(records, source)

        found = [solve("candidate", SaddleSection(self.problem, i * size, size)) for i in range(count)]  # S1
        xs, ys = [[SimplexPoint.full(r.x)] for r in found], [[SimplexPoint.full(r.y)] for r in found]
        for k in range(total) if self.problem.spread[0] > 0 else ():  # S2: answers to y_i
            section = SaddleSection(self.problem, m + k * each, each, "x", ys[k // J][0])
            xs[k // J].append(SimplexPoint.full(solve("answer in x", section).x))
        for k in range(total) if self.problem.dy > 1 else ():  # S3: answers to x_i
            section = SaddleSection(self.problem, 2 * m + k * each, each, "y", xs[k // J][0])
            ys[k // J].append(SimplexPoint.full(solve("answer in y", section).x))
        # S4: the selection, on records that no candidate or answer has read
        session = self.sampling.start(SELECTED, source, ledger, "fourth part")
        gaps = np.array([self._gap(records, x, y) for x, y in zip(xs, ys, strict=True)])
        chosen = found[int(session.draw(-self.score_scale * gaps)[0])]
        return self.finish(chosen.x, chosen.y, source)

    def _gap(self, records: Any, xs: list[SimplexPoint], ys: list[SimplexPoint]) -> float:
        """Estimate on the fourth part the gap of the pair of first points, over all points as answers."""
        m = self.quarter
        rows = slice(3 * m, 4 * m)
        above = max(self.problem.value_sum(records, rows, xs[0], y) for y in ys)
        return (above - min(self.problem.value_sum(records, rows, x, ys[0]) for x in xs)) / m


@recorded("boosted_mirror_descent")
def plan(
    problem: SimplexSaddle, privacy: PrivacyParams,
    *, constants: str = "calibrated", tuning: str = "measured", failure: float = 0.05,
) -> BoostedPlan:  # fmt: skip
    """Return the plan of Algorithm 4. Sees no data.

    ``constants="paper"``: ``I = ceil(log2(4/beta))``, ``J = ceil(log2(8 I/beta))``, Algorithm 3 for the candidates and
    one-pass private Frank-Wolfe for the answers, with their printed constants. Calibrated: Algorithms 1 and 5 (1 where
    5 does not apply). With ``tuning="measured"`` few candidates, since a candidate fails with a small probability
    already; with ``"bound"`` the printed I and J, and candidates with a bound of their own, for a small bound that
    holds with probability ``1 - failure``. `failure` is beta, in (0, 1).
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("tuning", tuning, ("measured", "bound"))
    _validate.real("failure", failure, above=0.0, below=1.0)
    paper = constants == "paper"
    planners = (_PRINTED_BASE, _PRINTED_ANSWER) if paper else (_BASES[tuning], _respond)
    count, replies = max(2, math.ceil(math.log(4 / failure, 100))), 2
    if paper or tuning == "bound":
        count = math.ceil(math.log2(4 / failure))
        replies = math.ceil(math.log2(8 * count / failure))
    if problem.n // 4 // (count * replies) < 8:
        what = f"must be at least {32 * count * replies} for I={count}, J={replies}"
        raise InvalidParameterError("n", problem.n, what, "Use Algorithm 1")
    charge(40 * count * replies)
    found = BoostedPlan(problem, privacy, constants, count, replies, failure, *planners)
    with within_floats(problem.name):
        _ = found.releases  # raises unless every piece can be planned
    return found


def _bounded_base(problem: SimplexSaddle, privacy: PrivacyParams) -> SaddlePlan:
    output = "reuse" if problem.bilinear else "fresh"  # outputs with proved bounds
    return vertex_descent.plan(problem, privacy, output=output, tuning="bound")


def _respond(problem: SimplexSaddle, privacy: PrivacyParams) -> SaddlePlan:
    try:
        return anytime.plan(problem, privacy)
    except InvalidParameterError:
        return vertex_descent.plan(problem, privacy)


_BASES: dict[str, Planner] = {"measured": vertex_descent.plan, "bound": _bounded_base}
_PRINTED_BASE: Planner = partial(bias_reduced.plan, constants="paper")
_PRINTED_ANSWER: Planner = partial(frank_wolfe.plan_variance_reduced, constants="paper")
