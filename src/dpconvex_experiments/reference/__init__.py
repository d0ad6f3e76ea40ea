"""Methods that others published and nobody needs here but to compare with."""

from dpconvex_experiments.reference import gradient_score, group_privacy

__all__ = ["gradient_score", "group_privacy"]
