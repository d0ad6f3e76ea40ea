r"""Mirror descent with vertex sampling (Gonzalez, Guzman and Paquette 2024, Algorithm 1), repaired and calibrated.

Guarantee
    (epsilon, delta)-DP, or epsilon-DP, for neighbors that replace one record, n public.
Lemma
    A record sits in one batch r and enters all later scores through one term, ``step g^r``, evaluated at points that
    are functions of earlier draws. So *given the earlier draws* the scores of every later draw move by one vector, of
    range at most ``step_b spread_b/|B_r|`` in block b. Each draw then costs that range squared over 8 in zCDP, and zCDP
    adds up over adaptive draws; draws before the batch cost nothing. The charge is the worst r (`vertex_schedule`).
    Nothing is claimed for sampling: batches are disjoint and the state keeps every past gradient.
Assumptions, each enforced
    Gradients are clipped record by record (`SimplexSaddle`), sums are divided by the planned batch size, batches are
    disjoint slices of a fixed order, gradients are taken at drawn points only and never at the iterates, every draw is
    charged (query points, and fresh output draws), the schedule sees public facts only, scores are kept exactly on a
    grid and drawn from exactly (`VertexSampling`), non-finite numbers become 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, forwarded
from dpconvex.algorithms import PredictedError, check_relation, recorded, within_floats
from dpconvex.algorithms.base import beyond_floats
from dpconvex.algorithms.minimax import base
from dpconvex.algorithms.minimax.vertex_schedule import Schedule, calibrated
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling, VertexSession
from dpconvex.mechanisms.vertex_sampling import ENLARGEMENT
from dpconvex.plugins import of_paper
from dpconvex.privacy import PrivacyParams, Sensitivity
from dpconvex.problems import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

OUTPUTS = ("auto", "tapered", "reuse", "fresh")
LEMMA = (
    "a record enters all later scores by one gradient, clipped record by record; their difference has at most the "
    "range step * spread / batch size (mirror descent with vertex sampling, Section 2.1 of the specification)"
)


@final
@dataclass(frozen=True, eq=False)
class VertexDescentPlan(base.VertexSamplingPlan):
    """Constants of one run of Algorithm 1, ``"calibrated"`` or the ``"paper"``'s."""

    constants: str
    schedule: Schedule
    algorithm = "vertex_mirror_descent"
    label = "drawn vertices, whose averages are the query points and the output"
    theorem = (
        "Proposition 3.3, by adaptive composition of exponential mechanisms in zCDP, each with the range of its "
        "score difference."
    )
    expectation = forwarded("schedule", "expected")  # pyright: ignore[reportIncompatibleMethodOverride]

    @cached_property
    def sampling(self) -> VertexSampling:
        layout, sizes = self.schedule.layout, self.schedule.sizes.astype(np.float64)
        up, exposed = 1 + 1e-12, layout.draws_after.astype(np.float64)
        reaches = np.multiply(self.schedule.steps, self.problem.spread) * up
        largest = float((reaches.max() / sizes).max()) * up
        squares = float((exposed / sizes**2).max() * (reaches**2).sum()) * up
        range_sum = float((exposed / sizes).max() * reaches.sum()) * up if self.privacy.pure else None
        most = int(layout.draws_after[0]) * int((reaches > 0).sum())
        drawn = layout.draws * (1 + (self.problem.dy > 1))
        return VertexSampling(Sensitivity(largest, "range", LEMMA), most, squares, drawn, range_sum)

    @property
    def predicted_error(self) -> PredictedError:
        """Bound on the expected strong duality gap on the distribution of the records; see `vertex_schedule`."""
        trivial = self.problem.trivial_gap
        if not math.isfinite(self.schedule.bound):
            return PredictedError(trivial, trivial, "the range of values: output='fresh' has a bound of its own")
        return PredictedError(self.schedule.bound, trivial, "explicit form of Theorem 3.1 (docs, Saddle points)")

    def describe(self) -> Mapping[str, Any]:
        layout, sizes = self.schedule.layout, self.schedule.sizes
        return {
            "iterations": layout.T,
            "samples": layout.K,
            "output": "tapered" if layout.tapered else "reuse" if layout.reuse else "fresh",
            "batches": "balanced" if layout.balanced else "equal",
            "batch_sizes": {"first": int(sizes[0]), "last": int(sizes[-1]), "total": int(sizes.sum())},
            "steps": list(self.schedule.steps),
        }

    def _run(self, records: Any, source: BitSource) -> base.SaddleResult:
        problem, schedule, layout = self.problem, self.schedule, self.schedule.layout
        session = self.start(source)
        state: list[Floats] = [np.zeros(problem.dx), np.zeros(problem.dy)]  # log x^t, log y^t: never leave the run
        output = [np.zeros_like(s) for s in state]
        batches = (*base.batch_slices(schedule.sizes), None)  # the last iterate is released, and never queried
        for rows, weight in zip(batches, layout.output_weights.tolist(), strict=True):
            # 1. Query points: averages of K vertices, drawn from the iterates.
            points = _averages(session, state, layout.K) if layout.reuse or rows is not None else []
            # 2. The output averages the same points, or one fresh draw.
            released = points if layout.reuse else _averages(session, state, 1)
            for total, point in zip(output, released, strict=True):
                total[point.indices] += weight * point.weights
            # 3. A step along the mean gradients of fresh records at the query points.
            if rows is not None:
                gradients = problem.gradient_sums(records, rows, points[0], points[1])
                for s, g, step, sign in zip(state, gradients, schedule.steps, base.SIGNS, strict=True):
                    s += self.sampling.on_grid(sign * step / (rows.stop - rows.start) * g)
        x, y = (total / total.sum() for total in output)  # rounding only
        return self.finish(x, y, source)


def _averages(session: VertexSession, state: list[Floats], count: int) -> list[SimplexPoint]:
    """Average `count` vertices of each block."""
    draws = base.drawn(session, state, count)
    return [SimplexPoint.average(vertices, len(s)) for vertices, s in zip(draws, state, strict=True)]


@recorded("vertex_mirror_descent")
def plan(
    problem: SimplexSaddle,
    privacy: PrivacyParams,
    *,
    constants: str = "calibrated",
    output: str = "auto",
    batches: str = "balanced",
    tuning: str = "measured",
    iterations: int | None = None,
    samples: int | None = None,
) -> VertexDescentPlan:
    """Return the plan of Algorithm 1. Sees no data.

    ``constants="calibrated"``: steps from the zCDP accountant, the rest as `output`, `batches` and `tuning` say.
    ``"paper"``: the printed choices (delta positive), equal batches and fresh outputs. `iterations` and `samples` are T
    and K instead of what public facts suggest.

    The output averages the query points, which costs no further draws, with weights that rise and fall (``"tapered"``)
    or equal ones (``"reuse"``); or one fresh draw an iteration (``"fresh"``). All are private. Fresh draws have a
    proved bound, equal weights for bilinear games; tapered ones, the default, are the most accurate by measurement.
    Batches are ``"balanced"``, for up to 3/2 times the step of ``"equal"`` ones. Tuning minimizes the ``"bound"``, or
    the bound with its terms weighted by what they were ``"measured"`` to be, which makes a difference for problems that
    are not bilinear: larger steps, fewer samples.
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("output", output, OUTPUTS)
    _validate.choice("batches", batches, ("balanced", "equal"))
    _validate.choice("tuning", tuning, ("measured", "bound"))
    if iterations is not None and _validate.integer("iterations", iterations, at_least=2) > problem.n:
        raise InvalidParameterError("iterations", iterations, f"must be at most n={problem.n}")
    _validate.optional(_validate.integer, {"samples": samples}, at_least=1)
    if not math.isfinite(sum(problem.spread) + sum(problem.lipschitz)):
        raise InvalidParameterError("problem", problem.name, "must have bounded gradients", "Clip them")
    base.require_records(problem)
    with within_floats(problem.name):
        if constants == "paper":
            printed = of_paper("vertex_mirror_descent")
            schedule = printed(problem, privacy.epsilon, privacy.delta, T=iterations, K=samples)
        else:
            schedule = calibrated(
                problem,
                base.range_budget(privacy) / ENLARGEMENT * (1 - 1e-6),
                pure=privacy.pure,
                reuse=output != "fresh",
                tapered=output in ("auto", "tapered"),
                balanced=batches == "balanced",
                T=iterations,
                K=samples,
                measured=tuning == "measured",
            )
    if not np.isfinite(schedule.steps).all():
        raise beyond_floats(problem.name)
    return VertexDescentPlan(problem, privacy, constants, schedule)
