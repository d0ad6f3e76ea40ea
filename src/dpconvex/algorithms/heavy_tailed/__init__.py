"""Pure epsilon-DP with heavy tails: only a moment of the gradients is bounded (Lowy 2026)."""

from dpconvex.algorithms.heavy_tailed.plan import HeavyTailedPlan, plan
from dpconvex.algorithms.heavy_tailed.private_moments import MomentPlan, plan_moments
from dpconvex.problems.moments import Moments, record_cap

__all__ = ["HeavyTailedPlan", "MomentPlan", "Moments", "plan", "plan_moments", "record_cap"]
