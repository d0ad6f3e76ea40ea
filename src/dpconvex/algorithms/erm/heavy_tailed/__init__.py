"""Pure epsilon-DP with heavy tails: only a moment of the gradients is bounded (Lowy 2026)."""

from dpconvex.algorithms.erm.heavy_tailed.localization import HeavyTailedPlan, plan
from dpconvex.algorithms.erm.heavy_tailed.moments import MomentPlan, Moments, plan_moments, record_cap

__all__ = ["HeavyTailedPlan", "MomentPlan", "Moments", "plan", "plan_moments", "record_cap"]
