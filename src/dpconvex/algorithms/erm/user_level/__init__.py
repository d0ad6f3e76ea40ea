"""User-level privacy: everything that one person contributed is protected (Lowy, Liu and Asi 2024)."""

from dpconvex.algorithms.erm.user_level.accelerated import AcceleratedPlan, plan_accelerated
from dpconvex.algorithms.erm.user_level.phased import PhasedPlan, plan_phased

__all__ = ["AcceleratedPlan", "PhasedPlan", "plan_accelerated", "plan_phased"]
