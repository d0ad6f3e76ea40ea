"""Methods that others published and nobody needs here but to compare with; small plans for the audit to attack."""

from dpconvex_experiments.reference import group_privacy, objectives

__all__ = ["group_privacy", "objectives"]
