"""Methods that others published and nobody needs here but to compare with."""

from dpconvex_experiments.reference import group_privacy

__all__ = ["group_privacy"]
