r"""Mirror descent with vertex sampling (Gonzalez, Guzman and Paquette 2024, Algorithm 1), repaired and calibrated.

Guarantee
    (epsilon, delta)-DP, or epsilon-DP, for neighbours that replace one record, n public.
Lemma
    A record sits in one batch r and enters all later scores through one term, ``step g^r``, evaluated at points that
    are functions of earlier draws. So *given the earlier draws* the scores of every later draw move by one vector, of
    range at most ``step_b spread_b/|B_r|`` in block b. Each draw then costs that range squared over 8 in zCDP, and zCDP
    adds up over adaptive draws; draws before the batch cost nothing. The charge is the worst r (`schedule`).
Assumptions, each enforced
    Gradients are clipped record by record (`SimplexSaddle`), sums are divided by the planned batch size, batches are
    disjoint slices of a fixed order, gradients are taken at drawn points only and never at the iterates, every draw is
    charged (query points, and fresh output draws), the schedule sees public facts only, scores are kept exactly on a
    grid and drawn from exactly (`VertexSampling`), non-finite numbers become 0.
Printed constants
    Theorem 3.1's T and K and Proposition 3.3's step; their privacy follows from the same lemma with room to spare.
Not claimed
    Amplification by sampling: batches are disjoint and the state keeps every past gradient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex.algorithms.base import beyond_floats, check_relation, within_floats
from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult
from dpconvex.algorithms.minimax.saddle_point.run import run
from dpconvex.algorithms.minimax.saddle_point.schedule import Schedule, calibrated, printed
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import VertexSampling
from dpconvex.mechanisms.vertex_sampling import ENLARGEMENT
from dpconvex.privacy import Assumption, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems.minimax.base import SimplexSaddle
from dpconvex.randomness import BitSource

OUTPUTS = ("auto", "tapered", "reuse", "fresh")
LABEL = "drawn vertices, whose averages are the query points and the output"
LEMMA = (
    "a record enters all later scores by one gradient, clipped record by record; their difference has at most the "
    "range step * spread / batch size (mirror descent with vertex sampling, Section 2.1 of the specification)"
)


@final
@dataclass(frozen=True, eq=False)
class VertexDescentPlan(SaddlePlan):
    """Constants of one run of Algorithm 1.

    Parameters
    ----------
    problem : SimplexSaddle
    privacy : PrivacyParams
    constants : {"calibrated", "paper"}
    schedule : Schedule
    """

    problem: SimplexSaddle
    privacy: PrivacyParams
    constants: str
    schedule: Schedule
    algorithm: ClassVar[str] = "vertex_mirror_descent"
    noise_name: ClassVar[str] = "vertex sampling"  # pyright: ignore[reportIncompatibleVariableOverride]

    @cached_property
    def mechanism(self) -> VertexSampling:
        """The draws of the run."""
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
        """Bound on the expected strong duality gap on the distribution of the records; see `schedule`."""
        low, high = self.problem.value_range
        trivial = min(high - low, 2 * sum(self.problem.lipschitz))
        if not math.isfinite(self.schedule.bound):
            return PredictedError(trivial, trivial, "the range of values: output='fresh' has a bound of its own")
        return PredictedError(self.schedule.bound, trivial, "explicit form of Theorem 3.1 (docs, Saddle points)")

    @property
    def expected_error(self) -> float:
        """The gap to expect, for comparisons between methods; no bound."""
        return self.schedule.expected

    @property
    def releases(self) -> tuple[Release, ...]:
        """All draws, as one release."""
        return (self.mechanism.planned(LABEL),)

    @property
    def theorem(self) -> str:
        """What proves the guarantee."""
        return (
            "Proposition 3.3, by adaptive composition of exponential mechanisms in zCDP, each with the range of its "
            "score difference."
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What holds beyond the domain."""
        return (
            Assumption("each record's gradient has the stated spread", "clipped record by record before any sum"),
            Assumption("the order of the records does not depend on their content", "declared"),
            Assumption("gradients are taken at drawn points only", "by the run's listing"),
        )

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants."""
        layout, sizes = self.schedule.layout, self.schedule.sizes
        return {
            "iterations": layout.T,
            "samples": layout.K,
            "output": "tapered" if layout.tapered else "reuse" if layout.reuse else "fresh",
            "batches": "balanced" if layout.balanced else "equal",
            "batch_sizes": {"first": int(sizes[0]), "last": int(sizes[-1]), "total": int(sizes.sum())},
            "steps": list(self.schedule.steps),
        }

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system: vertices are drawn exactly."""
        return self.mechanism.exact_bits(source)

    def _listing(self, records: Any, source: BitSource) -> SaddleResult:
        return run(self, records, source)


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

    Parameters
    ----------
    problem : SimplexSaddle
    privacy : PrivacyParams
        One replaced record; delta may be 0.
    constants : {"calibrated", "paper"}
        Steps from the zCDP accountant, or the printed choices (delta positive).
    output : {"auto", "tapered", "reuse", "fresh"}
        Average of the query points, which costs no further draws, with weights that rise and fall (``"tapered"``) or
        equal ones (``"reuse"``); or of one fresh draw an iteration. All are private. Fresh draws have a proved bound,
        equal weights for bilinear games; tapered ones, the default, are the most accurate by measurement. Printed
        constants always draw afresh.
    batches : {"balanced", "equal"}
        Balanced ones allow up to 3/2 times the step. Printed: equal.
    tuning : {"measured", "bound"}
        Minimise the bound with its terms weighted by what they were measured to be, or the proved bound itself. Makes a
        difference for problems that are not bilinear: larger steps, fewer samples. Privacy is the same.
    iterations, samples : int or None
        T and K; None: chosen from public facts.

    Raises
    ------
    InvalidParameterError
        If the parameters do not fit together.
    """
    check_relation(privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("output", output, OUTPUTS)
    _validate.choice("batches", batches, ("balanced", "equal"))
    _validate.choice("tuning", tuning, ("measured", "bound"))
    if iterations is not None and _validate.integer("iterations", iterations, at_least=2) > problem.n:
        raise InvalidParameterError("iterations", iterations, f"must be at most n={problem.n}")
    if samples is not None:
        _validate.integer("samples", samples, at_least=1)
    if not math.isfinite(sum(problem.spread) + sum(problem.lipschitz)):
        raise InvalidParameterError("problem", problem.name, "must have bounded gradients", "Clip them")
    if not any(problem.spread):
        raise InvalidParameterError("problem", problem.name, "must depend on its records", "Solve it without privacy")
    with within_floats(problem.name):
        if constants == "paper":
            schedule = printed(problem, privacy.epsilon, privacy.delta, T=iterations, K=samples)
        else:
            root = privacy.epsilon if privacy.pure else math.sqrt(8 * largest_rho(privacy.epsilon, privacy.delta))
            schedule = calibrated(
                problem,
                root / ENLARGEMENT * (1 - 1e-6),
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
