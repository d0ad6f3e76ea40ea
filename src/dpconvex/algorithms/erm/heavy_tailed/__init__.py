"""Pure epsilon-DP with heavy tails: only a moment of the gradients is bounded (Lowy 2026)."""

from dpconvex.algorithms.erm.heavy_tailed.localization import HeavyTailedPlan, plan
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, record_cap

__all__ = ["HeavyTailedPlan", "Moments", "plan", "record_cap"]
