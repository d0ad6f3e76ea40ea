"""All methods for a private saddle point over two simplices, or a minimizer over one, and the choice among them."""

import math

from dpconvex.algorithms.minimax import anytime, bias_reduced, boosted, constant, frank_wolfe, gaussian, vertex_descent
from dpconvex.algorithms.minimax.base import SaddlePlan
from dpconvex.algorithms.select import Method, Options, Registry
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import SimplexSaddle

VERTEX_DESCENT = Method("vertex_mirror_descent", vertex_descent.plan, ("constants",))
MIRROR_DESCENT = Method("gaussian_mirror_descent", gaussian.plan_longest)

SADDLE_METHODS = Registry(
    "saddle",
    VERTEX_DESCENT,
    MIRROR_DESCENT,
    Method("sgda", gaussian.plan_sgda),
    Method("multiplicative_weights", gaussian.plan_multiplicative_weights),
    Method("bias_reduced_mirror_descent", bias_reduced.plan, ("constants",)),
    Method("boosted_mirror_descent", boosted.plan, ("constants",)),
)  #: Methods for two players: ``planner(problem, privacy, **options) -> SaddlePlan``.

SPARSE_METHODS = Registry(
    "sparse",
    Method("frank_wolfe", frank_wolfe.plan),
    Method("anytime_mirror_descent", anytime.plan, ("constants",)),
    VERTEX_DESCENT,
    MIRROR_DESCENT,
    Method("variance_reduced_frank_wolfe", frank_wolfe.plan_variance_reduced, ("constants",)),
    Method("constant", constant.plan),
)  #: Methods for one player, with planners of the same form.


def plan_saddle(
    problem: SimplexSaddle, privacy: PrivacyParams, algorithm: str = "auto",
    *, constants: str = "calibrated", sums: bool = False,
) -> tuple[SaddlePlan, ...]:  # fmt: skip
    """Return all valid plans, the smallest `SaddlePlan.expectation` first, for one player (``dy = 1``) or two.

    Sees no data. With `sums`, only plans that need nothing but sums over all records. With delta 0 the methods with
    Gaussian noise do not apply; ``constants="paper"`` leaves only methods of the saddle-point paper. Raises
    `InvalidParameterError` if no method applies.
    """
    methods, options = SPARSE_METHODS if problem.dy == 1 else SADDLE_METHODS, Options(constants, sums=sums)
    found, refusals = methods.choose(methods.names(algorithm), options, (problem, privacy), _rank, problem.name)
    if not found:
        remedy = "Use algorithm='vertex_mirror_descent'"
        other = InvalidParameterError("constants", options.constants, "must be 'calibrated' for this algorithm", remedy)
        raise next(iter(refusals.values()), other)
    return found


def _rank(plan: SaddlePlan) -> tuple[bool, float]:
    _ = plan.releases  # raises if public constants are not representable as floats
    return not math.isfinite(plan.expectation), plan.expectation
