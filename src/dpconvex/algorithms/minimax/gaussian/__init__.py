"""Saddle-point methods known from elsewhere: noisy mirror descent, DP-SGDA, private multiplicative weights."""

from dpconvex.algorithms.minimax.gaussian.gaussian_descent import (
    GEOMETRIES,
    GaussianDescentPlan,
    plan_mirror_descent,
    plan_sgda,
)
from dpconvex.algorithms.minimax.gaussian.multiplicative_weights import (
    MultiplicativeWeightsPlan,
    plan_multiplicative_weights,
)

__all__ = [
    "GEOMETRIES",
    "GaussianDescentPlan",
    "MultiplicativeWeightsPlan",
    "plan_mirror_descent",
    "plan_multiplicative_weights",
    "plan_sgda",
]
